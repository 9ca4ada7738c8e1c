"""The page of ``peers_binary.py``."""

from __future__ import annotations

import statistics
from typing import Any

import numpy as np

from benchmarks import common, peers_r

OURS = "BayesRidge ep"
"""What the others are compared with."""

MOST_FOR_STAN = 100
"""Columns of data to which stan_glm is fitted, at most: with more NUTS takes hours."""


def mean_and_error(values: list[float], digits: int) -> str:
    """Mean ± standard error."""
    error = statistics.stdev(values) / np.sqrt(len(values)) if len(values) > 1 else float("nan")
    return f"{statistics.fmean(values):.{digits}f} ± {error:.{digits}f}"


def case_table(case: dict[str, Any]) -> str:
    """A row for each method."""
    rows = []
    for method, every in case["found"].items():
        pairs = [
            (one, first)
            for one, first in zip(every, case["found"][OURS], strict=True)
            if "failed" not in one and "failed" not in first
        ]
        if not pairs:
            rows.append([method, *["-"] * 5, f"0 of {len(every)}"])
            continue
        good = [one for one, _ in pairs]
        ratio = statistics.median(one["seconds"] / first["seconds"] for one, first in pairs)
        median = common.show_seconds(statistics.median(one["seconds"] for one in good))
        less = [one["log_score"] - first["log_score"] for one, first in pairs]
        rows.append(
            [
                method,
                f"{ratio:.2f} ({median})",
                mean_and_error([one["log_score"] for one in good], 4),
                "0" if method == OURS else mean_and_error(less, 4),
                mean_and_error([one["brier"] for one in good], 4),
                mean_and_error([100 * one["coverage"] for one in good], 1) if "coverage" in good[0] else "-",
                f"{sum(one['converged'] for one in good)} of {len(every)}",
            ]
        )
    head = ["method", f"time / {OURS}", "log score", "log score less ours", "Brier score", "coverage, %", "converged"]
    return common.table(head, rows)


def scaling_table(sizes: list[dict[str, Any]]) -> str:
    """Seconds, and how often our time LogisticRegressionCV's is."""
    names = list(sizes[0]["seconds"])
    rows = []
    for one in sizes:
        seconds = one["seconds"]
        ratio = f"{seconds[OURS] / seconds[names[-1]]:.2f}"
        rows.append(
            [f"{one['n']:,}", f"{one['p']:,}", *(common.show_seconds(seconds[name]) for name in names), ratio]
        )
    return common.table(["n", "p", *names, f"{OURS} / {names[-1]}"], rows)


def score_less_ours(found: dict[str, Any], method: str) -> str:
    """Log score of a method less ours: mean over data sets, and on how many it is below zero."""
    means = []
    for case in found["data"]:
        pairs = zip(case["found"][method], case["found"][OURS], strict=True)
        less = [one["log_score"] - mine["log_score"] for one, mine in pairs if "failed" not in one]
        means += [statistics.fmean(less)] if less else []
    return f"{statistics.fmean(means):.4f} ({sum(m < 0 for m in means)} of {len(means)} below 0)" if means else "-"


def aims_table(found: dict[str, Any]) -> str:
    """The project's aims beside what was measured."""
    rows = [
        [f"log score of {name} less ours, mean over data", "< 0", score_less_ours(found, name)]
        for name in found["data"][0]["found"]
        if name.startswith(("Logistic", "cv."))
    ]
    for one in found["scaling"]:
        ours, theirs = one["seconds"][OURS], one["seconds"]["LogisticRegressionCV"]
        if (one["n"], one["p"]) == (5000, 100):
            rows.append([f"time, n = 5000, p = 100: {OURS} / LogisticRegressionCV", "0.1", f"{ours / theirs:.2f}"])
        if (one["n"], one["p"]) == (200, 20000):
            rows.append([f"time, n = 200, p = 20000: {OURS}", "2 s", common.show_seconds(ours)])
    return common.table(["", "aim, at most", "measured"], rows)


def page(found: dict[str, Any]) -> str:
    """The whole page."""
    parts = [
        f"{peers_r.versions(('glmnet', 'rstanarm'))}.",
        "Means ± standard errors over random splits, the same for all methods; the splits of one data set overlap, "
        "so that the errors are too small. Log score: mean log probability of the outcomes of rows that were not "
        "fitted, the larger the better. Time is the median over splits of the ratio to ours, all with one thread; "
        "R's is its processor time with its own BLAS. BayesRidge has its default prior; LogisticRegressionCV tries "
        "20 penalties on standardised columns and takes the best log score, cv.glmnet its own 100 and `lambda.min`; "
        "stan_glm has rstanarm's defaults on standardised columns, and is left out with more than "
        f"{MOST_FOR_STAN} columns. Coverage: share of the true probabilities of new rows in their 95 % intervals, "
        "for simulated data, whose coefficients are normal.",
    ]
    for case in found["data"]:
        parts += [f"## {case['data']}, {case['splits']} splits", case_table(case)]
    if found["scaling"]:
        parts += [
            "## Time and size",
            "One simulated data set of each size; fit and probabilities of 500 rows.",
            scaling_table(found["scaling"]),
            "## Aims",
            aims_table(found),
            "EP misses its aim of time at 5000 × 100: it is run at a dozen values of the penalty or more, each with "
            "a few factorisations of a matrix with as many rows as min(n, p), where LogisticRegressionCV fits a "
            "hundred modes by L-BFGS, and the quantiles of every coefficient are those of the mixture over these "
            "values. "
            'Laplace\'s method ("laplace") needs fewer factorisations.',
        ]
    return "\n\n".join(parts)
