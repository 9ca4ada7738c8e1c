"""SpikeSlab compared with its peers on the same simulated data: selection, calibration, prediction, coverage, time.

    python -m benchmarks.peers_selection [--quick] [--out FOLDER] [--limit 60] [--sets 30] [--render | --resume]

SpikeSlab by its exact posterior ("exact") and by expectation propagation ("EP"), R's susieR where R has it, and
scikit-learn's LassoCV. Eight columns matter (five of twenty) and explain half of the variance. A fit is given up
after `--limit` seconds of processor time.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import common, measures, peers_r
from benchmarks.peers_data import Problem
from benchmarks.peers_ridge import scikit, with_r
from benchmarks.peers_run import (
    FEWEST,
    Case,
    Fit,
    Method,
    case_table,
    paired,
    reliability_table,
    run_case,
    timed,
    values,
    where_we_lose,
)
from pybayesridge import SpikeSlab

NAME = "peers_selection"
PACKAGES = ["pybayesridge", "numpy", "scipy", "scikit-learn"]
OURS, SUSIE = "exact", "susieR (L = 10)"
SETS = 30
"""Data sets of a kind."""
FULL = (
    Case("independent", 60, 20, SETS, 5, 0.5),
    Case("independent", 100, 300, SETS, 8, 0.5),
    Case("AR(0.9)", 100, 300, SETS, 8, 0.5),
    Case("genotypes", 200, 300, SETS, 8, 0.5),
    Case("Bernoulli", 150, 300, SETS, 8, 0.5),
    Case("expression", 71, 4000, SETS, 8, 0.5),
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
    ("log_score", "log score", 4),
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
    "log_score": ("log score", -1),
    "r2": ("test R²", 1),
    "log_density": ("log density", 1),
}


def spike_slab(method: str) -> Method:
    """Ours, hyperparameters integrated out or learned."""

    def run(problem: Problem) -> Fit:
        res, seconds = timed(lambda: SpikeSlab(problem.y, problem.x).fit(method))
        prediction = res.get_prediction(problem.x_test)
        obs = np.asarray(prediction.conf_int(obs=True, alpha=1 - measures.LEVEL))
        coef = np.asarray(res.conf_int(1 - measures.LEVEL))[1:]
        prob = np.asarray(res.inclusion_prob)[1:]
        mean, sd = np.asarray(prediction.predicted_mean), np.asarray(prediction.se_obs)
        return Fit(seconds, mean, sd, obs, coef, prob, prob, bool(res.converged))

    return run


def methods(limit: float) -> dict[str, Method]:
    """Every method that is there."""
    from sklearn import linear_model

    out: dict[str, Method] = {OURS: spike_slab("exact"), "EP": spike_slab("ep")}
    out["LassoCV (5 folds)"] = scikit(functools.partial(linear_model.LassoCV, cv=5))
    if peers_r.has_susie():
        out[SUSIE] = with_r(peers_r.SUSIE, limit)
    return out


def settled(case: dict[str, Any]) -> str:
    """How many fits of each method converged, for those that say."""
    counts = {name: values(case, name, "converged") for name in case["runs"] if not name.startswith("Lasso")}
    return "Converged: " + ", ".join(f"{name} {int(c.sum())} of {c.size}" for name, c in counts.items()) + "."


def against_susie(found: list[dict[str, Any]]) -> str:
    """Paired differences of Brier and log score, and the ratio of times, ours to susieR's."""
    rows = []
    for case in found:
        if not case["runs"].get(SUSIE):
            continue
        mine, theirs = paired(case, OURS, SUSIE, "seconds")
        row = [case["case"], f"{mine.size} of {case['sets']}"]
        for key in ("brier", "log_score"):
            of_mine, of_theirs = paired(case, OURS, SUSIE, key)
            row.append(measures.show(of_mine - of_theirs, 4, sign=True))
        rows.append([*row, f"{np.median(mine / theirs):.2f}"])
    head = ["data", "sets", "Brier score, exact less susieR", "log score, exact less susieR", "time, exact / susieR"]
    return common.table(head, rows) if rows else "R's susieR was absent."


WIDE = 1000
"""Columns from which the aim is to be as fast as susieR."""


def aims(found: list[dict[str, Any]]) -> str:
    """The project's aims beside what was measured."""
    compared = [case for case in found if case["runs"].get(SUSIE)]
    rows = []
    for key, what in (("brier", "Brier score"), ("log_score", "log score")):
        gaps = [mine - theirs for mine, theirs in (paired(case, OURS, SUSIE, key) for case in compared)]
        gaps = [gap for gap in gaps if gap.size >= FEWEST]
        beyond = [2.0 * float(gap.std(ddof=1)) / np.sqrt(gap.size) for gap in gaps]
        worse, better = (sum(sign * g.mean() > e for g, e in zip(gaps, beyond, strict=True)) for sign in (1, -1))
        said = f"worse on {worse}, better on {better} of {len(gaps)}, by more than two standard errors"
        rows.append([what, "no worse than susieR's on any design, better on most", said])
    for case in compared:
        if int(case["case"].rsplit("= ", 1)[1]) >= WIDE:
            mine, theirs = paired(case, OURS, SUSIE, "seconds")
            rows.append([f"time, {case['case']}", "no more than susieR's", f"{np.median(mine / theirs):.1f} times"])
    return common.table(["", "aim", "measured"], rows)


def page(found: list[dict[str, Any]]) -> str:
    """The whole page."""
    parts = [
        peers_r.susie_versions(),
        "Means ± standard errors over data sets, the same for all methods; 500 test rows each; active "
        "coefficients normal per standard deviation of the column, half of the variance explained. Time is the "
        'median over sets of the ratio to ours, for the fit alone. "exact" integrates the hyperparameters out; EP '
        "learns them. The log score is minus the log probability of what is true, a mean over columns with "
        f"probabilities bounded by {measures.LEAST_PROBABILITY:g}; less is better, as for the Brier score. Scores "
        "for AUPRC are inclusion probabilities if available, otherwise absolute standardised coefficients. Log "
        "density: mean over test rows, of the normal with the method's predictive mean and standard deviation. "
        "Coverage is of 95 % intervals; of the coefficients first all, most of which are zero, then the active ones.",
        "## Compared with susieR",
        "Paired over data sets; negative differences are in favour of ours.",
        against_susie(found),
        "### Aims",
        aims(found),
        "On time: susieR approximates the posterior by a product of single effects, in some ten passes over the "
        "columns. The exact method draws sets of columns, which change by one column in a step, until no inclusion "
        "probability has a Monte Carlo standard error above 0.01: a probability of one half needs 2,500 independent "
        "draws. EP needs none and is between the two.",
    ]
    for case in found:
        parts += [f"## {case['case']}, {case['sets']} sets", case_table(case, COLUMNS, OURS), settled(case)]
    parts += [
        "## Calibration of inclusion probabilities",
        "Mean inclusion probability → share of true variables (columns), in bins of the probability; all data.",
        reliability_table(found),
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
    parser.add_argument("--sets", type=int, help="data sets of each kind")
    parser.add_argument("--seconds", type=float, default=np.inf, help="processor time of a kind of data")
    parser.add_argument("--render", action="store_true", help="write the page again from stored numbers")
    parser.add_argument("--resume", action="store_true", help="keep the kinds of data that are stored")
    args = parser.parse_args()
    folder = args.out or (common.QUICK_RESULTS if args.quick else common.RESULTS)
    if args.render:
        stored = json.loads((folder / f"{NAME}.json").read_text(encoding="utf-8"))
        common.save(NAME, stored["environment"], stored["results"], page(stored["results"]), folder)
        return
    common.use_one_thread()
    limit = args.limit or (5.0 if args.quick else 60.0)
    env = common.environment(PACKAGES)
    path = folder / f"{NAME}.json"
    found: list[dict[str, Any]] = []
    if args.resume and path.exists():
        found = json.loads(path.read_text(encoding="utf-8"))["results"]
    for case in QUICK if args.quick else FULL:
        sized = dataclasses.replace(case, sets=args.sets or case.sets)
        if any(one["case"] == sized.name for one in found):
            continue
        found.append(run_case(sized, methods(limit), limit, args.seconds))
        stored = [{key: value for key, value in one.items() if key != "probs"} for one in found]
        common.save(NAME, env, stored, page(found), folder)


if __name__ == "__main__":
    main()
