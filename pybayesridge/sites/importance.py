"""The posterior at a node as a mixture of normal distributions, by importance sampling.

Draws come from t distributions about the parts that expectation propagation finds, by points that fill the cube
evenly, and have the weights ``posterior / their density``. They are divided in two at the mean of the linear
predictor that is most skewed, again and again, and the mixture has a normal distribution with the mean and the
covariance of each of the groups: of all coordinates it has the mean and the covariance that the draws have. Where few
draws have much weight, more are drawn about that mixture (population Monte Carlo, Cappé et al. 2008).

The moments of the parts are known. What draws with weights for these parts differ by is Monte Carlo error, which is
taken off where the posterior is much like the parts (control variates).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy
from scipy.special import gammaln, logsumexp, ndtri, softmax

from pybayesridge._types import FloatArray
from pybayesridge.late import Late
from pybayesridge.linalg import blas
from pybayesridge.sites.coordinates import Scaled
from pybayesridge.sites.gaussian import Gaussian
from pybayesridge.sites.likelihood import RowSites

if TYPE_CHECKING:
    from scipy.stats import qmc
else:
    qmc = Late("scipy.stats.qmc")

SEED = 20261

DF, WIDER = 8.0, 1.1
"""Degrees of freedom and scale of the t distributions, relative to the normal distributions that they are about."""

EVEN = 0.1
"""Share of the draws that all parts get alike."""

ROUNDS = 6
"""Times that draws are made, the most."""

ENOUGH, SOME, LEAST = 0.3, 0.25, 0.04
"""Effective numbers of draws, relative to those of one time: with which no others are made; that which weights are
raised to a power to have, for what others are drawn about; and with which the posterior is known."""

NOISE = 12.0
"""Squares of skewness are about half as large by chance, divided by the effective number of draws."""

EACH = 4.0
"""Effective draws of each of the two groups in which others are divided, the least."""

NARROW = 0.25
"""Skewness of linear predictors with smaller standard deviations is in these units."""

LOOKED_AT = 250
"""Linear predictors, at most twice as many, of which one is the most skewed."""

NUMBERS = 1 << 22
"""Linear predictors of draws that are held at once, about."""

DEEP = 700.0
"""Logs of weights are smaller than the largest by this at the most: impossible draws have none."""

JITTER = 1e-10
"""Added to the variances of groups, relative to what they are in all."""

HALVINGS = 20
"""Of the range of the power."""


@dataclass(frozen=True, slots=True)
class Mixture:
    """Normal distributions of the coordinates of unit prior variance.

    Attributes
    ----------
    share : (C,) array
    laws : list of C Gaussians
    """

    share: FloatArray
    laws: list[Gaussian]


@dataclass(frozen=True, slots=True)
class Sampled:
    """What importance sampling finds.

    Attributes
    ----------
    mixture : Mixture
    log_evidence : float
    effective : float
        Effective number of draws.
    """

    mixture: Mixture
    log_evidence: float
    effective: float


def sampled(rows: Scaled, likelihood: RowSites, start: Mixture, count: int, most: int, seed: int) -> Sampled | None:
    """The posterior at a node; None where too few draws have weight.

    Parameters
    ----------
    rows : Scaled
    likelihood : RowSites
    start : Mixture
        The parts by expectation propagation.
    count : int
        Of draws, a power of two.
    most : int
        Normal distributions, the most.
    seed : int
        Nodes that differ in it have different errors, which average out.
    """
    about, functions, size = start, _functions(rows), start.laws[0].mean.size
    draws, log_weights, log_starts = np.empty((0, size)), np.empty(0), np.empty(0)
    for turn in range(ROUNDS):
        u = _drawn(about, count, [SEED, seed, turn])
        log_density = _log_density(about, u, DF)
        log_weight = _log_posterior(rows, likelihood, u) - log_density
        log_weight = np.maximum(log_weight, log_weight.max() - DEEP)
        draws, log_weights = np.vstack([draws, u]), np.r_[log_weights, log_weight]
        log_starts = np.r_[log_starts, _log_density(start, u, np.inf) - log_density]
        weight = softmax(log_weights)
        effective = _effective(weight)
        if effective >= ENOUGH * count:
            break
        about = _divided(u, _evened(log_weight, SOME * count), functions, most)
    if effective < max(LEAST * count, 3.0 * size):
        return None
    log_evidence = float(logsumexp(log_weights)) - float(np.log(log_weights.size))
    mixture, known = _divided(draws, weight, functions, most), softmax(log_starts)
    # Control variates, where they make the errors smaller.
    if float((weight - known) @ (weight - known)) < float(weight @ weight) - 1.0 / weight.size:
        log_evidence -= float(logsumexp(log_starts)) - float(np.log(log_starts.size))
        mixture = _corrected(mixture, start, draws, weight - known)
    return Sampled(mixture, log_evidence, effective)


def _corrected(mixture: Mixture, start: Mixture, draws: FloatArray, more: FloatArray) -> Mixture:
    """A mixture turned to have the mean and the covariance of another, and what draws have more, (count,)."""
    center, covariance = _moments(start)
    away = draws - center
    change = more @ away
    wanted = covariance + blas.product((away.T * more), away) - np.outer(change, change)
    mean, own = _moments(mixture)
    turn = np.linalg.cholesky(wanted) @ np.linalg.inv(np.linalg.cholesky(own))
    back = np.linalg.inv(turn)
    laws = []
    for law in mixture.laws:
        half = blas.product(np.ascontiguousarray(back.T), law.factor)
        factor = np.asfortranarray(np.linalg.cholesky(blas.product(half, half.T)))
        laws.append(Gaussian(factor, center + change + turn @ (law.mean - mean)))
    return Mixture(mixture.share, laws)


def _moments(mixture: Mixture) -> tuple[FloatArray, FloatArray]:
    """Mean and covariance."""
    means = np.array([law.mean for law in mixture.laws])
    mean = mixture.share @ means
    inside = np.einsum("i,ijk->jk", mixture.share, np.array([law.covariance() for law in mixture.laws]))
    return mean, inside + ((means - mean).T * mixture.share) @ (means - mean)


def _effective(weight: FloatArray) -> float:
    """Effective number of draws."""
    return float(weight.sum()) ** 2 / float(weight @ weight)


def _shares(about: Mixture) -> FloatArray:
    """Shares of the draws about the parts of a mixture."""
    return (1.0 - EVEN) * about.share + EVEN / about.share.size


def _drawn(about: Mixture, count: int, seed: list[int]) -> FloatArray:
    """Draws (count, k + r) about a mixture."""
    size, share = about.laws[0].mean.size, _shares(about)
    points = np.clip(qmc.Sobol(size + 2, seed=np.random.default_rng(seed)).random(count), 1e-12, 1.0 - 1e-12)
    which = np.minimum(np.searchsorted(np.cumsum(share), points[:, 0]), share.size - 1)
    wider = WIDER * np.sqrt(0.5 * DF / scipy.special.gammaincinv(0.5 * DF, points[:, 1]))
    noise, u = wider[:, None] * ndtri(points[:, 2:]), np.empty((count, size))
    for i, law in enumerate(about.laws):
        own = which == i
        u[own] = law.mean + blas.product(np.ascontiguousarray(noise[own]), np.ascontiguousarray(law.root().T))
    return u


def _log_density(about: Mixture, u: FloatArray, df: float) -> FloatArray:
    """Logs of the density of draws about a mixture, or where `df` is infinite of the mixture itself."""
    size, normal = u.shape[1], np.isinf(df)
    constant = -0.5 * size * np.log(2.0 * np.pi)
    if not normal:
        constant = gammaln(0.5 * (df + size)) - gammaln(0.5 * df) - size * (0.5 * np.log(df * np.pi) + np.log(WIDER))
    out = np.full(len(u), -np.inf)
    for law, share in zip(about.laws, about.share if normal else _shares(about), strict=True):
        away = blas.product(u - law.mean, law.factor)
        square = np.einsum("ij,ij->i", away, away)
        fall = -0.5 * square if normal else -0.5 * (df + size) * np.log1p(square / (WIDER**2 * df))
        out = np.logaddexp(out, np.log(share) + constant + law.log_root + fall)
    return out


def _log_posterior(rows: Scaled, likelihood: RowSites, u: FloatArray) -> FloatArray:
    """Logs of likelihood times prior at coordinates (count, k + r)."""
    out, step = np.empty(len(u)), max(1, NUMBERS // max(len(rows.rows), 1))
    for start in range(0, len(u), step):
        part = slice(start, start + step)
        with np.errstate(over="ignore"):
            out[part] = likelihood.values(blas.product(u[part] * rows.units, rows.rows.T)).sum(axis=1)
    penalised = u[:, rows.k :]
    of_prior: FloatArray = np.einsum("ij,ij->i", penalised, penalised) + penalised.shape[1] * np.log(2 * np.pi)
    return out - 0.5 * of_prior


def _evened(log_weight: FloatArray, effective: float) -> FloatArray:
    """Weights raised to the largest power, up to 1, with which so many draws count."""
    low, high = 0.0, 2.0
    for _ in range(HALVINGS):
        middle = min(0.5 * (low + high), 1.0)
        weight = softmax(middle * log_weight)
        if _effective(weight) >= effective:
            if middle == 1.0:
                return weight
            low = middle
        else:
            high = middle
    return softmax(low * log_weight)


def _functions(rows: Scaled) -> FloatArray:
    """The linear predictors of rows, of which few are looked at where there are many."""
    return rows.rows[:: max(len(rows.rows) // LOOKED_AT, 1)] * rows.units


def _divided(u: FloatArray, weight: FloatArray, rows: FloatArray, most: int) -> Mixture:
    """A mixture with the mean and the covariance of draws, of normal distributions of groups of them.

    That group is divided which adds most to skewness, but not where few of its draws count. Covariances of groups are
    drawn towards the mean of all of them, the more the fewer draws they have.
    """
    size, groups = u.shape[1], [np.arange(len(u))]
    skewed = [_most_skewed(u, weight, rows)]
    while len(groups) < most:
        i = int(np.argmax([size for size, _ in skewed]))
        if skewed[i][0] <= 0.0:
            break
        group, along = groups[i], skewed[i][1]
        own = weight[group]
        first = along <= own @ along / own.sum()
        groups[i : i + 1] = [group[first], group[~first]]
        skewed[i : i + 1] = [_most_skewed(u[each], weight[each], rows) for each in groups[i : i + 2]]
    share = np.array([weight[group].sum() for group in groups])
    means = np.array([weight[group] @ u[group] for group in groups]) / share[:, None]
    covariances = np.empty((len(groups), size, size))
    for i, group in enumerate(groups):
        away = (u[group] - means[i]) * np.sqrt(weight[group] / share[i])[:, None]
        covariances[i] = blas.product(away, away, transpose_a=True)
    of_all = np.einsum("i,ijk->jk", share, covariances)
    draws = _effective(weight) / len(groups)
    part = draws / (draws + size + 1.0)
    covariances = part * covariances + (1.0 - part) * of_all
    np.einsum("ijj->ij", covariances)[:] += JITTER * np.diag(of_all)
    return Mixture(share, [_of_covariance(mean, each) for mean, each in zip(means, covariances, strict=True)])


def _of_covariance(mean: FloatArray, covariance: FloatArray) -> Gaussian:
    root = np.linalg.inv(np.linalg.cholesky(covariance))
    return Gaussian(np.asfortranarray(np.linalg.cholesky(blas.product(root, root, transpose_a=True))), mean)


def _most_skewed(u: FloatArray, weight: FloatArray, rows: FloatArray) -> tuple[float, FloatArray]:
    """The linear predictor that is most skewed among draws, and how much, times their weight; 0 where none is.

    The square of the skewness says how much a normal distribution differs, less what few draws make of it.
    """
    total, effective = float(weight.sum()), _effective(weight)
    if effective < 2.0 * EACH:
        return 0.0, np.empty(0)
    own, eta = weight / total, blas.product(u, rows.T)
    away = eta - own @ eta
    square = away**2
    variance = own @ square
    skewness = (own @ (square * away)) ** 2 / np.maximum(variance, NARROW**2) ** 3
    most = int(np.argmax(skewness))
    return total * max(float(skewness[most]) - NOISE / effective, 0.0), eta[:, most]
