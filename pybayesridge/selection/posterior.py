"""From the exact posterior of sets back to the user's scale: coefficients, intervals, predictions, draws."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtr, stdtr

from pybayesridge._types import AnyArray, BoolArray, FloatArray, IntArray
from pybayesridge.design.design import Design
from pybayesridge.ep.model.least_squares import Data
from pybayesridge.ep.posterior import SelectionPosterior, StartingPoint
from pybayesridge.ep.selection import Selection
from pybayesridge.selection.methods import ExactSelection, problem_of_data
from pybayesridge.selection.mixture import Mixtures, law_of
from pybayesridge.selection.moments import covariance, draw, draw_chain, quantiles
from pybayesridge.selection.problem import Problem
from pybayesridge.selection.result import Exact
from pybayesridge.selection.states import States

BLOCK = 4_000_000
"""Numbers held at once for the linear predictors of rows in all states."""


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
        return starting_point(self.design, self.selection, columns)

    def coefficients(self) -> tuple[FloatArray, FloatArray]:
        """Posterior means of the unpenalised (k,) and the penalised (p,) coefficients."""
        b = self.exact.mean * self.unit
        return self.design.coefficients_of_z(b[:, None])[:, 0], b

    def standard_deviations(self) -> tuple[FloatArray, FloatArray]:
        """Posterior standard deviations, as :meth:`coefficients`."""
        k = self.design.block.k
        of_z = self.row_moments(np.zeros((k, self.design.p)), np.eye(k))[1]
        return of_z, np.sqrt(self.exact.var) * self.unit

    def given_inclusion(self) -> tuple[FloatArray, FloatArray]:
        """Means and variances of the penalised coefficients given that they are in, each (p,)."""
        return self.exact.cond_mean * self.unit, self.exact.cond_var * self.unit**2

    def intervals(self, alpha: float) -> tuple[FloatArray, FloatArray]:
        """Equal-tailed intervals, (k, 2) and (p, 2); of a penalised one those of spike and slab together."""
        k = self.design.block.k
        of_z = self.row_intervals(np.zeros((k, self.design.p)), np.eye(k), alpha, None)
        return of_z, self._quantiles(alpha, given=False)

    def intervals_given_inclusion(self, alpha: float) -> FloatArray:
        """Equal-tailed intervals of the penalised coefficients given that they are in, (p, 2)."""
        return self._quantiles(alpha, given=True)

    def _quantiles(self, alpha: float, *, given: bool) -> FloatArray:
        tails = np.array([alpha / 2, 1 - alpha / 2])
        at = quantiles(self.exact.states, self.exact.inclusion_prob, tails, given_inclusion=given)
        return at * self.unit[:, None]

    def covariance(self) -> FloatArray:
        """Posterior covariance of (unpenalised, penalised) coefficients, (k + p, k + p).

        Correlations are those of the kept states, variances those of :meth:`standard_deviations`.
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

    def row_moments(self, x_rows: AnyArray, z_rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Posterior mean and standard deviation of the linear predictor of new rows, each (m,)."""
        weight, noise = self.exact.states.weight, self.exact.states.mean_noise()
        sd, mean = [], []
        for rows, _, center, spread in self._predictors(x_rows, z_rows):
            each = weight @ center
            sd.append(np.sqrt(weight @ (noise[:, None] * spread + (center - each) ** 2)))
            mean.append(rows @ self.exact.mean)
        unit, of_z = self.design.y_norm[0], (z_rows @ self.design.y_on_z)[:, 0]
        return of_z + _joined(mean) * unit, _joined(sd) * unit

    def row_intervals(
        self, x_rows: AnyArray, z_rows: FloatArray, alpha: float, noise: FloatArray | None
    ) -> FloatArray:
        """Equal-tailed intervals of the linear predictor, or with `noise` (m,) of new observations: (m, 2)."""
        return self.row_quantiles(x_rows, z_rows, np.array([alpha / 2, 1 - alpha / 2]), noise)

    def row_quantiles(
        self, x_rows: AnyArray, z_rows: FloatArray, probabilities: FloatArray, noise: FloatArray | None
    ) -> FloatArray:
        """Quantiles (q,) of the linear predictor, or with `noise` (m,) of new observations: (m, q)."""
        states, out = self.exact.states, np.full((z_rows.shape[0], probabilities.size), np.nan)
        for rows, at, center, spread in self._predictors(x_rows, z_rows):
            own = spread if noise is None else spread + noise[at]
            scale, nu = _law(states, np.sqrt(own))
            known = np.flatnonzero(~np.isnan(rows).any(axis=1))
            mixtures = Mixtures.alike(states.weight, center[:, known], scale[:, known], law_of(nu))
            out[at.start + known] = mixtures.quantiles(probabilities)
        return z_rows @ self.design.y_on_z + out * self.design.y_norm[0]

    def units(self) -> IntArray:
        """The group of each penalised column, (p,): columns with equal numbers are in or out together."""
        groups = self.selection.groups
        return np.arange(self.design.p) if groups is None else groups

    def row_exceedance(self, x_rows: AnyArray, z_rows: FloatArray, at: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Probabilities that the linear predictor of each row exceeds `at` (m,), and that it is equal to it; (m,).

        By the kept states; of the columns of one unit these are weighted by its inclusion probability.
        """
        states, units, above, equal = self.exact.states, self.units(), [], []
        bound = (at - (z_rows @ self.design.y_on_z)[:, 0]) / self.design.y_norm[0]
        for rows, place, center, spread in self._predictors(x_rows, z_rows):
            weight = np.repeat(states.weight[:, None], rows.shape[0], axis=1)
            for i, row in enumerate(rows):
                of_row = np.unique(units[row != 0])
                share = float(states.weight[spread[:, i] > 0].sum())
                if of_row.size == 1 and 0.0 < share < 1.0:
                    p = float(self.exact.inclusion_prob[units == of_row[0]].max())
                    weight[:, i] *= np.where(spread[:, i] > 0, p / share, (1.0 - p) / (1.0 - share))
            each, same = _tails(states, center, np.sqrt(spread), bound[place])
            above.append((weight * each).sum(axis=0))
            equal.append((weight * same).sum(axis=0))
        return np.clip(_joined(above), 0.0, 1.0), np.clip(_joined(equal), 0.0, 1.0)

    def rows_all_at(self, x_rows: AnyArray, z_rows: FloatArray, at: FloatArray) -> float:
        """Probability, by the kept states, that the linear predictors of all rows are equal to `at` (m,) at once."""
        states = self.exact.states
        bound, all_at = (at - (z_rows @ self.design.y_on_z)[:, 0]) / self.design.y_norm[0], np.ones(states.n, bool)
        for _, place, center, spread in self._predictors(x_rows, z_rows):
            all_at &= _tails(states, center, np.sqrt(spread), bound[place])[1].all(axis=1)
        return float(states.weight[all_at].sum())

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
        if self.exact.method == "enumeration":
            return ()
        return tuple(np.unique(self.exact.states.chain).tolist())

    def draw_with_hyperparameters(
        self, size: int, rng: np.random.Generator, chain: int | None = None
    ) -> tuple[FloatArray, FloatArray, FloatArray, dict[str, FloatArray]]:
        """As :meth:`draw`, with draws of the hyperparameters (size,) by name; of one chain in its order."""
        states, p = self.exact.states, self.design.p
        drawn = draw(states, p, size, rng) if chain is None else draw_chain(states, p, chain, size, rng)
        b = drawn.coef * self.unit
        spread = np.sqrt(drawn.noise_var) * self.design.y_norm[0]
        of_z = self.design.coefficients_of_z(np.ascontiguousarray(b.T))
        k = self.design.block.k
        if k:
            of_z = of_z + self.design.block.regress(rng.standard_normal((k, size)) * spread)
        slab = drawn.slab_var * (self.design.y_norm[0] / self.design.common_scale) ** 2
        return of_z.T, b, spread**2, {"prior_inclusion": drawn.prior_inclusion, "slab_var": slab}

    def without_rows(self) -> ExactPosterior:
        """The same posterior without any row."""
        data = self.data.without_rows() if self.design.has_rows else self.data
        return replace(self, data=data, design=self.design.without_rows())


def starting_point(design: Design, selection: ExactSelection, columns: list[str]) -> StartingPoint:
    """Where a fit by expectation propagation can start: the posterior means of the hyperparameters."""
    hyper, y, none = selection.hyper, design.y_norm[0], np.zeros(design.p)
    return StartingPoint(
        tuple(columns),
        none,
        none,
        hyper.prior_inclusion,
        float(hyper.slab_var * (y / design.common_scale) ** 2),
        float(hyper.noise_var * y**2),
    )


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
    point = scale <= 0.0
    distance = (center - at) / np.where(point, 1.0, scale)
    above = ndtr(distance) if np.isinf(nu) else stdtr(nu, distance)
    return np.where(point, (center > at).astype(float), above), point & (center == at)
