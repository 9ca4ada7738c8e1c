"""What diagnostics() says about modes (Theorem 3.1) and about the arithmetic."""

import warnings

import numpy as np
import pandas as pd
import pytest

from pybayesridge import BayesRidge, DegenerateFitWarning, PybayesridgeWarning
from tests.problems import CASES, Case

EIGENVALUE = 1e-9
"""Smallest eigenvalue of X'X/n, relative: the cases' condition numbers are below 1e4."""

FULL_RANK = [
    "tall",
    "tall-noisy",
    "weights",
    "unpenalized",
    "unpenalized-weights",
    "no-intercept",
    "own-scale",
    "sigma2",
]


@pytest.mark.parametrize("name", FULL_RANK)
@pytest.mark.parametrize("method", ["em", "exact"])
def test_smallest_eigenvalue_and_bound(name, method):
    case = CASES[name]
    found = case.results(method=method).diagnostics()
    oracle = case.oracle()
    eigenvalues = np.linalg.eigvalsh(oracle.xr.T @ oracle.xr) / case.n
    assert found["gamma_n"] == pytest.approx(eigenvalues[0], rel=EIGENVALUE)
    assert found["tau2_bound"] == pytest.approx(4 / (case.n * eigenvalues[0]), rel=EIGENVALUE)
    assert found["condition_number"] == pytest.approx(np.sqrt(eigenvalues[-1] / eigenvalues[0]), rel=EIGENVALUE)
    assert found["rank"] == oracle.p
    assert found["solver"] == "gram"
    assert found["converged"] is True
    assert found["null_model"] is False
    assert found["exact_fit"] is False


@pytest.mark.parametrize("name", ["wide", "unpenalized-wide", "own-scale-wide", "square"])
def test_without_full_rank_nothing_is_certified(name):
    found = CASES[name].results().diagnostics()
    assert found["gamma_n"] == 0
    assert found["tau2_bound"] == np.inf
    assert found["condition_number"] == np.inf
    assert found["unique_mode_certified"] is False
    assert found["rank"] == CASES[name].oracle().nu


@pytest.mark.parametrize("name", FULL_RANK)
def test_certificate_is_the_theorems(name):
    res = CASES[name].results()
    found = res.diagnostics()
    assert found["unique_mode_certified"] is bool(res.tau2 > found["tau2_bound"])


@pytest.mark.parametrize("parameterization", ["tau2", "tau"])
def test_certified_posteriors_have_one_mode(parameterization):
    """Random problems from no signal to much; the oracle counts modes above the bound, which must be one."""
    certified = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        n, p = int(rng.integers(8, 60)), int(rng.integers(1, 7))
        case = Case(n, p, seed=seed, noise=float(10 ** rng.uniform(-2, 1)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DegenerateFitWarning)
            res = case.results(parameterization=parameterization)
        found = res.diagnostics()
        if not found["unique_mode_certified"]:
            continue
        certified += 1
        oracle = case.oracle()
        oracle.parameterization = parameterization
        modes = oracle.modes()
        above = [l for l in modes if np.exp(l) > found["tau2_bound"]]
        assert len(above) == 1
        assert np.log(res.tau2) == pytest.approx(above[0], abs=1e-8)
        assert found["n_modes"] == len(modes)
    assert certified > 20


@pytest.mark.parametrize("method", ["em", "exact", "gcv", "fixed"])
def test_modes_are_counted_whatever_the_method(method):
    case = CASES["tall"]
    res = case.results(method=method, **({"lam": 1.0} if method == "fixed" else {}))
    assert res.n_modes == len(case.oracle().modes()) == 1
    assert res.diagnostics()["n_modes"] == 1


def test_null_model():
    rng = np.random.default_rng(0)
    with pytest.warns(DegenerateFitWarning, match="No signal"):
        res = BayesRidge(rng.standard_normal(40), rng.standard_normal((40, 6))).fit("em")
    found = res.diagnostics()
    assert found["null_model"] is True
    assert found["n_modes"] == 0
    assert found["unique_mode_certified"] is False
    assert "No signal" in res.summary().as_text()


def test_exact_fit():
    x = np.random.default_rng(0).standard_normal((20, 3))
    with pytest.warns(DegenerateFitWarning, match="exactly"):
        found = BayesRidge(x @ [1.0, 2.0, 3.0], x).fit().diagnostics()
    assert found["exact_fit"] is True


def test_notes_say_nothing_where_nothing_matters():
    notes = CASES["tall"].results().summary().as_text().split("Notes:")[1]
    assert "[2]" not in notes


def test_route_changes_where_the_gram_matrix_does_not_suffice():
    rng = np.random.default_rng(2)
    x = rng.standard_normal((60, 4))
    x[:, 3] = x[:, 2] + 1e-7 * rng.standard_normal(60)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PybayesridgeWarning)
        res = BayesRidge(x @ [1.0, 2.0, 1e6, -1e6] + 1e-6 * rng.standard_normal(60), x).fit("fixed", lam=1e-13)
    found = res.diagnostics()
    assert found["solver"] == "svd"
    centred = (x - x.mean(axis=0)) / x.std(axis=0)
    s = np.linalg.svd(centred, compute_uv=False)
    assert found["condition_number"] == pytest.approx(s[0] / s[-1], rel=1e-6)


def test_a_column_for_each_target():
    y, x = CASES["tall"].arrays()
    both = pd.DataFrame({"signal": y, "scaled": 5 * y})
    found = BayesRidge(both, x).fit("em").diagnostics()
    assert list(found.columns) == ["signal", "scaled"]
    assert found.loc["n_modes"].tolist() == [1, 1]


@pytest.mark.parametrize("n", [3, 20, 100])
def test_a_flat_density_has_no_mode(n):
    # With X = I, n = p and unknown noise the density of tau is constant: what is left of its slope is rounding.
    model = BayesRidge(np.random.default_rng(n).standard_normal(n), np.eye(n), intercept=False, standardize=False)
    with pytest.warns(DegenerateFitWarning, match="no interior mode"):
        res = model.fit("em", parameterization="tau")
    assert res.n_modes == 0
