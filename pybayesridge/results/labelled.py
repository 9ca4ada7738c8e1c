"""The results as ``fit`` returns them: arrays with the names of columns, rows and targets."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Concatenate, Generic, ParamSpec, TypeAlias, TypeVar

import pandas as pd

from pybayesridge._types import FloatArray, PathOrFile
from pybayesridge.findings import Finding
from pybayesridge.recipes import Recipe
from pybayesridge.results import files as saved
from pybayesridge.results.base import LinearResults, load
from pybayesridge.results.generalized_ridge import GeneralizedRidgeResults
from pybayesridge.results.generalized_spike_slab import GeneralizedSpikeSlabResults
from pybayesridge.results.ridge import BayesRidgeResults
from pybayesridge.results.spike_slab import SpikeSlabResults
from pybayesridge.results.wrapper import Labelled, ResultsT
from pybayesridge.selection.doubt import Doubt

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from pybayesridge._types import ArrayLike, RowsLike
    from pybayesridge.models.base import LinearModel
    from pybayesridge.models.ridge import BayesRidge
    from pybayesridge.models.spike_slab import SpikeSlab
    from pybayesridge.results.prediction import BayesPrediction

P = ParamSpec("P")
R = TypeVar("R")

SHARED = {
    "params": "columns",
    "bse": "columns",
    "posterior_var": "columns",
    "prob_positive": "columns",
    "fittedvalues": "rows",
    "resid": "rows",
    "rsquared": "targets",
    "df_model": "targets",
    "df_resid": "targets",
    "sigma2": "targets",
}
"""How the arrays that both families have are labelled."""

WITHOUT_NOISE = {name: how for name, how in SHARED.items() if name != "sigma2"}
"""Those of yes/no responses."""

SELECTED = {
    "inclusion_prob": "columns",
    "prob_zero": "columns",
    "inclusion_se": "columns",
    "prior_inclusion": "columns",
    "cond_mean": "columns",
    "cond_var": "columns",
}
"""Those of variable selection."""


class Delegated(Generic[P, R]):
    """A method of the results that is used as it is, with its signature and docstring.

    Parameters
    ----------
    method : function
    """

    def __init__(self, method: Callable[Concatenate[Any, P], R]) -> None:
        self.method: Callable[..., R] = method

    def __get__(self, wrapper: LinearResultsWrapper[Any] | None, owner: type) -> Callable[P, R]:
        """The method of the wrapped results; of the class, the function."""
        if wrapper is None:
            return self.method
        out: Callable[P, R] = getattr(wrapper.unlabelled, self.method.__name__)
        return out


class LinearResultsWrapper(Labelled[ResultsT]):
    """Labelled results of a linear model; see :class:`LinearResults`.

    What is annotated here is an attribute of the results, labelled as ``_wrap_attrs`` says where it is an array.
    """

    params: pd.Series | pd.DataFrame
    bse: pd.Series | pd.DataFrame
    posterior_var: pd.Series | pd.DataFrame
    prob_positive: pd.Series | pd.DataFrame
    fittedvalues: pd.Series | pd.DataFrame
    resid: pd.Series | pd.DataFrame
    rsquared: float | pd.Series
    df_model: float | pd.Series
    df_resid: float | pd.Series
    nobs: float
    k_constant: int
    model: LinearModel
    model_name: str
    method: str
    converged: bool
    n_iter: int
    tol: float
    maxiter: int
    precision_loss: float
    recipe: Recipe
    findings: tuple[Finding, ...]
    findings_on_validity: tuple[Finding, ...]
    notes: list[str]

    predict = Delegated(LinearResults.predict)
    get_prediction = Delegated(LinearResults.get_prediction)
    tidy = Delegated(LinearResults.tidy)
    contrast = Delegated(LinearResults.contrast)
    joint_contrast = Delegated(LinearResults.joint_contrast)
    effects = Delegated(LinearResults.effects)
    predictions = Delegated(LinearResults.predictions)
    to_marginaleffects = Delegated(LinearResults.to_marginaleffects)
    prior_sensitivity = Delegated(LinearResults.prior_sensitivity)
    loo = Delegated(LinearResults.loo)
    pit = Delegated(LinearResults.pit)
    ppc = Delegated(LinearResults.ppc)
    report = Delegated(LinearResults.report)
    plot_effect = Delegated(LinearResults.plot_effect)
    plot_fit = Delegated(LinearResults.plot_fit)
    plot_residuals = Delegated(LinearResults.plot_residuals)
    plot_ppc = Delegated(LinearResults.plot_ppc)
    plot_pit = Delegated(LinearResults.plot_pit)
    remove_data = Delegated(LinearResults.remove_data)

    _wrap_attrs: ClassVar[dict[str, str]] = SHARED

    @property
    def unlabelled(self) -> ResultsT:
        """The same results with arrays in place of Series and DataFrames."""
        return self._results

    def conf_int(self, alpha: float = 0.05) -> pd.DataFrame:
        """Equal-tailed credible intervals of the coefficients; see :meth:`LinearResults.conf_int`."""
        out: pd.DataFrame = self.model.data.wrap_output(self._results.conf_int(alpha), "interval")
        return out

    def cov_params(self, target: str | int | None = None) -> pd.DataFrame:
        """Posterior covariance matrix of the coefficients; see :meth:`LinearResults.cov_params`."""
        out: pd.DataFrame = self.model.data.wrap_output(self._results.cov_params(target), "cov")
        return out

    def save(
        self, fname: PathOrFile, remove_data: bool = False, row_space: bool = True, format: str = "portable"
    ) -> None:
        """Write the results to a file; see :meth:`LinearResults.save`."""
        saved.write(type(self)(self._results.as_saved(remove_data, row_space)), fname, format)

    @classmethod
    def load(cls, fname: PathOrFile, *, allow_code: bool = False) -> AnyResults:
        """Read results that :meth:`save` wrote, as :func:`pybayesridge.load` does."""
        return load(fname, allow_code=allow_code)


class BayesRidgeResultsWrapper(LinearResultsWrapper[BayesRidgeResults]):
    """Labelled results of a Bayesian ridge regression; see :class:`BayesRidgeResults`."""

    model: BayesRidge
    sigma2: float | pd.Series
    lambda_: float | pd.Series
    tau2: float | pd.Series
    condition_number: float
    n_modes: int | pd.Series
    log_marginal: float | pd.Series
    loo_residuals: pd.Series | pd.DataFrame
    loo_mse: float | pd.Series
    loo_rsquared: float | pd.Series
    quadrature_error: float | pd.Series | None
    penalty_information: float | pd.Series | None
    grid: FloatArray | None
    grid_scores: FloatArray | None
    can_fit_anything: bool
    solver: str
    dof: str
    parameterization: str

    summary = Delegated(BayesRidgeResults.summary)
    hyperparameters = Delegated(BayesRidgeResults.hyperparameters)
    explained_variance = Delegated(BayesRidgeResults.explained_variance)
    diagnostics = Delegated(BayesRidgeResults.diagnostics)
    sample = Delegated(BayesRidgeResults.sample)
    write_coefficients = Delegated(BayesRidgeResults.write_coefficients)
    to_arviz = Delegated(BayesRidgeResults.to_arviz)
    plot_coefficients = Delegated(BayesRidgeResults.plot_coefficients)
    plot_lambda = Delegated(BayesRidgeResults.plot_lambda)
    plot_path = Delegated(BayesRidgeResults.plot_path)

    _wrap_attrs = SHARED | {
        "lambda_": "targets",
        "tau2": "targets",
        "n_modes": "targets",
        "log_marginal": "targets",
        "loo_mse": "targets",
        "loo_rsquared": "targets",
        "loo_residuals": "rows",
        "quadrature_error": "targets",
        "penalty_information": "targets",
    }


class GeneralizedRidgeResultsWrapper(LinearResultsWrapper[GeneralizedRidgeResults]):
    """Labelled results of a Bayesian ridge regression of yes/no responses; see :class:`GeneralizedRidgeResults`."""

    model: BayesRidge
    params: pd.Series
    bse: pd.Series
    posterior_var: pd.Series
    prob_positive: pd.Series
    fittedvalues: pd.Series
    resid: pd.Series
    rsquared: float
    df_model: float
    df_resid: float
    link: str
    event: str
    n_trials: float
    n_events: float
    lambda_: float
    tau2: float
    log_marginal: float
    log_evidence: float
    loo_probabilities: pd.Series
    loo_log_score: float
    loo_brier: float
    loo_auc: float
    quadrature_error: float | None
    grid: FloatArray | None
    grid_scores: FloatArray | None
    solver: str
    parameterization: str

    predict = Delegated(GeneralizedRidgeResults.predict)
    get_prediction = Delegated(GeneralizedRidgeResults.get_prediction)  # type: ignore[assignment]
    summary = Delegated(GeneralizedRidgeResults.summary)
    odds_ratios = Delegated(GeneralizedRidgeResults.odds_ratios)
    hyperparameters = Delegated(GeneralizedRidgeResults.hyperparameters)
    explained_variance = Delegated(GeneralizedRidgeResults.explained_variance)
    sample = Delegated(GeneralizedRidgeResults.sample)
    to_arviz = Delegated(GeneralizedRidgeResults.to_arviz)
    loo_calibration = Delegated(GeneralizedRidgeResults.loo_calibration)
    plot_coefficients = Delegated(GeneralizedRidgeResults.plot_coefficients)
    plot_calibration = Delegated(GeneralizedRidgeResults.plot_calibration)
    plot_roc = Delegated(GeneralizedRidgeResults.plot_roc)

    _wrap_attrs = WITHOUT_NOISE | {"loo_probabilities": "rows"}


class SpikeSlabResultsWrapper(LinearResultsWrapper[SpikeSlabResults]):
    """Labelled results of a spike-and-slab regression; see :class:`SpikeSlabResults`."""

    model: SpikeSlab
    params: pd.Series
    bse: pd.Series
    posterior_var: pd.Series
    prob_positive: pd.Series
    prob_zero: pd.Series
    fittedvalues: pd.Series
    resid: pd.Series
    rsquared: float
    df_model: float
    df_resid: float
    sigma2: float
    inclusion_prob: pd.Series
    inclusion_se: pd.Series
    monte_carlo_errors: pd.DataFrame | None
    group_inclusion_prob: pd.Series
    group_inclusion_se: pd.Series
    prior_inclusion: float | pd.Series
    cond_mean: pd.Series
    cond_var: pd.Series
    expected_size: float
    slab_var: float
    noise_var: float
    log_evidence: float
    log_evidence_se: float
    evidence_biased: bool
    learned: tuple[str, ...]
    energy_trace: FloatArray
    residual: float
    n_fac: int
    penalized_names: list[str]
    ep_check: pd.DataFrame | None
    doubts: tuple[Doubt, ...]

    summary = Delegated(SpikeSlabResults.summary)
    hyperparameters = Delegated(SpikeSlabResults.hyperparameters)
    explained_variance = Delegated(SpikeSlabResults.explained_variance)
    diagnostics = Delegated(SpikeSlabResults.diagnostics)
    credible_sets = Delegated(SpikeSlabResults.credible_sets)
    size_distribution = Delegated(SpikeSlabResults.size_distribution)
    size_interval = Delegated(SpikeSlabResults.size_interval)
    select = Delegated(SpikeSlabResults.select)
    pair_inclusion = Delegated(SpikeSlabResults.pair_inclusion)
    models = Delegated(SpikeSlabResults.models)
    median_model = Delegated(SpikeSlabResults.median_model)
    group_members = Delegated(SpikeSlabResults.group_members)
    sample = Delegated(SpikeSlabResults.sample)
    to_arviz = Delegated(SpikeSlabResults.to_arviz)
    plot_coefficients = Delegated(SpikeSlabResults.plot_coefficients)
    plot_inclusion = Delegated(SpikeSlabResults.plot_inclusion)
    plot_n_included = Delegated(SpikeSlabResults.plot_n_included)
    plot_trace = Delegated(SpikeSlabResults.plot_trace)

    _wrap_attrs = SHARED | SELECTED


class GeneralizedSpikeSlabResultsWrapper(LinearResultsWrapper[GeneralizedSpikeSlabResults]):
    """Labelled results of selections of columns for yes/no responses; see :class:`GeneralizedSpikeSlabResults`."""

    model: SpikeSlab
    params: pd.Series
    bse: pd.Series
    posterior_var: pd.Series
    prob_positive: pd.Series
    prob_zero: pd.Series
    fittedvalues: pd.Series
    resid: pd.Series
    rsquared: float
    df_model: float
    df_resid: float
    link: str
    event: str
    n_trials: float
    n_events: float
    inclusion_prob: pd.Series
    inclusion_se: pd.Series
    monte_carlo_errors: pd.DataFrame | None
    group_inclusion_prob: pd.Series
    group_inclusion_se: pd.Series
    prior_inclusion: float | pd.Series
    cond_mean: pd.Series
    cond_var: pd.Series
    expected_size: float
    slab_var: float
    learned: tuple[str, ...]
    residual: float
    penalized_names: list[str]
    evidence_biased: bool
    energy_trace: FloatArray
    n_fac: int
    ep_check: pd.DataFrame | None
    doubts: tuple[Doubt, ...]

    predict = Delegated(GeneralizedSpikeSlabResults.predict)
    get_prediction = Delegated(GeneralizedSpikeSlabResults.get_prediction)  # type: ignore[assignment]
    summary = Delegated(GeneralizedSpikeSlabResults.summary)
    odds_ratios = Delegated(GeneralizedSpikeSlabResults.odds_ratios)
    hyperparameters = Delegated(GeneralizedSpikeSlabResults.hyperparameters)
    explained_variance = Delegated(GeneralizedSpikeSlabResults.explained_variance)
    diagnostics = Delegated(GeneralizedSpikeSlabResults.diagnostics)
    credible_sets = Delegated(GeneralizedSpikeSlabResults.credible_sets)
    size_distribution = Delegated(GeneralizedSpikeSlabResults.size_distribution)
    size_interval = Delegated(GeneralizedSpikeSlabResults.size_interval)
    select = Delegated(GeneralizedSpikeSlabResults.select)
    pair_inclusion = Delegated(GeneralizedSpikeSlabResults.pair_inclusion)
    models = Delegated(GeneralizedSpikeSlabResults.models)
    median_model = Delegated(GeneralizedSpikeSlabResults.median_model)
    group_members = Delegated(GeneralizedSpikeSlabResults.group_members)
    sample = Delegated(GeneralizedSpikeSlabResults.sample)
    to_arviz = Delegated(GeneralizedSpikeSlabResults.to_arviz)
    plot_coefficients = Delegated(GeneralizedSpikeSlabResults.plot_coefficients)
    plot_inclusion = Delegated(GeneralizedSpikeSlabResults.plot_inclusion)
    plot_n_included = Delegated(GeneralizedSpikeSlabResults.plot_n_included)
    plot_trace = Delegated(GeneralizedSpikeSlabResults.plot_trace)
    plot_calibration = Delegated(GeneralizedSpikeSlabResults.plot_calibration)
    plot_roc = Delegated(GeneralizedSpikeSlabResults.plot_roc)

    _wrap_attrs = WITHOUT_NOISE | SELECTED


if TYPE_CHECKING:

    class RidgeResults(BayesRidgeResultsWrapper, GeneralizedRidgeResultsWrapper):  # type: ignore[misc]
        """What ``BayesRidge.fit`` returns: one of the two, which of them depends on the family."""

        params: pd.Series | pd.DataFrame  # type: ignore[assignment]
        bse: pd.Series | pd.DataFrame  # type: ignore[assignment]
        posterior_var: pd.Series | pd.DataFrame  # type: ignore[assignment]
        prob_positive: pd.Series | pd.DataFrame  # type: ignore[assignment]
        fittedvalues: pd.Series | pd.DataFrame  # type: ignore[assignment]
        resid: pd.Series | pd.DataFrame  # type: ignore[assignment]
        rsquared: float | pd.Series  # type: ignore[assignment]
        df_model: float | pd.Series  # type: ignore[assignment]
        df_resid: float | pd.Series  # type: ignore[assignment]

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

    class SelectionResults(SpikeSlabResultsWrapper, GeneralizedSpikeSlabResultsWrapper):
        """What ``SpikeSlab.fit`` returns: one of the two, which of them depends on the family."""

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


AnyResults: TypeAlias = (
    BayesRidgeResultsWrapper
    | GeneralizedRidgeResultsWrapper
    | SpikeSlabResultsWrapper
    | GeneralizedSpikeSlabResultsWrapper
)
"""Results of one of the models, as `fit` returns them."""
