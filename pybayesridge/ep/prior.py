"""The spike-and-slab prior, one coefficient at a time: tilted moments, their inverse, the conjugate.

A coefficient has prior ``p N(0, slab_var) + (1 - p) delta_0``. Multiplied by a Gaussian cavity
``exp(h1 w - h2 w^2 / 2)`` it gives the *tilted* distribution: with probability ``r`` the coefficient is
in, and then it is N(mu, tau); else it is zero. Everything here is elementwise in the coefficients.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, log_expit

from pybayesridge.ep._types import Array, Bools

#: No root of the inverse map lies outside: beyond, expit under- or overflows.
_XI_MAX = 700.0
_ROOT_MAXITER = 200
_ROOT_TOL = 1e-14


@dataclass(frozen=True, slots=True)
class Prior:
    """The spike-and-slab prior of d coefficients.

    Attributes
    ----------
    log_p, log_not_p : ndarray (d,)
        Logarithms of the prior inclusion probabilities and of their complements.
    slab_var : float
        Variance of the slab.
    """

    log_p: Array
    log_not_p: Array
    slab_var: float

    @classmethod
    def from_probability(cls, p: Array, slab_var: float) -> Prior:
        """Prior from inclusion probabilities in (0, 1]; those of zero are to be dropped beforehand."""
        with np.errstate(divide="ignore"):
            return cls(np.log(p), np.log1p(-p), float(slab_var))

    @property
    def logit(self) -> Array:
        """Prior log odds of inclusion, infinite where p = 1; shape (d,)."""
        return self.log_p - self.log_not_p

    @property
    def always_in(self) -> Bools:
        """Columns with p = 1, whose prior is Gaussian; bool, shape (d,)."""
        return np.isneginf(self.log_not_p)


@dataclass(frozen=True, slots=True)
class Tilted:
    """Tilted distributions of d coefficients; every array has shape (d,).

    Attributes
    ----------
    prob, not_prob : ndarray (d,)
        Inclusion probability r and 1 - r, each to full relative precision.
    slab_mean, slab_var : ndarray (d,)
        Mean mu and variance tau given inclusion.
    log_norm : ndarray (d,)
        Log normaliser, ``log E_prior exp(h1 w - h2 w^2 / 2)``.
    h1, h2 : ndarray (d,)
        The cavity.
    """

    prob: Array
    not_prob: Array
    slab_mean: Array
    slab_var: Array
    log_norm: Array
    h1: Array
    h2: Array

    @property
    def mean(self) -> Array:
        """Mean, shape (d,)."""
        return self.prob * self.slab_mean

    @property
    def var(self) -> Array:
        """Variance, shape (d,)."""
        return self.prob * (self.slab_var + self.not_prob * self.slab_mean**2)


def tilted(h1: Array, h2: Array, prior: Prior) -> Tilted:
    """Tilted distributions of the cavities ``exp(h1 w - h2 w^2 / 2)``; needs ``h2 > -1 / slab_var``.

    Equations 38-41 of Hernández-Lobato and Hernández-Lobato (2011) in a form that does not cancel.

    Parameters
    ----------
    h1, h2 : ndarray (d,)
        Cavity natural parameters.
    prior : Prior
        The prior of the d coefficients.

    Returns
    -------
    Tilted
        Moments and normalisers.
    """
    vs = prior.slab_var
    growth = h2 * vs
    tau = vs / (1.0 + growth)
    mu = h1 * tau
    log_slab = 0.5 * (h1 * mu - np.log1p(growth))
    log_odds = prior.logit + log_slab
    return Tilted(
        prob=expit(log_odds),
        not_prob=expit(-log_odds),
        slab_mean=mu,
        slab_var=tau,
        log_norm=np.logaddexp(prior.log_not_p, prior.log_p + log_slab),
        h1=h1,
        h2=h2,
    )


def matching_sites(t: Tilted, prior: Prior) -> tuple[Array, Array]:
    """Sites that give the Gaussian with the tilted mean and variance when multiplied by the cavity.

    ``t2 = 1 / var - h2`` and ``t1 = mean / var - h1``, rearranged so that neither difference cancels.

    Parameters
    ----------
    t : Tilted
        Tilted distributions.
    prior : Prior
        Their prior.

    Returns
    -------
    t1, t2 : ndarray (d,)
        Site natural parameters; t2 may be negative.
    """
    kappa = t.h1 * t.slab_mean
    excess = t.not_prob * kappa
    ratio = np.maximum(t.prob * (1.0 + excess), np.finfo(float).tiny)
    t2 = (1.0 / prior.slab_var + t.h2 * t.not_prob * (1.0 - t.prob * kappa)) / ratio
    t1 = -t.h1 * excess / (1.0 + excess)
    return t1, t2


def _root_function(xi: Array, ratio: Array, const: Array) -> tuple[Array, Array]:
    """Value and slope of the equation for xi; ``ratio`` is m^2 / z."""
    sig, anti = expit(xi), expit(-xi)
    inside = ratio + sig
    inverse = np.exp(-xi)
    value = 2.0 * np.log(inside) - log_expit(-xi) - 0.5 * log_expit(xi) - 0.5 * ratio * (1.0 + inverse) - const
    slope = 2.0 * sig * anti / inside + sig - 0.5 * anti + 0.5 * ratio * inverse
    return value, slope


def _solve_monotone(ratio: Array, const: Array) -> Array:
    """Root of the increasing function of :func:`_root_function`, by Newton inside a shrinking bracket."""
    low = np.full_like(ratio, -_XI_MAX)
    high = np.full_like(ratio, _XI_MAX)
    # Without the mean term the equation is 1.5 xi = const on the left and xi = const on the right; with it,
    # xi is about log(ratio / 2) when that term carries the balance alone.
    with np.errstate(divide="ignore"):
        guess = np.where(const > 0, const, const / 1.5)
        xi = np.clip(np.maximum(guess, np.log(0.5 * ratio) - np.log1p(np.abs(const))), -_XI_MAX + 1, _XI_MAX - 1)
    active = np.arange(ratio.size)
    for _ in range(_ROOT_MAXITER):
        x = xi[active]
        value, slope = _root_function(x, ratio[active], const[active])
        low[active] = np.where(value < 0, x, low[active])
        high[active] = np.where(value >= 0, x, high[active])
        new = x - value / slope
        lo, hi = low[active], high[active]
        new = np.where((new >= lo) & (new <= hi), new, 0.5 * (lo + hi))
        xi[active] = new
        active = active[np.abs(new - x) > _ROOT_TOL * (1.0 + np.abs(new))]
        if active.size == 0:
            break
    return xi


def cavity_of_moments(mean: Array, var: Array, prior: Prior) -> Tilted:
    """Invert :func:`tilted`: find the cavity whose tilted distribution has this mean and variance.

    With ``s = var + mean^2`` the inclusion probability r solves, on (mean^2 / s, 1),
    ``logit r = logit p + log(tau / slab_var) / 2 + mean^2 / (2 (r s - mean^2))``,
    ``tau = (r s - mean^2) / r^2``: one increasing scalar equation. It is solved in xi, where
    ``r s - mean^2 = var expit(xi)``, so that neither r near its lower limit nor r near one cancels.

    Parameters
    ----------
    mean, var : ndarray (d,)
        Moments; var > 0.
    prior : Prior
        The prior of the d coefficients.

    Returns
    -------
    Tilted
        With ``h1``, ``h2`` the cavity; ``h2 > -1 / slab_var``.
    """
    second = var + mean**2
    ratio = mean**2 / var
    sure = prior.always_in
    logit = np.where(sure, 0.0, prior.logit)
    # f(xi) = 2 log r - log(1 - r) - log(x) / 2 + log(vs) / 2 - m^2 / (2 x) - logit, with r = var (ratio +
    # sig) / s, 1 - r = (var / s) expit(-xi), x = var sig.
    const = logit + 0.5 * np.log(var / prior.slab_var) + np.log(second / var)
    xi = _solve_monotone(ratio, const)
    sig = np.where(sure, 1.0, expit(xi))
    not_prob = np.where(sure, 0.0, var / second * expit(-xi))
    prob = (mean**2 + var * sig) / second
    inv_tau = prob**2 / (var * sig)
    h1 = mean / prob * inv_tau
    h2 = inv_tau - 1.0 / prior.slab_var
    log_slab = 0.5 * (mean / prob * h1 - np.log(prior.slab_var * inv_tau))
    log_norm = np.logaddexp(prior.log_not_p, prior.log_p + log_slab)
    return Tilted(prob, not_prob, mean / prob, 1.0 / inv_tau, log_norm, h1, h2)


def conjugate(t: Tilted, mean: Array, var: Array) -> Array:
    """Convex conjugate ``h*(mean, s) = sup_h h1 mean - h2 s / 2 - log_norm``, ``s = var + mean^2``.

    ``t`` is what :func:`cavity_of_moments` returned for this mean and variance; shape (d,).
    """
    return t.h1 * mean - 0.5 * t.h2 * (var + mean**2) - t.log_norm


def inverse_curvature(t: Tilted) -> tuple[Array, Array, Array]:
    """Inverse of the tilted covariance matrix of (w, w^2): the Jacobian of the inverse map.

    ``d h1 = P11 dm + P12 ds`` and ``-d h2 / 2 = P12 dm + P22 ds``. By Sherman-Morrison on the within-slab
    covariance, so that nothing cancels when r is near zero or one.

    Parameters
    ----------
    t : Tilted
        Tilted distributions.

    Returns
    -------
    p11, p12, p22 : ndarray (d,)
        Entries of the symmetric 2 x 2 matrices.
    """
    r, mu, tau = t.prob, t.slab_mean, t.slab_var
    kappa = mu**2 / tau
    alpha = t.not_prob / (1.0 + 0.5 * t.not_prob * (1.0 + kappa**2))
    p11 = (1.0 + 2.0 * kappa - alpha * kappa**3) / (r * tau)
    p12 = -mu / (r * tau**2) * (1.0 + 0.5 * alpha * kappa * (1.0 - kappa))
    p22 = (1.0 - 0.5 * alpha * (1.0 - kappa) ** 2) / (2.0 * r * tau**2)
    return p11, p12, p22


def curvature(t: Tilted) -> tuple[Array, Array, Array]:
    """Tilted covariance matrix of (w, w^2), entries 11, 12 and 22, each of shape (d,)."""
    r, mu, tau = t.prob, t.slab_mean, t.slab_var
    spread = r * t.not_prob
    second = mu**2 + tau
    c11 = r * tau + spread * mu**2
    c12 = 2.0 * r * mu * tau + spread * mu * second
    c22 = r * (2.0 * tau**2 + 4.0 * mu**2 * tau) + spread * second**2
    return c11, c12, c22
