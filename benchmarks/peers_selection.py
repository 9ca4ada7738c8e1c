"""SpikeSlab compared with its peers on the same simulated data: selection, calibration, prediction, coverage, time.

    python -m benchmarks.peers_selection [--quick] [--out FOLDER] [--limit 60]

scikit-learn's ARDRegression and LassoCV, R's susieR where R has it, our own Gibbs sampler and, where columns are few,
the sum over all inclusion patterns: both at the hyperparameters that SpikeSlab learned. Eight columns matter (five of
twenty) and explain half of the variance. A fit is given up after `--limit` seconds of processor time.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import common, measures, peers_data, peers_r
from benchmarks.peers_data import Problem
from benchmarks.peers_ridge import scaled, scikit, with_r
from benchmarks.peers_run import (
    Case,
    Fit,
    Method,
    case_table,
    reliability_table,
    run_case,
    timed,
    values,
    where_we_lose,
)
from pybayesridge import SpikeSlab

PACKAGES = ["pybayesridge", "numpy", "scipy", "scikit-learn", "numba"]
OURS = "SpikeSlab"
HAS_NUMBA = importlib.util.find_spec("numba") is not None
DRAWS = 500
"""Of the Gibbs sampler."""
MOST_PATTERNS, MOST_AVERAGED = 20, 1000
"""Columns up to which all patterns are summed over, and hyperparameters averaged over."""
FULL = (
    Case("independent", 60, 20, 12, 5, 0.5),
    Case("independent", 100, 300, 6, 8, 0.5),
    Case("AR(0.9)", 100, 300, 6, 8, 0.5),
    Case("genotypes", 200, 300, 6, 8, 0.5),
    Case("Bernoulli", 150, 300, 6, 8, 0.5),
    Case("expression", 71, 4000, 2, 8, 0.5),
)
QUICK = (
    Case("AR(0.9)", 40, 12, 3, 5, 0.5),
    Case("independent", 60, 60, 2, 8, 0.5),
    Case("AR(0.9)", 60, 60, 2, 8, 0.5),
    Case("genotypes", 80, 60, 2, 8, 0.5),
    Case("expression", 40, 120, 1, 8, 0.5),
    Case("Bernoulli", 80, 60, 2, 8, 0.5),
)
COLUMNS = (
    ("auprc", "AUPRC", 3),
    ("brier", "Brier score", 4),
    ("bias", "expected less true size", 2),
    ("r2", "test R²", 3),
    ("log_density", "log density", 3),
    ("obs_coverage", "coverage, new y", 3),
    ("coef_coverage", "coverage, coefficients", 3),
    ("active_coverage", "active ones alone", 3),
)
SIGNS = {
    "auprc": ("AUPRC", 1),
    "brier": ("Brier score", -1),
    "r2": ("test R²", 1),
    "log_density": ("log density", 1),
}


def spike_slab(hyper: str) -> Method:
    """Ours, hyperparameters learned or averaged over."""

    def run(problem: Problem) -> Fit:
        if hyper == "maximize":
            res, seconds = learned(problem)
        else:
            res, seconds = timed(lambda: SpikeSlab(problem.y, problem.x).fit(hyper=hyper))
        prediction = res.get_prediction(problem.x_test)
        obs = np.asarray(prediction.conf_int(obs=True, alpha=1 - measures.LEVEL))
        coef = np.asarray(res.conf_int(1 - measures.LEVEL))[1:]
        prob = np.asarray(res.inclusion_prob)[1:]
        mean, sd = np.asarray(prediction.predicted_mean), np.asarray(prediction.se_obs)
        return Fit(seconds, mean, sd, obs, coef, prob, prob, bool(res.converged))

    return run


@functools.lru_cache(maxsize=1)
def learned(problem: Problem) -> tuple[Any, float]:
    """The fit whose hyperparameters the sampler and the sum over patterns take, and its seconds."""
    return timed(lambda: SpikeSlab(problem.y, problem.x).fit())


def gibbs(problem: Problem) -> Fit:
    """Draws at the learned hyperparameters, started at EP's answer; the time is that of both."""
    res, seconds = learned(problem)
    start = common.clock()
    draws = res.sample(DRAWS, rng=0, kind="gibbs").to_numpy()
    seconds += common.clock() - start
    prob = np.mean(draws[:, 1:] != 0, axis=0)
    lines = draws[:, :1] + draws[:, 1:] @ problem.x_test.T
    sd = np.sqrt(lines.var(axis=0) + res.noise_var)
    tails = (0.5 - measures.LEVEL / 2, 0.5 + measures.LEVEL / 2)
    coef = np.quantile(draws[:, 1:], tails, axis=0).T
    return Fit(seconds, lines.mean(axis=0), sd, None, coef, prob, prob)


def exact(problem: Problem) -> Fit:
    """The sum over all patterns at the learned hyperparameters; the time is that of both."""
    from benchmarks.paper_ep.enumeration import enumerate_patterns

    res, seconds = learned(problem)
    x, x_test, _ = scaled(problem)
    centre = problem.y.mean()
    prior = np.full(x.shape[1], res.prior_inclusion)
    start = common.clock()
    found = enumerate_patterns(x, problem.y - centre, prior, res.slab_var, res.noise_var)
    seconds += common.clock() - start
    return Fit(seconds, centre + x_test @ found.mean, score=found.inclusion_prob, prob=found.inclusion_prob)


def methods(case: Case, limit: float) -> dict[str, Method]:
    """Every method that is there and can do the case."""
    from sklearn import linear_model

    out: dict[str, Method] = {OURS: spike_slab("maximize"), "Gibbs": gibbs}
    if case.d <= MOST_AVERAGED:
        out["SpikeSlab, averaged"] = spike_slab("average")
    if HAS_NUMBA and case.d <= MOST_PATTERNS:
        out["all patterns"] = exact
    out["ARDRegression"] = scikit(linear_model.ARDRegression)
    out["LassoCV (5 folds)"] = scikit(functools.partial(linear_model.LassoCV, cv=5))
    if peers_r.has("susieR"):
        out["susieR (L = 10)"] = with_r(peers_r.SUSIE, limit)
    return out


def settled(case: dict[str, Any]) -> str:
    """How many fits of each method converged, for those that say."""
    counts = {name: values(case, name, "converged") for name in case["runs"] if name.startswith(("Spike", "susie"))}
    return "Converged: " + ", ".join(f"{name} {int(c.sum())} of {c.size}" for name, c in counts.items()) + "."


def beside_patterns(found: list[dict[str, Any]]) -> str:
    """Errors of the inclusion probabilities against the sum over patterns, where there is one."""
    rows = []
    for case in found:
        truth = case["probs"].get("all patterns")
        for name, probs in case["probs"].items():
            if truth and name != "all patterns":
                gaps = [np.abs(p - t) for p, t in zip(probs, truth, strict=True)]
                mean, most = [g.mean() for g in gaps], [g.max() for g in gaps]
                rows.append([f"{case['case']}: {name}", measures.show(mean), measures.show(most)])
    return common.table(["data and method", "mean error", "largest error"], rows) if rows else "Not run."


def page(found: list[dict[str, Any]]) -> str:
    """The whole page."""
    parts = [
        f"{peers_r.versions(('susieR',))}." + ("" if HAS_NUMBA else " The sum over patterns is left out: no numba."),
        "Means ± standard errors over data sets, the same for all methods; 500 test rows each; active "
        "coefficients normal per standard deviation of the column, half of the variance explained. Time is the "
        "median over sets of the ratio to ours, for the fit alone. SpikeSlab learns its hyperparameters; Gibbs "
        f"({DRAWS} draws after a burn-in of a tenth as many) and the sum over all patterns use these values, and "
        "their times include the fit of SpikeSlab. Scores "
        "for AUPRC are inclusion probabilities if available, otherwise absolute standardised coefficients. Log "
        "density: mean over test rows, of the normal with the method's predictive mean and standard deviation. "
        "Coverage is of 95 % intervals; of the coefficients first all, most of which are zero, then the active ones.",
    ]
    for case in found:
        parts += [f"## {case['case']}, {case['sets']} sets", case_table(case, COLUMNS, OURS), settled(case)]
    parts += [
        "## Calibration of inclusion probabilities",
        "Mean inclusion probability → share of true variables (columns), in bins of the probability; all data.",
        reliability_table(found),
        "The sum over all patterns uses the hyperparameters learned by SpikeSlab. If both have the same error, it is "
        "due to the hyperparameters (or the model) and not to EP. With too many columns for the sum the cause "
        "cannot be determined.",
        "## Comparison with the sum over all patterns",
        "Absolute errors of the inclusion probabilities at the same hyperparameters (those of the others differ, and "
        "their errors with them); means over sets.",
        beside_patterns(found),
        "## Where a peer is better than ours",
        f'"Ours" is {OURS}; all by more than two standard errors.',
        where_we_lose(found, OURS, SIGNS),
    ]
    return "\n\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small data, a few sets of each")
    parser.add_argument("--out", type=Path, help="folder for the page and the numbers")
    parser.add_argument("--limit", type=float, help="seconds of processor time a fit may take")
    args = parser.parse_args()
    common.use_one_thread()
    limit = args.limit or (5.0 if args.quick else 60.0)
    env = common.environment(PACKAGES)
    if HAS_NUMBA:
        exact(peers_data.make("independent", 10, 2, 0, active=1, share=0.5))  # compiles
    folder = args.out or (common.QUICK_RESULTS if args.quick else common.RESULTS)
    found: list[dict[str, Any]] = []
    for case in QUICK if args.quick else FULL:
        found.append(run_case(case, methods(case, limit), limit))
        stored = [{key: value for key, value in one.items() if key != "probs"} for one in found]
        common.save("peers_selection", env, stored, page(found), folder)


if __name__ == "__main__":
    main()
