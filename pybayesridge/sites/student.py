"""The likelihood of continuous responses with Student-t noise, row by row.

With ``z = (y - eta) / sigma`` the density of a response is that of the t distribution with df degrees of freedom,

    log p = c(df) - log sigma - (df + 1) / 2 log(1 + z^2 / df),

and normal where df is infinite. It is not log-concave: for ``z^2 > df`` minus its second derivative, and the
precision of its site, is negative. With ``z = sqrt(df) sinh(v)`` the density is ``cosh(v)^-(df + 1)``, so that the
trapezoidal rule in v serves for cavities of any width.

A priori the log of sigma is flat, with the density ``1 / sigma^2`` of sigma^2, and df is one of `GRID`.

Without a row the density of its response is ``1 / E[1 / p(y | eta)]``, the mean taken over the posterior of all rows:
the quotient grows no faster than a power of eta, so that it has a mean under a normal density whatever its spread. (A
row's cavity may be next to no density, or none, where the sites of others have negative precisions.)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy.special import gammaln, logsumexp, ndtr

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.posterior.left_out import LeaveOneOut
from pybayesridge.posterior.student import tabulated
from pybayesridge.sites.approximation import Approximation
from pybayesridge.sites.likelihood import Likelihood
from pybayesridge.sites.shape import FlatPrior, ShapePrior
from pybayesridge.sites.tilted import CHUNK, DROP, NORMAL_STEP, SIZES, Cavity, Tilted, empty, sum_up

GRID = (2.0, 3.0, 4.0, 6.0, 10.0, 20.0, np.inf)
"""Degrees of freedom that are equally probable a priori; inf is normal noise."""

PRIOR = FlatPrior()
"""Of the log of sigma."""

BELOW, ABOVE = 20.0, 5.0
"""The range of the log of sigma that is looked at, below the log of the spread of the bulk of the responses and above
that of their standard deviation, which few outliers decide."""

UNIT = 1e-3
"""Precisions of sites are told apart on the scale of their logs down to this part of the largest one."""

NORMAL_SPREAD = 1.4826
"""Standard deviation of a normal variable over its median absolute deviation."""

PER_UNIT = 2.0
"""Nodes for each unit of v at the least: as a function of v the density is analytic within pi / 2 of the real line,
where the rule's error is e^(-2 pi^2)."""

EQUAL = 64 * float(np.finfo(float).eps)
"""Relative differences of responses that are rounding."""

SCALES = 10.0
"""So many scales of the noise from the linear predictor a quantile of a new response is looked for first."""

CLIPPED = 5.0
"""Responses further from the median, in units of their spread, do not count in a first guess."""

COARSE = 49
"""Places at which the range of a tilted density is looked for, in each of two grids."""

WIDE, NEAR = 9.0, 40.0
"""Half widths of these grids: standard deviations of the cavity, and units of v around the row's own response."""

NARROW = 1.0
"""Standard deviation of a cavity in units over which the log density of the noise changes by 1 at the most, up to
which its range is not searched."""

FARTHEST = 300.0
"""Largest v: its hyperbolic cosine is a number, squared too."""

LARGEST = 700.0
"""Largest logarithm of a number."""

AROUND, SHARES = np.polynomial.hermite_e.hermegauss(60)
SHARES = SHARES / SHARES.sum()
"""Nodes and weights for means over normal densities."""


@dataclass(frozen=True, slots=True)
class StudentT(Likelihood):
    """Continuous responses with Student-t noise; the identity link.

    Attributes
    ----------
    y : (n,) array
        The responses.
    copies : (n,) array
        Frequency weights: how many times the row counts; positive.
    df : float
        Degrees of freedom, inf for normal noise; nan where they are unknown.
    log_sigma : float
        Log of the scale of the noise; nan where it is unknown.
    spread : float
        Of the bulk of the responses of the fit: about the standard deviation that they have without outliers.
    link : {"identity"}
    """

    y: FloatArray
    copies: FloatArray
    df: float
    log_sigma: float
    spread: float
    link: str = "identity"

    shape_prior: ClassVar[ShapePrior | None] = PRIOR
    whole: ClassVar[bool] = False

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.y.size)

    @property
    def size(self) -> FloatArray:
        """Copies."""
        return self.copies

    @property
    def observed(self) -> FloatArray:
        """The responses."""
        return self.y

    @property
    def sigma(self) -> float:
        """The scale of the noise."""
        return float(np.exp(self.log_sigma))

    @property
    def log_shape(self) -> float:
        """The log of the scale."""
        return self.log_sigma

    @property
    def unknown_shape(self) -> ShapePrior | None:
        """The prior of this log, in the range that the responses ask for."""
        if not np.isnan(self.log_sigma):
            return None
        return replace(PRIOR, low=float(np.log(self.spread)) - BELOW, high=self._log_deviation() + ABOVE)

    def of_shape(self, log_shape: float) -> StudentT:
        """The likelihood for a scale."""
        return replace(self, log_sigma=log_shape)

    def forms(self) -> tuple[StudentT, ...]:
        """The likelihood for each number of degrees of freedom, from the largest, where that is unknown."""
        return tuple(replace(self, df=df) for df in GRID[::-1]) if np.isnan(self.df) else (self,)

    @property
    def form(self) -> float:
        """The degrees of freedom."""
        return self.df

    def of_form(self, form: float) -> StudentT:
        """The likelihood for a number of degrees of freedom."""
        return replace(self, df=form)

    @property
    def modes_first(self) -> bool:
        """The density has several tops, between which EP from a poor start does not settle."""
        return True

    def first_shape(self) -> float:
        """The log of the spread of the responses, which for normal noise is that of all of them."""
        return self._log_deviation() if np.isinf(self.df) else float(np.log(self.spread))

    def _log_deviation(self) -> float:
        """The log of the root mean square of the responses about their median, or of the spread if that is larger."""
        away = np.abs(self.y - np.median(self.y))
        largest = max(float(away.max(initial=0.0)), float(np.finfo(float).tiny))
        return float(np.log(max(self.spread, largest * np.sqrt(np.mean((away / largest) ** 2)))))

    def shape_near(self, eta: FloatArray) -> float:
        """The log of the spread about linear predictors (n,)."""
        away = np.abs(self.y - eta)
        return float(np.log(max(NORMAL_SPREAD * np.median(away), 0.1 * np.mean(away), 1e-9 * self.spread)))

    @property
    def unit(self) -> float:
        """The unit of linear predictors."""
        return self.sigma

    @property
    def signed_unit(self) -> FloatArray | None:
        """Precisions of sites may be negative, unless the noise is known to be normal."""
        return None if np.isinf(self.df) else UNIT * self.largest_curvature()

    @property
    def latent_variance(self) -> float:
        """The squared scale: the variance of normal noise, and of other noise that of its bulk."""
        return self.sigma**2

    def rows(self, which: IntArray) -> StudentT:
        """The likelihood of some of the rows."""
        return replace(self, y=self.y[which], copies=self.copies[which])

    def copied(self, copies: FloatArray) -> StudentT:
        """The same responses with other numbers of copies."""
        return replace(self, copies=copies)

    def _top(self) -> float:
        """Log density of one copy at its own response."""
        return log_constant(self.df) - self.log_sigma

    def values(self, eta: FloatArray) -> FloatArray:
        """Log density of all copies."""
        z = (self.y - eta) / self.sigma
        with np.errstate(over="ignore"):
            loss = 0.5 * z**2 if np.isinf(self.df) else 0.5 * (self.df + 1.0) * np.log1p(z**2 / self.df)
        out: FloatArray = self.copies * (self._top() - loss)
        return out

    def sums(self, eta: FloatArray, rows: IntArray, more: FloatArray, first: IntArray) -> FloatArray:
        """By the logarithm of the product of rows that count once, unless this may overflow."""
        scale, sizes = self.sigma * np.sqrt(self.df), np.diff(np.r_[first, rows.size])
        z = ((self.y - eta) / scale)[:, rows]
        z -= more / scale
        z *= z
        z += 1.0
        # Infinite degrees of freedom have no such product.
        if (self.copies != 1.0).any() or not 0.0 < np.log(z.max(initial=1.0)) * sizes.max(initial=0) < LARGEST:
            return Likelihood.sums(self, eta, rows, more, first)
        out: FloatArray = sizes * self._top() - 0.5 * (self.df + 1.0) * np.log(np.multiply.reduceat(z, first, axis=1))
        return out

    def derivatives(self, eta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Its first derivative and minus the second, which may be negative."""
        z = (self.y - eta) / self.sigma
        if np.isinf(self.df):
            first, second = z, np.ones_like(z)
        else:
            rest = 1.0 / (self.df + z**2)
            first = (self.df + 1.0) * z * rest
            second = (self.df + 1.0) * (self.df - z**2) * rest**2
        return self.copies * first / self.sigma, self.copies * second / self.sigma**2

    def first_guess(self) -> FloatArray:
        """The responses, but those far from the median at a bound, (n,)."""
        middle = np.median(self.y)
        return np.clip(self.y, middle - CLIPPED * self.spread, middle + CLIPPED * self.spread)

    def largest_curvature(self) -> FloatArray:
        """That at the response, (n,)."""
        of_one = 1.0 if np.isinf(self.df) else (self.df + 1.0) / self.df
        return self.copies * of_one / self.sigma**2

    def rises(self) -> FloatArray:
        """The density falls on both sides, (n,)."""
        return np.zeros(self.n)

    def log_constants(self) -> FloatArray:
        """Nothing is left out."""
        return np.zeros(self.n)

    def mean(self, eta: FloatArray) -> FloatArray:
        """The linear predictor, about which the noise is symmetric."""
        return eta

    def mean_over(self, mean: FloatArray, variance: FloatArray) -> FloatArray:
        """Its mean."""
        return mean

    def moments_over(self, mean: FloatArray, variance: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Its mean and mean square."""
        return mean, mean**2 + variance

    def draws(self, eta: FloatArray, generator: np.random.Generator) -> FloatArray:
        """Responses."""
        return eta + self.sigma * noise_of(np.array(self.df), eta.shape, generator)

    def up_to(self, y: FloatArray, eta: FloatArray, extent: FloatArray | None = None) -> FloatArray:
        """Probability of a response of at most `y`."""
        z = (y - eta) / self.sigma
        out: FloatArray = ndtr(z) if np.isinf(self.df) else tabulated(self.df)(z)[0]
        return out

    def around(self, eta: FloatArray, extent: FloatArray | None = None) -> tuple[FloatArray, FloatArray]:
        """Some scales of the noise to both sides."""
        return eta - SCALES * self.sigma, eta + SCALES * self.sigma

    def tilted(self, cavity: Cavity) -> Tilted:
        """Moments of the tilted densities, which may have two tops."""
        if np.isinf(self.df):
            return self._tilted_of_normal(cavity)
        unit = np.sqrt(self.df) * self.sigma
        low, high, top = self._range(cavity, unit)
        steepest = np.cosh(np.maximum(np.abs(low), np.abs(high))) * unit
        bend = cavity.precision * steepest**2 + self.copies * (self.df + 1.0)
        needed = (high - low) * (np.sqrt(bend) / NORMAL_STEP + PER_UNIT) + 1
        size = np.searchsorted(SIZES[:-1], np.where(np.isfinite(needed), needed, SIZES[-1]))
        out = empty(self.n)
        for group in np.unique(size):
            count, members = int(SIZES[group]), np.flatnonzero(size == group)
            share, step = np.linspace(0.0, 1.0, count)[:, None], max(1, CHUNK // count)
            for start in range(0, members.size, step):
                rows = members[start : start + step]
                wide, copies = (high - low)[rows], self.copies[rows]
                v = low[rows] + wide * share
                sinh, cosh = np.sinh(v), np.cosh(v)
                # Of values (y - eta) / sigma, and of the change of variable.
                density = copies * (self._top() - (self.df + 1.0) * np.log(cosh)) + np.log(cosh)
                slope = -copies * (self.df + 1.0) / unit * sinh / cosh**2
                spacing = unit * wide[None] / (count - 1)
                eta = self.y[rows] + unit * sinh
                sum_up(out, rows, density, slope, cavity, top, eta, spacing, signed=True)
        return out

    def _tilted_of_normal(self, cavity: Cavity) -> Tilted:
        """The moments of normal densities."""
        own = self.copies / self.sigma**2
        precision = cavity.precision + own
        pull = cavity.slope + own * (self.y - cavity.center)
        mean = cavity.center + pull / precision
        height = self.values(cavity.center) + 0.5 * pull**2 / precision
        return Tilted(height + 0.5 * np.log(2 * np.pi / precision), mean, 1.0 / precision, own * (self.y - mean), own)

    def _range(self, cavity: Cavity, unit: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Where the tilted densities of v are above e^-DROP of their tops, and eta near these, each (n,).

        The slope in eta of the log density of the noise, and of the change of variable, is bounded: a narrow cavity
        leaves it little room, and the range follows from the bound.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            sd = 1.0 / np.sqrt(cavity.precision)
            middle = cavity.center + cavity.slope / cavity.precision
        steepest = (self.copies * (self.df + 1.0) + 1.0) / (2.0 * unit) * sd
        half = sd * (steepest + np.sqrt(steepest**2 + 2.0 * DROP))
        with np.errstate(invalid="ignore"):
            low, high = np.arcsinh((middle - half - self.y) / unit), np.arcsinh((middle + half - self.y) / unit)
        wide = np.flatnonzero(~(steepest <= NARROW))
        if wide.size:
            found = _searched(self.rows(wide), cavity.rows(wide), unit, sd[wide], middle[wide])
            low[wide], high[wide], middle[wide] = found
        return low, high, middle

    def left_out_at(self, node: Approximation) -> LeaveOneOut:
        """Predictions of one copy of each row, by the posterior of all rows; for normal noise by the cavities."""
        if np.isinf(self.df):
            return self.left_out(node.cavity())
        one = self.copied(np.ones(self.n))
        eta = node.mean + np.sqrt(node.variance) * AROUND[:, None]
        quotient = np.log(SHARES)[:, None] - np.stack([one.values(each) for each in eta])
        total = logsumexp(quotient, axis=0)
        return LeaveOneOut(-total, (np.exp(quotient - total) * eta).sum(axis=0))

    def predicted(self, cavity: Cavity, log_integral: FloatArray) -> FloatArray:
        """Mean of the linear predictor given the other copies."""
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = cavity.center + cavity.slope / cavity.precision
        rest = np.flatnonzero(self.copies > 0)
        if rest.size:
            mean[rest] = self.rows(rest).tilted(cavity.rows(rest)).mean
        return mean

    def deviances(self, mean: FloatArray) -> FloatArray:
        """Twice the log density at the response less that at `mean`, of one copy, (n,)."""
        one = self.copied(np.ones(self.n))
        return 2.0 * (one.values(self.y) - one.values(mean))

    def variances(self, mean: FloatArray) -> FloatArray:
        """The squared scale: the variance itself is infinite for two degrees of freedom, (n,)."""
        return np.full(self.n, self.latent_variance)

    def check_unseparated(self) -> None:
        """The responses always determine an intercept."""


def _searched(
    rows: StudentT, cavity: Cavity, unit: float, sd: FloatArray, middle: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The range of tilted densities by search; `sd` and `middle` are those of the cavities, (n,)."""
    grid = np.linspace(-1.0, 1.0, COARSE)[:, None]
    wide = np.arcsinh((middle + WIDE * sd * grid - rows.y) / unit)
    own = np.broadcast_to(NEAR * grid**3, wide.shape)
    # A flat cavity has no places of its own.
    v = np.sort(np.concatenate([np.where(np.isfinite(wide), wide, own), own]), axis=0)
    eta = rows.y + unit * np.sinh(np.clip(v, -FARTHEST, FARTHEST))
    away = eta - cavity.center
    log_cosh = np.logaddexp(v, -v) - np.log(2.0)
    density = -(rows.copies * (rows.df + 1.0) - 1.0) * log_cosh
    with np.errstate(over="ignore"):
        density += away * (cavity.slope - 0.5 * cavity.precision * away)
    at, each = density.argmax(axis=0), np.arange(rows.n)
    above = density > density[at, each] - DROP
    first, last = above.argmax(axis=0), v.shape[0] - 1 - above[::-1].argmax(axis=0)
    return v[np.maximum(first - 1, 0), each], v[np.minimum(last + 1, v.shape[0] - 1), each], eta[at, each]


def log_constant(df: float) -> float:
    """Log density of the t distribution at 0."""
    if np.isinf(df):
        return -0.5 * float(np.log(2.0 * np.pi))
    return float(gammaln(0.5 * (df + 1.0)) - gammaln(0.5 * df) - 0.5 * np.log(df * np.pi))


def noise_of(df: FloatArray, shape: tuple[int, ...], generator: np.random.Generator) -> FloatArray:
    """Draws of t variables, whose degrees of freedom broadcast and may be infinite."""
    each = np.broadcast_to(df, shape)
    normal = generator.standard_normal(shape)
    finite = np.where(np.isfinite(each), each, 1.0)
    square = np.where(np.isfinite(each), generator.chisquare(finite) / finite, 1.0)
    out: FloatArray = normal / np.sqrt(square)
    return out


def from_responses(y: FloatArray, weights: FloatArray | None, df: float | None) -> StudentT:
    """The likelihood of responses, each row counted `weights` times; None stands for 1, and for unknown `df`."""
    y = np.asarray(y, dtype=float)
    copies = np.ones(y.size) if weights is None else np.asarray(weights, dtype=float)
    middle = np.median(y) if y.size else 0.0
    away = np.abs(y - middle)
    spread = float(np.median(away)) * NORMAL_SPREAD if y.size else 1.0
    # More than half of the responses may be equal, but for rounding errors.
    if y.size and spread <= EQUAL * np.median(np.abs(y)):
        spread = 0.1 * float(away.mean())
    return StudentT(y, copies, np.nan if df is None else float(df), np.nan, spread if spread > 0 else 1.0)
