"""The parts of a report."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from pybayesridge._types import ArrayLike, FloatArray
from pybayesridge.findings import Finding
from pybayesridge.text import Number, column, columns, rounded

if TYPE_CHECKING:
    from pybayesridge.results.band_estimates import BandEstimates
    from pybayesridge.results.estimates import LinearEstimates
    from pybayesridge.results.ridge_estimates import RidgeEstimates

ROWS = 200
"""A table on the page shows at most this many rows."""

EMBEDDED = 20_000
"""At most this many rows of a table are in the file."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table: its name, its numbers and how they are written."""

    name: str
    values: tuple[float, ...]
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A table that can be sorted, and all of it as CSV where only a part is shown.

    Attributes
    ----------
    caption : str
    first : str
        Head of the column of names.
    heads : tuple of str
    rows : tuple of Row
    note : str
    csv : str
        Empty where every row is shown.
    file : str
        Name under which the CSV is saved.
    """

    caption: str
    first: str
    heads: tuple[str, ...]
    rows: tuple[Row, ...]
    note: str = ""
    csv: str = ""
    file: str = ""


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture with what it says."""

    svg: str
    caption: str


@dataclass(frozen=True, slots=True)
class Remark:
    """A sentence of the diagnostics: `kind` is "good", "note" or "warning"."""

    kind: str
    text: str


@dataclass(slots=True)
class Section:
    """A section: paragraphs, then tables, then pictures."""

    heading: str
    texts: list[str] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    pictures: list[Picture] = field(default_factory=list)


@dataclass(slots=True)
class Target:
    """The part of a report about one target."""

    name: str
    findings: list[str] = field(default_factory=list)
    remarks: list[Remark] = field(default_factory=list)
    results: Section = field(default_factory=lambda: Section("Results"))
    drawn: Section = field(default_factory=lambda: Section("Pictures"))
    effects: Section = field(default_factory=lambda: Section("Effects"))
    prediction: Section = field(default_factory=lambda: Section("Prediction"))
    checks: Section = field(default_factory=lambda: Section("Model checks"))

    @property
    def sections(self) -> list[Section]:
        """Those that contain something, in the order of the page."""
        every = (self.results, self.drawn, self.effects, self.prediction, self.checks)
        return [one for one in every if one.texts or one.tables or one.pictures]


@dataclass(slots=True)
class Page:
    """A whole report."""

    title: str
    question: str | None
    model_name: str
    method: str
    facts: list[tuple[str, str]]
    factors: list[tuple[str, list[str], str]]
    model: dict[str, object]
    words: list[str]
    remarks: list[Remark]
    overview: Table | None
    targets: list[Target]
    left_out: list[str]
    call: str
    named: dict[str, str]
    versions: list[tuple[str, str]]
    made: str
    citations: list[str]
    missing: list[str]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a fit was asked for, if not in Python.

    Attributes
    ----------
    call : str
        Code that makes it again.
    versions : list of (name, version)
        To stand above Python's.
    findings : list of Finding
        Instead of those of the results.
    """

    call: str
    versions: list[tuple[str, str]]
    findings: list[Finding]


def rows_there(res: LinearEstimates) -> bool:
    """Whether the rows of the data are still with the results."""
    return res.model.endog is not None


def ends(alpha: float) -> list[str]:
    """Heads of the ends of an interval."""
    return [f"{100 * alpha / 2:g} %", f"{100 * (1 - alpha / 2):g} %"]


def table_of(
    caption: str,
    first: str,
    heads: Sequence[str],
    names: Sequence[str],
    values: FloatArray,
    *,
    shares: Collection[int] = (),
    interval: bool = False,
    alike: Sequence[Sequence[int]] = (),
    by_row: bool = False,
    left_out: int = 0,
    note: str = "",
    file: str = "table.csv",
) -> Table:
    """A table of numbers (m, c), its rows in order of importance; of many the first are shown and all are in a CSV.

    Parameters
    ----------
    caption, first : str
    heads : sequence of c str
    names : sequence of m str
    values : (m, c) array
    shares : collection of int
        Which columns are probabilities or shares of variance, which are written to three decimals.
    interval : bool
        Whether the last two columns are the ends of intervals, which are written like one column.
    alike : sequence of sequences of int
        Further columns that are written like one.
    by_row : bool
        Whether the rows are quantities with units of their own, so that numbers are written alike in each row.
    left_out : int
        How many rows are not even in `values`.
    note, file : str
    """
    shown = np.asarray(values[:ROWS], dtype=np.float64)
    texts = _across(shown) if by_row else columns(shown.T, interval=interval)
    for group in alike:
        written = iter(column(shown[:, group].T.ravel()))
        for j in group:
            texts[j] = [next(written) for _ in shown]
    for j in shares:
        texts[j] = list(map(rounded, shown[:, j]))
    rows = tuple(
        Row(name, tuple(line), text)
        for name, line, text in zip(names[:ROWS], shown.tolist(), zip(*texts, strict=True), strict=True)
    )
    if len(names) <= ROWS:
        return Table(caption, first, tuple(heads), rows, note)
    below = "all are" if not left_out else f"the first {len(names):,} are"
    note = f"{note} The first {ROWS} of {len(names) + left_out:,} rows are shown; {below} below as CSV.".lstrip()
    return Table(caption, first, tuple(heads), rows, note, as_csv(first, heads, names, values), file)


def _across(values: FloatArray) -> list[list[Number]]:
    """Columns of numbers that are written alike in each row."""
    return [list(line) for line in zip(*map(column, values), strict=True)]


def as_csv(first: str, heads: Sequence[str], names: Sequence[str], values: FloatArray) -> str:
    """Comma-separated values to the last digit."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([first, *heads])
    for name, line in zip(names, np.asarray(values).tolist(), strict=True):
        writer.writerow([name, *map(repr, line)])
    return out.getvalue()


def of_targets(res: RidgeEstimates | BandEstimates, wanted: list[int], columns: Mapping[str, ArrayLike]) -> Table:
    """A row for each of the targets `wanted`; with leave-one-out R-squared while the rows are here."""
    if rows_there(res):
        columns = {**columns, "leave-one-out R-squared": res.arrays.loo_rsquared}
    values = np.column_stack([np.asarray(each, dtype=np.float64) for each in columns.values()])[wanted]
    names, heads = [res.model.data.targets[i] for i in wanted], list(columns)
    shares = [i for i, head in enumerate(heads) if head.endswith("R-squared")]
    return table_of("All targets", "target", heads, names, values, shares=shares, file="targets.csv")
