"""Results of a spike-and-slab regression of responses that are not Gaussian."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pybayesridge._types import FloatArray
from pybayesridge.ep.posterior import StartingPoint
from pybayesridge.findings import Finding
from pybayesridge.posterior.laws import ShapeLaw
from pybayesridge.recipes import Recipe
from pybayesridge.results import findings
from pybayesridge.results.arguments import check_alpha
from pybayesridge.results.arviz import ChainDraws
from pybayesridge.results.facts import Written
from pybayesridge.results.labelled import Lacking, of_family, per_row
from pybayesridge.results.response_scale import ResponseScaleResults
from pybayesridge.results.spike_slab import SpikeSlabResults
from pybayesridge.selection.result import Doubt

if TYPE_CHECKING:
    from pybayesridge.models.priors import SelectionModel

NO_EVIDENCE = (
    "the sampler for family='binomial' gives no log evidence: compare fits by inclusion_prob and models(), or use "
    "method='ep'"
)


class GeneralizedSpikeSlabResults(ResponseScaleResults, SpikeSlabResults):
    """Posterior of a spike-and-slab regression of responses that are not Gaussian.

    Made by :meth:`pybayesridge.SpikeSlab.fit` with ``family="binomial"``, ``"poisson"`` or ``"negative-binomial"``.
    Coefficients, their
    standard deviations, intervals and contrasts are on the scale of the link: log odds ratios for the logit link, log
    rate ratios for counts. Inclusion probabilities, `params` and `bse` of columns that the sampler selects use every
    step of it; its intervals, predictions, sets and draws come from up to 4,000 states that were kept. Fits by
    expectation propagation have the log evidence, but no joint probabilities of columns.

    Attributes
    ----------
    params : (k,) array
        Posterior means of the coefficients, user's scale: over spike and slab together.
    inclusion_prob, inclusion_se : (k,) arrays
        Posterior inclusion probabilities, and their Monte Carlo standard errors.
    link : {"logit", "probit", "log"}
    event : str
        With ``family="binomial"`` the level whose probability is modelled.
    n_events : float
        Number of events, copies of rows included: of counts their sum.
    n_trials : float
        With ``family="binomial"`` the number of trials (rows, where there are no `trials`; copies of them).
    slab_var : float
        Given, or posterior mean: the prior variance of an included coefficient on the scale of the link.
    learned : tuple of str
        Names of the hyperparameters that are integrated out.
    """

    model: SelectionModel
    size: float
    n_events: float

    noise_var = Lacking("{reason}: these results have no noise_var")
    uncertain_nats = 0.0

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
        doubts: tuple[Doubt, ...] = (),
    ) -> None:
        super().__init__(
            model,
            posterior,
            method=method,
            tol=tol,
            maxiter=maxiter,
            fit_options=fit_options,
            recipe=recipe,
            doubts=doubts,
        )
        self._take_family()
        if self.shape_grid is not None:
            self.learned = (*self.learned, model.distribution.shape)
        likelihood = model.likelihood()
        self.size, self.n_events = float(likelihood.size.sum()), likelihood.total

    @staticmethod
    def of_earlier(state: dict[str, Any]) -> dict[str, Any]:
        """The attributes in files of earlier versions."""
        return {"size" if name == "n_trials" else name: value for name, value in state.items()}

    @property
    def shape_grid(self) -> ShapeLaw | None:
        """The posterior of the log of the family's further parameter, where it was integrated out. Internal."""
        return None if self.posterior.exact is not None else self.posterior.shape

    @property
    def log_shape(self) -> float:
        """The log of the family's further parameter: given, or its posterior mean; nan without. Internal."""
        return float("nan") if self.posterior.exact is not None else float(self.posterior.row_likelihood.log_shape)

    @of_family  # type: ignore[prop-decorator]
    @property
    def n_trials(self) -> float:
        """Number of trials: rows, where there are no `trials`, copies of them included."""
        return self.size

    def _take_hyperparameters(self) -> None:
        design, selection = self.posterior.design, self.posterior.selection
        self.slab_var = float(selection.weights @ [h.slab_var for h in selection.hypers]) / design.common_scale**2

    @property
    def log_evidence(self) -> float:
        """Log marginal likelihood by expectation propagation; the sampler does not give it.

        Factors that depend on the responses alone (binomial coefficients; of counts the largest probability of each)
        are left out, and unpenalised coefficients have Lebesgue measure: compare it with that of other selections of
        the same responses. Hyperparameters that are not given are integrated out.
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

    def _given_responses(self, target: int) -> Any:
        return self.model.likelihood()

    @per_row
    def fittedvalues(self) -> FloatArray:
        """Posterior mean of the mean of each response, of counts the median, of the rows of the data, (n,)."""
        if self.model.data.exog is None:
            raise ValueError(self.model.why_no_rows)
        means = self._means_at(self.model.data.exog)
        return self.model.distribution.of_rows(means, self.model.data.extent)

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
            For a fit by expectation propagation, which has point estimates: `slab_var`, `prior_inclusion`. Of
            negative binomial counts it has the row ``alpha`` alone, unless the dispersion was given.
        """
        if self.shape_grid is None:
            return super().hyperparameters(alpha)
        mean, _, lower, upper = self._of_shape(alpha).tolist()
        return pd.DataFrame([[mean, lower, upper]], [self.model.distribution.shape], ["mean", "lower", "upper"])

    def _of_shape(self, alpha: float) -> FloatArray:
        """Mean, median and interval of the family's further parameter, (4,)."""
        assert self.shape_grid is not None
        return self.shape_grid.summary(np.array([0.5, check_alpha(alpha) / 2, 1 - alpha / 2]))[0]

    def shown_tables(self, i: int, alpha: float) -> list[Written]:
        """The groups of columns, and the family's further parameter where it was integrated out."""
        found = super().shown_tables(i, alpha)
        if self.shape_grid is None:
            return found
        values = self._of_shape(alpha)[None]
        return [*found, Written.of_hyperparameters([self.model.distribution.shape], values, alpha)]

    def _draw_by_ep(
        self, n: int, generator: np.random.Generator, kind: str | None
    ) -> tuple[FloatArray, FloatArray, FloatArray, dict[str, FloatArray]]:
        if self.shape_grid is None or kind == "gibbs":
            return super()._draw_by_ep(n, generator, kind)
        of_z, b, which = self.posterior.draws_with_nodes(n, generator)
        own = np.exp(self.posterior.log_shapes)[which][:, None]
        return of_z, b, np.ones(n), {self.model.distribution.shape: own}

    def _draw_chain(
        self, n: int, generator: np.random.Generator, kind: str | None = None, chain: int | None = None
    ) -> ChainDraws:
        drawn = super()._draw_chain(n, generator, kind, chain)
        return ChainDraws(drawn.beta, None, drawn.others, drawn.log_prior)

    def _findings_on_reading(self) -> list[Finding]:
        return [*super()._findings_on_reading(), *findings.only_by_ep(self), *findings.rare_events(self)]

    def _release_rows(self, row_space: bool) -> None:
        if not row_space:
            raise ValueError(
                "row_space=False is not available for responses that are not Gaussian: the posterior needs that space"
            )
        self.posterior = self.posterior.without_rows()
