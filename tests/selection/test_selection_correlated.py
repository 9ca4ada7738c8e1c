"""Strongly correlated columns: real genotypes (where they are at hand), and autoregressive columns."""

import os
from pathlib import Path

import numpy as np
import pytest

from pybayesridge.selection.credible import credible_sets
from pybayesridge.selection.fit import fit_exact
from pybayesridge.selection.grid import Given
from pybayesridge.selection.problem import problem_of_rows
from tests.effort import number, only_thorough, share

FOLDER = Path(os.environ.get("FINEMAPPING_DATA", "../shared/data/finemapping"))
"""The folder of susieR's N3finemapping.RData."""

LONG_CHAINS = {403: 0.03, 653: 1.0, 773: 0.575, 777: 0.425}
"""Columns (from 1) of N3finemapping: probabilities by two long chains with all hyperparameters given."""

WITHIN = 0.05


@pytest.fixture(scope="module")
def genotypes():
    rdata = pytest.importorskip("rdata")
    path = FOLDER / "N3finemapping.RData"
    if not path.is_file():
        pytest.skip(f"{path} is absent: set FINEMAPPING_DATA")
    data = rdata.conversion.convert(rdata.parser.parse_file(path), default_encoding="ascii")["N3finemapping"]
    x, y = np.array(data["X"], dtype=float), np.array(data["Y"], dtype=float)[:, 0]
    return x - x.mean(axis=0), y - y.mean()


def block_sum(x, prob):
    return prob[np.abs(np.corrcoef(x.T)[402]) > 0.5].sum()


@pytest.mark.filterwarnings("default")  # of rdata
def test_genotypes_with_given_hyperparameters(genotypes):
    x, y = genotypes
    found = fit_exact(problem_of_rows(x, y, nu=573), Given(np.full(1001, 3 / 1001), 1.0, 6.29))
    for column, prob in LONG_CHAINS.items():
        assert abs(found.unit_prob[column - 1] - prob) < WITHIN
    assert found.converged


@pytest.mark.filterwarnings("default")
def test_genotypes_with_everything_learned(genotypes):
    x, y = genotypes
    problem = problem_of_rows(x / x.std(axis=0), y, nu=573)
    one, two = (fit_exact(problem, Given(), mcse=0.015, rng=seed) for seed in range(2))
    assert np.abs(one.unit_prob - two.unit_prob).max() < WITHIN
    assert abs(one.unit_prob[[772, 776]].sum() - 1.0) < WITHIN
    assert one.unit_prob[652] > 0.98
    assert 0.9 < block_sum(x, one.unit_prob) < 1.25
    sets = credible_sets(problem, one)
    assert len(sets) == 3
    for true in (402, 652, 772):
        assert any(true in s.units for s in sets)


@only_thorough
@pytest.mark.parametrize("rho", share([0.99, 0.9], 2))
def test_two_runs_agree_on_autoregressive_columns(rho):
    rng = np.random.default_rng(1)
    x = rng.standard_normal((100, 300))
    for j in range(1, 300):
        x[:, j] = rho * x[:, j - 1] + np.sqrt(1 - rho**2) * x[:, j]
    w = np.zeros(300)
    w[[30, 120, 200]] = [1.5, -1.5, 1.0]
    y = x @ w + rng.standard_normal(100)
    problem = problem_of_rows((x - x.mean(axis=0)) / x.std(axis=0), y - y.mean(), nu=99)
    one, two = (fit_exact(problem, Given(), rng=seed, mcse=number(0.012, 0.02)) for seed in range(2))
    assert one.converged
    assert two.converged
    assert np.abs(one.unit_prob - two.unit_prob).max() < WITHIN
