"""The posterior of each coefficient alone: what is left of the ridge's when the row space is not kept."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from pybayesridge._types import FloatArray
from pybayesridge.design.design import Design
from pybayesridge.posterior.coefficients import MarginalsAlone
from pybayesridge.posterior.laws import Joint
from pybayesridge.quantile_tables import QuantileTable, check_tails
from pybayesridge.ridge.mixture import Mixture
from pybayesridge.ridge.spectrum import Spectrum


@dataclass(frozen=True, slots=True)
class RidgeMarginals(MarginalsAlone):
    """The marginals of :class:`RidgePosterior` for single coefficients, without singular vectors and cross-products.

    Attributes
    ----------
    design : Design
        Without rows and without what the columns have in common with the unpenalised ones.
    spectrum : Spectrum
        Singular values and the response in their basis.
    mixture : Mixture
    mean, sd : tuples of (k, q) and (p, q) arrays
        Of the unpenalised and of the penalised coefficients, on the user's scale.
    tables : tuple of two QuantileTables
    """

    joint_law: ClassVar[Joint] = "none"
    has_point_masses: ClassVar[bool] = False

    design: Design
    spectrum: Spectrum
    mixture: Mixture
    mean: tuple[FloatArray, FloatArray]
    sd: tuple[FloatArray, FloatArray]
    tables: tuple[QuantileTable, QuantileTable]

    @classmethod
    def of(cls, posterior: Any) -> RidgeMarginals:
        """Keep what each coefficient of a ridge has alone."""
        df, one = posterior.mixture.df, posterior.mixture.log_t2.shape[0] == 1
        of_z, b = posterior.quantile_curves(QuantileTable.probabilities(exactly=one))
        return cls(
            design=posterior.design.without_row_space(),
            spectrum=replace(posterior.spectrum, right=None, left=None),
            mixture=posterior.mixture,
            mean=posterior.coefficient_means(),
            sd=posterior.coefficient_sds(),
            tables=(QuantileTable.of(of_z, df, exactly=one), QuantileTable.of(b, df, exactly=one)),
        )

    def coefficient_quantiles(self, probabilities: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Quantiles at probabilities (c,), (k, q, c) and (p, q, c)."""
        check_tails(probabilities)
        of_z, b = (np.stack([table.at(p) for p in probabilities.tolist()], axis=-1) for table in self.tables)
        return of_z, b

    def of_targets(self, which: slice) -> RidgeMarginals:
        """The same of some of the targets."""
        return replace(
            self,
            design=self.design.of_targets(which),
            spectrum=self.spectrum.of_targets(which),
            mixture=self.mixture.of_targets(which),
            mean=(self.mean[0][:, which], self.mean[1][:, which]),
            sd=(self.sd[0][:, which], self.sd[1][:, which]),
            tables=(self.tables[0].of_targets(which), self.tables[1].of_targets(which)),
        )
