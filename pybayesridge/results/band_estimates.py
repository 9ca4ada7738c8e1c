"""Estimates of a ridge with a penalty for each band of columns: the variances, and what follows from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pandas as pd

from pybayesridge._types import FloatArray, RandomLike
from pybayesridge.bands.answers import BandsPosterior, PenaltiesFit, Variances
from pybayesridge.results.estimates import summary_of_draws
from pybayesridge.results.gaussian_estimates import GaussianEstimates
from pybayesridge.results.labelled import Labelled, per_row, per_target
from pybayesridge.results.variance_components import VarianceComponents

if TYPE_CHECKING:
    from pybayesridge.models.priors import RidgeModel


class BandEstimates(VarianceComponents, GaussianEstimates):
    """Estimates of a ridge with a penalty for each band of columns.

    Attributes
    ----------
    band_fit : PenaltiesFit
        Answer of the method in the numerics' own units; internal.
    noise_sd : (q,) array
        Square root of `sigma2` for each target, computed without its square, which can underflow.
    """

    model: RidgeModel
    posterior: BandsPosterior
    band_fit: PenaltiesFit
    noise_sd: FloatArray
    solver: str
    parameterization: str
    dof: ClassVar[str] = "nu"
    sigma2: Labelled[float | pd.Series] = Labelled("targets")

    @per_target
    def quadrature_error(self) -> float | FloatArray:
        """Estimated error of the integral over the shares of the bands; 0 for methods without one.

        Infinite where nothing is known but that it is large, above 1,000 standard deviations.
        """
        return self._per_target(self.band_fit.error)

    @per_target
    def df_model(self) -> float | FloatArray:
        """Effective degrees of freedom: the trace of the hat matrix, excluding the constant (as in statsmodels)."""
        return self._per_target(self.band_fit.df + (self.posterior.design.block.k - self.model.k_constant))

    @property
    def precision_loss(self) -> float:
        """Relative error, about, that rounding errors have left in the fit."""
        return max(self.band_fit.loss, self.model.precision_loss)

    @property
    def converged_by_target(self) -> list[bool]:
        """Whether the penalties were found or integrated out, for each target."""
        return self.band_fit.converged.tolist()

    @per_target
    def log_marginal(self) -> float | FloatArray:
        """Log marginal likelihood log p(y), for ``"exact"`` with all penalties integrated out, for ``"fixed"`` given.

        The priors of the unpenalised coefficients (flat, 1) and of the noise variance (1/s2) are improper: only
        differences between models with the same unpenalised columns and the same response mean something.
        """
        entry = self.method_entry
        if not (entry.integrates or entry.given):
            raise AttributeError(f"log_marginal is not computed by method={self.method!r}: use 'exact'")
        found = self.band_fit.log_marginal(self.model.noise(), self.model.log_weights, given=entry.given)
        return self._per_target(found)

    def _made_grid(self, i: int) -> Variances:
        return self.band_fit.grid(self.model.noise(), i)

    def explained_variance_of(self, i: int, alpha: float, rng: RandomLike = 0) -> FloatArray:
        """Mean, median and interval for one target, whose draws are the same whatever the others are."""
        share = self.band_fit.explained(self.model.noise(), i, np.random.default_rng(rng))
        return summary_of_draws(share, alpha)

    @per_row
    def loo_residuals(self) -> FloatArray:
        """Each response minus the mean of its prediction from the other rows, unweighted, (n,) or (n, q).

        With ``"exact"`` the penalties are estimated from the other rows too.
        """
        if self.model.endog is None:
            raise ValueError(self.model.why_no_rows)
        found = [self.rows_left_out(i).error for i in range(len(self.model.data.targets))]
        return self._squeeze(np.stack([error for error in found if error is not None], axis=1))

    @per_target
    def loo_mse(self) -> float | FloatArray:
        """Leave-one-out mean squared error, weighted if the fit has weights."""
        return self._per_target(self._loo_mse(self.arrays.loo_residuals.reshape(int(self.nobs), -1)))

    @per_target
    def loo_rsquared(self) -> float | FloatArray:
        """Leave-one-out R-squared: 1 minus the ratio of `loo_mse` to the error of the mean of the other rows."""
        residuals = self.arrays.loo_residuals.reshape(int(self.nobs), -1)
        return self._per_target(self._loo_rsquared(slice(None), residuals))
