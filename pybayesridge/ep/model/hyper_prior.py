"""The prior of the hyperparameters: few columns expected, any share of variance explained."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, log_expit

from pybayesridge._types import FloatArray

ETA_BOUNDS = (-5.0, 6.0)
"""Range of eta, the log odds of the explained share."""

LEAST_SHARE = 0.01
"""The least prior inclusion probability is this fraction of one column (or of fewer, if fewer are expected)."""

LARGEST_INCLUSION = 0.995


@dataclass(frozen=True, slots=True)
class HyperPrior:
    """Prior density of t = logit p, log v and log s2, within bounds of t and eta.

    With ``eta = log(p * spread * v / s2)``, the log odds of the share of variance explained a priori, the density is
    proportional to ``σ(t - center) σ(center - t) σ(eta) σ(-eta)``: the tail of the expected number of columns falls
    as 1 / number, and the explained share is uniform. log s2 is flat. Hyperparameters that are given are conditioned
    on.

    Attributes
    ----------
    center : float
        t where the expected number of columns (or groups) is in: log(e / (G - e)).
    t_low, t_high, eta_low, eta_high : float
        Bounds.
    log_spread : float
        Logarithm of the sum of |x_j|²/n over the columns that may be in, x_j weighted and without its part in the
        unpenalised columns; where the p_j are given, of the sum of p_j |x_j|²/n.
    n_units : int
        Number of columns, or of groups, G.
    flat : int
        Number of unpenalised coefficients that are flat in units of the standard deviation of a latent response, to
        which the explained part contributes: each multiplies the density by ``(1 + exp(eta))^(-1/2)``.
    """

    center: float
    t_low: float
    t_high: float
    eta_low: float
    eta_high: float
    log_spread: float
    n_units: int
    flat: int = 0


def hyper_prior(
    n_units: int,
    diag: FloatArray,
    n: float,
    *,
    expected_size: float = 1.0,
    given: FloatArray | None = None,
    flat: int = 0,
) -> HyperPrior:
    """Set the prior up.

    Parameters
    ----------
    n_units : int
        Number of columns, or of groups, G.
    diag : (d,) array
        Squared lengths of the columns.
    n : float
        Number of rows.
    expected_size : float
        Number of columns or groups that are in a priori, in the middle of the prior.
    given : (d,) array, optional
        Prior inclusion probabilities, one for each column, if they are not to be learned.
    flat : int
        As for :class:`HyperPrior`.

    Raises
    ------
    ValueError
        If `expected_size` is not positive, or (with G > 1) not below G.
    """
    if not (np.isfinite(expected_size) and expected_size > 0):
        raise ValueError(f"expected_size must be a positive number, not {expected_size!r}")
    if n_units > 1 and expected_size >= n_units:
        raise ValueError(
            f"expected_size is {expected_size:g} for {n_units} columns or groups: give fewer, or prior_inclusion=1"
        )
    size = min(expected_size, 0.5) if n_units <= 1 else expected_size
    share = size / max(n_units, 1)
    spread = float(np.sum(diag if given is None else given * diag)) / n
    return HyperPrior(
        center=float(np.log(share) - np.log1p(-share)),
        t_low=_logit(LEAST_SHARE * min(expected_size, 1.0) / max(n_units, 1)),
        t_high=_logit(LARGEST_INCLUSION),
        eta_low=ETA_BOUNDS[0],
        eta_high=ETA_BOUNDS[1],
        # Without columns that may be in there is nothing to explain with, and nothing depends on it.
        log_spread=float(np.log(spread)) if spread > 0 else 0.0,
        n_units=n_units,
        flat=flat,
    )


def _logit(p: float) -> float:
    return float(np.log(p) - np.log1p(-p))


def eta(prior: HyperPrior, log_p: FloatArray, log_g: FloatArray) -> FloatArray:
    """Log odds of the share explained a priori; `log_p` is 0 where the p_j are given, `log_g` is log(v / s2)."""
    return prior.log_spread + log_p + log_g


def bell(x: FloatArray) -> FloatArray:
    """``log σ(x) σ(-x)``."""
    return np.asarray(log_expit(x) + log_expit(-np.asarray(x)))


def log_density(
    prior: HyperPrior, t: FloatArray | float | None, log_v: FloatArray | float, log_s2: FloatArray | float
) -> FloatArray:
    """Log density of (t, log v, log s2), or where t is None (the p_j are given) of (log v, log s2).

    Up to a constant, within the bounds. Arrays are broadcast.
    """
    log_p = np.asarray(0.0 if t is None else log_expit(t))
    share = eta(prior, log_p, np.asarray(log_v) - log_s2)
    of_share = bell(share) + 0.5 * prior.flat * log_expit(-share)
    return of_share if t is None else bell(np.asarray(t) - prior.center) + of_share


def log_density_gradient(
    prior: HyperPrior, t: FloatArray | float | None, log_v: FloatArray | float, log_s2: FloatArray | float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Derivatives of :func:`log_density` in t (0 where it is None), log v and log s2."""
    log_p = np.asarray(0.0 if t is None else log_expit(t))
    slope = 1.0 - (2.0 + 0.5 * prior.flat) * expit(eta(prior, log_p, np.asarray(log_v) - log_s2))
    if t is None:
        return np.zeros_like(slope), slope, -slope
    return 1.0 - 2.0 * expit(np.asarray(t) - prior.center) + expit(-np.asarray(t)) * slope, slope, -slope
