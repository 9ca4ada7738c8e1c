"""Variable selection beside its peers: time, precision and recall, calibration of inclusion probabilities.

    python benchmarks/ep_peers.py [--quick]

SpikeSlab (hyperparameters learned), scikit-learn's ARDRegression and LassoCV, and susieR where R has it (run in a
process of its own). Scores: SpikeSlab and susieR by inclusion probability, the others by the size of the
standardised coefficient. AUPRC is the average precision of the true variables. Calibration is the mean
probability less the share of true variables, in the bin of all columns and among those above one half.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import common
import numpy as np
from sklearn.linear_model import ARDRegression, LassoCV
from sklearn.metrics import average_precision_score

from pybayesridge import SpikeSlab

PACKAGES = ["pybayesridge", "numpy", "scipy", "scikit-learn"]
SUSIE = """
args <- commandArgs(TRUE)
x <- matrix(readBin(args[1], "double", as.integer(args[3]) * as.integer(args[4])), as.integer(args[3]))
y <- readBin(args[2], "double", as.integer(args[3]))
library(susieR)
t <- system.time(fit <- susie(x, y, L = 10))[["elapsed"]]
writeLines(format(c(t, fit$pip), digits = 17))
"""


def independent(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Independent normal columns."""
    return rng.standard_normal((n, d))


def correlated(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """AR(1) columns with correlation 0.9."""
    x = rng.standard_normal((n, d))
    for j in range(1, d):
        x[:, j] = 0.9 * x[:, j - 1] + np.sqrt(1 - 0.81) * x[:, j]
    return x


def genotypes(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Counts 0, 1, 2 with correlation in blocks of ten."""
    shared = np.repeat(rng.standard_normal((n, -(-d // 10))), 10, axis=1)[:, :d]
    latent = 0.7 * shared + np.sqrt(1 - 0.49) * rng.standard_normal((n, d))
    x = (latent > 0.2).astype(float) + (latent > 1.2)
    return x + (np.ptp(x, axis=0) == 0) * np.eye(n, d)


def spike_slab(x: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """Ours."""
    start = time.perf_counter()
    res = SpikeSlab(y, x).fit()
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "score": res.inclusion_prob.iloc[1:].to_numpy(), "pip": True, "ok": res.converged}


def by_size(model: Callable[[], Any]) -> Callable[[np.ndarray, np.ndarray], dict[str, Any]]:
    """A scikit-learn model, scored by the size of its standardised coefficients."""

    def run(x: np.ndarray, y: np.ndarray) -> dict[str, Any]:
        start = time.perf_counter()
        fit = model().fit(x / x.std(axis=0), y)
        return {"seconds": time.perf_counter() - start, "score": np.abs(fit.coef_), "pip": False, "ok": True}

    return run


def susie(x: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """SusieR in a process of its own; its time is R's."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / name for name in ("x", "y", "susie.R")]
        files[0].write_bytes(np.asfortranarray(x).tobytes("F"))
        files[1].write_bytes(y.tobytes())
        files[2].write_text(SUSIE)
        command = ["Rscript", str(files[2]), str(files[0]), str(files[1]), str(x.shape[0]), str(x.shape[1])]
        run = subprocess.run(command, capture_output=True, text=True, check=True)
    values = np.array([float(line) for line in run.stdout.split()])
    return {"seconds": values[0], "score": values[1:], "pip": True, "ok": True}


def has_susie() -> bool:
    """Whether R and susieR are there."""
    if shutil.which("Rscript") is None:
        return False
    return subprocess.run(["Rscript", "-e", "library(susieR)"], capture_output=True, check=False).returncode == 0


def main() -> None:
    """Run every method on the same data sets."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer and smaller data sets")
    arguments = parser.parse_args()
    n, d, sets = (100, 200, 2) if arguments.quick else (200, 1000, 5)
    methods: dict[str, Callable[[np.ndarray, np.ndarray], dict[str, Any]]] = {
        "SpikeSlab": spike_slab,
        "ARDRegression": by_size(ARDRegression),
        "LassoCV": by_size(LassoCV),
    }
    if has_susie():
        methods["susieR (L = 10)"] = susie
    env = common.environment(PACKAGES)
    rows, results = [], {}
    for design in (independent, correlated, genotypes):
        for name, method in methods.items():
            runs, truths = [], []
            for seed in range(sets):
                rng = np.random.default_rng(seed)
                x = design(n, d, rng)
                true = np.zeros(d, dtype=bool)
                true[rng.choice(d, 8, replace=False)] = True
                signal = (x[:, true] / x[:, true].std(axis=0)) @ rng.standard_normal(8)
                y = signal + rng.standard_normal(n)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    runs.append(method(x, y))
                truths.append(true)
            auprc = [average_precision_score(t, r["score"]) for t, r in zip(truths, runs, strict=True)]
            every = np.concatenate([r["score"] for r in runs])
            truth = np.concatenate(truths)
            bias = above = float("nan")
            if runs[0]["pip"]:
                bias = float(every.mean() - truth.mean())
                chosen = every > 0.5
                above = float(every[chosen].mean() - truth[chosen].mean()) if chosen.any() else float("nan")
            result = {
                "seconds": float(np.median([r["seconds"] for r in runs])),
                "auprc": float(np.mean(auprc)),
                "bias": bias,
                "bias_above_half": above,
                "converged": sum(r["ok"] for r in runs),
                "sets": sets,
            }
            results[f"{design.__name__}/{name}"] = result
            rows.append(
                [
                    f"{design.__name__}: {name}",
                    common.show_seconds(result["seconds"]),
                    f"{result['auprc']:.3f}",
                    "-" if np.isnan(bias) else f"{bias:+.4f}",
                    "-" if np.isnan(above) else f"{above:+.3f}",
                    f"{result['converged']}/{sets}",
                ]
            )
    head = ["design and method", "time (median)", "AUPRC", "calibration, all", "calibration, above 1/2", "converged"]
    text = f"n = {n}, d = {d}, 8 variables with N(0, 1) standardised coefficients, noise 1, {sets} data sets.\n\n"
    common.save("ep_peers_quick" if arguments.quick else "ep_peers", env, results, text + common.table(head, rows))


if __name__ == "__main__":
    main()
