"""Estimates of a selection: which columns are in, which are in together, which replace each other, how many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pybayesridge._types import FloatArray, IntArray, RandomLike
from pybayesridge.checks import positive, positive_int
from pybayesridge.data.units import Units, units_of
from pybayesridge.quantile_tables import NO_ROW_SPACE
from pybayesridge.results import monte_carlo
from pybayesridge.results.arguments import check_alpha
from pybayesridge.results.estimates import SUMMARY, LinearEstimates, summary_of_draws
from pybayesridge.results.labelled import per_coefficient
from pybayesridge.selection.result import Check, CredibleSet, Doubt, Exact
from pybayesridge.text import did_you_mean

if TYPE_CHECKING:
    from pybayesridge.models.priors import SelectionModel
    from pybayesridge.posterior.laws import ShapeLaw

MEDIAN = 0.5
"""The median probability model holds the columns whose inclusion probability exceeds this."""

ROUNDING = 1e-12
"""Error of a sum of probabilities that does not move a quantile to the next number."""


class SelectionEstimates(LinearEstimates):
    """Estimates of a selection: inclusion probabilities, coefficients given inclusion, and sets of columns."""

    model: SelectionModel
    check: Check | None
    fit_options: Mapping[str, Any] | None
    residual: float
    n_fac: int
    learned: tuple[str, ...]
    evidence_biased: bool
    energy_trace: FloatArray
    doubts: tuple[Doubt, ...]
    slab_var: float

    @property
    def penalized_names(self) -> list[str]:
        """Names of the columns that are subject to selection."""
        return [self.model.data.exog_columns[j] for j in self.posterior.design.columns]

    @property
    def units(self) -> Units:
        """Units of selection: single columns, or groups of columns."""
        design = self.posterior.design
        return units_of(design.p, self.model.groups_of(design))

    @property
    def shape_grid(self) -> ShapeLaw | None:
        """The posterior of the log of the family's further parameter, where it was integrated out. Internal."""
        return None

    @property
    def unit_names(self) -> list[str]:
        """Names of the units of selection, as `doubts` counts them: single columns, or groups."""
        design, groups = self.posterior.design, self.model.groups
        units = self.units
        if units.single:
            return self.penalized_names
        first = design.columns[units.order[units.start[:-1]]]
        return [str(groups.labels[g]) for g in groups.of_column[first]]

    @property
    def exact_posterior(self) -> Any:
        """The exact joint posterior, if that is what was computed and it was not removed; else None."""
        return self.posterior if self.exact_sets is not None and self.has_joint_posterior else None

    @property
    def exact_sets(self) -> Exact | None:
        """The exact posterior of the sets of columns, if that is what was computed, without the joint one too."""
        found: Exact | None = self.posterior.exact
        return found

    def _exactly(self, what: str) -> Exact:
        """The exact posterior of the sets, or an error that names what needs it."""
        if self.exact_sets is None:
            if self.posterior.design.p == 0:
                raise ValueError(f"{what} is of penalised columns, and no column of this fit is penalised and varies")
            raise ValueError(self.model.lane.without_joint_posterior(what))
        return self.exact_sets

    @per_coefficient
    def inclusion_se(self) -> FloatArray:
        """Monte Carlo standard errors of `inclusion_prob`, 0 for sums over all sets.

        NaN for expectation propagation, whose error is not one of sampling; 0 for unpenalised and constant columns.
        """
        exact = self.exact_sets
        if exact is None:
            return self._spread(np.full(self.posterior.design.p, np.nan), 0.0)
        return self._spread(exact.inclusion_se, 0.0)

    @property
    def group_inclusion_se(self) -> pd.Series:
        """Monte Carlo standard errors of `group_inclusion_prob`; 0 and NaN as those of `inclusion_se`."""
        exact, p = self.exact_sets, self.posterior.design.p
        return self._by_group(np.full(p, np.nan) if exact is None else exact.inclusion_se, "inclusion_se")

    def _by_group(self, values: FloatArray, name: str) -> pd.Series:
        """The largest of `values` (p,) in each group with a penalised column; 0 for constant columns."""
        data, groups = self.model.data, self.model.groups
        penalized = np.setdiff1d(np.arange(len(data.exog_columns)), data.unpenalized)
        of_column = np.zeros(len(data.exog_columns))
        of_column[self.posterior.design.columns] = values
        present, position = np.unique(groups.of_column[penalized], return_inverse=True)
        out = np.zeros(present.size)
        with np.errstate(invalid="ignore"):  # NaN, of what has no standard errors
            np.maximum.at(out, position.reshape(-1), of_column[penalized])
        return pd.Series(out, index=[groups.labels[g] for g in present], name=name)

    @property
    def ep_check(self) -> pd.DataFrame | None:
        """Inclusion probabilities by expectation propagation and the exact ones at the same hyperparameters.

        Of ``fit("ep", check=True)``, else None. A row for each column that is subject to selection: ``by_ep``,
        ``exact``, its Monte Carlo standard error ``se`` and the ``difference``, the largest first.
        """
        if self.check is None:
            return None
        check, order = self.check, np.argsort(-np.abs(self.check.difference), kind="stable")
        values = {"by_ep": check.by_ep, "exact": check.exact, "se": check.se, "difference": check.difference}
        return pd.DataFrame(values, index=self.penalized_names).iloc[order]

    @property
    def log_evidence_se(self) -> float:
        """Monte Carlo standard error of `log_evidence`; NaN for expectation propagation."""
        return float("nan") if self.exact_sets is None else self.exact_sets.log_evidence_se

    def hyperparameters(self, alpha: float = 0.05) -> pd.DataFrame:
        """Posterior mean and equal-tailed interval of the hyperparameters and of the number of included columns.

        Parameters
        ----------
        alpha : float
            One minus the probability of the intervals.

        Returns
        -------
        DataFrame
            Rows ``prior_inclusion``, ``slab_var``, ``noise_var``, ``prior_share`` (the share of variance that the
            hyperparameters expect the columns to explain) and ``size`` (the number of included columns, as
            `expected_size`), with groups of several columns also ``groups_included`` (the number of included
            groups, each column outside them counted as one); columns ``mean``, ``lower``, ``upper``.

        Raises
        ------
        ValueError
            For a fit by expectation propagation, which has point estimates: `noise_var`, `slab_var`,
            `prior_inclusion`.
        """
        self._exactly("the posterior of the hyperparameters")
        found = self.posterior.hyperparameters(check_alpha(alpha)) | self._sizes(alpha)
        return pd.DataFrame.from_dict(found, orient="index", columns=["mean", "lower", "upper"])

    def _sizes(self, alpha: float) -> dict[str, tuple[float, float, float]]:
        """Mean and interval of the number of included columns, and of included groups where these differ."""
        low, high = self.size_interval(alpha)
        out = {"size": (self.expected_size, float(low), float(high))}
        return out if self.units.single else out | {"groups_included": self.groups_included(alpha)}

    def groups_included(self, alpha: float) -> tuple[float, float, float]:
        """Mean and equal-tailed interval of the number of groups in, columns in none being groups. Internal."""
        exact = self._exactly("the number of groups")
        low, high = _interval(exact.size_prob, alpha)
        return exact.expected_size, float(low), float(high)

    @property
    def expected_size(self) -> float:
        """Posterior expected number of included columns (not groups), excluding unpenalised columns.

        Its interval: :meth:`size_interval`.
        """
        return float(self.posterior.selection.inclusion_prob.sum())

    def size_distribution(self) -> pd.Series:
        """Posterior probabilities of the number of columns in (of groups, all their columns).

        Exact, or those of the kept states where columns are in groups. For expectation propagation, of independent
        inclusions: where columns replace each other the true distribution is as a rule narrower.

        Returns
        -------
        Series
            By number of columns, from 0; unpenalised ones are not counted.
        """
        exact, units = self.exact_sets, self.units
        if exact is None:
            found = self.posterior.selection.size_distribution(units.order[units.start[:-1]], units.sizes)
        elif units.single:
            found = exact.size_prob
        else:
            found = np.bincount(exact.states.sizes, exact.states.weight).astype(np.float64)
        return pd.Series(found, index=pd.RangeIndex(found.size, name="size"), name="probability")

    def size_interval(self, alpha: float = 0.05) -> tuple[int, int]:
        """Equal-tailed posterior interval of the number of columns in, whose mean is `expected_size`.

        Parameters
        ----------
        alpha : float
            One minus its probability.

        Returns
        -------
        lower, upper : int
        """
        return _interval(self.size_distribution().to_numpy(), check_alpha(alpha))

    @cached_property
    def default_sets(self) -> tuple[CredibleSet, ...]:
        """The sets of :meth:`credible_sets` with its defaults; none for fits by expectation propagation."""
        found: tuple[CredibleSet, ...] = self.posterior.credible_sets()
        return found

    @property
    def exchangeable_sets(self) -> dict[int, CredibleSet]:
        """Those of at least two columns (or groups), which can replace each other, by number."""
        return {number: one for number, one in enumerate(self.default_sets, 1) if one.units.size > 1}

    def credible_sets(self, coverage: float = 0.95, min_abs_corr: float = 0.5) -> pd.DataFrame:
        """Disjoint sets of correlated columns, each of which holds at least one column that is in.

        Parameters
        ----------
        coverage : float
            The posterior probability that at least one column of a set is in, at least.
        min_abs_corr : float
            The least absolute correlation of two columns of a set.

        Returns
        -------
        DataFrame
            A row for each column of a set: ``set`` (from 1), ``column``, ``inclusion_prob``, ``purity`` (the least
            absolute correlation within the set), ``probability`` (that at least one of the set is in). Columns that
            `prior_inclusion` keeps in are in no set.

        Raises
        ------
        ValueError
            For a fit by another method than ``"exact"``, or numbers that are not in (0, 1); for numbers other than
            the defaults, if the results were saved without the space of the rows.
        """
        exact = self._exactly("a credible set")
        for name, value in (("coverage", coverage), ("min_abs_corr", min_abs_corr)):
            if not 0 < positive(name, value) < 1:
                raise ValueError(f"{name} must lie between 0 and 1, not {value!r}")
        found, units, names, rows = self.default_sets, self.units, self.penalized_names, []
        if (coverage, min_abs_corr) != (0.95, 0.5):
            if self.exact_posterior is None:
                raise ValueError(NO_ROW_SPACE.format(what="a credible set with arguments other than the defaults"))
            found = self.exact_posterior.credible_sets(coverage, min_abs_corr)
        for i, one in enumerate(found, 1):
            for j in units.columns(one.units):
                rows.append((i, names[j], exact.inclusion_prob[j], one.purity, one.probability))
        return pd.DataFrame(rows, columns=["set", "column", "inclusion_prob", "purity", "probability"])

    def select(self, fdr: float = 0.1) -> pd.DataFrame:
        """The largest set of the most probable columns of which an expected share of at most `fdr` is false.

        Parameters
        ----------
        fdr : float in (0, 1)
            Bayesian false discovery rate.

        Returns
        -------
        DataFrame
            A row for each selected column, the most probable first: its ``inclusion_prob`` and the expected
            ``false_share`` among it and those above it. Of a group all columns or none; unpenalised columns are not
            among them.
        """
        if not 0 < positive("fdr", fdr) < 1:
            raise ValueError(f"fdr must lie between 0 and 1, not {fdr!r}")
        prob = self.posterior.selection.inclusion_prob
        groups = self.model.groups_of(self.posterior.design)
        groups = np.arange(prob.size) if groups is None else groups
        _, first, of_column = np.unique(groups, return_index=True, return_inverse=True)
        chosen, share = most_probable(prob[first], fdr)
        of_column = of_column.reshape(-1)
        names = np.array(self.penalized_names, dtype=object)
        at = [np.flatnonzero(of_column == unit) for unit in chosen]
        sizes = [columns.size for columns in at]
        return pd.DataFrame(
            {
                "inclusion_prob": np.repeat(prob[first][chosen], sizes),
                "false_share": np.repeat(share, sizes),
            },
            index=pd.Index([name for columns in at for name in names[columns]], dtype=object),
        )

    def pair_inclusion(self, columns: Sequence[str]) -> pd.DataFrame:
        """Posterior probabilities that two columns are in together; each alone on the diagonal.

        Parameters
        ----------
        columns : sequence of str
            Names of columns that are subject to selection.

        Returns
        -------
        DataFrame
        """
        exact, names = self._exactly("the probability of a pair"), self.penalized_names
        at = {name: j for j, name in enumerate(names)}
        for name in columns:
            if name not in at:
                raise ValueError(f"{name!r} is not a column subject to selection{did_you_mean(str(name), names)}")
        units = self.units
        every, position = np.unique(units.of_column[[at[name] for name in columns]], return_inverse=True)
        both = exact.states.pair_inclusion(units, every)[np.ix_(position.reshape(-1), position.reshape(-1))]
        return pd.DataFrame(both, index=list(columns), columns=list(columns))

    def models(self, k: int = 10) -> pd.DataFrame:
        """The most probable sets of columns.

        Parameters
        ----------
        k : int
            How many, at most 100.

        Returns
        -------
        DataFrame
            ``columns`` (a tuple of names), ``size`` and ``probability``, the most probable first.
        """
        exact, names = (
            self._exactly("the probability of a set of columns"),
            np.array(self.penalized_names, dtype=object),
        )
        units, best = self.units, exact.models[: positive_int("k", k)]
        sets = [tuple(names[np.sort(units.columns(model.units))]) for model in best]
        return pd.DataFrame(
            {
                "columns": pd.Series(sets, dtype=object),
                "size": [len(one) for one in sets],
                "probability": [model.probability for model in best],
            }
        )

    @per_coefficient
    def inclusion_prob(self) -> FloatArray:
        """Posterior probability that a coefficient is not zero; 1 for unpenalised columns, equal within a group."""
        return self._spread(self.posterior.selection.inclusion_prob, 1.0)

    def _spread(self, values: FloatArray, unpenalized: float) -> FloatArray:
        design = self.posterior.design
        return self.model.scatter(np.full(design.block.k, unpenalized), values, design)

    @property
    def group_inclusion_prob(self) -> pd.Series:
        """Posterior inclusion probabilities of the groups, by label, in the order of the columns.

        With a formula the groups are its terms, else a column on its own is a group with its name. Unpenalised
        columns are in no group, and a group without another column is left out; a group of constant columns has 0.
        """
        return self._by_group(self.posterior.selection.inclusion_prob, "inclusion_prob")

    def group_members(self) -> dict[str, list[str]]:
        """Names of the columns of each group with at least two columns that vary."""
        design, groups, names = self.posterior.design, self.model.groups, self.model.data.exog_columns
        out: dict[str, list[str]] = {}
        for j in design.columns:
            out.setdefault(groups.labels[groups.of_column[j]], []).append(names[j])
        return {label: columns for label, columns in out.items() if len(columns) > 1}

    @per_coefficient
    def prior_inclusion(self) -> float | FloatArray:
        """Prior inclusion probability: a number if it is the same for all columns, else one for each coefficient."""
        given = self.model.prior_inclusion
        if given is None or np.ndim(given) == 0:
            s = self.posterior.selection
            if self.posterior.design.p == 0:
                return float("nan") if given is None else float(given)
            return float(s.weights @ [h.prior_inclusion[0] for h in s.hypers])
        return self.prior_by_column()

    def prior_by_column(self) -> FloatArray:
        """Prior inclusion probability of each coefficient; 1 for unpenalised columns."""
        s = self.posterior.selection
        p = np.einsum("g,gj->j", s.weights, np.stack([h.prior_inclusion for h in s.hypers]))
        return self._spread(p, 1.0)

    @per_coefficient
    def cond_mean(self) -> FloatArray:
        """Posterior means conditional on inclusion, user's scale."""
        return self._with_z(self.posterior.given_inclusion()[0], self.posterior.coefficient_means()[0])

    @per_coefficient
    def cond_var(self) -> FloatArray:
        """Posterior variances conditional on inclusion, user's scale."""
        return self._with_z(self.posterior.given_inclusion()[1], self.posterior.coefficient_sds()[0] ** 2)

    @per_coefficient
    def prob_zero(self) -> FloatArray:
        """Posterior probability that each coefficient is exactly zero, (k,): that the column is excluded.

        0 for unpenalised coefficients, 1 for those of constant columns. `prob_positive` and `prob_zero` together
        leave the probability of a negative coefficient.
        """
        return np.where((self.arrays.params == 0) & (self.arrays.bse == 0), 1.0, 1.0 - self.arrays.inclusion_prob)

    def _with_z(self, penalized: FloatArray, of_z: FloatArray) -> FloatArray:
        return self.model.scatter(of_z, penalized, self.posterior.design)

    @property
    def df_model(self) -> float:
        """Effective degrees of freedom: expected included columns plus unpenalised ones, excluding the constant."""
        return self.expected_size + self.posterior.design.block.k - self.model.k_constant

    @property
    def df_resid(self) -> float:
        """Residual degrees of freedom: rows minus effective degrees of freedom, including the constant."""
        return self.nobs - self.df_model - self.model.k_constant

    def median_model(self) -> list[str]:
        """Median probability model: names of the penalised columns with an inclusion probability above one half.

        Of a group all varying columns or none.
        """
        chosen = self.posterior.selection.inclusion_prob > MEDIAN
        return [name for name, keep in zip(self.penalized_names, chosen, strict=True) if keep]

    def own_columns(self) -> dict[str, FloatArray]:
        """The column of :meth:`tidy` with the inclusion probabilities."""
        return {"inclusion_prob": self.arrays.inclusion_prob}

    def importance(self, target: int) -> FloatArray:
        """What variables are ordered by in reports: the inclusion probabilities, (k,)."""
        return self.arrays.inclusion_prob

    @cached_property
    def monte_carlo_errors(self) -> pd.DataFrame | None:
        """The rows of :meth:`diagnostics` that cost little; None where the joint posterior was not kept with them."""
        return None if self.exact_posterior is None else monte_carlo.errors_of(self)

    def explained_variance(self, alpha: float = 0.05, rng: RandomLike = 0) -> pd.Series:
        """Posterior mean, median and interval of the share of variance that the penalised columns explain.

        With g the fitted part of the penalised columns (the unpenalised ones projected out) and n rows the share is
        ``|g|^2 / (|g|^2 + n sigma2)`` (weighted where the rows are). The sets of columns, the coefficients, the
        noise variance and the hyperparameters that are not given vary; without any column the share is 0. With
        ``family="binomial"`` it is the share of the latent variance, whose noise has the variance pi^2/3 for the
        logit and 1 for the probit link; rows of several trials count as such.

        Parameters
        ----------
        alpha : float
            One minus the probability of the (equal-tailed) interval.
        rng : numpy.random.Generator, int or None
            The posterior is that of 4,000 to 20,000 draws; by default they are the same at each call. The standard
            error of the probability at a 2.5 % quantile is at most 0.0025, that of the sampler apart.

        Returns
        -------
        Series
            mean, median, lower, upper.

        Raises
        ------
        ValueError
            For a fit by expectation propagation, which does not have the joint posterior of columns and noise
            variance; if the results were saved without the space of the rows.

        References
        ----------
        Gelman, Goodrich, Gabry & Vehtari (2019). R-squared for Bayesian regression models. The American Statistician.

        Examples
        --------
        >>> import statsmodels.api as sm
        >>> from pybayesridge import SpikeSlab
        >>> longley = sm.datasets.longley.load_pandas().data
        >>> res = SpikeSlab.from_formula("TOTEMP ~ GNP + UNEMP + ARMED", longley).fit()
        >>> bool(res.explained_variance()["lower"] > 0.9)
        True
        """
        alpha, what = check_alpha(alpha), "the share of variance explained"
        self._exactly(what)
        if self.exact_posterior is None:
            raise ValueError(NO_ROW_SPACE.format(what=what))
        share = self.exact_posterior.explained_share(np.random.default_rng(rng))
        return pd.Series(summary_of_draws(share, alpha), index=SUMMARY, name="explained_variance")


def most_probable(prob: FloatArray, fdr: float) -> tuple[IntArray, FloatArray]:
    """The largest set of the most probable units of which an expected share of at most `fdr` is not in.

    Returns
    -------
    units : (m,) int array
        The most probable first.
    share : (m,) array
        Expected share not in of each and those before it.
    """
    order = np.argsort(-prob, kind="stable")
    share = np.cumsum(1.0 - prob[order]) / np.arange(1, order.size + 1)
    # The share rises with every unit, up to rounding.
    count = int(np.searchsorted(np.maximum.accumulate(share), fdr, side="right"))
    return order[:count], share[:count]


def _interval(prob: FloatArray, alpha: float) -> tuple[int, int]:
    """Ends of the equal-tailed interval of a number from 0 on with some probabilities."""
    at = np.searchsorted(np.cumsum(prob), np.array([alpha / 2, 1 - alpha / 2]) - ROUNDING)
    low, high = np.minimum(at, prob.size - 1).tolist()
    return low, high
