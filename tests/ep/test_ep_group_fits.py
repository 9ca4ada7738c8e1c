"""EP with groups beside enumeration of all models of groups, and its own invariances."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.stats import ortho_group

from pybayesridge.ep import (
    Data,
    average,
    covariance,
    draw_coefficients,
    evidence_gradient,
    fit_sites,
    learn,
    row_variances,
)
from pybayesridge.ep.algorithms.convergent import _inner_curvature
from pybayesridge.ep.algorithms.damped import FLOOR
from pybayesridge.ep.algorithms.energy import energy_point
from pybayesridge.ep.algorithms.inner import Effort, evaluate, newton_step, solve_inner
from pybayesridge.ep.algorithms.newton import newton_direction
from pybayesridge.ep.algorithms.solve import marginal_variances
from pybayesridge.ep.algorithms.state import EPModel
from pybayesridge.ep.gibbs import gibbs
from pybayesridge.ep.model.gaussian import GaussianSide
from pybayesridge.ep.model.hyperparameters import KnownHyperparameters
from pybayesridge.ep.model.likelihood import GaussianLikelihood
from pybayesridge.ep.model.prior import Prior
from pybayesridge.ep.model.rotation import orthogonal_groups
from tests.effort import only_thorough

from .ep_checks import enumerate_groups, nasty

EXACT_TOL = 1e-9
INVARIANCE_TOL = 1e-7
TIGHT = 1e-11
#: Median errors beside enumeration of 7 groups of 16 columns: log evidence, largest inclusion probability, largest
#: mean, covariance (relative, Frobenius).
MEDIAN_ERROR = {
    (40, 0.5, 0.0, 1.0): (0.01, 0.01, 0.005, 0.05),
    (40, 0.9, 0.5, 1.0): (0.03, 0.03, 0.03, 0.15),
    (15, 0.9, 0.3, 0.5): (0.03, 0.03, 0.03, 0.2),
}
HARD = 40
GIBBS_TOL = 0.02

SIZES = [3, 1, 2, 4, 1, 3, 2]


def correlated(seed, n, within, between, sigma, sizes=SIZES):
    """X with such correlations within and between groups, y of two groups, groups."""
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(len(sizes)), sizes)
    shape = (n, groups.size)
    X = np.sqrt(between) * rng.standard_normal((n, 1)) + np.sqrt(1 - within) * rng.standard_normal(shape)
    X += np.sqrt(within - between) * rng.standard_normal((n, len(sizes)))[:, groups]
    w = np.zeros(groups.size)
    for g in rng.choice(len(sizes), 2, replace=False):
        w[groups == g] = rng.standard_normal((groups == g).sum())
    return X, X @ w + sigma * rng.standard_normal(n), groups


def hard(seed):
    """Few rows, many correlated columns in groups: X, y, groups, p, noise_var."""
    rng = np.random.default_rng([7, seed])
    n, d = int(rng.integers(10, 41)), int(rng.integers(25, 61))
    groups = np.sort(rng.integers(0, d // 3, d))
    groups = np.unique(groups, return_inverse=True)[1]
    within = rng.choice([0, 0.5, 0.9, 0.99])
    between = rng.choice([0, 0.5, 0.9]) * within
    X = np.sqrt(between) * rng.standard_normal((n, 1)) + np.sqrt(1 - within) * rng.standard_normal((n, d))
    X += np.sqrt(within - between) * rng.standard_normal((n, d))[:, groups]
    w = rng.standard_normal(d) * (rng.random(d) < 0.15)[groups]
    sigma = 10.0 ** rng.uniform(-2, 0.5)
    return X, X @ w + sigma * rng.standard_normal(n), groups, rng.uniform(0.05, 0.5), sigma**2


def rotated_fit(X, y, groups, p, slab_var, noise_var, **options):
    """EP in orthogonal coordinates: result, mean and covariance of the columns of X, rotation, data."""
    data, rotation = orthogonal_groups(Data.from_rows(X, y), groups)
    r = fit_sites(GaussianLikelihood(data, noise_var), p, slab_var, groups=groups, **options)
    return (
        r,
        rotation.back(r.mean),
        rotation.covariance(covariance(GaussianLikelihood(data, noise_var), r)),
        rotation,
        data,
    )


def first(groups):
    return np.unique(groups, return_index=True)[1]


@pytest.mark.parametrize("method", ["ep", "damped"])
@pytest.mark.parametrize("n", [30, 3])
def test_a_single_group_is_exact_however_correlated_its_columns(method, n):
    X, y, _ = correlated(1, n, 0.95, 0.3, 1.0)
    groups, p = np.zeros(16, dtype=int), np.array([0.3])
    exact = enumerate_groups(X, y, groups, p, 0.1, 1.0)
    r, mean, cov, rotation, data = rotated_fit(X, y, groups, p[groups], 0.1, 1.0, method=method, tol=TIGHT)
    assert r.converged
    assert 0.01 < exact.inclusion_prob[0] <= 1
    if r.evidence_biased:
        # "damped" keeps sites above a floor; what it has then settled at is another fixed point.
        assert method == "damped"
        return
    assert r.log_evidence == pytest.approx(exact.log_evidence, abs=EXACT_TOL)
    assert np.allclose(r.inclusion_prob, exact.inclusion_prob[groups], atol=EXACT_TOL)
    assert np.allclose(mean, exact.mean, atol=EXACT_TOL)
    assert np.allclose(cov, exact.cov, atol=EXACT_TOL)
    assert np.allclose(
        marginal_variances(GaussianLikelihood(data, 1.0), r, rotation), np.diag(exact.cov), atol=EXACT_TOL
    )


@pytest.mark.parametrize("method", ["ep", "damped", "pcep"])
def test_groups_orthogonal_to_each_other_are_exact(method):
    rng = np.random.default_rng(0)
    groups = np.array([0, 1, 0, 2, 1, 1, 3, 4])
    basis = np.linalg.qr(rng.standard_normal((20, 8)))[0] * 2.0
    X = np.empty((20, 8))
    for g in range(5):
        inside = groups == g
        X[:, inside] = basis[:, inside] @ rng.standard_normal((inside.sum(),) * 2)
    y = X @ np.array([1.0, 0, -0.4, 0, 0, 0, 0.3, 0]) + 0.4 * rng.standard_normal(20)
    p = np.array([0.1, 0.5, 1.0, 0.3, 0.0])
    exact = enumerate_groups(X, y, groups, p, 0.8, 0.2)
    r, mean, cov, _, _ = rotated_fit(X, y, groups, p[groups], 0.8, 0.2, method=method, tol=TIGHT, maxiter=5000)
    assert r.converged
    if r.evidence_biased:
        assert method != "ep"
        return
    assert r.log_evidence == pytest.approx(exact.log_evidence, abs=EXACT_TOL)
    assert np.allclose(r.inclusion_prob, exact.inclusion_prob[groups], atol=EXACT_TOL)
    assert np.allclose(mean, exact.mean, atol=EXACT_TOL)
    assert np.allclose(cov, exact.cov, atol=EXACT_TOL)


@pytest.mark.parametrize("case", MEDIAN_ERROR)
def test_close_to_enumeration(case):
    n, within, between, sigma = case
    errors = []
    for seed in range(15):
        X, y, groups = correlated(seed, n, within, between, sigma)
        p = np.full(len(SIZES), 0.3)
        exact = enumerate_groups(X, y, groups, p, 1.0, sigma**2)
        r, mean, cov, _, _ = rotated_fit(X, y, groups, p[groups], 1.0, sigma**2)
        assert r.converged
        errors.append(
            (
                abs(r.log_evidence - exact.log_evidence),
                np.max(np.abs(r.inclusion_prob[first(groups)] - exact.inclusion_prob)),
                np.max(np.abs(mean - exact.mean)),
                np.linalg.norm(cov - exact.cov) / np.linalg.norm(exact.cov),
            )
        )
    assert np.all(np.median(errors, axis=0) <= MEDIAN_ERROR[case])


def test_groups_of_one_column_are_columns_on_their_own():
    X, y, _ = correlated(3, 20, 0.9, 0.5, 0.5)
    p = np.full(16, 0.3)
    alone = fit_sites(GaussianLikelihood(Data.from_rows(X, y), 0.25), p, 1.0)
    grouped = fit_sites(GaussianLikelihood(Data.from_rows(X, y), 0.25), p, 1.0, groups=np.arange(16)[::-1])
    assert grouped.groups is None
    assert np.allclose(grouped.mean, alone.mean, atol=EXACT_TOL)
    assert grouped.log_evidence == pytest.approx(alone.log_evidence, rel=EXACT_TOL)


@pytest.mark.parametrize("balanced", [False, True])
def test_order_signs_and_rotations_within_groups_do_not_matter(balanced):
    rng = np.random.default_rng(4)
    X, y, groups = correlated(5, 24, 0.7, 0.2, 0.7)
    if balanced:
        # A balanced factor has equal singular values, hence no coordinates of its own.
        levels = np.tile(np.eye(4), (6, 1))
        X[:, groups == 3] = levels - levels.mean(axis=0)
        X[:, groups == 0] = np.linalg.qr(X[:, groups == 0])[0]
    p = rng.uniform(0.1, 0.6, len(SIZES))[groups]
    base, mean, cov, _, _ = rotated_fit(X, y, groups, p, 1.0, 0.5, tol=TIGHT)
    order, signs = rng.permutation(16), rng.choice([-1.0, 1.0], 16)
    moved, moved_mean, moved_cov, _, _ = rotated_fit(
        (X * signs)[:, order], y, groups[order], p[order], 1.0, 0.5, tol=TIGHT
    )
    assert np.allclose(moved.inclusion_prob, base.inclusion_prob[order], atol=INVARIANCE_TOL)
    assert np.allclose(moved_mean, (signs * mean)[order], atol=INVARIANCE_TOL)
    assert np.allclose(moved_cov, (cov * np.outer(signs, signs))[np.ix_(order, order)], atol=INVARIANCE_TOL)
    assert moved.log_evidence == pytest.approx(base.log_evidence, abs=INVARIANCE_TOL)
    turn = np.eye(16)
    turn[np.ix_(groups == 3, groups == 3)] = ortho_group.rvs(4, random_state=1)
    turned, turned_mean, _, _, _ = rotated_fit(X @ turn, y, groups, p, 1.0, 0.5, tol=TIGHT)
    assert turned.log_evidence == pytest.approx(base.log_evidence, abs=INVARIANCE_TOL)
    assert np.allclose(turn @ turned_mean, mean, atol=INVARIANCE_TOL)


def test_columns_that_are_combinations_of_others_in_their_group_add_nothing():
    X, y, groups = correlated(6, 30, 0.3, 0.0, 1.0)
    wide = np.column_stack([X, X[:, 0] - X[:, 2]])
    more = np.append(groups, 0)
    p = np.full(17, 0.3)
    exact = enumerate_groups(wide, y, more, np.full(len(SIZES), 0.3), 1.0, 1.0)
    r, mean, _, _, _ = rotated_fit(wide, y, more, p, 1.0, 1.0)
    assert r.converged
    assert np.allclose(mean, exact.mean, atol=0.02)
    assert np.allclose(r.inclusion_prob[first(more)], exact.inclusion_prob, atol=0.02)


@pytest.mark.parametrize("n", [40, 6])
def test_all_groups_sure_is_ridge_and_none_is_nothing(n):
    X, y, groups = correlated(7, n, 0.6, 0.2, 1.0)
    p = np.where(groups < 5, 1.0, 0.0)
    r, mean, cov, _, _ = rotated_fit(X, y, groups, p, 0.7, 0.4)
    part = X[:, p > 0]
    C = np.linalg.inv(part.T @ part / 0.4 + np.eye(part.shape[1]) / 0.7)
    assert r.converged
    assert np.allclose(mean[p > 0], C @ part.T @ y / 0.4, atol=EXACT_TOL)
    assert np.allclose(cov[np.ix_(p > 0, p > 0)], C, atol=EXACT_TOL)
    assert np.all(mean[p == 0] == 0)
    assert np.array_equal(r.inclusion_prob, p)
    nothing = rotated_fit(X, y, groups, 0.0 * p, 0.7, 0.4)
    assert np.all(nothing[2] == 0)


def test_evidence_gradient_matches_finite_differences():
    X, y, groups = correlated(8, 30, 0.5, 0.2, 1.0)
    data, _ = orthogonal_groups(Data.from_rows(X, y), groups)
    logits = np.linspace(-1.5, 0.5, len(SIZES))

    def fit(x):
        p = 1.0 / (1.0 + np.exp(-x[2:]))
        return fit_sites(GaussianLikelihood(data, np.exp(x[1])), p[groups], np.exp(x[0]), groups=groups, tol=1e-12)

    at = np.concatenate([[0.2, -0.1], logits])
    r = fit(at)
    g = evidence_gradient(
        GaussianLikelihood(data, np.exp(-0.1)), (1.0 / (1.0 + np.exp(-logits)))[groups], np.exp(0.2), r
    )
    numeric = approx_fprime(at, lambda x: fit(x).log_evidence, 1e-5)
    assert np.allclose(numeric[:2], [g.log_slab_var, g.log_noise_var], atol=1e-4)
    assert np.allclose(numeric[2:], g.logit_inclusion, atol=1e-4)


def test_full_newton_converges_quadratically_near_a_fixed_point():
    X, y, groups = correlated(9, 12, 0.3, 0.0, 0.7, sizes=[2, 1, 3])
    data = Data.from_rows(X, y)
    m = EPModel.build(
        GaussianSide.build(GaussianLikelihood(data, 0.5)), Prior.from_probability(np.full(6, 0.3), 1.5, groups)
    )
    r = fit_sites(GaussianLikelihood(data, 0.5), np.full(6, 0.3), 1.5, groups=groups, tol=TIGHT)
    assert r.converged
    for core, refine in ((6, 0), (3, 200)):
        point = energy_point(m, r.mean + 1e-5, r.site2 * (1 + 1e-5))
        step = newton_direction(m, point, core, 0.0 if refine == 0 else 1e-9, refine)
        new = energy_point(m, point.mean + step.mean, point.t2 + step.t2)
        share = 0.02 if refine == 0 else 0.3  # conjugate gradients stop at a tenth
        assert np.max(np.abs(new.mean - r.mean)) < share * 1e-5
        assert new.energy < point.energy


def pcep_model(dual=None):
    X, y, groups = correlated(10, 7, 0.3, 0.0, 0.7, sizes=[2, 1, 3])
    prior = Prior.from_probability(np.array([0.3, 0.5, 0.2])[groups], 1.5, groups)
    return EPModel.build(GaussianSide.build(GaussianLikelihood(Data.from_rows(X, y), 0.5), dual), prior)


def test_inner_newton_step_of_pcep_is_the_same_dense_and_by_conjugate_gradients():
    rng = np.random.default_rng(1)
    v2, t1, t2 = rng.uniform(3, 5, 6), rng.standard_normal(6), rng.uniform(0.5, 2, 6)
    v1 = rng.standard_normal(6)
    steps = []
    moving = np.ones(6, dtype=bool)
    for dual in (False, True):
        point = evaluate(pcep_model(dual), v1, v2, t1, t2, Effort())
        steps.append(newton_step(point, moving, moving, (np.full(6, -1e9), np.full(6, 1e9))))
    assert np.allclose(steps[0], steps[1], rtol=1e-3, atol=1e-3)
    step = np.concatenate(steps[0])
    m = pcep_model(False)

    def gradient(x):
        p = evaluate(m, v1, v2, x[:6], x[6:], Effort())
        return np.concatenate([p.grad1, p.grad2])

    at = np.concatenate([t1, t2])
    along = (gradient(at + 1e-6 * step) - gradient(at - 1e-6 * step)) / 2e-6
    assert np.allclose(along, -gradient(at), atol=1e-6)


@pytest.mark.parametrize(("low", "high", "at_upper"), [(6.0, 9.0, False), (0.3, 3.0, True)])
def test_inner_curvature_of_pcep_is_the_derivative_of_the_moments(low, high, at_upper):
    m, floor = pcep_model(False), FLOOR / 1.5
    rng = np.random.default_rng(2)
    v2, v1 = rng.uniform(low, high, 6), rng.standard_normal(6)

    def solved(v1, v2):
        return solve_inner(m, v1, v2, np.zeros(6), np.full(6, 1.0), floor, Effort())

    inner = solved(v1, v2)
    upper = inner.t2 >= v2 - floor * (1 + 1e-6)
    free = (inner.t2 > floor * (1 + 1e-6)) & ~upper
    assert upper.any() == at_upper

    def moments(x):
        # The envelope theorem: those of Q for a site at its upper bound.
        at = solved(x[:6], -2.0 * x[6:])
        second = np.where(upper, at.factor.var + at.mean**2, at.tilt.var + at.tilt.mean**2)
        return np.concatenate([at.tilt.mean, second])

    numeric = approx_fprime(np.concatenate([v1, -0.5 * v2]), moments, 1e-5)
    assert np.allclose(numeric, _inner_curvature(inner, free, upper), atol=2e-4)


def test_pcep_energy_falls_at_every_outer_step():
    for seed in range(4):
        X, y, groups = correlated(seed, 15, 0.6, 0.2, 0.5)
        data, _ = orthogonal_groups(Data.from_rows(X, y), groups)
        r = fit_sites(GaussianLikelihood(data, 0.25), np.full(16, 0.3), 1.0, groups=groups, method="pcep", tol=1e-3)
        assert r.converged
        assert np.all(np.diff(r.energy_trace) <= 1e-10 * (1 + np.abs(r.energy_trace[1:])))


def test_auto_settles_on_hard_problems_and_its_energy_never_rises():
    for seed in range(HARD):
        X, y, groups, p, noise_var = hard(seed)
        r = rotated_fit(X, y, groups, np.full(groups.size, p), 1.0, noise_var)[0]
        energy = r.energy_trace[r.monotone_from :]
        assert r.converged
        assert np.all(np.diff(energy) <= 1e-9 * (1 + np.abs(energy[1:])))


@only_thorough
def test_block_gibbs_draws_from_the_exact_posterior():
    X, y, groups = correlated(11, 20, 0.5, 0.2, 1.0, sizes=[2, 3, 1, 2])
    p = np.array([0.3, 0.5, 0.2, 0.4])
    exact = enumerate_groups(X, y, groups, p, 0.5, 1.0)
    rng = np.random.default_rng(3)
    draws = gibbs(
        GaussianLikelihood(Data.from_rows(X, y), 1.0), p[groups], 0.5, np.full(8, 0.5), 20_000, 200, rng, groups
    )
    nonzero = draws != 0
    for g in range(4):
        assert np.array_equal(nonzero[:, groups == g].any(axis=1), nonzero[:, groups == g].all(axis=1))
    assert np.allclose(nonzero.mean(axis=0)[first(groups)], exact.inclusion_prob, atol=GIBBS_TOL)
    assert np.allclose(draws.mean(axis=0), exact.mean, atol=GIBBS_TOL)
    assert np.allclose(np.cov(draws.T), exact.cov, atol=GIBBS_TOL)


def test_gibbs_keeps_groups_of_probability_zero_out_and_of_one_in():
    X, y, groups = correlated(12, 20, 0.5, 0.2, 1.0, sizes=[2, 3, 1])
    p = np.array([0.0, 1.0, 0.5])[groups]
    draws = gibbs(GaussianLikelihood(Data.from_rows(X, y), 1.0), p, 0.5, p, 50, 5, np.random.default_rng(0), groups)
    assert np.all(draws[:, :2] == 0)
    assert np.all(draws[:, 2:5] != 0)


@pytest.mark.parametrize("n", [30, 6])
def test_predictive_variances_and_draws_are_those_of_the_covariance(n):
    sizes = [3, 2, 1] * 15
    X, y, groups = correlated(13, n, 0.4, 0.1, 1.0, sizes=sizes)
    p = np.where(groups == 1, 0.0, 0.2)
    data = Data.from_rows(X, y)
    r = fit_sites(GaussianLikelihood(data, 1.0), p, 1.0, groups=groups)
    cov = covariance(GaussianLikelihood(data, 1.0), r)
    rows = np.random.default_rng(0).standard_normal((3, 90))
    assert np.allclose(row_variances(GaussianLikelihood(data, 1.0), r, rows), np.diag(rows @ cov @ rows.T), rtol=1e-8)
    rotated, rotation = orthogonal_groups(data, groups)
    q = fit_sites(GaussianLikelihood(rotated, 1.0), p, 1.0, groups=groups)
    own = rotation.covariance(covariance(GaussianLikelihood(rotated, 1.0), q))
    assert np.allclose(marginal_variances(GaussianLikelihood(rotated, 1.0), q, rotation), np.diag(own), atol=1e-10)
    assert np.linalg.eigvalsh(own)[0] > -1e-12
    draws = draw_coefficients(GaussianLikelihood(data, 1.0), r, 40_000, np.random.default_rng(1)) - r.mean
    assert np.allclose(draws.T @ draws / 40_000, cov, atol=0.03)
    assert np.all(draws[:, groups == 1] == 0)
    unit = np.flatnonzero(groups == first(groups).size - 3)
    inside = r.inclusion_prob[unit[0]]
    own = draw_coefficients(GaussianLikelihood(data, 1.0), r, 40_000, np.random.default_rng(2), unit)
    assert unit.size == 3
    assert np.array_equal(own[:, unit].any(axis=1), own[:, unit].all(axis=1))
    assert (own[:, unit[0]] == 0).mean() == pytest.approx(1 - inside, abs=0.015)
    own -= r.mean
    assert np.allclose(own.T @ own / 40_000, cov, atol=0.03)


def test_learned_prior_inclusion_counts_groups():
    X, y, groups = correlated(14, 60, 0.3, 0.0, 0.5, sizes=[6] * 6 + [1] * 6)
    data, _ = orthogonal_groups(Data.from_rows(X, y), groups)
    found = learn(data, KnownHyperparameters(None, 1.0, 0.25), groups=groups)
    share = found.result.inclusion_prob[first(groups)]
    p = found.hyper.prior_inclusion[0]
    assert found.converged
    # At the maximum over the log odds of p, of 12 groups and not of 42 columns.
    odds = p / (1 - p)
    prior = 1 - 2 * odds / (odds + 1 / 11)
    assert share.sum() - 12 * p + prior == pytest.approx(0.0, abs=1e-2)
    mixture = average(data, KnownHyperparameters(None, 1.0, 0.25), groups=groups)
    assert mixture.converged
    assert np.allclose(mixture.inclusion_prob[first(groups)][groups], mixture.inclusion_prob, atol=1e-12)


@pytest.mark.parametrize("method", ["ep", "damped", "pcep"])
def test_nasty_problems_give_sane_answers_or_say_so(method):
    count, unsettled = (150, 0) if method == "ep" else (25, 0)
    for seed in range(count):
        X, y, p, slab_var, noise_var = nasty(seed)
        groups = np.random.default_rng(seed).integers(0, max(p.size // 2, 1), p.size)
        p = p[first(groups)][np.unique(groups, return_inverse=True)[1]]
        data, rotation = orthogonal_groups(Data.from_rows(X, y), groups)
        r = fit_sites(GaussianLikelihood(data, noise_var), p, slab_var, groups=groups, method=method, maxiter=100)
        assert np.all((r.inclusion_prob >= 0) & (r.inclusion_prob <= 1))
        assert np.all(np.isfinite(rotation.back(r.mean)))
        assert np.all(r.inclusion_prob[p == 0] == 0)
        assert np.all(r.inclusion_prob[p == 1] == 1)
        assert r.converged == (r.residual <= 1e-4)
        variances = marginal_variances(GaussianLikelihood(data, noise_var), r, rotation)
        assert np.all(variances >= 0)
        assert np.all(np.isfinite(variances))
        unsettled += not r.converged
    assert method != "ep" or unsettled <= 0.05 * count
