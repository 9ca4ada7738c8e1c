"""The page of Table 2: our values and the paper's, the differences and their reasons, and Figure 3."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.common import describe, environment, table
from benchmarks.paper_ridge.datasets import LOADERS
from benchmarks.paper_ridge.figure3 import draw
from benchmarks.paper_ridge.methods import PAPERS
from benchmarks.paper_ridge.paper import METHODS as PAPER_METHODS
from benchmarks.paper_ridge.paper import TABLE2
from benchmarks.paper_ridge.reasons import SCORES, TIMES, collapses, reason
from benchmarks.paper_ridge.summary import (
    BESIDE,
    Difference,
    differences,
    number,
    ratio,
    row_of,
    summarize,
    value_of,
    with_earlier,
)

PACKAGES = ["pybayesridge", "numpy", "scipy", "pandas", "fastridge"]
ORDERS = {1: "Linear", 2: "Second order", 3: "Third order"}
NOTES = "notes.json"
OTHERS = {"equation_11": "eq. 11", "em_tau2": "EM τ²", "exact": "exact", "default": "default"}
"""Methods without a number in the paper, and their columns."""

INTRODUCTION = """\
Tew, Boley & Schmidt (2023), Table 2: mean R² (accuracy in the last rows) on the test rows of random 70/30 splits.
In each cell **ours ± standard deviation over splits**, then the value of the paper in brackets. If there are too
many products, one random selection is used for all splits, as in the paper. The prior is that of the paper,
`"half-cauchy"`.

* **EM**: `fit("em", parameterization="tau")`, the fixed point of the EM algorithm in the authors' code. *EM pub.*
  uses the stopping rule of the paper. *eq. 11* is the paper's own equation (11), `fit("em", dof="paper")`.
* **Fix**, **GLM**: leave-one-out over the fixed grid and over glmnet's. *Fix pub.*, *GLM pub.*: as in the authors'
  code, with a score that omits the leverage of the intercept, and the grid of glmnet without the factor n.
* **EM τ²**: `fit("em")`, the mode as a density in (τ², σ²). **exact**: the penalty integrated out.
* **default**: `BayesRidge(y, X).fit()`, the same under the package's own prior, `"r2"` (not run with several targets,
  nor in splits marked `*`).
* **T**: time of leave-one-out over time of EM, both from the arrays to the result: with the fixed grid / glmnet's
  grid / the authors' package fastridge on the same rows (fixed grid), then the paper's. One thread; medians over the
  first splits (as many as `timed` in table2.csv; fastridge: one).

Splits marked `*` are those of an earlier page, which had more of them than were made since; `commits` in table2.csv
says of which commits, where they are known. The line above is of when the page was made; other work may have run
beside the splits.

Rows marked "no data" are data sets that were not available; `table2_stand_ins.md` has T for simulated data of the
same shapes.

`†` marks a mean that differs from that of the paper by more than rounding and three standard errors of both; see
below.
"""


def times(value: float) -> str:
    """A ratio of times, two digits."""
    return "-" if np.isnan(value) else f"{value:.2g}"


def cell(summary: pd.DataFrame, name: str, order: int, method: str, marked: bool) -> str:
    """Ours ± its standard deviation over splits, and the paper's."""
    row = row_of(summary, name, order, method)
    paper = TABLE2[name].orders[order].scores[BESIDE[method]]
    if row is None:
        return f"- ({number(paper)})"
    spread = "" if np.isnan(row["sd"]) else f" ± {number(row['sd'])}"
    return f"**{number(row['mean'])}**{spread} ({number(paper)}){'†' if marked else ''}"


def order_table(summary: pd.DataFrame, order: int, marked: set[tuple[str, int, str]]) -> str:
    """One of the three parts of Table 2."""
    head = ["data", "n", "p*", "splits", "T fix / glm / fastridge (paper)", "EM", "EM pub.", "Fix", "Fix pub."]
    head += ["GLM", "GLM pub.", *OTHERS.values()]
    rows = []
    for name, published in TABLE2.items():
        if order not in published.orders:
            continue
        paper = published.orders[order]
        title = published.title + (f" ({published.q})" if published.q > 1 else "")
        first = row_of(summary, name, order, "em")
        if first is None:
            count = [f"({published.n})", f"({paper.p})", "no data" if name not in LOADERS else "not run"]
            marks = [f"- ({number(v)})" for v in paper.scores]
            rows.append(
                [
                    title,
                    *count,
                    f"({times(paper.ratio)})",
                    marks[0],
                    "-",
                    marks[1],
                    "-",
                    marks[2],
                    "-",
                    *["-"] * len(OTHERS),
                ]
            )
            continue
        ratios = [ratio(summary, name, order, m) for m in ("fixed", "glmnet")]
        ratios.append(ratio(summary, name, order, "fastridge_fixed", "fastridge_em"))
        cells = {m: cell(summary, name, order, m, (name, order, m) in marked) for m in BESIDE}
        other = {m: number(value_of(summary, name, order, m)) for m in (*PAPERS, *OTHERS)}
        rows.append(
            [
                title,
                f"{first['n']} ({published.n})" if first["n"] != published.n else first["n"],
                f"{first['p']:.0f} ({paper.p})" if round(first["p"]) != paper.p else paper.p,
                f"{first['splits']}{'*' if first['earlier'] else ''}",
                f"{' / '.join(times(r) for r in ratios)} ({times(paper.ratio)})",
                *(text for m in BESIDE for text in (cells[m], other[f"{m}_published"])),
                *(other[m] for m in OTHERS),
            ]
        )
    return table(head, rows)


def explanation(summary: pd.DataFrame, difference: Difference) -> str:
    """The difference, the related measurements, and the reason."""
    d = difference
    label = PAPER_METHODS[BESIDE[d.method]]
    measured = [f"as published {number(value_of(summary, d.name, d.order, f'{d.method}_published'))}"]
    row = row_of(summary, d.name, d.order, d.method)
    if row is not None:
        measured.append(f"median over splits {number(row['median'])}")
    title = f"{TABLE2[d.name].title}, {ORDERS[d.order].lower()}, {label}"
    why = reason(summary, d)
    return f"* {title}: {number(d.ours)}, paper {number(d.paper)} ({', '.join(measured)}). {why}"


def collapsed(summary: pd.DataFrame) -> str:
    """Collapses of the published score, which are the score's fault where the leverage mends them."""
    head = [
        "data",
        "order",
        "paper",
        "published score",
        "with the leverage",
        "penalty, published",
        "with it",
    ]
    rows = collapses(summary)
    text = (
        "Mean R² over the same splits and the same grid; the two scores differ only in the intercept's leverage, 1/n "
        "for every row. Median penalties."
    )
    return text + "\n\n" + table(head, rows) if rows else "None here."


def notes_text(notes: dict[str, list[str]]) -> str:
    """The loaders' notes on the data."""
    lines = [f"* {TABLE2[name].title}: {'; '.join(notes[name])}." for name in TABLE2 if notes.get(name)]
    return "\n".join(lines) or "None."


def keep_notes(directory: Path, notes: dict[str, list[str]]) -> None:
    """Store the loaders' notes with the lines, so that a page can be made without the data."""
    path = directory / NOTES
    known = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    directory.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(known | notes, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def render(summary: pd.DataFrame, notes: dict[str, list[str]]) -> str:
    """The page in Markdown."""
    found = differences(summary)
    marked = {(d.name, d.order, d.method) for d in found}
    cells = int((summary["method"].isin(list(BESIDE)) & summary["data"].isin(list(TABLE2))).sum())
    parts = ["# table2", describe(environment(PACKAGES)), INTRODUCTION]
    for order, title in ORDERS.items():
        parts += [f"## {title}", order_table(summary, order, marked)]
    parts += ["![Figure 3](table2.png)"]
    parts += [
        f"## Where the means differ\n\n{cells - len(found)} of {cells} means agree with the paper's.\n\n{SCORES}"
    ]
    parts.append("\n".join(explanation(summary, d) for d in found) or "Nowhere.")
    parts += ["## Where leave-one-out over the fixed grid collapses", collapsed(summary)]
    parts += ["## Times", TIMES, "## What the loaders say", notes_text(notes)]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def write_page(lines: Path, results: Path) -> str:
    """Write ``table2.md``, ``table2.csv`` and ``table2.png``.

    Raises
    ------
    FileNotFoundError
        If no split is finished.
    """
    summary = summarize(lines)
    if summary.empty:
        raise FileNotFoundError(f"no finished split in {lines}")
    summary = with_earlier(summary, results / "table2.csv")
    path = lines / NOTES
    notes = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    results.mkdir(parents=True, exist_ok=True)
    page = render(summary, notes)
    (results / "table2.md").write_text(page, encoding="utf-8")
    summary.drop(columns="earlier").to_csv(results / "table2.csv", index=False, float_format="%.6g")
    draw(summary, results / "table2.png")
    return page
