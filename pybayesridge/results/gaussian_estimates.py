"""What ridges of Gaussian responses have in common, with one penalty or several."""

from __future__ import annotations

import numpy as np
import pandas as pd

from pybayesridge._types import FloatArray, IntArray, RandomLike
from pybayesridge.posterior.left_out import LeftOut
from pybayesridge.results.arguments import check_alpha
from pybayesridge.results.estimates import SUMMARY, LinearEstimates
from pybayesridge.results.labelled import per_target


class GaussianEstimates(LinearEstimates):
    """Residual degrees of freedom, errors of rows predicted from the others, the share of variance explained."""

    @per_target
    def df_resid(self) -> float | FloatArray:
        """Residual degrees of freedom: rows minus effective degrees of freedom, including the constant."""
        out: float | FloatArray = self.nobs - self.arrays.df_model - self.model.k_constant
        return out

    @property
    def can_fit_anything(self) -> bool:
        """Whether there are so many columns that the in-sample R-squared says nothing."""
        return self.posterior.design.p >= self.posterior.design.nu

    def groups_left_out(self, target: int, codes: IntArray) -> LeftOut:
        """Predictions of groups of rows of a target, each from the other rows, given the group of each row (n,)."""
        found: LeftOut = self.posterior.groups_left_out(self._given_responses(target), target, codes)
        return found

    def _loo_mse(self, residuals: FloatArray) -> FloatArray:
        """Mean squares of residuals (n, some), weighted where the rows are."""
        size = np.abs(residuals).max(axis=0, initial=0.0)
        unit = np.where(size > 0, size, 1.0)
        out: FloatArray = np.average((residuals / unit) ** 2, axis=0, weights=self.model.weights) * unit**2
        return out

    def _loo_rsquared(self, part: slice, residuals: FloatArray) -> FloatArray:
        """1 minus the ratio of the squares of residuals (n, some) to those about the mean of the other rows."""
        y, w = self.model.endog.reshape(len(residuals), -1)[:, part], self.model.weights
        weight = np.ones(len(y)) if w is None else w
        total = weight.sum()
        base = y
        if self.model.k_constant and len(y) > 1:
            base = (y - weight @ y / total) * (total / (total - weight))[:, None]
        unit = np.abs(base).max(axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = (weight @ (residuals / unit) ** 2) / (weight @ (base / unit) ** 2)
        out: FloatArray = 1.0 - share
        return out

    def explained_variance_of(self, i: int, alpha: float, rng: RandomLike = 0) -> FloatArray:
        """Mean, median and interval for one target, whose draws are the same whatever the others are."""
        raise NotImplementedError

    def explained_variance(self, alpha: float = 0.05, rng: RandomLike = 0) -> pd.Series | pd.DataFrame:
        """Posterior mean, median and interval of the share of variance that the penalised columns explain.

        With g the fitted part of the penalised columns (the unpenalised ones projected out) and n rows the share is
        ``|g|^2 / (|g|^2 + n sigma2)`` (weighted where the rows are). Unlike ``rsquared`` it has a posterior, in which
        the coefficients and the noise vary, and with ``"exact"`` the penalties as well: where there is no signal its
        interval reaches 0. With the other methods it is conditional on what they fix. With several penalties it is
        that of all bands together. NaN where the unpenalised columns fit the response exactly.

        Parameters
        ----------
        alpha : float
            One minus the probability of the (equal-tailed) interval.
        rng : numpy.random.Generator, int or None
            The posterior is that of 4,000 to 20,000 draws; by default they are the same at each call. The standard
            error of the probability at a 2.5 % quantile is at most 0.0025.

        Returns
        -------
        Series or DataFrame
            mean, median, lower, upper; a row for each target where there are several.

        References
        ----------
        Gelman, Goodrich, Gabry & Vehtari (2019). R-squared for Bayesian regression models. The American Statistician.

        Examples
        --------
        >>> import statsmodels.api as sm
        >>> from pybayesridge import BayesRidge
        >>> longley = sm.datasets.longley.load_pandas().data
        >>> res = BayesRidge.from_formula("TOTEMP ~ GNP + UNEMP + ARMED", longley).fit("exact")
        >>> bool(res.explained_variance()["lower"] > 0.9)
        True
        """
        check_alpha(alpha)
        targets = self.model.data.targets
        rows = [self.explained_variance_of(i, alpha, rng) for i in range(len(targets))]
        out = pd.DataFrame(rows, index=targets, columns=SUMMARY)
        return out.iloc[0].rename("explained_variance") if self.model.one_target else out
