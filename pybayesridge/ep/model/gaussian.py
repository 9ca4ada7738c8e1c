"""The Gaussian side: N(A^-1 b, A^-1) with A = X'X / s2 + diag(t2), in primal or dual form.

One factorisation serves mean, marginal variances, cavity precisions, log determinant, predictive variances,
draws, and products with ``A^-1`` and its elementwise square. The dual form never builds a d x d array.
Sites may be negative as long as A is positive definite; where it is not, factorising returns None.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from scipy.linalg import blas, lapack

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.ep.model.likelihood import GaussianLikelihood

#: Below this many columns the primal form is used also when d > n: it costs nothing and is the more accurate.
_SMALL = 64
#: A site below this fraction of the column's data precision is kept out of Woodbury's formula, which cancels.
_TINY_SITE = 1e-7


def _cholesky(a: FloatArray) -> FloatArray | None:
    """Lower Cholesky factor of a matrix given by its lower triangle (overwritten), None if not definite."""
    chol, info = lapack.dpotrf(a, lower=1, clean=1, overwrite_a=1)
    return None if info else chol


@dataclass(frozen=True, slots=True)
class PrimalFactor:
    """A factorised by Cholesky in d dimensions.

    Attributes
    ----------
    t2, var, cavity2 : ndarray (d,)
        Site precisions, marginal variances, and ``1 / var - t2``.
    log_det : float
        log |A|.
    chol, inv_chol : ndarray (d, d)
        Lower Cholesky factor of A and its inverse.
    cross : ndarray (d,)
        ``X'y / s2``.
    """

    t2: FloatArray
    var: FloatArray
    cavity2: FloatArray
    log_det: float
    chol: FloatArray
    inv_chol: FloatArray
    cross: FloatArray
    _square: list[FloatArray] = field(default_factory=list)

    def mean(self, t1: FloatArray) -> FloatArray:
        """Return ``A^-1 (t1 + X'y / s2)``, shape (d,)."""
        return self.solve(t1 + self.cross)

    def solve(self, b: FloatArray) -> FloatArray:
        """Return ``A^-1 b``, shape (d,)."""
        return lapack.dpotrs(self.chol, b, lower=1)[0]

    def square(self) -> FloatArray:
        """``A^-1 o A^-1``, shape (d, d)."""
        if not self._square:
            self._square.append(self.cov() ** 2)
        return self._square[0]

    def square_times(self, v: FloatArray) -> FloatArray:
        """Return ``(A^-1 o A^-1) v``, o the elementwise product; shape (d,)."""
        return self.square() @ v

    def cov_block(self, index: IntArray) -> FloatArray:
        """Return ``A^-1`` restricted to the columns ``index`` (c,); shape (c, c)."""
        part = self.inv_chol[:, index]
        return part.T @ part

    def cov_columns(self, index: IntArray) -> FloatArray:
        """Return the columns ``index`` (c,) of ``A^-1``; shape (d, c)."""
        return self.inv_chol.T @ self.inv_chol[:, index]

    def row_var(self, rows: FloatArray) -> FloatArray:
        """Return the variances of ``rows @ w``; rows (k, d), result (k,)."""
        return np.sum((self.inv_chol @ rows.T) ** 2, axis=0)

    def draw(self, n_draws: int, rng: np.random.Generator) -> FloatArray:
        """Draw from N(0, A^-1), shape (n_draws, d)."""
        return rng.standard_normal((n_draws, self.t2.size)) @ self.inv_chol

    def cov(self) -> FloatArray:
        """Return ``A^-1``, shape (d, d)."""
        return self.inv_chol.T @ self.inv_chol


@dataclass(frozen=True, slots=True)
class DualFactor:
    """A factorised through ``K = s2 I + X_P diag(1/t2_P) X_P'`` (k x k), k rows.

    P are the sites large enough for Woodbury's formula. The few others, N (negative or tiny), enter through
    their marginal precision ``S = diag(t2_N) + X_N' K^-1 X_N``.

    Attributes
    ----------
    t2, var, cavity2 : ndarray (d,)
        Site precisions, marginal variances, and ``1 / var - t2`` (without cancellation on P).
    log_det : float
        log |A|.
    likelihood : GaussianLikelihood
    scale : ndarray (d,)
        ``t2^-1/2`` on P, zero on N.
    chol : ndarray (k, k)
        Lower Cholesky factor of K.
    half : ndarray (k, d)
        ``chol^-1 X`` with columns multiplied by ``scale`` on P, as they are on N.
    rest : ndarray (|N|,)
        Indices of N.
    rest_chol : ndarray (|N|, |N|)
        Lower Cholesky factor of S.
    bridge : ndarray (|N|, d)
        ``rest_chol^-1 J'`` where ``J S^-1 J'`` is what N adds to the covariance.
    """

    t2: FloatArray
    var: FloatArray
    cavity2: FloatArray
    log_det: float
    likelihood: GaussianLikelihood
    scale: FloatArray
    chol: FloatArray
    half: FloatArray
    rest: IntArray
    rest_chol: FloatArray
    bridge: FloatArray
    _signed: list[tuple[FloatArray, FloatArray]] = field(default_factory=list)

    def _apply(self, b: FloatArray) -> FloatArray:
        """Return the part of ``A^-1 b`` that goes through P: ``(E - E X'K^-1 X E) b``, E = diag(scale^2)."""
        inner = self.scale * b
        inner -= self._half_on_p(self.half @ inner)
        return self.scale * inner

    def _half_on_p(self, u: FloatArray) -> FloatArray:
        """``half' u`` with N left out."""
        out = self.half.T @ u
        out[self.rest] = 0.0
        return out

    def mean(self, t1: FloatArray) -> FloatArray:
        """Return ``A^-1 (t1 + X'y / s2)``, shape (d,).

        Uses the residual ``y - X E t1``, which stays small when the noise does.
        """
        inner = self.scale * t1
        resid = self.likelihood.data.target - self.likelihood.data.root @ (self.scale * inner)
        u = blas.dtrsv(self.chol, resid, lower=1)
        out = self.scale * (inner + self._half_on_p(u))
        if self.rest.size:
            b_rest = t1[self.rest] + self.half[:, self.rest].T @ u
            out += self.bridge.T @ blas.dtrsv(self.rest_chol, b_rest, lower=1)
        return out

    def solve(self, b: FloatArray) -> FloatArray:
        """Return ``A^-1 b``, shape (d,)."""
        out = self._apply(b)
        return out + self.bridge.T @ (self.bridge @ b) if self.rest.size else out

    def signed_root(self) -> tuple[FloatArray, FloatArray]:
        """Rows B (k + |N|, d) and signs (k + |N|,) with ``A^-1 = diag(scale^2) - B' diag(signs) B``."""
        if not self._signed:
            half = self.half * self.scale
            rows = np.concatenate([half, self.bridge]) if self.rest.size else half
            signs = np.ones(rows.shape[0])
            signs[half.shape[0] :] = -1.0
            self._signed.append((rows, signs))
        return self._signed[0]

    def square_times(self, v: FloatArray) -> FloatArray:
        """Return ``(A^-1 o A^-1) v``, o the elementwise product; shape (d,).

        ``(B_i' S B_j)^2`` summed over j is a quadratic form in ``B diag(v) B'``.
        """
        rows, signs = self.signed_root()
        e = self.scale**2
        middle = (rows * v) @ rows.T * np.outer(signs, signs)
        quad = np.einsum("ij,ij->j", rows, middle @ rows)
        return e * (2.0 * self.var - e) * v + quad

    def cov_block(self, index: IntArray) -> FloatArray:
        """Return ``A^-1`` restricted to the columns ``index`` (c,); shape (c, c)."""
        rows, signs = self.signed_root()
        part = rows[:, index]
        return np.diag(self.scale[index] ** 2) - part.T @ (signs[:, None] * part)

    def cov_columns(self, index: IntArray) -> FloatArray:
        """Return the columns ``index`` (c,) of ``A^-1``; shape (d, c)."""
        rows, signs = self.signed_root()
        out = -rows.T @ (signs[:, None] * rows[:, index])
        out[index, np.arange(index.size)] += self.scale[index] ** 2
        return out

    def row_var(self, rows: FloatArray) -> FloatArray:
        """Return the variances of ``rows @ w``; rows (k, d), result (k,)."""
        scaled = (rows * self.scale).T
        half = self.half.copy()
        half[:, self.rest] = 0.0
        out = np.sum(scaled**2, axis=0) - np.sum((half @ scaled) ** 2, axis=0)
        if self.rest.size:
            out += np.sum((self.bridge @ rows.T) ** 2, axis=0)
        return np.maximum(out, 0.0)

    def draw(self, n_draws: int, rng: np.random.Generator) -> FloatArray:
        """Draw from N(0, A^-1), shape (n_draws, d).

        As Bhattacharya, Chakraborty and Mallick (2016) on P, plus N.
        """
        g = rng.standard_normal((n_draws, self.t2.size))
        g[:, self.rest] = 0.0
        noise = rng.standard_normal((n_draws, self.chol.shape[0])) * np.sqrt(self.likelihood.noise_var)
        seen = g @ (self.likelihood.data.root * self.scale).T + noise
        u = blas.dtrsm(1.0, self.chol, seen.T, lower=1)
        back = self.half.T @ u
        back[self.rest] = 0.0
        out = (g - back.T) * self.scale
        if self.rest.size:
            out += rng.standard_normal((n_draws, self.rest.size)) @ self.bridge
        return out

    def cov(self) -> FloatArray:
        """Return ``A^-1``, shape (d, d).

        The one method here that builds a d x d array.
        """
        rows, signs = self.signed_root()
        return np.diag(self.scale**2) - rows.T @ (signs[:, None] * rows)


#: Either has mean, solve, square_times, cov_block, cov_columns, row_var, draw and cov, with the meanings given above.
Factor = PrimalFactor | DualFactor


@dataclass(frozen=True, slots=True)
class GaussianSide:
    """The linear algebra of a likelihood that is normal in the coefficients: its product with any sites, factorised.

    Attributes
    ----------
    likelihood : GaussianLikelihood
    gram : ndarray (d, d) or None
        ``X'X / s2`` in the primal form, None in the dual.
    rest_below : ndarray (d,)
        Sites below are kept out of Woodbury's formula.
    """

    likelihood: GaussianLikelihood
    gram: FloatArray | None
    rest_below: FloatArray

    @classmethod
    def build(cls, likelihood: GaussianLikelihood, dual: bool | None = None) -> GaussianSide:
        """Choose the form; ``dual`` defaults to d > k and d > 64, k the rows."""
        k, d = likelihood.data.root.shape
        if dual is None:
            dual = d > max(k, _SMALL)
        gram = None if dual else np.asfortranarray(likelihood.gram())
        return cls(likelihood, gram, _TINY_SITE * likelihood.data.gram_diag / likelihood.noise_var)

    def with_noise(self, noise_var: float) -> GaussianSide:
        """The same with another noise variance, X'X not computed again."""
        ratio = self.likelihood.noise_var / noise_var
        gram = None if self.gram is None else self.gram * ratio
        return GaussianSide(replace(self.likelihood, noise_var=noise_var), gram, self.rest_below * ratio)

    @property
    def n_columns(self) -> int:
        """Number of coefficients d."""
        return self.likelihood.n_columns

    def factor(self, t2: FloatArray) -> Factor | None:
        """Factorise A with site precisions t2 (d,); None when A is not positive definite."""
        if not np.all(np.isfinite(t2)):
            return None
        return self._dual(t2) if self.gram is None else self._primal(t2)

    def log_z(self, factor: Factor, t1: FloatArray, mean: FloatArray) -> float:
        """Log integral of likelihood times sites, ``mean`` being ``factor.mean(t1)``."""
        d = t1.size
        quad = self.likelihood.misfit(mean) + mean @ (factor.t2 * mean) - 2.0 * t1 @ mean
        return float(self.likelihood.log_norm + 0.5 * d * np.log(2.0 * np.pi) - 0.5 * factor.log_det - 0.5 * quad)

    def _primal(self, t2: FloatArray) -> PrimalFactor | None:
        assert self.gram is not None
        d = t2.size
        a = self.gram.copy(order="F")
        a.flat[:: d + 1] += t2
        chol = _cholesky(a)
        if chol is None:
            return None
        inv_chol, _ = lapack.dtrtri(chol, lower=1)
        var = np.einsum("ij,ij->j", inv_chol, inv_chol)
        log_det = 2.0 * float(np.sum(np.log(chol.diagonal())))
        return PrimalFactor(t2, var, 1.0 / var - t2, log_det, chol, inv_chol, self.likelihood.cross)

    def _dual(self, t2: FloatArray) -> DualFactor | None:
        root, noise_var = self.likelihood.data.root, self.likelihood.noise_var
        k = root.shape[0]
        rest = self._kept_out(t2)
        if rest is None:
            return None
        d2 = t2.copy()
        d2[rest] = np.inf
        scale = 1.0 / np.sqrt(d2)
        half = root * scale
        # half.T is Fortran-ordered, so that neither BLAS call copies it.
        gram = blas.dsyrk(1.0, half.T, trans=1, lower=1)
        gram.flat[:: k + 1] += noise_var
        chol = _cholesky(gram)
        if chol is None:
            return None
        half[:, rest] = root[:, rest]
        half = blas.dtrsm(1.0, chol, half.T, side=1, lower=1, trans_a=1, overwrite_b=1).T
        seen = np.einsum("ij,ij->j", half, half)
        log_det = 2.0 * float(np.sum(np.log(chol.diagonal()))) - k * np.log(noise_var)
        log_det -= 2.0 * float(np.sum(np.log(scale[scale > 0])))
        rest_chol, bridge = np.zeros((0, 0)), np.zeros((0, t2.size))
        if rest.size:
            half_rest = half[:, rest]
            s = half_rest.T @ half_rest
            s.flat[:: rest.size + 1] += t2[rest]
            chol_s = _cholesky(np.asfortranarray(s))
            if chol_s is None:
                return None
            rest_chol = chol_s
            right = half_rest.T @ half
            right[:, rest] = -np.eye(rest.size)
            bridge = -blas.dtrsm(1.0, rest_chol, right, lower=1)
            seen -= np.einsum("ij,ij->j", bridge, bridge)
            bridge[:, scale > 0] *= scale[scale > 0]
            log_det += 2.0 * float(np.sum(np.log(rest_chol.diagonal())))
        return self._assemble(t2, scale, chol, half, rest, rest_chol, bridge, seen, log_det)

    def _assemble(
        self,
        t2: FloatArray,
        scale: FloatArray,
        chol: FloatArray,
        half: FloatArray,
        rest: IntArray,
        rest_chol: FloatArray,
        bridge: FloatArray,
        seen: FloatArray,
        log_det: float,
    ) -> DualFactor | None:
        """Marginal variances from ``seen``, the share of each site's prior variance that the data remove."""
        left = 1.0 - seen
        left[rest] = 1.0
        if not np.all(left > 0):
            return None
        var = scale**2 * left
        cavity2 = seen / left * t2
        if rest.size:
            var[rest] = np.einsum("ij,ij->j", bridge[:, rest], bridge[:, rest])
            cavity2[rest] = 1.0 / var[rest] - t2[rest]
        return DualFactor(t2, var, cavity2, log_det, self.likelihood, scale, chol, half, rest, rest_chol, bridge)

    def _kept_out(self, t2: FloatArray) -> IntArray | None:
        """Sites for the direct treatment: all negative ones, and the k smallest of the tiny ones."""
        small = np.flatnonzero(t2 < self.rest_below)
        k = self.likelihood.data.root.shape[0]
        if small.size <= k:
            return small
        small = small[np.argsort(t2[small], kind="stable")]
        # More than k sites that are not positive leave a direction without any precision.
        return None if t2[small[k]] <= 0 else np.sort(small[:k])
