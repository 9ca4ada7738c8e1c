"""The posterior of each coefficient alone: what is left of spike and slab when the row space is not kept."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, NoReturn

import numpy as np

from pybayesridge._types import FloatArray
from pybayesridge.design.design import Design
from pybayesridge.ep.model.result import EPResult
from pybayesridge.ep.model.rotation import Rotation
from pybayesridge.ep.selection import Selection
from pybayesridge.posterior.coefficients import MarginalsAlone
from pybayesridge.posterior.laws import Joint
from pybayesridge.quantile_tables import NO_ROW_SPACE, QuantileTable, check_tails

NOTHING = np.zeros(0)

POINTS = 241
"""Points of a table: mixtures of a few normal distributions have steeper quantile functions than the ridge's."""


@dataclass(frozen=True, slots=True)
class SelectionMarginals(MarginalsAlone):
    """The marginals of :class:`SelectionPosterior` for single coefficients, without rows, cross-products and sites.

    Attributes
    ----------
    design : Design
        Without rows and without what the columns have in common with the unpenalised ones.
    selection : Selection
        Hyperparameters, evidence and inclusion probabilities.
    mean, sd, given : tuples of two arrays
        Means and standard deviations of the unpenalised (k,) and penalised (p,) coefficients; means and variances
        (p,) of the penalised ones given that they are in.
    tables : tuple of two QuantileTables
        Of the unpenalised coefficients (k, 1), and of the penalised ones given that they are in (p, 1).
    """

    joint_law: ClassVar[Joint] = "none"
    has_point_masses: ClassVar[bool] = True

    design: Design
    selection: Selection
    mean: tuple[FloatArray, FloatArray]
    sd: tuple[FloatArray, FloatArray]
    given: tuple[FloatArray, FloatArray]
    tables: tuple[QuantileTable, QuantileTable]

    @classmethod
    def of(cls, posterior: Any) -> SelectionMarginals:
        """Keep what each coefficient of a posterior by expectation propagation has alone."""
        k, p = posterior.design.block.k, posterior.design.p
        one = len(posterior.selection.results) == 1

        at = QuantileTable.probabilities(exactly=one, points=POINTS)
        of_z = posterior.row_quantiles(np.zeros((k, p)), np.eye(k), at)
        given = posterior.quantiles_given_inclusion(at)

        def table(quantiles: FloatArray) -> QuantileTable:
            return QuantileTable.of(quantiles[:, None], np.inf, exactly=one, points=POINTS)

        return cls(
            design=posterior.design.without_row_space(),
            selection=_without_sites(posterior.selection),
            mean=posterior.coefficient_means(),
            sd=posterior.coefficient_sds(),
            given=posterior.given_inclusion(),
            tables=(table(of_z), table(given)),
        )

    @property
    def exact(self) -> None:
        """Of expectation propagation there is no posterior of the sets of columns."""

    def credible_sets(self) -> tuple[()]:
        """None."""
        return ()

    def of_targets(self, which: slice) -> SelectionMarginals:
        """The same, of the only target."""
        return self

    def given_inclusion(self) -> tuple[FloatArray, FloatArray]:
        """Means and variances of the penalised coefficients given that they are in, each (p,)."""
        return self.given

    def coefficient_quantiles(self, probabilities: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Quantiles (c,), (k, c) and (p, c); of a penalised coefficient those of spike and slab together."""
        check_tails(probabilities)
        of_z, slab = self.tables
        at = probabilities.tolist()
        return (
            np.stack([of_z.at(p)[:, 0] for p in at], axis=-1),
            np.stack([self._with_spike(slab, p) for p in at], axis=-1),
        )

    def _with_spike(self, slab: QuantileTable, probability: float) -> FloatArray:
        share = self.selection.inclusion_prob[:, None]
        safe = np.where(share > 0, share, 1.0)
        negative = share * slab.below_zero()
        below = slab.at(np.clip(probability / safe, 0.0, 1.0))
        above = slab.at(np.clip((probability - (1.0 - share)) / safe, 0.0, 1.0))
        on_spike = (share == 0) | ((negative < probability) & (probability <= negative + 1.0 - share))
        return np.where(on_spike, 0.0, np.where(probability <= negative, below, above))[:, 0]

    def quantiles_given_inclusion(self, probabilities: FloatArray) -> FloatArray:
        """Quantiles (c,) of the penalised coefficients given that they are in, (p, c)."""
        check_tails(probabilities)
        return np.stack([self.tables[1].at(p)[:, 0] for p in probabilities.tolist()], axis=-1)

    def starting_point(self, columns: list[str]) -> NoReturn:
        """Not here."""
        raise ValueError(NO_ROW_SPACE.format(what="a fit that starts where these results are"))


def _without_sites(selection: Selection) -> Selection:
    return replace(selection, results=tuple(_plain(r) for r in selection.results), rotation=Rotation())


def _plain(result: EPResult) -> EPResult:
    """Without the arrays from which products of rows could be computed: inclusion probabilities stay."""
    gone = ("site1", "site2", "mean", "var", "cavity1", "cavity2", "cond_mean", "cond_var")
    return replace(result, **dict.fromkeys(gone, NOTHING))  # type: ignore[arg-type]
