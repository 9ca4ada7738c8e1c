"""Results of a ridge regression of ordered categories with a penalty for each band of columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import pandas as pd

from pybayesridge._types import ArrayLike, RowsLike
from pybayesridge.checks import check_which
from pybayesridge.findings import Finding
from pybayesridge.results import findings
from pybayesridge.results.generalized_bands import GeneralizedBandRidgeResults
from pybayesridge.results.ordinal_ridge import OrderedCategories
from pybayesridge.results.prediction import CategoryPrediction, GeneralizedPrediction


class OrdinalBandRidgeResults(OrderedCategories, GeneralizedBandRidgeResults):
    """Posterior of a ridge regression of ordered categories with a penalty for each band of columns.

    Made by :meth:`pybayesridge.BayesRidge.fit` with ``family="ordinal"`` of a model with ``bands``, or of a formula
    with terms such as ``(1 | g)`` and ``s(x)``: a cumulative model with random effects and smooth curves. All is as
    for one penalty, but the penalty itself, in whose place there are the variances of the bands:
    :meth:`variance_components`.

    Parameters
    ----------
    model : BayesRidge
    fit : OrdinalBandFit
    method, solver, parameterization, tol, maxiter
        As given to ``fit``.
    recipe : Recipe

    Attributes
    ----------
    categories : tuple of str
        In their order.
    """

    model_name: ClassVar[str] = "BayesRidge"

    def predict(  # type: ignore[override]
        self,
        exog: RowsLike | None = None,
        transform: bool = True,
        which: str = "mean",
        exposure: ArrayLike | str | None = None,
        new_levels: str = "sample",
        groups: bool = True,
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
        new_levels, groups
            As for :meth:`get_prediction`.

        Returns
        -------
        DataFrame or Series
            A row for each row of `exog`; of probabilities a column for each category. NaN in rows where another
            variable of the formula is missing.
        """
        rows, split, labels, _ = self._new_rows(exog, transform, exposure, None, new_levels, groups)
        return self._told_at(rows, split, labels, which)

    def get_prediction(  # type: ignore[override]
        self,
        exog: RowsLike | None = None,
        transform: bool = True,
        which: str = "mean",
        row_labels: Sequence[Any] | pd.Index | None = None,
        exposure: ArrayLike | str | None = None,
        new_levels: str = "sample",
        groups: bool = True,
    ) -> GeneralizedPrediction | CategoryPrediction:
        """Predictions with uncertainty; ``.summary_frame(alpha)`` has credible intervals.

        Means of probabilities are exact for the approximate posterior; standard deviations and intervals are those of
        4,000 draws from it, the same at each call.

        Parameters
        ----------
        exog, transform, which, row_labels, exposure
            As for :meth:`predict`; labels of the rows, instead of those of `exog`. Groups may be ones that the fit
            has not seen, or missing.
        new_levels : {"sample", "zero"}
            The effect of such a group: ``"sample"`` is a draw from the population of groups, with mean 0 and the
            variance of the band; ``"zero"`` is 0, that of a group in the middle.
        groups : bool
            Whether the effects of groups, such as ``(1 | g)``, are part of the prediction; without them it is that of
            a group in the middle.
        """
        rows, split, labels, extent = self._new_rows(exog, transform, exposure, None, new_levels, groups)
        labels = labels if row_labels is None else pd.Index(row_labels)
        if check_which(which) == "linear":
            return self._predictions(rows, split, labels, which, extent)
        return self._category_prediction(rows, split, labels)

    def _findings_on_reading(self) -> list[Finding]:
        return [findings.intervals_of_generalized_bands(self), *findings.on_reading_ordinal(self)]
