"""Yes/no responses: BayesRidge compared with cross-validated ridge logistic regression on random splits of data.

    python -m benchmarks.peers_binary [--quick] [--splits 10] [--out FOLDER]

scikit-learn's LogisticRegressionCV and R's cv.glmnet (where R has it), both with an L2 penalty chosen by the log
score. Each split fits half of the rows (of fair 1000) and predicts the others; simulated data are drawn anew. The
splits are the same for all methods.
"""

from __future__ import annotations

import argparse
import functools
import statistics
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import statsmodels.api as sm
from scipy.special import expit

from benchmarks import common, peers_r
from pybayesridge import BayesRidge

PACKAGES = ["pybayesridge", "numpy", "scipy", "scikit-learn", "statsmodels"]
OURS = "BayesRidge ep"
LIMIT = 300.0
"""Seconds that R may take for a fit."""
TRAIN_FAIR, TEST_ROWS = 1000, 500
LEAST = 1e-15
"""Probabilities of 0 and 1 count as this far from them, which favours the methods that give them."""
GLMNET = """
suppressMessages(library(glmnet))
write("seconds", seconds(fit <- cv.glmnet(x, y, family = "binomial", alpha = 0)))
write("mean", predict(fit, x_test, s = "lambda.min", type = "response"))
"""

Split = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""Columns and responses to fit, and to predict."""


def halves(x: np.ndarray, y: np.ndarray, train: int, rng: np.random.Generator) -> Split:
    """A random split with both outcomes in the rows that are fitted."""
    while True:
        order = rng.permutation(y.size)
        fit, test = order[:train], order[train:]
        if 2 <= y[fit].sum() <= train - 2 and np.ptp(x[fit], axis=0).min() > 0:
            return x[fit], y[fit], x[test], y[test]


def breast_cancer(rng: np.random.Generator) -> Split:
    """569 tumours, 30 measurements."""
    from sklearn.datasets import load_breast_cancer

    x, y = load_breast_cancer(return_X_y=True)
    return halves(x, y.astype(float), y.size // 2, rng)


def spector(rng: np.random.Generator) -> Split:
    """32 students, 3 columns."""
    data = sm.datasets.spector.load_pandas()
    return halves(data.exog.to_numpy(dtype=float), data.endog.to_numpy(dtype=float), 16, rng)


def fair(rng: np.random.Generator) -> Split:
    """6,366 women, 8 columns."""
    data = sm.datasets.fair.load_pandas()
    y = (data.endog.to_numpy() > 0).astype(float)
    return halves(data.exog.to_numpy(dtype=float), y, TRAIN_FAIR, rng)


def simulated(n: int, p: int, rng: np.random.Generator) -> Split:
    """Independent normal columns that all matter and explain half of the latent variance."""
    x = rng.standard_normal((n + TEST_ROWS, p))
    eta = x @ rng.standard_normal(p) * np.sqrt(np.pi**2 / 3 / p)
    y = (rng.random(eta.size) < expit(eta)).astype(float)
    return x[:n], y[:n], x[n:], y[n:]


Data = Callable[[np.random.Generator], Split]
FULL: dict[str, Data] = {
    "breast_cancer, n = 284, p = 30": breast_cancer,
    "spector, n = 16, p = 3": spector,
    "fair, n = 1000, p = 8": fair,
    "simulated, n = 100, p = 5000": functools.partial(simulated, 100, 5000),
}
QUICK: dict[str, Data] = {"spector, n = 16, p = 3": spector, "simulated": functools.partial(simulated, 40, 60)}

Method = Callable[[Split], tuple[float, np.ndarray, bool]]
"""Seconds of the fit, probabilities of the other rows, whether the fit converged."""


def ours(method: str, split: Split) -> tuple[float, np.ndarray, bool]:
    """BayesRidge; the time is that of the fit and of the probabilities, which need the posterior."""
    start = common.clock()
    results = BayesRidge(split[1], split[0], family="binomial").fit(method)
    share = results.predict(split[2]).to_numpy()
    return common.clock() - start, share, bool(results.converged)


def scikit(split: Split) -> tuple[float, np.ndarray, bool]:
    """LogisticRegressionCV on standardised columns: 20 penalties, 5 folds, the best log score."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegressionCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = LogisticRegressionCV(Cs=20, cv=5, scoring="neg_log_loss", max_iter=2000)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        start = common.clock()
        share = make_pipeline(StandardScaler(), model).fit(split[0], split[1]).predict_proba(split[2])[:, 1]
        seconds = common.clock() - start
    return seconds, share, not any(issubclass(one.category, ConvergenceWarning) for one in told)


def glmnet(split: Split) -> tuple[float, np.ndarray, bool]:
    """cv.glmnet, 10 folds, lambda.min."""
    out = peers_r.run(GLMNET, split[0], split[1], split[2], LIMIT)
    return float(out["seconds"][0]), out["mean"], True


def methods() -> dict[str, Method]:
    """Every method that is there."""
    out: dict[str, Method] = {f"BayesRidge {name}": functools.partial(ours, name) for name in ("ep", "laplace")}
    out["LogisticRegressionCV (5 folds)"] = scikit
    if peers_r.has("glmnet"):
        out["cv.glmnet (10 folds)"] = glmnet
    return out


def scores(split: Split, share: np.ndarray) -> dict[str, float]:
    """Mean log probability of the outcomes, and the Brier score."""
    y, safe = split[3], np.clip(share, LEAST, 1.0 - LEAST)
    log = np.where(y == 1, np.log(safe), np.log1p(-safe))
    return {"log_score": float(log.mean()), "brier": float(np.mean((y - share) ** 2))}


def splits_of(data: Data, count: int) -> Iterator[Split]:
    """The same splits for every run."""
    return (data(np.random.default_rng(seed)) for seed in range(count))


def measure(name: str, data: Data, count: int) -> dict[str, Any]:
    """Every method on every split."""
    found: dict[str, list[dict[str, Any]]] = {method: [] for method in methods()}
    for split in splits_of(data, count):
        for method, run in methods().items():
            try:
                seconds, share, converged = run(split)
            except RuntimeError as error:
                found[method].append({"failed": str(error)})
                continue
            found[method].append({"seconds": seconds, "converged": converged, **scores(split, share)})
        print(f"{name}: {len(found[OURS])} of {count}", flush=True)
    return {"data": name, "splits": count, "found": found}


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
            rows.append([method, *["-"] * 4, f"0 of {len(every)}"])
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
                f"{sum(one['converged'] for one in good)} of {len(every)}",
            ]
        )
    head = ["method", f"time / {OURS}", "log score", "log score less ours", "Brier score", "converged"]
    return common.table(head, rows)


def page(found: list[dict[str, Any]]) -> str:
    """The whole page."""
    parts = [
        f"{peers_r.versions(('glmnet',))}.",
        "Means ± standard errors over random splits, the same for all methods; the splits of one data set overlap, "
        "so that the errors are too small. Log score: mean log probability of the outcomes of rows that were not "
        "fitted, the larger the better. Time is the median over splits of the ratio to ours, all with one thread; "
        "R's is its processor time with its own BLAS. BayesRidge has its default prior; LogisticRegressionCV tries "
        "20 penalties on standardised columns and takes the best log score, cv.glmnet its own 100 and `lambda.min`. "
        "rstanarm is not among the peers.",
    ]
    for case in found:
        parts += [f"## {case['data']}, {case['splits']} splits", case_table(case)]
    return "\n\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small data, two splits of each")
    parser.add_argument("--splits", type=int, default=10, help="random splits of each data set")
    parser.add_argument("--out", type=Path, help="folder for the page and the numbers")
    args = parser.parse_args()
    common.use_one_thread()
    env = common.environment(PACKAGES)
    folder = args.out or (common.QUICK_RESULTS if args.quick else common.RESULTS)
    found: list[dict[str, Any]] = []
    for name, data in (QUICK if args.quick else FULL).items():
        found.append(measure(name, data, 2 if args.quick else args.splits))
        common.save("peers_binary", env, found, page(found), folder)


if __name__ == "__main__":
    main()
