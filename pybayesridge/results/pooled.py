"""The posterior of several fits, pooled with equal weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pandas as pd

from pybayesridge._types import ArrayLike, FloatArray, RandomLike, RowsLike
from pybayesridge.binomial.likelihood import probability
from pybayesridge.checks import positive_int
from pybayesridge.data.frames import make_frame
from pybayesridge.results.arguments import check_alpha, target_position
from pybayesridge.results.base import LinearResults
from pybayesridge.results.contrast import Answer, as_table, read_contrasts
from pybayesridge.results.direction import DIRECTION
from pybayesridge.results.mixed import mixed, total_moments
from pybayesridge.results.prediction import BinaryPrediction
from pybayesridge.text import TARGETS, count

if TYPE_CHECKING:
    from narwhals.typing import IntoDataFrame

    from pybayesridge.results.labelled import AnyResults
    from pybayesridge.results.spike_slab import SpikeSlabResults
    from pybayesridge.results.summary.formats import FormattedSummary

ELEMENTS = 1 << 22
"""Most numbers in a block of weights of coefficients."""

HEADS = {"BayesRidge": "Bayesian Ridge Regression", "SpikeSlab": "Spike and Slab Regression"}


class PooledResults:
    """The posteriors of several fits, pooled with equal weights; made by :func:`pybayesridge.pool`.

    Means, standard deviations and covariances follow from those of the fits by the laws of total expectation and
    variance; interval ends are quantiles of the mixture's distribution.

    Attributes
    ----------
    fits : list of results
        One for each completed data set.

    Notes
    -----
    The variance is W + B, with W the mean of the variances of the fits and B the variance of their means (the mean
    square of the deviations from the pooled mean). Rubin's rules, W + (1 + 1/M) B M / (M - 1), correct for a small
    number M of imputations and assume normal posteriors. The difference vanishes as M grows; the mixture needs no
    normality but more imputations, such as 20 to 100.

    References
    ----------
    Gelman et al. (2013). Bayesian Data Analysis, 3rd edition, section 18.2.
    Zhou & Reiter (2010). A note on Bayesian inference after multiple imputation. The American Statistician.
    """

    def __init__(self, fits: Sequence[AnyResults], inner: Sequence[LinearResults]) -> None:
        self.fits = list(fits)
        self._inner = list(inner)
        self._first: Any = inner[0]
        self._data = inner[0].model.data

    @property
    def nobs(self) -> float:
        """Number of rows of each data set."""
        return self._first.nobs

    @property
    def converged(self) -> bool:
        """Whether all fits have converged."""
        return all(fit.converged for fit in self._inner)

    @cached_property
    def _moments(self) -> tuple[FloatArray, FloatArray]:
        return total_moments([fit.params for fit in self._inner], [fit.bse for fit in self._inner])

    @property
    def params(self) -> pd.Series | pd.DataFrame:
        """Posterior means of the coefficients."""
        return self._labelled(self._moments[0])

    @property
    def bse(self) -> pd.Series | pd.DataFrame:
        """Posterior standard deviations of the coefficients."""
        return self._labelled(self._moments[1])

    @property
    def between_share(self) -> pd.Series | pd.DataFrame:
        """Share of the variance of each coefficient that lies between the fits: what the missing values cost."""
        means = np.stack([fit.params for fit in self._inner])
        between, (_, sd) = means.var(axis=0), self._moments
        return self._labelled(np.divide(between, sd**2, out=np.zeros_like(sd), where=sd > 0))

    @cached_property
    def prob_positive(self) -> pd.Series | pd.DataFrame:
        """Posterior probability that each coefficient is positive; as ``prob_positive`` of one fit."""
        return self._labelled(np.mean([fit.prob_positive for fit in self._inner], axis=0))

    @property
    def inclusion_prob(self) -> pd.Series:
        """Posterior inclusion probabilities of a SpikeSlab."""
        if not hasattr(self._first, "inclusion_prob"):
            raise AttributeError("inclusion_prob is of SpikeSlab: BayesRidge includes every column")
        inner = cast("list[SpikeSlabResults]", self._inner)
        return self._labelled(np.mean([fit.inclusion_prob for fit in inner], axis=0))

    def _labelled(self, values: FloatArray) -> Any:
        return self._data.wrap_output(values, "columns")

    def conf_int(self, alpha: float = 0.05) -> pd.DataFrame:
        """Equal-tailed credible intervals of the coefficients: quantiles of the mixture."""
        ends = [self._coefficients(check_alpha(alpha), i).interval for i in range(len(self._data.targets))]
        out: pd.DataFrame = self._data.wrap_output(
            ends[0] if self._first.model.one_target else np.stack(ends, axis=1), "interval"
        )
        return out

    def _coefficients(self, alpha: float, target: int, positions: Sequence[int] | None = None) -> Answer:
        """The posterior of single coefficients, in blocks."""
        k = len(self._first.model.exog_names)
        at = np.arange(k) if positions is None else np.asarray(positions, dtype=np.intp)
        step = max(1, ELEMENTS // k)
        parts = []
        for start in range(0, at.size, step):
            some = at[start : start + step]
            weights = np.zeros((some.size, k))
            weights[np.arange(some.size), some] = 1.0
            parts.append(mixed(self._inner, [weights] * len(self._inner), np.zeros(some.size), alpha, target))
        names = ("mean", "sd", "interval", "positive")
        return Answer(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))

    def cov_params(self, target: str | int | None = None) -> pd.DataFrame:
        """Posterior covariance matrix of the coefficients."""
        i = target_position(self._data.targets, target, "cov_params")
        means = np.stack([fit.params.reshape(len(fit.params), -1)[:, i] for fit in self._inner])
        centred = means - means.mean(axis=0)
        within = np.mean([fit.cov_params(i) for fit in self._inner], axis=0)
        out: pd.DataFrame = self._data.wrap_output(within + centred.T @ centred / len(means), "cov")
        return out

    def contrast(
        self,
        contrasts: str | Sequence[str] | Mapping[str, str] | ArrayLike | pd.Series | IntoDataFrame,
        *,
        alpha: float = 0.05,
        target: str | int | None = None,
    ) -> pd.DataFrame:
        """Posterior of linear combinations of coefficients; arguments and table as for a single fit."""
        weights, value, labels = read_contrasts(contrasts, self._first.model.exog_names)
        i = target_position(self._data.targets, target, "contrast")
        found = mixed(self._inner, [weights] * len(self._inner), value, check_alpha(alpha), i)
        return as_table(found, labels)

    def sample(self, n: int, rng: RandomLike = None) -> pd.DataFrame:
        """Draw from the posterior of the coefficients; each draw is of a fit chosen at random.

        Parameters
        ----------
        n : int
            How many draws.
        rng : numpy.random.Generator, int or None
            Source of randomness, or a seed.

        Returns
        -------
        DataFrame
            As that of a single fit, a row for each draw.
        """
        generator = np.random.default_rng(rng)
        which = generator.integers(len(self._inner), size=positive_int("n", n))
        used = [i for i in range(len(self._inner)) if (which == i).any()]
        frames = [self._inner[i].sample(int((which == i).sum()), generator) for i in used]
        order = np.argsort(np.concatenate([np.flatnonzero(which == i) for i in used]))
        return pd.concat(frames, ignore_index=True).iloc[order].reset_index(drop=True)

    def predict(self, exog: RowsLike, transform: bool = True) -> pd.Series | pd.DataFrame:
        """Posterior mean at new rows, of the linear predictor or, for yes/no responses, of the probability.

        Parameters
        ----------
        exog : array-like or frame
            New data, as for a single fit; each fit codes them as its own data.
        transform : bool
            Whether to pass new data through the formula.
        """
        found: list[Any] = [fit.predict(exog, transform) for fit in self._inner]
        total = found[0]
        for each in found[1:]:
            total = total + each
        out: pd.Series | pd.DataFrame = total / len(found)
        return out

    def get_prediction(
        self, exog: RowsLike, transform: bool = True, target: str | int | None = None
    ) -> BinaryPrediction:
        """Predictions at new rows with credible intervals: ``.summary_frame(alpha)``.

        Parameters
        ----------
        exog : array-like or frame
            New data, as for a single fit.
        transform : bool
            Whether to pass new data through the formula.
        target : str or int, optional
            Which target; needed where there are several.
        """
        i = target_position(self._data.targets, target, "get_prediction")
        link = getattr(self._first.model, "link", None)
        each = [fit.get_prediction(exog, transform) for fit in self._inner]
        labels = each[0].row_labels
        means = [np.asarray(one.predicted_mean).reshape(len(labels), -1) for one in each]
        sds = [np.asarray(one.se).reshape(len(labels), -1) for one in each]
        at = 0 if link is not None else i
        mean, sd = total_moments([m[:, at] for m in means], [s[:, at] for s in sds])
        whole = np.flatnonzero(~np.isnan(mean))
        weights = [self._weights(fit, exog, transform)[whole] for fit in self._inner]

        def quantiles(probabilities: FloatArray) -> FloatArray:
            out = np.full((len(mean), 2), np.nan)
            alpha = 2 * float(probabilities[0])
            ends = mixed(self._inner, weights, np.zeros(whole.size), alpha, i).interval
            out[whole] = ends if link is None else probability(ends, link)
            return out

        return BinaryPrediction(mean, sd, quantiles, labels)

    def _weights(self, fit: LinearResults, exog: RowsLike, transform: bool) -> FloatArray:
        """New rows as weights of the coefficients of one fit, (m, k)."""
        rows, _ = fit.model.new_rows(exog, transform)
        dense = np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows, dtype=np.float64)
        return np.column_stack([np.ones(len(dense)), dense]) if fit.model.data.intercept_name is not None else dense

    def tidy(self, alpha: float = 0.05) -> Any:
        """Table with one row for each coefficient and no index: the columns of a single fit's and `between_share`."""
        targets, names = self._data.targets, self._first.model.exog_names
        interval = [self._coefficients(check_alpha(alpha), i).interval for i in range(len(targets))]
        mean, sd = self._moments
        columns: dict[str, Any] = {
            "term": list(names) * len(targets),
            "estimate": mean.ravel(order="F"),
            "std_error": sd.ravel(order="F"),
            "conf_low": np.concatenate([ends[:, 0] for ends in interval]),
            "conf_high": np.concatenate([ends[:, 1] for ends in interval]),
            "between_share": np.asarray(self.between_share).ravel(order="F"),
        }
        if hasattr(self._first, "inclusion_prob"):
            columns["inclusion_prob"] = np.asarray(self.inclusion_prob)
        if not self._first.model.one_target:
            columns["target"] = [name for name in targets for _ in names]
        return make_frame(columns, self._data.library)

    def summary(self, alpha: float = 0.05, direction: bool = False) -> FormattedSummary:
        """Regression table: pooled posterior mean, standard deviation and interval of every coefficient.

        Tables of more than 60 coefficients show those that are largest relative to their standard deviation first.

        Parameters
        ----------
        alpha : float
            One minus the probability of the intervals.
        direction : bool
            Add a column with the posterior probability that each coefficient is positive, ``P(>0)``.
        """
        from pybayesridge.results.summary.tables import coefficient_table, facts_table, make_summary, rows_to_show

        check_alpha(alpha)
        targets, names = self._data.targets, self._first.model.exog_names
        mean, sd = (values.reshape(len(names), -1) for values in self._moments)
        tables, left_out = [], 0
        for i, target in enumerate(targets[:TARGETS]):
            left = [("Dep. Variable:", target), ("Model:", self._first.family), ("Method:", self._first.method)]
            right = [
                ("Imputed data sets:", count(len(self._inner))),
                ("No. Observations:", count(int(self.nobs))),
                ("Converged:", "yes" if self.converged else "NO"),
            ]
            title = f"Pooled {HEADS[self._first.family]}" if i == 0 else None
            size = np.divide(np.abs(mean[:, i]), sd[:, i], out=np.zeros(len(names)), where=sd[:, i] > 0)
            shown = rows_to_show(size)
            left_out = len(names) - len(shown)
            found = self._coefficients(alpha, i, shown)
            tables.append(facts_table(title, left, right))
            tables.append(
                coefficient_table(
                    [names[j] for j in shown],
                    mean[shown, i],
                    sd[shown, i],
                    found.interval,
                    alpha,
                    positive=found.positive if direction else None,
                )
            )
        largest = float(np.max(np.asarray(self.between_share)))
        notes = [
            f"Pooled posterior of {len(self._inner)} fits with equal weights; at most {largest:.0%} of the "
            "variance of a coefficient lies between them."
        ]
        if direction:
            notes.append(DIRECTION)
        if left_out:
            notes.append(f"{left_out} coefficients with smaller ratios of mean to sd are omitted; see params.")
        if len(targets) > TARGETS:
            notes.append(f"{len(targets) - TARGETS} more targets are omitted.")
        return make_summary(tables, notes)
