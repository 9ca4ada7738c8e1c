"""The coordinates in which hyperparameters are learned: logit p, log odds of the explained share, log noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, log_expit, logit

from pybayesridge._types import BoolArray, FloatArray
from pybayesridge.ep.model.eta_bound import RESOLVED
from pybayesridge.ep.model.hyper_prior import HyperPrior, bell
from pybayesridge.ep.model.hyperparameters import Hyperparameters, KnownHyperparameters

#: Bounds of log s2 relative to the mean square of the response.
_LOG_NOISE = (np.log(RESOLVED), np.log(4.0))


@dataclass(frozen=True, slots=True)
class LearnedCoordinates:
    """Between hyperparameters and the vector x of those that are learned.

    The elements of x are, in this order and where they are free: t = logit p; eta, the log odds of the share of
    variance that is explained a priori (where v is given at the median of p), where v or s2 is learned; log s2, where
    both are. In these coordinates the prior is a product, and log s2 is flat.

    Attributes
    ----------
    prior : HyperPrior
    given : KnownHyperparameters
        None for what is learned.
    d : int
        Number of columns.
    low, high : (k,) array
        Bounds of x.
    """

    prior: HyperPrior
    given: KnownHyperparameters
    d: int
    low: FloatArray
    high: FloatArray

    @property
    def free(self) -> BoolArray:
        """Whether p, v and s2 are learned, (3,)."""
        g = self.given
        return np.array([g.prior_inclusion is None, g.slab_var is None, g.noise_var is None])

    @property
    def axes(self) -> BoolArray:
        """Whether x has t, eta and log s2, (3,)."""
        p, slab, noise = self.free.tolist()
        return np.array([p, slab or noise, slab and noise])

    @property
    def lattice_dimension(self) -> int:
        """How many elements of x come before that of the noise, which is the last where s2 is learned.

        That is log s2, or where v is given eta. Much is known of it, unlike of the others.
        """
        return int(self.axes.sum()) - int(self.given.noise_var is None)

    def logs(self, x: FloatArray) -> tuple[float, float, float]:
        """T (0 where the p_j are given), log v and log s2 at x."""
        full = np.zeros(3)
        full[self.axes] = x
        t, share, log_s2 = full.tolist()
        v, s2 = self.given.slab_var, self.given.noise_var
        # log g = log v - log s2, by the definition of eta.
        log_g = share - self.prior.log_spread - self.log_p(t)
        if s2 is not None:
            log_s2 = float(np.log(s2))
        elif v is not None:
            log_s2 = float(np.log(v)) - log_g
        return t, log_s2 + log_g if v is None else float(np.log(v)), log_s2

    def log_p(self, t: float) -> float:
        """Log of the p of eta, which is that at the median where v is given; 0 where the p_j, in the spread, are."""
        if self.given.prior_inclusion is not None:
            return 0.0
        return float(log_expit(self.prior.center if self.prior.slab_given else t))

    def hyper(self, x: FloatArray) -> Hyperparameters:
        """Hyperparameters at x."""
        t, log_v, log_s2 = self.logs(x)
        p = self.given.prior_inclusion
        return Hyperparameters(
            np.full(self.d, expit(t)) if p is None else np.asarray(p, dtype=np.float64),
            float(np.exp(log_v)) if self.given.slab_var is None else float(self.given.slab_var),
            float(np.exp(log_s2)) if self.given.noise_var is None else float(self.given.noise_var),
        )

    def place(self, hyper: Hyperparameters) -> FloatArray:
        """The x of hyperparameters, within the bounds."""
        p = np.clip(np.mean(hyper.prior_inclusion) if hyper.prior_inclusion.size else 0.5, 1e-12, 1.0 - 1e-12)
        t = float(logit(p))
        log_v, log_s2 = np.log(hyper.slab_var), np.log(hyper.noise_var)
        share = float(self.prior.eta(np.asarray(self.log_p(t)), np.asarray(log_v - log_s2)))
        return self.clip(np.array([t, share, log_s2])[self.axes])

    def clip(self, x: FloatArray) -> FloatArray:
        """Project on the bounds."""
        return np.clip(x, self.low, self.high)

    def slopes(self, x: FloatArray) -> FloatArray:
        """Derivatives of (t, log v, log s2) in x, (3, k)."""
        _, slab, noise = self.free.tolist()
        out = np.zeros((3, 3))
        out[0, 0] = 1.0
        if slab:
            out[1] = [-float(expit(-x[0])) if self.axes[0] else 0.0, 1.0, 1.0]
        elif noise:
            out[2] = [0.0, -1.0, 0.0]
        if slab and noise:
            out[2, 2] = 1.0
        return out[:, self.axes]

    def log_prior(self, x: FloatArray) -> tuple[float, FloatArray]:
        """Log density of x up to a constant, and its gradient."""
        t, log_v, log_s2 = self.logs(x)
        place = (t if self.axes[0] else None, log_v, log_s2)
        grad = np.array([float(part) for part in self.prior.log_density_gradient(*place)])
        return float(self.prior.log_density(*place)), grad @ self.slopes(x)

    def log_prior_total(self) -> float:
        """Logarithm of the integral of :meth:`log_prior` over the bounds of t and eta, log s2 held.

        Where v is given, eta has no bounds a priori. The factor of flat coefficients is not part of it: it belongs to
        their density.
        """
        prior, total = self.prior, 0.0
        # The derivative of the logistic function is the density.
        if self.axes[0]:
            total += float(np.log(expit(prior.t_high - prior.center) - expit(prior.t_low - prior.center)))
        if self.given.slab_var is None:
            total += float(np.log(expit(prior.eta_high) - expit(prior.eta_low)))
        return total

    def curvature(self, x: FloatArray) -> FloatArray:
        """Minus the second derivative of the log prior along each coordinate, (k,)."""
        full = np.zeros(3)
        full[self.axes] = x
        out = np.array([2.0 * np.exp(bell(full[0] - self.prior.center)), 2.0 * np.exp(bell(full[1])), 0.0])
        return out[self.axes]


def coordinates(prior: HyperPrior, given: KnownHyperparameters, d: int, noise_unit: float) -> LearnedCoordinates:
    """Set the coordinates up; `noise_unit` is the mean square of the response."""
    noise = np.array(_LOG_NOISE) + np.log(noise_unit)
    low = np.array([prior.t_low, prior.eta_low, noise[0]])
    high = np.array([prior.t_high, prior.eta_high, noise[1]])
    if given.slab_var is not None:
        out = LearnedCoordinates(prior, given, d, low, high)
        low[1], high[1] = np.log(given.slab_var) + prior.log_spread + out.log_p(0.0) - noise[::-1]
    out = LearnedCoordinates(prior, given, d, low, high)
    return LearnedCoordinates(prior, given, d, low[out.axes], high[out.axes])
