"""Monte Carlo errors of what a fit by sampling shows: as a table, and in a sentence."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pandas as pd

from pybayesridge._types import FloatArray
from pybayesridge.exceptions import PrecisionWarning
from pybayesridge.findings import Finding, note
from pybayesridge.quantile_tables import NO_ROW_SPACE
from pybayesridge.selection.result import Exact
from pybayesridge.text import number

COLUMNS = ("quantity", "name", "estimate", "mcse", "effective", "agreement")

HYPERPARAMETERS = ("prior_inclusion", "slab_var", "noise_var")

SPREADS_FROM = 0.05
"""Inclusion probability from which the sentence speaks of the error of a coefficient's standard deviation: that of
columns that are hardly ever in rests on few states, and nobody reads it."""

DIGITS = 2
"""Significant digits of an error in a sentence; it is rounded up."""


def is_sampled(res: Any) -> bool:
    """Whether the sets of columns of a fit were sampled, so that its numbers have Monte Carlo errors."""
    exact = res.exact_sets
    return exact is not None and exact.computation.sampled


def errors_of_coefficients(res: Any, quantity: str, names: list[str]) -> FloatArray | None:
    """Monte Carlo standard errors of what the table has of coefficients, else NaN; None if nothing is sampled."""
    if not is_sampled(res) or res.monte_carlo_errors is None:
        return None
    table = res.monte_carlo_errors.set_index(["quantity", "name"])["mcse"]
    return np.asarray(table[quantity].reindex(names), dtype=np.float64)


def errors_of(res: Any) -> pd.DataFrame:
    """Estimates and their Monte Carlo standard errors, of what costs little; see ``results.diagnostics``.

    Parameters
    ----------
    res : results of a selection by the exact posterior, with its joint posterior
    """
    posterior = res.exact_posterior
    assert posterior is not None
    exact, at = posterior.exact, np.concatenate(res.model.positions(posterior.design))
    names = [res.model.exog_names[i] for i in at]
    selected = at[posterior.design.block.k :]
    prob = np.asarray(res.inclusion_prob)[selected]
    mean, sd = (np.asarray(values)[at] for values in (res.params, res.bse))
    mean_se, sd_se = posterior.errors()
    parts = [
        _rows(
            exact,
            "inclusion_prob",
            names[posterior.design.block.k :],
            prob,
            np.asarray(res.inclusion_se)[selected],
            prob * (1 - prob),
        ),
        _rows(exact, "mean", names, mean, mean_se, sd**2),
        _rows(exact, "sd", names, sd, sd_se, np.full(sd.size, np.nan)),
    ]
    if res.model.distribution.ratio:
        with np.errstate(over="ignore", invalid="ignore"):
            ratio = np.exp(mean)
            parts.append(_rows(exact, "odds_ratio", names, ratio, ratio * mean_se, (ratio * sd) ** 2))
    for name, estimate, mcse, variance in _of_sizes(res, exact):
        parts.append(_rows(exact, name, [""], *(np.array([value]) for value in (estimate, mcse, variance))))
    found, values = posterior.hyperparameter_errors(), res.hyperparameters()["mean"]
    for name in (*HYPERPARAMETERS, "prior_share"):
        if name in values.index and (name in res.learned or (name == "prior_share" and res.learned)):
            mcse, variance = found[name]
            parts.append(_rows(exact, name, [""], *(np.array([v]) for v in (values[name], mcse, variance))))
    if math.isfinite(exact.log_evidence):
        one = np.array([float(res.log_evidence)]), np.array([exact.log_evidence_se]), np.array([np.nan])
        parts.append(_rows(exact, "log_evidence", [""], *one))
    return pd.concat(parts, ignore_index=True)


def _rows(
    exact: Exact, quantity: str, names: list[str], estimate: FloatArray, mcse: FloatArray, variance: FloatArray
) -> pd.DataFrame:
    """Rows of the table; `variance`: of the posterior of what is averaged, NaN where the estimate is no average."""
    with np.errstate(divide="ignore", invalid="ignore"):
        effective = np.where(np.isnan(variance) | np.isnan(mcse), np.nan, variance / mcse**2)
        effective = np.where((mcse == 0) & ~np.isnan(variance), np.inf, effective)
        agreement = np.sqrt(1.0 + exact.n_walkers / effective)
    values = (quantity, names, estimate, mcse, effective, agreement)
    return pd.DataFrame(dict(zip(COLUMNS, values, strict=True)))


def _of_sizes(res: Any, exact: Exact) -> list[tuple[str, float, float, float]]:
    """Name, mean, error and variance of the number of included columns, and of groups where these differ."""
    sampled, errors = exact.computation.sampled, exact.errors
    of_units = 0.0 if not sampled else (float("nan") if errors is None else errors.size)
    columns = res.size_distribution().to_numpy()
    single = res.units.single
    of_columns = of_units if single or not sampled or errors is None else errors.columns
    out = [("size", res.expected_size, of_columns, _variance(columns))]
    if not single:
        out.append(("groups_included", exact.expected_size, of_units, _variance(exact.size_prob)))
    return out


def _variance(probability: FloatArray) -> float:
    value = np.arange(probability.size)
    return float(probability @ (value - probability @ value) ** 2)


def diagnostics(self: Any) -> pd.DataFrame:
    """Monte Carlo standard errors of everything that was sampled.

    A sampler's walkers start from sets that are unlike each other; errors are judged by the differences between
    them. What is a sum over all sets has no such error, apart from hyperparameters where the sum has so many terms
    that states were drawn from it; the share of variance explained is an average over draws.

    Returns
    -------
    DataFrame
        A row for each number, with ``quantity``: ``inclusion_prob``, ``mean`` (`params`), ``sd`` (`bse`),
        ``odds_ratio``, ``size`` (`expected_size`), ``groups_included``, the hyperparameters that were not given and
        ``prior_share`` (the rows of `hyperparameters`), ``explained_variance``, ``log_evidence`` and ``elpd`` (of
        :meth:`loo`); ``name``: the coefficient, if it is one's; ``estimate``; ``mcse``: its Monte Carlo standard
        error; ``effective``: how many independent draws from the posterior would have this error; ``agreement``:
        the potential scale reduction of the walkers, 1 at best. The last two are NaN where the estimate is no
        average. What needs rows or the joint posterior is missing where these were removed.

    Raises
    ------
    ValueError
        For a fit by expectation propagation, whose error is not one of sampling.
    """
    self._exactly("a Monte Carlo error")
    if self.monte_carlo_errors is None:
        raise ValueError(NO_ROW_SPACE.format(what="a Monte Carlo error"))
    parts = [self.monte_carlo_errors]
    posterior = self.exact_posterior
    if posterior is not None:
        exact = posterior.exact
        of_share = posterior.explained_error(np.random.default_rng(0))
        parts.append(_rows(exact, "explained_variance", [""], *(np.array([value]) for value in of_share)))
        score = _score(self)
        if score is not None:
            parts.append(_rows(exact, "elpd", [""], *(np.array([value]) for value in (*score, np.nan))))
    return pd.concat(parts, ignore_index=True)


def _score(res: Any) -> tuple[float, float] | None:
    """The leave-one-out score and its error; None where a row cannot be predicted."""
    if res.model.endog is None:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrecisionWarning)
        try:
            score = res.loo()
        except ValueError:
            return None
    return score.elpd, score.mcse


def in_words(res: Any) -> list[Finding]:
    """A sentence on the errors of a fit by sampling; none of a sum over all sets."""
    if not is_sampled(res):
        return []
    table = res.monte_carlo_errors
    if table is None:
        return []
    of = {str(name): rows for name, rows in table.groupby("quantity", sort=False)}
    sd = np.asarray(of["sd"]["estimate"])
    coefficients = [
        (float(of["inclusion_prob"]["mcse"].max()), "for inclusion probabilities"),
        (_largest(of["mean"]["mcse"], sd), "posterior standard deviations for means of coefficients"),
    ]
    parts = [f"at most {_rounded_up(size)} {what}" for size, what in coefficients if math.isfinite(size)]
    prob = np.asarray(of["inclusion_prob"]["estimate"])
    # What is never selected, such as the intercept, comes first.
    often = np.append(np.ones(sd.size - prob.size, dtype=bool), prob >= SPREADS_FROM)
    spread = _largest(of["sd"]["mcse"], np.where(often, sd, 0.0))
    if often.any() and math.isfinite(spread):
        less = "" if often.all() else f" of coefficients with an inclusion probability of at least {SPREADS_FROM:g}"
        parts.append(f"{_percent(spread)} for {'their' if often.all() else 'the'} standard deviations{less}")
    size = float(of["size"]["mcse"].iloc[0])
    if math.isfinite(size):
        parts.append(f"{_rounded_up(size)} for the expected number of included columns")
    for name in HYPERPARAMETERS:
        if name in of:
            relative = _largest(of[name]["mcse"], np.asarray(of[name]["estimate"]))
            if math.isfinite(relative):
                parts.append(f"{_percent(relative)} for {name}")
    return [note("monte-carlo-error", f"Monte Carlo standard errors: {', '.join(parts)}.")]


def _largest(errors: pd.Series, relative_to: FloatArray) -> float:
    """The largest of `errors` relative to sizes, as far as these are positive."""
    known = relative_to > 0
    return float(np.max(np.asarray(errors)[known] / relative_to[known], initial=0.0))


def _rounded_up(value: float) -> str:
    if value <= 0:
        return "0"
    place = 10.0 ** (math.floor(math.log10(value)) - DIGITS + 1)
    return number(math.ceil(value / place * (1 - 1e-9)) * place, DIGITS)


def _percent(share: float) -> str:
    return f"{_rounded_up(100 * share)} %"
