"""Many small fits: 442 × 10, as in a bootstrap or a simulation, and formulas of as many rows.

    python -m benchmarks.small_fits [--quick] [--render] [--out FOLDER]

Model and fit together, one thread. All take turns in one process, so that ratios within a table are those of one run.
"Matrices" is formulaic's `model_matrix` alone. The loop adds new noise to the response before every fit.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import formulaic
import numpy as np
import pandas as pd

from benchmarks.common import arguments, clock, interleaved, measured, save, show_seconds, table, use_one_thread
from pybayesridge import BayesRidge

PACKAGES = ["pybayesridge", "numpy", "scipy", "pandas", "formulaic", "scikit-learn", "fastridge"]
N, P = 442, 10
REPETITIONS, FITS = 500, 10_000
QUICK_REPETITIONS, QUICK_FITS = 30, 200
METHODS = ("exact", "em", "loocv")
FORMULAS = {
    "numbers": "y ~ " + " + ".join(f"x{j}" for j in range(P)),
    "a factor, a spline, an interaction": "y ~ x0 + bs(x1, df=4) + C(g) + x2:x3",
}


def data() -> pd.DataFrame:
    """Columns x0, x1, …, a factor and a response."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((N, P)), columns=[f"x{j}" for j in range(P)])
    frame["g"] = rng.choice(["a", "b", "c"], N)
    frame["y"] = frame["x0"] - frame["x1"] + 2 * rng.standard_normal(N)
    return frame


def of_arrays(y: np.ndarray, x: np.ndarray) -> dict[str, Callable[[], Any]]:
    """Our methods, and the peers that are installed."""
    turns: dict[str, Callable[[], Any]] = {m: lambda m=m: BayesRidge(y, x).fit(m) for m in METHODS}
    try:
        from sklearn.linear_model import BayesianRidge

        turns["BayesianRidge"] = lambda: BayesianRidge().fit(x, y)
    except ImportError:
        pass
    try:
        from fastridge import RidgeEM

        turns["RidgeEM"] = lambda: RidgeEM().fit(x, y)
    except ImportError:
        pass
    return turns


def of_formula(formula: str, frame: pd.DataFrame) -> dict[str, Callable[[], Any]]:
    """The matrices by formulaic, and fits from the formula."""
    fits = {m: lambda m=m: BayesRidge.from_formula(formula, frame).fit(m) for m in METHODS}
    return {"matrices": lambda: formulaic.model_matrix(formula, frame), **fits}


def loop(method: str, fits: int, y: np.ndarray, x: np.ndarray) -> float:
    """Seconds of one of many fits, each of the response with new noise added."""
    rng = np.random.default_rng(1)
    start = clock()
    for _ in range(fits):
        BayesRidge(y + rng.standard_normal(y.size), x).fit(method)
    return (clock() - start) / fits


def measure(quick: bool) -> dict[str, Any]:
    """Seconds of each."""
    warnings.simplefilter("ignore")
    frame = data()
    y, x = frame["y"].to_numpy(), frame[[f"x{j}" for j in range(P)]].to_numpy()
    repetitions, fits = (QUICK_REPETITIONS, QUICK_FITS) if quick else (REPETITIONS, FITS)
    return {
        "arrays": interleaved(of_arrays(y, x), repetitions, pause=0.0),
        "formulas": {
            name: interleaved(of_formula(formula, frame), repetitions, pause=0.0)
            for name, formula in FORMULAS.items()
        },
        "loop": {method: loop(method, fits, y, x) for method in METHODS},
        "fits": fits,
    }


def compared(times: dict[str, dict[str, float]], base: str, label: str) -> str:
    """A row for each, with the ratio to one of them."""
    rows = [
        [
            name,
            show_seconds(each["median"]),
            show_seconds(each["least"]),
            *(f"{each[k] / times[base][k]:.2f}" for k in ("median", "least")),
        ]
        for name, each in times.items()
    ]
    return table([label, "median", "least", f"/ {base}", "of the least"], rows)


def page(found: dict[str, Any]) -> str:
    """The tables."""
    arrays = found["arrays"]
    parts = [
        f"Arrays of {N} × {P}, model and fit. BayesianRidge is scikit-learn's, RidgeEM fastridge's.",
        compared(arrays, "BayesianRidge" if "BayesianRidge" in arrays else "em", "arrays"),
        f'Formulas, {N} rows. "Matrices" is formulaic\'s time for the matrices alone.',
        *(compared(times, "matrices", name) for name, times in found["formulas"].items()),
        f"A loop of {found['fits']} fits, each of a new response: time of one fit.",
        table(["method", "one fit"], [[m, show_seconds(seconds)] for m, seconds in found["loop"].items()]),
    ]
    return "\n\n".join(parts)


def main() -> None:
    use_one_thread()
    args = arguments(__doc__)
    env, found = measured("small_fits", args, PACKAGES, measure)
    save("small_fits", env, found, page(found), args.out)


if __name__ == "__main__":
    main()
