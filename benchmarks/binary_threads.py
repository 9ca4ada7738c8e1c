"""Yes/no responses: seconds of the wall and of the processor with one thread and with two, and memory.

    python -m benchmarks.binary_threads [--quick] [--render] [--out FOLDER]

Model and fit together, compared with scikit-learn's LogisticRegressionCV (its defaults: ten penalties, five folds)
and statsmodels' GLM; the classifier for three classes; average effects of a fit with eleven of them. Methods take
turns in one process for each number of threads.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.common import arguments, measured, resident, save, show_seconds, table, use_one_thread

PACKAGES = ["pybayesridge", "numpy", "scipy", "scikit-learn", "statsmodels"]
THREADS = (1, 2)
ROUNDS = 3
LARGE, QUICK_LARGE = 200_000, 2_000
FAIR = "event ~ rate_marriage + age + yrs_married + children + religious + educ + C(occupation)"


def drawn(n: int, p: int) -> tuple[np.ndarray, np.ndarray]:
    """Independent normal columns of equal weight and logistic responses."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, p))
    eta = x @ rng.standard_normal(p) / np.sqrt(p)
    return x, (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(float)


def against_cross_validation(n: int, p: int) -> dict[str, Callable[[], Any]]:
    """LogisticRegressionCV with its defaults, but for iterations enough to converge."""
    from sklearn.linear_model import LogisticRegressionCV

    from pybayesridge import BayesRidge

    x, y = drawn(n, p)
    return {
        "LogisticRegressionCV": lambda: LogisticRegressionCV(max_iter=1000).fit(x, y),
        "ep": lambda: BayesRidge(y, x, family="binomial").fit(),
        "laplace": lambda: BayesRidge(y, x, family="binomial").fit("laplace"),
    }


def against_glm(n: int, p: int) -> dict[str, Callable[[], Any]]:
    """Maximum likelihood by statsmodels."""
    import statsmodels.api as sm

    from pybayesridge import BayesRidge

    x, y = drawn(n, p)
    return {
        "GLM": lambda: sm.GLM(y, sm.add_constant(x), family=sm.families.Binomial()).fit(),
        "ep": lambda: BayesRidge(y, x, family="binomial").fit(),
        "laplace": lambda: BayesRidge(y, x, family="binomial").fit("laplace"),
    }


def wine(_n: int, _p: int) -> dict[str, Callable[[], Any]]:
    """Three classes that the columns separate."""
    from sklearn.datasets import load_wine
    from sklearn.linear_model import LogisticRegressionCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from pybayesridge.sklearn import BayesRidgeClassifier

    x, y = load_wine(return_X_y=True)
    peer = make_pipeline(StandardScaler(), LogisticRegressionCV(max_iter=1000))
    return {"LogisticRegressionCV": lambda: peer.fit(x, y), "ep": lambda: BayesRidgeClassifier().fit(x, y)}


def effects(_n: int, _p: int) -> dict[str, Callable[[], Any]]:
    """Average effects on probabilities, without the fit."""
    import statsmodels.api as sm
    import statsmodels.formula.api as smf

    from pybayesridge import BayesRidge

    data = sm.datasets.fair.load_pandas().data
    data = data.assign(event=(data["affairs"] > 0).astype(int))
    theirs = smf.logit(FAIR, data).fit(disp=0)
    ours = BayesRidge.from_formula(FAIR, data, family="binomial").fit()
    return {"Logit.get_margeff": lambda: theirs.get_margeff().summary_frame(), "ep": ours.effects}


CASES: dict[str, tuple[Callable[[int, int], dict[str, Callable[[], Any]]], int, int]] = {
    "5,000 × 100": (against_cross_validation, 5000, 100),
    "200,000 × 50": (against_glm, LARGE, 50),
    "wine, 178 × 13, three classes": (wine, 178, 13),
    "effects(), fair, 6,366 × 11": (effects, 6366, 11),
}


def one_case(name: str, quick: bool) -> list[dict[str, Any]]:
    """Least seconds of each method, and the memory of its first run beyond what was there before."""
    make, n, p = CASES[name]
    functions = make(min(n, QUICK_LARGE) if quick else n, p)
    best: dict[str, dict[str, Any]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(1 if quick else ROUNDS):
            for method, function in functions.items():
                before = resident(reset=True)
                wall, processor = time.perf_counter(), time.process_time()
                function()
                spent = {"wall": time.perf_counter() - wall, "processor": time.process_time() - processor}
                old = best.setdefault(method, {**spent, "memory": 1024 * (resident() - before)})
                best[method] = old | {key: min(old[key], value) for key, value in spent.items()}
    return [{"method": method, **values} for method, values in best.items()]


def measure(quick: bool) -> list[dict[str, Any]]:
    """Every case in a process of its own for each number of threads."""
    out = []
    for name in CASES:
        for threads in THREADS:
            settings = {"OPENBLAS_NUM_THREADS": str(threads), "OMP_NUM_THREADS": str(threads)}
            call = f"one_case({name!r}, {quick})"
            code = f"import json; from benchmarks.binary_threads import one_case; print(json.dumps({call}))"
            done = subprocess.run(
                [sys.executable, "-c", code], env=os.environ | settings, capture_output=True, text=True, check=True
            )
            out.append({"case": name, "threads": threads, "found": json.loads(done.stdout.splitlines()[-1])})
            print(out[-1], flush=True)
    return out


def page(found: list[dict[str, Any]]) -> str:
    """A row for each case, method and number of threads."""
    rows = []
    for one in found:
        peer = one["found"][0]
        for method in one["found"]:
            ratios = [f"{method[key] / peer[key]:.2f}" for key in ("wall", "processor")]
            seconds = [show_seconds(method[key]) for key in ("wall", "processor")]
            memory = f"{method['memory'] / 2**20:.0f} MiB"
            rows.append([one["case"], method["method"], one["threads"], *seconds, *ratios, memory])
    return "\n\n".join(
        [
            "Least of three runs, in which the methods take turns; ratios are to the first method of each case. "
            "Memory: most that is resident in the first run, beyond what was before it (200,000 × 50 numbers are 76 "
            "MiB). Times of the wall are those of a machine that had other work too, if its load was above 1.",
            table(
                ["", "method", "threads", "wall", "processor", "wall / first", "processor / first", "memory"], rows
            ),
        ]
    )


def main() -> None:
    args = arguments(__doc__)
    if not args.render:
        use_one_thread()
    env, found = measured("binary_threads", args, PACKAGES, measure)
    save("binary_threads", env, found, page(found), args.out)


if __name__ == "__main__":
    main()
