"""How often 95 % intervals cover the truth: exact and conditional ones, scikit-learn's BayesianRidge, least squares.

"exact" has the default prior, that of R-squared; "exact, half-Cauchy" and "em, half-Cauchy" have the paper's.

    python benchmarks/interval_coverage.py [--quick]

From the prior (simulation-based calibration: the penalty drawn from its prior, then coefficients, then data) the
exact posterior must cover 95 % whatever the design; from fixed coefficients nothing must, and one sees who errs
where. Columns that are constant in a simulated data set are left out: data say nothing about them.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable

import numpy as np
from common import environment, save, table
from scipy import stats

OURS = {
    "exact": ("exact", "r2"),
    "em": ("em", "r2"),
    "exact, half-Cauchy": ("exact", "half-cauchy"),
    "em, half-Cauchy": ("em", "half-cauchy"),
}
METHODS = ["exact", "exact, half-Cauchy", "em, half-Cauchy", "BayesianRidge", "OLS"]
PRIORS = {"r2": ["exact", "em"], "half-cauchy": ["exact, half-Cauchy", "em, half-Cauchy"]}
LEVEL = 0.95
PRIOR = [(15, 5), (15, 40), (50, 20), (50, 200), (150, 50), (500, 20)]
FIXED_N = [15, 50, 150, 500]
FIXED_P = [5, 50, 200]


def design(kind: str, n: int, p: int, rng: np.random.Generator) -> np.ndarray:
    if kind == "Gaussian":
        return rng.standard_normal((n, p))
    return (rng.random((n, p)) < 0.01).astype(float)


def intervals(method: str, y: np.ndarray, x: np.ndarray) -> np.ndarray | None:
    """Equal-tailed 95 % intervals of the slopes, (p, 2); None where the method has none."""
    n, p = x.shape
    if method in OURS:
        from pybayesridge import BayesRidge

        how, prior = OURS[method]
        return np.asarray(BayesRidge(y, x, prior=prior).fit(how).conf_int(1 - LEVEL))[1:]
    if method == "BayesianRidge":
        from sklearn.linear_model import BayesianRidge

        scale = x.std(axis=0)
        model = BayesianRidge().fit((x - x.mean(axis=0)) / scale, y)
        half = stats.norm.ppf(0.5 + LEVEL / 2) * np.sqrt(np.maximum(np.diag(model.sigma_), 0))
        return np.column_stack([model.coef_ - half, model.coef_ + half]) / scale[:, None]
    both = np.column_stack([np.ones(n), x])
    if n <= p + 2 or np.linalg.matrix_rank(both) < p + 1:
        return None
    inverse = np.linalg.inv(both.T @ both)
    b = inverse @ both.T @ y
    df = n - p - 1
    half = stats.t.ppf(0.5 + LEVEL / 2, df) * np.sqrt(np.sum((y - both @ b) ** 2) / df * np.diag(inverse))
    return np.column_stack([b - half, b + half])[1:]


def simulate(draw: Callable[[np.random.Generator], tuple], repetitions: int, seed: int, methods: list[str]) -> dict:
    """Coverage with its Monte Carlo error (data sets are the independent units), mean and median width."""
    rng = np.random.default_rng(seed)
    shares: dict[str, list[float]] = {m: [] for m in methods}
    sizes: dict[str, list[float]] = {m: [] for m in methods}
    widths: dict[str, list[float]] = {m: [] for m in methods}
    informative = 0
    for _ in range(repetitions):
        y, x, truth = draw(rng)
        if x.shape[1] == 0:
            continue
        informative += 1
        for method in methods:
            found = intervals(method, y, x)
            if found is None:
                continue
            shares[method].append(float(np.sum((found[:, 0] <= truth) & (truth <= found[:, 1]))))
            sizes[method].append(len(truth))
            widths[method].append(float(np.mean(found[:, 1] - found[:, 0])))
    out: dict[str, dict] = {}
    for method in methods:
        if len(shares[method]) < max(2, informative / 2):
            out[method] = {"data_sets": len(shares[method])}
            continue
        hits, size = np.array(shares[method]), np.array(sizes[method])
        coverage = hits.sum() / size.sum()
        error = np.sqrt(np.sum((hits - coverage * size) ** 2)) / size.sum()
        out[method] = {
            "coverage": float(coverage),
            "error": float(error),
            "mean_width": float(np.mean(widths[method])),
            "median_width": float(np.median(widths[method])),
            "data_sets": len(hits),
        }
    return out


def varying(x: np.ndarray) -> np.ndarray:
    return x.std(axis=0) > 0


def from_prior(kind: str, n: int, p: int, prior: str) -> Callable[[np.random.Generator], tuple]:
    """The prior is on the standardised scale: the columns first, then b = tau sigma N(0, 1) on that scale.

    Under "r2" the share p tau^2 / (1 + p tau^2) of p standardised columns is Beta(1/2, 1/2).
    """

    def draw(rng: np.random.Generator) -> tuple:
        x = design(kind, n, p, rng)
        x = x[:, varying(x)]
        if prior == "r2":
            share = rng.beta(0.5, 0.5)
            tau = np.sqrt(share / (1 - share) / max(x.shape[1], 1))
        else:
            tau = abs(rng.standard_cauchy())
        sigma = 2.0
        b = tau * sigma * rng.standard_normal(x.shape[1])
        scale = x.std(axis=0)
        y = 3.0 + (x - x.mean(axis=0)) / scale @ b + sigma * rng.standard_normal(n)
        return y, x, b / scale

    return draw


def from_truth(kind: str, n: int, p: int) -> Callable[[np.random.Generator], tuple]:
    """Coefficients fixed once, of which half are zero; they explain half of the variance."""
    b = np.random.default_rng(1000 + p).standard_normal(p) * (np.arange(p) % 2 == 0)
    b /= np.sqrt(np.sum(b**2) * (1.0 if kind == "Gaussian" else 0.01 * 0.99))

    def draw(rng: np.random.Generator) -> tuple:
        x = design(kind, n, p, rng)
        y = 1.0 + x @ b + rng.standard_normal(n)
        keep = varying(x)
        return y, x[:, keep], b[keep]

    return draw


def cell(found: dict) -> str:
    if "coverage" not in found:
        return "-"
    return f"{100 * found['coverage']:.1f} ± {100 * found['error']:.1f}"


def width(found: dict) -> str:
    return "-" if "coverage" not in found else f"{found['mean_width']:.3g}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer data sets: under a minute")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    env = environment(["pybayesridge", "numpy", "scipy", "scikit-learn"])
    start = time.perf_counter()
    data: dict[str, dict] = {"prior": {}, "fixed": {}}
    calibration = {}
    for prior, (exact, em) in PRIORS.items():
        rows = []
        for kind in ("Gaussian", "Bernoulli"):
            for n, p in PRIOR:
                repetitions = 40 if args.quick else (1000 if n * p < 5000 else 400)
                found = simulate(from_prior(kind, n, p, prior), repetitions, n * p, [exact, em])
                data["prior"][f"{prior} {kind} {n}x{p}"] = found
                off, error = found[exact]["coverage"] - LEVEL, found[exact]["error"]
                z = f"{off / error:+.1f}" if error else "-"
                rows.append([kind, n, p, found[exact]["data_sets"], cell(found[exact]), z, cell(found[em])])
                print(prior, *rows[-1], sep=" | ", file=sys.stderr, flush=True)
        calibration[prior] = table(["columns", "n", "p", "data sets", "exact", "z", "em"], rows)
    rows, width_rows = [], []
    for kind in ("Gaussian", "Bernoulli"):
        for n in FIXED_N:
            for p in FIXED_P:
                repetitions = 6 if args.quick else 100
                found = simulate(from_truth(kind, n, p), repetitions, n * p + 1, METHODS)
                data["fixed"][f"{kind} {n}x{p}"] = found
                rows.append([kind, n, p, *(cell(found[m]) for m in METHODS)])
                width_rows.append([kind, n, p, *(width(found[m]) for m in METHODS)])
                print(*rows[-1], sep=" | ", file=sys.stderr, flush=True)
    minutes = (time.perf_counter() - start) / 60
    text = "\n\n".join(
        [
            f"Coverage of 95 % intervals in per cent, ± its standard error over data sets; {minutes:.1f} minutes.",
            "## From the default prior",
            "The share of variance that the columns explain is drawn from its prior, Beta(1/2, 1/2), and the same "
            'prior is used to fit. The coverage of "exact" should be 95 %; z is the deviation in standard errors. '
            '"em" is conditional on the mode, and gives a null model if there is no mode.',
            calibration["r2"],
            "## From the half-Cauchy prior",
            'The same with the paper\'s prior of tau, drawn from and used to fit (`prior="half-cauchy"`).',
            calibration["half-cauchy"],
            "## From fixed coefficients",
            '"exact" has the default prior. '
            "Half of the coefficients are zero, the others explain half of the variance. Least squares if "
            "n > p + 2 and the columns are independent in at least half of the data sets.",
            table(["columns", "n", "p", *METHODS], rows),
            "Mean width of the intervals, in standard deviations of the noise per unit of the column:",
            table(["columns", "n", "p", *METHODS], width_rows),
        ]
    )
    save("interval_coverage_quick" if args.quick else "interval_coverage", env, data, text)


if __name__ == "__main__":
    main()
