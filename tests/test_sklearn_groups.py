"""Groups among the columns of scikit-learn's estimators: numbers of formulas and of a solved system."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.special import expit

from pybayesridge import BayesRidge

pytest.importorskip("sklearn")

from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pybayesridge.sklearn import BayesRidgeClassifier, BayesRidgeRegressor

SAME = 1e-9
"""The same fit by another way in, relative to the largest number."""

SOLVED = 1e-8
"""Normal equations solved densely; condition numbers are below 1e4."""

DRAWN = 0.01
"""Means of probabilities over 20,000 draws, whose standard errors are below 0.003 (the worst seen is 0.001)."""

PENALTIES = {"school": 1.7, "other": 12.0}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(5)
    n = 90
    x = pd.DataFrame(
        {"hours": rng.normal(size=n), "school": rng.choice(list("vwxyz"), n), "age": 10 + 3 * rng.normal(size=n)}
    )
    effect = dict(zip("vwxyz", rng.normal(size=5), strict=True))
    y = 2 * x["hours"] + x["school"].map(effect) + rng.normal(size=n)
    return x, y.to_numpy()


def solved(x, y, weight=None):
    """Intercept, coefficients of hours and age, and effects of schools, at fixed penalties."""
    weight = np.ones(len(y)) if weight is None else weight / weight.mean()
    plain = x[["hours", "age"]].to_numpy()
    mean = np.average(plain, axis=0, weights=weight)
    sd = np.sqrt(np.average((plain - mean) ** 2, axis=0, weights=weight))
    levels = sorted(x["school"].unique())
    dummies = (x["school"].to_numpy()[:, None] == np.array(levels)).astype(float)
    a = np.column_stack([np.ones(len(y)), (plain - mean) / sd, dummies])
    penalty = np.diag([0.0, *[PENALTIES["other"]] * 2, *[PENALTIES["school"]] * len(levels)])
    b = np.linalg.solve(a.T @ (weight[:, None] * a) + penalty, a.T @ (weight * y))
    coef = b[1:3] / sd
    return b[0] - mean @ coef, coef, dict(zip(levels, b[3:], strict=True))


@pytest.mark.parametrize("weighted", [False, True])
def test_fixed_penalties_solve_the_normal_equations(data, weighted):
    x, y = data
    weight = np.tile([0.5, 2.0, 0.0], len(y) // 3) if weighted else None
    found = BayesRidgeRegressor("fixed", lam=PENALTIES, groups=["school"]).fit(x, y, sample_weight=weight)
    kept = np.ones(len(y), dtype=bool) if weight is None else weight > 0
    intercept, coef, effects = solved(x[kept], y[kept], None if weight is None else weight[kept])
    np.testing.assert_allclose(found.coef_, coef, rtol=SOLVED)
    assert found.intercept_ == pytest.approx(intercept, rel=SOLVED)
    wanted = intercept + x[["hours", "age"]].to_numpy() @ coef + x["school"].map(effects)
    np.testing.assert_allclose(found.predict(x), wanted, rtol=SOLVED)
    assert not hasattr(found, "lambda_")
    assert found.sigma2_ > 0
    assert found.n_features_in_ == 3


def test_numbers_are_those_of_the_formula(data):
    x, y = data
    found = clone(BayesRidgeRegressor(groups=["school"])).fit(x, y)
    model = BayesRidge.from_formula("y ~ hours + age + (1 | school)", x.assign(y=y)).fit()
    np.testing.assert_allclose(found.coef_, model.params[["hours", "age"]], rtol=SAME)
    mean, std = found.predict(x, return_std=True)
    np.testing.assert_allclose(mean, model.predict(x), rtol=SAME)
    np.testing.assert_allclose(std, model.get_prediction(x).se_obs, rtol=SAME)
    names = ["school", "other"]
    np.testing.assert_allclose(
        found.result_.variance_components().loc[names, "mean"], model.variance_components().loc[names, "mean"], SAME
    )


def test_unseen_and_missing_groups_have_effect_zero(data):
    x, y = data
    found = BayesRidgeRegressor(groups="school").fit(x, y)
    new = x.head(3).assign(school=["another", None, x["school"][2]])
    mean, std = found.predict(new, return_std=True)
    plain = found.intercept_ + new[["hours", "age"]].to_numpy() @ found.coef_
    np.testing.assert_allclose(mean[:2], plain[:2], rtol=SAME)
    assert abs(mean[2] - plain[2]) > 0.01
    known = found.predict(new.assign(school="v"), return_std=True)[1]
    assert (std[:2] > 1.2 * known[:2]).all()


@pytest.mark.parametrize("kind", ["floats", "objects", "polars", "categories", "integers"])
def test_other_forms_of_columns(data, kind):
    x, y = data
    wanted = BayesRidgeRegressor("reml", groups=["school"]).fit(x, y)
    rows, groups = x, ["school"]
    if kind == "floats":
        rows, groups = np.column_stack([x["hours"], x["school"].map(ord), x["age"]]), [1]
    elif kind == "objects":
        rows, groups = x.to_numpy(), [-2]
    elif kind == "polars":
        rows = pytest.importorskip("polars").from_pandas(x)
    elif kind == "categories":
        rows = x.assign(school=pd.Categorical(x["school"], categories=[*"zyxwvu"]))
    else:
        rows = x.assign(school=x["school"].map(ord))
    found = BayesRidgeRegressor("reml", groups=groups).fit(rows, y)
    np.testing.assert_allclose(found.coef_, wanted.coef_, rtol=SOLVED)
    np.testing.assert_allclose(found.predict(rows), wanted.predict(x), rtol=SOLVED)
    np.testing.assert_allclose(pickle.loads(pickle.dumps(found)).predict(rows), found.predict(rows), rtol=SAME)


def test_several_responses_and_groups(data):
    x, y = data
    x = x.assign(**{"my class": np.arange(len(y)) % 7})
    y = y + np.random.default_rng(3).normal(size=7)[x["my class"]]
    both = pd.DataFrame({"hours": y, "other": -y + x["age"]})
    found = BayesRidgeRegressor("reml", groups=["school", "my class"]).fit(x, both)
    assert found.coef_.shape == (2, 2)
    for j in range(2):
        one = BayesRidgeRegressor("reml", groups=["school", "my class"]).fit(x, both.iloc[:, j])
        np.testing.assert_allclose(found.coef_[j], one.coef_, rtol=SOLVED)
        np.testing.assert_allclose(found.predict(x)[:, j], one.predict(x), rtol=SOLVED)
    assert found.predict(x, return_std=True)[1].shape == both.shape


@pytest.mark.parametrize("family", ["poisson", "negative-binomial"])
def test_counts(data, family):
    x, y = data
    counts = np.random.default_rng(1).poisson(np.exp(0.4 * (y - y.mean())))
    found = BayesRidgeRegressor("laplace", groups=["school"], family=family).fit(x, counts)
    model = BayesRidge.from_formula("y ~ hours + age + (1 | school)", x.assign(y=counts), family=family).fit(
        "laplace"
    )
    np.testing.assert_allclose(found.coef_, model.params[["hours", "age"]], rtol=SAME)
    new = x.head(2).assign(school=["another", "v"])
    np.testing.assert_allclose(found.predict(new), model.predict(new, new_levels="zero"), rtol=SAME)
    assert found.predict(new)[0] != pytest.approx(found.predict(new.assign(school="v"))[0])


def test_bands_unpenalised_and_constant_columns(data):
    x, y = data
    x = x.assign(one=1.0, noise=np.random.default_rng(2).normal(size=len(y)))
    wanted = BayesRidge.from_formula(
        "y ~ hours + age + noise + (1 | school)", x.assign(y=y), unpenalized=["age"], bands={"b": ["noise"]}
    ).fit("reml")
    given = {"groups": ["school"], "unpenalized": [2], "bands": {"b": ["noise"], "other": [0]}}
    found = BayesRidgeRegressor("reml", **given).fit(x, y)
    assert set(found.result_.bands.names) == {"b", "other", "school"}
    np.testing.assert_allclose(
        found.coef_, [*wanted.params[["hours", "age"]], 0.0, wanted.params["noise"]], rtol=SOLVED
    )
    labels = ["other", "any", "any", "other", "b"]
    by_label = BayesRidgeRegressor("reml", groups=["school"], unpenalized=["age"], bands=labels).fit(x, y)
    np.testing.assert_allclose(by_label.coef_, found.coef_, rtol=SOLVED)
    changed = found.predict(x.assign(one=7.0))
    np.testing.assert_allclose(changed, found.predict(x), rtol=SAME)


def test_only_groups_and_without_intercept(data):
    x, y = data
    alone = BayesRidgeRegressor("reml", groups=[0]).fit(x[["school"]], y)
    model = BayesRidge.from_formula("y ~ 1 + (1 | school)", x.assign(y=y)).fit("reml")
    assert alone.coef_.shape == (0,)
    np.testing.assert_allclose(alone.predict(x[["school"]]), model.predict(x), rtol=SOLVED)
    without = BayesRidgeRegressor("reml", groups=["school"], fit_intercept=False).fit(x, y)
    model = BayesRidge.from_formula("y ~ 0 + hours + age + (1 | school)", x.assign(y=y)).fit("reml")
    assert without.intercept_ == 0.0
    np.testing.assert_allclose(without.coef_, model.params[["hours", "age"]], rtol=SOLVED)


def test_with_scikit_learns_tools(data):
    x, y = data
    scaled = make_column_transformer(
        (StandardScaler(), ["hours", "age"]), remainder="passthrough", verbose_feature_names_out=False
    ).set_output(transform="pandas")
    pipeline = make_pipeline(scaled, BayesRidgeRegressor("reml", groups=["school"])).fit(x, y)
    direct = BayesRidgeRegressor("reml", groups=["school"]).fit(x, y)
    np.testing.assert_allclose(pipeline.predict(x), direct.predict(x), rtol=SOLVED)
    assert np.isfinite(cross_val_score(pipeline, x, y)).all()
    search = GridSearchCV(BayesRidgeRegressor("reml"), {"groups": [["school"], "school"]}).fit(x, y)
    assert search.best_score_ > 0.5
    with pytest.raises(ValueError, match="feature names should match"):
        direct.predict(x[["hours", "age"]])


@pytest.fixture(scope="module")
def marked(data):
    """Rows, two classes and three."""
    x, y = data
    return x, np.where(y > y.mean(), "pass", "fail"), np.array(["low", "middle", "top"])[np.digitize(y, [-1.0, 1.0])]


def test_classes_of_groups_are_those_of_the_formula(marked):
    x, y, _ = marked
    found = clone(BayesRidgeClassifier("laplace", groups=["school"])).fit(x, y)
    frame = x.assign(passed=(y == "pass").astype(float))
    model = BayesRidge.from_formula("passed ~ hours + age + (1 | school)", frame, family="binomial").fit("laplace")
    np.testing.assert_allclose(found.coef_, [model.params[["hours", "age"]]], rtol=SAME)
    assert found.intercept_ == pytest.approx(model.params["Intercept"], rel=SAME)
    new = x.head(3).assign(school=["another", None, "v"])
    for rows in (x, new):
        np.testing.assert_allclose(found.predict_proba(rows)[:, 1], model.predict(rows), rtol=SAME)
    again = pickle.loads(pickle.dumps(found))
    np.testing.assert_allclose(again.predict_proba(new), found.predict_proba(new), rtol=SAME)
    assert not hasattr(found, "lambda_")
    assert not hasattr(found, "tau2_")


def test_probabilities_in_a_new_group_average_over_its_effect(marked):
    x, y, _ = marked
    found = BayesRidgeClassifier("laplace", groups=["school"]).fit(x, y)
    rng, new = np.random.default_rng(0), x.iloc[[0, 7]].assign(school="another")
    drawn = found.result_.sample(20_000, rng, hyper_columns=True)
    effect = np.sqrt(drawn["tau2[school]"].to_numpy()) * rng.normal(size=len(drawn))
    plain = drawn[["Intercept", "hours", "age"]].to_numpy() @ np.vstack([np.ones(2), new[["hours", "age"]].T])
    expected = expit(plain + effect[:, None]).mean(axis=0)
    np.testing.assert_allclose(found.predict_proba(new)[:, 1], expected, rtol=0, atol=DRAWN)
    assert (np.abs(expit(plain).mean(axis=0) - expected) > DRAWN).any()


def test_several_classes_in_groups(marked):
    x, _, y = marked
    x = x.assign(one=1.0)
    given = {"groups": ["school"], "bands": {"b": ["age"]}, "lam": PENALTIES | {"b": 3.0}}
    found = BayesRidgeClassifier("fixed", **given).fit(x, y)
    share = found.predict_proba(x)
    np.testing.assert_allclose(share.sum(axis=1), 1.0, rtol=1e-12)
    assert found.coef_.shape == (3, 3)
    assert not found.coef_[:, 2].any()
    each = [BayesRidgeClassifier("fixed", **given).fit(x, y == one) for one in found.classes_]
    separate = np.column_stack([one.predict_proba(x)[:, 1] for one in each])
    np.testing.assert_allclose(share, separate / separate.sum(axis=1, keepdims=True), rtol=SOLVED)
    scores = BayesRidgeClassifier("fixed", family="gaussian", **given).fit(x, y)
    for j, one in enumerate(scores.classes_):
        target = np.where(y == one, 1.0, -1.0)
        regressor = BayesRidgeRegressor("fixed", **given).fit(x, target)
        np.testing.assert_allclose(scores.decision_function(x)[:, j], regressor.predict(x), rtol=SOLVED)


def test_two_classes_as_numbers_and_a_response_in_a_column(marked, data):
    x, y, _ = marked
    given = {"groups": ["school"], "lam": PENALTIES}
    scores = BayesRidgeClassifier("fixed", family="gaussian", **given).fit(x, y)
    regressor = BayesRidgeRegressor("fixed", **given).fit(x, np.where(y == scores.classes_[1], 1.0, -1.0))
    np.testing.assert_allclose(scores.decision_function(x), regressor.predict(x), rtol=SOLVED)
    assert (scores.predict(x) == scores.classes_[(regressor.predict(x) > 0).astype(int)]).all()
    x, y = data
    column, flat = (BayesRidgeRegressor("fixed", **given).fit(x, of) for of in (y[:, None], y))
    for one, other in zip(column.predict(x, return_std=True), flat.predict(x, return_std=True), strict=True):
        assert one.shape == (len(x), 1)
        np.testing.assert_allclose(one[:, 0], other, rtol=SAME)


def test_bands_of_classes(marked):
    x, y, _ = marked
    plain = x[["hours", "age"]]
    found = BayesRidgeClassifier("laplace", bands={"b": ["age"]}).fit(plain, y)
    model = BayesRidge((y == "pass").astype(float), plain, bands={"b": ["age"]}, family="binomial").fit("laplace")
    np.testing.assert_allclose(found.predict_proba(plain)[:, 1], model.predict(plain), rtol=SAME)
    assert found.result_.variance_components().index.tolist() == ["b", "other"]


@pytest.mark.parametrize("labels", [[0, 1, 1], ["", "1", "2"]])
def test_classes_have_any_label_beside_groups(marked, labels):
    """Also labels that a formula, which groups make of X, takes for something else than a name."""
    x, _, y = marked
    given = {"method": "fixed", "groups": ["school"], "lam": PENALTIES, "solver": "laplace"}
    at = np.searchsorted(["low", "middle", "top"], y)
    found = BayesRidgeClassifier(**given).fit(x, np.array(labels)[at])
    wanted = BayesRidgeClassifier(**given).fit(x, np.array([f"class {label}" for label in labels])[at])
    np.testing.assert_allclose(found.predict_proba(x), wanted.predict_proba(x), rtol=SOLVED)


def test_weights_of_classes_in_groups(marked):
    x, y, _ = marked
    weight = np.tile([2, 1, 0], len(y) // 3)
    given = {"method": "fixed", "groups": ["school"], "lam": PENALTIES, "solver": "laplace"}
    found = BayesRidgeClassifier(**given).fit(x, y, sample_weight=weight)
    at = np.repeat(np.arange(len(y)), weight)
    twice = BayesRidgeClassifier(**given).fit(x.iloc[at], y[at])
    np.testing.assert_allclose(found.predict_proba(x), twice.predict_proba(x), rtol=SOLVED)


def test_classes_by_scikit_learns_tools(marked):
    x, y, _ = marked
    search = GridSearchCV(BayesRidgeClassifier("reml"), {"groups": [["school"], "school"]}).fit(x, y)
    assert search.best_score_ > 0.6
    with pytest.raises(ValueError, match="'school' were text in the fit"):
        search.predict_proba(x.assign(school=1))
    with pytest.raises(ValueError, match="unpenalized names 'school', which `groups` has"):
        BayesRidgeClassifier(groups=["school"], unpenalized=["school"]).fit(x, y)
    with pytest.raises(ValueError, match="y has one class only"):
        BayesRidgeClassifier(groups=["school"]).fit(x, np.ones(len(y)))


@pytest.mark.parametrize(
    ("given", "change", "message"),
    [
        ({"groups": ["scool"]}, {}, "groups names 'scool', which is not a column of X: did you mean 'school'"),
        ({"groups": [3]}, {}, "groups position 3 is out of range: X has 3 columns"),
        ({"groups": []}, {}, "groups names no column"),
        ({"unpenalized": ["school"]}, {}, "unpenalized names 'school', which `groups` has"),
        ({"bands": {"b": ["age", "school"]}}, {}, "band 'b' has 'school', which `groups` has"),
        ({"bands": {"b": ["one"]}}, {"one": 1.0}, "no column of band 'b' varies"),
        ({"family": "student-t", "method": "reml"}, {}, "relative to the unknown scale of the noise"),
        ({"method": "loocv"}, {}, "chooses one penalty"),
        ({}, {"school": np.arange(90)}, "as many levels as there are rows"),
        ({}, {"school": "v"}, "has one level"),
        ({}, {"school": [None, *"v" * 44, *"w" * 45]}, "missing values in 'school' of `groups`"),
        ({}, {"hours": np.nan}, "contains NaN"),
        ({}, {"a`b": 1.0}, "without backticks: rename 'a`b'"),
    ],
)
def test_bad_input(data, given, change, message):
    x, y = data
    with pytest.raises(ValueError, match=message):
        BayesRidgeRegressor(**({"groups": ["school"]} | given)).fit(x.assign(**change), y)


def test_rows_that_cannot_have_groups(data):
    x, y = data
    with pytest.raises(ValueError, match="groups requires dense rows"):
        BayesRidgeRegressor(groups=[0]).fit(sparse.eye_array(len(y)).tocsr(), y)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        BayesRidgeRegressor(groups=["school"]).fit(x, y[:-1])
    found = BayesRidgeRegressor("reml", groups=["school"]).fit(x, y)
    with pytest.raises(ValueError, match="'school' were text in the fit"):
        found.predict(x.assign(school=1))
