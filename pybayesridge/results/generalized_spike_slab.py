"""Results of a spike-and-slab regression of responses that are not Gaussian."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pybayesridge._types import FloatArray
from pybayesridge.ep.posterior import StartingPoint
from pybayesridge.findings import Finding
from pybayesridge.predictive.latent_sets import latent_sets_left_out
from pybayesridge.predictive.left_out import LeftOut
from pybayesridge.predictive.sites import sites_left_out
from pybayesridge.recipes import Recipe
from pybayesridge.results import findings
from pybayesridge.results.arviz import Draws
from pybayesridge.results.labelled import Lacking, per_row
from pybayesridge.results.response_scale import ResponseScaleResults
from pybayesridge.results.spike_slab import SpikeSlabResults

if TYPE_CHECKING:
    from pybayesridge.models.priors import SelectionModel

NO_EVIDENCE = (
    "the sampler for family='binomial' gives no log evidence: compare fits by inclusion_prob and models(), or use "
    "method='ep'"
)


class GeneralizedSpikeSlabResults(ResponseScaleResults, SpikeSlabResults):
    """Posterior of a spike-and-slab regression of responses that are not Gaussian.

    Made by :meth:`pybayesridge.SpikeSlab.fit` with ``family="binomial"``. Coefficients, their standard deviations,
    intervals and contrasts are on the scale of the link: log odds ratios for the logit link. Inclusion probabilities,
    `params` and `bse` of selected columns use every step of the sampler; intervals, predictions, sets and draws come
    from up to 4,000 states that were kept of it. Fits by expectation propagation have the log evidence, but no joint
    probabilities of columns.

    Attributes
    ----------
    params : (k,) array
        Posterior means of the coefficients, user's scale: over spike and slab together.
    inclusion_prob, inclusion_se : (k,) arrays
        Posterior inclusion probabilities, and their Monte Carlo standard errors.
    link : {"logit", "probit"}
    event : str
        The level whose probability is modelled.
    n_trials, n_events : float
        Number of trials (rows, where there are no `trials`; copies of them) and of events.
    slab_var : float
        Given, or posterior mean: the prior variance of an included coefficient on the scale of the link.
    learned : tuple of str
        Names of the hyperparameters that are integrated out.
    """

    model: SelectionModel
    n_trials: float
    n_events: float

    noise_var = Lacking("{reason}: these results have no noise_var")

    def __init__(
        self,
        model: SelectionModel,
        posterior: Any,
        *,
        method: str,
        tol: float,
        maxiter: int,
        fit_options: Mapping[str, Any],
        recipe: Recipe,
    ) -> None:
        super().__init__(
            model, posterior, method=method, tol=tol, maxiter=maxiter, fit_options=fit_options, recipe=recipe
        )
        self._take_family()
        likelihood = model.likelihood()
        self.n_trials, self.n_events = float(likelihood.trials.sum()), float(likelihood.totals()[0].sum())

    def _take_hyperparameters(self) -> None:
        design, selection = self.posterior.design, self.posterior.selection
        self.slab_var = float(selection.weights @ [h.slab_var for h in selection.hypers]) / design.common_scale**2

    @property
    def log_evidence(self) -> float:
        """Log marginal likelihood by expectation propagation; the sampler does not give it.

        The binomial coefficients are left out, and unpenalised coefficients have Lebesgue measure, as for
        :class:`~pybayesridge.BayesRidge`. Hyperparameters that are not given are integrated out.
        """
        if self.exact_sets is not None:
            raise AttributeError(NO_EVIDENCE)
        return float(self.posterior.selection.log_evidence)

    @property
    def log_evidence_se(self) -> float:
        """NaN for expectation propagation, whose error is not one of sampling; the sampler gives no evidence."""
        if self.exact_sets is not None:
            raise AttributeError(NO_EVIDENCE)
        return float("nan")

    def starting_point(self) -> StartingPoint:
        """Not available: only fits with ``family="gaussian"`` start from others."""
        raise ValueError("start must be results of a SpikeSlab with family='gaussian'")

    @cached_property
    def _left_out(self) -> LeftOut:
        posterior, likelihood = self.posterior, self.model.likelihood()
        if self.exact_sets is None:
            return sites_left_out(likelihood, posterior.nodes(), posterior.selection.weights)
        rows = self.model.split_rows(self.model.data.exog, posterior.design)
        return latent_sets_left_out(posterior, likelihood, *rows)

    @per_row
    def fittedvalues(self) -> FloatArray:
        """Posterior mean of the probability of the event at the rows of the data, (n,)."""
        if self.model.data.exog is None:
            raise ValueError(self.model.why_no_rows)
        return self._means_at(self.model.data.exog)

    def hyperparameters(self, alpha: float = 0.05) -> pd.DataFrame:
        """Posterior mean and equal-tailed interval of the hyperparameters and of the number of included columns.

        Parameters
        ----------
        alpha : float
            One minus the probability of the intervals.

        Returns
        -------
        DataFrame
            Rows ``prior_inclusion``, ``slab_var``, ``prior_share`` (the share of the latent variance that the
            hyperparameters expect the columns to explain) and ``size`` (the number of included columns, as
            `expected_size`), with groups of several columns also ``groups_included`` (the number of included
            groups, each column outside them counted as one); columns ``mean``, ``lower``, ``upper``.

        Raises
        ------
        ValueError
            For a fit by expectation propagation, which has point estimates: `slab_var`, `prior_inclusion`.
        """
        return super().hyperparameters(alpha)

    def _draw_chain(
        self, n: int, generator: np.random.Generator, kind: str | None = None, chain: int | None = None
    ) -> Draws:
        drawn = super()._draw_chain(n, generator, kind, chain)
        return Draws(drawn.beta, None, drawn.others, drawn.log_prior)

    def _findings_on_reading(self) -> list[Finding]:
        return [*super()._findings_on_reading(), *findings.rare_events(self)]

    def _release_rows(self, row_space: bool) -> None:
        if not row_space:
            raise ValueError(
                "row_space=False is not available with family='binomial': its posterior needs that space"
            )
        self.posterior = self.posterior.without_rows()
