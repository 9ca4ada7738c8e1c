"""From EP's answer back to the user's scale: coefficients, intervals, covariances, predictions, draws."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtr, ndtri

from pybayesridge._types import AnyArray, BoolArray, FloatArray, IntArray
from pybayesridge.design.design import Design
from pybayesridge.ep.algorithms.solve import covariance, draw_coefficients, marginal_variances, row_variances
from pybayesridge.ep.gibbs import gibbs
from pybayesridge.ep.model.hyperparameters import Hyperparameters
from pybayesridge.ep.model.least_squares import Data
from pybayesridge.ep.model.likelihood import GaussianLikelihood
from pybayesridge.ep.model.result import EPResult, Sites
from pybayesridge.ep.selection import Selection
from pybayesridge.linalg import blas

BISECTIONS = 100
"""Halvings of a bracket of a mixture's quantile: to the last digit."""


@dataclass(frozen=True, slots=True)
class StartingPoint:
    """Sites and hyperparameters of a fit on the user's scale, for another fit of the same columns to start from.

    Attributes
    ----------
    columns : tuple of str
        Names of the p columns that can be in or out.
    site1, site2 : (p,) array
        See :class:`~pybayesridge.ep.model.result.Sites`.
    prior_inclusion : (p,) array
    slab_var, noise_var : float
    """

    columns: tuple[str, ...]
    site1: FloatArray
    site2: FloatArray
    prior_inclusion: FloatArray
    slab_var: float
    noise_var: float

    def in_design(self, design: Design) -> tuple[Hyperparameters, Sites]:
        """The same in the units of a design."""
        y = design.y_norm[0]
        unit = y / design.scale
        hyper = Hyperparameters(
            self.prior_inclusion, self.slab_var * (design.common_scale / y) ** 2, self.noise_var / y**2
        )
        return hyper, Sites(self.site1 * unit, self.site2 * unit**2)


@dataclass(frozen=True, slots=True)
class SelectionPosterior:
    """The approximate joint posterior of all coefficients, unpenalised ones first, on the user's scale.

    Attributes
    ----------
    design : Design
    data : Data
    selection : Selection
    """

    design: Design
    data: Data
    selection: Selection

    @property
    def unit(self) -> FloatArray:
        """Factors that convert coefficients of the design to the user's scale, (p,)."""
        return self.design.y_norm[0] / self.design.scale

    def starting_point(self, columns: list[str]) -> StartingPoint:
        """Where another fit can start: at the hyperparameters of the largest weight.

        Of columns in groups of several nothing but the hyperparameters is handed on.
        """
        hyper, y = self.selection.best_hyper, self.design.y_norm[0]
        best = self.selection.rotation.unknown(self.selection.best)
        return StartingPoint(
            tuple(columns),
            best.site1 / self.unit,
            best.site2 / self.unit**2,
            hyper.prior_inclusion,
            float(hyper.slab_var * (y / self.design.common_scale) ** 2),
            float(hyper.noise_var * y**2),
        )

    def coefficients(self) -> tuple[FloatArray, FloatArray]:
        """Posterior means of the unpenalised (k,) and the penalised (p,) coefficients."""
        b = self.selection.mean * self.unit
        return self.design.coefficients_of_z(b[:, None])[:, 0], b

    def standard_deviations(self) -> tuple[FloatArray, FloatArray]:
        """Posterior standard deviations, as :meth:`coefficients`."""
        k = self.design.block.k
        of_z = self.row_moments(np.zeros((k, self.design.p)), np.eye(k))[1]
        return of_z, np.sqrt(self._variances()) * self.unit

    def _variances(self) -> FloatArray:
        """Posterior variances of the design's coefficients, (p,)."""
        s = self.selection
        means = s.rotation.back(np.stack([r.mean for r in s.results]))
        each = np.stack([marginal_variances(self.likelihood(i), r, s.rotation) for i, r in enumerate(s.results)])
        return np.einsum("g,gj->j", s.weights, each + (means - s.mean) ** 2)

    def likelihood(self, i: int) -> GaussianLikelihood:
        """The likelihood of the design's coefficients, rotated within groups, at the hyperparameters of a result."""
        return self.selection.hypers[i].likelihood(self.data)

    def given_inclusion(self) -> tuple[FloatArray, FloatArray]:
        """Means and variances of the penalised coefficients given that they are in, each (p,)."""
        mean, variance = self.selection.given_inclusion()
        return mean * self.unit, variance * self.unit**2

    def intervals(self, alpha: float) -> tuple[FloatArray, FloatArray]:
        """Equal-tailed intervals, (k, 2) and (p, 2); of a penalised one those of spike and slab together."""
        k = self.design.block.k
        of_z = self.row_intervals(np.zeros((k, self.design.p)), np.eye(k), alpha, None)
        slab_mean, slab_var = self.selection.slabs()
        tails = [
            mixture_quantile(
                slab_mean,
                np.sqrt(slab_var),
                self.selection.weights[:, None] * np.stack([r.inclusion_prob for r in self.selection.results]),
                probability,
            )
            for probability in (alpha / 2, 1 - alpha / 2)
        ]
        return of_z, np.stack(tails, axis=-1) * self.unit[:, None]

    def intervals_given_inclusion(self, alpha: float) -> FloatArray:
        """Equal-tailed intervals of the penalised coefficients given that they are in, (p, 2)."""
        return np.stack([self.quantiles_given_inclusion(pr) for pr in (alpha / 2, 1 - alpha / 2)], axis=-1)

    def quantiles_given_inclusion(self, probability: float) -> FloatArray:
        """Quantiles of the penalised coefficients given that they are in, (p,)."""
        means, variances = self.selection.slabs()
        at = mixture_quantile(means, np.sqrt(variances), self.selection.component_shares(), probability)
        return at * self.unit

    def _components(self) -> list[tuple[float, EPResult, Hyperparameters]]:
        s = self.selection
        return list(zip(s.weights.tolist(), s.results, s.hypers, strict=True))

    def covariance(self) -> FloatArray:
        """Posterior covariance of (unpenalised, penalised) coefficients, (k + p, k + p)."""
        design, k, p = self.design, self.design.block.k, self.design.p
        of_z = design.rows_outside_z(np.zeros((k, p)), np.eye(k))
        half = design.block.regress(np.eye(k))
        out = np.zeros((k + p, k + p))
        mean = self.selection.mean
        rotation = self.selection.rotation
        for i, (weight, result, hyper) in enumerate(self._components()):
            cov = rotation.covariance(covariance(self.likelihood(i), result))
            shift = rotation.back(result.mean) - mean
            cov += np.outer(shift, shift)
            cross = blas.product(of_z, cov)
            out[k:, k:] += weight * cov
            out[:k, k:] += weight * cross
            out[:k, :k] += weight * (blas.product(cross, of_z.T) + hyper.noise_var * (half @ half.T))
        out[k:, :k] = out[:k, k:].T
        unit = np.concatenate([np.full(k, design.y_norm[0]), self.unit])
        return out * unit[:, None] * unit

    def row_moments(self, x_rows: AnyArray, z_rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Posterior mean and standard deviation of the linear predictor of new rows, each (m,)."""
        means, variances = self.row_components(x_rows, z_rows)
        weights = self.selection.weights
        mean = weights @ means
        variance = weights @ (variances + (means - mean) ** 2)
        unit = self.design.y_norm[0]
        return (z_rows @ self.design.y_on_z)[:, 0] + mean * unit, np.sqrt(variance) * unit

    def row_intervals(
        self, x_rows: AnyArray, z_rows: FloatArray, alpha: float, noise: FloatArray | None
    ) -> FloatArray:
        """Equal-tailed intervals of the linear predictor, or with `noise` (m,) of new observations: (m, 2)."""
        tails = (alpha / 2, 1 - alpha / 2)
        return np.stack([self.row_quantiles(x_rows, z_rows, pr, noise) for pr in tails], axis=-1)

    def row_quantiles(
        self, x_rows: AnyArray, z_rows: FloatArray, probability: float, noise: FloatArray | None
    ) -> FloatArray:
        """Quantile of the linear predictor, or with `noise` (m,) of new observations: (m,)."""
        means, variances = self.row_components(x_rows, z_rows)
        if noise is not None:
            variances = variances + np.outer([h.noise_var for h in self.selection.hypers], noise)
        full = np.broadcast_to(self.selection.weights[:, None], means.shape)
        at = mixture_quantile(means, np.sqrt(variances), full, probability)
        return (z_rows @ self.design.y_on_z)[:, 0] + at * self.design.y_norm[0]

    def row_exceedance(self, x_rows: AnyArray, z_rows: FloatArray, at: FloatArray) -> FloatArray:
        """Probability, by the joint Gaussian, that the linear predictor of each row exceeds `at`; (m,)."""
        means, variances = self.row_components(x_rows, z_rows)
        bound = (at - (z_rows @ self.design.y_on_z)[:, 0]) / self.design.y_norm[0]
        return self.selection.weights @ upper_tail(means, np.sqrt(variances), bound)

    def exceedance(self, x_rows: AnyArray, z_rows: FloatArray, at: FloatArray) -> FloatArray:
        """Probability that the linear predictor of each row exceeds `at`, (m,); within a unit by spike and slab."""
        out = self.row_exceedance(x_rows, z_rows, at)
        own = rows_within_unit(x_rows, z_rows, self.units())
        if own.any():
            out[own] = tail_of_unit(*self.within_unit(x_rows[own]), at[own])
        return np.clip(out, 0.0, 1.0)

    def units(self) -> IntArray:
        """The group of each penalised column, (p,): columns with equal numbers are in or out together."""
        groups = self.selection.results[0].groups
        return np.arange(self.design.p) if groups is None else groups

    def within_unit(self, x_rows: AnyArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Slabs of linear functions of the columns of one unit each, as :func:`mixture_quantile` takes them.

        Means, standard deviations and weights on the user's scale, (g, m); the weight that is left is that of zero.
        """
        selection, rows = self.selection, x_rows * self.unit
        rotated = selection.rotation.rows(rows)
        means = np.stack([rotated @ r.cond_mean for r in selection.results])
        variances = np.stack([rotated**2 @ r.cond_var for r in selection.results])
        column = np.abs(x_rows).argmax(axis=1)
        inside = np.stack([r.inclusion_prob[column] for r in selection.results])
        return means, np.sqrt(variances), selection.weights[:, None] * inside

    def row_components(self, x_rows: AnyArray, z_rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Means and variances of b's and Z's part of the linear predictor for each result, (g, m)."""
        rows = self.design.rows_outside_z(x_rows, z_rows)
        leverage = self.design.block.leverage(z_rows)
        missing: BoolArray = np.asarray(np.isnan(rows).any(axis=1))
        rows = self.selection.rotation.rows(np.where(missing[:, None], 0.0, rows))
        means, variances = [], []
        for i, (_, result, hyper) in enumerate(self._components()):
            part = row_variances(self.likelihood(i), result, rows)
            means.append(np.where(missing, np.nan, rows @ result.mean))
            variances.append(np.where(missing, np.nan, np.maximum(part, 0.0) + hyper.noise_var * leverage))
        return np.stack(means), np.stack(variances)

    def draw(
        self, size: int, rng: np.random.Generator, *, by_gibbs: bool
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Draws of the unpenalised (size, k) and penalised (size, p) coefficients, and their noise variance (size,).

        From EP's Gaussian, or (`by_gibbs`) from a Gibbs run given the hyperparameters.
        """
        counts = rng.multinomial(size, self.selection.weights)
        draws, noises = [], []
        for count, (_, result, hyper) in zip(counts, self._components(), strict=True):
            if count == 0:
                continue
            if by_gibbs and hyper.noise_var > 0:
                each = gibbs(
                    hyper.likelihood(self.data),
                    hyper.prior_inclusion,
                    hyper.slab_var,
                    result.inclusion_prob,
                    int(count),
                    max(50, int(count) // 10),
                    rng,
                    result.groups,
                )
            else:
                each = draw_coefficients(hyper.likelihood(self.data), result, int(count), rng)
            draws.append(each)
            noises.append(np.full(count, hyper.noise_var))
        b = self.selection.rotation.back(np.concatenate(draws)) * self.unit
        spread = np.sqrt(np.concatenate(noises)) * self.design.y_norm[0]
        shift = self.design.coefficients_of_z(np.ascontiguousarray(b.T))
        k = self.design.block.k
        if k:
            shift = shift + self.design.block.regress(rng.standard_normal((k, size)) * spread)
        of_z = shift.T
        if not by_gibbs and len(draws) > 1:
            # Independent draws in any order, and not one member of an average after another.
            order = rng.permutation(size)
            of_z, b, spread = of_z[order], b[order], spread[order]
        return of_z, b, spread**2

    def without_rows(self) -> SelectionPosterior:
        """The same posterior without any row: where n <= p these are turned into others with the same products."""
        data = self.data.without_rows() if self.design.has_rows else self.data
        return replace(self, data=data, design=self.design.without_rows())


def upper_tail(mean: FloatArray, sd: FloatArray, at: FloatArray) -> FloatArray:
    """Probability that each of (g, m) normals exceeds `at` (m,); a standard deviation of 0 is a point."""
    safe = np.where(sd > 0, sd, 1.0)
    return np.where(sd > 0, ndtr((mean - at) / safe), (mean > at).astype(float))


def tail_of_unit(slab_mean: FloatArray, slab_sd: FloatArray, weight: FloatArray, at: FloatArray) -> FloatArray:
    """Probability above `at` of combinations of the columns of one unit: of the slabs, and of the spike at 0."""
    spike = np.maximum(1.0 - weight.sum(axis=0), 0.0)
    out: FloatArray = (weight * upper_tail(slab_mean, slab_sd, at)).sum(axis=0) + spike * (at < 0)
    return out


def rows_within_unit(x_rows: AnyArray, z_rows: FloatArray, units: IntArray) -> BoolArray:
    """Which rows are combinations of the columns of one unit alone."""
    out = [np.unique(units[x != 0]).size == 1 and not np.any(z) for x, z in zip(x_rows, z_rows, strict=True)]
    return np.array(out, dtype=bool)


def mixture_quantile(mean: FloatArray, sd: FloatArray, weight: FloatArray, probability: float) -> FloatArray:
    """Quantile of m mixtures of g normals and, with the weight that is left, a point mass at zero.

    Parameters
    ----------
    mean, sd, weight : (g, m) arrays
        Weights sum to at most 1 over g.
    probability : float

    Returns
    -------
    (m,) array
    """
    spike = np.maximum(1.0 - weight.sum(axis=0), 0.0)
    # Weights that sum to one but for rounding leave no spike.
    spike[spike < 1e-15] = 0.0
    safe = np.where(sd > 0, sd, 1.0)

    def cdf(t: FloatArray) -> FloatArray:
        """Of the slabs alone."""
        each = np.where(sd > 0, ndtr((t - mean) / safe), (t >= mean).astype(float))
        total: FloatArray = (weight * each).sum(axis=0)
        return total

    below = cdf(np.zeros(mean.shape[1]))
    if mean.shape[0] == 1:
        # In closed form: on either side of the spike, or on it.
        w = np.where(weight[0] > 0, weight[0], 1.0)
        with np.errstate(invalid="ignore"):  # a column that is never in has sd 0 and quantiles at infinity
            left = mean[0] + sd[0] * ndtri(np.clip(probability / w, 0.0, 1.0))
            right = mean[0] + sd[0] * ndtri(np.clip((probability - spike) / w, 0.0, 1.0))
        on_spike = (below < probability) & (probability <= below + spike)
        out = np.where(probability <= below, left, right)
        return np.where(on_spike | (weight[0] == 0), 0.0, out)
    reach = 40.0 * sd.max(axis=0) + np.abs(mean).max(axis=0)
    low, high = -reach, reach.copy()
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        reached = cdf(middle) + spike * (middle >= 0) >= probability
        high = np.where(reached, middle, high)
        low = np.where(reached, low, middle)
    return np.where((spike > 0) & (below < probability) & (probability <= below + spike), 0.0, high)
