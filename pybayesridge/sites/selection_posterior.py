"""From EP with sites for rows and columns to the user's scale: coefficients, probabilities, draws."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np
from scipy.special import ndtr

from pybayesridge._types import AnyArray, FloatArray, IntArray
from pybayesridge.ep.algorithms.solve import covariance, draw_coefficients, row_variances
from pybayesridge.ep.components import components
from pybayesridge.ep.model.likelihood import GaussianLikelihood
from pybayesridge.ep.posterior import SelectionPosterior
from pybayesridge.linalg import blas
from pybayesridge.posterior.laws import AROUND_MEDIAN, Ask
from pybayesridge.posterior.left_out import LeaveOneOut, LeftOut
from pybayesridge.posterior.responses import SCORES, Curves, Part, ResponseLaw
from pybayesridge.sites.approximation import Approximation
from pybayesridge.sites.leave_one_out import leave_one_out, rows_left_out
from pybayesridge.sites.likelihood import Likelihood
from pybayesridge.sites.normal_components import NormalComponents
from pybayesridge.sites.shape import ShapeGrid, shape_arrays
from pybayesridge.sites.spike_slab import RowSitesResult
from pybayesridge.sites.working import Working, lower_solve, upper_solve


@dataclass(frozen=True, slots=True, kw_only=True)
class SitesSelectionPosterior(NormalComponents, SelectionPosterior):
    """The approximate joint posterior of all coefficients, unpenalised ones first, on the scale of the link.

    `data` are the least-squares data that the sites of the rows make at the hyperparameters of the largest weight.

    Attributes
    ----------
    x, c : (n, p), (n, k) arrays
        Penalised columns on the scale of the prior, rotated within groups, and coordinates of the unpenalised ones;
        without rows where these were removed.
    row_likelihood : Likelihood
        Of none of the rows: the mean of a response. A further parameter has its posterior mean on the log scale.
    kept : tuple of Working
        Where the rows were removed: the Gaussian model of each result.
    shape : ShapeGrid or None
        The posterior of a further parameter of the likelihood that is integrated out, and the node of each result.
    """

    x: FloatArray
    c: FloatArray
    row_likelihood: Likelihood
    kept: tuple[Working, ...] = ()
    shape: ShapeGrid | None = None

    @property
    def log_shapes(self) -> FloatArray:
        """The log of the likelihood's further parameter in each result, (g,); nan where it has none."""
        if self.shape is None:
            return np.full(len(self.selection.results), self.row_likelihood.log_shape)
        return self.shape.u[self.shape.which]

    def response_moments(self, mean: FloatArray, variance: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean and mean square of the mean of a response over normal linear predictors."""
        return self.row_likelihood.moments_over(mean, variance)

    def of_responses(self, x_rows: AnyArray, z_rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation of the mean of a response at rows.

        Where there is no mean, the median and half the distance of the quantiles at one standard deviation of a
        normal distribution.
        """
        if self.row_likelihood.has_mean:
            return NormalComponents.of_responses(self, x_rows, z_rows)
        linear = self.rows(x_rows, z_rows).ask(Ask(AROUND_MEDIAN)).quantiles[:, 0]
        low, middle, high = self.row_likelihood.mean(linear).T
        return middle, 0.5 * (high - low)

    def new_responses(
        self,
        x_rows: AnyArray,
        z_rows: FloatArray,
        offset: FloatArray | float = 0.0,
        extent: FloatArray | None = None,
    ) -> ResponseLaw:
        """The law of a new response at rows of some extent, whose linear predictors have an `offset`; both (m,)."""
        law, parts = self.rows(x_rows, z_rows, offset), []
        for log_shape in np.unique(self.log_shapes).tolist():
            likelihood = self.row_likelihood if np.isnan(log_shape) else self.row_likelihood.of_shape(log_shape)
            own = np.flatnonzero(self.log_shapes == log_shape)
            if own.size in (0, self.log_shapes.size):
                part, share = law, 1.0
            else:
                part, share = law.of_components(own), float(law.components.weight[own].sum())
            linear = Curves(part.ask(Ask(tuple(ndtr(SCORES).tolist()), sd=False)).quantiles[:, 0])
            parts.append(Part(share, linear, likelihood.up_to, likelihood.around, extent))
        return ResponseLaw(parts, self.row_likelihood.whole)

    @property
    def component_weights(self) -> FloatArray:
        """Weights of the hyperparameters, (g,)."""
        return self.selection.weights

    def working(self, i: int) -> Working:
        """The Gaussian model that the sites of the rows make in a result."""
        if self.kept:
            return self.kept[i]
        result = self.selection.results[i]
        assert isinstance(result, RowSitesResult)
        return Working.of(self.x, self.c, result.row_sites)

    def likelihood(self, i: int) -> GaussianLikelihood:
        """The likelihood of the design's coefficients, rotated within groups, that these sites make."""
        return self.working(i).likelihood

    def as_arrays(self, *, rows_known: bool) -> dict[str, Any]:
        """Arrays from which the posterior is made again; see :mod:`pybayesridge.ep.components`.

        Given the standardised columns the coordinates f of ``z z_root`` are normal with mean ``flat_mean_i -
        flat_slope_i w`` and root of the covariance ``flat_root_i``: u rows of these arrays for each node, one node
        after another. A linear predictor is ``z z_root f + v w``.
        """
        root_n, rotation, k = np.sqrt(self.design.n), self.selection.rotation, len(self.selection.results)
        laws = [self.working(i).given_columns() for i in range(k)]
        # The rows are weighted by the sites, so that each node has its own.
        found = components(self.selection, (self.likelihood(i) for i in range(k)), shared=False)
        of_shape = {} if self.shape is None else shape_arrays(self.shape, self.log_shapes)
        return found | {
            **of_shape,
            "flat_mean": np.stack([mean for mean, _, _ in laws]) * root_n,
            "flat_slope": np.concatenate([rotation.back(slope) for _, slope, _ in laws]) * root_n,
            "flat_root": np.concatenate([root for _, _, root in laws]) * root_n,
        }

    def starting_point(self, columns: list[str]) -> NoReturn:
        """Not here."""
        raise ValueError("start must be results of a SpikeSlab with family='gaussian'")

    def nodes(self) -> tuple[Approximation, ...]:
        """The rows' linear predictors with their sites in each result; needs the rows."""
        return tuple(self._node(i) for i in range(len(self.selection.results)))

    def left_out(self, likelihood: Likelihood) -> LeaveOneOut:
        """Predictions of the rows of a likelihood from each other; needs the rows."""
        return leave_one_out(likelihood, self.nodes(), self.selection.weights)

    def rows_left_out(self, given: Likelihood, target: int = 0) -> LeftOut:  # type: ignore[override]
        """Log probabilities of the rows of a likelihood given the others; needs the rows."""
        return rows_left_out(given, self.nodes(), self.selection.weights)

    def _node(self, i: int) -> Approximation:
        result, working = self.selection.results[i], self.working(i)
        assert isinstance(result, RowSitesResult)
        own = np.einsum("ij,ij->i", working.of_c, working.of_c)
        return Approximation(
            log_t2=float(np.log(self.selection.hypers[i].slab_var)),
            sites=result.row_sites,
            mean=working.of_c @ working.half + working.rows @ result.mean,
            variance=own + row_variances(working.likelihood, result, working.rows),
            log_evidence=result.log_evidence,
            converged=result.converged,
            n_iter=result.n_iter,
            change=result.residual,
            log_shape=float(self.log_shapes[i]),
        )

    def coefficient_means(self) -> tuple[FloatArray, FloatArray]:
        """Posterior means of the unpenalised (k,) and the penalised (p,) coefficients."""
        b = self.selection.mean * self.unit
        h = np.zeros(self.design.block.k)
        for i, (weight, result) in enumerate(zip(self.selection.weights, self.selection.results, strict=True)):
            h += weight * _coordinates(self.working(i), result.mean)
        return self.to_user() @ h + self.design.taken_from_z(b[:, None])[:, 0], b

    def covariance(self, target: int = 0) -> FloatArray:
        """Posterior covariance of (unpenalised, penalised) coefficients, (k + p, k + p)."""
        selection, k, p = self.selection, self.design.block.k, self.design.p
        total, means = np.zeros((k + p, k + p)), []
        for i, (weight, result) in enumerate(zip(selection.weights, selection.results, strict=True)):
            working = self.working(i)
            _, slope, inverse = working.given_columns()
            cov = selection.rotation.covariance(covariance(working.likelihood, result))
            slope = -selection.rotation.back(slope)
            cross = blas.product(slope, cov)
            total[k:, k:] += weight * cov
            total[:k, k:] += weight * cross
            total[:k, :k] += weight * (blas.product(cross, slope.T) + inverse @ inverse.T)
            means.append(np.r_[_coordinates(working, result.mean), selection.rotation.back(result.mean)])
        total[k:, :k] = total[:k, k:].T
        shift = np.stack(means) - selection.weights @ np.stack(means)
        total += (shift * selection.weights[:, None]).T @ shift
        to_user = self.all_to_user()
        return to_user @ total @ to_user.T

    def row_components(self, x_rows: AnyArray, z_rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Means and variances of the linear predictor for each result, (g, m)."""
        rows = self.design.rows_outside_z(x_rows, z_rows)
        missing = np.asarray(np.isnan(rows).any(axis=1))
        rows = self.selection.rotation.rows(np.where(missing[:, None], 0.0, rows))
        of_c = z_rows @ self.to_user()
        means, variances = [], []
        for i, result in enumerate(self.selection.results):
            working = self.working(i)
            own = lower_solve(working.factor, of_c.T).T
            left = rows - own @ working.on_c
            part = row_variances(working.likelihood, result, left)
            means.append(np.where(missing, np.nan, own @ working.half + left @ result.mean))
            spread = np.maximum(part, 0.0) + np.einsum("ij,ij->i", own, own)
            variances.append(np.where(missing, np.nan, spread))
        return np.stack(means), np.stack(variances)

    def linear_components(
        self, x_rows: AnyArray, z_rows: FloatArray
    ) -> Iterator[tuple[slice, FloatArray, FloatArray]]:
        """All rows, and mean and variance of their linear predictors for each result, (g, m)."""
        yield slice(0, z_rows.shape[0]), *self.row_components(x_rows, z_rows)

    def placed(self, z_rows: FloatArray) -> tuple[FloatArray, float, FloatArray]:
        """The components have all of the linear predictor, and there is no noise."""
        return np.zeros(len(z_rows)), 1.0, np.zeros(len(self.selection.hypers))

    def draw(
        self, size: int, rng: np.random.Generator, *, by_gibbs: bool
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Draws of the unpenalised (size, k) and penalised (size, p) coefficients, and ones (size,)."""
        if by_gibbs:
            raise ValueError(
                "kind='gibbs' is for family='gaussian'; draws of yes/no responses by fit('exact') have exact zeros"
            )
        of_z, b = self.draws(size, rng)
        return of_z, b, np.ones(size)

    def draws(self, count: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Draws of the unpenalised (count, k) and penalised (count, p) coefficients, user's scale."""
        of_z, b, _ = self.draws_with_nodes(count, rng)
        return of_z, b

    def draws_of_unit(self, count: int, rng: np.random.Generator, unit: IntArray) -> tuple[FloatArray, FloatArray]:
        """The same, those of the columns `unit` (c,) of one unit zero or in together, by spike and slab."""
        of_z, b, _ = self.draws_with_nodes(count, rng, unit)
        return of_z, b

    def draws_with_nodes(
        self, count: int, rng: np.random.Generator, unit: IntArray | None = None
    ) -> tuple[FloatArray, FloatArray, IntArray]:
        """The same and the results that they come from, (count,)."""
        counts = rng.multinomial(count, self.selection.weights)
        coordinates, coefficients = [], []
        for i, (many, result) in enumerate(zip(counts.tolist(), self.selection.results, strict=True)):
            if many == 0:
                continue
            working = self.working(i)
            w = draw_coefficients(working.likelihood, result, many, rng, unit)
            scaled = working.half - w @ working.on_c.T + rng.standard_normal((many, working.half.size))
            coordinates.append(upper_solve(working.factor, scaled.T).T)
            coefficients.append(w)
        order = rng.permutation(count)
        b = self.selection.rotation.back(np.concatenate(coefficients)[order]) * self.unit
        of_z = self.flat_coefficients(np.concatenate(coordinates)[order], b)
        return of_z, b, np.repeat(np.arange(counts.size), counts)[order]

    def without_rows(self) -> SitesSelectionPosterior:
        """The same posterior without any row."""
        kept = self.kept or tuple(self.working(i).without_rows() for i in range(len(self.selection.results)))
        results = tuple(_without_sites(result) for result in self.selection.results)
        best = kept[int(self.selection.weights.argmax())]
        return replace(
            self,
            x=self.x[:0].copy(),
            c=self.c[:0].copy(),
            kept=kept,
            data=best.likelihood.data,
            selection=replace(self.selection, results=results),
            design=self.design.without_rows(),
        )


def _without_sites(result: object) -> RowSitesResult:
    assert isinstance(result, RowSitesResult)
    sites = result.row_sites
    return replace(result, row_sites=replace(sites, precision=sites.precision[:0], shift=sites.shift[:0]))


def _coordinates(working: Working, mean: FloatArray) -> FloatArray:
    """Means of the coordinates of the unpenalised columns, (k,), where the columns' are `mean`."""
    return upper_solve(working.factor, working.half - working.on_c @ mean)
