"""Sparse, very wide and narrow-typed columns: time, and peak memory relative to that of X.

    python benchmarks/data_kinds.py

Memory is what the process holds at its highest during fit() beyond what it held before, measured in a process of
its own for each case.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from typing import Any

import common
import numpy as np
from scipy import sparse

from pybayesridge import BayesRidge

PACKAGES = ["pybayesridge", "numpy", "scipy"]
MIB = 2**20


def sparse_columns() -> tuple[Any, np.ndarray]:
    """200,000 rows of 2,000 columns, one entry in a thousand."""
    rng = np.random.default_rng(0)
    x = sparse.csr_array(sparse.random(200_000, 2_000, 0.001, "csr", random_state=rng, data_rvs=rng.standard_normal))
    return x, x @ rng.standard_normal(2_000) + rng.standard_normal(200_000)


def wide(dtype: type) -> Callable[[], tuple[Any, np.ndarray]]:
    """500 rows of 100,000 columns."""

    def make() -> tuple[Any, np.ndarray]:
        rng = np.random.default_rng(0)
        x = (10 * rng.standard_normal((500, 100_000), dtype=np.float32)).astype(dtype)
        return x, x[:, :10].sum(axis=1) / 10 + rng.standard_normal(500)

    return make


def fortran() -> tuple[Any, np.ndarray]:
    """20,000 rows of 500 columns, column by column in memory."""
    rng = np.random.default_rng(0)
    x = np.asfortranarray(rng.standard_normal((20_000, 500)))
    return x, x[:, :10].sum(axis=1) + rng.standard_normal(20_000)


CASES: dict[str, Callable[[], tuple[Any, np.ndarray]]] = {
    "sparse 200000 x 2000, density 0.001": sparse_columns,
    "float64 500 x 100000": wide(np.float64),
    "float32 500 x 100000": wide(np.float32),
    "int16 500 x 100000": wide(np.int16),
    "float64, Fortran order, 20000 x 500": fortran,
}


def measure(case: str) -> dict[str, float]:
    """Seconds and MiB of a fit with "exact", and of its standard deviations."""
    x, y = CASES[case]()
    out: dict[str, float] = {}
    size = sum(a.nbytes for a in (x.data, x.indices, x.indptr)) if sparse.issparse(x) else x.nbytes
    out["x"] = size / MIB
    BayesRidge(y[:50], x[:50, :20], prior="half-cauchy").fit("exact")
    start = common.clock()
    res = BayesRidge(y, x, prior="half-cauchy").fit("exact")
    out["fit"] = common.clock() - start
    start = common.clock()
    _ = res.bse
    out["bse"] = common.clock() - start
    tracemalloc.start()
    _ = BayesRidge(y, x, prior="half-cauchy").fit("exact").bse
    out["peak"] = tracemalloc.get_traced_memory()[1] / MIB
    return out


def main() -> None:
    """Measure each case in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(measure(arguments.child)))
        return
    env = common.environment(PACKAGES)
    results = {}
    for case in CASES:
        run = subprocess.run([sys.executable, __file__, "--child", case], capture_output=True, text=True, check=True)
        results[case] = json.loads(run.stdout.splitlines()[-1])
    rows = [
        [case, f"{r['x']:.0f}", common.show_seconds(r["fit"]), common.show_seconds(r["bse"]), f"{r['peak']:.0f}"]
        for case, r in results.items()
    ]
    head = ["columns", "X, MiB", "fit (exact)", "bse", "peak beyond X, MiB"]
    text = f"The prior is half-Cauchy.\n\n{common.table(head, rows)}"
    common.save("data_kinds", env, results, text)


if __name__ == "__main__":
    main()
