"""The posterior of linear functions of the coefficients: a one-dimensional mixture over the penalty.

Given t2, anything linear in (g, b) is normal (noise variance known, or fixed at its mode) or Student t (noise
variance integrated out). A `Mixture` holds the nodes in log t2: one for a fitted penalty, many where the penalty
is integrated out. A `Functionals` holds linear functions in the rotated basis, where all of it costs O(r) a node.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import norm
from scipy.stats import t as student

from pybayesridge._types import FloatArray
from pybayesridge.ridge.profile import shrinkage
from pybayesridge.ridge.spectrum import Spectrum

QUANTILE_TOL = 1e-10
"""Quantiles of a mixture are solved to this share of its standard deviation."""

QUANTILE_MAXITER = 100
"""Bisection alone would halve a bracket this often; Newton's steps take about six."""


@dataclass(frozen=True, slots=True)
class Mixture:
    """Nodes of the posterior of log t2, in the units of the rotated problem.

    Attributes
    ----------
    log_t2 : (K, q) array
        -inf for a null model, +inf for an unpenalised fit.
    weight : (K, q) array
        Sums to 1 over the nodes.
    scale2 : (K, q) array
        Squared scale of the noise at each node: its variance for a normal, R/nu for a t.
    df : float
        Degrees of freedom; inf for a normal.
    open_variance : bool
        Whether directions in which X does not vary have infinite variance: the tail of t2 is too heavy.
    """

    log_t2: FloatArray
    weight: FloatArray
    scale2: FloatArray
    df: float
    open_variance: bool = False

    @property
    def variance_factor(self) -> float:
        """Variance beside squared scale; infinite where the t distribution has no variance."""
        if np.isinf(self.df):
            return 1.0
        return self.df / (self.df - 2) if self.df > 2 else np.inf


@dataclass(frozen=True, slots=True)
class Functionals:
    """m linear functions ``coords'a + (part outside the row space) + (part in Z)`` of the unknowns.

    A constant to be added, such as the value at b = 0, is the caller's: it is the same at every node.

    Attributes
    ----------
    coords : (m, r) array
        V'x.
    outside : (m,) array
        Squared norm of the part of x outside the row space of X.
    leverage : (m,) array
        Contribution of the unpenalised coefficients: z (Z'WZ)^-1 z'.
    """

    coords: FloatArray
    outside: FloatArray
    leverage: FloatArray


def rotated_coefficients(spectrum: Spectrum, log_t2: FloatArray) -> FloatArray:
    """``a = V'b`` at each node: (K, q, r) for `log_t2` (K, q)."""
    return shrinkage(spectrum.s, log_t2) * (spectrum.z / spectrum.s[:, None]).T


def mean_coefficients(spectrum: Spectrum, mixture: Mixture) -> FloatArray:
    """Posterior mean of ``a = V'b``, (r, q)."""
    if mixture.log_t2.shape[0] == 1:
        return rotated_coefficients(spectrum, mixture.log_t2)[0].T
    return np.einsum("kt,ktj->jt", mixture.weight, rotated_coefficients(spectrum, mixture.log_t2))


def effective_df(spectrum: Spectrum, log_t2: FloatArray) -> FloatArray:
    """``tr X (X'X + lambda)^-1 X'`` at each node, shape of `log_t2`."""
    return shrinkage(spectrum.s, log_t2).sum(axis=-1)


def _covariance_factors(spectrum: Spectrum, mixture: Mixture) -> tuple[FloatArray, FloatArray]:
    """``scale2 / (s_j^2 + 1/t2)`` (K, q, r) and ``scale2 t2`` (K, q): variances inside and outside the row space."""
    s = spectrum.s
    with np.errstate(over="ignore", invalid="ignore"):
        inside = mixture.scale2[..., None] * np.where(
            np.isneginf(mixture.log_t2)[..., None], 0.0, shrinkage(s, mixture.log_t2) / s**2
        )
        outside = np.where(mixture.scale2 == 0, 0.0, mixture.scale2 * np.exp(mixture.log_t2))
    return inside, outside


def locations(f: Functionals, spectrum: Spectrum, mixture: Mixture) -> FloatArray:
    """Centre of every functional at every node, (K, q, m)."""
    a = rotated_coefficients(spectrum, mixture.log_t2)
    out: FloatArray = a @ f.coords.T
    return out


def squared_scales(
    f: Functionals, spectrum: Spectrum, mixture: Mixture, noise: FloatArray | None = None
) -> FloatArray:
    """Squared scale of every functional at every node, (K, q, m).

    `noise` (m,) adds that many times the noise variance: 1/w for a new observation of weight w.
    """
    inside, outside = _covariance_factors(spectrum, mixture)
    extra = f.leverage if noise is None else f.leverage + noise
    out: FloatArray = inside @ (f.coords**2).T + mixture.scale2[..., None] * extra
    beyond = f.outside > 0
    if beyond.any():
        out[..., beyond] += outside[..., None] * f.outside[beyond]
    return out


def moments(f: Functionals, spectrum: Spectrum, mixture: Mixture) -> tuple[FloatArray, FloatArray]:
    """Posterior mean and variance of every functional, each (m, q)."""
    where = locations(f, spectrum, mixture)
    spread = squared_scales(f, spectrum, mixture)
    factor = mixture.variance_factor
    if where.shape[0] == 1:
        with np.errstate(invalid="ignore"):
            variance = np.where(spread[0] == 0, 0.0, factor * spread[0])
        return where[0].T, variance.T
    mean = np.einsum("kt,ktm->tm", mixture.weight, where)
    variance = np.einsum("kt,ktm->tm", mixture.weight, factor * spread + (where - mean) ** 2)
    if mixture.open_variance:
        variance[:, f.outside > 0] = np.inf
    return mean.T, variance.T


def covariance(
    f: Functionals,
    outer_outside: FloatArray | None,
    outer_leverage: FloatArray,
    spectrum: Spectrum,
    mixture: Mixture,
    target: int,
) -> FloatArray:
    """Posterior covariance of all functionals of one target, (m, m).

    Parameters
    ----------
    f : Functionals
    outer_outside : (m, m) array or None
        Inner products of the parts outside the row space; None where there is no such part.
    outer_leverage : (m, m) array
        ``z_i (Z'WZ)^-1 z_j'``.
    spectrum : Spectrum
    mixture : Mixture
    target : int
    """
    inside, outside = _covariance_factors(spectrum, mixture)
    weight = mixture.weight[:, target]
    factor = mixture.variance_factor
    if not np.isfinite(factor):
        return np.full((f.coords.shape[0], f.coords.shape[0]), np.inf)
    middle = weight @ inside[:, target]
    out = (f.coords * middle) @ f.coords.T + (weight @ mixture.scale2[:, target]) * outer_leverage
    if outer_outside is not None:
        out += (np.inf if mixture.open_variance else weight @ outside[:, target]) * outer_outside
    out *= factor
    if weight.size > 1:
        a = rotated_coefficients(spectrum, mixture.log_t2)[:, target]
        centred = (a - weight @ a) @ f.coords.T
        out += (centred * weight[:, None]).T @ centred
    return out


def quantiles(
    f: Functionals,
    spectrum: Spectrum,
    mixture: Mixture,
    probabilities: FloatArray,
    noise: FloatArray | None = None,
) -> FloatArray:
    """Quantiles of every functional, (m, q, len(probabilities)).

    One node has them in closed form; a mixture's are solved for by a bracketed Newton iteration on its
    distribution function, all functionals at once.
    """
    where = locations(f, spectrum, mixture)
    scale = np.sqrt(squared_scales(f, spectrum, mixture, noise))
    if where.shape[0] == 1:
        base = norm.ppf(probabilities) if np.isinf(mixture.df) else student.ppf(probabilities, mixture.df)
        out: FloatArray = where[0].T[..., None] + scale[0].T[..., None] * base
        return out
    out = np.empty((f.coords.shape[0], where.shape[1], probabilities.size))
    for target in range(where.shape[1]):
        for i, probability in enumerate(probabilities):
            out[:, target, i] = _mixture_quantile(
                where[:, target], scale[:, target], mixture.weight[:, target], mixture.df, float(probability)
            )
    return out


def _mixture_quantile(
    where: FloatArray, scale: FloatArray, weight: FloatArray, df: float, probability: float
) -> FloatArray:
    """Quantile of m mixtures of K components with common weights: `where` and `scale` are (K, m)."""
    law = norm() if np.isinf(df) else student(df)
    each = where + scale * law.ppf(probability)
    low, high = each.min(axis=0), each.max(axis=0)
    point = weight @ each
    width = weight @ scale
    for _ in range(QUANTILE_MAXITER):
        with np.errstate(divide="ignore", invalid="ignore"):
            standard = np.where(scale > 0, (point - where) / scale, np.sign(point - where) * np.inf)
        standard = np.where(np.isnan(standard), 0.0, standard)
        excess = weight @ law.cdf(standard) - probability
        with np.errstate(divide="ignore", invalid="ignore"):
            density = weight @ np.where(scale > 0, law.pdf(standard) / scale, 0.0)
            newton = point - excess / density
        high = np.where(excess >= 0, point, high)
        low = np.where(excess < 0, point, low)
        inside = (density > 0) & (newton >= low) & (newton <= high)
        proposal = np.where(inside, newton, 0.5 * (low + high))
        moved = np.abs(proposal - point)
        point = proposal
        if (moved <= QUANTILE_TOL * width).all():
            break
    return point
