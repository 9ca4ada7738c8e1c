"""How far one EP sweep is from the BLAS and LAPACK calls it cannot avoid.

    python benchmarks/ep_floor.py

Dual side (d > n): one rank-k update (n x n from n x d), one Cholesky factorisation (n x n), one triangular
solve with n x d on the right. Primal side: one Cholesky factorisation (d x d) and one triangular inverse.
Both are timed in alternation in one process; the lower quartiles' ratio is printed, with the share of it
the factorisation alone takes.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from scipy.linalg import blas, lapack

from pybayesridge.ep import Data, Gaussian, Prior
from pybayesridge.ep.damped import FLOOR
from pybayesridge.ep.state import Model

SHAPES = ((100, 2000), (500, 5000), (200, 20000), (2000, 500))
SECONDS = 4.0


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


def sweep(model: Model) -> Callable[[], object]:
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
    end = time.perf_counter() + SECONDS
    while time.perf_counter() < end or len(times["floor"]) < 5:
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - start)
    return {name: float(np.quantile(t, 0.25)) for name, t in times.items()}


def main() -> None:
    rng = np.random.default_rng(0)
    print("n x d         side   floor ms  factor ms  sweep ms  factor/floor  sweep/floor")
    for n, d in SHAPES:
        X = rng.standard_normal((n, d))
        y = X[:, :5].sum(axis=1) + rng.standard_normal(n)
        model = Model.build(
            Gaussian.build(Data.from_rows(X, y), 1.0), Prior.from_probability(np.full(d, 5.0 / d), 1.0)
        )
        dual = model.gaussian.gram is None
        t2 = model.start()[1]
        t = quartiles(
            {
                "floor": floor_calls(model.gaussian.data.root, dual),
                "factor": lambda m=model, t2=t2: m.gaussian.factor(t2),
                "sweep": sweep(model),
            }
        )
        side = "dual" if dual else "primal"
        times = f"{1e3 * t['floor']:9.2f} {1e3 * t['factor']:9.2f} {1e3 * t['sweep']:9.2f}"
        ratios = f"{t['factor'] / t['floor']:12.2f} {t['sweep'] / t['floor']:12.2f}"
        print(f"{n:>5}x{d:<6} {side:>6} {times} {ratios}", flush=True)


if __name__ == "__main__":
    main()
