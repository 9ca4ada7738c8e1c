"""Summary tables, made of statsmodels' parts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from statsmodels.iolib.table import SimpleTable
from statsmodels.iolib.tableformatting import fmt_2cols, fmt_params

from pybayesridge._types import FloatArray
from pybayesridge.results.direction import HEADS
from pybayesridge.results.facts import interval_heads, rows_of
from pybayesridge.results.summary.formats import FormattedSummary, SummaryTable, one_line
from pybayesridge.text import Number, rounded


def facts_table(title: str | None, left: Sequence[tuple[str, str]], right: Sequence[tuple[str, str]]) -> SimpleTable:
    """The top of a summary: two columns of names and values, the shorter one filled with empty lines."""
    length = max(len(left), len(right))
    first, second = ([*side, *[("", "")] * (length - len(side))] for side in (left, right))
    out = _two_columns(title, first)
    out.extend_right(_two_columns(title, [(f"  {name:<21}", value) for name, value in second]))
    return out


def _two_columns(title: str | None, facts: Sequence[tuple[str, str]]) -> SimpleTable:
    cells = [[value if isinstance(value, Number) else one_line(value)] for _, value in facts]
    return SummaryTable(cells, None, [name for name, _ in facts], title, txt_fmt=fmt_2cols)


def coefficient_table(
    names: Sequence[str],
    mean: FloatArray,
    sd: FloatArray,
    interval: FloatArray,
    alpha: float,
    *,
    direction: Sequence[FloatArray] = (),
    center: str = "mean",
) -> SimpleTable:
    """A row for each coefficient: mean, sd, interval, and the probabilities of its direction where they are given."""
    cells = rows_of(np.column_stack([mean, sd, interval]))
    return table(names, *with_direction([center, "sd", *interval_heads(alpha)], cells, direction))


def with_direction(
    heads: list[str], rows: Sequence[Sequence[str]], direction: Sequence[FloatArray]
) -> tuple[list[str], list[list[str]]]:
    """A table with last columns for the probabilities of :func:`directions` that are given."""
    last = [[rounded(p) for p in each] for each in zip(*direction, strict=True)] if direction else [[]] * len(rows)
    return [*heads, *HEADS[: len(direction)]], [[*cells, *more] for cells, more in zip(rows, last, strict=True)]


def table(stubs: Sequence[str], heads: Sequence[str], rows: Sequence[Sequence[str]]) -> SimpleTable:
    """A table of parameters: a name in front of each row of formatted numbers."""
    return SummaryTable(rows, heads, [one_line(stub) for stub in stubs], txt_fmt=fmt_params)


def make_summary(tables: Sequence[SimpleTable], notes: Sequence[str]) -> FormattedSummary:
    """Put tables and numbered notes together."""
    out = FormattedSummary()
    out.tables.extend(tables)
    out.add_extra_txt(["Notes:", *(f"[{i}] {note}" for i, note in enumerate(notes, 1))])
    return out
