"""Quadrature over the hyperparameters that are not given: log g, g = v / s2, and the prior inclusion probability."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise

import numpy as np
from scipy.special import log_expit, logsumexp

from pybayesridge._types import FloatArray
from pybayesridge.ep.model.hyper_prior import HyperPrior, bell, eta, hyper_prior
from pybayesridge.selection.problem import Problem

NODES_G = 8
"""Nodes of log g in a panel of width 1 (and finer, where asked for)."""

NODES_T = 16
"""Nodes of t in a panel."""

NOISE_PANEL = 3.0
"""Width of a panel in posterior standard deviations of log s2, where the slab's variance is given and s2 is learned:
log g then is log s2 but for its sign, and s2 is known the better the more rows there are."""

RESOLVED = 1e-10
"""Share of the response's square below which a residual sum of squares is not resolved."""

NOISE_REACH = 8.0
"""Standard deviations of log s2 beyond its smallest and largest estimate that these panels reach."""

MOST_SOLVED = 2500
"""Up to this many columns the residual sum of squares of all of them bounds s2 from below."""


@dataclass(frozen=True, slots=True)
class Given:
    """The given hyperparameters, in the units of the problem.

    Attributes
    ----------
    prior_inclusion : (d,) array or None
        Equal within groups.
    slab_var, noise_var : float or None
    expected_size : float
        Number of columns or groups expected in the middle of the prior of a common inclusion probability.
    flat : int
        Number of unpenalised coefficients that have a flat prior in units of the standard deviation of a latent
        response, to which the explained part contributes; those with a flat prior in its noise's units do not count.
    """

    prior_inclusion: FloatArray | None = None
    slab_var: float | None = None
    noise_var: float | None = None
    expected_size: float = 1.0
    flat: int = 0


@dataclass(frozen=True, slots=True)
class Grid:
    """Nodes of the hyperparameters.

    Attributes
    ----------
    log_g : (K,) array
        Nodes; one where v and s2 are both given.
    log_weight : (K,) array
        Logarithms of weights, the prior density of log g among them unless the inclusion probability is learned.
    noise_var : (K,) array or None
        s2 where it, or v, is given; None where s2 is integrated out analytically under 1 / s2.
    prior : HyperPrior
    n_units : int
    unit_odds : (G,) array or None
        Log prior odds of each unit where they are given.
    log_none : float
        Where they are given, the log prior probability that no unit is in but those that always are.
    log_total : float
        Logarithm of the prior's normalising constant.
    bounded : bool
        Whether eta is kept within its bounds: v or s2 is learned.
    flat : int
        As for :class:`Given`.
    tables, odds : dict
        ``log_size`` and ``size_odds`` for the sizes (and nodes) that were asked for.
    """

    log_g: FloatArray
    log_weight: FloatArray
    noise_var: FloatArray | None
    prior: HyperPrior
    n_units: int
    unit_odds: FloatArray | None
    log_none: float
    log_total: float
    bounded: bool
    flat: int = 0
    tables: dict[int, FloatArray] = field(default_factory=dict, repr=False, compare=False)
    odds: dict[tuple[int, int], tuple[float, float]] = field(default_factory=dict, repr=False, compare=False)

    @property
    def k(self) -> FloatArray:
        """1 / g, (K,)."""
        return np.exp(-self.log_g)

    @property
    def eta(self) -> FloatArray:
        """Log odds of the explained share at the nodes where the p_j are given, (K,)."""
        return eta(self.prior, np.zeros(1), self.log_g)

    def log_size(self, m: int) -> FloatArray:
        """Log prior weight of one set of m units at each node, (K,), weight of the node included."""
        if self.unit_odds is not None:
            return self.log_weight
        if m not in self.tables:
            t, log_w = self.t_nodes(m)
            self.tables[m] = logsumexp(log_w + self.log_set(t, m), axis=1) + self.log_weight - self.log_total
        return self.tables[m]

    def size_odds(self, m: int, node: int) -> tuple[float, float]:
        """Prior log odds at a node of one more unit than m, -inf if there is none, and of the m-th; 0 if m is 0."""
        if (m, node) not in self.odds:
            here = self.log_size(m)[node]
            more = self.log_size(m + 1)[node] - here if m < self.n_units else -np.inf
            self.odds[m, node] = float(more), float(here - self.log_size(m - 1)[node]) if m else 0.0
        return self.odds[m, node]

    def log_set(self, t: FloatArray, m: int) -> FloatArray:
        """Log probability given t of one set of m units."""
        return m * log_expit(t) + (self.n_units - m) * log_expit(-t)

    def t_nodes(self, m: int, node: int | None = None) -> tuple[FloatArray, FloatArray]:
        """Nodes of t at each node of log g (or at one), (K, T), and logarithms of weights times prior density."""
        log_g = self.log_g if node is None else self.log_g[node : node + 1]
        low, high = self._t_range(log_g)
        panels = max(12, int(np.ceil(2.0 * np.sqrt(min(m, self.n_units - m) + 1.0))))
        unit, weight = composite(np.linspace(0.0, 1.0, panels + 1), NODES_T)
        t = low[:, None] + (high - low)[:, None] * unit
        share = eta(self.prior, log_expit(t), log_g[:, None])
        with np.errstate(divide="ignore"):
            log_w = np.log(weight) + np.log(high - low)[:, None]
        return t, log_w + bell(t - self.prior.center) + self.log_share(share)

    def log_share(self, eta: FloatArray) -> FloatArray:
        """Log density of eta, times ``(1 + exp(eta))^(-1/2)`` for each coefficient that is flat in latent units."""
        out = bell(eta)
        return out + 0.5 * self.flat * log_expit(-eta) if self.flat else out

    def _t_range(self, g: FloatArray) -> tuple[FloatArray, FloatArray]:
        prior = self.prior
        low, high = np.full(g.size, prior.t_low), np.full(g.size, prior.t_high)
        if self.bounded:
            low = np.maximum(low, _t_of(prior.eta_low - prior.log_spread - g))
            high = np.minimum(high, _t_of(prior.eta_high - prior.log_spread - g))
        return low, np.maximum(high, low)


def _t_of(log_p: FloatArray) -> FloatArray:
    """Logit of p; infinite where p is 1 or more."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(log_p < 0, log_p - np.log(-np.expm1(np.minimum(log_p, 0.0))), np.inf)


@lru_cache
def _legendre(nodes: int) -> tuple[FloatArray, FloatArray]:
    return np.polynomial.legendre.leggauss(nodes)


def composite(breaks: FloatArray, nodes: int) -> tuple[FloatArray, FloatArray]:
    """Gauss-Legendre nodes and weights on each of the panels between `breaks` (b,)."""
    x, w = _legendre(nodes)
    half = 0.5 * np.diff(breaks)
    middle = breaks[:-1] + half
    return (middle[:, None] + half[:, None] * x).ravel(), (half[:, None] * w).ravel()


def _panels(breaks: FloatArray, width: float) -> FloatArray:
    """Break intervals up into panels of at most `width`."""
    parts = [np.linspace(a, b, int(np.ceil((b - a) / width)) + 1)[:-1] for a, b in pairwise(breaks) if b > a]
    return np.concatenate([*parts, breaks[-1:]])


def _finer(breaks: FloatArray, low: float, high: float, sd: float, panel: float) -> FloatArray:
    """Break panels between `low` and `high` up by the standard deviation there."""
    low, high = np.clip([low, high], breaks[0], breaks[-1])
    inside = _panels(np.array([low, high]), min(NOISE_PANEL * sd, 1.0) * panel) if high > low else breaks[:0]
    return np.unique(np.concatenate([breaks, inside]))


def _noise_panels(problem: Problem, slab_var: float) -> tuple[float, float, float]:
    """The range of log g where s2 may be, and the standard deviation of log s2 there."""
    nu, sd = max(problem.nu, 1.0), float(np.sqrt(2.0 / max(problem.nu, 1.0)))
    low = float(np.log(slab_var * nu / problem.yy))
    high = np.inf
    if problem.d <= min(MOST_SOLVED, problem.nu):
        fit, *_ = np.linalg.lstsq(problem.block(np.arange(problem.d)), problem.cross, rcond=None)
        left = problem.yy - float(problem.cross @ fit)
        high = float(np.log(slab_var * nu / left)) if left > RESOLVED * problem.yy else np.inf
    return low - NOISE_REACH * sd, high + NOISE_REACH * sd, sd


def grid_of(problem: Problem, given: Given, *, panel: float = 1.0) -> Grid:
    """Nodes for a problem.

    Parameters
    ----------
    problem : Problem
    given : Given
    panel : float
        Width of a panel of log g.
    """
    units = problem.units
    p = given.prior_inclusion
    prior = hyper_prior(units.n, problem.diag, problem.n, expected_size=given.expected_size, given=p)
    odds, log_none = (None, 0.0) if p is None else _unit_odds(p[units.order[units.start[:-1]]])
    both = given.slab_var is not None and given.noise_var is not None
    if given.slab_var is not None and given.noise_var is not None:
        log_g = np.array([np.log(given.slab_var) - np.log(given.noise_var)])
        log_weight = np.zeros(1)
    else:
        log_p = np.array([0.0, 0.0]) if p is not None else log_expit(np.array([prior.t_low, prior.t_high]))
        ends = np.array([prior.eta_low, prior.eta_high])
        breaks = _panels(np.unique(ends[:, None] - log_p - prior.log_spread), panel)
        if given.slab_var is not None:
            breaks = _finer(breaks, *_noise_panels(problem, given.slab_var), panel)
        log_g, weight = composite(breaks, NODES_G)
        log_weight = np.log(weight)
    noise: FloatArray | None = None
    if given.noise_var is not None:
        noise = np.full(log_g.size, float(given.noise_var))
    elif given.slab_var is not None:
        noise = given.slab_var * np.exp(-log_g)
    grid = Grid(log_g, log_weight, noise, prior, units.n, odds, log_none, 0.0, not both, given.flat)
    return _normalised(grid)


def _unit_odds(p: FloatArray) -> tuple[FloatArray, float]:
    with np.errstate(divide="ignore"):
        odds = np.log(p) - np.log1p(-p)
    return odds, float(np.log1p(-p[p < 1]).sum())


def _normalised(grid: Grid) -> Grid:
    """The same with the prior of what is learned integrating to one."""
    if grid.unit_odds is None:
        _, log_w = grid.t_nodes(0)
        total = float(logsumexp(logsumexp(log_w, axis=1) + grid.log_weight))
        return replace(grid, log_total=total)
    if not grid.bounded:
        return grid
    log_weight = grid.log_weight + grid.log_share(grid.eta)
    return replace(grid, log_weight=log_weight - logsumexp(log_weight))


def quantiles_of_t(grid: Grid, m: int, node: int, uniform: FloatArray) -> FloatArray:
    """The quantiles of t at `uniform`, given a set of m units and the node of log g."""
    t, log_w = (part[0] for part in grid.t_nodes(m, node))
    log_mass = log_w + grid.log_set(t, m)
    own = np.exp(log_mass - log_mass.max())
    # Half of a node's mass lies below it.
    mass = np.cumsum(own)
    return np.interp(uniform * mass[-1], mass - 0.5 * own, t)
