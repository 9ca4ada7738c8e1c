"""How far one EP sweep is from the BLAS and LAPACK calls it cannot avoid.

    python -m benchmarks.ep_floor [--quick] [--out FOLDER]

Dual side (d > n): one rank-k update (n x n from n x d), one Cholesky factorisation (n x n), one triangular
solve with n x d on the right. Primal side: one Cholesky factorisation (d x d) and one triangular inverse.
Both are timed in alternation in one process; the ratio is of the lower quartiles, with what the factorisation
alone takes.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy.linalg import blas, lapack

from benchmarks import common
from pybayesridge.ep import Data, GaussianSide, Prior
from pybayesridge.ep.algorithms.damped import FLOOR
from pybayesridge.ep.algorithms.state import EPModel
from pybayesridge.ep.model.likelihood import GaussianLikelihood

PACKAGES = ["pybayesridge", "numpy", "scipy"]
SHAPES = ((100, 2000), (500, 5000), (200, 20000), (2000, 500))
QUICK_SHAPES = ((50, 500), (500, 100))
SECONDS = 4.0
LEAST = 5
"""Repetitions at least."""


def floor_calls(root: np.ndarray, dual: bool) -> Callable[[], object]:
    """Return the unavoidable calls on arrays of the right shape."""
    k, d = root.shape
    if not dual:
        gram = np.asfortranarray(root.T @ root + np.eye(d))

        def primal() -> object:
            chol, _ = lapack.dpotrf(gram.copy(order="F"), lower=1, clean=0, overwrite_a=1)
            return lapack.dtrtri(chol, lower=1, overwrite_c=1)

        return primal
    scaled = np.asfortranarray(root.T)
    work = scaled.copy(order="F")

    def dual_calls() -> object:
        gram = blas.dsyrk(1.0, scaled, trans=1, lower=1)
        gram.flat[:: k + 1] += 1.0
        chol, _ = lapack.dpotrf(gram, lower=1, clean=0, overwrite_a=1)
        return blas.dtrsm(1.0, chol, work, side=1, lower=1, trans_a=1, overwrite_b=1)

    return dual_calls


def sweep(model: EPModel) -> Callable[[], object]:
    """One sweep: factorise, means, variances, cavities, tilted moments, new sites, residual."""
    t1, t2 = model.start()

    def run() -> object:
        state = model.state(t1, t2, cavity_floor=FLOOR)
        assert state is not None
        model.residual(state, FLOOR)
        return model.target_sites(state, FLOOR)

    return run


def quartiles(calls: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Lower quartile of the seconds of each call, run in turn."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    end = common.clock() + SECONDS
    while common.clock() < end or len(times["floor"]) < LEAST:
        for name, call in calls.items():
            start = common.clock()
            call()
            times[name].append(common.clock() - start)
    return {name: float(np.quantile(t, 0.25)) for name, t in times.items()}


def measure(n: int, d: int) -> tuple[str, dict[str, float]]:
    """The side that serves this shape, and the seconds of each call."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    y = X[:, :5].sum(axis=1) + rng.standard_normal(n)
    gaussian = GaussianSide.build(GaussianLikelihood(Data.from_rows(X, y), 1.0))
    model = EPModel.build(gaussian, Prior.from_probability(np.full(d, 5.0 / d), 1.0))
    dual = gaussian.gram is None
    t2 = model.start()[1]
    calls = {
        "floor": floor_calls(gaussian.likelihood.data.root, dual),
        "factor": lambda: gaussian.factor(t2),
        "sweep": sweep(model),
    }
    return "dual" if dual else "primal", quartiles(calls)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two small shapes")
    parser.add_argument("--out", type=Path, help="folder for the page and the numbers")
    args = parser.parse_args()
    common.use_one_thread()
    env = common.environment(PACKAGES)
    rows, found = [], {}
    for n, d in QUICK_SHAPES if args.quick else SHAPES:
        side, t = measure(n, d)
        found[f"{n}x{d}"] = t | {"side": side}
        ratios = [f"{t[name] / t['floor']:.2f}" for name in ("factor", "sweep")]
        rows.append([f"{n} × {d}", side, *(common.show_seconds(t[k]) for k in ("floor", "factor", "sweep")), *ratios])
    head = ["n × d", "side", "floor", "factor", "sweep", "factor / floor", "sweep / floor"]
    text = (
        "Lower quartiles of interleaved calls. Floor: the BLAS and LAPACK calls that a sweep cannot avoid. Factor: "
        f"the covariance evaluation. Sweep: all of one EP sweep.\n\n{common.table(head, rows)}"
    )
    folder = args.out or (common.QUICK_RESULTS if args.quick else common.RESULTS)
    common.save("ep_floor", env, found, text, folder)


if __name__ == "__main__":
    main()
