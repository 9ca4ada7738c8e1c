"""A factorisation of the columns that are in, for several chains, updated as columns come and go.

Let A be the columns that are in, ``M = X_A'X_A + k I``, and B any matrix with ``M = B B'``. Held are ``W = B^-1``,
``z = W c_A`` and ``H = W X_A'X`` (m, d), and for every column ``reach = c - H'z`` (X'y less what A explains) and
``free = |x|² + k - colsums(H²)``. A column that comes in appends a row to each. For a column that goes out, one
Householder reflection moves all that depends on it into the last row, which is dropped. Both take O(m d).
"""

from __future__ import annotations

import numpy as np
from scipy.linalg.blas import dger

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.selection.collapsed import Spectrum
from pybayesridge.selection.problem import Problem

FIRST_ROOM = 8
"""Columns in for which there is room to begin with."""


class Factors:
    """The factorisations of C chains; changed in place, since a copy of H would cost more than a step.

    Attributes
    ----------
    problem : Problem
        Its sizes and units are those of all chains.
    problems : list of C Problem
        The cross-products of each chain.
    k : (C,) array
    members : list of C lists of int
        Columns that are in, in the order of W's columns.
    member : (C, cap) int array
        The same; entries beyond a chain's own are not used.
    whole : (C, cap, d + 1 + cap) array
        H, z and W side by side; rows beyond a chain's own are 0 in z and W.
    reach, free : (C, d) arrays
    blocks : list of (C, G_b, b, b) arrays
        For units of b > 1 columns, ``G_jj + k I - H_j'H_j``; the units' columns are in `block_columns`.
    """

    __slots__ = ("block_columns", "blocks", "free", "k", "member", "members", "problem", "problems", "reach", "whole")

    def __init__(self, problem: Problem, n_chains: int, block_columns: list[IntArray]) -> None:
        d = problem.d
        self.problem, self.problems = problem, [problem] * n_chains
        self.k = np.ones(n_chains)
        self.members: list[list[int]] = [[] for _ in range(n_chains)]
        self.member = np.zeros((n_chains, FIRST_ROOM), dtype=np.intp)
        self.whole = np.zeros((n_chains, FIRST_ROOM, d + 1 + FIRST_ROOM))
        self.reach, self.free = np.zeros((n_chains, d)), np.zeros((n_chains, d))
        self.block_columns = block_columns
        self.blocks = [np.zeros((n_chains, c.shape[0], c.shape[1], c.shape[1])) for c in block_columns]

    @property
    def n_columns(self) -> IntArray:
        """Number of columns in, (C,)."""
        return np.array([len(members) for members in self.members])

    @property
    def z(self) -> FloatArray:
        """The z of all chains, (C, cap)."""
        return self.whole[:, :, self.problem.d]

    @property
    def w(self) -> FloatArray:
        """The W of all chains, (C, cap, cap)."""
        return self.whole[:, :, self.problem.d + 1 :]

    def left(self) -> FloatArray:
        """R of all chains, (C,), before rounding is bounded."""
        z = self.z
        return np.array([problem.yy for problem in self.problems]) - np.einsum("ci,ci->c", z, z)

    def inside(self) -> tuple[FloatArray, FloatArray]:
        """``b = M^-1 c_A`` and the diagonal of ``M^-1``, each (C, cap), in the order of `member`."""
        w = self.w
        return np.matmul(self.z[:, None, :], w)[:, 0], np.einsum("cij,cij->cj", w, w)

    def inverse(self, c: int, at: IntArray) -> FloatArray:
        """Rows and columns of ``M^-1`` of some members of a chain, (b, b)."""
        w = self.w[c][:, at]
        return w.T @ w

    def rebuild(self, c: int, part: Spectrum, k: float) -> None:
        """Start a chain afresh with the columns of a spectrum: rounding errors of earlier changes are gone."""
        problem, m, d = self.problems[c], part.columns.size, self.problem.d
        self._room(m)
        self.k[c] = k
        self.members[c] = part.columns.tolist()
        self.member[c, :m] = part.columns
        scale = 1.0 / np.sqrt(part.values + k)
        w, z = part.vectors.T * scale[:, None], part.cross * scale
        whole = self.whole[c]
        whole[:, d:] = 0.0
        h = w @ problem.stacked(part.columns)
        whole[:m, :d], whole[:m, d], whole[:m, d + 1 : d + 1 + m] = h, z, w
        np.subtract(problem.cross, z @ h, out=self.reach[c])
        np.subtract(problem.diag + k, np.einsum("ij,ij->j", h, h), out=self.free[c])
        for blocks, columns in zip(self.blocks, self.block_columns, strict=True):
            own = h[:, columns]
            blocks[c] = own_blocks(problem, columns) - np.einsum("mgi,mgj->gij", own, own)
            blocks[c] += k * np.eye(columns.shape[1])

    def copy_from(self, other: Factors, c: int) -> None:
        """Take over chain c of others with the same columns."""
        m = len(other.members[c])
        self._room(other.member.shape[1])
        other._room(self.member.shape[1])
        self.k[c], self.problems[c] = other.k[c], other.problems[c]
        self.members[c] = other.members[c].copy()
        self.member[c] = other.member[c]
        self.whole[c, :m] = other.whole[c, :m]
        self.whole[c, m:, self.problem.d :] = 0.0
        self.reach[c], self.free[c] = other.reach[c], other.free[c]
        for mine, its in zip(self.blocks, other.blocks, strict=True):
            mine[c] = its[c]

    def append(self, c: int, j: int) -> None:
        """Let column j in."""
        problem, d = self.problems[c], self.problem.d
        members = self.members[c]
        m = len(members)
        self._room(m + 1)
        whole = self.whole[c]
        own = whole[:m, j].copy()
        root = float(max(problem.diag[j] + self.k[c] - own @ own, self.k[c])) ** 0.5
        row = whole[m]
        # The row of [X'X, X'y, 0] less what is explained by the rows above.
        np.matmul(-own, whole[:m], out=row)
        row[:d] += problem.column(j)
        row[d] += problem.cross[j]
        row *= 1.0 / root
        whole[:m, d + 1 + m] = 0.0
        row[d + 1 + m] = 1.0 / root
        members.append(j)
        self.member[c, m] = j
        self._gained(c, row, -1.0)

    def remove(self, c: int, j: int) -> None:
        """Take column j out."""
        d, members = self.problem.d, self.members[c]
        m = len(members)
        at = members.index(j)
        whole = self.whole[c, :m]
        u = whole[:, d + 1 + at].copy()
        u *= 1.0 / float(u @ u) ** 0.5
        u[-1] += 1.0 if u[-1] >= 0 else -1.0
        # In place: the transpose of `whole` lies in Fortran order.
        dger(-2.0 / float(u @ u), u @ whole, u, a=whole.T, overwrite_a=1)
        whole[:, d + 1 + at] = whole[:, d + m]
        self.member[c, at] = members[at] = members[-1]
        members.pop()
        row = whole[-1]
        self._gained(c, row, 1.0)
        row[d:] = 0.0

    def append_each(self, chain: IntArray, column: IntArray) -> None:
        """Let a column into each of some chains, all at once: for chains of one problem without blocks."""
        problem, d = self.problem, self.problem.d
        m = self.n_columns[chain]
        self._room(int(m.max()) + 1)
        every, cap = np.arange(chain.size), self.member.shape[1]
        part = self.whole[chain]
        own = part[every, :, column]
        own[np.arange(cap) >= m[:, None]] = 0.0
        k = self.k[chain]
        root = np.sqrt(np.maximum(problem.diag[column] + k - np.einsum("am,am->a", own, own), k))
        row = np.matmul(-own[:, None, :], part)[:, 0]
        row[:, :d] += problem.stacked(column)
        row[:, d] += problem.cross[column]
        row /= root[:, None]
        row[every, d + 1 + m] = 1.0 / root
        self.whole[chain, :, d + 1 + m] = 0.0
        self.whole[chain, m] = row
        self.member[chain, m] = column
        for c, j in zip(chain.tolist(), column.tolist(), strict=True):
            self.members[c].append(j)
        self.reach[chain] -= row[:, d, None] * row[:, :d]
        self.free[chain] -= row[:, :d] ** 2

    def remove_each(self, chain: IntArray, column: IntArray) -> None:
        """Take a column out of each of some chains, all at once: for chains of one problem without blocks."""
        d, last = self.problem.d, self.n_columns[chain] - 1
        every = np.arange(chain.size)
        inside = np.arange(self.member.shape[1]) <= last[:, None]
        at = ((self.member[chain] == column[:, None]) & inside).argmax(axis=1)
        part = self.whole[chain]
        u = part[every, :, d + 1 + at]
        u /= np.sqrt(np.einsum("am,am->a", u, u))[:, None]
        u[every, last] += np.where(u[every, last] >= 0, 1.0, -1.0)
        scaled = u * (2.0 / np.einsum("am,am->a", u, u))[:, None]
        part -= scaled[:, :, None] * np.matmul(u[:, None, :], part)
        part[every, :, d + 1 + at] = part[every, :, d + 1 + last]
        row = part[every, last]
        part[every, last, d:] = 0.0
        self.whole[chain] = part
        self.member[chain, at] = self.member[chain, last]
        for c, i in zip(chain.tolist(), at.tolist(), strict=True):
            self.members[c][i] = self.members[c][-1]
            self.members[c].pop()
        self.reach[chain] += row[:, d, None] * row[:, :d]
        self.free[chain] += row[:, :d] ** 2

    def _gained(self, c: int, row: FloatArray, sign: float) -> None:
        d = self.problem.d
        z, row = float(row[d]), row[:d]
        self.reach[c] += (sign * z) * row
        if sign < 0:
            self.free[c] -= row * row
        else:
            self.free[c] += row * row
        for blocks, columns in zip(self.blocks, self.block_columns, strict=True):
            own = row[columns]
            blocks[c] += sign * own[:, :, None] * own[:, None, :]

    def _room(self, m: int) -> None:
        cap = self.member.shape[1]
        if m <= cap:
            return
        # Doubled, so that two factorisations with room for each other's columns have the same room.
        new, d = cap * 2 ** int(np.ceil(np.log2(m / cap))), self.problem.d
        n_chains = self.k.size
        whole = np.zeros((n_chains, new, d + 1 + new))
        whole[:, :cap, : d + 1 + cap] = self.whole
        member = np.zeros((n_chains, new), dtype=np.intp)
        member[:, :cap] = self.member
        self.whole, self.member = whole, member


def own_blocks(problem: Problem, columns: IntArray) -> FloatArray:
    """X'X within each of the units whose columns are the rows of `columns` (G_b, b): (G_b, b, b)."""
    if problem.gram is not None:
        return problem.gram[columns[:, :, None], columns[:, None, :]]
    if problem.rows is None:
        raise AssertionError("a problem has X'X or X")
    part = problem.rows[:, columns]
    return np.einsum("ngi,ngj->gij", part, part)
