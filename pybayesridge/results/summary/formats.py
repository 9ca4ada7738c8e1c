"""The formats of a summary: text by statsmodels, and HTML, LaTeX and CSV in which any name can stand."""

from __future__ import annotations

import copy
import csv
import html
import io
import re
import textwrap
from collections.abc import Sequence
from typing import Any

from statsmodels.iolib.summary import Summary
from statsmodels.iolib.table import SimpleTable

from pybayesridge.text import Number

LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "^": r"\textasciicircum{}",
        "~": r"\textasciitilde{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        "{": r"\{",
        "}": r"\}",
        "_": r"\_",
        "&": r"\&",
        "%": r"\%",
        "#": r"\#",
        "$": r"\$",
    }
)

NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
"""A finite number as Python and spreadsheets write it."""

FORMULA_STARTS = ("=", "+", "-", "@")
"""A cell of text that starts so is a formula to a spreadsheet."""

PLACEHOLDER = {"empty", "missing"}
BOLD = {"header", "stub"}
"""Kinds of cells of statsmodels' tables."""

WIDTH = 78
"""Notes are wrapped at this many characters in text."""


def one_line(name: Any) -> str:
    r"""A name on one line: what does not print (a line end, a terminal code) is written as ``\n``, ``\x1b``."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in str(name))


def latex_text(text: str) -> str:
    """Text in which no character has a meaning to LaTeX."""
    return text.translate(LATEX)


def csv_text(text: str) -> str:
    """Text that a spreadsheet does not evaluate: what looks like a formula and is no number starts with ``'``."""
    evaluated = text.lstrip().startswith(FORMULA_STARTS) and not NUMBER.fullmatch(text.strip())
    return f"'{text}" if evaluated else text


class SummaryTable(SimpleTable):
    """A table whose cells and title may hold any character."""

    def as_html(self, **fmt_dict: Any) -> str:
        """The table in HTML."""
        safe = copy.deepcopy(self)
        safe.title = safe.title and html.escape(safe.title, quote=False)
        for row in safe:
            for cell in row:
                if isinstance(cell.data, str):
                    cell.data = html.escape(cell.data, quote=False)
        return str(SimpleTable.as_html(safe, **fmt_dict))

    def as_csv(self, **_: Any) -> str:
        """The table as comma-separated values, quoted where needed, its title in the first line."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        if self.title:
            writer.writerow([csv_text(self.title)])
        for row, cells in zip(self, cell_texts(self), strict=True):
            writer.writerow([_csv_cell(cell.data, text) for cell, text in zip(row, cells, strict=True)])
        return out.getvalue().rstrip("\n")

    def as_latex_tabular(self, center: bool = True, **_: Any) -> str:
        """The table as a ``tabular`` with the rules of the package booktabs."""
        aligned = "".join("l" if cell.datatype == "stub" else "r" for cell in self[-1])
        lines = [rf"\begin{{tabular}}{{{aligned}}}", r"\toprule"]
        for row, cells in zip(self, cell_texts(self), strict=True):
            marked = [
                rf"\textbf{{{latex_text(text)}}}" if cell.datatype in BOLD and text else latex_text(text)
                for cell, text in zip(row, cells, strict=True)
            ]
            lines.append(" & ".join(marked) + r" \\")
            if row.datatype == "header":
                lines.append(r"\midrule")
        lines += [r"\bottomrule", r"\end{tabular}"]
        if self.title:
            lines.append(rf"%\caption{{{latex_text(self.title)}}}")
        return "\n".join([r"\begin{center}", *lines, r"\end{center}"] if center else lines)


def _csv_cell(data: Any, text: str) -> str:
    """Numbers without thousands separators, text that a spreadsheet does not evaluate."""
    return data.plain if isinstance(data, Number) else csv_text(text)


def cell_texts(table: SimpleTable) -> list[list[str]]:
    """The cells of a table as text."""
    return [["" if cell.datatype in PLACEHOLDER else str(cell.data).strip() for cell in row] for row in table]


class FormattedSummary(Summary):
    """A summary whose tables and notes may hold any character in every format."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: list[str] = []

    def add_extra_txt(self, etext: Sequence[str]) -> None:
        """Set the lines below the tables; text wraps them."""
        self._lines = [one_line(line) for line in etext]
        wrapped = [part for line in self._lines for part in textwrap.wrap(line, WIDTH, subsequent_indent="    ")]
        super().add_extra_txt(wrapped)

    def as_html(self) -> str:
        """Tables and notes in HTML."""
        safe = copy.copy(self)
        safe.extra_txt = html.escape("\n".join(self._lines), quote=False)
        return str(Summary.as_html(safe))

    def as_latex(self) -> str:
        """A ``tabular`` for each table, with the rules of the package booktabs, and the notes."""
        tables = "\n\n".join(table.as_latex_tabular() for table in self.tables)
        return tables + "\n\n" + " \\newline\n ".join(map(latex_text, self._lines))

    def as_csv(self) -> str:
        """Tables, and the notes with a line for each, as comma-separated values."""
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows([csv_text(line)] for line in self._lines)
        return "\n".join(table.as_csv() for table in self.tables) + "\n\n" + out.getvalue().rstrip("\n")
