"""Many responses at once: BayesRidge compared with RidgeCV of scikit-learn and of himalaya, and fastridge.

    python benchmarks/many_targets.py [--quick] [--one-thread] [--repetitions 5] [--limit 600]

Every row runs in a process of its own, so that no two BLAS libraries compete. Thousands of responses are fitted once,
for time and peak memory; what takes longer than `--limit` seconds is given up.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import warnings

import numpy as np
from common import clock, environment, resident, save, show_seconds, table, use_one_thread

TASKS = ["em", "exact", "gcv", "loocv", "RidgeCV", "himalaya", "RidgeEM", "RidgeLOOCV"]
MANY = {
    2_000: ["em", "gcv", "himalaya"],
    10_000: ["em", "exact", "gcv", "loocv"],
    100_000: ["em", "exact", "gcv"],
}
"""Numbers of targets, and methods; himalaya needs about 70 times the memory of the targets."""

QUICK_MANY = {2_000: ["em", "gcv", "himalaya"]}
ALPHAS = np.logspace(-10, 10, 100)
FOLDS = 5
"""Of the cross-validation by himalaya, which has no leave-one-out in closed form."""


def data(n: int, p: int, q: int) -> tuple[np.ndarray, np.ndarray]:
    """Targets from no signal to much."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, p))
    y, size = np.empty((n, q)), np.geomspace(0.1, 10, q) / np.sqrt(p)
    for start in range(0, q, 1000):
        part = slice(start, min(start + 1000, q))
        m = part.stop - part.start
        y[:, part] = x @ rng.standard_normal((p, m)) * size[part] + rng.standard_normal((n, m))
    return y, x


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
    before = resident(reset=True)
    seconds = []
    for _ in range(repetitions):
        start = clock()
        run(task, y, x)
        seconds.append(clock() - start)
    out = {"median": statistics.median(seconds), "least": min(seconds), "repetitions": repetitions}
    print(json.dumps(out | {"extra_memory": (resident() - before) * 1024 / y.nbytes}))


def in_child(task: str, sizes: tuple[int, ...], repetitions: int, limit: float | None = None) -> dict | None:
    """What a process of its own measures; None if it fails or is given up."""
    command = [sys.executable, __file__, "--child", task, *map(str, (*sizes, repetitions))]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=limit)
    except subprocess.TimeoutExpired:
        return None
    if done.returncode:
        print(task, "failed:", done.stderr.strip().splitlines()[-1:], file=sys.stderr)
        return None
    return json.loads(done.stdout)


def of_many(n: int, p: int, many: dict[int, list[str]], limit: float) -> tuple[dict, str]:
    """Time and memory of fits of thousands of responses."""
    found = {q: {task: in_child(task, (n, p, q), 1, limit) for task in tasks} for q, tasks in many.items()}
    rows = []
    for q, results in found.items():
        for task, result in results.items():
            if result is None:
                rows.append([f"{q:,}", task, f"failed, or > {limit:g} s", "", ""])
                continue
            seconds = result["median"]
            each = show_seconds(seconds / q)
            rows.append([f"{q:,}", task, show_seconds(seconds), each, f"{result['extra_memory']:.2f}"])
    return found, table(["targets", "method", "time", "for each target", "memory beyond Y / Y"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a smaller problem")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--limit", type=float, default=600, help="seconds for a method and thousands of responses")
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
            result = in_child(task, (n, p, q), args.repetitions)
            if result is not None:
                rounds[task].append(result)
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
    many, of_each = of_many(n, p, QUICK_MANY if args.quick else MANY, args.limit)
    text = "\n\n".join(
        [
            f"{n} rows, {p} columns, {q} targets; 100 penalties for each cross-validation, one penalty for each "
            f"target. Two rounds of {args.repetitions} repetitions, each method in a separate process. "
            f'The prior is half-Cauchy. "himalaya" is its RidgeCV by NumPy with {FOLDS} folds.',
            table(["method", "median", "least", "median / em", "least / em"], rows),
            "More targets of the same rows and columns, each fit once. Memory is the peak of the resident set in "
            "addition to the data, relative to the array Y of the targets. Our results hold 2 p numbers of each.",
            of_each,
        ]
    )
    save("many_targets_quick" if args.quick else "many_targets", env, found | {"many": many}, text)


if __name__ == "__main__":
    main()
