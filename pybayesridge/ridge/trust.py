"""Whether a rotation by products is accurate at every penalty that matters, not only at the one that was found.

The Gram routes know the squared singular values up to ``noise``, relative to the largest. Where the least of them
and the penalty are both small, coefficients and residuals are wrong there, and a mode or much of the mass of the
posterior may go unseen. With K = XX' and Loewner's order, ``K <= K_computed + noise`` bounds the residual R from
below and Weyl's inequality bounds the determinant, so that

    f(l) >= 1/2 sum log(1 + t2 (s_j^2 - noise)) + (N+2)/2 log(rss0 + sum z_j^2 / (1 + t2 (s_j^2 + noise))) + ...

is a bound of the profile that holds in spite of rounding errors. Where even that bound is high at all penalties at
which the route is not accurate, nothing is hidden there.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pybayesridge._types import FloatArray
from pybayesridge.design.design import Design
from pybayesridge.linalg import blas
from pybayesridge.linalg.blocks import even_parts
from pybayesridge.ridge.mixture import Mixture, rotated_coefficients
from pybayesridge.ridge.profile import (
    CHUNK,
    SPACING,
    PenaltyModel,
    complement,
    log_determinant,
    node_blocks,
    penalized_rss,
    search_grid,
    shared,
    shrinkage,
    value,
)
from pybayesridge.ridge.quadrature import Quadrature
from pybayesridge.ridge.spectrum import ACCURACY, EIGENVALUE_NOISE, WEAK, Spectrum

CHEAP = 1e8
"""Multiplications of a QR factorisation that cost less than a second: nothing is gained by avoiding it."""

LARGEST_LOG = -float(np.log(np.finfo(float).tiny))
"""Log t2 that stands for no penalty where t2 is needed."""

LEVEL = 0.01
"""A null model's profile may come this close to where it leaves the accurate penalties."""


def sees_everything(spectrum: Spectrum) -> bool:
    """Whether the route is accurate at every penalty."""
    return spectrum.solver == "svd" or spectrum.rank == 0 or spectrum.smallest >= WEAK


def sees_nothing_small(design: Design, spectrum: Spectrum) -> bool:
    """Whether directions are lost to the route, or X is so small that bounds of what it hides are not worth it."""
    if sees_everything(spectrum):
        return False
    large, small = max(design.n, design.p), min(design.n, design.p)
    return spectrum.smallest <= 2 * spectrum.noise or (design.in_memory and large * small**2 <= CHEAP)


def hides_no_mode(spectrum: Spectrum, model: PenaltyModel, log_t2: FloatArray) -> bool:
    """Whether no penalty at which the route is inaccurate can have a higher posterior than the modes found, (q,)."""
    if sees_everything(spectrum):
        return True
    grid = _beyond(search_grid(spectrum, model))
    start = np.full(log_t2.size, -np.log(WEAK))
    found = np.isfinite(log_t2)
    reference = value(spectrum, model, np.where(found, log_t2, start)[None])[0] - np.where(found, 0.0, LEVEL)
    return bool((_lower_bound(spectrum, model, grid).min(axis=0, initial=np.inf) > reference).all())


def hides_no_mass(spectrum: Spectrum, model: PenaltyModel, quadrature: Quadrature) -> bool:
    """Whether errors of the route at small penalties, weighted by the posterior there, are small.

    The weights are those of the probability and, where the data leave directions open, of the prior variance.
    """
    if sees_everything(spectrum):
        return True
    grid = _beyond(np.arange(0.0, float(quadrature.log_t2.max()) + SPACING, SPACING))
    loss = EIGENVALUE_NOISE / np.maximum(spectrum.smallest + np.exp(-grid), EIGENVALUE_NOISE)
    log_share = -_lower_bound(spectrum, model.as_density, grid) - quadrature.log_integral
    with np.errstate(over="ignore"):
        share = np.exp(log_share) * (SPACING * loss[:, None])
        wrong = share.sum(axis=0)
        if spectrum.rank < spectrum.p:
            nodes, weight = quadrature.log_t2, quadrature.weight
            there = (share * _prior_variance(spectrum, model, np.repeat(grid[:, None], wrong.size, axis=1))).sum(
                axis=0
            )
            wrong = np.maximum(wrong, there / (weight * _prior_variance(spectrum, model, nodes)).sum(axis=0))
    return bool((wrong <= ACCURACY).all())


def _prior_variance(spectrum: Spectrum, model: PenaltyModel, log_t2: FloatArray) -> FloatArray:
    """PenaltyModel variance of a coefficient at each target's own points (K, q), up to a constant."""
    out: FloatArray = np.exp(log_t2)
    return out if model.likelihood.known else out * penalized_rss(spectrum, log_t2)


def hides_no_score(spectrum: Spectrum, log_t2: FloatArray, scores: FloatArray, n: int) -> bool:
    """Whether no penalty at which the route is inaccurate can have a better GCV score than those found, (L, q)."""
    accurate = spectrum.smallest + np.exp(-log_t2) >= WEAK
    if sees_everything(spectrum) or accurate.all():
        return True
    s2 = spectrum.s**2
    rss = spectrum.rss0 + np.einsum(
        "ktj,jt->kt", complement(np.sqrt(s2 + spectrum.noise), log_t2) ** 2, _least_z2(spectrum)
    )
    left = complement(np.sqrt(np.maximum(s2 - spectrum.noise, 0.0)), log_t2).sum(axis=-1)
    bound = np.where(accurate, np.inf, rss * n / (spectrum.nu - spectrum.rank + left) ** 2)
    best = np.where(accurate, scores, np.inf).min(axis=0)
    return bool((bound.min(axis=0) > best).all())


def blurs_variances(spectrum: Spectrum, log_t2: FloatArray) -> bool:
    """Whether the Gram route loses digits of variances at these points (q,) that the accurate route keeps."""
    at = np.where(np.isfinite(log_t2), log_t2, 0.0)
    return spectrum.solver == "gram" and _loss_of_variances(spectrum, at) > ACCURACY


def expected_loss(spectrum: Spectrum, count: float, mixture: Mixture) -> float:
    """Relative error, about, that rounding errors leave in a fit, averaged over the nodes of its mixture.

    Besides those of variances, two errors are counted: that of ``s_j^2 + lambda``, and, where X leaves a residual,
    that of the residual sum of squares, ``|r|`` being known up to rounding errors of ``|X| |b|``. Where it differs
    between nodes it is also an error of their weights, of `count` / 2 times its size in logarithm, which moves the
    mean of log t2. From moments ``z_j = V'X'y / s_j`` is no better known than ``s_j``, however large the penalty, and
    nothing else has looked at the variance that small penalties carry.
    """
    if spectrum.rank == 0:
        return 0.0
    nodes, q = mixture.log_t2.shape
    parts = even_parts(q, CHUNK // max(nodes, 1))
    return max(_expected_loss(spectrum.of_targets(part), count, mixture.of_targets(part)) for part in parts)


def loses_less(spectrum: Spectrum, count: float, mixture: Mixture, level: float) -> bool:
    """Whether :func:`expected_loss` is surely below a level, by bounds that take no time; False if they do not tell.

    No penalty is negative, so that ``s_j^2 + lambda`` is at least ``s_j^2``, R at least ``rss0``, and the norm of the
    coefficients at most that of z over the least s.
    """
    if spectrum.solver not in ("gram", "dual") or not spectrum.smallest > 2 * spectrum.noise:
        return False
    if spectrum.solver == "gram" and spectrum.rank != spectrum.p:
        return False
    first, last = float(mixture.log_t2.min()), float(mixture.log_t2.max())
    if not (np.isfinite(first) and np.isfinite(last)):
        return False
    # Where X leaves no residual there are no errors of one.
    least = float(spectrum.rss0.min(where=spectrum.rss0 > 0, initial=np.inf))
    loss = EIGENVALUE_NOISE / spectrum.smallest
    residual = 2 * EIGENVALUE_NOISE * (1.0 + 1.0 / np.sqrt(spectrum.smallest)) / np.sqrt(least)
    if len(mixture.log_t2) > 1:
        loss = max(last - first, 1.0) * (loss + count / 2 * residual)
    return bool(max(loss, residual) <= level)


def _expected_loss(spectrum: Spectrum, count: float, mixture: Mixture) -> float:
    """:func:`expected_loss` of some targets."""
    log_t2, weight = mixture.log_t2, mixture.weight
    # Least squares has log t2 = inf and, where it fits exactly, no noise: its coefficients have an error even so.
    noiseless = np.isposinf(log_t2) & (mixture.scale2 == 0) & (spectrum.z != 0).any(axis=0)
    live = (weight > 0) & ((mixture.scale2 > 0) | noiseless) & (log_t2 > -np.inf)
    # Nodes without weight stay where they are: targets that share nodes share them here too.
    at = np.where(np.isneginf(log_t2), 0.0, np.minimum(log_t2, LARGEST_LOG))
    least = spectrum.smallest + np.exp(-at)
    if spectrum.solver == "svd":
        least = np.sqrt(least)
    rss, size = _rss_and_size(spectrum, at)
    loss = EIGENVALUE_NOISE / np.maximum(least, EIGENVALUE_NOISE)
    if spectrum.solver == "dual" and spectrum.smallest <= 2 * spectrum.noise:
        loss = np.maximum(np.sqrt(loss), _lost_coefficients(spectrum, at, size))
    rounding = np.where(spectrum.rss0 > 0, EIGENVALUE_NOISE * size, 0.0)
    residual = 2 * rounding / np.sqrt(rss)
    of_variances = _loss_of_variances(spectrum, (weight * at).sum(axis=0))
    if spectrum.solver == "moments":
        residual = residual + _unsure_rss(spectrum, at) / rss
        carried = np.where(live, weight * mixture.scale2 / np.maximum(least, EIGENVALUE_NOISE), 0.0)
        share = carried / np.maximum(carried.sum(axis=0), np.finfo(float).tiny)
        of_variances = max(of_variances, float((share * loss).sum(axis=0).max(initial=0.0)))
        scale2 = np.where(live & ~noiseless, mixture.scale2, np.inf)
        of_variances = max(of_variances, _unseen(spectrum, at, scale2, weight))
    residual = np.where(mixture.scale2 > 0, residual, 0.0)
    if len(at) > 1:
        # What is wrong at all nodes alike leaves their weights as they are.
        in_weight = count / 2 * np.abs(residual - (weight * residual).sum(axis=0))
        distance = np.maximum(np.abs(at - (weight * at).sum(axis=0)), 1.0)
        loss = distance * (loss + in_weight)
    loss = np.maximum(loss, residual)
    largest = float(np.where(live, weight * loss, 0.0).sum(axis=0).max(initial=0.0))
    return max(largest, of_variances)


def _lost_coefficients(spectrum: Spectrum, log_t2: FloatArray, size: FloatArray) -> FloatArray:
    """Norm of coefficients that directions lost to XX' may have, relative to that of the others, (K, q).

    Their singular values are at most the root of the noise, and the response has at most ``sqrt(rss0)`` there.
    """
    penalty = np.exp(-log_t2)
    # s / (s^2 + penalty) is largest where s^2 is the penalty.
    square = np.minimum(2 * spectrum.noise, np.maximum(penalty, np.finfo(float).tiny))
    lost = np.sqrt(square) / (square + penalty) * np.sqrt(spectrum.rss0)
    out: FloatArray = np.minimum(lost / np.maximum(size - 1.0, np.finfo(float).tiny), 1.0)
    return out


def _unseen(spectrum: Spectrum, log_t2: FloatArray, scale2: FloatArray, weight: FloatArray) -> float:
    """Coefficients, from moments, of directions that count as none, relative to their standard deviations."""
    assert spectrum.unseen is not None
    unseen = np.where(spectrum.unseen > spectrum.noise, spectrum.unseen, 0.0)
    share = unseen * np.exp(np.minimum(log_t2, -np.log(spectrum.noise)) / 2) / np.sqrt(scale2)
    return float((weight * share).sum(axis=0).max(initial=0.0))


def _unsure_rss(spectrum: Spectrum, log_t2: FloatArray) -> FloatArray:
    """Uncertainty of the penalised residual sum of squares due to errors of ``s_j``, (K, q), from moments."""
    unsure = EIGENVALUE_NOISE / np.maximum(spectrum.s**2, EIGENVALUE_NOISE)
    part = replace(spectrum, z=spectrum.z * np.sqrt(unsure)[:, None], rss0=np.zeros_like(spectrum.rss0))
    return penalized_rss(part, log_t2)


def _loss_of_variances(spectrum: Spectrum, log_t2: FloatArray) -> float:
    """Largest relative error of the variance of a coefficient whose column lies almost in the row space.

    Its part outside is known up to the angle by which rounding errors turn that space, and a large t2 makes it a
    variance.
    """
    right = spectrum.right
    if right is None or spectrum.rank in (0, spectrum.p):
        return 0.0
    t2 = np.exp(np.minimum(log_t2, -np.log(np.finfo(float).tiny)))
    squares = right**2
    outside = np.maximum(1.0 - squares.sum(axis=1), 0.0)
    variance = blas.product(squares, 1.0 / (spectrum.s[:, None] ** 2 + 1.0 / t2)) + np.outer(outside, t2)
    # Directions that are hardly known from X have the variance of those outside: turning them changes nothing.
    turned = blas.product(squares, (spectrum.lean * shrinkage(spectrum.s, log_t2)).T ** 2)
    unsure = 2 * np.sqrt(outside[:, None] * turned) + turned
    return float(np.minimum(unsure * t2 / variance, 1.0).max(initial=0.0))


def _rss_and_size(spectrum: Spectrum, log_t2: FloatArray) -> tuple[FloatArray, FloatArray]:
    """R, and the norm of the coefficients and of the response, which is 1, at each target's own points, (K, q)."""
    nodes = shared(log_t2)
    if nodes is not None:
        rows = np.vstack([complement(spectrum.s, nodes), (shrinkage(spectrum.s, nodes) / spectrum.s) ** 2])
        left, squares = np.split(blas.product(rows, spectrum.z**2), 2)
        return spectrum.rss0 + left, 1.0 + np.sqrt(squares)
    size = np.empty_like(log_t2)
    for at in node_blocks(log_t2, spectrum.rank):
        a = rotated_coefficients(spectrum.of_targets(at[1]), log_t2[at])
        size[at] = 1.0 + np.sqrt((a**2).sum(axis=-1))
    return penalized_rss(spectrum, log_t2), size


def _beyond(grid: FloatArray) -> FloatArray:
    """The points at which penalties are too small for the route to be accurate."""
    return grid[grid > -np.log(WEAK)]


def _least_z2(spectrum: Spectrum) -> FloatArray:
    """Squares of U'y less the errors that the directions have by the Gram route."""
    z2: FloatArray = spectrum.z**2
    if spectrum.solver == "dual":
        return z2
    return z2 * np.maximum(1.0 - 2 * spectrum.noise / spectrum.s**2, 0.0)[:, None]


def _lower_bound(spectrum: Spectrum, model: PenaltyModel, grid: FloatArray) -> FloatArray:
    """Bound of the profile f from below that holds in spite of rounding errors, (L, q)."""
    s2 = spectrum.s**2
    rss = spectrum.rss0 + blas.product(complement(np.sqrt(s2 + spectrum.noise), grid), _least_z2(spectrum))
    low = replace(spectrum, s=np.sqrt(np.maximum(s2 - spectrum.noise, 0.0)))
    own_l = grid - model.log_scale
    terms = model.k / 2 * own_l + (model.a + model.b) * np.logaddexp(0.0, own_l)
    out: FloatArray = model.likelihood.profile(rss) + (0.5 * log_determinant(low, grid) + terms)[:, None]
    return out
