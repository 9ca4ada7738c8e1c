"""Leave-one-out predictions from the cavities, mixed over t2, and scores of predicted probabilities.

With w_j the posterior weight of node j and p_ij the probability of row i's outcome given the others and t2_j, the
weights without row i are proportional to ``w_j / p_ij``: the log score of the row is ``-log sum_j w_j / p_ij``.

A row that stands for several copies has one copy left out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from pybayesridge._types import FloatArray
from pybayesridge.binomial.approximation import Approximation
from pybayesridge.binomial.likelihood import Binomial, Link, derivatives
from pybayesridge.binomial.tilted import Cavity, tilted_moments

NEGLIGIBLE = 1e-9
"""Nodes of smaller weight are left out."""


@dataclass(frozen=True, slots=True)
class LeaveOneOut:
    """Predictions of every row from the others.

    Attributes
    ----------
    log_score : (n,) array
        Log probability of one copy of the row, without its binomial coefficient; -inf for a row of several trials and
        both outcomes without which an unpenalised coefficient is not determined.
    probability : (n,) array
        Of success.
    """

    log_score: FloatArray
    probability: FloatArray


def _log_integral(successes: FloatArray, failures: FloatArray, link: Link, cavity: Cavity) -> FloatArray:
    """Log integral of the tilted densities; of the cavity itself where there are no counts."""
    out = np.empty(successes.size)
    none = np.flatnonzero(successes + failures == 0)
    some = np.flatnonzero(successes + failures > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = cavity.slope[none] ** 2 / (2 * cavity.precision[none])
        out[none] = np.where(
            cavity.precision[none] > 0, 0.5 * np.log(2 * np.pi / cavity.precision[none]) + spread, np.inf
        )
    if some.size:
        out[some] = tilted_moments(successes[some], failures[some], link, cavity.rows(some)).log_integral
    return out


def at_node(likelihood: Binomial, node: Approximation) -> LeaveOneOut:
    """Leave-one-out predictions for one t2."""
    cavity, link = node.cavity(), likelihood.link
    s, f = likelihood.successes, likelihood.failures
    rest = np.maximum(likelihood.copies - 1.0, 0.0)
    before = _log_integral(rest * s, rest * f, link, cavity)
    known = np.isfinite(before)
    log_score = np.full(likelihood.n, -np.inf)
    share = np.full(likelihood.n, 0.5)
    which = np.flatnonzero(known)
    part, around = likelihood.rows(which), cavity.rows(which)
    s, f, rest, before = part.successes, part.failures, rest[which], before[which]
    log_score[which] = _log_integral((rest + 1) * s, (rest + 1) * f, link, around) - before
    share[which] = np.exp(_log_integral(rest * s + 1, rest * f, link, around) - before)
    return LeaveOneOut(log_score, np.minimum(share, 1.0))


def leave_one_out(likelihood: Binomial, nodes: tuple[Approximation, ...], weight: FloatArray) -> LeaveOneOut:
    """Leave-one-out predictions with t2 integrated out; O(n) a node.

    Parameters
    ----------
    likelihood : Binomial
    nodes : tuple of K approximations
    weight : (K,) array
        Posterior weights of the nodes.
    """
    keep = np.flatnonzero(weight > NEGLIGIBLE)
    weight = weight[keep] / weight[keep].sum()
    each = [at_node(likelihood, nodes[i]) for i in keep]
    if len(each) == 1:
        return each[0]
    scores = np.stack([one.log_score for one in each])
    shares = np.stack([one.probability for one in each])
    with np.errstate(divide="ignore", invalid="ignore"):
        without = np.log(weight)[:, None] - scores
        total = logsumexp(without, axis=0)
        share = (np.exp(without - total) * shares).sum(axis=0)
    unknown = ~np.isfinite(total)
    return LeaveOneOut(np.where(unknown, -np.inf, -total), np.where(unknown, weight @ shares, share))


def log_density_within(likelihood: Binomial, nodes: tuple[Approximation, ...], weight: FloatArray) -> FloatArray:
    """Log probability of one more copy of each row, given all rows, without its binomial coefficient; (n,)."""
    keep = np.flatnonzero(weight > NEGLIGIBLE)
    each = []
    for i in keep:
        node = nodes[i]
        around = Cavity(node.mean, 1.0 / node.variance, np.zeros_like(node.mean))
        volume = 0.5 * np.log(2 * np.pi * node.variance)
        each.append(_log_integral(likelihood.successes, likelihood.failures, likelihood.link, around) - volume)
    out: FloatArray = logsumexp(np.stack(each), axis=0, b=(weight[keep] / weight[keep].sum())[:, None])
    return out


def total_log_score(likelihood: Binomial, predictions: LeaveOneOut) -> float:
    """Sum of the log scores over all copies."""
    return float(likelihood.copies @ predictions.log_score)


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
