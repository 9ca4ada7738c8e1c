"""Averages over rows of predictions and of their changes, and the posterior of these."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pybayesridge._types import FloatArray, IntArray, RandomLike
from pybayesridge.families.family import Family
from pybayesridge.late import Late
from pybayesridge.posterior.laws import AROUND_MEDIAN, Ask, mixed_error, total_moments
from pybayesridge.results.arguments import unit_rows
from pybayesridge.results.contrast import Parts, as_table, combined, law_of
from pybayesridge.results.variables import Variables

if TYPE_CHECKING:
    from pybayesridge.results import monte_carlo as sampling
    from pybayesridge.sites import average as of_means
    from pybayesridge.sites.average import AveragedRows, Law
else:
    sampling = Late("pybayesridge.results.monte_carlo")
    of_means = Late("pybayesridge.sites.average")

DRAWS = 4000
"""Draws for averages of means of responses."""

FEW = 40
"""Rows whose means are computed at once for all draws: they stay in the processor's cache."""

ELEMENTS = 1 << 22
"""Most numbers in a block of rows of the design."""

LARGEST_REST = 0.03
"""Largest variance that an average's linear part lacks, relative to its own: above this averages are drawn."""

ERROR_OF_MEDIAN = 1.2533141373155003
"""Standard error of a median relative to that of a mean: the root of pi / 2, for normal draws."""

AT = ("mean", "observed")

SHOWN = ["mean", "sd", "lower", "upper"]

Unit = tuple[int, ...]
"""Penalised columns that are in or out together; none of them where draws are from the joint Gaussian."""


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
    res: Parts,
    founds: Sequence[Variables],
    changes: Sequence[Change],
    *,
    alpha: float,
    which: str,
    rng: RandomLike,
    target: int,
) -> pd.DataFrame:
    """A row for each change, with the columns of a contrast; `founds` has the variables of each of `res.parts`."""
    for name in dict.fromkeys(change.variable for change in changes if change.ends is None):
        for found in founds:
            found.refuse_jumps(name)
    if which == "mean" and not res.parts[0].model.distribution.is_linear:
        held = [_Rows(found, {}) for found in founds]
        return of_averages(res, [[_parts_of(rows, change) for rows in held] for change in changes], alpha, rng)
    weights = [_weights_of(found, changes) for found in founds]
    return as_table(combined(res, weights, np.zeros(len(changes)), alpha, target))


def _weights_of(found: Variables, changes: Sequence[Change]) -> FloatArray:
    """The combinations of coefficients that changes are, (m, k)."""
    if found.is_linear:
        return np.stack([_of_columns(found, change) for change in changes])
    return _changes(changes, lambda point: _average(found, point), lambda variable: _slope(found, variable))


def predictions_of(
    res: Parts,
    founds: Sequence[Variables],
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
    founds[0].warn_outside({str(name): grid[name].tolist() for name in grid})
    points = [{str(name): grid[name].iloc[i] for name in grid} for i in range(len(grid))]
    curved = which == "mean" and not res.parts[0].model.distribution.is_linear
    if curved and at == "observed":
        held = [_Rows(found, {}) for found in founds]
        table = of_averages(res, [[_parts_at(rows, point) for rows in held] for point in points], alpha, rng)
        table = table[[*SHOWN, "mcse"]]
    else:
        weights = [
            found.centered(grid) if at == "mean" else np.stack([_average(found, point) for point in points])
            for found in founds
        ]
        if curved:
            table = _means_of_responses(res, weights, alpha)
        else:
            table = as_table(combined(res, weights, np.zeros(len(grid)), alpha, target))
            table = table[[*SHOWN, *(["mcse"] if "mcse" in table else [])]]
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


def _means_of_responses(res: Parts, rows: Sequence[FloatArray], alpha: float) -> pd.DataFrame:
    """Posterior of the means of responses at rows of the design of each of the parts."""
    means, sds, errors = [], [], []
    for part, own in zip(res.parts, rows, strict=True):
        posterior: Any = part.posterior
        of_z, penalized = part.model.positions(posterior.design)
        means.append(posterior.response_means(own[:, penalized], own[:, of_z]))
        sds.append(posterior.response_sds(own[:, penalized], own[:, of_z]))
        errors.append(
            posterior.response_errors(own[:, penalized], own[:, of_z]) if sampling.is_sampled(part) else None
        )
    law = law_of(res, list(rows), np.zeros(len(rows[0])), 0)
    family = res.parts[0].model.distribution
    ends = family.mean(law.ask(Ask((alpha / 2, 1 - alpha / 2), sd=False)).quantiles[:, 0])
    moments = (means[0], sds[0]) if len(means) == 1 else total_moments(means, sds)
    if not family.has_mean:
        low, middle, high = family.mean(law.ask(Ask(AROUND_MEDIAN, sd=False)).quantiles[:, 0]).T
        moments = middle, 0.5 * (high - low)
    error = mixed_error(errors)
    table = pd.DataFrame(dict(zip(SHOWN, [*moments, *ends.T], strict=True)))
    return table if error is None else table.assign(mcse=error)


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows of the design with some variables at given values; kept where they are few.

    Attributes
    ----------
    found : Variables
    kept : dict
    """

    found: Variables
    kept: dict[Any, list[Any]]

    def of(self, key: Any, make: Callable[[pd.DataFrame], Any]) -> Iterable[tuple[Any, FloatArray]]:
        """Blocks of what `make` makes of the data, and the weights of the rows."""
        blocks = ((make(rows), weight) for rows, weight in self.found.blocks(_block(self.found)))
        if len(self.found.rows("an average over rows")) > _block(self.found):
            return blocks
        if key not in self.kept:
            self.kept[key] = list(blocks)
        return self.kept[key]

    def at(self, point: Mapping[str, Any]) -> Iterable[tuple[FloatArray, FloatArray]]:
        """Rows of the design with some variables at given values."""
        found = self.found
        return self.of(tuple(point.items()), lambda rows: found.design(found.changed(rows, point) if point else rows))


def _parts_of(rows: _Rows, change: Change) -> Callable[[], Iterator[AveragedRows]]:
    """The rows of the average that a change is."""

    def parts() -> Iterator[AveragedRows]:
        if change.ends is not None:
            for sign, end in zip((-1.0, 1.0), change.ends, strict=True):
                for design, weight in rows.at({change.variable: end}):
                    yield of_means.AveragedRows(design, sign * weight)
            return
        slopes = rows.of((change, "slopes"), lambda some: rows.found.slopes(some, change.variable))
        for (design, weight), (slope, _) in zip(rows.at({}), slopes, strict=True):
            yield of_means.AveragedRows(design, weight, slope)

    return parts


def _parts_at(rows: _Rows, point: Mapping[str, Any]) -> Callable[[], Iterator[AveragedRows]]:
    """The rows of an average with some variables at given values."""
    return lambda: (of_means.AveragedRows(design, weight) for design, weight in rows.at(point))


def of_averages(
    res: Parts,
    averages: Sequence[Sequence[Callable[[], Iterator[AveragedRows]]]],
    alpha: float,
    rng: RandomLike,
) -> pd.DataFrame:
    """The columns of a contrast for averages: by the components of the posterior, or by draws.

    Each average has the rows of each of the parts.
    """
    posteriors: list[Any] = [part.posterior for part in res.parts]
    components = []
    for part, posterior in zip(res.parts, posteriors, strict=True):
        rows = unit_rows(part.model, posterior.design, list(range(len(part.model.exog_names))))
        components.append(posterior.components(*rows))
    family, generator = res.parts[0].model.distribution, np.random.default_rng(rng)
    drawn: tuple[FloatArray, ...] = ()
    states: tuple[IntArray, ...] = ()
    drawn_for: list[Unit] = []
    sampled = all(sampling.is_sampled(part) for part in res.parts)
    by_ep = not sampled and all(posterior.has_point_masses for posterior in posteriors)
    tables = []
    for each in averages:
        laws = [
            of_means.law_of_average(own, family, parts)
            for own, parts in zip(components, each, strict=True)
            if own is not None
        ]
        if len(laws) == len(each) and max(law.rest for law in laws) <= LARGEST_REST:
            law = of_means.mixed(laws)
            ends = law.quantiles(np.array([alpha / 2, 1 - alpha / 2])).tolist()
            values = [*_moments(law, family), *ends, law.above(0.0), 0.0]
            tables.append(pd.DataFrame([values], columns=[*SHOWN, "prob_positive", "mcse"]))
            continue
        found = [_unit_that_changes(*both) if by_ep else ((), None) for both in zip(res.parts, each, strict=True)]
        units = [unit for unit, _ in found]
        if not drawn or units != drawn_for:
            asked = zip(res.parts, units, strict=True)
            drawn, states = zip(*(_coefficients(part, unit, generator, sampled) for part, unit in asked), strict=True)
            drawn_for = units
        values = [_drawn(parts(), own, family) for parts, own in zip(each, drawn, strict=True)]
        tables.append(_of_draws(np.concatenate(values)[None], alpha, family, with_zeros=sampled or by_ep))
        zeros = [zero for _, zero in found if zero is not None]
        if zeros:
            tables[-1]["prob_zero"] = max(zeros)
        if sampled:
            mixed_in = zip(posteriors, values, states, strict=True)
            tables[-1]["mcse"] = mixed_error([part.exact.error_of_draws(*of_part) for part, *of_part in mixed_in])
    return pd.concat(tables, ignore_index=True)


def _coefficients(
    part: Any, unit: Unit, generator: np.random.Generator, sampled: bool
) -> tuple[FloatArray, IntArray]:
    """Draws of all coefficients (k, draws), and the states of the sampler that they come from."""
    states = np.zeros(0, dtype=np.intp)
    if sampled:
        of_z, b, _, others = part.posterior.draw_with_hyperparameters(DRAWS, generator)
        states = others["state"].astype(np.intp)
    elif unit:
        of_z, b = part.posterior.draws_of_unit(DRAWS, generator, np.array(unit))
    else:
        of_z, b = part.posterior.draws(DRAWS, generator)
    return part.model.scatter(of_z.T, b.T, part.posterior.design), states


def _unit_that_changes(part: Any, average: Callable[[], Iterator[AveragedRows]]) -> tuple[Unit, float | None]:
    """The penalised columns of the one unit of selection that a change moves, and the probability of no change.

    As contrasts by expectation propagation: within one unit both follow from spike and slab, and the probability is
    None here. Otherwise there is no such unit, and the probability is 0 where a column that is surely in is moved
    too, and else NaN.
    """
    posterior = part.posterior
    of_z, penalized = part.model.positions(posterior.design)
    moved = _moved(average, len(part.model.exog_names))
    x_row, z_row = moved[penalized], moved[of_z]
    slabs = posterior.slabs(x_row[None], z_row[None])
    if slabs.rows[0]:
        units = posterior.units()
        return tuple(np.flatnonzero(units == units[x_row.argmax()]).tolist()), None
    if not (x_row.any() or z_row.any()):
        return (), None
    return (), 0.0 if slabs.certain[0] else np.nan


def _moved(average: Callable[[], Iterator[AveragedRows]], k: int) -> FloatArray:
    """Columns of the design that a change moves, as ones and zeros, (k,); all of them if it is no change."""
    moved = [(part.slopes != 0).any(axis=0) for part in average() if part.slopes is not None]
    before = (part.rows for part in average() if part.slopes is None and np.signbit(part.weight).any())
    after = (part.rows for part in average() if part.slopes is None and not np.signbit(part.weight).any())
    moved += [(first != second).any(axis=0) for first, second in zip(before, after, strict=False)]
    return np.any(moved, axis=0).astype(np.float64) if moved else np.ones(k)


def _drawn(parts: Iterable[AveragedRows], coefficients: FloatArray, family: Family) -> FloatArray:
    """An average for each draw of the coefficients (k, draws)."""
    # Rows that are added and those that are subtracted have a sum each: a change that is zero is so exactly.
    added, subtracted = np.zeros((2, coefficients.shape[1]))
    for part in parts:
        total = subtracted if part.weight.min(initial=0.0) < 0 else added
        for some in _few(len(part.rows)):
            linear = part.rows[some] @ coefficients
            if part.slopes is None:
                values = family.mean(linear)
            else:
                values = family.mean_slope(linear) * (part.slopes[some] @ coefficients)
            total += np.abs(part.weight[some]) @ values
    return added - subtracted


def _few(count: int) -> Iterator[slice]:
    return (slice(start, start + FEW) for start in range(0, count, FEW))


def _moments(law: Law, family: Family) -> tuple[float, float]:
    """Mean and standard deviation, or the median and the half distance of quantiles in their place."""
    if family.has_mean:
        return law.mean, law.sd
    low, middle, high = law.quantiles(np.array(AROUND_MEDIAN)).tolist()
    return middle, 0.5 * (high - low)


def _of_draws(values: FloatArray, alpha: float, family: Family, *, with_zeros: bool = False) -> pd.DataFrame:
    """The columns of a contrast, of draws (m, draws), and the Monte Carlo standard error of the means or medians."""
    center, sd, error = values.mean(axis=1), values.std(axis=1, ddof=1), 1.0
    if not family.has_mean:
        lower, center, upper = np.quantile(values, AROUND_MEDIAN, axis=1)
        sd, error = 0.5 * (upper - lower), ERROR_OF_MEDIAN
    low, high = np.quantile(values, [alpha / 2, 1 - alpha / 2], axis=1)
    columns = [center, sd, low, high]
    out = dict(zip(SHOWN, columns, strict=True)) | {"prob_positive": (values > 0).mean(axis=1)}
    if with_zeros:
        out["prob_zero"] = (values == 0).mean(axis=1)
    return pd.DataFrame(out | {"mcse": error * sd / np.sqrt(values.shape[1])})
