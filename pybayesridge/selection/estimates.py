"""Averages over walkers, and their Monte Carlo errors: from the differences between walkers that started apart."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from pybayesridge._types import BoolArray, FloatArray, IntArray
from pybayesridge.data.units import Units
from pybayesridge.selection.light import Sums
from pybayesridge.selection.unseen import Unseen

KEPT = 3
"""Stretches that count, the last ones: each is as long as all before it times `GROWTH` less one, so that they leave
out the first third of a walk."""

GROWTH = 3.0 ** (1.0 / KEPT)
"""A walk is looked at whenever it is longer by this factor."""

CENTRAL = 0.01
"""Variance of an indicator from which its probability counts for the agreement."""

FEWEST_DRAWS = 400
"""Independent draws that walks have to be worth for their standard errors to be trusted."""

HEAVY = (1.0, 1.8)
"""Errors are larger by the second where the standard deviation of the number of units in is larger than its mean by
more than the first: the mean then rests on rare excursions to far larger sets, and walks that saw few of these differ
less. Not those of likelier units (`RARELY_IN`), and not where walkers visit such sets more often than they are likely
(`sampler.OFTEN_FROM`)."""

RARELY_IN = 0.1
"""Probability of a unit from which it is not by excursions to far larger sets that it is in."""

OFTEN_VISITED = 1.3
"""The same factor where they do: it is of what is stated at the end, since walks go on until errors are smaller than
was asked for by `sampler.OPTIONAL_STOPPING` anyway. Over ten seeds of each of seven problems of 100 rows and 300
columns the root mean squares of differences in errors were 0.9 to 1.6 without it."""

LIKELY = 0.5
"""Probability from which a coefficient's moments are about a center near its mean."""

STEPS_OF_A_DRAW = 16
"""A walk is not worth more independent draws than there are so many of its steps, whatever passes average."""

TINY = 1e-300


@dataclass(frozen=True, slots=True)
class Errors:
    """Monte Carlo standard errors of posterior moments, in the units of the problem.

    Attributes
    ----------
    mean, sd : (d + k,) arrays
        Of the coefficients' posterior means and standard deviations.
    size, log_g, noise_var : float
        Of the posterior means of the number of units in, of log(v / s2), and of s2.
    columns : float
        Of the posterior mean of the number of columns in; NaN in fits of earlier versions.
    """

    mean: FloatArray
    sd: FloatArray
    size: float
    log_g: float
    noise_var: float
    columns: float = np.nan


@dataclass(frozen=True, slots=True)
class Estimate:
    """Averages and their errors.

    Attributes
    ----------
    prob, se : (G,) arrays
        Inclusion probabilities.
    mean, var, cond_mean, cond_var : (d + k,) arrays
        Posterior moments of the coefficients, and given that they are in; at the end of those that are always in.
    errors : Errors
    mean_error : float
        The largest error of a coefficient's mean, in its posterior standard deviations, by what was seen.
    agreement : float
        The largest square root of (variance within + variance between walkers) / variance within, of the indicators
        of units with a probability that is not near 0 or 1, of the number of units in, and of log g.
    effective : float
        Smallest effective number of independent draws of the same; limited by the number of steps.
    inflation : float
        What errors by the differences between walkers are multiplied by (`HEAVY`): those of this estimate, but for
        likely units, and of all else that is taken from the walks.
    """

    prob: FloatArray
    se: FloatArray
    mean: FloatArray
    var: FloatArray
    cond_mean: FloatArray
    cond_var: FloatArray
    errors: Errors
    mean_error: float
    agreement: float
    effective: float
    inflation: float


class Tallies:
    """Sums over the passes of each walker, stretch by stretch; changed in place.

    Attributes
    ----------
    units : Units
    fixed : int
        Number of columns that are always in, whose coefficients come last.
    stretches : list of lists of Sums
        The last `KEPT`, of each walker.
    watched : (G,) bool array
        Units that all passes look at, of all stretches; at the others only full passes do.
    columns : (d + k,) bool array
        Their columns, and those that are always in.
    center : (d + k,) array
        What the sums of stretches that are yet to begin leave off the coefficients: near the means of those that are
        likely in, by the stretches before. Their squares would not resolve a variance that is far smaller.
    """

    __slots__ = ("center", "columns", "fixed", "n_walkers", "stretches", "units", "watched")

    def __init__(self, n_walkers: int, units: Units, fixed: int) -> None:
        self.n_walkers, self.units, self.fixed = n_walkers, units, fixed
        self.stretches: list[list[Sums]] = []
        self.watched = np.ones(units.n, dtype=bool)
        self.columns = np.ones(units.of_column.size + fixed, dtype=bool)
        self.center = np.zeros(self.columns.size)

    def watch(self, units: BoolArray, columns: BoolArray) -> None:
        """Take note of what passes look at from now on; what was before no longer counts."""
        self._forget()
        self.watched = units
        self.columns = np.append(columns, np.ones(self.fixed, dtype=bool))

    def new_stretch(self, *, alone: bool = False) -> list[Sums]:
        """Begin a stretch; `alone`: all before it no longer count."""
        if alone:
            self._forget()
        kept = self.stretches[-(KEPT - 1) :]
        n_units, d = self.units.n, self.units.of_column.size + self.fixed
        self.stretches = [*kept, [Sums.empty(n_units, d, self.center) for _ in range(self.n_walkers)]]
        return self.stretches[-1]

    def of_columns(self, values: FloatArray, of_fixed: float) -> FloatArray:
        """Values of units (..., G) for each column, (..., d + k); of those that are always in a given one."""
        fixed = np.full((*values.shape[:-1], self.fixed), of_fixed)
        return np.concatenate([values[..., self.units.of_column], fixed], axis=-1)

    def _forget(self) -> None:
        """Drop all stretches, but for what they say of the means."""
        if any(sums.full for stretch in self.stretches for sums in stretch):
            walked = _walked(self)
            prob = self.of_columns(probabilities(self), 1.0)
            inside = _of_walkers(self, "mean", walked).mean(axis=0) / np.maximum(prob, LIKELY)
            self.center = np.where(prob > LIKELY, self.center + inside, 0.0)
        self.stretches = []


def probabilities(tallies: Tallies) -> FloatArray:
    """Inclusion probabilities by what there is, (G,), if there was a full pass."""
    return np.asarray(_of_walkers(tallies, "prob", _walked(tallies)).mean(axis=0))


def _walked(tallies: Tallies) -> FloatArray:
    """Sums of the weights of the passes of each walker, (w,)."""
    return _weights(tallies)[:, 0]


def _weights(tallies: Tallies) -> FloatArray:
    """Sums of the weights of passes, and of full ones, of each walker, (w, 2)."""
    return np.sum([[sums.weight for sums in stretch] for stretch in tallies.stretches], axis=0)


def _of_walkers(tallies: Tallies, name: str, walked: FloatArray) -> FloatArray:
    """Averages of each walker, (w, ...), over the stretches."""
    total = np.asarray(sum(np.stack([getattr(sums, name) for sums in stretch]) for stretch in tallies.stretches))
    full = _weights(tallies)[:, 1]
    moved = walked > 0
    often, seldom = walked[moved, None], np.where(full > 0, full, 1.0)[moved, None]
    if name == "others":
        total[:, 0] += total[:, 4] * walked / np.where(full > 0, full, 1.0)
        return np.asarray(total[moved, :4] / often)
    watched = tallies.watched if name in ("prob", "absent") else tallies.columns
    return np.asarray(total[moved] / np.where(watched, often, seldom))


def estimate(tallies: Tallies, between: int, sizes: IntArray, within_log_g: float, *, far: bool = True) -> Estimate:
    """Pool all walkers, and compare them.

    Differences between walkers say nothing of states that none of them has seen: see :func:`with_unseen`.

    `between`: steps between passes. `sizes`, `within_log_g`: the numbers of units in, and the variance of log g, over
    the states. `far`: sets that are far larger than most are visited as seldom as they are likely.
    """
    within_size = float(np.var(sizes))
    heavy = HEAVY[1] if far and is_heavy(sizes) else 1.0
    walked = _walked(tallies)
    passes = sum(sums.passes for stretch in tallies.stretches for sums in stretch)
    share = walked[walked > 0] / walked.sum()
    prob_of = _of_walkers(tallies, "prob", walked)
    prob, se = _pooled(prob_of, share)
    center, inside = tallies.stretches[-1][0].center, tallies.of_columns(np.clip(prob, 0.0, 1.0), 1.0)
    cond_of, absent_of = (_of_walkers(tallies, name, walked) for name in ("mean", "absent"))
    cond_square_of = _of_walkers(tallies, "square", walked)
    with np.errstate(invalid="ignore"):
        safe = np.where(inside > 0, inside, 1.0)
        cond_mean, cond_square = share @ cond_of / safe, share @ cond_square_of / safe
        cond_var = np.maximum(cond_square - cond_mean**2, 0.0)
        # A coefficient that is out is 0.
        out_of = tallies.of_columns(absent_of, 0.0)
        mean_of, square_of = cond_of - center * out_of, cond_square_of + center**2 * out_of
        mean, mean_se = _pooled(mean_of, share)
        variance = np.maximum(share @ square_of - mean**2, 0.0)
        # The change of the variance with both moments.
        variance_se = _pooled(square_of - 2.0 * mean * mean_of, share)[1]
    sd = np.sqrt(variance)
    known = (sd > 0) & np.isfinite(sd)
    times = np.where(prob < RARELY_IN, heavy, 1.0)
    of_column = tallies.of_columns(times, 1.0)
    mean_se = of_column * mean_se
    mean_error = float(np.max(mean_se[known] / sd[known], initial=0.0))
    size_se, log_g_se, noise_se, own_size_se = _pooled(_of_walkers(tallies, "others", walked), share)[1].tolist()
    within = prob * (1.0 - prob)
    central = within > CENTRAL
    ratio = [se[central] ** 2 / within[central]]
    ratio += [np.array([error**2 / of]) for of, error in ((within_size, own_size_se), (within_log_g, log_g_se)) if of]
    worst = float(np.max(np.concatenate(ratio), initial=TINY))
    unseen = max(worst, STEPS_OF_A_DRAW / (passes * between))
    sd_se = np.divide(variance_se, 2.0 * sd, out=np.zeros(sd.size), where=known)
    errors = Errors(
        mean=mean_se,
        sd=of_column * sd_se,
        size=heavy * size_se,
        log_g=heavy * log_g_se,
        noise_var=heavy * noise_se,
        columns=heavy * float(_pooled(prob_of @ tallies.units.sizes, share)[1]),
    )
    prob = np.clip(prob, 0.0, 1.0)
    agreement = float(np.sqrt(1.0 + share.size * worst))
    return Estimate(
        prob,
        times * se,
        center + mean,
        variance,
        np.where(inside > 0, center + cond_mean, 0.0),
        cond_var,
        errors,
        mean_error,
        agreement,
        1.0 / unseen,
        heavy,
    )


def is_heavy(sizes: IntArray) -> bool:
    """Whether the mean of the number of units in rests on sets that are far larger than most (`HEAVY`)."""
    return float(np.std(sizes)) > float(np.mean(sizes)) + HEAVY[0]


def inflated(found: Estimate, factor: float) -> Estimate:
    """With errors that are so many times as large."""
    errors = Errors(*(factor * getattr(found.errors, each.name) for each in fields(Errors)))
    mean_error, inflation = factor * found.mean_error, factor * found.inflation
    return replace(found, se=factor * found.se, errors=errors, mean_error=mean_error, inflation=inflation)


def with_unseen(found: Estimate, unseen: Unseen, units: Units) -> Estimate:
    """Add to the errors what rare events do that no walker has seen, or hardly one."""
    d, heavy, errors = units.of_column.size, found.inflation, found.errors
    variance = found.var
    # Few sets can have most of the variance. With two degrees of freedom or fewer there is none.
    with np.errstate(invalid="ignore"):
        of_sd = np.sqrt(variance[:d] + unseen.square) - np.sqrt(variance[:d])
    of_sd = np.where(np.isfinite(of_sd), of_sd, 0.0)
    mean, sd = errors.mean.copy(), errors.sd.copy()
    mean[:d], sd[:d] = np.hypot(mean[:d], heavy * unseen.mean), np.hypot(sd[:d], heavy * of_sd)
    beyond = heavy * unseen.prob
    return replace(
        found,
        se=np.hypot(found.se, beyond),
        errors=replace(
            errors,
            mean=mean,
            sd=sd,
            size=max(errors.size, float(beyond.max(initial=0.0))),
            log_g=float(np.hypot(errors.log_g, heavy * unseen.log_g)),
            noise_var=float(np.hypot(errors.noise_var, heavy * unseen.noise_var)),
            columns=max(errors.columns, float((beyond * units.sizes).max(initial=0.0))),
        ),
    )


def _pooled(values: FloatArray, share: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Weighted mean of walkers' averages (w, q), and its standard error by their differences; infinite for one."""
    mean: FloatArray = share @ values
    n = share.size
    if n == 1:
        return mean, np.full(mean.shape, np.inf)
    with np.errstate(invalid="ignore"):
        square = share**2 @ (values - mean) ** 2 * (n / (n - 1))
    return mean, np.sqrt(square)
