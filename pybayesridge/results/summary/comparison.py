"""The table of several models side by side, in its formats."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from pybayesridge._types import BoolArray, FloatArray
from pybayesridge.results.facts import SHOWN, fact_named
from pybayesridge.results.summary.formats import FormattedSummary, cell_texts, csv_text, one_line
from pybayesridge.results.summary.tables import table
from pybayesridge.text import TABLE_ROWS, column, rounded

MARKDOWN = str.maketrans({"\\": r"\\", "|": r"\|", "*": r"\*", "_": r"\_", "`": r"\`", "<": "&lt;", "&": "&amp;"})


class ModelTable(FormattedSummary):
    """Models side by side: text by ``print``, and other formats.

    Parameters
    ----------
    frame : DataFrame
        All numbers: rows by ``term`` and ``value`` (``estimate``, ``sd``, ``lower``, ``upper``, ``inclusion_prob``),
        those of the whole fit under the term ``""``; a column for each model.
    """

    def __init__(self, frame: pd.DataFrame) -> None:
        super().__init__()
        self.frame = frame
        self.notes: list[str] = []

    def as_csv(self) -> str:
        """All numbers as comma-separated values, without parentheses, which a spreadsheet takes for a minus."""
        out = self.frame.rename(columns=lambda name: csv_text(one_line(name)))
        places = [(csv_text(one_line(term)), value) for term, value in out.index]
        out.index = pd.MultiIndex.from_tuples(places, names=out.index.names)
        return str(out.to_csv(lineterminator="\n")).rstrip("\n")

    def to_markdown(self) -> str:
        """The table as Markdown, with a paragraph for each note."""
        rows = [[text.translate(MARKDOWN) for text in row] for row in cell_texts(self.tables[0])]
        lines = [rows[0], ["---", *["---:"] * (len(rows[0]) - 1)], *rows[1:]]
        table_ = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        return "\n\n".join([table_, *(note.translate(MARKDOWN) for note in self.notes)])


def comparison_table(
    frame: pd.DataFrame, notes: Sequence[str], *, show: str, alpha: float, terms: list[str] | None
) -> ModelTable:
    """Make the table of numbers by term and value; see :func:`pybayesridge.compare_models`."""
    out = ModelTable(frame)
    known = [term for term in frame.index.unique("term") if term != ""]
    shown = _likely(frame, known) if terms is None and len(known) > TABLE_ROWS else terms or known
    stubs: list[str] = []
    rows: list[list[str]] = []
    for term in shown:
        for i, cells in enumerate(_of_term(frame.loc[[term]].droplevel("term"), show)):
            stubs.append(term if i == 0 else "")
            rows.append(cells)
    facts = frame.loc[[""]].droplevel("term") if "" in frame.index.get_level_values("term") else frame.iloc[:0]
    for name, values in facts.iterrows():
        stubs.append(str(name))
        rows.append(_of_fact(str(name), values.to_numpy(dtype=np.float64)))
    out.tables.append(table(stubs, [one_line(name) for name in frame.columns], rows))
    below = "standard deviations in parentheses" if show == "sd" else f"{100 * (1 - alpha):g} % intervals"
    lines = [f"Below the estimates: {below}.", *notes]
    if "inclusion_prob" in frame.index.get_level_values("value"):
        lines.insert(1, "PIP: posterior inclusion probability.")
    if len(shown) < len(known):
        lines.append(f"{len(known) - len(shown)} coefficients are omitted; see frame, or name them in terms=.")
    out.notes = lines
    out.add_extra_txt(["Notes:", *(f"[{i}] {line}" for i, line in enumerate(lines, 1))])
    return out


def _likely(frame: pd.DataFrame, known: list[str]) -> list[str]:
    """The terms whose estimates are largest relative to their standard deviations, in the order of the table."""
    wide = frame.drop(index="", level="term", errors="ignore")
    estimate, sd = (np.abs(wide.xs(value, level="value").to_numpy(dtype=np.float64)) for value in ("estimate", "sd"))
    with np.errstate(divide="ignore", invalid="ignore"):
        size = np.nan_to_num(np.where(estimate > 0, estimate / sd, 0.0)).max(axis=1)
    return [known[i] for i in np.sort(np.argsort(-size, kind="stable")[:SHOWN])]


def _of_term(values: pd.DataFrame, show: str) -> list[list[str]]:
    """Lines of a coefficient: estimates, what is below them, and inclusion probabilities where there are any."""

    def line(name: str) -> FloatArray:
        if name not in values.index:
            return np.full(values.shape[1], np.nan)
        return values.loc[name].to_numpy(dtype=np.float64)

    names = ["estimate", "sd"] if show == "sd" else ["estimate", "lower", "upper"]
    there = ~np.isnan(line("estimate"))
    numbers = [line(name)[there] for name in names]
    texts = iter(column(np.concatenate(numbers)))
    written = [[next(texts) for _ in part] for part in numbers]
    below = [f"({sd})" for sd in written[1]] if show == "sd" else _brackets(*written[1:])
    out = [_spread(written[0], there), _spread(below, there)]
    inclusion = line("inclusion_prob")
    if np.isfinite(inclusion).any():
        out.append([f"PIP {rounded(p)}" if np.isfinite(p) else "" for p in inclusion])
    return out


def _brackets(low: Sequence[str], high: Sequence[str]) -> list[str]:
    return [f"[{a}, {b}]" for a, b in zip(low, high, strict=True)]


def _spread(texts: Sequence[str], there: BoolArray) -> list[str]:
    cells = iter(texts)
    return [next(cells) if has else "" for has in there]


def _of_fact(name: str, values: FloatArray) -> list[str]:
    """A row of facts: numbers of one kind are written alike, others as everywhere."""
    fact, there = fact_named("row", name), ~np.isnan(values)
    if fact.form == "number":
        return _spread(column(values[there]), there)
    return [fact.text(value) if has else "" for value, has in zip(values, there, strict=True)]
