"""Directions of coefficients, and joint statements on contrasts: closed forms, brute force and draws."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from pybayesridge import BayesRidge, SpikeSlab
from pybayesridge.exceptions import DegenerateFitWarning
from tests.effort import only_thorough
from tests.problems import regression

SAME = 1e-10
"""The same number by another way through the code."""

ERRORS = 5.0
"""Monte Carlo standard errors, at most."""

DRAWS = 20_000


def columns(n=40, p=4):
    y, x = regression(n, p)
    return pd.Series(y, name="y"), pd.DataFrame(x, columns=[f"x{j}" for j in range(1, p + 1)])


FITS = {
    "ridge": lambda y, x: BayesRidge(y, x).fit(),
    "binomial": lambda y, x: BayesRidge(y > y.mean(), x, family="binomial").fit(),
    "by sets": lambda y, x: SpikeSlab(y, x).fit("exact"),
    "binomial by sets": lambda y, x: SpikeSlab(y > y.mean(), x, family="binomial").fit("exact"),
    "by EP": lambda y, x: SpikeSlab(y, x).fit("damped"),
    "many columns": lambda y, x: BayesRidge(y[:20], np.random.default_rng(0).normal(size=(20, 70))).fit(),
    "wide": lambda y, x: BayesRidge(y, np.random.default_rng(0).normal(size=(40, 1000)), unpenalized=["x3"]).fit(),
}


SLOW = {"binomial by sets"}


@pytest.fixture(
    scope="module", params=[pytest.param(name, marks=only_thorough if name in SLOW else ()) for name in FITS]
)
def res(request):
    return FITS[request.param](*columns())


def test_probabilities_are_those_of_contrasts(res):
    names = list(res.params.index)
    wanted = res.contrast({name: f"`{name}`" for name in names})
    np.testing.assert_allclose(res.prob_positive, wanted["prob_positive"], rtol=SAME)
    assert list(res.prob_positive.index) == names
    selects = hasattr(res, "inclusion_prob")
    assert ("prob_zero" in wanted.columns) == selects == hasattr(res, "prob_zero")
    if selects:
        np.testing.assert_allclose(res.prob_zero, wanted["prob_zero"], rtol=0, atol=SAME)
        assert list(res.prob_zero.index) == names
        assert (res.prob_positive + res.prob_zero <= 1 + SAME).all()


def test_columns_of_the_summary(res):
    plain, shown = res.summary(), res.summary(direction=True)
    table, wider = plain.tables[1], shown.tables[1]
    of = {"P(>0)": res.prob_positive} | ({"P(=0)": res.prob_zero} if hasattr(res, "prob_zero") else {})
    assert [cell.data for cell in wider[0]][-len(of) :] == list(of)
    for row, more in zip(table, wider, strict=True):
        assert [cell.data for cell in row] == [cell.data for cell in more][: -len(of)]
    for row in wider[1:]:
        name, texts = row[0].data, [cell.data for cell in row[-len(of) :]]
        for text, values in zip(texts, of.values(), strict=True):
            assert float(text) == pytest.approx(values[name], abs=0.00051)
    said = " ".join(str(shown).split())
    if len(of) == 1:
        assert "P(>0) is the posterior probability that the coefficient is positive." in said
    else:
        assert "the remainder is that of a negative coefficient" in said
    assert "P(>0)" not in str(plain)
    assert r"P(\textgreater{}0)" in shown.as_latex()
    assert "P(&gt;0)" in shown.as_html()
    assert "P(>0)" in shown.as_csv()


def test_a_constant_column_is_not_positive():
    y, x = columns()
    res = BayesRidge(y, x.assign(one=1.0, two=2.0)).fit()
    assert res.prob_positive["two"] == pytest.approx(0.0, abs=SAME)
    for method in ("exact", "ep"):
        selected = SpikeSlab(y, x.assign(one=1.0, two=2.0), unpenalized=["x1"]).fit(method)
        assert selected.prob_positive["two"] == pytest.approx(0.0, abs=SAME)
        assert selected.prob_zero["two"] == pytest.approx(1.0, abs=SAME)
        assert selected.prob_zero["x1"] == pytest.approx(0.0, abs=SAME)


def test_signs_of_columns_that_are_in_and_out():
    """A strong negative effect, and a column that its prior keeps out: both are not positive."""
    y, x = columns()
    for method in ("exact", "ep"):
        res = SpikeSlab(y - 40 * x["x1"], x, prior_inclusion=[0.5, 0.5, 0.5, 0.0]).fit(method)
        assert res.prob_positive[["x1", "x4"]].max() < SAME
        assert res.prob_zero["x1"] < SAME
        assert res.prob_zero["x4"] == pytest.approx(1.0, abs=SAME)


def test_the_limit_without_noise_is_zero():
    """Coefficients of columns that the prior keeps in are exactly zero too."""
    _, x = columns()
    with pytest.warns(DegenerateFitWarning):
        res = SpikeSlab(np.full(len(x), 3.0), x, prior_inclusion=[1.0, 0.5, 0.5, 0.5]).fit()
    wanted = res.contrast({name: name for name in ("x1", "x2")})["prob_zero"]
    np.testing.assert_allclose(res.prob_zero[["x1", "x2"]], wanted, rtol=0, atol=SAME)
    assert (res.prob_zero[["x1", "x2"]] == 1).all()


def test_several_targets():
    y, x = columns()
    res = BayesRidge(pd.DataFrame({"u": y, "v": -y}), x).fit()
    np.testing.assert_allclose(res.prob_positive.sum(axis=1), 1.0, rtol=SAME)
    assert str(res.summary(direction=True)).count("P(>0)") == 3
    one = BayesRidge(-y, x).fit().joint_contrast("x1, x2")
    assert abs(res.joint_contrast("x1, x2", target="v")["content"] - one["content"]) < ERRORS * one["mcse"]
    with pytest.raises(ValueError, match="joint_contrast needs target="):
        res.joint_contrast("x1")


@pytest.mark.parametrize("known", [True, False])
def test_ellipsoid_of_a_fixed_penalty_in_closed_form(known):
    """Normal, or with the noise integrated out a multivariate t distribution."""
    y, x = columns(30)
    res = BayesRidge(y, x, sigma2=40.0 if known else None).fit("fixed", lam=2.0)
    weights = np.array([[0, 1.0, 0, 0, 0], [0, 0, 1.0, -1.0, 0]])
    cov = weights @ res.cov_params().to_numpy() @ weights.T
    for value in (0.0, 0.5, 2.0):
        text = f"x1 = {value}, x2 - x3 = {value}"
        mean = weights @ res.params - value
        distance = mean @ np.linalg.solve(cov, mean)
        nu = 29
        wanted = stats.chi2.cdf(distance, 2) if known else stats.f.cdf(distance * nu / (nu - 2) / 2, 2, nu)
        found = res.joint_contrast(text)
        assert abs(found["content"] - wanted) < ERRORS * found["mcse"]
        again = res.joint_contrast([text, f"x1 + x2 - x3 = {2 * value}"])
        assert again["content"] == pytest.approx(found["content"], abs=1e-3)


@pytest.mark.parametrize("name", ["ridge", "binomial"])
def test_ellipsoid_of_a_mixture_by_draws(name):
    res = FITS[name](*columns(30))
    draws = res.sample(DRAWS, rng=7)[["x1", "x4"]].to_numpy()
    mean, cov = draws.mean(axis=0), np.cov(draws.T)
    distance = np.einsum("ij,ij->i", (draws - mean) @ np.linalg.inv(cov), draws - mean)
    wanted = (distance <= mean @ np.linalg.solve(cov, mean)).mean()
    found = res.joint_contrast("x1, x4", rng=1)
    # Both sides are of draws, and so is the covariance on one.
    assert abs(found["content"] - wanted) < 2 * ERRORS * found["mcse"]
    pd.testing.assert_series_equal(res.joint_contrast("x1, x4", rng=1), found)


def test_contrasts_that_cannot_all_be_zero():
    res = FITS["ridge"](*columns(30))
    assert res.joint_contrast("x1 = 0, x1 = 1")["content"] == pytest.approx(1.0)


def test_sets_of_columns_are_out_together():
    y, x = columns(40, 5)
    res = SpikeSlab(y, x, noise_var=120.0, slab_var=0.3, prior_inclusion=0.3).fit("exact")
    models = res.models(32)
    out = res.joint_contrast("x1, x3")["prob_zero"]
    columns_in = [set(each) for each in models["columns"]]
    wanted = sum(p for each, p in zip(columns_in, models["probability"], strict=True) if not each & {"x1", "x3"})
    assert out == pytest.approx(wanted, rel=1e-8)
    draws = res.sample(DRAWS, rng=0)
    share = (draws[["x1", "x3"]] == 0).all(axis=1).mean()
    assert abs(share - out) < ERRORS * np.sqrt(out / DRAWS)
    assert res.joint_contrast("x1")["prob_zero"] == pytest.approx(res.contrast("x1")["prob_zero"].iloc[0], rel=1e-8)
    assert res.joint_contrast("x1, const")["prob_zero"] == pytest.approx(0.0, abs=SAME)
    assert res.joint_contrast("x1 = 0, x3 = 1")["prob_zero"] == pytest.approx(0.0, abs=SAME)


def test_what_has_no_joint_posterior_says_so():
    y, x = columns()
    with pytest.raises(ValueError, match=r"use fit\('exact'\)"):
        FITS["by EP"](y, x).joint_contrast("x1, x2")
    res = FITS["ridge"](y, x)
    res.remove_data(row_space=False)
    for ask in (
        lambda: res.joint_contrast("x1, x2"),
        lambda: res.summary(direction=True),
        lambda: res.prob_positive,
    ):
        with pytest.raises(ValueError, match="saved without the space of the rows"):
            ask()
    assert "P(>0)" not in str(res.summary())


@pytest.fixture(scope="module")
def factors():
    rng = np.random.default_rng(2)
    out = pd.DataFrame({"store": rng.choice(list("abc"), 60), "promo": rng.choice(["no", "yes"], 60)})
    out["x"] = rng.normal(size=60)
    out["y"] = out["x"] + (out["store"] == "b") + rng.normal(size=60)
    return out


@pytest.mark.parametrize(
    ("term", "members"),
    [
        ("store", ["store[T.b]", "store[T.c]"]),
        ("store:promo", ["store[T.b]:promo[T.yes]", "store[T.c]:promo[T.yes]"]),
        ("promo:store", ["store[T.b]:promo[T.yes]", "store[T.c]:promo[T.yes]"]),
        ("`promo`:store", ["store[T.b]:promo[T.yes]", "store[T.c]:promo[T.yes]"]),
        ("bs(x, df=3)", ["bs(x, df=3)[1]", "bs(x, df=3)[2]", "bs(x, df=3)[3]"]),
        ("promo[T.yes], store", ["promo[T.yes]", "store[T.b]", "store[T.c]"]),
        (
            ["bs(x, df=3), promo", "store[T.b] = 1"],
            [*(f"bs(x, df=3)[{i}]" for i in (1, 2, 3)), "promo[T.yes]", "store[T.b] = 1"],
        ),
    ],
)
@pytest.mark.parametrize("model", [BayesRidge, SpikeSlab])
def test_a_term_stands_for_its_coefficients(factors, model, term, members):
    res = model.from_formula("y ~ store * promo + bs(x, df=3)", factors).fit()
    pd.testing.assert_series_equal(res.joint_contrast(term), res.joint_contrast(members))


def test_what_is_neither_a_term_nor_a_coefficient_is_refused(factors):
    res = BayesRidge.from_formula("y ~ store * promo + x", factors).fit()
    with pytest.raises(ValueError, match="names 'stores', which is not a coefficient"):
        res.joint_contrast("stores, x")
    assert res.joint_contrast("x").equals(res.joint_contrast(["x"]))
