"""The likelihood of counts with the log link, row by row.

A row is a Poisson count whose mean is exposure times ``exp(eta)``, and may stand for several copies of itself. With
``d = eta - log(count / exposure)`` its log likelihood is, up to a constant,

    copies * count * (d - expm1(d)),

which loses no digits however large the count is, and ``-copies * exposure * exp(eta)`` for a count of 0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy.special import gammaincc, gammaln, xlogy

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.binomial import hermite
from pybayesridge.sites.likelihood import Likelihood
from pybayesridge.sites.tilted import CHUNK, Cavity, Tilted, by_equal_steps, density_range, empty, sum_up

BEND = 6.0
"""Curvature for which the nodes are close enough for a count of 0, whose likelihood has a bend of length 1: its
Fourier transform falls as ``exp(-pi |w| / 2)``, for other counts as that of a normal density first."""

HIGHEST = 500.0
"""Linear predictors, and their distances from a count's own, are looked at up to here: their exponential is still a
number, and the likelihood long 0."""

WIDE = 8.0
"""Standard deviation of cavities from which counts of 0 have the rule in two parts."""

BELOW = 27.0
"""Distance below the bend from where their likelihood is 1, but for smooth terms of exp(-BELOW)."""

GAUSS = 96
"""Nodes of each of the two parts, by Gauss and Legendre."""

_X, _W = np.polynomial.legendre.leggauss(GAUSS)
SHARE, WEIGHT = 0.5 * (_X[:, None] + 1.0), 0.5 * _W[:, None]

START = 0.5
"""Counts at the overall rate that are added to each row for a first guess."""

LEAST = float(np.finfo(float).tiny)
"""Least mean count: of counts that are all 0, which a fit refuses."""

MOST_DRAWN = 1e18
"""Largest mean that a count is drawn with: beyond it whole numbers have no room."""


@dataclass(frozen=True, slots=True)
class Poisson(Likelihood):
    """Counts.

    Attributes
    ----------
    counts : (n,) array
        Of one copy of the row; whole numbers, not negative.
    exposure : (n,) array
        Positive.
    copies : (n,) array
        Frequency weights: how many times the row counts; positive.
    level : float
        Mean count of all copies of all rows of the fit.
    link : {"log"}
    """

    counts: FloatArray
    exposure: FloatArray
    copies: FloatArray
    level: float
    link: str = "log"

    has_mean: ClassVar[bool] = False

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.counts.size)

    @property
    def size(self) -> FloatArray:
        """Copies: exposures shift the linear predictor and do not weight the rows."""
        return self.copies

    @property
    def observed(self) -> FloatArray:
        """Counts of one copy of each row."""
        return self.counts

    @property
    def latent_variance(self) -> float:
        """``log(1 + 1 / level)``: a log-normal variable of this variance varies as a Poisson count of that mean does.

        Both have the coefficient of variation ``level^(-1/2)``.
        """
        return float(np.log1p(1.0 / self.level))

    def rows(self, which: IntArray) -> Poisson:
        """The likelihood of some of the rows."""
        return replace(self, counts=self.counts[which], exposure=self.exposure[which], copies=self.copies[which])

    def copied(self, copies: FloatArray) -> Poisson:
        """The same counts with other numbers of copies."""
        return replace(self, copies=copies)

    def values(self, eta: FloatArray) -> FloatArray:
        """Log likelihood of all copies, relative to its top where the count is not 0."""
        some = self.counts > 0
        away = np.minimum(eta - np.log(np.where(some, self.counts, 1.0) / self.exposure), HIGHEST)
        rest = np.where(some, away - np.expm1(away), -np.exp(away))
        out: FloatArray = self.copies * np.where(some, self.counts, 1.0) * rest
        return out

    def derivatives(self, eta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Its first derivative and minus the second."""
        mean = self.exposure * np.exp(np.minimum(eta, HIGHEST))
        return self.copies * (self.counts - mean), self.copies * mean

    def first_guess(self) -> FloatArray:
        """Logs of the rows' own rates, drawn towards that of all, (n,)."""
        rate = float(self.copies @ self.counts) / float(self.copies @ self.exposure)
        out: FloatArray = np.log((self.counts + START) / (self.exposure + START / rate))
        return out

    def largest_curvature(self) -> FloatArray:
        """There is no bound: inf, (n,)."""
        return np.full(self.n, np.inf)

    def rises(self) -> FloatArray:
        """-1 for rows with a count of 0."""
        return np.where(self.counts == 0, -1.0, 0.0)

    def log_constants(self) -> FloatArray:
        """The top of the log probability of one copy of each row, (n,)."""
        out: FloatArray = xlogy(self.counts, self.counts) - self.counts - gammaln(self.counts + 1.0)
        return out

    def score_constants(self) -> FloatArray:
        """All of them."""
        return self.log_constants()

    def mean(self, eta: FloatArray) -> FloatArray:
        """Mean of a count for an exposure of 1."""
        with np.errstate(over="ignore"):
            out: FloatArray = np.exp(eta)
        return out

    def draws(self, eta: FloatArray, generator: np.random.Generator) -> FloatArray:
        """Counts."""
        mean = np.minimum(self.exposure[:, None] * self.mean(eta), MOST_DRAWN)
        return generator.poisson(mean).astype(np.float64)

    def up_to(self, y: FloatArray, eta: FloatArray, extent: FloatArray | None = None) -> FloatArray:
        """Probability of a count of at most `y` for an exposure of 1."""
        out: FloatArray = gammaincc(y + 1.0, self.mean(eta))
        return out

    def around(self, eta: FloatArray, extent: FloatArray | None = None) -> tuple[FloatArray, FloatArray]:
        """No count, and more than twice the mean."""
        return np.full(eta.shape, -1.0), np.minimum(2.0 * self.mean(eta) + 10.0, MOST_DRAWN)

    def mean_over(self, mean: FloatArray, variance: FloatArray) -> FloatArray:
        """Mean of a count for an exposure of 1 where the linear predictor is normal; shape of `mean`."""
        return self.mean(mean + 0.5 * variance)

    def of_rows(self, mean: FloatArray) -> FloatArray:
        """Means of counts, from those for an exposure of 1."""
        return self.exposure * mean

    def deviances(self, mean: FloatArray) -> FloatArray:
        """Deviance of expected counts, of one copy of each row, (n,)."""
        y = self.counts
        out: FloatArray = 2.0 * (xlogy(y, y) - xlogy(y, mean) - (y - mean))
        return out

    def variances(self, mean: FloatArray) -> FloatArray:
        """Variances of counts of some means."""
        return mean

    def tops(self) -> FloatArray:
        """Log probability of one copy where the mean is the count, (n,)."""
        return self.log_constants()

    def reach(self, top: FloatArray, drop: float) -> FloatArray:
        """Where ``copies exposure exp(top) (exp(d) - 1 - d)``, which it falls by at least, is `drop`; not below d.

        The solution of ``d = log(1 + q + d)``, from above.
        """
        with np.errstate(over="ignore"):
            log_q = np.log(drop) - np.log(self.copies * self.exposure) - top
            d = np.minimum(2.0 * np.logaddexp(log_q, 0.0) + 2.0, np.exp(0.5 * (np.log(2.0) + log_q)))
        for _ in range(3):
            d = np.minimum(d, np.logaddexp(log_q, np.log1p(d)))
        out: FloatArray = d
        return out

    def tilted(self, cavity: Cavity) -> Tilted:
        """Moments of the tilted densities."""
        rule, center, unit = hermite.narrow_counts(*self.derivatives(cavity.center), cavity, CHUNK)
        out = empty(self.n)
        for rows, eta, weight in hermite.nodes(rule, center, unit, CHUNK):
            part = self.rows(rows)
            sum_up(out, rows, part.values(eta), part.derivatives(eta)[0], cavity, center, eta, weight)
        wide = (rule < 0) & (self.counts == 0) & (cavity.precision < WIDE**-2)
        for some, moments in ((wide, in_two_parts), ((rule < 0) & ~wide, in_equal_steps)):
            if (rows := np.flatnonzero(some)).size:
                out.put(rows, moments(self.rows(rows), cavity.rows(rows)))
        return out

    def curvature_of_steps(self, low: FloatArray, top: FloatArray, high: FloatArray) -> FloatArray:
        """Curvature of a normal density that asks for steps as short as the likelihood does, (n,).

        Not the curvature where the density ends above: there it is that of an exponential, for which the rule's
        steps may be long.
        """
        return np.maximum(self.copies * self.counts, self.derivatives(top)[1]) + BEND

    def predicted(self, cavity: Cavity, log_integral: FloatArray) -> FloatArray:
        """Median of the mean of a count given the cavity without a copy of the row, (n,)."""
        rest = np.flatnonzero(self.copies > 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            at = cavity.center + cavity.slope / cavity.precision
        if rest.size:
            at[rest] = self.rows(rest).tilted(cavity.rows(rest)).mean
        return self.of_rows(self.mean(at))

    def check_unseparated(self) -> None:
        """Raise ValueError if all counts are 0."""
        if not self.counts.any():
            raise ValueError("all counts are 0: they do not determine an intercept")

    def separated_by(self, names: str, count: int) -> str:
        """Say that the counts are 0 wherever some columns move the linear predictor."""
        return (
            f"the unpenalised column(s) {names} separate the counts: all {count} of the {self.n} rows that they tell "
            "apart have a count of 0"
        )


def in_equal_steps(counts: Poisson, cavity: Cavity) -> Tilted:
    """The moments by equal steps that suit the likelihood."""
    return by_equal_steps(counts, cavity, counts.curvature_of_steps)


def in_two_parts(zeros: Poisson, cavity: Cavity) -> Tilted:
    """The moments for counts of 0 and wide cavities: the bend apart from the normal tail below it."""
    top, low, high = density_range(zeros.values, zeros.derivatives, cavity, zeros.reach)
    split = np.clip(-np.log(zeros.copies * zeros.exposure) - BELOW, low, high)
    out = empty(zeros.n)
    for start in range(0, zeros.n, step := CHUNK // (2 * GAUSS)):
        rows = np.arange(start, min(start + step, zeros.n))
        part, a, b, c = zeros.rows(rows), low[rows], split[rows], high[rows]
        eta = np.concatenate([a + (b - a) * SHARE, b + (c - b) * SHARE])
        spacing = np.concatenate([(b - a) * WEIGHT, (c - b) * WEIGHT])
        sum_up(out, rows, part.values(eta), part.derivatives(eta)[0], cavity, top, eta, spacing)
    return out


def from_counts(counts: FloatArray, exposure: FloatArray | None, weights: FloatArray | None) -> Poisson:
    """The likelihood of `counts`, each row counted `weights` times; None stands for 1."""
    y = np.asarray(counts, dtype=float)
    one = np.ones(y.size)
    copies = one if weights is None else np.asarray(weights, dtype=float)
    level = float(copies @ y / copies.sum()) if y.size else 1.0
    return Poisson(y, one if exposure is None else np.asarray(exposure, dtype=float), copies, max(level, LEAST))
