"""BayesRidge as a regressor, and what the classifier shares with it."""

from __future__ import annotations

import inspect
from typing import Any, Self

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


class RidgeEstimator(LinearEstimator):
    """The fit that the regressor and the classifier share."""

    _accept_sparse = SPARSE
    _model = "BayesRidge"
    method: str | None
    standardize: bool
    prior: str | tuple[float, ...]
    sigma2: float | None
    unpenalized: Names | None
    bands: BandsLike | None = None
    groups: Names | None = None
    family: FamilyLike = "gaussian"
    dispersion: float | None = None
    df: float | None = None

    def _fit_model(self, X: Any, y: AnyArray, weight: FloatArray | None, names: list[str] | None) -> None:
        if issparse(X) and X.format == "coo":
            X = X.tocsc()
        model = BayesRidge(
            named(y, names),
            self._columns(X),
            intercept=self._model_intercept(),
            weights=weight,
            unpenalized=self.unpenalized,
            standardize=self.standardize,
            prior=self.prior,
            bands=self.bands,
            sigma2=self.sigma2,
            family=self.family,
            dispersion=self.dispersion,
            df=self.df,
        )
        results = model.fit(self.method, **self._options())
        self._take_results(results, y.ndim == 1)
        self._take_hyperparameters(results, y.ndim == 1)

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
        """The options of ``fit`` that were chosen: with bands or another family defaults are others."""
        options = super()._options()
        defaults = inspect.signature(type(self)).parameters
        return {name: value for name, value in options.items() if value is not defaults[name].default}

    def __sklearn_tags__(self) -> Tags:
        """Sparse columns are taken."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
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
        if self.groups is not None:
            self._fit_with_groups(X, y, sample_weight, names)
            return self
        checked = validate_data(
            self, X, y, accept_sparse=SPARSE, dtype=DTYPES, multi_output=True, y_numeric=True, ensure_min_samples=2
        )
        X, y, weight = used_rows(checked[0], checked[1], sample_weight)
        self._fit_model(X, y, weight, names)
        return self

    def _fit_with_groups(
        self, X: TableLike, y: ArrayLike, sample_weight: ArrayLike | None, names: list[str] | None
    ) -> None:
        """Fit the formula that has a term for each group."""
        assert self.groups is not None
        X, y = validate_data(self, X, y, skip_check_array=True)
        columns = GroupColumns.of(self.groups, getattr(self, "feature_names_in_", None), self.n_features_in_)
        rows = columns.frame(X)
        y = np.asarray(_check_y(y, multi_output=True, y_numeric=True, estimator=self))
        check_consistent_length(rows, y)
        if len(rows) < 2:
            raise ValueError(f"X has {len(rows)} sample(s), and two are needed")
        at, y, weight = used_rows(np.arange(len(rows))[:, None], y, sample_weight)
        rows = rows.iloc[at[:, 0]].reset_index(drop=True)
        columns.refuse_missing(rows)
        responses = responses_as_columns(y, names, columns.names)
        constant = columns.constant(rows) if self.fit_intercept else []
        free = columns.unpenalized(self.unpenalized, constant)
        model = BayesRidge.from_formula(
            columns.formula(list(responses), intercept=self.fit_intercept),
            pd.concat([rows, pd.DataFrame(responses)], axis=1),
            drop_cols=constant,
            missing="raise",
            weights=weight,
            unpenalized=free,
            bands=columns.bands(self.bands, free, constant),
            standardize=self.standardize,
            prior=self.prior,
            sigma2=self.sigma2,
            family=self.family,
            dispersion=self.dispersion,
            df=self.df,
        )
        results = model.fit(self.method, **self._options())
        self._groups = columns
        self._take_results(results, y.ndim == 1)
        varies = [name not in constant for name in columns.plain_names]
        coef = np.atleast_2d(self.coef_)
        spread = np.zeros((len(coef), len(varies)))
        spread[:, varies] = coef[:, : sum(varies)]
        self.coef_ = spread[0] if y.ndim == 1 else spread
        self._take_hyperparameters(results, y.ndim == 1)

    def _linear_predictor(self, X: TableLike) -> tuple[FloatArray, Any]:
        """With groups that the fit has not seen at 0."""
        if self.groups is None:
            return super()._linear_predictor(X)
        check_is_fitted(self)
        rows = self._groups.frame(validate_data(self, X, skip_check_array=True, reset=False))
        results: Any = self.result_
        linear = results.model.distribution.is_linear
        how = {} if linear else {"which": "linear", "new_levels": "zero"}
        return np.asarray(results.predict(rows, **how), dtype=np.float64), rows

    def _response(self, rows: Any) -> FloatArray:
        """With groups that the fit has not seen at 0."""
        if self.groups is None:
            return super()._response(rows)
        results: Any = self.result_
        return np.asarray(results.predict(rows, new_levels="zero"), dtype=np.float64)

    def __sklearn_tags__(self) -> Tags:
        """Several targets are taken, if the family does; with groups text in place of sparse columns."""
        tags, family = super().__sklearn_tags__(), class_of(named_family(self.family)[0])
        tags.target_tags.multi_output = family is None or family.max_targets != 1
        if self.groups is not None:
            tags.input_tags.sparse, tags.input_tags.categorical, tags.input_tags.string = False, True, True
        return tags
