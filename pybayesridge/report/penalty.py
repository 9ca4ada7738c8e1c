"""The report of a ridge: its penalty, and how well it predicts rows with normal noise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pybayesridge._types import FloatArray
from pybayesridge.plots.frame import percent
from pybayesridge.report.coefficients import Listed, by_size, clear_of_zero
from pybayesridge.report.figures import Album
from pybayesridge.report.parts import Picture, Remark, Table, ends, of_targets, rows_there, table_of
from pybayesridge.report.residuals import explained_words, residual_remarks, row_pictures
from pybayesridge.ridge.loocv import leverages
from pybayesridge.ridge.prior import NAMED
from pybayesridge.text import TOP, in_words, listed, number

if TYPE_CHECKING:
    from pybayesridge.results.ridge_estimates import RidgeEstimates

NAME = "Bayesian ridge regression"

EM = (
    "Tew, S. Y., Boley, M., Schmidt, D. F. (2023). Bayes beats Cross Validation: Fast and Accurate Ridge Regression "
    "via Expectation Maximization. Advances in Neural Information Processing Systems 36."
)

SITES = "Rasmussen, C. E., Williams, C. K. I. (2006). Gaussian Processes for Machine Learning, chapter 3. MIT Press."
"""Of rows whose likelihood is not normal."""

PRIORS = {
    "r2": "The share of {variance} that the penalised columns explain has a Beta(1/2, 1/2) prior, whatever the "
    "number of columns.",
    "half-cauchy": "A priori tau, one over the square root of lambda, is half-Cauchy with scale 1.",
    None: "The prior of the penalty was given.",
}

HIGH = 0.5
"""A row with more leverage than this determines most of its own fitted value."""

FAR = 2.0
"""Left-out errors this many times the noise are worth a sentence."""

NO_MEAN = "A dash stands for a mean that does not exist: the tail of the posterior is too heavy."


def citations(res: RidgeEstimates) -> list[str]:
    """The papers of the method."""
    return [EM] if res.model.distribution.is_linear else [SITES, EM]


def formulas(res: RidgeEstimates) -> dict[str, object]:
    """Values on which the formulas of the model depend."""
    prior, sigma2 = res.model.prior_of_tau2, res.model.known_sigma2
    return {
        "prior": _name_of_prior(res),
        "a": number(prior.a),
        "b": number(prior.b),
        "scale": number(prior.scale or 1.0),
        "scaled": prior.scale not in (None, 1.0),
        "sigma_known": sigma2 is not None,
        "sigma2": "" if sigma2 is None else number(sigma2),
        "prior_of_lambda": res.method_entry.uses_prior,
    }


def _name_of_prior(res: RidgeEstimates) -> str | None:
    return next((name for name, known in NAMED.items() if known == res.model.prior_of_tau2), None)


def words(res: RidgeEstimates) -> list[str]:
    """The model and the method in plain language."""
    family, entry = res.model.distribution, res.method_entry
    text = (
        f"{family.model_in_words} The penalised coefficients share one ridge penalty, lambda, on the scale of the "
        "prior: the larger lambda, the more they are shrunk towards zero. Unpenalised coefficients are not shrunk."
    )
    if family.has_noise:
        text += f" The noise variance is {'estimated' if res.model.known_sigma2 is None else 'known'}."
    prior = [PRIORS[_name_of_prior(res)].format(variance=family.variance)] if entry.uses_prior else []
    return [text, entry.treatment, *prior, *family.on_shape()]


def overview(res: RidgeEstimates, wanted: list[int]) -> Table:
    """A row for each target."""
    own = res.arrays
    columns = {
        "lambda": own.lambda_,
        "sigma": res.noise_sd,
        "effective df": own.df_model,
        "R-squared": own.rsquared,
        "modes": own.n_modes,
    }
    return of_targets(res, wanted, columns)


def coefficients(res: RidgeEstimates, i: int, alpha: float) -> Listed:
    """The coefficients of a target."""
    return by_size(res, i, alpha)


def tables(res: RidgeEstimates, i: int, alpha: float) -> list[Table]:
    """The hyperparameters of a target."""
    values = res.hyperparameters_of(i, np.array([0.5, alpha / 2, 1 - alpha / 2]))
    what = "Penalty, noise" if res.model.distribution.has_noise else "Penalty"
    caption = f"{what} and effective degrees of freedom{res.method_entry.caption}"
    note = "" if np.isfinite(values).all() else NO_MEAN
    heads = ["mean", "median", *ends(alpha)]
    return [table_of(caption, "", heads, res.hyperparameter_names, values, by_row=True, note=note)]


def findings(res: RidgeEstimates, i: int, shown: Listed, alpha: float) -> list[str]:
    """The penalty and the coefficients; with normal noise also how well the model predicts, and what it explains."""
    design = res.posterior.design
    lam, df = (float(np.atleast_1d(value)[i]) for value in (res.arrays.lambda_, res.arrays.df_model))
    unpenalised = len(res.model.exog_names) - res.model.k_constant - design.p
    of_penalty = (
        f"The penalty lambda is {in_words(lam)}; the {design.p:,} penalised coefficients have "
        f"{number(df - unpenalised)} effective degrees of freedom."
    )
    out = [of_penalty, *clear_of_zero(res, shown, alpha)]
    if not res.model.distribution.is_linear:
        return out
    share = float(np.atleast_1d(res.arrays.rsquared)[i])
    in_sample = [f"In-sample R-squared is {share:.3f}."] if np.isfinite(share) and not res.can_fit_anything else []
    return [*_how_well(res, i, alpha), *out, *in_sample]


def _how_well(res: RidgeEstimates, i: int, alpha: float) -> list[str]:
    """How well the model predicts, and how much it explains."""
    out = []
    if rows_there(res):
        share = float(np.atleast_1d(res.arrays.loo_rsquared)[i])
        if np.isfinite(share):
            out.append(f"Leave-one-out R-squared is {share:.3f}.")
    explained = res.explained_variance_of(i, alpha)
    if res.posterior.design.p and np.isfinite(explained).all():
        out.append(explained_words("penalised columns explain", explained, alpha))
    return out


def check(res: RidgeEstimates, i: int) -> list[str]:
    """How far rows with normal noise are from their predictions from the others."""
    if not rows_there(res):
        return []
    residual = _column(res.arrays.loo_residuals, i)
    undefined = int((~np.isfinite(residual)).sum())
    if undefined:
        return [
            f"{undefined:,} row(s) cannot be predicted from the others, because the unpenalised columns alone fit "
            "them exactly. Leave-one-out errors are not defined for these rows."
        ]
    root = float(np.sqrt(np.atleast_1d(res.arrays.loo_mse)[i]))
    share = float(np.atleast_1d(res.arrays.loo_rsquared)[i])
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


def remarks(res: RidgeEstimates, i: int) -> list[Remark]:
    """How the computation went, and rows that stand out."""
    name = res.model.data.targets[i]
    said = {finding.code for finding in res.findings if not finding.targets or name in finding.targets}
    out = [Remark("good", "The algorithm converged.")] if res.converged_by_target[i] else []
    modes = res.shown_fact("n_modes", i)
    if modes == 1:
        out.append(Remark("good", "The posterior of tau2 has one mode."))
    elif modes is not None and modes > 1 and "several-modes" not in said:
        text = "this fit averages" if res.method_entry.integrates else "method='exact' averages"
        out.append(Remark("note", f"The posterior of tau2 has {modes:g} modes; {text} over all of them."))
    elif modes == 0 and not said & {"no-signal", "unbounded", "exact-fit", "nothing-to-explain"}:
        out.append(Remark("note", "The posterior of tau2 has no interior mode."))
    if res.arrays.quadrature_error is not None:
        error = float(np.atleast_1d(res.arrays.quadrature_error)[i])
        out.append(Remark("good", f"The estimated error of the integration over the penalty is {number(error, 1)}."))
    return out + (_row_remarks(res, i) if rows_there(res) and res.model.distribution.is_linear else [])


def _row_remarks(res: RidgeEstimates, i: int) -> list[Remark]:
    labels, weights = res.model.data.row_labels, res.model.weights
    leverage = leverages(res.posterior.design, res.ridge_fit.spectrum, res.ridge_fit.log_t2)[:, i]
    out = [_leverage_remark(leverage, labels)]
    sigma = float(res.noise_sd[i])
    residual = _column(res.arrays.resid, i) * (1.0 if weights is None else np.sqrt(weights))
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


def pictures(res: Any, i: int, album: Album, alpha: float) -> list[Picture]:
    """Coefficients; with normal noise also the posterior of the penalty and the path."""
    out, family = [], res.model.distribution
    shown = len(res.model.exog_names) - res.model.k_constant
    if shown:
        scale = "" if family.is_linear else f" on the scale of the {family.scale_of}"
        out.append(
            album.rows(
                lambda ax: res.plot_coefficients(alpha, target=i, ax=ax),
                f"Posterior {res.center}s and {percent(alpha)} intervals{scale}, per standard deviation of the "
                "column. Intervals that cross the dashed line include zero.",
                min(shown, TOP),
            )
        )
    if not family.is_linear or not res.posterior.design.p:
        return out
    if res.has_penalty_posterior(i):
        out.append(
            album.picture(
                lambda ax: res.plot_lambda(alpha, target=i, ax=ax),
                "Posterior density of the penalty and, on the second axis if there is one, its cross-validation "
                "score.",
                height=4.8,
            )
        )
    if res.ridge_fit.spectrum.rank and res.has_joint_posterior:
        out.append(
            album.picture(
                lambda ax: res.plot_path(target=i, ax=ax),
                "Coefficients as functions of the penalty, which increases from left to right.",
            )
        )
    return out


def row_by_row(res: Any, i: int, album: Album) -> list[Picture]:
    """Left-out predictions and residuals, of rows with normal noise."""
    left_out = album.picture(
        lambda ax: res.plot_fit(target=i, left_out=True, ax=ax),
        "Leave-one-out predictions: the closer to the line, the better.",
    )
    return [left_out, *row_pictures(res, i, album)]
