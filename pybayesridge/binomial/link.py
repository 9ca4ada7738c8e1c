"""The log likelihood of a count, its derivatives and the probability of success given the linear predictor.

With s successes and f failures it is ``s log F(eta) + f log F(-eta)``, F being the logistic or the normal
distribution function. The binomial coefficients are left out: they depend on neither the coefficients nor the
prior. Both likelihoods are log-concave.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from scipy.special import erfcx, expit, log_ndtr, ndtr

from pybayesridge._types import FloatArray

Link = Literal["logit", "probit"]

LATENT_VARIANCE: dict[Link, float] = {"logit": float(np.pi**2 / 3), "probit": 1.0}
"""Variance of the latent noise of each link."""

LARGEST_CURVATURE: dict[Link, float] = {"logit": 0.25, "probit": 1.0}
"""Of the log likelihood of one trial."""


def log_likelihood(successes: FloatArray, failures: FloatArray, eta: FloatArray, link: Link) -> FloatArray:
    """Log likelihood of counts, which broadcast with `eta`."""
    if link == "probit":
        normal: FloatArray = successes * log_ndtr(eta) + failures * log_ndtr(-eta)
        return normal
    beyond = np.log1p(np.exp(-np.abs(eta)))
    out: FloatArray = (
        successes * np.minimum(eta, 0.0) - failures * np.maximum(eta, 0.0) - (successes + failures) * beyond
    )
    return out


def derivatives(
    successes: FloatArray, failures: FloatArray, eta: FloatArray, link: Link
) -> tuple[FloatArray, FloatArray]:
    """First derivative of the log likelihood in eta and minus the second, without cancellation in the tails."""
    if link == "probit":
        up, down = normal_hazard(eta), normal_hazard(-eta)
        return (
            successes * up - failures * down,
            successes * hazard_slope(eta, up) + failures * hazard_slope(-eta, down),
        )
    small = np.exp(-np.abs(eta))
    large_share = 1.0 / (1.0 + small)
    small_share = small * large_share
    positive = eta > 0
    p, q = np.where(positive, large_share, small_share), np.where(positive, small_share, large_share)
    return successes * q - failures * p, (successes + failures) * (small_share * large_share)


def log_likelihood_and_slope(
    successes: FloatArray, failures: FloatArray, eta: FloatArray, link: Link
) -> tuple[FloatArray, FloatArray]:
    """:func:`log_likelihood` and its derivative in eta, for less than both."""
    if link == "probit":
        return log_likelihood(successes, failures, eta, link), derivatives(successes, failures, eta, link)[0]
    small = np.abs(eta)
    np.exp(np.negative(small, out=small), out=small)
    value = successes * np.minimum(eta, 0.0) - failures * np.maximum(eta, 0.0)
    value -= (successes + failures) * np.log1p(small)
    # The smaller of the probabilities of success and failure is small / (1 + small), the other 1 / (1 + small).
    up = eta > 0
    slope = successes * np.where(up, small, 1.0) - failures * np.where(up, 1.0, small)
    small += 1.0
    slope /= small
    return value, slope


def normal_hazard(x: FloatArray) -> FloatArray:
    """Density of the standard normal divided by its distribution function, at x."""
    with np.errstate(over="ignore"):
        out: FloatArray = np.sqrt(2.0 / np.pi) / erfcx(-x / np.sqrt(2.0))
    return out


FAR = -1e3
"""Below this the slope of the normal hazard is taken from its series: relative errors below 1e-11 either way."""


def hazard_slope(x: FloatArray, hazard: FloatArray) -> FloatArray:
    """``hazard (hazard + x)``, minus the second derivative of log Phi: between 0 and 1."""
    far = x < FAR
    safe = np.where(far, x, -1.0)
    out: FloatArray = np.where(far, 1.0 - 1.0 / safe**2, hazard * (hazard + x))
    return np.clip(out, 0.0, 1.0)


def probability(eta: FloatArray, link: Link) -> FloatArray:
    """Probability of success."""
    if link == "probit":
        out: FloatArray = ndtr(eta)
        return out
    share: FloatArray = expit(eta)
    return share


def probability_slope(eta: FloatArray, link: Link) -> FloatArray:
    """Derivative of the probability of success with respect to the linear predictor."""
    if link == "probit":
        out: FloatArray = np.exp(-0.5 * np.minimum(np.abs(eta), 40.0) ** 2) / np.sqrt(2 * np.pi)
        return out
    slope: FloatArray = expit(eta) * expit(-eta)
    return slope
