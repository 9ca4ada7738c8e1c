"""Effect of the prior of tau2 as columns are added: the R-squared prior compared with the half-Cauchy prior.

    python benchmarks/prior_r2.py [--quick]

Data sets of 100 rows with noise variance 1 and from 5 to 20,000 columns, independent, autoregressive (.95) or
genotypes in blocks of linkage; every column has a normal effect, and together they explain the share "signal". Both
priors are fitted by "exact" to the same data. Reported: the posterior mean of sigma2, how often its 95 % interval
covers 1, how often the interval of the explained share begins below .02, the mean squared error of predictions of
200 new rows (noise included) and the difference between the priors in its standard errors, paired over data sets.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings

import numpy as np
from common import QUICK_RESULTS, RESULTS, environment, save, table
from scipy.signal import lfilter
from scipy.special import ndtri

PRIORS = ["half-cauchy", "r2"]
ROWS, NEW = 100, 200
COLUMNS = [5, 20, 100, 1000, 5000, 20000]
SIGNALS = [0.0, 0.1, 0.3, 0.7, 0.9]
DESIGNS = ["independent", "AR(.95)", "genotypes"]
BLOCK = 50
"""Columns of a block of linkage."""

HONEST = 0.02
"""The interval of the explained share reaches 0 where it begins below this."""


def columns(kind: str, n: int, p: int, rng: np.random.Generator) -> np.ndarray:
    """Columns of one kind, (n, p)."""
    z = rng.standard_normal((n, p))
    if kind == "independent":
        return z
    rho = 0.95
    if kind == "AR(.95)":
        z[:, 1:] *= np.sqrt(1 - rho**2)
        return lfilter([1.0], [1.0, -rho], z, axis=1)
    # Two haplotypes; within a block each is a latent autoregression cut at the allele's frequency.
    frequency = rng.uniform(0.05, 0.5, p)
    total = np.zeros((n, p))
    for _ in range(2):
        latent = rng.standard_normal((n, p))
        for start in range(0, p, BLOCK):
            part = latent[:, start : start + BLOCK]
            part[:, 1:] *= np.sqrt(1 - rho**2)
            latent[:, start : start + BLOCK] = lfilter([1.0], [1.0, -rho], part, axis=1)
        total += latent < ndtri(frequency)
    return total


def data_set(kind: str, p: int, signal: float, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Columns and responses of the rows of the fit, columns and expectations of new rows."""
    x = columns(kind, ROWS + NEW, p, rng)
    mean = (x - x.mean(axis=0)) @ rng.standard_normal(p)
    mean *= np.sqrt(signal / (1 - signal)) / mean.std() if signal else 0.0
    y = mean[:ROWS] + rng.standard_normal(ROWS)
    varies = np.ptp(x[:ROWS], axis=0) > 0
    return x[:ROWS, varies], y, x[ROWS:, varies], mean[ROWS:]


def measure(x: np.ndarray, y: np.ndarray, new: np.ndarray, expectation: np.ndarray, prior: str) -> list[float]:
    """Posterior mean of sigma2, whether it is covered, where the explained share begins, the error of predictions."""
    from pybayesridge import BayesRidge

    res = BayesRidge(y, x, prior=prior).fit("exact")
    noise = res.hyperparameters().loc["sigma2"]
    share = res.explained_variance()
    error = 1.0 + float(np.mean((np.asarray(res.predict(new)) - expectation) ** 2))
    return [res.sigma2, float(noise["lower"] <= 1 <= noise["upper"]), float(share["lower"] < HONEST), error]


def cell(kind: str, p: int, signal: float, repetitions: int) -> dict:
    """One row of the table."""
    rng = np.random.default_rng([p, round(100 * signal), DESIGNS.index(kind)])
    found = np.empty((len(PRIORS), repetitions, 4))
    for i in range(repetitions):
        data = data_set(kind, p, signal, rng)
        for k, prior in enumerate(PRIORS):
            found[k, i] = measure(*data, prior)
    difference = found[1, :, 3] - found[0, :, 3]
    error = difference.std(ddof=1) / np.sqrt(repetitions)
    names = ["sigma2", "covered", "reaches_0", "mse"]
    out: dict = {
        prior: dict(zip(names, found[k].mean(axis=0).tolist(), strict=True)) for k, prior in enumerate(PRIORS)
    }
    return out | {"z": float(difference.mean() / error) if error > 0 else 0.0, "data_sets": repetitions}


def judged(data: dict[str, dict]) -> str:
    """Sentences about the table, with its numbers."""
    null = {k: v for k, v in data.items() if v["signal"] == 0}
    other = {k: v for k, v in data.items() if v["signal"] > 0}
    worse = [k for k, v in data.items() if v["z"] > 2]
    better = [k for k, v in data.items() if v["z"] < -2]

    def relative(k: str) -> float:
        return data[k]["r2"]["mse"] / data[k]["half-cauchy"]["mse"] - 1

    def lowest(rows: dict[str, dict], prior: str, what: str) -> str:
        return f"{100 * min(v[prior][what] for v in rows.values()):.0f} %"

    rows = [
        f"Lowest coverage of sigma2 under the R-squared prior: {lowest(null, 'r2', 'covered')} without signal, "
        f"{lowest(other, 'r2', 'covered')} with signal (half-Cauchy: {lowest(null, 'half-cauchy', 'covered')} and "
        f"{lowest(other, 'half-cauchy', 'covered')}).",
        f"Without signal the interval of the explained share begins below {HONEST} in at least "
        f"{lowest(null, 'r2', 'reaches_0')} of the data sets of a row (half-Cauchy: "
        f"{lowest(null, 'half-cauchy', 'reaches_0')}).",
        f"Predictions are worse than under the half-Cauchy prior by more than two standard errors in {len(worse)} of "
        f"{len(data)} rows"
        + (f", by at most {100 * max(map(relative, worse)):.1f} %: {'; '.join(worse)}." if worse else ".")
        + f" They are better by more than two standard errors in {len(better)} rows"
        + (f", by at most {100 * -min(map(relative, better)):.1f} %." if better else "."),
        "Why they can be worse: the half-Cauchy prior of many columns expects them to explain nearly all of the "
        "variance, which is right where the signal is strong; the R-squared prior allows for noise and shrinks more. "
        "With few columns its density at weak signals is higher, and it shrinks a little more as well.",
    ]
    return "\n".join(f"* {row}" for row in rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few data sets of at most 1000 columns: under a minute")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    env = environment(["pybayesridge", "numpy", "scipy"])
    start = time.perf_counter()
    data: dict[str, dict] = {}
    rows = []
    for kind in DESIGNS:
        for p in [p for p in COLUMNS if p <= 1000 or not args.quick]:
            for signal in SIGNALS:
                found = cell(kind, p, signal, 4 if args.quick else (60 if p <= 1000 else 40))
                data[f"{kind}, p = {p}, signal {signal:g}"] = found | {"signal": signal}
                cells = [
                    f"{v['sigma2']:.2f}, {100 * v['covered']:.0f} %, {100 * v['reaches_0']:.0f} %, {v['mse']:.2f}"
                    for v in (found[prior] for prior in PRIORS)
                ]
                rows.append([kind, p, signal, *cells, f"{found['z']:+.1f}"])
                print(*rows[-1], sep=" | ", file=sys.stderr, flush=True)
    minutes = (time.perf_counter() - start) / 60
    text = "\n\n".join(
        [
            f"{ROWS} rows, noise variance 1, {4 if args.quick else 60} data sets a row "
            f"{'' if args.quick else '(40 with 5000 columns or more)'}; {minutes:.0f} minutes. In each cell: "
            "posterior mean of sigma2, share of data sets in which its 95 % interval covers 1, share in which the "
            f"interval of `explained_variance()` begins below {HONEST}, mean squared error of predictions. z: "
            "difference of that error, R-squared prior less half-Cauchy, in standard errors.",
            judged(data),
            table(["columns", "p", "signal", *PRIORS, "z"], rows),
        ]
    )
    save("prior_r2", env, data, text, QUICK_RESULTS if args.quick else RESULTS)


if __name__ == "__main__":
    main()
