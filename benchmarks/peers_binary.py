"""Yes/no responses: BayesRidge compared with cross-validated ridge logistic regression on random splits of data.

    python -m benchmarks.peers_binary [--quick] [--splits 50] [--out FOLDER] [--render | --resume]

scikit-learn's LogisticRegressionCV and R's cv.glmnet, both with an L2 penalty chosen by the log score, and the
default regression of R's rstanarm, by NUTS (those of R where R has them). Each split fits half of the rows (of fair
1000) and predicts the others; simulated data are drawn anew. The splits are the same for all methods. Times of larger
problems follow, for BayesRidge and LogisticRegressionCV.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import io
import json
import subprocess
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import statsmodels.api as sm
from scipy.special import expit

from benchmarks import common, measures, peers_r
from benchmarks.peers_binary_page import MOST_FOR_STAN, OURS, page
from pybayesridge import BayesRidge

PACKAGES = ["pybayesridge", "numpy", "scipy", "scikit-learn", "statsmodels"]
STAN_GLM = "stan_glm"
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

STAN = """
suppressMessages(library(rstanarm))
center <- colMeans(x); scale <- apply(x, 2, sd)
frame <- function(z) data.frame(sweep(sweep(z, 2, center), 2, scale, "/"))
write("seconds", seconds(fit <- stan_glm(y ~ ., data = data.frame(y = y, frame(x)), family = binomial(),
                                         refresh = 0, cores = 1, seed = 1)))
draws <- posterior_epred(fit, newdata = frame(x_test))
write("mean", colMeans(draws))
write("low", apply(draws, 2, quantile, 0.025)); write("high", apply(draws, 2, quantile, 0.975))
write("converged", max(summary(fit)[, "Rhat"]) < 1.05)
"""


@dataclass(frozen=True, slots=True)
class Split:
    """Columns and responses to fit and to predict; the true probabilities of the latter where they are known."""

    x: np.ndarray
    y: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray
    true: np.ndarray | None = None


@dataclass(frozen=True, slots=True)
class Fit:
    """Seconds of the fit, probabilities of the other rows, whether the fit converged, 95 % intervals (m, 2)."""

    seconds: float
    share: np.ndarray
    converged: bool
    interval: np.ndarray | None = None


def halves(x: np.ndarray, y: np.ndarray, train: int, rng: np.random.Generator) -> Split:
    """A random split with both outcomes in the rows that are fitted."""
    while True:
        order = rng.permutation(y.size)
        fit, test = order[:train], order[train:]
        if 2 <= y[fit].sum() <= train - 2 and np.ptp(x[fit], axis=0).min() > 0:
            return Split(x[fit], y[fit], x[test], y[test])


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


@functools.cache
def of_r(name: str) -> pd.DataFrame:
    """A data set that R ships."""
    code = f"write.csv({name}, row.names = FALSE)"
    done = subprocess.run(["Rscript", "--vanilla", "-e", code], capture_output=True, text=True, check=True)
    return pd.read_csv(io.StringIO(done.stdout))


def mtcars(rng: np.random.Generator) -> Split:
    """32 cars, 6 columns: a manual gearbox or not."""
    data = of_r("mtcars")
    return halves(
        data[["mpg", "disp", "hp", "drat", "wt", "qsec"]].to_numpy(float), data["am"].to_numpy(float), 16, rng
    )


def infert(rng: np.random.Generator) -> Split:
    """248 women, 6 columns: secondary infertility or not."""
    data = of_r("infert")
    names = ["age", "parity", "induced", "spontaneous", "education"]
    x = pd.get_dummies(data[names], columns=["education"], drop_first=True)
    return halves(x.to_numpy(float), data["case"].to_numpy(float), 124, rng)


def esoph(rng: np.random.Generator) -> Split:
    """Cases of cancer and controls, a row for each person, dummies of three ordered factors."""
    data = of_r("esoph")
    x = pd.get_dummies(data[["agegp", "alcgp", "tobgp"]], drop_first=True).to_numpy(float)
    cases, controls = (data[name].to_numpy(int) for name in ("ncases", "ncontrols"))
    rows = np.r_[np.repeat(np.arange(len(x)), cases), np.repeat(np.arange(len(x)), controls)]
    y = np.r_[np.ones(cases.sum()), np.zeros(controls.sum())]
    return halves(x[rows], y, y.size // 2, rng)


def simulated(n: int, p: int, rng: np.random.Generator) -> Split:
    """Independent normal columns that all matter and explain half of the latent variance."""
    x = rng.standard_normal((n + TEST_ROWS, p))
    eta = x @ rng.standard_normal(p) * np.sqrt(np.pi**2 / 3 / p)
    true = expit(eta)
    y = (rng.random(eta.size) < true).astype(float)
    return Split(x[:n], y[:n], x[n:], y[n:], true[n:])


Data = Callable[[np.random.Generator], Split]
FULL: dict[str, Data] = {
    "breast_cancer, n = 284, p = 30": breast_cancer,
    "spector, n = 16, p = 3": spector,
    "mtcars, n = 16, p = 6": mtcars,
    "infert, n = 124, p = 6": infert,
    "esoph, n = 487, p = 11": esoph,
    "fair, n = 1000, p = 8": fair,
    "simulated, n = 50, p = 10": functools.partial(simulated, 50, 10),
    "simulated, n = 100, p = 5000": functools.partial(simulated, 100, 5000),
}
QUICK: dict[str, Data] = {"spector, n = 16, p = 3": spector, "simulated": functools.partial(simulated, 40, 60)}
FROM_R = (mtcars, infert, esoph)
SIZES = (
    (1000, 20),
    (5000, 20),
    (20000, 20),
    (1000, 100),
    (5000, 100),
    (20000, 100),
    (200, 1000),
    (200, 5000),
    (200, 20000),
)
QUICK_SIZES = ((200, 10), (40, 100))

Method = Callable[[Split], Fit]


def ours(method: str, split: Split) -> Fit:
    """BayesRidge; the time is that of the fit and of the probabilities, which need the posterior."""
    start = common.clock()
    results = BayesRidge(split.y, split.x, family="binomial").fit(method)
    share = results.predict(split.x_test).to_numpy()
    seconds = common.clock() - start
    interval = np.asarray(results.get_prediction(split.x_test).conf_int()) if split.true is not None else None
    return Fit(seconds, share, bool(results.converged), interval)


def scikit(split: Split) -> Fit:
    """LogisticRegressionCV on standardised columns: 20 penalties, 5 folds, the best log score."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegressionCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = LogisticRegressionCV(Cs=20, cv=5, scoring="neg_log_loss", max_iter=2000)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        start = common.clock()
        share = make_pipeline(StandardScaler(), model).fit(split.x, split.y).predict_proba(split.x_test)[:, 1]
        seconds = common.clock() - start
    return Fit(seconds, share, not any(issubclass(one.category, ConvergenceWarning) for one in told))


def glmnet(split: Split) -> Fit:
    """cv.glmnet, 10 folds, lambda.min."""
    out = peers_r.run(GLMNET, split.x, split.y, split.x_test, LIMIT)
    return Fit(float(out["seconds"][0]), out["mean"], True)


def stan(split: Split) -> Fit:
    """The defaults of rstanarm's stan_glm on standardised columns: 4 chains, normal priors of scale 2.5."""
    out = peers_r.run(STAN, split.x, split.y, split.x_test, LIMIT)
    interval = np.column_stack([out["low"], out["high"]])
    return Fit(float(out["seconds"][0]), out["mean"], bool(out["converged"][0]), interval)


def methods() -> dict[str, Method]:
    """Every method that is there."""
    out: dict[str, Method] = {f"BayesRidge {name}": functools.partial(ours, name) for name in ("ep", "laplace")}
    out["LogisticRegressionCV (5 folds)"] = scikit
    if peers_r.has("glmnet"):
        out["cv.glmnet (10 folds)"] = glmnet
    if peers_r.has("rstanarm"):
        out[STAN_GLM] = stan
    return out


def scores(split: Split, fit: Fit) -> dict[str, float]:
    """Mean log probability of the outcomes, the Brier score, and the coverage of the true probabilities if known."""
    y, safe = split.y_test, np.clip(fit.share, LEAST, 1.0 - LEAST)
    log = np.where(y == 1, np.log(safe), np.log1p(-safe))
    out = {"log_score": float(log.mean()), "brier": float(np.mean((y - fit.share) ** 2))}
    if split.true is not None and fit.interval is not None:
        out["coverage"] = measures.coverage(split.true, fit.interval)
    return out


def splits_of(data: Data, count: int) -> Iterator[Split]:
    """The same splits for every run."""
    return (data(np.random.default_rng(seed)) for seed in range(count))


def measure(name: str, data: Data, count: int) -> dict[str, Any]:
    """Every method on every split."""
    found: dict[str, list[dict[str, Any]]] = {method: [] for method in methods()}
    for split in splits_of(data, count):
        for method, run in methods().items():
            if method == STAN_GLM and split.x.shape[1] > MOST_FOR_STAN:
                found[method].append({"failed": f"more than {MOST_FOR_STAN} columns"})
                continue
            try:
                fit = run(split)
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                found[method].append({"failed": str(error)})
                continue
            found[method].append({"seconds": fit.seconds, "converged": fit.converged, **scores(split, fit)})
        print(f"{name}: {len(found[OURS])} of {count}", flush=True)
    return {"data": name, "splits": count, "found": found}


def scaling(sizes: tuple[tuple[int, int], ...]) -> list[dict[str, Any]]:
    """Seconds of methods that run here, one simulated data set of each size."""
    out = []
    here: dict[str, Method] = {f"BayesRidge {name}": functools.partial(ours, name) for name in ("ep", "laplace")}
    for n, p in sizes:
        split = simulated(n, p, np.random.default_rng(0))
        untimed = dataclasses.replace(split, true=None)
        seconds = {name: run(untimed).seconds for name, run in (here | {"LogisticRegressionCV": scikit}).items()}
        out.append({"n": n, "p": p, "seconds": seconds})
        print(out[-1], flush=True)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small data, two splits of each")
    parser.add_argument("--splits", type=int, default=50, help="random splits of each data set")
    parser.add_argument("--out", type=Path, help="folder for the page and the numbers")
    parser.add_argument("--render", action="store_true", help="write the page again from stored numbers")
    parser.add_argument("--resume", action="store_true", help="keep the data and sizes that are stored")
    args = parser.parse_args()
    folder = args.out or (common.QUICK_RESULTS if args.quick else common.RESULTS)
    path = folder / "peers_binary.json"
    if args.render:
        stored = json.loads(path.read_text(encoding="utf-8"))
        common.save("peers_binary", stored["environment"], stored["results"], page(stored["results"]), folder)
        return
    common.use_one_thread()
    env = common.environment(PACKAGES)
    found: dict[str, Any]
    if args.resume and path.exists():
        found = json.loads(path.read_text(encoding="utf-8"))["results"]
    else:
        found = {"data": [], "scaling": scaling(QUICK_SIZES if args.quick else SIZES)}
    kept = {case["data"] for case in found["data"]}
    for name, data in (QUICK if args.quick else FULL).items():
        if name in kept or (data in FROM_R and not peers_r.has("stats")):
            continue
        found["data"].append(measure(name, data, 2 if args.quick else args.splits))
        common.save("peers_binary", env, found, page(found), folder)


if __name__ == "__main__":
    main()
