"""Calibration of the exact selection: standard errors of the sampler, and what is said compared with what is true.

    python -m benchmarks.selection_calibration [--quick] [--out FOLDER] [--render] [--only PART ...]

Standard errors: many short runs of the sampler on problems whose sets can be summed over, a few of them again and
again, and many once; each error of a probability, mean or standard deviation is divided by its standard error, and
the quotients should be standard normal. Fits with different seeds to data sets in which far larger sets have a part
of the probability are compared with a run that is ten times as long.
Calibration:
hyperparameters, sets, coefficients and responses are drawn from the model, its prior included, and fitted;
probabilities should be frequencies, and intervals should hold the truth as often as they say. The prior of the noise
is flat in its logarithm, so that its scale does not matter and the noise variance is 1 in all draws.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit, logit, stdtr
from scipy.stats import chi2

from benchmarks import common
from benchmarks.selection_calibration_page import page
from pybayesridge.selection.collapsed import spectra
from pybayesridge.selection.enumeration import enumerate_sets, joint_table
from pybayesridge.selection.fit import fit_exact
from pybayesridge.selection.grid import Given, Grid, grid_of
from pybayesridge.selection.problem import Problem, problem_of_rows
from pybayesridge.selection.result import Exact
from pybayesridge.selection.states import States, mean_noise

NAME = "selection_calibration"
PACKAGES = ["pybayesridge", "numpy", "scipy"]
LEVEL = 0.95
BINS = (0.0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0)
ROUNDING = 1e-9
LEAST_SE = 1e-5
"""Errors and standard errors that are both smaller, of probabilities or in posterior standard deviations, are not
looked at."""

STOPS = ((0.0, 100_000), (0.0, 400_000), (0.02, 10_000_000), (0.05, 10_000_000))
"""The largest standard error and the steps at which runs of the different problems end."""


DENSE = {"n": 100, "d": 300, "share": 0.5, "active": 5}
"""Rows, columns, share of the variance explained, columns that matter."""

QUICK_DENSE = {"n": 40, "d": 50, "share": 0.5, "active": 3}

NEIGHBOURS = (0.9, 0.99)
"""Correlations of neighbouring columns."""

LONGER = 10
"""Times the steps of the longest of several fits that the run takes with which they are compared."""


@dataclass(frozen=True, slots=True)
class Short:
    """A problem for short runs: `runs` of them with so many steps of all chains, or until `mcse`."""

    problem: Problem
    given: Given
    runs: int
    steps: int
    mcse: float = 0.0


@dataclass(frozen=True, slots=True)
class Prior:
    """A setting for draws from the prior.

    Attributes
    ----------
    d : int
    rows : tuple of int
        Numbers of rows, taken in turn.
    rho : float
        Correlation of neighbouring columns.
    sets : int
    """

    d: int
    rows: tuple[int, ...]
    rho: float
    sets: int


def autoregressive(n: int, d: int, rho: float, rng: np.random.Generator) -> np.ndarray:
    """Centred AR(1) columns of mean square 1."""
    x = rng.standard_normal((n, d))
    for j in range(1, d):
        x[:, j] = rho * x[:, j - 1] + np.sqrt(1 - rho**2) * x[:, j]
    x -= x.mean(axis=0)
    return x / np.sqrt((x**2).mean(axis=0))


def short_problem(n: int, d: int, rho: float, *, twins: float = 0.0, groups: bool = False) -> Problem:
    """AR(1) columns of which three matter; with `twins` the second column is the first plus that much noise."""
    rng = np.random.default_rng([n, d])
    x = autoregressive(n, d, rho, rng)
    if twins:
        x[:, 1] = x[:, 0] + twins * x[:, 1]
    y = 0.6 * x[:, 0] - 0.5 * x[:, 3] + 0.4 * x[:, d - 1] + rng.standard_normal(n)
    labels = np.repeat(np.arange(d), 2)[:d] if groups else None
    return problem_of_rows(x, y - y.mean(), nu=n - 1, labels=labels)


def short_cases(quick: bool) -> dict[str, Short]:
    """Problems with near copies, groups, strong correlation, everything learned or given."""
    runs, steps = (lambda full: 4 if quick else full), 50_000 if quick else 100_000
    copies = short_problem(40, 10, 0.5, twins=0.05)
    given = Given(np.full(10, 0.25), 0.5, 1.0)
    some = Given(np.linspace(0.05, 0.5, 12))
    return {
        "near copies, all learned": Short(copies, Given(), runs(250), steps),
        "near copies, all given": Short(copies, given, runs(400), steps),
        "groups of two, all learned": Short(short_problem(40, 12, 0.8, groups=True), Given(), runs(50), steps),
        "AR(0.95), given probabilities": Short(short_problem(60, 12, 0.95), some, runs(130), steps),
        "wide (6 rows, 10 columns), all learned": Short(short_problem(6, 10, 0.5), Given(), runs(130), steps),
        "near copies, all learned, stopped at 0.02": Short(copies, Given(), runs(40), 10_000_000, 0.02),
    }


def dense_problem(seed: int, *, n: int, d: int, rho: float, share: float, active: int) -> Problem:
    """AR(1) columns of which few explain a share of the variance of the response."""
    rng = np.random.default_rng([seed, n, d])
    x = autoregressive(n, d, rho, rng)
    coef = np.zeros(d)
    coef[rng.choice(d, active, replace=False)] = rng.choice([-1.0, 1.0], active)
    signal = x @ coef
    y = signal + signal.std() * np.sqrt(1 / share - 1) * rng.standard_normal(n)
    return problem_of_rows(x, y - y.mean(), nu=n - 1)


def seeds_and_long_run(problem: Problem, seeds: int) -> dict[str, Any]:
    """Fits with different seeds, and their differences from each other and from a far longer run, in errors."""
    fits, seconds = [], []
    for seed in range(seeds):
        start = time.process_time()
        fits.append(fit_exact(problem, Given(), rng=seed))
        seconds.append(time.process_time() - start)
    steps = LONGER * max(fit.n_iter for fit in fits)
    long = fit_exact(problem, Given(), rng=seeds, mcse=0.0, maxiter=steps)
    size, size_se = (np.array([of(fit) for fit in [*fits, long]]) for of in (expected_size, size_error))
    # The last one is the long run.
    apart = (size[:, None] - size) / np.hypot(size_se[:, None], size_se)
    z = [(fit.unit_prob - long.unit_prob) / np.hypot(fit.unit_se, long.unit_se) for fit in fits]
    return {
        "seeds": seeds,
        "steps": [fit.n_iter for fit in fits],
        "long_steps": long.n_iter,
        "converged": sum(fit.converged for fit in fits),
        "seconds": seconds,
        "size": size[:-1].tolist(),
        "size_se": size_se[:-1].tolist(),
        "long_size": [float(size[-1]), float(size_se[-1])],
        "size_apart": float(np.abs(apart[:-1, :-1]).max()),
        "size_off": apart[:-1, -1].tolist(),
        "prob_off": tails(np.array(z)),
        "largest_gap": float(max(np.abs(fit.unit_prob - long.unit_prob).max() for fit in fits)),
    }


def expected_size(fit: Exact) -> float:
    """Posterior mean of the number of columns in."""
    return float(fit.expected_size)


def size_error(fit: Exact) -> float:
    """Its standard error."""
    assert fit.errors is not None
    return fit.errors.size


def seeds_of_dense_sets(quick: bool, seconds: float) -> list[dict[str, Any]]:
    """Several data sets, or as many as there is processor time for."""
    start, out = time.process_time(), []
    for rho, number in itertools.product(NEIGHBOURS, range(1 if quick else 4)):
        problem = dense_problem(number, rho=rho, **(QUICK_DENSE if quick else DENSE))
        out.append({"rho": rho} | seeds_and_long_run(problem, 3 if quick else 10))
        print(out[-1], file=sys.stderr, flush=True)
        if time.process_time() - start > seconds:
            break
    return out


def small_problem(number: int) -> Short:
    """One of many: 3 to 12 columns, 6 to 120 rows, with and without signals, hyperparameters given in turn."""
    rng = np.random.default_rng([77, number])
    d, n, which = int(rng.integers(3, 13)), int(rng.choice([6, 15, 30, 60, 120])), number % 6
    x = autoregressive(n, d, float(rng.choice([0.0, 0.5, 0.8, 0.95])), rng)
    coef, active = np.zeros(d), int(rng.integers(0, min(d, 4) + 1))
    coef[rng.choice(d, active, replace=False)] = rng.standard_normal(active) * rng.choice([0.2, 0.6, 1.5, 10.0])
    y = x @ coef + rng.standard_normal(n)
    labels = np.arange(d) // 2 if rng.random() < 0.3 and which not in (1, 2, 5) else None
    given = (
        Given(),
        Given(np.full(d, 0.25), 0.5, 1.0),
        Given(rng.uniform(0.05, 0.6, d)),
        Given(None, 1.0, None),
        Given(None, None, 1.0),
        Given(np.full(d, 0.2), None, 1.0),
    )[which]
    mcse, steps = STOPS[int(rng.integers(len(STOPS)))]
    return Short(problem_of_rows(x, y - y.mean(), nu=n - 1, labels=labels), given, 1, steps, mcse)


@dataclass(frozen=True, slots=True)
class Truth:
    """What the sum over all sets gives, and the posterior standard deviations of log g and s2."""

    exact: Exact
    log_g: tuple[float, float]
    noise_var: tuple[float, float]


def truth_of(case: Short) -> Truth:
    """Sum over all sets, each with its own mean of s2."""
    exact = enumerate_sets(case.problem, case.given)
    grid, units = exact.grid, case.problem.units
    sets = [np.flatnonzero(code >> np.arange(units.n) & 1) for code in range(2**units.n)]
    weight = np.exp(joint_table(case.problem, grid) - exact.log_evidence)
    noise = np.empty(weight.shape)
    for i, one in enumerate(spectra(case.problem, [units.columns(units_in) for units_in in sets])):
        left = case.problem.yy - (one.cross**2 / (one.values + grid.k[:, None])).sum(axis=1)
        noise[:, i] = mean_noise(left, case.problem.nu) if grid.noise_var is None else grid.noise_var
    of_node = np.broadcast_to(grid.log_g[:, None], weight.shape)
    return Truth(exact, moments(weight, of_node), moments(weight, noise))


def moments(weight: np.ndarray, values: np.ndarray) -> tuple[float, float]:
    """Weighted mean and standard deviation."""
    mean = float((weight * values).sum())
    return mean, float(np.sqrt((weight * (values - mean) ** 2).sum()))


def quotients(case: Short, seconds: float = np.inf, first: int = 0) -> dict[str, np.ndarray]:
    """Errors in standard errors, by what they are of, (runs, numbers); NaN where both are next to nothing.

    There are fewer runs if they take more than so many seconds of processor time. `first`: seed of the first run.
    """
    start, truth, out = time.process_time(), truth_of(case), []
    for seed in range(first, first + case.runs):
        found = fit_exact(case.problem, case.given, method="sampler", mcse=case.mcse, maxiter=case.steps, rng=seed)
        out.append(of_one_run(found, truth))
        if time.process_time() - start > seconds:
            break
    return {name: np.array([one[name] for one in out]) for name in out[0]}


def of_one_run(found: Exact, truth: Truth) -> dict[str, np.ndarray]:
    """Errors of everything that has a standard error, in these."""
    exact, states, errors = truth.exact, found.states, found.errors
    assert errors is not None
    sd, noise = np.sqrt(exact.var), states.mean_noise()
    pairs = {
        "probabilities": (found.unit_prob - exact.unit_prob, found.unit_se, 1.0),
        "means": (found.mean - exact.mean, errors.mean, sd),
        "standard deviations": (np.sqrt(found.var) - sd, errors.sd, sd),
        "number of units in": (found.expected_size - exact.expected_size, errors.size, 1.0),
        "log g": (found.node_prob @ found.grid.log_g - truth.log_g[0], errors.log_g, truth.log_g[1]),
        "noise variance": (
            states.weight @ noise - truth.noise_var[0],
            float(found.error_of_mean(noise)),
            truth.noise_var[1],
        ),
        "log evidence": (found.log_evidence - exact.log_evidence, found.log_evidence_se, 1.0),
    }
    out = {}
    for name, (gap, error, unit) in pairs.items():
        gap, error, least = np.broadcast_arrays(np.atleast_1d(gap), error, LEAST_SE * np.asarray(unit))
        # What is given has no standard deviation but by rounding.
        least = np.maximum(least, ROUNDING)
        known = ((error > least) | (np.abs(gap) > least)) & (error < np.inf)
        out[name] = gap / np.where(known, np.maximum(error, least), np.nan)
    return out


def standard_errors(quick: bool, seconds: float) -> dict[str, Any]:
    """Moments and tails of the quotients of each problem."""
    out: dict[str, Any] = {}
    for name, case in short_cases(quick).items():
        start = time.process_time()
        z = quotients(case, seconds)
        of = {quantity: tails(values) for quantity, values in z.items() if not np.isnan(values).all()}
        runs = len(z["probabilities"])
        out[name] = {"runs": runs, "steps": case.steps, "of": of, "seconds": time.process_time() - start}
        print(name, out[name], file=sys.stderr, flush=True)
    return out


def errors_of_problems(quick: bool, seconds: float) -> dict[str, Any]:
    """Moments and tails of the quotients of many problems with one run each."""
    start, count, found = time.process_time(), 0, dict[str, list[np.ndarray]]()
    for number in range(6 if quick else 1000):
        for quantity, values in quotients(small_problem(number), first=number).items():
            found.setdefault(quantity, []).append(values.ravel())
        count += 1
        if time.process_time() - start > seconds:
            break
    of = {quantity: tails(np.concatenate(values)) for quantity, values in found.items()}
    return {"runs": count, "of": of, "seconds": time.process_time() - start}


def tails(z: np.ndarray) -> dict[str, float]:
    """Mean, standard deviation and tails of quotients."""
    known = z[~np.isnan(z)]
    return {
        "mean": float(known.mean()),
        "sd": float(np.sqrt((known**2).mean())),
        "beyond_2": float((np.abs(known) > 2).mean()),
        "beyond_3": float((np.abs(known) > 3).mean()),
        "largest": float(np.abs(known).max()),
        "left_out": float(np.isnan(z).mean()),
    }


def truncated_logistic(center: float, low: float, high: float, rng: np.random.Generator) -> float:
    """A draw from the logistic distribution within bounds."""
    ends = expit(np.array([low, high]) - center)
    return center + float(logit(rng.uniform(*ends)))


def draw_of_prior(grid: Grid, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Which columns are in, and all coefficients, for noise with variance 1."""
    prior, d = grid.prior, grid.n_units
    t = truncated_logistic(prior.center, prior.t_low, prior.t_high, rng)
    eta = truncated_logistic(0.0, prior.eta_low, prior.eta_high, rng)
    p = expit(t)
    slab_var = np.exp(eta - prior.log_spread) / p
    inside = rng.random(d) < p
    return inside, inside * rng.standard_normal(d) * np.sqrt(slab_var)


def between(prob: np.ndarray, at: int, uniform: float) -> float:
    """Randomised position of a whole number in its distribution: uniform if the distribution is right."""
    below = np.concatenate([[0.0], np.cumsum(prob)])
    return float(below[min(at, prob.size)] + uniform * (prob[at] if at < prob.size else 0.0))


def one_draw(setting: Prior, seed: int) -> dict[str, Any]:
    """Draw from the model, fit, and compare."""
    rng = np.random.default_rng([seed, setting.d])
    n, d = setting.rows[seed % len(setting.rows)], setting.d
    x = autoregressive(n, d, setting.rho, rng)
    grid = grid_of(problem_of_rows(x, x[:, 0], nu=n - 1), Given())
    inside, coef = draw_of_prior(grid, rng)
    y = x @ coef + rng.standard_normal(n)
    start = time.process_time()
    found = fit_exact(problem_of_rows(x, y - y.mean(), nu=n - 1), Given())
    seconds = time.process_time() - start
    states = found.states
    return {
        "prob": found.unit_prob.round(7).tolist(),
        "in": np.flatnonzero(inside).tolist(),
        "coef_at": [position(states, int(j), float(coef[j])) for j in np.flatnonzero(inside)],
        "noise_at": float(states.weight @ chi2.sf(states.left, states.nu)),
        "size_at": between(found.size_prob, int(inside.sum()), float(rng.random())),
        "converged": bool(found.converged),
        "max_se": found.max_se,
        "steps": found.n_iter,
        "seconds": seconds,
    }


def position(states: States, j: int, value: float) -> float:
    """Posterior probability that a coefficient is less than `value`, given that it is in; NaN if it never is."""
    at = np.flatnonzero(states.columns == j)
    state = states.of_state[at]
    if not at.size:
        return float("nan")
    rows = [states.root[s][i - states.start[s]] for s, i in zip(state, at, strict=True)]
    scale = np.sqrt([row @ row for row in rows] * states.left[state] / states.nu)
    below = stdtr(states.nu, (value - states.coef[at]) / scale)
    return float(states.weight[state] @ below / states.weight[state].sum())


def settings(quick: bool) -> dict[str, Prior]:
    """Few columns, by the sum over all sets, and 200, by the sampler."""
    return {
        "d = 8": Prior(8, (16, 32, 64, 128), 0.8, 8 if quick else 1000),
        "d = 12": Prior(12, (16, 32, 64, 128), 0.8, 4 if quick else 250),
        # Draws with many columns in are rare, and balance what is said of all others.
        "d = 200": Prior(200, (50, 100, 200), 0.8, 2 if quick else 300),
    }


def calibration(setting: Prior, name: str, seconds: float = np.inf) -> dict[str, Any]:
    """All draws of a setting, or as many as there is processor time for."""
    draws, start = [], time.process_time()
    for seed in range(setting.sets):
        draws.append(one_draw(setting, seed))
        if (seed + 1) % 20 == 0:
            print(f"{name}: {seed + 1} of {setting.sets}", file=sys.stderr, flush=True)
        if time.process_time() - start > seconds:
            break
    return summarised(draws, setting)


def summarised(draws: list[dict[str, Any]], setting: Prior) -> dict[str, Any]:
    """Bins of probabilities, coverages with their standard errors, times."""
    prob = np.array([draw["prob"] for draw in draws])
    inside = np.zeros(prob.shape)
    for i, draw in enumerate(draws):
        inside[i, draw["in"]] = 1.0
    active = np.array([len(draw["in"]) for draw in draws], dtype=float)
    # Per draw, since coefficients of one draw are dependent; never in a kept state counts as not covered.
    held = np.array([sum(inside_level(at) for at in draw["coef_at"]) for draw in draws], dtype=float)
    share = held.sum() / active.sum()
    size_at, noise_at = (np.array([draw[key] for draw in draws]) for key in ("size_at", "noise_at"))
    return {
        "sets": len(draws),
        "d": setting.d,
        "rows": list(setting.rows),
        "rho": setting.rho,
        "bins": bins(prob, inside),
        "active": int(active.sum()),
        "active_coverage": [float(share), float(np.sqrt(((held - share * active) ** 2).sum()) / active.sum())],
        "never_seen": int(sum(np.isnan(draw["coef_at"]).sum() for draw in draws)),
        "noise_coverage": mean_and_error([inside_level(at) for at in noise_at]),
        "noise_position": mean_and_error(noise_at),
        "size_coverage": mean_and_error([inside_level(at) for at in size_at]),
        "size_position": mean_and_error(size_at),
        "converged": sum(draw["converged"] for draw in draws),
        "largest_se": max(draw["max_se"] for draw in draws),
        "median_seconds": float(np.median([draw["seconds"] for draw in draws])),
        "most_seconds": max(draw["seconds"] for draw in draws),
    }


def inside_level(at: float) -> bool:
    """Whether a position in a distribution is within its equal-tailed 95 % interval."""
    return abs(at - 0.5) <= LEVEL / 2


def mean_and_error(values: Any) -> list[float]:
    """Mean and its standard error."""
    found = np.asarray(values, dtype=float)
    return [float(found.mean()), float(found.std(ddof=1) / np.sqrt(found.size))]


def bins(prob: np.ndarray, inside: np.ndarray) -> list[dict[str, float]]:
    """Mean probability and frequency in each bin; the error of their difference is over data sets, not columns."""
    out = []
    for low, high in pairwise(BINS):
        mask = (prob >= low) & ((prob < high) | (high == BINS[-1]))
        count = int(mask.sum())
        if not count:
            continue
        gap = ((inside - prob) * mask).sum(axis=1)
        error = float(np.sqrt((gap**2).sum()) / count)
        expected = float(np.sqrt((prob * (1 - prob) * mask).sum()) / count)
        said, true = float(prob[mask].mean()), float(inside[mask].mean())
        out.append(
            {"low": low, "high": high, "columns": count, "said": said, "true": true}
            | {"error": max(error, expected), "z": (true - said) / max(error, expected, 1e-300)}
        )
    return out


PARTS = ("errors", "problems", "seeds", *settings(False))


def measure(part: str, quick: bool, seconds: float) -> Any:
    """One part."""
    if part == "errors":
        return standard_errors(quick, seconds)
    if part == "problems":
        return errors_of_problems(quick, seconds)
    if part == "seeds":
        return seeds_of_dense_sets(quick, seconds)
    return calibration(settings(quick)[part], part, seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a few runs and draws")
    parser.add_argument("--out", type=Path, help="folder for the page and the numbers")
    parser.add_argument("--render", action="store_true", help="write the page again from stored numbers")
    parser.add_argument("--seconds", type=float, default=np.inf, help="processor time of a problem or setting")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    args = parser.parse_args()
    common.use_one_thread()
    folder = args.out or (common.QUICK_RESULTS if args.quick else common.RESULTS)
    stored = folder / f"{NAME}.json"
    kept = json.loads(stored.read_text(encoding="utf-8")) if stored.exists() else {"environment": {}, "results": {}}
    if args.render:
        common.save(NAME, kept["environment"], kept["results"], page(kept["results"], tuple(settings(False))), folder)
        return
    env, found = common.environment(PACKAGES), dict(kept["results"])
    for part in args.only:
        found[part] = measure(part, args.quick, args.seconds)
        common.save(NAME, env, found, page(found, tuple(settings(False))), folder)


if __name__ == "__main__":
    main()
