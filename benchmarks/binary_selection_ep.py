"""Selection for yes/no responses: expectation propagation compared with the sampler.

    python benchmarks/binary_selection_ep.py [--quick]

Eight columns have the coefficient 1 per standard deviation, the logit link; all hyperparameters are unknown. The
differences contain the Monte Carlo errors of the sampler.
"""

from __future__ import annotations

import argparse
import sys
import warnings

import numpy as np
from common import QUICK_RESULTS, RESULTS, clock, environment, save, show_seconds, table, use_one_thread

from pybayesridge import SpikeSlab

KINDS = {"independent": 0.0, "AR(.9)": 0.9}
SIZES = {(100, 20): 2, (400, 1000): 1}
"""Rows and columns, and the number of data sets of each kind."""

TRUE, MCSE = 8, 0.02


def simulate(n: int, p: int, rho: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, p))
    for j in range(1, p):
        x[:, j] = rho * x[:, j - 1] + np.sqrt(1 - rho**2) * x[:, j]
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    b = np.zeros(p)
    b[rng.permutation(p)[:TRUE]] = 1.0
    return x, (rng.random(n) < 1 / (1 + np.exp(-x @ b))).astype(float)


def one(n: int, p: int, rho: float, seed: int, mcse: float) -> dict[str, float | bool]:
    x, y = simulate(n, p, rho, seed)
    model, found, seconds = SpikeSlab(y, x, family="binomial"), {}, {}
    for method, options in {"ep": {}, "exact": {"mcse": mcse}}.items():
        start = clock()
        found[method] = model.fit(method, **options)
        seconds[method] = clock() - start
    ep, exact = found["ep"], found["exact"]
    off = np.abs(ep.inclusion_prob - exact.inclusion_prob).to_numpy()[1:]
    return {
        "converged": bool(ep.converged and exact.converged),
        "largest": float(off.max()),
        "above": int((off > 0.1).sum()),
        "error": float(exact.inclusion_se.max()),
        "probabilities": float(np.abs(ep.fittedvalues - exact.fittedvalues).max()),
        "warned": any(one.code.startswith("approximation-") for one in ep.findings),
        "ep_seconds": seconds["ep"],
        "exact_seconds": seconds["exact"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="the smallest size, a minute")
    args = parser.parse_args()
    use_one_thread()
    warnings.simplefilter("ignore")
    env, data, rows = environment(["pybayesridge", "numpy", "scipy"]), {}, []
    for (n, p), sets in list(SIZES.items())[: 1 if args.quick else None]:
        for kind, rho in KINDS.items():
            each = [one(n, p, rho, seed, MCSE) for seed in range(1 if args.quick else sets)]
            data[f"{kind} {n}x{p}"] = each
            rows.append(
                [
                    kind,
                    n,
                    p,
                    f"{max(e['largest'] for e in each):.3f}",
                    sum(e["above"] for e in each),
                    f"{max(e['error'] for e in each):.3f}",
                    f"{max(e['probabilities'] for e in each):.3f}",
                    f"{sum(e['warned'] for e in each)} of {len(each)}",
                    f"{sum(e['converged'] for e in each)} of {len(each)}",
                    show_seconds(float(np.mean([e["ep_seconds"] for e in each]))),
                    show_seconds(float(np.mean([e["exact_seconds"] for e in each]))),
                ]
            )
            print(*rows[-1], sep=" | ", file=sys.stderr, flush=True)
    head = [
        "columns",
        "n",
        "p",
        "largest difference of an inclusion probability",
        "above .1",
        "largest Monte Carlo error",
        "largest difference of a fitted probability",
        "EP in doubt",
        "converged",
        "EP",
        "sampler",
    ]
    text = f"{TRUE} true columns; times are means over data sets.\n\n" + table(head, rows)
    folder = QUICK_RESULTS if args.quick else RESULTS
    save("binary_selection_ep", env, data, text, folder)


if __name__ == "__main__":
    main()
