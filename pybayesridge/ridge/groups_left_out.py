"""Groups of rows of a ridge predicted from all other rows, together: their joint densities.

Given a component of the posterior let H be the hat matrix and e the residuals of a group's m rows, and ``S = 1 - H``.
Without the group these rows have the residuals ``d = S^-1 e``, the covariance ``s2 S^-1``, and the other rows have
``R - e'S^-1 e``: for one row what :mod:`pybayesridge.posterior.left_out` has. Weights of the components without the
group follow as there, ``w_k / p_k``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.special import gammaln, logsumexp

from pybayesridge._types import BoolArray, FloatArray, IntArray
from pybayesridge.design.design import Design
from pybayesridge.linalg.blocks import even_parts
from pybayesridge.posterior.left_out import (
    EXACT,
    FITTED,
    FULL_LEVERAGE,
    LEVERAGE_ONE,
    NO_NOISE,
    UNDETERMINED,
    LeftOut,
    NoDensityError,
    Noise,
)
from pybayesridge.ridge.left_out import OneTarget
from pybayesridge.ridge.profile import complement, penalized_rss
from pybayesridge.ridge.rows import left_rows
from pybayesridge.ridge.spectrum import Spectrum

ALONE = "without it no degrees of freedom are left to estimate the noise variance"

ELEMENTS = 1 << 22
"""Numbers held at once of groups' rows at several nodes."""

NOTHING = 1e-13
"""A squared length of what is left of a unit vector that rounding can leave."""

WIDTH = 64
"""Directions of the columns that are counted there."""


@dataclass(frozen=True, slots=True)
class Sorted:
    """Rows in the order of their groups.

    Attributes
    ----------
    order : (n,) int array
        Positions of the rows, those of the first group first.
    slices : list of G slices
        Of each group.
    """

    order: IntArray
    slices: list[slice]

    @classmethod
    def of(cls, codes: IntArray) -> Sorted:
        """Of the group of each row (n,), numbers from 0 of which each occurs."""
        ends = np.cumsum(np.bincount(codes)).tolist()
        return cls(
            np.argsort(codes, kind="stable"), [slice(a, b) for a, b in zip([0, *ends[:-1]], ends, strict=True)]
        )

    @property
    def codes(self) -> IntArray:
        """The group of each row in this order, (n,)."""
        return np.repeat(np.arange(len(self.slices)), self.sizes)

    def alike(self, count: int) -> list[IntArray]:
        """Groups that are equally large, and few enough to hold products of their rows for `count` components."""
        out = []
        for size in np.unique(self.sizes):
            some = np.flatnonzero(self.sizes == size)
            most = max(1, ELEMENTS // (count * int(size) * max(int(size), WIDTH)))
            out += [some[part] for part in even_parts(some.size, most)]
        return out

    @property
    def sizes(self) -> IntArray:
        """Number of rows of each group, (G,)."""
        return np.array([each.stop - each.start for each in self.slices])


@dataclass(frozen=True, slots=True)
class Block:
    """Groups of equally many rows at some components, N in all.

    Attributes
    ----------
    log_det : (N,) array
        ``log|S|``.
    quadratic : (N,) array
        ``e'S^-1 e``.
    error : (N, m) array
        d.
    log_det_within, quadratic_within : (N,) arrays
        The first two of ``1 + H``, the covariance of new rows like these given all rows.
    """

    log_det: FloatArray
    quadratic: FloatArray
    error: FloatArray
    log_det_within: FloatArray
    quadratic_within: FloatArray


def block_of(slack: FloatArray, residual: FloatArray) -> Block:
    """From S (N, m, m) and e (N, m).

    Raises
    ------
    numpy.linalg.LinAlgError
        If S is singular.
    """
    log_det, error = _solved(slack, residual)
    log_det_within, half = _solved(2.0 * np.eye(residual.shape[1]) - slack, residual)
    return Block(log_det, (residual * error).sum(axis=1), error, log_det_within, (residual * half).sum(axis=1))


def _solved(a: FloatArray, right: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Log determinants of positive matrices (N, m, m), and ``a^-1 right`` for (N, m).

    Their diagonals are made ones first: what is small in some directions does not get lost.
    """
    diagonal = np.diagonal(a, axis1=1, axis2=2)
    if not (diagonal > 0).all():
        raise np.linalg.LinAlgError("the matrix is singular")
    unit = np.sqrt(diagonal)
    scaled = a / (unit[:, :, None] * unit[:, None, :])
    lower: Any = np.linalg.cholesky(scaled)
    pivots = np.diagonal(lower, axis1=1, axis2=2) * unit
    solved: Any = np.linalg.solve(scaled, (right / unit)[:, :, None])
    return 2.0 * np.log(pivots).sum(axis=1), solved[:, :, 0] / unit


@dataclass(frozen=True, slots=True)
class Turned:
    """G groups of m rows in orthonormal coordinates, as many as there are columns if rows are more.

    The hat matrix vanishes in what is left.

    Attributes
    ----------
    turn : (G, m, c) array
        The coordinates.
    rest : (G, c) array
        A vector in these.
    beyond : (G, m) array
        The part of it outside.
    """

    turn: FloatArray
    rest: FloatArray
    beyond: FloatArray

    @classmethod
    def of(cls, basis: FloatArray, rest: FloatArray) -> tuple[Turned, FloatArray]:
        """From columns (G, m, b) and a vector (G, m), and the columns in the coordinates, (G, c, b)."""
        count, m, width = basis.shape
        turn: Any = np.broadcast_to(np.eye(m), (count, m, m))
        if m <= width:
            return cls(turn, rest, np.zeros(rest.shape)), basis
        turn, inside = np.linalg.qr(basis)
        own = (rest[:, None, :] @ turn)[:, 0]
        return cls(turn, own, rest - (turn @ own[:, :, None])[:, :, 0]), inside

    def returned(self, found: Block, count: int) -> Block:
        """A block in the coordinates at `count` components as that of the rows."""
        groups, m, c = self.turn.shape
        inside = self.turn @ found.error.reshape(count, groups, c, 1)
        more = np.tile((self.beyond**2).sum(axis=1), count)
        return replace(
            found,
            quadratic=found.quadratic + more,
            error=(self.beyond + inside[..., 0]).reshape(-1, m),
            quadratic_within=found.quadratic_within + more,
        )


def block_of_columns(basis: FloatArray, residual: FloatArray) -> Block:
    """Where ``H = basis basis'`` with basis (G, m, b), for e (G, m)."""
    turned, inside = Turned.of(basis, residual)
    hat = inside @ inside.swapaxes(1, 2)
    return turned.returned(block_of(np.eye(hat.shape[1]) - hat, turned.rest), 1)


def block_of_ridges(
    q: FloatArray, u: FloatArray, rest: FloatArray, f: FloatArray, z: FloatArray, *, saturated: bool
) -> Block:
    """At ridges that shrink directions by 1 - f (K, r), all groups of a component after one another.

    Parameters
    ----------
    q, u : (G, m, k), (G, m, r) arrays
        Rows of Q and U.
    rest : (G, m) array
        What these leave of y.
    f : (K, r) array
    z : (r,) array
        The response in the directions.
    saturated : bool
        Whether Q and U leave nothing of anything.
    """
    turned, inside = Turned.of(np.concatenate([q, u], axis=2), rest)
    c = inside.shape[1]
    outside, axes, own = np.zeros(turned.rest.shape), np.eye(c), np.zeros(turned.rest.shape)
    if not saturated:
        # In coordinates in which what Q and U leave is diagonal, what is nothing but for rounding is nothing.
        outside, axes = np.linalg.eigh(np.eye(c) - inside @ inside.swapaxes(1, 2))
        outside = np.where(outside > NOTHING, outside, 0.0)
        own = np.where(outside > 0, (turned.rest[:, None, :] @ axes)[:, 0], 0.0)
    of_u = axes.swapaxes(-1, -2) @ inside[:, :, q.shape[2] :]
    slack = (f[:, None, None, :] * of_u) @ of_u.swapaxes(1, 2) + outside[:, :, None] * np.eye(c)
    residual = own + ((f * z)[:, None, None, :] @ of_u.swapaxes(1, 2))[:, :, 0]
    found = block_of(slack.reshape(-1, c, c), residual.reshape(-1, c))
    return replace(turned, turn=turned.turn @ axes).returned(found, len(f))


def densities(block: Block, rss: FloatArray, noise: Noise) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Joint log densities of a group's rows without and with themselves, and where others are not fitted exactly.

    Parameters
    ----------
    block : Block
    rss : (K,) array
        R of each component.
    noise : Noise
        Its variance, if it is known, is that of one target.
    """
    m = block.error.shape[1]
    proper = np.ones(rss.shape, dtype=bool)
    scale2: Any
    own: Any
    if noise.variance is not None:
        scale2 = own = noise.variance.item()
        df = np.inf
    else:
        rest = 1.0 - block.quadratic / rss
        proper = rest > EXACT
        rest, n = rss * np.where(proper, rest, 1.0), noise.count
        if noise.at_mode:
            scale2, own, df = rest / (n + 2 - m), rss / (n + 2), np.inf
        else:
            scale2, own, df = rest / (n - m), rss / n, n - m
    left_out = _log_density(block.quadratic, -block.log_det, scale2, df, m)
    within = _log_density(block.quadratic_within, block.log_det_within, own, df + m, m)
    return left_out, within, proper


def _log_density(quadratic: FloatArray, log_det: FloatArray, scale2: Any, df: float, m: int) -> FloatArray:
    """Log density of a t distribution in m dimensions, or with infinite `df` of a normal one."""
    base = -0.5 * (log_det + m * np.log(scale2))
    if np.isinf(df):
        normal: FloatArray = base - 0.5 * m * np.log(2 * np.pi) - 0.5 * quadratic / scale2
        return normal
    constant = gammaln((df + m) / 2) - gammaln(df / 2) - 0.5 * m * np.log(df * np.pi)
    out: FloatArray = constant + base - (df + m) / 2 * np.log1p(quadratic / (df * scale2))
    return out


@dataclass(frozen=True, slots=True)
class GroupDensities:
    """What K components say of G groups: log densities (K, G) without and with them, and d of all rows (K, n)."""

    left_out: FloatArray
    within: FloatArray
    error: FloatArray

    @classmethod
    def joined(cls, given: Sequence[GroupDensities]) -> GroupDensities:
        """What several components say."""
        names = ("left_out", "within", "error")
        return cls(*(np.concatenate([getattr(each, name) for each in given]) for name in names))


def densities_of_groups(
    groups: Sorted, blocks: Callable[[IntArray, IntArray], Block], rss: FloatArray, noise: Noise
) -> GroupDensities:
    """What K components say of all groups.

    Parameters
    ----------
    groups : Sorted
    blocks : callable
        Of some equally large groups and their rows in order (G, m): the block of all of them at all components, those
        of the first component first.
    rss : (K,) array
    noise : Noise

    Raises
    ------
    NoDensityError
        If other rows do not determine the prediction of a group, or are fitted exactly.
    """
    count, n = rss.size, groups.order.size
    left_out, within = np.empty((2, count, len(groups.slices)))
    error = np.empty((count, n))
    for some in groups.alike(count):
        at = np.stack([np.arange(n)[groups.slices[g]] for g in some])
        try:
            block = blocks(some, at)
        except np.linalg.LinAlgError:
            raise NoDensityError(int(some[0]), LEVERAGE_ONE) from None
        first, second, proper = densities(block, np.repeat(rss, some.size), noise)
        if not proper.all():
            raise NoDensityError(int(some[np.flatnonzero(~proper)[0] % some.size]), FITTED)
        left_out[:, some], within[:, some] = first.reshape(count, -1), second.reshape(count, -1)
        error[:, at] = block.error.reshape(count, *at.shape)
    return GroupDensities(left_out, within, error)


class Mixing:
    """The mixture over components, which come in parts."""

    def __init__(self, groups: Sorted) -> None:
        size = len(groups.slices)
        self.order, self.codes, self.slices = groups.order, groups.codes, groups.slices
        self.total, self.second, self.within = (np.full(size, -np.inf) for _ in range(3))
        self.error = np.zeros(groups.order.size)

    def add(self, log_w: FloatArray, given: GroupDensities) -> None:
        """Add components with log weights (K,)."""
        ratio = log_w[:, None] - given.left_out
        total = np.logaddexp(self.total, logsumexp(ratio, axis=0))
        self.error *= np.exp(self.total - total)[self.codes]
        self.error += (np.exp(ratio - total)[:, self.codes] * given.error).sum(axis=0)
        self.total = total
        self.second = np.logaddexp(self.second, logsumexp(ratio - given.left_out, axis=0))
        self.within = np.logaddexp(self.within, logsumexp(log_w[:, None] + given.within, axis=0))

    def found(self, design: Design) -> LeftOut:
        """The predictions, on the user's scale of a target."""
        unit = design.row_units
        per_group = np.add.reduceat(np.log(unit)[self.order], [each.start for each in self.slices])
        error = np.empty(self.error.size)
        error[self.order] = self.error
        efficiency = np.exp(2 * self.total - self.second)
        return LeftOut(-self.total - per_group, self.within - per_group, None, error * unit, efficiency)


def groups_left_out(ridges: Iterable[tuple[float, OneTarget]], codes: IntArray) -> LeftOut:
    """Predictions of each group of rows from the other rows, by a mixture of ridges.

    Parameters
    ----------
    ridges : iterable of (float, OneTarget)
        Their weights, which are positive and sum to 1.
    codes : (n,) int array
        The group of each row, numbers from 0 of which each occurs.

    Returns
    -------
    LeftOut
        With an entry for each group; `error` for each row.

    Raises
    ------
    NoDensityError
        For a group that has none, by its position.
    """
    groups = Sorted.of(codes)
    mixing = Mixing(groups)
    for weight, ridge in ridges:
        design, spectrum, mixture, own = ridge.design, ridge.spectrum, ridge.mixture, ridge.noise
        check_groups(design, groups, own)
        keep = mixture.weight[:, 0] > 0
        log_t2, rss = mixture.log_t2[keep, 0], penalized_rss(spectrum, mixture.log_t2)[keep, 0]
        if own.variance is None and not (rss > 0).all():
            raise NoDensityError(None, NO_NOISE)
        if spectrum.left is None and spectrum.rank:
            spectrum = ridge.orthonormal().spectrum
        f, log_w = complement(spectrum.s, log_t2), np.log(weight * mixture.weight[keep, 0])
        of_rows = _ridge_rows(groups, design, spectrum)
        for nodes in even_parts(rss.size, max(1, ELEMENTS // design.n)):
            blocks = partial(_of_ridge, *of_rows, spectrum.rank == design.nu, f[nodes], spectrum.z[:, 0])
            mixing.add(log_w[nodes], densities_of_groups(groups, blocks, rss[nodes], own))
    return mixing.found(design)


def _ridge_rows(groups: Sorted, design: Design, spectrum: Spectrum) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Rows of Q and U, and what these leave of y, in the order of the groups."""
    u = np.zeros((design.n, spectrum.rank))
    for rows, piece in left_rows(design, spectrum):
        u[rows] = piece
    rest = design.y[:, 0] - design.block.q @ (design.block.q.T @ design.y[:, 0]) - u @ spectrum.z[:, 0]
    return design.block.q[groups.order], u[groups.order], rest[groups.order]


def _of_ridge(
    q: FloatArray,
    u: FloatArray,
    rest: FloatArray,
    saturated: bool,
    f: FloatArray,
    z: FloatArray,
    some: IntArray,
    at: IntArray,
) -> Block:
    """The block of some equally large groups with the rows `at` (G, m) at ridges that shrink by 1 - f (K, r)."""
    return block_of_ridges(q[at], u[at], rest[at], f, z, saturated=saturated)


def check_groups(design: Design, groups: Sorted, noise: Noise) -> None:
    """Refuse groups that the other rows say too little of."""
    free = noise.count + 2 * noise.at_mode - groups.sizes
    if noise.variance is None and not (free > 0).all():
        raise NoDensityError(int(free.argmin()), ALONE)
    for g, part in enumerate(groups.slices):
        own = design.block.q[groups.order[part]]
        if own.size and np.linalg.norm(own, 2) ** 2 >= 1.0 - FULL_LEVERAGE:
            raise NoDensityError(g, UNDETERMINED)
