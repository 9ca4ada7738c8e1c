"""The report of a spike-and-slab regression of yes/no responses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import xlog1py, xlogy

from pybayesridge.binomial.leave_one_out import area_under_curve, brier_score
from pybayesridge.plots.frame import percent
from pybayesridge.report import spike_slab
from pybayesridge.report.parts import Table, Target, table_of
from pybayesridge.report.shared import Album, ends, rows_there
from pybayesridge.text import number

if TYPE_CHECKING:
    from pybayesridge.results.binary_selection import BinarySpikeSlabResults

NAME = "Spike-and-slab regression (binomial)"

AUGMENTATION = {
    "logit": "Polson, N. G., Scott, J. G., Windle, J. (2013). Bayesian Inference for Logistic Models Using "
    "Pólya-Gamma Latent Variables. Journal of the American Statistical Association, 108(504), 1339–1349.",
    "probit": "Albert, J. H., Chib, S. (1993). Bayesian Analysis of Binary and Polychotomous Response Data. Journal "
    "of the American Statistical Association, 88(422), 669–679.",
}

EXAMPLES = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Ranks, as shares, of the rows whose probabilities are in the table."""


def citations(res: BinarySpikeSlabResults) -> list[str]:
    """The papers of the method."""
    own = spike_slab.citations(res)
    return own if res.exact_sets is None else [*own, AUGMENTATION[res.link]]


def model(res: BinarySpikeSlabResults) -> dict[str, object]:
    """Values on which the formulas of the model depend."""
    return spike_slab.model(res) | {"link": res.link, "trials": res.event == "success"}


def words(res: BinarySpikeSlabResults) -> list[str]:
    """The model and the method in plain language."""
    scale = "log odds" if res.link == "logit" else "normal quantile"
    verb = "are" if res.link == "logit" else "is"
    return [
        f"The {scale} of the probability of the event ({res.event}) {verb} modelled as a linear function of the "
        f"columns. {spike_slab.SPIKE}",
        *spike_slab.words_on_selection(res),
    ]


def overview(res: BinarySpikeSlabResults, wanted: list[int]) -> None:
    """There is one target."""


def target(res: BinarySpikeSlabResults, i: int, album: Album | None, alpha: float) -> Target:
    """Everything about the response."""
    out = Target(res.model.data.targets[i])
    out.tables = spike_slab.tables_on_selection(res, alpha)
    if res.link == "logit":
        out.tables.insert(0, _odds_ratios(res, alpha))
    out.findings = [
        f"{number(res.n_events, 15)} of {number(res.n_trials, 15)} responses are events ({res.event}).",
        *spike_slab.findings_on_selection(res),
    ]
    out.remarks = spike_slab.remarks_on_selection(res)
    if rows_there(res):
        out.tables += [_probabilities(res, alpha), _scores(res)]
        out.check = [
            "The scores and these pictures compare probabilities with the rows used for the fit, which is "
            "optimistic; to assess prediction, use rows that were held out."
        ]
    if album is not None:
        out.pictures = spike_slab.pictures_of_selection(res, album, alpha)
        _draw_checks(res, album, out)
    return out


def _odds_ratios(res: BinarySpikeSlabResults, alpha: float) -> Table:
    names, at = res.model.exog_names, spike_slab.by_inclusion(res)
    ratios = res.odds_ratios(alpha)[["odds_ratio", "prob_above_1", "lower", "upper"]].to_numpy()
    return table_of(
        f"Odds ratios per unit of the column, with {percent(alpha)} intervals (marginal over inclusion)",
        "coefficient",
        ["inclusion probability", "odds ratio", "P(above 1)", *ends(alpha)],
        [names[j] for j in at],
        np.column_stack([res.inclusion_prob, ratios])[at],
        shares=(0, 2),
        interval=True,
        left_out=len(names) - at.size,
        note="An end of exactly 1 belongs to models without the column.",
        file="odds-ratios.csv",
    )


def _probabilities(res: BinarySpikeSlabResults, alpha: float) -> Table:
    """The smallest, the median and the largest fitted probabilities, and the quartiles."""
    order = np.argsort(res.fittedvalues, kind="stable")
    at = np.unique(order[np.rint(np.array(EXAMPLES) * (order.size - 1)).astype(int)], return_index=True)
    rows = at[0][np.argsort(at[1])]
    labels = res.model.data.row_labels[rows]
    frame = res.get_prediction(res.model.data.exog[rows], transform=False, row_labels=labels).summary_frame(alpha)
    return table_of(
        f"Fitted probabilities of the event in increasing order (smallest, quartiles, largest), with "
        f"{percent(alpha)} intervals",
        "row",
        ["observed share", "mean", "sd", *ends(alpha)],
        [str(name) for name in labels],
        np.column_stack([res.model.endog[rows], frame]),
        shares=range(5),
        interval=True,
    )


def _scores(res: BinarySpikeSlabResults) -> Table:
    """In-sample scores; those of the share of events for comparison."""
    rows, fitted = res.model.likelihood(), res.fittedvalues
    share = np.full(fitted.shape, res.n_events / res.n_trials)
    successes, failures = rows.totals()
    values = [
        [float((xlogy(successes, p) + xlog1py(failures, -p)).sum() / res.n_trials) for p in (fitted, share)],
        [brier_score(rows, p) for p in (fitted, share)],
        [area_under_curve(rows, p) for p in (fitted, share)],
    ]
    return table_of(
        "In-sample scores, and those of the share of events as the only prediction",
        "",
        ["this model", "share of events"],
        ["log score (larger is better)", "Brier score (smaller is better)", "AUC (larger is better)"],
        np.array(values),
        shares=(0, 1),
        note="These are scores of the rows used for the fit; those of new rows are worse on average.",
    )


def _draw_checks(res: BinarySpikeSlabResults, album: Album, out: Target) -> None:
    if not rows_there(res):
        return
    out.checks = [
        album.picture(
            lambda ax: res.plot_calibration(ax=ax),
            "Share of events over fitted probabilities (in-sample), in bins of equally many trials with 95 % "
            "intervals: the closer to the line, the better the fit.",
        ),
        album.picture(
            lambda ax: res.plot_roc(ax=ax),
            "ROC curve of the fitted probabilities (in-sample); the dashed line is that of chance.",
        ),
    ]
