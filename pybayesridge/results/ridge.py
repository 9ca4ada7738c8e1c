"""Results of a Bayesian ridge regression."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import statsmodels.base.wrapper as wrap
from statsmodels.iolib.summary import Summary

from pybayesridge._types import AnyArray, FloatArray
from pybayesridge.data import listed
from pybayesridge.design import Design
from pybayesridge.results.base import LinearResults, LinearResultsWrapper, check_alpha, wrapper_attributes
from pybayesridge.results.summary import coefficient_table, facts_table, make_summary, number
from pybayesridge.ridge.fit import RidgeFit
from pybayesridge.ridge.posterior import effective_df
from pybayesridge.ridge.user_scale import RidgePosterior


class BayesRidgeResults(LinearResults):
    """Posterior of a Bayesian ridge regression.

    Made by :meth:`BayesRidge.fit`. Vectors run over ``model.exog_names`` (the intercept first, if it was added) or
    over rows; the wrapper that users see labels them.

    Parameters
    ----------
    model : BayesRidge
    design : Design
    fit : RidgeFit
    method, dof, parameterization : str
        As given to ``fit``.

    Attributes
    ----------
    params : (k,) or (k, q) array
        Posterior means of the coefficients, user's scale.
    lambda_ : float or (q,) array
        The ridge penalty on the standardised scale; inf for a null model, 0 for an exact fit.
    tau2 : float or (q,) array
        ``1 / lambda_``: prior variance of the coefficients beside the noise variance.
    sigma2 : float or (q,) array
        Noise variance on the user's scale, for an observation of average weight: at the mode for ``"em"``, the
        posterior mean for ``"fixed"``.
    n_modes : int or (q,) array or None
        Interior modes of the posterior of tau2, where they were counted.
    solver : {"gram", "dual", "svd"}
        Route of the one-off rotation.
    converged : bool
    n_iter : int
    """

    def __init__(
        self, model: Any, design: Design, fit: RidgeFit, *, method: str, dof: str, parameterization: str
    ) -> None:
        self._posterior = RidgePosterior(design, fit.spectrum, fit.mixture)
        self._fit = fit
        params = model.scatter(*self._posterior.coefficients(), design)
        super().__init__(
            model,
            params[:, 0] if model.one_target else params,
            method=method,
            dof=dof,
            parameterization=parameterization,
            converged=bool(fit.converged.all()),
            n_iter=fit.n_iter,
            solver=fit.spectrum.solver,
        )
        with np.errstate(over="ignore"):
            self.lambda_ = self._per_target(np.exp(fit.log_unit - fit.log_t2))
            self.tau2 = self._per_target(np.exp(fit.log_t2 - fit.log_unit))
            self.sigma2 = self._per_target((np.sqrt(fit.sigma2) * design.y_norm) ** 2)
        self.n_modes: Any = fit.n_modes
        if fit.n_modes is not None and model.one_target:
            self.n_modes = int(fit.n_modes[0])
        self._sigma = np.sqrt(fit.sigma2) * design.y_norm

    @cached_property
    def df_model(self) -> Any:
        """Effective degrees of freedom: the trace of the hat matrix, less one for a constant (as statsmodels)."""
        shrunk = (self._fit.mixture.weight * effective_df(self._fit.spectrum, self._fit.mixture.log_t2)).sum(axis=0)
        return self._per_target(shrunk + (self._posterior.design.block.k - self.model.k_constant))

    @property
    def df_resid(self) -> Any:
        """Rows less effective degrees of freedom, the constant among them."""
        return self.nobs - self.df_model - self.model.k_constant

    def _standard_deviations(self) -> FloatArray:
        return self.model.scatter(*self._posterior.standard_deviations(), self._posterior.design)

    def _intervals(self, alpha: float) -> FloatArray:
        return self.model.scatter(*self._posterior.intervals(alpha), self._posterior.design)

    def _covariance(self, target: int) -> FloatArray:
        at = np.concatenate(self.model.positions(self._posterior.design))
        out = np.zeros((len(self.model.exog_names),) * 2)
        out[np.ix_(at, at)] = self._posterior.covariance(target)
        return out

    def _row_moments(self, rows: AnyArray) -> tuple[FloatArray, FloatArray]:
        return self._posterior.row_moments(*self.model.split_rows(rows, self._posterior.design))

    def _row_intervals(self, rows: AnyArray, alpha: float, noise: FloatArray | None) -> FloatArray:
        split = self.model.split_rows(rows, self._posterior.design)
        return self._posterior.row_intervals(split[0], split[1], alpha, noise)

    def _release_rows(self) -> None:
        self._posterior = self._posterior.without_rows()

    @property
    def notes(self) -> list[str]:
        """What a reader of the summary must know, one sentence each."""
        out = [self._note_on_intervals()]
        fit, data, design = self._fit, self.model.data, self._posterior.design
        several = not self.model.one_target

        def which(mask: Any) -> str:
            return f" (targets {listed(np.array(data.targets)[mask].tolist())})" if several else ""

        vanishes = design.y_vanishes & (self.model.known_sigma2 is None)
        if vanishes.any():
            out.append(
                f"The unpenalised columns fit the response exactly: there is nothing to explain{which(vanishes)}."
            )
        if (fit.null & ~vanishes).any():
            out.append(f"No signal: all coefficients are shrunk to zero, there is no interior mode{which(fit.null)}.")
        if fit.exact.any():
            out.append(f"The columns fit the response exactly: least squares, without noise{which(fit.exact)}.")
        if fit.unbounded.any():
            out.append(
                f"No interior mode: lambda is a bound, the posterior does not fall towards 0{which(fit.unbounded)}."
            )
        if (~fit.converged & ~fit.unbounded).any():
            out.append(
                f"NOT CONVERGED within maxiter iterations: do not report these numbers{which(~fit.converged)}."
            )
        if fit.n_modes is not None and (fit.n_modes > 1).any():
            out.append(f"The posterior of tau2 has several modes; this is the highest{which(fit.n_modes > 1)}.")
        if design.constant.size:
            names = [data.exog_columns[j] for j in design.constant]
            out.append(f"Constant column(s), coefficient 0: {listed(names)}.")
        if data.const_idx is not None:
            out.append(f"The column {data.exog_columns[data.const_idx]!r} serves as the intercept.")
        if data.n_dropped:
            out.append(f"{data.n_dropped} row(s) with missing values were left out.")
        return out

    def _note_on_intervals(self) -> str:
        what = {
            "em": "Intervals are conditional on lambda and sigma at the posterior mode.",
            "fixed": "Intervals are conditional on lambda; sigma is integrated out.",
        }[self.method]
        if self.model.known_sigma2 is not None:
            what = "Intervals are conditional on lambda; sigma is known."
        scale = "standard deviations of the columns" if self.model.standardize else "the columns as they are"
        return f"{what} The prior is on the scale of {scale}."

    def summary(self, alpha: float = 0.05) -> Summary:
        """Regression table: posterior mean, standard deviation and interval of every coefficient.

        Tables of more than 60 coefficients show the largest standardised ones first and say how many are left out.

        Parameters
        ----------
        alpha : float
            One minus the probability of the intervals.

        Returns
        -------
        statsmodels.iolib.summary.Summary
            Prints as text; ``as_html()``, ``as_latex()``, ``as_csv()``.
        """
        check_alpha(alpha)
        tables = []
        columns = [slice(None)] if self.model.one_target else list(range(self.params.shape[1]))
        bse, intervals = self.bse, self.conf_int(alpha)
        left_out = 0
        for i, column in enumerate(columns):
            title = "Bayesian Ridge Regression" if i == 0 else None
            tables.append(facts_table(title, *self._facts(i)))
            at: Any = (slice(None),) if self.model.one_target else (slice(None), column)
            table, left_out = coefficient_table(
                self.model.exog_names,
                self.params[at],
                bse[at],
                intervals[at],
                alpha,
                self._standardized_size(i),
            )
            tables.append(table)
        notes = self.notes
        if left_out:
            notes.append(
                f"The {left_out} smallest standardised coefficients are left out; see params and conf_int()."
            )
        return make_summary(tables, notes)

    def _standardized_size(self, target: int) -> FloatArray:
        """Size of the coefficients per standard deviation; unpenalised ones always come first."""
        design = self._posterior.design
        b = self.params if self.model.one_target else self.params[:, target]
        size = np.zeros(len(self.model.exog_names))
        z_at, at = self.model.positions(design)
        size[at] = np.abs(b[at]) * self._posterior.design.scale
        size[z_at] = np.inf
        return size

    def _facts(self, i: int) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
        def pick(value: Any) -> float:
            return float(np.atleast_1d(value)[i])

        iterations = f"{self.n_iter}" if self.method == "em" else "-"
        left = [
            ("Dep. Variable:", self.model.data.targets[i]),
            ("Model:", "BayesRidge"),
            ("Method:", self.method),
            ("Solver:", self.solver),
            ("No. Observations:", f"{int(self.nobs)}"),
            ("Iterations:", iterations),
            ("Converged:", "yes" if self._fit.converged[i] else "NO"),
        ]
        right = [
            ("lambda:", number(pick(self.lambda_))),
            ("tau:", number(np.sqrt(pick(self.tau2)))),
            ("sigma:", number(float(self._sigma[i]))),
            ("Df Model (effective):", number(pick(self.df_model))),
            ("Df Residuals:", number(pick(self.df_resid))),
            ("R-squared:", f"{pick(self.rsquared):.3f}"),
            ("Modes:", "-" if self.n_modes is None else f"{int(np.atleast_1d(self.n_modes)[i])}"),
        ]
        return left, right


class BayesRidgeResultsWrapper(LinearResultsWrapper):
    """Labelled results of a Bayesian ridge regression; see :class:`BayesRidgeResults`."""

    _attrs = wrapper_attributes({"lambda_": "targets", "tau2": "targets", "n_modes": "targets"})
    _wrap_attrs = _attrs


wrap.populate_wrapper(BayesRidgeResultsWrapper, BayesRidgeResults)
