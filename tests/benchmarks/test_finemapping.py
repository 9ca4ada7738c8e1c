"""Long chains, simulated genotypes, credible sets and calibration: the parts, and one small run of each."""

import numpy as np
import pytest

from benchmarks import correlated_columns as correlated
from benchmarks import credible_sets as sets
from benchmarks import finemapping
from benchmarks import finemapping_data as data
from benchmarks import long_chain as chain
from benchmarks import selection_calibration as calibration
from pybayesridge.selection.enumeration import enumerate_sets
from pybayesridge.selection.grid import Given, grid_of
from pybayesridge.selection.problem import problem_of_rows
from tests.effort import number, only_thorough

CHAIN = 0.04  # worst seen 0.012
ALONE = 8.0  # |z| of one number; worst seen of 500 problems 4.8
SPREAD = {100: (0.6, 1.3), 12: (0.2, 2.2)}
"""Bounds of the root mean square of z scores of so many runs; of 500 problems .85 to 1.12."""
STEPS = 40_000


@pytest.mark.parametrize("given", [None, (0.3, 0.6, 1.2)])
def test_long_chains_agree_with_the_sum(given):
    rng = np.random.default_rng(2)
    x = rng.standard_normal((40, 5))
    x[:, 1] = x[:, 0] + 0.3 * x[:, 1]
    y = 0.5 * x[:, 0] + 0.4 * x[:, 2] + rng.standard_normal(40)
    known = Given() if given is None else Given(np.full(5, given[0]), given[1] * given[2], given[2])
    exact = enumerate_sets(problem_of_rows(x, y, nu=39), known)
    found = chain.long_chain(chain.Target(x.T @ x, x.T @ y, float(y @ y), 39.0, 40.0, given), STEPS, 1)
    np.testing.assert_allclose(found, exact.unit_prob, atol=CHAIN)


def test_simulated_genotypes():
    made = data.simulated(400, 200, 3, 0.6, 0)
    assert set(np.unique(made.x)) == {0.0, 1.0, 2.0}
    assert len({j // data.BLOCK for j in made.true}) == 3
    corr = np.corrcoef(made.x.T)
    within = [corr[j, j + 1] for j in range(199) if (j + 1) % data.BLOCK]
    assert np.median(within) > 0.4
    assert np.abs(corr[0, data.BLOCK :]).mean() < 0.1
    for j, block in zip(made.true, made.blocks, strict=True):
        assert j in block
        assert (block // data.BLOCK == j // data.BLOCK).mean() > 0.9


def test_absent_data_are_left_out(tmp_path):
    assert data.read_genotypes(None) is None
    assert data.read_genotypes(tmp_path) is None


@only_thorough
def test_a_small_comparison_and_its_page():
    pytest.importorskip("sklearn")
    made = data.simulated(80, 100, 2, 0.8, 3)
    fits = {"exact": finemapping.ours("exact"), "LassoCV (5 folds)": finemapping.lasso}
    runs = {name: finemapping.measured(made, fit, 100.0) for name, fit in fits.items()}
    best = runs["exact"]
    assert min(best["prob_block"]) > 0.9
    assert best["sets_true"] == best["sets"] >= 1
    assert runs["LassoCV (5 folds)"]["chosen_true"] >= 1
    runs["slow"] = {"given_up": 1.0}
    case = {"n": 80, "d": 100, "active": 2, "share": 0.8, "true": list(made.true), "runs": runs}
    text = finemapping.page({"real": None, "simulated": [case]})
    assert "N3finemapping.RData was absent" in text
    assert "given up after 1 s" in text


def test_credible_sets_and_their_page():
    made = data.Data(np.eye(10), np.zeros(10), (2, 7))
    prob = np.array([0, 0.3, 0.7, 0, 0, 0.02, 0, 0, 0.95, 0])
    judged = sets.judged(made, finemapping.Answer(prob, [np.array([1, 2]), np.array([8])], 0.1))
    assert (judged["sets"], judged["hold"], judged["found"], judged["true"]) == (2, 1, 1, 2)
    assert sum(judged["count"]) == 10
    assert sum(judged["in"]) == 2
    page = sets.page({"n": 10, "d": 10, "count": 1, "runs": {"SpikeSlab": [judged]}})
    assert "50.0 ± 35.4 %" in page
    assert "1 of 2" in page


def test_draws_of_the_prior():
    rng, n, d = np.random.default_rng(0), 50, 12
    x = calibration.autoregressive(n, d, 0.0, rng)
    grid = grid_of(problem_of_rows(x, x[:, 0], nu=n - 1), Given())
    prior = grid.prior
    drawn = [calibration.draw_of_prior(grid, rng) for _ in range(4000)]
    size = np.mean([inside.sum() for inside, _ in drawn])
    t = np.linspace(prior.t_low, prior.t_high, 20_001)
    density = 1.0 / np.cosh((t - prior.center) / 2) ** 2
    expected = d * np.sum(density / (1 + np.exp(-t))) / density.sum()
    assert size == pytest.approx(expected, abs=0.2)
    explained = [np.sum(w**2) for inside, w in drawn if inside.any()]
    assert np.median(explained) == pytest.approx(1.0, rel=0.5)


def test_positions_are_uniform_if_the_distribution_is_right():
    rng, prob = np.random.default_rng(1), np.array([0.2, 0.5, 0.3])
    at = [calibration.between(prob, int(rng.choice(3, p=prob)), rng.random()) for _ in range(2000)]
    assert np.mean(at) == pytest.approx(0.5, abs=0.03)
    assert np.var(at) == pytest.approx(1 / 12, abs=0.01)
    assert calibration.between(prob, 5, 0.5) == pytest.approx(1.0)


@only_thorough
def test_a_small_calibration_and_its_page():
    setting = calibration.Prior(6, (20,), 0.5, 12)
    found = calibration.calibration(setting, "d = 12")
    assert found["converged"] == 12
    assert sum(one["columns"] for one in found["bins"]) == 72
    assert max(abs(one["z"]) for one in found["bins"]) < 4
    assert "12 draws" in calibration.page({"d = 12": found}, ("d = 12",))


def test_standard_errors_of_many_small_problems_are_right():
    """All that is sampled, in its standard errors, beside the sum over all sets."""
    count, found = number(100, 12), {}
    for i in range(count):
        for quantity, values in calibration.quotients(calibration.small_problem(i), first=i).items():
            found.setdefault(quantity, []).append(values.ravel())
    low, high = SPREAD[count]
    for quantity, values in found.items():
        z = np.concatenate(values)
        z = z[~np.isnan(z)]
        assert np.abs(z).max() < ALONE, quantity
        assert low < np.sqrt(np.mean(z**2)) < high, quantity
    page = calibration.page({"problems": {"runs": count, "of": {"means": calibration.tails(z)}}}, ())
    assert f"all problems ({count} runs)" in page


@only_thorough
def test_seeds_agree_with_a_longer_run_and_their_page():
    found = calibration.seeds_and_long_run(calibration.dense_problem(0, rho=0.99, **calibration.QUICK_DENSE), 2)
    assert found["converged"] == 2
    assert found["long_steps"] > 5 * max(found["steps"])
    assert found["size_apart"] < ALONE
    assert max(np.abs(found["size_off"])) < ALONE
    assert found["prob_off"]["largest"] < ALONE
    assert "2 of 2 converged" in calibration.page({"seeds": [{"rho": 0.99} | found]}, ())


@only_thorough
def test_strongly_correlated_columns_and_their_page():
    found = correlated.compared(40, 16, 0.99, 0.5, 0, ep=False, mcse=0.05)
    assert found["difference"] < 0.25
    assert "0.99, 0.5, 1" in correlated.page([found])
