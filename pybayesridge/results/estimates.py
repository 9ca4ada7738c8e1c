"""Estimates that the results of both models have: coefficients, fitted values, findings."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self

import numpy as np
import pandas as pd

from pybayesridge._types import AnyArray, FloatArray, IntArray, RandomLike
from pybayesridge.data.frames import make_frame
from pybayesridge.findings import Finding
from pybayesridge.posterior.laws import Answer, Ask, Joint, Posterior, RowLaw
from pybayesridge.recipes import Recipe
from pybayesridge.results.arguments import check_alpha, shown_last, standardized_size, target_position
from pybayesridge.results.arviz import ChainDraws
from pybayesridge.results.facts import ShownCoefficients, Written, rows_to_show, value_of
from pybayesridge.results.labelled import Arrays, Lacking, OfFamily, per_coefficient, per_row, per_target
from pybayesridge.results.shown import Shown, counted
from pybayesridge.text import listed

if TYPE_CHECKING:
    from pybayesridge.models.base import LinearModel
    from pybayesridge.posterior.left_out import LeftOut, RowsLeftOut
    from pybayesridge.selection.result import Exact


SUMMARY = ["mean", "median", "lower", "upper"]


def summary_of_draws(draws: FloatArray, alpha: float) -> FloatArray:
    """Mean, median and limits of the interval of draws, the entries of ``SUMMARY``."""
    return np.array([draws.mean(), *np.quantile(draws, [0.5, alpha / 2, 1 - alpha / 2])])


class LinearEstimates(Shown):
    """Posterior means, standard deviations and intervals of a linear model, and what a fit has to say.

    What the posterior says of coefficients is put in the order of ``model.exog_names``.

    Attributes
    ----------
    params : Series or DataFrame
        Posterior means of the coefficients, on the user's scale.
    model_name : str
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
    posterior : Posterior
        Joint, or of each coefficient alone; internal.
    """

    model_name: ClassVar[str]
    method: str
    converged: bool
    n_iter: int
    recipe: Recipe
    tol: float
    maxiter: int
    model: LinearModel
    k_constant: int
    posterior: Any

    def __init__(self, model: LinearModel, posterior: Any, **kwds: Any) -> None:
        self.__dict__.update(kwds)
        self.converged = bool(self.converged)
        self.model, self.posterior, self.k_constant = model, posterior, model.k_constant
        if not posterior.design.in_blocks:
            _ = self.arrays.params

    def __dir__(self) -> list[str]:
        """Names of the attributes, without those that only other families have."""
        return [name for name in super().__dir__() if self._has(name)]

    def _has(self, name: str) -> bool:
        """Whether an attribute of the class is there for the family."""
        found = next((vars(each)[name] for each in type(self).__mro__ if name in vars(each)), None)
        return not isinstance(found, Lacking) and (not isinstance(found, OfFamily) or found.of(self))

    @property
    def arrays(self) -> Any:
        """These results with arrays in place of the Series and DataFrames that are their attributes."""
        return Arrays(self)

    @property
    def _results(self) -> Any:
        """What statsmodels' functions take out of results that label others, and read by position."""
        return self.arrays

    @per_coefficient
    def params(self) -> FloatArray:
        """Posterior means of the coefficients (medians where there are none), user's scale; (k,) or (k, q)."""
        return self._squeeze(self.ask(Ask(sd=False)).center)

    def _shown(self) -> tuple[str, pd.DataFrame | None, str]:
        data, means = self.model.data, self.params
        sizes = f"{counted(self.model.nobs, 'row')}, {counted(len(data.xnames), 'coefficient')}"
        ended = "" if self.converged else ", not converged"
        title = (
            f"{self.model_name} of {listed(data.targets)}: {sizes}, method {self.method!r}{ended}. Posterior means:"
        )
        table = means.to_frame("mean") if isinstance(means, pd.Series) else means
        return title, table, "summary() shows standard deviations, intervals and notes."

    def ask(self, ask: Ask, which: Sequence[int] | IntArray | None = None, target: int | None = None) -> Answer:
        """What the posterior says of all coefficients, or of some by position; for all targets, or for one.

        Coefficients of columns that do not vary are exactly zero.
        """
        posterior: Any = self.posterior
        if target is not None:
            posterior = posterior.of_targets(slice(target, target + 1))
        at = np.concatenate(self.model.positions(posterior.design))
        if which is None:
            return posterior.coefficients.ask(ask).placed(ask, at, len(self.model.exog_names))
        wanted = np.asarray(which, dtype=np.intp)
        of_position = np.full(len(self.model.exog_names), -1)
        of_position[at] = np.arange(at.size)
        varies = np.flatnonzero(of_position[wanted] >= 0)
        found: Answer = posterior.coefficients.ask(ask, of_position[wanted[varies]])
        return found.placed(ask, varies, wanted.size)

    @property
    def parts(self) -> tuple[Self, ...]:
        """The fits whose posteriors are mixed: this one."""
        return (self,)

    @property
    def shares(self) -> FloatArray | None:
        """Their weights; None for equal ones."""
        return None

    @property
    def has_joint_posterior(self) -> bool:
        """Whether the joint posterior of all coefficients is available, and not only that of each."""
        joint: Joint = self.posterior.joint_law
        return joint != "none"

    @property
    def exact_sets(self) -> Exact | None:
        """The exact posterior of the sets of columns; None, but for selections."""
        return None

    def rows_left_out(self, target: int) -> LeftOut:
        """Predictions of the rows of a target from the others."""
        posterior: RowsLeftOut = self.posterior
        return posterior.rows_left_out(self._given_responses(target), target)

    def _given_responses(self, target: int) -> Any:
        """What the posterior has to be told of the responses of a target to predict some of them from the others."""
        return None

    def groups_left_out(self, target: int, codes: IntArray) -> LeftOut:
        """Predictions of groups of rows of a target, each from the other rows; `codes` (n,) is the group of each row.

        Raises
        ------
        ValueError
            For selections, which have none.
        """
        raise ValueError(
            "loo(by=) is for BayesRidge: fit without the rows of each group to predict them by a selection"
        )

    def row_law(self, weights: FloatArray, offset: FloatArray, target: int) -> RowLaw:
        """The law of combinations of the coefficients of a target with `weights` (m, k), plus `offset` (m,)."""
        of_z, penalized = self.model.positions(self.posterior.design)
        posterior: Posterior = self.posterior.of_targets(slice(target, target + 1))
        return posterior.rows(weights[:, penalized], weights[:, of_z], offset)

    def law_of_rows(self, rows: AnyArray) -> RowLaw:
        """The law of the linear predictor of rows of the design."""
        law: RowLaw = self.posterior.rows(*self.model.split_rows(rows, self.posterior.design))
        return law

    def standardized_size(self, target: int) -> FloatArray:
        """Size of the coefficients per standard deviation; unpenalised ones always come first."""
        b = self.arrays.params.reshape(len(self.model.exog_names), -1)[:, target]
        return standardized_size(self.model, self.posterior.design, b)

    def some_coefficients(
        self, positions: Sequence[int] | IntArray, target: int, alpha: float
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Means (medians where there are none), standard deviations and intervals of some coefficients."""
        found = self.ask(Ask((alpha / 2, 1 - alpha / 2)), positions, target)
        return found.center[:, 0], found.sd[:, 0], found.quantiles[:, 0]

    def shown_coefficients(self, i: int, alpha: float) -> ShownCoefficients:
        """The coefficients of a target that the summary shows: all, or the largest standardised ones.

        Effects of groups and parts of curves come after all others.
        """
        last = shown_last(self.model)
        at = rows_to_show(self.standardized_size(i), last)
        left_out = "The {count} smallest standardised coefficients are omitted; see params, conf_int()."
        if last.any():
            left_out = "{count} coefficients are omitted, effects of groups and curves first; see params, conf_int()."
        values = np.column_stack(self.some_coefficients(at, i, alpha))
        return ShownCoefficients(at, [self.center, "sd"], values, left_out)

    def shown_fact(self, name: str, i: int = 0) -> Any:
        """A number of the fit as a whole by its name in JSON, for a target; None where the fit does not have it."""
        return value_of(self, "json", name, i)

    def shown_tables(self, i: int, alpha: float) -> list[Written]:
        """Further tables of the summary, for a target."""
        return []

    @property
    def center(self) -> str:
        """What `params` are."""
        return "mean"

    @property
    def converged_by_target(self) -> list[bool]:
        """Whether every iteration met its stopping rule, for each target."""
        return [bool(self.converged)] * len(self.model.data.targets)

    def sample(self, n: int, rng: RandomLike = None) -> pd.DataFrame:
        """Draw from the joint posterior of the coefficients."""
        raise NotImplementedError

    def left_out_predictions(self, target: int) -> FloatArray:
        """Predictions of the rows of a target from the others, (n,)."""
        raise NotImplementedError

    def _release_rows(self, row_space: bool) -> None:
        raise NotImplementedError

    def _draw_chain(self, n: int, generator: np.random.Generator) -> ChainDraws:
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

    @per_coefficient
    def bse(self) -> FloatArray:
        """Posterior standard deviations of the coefficients, user's scale; (k,) or (k, q)."""
        return self._squeeze(self.ask(Ask(mean=False)).sd)

    @property
    def posterior_var(self) -> pd.Series | pd.DataFrame:
        """Posterior variances of the coefficients; the diagonal of ``cov_params()``."""
        with np.errstate(over="ignore", under="ignore"):
            return self.bse**2

    def cov_params(self, target: str | int | None = None) -> pd.DataFrame:
        """Posterior covariance matrix of the coefficients, (k, k). No other array of this size is formed.

        Parameters
        ----------
        target : str or int, optional
            Which target, by name or position; needed where there are several.
        """
        i = target_position(self.model.data.targets, target, "cov_params")
        at = np.concatenate(self.model.positions(self.posterior.design))
        out = np.zeros((len(self.model.exog_names),) * 2)
        out[np.ix_(at, at)] = self.posterior.coefficients.covariance(i)
        labelled: pd.DataFrame = self.model.data.wrap_output(out, "cov")
        return labelled

    def conf_int(self, alpha: float = 0.05) -> pd.DataFrame:
        """Equal-tailed credible intervals of the coefficients, with two columns (under each target).

        Parameters
        ----------
        alpha : float
            One minus the probability of the interval.
        """
        out: pd.DataFrame = self.model.data.wrap_output(self.arrays.conf_int(alpha), "interval")
        return out

    def intervals(self, alpha: float) -> FloatArray:
        """The intervals of :meth:`conf_int` with an axis for the targets, (k, q, 2)."""
        return self.ask(Ask((check_alpha(alpha) / 2, 1 - alpha / 2), mean=False, sd=False)).quantiles

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
        interval = self.intervals(alpha)
        columns = {
            "term": list(names) * len(targets),
            "estimate": self.arrays.params.ravel(order="F"),
            "std_error": self.arrays.bse.ravel(order="F"),
            "conf_low": interval[..., 0].ravel(order="F"),
            "conf_high": interval[..., 1].ravel(order="F"),
            **self.own_columns(),
        }
        if not self.model.one_target:
            columns["target"] = [name for name in targets for _ in names]
        return make_frame(columns, self.model.data.library)

    def own_columns(self) -> dict[str, FloatArray]:
        """Further columns of :meth:`tidy`, which only some fits have."""
        return {}

    @per_row
    def fittedvalues(self) -> FloatArray:
        """Posterior mean of the linear predictor at the rows of the data, (n,) or (n, q)."""
        return self._fitted()

    def _fitted(self) -> FloatArray:
        if self.model.data.exog is None:
            raise ValueError(self.model.why_no_rows)
        out: FloatArray = self.model.predict(self.arrays.params)
        return out

    @per_row
    def resid(self) -> FloatArray:
        """Residuals: observed minus fitted values, unweighted, (n,) or (n, q)."""
        if self.model.endog is None:
            raise ValueError(self.model.why_no_rows)
        out: FloatArray = self.model.endog - self.arrays.fittedvalues
        return out

    @per_target
    def rsquared(self) -> float | FloatArray:
        """R-squared: share of the (weighted) variation explained; about the mean if the model has a constant."""
        return self._rsquared()

    def _rsquared(self) -> float | FloatArray:
        b = self.arrays.params.reshape(len(self.model.exog_names), -1)
        constant = bool(self.model.k_constant)
        return self._per_target(self.model.source.rsquared(b, self._residuals_of, constant=constant))

    def _residuals_of(self, part: slice) -> FloatArray:
        """Residuals of some targets; only those of all targets are kept."""
        if self.model.one_target or "resid" in self.__dict__ or part == slice(0, len(self.model.data.targets)):
            found: FloatArray = self.arrays.resid if self.model.one_target else self.arrays.resid[:, part]
            return found
        out: FloatArray = self.model.endog[:, part] - self.model.predict(self.arrays.params[:, part])
        return out

    @property
    def df_model(self) -> float | pd.Series:
        """Effective number of parameters; see each class."""
        raise NotImplementedError

    @property
    def df_resid(self) -> float | pd.Series:
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
