"""The inverse of the tilted moments: one increasing scalar equation for each coefficient or group."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, log_expit

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.ep.model.groups import totals

#: No root of the inverse map lies outside: beyond, expit under- or overflows.
_XI_MAX = 700.0
_ROOT_MAXITER = 200
_ROOT_TOL = 1e-14
#: Values of a group's equation below this fraction of the sum of its terms are rounding.
_ROUNDING = 4.0 * np.finfo(float).eps


def _root_function(xi: FloatArray, ratio: FloatArray, const: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Value and slope of the equation for xi; ``ratio`` is m^2 / z."""
    sig, anti = expit(xi), expit(-xi)
    inside = ratio + sig
    inverse = np.exp(-xi)
    value = 2.0 * np.log(inside) - log_expit(-xi) - 0.5 * log_expit(xi) - 0.5 * ratio * (1.0 + inverse) - const
    slope = 2.0 * sig * anti / inside + sig - 0.5 * anti + 0.5 * ratio * inverse
    return value, slope


def solve_monotone(ratio: FloatArray, const: FloatArray) -> FloatArray:
    """Root of the increasing function of :func:`_root_function`, by Newton inside a shrinking bracket."""
    low = np.full_like(ratio, -_XI_MAX)
    high = np.full_like(ratio, _XI_MAX)
    # Without the mean term the equation is 1.5 xi = const on the left and xi = const on the right; with it,
    # xi is about log(ratio / 2) when that term carries the balance alone.
    with np.errstate(divide="ignore"):
        guess = np.where(const > 0, const, const / 1.5)
        xi = np.clip(np.maximum(guess, np.log(0.5 * ratio) - np.log1p(np.abs(const))), -_XI_MAX + 1, _XI_MAX - 1)
    active = np.arange(ratio.size)
    for _ in range(_ROOT_MAXITER):
        x = xi[active]
        value, slope = _root_function(x, ratio[active], const[active])
        low[active] = np.where(value < 0, x, low[active])
        high[active] = np.where(value >= 0, x, high[active])
        new = x - value / slope
        lo, hi = low[active], high[active]
        new = np.where((new >= lo) & (new <= hi), new, 0.5 * (lo + hi))
        xi[active] = new
        active = active[np.abs(new - x) > _ROOT_TOL * (1.0 + np.abs(new))]
        if active.size == 0:
            break
    return xi


@dataclass(frozen=True, slots=True)
class GroupRoot:
    """The shared inclusion probability r of each column's group; every array has shape (d,).

    Attributes
    ----------
    prob, not_prob : ndarray (d,)
        r and 1 - r.
    excess : ndarray (d,)
        ``r - mean^2 / (var + mean^2)``, without cancellation.
    """

    prob: FloatArray
    not_prob: FloatArray
    excess: FloatArray


@dataclass(frozen=True, slots=True)
class _GroupEquation:
    """The equation for r of G groups with d columns, in xi: ``r = rho* + q* expit(xi)``.

    With ``rho = mean^2 / s``, ``q = var / s``, ``s = var + mean^2``, and * the column of the group with the
    largest rho, below which r cannot be.
    ``(1 + k) log r - log(1 - r) - sum(log(s (r - rho) / slab_var) + rho / (r - rho)) / 2 - logit = 0``.
    """

    groups: IntArray
    size: FloatArray
    rho: FloatArray
    above: FloatArray
    rho_star: FloatArray
    q_star: FloatArray
    log_scale: FloatArray
    log_share: FloatArray
    logit: FloatArray

    @classmethod
    def build(
        cls, mean: FloatArray, var: FloatArray, logit: FloatArray, slab_var: float, groups: IntArray
    ) -> _GroupEquation:
        """Set up; ``above`` is rho* - rho."""
        s = var + mean**2
        rho, q = mean**2 / s, var / s
        size = np.bincount(groups)
        star = np.lexsort((rho, groups))[np.cumsum(size) - 1]
        rho_star, q_star = rho[star], q[star]
        # Of the two equal differences the one of the smaller numbers.
        above = np.where(rho_star[groups] < 0.5, rho_star[groups] - rho, q - q_star[groups])
        log_scale = totals(np.log(s / slab_var), groups)
        log_share = totals(np.log(q), groups)
        return cls(
            groups,
            size.astype(float),
            rho,
            np.maximum(above, 0.0),
            rho_star,
            q_star,
            log_scale,
            log_share,
            logit[star],
        )

    def excess(self, xi: FloatArray) -> FloatArray:
        """``r - rho`` of each column, (d,)."""
        return (self.q_star * expit(xi))[self.groups] + self.above

    def evaluate(self, xi: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Value, slope, and the sum of the moduli of the value's terms; (G,) each."""
        sig, anti = expit(xi), expit(-xi)
        r = self.rho_star + self.q_star * sig
        excess = self.excess(xi)
        pull = self.rho / excess
        log_in, log_out = (1.0 + self.size) * np.log(r), np.log(self.q_star) + log_expit(-xi)
        logs, pulls = totals(np.log(excess), self.groups) + self.log_scale, totals(pull, self.groups)
        value = log_in - log_out - 0.5 * (logs + pulls) - self.logit
        slope = (sig + 0.5 * self.q_star * sig * anti * totals(pull**2 + 1.0, self.groups)) / r
        terms = np.abs(log_in) + np.abs(log_out) + 0.5 * (np.abs(logs) + pulls) + np.abs(self.logit)
        return value, slope, terms

    def guess(self) -> FloatArray:
        """Where to start, (G,): as in :func:`solve_monotone`."""
        const = self.logit + np.log(self.q_star) + 0.5 * (self.log_scale + self.log_share)
        with np.errstate(divide="ignore"):
            flat = np.where(const > 0, const, const / (1.0 + 0.5 * self.size))
            pulled = np.log(0.5 * self.rho_star / self.q_star) - np.log1p(np.abs(const))
        return np.clip(np.maximum(flat, pulled), -_XI_MAX + 1, _XI_MAX - 1)


def solve_groups(
    mean: FloatArray, var: FloatArray, logit: FloatArray, slab_var: float, groups: IntArray
) -> GroupRoot:
    """Solve each group's equation by Newton inside a shrinking bracket.

    Parameters
    ----------
    mean, var : ndarray (d,)
        Moments.
    logit : ndarray (d,)
        Prior log odds, equal within a group.
    slab_var : float
        Variance of the slab.
    groups : ndarray (d,) of int
        Groups from 0 on, none empty.

    Returns
    -------
    GroupRoot
        The shared inclusion probabilities.
    """
    equation = _GroupEquation.build(mean, var, logit, slab_var, groups)
    xi = equation.guess()
    low, high = np.full_like(xi, -_XI_MAX), np.full_like(xi, _XI_MAX)
    for _ in range(_ROOT_MAXITER):
        value, slope, terms = equation.evaluate(xi)
        low, high = np.where(value < 0, xi, low), np.where(value >= 0, xi, high)
        new = xi - value / slope
        new = np.where((new >= low) & (new <= high), new, 0.5 * (low + high))
        done = (np.abs(new - xi) <= _ROOT_TOL * (1.0 + np.abs(new))) | (np.abs(value) <= _ROUNDING * terms)
        xi = np.where(done, xi, new)
        if np.all(done):
            break
    prob = equation.rho_star + equation.q_star * expit(xi)
    not_prob = equation.q_star * expit(-xi)
    return GroupRoot(prob[groups], not_prob[groups], equation.excess(xi))
