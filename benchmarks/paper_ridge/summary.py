"""From the lines of all splits to one number for each data set, order and method, with that of the paper."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.paper_ridge.datasets import VARIANTS
from benchmarks.paper_ridge.methods import METHODS
from benchmarks.paper_ridge.paper import TABLE2
from benchmarks.paper_ridge.splits import REFERENCE, path_of

ORDERS = (1, 2, 3)
PAPER_SPLITS = 100
ROUNDING = 0.005
"""The paper prints two digits."""

NOISE = 3.0
"""Standard errors of the difference of two means beyond which it is no noise of the splits."""

BESIDE = {"em": 0, "fixed": 1, "glmnet": 2}
"""Our methods, and their places among the paper's scores."""


def lines(directory: Path, name: str, order: int) -> pd.DataFrame | None:
    """The finished splits of a data set and order."""
    path = path_of(directory, name, order)
    if not path.is_file():
        return None
    text = path.read_text(encoding="utf-8")
    whole = text[: text.rfind("\n") + 1]
    if whole.count("\n") < 2:
        return None
    return pd.read_csv(io.StringIO(whole), dtype={"commit": str}).drop_duplicates("split")


def summarize(directory: Path) -> pd.DataFrame:
    """Mean, standard deviation and median of the score over splits, and other numbers, for each method.

    One row for each data set, order and method, in the paper's order, variants last; `penalty` is the median over
    splits, `seconds` that over the splits that were timed, `commits` are those of the lines.
    """
    rows = []
    for name in (*TABLE2, *VARIANTS):
        for order in ORDERS:
            table = lines(directory, name, order)
            if table is None:
                continue
            for method in (*METHODS, *REFERENCE):
                score = table[f"{method}.score"].dropna()
                if score.empty:
                    continue
                rows.append(
                    {
                        "data": name,
                        "order": order,
                        "method": method,
                        "n": int(table["n"].iloc[0]),
                        "p": table["p"].mean(),
                        "splits": score.size,
                        "mean": score.mean(),
                        "sd": score.std(ddof=1) if score.size > 1 else np.nan,
                        "median": score.median(),
                        "penalty": table[f"{method}.penalty"].median(),
                        "seconds": table[f"{method}.seconds"].median(),
                        "timed": int(table[f"{method}.seconds"].count()),
                        "commits": " ".join(table["commit"].dropna().unique()),
                    }
                )
    return pd.DataFrame(rows)


def with_earlier(summary: pd.DataFrame, stored: Path) -> pd.DataFrame:
    """The summary, in which a data set and order is that of an earlier page where that one had more splits.

    `earlier` says which are.
    """
    summary = summary.assign(earlier=False)
    if not stored.is_file():
        return summary
    known = pd.read_csv(stored, dtype={"commits": str}).assign(earlier=True)
    known["commits"] = known["commits"].fillna("") if "commits" in known else ""
    both = pd.concat([summary, known], ignore_index=True)
    most = both.groupby(["data", "order", "earlier"])["splits"].max().unstack(fill_value=0)  # noqa: PD010
    more = most.get(True, 0) > most.get(False, 0)
    kept = both[both["earlier"].eq([more[pair] for pair in zip(both["data"], both["order"], strict=True)])]
    place = {name: i for i, name in enumerate((*TABLE2, *VARIANTS))}
    return kept.sort_values(["data", "order"], key=lambda c: c.map(place) if c.name == "data" else c, kind="stable")


def number(value: float) -> str:
    """Two digits, or powers of ten for what is far from 1."""
    if np.isnan(value):
        return "-"
    if abs(value) >= 99.5:
        mantissa, exponent = f"{value:.0e}".split("e")
        return f"{mantissa}e{int(exponent)}"
    return f"{value:.1f}" if abs(value) >= 9.95 else f"{value:.2f}".replace("-0.00", "0.00")


def row_of(summary: pd.DataFrame, name: str, order: int, method: str) -> pd.Series | None:
    """A row of the summary."""
    rows = summary[(summary["data"] == name) & (summary["order"] == order) & (summary["method"] == method)]
    return None if rows.empty else rows.iloc[0]


def value_of(summary: pd.DataFrame, name: str, order: int, method: str, what: str = "mean") -> float:
    """A number of the summary, or NaN."""
    row = row_of(summary, name, order, method)
    return float("nan") if row is None else float(row[what])


def ratio(summary: pd.DataFrame, name: str, order: int, method: str, base: str = "em") -> float:
    """Seconds of a method over those of another, of the same splits; NaN where not timed."""
    seconds = summary.set_index(["data", "order", "method"])["seconds"]
    try:
        return float(seconds[name, order, method] / seconds[name, order, base])
    except KeyError:
        return float("nan")


def allowance(paper: float, sd: float, splits: float) -> float:
    """How far a mean over splits may be from the paper's: its rounding and the noise of both."""
    spread = 0.0 if np.isnan(sd) else sd
    rounding = ROUNDING if abs(paper) < 100 else 0.5 * 10 ** np.floor(np.log10(abs(paper)))
    return float(rounding + NOISE * spread * np.sqrt(1 / splits + 1 / PAPER_SPLITS))


@dataclass(frozen=True, slots=True)
class Difference:
    """A mean that differs from the paper's by more than the splits explain."""

    name: str
    order: int
    method: str
    ours: float
    paper: float
    allowed: float


def differences(summary: pd.DataFrame) -> list[Difference]:
    """Where our mean is further from the paper's than rounding and three standard errors of both.

    The paper's standard deviation is not printed; ours stands for it, with its 100 splits.
    """
    out = []
    beside = summary["method"].isin(list(BESIDE)) & summary["data"].isin(list(TABLE2))
    for row in summary[beside].itertuples():
        paper = TABLE2[row.data].orders[row.order].scores[BESIDE[row.method]]
        allowed = allowance(paper, row.sd, row.splits)
        if abs(row.mean - paper) > allowed:
            out.append(Difference(row.data, row.order, row.method, row.mean, paper, allowed))
    return out
