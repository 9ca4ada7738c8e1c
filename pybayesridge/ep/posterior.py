"""From EP's answer back to the user's scale: coefficients, intervals, covariances, predictions, draws."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from pybayesridge._types import AnyArray, BoolArray, FloatArray, IntArray
from pybayesridge.design.design import Design
from pybayesridge.ep.algorithms.solve import covariance, draw_coefficients, marginal_variances, row_variances
from pybayesridge.ep.components import components
from pybayesridge.ep.gaussian_posterior import SelectionMarginals
from pybayesridge.ep.gibbs import gibbs
from pybayesridge.ep.left_out import rows_left_out
from pybayesridge.ep.model.hyperparameters import Hyperparameters
from pybayesridge.ep.model.least_squares import Data
from pybayesridge.ep.model.likelihood import GaussianLikelihood
from pybayesridge.ep.model.result import ColumnSites, EPResult
from pybayesridge.ep.selection import Selection
from pybayesridge.linalg import blas
from pybayesridge.posterior.coefficients import Coefficients
from pybayesridge.posterior.laws import Ask, Joint, MixtureLaw, Slabs
from pybayesridge.posterior.left_out import LeftOut
from pybayesridge.posterior.quantiles import Common, slab_quantiles


@dataclass(frozen=True, slots=True)
class StartingPoint:
    """Sites and hyperparameters of a fit on the user's scale, for another fit of the same columns to start from.

    Attributes
    ----------
    columns : tuple of str
        Names of the p columns that can be in or out.
    site1, site2 : (p,) array
        See :class:`~pybayesridge.ep.model.result.ColumnSites`.
    prior_inclusion : (p,) array
    slab_var, noise_var : float
    """

    columns: tuple[str, ...]
    site1: FloatArray
    site2: FloatArray
    prior_inclusion: FloatArray
    slab_var: float
    noise_var: float

    @classmethod
    def without_sites(cls, design: Design, hyper: Hyperparameters, columns: list[str]) -> StartingPoint:
        """At hyperparameters of a design."""
        y, none = design.y_norm[0], np.zeros(design.p)
        slab_var = float(hyper.slab_var * (y / design.common_scale) ** 2)
        return cls(tuple(columns), none, none, hyper.prior_inclusion, slab_var, float(hyper.noise_var * y**2))

    def in_design(self, design: Design) -> tuple[Hyperparameters, ColumnSites]:
        """The same in the units of a design."""
        y = design.y_norm[0]
        unit = y / design.scale
        hyper = Hyperparameters(
            self.prior_inclusion, self.slab_var * (design.common_scale / y) ** 2, self.noise_var / y**2
        )
        return hyper, ColumnSites(self.site1 * unit, self.site2 * unit**2)


@dataclass(frozen=True, slots=True)
class SelectionPosterior:
    """The approximate joint posterior of all coefficients, unpenalised ones first, on the user's scale.

    Attributes
    ----------
    design : Design
    data : Data
    selection : Selection
    """

    joint_law: ClassVar[Joint] = "gaussian"
    has_point_masses: ClassVar[bool] = True

    design: Design
    data: Data
    selection: Selection

    @property
    def exact(self) -> None:
        """Of expectation propagation there is no posterior of the sets of columns."""

    def credible_sets(self) -> tuple[()]:
        """None."""
        return ()

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

    def as_arrays(self, *, rows_known: bool) -> dict[str, Any]:
        """Arrays from which the posterior is made again; see :mod:`pybayesridge.ep.components`.

        With `rows_known` the reader has the rows of the design, which are left out if they are those of the data.
        """
        known = rows_known and len(self.data.root) == self.design.x.shape[0]
        likelihoods = (self.likelihood(i) for i in range(len(self.selection.results)))
        noise = np.array([hyper.noise_var for hyper in self.selection.hypers])
        negative = np.array([float((result.site2 < 0.0).any()) for result in self.selection.results])
        rows = None if known else self.data.root
        return components(self.selection, likelihoods, rows, noise, shared=True) | {"negative": negative}

    def rows_left_out(self, given: None, target: int = 0) -> LeftOut:
        """Predictions of the rows from the others."""
        return rows_left_out(self.design, self.data, self.selection)

    @property
    def coefficients(self) -> Coefficients:
        """The posterior of each coefficient."""
        return Coefficients(self)

    def of_targets(self, which: slice) -> SelectionPosterior:
        """The same, of the only target."""
        return self

    def coefficient_means(self) -> tuple[FloatArray, FloatArray]:
        """Posterior means of the unpenalised (k,) and the penalised (p,) coefficients."""
        b = self.selection.mean * self.unit
        return self.design.coefficients_of_z(b[:, None])[:, 0], b

    def coefficient_sds(self) -> tuple[FloatArray, FloatArray]:
        """Posterior standard deviations, as :meth:`coefficient_means`."""
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

    def coefficient_quantiles(self, probabilities: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Quantiles (c,), (k, c) and (p, c); of a penalised coefficient those of spike and slab together."""
        k = self.design.block.k
        of_z = self.row_quantiles(np.zeros((k, self.design.p)), np.eye(k), probabilities)
        slab_mean, slab_var = self.selection.slabs()
        weight = self.selection.weights[:, None] * np.stack([r.inclusion_prob for r in self.selection.results])
        own = slab_quantiles(weight, slab_mean, np.sqrt(slab_var), np.inf, probabilities)
        return of_z, own * self.unit[:, None]

    def quantiles_given_inclusion(self, probabilities: FloatArray) -> FloatArray:
        """Quantiles (c,) of the penalised coefficients given that they are in, (p, c)."""
        means, variances = self.selection.slabs()
        at = slab_quantiles(self.selection.component_shares(), means, np.sqrt(variances), np.inf, probabilities)
        return at * self.unit[:, None]

    def _components(self) -> list[tuple[float, EPResult, Hyperparameters]]:
        s = self.selection
        return list(zip(s.weights.tolist(), s.results, s.hypers, strict=True))

    def covariance(self, target: int = 0) -> FloatArray:
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
        law = self.rows(x_rows, z_rows)
        return law.mean, law.sd

    def row_quantiles(self, x_rows: AnyArray, z_rows: FloatArray, probabilities: FloatArray) -> FloatArray:
        """Quantiles (c,) of the linear predictor, (m, c)."""
        return self.rows(x_rows, z_rows).ask(Ask(tuple(probabilities.tolist()))).quantiles[:, 0]

    def rows(self, x_rows: AnyArray, z_rows: FloatArray, offset: FloatArray | float = 0.0) -> MixtureLaw:
        """The law of the linear predictor of rows plus `offset` (m,): by spike and slab within one unit."""
        means, variances = self.row_components(x_rows, z_rows)
        shift, unit, noise = self.placed(z_rows)
        components = Common(means, np.sqrt(variances), self.selection.weights, np.inf)
        return MixtureLaw.of(components, shift + offset, unit, noise, self.slabs(x_rows, z_rows))

    def placed(self, z_rows: FloatArray) -> tuple[FloatArray, float, FloatArray]:
        """What the linear predictor of rows has at b = 0, (m,), its unit, and each result's noise in its square."""
        noise = np.array([hyper.noise_var for hyper in self.selection.hypers])
        return (z_rows @ self.design.y_on_z)[:, 0], float(self.design.y_norm[0]), noise

    def slabs(self, x_rows: AnyArray, z_rows: FloatArray) -> Slabs:
        """What is known of rows of the columns of one unit each."""
        flat, surely = ~(z_rows != 0).any(axis=1), self.selection.inclusion_prob >= 1
        certain = ~flat
        if surely.any():
            certain = certain | np.asarray((x_rows[:, surely] != 0).sum(axis=1) > 0).reshape(-1)
        own = np.zeros(flat.size, dtype=bool)
        inside = np.zeros((0, self.design.p))
        if flat.any():
            inside = x_rows[flat]
            inside = np.asarray(inside.toarray() if hasattr(inside, "toarray") else inside, dtype=np.float64)
            own[flat] = rows_within_unit(inside, self.units())
        center, scale, weight = self.within_unit(inside[own[flat]])
        return Slabs(own, weight, center, scale, certain)

    def units(self) -> IntArray:
        """The group of each penalised column, (p,): columns with equal numbers are in or out together."""
        groups = self.selection.results[0].groups
        return np.arange(self.design.p) if groups is None else groups

    def within_unit(self, x_rows: AnyArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Slabs of linear functions of the columns of one unit each, as :func:`slab_quantiles` takes them.

        Means, standard deviations and weights on the user's scale, (g, m); the weight that is left is that of zero.
        """
        selection, rows = self.selection, x_rows * self.unit
        rotated = selection.rotation.rows(rows)
        means = np.stack([rotated @ r.cond_mean for r in selection.results])
        variances = np.stack([rotated**2 @ r.cond_var for r in selection.results])
        # Where nothing is selected there is neither a row nor a column.
        column = np.abs(x_rows).argmax(axis=1) if x_rows.size else np.zeros(x_rows.shape[0], dtype=np.intp)
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

    def without_row_space(self) -> SelectionMarginals:
        """What each coefficient has alone."""
        return SelectionMarginals.of(self)

    def without_rows(self) -> SelectionPosterior:
        """The same posterior without any row: where n <= p these are turned into others with the same products."""
        data = self.data.without_rows() if self.design.has_rows else self.data
        return replace(self, data=data, design=self.design.without_rows())


def rows_within_unit(rows: FloatArray, units: IntArray) -> BoolArray:
    """Which rows (m, p) are combinations of the columns of one unit alone, and not missing."""
    used = (rows != 0) & ~np.isnan(rows).any(axis=1, keepdims=True)
    first = np.where(used, units, units.max(initial=0) + 1).min(axis=1, initial=units.max(initial=0) + 1)
    last = np.where(used, units, -1).max(axis=1, initial=-1)
    return first == last
