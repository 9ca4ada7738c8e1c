"""Results of a Bayesian ridge regression with a penalty for each band of columns."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd

from pybayesridge._types import ArrayLike, RandomLike, RowsLike
from pybayesridge.bands.answers import PenaltiesFit
from pybayesridge.checks import check_new_levels, positive_int
from pybayesridge.findings import Finding
from pybayesridge.posterior.laws import RowLaw
from pybayesridge.recipes import Recipe
from pybayesridge.results import findings
from pybayesridge.results.arviz import ChainDraws
from pybayesridge.results.band_estimates import BandEstimates
from pybayesridge.results.base import LinearResults
from pybayesridge.results.curves import smooth
from pybayesridge.results.facts import Written
from pybayesridge.results.plots import bands as band_plots
from pybayesridge.results.plots import ridge as ridge_plots
from pybayesridge.results.prediction import BayesPrediction

if TYPE_CHECKING:
    from pybayesridge.models.priors import RidgeModel


class BandRidgeResults(BandEstimates, LinearResults):
    """Posterior of a Bayesian ridge regression with a penalty for each band of columns.

    Made by :meth:`pybayesridge.BayesRidge.fit` of a model with ``bands``. Vectors run over ``model.exog_names`` (the
    intercept first, if it was added) or over rows.

    Parameters
    ----------
    model : BayesRidge
    fit : PenaltiesFit
    method, tol, parameterization
        As given to ``fit``.
    recipe : Recipe

    Attributes
    ----------
    params : (k,) or (k, q) array
        Posterior means of the coefficients, user's scale.
    sigma2 : float or (q,) array
        Noise variance on the user's scale, for an observation of average weight: the estimate of ``"em"`` and
        ``"reml"``, the posterior mean for the other methods.
    converged : bool
    n_iter : int
        Ridges with one penalty that were fitted, solutions of the equations, or iterations.
    quadrature_error : float or (q,) array
        Of ``"exact"``: estimated error of the integral over the shares of the bands, in standard deviations; infinite
        above 1,000; 0 for other methods.
    band_fit : PenaltiesFit
        Answer of the method in the numerics' own units; internal.
    noise_sd : (q,) array
        Square root of `sigma2` for each target, computed without its square, which can underflow.
    """

    model_name: ClassVar[str] = "BayesRidge"

    smooth = smooth
    plot_coefficients = ridge_plots.plot_coefficients
    plot_variance_components = band_plots.plot_variance_components
    plot_random_effects = band_plots.plot_random_effects
    plot_smooth = band_plots.plot_smooth

    def __init__(
        self,
        model: RidgeModel,
        fit: PenaltiesFit,
        *,
        method: str,
        tol: float,
        maxiter: int | None,
        parameterization: str,
        recipe: Recipe,
    ) -> None:
        self.band_fit = fit
        super().__init__(
            model,
            fit.posterior,
            method=method,
            tol=tol,
            maxiter=maxiter or 0,
            parameterization=parameterization,
            recipe=recipe,
            converged=fit.converged.all(),
            n_iter=fit.n_iter,
            solver=fit.solver,
        )
        norm = fit.posterior.design.y_norm
        self.sigma2 = self._per_target((np.sqrt(fit.sigma2) * norm) ** 2)
        self.noise_sd = np.sqrt(fit.sigma2) * norm

    def predict(
        self, exog: RowsLike | None = None, transform: bool = True, new_levels: str = "sample", groups: bool = True
    ) -> pd.Series | pd.DataFrame:
        """Posterior mean of the response.

        Parameters
        ----------
        exog : array-like or frame, optional
            New data, as for a ridge with one penalty; the rows of the fit by default.
        transform : bool
            Whether to pass new data through the formula.
        new_levels : {"sample", "zero"}
            As for :meth:`get_prediction`. The mean is the same: the effect of a group that the fit has not seen, or
            that is missing, has the mean 0.
        groups : bool
            Whether the effects of groups, such as ``(1 | g)``, are part of the prediction; without them it is that of
            the population.

        Returns
        -------
        Series, or DataFrame with a column for each target
            NaN in rows where another variable of the formula is missing.
        """
        check_new_levels(new_levels)
        if exog is None and groups:
            return super().predict()
        rows, _, labels = self.model.rows_with_groups(exog, transform, groups=groups)
        return self._predicted(rows, labels)

    def get_prediction(
        self,
        exog: RowsLike | None = None,
        transform: bool = True,
        weights: ArrayLike | str | None = None,
        row_labels: Sequence[Hashable] | pd.Index | None = None,
        new_levels: str = "sample",
        groups: bool = True,
    ) -> BayesPrediction:
        """Predictions with uncertainty; ``.summary_frame(alpha)`` has credible and prediction intervals.

        Parameters
        ----------
        exog, transform, weights, row_labels
            As for a ridge with one penalty. Groups may be ones that the fit has not seen, or missing.
        new_levels : {"sample", "zero"}
            The effect of such a group: ``"sample"`` is a draw from the population of groups, with mean 0 and the
            variance of the band, which widens the intervals; ``"zero"`` is 0, that of a group in the middle.
        groups : bool
            As for :meth:`predict`.

        Examples
        --------
        >>> import statsmodels.api as sm
        >>> from pybayesridge import BayesRidge
        >>> grunfeld = sm.datasets.grunfeld.load_pandas().data
        >>> res = BayesRidge.from_formula("invest ~ value + capital + (1 | firm)", grunfeld).fit()
        >>> new = grunfeld.head(1).assign(firm="another")
        >>> sds = [res.get_prediction(new, new_levels=how).se_mean[0] for how in ("zero", "sample")]
        >>> bool(sds[1] > 2 * sds[0])
        True
        """
        law, labels = self.law_of_new(exog, transform, new_levels, groups)
        noise = self.model.noise_factors(labels, weights, exog)
        return self._prediction(law, noise, labels if row_labels is None else pd.Index(row_labels))

    def law_of_new(
        self, exog: RowsLike | None, transform: bool, new_levels: str = "sample", groups: bool = True
    ) -> tuple[RowLaw, pd.Index]:
        """The law of the linear predictor of rows to predict, also of new groups, and their labels. Internal."""
        check_new_levels(new_levels)
        rows, unseen, labels = self.model.rows_with_groups(exog, transform, groups=groups)
        law = self.posterior.rows(*self.model.split_rows(rows, self.posterior.design))
        if new_levels == "sample" and unseen.any():
            law = law.with_new_levels(unseen)
        return law, labels

    def _draw_chain(self, n: int, generator: np.random.Generator) -> ChainDraws:
        design, beta, tau2, sigma2, correlations = self.posterior.design, [], [], [], []
        for i in range(design.q):
            drawn = self.band_fit.draw(self.model.noise(), i, n, generator)
            correlations.append(drawn.correlations)
            beta.append(self.model.scatter(drawn.of_z.T, drawn.b.T, design).T)
            tau2.append(np.exp(drawn.log_variance))
            sigma2.append(drawn.sigma2 * design.y_norm[i] ** 2)
        each = np.stack(tau2, axis=-1)
        others = {f"tau2[{name}]": each[:, k] for k, name in enumerate(self.bands.names)}
        drawn_correlations = np.stack(correlations, axis=-1)
        others |= {name: drawn_correlations[:, k] for k, name in enumerate(self.correlation_names)}
        return ChainDraws(np.stack(beta, axis=-1), np.stack(sigma2, axis=-1), others)

    def sample(self, n: int, rng: RandomLike = None, hyper_columns: bool = False) -> pd.DataFrame:
        """Draw from the joint posterior of the coefficients.

        Parameters
        ----------
        n : int
            How many draws.
        rng : numpy.random.Generator, int or None
            Source of randomness, or a seed.
        hyper_columns : bool
            Add the draws of the variances ``tau2[band]``, of correlations and of ``sigma2`` that go with them. The
            shares of the bands (where effects are correlated: variances and correlations) are nodes of a quadrature.

        Returns
        -------
        DataFrame
            A row for each draw and a column for each coefficient (under each target, where there are several).
        """
        drawn = self._draw_chain(positive_int("n", n), np.random.default_rng(rng))
        return drawn.frame(self.model, hyper_columns=hyper_columns)

    def diagnostics(self) -> pd.Series:
        """Numbers on the computation: nodes, the error of the quadrature over the shares, whether it converged.

        Returns
        -------
        Series
        """
        fit = self.band_fit
        values = {
            "nodes": fit.n_nodes,
            "ridges_fitted": fit.n_iter,
            "quadrature_error": float(fit.error.max()),
            "solver": self.solver,
            "converged": self.converged,
        }
        return pd.Series(values, name="diagnostics", dtype=object)

    @cached_property
    def findings_on_validity(self) -> tuple[Finding, ...]:
        """The findings on which ``fit`` warns, and others of their kind."""
        return tuple(findings.of_bands(self))

    def _findings_on_reading(self) -> list[Finding]:
        return [findings.intervals_of_bands(self), *findings.heavy_variances(self), *findings.on_data(self)]

    def _given_responses(self, target: int) -> Any:
        """The noise where rows are left out: an estimate stays as it is."""
        entry = self.method_entry
        if entry.uses_prior or entry.given:
            return self.model.noise()
        return self.model.noise(sigma2=float(np.atleast_1d(self.arrays.sigma2)[target]))

    def _release_rows(self, row_space: bool) -> None:
        if not row_space:
            raise ValueError("the row space of a fit with bands cannot be left out: save with row_space=True")
        self.band_fit = self.band_fit.without_rows()
        self.posterior = self.band_fit.posterior
        for name in ("loo_residuals", "loo_mse"):
            self.__dict__.pop(name, None)

    def shown_tables(self, i: int, alpha: float) -> list[Written]:
        """The bands: the number of their columns, standard deviations and shares."""
        return self.written_bands(i, alpha)
