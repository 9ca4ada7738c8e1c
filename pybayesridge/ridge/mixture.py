"""The posterior of linear functions of the coefficients: a one-dimensional mixture over the penalty.

Given t2, anything linear in (g, b) is normal (noise variance known, or fixed at its mode) or Student t (noise
variance integrated out). A `Mixture` holds the nodes in log t2: one for a fitted penalty, many where the penalty
is integrated out. A `Functionals` holds linear functions in the rotated basis, where all of it costs O(r) a node.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import svd

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.linalg import blas
from pybayesridge.linalg.blocks import even_parts, is_all
from pybayesridge.linalg.low_rank import Product, factorize
from pybayesridge.posterior.quantiles import ELEMENTS, EXTREME, Common
from pybayesridge.posterior.student import exact
from pybayesridge.ridge.profile import complement, node_blocks, nodes_of, shared, shrinkage
from pybayesridge.ridge.spectrum import Spectrum

SVD_PAYS = 4
"""A singular value decomposition of a matrix costs about as much as this many products per row of it."""

NEGLIGIBLE = 1e-12
"""Nodes of smaller weight do not move a quantile by more than it is solved to."""

QUANTILES_PER_MOMENT = 10
"""Both decompositions of centres and scales pay for so many times as many functionals as one of moments."""

LOW_RANK = 1e-10
"""Error of distribution functions, and relative error of squared scales, by the low rank of components."""

SUMMED = 1 << 22
"""Most directions times targets at once of what is summed over the directions."""

ROUNDING = 1e-12
"""Share of the terms of a sum that is left of it by rounding errors, at most."""


@dataclass(frozen=True, slots=True)
class Mixture:
    """Nodes of the posterior of log t2, in the units of the rotated problem.

    Attributes
    ----------
    log_t2 : (K, q) array
        -inf for a null model, +inf for an unpenalised fit.
    weight : (K, q) array
        Sums to 1 over the nodes.
    scale2 : (K, q) array
        Squared scale of the noise at each node: its variance for a normal, R/nu for a t.
    df : float
        Degrees of freedom; inf for a normal.
    open_variance : bool
        Whether directions in which X does not vary have infinite variance: the tail of t2 is too heavy.
    """

    log_t2: FloatArray
    weight: FloatArray
    scale2: FloatArray
    df: float
    open_variance: bool = False

    def of_targets(self, which: IntArray | slice) -> Mixture:
        """The same with some of the targets."""
        if is_all(which, self.weight.shape[1]):
            return self
        log_t2 = nodes_of(self.log_t2, which)
        return replace(self, log_t2=log_t2, weight=self.weight[:, which], scale2=self.scale2[:, which])

    @property
    def variance_factor(self) -> float:
        """Ratio of variance to squared scale; infinite where the t distribution has no variance."""
        if np.isinf(self.df):
            return 1.0
        return self.df / (self.df - 2) if self.df > 2 else np.inf


@dataclass(frozen=True, slots=True)
class Functionals:
    """m linear functions ``coords'a + (part outside the row space) + (part in Z)`` of the unknowns.

    A constant to be added, such as the value at b = 0, is the caller's: it is the same at every node.

    Attributes
    ----------
    coords : (m, r) array
        V'x.
    outside : (m,) array
        Squared norm of the part of x outside the row space of X.
    leverage : (m,) array
        Contribution of the unpenalised coefficients: z (Z'WZ)^-1 z'.
    """

    coords: FloatArray
    outside: FloatArray
    leverage: FloatArray


def rotated_coefficients(spectrum: Spectrum, log_t2: FloatArray) -> FloatArray:
    """``a = V'b`` at each node: (K, q, r) for `log_t2` (K, q)."""
    return shrinkage(spectrum.s, log_t2) * (spectrum.z / spectrum.s[:, None]).T


def mean_coefficients(spectrum: Spectrum, mixture: Mixture) -> FloatArray:
    """Posterior mean of ``a = V'b``, (r, q)."""
    if mixture.log_t2.shape[0] == 1:
        return rotated_coefficients(spectrum, mixture.log_t2)[0].T
    return mean_shrinkage(spectrum, mixture) * (spectrum.z / spectrum.s[:, None])


def mean_shrinkage(spectrum: Spectrum, mixture: Mixture) -> FloatArray:
    """Posterior mean of ``s_j^2 / (s_j^2 + 1/t2)``, (r, q)."""
    nodes = shared(mixture.log_t2)
    if nodes is not None:
        return blas.product(shrinkage(spectrum.s, nodes), mixture.weight, transpose_a=True)
    out = np.zeros((spectrum.rank, mixture.log_t2.shape[1]))
    for at in node_blocks(mixture.log_t2, spectrum.rank):
        weight = mixture.weight[at]
        # Nodes that other targets need have no weight, and stand last.
        used = np.flatnonzero(weight.any(axis=1))
        rows = slice(0, used[-1] + 1 if used.size else 0)
        e = shrinkage(spectrum.s, mixture.log_t2[at][rows])
        out[:, at[1]] += np.einsum("kt,ktj->jt", weight[rows], e)
    return out


def effective_directions(spectrum: Spectrum, mixture: Mixture) -> FloatArray:
    """Sum over the directions of :func:`mean_shrinkage`, (q,)."""
    nodes = shared(mixture.log_t2)
    if nodes is not None:
        out: FloatArray = shrinkage(spectrum.s, nodes).sum(axis=1) @ mixture.weight
        return out
    parts = even_parts(mixture.log_t2.shape[1], SUMMED // max(spectrum.rank, 1))
    each = [mean_shrinkage(spectrum.of_targets(part), mixture.of_targets(part)).sum(axis=0) for part in parts]
    return np.concatenate(each)


def _covariance_factors(spectrum: Spectrum, mixture: Mixture) -> tuple[FloatArray, FloatArray]:
    """``scale2 / (s_j^2 + 1/t2)`` (K, q, r) and ``scale2 t2`` (K, q): variances inside and outside the row space."""
    s = spectrum.s
    with np.errstate(over="ignore", invalid="ignore"):
        inside = mixture.scale2[..., None] * np.where(
            np.isneginf(mixture.log_t2)[..., None], 0.0, shrinkage(s, mixture.log_t2) / s**2
        )
        outside = np.where(mixture.scale2 == 0, 0.0, mixture.scale2 * np.exp(mixture.log_t2))
    return inside, outside


def locations(f: Functionals, spectrum: Spectrum, mixture: Mixture) -> FloatArray:
    """Centre of every functional at every node, (K, q, m)."""
    a = rotated_coefficients(spectrum, mixture.log_t2)
    nodes, q, r = a.shape
    return blas.product(a.reshape(nodes * q, r), f.coords.T).reshape(nodes, q, f.coords.shape[0])


def squared_scales(f: Functionals, spectrum: Spectrum, mixture: Mixture) -> FloatArray:
    """Squared scale of every functional at every node, (K, q, m)."""
    inside, outside = _covariance_factors(spectrum, mixture)
    nodes, q, r = inside.shape
    out = blas.product(inside.reshape(nodes * q, r), (f.coords**2).T).reshape(nodes, q, f.coords.shape[0])
    out += mixture.scale2[..., None] * f.leverage
    beyond = f.outside > 0
    if beyond.any():
        out[..., beyond] += outside[..., None] * f.outside[beyond]
    return out


@dataclass(frozen=True, slots=True)
class MomentFactors:
    """Factors of the moments of all functionals, computed once.

    Attributes
    ----------
    mean : (r, q) array
        Posterior mean of ``a = V'b``.
    inside : (r, q) array
        Posterior mean of ``scale2 / (s_j^2 + 1/t2)``.
    outside, noise : (q,) arrays
        Posterior means of ``scale2 t2`` (inf where it has none) and of ``scale2``.
    spread : tuple of (r, few) arrays
        For each target L with LL' the covariance of ``a``'s location over the nodes; empty for one node.
    variance_factor : float
        Variance relative to the squared scale.
    """

    mean: FloatArray
    inside: FloatArray
    outside: FloatArray
    noise: FloatArray
    spread: tuple[FloatArray, ...]
    variance_factor: float


def moment_factors(spectrum: Spectrum, mixture: Mixture, count: int) -> MomentFactors:
    """Average what moments are made of over the nodes, for `count` functionals."""
    inside, outside = _mean_factors(spectrum, mixture)
    several = mixture.log_t2.shape[0] > 1
    targets = range(mixture.log_t2.shape[1]) if several else ()
    return MomentFactors(
        mean=mean_coefficients(spectrum, mixture),
        inside=inside,
        outside=np.full_like(outside, np.inf) if mixture.open_variance else outside,
        noise=(mixture.weight * mixture.scale2).sum(axis=0),
        spread=tuple(_location_factor(spectrum, mixture, target, count) for target in targets),
        variance_factor=mixture.variance_factor,
    )


def moments(f: Functionals, factors: MomentFactors) -> tuple[FloatArray, FloatArray]:
    """Posterior mean and variance of every functional, each (m, q)."""
    mean = blas.product(f.coords, factors.mean)
    variance = blas.product(f.coords**2, factors.inside) + np.outer(f.leverage, factors.noise)
    beyond = f.outside > 0
    if beyond.any():
        variance[beyond] += np.outer(f.outside[beyond], factors.outside)
    with np.errstate(invalid="ignore"):
        variance = np.where(variance == 0, 0.0, variance * factors.variance_factor)
    for target, spread in enumerate(factors.spread):
        part = blas.product(f.coords, spread)
        variance[:, target] += np.einsum("ij,ij->i", part, part)
    return mean, variance


def _mean_factors(spectrum: Spectrum, mixture: Mixture) -> tuple[FloatArray, FloatArray]:
    """Posterior means of ``scale2 / (s_j^2 + 1/t2)`` (r, q) and of ``scale2 t2`` (q,)."""
    nodes = shared(mixture.log_t2)
    if nodes is not None and np.isfinite(nodes).all():
        mean = mixture.weight * mixture.scale2
        within = blas.product(shrinkage(spectrum.s, nodes) / spectrum.s**2, mean, transpose_a=True)
        return within, np.exp(nodes) @ mean
    q = mixture.log_t2.shape[1]
    inside = np.zeros((spectrum.rank, q))
    outside = np.zeros(q)
    for at in node_blocks(mixture.log_t2, spectrum.rank):
        weight = mixture.weight[at]
        part = replace(mixture, log_t2=mixture.log_t2[at], weight=weight, scale2=mixture.scale2[at])
        within, beyond = _covariance_factors(spectrum, part)
        inside[:, at[1]] += np.einsum("kt,ktj->jt", weight, within)
        outside[at[1]] += np.einsum("kt,kt->t", weight, np.where(weight > 0, beyond, 0.0))
    return inside, outside


def _location_factor(spectrum: Spectrum, mixture: Mixture, target: int, count: int) -> FloatArray:
    """L with LL' the covariance of ``a`` over the nodes: (r, K), or (r, few) if `count` products cost more.

    Smooth in log t2, it has a low numerical rank.
    """
    keep = mixture.weight[:, target] > 0
    weight = mixture.weight[keep, target]
    centred = _centred_locations(spectrum, mixture.log_t2[keep, target], weight, target) * np.sqrt(weight)[:, None]
    if min(centred.shape) == 0:
        return np.zeros((spectrum.rank, 1))
    if count <= SVD_PAYS * min(centred.shape):
        return np.ascontiguousarray(centred.T)
    _, size, right = svd(centred, full_matrices=False, check_finite=False)
    few = max(1, int(np.count_nonzero(size > 1e-9 * size[0])))
    return np.ascontiguousarray(right[:few].T * size[:few])


def _centred_locations(spectrum: Spectrum, log_t2: FloatArray, weight: FloatArray, target: int) -> FloatArray:
    """Locations of ``a`` less their mean, (K, r); where hardly anything is shrunk, of what shrinking takes away."""
    kept, taken = shrinkage(spectrum.s, log_t2), complement(spectrum.s, log_t2)
    mean = weight @ kept
    out: FloatArray = np.where(mean > 0.5, weight @ taken - taken, kept - mean) * (spectrum.z[:, target] / spectrum.s)
    return out


def covariance(
    f: Functionals,
    outer_outside: FloatArray | None,
    outer_leverage: FloatArray,
    spectrum: Spectrum,
    mixture: Mixture,
    target: int,
) -> FloatArray:
    """Posterior covariance of all functionals of one target, (m, m).

    Parameters
    ----------
    f : Functionals
    outer_outside : (m, m) array or None
        Inner products of the parts outside the row space; None where there is no such part.
    outer_leverage : (m, m) array
        ``z_i (Z'WZ)^-1 z_j'``.
    spectrum : Spectrum
    mixture : Mixture
    target : int
    """
    inside, outside = _covariance_factors(spectrum, mixture)
    weight = mixture.weight[:, target]
    factor = mixture.variance_factor
    if not np.isfinite(factor):
        return np.full((f.coords.shape[0], f.coords.shape[0]), np.inf)
    middle = weight @ inside[:, target]
    out = blas.product(f.coords * middle, f.coords.T) + (weight @ mixture.scale2[:, target]) * outer_leverage
    if outer_outside is not None:
        out += (np.inf if mixture.open_variance else weight @ outside[:, target]) * outer_outside
    out *= factor
    if weight.size > 1:
        centred = blas.product(_centred_locations(spectrum, mixture.log_t2[:, target], weight, target), f.coords.T)
        out += blas.product(centred * weight[:, None], centred, transpose_a=True)
    return out


@dataclass(frozen=True, slots=True)
class TargetNodes:
    """The nodes of one target that quantiles are solved for with, and what gives components of functionals.

    Attributes
    ----------
    weight, scale2, outside : (K,) arrays
        Of :class:`Mixture`, and ``scale2 t2``.
    centers, inside : Product
        ``a = V'b`` and ``scale2 / (s_j^2 + 1/t2)`` at each node, (K, r).
    """

    weight: FloatArray
    scale2: FloatArray
    outside: FloatArray
    centers: Product
    inside: Product

    def components(self, f: Functionals) -> tuple[FloatArray, FloatArray]:
        """Centre and scale of every functional at every node, each (K, m)."""
        where = self.centers.times(f.coords.T)
        squared = self.inside.times((f.coords**2).T)
        squared += np.outer(self.scale2, f.leverage)
        beyond = f.outside > 0
        if beyond.any():
            squared[:, beyond] += np.outer(self.outside, f.outside[beyond])
        return where, np.sqrt(squared)


def quantile_nodes(
    spectrum: Spectrum, mixture: Mixture, probabilities: FloatArray, count: int
) -> tuple[TargetNodes, ...]:
    """The nodes of each target, for quantiles of `count` functionals.

    Smooth in log t2, centres and squared scales over the nodes have a low numerical rank. For many functionals, and
    probabilities that are not extreme, they are made by it: an error of a centre counts in units of the node's scale
    and by the node's weight, as it does in a distribution function.
    """
    out = []
    for target in range(mixture.log_t2.shape[1] if mixture.log_t2.shape[0] > 1 else 0):
        keep = mixture.weight[:, target] > NEGLIGIBLE
        one, weight = mixture.of_targets(slice(target, target + 1)), mixture.weight[keep, target]
        one = replace(one, log_t2=one.log_t2[keep], weight=one.weight[keep], scale2=one.scale2[keep])
        centers = rotated_coefficients(spectrum.of_targets(slice(target, target + 1)), one.log_t2)[:, 0]
        inside, outside = _covariance_factors(spectrum, one)
        few = count <= SVD_PAYS * QUANTILES_PER_MOMENT * min(centers.shape)
        if few or np.minimum(probabilities, 1 - probabilities).min(initial=1.0) < EXTREME:
            factors = Product(None, centers), Product(None, inside[:, 0])
        else:
            with np.errstate(divide="ignore"):
                slack = 1.0 / (weight.size * weight)
            factors = (
                factorize(centers, np.sqrt(inside[:, 0]), slack, LOW_RANK),
                factorize(inside[:, 0], inside[:, 0], np.ones(weight.size), LOW_RANK),
            )
        out.append(TargetNodes(weight, one.scale2[:, 0], outside[:, 0], *factors))
    return tuple(out)


def quantiles(
    f: Functionals,
    spectrum: Spectrum,
    mixture: Mixture,
    probabilities: FloatArray,
    total: int | None = None,
    nodes: tuple[TargetNodes, ...] = (),
) -> FloatArray:
    """Quantiles of every functional, (m, q, len(probabilities)).

    One node has them in closed form; of a mixture they are solved for. `total` says of how many functionals these are
    a part. `nodes` are those of :func:`quantile_nodes`, where they are known.
    """
    known = nodes or quantile_nodes(spectrum, mixture, probabilities, f.coords.shape[0])

    def solved(some: Common) -> FloatArray:
        return some.quantiles(probabilities, total or f.coords.shape[0])

    return _solved(f, spectrum, mixture, known, solved, probabilities.size)


def quantile_curves(f: Functionals, spectrum: Spectrum, mixture: Mixture, probabilities: FloatArray) -> FloatArray:
    """Quantiles of every functional at many increasing probabilities, (m, q, c), for tables: right to 1e-4."""
    nodes = quantile_nodes(spectrum, mixture, probabilities, f.coords.shape[0])
    return _solved(f, spectrum, mixture, nodes, lambda some: some.curves(probabilities), probabilities.size)


def _solved(
    f: Functionals,
    spectrum: Spectrum,
    mixture: Mixture,
    nodes: tuple[TargetNodes, ...],
    solve: Callable[[Common], FloatArray],
    width: int,
) -> FloatArray:
    """What `solve` finds of the mixtures that functionals are, (m, q, width), for pieces of them."""
    count, q = f.coords.shape[0], mixture.log_t2.shape[1]
    out = np.empty((count, q, width))
    if mixture.log_t2.shape[0] == 1:
        where, scale = locations(f, spectrum, mixture), np.sqrt(squared_scales(f, spectrum, mixture))
        for target in range(q):
            out[:, target] = solve(Common(where[:, target], scale[:, target], mixture.weight[:, target], mixture.df))
        return out
    for target, one in enumerate(nodes):
        for some in even_parts(count, ELEMENTS // one.weight.size):
            where, scale = one.components(Functionals(f.coords[some], f.outside[some], f.leverage[some]))
            out[some, target] = solve(Common(where, scale, one.weight, mixture.df))
    return out


def exceedance(f: Functionals, spectrum: Spectrum, mixture: Mixture, at: FloatArray) -> FloatArray:
    """Probability that each functional is larger than its entry of `at`; both (m, q).

    Without noise a component is a point, which is not larger if rounding errors alone separate them.
    """
    distance = locations(f, spectrum, mixture) - at.T
    scale = np.sqrt(squared_scales(f, spectrum, mixture))
    point = scale == 0
    # Of the upper tail, as the lower tail of the law's mirror image: small probabilities keep their digits.
    each = exact(mixture.df)(distance / np.where(point, 1.0, scale))[0]
    if point.any():
        size = np.abs(rotated_coefficients(spectrum, mixture.log_t2)) @ np.abs(f.coords).T + np.abs(at.T)
        each = np.where(point, distance > ROUNDING * size, each)
    out: FloatArray = np.einsum("kt,ktm->mt", mixture.weight, each)
    return np.clip(out, 0.0, 1.0)
