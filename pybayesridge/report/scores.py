"""The report: scores of predictions, for families that have their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pybayesridge.plots.frame import percent
from pybayesridge.report.figures import Album
from pybayesridge.report.parts import Picture, Table, ends, rows_there, table_of

if TYPE_CHECKING:
    from pybayesridge.results.estimates import LinearEstimates

EXAMPLES = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Ranks, as shares, of the rows whose predictions are in the table."""


def _left_out(res: LinearEstimates) -> list[float]:
    """Scores of rows predicted from the others, in the order of the family; empty where the fit has none."""
    found = [res.shown_fact(f"loo_{score.name}") for score in res.model.distribution.scores]
    return [] if None in found else found


def findings(res: LinearEstimates) -> list[str]:
    """The scores in a sentence."""
    values = _left_out(res)
    if not values:
        return []
    scores = zip(res.model.distribution.scores, values, strict=True)
    said = [f"{score.label} {value:.3f}" for score, value in scores if np.isfinite(value)]
    return [f"Leave-one-out: {', '.join(said)}."] if said else []


def tables(res: Any, alpha: float) -> list[Table]:
    """Scores and those of a model without columns; fitted means, where rows were not predicted from the others."""
    family = res.model.distribution
    if not family.scores:
        return []
    values, left_out = _left_out(res), True
    before = []
    if not values:
        if not rows_there(res):
            return []
        left_out, before = False, [_examples(res, alpha)]
        values = [score.of(res.likelihood(), res.arrays.fittedvalues) for score in family.scores]
    one, mean = family.without_columns(res)
    kind, note = ("Leave-one-out", f"The scores of the {family.null} are in-sample.")
    if not left_out:
        kind, note = (
            "In-sample",
            "These are scores of the rows used for the fit; those of new rows are worse on average.",
        )
    return [
        *before,
        table_of(
            f"{kind} scores, and those of the {family.null} as the only prediction",
            "",
            ["this model", family.null],
            [f"{score.label} ({score.better} is better)" for score in family.scores],
            np.column_stack([values, [score.of(one, mean) for score in family.scores]]),
            shares=(0, 1),
            note=note,
        ),
    ]


def _examples(res: Any, alpha: float) -> Table:
    """The smallest, the median and the largest fitted probabilities or counts, and the quartiles."""
    family, data = res.model.distribution, res.model.data
    order = np.argsort(res.arrays.fittedvalues, kind="stable")
    at = np.unique(order[np.rint(np.array(EXAMPLES) * (order.size - 1)).astype(int)], return_index=True)
    rows = at[0][np.argsort(at[1])]
    labels = data.row_labels[rows]
    own = {} if family.per_row != "exposure" or data.extent is None else {"exposure": data.extent[rows]}
    frame = res.get_prediction(data.exog[rows], transform=False, row_labels=labels, **own).summary_frame(alpha)
    what, observed = "probabilities of the event", "observed share"
    if not family.predicts_shares:
        what, observed = f"values ({family.predicted}s)", "observed"
    return table_of(
        f"Fitted {what} in increasing order (smallest, quartiles, largest), with {percent(alpha)} intervals",
        "row",
        [observed, "mean" if family.has_mean else "median", "sd", *ends(alpha)],
        [str(name) for name in labels],
        np.column_stack([res.model.endog[rows], frame.drop(columns="mcse", errors="ignore")]),
        shares=range(5) if family.predicts_shares else (),
        interval=True,
    )


def check(res: Any, i: int) -> list[str]:
    """How the predictions were made, and how well they are calibrated."""
    if not rows_there(res):
        return []
    if not _left_out(res):
        return [
            "The scores and these pictures compare probabilities with the rows used for the fit, which is "
            "optimistic; to assess prediction, use rows that were held out."
        ]
    out = [
        "Each row was predicted from all other rows, the penalty estimated from the others too. The predictions "
        "come from the approximate posterior without refitting; columns are standardised by all rows."
    ]
    found = res.loo_calibration() if res.model.distribution.predicts_shares else None
    if found is not None and np.isfinite(found.slope):
        out.append(
            "A logistic regression of the outcomes on the logits of the leave-one-out probabilities has intercept "
            f"{found.intercept:.2f} and slope {found.slope:.2f}; calibrated probabilities have 0 and 1. A slope "
            "below 1 means that they are too extreme."
        )
    return out


def row_by_row(res: Any, i: int, album: Album) -> list[Picture]:
    """Calibration and discrimination of probabilities; nothing for other families."""
    if not res.model.distribution.predicts_shares:
        return []
    of, where, better = "leave-one-out", "", "the better calibrated"
    if not _left_out(res):
        of, where, better = "fitted", " (in-sample)", "the better the fit"
    return [
        album.picture(
            lambda ax: res.plot_calibration(ax=ax),
            f"Share of events over {of} probabilities{where}, in bins of equally many trials with 95 % intervals: "
            f"the closer to the line, {better}.",
        ),
        album.picture(
            lambda ax: res.plot_roc(ax=ax),
            f"ROC curve of the {of} probabilities{where}; the dashed line is that of chance.",
        ),
    ]
