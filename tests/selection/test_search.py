"""Forward selections by chance, for sets that walkers do not find by themselves."""

from dataclasses import replace

import numpy as np
import pytest

from pybayesridge import SpikeSlab
from pybayesridge.binomial.augmentation import BinomialRows, problem_given
from pybayesridge.binomial.likelihood import from_counts
from pybayesridge.binomial.selection import binary_grid
from pybayesridge.data.units import units_of
from pybayesridge.selection import search
from pybayesridge.selection.collapsed import log_joint, spectrum
from pybayesridge.selection.fit import fit_exact
from pybayesridge.selection.grid import Given, grid_of
from pybayesridge.selection.problem import problem_of_rows
from pybayesridge.selection.sampler import LOOKS, Walk
from pybayesridge.selection.search import ForwardSearch
from pybayesridge.selection.starts import Start
from tests.effort import only_thorough

CLOSE = 2.5e-3  # nats, the noise integrated out: 1e-5 of each length is left out; worst seen 2.4e-4
PART = 3e-4  # of a log density that has the residual over a noise variance in it; worst seen 2.9e-5
LEAST_FOUND = 5  # of 12; seen: 10
N, D = 60, 600


def together(seed, n=N, d=D, active=6, noise=0.3):
    """Columns that explain the response together, and which these are."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d))
    x -= x.mean(axis=0)
    chosen = np.sort(rng.choice(d, active, replace=False))
    y = x[:, chosen] @ rng.choice([-1.0, 1.0], active) + noise * rng.standard_normal(n)
    return x, y - y.mean(), chosen


GIVEN = {
    "all learned": Given(),
    "noise given": Given(noise_var=0.09),
    "slab given": Given(slab_var=1.0),
    "odds given": Given(prior_inclusion=np.r_[1.0, 0.0, np.full(D - 2, 0.01)]),
}


@pytest.mark.parametrize("given", GIVEN.values(), ids=GIVEN)
@pytest.mark.parametrize("held", ["X", "X'X"])
@pytest.mark.parametrize("size", [1, 3])
def test_paths_know_the_posterior_of_their_sets(given, held, size, monkeypatch):
    if held == "X":
        monkeypatch.setattr("pybayesridge.selection.problem.GRAM_COLUMNS", 0)
    if size > 1 and given.prior_inclusion is not None:
        given = Given(prior_inclusion=np.repeat([1.0, 0.0, 0.01], [size, size, D - 2 * size]))
    x, y, _ = together(0)
    problem = problem_of_rows(x * np.geomspace(1e-3, 1e3, D), 1e4 * y, labels=np.arange(D) // size)
    if held == "X'X":
        problem = replace(problem, rows=None)
    if given.noise_var is not None:
        given = Given(noise_var=1e8 * given.noise_var)
    assert (problem.gram is None) == (held == "X")
    paths = followed(problem, grid_of(problem, given))
    if given.prior_inclusion is not None:
        assert all(0 in units and 1 not in units for units in paths.sets)


def followed(problem, grid):
    """Five paths after six steps, at each of which they know the joint density of their sets."""
    paths = search._Paths(search._Scaled.of(problem), grid, np.random.default_rng(1), 5)
    for step in range(6):
        paths._let_in([np.array([j]) for j in paths._chosen(by_chance=step < 3)])
        for i, value in enumerate(paths._values()):
            units = np.sort(paths.sets[i])
            assert np.unique(units).size == units.size
            joint = log_joint(problem, grid, spectrum(problem, problem.units.columns(units)), units)[paths.node[i]]
            assert abs(value - joint) <= (CLOSE if grid.noise_var is None else PART * abs(joint))
    return paths


@pytest.mark.parametrize("trials", [1, 1000])
def test_searches_for_yes_no_responses(trials):
    x, y, chosen = together(2, noise=0.1)
    count = np.full(N, float(trials))
    successes = np.round(count / (1 + np.exp(-y)))
    rows = BinomialRows.of(x, np.ones((N, 1)), from_counts(successes, count, None, "logit"), units_of(D))
    problem, grid = problem_given(rows, rows.start()), binary_grid(rows, Given())
    followed(problem, grid)
    found = ForwardSearch.beside(problem, grid, 40, np.random.default_rng(0)).sets()
    if trials > 1:
        assert set(chosen) <= set(found[0].tolist())


def test_odds_are_those_of_one_more_column():
    x, y, _ = together(3)
    problem = problem_of_rows(x, y)
    grid = grid_of(problem, Given(noise_var=0.09, slab_var=1.0))
    paths = search._Paths(search._Scaled.of(problem), grid, np.random.default_rng(1), 1)
    for _ in range(2):
        paths._let_in([paths._chosen(by_chance=False)])
    likeliest = paths._chosen(by_chance=False)[0]
    value = [
        log_joint(problem, grid, spectrum(problem, columns), columns)[0]
        for columns in (np.sort(np.append(paths.sets[0], j)) for j in range(D) if j not in paths.sets[0])
    ]
    others = [j for j in range(D) if j not in paths.sets[0]]
    assert others[int(np.argmax(value))] == likeliest


def test_sets_are_found_ranked_and_better_than_nothing():
    x, y, chosen = together(1)
    problem = problem_of_rows(x, y)
    grid = grid_of(problem, Given())
    found = ForwardSearch(problem, grid, 50, np.random.default_rng(0)).sets()
    value = [np.logaddexp.reduce(log_joint(problem, grid, spectrum(problem, units), units)) for units in found]
    nothing = np.zeros(0, dtype=np.intp)
    assert (np.diff(value) <= 0).all()
    assert value[-1] > np.logaddexp.reduce(log_joint(problem, grid, spectrum(problem, nothing), nothing))
    assert len({units.tobytes() for units in found}) == len(found)
    assert set(chosen) <= set(found[0].tolist())


@pytest.mark.parametrize(
    "case", ["noise", "duplicates", "constant", "zero response", "few units", "no room", "dense"]
)
def test_searches_that_find_little_end(case):
    rng = np.random.default_rng(2)
    x, y = rng.standard_normal((N, D)), rng.standard_normal(N)
    given, most = Given(noise_var=1.0), 40
    if case == "duplicates":
        x = np.repeat(x[:, :6], D // 6, axis=1)
        y = x[:, 0] + 1e-8 * y
    elif case == "constant":
        x[:, ::2] = 0.0
    elif case == "zero response":
        y = np.zeros(N)
    elif case == "few units":
        x = x[:, : search.LEAST_UNITS - 1]
    elif case == "no room":
        most = 0
    elif case == "dense":
        y, given = x @ rng.standard_normal(D), Given()
    problem = problem_of_rows(x, y)
    found = ForwardSearch(problem, grid_of(problem, given), most, rng).sets()
    assert all(units.size <= most for units in found)
    if case in ("zero response", "few units", "no room"):
        assert not found


def test_walkers_go_where_the_search_finds_far_more(monkeypatch):
    x, y, chosen = together(4, noise=0.01)
    problem = problem_of_rows(x, y)
    grid = grid_of(problem, Given())
    rng = np.random.default_rng(0)
    walk = Walk(
        problem,
        grid,
        [Start(chosen[:0], 0, "empty")] * 3,
        rng,
        40,
        None,
        search=ForwardSearch(problem, grid, 40, rng),
    )
    monkeypatch.setattr(ForwardSearch, "sets", lambda self: [chosen])
    assert not walk._leave()
    walk.ends = [0] * LOOKS
    assert walk._leave()
    assert all(np.array_equal(walk.walkers.state(i)[0], chosen) for i in range(3))
    assert not walk._leave()
    # A set that is no better than where they are changes nothing.
    monkeypatch.setattr(ForwardSearch, "sets", lambda self: [chosen[:2]])
    assert not walk._leave()


def test_a_walk_that_always_starts_again_ends(monkeypatch):
    x, y, _ = together(4)
    monkeypatch.setattr(Walk, "_leave", lambda self: True)
    found = fit_exact(problem_of_rows(x, y), Given(), method="sampler", maxiter=300_000, mcse=1e-9)
    assert not found.converged
    assert found.n_iter <= 2 * 300_000


def test_a_search_takes_nothing_from_the_generator():
    x, y, _ = together(1)
    problem = problem_of_rows(x, y)
    grid = grid_of(problem, Given())
    # The second has no seed sequence, from which others could be spawned.
    for bits in (np.random.PCG64(3), np.random.RandomState(3)._bit_generator):
        rng = np.random.Generator(bits)
        before = str(bits.state)
        found = [ForwardSearch.beside(problem, grid, 50, rng).sets() for _ in range(2)]
        assert str(bits.state) == before
        assert all(np.array_equal(*pair) for pair in zip(*found, strict=True))


@only_thorough
def test_most_searches_find_columns_that_explain_only_together():
    found = 0
    for seed in range(6):
        x, y, chosen = together(seed, 100, 20_000, 10, 0.5)
        problem = problem_of_rows(x, y, nu=99)
        grid = grid_of(problem, Given())
        for again in range(2):
            sets = ForwardSearch(problem, grid, 100, np.random.default_rng(again)).sets()
            found += bool(sets) and set(chosen) <= set(sets[0].tolist())
    assert found >= LEAST_FOUND


@only_thorough
@pytest.mark.parametrize("seed", range(3))
def test_sets_that_walkers_alone_do_not_find(seed):
    # 100 rows, 20,000 columns: of seven runs without a search six reported convergence elsewhere.
    rng = np.random.default_rng(1)
    x = rng.standard_normal((100, 20_000))
    chosen = rng.choice(20_000, 10, replace=False)
    y = x[:, chosen] @ rng.choice([-1.0, 1.0], 10) + 0.5 * rng.standard_normal(100)
    found = SpikeSlab(y, x).fit(rng=seed)
    assert found.converged
    assert np.asarray(found.inclusion_prob, dtype=float)[-20_000:][chosen].min() > 0.9
