"""Tables of all coefficients in files, written some rows at a time; fits whose columns are read in blocks."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Self, TypeVar

import numpy as np

from pybayesridge._types import FloatArray, PathLike
from pybayesridge.design.columns import ColumnStream, Detached
from pybayesridge.posterior.laws import Ask
from pybayesridge.results.arguments import check_alpha
from pybayesridge.results.base import LinearResults
from pybayesridge.results.ridge_estimates import RidgeEstimates
from pybayesridge.streams.tables import suffix_of, write_table

Results = TypeVar("Results", bound=RidgeEstimates)

KEPT = (
    "the rows of a fit of from_columns cannot be removed, since it consists of cross-products of them: keep the file "
    "of write_coefficients() in place of the fit"
)
"""The message of what removes rows."""

ROWS = 1 << 16
"""Coefficients that are written at once."""


class ColumnResults(RidgeEstimates, LinearResults):
    """Results of a ridge whose columns may be read in blocks: coefficients, and files of them."""

    def _fitted(self) -> FloatArray:
        if self.posterior.design.in_blocks:
            return self._squeeze(self.posterior.own_rows().ask(Ask(sd=False)).mean)
        return super()._fitted()

    def _rsquared(self) -> float | FloatArray:
        if not self.posterior.design.in_blocks:
            return super()._rsquared()
        no_params = np.empty((0, len(self.model.data.targets)))

        def residuals(part: slice) -> FloatArray:
            out: FloatArray = self.arrays.resid if self.model.one_target else self.arrays.resid[:, part]
            return out

        constant = bool(self.model.k_constant)
        return self._per_target(self.model.source.rsquared(no_params, residuals, constant=constant))

    def _draw_rows(self, size: int, generator: np.random.Generator, target: int) -> tuple[FloatArray, FloatArray]:
        """Draws of the linear predictor of the rows of the fit, (size, n), and of sigma2, (size,), for one target."""
        return self.penalty.draw_rows(target, size, generator)

    def as_saved(self, remove_data: bool, row_space: bool) -> Self:
        """These results, or a copy of them without data, as of all results."""
        saved = super().as_saved(remove_data, row_space)
        return detached(saved) if self.posterior.design.in_blocks else saved

    def write_coefficients(self, path: PathLike, alpha: float = 0.05) -> None:
        """Write a table of all coefficients to a Parquet or CSV file.

        A fit of ``from_columns`` reads its columns once and writes block by block: memory does not hold the table.

        Parameters
        ----------
        path : str or os.PathLike
            A name that ends in ``.parquet`` or ``.csv``. An old file is replaced once the new one is complete.
        alpha : float
            One minus the probability of the intervals.

        Raises
        ------
        ValueError
            For another suffix; for a source that gives other columns than when the model was made.
        OSError
            If the file cannot be written; what was there before is still there.
        ImportError
            For Parquet without pyarrow: ``pip install 'pybayesridge[stream]'``.

        Notes
        -----
        The columns are those of :meth:`tidy`: ``term``, ``estimate``, ``std_error``, ``conf_low``, ``conf_high``.
        With several targets there is a column ``target``, and all targets of a term stand together.

        Examples
        --------
        >>> import tempfile, pathlib
        >>> import numpy as np
        >>> import pandas as pd
        >>> from pybayesridge import BayesRidge
        >>> rng = np.random.default_rng(0)
        >>> x = rng.normal(size=(50, 1000))
        >>> res = BayesRidge.from_columns(x[:, :100].sum(axis=1) + rng.normal(size=50), x).fit()
        >>> file = pathlib.Path(tempfile.mkdtemp(), "coefficients.csv")
        >>> res.write_coefficients(file)
        >>> list(pd.read_csv(file).columns)
        ['term', 'estimate', 'std_error', 'conf_low', 'conf_high']
        """
        check_alpha(alpha)
        kind = suffix_of(path)
        names = list(self.model.exog_names)
        write_table(path, (_columns(self, names, *some) for some in _blocks(self, alpha)), kind)


def _columns(res: RidgeEstimates, names: list[str], first: int, values: FloatArray) -> dict[str, Any]:
    """Columns of the table, from the coefficient at position `first` on, of values (b, q, 4)."""
    b, q = values.shape[:2]
    flat = values.reshape(b * q, 4)
    out: dict[str, Any] = {
        "term": [name for name in names[first : first + b] for _ in range(q)],
        **{name: flat[:, i] for i, name in enumerate(("estimate", "std_error", "conf_low", "conf_high"))},
    }
    return out if res.model.one_target else out | {"target": list(res.model.data.targets) * b}


def _blocks(res: RidgeEstimates, alpha: float) -> Iterator[tuple[int, FloatArray]]:
    """Means, standard deviations and intervals (b, q, 4) of all coefficients, block after block."""
    at, first = np.concatenate(res.model.positions(res.posterior.design)), 0
    count, q = len(res.model.exog_names), len(res.model.data.targets)
    for which, answer in res.posterior.coefficients.blocks(Ask((alpha / 2, 1 - alpha / 2))):
        if not which.size:
            continue
        # Constant columns, which have coefficient 0, stand between the others.
        where = at[which]
        out = np.zeros((int(where.max()) + 1 - first, q, 4))
        out[where - first] = np.dstack([answer.mean, answer.sd, answer.quantiles])
        for start in range(0, len(out), ROWS):
            yield first + start, out[start : start + ROWS]
        first += len(out)
    if first < count:
        yield first, np.zeros((count - first, q, 4))


def settle_in_blocks(res: Any) -> None:
    """Coefficients and their standard deviations, by one pass for both where neither is there."""
    if "params" in vars(res) and "bse" in vars(res):
        return
    found = res.ask(Ask())
    for name, both in (("params", found.mean), ("bse", found.sd)):
        res.__dict__[name] = both[:, 0] if res.model.one_target else both


def detached(res: Results) -> Results:
    """A copy of the results without the source of the columns, with coefficients and standard deviations."""
    if isinstance(res.posterior.design.x, Detached):
        return res
    settle_in_blocks(res)
    out = copy.copy(res)
    stream: ColumnStream = res.posterior.design.x
    left = Detached(stream.shape, stream.first)
    design = replace(res.posterior.design, x=left)
    out.posterior = replace(res.posterior, design=design)
    out.model = copy.copy(res.model)
    out.model.source = replace(res.model.source, stream=left, ready=[])  # type: ignore[type-var]
    out.model._built = design  # noqa: SLF001
    return out
