"""The rows as a Gaussian model of the penalised columns, given a site for each of them.

With row factors ``exp(shift eta - precision eta^2 / 2)`` and ``eta = C h + X w``, h is flat and integrated out: what
is left is the likelihood of a regression with noise variance 1 on ``S (X - C B)``, S the root of the precisions and B
the weighted regression of X on C.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import solve_triangular

from pybayesridge._types import FloatArray
from pybayesridge.ep.model.gaussian import Factor
from pybayesridge.ep.model.least_squares import Data
from pybayesridge.ep.model.likelihood import GaussianLikelihood
from pybayesridge.linalg import blas
from pybayesridge.sites.gaussian import Sites

LEAST_PRECISION = 1e-12
"""Precisions below this, relative to the largest, are this: no number depends on them."""


@dataclass(frozen=True, slots=True)
class Working:
    """The Gaussian model that the sites of the rows make.

    Attributes
    ----------
    likelihood : GaussianLikelihood
        Of the d penalised columns, the unpenalised ones projected out; noise variance 1.
    rows : (n, d) array
        ``X - C B``.
    of_c : (n, k) array
        ``C R^-1``, with ``R'R = C' diag(precision) C``.
    factor : (k, k) array
        R, upper triangular.
    half : (k,) array
        ``R^-T C' shift``: given w, ``R h`` is normal with mean ``half - on_c w`` and variance I.
    on_c : (k, d) array
        ``R^-T C' diag(precision) X``.
    """

    likelihood: GaussianLikelihood
    rows: FloatArray
    of_c: FloatArray
    factor: FloatArray
    half: FloatArray
    on_c: FloatArray

    @classmethod
    def of(cls, x: FloatArray, c: FloatArray, sites: Sites) -> Working:
        """The model of penalised columns (n, d), unpenalised ones (n, k) of full rank, and sites.

        Raises
        ------
        FloatingPointError
            If the sites do not determine the unpenalised coefficients.
        """
        n, k = c.shape
        precision = np.maximum(sites.precision, LEAST_PRECISION * sites.precision.max(initial=0.0))
        root = np.sqrt(precision)
        weighted = c * precision[:, None]
        try:
            factor = np.asarray(np.linalg.cholesky(weighted.T @ c).T)
        except np.linalg.LinAlgError as error:
            raise FloatingPointError("the rows do not determine the unpenalised coefficients") from error
        half, on_c = lower_solve(factor, c.T @ sites.shift), lower_solve(factor, blas.product(weighted.T, x))
        of_c = lower_solve(factor, c.T).T
        rows = x - of_c @ on_c if k else x
        scaled = rows * root[:, None]
        # The shift of a row is not divided by a precision that is next to nothing.
        target = sites.shift / root - root * (of_c @ half)
        data = Data(
            root=scaled,
            target=target,
            rss0=0.0,
            gram_diag=np.einsum("ij,ij->j", scaled, scaled),
            cross=x.T @ sites.shift - half @ on_c,
            nu=float(n - k),
        )
        return cls(GaussianLikelihood(data, 1.0), rows, of_c, factor, half, on_c)

    def row_marginals(self, factor: Factor, mean: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Means and variances of the rows' linear predictors, each (n,), the columns' having `mean` and `factor`."""
        own = np.einsum("ij,ij->i", self.of_c, self.of_c)
        return self.of_c @ self.half + self.rows @ mean, own + factor.row_var(self.rows)

    def given_columns(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The law of h given w: mean (k,) at w = 0, its slopes (k, d) on -w, and a root of the covariance (k, k)."""
        root = upper_solve(self.factor, np.eye(self.half.size))
        return root @ self.half, blas.product(root, self.on_c), root

    def log_normalizer(self, factor: Factor, t1: FloatArray, mean: FloatArray) -> float:
        """Log integral over (h, w) of the rows' sites times those of the columns, t1 and ``factor.t2``."""
        k, d = self.on_c.shape
        of_h = 0.5 * k * np.log(2 * np.pi) - np.log(np.diag(self.factor)).sum() + 0.5 * float(self.half @ self.half)
        quadratic = 0.5 * float((t1 + self.likelihood.data.cross) @ mean)
        return float(of_h + 0.5 * d * np.log(2 * np.pi) - 0.5 * factor.log_det + quadratic)

    def without_rows(self) -> Working:
        """The same posterior without any row."""
        data = self.likelihood.data.without_rows()
        return replace(
            self, likelihood=GaussianLikelihood(data, 1.0), rows=self.rows[:0].copy(), of_c=self.of_c[:0].copy()
        )


def lower_solve(factor: FloatArray, right: FloatArray) -> FloatArray:
    """``R^-T right``, R upper triangular."""
    if not factor.size:
        return right
    out: FloatArray = solve_triangular(factor, right, trans="T", check_finite=False)
    return out


def upper_solve(factor: FloatArray, right: FloatArray) -> FloatArray:
    """``R^-1 right``, R upper triangular."""
    if not factor.size:
        return right
    out: FloatArray = solve_triangular(factor, right, check_finite=False)
    return out
