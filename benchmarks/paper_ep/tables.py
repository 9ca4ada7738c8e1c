"""The two tables of Figure 1 of Hernández-Lobato and Hernández-Lobato (2011), our results, and further comparisons.

    python -m benchmarks.paper_ep.tables [--quick] [--sets 100] [--exact 10] [--out FOLDER]

d = 25, n = 10, inclusion probability 0.2, slab variance 1, sigma = 0.005, rows uniform on the unit sphere; 1000 test
rows; hyperparameters are the true ones. The paper's tau is our `damping`: the share of the new site in the next one.
The first `--exact` sets are compared with the sum over all 2^25 inclusion patterns (some 15 s each).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import common
from benchmarks.measures import mean_error, show
from benchmarks.paper_ep.experiment import DAMPINGS, METHODS, TOL, run_set

PACKAGES = ["pybayesridge", "numpy", "scipy", "numba"]
STORE = 10
"""Sets after which the page is written again."""
PAPER = {
    0.1: (6, "0.24 ± 0.09", "0.29 ± 0.09", "0.041 ± 0.007", "0.040 ± 0.009"),
    0.3: (10, "0.16 ± 0.04", "0.20 ± 0.05", "0.041 ± 0.009", "0.045 ± 0.012"),
    0.5: (13, "0.14 ± 0.03", "0.27 ± 0.05", "0.040 ± 0.010", "0.042 ± 0.012"),
    0.7: (14, "0.18 ± 0.05", "0.22 ± 0.06", "0.032 ± 0.007", "0.029 ± 0.008"),
    0.9: (17, "0.15 ± 0.04", "0.17 ± 0.05", "0.033 ± 0.007", "0.024 ± 0.008"),
}
"""For each damping: sets of 100 not converged; MSE of PC-EP and R-EP on these; the same on the others."""


def column(runs: list[dict[str, Any]], method: str, key: str) -> np.ndarray:
    """One number of one method on every set that has it."""
    return np.array([run[method][key] for run in runs if method in run and key in run[method]], dtype=float)


def figure(runs: list[dict[str, Any]], settled: bool) -> tuple[str, list[dict[str, Any]]]:
    """The tables of the sets on which R-EP converges, or does not: the paper's and ours."""
    rows, data = [], []
    for tau in DAMPINGS:
        mine = [run for run in runs if run[f"R-EP {tau}"]["converged"] == settled]
        mse = {name: column(mine, name, "mse") for name in ("PC-EP", f"R-EP {tau}", "ep")}
        pc, r, ours = mse.values()
        paper = PAPER[tau]
        theirs = (100 - paper[0], *paper[3:]) if settled else paper[:3]
        gaps = {"PC-EP less R-EP": pc - r, "ep less R-EP": ours - r}
        cells = [theirs[0], len(mine), theirs[1], show(pc), theirs[2], show(r), show(ours)]
        rows.append([tau, *cells, *(show(gap, sign=True) for gap in gaps.values())])
        entry = {"sets": len(mine), "paper": theirs, "PC-EP": mean_error(pc), "R-EP": mean_error(r)}
        entry |= {"ep": mean_error(ours)} | {name: mean_error(gap) for name, gap in gaps.items()}
        data.append(entry | {"damping": tau})
    head = ["tau", "sets, paper", "sets", "PC-EP, paper", "PC-EP", "R-EP, paper", "R-EP", "ep"]
    return common.table([*head, "PC-EP less R-EP", "ep less R-EP"], rows), data


def prices(runs: list[dict[str, Any]]) -> str:
    """Convergence and cost of each method over all sets."""
    unit = np.median(column(runs, "R-EP 0.5", "seconds"))
    rows = []
    for name in METHODS:
        seconds, fac = column(runs, name, "seconds"), column(runs, name, "n_fac")
        rows.append(
            [
                name,
                int(column(runs, name, "converged").sum()),
                int(column(runs, name, "constrained").sum()),
                f"{np.median(fac):g}",
                int(fac.max()),
                common.show_seconds(float(np.median(seconds))),
                common.show_seconds(float(seconds.max())),
                f"{np.median(seconds) / unit:.1f}",
                show(column(runs, name, "mse"), 4),
                int(column(runs, name, "rises").sum()),
            ]
        )
    head = ["method", "converged", "constraints active", "fac, median", "fac, largest", "time, median"]
    return common.table([*head, "largest", "of R-EP 0.5", "test MSE", "energy rises"], rows)


def stops(runs: list[dict[str, Any]]) -> str:
    """How many sets count as not converged, by the rule for stopping."""
    rules = list(runs[0]["stops"][str(DAMPINGS[0])])
    rows = [["the paper (its rule is not stated)", *(PAPER[tau][0] for tau in DAMPINGS)]]
    for rule in rules:
        counts = [sum(run["stops"][str(tau)][rule] > 1000 for run in runs) for tau in DAMPINGS]
        rows.append([rule, *counts])
    return common.table(["not converged after 1000 sweeps", *(f"tau = {tau}" for tau in DAMPINGS)], rows)


def accuracy(runs: list[dict[str, Any]]) -> str:
    """Distance from the exact posterior where it is known."""
    rows = [["exact", show(column(runs, "exact", "mse"), 4), *(["0"] * 5)]]
    rows[0].append(common.show_seconds(float(np.median(column(runs, "exact", "seconds")))))
    for name in METHODS:
        cells = [show(column(runs, name, key)) for key in ("pip_mean", "pip_max")]
        for key in ("pip_divergence", "marginal_divergence", "evidence"):
            found = column(runs, name, key)
            cells.append(f"{np.median(found):.3f} ({found.max():.3g})")
        seconds = common.show_seconds(float(np.median(column(runs, name, "seconds"))))
        rows.append([name, show(column(runs, name, "mse"), 4), *cells, seconds])
    head = ["method", "test MSE", "PIP error, mean", "PIP error, largest", "KL of inclusion", "KL of marginals"]
    return common.table([*head, "evidence error", "time, median"], rows)


def page(runs: list[dict[str, Any]]) -> tuple[str, dict[str, Any]]:
    """The whole page, and its numbers."""
    with_exact = [run for run in runs if "exact" in run]
    left, left_data = figure(runs, settled=False)
    right, right_data = figure(runs, settled=True)
    parts = [
        f"{len(runs)} sets (the paper: 100), 1000 test rows each. R-EP is damped EP under the paper's constraints "
        f"(floor 0.01 / slab variance), updated in parallel, at most 1000 sweeps; it counts as converged when the "
        f"scale-free residual is at most {TOL:g}. Mean squared errors are means ± standard errors over sets; "
        "differences are paired. The numbers of the paper are for its own 100 data sets and stopping rule.",
        "## Sets on which R-EP does not converge",
        left,
        "## Sets on which R-EP converges",
        right,
        "## Number of converged sets by stopping rule",
        '"scale-free": largest change that the next sweep would make, in posterior standard deviations for means, as '
        'a fraction for variances. "absolute": largest change of a mean or variance from one sweep to the next; a '
        "damping of 0.1 makes small steps and therefore meets this rule earlier.",
        stops(runs),
        "## Convergence and cost of all methods, all sets",
        '"fac" counts covariance evaluations. R-EP\'s converged sets include those with active constraints, where '
        'the fixed point is not one of EP; "ep" does not accept these. "energy rises": steps of PC-EP or of '
        'the descent of "ep" that increase the energy by more than rounding errors.',
        prices(runs),
        "## Comparison with the exact posterior",
        f"{len(with_exact)} sets compared with the sum over all 2^25 patterns. KL of inclusion: of the inclusion "
        "indicators, summed over columns (probabilities at least 1e-12 from 0 and 1). KL of marginals: of normals "
        "with the method's means and variances from normals with the exact ones, summed over columns. Both, and the "
        "error of the log evidence: median over sets (largest). KL of marginals is large if the "
        "variances of a method are much too small.",
        accuracy(with_exact) if with_exact else "Not run.",
    ]
    return "\n\n".join(parts), {"not converged": left_data, "converged": right_data, "sets": runs}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="15 sets, 1 of them enumerated")
    parser.add_argument("--sets", type=int)
    parser.add_argument("--exact", type=int, help="sets that are enumerated")
    parser.add_argument("--out", type=Path, help="folder for the page and the numbers")
    args = parser.parse_args()
    common.use_one_thread()
    n_sets = args.sets or (15 if args.quick else 100)
    n_exact = args.exact if args.exact is not None else (1 if args.quick else 10)
    env = common.environment(PACKAGES)
    folder = args.out or (common.QUICK_RESULTS if args.quick else common.RESULTS)
    runs: list[dict[str, Any]] = []
    # Those that are enumerated take longest and come last; what there is, is stored on the way.
    for seed in [*range(n_exact, n_sets), *range(min(n_exact, n_sets))]:
        runs.append({"seed": seed} | run_set(seed, seed < n_exact))
        print(f"set {len(runs)} of {n_sets}", file=sys.stderr, flush=True)
        if len(runs) % STORE == 0 or len(runs) == n_sets:
            text, data = page(runs)
            common.save("paper_ep", env, data, text, folder)


if __name__ == "__main__":
    main()
