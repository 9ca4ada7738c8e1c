"""Averages over rows of predictions and of their changes, and the posterior of these."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pandas as pd

from pybayesridge._types import FloatArray, RandomLike
from pybayesridge.binomial.ep_selection_posterior import BinaryEPPosterior
from pybayesridge.binomial.likelihood import probability, probability_slope
from pybayesridge.binomial.posterior import BinaryPosterior
from pybayesridge.binomial.selection_posterior import BinarySelectionPosterior
from pybayesridge.results.contrast import as_table, combined
from pybayesridge.results.variables import Variables

if TYPE_CHECKING:
    from pybayesridge.results.base import LinearResults

OnLink: TypeAlias = BinaryPosterior | BinarySelectionPosterior | BinaryEPPosterior
"""Posteriors of linear predictors that are not predictions themselves."""

DRAWS = 4000
"""Draws for averages of probabilities."""

ROWS = 1000
"""Rows whose part of the design is made at once."""

FEW = 40
"""Rows whose probabilities are computed at once for all draws: they stay in the processor's cache."""

ELEMENTS = 1 << 22
"""Most numbers in a block of rows of the design."""

AT = ("mean", "observed")

SHOWN = ["mean", "sd", "lower", "upper"]


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one variable.

    Attributes
    ----------
    variable, label : str
    ends : (a, b) or None
        From one value to another; None for the derivative.
    """

    variable: str
    label: str
    ends: tuple[Any, Any] | None


def effects_of(
    res: LinearResults,
    found: Variables,
    changes: Sequence[Change],
    *,
    alpha: float,
    which: str,
    rng: RandomLike,
    target: int,
) -> pd.DataFrame:
    """A row for each change, with the columns of a contrast; of probabilities by draws."""
    for name in dict.fromkeys(change.variable for change in changes if change.ends is None):
        found.refuse_jumps(name)
    if which == "mean" and isinstance(res.posterior, OnLink):
        average = _Drawn.of(res, rng)
        drawn = _changes(
            changes, lambda point: average.at(found, point), lambda variable: average.slope(found, variable)
        )
        return _of_draws(drawn, alpha, with_zeros=isinstance(res.posterior, BinarySelectionPosterior))
    if found.is_linear:
        weights = np.stack([_of_columns(found, change) for change in changes])
    else:
        weights = _changes(changes, lambda point: _average(found, point), lambda variable: _slope(found, variable))
    return as_table(combined(res, weights, np.zeros(len(changes)), alpha, target))


def predictions_of(
    res: LinearResults,
    found: Variables,
    grid: pd.DataFrame,
    *,
    at: str,
    alpha: float,
    which: str,
    rng: RandomLike,
    target: int,
) -> pd.DataFrame:
    """A row for each point of a grid, labelled by its values: mean, sd and interval."""
    if at not in AT:
        raise ValueError(f"at must be 'mean' or 'observed', not {at!r}")
    found.warn_outside({str(name): grid[name].tolist() for name in grid})
    points = [{str(name): grid[name].iloc[i] for name in grid} for i in range(len(grid))]
    binary = res.posterior if which == "mean" and isinstance(res.posterior, OnLink) else None
    if binary is not None and at == "observed":
        average = _Drawn.of(res, rng)
        table = _of_draws(np.stack([average.at(found, point) for point in points]), alpha)[[*SHOWN, "mcse"]]
    else:
        weights = found.centered(grid) if at == "mean" else np.stack([_average(found, point) for point in points])
        if binary is None:
            table = as_table(combined(res, weights, np.zeros(len(weights)), alpha, target))[SHOWN]
        else:
            table = _probabilities(res, binary, weights, alpha)
    if grid.columns.size:
        index = pd.MultiIndex.from_frame(grid) if grid.columns.size > 1 else pd.Index(grid.iloc[:, 0])
        table.index = index
    return table


def _changes(
    changes: Sequence[Change],
    at: Callable[[Mapping[str, Any]], FloatArray],
    slope: Callable[[str], FloatArray],
) -> FloatArray:
    """A row for each change: differences of what `at` gives for values, each computed once, or a `slope`."""
    ends = dict.fromkeys((change.variable, end) for change in changes for end in change.ends or ())
    averages = {(variable, end): at({variable: end}) for variable, end in ends}
    rows = []
    for change in changes:
        if change.ends is None:
            rows.append(slope(change.variable))
        else:
            a, b = change.ends
            rows.append(averages[change.variable, b] - averages[change.variable, a])
    return np.stack(rows)


def _of_columns(found: Variables, change: Change) -> FloatArray:
    """The change of a row of the design with one of its columns, (k,)."""
    out = np.zeros(len(found.model.exog_names))
    a, b = (0.0, 1.0) if change.ends is None else change.ends
    out[found.model.exog_names.index(change.variable)] = float(b) - float(a)
    return out


def _slope(found: Variables, variable: str) -> FloatArray:
    """Derivatives of the rows of the design with respect to a number, averaged, (k,)."""
    parts = [weight @ found.slopes(rows, variable) for rows, weight in found.blocks(_block(found))]
    averaged: FloatArray = np.sum(parts, axis=0)
    return averaged


def _average(found: Variables, point: Mapping[str, Any]) -> FloatArray:
    """Rows of the design with some variables at given values, averaged, (k,)."""
    parts = [weight @ found.design(found.changed(rows, point)) for rows, weight in found.blocks(_block(found))]
    averaged: FloatArray = np.sum(parts, axis=0)
    return averaged


def _block(found: Variables) -> int:
    return max(1, ELEMENTS // len(found.model.exog_names))


def _probabilities(res: LinearResults, posterior: OnLink, rows: FloatArray, alpha: float) -> pd.DataFrame:
    """Posterior of the probabilities at rows of the design."""
    of_z, penalized = res.model.positions(posterior.design)
    x, z = rows[:, penalized], rows[:, of_z]
    ends = posterior.probability_quantiles(x, z, np.array([alpha / 2, 1 - alpha / 2]))
    values = [posterior.probability_means(x, z), posterior.probability_sds(x, z), *ends.T]
    return pd.DataFrame(dict(zip(SHOWN, values, strict=True)))


@dataclass(frozen=True, slots=True)
class _Drawn:
    """Draws of the coefficients for averages of probabilities.

    Attributes
    ----------
    coefficients : (k, draws) array
    posterior : BinaryPosterior or BinarySelectionPosterior
    """

    coefficients: FloatArray
    posterior: OnLink

    @classmethod
    def of(cls, res: LinearResults, rng: RandomLike) -> _Drawn:
        """Draw from the posterior of a fit."""
        posterior = res.posterior
        assert isinstance(posterior, OnLink)
        of_z, b = posterior.draws(DRAWS, np.random.default_rng(rng))
        return cls(res.model.scatter(of_z.T, b.T, posterior.design), posterior)

    def at(self, found: Variables, point: Mapping[str, Any]) -> FloatArray:
        """Probabilities with some variables at given values, averaged over rows, for each draw."""
        out = np.zeros(self.coefficients.shape[1])
        for rows, weight in found.blocks(min(ROWS, _block(found))):
            design = found.design(found.changed(rows, point))
            for part in _parts(len(rows)):
                out += weight[part] @ probability(design[part] @ self.coefficients, self.posterior.link)
        return out

    def slope(self, found: Variables, variable: str) -> FloatArray:
        """Derivatives of probabilities with respect to a number, averaged over rows, for each draw."""
        out = np.zeros(self.coefficients.shape[1])
        for rows, weight in found.blocks(min(ROWS, _block(found))):
            design, slopes = found.design(rows), found.slopes(rows, variable)
            for part in _parts(len(rows)):
                of_link = probability_slope(design[part] @ self.coefficients, self.posterior.link)
                out += weight[part] @ (of_link * (slopes[part] @ self.coefficients))
        return out


def _parts(count: int) -> Iterator[slice]:
    return (slice(start, start + FEW) for start in range(0, count, FEW))


def _of_draws(values: FloatArray, alpha: float, *, with_zeros: bool = False) -> pd.DataFrame:
    """The columns of a contrast, of draws (m, draws), and the Monte Carlo standard error of the means."""
    sd = values.std(axis=1, ddof=1)
    low, high = np.quantile(values, [alpha / 2, 1 - alpha / 2], axis=1)
    columns = [values.mean(axis=1), sd, low, high]
    out = dict(zip(SHOWN, columns, strict=True)) | {"prob_positive": (values > 0).mean(axis=1)}
    if with_zeros:
        out["prob_zero"] = (values == 0).mean(axis=1)
    return pd.DataFrame(out | {"mcse": sd / np.sqrt(values.shape[1])})
