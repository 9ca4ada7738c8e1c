"""Results as ``fit`` and ``load`` return them: what type checkers know where the class depends on the family."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

import pandas as pd

from pybayesridge.results.bands import BandRidgeResults
from pybayesridge.results.generalized_bands import GeneralizedBandRidgeResults
from pybayesridge.results.generalized_spike_slab import GeneralizedSpikeSlabResults
from pybayesridge.results.ridge import BayesRidgeResults

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from pybayesridge._types import ArrayLike, RowsLike
    from pybayesridge.models.priors import RidgeModel, SelectionModel
    from pybayesridge.results.prediction import BayesPrediction

    Ridge = TypeVar("Ridge", bound=RidgeModel)
    Selection = TypeVar("Selection", bound=SelectionModel)

    class RidgeResults(  # type: ignore[misc]
        BayesRidgeResults, BandRidgeResults, GeneralizedBandRidgeResults, Generic[Ridge]
    ):
        """What ``BayesRidge.fit`` returns: one of the four, which depends on the family and on bands."""

        model: Ridge

        def predict(  # type: ignore[override]
            self,
            exog: RowsLike | None = None,
            transform: bool = True,
            which: str = "mean",
            exposure: ArrayLike | str | None = None,
            new_levels: str = "sample",
            groups: bool = True,
        ) -> pd.Series | pd.DataFrame:
            """See :meth:`LinearResults.predict`, and with `which` :meth:`GeneralizedRidgeResults.predict`."""

        def get_prediction(  # type: ignore[override]
            self,
            exog: RowsLike | None = None,
            transform: bool = True,
            weights: ArrayLike | None = None,
            which: str = "mean",
            row_labels: Sequence[Hashable] | pd.Index | None = None,
            exposure: ArrayLike | str | None = None,
            new_levels: str = "sample",
            groups: bool = True,
            trials: ArrayLike | str | None = None,
        ) -> BayesPrediction:
            """See :meth:`LinearResults.get_prediction` and :meth:`GeneralizedRidgeResults.get_prediction`."""

    class SelectionResults(GeneralizedSpikeSlabResults, Generic[Selection]):
        """What ``SpikeSlab.fit`` returns: one of the two, which of them depends on the family."""

        model: Selection
        params: pd.Series
        bse: pd.Series
        posterior_var: pd.Series
        prob_positive: pd.Series
        prob_zero: pd.Series
        fittedvalues: pd.Series
        resid: pd.Series
        rsquared: float
        inclusion_prob: pd.Series
        inclusion_se: pd.Series
        cond_mean: pd.Series
        cond_var: pd.Series
        sigma2: float
        noise_var: float

        def predict(  # type: ignore[override]
            self, exog: RowsLike | None = None, transform: bool = True, which: str = "mean"
        ) -> pd.Series:
            """See :meth:`LinearResults.predict`, and with `which` :meth:`GeneralizedSpikeSlabResults.predict`."""

        def get_prediction(  # type: ignore[override]
            self,
            exog: RowsLike | None = None,
            transform: bool = True,
            weights: ArrayLike | None = None,
            which: str = "mean",
            row_labels: Sequence[Hashable] | pd.Index | None = None,
            exposure: ArrayLike | str | None = None,
            trials: ArrayLike | str | None = None,
        ) -> BayesPrediction:
            """As of the ridge: see :meth:`LinearResults.get_prediction`."""

    AnyResults: TypeAlias = RidgeResults[Any] | SelectionResults[Any]
