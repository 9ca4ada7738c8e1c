"""Scores of predicted probabilities of success."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import xlog1py, xlogy

from pybayesridge._types import FloatArray
from pybayesridge.binomial.link import derivatives

if TYPE_CHECKING:
    from pybayesridge.binomial.likelihood import Binomial


def log_score(likelihood: Binomial, share: FloatArray) -> float:
    """Mean log probability of an outcome over all trials, without the binomial coefficients."""
    successes, failures = likelihood.totals()
    return float((xlogy(successes, share) + xlog1py(failures, -share)).sum() / likelihood.trials.sum())


def brier_score(likelihood: Binomial, share: FloatArray) -> float:
    """Mean squared difference of outcome and probability over all trials."""
    successes, failures = likelihood.totals()
    return float((successes * (1 - share) ** 2 + failures * share**2).sum() / likelihood.trials.sum())


def area_under_curve(likelihood: Binomial, share: FloatArray) -> float:
    """Probability that a success was given a larger probability than a failure; ties count half."""
    successes, failures = likelihood.totals()
    rank = np.unique(share, return_inverse=True)[1]
    up, down = (np.bincount(rank, weights=count) for count in (successes, failures))
    below = np.cumsum(down) - down
    return float((up * (below + 0.5 * down)).sum() / (up.sum() * down.sum()))


def roc_curve(likelihood: Binomial, share: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Shares of failures and of successes whose probability is at least a threshold, for every threshold."""
    successes, failures = likelihood.totals()
    rank = np.unique(-share, return_inverse=True)[1]
    up, down = (np.r_[0.0, np.bincount(rank, weights=count).cumsum()] for count in (successes, failures))
    return down / down[-1], up / up[-1]


@dataclass(frozen=True, slots=True)
class Calibration:
    """How predicted probabilities agree with outcomes.

    Attributes
    ----------
    predicted, observed, trials : (bins,) arrays
        Mean probability, share of successes and trials of each bin of equal trials, in ascending order.
    intercept, slope : float
        Of a logistic regression of the outcomes on the logits of the probabilities; calibrated ones have 0 and 1.
    """

    predicted: FloatArray
    observed: FloatArray
    trials: FloatArray
    intercept: float
    slope: float


def calibration(likelihood: Binomial, share: FloatArray, bins: int = 10) -> Calibration:
    """Compare probabilities (n,) with outcomes in bins and by a logistic regression."""
    successes, failures = likelihood.totals()
    trials = likelihood.trials
    order = np.argsort(share, kind="stable")
    middle = (np.cumsum(trials[order]) - 0.5 * trials[order]) / trials.sum()
    which = np.minimum((middle * bins).astype(int), bins - 1)
    _, which = np.unique(which, return_inverse=True)
    count, up, expected = (np.bincount(which, weights=a[order]) for a in (trials, successes, trials * share))
    intercept, slope = _recalibrated(successes, failures, share)
    return Calibration(expected / count, up / count, count.astype(float), intercept, slope)


def _recalibrated(successes: FloatArray, failures: FloatArray, share: FloatArray) -> tuple[float, float]:
    """Intercept and slope of the logistic regression on logits, by Newton's method; nan where they do not exist."""
    least = np.finfo(float).tiny
    logit = np.log(np.maximum(share, least)) - np.log(np.maximum(1 - share, np.finfo(float).eps))
    rows = np.column_stack([np.ones(logit.size), logit])
    at = np.array([0.0, 1.0])
    for _ in range(50):
        slope, bend = derivatives(successes, failures, rows @ at, "logit")
        curvature = rows.T @ (rows * bend[:, None])
        if np.linalg.cond(curvature) > 1e12:
            break
        move = np.linalg.solve(curvature, rows.T @ slope)
        at = at + move / max(1.0, float(np.abs(move).max()))
        if np.abs(move).max() <= 1e-10:
            return float(at[0]), float(at[1])
    return np.nan, np.nan
