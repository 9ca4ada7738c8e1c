"""Summary tables, made of statsmodels' parts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from statsmodels.iolib.table import SimpleTable
from statsmodels.iolib.tableformatting import fmt_2cols, fmt_params

from pybayesridge._types import FloatArray
from pybayesridge.results.direction import HEAD
from pybayesridge.results.summary.formats import FormattedSummary, Table, one_line
from pybayesridge.text import TABLE_ROWS, Number, columns, rounded

SHOWN = 30
"""How many coefficients a cut table shows."""


def facts_table(title: str | None, left: Sequence[tuple[str, str]], right: Sequence[tuple[str, str]]) -> SimpleTable:
    """The top of a summary: two columns of names and values."""
    first = _two_columns(title, left)
    first.extend_right(_two_columns(title, [(f"  {name:<21}", value) for name, value in right]))
    return first


def _two_columns(title: str | None, facts: Sequence[tuple[str, str]]) -> SimpleTable:
    cells = [[value if isinstance(value, Number) else one_line(value)] for _, value in facts]
    return Table(cells, None, [name for name, _ in facts], title, txt_fmt=fmt_2cols)


def rows_to_show(size: FloatArray) -> list[int]:
    """Positions of the coefficients a table shows: all, or where there are too many the largest of `size` first."""
    if size.size <= TABLE_ROWS:
        return list(range(size.size))
    return np.argsort(-size, kind="stable")[:SHOWN].tolist()


def coefficient_table(
    names: Sequence[str],
    mean: FloatArray,
    sd: FloatArray,
    interval: FloatArray,
    alpha: float,
    *,
    positive: FloatArray | None = None,
    center: str = "mean",
) -> SimpleTable:
    """A row for each coefficient: mean, sd, interval, and the probability that it is positive where it is given."""
    cells = rows_of(np.column_stack([mean, sd, interval]))
    return table(names, *with_direction([center, "sd", *interval_heads(alpha)], cells, positive))


def with_direction(
    heads: list[str], rows: Sequence[Sequence[str]], positive: FloatArray | None
) -> tuple[list[str], list[list[str]]]:
    """A table with a last column, the probability that the coefficient is positive, where it is given."""
    if positive is None:
        return heads, [list(cells) for cells in rows]
    return [*heads, HEAD], [[*cells, rounded(p)] for cells, p in zip(rows, positive, strict=True)]


def interval_heads(alpha: float) -> list[str]:
    """Heads of the two ends of an interval."""
    return [f"[{alpha / 2:.3g}", f"{1 - alpha / 2:.4g}]"]


def rows_of(values: FloatArray) -> list[tuple[Number, ...]]:
    """The rows of a table of numbers whose columns are each written alike, the last two as one interval."""
    return list(zip(*columns(values.T, interval=True), strict=True))


def table(stubs: Sequence[str], heads: Sequence[str], rows: Sequence[Sequence[str]]) -> SimpleTable:
    """A table of parameters: a name in front of each row of formatted numbers."""
    return Table(rows, heads, [one_line(stub) for stub in stubs], txt_fmt=fmt_params)


def make_summary(tables: Sequence[SimpleTable], notes: Sequence[str]) -> FormattedSummary:
    """Put tables and numbered notes together."""
    out = FormattedSummary()
    out.tables.extend(tables)
    out.add_extra_txt(["Notes:", *(f"[{i}] {note}" for i, note in enumerate(notes, 1))])
    return out
