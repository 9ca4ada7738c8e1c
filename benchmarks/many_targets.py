"""Many responses at once: BayesRidge compared with RidgeCV of scikit-learn and of himalaya, and fastridge.

    python benchmarks/many_targets.py [--quick] [--one-thread] [--repetitions 5]

Every row runs in a process of its own, so that no two BLAS libraries compete.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import warnings

import numpy as np
from common import clock, environment, save, show_seconds, table, use_one_thread

TASKS = ["em", "exact", "gcv", "loocv", "RidgeCV", "himalaya", "RidgeEM", "RidgeLOOCV"]
ALPHAS = np.logspace(-10, 10, 100)
FOLDS = 5
"""Of the cross-validation by himalaya, which has no leave-one-out in closed form."""


def data(n: int, p: int, q: int) -> tuple[np.ndarray, np.ndarray]:
    """Targets from no signal to much."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, p))
    signal = x @ rng.standard_normal((p, q)) / np.sqrt(p)
    return signal * np.geomspace(0.1, 10, q) + rng.standard_normal((n, q)), x


def run(task: str, y: np.ndarray, x: np.ndarray) -> None:
    if task == "RidgeCV":
        from sklearn.linear_model import RidgeCV

        RidgeCV(alphas=ALPHAS, alpha_per_target=True).fit(x, y)
    elif task == "himalaya":
        from himalaya.ridge import RidgeCV

        RidgeCV(alphas=ALPHAS, fit_intercept=True, cv=FOLDS).fit(x, y)
    elif task in ("RidgeEM", "RidgeLOOCV"):
        import fastridge

        model = fastridge.RidgeEM() if task == "RidgeEM" else fastridge.RidgeLOOCV(alphas=ALPHAS)
        model.fit(x, y)
    else:
        from pybayesridge import BayesRidge

        BayesRidge(y, x, prior="half-cauchy").fit(task)


def child(task: str, n: int, p: int, q: int, repetitions: int) -> None:
    warnings.simplefilter("ignore")
    run(task, *data(60, 5, 2))
    y, x = data(n, p, q)
    seconds = []
    for _ in range(repetitions):
        start = clock()
        run(task, y, x)
        seconds.append(clock() - start)
    print(json.dumps({"median": statistics.median(seconds), "least": min(seconds), "repetitions": repetitions}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a smaller problem")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--one-thread", action="store_true", help="one thread and processor time, on a busy machine")
    parser.add_argument("--child", nargs=5, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child(args.child[0], *map(int, args.child[1:]))
        return
    if args.one_thread:
        use_one_thread()
    env = environment(["pybayesridge", "numpy", "scipy", "scikit-learn", "himalaya", "fastridge"])
    n, p, q = (500, 60, 40) if args.quick else (2000, 300, 200)
    found: dict[str, dict] = {}
    rounds: dict[str, list[dict]] = {task: [] for task in TASKS}
    for _ in range(2):
        for task in TASKS:
            command = [sys.executable, __file__, "--child", task, *map(str, (n, p, q, args.repetitions))]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                print(task, "failed:", done.stderr.strip().splitlines()[-1], file=sys.stderr)
                continue
            rounds[task].append(json.loads(done.stdout))
    for task, results in rounds.items():
        if results:
            found[task] = {
                "median": statistics.median(r["median"] for r in results),
                "least": min(r["least"] for r in results),
            }
    rows = []
    for task in TASKS:
        if task not in found:
            rows.append([task, "failed", "", "", ""])
            continue
        ratio = [f"{found[task][k] / found['em'][k]:.2f}" for k in ("median", "least")]
        rows.append([task, show_seconds(found[task]["median"]), show_seconds(found[task]["least"]), *ratio])
    text = "\n\n".join(
        [
            f"{n} rows, {p} columns, {q} targets; 100 penalties for each cross-validation, one penalty for each "
            f"target. Two rounds of {args.repetitions} repetitions, each method in a separate process. "
            f'The prior is half-Cauchy. "himalaya" is its RidgeCV by NumPy with {FOLDS} folds.',
            table(["method", "median", "least", "median / em", "least / em"], rows),
        ]
    )
    save("many_targets_quick" if args.quick else "many_targets", env, found, text)


if __name__ == "__main__":
    main()
