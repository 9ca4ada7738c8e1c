"""Estimates that the results of both models have: coefficients, fitted values, findings."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import numpy as np

from pybayesridge._types import AnyArray, FloatArray
from pybayesridge.data.frames import make_frame
from pybayesridge.ep.gaussian_posterior import SelectionMarginals
from pybayesridge.findings import Finding
from pybayesridge.recipes import Recipe
from pybayesridge.results.arguments import check_alpha, target_position
from pybayesridge.results.arviz import Draws
from pybayesridge.ridge.marginals import RidgeMarginals

if TYPE_CHECKING:
    from pybayesridge.binomial.posterior import BinaryPosterior
    from pybayesridge.ep.posterior import SelectionPosterior
    from pybayesridge.models.base import LinearModel
    from pybayesridge.ridge.posterior import RidgePosterior
    from pybayesridge.selection.marginals import ExactMarginals
    from pybayesridge.selection.posterior import ExactPosterior


class LinearEstimates:
    """Posterior means, standard deviations and intervals of a linear model, and what a fit has to say.

    Subclasses supply ``_standard_deviations``, ``_intervals``, ``_covariance``, ``_row_moments`` and
    ``_row_intervals``, each in the order of ``model.exog_names``.

    Attributes
    ----------
    params : (k,) or (k, q) array
        Posterior means of the coefficients, on the user's scale.
    family : str
        Name of the model's class.
    method : str
    converged : bool
        Whether every iteration met its stopping rule (for every target).
    n_iter : int
    recipe : Recipe
        How the model and the fit were called; ``print(res.recipe.code)`` shows code that makes the fit again.
    tol : float
        As given to ``fit``.
    maxiter : int
        As given to ``fit``.
    posterior : RidgePosterior, BinaryPosterior, SelectionPosterior or marginals
        The posterior in the numerics' own units; internal.
    """

    family: ClassVar[str]
    method: str
    converged: bool
    n_iter: int
    recipe: Recipe
    tol: float
    maxiter: int
    params: FloatArray
    model: LinearModel
    sigma2: float | FloatArray
    posterior: (
        RidgePosterior
        | RidgeMarginals
        | BinaryPosterior
        | SelectionPosterior
        | SelectionMarginals
        | ExactPosterior
        | ExactMarginals
    )

    def __init__(self, model: LinearModel, params: FloatArray, **kwds: Any) -> None:
        self.__dict__.update(kwds)
        self.model, self.params, self.k_constant = model, params, model.k_constant

    def _standard_deviations(self) -> FloatArray:
        raise NotImplementedError

    def _intervals(self, alpha: float) -> FloatArray:
        raise NotImplementedError

    def _covariance(self, target: int) -> FloatArray:
        raise NotImplementedError

    def _prepared_rows(self, rows: AnyArray) -> Any:
        """Input of ``_row_moments`` and ``_row_intervals``: the rows, unless a family prepares them."""
        return rows

    def _row_moments(self, rows: Any) -> tuple[FloatArray, FloatArray]:
        raise NotImplementedError

    def _row_intervals(self, rows: Any, alpha: float, noise: FloatArray | None) -> FloatArray:
        raise NotImplementedError

    def _release_rows(self, row_space: bool) -> None:
        raise NotImplementedError

    def _draw_chain(self, n: int, generator: np.random.Generator) -> Draws:
        raise NotImplementedError

    @property
    def method_entry(self) -> Any:
        """The entry of the method in the model's registry of methods."""
        return self.model.methods[self.method]

    def _squeeze(self, a: FloatArray) -> FloatArray:
        """Drop the axis over targets (axis 1) of a model with one."""
        return a[:, 0] if self.model.one_target else a

    def _per_target(self, a: FloatArray) -> float | FloatArray:
        """A number for a model with one target, the array otherwise."""
        return float(a[0]) if self.model.one_target else a

    @cached_property
    def bse(self) -> FloatArray:
        """Posterior standard deviations of the coefficients, user's scale; (k,) or (k, q)."""
        return self._squeeze(self._standard_deviations())

    @property
    def posterior_var(self) -> FloatArray:
        """Posterior variances of the coefficients; the diagonal of ``cov_params()``."""
        with np.errstate(over="ignore", under="ignore"):
            return self.bse**2

    def cov_params(self, target: str | int | None = None) -> FloatArray:
        """Posterior covariance matrix of the coefficients, (k, k). No other array of this size is formed.

        Parameters
        ----------
        target : str or int, optional
            Which target, by name or position; needed where there are several.
        """
        return self._covariance(target_position(self.model.data.targets, target, "cov_params"))

    def conf_int(self, alpha: float = 0.05) -> FloatArray:
        """Equal-tailed credible intervals of the coefficients, (k, 2) or (k, q, 2).

        Parameters
        ----------
        alpha : float
            One minus the probability of the interval.
        """
        return self._squeeze(self._intervals(check_alpha(alpha)))

    def tidy(self, alpha: float = 0.05) -> Any:
        """Table with one row for each coefficient and no index, in the format of the R package broom.

        Parameters
        ----------
        alpha : float
            One minus the probability of the intervals.

        Returns
        -------
        frame
            Of the library whose frame the data were (polars, pyarrow, …), a pandas one for arrays. Columns ``term``,
            ``estimate`` (posterior mean), ``std_error`` (posterior standard deviation), ``conf_low``,
            ``conf_high``; for a SpikeSlab ``inclusion_prob``; with several targets ``target``, the rows of the first
            before those of the second.
        """
        targets, names = self.model.data.targets, self.model.exog_names
        interval = self._intervals(check_alpha(alpha))
        columns = {
            "term": list(names) * len(targets),
            "estimate": self.params.ravel(order="F"),
            "std_error": self.bse.ravel(order="F"),
            "conf_low": interval[..., 0].ravel(order="F"),
            "conf_high": interval[..., 1].ravel(order="F"),
            **self._tidy_columns(),
        }
        if not self.model.one_target:
            columns["target"] = [name for name in targets for _ in names]
        return make_frame(columns, self.model.data.library)

    def _tidy_columns(self) -> dict[str, FloatArray]:
        return {}

    @cached_property
    def fittedvalues(self) -> FloatArray:
        """Posterior mean of the linear predictor at the rows of the data, (n,) or (n, q)."""
        if self.model.data.exog is None:
            raise ValueError(self.model.why_no_rows)
        return self.model.predict(self.params)

    @cached_property
    def resid(self) -> FloatArray:
        """Residuals: observed minus fitted values, unweighted, (n,) or (n, q)."""
        if self.model.endog is None:
            raise ValueError(self.model.why_no_rows)
        return self.model.endog - self.fittedvalues

    @cached_property
    def rsquared(self) -> float | FloatArray:
        """R-squared: share of the (weighted) variation explained; about the mean if the model has a constant."""
        b = self.params[:, None] if self.params.ndim == 1 else self.params
        constant = bool(self.model.k_constant)
        return self._per_target(self.model.source.rsquared(b, self._residuals_of, constant=constant))

    def _residuals_of(self, part: slice) -> FloatArray:
        """Residuals of some targets; only those of all targets are kept."""
        if self.model.one_target or "resid" in self.__dict__ or part == slice(0, self.params.shape[1]):
            return self.resid if self.model.one_target else self.resid[:, part]
        out: FloatArray = self.model.endog[:, part] - self.model.predict(self.params[:, part])
        return out

    @property
    def df_model(self) -> float | FloatArray:
        """Effective number of parameters; see each class."""
        raise NotImplementedError

    @property
    def df_resid(self) -> float | FloatArray:
        """Effective residual degrees of freedom; see each class."""
        raise NotImplementedError

    @property
    def precision_loss(self) -> float:
        """Approximate relative error of the fit due to rounding."""
        raise NotImplementedError

    @property
    def findings_on_validity(self) -> tuple[Finding, ...]:
        """Findings on the validity of the results, those of the warnings of ``fit`` included."""
        raise NotImplementedError

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """Findings on the validity and the interpretation of these results.

        The summary, the report, JSON and R show the same ones, and ``fit`` issues a warning for each that has a
        ``category``. ``pandas.DataFrame(res.findings)`` is a table of them.

        Examples
        --------
        >>> import statsmodels.api as sm
        >>> from pybayesridge import BayesRidge
        >>> longley = sm.datasets.longley.load_pandas().data
        >>> res = BayesRidge.from_formula("TOTEMP ~ GNP + UNEMP", longley).fit()
        >>> [(finding.code, finding.severity) for finding in res.findings]
        [('intervals', 'note')]
        """
        return (*self.findings_on_validity, *self._findings_on_reading())

    def _findings_on_reading(self) -> list[Finding]:
        raise NotImplementedError

    @property
    def notes(self) -> list[str]:
        """The sentences of the :attr:`findings`."""
        return [finding.sentence for finding in self.findings]

    @property
    def nobs(self) -> float:
        """Number of rows used."""
        return float(self.model.nobs)

    @property
    def mse_resid(self) -> float:
        """Not available: the residual mean square of least squares, which statsmodels uses for intervals."""
        raise AttributeError(
            "these results have no mse_resid, from which statsmodels computes intervals of least squares (plot_fit, "
            "plot_regress_exog, wls_prediction_std): use get_prediction().summary_frame(), or "
            "plot_fit with vlines=False"
        )

    def get_influence(self, *_: object, **__: object) -> NoReturn:
        """Not available: influence measures of least squares."""
        raise ValueError(
            "statsmodels' measures of influence are those of least squares, and say nothing of this fit: use "
            "plot_residuals(), and loo_residuals of a BayesRidge"
        )
