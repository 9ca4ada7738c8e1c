"""Several responses with several bands in groups, each integrated at nodes over the shares of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import lstsq

from pybayesridge._types import AnyArray, BoolArray, FloatArray, IntArray
from pybayesridge.bands.components import VarianceGrid
from pybayesridge.bands.posterior import BandCoefficients, BandDraws, BandPosterior, BandRows
from pybayesridge.bands.result import BandFit
from pybayesridge.design.design import Design
from pybayesridge.posterior.laws import Answer, Ask, CoefficientLaws, Joint
from pybayesridge.posterior.left_out import LeftOut
from pybayesridge.ridge.likelihood import GaussianNoise
from pybayesridge.text import TABLE_ROWS


@dataclass(frozen=True, slots=True)
class GroupedPosterior:
    """The joint posterior of all coefficients, unpenalised ones first, on the user's scale.

    Attributes
    ----------
    design : Design
        Of all q targets.
    groups : tuple of BandPosterior
        Each of some targets.
    members : tuple of int arrays
        The positions of these, ascending.
    """

    joint_law: ClassVar[Joint] = "exact"
    has_point_masses: ClassVar[bool] = False

    design: Design
    groups: tuple[BandPosterior, ...]
    members: tuple[IntArray, ...]

    @property
    def df(self) -> float:
        """Degrees of freedom of the components."""
        return self.groups[0].df

    def place(self, target: int) -> tuple[int, int]:
        """The group of a target, and its position there."""
        found = [(g, int(np.searchsorted(own, target))) for g, own in enumerate(self.members) if target in own]
        return found[0]

    def of_target(self, target: int) -> BandPosterior:
        """The posterior of one target."""
        group, own = self.place(target)
        return self.groups[group].of_targets(np.array([own]))

    def of_targets(self, which: IntArray | slice) -> GroupedPosterior:
        """The posterior of some of the targets."""
        chosen = np.arange(self.design.q)[which]
        places = [np.flatnonzero(np.isin(chosen, own)) for own in self.members]
        groups = [
            group.of_targets(np.searchsorted(own, chosen[at]))
            for group, own, at in zip(self.groups, self.members, places, strict=True)
            if at.size
        ]
        return replace(
            self,
            design=self.design.of_targets(which),
            groups=tuple(groups),
            members=tuple(at for at in places if at.size),
        )

    @property
    def coefficients(self) -> CoefficientLaws:
        """The posterior of each coefficient."""
        return BandCoefficients(self, TABLE_ROWS)

    def coefficient_means(self) -> tuple[FloatArray, FloatArray]:
        """Posterior means of the unpenalised (k, q) and the penalised (p, q) coefficients."""
        return self._pairs(BandPosterior.coefficient_means)

    def coefficient_signs(self) -> tuple[FloatArray, FloatArray]:
        """Probabilities that coefficients are positive, as :meth:`coefficient_means`."""
        return self._pairs(BandPosterior.coefficient_signs)

    def coefficient_sds(self) -> tuple[FloatArray, FloatArray]:
        """Posterior standard deviations, as :meth:`coefficient_means`."""
        return self._pairs(BandPosterior.coefficient_sds)

    def coefficient_quantiles(self, probabilities: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Quantiles at probabilities (c,), (k, q, c) and (p, q, c)."""
        return self._pairs(lambda group: group.coefficient_quantiles(probabilities))

    def _pairs(
        self, function: Callable[[BandPosterior], tuple[FloatArray, FloatArray]]
    ) -> tuple[FloatArray, FloatArray]:
        found = [function(group) for group in self.groups]
        first, second = (_joined([each[i] for each in found], self.members) for i in range(2))
        return first, second

    def covariance(self, target: int = 0) -> FloatArray:
        """Posterior covariance of (unpenalised, penalised) coefficients of one target: (k + p, k + p)."""
        group, own = self.place(target)
        return self.groups[group].covariance(own)

    def rows_left_out(self, noise: GaussianNoise, target: int = 0) -> LeftOut:
        """Predictions of the rows of a target from the others, by the nodes of its group."""
        return self.of_target(target).rows_left_out(noise)

    def groups_left_out(self, noise: GaussianNoise, target: int, codes: IntArray) -> LeftOut:
        """Predictions of groups of rows of a target, each from the other rows, likewise."""
        return self.of_target(target).groups_left_out(noise, 0, codes)

    def rows(self, x_rows: AnyArray, z_rows: FloatArray, offset: FloatArray | float = 0.0) -> GroupedRows:
        """The law of the linear predictor of rows plus `offset` (m,)."""
        return GroupedRows(tuple(group.rows(x_rows, z_rows, offset) for group in self.groups), self.members)

    def as_arrays(self) -> dict[str, Any]:
        """The nodes of all groups, each with weights of its own targets alone, and the base of the first group."""
        found, q = [group.as_arrays() for group in self.groups], self.design.q
        base, first = found[0]["base"], np.cumsum([0, *(len(group.factors) for group in self.groups)])

        def placed(values: FloatArray, own: IntArray, fill: float) -> FloatArray:
            out = np.full((len(values), q), fill)
            out[:, own] = values
            return out

        z = np.empty((len(base), q))
        for each, own in zip(found, self.members, strict=True):
            # Rows of a base times what a response has on them are X'y.
            z[:, own] = each["z"] if each is found[0] else lstsq(base.T, each["base"].T @ each["z"])[0]
        names = ("weight", "noise", "log_t2")
        return found[0] | {
            **{
                name: np.vstack(
                    [placed(each[name], own, fill) for each, own in zip(found, self.members, strict=True)]
                )
                for name, fill in zip(names, (0.0, 1.0, 0.0), strict=True)
            },
            "node_of": np.concatenate([each["node_of"] + start for each, start in zip(found, first, strict=False)]),
            "factors": np.vstack([group.factors for group in self.groups]),
            "z": z,
        }

    def without_rows(self) -> GroupedPosterior:
        """The same posterior without any array over rows of the data."""
        groups = tuple(group.without_rows() for group in self.groups)
        return replace(self, groups=groups, design=self.design.without_rows())


@dataclass(frozen=True, slots=True)
class GroupedRows:
    """The law of the linear predictor of rows, or of new observations, for all targets.

    Attributes
    ----------
    groups : tuple of BandRows
    members : tuple of int arrays
        As of :class:`GroupedPosterior`.
    """

    groups: tuple[BandRows, ...]
    members: tuple[IntArray, ...]

    def ask(self, ask: Ask) -> Answer:
        """Answer everything."""
        found = [group.ask(ask) for group in self.groups]
        names = ("mean", "sd", "center", "quantiles", "above")
        return Answer(*(_joined([getattr(each, name) for each in found], self.members) for name in names))

    def above(self, which: IntArray, at: FloatArray) -> FloatArray:
        """Probabilities of more than `at`, both (len(which), q)."""
        found = [group.above(which, at[:, own]) for group, own in zip(self.groups, self.members, strict=True)]
        return _joined(found, self.members)

    def all_zero(self) -> tuple[float, None]:
        """Nothing."""
        return 0.0, None

    def with_new_levels(self, values: FloatArray) -> GroupedRows:
        """The law with the effects of levels that no row of the data has; see :class:`BandRows`."""
        return replace(self, groups=tuple(group.with_new_levels(values) for group in self.groups))

    def with_noise(self, noise: FloatArray) -> GroupedRows:
        """The law of new observations."""
        return replace(self, groups=tuple(group.with_noise(noise) for group in self.groups))


@dataclass(frozen=True, slots=True)
class GroupedFit:
    """The outcome for q targets of which groups have nodes of their own.

    Attributes
    ----------
    design : Design
        Of all q targets.
    fits : tuple of BandFit
        Each of some targets.
    members : tuple of int arrays
        The positions of these, ascending.
    n_iter : int
        Ridges that were fitted.
    """

    design: Design
    fits: tuple[BandFit, ...]
    members: tuple[IntArray, ...]
    n_iter: int

    @property
    def posterior(self) -> GroupedPosterior:
        """Of the coefficients."""
        return GroupedPosterior(self.design, tuple(fit.posterior for fit in self.fits), self.members)

    @property
    def log_integral(self) -> FloatArray:
        """Logs of the integrals over all penalties, (q,)."""
        return self._each("log_integral")

    @property
    def sigma2(self) -> FloatArray:
        """Posterior means of the noise variances, in units of each target's squared norm, (q,)."""
        return self._each("sigma2")

    @property
    def df(self) -> FloatArray:
        """Posterior means of the traces of the hat matrices of the penalised columns, (q,)."""
        return self._each("df")

    @property
    def error(self) -> FloatArray:
        """Estimated errors of the quadratures over the shares, (q,)."""
        return self._each("error")

    @property
    def converged(self) -> BoolArray:
        """Of each target, (q,)."""
        return self._each("converged").astype(bool)

    @property
    def zero_variances(self) -> BoolArray:
        """None, (q, K)."""
        return np.zeros((self.design.q, self.fits[0].count), dtype=bool)

    @property
    def certain_correlations(self) -> FloatArray:
        """There are none, (q, 0)."""
        return np.zeros((self.design.q, 0))

    @property
    def n_nodes(self) -> int:
        """Number of nodes that matter: the most that a target has."""
        return max(fit.n_nodes for fit in self.fits)

    @property
    def loss(self) -> float:
        """Relative error, about, that rounding errors leave."""
        return max(fit.loss for fit in self.fits)

    @property
    def solver(self) -> str:
        """How the equations are solved."""
        return self.fits[0].solver

    def log_marginal(self, noise: GaussianNoise, log_weights: float, *, given: bool) -> FloatArray:
        """Log p(y), (q,), the penalties integrated out."""
        found = [fit.log_marginal(noise, log_weights, given=given) for fit in self.fits]
        return _joined(found, self.members)

    def grid(self, noise: GaussianNoise, target: int) -> VarianceGrid:
        """The joint posterior of the variances and the noise of a target."""
        fit, own = self._place(target)
        return fit.grid(noise, own)

    def draw(self, noise: GaussianNoise, target: int, size: int, rng: np.random.Generator) -> BandDraws:
        """Draw from the joint posterior of one target."""
        fit, own = self._place(target)
        return fit.draw(noise, own, size, rng)

    def explained(self, noise: GaussianNoise, target: int, rng: np.random.Generator) -> FloatArray:
        """Draws of the share of variance that all bands explain together, for one target."""
        fit, own = self._place(target)
        return fit.explained(noise, own, rng)

    def without_rows(self) -> GroupedFit:
        """The same without any array over rows of the data."""
        return replace(self, design=self.design.without_rows(), fits=tuple(fit.without_rows() for fit in self.fits))

    def _place(self, target: int) -> tuple[BandFit, int]:
        group, own = self.posterior.place(target)
        return self.fits[group], own

    def _each(self, name: str) -> FloatArray:
        return _joined([getattr(fit, name) for fit in self.fits], self.members)


def _joined(parts: Sequence[FloatArray], members: Sequence[IntArray]) -> FloatArray:
    """Arrays over the targets of each group as one: targets are the last axis of vectors, else the second."""
    axis = min(parts[0].ndim - 1, 1)
    order = np.argsort(np.concatenate(members), kind="stable")
    out: FloatArray = np.take(np.concatenate(parts, axis=axis), order, axis=axis)
    return out
