"""BayesRidge beside its peers on the same simulated data: accuracy, densities, coverage, time.

    python -m benchmarks.peers_ridge [--quick] [--out FOLDER] [--limit 60]

scikit-learn's RidgeCV, BayesianRidge and ARDRegression, fastridge, himalaya, and R's glmnet and MASS where R has
them. All coefficients are non-zero and explain half of the variance. A fit is given up after `--limit` seconds of
processor time. Peers that do not standardise get standardised columns, the time for that not counted.
"""

from __future__ import annotations

import argparse
import functools
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import common, measures, peers_r
from benchmarks.peers_data import Problem
from benchmarks.peers_run import Case, Fit, Method, OverBudgetError, case_table, run_case, timed, where_we_lose
from pybayesridge import BayesRidge

PACKAGES = ["pybayesridge", "numpy", "scipy", "scikit-learn", "fastridge", "himalaya"]
OURS = "BayesRidge em"
ALPHAS = np.logspace(-4, 6, 100)
"""Penalties for the peers that choose from a grid; ours have their own."""
PATIENCE = 5.0
"""R runs elsewhere: its limit is so many times as long, by the wall clock."""
FULL = (
    Case("independent", 100, 50, 8, None, 0.5),
    Case("AR(0.9)", 100, 200, 8, None, 0.5),
    Case("genotypes", 200, 500, 8, None, 0.5),
    Case("Bernoulli", 150, 100, 8, None, 0.5),
    Case("expression", 71, 4000, 3, None, 0.5),
)
QUICK = (
    Case("independent", 60, 20, 3, None, 0.5),
    Case("AR(0.9)", 60, 80, 3, None, 0.5),
    Case("genotypes", 80, 100, 3, None, 0.5),
    Case("expression", 40, 300, 2, None, 0.5),
    Case("Bernoulli", 80, 50, 3, None, 0.5),
)
COLUMNS = (
    ("r2", "test R²", 3),
    ("log_density", "log density", 3),
    ("obs_coverage", "coverage, new y", 3),
    ("obs_width", "width / noise sd", 2),
    ("coef_coverage", "coverage, coefficients", 3),
)
SIGNS = {"r2": ("test R²", 1), "log_density": ("log density", 1)}


def bayes_ridge(method: str) -> Method:
    """Ours; intervals are Student's or mixtures of these."""

    def run(problem: Problem) -> Fit:
        res, seconds = timed(lambda: BayesRidge(problem.y, problem.x, prior="half-cauchy").fit(method))
        prediction = res.get_prediction(problem.x_test)
        obs = np.asarray(prediction.conf_int(obs=True, alpha=1 - measures.LEVEL))
        coef = np.asarray(res.conf_int(1 - measures.LEVEL))[1:]
        mean, sd = np.asarray(prediction.predicted_mean), np.asarray(prediction.se_obs)
        return Fit(seconds, mean, sd, obs, coef, converged=bool(res.converged))

    return run


def scaled(problem: Problem) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Columns with mean 0 and standard deviation 1 in the training rows, the test rows likewise, and the scale."""
    centre, scale = problem.x.mean(axis=0), problem.x.std(axis=0)
    return (problem.x - centre) / scale, (problem.x_test - centre) / scale, scale


def scikit(make: Callable[[], Any]) -> Method:
    """A scikit-learn model on standardised columns; those that have a posterior give normal intervals."""

    def run(problem: Problem) -> Fit:
        x, x_test, scale = scaled(problem)
        fit, seconds = timed(lambda: make().fit(x, problem.y))
        if not hasattr(fit, "sigma_"):
            return Fit(seconds, fit.predict(x_test), score=np.abs(fit.coef_))
        mean, sd = fit.predict(x_test, return_std=True)
        kept = getattr(fit, "threshold_lambda", np.inf) > fit.lambda_
        coef_sd = np.zeros(scale.size)
        coef_sd[np.broadcast_to(kept, scale.shape)] = np.sqrt(np.maximum(np.diag(fit.sigma_), 0))
        coef = measures.normal_intervals(fit.coef_, coef_sd) / scale[:, None]
        return Fit(seconds, mean, sd, coef=coef, score=np.abs(fit.coef_))

    return run


def predicting(make: Callable[[Problem], Any]) -> Method:
    """A model with fit and predict for standardised columns and a centred response, and nothing else."""

    def run(problem: Problem) -> Fit:
        x, x_test, _ = scaled(problem)
        centre = problem.y.mean()
        fit, seconds = timed(lambda: make(problem).fit(x, problem.y - centre))
        return Fit(seconds, np.asarray(fit.predict(x_test)).ravel() + centre)

    return run


def with_r(code: str, limit: float) -> Method:
    """A package of R's; all it says is what the code writes."""

    def run(problem: Problem) -> Fit:
        try:
            out = peers_r.run(code, problem.x, problem.y, problem.x_test, PATIENCE * limit)
        except subprocess.TimeoutExpired:
            raise OverBudgetError from None
        prob = out.get("prob")
        coef = out["coef"].reshape(2, -1).T if "coef" in out else None
        converged = bool(out.get("converged", np.ones(1))[0])
        return Fit(float(out["seconds"][0]), out["mean"], out.get("sd"), None, coef, prob, prob, converged)

    return run


def himalaya(problem: Problem) -> Any:
    """Its ridge, with the kernel where there are more columns than rows, as its manual advises."""
    from himalaya.kernel_ridge import KernelRidgeCV
    from himalaya.ridge import RidgeCV

    if problem.x.shape[1] > problem.x.shape[0]:
        return KernelRidgeCV(alphas=ALPHAS, kernel="linear", cv=5)
    return RidgeCV(alphas=ALPHAS, cv=5)


def methods(limit: float) -> dict[str, Method]:
    """Every method that is there."""
    import fastridge
    from sklearn import linear_model

    out = {f"BayesRidge {name}": bayes_ridge(name) for name in ("em", "exact", "loocv")}
    out["RidgeCV (LOO)"] = scikit(functools.partial(linear_model.RidgeCV, alphas=ALPHAS))
    out["BayesianRidge"] = scikit(linear_model.BayesianRidge)
    out["ARDRegression"] = scikit(linear_model.ARDRegression)
    out["fastridge RidgeEM"] = predicting(lambda _: fastridge.RidgeEM())
    out["fastridge RidgeLOOCV"] = predicting(lambda _: fastridge.RidgeLOOCV(alphas=ALPHAS))
    out["himalaya (5 folds)"] = predicting(himalaya)
    if peers_r.has("glmnet"):
        out["cv.glmnet (10 folds)"] = with_r(peers_r.GLMNET, limit)
    if peers_r.has("MASS"):
        out["MASS lm.ridge (GCV)"] = with_r(peers_r.MASS, limit)
    return out


def page(found: list[dict[str, Any]]) -> str:
    """The whole page."""
    parts = [
        f"{peers_r.versions(('glmnet', 'MASS'))}.",
        "Means ± standard errors over data sets, the same for all methods; 500 test rows each; all coefficients "
        "normal per standard deviation of the column, half of the variance explained. Time is the median over sets "
        "of the ratio to ours, for the fit alone: ours computes standard deviations and intervals on demand, "
        "BayesianRidge and ARDRegression immediately. Log density: mean over test rows, of the normal with the "
        "method's predictive mean and standard deviation. Coverage is of 95 % intervals. BayesRidge has the paper's "
        'half-Cauchy prior (`prior="half-cauchy"`).',
    ]
    for case in found:
        parts += [f"## {case['case']}, {case['sets']} sets", case_table(case, COLUMNS, OURS)]
    parts += ["## Where a peer is better than ours", f'"Ours" is {OURS}; all by more than two standard errors.']
    parts.append(where_we_lose(found, OURS, SIGNS))
    return "\n\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small data, three sets of each")
    parser.add_argument("--out", type=Path, help="folder for the page and the numbers")
    parser.add_argument("--limit", type=float, help="seconds of processor time a fit may take")
    args = parser.parse_args()
    common.use_one_thread()
    limit = args.limit or (5.0 if args.quick else 60.0)
    env = common.environment(PACKAGES)
    folder = args.out or (common.QUICK_RESULTS if args.quick else common.RESULTS)
    found: list[dict[str, Any]] = []
    for case in QUICK if args.quick else FULL:
        found.append(run_case(case, methods(limit), limit))
        stored = [{key: value for key, value in one.items() if key != "probs"} for one in found]
        common.save("peers_ridge", env, stored, page(found), folder)


if __name__ == "__main__":
    main()
