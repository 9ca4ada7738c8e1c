r"""The equations of all penalised columns at given covariances of the effects, by a Cholesky factorisation.

With G = X'X, A the block matrix of :mod:`pybayesridge.bands.covariance` over the columns, H = A'G A + I = C C' and
u = C^-1 A'X'y,

    R = y'y - u'u,   log|V| = 2 log|C|,   E b = A C^-T u,   cov b = s2 (C^-1 A')'(C^-1 A')

for b ~ N(0, s2 A A') and V = I + X A A'X'. With P = X'V^-1 X = G - (C^-1 A'G)'(C^-1 A'G) and r = X'V^-1 y, the log
likelihood, the noise variance integrated out, has the derivative ``-P/2 + N/2 r r'/R``, summed over levels, in the
T = AA' of a term.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.linalg import cho_solve, cholesky, solve_triangular

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.bands.covariance import Factors, Terms
from pybayesridge.bands.lattice import DROP
from pybayesridge.design.design import Design
from pybayesridge.linalg import blas
from pybayesridge.ridge.spectrum import EIGENVALUE_NOISE

if TYPE_CHECKING:
    from pybayesridge.bands.eliminated import EliminatedSolved

CANCELS = 1e-6
"""A residual sum of squares that is a smaller part of that of y is computed from the rows."""

REFINEMENTS = 2
"""Steps by which the solution is corrected then."""


@dataclass(frozen=True, slots=True)
class System:
    """The columns of all terms; Z is projected out.

    Attributes
    ----------
    terms : Terms
    gram : (p, p) array
        X'X.
    xty : (p, q) array
    """

    terms: Terms
    gram: FloatArray
    xty: FloatArray

    z_apart: ClassVar[bool] = True
    """Whether variances in rows are those given the unpenalised coefficients, whose own are added."""
    drop: ClassVar[float] = DROP
    """Fall of the log density within which points of lattices are."""
    aim: ClassVar[float] = 10.0
    """Weighted points are added until their error is so many times `tol`."""
    spare: ClassVar[float] = np.inf
    """Points that are foretold to be lower by so much more are not looked at; infinite if points cost little."""
    seen: ClassVar[float] = 1e-5
    """Nodes of smaller weight are left out of the mean of what is costly and not random."""
    slope: ClassVar[float] = 1e-5
    """Derivatives at the mode around which lattices are; they need not be at the mode itself."""

    @classmethod
    def of(cls, design: Design, bands: list[tuple[int, ...]], columns: list[IntArray]) -> System:
        """The system of a design, whose columns are on the scale of the prior."""
        square, xty = np.zeros((design.p, design.p), order="F"), np.zeros((design.p, design.q))
        for rows, piece in design.row_pieces():
            square = blas.add_square(square, piece, transposed=True)
            for part, some in design.parts():
                xty[:, part] += blas.product(piece, some.y[rows], transpose_a=True)
        gram = np.tril(square) + np.tril(square, -1).T
        cross = []
        for at in columns:
            products = [[float(gram[first, second].sum()) for second in at] for first in at]
            cross.append(np.array(products) / design.n)
        return cls(Terms(tuple(bands), tuple(columns), tuple(cross)), gram, xty)

    @property
    def diagonal(self) -> FloatArray:
        """Sums of squares of the columns, (p,)."""
        return np.diag(self.gram)

    def strength(self, columns: IntArray) -> float:
        """Root of the sum of squares of the products of some columns."""
        return float(np.sqrt((self.gram[np.ix_(columns, columns)] ** 2).sum()))

    def squares(self, b: FloatArray) -> FloatArray:
        """``|X b|^2`` for b (p, m), (m,)."""
        return np.einsum("ij,ij->j", b, self.gram @ b)

    def rows(self, design: Design, x_rows: Any, z_rows: FloatArray) -> FloatArray:
        """What multiplies the coefficients, from rows of the columns (m, p) and of Z (m, k) on the user's scale."""
        return design.rows_outside_z(x_rows, z_rows)

    def centers(self, mean: FloatArray, rows: FloatArray) -> FloatArray:
        """Means in rows (m, p) for coefficients `mean` (M, p), (M, m)."""
        out: FloatArray = mean @ rows.T
        return out

    def at(self, factors: Factors, target: int) -> Solved:
        """The system at given covariances."""
        terms = self.terms
        half = terms.times_factors(self.gram, factors)
        h = terms.times_factors(half.T, factors)
        h[np.diag_indices_from(h)] += 1.0
        lower = cholesky(h, lower=True, overwrite_a=True, check_finite=False)
        right = terms.times_factors(self.xty[None, :, target], factors)[0]
        u = solve_triangular(lower, right, lower=True, check_finite=False)
        return Solved(self, factors, target, lower, u)


@dataclass(frozen=True, slots=True)
class Solved:
    """A system at given covariances, for one target in units of its norm.

    Attributes
    ----------
    system : System
    factors : tuple of (q, q) arrays
    target : int
    lower : (p, p) array
        C.
    u : (p,) array
    """

    system: System
    factors: Factors
    target: int
    lower: FloatArray
    u: FloatArray

    @property
    def log_determinant(self) -> float:
        """``log|V|``."""
        return 2.0 * float(np.log(np.diag(self.lower)).sum())

    @property
    def mean(self) -> FloatArray:
        """``E b``, (p,)."""
        return self.system.terms.coefficients(self.v[:, None], self.factors)[:, 0]

    @property
    def left(self) -> float:
        """R."""
        return 1.0 - float(self.u @ self.u)

    @property
    def v(self) -> FloatArray:
        """The u whose ``A u`` are the posterior means of the coefficients, (p,)."""
        out: FloatArray = solve_triangular(self.lower, self.u, lower=True, trans="T", check_finite=False)
        return out

    def solve(self, right: FloatArray) -> FloatArray:
        """``H^-1 right`` for (p,)."""
        out: FloatArray = cho_solve((self.lower, True), right, check_finite=False)
        return out

    @property
    def trace(self) -> float:
        """Trace of the hat matrix ``I - H^-1``."""
        inverse = solve_triangular(self.lower, np.eye(self.u.size), lower=True, check_finite=False)
        return self.u.size - float((inverse**2).sum())

    @property
    def loss(self) -> float:
        """Relative error, about, of the solutions."""
        diagonal = np.diag(self.lower)
        return float((diagonal.max(initial=1.0) / diagonal.min(initial=1.0)) ** 2) * EIGENVALUE_NOISE

    def sensitivities(self, weight: float) -> list[FloatArray]:
        """Derivatives ``-P/2 + weight r r'`` in the T of each term, summed over levels, (q, q) each."""
        system, terms = self.system, self.system.terms
        half = solve_triangular(
            self.lower, terms.times_factors(system.gram, self.factors).T, lower=True, check_finite=False
        )
        r = system.xty[:, self.target] - half.T @ self.u
        out = []
        for at in terms.columns:
            q = len(at)
            found = np.empty((q, q))
            for i in range(q):
                for j in range(q):
                    p = system.gram[at[i], at[j]] - np.einsum("rl,rl->l", half[:, at[i]], half[:, at[j]])
                    found[i, j] = -0.5 * p.sum() + weight * float(r[at[i]] @ r[at[j]])
            out.append(found)
        return out

    def halves(self, rows: FloatArray) -> FloatArray:
        """``C^-1 A'x`` for rows x (m, p): squares of its columns are variances relative to s2, (p, m)."""
        scaled = self.system.terms.times_factors(rows, self.factors)
        out: FloatArray = solve_triangular(self.lower, scaled.T, lower=True, check_finite=False)
        return out

    def row_variances(self, rows: FloatArray) -> FloatArray:
        """Variances of rows (m, p) relative to s2, those of the unpenalised coefficients left out, (m,)."""
        out: FloatArray = (self.halves(rows) ** 2).sum(axis=0)
        return out

    def coefficient_variances(self) -> FloatArray:
        """Variances of all coefficients relative to s2, (p,)."""
        return (self.halves(np.eye(self.u.size)) ** 2).sum(axis=0)

    def draws(self, rng: np.random.Generator, size: int) -> FloatArray:
        """Deviations of coefficients from their mean, relative to s; (p, size)."""
        normal = rng.standard_normal((self.u.size, size))
        v = solve_triangular(self.lower, normal, lower=True, trans="T", check_finite=False)
        return self.system.terms.coefficients(v, self.factors)


def answer(solved: Solved | EliminatedSolved, design: Design) -> tuple[float, FloatArray]:
    """R and ``E b`` (p,), by the rows of a design of the one target where hardly anything is left of y."""
    left = solved.left
    if left > CANCELS:
        return left, solved.mean
    terms, factors, y, v = solved.system.terms, solved.factors, design.y[:, 0], solved.v
    for _ in range(REFINEMENTS):
        rest = y - design.times(terms.coefficients(v[:, None], factors))[:, 0]
        v = v + solved.solve(terms.times_factors(design.transposed_times(rest[:, None]).T, factors)[0] - v)
    b = terms.coefficients(v[:, None], factors)
    rest = y - design.times(b)[:, 0]
    return float(rest @ rest + v @ v), b[:, 0]
