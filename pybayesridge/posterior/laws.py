"""What posteriors answer about linear functions of the coefficients: one question, one pass, for every kind of fit.

A posterior makes a :class:`RowLaw` of rows (``posterior.rows(x, z)``), which answers an :class:`Ask` by an
:class:`Answer`. Contrasts, effects and predictions of any fit, and of several fits pooled, are such answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Protocol, TypeAlias

import numpy as np

from pybayesridge._types import AnyArray, BoolArray, FloatArray, IntArray
from pybayesridge.posterior.quantiles import Common, slab_quantiles, upper_tail

WIDTH = 1e-7
"""Width of a bracket at which a quantile is found, relative to the distance of the components' quantiles."""

ROUNDING = 4 * np.finfo(float).eps
"""Width relative to the quantile itself below which there are no digits."""

MAXITER = 200
"""Most steps of the search; bisection alone needs fewer."""

UNKNOWN = np.array(np.nan)
UNKNOWN.flags.writeable = False

AROUND_MEDIAN = (0.15865525393145707, 0.5, 0.8413447460685429)
"""Half the distance between the outer ones' quantiles is the standard deviation of a normal distribution: it stands
for one beside a median where there are no moments."""

Joint: TypeAlias = Literal["exact", "gaussian", "none"]
"""Whether what a posterior says of several coefficients follows from what it says of each; or is that of a Gaussian
with the same moments, as of expectation propagation; or is not there."""

Above: TypeAlias = Callable[[IntArray, FloatArray], FloatArray]
"""Probabilities that some of the mixtures, by their positions, exceed points."""


@dataclass(frozen=True, slots=True)
class Ask:
    """What is asked.

    Attributes
    ----------
    probabilities : tuple of c numbers
        Of quantiles.
    sd, above : bool
        Whether standard deviations, and the probabilities of a value above 0 and of exactly 0, are asked for.
    mean : bool
        Whether means are: of many coefficients they take a pass of their own. Laws of rows always have them.
    """

    probabilities: tuple[float, ...] = ()
    sd: bool = True
    above: bool = False
    mean: bool = True


@dataclass(frozen=True, slots=True)
class Answer:
    """The posterior of m linear functions for q targets.

    Attributes
    ----------
    mean, sd : (m, q) arrays
        NaN and infinite where there is none; NaN where they were not asked for.
    center : (m, q) array
        The mean, or where there is none the median.
    quantiles : (m, q, c) array
    above : (m, q) array
        Probabilities of a value above 0; NaN where they were not asked for.
    mass_at_zero : (m, q) array or None
        Probabilities of exactly 0: NaN where they are unknown, None for posteriors that have no point masses.
    mcse : (m, q) array or None
        Monte Carlo standard errors of the means; None where nothing was sampled, or no moments were asked for.
    """

    mean: FloatArray
    sd: FloatArray
    center: FloatArray
    quantiles: FloatArray
    above: FloatArray
    mass_at_zero: FloatArray | None = None
    mcse: FloatArray | None = None

    def placed(self, ask: Ask, at: IntArray, count: int) -> Answer:
        """The answer about `count` functions, of which those at other positions than `at` are exactly zero."""
        q = self.mean.shape[1]
        nothing = unknown(count, q)

        def each(values: FloatArray, asked: bool, other: float = 0.0) -> FloatArray:
            if not asked:
                return nothing
            out = np.full((count, *values.shape[1:]), other)
            out[at] = values
            return out

        mean, zero = each(self.mean, ask.mean), self.mass_at_zero
        return Answer(
            mean,
            each(self.sd, ask.sd),
            mean if self.center is self.mean else each(self.center, ask.mean),
            each(self.quantiles, True) if ask.probabilities else np.zeros((count, q, 0)),
            each(self.above, ask.above),
            None if zero is None else each(zero, ask.above, 1.0),
        )


class Posterior(Protocol):
    """The joint posterior of all coefficients.

    Attributes
    ----------
    joint_law : {"exact", "gaussian", "none"}
        "none" for what is left of it without the space of the rows.
    has_point_masses : bool
        Whether coefficients can be exactly zero.
    coefficients : CoefficientLaws
        What it says of each coefficient.
    """

    joint_law: ClassVar[Joint]
    has_point_masses: ClassVar[bool]

    @property
    def coefficients(self) -> CoefficientLaws:
        """The posterior of each coefficient."""

    def of_targets(self, which: slice) -> Posterior:
        """The posterior of some of the targets."""

    def rows(self, x_rows: AnyArray, z_rows: FloatArray, offset: FloatArray | float = 0.0) -> RowLaw:
        """The law of the linear predictor of rows plus `offset` (m,).

        Parameters
        ----------
        x_rows : (m, p) array
            The penalised columns that vary, on the user's scale.
        z_rows : (m, k) array
            The unpenalised columns.
        offset : (m,) array
        """


class CoefficientLaws(Protocol):
    """The posterior of each of the k unpenalised and the p penalised coefficients that vary, in this order."""

    def ask(self, ask: Ask, which: IntArray | None = None) -> Answer:
        """Answer everything about all of them, or about some by their positions."""

    def blocks(self, ask: Ask) -> Iterator[tuple[IntArray, Answer]]:
        """Answer everything about consecutive ones, as many at once as memory should hold, with their positions."""

    def covariance(self, target: int = 0) -> FloatArray:
        """Posterior covariance of all coefficients of one target, (k + p, k + p)."""


class ShapeLaw(Protocol):
    """The posterior of parameters of the likelihood that are integrated out, one or more, besides coefficients."""

    @property
    def u(self) -> FloatArray:
        """Logs of the first one, the family's own, at nodes, (S,)."""

    @property
    def weight(self) -> FloatArray:
        """Weights of the nodes, (S,)."""

    def names(self, own: str) -> tuple[str, ...]:
        """Their names, of which `own` is that of the family's own."""

    def summary(self, probabilities: FloatArray) -> FloatArray:
        """Posterior means, and quantiles (m,), of each; (number of them, 1 + m)."""


class RowLaw(Protocol):
    """The joint posterior of linear functions, looked at one by one."""

    def ask(self, ask: Ask) -> Answer:
        """Answer everything in one pass."""

    def above(self, which: IntArray, at: FloatArray) -> FloatArray:
        """Probabilities that some of the functions exceed `at`, both (len(which), q)."""

    def all_zero(self) -> tuple[float, float | None]:
        """Probability that all functions are exactly 0 at once, NaN if it is unknown; and its Monte Carlo error."""

    def with_noise(self, noise: FloatArray) -> RowLaw:
        """The law of new observations, with variances `noise` (m,) relative to that of the noise."""


@dataclass(frozen=True, slots=True)
class Slabs:
    """Spike and slab of rows that are combinations of the columns of one unit.

    Attributes
    ----------
    rows : (m,) bool array
        Which rows these are.
    weight, center, scale : (K, number of them) arrays
        The weight that is left is that of zero.
    certain : (m,) bool array
        Rows with an unpenalised column, or one that is surely in: their sum is not exactly zero.
    """

    rows: BoolArray
    weight: FloatArray
    center: FloatArray
    scale: FloatArray
    certain: BoolArray

    @property
    def spike(self) -> FloatArray:
        """The probability of exactly zero, but for slabs without a width."""
        return np.maximum(1.0 - self.weight.sum(axis=0), 0.0)

    def above(self, at: FloatArray) -> FloatArray:
        """Probability of exceeding `at`."""
        each = self.weight * upper_tail(self.center, self.scale, at, np.inf)
        out: FloatArray = each.sum(axis=0) + self.spike * (at < 0)
        return out


@dataclass(frozen=True, slots=True)
class MixtureLaw:
    """Linear functions of one target that are mixtures with common weights.

    Attributes
    ----------
    components : Common
        Less `shift`, in units of `unit`.
    mean, center, sd : (m,) arrays
        Of the functions.
    shift : (m,) array
    unit : float
    noise : (K,) array
        Variance of the noise of each component, in squared units.
    slabs : Slabs or None
        For variable selection, what is known of the rows within one unit; in units of the functions.
    """

    components: Common
    mean: FloatArray
    center: FloatArray
    sd: FloatArray
    shift: FloatArray
    unit: float
    noise: FloatArray
    slabs: Slabs | None = None

    @classmethod
    def of(
        cls,
        components: Common,
        shift: FloatArray,
        unit: float,
        noise: FloatArray,
        slabs: Slabs | None = None,
    ) -> MixtureLaw:
        """With the moments of normal components."""
        mean = components.weight @ components.center
        variance = components.weight @ (components.scale**2 + (components.center - mean) ** 2)
        middle = shift + unit * mean
        return cls(components, middle, middle, unit * np.sqrt(variance), shift, unit, noise, slabs)

    def ask(self, ask: Ask) -> Answer:
        """Answer everything."""
        at = np.array(ask.probabilities)
        quantiles = self.shift[:, None] + self.unit * self.components.quantiles(at)
        slabs, zero = self.slabs, None
        if slabs is not None and slabs.rows.any():
            own = slab_quantiles(slabs.weight, slabs.center, slabs.scale, np.inf, at)
            quantiles[slabs.rows] = own + self.shift[slabs.rows, None]
        if slabs is not None:
            zero = self._at_zero(slabs)[:, None]
        above = np.full(self.mean.shape, np.nan)
        if ask.above:
            above = self._above(np.arange(self.mean.size), np.zeros(self.mean.size))
        first, middle, sd = (each[:, None] for each in (self.mean, self.center, self.sd))
        return Answer(first, sd, middle, quantiles[:, None], above[:, None], zero)

    def above(self, which: IntArray, at: FloatArray) -> FloatArray:
        """Probabilities of more than `at`, both (len(which), 1)."""
        return self._above(which, at[:, 0])[:, None]

    def all_zero(self) -> tuple[float, float | None]:
        """Unknown for approximations of variable selection, else nothing."""
        return 0.0 if self.slabs is None else float("nan"), None

    def with_noise(self, noise: FloatArray) -> MixtureLaw:
        """The law of new observations."""
        own = self.components
        scale = np.sqrt(own.scale**2 + np.outer(self.noise, noise))
        sd = np.sqrt(self.sd**2 + self.unit**2 * float(own.weight @ self.noise) * noise)
        return replace(self, components=replace(own, scale=scale), sd=sd, slabs=None)

    def of_components(self, which: IntArray) -> MixtureLaw:
        """The law given that it is one of some of the components, without what is known of rows within one unit."""
        own = self.components
        share = own.weight[which] / own.weight[which].sum()
        part = Common(own.center[which], own.scale[which], share, own.df)
        return MixtureLaw.of(part, self.shift, self.unit, self.noise[which])

    def _above(self, which: IntArray, at: FloatArray) -> FloatArray:
        some, at = self.components, at - self.shift[which]
        out = some.weight @ upper_tail(some.center[:, which], some.scale[:, which], at / self.unit, some.df)
        slabs = self.slabs
        if slabs is not None and slabs.rows[which].any():
            own = slabs.rows[which]
            place = (np.cumsum(slabs.rows) - 1)[which[own]]
            taken = replace(
                slabs,
                weight=slabs.weight[:, place],
                center=slabs.center[:, place],
                scale=slabs.scale[:, place],
            )
            out[own] = taken.above(at[own])
        return np.clip(out, 0.0, 1.0)

    def _at_zero(self, slabs: Slabs) -> FloatArray:
        zero = np.where(self.sd > 0, np.where(slabs.certain, 0.0, np.nan), self.mean == 0)
        value = -self.shift[slabs.rows]
        points = (slabs.weight * ((slabs.scale == 0) & (slabs.center == value))).sum(axis=0)
        zero[slabs.rows] = points + slabs.spike * (value == 0)
        return zero


@dataclass(frozen=True, slots=True)
class PooledLaw:
    """Mixture of the laws of several fits, each of the rows of its own design.

    Attributes
    ----------
    parts : sequence of M RowLaw
    weight : (M,) array
        Positive; sums to 1.
    """

    parts: Sequence[RowLaw]
    weight: FloatArray

    def ask(self, ask: Ask) -> Answer:
        """Moments by the laws of total expectation and variance; quantiles of the mixture's distribution."""
        # Where probabilities of zero are known, quantiles that are exactly zero need those above it.
        found = [part.ask(replace(ask, above=True)) for part in self.parts]
        mean, sd = total_moments([each.mean for each in found], [each.sd for each in found], self.weight)
        above = average([each.above for each in found], self.weight)
        zero = None
        if any(each.mass_at_zero is not None for each in found):
            none = np.zeros(above.shape)
            zeros = [none if each.mass_at_zero is None else each.mass_at_zero for each in found]
            zero = average(zeros, self.weight)
        quantiles = np.zeros(found[0].quantiles.shape)
        for q in range(mean.shape[1]):
            each = np.stack([part.quantiles[:, q] for part in found])
            own = None if zero is None else zero[:, q]
            quantiles[:, q] = self._quantiles(q, mean.shape[1], each, above[:, q], own, np.array(ask.probabilities))
        return Answer(mean, sd, mean, quantiles, above, zero, mixed_error([each.mcse for each in found], self.weight))

    def above(self, which: IntArray, at: FloatArray) -> FloatArray:
        """Mean of the probabilities of the fits."""
        return average([part.above(which, at) for part in self.parts], self.weight)

    def all_zero(self) -> tuple[float, float | None]:
        """Mean of the probabilities of the fits."""
        found = [part.all_zero() for part in self.parts]
        error = mixed_error([None if each is None else np.array(each) for _, each in found], self.weight)
        return float(self.weight @ [each for each, _ in found]), None if error is None else float(error)

    def with_noise(self, noise: FloatArray) -> PooledLaw:
        """The law of new observations."""
        return PooledLaw([part.with_noise(noise) for part in self.parts], self.weight)

    def _quantiles(
        self, target: int, q: int, each: FloatArray, above: FloatArray, zero: FloatArray | None, at: FloatArray
    ) -> FloatArray:
        """Quantiles (m, c) of one target from those of the fits (M, m, c), all at once."""
        m, c = each.shape[1:]
        probability, ends, other = np.repeat(at, m), np.zeros(m * c), np.ones(m * c, dtype=bool)
        if zero is not None:
            below, up_to = np.tile(1 - above - zero, c), np.tile(1 - above, c)
            other = ~((below < probability) & (probability <= up_to))
        known = np.flatnonzero(other)
        flat = each.transpose(0, 2, 1).reshape(len(each), -1)

        def exceeded(which: IntArray, x: FloatArray) -> FloatArray:
            points = np.repeat(x[:, None], q, axis=1)
            return self.above(known[which] % m, points)[:, target]

        ends[known] = quantiles(exceeded, flat[:, known], probability[known])
        return ends.reshape(c, m).T


def unknown(*shape: int) -> FloatArray:
    """NaN throughout: an array to read from, which takes no memory."""
    return np.ndarray(shape, np.float64, UNKNOWN, strides=(0,) * len(shape))


def pooled(laws: Sequence[RowLaw], weight: FloatArray | None = None) -> RowLaw:
    """The mixture of laws with weights that sum to 1, by default with equal ones; of a single law itself."""
    share = np.full(len(laws), 1.0 / len(laws)) if weight is None else weight
    kept = [law for law, own in zip(laws, share, strict=True) if own > 0]
    return kept[0] if len(kept) == 1 else PooledLaw(kept, share[share > 0])


def average(values: Sequence[FloatArray], weight: FloatArray | None = None) -> FloatArray:
    """Mean of arrays of one shape with weights that sum to 1, by default with equal ones."""
    out: FloatArray = np.mean(values, axis=0) if weight is None else np.tensordot(weight, np.stack(values), axes=1)
    return out


def total_moments(
    means: Sequence[FloatArray], sds: Sequence[FloatArray], weight: FloatArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """Mean and standard deviation of a mixture, by the law of total variance."""
    mean = average(means, weight)
    between = average([(each - mean) ** 2 for each in means], weight)
    return mean, np.sqrt(average([sd**2 for sd in sds], weight) + between)


def mixed_error(errors: Sequence[FloatArray | None], weight: FloatArray | None = None) -> FloatArray | None:
    """Monte Carlo standard error of a mean of several independent fits, None for those that are not sampled."""
    known = [error for error in errors if error is not None]
    if not known:
        return None
    share = np.full(len(errors), 1.0 / len(errors)) if weight is None else weight
    zero = np.zeros(known[0].shape)
    squares = [own**2 * (zero if error is None else error) ** 2 for own, error in zip(share, errors, strict=True)]
    return np.sqrt(np.sum(squares, axis=0))


def quantiles(above: Above, each: FloatArray, probability: FloatArray) -> FloatArray:
    """Quantiles of m mixtures at probabilities (m,), between the least and the largest of their components.

    Parameters
    ----------
    above : callable
    each : (M, m) array
        The components' quantiles.
    probability : (m,) array
    """
    everything = np.arange(probability.size)
    low, high = each.min(axis=0), each.max(axis=0)
    unit = high - low
    ends = []
    # Components' quantiles and probabilities differ by rounding or, by sampling, by Monte Carlo errors.
    for end, side in ((low, -1.0), (high, 1.0)):
        excess = 1 - above(everything, end) - probability
        width = 0.01 * unit
        todo = np.flatnonzero((excess * side < 0) & (width > 0))
        for _ in range(MAXITER):
            if todo.size == 0:
                break
            end[todo] += side * width[todo]
            width[todo] *= 2
            excess[todo] = 1 - above(todo, end[todo]) - probability[todo]
            todo = todo[excess[todo] * side < 0]
        ends.append(excess)
    return _roots(above, probability, Bracket(low, high, *ends), WIDTH * unit)


@dataclass(frozen=True, slots=True)
class Bracket:
    """Two points around each root, and the functions there; all (m,)."""

    a: FloatArray
    b: FloatArray
    at_a: FloatArray
    at_b: FloatArray

    def taken(self, which: BoolArray) -> Bracket:
        """Some of the brackets."""
        return Bracket(self.a[which], self.b[which], self.at_a[which], self.at_b[which])

    def best(self) -> FloatArray:
        """The ends where the functions are nearer to 0."""
        return np.where(np.abs(self.at_a) < np.abs(self.at_b), self.a, self.b)


def _roots(above: Above, probability: FloatArray, start: Bracket, enough: FloatArray) -> FloatArray:
    """Points at which the mixtures have their probabilities, by Chandrupatla's method for all at once."""
    out, todo, now = start.best(), np.arange(probability.size), start
    share = np.full(probability.size, 0.5)
    for _ in range(MAXITER):
        tolerance = enough[todo] + ROUNDING * np.abs(now.best())
        out[todo] = now.best()
        left = (np.abs(now.b - now.a) > tolerance) & (now.at_a != 0) & (now.at_b != 0)
        if not left.any():
            break
        todo, now, share, tolerance = todo[left], now.taken(left), share[left], tolerance[left]
        x = now.a + share * (now.b - now.a)
        f = 1 - above(todo, x) - probability[todo]
        same = np.sign(f) == np.sign(now.at_a)
        c, at_c = np.where(same, now.a, now.b), np.where(same, now.at_a, now.at_b)
        now = Bracket(x, np.where(same, now.b, now.a), f, np.where(same, now.at_b, now.at_a))
        share = _next_share(now, c, at_c, tolerance)
    return out


def _next_share(now: Bracket, c: FloatArray, at_c: FloatArray, tolerance: FloatArray) -> FloatArray:
    """Where in the bracket to go next: by inverse quadratic interpolation, or where that is unsafe to its middle."""
    a, b, fa, fb, fc = now.a, now.b, now.at_a, now.at_b, at_c
    with np.errstate(all="ignore"):
        xi, phi = (a - b) / (c - b), (fa - fb) / (fc - fb)
        smooth = (phi**2 < xi) & ((1 - phi) ** 2 < 1 - xi)
        inverse = fa / (fb - fa) * fc / (fb - fc) + (c - a) / (b - a) * fa / (fc - fa) * fb / (fc - fb)
        least = np.minimum(0.5, 0.5 * tolerance / np.abs(b - a))
    share = np.where(smooth & np.isfinite(inverse), inverse, 0.5)
    least = np.where(np.isfinite(least), least, 0.5)
    return np.clip(share, least, 1 - least)
