"""The prior of the hyperparameters: few columns expected, any share of variance explained.

The prior is built in the order p, s2, v, and a value that is given is a choice of the user, not an observation: its
own density is left out, and it says nothing about the others.

1. t = logit p is logistic with its median where `expected_size` columns are expected, whatever is known of v and s2.
2. log s2 is flat.
3. Given p and s2, v is such that the share of variance explained a priori, h = σ(eta) with
   eta = log(p * spread * v / s2), is uniform: eta is standard logistic within bounds. This is a prior of v: where
   columns are rarely in, those that are in have larger coefficients. Since its integral over log v is the same for
   all t and s2, the marginal density of t is that of 1.

Where v is given, 3 is absent, and p says nothing about v / s2. The prior of t would be another one if 3 were
conditioned on v: with s2 known, or well determined by the data, eta is then a function of t alone, and its density
would be a second prior of t, which expects many columns under a small slab and none under a large one. A flat log
s2 would leave the posterior improper if columns can fit the response exactly, since the density of y has a positive
limit at s2 = 0 under a slab that does not shrink with s2. In place of 2, s2 therefore is such that the share is
uniform at the median of p (or at given p_j), eta being standard logistic without bounds: a prior of s2 that does
not depend on t. Where v and s2 are both given, only 1 is left.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, log_expit

from pybayesridge._types import FloatArray

ETA_BOUNDS = (-5.0, 6.0)
"""Range of eta, the log odds of the explained share; its upper end is raised where there is hardly any noise
(:mod:`pybayesridge.ep.model.eta_bound`)."""

LEAST_SHARE = 0.01
"""The least prior inclusion probability is this fraction of one column (or of fewer, if fewer are expected)."""

LARGEST_INCLUSION = 0.995


@dataclass(frozen=True, slots=True)
class HyperPrior:
    """Prior density of t = logit p, log v and log s2, within bounds of t and, where v is learned, of eta.

    With ``eta = log(p * spread * v / s2)``, the log odds of the share of variance explained a priori, the density is
    ``σ(t - center) σ(center - t) σ(eta) σ(-eta)``: the tail of the expected number of columns falls as 1 / number,
    and the explained share is uniform. log s2 is flat. Where v is given, eta is that at the center of t; where s2 is
    given as well, its density is left out.

    Attributes
    ----------
    center : float
        t where the expected number of columns (or groups) is in: log(e / (G - e)).
    t_low, t_high, eta_low, eta_high : float
        Bounds; eta has none where v is given.
    log_spread : float
        Logarithm of the sum of |x_j|²/n over the columns that may be in, x_j weighted and without its part in the
        unpenalised columns; where the p_j are given, of the sum of p_j |x_j|²/n.
    n_units : int
        Number of columns, or of groups, G.
    flat : int
        Number of unpenalised coefficients that are flat in units of the standard deviation of a latent response, to
        which the explained part contributes: each multiplies the density by ``(1 + exp(eta))^(-1/2)``.
    slab_given, noise_given : bool
        Whether v and s2 are given.
    """

    center: float
    t_low: float
    t_high: float
    eta_low: float
    eta_high: float
    log_spread: float
    n_units: int
    flat: int = 0
    slab_given: bool = False
    noise_given: bool = False

    @property
    def scaled(self) -> bool:
        """Whether eta has a density, which is that of v or, where v is given, of s2."""
        return not (self.slab_given and self.noise_given)

    def eta(self, log_p: FloatArray, log_g: FloatArray) -> FloatArray:
        """Log odds of the share explained a priori; `log_p` is 0 where the p_j are given, `log_g` is log(v / s2)."""
        return self.log_spread + log_p + log_g

    def scale_at(self, t: FloatArray | float | None, log_g: FloatArray) -> FloatArray:
        """The eta that has the logistic density: that at t, or at the center of t where v is given."""
        if t is None:
            return self.eta(np.asarray(0.0), log_g)
        return self.eta(np.asarray(log_expit(self.center if self.slab_given else t)), log_g)

    def log_density(
        self, t: FloatArray | float | None, log_v: FloatArray | float, log_s2: FloatArray | float
    ) -> FloatArray:
        """Log density of (t, log v, log s2), or where t is None (the p_j are given) of (log v, log s2).

        Up to a constant, within the bounds. Arrays are broadcast.
        """
        log_g = np.asarray(log_v) - log_s2
        share = self.eta(np.asarray(0.0 if t is None else log_expit(t)), log_g)
        out = 0.5 * self.flat * log_expit(-share)
        if self.scaled:
            out = out + bell(self.scale_at(t, log_g))
        return np.asarray(out if t is None else bell(np.asarray(t) - self.center) + out)

    def log_density_gradient(
        self, t: FloatArray | float | None, log_v: FloatArray | float, log_s2: FloatArray | float
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Derivatives of :meth:`log_density` in t (0 where it is None), log v and log s2."""
        log_g = np.asarray(log_v) - log_s2
        share = self.eta(np.asarray(0.0 if t is None else log_expit(t)), log_g)
        of_flat = -0.5 * self.flat * expit(share)
        of_scale = 1.0 - 2.0 * expit(self.scale_at(t, log_g)) if self.scaled else np.zeros_like(share)
        slope = of_flat + of_scale
        if t is None:
            return np.zeros_like(slope), slope, -slope
        of_t = of_flat if self.slab_given else slope
        return 1.0 - 2.0 * expit(np.asarray(t) - self.center) + expit(-np.asarray(t)) * of_t, slope, -slope


def hyper_prior(
    n_units: int,
    diag: FloatArray,
    n: float,
    *,
    expected_size: float = 1.0,
    given: FloatArray | None = None,
    slab_given: bool = False,
    noise_given: bool = False,
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
        Number of columns or groups expected at the median of p. The default, 1, is one half where there is only one.
    given : (d,) array, optional
        Prior inclusion probabilities, one for each column, if they are not to be learned.
    slab_given, noise_given, flat : bool, bool, int
        As for :class:`HyperPrior`.

    Raises
    ------
    ValueError
        If `expected_size` is not positive, or not below G (1 for a single column apart).
    """
    size = median_size(expected_size, n_units)
    units = max(n_units, 1)
    spread = float(np.sum(diag if given is None else given * diag)) / n
    return HyperPrior(
        center=float(np.log(size) - np.log(units - size)),
        t_low=_log_odds(np.log(LEAST_SHARE) + np.log(min(size, 1.0)) - np.log(units)),
        t_high=-_log_odds(min(np.log1p(-LARGEST_INCLUSION), np.log(LEAST_SHARE) + np.log((units - size) / units))),
        eta_low=ETA_BOUNDS[0],
        eta_high=ETA_BOUNDS[1],
        # Without columns that may be in there is nothing to explain with, and nothing depends on it.
        log_spread=float(np.log(spread)) if spread > 0 else 0.0,
        n_units=n_units,
        flat=flat,
        slab_given=slab_given,
        noise_given=noise_given,
    )


def median_size(expected_size: float, n_units: int) -> float:
    """The expected number of columns or groups at the median of p; see :func:`hyper_prior`."""
    if not (np.isfinite(expected_size) and expected_size > 0):
        raise ValueError(f"expected_size must be a positive number, not {expected_size!r}")
    if n_units == 0 or (n_units == 1 and expected_size == 1):
        return 0.5
    if expected_size >= n_units:
        what = f"{n_units} columns or groups" if n_units > 1 else "a single column or group"
        raise ValueError(f"expected_size is {expected_size:g} for {what}: give fewer, or prior_inclusion=1")
    return expected_size


def _log_odds(log_p: float) -> float:
    """Logit of p."""
    return float(log_p - np.log1p(-np.exp(log_p)))


def bell(x: FloatArray) -> FloatArray:
    """``log σ(x) σ(-x)``."""
    size = np.abs(x)
    return np.asarray(-size - 2.0 * np.log1p(np.exp(-size)))
