"""Results of a Bayesian ridge regression of responses that are not Gaussian."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd

from pybayesridge._types import FloatArray, IntArray, RandomLike
from pybayesridge.checks import positive_int
from pybayesridge.findings import Finding
from pybayesridge.posterior.left_out import LeftOut
from pybayesridge.recipes import Recipe
from pybayesridge.results import findings
from pybayesridge.results.arviz import ChainDraws
from pybayesridge.results.facts import Written
from pybayesridge.results.generalized_estimates import GeneralizedEstimates
from pybayesridge.results.labelled import per_row
from pybayesridge.results.plots import ridge as ridge_plots
from pybayesridge.results.response_scale import ResponseScaleResults
from pybayesridge.sites.result import SitesFit

if TYPE_CHECKING:
    from pybayesridge.models.priors import RidgeModel


class GeneralizedRidgeResults(ResponseScaleResults, GeneralizedEstimates):
    """Posterior of a Bayesian ridge regression of responses that are not Gaussian.

    Made by :meth:`pybayesridge.BayesRidge.fit` with families other than "gaussian". Coefficients, their
    standard deviations, intervals and contrasts are on the scale of the link: log odds ratios for the logit link, log
    rate ratios for counts. Leave-one-out
    predicts each row from the others; the penalty is estimated from the others too.

    Parameters
    ----------
    model : BayesRidge
    fit : SitesFit
    method, solver, parameterization, tol, maxiter
        As given to ``fit``.
    recipe : Recipe

    Attributes
    ----------
    params : (k,) array
        Posterior means of the coefficients, user's scale. Where the columns separate the responses the tail of the
        penalty's posterior can be so heavy that no mean exists: then the medians, and a finding says so.
    lambda_ : float
        The penalty on the standardised scale, 1/tau2; inf for a null model. For ``"ep"`` and ``"laplace"`` it is
        ``exp(E log lambda)``. See :meth:`hyperparameters`.
    tau2 : float
        ``1 / lambda_``: prior variance of the coefficients.
    link : {"logit", "probit", "log"}
    event : str
        With ``family="binomial"`` the level whose probability is modelled.
    solver : {"ep", "laplace"}
        The approximation of the posterior of the coefficients for each penalty.
    n_events : float
        Number of events, copies of rows included: of counts their sum.
    n_trials : float
        With ``family="binomial"`` the number of trials (rows, where there are no `trials`; copies of them).
    sites_fit : SitesFit
        Answer of the method in the numerics' own units; internal.
    """

    model_name: ClassVar[str] = "BayesRidge"
    plot_coefficients = ridge_plots.plot_coefficients

    def __init__(
        self,
        model: RidgeModel,
        fit: SitesFit,
        *,
        method: str,
        solver: str,
        parameterization: str,
        tol: float,
        maxiter: int,
        recipe: Recipe,
    ) -> None:
        self.sites_fit = fit
        super().__init__(
            model,
            fit.posterior(),
            method=method,
            solver=solver,
            parameterization=parameterization,
            tol=tol,
            maxiter=maxiter,
            recipe=recipe,
            converged=fit.converged,
            n_iter=fit.n_iter,
        )
        self._take_family()
        self._take_penalty(fit)
        self._take_sizes(fit)

    @property
    def _form(self) -> float:
        return self.sites_fit.likelihood.form

    @property
    def log_shape(self) -> float:
        """The log of the family's further parameter: given, or its posterior mean; nan without. Internal."""
        return self.sites_fit.likelihood.log_shape

    def _take_sizes(self, fit: SitesFit) -> None:
        """Take the sum of the rows' sizes and the number of events."""
        self.size = float(fit.likelihood.size.sum())
        if self.model.distribution.has_events:
            self.n_events = fit.likelihood.total

    def _take_penalty(self, fit: SitesFit) -> None:
        """Take the penalty as a number."""
        with np.errstate(over="ignore"):
            self.lambda_ = float(np.exp(self.log_unit - fit.log_t2))
            self.tau2 = float(np.exp(fit.log_t2 - self.log_unit))

    @staticmethod
    def of_earlier(state: dict[str, Any]) -> dict[str, Any]:
        """The attributes in files of earlier versions."""
        renamed = {"binary_fit": "sites_fit", "n_trials": "size"}
        return {renamed.get(name, name): value for name, value in state.items()}

    @per_row
    def fittedvalues(self) -> FloatArray:
        """Posterior mean of the mean of each response, of the rows of the data, (n,); as :meth:`predict` has it."""
        if self.model.endog is None:
            raise ValueError(self.model.why_no_rows)
        return self.sites_fit.fitted()

    @per_row
    def resid_response(self) -> FloatArray:
        """Responses minus fitted values, (n,): the same as :attr:`resid`."""
        return self.arrays.resid

    @per_row
    def resid_pearson(self) -> FloatArray:
        """Pearson residuals, (n,): responses minus fitted values, in standard deviations of the family.

        Of a row with `trials` the response is the number of successes. A further parameter of the family has its
        posterior mean on the log scale.
        """
        return self.likelihood().pearson(self.arrays.fittedvalues)

    @per_row
    def resid_deviance(self) -> FloatArray:
        """Deviance residuals, (n,): signed roots of what the rows add to the deviance of the fitted values."""
        return self.likelihood().signed_deviances(self.arrays.fittedvalues)

    @cached_property
    def findings_on_validity(self) -> tuple[Finding, ...]:
        """The findings on which ``fit`` warns, and others of their kind."""
        return tuple(findings.of_generalized(self))

    def _findings_on_reading(self) -> list[Finding]:
        return [findings.intervals_of_generalized(self), *findings.on_reading_generalized(self)]

    def rows_left_out(self, target: int) -> LeftOut:
        """Predictions of the rows from the others."""
        return self.sites_fit.rows_left_out()

    def groups_left_out(self, target: int, codes: IntArray) -> LeftOut:
        """Predictions of groups of rows, each from the other rows, given the group of each row (n,)."""
        return self.sites_fit.groups_left_out(codes, self.solver)

    def sample(self, n: int, rng: RandomLike = None, hyper_columns: bool = False) -> pd.DataFrame:
        """Draw from the joint posterior of the coefficients, on the scale of the link.

        Parameters
        ----------
        n : int
            How many draws.
        rng : numpy.random.Generator, int or None
            Source of randomness, or a seed.
        hyper_columns : bool
            Add the draws of ``tau2`` that go with them, each a node of the integral, and of negative binomial counts
            those of ``alpha``, each from that part of its posterior which a node stands for.

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
        others = self._variances_at(which) | self._shape_drawn(which, generator)
        if not self.method_entry.integrates:
            return ChainDraws(beta[..., None], None, others)
        log_prior = self._penalty.log_prior_at_nodes(others["tau2"], which)
        return ChainDraws(beta[..., None], None, others, {"tau2": log_prior})

    def _variances_at(self, which: IntArray) -> dict[str, FloatArray]:
        """Prior variances of coefficients at some nodes (m,), each (m, 1)."""
        tau2 = np.exp(np.array([node.log_t2 for node in self.posterior.nodes]) - self.log_unit)
        return {"tau2": tau2[which][:, None]}

    def _shape_drawn(self, which: IntArray, generator: np.random.Generator) -> dict[str, FloatArray]:
        """Draws of further parameters of the likelihood that some nodes (m,) stand for, each (m, 1)."""
        nodes, grid = self.posterior.nodes, self.sites_fit.shape
        if grid is None:
            return {}
        log_shape, form = (np.array(own)[which] for own in zip(*((n.log_shape, n.form) for n in nodes), strict=True))
        drawn = np.exp(grid.drawn(log_shape, form, generator.random(which.size)))
        return {name: values[:, None] for name, values in zip(self._names_of_shape, (drawn, form), strict=False)}

    @property
    def _names_of_shape(self) -> tuple[str, ...]:
        """Names of further parameters of the likelihood that are integrated out."""
        shape = self.shape_grid
        return () if shape is None else shape.names(self.model.distribution.shape)

    def _settle(self) -> None:
        _ = self.rsquared, self.precision_loss, self.log_marginal, self.loo_log_score, self.no_loo_score
        for score in self.model.distribution.scores:
            getattr(self, f"loo_{score.name}")

    def _release_rows(self, row_space: bool) -> None:
        if not row_space:
            raise ValueError(
                f"row_space=False is not available with family={self.model.family!r}: its posterior needs that space"
            )
        self.sites_fit = self.sites_fit.without_rows()
        self.posterior = self.posterior.without_rows(self.sites_fit.posterior_nodes())
        of_residuals = ("resid_response", "resid_pearson", "resid_deviance")
        for name in ("_left_out", "loo_means", "loo_probabilities", *of_residuals):
            self.__dict__.pop(name, None)

    def shown_tables(self, i: int, alpha: float) -> list[Written]:
        """The hyperparameters, where the method integrates over the penalty or over a further parameter."""
        if self.shape_grid is None and not self.integrates_penalty:
            return []
        found = self.hyperparameters(alpha)
        return [Written.of_hyperparameters(list(found.index), found.to_numpy(), alpha)]
