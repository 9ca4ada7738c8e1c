"""R-EP as the paper runs it, one site after the other, to see whether parallel updates explain what differs.

    python benchmarks/paper_ep/sequential.py [--quick] [--sets 100] [--out FOLDER]

The package updates all sites at once. Here each site sees those before it, by a rank-one change of the covariance.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import common
import numpy as np
from measures import show
from numba import njit
from paper_ep.experiment import ABSOLUTE, DAMPINGS, MAXITER, SIGMA, SLAB, TOL, D, P, paper_set
from paper_ep.tables import PAPER

from pybayesridge.ep import Data, Gaussian, Prior
from pybayesridge.ep.damped import FLOOR
from pybayesridge.ep.state import Model


@njit(cache=True)
def sweep(t1, t2, cov, mean, damping, prior, slab, floor):
    """Update every site in turn, in place; sites and cavities keep a precision of at least `floor`."""
    d = t1.size
    odds = math.log(prior) - math.log1p(-prior)
    for i in range(d):
        z = cov[i, i]
        h2 = max(1.0 / z - t2[i], floor)
        h1 = mean[i] / z - t1[i]
        spread = slab / (1.0 + h2 * slab)
        centre = h1 * spread
        inside = 1.0 / (1.0 + math.exp(-(odds - 0.5 * math.log1p(h2 * slab) + 0.5 * h1 * centre)))
        tilted_mean = inside * centre
        tilted_var = inside * spread + inside * (1.0 - inside) * centre * centre
        new2 = max(1.0 / tilted_var - h2, floor)
        new1 = tilted_mean * (new2 + h2) - h1
        change2, change1 = damping * (new2 - t2[i]), damping * (new1 - t1[i])
        t2[i] += change2
        t1[i] += change1
        share = 1.0 / (1.0 + change2 * z)
        shift = share * (change1 - change2 * mean[i])
        for k in range(d):
            mean[k] += shift * cov[k, i]
        row = cov[i].copy()
        for k in range(d):
            for l in range(d):
                cov[k, l] -= change2 * share * row[k] * row[l]


def run(X: np.ndarray, y: np.ndarray, damping: float) -> tuple[np.ndarray, dict[str, int]]:
    """Posterior means where R-EP stops by the scale-free rule, and the sweeps until each rule is met."""
    model = Model.build(Gaussian.build(Data.from_rows(X, y), SIGMA**2), Prior.from_probability(np.full(D, P), SLAB))
    t1, t2 = (site.copy() for site in model.start())
    gram, cross = X.T @ X / SIGMA**2, X.T @ y / SIGMA**2
    rules = {f"absolute {limit:g}": limit for limit in ABSOLUTE}
    scale_free = f"scale-free {TOL:g}"
    found: dict[str, int] = {}
    stopped, before = None, None
    for count in range(1, MAXITER + 1):
        cov = np.linalg.inv(gram + np.diag(t2))
        mean = cov @ (cross + t1)
        state = model.state(t1, t2, cavity_floor=FLOOR)
        moments = np.concatenate([mean, np.diag(cov)])
        if before is not None:
            change = np.max(np.abs(moments - before))
            for rule, limit in rules.items():
                if change <= limit:
                    found.setdefault(rule, count)
        if stopped is None and state is not None and model.residual(state, FLOOR) <= TOL:
            found[scale_free], stopped = count, mean.copy()
        if len(found) == len(rules) + 1:
            break
        before = moments
        sweep(t1, t2, cov, mean, damping, P, SLAB, FLOOR / SLAB)
    sweeps = {rule: found.get(rule, MAXITER + 1) for rule in (scale_free, *rules)}
    return mean if stopped is None else stopped, sweeps


def page(runs: dict[float, list[dict[str, Any]]], n_sets: int) -> str:
    """Counts by rule, and errors by convergence, beside the paper's."""
    rules = [f"scale-free {TOL:g}", *(f"absolute {limit:g}" for limit in ABSOLUTE)]
    counts = [["the paper (its rule is not stated)", *(PAPER[tau][0] for tau in DAMPINGS)]]
    counts += [[rule, *(sum(r["sweeps"][rule] > MAXITER for r in runs[tau]) for tau in DAMPINGS)] for rule in rules]
    rows = []
    for tau in DAMPINGS:
        settled = np.array([r["sweeps"][rules[0]] <= MAXITER for r in runs[tau]])
        mse = np.array([r["mse"] for r in runs[tau]])
        rows.append([tau, PAPER[tau][2], show(mse[~settled]), PAPER[tau][4], show(mse[settled])])
    head = ["tau", "not converged: paper", "ours", "converged: paper", "ours"]
    return "\n\n".join(
        [
            f"{n_sets} sets, those of paper_ep; sites updated one after the other, at most {MAXITER} sweeps.",
            "Sets not converged, by the rule for stopping:",
            common.table(["rule", *(f"tau = {tau}" for tau in DAMPINGS)], counts),
            f"Test MSE of R-EP, mean ± standard error over sets, converged meaning a scale-free residual of {TOL:g}:",
            common.table(head, rows),
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="10 sets")
    parser.add_argument("--sets", type=int)
    parser.add_argument("--out", type=Path, help="folder for the page and the numbers")
    args = parser.parse_args()
    common.use_one_thread()
    n_sets = args.sets or (10 if args.quick else 100)
    env = common.environment(["pybayesridge", "numpy", "scipy", "numba"])
    runs: dict[float, list[dict[str, Any]]] = {tau: [] for tau in DAMPINGS}
    for seed in range(n_sets):
        X, y, X_test, y_test = paper_set(seed)
        for tau in DAMPINGS:
            mean, sweeps = run(X, y, tau)
            runs[tau].append({"sweeps": sweeps, "mse": float(np.mean((X_test @ mean - y_test) ** 2))})
        print(f"set {seed + 1} of {n_sets}", file=sys.stderr, flush=True)
    folder = args.out or (common.QUICK_RESULTS if args.quick else common.RESULTS)
    common.save("paper_ep_sequential", env, runs, page(runs, n_sets), folder)


if __name__ == "__main__":
    main()
