"""How long the exact selection takes with many columns: where ``method="auto"`` changes to EP.

    python -m benchmarks.selection_border [--quick] [--out FOLDER] [--render] [--seconds 3600]

Simulated genotypes with eight true columns (``finemapping_data.simulated``), all hyperparameters learned, defaults
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks import common
from benchmarks.finemapping_data import simulated
from benchmarks.peers_run import OverBudgetError, budget
from pybayesridge import SpikeSlab
from pybayesridge.selection.methods import EXACT_UP_TO, exact_or_ep

NAME = "selection_border"
PACKAGES = ["pybayesridge", "numpy", "scipy"]
ACTIVE, SHARE = 8, 0.5
SIZES = ((200, 20_000), (1000, 20_000), (100, 100_000), (200, 100_000), (1000, 50_000), (4000, 20_000))
QUICK_SIZES = ((50, 600), (50, 3000))
LIMIT = 150.0
"""Seconds of processor time that a fit may take."""

MINUTE = 60.0


def measure(quick: bool, seconds: float = np.inf) -> Iterator[list[dict[str, Any]]]:
    """All sizes, one after the other."""
    start = time.process_time()
    out: list[dict[str, Any]] = []
    for n, d in QUICK_SIZES if quick else SIZES:
        data = simulated(n, d, ACTIVE, SHARE, 1)
        one: dict[str, Any] = {"n": n, "d": d}
        begin = time.process_time()
        try:
            with budget(LIMIT), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                res = SpikeSlab(data.y, data.x).fit("exact")
        except OverBudgetError:
            one["given_up"] = LIMIT
        else:
            one |= {
                "seconds": time.process_time() - begin,
                "max_se": float(np.nanmax(res.inclusion_se)),
                "converged": bool(res.converged),
            }
        out.append(one)
        yield out
        if time.process_time() - start > seconds:
            break


def page(found: list[dict[str, Any]]) -> str:
    """The whole page."""
    rows = []
    for one in found:
        rest = (
            [f"given up after {one['given_up']:g} s", "-", "-"]
            if "given_up" in one
            else [
                common.show_seconds(one["seconds"]),
                f"{one['max_se']:.3f}",
                "yes" if one["converged"] else "no",
            ]
        )
        n, d = one["n"], one["d"]
        rows.append([f"{n:,} × {d:,}", f"{min(n, d) * d:.2g}", *rest, exact_or_ep(n, d)])
    late = [min(one["n"], one["d"]) * one["d"] for one in found if one.get("seconds", np.inf) > MINUTE]
    early = [min(one["n"], one["d"]) * one["d"] for one in found if one.get("seconds", np.inf) <= MINUTE]
    said = f"The largest min(n, p) p done within a minute: {max(early):.2g}." if early else "None within a minute."
    if late:
        said += f" The smallest that took longer: {min(late):.2g}."
    return "\n\n".join(
        [
            f"Exact selection of simulated genotypes, {ACTIVE} true columns that explain {SHARE:g} of the variance, "
            f'everything learned. `method="auto"` is exact up to min(n, p) p = {EXACT_UP_TO:.0e}.',
            common.table(["rows × columns", "min(n, p) p", "time", "largest s.e.", "converged", '"auto"'], rows),
            said,
        ]
    )


def main() -> None:
    common.run_in_steps(NAME, __doc__, PACKAGES, measure, page)


if __name__ == "__main__":
    main()
