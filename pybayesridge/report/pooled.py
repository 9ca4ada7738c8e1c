"""The report of pooled fits: their pooled posterior; what the model is, and the code, are those of the first fit."""

from __future__ import annotations

from typing import Any

import numpy as np

from pybayesridge.plots.frame import percent
from pybayesridge.report.coefficients import Listed, caption, clear_of_zero, order_by
from pybayesridge.report.figures import Album
from pybayesridge.report.parts import Picture, Remark, Table, ends, table_of
from pybayesridge.text import TOP

WORDS = (
    "The model was fitted to each of {count} completed data sets, and the posteriors are pooled with equal weights: "
    "a variance is the mean of the variances plus the variance of the means, and intervals are quantiles of the "
    "mixture. The facts on the response and the code below are those of the first fit."
)


def words(res: Any) -> list[str]:
    """How fits are pooled; nothing of a single fit."""
    count = len(res.parts)
    return [] if count == 1 else [WORDS.format(count=count)]


def overview(res: Any, wanted: list[int]) -> Table:
    """A row for each target: how much of the variance of a coefficient lies between the fits."""
    names, share = res.model.data.targets, _between(res)
    values = np.column_stack([share.mean(axis=0), share.max(axis=0)])[wanted]
    heads = ["mean share between the fits", "largest"]
    return table_of("All targets", "target", heads, [names[i] for i in wanted], values, shares=(0, 1))


def coefficients(res: Any, i: int, alpha: float) -> Listed:
    """The coefficients of a target, with the share of their variance that lies between the fits."""
    design, names = res.parts[0].posterior.design, res.model.exog_names
    at = order_by(res.importance(i), res.model.positions(design)[0])
    mean, sd, interval = res.some_coefficients(at.tolist(), i, alpha)
    own = {name.replace("_prob", " probability"): values[at] for name, values in res.own_columns().items()}
    table = table_of(
        caption(res, alpha),
        "coefficient",
        [*own, "mean", "sd", "share between the fits", *ends(alpha)],
        [names[j] for j in at],
        np.column_stack([*own.values(), mean, sd, _between(res)[at, i], interval]),
        shares=(*range(len(own)), len(own) + 2),
        interval=True,
        left_out=len(names) - at.size,
        file="coefficients.csv",
    )
    return Listed(at, table, interval, next(iter(own.values()), None))


def _between(res: Any) -> Any:
    """Shares of variance between the fits, (k, q)."""
    return np.asarray(res.between_share).reshape(len(res.model.exog_names), -1)


def tables(res: Any, i: int, alpha: float) -> list[Table]:
    """No further ones."""
    return []


def findings(res: Any, i: int, shown: Listed, alpha: float) -> list[str]:
    """Which coefficients are clear of zero, and what the missing values cost."""
    largest = _between(res)[:, i].max(initial=0.0)
    cost = f"At most {largest:.0%} of the variance of a coefficient lies between the fits."
    return [*clear_of_zero(res.parts[0], shown, alpha), cost]


def check(res: Any, i: int) -> list[str]:
    """Nothing: model checks have the leave-one-out score."""
    return []


def remarks(res: Any, i: int) -> list[Remark]:
    """Whether all fits have converged."""
    return [Remark("good", f"All {len(res.parts)} fits converged.")] if res.converged else []


def pictures(res: Any, i: int, album: Album, alpha: float) -> list[Picture]:
    """The coefficients."""
    shown = len(res.model.exog_names) - res.model.k_constant
    if not shown:
        return []
    text = f"Pooled posterior means and {percent(alpha)} intervals, per standard deviation of the column."
    return [album.rows(lambda ax: res.plot_coefficients(alpha, target=i, ax=ax), text, min(shown, TOP))]


def row_by_row(res: Any, i: int, album: Album) -> list[Picture]:
    """No pictures of rows, whose columns differ between the data sets."""
    return []
