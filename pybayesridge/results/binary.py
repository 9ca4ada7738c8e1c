"""Results of a Bayesian ridge regression of yes/no responses."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pandas as pd

from pybayesridge._types import FloatArray, IntArray, RandomLike
from pybayesridge.binomial.fit import BinaryFit
from pybayesridge.binomial.posterior import BinaryPosterior
from pybayesridge.binomial.prior import log_prior
from pybayesridge.checks import positive_int
from pybayesridge.findings import Finding
from pybayesridge.recipes import Recipe
from pybayesridge.results import findings
from pybayesridge.results.arguments import (
    check_alpha,
    standardized_size,
    unit_rows,
)
from pybayesridge.results.arviz import Draws
from pybayesridge.results.plots import binary as binary_plots
from pybayesridge.results.plots import ridge as ridge_plots
from pybayesridge.results.probabilities import ProbabilityResults
from pybayesridge.results.scores import BinaryScores
from pybayesridge.ridge.prior import log_density_of_log

if TYPE_CHECKING:
    from pybayesridge.models.binary import BinaryRidge
    from pybayesridge.results.summary.formats import FormattedSummary

NO_COVARIANCE = (
    "the coefficients have no posterior covariance: the columns separate the responses, and the tail of the "
    "posterior of the penalty is too heavy; use conf_int() or sample()"
)


class BinaryRidgeResults(ProbabilityResults, BinaryScores):
    """Posterior of a Bayesian ridge regression of yes/no responses.

    Made by :meth:`pybayesridge.BayesRidge.fit` with ``family="binomial"``. Coefficients, their standard deviations,
    intervals and contrasts are on the scale of the link: log odds ratios for the logit link. Leave-one-out
    predicts each row from the others; the penalty is estimated from the others too.

    Parameters
    ----------
    model : BinaryRidge
    fit : BinaryFit
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
    link : {"logit", "probit"}
    event : str
        The level whose probability is modelled.
    solver : {"ep", "laplace"}
        The approximation of the posterior of the coefficients for each penalty.
    binary_fit : BinaryFit
        Answer of the method in the numerics' own units; internal.
    """

    family: ClassVar[str] = "BayesRidge"
    _pictures: ClassVar[str] = "plot_calibration() or plot_roc()"
    model: BinaryRidge
    posterior: BinaryPosterior
    solver: str
    parameterization: str

    plot_coefficients = ridge_plots.plot_coefficients
    plot_calibration = binary_plots.plot_calibration
    plot_roc = binary_plots.plot_roc

    def __init__(
        self,
        model: BinaryRidge,
        fit: BinaryFit,
        *,
        method: str,
        solver: str,
        parameterization: str,
        tol: float,
        maxiter: int,
        recipe: Recipe,
    ) -> None:
        self.posterior = fit.posterior()
        self.binary_fit = fit
        super().__init__(
            model,
            model.scatter(*self.posterior.coefficient_centers(), self.posterior.design),
            method=method,
            solver=solver,
            parameterization=parameterization,
            tol=tol,
            maxiter=maxiter,
            recipe=recipe,
            converged=fit.converged,
            n_iter=fit.n_iter,
        )
        self.link, self.event = model.link, model.event
        with np.errstate(over="ignore"):
            self.lambda_ = float(np.exp(self.log_unit - fit.log_t2))
            self.tau2 = float(np.exp(fit.log_t2 - self.log_unit))
        successes, _ = fit.likelihood.totals()
        self.n_trials, self.n_events = float(fit.likelihood.trials.sum()), float(successes.sum())

    @cached_property
    def fittedvalues(self) -> FloatArray:
        """Posterior mean of the probability of the event at the rows of the data, (n,)."""
        if self.model.endog is None:
            raise ValueError(self.model.why_no_rows)
        return self.binary_fit.fitted()

    @property
    def precision_loss(self) -> float:
        """Approximate relative error of the fit due to rounding."""
        fit = self.binary_fit
        with np.errstate(over="ignore"):
            loss = fit.space.spectrum.loss(float(np.exp(-fit.log_t2)) / fit.space.spectrum.top**2)
        return max(loss, float(self.model.precision_loss))

    @cached_property
    def findings_on_validity(self) -> tuple[Finding, ...]:
        """The findings on which ``fit`` warns, and others of their kind."""
        return tuple(findings.of_binary(self))

    def _findings_on_reading(self) -> list[Finding]:
        return [findings.intervals_of_binary(self), *findings.on_reading_binary(self)]

    def sample(self, n: int, rng: RandomLike = None, hyper_columns: bool = False) -> pd.DataFrame:
        """Draw from the joint posterior of the coefficients, on the scale of the link.

        Parameters
        ----------
        n : int
            How many draws.
        rng : numpy.random.Generator, int or None
            Source of randomness, or a seed.
        hyper_columns : bool
            Add the draws of ``tau2`` that go with them: each is a node of the integral over the penalty.

        Returns
        -------
        DataFrame
            A row for each draw and a column for each coefficient.
        """
        drawn = self._draw_chain(positive_int("n", n), np.random.default_rng(rng))
        out = pd.DataFrame(drawn.beta[..., 0], columns=self.model.exog_names)
        if hyper_columns:
            out["tau2"] = drawn.others["tau2"][:, 0]
        return out

    def _draw_chain(self, n: int, generator: np.random.Generator) -> Draws:
        of_z, b, t2 = self.posterior.draws_with_penalty(n, generator)
        beta = self.model.scatter(of_z.T, b.T, self.posterior.design).T
        tau2 = (t2 * np.exp(-self.log_unit))[:, None]
        if not self.method_entry.integrates:
            return Draws(beta[..., None], None, {"tau2": tau2})
        model = self.model
        prior = log_prior(model.prior_of_tau2, self.binary_fit.space, model.link, model.flat_in)
        density = log_density_of_log(tau2, prior.a, prior.b, prior.log_scale - self.log_unit)
        return Draws(beta[..., None], None, {"tau2": tau2}, {"tau2": density})

    def _standard_deviations(self) -> FloatArray:
        return self.model.scatter(*self.posterior.coefficient_sds(), self.posterior.design)[:, None]

    def _intervals(self, alpha: float) -> FloatArray:
        ends = self.posterior.coefficient_quantiles(np.array([alpha / 2, 1 - alpha / 2]))
        return self.model.scatter(*ends, self.posterior.design)[:, None]

    def _covariance(self, target: int) -> FloatArray:
        if not self.posterior.has_variance:
            raise ValueError(NO_COVARIANCE)
        at = np.concatenate(self.model.positions(self.posterior.design))
        out = np.zeros((len(self.model.exog_names),) * 2)
        out[np.ix_(at, at)] = self.posterior.covariance_of_coefficients()
        return out

    def some_coefficients(
        self, positions: list[int], target: int, alpha: float
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Means, standard deviations and intervals of a few coefficients, without those of the others."""
        x, z = unit_rows(self.model, self.posterior.design, positions)
        interval = self.posterior.linear_quantiles(x, z, np.array([alpha / 2, 1 - alpha / 2]))
        return self.params[positions], self.posterior.linear_moments(x, z)[1], interval

    def _odds_ends(self, at: IntArray, alpha: float) -> FloatArray:
        x, z = unit_rows(self.model, self.posterior.design, at.tolist())
        return self.posterior.linear_quantiles(x, z, np.array([alpha / 2, 1 - alpha / 2]))

    def standardized_size(self, target: int) -> FloatArray:
        """Size of the coefficients per standard deviation; unpenalised ones always come first."""
        return standardized_size(self.model, self.posterior.design, self.params)

    def _settle(self) -> None:
        _ = self.rsquared, self.precision_loss, self.log_marginal, self.loo_log_score, self.loo_brier, self.loo_auc

    def _release_rows(self, row_space: bool) -> None:
        if not row_space:
            raise ValueError(
                "row_space=False is not available with family='binomial': its posterior needs that space"
            )
        self.binary_fit = self.binary_fit.without_rows()
        self.posterior = self.posterior.without_rows(self.binary_fit.nodes)
        self.__dict__.pop("_left_out", None)

    def summary(self, alpha: float = 0.05, direction: bool = False) -> FormattedSummary:
        """Regression table: posterior mean, standard deviation and interval of every coefficient, link's scale.

        Tables of more than 60 coefficients show the largest standardised ones first and say how many are left out.

        Parameters
        ----------
        alpha : float
            One minus the probability of the intervals.
        direction : bool
            Add a column with the posterior probability that each coefficient is positive, ``P(>0)``.

        Returns
        -------
        statsmodels.iolib.summary.Summary
            Prints as text; ``as_html()``, ``as_latex()``, ``as_csv()``.
        """
        from pybayesridge.results.summary import binary as binary_summary

        return binary_summary.summary(self, check_alpha(alpha), direction)
