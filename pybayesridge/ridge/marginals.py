"""The posterior of each coefficient alone: what is left of the ridge's when the row space is not kept."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NoReturn

import numpy as np

from pybayesridge._types import AnyArray, FloatArray
from pybayesridge.design.design import Design
from pybayesridge.quantile_tables import NO_ROW_SPACE, QuantileTable, check_tail
from pybayesridge.ridge.mixture import Mixture
from pybayesridge.ridge.posterior import RidgePosterior
from pybayesridge.ridge.spectrum import Spectrum


@dataclass(frozen=True, slots=True)
class RidgeMarginals:
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

    design: Design
    spectrum: Spectrum
    mixture: Mixture
    mean: tuple[FloatArray, FloatArray]
    sd: tuple[FloatArray, FloatArray]
    tables: tuple[QuantileTable, QuantileTable]

    @classmethod
    def of(cls, posterior: RidgePosterior) -> RidgeMarginals:
        """Keep what each coefficient has alone."""
        df, one = posterior.mixture.df, posterior.mixture.log_t2.shape[0] == 1
        of_z, b = posterior.quantile_curves(QuantileTable.probabilities(exactly=one))
        return cls(
            design=posterior.design.without_row_space(),
            spectrum=replace(posterior.spectrum, right=None, left=None),
            mixture=posterior.mixture,
            mean=posterior.coefficients(),
            sd=posterior.standard_deviations(),
            tables=(QuantileTable.of(of_z, df, exactly=one), QuantileTable.of(b, df, exactly=one)),
        )

    def coefficients(self) -> tuple[FloatArray, FloatArray]:
        """Posterior means of the unpenalised (k, q) and the penalised (p, q) coefficients."""
        return self.mean

    def standard_deviations(self) -> tuple[FloatArray, FloatArray]:
        """Posterior standard deviations, as :meth:`coefficients`."""
        return self.sd

    def intervals(self, alpha: float) -> tuple[FloatArray, FloatArray]:
        """Equal-tailed credible intervals, (k, q, 2) and (p, q, 2)."""
        check_tail(alpha)
        of_z, b = (np.stack([t.at(alpha / 2), t.at(1 - alpha / 2)], axis=-1) for t in self.tables)
        return of_z, b

    def covariance(self, target: int) -> NoReturn:
        """Not here."""
        raise ValueError(NO_ROW_SPACE.format(what="a covariance"))

    def row_functions(self, x_rows: AnyArray, z_rows: FloatArray) -> NoReturn:
        """Not here."""
        raise ValueError(NO_ROW_SPACE.format(what="the uncertainty of a prediction"))

    def row_moments(self, rows: object) -> NoReturn:
        """Not here."""
        raise ValueError(NO_ROW_SPACE.format(what="the uncertainty of a prediction"))

    def row_intervals(self, rows: object, alpha: float, noise: FloatArray | None) -> NoReturn:
        """Not here."""
        raise ValueError(NO_ROW_SPACE.format(what="the uncertainty of a prediction"))

    def without_rows(self) -> RidgeMarginals:
        """The same."""
        return self
