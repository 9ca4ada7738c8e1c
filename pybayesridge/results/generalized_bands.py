"""Results of a ridge regression of responses that are not Gaussian with a penalty for each band of columns."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from scipy import sparse

from pybayesridge._types import AnyArray, ArrayLike, FloatArray, IntArray, RandomLike, RowsLike
from pybayesridge.bands.answers import Variances
from pybayesridge.checks import check_new_levels, check_which, positive_int
from pybayesridge.findings import Finding
from pybayesridge.results import findings
from pybayesridge.results.arviz import ChainDraws
from pybayesridge.results.curves import smooth
from pybayesridge.results.facts import Written
from pybayesridge.results.generalized_ridge import GeneralizedRidgeResults
from pybayesridge.results.plots import bands as band_plots
from pybayesridge.results.prediction import GeneralizedPrediction
from pybayesridge.results.variance_components import VarianceComponents
from pybayesridge.sites.band_fit import BandSitesFit
from pybayesridge.sites.result import SitesFit


class GeneralizedBandRidgeResults(VarianceComponents, GeneralizedRidgeResults):
    """Posterior of a ridge regression of responses that are not Gaussian with a penalty for each band of columns.

    Made by :meth:`pybayesridge.BayesRidge.fit` with a family such as ``"binomial"``, ``"poisson"`` or ``"student-t"``
    of a model with ``bands``, or of a formula with terms such as ``(1 | g)`` and ``s(x)``. All is as for one penalty,
    on the scale of the link, but the penalty itself, in whose place there are the variances of the bands:
    :meth:`variance_components`.

    Parameters
    ----------
    model : BayesRidge
    fit : BandSitesFit
    method, solver, parameterization, tol, maxiter
        As given to ``fit``.
    recipe : Recipe

    Attributes
    ----------
    params : (k,) array
        Posterior means of the coefficients, user's scale; medians where there is no mean.
    solver : {"ep", "laplace"}
        The approximation of the posterior of the coefficients for given variances.
    sites_fit : BandSitesFit
        Answer of the method in the numerics' own units; internal.
    """

    sites_fit: BandSitesFit
    hyperparameters = VarianceComponents.hyperparameters
    smooth = smooth
    plot_variance_components = band_plots.plot_variance_components
    plot_random_effects = band_plots.plot_random_effects
    plot_smooth = band_plots.plot_smooth
    model_name: ClassVar[str] = "BayesRidge"

    @property
    def hyperparameter_names(self) -> list[str]:  # type: ignore[override]
        """Rows of the table of hyperparameters."""
        return [*(f"sd[{name}]" for name in self.bands.names), *self.correlation_names, *self._names_of_shape]

    def hyperparameters_of(self, i: int, at: FloatArray) -> FloatArray:
        """Posterior means, and quantiles at levels `at`, of the hyperparameters."""
        found, shape = VarianceComponents.hyperparameters_of(self, i, at), self.shape_grid
        return found if shape is None else np.vstack([found, shape.summary(at)])

    def _take_penalty(self, fit: SitesFit) -> None:
        """There is no single penalty."""

    def _made_grid(self, i: int) -> Variances:
        return self.sites_fit.variances()

    def penalty_arrays(self) -> dict[str, Any]:
        """The unit of the variances and the posterior of a further parameter, for other languages. Internal."""
        return {"log_unit": float(self.sites_fit.log_unit), **self.sites_fit.shape_arrays()}

    @property
    def precision_loss(self) -> float:
        """Approximate relative error of the fit due to rounding."""
        return float(self.model.precision_loss)

    def predict(
        self,
        exog: RowsLike | None = None,
        transform: bool = True,
        which: str = "mean",
        exposure: ArrayLike | str | None = None,
        new_levels: str = "sample",
        groups: bool = True,
    ) -> pd.Series:
        """Posterior mean of the mean of the response (of counts its median), or of the linear predictor.

        Parameters
        ----------
        exog, transform, which, exposure
            As for a ridge with one penalty.
        new_levels, groups
            As for :meth:`get_prediction`.

        Returns
        -------
        Series
            NaN in rows where another variable of the formula is missing.
        """
        if exog is None and groups:
            return super().predict(which=which, exposure=exposure)
        rows, split, labels, extent = self._new_rows(exog, transform, exposure, None, new_levels, groups)
        if check_which(which) == "linear":
            return self._linear_predictors(rows, labels, extent)
        found = self._predictions(rows, split, labels, which, extent)
        return pd.Series(np.atleast_1d(found.predicted_mean), index=labels)

    def get_prediction(  # type: ignore[override]
        self,
        exog: RowsLike | None = None,
        transform: bool = True,
        which: str = "mean",
        row_labels: Sequence[Any] | pd.Index | None = None,
        exposure: ArrayLike | str | None = None,
        new_levels: str = "sample",
        groups: bool = True,
        trials: ArrayLike | str | None = None,
    ) -> GeneralizedPrediction:
        """Predictions with uncertainty; ``.summary_frame(alpha)`` has credible intervals.

        Parameters
        ----------
        exog, transform, which, row_labels, exposure, trials
            As for a ridge with one penalty. Groups may be ones that the fit has not seen, or missing.
        new_levels : {"sample", "zero"}
            The effect of such a group: ``"sample"`` is a draw from the population of groups, with mean 0 and the
            variance of the band, which widens the intervals and, of yes/no responses, draws means towards 1/2;
            ``"zero"`` is 0, that of a group in the middle.
        groups : bool
            Whether the effects of groups, such as ``(1 | g)``, are part of the prediction; without them it is that of
            a group in the middle.
        """
        rows, split, labels, extent = self._new_rows(exog, transform, exposure, trials, new_levels, groups)
        labels = labels if row_labels is None else pd.Index(row_labels)
        return self._predictions(rows, split, labels, which, extent)

    def columns_of_new(
        self, exog: RowsLike | None, transform: bool, new_levels: str = "sample", groups: bool = True
    ) -> tuple[tuple[AnyArray, FloatArray], pd.Index]:
        """Penalised and unpenalised columns of rows to predict, also of new groups, and the labels of the rows."""
        _, split, labels, _ = self._new_rows(exog, transform, None, None, new_levels, groups)
        return split, labels

    def _new_rows(
        self, exog: RowsLike | None, transform: bool, exposure: Any, trials: Any, new_levels: str, groups: bool
    ) -> tuple[AnyArray, tuple[AnyArray, FloatArray], pd.Index, FloatArray | None]:
        """Rows, the same split into penalised and unpenalised columns, their labels and extents."""
        check_new_levels(new_levels)
        rows, unseen, labels = self.model.rows_with_groups(exog, transform, groups=groups)
        x, z = self.model.split_rows(rows, self.posterior.design)
        if new_levels == "sample" and unseen.any():
            x = sparse.hstack([x, unseen]).tocsr() if sparse.issparse(x) else np.hstack([x, unseen])
        return rows, (x, z), labels, self.extent_of_rows(exog, exposure, labels, trials)

    def sample(self, n: int, rng: RandomLike = None, hyper_columns: bool = False) -> pd.DataFrame:
        """Draw from the joint posterior of the coefficients, on the scale of the link.

        Parameters
        ----------
        n : int
            How many draws.
        rng : numpy.random.Generator, int or None
            Source of randomness, or a seed.
        hyper_columns : bool
            Add the draws of the variances ``tau2[band]`` and of correlations that go with them: each is a node of
            the integral over these.

        Returns
        -------
        DataFrame
            A row for each draw and a column for each coefficient.
        """
        drawn = self._draw_chain(positive_int("n", n), np.random.default_rng(rng))
        return drawn.frame(self.model, hyper_columns=hyper_columns)

    def _draw_chain(self, n: int, generator: np.random.Generator) -> ChainDraws:
        of_z, b, which = self.posterior.draws_with_nodes(n, generator)
        beta = self.model.scatter(of_z.T, b.T, self.posterior.design).T
        return ChainDraws(beta[..., None], None, self._variances_at(which) | self._shape_drawn(which, generator))

    def _variances_at(self, which: IntArray) -> dict[str, FloatArray]:
        tau2, correlations = (values[which] for values in self.sites_fit.at_nodes())
        others = {f"tau2[{name}]": tau2[:, [k]] for k, name in enumerate(self.bands.names)}
        return others | {name: correlations[:, [k]] for k, name in enumerate(self.correlation_names)}

    def diagnostics(self) -> pd.Series:
        """Numbers on the computation: nodes, the error of the quadrature over the variances, whether it converged.

        Returns
        -------
        Series
        """
        values = {
            "nodes": len(self.sites_fit.nodes),
            "sweeps": self.n_iter,
            "quadrature_error": self.quadrature_error,
            "solver": self.solver,
            "converged": self.converged,
        }
        return pd.Series(values, name="diagnostics", dtype=object)

    @cached_property
    def findings_on_validity(self) -> tuple[Finding, ...]:
        """The findings on which ``fit`` warns, and others of their kind."""
        found = findings.of_generalized(self)
        if self.method_entry.integrates or self.method_entry.given:
            return tuple(found)
        grid = self._made_grid(0)
        return (*findings.singular(self, np.isneginf(grid.log_t[0]), grid.correlations[0]), *found)

    def _findings_on_reading(self) -> list[Finding]:
        out = [findings.intervals_of_generalized_bands(self), *findings.heavy_variances(self)]
        return [*out, *findings.on_reading_generalized(self)]

    def shown_tables(self, i: int, alpha: float) -> list[Written]:
        """The bands: the number of their columns, standard deviations and shares; and a dispersion."""
        out, shape = self.written_bands(i, alpha), self.shape_grid
        if shape is not None:
            values = shape.summary(np.array([0.5, alpha / 2, 1 - alpha / 2]))
            out.append(Written.of_hyperparameters(list(self._names_of_shape), values, alpha))
        return out
