r"""Covariances of effects that come in sets: intercepts and slopes of the same level.

A **term** is q bands with a column for each of L levels, in one order; a band on its own is a term with q = 1. The
effects of a level are ``s2`` times ``T = A A'``, with A (q, q) lower triangular: ``b = A u``, ``u ~ N(0, s2 I)``.

    w_k = T_kk S_kk,   W = sum over terms of sum_kl T_kl S_kl,   S_kl = tr(X_k X_l') / n

S_kk being what :class:`BandProblem` calls ``s_k``. W, the mean square of what terms explain relative to
the noise, has the beta-prime prior of a single penalty; the shares ``w_k / sum_k w_k`` are Dirichlet(1/2, …, 1/2),
and correlations have the LKJ prior with eta = 1, all independent of each other.

**Coordinates.** With c = K / (2 a) - 1, K the number of bands and a the first parameter of the prior of W, and with
``v_k = e_k sinh(x_k)`` for any units e_k,

    sqrt(w_k) = v_k |v|^c

turns the density of the logs of the w_k into one of x that is even and smooth on the whole space, also if variances
vanish, one of them or all, and falls exponentially on all sides. A correlation is the normal score of its uniform
probability, so that its prior is standard normal. Where v has another sign, so have the correlations of its band: all
2^K reflections of a point are the same, and one of them is needed. Which is left to a window of the x, a product of
normal distribution functions of the x_k, whose sum over the reflections is 1: it keeps the density smooth.

Where the variances cannot all vanish, c = 0 will do, so that each of them is a function of its own coordinate alone.
The density then has a factor ``|v|^(2a - K)``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import betainc, betaincinv, betaln, gammaln, log_ndtr, ndtr, ndtri

from pybayesridge._types import FloatArray, IntArray

LEAST = 1e-300
"""Smallest value of what is a square."""

LIMIT = 1 - 1e-6
"""Largest partial correlation that is given a normal score."""

FARTHEST = 5.0
"""Largest normal score of a mode: correlations of 1 - 1e-6."""

VANISHED, ABSENT = 1e-3, 10.0
"""Part of the mode that stands for 0, and how much lower than at the mode the log density there must be, but for its
pole, where the variances cannot all vanish."""

Factors = tuple[FloatArray, ...]
"""The A (…, q, q) of each term."""


@dataclass(frozen=True, slots=True)
class Terms:
    """Which columns make each term, and the mean squares of their products.

    Attributes
    ----------
    bands : tuple of tuples of int
        Positions of the bands of each term.
    columns : tuple of (q, L) int arrays
        Positions of their columns.
    cross : tuple of (q, q) arrays
        S.
    """

    bands: tuple[tuple[int, ...], ...]
    columns: tuple[IntArray, ...]
    cross: tuple[FloatArray, ...]

    @property
    def count(self) -> int:
        """Number of bands K."""
        return sum(len(each) for each in self.bands)

    @property
    def pairs(self) -> list[tuple[int, int, int]]:
        """For each correlation the position of its term, and of the later and the earlier band within it."""
        return [(t, i, j) for t, each in enumerate(self.bands) for i in range(1, len(each)) for j in range(i)]

    @property
    def dimension(self) -> int:
        """Number of variances and correlations."""
        return self.count + len(self.pairs)

    @property
    def order(self) -> list[int]:
        """Positions of variances, that of the band with most levels first, and then of correlations."""
        levels = np.empty(self.count)
        for each, columns in zip(self.bands, self.columns, strict=True):
            levels[list(each)] = columns.shape[1]
        return [*np.argsort(-levels, kind="stable").tolist(), *range(self.count, self.dimension)]

    @property
    def size(self) -> FloatArray:
        """``s_k`` of each band, (K,)."""
        out = np.empty(self.count)
        for each, cross in zip(self.bands, self.cross, strict=True):
            out[list(each)] = np.diag(cross)
        return out

    def times_factors(self, a: FloatArray, factors: Factors) -> FloatArray:
        """``a A`` for a (m, p): combinations of columns whose coefficients are u; A (q, q) of each term."""
        out = np.empty_like(a)
        for at, factor in zip(self.columns, factors, strict=True):
            for j in range(len(factor)):
                own = a[:, at[j]] * factor[j, j]
                for i in range(j + 1, len(factor)):
                    own += a[:, at[i]] * factor[i, j]
                out[:, at[j]] = own
        return out

    def coefficients(self, u: FloatArray, factors: Factors) -> FloatArray:
        """``A u`` for u (p, m)."""
        out = np.empty_like(u)
        for at, factor in zip(self.columns, factors, strict=True):
            for i in range(len(factor)):
                own = u[at[0]] * factor[i, 0]
                for j in range(1, i + 1):
                    own += u[at[j]] * factor[i, j]
                out[at[i]] = own
        return out

    def variances(self, factors: Factors) -> FloatArray:
        """``T_kk`` of each band, (…, K)."""
        shape = factors[0].shape[:-2]
        out = np.empty((*shape, self.count))
        for each, factor in zip(self.bands, factors, strict=True):
            out[..., list(each)] = (factor**2).sum(axis=-1)
        return out

    def log_w(self, factors: Factors) -> FloatArray:
        """Logs of the ``w_k`` of each band, (…, K)."""
        out: FloatArray = np.log(np.maximum(self.variances(factors) * self.size, LEAST))
        return out

    def totals(self, factors: Factors) -> FloatArray:
        """What each term adds to W, covariances included, (…, number of terms)."""
        each = [
            np.einsum("...ij,ik,...kj->...", factor, cross, factor)
            for factor, cross in zip(factors, self.cross, strict=True)
        ]
        return np.maximum(np.stack(each, axis=-1), 0.0)

    def correlations(self, factors: Factors) -> FloatArray:
        """The correlation of each pair, (…, number of pairs)."""
        shape = factors[0].shape[:-2]
        out = np.empty((*shape, len(self.pairs)))
        for place, (t, i, j) in enumerate(self.pairs):
            a = factors[t]
            norms = np.sqrt((a[..., i, :] ** 2).sum(axis=-1) * (a[..., j, :] ** 2).sum(axis=-1))
            product = (a[..., i, :] * a[..., j, :]).sum(axis=-1)
            out[..., place] = np.divide(product, norms, out=np.zeros(np.shape(norms)), where=norms > 0)
        return np.clip(out, -1.0, 1.0)


@dataclass(frozen=True, slots=True)
class CovarianceCoordinates:
    """The coordinates x (d,) of all variances and correlations, first those, and their prior.

    Attributes
    ----------
    terms : Terms
    a, b : float
        Of the beta-prime prior of W relative to its unit.
    log_unit : float
        Log of this unit.
    width : (K,) array
        ``e_k``.
    window : (K,) array
        Standard deviations of the normal distribution functions.
    apart : bool
        Whether c is 0.
    """

    terms: Terms
    a: float
    b: float
    log_unit: float
    width: FloatArray
    window: FloatArray
    apart: bool = False

    @classmethod
    def of(cls, terms: Terms, a: float, b: float, log_unit: float, scale: FloatArray) -> CovarianceCoordinates:
        """Coordinates for the data: `scale` (K,) is the w_k where the likelihood of a band alone begins to fall."""
        power = terms.count / (2 * a) - 1
        center = np.sqrt(scale.sum()) ** (1 / (1 + power))
        return cls(terms, a, b, log_unit, np.sqrt(scale) / center**power, np.ones(terms.count))

    def around(self, w: FloatArray) -> CovarianceCoordinates:
        """The same with units e_k that suit posteriors around totals w (K,) of the bands."""
        power = self.power
        scale = self.width * np.sqrt((self.width**2).sum()) ** power
        center = np.sqrt(w.sum() + (scale**2).sum()) ** (1 / (1 + power))
        return replace(self, width=scale / center**power)

    def to_try(self) -> list[CovarianceCoordinates]:
        """Coordinates, before :meth:`around` is applied, of which the first that suit a posterior are taken.

        Where no effects are correlated, first those in which each variance has one of its own: a long tail of one of
        several variances is then straight.
        """
        several = self.terms.dimension == self.terms.count > 1
        return [self.each_apart(), self] if several else [self]

    def suits(self, height: Callable[[FloatArray], float], mode: FloatArray) -> bool:
        """Whether a posterior with this log density and mode (d,) is smooth in these coordinates.

        Where c is 0, if the variances cannot all vanish: the density has a pole where they do.
        """
        if not self.apart:
            return True
        near = VANISHED * mode
        own = (self.terms.variances(self.factors(np.stack([near, mode]))) * self.terms.size).sum(axis=-1)
        pole = (self.a - self.terms.count / 2) * float(np.diff(np.log(np.maximum(own, LEAST)))[0])
        return height(near) + pole < height(mode) - ABSENT

    def each_apart(self) -> CovarianceCoordinates:
        """The same with c = 0, before :meth:`around` is applied."""
        return replace(self, width=self.width * np.sqrt((self.width**2).sum()) ** self.power, apart=True)

    @property
    def power(self) -> float:
        """``c``."""
        return 0.0 if self.apart else self.terms.count / (2 * self.a) - 1

    def factors(self, x: FloatArray) -> Factors:
        """A of each term at coordinates (…, d)."""
        count = self.terms.count
        v = self.width * np.sinh(x[..., :count])
        norm = np.sqrt((v**2).sum(axis=-1, keepdims=True))
        return correlated(self.terms, v * norm**self.power / np.sqrt(self.terms.size), x[..., count:])

    def log_prior(self, x: FloatArray) -> FloatArray:
        """Log density of the prior with respect to x (…, d), summed over all reflections.

        Times :meth:`log_window` it integrates to 1 over the whole space.
        """
        count = self.terms.count
        factors = self.factors(x)
        own = (self.terms.variances(factors) * self.terms.size).sum(axis=-1)
        total = self.terms.totals(factors).sum(axis=-1)
        ratio = np.divide(total, own, out=np.ones(np.shape(own)), where=own > 0)
        constant = (
            float(gammaln(count / 2))
            - count / 2 * np.log(np.pi)
            - float(betaln(self.a, self.b))
            + np.log1p(self.power)
            + float(np.log(self.width).sum())
            - self.a * self.log_unit
            + count * np.log(2.0)
        )
        scores = x[..., count:]
        normal = -0.5 * (scores**2).sum(axis=-1) - 0.5 * np.log(2 * np.pi) * scores.shape[-1]
        out: FloatArray = (
            constant
            - (self.a + self.b) * np.log1p(total * np.exp(-self.log_unit))
            + self.a * np.log(np.maximum(ratio, LEAST))
            + np.log(np.cosh(x[..., :count])).sum(axis=-1)
            + normal
        )
        if self.apart:
            out += (self.a - count / 2) * np.log(np.maximum(own, LEAST))
        return out

    def bounds(self, most: float) -> FloatArray:
        """Bounds of the absolute values of coordinates, (d,), within which logs of the w_k of single bands are."""
        out = np.full(self.terms.dimension, FARTHEST)
        out[: self.terms.count] = np.arcsinh(
            np.exp(most / 2 / (1 + self.power)) / np.sqrt(self.terms.count) / self.width
        )
        return out

    def log_density(self, x: FloatArray, factors: Factors) -> FloatArray:
        """Log density of the prior with the window, where the `factors` at x (…, d) are these."""
        return self.log_prior(x) + self.log_window(x)

    def log_window(self, x: FloatArray) -> FloatArray:
        """Log of the part of the density that a point (…, d) stands for, and not its reflections."""
        out: FloatArray = log_ndtr(x[..., : self.terms.count] / self.window).sum(axis=-1)
        return out

    def of_factors(self, factors: Factors) -> FloatArray:
        """The coordinates (d,) at which the A of the terms are these."""
        w = self.terms.variances(factors) * self.terms.size
        norm = np.sqrt(w.sum()) ** (1 / (1 + self.power))
        v = np.sqrt(w) / max(norm**self.power, LEAST)
        scores = [score for factor in factors for score in partial_scores(factor)]
        return np.concatenate([np.arcsinh(v / self.width), scores])


def correlated(terms: Terms, root: FloatArray, scores: FloatArray) -> Factors:
    """A of each term from standard deviations (…, K), and scores of partial correlations of all terms in turn."""
    out, place = [], 0
    for each in terms.bands:
        q = len(each)
        own = scores[..., place : place + q * (q - 1) // 2]
        place += own.shape[-1]
        out.append(root[..., list(each), None] * correlation_root(own, q))
    return tuple(out)


def correlation_root(scores: FloatArray, q: int) -> FloatArray:
    """The Cholesky factor of a correlation matrix (…, q, q) from the normal scores of its partial correlations.

    That of rows i and j, given the rows before j, is 2u - 1 with u ~ Beta(c, c), c = 1 + (q - 2 - j) / 2: the
    LKJ prior with eta = 1 (Lewandowski, Kurowicka & Joe 2009).
    """
    shape = scores.shape[:-1]
    out = np.zeros((*shape, q, q))
    out[..., 0, 0] = 1.0
    place = 0
    for i in range(1, q):
        left = np.ones(shape)
        for j in range(i):
            half = 1 + (q - 2 - j) / 2
            above, below = (_quantile(half, sign * scores[..., place]) for sign in (1.0, -1.0))
            out[..., i, j] = (above - below) * np.sqrt(left)
            left = left * 4 * above * below
            place += 1
        out[..., i, i] = np.sqrt(left)
    return out


def _quantile(half: float, score: FloatArray) -> FloatArray:
    probability = ndtr(score)
    out: FloatArray = probability if half == 1.0 else betaincinv(half, half, probability)
    return out


def partial_scores(factor: FloatArray) -> list[float]:
    """Normal scores of the partial correlations of ``A A'``; those of rows of zeros are 0."""
    out = []
    q = len(factor)
    factor = factor * np.where(np.diag(factor) < 0, -1.0, 1.0)
    for i in range(1, q):
        row = factor[i] / max(float(np.sqrt((factor[i] ** 2).sum())), LEAST)
        left = 1.0
        for j in range(i):
            half = 1 + (q - 2 - j) / 2
            partial = float(np.clip(row[j] / np.sqrt(max(left, LEAST)), -LIMIT, LIMIT))
            out.append(float(ndtri(betainc(half, half, (1 + partial) / 2))))
            left -= float(row[j] ** 2)
    return out


def lower_entries(terms: Terms) -> list[tuple[int, int, int]]:
    """Term, row and column of each free entry of the A of all terms."""
    return [(t, i, j) for t, each in enumerate(terms.bands) for i in range(len(each)) for j in range(i + 1)]


def factors_of_entries(terms: Terms, entries: FloatArray) -> Factors:
    """The A (…, q, q) of all terms from their free entries (…, number of these)."""
    out = [np.zeros((*entries.shape[:-1], len(each), len(each))) for each in terms.bands]
    for place, (t, i, j) in enumerate(lower_entries(terms)):
        out[t][..., i, j] = entries[..., place]
    return tuple(out)


def entries_of(terms: Terms, factors: Sequence[Factors]) -> dict[str, FloatArray]:
    """The bands of the columns, and the roots of the covariances of effects at the nodes of each target in turn.

    For other languages: positions count from 1.
    """
    entries = lower_entries(terms)
    band = np.empty(sum(columns.size for columns in terms.columns))
    for bands, columns in zip(terms.bands, terms.columns, strict=True):
        for k, at in zip(bands, columns, strict=True):
            band[at] = k + 1.0
    return {
        "band": band,
        "entries": np.concatenate([np.stack([own[t][:, i, j] for t, i, j in entries], axis=1) for own in factors]),
        "entry_row": np.array([terms.bands[t][i] + 1.0 for t, i, _ in entries]),
        "entry_column": np.array([terms.bands[t][j] + 1.0 for t, _, j in entries]),
    }
