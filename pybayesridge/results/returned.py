"""What type checkers know of the results that ``fit`` returns, where the class depends on the family."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import pandas as pd

from pybayesridge.results.generalized_ridge import GeneralizedRidgeResults
from pybayesridge.results.generalized_spike_slab import GeneralizedSpikeSlabResults
from pybayesridge.results.ridge import BayesRidgeResults
from pybayesridge.results.spike_slab import SpikeSlabResults

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from pybayesridge._types import ArrayLike, FloatArray, RowsLike
    from pybayesridge.models.ridge import BayesRidge
    from pybayesridge.models.spike_slab import SpikeSlab
    from pybayesridge.results.prediction import BayesPrediction

    class RidgeResults(BayesRidgeResults, GeneralizedRidgeResults):  # type: ignore[misc]
        """What ``BayesRidge.fit`` returns: one of the two, which of them depends on the family."""

        model: BayesRidge

        def predict(  # type: ignore[override]
            self, exog: RowsLike | None = None, transform: bool = True, which: str = "mean"
        ) -> pd.Series | pd.DataFrame:
            """See :meth:`LinearResults.predict`, and with `which` :meth:`GeneralizedRidgeResults.predict`."""

        def get_prediction(  # type: ignore[override]
            self,
            exog: RowsLike | None = None,
            transform: bool = True,
            weights: ArrayLike | None = None,
            which: str = "mean",
            row_labels: Sequence[Hashable] | pd.Index | None = None,
        ) -> BayesPrediction:
            """See :meth:`LinearResults.get_prediction` and :meth:`GeneralizedRidgeResults.get_prediction`."""

    class SelectionResults(GeneralizedSpikeSlabResults):
        """What ``SpikeSlab.fit`` returns: one of the two, which of them depends on the family."""

        model: SpikeSlab
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
        energy_trace: FloatArray

        def predict(self, exog: RowsLike | None = None, transform: bool = True, which: str = "mean") -> pd.Series:
            """See :meth:`LinearResults.predict`, and with `which` :meth:`GeneralizedSpikeSlabResults.predict`."""

        def get_prediction(  # type: ignore[override]
            self,
            exog: RowsLike | None = None,
            transform: bool = True,
            weights: ArrayLike | None = None,
            which: str = "mean",
            row_labels: Sequence[Hashable] | pd.Index | None = None,
        ) -> BayesPrediction:
            """As of the ridge: see :meth:`LinearResults.get_prediction`."""


AnyResults: TypeAlias = BayesRidgeResults | GeneralizedRidgeResults | SpikeSlabResults | GeneralizedSpikeSlabResults
"""Results of one of the models, as `fit` returns them."""
