"""The posterior of the hyperparameters and of the number of columns in, by the kept states."""

from __future__ import annotations

import numpy as np
import scipy
from scipy.special import expit, gammaincc

from pybayesridge._types import FloatArray
from pybayesridge.selection.moments import prior_share
from pybayesridge.selection.posterior import ExactPosterior
from pybayesridge.selection.result import Exact

ROUNDING = 1e-12
"""Error of a sum of weights that does not move a quantile to the next state."""

LOG_TOL = 1e-13
"""Accuracy of the logarithm of a quantile of s2."""

Interval = tuple[float, float, float]
"""A mean, and the ends of an interval."""


def hyperparameters(posterior: ExactPosterior, alpha: float) -> dict[str, Interval]:
    """Mean and equal-tailed interval of what a fit has learned, on the user's scale.

    ``noise_var``, ``slab_var``, ``prior_inclusion``, ``prior_share`` (of the variance, explained a priori at the
    hyperparameters of the posterior) and ``size``, the number of columns or groups in.
    """
    tails = np.array([alpha / 2, 1 - alpha / 2])
    found = variances(posterior, tails) | shares(posterior, tails)
    return {name: _row(mean, ends) for name, (mean, ends) in found.items()} | {"size": size(posterior.exact, alpha)}


def variances(posterior: ExactPosterior, probabilities: FloatArray) -> dict[str, tuple[float, FloatArray]]:
    """Mean and quantiles (q,) of the variances; see :func:`hyperparameters`."""
    design, states = posterior.design, posterior.exact.states
    weight, unit = states.weight, design.y_norm[0] ** 2
    slab = np.exp(states.log_g) * unit / design.common_scale**2
    out = {}
    for name, factor in (("noise_var", np.full(states.n, unit)), ("slab_var", slab)):
        if states.noise_var is None:
            ends = variance_quantiles(weight, factor * states.left / states.nu, states.nu, probabilities)
        else:
            ends = discrete_quantiles(weight, factor * states.noise_var, probabilities)
        out[name] = (float(weight @ (factor * states.mean_noise())), ends)
    return out


def shares(posterior: ExactPosterior, probabilities: FloatArray) -> dict[str, tuple[float, FloatArray]]:
    """Likewise of those between 0 and 1."""
    states = posterior.exact.states
    values = {"prior_inclusion": expit(states.t), "prior_share": prior_share(states, posterior.exact.grid)}
    return {
        name: (float(states.weight @ each), discrete_quantiles(states.weight, each, probabilities))
        for name, each in values.items()
    }


def size(exact: Exact, alpha: float) -> Interval:
    """Mean and equal-tailed interval of the number of columns or groups in."""
    tails, sizes = np.array([alpha / 2, 1 - alpha / 2]), np.arange(exact.size_prob.size, dtype=np.float64)
    return _row(exact.expected_size, discrete_quantiles(exact.size_prob, sizes, tails))


def _row(mean: float, ends: FloatArray) -> Interval:
    return mean, float(ends[0]), float(ends[1])


def discrete_quantiles(weight: FloatArray, values: FloatArray, probabilities: FloatArray) -> FloatArray:
    """The smallest of `values` (S,) up to which `weight` (S,) sums to each of `probabilities` (q,); NaN for NaN."""
    if np.isnan(values).any():
        return np.full(probabilities.size, np.nan)
    order = np.argsort(values, kind="stable")
    at = np.searchsorted(np.cumsum(weight[order]), probabilities - ROUNDING)
    return values[order[np.minimum(at, order.size - 1)]]


def variance_quantiles(weight: FloatArray, scale2: FloatArray, nu: float, probabilities: FloatArray) -> FloatArray:
    """Quantiles (q,) of a mixture with `weight` (S,) of the inverse gammas (nu / 2, nu scale2 / 2), `scale2` (S,)."""
    shape = 0.5 * nu

    def excess(log_x: float, probability: float) -> float:
        return float(weight @ gammaincc(shape, shape * scale2 * np.exp(-log_x))) - probability

    def quantile(probability: float) -> float:
        step = 1.0 + 4.0 / np.sqrt(shape)
        low = float(np.log(weight @ scale2)) - step
        high = low + 2.0 * step
        while excess(low, probability) > 0:
            low, step = low - step, 2.0 * step
        while excess(high, probability) < 0:
            high, step = high + step, 2.0 * step
        return float(scipy.optimize.brentq(excess, low, high, args=(probability,), xtol=LOG_TOL))

    return np.exp(np.array([quantile(p) for p in probabilities.tolist()]))
