"""BayesRidge compared with the linear algebra that every ridge requires, and with its peers.

    python benchmarks/ridge_floor.py [--quick] [--one-thread] [--repetitions 5] [--limit 60]

The floor is a symmetric rank-k update and a symmetric eigendecomposition of the same array, by SciPy. Floor, "em",
"exact" and "loocv" take turns in one process; every peer runs in a process of its own, so that no two BLAS libraries
compete, and is given up after `--limit` seconds. RidgeCV runs in each of its modes; "loocv" has the same penalties.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import os
import resource
import signal
import statistics
import subprocess
import sys
import time
import warnings

import numpy as np
from common import (
    PAUSE,
    clock,
    environment,
    interleaved,
    one_thread,
    resident,
    save,
    show_seconds,
    table,
    use_one_thread,
)

SIZES = [(50_000, 300), (20_000, 1000), (20_000, 500), (1000, 1000), (500, 20_000), (200, 20_000), (442, 10)]
QUICK_SIZES = [(5000, 100), (300, 300), (100, 2000), (442, 10)]
EXACT_SIZES = [(20_000, 500), (500, 20_000), (200, 20_000)]
QUICK_EXACT_SIZES = [(4000, 100), (100, 2000)]
RIDGE_CV = ["RidgeCV, default", "RidgeCV, eigen", "RidgeCV, svd"]
PEERS = ["BayesianRidge", "RidgeEM"]
ALPHAS = np.logspace(-10, 10, 100)
ABOVE_THE_FLOOR = (
    "What is above the floor with many columns is passes over X, of which the floor has one. Least milliseconds at "
    "{n} × {p}, where the floor takes {floor:.1f}:\n\n{table}\n\nCompiled code takes means and squares of a block, "
    "centres and scales it while it is in the cache. The check comes before the product, since bad values are errors "
    "of the model and not of its fit, and the coefficients after the eigenvectors, of which they are made."
)

OTHER_KERNELS = (
    "The ratio to the floor depends on the processor: passes over X take the time of the memory, the product that of "
    "the BLAS. Least milliseconds on this machine, with the kernels that OpenBLAS has for other processors "
    "(`OPENBLAS_CORETYPE`):\n\n{table}"
)

PASSES_AT, QUICK_PASSES_AT = (200, 20_000), (100, 4000)
"""The sizes of which each pass is timed."""

KERNELS_AT, QUICK_KERNELS_AT = [(500, 20_000), (200, 20_000)], [(100, 4000)]
"""The sizes that are timed with the kernels of other processors."""

KERNELS = {
    "of this processor": None,
    "SkylakeX (AVX-512)": "SkylakeX",
    "Haswell (AVX2)": "Haswell",
    "Nehalem": "Nehalem",
}
"""OpenBLAS's kernels, by its names of processors."""


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
    """Least seconds of what a fit to many columns does with X, and of the product alone."""
    from scipy.linalg.blas import dsyrk

    from pybayesridge.data.arrays import is_finite
    from pybayesridge.design.unpenalized import factorize
    from pybayesridge.design.wide_compiled import compiled_products
    from pybayesridge.linalg import blas

    n, p = x.shape
    columns, share = np.arange(p), np.full((n, 1), 1 / n)
    intercept = factorize(np.ones((n, 1)), None, ["Intercept"], 0)
    if compiled_products(x, columns, intercept) is None:
        raise RuntimeError("there is no compiled code: install the package, which compiles it")
    steps = {
        "the product alone, as in the floor": lambda: dsyrk(1.0, x.T, trans=1, lower=1),
        "the product with means, squares, centring and scaling": lambda: compiled_products(x, columns, intercept),
        "the check that all values are finite": lambda: is_finite(x),
        "the coefficients": lambda: blas.product(x, share, transpose_a=True),
    }
    return {name: times["least"] for name, times in interleaved(steps, repetitions, pause=0.0).items()}


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
        mode = name.split(", ")[1]
        linear_model.RidgeCV(alphas=ALPHAS, gcv_mode=None if mode == "default" else mode).fit(x, y)
    else:
        linear_model.BayesianRidge().fit(x, y)


def pause() -> float:
    """Seconds between calls in turn: none with one thread, as between those of peers."""
    return 0.0 if one_thread() else PAUSE


def child(task: str, n: int, p: int, repetitions: int) -> None:
    """Time (or weigh) one function in this process and print what was found as JSON."""
    warnings.simplefilter("ignore")
    if task == "kernels":
        y, x = data(n, p)
        turns = {"floor": functools.partial(floor, x), "em": functools.partial(ours, "em", y, x)}
        times = interleaved(turns, repetitions, pause=pause())
        print(json.dumps({name: found["least"] for name, found in times.items()}))
        return
    small = data(60, 5)
    run = (lambda y, x: ours(task.removeprefix("memory-"), y, x)) if task.startswith("memory") else None
    run = run or (lambda y, x: peer(task, y, x))
    # A limit of processor time makes the clock of the process one of ticks, which that of the only thread is not.
    watch = time.thread_time if one_thread() else clock
    run(*small)
    y, x = data(n, p)
    before = resident(reset=True)
    seconds: list[float] = []
    while len(seconds) < repetitions and sum(seconds) < 10:
        start = watch()
        run(y, x)
        seconds.append(watch() - start)
    peak = resident()
    out = {"median": statistics.median(seconds), "repetitions": len(seconds)}
    print(json.dumps(out | {"extra_memory": (peak - before) * 1024 / x.nbytes}))


def in_child(
    task: str, n: int, p: int, repetitions: int, limit: float = math.inf, kernel: str | None = None
) -> dict | str:
    """What `child` prints, or a sentence; of one thread the limit is of processor time, as all times are."""
    command = [sys.executable, __file__, "--child", task, str(n), str(p), str(repetitions)]
    environ = os.environ | ({"OPENBLAS_CORETYPE": kernel} if kernel else {})
    stop, seconds = None, None if math.isinf(limit) else math.ceil(limit)
    if seconds is not None and one_thread():
        stop = functools.partial(resource.setrlimit, resource.RLIMIT_CPU, (seconds, seconds))
    given_up = f"> {limit:.0f} s, given up"
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=None if stop else seconds,
            check=False,
            preexec_fn=stop,
            env=environ,
        )
    except subprocess.TimeoutExpired:
        return given_up
    if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        return given_up
    if done.returncode:
        return "failed: " + done.stderr.strip().splitlines()[-1]
    return json.loads(done.stdout)


def fastest(found: list[dict | str]) -> dict | str:
    """The times with the least median; if none finished, what one of them said."""
    done = [one for one in found if isinstance(one, dict)]
    return min(done, key=lambda one: one["median"]) if done else found[0]


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
        times = interleaved(turns, args.repetitions, pause=pause())
        found[f"{n}x{p}"] = times
        em, exact = times["em"], times["exact"]
        ratio = [f"{exact[k] / em[k]:.2f}" for k in ("median", "least")]
        ratios.append([f"{n} × {p}", show_seconds(em["median"]), show_seconds(exact["median"]), *ratio])
    return ratios


def above_the_floor(found: dict[str, dict], n: int, p: int) -> str:
    """Where the time above the floor goes."""
    parts = table(["step", "ms"], [[name, f"{1e3 * seconds:.2f}"] for name, seconds in found["passes"].items()])
    return ABOVE_THE_FLOOR.format(n=n, p=p, floor=1e3 * found["floor of passes"]["least"], table=parts)


def other_kernels(args: argparse.Namespace, found: dict[str, dict]) -> str:
    """Floor and mode with the kernels of other processors; the times go into `found`."""
    rows = []
    for n, p in QUICK_KERNELS_AT if args.quick else KERNELS_AT:
        for name, kernel in KERNELS.items():
            times = in_child("kernels", n, p, 4 * args.repetitions, kernel=kernel)
            found[f"{n}x{p}, {name}"] = {"least": times}
            if isinstance(times, str):
                rows.append([f"{n} × {p}", name, times, "", "", ""])
                continue
            least = [times["floor"], times["em"], times["em"] - times["floor"]]
            ratio = f"{times['em'] / times['floor']:.2f}"
            rows.append([f"{n} × {p}", name, *(f"{1e3 * seconds:.1f}" for seconds in least), ratio])
    head = ["n × p", "kernels", "floor", "em", "over the floor", "em / floor"]
    return OTHER_KERNELS.format(table=table(head, rows))


def page(repetitions: int, rows: list, crossed: list, ratios: list, weights: list, above: str) -> str:
    """The tables and what they are of."""
    head = ["n × p", "floor", "em", "em / floor", "of the least", "ms over it", *(f"{p} / em" for p in PEERS)]
    return "\n\n".join(
        [
            f"Medians of {repetitions} interleaved repetitions (ten times as many for the smallest). "
            "Fits that exceeded the time limit were stopped. The prior is half-Cauchy.",
            table(head, rows),
            above,
            'Cross-validation over the same 100 penalties: "loocv", and RidgeCV in each of its modes, relative to '
            '"loocv". The last column is the fastest of these relative to "em", which needs no grid.',
            table(["n × p", "loocv", *(f"{name} / loocv" for name in RIDGE_CV), "fastest / em"], crossed),
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
        times = interleaved(turns, repetitions, pause=pause())
        peers = {name: in_child(name, n, p, repetitions, args.limit) for name in [*RIDGE_CV, *PEERS]}
        memory = {m: in_child(f"memory-{m}", n, p, 1, 300) for m in ("em", "exact")}
        found["floor"][f"{n}x{p}"] = {"ours": times, "peers": peers, "memory": memory}
        base, em, loocv = times["floor"], times["em"], times["loocv"]
        best = fastest([peers[name] for name in RIDGE_CV])
        modes = [relative(peers[name], loocv) for name in RIDGE_CV]
        crossed.append([f"{n} × {p}", show_seconds(loocv["median"]), *modes, relative(best, em)])
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
    found["kernels"] = {}
    above = above_the_floor(found, n, p) + "\n\n" + other_kernels(args, found["kernels"])
    text = page(args.repetitions, rows, crossed, ratios, weights, above)
    save("ridge_floor_quick" if args.quick else "ridge_floor", env, found, text)


if __name__ == "__main__":
    main()
