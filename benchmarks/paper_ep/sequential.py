"""R-EP as the paper runs it, one site after the other, to see whether parallel updates explain what differs.

    python -m benchmarks.paper_ep.sequential [--quick] [--sets 100] [--out FOLDER]

The package updates all sites at once. Here each site sees those before it, by a rank-one change of the covariance.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit

from benchmarks import common
from benchmarks.measures import show
from benchmarks.paper_ep.experiment import ABSOLUTE, DAMPINGS, MAXITER, METHODS, SIGMA, SLAB, TOL, D, P, paper_set
from benchmarks.paper_ep.tables import PAPER
from pybayesridge.ep import Data, GaussianSide, Prior, fit_sites
from pybayesridge.ep.algorithms.damped import FLOOR
from pybayesridge.ep.algorithms.state import EPModel
from pybayesridge.ep.model.likelihood import GaussianLikelihood

RULES: dict[str, float | None] = {f"scale-free {TOL:g}": None} | {f"absolute {limit:g}": limit for limit in ABSOLUTE}
"""Rules for stopping: the limit of the absolute change of a moment, or None for the scale-free residual."""
NEAREST = "absolute 0.0003"


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


def run(X: np.ndarray, y: np.ndarray, damping: float) -> dict[str, tuple[int, np.ndarray]]:
    """By each rule for stopping: sweeps until it is met (MAXITER + 1: never) and the posterior means there."""
    model = EPModel.build(
        GaussianSide.build(GaussianLikelihood(Data.from_rows(X, y), SIGMA**2)),
        Prior.from_probability(np.full(D, P), SLAB),
    )
    t1, t2 = (site.copy() for site in model.start())
    gram, cross = X.T @ X / SIGMA**2, X.T @ y / SIGMA**2
    found: dict[str, tuple[int, np.ndarray]] = {}
    mean, before = np.zeros(D), np.full(2 * D, np.inf)
    for count in range(1, MAXITER + 1):
        cov = np.linalg.inv(gram + np.diag(t2))
        mean = cov @ (cross + t1)
        moments = np.concatenate([mean, np.diag(cov)])
        change, before = np.max(np.abs(moments - before)), moments
        for rule, limit in RULES.items():
            if rule not in found and (change if limit else residual(model, t1, t2)) <= (limit or TOL):
                found[rule] = (count, mean.copy())
        if len(found) == len(RULES):
            break
        sweep(t1, t2, cov, mean, damping, P, SLAB, FLOOR / SLAB)
    return {rule: found.get(rule, (MAXITER + 1, mean)) for rule in RULES}


def residual(model: EPModel, t1: np.ndarray, t2: np.ndarray) -> float:
    """Scale-free residual of these sites."""
    state = model.state(t1.copy(), t2.copy(), cavity_floor=FLOOR)
    return np.inf if state is None else model.residual(state, FLOOR)


def figure(sets: list[dict[str, Any]], rule: str, settled: bool) -> str:
    """The paper's table of the sets on which R-EP converges, or does not, by one rule."""
    rows = []
    for tau in DAMPINGS:
        mine = [one for one in sets if (one["R-EP"][tau][rule]["sweeps"] <= MAXITER) == settled]
        r = np.array([one["R-EP"][tau][rule]["mse"] for one in mine])
        pc, ours = (np.array([one[name] for one in mine]) for name in ("PC-EP", "ep"))
        paper = PAPER[tau]
        theirs = (100 - paper[0], *paper[3:]) if settled else paper[:3]
        cells = [theirs[0], len(mine), theirs[1], show(pc), theirs[2], show(r), show(ours)]
        rows.append([tau, *cells, show(pc - r, sign=True), show(ours - r, sign=True)])
    head = ["tau", "sets, paper", "sets", "PC-EP, paper", "PC-EP", "R-EP, paper", "R-EP", "ep"]
    return common.table([*head, "PC-EP less R-EP", "ep less R-EP"], rows)


def page(sets: list[dict[str, Any]]) -> str:
    """Counts by rule and errors by convergence, with those of the paper."""
    counts = [["the paper (its rule is not stated)", *(PAPER[tau][0] for tau in DAMPINGS)]]
    for rule in RULES:
        never = [sum(one["R-EP"][tau][rule]["sweeps"] > MAXITER for one in sets) for tau in DAMPINGS]
        counts.append([rule, *never])
    return "\n\n".join(
        [
            f"{len(sets)} sets, those of paper_ep; the sites of R-EP are updated sequentially, {MAXITER} sweeps at "
            f'most. PC-EP and "ep" as in paper_ep (scale-free residual of {TOL:g}). Mean squared errors on 1000 '
            "test rows are means ± standard errors over sets; differences are paired.",
            "## Sets not converged, by stopping rule",
            '"absolute": largest change of a mean or variance from one sweep to the next.',
            common.table(["rule", *(f"tau = {tau}" for tau in DAMPINGS)], counts),
            f"## The tables of the paper under the rule with the most similar counts ({NEAREST})",
            "Sets on which R-EP does not converge:",
            figure(sets, NEAREST, settled=False),
            "Sets on which it does:",
            figure(sets, NEAREST, settled=True),
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
    sets = []
    for seed in range(n_sets):
        X, y, X_test, y_test = paper_set(seed)
        data, p = Data.from_rows(X, y), np.full(D, P)

        def mse(mean: np.ndarray, rows: np.ndarray = X_test, target: np.ndarray = y_test) -> float:
            return float(np.mean((rows @ mean - target) ** 2))

        found: dict[str, Any] = {
            tau: {rule: {"sweeps": n, "mse": mse(mean)} for rule, (n, mean) in run(X, y, tau).items()}
            for tau in DAMPINGS
        }
        others = {
            name: fit_sites(GaussianLikelihood(data, SIGMA**2), p, SLAB, tol=TOL, **METHODS[name])
            for name in ("PC-EP", "ep")
        }
        sets.append({"R-EP": found} | {name: mse(result.mean) for name, result in others.items()})
        print(f"set {seed + 1} of {n_sets}", file=sys.stderr, flush=True)
    folder = args.out or (common.QUICK_RESULTS if args.quick else common.RESULTS)
    common.save("paper_ep_sequential", env, sets, page(sets), folder)


if __name__ == "__main__":
    main()
