"""The report of a Bayesian ridge regression of yes/no responses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.plots.frame import percent
from pybayesridge.report.parts import EMBEDDED, Remark, Table, Target, table_of
from pybayesridge.report.shared import Album, coefficients_table, ends, rows_there
from pybayesridge.ridge.prior import NAMED
from pybayesridge.text import TOP, in_words, number

if TYPE_CHECKING:
    from pybayesridge.results.binary import BinaryRidgeResults

NAME = "Bayesian ridge regression (binomial)"

CITE = (
    "Rasmussen, C. E., Williams, C. K. I. (2006). Gaussian Processes for Machine Learning, chapter 3. MIT Press.",
    "Tew, S. Y., Boley, M., Schmidt, D. F. (2023). Bayes beats Cross Validation: Fast and Accurate Ridge Regression "
    "via Expectation Maximization. Advances in Neural Information Processing Systems 36.",
)

NO_MEAN = "A dash stands for a mean that does not exist: the tail of the posterior is too heavy."


def citations(_: BinaryRidgeResults) -> tuple[str, ...]:
    """The papers of the method."""
    return CITE


def model(res: BinaryRidgeResults) -> dict[str, object]:
    """Values on which the formulas of the model depend."""
    m = res.model
    return {
        "weights": False,
        "link": m.link,
        "flat_in": m.flat_in,
        "trials": res.event == "success",
        "prior": next((name for name, known in NAMED.items() if known == m.prior_of_tau2), None),
        "a": number(m.prior_of_tau2.a),
        "b": number(m.prior_of_tau2.b),
        "scale": number(m.prior_of_tau2.scale or 1.0),
        "scaled": m.prior_of_tau2.scale not in (None, 1.0),
        "prior_of_lambda": res.method_entry.uses_prior,
    }


def words(res: BinaryRidgeResults) -> list[str]:
    """The model and the method in plain language."""
    scale = "log odds" if res.link == "logit" else "normal quantile"
    out = [
        f"The {scale} of the probability of the event ({res.event}) is modelled as a linear function of the columns. "
        "The penalised coefficients share one ridge penalty, lambda, on the scale of the prior: the larger lambda, "
        "the more they are shrunk towards zero. Unpenalised coefficients are not shrunk."
    ]
    entry = res.method_entry
    if entry.uses_prior and NAMED["r2"] == res.model.prior_of_tau2:
        prior = (
            "The share of the latent variance that the penalised columns explain has a Beta(1/2, 1/2) prior, "
            "whatever the number of columns."
        )
        return [*out, entry.treatment, prior]
    return [*out, entry.treatment]


def overview(res: BinaryRidgeResults, wanted: list[int]) -> None:
    """There is one target."""


def target(res: BinaryRidgeResults, i: int, album: Album | None, alpha: float) -> Target:
    """Everything about the response."""
    out = Target(res.model.data.targets[i])
    center = "mean" if res.posterior.has_mean else "median"
    table, values, at = coefficients_table(res, i, alpha, center)
    if res.link == "logit":
        out.tables.append(_odds_ratios(res, at, alpha))
    out.tables += [table, _hyperparameters(res, alpha), _scores(res)]
    out.findings = _findings(res, values, at, alpha)
    out.check = _check(res)
    out.remarks = _remarks(res)
    if album is not None:
        _draw(res, album, alpha, out)
    return out


def _odds_ratios(res: BinaryRidgeResults, at: IntArray, alpha: float) -> Table:
    names = [res.model.exog_names[j] for j in at]
    ratios = res.odds_ratios(alpha)[["odds_ratio", "prob_above_1", "lower", "upper"]].to_numpy()[at]
    return table_of(
        f"Odds ratios per unit of the column, with {percent(alpha)} intervals",
        "coefficient",
        ["odds ratio", "P(above 1)", *ends(alpha)],
        names,
        ratios,
        shares=(1,),
        interval=True,
        left_out=max(len(res.model.exog_names) - EMBEDDED, 0),
        file="odds-ratios.csv",
    )


def _hyperparameters(res: BinaryRidgeResults, alpha: float) -> Table:
    found = res.hyperparameters(alpha)
    note = "" if np.isfinite(found.to_numpy()).all() else NO_MEAN
    heads = ["mean", "median", *ends(alpha)]
    caption = "Penalty and effective degrees of freedom"
    return table_of(caption, "", heads, list(found.index), found.to_numpy(), interval=True, note=note)


def _scores(res: BinaryRidgeResults) -> Table:
    share = res.n_events / res.n_trials
    base = share * np.log(share) + (1 - share) * np.log1p(-share)
    values = np.array([[res.loo_log_score, base], [res.loo_brier, share * (1 - share)], [res.loo_auc, 0.5]])
    return table_of(
        "Leave-one-out scores, and those of the share of events as the only prediction",
        "",
        ["this model", "share of events"],
        ["log score (larger is better)", "Brier score (smaller is better)", "AUC (larger is better)"],
        values,
        shares=(0, 1),
        note="The scores of the share of events are in-sample.",
    )


def _findings(res: BinaryRidgeResults, values: FloatArray, at: IntArray, alpha: float) -> list[str]:
    design = res.posterior.design
    penalized = np.isin(at, res.model.positions(design)[1])
    clear = penalized & ((values[:, 2] > 0) | (values[:, 3] < 0))
    names = [res.model.exog_names[j] for j in at[clear][:5]]
    out = [
        f"{number(res.n_events, 15)} of {number(res.n_trials, 15)} responses are events ({res.event}).",
        f"Leave-one-out: AUC {res.loo_auc:.3f}, Brier score {res.loo_brier:.3f}, log score {res.loo_log_score:.3f}.",
        f"The penalty lambda is {in_words(res.lambda_)}; the {design.p:,} penalised coefficients have "
        f"{number(res.df_model - design.block.k + res.model.k_constant)} effective degrees of freedom.",
    ]
    of = f"{int(penalized.sum()):,} penalised coefficients" + (" examined" if penalized.sum() < design.p else "")
    if clear.any():
        which = ", ".join(names) + (" and others" if clear.sum() > 5 else "")
        out.append(f"{int(clear.sum()):,} of {of} have a {percent(alpha)} interval that excludes zero: {which}.")
    else:
        out.append(f"None of {of} has a {percent(alpha)} interval that excludes zero.")
    return out


def _check(res: BinaryRidgeResults) -> list[str]:
    if not rows_there(res):
        return []
    found = res.loo_calibration()
    out = [
        "Each row was predicted from all other rows, the penalty estimated from the others too. The predictions "
        "come from the approximate posterior without refitting; columns are standardised by all rows."
    ]
    if np.isfinite(found.slope):
        out.append(
            "A logistic regression of the outcomes on the logits of the leave-one-out probabilities has intercept "
            f"{found.intercept:.2f} and slope {found.slope:.2f}; calibrated probabilities have 0 and 1. A slope "
            "below 1 means that they are too extreme."
        )
    return out


def _remarks(res: BinaryRidgeResults) -> list[Remark]:
    out = [Remark("good", "The algorithm converged.")] if res.converged else []
    if res.quadrature_error is not None:
        error = number(res.quadrature_error, 1)
        out.append(Remark("good", f"The estimated error of the integration over the penalty is {error}."))
    return out


def _draw(res: BinaryRidgeResults, album: Album, alpha: float, out: Target) -> None:
    shown = len(res.model.exog_names) - res.model.k_constant
    if shown:
        out.pictures.append(
            album.rows(
                lambda ax: res.plot_coefficients(alpha, ax=ax),
                f"Posterior {'means' if res.posterior.has_mean else 'medians'} and {percent(alpha)} intervals on the "
                "scale of the link, per standard deviation of the column. Intervals that cross the dashed line "
                "include zero.",
                min(shown, TOP),
            )
        )
    if rows_there(res):
        out.checks.append(
            album.picture(
                lambda ax: res.plot_calibration(ax=ax),
                "Share of events over leave-one-out probabilities, in bins of equally many trials with 95 % "
                "intervals: the closer to the line, the better calibrated.",
            )
        )
        out.checks.append(
            album.picture(
                lambda ax: res.plot_roc(ax=ax),
                "ROC curve of the leave-one-out probabilities; the dashed line is that of chance.",
            )
        )
