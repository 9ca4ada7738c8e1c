"""Times on made-up data of the shapes of data sets that are not to be had: T of Table 2 at their n, p and q.

    python -m benchmarks.paper_ridge.stand_ins [--max-entries 35000000] [--data NAME ...] [--repetitions 1]

Columns are normal with common factors, so that the spectrum falls as that of real columns does; the target is linear
with noise, or for q classes the class of the largest of q such targets. Scores mean nothing here.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Sequence

import numpy as np

from benchmarks.common import environment, save, show_seconds, table, use_one_thread
from benchmarks.paper_ridge.methods import TIMED, fit
from benchmarks.paper_ridge.paper import TABLE2
from pybayesridge.exceptions import PybayesridgeWarning

NAMES = ("twitter", "ct_slices", "toms_hardware", "starlight")
FACTORS = 20
MAX_ENTRIES = 36_000_000
"""Rows times columns beyond which columns are left out, so that it fits into 6 GB with all that fits take."""

MAX_COLUMNS = 4096
"""Columns beyond which they are left out, as a decomposition takes minutes with one thread."""


def made_up(n: int, p: int, q: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Targets (n,) or (n, q), and columns (n, p)."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, p))
    x += rng.standard_normal((n, FACTORS)) @ rng.standard_normal((FACTORS, p))
    y = x @ rng.standard_normal((p, q)) / np.sqrt(p)
    y += y.std(axis=0) * rng.standard_normal((n, q))
    if q == 1:
        return y[:, 0], x
    return (y.argmax(axis=1)[:, None] == np.arange(q)).astype(float), x


def measure(name: str, order: int, max_entries: int, repetitions: int) -> dict[str, float]:
    """Least seconds of each method at the shape of a row of the table."""
    row = TABLE2[name]
    p = min(row.orders[order].p, max_entries // row.n, MAX_COLUMNS)
    y, x = made_up(row.n, p, row.q, order)
    out: dict[str, float] = {"n": row.n, "p": p, "q": row.q}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PybayesridgeWarning)
        fit(y[:200], x[:200, :20], "em")
        for _ in range(repetitions):
            for method in TIMED:
                _, seconds = fit(y, x, method)
                out[method] = min(seconds, out.get(method, np.inf))
    return out


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--max-entries", type=int, default=MAX_ENTRIES)
    parser.add_argument("--repetitions", type=int, default=1)
    parser.add_argument("--data", nargs="+", choices=NAMES, default=NAMES)
    args = parser.parse_args(arguments)
    env = environment(["pybayesridge", "numpy", "scipy"])
    found, rows = {}, []
    for name in args.data:
        for order, published in TABLE2[name].orders.items():
            print(f"{name}, order {order}", file=sys.stderr)
            r = measure(name, order, args.max_entries, args.repetitions)
            found[f"{name}-{order}"] = r
            shape = f"{r['n']:.0f} × {r['p']:.0f}" + (f" (paper {published.p})" if r["p"] != published.p else "")
            seconds = [show_seconds(r[m]) for m in TIMED]
            ratios = [f"{r[m] / r['em']:.2g}" for m in ("fixed", "glmnet")]
            rows.append([TABLE2[name].title, order, shape, int(r["q"]), *seconds, *ratios, f"{published.ratio:g}"])
    head = ["shape of", "order", "n × p", "q", *TIMED, "T fixed", "T glmnet", "T, paper"]
    text = (
        "Simulated columns with the shapes of data sets that are not available; the whole fit, "
        f"least of {args.repetitions}.\n\n" + table(head, rows)
    )
    save("table2_stand_ins", env, found, text)
    return 0


if __name__ == "__main__":
    use_one_thread()
    sys.exit(main())
