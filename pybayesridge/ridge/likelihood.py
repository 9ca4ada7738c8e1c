"""The likelihood that the penalty meets: normal noise, its variance known or integrated out.

Whatever depends on the noise does so through R(l), the penalised residual sum of squares at l = log t2: minus the log
likelihood of l is ``N/2 log R`` where the variance s2 is integrated out, ``(N+2)/2 log R`` where it is at its mode
given l, and ``R / (2 s2)`` where it is known.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy.special import gammaln

from pybayesridge._types import BoolArray, FloatArray, IntArray
from pybayesridge.design.design import Design

Dof = Literal["nu", "paper"]


@dataclass(frozen=True, slots=True)
class PenaltyLikelihood:
    """Normal noise, in units of each target's squared norm.

    Attributes
    ----------
    count : float
        N: the degrees of freedom nu of the data, or n as the paper has it.
    variance : (q,) array or None
        Where it is known.
    """

    count: float
    variance: FloatArray | None = None

    @property
    def known(self) -> bool:
        """Whether the variance is known."""
        return self.variance is not None

    @property
    def df(self) -> float:
        """Degrees of freedom of the t distributions given the penalty; infinite where they are normal."""
        return np.inf if self.known or not self.count > 0 else self.count

    @property
    def signal(self) -> float:
        """The largest factor by which the data can weigh more than the prior of the penalty."""
        out = max(self.count + 2, 1.0)
        return out if self.variance is None else max(out, float((1.0 / self.variance).max(initial=1.0)))

    def only(self, targets: IntArray | slice) -> PenaltyLikelihood:
        """The likelihood of some of the targets."""
        return self if self.variance is None else replace(self, variance=self.variance[targets])

    def marginal(self, rss: FloatArray) -> FloatArray:
        """Minus the log likelihood, the variance integrated out, up to a constant; shape of `rss`, (…, q)."""
        return self.count / 2 * np.log(rss) if self.variance is None else rss / (2 * self.variance)

    def profile(self, rss: FloatArray) -> FloatArray:
        """Minus the log likelihood at the mode of the variance, up to a constant; shape of `rss`, (…, q)."""
        return (self.count + 2) / 2 * np.log(rss) if self.variance is None else rss / (2 * self.variance)

    def slope(self, drop: FloatArray, rss: FloatArray) -> FloatArray:
        """Derivative of :meth:`profile` in l where R falls at the rate `drop`, each (L, q)."""
        if self.variance is None:
            return -(self.count + 2) / 2 * drop / rss
        return -drop / (2 * self.variance)

    def slopes(
        self, drop: FloatArray, bend: FloatArray, rss: FloatArray, target: IntArray
    ) -> tuple[FloatArray, FloatArray]:
        """First and second derivative of :meth:`profile` for pairs of a point and a target, each (m,).

        `drop` is minus the derivative of R in l, `bend` minus that of `drop` in sign of the second derivative.
        """
        if self.variance is None:
            ratio = drop / rss
            return -(self.count + 2) / 2 * ratio, -(self.count + 2) / 2 * (bend / rss + ratio**2)
        return -drop / (2 * self.variance[target]), -bend / (2 * self.variance[target])

    def mode(self, rss: FloatArray) -> FloatArray:
        """The variance at its mode given the penalty, (q,)."""
        return rss / (self.count + 2) if self.variance is None else self.variance

    def scale2(self, rss: FloatArray) -> FloatArray:
        """Squared scale of the t distributions given the penalty; shape of `rss`, (…, q)."""
        if self.variance is not None:
            return np.broadcast_to(self.variance, rss.shape).copy()
        return rss / max(self.count, 1.0)

    def log_noise(self, log_rss: FloatArray) -> FloatArray:
        """Log of the variance given the penalty, up to a constant; shape of `log_rss`."""
        return np.zeros_like(log_rss) if self.known else log_rss

    def gain(self, rss0: FloatArray) -> FloatArray:
        """Rate at which the likelihood rises in l for ever, (q,): where the columns leave no residual."""
        return np.where((rss0 == 0) & (not self.known), self.count / 2, 0.0)

    def maximises_over_z(self, nu: int) -> bool:
        """Whether the unpenalised coefficients are maximised over, not integrated out: where n counts, not nu."""
        return not self.known and self.count > nu

    def log_constant(self, nu: int, y_norm: FloatArray) -> FloatArray:
        """Log marginal likelihood minus the log of the integral over the penalty, (q,)."""
        if self.variance is None:
            count = self.count
            return gammaln(count / 2) - count / 2 * np.log(np.pi) - count * np.log(y_norm)
        return -nu / 2 * np.log(2 * np.pi * self.variance) - nu * np.log(y_norm)


@dataclass(frozen=True, slots=True)
class GaussianNoise:
    """Normal noise as the user describes it.

    Attributes
    ----------
    sigma2 : float or None
        The variance, user's scale, where it is known.
    dof : {"nu", "paper"}
        Whether the data count as n - rank(Z), or as n.
    """

    sigma2: float | None = None
    dof: Dof = "nu"

    @property
    def known(self) -> bool:
        """Whether the variance is known."""
        return self.sigma2 is not None

    def of(self, design: Design) -> PenaltyLikelihood:
        """The likelihood in the units of a design."""
        count = float(design.nu if self.dof == "nu" else design.n)
        if self.sigma2 is None:
            return PenaltyLikelihood(count)
        return PenaltyLikelihood(count, (np.sqrt(self.sigma2) / design.y_norm) ** 2)

    def vanishes(self, design: Design) -> BoolArray:
        """Targets without noise, since the unpenalised columns fit them exactly, (q,)."""
        out: BoolArray = design.y_vanishes & (not self.known)
        return out
