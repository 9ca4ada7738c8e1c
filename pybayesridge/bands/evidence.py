r"""The likelihood of the variances of all bands, with its derivatives, by a Cholesky factorisation.

With theta_k = log t_k, D the diagonal matrix of the roots of t_k over the columns, H = D X'X D + I, v = H^-1 D X'y,
E = I - H^-1 and R = |y - X D v|^2 + |v|^2, the noise variance integrated out under 1/s2,

    log p(y | theta) = -1/2 log|H| - N/2 log R + const
    d/d theta_k      = -1/2 tr E_kk + N/2 |v_k|^2 / R
    d2/d theta_k l   = -1/2 (delta tr E_kk - |E_kl|^2)
                       - N/2 ((2 v_k'E_kl v_l - delta |v_k|^2) / R - |v_k|^2 |v_l|^2 / R^2)

and, the noise variance s2 being known, the same with ``R / (2 s2)`` in place of ``N/2 log R``. The dual form has
V = I + sum_k t_k X_k X_k', a = V^-1 y: |v_k|^2 = t_k a'X_k X_k'a, R = y'a, E_kl = sqrt(t_k t_l) X_k' V^-1 X_l.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy
from scipy.linalg import cho_factor, cho_solve

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.bands.problem import BandProblem
from pybayesridge.ridge.likelihood import PenaltyLikelihood

FLAT = 1e-8
"""Derivatives at a maximum, of a function that is of order n."""

LOWEST, HIGHEST = -26.0, 26.0
"""Logs of the total of a band between which its maximum is looked for; beyond them it is 0 or infinite."""

NOTHING = -23.0
"""A maximum at which the log total of a band is smaller than this is at variance 0."""

SMALL = -12.0
"""Smaller log totals are compared with variance 0."""

MAXITER = 500
"""Most iterations from one start, and most Newton steps after them."""

STARTS = (-1.0, 2.0)
"""Logs of the total at the starts."""


@dataclass(frozen=True, slots=True)
class LikelihoodValue:
    """The log likelihood at theta, its gradient (K,) and Hessian (K, K), and R."""

    value: float
    gradient: FloatArray
    hessian: FloatArray
    rss: float


@dataclass(frozen=True, slots=True)
class Evidence:
    """The log likelihood of theta for a single target.

    Attributes
    ----------
    squares : tuple of arrays
        X'X; or the X_k X_k' of all bands. Whole matrices.
    band : (p,) int array
    xty : (p,) array or None
        Where `squares` is X'X.
    y : (n,) array
        In units of its norm.
    times : callable
        ``X b``, for the residual where `xty` is there.
    likelihood : PenaltyLikelihood
        Of the target.
    count : int
        Number of bands.
    """

    squares: tuple[FloatArray, ...]
    band: IntArray
    xty: FloatArray | None
    y: FloatArray
    times: Callable[[FloatArray], FloatArray]
    likelihood: PenaltyLikelihood
    count: int

    @classmethod
    def of(cls, problem: BandProblem, likelihood: PenaltyLikelihood, target: int) -> Evidence:
        """The evidence of a target of a problem."""
        only = slice(target, target + 1)
        design = problem.design.of_targets(only).holding_targets()
        squares = tuple(np.tril(a) + np.tril(a, -1).T for a in problem.products)
        xty = None if problem.xty is None else problem.xty[:, target]
        return cls(squares, problem.band, xty, design.y[:, 0], design.times, likelihood.only(only), problem.count)

    def at(self, theta: FloatArray) -> LikelihoodValue:
        """Value and derivatives at theta (K,)."""
        v2, ve, trace, norms, rss, log_determinant = (
            self._primal(theta) if self.xty is not None else self._dual(theta)
        )
        weight, bend = self._weights(rss)
        gradient = -0.5 * trace + weight * v2
        hessian = -0.5 * (np.diag(trace) - norms) - weight * (2 * ve - np.diag(v2)) + bend * np.outer(v2, v2)
        value = -0.5 * log_determinant - float(self.likelihood.marginal(np.array([rss]))[0])
        return LikelihoodValue(value, gradient, hessian, rss)

    def _weights(self, rss: float) -> tuple[float, float]:
        """Derivative of minus the log likelihood in R, and minus its second derivative."""
        if self.likelihood.variance is not None:
            return float(0.5 / self.likelihood.variance[0]), 0.0
        half = self.likelihood.count / 2
        return half / rss, half / rss**2

    def _primal(self, theta: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, float, float]:
        assert self.xty is not None
        root = np.exp(theta / 2)[self.band]
        h = self.squares[0] * root[:, None] * root
        h[np.diag_indices_from(h)] += 1.0
        factor = cho_factor(h, lower=True, overwrite_a=True, check_finite=False)
        v = cho_solve(factor, root * self.xty, check_finite=False)
        inverse = cho_solve(factor, np.eye(v.size), check_finite=False)
        e = np.eye(v.size) - inverse
        rest = self.y - self.times((root * v)[:, None])[:, 0]
        rss = float(rest @ rest + v @ v)
        by_band = np.arange(self.count) == self.band[:, None]
        masked = v[:, None] * by_band
        norms = by_band.T.astype(float) @ e**2 @ by_band
        trace = np.diag(e) @ by_band
        return (masked**2).sum(axis=0), masked.T @ e @ masked, trace, norms, rss, _log_determinant(factor[0])

    def _dual(self, theta: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, float, float]:
        n = self.y.size
        total = np.eye(n)
        scaled = [np.exp(t) * square for t, square in zip(theta, self.squares, strict=True)]
        for square in scaled:
            total += square
        factor = cho_factor(total, lower=True, overwrite_a=True, check_finite=False)
        a = cho_solve(factor, self.y, check_finite=False)
        solved = [cho_solve(factor, square, check_finite=False) for square in scaled]
        images = np.stack([square @ a for square in scaled], axis=1)
        v2 = a @ images
        ve = images.T @ cho_solve(factor, images, check_finite=False)
        trace = np.array([np.trace(s) for s in solved])
        norms = np.array([[float((s * t.T).sum()) for t in solved] for s in solved])
        return v2, ve, trace, norms, float(self.y @ a), _log_determinant(factor[0])


def _log_determinant(lower: FloatArray) -> float:
    return 2.0 * float(np.log(np.diag(lower)).sum())


@dataclass(frozen=True, slots=True)
class Mode:
    """A maximum over theta.

    Attributes
    ----------
    theta : (K,) array
        On the scale of the prior of the numerics; -inf for a band whose variance is 0.
    rss : float
    value : float
    converged : bool
    n_iter : int
    """

    theta: FloatArray
    rss: float
    value: float
    converged: bool
    n_iter: int


def maximise(evidence: Evidence, size: FloatArray, prior: Callable[[FloatArray], tuple[float, FloatArray]]) -> Mode:
    """The highest maximum of the log likelihood plus a function of theta, from several starts.

    Parameters
    ----------
    evidence : Evidence
    size : (K,) array
        See :class:`BandProblem`.
    prior : callable
        Of the logs of the totals ``w_k`` of the bands (K,): a value and a gradient.
    """
    shift, count = np.log(size), size.size

    def objective(log_w: FloatArray) -> tuple[float, FloatArray]:
        found, (more, slope) = evidence.at(log_w - shift), prior(log_w)
        return -(found.value + more), -(found.gradient + slope)

    best, at, steps = None, np.zeros(0), 0
    shares = np.vstack([np.full((1, count), 1.0 / count), 0.02 / count + 0.98 * np.eye(count)])
    for total in STARTS:
        for share in shares if count > 1 else shares[:1]:
            start = total + np.log(share)
            found = scipy.optimize.minimize(
                objective,
                start,
                jac=True,
                method="L-BFGS-B",
                bounds=[(LOWEST, HIGHEST)] * count,
                options={"maxiter": MAXITER, "ftol": 1e-15, "gtol": 1e-7},
            )
            steps += int(found.nit)
            if found.x.max() > NOTHING and (best is None or found.fun < best - 1e-10):
                best, at = float(found.fun), found.x
    if best is None:
        nothing = np.full(count, -np.inf)
        last = evidence.at(nothing)
        return Mode(nothing, last.rss, last.value, True, steps)
    log_w, converged, more = _polished(evidence, shift, prior, at)
    theta = _at_zero(evidence, log_w, log_w - shift)
    last = evidence.at(theta)
    return Mode(theta, last.rss, last.value, converged, steps + more)


def _at_zero(evidence: Evidence, log_w: FloatArray, theta: FloatArray) -> FloatArray:
    """Theta with the variances that are as good as 0 at 0, unless the likelihood falls by that."""
    out = theta.copy()
    for k in np.flatnonzero(log_w < SMALL):
        before = evidence.at(out).value
        out[k] = -np.inf
        if evidence.at(out).value < before - FLAT:
            out[k] = theta[k]
    return out


def _polished(
    evidence: Evidence, shift: FloatArray, prior: Callable[[FloatArray], tuple[float, FloatArray]], log_w: FloatArray
) -> tuple[FloatArray, bool, int]:
    """Newton's steps in the coordinates that are not at 0, until the gradient vanishes."""
    step_of = 1e-5
    for iteration in range(MAXITER):
        found, (_, slope) = evidence.at(log_w - shift), prior(log_w)
        gradient = found.gradient + slope
        free = (log_w > NOTHING) | (gradient > FLAT)
        if not free.any() or np.abs(gradient[free]).max() <= FLAT:
            return log_w, bool((log_w < HIGHEST - 1).all()), iteration
        bend = np.zeros_like(found.hessian)
        for j in range(log_w.size):
            move = np.eye(log_w.size)[j] * step_of
            bend[j] = (prior(log_w + move)[1] - prior(log_w - move)[1]) / (2 * step_of)
        hessian = (found.hessian + (bend + bend.T) / 2)[np.ix_(free, free)]
        values, vectors = np.linalg.eigh(-hessian)
        values = np.maximum(np.abs(values), 1e-10 * np.abs(values).max())
        step = vectors @ ((vectors.T @ gradient[free]) / values)
        step *= min(1.0, 2.0 / np.abs(step).max())
        log_w = log_w.copy()
        log_w[free] = np.clip(log_w[free] + step, LOWEST - 10, HIGHEST)
    return log_w, False, MAXITER
