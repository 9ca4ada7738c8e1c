"""Whether EP settles, at what price, and whether the answer is any good.

    python benchmarks/ep_convergence.py paper        the 100 sets of Hernández-Lobato and Hernández-Lobato
    (2011) python benchmarks/ep_convergence.py large        40 sets with AR(1) columns, n = 100, d = 1000
    python benchmarks/ep_convergence.py directions   16 of these sets with other Newton steps
    python benchmarks/ep_convergence.py accuracy     the same 40 sets against long chains over inclusion
    patterns

Hyperparameters are the true ones throughout. "fac" counts covariance evaluations.
"""

from __future__ import annotations

import sys
import time
from itertools import islice

import numpy as np
from ep_reference import chain
from scipy.special import logit

from pybayesridge.ep import Data, Gaussian, Prior, fit_sites, monotone
from pybayesridge.ep.damped import constant, sweeps
from pybayesridge.ep.state import Model

RHOS, SIGMAS, SEEDS, CHAIN_SEEDS = (0.0, 0.5, 0.9, 0.99), (0.05, 0.5), range(5), range(3)
DIRECTION_SEEDS = range(2)
N, D, SIZE = 100, 1000, 10
TOL = 1e-3
N_STEPS = 10_000
NAMES = ("chain - chain", "auto", "30 EP sweeps", "1000 EP sweeps")


def paper_set(seed):
    """One set of the paper: d = 25, n = 10, p = 0.2, slab variance 1, sigma = 0.005, rows of length 1."""
    rng = np.random.default_rng([2011, seed])
    w = rng.standard_normal(25) * (rng.random(25) < 0.2)
    X = rng.standard_normal((1010, 25))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = X @ w + 0.005 * rng.standard_normal(1010)
    return X[:10], y[:10], X[10:], y[10:]


def ar_set(rho, sigma, seed):
    """AR(1) columns of unit variance; 10 of 1000 coefficients N(0, 1), the others zero."""
    rng = np.random.default_rng([77, seed, int(100 * rho), int(100 * sigma)])
    X = rng.standard_normal((N, D))
    for j in range(1, D):
        X[:, j] = rho * X[:, j - 1] + np.sqrt(1.0 - rho**2) * X[:, j]
    w = np.zeros(D)
    w[rng.choice(D, SIZE, replace=False)] = rng.standard_normal(SIZE)
    return X, X @ w + sigma * rng.standard_normal(N)


def paper() -> None:
    """Convergence, price and test error on the paper's sets."""
    print(f"{'method':>12} {'tol':>6} {'settled':>9} {'fac median':>10} {'fac max':>8} {'MSE':>7} {'rises':>6}")
    runs = [("auto", 1e-3, {}), ("auto", 1e-6, {}), ("pcep", 1e-3, {})]
    runs += [("ep", 1e-3, {"damping": tau}) for tau in (0.1, 0.3, 0.5, 0.7, 0.9)]
    for method, tol, options in runs:
        fac, converged, mse, rises = [], 0, [], 0
        for seed in range(100):
            X, y, X_test, y_test = paper_set(seed)
            r = fit_sites(Data.from_rows(X, y), np.full(25, 0.2), 1.0, 0.005**2, method=method, tol=tol, **options)
            fac.append(r.n_fac)
            converged += r.converged
            mse.append(np.mean((X_test @ r.mean - y_test) ** 2))
            energy = r.energy_trace[r.monotone_from :]
            rises += bool(np.any(np.diff(energy) > 1e-9 * (1.0 + np.abs(energy[1:]))))
        name = f"{method} {options.get('damping', '')}"
        counts = f"{converged:9d} {np.median(fac):10.1f} {max(fac):8d}"
        print(f"{name:>12} {tol:6.0e} {counts} {np.mean(mse):7.4f} {rises:6d}", flush=True)


def thirty_sweeps(model):
    """State after 30 sweeps of damped EP, and the seconds they took."""
    begin = time.perf_counter()
    *_, state = islice(sweeps(model, *model.start(), constant(0.5)), 30)
    return state, time.perf_counter() - begin


def large() -> None:
    """Convergence and price of "auto" on large correlated designs, beside damped EP."""
    print("rho  sigma  auto converged   fac median, max   price in 30 sweeps: median, max   EP, 1000 sweeps")
    ratios, settled = [], []
    for rho in RHOS:
        for sigma in SIGMAS:
            rows = []
            for seed in SEEDS:
                X, y = ar_set(rho, sigma, seed)
                data, p = Data.from_rows(X, y), np.full(D, SIZE / D)
                model = Model.build(Gaussian.build(data, sigma**2), Prior.from_probability(p, 1.0))
                thirty = min(thirty_sweeps(model)[1] for _ in range(3))
                begin = time.perf_counter()
                auto = fit_sites(data, p, 1.0, sigma**2, tol=TOL)
                spent = time.perf_counter() - begin
                plain = fit_sites(data, p, 1.0, sigma**2, tol=TOL, method="ep")
                rows.append((auto.converged, auto.n_fac, spent / thirty, plain.converged))
            ok, fac, ratio, plain_ok = map(np.array, zip(*rows, strict=True))
            ratios += list(ratio)
            settled += list(ok)
            price = f"{np.median(ratio):6.1f} {ratio.max():6.1f}"
            counts = f"{np.median(fac):6.0f} {fac.max():6d}"
            print(f"{rho:4.2f} {sigma:4.2f} {ok.sum():8d}/5 {counts} {price} {plain_ok.sum():8d}/5", flush=True)
    settled, ratios = np.array(settled), np.array(ratios)
    print(f"converged within 30 times 30 sweeps: {np.sum(settled & (ratios <= 30))} of {ratios.size}")


def accuracy() -> None:
    """Inclusion probabilities beside two long chains started apart."""
    print("mean over sets of the sum (and of the largest) of the absolute errors of the inclusion probabilities")
    print(f"{'rho':>5} {'sigma':>6}" + "".join(f"{name:>17}" for name in NAMES))
    for rho in RHOS:
        for sigma in SIGMAS:
            errors = []
            for seed in CHAIN_SEEDS:
                X, y = ar_set(rho, sigma, seed)
                data, p = Data.from_rows(X, y), np.full(D, SIZE / D)
                model = Model.build(Gaussian.build(data, sigma**2), Prior.from_probability(p, 1.0))
                auto = fit_sites(data, p, 1.0, sigma**2, tol=TOL)
                plain = fit_sites(data, p, 1.0, sigma**2, tol=TOL, method="ep")
                rng = np.random.default_rng(seed)
                starts = (None, auto.inclusion_prob > 0.5)
                a, b = (chain(X, y, logit(SIZE / D), 1.0, sigma**2, N_STEPS, rng, inside=s) for s in starts)
                truth = 0.5 * (a + b)
                thirty = thirty_sweeps(model)[0].tilt.prob
                gaps = [a - b, auto.inclusion_prob - truth, thirty - truth, plain.inclusion_prob - truth]
                errors.append([(np.sum(np.abs(g)), np.max(np.abs(g))) for g in gaps])
            mean = np.mean(errors, axis=0)
            print(f"{rho:5.2f} {sigma:6.2f}" + "".join(f"{s:10.3f} ({m:.2f})" for s, m in mean), flush=True)


def directions() -> None:
    """Sizes of the Newton step's core, with and without conjugate gradients near the solution."""
    print("core  refined  converged  fac: median, largest  seconds: mean, largest")
    for core, refine in ((30, 0), (60, 0), (120, 0), (240, 0), (30, 40), (120, 40)):
        monotone._CORE, monotone._REFINE_MAX = core, refine
        fac, seconds, settled = [], [], 0
        for rho in RHOS:
            for sigma in SIGMAS:
                for seed in DIRECTION_SEEDS:
                    X, y = ar_set(rho, sigma, seed)
                    begin = time.perf_counter()
                    r = fit_sites(Data.from_rows(X, y), np.full(D, SIZE / D), 1.0, sigma**2, tol=TOL)
                    seconds.append(time.perf_counter() - begin)
                    fac.append(r.n_fac)
                    settled += r.converged
        times = f"{np.mean(seconds):10.2f} {max(seconds):8.2f}"
        print(f"{core:4d} {refine:8d} {settled:7d}/16 {np.median(fac):9.1f} {max(fac):8d} {times}", flush=True)


if __name__ == "__main__":
    {"paper": paper, "large": large, "accuracy": accuracy, "directions": directions}[sys.argv[1]]()
