"""The likelihood of successes among trials, row by row.

A row is a binomial count and may stand for several copies of itself: its log likelihood is

    copies * (successes * log F(eta) + failures * log F(-eta)),

F being the logistic or the normal distribution function.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy.special import betainc, gammaln, ndtr, xlogy

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.binomial.link import (
    LARGEST_CURVATURE,
    LATENT_VARIANCE,
    Link,
    derivatives,
    log_likelihood,
    probability,
)
from pybayesridge.binomial.logistic_normal import probability_moments
from pybayesridge.binomial.tilted import tilted_moments
from pybayesridge.sites.likelihood import Likelihood
from pybayesridge.sites.tilted import Cavity, Tilted, normal_cavity


@dataclass(frozen=True, slots=True)
class Binomial(Likelihood):
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

    unpredicted: ClassVar[float] = 0.5

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

    @property
    def size(self) -> FloatArray:
        """Trials of all copies, (n,)."""
        return self.trials

    @property
    def observed(self) -> FloatArray:
        """Successes of one copy of each row."""
        return self.successes

    @property
    def latent_variance(self) -> float:
        """pi^2/3 for the logit and 1 for the probit link."""
        return LATENT_VARIANCE[self.link]

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

    def copied(self, copies: FloatArray) -> Binomial:
        """The same counts with other numbers of copies."""
        return replace(self, copies=copies)

    def values(self, eta: FloatArray) -> FloatArray:
        """Log likelihood of all copies."""
        return log_likelihood(*self.totals(), eta, self.link)

    def derivatives(self, eta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Its first derivative and minus the second."""
        return derivatives(*self.totals(), eta, self.link)

    def first_guess(self) -> FloatArray:
        """Linear predictors drawn towards 0 from the rows' own proportions, (n,)."""
        successes, failures = self.totals()
        out: FloatArray = np.log((successes + 0.5) / (failures + 0.5))
        return out if self.link == "logit" else 0.6 * out

    def rises(self) -> FloatArray:
        """1 for rows of successes only, -1 for rows of failures only."""
        return np.where(self.failures == 0, 1.0, np.where(self.successes == 0, -1.0, 0.0))

    def log_constants(self) -> FloatArray:
        """Log binomial coefficients of one copy of each row, (n,)."""
        s, f = self.successes, self.failures
        out: FloatArray = gammaln(s + f + 1) - gammaln(s + 1) - gammaln(f + 1)
        return out

    def mean(self, eta: FloatArray) -> FloatArray:
        """Probability of success."""
        return probability(eta, self.link)

    def draws(self, eta: FloatArray, generator: np.random.Generator) -> FloatArray:
        """Numbers of successes."""
        trials = (self.successes + self.failures).astype(np.int64)
        return generator.binomial(trials[:, None], self.mean(eta)).astype(np.float64)

    def up_to(self, y: FloatArray, eta: FloatArray, extent: FloatArray | None = None) -> FloatArray:
        """Probability of at most `y` successes among `extent` trials."""
        trials = np.ones(1) if extent is None else extent
        fewer = np.maximum(trials - y, 0.5)
        out: FloatArray = np.where(y < trials, betainc(fewer, y + 1.0, self.mean(-eta)), 1.0)
        return out

    def around(self, eta: FloatArray, extent: FloatArray | None = None) -> tuple[FloatArray, FloatArray]:
        """No success, and successes only."""
        return np.full(eta.shape, -1.0), np.ones(eta.shape) if extent is None else extent

    def mean_over(self, mean: FloatArray, variance: FloatArray) -> FloatArray:
        """Mean of the probability of success where the linear predictor is normal; shape of `mean`."""
        return mean_probability(mean, variance, self.link)

    def moments_over(self, mean: FloatArray, variance: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean and mean square of the probability of success, likewise."""
        return probability_moments(mean, variance, self.link)

    def deviances(self, mean: FloatArray) -> FloatArray:
        """Deviance of probabilities, of one copy of each row, (n,)."""
        share = self.proportion
        of_events = xlogy(self.successes, share) - xlogy(self.successes, mean)
        of_others = xlogy(self.failures, 1.0 - share) - xlogy(self.failures, 1.0 - mean)
        out: FloatArray = 2.0 * (of_events + of_others)
        return out

    def variances(self, mean: FloatArray) -> FloatArray:
        """Variances of numbers of successes of one copy of each row, (n,)."""
        return (self.successes + self.failures) * mean * (1.0 - mean)

    def expected(self, mean: FloatArray) -> FloatArray:
        """Expected numbers of successes of one copy of each row, (n,)."""
        return (self.successes + self.failures) * mean

    def tilted(self, cavity: Cavity) -> Tilted:
        """Moments of the tilted densities."""
        return tilted_moments(*self.totals(), self.link, cavity)

    def predicted(self, cavity: Cavity, log_integral: FloatArray) -> FloatArray:
        """Probability of success."""
        successes, failures = self.totals()
        more = replace(self, successes=successes + 1, failures=failures, copies=np.ones(self.n))
        return np.minimum(np.exp(more.log_integral(cavity) - log_integral), 1.0)

    def check_unseparated(self) -> None:
        """Raise ValueError if all responses are alike."""
        if not self.failures.any() or not self.successes.any():
            outcome = "events" if self.successes.any() else "non-events"
            raise ValueError(f"all responses are {outcome}: a binomial model needs both outcomes")


def from_counts(successes: FloatArray, trials: FloatArray | None, weights: FloatArray | None, link: Link) -> Binomial:
    """The likelihood of `successes` among `trials`, each row counted `weights` times; None stands for 1."""
    count = np.ones(successes.size) if trials is None else np.asarray(trials, dtype=float)
    copies = np.ones(successes.size) if weights is None else np.asarray(weights, dtype=float)
    return Binomial(np.asarray(successes, dtype=float), count - successes, copies, link)


def mean_probability(mean: FloatArray, variance: FloatArray, link: Link) -> FloatArray:
    """Mean of the probability of success where the linear predictor is normal; shape of `mean`."""
    if link == "probit":
        out: FloatArray = ndtr(mean / np.sqrt(1.0 + variance))
        return out
    flat_mean, flat_variance = mean.ravel(), np.maximum(variance.ravel(), np.finfo(float).tiny)
    one = np.ones(flat_mean.size)
    tilted = tilted_moments(one, 0 * one, link, normal_cavity(flat_mean, flat_variance))
    share = np.exp(tilted.log_integral - 0.5 * np.log(2 * np.pi * flat_variance))
    return np.minimum(share, 1.0).reshape(mean.shape)
