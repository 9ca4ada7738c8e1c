"""method="exact" against dense quadrature, a Gibbs sampler and closed forms."""

import numpy as np
import pytest

from pybayesridge import BayesRidge
from tests.dense_posterior import DensePosterior
from tests.problems import CASES, Case

MOMENTS = 3e-9
"""Means, variances and log p(y) at tol=1e-12; means of 2e4 standard deviations have rounding errors of 3e-10."""

QUANTILES = 1e-9
"""Quantiles of linear functions, beside the posterior standard deviation."""

HYPER_QUANTILES = 1e-7
"""Probability between a reported quantile of log t2 and the exact one, which an interpolating spline allows."""

SIGMA2_QUANTILES = 1e-7
"""Quantiles of the noise variance, relative."""

INVERSE = 5e-15
"""Rounding errors of the oracle's inverse, over the condition number of its matrix."""

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
