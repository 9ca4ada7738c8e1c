"""Summaries as text, HTML, LaTeX and CSV: whatever the columns are called, a reader gets the names back."""

import csv
import io
import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pybayesridge import BayesRidge, SpikeSlab
from pybayesridge.text import column
from tests.effort import number
from tests.problems import regression

THREE_DIGITS = 5.01e-3
"""Half a unit in the third significant digit, and the rounding of the comparison."""

FORMATS = ("as_text", "as_html", "as_latex", "as_csv")

COMMANDS = {
    "textbackslash": "\\",
    "textasciicircum": "^",
    "textasciitilde": "~",
    "textless": "<",
    "textgreater": ">",
    "textbar": "|",
}
RULES = {"toprule", "midrule", "bottomrule", "begin", "end", "textbf", "newline"}


def latex_lines(text):
    """Read LaTeX: every row as its cells in plain text. Fails at anything that LaTeX would not set as it stands."""
    rows, cells, cell, depth, i = [], [], "", 0, 0
    while i < len(text):
        c = text[i]
        command = re.match(r"\\([a-zA-Z]+)(\{\})?", text[i:])
        if command:
            name = command[1]
            assert name in COMMANDS or name in RULES, command[0]
            assert (name in COMMANDS) == bool(command[2]), text[i : i + 40]
            cell += COMMANDS.get(name, "")
            i += len(command[0])
            if name in ("begin", "end"):
                argument = re.match(r"\{(center|tabular)\}(\{[lr]+\})?", text[i:])
                assert argument, text[i : i + 40]
                i += len(argument[0])
            continue
        if text.startswith("\\\\", i):
            assert re.match(r"\\\\\n(?! *[\[*])", text[i:]), text[i : i + 40]
            rows.append([*cells, cell.strip()])
            cells, cell, i = [], "", i + 2
            assert depth == 0
            continue
        if c == "\\":
            assert text[i + 1] in "{}_&%#$", text[i : i + 40]
            cell, i = cell + text[i + 1], i + 2
            continue
        assert c not in "^_~#$<>|", text[max(0, i - 40) : i + 40]
        if c == "%":
            i = text.index("\n", i)
            continue
        if c == "&":
            cells, cell = [*cells, cell.strip()], ""
        elif c in "{}":
            depth += 1 if c == "{" else -1
            assert depth >= 0
        else:
            cell += c
        i += 1
    assert depth == 0
    assert text.count(r"\begin{") == text.count(r"\end{")
    return rows


def test_the_reader_of_latex_refuses_what_latex_does():
    for bad in (r"a_b \\", r"{a \\", r"\foo{} \\", "a # b", r"a \\ [2] \\", r"\textless \\"):
        with pytest.raises((AssertionError, ValueError)):
            latex_lines(bad + "\n")
    assert latex_lines("a \\& b & \\textless{}c \\\\\n") == [["a & b", "<c"]]


class HtmlTables(HTMLParser):
    """The cells of every row, and the tags that are there."""

    def __init__(self, text):
        super().__init__()
        self.rows, self.tags, self.inside = [], set(), False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        if tag == "tr":
            self.rows.append([])
        self.inside = tag in ("td", "th")
        if self.inside:
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        self.inside = False

    def handle_data(self, data):
        if self.inside:
            self.rows[-1][-1] += data


FACTS = 4
"""Cells in a row of the facts: two labels and two values."""


def printed(name):
    """A name as a summary writes it: control characters as Python does."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name)


def made(family, names, response="y"):
    y, x = regression(30, len(names), noise=0.5)
    frame = pd.DataFrame(x, columns=names)
    y = pd.Series(y, name=response)
    if family is BayesRidge:
        return BayesRidge(y, frame).fit("exact")
    labels = [f"{names[0]}'s group", f"{names[0]}'s group", *names[2:]]
    return SpikeSlab(y, frame, group=labels, prior_inclusion=0.5, slab_var=1.0, noise_var=1.0).fit()


def check_every_format(res, names):
    summary = res.summary()
    shown = {printed(name).strip() for name in names}
    numbers = set(column(res.params))

    text = summary.as_text()
    assert all(printed(name) in text for name in names)

    rows = latex_lines(summary.as_latex())
    assert shown <= {row[0] for row in rows}
    assert {len(row) for row in rows} <= {3, 4, 5, 8}
    assert numbers <= {cell for row in rows for cell in row}

    page = HtmlTables(summary.as_html())
    assert shown <= {row[0].strip() for row in page.rows}
    assert page.tags <= {"table", "caption", "tr", "th", "td", "br"}
    assert numbers <= {cell for row in page.rows for cell in row}

    lines = list(csv.reader(io.StringIO(summary.as_csv())))
    assert shown <= {line[0].removeprefix("'") for line in lines if line} | shown & {
        line[0] for line in lines if line
    }
    assert {cell.plain for cell in numbers} <= {cell for line in lines for cell in line}
    for line in lines:
        for cell in line:
            assert not cell.lstrip().startswith(("=", "+", "-", "@")) or np.isfinite(float(cell)), cell
    for rows_ in (rows, [line for line in lines if len(line) > 1]):
        coefficients = [row for row in rows_ if row[0] in shown or row[0].removeprefix("'") in shown]
        # The facts above the coefficients may have the label of a column.
        assert len({len(row) for row in coefficients} - {FACTS}) <= 2


NAMES = st.lists(
    st.text(st.characters(codec="utf-8", exclude_characters="'"), min_size=1, max_size=12).filter(
        lambda name: name.strip() == name and printed(name).strip()
    ),
    min_size=3,
    max_size=3,
    unique=True,
)
SPECIAL = st.lists(
    st.text(r"\^~{}_&%#$<>|=+-@ab1[]*,;\"", min_size=1, max_size=8).filter(lambda name: name.strip() == name),
    min_size=3,
    max_size=3,
    unique=True,
)


@pytest.mark.parametrize("family", [BayesRidge, SpikeSlab])
@given(names=st.one_of(SPECIAL, NAMES))
@example(names=["0", "00", "Converged:"])
@settings(max_examples=number(25, 10), deadline=None)
def test_any_name_in_any_format(family, names):
    res = made(family, names, response=names[1])
    check_every_format(res, [f"{name}" for name in res.params.index])


@pytest.mark.parametrize("family", [BayesRidge, SpikeSlab])
@pytest.mark.parametrize("form", FORMATS)
def test_factors_and_terms_in_any_format(family, form):
    y, x = regression(60, 2, noise=0.5)
    data = pd.DataFrame({"y": y, "a_1": x[:, 0], "b": x[:, 1], "g": ["u", "<v>", "w & x"] * 20})
    res = family.from_formula("y ~ a_1 + bs(b, df=4) + C(g)", data).fit()
    assert "tabular" in res.summary()._repr_latex_()
    assert getattr(res.summary(), form)()
    check_every_format(res, list(res.params.index))


def test_several_targets_and_notes_in_any_format():
    y, x = regression(40, 3, noise=0.5)
    targets = pd.DataFrame({"t_1 & <b>": y, "=cmd|' /C calc'!A0": y + x[:, 0]})
    res = BayesRidge(targets, pd.DataFrame(x, columns=["a", "flat_&", "c"]).assign(**{"flat_&": 1.0})).fit("exact")
    summary = res.summary()
    rows = latex_lines(summary.as_latex())
    assert {"t_1 & <b>", "=cmd|' /C calc'!A0"} <= {cell for row in rows for cell in row}
    assert r"flat\_\&" in summary.as_latex().partition("Notes")[2]
    assert "&lt;b&gt;" in summary.as_html()
    lines = list(csv.reader(io.StringIO(summary.as_csv())))
    assert "'=cmd|' /C calc'!A0" in {cell for line in lines for cell in line}


def test_numbers_of_csv_are_numbers():
    y, x = regression(60, 4, noise=0.5)
    res = BayesRidge(y, -x).fit()
    lines = {line[0]: line[1:] for line in csv.reader(io.StringIO(res.summary().as_csv())) if len(line) == 5}
    for name in res.params.index:
        assert [float(cell) for cell in lines[name][:1]] == pytest.approx([res.params[name]], rel=1e-3)
    assert any(cell.startswith("-") for cells in lines.values() for cell in cells)


def test_thousands_are_separated_in_tables_and_not_in_csv():
    y, x = regression(1200, 2, noise=0.5)
    target = pd.Series(20000.0 * y + 5e5, name="1,234")
    res = BayesRidge(target, pd.DataFrame(x, columns=["5,678", "b"])).fit()
    summary = res.summary()
    for shown in (summary.as_text(), summary.as_html(), summary.as_latex()):
        assert all(cell in shown for cell in column(res.params))
        assert "1,200" in shown
    assert any("," in cell for cell in column(res.params))
    lines = list(csv.reader(io.StringIO(summary.as_csv())))
    assert ["Dep. Variable:", "1,234"] in [line[:2] for line in lines]
    assert ["No. Observations:", "1200"] in [line[:2] for line in lines]
    cells = {line[0]: line[1:] for line in lines if len(line) == 5}
    wanted = np.column_stack([res.params, res.bse, res.conf_int()])
    found = np.array([[float(cell) for cell in cells[name]] for name in ("const", "5,678", "b")])
    np.testing.assert_allclose(found, wanted, rtol=THREE_DIGITS)


def test_lines_added_by_hand():
    y, x = regression(30, 2)
    summary = BayesRidge(y, x).fit().summary()
    summary.add_extra_txt(["Written by hand: 5 % of <all>."])
    assert "5 % of <all>" in summary.as_text()
    assert r"5 \% of \textless{}all" in summary.as_latex()
    assert "&lt;all&gt;" in summary.as_html()
    assert "5 % of <all>" in summary.as_csv()
