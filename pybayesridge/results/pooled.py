"""The posterior of several fits, pooled with equal weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.special import ndtr, ndtri

from pybayesridge._types import ArrayLike, FloatArray, IntArray, PathLike, PathOrFile, RandomLike, RowsLike
from pybayesridge.checks import check_new_levels, check_which, positive_int
from pybayesridge.data.frames import make_frame
from pybayesridge.families.registry import those_with
from pybayesridge.findings import Finding
from pybayesridge.posterior.laws import AROUND_MEDIAN, Answer, Ask, average, mixed_error, pooled, total_moments
from pybayesridge.results import contrast as contrasts
from pybayesridge.results import direction, predictive_checks
from pybayesridge.results import effects as variable_effects
from pybayesridge.results import files as saved
from pybayesridge.results import leave_one_out as left_out
from pybayesridge.results.arguments import (
    check_alpha,
    shown_last,
    standardized_size,
    target_position,
    term_positions,
)
from pybayesridge.results.contrast import combined
from pybayesridge.results.direction import DIRECTION, DIRECTION_OR_ZERO
from pybayesridge.results.facts import facts_for, rows_to_show
from pybayesridge.results.plots import effects as effect_plots
from pybayesridge.results.plots import predictive as predictive_plots
from pybayesridge.results.plots import ridge as ridge_plots
from pybayesridge.results.prediction import BayesPrediction, GeneralizedPrediction
from pybayesridge.results.ratios import Ratios
from pybayesridge.results.response_scale import new_quantiles, no_interval
from pybayesridge.results.sensitivity import prior_sensitivity
from pybayesridge.results.shown import Shown, counted
from pybayesridge.results.variance_components import VarianceComponents
from pybayesridge.text import NO_VARIANCE, TARGETS, count, either, listed

if TYPE_CHECKING:
    from pybayesridge.results.base import LinearResults
    from pybayesridge.results.summary.formats import FormattedSummary

ELEMENTS = 1 << 22
"""Most numbers in a block of weights of coefficients."""

NEAREST, FARTHEST, SCORES = 1e-3, 5.0, 60
"""Quantiles of hyperparameters are asked for at so many normal scores between these, on both sides."""

EVERY_COLUMN = "BayesRidge includes every column"
"""Why pooled ridges have no inclusion probabilities."""

POINTS = 4000
"""Equally probable values of a hyperparameter in each fit."""


class PooledResults(Ratios, Shown, saved.Saveable):
    """The posteriors of several fits, pooled with equal weights; made by :func:`pybayesridge.pool`.

    Means, standard deviations and covariances follow from those of the fits by the laws of total expectation and
    variance; interval ends are quantiles of the mixture's distribution.

    Attributes
    ----------
    fits : list of results
        One for each completed data set.
    model : model
        That of the first data set: names of columns and responses, and the formula, are those of all.

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

    contrast = contrasts.contrast
    joint_contrast = direction.joint_contrast
    effects = variable_effects.effects
    predictions = variable_effects.predictions
    loo = left_out.loo
    pit = left_out.pit
    ppc = predictive_checks.ppc
    prior_sensitivity = prior_sensitivity
    plot_effect = effect_plots.plot_effect
    plot_coefficients = ridge_plots.plot_coefficients
    plot_ppc = predictive_plots.plot_ppc
    plot_pit = predictive_plots.plot_pit

    def __init__(self, fits: Sequence[LinearResults]) -> None:
        self.fits = list(fits)
        self._first: Any = fits[0]
        self.model: Any = fits[0].model
        self._data = fits[0].model.data

    @staticmethod
    def of_earlier(state: dict[str, Any]) -> dict[str, Any]:
        """The attributes in files of earlier versions, which had the fits twice."""
        return {name: value for name, value in state.items() if name != "_inner"}

    def __getattr__(self, name: str) -> Any:
        """Say of what single fits alone have where it is."""
        fits, own = self.__dict__.get("fits"), getattr(type(self), name, None)
        # A property that raises an AttributeError ends here: its sentence is better.
        if isinstance(own, property | cached_property):
            (own.func if isinstance(own, cached_property) else own.__get__)(self)
        if fits and not name.startswith("_") and hasattr(type(fits[0]), name):
            raise AttributeError(
                f"pooled results have no {name}: ask the fits of the completed data sets, as in pooled.fits[0].{name}"
            )
        raise AttributeError(f"{type(self).__name__} object has no attribute {name!r}")

    def _shown(self) -> tuple[str, pd.DataFrame | None, str]:
        sizes = f"{counted(len(self.fits), 'fit')} of {counted(self.nobs, 'row')}"
        means = self._labelled(np.mean([fit.arrays.params for fit in self.fits], axis=0))
        table = means.to_frame("mean") if isinstance(means, pd.Series) else means
        title = f"{self._first.model_name} of {listed(self._data.targets)}, {sizes} pooled. Posterior means:"
        return title, table, "summary() shows standard deviations, intervals and notes."

    @property
    def parts(self) -> Sequence[LinearResults]:
        """The fits whose posteriors are mixed."""
        return self.fits

    @property
    def shares(self) -> FloatArray | None:
        """Their weights; None for equal ones."""
        return None

    @property
    def has_joint_posterior(self) -> bool:
        """Whether the joint posterior of all coefficients is available: pooling needs it."""
        return True

    @property
    def nobs(self) -> float:
        """Number of rows of each data set."""
        return self._first.nobs

    @property
    def converged(self) -> bool:
        """Whether all fits have converged."""
        return all(fit.converged for fit in self.fits)

    @cached_property
    def _moments(self) -> tuple[FloatArray, FloatArray]:
        return total_moments([fit.arrays.params for fit in self.fits], [fit.arrays.bse for fit in self.fits])

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
        means = np.stack([fit.arrays.params for fit in self.fits])
        between, (_, sd) = means.var(axis=0), self._moments
        return self._labelled(np.divide(between, sd**2, out=np.zeros_like(sd), where=sd > 0))

    @cached_property
    def prob_positive(self) -> pd.Series | pd.DataFrame:
        """Posterior probability that each coefficient is positive; as ``prob_positive`` of one fit."""
        return self._labelled(np.mean([fit.arrays.prob_positive for fit in self.fits], axis=0))

    @cached_property
    def prob_zero(self) -> pd.Series:
        """Posterior probability that each coefficient of a SpikeSlab is exactly zero."""
        each = self._of_selections("prob_zero", "coefficients of BayesRidge are never exactly zero")
        return self._labelled(np.mean(each, axis=0))

    @property
    def inclusion_prob(self) -> pd.Series:
        """Posterior inclusion probabilities of a SpikeSlab."""
        return self._labelled(np.mean(self._of_selections("inclusion_prob", EVERY_COLUMN), axis=0))

    def _of_selections(self, name: str, why_not: str) -> list[Any]:
        """What each fit has of an attribute of selections."""
        try:
            return [getattr(fit.arrays, name) for fit in self.fits]
        except AttributeError:
            raise AttributeError(f"{name} is of SpikeSlab: {why_not}") from None

    def ratios(self, alpha: float = 0.05, *, terms: str | Sequence[str] | None = None) -> pd.DataFrame:
        """Exponentials of the coefficients, named as the family calls them: odds ratios or rate ratios. Internal."""
        fits: list[Any] = self.fits
        tables = [fit.ratios(alpha, terms=terms) for fit in fits]
        pooled: pd.DataFrame = sum(tables[1:], start=tables[0]) / len(tables)
        names, name = self.model.exog_names, self.model.distribution.ratio.replace(" ", "_")
        at = np.arange(len(names)) if terms is None else term_positions(self.model, terms)
        ends = self._coefficients(check_alpha(alpha), 0, at).quantiles[:, 0]
        with np.errstate(over="ignore"):
            ratios = np.exp(np.column_stack([self._moments[0][at], ends]))
        return pooled.assign(**{name: ratios[:, 0], "lower": ratios[:, 1], "upper": ratios[:, 2]})

    def _labelled(self, values: FloatArray) -> Any:
        return self._data.wrap_output(values, "columns")

    def conf_int(self, alpha: float = 0.05) -> pd.DataFrame:
        """Equal-tailed credible intervals of the coefficients: quantiles of the mixture."""
        ends = [self._coefficients(check_alpha(alpha), i).quantiles[:, 0] for i in range(len(self._data.targets))]
        out: pd.DataFrame = self._data.wrap_output(
            ends[0] if self._first.model.one_target else np.stack(ends, axis=1), "interval"
        )
        return out

    def _coefficients(self, alpha: float, target: int, positions: Sequence[int] | IntArray | None = None) -> Answer:
        """The posterior of single coefficients, in blocks."""
        k = len(self._first.model.exog_names)
        at = np.arange(k) if positions is None else np.asarray(positions, dtype=np.intp)
        step = max(1, ELEMENTS // k)
        parts = []
        for start in range(0, at.size, step):
            some = at[start : start + step]
            weights = np.zeros((some.size, k))
            weights[np.arange(some.size), some] = 1.0
            parts.append(combined(self, weights, np.zeros(some.size), alpha, target))
        names = (
            "mean",
            "sd",
            "center",
            "quantiles",
            "above",
            *(() if parts[0].mass_at_zero is None else ("mass_at_zero",)),
        )
        return Answer(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))

    def cov_params(self, target: str | int | None = None) -> pd.DataFrame:
        """Posterior covariance matrix of the coefficients."""
        i = target_position(self._data.targets, target, "cov_params")
        means = np.stack([fit.arrays.params.reshape(len(fit.arrays.params), -1)[:, i] for fit in self.fits])
        centred = means - means.mean(axis=0)
        within = np.mean([fit.cov_params(i) for fit in self.fits], axis=0)
        out: pd.DataFrame = self._data.wrap_output(within + centred.T @ centred / len(means), "cov")
        return out

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
        which = generator.integers(len(self.fits), size=positive_int("n", n))
        used = [i for i in range(len(self.fits)) if (which == i).any()]
        frames = [self.fits[i].sample(int((which == i).sum()), generator) for i in used]
        order = np.argsort(np.concatenate([np.flatnonzero(which == i) for i in used]))
        return pd.concat(frames, ignore_index=True).iloc[order].reset_index(drop=True)

    def predict(
        self,
        exog: RowsLike | None = None,
        transform: bool = True,
        which: str = "mean",
        exposure: ArrayLike | str | None = None,
        new_levels: str = "sample",
        groups: bool = True,
    ) -> pd.Series | pd.DataFrame:
        """Posterior mean at new rows, of the linear predictor or, for yes/no responses, of the probability.

        Parameters
        ----------
        exog : array-like or frame, optional
            New data, as for a single fit. The rows of the fits by default, as each data set has them.
        transform : bool
            Whether to pass new data through the formula.
        which : {"mean", "linear"}
            For yes/no responses: probabilities, or linear predictors at `params` of the fits. For counts: expected
            counts (medians), or linear predictors.
        exposure : float, (m,) array-like or str, for counts
            Exposures of the rows, as for a single fit.
        new_levels, groups
            As for a single fit with several penalties.
        """
        return mixed_means(self.fits, None, exog, transform, which, exposure, new_levels, groups)

    def get_prediction(
        self,
        exog: RowsLike | None = None,
        transform: bool = True,
        target: str | int | None = None,
        which: str = "mean",
        weights: ArrayLike | str | None = None,
        exposure: ArrayLike | str | None = None,
        trials: ArrayLike | str | None = None,
        new_levels: str = "sample",
        groups: bool = True,
    ) -> BayesPrediction | GeneralizedPrediction:
        """Predictions with credible and prediction intervals: ``.summary_frame(alpha)``.

        Parameters
        ----------
        exog : array-like or frame, optional
            New data, as for a single fit. The rows of the fits by default, as each data set has them.
        transform : bool
            Whether to pass new data through the formula.
        target : str or int, optional
            One of several targets; all by default.
        which : {"mean", "linear"}
            For yes/no responses: probabilities, or linear predictors.
        weights : float, (m,) array-like or str, optional
            For Gaussian responses: precision weights of new observations, as for a single fit.
        exposure : float, (m,) array-like or str, for counts
            Exposures of the rows, as for a single fit.
        trials : int, (m,) array-like or str, for yes/no responses
            Numbers of trials of the rows, as for a single fit.
        new_levels, groups
            As for a single fit with several penalties.
        """
        return mixed_prediction(
            self.fits, None, exog, transform, target, which, weights, exposure, trials, new_levels, groups
        )

    def hyperparameters(self, alpha: float = 0.05) -> pd.DataFrame:
        """Posterior of the hyperparameters: the table of a single fit, for the mixture over the fits.

        Parameters
        ----------
        alpha : float
            One minus the probability of the intervals.

        Raises
        ------
        ValueError
            As for a single fit: for a SpikeSlab by expectation propagation, which has point estimates.
        """
        fits: list[Any] = self.fits
        alpha = check_alpha(alpha)
        if isinstance(self._first, VarianceComponents):
            each = [fit.hyperparameter_quantiles for fit in fits]
            return mixed_quantiles(each, fits[0].hyperparameters(alpha), alpha)
        return mixed_tables([fit.hyperparameters for fit in fits], alpha)

    def variance_components(self, alpha: float = 0.05) -> pd.DataFrame:
        """Standard deviations of bands, and their shares: the table of a single fit, for the mixture over the fits.

        Parameters
        ----------
        alpha : float
            One minus the probability of the intervals.
        """
        fits, alpha = self._with_bands("variance_components"), check_alpha(alpha)
        each = [fit.variance_components(alpha) for fit in fits]
        out: pd.DataFrame = sum(each[1:], start=each[0]) / len(each)
        out["sd"] = total_moments([one["mean"] for one in each], [one["sd"] for one in each])[1]
        at = _scores()
        points = [_equally_probable(at, fit.component_quantiles(ndtr(at))) for fit in fits]
        together = np.concatenate(points, axis=-1)
        for name, share in {"lower": alpha / 2, "upper": 1 - alpha / 2, "bound": 1 - alpha}.items():
            out[[name, f"share_{name}"]] = np.quantile(together, share, axis=-1, method="inverted_cdf")
        # Bounds are of what may be zero, which correlations are not.
        out["bound"] = out["bound"].where(out["share"].notna())
        return out

    def random_effects(
        self, bands: str | Sequence[str] | None = None, alpha: float = 0.05, target: str | int | None = None
    ) -> pd.DataFrame:
        """Coefficients of the columns of each band: the table of a single fit, for the mixture over the fits.

        Parameters
        ----------
        bands : str or sequence of str, optional
            Names of bands; all by default.
        alpha : float
            One minus the probability of the intervals.
        target : str or int, optional
            Which target, by name or position; needed where there are several.
        """
        out, at = self._with_bands("random_effects")[0].levels_of(bands)
        i = target_position(self._data.targets, target, "random_effects")
        found = self._coefficients(check_alpha(alpha), i, at)
        ends = found.quantiles[:, 0]
        return out.assign(mean=found.mean[:, 0], sd=found.sd[:, 0], lower=ends[:, 0], upper=ends[:, 1])

    def _with_bands(self, name: str) -> list[Any]:
        """The fits, which have bands; an AttributeError if they have none."""
        if not hasattr(self._first, name):
            raise AttributeError(
                f"{name}() is of fits with several penalties, as of bands= or of (1 | g) in a formula"
            )
        return list(self.fits)

    @property
    def group_inclusion_prob(self) -> pd.Series:
        """Posterior inclusion probabilities of the groups of a SpikeSlab, by label."""
        each = self._of_selections("group_inclusion_prob", EVERY_COLUMN)
        out: pd.Series = sum(each[1:], start=each[0]) / len(each)
        return out

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is to be known of the validity and the reading of the fits; of each kind once.

        The sentence is that of the first fit which it concerns, and says how many do.
        """
        kinds: dict[Any, list[Finding]] = {}
        for fit in self.fits:
            for finding in fit.findings:
                kinds.setdefault((finding.code, finding.targets), []).append(finding)
        count = len(self.fits)
        return tuple(
            found[0]
            if len(found) >= count
            else replace(found[0], text=f"{found[0].text.removesuffix('.')} ({len(found)} of {count} fits).")
            for found in kinds.values()
        )

    @property
    def notes(self) -> list[str]:
        """The sentences of the :attr:`findings`."""
        return [finding.sentence for finding in self.findings]

    def importance(self, target: int) -> FloatArray:
        """What variables are ordered by in reports: how large the coefficients are, or inclusion probabilities."""
        own = self.own_columns().get("inclusion_prob")
        return np.abs(self.standardized_size(target)) if own is None else own

    def own_columns(self) -> dict[str, FloatArray]:
        """Further columns of :meth:`tidy`, which only some fits have."""
        each = [fit.own_columns() for fit in self.fits]
        return {name: np.mean([one[name] for one in each], axis=0) for name in each[0]}

    def report(
        self,
        path: PathLike,
        *,
        title: str | None = None,
        question: str | None = None,
        target: str | int | None = None,
        alpha: float = 0.05,
    ) -> Path:
        """Write a report: an HTML file with the pooled posterior, effects, predictive checks and notes.

        The model in words and formulas, the facts on the data and the code are those of the first fit.

        Parameters
        ----------
        path, title, question, target, alpha
            As for a single fit.

        Returns
        -------
        pathlib.Path
            Of the file.
        """
        from pybayesridge.report import write_report

        i = None if target is None else target_position(self._data.targets, target, "report")
        return write_report(self, path, title=title, question=question, target=i, alpha=check_alpha(alpha))

    def standardized_size(self, target: int) -> FloatArray:
        """Size of the coefficients per standard deviation of the columns of the first data set."""
        mean = self._moments[0].reshape(len(self.model.exog_names), -1)[:, target]
        return standardized_size(self.model, self._first.posterior.design, mean)

    def some_coefficients(
        self, positions: list[int], target: int, alpha: float
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Means, standard deviations and intervals of a few coefficients."""
        found = self._coefficients(alpha, target, positions)
        return found.mean[:, 0], found.sd[:, 0], found.quantiles[:, 0]

    def save(self, fname: PathOrFile, remove_data: bool = False, format: str = "portable") -> None:
        """Write the fits to a file, which :func:`pybayesridge.load` reads as pooled results again.

        Parameters
        ----------
        fname : str, os.PathLike or binary file
        remove_data : bool
            Leave the rows of the data out, as for a single fit with ``row_space=True``.
        format : {"portable", "pickle"}
            As for a single fit.

        Raises
        ------
        OSError
            If the file cannot be written.
        ValueError
            If the results hold something that is neither text nor numbers.
        """
        saved.write(self.without_rows() if remove_data else self, fname, format)

    def without_rows(self) -> PooledResults:
        """A copy without the rows of the data."""
        return PooledResults([fit.as_saved(remove_data=True, row_space=True) for fit in self.fits])

    def tidy(self, alpha: float = 0.05) -> Any:
        """Table with one row for each coefficient and no index: the columns of a single fit's and `between_share`."""
        targets, names = self._data.targets, self._first.model.exog_names
        interval = [self._coefficients(check_alpha(alpha), i).quantiles[:, 0] for i in range(len(targets))]
        mean, sd = self._moments
        columns: dict[str, Any] = {
            "term": list(names) * len(targets),
            "estimate": mean.ravel(order="F"),
            "std_error": sd.ravel(order="F"),
            "conf_low": np.concatenate([ends[:, 0] for ends in interval]),
            "conf_high": np.concatenate([ends[:, 1] for ends in interval]),
            "between_share": np.asarray(self.between_share).ravel(order="F"),
        }
        columns |= self.own_columns()
        if not self._first.model.one_target:
            columns["target"] = [name for name in targets for _ in names]
        return make_frame(columns, self._data.library)

    def summary(self, alpha: float = 0.05, direction: bool = False) -> FormattedSummary:
        """Regression table: pooled posterior mean, standard deviation and interval of every coefficient.

        Tables of more than 60 coefficients show those that are largest relative to their standard deviation first,
        and those of groups and curves after all others.

        Parameters
        ----------
        alpha : float
            One minus the probability of the intervals.
        direction : bool
            Add a column with the posterior probability that each coefficient is positive, ``P(>0)``, and for
            SpikeSlab one with that of exactly zero, ``P(=0)``.
        """
        from pybayesridge.results.summary.fit import title_of
        from pybayesridge.results.summary.tables import coefficient_table, facts_table, make_summary

        check_alpha(alpha)
        targets, names = self._data.targets, self._first.model.exog_names
        mean, sd = (values.reshape(len(names), -1) for values in self._moments)
        tables, left_out = [], 0
        for i in range(min(len(targets), TARGETS)):
            # The number of rows is the last of them.
            facts = [(f"{fact.label}:", fact.text(value)) for fact, value in facts_for(self._first, "pooled", i)]
            right = [
                ("Imputed data sets:", count(len(self.fits))),
                facts.pop(),
                ("Converged:", "yes" if self.converged else "NO"),
            ]
            title = f"Pooled {title_of(self._first)}" if i == 0 else None
            size = np.divide(np.abs(mean[:, i]), sd[:, i], out=np.zeros(len(names)), where=sd[:, i] > 0)
            shown = rows_to_show(size, shown_last(self.model))
            left_out = len(names) - len(shown)
            found = self._coefficients(alpha, i, shown)
            tables.append(facts_table(title, facts, right))
            tables.append(
                coefficient_table(
                    [names[j] for j in shown],
                    mean[shown, i],
                    sd[shown, i],
                    found.quantiles[:, 0],
                    alpha,
                    direction=[each[:, 0] for each in (found.above, found.mass_at_zero) if each is not None]
                    if direction
                    else (),
                )
            )
        largest = float(np.max(np.asarray(self.between_share)))
        notes = [
            f"Pooled posterior of {len(self.fits)} fits with equal weights; at most {largest:.0%} of the "
            "variance of a coefficient lies between them."
        ]
        if direction:
            notes.append(DIRECTION if found.mass_at_zero is None else DIRECTION_OR_ZERO)
        if np.isinf(sd).any():
            notes.append(NO_VARIANCE)
        if left_out:
            notes.append(f"{left_out} coefficients with smaller ratios of mean to sd are omitted; see params.")
        if len(targets) > TARGETS:
            notes.append(f"{len(targets) - TARGETS} more targets are omitted.")
        return make_summary(tables, notes)


def mixed_means(
    fits: Sequence[Any],
    share: FloatArray | None,
    exog: RowsLike | None,
    transform: bool,
    which: str,
    exposure: ArrayLike | str | None,
    new_levels: str,
    groups: bool,
) -> pd.Series | pd.DataFrame:
    """Posterior means at rows of the mixture of several fits with weights `share`."""
    check_which(which)
    family = fits[0].model.distribution
    if exposure is not None or (not family.has_mean and which == "mean"):
        found = _generalized_prediction(fits, share, exog, transform, which, exposure, None, new_levels, groups)
        return pd.Series(found.predicted_mean, index=found.row_labels)
    own: dict[str, Any] = {} if family.is_linear else {"which": which}
    of_groups = _of_groups(fits, new_levels, groups)
    each = [fit.predict(exog, transform, **own, **given) for fit, given in zip(fits, of_groups, strict=True)]
    out: pd.Series | pd.DataFrame = each[0].copy()
    out.iloc[:] = average([one.to_numpy() for one in each], share)
    return out


def mixed_prediction(
    fits: Sequence[Any],
    share: FloatArray | None,
    exog: RowsLike | None,
    transform: bool,
    target: str | int | None,
    which: str,
    weights: ArrayLike | str | None,
    exposure: ArrayLike | str | None,
    trials: ArrayLike | str | None,
    new_levels: str,
    groups: bool,
) -> BayesPrediction | GeneralizedPrediction:
    """Predictions of the mixture of several fits with weights `share`; see `PooledResults.get_prediction`."""
    check_which(which)
    if exposure is not None or trials is not None or not fits[0].model.distribution.is_linear:
        return _generalized_prediction(fits, share, exog, transform, which, exposure, trials, new_levels, groups)
    of_groups = _of_groups(fits, new_levels, groups)
    laws, labels = zip(
        *(fit.law_of_new(exog, transform, **given) for fit, given in zip(fits, of_groups, strict=True)), strict=True
    )
    noises = [fit.model.noise_factors(own, weights, exog) for fit, own in zip(fits, labels, strict=True)]
    law = pooled(laws, share)
    of_new = pooled([each.with_noise(noise) for each, noise in zip(laws, noises, strict=True)], share)
    sigma2 = [np.outer(noise, np.atleast_1d(fit.arrays.sigma2)) for fit, noise in zip(fits, noises, strict=True)]
    names, one_target = fits[0].model.data.targets, fits[0].model.one_target
    one = target is not None or one_target
    at = [target_position(names, target, "get_prediction")] if one else list(range(len(names)))
    found = law.ask(Ask())

    def interval(alpha: float, obs: bool) -> FloatArray:
        tails = check_alpha(alpha) / 2, 1 - alpha / 2
        return (of_new if obs else law).ask(Ask(tails, sd=False)).quantiles[:, at]

    var_resid, shown = average(sigma2, share)[:, at], None if one else names
    mcse = None if found.mcse is None else found.mcse[:, at]
    return BayesPrediction(found.mean[:, at], found.sd[:, at], var_resid, interval, labels[0], shown, mcse)


def _generalized_prediction(
    fits: Sequence[Any],
    share: FloatArray | None,
    exog: RowsLike | None,
    transform: bool,
    which: str,
    exposure: ArrayLike | str | None,
    trials: ArrayLike | str | None,
    new_levels: str,
    groups: bool,
) -> GeneralizedPrediction:
    family = fits[0].model.distribution
    for name, given in (("exposure", exposure), ("trials", trials)):
        if given is not None and family.per_row != name:
            raise ValueError(f"{name} requires fits with family={either(those_with(name))}")
    sizes = {} if exposure is None and trials is None else {family.per_row: trials if exposure is None else exposure}
    of_groups = _of_groups(fits, new_levels, groups)
    each = [
        fit.get_prediction(exog, transform, which=which, **sizes, **of_fit)
        for fit, of_fit in zip(fits, of_groups, strict=True)
    ]
    mean, sd = total_moments([one.predicted_mean for one in each], [one.se for one in each], share)
    whole = np.flatnonzero(~np.isnan(mean))
    asked = []
    for fit, of_fit in zip(fits, of_groups, strict=True):
        (x, z), labels = fit.columns_of_new(exog, transform, **of_fit)
        extent = fit.extent_of_rows(exog, exposure, labels, trials)
        extent = None if extent is None else extent[whole]
        asked.append((fit.posterior, x[whole], z[whole], extent))
    law = pooled([posterior.rows(x, z, family.offset(extent)) for posterior, x, z, extent in asked], share)

    def placed(values: FloatArray) -> FloatArray:
        out = np.full((len(mean), values.shape[1]), np.nan)
        out[whole] = values
        return out

    def quantiles(at: FloatArray) -> FloatArray:
        out = placed(law.ask(Ask(tuple(at.tolist()))).quantiles[:, 0])
        return out if which == "linear" else family.mean(out)

    if which == "mean" and not family.has_mean:
        low, mean, high = quantiles(np.array(AROUND_MEDIAN)).T
        sd = 0.5 * (high - low)
    mcse = mixed_error([one.mcse for one in each], share)
    shares = which == "mean" and family.predicts_shares
    new = no_interval(family, which, extent) or (lambda at: placed(new_quantiles(asked, share, family, at)))
    return GeneralizedPrediction(mean, sd, quantiles, each[0].row_labels, shares=shares, mcse=mcse, of_new=new)


def _of_groups(fits: Sequence[Any], new_levels: str, groups: bool) -> list[dict[str, Any]]:
    """Arguments on groups for the predictions of each fit: none for those with one penalty."""
    check_new_levels(new_levels)
    several = [isinstance(fit, VarianceComponents) for fit in fits]
    if not any(several) and (new_levels != "sample" or not groups):
        raise ValueError("new_levels and groups require a fit with several penalties")
    return [{"new_levels": new_levels, "groups": groups} if one else {} for one in several]


def mixed_tables(tables: Sequence[Callable[[float], pd.DataFrame]], alpha: float) -> pd.DataFrame:
    """Tables of single numbers, each with its mean and equal-tailed interval, for the mixture of several posteriors.

    What the fits say of intervals of many probabilities gives their quantile functions, at `POINTS` of which the
    mixture has its quantiles: their tails are right to 2 % of what is in them.
    """
    at = _scores()

    def quantiles(table: Callable[[float], pd.DataFrame], _: FloatArray) -> tuple[FloatArray, FloatArray]:
        each = [table(float(2 * ndtr(-score))) for score in at[at > 0]]
        low, high = (np.stack([one[name].to_numpy() for one in each]) for name in ("lower", "upper"))
        return each[0]["mean"].to_numpy(), np.concatenate([low[::-1], high]).T

    return mixed_quantiles([partial(quantiles, table) for table in tables], tables[0](alpha), alpha)


def mixed_quantiles(
    fits: Sequence[Callable[[FloatArray], tuple[FloatArray, FloatArray]]], table: pd.DataFrame, alpha: float
) -> pd.DataFrame:
    """The table of a single fit for the mixture: means (r,) and quantiles (r, c) at probabilities (c,) of each."""
    at = _scores()
    wanted, points, means = ndtri((np.arange(POINTS) + 0.5) / POINTS), [], []
    for of_fit in fits:
        mean, values = of_fit(ndtr(at))
        whole = np.isfinite(values).all(axis=1) & (values == np.rint(values)).all(axis=1)
        drawn = _equally_probable(at, values)
        nearest = values[:, np.abs(wanted[:, None] - at).argmin(axis=1)]
        points.append(np.where(whole[:, None], nearest, drawn))
        means.append(mean)
    out: pd.DataFrame = table.copy()
    out["mean"] = np.mean(means, axis=0)
    together = np.concatenate(points, axis=1)
    for name, share in {"median": 0.5, "lower": alpha / 2, "upper": 1 - alpha / 2}.items():
        if name in out:
            out[name] = np.quantile(together, share, axis=1, method="inverted_cdf")
    return out


def _scores() -> FloatArray:
    """Normal scores at which quantiles of hyperparameters are asked for, ascending."""
    scores = np.linspace(NEAREST, FARTHEST, SCORES)
    return np.concatenate([-scores[::-1], scores])


def _equally_probable(at: FloatArray, values: FloatArray) -> FloatArray:
    """`POINTS` equally probable values from quantiles (..., c) at normal scores (c,), (..., POINTS)."""
    wanted = ndtri((np.arange(POINTS) + 0.5) / POINTS)
    drawn = [_interpolated(wanted, at, each) for each in values.reshape(-1, at.size)]
    return np.stack(drawn).reshape(*values.shape[:-1], POINTS)


def _interpolated(wanted: FloatArray, at: FloatArray, values: FloatArray) -> FloatArray:
    """Values at normal scores; of a point, which may be infinite, that point."""
    if (values == values[0]).all():
        return np.full(wanted.size, values[0])
    return np.interp(wanted, at, values)
