"""Quadrature over the hyperparameters that are not given: log g, g = v / s2, and the prior inclusion probability."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise

import numpy as np
from scipy.special import expit, log_expit, logsumexp

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.ep.model.eta_bound import RESOLVED, Regression, least_left, reach_of
from pybayesridge.ep.model.hyper_prior import HyperPrior, bell, hyper_prior
from pybayesridge.selection.problem import Problem

NODES_G = 8
"""Nodes of log g in a panel of width 1 (and finer, where asked for)."""

NODES_T = 16
"""Nodes of t in a panel."""

PANELS_T = 6
"""Panels of t on either side of where a set's size has its mass."""

STEP_T = 1.0
"""Step of t, above 0, between values of p at which panels of log g end: bounds of eta cut p off there."""

BISECTIONS = 24
"""Halvings of the range of t that find this place."""

NOISE_PANEL = 3.0
"""Width of a panel in posterior standard deviations of log s2, where the slab's variance is given and s2 is learned:
log g then is log s2 but for its sign, and s2 is known the better the more rows there are."""

UNSEEN = 1e-10
"""Share of the response's square down to which s2 is looked for where columns can fit the response exactly, unless a
few columns leave less."""

NOISE_REACH = 8.0
"""Standard deviations of log s2 beyond its smallest and largest estimate that these panels reach."""

TAIL = 30.0
"""Nats by which the posterior of log s2 has fallen where its nodes end, if its tail is longer."""

MOST_SOLVED = 2500
"""Up to this many columns the residual sum of squares of all of them bounds s2 from below."""

STEEPEST = 8.0
"""Nats that the likelihood may change by within the last panel of log g where v is learned and s2 is given."""


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
        Logarithms of weights, with the prior density of log g unless v and the inclusion probability are learned.
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
        Whether v is learned: its prior given t and s2 keeps eta within bounds.
    flat : int
        As for :class:`Given`.
    tables : dict
        ``log_size`` for the sizes that were asked for.
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

    @property
    def k(self) -> FloatArray:
        """1 / g, (K,)."""
        return np.exp(-self.log_g)

    @property
    def follows_noise(self) -> bool:
        """Whether the nodes are those of s2, where v is given and s2 is learned."""
        return self.prior.slab_given and self.log_g.size > 1

    @property
    def always(self) -> IntArray:
        """Units that the prior has in every set."""
        return np.zeros(0, dtype=np.intp) if self.unit_odds is None else np.flatnonzero(self.unit_odds == np.inf)

    @property
    def free(self) -> IntArray:
        """Units that may be in or out."""
        return np.arange(self.n_units) if self.unit_odds is None else np.flatnonzero(np.isfinite(self.unit_odds))

    def log_size(self, m: int) -> FloatArray:
        """Log prior weight of one set of m units at each node, (K,), weight of the node included."""
        if self.unit_odds is not None:
            return self.log_weight
        if m not in self.tables:
            t, log_w = self.t_nodes(m)
            self.tables[m] = logsumexp(log_w + self.log_set(t, m), axis=1) + self.log_weight - self.log_total
        return self.tables[m]

    def log_set(self, t: FloatArray, m: int | IntArray) -> FloatArray:
        """Log probability given t of one set of m units."""
        return m * log_expit(t) + (self.n_units - m) * log_expit(-t)

    def t_nodes(self, m: int) -> tuple[FloatArray, FloatArray]:
        """Nodes of t at each node of log g, (K, T), and logarithms of weights times prior density.

        They are close where sets of m units have their mass. Where the density is the same at all nodes: (1, T).
        """
        return self._t_quadrature(self.log_g if self.bounded or self.flat else self.log_g[:1], m, self.n_units)

    def t_nodes_at(self, sizes: IntArray, nodes: IntArray) -> tuple[FloatArray, FloatArray]:
        """The same for sets of `sizes` (S,) units, each at one of the nodes of log g, (S, T) both."""
        return self._t_quadrature(self.log_g[nodes], sizes, self.n_units)

    def t_evenly(self, panels: int) -> tuple[FloatArray, FloatArray]:
        """Nodes of t as in :meth:`t_nodes`, but for all sizes, on so many panels of equal width."""
        log_g = self.log_g if self.bounded or self.flat else self.log_g[:1]
        low, high = self._t_range(log_g)
        unit, weight = composite(np.linspace(0.0, 1.0, panels + 1), NODES_T)
        t = low[:, None] + (high - low)[:, None] * unit
        with np.errstate(divide="ignore"):
            log_w = np.log(weight) + np.log(high - low)[:, None]
        share = self.prior.eta(log_expit(t), log_g[:, None])
        return t, log_w + bell(t - self.prior.center) + self._log_of_eta(share)

    def t_total(self) -> FloatArray:
        """Logarithm of the prior's integral over t at each node of log g, (K,) or (1,)."""
        if not (self.bounded or self.flat):
            return logsumexp(self._t_quadrature(self.log_g[:1], 0, 0)[1], axis=1)
        return logsumexp(self._t_quadrature(self.log_g, 0, 0)[1], axis=1)

    def _t_quadrature(self, log_g: FloatArray, m: int | IntArray, n: int) -> tuple[FloatArray, FloatArray]:
        """Nodes for the prior of t times p^m (1 - p)^(n - m)."""
        low, high = self._t_range(log_g)
        peak, width = self._t_peak(log_g, low, high, m, n)
        # Panels that grow with their distance from the peak.
        steps = np.linspace(0.0, 1.0, PANELS_T + 1)
        up, down = (width * np.expm1(np.log1p(reach / width) * steps[:, None]) for reach in (high - peak, peak - low))
        breaks = np.concatenate([peak - down[:0:-1], peak + up]).T
        unit, weight = (np.asarray(part) for part in _legendre(NODES_T))
        half = 0.5 * np.diff(breaks, axis=1)[..., None]
        t = (breaks[:, :-1, None] + half * (unit + 1.0)).reshape(log_g.size, -1)
        with np.errstate(divide="ignore"):
            log_w = np.log((half * weight).reshape(t.shape))
        share = self.prior.eta(log_expit(t), log_g[:, None])
        return t, log_w + bell(t - self.prior.center) + self._log_of_eta(share)

    def _t_peak(
        self, log_g: FloatArray, low: FloatArray, high: FloatArray, m: int | IntArray, n: int
    ) -> tuple[FloatArray, FloatArray]:
        """Where the density is largest, by bisection of its slope, and how fast it falls from there."""
        center, flat = self.prior.center, 0.5 * self.flat
        left, right = low, high
        for _ in range(BISECTIONS):
            t = 0.5 * (left + right)
            p = expit(t)
            share = expit(self.prior.eta(log_expit(t), log_g))
            of_eta = -flat * share + (1.0 - 2.0 * share if self.bounded else 0.0)
            slope = m - n * p + 1.0 - 2.0 * expit(t - center) + (1.0 - p) * of_eta
            left, right = np.where(slope > 0, t, left), np.where(slope > 0, right, t)
        at_low, at_high = left == low, right == high
        curvature = n * p * (1.0 - p) + 2.0 * np.exp(bell(t - center)) + np.where(at_low | at_high, slope**2, 0.0)
        return np.where(at_low, low, np.where(at_high, high, t)), 1.0 / np.sqrt(1.0 + curvature)

    def log_share(self, log_g: FloatArray) -> FloatArray:
        """Log prior density of log g where p does not matter to it: the p_j are given, or v is."""
        given = self.unit_odds is not None
        out = bell(self.prior.scale_at(None if given else self.prior.center, log_g))
        return out + self._log_of_flat(self.prior.eta(np.zeros(1), log_g)) if given else out

    def _log_of_eta(self, share: FloatArray) -> FloatArray:
        """The factors of the density of t that depend on eta at t."""
        return (bell(share) if self.bounded else 0.0) + self._log_of_flat(share)

    def _log_of_flat(self, share: FloatArray) -> FloatArray:
        """``(1 + exp(eta))^(-1/2)`` for each coefficient that is flat in latent units."""
        return np.asarray(0.5 * self.flat * log_expit(-share))

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


def _least_left(problem: Problem, given: Given) -> float:
    """A lower bound of the residual sum of squares: that of all columns, where they cannot explain everything."""
    if problem.d > min(MOST_SOLVED, problem.nu):
        return min(least_left(_regression(problem, given)), UNSEEN * problem.yy)
    fit, *_ = np.linalg.lstsq(problem.block(np.arange(problem.d)), problem.cross, rcond=None)
    return max(problem.yy - float(problem.cross @ fit), 0.0)


def _finer_at_end(problem: Problem, noise_var: float, breaks: FloatArray, panel: float) -> FloatArray:
    """Halve the last panel until the log likelihood does not change by more than some nats in it.

    Where noise is next to nothing the least bound of the share explained is where the posterior may lie. A direction
    of the columns with eigenvalue e and c² to explain adds ``c² / (1 + g e)`` to R; its slope in log g is c² / 4 at
    most.
    """
    least = panel * STEEPEST * 8.0 * noise_var / problem.yy if problem.yy > 0 else np.inf
    left, end = float(breaks[-2]), float(breaks[-1])
    halved = []
    while end - left > least:
        left = 0.5 * (left + end)
        halved.append(left)
    return np.concatenate([breaks[:-1], halved, breaks[-1:]])


def _noise_panels(problem: Problem, slab_var: float, least: float, even: float, panel: float) -> FloatArray:
    """Panels of log g = log v - log s2 where v is given, as wide as s2 can matter and as fine as it is known.

    `least` bounds the residual sum of squares from below. The prior of log g is logistic about `even`. Where all
    that there is to explain is noise, the density of log g falls as ``exp(nu log g / 2)`` times the prior, whose
    slope is at most 1, and -1 only where eta is positive.
    """
    nu, sd = max(problem.nu, 1.0), float(np.sqrt(2.0 / max(problem.nu, 1.0)))
    low, high = np.log(slab_var * nu / np.array([problem.yy, least])).tolist()
    reach = max(NOISE_REACH * sd, TAIL / (0.5 * nu - 1.0)) if nu > 2.0 else np.inf
    far = max(low - reach, min(low, even) - TAIL / (0.5 * nu + 1.0))
    ends = np.array([min(far, low - NOISE_REACH * sd), high + NOISE_REACH * sd])
    return _panels(ends, min(NOISE_PANEL * sd, 1.0) * panel)


def prior_of(problem: Problem, given: Given) -> HyperPrior:
    """The prior of the hyperparameters, where v is learned with eta as far as it has posterior probability."""
    prior = least_prior(problem, given)
    if given.slab_var is not None:
        return prior
    return replace(prior, eta_high=reach_of(prior, _regression(problem, given)).eta_high)


def _regression(problem: Problem, given: Given) -> Regression:
    return Regression(
        problem.cross,
        problem.diag,
        problem.yy,
        problem.nu,
        problem.stacked,
        problem.units,
        given.prior_inclusion,
        given.noise_var,
    )


def least_prior(problem: Problem, given: Given) -> HyperPrior:
    """The same, with eta up to the least bound."""
    return hyper_prior(
        problem.units.n,
        problem.diag,
        problem.n,
        expected_size=given.expected_size,
        given=given.prior_inclusion,
        slab_given=given.slab_var is not None,
        noise_given=given.noise_var is not None,
    )


def grid_of(problem: Problem, given: Given, *, panel: float = 1.0, prior: HyperPrior | None = None) -> Grid:
    """Nodes for a problem.

    Parameters
    ----------
    problem : Problem
    given : Given
    panel : float
        Width of a panel of log g.
    prior : HyperPrior, optional
        That of :func:`prior_of`, if it is known.
    """
    units = problem.units
    p = given.prior_inclusion
    prior = prior or prior_of(problem, given)
    odds, log_none = (None, 0.0) if p is None else _unit_odds(p[units.order[units.start[:-1]]])
    if given.slab_var is not None and given.noise_var is not None:
        log_g, log_weight = np.array([np.log(given.slab_var) - np.log(given.noise_var)]), np.zeros(1)
    else:
        if given.slab_var is not None:
            even = -float(prior.scale_at(prior.center if p is None else None, np.zeros(())))
            least = max(_least_left(problem, given), RESOLVED * problem.yy)
            breaks = _noise_panels(problem, given.slab_var, least, even, panel)
        else:
            log_p = np.zeros(1) if p is not None else log_expit(_steps_of_t(prior))
            ends = np.array([prior.eta_low, prior.eta_high])
            breaks = _panels(np.unique(ends[:, None] - log_p - prior.log_spread), panel)
            if given.noise_var is not None:
                breaks = _finer_at_end(problem, given.noise_var, breaks, panel)
        log_g, weight = composite(breaks, NODES_G)
        log_weight = np.log(weight)
    noise: FloatArray | None = None
    if given.noise_var is not None:
        noise = np.full(log_g.size, float(given.noise_var))
    elif given.slab_var is not None:
        noise = given.slab_var * np.exp(-log_g)
    grid = Grid(log_g, log_weight, noise, prior, units.n, odds, log_none, 0.0, given.slab_var is None, given.flat)
    return _normalised(grid)


def further(grid: Grid, reach: float) -> Grid:
    """The same with nodes at the same distances up to a log g larger by `reach`, where v is given and s2 learned."""
    assert grid.noise_var is not None
    x, _ = _legendre(NODES_G)
    half = float(grid.log_g[-1] - grid.log_g[-NODES_G]) / float(x[-1] - x[0])
    end, panels = float(grid.log_g[-1]) + half * (1.0 - float(x[-1])), int(np.ceil(reach / (2.0 * half)))
    log_g, weight = composite(np.asarray(end + 2.0 * half * np.arange(panels + 1), dtype=np.float64), NODES_G)
    noise_var = grid.noise_var[-1] * np.exp(grid.log_g[-1] - log_g)
    return replace(
        grid,
        log_g=np.append(grid.log_g, log_g),
        log_weight=np.append(grid.log_weight, np.log(weight) + grid.log_share(log_g)),
        noise_var=np.append(grid.noise_var, noise_var),
        tables={},
    )


def _steps_of_t(prior: HyperPrior) -> FloatArray:
    """The bounds of t; where most units are expected, also steps between which log p near 0 varies alike."""
    between = np.arange(0.0, prior.t_high, STEP_T) if prior.center > 0 else np.zeros(0)
    return np.concatenate([[prior.t_low], between, [prior.t_high]])


def _unit_odds(p: FloatArray) -> tuple[FloatArray, float]:
    with np.errstate(divide="ignore"):
        odds = np.log(p) - np.log1p(-p)
    return odds, float(np.log1p(-p[p < 1]).sum())


def _normalised(grid: Grid) -> Grid:
    """The same with the prior of what is learned integrating to one.

    Where v is given and s2 is learned, the nodes do not reach as far as the prior of s2, which integrates to one.
    """
    prior = grid.prior
    if prior.slab_given and prior.scaled:
        grid = replace(grid, log_weight=grid.log_weight + grid.log_share(grid.log_g))
    elif grid.unit_odds is not None and grid.bounded:
        log_weight = grid.log_weight + grid.log_share(grid.log_g)
        grid = replace(grid, log_weight=log_weight - logsumexp(log_weight))
    if grid.unit_odds is not None:
        return grid
    of_t = grid.t_total()
    return replace(grid, log_total=float(logsumexp(of_t + grid.log_weight) if grid.bounded else of_t[0]))


def quantiles_of_t(grid: Grid, sizes: IntArray, nodes: IntArray, uniform: FloatArray) -> FloatArray:
    """The quantiles of t at `uniform`, given the number of units of a set and the node of log g, (S,) all."""
    pairs, of_pair = np.unique(np.column_stack([sizes, nodes]), axis=0, return_inverse=True)
    t, log_w = grid.t_nodes_at(*pairs.T)
    log_mass = log_w + grid.log_set(t, pairs[:, :1])
    own = np.exp(log_mass - log_mass.max(axis=1, keepdims=True))
    # Half of a node's mass lies below it.
    mass = np.cumsum(own, axis=1)
    below, out = mass - 0.5 * own, np.empty(uniform.size)
    order = np.argsort(of_pair.reshape(-1), kind="stable")
    ends = np.cumsum(np.bincount(of_pair.reshape(-1), minlength=len(pairs)))
    for i, which in enumerate(np.split(order, ends[:-1])):
        out[which] = np.interp(uniform[which] * mass[i, -1], below[i], t[i])
    return out
