"""Whether EP settles on large correlated designs, at what price, and whether the answer is any good.

    python -m benchmarks.ep_convergence large        40 sets with AR(1) columns, n = 100, d = 1000
    python -m benchmarks.ep_convergence directions   16 of these sets with other Newton steps
    python -m benchmarks.ep_convergence accuracy     24 of these sets against long chains over inclusion patterns

`--quick` takes n = 50, d = 200 and one set of each kind, and `--out` names the folder of the page and the numbers.
Hyperparameters are the true ones throughout. "fac" counts covariance evaluations. The paper's own small sets are in
`paper_ep/tables.py`.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from itertools import islice, repeat
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import logit

from benchmarks import common
from benchmarks.ep_reference import chain
from pybayesridge.ep import Data, EPResult, GaussianSide, Prior, fit_sites
from pybayesridge.ep.algorithms import monotone
from pybayesridge.ep.algorithms.damped import sweeps
from pybayesridge.ep.algorithms.state import EPModel, State
from pybayesridge.ep.model.likelihood import GaussianLikelihood

PACKAGES = ["pybayesridge", "numpy", "scipy"]
RHOS, SIGMAS = (0.0, 0.5, 0.9, 0.99), (0.05, 0.5)
SIZE = 10
TOL = 1e-3
ENOUGH = 30.0
"""The price, in times of 30 EP sweeps, within which a fit should have converged."""
NAMES = ("chain - chain", "ep", "30 EP sweeps", "1000 EP sweeps")
CORES = ((30, 0), (60, 0), (120, 0), (240, 0), (30, 40), (120, 40))
"""Sizes of the Newton step's core, and conjugate-gradient iterations near the solution."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How large the sets are and how many of them: seeds by kind of table, steps of the chains."""

    n: int
    d: int
    seeds: int
    chain_seeds: int
    direction_seeds: int
    steps: int


FULL, QUICK = Scale(100, 1000, 5, 3, 2, 10_000), Scale(50, 200, 1, 1, 1, 1000)


def ar_set(scale: Scale, rho: float, sigma: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """AR(1) columns of unit variance; 10 coefficients N(0, 1), the others zero."""
    rng = np.random.default_rng([77, seed, int(100 * rho), int(100 * sigma)])
    X = rng.standard_normal((scale.n, scale.d))
    for j in range(1, scale.d):
        X[:, j] = rho * X[:, j - 1] + np.sqrt(1.0 - rho**2) * X[:, j]
    w = np.zeros(scale.d)
    w[rng.choice(scale.d, SIZE, replace=False)] = rng.standard_normal(SIZE)
    return X, X @ w + sigma * rng.standard_normal(scale.n)


def timed_fit(data: Data, sigma: float, method: Any = "ep") -> tuple[EPResult, float]:
    """A fit at the true hyperparameters, and its seconds."""
    start = common.clock()
    p = np.full(data.n_columns, SIZE / data.n_columns)
    result = fit_sites(GaussianLikelihood(data, sigma**2), p, 1.0, tol=TOL, method=method)
    return result, common.clock() - start


def thirty_sweeps(data: Data, sigma: float) -> tuple[State, float]:
    """State after 30 sweeps of damped EP, and the seconds they took; least of three."""
    p = np.full(data.n_columns, SIZE / data.n_columns)
    model = EPModel.build(GaussianSide.build(GaussianLikelihood(data, sigma**2)), Prior.from_probability(p, 1.0))
    seconds = []
    for _ in range(3):
        start = common.clock()
        *_, state = islice(sweeps(model, *model.start(), repeat(0.5)), 30)
        seconds.append(common.clock() - start)
    return state, min(seconds)


def large(scale: Scale) -> tuple[str, Any]:
    """Convergence and price of "ep" on large correlated designs, compared with damped EP."""
    rows, found = [], []
    for rho in RHOS:
        for sigma in SIGMAS:
            runs = []
            for seed in range(scale.seeds):
                data = Data.from_rows(*ar_set(scale, rho, sigma, seed))
                unit = thirty_sweeps(data, sigma)[1]
                ours, seconds = timed_fit(data, sigma)
                plain, _ = timed_fit(data, sigma, "damped")
                runs.append((ours.converged, ours.n_fac, seconds / unit, plain.converged))
            ok, fac, price, plain_ok = (np.array(part) for part in zip(*runs, strict=True))
            counts = [f"{ok.sum()} of {ok.size}", f"{np.median(fac):g}", fac.max()]
            rows.append([rho, sigma, *counts, f"{np.median(price):.1f}", f"{price.max():.1f}"])
            rows[-1].append(f"{plain_ok.sum()} of {ok.size}")
            print(*rows[-1], sep=" | ", file=sys.stderr, flush=True)
            found += [
                {"rho": rho, "sigma": sigma, "ep": bool(a), "fac": int(f), "price": float(c), "damped": bool(e)}
                for a, f, c, e in runs
            ]
    head = ["rho", "sigma", "ep converged", "fac, median", "fac, largest", "price, median", "price, largest"]
    within = sum(run["ep"] and run["price"] <= ENOUGH for run in found)
    text = (
        'The price is the time of the whole fit by "ep" divided by that of 30 EP sweeps on the same data. '
        "Ordinary EP (1000 sweeps at most, damping 0.5) also counts as converged with active constraints; "
        f'"ep" does not.\n\n{common.table([*head, "damped, 1000 sweeps"], rows)}\n\n'
        f"Converged to {TOL:g} within a price of {ENOUGH:g}: {within} of {len(found)} sets."
    )
    return text, found


def accuracy(scale: Scale) -> tuple[str, Any]:
    """Inclusion probabilities beside two long chains started apart."""
    rows, found = [], []
    for rho in RHOS:
        for sigma in SIGMAS:
            errors = []
            for seed in range(scale.chain_seeds):
                X, y = ar_set(scale, rho, sigma, seed)
                data = Data.from_rows(X, y)
                ours, plain = timed_fit(data, sigma)[0], timed_fit(data, sigma, "damped")[0]
                rng = np.random.default_rng(seed)
                odds = logit(SIZE / scale.d)
                starts = (None, ours.inclusion_prob > 0.5)
                a, b = (chain(X, y, odds, 1.0, sigma**2, scale.steps, rng, inside=s) for s in starts)
                truth = 0.5 * (a + b)
                others = (ours.inclusion_prob, thirty_sweeps(data, sigma)[0].tilt.prob, plain.inclusion_prob)
                gaps = [a - b, *(prob - truth for prob in others)]
                errors.append([(float(np.sum(np.abs(g))), float(np.max(np.abs(g)))) for g in gaps])
            mean = np.mean(errors, axis=0)
            rows.append([rho, sigma, *(f"{total:.3f} ({most:.2f})" for total, most in mean)])
            print(*rows[-1], sep=" | ", file=sys.stderr, flush=True)
            found.append({"rho": rho, "sigma": sigma, "names": NAMES, "sum_and_largest": errors})
    text = (
        f"Sets for each row: {scale.chain_seeds}; two chains of {scale.steps} steps of weighted tempered Gibbs "
        'sampling, one started empty, one at the result of "ep". Sum over columns of the absolute errors of the '
        f"inclusion probabilities, mean over sets; in parentheses the mean of the largest error.\n\n"
        + common.table(["rho", "sigma", *NAMES], rows)
    )
    return text, found


def directions(scale: Scale) -> tuple[str, Any]:
    """Sizes of the Newton step's core, with and without conjugate gradients near the solution."""
    rows, found = [], []
    default = (monotone._CORE, monotone._REFINE_MAX)
    for core, refine in CORES:
        monotone._CORE, monotone._REFINE_MAX = core, refine
        runs = [
            timed_fit(Data.from_rows(*ar_set(scale, rho, sigma, seed)), sigma)
            for rho in RHOS
            for sigma in SIGMAS
            for seed in range(scale.direction_seeds)
        ]
        fac, seconds = np.array([r.n_fac for r, _ in runs]), np.array([s for _, s in runs])
        name = "yes" if refine else "no"
        name += " (the default)" if (core, refine) == default else ""
        counts = [f"{sum(r.converged for r, _ in runs)} of {len(runs)}", f"{np.median(fac):g}", fac.max()]
        rows.append([core, name, *counts, f"{seconds.mean():.2f}", f"{seconds.max():.2f}"])
        print(*rows[-1], sep=" | ", file=sys.stderr, flush=True)
        found.append({"core": core, "refine": refine, "fac": fac.tolist(), "seconds": seconds.tolist()})
    monotone._CORE, monotone._REFINE_MAX = default
    head = ["core", "refined", "converged", "fac, median", "fac, largest", "seconds, mean", "seconds, largest"]
    text = "Seconds of processor time of whole fits for several sizes of the exact block (core) of the Newton step."
    return f"{text}\n\n{common.table(head, rows)}", found


TABLES = {"large": large, "accuracy": accuracy, "directions": directions}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", choices=TABLES)
    parser.add_argument("--quick", action="store_true", help="small sets, one of each kind")
    parser.add_argument("--out", type=Path, help="folder for the page and the numbers")
    args = parser.parse_args()
    common.use_one_thread()
    scale = QUICK if args.quick else FULL
    env = common.environment(PACKAGES)
    text, data = TABLES[args.table](scale)
    about = f"AR(1) columns, n = {scale.n}, d = {scale.d}, {SIZE} non-zero coefficients, true hyperparameters. "
    folder = args.out or (common.QUICK_RESULTS if args.quick else common.RESULTS)
    common.save(f"ep_convergence_{args.table}", env, data, about + text, folder)


if __name__ == "__main__":
    main()
