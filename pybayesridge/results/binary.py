"""Results of a Bayesian ridge regression of yes/no responses."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd

from pybayesridge._types import AnyArray, FloatArray, IntArray, RandomLike, RowsLike
from pybayesridge.binomial.fit import BinaryFit
from pybayesridge.checks import positive_int
from pybayesridge.findings import Finding
from pybayesridge.recipes import Recipe
from pybayesridge.results import findings
from pybayesridge.results.arguments import (
    check_alpha,
    check_which,
    standardized_size,
    term_positions,
    unit_rows,
)
from pybayesridge.results.arviz import Draws
from pybayesridge.results.plots import binary as binary_plots
from pybayesridge.results.plots import ridge as ridge_plots
from pybayesridge.results.prediction import BinaryPrediction
from pybayesridge.results.scores import BinaryScores
from pybayesridge.results.summary import binary as binary_summary
from pybayesridge.results.summary.formats import FormattedSummary

if TYPE_CHECKING:
    from pybayesridge.models.binary import BinaryRidge

NO_COVARIANCE = (
    "the coefficients have no posterior covariance: the columns separate the responses, and the tail of the "
    "posterior of the penalty is too heavy; use conf_int() or sample()"
)

NOT_A_PICTURE = "plot_{name} is for family='gaussian': use plot_calibration() or plot_roc()"


class BinaryRidgeResults(BinaryScores):
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

    @property
    def sigma2(self) -> float:  # type: ignore[override]
        """Not available: binomial responses have no noise variance."""
        raise AttributeError("binomial responses have no noise variance: these results have no sigma2")

    @cached_property
    def fittedvalues(self) -> FloatArray:
        """Posterior mean of the probability of the event at the rows of the data, (n,)."""
        if self.model.endog is None:
            raise ValueError(self.model.why_no_rows)
        return self.binary_fit.fitted()

    def _probabilities(self, rows: AnyArray) -> FloatArray:
        x, z = self.model.split_rows(rows, self.posterior.design)
        return _over_complete(rows, lambda keep: self.posterior.probability_means(x[keep], z[keep]))

    def predict(self, exog: RowsLike | None = None, transform: bool = True, which: str = "mean") -> pd.Series:
        """Posterior mean of the probability of the event, or of the linear predictor.

        Parameters
        ----------
        exog : array-like or frame, optional
            New data: with a formula, a frame or dict with its variables; otherwise columns as in the fit (a
            frame's columns are matched by name). The rows of the fit by default.
        transform : bool
            Whether to pass new data through the formula.
        which : {"mean", "linear"}
            Probabilities, averaged over the posterior; or linear predictors at `params`.

        Returns
        -------
        Series
            NaN in rows where a variable of the formula is missing.
        """
        rows, labels = self.model.new_rows(exog, transform)
        if check_which(which) == "linear":
            return pd.Series(self.model.predict(self.params, rows, which="linear"), index=labels)
        return pd.Series(self.fittedvalues if exog is None else self._probabilities(rows), index=labels)

    def get_prediction(  # type: ignore[override]
        self,
        exog: RowsLike | None = None,
        transform: bool = True,
        which: str = "mean",
        row_labels: Sequence[Any] | pd.Index | None = None,
    ) -> BinaryPrediction:
        """Predictions with uncertainty; ``.summary_frame(alpha)`` has credible intervals.

        Parameters
        ----------
        exog : array-like or frame, optional
            As for :meth:`predict`.
        transform : bool
            Whether to pass new data through the formula.
        which : {"mean", "linear"}
            Probabilities, whose intervals are those of the linear predictor transformed, or linear predictors.
        row_labels : sequence, optional
            Labels of the rows, instead of those of `exog`.

        Examples
        --------
        >>> import statsmodels.api as sm
        >>> from pybayesridge import BayesRidge
        >>> spector = sm.datasets.spector.load_pandas().data
        >>> res = BayesRidge.from_formula("GRADE ~ GPA + TUCE + PSI", spector, family="binomial").fit()
        >>> new = {"GPA": [3.5], "TUCE": [22], "PSI": [1]}
        >>> res.get_prediction(new).summary_frame().round(2).to_numpy().tolist()
        [[0.68, 0.16, 0.34, 0.92]]
        """
        rows, labels = self.model.new_rows(exog, transform)
        if row_labels is not None:
            labels = pd.Index(row_labels)
        x, z = self.model.split_rows(rows, self.posterior.design)
        linear = check_which(which) == "linear"
        post = self.posterior
        center = post.linear_centers if linear else post.probability_means
        quantiles = post.linear_quantiles if linear else post.probability_quantiles

        def sd(keep: IntArray) -> FloatArray:
            return post.linear_moments(x[keep], z[keep])[1] if linear else post.probability_sds(x[keep], z[keep])

        return BinaryPrediction(
            _over_complete(rows, lambda keep: center(x[keep], z[keep])),
            _over_complete(rows, sd),
            lambda at: _over_complete(rows, lambda keep: quantiles(x[keep], z[keep], at)),
            labels,
        )

    def odds_ratios(self, alpha: float = 0.05, *, terms: str | Sequence[str] | None = None) -> pd.DataFrame:
        """Odds ratios with credible intervals; for the logit link.

        Parameters
        ----------
        alpha : float
            One minus the probability of the intervals.
        terms : str or sequence of str, optional
            Coefficients, by column or by term of the formula; all by default.

        Returns
        -------
        DataFrame
            A row for each coefficient: ``odds_ratio``, the exponential of `params`; ``lower`` and ``upper``, those of
            the interval; ``prob_above_1``, the posterior probability that the odds rise with the column. The
            intercept's row has the odds where every column is 0.

        Raises
        ------
        ValueError
            For the probit link, whose coefficients are no log odds ratios, or an unknown term.
        """
        if self.link != "logit":
            raise ValueError(
                f"odds_ratios() is for link='logit': coefficients of the {self.link} link are no log odds"
            )
        design, names = self.posterior.design, self.model.exog_names
        at = np.arange(len(names)) if terms is None else term_positions(self.model, terms)
        x, z = unit_rows(self.model, design, at.tolist())
        ends = np.array([check_alpha(alpha) / 2, 1 - alpha / 2])
        with np.errstate(over="ignore"):
            ratios = np.exp(np.column_stack([self.params[at], self.posterior.linear_quantiles(x, z, ends)]))
        above = self.posterior.linear_exceedance(x, z, np.zeros(len(at)))
        flat = ~(x.any(axis=1) | z.any(axis=1))
        above[flat] = np.nan
        columns = ["odds_ratio", "lower", "upper", "prob_above_1"]
        return pd.DataFrame(np.column_stack([ratios, above]), index=[names[i] for i in at], columns=columns)

    @property
    def precision_loss(self) -> float:
        """Approximate relative error of the fit due to rounding."""
        fit = self.binary_fit
        with np.errstate(over="ignore"):
            return fit.space.spectrum.loss(float(np.exp(-fit.log_t2)) / fit.space.spectrum.top**2)

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
        return Draws(beta[..., None], None, {"tau2": (t2 * np.exp(-self.log_unit))[:, None]})

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

    def plot_fit(self, *_: Any, **__: Any) -> Any:
        """Not available; see :meth:`plot_calibration`."""
        raise ValueError(NOT_A_PICTURE.format(name="fit"))

    def plot_residuals(self, *_: Any, **__: Any) -> Any:
        """Not available; see :meth:`plot_calibration`."""
        raise ValueError(NOT_A_PICTURE.format(name="residuals"))

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
        return binary_summary.summary(self, check_alpha(alpha), direction)


def _over_complete(rows: AnyArray, function: Any) -> FloatArray:
    """A function of the positions of rows without missing values; NaN for the others."""
    values = np.asarray(rows.data if hasattr(rows, "tocsc") else rows)
    whole = values.dtype.kind != "f" or not np.isnan(values).any() or hasattr(rows, "tocsc")
    keep = np.arange(rows.shape[0]) if whole else np.flatnonzero(~np.isnan(rows).any(axis=1))
    found: FloatArray = function(keep)
    if whole:
        return found
    out = np.full((rows.shape[0], *found.shape[1:]), np.nan)
    out[keep] = found
    return out
