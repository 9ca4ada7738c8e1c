"""BayesRidge as a regressor, and what the classifier shares with it."""

from __future__ import annotations

import inspect
from typing import Any, Self, cast

import numpy as np
import pandas as pd
from scipy.sparse import issparse
from sklearn.utils import Tags
from sklearn.utils.validation import _check_y, check_consistent_length, check_is_fitted, validate_data

from pybayesridge._types import AnyArray, ArrayLike, BandsLike, FamilyLike, FloatArray, Names, TableLike
from pybayesridge.families.registry import class_of
from pybayesridge.families.registry import named as named_family
from pybayesridge.models.ridge import BayesRidge
from pybayesridge.results.bands import BandRidgeResults
from pybayesridge.results.ridge import BayesRidgeResults
from pybayesridge.sklearn.base import DTYPES, SPARSE, LinearEstimator, Regressor, named, target_names, used_rows
from pybayesridge.sklearn.groups import GroupColumns, responses_as_columns

ARGUMENTS = ("standardize", "prior", "sigma2", "link", "dispersion", "df", "flat_in")
"""Arguments of the model that estimators have under the same name."""


class RidgeEstimator(LinearEstimator):
    """The fit that the regressor and the classifier share."""

    _accept_sparse = SPARSE
    _model = "BayesRidge"
    method: str | None
    standardize: bool
    prior: str | tuple[float, ...]
    sigma2: float | None
    unpenalized: Names | None
    bands: BandsLike | None
    groups: Names | None
    family: FamilyLike

    def _checked(
        self, X: TableLike, y: ArrayLike, sample_weight: ArrayLike | None, **how: Any
    ) -> tuple[Any, AnyArray, FloatArray | None]:
        """Columns, or with groups rows of a frame, responses and weights, without rows of weight 0.

        `how` are further arguments of scikit-learn's check of the responses.
        """
        if self.groups is None:
            columns_of_x, responses = validate_data(
                self, X, y, accept_sparse=SPARSE, dtype=DTYPES, multi_output=True, ensure_min_samples=2, **how
            )
            return used_rows(columns_of_x, responses, sample_weight)
        X, y = validate_data(self, X, y, skip_check_array=True)
        columns = GroupColumns.of(self.groups, getattr(self, "feature_names_in_", None), self.n_features_in_)
        rows = columns.frame(X)
        y = np.asarray(_check_y(y, multi_output=True, estimator=self, **how))
        check_consistent_length(rows, y)
        if len(rows) < 2:
            raise ValueError(f"X has {len(rows)} sample(s), and two are needed")
        at, y, weight = used_rows(np.arange(len(rows))[:, None], y, sample_weight)
        rows = rows.iloc[at[:, 0]].reset_index(drop=True)
        columns.refuse_missing(rows)
        self._groups = columns
        return rows, y, weight

    def _fitted(self, X: Any, y: AnyArray, weight: FloatArray | None, names: list[str] | None) -> Any:
        """The results of a model of checked rows."""
        own = self.get_params(deep=False)
        given = self._chosen({name: own[name] for name in ARGUMENTS if name in own})
        given |= {"family": self.family, "weights": weight}
        if self.groups is None:
            if issparse(X) and X.format == "coo":
                X = X.tocsc()
            model = BayesRidge(
                named(y, names),
                self._columns(X),
                intercept=self._model_intercept(),
                unpenalized=self.unpenalized,
                bands=self.bands,
                **given,
            )
            return model.fit(self.method, **self._options())
        columns, without = self._groups, self._without(X)
        responses = responses_as_columns(y, names, columns.names)
        free = columns.unpenalized(self.unpenalized, without)
        model = BayesRidge.from_formula(
            columns.formula(list(responses), intercept=self.fit_intercept),
            pd.concat([X, pd.DataFrame(responses)], axis=1),
            drop_cols=without,
            missing="raise",
            unpenalized=free,
            bands=columns.bands(self.bands, free, without),
            **given,
        )
        return model.fit(self.method, **self._options())

    def _without(self, X: Any) -> list[str]:
        """Constant columns beside groups, which the model does not have."""
        return self._groups.constant(X) if self.groups is not None and self.fit_intercept else []

    def _fit_model(self, X: Any, y: AnyArray, weight: FloatArray | None, names: list[str] | None) -> None:
        """Fit one model of all responses."""
        results, one_target = self._fitted(X, y, weight, names), y.ndim == 1
        self._take_results(results, one_target)
        self.coef_ = self._of_features(self.coef_, X)
        self._take_hyperparameters(results, one_target)

    def _of_features(self, coef: FloatArray, X: Any) -> FloatArray:
        """Coefficients (p,) or (q, p) of all columns but groups, from those of the model of checked rows."""
        if self.groups is None:
            return coef
        varies = np.array([name not in self._without(X) for name in self._groups.plain_names], dtype=bool)
        out = np.zeros((*coef.shape[:-1], varies.size))
        out[..., varies] = coef[..., : int(varies.sum())]
        return out

    def _take_hyperparameters(self, results: Any, one_target: bool) -> None:
        """Set penalties and noise variances, of fits that have them."""
        for name in ("lambda_", "tau2_", "sigma2_"):
            self.__dict__.pop(name, None)
        if results.model.bands is None:
            self.lambda_ = _per_target(results.lambda_, one_target)
            self.tau2_ = _per_target(results.tau2, one_target)
        if results.model.distribution.has_noise:
            self.sigma2_ = _per_target(results.sigma2, one_target)

    def _options(self) -> dict[str, Any]:
        """The options of ``fit`` that were chosen."""
        return self._chosen(super()._options())

    def _chosen(self, given: dict[str, Any]) -> dict[str, Any]:
        """Parameters that were given: with bands or another family defaults are others."""
        defaults = inspect.signature(type(self)).parameters
        return {name: value for name, value in given.items() if value is not defaults[name].default}

    def _checked_new(self, X: TableLike) -> Any:
        """Rows to predict, with groups those of a frame."""
        check_is_fitted(self)
        if self.groups is not None:
            return self._groups.frame(validate_data(self, X, skip_check_array=True, reset=False))
        return validate_data(self, X, accept_sparse=SPARSE, dtype=DTYPES, reset=False)

    def _linear_predictor(self, X: TableLike) -> tuple[FloatArray, Any]:
        """With groups that the fit has not seen at 0."""
        if self.groups is None:
            return super()._linear_predictor(X)
        rows, results = self._checked_new(X), cast("Any", self.result_)
        how = {} if results.model.distribution.is_linear else {"which": "linear"}
        linear = np.asarray(results.predict(rows, new_levels="zero", **how), dtype=np.float64)
        return linear.reshape(len(linear), *self.coef_.shape[:-1]), rows

    def __sklearn_tags__(self) -> Tags:
        """Sparse columns are taken; with groups text in place of these."""
        tags, grouped = super().__sklearn_tags__(), self.groups is not None
        tags.input_tags.sparse = not grouped
        tags.input_tags.categorical = tags.input_tags.string = grouped
        return tags


def _per_target(value: float | pd.Series, one_target: bool) -> float | FloatArray:
    array = np.atleast_1d(np.asarray(value, dtype=np.float64))
    return float(array[0]) if one_target else array


class BayesRidgeRegressor(Regressor, RidgeEstimator):
    """Bayesian ridge regression whose penalty is found from its posterior, as a scikit-learn regressor.

    The numbers are those of :class:`pybayesridge.BayesRidge`, whose results object is `result_`.

    Parameters
    ----------
    method : str, optional
        How the penalty is found; see :meth:`pybayesridge.BayesRidge.fit`. By default ``"exact"``, with another
        `family` ``"ep"``.
    fit_intercept : bool, default True
        Whether there is an unpenalised intercept. A constant column of X never serves as it: its coefficient is 0.
        Without an intercept a constant column cannot be standardised and is refused, unless it is among
        `unpenalized` or ``standardize=False``.
    standardize : bool, default True
        The prior is on the scale of each column's (weighted, 1/n) standard deviation; `coef_` is on that of X.
    prior : {"r2", "half-cauchy"}, (a, b) or (a, b, scale), default "r2"
        Prior of tau2; see :class:`pybayesridge.BayesRidge`.
    bands : dict of columns by name, or sequence of labels, optional
        Columns that have a penalty of their own, by positions or by names that X has; see
        :class:`pybayesridge.BayesRidge`. The methods are then ``"exact"``, ``"em"``, ``"reml"`` and ``"fixed"``.
    groups : names or positions, optional
        Columns whose values are groups of rows, such as schools: text, numbers or categories. The effects of the
        levels of each, ``(1 | g)`` in formulas, have a variance of their own; see
        :class:`pybayesridge.BayesRidge`. In ``predict`` levels that the fit has not seen, and missing ones, have the
        effect 0; ``return_std`` includes the variance of such effects. Names need an X that has them.
    sigma2 : float, optional
        The noise variance where it is known.
    family : {"gaussian", "student-t", "poisson", "negative-binomial"}, default "gaussian"
        The distribution of the response. ``"student-t"`` is for responses with outliers. With the last two y are
        counts and ``predict`` gives expected counts (posterior medians); for exposures use
        :class:`pybayesridge.BayesRidge`, as for shares of trials and ordered categories. For yes/no responses use
        :class:`BayesRidgeClassifier`.
    dispersion : float, optional, for ``family="negative-binomial"``
        The dispersion where it is known; otherwise it is integrated out.
    df : float, optional, for ``family="student-t"``
        The degrees of freedom of the noise where they are known; otherwise they are averaged over.
    unpenalized : names or positions, optional
        Columns with a flat prior: never shrunk. Names need an X that has them.
    lam : float or (q,) array, for ``method="fixed"``
        The penalty of ``||y - Xb||^2 + lam ||b||^2`` on the standardised scale; with ``standardize=False`` it is
        ``Ridge``'s `alpha`.
    grid : {"fixed", "glmnet"} or array, for ``method="loocv"`` and ``"gcv"``
        Penalties to try.
    dof : {"nu", "paper"}
        Count the data as ``n - rank(Z)`` or as n.
    parameterization : {"tau2", "tau"}
        Whether the mode is that of a density in tau2 or in tau.
    accelerate : bool, default True
        Find EM's fixed point by root finding; the answers are the same.
    tol, maxiter : float, int
        Accuracy of log lambda, and most iterations.

    Attributes
    ----------
    coef_ : (p,) or (q, p) array
        Posterior means, on the scale of X. Without columns that are `groups`, whose effects
        ``result_.random_effects()`` has.
    intercept_ : float or (q,) array
    lambda_ : float or (q,) array
        The penalty on the standardised scale: ratio of the noise variance to the prior variance. (The attribute
        of this name of ``BayesianRidge`` is the prior precision.) Not with `bands` or `groups`.
    tau2_ : float or (q,) array
        ``1 / lambda_``. Not with `bands` or `groups`, whose variances ``result_.variance_components()`` has.
    sigma2_ : float or (q,) array
        Noise variance. Only with ``family="gaussian"``.
    result_ : BayesRidgeResults
        Intervals, summaries, draws; it refers to the data, which ``result_.remove_data()`` drops before pickling.
    n_iter_ : int
    n_features_in_ : int
    feature_names_in_ : (p,) array of str
        Where X has names.

    Notes
    -----
    `sample_weight` are precision weights: only their ratios matter, and a weight of 2 is a noise variance half as
    large, not a row twice. (Rows repeated are more data, and shrink less.) With other families they are
    frequency weights: a row of weight 2 is that row twice. Rows of weight 0 are left out.

    A degenerate fit (no signal, no noise) warns with :class:`pybayesridge.DegenerateFitWarning`.

    References
    ----------
    Tew, Boley & Schmidt (2023). Bayes beats Cross Validation: Fast and Accurate Ridge Regression via Expectation
    Maximization. NeurIPS.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from pybayesridge.sklearn import BayesRidgeRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> regressor = BayesRidgeRegressor("exact").fit(X, y)
    >>> mean, std = regressor.predict(X[:2], return_std=True)

    Rows in groups:

    >>> import statsmodels.api as sm
    >>> grunfeld = sm.datasets.grunfeld.load_pandas().data
    >>> X, y = grunfeld[["value", "capital", "firm"]], grunfeld["invest"]
    >>> regressor = BayesRidgeRegressor(groups=["firm"]).fit(X, y)
    >>> regressor.result_.variance_components().index.tolist()
    ['firm', 'other']
    """

    result_: BayesRidgeResults | BandRidgeResults
    _classifier = "BayesRidgeClassifier"

    def __init__(
        self,
        method: str | None = None,
        *,
        fit_intercept: bool = True,
        standardize: bool = True,
        prior: str | tuple[float, ...] = "r2",
        bands: BandsLike | None = None,
        groups: Names | None = None,
        sigma2: float | None = None,
        family: FamilyLike = "gaussian",
        dispersion: float | None = None,
        df: float | None = None,
        unpenalized: Names | None = None,
        lam: ArrayLike | None = None,
        grid: str | ArrayLike | None = None,
        dof: str = "nu",
        parameterization: str = "tau2",
        accelerate: bool = True,
        tol: float = 1e-8,
        maxiter: int = 10_000,
    ) -> None:
        self.method = method
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.prior = prior
        self.bands = bands
        self.groups = groups
        self.sigma2 = sigma2
        self.family = family
        self.dispersion = dispersion
        self.df = df
        self.unpenalized = unpenalized
        self.lam = lam
        self.grid = grid
        self.dof = dof
        self.parameterization = parameterization
        self.accelerate = accelerate
        self.tol = tol
        self.maxiter = maxiter

    def fit(self, X: TableLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : (n, p) array-like or sparse matrix
            The columns.
        y : (n,) or (n, q) array-like
            The response, or several.
        sample_weight : (n,) array-like, optional
            Precision weights; see the notes of the class.

        Returns
        -------
        self
            Fitted.

        Raises
        ------
        ValueError
            For data or arguments that cannot be a regression; the message names the column or argument.
        """
        if issparse(y):
            raise ValueError("y is sparse: the response must be dense")
        names = target_names(y)
        self._check_family()
        self._fit_model(*self._checked(X, y, sample_weight, y_numeric=True), names)
        return self

    def _response(self, rows: Any) -> FloatArray:
        """With groups that the fit has not seen at 0."""
        if self.groups is None:
            return super()._response(rows)
        results: Any = self.result_
        return np.asarray(results.predict(rows, new_levels="zero"), dtype=np.float64)

    def __sklearn_tags__(self) -> Tags:
        """Several targets are taken, if the family does."""
        tags, family = super().__sklearn_tags__(), class_of(named_family(self.family)[0])
        tags.target_tags.multi_output = family is None or family.max_targets != 1
        return tags
