"""Yes/no responses as a Gaussian model, given auxiliary variables.

With weights w and linear terms l that depend on these variables, the log likelihood of the linear predictor psi is
``sum_i (l_i psi_i - w_i psi_i² / 2)``; so is its second-order expansion. For the logit link (Polson, Scott & Windle
2013) the w_i are Pólya-Gamma variables and ``l_i = successes - trials / 2``; for the probit link (Albert & Chib 1993)
the w_i are the numbers of trials and the l_i sums of latent normal variables. Unpenalised coefficients h, flat a
priori, are integrated out: ``psi = C h + X b`` with C the unpenalised columns in coordinates and X the penalised
ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import log_ndtr, ndtri_exp

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.binomial.likelihood import Binomial
from pybayesridge.binomial.polya_gamma import polya_gamma
from pybayesridge.data.units import Units
from pybayesridge.linalg import blas
from pybayesridge.selection.problem import Problem

GRAM_COLUMNS = 2500
"""Up to this many columns X'WX is formed whole; beyond, columns of it on demand."""

LEAST_WEIGHT = 1e-10
"""Weights per trial below this are as good as none."""


@dataclass(frozen=True, slots=True)
class BinomialRows:
    """The data of a binomial model.

    Attributes
    ----------
    x : (n, d) array
        The penalised columns, on the scale of the prior.
    c : (n, k) array
        The unpenalised ones, of full rank.
    likelihood : Binomial
    units : Units
        Of selection.
    square : (n, d) array
        ``x²``.
    """

    x: FloatArray
    c: FloatArray
    likelihood: Binomial
    units: Units
    square: FloatArray

    @classmethod
    def of(cls, x: FloatArray, c: FloatArray, likelihood: Binomial, units: Units) -> BinomialRows:
        """Compute what does not change.

        Raises
        ------
        ValueError
            For the probit link with numbers of trials that are not whole: they are numbers of latent variables.
        """
        successes, failures = likelihood.totals()
        if likelihood.link == "probit" and not (_whole(successes) and _whole(failures)):
            raise ValueError(
                "with link='probit' weights must be whole numbers: each of the rows that they count has a latent "
                "variable; use link='logit'"
            )
        x = np.ascontiguousarray(x)
        return cls(x, np.ascontiguousarray(c), likelihood, units, x * x)

    @property
    def divisible(self) -> bool:
        """Whether a row may count as a part of a copy: Pólya-Gamma variables do not need whole numbers of trials."""
        return self.likelihood.link == "logit"

    def start(self) -> Augmented:
        """The auxiliary variables at their means for a linear predictor of 0."""
        successes, failures = self.likelihood.totals()
        trials = successes + failures
        if self.likelihood.link == "logit":
            return Augmented(0.25 * trials, 0.5 * (successes - failures))
        return Augmented(trials, np.sqrt(2.0 / np.pi) * (successes - failures))

    def draw(self, psi: FloatArray, rng: np.random.Generator) -> Augmented:
        """The auxiliary variables given linear predictors psi, (..., n)."""
        successes, failures = (np.broadcast_to(part, psi.shape).ravel() for part in self.likelihood.totals())
        trials, flat = successes + failures, psi.ravel()
        if self.likelihood.link == "logit":
            weight = np.maximum(polya_gamma(trials, flat, rng), LEAST_WEIGHT * trials)
            linear = 0.5 * (successes - failures)
        else:
            weight = trials
            linear = _latent_sums(successes, flat, rng) - _latent_sums(failures, -flat, rng)
        return Augmented(weight.reshape(psi.shape), linear.reshape(psi.shape))

    def expanded(self, psi: FloatArray) -> Augmented:
        """The second-order expansion of the log likelihood about linear predictors psi, (n,)."""
        first, second = self.likelihood.derivatives(psi)
        weight = np.maximum(second, LEAST_WEIGHT * self.likelihood.trials)
        return Augmented(weight, first + weight * psi)


@dataclass(frozen=True, slots=True)
class Augmented:
    """Weights w and linear terms l of the rows, (n,), or one of these for each walker."""

    weight: FloatArray
    linear: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class AugmentedProblem(Problem):
    """The cross-products of the penalised columns given w and l, the unpenalised ones projected out.

    Attributes
    ----------
    source : BinomialRows
    given : Augmented
    factor : (k, k) array
        Upper triangular R with ``R'R = C'WC``.
    half : (k,) array
        ``R^-T C'l``: given b, ``R h`` is normal with mean ``half - on_c b`` and variance I.
    on_c : (k, d) array
        ``R^-T C'WX``.
    """

    source: BinomialRows
    given: Augmented
    factor: FloatArray
    half: FloatArray
    on_c: FloatArray

    def column(self, j: int) -> FloatArray:
        """``X'WX`` without the unpenalised part, its column j (d,); not to be written to."""
        if self.gram is not None:
            return self.gram[j]
        found = self.cached.get(j)
        return self.stacked(np.array([j], dtype=np.intp))[0] if found is None else found

    def block(self, columns: IntArray) -> FloatArray:
        """The same of some columns, (m, m)."""
        if self.gram is not None:
            return self.gram[np.ix_(columns, columns)]
        part, own = self.source.x[:, columns], self.on_c[:, columns]
        return (part * self.given.weight[:, None]).T @ part - own.T @ own

    def blocks(self, sets: IntArray) -> FloatArray:
        """The same of several sets (S, m) of columns, (S, m, m)."""
        return np.stack([self.block(columns) for columns in sets])

    def stacked(self, columns: IntArray) -> FloatArray:
        """Its columns as rows, (m, d); those that were not needed before at once."""
        if self.gram is not None:
            return self.gram[columns]
        new = [j for j in columns.tolist() if j not in self.cached]
        if new:
            part = self.source.x[:, new] * self.given.weight[:, None]
            found = blas.product(part, self.source.x, transpose_a=True) - self.on_c[:, new].T @ self.on_c
            self.cached.update(zip(new, found, strict=True))
        return np.stack([self.cached[j] for j in columns.tolist()]) if columns.size else np.zeros((0, self.d))


def problem_given(source: BinomialRows, given: Augmented) -> AugmentedProblem:
    """The cross-products for new auxiliary variables."""
    x, c, weight, linear = source.x, source.c, given.weight, given.linear
    k, d = c.shape[1], x.shape[1]
    weighted = c * weight[:, None]
    factor: FloatArray = np.zeros((0, 0)) if k == 0 else np.asarray(np.linalg.cholesky(weighted.T @ c).T)
    half = _solve(factor, c.T @ linear)
    on_c = _solve(factor, weighted.T @ x)
    gram = blas.product(x * weight[:, None], x, transpose_a=True) - on_c.T @ on_c if d <= GRAM_COLUMNS else None
    diag = weight @ source.square - np.einsum("kj,kj->j", on_c, on_c) if gram is None else np.diagonal(gram).copy()
    return AugmentedProblem(
        cross=x.T @ linear - half @ on_c,
        diag=np.maximum(diag, 0.0),
        yy=max(float(linear @ (linear / weight) - half @ half), 0.0),
        nu=float(x.shape[0] - k),
        n=float(x.shape[0]),
        units=source.units,
        gram=gram,
        rows=None,
        source=source,
        given=given,
        factor=factor,
        half=half,
        on_c=on_c,
    )


def _solve(factor: FloatArray, right: FloatArray) -> FloatArray:
    """``R^-T right``."""
    if not factor.size:
        return right
    out: FloatArray = solve_triangular(factor, right, trans="T", check_finite=False)
    return out


def _whole(counts: FloatArray) -> bool:
    return bool((counts == np.rint(counts)).all())


def _latent_sums(counts: FloatArray, mean: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Sums of `counts` (n,) positive normal variables of mean `mean` and variance 1 before truncation."""
    row: IntArray = np.repeat(np.arange(counts.size), counts.astype(np.intp))
    at = mean[row]
    with np.errstate(divide="ignore"):
        below = np.log(1.0 - rng.random(row.size)) + log_ndtr(at)
    return np.asarray(np.bincount(row, at - ndtri_exp(below), minlength=counts.size), dtype=np.float64)
