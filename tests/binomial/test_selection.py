"""The sampler of sets for yes/no responses beside quadrature over all coefficients, and its parts."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from pybayesridge.binomial import selection
from pybayesridge.binomial.augmentation import Augmented, Rows, problem_given
from pybayesridge.binomial.kept import FEWEST_STATES, Kept, State, conditional, mean_error
from pybayesridge.binomial.likelihood import from_counts
from pybayesridge.binomial.selection import KEEP_EVERY, fit_binary_selection
from pybayesridge.selection import methods
from pybayesridge.selection.collapsed import spectrum
from pybayesridge.selection.grid import Given
from pybayesridge.selection.problem import units_of
from pybayesridge.selection.sampler import allowed_mean_error
from tests.binomial.problems import with_responses
from tests.binomial.selection_oracle import brute_force
from tests.effort import number

WITHIN = 4.0
KEPT = 0.07  # of probabilities by some 1,000 kept states
PRECISE = 0.04  # of means, in posterior standard deviations
MOMENTS = 0.3  # of a posterior standard deviation; the Monte Carlo error of 2,400 steps is about .06
ALGEBRA = 1e-9  # worst seen 1e-13


def data(seed=3, n=30, d=3, trials=None):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    X[:, 1] = 0.9 * X[:, 0] + 0.4 * X[:, 1]
    return with_responses(X, trials, rng)


CASES = [
    ("logit", None, None, None, None),
    ("logit", 0.4, None, 5, 0.5),
    ("probit", 0.4, 1.0, None, None),
    ("probit", None, 1.0, 3, None),
]


@pytest.mark.parametrize(("link", "p", "v", "trials", "weight"), CASES)
def test_sampler_agrees_with_quadrature(link, p, v, trials, weight):
    X, y, count = data(trials=trials)
    weights = None if weight is None else np.full(y.size, weight)
    rows = Rows.of(X, np.ones((y.size, 1)), from_counts(y, count, weights, link), units_of(3))
    given = Given(None if p is None else np.full(3, p), v)
    found = fit_binary_selection(rows, given, mcse=0.0, maxiter=number(12_000, 2_400))
    exact, copies = found.exact, 1.0 if weight is None else weight
    oracle = brute_force(X, copies * y, copies * (count - y), link=link, p=p, v=v, points=7, nodes=16)
    assert np.abs((exact.unit_prob - oracle.prob) / exact.unit_se).max() < WITHIN
    sd = np.sqrt(oracle.square - oracle.mean**2)
    assert np.abs(exact.mean - oracle.mean[1:]).max() < MOMENTS * sd.max()
    assert np.abs(np.sqrt(exact.var) / sd[1:] - 1).max() < 2 * MOMENTS
    joint = found.joint
    intercept = sum(w * joint.coef[joint.start[i]] for i, w in enumerate(joint.weight))
    assert abs(intercept - oracle.mean[0]) < MOMENTS * sd[0]
    assert 0.3 < found.acceptance <= 1.0
    assert np.isnan(exact.log_evidence)


@pytest.mark.parametrize(("link", "d", "k"), [("logit", 5, 2), ("probit", 5, 0), ("logit", 70, 1)])
def test_cross_products_are_those_of_weighted_rows(link, d, k):
    rng = np.random.default_rng(1)
    n = 40
    X, c = rng.standard_normal((n, d)), rng.standard_normal((n, k))
    y = (rng.random(n) < 0.5).astype(float)
    rows = Rows.of(X, c, from_counts(y, None, None, link), units_of(d))
    given = rows.draw(rng.standard_normal(n), rng)
    problem = problem_given(rows, given)
    root = np.sqrt(given.weight)
    outside = np.eye(n) - (root[:, None] * c) @ np.linalg.pinv(root[:, None] * c) if k else np.eye(n)
    weighted, response = outside @ (root[:, None] * X), outside @ (given.linear / root)
    gram = weighted.T @ weighted
    some = np.array([3, 0])
    assert np.allclose(problem.cross, weighted.T @ response, rtol=0, atol=ALGEBRA * n)
    assert np.allclose(problem.diag, np.diag(gram), rtol=ALGEBRA)
    assert np.isclose(problem.yy, response @ response, rtol=ALGEBRA)
    assert np.allclose(problem.stacked(some), gram[some], rtol=0, atol=ALGEBRA * n)
    assert np.allclose(problem.column(4), gram[4], rtol=0, atol=ALGEBRA * n)
    assert np.allclose(problem.block(some), gram[np.ix_(some, some)], rtol=0, atol=ALGEBRA * n)
    assert np.allclose(problem.blocks(some[:, None])[:, 0, 0], np.diag(gram)[some], rtol=0, atol=ALGEBRA * n)


def test_coefficients_given_the_variables_are_normal():
    X, y, count = data(n=20)
    c = np.column_stack([np.ones(20), np.arange(20) / 20])
    rows = Rows.of(X, c, from_counts(y, count, None, "logit"), units_of(3))
    rng = np.random.default_rng(0)
    given = Augmented(rng.random(20), y - 0.5)
    problem, columns = problem_given(rows, given), np.array([2, 0])
    mean, root = conditional(problem, spectrum(problem, columns), 0.7)
    both = np.column_stack([c, X[:, columns]])
    precision = (both * given.weight[:, None]).T @ both + np.diag([0, 0, 0.7, 0.7])
    assert np.allclose(mean, np.linalg.solve(precision, both.T @ given.linear), rtol=1e-6)
    assert np.allclose(root @ root.T, np.linalg.inv(precision), rtol=1e-6)


def test_groups_and_sure_columns_stay_together():
    X, y, count = data(d=5)
    labels = np.array([0, 0, 1, 2, 3])
    rows = Rows.of(X, np.ones((30, 1)), from_counts(y, count, None, "logit"), units_of(5, labels))
    p = np.array([0.3, 0.3, 1.0, 0.0, 0.3])
    found = fit_binary_selection(rows, Given(p), mcse=0.0, maxiter=1200, n_chains=2)
    assert found.exact.unit_prob[1] == 1.0
    assert found.exact.unit_prob[2] == 0.0
    for i in range(found.joint.n):
        inside = set((found.joint.set_of(i)[1:] - 1).tolist())
        assert 2 in inside
        assert 3 not in inside
        assert (0 in inside) == (1 in inside)


def test_two_runs_are_alike_and_an_interruption_keeps_what_is_there():
    X, y, count = data()
    rows = Rows.of(X, np.ones((30, 1)), from_counts(y, count, None, "logit"), units_of(3))
    one, two = (fit_binary_selection(rows, Given(), mcse=0.0, maxiter=600, n_chains=2) for _ in range(2))
    assert np.array_equal(one.exact.unit_prob, two.exact.unit_prob)

    def stop(steps, _):
        if steps > 200:
            raise KeyboardInterrupt

    found = fit_binary_selection(rows, Given(), progress=stop)
    assert found.exact.interrupted
    assert not found.exact.converged
    assert found.joint.n > 0


def test_probit_refuses_shares_of_rows():
    X, y, count = data()
    with pytest.raises(ValueError, match="weights must be whole numbers"):
        Rows.of(X, np.ones((30, 1)), from_counts(y, count, np.full(30, 1.5), "probit"), units_of(3))


def test_kept_states_are_thinned_evenly():
    kept, none = Kept(KEEP_EVERY), np.zeros(0, dtype=np.intp)
    for step in range(0, 5 * 9000, 5):
        kept.add(State(step, 0, none, none, 0, 1.0, np.zeros(1), np.zeros((1, 1))))
    kept.thin()
    assert kept.every == 15
    assert {state.step for state in kept.states} == set(range(0, 5 * 9000, 15))
    large = Kept(1)
    for step in range(2 * FEWEST_STATES):
        large.add(State(step, 0, none, none, 0, 1.0, np.zeros(300), np.zeros((300, 300))))
    large.thin()
    assert FEWEST_STATES // 3 <= len(large.states) <= FEWEST_STATES
    assert len(large.after(10**6)) == len(large.states)


@pytest.mark.parametrize("rho", [0.0, 0.9])
def test_errors_of_means_are_those_of_autoregressive_draws(rho):
    """An AR(1) sequence of N draws has a mean with variance (1 + rho) / (1 - rho) / N, times that of a draw."""
    rng, chains, steps = np.random.default_rng(5), 4, 1000
    truth = np.sqrt((1 + rho) / (1 - rho) / (chains * steps))
    found = []
    for _ in range(6):
        states, drawn, one = [], rng.standard_normal(chains), np.zeros(1, dtype=np.intp)
        for step in range(steps):
            drawn = rho * drawn + np.sqrt(1 - rho**2) * rng.standard_normal(chains)
            # The intercept is known; the column is half of the variance within a state.
            root = np.diag([0.1, 1.0])
            states += [State(step, c, one, one, 0, 2.0, np.r_[7.0, m], root) for c, m in enumerate(drawn)]
        found.append(mean_error(states, 3))
    assert np.mean(found) == pytest.approx(truth / np.sqrt(2), rel=0.25)


def test_chains_that_disagree_have_a_large_error_of_the_mean():
    none, root = np.zeros(0, dtype=np.intp), np.eye(1)
    states = [State(step, c, none, none, 0, 1.0, np.array([3.0 * c]), root) for step in range(50) for c in (0, 1)]
    assert mean_error(states, 1) > 0.2


def test_sampling_goes_on_until_means_are_known(monkeypatch):
    """Probabilities are known at once to 0.1: what is left decides."""
    rng = np.random.default_rng(4)
    x = rng.standard_normal((40, 4))
    y = (x[:, 0] + x[:, 1] + 0.5 * rng.logistic(size=40) > 0).astype(float)
    rows = Rows.of(x, np.ones((40, 1)), from_counts(y, np.ones(40), None, "logit"), units_of(4))
    rough = fit_binary_selection(rows, Given(), mcse=0.1).exact
    assert rough.converged
    assert PRECISE < rough.mean_error <= allowed_mean_error(0.1)
    monkeypatch.setattr(selection, "allowed_mean_error", lambda mcse: PRECISE)
    done = fit_binary_selection(rows, Given(), mcse=0.1).exact
    assert done.converged
    assert done.mean_error <= PRECISE
    assert done.n_iter > rough.n_iter
    assert not fit_binary_selection(rows, Given(), mcse=0.1, maxiter=rough.n_iter).exact.converged
    unsettled = SimpleNamespace(exact=replace(done, mean_error=0.6))
    monkeypatch.setattr(methods, "ExactSelection", SimpleNamespace)
    assert "the mean of a coefficient" in methods.imprecise(unsettled, 0.1)


@pytest.mark.every_case
@pytest.mark.parametrize("d", [1, 2])
def test_kept_states_have_the_probabilities_of_all_steps(d):
    """Each step flips a unit, so that every second state of a chain has an even number of them."""
    X, y, count = data()
    rows = Rows.of(X[:, :d], np.ones((y.size, 1)), from_counts(y, count, None, "logit"), units_of(d))
    found = fit_binary_selection(rows, Given(np.full(d, 0.4), 0.3), mcse=0.0, maxiter=6000)
    states, kept = found.exact.states, np.zeros(d)
    for i in range(states.n):
        kept[states.set_of(i)] += states.weight[i]
    assert np.abs(kept - found.exact.inclusion_prob).max() < KEPT
