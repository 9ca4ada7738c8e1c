"""The prior of tau2: beta-prime, on a scale that is given or follows from the columns."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import betaln

from pybayesridge._types import FloatArray
from pybayesridge.design.design import Design
from pybayesridge.ridge.spectrum import Spectrum


@dataclass(frozen=True, slots=True)
class BetaPrime:
    """``tau2 / scale ~ beta-prime(a, b)``: density proportional to ``t^(a-1) (1+t)^(-a-b)``, ``t = tau2 / scale``.

    Attributes
    ----------
    a, b : float
    scale : float or None
        None for ``1 / (sum_j |x_j|^2 / n)``, x_j the columns on the scale of the prior, weighted and with the
        unpenalised ones projected out: then ``t / (1 + t)``, the share of variance that the columns explain a priori,
        is Beta(a, b) whatever their number.
    """

    a: float = 0.5
    b: float = 0.5
    scale: float | None = 1.0

    @property
    def name(self) -> str | None:
        """The name of the prior, if it has one."""
        return next((name for name, prior in NAMED.items() if prior == self), None)

    def to_power(self, power: float) -> BetaPrime:
        """The prior whose density of log tau2 is a power of this one's."""
        return replace(self, a=power * self.a, b=power * self.b)


NAMED = {"r2": BetaPrime(scale=None), "half-cauchy": BetaPrime()}
"""The priors that have a name."""


def log_unit(design: Design, spectrum: Spectrum) -> float:
    """Log of the factor from tau2 on the user's (standardised) scale to t2 of the rotated problem."""
    return 2 * float(np.log(spectrum.top) + np.log(design.common_scale))


def log_scale(prior: BetaPrime, design: Design, spectrum: Spectrum) -> float:
    """Log of the prior's scale in units of the rotated problem."""
    if prior.scale is not None:
        return log_unit(design, spectrum) + float(np.log(prior.scale))
    total = float((spectrum.s**2).sum())
    return float(np.log(design.n / total)) if total > 0 else 0.0


def log_density_of_log(tau2: FloatArray, a: float, b: float, log_scale: float | FloatArray) -> FloatArray:
    """Log of the prior density of log tau2, ``t^a (1 + t)^(-a-b) / B(a, b)`` for ``t = tau2 / scale``."""
    with np.errstate(divide="ignore"):
        l = np.log(tau2) - log_scale
    with np.errstate(invalid="ignore"):
        out: FloatArray = a * l - (a + b) * np.logaddexp(0.0, l) - float(betaln(a, b))
    return out
