"""The prior of t2: the latent share of variance that the columns explain is Beta(a, b).

``t2 / scale = t ~ beta-prime(a, b)``. By default scale is the variance of the latent noise (pi^2/3 for the logit
link) divided by the sum of the columns' variances, so that ``t / (1 + t)`` is the share of the latent variance.

The unpenalised coefficients are flat. In which units matters where t2 is unknown. With ``"link"`` they are flat on
the scale of the link. With ``"latent"`` they are flat in units of the standard deviation of the whole latent
response, which is a factor ``(1 + t)^(-k/2)``. Where the columns separate the responses the evidence grows as
``t2^(k/2)``, and with "link" the posterior is improper for b <= k/2: with the default prior and an intercept,
wherever columns in general position are at least as many as rows less one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import betaln, expit

from pybayesridge._types import FloatArray
from pybayesridge.ridge.prior import BetaPrime
from pybayesridge.sites.coordinates import Coordinates
from pybayesridge.sites.likelihood import RowSites

FlatIn = Literal["link", "latent"]


@dataclass(frozen=True, slots=True)
class LogPrior:
    """Density of l = log t2.

    Attributes
    ----------
    a, b : float
    log_scale : float
        In the units of the coordinates.
    power : float
        Exponent of ``1 / (1 + t)`` for the units of the flat coefficients.
    """

    a: float
    b: float
    log_scale: float
    power: float

    @property
    def fall(self) -> float:
        """Rate at which it falls as l goes to infinity."""
        return self.b + self.power

    def __call__(self, log_t2: float) -> float:
        """Log density at `log_t2`; normalised but for the factor of the flat coefficients."""
        return float(self.values(np.array(log_t2)))

    def values(self, log_t2: FloatArray) -> FloatArray:
        """The same at many places."""
        l = log_t2 - self.log_scale
        out: FloatArray = self.a * l - (self.a + self.b + self.power) * np.logaddexp(0.0, l) - betaln(self.a, self.b)
        return out

    def slope(self, log_t2: float) -> float:
        """Its derivative."""
        return self.a - (self.a + self.fall) * float(expit(log_t2 - self.log_scale))


def log_prior(prior: BetaPrime, space: Coordinates, likelihood: RowSites, flat_in: FlatIn) -> LogPrior:
    """The prior in the units of the coordinates."""
    if prior.scale is not None:
        log_scale = float(np.log(prior.scale) + 2 * np.log(space.design.common_scale))
    else:
        total = space.total_variance
        log_scale = float(np.log(likelihood.latent_variance / total)) if total > 0 else 0.0
    return LogPrior(prior.a, prior.b, log_scale, 0.5 * space.k if flat_in == "latent" else 0.0)
