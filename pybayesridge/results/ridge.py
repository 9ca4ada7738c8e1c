"""Results of a Bayesian ridge regression."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd

from pybayesridge._types import AnyArray, RandomLike
from pybayesridge.checks import positive_int
from pybayesridge.design.design import Design
from pybayesridge.findings import Finding
from pybayesridge.posterior.laws import RowLaw
from pybayesridge.posterior.left_out import NO_NOISE, NoDensityError
from pybayesridge.quantile_tables import NO_ROW_SPACE
from pybayesridge.recipes import Recipe
from pybayesridge.results import coefficients, findings
from pybayesridge.results.arviz import ChainDraws
from pybayesridge.results.facts import Written
from pybayesridge.results.plots import ridge as ridge_plots
from pybayesridge.ridge.fit import RidgeFit
from pybayesridge.ridge.penalty import HYPERPARAMETERS

if TYPE_CHECKING:
    from pybayesridge.models.priors import RidgeModel


class BayesRidgeResults(coefficients.ColumnResults):
    """Posterior of a Bayesian ridge regression.

    Made by :meth:`pybayesridge.BayesRidge.fit`. Vectors run over ``model.exog_names`` (the intercept first, if it
    was added) or over rows.

    Parameters
    ----------
    model : BayesRidge
    design : Design
    fit : RidgeFit
    method, dof, parameterization, tol, maxiter
        As given to ``fit``.
    recipe : Recipe

    Attributes
    ----------
    params : (k,) or (k, q) array
        Posterior means of the coefficients, user's scale.
    lambda_ : float or (q,) array
        The ridge penalty on the standardised scale; inf for a null model, 0 for an exact fit. For ``"exact"`` it
        is the posterior mean on the log scale, ``exp(E log lambda)``: with a <= 1 in the prior the mean of
        lambda itself is infinite. See :meth:`hyperparameters`.
    tau2 : float or (q,) array
        ``1 / lambda_``: prior variance of the coefficients relative to the noise variance.
    sigma2 : float or (q,) array
        Noise variance on the user's scale, for an observation of average weight: at the mode for ``"em"``, the
        posterior mean for the other methods.
    solver : {"gram", "dual", "svd", "moments"}
        Route of the one-off rotation.
    converged : bool
    n_iter : int
    ridge_fit : RidgeFit
        Answer of the method in the numerics' own units; internal.
    noise_sd : (q,) array
        Square root of `sigma2` for each target, computed without its square, which can underflow.
    """

    model_name: ClassVar[str] = "BayesRidge"

    plot_coefficients = ridge_plots.plot_coefficients
    plot_lambda = ridge_plots.plot_lambda
    plot_path = ridge_plots.plot_path

    def __init__(
        self,
        model: RidgeModel,
        design: Design,
        fit: RidgeFit,
        *,
        method: str,
        dof: str,
        parameterization: str,
        tol: float,
        maxiter: int,
        recipe: Recipe,
    ) -> None:
        self.ridge_fit = fit
        super().__init__(
            model,
            fit.posterior(design),
            method=method,
            dof=dof,
            parameterization=parameterization,
            tol=tol,
            maxiter=maxiter,
            recipe=recipe,
            converged=fit.converged.all(),
            n_iter=fit.n_iter,
            solver=fit.spectrum.solver,
        )
        with np.errstate(over="ignore"):
            penalty = np.exp(fit.log_unit - fit.log_t2) if fit.lam is None else fit.lam
            self.lambda_ = self._per_target(penalty)
            self.tau2 = self._per_target(np.exp(fit.log_t2 - fit.log_unit))
            self.sigma2 = self._per_target((np.sqrt(fit.sigma2) * design.y_norm) ** 2)
        self.noise_sd = np.sqrt(fit.sigma2) * design.y_norm

    @cached_property
    def findings_on_validity(self) -> tuple[Finding, ...]:
        """The findings on which ``fit`` warns, and others of their kind."""
        return tuple(findings.of_ridge(self))

    def _findings_on_reading(self) -> list[Finding]:
        return [findings.intervals_of_ridge(self), *findings.on_reading_ridge(self)]

    def _given_responses(self, target: int) -> Any:
        """The noise, if there is any."""
        if not self.noise_sd[target] > 0:
            raise NoDensityError(None, NO_NOISE)
        return self.model.noise(self.dof)

    def sample(self, n: int, rng: RandomLike = None, hyper_columns: bool = False) -> pd.DataFrame:
        """Draw from the joint posterior of the coefficients.

        Parameters
        ----------
        n : int
            How many draws.
        rng : numpy.random.Generator, int or None
            Source of randomness, or a seed.
        hyper_columns : bool
            Add the draws of ``tau2`` and ``sigma2`` that go with them.

        Returns
        -------
        DataFrame
            A row for each draw and a column for each coefficient (under each target, where there are several).

        Examples
        --------
        >>> import statsmodels.api as sm
        >>> from pybayesridge import BayesRidge
        >>> longley = sm.datasets.longley.load_pandas().data
        >>> res = BayesRidge.from_formula("TOTEMP ~ GNP + UNEMP + ARMED", longley).fit()
        >>> draws = res.sample(4000, rng=0)
        >>> print(f"P(UNEMP < ARMED) = {(draws['UNEMP'] < draws['ARMED']).mean():.1f}")
        P(UNEMP < ARMED) = 0.9
        """
        drawn = self._draw_chain(positive_int("n", n), np.random.default_rng(rng))
        return drawn.frame(self.model, hyper_columns=hyper_columns)

    def _draw_chain(self, n: int, generator: np.random.Generator) -> ChainDraws:
        if not self.has_joint_posterior:
            raise ValueError(NO_ROW_SPACE.format(what="a draw"))
        design, penalty = self.posterior.design, self.penalty
        beta, tau2, sigma2 = [], [], []
        for i in range(design.q):
            of_z, b, t2, s2 = penalty.draw(i, n, generator)
            beta.append(self.model.scatter(of_z.T, b.T, design).T)
            tau2.append(t2)
            sigma2.append(s2)
        drawn = np.stack(tau2, axis=-1)
        density = penalty.log_prior(drawn)
        varies = self.method_entry.integrates and bool(np.isfinite(density).all())
        return ChainDraws(
            np.stack(beta, axis=-1),
            np.stack(sigma2, axis=-1),
            {"tau2": drawn},
            {"tau2": density} if varies else {},
        )

    def diagnostics(self) -> pd.Series | pd.DataFrame:
        """Diagnostics of the shape of the posterior and of the numerical accuracy.

        Returns
        -------
        Series, or DataFrame with a column for each target
            ``gamma_n``: smallest eigenvalue of X'X/n, X standardised. ``tau2_bound``: 4 / (n gamma_n); for tau2 above
            it the posterior has one mode (Theorem 3.1 of Tew, Boley & Schmidt, 2023). ``unique_mode_certified``:
            whether the mode reported lies there. :attr:`condition_number`, ``n_modes``, ``solver``, ``rank``,
            ``null_model``, ``exact_fit``, ``converged``.
        """
        columns = dict(zip(self.model.data.targets, self.diagnostics_by_target(), strict=True))
        if self.model.one_target:
            return pd.Series(columns[self.model.data.targets[0]], name="diagnostics", dtype=object)
        return pd.DataFrame(columns, dtype=object)

    def law_of_rows(self, rows: AnyArray) -> RowLaw:
        """The law of the linear predictor of rows of the design, of columns in blocks without reading them again."""
        if self.posterior.design.in_blocks and rows is self.posterior.design.x:
            law: RowLaw = self.posterior.own_rows()
            return law
        return super().law_of_rows(rows)

    def _release_rows(self, row_space: bool) -> None:
        if self.posterior.design.in_blocks:
            raise ValueError(coefficients.KEPT)
        _ = self.log_marginal
        if not row_space and self.has_joint_posterior:
            self.posterior = self.posterior.without_row_space()
        self.posterior = self.posterior.without_rows()
        self.ridge_fit = replace(self.ridge_fit, spectrum=self.posterior.spectrum)
        for name in ("loo_residuals", "loo_mse"):
            self.__dict__.pop(name, None)

    def shown_tables(self, i: int, alpha: float) -> list[Written]:
        """The hyperparameters, where the method integrates over the penalty."""
        if not self.method_entry.integrates:
            return []
        values = self.hyperparameters_of(i, np.array([0.5, alpha / 2, 1 - alpha / 2]))
        rows = np.vstack([values, self.explained_variance_of(i, alpha)])
        undefined = not bool(np.isfinite(values[:, 0]).all())
        found = Written.of_hyperparameters([*HYPERPARAMETERS, "explained variance"], rows, alpha)
        return [replace(found, undefined=undefined)]
