"""The prior of tau2: its scale, what it does not depend on, and bad arguments."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse, stats
from scipy.special import betainc

from pybayesridge import BayesRidge, Moments
from tests.dense_posterior import DensePosterior
from tests.oracle import Oracle
from tests.problems import regression

SAME = 1e-9
"""Two ways to the same posterior: rounding errors of two rotations."""

MODE = 1e-8
"""The same for a mode, in log lambda."""

INTEGRAL = 1e-4
"""log p(y) by Gauss-Legendre in the prior's distribution function: its integrand is not smooth at the ends."""

SHAPES = [(40, 5), (20, 45)]
METHODS = ["exact", "em"]


def data(shape, seed=0):
    y, x = regression(*shape, seed=seed)
    return y, x, np.random.default_rng(seed + 100).uniform(0.2, 5.0, shape[0])


def check_same(actual, wanted, factor=1.0):
    """Same fit; the penalised columns of `actual` are those of `wanted` over `factor`."""
    np.testing.assert_allclose(
        actual.fittedvalues, wanted.fittedvalues, rtol=0, atol=SAME * np.ptp(wanted.fittedvalues)
    )
    np.testing.assert_allclose(actual.params.iloc[1:] / factor, wanted.params.iloc[1:], rtol=SAME, atol=1e-300)
    np.testing.assert_allclose(actual.bse.iloc[1:] / factor, wanted.bse.iloc[1:], rtol=SAME)
    assert actual.sigma2 == pytest.approx(wanted.sigma2, rel=SAME)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("factor", [1e-6, 3.0, 1e6])
def test_r2_does_not_depend_on_the_unit_of_columns_on_their_own_scale(shape, factor, method):
    y, x, w = data(shape)
    plain, scaled = (BayesRidge(y, x * k, weights=w, standardize=False).fit(method) for k in (1.0, factor))
    check_same(scaled, plain, 1 / factor)
    assert scaled.lambda_ / factor**2 == pytest.approx(plain.lambda_, rel=MODE)
    assert scaled.log_marginal == pytest.approx(plain.log_marginal, rel=SAME)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_r2_is_one_over_p_on_standardised_columns(shape, weighted, method):
    y, x, w = data(shape)
    weights = w if weighted else None
    named = BayesRidge(y, x, weights=weights).fit(method)
    given = BayesRidge(y, x, weights=weights, prior=(0.5, 0.5, 1 / shape[1])).fit(method)
    check_same(named, given)
    assert named.lambda_ == pytest.approx(given.lambda_, rel=MODE)
    assert named.log_marginal == pytest.approx(given.log_marginal, rel=SAME)


def test_the_half_cauchy_has_scale_one():
    y, x, w = data((40, 5))
    fits = [
        BayesRidge(y, x, weights=w, prior=p).fit() for p in ("half-cauchy", (0.5, 0.5), [0.5, 0.5, 1], np.ones(2) / 2)
    ]
    for fit in fits[1:]:
        np.testing.assert_array_equal(fit.params, fits[0].params)
        assert fit.log_marginal == fits[0].log_marginal


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("shape", SHAPES)
def test_copies_of_all_columns_change_no_fitted_value(shape, method):
    y, x, w = data(shape)
    once = BayesRidge(y, x, weights=w).fit(method)
    for copies in (2, 5):
        several = BayesRidge(y, np.tile(x, copies), weights=w).fit(method)
        np.testing.assert_allclose(
            several.fittedvalues, once.fittedvalues, rtol=0, atol=SAME * np.ptp(once.fittedvalues)
        )
        summed = several.params.iloc[1:].to_numpy().reshape(copies, -1).sum(axis=0)
        np.testing.assert_allclose(summed, once.params.iloc[1:], rtol=SAME)
        assert several.sigma2 == pytest.approx(once.sigma2, rel=SAME)
        assert several.df_model == pytest.approx(once.df_model, rel=SAME)
        assert several.log_marginal == pytest.approx(once.log_marginal, rel=SAME)
    # Under the half-Cauchy they do: each copy brings prior variance of its own.
    paper = [BayesRidge(y, np.tile(x, k), weights=w, prior="half-cauchy").fit(method).df_model for k in (1, 5)]
    assert abs(paper[1] - paper[0]) > 1e-3


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("standardize", [True, False])
def test_multiples_of_the_weights_change_nothing(shape, standardize, method):
    y, x, w = data(shape)
    one, many = (
        BayesRidge(y, x, weights=k * w, standardize=standardize, unpenalized=[1]).fit(method) for k in (1.0, 1e5)
    )
    check_same(many, one)
    assert many.lambda_ == pytest.approx(one.lambda_, rel=MODE)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("prior", [(0.5, 0.5), (1.5, 0.7)])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_scale_is_a_rescaling_of_the_columns(shape, prior, method):
    y, x, w = data(shape)
    for k in (1e-3, 50.0):
        scaled = BayesRidge(y, x, weights=w, standardize=False, prior=(*prior, k)).fit(method)
        columns = BayesRidge(y, x * np.sqrt(k), weights=w, standardize=False, prior=prior).fit(method)
        check_same(scaled, columns, np.sqrt(k))
        assert scaled.lambda_ * k == pytest.approx(columns.lambda_, rel=MODE)
        assert scaled.log_marginal == pytest.approx(columns.log_marginal, rel=SAME)


@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("shape", SHAPES)
def test_r2_counts_what_the_unpenalised_columns_leave(shape, standardize):
    """With the scale computed here from least squares on the unpenalised columns."""
    y, x, w = data(shape)
    unpenalized = [0, 3]
    v = w / w.mean()
    scale = np.sqrt(v @ (x - v @ x / v.sum()) ** 2 / v.sum()) if standardize else np.ones(shape[1])
    z = np.column_stack([np.ones(shape[0]), x[:, unpenalized]]) * np.sqrt(v)[:, None]
    rest = np.delete(x / scale, unpenalized, axis=1) * np.sqrt(v)[:, None]
    left = rest - z @ np.linalg.lstsq(z, rest, rcond=None)[0]
    options = {"weights": w, "unpenalized": unpenalized, "standardize": standardize}
    named = BayesRidge(y, x, **options).fit()
    given = BayesRidge(y, x, **options, prior=(0.5, 0.5, shape[0] / (left**2).sum())).fit()
    check_same(named, given)
    assert named.log_marginal == pytest.approx(given.log_marginal, rel=SAME)


def test_constant_columns_do_not_count():
    y, x, _ = data((40, 5))
    plain = BayesRidge(y, x).fit()
    more = BayesRidge(y, np.column_stack([x, np.full((40, 3), 2.0)]), intercept="add").fit()
    np.testing.assert_allclose(more.params.iloc[:6], plain.params, rtol=SAME)


@pytest.mark.parametrize("p", [1, 5, 2000])
def test_prior_share_of_variance_is_beta_whatever_the_number_of_columns(p):
    """The log marginal integrates over R2 = t / (1 + t), t = tau2 sum |x_j|^2 / n, which is Beta(1/2, 1/2)."""
    rng = np.random.default_rng(p)
    n = 30
    x = rng.standard_normal((n, p))
    y = x[:, 0] + rng.standard_normal(n)
    model = BayesRidge(y, x)
    res = model.fit(tol=1e-12)
    standard = (x - x.mean(axis=0)) / x.std(axis=0)
    total = (standard**2).sum() / n
    # p(y) = integral of p(y | t2) against the prior: by Gauss-Legendre in the prior's distribution function.
    nodes, weights = np.polynomial.legendre.leggauss(200)
    u = (nodes + 1) / 2
    share = stats.beta(0.5, 0.5).ppf(u)
    np.testing.assert_allclose(betainc(0.5, 0.5, share), u, rtol=1e-9)
    log = np.array([model.fit("fixed", lam=total * (1 - r) / r).log_marginal for r in share])
    wanted = log.max() + np.log(np.exp(log - log.max()) @ weights / 2)
    assert res.log_marginal == pytest.approx(wanted, abs=INTEGRAL)


@pytest.mark.parametrize("prior", ["r2", "half-cauchy", (1.0, 2.0, 0.1)])
def test_every_way_in_has_the_same_prior(prior):
    y, x, w = data((60, 4))
    frame = pd.DataFrame(x, columns=list("abcd")).assign(y=y, w=w)
    plain = BayesRidge(y, x, weights=w, prior=prior).fit()
    moments = Moments.from_arrays(y, x, weights=w)
    fits = {
        "formula": BayesRidge.from_formula("y ~ a + b + c + d", frame, weights="w", prior=prior).fit(),
        "moments": BayesRidge.from_moments(moments, prior=prior).fit(),
        "sparse": BayesRidge(y, sparse.csr_array(x), weights=w, prior=prior).fit(),
    }
    for fit in fits.values():
        np.testing.assert_allclose(fit.params, plain.params, rtol=SAME)
        np.testing.assert_allclose(fit.bse, plain.bse, rtol=SAME)
        assert fit.log_marginal == pytest.approx(plain.log_marginal, rel=SAME)


@pytest.mark.parametrize("prior", ["r2", "half-cauchy", (1.0, 2.0, 0.1)])
def test_the_estimator_has_the_same_prior(prior):
    pytest.importorskip("sklearn")
    from pybayesridge.sklearn import BayesRidgeRegressor

    y, x, w = data((60, 4))
    plain = BayesRidge(y, x, weights=w, prior=prior).fit()
    estimator = BayesRidgeRegressor(prior=prior).fit(x, y, sample_weight=w)
    np.testing.assert_allclose(estimator.coef_, plain.params.iloc[1:], rtol=SAME)
    with pytest.raises(ValueError, match="prior must be"):
        BayesRidgeRegressor(prior="r3").fit(x, y)


def test_defaults():
    y, x, _ = data((40, 5))
    default = BayesRidge(y, x).fit()
    assert default.method == "exact"
    assert default.model.prior == "r2"
    np.testing.assert_array_equal(default.params, BayesRidge(y, x, prior="r2").fit("exact").params)
    dense = DensePosterior(Oracle(y, np.ones((40, 1)), x, prior="r2"))
    np.testing.assert_allclose(default.params, dense.mean(np.eye(6)), rtol=1e-6)


def test_summary_and_prior_attribute_name_the_prior():
    y, x, _ = data((40, 5))
    wanted = {
        "r2": "A priori the share of variance explained is Beta(1/2, 1/2).",
        "half-cauchy": "A priori tau is half-Cauchy.",
        (0.5, 0.5): "A priori tau is half-Cauchy.",
        (1.0, 2.0): "A priori tau2 is beta-prime(1, 2).",
        (1, 2, 0.25): "A priori tau2 / 0.25 is beta-prime(1, 2).",
    }
    for prior, sentence in wanted.items():
        res = BayesRidge(y, x, prior=prior).fit()
        assert res.model.prior == prior
        assert sentence in " ".join(str(res.summary()).split())
        assert "A priori" not in str(res.model.fit("gcv").summary())


@pytest.mark.parametrize(
    "bad",
    [
        "R2",
        "cauchy",
        "",
        None,
        0.5,
        True,
        (),
        (0.5,),
        (0.5, 0.5, 1.0, 1.0),
        (0.0, 0.5),
        (-0.5, 0.5),
        (0.5, 0.5, 0.0),
        (0.5, 0.5, -1.0),
        (0.5, np.nan),
        (0.5, np.inf),
        (0.5, 0.5, np.nan),
        (True, 0.5),
        (0.5, 0.5, True),
        ("0.5", "0.5"),
        (0.5, None),
        ((0.5, 0.5), (1.0, 1.0)),
        np.ones((2, 2)),
        np.array(0.5),
        np.array([True, True]),
        {0.5, 1.0},
        {"a": 0.5, "b": 0.5},
        1j,
        (0.5, 1j),
    ],
    ids=repr,
)
def test_bad_priors(bad):
    y, x, _ = data((40, 5))
    with pytest.raises(ValueError, match=r"prior(\[\d\])? must be"):
        BayesRidge(y, x, prior=bad)


@pytest.mark.parametrize("options", [{"parameterization": "tau"}, {"accelerate": False}], ids=str)
@pytest.mark.parametrize("method", ["exact", "gcv", "fixed"])
def test_options_of_em_are_refused_by_other_methods(method, options):
    y, x, _ = data((40, 5))
    more = {"lam": 1.0} if method == "fixed" else {}
    with pytest.raises(ValueError, match=f"{next(iter(options))} is an option of method='em'"):
        BayesRidge(y, x).fit(method, **more, **options)
