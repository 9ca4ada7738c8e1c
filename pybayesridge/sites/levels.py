"""Posteriors in which the effects of a group's levels are integrated out by quadrature, each by itself.

Rows of a level may contradict each other where tails are heavy: either a row is an outlier or its level is. Its
effect then has a posterior with two tops, of which expectation propagation, row by row, gets neither the evidence nor
the variance right, or does not settle. Given the other coefficients c the effects of the levels are independent:

    p(c | y) ~ p(c) prod_g f_g(c),    f_g(c) = int N(u; 0, 1) prod_(i in g) L_i(x_i c + a_i u) du,

the f_g by the trapezoidal rule. Of c there are few: their moments are sums over fixed points about a normal
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
from pybayesridge.sites.bands import BandsAt, BandSpace, in_units_of
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

STEP, EDGE, DROP = 1.2, 6.0, 16.0
"""Spacing of the nodes of effects, in standard deviations where the likelihood bends most; the range that is looked
at, in prior standard deviations; and the fall of the log density at which it ends."""

AROUND = 3.0
"""So many standard deviations of the other coefficients are added to the range."""

MOST_NODES = 4000
"""Most nodes with which the range is looked for."""

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
    """The rows of a group's levels.

    Attributes
    ----------
    order : (n,) int array
        Rows, those of a level together.
    start : (G,) int array
        Where the levels begin among these.
    which : (n,) int array
        The level of each of these.
    value : (n,) array
        What multiplies the effect in each of these, on the scale of the prior.
    columns : (G,) int array
        Coordinates of the effects.
    others : (m,) int array
        The other coordinates, the k flat ones first.
    taken : (k, G) array
        What the flat coordinates take from the columns of the effects.
    inverse : (r, r) array
        Of the cross-products of all columns.
    """

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
        single = [each[0] for each in space.terms.columns if len(each) == 1]
        columns = max(single, key=len, default=np.empty(0, dtype=int))
        small = space.n <= SMALL * columns.size
        most = MOST_OTHERS if small else len(RULES)
        if not columns.size or not 0 < space.rows.shape[1] - columns.size <= most:
            return None
        design, k = space.design, space.k
        own = sparse.csc_matrix(design.x[:, design.columns[columns]], dtype=np.float64) / design.scale[columns]
        own = sparse.csr_matrix(own)
        own.eliminate_zeros()
        if (np.diff(own.indptr) != 1).any() or np.bincount(own.indices).max(initial=0) > MOST_ROWS:
            return None
        order = np.argsort(own.indices, kind="stable")
        level = own.indices[order]
        start = np.r_[0, np.flatnonzero(np.diff(level)) + 1]
        which = np.repeat(np.arange(start.size), np.diff(np.r_[start, level.size]))
        own_columns = columns[level[start]]
        away = own.toarray()[:, level[start]] - space.rows[:, k + own_columns]
        taken = np.linalg.lstsq(space.rows[:, :k], away, rcond=None)[0]
        others = np.setdiff1d(np.arange(space.rows.shape[1]), k + own_columns)
        inverse = pinvh(blas.product(space.rows, space.rows, transpose_a=True))
        return cls(order, start, which, own.data[order], k + own_columns, others, taken, inverse)

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
    given = Given.of(levels, own.scaled(node.log_t2), likelihood)
    if given is None:
        return None
    rows = given.rows
    raised = np.maximum(node.sites.precision, 0.0)
    sites = Sites(raised, node.sites.shift + (raised - node.sites.precision) * node.mean)
    middle, root = given.others_of(combine(rows, sites))
    for past in range(ROUNDS):
        found = given.moments(middle, root)
        if found.effective >= SPREAD_OUT and (past or middle.size <= len(RULES)):
            break
        middle, root = found.middle, found.root
    if not found.effective >= LEAST_EFFECTIVE:
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
    effects : (G,) array
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
    rows : Scaled
    likelihood : Likelihood
        Of the ordered rows.
    others : (n, m) array
        What multiplies the other coefficients in the ordered rows.
    value : (n,) array
        What multiplies the effects, of unit prior variance, in these.
    take : (m, k + r) array
        The other coefficients, the columns of the effects being whole, as functions of the coordinates.
    step : (G,) array
        Of the nodes.
    block, some : (G, M) arrays
        Rows of each level among the ordered ones, and 0 where there are fewer, else 1.
    """

    levels: Levels
    rows: Scaled
    likelihood: Likelihood
    others: FloatArray
    value: FloatArray
    take: FloatArray
    step: FloatArray
    block: IntArray
    some: FloatArray

    @classmethod
    def of(cls, levels: Levels, rows: Scaled, likelihood: Likelihood) -> Given | None:
        """In coordinates of unit prior variance; None if there would be too many nodes."""
        unit, order = rows.units[levels.columns], levels.order
        own, value = likelihood.rows(order), levels.value * unit[levels.which]
        bend = np.add.reduceat(value**2 * own.largest_curvature(), levels.start)
        step = STEP / np.sqrt(1.0 + bend)
        if not step.min() > 2 * EDGE / MOST_NODES:
            return None
        others = rows.rows[order][:, levels.others] * rows.units[levels.others]
        take = np.zeros((levels.others.size, rows.units.size))
        take[np.arange(len(take)), levels.others] = 1.0
        take[: rows.k, levels.columns] -= levels.taken * unit
        return cls(levels, rows, own, others, value, take, step, *levels.blocks())

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
        mean[:k] -= self.take[:k, levels.columns] @ found.effects
        pulled = mean.copy()
        pulled[:k] = 0.0
        # At the mean the slopes of the sites add up to what the prior pulls.
        slope = rows.rows @ (levels.inverse @ in_units_of(pulled, rows.units))
        return Sites(precision, slope + precision * rows.times(mean))

    def moments(self, middle: FloatArray, root: FloatArray) -> Moments:
        """The moments by points about the middle."""
        z, base = _points(middle.size)
        at, low, high, count = middle + z @ root.T, *self._range(middle, root)
        size = max(1, CHUNK // (count * self.value.size))
        parts = [self._effects(at[first : first + size], low, high, count) for first in range(0, len(at), size)]
        heights, of_effects, variances = (np.concatenate(each) for each in zip(*parts, strict=True))
        u = at[:, self.rows.k :]
        of_prior = -0.5 * (u**2).sum(axis=1) - 0.5 * u.shape[1] * np.log(2 * np.pi)
        of_points = -0.5 * (z**2).sum(axis=1) - 0.5 * z.shape[1] * np.log(2 * np.pi)
        ratio = heights + of_prior - of_points + np.log(np.diag(root)).sum()
        top = ratio.max()
        ratio = np.exp(ratio - top)
        total = base @ ratio
        weight = base * ratio / total
        which, order = self.levels.which, self.levels.order
        eta = at @ self.others.T + self.value * of_effects[:, which]
        inside = self.value**2 * (weight @ variances)[which]
        variance = np.empty(order.size)
        variance[order] = weight @ (eta - weight @ eta) ** 2 + inside
        new = weight @ at
        away = at - new
        square = away.T @ (away * weight[:, None])
        effective = float(total**2 / (base @ ratio**2))
        # Of few effective points the covariance is a rank too low.
        wider = np.linalg.cholesky(square + (1.0 - effective) ** 2 * root @ root.T)
        return Moments(float(top + np.log(total)), variance, new, wider, weight @ of_effects, effective)

    def _range(self, middle: FloatArray, root: FloatArray) -> tuple[FloatArray, FloatArray, int]:
        """Where the densities of the effects are, each (G,), and how many nodes suit."""
        start = self.levels.start
        u = np.linspace(-EDGE, EDGE, int(np.ceil(2 * EDGE / self.step.min())) + 1)
        eta = self.others @ middle + u[:, None] * self.value
        density = np.add.reduceat(self.likelihood.values(eta), start, axis=1) - 0.5 * u[:, None] ** 2
        above = density > density.max(axis=0) - DROP
        first, last = above.argmax(axis=0), u.size - 1 - above[::-1].argmax(axis=0)
        moved = np.sqrt(((self.others @ root) ** 2).sum(axis=1)) / np.abs(self.value)
        around = AROUND * np.maximum.reduceat(moved, start)
        low, high = u[np.maximum(first - 1, 0)] - around, u[np.minimum(last + 1, u.size - 1)] + around
        low, high = np.maximum(low, -EDGE), np.minimum(high, EDGE)
        return low, high, int(np.ceil(((high - low) / self.step).max())) + 2

    def _effects(
        self, at: FloatArray, low: FloatArray, high: FloatArray, count: int
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Sums of log f_g (S,); means and variances of the effects (S, G), given the other coefficients (S, m)."""
        u = low + (high - low) * np.linspace(0.0, 1.0, count)[:, None]
        eta = (at @ self.others.T)[:, None] + self.value * u[:, self.levels.which]
        density = np.add.reduceat(self.likelihood.values(eta), self.levels.start, axis=2)
        density -= 0.5 * u**2 + 0.5 * np.log(2 * np.pi)
        top = density.max(axis=1)
        weight = np.exp(density - top[:, None])
        total = weight.sum(axis=1)
        weight /= total[:, None]
        mean = np.einsum("sug,ug->sg", weight, u)
        variance = np.einsum("sug,ug->sg", weight, u**2) - mean**2
        height = (top + np.log(total * (high - low) / (count - 1))).sum(axis=1)
        return height, mean, np.maximum(variance, 0.0)


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
