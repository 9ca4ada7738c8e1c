"""Sequential EP and the package's parallel EP have the same fixed points."""

import numpy as np
import pytest

from pybayesridge.ep import Data, fit_sites
from pybayesridge.ep.model.likelihood import GaussianLikelihood

pytest.importorskip("numba")
from benchmarks.paper_ep import experiment, sequential

TOL = 2e-3
"""Both stop at a residual of 1e-3 posterior standard deviations, which are below one."""


@pytest.mark.parametrize("seed", [0, 1])
def test_same_fixed_point(seed):
    X, y, _, _ = experiment.paper_set(seed)
    sweeps, mean = sequential.run(X, y, 0.5)["scale-free 0.001"]
    parallel = fit_sites(
        GaussianLikelihood(Data.from_rows(X, y), 0.005**2),
        np.full(25, 0.2),
        1.0,
        method="damped",
        damping=0.5,
        tol=experiment.TOL,
    )
    assert parallel.converged
    assert 1 < sweeps <= 100
    np.testing.assert_allclose(mean, parallel.mean, atol=TOL)
    counted = experiment.sweeps_until(Data.from_rows(X, y), np.full(25, 0.2), 0.5)
    assert counted["scale-free 0.001"] == parallel.n_iter
