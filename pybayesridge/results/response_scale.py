"""Results on the scale of the response: predictions, and ratios of odds or rates, where the link is not linear."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from pybayesridge._types import AnyArray, ArrayLike, FloatArray, IntArray, RowsLike
from pybayesridge.checks import check_which
from pybayesridge.data.prepare import of_new_rows
from pybayesridge.families.registry import those_with
from pybayesridge.posterior.laws import Ask
from pybayesridge.posterior.responses import ResponseLaw, in_blocks
from pybayesridge.results.arguments import check_alpha, term_positions
from pybayesridge.results.base import LinearResults
from pybayesridge.results.labelled import Lacking, of_family
from pybayesridge.results.monte_carlo import errors_of_coefficients, is_sampled
from pybayesridge.results.plots import probabilities as plots
from pybayesridge.results.prediction import GeneralizedPrediction
from pybayesridge.results.ratios import Ratios
from pybayesridge.text import either, listed

NOT_A_PICTURE = "plot_{name} is for family='gaussian': use {instead}"


class ResponseScaleResults(Ratios, LinearResults):
    """The part of the results that is on the scale of the response; goes before the results in the list of bases.

    Attributes
    ----------
    link : {"logit", "probit", "log"}
    event : str
        With ``family="binomial"`` the level whose probability is modelled.
    """

    link: str
    event: str
    model: Any
    posterior: Any

    sigma2 = Lacking("{reason}: these results have no sigma2")
    plot_calibration = of_family(plots.plot_calibration)
    plot_roc = of_family(plots.plot_roc)
    odds_ratios = of_family(Ratios.odds_ratios)
    rate_ratios = of_family(Ratios.rate_ratios)

    def _take_family(self) -> None:
        """Take what the family has learned or was told of the response."""
        shown = self.model.distribution.attributes
        vars(self).update({name: shown[name] for name in ("link", "event") if name in shown})

    @property
    def _form(self) -> float:
        """The number by which likelihoods of several forms differ; nan where there is one form."""
        return float("nan")

    @property
    def log_shape(self) -> float:
        """The log of the family's further parameter: given, or its posterior mean; nan without. Internal."""
        raise NotImplementedError

    def likelihood(self) -> Any:
        """The likelihood of the rows with the form and the further parameter of the fit. Internal."""
        return self.model.likelihood().of_form(self._form).of_shape(self.log_shape)

    def _means_at(self, rows: AnyArray) -> FloatArray:
        """Means of responses at rows, of extent 1."""
        x, z = self.model.split_rows(rows, self.posterior.design)
        return over_complete(rows, lambda keep: self.posterior.response_means(x[keep], z[keep]))

    def extent_of_rows(
        self, exog: RowsLike | None, exposure: Any, labels: pd.Index, trials: Any = None
    ) -> FloatArray | None:
        """The exposures or trials of rows to predict: those given, or those of the fit for its own rows. Internal."""
        own = self.model.distribution.per_row
        for name, given in (("exposure", exposure), ("trials", trials)):
            if given is not None and own != name:
                raise ValueError(f"{name} requires a fit with family={either(those_with(name))}")
        if exposure is None and trials is None:
            return self.model.data.extent if exog is None else None
        out = of_new_rows(trials if exposure is None else exposure, own, exog, labels)
        if own == "trials":
            bad = np.flatnonzero((out != np.rint(out)) & ~np.isnan(out))
            if bad.size:
                raise ValueError(f"trials must be whole numbers: row(s) {listed(labels[bad].tolist())}")
        return out

    def predict(
        self,
        exog: RowsLike | None = None,
        transform: bool = True,
        which: str = "mean",
        exposure: ArrayLike | str | None = None,
    ) -> pd.Series:
        """Posterior mean of the mean of the response (of counts its median), or of the linear predictor.

        Parameters
        ----------
        exog : array-like or frame, optional
            New data: with a formula, a frame or dict with its variables; otherwise columns as in the fit (a
            frame's columns are matched by name). The rows of the fit by default.
        transform : bool
            Whether to pass new data through the formula.
        which : {"mean", "linear"}
            Means of responses: of yes/no responses probabilities, averaged over the posterior; of counts expected
            counts, of which the median is taken, since the tail of the penalty's posterior rules a mean out. Or
            linear predictors at `params`.
        exposure : float, (m,) array-like or str, for counts
            Exposures of the rows, or the column of `exog` with them. By default 1 for new data, so that predictions
            are rates, and the exposures of the fit for its own rows. Linear predictors contain their logs, as those
            of statsmodels and of R's ``glm`` do.

        Returns
        -------
        Series
            NaN in rows where a variable of the formula is missing.
        """
        rows, labels = self.model.new_rows(exog, transform)
        extent = self.extent_of_rows(exog, exposure, labels)
        if check_which(which) == "linear":
            return self._linear_predictors(rows, labels, extent)
        if exog is None and exposure is None:
            return pd.Series(self.arrays.fittedvalues, index=labels)
        return pd.Series(self.model.distribution.of_rows(self._means_at(rows), extent), index=labels)

    def _linear_predictors(self, rows: AnyArray, labels: pd.Index, extent: FloatArray | None) -> pd.Series:
        """Linear predictors at `params`, with what rows of some extent add to them."""
        linear = self.model.predict(self.arrays.params, rows, which="linear")
        return pd.Series(linear + self.model.distribution.offset(extent), index=labels)

    def get_prediction(  # type: ignore[override]
        self,
        exog: RowsLike | None = None,
        transform: bool = True,
        which: str = "mean",
        row_labels: Sequence[Any] | pd.Index | None = None,
        exposure: ArrayLike | str | None = None,
        trials: ArrayLike | str | None = None,
    ) -> GeneralizedPrediction:
        """Predictions with uncertainty; ``.summary_frame(alpha)`` has credible intervals.

        Parameters
        ----------
        exog : array-like or frame, optional
            As for :meth:`predict`.
        transform : bool
            Whether to pass new data through the formula.
        which : {"mean", "linear"}
            Means of responses, such as probabilities, whose intervals are those of the linear predictor transformed;
            or linear predictors.
        row_labels : sequence, optional
            Labels of the rows, instead of those of `exog`.
        exposure : float, (m,) array-like or str, for counts
            As for :meth:`predict`.
        trials : int, (m,) array-like or str, for yes/no responses
            Numbers of trials of the rows, or the column of `exog` with them: for the prediction interval of a new
            number of successes. By default those of the fit for its own rows.

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
        extent = self.extent_of_rows(exog, exposure, labels, trials)
        if row_labels is not None:
            labels = pd.Index(row_labels)
        return self._predictions(rows, self.model.split_rows(rows, self.posterior.design), labels, which, extent)

    def columns_of_new(self, exog: RowsLike | None, transform: bool) -> tuple[tuple[AnyArray, FloatArray], pd.Index]:
        """Penalised and unpenalised columns of rows to predict, and the labels of the rows. Internal."""
        rows, labels = self.model.new_rows(exog, transform)
        return self.model.split_rows(rows, self.posterior.design), labels

    def _predictions(
        self, rows: AnyArray, split: tuple[AnyArray, FloatArray], labels: pd.Index, which: str, extent: Any
    ) -> GeneralizedPrediction:
        """Predictions of rows, which are also split into penalised and unpenalised columns."""
        x, z = split
        post, sampled, family = self.posterior, is_sampled(self), self.model.distribution
        linear = family.predicted_on(check_which(which)) == "linear"
        none = no_interval(family, which, extent)
        offset = np.zeros(len(labels)) + family.offset(extent)

        def found(keep: IntArray) -> FloatArray:
            own = x[keep], z[keep]
            if linear:
                answer = post.rows(*own, offset[keep]).ask(Ask())
                values = [answer.center, answer.sd, answer.mcse]
            else:
                errors = post.response_errors(*own) if sampled else None
                values = [post.response_means(*own), post.response_sds(*own), errors]
            return np.column_stack([value for value in values if value is not None])

        def quantiles(keep: IntArray, at: FloatArray) -> FloatArray:
            more = offset[keep] if linear else 0.0
            ends = post.rows(x[keep], z[keep], more).ask(Ask(tuple(at.tolist()))).quantiles[:, 0]
            return ends if linear else family.mean(ends)

        def new(keep: IntArray, at: FloatArray) -> FloatArray:
            known = keep if extent is None else keep[~np.isnan(extent[keep])]
            out = np.full((keep.size, at.size), np.nan)
            own = None if extent is None else extent[known]
            out[np.isin(keep, known)] = new_quantiles([(post, x[known], z[known], own)], None, family, at)
            return out

        def of_rows(values: FloatArray) -> FloatArray:
            return values if linear else family.of_rows(values.T, extent).T

        mean, sd, *mcse = of_rows(over_complete(rows, found)).T
        return GeneralizedPrediction(
            mean,
            sd,
            lambda at: of_rows(over_complete(rows, lambda keep: quantiles(keep, at))),
            labels,
            shares=family.predicts_shares and not linear,
            mcse=mcse[0] if mcse else None,
            of_new=none or (lambda at: over_complete(rows, lambda keep: new(keep, at))),
        )

    def ratios(self, alpha: float = 0.05, *, terms: str | Sequence[str] | None = None) -> pd.DataFrame:
        """Exponentials of the coefficients, named as the family calls them: odds ratios or rate ratios. Internal."""
        names, name = self.model.exog_names, self.model.distribution.ratio.replace(" ", "_")
        at = np.arange(len(names)) if terms is None else term_positions(self.model, terms)
        found = self.ask(Ask((check_alpha(alpha) / 2, 1 - alpha / 2), sd=False, above=True), at)
        with np.errstate(over="ignore"):
            values = np.exp(np.column_stack([found.center[:, 0], found.quantiles[:, 0]]))
        flat = ~np.isin(at, np.concatenate(self.model.positions(self.posterior.design)))
        above = np.where(flat, np.nan, found.above[:, 0])
        columns = [name, "lower", "upper", "prob_above_1"]
        out = pd.DataFrame(np.column_stack([values, above]), index=[names[i] for i in at], columns=columns)
        if found.mass_at_zero is not None:
            out["prob_equal_1"] = np.where(flat, np.nan, found.mass_at_zero[:, 0])
        errors = errors_of_coefficients(self, name, list(out.index))
        return out if errors is None else out.assign(mcse=errors)

    def plot_fit(self, *_: Any, **__: Any) -> Any:
        """Not available for responses that are not Gaussian."""
        raise ValueError(NOT_A_PICTURE.format(name="fit", instead=self.instead_of_residuals))

    def plot_residuals(self, *_: Any, **__: Any) -> Any:
        """Not available for responses that are not Gaussian."""
        raise ValueError(NOT_A_PICTURE.format(name="residuals", instead=self.instead_of_residuals))

    @property
    def instead_of_residuals(self) -> str:
        """What to draw in place of residuals. Internal."""
        return str(self.model.distribution.instead_of_residuals)


def no_interval(family: Any, which: str, extent: FloatArray | None) -> str:
    """Why a new response has no prediction interval; empty if it has one."""
    if which == "linear" or not family.new_intervals:
        return "a linear predictor (which='linear') is no response"
    if family.per_row != "trials" or extent is not None:
        return ""
    of_trials = "pass trials= to get_prediction()"
    if family.counts:
        return f"a new number of successes depends on its number of trials: {of_trials}"
    return f"a new yes/no response is one of two values; for a number of successes {of_trials}"


def new_quantiles(
    asked: Sequence[tuple[Any, AnyArray, FloatArray, FloatArray | None]],
    share: FloatArray | None,
    family: Any,
    at: FloatArray,
) -> FloatArray:
    """Quantiles of new responses of m rows at probabilities `at`, (m, len(at)), of the mixture of several posteriors.

    Parameters
    ----------
    asked : sequence of tuples
        Each posterior, penalised and unpenalised columns of the rows, and their exposures or trials or None.
    share : (M,) array or None
        Weights of the posteriors; None for equal ones.
    family : Family
    at : (c,) array
    """
    weight = np.full(len(asked), 1.0 / len(asked)) if share is None else share

    def law(part: slice) -> ResponseLaw:
        laws = []
        for posterior, x, z, extent in asked:
            own = None if extent is None else extent[part]
            laws.append(posterior.new_responses(x[part], z[part], family.offset(own), own))
        return ResponseLaw.mixed(laws, weight)

    return in_blocks(asked[0][2].shape[0], law, at)


def over_complete(rows: AnyArray, function: Any) -> FloatArray:
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
