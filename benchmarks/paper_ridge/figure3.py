"""The paper's Figure 3: R² of EM against that of leave-one-out over either grid, for the three orders."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from benchmarks.paper_ridge.paper import TABLE2
from benchmarks.paper_ridge.summary import BESIDE

TITLES = {1: "linear", 2: "second order", 3: "third order"}
GRIDS = {"fixed": "leave-one-out, fixed grid", "glmnet": "leave-one-out, glmnet's grid"}
EQUAL = 0.005
"""Means closer than that are equal in the paper's two digits."""


def points(summary: pd.DataFrame, order: int, method: str) -> pd.DataFrame:
    """EM's and the other's mean for each regression data set, negative ones at 0, and the paper's."""
    some = summary[(summary["order"] == order) & summary["data"].isin(list(TABLE2))]
    wide = some.set_index(["data", "method"])["mean"].unstack()  # noqa: PD010
    wide = wide[[TABLE2[name].q == 1 for name in wide.index]]
    paper = [TABLE2[name].orders[order].scores for name in wide.index]
    out = pd.DataFrame({"em": wide["em"], "other": wide[method]})
    out["paper_em"] = [s[0] for s in paper]
    out["paper_other"] = [s[BESIDE[method]] for s in paper]
    return out.clip(lower=0.0)


def draw(summary: pd.DataFrame, path: Path) -> None:
    """Write the figure.

    Raises
    ------
    ImportError
        Without matplotlib, an extra.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError("the figure needs matplotlib: pip install 'pybayesridge[plot]'") from None
    figure = Figure(figsize=(9.5, 6.4), layout="constrained")
    axes = figure.subplots(2, 3, sharex=True, sharey=True)
    for row, (method, label) in enumerate(GRIDS.items()):
        for column, (order, title) in enumerate(TITLES.items()):
            ax = axes[row][column]
            at = points(summary, order, method) if (summary["order"] == order).any() else None
            ax.plot([0, 1], [0, 1], color="0.7", linewidth=0.8, zorder=0)
            if at is not None:
                better = at["em"] >= at["other"] - EQUAL
                ax.scatter(
                    at["paper_em"], at["paper_other"], marker="x", s=22, linewidth=0.8, color="0.45", label="paper"
                )
                ax.scatter(at["em"][better], at["other"][better], s=24, color="tab:green", label="ours, EM as good")
                ax.scatter(at["em"][~better], at["other"][~better], s=24, color="tab:red", label="ours, EM worse")
            ax.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), aspect="equal")
            if row == 0:
                ax.set_title(title)
            else:
                ax.set_xlabel("R², EM")
            if column == 0:
                ax.set_ylabel(f"R², {label}")
    axes[0][0].legend(loc="upper left", fontsize=8, frameon=False)
    figure.savefig(path, dpi=120)
