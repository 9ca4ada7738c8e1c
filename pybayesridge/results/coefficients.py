"""Tables of all coefficients in files, written some rows at a time; fits whose columns are read in blocks."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any, Self, TypeVar

import numpy as np

from pybayesridge._types import FloatArray, IntArray, PathLike
from pybayesridge.design.columns import ColumnStream, Detached
from pybayesridge.results.arguments import check_alpha, standardized_size, unit_rows
from pybayesridge.results.penalty import PenaltyResults
from pybayesridge.ridge import hyperparameters as hyper
from pybayesridge.ridge.by_column import ColumnsPosterior, joined_answers
from pybayesridge.streams.tables import suffix_of, write_table
from pybayesridge.text import TABLE_ROWS

Results = TypeVar("Results", bound=PenaltyResults)

KEPT = (
    "the rows of a fit of from_columns cannot be removed, since it consists of cross-products of them: keep the file "
    "of write_coefficients() in place of the fit"
)
"""The message of what removes rows."""

ROWS = 1 << 16
"""Coefficients that are written at once where all of them are in memory."""


class ColumnResults(PenaltyResults):
    """Results of a ridge whose columns may be read in blocks: coefficients, and files of them."""

    @cached_property
    def params(self) -> FloatArray:  # type: ignore[override]
        """Posterior means of the coefficients, user's scale; (k,) or (k, q)."""
        return self._squeeze(self.model.scatter(*self.posterior.coefficients(), self.posterior.design))

    @cached_property
    def fittedvalues(self) -> FloatArray:
        """Posterior mean of the linear predictor at the rows of the data, (n,) or (n, q)."""
        if isinstance(self.posterior, ColumnsPosterior):
            return self._squeeze(self._row_moments(self.posterior.own_rows())[0])
        return super().fittedvalues

    @cached_property
    def rsquared(self) -> float | FloatArray:
        """R-squared: share of the (weighted) variation explained; about the mean if the model has a constant."""
        if not isinstance(self.posterior, ColumnsPosterior):
            return super().rsquared
        no_params = np.empty((0, len(self.model.data.targets)))

        def residuals(part: slice) -> FloatArray:
            return self.resid if self.model.one_target else self.resid[:, part]

        constant = bool(self.model.k_constant)
        return self._per_target(self.model.source.rsquared(no_params, residuals, constant=constant))

    def _draw_rows(self, size: int, generator: np.random.Generator, target: int) -> tuple[FloatArray, FloatArray]:
        """Draws of the linear predictor of the rows of the fit, (size, n), and of sigma2, (size,), for one target."""
        fit, design = self.ridge_fit, self.posterior.design
        return hyper.draw_rows(design, fit.spectrum, self.penalty_model(), fit.mixture, target, size, generator)

    def as_saved(self, remove_data: bool, row_space: bool) -> Self:
        """These results, or a copy of them without data; see :meth:`LinearResults.as_saved`."""
        saved = super().as_saved(remove_data, row_space)
        return detached(saved) if self.posterior.design.in_blocks else saved

    def some_coefficients(
        self, positions: list[int], target: int, alpha: float
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Means, standard deviations and intervals of a few coefficients, without those of the others."""
        if self.posterior.design.in_blocks:
            return some_in_blocks(self, positions, target, alpha)
        params = self.params if self.model.one_target else self.params[:, target]
        if len(positions) > TABLE_ROWS or len(positions) == len(params) or not self.has_joint_posterior:
            at: tuple[Any, ...] = (positions,) if self.model.one_target else (positions, target)
            return params[positions], self.bse[at], self.conf_int(alpha)[at]
        design = self.posterior.design
        x_rows, z_rows = unit_rows(self.model, design, positions)
        prepared = self.posterior.row_functions(x_rows, z_rows)
        sd = self.posterior.row_moments(prepared)[1][:, target]
        interval = self.posterior.row_intervals(prepared, alpha, None)[:, target]
        return params[positions], sd, interval

    def standardized_size(self, target: int) -> FloatArray:
        """Size of the coefficients per standard deviation; unpenalised ones always come first."""
        b = self.params if self.model.one_target else self.params[:, target]
        return standardized_size(self.model, self.posterior.design, b)

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
        in_blocks = isinstance(self.posterior, ColumnsPosterior)
        values = _in_blocks(self, alpha) if in_blocks else _in_memory(self, alpha)
        names = list(self.model.exog_names)
        write_table(path, (_columns(self, names, *some) for some in values), kind)


def _columns(res: PenaltyResults, names: list[str], first: int, values: FloatArray) -> dict[str, Any]:
    """Columns of the table, from the coefficient at position `first` on, of values (b, q, 4)."""
    b, q = values.shape[:2]
    flat = values.reshape(b * q, 4)
    out: dict[str, Any] = {
        "term": [name for name in names[first : first + b] for _ in range(q)],
        **{name: flat[:, i] for i, name in enumerate(("estimate", "std_error", "conf_low", "conf_high"))},
    }
    return out if res.model.one_target else out | {"target": list(res.model.data.targets) * b}


def _in_memory(res: PenaltyResults, alpha: float) -> Iterator[tuple[int, FloatArray]]:
    k, q = len(res.model.exog_names), len(res.model.data.targets)
    parts = [res.params.reshape(k, q), res.bse.reshape(k, q), res.conf_int(alpha).reshape(k, q, 2)]
    for first in range(0, k, ROWS):
        yield first, np.dstack([part[first : first + ROWS] for part in parts])


def _in_blocks(res: PenaltyResults, alpha: float) -> Iterator[tuple[int, FloatArray]]:
    posterior, model = res.posterior, res.model
    assert isinstance(posterior, ColumnsPosterior)
    design, q = posterior.design, posterior.design.q
    tails = np.array([alpha / 2, 1 - alpha / 2])
    z_at, at = model.positions(design)
    names = model.exog_names
    first = len(names) - len(model.data.exog_columns) + design.x.first
    out = np.zeros((first, q, 4))
    out[z_at] = np.dstack([posterior.mean_of_z(), posterior.sd_of_z(), posterior.quantiles_of_z(tails)])
    yield 0, out
    for answer in posterior.answers(posterior.question(sd=True, probabilities=tails)):
        if not answer.part.size:
            continue
        # Constant columns, which have coefficient 0, stand between the others.
        where = at[answer.part]
        out = np.zeros((int(where[-1]) + 1 - first, q, 4))
        out[where - first] = answer.table()
        yield first, out
        first += len(out)
    if first < len(names):
        yield first, np.zeros((len(names) - first, q, 4))


def some_in_blocks(
    res: PenaltyResults, positions: list[int], target: int, alpha: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Means, standard deviations and intervals of a few coefficients, reading only the blocks of their columns."""
    posterior = res.posterior
    assert isinstance(posterior, ColumnsPosterior)
    tails = np.array([alpha / 2, 1 - alpha / 2])
    z_at, at = res.model.positions(posterior.design)
    found: dict[int, FloatArray] = {}
    of_z = np.dstack([posterior.mean_of_z(), posterior.sd_of_z(), posterior.quantiles_of_z(tails)])
    found |= {int(position): of_z[i, target] for i, position in enumerate(z_at)}
    wanted: IntArray = np.flatnonzero(np.isin(at, positions))
    if wanted.size:
        question = posterior.question(sd=True, probabilities=tails)
        answer = posterior.answer_for(question, wanted)
        values = answer.table()
        found |= {int(at[j]): values[i, target] for i, j in enumerate(wanted)}
    table = np.array([found.get(int(position), np.zeros(4)) for position in positions]).reshape(-1, 4)
    return table[:, 0], table[:, 1], table[:, 2:]


def settle_in_blocks(res: Any) -> None:
    """Coefficients and their standard deviations, by one pass for both where neither is there."""
    posterior = res.posterior
    assert isinstance(posterior, ColumnsPosterior)
    if "params" in vars(res) and "bse" in vars(res):
        return
    question = posterior.question(sd=True)
    found = joined_answers(posterior.answers(question), question)
    assert found.sd is not None
    scatter, design = res.model.scatter, posterior.design
    for name, of_z, of_x in (("params", posterior.mean_of_z(), found.mean), ("bse", posterior.sd_of_z(), found.sd)):
        both = scatter(of_z, of_x, design)
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
