"""SpikeSlab as a classifier of two classes that also selects columns."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Self

import numpy as np
import pandas as pd
from sklearn.base import ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from pybayesridge._types import AnyArray, ArrayLike, FloatArray, GroupsLike, Names, TableLike
from pybayesridge.families.registry import make
from pybayesridge.results.generalized_spike_slab import GeneralizedSpikeSlabResults
from pybayesridge.results.selection_estimates import MEDIAN
from pybayesridge.sklearn.base import used_rows
from pybayesridge.sklearn.classifier import CERTAIN
from pybayesridge.sklearn.spike_slab import ColumnSelector

FAMILY = "binomial"
"""The family of responses of two classes."""


class SpikeSlabClassifier(ClassifierMixin, ColumnSelector):
    """Bayesian variable selection for two classes, as a scikit-learn classifier and transformer.

    The numbers are those of :class:`pybayesridge.SpikeSlab` with ``family="binomial"``, whose results object is
    `result_`. Probabilities are posterior means, which average over the sets of columns and the uncertainty of the
    coefficients. As a transformer it keeps the columns whose inclusion probability exceeds `threshold`, or those of a
    Bayesian false discovery rate. For more than two classes use scikit-learn's ``OneVsRestClassifier``.

    Parameters
    ----------
    method : {"auto", "exact", "ep"}
        See :meth:`pybayesridge.SpikeSlab.fit`.
    link : {"logit", "probit"}, default "logit"
    fit_intercept : bool, default True
        Whether there is an unpenalised intercept. A constant column of X never serves as it: its coefficient and
        its inclusion probability are 0.
    standardize : bool, default True
        The prior is on the scale of each column's (weighted, 1/n) standard deviation; `coef_` is on that of X.
    class_weight : dict or "balanced", optional
        Weights of the classes, which multiply `sample_weight`. Probabilities are then those of such a sample.
    prior_inclusion, group, slab_var, expected_size, unpenalized
        As for :class:`SpikeSlabRegressor`; hyperparameters that are not given are integrated out.
    threshold : float in [0, 1), default 0.5
        What an inclusion probability must exceed for a column to be selected.
    fdr : float in (0, 1), optional
        Select by Bayesian false discovery rate, not by `threshold`: the largest set of the most probable columns of
        which an expected share of at most `fdr` has coefficient 0 (``result_.select``).
    tol : float
        For ``"ep"``: tolerance of the residual at which iterations stop.
    maxiter : int, optional
        Most steps of all chains; for ``"ep"`` most iterations.
    mcse : float
        For ``"exact"``: sampling stops when no inclusion probability has a larger Monte Carlo standard error.
    chains : int
        For ``"exact"``: number of chains.
    rng : int or numpy.random.Generator
        For ``"exact"``: seed of sampling, or source of randomness, as for :class:`SpikeSlabRegressor`.

    Attributes
    ----------
    classes_ : (2,) array
    coef_ : (1, p) array
        Posterior means over spike and slab together, on the scales of the link and of X.
    intercept_ : (1,) array
    inclusion_prob_, inclusion_se_ : (p,) arrays
        Posterior probabilities that a coefficient is not zero, and their Monte Carlo standard errors (NaN for
        ``"ep"``).
    prior_inclusion_ : float or (p,) array
        Prior probability: given, or its posterior mean.
    slab_var_ : float
        Slab variance: given, or its posterior mean.
    result_ : GeneralizedSpikeSlabResults
        Odds ratios, intervals, summaries, draws; it refers to the data, which ``result_.remove_data()`` drops before
        pickling.
    n_iter_ : int
    n_features_in_ : int
    feature_names_in_ : (p,) array of str
        Where X has names.

    Notes
    -----
    `sample_weight` are frequency weights: a weight of 2 counts a row twice. Rows of weight 0 are left out.

    A fit that has not reached `mcse`, or not converged, warns with :class:`pybayesridge.ConvergenceWarning`.

    Examples
    --------
    >>> import statsmodels.api as sm
    >>> from pybayesridge.sklearn import SpikeSlabClassifier
    >>> spector = sm.datasets.spector.load_pandas()
    >>> classifier = SpikeSlabClassifier(mcse=0.05).fit(spector.exog[["GPA", "TUCE", "PSI"]], spector.endog)
    >>> classifier.predict_proba(spector.exog[["GPA", "TUCE", "PSI"]].iloc[:2]).shape
    (2, 2)
    """

    result_: GeneralizedSpikeSlabResults

    def __init__(
        self,
        method: str = "auto",
        *,
        link: str = "logit",
        fit_intercept: bool = True,
        standardize: bool = True,
        class_weight: Mapping[Hashable, float] | str | None = None,
        prior_inclusion: ArrayLike | Mapping[str, float] | None = None,
        group: GroupsLike | None = None,
        slab_var: float | None = None,
        expected_size: float = 1.0,
        unpenalized: Names | None = None,
        threshold: float = MEDIAN,
        fdr: float | None = None,
        tol: float = 1e-4,
        maxiter: int | None = None,
        mcse: float = 0.01,
        chains: int = 4,
        rng: int | np.random.Generator = 0,
    ) -> None:
        self.method = method
        self.link = link
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.class_weight = class_weight
        self.prior_inclusion = prior_inclusion
        self.group = group
        self.slab_var = slab_var
        self.expected_size = expected_size
        self.unpenalized = unpenalized
        self.threshold = threshold
        self.fdr = fdr
        self.tol = tol
        self.maxiter = maxiter
        self.mcse = mcse
        self.chains = chains
        self.rng = rng

    def fit(self, X: TableLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : (n, p) array-like
            The columns.
        y : (n,) array-like of labels
            The classes: two.
        sample_weight : (n,) array-like, optional
            Frequency weights; see the notes of the class.

        Returns
        -------
        self
            Fitted.

        Raises
        ------
        ValueError
            For one class, or more than two, and for data or arguments that cannot be a regression.
        """
        self._check_rule()
        checked = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=2)
        columns, y, weight = used_rows(checked[0], column_or_1d(checked[1], warn=True), sample_weight)
        event = self._event(y)
        if self.class_weight is not None:
            weight = (1.0 if weight is None else weight) * compute_sample_weight(self.class_weight, y)
        named = pd.Series(event, name=str(self.classes_[1]))
        self._fit_model(columns, named, weight, one_target=False, family=FAMILY, link=self.link)
        return self

    def _event(self, y: AnyArray) -> AnyArray:
        """Keep the classes; whether a row is of the second one, (n,)."""
        check_classification_targets(y)
        kind = type_of_target(y, input_name="y", raise_unknown=True)
        if kind != "binary":
            raise ValueError(
                f"Only binary classification is supported. The type of the target is {kind}: use OneVsRestClassifier"
            )
        self.classes_ = np.unique(y)
        if len(self.classes_) < 2:
            raise ValueError(f"y has one class only, {self.classes_.tolist()[0]!r}: two are needed")
        event: AnyArray = y == self.classes_[1]
        return event

    def predict_proba(self, X: TableLike) -> FloatArray:
        """Posterior mean probabilities of the classes at new rows.

        Intervals are in ``result_.get_prediction(X).summary_frame()``.

        Parameters
        ----------
        X : (m, p) array-like
            New rows, with the columns of the fit.

        Returns
        -------
        (m, 2) array
            In the order of `classes_`.
        """
        check_is_fitted(self)
        rows = validate_data(self, X, dtype=np.float64, reset=False)
        share = np.asarray(self.result_.predict(rows), dtype=np.float64)
        return np.column_stack([1.0 - share, share])

    def predict_log_proba(self, X: TableLike) -> FloatArray:
        """Logarithms of :meth:`predict_proba`.

        Parameters
        ----------
        X : (m, p) array-like
            New rows, with the columns of the fit.

        Returns
        -------
        (m, 2) array
        """
        with np.errstate(divide="ignore"):
            out: FloatArray = np.log(self.predict_proba(X))
        return out

    def decision_function(self, X: TableLike) -> FloatArray:
        """Scores of new rows: the posterior mean probability of the second class, on the scale of the link.

        Parameters
        ----------
        X : (m, p) array-like
            New rows, with the columns of the fit.

        Returns
        -------
        (m,) array
        """
        share = np.clip(self.predict_proba(X)[:, 1], np.finfo(np.float64).tiny, 1.0 - CERTAIN)
        return make(FAMILY, link=self.link).linear(share)

    def predict(self, X: TableLike) -> AnyArray:
        """The more probable class.

        Parameters
        ----------
        X : (m, p) array-like
            New rows, with the columns of the fit.

        Returns
        -------
        (m,) array of labels
        """
        scores = self.decision_function(X)
        return self.classes_[(scores > 0).astype(np.intp)]

    def __sklearn_tags__(self) -> Tags:
        """Two classes are taken."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags
