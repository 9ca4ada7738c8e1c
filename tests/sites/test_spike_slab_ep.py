"""EP with sites for rows and columns beside quadrature over all sets, the ridge's EP and dense algebra."""

from itertools import product

import numpy as np
import pytest
from scipy.special import logit, logsumexp

from pybayesridge.binomial.likelihood import from_counts
from pybayesridge.ep.model.gaussian import GaussianSide
from pybayesridge.ep.model.hyperparameters import KnownHyperparameters
from pybayesridge.sites.ep import expectation_propagation
from pybayesridge.sites.gaussian import Sites
from pybayesridge.sites.spike_slab import fit_row_sites
from pybayesridge.sites.spike_slab_learning import LearningProblem, select_by_sites, sites_objective
from pybayesridge.sites.working import Working
from tests.binomial.problems import coordinates, with_responses
from tests.binomial.selection_oracle import brute_force, integral

SITES = 1e-7  # worst seen 1e-9: sites of the same fixed point, reached in two ways to 1e-9
EVIDENCE = 1e-10  # relative; stationary in the sites, worst seen 1e-14
ALGEBRA = 1e-9  # worst seen 1e-12
SLOPES = 1e-6  # finite differences, worst seen 5e-9
# EP's own error, which is not rounding.
PROB, MEAN, LOG_EVIDENCE = 0.06, 0.1, 0.05


def data(n=30, d=3, seed=4, trials=None, rho=0.0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    for j in range(1, d):
        X[:, j] = rho * X[:, j - 1] + np.sqrt(1 - rho**2) * X[:, j]
    return with_responses(X, trials, rng)


CASES = [
    ("logit", None, None, None, None),
    ("logit", 0.4, None, 5, 0.5),
    ("probit", 0.4, 1.0, None, None),
    ("probit", None, 1.0, 3, None),
    ("logit", 0.2, 3.0, None, 2.0),
]


@pytest.mark.parametrize(("link", "p", "v", "trials", "weight"), CASES)
def test_probabilities_and_moments_are_near_those_of_quadrature(link, p, v, trials, weight):
    X, y, count = data(trials=trials)
    copies = 1.0 if weight is None else weight
    problem = LearningProblem(X, np.ones((y.size, 1)), from_counts(y, count, np.full(y.size, copies), link))
    found = select_by_sites(problem, KnownHyperparameters(None if p is None else np.full(3, p), v))
    oracle = brute_force(X, copies * y, copies * (count - y), link=link, p=p, v=v, points=7, nodes=16)
    assert found.converged
    assert np.abs(found.inclusion_prob - oracle.prob).max() < PROB
    sd = np.sqrt(oracle.square - oracle.mean**2)[1:]
    assert (np.abs(found.mean - oracle.mean[1:]) / sd).max() < MEAN
    assert found.learned == tuple(name for name, given in (("prior_inclusion", p), ("slab_var", v)) if given is None)


@pytest.mark.parametrize("groups", [None, [0, 0, 1]])
@pytest.mark.parametrize("link", ["logit", "probit"])
def test_evidence_and_groups_beside_the_sum_over_sets(link, groups):
    X, y, count = data(seed=5, trials=3)
    labels = np.arange(3) if groups is None else np.array(groups)
    p, v, units = 0.3, 0.8, labels.max() + 1
    result = fit_row_sites(
        X,
        np.ones((y.size, 1)),
        from_counts(y, count, None, link),
        np.full(3, p),
        v,
        groups=None if groups is None else labels,
        tol=1e-6,
    )
    sets = np.array(list(product((False, True), repeat=units)))
    logs = [integral(X[:, inside[labels]], y, count - y, v, link, 11)[0] for inside in sets]
    logs += sets.sum(axis=1) * np.log(p) + (~sets).sum(axis=1) * np.log(1 - p)
    share = np.exp(logs - logsumexp(logs)) @ sets
    assert np.abs(result.inclusion_prob - share[labels]).max() < PROB
    assert abs(result.log_evidence - logsumexp(logs)) < LOG_EVIDENCE


SHAPES = [(60, 8, "logit"), (30, 50, "probit"), (30, 90, "logit"), (40, 200, "probit")]


@pytest.mark.parametrize(("n", "d", "link"), SHAPES)
def test_columns_that_are_always_in_are_the_ridge(n, d, link):
    X, y, count = data(n, d, trials=2)
    likelihood, z = from_counts(y, count, np.full(n, 1.5), link), np.ones((n, 1))
    space = coordinates(likelihood, X, penalized=np.arange(d), z=z, z_names=["one"], z_constant=0, standardize=False)
    v = 0.7
    ridge = expectation_propagation(
        space, likelihood, np.log(v) + 2 * np.log(space.design.common_scale), None, tol=1e-9, maxiter=200
    )
    found = fit_row_sites(X, z, likelihood, np.ones(d), v, tol=1e-8)
    assert found.converged
    assert np.abs(found.row_sites.precision - ridge.sites.precision).max() < SITES
    assert np.abs(found.row_sites.shift - ridge.sites.shift).max() < SITES
    assert found.log_evidence == pytest.approx(ridge.log_evidence, rel=EVIDENCE)
    assert (found.inclusion_prob == 1.0).all()


@pytest.mark.parametrize(("n", "d", "link"), SHAPES)
def test_slopes_of_the_evidence_are_those_of_finite_differences(n, d, link):
    X, y, count = data(n, d, seed=1)
    problem = LearningProblem(X, np.ones((n, 1)), from_counts(y, count, None, link))
    objective = sites_objective(problem, KnownHyperparameters(), 1.0)
    x, step = np.array([logit(0.1), 0.5]), 1e-4

    def at(x):
        return objective.evaluate(x, None, tol=1e-8, maxiter=2000)

    here = at(x)
    assert here.result.converged
    for i, unit in enumerate(step * np.eye(2)):
        slope = (at(x + unit).value - at(x - unit).value) / (2 * step)
        assert abs(here.grad[i] - slope) < SLOPES * max(1.0, abs(slope))


@pytest.mark.parametrize(("n", "d", "k"), [(30, 6, 2), (25, 80, 1), (20, 10, 0)])
def test_working_model_is_that_of_dense_algebra(n, d, k):
    rng = np.random.default_rng(n)
    x, c = rng.standard_normal((n, d)), rng.standard_normal((n, k))
    sites = Sites(rng.uniform(1e-4, 2.0, n), rng.standard_normal(n))
    t1, t2 = rng.standard_normal(d), rng.uniform(0.5, 3.0, d)
    both = np.hstack([c, x])
    precision = (both * sites.precision[:, None]).T @ both + np.diag(np.r_[np.zeros(k), t2])
    right = both.T @ sites.shift + np.r_[np.zeros(k), t1]
    mean, cov = np.linalg.solve(precision, right), np.linalg.inv(precision)
    total = 0.5 * (k + d) * np.log(2 * np.pi) - 0.5 * np.linalg.slogdet(precision)[1] + 0.5 * right @ mean
    working = Working.of(x, c, sites)
    for each in (working, working.without_rows()):
        factor = GaussianSide.build(each.likelihood).factor(t2)
        found = factor.mean(t1)
        assert np.allclose(found, mean[k:], rtol=0, atol=ALGEBRA)
        assert np.allclose(factor.var, np.diag(cov)[k:], rtol=ALGEBRA)
        assert np.isclose(each.log_normalizer(factor, t1, found), total, rtol=ALGEBRA)
    of_rows = working.row_marginals(GaussianSide.build(working.likelihood).factor(t2), mean[k:])
    assert np.allclose(of_rows[0], both @ mean, rtol=0, atol=ALGEBRA)
    assert np.allclose(of_rows[1], np.einsum("ij,jk,ik->i", both, cov, both), rtol=ALGEBRA)


def test_sites_that_do_not_determine_the_unpenalised_coefficients():
    with pytest.raises(FloatingPointError, match="do not determine"):
        Working.of(np.ones((3, 1)), np.ones((3, 2)), Sites(np.ones(3), np.zeros(3)))


@pytest.mark.parametrize("seed", range(4))
def test_hard_cases_settle_by_turns_and_warm_starts_end_at_the_same_point(seed):
    X, y, count = data(60, 300, seed=seed, rho=(0.0, 0.9)[seed % 2])
    arguments = X, np.ones((60, 1)), from_counts(y, count, None, "logit"), np.full(300, 8 / 300), 1.0
    found = fit_row_sites(*arguments)
    assert found.converged
    assert found.residual <= 1e-4
    again = fit_row_sites(*arguments, start=found, tol=1e-5)
    assert again.converged
    assert np.abs(again.inclusion_prob - found.inclusion_prob).max() < 0.01
    short = fit_row_sites(*arguments, maxiter=3)
    assert not short.converged
    assert np.isfinite(short.log_evidence)


def test_columns_that_are_never_in_do_not_matter():
    X, y, count = data(d=5)
    likelihood, c = from_counts(y, count, None, "logit"), np.ones((30, 1))
    p = np.array([0.3, 0.0, 0.3, 1.0, 0.0])
    whole = fit_row_sites(X, c, likelihood, p, 1.0, tol=1e-7)
    part = fit_row_sites(X[:, p > 0], c, likelihood, p[p > 0], 1.0, tol=1e-7)
    assert np.allclose(whole.inclusion_prob[p > 0], part.inclusion_prob, rtol=0, atol=SITES)
    assert (whole.inclusion_prob[p == 0] == 0).all()
    assert np.isinf(whole.site2[p == 0]).all()


def test_copies_of_a_column_are_alike():
    X, y, count = data(d=2)
    X = np.column_stack([X, -X[:, 0]])
    found = fit_row_sites(X, np.ones((30, 1)), from_counts(y, count, None, "logit"), np.full(3, 0.3), 1.0)
    assert found.converged
    assert np.isclose(found.inclusion_prob[0], found.inclusion_prob[2], rtol=1e-9)
    assert np.isclose(found.mean[0], -found.mean[2], rtol=1e-6)


def test_perfect_separation_by_a_column_has_a_proper_answer():
    x = np.linspace(-1, 1, 20)
    X = np.column_stack([x, np.random.default_rng(1).standard_normal((20, 3))])
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    likelihood = from_counts((x > 0).astype(float), None, None, "logit")
    found = select_by_sites(LearningProblem(X, np.ones((20, 1)), likelihood), KnownHyperparameters())
    assert found.unsettled < 0.05
    assert found.inclusion_prob[0] > 0.95
    assert np.isfinite(found.log_evidence)
