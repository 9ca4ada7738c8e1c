"""Results of a ridge regression of ordered categories."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import numpy as np
import pandas as pd

from pybayesridge._types import ArrayLike, FloatArray, RandomLike, RowsLike
from pybayesridge.checks import check_which, positive_int
from pybayesridge.findings import Finding
from pybayesridge.results import findings
from pybayesridge.results.arguments import check_alpha
from pybayesridge.results.arviz import ChainDraws
from pybayesridge.results.facts import Written, rows_of
from pybayesridge.results.facts import interval_heads as heads
from pybayesridge.results.generalized_ridge import GeneralizedRidgeResults
from pybayesridge.results.labelled import Lacking, of_family
from pybayesridge.results.prediction import CategoryPrediction, GeneralizedPrediction
from pybayesridge.results.response_scale import over_complete

if TYPE_CHECKING:
    from pybayesridge._types import AnyArray

DRAWS = 4000
"""Draws by which intervals of probabilities are found."""

NO_NUMBERS = "ordered categories are no numbers: these results have no residuals; see predict() and ppc()"


class OrdinalRidgeResults(GeneralizedRidgeResults):
    """Posterior of a ridge regression of ordered categories.

    Made by :meth:`pybayesridge.BayesRidge.fit` with ``family="ordinal"``. Coefficients are on the scale of the
    latent response: a positive one moves the response towards higher categories. There is no intercept; its place is
    taken by the cut points, see :meth:`cut_points`. Everything else is as for other responses that are not Gaussian.

    Parameters
    ----------
    model : BayesRidge
    fit : OrdinalFit
    method, solver, parameterization, tol, maxiter
        As given to ``fit``.
    recipe : Recipe

    Attributes
    ----------
    categories : tuple of str
        In their order.
    """

    model_name: ClassVar[str] = "BayesRidge"

    resid = Lacking(NO_NUMBERS)
    resid_response = Lacking(NO_NUMBERS)
    resid_pearson = Lacking(NO_NUMBERS)
    resid_deviance = Lacking(NO_NUMBERS)
    rsquared = Lacking(NO_NUMBERS)
    loo_means = Lacking(NO_NUMBERS)
    n_events = Lacking("ordered categories have no events: category_counts has the rows of each")

    def _take_sizes(self, fit: Any) -> None:
        self.size = fit.likelihood.total

    @of_family  # type: ignore[prop-decorator]
    @property
    def categories(self) -> tuple[str, ...]:
        """The categories in their order."""
        found: tuple[str, ...] = self.model.distribution.categories
        return found

    @property
    def category_counts(self) -> pd.Series:
        """Number of rows in each category, copies included."""
        rows: Any = self.sites_fit.likelihood
        return pd.Series(rows.counts, index=pd.Index(self.categories, name="category"))

    @property
    def constants(self) -> int:
        """Number of cut points; internal."""
        return len(self.categories) - 1

    @of_family
    def cut_points(self, alpha: float = 0.05) -> pd.DataFrame:
        """Posterior of the cut points: where on the scale of the linear predictor categories change.

        The probability of a category up to k is ``F(cut point k - linear predictor)``.

        Parameters
        ----------
        alpha : float
            One minus the probability of the intervals.

        Returns
        -------
        DataFrame
            A row for each cut point, named ``low|middle`` by the categories on either side: ``mean`` (the median
            where no mean exists), ``sd``, ``lower``, ``upper``.
        """
        law = self.posterior.cut_points()
        ends = law.components.quantiles(np.array([check_alpha(alpha) / 2, 1 - alpha / 2]))
        values = np.column_stack([law.center, law.sd, ends])
        return pd.DataFrame(values, index=self._cut_names, columns=["mean", "sd", "lower", "upper"])

    @property
    def _cut_names(self) -> list[str]:
        return [f"{low}|{high}" for low, high in zip(self.categories, self.categories[1:], strict=False)]

    @cached_property
    def _fitted_probabilities(self) -> FloatArray:
        if self.model.endog is None:
            raise ValueError(self.model.why_no_rows)
        rows = self.model.data.exog
        return self._probabilities(rows, self.model.split_rows(rows, self.posterior.design))

    @property
    def fittedvalues(self) -> pd.DataFrame:
        """Posterior means of the probabilities of the categories at the rows of the data, (n, K)."""
        return pd.DataFrame(self._fitted_probabilities, index=self.model.data.row_labels, columns=self.categories)

    def predict(  # type: ignore[override]
        self,
        exog: RowsLike | None = None,
        transform: bool = True,
        which: str = "mean",
        exposure: ArrayLike | str | None = None,
        **of_groups: Any,
    ) -> pd.DataFrame | pd.Series:
        """Posterior means of the probabilities of the categories, or the linear predictor.

        Parameters
        ----------
        exog, transform
            As for other responses.
        which : {"mean", "linear"}
            Probabilities, averaged over the posterior, or linear predictors at `params`, without a cut point.
        exposure
            Not for ordered categories.
        **of_groups
            With several penalties `new_levels` and `groups`, as for :meth:`get_prediction`.

        Returns
        -------
        DataFrame or Series
            A row for each row of `exog`; of probabilities a column for each category. NaN in rows where a variable of
            the formula is missing.
        """
        if check_which(which) == "linear":
            return super().predict(exog, transform, which, exposure, **of_groups)
        found = self.get_prediction(exog, transform, which, exposure=exposure, **of_groups)
        return pd.DataFrame(found.predicted_mean, index=found.row_labels, columns=self.categories)

    def _probabilities(self, rows: AnyArray, split: tuple[AnyArray, FloatArray]) -> FloatArray:
        x, z = split
        return over_complete(rows, lambda keep: self.posterior.probabilities(x[keep], z[keep]))

    def _predictions(  # type: ignore[override]
        self, rows: AnyArray, split: tuple[AnyArray, FloatArray], labels: pd.Index, which: str, extent: Any
    ) -> GeneralizedPrediction | CategoryPrediction:
        """Probabilities of the categories at rows with uncertainty, or linear predictors.

        Means of probabilities are exact for the approximate posterior; standard deviations and intervals are those of
        4,000 draws from it, the same at each call.
        """
        if check_which(which) == "linear":
            return super()._predictions(rows, split, labels, which, extent)
        x, z = split

        def drawn() -> FloatArray:
            def of(keep: Any) -> FloatArray:
                found = self.posterior.drawn_probabilities(x[keep], z[keep], DRAWS, np.random.default_rng(0))
                return np.moveaxis(found, 0, -1)

            return over_complete(rows, of)

        return CategoryPrediction(self._probabilities(rows, split), drawn, labels, list(self.categories))

    def sample(self, n: int, rng: RandomLike = None, hyper_columns: bool = False) -> pd.DataFrame:
        """Draw from the joint posterior of the coefficients.

        Parameters
        ----------
        n : int
            How many draws.
        rng : numpy.random.Generator, int or None
            Source of randomness, or a seed.
        hyper_columns : bool
            Add the draws of the cut points, named as in :meth:`cut_points`, and of ``tau2`` (with several penalties
            ``tau2[band]``, and correlations) that go with them.

        Returns
        -------
        DataFrame
            A row for each draw and a column for each coefficient.
        """
        drawn = self._draw_chain(positive_int("n", n), np.random.default_rng(rng))
        others = dict(drawn.others)
        cuts = zip(self._cut_names, others.pop("cut_points").T[..., None], strict=True)
        return replace(drawn, others=dict(cuts) | others).frame(self.model, hyper_columns=hyper_columns)

    def _draw_chain(self, n: int, generator: np.random.Generator) -> ChainDraws:
        of_z, b, cuts, which = self.posterior.draws_with_cuts(n, generator)
        beta = self.model.scatter(of_z.T, b.T, self.posterior.design).T
        return ChainDraws(beta[..., None], None, self._variances_at(which) | {"cut_points": cuts})

    def to_arviz(self, *_: Any, **__: Any) -> NoReturn:
        """Not available for ordered categories."""
        raise ValueError("to_arviz() is not available for family='ordinal': sample(n, hyper_columns=True) has draws")

    def to_marginaleffects(self, *_: Any, **__: Any) -> NoReturn:
        """Not available for ordered categories."""
        raise ValueError("to_marginaleffects() is not available for family='ordinal': use predict() or effects()")

    def effects(self, *given: Any, which: str = "linear", **options: Any) -> Any:
        """Average changes of the linear predictor with a variable."""
        return super().effects(*given, which=_linear(which), **options)

    def predictions(self, *given: Any, which: str = "linear", **options: Any) -> Any:
        """Linear predictors at chosen values."""
        return super().predictions(*given, which=_linear(which), **options)

    def plot_effect(self, *given: Any, which: str = "linear", **options: Any) -> Any:
        """Draw linear predictors over a variable."""
        return super().plot_effect(*given, which=_linear(which), **options)

    def _settle(self) -> None:
        _ = self.precision_loss, self.log_marginal, self.loo_log_score, self.no_loo_score

    def _release_rows(self, row_space: bool) -> None:
        super()._release_rows(row_space)
        self.__dict__.pop("_fitted_probabilities", None)

    def shown_tables(self, i: int, alpha: float) -> list[Written]:
        """The cut points, and what the fit shows besides: of variances and hyperparameters."""
        cuts = self.cut_points(alpha)
        own = Written(self._cut_names, [self.center, "sd", *heads(alpha)], rows_of(cuts.to_numpy()))
        return [own, *super().shown_tables(i, alpha)]

    def _findings_on_reading(self) -> list[Finding]:
        return [findings.intervals_of_generalized(self), *findings.on_reading_ordinal(self)]


def _linear(which: str) -> str:
    if check_which(which) == "mean":
        raise ValueError(
            "ordered categories have a probability each and no mean: use which='linear', odds_ratios(), or predict() "
            "for the probabilities"
        )
    return which
