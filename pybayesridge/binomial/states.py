"""Means of a row's likelihood, and of one over it, where the linear predictor is normal in each of many states."""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln, log_ndtr, logsumexp

from pybayesridge._types import FloatArray
from pybayesridge.binomial.likelihood import Binomial
from pybayesridge.binomial.link import LARGEST_CURVATURE, Link, derivatives, log_likelihood

NODES, NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(32)
"""Gauss-Hermite quadrature."""

NEWTON = 30
"""Steps to the top of an integrand, which is log-concave, at most; about five are taken."""

TOP = 1e-6
"""The top is located to this part of a standard deviation."""

CONCAVE = 0.8
"""Largest curvature of the log of 1 / L, in units of that of the normal density, where their product is integrated as
a log-concave function."""

STEP, BEYOND = 0.25, 12.0
"""Of the trapezoidal rule, in standard deviations: spacing, and reach beyond the top of the integrand."""


def log_mean_inverse(center: FloatArray, spread: FloatArray, rows: Binomial) -> FloatArray:
    """Log of the mean of 1 / L over normal linear predictors; all (S, m).

    With the logit link 1 / L is a sum of exponentials, with a mean in closed form. For many trials the integrand is
    log-concave where the variances are small beside 4 / trials, and elsewhere the trapezoidal rule takes less time
    than the sum, and is as accurate, since 1 / L is log-convex. With the probit link variances are below 1 / trials,
    so that the integrand is always log-concave.
    """
    s, f = rows.successes, rows.failures
    if rows.link == "probit":
        return _log_integral(center, spread, -s, -f, rows.link)
    curvature = LARGEST_CURVATURE["logit"] * (s + f) * spread.max(axis=0, initial=0.0)
    concave = (s + f > NODES.size) & (curvature < CONCAVE)
    out = np.empty(center.shape)
    for which, integral in ((concave, _of_concave), (~concave, _of_logit)):
        if which.any():
            out[:, which] = integral(center[:, which], spread[:, which], s[which], f[which])
    return out


def _of_concave(center: FloatArray, spread: FloatArray, s: FloatArray, f: FloatArray) -> FloatArray:
    return _log_integral(center, spread, -s, -f, "logit")


def _of_logit(center: FloatArray, spread: FloatArray, s: FloatArray, f: FloatArray) -> FloatArray:
    """Log of the mean of 1 / L by the sum or the trapezoidal rule."""
    trials, sd = s + f, np.sqrt(spread)
    reach = BEYOND + float((trials * sd).max(initial=0.0))
    if trials.max(initial=0.0) < 2 * reach / STEP:
        return _sum_of_exponentials(center, spread, s, trials)
    out = np.full(center.shape, -np.inf)
    for z in np.arange(-reach, reach + STEP, STEP):
        value = -0.5 * z**2 - log_likelihood(s, f, center + z * sd, "logit")
        out = np.logaddexp(out, value)
    return out + np.log(STEP) - 0.5 * np.log(2 * np.pi)


def _sum_of_exponentials(
    center: FloatArray, spread: FloatArray, successes: FloatArray, trials: FloatArray
) -> FloatArray:
    """Log mean of ``exp(-s f) (1 + exp(f))^trials`` over normal f: by the binomial theorem."""
    out = np.full(center.shape, -np.inf)
    for k in range(int(trials.max(initial=0.0)) + 1):
        rest = np.maximum(trials - k, 0.0)
        count = gammaln(trials + 1) - gammaln(k + 1) - gammaln(rest + 1)
        power = k - successes
        out = np.logaddexp(out, np.where(k <= trials, count + power * center + 0.5 * power**2 * spread, -np.inf))
    return out


def log_mean(center: FloatArray, spread: FloatArray, rows: Binomial) -> FloatArray:
    """Log of the mean of L over normal linear predictors; all (S, m)."""
    return _log_integral(center, spread, rows.successes, rows.failures, rows.link)


def _log_integral(
    center: FloatArray, spread: FloatArray, successes: FloatArray, failures: FloatArray, link: Link
) -> FloatArray:
    """Log of the mean of a log-concave likelihood (counts may be negative) over normal predictors."""
    at, flat = center.copy(), np.maximum(spread, np.finfo(float).tiny)
    for _ in range(NEWTON):
        slope, bend = derivatives(successes, failures, at, link)
        curvature = 1.0 / flat + bend
        move = (slope - (at - center) / flat) / curvature
        at += move
        if (move**2 * curvature).max(initial=0.0) <= TOP**2:
            break
    _, bend = derivatives(successes, failures, at, link)
    width = 1.0 / np.sqrt(1.0 / flat + bend)
    terms = []
    for node, weight in zip(NODES, NODE_WEIGHTS, strict=True):
        eta = at + width * node
        if link == "probit":
            value = successes * log_ndtr(eta) + failures * log_ndtr(-eta)
        else:
            value = log_likelihood(successes, failures, eta, link)
        terms.append(value - (eta - center) ** 2 / (2 * flat) + node**2 / 2 + np.log(weight))
    total: FloatArray = logsumexp(np.stack(terms), axis=0)
    return total + np.log(width) - 0.5 * np.log(2 * np.pi * flat)
