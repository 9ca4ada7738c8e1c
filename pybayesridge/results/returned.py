"""Results as ``fit`` and ``load`` return them: what type checkers know where the class depends on the family."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import pandas as pd

from pybayesridge._types import PathOrFile
from pybayesridge.results import files as saved
from pybayesridge.results.bands import BandRidgeResults
from pybayesridge.results.generalized_bands import GeneralizedBandRidgeResults
from pybayesridge.results.generalized_spike_slab import GeneralizedSpikeSlabResults
from pybayesridge.results.ridge import BayesRidgeResults

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from pybayesridge._types import ArrayLike, RowsLike
    from pybayesridge.models.ridge import BayesRidge
    from pybayesridge.models.spike_slab import SpikeSlab
    from pybayesridge.results.prediction import BayesPrediction

    class RidgeResults(BayesRidgeResults, BandRidgeResults, GeneralizedBandRidgeResults):  # type: ignore[misc]
        """What ``BayesRidge.fit`` returns: one of the four, which depends on the family and on bands."""

        model: BayesRidge

        def predict(  # type: ignore[override]
            self,
            exog: RowsLike | None = None,
            transform: bool = True,
            which: str = "mean",
            exposure: ArrayLike | str | None = None,
        ) -> pd.Series | pd.DataFrame:
            """See :meth:`LinearResults.predict`, and with `which` :meth:`GeneralizedRidgeResults.predict`."""

        def get_prediction(  # type: ignore[override]
            self,
            exog: RowsLike | None = None,
            transform: bool = True,
            weights: ArrayLike | None = None,
            which: str = "mean",
            row_labels: Sequence[Hashable] | pd.Index | None = None,
            exposure: ArrayLike | str | None = None,
        ) -> BayesPrediction:
            """See :meth:`LinearResults.get_prediction` and :meth:`GeneralizedRidgeResults.get_prediction`."""

    class SelectionResults(GeneralizedSpikeSlabResults):
        """What ``SpikeSlab.fit`` returns: one of the two, which of them depends on the family."""

        model: SpikeSlab
        params: pd.Series
        bse: pd.Series
        posterior_var: pd.Series
        prob_positive: pd.Series
        prob_zero: pd.Series
        fittedvalues: pd.Series
        resid: pd.Series
        rsquared: float
        inclusion_prob: pd.Series
        inclusion_se: pd.Series
        cond_mean: pd.Series
        cond_var: pd.Series
        sigma2: float
        noise_var: float

        def predict(  # type: ignore[override]
            self, exog: RowsLike | None = None, transform: bool = True, which: str = "mean"
        ) -> pd.Series:
            """See :meth:`LinearResults.predict`, and with `which` :meth:`GeneralizedSpikeSlabResults.predict`."""

        def get_prediction(  # type: ignore[override]
            self,
            exog: RowsLike | None = None,
            transform: bool = True,
            weights: ArrayLike | None = None,
            which: str = "mean",
            row_labels: Sequence[Hashable] | pd.Index | None = None,
        ) -> BayesPrediction:
            """As of the ridge: see :meth:`LinearResults.get_prediction`."""

    AnyResults: TypeAlias = RidgeResults | SelectionResults


def load(path: PathOrFile, *, allow_code: bool = False) -> AnyResults:
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
    results: AnyResults = saved.read(path, saved.Saveable, allow_code=allow_code)
    return results
