"""From the exact posterior of sets back to the user's scale: coefficients, intervals, predictions, draws."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from pybayesridge._types import AnyArray, BoolArray, FloatArray, IntArray
from pybayesridge.data.units import units_of
from pybayesridge.design.design import Design
from pybayesridge.ep.model.least_squares import Data
from pybayesridge.ep.posterior import SelectionPosterior, StartingPoint
from pybayesridge.ep.selection import Selection
from pybayesridge.linalg import blas
from pybayesridge.posterior.coefficients import Coefficients
from pybayesridge.posterior.laws import Answer, Ask, Joint
from pybayesridge.posterior.left_out import LeftOut
from pybayesridge.posterior.quantiles import Common, upper_tail
from pybayesridge.ridge.explained import number_of_draws
from pybayesridge.selection.components import components
from pybayesridge.selection.credible import credible_sets
from pybayesridge.selection.hyperparameters import Interval, hyperparameters
from pybayesridge.selection.hyperparameters import errors as errors_of_hyperparameters
from pybayesridge.selection.left_out import rows_left_out
from pybayesridge.selection.marginals import ExactMarginals
from pybayesridge.selection.methods import ExactSelection, problem_of_data
from pybayesridge.selection.moments import covariance, draw, draw_chain, quantiles
from pybayesridge.selection.problem import Problem
from pybayesridge.selection.result import CredibleSet, Exact
from pybayesridge.selection.states import States

BLOCK = 4_000_000
"""Numbers held at once for the linear predictors of rows in all states."""

DRAWN = 1 << 20
"""Coefficients that are drawn at once."""


@dataclass(frozen=True, slots=True)
class ExactPosterior:
    """The joint posterior of all coefficients, unpenalised ones first, on the user's scale.

    Inclusion probabilities, means and variances are those of :class:`Exact`, which use every step of the sampler; all
    that depends on the joint distribution comes from the states that were kept.

    Attributes
    ----------
    design : Design
    data : Data
        Rotated within groups.
    selection : ExactSelection
    """

    joint_law: ClassVar[Joint] = "exact"
    has_point_masses: ClassVar[bool] = True

    design: Design
    data: Data
    selection: ExactSelection

    @property
    def exact(self) -> Exact:
        """The posterior in the units of the design."""
        return self.selection.exact

    @property
    def unit(self) -> FloatArray:
        """Factors that convert coefficients of the design to the user's scale, (p,)."""
        return self.design.y_norm[0] / self.design.scale

    def problem(self) -> Problem:
        """The cross-products of the columns."""
        selection = self.selection
        return problem_of_data(selection.rotation.unrotated(self.data), selection.n, selection.groups)

    def starting_point(self, columns: list[str]) -> StartingPoint:
        """Where a fit by expectation propagation can start: the posterior means of the hyperparameters."""
        return StartingPoint.without_sites(self.design, self.selection.hyper, columns)

    def as_arrays(self, *, rows_known: bool) -> dict[str, Any]:
        """Arrays from which the posterior is made again; see :mod:`pybayesridge.selection.components`.

        There are no rows among them, so that `rows_known` makes no difference.
        """
        data, design, exact = self.selection.rotation.unrotated(self.data), self.design, self.exact
        units = units_of(design.p, self.selection.groups)
        models = [np.sort(units.columns(model.units)) for model in exact.models]
        slab_unit = float((design.y_norm[0] / design.common_scale) ** 2)
        return components(exact, data.root, models, slab_unit, self._of_states(data))

    def _of_states(self, data: Data) -> dict[str, Any]:
        """What the laws of the kept states follow from."""
        return {"cross": data.cross[np.unique(self.exact.states.columns)]}

    def rows_left_out(self, given: None, target: int = 0) -> LeftOut:
        """Predictions of the rows from the others."""
        return rows_left_out(self.design, self.problem(), self.exact)

    @property
    def coefficients(self) -> Coefficients:
        """The posterior of each coefficient."""
        return Coefficients(self)

    def of_targets(self, which: slice) -> ExactPosterior:
        """The same, of the only target."""
        return self

    def coefficient_means(self) -> tuple[FloatArray, FloatArray]:
        """Posterior means of the unpenalised (k,) and the penalised (p,) coefficients."""
        b = self.exact.mean * self.unit
        return self.design.coefficients_of_z(b[:, None])[:, 0], b

    def coefficient_sds(self) -> tuple[FloatArray, FloatArray]:
        """Posterior standard deviations, as :meth:`coefficient_means`."""
        k = self.design.block.k
        of_z = self.row_moments(np.zeros((k, self.design.p)), np.eye(k))[1]
        return of_z, np.sqrt(self.exact.var) * self.unit

    def errors(self) -> tuple[FloatArray, FloatArray]:
        """Monte Carlo standard errors of the means and the standard deviations of all coefficients, each (k + p,)."""
        exact, k, p = self.exact, self.design.block.k, self.design.p
        own = np.stack([self.mean_errors(), self._of_errors("sd")])
        weight, noise = exact.states.weight, exact.states.mean_noise()
        parts = [np.zeros((2, 0))]
        for _, _, center, spread in self._predictors(np.zeros((k, p)), np.eye(k)):
            square = noise[:, None] * spread + (center - weight @ center) ** 2
            sd = np.sqrt(weight @ square)
            of_variance = exact.error_of_mean(square)
            of_sd = np.divide(of_variance, 2.0 * sd, out=np.zeros_like(sd), where=sd > 0)
            parts.append(np.stack([exact.error_of_mean(center), of_sd]) * self.design.y_norm[0])
        mean, sd = np.concatenate([*parts, own], axis=1)
        return mean, sd

    def mean_errors(self) -> FloatArray:
        """Monte Carlo standard errors of the means of the penalised coefficients, (p,); NaN in older files."""
        return self._of_errors("mean")

    def _of_errors(self, name: str) -> FloatArray:
        p = self.design.p
        if not self.is_sampled:
            return np.zeros(p)
        errors = self.exact.errors
        return np.full(p, np.nan) if errors is None else getattr(errors, name)[:p] * self.unit

    def given_inclusion(self) -> tuple[FloatArray, FloatArray]:
        """Means and variances of the penalised coefficients given that they are in, each (p,)."""
        return self.exact.cond_mean * self.unit, self.exact.cond_var * self.unit**2

    def coefficient_quantiles(self, probabilities: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Quantiles (c,), (k, c) and (p, c); of a penalised coefficient those of spike and slab together."""
        k = self.design.block.k
        of_z = self.row_quantiles(np.zeros((k, self.design.p)), np.eye(k), probabilities, None)
        return of_z, self.penalized_quantiles(probabilities)

    def quantiles_given_inclusion(self, probabilities: FloatArray) -> FloatArray:
        """Quantiles (c,) of the penalised coefficients given that they are in, (p, c)."""
        return self.penalized_quantiles(probabilities, given=True)

    def penalized_quantiles(self, probabilities: FloatArray, *, given: bool = False) -> FloatArray:
        """Quantiles (c,) of the penalised coefficients, spike and slab together or given that they are in, (p, c)."""
        at = quantiles(self.exact.states, self.exact.inclusion_prob, probabilities, given_inclusion=given)
        return at * self.unit[:, None]

    def covariance(self, target: int = 0) -> FloatArray:
        """Posterior covariance of (unpenalised, penalised) coefficients, (k + p, k + p).

        Correlations are those of the kept states, variances those of :meth:`coefficient_sds`.
        """
        design, k, p = self.design, self.design.block.k, self.design.p
        of_states = covariance(self.exact.states, p)
        own = np.diag(of_states)
        factor = np.sqrt(np.divide(self.exact.var, own, out=np.zeros(p), where=own > 0))
        cov = of_states * factor[:, None] * factor
        np.fill_diagonal(cov, self.exact.var)
        of_z = design.rows_outside_z(np.zeros((k, p)), np.eye(k))
        half = design.block.regress(np.eye(k))
        noise = float(self.exact.states.weight @ self.exact.states.mean_noise())
        out = np.zeros((k + p, k + p))
        cross = of_z @ cov
        out[k:, k:], out[:k, k:], out[k:, :k] = cov, cross, cross.T
        out[:k, :k] = cross @ of_z.T + noise * (half @ half.T)
        unit = np.concatenate([np.full(k, design.y_norm[0]), self.unit])
        return out * unit[:, None] * unit

    def row_means(self, x_rows: AnyArray, z_rows: FloatArray) -> FloatArray:
        """Posterior mean of the linear predictor of new rows, (m,)."""
        inside = self.design.rows_outside_z(x_rows, z_rows) @ self.exact.mean
        out: FloatArray = (z_rows @ self.design.y_on_z)[:, 0] + inside * self.design.y_norm[0]
        return out

    @property
    def is_sampled(self) -> bool:
        """Whether sets were sampled, so that means have a Monte Carlo error."""
        return self.exact.computation.sampled

    def row_moments(self, x_rows: AnyArray, z_rows: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Mean and standard deviation of the linear predictor of new rows, and the error of the mean; each (m,).

        The Monte Carlo standard error is that of a mean over the kept states, which is larger than that over all
        steps: zero where nothing was sampled.
        """
        weight, noise = self.exact.states.weight, self.exact.states.mean_noise()
        mean, sd, error = [], [], []
        for rows, _, center, spread in self._predictors(x_rows, z_rows):
            each = weight @ center
            sd.append(np.sqrt(weight @ (noise[:, None] * spread + (center - each) ** 2)))
            mean.append(rows @ self.exact.mean)
            error.append(self.exact.error_of_mean(center) if self.is_sampled else np.zeros(each.size))
        unit, of_z = self.design.y_norm[0], (z_rows @ self.design.y_on_z)[:, 0]
        return of_z + _joined(mean) * unit, _joined(sd) * unit, _joined(error) * unit

    def rows(self, x_rows: AnyArray, z_rows: FloatArray, offset: FloatArray | float = 0.0) -> ExactRows:
        """The law of the linear predictor of rows plus `offset` (m,)."""
        return ExactRows(self, x_rows, z_rows, np.zeros(z_rows.shape[0]) + offset)

    def row_quantiles(
        self, x_rows: AnyArray, z_rows: FloatArray, probabilities: FloatArray, noise: FloatArray | None
    ) -> FloatArray:
        """Quantiles (q,) of the linear predictor, or with `noise` (m,) of new observations: (m, q)."""
        states, out = self.exact.states, np.full((z_rows.shape[0], probabilities.size), np.nan)
        order = np.argsort(-states.weight, kind="stable")
        for rows, at, center, spread in self._predictors(x_rows, z_rows):
            own = spread if noise is None else spread + noise[at]
            scale, nu = _law(states, np.sqrt(own))
            known = np.flatnonzero(~np.isnan(rows).any(axis=1))
            mixtures = Common(center[np.ix_(order, known)], scale[np.ix_(order, known)], states.weight[order], nu)
            out[at.start + known] = mixtures.quantiles(probabilities, z_rows.shape[0])
        return z_rows @ self.design.y_on_z + out * self.design.y_norm[0]

    def units(self) -> IntArray:
        """The group of each penalised column, (p,): columns with equal numbers are in or out together."""
        groups = self.selection.groups
        return np.arange(self.design.p) if groups is None else groups

    def row_exceedance(
        self, x_rows: AnyArray, z_rows: FloatArray, at: FloatArray, noise: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Probabilities that the linear predictor of each row exceeds `at` (m,), and that it is equal to it; (m,).

        With `noise` (m,) those of new observations. By the kept states; of the columns of one unit these are weighted
        by its inclusion probability, also where it is in all of them.
        """
        states, units, above, equal = self.exact.states, self.units(), [], []
        bound = (at - (z_rows @ self.design.y_on_z)[:, 0]) / self.design.y_norm[0]
        for rows, place, center, spread in self._predictors(x_rows, z_rows):
            weight = np.repeat(states.weight[:, None], rows.shape[0], axis=1)
            if noise is not None:
                spread = spread + noise[place]
            unseen = np.zeros(rows.shape[0])
            flat = np.logical_not(z_rows[place].any(axis=1))
            for i, row in enumerate(rows if noise is None else ()):
                of_row, inside = np.unique(units[row != 0]), spread[:, i] > 0
                if of_row.size != 1 or not inside.any() or (inside.all() and not flat[i]):
                    continue
                p = float(self.exact.inclusion_prob[units == of_row[0]].max())
                share = float(states.weight[inside].sum())
                weight[inside, i] *= p / share
                if inside.all():
                    unseen[i] = 1.0 - p
                else:
                    weight[~inside, i] *= (1.0 - p) / (1.0 - share)
            each, same = _tails(states, center, np.sqrt(spread), bound[place])
            above.append((weight * each).sum(axis=0) + unseen * (bound[place] < 0))
            equal.append((weight * same).sum(axis=0) + unseen * (bound[place] == 0))
        return np.clip(_joined(above), 0.0, 1.0), np.clip(_joined(equal), 0.0, 1.0)

    def rows_all_at(self, x_rows: AnyArray, z_rows: FloatArray, at: FloatArray) -> tuple[float, float | None]:
        """Probability, by the kept states, that the linear predictors of all rows are equal to `at` (m,) at once.

        And its Monte Carlo standard error, None where nothing was sampled.
        """
        states = self.exact.states
        bound, all_at = (at - (z_rows @ self.design.y_on_z)[:, 0]) / self.design.y_norm[0], np.ones(states.n, bool)
        for _, place, center, spread in self._predictors(x_rows, z_rows):
            all_at &= _tails(states, center, np.sqrt(spread), bound[place])[1].all(axis=1)
        error = float(self.exact.error_of_mean(all_at.astype(np.float64))) if self.is_sampled else None
        return float(states.weight[all_at].sum()), error

    def _predictors(
        self, x_rows: AnyArray, z_rows: FloatArray
    ) -> Iterator[tuple[FloatArray, slice, FloatArray, FloatArray]]:
        """Blocks of rows outside Z, their place, and the mean and variance / s2 of their predictors given each state.

        Both are (S, rows of the block).
        """
        states, total = self.exact.states, z_rows.shape[0]
        leverage = self.design.block.leverage(z_rows)
        step = max(BLOCK // max(states.n, self.design.p, 1), 1)
        for begin in range(0, total, step):
            at = slice(begin, min(begin + step, total))
            rows = self.design.rows_outside_z(x_rows[at], z_rows[at])
            center = np.empty((states.n, rows.shape[0]))
            spread = np.empty_like(center)
            for i in range(states.n):
                inside = rows[:, states.set_of(i)]
                center[i] = inside @ states.coef[states.start[i] : states.start[i + 1]]
                half = inside @ states.root[i]
                spread[i] = np.einsum("ij,ij->i", half, half) + leverage[at]
            yield rows, at, center, spread

    def draw(
        self, size: int, rng: np.random.Generator, *, by_gibbs: bool = False
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Independent draws of the unpenalised (size, k) and penalised (size, p) coefficients and the noise (size,).

        Columns that are out have coefficients of exactly 0. `by_gibbs` makes no difference.
        """
        return self.draw_with_hyperparameters(size, rng)[:3]

    @property
    def chains(self) -> tuple[int, ...]:
        """Chains of the sampler with states that were kept; none by enumeration."""
        if not self.is_sampled:
            return ()
        return tuple(np.unique(self.exact.states.chain).tolist())

    def draw_with_hyperparameters(
        self, size: int, rng: np.random.Generator, chain: int | None = None
    ) -> tuple[FloatArray, FloatArray, FloatArray, dict[str, FloatArray]]:
        """As :meth:`draw`, with draws of the hyperparameters (size,) by name; of one chain in its order.

        ``state`` is the kept state of each draw.
        """
        states, p = self.exact.states, self.design.p
        drawn = draw(states, p, size, rng) if chain is None else draw_chain(states, p, chain, size, rng)
        b = drawn.coef * self.unit
        spread = np.sqrt(drawn.noise_var) * self.design.y_norm[0]
        of_z = self.design.coefficients_of_z(np.ascontiguousarray(b.T))
        k = self.design.block.k
        if k:
            of_z = of_z + self.design.block.regress(rng.standard_normal((k, size)) * spread)
        slab = drawn.slab_var * (self.design.y_norm[0] / self.design.common_scale) ** 2
        return (
            of_z.T,
            b,
            spread**2,
            {
                "prior_inclusion": drawn.prior_inclusion,
                "slab_var": slab,
                "state": drawn.state.astype(np.float64),
            },
        )

    @property
    def noise_factor(self) -> float:
        """The variance of the response's noise in multiples of what is drawn as such."""
        return 1.0

    def explained_share(self, rng: np.random.Generator) -> FloatArray:
        """Draws, ascending, of the share of variance that the penalised columns explain at the rows.

        With g their part of the linear predictor (the unpenalised columns projected out, rows weighted to a mean
        weight of 1) and c the variance of the noise it is ``|g|^2 / (|g|^2 + n c)``.
        """
        return np.sort(self._explained(rng)[0])

    def explained_error(self, rng: np.random.Generator) -> tuple[float, float, float]:
        """Mean of the draws of :meth:`explained_share`, its Monte Carlo standard error, and their variance."""
        (share, state), exact = self._explained(rng), self.exact
        mean, variance = float(share.mean()), float(share.var())
        if not self.is_sampled:
            return mean, float(np.sqrt(variance / share.size)), variance
        influence = np.asarray(np.bincount(state, (share - mean) / share.size, exact.states.n), dtype=np.float64)
        return mean, float(exact.error_of_influence(influence)), variance

    def _explained(self, rng: np.random.Generator) -> tuple[FloatArray, IntArray]:
        """Draws of that share, and the kept state of each."""
        root, p = self.selection.rotation.unrotated(self.data).root, self.design.p
        size, parts, states = number_of_draws(p), [], []
        step = max(DRAWN // max(p, 1), 1)
        for begin in range(0, size, step):
            _, b, noise, hyper = self.draw_with_hyperparameters(min(step, size - begin), rng)
            inside = b.any(axis=0)
            fit = (blas.product(root[:, inside], (b * self.design.scale)[:, inside].T) ** 2).sum(axis=0)
            parts.append(fit / (fit + self.selection.n * self.noise_factor * noise))
            states.append(hyper["state"].astype(np.intp))
        return np.concatenate(parts), np.concatenate(states)

    def hyperparameters(self, alpha: float) -> dict[str, Interval]:
        """Mean and equal-tailed interval of each hyperparameter, on the user's scale."""
        return hyperparameters(self, alpha)

    def hyperparameter_errors(self) -> dict[str, tuple[float, float]]:
        """Monte Carlo standard error and posterior variance of each hyperparameter."""
        return errors_of_hyperparameters(self)

    def credible_sets(self, coverage: float = 0.95, min_abs_corr: float = 0.5) -> tuple[CredibleSet, ...]:
        """Disjoint sets of correlated units, each with at least one that is in with probability `coverage`."""
        return credible_sets(self.problem(), self.exact, coverage=coverage, min_abs_corr=min_abs_corr)

    def without_row_space(self) -> ExactMarginals:
        """What each coefficient has alone, and the posterior of the sets of columns."""
        return ExactMarginals.of(self, self.credible_sets())

    def without_rows(self) -> ExactPosterior:
        """The same posterior without any row."""
        data = self.data.without_rows() if self.design.has_rows else self.data
        return replace(self, data=data, design=self.design.without_rows())


@dataclass(frozen=True, slots=True)
class ExactRows:
    """The law of the linear predictor of rows, or of new observations.

    Means and all that concerns one column alone use every step of the sampler, the rest the states that were kept.

    Attributes
    ----------
    posterior : ExactPosterior
    x_rows, z_rows : (m, p), (m, k) arrays
    offset : (m,) array
    noise : (m,) array or None
        Variance of new observations relative to that of the noise.
    """

    posterior: ExactPosterior
    x_rows: AnyArray
    z_rows: FloatArray
    offset: FloatArray
    noise: FloatArray | None = None

    def ask(self, ask: Ask) -> Answer:
        """Answer everything."""
        posterior, at = self.posterior, np.array(ask.probabilities)
        if ask.sd:
            mean, sd, error = posterior.row_moments(self.x_rows, self.z_rows)
        else:
            mean = posterior.row_means(self.x_rows, self.z_rows)
            sd, error = np.full((2, mean.size), np.nan)
        solved = np.zeros((mean.size, 0))
        if at.size:
            solved = posterior.row_quantiles(self.x_rows, self.z_rows, at, self.noise)
        if self.noise is None:
            sd, error, solved = self._of_columns(sd, error, solved, at)
        else:
            states = posterior.exact.states
            spread = float(states.weight @ states.mean_noise()) * posterior.design.y_norm[0] ** 2
            sd = np.sqrt(sd**2 + spread * self.noise)
        above = zero = np.full(mean.size, np.nan)
        if ask.above:
            above, zero = posterior.row_exceedance(self.x_rows, self.z_rows, -self.offset, self.noise)
        mean = (mean + self.offset)[:, None]
        solved = (solved + self.offset[:, None])[:, None]
        mcse = error[:, None] if ask.sd and posterior.is_sampled else None
        return Answer(mean, sd[:, None], mean, solved, above[:, None], zero[:, None], mcse)

    def above(self, which: IntArray, at: FloatArray) -> FloatArray:
        """Probabilities of more than `at`, both (len(which), 1)."""
        bound, noise = at[:, 0] - self.offset[which], None if self.noise is None else self.noise[which]
        return self.posterior.row_exceedance(self.x_rows[which], self.z_rows[which], bound, noise)[0][:, None]

    def all_zero(self) -> tuple[float, float | None]:
        """By the states that were kept."""
        return self.posterior.rows_all_at(self.x_rows, self.z_rows, -self.offset)

    def with_noise(self, noise: FloatArray) -> ExactRows:
        """The law of new observations."""
        return replace(self, noise=noise)

    def _of_columns(
        self, sd: FloatArray, error: FloatArray, solved: FloatArray, at: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Standard deviations, errors of means and quantiles, of rows of one column by every step of the sampler."""
        flat = np.flatnonzero(~(self.z_rows != 0).any(axis=1))
        rows = self.x_rows[flat]
        rows = np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows, dtype=np.float64)
        single = (rows != 0).sum(axis=1) == 1
        if not single.any():
            return sd, error, solved
        place, rows = flat[single], rows[single]
        column = np.abs(rows).argmax(axis=1)
        weight = rows[np.arange(column.size), column]
        sd[place] = np.abs(weight) * self.posterior.coefficient_sds()[1][column]
        error[place] = np.abs(weight) * self.posterior.mean_errors()[column]
        if at.size:
            up = self.posterior.penalized_quantiles(at)[column]
            if (weight < 0).any():
                down = self.posterior.penalized_quantiles(1 - at)[column]
                up = np.where(weight[:, None] < 0, down, up)
            solved[place] = weight[:, None] * up
        return sd, error, solved


def posterior_of(
    design: Design, data: Data, selection: Selection | ExactSelection
) -> SelectionPosterior | ExactPosterior:
    """The posterior that a fit found, on the user's scale; `data` are rotated within groups."""
    if isinstance(selection, ExactSelection):
        return ExactPosterior(design, data, selection)
    return SelectionPosterior(design, data, selection)


def _joined(parts: list[FloatArray]) -> FloatArray:
    return np.concatenate([*parts, np.zeros(0)])


def _law(states: States, scale: FloatArray) -> tuple[FloatArray, float]:
    """Scales (S, m) beside s2 as those of t distributions (or normal ones), and the degrees of freedom."""
    if states.noise_var is None:
        return scale * np.sqrt(states.left / states.nu)[:, None], states.nu
    return scale * np.sqrt(states.noise_var)[:, None], np.inf


def _tails(states: States, center: FloatArray, scale: FloatArray, at: FloatArray) -> tuple[FloatArray, BoolArray]:
    """For each state and row, the probability of exceeding `at` (m,), and whether all of it is at `at`; (S, m)."""
    scale, nu = _law(states, scale)
    return upper_tail(center, scale, at, nu), (scale <= 0.0) & (center == at)
