"""The posterior of the hyperparameters and of the number of columns in, by the kept states."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import scipy
from scipy.special import expit, gammaincc

from pybayesridge._types import FloatArray
from pybayesridge.design.design import Design
from pybayesridge.selection.moments import prior_share
from pybayesridge.selection.result import Exact

ROUNDING = 1e-12
"""Error of a sum of weights that does not move a quantile to the next state."""

LOG_TOL = 1e-13
"""Accuracy of the logarithm of a quantile of s2."""

DRAWN = ("prior_inclusion", "prior_share")
"""Hyperparameters that are drawn given a state."""

Interval = tuple[float, float, float]
"""A mean, and the ends of an interval."""


class Sets(Protocol):
    """A posterior by kept states of the sets of columns."""

    @property
    def design(self) -> Design:
        """The columns, and the way back to the user's scale."""

    @property
    def exact(self) -> Exact:
        """The posterior in the units of the design."""


def hyperparameters(posterior: Sets, alpha: float) -> dict[str, Interval]:
    """Mean and equal-tailed interval of what a fit has learned, on the user's scale.

    ``noise_var``, ``slab_var``, ``prior_inclusion`` and ``prior_share`` (of the variance, explained a priori at the
    hyperparameters of the posterior).
    """
    tails = np.array([alpha / 2, 1 - alpha / 2])
    found = variances(posterior, tails) | shares(posterior, tails)
    return {name: _row(mean, ends) for name, (mean, ends) in found.items()}


def variances(posterior: Sets, probabilities: FloatArray) -> dict[str, tuple[float, FloatArray]]:
    """Mean and quantiles (q,) of the variances; see :func:`hyperparameters`."""
    design, states = posterior.design, posterior.exact.states
    weight, unit = states.weight, design.y_norm[0] ** 2
    slab = np.exp(states.log_g) * unit / design.common_scale**2
    means = {
        "noise_var": float(weight @ states.mean_noise()) * unit,
        "slab_var": float(weight @ states.mean_slab()) * unit / design.common_scale**2,
    }
    out = {}
    for name, factor in (("noise_var", np.full(states.n, unit)), ("slab_var", slab)):
        if states.noise_var is None:
            ends = variance_quantiles(weight, factor * states.left / states.nu, states.nu, probabilities)
        else:
            ends = discrete_quantiles(weight, factor * states.noise_var, probabilities)
        out[name] = (means[name], ends)
    return out


def shares(posterior: Sets, probabilities: FloatArray) -> dict[str, tuple[float, FloatArray]]:
    """Likewise of those between 0 and 1."""
    states = posterior.exact.states
    values = {"prior_inclusion": expit(states.t), "prior_share": prior_share(states, posterior.exact.grid)}
    return {
        name: (float(states.weight @ each), discrete_quantiles(states.weight, each, probabilities))
        for name, each in values.items()
    }


def errors(posterior: Sets) -> dict[str, tuple[float, float]]:
    """Monte Carlo standard error and posterior variance of each hyperparameter and of :func:`prior_share`.

    The variance is NaN where there is none.
    """
    design, exact, states = posterior.design, posterior.exact, posterior.exact.states
    noise_unit = design.y_norm[0] ** 2
    slab_unit = noise_unit / design.common_scale**2
    noise, t, share = states.mean_noise(), expit(states.t), prior_share(states, exact.grid)
    slab = np.exp(states.log_g) * noise
    # Given a state the variances are inverse-gamma, or known.
    within = 0.0 if states.noise_var is not None else (2.0 / (states.nu - 4.0) if states.nu > 4.0 else np.nan)
    # Averages are of the first; the second and third give the posterior variance.
    found = {
        "noise_var": (noise_unit * noise, noise_unit * noise, within),
        "slab_var": (slab_unit * states.mean_slab(), slab_unit * slab, within),
        "prior_inclusion": (t, t, 0.0),
        "prior_share": (share, share, 0.0),
    }
    out = {}
    for name, (averaged, each, spread) in found.items():
        mean = states.weight @ averaged
        with np.errstate(invalid="ignore"):
            se = float(exact.error_of_mean(averaged))
            variance = float(states.weight @ ((each - mean) ** 2 + spread * each**2))
        if name in DRAWN and not exact.computation.sampled:
            # One t is drawn for each state, however much it weighs.
            se = max(se, float(np.sqrt(np.sum((states.weight * (averaged - mean)) ** 2))))
        out[name] = (se, variance)
    return out


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
