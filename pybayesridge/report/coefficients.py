"""The report: the coefficients of a fit, and their exponentials."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.plots.frame import percent
from pybayesridge.report.parts import EMBEDDED, Table, ends, table_of
from pybayesridge.text import NO_VARIANCE

if TYPE_CHECKING:
    from pybayesridge.results.estimates import LinearEstimates
    from pybayesridge.results.selection_estimates import SelectionEstimates

ORDER = "Unpenalised coefficients stand first, the others are ordered by {size}."

NAMED = 5
"""Names of coefficients that are written out."""


@dataclass(frozen=True, slots=True)
class Listed:
    """The coefficients of a target that the file contains.

    Attributes
    ----------
    at : (m,) int array
        Their positions in ``exog_names``.
    table : Table
    interval : (m, 2) array
    probability : (m,) array or None
        Of inclusion, for a selection.
    """

    at: IntArray
    table: Table
    interval: FloatArray
    probability: FloatArray | None = None


def order_by(size: FloatArray, first: IntArray) -> IntArray:
    """Positions, those of `first` before the others, which follow by `size`; as many as the file contains."""
    rest = np.setdiff1d(np.arange(size.size), first)
    return np.concatenate([first, rest[np.argsort(-size[rest], kind="stable")]]).astype(np.intp)[:EMBEDDED]


def by_size(res: LinearEstimates, i: int, alpha: float) -> Listed:
    """The coefficients of a ridge, by their size per standard deviation of the column."""
    names, design = res.model.exog_names, res.posterior.design
    at = order_by(res.standardized_size(i), res.model.positions(design)[0])
    mean, sd, interval = res.some_coefficients(at.tolist(), i, alpha)
    order = ORDER.format(size="their size per standard deviation of the column") if at.size > 1 else ""
    table = table_of(
        caption(res, alpha),
        "coefficient",
        [res.center, "sd", *ends(alpha)],
        [names[j] for j in at],
        np.column_stack([mean, sd, interval]),
        interval=True,
        left_out=len(names) - at.size,
        note=" ".join(filter(None, [order, NO_VARIANCE if np.isinf(sd).any() else ""])),
        file="coefficients.csv",
    )
    return Listed(at, table, interval)


def by_inclusion(res: SelectionEstimates, alpha: float) -> Listed:
    """The coefficients of a selection, by their inclusion probability."""
    names, prob = res.model.exog_names, res.arrays.inclusion_prob
    at = order_by(prob, res.model.positions(res.posterior.design)[0])
    own = res.arrays
    columns = [prob, own.params, own.bse, own.cond_mean, np.sqrt(own.cond_var), own.conf_int(alpha)]
    values = np.column_stack(columns)[at]
    table = table_of(
        f"{caption(res, alpha)} (marginal over inclusion)",
        "coefficient",
        ["inclusion probability", "mean", "sd", "mean given inclusion", "sd given inclusion", *ends(alpha)],
        [names[j] for j in at],
        values,
        shares=(0,),
        interval=True,
        alike=((1, 3), (2, 4)),
        left_out=len(names) - at.size,
        note=ORDER.format(size="inclusion probability"),
        file="coefficients.csv",
    )
    return Listed(at, table, values[:, -2:], prob[at])


def caption(res: LinearEstimates, alpha: float) -> str:
    """Of a table of coefficients."""
    return f"Coefficients, on the scale of the {res.model.distribution.scale_of}, with {percent(alpha)} intervals"


def ratios(res: Any, listed: Listed, alpha: float) -> list[Table]:
    """The table of exponentials of the coefficients, where the family has a word for them."""
    name = res.model.distribution.ratio
    if not name:
        return []
    columns = [name.replace(" ", "_"), "prob_above_1", "lower", "upper"]
    values = res.ratios(alpha)[columns].to_numpy()[listed.at]
    heads, marginal, note = [name, "P(above 1)", *ends(alpha)], "", ""
    if listed.probability is not None:
        values = np.column_stack([listed.probability, values])
        heads, marginal = ["inclusion probability", *heads], " (marginal over inclusion)"
        note = "An end of exactly 1 belongs to models without the column."
    names = res.model.exog_names
    return [
        table_of(
            f"{name.capitalize()}s per unit of the column, with {percent(alpha)} intervals{marginal}",
            "coefficient",
            heads,
            [names[j] for j in listed.at],
            values,
            shares=tuple(j for j, head in enumerate(heads) if "P(" in head or "prob" in head),
            interval=True,
            left_out=len(names) - listed.at.size,
            note=note,
            file=f"{name.replace(' ', '-')}s.csv",
        )
    ]


def cut_points(res: Any, alpha: float) -> list[Table]:
    """The table of cut points, where the family has any."""
    family = res.model.distribution
    if not family.has_cuts:
        return []
    found = res.cut_points(alpha)
    caption = f"Cut points, on the scale of the {family.scale_of}, with {percent(alpha)} intervals"
    heads, names = [res.center, "sd", *ends(alpha)], list(found.index)
    values = found.to_numpy()
    return [table_of(caption, "between", heads, names, values, interval=True, file="cut-points.csv")]


def clear_of_zero(res: LinearEstimates, listed: Listed, alpha: float) -> list[str]:
    """Which intervals of penalised coefficients exclude zero."""
    p, names = res.posterior.design.p, res.model.exog_names
    penalized = np.isin(listed.at, res.model.positions(res.posterior.design)[1])
    clear = penalized & ((listed.interval[:, 0] > 0) | (listed.interval[:, 1] < 0))
    of = f"{int(penalized.sum()):,} penalised coefficients" + (" examined" if penalized.sum() < p else "")
    if clear.any():
        which = ", ".join(names[j] for j in listed.at[clear][:NAMED])
        which += " and others" if clear.sum() > NAMED else ""
        return [f"{int(clear.sum()):,} of {of} have a {percent(alpha)} interval that excludes zero: {which}."]
    return [f"None of {of} has a {percent(alpha)} interval that excludes zero."] if p else []
