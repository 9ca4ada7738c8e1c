"""The likelihood of successes among trials, row by row, as a function of the linear predictor.

A row is a binomial count and may stand for several copies of itself: its log likelihood is

    copies * (successes * log F(eta) + failures * log F(-eta)),

F being the logistic or the normal distribution function. The binomial coefficients are left out: they depend on
neither the coefficients nor the prior. Both likelihoods are log-concave.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy.special import erfcx, log_ndtr, ndtr

from pybayesridge._types import FloatArray, IntArray

Link = Literal["logit", "probit"]

LATENT_VARIANCE: dict[Link, float] = {"logit": float(np.pi**2 / 3), "probit": 1.0}
"""Variance of the latent noise of each link."""

LARGEST_CURVATURE: dict[Link, float] = {"logit": 0.25, "probit": 1.0}
"""Of the log likelihood of one trial."""


@dataclass(frozen=True, slots=True)
class Binomial:
    """Counts of successes and failures.

    Attributes
    ----------
    successes, failures : (n,) arrays
        Of one copy of the row; not negative, not both 0.
    copies : (n,) array
        Frequency weights: how many times the row counts; positive.
    link : {"logit", "probit"}
    """

    successes: FloatArray
    failures: FloatArray
    copies: FloatArray
    link: Link

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.successes.size)

    @property
    def trials(self) -> FloatArray:
        """Trials of all copies, (n,)."""
        out: FloatArray = self.copies * (self.successes + self.failures)
        return out

    @property
    def proportion(self) -> FloatArray:
        """Share of successes, (n,)."""
        out: FloatArray = self.successes / (self.successes + self.failures)
        return out

    def totals(self) -> tuple[FloatArray, FloatArray]:
        """Successes and failures of all copies, each (n,)."""
        return self.copies * self.successes, self.copies * self.failures

    def largest_curvature(self) -> FloatArray:
        """What minus the second derivative of the log likelihood of each row is at most, (n,).

        The variance of a normal variable times such a likelihood is at least ``1 / (precision + curvature)``.
        """
        successes, failures = self.totals()
        out: FloatArray = LARGEST_CURVATURE[self.link] * (successes + failures)
        return out

    def rows(self, which: IntArray) -> Binomial:
        """The likelihood of some of the rows."""
        return replace(
            self, successes=self.successes[which], failures=self.failures[which], copies=self.copies[which]
        )


def from_counts(successes: FloatArray, trials: FloatArray | None, weights: FloatArray | None, link: Link) -> Binomial:
    """The likelihood of `successes` among `trials`, each row counted `weights` times; None stands for 1."""
    count = np.ones(successes.size) if trials is None else np.asarray(trials, dtype=float)
    copies = np.ones(successes.size) if weights is None else np.asarray(weights, dtype=float)
    return Binomial(np.asarray(successes, dtype=float), count - successes, copies, link)


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
    small = np.exp(-np.abs(eta))
    share: FloatArray = np.where(eta > 0, 1.0, small) / (1.0 + small)
    return share


def probability_slope(eta: FloatArray, link: Link) -> FloatArray:
    """Derivative of the probability of success with respect to the linear predictor."""
    if link == "probit":
        out: FloatArray = np.exp(-0.5 * np.minimum(np.abs(eta), 40.0) ** 2) / np.sqrt(2 * np.pi)
        return out
    small = np.exp(-np.abs(eta))
    slope: FloatArray = small / (1.0 + small) ** 2
    return slope
