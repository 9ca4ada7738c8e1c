import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pybayesridge.ep import Data, covariance, draw_coefficients, fit_sites, row_variances
from pybayesridge.ep.model.likelihood import GaussianLikelihood
from tests.effort import number

from .ep_checks import enumerate_models, nasty, paper_set, problem

EXACT_TOL = 1e-9
EQUIVARIANCE_TOL = 1e-6
TIGHT = 1e-11
#: Median errors of EP against enumeration at d = 12: log evidence, largest inclusion probability.
MEDIAN_ERROR = {(30, 1.0, 0.0): (0.01, 0.01), (30, 1.0, 0.9): (0.3, 0.15), (8, 0.1, 0.0): (0.05, 0.05)}
PAPER_SETS = number(40, 12)
PCEP_SETS = number(8, 3)
NASTY = {"ep": number(400, 100), "damped": 40, "pcep": number(40, 15)}


def paper_fit(seed, **options):
    X, y, X_test, y_test = paper_set(seed)
    r = fit_sites(GaussianLikelihood(Data.from_rows(X, y), 0.005**2), np.full(25, 0.2), 1.0, **options)
    return r, np.mean((X_test @ r.mean - y_test) ** 2)


def never_rises(r):
    energy = r.energy_trace[r.monotone_from :]
    return np.all(np.diff(energy) <= 1e-9 * (1 + np.abs(energy[1:])))


@pytest.mark.parametrize("method", ["ep", "damped", "pcep"])
def test_orthogonal_columns_are_exact(method):
    rng = np.random.default_rng(0)
    X = np.linalg.qr(rng.standard_normal((12, 6)))[0] * 2.0
    y = X[:, 0] - 0.5 * X[:, 1] + 0.3 * rng.standard_normal(12)
    p = np.array([0.1, 0.3, 0.5, 0.9, 0.0, 1.0])
    exact = enumerate_models(X, y, p, 0.8, 0.2)
    r = fit_sites(GaussianLikelihood(Data.from_rows(X, y), 0.2), p, 0.8, method=method, tol=TIGHT, maxiter=5000)
    if method == "pcep":
        # Constraints may be active; where they are not the fixed point is EP's.
        assert r.converged
        assert r.evidence_biased or r.log_evidence == pytest.approx(exact.log_evidence, abs=1e-6)
        return
    assert r.converged
    assert r.log_evidence == pytest.approx(exact.log_evidence, abs=EXACT_TOL)
    assert np.allclose(r.inclusion_prob, exact.inclusion_prob, atol=EXACT_TOL)
    assert np.allclose(r.mean, exact.mean, atol=EXACT_TOL)


@pytest.mark.parametrize("case", MEDIAN_ERROR)
def test_close_to_enumeration(case):
    n, sigma, rho = case
    errors = []
    for seed in range(9):
        X, y = problem(seed, n, 10, rho=rho, sigma=sigma)
        p = np.full(10, 0.3)
        exact = enumerate_models(X, y, p, 1.0, sigma**2)
        r = fit_sites(GaussianLikelihood(Data.from_rows(X, y), sigma**2), p, 1.0)
        assert r.converged
        gap = np.max(np.abs(r.inclusion_prob - exact.inclusion_prob))
        errors.append((abs(r.log_evidence - exact.log_evidence), gap))
    assert np.all(np.median(errors, axis=0) <= MEDIAN_ERROR[case])


@pytest.mark.parametrize("method", ["ep", "damped", "pcep"])
@pytest.mark.parametrize(("n", "d"), [(20, 5), (4, 9), (3, 80)])
def test_all_sure_is_ridge_with_known_noise(method, n, d):
    X, y = problem(1, n, d)
    r = fit_sites(GaussianLikelihood(Data.from_rows(X, y), 0.4), np.ones(d), 0.7, method=method)
    C = np.linalg.inv(X.T @ X / 0.4 + np.eye(d) / 0.7)
    marginal = 0.7 * X @ X.T + 0.4 * np.eye(n)
    log_evidence = -0.5 * (np.linalg.slogdet(2 * np.pi * marginal)[1] + y @ np.linalg.solve(marginal, y))
    assert r.converged
    assert not r.evidence_biased
    assert np.allclose(r.mean, C @ X.T @ y / 0.4, atol=EXACT_TOL)
    assert np.allclose(r.var, np.diag(C), atol=EXACT_TOL)
    assert r.log_evidence == pytest.approx(log_evidence, abs=1e-8)
    assert np.all(r.inclusion_prob == 1)


def test_a_mixture_of_sure_and_unsure_columns_matches_enumeration_of_the_unsure():
    X, y = problem(3, 40, 8, sigma=0.5)
    p = np.array([1.0, 1.0, 0.2, 0.2, 0.2, 0.0, 0.0, 0.2])
    exact = enumerate_models(X, y, p, 1.0, 0.25)
    r = fit_sites(GaussianLikelihood(Data.from_rows(X, y), 0.25), p, 1.0)
    assert np.allclose(r.inclusion_prob, exact.inclusion_prob, atol=0.02)
    assert np.array_equal(r.inclusion_prob[[0, 1, 5, 6]], [1, 1, 0, 0])
    assert np.all(r.mean[5:7] == 0)
    assert np.all(r.var[5:7] == 0)
    assert np.array_equal(r.site1[:2], [0, 0])
    assert np.array_equal(r.site2[:2], [1, 1])


@pytest.mark.parametrize("d", [0, 3])
def test_nothing_can_be_in(d):
    X, y = problem(0, 5, d) if d else (np.zeros((5, 0)), np.arange(5.0))
    r = fit_sites(GaussianLikelihood(Data.from_rows(X, y), 0.5), np.zeros(d), 1.0)
    assert r.converged
    assert r.log_evidence == pytest.approx(-2.5 * np.log(2 * np.pi * 0.5) - y @ y, rel=1e-12)
    assert np.all(r.mean == 0)
    assert row_variances(GaussianLikelihood(Data.from_rows(X, y), 0.5), r, np.ones((2, d))).tolist() == [0, 0]


@pytest.mark.parametrize("tol", [1e-3, 1e-6])
def test_auto_converges_on_every_paper_set_at_the_price_of_ordinary_ep(tol):
    fits = [paper_fit(seed, tol=tol) for seed in range(PAPER_SETS)]
    plain = [paper_fit(seed, method="damped", tol=tol)[1] for seed in range(PAPER_SETS)]
    assert all(r.converged and r.residual <= tol for r, _ in fits)
    assert all(never_rises(r) for r, _ in fits)
    assert np.median([r.n_fac for r, _ in fits]) <= (45 if tol == 1e-3 else 80)
    assert np.mean([mse for _, mse in fits]) <= np.mean(plain)


def test_pcep_energy_falls_at_every_outer_step():
    fac = []
    for seed in range(PCEP_SETS):
        r, _ = paper_fit(seed, method="pcep", tol=1e-3)
        assert r.converged
        assert r.monotone_from == 0
        assert np.all(np.diff(r.energy_trace) <= 1e-10 * (1 + np.abs(r.energy_trace[1:])))
        assert r.evidence_biased == bool(np.any(r.active))
        fac.append(r.n_fac)
    assert np.median(fac) <= 1300


def test_auto_and_ep_agree_where_both_converge_without_constraints():
    agreed = 0
    for seed in range(15):
        X, y = problem(seed, 30, 12, sigma=0.7)
        data, p = Data.from_rows(X, y), np.full(12, 0.25)
        free, plain = (
            fit_sites(GaussianLikelihood(data, 0.49), p, 1.0, method=m, tol=1e-9) for m in ("ep", "damped")
        )
        if plain.converged and not plain.evidence_biased:
            agreed += 1
            assert np.allclose(free.inclusion_prob, plain.inclusion_prob, atol=EQUIVARIANCE_TOL)
            assert free.log_evidence == pytest.approx(plain.log_evidence, abs=EQUIVARIANCE_TOL)
    assert agreed >= 4


def test_rows_and_moments_and_both_sides_agree():
    X, y = problem(7, 30, 75, size=4)
    p = np.full(75, 0.05)
    rows = fit_sites(GaussianLikelihood(Data.from_rows(X, y), 1.0), p, 1.0, tol=1e-9)
    moments = fit_sites(GaussianLikelihood(Data.from_moments(X.T @ X, X.T @ y, y @ y, 30), 1.0), p, 1.0, tol=1e-9)
    assert rows.converged
    assert moments.converged
    assert np.allclose(rows.inclusion_prob, moments.inclusion_prob, atol=EQUIVARIANCE_TOL)
    assert np.allclose(rows.mean, moments.mean, atol=EQUIVARIANCE_TOL)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_copies_share_their_probability(sign):
    X, y = problem(2, 15, 5, sigma=0.3)
    X[:, 4] = sign * X[:, 0]
    exact = enumerate_models(X, y, np.full(5, 0.3), 1.0, 0.09)
    r = fit_sites(GaussianLikelihood(Data.from_rows(X, y), 0.09), np.full(5, 0.3), 1.0)
    assert r.inclusion_prob[0] == pytest.approx(r.inclusion_prob[4], abs=1e-8)
    assert r.mean[0] == pytest.approx(sign * r.mean[4], abs=1e-8)
    assert r.inclusion_prob[0] == pytest.approx(exact.inclusion_prob[0], abs=0.2)


@pytest.mark.parametrize(("n", "d"), [(30, 6), (6, 90)])
def test_predictive_variances_and_draws(n, d):
    X, y = problem(5, n, d)
    data, p = Data.from_rows(X, y), np.full(d, 0.2)
    p[1] = 0.0
    r = fit_sites(GaussianLikelihood(data, 1.0), p, 1.0)
    used = p > 0
    C = np.zeros((d, d))
    C[np.ix_(used, used)] = np.linalg.inv(X[:, used].T @ X[:, used] + np.diag(r.site2[used]))
    rows = np.random.default_rng(0).standard_normal((3, d))
    assert np.allclose(covariance(GaussianLikelihood(data, 1.0), r), C, atol=1e-9)
    assert np.allclose(row_variances(GaussianLikelihood(data, 1.0), r, rows), np.diag(rows @ C @ rows.T), rtol=1e-8)
    draws = draw_coefficients(GaussianLikelihood(data, 1.0), r, 20_000, np.random.default_rng(1))
    assert np.all(draws[:, 1] == 0)
    assert np.allclose(draws.var(axis=0), r.var, rtol=0.08, atol=1e-12)


def test_warm_start_costs_less_and_ends_at_the_same_place():
    X, y = problem(9, 20, 40, size=4)
    data, p = Data.from_rows(X, y), np.full(40, 0.1)
    cold = fit_sites(GaussianLikelihood(data, 1.0), p, 1.0, tol=1e-8)
    warm = fit_sites(GaussianLikelihood(data, 1.0), p, 1.0, tol=1e-7, start=cold)
    near = fit_sites(GaussianLikelihood(data, 1.0), p, 1.05, tol=1e-8, start=cold)
    fresh = fit_sites(GaussianLikelihood(data, 1.0), p, 1.05, tol=1e-8)
    assert warm.n_fac <= 2
    assert near.n_fac < fresh.n_fac
    assert np.allclose(near.inclusion_prob, fresh.inclusion_prob, atol=EQUIVARIANCE_TOL)


def test_too_few_iterations_is_said():
    r, _ = paper_fit(0, maxiter=3)
    assert not r.converged
    assert r.residual > 1e-4
    assert r.n_iter == 3


def test_wide_correlated_design_converges():
    X, y = problem(0, 50, 300, rho=0.95, sigma=0.3, size=5)
    r = fit_sites(GaussianLikelihood(Data.from_rows(X, y), 0.09), np.full(300, 5 / 300), 1.0, tol=1e-3)
    assert r.converged
    assert never_rises(r)


@pytest.mark.parametrize("method", ["ep", "damped", "pcep"])
def test_nasty_problems_give_sane_answers_or_say_so(method):
    count, unsettled = NASTY[method], 0
    for seed in range(count):
        X, y, p, slab_var, noise_var = nasty(seed)
        data = Data.from_rows(X, y) if seed % 2 else Data.from_moments(X.T @ X, X.T @ y, y @ y, len(y))
        r = fit_sites(GaussianLikelihood(data, noise_var), p, slab_var, method=method, maxiter=150)
        assert np.all((r.inclusion_prob >= 0) & (r.inclusion_prob <= 1))
        assert np.all(np.isfinite(r.mean))
        assert np.all((r.var > 0) | (p == 0))
        assert np.all(r.cond_var >= 0)
        assert np.all(r.inclusion_prob[p == 0] == 0)
        assert np.all(r.inclusion_prob[p == 1] == 1)
        assert never_rises(r)
        assert r.converged == (r.residual <= 1e-4)
        assert r.n_iter <= 150
        unsettled += not r.converged
    assert method != "ep" or unsettled <= 0.05 * count


@settings(max_examples=number(25, 12), deadline=None)
@given(seed=st.integers(0, 10**6), log_k=st.floats(-8, 8), log_c=st.floats(-3, 3))
def test_equivariance(seed, log_k, log_c):
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(8, 25)), int(rng.integers(2, 15))
    X, y = problem(seed, n, d, sigma=0.8)
    p = rng.uniform(0.05, 0.6, d)
    base = fit_sites(GaussianLikelihood(Data.from_rows(X, y), 0.64), p, 1.0, tol=1e-9)
    k, c = 10.0**log_k, 10.0**log_c
    order, signs = rng.permutation(d), rng.choice([-1.0, 1.0], d)
    y_scaled = fit_sites(GaussianLikelihood(Data.from_rows(X, k * y), k**2 * 0.64), p, k**2, tol=1e-9)
    x_scaled = fit_sites(GaussianLikelihood(Data.from_rows(c * X, y), 0.64), p, c**-2, tol=1e-9)
    moved = fit_sites(GaussianLikelihood(Data.from_rows((X * signs)[:, order], y), 0.64), p[order], 1.0, tol=1e-9)
    if not base.converged:
        return
    assert np.allclose(y_scaled.inclusion_prob, base.inclusion_prob, atol=EQUIVARIANCE_TOL)
    assert np.allclose(y_scaled.mean, k * base.mean, atol=k * EQUIVARIANCE_TOL)
    assert y_scaled.log_evidence == pytest.approx(base.log_evidence - n * np.log(k), abs=1e-5)
    assert np.allclose(x_scaled.inclusion_prob, base.inclusion_prob, atol=EQUIVARIANCE_TOL)
    assert np.allclose(moved.inclusion_prob, base.inclusion_prob[order], atol=EQUIVARIANCE_TOL)
    assert np.allclose(moved.mean, (signs * base.mean)[order], atol=EQUIVARIANCE_TOL)


@pytest.mark.parametrize("shape", [(4, 1), (2, 80), (0, 3)])
def test_columns_without_information_keep_their_prior(shape):
    X, y = np.zeros(shape), np.arange(1.0, shape[0] + 1)
    p = np.full(shape[1], 0.3)
    for data in (Data.from_rows(X, y, 5), Data.from_moments(X.T @ X, X.T @ y, y @ y, 5)):
        free = fit_sites(GaussianLikelihood(data, 1.0), p, 2.0)
        assert free.converged
        assert np.allclose(free.inclusion_prob, p, atol=EXACT_TOL)
        assert np.allclose(free.var, 0.6, atol=EXACT_TOL)
        assert free.log_evidence == pytest.approx(-2.5 * np.log(2 * np.pi) - 0.5 * y @ y, abs=1e-8)
        assert fit_sites(GaussianLikelihood(data, 1.0), p, 2.0, method="damped").converged


@pytest.mark.parametrize("noise_var", [1e-300, 1e-16, 1e16, 1e300])
@pytest.mark.parametrize("slab_var", [1e-300, 1.0, 1e300])
def test_variances_at_the_ends_of_the_range_of_floats(slab_var, noise_var):
    X, y = problem(0, 6, 80)
    r = fit_sites(GaussianLikelihood(Data.from_rows(X, y), noise_var), np.full(80, 0.1), slab_var, maxiter=60)
    assert np.all((r.inclusion_prob >= 0) & (r.inclusion_prob <= 1))
    assert np.all(np.isfinite(r.mean))
    assert np.all(r.var >= 0)
    assert r.converged == (r.residual <= 1e-4)


def test_pcep_evidence_is_read_from_the_cavities_not_from_the_energy():
    from_cavities, from_energy = [], []
    for seed in range(7):
        X, y = problem(seed, 8, 9, sigma=0.1)
        p = np.full(9, 0.25)
        exact = enumerate_models(X, y, p, 1.0, 0.01).log_evidence
        r = fit_sites(GaussianLikelihood(Data.from_rows(X, y), 0.01), p, 1.0, method="pcep")
        assert r.evidence_biased
        from_cavities.append(abs(r.log_evidence - exact))
        from_energy.append(abs(-r.energy_trace[-1] - exact))
    assert np.median(from_cavities) < 0.2 < np.median(from_energy)
