r"""The equations where a factor has so many levels that its dummies are never dense.

The block of one band in G = X'X is diagonal, since each row has one of its levels: it is eliminated. With E the
columns of that band, D = E'E, t their variance, B the other columns X_k and an orthonormal basis Q of the unpenalised
ones, which stays among them since projecting it out would fill D, and with h = 1 + t D,

    V_E = I + t E E',   F = B'V_E^-1 B = (B - E D^-1 E'B)'(B - E D^-1 E'B) + B'E (D h)^-1 E'B,
    S = A'F A + 1 = L L',   log|V| = sum log h + log|S|

for coefficients A u of B, u ~ N(0, s2 I) but for those of Q, which are flat (there the 1 is left out). The first part
of F, what is left of B within levels, depends on nothing; both are sums of squares, so that nothing cancels, however
small or large t is. S is dense, with as many rows as there are other columns. With U = A S^-1 A' the covariance of
the coefficients of B, and c_s the row of a level in E'B,

    cov(b_s, b_B) = -t / h_s c_s U,   var b_s = t / h_s + (t / h_s)^2 c_s U c_s'   (times s2).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from scipy.linalg import cho_solve, cholesky, solve_triangular
from scipy.linalg.lapack import dpotri

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.bands.covariance import Factors, Terms
from pybayesridge.compiled.library import built
from pybayesridge.design.design import Design
from pybayesridge.linalg.blocks import even_parts
from pybayesridge.ridge.spectrum import EIGENVALUE_NOISE

FULL = 0.25
"""Columns with a larger share of rows that are not zero are dense."""

FILLED = 0.1
"""A table of two factors with a larger share of cells that are not empty is dense."""

VANISHES = 1e-10
"""A band that Z explains but for a smaller share of its sum of squares does not vary."""

SMALL = 1e-4
"""Where a variance times the largest sum of squares of a column is smaller, I - S^-1 has cancelled."""

MOST_IN_ROW = 8
"""Rows with more columns of groups than this are no rows of data, but combinations of coefficients."""

FEW = 256
"""So many rows are solved for one by one."""

CHUNK = 1 << 22
"""Numbers in covariances of levels with the other columns that are held at once."""

Table = Any
"""A (rows, columns) array or csr matrix."""


@dataclass(frozen=True, slots=True)
class SplitRows:
    """What multiplies the coefficients in rows, by the parts of the equations.

    Attributes
    ----------
    eliminated : (m, p1) csr matrix
    grouped : (m, columns of other groups) csr matrix
    dense : (m, dense columns and k) array
        The unpenalised columns in coordinates of Q.
    """

    eliminated: Any
    grouped: Any
    dense: FloatArray

    def __getitem__(self, which: IntArray) -> SplitRows:
        """Some of the rows."""
        return SplitRows(self.eliminated[which], self.grouped[which], self.dense[which])

    @property
    def width(self) -> int:
        """Numbers that a row takes, about."""
        return self.dense.shape[1] + MOST_IN_ROW

    @property
    def of_data(self) -> bool:
        """Whether each row has one of the eliminated levels at most, and few other groups."""
        counts = [np.diff(part.indptr).max(initial=0) for part in (self.eliminated, self.grouped)]
        return bool(counts[0] <= 1 and counts[1] <= MOST_IN_ROW)


@dataclass(frozen=True, slots=True)
class Eliminated:
    """The columns of all terms, those of one band eliminated; see :class:`pybayesridge.bands.system.System`.

    Columns are on the scale of the prior. Of the others those of groups come first, then dense ones, from which Z was
    taken, then Q.

    Attributes
    ----------
    terms : Terms
        Of all columns.
    term : int
        Position of the eliminated one.
    others : Terms
        The other terms, columns being positions among the other columns.
    levels, rest : (p1,), (p2,) int arrays
        Positions of the eliminated and of the other columns.
    size : (p1,) array
        D.
    grouped : (p1, columns of other groups) array or csr matrix
        Part of E'B.
    dense : (p1, dense columns and k) array
        The rest of E'B.
    within : (p2 + k, p2 + k) array
        Cross-products within levels.
    whole : (p2 + k, p2 + k) array
        B'B.
    on_q : (p, k) array
        X'Q; zero for dense columns.
    root : (k, k) array
        Upper triangular: rows of Z times its inverse are rows in coordinates of Q.
    taken : (k, dense columns) array
        Coefficients on Z of the dense columns, on the scale of the prior.
    xty : (p, q) array
    """

    terms: Terms
    term: int
    others: Terms
    levels: IntArray
    rest: IntArray
    size: FloatArray
    grouped: Table
    dense: FloatArray
    within: FloatArray
    whole: FloatArray
    on_q: FloatArray
    root: FloatArray
    taken: FloatArray
    xty: FloatArray

    z_apart: ClassVar[bool] = False
    drop: ClassVar[float] = 10.0
    aim: ClassVar[float] = 40.0
    spare: ClassVar[float] = 1.0
    seen: ClassVar[float] = 1e-4
    slope: ClassVar[float] = 1e-2

    @classmethod
    def of(cls, design: Design, bands: list[tuple[int, ...]], columns: list[IntArray], band: int) -> Eliminated:
        """The equations of a design with sparse columns, which are on the scale of the prior.

        Parameters
        ----------
        design : Design
        bands : list of tuples of int
            Positions of the bands of each term.
        columns : list of (q, L) int arrays
            Positions of their columns.
        band : int
            The band that is eliminated: a term of its own, of whose columns each row has one at most.
        """
        term = bands.index((band,))
        x = sparse.csc_matrix(design.x[:, design.columns], dtype=np.float64) @ sparse.diags(1.0 / design.scale)
        x = sparse.csc_matrix(x if design.block.sqrt_w is None else sparse.diags(design.block.sqrt_w) @ x)
        at = columns[term][0]
        own = np.zeros(design.p, dtype=bool)
        own[at] = True
        full = ~own & (np.diff(x.indptr) > FULL * design.n)
        groups, plain = np.flatnonzero(~own & ~full), np.flatnonzero(full)
        q = design.block.q
        free = _outside(design, plain)
        beside = np.column_stack([free, q])
        e, g = sparse.csr_matrix(x[:, at]), sparse.csr_matrix(x[:, groups])
        size = np.asarray(e.multiply(e).sum(axis=0)).ravel()
        cross, dense = sparse.csr_matrix(e.T @ g), np.asarray(e.T @ beside)
        inside = beside - e @ (dense / size[:, None])
        of_groups = (g.T @ g).toarray()
        cross.sort_indices()
        between = sparse_square(cross, 1.0 / size)
        table: Table = cross
        if cross.nnz > FILLED * max(cross.shape[0] * cross.shape[1], 1):
            table = cross.toarray()
        rest = np.concatenate([groups, plain])
        place = np.full(design.p, -1)
        place[rest] = np.arange(rest.size)
        on_q = np.zeros((design.p, design.block.k))
        on_q[~full] = np.asarray(x[:, ~full].T @ q)
        xty = np.zeros((design.p, design.q))
        for part, some in design.parts():
            xty[:, part] = np.asarray(x.T @ some.y)
            xty[plain, part] = free.T @ some.y
        whole = _square(of_groups, np.asarray(g.T @ beside), beside.T @ beside)
        products = []
        for t, each in enumerate(columns):
            if t == term:
                products.append(np.array([[_left(size.sum(), on_q[at], on_q[at])]]) / design.n)
                continue
            raw = [[whole[place[i], place[j]].sum() for j in each] for i in each]
            left = [
                [_left(r, on_q[i], on_q[j]) for r, j in zip(row, each, strict=True)]
                for row, i in zip(raw, each, strict=True)
            ]
            products.append(np.array(left) / design.n)
        terms = Terms(tuple(bands), tuple(columns), tuple(products))
        others = Terms(
            tuple(each for t, each in enumerate(bands) if t != term),
            tuple(place[each] for t, each in enumerate(columns) if t != term),
            tuple(each for t, each in enumerate(products) if t != term),
        )
        taken = np.zeros((design.block.k, plain.size))
        if design.projection is not None:
            taken += design.projection[:, plain] / design.scale[plain]
        if design.block.ones is not None:
            taken += np.outer(design.block.ones, design.center[plain] / design.scale[plain])
        within = _square(of_groups - between, np.asarray(g.T @ inside), inside.T @ inside)
        return cls(terms, term, others, at, rest, size, table, dense, within, whole, on_q, design.block.r, taken, xty)

    @property
    def p(self) -> int:
        """Number of columns."""
        return self.levels.size + self.rest.size

    @property
    def diagonal(self) -> FloatArray:
        """Sums of squares of the columns, Z projected out, (p,)."""
        out = np.empty(self.p)
        out[self.levels], out[self.rest] = self.size, np.diag(self.whole)[: self.rest.size]
        return out - (self.on_q**2).sum(axis=1)

    @property
    def gram(self) -> FloatArray:
        """X'X, Z projected out, (p, p): dense, for those who do not eliminate."""
        out, groups, p2 = np.zeros((self.p, self.p)), self.grouped.shape[1], self.rest.size
        out[self.levels, self.levels] = self.size
        out[np.ix_(self.levels, self.rest)] = np.hstack([_as_array(self.grouped), self.dense[:, : p2 - groups]])
        out[np.ix_(self.rest, self.levels)] = out[np.ix_(self.levels, self.rest)].T
        out[np.ix_(self.rest, self.rest)] = self.whole[:p2, :p2]
        return out - self.on_q @ self.on_q.T

    def strength(self, columns: IntArray) -> float:
        """Root of the sum of squares of the products of some columns, which are of one band; Z is left in."""
        if np.array_equal(columns, self.levels):
            return float(np.linalg.norm(self.size))
        place = np.searchsorted(np.sort(self.rest), columns)
        own = np.argsort(self.rest)[place]
        return float(np.linalg.norm(self.whole[np.ix_(own, own)]))

    def squares(self, b: FloatArray) -> FloatArray:
        """``|X b|^2`` for b (p, m), (m,)."""
        e, rest = b[self.levels], b[self.rest]
        beside = np.vstack([rest, np.zeros((self.root.shape[0], b.shape[1]))])
        own = self.size @ e**2 + 2 * (e * self.times_rest(beside)).sum(axis=0)
        own += (beside * (self.whole @ beside)).sum(axis=0) - ((self.on_q.T @ b) ** 2).sum(axis=0)
        return np.maximum(own, 0.0)

    def times_rest(self, b: FloatArray) -> FloatArray:
        """``E'B b`` for b (p2 + k, m)."""
        groups = self.grouped.shape[1]
        out: FloatArray = np.asarray(self.grouped @ b[:groups]) + self.dense @ b[groups:]
        return out

    def times_eliminated(self, b: FloatArray) -> FloatArray:
        """``B'E b`` for b (p1, m)."""
        return np.vstack([np.asarray(self.grouped.T @ b), self.dense.T @ b])

    def between(self, weight: FloatArray) -> FloatArray:
        """``B'E diag(weight) E'B`` for weights (p1,), (p2 + k, p2 + k)."""
        if sparse.issparse(self.grouped):
            square = sparse_square(self.grouped, weight)
        else:
            square = self.grouped.T @ (self.grouped * weight[:, None])
        scaled_dense = self.dense * weight[:, None]
        return _square(square, np.asarray(self.grouped.T @ scaled_dense), self.dense.T @ scaled_dense)

    def with_rest(self, factors: Factors) -> Factors:
        """The A of the other terms."""
        return tuple(factor for t, factor in enumerate(factors) if t != self.term)

    def roots(self, factors: Factors) -> FloatArray | None:
        """The diagonal of A, (p2 + k,), 1 of Q; None where effects are correlated."""
        if any(len(factor) > 1 for factor in factors):
            return None
        out = np.ones(len(self.whole))
        for (columns,), factor in zip(self.others.columns, self.with_rest(factors), strict=True):
            out[columns] = factor[0, 0]
        return out

    def times_factors(self, a: FloatArray, factors: Factors) -> FloatArray:
        """``a A`` for a (m, p2 + k), A being that of the other terms; nothing happens to Q."""
        roots = self.roots(factors)
        if roots is not None:
            return a * roots
        p2, out = self.rest.size, a.copy()
        out[:, :p2] = self.others.times_factors(a[:, :p2], self.with_rest(factors))
        return out

    def coefficients(self, u: FloatArray, factors: Factors) -> FloatArray:
        """``A u`` for u (p2 + k, m), likewise."""
        roots = self.roots(factors)
        if roots is not None:
            return u * roots[:, None]
        p2, out = self.rest.size, u.copy()
        out[:p2] = self.others.coefficients(u[:p2], self.with_rest(factors))
        return out

    def at(self, factors: Factors, target: int) -> EliminatedSolved:
        """The equations at given covariances."""
        root = float(factors[self.term][0, 0])
        h = 1 + root**2 * self.size
        s = self._scaled(factors, 1.0 / (self.size * h))
        lower = cholesky(s.T, lower=True, overwrite_a=True, check_finite=False)
        right = self.terms.times_factors(self.xty[None, :, target], factors)[0]
        found = EliminatedSolved(self, factors, target, root, h, lower, right, right)
        return replace(found, v=found.solve(right))

    def _scaled(self, factors: Factors, weight: FloatArray) -> FloatArray:
        """S, of which the upper triangle is right, from the weights (p1,) of ``B'E diag(weight) E'B``."""
        roots, penalized = self.roots(factors), np.arange(self.rest.size)
        if roots is not None:
            s = self.upper(roots, weight)
        else:
            s = self.times_factors(self.within + self.between(weight), factors).T
            s = self.times_factors(s, factors)
        s[penalized, penalized] += 1.0
        return s

    def upper(self, roots: FloatArray, weight: FloatArray) -> FloatArray:
        """F, rows and columns times `roots` (p2 + k,), of which the upper triangle is right, by weights likewise."""
        code, groups = built(), self.grouped.shape[1]
        if code is None or not is_plain(self.grouped):
            out: FloatArray = roots[:, None] * (self.within + self.between(weight)) * roots
            return out
        s = sparse_square(self.grouped, weight, len(self.within))
        scaled_dense = self.dense * weight[:, None]
        s[:groups, groups:] = np.asarray(self.grouped.T @ scaled_dense)
        s[groups:, groups:] = self.dense.T @ scaled_dense
        code.groups_scaled(roots.ctypes.data, self.within.ctypes.data, len(s), 0, s.ctypes.data)
        return s

    def forms(self, u: FloatArray) -> FloatArray:
        """``c_s U c_s'`` of all eliminated levels for u (p2 + k, p2 + k), (p1,)."""
        groups, dense = self.grouped.shape[1], self.dense
        beside = 2 * np.asarray(self.grouped @ u[:groups, groups:]) + dense @ u[groups:, groups:]
        own = u[:groups, :groups]
        if sparse.issparse(self.grouped):
            of_groups = sparse_forms(self.grouped, np.ascontiguousarray(own))
        else:
            of_groups = ((self.grouped @ own) * self.grouped).sum(axis=1)
        out: FloatArray = of_groups + (beside * dense).sum(axis=1)
        return out

    def rows(self, design: Design, x_rows: Any, z_rows: FloatArray) -> SplitRows:
        """What multiplies the coefficients, from rows of the columns (m, p) and of Z (m, k) on the user's scale."""
        x = sparse.csr_matrix(x_rows) @ sparse.diags(1.0 / design.scale)
        x = sparse.csc_matrix(x)
        groups = self.grouped.shape[1]
        plain = x[:, self.rest[groups:]].toarray() - z_rows @ self.taken
        of_q = z_rows
        if z_rows.shape[1]:
            of_q = solve_triangular(self.root, z_rows.T, trans="T", check_finite=False).T
        return SplitRows(
            sparse.csr_matrix(x[:, self.levels]),
            sparse.csr_matrix(x[:, self.rest[:groups]]),
            np.column_stack([plain, of_q]),
        )

    def centers(self, mean: FloatArray, rows: SplitRows) -> FloatArray:
        """Means in rows (m) for coefficients `mean` (M, p), (M, m)."""
        groups = self.grouped.shape[1]
        beside = np.hstack([mean[:, self.rest[groups:]], -(mean @ self.on_q)])
        eliminated = np.asarray(rows.eliminated @ mean[:, self.levels].T).T
        grouped = np.asarray(rows.grouped @ mean[:, self.rest[:groups]].T).T
        return eliminated + grouped + beside @ rows.dense.T


@dataclass(frozen=True, slots=True)
class EliminatedSolved:
    """The equations at given covariances, for one target in units of its norm.

    Attributes
    ----------
    system : Eliminated
    factors : tuple of (q, q) arrays
    target : int
    root : float
        Root of t.
    h : (p1,) array
    lower : (p2 + k, p2 + k) array
        L.
    right, v : (p,) arrays
        ``A'X'y``, and the u whose ``A u`` are the posterior means of the coefficients.
    """

    system: Eliminated
    factors: Factors
    target: int
    root: float
    h: FloatArray
    lower: FloatArray
    right: FloatArray
    v: FloatArray

    @property
    def log_determinant(self) -> float:
        """``log|V|``."""
        return float(np.log(self.h).sum()) + 2.0 * float(np.log(np.diag(self.lower)).sum())

    @property
    def mean(self) -> FloatArray:
        """``E b``, (p,)."""
        return self.system.terms.coefficients(self.v[:, None], self.factors)[:, 0]

    @property
    def left(self) -> float:
        """R."""
        return 1.0 - float(self.right @ self.v)

    @property
    def loss(self) -> float:
        """Relative error, about, of the solutions."""
        pivots = np.concatenate([np.sqrt(self.h), np.diag(self.lower)])
        return float((pivots.max() / pivots.min()) ** 2) * EIGENVALUE_NOISE

    def solve(self, right: FloatArray) -> FloatArray:
        """The solution u (p,) of ``(A'X'X A + 1) u = right``, Z projected out."""
        system, out = self.system, np.empty(right.size)
        of_e = right[system.levels]
        beside = self._beside(right[system.rest])
        beside -= self._rotated(system.times_eliminated((self.root * of_e / self.h)[:, None]))[:, 0]
        v = cho_solve((self.lower, True), beside, check_finite=False)
        b = system.coefficients(v[:, None], self.factors)
        out[system.rest] = v[: system.rest.size]
        out[system.levels] = (of_e - self.root * system.times_rest(b)[:, 0]) / self.h
        return out

    def _beside(self, rest: FloatArray) -> FloatArray:
        """Numbers of the other columns and zeros of Q."""
        return np.concatenate([rest, np.zeros(self.lower.shape[0] - rest.size)])

    def _rotated(self, b: FloatArray) -> FloatArray:
        """``A'b`` for b (p2 + k, m)."""
        out: FloatArray = self.system.times_factors(b.T, self.factors).T
        return out

    def _inverse(self) -> FloatArray:
        """``S^-1``, (p2 + k, p2 + k)."""
        inverse, info = dpotri(self.lower, lower=1)
        if info:
            raise np.linalg.LinAlgError("the equations of the columns are singular")
        out: FloatArray = inverse + inverse.T
        out[np.diag_indices_from(out)] /= 2
        return out

    def _covariance(self, inverse: FloatArray) -> FloatArray:
        """U."""
        roots = self.system.roots(self.factors)
        if roots is not None:
            out: FloatArray = roots[:, None] * inverse
            out *= roots
            return out
        half = self.system.coefficients(inverse, self.factors)
        return self.system.coefficients(half.T, self.factors)

    def _spread(self, covariance: FloatArray) -> float:
        """Sum over levels of ``c_s U c_s' / h_s^2``."""
        return float((self.system.forms(covariance) / self.h**2).sum())

    @property
    def trace(self) -> float:
        """Trace of the hat matrix ``I - H^-1``."""
        inverse = self._inverse()
        p2 = self.system.rest.size
        own = (1 - 1 / self.h).sum() - self.root**2 * self._spread(self._covariance(inverse))
        return float(own) + p2 - float(np.diag(inverse)[:p2].sum())

    def sensitivities(self, weight: float) -> list[FloatArray]:
        """Derivatives as those of :meth:`pybayesridge.bands.system.Solved.sensitivities`."""
        system, inverse = self.system, self._inverse()
        xty = system.xty[:, self.target]
        mean = self.mean
        b = np.concatenate([mean[system.rest], -(mean @ system.on_q)])
        of_rest = system.times_rest(b[:, None])[:, 0]
        of_e = (xty[system.levels] - of_rest) / self.h
        beside = self._beside(xty[system.rest]) - system.within @ b
        taken = (self.root**2 * xty[system.levels] + of_rest / system.size) / self.h
        beside -= system.times_eliminated(taken[:, None])[:, 0]
        trace = float((system.size / self.h).sum()) - self._spread(self._covariance(inverse))
        of_eliminated = np.array([[-0.5 * trace + weight * float(of_e @ of_e)]])
        out = [
            self._of_term(columns, factor, inverse, beside, weight)
            for columns, factor in zip(system.others.columns, system.with_rest(self.factors), strict=True)
        ]
        out.insert(system.term, of_eliminated)
        return out

    def _of_term(
        self,
        columns: IntArray,
        factor: FloatArray,
        inverse: FloatArray,
        r: FloatArray,
        weight: float,
    ) -> FloatArray:
        """The derivative of one of the other terms."""
        q = len(columns)
        flat = columns.ravel()
        if q == 1:
            t = float(factor[0, 0]) ** 2
            if t * float(np.diag(self.system.whole)[flat].max()) > SMALL:
                trace = (flat.size - float(np.diag(inverse)[flat].sum())) / t
                return np.array([[-0.5 * trace + weight * float(r[flat] @ r[flat])]])
        schur = self.system.within + self.system.between(1.0 / (self.system.size * self.h))
        half = solve_triangular(self.lower, self._rotated(schur[:, flat]), lower=True, check_finite=False)
        half = half.reshape(-1, *columns.shape)
        found = np.empty((q, q))
        for i in range(q):
            for j in range(q):
                p = schur[columns[i], columns[j]] - np.einsum("rl,rl->l", half[:, i], half[:, j])
                found[i, j] = -0.5 * p.sum() + weight * float(r[columns[i]] @ r[columns[j]])
        return found

    def halves(self, rows: SplitRows) -> FloatArray:
        """Numbers for each row, (p + k, m), the squares of whose columns are variances relative to s2."""
        own = rows.eliminated.toarray().T * (self.root / np.sqrt(self.h))[:, None]
        return np.vstack([own, self._half_of_rest(rows)])

    def _half_of_rest(self, rows: SplitRows) -> FloatArray:
        scaled = rows.eliminated @ sparse.diags(self.root**2 / self.h)
        beside = np.hstack([rows.grouped.toarray(), rows.dense])
        groups = rows.grouped.shape[1]
        beside[:, :groups] -= _as_array(scaled @ self.system.grouped)
        beside[:, groups:] -= scaled @ self.system.dense
        right = self._rotated(beside.T)
        out: FloatArray = solve_triangular(self.lower, right, lower=True, check_finite=False)
        return out

    def row_variances(self, rows: SplitRows) -> FloatArray:
        """Variances of rows relative to s2, that of the unpenalised coefficients included, (m,)."""
        if rows.dense.shape[0] > FEW and rows.of_data:
            return self._variances_of_data(rows)
        own: FloatArray = rows.eliminated.power(2) @ (self.root**2 / self.h)
        return own + (self._half_of_rest(rows) ** 2).sum(axis=0)

    def _variances_of_data(self, rows: SplitRows) -> FloatArray:
        u, groups = self._covariance(self._inverse()), rows.grouped.shape[1]
        index, value = _in_columns(rows.grouped)
        dense = rows.dense
        out: FloatArray = ((dense @ u[groups:, groups:]) * dense).sum(axis=1)
        for i, a in zip(index, value, strict=True):
            out += 2 * a * (u[i, groups:] * dense).sum(axis=1)
            for j, b in zip(index, value, strict=True):
                out += a * b * u[i, j]
        (level,), (x,) = _in_columns(rows.eliminated, 1)
        ratio = self.root**2 / self.h[level]
        out += ratio * x**2
        x = ratio * x
        order = np.argsort(level, kind="stable")
        spread = self.system.forms(u)
        for part, of_rest in self._levels(u):
            first, last = np.searchsorted(level[order], [part.start, part.stop])
            some = order[first:last]
            at = level[some] - part.start
            cross = (of_rest[at, groups:] * dense[some]).sum(axis=1)
            for i, a in zip(index, value, strict=True):
                cross += a[some] * of_rest[at, i[some]]
            out[some] += x[some] * (x[some] * spread[part][at] - 2 * cross)
        return out

    def covariances(self, rows: SplitRows, parts: Sequence[slice]) -> Iterator[FloatArray]:
        """Covariances of the rows of each part relative to s2, (m, m), unpenalised coefficients included.

        Rows are those of data, which have few columns of groups.
        """
        system, u = self.system, self._covariance(self._inverse())
        table = sparse.hstack([sparse.csr_matrix(system.grouped), sparse.csr_matrix(system.dense)], format="csr")
        beside = sparse.hstack([rows.grouped, sparse.csr_matrix(rows.dense)], format="csr")
        ratio = self.root**2 / self.h
        for part in parts:
            own, rest = rows.eliminated[part], beside[part]
            levels = np.unique(own.indices)
            weighted = own[:, levels].multiply(ratio[levels]).tocsr()
            c = table[levels]
            # Rows less what their level has of the other columns, times U.
            half = rest @ u - weighted @ (c @ u)
            yield (rest @ half.T).T - (weighted @ (c @ half.T)).T + (weighted @ own[:, levels].T).toarray()

    def _levels(self, u: FloatArray) -> Iterator[tuple[slice, FloatArray]]:
        """For parts of the eliminated levels ``c_s U``, (m, p2 + k)."""
        system = self.system
        groups = system.grouped.shape[1]
        for part in even_parts(self.h.size, max(1, CHUNK // max(len(u), 1))):
            yield part, np.asarray(system.grouped[part] @ u[:groups]) + system.dense[part] @ u[groups:]

    def coefficient_variances(self) -> FloatArray:
        """Variances of all coefficients relative to s2, (p,)."""
        system, out = self.system, np.empty(self.v.size)
        u = self._covariance(self._inverse())
        out[system.rest] = np.diag(u)[: system.rest.size]
        ratio = self.root**2 / self.h
        out[system.levels] = ratio + ratio**2 * system.forms(u)
        return out

    def draws(self, rng: np.random.Generator, size: int) -> FloatArray:
        """Deviations of coefficients from their mean, relative to s; (p, size)."""
        system, out = self.system, np.empty((self.v.size, size))
        own = rng.standard_normal((self.h.size, size)) / np.sqrt(self.h)[:, None]
        beside = rng.standard_normal((len(self.lower), size))
        v = solve_triangular(self.lower, beside, lower=True, trans="T", check_finite=False)
        b = system.coefficients(v, self.factors)
        out[system.levels] = self.root * (own - self.root * system.times_rest(b) / self.h[:, None])
        out[system.rest] = b[: system.rest.size]
        return out


def is_plain(table: Table) -> bool:
    """Whether compiled code takes a table: a csr matrix with small numbers of columns, in order."""
    return bool(sparse.issparse(table) and table.indices.dtype == np.int32 and table.has_canonical_format)


def sparse_square(table: Any, weight: FloatArray, size: int | None = None) -> FloatArray:
    """``table' diag(weight) table`` for a csr matrix and weights of its rows.

    Where there is compiled code, optionally its upper triangle alone, in the first columns of a larger matrix of
    zeros.
    """
    code = built()
    if code is None or not is_plain(table):
        return np.asarray((table.T @ sparse.csr_matrix(table.multiply(weight[:, None]))).toarray())
    width = table.shape[1] if size is None else size
    out: FloatArray = np.zeros((width, width))
    arrays = (table.indptr, table.indices, table.data, np.ascontiguousarray(weight))
    places = (each.ctypes.data for each in arrays)
    code.groups_square(*places, table.shape[0], width, size is None, out.ctypes.data)
    return out


def sparse_forms(table: Any, u: FloatArray) -> FloatArray:
    """``c'u c`` for each row c of a csr matrix, u (columns, columns) being symmetric and contiguous."""
    code = built()
    if code is None or not is_plain(table):
        return np.asarray(table.multiply(table @ u).sum(axis=1)).ravel()
    rows, width = table.shape
    out: FloatArray = np.empty(rows)
    arrays = (table.indptr, table.indices, table.data, u)
    code.groups_forms(*(each.ctypes.data for each in arrays), rows, width, out.ctypes.data)
    return out


def _outside(design: Design, plain: IntArray) -> FloatArray:
    """Dense columns on the scale of the prior, weighted, Z projected out, (n, m)."""
    given = design.x[:, design.columns[plain]].toarray().astype(np.float64)
    return design.block.residual(design.block.weigh((given - design.center[plain]) / design.scale[plain]))


def _left(raw: float, first: FloatArray, second: FloatArray) -> float:
    """A sum of products of columns less what Z takes from it; 0 where hardly anything is left."""
    left = float(raw - (first * second).sum())
    return left if abs(left) > VANISHES * abs(raw) else 0.0


def _square(groups: FloatArray, between: FloatArray, dense: FloatArray) -> FloatArray:
    """A symmetric matrix of its parts."""
    return np.block([[groups, between], [between.T, dense]])


def _as_array(table: Table) -> FloatArray:
    out: FloatArray = table.toarray() if sparse.issparse(table) else np.asarray(table)
    return out


def _in_columns(rows: Any, least: int = 0) -> tuple[list[IntArray], list[FloatArray]]:
    """Positions and values of the entries of each row of a csr matrix: the first of each, the second, and so on."""
    counts = np.diff(rows.indptr)
    positions, values = [], []
    for j in range(max(int(counts.max(initial=0)), least)):
        has = counts > j
        at, value = np.zeros(counts.size, dtype=np.intp), np.zeros(counts.size)
        at[has] = rows.indices[rows.indptr[:-1][has] + j]
        value[has] = rows.data[rows.indptr[:-1][has] + j]
        positions.append(at)
        values.append(value)
    return positions, values
