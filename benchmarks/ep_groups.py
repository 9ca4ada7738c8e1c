"""Groups of columns: how close EP comes to the exact posterior, and whether it settles.

    python benchmarks/ep_groups.py accuracy     7 groups of 16 columns, compared with the sum over all 128 models
    python benchmarks/ep_groups.py settles      200 problems with 10 to 40 rows and 25 to 60 correlated columns

"rotated" is EP in the coordinates in which the columns of each group are orthogonal, as SpikeSlab has it; "as they
are" the same EP on the columns themselves. Hyperparameters are the true ones. "fac" counts covariance evaluations.
"""

from __future__ import annotations

import sys
from itertools import product

import numpy as np
from scipy.special import logsumexp

from pybayesridge.ep import Data, covariance, fit_sites
from pybayesridge.ep.model.likelihood import GaussianLikelihood
from pybayesridge.ep.model.rotation import Rotation, orthogonal_groups

SIZES = (3, 1, 2, 4, 1, 3, 2)
#: Rows, correlation within and between groups, noise.
CASES = ((40, 0.0, 0.0, 1.0), (40, 0.5, 0.0, 1.0), (40, 0.9, 0.5, 1.0), (15, 0.9, 0.3, 0.5))
SETS, PROBLEMS, PCEP_PROBLEMS = 50, 200, 20
PRIOR = 0.3


def columns(rng, n, groups, within, between):
    """Normal columns with such correlations within and between groups."""
    shared = rng.standard_normal((n, groups.max() + 1))[:, groups]
    own = np.sqrt(1.0 - within) * rng.standard_normal((n, groups.size))
    return np.sqrt(between) * rng.standard_normal((n, 1)) + np.sqrt(within - between) * shared + own


def small_set(case, seed):
    """Two of seven groups matter: X, y, groups."""
    n, within, between, sigma = case
    rng = np.random.default_rng([41, seed])
    groups = np.repeat(np.arange(len(SIZES)), SIZES)
    X = columns(rng, n, groups, within, between)
    w = np.where(np.isin(groups, rng.choice(len(SIZES), 2, replace=False)), rng.standard_normal(groups.size), 0.0)
    return X, X @ w + sigma * rng.standard_normal(n), groups


def hard_set(seed):
    """Few rows, many columns in groups of one to six, up to four of which matter: X, y, groups, p, noise variance."""
    rng = np.random.default_rng([43, seed])
    n, d = int(rng.integers(10, 41)), int(rng.integers(25, 61))
    groups = np.repeat(np.arange(d), rng.integers(1, 7, d))[:d]
    within = rng.choice([0.0, 0.5, 0.9, 0.99])
    X = columns(rng, n, groups, within, rng.choice([0.0, 0.5, 0.9]) * within)
    chosen = rng.choice(groups.max() + 1, int(rng.integers(0, 5)), replace=False)
    w = np.where(np.isin(groups, chosen), rng.standard_normal(d), 0.0)
    sigma = 10.0 ** rng.uniform(-2.0, 0.5)
    return X, X @ w + sigma * rng.standard_normal(n), groups, rng.uniform(0.05, 0.5), sigma**2


def enumerated(X, y, groups, p, noise_var):
    """Log evidence, inclusion probabilities of groups, mean and covariance by summing over all models; slab of 1."""
    n, d = X.shape
    logs, patterns, means, seconds = [], [], [], []
    for pattern in product((0.0, 1.0), repeat=groups.max() + 1):
        inside = np.array(pattern)[groups] > 0
        part = X[:, inside]
        marginal = part @ part.T + noise_var * np.eye(n)
        solved = np.linalg.solve(marginal, np.column_stack([y, part]))
        log = -0.5 * (np.linalg.slogdet(2.0 * np.pi * marginal)[1] + y @ solved[:, 0])
        mean, second = np.zeros(d), np.zeros((d, d))
        mean[inside] = part.T @ solved[:, 0]
        second[np.ix_(inside, inside)] = np.eye(inside.sum()) - part.T @ solved[:, 1:]
        logs.append(log + np.sum(np.log(np.where(pattern, p, 1.0 - p))))
        patterns.append(pattern)
        means.append(mean)
        seconds.append(second + np.outer(mean, mean))
    weight = np.exp(np.array(logs) - logsumexp(logs))
    mean = weight @ np.array(means)
    cov = np.einsum("m,mij->ij", weight, np.array(seconds)) - np.outer(mean, mean)
    return logsumexp(logs), weight @ np.array(patterns), mean, cov


def coordinates(X, y, groups, rotated):
    """EP's data and the way back."""
    data = Data.from_rows(X, y)
    return orthogonal_groups(data, groups) if rotated else (data, Rotation())


def accuracy() -> None:
    """Median and largest errors relative to the exact posterior."""
    print("  n within between sigma  coordinates  log evidence (largest)  inclusion (largest)    mean  covariance")
    for case in CASES:
        for rotated in (True, False):
            errors = []
            for seed in range(SETS):
                X, y, groups = small_set(case, seed)
                evidence, inclusion, mean, cov = enumerated(X, y, groups, PRIOR, case[3] ** 2)
                data, rotation = coordinates(X, y, groups, rotated)
                r = fit_sites(GaussianLikelihood(data, case[3] ** 2), np.full(groups.size, PRIOR), 1.0, groups=groups)
                mine = rotation.covariance(covariance(GaussianLikelihood(data, case[3] ** 2), r))
                errors.append(
                    (
                        abs(r.log_evidence - evidence),
                        np.max(np.abs(r.inclusion_prob - inclusion[groups])),
                        np.max(np.abs(rotation.back(r.mean) - mean)),
                        np.linalg.norm(mine - cov) / np.linalg.norm(cov),
                    )
                )
            middle, largest = np.median(errors, axis=0), np.max(errors, axis=0)
            name = "rotated" if rotated else "as they are"
            print(
                f"{case[0]:3d} {case[1]:6.1f} {case[2]:7.1f} {case[3]:5.1f}  {name:>11} {middle[0]:9.4f} "
                f"({largest[0]:.2f}) {middle[1]:12.4f} ({largest[1]:.2f}) {middle[2]:11.4f} {middle[3]:9.3f}",
                flush=True,
            )


def settles() -> None:
    """How many runs converge, their price, and whether an energy ever rose."""
    print("method  coordinates  settled      fac median, largest  rises")
    runs = [
        ("ep", True, PROBLEMS),
        ("ep", False, PROBLEMS),
        ("damped", True, PROBLEMS),
        ("pcep", True, PCEP_PROBLEMS),
    ]
    for method, rotated, count in runs:
        settled, fac, rises = 0, [], 0
        for seed in range(count):
            X, y, groups, p, noise_var = hard_set(seed)
            data, _ = coordinates(X, y, groups, rotated)
            prior = np.full(groups.size, p)
            # Where the double loop needs more, it needs thousands.
            maxiter = 100 if method == "pcep" else 1000
            r = fit_sites(
                GaussianLikelihood(data, noise_var), prior, 1.0, groups=groups, method=method, maxiter=maxiter
            )
            settled += r.converged
            fac.append(r.n_fac)
            energy = r.energy_trace[r.monotone_from :]
            rises += bool(np.any(np.diff(energy) > 1e-9 * (1.0 + np.abs(energy[1:]))))
        name = "rotated" if rotated else "as they are"
        print(
            f"{method:>6} {name:>12} {settled:4d} of {count} {np.median(fac):10.1f} {max(fac):8d} {rises:6d}",
            flush=True,
        )


if __name__ == "__main__":
    {"accuracy": accuracy, "settles": settles}[sys.argv[1] if len(sys.argv) > 1 else "accuracy"]()
