"""The posterior of l = log t2 by one-dimensional quadrature.

The density is smooth, with exponential tails: the trapezoidal rule on it converges geometrically, so that each
doubling of the nodes squares the error. With d the change that the last doubling made, the error left is therefore
about d^2; min(d, 100 d^2) is reported as its estimate, and the nodes are doubled until that is small enough.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pybayesridge._types import BoolArray, FloatArray, IntArray
from pybayesridge.ridge import penalty_compiled
from pybayesridge.ridge.density import at_nodes, fall, log_density, on_common_grid, outside_counts
from pybayesridge.ridge.mixture import Mixture
from pybayesridge.ridge.profile import (
    Modes,
    PenaltyModel,
    described,
    find_modes,
    nodes_of,
    penalized_rss,
    search_grid,
)
from pybayesridge.ridge.spectrum import Spectrum

DROP = 37.0
"""Nodes end where the density has fallen by this in logarithm from its maximum: e^-37 is below rounding errors."""

COARSE = 0.5
"""Spacing in log t2 of the grid on which the ends are found."""

FIRST_NODES = 33
"""Nodes of the first rule."""

NEGLIGIBLE = 1e-15
"""Nodes of smaller weight are left out of the mixture, where they weigh as little in the means of t2 and 1/t2."""

FARTHEST = 600.0
"""Nodes reach no farther in log t2, unless features of the density do: t2 and 1/t2 stay finite numbers."""

ASYMPTOTIC = 40.0
"""This far beyond the last feature of the density it is an exponential of log t2, to the last digit."""


@dataclass(frozen=True, slots=True)
class Quadrature:
    """Nodes and weights of the posterior of log t2 for each target.

    Attributes
    ----------
    log_t2 : (K, q) array
        In rotated units.
    weight : (K, q) array
        Sums to 1 over the nodes; 0 for nodes a target does not need.
    log_integral : (q,) array
        Log of the integral of the unnormalised density over l.
    error : (q,) array
        Estimated error of the log integral, of the log mean variance of the least certain direction, and of the means
        of log t2 and of the effective degrees of freedom
        (relative to the rank).
    converged : (q,) bool array
    rss : (K, q) array or None
        R at the nodes, where it is known.
    """

    log_t2: FloatArray
    weight: FloatArray
    log_integral: FloatArray
    error: FloatArray
    converged: BoolArray
    rss: FloatArray | None = None

    def of_targets(self, which: IntArray) -> Quadrature:
        """The same of some of the targets."""
        return Quadrature(
            nodes_of(self.log_t2, which),
            self.weight[:, which],
            self.log_integral[which],
            self.error[which],
            self.converged[which],
            None if self.rss is None else self.rss[:, which],
        )


def integrate(spectrum: Spectrum, model: PenaltyModel, *, tol: float, maxiter: int) -> Quadrature:
    """Integrate the posterior of log t2 for every target.

    Parameters
    ----------
    spectrum : Spectrum
    model : PenaltyModel
        With ``count`` = nu; its ``k`` is not used.
    tol : float
        Largest estimated error accepted; see :class:`Quadrature`.
    maxiter : int
        Most doublings of the nodes.
    """
    search = _search(spectrum, model)
    found = _compiled(spectrum, model, search, tol, maxiter)
    if found is not None:
        return found
    low, high, top, tails = _ends(spectrum, model, search)
    q = low.size
    count = FIRST_NODES
    nodes = low + (high - low) * np.linspace(0.0, 1.0, count)[:, None]
    values: tuple[FloatArray, ...] = at_nodes(spectrum, model, nodes)
    error = np.full(q, np.inf)
    summary = _summary(nodes, values, top, (high - low) / (count - 1), tails)
    pieces: dict[int, tuple[FloatArray, ...]] = {}
    active = np.arange(q)
    for _ in range(maxiter):
        count = 2 * count - 1
        width = (high - low)[active]
        between = low[active] + width * (np.arange(1, count, 2) / (count - 1))[:, None]
        finer = _only(spectrum, model, active)
        nodes = _interleave(nodes, between)
        values = tuple(map(_interleave, values, at_nodes(*finer, between)))
        new = _summary(nodes, values, top[active], width / (count - 1), tails.only(active))
        change = np.abs(new - summary).max(axis=0)
        error[active] = np.minimum(change, 100 * change**2) + np.finfo(float).eps
        summary = new
        done = error[active] <= tol
        for i in np.flatnonzero(done).tolist():
            pieces[int(active[i])] = tuple(a[:, i] for a in (nodes, *values[:3]))
        active, summary = active[~done], summary[:, ~done]
        nodes, values = nodes[:, ~done], tuple(a[:, ~done] for a in values)
        if active.size == 0:
            break
    for i, target in enumerate(active.tolist()):
        pieces[target] = tuple(a[:, i] for a in (nodes, *values[:3]))
    converged = np.ones(q, dtype=bool)
    converged[active] = False
    return _collect(spectrum, pieces, top, low, high, error, converged, tails)


def _only(spectrum: Spectrum, model: PenaltyModel, active: IntArray) -> tuple[Spectrum, PenaltyModel]:
    if active.size == spectrum.z.shape[1]:
        return spectrum, model
    return spectrum.of_targets(active), model.only(active)


def _interleave(old: FloatArray, between: FloatArray) -> FloatArray:
    out = np.empty((old.shape[0] + between.shape[0], old.shape[1]))
    out[::2], out[1::2] = old, between
    return out


@dataclass(frozen=True, slots=True)
class _Tails:
    """How the density goes on beyond the nodes: as ``exp(-rate |l - end|)``; rate inf where nothing is left, (q,)."""

    below: FloatArray
    above: FloatArray
    t2: FloatArray
    penalty: float

    def only(self, active: IntArray) -> _Tails:
        return _Tails(self.below[active], self.above[active], self.t2[active], self.penalty)

    def close(self, density: FloatArray, spacing: FloatArray) -> FloatArray:
        """Log density (K, q) with what an endless row of nodes has beyond the ends added to the end nodes."""
        out = density.copy()
        out[0] -= np.log(-np.expm1(-self.below * spacing))
        out[-1] -= np.log(-np.expm1(-self.above * spacing))
        return out


@dataclass(frozen=True, slots=True)
class _Search:
    """What the ends are looked for with.

    Attributes
    ----------
    grid : (L,) array
        Points on which every density, and its product with what has a mean, becomes negligible at both sides.
    modes : Modes
        Of the densities.
    falls : (q,) array
        Rates at which they fall for large t2.
    compiled : Penalty or None
        The density as compiled code takes it; None for what that leaves.
    """

    grid: FloatArray
    modes: Modes
    falls: FloatArray
    compiled: penalty_compiled.Penalty | None


def _search(spectrum: Spectrum, model: PenaltyModel) -> _Search:
    # The mode of the density of l is that of f with N + 2 = nu and k = -2a: interior always, since k < 0.
    as_profile = model.as_density
    features = search_grid(spectrum, as_profile)
    falls = fall(spectrum, model)
    grid = coarse_grid(model, features, falls)
    compiled = described(spectrum, as_profile)
    modes = find_modes(spectrum, as_profile, tol=1e-3, maxiter=100, grid=features, compiled=compiled)
    return _Search(grid, modes, falls, compiled)


def coarse_grid(model: PenaltyModel, features: FloatArray, falls: FloatArray) -> FloatArray:
    """The points (L,) on which ends are looked for, about those of :func:`search_grid`; falls (q,) as of `fall`."""
    slowest = np.where(falls > 1, falls - 1, falls).min()
    low = features[0] - DROP / (model.a - 1 if model.a > 1 else model.a)
    high = features[-1] + DROP / slowest
    low = max(low, min(features[0] - ASYMPTOTIC, -FARTHEST))
    high = min(high, max(features[-1] + ASYMPTOTIC, FARTHEST))
    return np.arange(low, high + COARSE, COARSE)


def _compiled(
    spectrum: Spectrum, model: PenaltyModel, search: _Search, tol: float, maxiter: int
) -> Quadrature | None:
    """The quadrature of one target by compiled code; None for what that leaves."""
    if search.compiled is None:
        return None
    found = penalty_compiled.quadrature(
        search.compiled,
        search.grid,
        float(search.modes.log_t2[0]),
        fall=float(search.falls[0]),
        outside=bool(outside_counts(spectrum, model)[0]),
        drop=DROP,
        coarse=COARSE,
        negligible=NEGLIGIBLE,
        tol=tol,
        first=FIRST_NODES,
        doublings=maxiter,
    )
    if found is None:
        return None
    log_t2, weight, log_integral, error = found
    return Quadrature(
        log_t2[:, None], weight[:, None], np.array([log_integral]), np.array([error]), np.ones(1, dtype=bool)
    )


def _ends(
    spectrum: Spectrum, model: PenaltyModel, search: _Search
) -> tuple[FloatArray, FloatArray, FloatArray, _Tails]:
    """Where the density, and its products with t2, 1/t2 and variances where these have a mean, are negligible."""
    grid, modes, falls = search.grid, search.modes, search.falls
    t2_has_mean, penalty_has_mean = falls > 1, model.a > 1
    density, variance, log_rss = on_common_grid(spectrum, model, grid)
    top = density.max(axis=0)
    inner = np.isfinite(modes.log_t2)
    at_mode = np.where(inner, modes.log_t2, grid[density.argmax(axis=0)])
    top = np.maximum(top, log_density(spectrum, model, at_mode[None])[0])
    inside = within(spectrum, model, grid, (density, variance, log_rss), top)
    any_inside = inside.any(axis=0)
    first = np.where(any_inside, inside.argmax(axis=0), 0)
    last = np.where(any_inside, grid.size - 1 - inside[::-1].argmax(axis=0), 0)
    tails = _Tails(
        below=np.where(any_inside & (first == 0), model.a, np.inf),
        above=np.where(any_inside & (last == grid.size - 1), falls, np.inf),
        t2=np.where(t2_has_mean, falls, 0.0),
        penalty=model.a if penalty_has_mean else 0.0,
    )
    low = np.where(any_inside, np.minimum(grid[first], at_mode), at_mode) - COARSE
    high = np.where(any_inside, np.maximum(grid[last], at_mode), at_mode) + COARSE
    return low, high, top, tails


def within(
    spectrum: Spectrum,
    model: PenaltyModel,
    grid: FloatArray,
    values: tuple[FloatArray, FloatArray, FloatArray],
    top: FloatArray,
    drop: float = DROP,
) -> BoolArray:
    """Where a density, or its product with what has a mean, is not negligible, (L, q).

    `values` are those of :func:`on_common_grid`, `top` are the maxima of the densities (q,).
    """
    density, variance, log_rss = values
    inside: BoolArray = density > top - drop
    for has_mean, sign in ((fall(spectrum, model) > 1, 1.0), (model.a > 1, -1.0)):
        weighted = density + sign * grid[:, None]
        inside |= has_mean & (weighted > weighted.max(axis=0) - drop)
    for log_value in (variance, log_rss, *_log_spreads(spectrum, grid[:, None])):
        inside |= density + log_value > (density + log_value).max(axis=0) - drop
    return inside


def _summary(
    nodes: FloatArray,
    values: tuple[FloatArray, ...],
    top: FloatArray,
    spacing: FloatArray,
    tails: _Tails,
) -> FloatArray:
    """Quantities to converge, (4, q): log integral; means of log t2 and effective df; the log mean variance.

    `values` are those of :func:`at_nodes`. The share of the directions that is shrunk away stands for the df.
    """
    density, variance, _, left = values
    weight = np.exp(tails.close(density, spacing) - top)
    total = weight.sum(axis=0)
    weight = weight / total
    largest = variance.max(axis=0)
    return np.stack(
        [
            np.log(total * spacing),
            (weight * nodes).sum(axis=0),
            (weight * left).sum(axis=0),
            largest + np.log((weight * np.exp(variance - largest)).sum(axis=0)),
        ]
    )


def _collect(
    spectrum: Spectrum,
    pieces: dict[int, tuple[FloatArray, ...]],
    top: FloatArray,
    low: FloatArray,
    high: FloatArray,
    error: FloatArray,
    converged: BoolArray,
    tails: _Tails,
) -> Quadrature:
    """Put the targets' nodes into common arrays, without those of negligible weight."""
    q = top.size
    kept: list[tuple[FloatArray, FloatArray]] = []
    log_integral = np.empty(q)
    for target in range(q):
        nodes, density, variance, log_rss = pieces[target]
        spacing = (high[target] - low[target]) / (nodes.size - 1)
        of_target = tails.only(np.array([target]))
        log_weight = of_target.close(density[:, None], np.array([spacing]))[:, 0] - top[target]
        weight: FloatArray = np.exp(log_weight)
        log_integral[target] = top[target] + np.log(weight.sum() * spacing)
        nodes = _moved_ends(nodes, spacing, of_target)
        keep = _matters(log_weight)
        for log_value in (variance, log_rss, *_log_spreads(spectrum, nodes)):
            keep |= _matters(log_weight + log_value)
        if of_target.t2[0] > 0:
            keep |= _matters(log_weight + nodes)
        if of_target.penalty > 0:
            keep |= _matters(log_weight - nodes)
        kept.append((nodes[keep], weight[keep] / weight.sum()))
    size = max(nodes.size for nodes, _ in kept)
    log_t2 = np.zeros((size, q))
    weights = np.zeros((size, q))
    for target, (nodes, weight) in enumerate(kept):
        log_t2[: nodes.size, target] = nodes
        log_t2[nodes.size :, target] = nodes[-1]
        weights[: nodes.size, target] = weight
    return Quadrature(log_t2, weights, log_integral, error, converged)


def _log_spreads(spectrum: Spectrum, log_t2: FloatArray) -> list[FloatArray]:
    """Logs of the squared shrinkage of the first and the last direction: the squares of where coefficients lie."""
    return [-2 * np.logaddexp(0.0, -log_t2 - 2 * np.log(s)) for s in spectrum.s[[0, -1]]] if spectrum.rank else []


def _matters(log_weight: FloatArray) -> BoolArray:
    weight = np.exp(log_weight - log_weight.max())
    out: BoolArray = weight > NEGLIGIBLE * weight.sum()
    return out


def _moved_ends(nodes: FloatArray, spacing: float, tails: _Tails) -> FloatArray:
    """Put end nodes that stand for a tail where the tail has its mean: of t2 (of 1/t2 below) or else of log t2."""
    out = nodes.copy()
    out[0] -= _shift(float(tails.below[0]), spacing, tails.penalty > 0)
    out[-1] += _shift(float(tails.above[0]), spacing, float(tails.t2[0]) > 0)
    return out


def _shift(rate: float, spacing: float, exponential: bool) -> float:
    """Distance from the first node of an endless row, falling at `rate`, to the mean of ``l``, or to log E exp(l)."""
    if np.isinf(rate):
        return 0.0
    if exponential:
        return float(np.log(np.expm1(-rate * spacing) / np.expm1(-(rate - 1) * spacing)))
    return spacing / float(np.expm1(rate * spacing))


def mixture(spectrum: Spectrum, model: PenaltyModel, quadrature: Quadrature) -> Mixture:
    """The posterior of everything linear: a mixture of t distributions (normal, where the noise is known)."""
    # For large t2 the density of log t2 falls as t2^-(b + r/2), and the variance outside the row space rises as t2.
    # Where X leaves no residual the noise variance falls as 1/t2, so that their product does not rise.
    heavy = spectrum.rank < spectrum.p and model.b + spectrum.rank / 2 <= 1
    heavy = heavy and (model.likelihood.known or spectrum.rank < spectrum.nu)
    rss = penalized_rss(spectrum, quadrature.log_t2) if quadrature.rss is None else quadrature.rss
    return Mixture(quadrature.log_t2, quadrature.weight, model.likelihood.scale2(rss), model.likelihood.df, heavy)
