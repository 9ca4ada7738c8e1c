"""Moments of the probability of success where the linear predictor is normal, for many normals at once.

For the logit link the logistic distribution function is replaced by a mixture of eight normal ones (Monahan &
Stefanski 1992, in Balakrishnan, Handbook of the Logistic Distribution), which is within 3e-9 of it. Moments then have
a closed form for any variance.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr, owens_t

from pybayesridge._types import FloatArray
from pybayesridge.binomial.likelihood import Link

SHARES = (
    0.003246343272134,
    0.051517477033972,
    0.195077912673858,
    0.315569823632818,
    0.274149576158423,
    0.131076880695470,
    0.027912418727972,
    0.001449567805354,
)
"""Shares of the normal distribution functions."""

SLOPES = (
    1.365340806296348,
    1.059523971016916,
    0.830791313765644,
    0.650732166639391,
    0.508135425366489,
    0.396313345166341,
    0.308904252267995,
    0.238212616409306,
)
"""Reciprocals of their standard deviations."""


def probability_moments(mean: FloatArray, variance: FloatArray, link: Link) -> tuple[FloatArray, FloatArray]:
    """Mean and mean square of the probability of success, in the shape of `mean` and `variance`."""
    if link == "probit":
        total = 1.0 + variance
        at = mean / np.sqrt(total)
        first: FloatArray = ndtr(at)
        return first, first - 2.0 * owens_t(at, 1.0 / np.sqrt(total + variance))
    first, slope = np.zeros(mean.shape), np.zeros(mean.shape)
    for share, steep in zip(SHARES, SLOPES, strict=True):
        scale = steep / np.sqrt(1.0 + steep**2 * variance)
        at = scale * mean
        first += share * ndtr(at)
        slope += share * scale * np.exp(-0.5 * at**2)
    # F' = F (1 - F) for the logistic function F.
    return first, first - slope / np.sqrt(2.0 * np.pi)
