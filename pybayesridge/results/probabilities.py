"""Results on the scale of probabilities: predictions and odds ratios of models of yes/no responses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from pybayesridge._types import AnyArray, FloatArray, IntArray, RowsLike
from pybayesridge.binomial.link import Link, probability
from pybayesridge.checks import check_which
from pybayesridge.posterior.laws import Ask
from pybayesridge.results.arguments import check_alpha, term_positions
from pybayesridge.results.base import LinearResults
from pybayesridge.results.labelled import Lacking
from pybayesridge.results.monte_carlo import errors_of_coefficients, is_sampled
from pybayesridge.results.plots import probabilities as plots
from pybayesridge.results.prediction import GeneralizedPrediction

NOT_A_PICTURE = "plot_{name} is for family='gaussian': use {instead}"


class ProbabilityResults(LinearResults):
    """The part of the results that is about probabilities; goes before the results in the list of bases.

    Attributes
    ----------
    link : {"logit", "probit"}
    event : str
        The level whose probability is modelled.
    """

    link: Link
    event: str
    model: Any
    posterior: Any
    _pictures: ClassVar[str] = "plot_calibration() or plot_roc()"

    sigma2 = Lacking("binomial responses have no noise variance: these results have no sigma2")
    plot_calibration = plots.plot_calibration
    plot_roc = plots.plot_roc

    def _probabilities(self, rows: AnyArray) -> FloatArray:
        x, z = self.model.split_rows(rows, self.posterior.design)
        return _over_complete(rows, lambda keep: self.posterior.response_means(x[keep], z[keep]))

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
            return pd.Series(self.model.predict(self.arrays.params, rows, which="linear"), index=labels)
        return pd.Series(self.arrays.fittedvalues if exog is None else self._probabilities(rows), index=labels)

    def get_prediction(  # type: ignore[override]
        self,
        exog: RowsLike | None = None,
        transform: bool = True,
        which: str = "mean",
        row_labels: Sequence[Any] | pd.Index | None = None,
    ) -> GeneralizedPrediction:
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
        linear, post, sampled = check_which(which) == "linear", self.posterior, is_sampled(self)

        def found(keep: IntArray) -> FloatArray:
            own = x[keep], z[keep]
            if linear:
                answer = post.rows(*own).ask(Ask())
                values = [answer.center, answer.sd, answer.mcse]
            else:
                errors = post.response_errors(*own) if sampled else None
                values = [post.response_means(*own), post.response_sds(*own), errors]
            return np.column_stack([value for value in values if value is not None])

        def quantiles(keep: IntArray, at: FloatArray) -> FloatArray:
            ends = post.rows(x[keep], z[keep]).ask(Ask(tuple(at.tolist()))).quantiles[:, 0]
            return ends if linear else probability(ends, self.link)

        mean, sd, *mcse = _over_complete(rows, found).T
        return GeneralizedPrediction(
            mean,
            sd,
            lambda at: _over_complete(rows, lambda keep: quantiles(keep, at)),
            labels,
            linear=linear,
            mcse=mcse[0] if mcse else None,
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
            the interval; ``prob_above_1``, the posterior probability that the odds rise with the column; of a
            SpikeSlab ``prob_equal_1``, that they do not depend on it, and if sets of columns were sampled ``mcse``,
            the Monte Carlo standard error of the odds ratio. The intercept's row has the odds where every column is
            0.

        Raises
        ------
        ValueError
            For the probit link, whose coefficients are no log odds ratios, or an unknown term.
        """
        if not self.model.distribution.ratio:
            raise ValueError(
                f"odds_ratios() is for link='logit': coefficients of the {self.link} link are no log odds"
            )
        names = self.model.exog_names
        at = np.arange(len(names)) if terms is None else term_positions(self.model, terms)
        found = self.ask(Ask((check_alpha(alpha) / 2, 1 - alpha / 2), sd=False, above=True), at)
        with np.errstate(over="ignore"):
            ratios = np.exp(np.column_stack([found.center[:, 0], found.quantiles[:, 0]]))
        flat = ~np.isin(at, np.concatenate(self.model.positions(self.posterior.design)))
        above = np.where(flat, np.nan, found.above[:, 0])
        columns = ["odds_ratio", "lower", "upper", "prob_above_1"]
        out = pd.DataFrame(np.column_stack([ratios, above]), index=[names[i] for i in at], columns=columns)
        if found.mass_at_zero is not None:
            out["prob_equal_1"] = np.where(flat, np.nan, found.mass_at_zero[:, 0])
        errors = errors_of_coefficients(self, "odds_ratio", list(out.index))
        return out if errors is None else out.assign(mcse=errors)

    def plot_fit(self, *_: Any, **__: Any) -> Any:
        """Not available for yes/no responses."""
        raise ValueError(NOT_A_PICTURE.format(name="fit", instead=self._pictures))

    def plot_residuals(self, *_: Any, **__: Any) -> Any:
        """Not available for yes/no responses."""
        raise ValueError(NOT_A_PICTURE.format(name="residuals", instead=self._pictures))


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
