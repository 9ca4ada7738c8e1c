"""EM against the paper's Table 3 written plainly, and against the mode finder."""

import numpy as np
import pytest

from pybayesridge import BayesRidge, ConvergenceWarning, DegenerateFitWarning
from tests.oracle import Oracle
from tests.problems import CASES, regression

ONE_STEP = 1e-10
"""Log of t2 and s2 after the same number of iterations: dense algebra beside the rotated problem."""

SAME_MODE = 1e-8
"""EM and the mode finder, in log lambda."""

PEER = 1e-5
"""Beside fastridge with its tolerance at 1e-15: its stopping rule looks at the residuals, not at lambda."""


def table_3(x, y, n, p, iterations):
    """The paper's Table 3 for X'X as it is: t2 and s2 after each iteration, from t2 = 1 and s2 = y'y/n."""
    t2, s2 = 1.0, y @ y / n
    path = []
    for _ in range(iterations):
        inverse = np.linalg.inv(x.T @ x + np.eye(p) / t2)
        b = inverse @ x.T @ y
        esn = b @ b + s2 * np.trace(inverse)
        ess = np.sum((y - x @ b) ** 2) + s2 * np.trace(x.T @ x @ inverse)
        g = (4 * n + 4) * esn * (3 + p) * ess + ((1 - n) * esn + (p + 1) * ess) ** 2
        t2 = ((n - 1) * esn - (1 + p) * ess + np.sqrt(g)) / ((6 + 2 * p) * ess)
        s2 = (t2 * ess + esn) / ((n + p + 2) * t2)
        path.append((np.log(t2), np.log(s2)))
    return path


@pytest.mark.parametrize("shape", [(40, 5), (15, 30), (12, 12)])
def test_every_iteration_is_that_of_table_3(shape):
    # Without an intercept the paper's n is the right count, and its s2 starts where ours does.
    y, x = regression(*shape, seed=2)
    x = x / x.std(axis=0)
    path = table_3(x, y, *shape, iterations=6)
    model = BayesRidge(y, x, intercept=False, standardize=False, prior="half-cauchy")
    for count, (log_t2, _) in enumerate(path, 1):
        with pytest.warns(ConvergenceWarning):
            res = model.fit("em", accelerate=False, maxiter=count, tol=1e-15)
        assert abs(np.log(res.tau2) - log_t2) < ONE_STEP
        assert res.n_iter == count
        assert not res.converged
    # s2 of the results is the conditional mode at t2, to which that of EM converges.
    log_t2, log_s2 = table_3(x, y, *shape, iterations=3000)[-1]
    res = model.fit("em")
    assert abs(np.log(res.tau2) - log_t2) < SAME_MODE
    assert abs(np.log(res.sigma2) - log_s2) < SAME_MODE


@pytest.mark.parametrize("parameterization", ["tau2", "tau"])
@pytest.mark.parametrize("dof", ["nu", "paper"])
@pytest.mark.parametrize("shape", [(60, 4), (30, 10), (30, 29), (30, 30), (20, 60)])
def test_em_and_the_mode_finder_agree(shape, dof, parameterization):
    agreed = 0
    for seed in range(12):
        y, x = regression(*shape, seed=seed, noise=0.3 + 0.2 * (seed % 3))
        options = {
            1: {"weights": np.random.default_rng(seed).uniform(1, 5, shape[0])},
            2: {"unpenalized": [0]},
            3: {"standardize": False},
            4: {"prior": (1.0, 2.0)},
            5: {"sigma2": 2.0},
            6: {"prior": "r2", "standardize": False},
            7: {"prior": (0.5, 0.5, 1e-3)},
        }.get(seed % 8, {})
        model = BayesRidge(y, x, **({"prior": "half-cauchy"} | options))
        try:
            newton = model.fit("em", dof=dof, parameterization=parameterization)
        except DegenerateFitWarning:
            continue
        if newton.n_modes != 1:
            continue
        em = model.fit("em", dof=dof, parameterization=parameterization, accelerate=False, tol=1e-10, maxiter=100_000)
        assert abs(np.log(em.lambda_ / newton.lambda_)) < SAME_MODE
        assert em.sigma2 == pytest.approx(newton.sigma2, rel=SAME_MODE)
        assert (np.abs(em.params - newton.params) / newton.bse).max() < SAME_MODE
        assert em.converged
        assert newton.n_iter < 60
        agreed += 1
    # Where the paper's count or the mode in tau leaves no interior mode with p > n, there is nothing to compare.
    assert agreed >= (8 if shape[1] < shape[0] - 1 or (dof, parameterization) == ("nu", "tau2") else 0)


@pytest.mark.parametrize("name", CASES)
def test_em_finds_the_oracles_mode(name):
    case = CASES[name]
    res = case.results(accelerate=False, tol=1e-10, maxiter=100_000)
    assert res.converged
    assert abs(np.log(res.tau2) - case.oracle().mode()) < SAME_MODE


@pytest.mark.parametrize("shape", [(50, 6), (40, 20)])
def test_papers_fixed_point(shape):
    y, x = regression(*shape)
    centred = (x - x.mean(axis=0)) / x.std(axis=0)
    log_t2, log_s2 = table_3(centred, y - y.mean(), *shape, iterations=3000)[-1]
    res = BayesRidge(y, x, prior="half-cauchy").fit("em", dof="paper")
    assert abs(np.log(res.tau2) - log_t2) < SAME_MODE
    assert abs(np.log(res.sigma2) - log_s2) < SAME_MODE


@pytest.mark.parametrize("in_tau2", [True, False])
@pytest.mark.parametrize("shape", [(50, 6), (80, 20), (30, 25)])
def test_reference_implementation(shape, in_tau2):
    fastridge = pytest.importorskip("fastridge")
    y, x = regression(*shape, seed=4, noise=0.5)
    peer = fastridge.RidgeEM(epsilon=1e-15, t2=in_tau2).fit(x, y)
    # Its mode in (tau, sigma) rather than (tau, sigma2) has n + 1 where ours has N + 2: N = n - 1 is our nu.
    options = {"dof": "paper"} if in_tau2 else {"parameterization": "tau"}
    res = BayesRidge(y, x, prior="half-cauchy").fit("em", **options)
    assert res.lambda_ == pytest.approx(float(np.squeeze(peer.alpha_)), rel=PEER)
    assert (np.abs(res.params.iloc[1:] - np.squeeze(peer.coef_)) / res.bse.iloc[1:]).max() < PEER
    assert res.params.iloc[0] == pytest.approx(float(np.squeeze(peer.intercept_)), rel=PEER)


@pytest.mark.parametrize("scale", [1e-100, 1e-3, 1e3, 1e100])
def test_stopping_does_not_depend_on_the_scale_of_y(scale):
    y, x = regression(40, 5)
    plain = BayesRidge(y, x, prior="half-cauchy").fit("em", accelerate=False)
    scaled = BayesRidge(y * scale, x, prior="half-cauchy").fit("em", accelerate=False)
    assert scaled.n_iter == plain.n_iter
    assert scaled.lambda_ == pytest.approx(plain.lambda_, rel=1e-9)


@pytest.mark.parametrize("accelerate", [True, False])
def test_too_few_iterations_are_told(accelerate):
    y, x = regression(40, 5)
    with pytest.warns(ConvergenceWarning, match="maxiter=2 iterations"):
        res = BayesRidge(y, x, prior="half-cauchy").fit("em", accelerate=accelerate, maxiter=2)
    assert not res.converged
    assert res.n_iter == 2
    text = " ".join(str(res.summary()).split())
    assert "NOT CONVERGED" in text
    assert "Converged: NO" in text


def test_null_model_ends_at_once():
    rng = np.random.default_rng(0)
    y, x = rng.normal(size=50), rng.normal(size=(50, 3))
    x -= np.outer(y - y.mean(), (y - y.mean()) @ x) / np.sum((y - y.mean()) ** 2)
    for accelerate in (True, False):
        with pytest.warns(DegenerateFitWarning, match="No signal"):
            res = BayesRidge(y, x, prior="half-cauchy").fit("em", accelerate=accelerate, maxiter=100_000)
        assert (res.params.iloc[1:] == 0).all()
        assert res.converged
        assert res.n_iter < 1000


def test_targets_leave_when_they_are_done():
    _, x = regression(60, 5)
    rng = np.random.default_rng(1)
    endog = x[:, :2] + rng.normal(size=(60, 2)) * x[:, :2].std(axis=0) * [0.01, 1.0]
    together = BayesRidge(endog, x, prior="half-cauchy").fit("em", accelerate=False, tol=1e-10)
    alone = [BayesRidge(endog[:, i], x, prior="half-cauchy").fit("em", accelerate=False, tol=1e-10) for i in range(2)]
    assert together.n_iter == max(res.n_iter for res in alone)
    np.testing.assert_allclose(together.lambda_, [res.lambda_ for res in alone], rtol=1e-10)


def two_modes():
    """A strong and a weak direction: the profile has a minimum for each."""
    rng = np.random.default_rng(3)
    for seed in range(500):
        rng = np.random.default_rng(seed)
        x = np.linalg.qr(rng.normal(size=(60, 12)))[0] * np.r_[100.0, np.full(11, 1.0)]
        y = x @ np.r_[0.02, rng.normal(0, 1.5, 11)] + 0.3 * rng.normal(size=60)
        oracle = Oracle(y, np.empty((60, 0)), x, standardize=False)
        modes = oracle.modes()
        if len(modes) == 2:
            return y, x, modes, oracle
    raise AssertionError("no problem with two modes was found")


def test_several_modes_give_the_highest():
    y, x, modes, oracle = two_modes()
    model = BayesRidge(y, x, intercept=False, standardize=False, prior="half-cauchy")
    best = min(modes, key=oracle.f)
    for accelerate in (True, False):
        res = model.fit("em", accelerate=accelerate, tol=1e-10, maxiter=100_000)
        assert res.n_modes == 2
        assert abs(np.log(res.tau2) - best) < SAME_MODE
        assert "several modes" in str(res.summary())
