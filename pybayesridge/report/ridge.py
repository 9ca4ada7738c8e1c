"""The report of a Bayesian ridge regression."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.plots.frame import percent
from pybayesridge.report.parts import Remark, Table, Target, table_of
from pybayesridge.report.shared import Album, coefficients_table, residual_remarks, row_pictures, rows_there
from pybayesridge.ridge.hyperparameters import HYPERPARAMETERS
from pybayesridge.ridge.loocv import leverages
from pybayesridge.ridge.prior import NAMED, BetaPrime
from pybayesridge.text import TOP, in_words, listed, number

if TYPE_CHECKING:
    from pybayesridge.results.ridge import BayesRidgeResults

NAME = "Bayesian ridge regression"

CITE = (
    "Tew, S. Y., Boley, M., Schmidt, D. F. (2023). Bayes beats Cross Validation: Fast and Accurate Ridge Regression "
    "via Expectation Maximization. Advances in Neural Information Processing Systems 36.",
)

HIGH = 0.5
"""A row with more leverage than this determines most of its own fitted value."""

FAR = 2.0
"""Left-out errors this many times the noise are worth a sentence."""


def citations(_: BayesRidgeResults) -> tuple[str, ...]:
    """The papers of the method."""
    return CITE


def model(res: BayesRidgeResults) -> dict[str, object]:
    """Values on which the formulas of the model depend."""
    m = res.model
    return {
        "weights": m.weighted,
        "prior": _named(m.prior_of_tau2),
        "a": number(m.prior_of_tau2.a),
        "b": number(m.prior_of_tau2.b),
        "scale": number(m.prior_of_tau2.scale or 1.0),
        "scaled": m.prior_of_tau2.scale not in (None, 1.0),
        "sigma_known": m.known_sigma2 is not None,
        "sigma2": "" if m.known_sigma2 is None else number(m.known_sigma2),
        "prior_of_lambda": res.method_entry.uses_prior,
    }


def _named(prior: BetaPrime) -> str | None:
    return next((name for name, known in NAMED.items() if known == prior), None)


def words(res: BayesRidgeResults) -> list[str]:
    """The model and the method in plain language."""
    noise = "known" if res.model.known_sigma2 is not None else "estimated"
    out = [
        "The response is modelled as a linear function of the columns plus normal noise. The penalised coefficients "
        "share one ridge penalty, lambda, on the scale of the prior: the larger lambda, the more they are shrunk "
        f"towards zero. Unpenalised coefficients are not shrunk. The noise variance is {noise}."
    ]
    entry = res.method_entry
    if not entry.uses_prior:
        return [*out, entry.treatment]
    prior = {
        "r2": "The share of variance that the penalised columns explain has a Beta(1/2, 1/2) prior, whatever the "
        "number of columns.",
        "half-cauchy": "A priori tau, one over the square root of lambda, is half-Cauchy with scale 1.",
        None: "The prior of the penalty was given.",
    }
    return [*out, entry.treatment, prior[_named(res.model.prior_of_tau2)]]


def overview(res: BayesRidgeResults, wanted: list[int]) -> Table:
    """A row for each target."""
    heads = ["lambda", "sigma", "effective df", "R-squared", "modes"]
    columns = [res.lambda_, res.noise_sd, res.df_model, res.rsquared, res.n_modes]
    if rows_there(res):
        heads.append("leave-one-out R-squared")
        columns.append(res.loo_rsquared)
    values = np.column_stack([np.asarray(column, dtype=np.float64) for column in columns])[wanted]
    names = [res.model.data.targets[i] for i in wanted]
    return table_of(
        "All targets", "target", heads, names, values, shares=(3, 5)[: len(heads) - 4], file="targets.csv"
    )


def target(res: BayesRidgeResults, i: int, album: Album | None, alpha: float) -> Target:
    """Everything about one target."""
    out = Target(res.model.data.targets[i])
    coefficients, values, at = coefficients_table(res, i, alpha)
    out.tables.append(coefficients)
    out.tables.append(_hyperparameters(res, i, alpha))
    out.findings = _findings(res, i, values, at, alpha)
    out.check = _check(res, i)
    out.remarks = _remarks(res, i)
    if album is not None:
        _draw(res, i, album, alpha, out)
    return out


def _hyperparameters(res: BayesRidgeResults, i: int, alpha: float) -> Table:
    values = res.hyperparameters_of(i, np.array([0.5, alpha / 2, 1 - alpha / 2]))
    heads = ["mean", "median", f"{100 * alpha / 2:g} %", f"{100 * (1 - alpha / 2):g} %"]
    caption = f"Penalty, noise and effective degrees of freedom{res.method_entry.caption}"
    note = (
        ""
        if np.isfinite(values).all()
        else "A dash stands for a mean that does not exist: the tail of the posterior is too heavy."
    )
    return table_of(caption, "", heads, HYPERPARAMETERS, values, interval=True, note=note)


def _findings(res: BayesRidgeResults, i: int, values: FloatArray, at: IntArray, alpha: float) -> list[str]:
    design = res.posterior.design
    penalized = np.isin(at, res.model.positions(design)[1])
    clear = penalized & ((values[:, 2] > 0) | (values[:, 3] < 0))
    names = [res.model.exog_names[j] for j in at[clear][:5]]
    lam, df = (float(np.atleast_1d(value)[i]) for value in (res.lambda_, res.df_model))
    out = [*_how_well(res, i, alpha)]
    out.append(
        f"The penalty lambda is {in_words(lam)}; the {design.p:,} penalised coefficients have "
        f"{number(df - design.block.k + res.model.k_constant)} effective degrees of freedom."
    )
    of = f"{int(penalized.sum()):,} penalised coefficients" + (" examined" if penalized.sum() < design.p else "")
    if clear.any():
        which = ", ".join(names) + (" and others" if clear.sum() > 5 else "")
        out.append(f"{int(clear.sum()):,} of {of} have a {percent(alpha)} interval that excludes zero: {which}.")
    else:
        out.append(f"None of {of} has a {percent(alpha)} interval that excludes zero.")
    share = float(np.atleast_1d(res.rsquared)[i])
    if np.isfinite(share) and not res.can_fit_anything:
        out.append(f"In-sample R-squared is {share:.3f}.")
    return out


def _how_well(res: BayesRidgeResults, i: int, alpha: float) -> list[str]:
    """How well the model predicts, and how much it explains."""
    out = []
    if rows_there(res):
        share = float(np.atleast_1d(res.loo_rsquared)[i])
        if np.isfinite(share):
            out.append(f"Leave-one-out R-squared is {share:.3f}.")
    explained = res.explained_variance_of(i, alpha)
    if res.posterior.design.p and np.isfinite(explained).all():
        mean, _, lower, upper = explained
        out.append(
            f"The penalised columns explain {100 * mean:.0f} % of the variance in the sample (posterior mean; "
            f"{percent(alpha)} interval {100 * lower:.0f} % to {100 * upper:.0f} %)."
        )
    return out


def _check(res: BayesRidgeResults, i: int) -> list[str]:
    if not rows_there(res):
        return []
    residual = _column(res.loo_residuals, i)
    undefined = int((~np.isfinite(residual)).sum())
    if undefined:
        return [
            f"{undefined:,} row(s) cannot be predicted from the others, because the unpenalised columns alone fit "
            "them exactly. Leave-one-out errors are not defined for these rows."
        ]
    root = float(np.sqrt(np.atleast_1d(res.loo_mse)[i]))
    share = float(np.atleast_1d(res.loo_rsquared)[i])
    noise = "estimated" if res.model.known_sigma2 is None else "known"
    out = [
        "Each row was predicted from all other rows, with the same penalty and the same scaling of the columns. The "
        f"root mean squared error is {in_words(root)}; the {noise} noise SD is {in_words(res.noise_sd[i])}."
    ]
    if root > FAR * res.noise_sd[i] > 0:
        out.append(
            "The error is much larger than the noise: the model fits its own rows more closely than it predicts new "
            "ones."
        )
    if np.isfinite(share):
        than = "the mean of the other rows" if res.model.k_constant else "zero"
        verdict = "better than" if share > 0 else "no better than"
        out.append(f"Leave-one-out R-squared is {share:.3f}: the model predicts {verdict} {than}.")
    return out


def _column(values: FloatArray, i: int) -> FloatArray:
    return values if values.ndim == 1 else values[:, i]


def _remarks(res: BayesRidgeResults, i: int) -> list[Remark]:
    found = res.diagnostics_by_target()[i]
    name = res.model.data.targets[i]
    said = {finding.code for finding in res.findings if not finding.targets or name in finding.targets}
    out = [Remark("good", "The algorithm converged.")] if found["converged"] else []
    modes = int(found["n_modes"])
    if modes == 1:
        out.append(Remark("good", "The posterior of tau2 has one mode."))
    elif modes > 1 and "several-modes" not in said:
        text = "this fit averages" if res.method_entry.integrates else "method='exact' averages"
        out.append(Remark("note", f"The posterior of tau2 has {modes} modes; {text} over all of them."))
    elif modes == 0 and not said & {"no-signal", "unbounded", "exact-fit", "nothing-to-explain"}:
        out.append(Remark("note", "The posterior of tau2 has no interior mode."))
    if res.quadrature_error is not None:
        error = float(np.atleast_1d(res.quadrature_error)[i])
        out.append(Remark("good", f"The estimated error of the integration over the penalty is {number(error, 1)}."))
    if rows_there(res):
        out += _row_remarks(res, i)
    return out


def _row_remarks(res: BayesRidgeResults, i: int) -> list[Remark]:
    labels, weights = res.model.data.row_labels, res.model.weights
    leverage = leverages(res.posterior.design, res.ridge_fit.spectrum, res.ridge_fit.log_t2)[:, i]
    out = [_leverage_remark(leverage, labels)]
    sigma = float(res.noise_sd[i])
    residual = _column(res.resid, i) * (1.0 if weights is None else np.sqrt(weights))
    with np.errstate(divide="ignore", invalid="ignore"):
        standard = residual / (sigma * np.sqrt(1.0 - leverage))
    return out + residual_remarks(np.where(leverage < 1.0, standard, np.nan), labels, sigma)


def _leverage_remark(leverage: FloatArray, labels: pd.Index) -> Remark:
    high = np.flatnonzero(leverage > HIGH)
    if high.size == 0:
        return Remark("good", f"No row has a leverage above {HIGH:g} (largest: {leverage.max():.2f}).")
    if high.size > leverage.size / 2:
        text = (
            "the model has nearly as many effective parameters as rows. Assess it by leave-one-out predictions, not "
            "by its residuals."
        )
        return Remark("note", f"{high.size:,} of {leverage.size:,} rows have a leverage above {HIGH:g}: {text}")
    worst = listed(labels[high[np.argsort(-leverage[high], kind="stable")]].tolist())
    text = "Each of them determines more than half of its own fitted value."
    return Remark("note", f"{high.size:,} row(s) have a leverage above {HIGH:g}: {worst}. {text}")


def _draw(res: BayesRidgeResults, i: int, album: Album, alpha: float, out: Target) -> None:
    p = res.posterior.design.p
    shown = len(res.model.exog_names) - res.model.k_constant
    if shown:
        out.pictures.append(
            album.rows(
                lambda ax: res.plot_coefficients(alpha, target=i, ax=ax),
                f"Posterior means and {percent(alpha)} intervals, per standard deviation of the column. Intervals "
                "that cross the dashed line include zero.",
                min(shown, TOP),
            )
        )
    if p and res.has_penalty_posterior(i):
        out.pictures.append(
            album.picture(
                lambda ax: res.plot_lambda(alpha, target=i, ax=ax),
                "Posterior density of the penalty and, on the second axis if there is one, its cross-validation "
                "score.",
                height=4.8,
            )
        )
    if p and res.ridge_fit.spectrum.rank and res.has_joint_posterior:
        out.pictures.append(
            album.picture(
                lambda ax: res.plot_path(target=i, ax=ax),
                "Coefficients as functions of the penalty, which increases from left to right.",
            )
        )
    if rows_there(res):
        out.checks.append(
            album.picture(
                lambda ax: res.plot_fit(target=i, left_out=True, ax=ax),
                "Leave-one-out predictions: the closer to the line, the better.",
            )
        )
        out.checks += row_pictures(res, i, album)
