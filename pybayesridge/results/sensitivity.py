"""How the answer moves when the prior is made weaker and stronger."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pybayesridge._types import FloatArray
from pybayesridge.exceptions import ConvergenceWarning
from pybayesridge.posterior.laws import Ask, total_moments
from pybayesridge.quantile_tables import NO_ROW_SPACE

if TYPE_CHECKING:
    from pybayesridge.results.band_estimates import BandEstimates
    from pybayesridge.results.estimates import LinearEstimates
    from pybayesridge.results.generalized_estimates import GeneralizedEstimates
    from pybayesridge.results.ridge_estimates import RidgeEstimates
    from pybayesridge.results.selection_estimates import SelectionEstimates

FACTORS = {"half": 0.5, "double": 2.0}
"""Suffixes of the columns, and the factors that they stand for."""

Answers = dict[str, FloatArray]
"""Numbers of the coefficients by name: each (k, q)."""


def prior_sensitivity(res: LinearEstimates) -> pd.DataFrame:
    """How coefficients change if the prior counts half as much and twice as much.

    The model is fitted again, by the same method and with the same options, under two other priors; of pooled fits
    each one is, and the columns are those of the pooled posteriors.

    * ``BayesRidge``: the prior density of log tau2 to the power 1/2 and 2. For ``tau2 / scale ~ beta-prime(a, b)``
      this is the density proportional to ``t^(c a) (1 + t)^(-c (a + b))`` of log t, so that the prior is beta-prime(c
      a, c b) with c = 1/2 and 2, which is proper. With ``"loocv"``, ``"gcv"`` and ``"fixed"``, where that prior plays
      no part, it is the prior of the coefficients given the penalty: N(0, tau2) to the power c is N(0, tau2 / c), so
      that the penalty is halved and doubled.
    * ``BayesRidge`` with bands: likewise the prior of their total; the prior of their shares stays.
    * ``SpikeSlab``: half and twice the prior odds that a column (or group) is in. If the prior inclusion probability
      is learned, these are the odds in the middle of its prior, which `expected_size` determines. A given `slab_var`
      stays as it is; fit with other values to see its influence.

    Returns
    -------
    DataFrame
        A row for each coefficient (under each target, where there are several). ``mean_half``, ``mean``,
        ``mean_double``: posterior means under the three priors; ``sd_half``, ``sd``, ``sd_double``: standard
        deviations; for selections ``inclusion_half``, ``inclusion``, ``inclusion_double`` likewise. ``shift``: the
        larger change of the mean, in standard deviations of the fit. Selection by sampling has Monte Carlo errors:
        changes smaller than these mean nothing.

    Raises
    ------
    ValueError
        If the data that a new fit needs were removed.

    References
    ----------
    Kallioinen, Paananen, Bürkner & Vehtari (2024). Detecting and diagnosing prior and likelihood sensitivity with
    power-scaling. Statistics and Computing.

    Examples
    --------
    >>> import statsmodels.api as sm
    >>> from pybayesridge import BayesRidge
    >>> longley = sm.datasets.longley.load_pandas().data
    >>> res = BayesRidge.from_formula("TOTEMP ~ GNP + UNEMP + ARMED", longley).fit()
    >>> bool(res.prior_sensitivity()["shift"].max() < 0.5)
    True
    """
    refit = REFITS[res.model.lane.name]
    answers = {"": _pooled([_answers(part) for part in res.parts])}
    for name, factor in FACTORS.items():
        answers[f"_{name}"] = _pooled([refit(part, factor) for part in res.parts])
    columns: Answers = {}
    for what in answers[""]:
        for suffix in ("_half", "", "_double"):
            columns[what + suffix] = answers[suffix][what]
    columns["shift"] = _shift(columns)
    names, targets = res.model.exog_names, res.model.data.targets
    tables = {
        target: pd.DataFrame({what: values[:, i] for what, values in columns.items()}, index=names)
        for i, target in enumerate(targets)
    }
    return tables[targets[0]] if res.model.one_target else pd.concat(tables, names=["target", None])


def _shift(columns: Answers) -> FloatArray:
    """Larger change of the mean in standard deviations; 0 where nothing changes."""
    change = np.maximum(*(np.abs(columns[f"mean_{name}"] - columns["mean"]) for name in FACTORS))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(change == 0, 0.0, change / columns["sd"])


def _pooled(answers: Sequence[Answers]) -> Answers:
    """The answers of several fits as those of one posterior."""
    if len(answers) == 1:
        return answers[0]
    mean, sd = total_moments([each["mean"] for each in answers], [each["sd"] for each in answers])
    others = {what: np.mean([each[what] for each in answers], axis=0) for what in answers[0]}
    return others | {"mean": mean, "sd": sd}


def _answers(res: LinearEstimates) -> Answers:
    """Means and standard deviations of a fit, and its inclusion probabilities where it has them."""
    k = len(res.model.exog_names)
    out = {"mean": res.arrays.params.reshape(k, -1), "sd": res.arrays.bse.reshape(k, -1)}
    found = getattr(res.arrays, "inclusion_prob", None)
    return out if found is None else out | {"inclusion": found.reshape(k, -1)}


def _ridge(res: RidgeEstimates, factor: float) -> Answers:
    if not res.has_joint_posterior:
        raise ValueError(NO_ROW_SPACE.format(what="another fit"))
    entry, lam, design = res.method_entry, None, res.posterior.design
    if not entry.uses_prior:
        entry, lam = res.model.methods["fixed"], np.atleast_1d(res.arrays.lambda_) * factor
    prior = res.model.prior_of_tau2.to_power(factor)
    fit = res.penalty.fitted_under(prior, entry, tol=res.tol, maxiter=res.maxiter, lam=lam)
    if not fit.converged.all():
        warnings.warn(f"the fit with {factor:g} times the prior has not converged", ConvergenceWarning, stacklevel=5)
    other = copy.copy(res)
    other.posterior = fit.posterior(design)
    found = other.ask(Ask())
    return {"mean": found.mean, "sd": found.sd}


def _bands(res: BandEstimates, factor: float) -> Answers:
    model: Any = copy.copy(res.model)
    if not res.method_entry.uses_prior:
        if not res.method_entry.given:
            raise ValueError(f"method={res.method!r} uses no prior: use method='exact'")
        log_variance = res.variance_grid(0).log_t[0]
        return _answers(model.fit("fixed", lam=factor * np.exp(-log_variance)))
    model.prior_of_tau2 = res.model.prior_of_tau2.to_power(factor)
    own: dict[str, Any] = {"parameterization": res.parameterization}
    if res.method_entry.integrates:
        own = {"tol": res.tol, "maxiter": res.maxiter or None}
    return _answers(model.fit(res.method, **own))


def _generalized_ridge(res: GeneralizedEstimates, factor: float) -> Answers:
    model: Any = copy.copy(res.model)
    model.prior_of_tau2 = res.model.prior_of_tau2.to_power(factor)
    options: dict[str, Any] = {"tol": res.tol, "maxiter": res.maxiter}
    entry = res.method_entry
    if entry.integrates:
        return _answers(model.fit(res.method, **options))
    options |= {"solver": res.solver}
    if not entry.uses_prior:
        return _answers(model.fit("fixed", lam=res.lambda_ * factor, **options))
    return _answers(model.fit(res.method, parameterization=res.parameterization, **options))


def _generalized_bands(res: Any, factor: float) -> Answers:
    model: Any = copy.copy(res.model)
    options: dict[str, Any] = {"maxiter": res.maxiter}
    if not res.method_entry.uses_prior:
        if not res.method_entry.given:
            raise ValueError(f"method={res.method!r} uses no prior: use method='ep'")
        return _answers(model.fit("fixed", lam=factor / res.sites_fit.at_nodes()[0][0], solver=res.solver, **options))
    model.prior_of_tau2 = res.model.prior_of_tau2.to_power(factor)
    return _answers(model.fit(res.method, tol=res.tol, **options))


def _selection(res: SelectionEstimates, factor: float) -> Answers:
    model: Any = res.model
    if model.prior_inclusion is not None or "prior_inclusion" in res.learned:
        model = model.with_prior_odds(factor, res.units.n)
    if res.fit_options is None:
        raise ValueError("the file of this fit is of an earlier version, which did not keep the options: fit again")
    return _answers(model.fit(res.method, **res.fit_options))


REFITS: Mapping[str, Callable[[Any, float], Answers]] = {
    "conjugate": _ridge,
    "banded": _bands,
    "sites": _generalized_ridge,
    "ordinal": _generalized_ridge,
    "banded_sites": _generalized_bands,
    "banded_ordinal": _generalized_bands,
    "sets": _selection,
    "latent_sets": _selection,
}
"""The answers under the prior that a factor stands for, by how the model was fitted."""
