"""The pure functions behind the ridge paper's figures and tables and the scaling curves."""

import sys

import numpy as np
import pytest
from scipy import integrate, stats

from benchmarks import common, scaling
from benchmarks.paper_ridge import algorithms, appendix_a, figures_common, simulation, table1
from pybayesridge import BayesRidge

EXACT = 1e-12
"""Closed forms against each other."""
SOLVED = 1e-9
"""The same answer by two factorisations of a well-conditioned matrix."""
STOPPED = 1e-5
"""EM stops by a rule on the residual, at some distance from its fixed point."""
INTEGRATED = 1e-8
DEVIATIONS = 5.0
"""Standard errors a sample may be off; the seeds are fixed."""


@pytest.fixture
def regression():
    rng = np.random.default_rng(7)
    x = rng.standard_normal((40, 6)) * np.arange(1, 7) + 3.0
    return x, x @ rng.standard_normal(6) + 4 * rng.standard_normal(40)


def rotated(x, y):
    data = algorithms.standardize(x, y)
    return data, algorithms.rotate(data.x, data.y, left=True)


def test_the_m_step_solves_the_quadratic_equation():
    n, p, ess, esn = 30, 8, 12.0, 5.0
    tau2, sigma2 = algorithms.m_step(ess, esn, n, p)
    terms = [(3 + p) * ess * tau2**2, (esn - n * esn + (1 + p) * ess) * tau2, -(n + 1) * esn]
    assert abs(sum(terms)) <= EXACT * max(map(abs, terms))
    assert sigma2 == pytest.approx((tau2 * ess + esn) / ((n + p + 2) * tau2), rel=EXACT)


def test_em_on_the_rotation_is_em_with_the_inverse(regression):
    data, r = rotated(*regression)
    n, p = data.x.shape
    yy = float(data.y @ data.y)
    fast = algorithms.em(r.s2, r.c, yy, n, p)
    naive = algorithms.naive_em(data.x.T @ data.x, data.x.T @ data.y, yy, n)
    assert fast.n_iter == naive.n_iter
    assert fast.tau2 == pytest.approx(naive.tau2, rel=SOLVED)
    np.testing.assert_allclose(r.v @ fast.b, naive.b, rtol=SOLVED)


def test_em_that_may_not_stop_says_so(regression):
    data, r = rotated(*regression)
    found = algorithms.em(r.s2, r.c, float(data.y @ data.y), *data.x.shape, epsilon=-1.0, maxiter=7)
    assert (found.n_iter, found.converged) == (7, False)


def test_em_ends_where_the_package_does_with_the_paper_s_count(regression):
    x, y = regression
    b, found = algorithms.fit_em(x, y)
    result = BayesRidge(y, x, prior="half-cauchy").fit("em", dof="paper")
    assert 1 / found.tau2 == pytest.approx(result.lambda_, rel=STOPPED)
    np.testing.assert_allclose(b, np.asarray(result.params)[1:], rtol=STOPPED)


def test_a_constant_column_gets_nothing(regression):
    x, y = regression
    b, _ = algorithms.fit_em(np.column_stack([np.ones(40), x]), y)
    assert b[0] == 0
    np.testing.assert_allclose(b[1:], algorithms.fit_em(x, y)[0], rtol=SOLVED)


@pytest.mark.parametrize("n", [40, 5])
def test_leave_one_out_with_the_intercept_is_leaving_one_out(regression, n):
    x, y = (v[:n] for v in regression)
    data, r = rotated(x, y)
    scores = algorithms.loocv(r, data.y, np.array([0.5, 20.0]), intercept=True)
    for lam, score in zip([0.5, 20.0], scores, strict=True):
        left = []
        for i in range(n):
            keep = np.arange(n) != i
            center, mean = data.x[keep].mean(axis=0), y[keep].mean()
            z = data.x[keep] - center
            b = np.linalg.solve(z.T @ z + lam * np.eye(6), z.T @ (y[keep] - mean))
            left.append(y[i] - mean - (data.x[i] - center) @ b)
        assert score == pytest.approx(np.mean(np.square(left)), rel=SOLVED)


def test_leave_one_out_needs_left_vectors(regression):
    data, _ = rotated(*regression)
    with pytest.raises(ValueError, match="left singular vectors"):
        algorithms.loocv(algorithms.rotate(data.x, data.y), data.y, np.ones(1), intercept=True)


def test_leave_one_out_and_glmnet_s_grid_are_the_package_s(regression):
    x, y = regression
    b, lam = algorithms.fit_loocv(x, y, intercept=True)
    result = BayesRidge(y, x).fit("loocv", grid="fixed")
    assert lam == pytest.approx(result.lambda_, rel=EXACT)
    np.testing.assert_allclose(b, np.asarray(result.params)[1:], rtol=SOLVED)
    grid = algorithms.glmnet_grid(x, y, times_n=True)
    np.testing.assert_allclose(grid, np.ravel(BayesRidge(y, x).fit("loocv", grid="glmnet").grid), rtol=EXACT)
    np.testing.assert_allclose(algorithms.glmnet_grid(x, y, times_n=False) * 40, grid, rtol=EXACT)


def test_sparse_columns():
    y, x, b = simulation.sparse(20_000, 2.0, np.random.default_rng(1))
    assert x.shape == (20_000, 100)
    assert set(np.unique(x)) == {0.0, 1.0}
    assert abs(x.mean() - 0.01) < DEVIATIONS * np.sqrt(0.01 / x.size)
    assert abs((y - x @ b).std() - 2.0) < DEVIATIONS * 2.0 / np.sqrt(2 * y.size)


def test_wishart_rows_have_the_covariance_of_their_seed():
    y, x, b = simulation.wishart(20_000, 4, np.random.default_rng(2))
    root = np.random.default_rng(2).standard_normal((4, 4))
    white = np.linalg.solve(root, x.T)
    assert np.abs(white @ white.T / y.size - np.eye(4)).max() < DEVIATIONS * np.sqrt(2 / y.size)
    assert abs((y - x @ b).std() - 0.5) < DEVIATIONS * 0.5 / np.sqrt(2 * y.size)


def test_coefficients_are_the_same_for_every_n():
    for draw in (lambda n, rng: simulation.sparse(n, 1.0, rng), lambda n, rng: simulation.wishart(n, 5, rng)):
        few, many = (draw(n, np.random.default_rng(3))[2] for n in (10, 20))
        np.testing.assert_allclose(few, many, rtol=EXACT)


def test_simulations_are_repeatable_and_paired():
    def draw(rng):
        return simulation.wishart(25, 3, rng)

    found = simulation.simulate(draw, ["em", "exact", "loocv", "loocv_paper", "glmnet", "glmnet_no_n"], 3, [5])
    again = simulation.simulate(draw, ["em"], 3, [5])
    assert found["em"]["mse"] == pytest.approx(again["em"]["mse"], rel=SOLVED)
    summaries = simulation.summarize(found)
    assert summaries["loocv"]["difference"]["mean"] == 0
    assert summaries["em"]["mse"]["count"] == 3
    assert summaries["exact"]["iterations"]["count"] == 0
    with pytest.raises(ValueError, match="unknown method"):
        simulation.estimate("ols", np.ones(3), np.ones((3, 1)))


def test_slopes_of_power_laws():
    sizes = [10, 20, 40, 80]
    e, error = figures_common.slope(sizes, [3.0 * v**1.5 for v in sizes])
    assert e == pytest.approx(1.5, rel=EXACT)
    assert error < INTEGRATED
    np.testing.assert_allclose(figures_common.local_slopes(sizes, [v**-2.0 for v in sizes]), -2.0, rtol=EXACT)


def test_slope_has_the_standard_error_of_least_squares():
    sizes, costs = [1.0, 2.0, 4.0, 8.0, 16.0], [1.0, 2.5, 3.5, 9.0, 15.0]
    expected = stats.linregress(np.log(sizes), np.log(costs))
    assert figures_common.slope(sizes, costs) == pytest.approx((expected.slope, expected.stderr), rel=SOLVED)


@pytest.mark.parametrize(
    ("sizes", "costs", "message"),
    [([1, 2], [1, 2], "three points"), ([1, 2, 3], [1, 2], "three points"), ([1, 2, 3], [1, 0, 2], "positive")],
)
def test_slope_refuses(sizes, costs, message):
    with pytest.raises(ValueError, match=message):
        figures_common.slope(sizes, costs)


def test_summary_leaves_out_what_is_not_finite():
    found = figures_common.summary([1.0, 3.0, np.nan, np.inf])
    assert (found["count"], found["mean"], found["median"], found["se"]) == (2, 2.0, 2.0, 1.0)
    assert figures_common.summary([np.nan]) == {"count": 0}


def test_kappa_is_a_fixed_point_of_the_appendix_s_update():
    y = np.random.default_rng(4).standard_normal(9) * 3
    k = float(appendix_a.kappa(y))
    assert k < 1
    assert appendix_a.appendix_update(float(y @ y), 9, k) == pytest.approx(k, rel=EXACT)
    fit = appendix_a.fit(y, parameterization="tau")
    assert fit.lambda_ / (1 + fit.lambda_) == pytest.approx(k, rel=appendix_a.CLOSED_FORM)


@pytest.mark.parametrize(("p", "delta"), [(3, 0.5), (6, 12.0), (20, 100.0)])
def test_inverse_moment_is_the_integral(p, delta):
    expected, _ = integrate.quad(lambda s: stats.ncx2.pdf(s, p, delta) / s, 0, np.inf, limit=200, epsabs=1e-12)
    assert appendix_a.inverse_moment(p, delta) == pytest.approx(expected, rel=INTEGRATED)


def test_risks():
    assert appendix_a.inverse_moment(8, 0.0) == pytest.approx(1 / 6, rel=EXACT)
    assert appendix_a.risk(6, 4.0) == 6
    for p in (3, 6, 10):
        a = p + 2
        moments = [stats.chi2.sf(a, df) for df in (p + 2, p, p - 2)]
        expected = p * moments[0] - 2 * a * moments[1] + a**2 / (p - 2) * moments[2]
        assert appendix_a.positive_risk(p, 0.0) == pytest.approx(expected, rel=SOLVED)
    assert appendix_a.positive_risk(10, 20.0) < appendix_a.risk(10, 20.0) < 10


def test_simulated_risk_is_the_exact_one():
    found = appendix_a.losses(10, 20.0, 20_000, np.random.default_rng(6))
    exact = {"plain": appendix_a.risk(10, 20.0), "positive": appendix_a.positive_risk(10, 20.0)}
    for kind, value in exact.items():
        assert abs(found[kind]["mean"] - value) < DEVIATIONS * found[kind]["se"]


def test_every_term_of_table_1_can_be_timed():
    for name, _, stated, sizes, _ in table1.terms(quick=True):
        assert stated in (1, 2, 3), name
        assert len(sizes) >= 3
        assert list(sizes) == sorted(sizes)
    assert set(table1.whole_fits(16)) == {"EM", "LOOCV", "naive EM"}


def test_scaling_sweeps():
    for sweep in scaling.sweeps(quick=True):
        assert sweep.shape.count(None) == 1
        assert set(sweep.time) == set(sweep.memory) <= set(scaling.STYLES)
        assert sweep.at(7)["npq".index(sweep.variable)] == 7
    y, x = scaling.data(12, 3, 2, spikes=True)
    assert (y.shape, x.shape) == ((12, 2), (12, 3))


def test_peak_bytes_sees_an_array():
    assert common.peak_bytes(lambda: np.ones(1_000_000)) == pytest.approx(8e6, rel=0.01)


@pytest.mark.parametrize(
    ("line", "folder"), [([], common.RESULTS), (["--quick"], common.QUICK_RESULTS), (["--out", "there"], "there")]
)
def test_where_results_go(monkeypatch, line, folder):
    monkeypatch.setattr(sys, "argv", ["script", *line])
    assert str(common.arguments("doc").out) == str(folder)


def test_measured_numbers_are_read_again(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["script", "--out", str(tmp_path)])
    env, data = common.measured("a", common.arguments(""), ["numpy"], lambda quick: {"quick": quick})
    common.save("a", env, data, "text", tmp_path)
    assert "text" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["script", "--render", "--out", str(tmp_path)])
    assert common.measured("a", common.arguments(""), [], lambda quick: None) == (env, {"quick": False})


def test_panels_are_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    pytest.importorskip("tqdm")
    methods = ("em", "loocv")
    results = simulation.run(
        [(1.0, n) for n in (15, 20, 30)],
        lambda _, n, rng: simulation.wishart(n, 3, rng),
        methods,
        lambda n: 2,
        "test",
    )
    figure = simulation.panels(results, [1.0], [15, 20, 30], methods, lambda v: f"{v}")
    assert figures_common.save_figure(figure, tmp_path, "small") == "![small](small.png)"
    assert (tmp_path / "small.png").stat().st_size > 1000
