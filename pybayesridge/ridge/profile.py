"""The posterior of t2 as a function of one variable, each value O(r): its slope, its modes.

With b integrated out and s2 eliminated (or known), minus the log density of l = log t2 is

    f(l) = 1/2 sum log(1 + t2 s_j^2) + (N+2)/2 log R(l) + k/2 l + (a+b) log(1 + t2),
    R(l) = rss0 + sum z_j^2 / (1 + t2 s_j^2),

N being nu (or n, as the paper has it), k = 2 - 2a for the mode as a density in t2 and 1 - 2a as a density in t.
EM's fixed points are the zeros of f' (Tew, Boley & Schmidt 2023, equations 9 to 11, with the general beta-prime
prior); here they are bracketed on a grid and refined by a safeguarded Newton iteration, all targets at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import scipy
from scipy.special import expit

from pybayesridge._types import BoolArray, FloatArray, IntArray
from pybayesridge.linalg import blas
from pybayesridge.ridge import penalty_compiled
from pybayesridge.ridge.likelihood import PenaltyLikelihood
from pybayesridge.ridge.spectrum import Spectrum

SPACING = 0.25
"""Spacing in log t2 of the grid on which modes are counted; f varies on a scale of 1."""

MARGIN = 8.0
"""How far beyond the last feature of f the grid reaches, in log t2."""

CANCELLED = 1e-13
"""A slope below this share of its terms is a rounding error: with X = I and the mode in tau the density is flat."""

LARGEST_LOG = 700.0
"""Its exponential is a number still. Of a penalty so large nothing changes any more."""

CHUNK = 1 << 18
"""Most elements in a temporary array over (grid points or targets) x singular values: it stays in a cache."""


@dataclass(frozen=True, slots=True)
class PenaltyModel:
    """The prior of the penalty and the likelihood that it meets: everything about f but the rotation.

    Attributes
    ----------
    a, b : float
        Beta-prime prior of t = t2 / scale: density proportional to ``t^(a-1) (1+t)^(-a-b)``.
    k : float
        ``2 - 2a`` (mode as a density in t2) or ``1 - 2a`` (in t).
    log_scale : float
        Log of the prior's scale, in units of the rotated problem.
    likelihood : PenaltyLikelihood
    """

    a: float
    b: float
    k: float
    log_scale: float
    likelihood: PenaltyLikelihood

    @property
    def as_density(self) -> PenaltyModel:
        """The model whose f is minus the log density of l, the noise variance integrated out."""
        return replace(self, k=-2 * self.a, likelihood=replace(self.likelihood, count=self.likelihood.count - 2))

    @property
    def without_prior(self) -> PenaltyModel:
        """The likelihood alone."""
        return replace(self, a=0.0, b=0.0)

    def only(self, targets: IntArray | slice) -> PenaltyModel:
        """The model of some of the targets."""
        return replace(self, likelihood=self.likelihood.only(targets))


@dataclass(frozen=True, slots=True)
class Modes:
    """The mode of each target.

    Attributes
    ----------
    log_t2 : (q,) array
        In the units of the rotated problem; -inf where there is no interior mode (a null model).
    n_modes : (q,) int array
        Interior modes found.
    converged : (q,) bool array
    unbounded : (q,) bool array
        The density still rises where t2 is so large that the penalty no longer matters.
    n_iter : int
        Newton steps of the slowest target.
    """

    log_t2: FloatArray
    n_modes: IntArray
    converged: BoolArray
    unbounded: BoolArray
    n_iter: int


def shrinkage(s: FloatArray, log_t2: FloatArray) -> FloatArray:
    """``s_j^2 / (s_j^2 + 1/t2)``: shape of `log_t2` with an axis over j appended."""
    with np.errstate(over="ignore"):
        out: FloatArray = s**2 / (s**2 + np.exp(-log_t2)[..., None])
    return out


def complement(s: FloatArray, log_t2: FloatArray) -> FloatArray:
    """``(1/t2) / (s_j^2 + 1/t2)``, without subtracting from 1."""
    return totals(s, log_t2)[1]


def signal(s: FloatArray, log_t2: FloatArray) -> FloatArray:
    """``t2 s_j^2``: shape of `log_t2` with an axis over j appended."""
    with np.errstate(over="ignore"):
        out: FloatArray = s**2 * np.exp(log_t2)[..., None]
    return out


def shares(s2: FloatArray, log_t2: FloatArray) -> tuple[FloatArray, FloatArray]:
    """:func:`shrinkage` and :func:`complement` of squared `s` at finite points, by one exponential."""
    penalty = np.exp(np.minimum(-log_t2, LARGEST_LOG))[:, None]
    total = s2 + penalty
    return s2 / total, penalty / total


def totals(s: FloatArray, log_t2: FloatArray) -> tuple[FloatArray, FloatArray]:
    """``1 + t2 s_j^2`` and its inverse, :func:`complement`; shape of `log_t2` with an axis over j appended.

    The sum of the logs of the former has an absolute error of rounding in each term, which takes a tenth of the time
    of one that is relative to the term.
    """
    total = 1.0 + signal(s, log_t2)
    return total, 1.0 / total


def shared(log_t2: FloatArray) -> FloatArray | None:
    """The nodes (K,) that several targets have in common; None where they have their own, or one each."""
    if min(log_t2.shape) < 2 or (log_t2[0] != log_t2[0, 0]).any() or (log_t2 != log_t2[:, :1]).any():
        return None
    return log_t2[:, 0]


def nodes_of(log_t2: FloatArray, which: IntArray | slice) -> FloatArray:
    """The nodes of some targets, of (K, q): those that are one array for all targets stay so."""
    if log_t2.shape[1] > 1 and log_t2.strides[1] == 0:
        out: FloatArray = np.broadcast_to(log_t2[:, :1], (len(log_t2), log_t2[0, which].size))
        return out
    return log_t2[:, which]


def penalized_rss(spectrum: Spectrum, log_t2: FloatArray) -> FloatArray:
    """``R = min_b ||y - Xb||^2 + ||b||^2 / t2`` at each target's own nodes: (K, q) for `log_t2` (K, q)."""
    nodes = shared(log_t2)
    if nodes is not None:
        return spectrum.rss0 + blas.product(complement(spectrum.s, nodes), spectrum.z**2)
    rss = np.empty_like(log_t2)
    for at in node_blocks(log_t2, spectrum.rank):
        rss[at] = np.einsum("ktj,jt->kt", complement(spectrum.s, log_t2[at]), spectrum.z[:, at[1]] ** 2)
    return rss + spectrum.rss0


def at_points(spectrum: Spectrum, log_t2: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """:func:`penalized_rss`, :func:`log_determinant` and the share of the directions that is shrunk away.

    All are of one exponential; the last is the mean over j of :func:`complement`.
    """
    rss, logs, left = np.empty_like(log_t2), np.empty_like(log_t2), np.empty_like(log_t2)
    for at in node_blocks(log_t2, spectrum.rank):
        total, share = totals(spectrum.s, log_t2[at])
        logs[at] = np.log(total).sum(axis=-1)
        left[at] = share.sum(axis=-1)
        rss[at] = np.einsum("ktj,jt->kt", share, spectrum.z[:, at[1]] ** 2)
    return rss + spectrum.rss0, logs, left / max(spectrum.rank, 1)


def node_blocks(log_t2: FloatArray, rank: int) -> Iterator[tuple[slice, slice]]:
    """Blocks of points (K, q), so that arrays of `rank` numbers for each of their points stay in a cache.

    All points of a target are in consecutive blocks.
    """
    nodes, q = log_t2.shape
    most = max(1, CHUNK // max(rank, 1))
    targets = min(q, max(1, most // max(nodes, 1)))
    rows = max(1, most // max(targets, 1))
    for first in range(0, q, max(targets, 1)):
        for start in range(0, nodes, rows):
            yield slice(start, start + rows), slice(first, first + targets)


def log_determinant(spectrum: Spectrum, log_t2: FloatArray) -> FloatArray:
    """``sum_j log(1 + t2 s_j^2)``; shape of `log_t2`."""
    flat = log_t2.ravel()
    out = np.empty_like(flat)
    step = max(1, CHUNK // max(spectrum.rank, 1))
    for start in range(0, flat.size, step):
        rows = slice(start, start + step)
        out[rows] = np.log1p(signal(spectrum.s, flat[rows])).sum(axis=1)
    return out.reshape(log_t2.shape)


def value(spectrum: Spectrum, model: PenaltyModel, log_t2: FloatArray) -> FloatArray:
    """``f`` at each target's own points, (K, q)."""
    rss, determinant, _ = at_points(spectrum, log_t2)
    own_l = log_t2 - model.log_scale
    out: FloatArray = (
        0.5 * determinant
        + model.likelihood.profile(rss)
        + model.k / 2 * own_l
        + (model.a + model.b) * np.logaddexp(0.0, own_l)
    )
    return out


def _slope(
    spectrum: Spectrum, model: PenaltyModel, log_t2: FloatArray, target: IntArray
) -> tuple[FloatArray, FloatArray]:
    """First and second derivative of f for pairs of a point and a target, each (m,)."""
    e, left = shares(spectrum.s**2, log_t2)
    v = e * left
    z2 = spectrum.z.T[target] ** 2
    v_z2 = v * z2
    drop, bend, explained = v_z2.sum(axis=1), np.einsum("mj,mj->m", v_z2, left - e), np.einsum("mj,mj->m", left, z2)
    data1, data2 = model.likelihood.slopes(drop, bend, spectrum.rss0[target] + explained, target)
    share = expit(log_t2 - model.log_scale)
    first = 0.5 * e.sum(axis=1) + data1 + (model.k / 2 + (model.a + model.b) * share)
    second = 0.5 * v.sum(axis=1) + data2 + (model.a + model.b) * share * (1 - share)
    return first, second


def slopes_on_grid(spectrum: Spectrum, model: PenaltyModel, grid: FloatArray) -> FloatArray:
    """F' of every target on one grid, (L, q): two matrix products. What may be rounding of its terms is 0."""
    out = np.empty((grid.size, spectrum.z.shape[1]))
    s2, z2 = spectrum.s**2, spectrum.z**2
    share = expit(grid - model.log_scale)
    step = max(1, CHUNK // max(spectrum.rank, 1))
    for start in range(0, grid.size, step):
        rows = slice(start, start + step)
        e, f = shares(s2, grid[rows])
        drop = blas.product(e * f, z2)
        data = model.likelihood.slope(drop, spectrum.rss0 + blas.product(f, z2))
        terms = 0.5 * e.sum(axis=1) + (model.a + model.b) * share[rows]
        slope = data + (terms + model.k / 2)[:, None]
        size = np.abs(data) + (terms + abs(model.k) / 2)[:, None]
        out[rows] = np.where(np.abs(slope) <= CANCELLED * size, 0.0, slope)
    return out


def search_grid(spectrum: Spectrum, model: PenaltyModel) -> FloatArray:
    """Points of log t2 between which every zero of f' lies.

    Below the grid t2 s_1^2 (N+2) is small, so that f' has the sign of its limit; above it each term has reached
    its own limit, the last being the residual, where rss0 > 0 stops the decrease of R.
    """
    log_s2 = 2 * np.log(spectrum.s) if spectrum.rank else np.zeros(1)
    most = model.likelihood.signal
    tail = np.log(abs(model.k)) if model.k != 0 else 0.0
    low = min(-np.log(most), model.log_scale) + min(tail, 0.0) - MARGIN
    high = max(np.log(most) - log_s2[-1], model.log_scale) + MARGIN
    inside = spectrum.rss0 > 0
    if inside.any() and spectrum.rank:
        a = spectrum.z / spectrum.s[:, None]
        gain = np.einsum("jt,jt->t", a, a)[inside] / spectrum.rss0[inside]
        high = max(high, float(np.log(most * gain.max(initial=1.0))) + MARGIN)
    return np.arange(low, high + SPACING, SPACING)


def find_modes(
    spectrum: Spectrum,
    model: PenaltyModel,
    *,
    tol: float,
    maxiter: int,
    grid: FloatArray | None = None,
    compiled: penalty_compiled.Penalty | None = None,
) -> Modes:
    """Find every interior minimum of f on the search grid, refine it, and keep the lowest of each target.

    Parameters
    ----------
    spectrum : Spectrum
    model : PenaltyModel
    tol : float
        The iteration stops when a Newton step in log t2 is at most `tol`; its error is then of order tol^2.
    maxiter : int
        Most Newton (or bisection) steps.
    grid : (L,) array, optional
        The search grid, where it is known already.
    compiled : Penalty, optional
        :func:`described`, where it is known already.
    """
    q = spectrum.z.shape[1]
    none = np.zeros(q, dtype=bool)
    if spectrum.rank == 0:
        return Modes(np.full(q, -np.inf), np.zeros(q, dtype=np.intp), ~none, none, 0)
    grid = search_grid(spectrum, model) if grid is None else grid
    penalty = described(spectrum, model) if compiled is None else compiled
    found = None if penalty is None else _compiled_modes(penalty, grid, tol, maxiter)
    if found is not None:
        return found
    slope = slopes_on_grid(spectrum, model, grid)
    at, target = np.nonzero((slope[:-1] < 0) & (slope[1:] >= 0))
    low, high, target = _with_shallow(spectrum, model, grid, slope, grid[at], grid[at + 1], target)
    roots, done, n_iter = _refine(spectrum, model, low, high, target, tol, maxiter)
    n_modes = np.bincount(target, minlength=q).astype(np.intp)
    unbounded = slope[-1] < 0
    log_t2 = np.where(unbounded & (n_modes == 0), grid[-1], -np.inf)
    converged = ~(unbounded & (n_modes == 0))
    best = np.full(q, np.inf)
    for i in np.lexsort((roots, target)):
        t = target[i]
        height = 0.0
        if n_modes[t] > 1:
            height = float(value(spectrum, model, np.full((1, q), roots[i]))[0, t])
        if height < best[t]:
            best[t], log_t2[t], converged[t] = height, roots[i], done[i]
    return Modes(log_t2, n_modes, converged, unbounded, n_iter)


def _compiled_modes(penalty: penalty_compiled.Penalty, grid: FloatArray, tol: float, maxiter: int) -> Modes | None:
    """The mode of one target by compiled code; None for what that leaves."""
    found = penalty_compiled.modes(penalty, grid, tol=tol, maxiter=maxiter)
    if found is None:
        return None
    log_t2, n_modes, converged, unbounded, n_iter = found
    return Modes(
        np.array([log_t2]),
        np.array([n_modes], dtype=np.intp),
        np.array([converged]),
        np.array([unbounded]),
        n_iter,
    )


def described(spectrum: Spectrum, model: PenaltyModel) -> penalty_compiled.Penalty | None:
    """One target, its prior and noise as compiled code takes them; None where it does not."""
    return penalty_compiled.describe(
        spectrum,
        model.likelihood,
        a=model.a,
        b=model.b,
        k=model.k,
        log_scale=model.log_scale,
        cancelled=CANCELLED,
        largest=LARGEST_LOG,
    )


def _with_shallow(
    spectrum: Spectrum,
    model: PenaltyModel,
    grid: FloatArray,
    slope: FloatArray,
    low: FloatArray,
    high: FloatArray,
    target: IntArray,
) -> tuple[FloatArray, FloatArray, IntArray]:
    """Add brackets of minima that lie, with the adjacent maximum, between two points of the grid.

    There f' has an extremum beyond zero that the grid steps over; a parabola through three points tells where.
    """
    before, middle, after = slope[:-2], slope[1:-1], slope[2:]
    lowest = (middle > 0) & (before >= middle) & (after >= middle)
    highest = (middle < 0) & (before <= middle) & (after <= middle)
    if not (lowest.any() or highest.any()):
        return low, high, target
    bend = before - 2 * middle + after
    with np.errstate(divide="ignore", invalid="ignore"):
        vertex = middle - (after - before) ** 2 / (8 * bend)
    overshoot = np.abs(vertex - middle) + 0.1 * np.abs(bend)
    dip = lowest & (vertex < overshoot)
    bump = highest & (vertex > -overshoot)
    lows, highs, targets = [low], [high], [target]
    for i, t in zip(*np.nonzero(dip | bump), strict=True):
        sign = 1.0 if dip[i, t] else -1.0
        column = np.array([t])
        found = scipy.optimize.minimize_scalar(
            lambda l, sign=sign, column=column: sign * _slope(spectrum, model, np.array([l]), column)[0][0],
            bounds=(grid[i], grid[i + 2]),
            method="bounded",
            options={"xatol": 1e-9},
        )
        if found.fun < 0:
            lows.append(np.array([found.x if sign > 0 else grid[i]]))
            highs.append(np.array([grid[i + 2] if sign > 0 else found.x]))
            targets.append(column)
    return np.concatenate(lows), np.concatenate(highs), np.concatenate(targets)


def _refine(
    spectrum: Spectrum,
    model: PenaltyModel,
    low: FloatArray,
    high: FloatArray,
    target: IntArray,
    tol: float,
    maxiter: int,
) -> tuple[FloatArray, BoolArray, int]:
    """Newton's iteration for f' = 0 in brackets, bisecting where it would leave them; all brackets at once."""
    low, high = low.copy(), high.copy()
    point = 0.5 * (low + high)
    done = np.zeros(point.size, dtype=bool)
    step_size = max(1, CHUNK // max(spectrum.rank, 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        for iteration in range(1, maxiter + 1):
            todo = (~done).nonzero()[0]
            if todo.size == 0:
                return point, done, iteration - 1
            for start in range(0, todo.size, step_size):
                i = todo[start : start + step_size]
                here, below, above = point[i], low[i], high[i]
                first, second = _slope(spectrum, model, here, target[i])
                np.copyto(above, here, where=first >= 0)
                np.copyto(below, here, where=first < 0)
                newton, proposal = here - first / second, 0.5 * (below + above)
                np.copyto(proposal, newton, where=(second > 0) & (newton >= below) & (newton <= above))
                done[i] = np.abs(proposal - here) <= tol
                point[i], low[i], high[i] = proposal, below, above
    return point, done, maxiter
