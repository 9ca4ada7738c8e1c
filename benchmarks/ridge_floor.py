"""BayesRidge compared with the linear algebra that every ridge requires, and with its peers.

    python benchmarks/ridge_floor.py [--quick] [--one-thread] [--repetitions 5] [--limit 60]

The floor is a symmetric rank-k update and a symmetric eigendecomposition of the same array, by SciPy. Floor, "em",
"exact" and "loocv" take turns in one process; every peer runs in a process of its own, so that no two BLAS libraries
compete, and is given up after `--limit` seconds. RidgeCV runs in both of its modes, of which the faster one counts;
"loocv" has the same penalties.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
import warnings

import numpy as np
from common import clock, environment, interleaved, resident, save, show_seconds, table, use_one_thread

SIZES = [(50_000, 300), (20_000, 1000), (20_000, 500), (1000, 1000), (500, 20_000), (200, 20_000), (442, 10)]
QUICK_SIZES = [(5000, 100), (300, 300), (100, 2000), (442, 10)]
EXACT_SIZES = [(20_000, 500), (500, 20_000), (200, 20_000)]
QUICK_EXACT_SIZES = [(4000, 100), (100, 2000)]
RIDGE_CV = ["RidgeCV, svd", "RidgeCV, eigen"]
PEERS = ["BayesianRidge", "RidgeEM"]
ALPHAS = np.logspace(-10, 10, 100)
ABOVE_THE_FLOOR = (
    "What is above the floor with many columns is passes over X, of which the floor has one. Least milliseconds of "
    "each at {n} × {p}, block by block as in a fit, where the floor takes {floor:.1f}:\n\n{table}\n\nNo two of them "
    "are one operation of NumPy or BLAS: fewer passes need compiled code."
)

MANY_COLUMNS, PASSES_AT, QUICK_PASSES_AT = 1024, (200, 20_000), (100, 4000)
"""Columns in a block of a wide fit, and the sizes of which each pass is timed."""

MOST_ROWS = 5_000
"""The mode "eigen" decomposes a matrix of rows by rows, which does not fit into memory for many more."""


def data(n: int, p: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, p))
    y = x @ (rng.standard_normal(p) / np.sqrt(p)) + rng.standard_normal(n)
    return y, x


def floor(x: np.ndarray) -> None:
    from scipy.linalg import eigh
    from scipy.linalg.blas import dsyrk

    n, p = x.shape
    gram = dsyrk(1.0, x.T, lower=1) if n >= p else dsyrk(1.0, x.T, trans=1, lower=1)
    eigh(gram, driver="evd", overwrite_a=True, check_finite=False)


def passes(x: np.ndarray, repetitions: int) -> dict[str, float]:
    """Least seconds of each pass over wide columns, summed over the blocks of a fit."""
    from pybayesridge.data.arrays import is_finite
    from pybayesridge.linalg import blas

    n, p = x.shape
    width = MANY_COLUMNS
    a, row, share, total = np.empty((n, width)), np.zeros(width), np.full((n, 1), 1 / n), np.zeros((n, n), order="F")
    pieces = [x[:, at : at + width] for at in range(0, p - width + 1, width)]
    steps = {
        "a copy by blocks": lambda piece: np.copyto(a, piece),
        "a shift by the first row": lambda piece: blas.subtract_row(a, row),
        "means": lambda piece: blas.product(a, share, transpose_a=True),
        "centring": lambda piece: blas.subtract_row(a, row),
        "squares": lambda piece: np.einsum("ij,ij->j", a, a),
        "scaling": lambda piece: np.multiply(a, 1.0 + row, out=a),
        "the product, as in the floor": lambda piece: blas.add_square(total, a, transposed=False),
    }
    found: dict[str, float] = dict.fromkeys(steps, np.inf)
    for _ in range(repetitions):
        seconds = dict.fromkeys(steps, 0.0)
        for piece in pieces:
            for name, step in steps.items():
                start = clock()
                step(piece)
                seconds[name] += clock() - start
        found = {name: min(found[name], seconds[name] * p / (len(pieces) * width)) for name in steps}
    whole = {
        "the check that all values are finite": lambda: is_finite(x),
        "the coefficients": lambda: blas.product(x, share, transpose_a=True),
    }
    return found | {name: times["least"] for name, times in interleaved(whole, repetitions, pause=0.0).items()}


def ours(method: str, y: np.ndarray, x: np.ndarray) -> None:
    from pybayesridge import BayesRidge

    if method == "loocv":
        BayesRidge(y, x).fit(method, grid=ALPHAS)
    else:
        BayesRidge(y, x, prior="half-cauchy").fit(method)


def peer(name: str, y: np.ndarray, x: np.ndarray) -> None:
    if name == "RidgeEM":
        from fastridge import RidgeEM

        RidgeEM().fit(x, y)
        return
    from sklearn import linear_model

    if name in RIDGE_CV:
        linear_model.RidgeCV(alphas=ALPHAS, gcv_mode=name.split(", ")[1]).fit(x, y)
    else:
        linear_model.BayesianRidge().fit(x, y)


def child(task: str, n: int, p: int, repetitions: int) -> None:
    """Time (or weigh) one function in this process and print what was found as JSON."""
    warnings.simplefilter("ignore")
    small = data(60, 5)
    run = (lambda y, x: ours(task.removeprefix("memory-"), y, x)) if task.startswith("memory") else None
    run = run or (lambda y, x: peer(task, y, x))
    run(*small)
    y, x = data(n, p)
    before = resident(reset=True)
    seconds: list[float] = []
    started = time.perf_counter()
    while len(seconds) < repetitions and (not seconds or time.perf_counter() - started < 10):
        start = clock()
        run(y, x)
        seconds.append(clock() - start)
    peak = resident()
    out = {"median": statistics.median(seconds), "repetitions": len(seconds)}
    print(json.dumps(out | {"extra_memory": (peak - before) * 1024 / x.nbytes}))


def in_child(task: str, n: int, p: int, repetitions: int, limit: float) -> dict | str:
    command = [sys.executable, __file__, "--child", task, str(n), str(p), str(repetitions)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return f"> {limit:.0f} s, given up"
    if done.returncode:
        return "failed: " + done.stderr.strip().splitlines()[-1]
    return json.loads(done.stdout)


def fastest(found: dict[str, dict | str]) -> tuple[str, dict | str]:
    """The mode with the least median, and its times; if none finished, what one of them said."""
    done = {name: one for name, one in found.items() if isinstance(one, dict)}
    if not done:
        return next(iter(found.items()))
    name = min(done, key=lambda one: done[one]["median"])
    return name, done[name]


def relative(one: dict | str, base: dict) -> str:
    """How often the median of `base`, and the time itself."""
    if isinstance(one, str):
        return one
    return f"{one['median'] / base['median']:.1f} ({show_seconds(one['median'])})"


def exact_compared(args: argparse.Namespace, found: dict[str, dict]) -> list[list[str]]:
    """Rows on the exact posterior relative to the mode; the times go into `found`."""
    ratios = []
    for n, p in QUICK_EXACT_SIZES if args.quick else EXACT_SIZES:
        y, x = data(n, p)
        turns = {m: lambda m=m, y=y, x=x: ours(m, y, x) for m in ("em", "exact")}
        times = interleaved(turns, args.repetitions)
        found[f"{n}x{p}"] = times
        em, exact = times["em"], times["exact"]
        ratio = [f"{exact[k] / em[k]:.2f}" for k in ("median", "least")]
        ratios.append([f"{n} × {p}", show_seconds(em["median"]), show_seconds(exact["median"]), *ratio])
    return ratios


def above_the_floor(found: dict[str, dict], n: int, p: int) -> str:
    """Where the time above the floor goes."""
    parts = table(["pass", "ms"], [[name, f"{1e3 * seconds:.2f}"] for name, seconds in found["passes"].items()])
    return ABOVE_THE_FLOOR.format(n=n, p=p, floor=1e3 * found["floor of passes"]["least"], table=parts)


def page(repetitions: int, rows: list, crossed: list, ratios: list, weights: list, above: str) -> str:
    """The tables and what they are of."""
    head = ["n × p", "floor", "em", "em / floor", "of the least", "ms over it", *(f"{p} / em" for p in PEERS)]
    return "\n\n".join(
        [
            f"Medians of {repetitions} interleaved repetitions (ten times as many for the smallest). "
            "Fits that exceeded the time limit were stopped. The prior is half-Cauchy.",
            table(head, rows),
            above,
            'Cross-validation over the same 100 penalties: "loocv", and RidgeCV in the faster of its modes "svd" and '
            f'"eigen" (the latter for at most {MOST_ROWS} rows). The last column is relative to "em", which needs no '
            "grid.",
            table(["n × p", "loocv", "mode", "RidgeCV / loocv", "RidgeCV / em"], crossed),
            "The exact posterior compared with the mode, fit() alone:",
            table(["n × p", "em", "exact", "exact / em", "of the least"], ratios),
            "Peak memory in addition to the data (resident set), in multiples of X:",
            table(["n × p", "em", "exact"], weights),
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes, for a look")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--limit", type=float, default=60.0, help="seconds after which a peer is given up")
    parser.add_argument("--one-thread", action="store_true", help="one thread and processor time, on a busy machine")
    parser.add_argument("--child", nargs=4, metavar=("TASK", "N", "P", "REPETITIONS"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child(args.child[0], *map(int, args.child[1:]))
        return
    if args.one_thread:
        use_one_thread()
    warnings.simplefilter("ignore")
    env = environment(["pybayesridge", "numpy", "scipy", "scikit-learn", "fastridge"])
    found: dict[str, dict] = {"floor": {}, "exact": {}}
    rows, weights, crossed = [], [], []
    for n, p in QUICK_SIZES if args.quick else SIZES:
        y, x = data(n, p)
        repetitions = args.repetitions if n * p > 1e5 else 10 * args.repetitions
        turns = {"floor": lambda x=x: floor(x)} | {m: lambda m=m, y=y, x=x: ours(m, y, x) for m in ("em", "loocv")}
        times = interleaved(turns, repetitions)
        modes = [name for name in RIDGE_CV if "eigen" not in name or n <= MOST_ROWS]
        peers = {name: in_child(name, n, p, repetitions, args.limit) for name in [*modes, *PEERS]}
        memory = {m: in_child(f"memory-{m}", n, p, 1, 300) for m in ("em", "exact")}
        found["floor"][f"{n}x{p}"] = {"ours": times, "peers": peers, "memory": memory}
        base, em, loocv = times["floor"], times["em"], times["loocv"]
        mode, best = fastest({name: peers[name] for name in modes})
        crossed.append([f"{n} × {p}", show_seconds(loocv["median"]), mode.split(", ")[1], relative(best, loocv)])
        crossed[-1].append(relative(best, em))
        rows.append(
            [
                f"{n} × {p}",
                show_seconds(base["median"]),
                show_seconds(em["median"]),
                f"{em['median'] / base['median']:.2f}",
                f"{em['least'] / base['least']:.2f}",
                f"{1e3 * (em['median'] - base['median']):.1f}",
                *(relative(peers[name], em) for name in PEERS),
            ]
        )
        weights.append(
            [f"{n} × {p}", *(f"{m['extra_memory']:.2f}" if isinstance(m, dict) else m for m in memory.values())]
        )
        print(*rows[-1], sep=" | ", file=sys.stderr, flush=True)
        del y, x, turns
    ratios = exact_compared(args, found["exact"])
    n, p = QUICK_PASSES_AT if args.quick else PASSES_AT
    x = data(n, p)[1]
    found["passes"] = passes(x, 4 * args.repetitions)
    found["floor of passes"] = interleaved({"floor": lambda: floor(x)}, 4 * args.repetitions, pause=0.0)["floor"]
    text = page(args.repetitions, rows, crossed, ratios, weights, above_the_floor(found, n, p))
    save("ridge_floor_quick" if args.quick else "ridge_floor", env, found, text)


if __name__ == "__main__":
    main()
