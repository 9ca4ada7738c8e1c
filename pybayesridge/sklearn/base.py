"""The common part of the estimators: weights, the model's arguments, coefficients in scikit-learn's shapes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal, overload

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from pybayesridge._types import AnyArray, ArrayLike, FamilyLike, FloatArray, TableLike
from pybayesridge.data.arrays import NamedColumns
from pybayesridge.data.frames import to_pandas
from pybayesridge.families.registry import class_of
from pybayesridge.families.registry import named as named_family
from pybayesridge.models.methods import OPTIONS

if TYPE_CHECKING:
    from pybayesridge.results.bands import BandRidgeResults
    from pybayesridge.results.base import LinearResults
    from pybayesridge.results.generalized_ridge import GeneralizedRidgeResults
    from pybayesridge.results.generalized_spike_slab import GeneralizedSpikeSlabResults
    from pybayesridge.results.ridge import BayesRidgeResults
    from pybayesridge.results.spike_slab import SpikeSlabResults

SPARSE = ("csr", "csc", "coo")
DTYPES = (np.float64, np.float32)


class LinearEstimator(BaseEstimator):
    """An estimator with `coef_`, `intercept_` and the full results in `result_`."""

    fit_intercept: bool
    coef_: FloatArray
    intercept_: float | FloatArray
    n_features_in_: int
    result_: LinearResults | list[GeneralizedRidgeResults]
    _accept_sparse: bool | tuple[str, ...] = False
    _model: ClassVar[str]

    def _options(self) -> dict[str, Any]:
        """The options of the model's ``fit`` that this estimator has as parameters."""
        own = self.get_params(deep=False)
        return {name: own[name] for name in OPTIONS[self._model] if name in own}

    def _linear_predictor(self, X: TableLike) -> tuple[FloatArray, Any]:
        """``X coef_' + intercept_`` for new rows, and the rows as checked."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse=self._accept_sparse, dtype=DTYPES, reset=False)
        return safe_sparse_dot(X, self.coef_.T, dense_output=True) + self.intercept_, X

    def _model_intercept(self) -> bool | str:
        """A constant column never serves as the intercept here: its coefficient is 0, whatever new rows hold."""
        return "add" if self.fit_intercept else False

    def _columns(self, X: Any) -> Any:
        """The columns for the model, named where scikit-learn knows their names."""
        names = getattr(self, "feature_names_in_", None)
        return X if names is None else NamedColumns(X, [str(name) for name in names])

    def _take_results(self, results: BayesRidgeResults | SpikeSlabResults, one_target: bool) -> None:
        """Set the attributes that both families have.

        Parameters
        ----------
        results : results of the model
        one_target : bool
            Whether the response was a vector, so that arrays over targets lose that axis.
        """
        params = results.arrays.params
        params = params[:, None] if params.ndim == 1 else params
        shift = int(self.fit_intercept)
        coef = np.ascontiguousarray(params[shift:].T)
        intercept = params[0] if shift else np.zeros(params.shape[1])
        self.result_ = results
        self.coef_ = coef[0] if one_target else coef
        self.intercept_ = float(intercept[0]) if one_target else intercept
        self.n_iter_ = int(results.n_iter)


class Regressor(RegressorMixin, LinearEstimator):
    """A regressor that can say how sure it is."""

    result_: BayesRidgeResults | BandRidgeResults | SpikeSlabResults | GeneralizedSpikeSlabResults
    family: FamilyLike
    _classifier: ClassVar[str]

    def _check_family(self) -> None:
        """Refuse families whose responses are not one number a row; the models say what they do not have."""
        family = class_of(named_family(self.family)[0])
        if family is not None and family.has_classes and not family.is_linear:
            raise ValueError(f"family={family.name!r} is for yes/no responses: use {self._classifier}")
        if family is not None and (family.has_cuts or family.per_row == "trials"):
            raise ValueError(f"family={family.name!r} has no estimator here: use pybayesridge.BayesRidge")

    @overload
    def predict(self, X: TableLike, return_std: Literal[False] = False) -> FloatArray: ...

    @overload
    def predict(self, X: TableLike, return_std: Literal[True]) -> tuple[FloatArray, FloatArray]: ...

    def predict(self, X: TableLike, return_std: bool = False) -> FloatArray | tuple[FloatArray, FloatArray]:
        """Predict new observations.

        Parameters
        ----------
        X : (m, p) array-like or sparse matrix
            New rows, with the columns of the fit.
        return_std : bool, default False
            Also return the standard deviation of the predictive distribution of a new observation of average
            weight: that of the linear predictor and the noise together, as scikit-learn's ``BayesianRidge`` does.
            Sparse rows are made dense for it.

        Returns
        -------
        mean : (m,) or (m, q) array
            Posterior means.
        std : (m,) or (m, q) array
            With ``return_std=True``. Intervals: ``result_.get_prediction(X).conf_int(obs=True)``.
        """
        mean, rows = self._linear_predictor(X)
        family = self.result_.model.distribution
        if not family.is_linear:
            if return_std:
                raise ValueError(
                    f"return_std is for family='gaussian', not {family.name!r}: result_.get_prediction(X) has "
                    "intervals"
                )
            return self._response(rows)
        if not return_std:
            return mean
        return mean, self.result_.get_prediction(rows).se_obs.reshape(mean.shape)

    def _response(self, rows: Any) -> FloatArray:
        """Predicted responses at checked rows, of a family whose mean is not the linear predictor."""
        return np.asarray(self.result_.predict(rows), dtype=np.float64)


def used_rows(
    X: AnyArray, y: AnyArray, sample_weight: ArrayLike | None
) -> tuple[AnyArray, AnyArray, FloatArray | None]:
    """The rows whose weight is not zero, and the weights of these.

    Raises
    ------
    ValueError
        For weights that are negative, not finite or all zero.
    """
    if sample_weight is None:
        return X, y, None
    weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    keep = weight > 0
    if not keep.any():
        raise ValueError("sample_weight is zero in every row: nothing is left to fit")
    if keep.all():
        return X, y, weight
    rows = np.flatnonzero(keep)
    return X[rows], y[rows], weight[rows]


def target_names(y: ArrayLike) -> list[str] | None:
    """Names that the response carries, for the tables of `result_`."""
    y = to_pandas(y, "y")
    if isinstance(y, pd.Series) and y.name is not None:
        return [str(y.name)]
    return [str(name) for name in y.columns] if isinstance(y, pd.DataFrame) else None


def named(y: AnyArray, names: list[str] | None) -> AnyArray | pd.DataFrame:
    """The response as the model takes it."""
    if names is None:
        return y
    return pd.DataFrame(y.reshape(len(y), -1), columns=names)
