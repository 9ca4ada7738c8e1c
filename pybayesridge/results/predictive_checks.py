"""Posterior predictive checks: statistics of the response and of responses replicated from the posterior."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pandas as pd

from pybayesridge._types import FloatArray, IntArray, RandomLike
from pybayesridge.checks import positive_int
from pybayesridge.results.arguments import check_alpha, check_responses, target_position
from pybayesridge.text import listed, repeated

if TYPE_CHECKING:
    from pybayesridge.results.arviz import ChainDraws

Statistic: TypeAlias = str | Callable[[FloatArray], float]

NAMED: dict[str, Callable[[FloatArray], FloatArray]] = {
    "mean": lambda y: y.mean(axis=-1),
    "sd": lambda y: y.std(axis=-1, ddof=1) if y.shape[-1] > 1 else np.zeros(y.shape[:-1]),
    "min": lambda y: y.min(axis=-1),
    "max": lambda y: y.max(axis=-1),
    "zeros": lambda y: (y == 0).mean(axis=-1),
    "dispersion": lambda y: _dispersion(y),
}
"""Statistics of the last axis."""

FREQUENCIES = "frequencies"
"""The statistics that are the numbers of rows with each value."""

MOST_VALUES = 40
"""More whole numbers than these are counted in intervals of several."""

TAIL = 1e-3
"""Share of replicated responses that lie beyond the intervals of equal length, on each side."""

ELEMENTS = 4_000_000
"""Numbers of replicated responses, or of coefficients, that are held at once."""


def ppc(
    self: Any,
    stat: Statistic | Sequence[Statistic] | Mapping[str, Callable[[FloatArray], float]] | None = None,
    *,
    draws: int = 1000,
    alpha: float = 0.05,
    rng: RandomLike = 0,
    target: str | int | None = None,
) -> pd.DataFrame:
    """Posterior predictive check: compare statistics of the response with those of replicated responses.

    A replicated response is drawn for the rows of the fit, with coefficients and noise from the posterior. The
    posterior has seen the response, so that `p` varies less around one half than a p-value of a correct model: a
    value near 0 or 1 shows a misfit, a value near one half is no proof. For a stricter check see ``pit()``.

    Yes/no responses are 1 for the event and 0 otherwise; with `trials` the response is the share of successes of
    each row. A row whose frequency weight is a whole number counts as so many rows, each with its own replicated
    response; with other weights every row counts once. Of counts "zeros" is the share of rows with a count of 0, and
    "dispersion" the variance over the mean: if both are larger than those of replicated responses, counts vary more
    than Poisson counts of the fitted means do.

    "frequencies" stands for as many statistics as there are values of counts or ordered categories: the numbers of
    rows with each of them. Many counts are put in intervals of equal length, of which the first and the last are
    open where replicated counts go beyond.

    Parameters
    ----------
    stat : {"mean", "sd", "min", "max", "zeros", "dispersion", "frequencies"}, callable, sequence or dict, optional
        Statistics; by default the first four, of counts mean, sd, max, zeros and dispersion. A callable takes a
        response (n,) and returns a number; a dict names callables.
    draws : int, default 1000
        How many responses to replicate.
    alpha : float, default 0.05
        One minus the probability of the intervals.
    rng : numpy.random.Generator, int or None
        Source of randomness; by default the numbers are the same at each call.
    target : str or int, optional
        Which target, by name or position; needed where there are several.

    Returns
    -------
    DataFrame
        A row for each statistic: ``observed``, ``mean``, ``lower`` and ``upper`` of the replicated responses, and
        ``p``, the posterior predictive p-value: the share of replicated statistics above the observed one, equal ones
        counted half.

    Raises
    ------
    ValueError
        For an unknown statistic or target, one that is not a number, or if the rows were removed.

    Examples
    --------
    >>> import statsmodels.api as sm
    >>> from pybayesridge import BayesRidge
    >>> longley = sm.datasets.longley.load_pandas().data
    >>> res = BayesRidge.from_formula("TOTEMP ~ GNP + UNEMP", longley).fit()
    >>> res.ppc(["mean", "max"])["p"].round(1).to_dict()
    {'mean': 0.5, 'max': 0.8}
    """
    tails = [check_alpha(alpha) / 2, 1 - alpha / 2]
    functions = statistics(self.model.distribution.statistics if stat is None else stat)
    observed, found = replicated_statistics(self, functions, positive_int("draws", draws), rng, target, "ppc")
    rows = {}
    for name, values in found.items():
        above = (values > observed[name]).mean() + 0.5 * (values == observed[name]).mean()
        rows[name] = [observed[name], values.mean(), *np.quantile(values, tails), above]
    return pd.DataFrame.from_dict(rows, orient="index", columns=["observed", "mean", "lower", "upper", "p"])


def _dispersion(y: FloatArray) -> FloatArray:
    """Variance over the mean; 0 where all are 0."""
    mean, variance = y.mean(axis=-1), NAMED["sd"](y) ** 2
    out: FloatArray = variance / np.where(mean == 0, 1.0, mean)
    return out


def statistics(stat: Any) -> dict[str, Callable[[FloatArray], Any]]:
    """Statistics by name."""
    if isinstance(stat, Mapping):
        named = list(stat.items())
    else:
        given = [stat] if isinstance(stat, str) or callable(stat) else list(stat)
        named = [(each if isinstance(each, str) else getattr(each, "__name__", "statistic"), each) for each in given]
    names = [str(name) for name, _ in named]
    if not names or repeated(names):
        raise ValueError(
            f"stat names {listed(repeated(names))} twice: pass a dict from names to functions"
            if names
            else "stat is empty: name a statistic, or leave it out"
        )
    out = {}
    for name, each in named:
        if callable(each):
            out[str(name)] = each
        elif each in NAMED:
            out[str(name)] = NAMED[each]
        elif each == FREQUENCIES:
            out[each] = _in_whole_numbers
        else:
            known = listed([*NAMED, FREQUENCIES])
            raise ValueError(f"stat must be one of {known} or a function of the response, not {each!r}")
    return out


def _in_whole_numbers(y: FloatArray) -> FloatArray:
    """Stands for the frequencies of values that are not known yet."""
    raise NotImplementedError


@dataclass(frozen=True)
class Frequency:
    """The number of rows of the last axis with a value of at least `low` and below `high`."""

    low: float
    high: float

    def __call__(self, y: FloatArray) -> FloatArray:
        """The number of rows."""
        out: FloatArray = ((y >= self.low) & (y < self.high)).sum(axis=-1).astype(np.float64)
        return out


def _frequencies(family: Any, observed: FloatArray, replicated: FloatArray) -> dict[str, Callable[[FloatArray], Any]]:
    """The numbers of rows with each whole number that occurs, by its name."""
    if not family.in_whole_numbers:
        raise ValueError(
            f"stat={FREQUENCIES!r} is for counts and ordered categories, whose values can be counted one by one: "
            "leave stat out"
        )
    if family.has_cuts:
        return {str(name): Frequency(k - 0.5, k + 0.5) for k, name in enumerate(family.categories)}
    low = int(min(observed.min(), np.quantile(replicated, TAIL, method="lower")))
    high = int(max(observed.max(), np.quantile(replicated, 1 - TAIL, method="higher")))
    width = -(-(high - low + 1) // MOST_VALUES)
    low -= low % width
    starts = range(low, high + 1, width)
    out: dict[str, Callable[[FloatArray], Any]] = {}
    for start in starts:
        below = start == low and float(replicated.min()) < low
        above = start == starts[-1] and float(replicated.max()) >= start + width
        end = start + width - 1
        name = f"{start:,}" if width == 1 else f"{start:,} to {end:,}"
        name = f"{end:,} or fewer" if below else f"{start:,} or more" if above else name
        out[name] = Frequency(-np.inf if below else start - 0.5, np.inf if above else end + 0.5)
    return out


def replicated_statistics(
    res: Any,
    functions: Mapping[str, Callable[[FloatArray], Any]],
    draws: int,
    rng: RandomLike,
    target: Any,
    what: str,
) -> tuple[dict[str, float], dict[str, FloatArray]]:
    """Each statistic of the response, and of `draws` replicated responses, (draws,)."""
    y, parts = replicated(res, draws, rng, target, what)
    if FREQUENCIES in functions and functions[FREQUENCIES] is _in_whole_numbers:
        first = next(parts)
        counted = _frequencies(res.model.distribution, y, first)
        functions = {name: each for name, each in functions.items() if name != FREQUENCIES}
        twice = sorted(functions.keys() & counted.keys())
        if twice:
            raise ValueError(
                f"{listed(twice)} names a statistic and a value of the response: ask for {FREQUENCIES!r} alone"
            )
        functions |= counted
        parts = chain([first], parts)
    observed = {name: float(_value(name, function, y[None])[0]) for name, function in functions.items()}
    out: dict[str, list[FloatArray]] = {name: [] for name in functions}
    for part in parts:
        for name, function in functions.items():
            out[name].append(_value(name, function, part))
    return observed, {name: np.concatenate(values) for name, values in out.items()}


def replicated(
    self: Any, draws: int, rng: RandomLike, target: Any, what: str
) -> tuple[FloatArray, Iterator[FloatArray]]:
    """The response (n,) of one target, and `draws` replicated responses in pieces (some, n)."""
    i = target_position(self.model.data.targets, target, what)
    check_responses(self, what)
    rows = _rows(self)
    y = self.model.endog.reshape(len(self.model.endog), -1)[rows, i]
    step = max(ELEMENTS // max(y.size, len(self.model.exog_names), 1), 1)
    generator, count = np.random.default_rng(rng), len(self.parts)
    # Pooled fits count alike: the first of them have one draw more where the number is not a multiple.
    shares = [(part, draws // count + (j < draws % count)) for j, part in enumerate(self.parts)]
    pieces = [(part, min(step, own - begin)) for part, own in shares for begin in range(0, own, step)]
    return y, (_one_piece(part, size, generator, i, rows) for part, size in pieces)


def _rows(res: Any) -> IntArray | slice:
    """The rows to replicate: those that stand for several copies as often as they do."""
    copies = res.model.copies
    if (copies == 1).all() or not (copies == np.rint(copies)).all():
        return slice(None)
    return np.repeat(np.arange(copies.size), copies.astype(np.intp))


def _one_piece(res: Any, size: int, generator: np.random.Generator, i: int, which: IntArray | slice) -> FloatArray:
    """One response for each of `size` draws, (size, n)."""
    factors = res.model.noise_factors(res.model.data.row_labels)
    if res.posterior.design.in_blocks:
        mean, sigma2 = res._draw_rows(size, generator, i)  # noqa: SLF001
        return generator.normal(mean, np.sqrt(sigma2[:, None] * factors))
    drawn: ChainDraws = res._draw_chain(size, generator)  # noqa: SLF001
    linear = res.model.predict(drawn.beta[:, :, i].T, which="linear").T[:, which]
    variance = None if drawn.sigma2 is None else drawn.sigma2[:, [i]] * factors
    extent = res.model.data.extent
    family = res.model.distribution
    own = None if extent is None else extent[which]
    return family.draws(linear, variance, own, generator, family.shape_of(drawn.others))


def _value(name: str, function: Callable[[FloatArray], Any], y: FloatArray) -> FloatArray:
    """A statistic of each row of `y` (m, n), (m,)."""
    if isinstance(function, Frequency) or function in NAMED.values():
        return np.asarray(function(y), dtype=np.float64)
    values = [function(row) for row in y]
    if any(np.ndim(value) != 0 or not np.isfinite(value) for value in values):
        raise ValueError(f"the statistic {name!r} must be one finite number of a response, got {values[0]!r}")
    return np.array(values, dtype=np.float64)
