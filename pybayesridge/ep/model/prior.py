"""The spike-and-slab prior of each coefficient or group: tilted moments, their inverse, the conjugate.

A coefficient has prior ``p N(0, slab_var) + (1 - p) delta_0``. Multiplied by a Gaussian cavity
``exp(h1 w - h2 w^2 / 2)`` it gives the *tilted* distribution: with probability ``r`` the coefficient is
in, and then it is N(mu, tau); else it is zero. The columns of a group are in or out together: their log Bayes
factors add up to the log odds of one shared r, and given r every formula is elementwise in the coefficients.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from pybayesridge._types import BoolArray, FloatArray, IntArray
from pybayesridge.ep.model.groups import Coupling, group_sizes, group_sum
from pybayesridge.ep.model.inverse_moments import solve_groups, solve_monotone


@dataclass(frozen=True, slots=True)
class Prior:
    """The spike-and-slab prior of d coefficients.

    Attributes
    ----------
    log_p, log_not_p : ndarray (d,)
        Logarithms of the prior inclusion probabilities and of their complements; equal within a group.
    slab_var : float
        Variance of the slab.
    groups : ndarray (d,) of int or None
        The group, from 0 on, of each column; None where every column is on its own.
    """

    log_p: FloatArray
    log_not_p: FloatArray
    slab_var: float
    groups: IntArray | None = None

    @classmethod
    def from_probability(cls, p: FloatArray, slab_var: float, groups: IntArray | None = None) -> Prior:
        """Prior from inclusion probabilities in (0, 1]; those of zero are to be dropped beforehand."""
        with np.errstate(divide="ignore"):
            return cls(np.log(p), np.log1p(-p), float(slab_var), groups)

    @property
    def logit(self) -> FloatArray:
        """Prior log odds of inclusion, infinite where p = 1; shape (d,)."""
        return self.log_p - self.log_not_p

    @property
    def always_in(self) -> BoolArray:
        """Columns with p = 1, whose prior is Gaussian; bool, shape (d,)."""
        return np.isneginf(self.log_not_p)


@dataclass(frozen=True, slots=True)
class TiltedCoefficients:
    """Tilted distributions of d coefficients; every array has shape (d,).

    Attributes
    ----------
    prob, not_prob : ndarray (d,)
        Inclusion probability r and 1 - r, each to full relative precision.
    slab_mean, slab_var : ndarray (d,)
        Mean mu and variance tau given inclusion.
    log_norm : ndarray (d,)
        Log normaliser, ``log E_prior exp(h1 w - h2 w^2 / 2)``; that of a group is divided among its columns.
    h1, h2 : ndarray (d,)
        The cavity.
    groups : ndarray (d,) of int or None
        As in the prior.
    """

    prob: FloatArray
    not_prob: FloatArray
    slab_mean: FloatArray
    slab_var: FloatArray
    log_norm: FloatArray
    h1: FloatArray
    h2: FloatArray
    groups: IntArray | None = None

    @property
    def mean(self) -> FloatArray:
        """Mean, shape (d,)."""
        return self.prob * self.slab_mean

    @property
    def var(self) -> FloatArray:
        """Variance, shape (d,)."""
        return self.prob * (self.slab_var + self.not_prob * self.slab_mean**2)


def tilted(h1: FloatArray, h2: FloatArray, prior: Prior) -> TiltedCoefficients:
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
    log_slab = group_sum(0.5 * (h1 * mu - np.log1p(growth)), prior.groups)
    log_odds = prior.logit + log_slab
    return TiltedCoefficients(
        prob=expit(log_odds),
        not_prob=expit(-log_odds),
        slab_mean=mu,
        slab_var=tau,
        log_norm=_log_norm(log_slab, prior),
        h1=h1,
        h2=h2,
        groups=prior.groups,
    )


def _log_norm(log_slab: FloatArray, prior: Prior) -> FloatArray:
    """Log normalisers from the (group's) log Bayes factors, shared out within a group; (d,)."""
    total = np.logaddexp(prior.log_not_p, prior.log_p + log_slab)
    return total if prior.groups is None else total / group_sizes(prior.groups)


def matching_sites(t: TiltedCoefficients, prior: Prior) -> tuple[FloatArray, FloatArray]:
    """Sites that give the Gaussian with the tilted mean and variance when multiplied by the cavity.

    ``t2 = 1 / var - h2`` and ``t1 = mean / var - h1``, rearranged so that neither difference cancels.

    Parameters
    ----------
    t : TiltedCoefficients
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


def cavity_of_moments(mean: FloatArray, var: FloatArray, prior: Prior) -> TiltedCoefficients:
    """Invert :func:`tilted`: find the cavity whose tilted distribution has this mean and variance.

    With ``s = var + mean^2`` the inclusion probability r solves, on (mean^2 / s, 1),
    ``logit r = logit p + log(tau / slab_var) / 2 + mean^2 / (2 (r s - mean^2))``,
    ``tau = (r s - mean^2) / r^2``: one increasing scalar equation. It is solved in xi, where
    ``r s - mean^2 = var expit(xi)``, so that neither r near its lower limit nor r near one cancels. The columns
    of a group share r, and the right-hand side is the sum over them: still increasing.

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
    if prior.groups is not None:
        return _cavity_of_group_moments(mean, var, prior, prior.groups)
    second = var + mean**2
    ratio = mean**2 / var
    sure = prior.always_in
    logit = np.where(sure, 0.0, prior.logit)
    # f(xi) = 2 log r - log(1 - r) - log(x) / 2 + log(vs) / 2 - m^2 / (2 x) - logit, with r = var (ratio +
    # sig) / s, 1 - r = (var / s) expit(-xi), x = var sig.
    const = logit + 0.5 * np.log(var / prior.slab_var) + np.log(second / var)
    xi = solve_monotone(ratio, const)
    sig = np.where(sure, 1.0, expit(xi))
    not_prob = np.where(sure, 0.0, var / second * expit(-xi))
    prob = (mean**2 + var * sig) / second
    inv_tau = prob**2 / (var * sig)
    h1 = mean / prob * inv_tau
    h2 = inv_tau - 1.0 / prior.slab_var
    log_slab = 0.5 * (mean / prob * h1 - np.log(prior.slab_var * inv_tau))
    log_norm = np.logaddexp(prior.log_not_p, prior.log_p + log_slab)
    return TiltedCoefficients(prob, not_prob, mean / prob, 1.0 / inv_tau, log_norm, h1, h2)


def _cavity_of_group_moments(mean: FloatArray, var: FloatArray, prior: Prior, groups: IntArray) -> TiltedCoefficients:
    """:func:`cavity_of_moments` for groups."""
    sure = prior.always_in
    second = var + mean**2
    logit = np.where(sure, 0.0, prior.logit)
    root = solve_groups(mean, var, logit, prior.slab_var, groups)
    prob = np.where(sure, 1.0, root.prob)
    not_prob = np.where(sure, 0.0, root.not_prob)
    inv_tau = prob**2 / np.where(sure, var, second * root.excess)
    mu = mean / prob
    h1 = mu * inv_tau
    h2 = inv_tau - 1.0 / prior.slab_var
    log_slab = group_sum(0.5 * (mu * h1 - np.log(prior.slab_var * inv_tau)), groups)
    return TiltedCoefficients(prob, not_prob, mu, 1.0 / inv_tau, _log_norm(log_slab, prior), h1, h2, groups)


def conjugate(t: TiltedCoefficients, mean: FloatArray, var: FloatArray) -> FloatArray:
    """Convex conjugate ``h*(mean, s) = sup_h h1 mean - h2 s / 2 - log_norm``, ``s = var + mean^2``.

    ``t`` is what :func:`cavity_of_moments` returned for this mean and variance; shape (d,). That of a group is the
    sum over its columns.
    """
    return t.h1 * mean - 0.5 * t.h2 * (var + mean**2) - t.log_norm


def _alpha(t: TiltedCoefficients, kappa: FloatArray) -> FloatArray:
    """Coefficient of Sherman and Morrison's formula for the tilted covariance; equal within a group, (d,)."""
    return t.not_prob / (1.0 + 0.5 * t.not_prob * group_sum(1.0 + kappa**2, t.groups))


def inverse_curvature(t: TiltedCoefficients) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Inverse of the tilted covariance matrix of (w, w^2): the Jacobian of the inverse map.

    ``d h1 = P11 dm + P12 ds`` and ``-d h2 / 2 = P12 dm + P22 ds``. By Sherman-Morrison on the within-slab
    covariance, so that nothing cancels when r is near zero or one. Between columns of a group
    :func:`inverse_coupling` adds to it.

    Parameters
    ----------
    t : TiltedCoefficients
        Tilted distributions.

    Returns
    -------
    p11, p12, p22 : ndarray (d,)
        Entries of the symmetric 2 x 2 matrices.
    """
    r, mu, tau = t.prob, t.slab_mean, t.slab_var
    kappa = mu**2 / tau
    alpha = _alpha(t, kappa)
    p11 = (1.0 + 2.0 * kappa - alpha * kappa**3) / (r * tau)
    p12 = -mu / (r * tau**2) * (1.0 + 0.5 * alpha * kappa * (1.0 - kappa))
    p22 = (1.0 - 0.5 * alpha * (1.0 - kappa) ** 2) / (2.0 * r * tau**2)
    return p11, p12, p22


def inverse_coupling(t: TiltedCoefficients) -> Coupling | None:
    """The entries of :func:`inverse_curvature` between the columns of a group.

    The covariance of a group's (w, w^2) is ``r V + r (1 - r) u u'``, V the 2 x 2 blocks within the slab and u the
    moments there. Its inverse is ``(D - alpha D u u' D) / r`` with ``D = V^-1``.
    """
    if t.groups is None:
        return None
    kappa = t.slab_mean**2 / t.slab_var
    size = np.sqrt(_alpha(t, kappa) / t.prob)
    first = size * t.slab_mean * kappa / t.slab_var
    return Coupling(t.groups, -1.0, first, 0.5 * size * (1.0 - kappa) / t.slab_var)


def curvature(t: TiltedCoefficients) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Tilted covariance matrix of (w, w^2), entries 11, 12 and 22, each of shape (d,)."""
    r, mu, tau = t.prob, t.slab_mean, t.slab_var
    spread = r * t.not_prob
    second = mu**2 + tau
    c11 = r * tau + spread * mu**2
    c12 = 2.0 * r * mu * tau + spread * mu * second
    c22 = r * (2.0 * tau**2 + 4.0 * mu**2 * tau) + spread * second**2
    return c11, c12, c22


def coupling(t: TiltedCoefficients) -> Coupling | None:
    """Entries of :func:`curvature` between columns of a group: ``r (1 - r) u u'``, u the moments in the slab."""
    if t.groups is None:
        return None
    spread = np.sqrt(t.prob * t.not_prob)
    return Coupling(t.groups, 1.0, spread * t.slab_mean, spread * (t.slab_mean**2 + t.slab_var))
