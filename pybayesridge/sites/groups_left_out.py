r"""Groups of rows predicted from the other rows, at each node of the hyperparameters.

Let eta be the linear functions of a group's sites, N(m, V) given all rows, with sites of precisions w and shifts s.
Write ``V = F F'`` and ``eta = m + F z``: given all rows z is standard normal, and given the others, whose sites stay
as they are, it has the precision and the mean

    M = 1 - F' diag(w) F,   M^-1 F' (w m - s),

in as few coordinates as the rows of the group have. The density of the group's responses is the mean of their
likelihood over that. It is found by points under three normal densities, that of the others, that of all rows, and
that of all rows with the group's sites twice, weighted by the density of their mixture: weights are bounded, whatever
the tails. What the mixture itself varies is taken off by regression on the densities, whose integrals are known (Owen
and Zhou 2000): what is left is how the likelihood differs from the sites. Where points tell too little the value by
the sites' own normalisers stays, which is that of expectation propagation.

That the sites of other rows stay as they are is an approximation. The evidence of the others by expectation
propagation does not change to first order with their sites, but with these rows' own distributions, by
``sum log E[likelihood / site]``. Where these move much the sites are found again without the group, and the
difference of the evidence with and without it counts. Both are looked at for a few of the hyperparameters that the
group's prediction comes from, and their mean is added. Laplace's approximation, whose evidence does change with the
sites, is always made anew there.

Where these few do not agree, as for a group with most of the rows, or where its rows alone keep the columns from
separating the responses, the sites are found again at all hyperparameters, and the density of the group is the
quotient of the evidence with and without it: points say nothing there, since the group lies in the tail of the
others' normal distribution, which is not that of their posterior.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import logsumexp, ndtri

from pybayesridge._types import BoolArray, FloatArray, IntArray
from pybayesridge.late import Late
from pybayesridge.linalg import blas
from pybayesridge.posterior.left_out import (
    FULL_LEVERAGE,
    UNDETERMINED,
    LargeGroupError,
    LeftOut,
    NoDensityError,
    mixed,
)
from pybayesridge.ridge.groups_left_out import Sorted
from pybayesridge.sites.approximation import Approximation
from pybayesridge.sites.arrow import ArrowRows
from pybayesridge.sites.bands import BandsAt
from pybayesridge.sites.ep import expectation_propagation
from pybayesridge.sites.gaussian import Sites
from pybayesridge.sites.laplace import laplace
from pybayesridge.sites.likelihood import Group, RowSites
from pybayesridge.sites.separation import Balance

if TYPE_CHECKING:
    from scipy.stats import qmc
else:
    qmc = Late("scipy.stats.qmc")

SEED = 20260
POINTS = (128, 256, 128)
"""Points under the densities of the others, of all rows, and of all rows with the group twice."""

FEWEST = 100.0
"""With fewer effective points the value by the sites' normalisers stays."""

MOST = 2_000
"""Most coordinates of a group."""

RANK = 1e-13
"""Directions of a relative variance below this are none."""

LEAST_PRECISION = 1e-10
"""Of the others in a direction of the group: rounding errors are larger below, and sites with negative precisions can
leave none at all."""

LEAST_DOUBLED = 0.25
"""Of all rows with the group's sites twice, where precisions are negative."""

NEGLIGIBLE = 1e-9
"""Nodes of smaller weight are left out."""

SMALL = 0.05
"""Where the others' linear functions move by no more, their sites stay as they are: scores were seen to be off by
0.06 times as much at the most."""

CORRECTED = 4
"""Nodes at which that is done for each group."""

AGREED = 0.05
"""Where what is found again there differs by more, all nodes are: scores were off by 0.02 below, by 0.5 above."""

MATTERS = 1e-6
"""Other nodes have a smaller weight, with the group and without it."""

UNSETTLED = 0.01
"""Most weight of nodes at which the approximation, or that of the others, did not settle."""

STILL = 1e-5
"""Functions of others that move by less have nothing to say."""

SLACK, APART = 0.1, 0.2
"""A score is in doubt if sites that are found again change it by more than this and this part of the movement."""

MASS = 0.9
"""Points are looked at where a group's prediction comes from for this part: what they change hardly varies."""

TOL, MAXITER = 1e-4, 200
"""Of the approximation of the others."""


@dataclass(frozen=True, slots=True)
class Halves:
    """Roots of the covariances of the sites' linear functions at a node.

    Attributes
    ----------
    dense : (N, m) array
    level : (N,) int array or None
        Where a factor is eliminated, the level of each; its effects are independent of each other given the rest.
    value : (N,) array or None
        What stands in the column of the level.
    """

    dense: FloatArray
    level: IntArray | None = None
    value: FloatArray | None = None

    @classmethod
    def of(cls, rows: Any, gaussian: Any) -> Halves:
        """From rows in coordinates of unit prior variance and their joint posterior."""
        if not isinstance(rows, ArrowRows):
            return cls(blas.product(rows.rows * rows.units, gaussian.root()))
        m = rows.m
        entry = rows.value * rows.units[m:][rows.level]
        d = gaussian.d[rows.level]
        left = rows.beside * rows.units[:m] - (entry / d)[:, None] * gaussian.cross[rows.level]
        return cls(gaussian._forward(left.T).T, rows.level, entry / np.sqrt(d))  # noqa: SLF001

    def width(self, which: IntArray) -> int:
        """Number of coordinates that some of them depend on."""
        return self.dense.shape[1] + (0 if self.level is None else np.unique(self.level[which]).size)

    def some(self, which: IntArray) -> tuple[FloatArray, IntArray]:
        """The roots of some of them, (k, m + l), and the levels of the last columns."""
        if self.level is None or self.value is None:
            return self.dense[which], np.empty(0, dtype=np.intp)
        levels, at = np.unique(self.level[which], return_inverse=True)
        of_levels = np.zeros((which.size, levels.size))
        of_levels[np.arange(which.size), at] = self.value[which]
        return np.hstack([self.dense[which], of_levels]), levels

    def times(self, directions: FloatArray, levels: IntArray) -> FloatArray:
        """Products of all of them with directions (m + l, c) of the coordinates of some, (N, c)."""
        m = self.dense.shape[1]
        out = blas.product(self.dense, np.ascontiguousarray(directions[:m]))
        if self.level is not None and self.value is not None:
            at = np.minimum(np.searchsorted(levels, self.level), levels.size - 1)
            own = np.where(levels[at] == self.level, self.value, 0.0)
            out = out + own[:, None] * directions[m:][at]
        return out


@dataclass(frozen=True, slots=True)
class Block:
    """The sites of a group in coordinates in which all rows, and the others, have independent distributions.

    Attributes
    ----------
    factor : (k, c) array
        F.
    directions : (m + l, c) array
        Unit vectors in the coordinates of the sites' roots.
    levels : (l,) int array
    precision : (c,) array
        Of the others.
    mean : (c,) array
        Of the others.
    doubled : (c,) array
        Precisions of all rows with the group's sites twice.
    pull : (c,) array
        ``F' (w m - s)``.
    proper : bool
        Whether the others' precision is positive.
    """

    factor: FloatArray
    directions: FloatArray
    levels: IntArray
    precision: FloatArray
    mean: FloatArray
    doubled: FloatArray
    pull: FloatArray
    proper: bool

    @classmethod
    def of(cls, halves: Halves, group: Group, mean: FloatArray, sites: Sites) -> Block:
        """From the roots, the group, and means (N,) and sites of all."""
        at = group.sites
        rows, levels = halves.some(at)
        factor, directions = _principal(rows)
        w, s = group.share * sites.precision[at], group.share * sites.shift[at]
        taken, turn = np.linalg.eigh(factor.T @ (w[:, None] * factor))
        factor, directions = factor @ turn, directions @ turn
        pull = factor.T @ (w * mean[at] - s)
        precision = 1.0 - taken
        proper = bool((precision > LEAST_PRECISION).all())
        precision = np.maximum(precision, LEAST_PRECISION)
        return cls(
            factor,
            directions,
            levels,
            precision,
            pull / precision,
            np.maximum(1.0 + taken, LEAST_DOUBLED),
            pull,
            proper,
        )

    def by_normalisers(self, own: float) -> tuple[float, float]:
        """Log means of the likelihood given the others and given all rows, by what sites are normalised with.

        `own` is the log of the likelihood over the sites that these are normalised with.
        """
        given_others = 0.5 * float(np.log(self.precision).sum()) - 0.5 * float(self.pull @ self.mean)
        given_all = -0.5 * float(np.log(self.doubled).sum()) + 0.5 * float(self.pull**2 @ (1.0 / self.doubled))
        return own + given_others, own + given_all

    def by_points(self, values: Callable[[FloatArray], FloatArray], center: FloatArray) -> ByPoints:
        """Means of the likelihood given the others and given all rows; `center` (k,) are the means of the sites."""
        c = self.precision.size
        base = _points(c)
        ends = np.cumsum(POINTS)[:-1]
        laws = [(self.mean, self.precision), (np.zeros(c), np.ones(c)), (-self.pull / self.doubled, self.doubled)]
        parts = zip(np.split(base, ends), laws, strict=True)
        z = np.concatenate([mean + part / np.sqrt(precision) for part, (mean, precision) in parts])
        logs = np.stack([_log_normal(z, *law) for law in laws])
        log_share = np.log(np.array(POINTS) / sum(POINTS))[:, None]
        mixture = logsumexp(logs + log_share, axis=0)
        likely = values(center + z @ self.factor.T)
        controls = np.exp(logs[:2] - mixture) - 1.0
        mean, error, draws = _mean_of(likely + logs[0] - mixture, controls)
        return ByPoints(mean, _mean_of(likely + logs[1] - mixture, controls)[0], error, draws)


class ByPoints(NamedTuple):
    """Log means of the likelihood given the others and given all, standard error of the first, effective points."""

    left_out: float
    within: float
    error: float
    draws: float


def _principal(rows: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Rows (k, r) in as few orthonormal directions as they span, (k, c), and these, (r, c)."""
    wide = rows.shape[0] <= rows.shape[1]
    values, vectors = np.linalg.eigh(rows @ rows.T if wide else rows.T @ rows)
    keep = values > RANK * max(float(values.max(initial=0.0)), float(np.finfo(float).tiny))
    if not wide:
        return rows @ vectors[:, keep], vectors[:, keep]
    root = np.sqrt(values[keep])
    return vectors[:, keep] * root, rows.T @ (vectors[:, keep] / root)


@cache
def _all_points(c: int) -> FloatArray:
    parts = []
    for i, count in enumerate(POINTS):
        engine = qmc.Sobol(c, seed=np.random.default_rng([SEED, i]))
        parts.append(ndtri(np.clip(engine.random(count), 1e-12, 1.0 - 1e-12)))
    return np.concatenate(parts)


def _points(c: int) -> FloatArray:
    """Standard normal points for each of the densities, (S, c), the same ones in every group."""
    size = 1 << max(c - 1, 0).bit_length()
    # The last directions are those of the largest eigenvalues.
    return _all_points(size)[:, :c]


def _log_normal(z: FloatArray, mean: FloatArray, precision: FloatArray) -> FloatArray:
    """Log density of independent normal variables but for a constant, (S,)."""
    out: FloatArray = 0.5 * float(np.log(precision).sum()) - 0.5 * ((z - mean) ** 2 @ precision)
    return out


def _mean_of(log_weight: FloatArray, controls: FloatArray) -> tuple[float, float, float]:
    """Log of the mean of weights (S,), its standard error, and how many are effective, given controls of mean 0."""
    top = float(log_weight.max())
    if not np.isfinite(top):
        return -np.inf, np.inf, 0.0
    weight = np.exp(log_weight - top)
    draws = float(weight.sum() ** 2 / (weight**2).sum())
    design = np.vstack([np.ones(weight.size), controls]).T
    found = np.linalg.lstsq(design, weight, rcond=None)[0]
    rest = weight - design @ found
    mean = float(found[0])
    if mean <= 0:
        return top + float(np.log(weight.mean())), np.inf, draws
    return top + float(np.log(mean)), float(np.sqrt(rest @ rest) / weight.size / mean), draws


@dataclass(frozen=True, slots=True)
class AtNode:
    """Everything of a node that groups are predicted by.

    Attributes
    ----------
    node : Approximation
    likelihood : RowSites
        With the further parameter and the form of the node.
    rows : Scaled or ArrowRows
    halves : Halves
    expanded : bool
        Whether the sites are an expansion about the mode.
    """

    node: Approximation
    likelihood: RowSites
    rows: Any
    halves: Halves
    expanded: bool

    @classmethod
    def of(cls, node: Approximation, likelihood: RowSites, space: Any, *, expanded: bool) -> AtNode:
        """From the space of the rows at the node."""
        rows = space.scaled(node.log_t2)
        return cls(node, likelihood.of_node(node), rows, Halves.of(rows, node.gaussian(space)), expanded)

    def block(self, rows: IntArray) -> tuple[Group, Block]:
        """The sites of some rows."""
        group = self.likelihood.of_group(rows, self.node.mean)
        return group, Block.of(self.halves, group, self.node.mean, self.node.sites)

    def quotients(self) -> FloatArray:
        """Log of the mean of each function over its site, which is 1 at the mean, (N,); 0 for expansions."""
        node, every = self.node, np.arange(self.node.mean.size)
        if self.expanded:
            return np.zeros(every.size)
        return self.likelihood.log_quotients(every, node.mean, node.variance, node.sites)

    def normalised(self, group: Group, quotients: FloatArray) -> float:
        """The log of a group's likelihood over its sites, from :meth:`quotients`; for expansions its value there."""
        if self.expanded:
            return float(group.values(self.node.mean[None, group.sites])[0])
        return float(group.share @ quotients[group.sites])

    def correction(self, rows: IntArray, quotients: FloatArray) -> tuple[float, bool]:
        """How the log density of a group changes with the others' sites without it; whether these settled."""
        group, block = self.block(rows)
        left = self._left(group)
        first, size = (0.0, np.inf) if self.expanded else self._others(block, left, quotients)
        if size <= SMALL:
            return first, True
        anew, converged = self.by_evidence(rows, group)
        if np.isnan(anew):
            return first, False
        out = anew - block.by_normalisers(self.normalised(group, quotients))[0]
        return out, converged and abs(out - first) <= SLACK + APART * size

    def by_evidence(self, rows: IntArray, group: Group) -> tuple[float, bool]:
        """The log density of a group by the evidence of the others, their sites found again; whether these settled.

        NaN where the others have no approximation.
        """
        node, left = self.node, self._left(group)
        keep = np.flatnonzero(left > 0)
        start = Sites(left[keep] * node.sites.precision[keep], left[keep] * node.sites.shift[keep])
        space, others = _Others(_some(self.rows, keep)), self.likelihood.without(rows)
        try:
            if self.expanded:
                found = laplace(space, others, node.log_t2, None, tol=TOL, maxiter=MAXITER)
            else:
                found = expectation_propagation(
                    space, others, node.log_t2, start, tol=TOL, maxiter=MAXITER, windows=node.windows
                )
        except FloatingPointError:
            return np.nan, False
        return node.log_evidence - found.log_evidence, found.converged

    def _left(self, group: Group) -> FloatArray:
        """What is left of the sites without a group, (N,)."""
        left = np.ones(self.node.mean.size)
        left[group.sites] -= group.share
        return left

    def _others(self, block: Block, left: FloatArray, quotients: FloatArray) -> tuple[float, float]:
        """How much the others' own part of the log evidence falls without the group, their sites as they are.

        And how far their linear functions move: the sum of squares in units of what the sites say of them.
        """
        node = self.node
        along = self.halves.times(block.directions, block.levels)
        moved, widened = along @ block.mean, along**2 @ (1.0 / block.precision - 1.0)
        bend = np.abs(node.sites.precision)
        size = left * (bend * moved**2 + 0.5 * (bend * widened) ** 2)
        which = np.flatnonzero(size > STILL)
        center = node.mean + moved
        found = self.likelihood.log_quotients(which, center, node.variance + widened, node.sites)
        before, after = (_log_sites(node.sites, each) for each in (node.mean, center))
        fall = quotients[which] - before[which] - (found - after[which])
        return float(left[which] @ fall), float(size.sum())


def _log_sites(sites: Sites, at: FloatArray) -> FloatArray:
    """Logs of the sites' factors, (N,)."""
    out: FloatArray = at * (sites.shift - 0.5 * sites.precision * at)
    return out


@dataclass(frozen=True, slots=True)
class _Others:
    """The rows that stay; see :class:`pybayesridge.sites.coordinates.Space`."""

    rows: Any

    def scaled(self, log_t2: float) -> Any:
        """The rows, which are those at this t2."""
        return self.rows

    def keeps(self, size: int) -> bool:
        """No."""
        return False


def _some(rows: Any, keep: IntArray) -> Any:
    """Some of the rows."""
    if isinstance(rows, ArrowRows):
        beside = np.asfortranarray(rows.beside[keep])
        return replace(rows, level=rows.level[keep], value=rows.value[keep], beside=beside)
    return replace(rows, rows=np.asfortranarray(rows.rows[keep]))


def groups_left_out(
    likelihood: RowSites,
    nodes: Sequence[Approximation],
    weight: FloatArray,
    space: Callable[[int], Any],
    codes: IntArray,
    *,
    expanded: bool,
) -> LeftOut:
    """Predictions of each group of rows from the other rows, by a mixture of nodes.

    Parameters
    ----------
    likelihood : RowSites
    nodes : sequence of K approximations
    weight : (K,) array
        Posterior weights of the nodes.
    space : callable
        Of the position of a node: the space of the rows there.
    codes : (n,) int array
        The group of each row, numbers from 0 of which each occurs.
    expanded : bool
        Whether sites are an expansion about the mode, as Laplace's approximation has them.

    Returns
    -------
    LeftOut
        With an entry for each group.

    Raises
    ------
    NoDensityError
        For a group that has none, by its position.
    LargeGroupError
        For a group with more coordinates than are taken together.
    """
    groups = Sorted.of(codes)
    members = [groups.order[part] for part in groups.slices]
    alone = np.array([rows.size == 1 and likelihood.copies[rows[0]] == 1 for rows in members])
    singles, several = groups.order[np.repeat(alone, groups.sizes)], np.flatnonzero(~alone)
    keep = np.flatnonzero(weight > NEGLIGIBLE)
    weight = weight[keep] / weight[keep].sum()
    kept, lost = [nodes[i] for i in keep.tolist()], 0.0
    if likelihood.modes_first and not expanded and isinstance(space(0), BandsAt):
        kept = [_by_ep(node, likelihood, space(i)) for node, i in zip(kept, keep.tolist(), strict=True)]
        lost = float(weight @ [not node.converged for node in kept])

    def at(k: int) -> AtNode:
        return AtNode.of(kept[k], likelihood, space(int(keep[k])), expanded=expanded)

    _check(at(0), members)
    none = np.empty(0)
    left_out, within = np.empty((2, keep.size, len(members)))
    proper = np.ones(left_out.shape, dtype=bool)
    for k in range(keep.size):
        here = at(k)
        if singles.size:
            left_out[k, alone] = here.likelihood.left_out_at(here.node).log_score[singles]
            within[k, alone] = here.likelihood.log_density_over(here.node.mean, here.node.variance)[singles]
        quotients = here.quotients() if several.size else none
        for g in several.tolist():
            group, block = here.block(members[g])
            left_out[k, g], within[k, g] = block.by_normalisers(here.normalised(group, quotients))
            proper[k, g] = block.proper
    share = _shares(weight, left_out)
    looked_at = _most(share) | _most(_shares(weight, -within))
    looked_at[:, alone] = False
    gaps, error, draws = np.zeros((2, *left_out.shape)), np.zeros(left_out.shape), np.full(left_out.shape, np.inf)
    changes, settled = np.full(left_out.shape, np.nan), np.full(len(members), lost < UNSETTLED)
    anew = _spread(share, left_out)
    anew[:, alone] = 0
    for k in np.flatnonzero(looked_at.any(axis=1) | anew.any(axis=1)).tolist():
        here = at(k)
        quotients = here.quotients() if anew[k].any() else none
        for g in np.flatnonzero(anew[k]).tolist():
            changes[k, g], good = here.correction(members[g], quotients)
            settled[g] &= good
        for g in np.flatnonzero(looked_at[k]).tolist():
            group, block = here.block(members[g])
            found = block.by_points(group.values, here.node.mean[group.sites])
            error[k, g], draws[k, g] = found.error, found.draws if proper[k, g] else 0.0
            if found.draws >= FEWEST:
                gaps[:, k, g] = found.left_out - left_out[k, g], found.within - within[k, g]
    # What nodes have in common that were looked at, the others have too.
    own = np.where(looked_at, share, 0.0)
    own = own / np.where(alone, 1.0, own.sum(axis=0))
    left_out += np.where(looked_at, gaps[0], (own * gaps[0]).sum(axis=0))
    within += np.where(looked_at, gaps[1], (own * gaps[1]).sum(axis=0))
    # Weights without the group are over its density: the harmonic mean of what this is multiplied by.
    correction, apart = np.zeros(len(members)), []
    for g in several.tolist():
        some = np.flatnonzero(anew[:, g])
        correction[g] = -logsumexp(-changes[some, g], b=anew[some, g] / CORRECTED)
        if np.ptp(changes[some, g]) > AGREED:
            apart.append(g)
    found_draws = np.where(alone, np.inf, (own * np.where(looked_at, draws, 0.0)).sum(axis=0))
    mcse, before = (own * error).sum(axis=0), mixed(weight, left_out, within).log_density
    left_out += correction
    if apart:
        left_out[:, apart], there = _everywhere(at, [members[g] for g in apart], weight, left_out[:, apart])
        settled[apart] &= there
        found_draws[apart], mcse[apart] = np.inf, 0.0
    out = mixed(weight, left_out, within)
    constants = np.bincount(codes, likelihood.copies * likelihood.log_constants())
    return replace(
        out,
        log_density=out.log_density + constants,
        within=out.within + constants,
        mcse=mcse,
        draws=np.where(settled, found_draws, 0.0),
        correction=out.log_density - before,
    )


def _by_ep(node: Approximation, likelihood: RowSites, space: Any) -> Approximation:
    """A node by expectation propagation, whose sites may be those of a quadrature over the effects of levels.

    The node itself, as not converged, where sites do not settle.
    """
    try:
        own = likelihood.of_node(node)
        found = expectation_propagation(space, own, node.log_t2, node.sites, tol=TOL, maxiter=MAXITER)
    except FloatingPointError:
        return replace(node, converged=False)
    return replace(
        found if found.converged else node, converged=found.converged, log_shape=node.log_shape, form=node.form
    )


def _everywhere(
    at: Callable[[int], AtNode], members: Sequence[IntArray], weight: FloatArray, known: FloatArray
) -> tuple[FloatArray, BoolArray]:
    """Log densities of groups by the evidence of the others at all nodes that matter, (K, G); which of them settled.

    `known` (K, G) are those of the other nodes, and of nodes where the others have no approximation.
    """
    out, good = known.copy(), np.ones(known.shape, dtype=bool)
    matters = np.maximum(weight[:, None], _shares(weight, known)) > MATTERS
    for k in np.flatnonzero(matters.any(axis=1)).tolist():
        here = at(k)
        for g in np.flatnonzero(matters[k]).tolist():
            found, good[k, g] = here.by_evidence(members[g], here.block(members[g])[0])
            out[k, g] = known[k, g] if np.isnan(found) else found
    return out, (_shares(weight, out) * ~good).sum(axis=0) < UNSETTLED


def _shares(weight: FloatArray, left_out: FloatArray) -> FloatArray:
    """Weights (K,) over densities, of which the logs are (K, G), scaled to sum to 1."""
    ratio = np.log(weight)[:, None] - left_out
    out: FloatArray = np.exp(ratio - logsumexp(ratio, axis=0))
    return out


def _most(share: FloatArray) -> BoolArray:
    """The largest of the shares (K, G), which make up most of the sum."""
    order = np.argsort(-share, axis=0)
    before = np.cumsum(np.take_along_axis(share, order, axis=0), axis=0) - np.take_along_axis(share, order, axis=0)
    out = np.zeros(share.shape, dtype=bool)
    np.put_along_axis(out, order, before < MASS, axis=0)
    return out


def _spread(share: FloatArray, left_out: FloatArray) -> IntArray:
    """How often each node is one of the few that stand for all, (K, G): at quantiles of what it says of the group."""
    out = np.zeros(share.shape, dtype=np.intp)
    middles = (np.arange(CORRECTED) + 0.5) / CORRECTED
    for g in range(share.shape[1]):
        order = np.argsort(left_out[:, g], kind="stable")
        at = np.searchsorted(np.cumsum(share[order, g]), middles)
        np.add.at(out[:, g], order[np.minimum(at, order.size - 1)], 1)
    return out


def flat_columns(rows: Any) -> FloatArray:
    """The unpenalised columns at the sites, (N, k)."""
    return np.asarray((rows.beside if isinstance(rows, ArrowRows) else rows.rows)[:, : rows.k])


def _check(at: AtNode, members: Sequence[IntArray]) -> None:
    """Refuse groups without which flat coordinates are not determined, and groups that are too large."""
    rows = at.rows
    flat = flat_columns(rows)
    q = np.linalg.qr(flat)[0] if rows.k else flat
    groups = [at.likelihood.of_group(rows_of, at.node.mean) for rows_of in members]
    balance = Balance.of(at.node, at.likelihood, flat)
    needed = balance.needed_parts(members) if rows.k else []
    for g, (rows_of, group) in enumerate(zip(members, groups, strict=True)):
        own = q[group.sites[group.share >= 1.0]]
        if own.size and np.linalg.norm(own, 2) ** 2 >= 1.0 - FULL_LEVERAGE:
            raise NoDensityError(g, UNDETERMINED)
        if g in needed:
            raise NoDensityError(g, balance.reason(rows_of, at.likelihood.without(rows_of)))
        if min(group.sites.size, at.halves.width(group.sites)) > MOST:
            raise LargeGroupError(g, rows_of.size, MOST)
