"""Estimates of a ridge of Gaussian responses: the posterior of the penalty, and what follows from it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
import pandas as pd

from pybayesridge._types import FloatArray, IntArray, RandomLike
from pybayesridge.results.arguments import check_alpha
from pybayesridge.results.estimates import SUMMARY, summary_of_draws
from pybayesridge.results.gaussian_estimates import GaussianEstimates
from pybayesridge.results.labelled import Labelled, per_row, per_target
from pybayesridge.ridge.fit import RidgeFit
from pybayesridge.ridge.penalty import HYPERPARAMETERS, FittedPenalty

if TYPE_CHECKING:
    from pybayesridge.models.priors import RidgeModel


class RidgeEstimates(GaussianEstimates):
    """Estimates of a ridge of Gaussian responses: the penalty, the noise, and rows predicted from the others.

    Attributes
    ----------
    ridge_fit : RidgeFit
        Answer of the method in the numerics' own units; internal.
    noise_sd : (q,) array
        Square root of `sigma2` for each target, computed without its square, which can underflow.
    """

    model: RidgeModel
    ridge_fit: RidgeFit
    noise_sd: FloatArray
    solver: str
    lambda_: Labelled[float | pd.Series] = Labelled("targets")
    tau2: Labelled[float | pd.Series] = Labelled("targets")
    sigma2: Labelled[float | pd.Series] = Labelled("targets")
    dof: Literal["nu", "paper"]
    parameterization: Literal["tau2", "tau"]
    hyperparameter_names: ClassVar[list[str]] = HYPERPARAMETERS

    @per_target
    def penalty_information(self) -> float | FloatArray | None:
        """Kullback-Leibler divergence of the posterior of lambda from its prior in nats; None except for ``"exact"``.

        Near 0 the data contain little information about the penalty, and the prior decides.
        """
        found = self.penalty.information()
        return None if found is None else self._per_target(found)

    @property
    def grid(self) -> FloatArray | None:
        """Grid of penalties, (L,), or (L, q) if it depends on the target; None for other methods."""
        grid = self.ridge_fit.grid
        if grid is None:
            return None
        return grid[:, 0] if (grid == grid[:, :1]).all() else grid

    @property
    def grid_scores(self) -> FloatArray | None:
        """Cross-validation score of each penalty of `grid`, in squared units of the response, (L,) or (L, q)."""
        if self.ridge_fit.search is None:
            return None
        return self._squeeze(self.ridge_fit.search.scores * self.posterior.design.y_norm**2)

    @per_target
    def quadrature_error(self) -> float | FloatArray | None:
        """Estimated error of the quadrature of ``"exact"``; None for other methods."""
        found = self.ridge_fit.quadrature
        return None if found is None else self._per_target(found.error)

    def has_penalty_posterior(self, i: int) -> bool:
        """Whether lambda has a proper posterior that the data say something about."""
        return self.penalty.has_posterior(i)

    @property
    def penalty(self) -> FittedPenalty:
        """The posterior of the penalty, in the numerics' own units."""
        model, design = self.model, self.posterior.design
        noise = model.noise(self.dof)
        return FittedPenalty(design, self.ridge_fit, model.prior_of_tau2, noise, self.parameterization)

    @per_target
    def log_marginal(self) -> float | FloatArray:
        """Log marginal likelihood log p(y).

        For ``"fixed"`` given the penalty; for every other method with the penalty integrated out, so that it
        belongs to the model and not to the method. The priors of the unpenalised coefficients (flat, 1) and of the
        noise variance (1/s2) are improper: only differences between models with the same unpenalised columns and
        the same response mean something. NaN where the response is fitted exactly, the penalty is 0, or the posterior
        is improper. With ``dof="paper"`` and unknown noise the unpenalised coefficients are maximised over, not
        integrated out, which is what counting n instead of n - rank(Z) amounts to: compare such values only with one
        another.
        """
        found = self.penalty.log_marginal(self.model.log_weights, given=self.method_entry.given)
        return self._per_target(found)

    def hyperparameters(self, alpha: float = 0.05) -> pd.DataFrame:
        """Posterior mean, median and interval of lambda, tau2, sigma2 and the effective degrees of freedom.

        A method that fixes the penalty has a single point for it. A mean is inf where the posterior has none: for
        lambda that is so for every prior with a <= 1, the named ones among them, since its tail is the prior's.

        Parameters
        ----------
        alpha : float
            One minus the probability of the interval.

        Returns
        -------
        DataFrame
            Rows lambda, tau2, sigma2, df_model (under each target, where there are several); columns mean, median,
            lower, upper.

        Examples
        --------
        >>> import statsmodels.api as sm
        >>> from pybayesridge import BayesRidge
        >>> longley = sm.datasets.longley.load_pandas().data
        >>> res = BayesRidge.from_formula("TOTEMP ~ GNP + UNEMP + ARMED", longley).fit()
        >>> res.hyperparameters().loc["df_model"].round(2).to_dict()
        {'mean': 2.96, 'median': 2.97, 'lower': 2.87, 'upper': 3.0}
        """
        check_alpha(alpha)
        at = np.array([0.5, alpha / 2, 1 - alpha / 2])
        tables = {}
        for i, name in enumerate(self.model.data.targets):
            tables[name] = pd.DataFrame(
                self.hyperparameters_of(i, at),
                index=self.hyperparameter_names,
                columns=SUMMARY,
            )
        return next(iter(tables.values())) if self.model.one_target else pd.concat(tables, names=["target", None])

    def hyperparameters_of(self, i: int, at: FloatArray) -> FloatArray:
        """Posterior means, and quantiles at the three levels `at`, of one target's hyperparameters, (4, 4)."""
        found = self.penalty.quantiles(i, at)
        found[3] += self.posterior.design.block.k - self.model.k_constant
        return np.column_stack([self.hyperparameter_means[:, i], found])

    @cached_property
    def hyperparameter_means(self) -> FloatArray:
        """Posterior means of lambda, tau2, sigma2 and the effective degrees of freedom, (4, q)."""
        return np.vstack([self.penalty.means(), np.atleast_1d(self.arrays.df_model)])

    def explained_variance_of(self, i: int, alpha: float, rng: RandomLike = 0) -> FloatArray:
        """Mean, median and interval for one target, whose draws are the same whatever the others are."""
        known = self._explained.get((i, alpha, rng)) if isinstance(rng, int) else None
        if known is not None:
            return known.copy()
        share = self.penalty.explained(i, np.random.default_rng(rng))
        out = summary_of_draws(share, alpha)
        if isinstance(rng, int):
            self._explained[i, alpha, rng] = out.copy()
        return out

    @cached_property
    def _explained(self) -> dict[tuple[int, float, int], FloatArray]:
        """The share explained for the targets, intervals and seeds that were asked for: a summary shows it twice."""
        return {}

    @per_target
    def df_model(self) -> float | FloatArray:
        """Effective degrees of freedom: the trace of the hat matrix, excluding the constant (as in statsmodels)."""
        return self._per_target(self.penalty.effective_df() + (self.posterior.design.block.k - self.model.k_constant))

    @per_target
    def n_modes(self) -> int | IntArray:
        """Number of interior modes of the posterior of tau2 or tau (see ``parameterization``), for every method."""
        counted = self.penalty.n_modes()
        return int(counted[0]) if self.model.one_target else counted

    @per_row
    def loo_residuals(self) -> FloatArray:
        """Leave-one-out residuals at the penalty ``lambda_``, unweighted, (n,) or (n, q).

        Equal to refitting without the row at the same penalty and standardisation. NaN where the unpenalised
        columns alone pass through a row's response.
        """
        if self.model.endog is None:
            raise ValueError(self.model.why_no_rows)
        return self._squeeze(self.penalty.loo_residuals())

    def left_out_predictions(self, target: int) -> FloatArray:
        """Predictions of the rows of a target from the others at the same penalty, (n,)."""
        shape = len(self.model.data.row_labels), -1
        residuals = np.reshape(self.arrays.loo_residuals, shape)[:, target]
        out: FloatArray = np.reshape(self.model.endog, shape)[:, target] - residuals
        return out

    @per_target
    def loo_mse(self) -> float | FloatArray:
        """Leave-one-out mean squared error at the penalty ``lambda_``, weighted if the fit has weights."""
        out = np.concatenate([self._loo_mse(residuals) for _, residuals in self._loo_residuals_by_parts()])
        return self._per_target(out)

    def _loo_residuals_by_parts(self) -> Iterator[tuple[slice, FloatArray]]:
        """Yield :attr:`loo_residuals` of consecutive targets, (n, some); of very many they are not kept."""
        if self.model.endog is None:
            raise ValueError(self.model.why_no_rows)
        design = self.posterior.design
        parts = list(design.target_parts())
        if len(parts) == 1 or "loo_residuals" in self.__dict__:
            yield slice(0, design.q), self.arrays.loo_residuals.reshape(len(self.arrays.loo_residuals), -1)
            return
        for part in parts:
            yield part, self.penalty.loo_residuals(part)

    @per_target
    def loo_rsquared(self) -> float | FloatArray:
        """Leave-one-out R-squared: 1 minus the ratio of `loo_mse` to the error of the mean of the other rows.

        The mean is weighted where the rows are; without an intercept the comparison is with zero. NaN where the
        response does not vary or a row cannot be predicted.
        """
        found = [self._loo_rsquared(part, residuals) for part, residuals in self._loo_residuals_by_parts()]
        return self._per_target(np.concatenate(found))

    @cached_property
    def precision_loss(self) -> float:
        """Relative error, about, that rounding errors have left in the fit."""
        loss = max(self.ridge_fit.loss, self.model.precision_loss)
        if not self.model.source.from_moments:
            return loss
        return max(loss, self.penalty.loss_of_moments())

    @cached_property
    def condition_number(self) -> float:
        """Condition number of the penalised columns as the prior sees them; infinite if they are linearly dependent.

        They are standardised (unless ``standardize=False``), the unpenalised ones projected out; statsmodels' is that
        of the columns as given, with the constant.
        """
        full = self.penalty.rank() == self.posterior.design.p > 0
        return float(1.0 / self.ridge_fit.spectrum.s[-1]) if full else np.inf

    def diagnostics_by_target(self) -> list[dict[str, float | str]]:
        """The values of :meth:`diagnostics` of each target."""
        fit, spectrum = self.ridge_fit, self.ridge_fit.spectrum
        full = bool(np.isfinite(self.condition_number))
        smallest = float(spectrum.s[-1] ** 2) * np.exp(fit.log_unit) if full else 0.0
        gamma = smallest / self.model.nobs
        bound = 4.0 / smallest if smallest > 0 else np.inf
        t2, n_modes = np.atleast_1d(self.arrays.tau2), np.atleast_1d(self.arrays.n_modes)
        rank = self.penalty.rank()
        return [
            {
                "gamma_n": gamma,
                "tau2_bound": bound,
                "unique_mode_certified": bool(np.isfinite(t2[i]) and t2[i] > bound),
                "n_modes": int(n_modes[i]),
                "solver": self.solver,
                "condition_number": self.condition_number,
                "rank": rank,
                "null_model": bool(fit.null[i]),
                "exact_fit": bool(fit.perfect[i]),
                "converged": bool(fit.converged[i]),
            }
            for i in range(len(self.model.data.targets))
        ]

    @property
    def converged_by_target(self) -> list[bool]:
        """Whether every iteration met its stopping rule, for each target."""
        return self.ridge_fit.converged.tolist()
