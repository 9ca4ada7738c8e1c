"""Fits that were saved, with their models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybayesridge._types import PathOrFile
from pybayesridge.results import files as saved

if TYPE_CHECKING:
    from pybayesridge.models.ridge import BayesRidge
    from pybayesridge.models.spike_slab import SpikeSlab
    from pybayesridge.results.returned import RidgeResults, SelectionResults


def load(path: PathOrFile, *, allow_code: bool = False) -> RidgeResults[BayesRidge] | SelectionResults[SpikeSlab]:
    """Read results of a model that ``results.save`` (or ``--save`` of the command line) wrote.

    Reading a file of text and numbers, which is what ``save`` writes by default, runs no code, and neither do
    predictions from it: a formula in it that does more than compute with columns, the transforms of the formula
    language and the functions of NumPy is refused. A pickle (``format="pickle"``, or made by ``pickle.dump``) runs
    whatever code is in it when it is read, and is refused too.

    Parameters
    ----------
    path : str, os.PathLike or binary file
    allow_code : bool
        Whether to read such files all the same: fits whose formulas call methods or your own functions, and pickles.
        They can do anything you can: use it only for files from a source that you trust.

    Returns
    -------
    BayesRidgeResults, BandRidgeResults, GeneralizedRidgeResults, SpikeSlabResults or GeneralizedSpikeSlabResults
        What was saved.

    Raises
    ------
    ValueError
        If the file holds something else, is damaged or was changed, was written by a later version, or requires
        ``allow_code=True``; the message says which. Memory is taken in proportion to the size of the file.
    OSError
        If it cannot be read.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import statsmodels.api as sm
    >>> import pybayesridge
    >>> longley = sm.datasets.longley.load_pandas().data
    >>> res = pybayesridge.BayesRidge.from_formula("TOTEMP ~ GNP + UNEMP", longley).fit()
    >>> file = pathlib.Path(tempfile.mkdtemp(), "longley.fit")
    >>> res.save(file, remove_data=True)
    >>> pybayesridge.load(file).predict({"GNP": [555000], "UNEMP": [4000]}).round().tolist()
    [71175.0]
    """
    return saved.read(path, saved.Saveable, allow_code=allow_code)
