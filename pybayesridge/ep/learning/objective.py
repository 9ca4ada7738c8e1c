"""The objective of learning: EP's evidence plus a weak prior, in coordinates without units."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.special import expit, logit

from pybayesridge._types import BoolArray, FloatArray, IntArray
from pybayesridge.ep.algorithms.solve import fit_sites
from pybayesridge.ep.learning.evidence_gradient import evidence_gradient
from pybayesridge.ep.model.hyperparameters import Given, Hyperparameters
from pybayesridge.ep.model.least_squares import Data
from pybayesridge.ep.model.result import EPResult, Sites

#: Standard deviation of the normal priors on the log variances.
_PRIOR_SD = 3.0
_EP_MAXITER = 100
_EP_TOL = 1e-6
#: A rise of the objective below this is not progress.
_RISE = 1e-7


@dataclass(slots=True)
class Objective:
    """Log evidence plus log prior in coordinates that do not change with the units of y or X.

    The coordinates are logit p, log(slab_var / slab_unit) and log(noise_var / noise_unit), of which only the
    learned ones (``free``) appear in a vector x. Columns with equal numbers in ``groups`` are in or out together.
    """

    data: Data
    fixed_p: FloatArray | None
    fixed: FloatArray
    free: BoolArray
    noise_unit: float
    slab_unit: float
    groups: IntArray | None = None
    n_steps: int = 0
    n_fac: int = 0
    low: FloatArray = field(default_factory=lambda: np.zeros(3))
    high: FloatArray = field(default_factory=lambda: np.zeros(3))

    @property
    def n_groups(self) -> int:
        """Number of groups, a column on its own being one."""
        return self.data.n_columns if self.groups is None else int(np.unique(self.groups).size)

    def hyper(self, x: FloatArray) -> Hyperparameters:
        """Hyperparameters at x."""
        full = self.fixed.copy()
        full[self.free] = x
        d = self.data.n_columns
        p = np.full(d, expit(full[0])) if self.fixed_p is None else self.fixed_p
        return Hyperparameters(p, self.slab_unit * float(np.exp(full[1])), self.noise_unit * float(np.exp(full[2])))

    def log_prior(self, x: FloatArray) -> tuple[float, FloatArray]:
        """Log prior of the learned coordinates and its gradient.

        ``p (1 - p)`` on the log odds: as if one more column (or group) had been seen in and one out. Normal with
        standard deviation 3 on the log variances.
        """
        full = np.zeros(3)
        full[self.free] = x
        value = -0.5 * float(np.sum(full[1:] ** 2)) / _PRIOR_SD**2
        grad = -full / _PRIOR_SD**2
        if self.free[0]:
            value += float(np.log(expit(full[0])) + np.log(expit(-full[0])))
            grad[0] = 1.0 - 2.0 * expit(full[0])
        return value, grad[self.free]

    def evaluate(
        self, x: FloatArray, start: Sites | None, *, tol: float = _EP_TOL, maxiter: int = _EP_MAXITER
    ) -> Trial:
        """Fit at x and evaluate."""
        h = self.hyper(x)
        likelihood = h.likelihood(self.data)
        result = fit_sites(
            likelihood,
            h.prior_inclusion,
            h.slab_var,
            groups=self.groups,
            tol=tol,
            maxiter=maxiter,
            start=start,
        )
        self.n_steps += 1
        self.n_fac += result.n_fac
        prior, prior_grad = self.log_prior(x)
        g = evidence_gradient(likelihood, h.prior_inclusion, h.slab_var, result)
        full = np.array([np.sum(g.logit_inclusion), g.log_slab_var, g.log_noise_var])
        value = result.log_evidence + prior
        if not np.isfinite(value):
            value = -np.inf
        return Trial(x, result, value, full[self.free] + prior_grad)

    def clip(self, x: FloatArray) -> FloatArray:
        """Project on the bounds."""
        return np.clip(x, self.low[self.free], self.high[self.free])


@dataclass(frozen=True, slots=True)
class Trial:
    """One evaluation of the objective."""

    x: FloatArray
    result: EPResult
    value: float
    grad: FloatArray

    def beats(self, other: Trial) -> bool:
        """Whether this is a better answer: converged before not converged, then the value."""
        if self.result.converged != other.result.converged:
            return self.result.converged
        return self.value > other.value + _RISE


def build_objective(data: Data, given: Given, groups: IntArray | None = None) -> Objective:
    """Set up units, bounds and what is fixed.

    Units: for the noise the mean square of y; for the slab the variance of a coefficient whose column alone
    would explain y. Of a y of zeros the noise variance, where it is given, is the only unit there is.
    """
    p, slab_var, noise_var = given.prior_inclusion, given.slab_var, given.noise_var
    noise_unit = data.yy / data.nu if data.yy > 0 else noise_var or 1.0
    seen = data.gram_diag[data.gram_diag > 0]
    slab_unit = noise_unit * data.nu / float(np.mean(seen)) if seen.size else noise_unit
    fixed = np.zeros(3)
    fixed[1] = 0.0 if slab_var is None else np.log(slab_var / slab_unit)
    fixed[2] = 0.0 if noise_var is None else np.log(noise_var / noise_unit)
    free = np.array([p is None, slab_var is None, noise_var is None])
    objective = Objective(data, p, fixed, free, noise_unit, slab_unit, groups)
    least_p = 0.01 / max(objective.n_groups, 1)
    objective.low = np.array([logit(least_p), np.log(1e-8), np.log(1e-8)])
    objective.high = np.array([logit(1.0 - 1e-3), np.log(1e4), np.log(4.0)])
    return objective


def position(objective: Objective, hyper: Hyperparameters) -> FloatArray:
    """Coordinates of the learned hyperparameters."""
    p = np.clip(np.mean(hyper.prior_inclusion) if hyper.prior_inclusion.size else 0.5, 1e-12, 1.0 - 1e-12)
    full = np.array(
        [
            logit(p),
            np.log(hyper.slab_var / objective.slab_unit),
            np.log(hyper.noise_var / objective.noise_unit),
        ]
    )
    return objective.clip(full[objective.free])
