"""A factorisation of the columns that are in, updated as columns come and go.

Let A be the columns that are in, ``M = X_A'X_A + k I``, and B any matrix with ``M = B B'``. The factor holds
``W = B^-1``, ``z = W c_A`` and ``H = W X_A'X`` (m, d), and for every column ``reach = c - H'z`` (X'y less what A
explains) and ``free = |x|² + k - colsums(H²)``. A column that comes in appends a row to each. A column that goes out
is moved to the last row by one Householder reflection, and the row is dropped. Both take O(m d).
"""

from __future__ import annotations

import numpy as np
from scipy.linalg.blas import dger

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.selection.collapsed import Spectrum
from pybayesridge.selection.problem import Problem


class Factor:
    """The factorisation for one chain; changed in place, since a copy of H a step would cost more than the step.

    Attributes
    ----------
    problem : Problem
    k : float
    members : list of int
        Columns that are in, in the order of W's columns.
    h : (cap, d) array
        H in its first m rows; W (cap, cap) and z (cap,) likewise.
    reach, free : (d,) arrays
        Views of the rows that the caller keeps.
    blocks : list of (G_b, b, b) arrays
        For units of b > 1 columns, ``G_jj + k I - H_j'H_j``; the units of each size in `problem.units`' order.
    """

    __slots__ = ("block_columns", "blocks", "free", "h", "k", "members", "problem", "reach", "w", "z")

    def __init__(
        self, problem: Problem, reach: FloatArray, free: FloatArray, block_columns: list[IntArray], cap: int = 8
    ) -> None:
        self.problem = problem
        self.k = 1.0
        self.members: list[int] = []
        self.h = np.empty((cap, problem.d))
        self.w = np.zeros((cap, cap))
        self.z = np.zeros(cap)
        self.reach, self.free = reach, free
        self.block_columns = block_columns
        self.blocks = [np.empty((c.shape[0], c.shape[1], c.shape[1])) for c in block_columns]

    @property
    def m(self) -> int:
        """Number of columns in."""
        return len(self.members)

    @property
    def left(self) -> float:
        """R before rounding is bounded."""
        z = self.z[: self.m]
        return self.problem.yy - float(z @ z)

    def rebuild(self, part: Spectrum, k: float) -> None:
        """Start afresh with the columns of a spectrum: no rounding errors of earlier changes are left."""
        problem, m = self.problem, part.columns.size
        self.k = k
        self._room(m)
        self.members = [int(j) for j in part.columns]
        scale = 1.0 / np.sqrt(part.values + k)
        w = part.vectors.T * scale[:, None]
        self.w[:m, :m] = w
        self.z[:m] = part.cross * scale
        h = self.h[:m]
        np.matmul(w, problem.stacked(part.columns), out=h)
        np.subtract(problem.cross, self.z[:m] @ h, out=self.reach)
        np.subtract(problem.diag + k, np.einsum("ij,ij->j", h, h), out=self.free)
        for block, columns in zip(self.blocks, self.block_columns, strict=True):
            part_h = h[:, columns]
            block[:] = own_blocks(problem, columns) - np.einsum("mgi,mgj->gij", part_h, part_h)
            block += k * np.eye(columns.shape[1])

    def append(self, j: int) -> None:
        """Let column j in."""
        m = len(self.members)
        self._room(m + 1)
        own = self.h[:m, j].copy()
        root = float(np.sqrt(max(self.problem.diag[j] + self.k - own @ own, self.k)))
        row = self.h[m]
        np.matmul(own, self.h[:m], out=row)
        np.subtract(self.problem.column(j), row, out=row)
        row *= 1.0 / root
        self.w[:m, m] = 0.0
        self.w[m, :m] = (own @ self.w[:m, :m]) / -root
        self.w[m, m] = 1.0 / root
        self.z[m] = (self.problem.cross[j] - own @ self.z[:m]) / root
        self.members.append(j)
        self._gained(row, self.z[m], -1.0)

    def remove(self, j: int) -> None:
        """Take column j out."""
        m = len(self.members)
        at = self.members.index(j)
        h, w, z = self.h[:m], self.w[:m, :m], self.z[:m]
        u = w[:, at].copy()
        u /= np.sqrt(u @ u)
        u[-1] += 1.0 if u[-1] >= 0 else -1.0
        u /= np.sqrt(u @ u)
        # In place: H's transpose lies in Fortran order.
        dger(-2.0, u @ h, u, a=h.T, overwrite_a=1)
        w -= np.multiply.outer(2.0 * u, u @ w)
        z -= (2.0 * (u @ z)) * u
        w[:, at] = w[:, -1]
        self.members[at] = self.members[-1]
        self.members.pop()
        self._gained(h[-1], z[-1], 1.0)

    def _gained(self, row: FloatArray, z: float, sign: float) -> None:
        self.reach += (sign * z) * row
        self.free += sign * row * row
        for block, columns in zip(self.blocks, self.block_columns, strict=True):
            part = row[columns]
            block += sign * part[:, :, None] * part[:, None, :]

    def _room(self, m: int) -> None:
        cap = self.z.size
        if m <= cap:
            return
        new = min(max(2 * cap, m), max(self.problem.d, m))
        old = len(self.members)
        h, w, z = np.empty((new, self.problem.d)), np.zeros((new, new)), np.zeros(new)
        h[:old], w[:old, :old], z[:old] = self.h[:old], self.w[:old, :old], self.z[:old]
        self.h, self.w, self.z = h, w, z

    def inside(self) -> tuple[FloatArray, FloatArray]:
        """``b = M^-1 c_A`` and the diagonal of ``M^-1``, each (m,), in the order of `members`."""
        m = len(self.members)
        w = self.w[:m, :m]
        return self.z[:m] @ w, np.einsum("ij,ij->j", w, w)

    def inverse(self, at: IntArray) -> FloatArray:
        """Rows and columns of ``M^-1`` of some members, (b, b)."""
        m = len(self.members)
        w = self.w[:m, :m][:, at]
        return w.T @ w


def own_blocks(problem: Problem, columns: IntArray) -> FloatArray:
    """X'X within each of the units whose columns are the rows of `columns` (G_b, b): (G_b, b, b)."""
    if problem.gram is not None:
        return problem.gram[columns[:, :, None], columns[:, None, :]]
    if problem.rows is None:
        raise AssertionError("a problem has X'X or X")
    part = problem.rows[:, columns]
    return np.einsum("ngi,ngj->gij", part, part)
