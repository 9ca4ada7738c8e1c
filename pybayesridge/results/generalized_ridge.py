"""Results of a Bayesian ridge regression of responses that are not Gaussian."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd

from pybayesridge._types import FloatArray, RandomLike
from pybayesridge.binomial.scores import Calibration, calibration
from pybayesridge.checks import positive_int
from pybayesridge.findings import Finding
from pybayesridge.predictive.left_out import LeftOut
from pybayesridge.predictive.sites import sites_left_out
from pybayesridge.recipes import Recipe
from pybayesridge.results import findings
from pybayesridge.results.arguments import check_alpha
from pybayesridge.results.arviz import Draws
from pybayesridge.results.facts import Written
from pybayesridge.results.labelled import per_row
from pybayesridge.results.plots import ridge as ridge_plots
from pybayesridge.results.probabilities import ProbabilityResults
from pybayesridge.ridge.prior import log_density_of_log
from pybayesridge.sites import penalty
from pybayesridge.sites.fit import SitesFit
from pybayesridge.sites.leave_one_out import leave_one_out, total_log_score
from pybayesridge.sites.likelihood import LeaveOneOut
from pybayesridge.sites.posterior import SitesPosterior
from pybayesridge.sites.prior import LogPrior, log_prior

if TYPE_CHECKING:
    from pybayesridge.models.priors import RidgeModel
    from pybayesridge.results.summary.formats import FormattedSummary


class GeneralizedRidgeResults(ProbabilityResults):
    """Posterior of a Bayesian ridge regression of responses that are not Gaussian.

    Made by :meth:`pybayesridge.BayesRidge.fit` with ``family="binomial"``. Coefficients, their standard deviations,
    intervals and contrasts are on the scale of the link: log odds ratios for the logit link. Leave-one-out
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
    link : {"logit", "probit"}
    event : str
        The level whose probability is modelled.
    solver : {"ep", "laplace"}
        The approximation of the posterior of the coefficients for each penalty.
    n_trials, n_events : float
        Number of trials (rows, where there are no `trials`; copies of them) and of events.
    sites_fit : SitesFit
        Answer of the method in the numerics' own units; internal.
    """

    model_name: ClassVar[str] = "BayesRidge"
    model: RidgeModel
    posterior: SitesPosterior
    solver: str
    parameterization: str
    sites_fit: SitesFit
    lambda_: float
    tau2: float
    n_trials: float
    n_events: float
    hyperparameter_names: ClassVar[tuple[str, ...]] = ("lambda", "tau2", "df_model")

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
        self.link, self.event = model.link, model.event
        with np.errstate(over="ignore"):
            self.lambda_ = float(np.exp(self.log_unit - fit.log_t2))
            self.tau2 = float(np.exp(fit.log_t2 - self.log_unit))
        self.n_trials, self.n_events = float(fit.likelihood.size.sum()), fit.likelihood.total

    @staticmethod
    def of_earlier(state: dict[str, Any]) -> dict[str, Any]:
        """The attributes in files of earlier versions."""
        return {"sites_fit" if name == "binary_fit" else name: value for name, value in state.items()}

    @per_row
    def fittedvalues(self) -> FloatArray:
        """Posterior mean of the probability of the event at the rows of the data, (n,)."""
        if self.model.endog is None:
            raise ValueError(self.model.why_no_rows)
        return self.sites_fit.fitted()

    @property
    def precision_loss(self) -> float:
        """Approximate relative error of the fit due to rounding."""
        fit = self.sites_fit
        with np.errstate(over="ignore"):
            loss = fit.space.spectrum.loss(float(np.exp(-fit.log_t2)) / fit.space.spectrum.top**2)
        return max(loss, float(self.model.precision_loss))

    @cached_property
    def findings_on_validity(self) -> tuple[Finding, ...]:
        """The findings on which ``fit`` warns, and others of their kind."""
        return tuple(findings.of_generalized(self))

    def _findings_on_reading(self) -> list[Finding]:
        return [findings.intervals_of_generalized(self), *findings.on_reading_generalized(self)]

    def rows_left_out(self, target: int) -> LeftOut:
        """Predictions of the rows from the others."""
        fit: Any = self.sites_fit
        return sites_left_out(fit.likelihood, fit.nodes, fit.weight)

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
        prior = self._prior()
        density = log_density_of_log(tau2, prior.a, prior.b, prior.log_scale - self.log_unit)
        return Draws(beta[..., None], None, {"tau2": tau2}, {"tau2": density})

    def _settle(self) -> None:
        _ = self.rsquared, self.precision_loss, self.log_marginal, self.loo_log_score, self.loo_brier, self.loo_auc

    def _release_rows(self, row_space: bool) -> None:
        if not row_space:
            raise ValueError(
                "row_space=False is not available with family='binomial': its posterior needs that space"
            )
        self.sites_fit = self.sites_fit.without_rows()
        self.posterior = self.posterior.without_rows(self.sites_fit.nodes)
        for name in ("_left_out", "loo_probabilities"):
            self.__dict__.pop(name, None)

    @property
    def log_unit(self) -> float:
        """Log of the factor from tau2 to t2 in the units of the coordinates; internal."""
        return 2 * float(np.log(self.posterior.design.common_scale))

    @cached_property
    def df_model(self) -> float:
        """Effective degrees of freedom of the coefficients, excluding the constant."""
        return penalty.effective_df(self.sites_fit) - self.model.k_constant

    @property
    def df_resid(self) -> float:
        """Rows minus effective degrees of freedom, including the constant."""
        return self.nobs - self.df_model - self.model.k_constant

    @cached_property
    def log_marginal(self) -> float:
        """Log marginal likelihood log p(y), approximated by the method.

        For ``"ep"`` and ``"laplace"`` with the penalty integrated out, else given the penalty. The prior of the
        unpenalised coefficients is flat, and with ``flat_in="latent"`` scaled by the latent standard deviation: only
        differences between models with the same unpenalised columns and the same response mean something.
        """
        fit, design = self.sites_fit, self.posterior.design
        log_z = 0.5 * fit.space.k * np.log(design.n) - float(np.log(np.abs(np.diag(design.block.r))).sum())
        constants = float(fit.likelihood.copies @ fit.likelihood.log_constants())
        return fit.log_evidence + log_z + constants

    @property
    def log_evidence(self) -> float:
        """The same as :attr:`log_marginal`."""
        return self.log_marginal

    @property
    def left_out(self) -> LeaveOneOut:
        """Leave-one-out predictions of the rows, on which the scores are based."""
        return self._left_out

    @cached_property
    def _left_out(self) -> LeaveOneOut:
        if self.model.endog is None:
            raise ValueError(self.model.why_no_rows)
        fit = self.sites_fit
        return leave_one_out(fit.likelihood, fit.nodes, fit.weight)  # type: ignore[arg-type]

    def loo_log_density(self) -> FloatArray:
        """Log probability or density of each row's response given the others, (n,). Internal."""
        return self._left_out.log_score + self.sites_fit.likelihood.log_constants()

    @per_row
    def loo_probabilities(self) -> FloatArray:
        """Leave-one-out probabilities of the event, (n,): each row predicted from the others.

        All trials of a row are left out together; of a row with a weight above 1 one copy is. They come from the
        approximate posterior without refitting.
        """
        return self._left_out.mean

    @cached_property
    def loo_log_score(self) -> float:
        """Leave-one-out log score: mean log probability of an observed outcome, over rows (copies of them).

        The larger the better; log(1/2) = -0.69 is that of a coin. With `trials` the mean is over trials, the
        binomial coefficients left out.
        """
        return total_log_score(self.sites_fit.likelihood, self._left_out) / self.n_trials

    @cached_property
    def loo_brier(self) -> float:
        """Leave-one-out Brier score: mean squared difference of outcome and probability; the smaller the better."""
        return self._score("brier")

    @cached_property
    def loo_auc(self) -> float:
        """Leave-one-out area under the ROC curve: probability that an event was given the larger probability."""
        return self._score("auc")

    def loo_calibration(self, bins: int = 10) -> Calibration:
        """Leave-one-out probabilities and observed shares in bins of equal trials; see :meth:`plot_calibration`."""
        return calibration(self.model.likelihood(), self._left_out.mean, positive_int("bins", bins))

    def _score(self, name: str) -> float:
        """A score of the leave-one-out predictions that the family has."""
        score = next(each for each in self.model.distribution.scores if each.name == name)
        return score.of(self.sites_fit.likelihood, self._left_out.mean)

    @property
    def grid(self) -> FloatArray | None:
        """Penalties that ``"loocv"`` tried, (L,); None for other methods."""
        grid = self.sites_fit.grid
        return None if grid is None else np.exp(self.log_unit - grid)

    @property
    def grid_scores(self) -> FloatArray | None:
        """Leave-one-out log score of each penalty of `grid`, as :attr:`loo_log_score`; None for other methods."""
        scores = self.sites_fit.grid_scores
        return None if scores is None else scores / self.n_trials

    @property
    def quadrature_error(self) -> float | None:
        """Estimated error of the integral over the penalty; None for methods without."""
        return self.sites_fit.error if self.method_entry.integrates else None

    def hyperparameters(self, alpha: float = 0.05) -> pd.DataFrame:
        """Posterior mean, median and interval of lambda, tau2 and the effective degrees of freedom.

        A method that fixes the penalty has a single point for it. A mean is inf where the posterior has none.

        Parameters
        ----------
        alpha : float
            One minus the probability of the interval.

        Returns
        -------
        DataFrame
            Rows lambda, tau2, df_model; columns mean, median, lower, upper.
        """
        table = self.hyperparameters_of(0, np.array([0.5, check_alpha(alpha) / 2, 1 - alpha / 2]))
        return pd.DataFrame(table, index=self.hyperparameter_names, columns=["mean", "median", "lower", "upper"])

    def hyperparameters_of(self, i: int, at: FloatArray) -> FloatArray:
        """Posterior means, and quantiles at the three levels `at`, of the hyperparameters, (3, 4)."""
        fit = self.sites_fit
        with np.errstate(over="ignore"):
            found = self.penalty_distribution()
            if found is not None:
                points = found.quantiles(at)
                where = np.array([node.log_t2 for node in fit.nodes])
                df = np.interp(points, where, [node.effective_df() for node in fit.nodes]) - self.model.k_constant
                means = [
                    penalty.mean_of_penalty(fit, self._prior()) * np.exp(self.log_unit),
                    penalty.mean_of_t2(fit) * np.exp(-self.log_unit),
                ]
            else:
                points, df, means = np.full(3, fit.log_t2), np.full(3, self.df_model), [self.lambda_, self.tau2]
            values = np.array([np.exp(self.log_unit - points)[[0, 2, 1]], np.exp(points - self.log_unit), df])
        return np.column_stack([[*means, self.df_model], values])

    def explained_variance(self, alpha: float = 0.05, rng: RandomLike = 0) -> pd.Series:
        """Posterior mean, median and interval of the share of latent variance that the penalised columns explain.

        The event is that a latent response is above 0. With g the part of the penalised columns in its linear
        predictor (the unpenalised ones projected out), n rows and c the variance of the latent noise (pi^2/3 for the
        logit and 1 for the probit link) the share is ``|g|^2 / (|g|^2 + n c)``; rows of several trials count as such.
        A priori it is Beta(1/2, 1/2) with the default prior. It is not a measure of how well single responses are
        predicted; for that see :attr:`loo_log_score` and :attr:`loo_auc`.

        Parameters
        ----------
        alpha : float
            One minus the probability of the (equal-tailed) interval.
        rng : numpy.random.Generator, int or None
            The posterior is that of 4,000 to 20,000 draws; by default they are the same at each call. The standard
            error of the probability at a 2.5 % quantile is at most 0.0025.

        Returns
        -------
        Series
            mean, median, lower, upper.
        """
        check_alpha(alpha)
        share = self.posterior.latent_share(np.random.default_rng(rng))
        values = [share.mean(), *np.quantile(share, [0.5, alpha / 2, 1 - alpha / 2])]
        return pd.Series(values, index=["mean", "median", "lower", "upper"], name="explained_variance")

    def penalty_distribution(self) -> penalty.PenaltyPosterior | None:
        """The posterior of log t2; None for a method that fixes it. Internal."""
        if not (self.method_entry.integrates and self.sites_fit.space.rank):
            return None
        return penalty.penalty_posterior(self.sites_fit, self._prior())

    def _prior(self) -> LogPrior:
        model = self.model
        return log_prior(model.prior_of_tau2, self.sites_fit.space, self.sites_fit.likelihood, model.flat_in)

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
        return super().summary(alpha, direction)

    @property
    def center(self) -> str:
        """What `params` are: medians where the posterior has no mean."""
        return "mean" if self.posterior.has_mean else "median"

    def shown_tables(self, i: int, alpha: float) -> list[Written]:
        """The hyperparameters, where the method integrates over the penalty."""
        if not (self.method_entry.integrates and self.sites_fit.space.rank):
            return []
        found = self.hyperparameters(alpha)
        return [Written.of_hyperparameters(list(found.index), found.to_numpy(), alpha)]
