"""Estimates of a ridge with a penalty for each band of columns: the variances, and what follows from them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pandas as pd

from pybayesridge._types import FloatArray, RandomLike
from pybayesridge.bands.components import VarianceGrid
from pybayesridge.bands.fit import BandFit
from pybayesridge.bands.mixed import MixedFit
from pybayesridge.bands.mixed_components import MixedGrid
from pybayesridge.bands.mixed_posterior import MixedPosterior
from pybayesridge.bands.posterior import BandPosterior
from pybayesridge.data.bands import Bands
from pybayesridge.results.arguments import check_alpha, target_position
from pybayesridge.results.estimates import LinearEstimates
from pybayesridge.results.labelled import Labelled, per_row, per_target
from pybayesridge.ridge.density import log_marginal
from pybayesridge.ridge.likelihood import GaussianNoise
from pybayesridge.text import did_you_mean

if TYPE_CHECKING:
    from pybayesridge.models.priors import RidgeModel

COMPONENTS = [
    "mean",
    "sd",
    "lower",
    "upper",
    "share",
    "share_lower",
    "share_upper",
    "prob_below_1pct",
    "bound",
    "share_bound",
]
"""Columns of the table of variance components."""


class BandEstimates(LinearEstimates):
    """Estimates of a ridge with a penalty for each band of columns.

    Attributes
    ----------
    band_fit : BandFit
        Answer of the method in the numerics' own units; internal.
    noise_sd : (q,) array
        Square root of `sigma2` for each target, computed without its square, which can underflow.
    """

    model: RidgeModel
    posterior: BandPosterior | MixedPosterior
    band_fit: BandFit | MixedFit
    noise_sd: FloatArray
    solver: str
    parameterization: str
    dof: ClassVar[str] = "nu"
    sigma2: Labelled[float | pd.Series] = Labelled("targets")

    @property
    def bands(self) -> Bands:
        """The bands and their columns."""
        assert self.model.bands is not None
        return self.model.bands

    @property
    def noise(self) -> GaussianNoise:
        """The noise variance, known or not."""
        return GaussianNoise(self.model.known_sigma2)

    @per_target
    def quadrature_error(self) -> float | FloatArray:
        """Estimated error of the integral over the shares of the bands; 0 for methods without one."""
        return self._per_target(self.band_fit.error)

    @per_target
    def df_model(self) -> float | FloatArray:
        """Effective degrees of freedom: the trace of the hat matrix, excluding the constant (as in statsmodels)."""
        return self._per_target(self.band_fit.df + (self.posterior.design.block.k - self.model.k_constant))

    @per_target
    def df_resid(self) -> float | FloatArray:
        """Residual degrees of freedom: rows minus effective degrees of freedom, including the constant."""
        out: float | FloatArray = self.nobs - self.arrays.df_model - self.model.k_constant
        return out

    @property
    def can_fit_anything(self) -> bool:
        """Whether there are so many columns that the in-sample R-squared says nothing."""
        return self.posterior.design.p >= self.posterior.design.nu

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
        design, entry = self.posterior.design, self.method_entry
        if not (entry.integrates or entry.given):
            raise AttributeError(f"log_marginal is not computed by method={self.method!r}: use 'exact'")
        integral = self.band_fit.log_evidence(self.noise, given=entry.given)
        log_z = 2 * float(np.log(np.abs(np.diag(design.block.r))).sum())
        return self._per_target(
            log_marginal(integral, self.noise.of(design), design.nu, design.y_norm, self.model.log_weights, log_z)
            + self.band_fit.log_constant(self.noise, given=entry.given)
        )

    def variance_grid(self, i: int) -> VarianceGrid | MixedGrid:
        """The joint posterior of the variances of the bands and the noise, for one target."""
        if i not in self._grids:
            self._grids[i] = self.band_fit.grid(self.noise, i)
        return self._grids[i]

    @cached_property
    def _grids(self) -> dict[int, VarianceGrid | MixedGrid]:
        """Those that were made."""
        return {}

    def variance_components(self, alpha: float = 0.05) -> pd.DataFrame:
        """Standard deviation of the coefficients of each band, and its share of the variance of the response.

        Parameters
        ----------
        alpha : float
            One minus the probability of the (equal-tailed) intervals.

        Returns
        -------
        DataFrame
            A row for each band, and for each correlation (under each target, where there are several). ``mean``,
            ``sd``, ``lower``, ``upper``: posterior of the standard deviation ``tau_k sigma`` of the band's
            coefficients, on the scale of the prior.
            ``share``, ``share_lower``, ``share_upper``: of its share ``w_k / (1 + w)`` in the variance of the
            response given the unpenalised columns, with ``w_k = tau_k^2 sum_j |x_j|^2 / n`` over its columns; for the
            levels of a factor it is the intraclass correlation. ``prob_below_1pct``: probability that this share is
            below 1 %. The interval of a standard deviation, which is positive, never contains 0: the probability
            tells whether a band matters. ``bound`` and ``share_bound``: values that the standard deviation and the
            share do not exceed with probability ``1 - alpha``. Bands with correlated effects, ``(x | g)``, have the
            share of the term as a whole, covariances included; rows ``cor(g, x|g)`` are their correlations. With
            methods that fix the penalties the intervals are conditional on them.

        Examples
        --------
        >>> import statsmodels.api as sm
        >>> from pybayesridge import BayesRidge
        >>> longley = sm.datasets.longley.load_pandas().data
        >>> bands = {"economy": ["GNP", "GNPDEFL", "UNEMP"], "people": ["ARMED", "POP"]}
        >>> X = longley.drop(columns=["TOTEMP", "YEAR"])
        >>> res = BayesRidge(longley["TOTEMP"], X, bands=bands).fit()
        >>> bool(res.variance_components().loc["economy", "share"] > 0.5)
        True
        """
        check_alpha(alpha)
        names = self.model.data.targets
        tables = {
            name: pd.DataFrame(
                self._variance_table(i, alpha),
                index=[*self.bands.names, *self.correlation_names],
                columns=COMPONENTS,
            )
            for i, name in enumerate(names)
        }
        return tables[names[0]] if self.model.one_target else pd.concat(tables, names=["target", None])

    def random_effects(
        self, bands: str | Sequence[str] | None = None, alpha: float = 0.05, target: str | int | None = None
    ) -> pd.DataFrame:
        """Coefficients of the columns of each band, with intervals: for the levels of a factor, its random effects.

        Parameters
        ----------
        bands : str or sequence of str, optional
            Names of bands; all by default.
        alpha : float
            One minus the probability of the intervals.
        target : str or int, optional
            Which target, by name or position; needed where there are several.

        Returns
        -------
        DataFrame
            Rows by band and column. ``group``, ``level``, ``term``: of ``(x | g)`` the grouping factor, its level
            and ``"Intercept"`` or the name of x; of other bands the name of the band, nothing and that of the column.
            ``mean``, ``sd``, ``lower``, ``upper``.
        """
        check_alpha(alpha)
        i = target_position(self.model.data.targets, target, "random_effects")
        shift = len(self.model.exog_names) - len(self.model.data.exog_columns)
        index, at, told = [], [], []
        for name in self.named_bands(bands):
            members = self.bands.members(self.bands.names.index(name))
            columns = [self.model.data.exog_columns[j] for j in members]
            index += [(name, column) for column in columns]
            told += self._levels(name, columns)
            at += (members + shift).tolist()
        mean, sd, interval = self.some_coefficients(at, i, alpha)
        rows = pd.MultiIndex.from_tuples(index, names=["band", "column"])
        out = pd.DataFrame(told, index=rows, columns=["group", "level", "term"], dtype=object)
        return out.assign(mean=mean, sd=sd, lower=interval[:, 0], upper=interval[:, 1])

    def _levels(self, name: str, columns: list[str]) -> list[tuple[str, object, str]]:
        """Group, level and term of each column of a band."""
        spec = self.model.formula_spec
        for band in () if spec is None else spec.bands:
            if band.name == name and band.kind == "group" and band.groups is not None:
                groups, term = band.groups, "Intercept" if band.term == "1" else band.term
                known = dict(zip(band.columns, groups.keys(), strict=True))
                return [(groups.name, known[column], term) for column in columns]
        return [(name, None, column) for column in columns]

    def named_bands(self, bands: str | Sequence[str] | None) -> list[str]:
        """Names of some bands, or of all; a ValueError for one that is not there."""
        known = list(self.bands.names)
        wanted = known if bands is None else [bands] if isinstance(bands, str) else list(bands)
        for name in wanted:
            if name not in known:
                raise ValueError(f"there is no band {name!r}{did_you_mean(str(name), known)}")
        return wanted

    def components_of(self, i: int, alpha: float) -> FloatArray:
        """The values of :meth:`variance_components` of a target, (K, 8)."""
        grid, at = self.variance_grid(i), np.array([alpha / 2, 1 - alpha / 2])
        rows = []
        for k in range(len(self.bands.names)):
            mean, ends, sd = grid.sd(k, at)
            share, of_share, below = grid.shares(k, at)
            rows.append([mean, sd, *ends, share, *of_share, below])
        return np.array(rows)

    def _variance_table(self, i: int, alpha: float) -> FloatArray:
        """The values of :meth:`variance_components` of a target, with correlations, (K + number of these, 10)."""
        grid, at = self.variance_grid(i), np.array([1 - alpha])
        bounds = [[grid.sd(k, at)[1][0], grid.shares(k, at)[1][0]] for k in range(len(self.bands.names))]
        out = np.column_stack([self.components_of(i, alpha), np.reshape(bounds, (-1, 2))])
        correlations = self.correlations_of(i, alpha)
        rest = np.full((len(correlations), out.shape[1] - 4), np.nan)
        return np.vstack([out, np.column_stack([correlations, rest])])

    @property
    def correlation_names(self) -> list[str]:
        """Rows of correlations, ``"cor(g, x|g)"``."""
        names = self.bands.names
        pairs = [(each[j], each[i]) for each in self.bands.sets for i in range(1, len(each)) for j in range(i)]
        return [f"cor({names[first]}, {names[second]})" for first, second in pairs]

    def correlations_of(self, i: int, alpha: float) -> FloatArray:
        """Posterior mean, standard deviation and interval of each correlation of a target, (number of these, 4)."""
        grid, at = self.variance_grid(i), np.array([alpha / 2, 1 - alpha / 2])
        if not isinstance(grid, MixedGrid):
            return np.zeros((0, 4))
        found = [grid.correlation(k, at) for k in range(len(self.correlation_names))]
        return np.array([[mean, sd, *ends] for mean, ends, sd in found]).reshape(-1, 4)

    @property
    def hyperparameter_names(self) -> list[str]:
        """Rows of the table of hyperparameters."""
        return [*(f"sd[{name}]" for name in self.bands.names), *self.correlation_names, "sigma2"]

    def hyperparameters(self, alpha: float = 0.05) -> pd.DataFrame:
        """Posterior mean, median and interval of the standard deviations of the bands and of the noise variance.

        Parameters
        ----------
        alpha : float
            One minus the probability of the interval.

        Returns
        -------
        DataFrame
            Rows ``sd[band]``, as in :meth:`variance_components`, correlations, and ``sigma2`` (under each target,
            where there are several); columns mean, median, lower, upper.
        """
        check_alpha(alpha)
        at, names = np.array([0.5, alpha / 2, 1 - alpha / 2]), self.model.data.targets
        tables = {
            name: pd.DataFrame(
                self.hyperparameters_of(i, at),
                index=self.hyperparameter_names,
                columns=["mean", "median", "lower", "upper"],
            )
            for i, name in enumerate(names)
        }
        return tables[names[0]] if self.model.one_target else pd.concat(tables, names=["target", None])

    def hyperparameters_of(self, i: int, at: FloatArray) -> FloatArray:
        """Posterior means, and quantiles at the three levels `at`, of one target's hyperparameters.

        (K + number of correlations + 1, 4)
        """
        grid = self.variance_grid(i)
        rows = [np.r_[mean, ends] for mean, ends, _ in (grid.sd(k, at) for k in range(len(self.bands.names)))]
        if isinstance(grid, MixedGrid):
            found = (grid.correlation(k, at) for k in range(len(self.correlation_names)))
            rows += [np.r_[mean, ends] for mean, ends, _ in found]
        mean, ends = grid.noise(at)
        return np.vstack([*rows, np.r_[mean, ends]])

    def explained_variance(self, alpha: float = 0.05, rng: RandomLike = 0) -> pd.Series | pd.DataFrame:
        """Posterior mean, median and interval of the share of variance that the penalised columns explain.

        That of all bands together, as of a ridge with one penalty: with g their fitted part (the unpenalised columns
        projected out) and n rows it is ``|g|^2 / (|g|^2 + n sigma2)``.

        Parameters
        ----------
        alpha : float
            One minus the probability of the (equal-tailed) interval.
        rng : numpy.random.Generator, int or None
            The posterior is that of 4,000 to 20,000 draws; by default they are the same at each call.

        Returns
        -------
        Series or DataFrame
            mean, median, lower, upper; a row for each target where there are several.
        """
        check_alpha(alpha)
        targets = self.model.data.targets
        rows = [self.explained_variance_of(i, alpha, rng) for i in range(len(targets))]
        out = pd.DataFrame(rows, index=targets, columns=["mean", "median", "lower", "upper"])
        return out.iloc[0].rename("explained_variance") if self.model.one_target else out

    def explained_variance_of(self, i: int, alpha: float, rng: RandomLike = 0) -> FloatArray:
        """Mean, median and interval for one target, whose draws are the same whatever the others are."""
        share = self.band_fit.explained(self.noise, i, np.random.default_rng(rng))
        return np.array([share.mean(), *np.quantile(share, [0.5, alpha / 2, 1 - alpha / 2])])

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
        residuals = self.arrays.loo_residuals.reshape(int(self.nobs), -1)
        return self._per_target(np.average(residuals**2, axis=0, weights=self.model.weights))

    @per_target
    def loo_rsquared(self) -> float | FloatArray:
        """Leave-one-out R-squared: 1 minus the ratio of `loo_mse` to the error of the mean of the other rows."""
        residuals = self.arrays.loo_residuals.reshape(int(self.nobs), -1)
        y, w = self.model.endog.reshape(residuals.shape), self.model.weights
        weight = np.ones(len(y)) if w is None else w
        total = weight.sum()
        base = y
        if self.model.k_constant and len(y) > 1:
            base = (y - weight @ y / total) * (total / (total - weight))[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            return self._per_target(1.0 - (weight @ residuals**2) / (weight @ base**2))
