"""Strongly correlated columns: agreement of two independent runs of the sampler, and EP compared with them.

    python -m benchmarks.correlated_columns [--quick] [--out FOLDER] [--render]

AR(1) columns, n = 100, d = 1000, ten true columns, everything learned. Two runs of ``fit("exact")`` with different
seeds, and ``fit("ep")``.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from benchmarks import common
from benchmarks.peers_run import OverBudgetError, budget

NAME = "correlated_columns"
PACKAGES = ["pybayesridge", "numpy", "scipy"]
RHOS = (0.9, 0.99)
LIMIT = 90.0
"""Seconds of processor time after which EP is given up."""
CLEAR, OPEN = 0.9, 0.5


def data_set(n: int, d: int, rho: float, noise: float, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Columns, response and true columns; coefficients of 1 or -1."""
    rng = np.random.default_rng([seed, n, d, round(100 * rho)])
    x = rng.standard_normal((n, d))
    for j in range(1, d):
        x[:, j] = rho * x[:, j - 1] + np.sqrt(1 - rho**2) * x[:, j]
    true = np.sort(rng.choice(d, 10, replace=False))
    y = x[:, true] @ rng.choice([-1.0, 1.0], true.size) + noise * rng.standard_normal(n)
    return x, y, true


def compared(
    n: int, d: int, rho: float, noise: float, seed: int, *, ep: bool = True, mcse: float = 0.01
) -> dict[str, Any]:
    """Two runs of the sampler and EP on one data set."""
    from pybayesridge import SpikeSlab

    x, y, true = data_set(n, d, rho, noise, seed)
    model = SpikeSlab(y, x)
    probs, out = [], {"rho": rho, "noise": noise, "seed": seed, "true": true.tolist()}
    for run in range(2):
        start = common.clock()
        res = model.fit("exact", rng=run, mcse=mcse)
        seconds = common.clock() - start
        probs.append(np.asarray(res.inclusion_prob)[1:])
        out[f"run {run + 1}"] = {
            "seconds": seconds,
            "converged": bool(res.converged),
            "max_se": float(np.nanmax(res.inclusion_se)),
            "steps": int(res.n_iter),
        }
    truth = (probs[0] + probs[1]) / 2
    out["difference"] = float(np.abs(probs[0] - probs[1]).max())
    out["expected"] = float(truth.sum())
    inside = np.isin(np.arange(d), true)
    out["brier"] = float(((truth - inside) ** 2).sum())
    if ep:
        start = common.clock()
        try:
            with budget(LIMIT):
                res = model.fit("ep")
        except OverBudgetError:
            return out
        found = np.asarray(res.inclusion_prob)[1:]
        gap = np.abs(found - truth)
        out["ep"] = {
            "seconds": common.clock() - start,
            "converged": bool(res.converged),
            "difference": float(gap.max()),
            "beyond_tenth": int((gap > 0.1).sum()),
            "expected": float(found.sum()),
            "brier": float(((found - inside) ** 2).sum()),
            "overconfident": int(((found > CLEAR) & (truth < OPEN)).sum()),
            "missed": int(((found < 1 - CLEAR) & (truth > OPEN)).sum()),
            "at": int(gap.argmax()),
            "there": [float(found[gap.argmax()]), float(truth[gap.argmax()])],
        }
    return out


def measure(quick: bool, seconds: float = np.inf) -> Iterator[list[dict[str, Any]]]:
    """All data sets, or as many as there is processor time for, after each of them."""
    start = time.process_time()
    n, d, seeds = (60, 80, 1) if quick else (100, 1000, 3)
    out: list[dict[str, Any]] = []
    for seed, noise, rho in product(range(seeds), (0.5, 2.0), RHOS):
        if time.process_time() - start > seconds:
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            out.append(compared(n, d, rho, noise, seed))
        print(out[-1], file=sys.stderr, flush=True)
        yield out


def page(found: list[dict[str, Any]]) -> str:
    """The whole page."""
    rows, ep_rows = [], []
    for one in found:
        runs = [one["run 1"], one["run 2"]]
        name = f"{one['rho']:g}, {one['noise']:g}, {one['seed'] + 1}"
        rows.append(
            [
                name,
                f"{one['difference']:.3f}",
                ", ".join(f"{run['max_se']:.3f}" for run in runs),
                ", ".join("yes" if run["converged"] else "no" for run in runs),
                f"{one['expected']:.1f}",
                ", ".join(f"{run['steps']:,}" for run in runs),
                ", ".join(common.show_seconds(run["seconds"]) for run in runs),
            ]
        )
        if "ep" not in one:
            continue
        ep = one["ep"]
        ep_rows.append(
            [
                name,
                "yes" if ep["converged"] else "no",
                f"{ep['difference']:.2f} ({ep['there'][0]:.2f} for {ep['there'][1]:.2f})",
                ep["beyond_tenth"],
                ep["overconfident"],
                ep["missed"],
                f"{ep['expected']:.1f} for {one['expected']:.1f}",
                f"{ep['brier']:.2f} for {one['brier']:.2f}",
                common.show_seconds(ep["seconds"]),
            ]
        )
    head = ["rho, noise, data set", "largest difference", "largest s.e.", "converged", "expected size", "steps"]
    ep_head = ["rho, noise, data set", "converged", "largest difference", "columns off by more than 0.1"]
    ep_head += [f"above {CLEAR:g} for below {OPEN:g}", f"below {1 - CLEAR:.1g} for above {OPEN:g}"]
    return "\n\n".join(
        [
            "AR(1) columns, n = 100, d = 1000, ten coefficients of 1 or -1, standard deviations of the noise 0.5 and "
            "2, all hyperparameters learned.",
            "## Two independent runs of the sampler",
            "Inclusion probabilities of all columns, with the default precision of 0.01.",
            common.table([*head, "time"], rows),
            "## EP compared with the mean of both",
            "Differences of inclusion probabilities over all columns, and the sum of their squared errors relative "
            f"to the true columns (Brier). EP was given up after {LIMIT:g} seconds where a row is absent.",
            common.table([*ep_head, "expected size", "Brier", "time"], ep_rows),
        ]
    )


def main() -> None:
    common.run_in_steps(NAME, __doc__, PACKAGES, measure, page)


if __name__ == "__main__":
    main()
