"""Eigendecompositions of large square matrices: time and memory of a ridge by each of LAPACK's two ways.

    python -m benchmarks.eigen [--quick] [--out FOLDER] [--render]

Fits to as many rows as columns, each in a process of its own: divide and conquer, and relatively robust
representations made orthogonal, which fits take from 2,500 columns on.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from typing import Any

import numpy as np

from benchmarks import common
from benchmarks.common import clock, measured, resident, save, show_seconds, table, use_one_thread

PACKAGES = ["pybayesridge", "numpy", "scipy"]
SIZES, QUICK_SIZES = (2500, 4000), (300,)
WAYS = {"divide and conquer": 10**9, "robust representations": 0}
"""From which size on the second way is taken."""


def one(size: int, large: int) -> dict[str, float]:
    """Seconds of the decomposition, and of memory beyond X what a fit takes, in multiples of X."""
    from pybayesridge import BayesRidge
    from pybayesridge.linalg import eigen

    eigen.LARGE = large
    rng = np.random.default_rng(0)
    BayesRidge(rng.standard_normal(60), rng.standard_normal((60, 5))).fit("em")
    x = rng.standard_normal((size, size))
    y = x[:, :10].sum(axis=1) + rng.standard_normal(size)
    before = resident(reset=True)
    BayesRidge(y, x).fit("em")
    peak = resident()
    square = np.asfortranarray(x.T @ x)
    start = clock()
    eigen.decompose(square)
    return {"seconds": clock() - start, "memory": (peak - before) * 1024 / x.nbytes}


def measure(quick: bool) -> dict[str, Any]:
    """Each size by each way."""
    return {
        str(size): {
            way: json.loads(
                subprocess.run(
                    [sys.executable, "-m", "benchmarks.eigen", "--child", str(size), str(large)],
                    capture_output=True,
                    text=True,
                    check=True,
                ).stdout
            )
            for way, large in WAYS.items()
        }
        for size in (QUICK_SIZES if quick else SIZES)
    }


def page(found: dict[str, Any]) -> str:
    """The table."""
    rows = []
    for size, ways in found.items():
        base = ways["divide and conquer"]["seconds"]
        rows += [
            [
                f"{size} × {size}",
                way,
                show_seconds(each["seconds"]),
                f"{each['seconds'] / base:.2f}",
                f"{each['memory']:.2f}",
            ]
            for way, each in ways.items()
        ]
    return "\n\n".join(
        [
            "Seconds are those of the decomposition alone. The memory is the most that a fit uses in addition to X "
            "(resident set), in multiples of X.",
            table(["n × p", "way", "decomposition", "relative", "memory / X"], rows),
        ]
    )


def main() -> None:
    """Make the page, or measure one fit in this process."""
    if "--child" in sys.argv:
        parser = argparse.ArgumentParser()
        parser.add_argument("--child", nargs=2, type=int)
        print(json.dumps(one(*parser.parse_args().child)))
        return
    use_one_thread()
    args = common.arguments(__doc__)
    env, found = measured("eigen", args, PACKAGES, measure)
    save("eigen", env, found, page(found), args.out)


if __name__ == "__main__":
    main()
