"""SpikeSlab as a regressor that also selects columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from sklearn.feature_selection import SelectorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from pybayesridge._types import ArrayLike, BoolArray, FamilyLike, FloatArray, GroupsLike, Names, TableLike
from pybayesridge.models.spike_slab import SpikeSlab
from pybayesridge.results.generalized_spike_slab import GeneralizedSpikeSlabResults
from pybayesridge.results.selection_estimates import MEDIAN
from pybayesridge.results.spike_slab import SpikeSlabResults
from pybayesridge.sklearn.base import LinearEstimator, Regressor, named, target_names, used_rows

SHARED = ("unpenalized", "standardize", "prior_inclusion", "group", "slab_var", "expected_size")
"""Arguments of the model that regressors and classifiers have as parameters."""


class ColumnSelector(SelectorMixin, LinearEstimator):
    """The part of an estimator that selects columns, by a threshold or by false discovery rate."""

    _model = "SpikeSlab"
    result_: SpikeSlabResults | GeneralizedSpikeSlabResults
    threshold: float
    fdr: float | None
    inclusion_prob_: FloatArray

    def _check_rule(self) -> None:
        """Check how columns are to be selected."""
        if not isinstance(self.threshold, float | int | np.floating) or not 0 <= self.threshold < 1:
            raise ValueError(f"threshold must lie in [0, 1), not {self.threshold!r}: it is a probability")
        if self.fdr is not None:
            if not isinstance(self.fdr, float | int | np.floating) or not 0 < self.fdr < 1:
                raise ValueError(f"fdr must lie between 0 and 1, not {self.fdr!r}: it is a share")
            if self.threshold != MEDIAN:
                raise ValueError("columns are selected by threshold or by fdr: give one of the two")

    def _fit_model(
        self, X: Any, y: Any, weight: FloatArray | None, *, one_target: bool, **of_family: Any
    ) -> SpikeSlabResults | GeneralizedSpikeSlabResults:
        """Fit the model to checked rows, with arguments that only some families have, and keep its answers."""
        own = self.get_params(deep=False)
        model = SpikeSlab(
            y,
            self._columns(X),
            intercept=self._model_intercept(),
            weights=weight,
            **{name: own[name] for name in SHARED},
            **of_family,
        )
        results: Any = model.fit(own["method"], **self._options())
        self._take_results(results, one_target)
        self._take_selection(results)
        fitted: SpikeSlabResults | GeneralizedSpikeSlabResults = results
        return fitted

    def _take_selection(self, results: SpikeSlabResults | GeneralizedSpikeSlabResults) -> None:
        """Set the attributes of selections."""
        shift = int(self.fit_intercept)
        self.inclusion_prob_ = results.arrays.inclusion_prob[shift:]
        self.inclusion_se_: FloatArray = results.arrays.inclusion_se[shift:]
        prior = results.arrays.prior_inclusion
        self.prior_inclusion_ = prior[shift:] if isinstance(prior, np.ndarray) else prior
        self.slab_var_ = float(results.slab_var)

    def _get_support_mask(self) -> BoolArray:
        check_is_fitted(self)
        if self.fdr is None:
            return self.inclusion_prob_ > self.threshold
        names = self.result_.params.index[int(self.fit_intercept) :]
        free = names.isin(self.result_.penalized_names)
        chosen: BoolArray = names.isin(self.result_.select(self.fdr).index) | (~free & (self.inclusion_prob_ > 0))
        return chosen


class SpikeSlabRegressor(ColumnSelector, Regressor):
    """Bayesian variable selection with spike-and-slab priors, as a scikit-learn regressor and transformer.

    The numbers are those of :class:`pybayesridge.SpikeSlab`, whose results object is `result_`. As a transformer it
    keeps the columns whose inclusion probability exceeds `threshold`, or those of a Bayesian false discovery rate.

    Parameters
    ----------
    method : {"auto", "exact", "ep", "damped", "pcep"}
        See :meth:`pybayesridge.SpikeSlab.fit`.
    fit_intercept : bool, default True
        Whether there is an unpenalised intercept. A constant column of X never serves as it: its coefficient and
        its inclusion probability are 0.
    standardize : bool, default True
        The prior is on the scale of each column's (weighted, 1/n) standard deviation; `coef_` is on that of X.
    prior_inclusion : float, array, Series or dict, optional
        Prior probability that a column is in: one for all or one for each column; learned by default.
    group : labels, dict or list of lists, optional
        Columns that are in or out together, as for :class:`pybayesridge.SpikeSlab`; each on its own by default.
    slab_var, noise_var : float, optional
        Prior variance of an included coefficient, and noise variance (only with ``family="gaussian"``); learned by
        default.
    family : {"gaussian", "poisson", "negative-binomial"}, default "gaussian"
        The distribution of the response. With the last two y are counts, ``predict`` gives expected counts (posterior
        medians), and the method is ``"ep"``; for exposures use :class:`pybayesridge.SpikeSlab`. For yes/no responses
        use :class:`SpikeSlabClassifier`.
    dispersion : float, optional, for ``family="negative-binomial"``
        The dispersion where it is known; otherwise it is integrated out.
    expected_size : float, default 1
        Columns or groups expected to be in at the prior median of the inclusion probability, if that is learned.
    unpenalized : names or positions, optional
        Columns with a flat prior: never shrunk, always selected.
    threshold : float in [0, 1), default 0.5
        What an inclusion probability must exceed for a column to be selected. One half selects the median
        probability model, which predicts best under conditions (Barbieri & Berger, 2004).
    fdr : float in (0, 1), optional
        Select by Bayesian false discovery rate, not by `threshold`: the largest set of the most probable columns of
        which an expected share of at most `fdr` has coefficient 0 (``result_.select``).
    hyper : {"average", "maximize"}, optional, for expectation propagation
        Average over hyperparameters that are not given (the default of ``method="ep"``), or take those of the largest
        posterior density as known.
    damping : float in (0, 1], for ``method="damped"``
        The share of the new sites in an update.
    tol, maxiter : float, int
        Tolerance of EP's residual, and most iterations (steps of all chains).
    check : bool, default False
        For expectation propagation: measure its error by the exact posterior (``result_.ep_check``).
    mcse : float, for ``method="exact"``
        Sampling stops when no inclusion probability has a larger Monte Carlo standard error.
    chains : int, for ``method="exact"``
        Number of chains.
    rng : int or numpy.random.Generator, for ``method="exact"``
        Seed of sampling, or source of randomness. It is named as in the models and not ``random_state``, whose
        default in scikit-learn, None, means results that differ from run to run: here the default is a seed, so
        that equal fits are equal. A generator is advanced by each fit.

    Attributes
    ----------
    coef_ : (p,) array
        Posterior means over spike and slab together, on the scale of X.
    intercept_ : float
    inclusion_prob_ : (p,) array
        Posterior probability that a coefficient is not zero.
    inclusion_se_ : (p,) array
        Monte Carlo standard errors of these; 0 for sums over all sets, NaN for expectation propagation.
    prior_inclusion_ : float or (p,) array
        Prior probability, given or learned.
    slab_var_, sigma2_ : float
        Slab variance and noise variance, given or learned; counts have no noise variance.
    result_ : SpikeSlabResults
        Intervals, summaries, draws; it refers to the data, which ``result_.remove_data()`` drops before pickling.
    n_iter_ : int
    n_features_in_ : int
    feature_names_in_ : (p,) array of str
        Where X has names.

    Notes
    -----
    `sample_weight` are precision weights, of which only the ratios matter, and of counts frequency weights: a row of
    weight 2 is that row twice. Rows of weight 0 are left out.
    With ``SelectFromModel`` pass ``importance_getter="inclusion_prob_"``.

    A fit that has not converged warns with :class:`pybayesridge.ConvergenceWarning`.

    References
    ----------
    Hernández-Lobato & Hernández-Lobato (2011). Convergent Expectation Propagation in Linear Models with
    Spike-and-slab Priors.

    Barbieri & Berger (2004). Optimal predictive model selection. Annals of Statistics 32.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from pybayesridge.sklearn import SpikeSlabRegressor
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> SpikeSlabRegressor().fit(X, y).get_feature_names_out().tolist()
    ['sex', 'bmi', 'bp', 's1', 's2', 's3', 's4', 's5']
    """

    result_: SpikeSlabResults | GeneralizedSpikeSlabResults
    _classifier = "SpikeSlabClassifier"

    def __init__(
        self,
        method: str = "auto",
        *,
        fit_intercept: bool = True,
        standardize: bool = True,
        prior_inclusion: ArrayLike | Mapping[str, float] | None = None,
        group: GroupsLike | None = None,
        slab_var: float | None = None,
        noise_var: float | None = None,
        family: FamilyLike = "gaussian",
        dispersion: float | None = None,
        expected_size: float = 1.0,
        unpenalized: Names | None = None,
        threshold: float = MEDIAN,
        fdr: float | None = None,
        hyper: str | None = None,
        damping: float = 0.5,
        tol: float = 1e-4,
        maxiter: int | None = None,
        check: bool = False,
        mcse: float = 0.01,
        chains: int = 4,
        rng: int | np.random.Generator = 0,
    ) -> None:
        self.method = method
        self.fit_intercept = fit_intercept
        self.standardize = standardize
        self.prior_inclusion = prior_inclusion
        self.group = group
        self.slab_var = slab_var
        self.noise_var = noise_var
        self.family = family
        self.dispersion = dispersion
        self.expected_size = expected_size
        self.unpenalized = unpenalized
        self.threshold = threshold
        self.fdr = fdr
        self.hyper = hyper
        self.damping = damping
        self.tol = tol
        self.maxiter = maxiter
        self.check = check
        self.mcse = mcse
        self.chains = chains
        self.rng = rng

    def fit(self, X: TableLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : (n, p) array-like
            The columns.
        y : (n,) array-like
            The response.
        sample_weight : (n,) array-like, optional
            Weights of the rows; see the notes of the class.

        Returns
        -------
        self
            Fitted.

        Raises
        ------
        ValueError
            For data or arguments that cannot be a regression; the message names the column or argument.
        """
        self._check_rule()
        self._check_family()
        names = target_names(y)
        checked = validate_data(self, X, y, dtype=np.float64, y_numeric=True, ensure_min_samples=2)
        X, y, weight = used_rows(checked[0], checked[1], sample_weight)
        of_family = {"noise_var": self.noise_var, "family": self.family, "dispersion": self.dispersion}
        results = self._fit_model(X, named(y, names), weight, one_target=True, **of_family)
        self.__dict__.pop("sigma2_", None)
        if results.model.distribution.has_noise:
            self.sigma2_ = float(results.noise_var)
        return self
