"""Groups of columns: how close EP comes to the exact posterior, and whether it settles.

    python -m benchmarks.ep_groups [--quick] [--out FOLDER] [--render] [--only PART ...]

Accuracy: 7 groups of 16 columns, compared with the sum over all 128 models. Convergence: 200 problems with 10 to 40
rows and 25 to 60 correlated columns. In the coordinates "rotated", which are those of SpikeSlab, the columns of each
group are orthogonal; in the original ones EP works on the columns themselves. Hyperparameters are the true ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
from scipy.special import logsumexp

from benchmarks.common import run_parts, table
from pybayesridge.ep import Data, covariance, fit_sites
from pybayesridge.ep.model.likelihood import GaussianLikelihood
from pybayesridge.ep.model.rotation import Rotation, orthogonal_groups

SIZES = (3, 1, 2, 4, 1, 3, 2)
#: Rows, correlation within and between groups, noise.
CASES = ((40, 0.0, 0.0, 1.0), (40, 0.5, 0.0, 1.0), (40, 0.9, 0.5, 1.0), (15, 0.9, 0.3, 0.5))
SETS, QUICK = 50, 3
RUNS = (("ep", True, 200), ("ep", False, 200), ("damped", True, 200), ("pcep", True, 20))
"""Method, coordinates, problems."""
PRIOR = 0.3
PACKAGES = ["pybayesridge", "numpy", "scipy"]


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


ERRORS = ("log evidence", "inclusion probability", "mean", "covariance")


def errors(case, seed, rotated) -> tuple[float, ...]:
    """Errors of EP relative to the sum over all models: `ERRORS`."""
    X, y, groups = small_set(case, seed)
    evidence, inclusion, mean, cov = enumerated(X, y, groups, PRIOR, case[3] ** 2)
    data, rotation = coordinates(X, y, groups, rotated)
    likelihood = GaussianLikelihood(data, case[3] ** 2)
    r = fit_sites(likelihood, np.full(groups.size, PRIOR), 1.0, groups=groups)
    mine = rotation.covariance(covariance(likelihood, r))
    return (
        abs(r.log_evidence - evidence),
        np.max(np.abs(r.inclusion_prob - inclusion[groups])),
        np.max(np.abs(rotation.back(r.mean) - mean)),
        np.linalg.norm(mine - cov) / np.linalg.norm(cov),
    )


def accuracy(quick: bool) -> Iterator[tuple[str, Any]]:
    """Median and largest errors for each case and kind of coordinates."""
    for case in CASES:
        for rotated in (True, False):
            found = [errors(case, seed, rotated) for seed in range(QUICK if quick else SETS)]
            coordinate = "rotated" if rotated else "original"
            yield (
                f"{case[0]}, {case[1]}, {case[2]}, {case[3]}, {coordinate}",
                {
                    "sets": len(found),
                    "median": np.median(found, axis=0).tolist(),
                    "largest": np.max(found, axis=0).tolist(),
                },
            )


def settles(quick: bool) -> Iterator[tuple[str, Any]]:
    """How many runs converge, their cost, and in how many the energy rose."""
    for method, rotated, count in RUNS:
        count = min(count, QUICK) if quick else count
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
        yield (
            f"{method}, {'rotated' if rotated else 'original'}",
            {
                "converged": settled,
                "of": count,
                "median": float(np.median(fac)),
                "largest": int(max(fac)),
                "rises": rises,
            },
        )


def page(found: dict[str, Any]) -> str:
    """The tables of the parts that there are."""
    parts = []
    if found.get("accuracy"):
        rows = [
            [
                *setting.split(", "),
                *(f"{m:.4f} ({w:.2f})" for m, w in zip(each["median"], each["largest"], strict=True)),
            ]
            for setting, each in found["accuracy"].items()
        ]
        sets = next(iter(found["accuracy"].values()))["sets"]
        parts += [
            "Seven groups with 16 columns in total, two groups with non-zero coefficients: error of EP relative to "
            f"the sum over all 128 models, median over {sets} data sets, in parentheses the largest. The error of "
            "inclusion probabilities and means is the largest over columns, that of the covariance is relative.",
            table(["n", "within", "between", "sigma", "coordinates", *ERRORS], rows),
        ]
    if found.get("convergence"):
        rows = [
            [
                *setting.split(", "),
                f"{e['converged']} of {e['of']}",
                f"{e['median']:g}",
                f"{e['largest']:,}",
                e["rises"],
            ]
            for setting, e in found["convergence"].items()
        ]
        parts += [
            "Problems with 10 to 40 rows, 25 to 60 columns and correlations up to 0.99 within groups. The cost is in "
            "covariance evaluations (fac); in the last column is the number of runs in which the energy rose.",
            table(["method", "coordinates", "converged", "fac, median", "fac, largest", "energy rose"], rows),
        ]
    return "\n\n".join(parts)


if __name__ == "__main__":
    run_parts(__doc__, "ep_groups", PACKAGES, page, {"accuracy": accuracy, "convergence": settles})
