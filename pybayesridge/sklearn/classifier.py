"""BayesRidge as a classifier: one regression of yes/no responses for each class."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from inspect import signature
from typing import Any, Self, cast

import numpy as np
from scipy.sparse import issparse
from sklearn.base import ClassifierMixin
from sklearn.preprocessing import LabelBinarizer
from sklearn.utils import Tags
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from pybayesridge._types import AnyArray, ArrayLike, BandsLike, FloatArray, Names, TableLike
from pybayesridge.families.registry import FAMILIES, class_of, make
from pybayesridge.models.methods import lanes_of
from pybayesridge.results.generalized_ridge import GeneralizedRidgeResults
from pybayesridge.results.ridge import BayesRidgeResults
from pybayesridge.sklearn.ridge import RidgeEstimator
from pybayesridge.text import either

CERTAIN = np.finfo(np.float64).eps / 2
"""A probability this near to 1 is 1 to the last digit."""


OF_CLASSES = [name for name, family in FAMILIES.items() if family.has_classes]
"""Families of which classifiers are made."""


def _has_probabilities(estimator: Any) -> bool:
    return not getattr(class_of(estimator.family), "is_linear", False)


def _arguments_of(family: str) -> set[str]:
    """Arguments of the ridge and of its ``fit`` that it takes for responses of a family, but not for every family."""
    return {*FAMILIES[family].takes, *lanes_of("BayesRidge")[family].takes}


class BayesRidgeClassifier(ClassifierMixin, RidgeEstimator):
    """Classification by Bayesian ridge regression of yes/no responses, one class versus the rest.

    Each class has a binomial regression of its own (class or not), with a penalty of its own; two classes need only
    one. Probabilities are posterior means, which average over the uncertainty of the coefficients and of the penalty.
    With more than two classes the probabilities of the separate regressions are divided by their sum, as in
    scikit-learn's ``OneVsRestClassifier``: there is no joint model of the classes.

    Parameters
    ----------
    method : str, optional
        How the penalties are found; see :meth:`pybayesridge.BayesRidge.fit`. By default ``"ep"``, or ``"exact"``.
    family : {"binomial", "gaussian"}, default "binomial"
        ``"gaussian"`` regresses targets of -1 and 1 instead, as scikit-learn's ``RidgeClassifier``: faster, with
        scores (`decision_function`) and without probabilities.
    link : {"logit", "probit"}, for ``family="binomial"``
    fit_intercept : bool, default True
        Whether there is an unpenalised intercept. A constant column of X never serves as it: its coefficient is 0.
    standardize : bool, default True
        The prior is on the scale of each column's (weighted, 1/n) standard deviation; `coef_` is on that of X.
    class_weight : dict or "balanced", optional
        Weights of the classes, which multiply `sample_weight`. Probabilities are then those of such a sample.
    prior : {"r2", "half-cauchy"}, (a, b) or (a, b, scale), default "r2"
        Prior of tau2; see :class:`pybayesridge.BayesRidge`.
    bands : dict of columns by name, or sequence of labels, optional
        Columns that have a penalty of their own; see :class:`BayesRidgeRegressor`.
    groups : names or positions, optional
        Columns whose values are groups of rows; see :class:`BayesRidgeRegressor`. Probabilities at levels that the
        fit has not seen, and at missing ones, average over the effects that such levels may have.
    unpenalized : names or positions, optional
        Columns with a flat prior: never shrunk.
    lam : float or dict, for ``method="fixed"``
        The penalty on the standardised scale; with `bands` or `groups` one for each of them by name. For
        ``family="gaussian"`` also a (q,) array; with ``standardize=False`` it is ``RidgeClassifier``'s `alpha`.
    grid : array, for ``method="loocv"``
        Penalties to try; for ``family="gaussian"`` also ``"fixed"`` or ``"glmnet"``.
    solver : {"ep", "laplace"}, for ``family="binomial"`` and ``"em"``, ``"loocv"`` and ``"fixed"``
        The approximation of the posterior of the coefficients.
    flat_in : {"latent", "link"}, for ``family="binomial"``
        Units in which the unpenalised coefficients have a flat prior.
    parameterization : {"tau2", "tau"}
        Whether the mode is that of a density in tau2 or in tau.
    sigma2, dof, accelerate : for ``family="gaussian"``
        As for :class:`BayesRidgeRegressor`.
    tol, maxiter : float, int, optional
        Accuracy and most iterations; the defaults are those of the model's ``fit``.

    Attributes
    ----------
    classes_ : array
    coef_ : (q, p) array
        Coefficients on the scale of the link; q is 1 for two classes. Without columns that are `groups`.
    intercept_ : (q,) array
    lambda_, tau2_ : (q,) arrays
        Penalties on the standardised scale, and ``1 / lambda_``. Not with `bands` or `groups`.
    sigma2_ : (q,) array
        With ``family="gaussian"``.
    result_ : GeneralizedRidgeResults, with bands or groups GeneralizedBandRidgeResults, or a list of them
        One for each class where there are more than two; with ``family="gaussian"`` one BayesRidgeResults of all.
    n_iter_ : int
    n_features_in_ : int
    feature_names_in_ : (p,) array of str
        Where X has names.

    Notes
    -----
    `sample_weight` are frequency weights: a weight of 2 counts a row twice (with ``family="gaussian"`` they are
    precision weights). Rows of weight 0 are left out.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from pybayesridge.sklearn import BayesRidgeClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> classifier = BayesRidgeClassifier().fit(X, y)
    >>> classifier.predict_proba(X[:2]).shape
    (2, 3)
    """

    result_: BayesRidgeResults | GeneralizedRidgeResults | list[GeneralizedRidgeResults]

    def __init__(
        self,
        method: str | None = None,
        *,
        family: str = "binomial",
        link: str = "logit",
        fit_intercept: bool = True,
        standardize: bool = True,
        class_weight: Mapping[Hashable, float] | str | None = None,
        prior: str | tuple[float, ...] = "r2",
        bands: BandsLike | None = None,
        groups: Names | None = None,
        sigma2: float | None = None,
        unpenalized: Names | None = None,
        lam: ArrayLike | None = None,
        grid: str | ArrayLike | None = None,
        solver: str = "ep",
        flat_in: str = "latent",
        dof: str = "nu",
        parameterization: str = "tau2",
        accelerate: bool = True,
        tol: float | None = None,
        maxiter: int | None = None,
    ) -> None:
        self.method = method
        self.family = family
        self.link = link
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.class_weight = class_weight
        self.prior = prior
        self.bands = bands
        self.groups = groups
        self.sigma2 = sigma2
        self.unpenalized = unpenalized
        self.lam = lam
        self.grid = grid
        self.solver = solver
        self.flat_in = flat_in
        self.dof = dof
        self.parameterization = parameterization
        self.accelerate = accelerate
        self.tol = tol
        self.maxiter = maxiter

    def fit(self, X: TableLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the regressions of all classes.

        Parameters
        ----------
        X : (n, p) array-like or sparse matrix
            The columns.
        y : (n,) array-like of labels, or (n, q) indicators of several labels a row
            The classes.
        sample_weight : (n,) array-like, optional
            See the notes of the class.

        Returns
        -------
        self
            Fitted.

        Raises
        ------
        ValueError
            For a single class, an argument of the other family, or data or arguments that cannot be a regression.
        """
        self._check_family()
        columns, y, weight = self._checked(X, y, sample_weight)
        check_classification_targets(y)
        binarizer = LabelBinarizer(pos_label=1, neg_label=-1)
        targets = binarizer.fit_transform(y).astype(np.float64)
        self._multilabel = binarizer.y_type_.startswith("multilabel")
        self.classes_ = binarizer.classes_
        if not self._multilabel:
            y = column_or_1d(y, warn=True)
            if len(self.classes_) < 2:
                raise ValueError(f"y has one class only, {self.classes_.tolist()[0]!r}: two are needed")
        if self.class_weight is not None:
            weight = (1.0 if weight is None else weight) * compute_sample_weight(self.class_weight, y)
        labels = [str(label) for label in (self.classes_[1:] if targets.shape[1] == 1 else self.classes_)]
        if _has_probabilities(self):
            self._fit_each(columns, targets > 0, weight, labels)
        else:
            self._fit_model(columns, targets, weight, labels)
        return self

    def _check_family(self) -> None:
        if self.family not in OF_CLASSES:
            raise ValueError(f"family must be {either(OF_CLASSES)}, not {self.family!r}")
        for name, parameter in signature(type(self)).parameters.items():
            families = [family for family in OF_CLASSES if name in _arguments_of(family)]
            not_its_own = families and name not in _arguments_of(self.family)
            if not_its_own and getattr(self, name) != parameter.default:
                of = " or ".join(map(repr, families))
                raise ValueError(f"{name} goes with family={of}: leave it at {parameter.default!r}")

    def _fit_each(self, X: Any, targets: AnyArray, weight: FloatArray | None, labels: list[str]) -> None:
        """One regression for each column of `targets`."""
        results = [self._fitted(X, targets[:, j], weight, [label]) for j, label in enumerate(labels)]
        params = np.stack([each.arrays.params for each in results])
        shift = int(self.fit_intercept)
        fits = cast("list[GeneralizedRidgeResults]", results)
        self.result_ = fits[0] if len(fits) == 1 else fits
        self.coef_ = self._of_features(np.ascontiguousarray(params[:, shift:]), X)
        self.intercept_ = params[:, 0] if shift else np.zeros(len(results))
        for name, attribute in (("lambda_", "lambda_"), ("tau2_", "tau2")):
            self.__dict__.pop(name, None)
            if results[0].model.bands is None:
                setattr(self, name, np.array([getattr(each, attribute) for each in results]))
        self.n_iter_ = max(int(each.n_iter) for each in results)

    def _separate_probabilities(self, X: Any) -> FloatArray:
        """Posterior mean probability of each class against the rest, (m, q)."""
        rows = self._checked_new(X)
        if issparse(rows) and rows.format == "coo":
            rows = rows.tocsc()
        results = self.result_ if isinstance(self.result_, list) else [self.result_]
        return np.column_stack([np.asarray(each.predict(rows)) for each in results])

    @available_if(_has_probabilities)
    def predict_proba(self, X: TableLike) -> FloatArray:
        """Posterior mean probabilities of the classes at new rows.

        Intervals are in ``result_.get_prediction(X).summary_frame()``.

        Parameters
        ----------
        X : (m, p) array-like or sparse matrix
            New rows, with the columns of the fit.

        Returns
        -------
        (m, number of classes) array
            In the order of `classes_`; the rows sum to 1, but for several labels a row.
        """
        share = self._separate_probabilities(X)
        if self._multilabel:
            return share
        if share.shape[1] == 1:
            return np.hstack([1.0 - share, share])
        return share / share.sum(axis=1, keepdims=True)

    @available_if(_has_probabilities)
    def predict_log_proba(self, X: TableLike) -> FloatArray:
        """Logarithms of :meth:`predict_proba`.

        Parameters
        ----------
        X : (m, p) array-like or sparse matrix
            New rows, with the columns of the fit.

        Returns
        -------
        (m, number of classes) array
        """
        with np.errstate(divide="ignore"):
            out: FloatArray = np.log(self.predict_proba(X))
        return out

    def decision_function(self, X: TableLike) -> FloatArray:
        """Scores of the classes at new rows.

        The posterior mean probability of each class against the rest, on the scale of the link. It is nearer to 0
        than ``X coef_' + intercept_``, since the mean is over the uncertainty of the coefficients. With
        ``family="gaussian"`` the fitted values of the regressions.

        Parameters
        ----------
        X : (m, p) array-like or sparse matrix
            New rows, with the columns of the fit.

        Returns
        -------
        (m,) array for two classes, (m, q) otherwise
        """
        if _has_probabilities(self):
            share = np.clip(self._separate_probabilities(X), np.finfo(np.float64).tiny, 1.0 - CERTAIN)
            scores = make(self.family, link=self.link).linear(share)
        else:
            scores = self._linear_predictor(X)[0]
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: TableLike) -> AnyArray:
        """The class with the highest score; with several labels a row, an indicator of the scores above 0.

        Parameters
        ----------
        X : (m, p) array-like or sparse matrix
            New rows, with the columns of the fit.

        Returns
        -------
        (m,) array of labels, or (m, q) array of 0 and 1
        """
        scores = self.decision_function(X)
        if self._multilabel:
            return (scores.reshape(len(scores), -1) > 0).astype(np.intp)
        at = (scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[at]

    def __sklearn_tags__(self) -> Tags:
        """Several labels a row are taken."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags
