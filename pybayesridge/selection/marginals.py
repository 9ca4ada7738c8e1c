"""The posterior of each coefficient alone, and of the sets: what is left of the exact one without the row space."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.design.design import Design
from pybayesridge.ep.model.rotation import Rotation
from pybayesridge.ep.posterior import StartingPoint
from pybayesridge.posterior.coefficients import MarginalsAlone
from pybayesridge.posterior.laws import Joint
from pybayesridge.posterior.quantiles import within_slab
from pybayesridge.quantile_tables import MonotoneTable, check_tails
from pybayesridge.selection.hyperparameters import Interval, Sets, shares, variances
from pybayesridge.selection.methods import ExactSelection
from pybayesridge.selection.moments import slabs_of
from pybayesridge.selection.result import CredibleSet, Exact

POINTS = 241
"""Points of a table of coefficients: their quantile functions can be steep between two modes."""

FEWER = 61
"""Points of a table of variances where these have a smooth distribution."""

VARIANCES, SHARES = ("noise_var", "slab_var"), ("prior_inclusion", "prior_share")
"""Hyperparameters; those of the second kind are between 0 and 1."""


@dataclass(frozen=True, slots=True)
class HyperTable:
    """The posterior of each hyperparameter alone.

    Attributes
    ----------
    mean : dict of str to float
        NaN where it is given.
    log_variance, share : MonotoneTable
        Of the logarithms of `VARIANCES`, and of `SHARES`, (2, 1).
    """

    mean: dict[str, float]
    log_variance: MonotoneTable
    share: MonotoneTable

    @classmethod
    def of(cls, posterior: Sets) -> HyperTable:
        """Tabulate them."""
        smooth = posterior.exact.states.noise_var is None
        points = FEWER if smooth else POINTS
        of_variance = variances(posterior, MonotoneTable.probabilities(exactly=False, points=points))
        of_share = shares(posterior, MonotoneTable.probabilities(exactly=False, points=POINTS))

        def table(quantiles: list[FloatArray], points: int) -> MonotoneTable:
            return MonotoneTable.of(np.stack(quantiles)[:, None], np.inf, exactly=False, points=points)

        return cls(
            {name: mean for name, (mean, _) in (of_variance | of_share).items()},
            table([np.log(of_variance[name][1]) for name in VARIANCES], points),
            # A share that is given has no distribution: NaN, which a table does not take.
            table([np.nan_to_num(of_share[name][1]) for name in SHARES], POINTS),
        )

    def intervals(self, alpha: float) -> dict[str, Interval]:
        """Mean and equal-tailed interval of each."""
        tails = (alpha / 2, 1 - alpha / 2)
        of_variance = np.exp(np.stack([self.log_variance.at(p)[:, 0] for p in tails], axis=-1))
        ends = np.concatenate([of_variance, np.stack([self.share.at(p)[:, 0] for p in tails], axis=-1)])
        return {
            name: (self.mean[name], *(np.full(2, np.nan) if np.isnan(self.mean[name]) else own).tolist())
            for name, own in zip((*VARIANCES, *SHARES), ends, strict=True)
        }


@dataclass(frozen=True, slots=True)
class ExactMarginals(MarginalsAlone):
    """The marginals of :class:`ExactPosterior` for single coefficients, and the probabilities of sets of columns.

    Without rows, cross-products and what the coefficients are given a set.

    Attributes
    ----------
    design : Design
        Without rows and without what the columns have in common with the unpenalised ones.
    selection : ExactSelection
        Probabilities, evidence and moments; of the kept states the sets alone, equal ones as one.
    mean, sd, given : tuples of two arrays
        Means and standard deviations of the unpenalised (k,) and penalised (p,) coefficients; means and variances
        (p,) of the penalised ones given that they are in.
    of_z : MonotoneTable
        Of the unpenalised coefficients, (k, 1).
    visited : (V,) int array
        Columns that are in some kept state.
    slab : MonotoneTable
        Of these given that they are in, (V, 1).
    negative : (V,) array
        The probability of a coefficient below 0, given that it is in.
    hyper : HyperTable
    sets : tuple of CredibleSet
        Credible sets with the default arguments.
    """

    joint_law: ClassVar[Joint] = "none"
    has_point_masses: ClassVar[bool] = True

    design: Design
    selection: ExactSelection
    mean: tuple[FloatArray, FloatArray]
    sd: tuple[FloatArray, FloatArray]
    given: tuple[FloatArray, FloatArray]
    of_z: MonotoneTable
    visited: IntArray
    slab: MonotoneTable
    negative: FloatArray
    hyper: HyperTable
    sets: tuple[CredibleSet, ...]

    @classmethod
    def of(cls, posterior: Any, sets: tuple[CredibleSet, ...]) -> ExactMarginals:
        """Keep what each coefficient of an exact posterior has alone.

        Raises
        ------
        ValueError
            If the probabilities of all sets of columns determine the space of the rows.
        """
        _check_sets(posterior)
        k, p = posterior.design.block.k, posterior.design.p
        nu = posterior.exact.states.nu if posterior.exact.states.noise_var is None else np.inf
        at = MonotoneTable.probabilities(exactly=False, points=POINTS)
        visited, slabs = slabs_of(posterior.exact.states)
        slab = slabs.quantiles(at) * posterior.unit[visited, None]
        of_z = posterior.row_quantiles(np.zeros((k, p)), np.eye(k), at, None)

        def table(quantiles: FloatArray) -> MonotoneTable:
            return MonotoneTable.of(quantiles[:, None], nu, exactly=False, points=POINTS)

        return cls(
            design=posterior.design.without_row_space(),
            selection=_without_coefficients(posterior.selection),
            mean=posterior.coefficient_means(),
            sd=posterior.coefficient_sds(),
            given=posterior.given_inclusion(),
            of_z=table(of_z),
            visited=visited,
            slab=table(slab),
            negative=slabs.below(np.zeros(visited.size)),
            hyper=HyperTable.of(posterior),
            sets=sets,
        )

    @property
    def exact(self) -> Exact:
        """The posterior of the sets, in the units of the design."""
        return self.selection.exact

    def of_targets(self, which: slice) -> ExactMarginals:
        """The same, of the only target."""
        return self

    def credible_sets(self) -> tuple[CredibleSet, ...]:
        """Credible sets with the default arguments."""
        return self.sets

    def given_inclusion(self) -> tuple[FloatArray, FloatArray]:
        """Means and variances of the penalised coefficients given that they are in, each (p,)."""
        return self.given

    def coefficient_quantiles(self, probabilities: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Quantiles (c,), (k, c) and (p, c); of a penalised coefficient those of spike and slab together."""
        check_tails(probabilities)
        at = probabilities.tolist()
        of_b = np.zeros((self.design.p, len(at)))
        of_b[self.visited] = np.stack([self._with_spike(p) for p in at], axis=-1)
        return np.stack([self.of_z.at(p)[:, 0] for p in at], axis=-1), of_b

    def _with_spike(self, probability: float) -> FloatArray:
        share = self.exact.inclusion_prob[self.visited]
        safe = np.where(share > 0, share, 1.0)
        negative = share * self.negative
        inside = np.clip(within_slab(np.full(share.size, probability), safe, negative), 0.0, 1.0)
        on_spike = (share < 1) & (negative < probability) & (probability <= negative + 1.0 - share)
        return np.where(on_spike | (share == 0), 0.0, self.slab.at(inside[:, None])[:, 0])

    def quantiles_given_inclusion(self, probabilities: FloatArray) -> FloatArray:
        """Quantiles (c,) of the penalised coefficients given that they are in, (p, c)."""
        check_tails(probabilities)
        out = np.full((self.design.p, probabilities.size), np.nan)
        out[self.visited] = np.stack([self.slab.at(p)[:, 0] for p in probabilities.tolist()], axis=-1)
        return out

    def hyperparameters(self, alpha: float) -> dict[str, Interval]:
        """As :func:`pybayesridge.selection.hyperparameters.hyperparameters`."""
        check_tails(np.array([alpha / 2]))
        return self.hyper.intervals(alpha)

    def starting_point(self, columns: list[str]) -> StartingPoint:
        """Where a fit by expectation propagation can start: the posterior means of the hyperparameters."""
        return StartingPoint.without_sites(self.design, self.selection.hyper, columns)


def _check_sets(posterior: Any) -> None:
    """Refuse probabilities of all sets of more single columns than there are degrees of freedom."""
    exact, units = posterior.exact, posterior.units()
    if exact.computation.sampled:
        return
    odds = exact.grid.unit_odds
    free = np.ones(exact.unit_prob.size, dtype=bool) if odds is None else np.isfinite(odds)
    single = int(np.sum(free & (np.unique(units, return_counts=True)[1] == 1)))
    if single > posterior.design.nu:
        raise ValueError(
            f"the probabilities of all sets of {single} columns with {posterior.design.nu:.0f} degrees of freedom "
            "determine the space of the rows, so that it cannot be left out: save with row_space=True, and treat the "
            "file like the data"
        )


def _without_coefficients(selection: ExactSelection) -> ExactSelection:
    exact = replace(selection.exact, states=selection.exact.states.sets_alone())
    return replace(selection, exact=exact, rotation=Rotation())
