"""Predictions with credible and predictive intervals, in statsmodels' shape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from pybayesridge._types import FloatArray
from pybayesridge.results.arguments import check_alpha
from pybayesridge.results.shown import Shown, counted
from pybayesridge.text import as_probability

COLUMNS = ["mean", "mean_se", "mean_ci_lower", "mean_ci_upper", "obs_ci_lower", "obs_ci_upper"]

ADVICE = "summary_frame() shows intervals."


class BayesPrediction(Shown):
    """Posterior of the linear predictor, and of new observations, at some rows.

    Its attributes are those of statsmodels' predictions: ``predicted_mean``, ``se_mean``, ``se_obs``,
    ``var_pred_mean`` and ``var_resid``.

    Parameters
    ----------
    mean, sd : (m, q) arrays
        Posterior mean and standard deviation of the linear predictor.
    var_resid : (m, q) array
        Posterior mean (or fitted value) of the noise variance of new observations.
    interval : callable
        ``interval(alpha, obs)`` gives equal-tailed intervals, (m, q, 2).
    row_labels : pandas.Index
    targets : list of str or None
        None for a model with one target, whose arrays lose the axis q.
    mcse : (m, q) array or None
        Monte Carlo standard error of the means of a fit whose sets of columns were sampled.
    """

    def __init__(
        self,
        mean: FloatArray,
        sd: FloatArray,
        var_resid: FloatArray,
        interval: Callable[[float, bool], FloatArray],
        row_labels: pd.Index,
        targets: list[str] | None,
        mcse: FloatArray | None = None,
    ) -> None:
        self._targets = targets
        self._interval = interval
        self.mcse = None if mcse is None else self._squeeze(mcse)
        self._sd = self._squeeze(sd)
        with np.errstate(invalid="ignore", over="ignore"):
            self.var_resid = self._squeeze(np.where(np.isnan(mean), np.nan, var_resid))
            self.var_pred_mean: FloatArray = self._sd**2
        self.predicted_mean, self.row_labels = self._squeeze(mean), row_labels

    def _shown(self) -> tuple[str, pd.DataFrame | None, str]:
        labels, several = self.row_labels, self._targets
        values = {"mean": self.predicted_mean, "mean_se": self._sd} if several is None else self.predicted_mean
        table = pd.DataFrame(values, index=labels, columns=several)
        return f"Predictions of {counted(len(self.row_labels), 'row')}:", table, ADVICE

    def _squeeze(self, a: FloatArray) -> FloatArray:
        return a[:, 0] if self._targets is None else a

    @property
    def se(self) -> FloatArray:
        """Posterior standard deviation of the linear predictor."""
        return self._sd

    se_mean = se

    @property
    def predicted(self) -> FloatArray:
        """The same as ``predicted_mean``."""
        return self.predicted_mean

    @property
    def var_pred(self) -> FloatArray:
        """The same as ``var_pred_mean``."""
        return self.var_pred_mean

    @property
    def se_obs(self) -> FloatArray:
        """Standard deviation of a new observation, given the posterior mean of the noise variance."""
        out: FloatArray = np.sqrt(self.var_pred_mean + self.var_resid)
        return out

    def conf_int(self, obs: bool = False, alpha: float = 0.05) -> FloatArray:
        """Equal-tailed interval of the linear predictor, or with `obs` of a new observation: (m, 2) or (m, q, 2)."""
        return self._squeeze(self._interval(alpha, obs))

    def summary_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """A row for each prediction, with statsmodels' columns; under each target's name where there are several.

        If sets of columns were sampled, ``mcse`` is the Monte Carlo standard error of the mean.
        """
        mean_ci = self.conf_int(alpha=alpha)
        obs_ci = self.conf_int(obs=True, alpha=alpha)
        parts: list[Any] = [
            self.predicted_mean,
            self._sd,
            mean_ci[..., 0],
            mean_ci[..., 1],
            obs_ci[..., 0],
            obs_ci[..., 1],
        ]
        names = COLUMNS
        if self.mcse is not None:
            names, parts = [*COLUMNS, "mcse"], [*parts, self.mcse]
        if self._targets is None:
            return pd.DataFrame(dict(zip(names, parts, strict=True)), index=self.row_labels)
        columns = pd.MultiIndex.from_product([self._targets, names])
        return pd.DataFrame(
            np.stack(parts, axis=-1).reshape(len(mean_ci), -1), index=self.row_labels, columns=columns
        )


class CategoryPrediction(Shown):
    """Posterior of the probabilities of ordered categories at some rows.

    Parameters
    ----------
    mean : (m, K) array
        Posterior means.
    drawn : callable
        Returns draws of the probabilities, (m, K, draws).
    row_labels : pandas.Index
    categories : list of str
    """

    def __init__(
        self, mean: FloatArray, drawn: Callable[[], FloatArray], row_labels: pd.Index, categories: list[str]
    ) -> None:
        self.predicted_mean, self.row_labels, self.categories = mean, row_labels, categories
        self._drawn = drawn

    def _written(self, value: float) -> str:
        return as_probability(value)

    def _shown(self) -> tuple[str, pd.DataFrame | None, str]:
        table = pd.DataFrame(self.predicted_mean, index=self.row_labels, columns=self.categories)
        return f"Probabilities of {counted(len(self.row_labels), 'row')}:", table, ADVICE

    @property
    def se(self) -> FloatArray:
        """Posterior standard deviations of the probabilities, (m, K)."""
        return self._drawn().std(axis=-1)

    def conf_int(self, alpha: float = 0.05) -> FloatArray:
        """Equal-tailed credible intervals, (m, K, 2)."""
        ends = np.quantile(self._drawn(), [check_alpha(alpha) / 2, 1 - alpha / 2], axis=-1)
        return np.moveaxis(ends, 0, -1)

    def summary_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """A row for each prediction; under each category mean, mean_se, mean_ci_lower and mean_ci_upper."""
        values = np.concatenate([self.predicted_mean[..., None], self.se[..., None], self.conf_int(alpha)], axis=-1)
        columns = pd.MultiIndex.from_product([self.categories, COLUMNS[:4]])
        return pd.DataFrame(values.reshape(len(values), -1), index=self.row_labels, columns=columns)


class GeneralizedPrediction(Shown):
    """Posterior of the mean of the response, or of the linear predictor, at some rows.

    Of yes/no responses the mean is the probability of the event. Of counts it is the expected count, which has a
    posterior median and quantiles only: `predicted_mean` is the median, and `se` half the distance between the
    quantiles at one standard deviation of a normal distribution.

    Parameters
    ----------
    mean, sd : (m,) arrays
        Posterior mean and standard deviation.
    quantiles : callable
        ``quantiles(at)`` gives the posterior quantiles at probabilities `at`, (m, len(at)).
    row_labels : pandas.Index
    shares : bool
        Whether they are probabilities.
    mcse : (m,) array or None
        Monte Carlo standard error of the means of a fit whose sets of columns were sampled.
    of_new : callable or str
        Likewise the quantiles of a new response; where it has no interval the reason.
    """

    def __init__(
        self,
        mean: FloatArray,
        sd: FloatArray,
        quantiles: Callable[[FloatArray], FloatArray],
        row_labels: pd.Index,
        *,
        shares: bool,
        mcse: FloatArray | None = None,
        of_new: Callable[[FloatArray], FloatArray] | str,
    ) -> None:
        self.predicted_mean, self.se, self.row_labels, self.mcse = mean, sd, row_labels, mcse
        self._quantiles, self._shares, self._of_new = quantiles, shares, of_new

    def _written(self, value: float) -> str:
        return as_probability(value) if self._shares else super()._written(value)

    def _shown(self) -> tuple[str, pd.DataFrame | None, str]:
        table = pd.DataFrame({"mean": self.predicted_mean, "mean_se": self.se}, index=self.row_labels)
        return f"Predictions of {counted(len(self.row_labels), 'row')}:", table, ADVICE

    def conf_int(self, alpha: float = 0.05, obs: bool = False) -> FloatArray:
        """Equal-tailed credible intervals, or with `obs` prediction intervals of a new response, (m, 2).

        The ends of an interval of a new count, or of a new number of successes, are whole numbers, so that its
        probability is at least ``1 - alpha``.

        Raises
        ------
        ValueError
            For `obs` where a new response has no interval: yes/no responses without numbers of trials, and linear
            predictors.
        """
        at = np.array([check_alpha(alpha) / 2, 1 - alpha / 2])
        if not obs:
            return self._quantiles(at)
        if isinstance(self._of_new, str):
            raise ValueError(f"obs=True is for counts and for numbers: {self._of_new}")
        return self._of_new(at)

    def summary_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """A row for each prediction, with statsmodels' columns: mean, mean_se, mean_ci_lower, mean_ci_upper.

        Counts, numbers of successes among trials, and numbers with Student-t noise also have obs_ci_lower and
        obs_ci_upper, the prediction interval of a new response. If sets of columns were sampled, ``mcse`` is the
        Monte Carlo standard error of the mean.
        """
        parts = [self.predicted_mean, self.se, self.conf_int(alpha)]
        if not isinstance(self._of_new, str):
            parts.append(self.conf_int(alpha, obs=True))
        values = np.column_stack(parts)
        out = pd.DataFrame(values, index=self.row_labels, columns=COLUMNS[: values.shape[1]])
        return out if self.mcse is None else out.assign(mcse=self.mcse)
