"""From the posterior of sets for yes/no responses to the user's scale: coefficients, probabilities, draws."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from pybayesridge._types import AnyArray, FloatArray, IntArray
from pybayesridge.binomial.augmentation import BinomialRows
from pybayesridge.binomial.left_out import SampledSets, rows_left_out
from pybayesridge.binomial.likelihood import Binomial, from_counts
from pybayesridge.binomial.link import LATENT_VARIANCE, Link
from pybayesridge.binomial.logistic_normal import probability_moments
from pybayesridge.data.units import units_of
from pybayesridge.ep.model.least_squares import Data
from pybayesridge.linalg.blocks import dense
from pybayesridge.posterior.left_out import LeftOut
from pybayesridge.posterior.quantiles import Common
from pybayesridge.posterior.responses import Normals, Part, ResponseLaw
from pybayesridge.selection.hyperparameters import Interval
from pybayesridge.selection.moments import covariance, draw, draw_chain
from pybayesridge.selection.posterior import BLOCK, ExactPosterior
from pybayesridge.selection.states import States
from pybayesridge.sites.normal_components import NormalComponents
from pybayesridge.sites.sets import rows_of_design


@dataclass(frozen=True, slots=True, kw_only=True)
class BinarySelectionPosterior(NormalComponents, ExactPosterior):
    """The joint posterior of all coefficients, unpenalised ones first, on the scale of the link.

    Given a kept state, which stands for a set, a slab variance and auxiliary variables, the coefficients are normal.

    Attributes
    ----------
    joint : States
        The kept states with the k coordinates of the unpenalised columns before the columns that are in.
    link : {"logit", "probit"}
    """

    joint: States
    link: Link

    def response_moments(self, mean: FloatArray, variance: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean and mean square of the probability of success over normal linear predictors."""
        return probability_moments(mean, variance, self.link)

    def _of_states(self, data: Data) -> dict[str, Any]:
        """The law of the coordinates of each state."""
        joint, k, root_n = self.joint, self.design.block.k, np.sqrt(self.design.n)
        means, roots = [np.zeros(0)], [np.zeros(0)]
        for i in range(joint.n):
            mean = joint.coef[joint.start[i] : joint.start[i + 1]]
            unit = np.where(np.arange(mean.size) < k, root_n, 1.0)
            means.append(mean * unit)
            roots.append((joint.root[i] * unit[:, None]).ravel(order="F"))
        return {"state_mean": np.concatenate(means), "state_root": np.concatenate(roots)}

    @property
    def noise_factor(self) -> float:
        """The variance of the latent noise."""
        return LATENT_VARIANCE[self.link]

    def hyperparameters(self, alpha: float) -> dict[str, Interval]:
        """Mean and equal-tailed interval of each hyperparameter: there is no noise variance."""
        found = ExactPosterior.hyperparameters(self, alpha)
        return {name: found[name] for name in ("prior_inclusion", "slab_var", "prior_share")}

    @property
    def component_weights(self) -> FloatArray:
        """Weights of the kept states, (S,)."""
        return self.joint.weight

    def _mean_coordinates(self) -> FloatArray:
        """Posterior means of the coordinates of the unpenalised columns, (k,)."""
        joint, k = self.joint, self.design.block.k
        each = joint.coef[joint.start[:-1, None] + np.arange(k)]
        out: FloatArray = joint.weight @ each
        return out

    def coefficient_means(self) -> tuple[FloatArray, FloatArray]:
        """Posterior means of the unpenalised (k,) and the penalised (p,) coefficients."""
        b = self.exact.mean * self.unit
        return self.to_user() @ self._mean_coordinates() + self.design.taken_from_z(b[:, None])[:, 0], b

    def covariance(self, target: int = 0) -> FloatArray:
        """Posterior covariance of (unpenalised, penalised) coefficients, (k + p, k + p).

        Correlations are those of the kept states, variances those of :meth:`coefficient_sds`.
        """
        size, to_user = self.design.block.k + self.design.p, self.all_to_user()
        cov = to_user @ covariance(self.joint, size) @ to_user.T
        own, sd = np.diag(cov), np.concatenate(self.coefficient_sds())
        factor = np.divide(sd, np.sqrt(own), out=np.zeros(size), where=own > 0)
        cov = cov * factor[:, None] * factor
        np.fill_diagonal(cov, sd**2)
        return cov

    def row_means(self, x_rows: AnyArray, z_rows: FloatArray) -> FloatArray:
        """Posterior mean of the linear predictor of new rows, (m,)."""
        return ExactPosterior.row_means(self, x_rows, z_rows) + z_rows @ self.to_user() @ self._mean_coordinates()

    def row_moments(self, x_rows: AnyArray, z_rows: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Mean and standard deviation of the linear predictor of new rows, and the error of the mean; each (m,)."""
        mean, sd, error = ExactPosterior.row_moments(self, x_rows, z_rows)
        return mean + z_rows @ self.to_user() @ self._mean_coordinates(), sd, error

    def response_errors(self, x_rows: AnyArray, z_rows: FloatArray) -> FloatArray:
        """Monte Carlo standard errors of the posterior mean of the probability of success of rows, (m,)."""
        parts = [np.zeros(0)]
        for _, center, spread in self.linear_components(x_rows, z_rows):
            parts.append(self.exact.error_of_mean(probability_moments(center, spread, self.link)[0]))
        return np.concatenate(parts)

    def new_responses(
        self,
        x_rows: AnyArray,
        z_rows: FloatArray,
        offset: FloatArray | float = 0.0,
        extent: FloatArray | None = None,
    ) -> ResponseLaw:
        """The law of a new number of successes at rows with trials `extent`; see the posterior of a ridge."""
        center, spread = np.empty((2, self.joint.n, z_rows.shape[0]))
        for at, mean, variance in self.linear_components(x_rows, z_rows):
            center[:, at], spread[:, at] = mean, variance
        components = Common(center + offset, np.sqrt(spread), self.component_weights, np.inf)
        likelihood = from_counts(np.zeros(0), None, None, self.link)
        return ResponseLaw([Part(1.0, Normals(components), likelihood.up_to, likelihood.around, extent)], whole=True)

    def _predictors(
        self, x_rows: AnyArray, z_rows: FloatArray
    ) -> Iterator[tuple[FloatArray, slice, FloatArray, FloatArray]]:
        """Blocks of rows outside Z, their place, and mean and variance of their predictors given each state."""
        joint, total, k = self.joint, z_rows.shape[0], self.design.block.k
        step = max(BLOCK // max(joint.n, self.design.p + k, 1), 1)
        of_z = z_rows @ self.to_user()
        for begin in range(0, total, step):
            at = slice(begin, min(begin + step, total))
            rows = self.design.rows_outside_z(x_rows[at], z_rows[at])
            whole = np.hstack([of_z[at], rows])
            center = np.empty((joint.n, rows.shape[0]))
            spread = np.empty_like(center)
            for i in range(joint.n):
                inside = whole[:, joint.set_of(i)]
                center[i] = inside @ joint.coef[joint.start[i] : joint.start[i + 1]]
                half = inside @ joint.root[i]
                spread[i] = np.einsum("ij,ij->i", half, half)
            yield rows, at, center, spread

    def linear_components(
        self, x_rows: AnyArray, z_rows: FloatArray
    ) -> Iterator[tuple[slice, FloatArray, FloatArray]]:
        """Blocks of rows, and mean and variance of their linear predictors in each kept state, (S, rows)."""
        for _, at, center, spread in self._predictors(x_rows, z_rows):
            yield at, center, spread

    def rows_left_out(self, given: Binomial, target: int = 0) -> LeftOut:  # type: ignore[override]
        """Predictions of the rows of a likelihood from the others; needs the rows."""
        return rows_left_out(self.sampled_sets(given))

    def sampled_sets(self, likelihood: Binomial) -> SampledSets:
        """The kept states and the rows that they predict."""
        design, units = self.design, units_of(self.design.p, self.selection.groups)
        rows = BinomialRows.of(*rows_of_design(design), likelihood, units)
        x = dense(design.x)[:, design.columns]

        def moments(which: IntArray | slice) -> Iterator[tuple[slice, FloatArray, FloatArray]]:
            return self.linear_components(x[which], design.block.z[which])

        return SampledSets(self.exact, self.joint, rows, moments)

    def draws(self, count: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Draws of the unpenalised (count, k) and penalised (count, p) coefficients, user's scale."""
        of_z, b, _, _ = self.draw_with_hyperparameters(count, rng)
        return of_z, b

    def draw_with_hyperparameters(
        self, size: int, rng: np.random.Generator, chain: int | None = None
    ) -> tuple[FloatArray, FloatArray, FloatArray, dict[str, FloatArray]]:
        """Draws of the unpenalised (size, k) and penalised (size, p) coefficients, ones, and hyperparameters."""
        design, k = self.design, self.design.block.k
        joint, d = self.joint, k + self.design.p
        drawn = draw(joint, d, size, rng) if chain is None else draw_chain(joint, d, chain, size, rng)
        b = drawn.coef[:, k:] * self.unit
        of_z = self.flat_coefficients(drawn.coef[:, :k], b)
        hyper = {
            "prior_inclusion": drawn.prior_inclusion,
            "slab_var": drawn.slab_var / design.common_scale**2,
            "state": drawn.state.astype(np.float64),
        }
        return of_z, b, np.ones(size), hyper
