"""Orthogonal coordinates within each group, in which EP's diagonal sites lose nothing.

The prior of a group that is in is N(0, v I), the same after any rotation of its coefficients. In the rotation in
which the group's columns are orthogonal its likelihood is a product, so that EP is exact for a group that is
orthogonal to the other columns, however correlated its own columns are.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.ep.model.least_squares import Data
from pybayesridge.ep.model.result import ColumnSites

#: Singular values within this fraction of the largest are the same.
_EQUAL = 1e-8
#: Singular values below this fraction of the largest are zero.
_NOTHING = 1e-13


@dataclass(frozen=True, slots=True)
class Rotation:
    """Rotations U of the columns of some groups: ``X U`` are the new columns, ``U u`` the old coefficients.

    Attributes
    ----------
    blocks : tuple of (ndarray (k,) of int, ndarray (k, k))
        Columns of each group, and its U.
    """

    blocks: tuple[tuple[IntArray, FloatArray], ...] = ()

    def rows(self, rows: FloatArray) -> FloatArray:
        """Rows (m, d) over the old columns as rows over the new ones."""
        if not self.blocks:
            return rows
        out = rows.copy()
        for index, u in self.blocks:
            out[:, index] = rows[:, index] @ u
        return out

    def back(self, coefficients: FloatArray) -> FloatArray:
        """New coefficients (..., d) as old ones."""
        if not self.blocks:
            return coefficients
        out = coefficients.copy()
        for index, u in self.blocks:
            out[..., index] = coefficients[..., index] @ u.T
        return out

    def unrotated(self, data: Data) -> Data:
        """The data before they were rotated; the same object where nothing is rotated."""
        if not self.blocks:
            return data
        root = np.ascontiguousarray(self.back(data.root))
        return replace(data, root=root, gram_diag=np.einsum("ij,ij->j", root, root), cross=self.back(data.cross))

    def variances(self, variances: FloatArray) -> FloatArray:
        """Variances (..., d) of the old coefficients, the new ones of a group being independent."""
        out = variances.copy()
        for index, u in self.blocks:
            out[..., index] = variances[..., index] @ (u**2).T
        return out

    def covariance(self, cov: FloatArray) -> FloatArray:
        """Covariance (d, d) of the new coefficients as that of the old ones."""
        return self.back(np.ascontiguousarray(self.back(cov).T))

    @property
    def turned(self) -> IntArray:
        """Columns that are rotated."""
        return np.concatenate([np.zeros(0, dtype=np.intp), *(index for index, _ in self.blocks)])

    def unknown(self, sites: ColumnSites) -> ColumnSites:
        """Leave out the sites of rotated columns, which mean nothing in other coordinates."""
        site1, site2 = sites.site1.copy(), sites.site2.copy()
        site1[self.turned], site2[self.turned] = 0.0, np.inf
        return ColumnSites(site1, site2)


def orthogonal_groups(data: Data, groups: IntArray | None) -> tuple[Data, Rotation]:
    """Rotate the columns within each group so that they are orthogonal.

    Where singular values are equal, the directions are those of the group's products with all columns and with the
    response, so that the answer does not depend on the order of the columns.

    Parameters
    ----------
    data : Data
        d columns.
    groups : ndarray (d,) of int or None
        Columns with equal numbers are a group.

    Returns
    -------
    data : Data
        In the new columns.
    rotation : Rotation
        The way back.
    """
    if groups is None:
        return data, Rotation()
    root = data.root.copy()
    gram_diag, cross = data.gram_diag.copy(), data.cross.copy()
    blocks, outer = [], np.zeros((0, 0))
    order = np.argsort(groups, kind="stable")
    starts = np.flatnonzero(np.diff(groups[order])) + 1
    for index in np.split(order, starts):
        if index.size < 2:
            continue
        s, u = _right_singular(data.root[:, index])
        if outer.size == 0 and _clusters(s):
            outer = data.root @ data.root.T
        for part in _clusters(s):
            u[:, part] = u[:, part] @ _told_apart(data.root[:, index] @ u[:, part], outer, data.target)
        rotated = np.where(s > _NOTHING * s[0], data.root[:, index] @ u, 0.0)
        root[:, index] = rotated
        gram_diag[index], cross[index] = np.einsum("ij,ij->j", rotated, rotated), rotated.T @ data.target
        blocks.append((index.astype(np.intp), u))
    return replace(data, root=root, gram_diag=gram_diag, cross=cross), Rotation(tuple(blocks))


def _right_singular(part: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Singular values (k,), descending, and right singular vectors (k, k) of columns (m, k)."""
    m, k = part.shape
    triangle = np.linalg.qr(part, mode="r") if m > k else part
    _, s, vt = np.linalg.svd(triangle)
    return np.concatenate([s, np.zeros(k - s.size)]), np.ascontiguousarray(vt.T)


def _clusters(s: FloatArray) -> list[slice]:
    """Runs of equal singular values that are not zero."""
    ends = np.concatenate([[0], np.flatnonzero(-np.diff(s) > _EQUAL * s[0]) + 1, [s.size]])
    runs = [slice(int(a), int(b)) for a, b in itertools.pairwise(ends)]
    return [run for run in runs if run.stop - run.start > 1 and s[run.start] > _NOTHING * s[0]]


def _told_apart(columns: FloatArray, outer: FloatArray, target: FloatArray) -> FloatArray:
    """Rotation (q, q) of equally long orthogonal columns (m, q) to the axes of what else there is."""
    with_all = columns.T @ outer @ columns
    with_target = np.outer(columns.T @ target, target @ columns)
    total = with_all / np.trace(with_all)
    if np.trace(with_target) > 0:
        total = total + with_target / np.trace(with_target)
    return np.linalg.eigh(total)[1]
