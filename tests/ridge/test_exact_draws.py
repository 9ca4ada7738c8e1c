"""method="exact" against a Gibbs sampler, its draws, and degenerate data."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from pybayesridge import BayesRidge, DegenerateFitWarning
from tests.dense_posterior import DensePosterior
from tests.effort import number
from tests.gibbs import gibbs
from tests.oracle import Oracle
from tests.problems import Case
from tests.ridge.test_exact import EXACT, MORE_CASES, new_rows

GIBBS = 4.5
"""Largest of some hundred errors, in Monte Carlo standard errors."""

DRAWS = 4.5
"""The same for independent draws."""

SCALES = 1e-10
"""Equivariance under scales of the response that leave rounding errors of the exponent."""

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
