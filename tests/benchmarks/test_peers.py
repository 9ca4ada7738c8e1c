"""Simulated data, the loop over methods, and one small run of each comparison."""

import signal
import time

import numpy as np
import pytest

from benchmarks import peers_data as data
from benchmarks import peers_run as run
from tests.effort import only_thorough, share

TOL_SHARE = 0.1  # of a sample variance


@pytest.mark.parametrize("design", data.DESIGNS)
def test_data(design):
    one, same, other = (data.make(design, 60, 30, seed, active=5, share=0.5) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.x, same.x)
    np.testing.assert_array_equal(one.y_test, same.y_test)
    assert not np.array_equal(one.y, other.y)
    assert one.x.shape == (60, 30)
    assert one.x_test.shape == (data.N_TEST, 30)
    assert one.true.sum() == 5
    assert np.all(np.ptp(one.x, axis=0) > 0)
    both = np.vstack([one.x, one.x_test])
    signal_var = np.var(both @ one.coef)
    assert signal_var / (signal_var + one.noise**2) == pytest.approx(0.5, abs=1e-12)
    residual = np.r_[one.y, one.y_test] - 2.0 - both @ one.coef
    assert np.var(residual) / one.noise**2 == pytest.approx(1.0, abs=3 * TOL_SHARE)


def test_kinds_of_columns():
    rng = np.random.default_rng(0)
    x = data.autoregressive(4000, 5, rng)
    assert np.corrcoef(x.T)[0, 1] == pytest.approx(0.9, abs=TOL_SHARE)
    x = data.genotypes(4000, 20, rng)
    assert set(np.unique(x)) == {0.0, 1.0, 2.0}
    correlation = np.corrcoef(x.T)
    assert correlation[0, 1] > 0.2
    assert abs(correlation[0, 11]) < TOL_SHARE
    assert data.bernoulli(4000, 5, rng).mean() == pytest.approx(0.05, abs=0.01)


def mean_only(problem):
    return run.Fit(0.1, np.full(len(problem.y_test), problem.y.mean()))


def oracle(problem):
    mean = 2.0 + problem.x_test @ problem.coef
    sd = np.full(mean.size, problem.noise)
    prob = problem.true.astype(float)
    return run.Fit(0.2, mean, sd, coef=np.column_stack([problem.coef] * 2), score=prob, prob=prob)


def slow(problem):
    end = time.process_time() + 30
    while time.process_time() < end:
        pass
    return mean_only(problem)


def test_loop_and_tables():
    case = run.Case("independent", 40, 10, 2, 3, 0.8)
    found = run.run_case(case, {"mean": mean_only, "oracle": oracle}, limit=20.0)
    assert found["dropped"] == {}
    best = found["runs"]["oracle"]
    assert len(best) == 2
    for measured in best:
        assert measured["auprc"] == 1.0
        assert measured["brier"] == 0.0
        assert measured["coef_coverage"] == measured["active_coverage"] == 1.0
        assert measured["r2"] == pytest.approx(0.8, abs=TOL_SHARE)
        assert measured["obs_coverage"] == pytest.approx(0.95, abs=0.05)
    assert "log_density" not in found["runs"]["mean"][0]
    text = run.case_table(found, [("r2", "test R²", 3), ("auprc", "AUPRC", 3)], "mean")
    assert "| oracle | 2.00 (200 ms) |" in text
    assert "better" not in run.where_we_lose([found], "mean", {"r2": ("test R²", 1)})
    found["runs"] = {name: 5 * runs for name, runs in found["runs"].items()}
    lost = run.where_we_lose([found], "mean", {"r2": ("test R²", 1)})
    assert "oracle is better in test R²" in lost
    assert "faster" not in lost
    assert "mean (0.50)" in run.where_we_lose([found], "oracle", {"r2": ("test R²", 1)})
    assert "1.000 → 1.000 (6)" in run.reliability_table([found])


def test_a_fit_over_its_budget_is_given_up(monkeypatch):
    monkeypatch.setattr(run, "LOOK", 0.05)
    case = run.Case("independent", 20, 5, 2, 2, 0.5)
    found = run.run_case(case, {"mean": mean_only, "slow": slow}, limit=0.2)
    assert found["runs"]["slow"] == []
    assert found["dropped"] == {"slow": "given up after 0.2 s"}
    assert len(found["runs"]["mean"]) == 2
    assert "given up" in run.case_table(found, [("r2", "test R²", 3)], "mean")
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_methods_of_python_on_one_set():
    pytest.importorskip("sklearn")
    from sklearn import linear_model

    from benchmarks import peers_ridge as ridge
    from benchmarks import peers_selection as selection

    problem = data.make("independent", 50, 8, 0, active=2, share=0.8)

    methods = {
        "exact": ridge.bayes_ridge("exact"),
        "BayesianRidge": ridge.scikit(linear_model.BayesianRidge),
        "ARD": ridge.scikit(linear_model.ARDRegression),
        "sets": selection.spike_slab("exact"),
        "EP": selection.spike_slab("ep"),
    }
    for name, method in methods.items():
        measured = run.assess(method(problem), problem)
        assert measured["r2"] > 0.6, name
        assert measured["obs_coverage"] > 0.85, name
        assert measured["coef_coverage"] >= 0.5, name
    assert run.assess(methods["sets"](problem), problem)["auprc"] == 1.0


@only_thorough
@pytest.mark.parametrize("package", share(["susieR", "glmnet", "MASS"], 3))
def test_packages_of_r(package):
    from benchmarks import peers_r
    from benchmarks import peers_ridge as ridge

    if not peers_r.has(package):
        pytest.skip(f"R or its package {package} is not there")
    code = {"glmnet": peers_r.GLMNET, "MASS": peers_r.MASS, "susieR": peers_r.SUSIE}[package]
    problem = data.make("independent", 50, 8, 0, active=2, share=0.8)
    fit = ridge.with_r(code, 60.0)(problem)
    measured = run.assess(fit, problem)
    assert measured["r2"] > 0.6
    if package == "susieR":
        assert fit.coef.shape == (8, 2)
        assert np.all(fit.coef[:, 0] <= fit.coef[:, 1])
        assert measured["auprc"] == 1.0
        assert measured["obs_coverage"] > 0.85


def test_comparison_with_susie_on_the_page():
    from benchmarks import peers_selection as selection

    case = run.Case("independent", 40, 10, 2, 3, 0.8)
    found = run.run_case(case, {selection.OURS: oracle, selection.SUSIE: oracle, "EP": oracle}, limit=20.0)
    assert found["runs"]["EP"][0]["log_score"] < 1e-5
    text = selection.page([found])
    assert "+0.0000 ± 0.0000 | +0.0000 ± 0.0000 | 1.00 |" in text
    assert "Converged: exact 2 of 2" in text
