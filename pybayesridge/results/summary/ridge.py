"""The summary of a Bayesian ridge regression: its tables and its notes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from statsmodels.iolib.summary import Summary

from pybayesridge._types import FloatArray
from pybayesridge.results.summary.tables import (
    TARGETS,
    coefficient_table,
    facts_table,
    make_summary,
    notes_on_data,
    rows_to_show,
    table,
)
from pybayesridge.ridge.prior import NAMED, BetaPrime
from pybayesridge.text import listed, number, number_or_dash

if TYPE_CHECKING:
    from pybayesridge.results.ridge import BayesRidgeResults

HYPERPARAMETERS = ["lambda", "tau2", "sigma2", "df_model"]
"""Rows of the table of hyperparameters."""


LITTLE = 0.2
"""Nats between posterior and prior of log lambda up to which the data are said to contain little information.

A normal posterior would have about .6 of the prior's standard deviation."""


def can_fit_anything(res: BayesRidgeResults) -> bool:
    """Whether there are so many columns that the in-sample R-squared says nothing."""
    design = res._posterior.design
    return design.p >= design.nu


def notes(res: BayesRidgeResults) -> list[str]:
    """Notes below the summary, one sentence each."""
    out = [_note_on_intervals(res)]
    fit, data, design = res._fit, res.model.data, res._posterior.design
    several = not res.model.one_target

    def which(mask: Any) -> str:
        return f" (targets {listed(np.array(data.targets)[mask].tolist())})" if several else ""

    vanishes = design.y_vanishes & (res.model.known_sigma2 is None)
    if vanishes.any():
        out.append(f"The unpenalised columns fit the response exactly: there is nothing to explain{which(vanishes)}.")
    if design.p == 0:
        out.append("No penalised column varies: there is nothing to shrink.")
    elif (fit.null & ~vanishes).any():
        of = which(fit.null & ~vanishes)
        out.append(f"No signal: all coefficients are shrunk to zero, there is no interior mode{of}.")
    if fit.exact.any():
        out.append(f"The columns fit the response exactly: least squares, without noise{which(fit.exact)}.")
    if fit.unbounded.any():
        out.append(
            f"No interior mode: lambda is a bound, the posterior does not fall towards 0{which(fit.unbounded)}."
        )
    lost = res.lost_digits()
    if lost is not None:
        out.append(lost)
    if (~fit.converged & ~fit.unbounded).any():
        of = which(~fit.converged & ~fit.unbounded)
        out.append(f"NOT CONVERGED within maxiter iterations: do not report these numbers{of}.")
    if fit.quadrature is not None and design.p:
        weak = (np.atleast_1d(res.penalty_information) <= LITTLE) & ~vanishes & ~fit.exact
        if weak.any():
            text = "The data contain little information about lambda: its posterior is close to its prior"
            out.append(f"{text}{which(weak)}.")
    if fit.n_modes is not None and (fit.n_modes > 1).any():
        out.append(f"The posterior of tau2 has several modes; this is the highest{which(fit.n_modes > 1)}.")
    if fit.search is not None and fit.search.edge.any():
        out.append(f"The best penalty lies on the edge of the grid: widen it{which(fit.search.edge)}.")
    return out + notes_on_data(res)


def _note_on_intervals(res: BayesRidgeResults) -> str:
    what = {
        "em": "Intervals are conditional on lambda and sigma at the posterior mode.",
        "exact": "Intervals are of the exact marginal posterior: lambda and sigma are integrated out.",
    }.get(res.method, "Intervals are conditional on lambda; sigma is integrated out.")
    if res.model.known_sigma2 is not None:
        what = {
            "exact": "Intervals are of the exact marginal posterior: lambda is integrated out, sigma is known."
        }.get(res.method, "Intervals are conditional on lambda; sigma is known.")
    scale = "standard deviations of the columns" if res.model.standardize else "the columns as they are"
    prior = f" {_prior_in_words(res.model.prior_of_tau2)}" if res.method in ("em", "exact") else ""
    return f"{what} The prior is on the scale of {scale}.{prior}"


def _prior_in_words(prior: BetaPrime) -> str:
    if prior == NAMED["r2"]:
        return "A priori the share of variance explained is Beta(1/2, 1/2)."
    if prior == NAMED["half-cauchy"]:
        return "A priori tau is half-Cauchy."
    scaled = "tau2" if prior.scale == 1 else f"tau2 / {number(prior.scale or 1.0)}"
    return f"A priori {scaled} is beta-prime({number(prior.a)}, {number(prior.b)})."


def summary(res: BayesRidgeResults, alpha: float) -> Summary:
    """See :meth:`BayesRidgeResults.summary`."""
    tables = []
    names = res.model.exog_names
    targets = res.model.data.targets
    notes = res.notes
    left_out, undefined = 0, False
    for i in range(min(len(targets), TARGETS)):
        share = _explained_variance(res, i, alpha)
        tables.append(facts_table("Bayesian Ridge Regression" if i == 0 else None, *_facts(res, i, share)))
        shown = rows_to_show(res._standardized_size(i))
        left_out = len(names) - len(shown)
        mean, sd, interval = res._some_coefficients(shown, i, alpha)
        tables.append(coefficient_table([names[j] for j in shown], mean, sd, interval, alpha))
        if res.method == "exact":
            heads = ["mean", "median", f"[{alpha / 2:.3g}", f"{1 - alpha / 2:.4g}]"]
            values = res._hyperparameters_of(i, np.array([0.5, alpha / 2, 1 - alpha / 2]))
            cells = [[number_or_dash(v) for v in row] for row in values]
            cells.append([_share_or_dash(v) for v in share])
            tables.append(table([*HYPERPARAMETERS, "explained variance"], heads, cells))
            undefined = undefined or not np.isfinite(values[:, 0]).all()
    if undefined:
        notes.append("A dash stands for a mean that does not exist: the tail of the posterior is too heavy.")
    if left_out:
        notes.append(f"The {left_out} smallest standardised coefficients are omitted; see params, conf_int().")
    if len(targets) > TARGETS:
        notes.append(f"{len(targets) - TARGETS} more targets are omitted.")
    return make_summary(tables, notes)


def _explained_variance(res: BayesRidgeResults, i: int, alpha: float) -> FloatArray:
    """Mean, median and interval of one target, where the summary shows any of them."""
    shown = res.method == "exact" or can_fit_anything(res)
    return res._explained_variance_of(i, alpha) if shown else np.full(4, np.nan)


def _share_or_dash(value: float) -> str:
    return f"{value:.3f}" if np.isfinite(value) else "–"


def _facts(
    res: BayesRidgeResults, i: int, explained: FloatArray
) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    def pick(value: Any) -> float:
        return float(np.atleast_1d(value)[i])

    iterations = f"{res.n_iter}" if res.method == "em" else "-"
    left = [
        ("Dep. Variable:", res.model.data.targets[i]),
        ("Model:", "BayesRidge"),
        ("Method:", res.method),
        ("Solver:", res.solver),
        ("No. Observations:", f"{int(res.nobs)}"),
        ("Iterations:", iterations),
        ("Converged:", "yes" if res._fit.converged[i] else "NO"),
    ]
    right = [
        ("lambda:", number(pick(res.lambda_))),
        ("tau:", number(np.sqrt(pick(res.tau2)))),
        ("sigma:", number(float(res._sigma[i]))),
        ("Df Model (effective):", number(pick(res.df_model))),
        ("Df Residuals:", number(pick(res.df_resid))),
        _share(res, i, explained[0]),
        ("Modes:", f"{int(np.atleast_1d(res.n_modes)[i])}"),
    ]
    return left, right


def _share(res: BayesRidgeResults, i: int, explained: float) -> tuple[str, str]:
    """R-squared, or the posterior mean of the explained variance where the columns can fit any response."""
    if not can_fit_anything(res):
        return "R-squared:", f"{float(np.atleast_1d(res.rsquared)[i]):.3f}"
    return "Explained variance:", _share_or_dash(explained)
