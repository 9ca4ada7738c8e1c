"""Posteriors in which the effects of a group's levels are integrated out by quadrature, each by itself.

Rows of a level may contradict each other where tails are heavy: either a row is an outlier or its level is. Its
effect then has a posterior with two tops, of which expectation propagation, row by row, gets neither the evidence nor
the variance right, or does not settle. Given the other coefficients c the effects of the levels are independent:

    p(c | y) ~ p(c) prod_g f_g(c),    f_g(c) = int N(u; 0, I) prod_(i in g) L_i(x_i c + a_i u) du,

the f_g by the trapezoidal rule, in one dimension, or in two where a level has an intercept and a slope that are
correlated. Of c there are few: their moments are sums over fixed points about a normal
approximation, with nearly equal ratios of the two densities. The result is the normal distribution that gives the
coefficients their means, and the linear predictor of each row its variance.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse
from scipy.linalg import pinvh
from scipy.special import ndtri

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.late import Late
from pybayesridge.linalg import blas
from pybayesridge.sites.approximation import Approximation
from pybayesridge.sites.bands import BandsAt, BandSpace
from pybayesridge.sites.coordinates import Scaled
from pybayesridge.sites.ep import compact
from pybayesridge.sites.gaussian import Gaussian, Sites, combine, prior_slope
from pybayesridge.sites.likelihood import Likelihood

if TYPE_CHECKING:
    from scipy.stats import qmc
else:
    qmc = Late("scipy.stats.qmc")

MOST_OTHERS, MOST_ROWS = 10, 64
"""Most coefficients beside the effects, and most rows of a level."""

SMALL = 6.0
"""Where levels have more rows than this on average, expectation propagation is accurate, and takes less time than
points without a product rule."""

RULES, POINTS = (12, 9, 6, 4), 32
"""Nodes of a product rule for one to four of these; of more, points for each, rounded up to a power of two."""

SPREAD_OUT, ROUNDS = 0.7, 3
"""Effective part of the points from which they are enough; others follow about what they have found, so often. Where
there is no product rule they follow once at the least: variances are right that are nearly those of the points."""

LEAST_EFFECTIVE = 0.3
"""Effective part of the last points with which nothing is found."""

STEP, OF_PAIRS, EDGE, DROP = 1.2, 1.5, 6.0, 16.0
"""Spacing of the nodes of effects, and of those in two dimensions, in standard deviations where the likelihood bends
most; the range that is looked at, in prior standard deviations; and the fall of the log density at which it ends."""

AROUND = 3.0
"""So many standard deviations of the other coefficients are added to the range."""

MOST_NODES = 4000
"""Most nodes with which the range is looked for."""

MOST_PAIRS = 1 << 20
"""The same in two dimensions, of all levels, times their rows."""

CHUNK = 1 << 20
"""Most linear predictors at once."""

SAME, MAXITER = 1e-3, 40
"""Accuracy of the standard deviations that sites give to rows, relative to these, and most steps towards them."""

ROUGH = 0.01
"""With a larger difference nothing is found."""

RIDGE, LEAST_RIDGE, MOST_RIDGE, CHANGE = 1e-2, 1e-6, 1e6, 10.0
"""Ridge of the first step, relative to the diagonal, its bounds, and the factor by which it changes."""


@cache
def _points(size: int) -> tuple[FloatArray, FloatArray]:
    """Points (S, size) and weights (S,) for means over a standard normal density."""
    if size <= len(RULES):
        node, weight = np.polynomial.hermite_e.hermegauss(RULES[size - 1])
        at = np.stack(np.meshgrid(*[node] * size), axis=-1).reshape(-1, size)
        product = np.stack(np.meshgrid(*[weight / weight.sum()] * size), axis=-1).reshape(-1, size).prod(axis=1)
        return at, product
    drawn = ndtri(qmc.Sobol(size, seed=1).random(1 << (POINTS * size - 1).bit_length()))
    drawn -= drawn.mean(axis=0)
    out: FloatArray = np.linalg.solve(np.linalg.cholesky(drawn.T @ drawn / len(drawn)), drawn.T).T
    return out, np.full(len(out), 1.0 / len(out))


@dataclass(frozen=True, slots=True)
class Levels:
    """The rows of a group's levels, each of which has q effects, one or two.

    Attributes
    ----------
    term : int
        Position of the term whose levels they are.
    order : (n,) int array
        Rows, those of a level together.
    start : (G,) int array
        Where the levels begin among these.
    which : (n,) int array
        The level of each of these.
    value : (n, q) array
        What multiplies the effects in each of these, on the scale of the prior.
    columns : (q, G) int array
        Coordinates of the effects.
    others : (m,) int array
        The other coordinates, the k flat ones first.
    taken : (k, q, G) array
        What the flat coordinates take from the columns of the effects.
    inverse : (r, r) array
        Of the cross-products of all columns.
    """

    term: int
    order: IntArray
    start: IntArray
    which: IntArray
    value: FloatArray
    columns: IntArray
    others: IntArray
    taken: FloatArray
    inverse: FloatArray

    @classmethod
    def of(cls, space: object) -> Levels | None:
        """Those of the group with most levels, if few coefficients are left beside it; else None."""
        if not isinstance(space, BandSpace) or not space.design.in_memory:
            return None
        terms = space.terms.columns
        few = [t for t, each in enumerate(terms) if len(each) <= 2]
        if not few:
            return None
        term = max(few, key=lambda t: terms[t].shape[1])
        columns = terms[term]
        small = space.n <= SMALL * columns.shape[1]
        most = MOST_OTHERS if small else len(RULES)
        if not 0 < space.rows.shape[1] - columns.size <= most:
            return None
        design, k = space.design, space.k
        own = [
            sparse.csc_matrix(design.x[:, design.columns[each]], dtype=np.float64) / design.scale[each]
            for each in columns
        ]
        there = sparse.csr_matrix(sum(abs(each) for each in own))
        there.eliminate_zeros()
        if (np.diff(there.indptr) != 1).any() or np.bincount(there.indices).max(initial=0) > MOST_ROWS:
            return None
        order = np.argsort(there.indices, kind="stable")
        level = there.indices[order]
        start = np.r_[0, np.flatnonzero(np.diff(level)) + 1]
        which = np.repeat(np.arange(start.size), np.diff(np.r_[start, level.size]))
        values, columns = [each.toarray()[:, level[start]] for each in own], k + columns[:, level[start]]
        away = np.hstack(values) - space.rows[:, columns.ravel()]
        taken = np.asarray(np.linalg.lstsq(space.rows[:, :k], away, rcond=None)[0], dtype=np.float64)
        others = np.setdiff1d(np.arange(space.rows.shape[1]), columns)
        inverse = pinvh(blas.product(space.rows, space.rows, transpose_a=True))
        value = np.column_stack([each[order, which] for each in values])
        return cls(term, order, start, which, value, columns, others, taken.reshape((k, *columns.shape)), inverse)

    def blocks(self) -> tuple[IntArray, FloatArray]:
        """Rows of each level (G, M), among the ordered ones, and 0 where there are fewer, else 1."""
        size = np.diff(np.r_[self.start, self.which.size])
        within = np.arange(size.max())
        some = (within < size[:, None]).astype(float)
        return np.minimum(self.start[:, None] + within, self.which.size - 1), some


def by_levels(levels: Levels, node: Approximation, own: BandsAt, likelihood: Likelihood) -> Approximation | None:
    """A node with evidence and moments by quadrature over the effects of the levels; None if that fails."""
    try:
        return _by_levels(levels, node, own, likelihood)
    except (FloatingPointError, np.linalg.LinAlgError):
        return None


def _by_levels(levels: Levels, node: Approximation, own: BandsAt, likelihood: Likelihood) -> Approximation | None:
    given = Given.of(levels, own, node.log_t2, likelihood)
    rows = given.rows
    raised = np.maximum(node.sites.precision, 0.0)
    sites = Sites(raised, node.sites.shift + (raised - node.sites.precision) * node.mean)
    middle, root = given.others_of(combine(rows, sites))
    found: Moments | None = None
    for past in range(ROUNDS):
        found = given.moments(middle, root)
        if found is None or (found.effective >= SPREAD_OUT and (past or middle.size <= len(RULES))):
            break
        middle, root = found.middle, found.root
    if found is None or not found.effective >= LEAST_EFFECTIVE:
        return None
    fitted = matched(given, raised, found.variance)
    if fitted is None or not fitted.change <= ROUGH:
        return None
    sites = given.with_mean(fitted.precision, found)
    gaussian = combine(rows, sites)
    mean, variance = rows.times(gaussian.mean), gaussian.variances(rows)
    return replace(
        node,
        sites=sites,
        mean=mean,
        variance=variance,
        log_evidence=found.log_evidence,
        converged=True,
        n_iter=fitted.n_iter,
        change=fitted.change,
        start=compact(sites, likelihood.signed_unit),
        slope=prior_slope(gaussian, rows.k, sites, variance),
        center=rows.units * gaussian.mean,
        joint=None,
    )


@dataclass(frozen=True, slots=True)
class Moments:
    """What points say.

    Attributes
    ----------
    log_evidence : float
    variance : (n,) array
        Of the linear predictors of the rows.
    middle : (m,) array
        Means of the other coefficients.
    root : (m, m) array
        Of their covariance.
    effects : (q, G) array
        Means of the effects.
    effective : float
        Effective part of the points.
    """

    log_evidence: float
    variance: FloatArray
    middle: FloatArray
    root: FloatArray
    effects: FloatArray
    effective: float


@dataclass(frozen=True, slots=True)
class Given:
    """The effects given the other coefficients.

    Attributes
    ----------
    levels : Levels
    own : BandsAt
    rows : Scaled
    likelihood : Likelihood
        Of the ordered rows.
    others : (n, m) array
        What multiplies the other coefficients in the ordered rows.
    value : (n, q) array
        What multiplies the effects, of unit prior variance, in these.
    take : (m, k + r) array
        The other coefficients, the columns of the effects being whole, as functions of the coordinates.
    block, some : (G, M) arrays
        Rows of each level among the ordered ones, and 0 where there are fewer, else 1.
    """

    levels: Levels
    own: BandsAt
    rows: Scaled
    likelihood: Likelihood
    others: FloatArray
    value: FloatArray
    take: FloatArray
    block: IntArray
    some: FloatArray

    @classmethod
    def of(cls, levels: Levels, own: BandsAt, log_t2: float, likelihood: Likelihood) -> Given:
        """In coordinates of unit prior variance."""
        rows, order = own.scaled(log_t2), levels.order
        factor = np.exp(0.5 * log_t2) * own.factors[levels.term]
        others = rows.rows[order][:, levels.others] * rows.units[levels.others]
        take = np.zeros((levels.others.size, rows.units.size))
        take[np.arange(len(take)), levels.others] = 1.0
        take[: rows.k, levels.columns] -= np.einsum("kig,ij->kjg", levels.taken, factor)
        value = levels.value @ factor
        return cls(levels, own, rows, likelihood.rows(order), others, value, take, *levels.blocks())

    def others_of(self, gaussian: Gaussian) -> tuple[FloatArray, FloatArray]:
        """Mean (m,) of the other coefficients, and a root (m, m) of their covariance."""
        half = self.take @ gaussian.root()
        root = np.asarray(np.linalg.cholesky(half @ half.T), dtype=np.float64)
        return self.take @ gaussian.mean, root

    def with_mean(self, precision: FloatArray, found: Moments) -> Sites:
        """Sites with these precisions (n,) and the means of a posterior."""
        rows, k, levels = self.rows, self.rows.k, self.levels
        mean = np.zeros(rows.units.size)
        mean[levels.others], mean[levels.columns] = found.middle, found.effects
        mean[:k] -= np.einsum("kjg,jg->k", self.take[:k, levels.columns], found.effects)
        pulled = mean.copy()
        pulled[:k] = 0.0
        # At the mean the slopes of the sites add up to what the prior pulls.
        slope = self.own.space.rows @ (levels.inverse @ self.own.pulled(pulled))
        return Sites(precision, slope + precision * rows.times(mean))

    def moments(self, middle: FloatArray, root: FloatArray) -> Moments | None:
        """The moments by points about the middle; None if there would be too many nodes."""
        z, base = _points(middle.size)
        at, effects = middle + z @ root.T, (Lines if self.value.shape[1] == 1 else Planes).of(self, middle, root)
        if effects is None:
            return None
        size = max(1, CHUNK // effects.size)
        parts = [effects.given(at[first : first + size]) for first in range(0, len(at), size)]
        heights, of_effects, covariances = (np.concatenate(each) for each in zip(*parts, strict=True))
        u = at[:, self.rows.k :]
        of_prior = -0.5 * (u**2).sum(axis=1) - 0.5 * u.shape[1] * np.log(2 * np.pi)
        of_points = -0.5 * (z**2).sum(axis=1) - 0.5 * z.shape[1] * np.log(2 * np.pi)
        ratio = heights + of_prior - of_points + np.log(np.diag(root)).sum()
        top = ratio.max()
        ratio = np.exp(ratio - top)
        total = base @ ratio
        weight = base * ratio / total
        which, order = self.levels.which, self.levels.order
        eta = at @ self.others.T
        for value, mean in zip(self.value.T, np.moveaxis(of_effects, 1, 0), strict=True):
            eta += value * mean[:, which]
        covariance = np.tensordot(weight, covariances, axes=1)[:, :, which]
        inside = np.einsum("ni,ijn,nj->n", self.value, covariance, self.value)
        variance = np.empty(order.size)
        variance[order] = weight @ (eta - weight @ eta) ** 2 + inside
        new = weight @ at
        away = at - new
        square = away.T @ (away * weight[:, None])
        effective = float(total**2 / (base @ ratio**2))
        # Of few effective points the covariance is a rank too low.
        wider = np.linalg.cholesky(square + (1.0 - effective) ** 2 * root @ root.T)
        means = np.tensordot(weight, of_effects, axes=1)
        return Moments(float(top + np.log(total)), variance, new, wider, means, effective)


@dataclass(frozen=True, slots=True)
class Lines:
    """Nodes for one effect of each level.

    Attributes
    ----------
    of_levels : Given
    low, high : (G,) arrays
        Where the densities of the effects are.
    count : int
        Of nodes.
    """

    of_levels: Given
    low: FloatArray
    high: FloatArray
    count: int

    @classmethod
    def of(cls, given: Given, middle: FloatArray, root: FloatArray) -> Lines | None:
        """Where the other coefficients have this mean (m,) and this root (m, m) of their covariance."""
        start, value = given.levels.start, given.value[:, 0]
        step = STEP / np.sqrt(1.0 + np.add.reduceat(value**2 * given.likelihood.largest_curvature(), start))
        if not step.min() > 2 * EDGE / MOST_NODES:
            return None
        u = np.linspace(-EDGE, EDGE, int(np.ceil(2 * EDGE / step.min())) + 1)
        eta = given.others @ middle + u[:, None] * value
        density = np.add.reduceat(given.likelihood.values(eta), start, axis=1) - 0.5 * u[:, None] ** 2
        above = density > density.max(axis=0) - DROP
        first, last = above.argmax(axis=0), u.size - 1 - above[::-1].argmax(axis=0)
        moved = np.sqrt(((given.others @ root) ** 2).sum(axis=1)) / np.abs(value)
        around = AROUND * np.maximum.reduceat(moved, start)
        low, high = u[np.maximum(first - 1, 0)] - around, u[np.minimum(last + 1, u.size - 1)] + around
        low, high = np.maximum(low, -EDGE), np.minimum(high, EDGE)
        return cls(given, low, high, int(np.ceil(((high - low) / step).max())) + 2)

    @property
    def size(self) -> int:
        """Linear predictors for each point."""
        return self.count * len(self.of_levels.value)

    def given(self, at: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Sums of log f_g (S,); means (S, q, G) and covariances (S, q, q, G) given the other coefficients (S, m)."""
        given, count, low, high = self.of_levels, self.count, self.low, self.high
        u = low + (high - low) * np.linspace(0.0, 1.0, count)[:, None]
        eta = (at @ given.others.T)[:, None] + given.value[:, 0] * u[:, given.levels.which]
        density = np.add.reduceat(given.likelihood.values(eta), given.levels.start, axis=2)
        density -= 0.5 * u**2 + 0.5 * np.log(2 * np.pi)
        top = density.max(axis=1)
        weight = np.exp(density - top[:, None])
        total = weight.sum(axis=1)
        weight /= total[:, None]
        mean = np.einsum("sug,ug->sg", weight, u)
        variance = np.einsum("sug,ug->sg", weight, u**2) - mean**2
        height = (top + np.log(total * (high - low) / (count - 1))).sum(axis=1)
        return height, mean[:, None], np.maximum(variance, 0.0)[:, None, None]


@dataclass(frozen=True, slots=True)
class Planes:
    """Nodes for two effects of each level: those of a square lattice where the likelihood bends as it does most.

    Attributes
    ----------
    of_levels : Given
    nodes : (T, 2) array
        Those of a level together.
    start : (G,) int array
        Where the levels begin among these.
    first, rows, shift : (T,) int array, (E,) int array, (E,) array
        Of each node the position of its first row among the E rows of all nodes; these; and what the effects add to
        their linear predictors.
    log_area : float
        Sum of the logs of the areas for which the nodes of the levels stand.
    """

    of_levels: Given
    nodes: FloatArray
    start: IntArray
    first: IntArray
    rows: IntArray
    shift: FloatArray
    log_area: float

    @classmethod
    def of(cls, given: Given, middle: FloatArray, root: FloatArray) -> Planes | None:
        """Where the other coefficients have this mean (m,) and this root (m, m) of their covariance."""
        bend = given.likelihood.largest_curvature()[:, None, None] * given.value[:, :, None] * given.value[:, None]
        total = np.eye(2) + np.add.reduceat(bend, given.levels.start)
        half = np.asarray(np.linalg.cholesky(total), dtype=np.float64)
        areas = OF_PAIRS**2 / (half[:, 0, 0] * half[:, 1, 1])
        sizes = np.diff(np.r_[given.levels.start, given.levels.which.size])
        if not (np.pi * EDGE**2 / areas) @ sizes <= MOST_PAIRS:
            return None
        level, nodes = _lattices(half)
        whole = cls._of(given, level, nodes, float(np.log(areas).sum()))
        # Nodes that matter somewhere among the likely values of the other coefficients.
        places = np.vstack([middle, middle + AROUND * root.T, middle - AROUND * root.T])
        density = whole.log_density(places)
        top = np.maximum.reduceat(density, whole.start, axis=1)
        keep = (density > top[:, level] - DROP).any(axis=0)
        return cls._of(given, level[keep], nodes[keep], whole.log_area)

    @classmethod
    def _of(cls, given: Given, level: IntArray, nodes: FloatArray, log_area: float) -> Planes:
        """Nodes (T, 2) of levels (T,)."""
        begin, stop = given.levels.start[level], np.r_[given.levels.start[1:], given.levels.which.size][level]
        ends = np.cumsum(stop - begin)
        first = ends - (stop - begin)
        rows = np.arange(ends[-1]) + np.repeat(begin - first, stop - begin)
        shift = (given.value[rows] * np.repeat(nodes, stop - begin, axis=0)).sum(axis=1)
        return cls(given, nodes, np.r_[0, np.flatnonzero(np.diff(level)) + 1], first, rows, shift, log_area)

    @property
    def size(self) -> int:
        """Linear predictors for each point."""
        return self.rows.size

    def log_density(self, at: FloatArray) -> FloatArray:
        """Logs of likelihood times prior at the nodes given the other coefficients, (S, T)."""
        given = self.of_levels
        out = given.likelihood.sums(at @ given.others.T, self.rows, self.shift, self.first)
        out -= 0.5 * (self.nodes**2).sum(axis=1) + np.log(2 * np.pi)
        return out

    def given(self, at: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Sums of log f_g (S,); means (S, q, G) and covariances (S, q, q, G) given the other coefficients (S, m)."""
        density = self.log_density(at)
        top = np.maximum.reduceat(density, self.start, axis=1)
        which = np.repeat(np.arange(self.start.size), np.diff(np.r_[self.start, len(self.nodes)]))
        weight = np.exp(density - top[:, which])
        total = np.add.reduceat(weight, self.start, axis=1)
        height = (top + np.log(total)).sum(axis=1) + self.log_area
        u, v = self.nodes.T
        sums = [np.add.reduceat(weight * each, self.start, axis=1) / total for each in (u, v, u * u, u * v, v * v)]
        mean = np.stack(sums[:2], axis=1)
        square = np.stack([sums[2], sums[3], sums[3], sums[4]], axis=1).reshape(len(at), 2, 2, -1)
        return height, mean, square - mean[:, :, None] * mean[:, None]


def _lattices(half: FloatArray) -> tuple[IntArray, FloatArray]:
    """Levels (T,) of nodes (T, 2), which times the roots (G, 2, 2) are a square lattice, within the prior's range."""
    level, nodes = [], []
    for g, root in enumerate(half):
        wide = np.floor(EDGE * np.linalg.norm(root, axis=0) / OF_PAIRS)
        at = np.stack(np.meshgrid(*[OF_PAIRS * np.arange(-w, w + 1) for w in wide], indexing="ij"), axis=-1).reshape(
            -1, 2
        )
        u = np.linalg.solve(root.T, at.T).T
        nodes.append(u[(u**2).sum(axis=1) <= EDGE**2])
        level.append(np.full(len(nodes[-1]), g))
    return np.concatenate(level), np.concatenate(nodes)


def matched(given: Given, start: FloatArray, variance: FloatArray) -> Matched | None:
    """The sites that give rows such variances; None if that fails.

    Their precisions maximise the log determinant of the posterior precision less the sum of precisions times
    variances, which is concave: by Newton's method, with a ridge that grows where the function falls.

    Parameters
    ----------
    given : Given
    start : (n,) array
        Precisions with which there is a posterior.
    variance : (n,) array
    """
    at, ridge, best = start, RIDGE, None
    for step in range(1, MAXITER + 1):
        n_iter = step
        new = _Fitted.of(given, at, variance)
        if new is not None and (best is None or new.height > best.height):
            best, ridge = new, max(ridge / CHANGE, LEAST_RIDGE)
            if best.change <= SAME:
                break
        elif best is None or ridge > MOST_RIDGE:
            break
        else:
            ridge *= CHANGE
        at = best.precision + best.step(given, ridge)
    return None if best is None else Matched(best.precision, best.change, n_iter)


@dataclass(frozen=True, slots=True)
class Matched:
    """Precisions of sites, the largest relative difference of the standard deviations, and the number of steps."""

    precision: FloatArray
    change: float
    n_iter: int


@dataclass(frozen=True, slots=True)
class _Fitted:
    """A posterior by its sites.

    Attributes
    ----------
    precision : (n,) array
    height : float
        What is to be maximised.
    half : (n, r) array
        Roots of the covariances of the rows.
    of_others : (n, m) array
        Likewise of that part which rows of different levels have in common.
    excess : (n,) array
        Variances less those that are looked for.
    change : float
    """

    precision: FloatArray
    height: float
    half: FloatArray
    of_others: FloatArray
    excess: FloatArray
    change: float

    @classmethod
    def of(cls, given: Given, precision: FloatArray, variance: FloatArray) -> _Fitted | None:
        """With such precisions; None where there is none."""
        rows = given.rows
        try:
            gaussian = combine(rows, Sites(precision, np.zeros(precision.size)))
        except FloatingPointError:
            return None
        root = gaussian.root()
        half, others = rows.rows @ (root * rows.units[:, None]), given.take @ root
        of_others = np.linalg.solve(np.linalg.cholesky(others @ others.T), others @ half.T).T
        excess = np.einsum("ij,ij->i", half, half) - variance
        height = 2.0 * gaussian.log_root - float(precision @ variance)
        return cls(precision, height, half, of_others, excess, 0.5 * float(np.abs(excess / variance).max()))

    def step(self, given: Given, ridge: float) -> FloatArray:
        """The change of the precisions.

        The squared covariances of the rows are those within levels, and the squares of what the other coefficients
        make, which have a low rank: ``(w_i' w_j)^2 = sum_ab w_ia w_ib w_ja w_jb``.
        """
        order, block, some = given.levels.order, given.block, given.some
        a, b = np.triu_indices(self.of_others.shape[1])
        common = self.of_others[:, a] * self.of_others[:, b] * np.where(a == b, 1.0, np.sqrt(2.0))
        half, others = (each[order][block] * some[:, :, None] for each in (self.half, common))
        square = (half @ half.transpose(0, 2, 1)) ** 2 - others @ others.transpose(0, 2, 1)
        diagonal = np.einsum("gii->gi", square)
        diagonal += ridge * np.einsum("gij,gij->gi", half, half) ** 2 + (1.0 - some)
        right = np.concatenate([(self.excess[order][block] * some)[:, :, None], others], axis=2)
        solved = np.linalg.solve(square, right)
        own, apart = solved[:, :, 0], solved[:, :, 1:]
        inner = np.eye(a.size) + np.einsum("gia,gib->ab", others, apart)
        own = own - apart @ np.linalg.solve(inner, np.einsum("gia,gi->a", others, own))
        out = np.empty(order.size)
        out[order[block[some > 0]]] = own[some > 0]
        return out
