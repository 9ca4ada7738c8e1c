"""Estimates of a ridge of responses that are not Gaussian: the penalty, the evidence, leave-one-out scores."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pybayesridge._types import FloatArray, RandomLike
from pybayesridge.checks import positive_int
from pybayesridge.families.scores import Calibration, calibration
from pybayesridge.posterior.laws import ShapeLaw
from pybayesridge.posterior.left_out import LeaveOneOut
from pybayesridge.results.arguments import check_alpha
from pybayesridge.results.estimates import SUMMARY, LinearEstimates, summary_of_draws
from pybayesridge.results.labelled import of_family, per_row
from pybayesridge.results.leave_one_out import without_score
from pybayesridge.sites.result import SitesFit, SitesPenalty

if TYPE_CHECKING:
    from pybayesridge.models.priors import RidgeModel

NO_SCORE = (
    "There is no leave-one-out predictive score: there is a row without which the unpenalised columns separate the "
    "responses."
)
"""Of a file of an earlier version, without the rows."""


class GeneralizedEstimates(LinearEstimates):
    """The part of the results that follows from the penalty and from the rows' predictions of each other.

    Attributes
    ----------
    sites_fit : SitesFit
        Answer of the method in the numerics' own units; internal.
    size : float
        Sum of the sizes of the rows in scores: of their copies, of yes/no responses of their trials; internal.
    n_events : float
        Number of events, copies of rows included: of counts their sum.
    """

    model: RidgeModel
    sites_fit: SitesFit
    solver: str
    parameterization: str
    lambda_: float
    tau2: float
    size: float
    n_events: float

    @property
    def hyperparameter_names(self) -> tuple[str, ...]:
        """Rows of :meth:`hyperparameters`: the family's further parameter is one where it was integrated out."""
        shape = self.shape_grid
        own = () if shape is None else shape.names(self.model.distribution.shape)
        return ("lambda", "tau2", "df_model", *own)

    @property
    def shape_grid(self) -> ShapeLaw | None:
        """The posterior of the log of the family's further parameter, where it was integrated out. Internal."""
        return self.sites_fit.shape

    @property
    def log_unit(self) -> float:
        """Log of the factor from tau2 to t2 in the units of the coordinates; internal."""
        return 2 * float(np.log(self.posterior.design.common_scale))

    @property
    def precision_loss(self) -> float:
        """Approximate relative error of the fit due to rounding."""
        fit = self.sites_fit
        with np.errstate(over="ignore"):
            loss = fit.space.spectrum.loss(float(np.exp(-fit.log_t2)) / fit.space.spectrum.top**2)
        return max(loss, float(self.model.precision_loss))

    @property
    def constants(self) -> int:
        """Number of flat parameters that are no coefficients of columns; internal."""
        return self.model.k_constant

    @cached_property
    def df_model(self) -> float:
        """Effective degrees of freedom of the coefficients, excluding the constant."""
        return self._penalty.effective_df() - self.constants

    @property
    def df_resid(self) -> float:
        """Rows minus effective degrees of freedom, including the constant."""
        return self.nobs - self.df_model - self.constants

    @cached_property
    def log_marginal(self) -> float:
        """Log marginal likelihood log p(y), approximated by the method.

        For ``"ep"`` and ``"laplace"`` with the penalty integrated out, else given the penalty. The prior of the
        unpenalised coefficients is flat, and with ``flat_in="latent"`` scaled by the latent standard deviation: only
        differences between models with the same unpenalised columns and the same response mean something.
        """
        fit, design = self.sites_fit, self.posterior.design
        log_z = 0.5 * design.block.k * np.log(design.n) - float(np.log(np.abs(np.diag(design.block.r))).sum())
        constants = float(fit.likelihood.copies @ fit.likelihood.log_constants())
        return fit.log_evidence + log_z + constants

    @property
    def log_evidence(self) -> float:
        """The same as :attr:`log_marginal`."""
        return self.log_marginal

    @cached_property
    def _left_out(self) -> LeaveOneOut:
        """Leave-one-out predictions of the rows, on which the scores are based."""
        if self.model.endog is None:
            raise ValueError(self.model.why_no_rows)
        return self.sites_fit.left_out()

    def loo_log_density(self) -> FloatArray:
        """Log probability or density of each row's response given the others, (n,). Internal.

        It is -inf for rows without which unpenalised coefficients are not determined.
        """
        out: FloatArray = self._left_out.log_score + self.sites_fit.likelihood.log_constants()
        out[self.sites_fit.needed_rows()] = -np.inf
        return out

    @of_family  # type: ignore[prop-decorator]
    @property
    def n_trials(self) -> float:
        """Number of trials: rows, where there are no `trials`, copies of them included."""
        return self.size

    @per_row
    def loo_means(self) -> FloatArray:
        """Leave-one-out predictions of the means of responses, (n,): each row predicted from the others.

        Of yes/no responses these are probabilities of the event, of counts expected counts: there medians given
        each penalty, averaged over the penalty. Of a row with a weight above 1 one copy is left out. They come from
        the approximate posterior without refitting.
        """
        return self._left_out.mean

    @of_family
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

        The larger the better. Of yes/no responses log(1/2) = -0.69 is that of a coin; with `trials` the mean is over
        trials, the binomial coefficients left out. It is minus infinity if there is a row without which the
        unpenalised columns separate the others, such as that of the only event, or of the only row of an ordered
        category.
        """
        return self.sites_fit.loo_log_score(self._left_out) / self.size

    @cached_property
    def no_loo_score(self) -> str:
        """Why the log score is minus infinity, in a sentence; empty where it is not. Internal."""
        if self.model.endog is None and "loo_log_score" not in self.__dict__:
            return ""
        if np.isfinite(self.loo_log_score):
            return ""
        return NO_SCORE if self.model.endog is None else without_score(self)

    @of_family  # type: ignore[prop-decorator]
    @cached_property
    def loo_brier(self) -> float:
        """Leave-one-out Brier score: mean squared difference of outcome and probability; the smaller the better."""
        return self._score("brier")

    @of_family  # type: ignore[prop-decorator]
    @cached_property
    def loo_absolute_error(self) -> float:
        """Leave-one-out mean absolute error of predictions; the smaller the better."""
        return self._score("absolute_error")

    @of_family  # type: ignore[prop-decorator]
    @cached_property
    def loo_auc(self) -> float:
        """Leave-one-out area under the ROC curve: probability that an event was given the larger probability."""
        return self._score("auc")

    @of_family  # type: ignore[prop-decorator]
    @cached_property
    def loo_deviance(self) -> float:
        """Share of the deviance that leave-one-out predictions explain; 0 is that of the overall rate.

        It is negative if they are worse than the rate of all rows, which has seen each of them.
        """
        return self._score("deviance")

    @of_family
    def loo_calibration(self, bins: int = 10) -> Calibration:
        """Leave-one-out probabilities and observed shares in bins of equal trials; see :meth:`plot_calibration`."""
        return calibration(self.sites_fit.likelihood, self._left_out.mean, positive_int("bins", bins))  # type: ignore[arg-type]

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
        return None if scores is None else scores / self.size

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
            Rows lambda, tau2, df_model, of negative binomial counts alpha unless it was given, of Student-t noise its
            scale sigma, and df unless they were given; columns mean, median, lower, upper.
        """
        table = self.hyperparameters_of(0, np.array([0.5, check_alpha(alpha) / 2, 1 - alpha / 2]))
        return pd.DataFrame(table, index=self.hyperparameter_names, columns=SUMMARY)

    def hyperparameters_of(self, i: int, at: FloatArray) -> FloatArray:
        """Posterior means, and quantiles at the three levels `at`, of the hyperparameters, (3 to 5, 4)."""
        found = self._penalty.hyperparameters(at, integrates=self.integrates_penalty)
        found[2] -= self.constants
        return found

    def explained_variance(self, alpha: float = 0.05, rng: RandomLike = 0) -> pd.Series:
        """Posterior mean, median and interval of the share of latent variance that the penalised columns explain.

        Of yes/no responses the event is that a latent response is above 0. With g the part of the penalised columns
        in its linear predictor (the unpenalised ones projected out), n rows and c the variance of the latent noise
        (pi^2/3 for the logit and 1 for the probit link; of Poisson counts log(1 + 1/m), with m the mean count, of
        negative binomial counts log(1 + 1/m + alpha)) the share is
        ``|g|^2 / (|g|^2 + n c)``; rows of several trials count as such.
        A priori it is Beta(1/2, 1/2) with the default prior. It is not a measure of how well single responses are
        predicted; for that see :attr:`loo_log_score`, and :attr:`loo_auc` or :attr:`loo_deviance`.

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
        return pd.Series(summary_of_draws(share, alpha), index=SUMMARY, name="explained_variance")

    @property
    def integrates_penalty(self) -> bool:
        """Whether there is a penalty, and the method integrates it out. Internal."""
        return bool(self.method_entry.integrates and self.sites_fit.space.rank)

    def penalty_arrays(self) -> dict[str, Any]:
        """The posterior of the penalty and of a further parameter, for other languages. Internal."""
        return self._penalty.as_arrays(integrates=self.integrates_penalty)

    @property
    def _penalty(self) -> SitesPenalty:
        """The posterior of the penalty, in the numerics' own units."""
        return SitesPenalty(self.sites_fit, self.model.prior_of_tau2, self.model.flat_in)

    @property
    def center(self) -> str:
        """What `params` are: medians where the posterior has no mean."""
        return "mean" if self.posterior.has_mean else "median"
