"""method="exact" against dense quadrature, a Gibbs sampler and closed forms."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import betaln

from pybayesridge import BayesRidge, ConvergenceWarning, DegenerateFitWarning
from tests.dense_posterior import DensePosterior
from tests.effort import number
from tests.gibbs import gibbs
from tests.oracle import Oracle
from tests.problems import CASES, Case

MOMENTS = 3e-9
"""Means, variances and log p(y) at tol=1e-12; means of 2e4 standard deviations have rounding errors of 3e-10."""

QUANTILES = 1e-9
"""Quantiles of linear functions, beside the posterior standard deviation."""

HYPER_QUANTILES = 1e-7
"""Probability between a reported quantile of log t2 and the exact one, which an interpolating spline allows."""

SIGMA2_QUANTILES = 1e-7
"""Quantiles of the noise variance, relative."""

TWO_DIMENSIONS = 1e-10
"""log p(y) against a sum over log t2 and log s2 of normal densities."""

GIBBS = 4.5
"""Largest of some hundred errors, in Monte Carlo standard errors."""

DRAWS = 4.5
"""The same for independent draws."""

HONEST = 1.0
"""True error beside the reported one."""

ROUNDING = 1e-13
"""Errors below this say nothing about the quadrature."""

INVERSE = 5e-15
"""Rounding errors of the oracle's inverse, over the condition number of its matrix."""

SCALES = 1e-10
"""Equivariance under scales of the response that leave rounding errors of the exponent."""

TIGHT = {"method": "exact", "tol": 1e-12}

MORE_CASES = {
    "tiny": Case(15, 4, seed=5),
    "tiny-wide": Case(15, 40, seed=6),
    "very-tall": Case(2000, 5, seed=7),
    "very-wide": Case(12, 300, seed=8),
    "no-signal": Case(40, 6, seed=9, noise=100.0),
    "strong-signal": Case(40, 6, seed=9, noise=1e-4),
    "strong-signal-wide": Case(20, 60, seed=10, noise=1e-3),
    "prior-2-half": Case(30, 6, model={"prior": (2.0, 0.5)}),
    "prior-2-half-wide": Case(15, 30, model={"prior": (2.0, 0.5)}),
    "prior-1-1-wide": Case(15, 30, model={"prior": (1.0, 1.0)}),
    "sigma2-weights": Case(50, 6, weighted=True, model={"sigma2": 5.0}, unpenalized=(0,)),
}
EXACT = {name: case for name, case in (CASES | MORE_CASES).items() if not case.fit}


@pytest.fixture(scope="module", params=EXACT, ids=list(EXACT))
def fitted(request):
    case = EXACT[request.param]
    return case, case.results(**TIGHT), DensePosterior(case.oracle())


def fit_and_dense(name, **fit):
    case = EXACT[name]
    return case, case.results(**(TIGHT | fit)), DensePosterior(case.oracle())


def every_coefficient(case, dense):
    return np.eye(dense.k + dense.p)[case.order]


def new_rows(case):
    """Rows like those of the fit, and some far away."""
    x = case.arrays()[1]
    rng = np.random.default_rng(3)
    return np.vstack([x[:2], x.mean(axis=0) + rng.normal(0, [[1.0], [5.0]], (2, 1)) * x.std(axis=0)])


def exact_sd(case, dense, rows=None):
    return np.sqrt(dense.variance(every_coefficient(case, dense) if rows is None else rows))


def test_dense_quadrature_agrees_with_the_oracle():
    for name in ("tall", "wide", "unpenalized-weights", "sigma2"):
        case = EXACT[name]
        dense = DensePosterior(case.oracle())
        at = np.flatnonzero(dense.weight > 1e-4)[::10]
        wanted = np.array([dense.o.log_posterior(dense.l[i]) for i in at])
        actual = np.log(dense.weight[at])
        np.testing.assert_allclose(actual - actual[0], wanted - wanted[0], atol=1e-9)
        for i in at[:: max(1, len(at) // 3)]:
            lam = np.exp(-dense.l[i])
            assert dense.rss[i] == pytest.approx(dense.o.rss(dense.l[i]), rel=1e-9)
            # For small penalties and n < p the oracle inverts a nearly singular matrix.
            tolerance = INVERSE * np.linalg.cond(dense.o.precision(lam))
            sd = np.sqrt(np.diag(dense.o.unit_covariance(lam)))
            np.testing.assert_allclose(np.sqrt(dense.forms(np.eye(dense.k + dense.p))[i]), sd, rtol=tolerance)
            np.testing.assert_allclose(dense.locations[i] / sd, dense.o.coefficients(lam) / sd, atol=tolerance)


def test_means(fitted):
    case, res, dense = fitted
    error = res.params - dense.mean(every_coefficient(case, dense))
    assert (np.abs(error) / exact_sd(case, dense)).max() < MOMENTS


def test_standard_deviations(fitted):
    case, res, dense = fitted
    np.testing.assert_allclose(res.bse, exact_sd(case, dense), rtol=MOMENTS)


def test_covariance(fitted):
    case, res, dense = fitted
    unit = exact_sd(case, dense)
    wanted = dense.covariance()[np.ix_(case.order, case.order)]
    np.testing.assert_allclose(res.cov_params() / np.outer(unit, unit), wanted / np.outer(unit, unit), atol=MOMENTS)


def test_sigma2(fitted):
    _, res, dense = fitted
    wanted = dense.o.sigma2 or dense.mean_of_sigma2()
    assert res.sigma2 == pytest.approx(wanted, rel=MOMENTS)


def test_lambda_is_the_mean_on_the_log_scale(fitted):
    _, res, dense = fitted
    assert np.log(res.tau2) == pytest.approx(dense.weight @ dense.l, abs=MOMENTS)
    assert res.lambda_ == pytest.approx(1 / res.tau2, rel=1e-14)


def test_effective_degrees_of_freedom(fitted):
    _, res, dense = fitted
    wanted = dense.weight @ dense.effective_df(dense.l) + dense.k - res.model.k_constant
    assert res.df_model == pytest.approx(wanted, rel=MOMENTS)


def test_log_marginal(fitted):
    _, res, dense = fitted
    assert res.log_marginal == pytest.approx(dense.log_marginal, abs=MOMENTS)


def is_quantile(dense, rows, values, probability, within, noise=0.0):
    """Whether the quantiles of linear functions lie less than `within` from `values`: their probabilities say."""
    below, above = (dense.probability(rows, values + side * within, noise) for side in (-1, 1))
    return bool(np.all(below < probability) and np.all(probability < above))


def test_intervals(fitted):
    case, res, dense = fitted
    some = slice(0, 8)
    rows, unit = every_coefficient(case, dense)[some], exact_sd(case, dense)[some]
    for alpha in (0.05, 0.5):
        actual = np.asarray(res.conf_int(alpha))[some]
        for side, probability in enumerate((alpha / 2, 1 - alpha / 2)):
            assert is_quantile(dense, rows, actual[:, side], probability, QUANTILES * unit)


def test_predictions(fitted):
    case, res, dense = fitted
    rows = new_rows(case)
    split = np.hstack(case.split(rows))
    frame = res.get_prediction(rows).summary_frame(alpha=0.1)
    sd = np.sqrt(dense.variance(split))
    # A prediction is a sum of terms as large as the response.
    np.testing.assert_allclose((frame["mean"] - dense.mean(split)) / sd, 0, atol=10 * MOMENTS)
    np.testing.assert_allclose(frame["mean_se"], sd, rtol=10 * MOMENTS)
    for column, probability, noise in (
        ("mean_ci_lower", 0.05, 0.0),
        ("mean_ci_upper", 0.95, 0.0),
        ("obs_ci_lower", 0.05, 1.0),
        ("obs_ci_upper", 0.95, 1.0),
    ):
        assert is_quantile(dense, split, frame[column], probability, 10 * QUANTILES * sd, noise), column


def test_predictive_intervals_of_given_weights():
    case, res, dense = fit_and_dense("weights")
    rows = new_rows(case)
    split = np.hstack(case.split(rows))
    weights = np.array([0.1, 1.0, 2.0, 30.0])
    noise = case.weights().mean() / weights
    frame = res.get_prediction(rows, weights=weights).summary_frame(alpha=0.05)
    for i in range(4):
        wanted = dense.quantile(split[[i]], 0.975, noise[i])
        assert frame["obs_ci_upper"].iloc[i] == pytest.approx(wanted[0], rel=1e-9)


PROBABILITIES = {"lower": 0.05, "median": 0.5, "upper": 0.95}


def test_quantiles_of_the_penalty(fitted):
    _, res, dense = fitted
    table = res.hyperparameters(alpha=0.1)
    shift = dense.k - res.model.k_constant
    for column, probability in PROBABILITIES.items():
        around = probability + np.array([-HYPER_QUANTILES, 0.0, HYPER_QUANTILES])
        low, at, high = (dense.quantile_of_log_t2(p) for p in around)
        l = np.log(table.loc["tau2", column])
        assert low < l < high, (column, l - at)
        other = {"lower": "upper", "upper": "lower"}.get(column, column)
        assert table.loc["lambda", other] == pytest.approx(np.exp(-l), rel=1e-12)
        df = dense.effective_df(np.array([low, at, high])) + shift
        slack = 1e-12 * (1 + df[1])
        assert df[0] - slack <= table.loc["df_model", column] <= df[2] + slack
    assert (np.diff(table.loc[["tau2", "df_model"], ["lower", "median", "upper"]].to_numpy()) >= 0).all()


SIGMA2_CASES = {
    "interpolating-wide": Case(200, 400, seed=3, noise=1e-3),
    "interpolating-square": Case(201, 200, seed=3, noise=1e-3),
    "nearly-interpolating": Case(200, 190, seed=3, noise=1e-3),
    "wide-and-noisy": Case(60, 120, seed=3, noise=0.3),
}


@pytest.mark.parametrize("name", SIGMA2_CASES)
def test_quantiles_of_sigma2_where_they_move_fast_with_the_penalty(name):
    # Given t2 the noise is known to sqrt(2/nu) in logarithm, narrower than nodes that suit t2 are apart.
    case = SIGMA2_CASES[name]
    dense, table = DensePosterior(case.oracle()), case.results(method="exact").hyperparameters(alpha=0.1)
    for column, probability in PROBABILITIES.items():
        assert table.loc["sigma2", column] == pytest.approx(dense.quantile_of_sigma2(probability), rel=1e-6)


def test_quantiles_of_sigma2(fitted):
    _, res, dense = fitted
    table = res.hyperparameters(alpha=0.1)
    for column, probability in PROBABILITIES.items():
        wanted = dense.o.sigma2 or dense.quantile_of_sigma2(probability)
        assert table.loc["sigma2", column] == pytest.approx(wanted, rel=SIGMA2_QUANTILES)
    assert table.loc["sigma2", "mean"] == pytest.approx(res.sigma2, rel=1e-14)
    assert table.loc["df_model", "mean"] == pytest.approx(res.df_model, rel=1e-14)


@pytest.mark.parametrize("name", ["tall", "wide", "very-tall", "tiny", "sigma2", "prior-1-1", "prior-1-1-wide"])
def test_mean_of_lambda_is_infinite_where_the_prior_says_so(name):
    # Towards t2 = 0 the likelihood is constant: E 1/t2 exists where that of the prior does, a > 1.
    _, res, _ = fit_and_dense(name)
    assert res.hyperparameters().loc["lambda", "mean"] == np.inf


@pytest.mark.parametrize("name", ["prior-2-half", "prior-2-half-wide", "prior-2-3"])
def test_mean_of_lambda_where_it_exists(name):
    _, res, dense = fit_and_dense(name)
    assert res.hyperparameters().loc["lambda", "mean"] == pytest.approx(dense.mean_of_penalty(), rel=1e-7)


@pytest.mark.parametrize("name", ["tall", "very-tall", "sigma2", "prior-2-half", "sigma2-wide", "unpenalized"])
def test_mean_of_tau2_where_it_exists(name):
    _, res, dense = fit_and_dense(name)
    assert res.hyperparameters().loc["tau2", "mean"] == pytest.approx(dense.mean_of_t2(), rel=1e-7)


@pytest.mark.parametrize(
    ("name", "mean"),
    [
        ("one-column", np.inf),  # b + rank/2 = 1
        ("wide", np.inf),  # the columns span everything: the likelihood tends to a constant
        ("very-wide", np.inf),
        ("prior-2-half-wide", np.inf),
        ("prior-1-1-wide", np.inf),
    ],
)
def test_mean_of_tau2_is_infinite_where_the_likelihood_does_not_fall(name, mean):
    _, res, _ = fit_and_dense(name)
    assert res.hyperparameters().loc["tau2", "mean"] == mean


def test_variances_are_infinite_with_two_degrees_of_freedom_or_fewer():
    rng = np.random.default_rng(0)
    for n in (2, 3):
        x, y = rng.standard_normal((n, 2)), rng.standard_normal(n)
        res = BayesRidge(y, x).fit("exact")
        assert np.isinf(res.bse).all()
        assert np.isinf(res.cov_params()).all(axis=None)
        assert res.sigma2 == np.inf
        assert np.isfinite(res.params).all()
        assert np.isfinite(res.conf_int()).all(axis=None)
        assert res.hyperparameters().loc["sigma2", ["median", "lower", "upper"]].between(0, np.inf).all()


def test_variances_outside_the_row_space_are_infinite_where_tau2_has_no_mean():
    # One column of rank 1 twice: b1 - b2 has the prior's variance, t2 s2, whose mean is that of t2.
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal(12), rng.standard_normal(12)
    res = BayesRidge(y, np.column_stack([x, x])).fit("exact")
    assert np.isinf(res.bse.iloc[1:]).all()
    assert np.isfinite(res.bse.iloc[0])
    assert np.isfinite(res.conf_int()).all(axis=None)
    inside, outside = res.get_prediction(np.array([[1.0, 1.0], [1.0, -1.0]])).summary_frame()["mean_se"]
    assert np.isfinite(inside)
    assert outside == np.inf


# -- the marginal likelihood ---------------------------------------------------------------------------------------


def log_marginal_in_two_dimensions(oracle):
    """log p(y) by summing N(y; 0, s2 V(t2)), flat on the unpenalised, over log t2 and log s2."""
    spacing = 0.2
    log_t2 = np.arange(-70.0, 3.0 + 40.0 / (oracle.b + oracle.p / 2), spacing)
    prior_constant = oracle.a * oracle.log_scale + betaln(oracle.a, oracle.b)
    log_s2 = np.log(oracle.yr.var()) + np.arange(-15.0, 20.0, spacing)
    w = np.ones(len(oracle.y)) if oracle.weights is None else oracle.weights / oracle.weights.mean()
    x = oracle.xw / np.sqrt(w)[:, None]
    columns = []
    for l in log_t2:
        v = np.diag(1 / w) + np.exp(l) * x @ x.T
        inverse = np.linalg.inv(v)
        middle = oracle.z.T @ inverse @ oracle.z
        solved = inverse @ oracle.z
        quadratic = oracle.y @ inverse @ oracle.y - (oracle.y @ solved) @ np.linalg.solve(middle, solved.T @ oracle.y)
        det = np.linalg.slogdet(v)[1] + np.linalg.slogdet(middle)[1]
        prior = oracle.log_prior(l) - prior_constant
        columns.append(
            -oracle.nu / 2 * (np.log(2 * np.pi) + log_s2) - 0.5 * det - quadratic / (2 * np.exp(log_s2)) + prior
        )
    log = np.array(columns)
    return log.max() + np.log(np.exp(log - log.max()).sum() * spacing**2)


@pytest.mark.parametrize("name", ["tall", "tall-noisy", "prior-1-1", "unpenalized-weights"])
def test_log_marginal_with_every_constant(name):
    case = EXACT[name]
    small = replace(case, n=max(12, case.p + 6))
    wanted = log_marginal_in_two_dimensions(small.oracle())
    assert small.results(**TIGHT).log_marginal == pytest.approx(wanted, abs=max(TWO_DIMENSIONS, 1e-12 * abs(wanted)))


def test_log_marginal_compares_nested_models():
    y, x = Case(30, 5, seed=4).arrays()
    wanted = [log_marginal_in_two_dimensions(Case(30, 5, seed=4).oracle())]
    oracle = Case(30, 5, seed=4).oracle()
    wanted.append(log_marginal_in_two_dimensions(Oracle(y, oracle.z, x[:, :3])))
    actual = [BayesRidge(y, columns, prior="half-cauchy").fit(**TIGHT).log_marginal for columns in (x, x[:, :3])]
    assert actual[0] - actual[1] == pytest.approx(wanted[0] - wanted[1], abs=TWO_DIMENSIONS)


def test_log_marginal_belongs_to_the_model_and_not_to_the_method():
    case = EXACT["tall"]
    wanted = case.results(**TIGHT).log_marginal
    for method in ("em", "loocv", "gcv"):
        assert case.results(method=method).log_marginal == pytest.approx(wanted, abs=1e-8)


def test_log_marginal_given_the_penalty():
    case = EXACT["unpenalized-weights"]
    dense = DensePosterior(case.oracle())
    at = int(np.argmin(np.abs(dense.grid + 1)))
    actual = case.results(method="fixed", lam=np.exp(-dense.grid[at])).log_marginal
    assert actual == pytest.approx(dense.log_likelihood[at], abs=MOMENTS)


def test_log_marginal_of_known_noise_is_a_normal_density():
    case = EXACT["no-intercept"]
    y, x = case.arrays()
    x = x / x.std(axis=0)
    lam, s2 = 3.0, 50.0
    res = BayesRidge(y, x, intercept=False, sigma2=s2).fit("fixed", lam=lam)
    cov = s2 * (np.eye(len(y)) + x @ x.T / lam)
    assert res.log_marginal == pytest.approx(stats.multivariate_normal(cov=cov).logpdf(y), abs=1e-9)


# -- the quadrature ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(EXACT))
@pytest.mark.parametrize("tol", [1e-3, 1e-8])
def test_quadrature_error_is_honest(name, tol):
    case = EXACT[name]
    rough, best = case.results(method="exact", tol=tol), case.results(method="exact", tol=1e-15, maxiter=9)
    assert 0 < rough.quadrature_error <= tol
    allowed = HONEST * rough.quadrature_error + ROUNDING * max(1.0, abs(best.log_marginal))
    assert abs(rough.log_marginal - best.log_marginal) <= allowed
    assert abs(np.log(rough.tau2 / best.tau2)) <= allowed


def test_too_few_doublings_are_told():
    case = EXACT["tall"]
    with pytest.warns(ConvergenceWarning, match="maxiter=1 "):
        res = case.results(method="exact", tol=1e-15, maxiter=1)
    assert not res.converged
    assert res.quadrature_error > 1e-15
    assert "NOT CONVERGED" in res.summary().as_text()


def test_nodes_stay_few():
    for name in EXACT:
        res = EXACT[name].results(method="exact")
        assert res.converged
        assert res.n_iter <= 1025, name


def test_exact_has_no_grid():
    res = EXACT["tall"].results(method="exact")
    assert res.grid is None
    assert res.grid_scores is None
    assert EXACT["tall"].results().quadrature_error is None


def test_exact_intervals_are_wider_than_conditional_ones_with_few_rows():
    case = Case(15, 4, seed=3, noise=0.5)
    exact, mode = case.results(method="exact"), case.results()
    width = [np.diff(res.conf_int(), axis=1)[1:, 0] for res in (exact, mode)]
    assert (width[0] > width[1]).all()


# -- a Gibbs sampler -----------------------------------------------------------------------------------------------

GIBBS_CASES = {
    "tiny": MORE_CASES["tiny"],
    "tiny-wide": Case(15, 25, seed=6, noise=2.0),
    "tall": Case(300, 5, seed=7),
    "weights-unpenalized": Case(40, 6, seed=1, weighted=True, unpenalized=(1, 4)),
    "prior-1-1": Case(20, 5, model={"prior": (1.0, 1.0)}),
    "prior-2-half": Case(20, 5, model={"prior": (2.0, 0.5)}),
    "sigma2": Case(25, 5, model={"sigma2": 4.0}),
}


def worst(estimates, wanted):
    """Largest error of the mean over chains, in its standard error; `estimates` is (chains, ...)."""
    error = estimates.mean(axis=0) - wanted
    return np.abs(error / (estimates.std(axis=0, ddof=1) / np.sqrt(len(estimates)))).max()


@pytest.mark.parametrize("name", GIBBS_CASES)
def test_against_a_gibbs_sampler(name):
    case = GIBBS_CASES[name]
    res = case.results(method="exact")
    draws = gibbs(case.oracle(), chains=200, draws=number(1200, 600), burn_in=300, seed=20)
    b = draws.coefficients[..., case.order]
    mean, sd = np.asarray(res.params), np.asarray(res.bse)
    assert worst(b.mean(axis=1), mean) < GIBBS
    assert worst(((b - mean) ** 2).mean(axis=1), sd**2) < GIBBS
    assert worst(draws.log_t2.mean(axis=1), np.log(res.tau2)) < GIBBS
    if not case.model.get("sigma2"):
        assert worst(draws.sigma2.mean(axis=1), res.sigma2) < GIBBS
    table = res.hyperparameters(alpha=0.2)
    limits = np.asarray(res.conf_int(alpha=0.2))
    for i, (column, probability) in enumerate((("lower", 0.1), ("upper", 0.9))):
        assert worst((b <= limits[:, i]).mean(axis=1), probability) < GIBBS
        assert worst((draws.log_t2 <= np.log(table.loc["tau2", column])).mean(axis=1), probability) < GIBBS
        if not case.model.get("sigma2"):
            assert worst((draws.sigma2 <= table.loc["sigma2", column]).mean(axis=1), probability) < GIBBS
    row = new_rows(case)[2:]
    linear = b @ np.hstack([np.ones((2, int(case.intercept))), row]).T
    frame = res.get_prediction(row).summary_frame(alpha=0.2)
    assert worst(linear.mean(axis=1), frame["mean"].to_numpy()) < GIBBS
    assert worst((linear <= frame["mean_ci_upper"].to_numpy()).mean(axis=1), 0.9) < GIBBS
    noise = np.random.default_rng(21).standard_normal(linear.shape)
    new = linear + np.sqrt(draws.sigma2)[..., None] * noise
    assert worst((new <= frame["obs_ci_upper"].to_numpy()).mean(axis=1), 0.9) < GIBBS


# -- draws ---------------------------------------------------------------------------------------------------------


DRAWN = ["tiny", "wide", "unpenalized-weights-wide", "no-intercept", "sigma2-weights"]


@pytest.mark.parametrize(
    ("name", "method"),
    [*((name, "exact") for name in DRAWN), *((name, m) for name in DRAWN[1:] for m in ("em", "gcv"))],
)
def test_draws_have_the_posterior_they_are_from(name, method):
    case = EXACT[name]
    res = case.results(method=method)
    size = 40_000
    draws = res.sample(size, rng=11, hyper_columns=True)
    b, params, sd = draws[res.model.exog_names].to_numpy(), np.asarray(res.params), np.asarray(res.bse)
    assert list(draws.columns) == [*res.model.exog_names, "tau2", "sigma2"]
    z = (b - params) / sd
    root = np.sqrt(size)
    assert np.abs(z.mean(axis=0) * root).max() < DRAWS
    spread = (z**2).std(axis=0)
    assert np.abs(((z**2).mean(axis=0) - 1) / spread * root).max() < DRAWS
    for alpha in (0.1, 0.5):
        limits = np.asarray(res.conf_int(alpha))
        for i, probability in enumerate((alpha / 2, 1 - alpha / 2)):
            share = (b <= limits[:, i]).mean(axis=0)
            se = np.sqrt(probability * (1 - probability) / size)
            assert np.abs((share - probability) / se).max() < DRAWS
    correlation = res.cov_params().to_numpy() / np.outer(sd, sd)
    products = z.T @ z / size
    allowed = DRAWS * np.sqrt(np.maximum((z**2).T @ (z**2) / size - products**2, 0) / size)
    assert (np.abs(products - correlation) <= allowed + 1e-9).all()
    table = res.hyperparameters(alpha=0.1)
    if method == "exact":
        for column, probability in (("lower", 0.05), ("median", 0.5), ("upper", 0.95)):
            share = (draws["tau2"] <= table.loc["tau2", column]).mean()
            assert abs(share - probability) / np.sqrt(probability * (1 - probability) / size) < DRAWS
    else:
        np.testing.assert_allclose(draws["tau2"], res.tau2, rtol=1e-12)


def test_draws_of_the_joint_posterior():
    """Penalty and noise belong to the coefficients beside them: b'b/s2 given t2 has its own distribution."""
    case = EXACT["tiny"]
    res = case.results(method="exact")
    draws = res.sample(40_000, rng=2, hyper_columns=True)
    dense = DensePosterior(case.oracle())
    # E of RSS_lambda / s2 given t2 is nu, whatever t2 is.
    rss = np.exp(np.interp(np.log(draws["tau2"]), dense.l, np.log(dense.rss)))
    ratio = rss / draws["sigma2"]
    for half in (draws["tau2"] > draws["tau2"].median(), draws["tau2"] <= draws["tau2"].median()):
        p = stats.kstest(ratio[half], stats.chi2(dense.nu).cdf).pvalue
        assert p > 1e-4


def test_seeds_of_draws():
    res = EXACT["wide"].results(method="exact")
    first = res.sample(5, rng=3)
    pd.testing.assert_frame_equal(first, res.sample(5, rng=3))
    pd.testing.assert_frame_equal(first, res.sample(5, rng=np.random.default_rng(3)))
    assert not np.allclose(first, res.sample(5, rng=4))
    generator = np.random.default_rng(3)
    assert not np.allclose(res.sample(5, rng=generator), res.sample(5, rng=generator))


@pytest.mark.parametrize("size", [0, -1, 2.5, True, "many"])
def test_bad_number_of_draws(size):
    with pytest.raises(ValueError, match="n must be a positive integer"):
        EXACT["tall"].results().sample(size)


def test_draws_of_many_targets():
    case = EXACT["tall"]
    y, x = case.arrays()
    both = pd.DataFrame({"a": y, "b": y[::-1]})
    res = BayesRidge(both, x).fit("exact")
    draws = res.sample(20_000, rng=5, hyper_columns=True)
    assert list(draws.columns.levels[0]) == ["a", "b"]
    for name in both:
        z = (draws[name][res.model.exog_names] - res.params[name]) / res.bse[name]
        assert np.abs(z.mean()).max() * np.sqrt(len(z)) < DRAWS
        assert np.abs((z**2).mean() - 1).max() < 0.1


# -- degenerate data -----------------------------------------------------------------------------------------------


def test_constant_response():
    x = np.random.default_rng(0).standard_normal((20, 3))
    with pytest.warns(DegenerateFitWarning, match="fit the response exactly"):
        res = BayesRidge(np.full(20, 7.5), x).fit("exact")
    assert res.params.tolist() == [7.5, 0, 0, 0]
    assert res.sigma2 == 0
    assert np.isnan(res.log_marginal)
    assert (res.bse == 0).all()
    assert (res.conf_int().to_numpy() == res.params.to_numpy()[:, None]).all()
    assert (res.sample(3, rng=0) == res.params).all(axis=None)
    frame = res.get_prediction(x[:2]).summary_frame()
    assert (frame[["mean_ci_lower", "mean_ci_upper", "obs_ci_lower"]] == 7.5).all(axis=None)
    res.hyperparameters()
    res.summary()


def test_exactly_fitted_response():
    x = np.random.default_rng(0).standard_normal((20, 3))
    with pytest.warns(DegenerateFitWarning, match="exactly"):
        res = BayesRidge(x @ [1.0, 2.0, 3.0] + 4.0, x).fit("exact")
    np.testing.assert_allclose(res.params, [4, 1, 2, 3], rtol=1e-12)
    assert res.sigma2 == 0
    assert np.isnan(res.log_marginal)
    assert (res.bse < 1e-14 * res.params).all()
    np.testing.assert_allclose(res.sample(3, rng=0), np.tile(res.params, (3, 1)), rtol=1e-12)
    res.hyperparameters()
    res.summary()


def test_one_row():
    with pytest.warns(DegenerateFitWarning, match="exactly"):
        res = BayesRidge(np.array([3.0]), np.array([[5.0, 2.0]])).fit("exact")
    assert res.params.tolist() == [3, 0, 0]


def test_one_row_without_intercept():
    y, x = np.array([3.0]), np.array([[1.0, 2.0]])
    res = BayesRidge(y, x, intercept=False, standardize=False).fit("exact")
    # nu = 1, and y is informative about nothing but its own scale; the location is the mean of E / (E + 1/t2).
    dense = DensePosterior(Oracle(y, np.zeros((1, 0)), x, standardize=False, prior="r2"))
    np.testing.assert_allclose(res.params, dense.mean(np.eye(2)), rtol=1e-8)
    assert np.isinf(res.bse).all()


def test_two_rows():
    res = BayesRidge(np.array([3.0, 5.0]), np.array([[1.0, 2.0], [2.0, -1.0]])).fit("exact")
    assert np.isfinite(res.params).all()
    assert np.isfinite(res.log_marginal)


def test_rank_zero():
    rng = np.random.default_rng(0)
    y = rng.standard_normal(20)
    with pytest.warns(DegenerateFitWarning, match="nothing to shrink"):
        res = BayesRidge(y, np.ones((20, 2)) * [2.0, 3.0]).fit("exact")
    assert res.params.iloc[-1] == 0
    with pytest.warns(DegenerateFitWarning, match="nothing to shrink"):
        res = BayesRidge(y, np.zeros((20, 0))).fit("exact")
    assert res.params.tolist() == [pytest.approx(y.mean(), rel=1e-14)]
    t = stats.t(19, y.mean(), y.std(ddof=1) / np.sqrt(20))
    np.testing.assert_allclose(res.conf_int(0.05), [t.ppf([0.025, 0.975])], rtol=1e-9)
    assert res.bse.iloc[0] == pytest.approx(t.std(), rel=1e-9)


@pytest.mark.parametrize("scale", [1e-150, 1e150])
@pytest.mark.parametrize("name", ["tall", "wide", "unpenalized-weights"])
def test_scale_of_the_response(name, scale):
    case = EXACT[name]
    y, x = case.arrays()
    settings = {"weights": case.weights(), "unpenalized": list(case.unpenalized) or None}
    res, scaled = (BayesRidge(y * k, x, **settings).fit("exact") for k in (1.0, scale))
    np.testing.assert_allclose(scaled.params / scale, res.params, rtol=SCALES)
    np.testing.assert_allclose(scaled.bse / scale, res.bse, rtol=SCALES)
    np.testing.assert_allclose(scaled.conf_int() / scale, res.conf_int(), rtol=SCALES)
    assert scaled.tau2 == pytest.approx(res.tau2, rel=SCALES)
    nu = len(y) - 1 - len(case.unpenalized)
    assert scaled.log_marginal == pytest.approx(res.log_marginal - nu * np.log(scale), rel=1e-12)


@pytest.mark.parametrize("scale", [1e-150, 1e150])
def test_scale_of_the_columns(scale):
    y, x = EXACT["wide"].arrays()
    res, scaled = (BayesRidge(y, x * k).fit("exact") for k in (1.0, scale))
    np.testing.assert_allclose(scaled.params.iloc[1:] * scale, res.params.iloc[1:], rtol=1e-8)
    assert scaled.log_marginal == pytest.approx(res.log_marginal, rel=SCALES)


def test_duplicated_columns_share_a_coefficient():
    y, x = EXACT["tall"].arrays()
    twice = BayesRidge(y, np.hstack([x, x[:, [0]]])).fit("exact")
    assert twice.params.iloc[1] == pytest.approx(twice.params.iloc[-1], rel=1e-9)
