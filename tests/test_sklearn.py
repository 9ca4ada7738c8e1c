"""The scikit-learn estimators: scikit-learn's own checks, and numbers equal to the models'."""

import importlib
import pickle
import sys

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.special import expit, ndtr

from pybayesridge import BayesRidge, ConvergenceWarning, DegenerateFitWarning, GridEdgeWarning, SpikeSlab

pytest.importorskip("sklearn")

from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, make_multilabel_classification
from sklearn.ensemble import BaggingRegressor
from sklearn.feature_selection import SelectFromModel
from sklearn.linear_model import LinearRegression, Ridge, RidgeClassifier
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from pybayesridge.sklearn import BayesRidgeClassifier, BayesRidgeRegressor, SpikeSlabRegressor
from tests.effort import number

SAME = 1e-11
"""Equal arithmetic in another order: relative to the largest number of the array."""

SOLVER = 1e-8
"""Two solvers of the same ridge problem; condition numbers are below 1e4."""

SETTLED = 1e-5
"""Newton's method with rows repeated and weighted: it stops at 1e-6 standard deviations."""

PRECISION = "sample_weight are precision weights: a weight of 2 is not a row twice"
ONE_SITE = "expectation propagation approximates a row of weight 2 at once, and two rows one by one"


def expected_failures(estimator):
    kinds = ["dense"] if isinstance(estimator, SpikeSlabRegressor) else ["dense", "sparse"]
    binary = getattr(estimator, "family", None) == "binomial"
    if binary and estimator.solver == "laplace":
        return {}
    return {f"check_sample_weight_equivalence_on_{kind}_data": ONE_SITE if binary else PRECISION for kind in kinds}


ESTIMATORS = [
    BayesRidgeRegressor("exact"),
    BayesRidgeClassifier("fixed", lam=1.0, solver="laplace"),
    BayesRidgeClassifier(family="gaussian"),
    SpikeSlabRegressor("exact", maxiter=400_000),
    *number([BayesRidgeRegressor(), BayesRidgeRegressor("loocv", standardize=False)], []),
    *number([BayesRidgeClassifier(), SpikeSlabRegressor("ep")], []),
]


# Some of scikit-learn's checks fit pure noise, or hold no noise, and pass over warnings of its own kinds only.
@pytest.mark.filterwarnings("ignore::pybayesridge.PybayesridgeWarning")
@pytest.mark.filterwarnings("ignore:No features were selected:UserWarning")
@parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected_failures)
def test_scikit_learns_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    ("family", "given"), [("student-t", {"df": 4.0}), ("negative-binomial", {"dispersion": 0.5})]
)
def test_parameters_of_families_are_those_of_the_model(family, given):
    rng = np.random.default_rng(3)
    x = rng.standard_normal((30, 2))
    y = x[:, 0] + rng.standard_t(3, 30)
    if "dispersion" in given:
        y = np.round(np.abs(y))
    weight = np.tile([1.0, 2.0, 0.0], 10)
    found = clone(BayesRidgeRegressor("laplace", family=family, **given)).fit(x, y, weight)
    kept = weight > 0
    model = BayesRidge(y[kept], x[kept], family=family, weights=weight[kept], **given).fit("laplace")
    np.testing.assert_allclose(found.coef_, model.params[1:], rtol=SAME)
    np.testing.assert_allclose(found.predict(x), model.predict(x), rtol=SAME)
    free = BayesRidgeRegressor("laplace", family=family).fit(x, y, weight)
    assert not np.allclose(free.coef_, found.coef_)
    (name,) = given
    with pytest.raises(ValueError, match=f"{name} requires family="):
        BayesRidgeRegressor(**given).fit(x, y)
    with pytest.raises(ValueError, match=f"{name} must be"):
        BayesRidgeRegressor(family=family, **{name: -1.0}).fit(x, y)
    with pytest.raises(ValueError, match="return_std is for family='gaussian'"):
        found.predict(x, return_std=True)


@pytest.mark.parametrize(("family", "given"), [("poisson", {}), ("negative-binomial", {"dispersion": 0.4})])
def test_selection_of_columns_for_counts(family, given):
    rng = np.random.default_rng(4)
    x = pd.DataFrame(rng.standard_normal((60, 4)), columns=list("abcd"))
    y = pd.Series(rng.poisson(np.exp(1.0 + 0.8 * x["a"])), name="count")
    weight = np.tile([1.0, 2.0, 0.0], 20)
    found = clone(SpikeSlabRegressor(family=family, prior_inclusion=0.3, **given)).fit(x, y, weight)
    kept = weight > 0
    options = {"prior_inclusion": 0.3, "weights": weight[kept], **given}
    model = SpikeSlab(y[kept], x[kept], intercept="add", family=family, **options).fit()
    np.testing.assert_allclose(found.coef_, model.params.iloc[1:], rtol=SAME)
    np.testing.assert_allclose(found.inclusion_prob_, model.inclusion_prob.iloc[1:], rtol=SAME)
    np.testing.assert_allclose(found.predict(x), model.predict(x), rtol=SAME)
    assert found.get_feature_names_out().tolist() == [*x.columns[found.inclusion_prob_ > 0.5]]
    assert found.inclusion_prob_[0] > 0.9
    assert not hasattr(found, "sigma2_")
    assert "obs_ci_upper" in found.result_.get_prediction(x[:2]).summary_frame()
    with pytest.raises(ValueError, match="return_std is for family='gaussian'"):
        found.predict(x, return_std=True)
    # The noise variance of an earlier fit goes.
    assert not hasattr(SpikeSlabRegressor("ep").fit(x, y).set_params(family=family).fit(x, y), "sigma2_")


def test_families_that_the_selecting_regressor_does_not_have():
    x, y = np.arange(8.0)[:, None], np.array([0, 1, 0, 1, 1, 0, 1, 1])
    for family, message in {
        "binomial": "use SpikeSlabClassifier",
        "ordinal": "has no estimator here",
        "student-t": "use BayesRidge without selection",
    }.items():
        with pytest.raises(ValueError, match=message):
            SpikeSlabRegressor(family=family).fit(x, y)
    with pytest.raises(ValueError, match="dispersion requires family="):
        SpikeSlabRegressor(dispersion=1.0).fit(x, y)
    with pytest.raises(ValueError, match="noise_var"):
        SpikeSlabRegressor(family="poisson", noise_var=1.0).fit(x, y)


@pytest.fixture(scope="module")
def diabetes():
    data = load_diabetes(as_frame=True)
    return data.data, data.target


TAU = {"method": "em", "parameterization": "tau", "tol": 1e-10}


@pytest.mark.parametrize(
    ("arguments", "model", "fit"),
    [
        ({}, {}, {}),
        ({"method": "em", "prior": "half-cauchy"}, {"prior": "half-cauchy"}, {"method": "em"}),
        ({"prior": (0.5, 0.5, 0.01)}, {"prior": (0.5, 0.5, 0.01)}, {"method": "exact"}),
        (
            {"method": "gcv", "grid": [1e-3, 0.1, 1.0, 10.0, 1e3]},
            {},
            {"method": "gcv", "grid": [1e-3, 0.1, 1.0, 10.0, 1e3]},
        ),
        ({"method": "fixed", "lam": 3.0, "sigma2": 2900.0}, {"sigma2": 2900.0}, {"method": "fixed", "lam": 3.0}),
        ({"prior": (1.0, 1.0), "standardize": False}, {"prior": (1.0, 1.0), "standardize": False}, {}),
        ({"unpenalized": ["bmi"], "dof": "paper"}, {"unpenalized": ["bmi"]}, {"dof": "paper"}),
        (TAU, {}, TAU),
    ],
)
def test_ridge_has_the_models_numbers(arguments, model, fit, diabetes):
    x, y = diabetes
    found = BayesRidgeRegressor(**arguments).fit(x, y)
    wanted = BayesRidge(y, x, **model).fit(**fit)
    assert found.intercept_ == pytest.approx(wanted.params.iloc[0], rel=SAME)
    np.testing.assert_allclose(found.coef_, wanted.params.iloc[1:], rtol=SAME)
    for name in ("lambda_", "tau2", "sigma2"):
        assert getattr(found, name.rstrip("_") + "_") == pytest.approx(getattr(wanted, name), rel=SAME)
    assert found.n_iter_ == wanted.n_iter
    assert list(found.feature_names_in_) == list(x.columns) == list(found.result_.params.index[1:])
    assert found.result_.model.endog_names == "target"
    assert found.score(x, y) == pytest.approx(wanted.rsquared, rel=SAME)
    mean, std = found.predict(x.iloc[:9], return_std=True)
    table = wanted.get_prediction(x.iloc[:9]).summary_frame()
    np.testing.assert_allclose(mean, table["mean"], rtol=SAME)
    np.testing.assert_allclose(std, np.sqrt(table["mean_se"] ** 2 + wanted.sigma2), rtol=SAME)


TAU = {"method": "em", "parameterization": "tau", "tol": 1e-10}


@pytest.mark.parametrize(
    ("arguments", "model", "fit"),
    [
        ({}, {}, {}),
        ({"prior_inclusion": 0.2, "slab_var": 500.0, "noise_var": 3000.0}, None, {}),
        (
            {"unpenalized": ["sex"], "method": "ep", "hyper": "average"},
            {"unpenalized": ["sex"]},
            {"method": "ep", "hyper": "average"},
        ),
        ({"group": {"serum": ["s1", "s2", "s3", "s4", "s5", "s6"]}}, None, {}),
        ({"method": "exact", "expected_size": 4.0}, {"expected_size": 4.0}, {"method": "exact"}),
        ({"method": "ep", "check": True}, {}, {"method": "ep", "check": True}),
    ],
)
def test_spike_slab_has_the_models_numbers(arguments, model, fit, diabetes):
    x, y = diabetes
    found = SpikeSlabRegressor(**arguments).fit(x, y)
    wanted = SpikeSlab(y, x, **(arguments if model is None else model)).fit(**fit)
    assert found.intercept_ == pytest.approx(wanted.params.iloc[0], rel=SAME)
    np.testing.assert_allclose(found.coef_, wanted.params.iloc[1:], rtol=SAME)
    np.testing.assert_allclose(found.inclusion_prob_, wanted.inclusion_prob.iloc[1:], rtol=SAME)
    assert found.prior_inclusion_ == pytest.approx(wanted.prior_inclusion, rel=SAME)
    assert found.slab_var_ == pytest.approx(wanted.slab_var, rel=SAME)
    assert found.sigma2_ == pytest.approx(wanted.noise_var, rel=SAME)
    mean, std = found.predict(x.iloc[:9], return_std=True)
    table = wanted.get_prediction(x.iloc[:9]).summary_frame()
    np.testing.assert_allclose(mean, table["mean"], rtol=SAME)
    np.testing.assert_allclose(std, np.sqrt(table["mean_se"] ** 2 + wanted.noise_var), rtol=SAME)


def test_selection(diabetes):
    x, y = diabetes
    selector = SpikeSlabRegressor().fit(x, y)
    chosen = selector.result_.median_model()
    assert 0 < len(chosen) < x.shape[1]
    assert selector.get_feature_names_out().tolist() == chosen
    np.testing.assert_array_equal(selector.transform(x), x[chosen])
    strict = SpikeSlabRegressor(threshold=0.99).fit(x, y)
    np.testing.assert_array_equal(strict.get_support(), strict.inclusion_prob_ > 0.99)
    assert strict.get_support().sum() < len(chosen)
    wrapped = SelectFromModel(SpikeSlabRegressor(), importance_getter="inclusion_prob_", threshold=0.5).fit(x, y)
    np.testing.assert_array_equal(wrapped.get_support(), selector.get_support())
    pipeline = make_pipeline(SpikeSlabRegressor(), LinearRegression()).fit(x, y)
    least_squares = LinearRegression().fit(x[chosen], y)
    np.testing.assert_allclose(pipeline.predict(x), least_squares.predict(x[chosen]), rtol=SAME)
    frame = SpikeSlabRegressor().set_output(transform="pandas").fit(x, y).transform(x)
    pd.testing.assert_frame_equal(frame, x[chosen])
    for bad in (1.0, -0.1, "median"):
        with pytest.raises(ValueError, match="threshold must lie in"):
            SpikeSlabRegressor(threshold=bad).fit(x, y)


def test_selection_by_false_discovery_rate(diabetes):
    x, y = diabetes
    for fdr in (0.02, 0.1, 0.4):
        selector = SpikeSlabRegressor("exact", fdr=fdr).fit(x, y)
        chosen = set(selector.result_.select(fdr).index)
        assert selector.get_feature_names_out().tolist() == [name for name in x.columns if name in chosen]
        share = 1 - selector.inclusion_prob_[selector.get_support()].mean()
        assert share <= fdr
    shifted = SpikeSlabRegressor("exact", fdr=0.02, fit_intercept=False).fit(x, y - y.mean())
    assert set(shifted.get_feature_names_out()) == set(shifted.result_.select(0.02).index)
    always = SpikeSlabRegressor("exact", fdr=0.02, unpenalized=["age"]).fit(x.assign(one=1.0), y)
    kept = set(always.get_feature_names_out())
    assert kept == {"age", *always.result_.select(0.02).index}
    assert "one" not in kept
    for bad, match in (
        ({"fdr": 1.0}, "fdr must lie"),
        ({"fdr": "x"}, "fdr must lie"),
        ({"fdr": 0.1, "threshold": 0.9}, "one"),
    ):
        with pytest.raises(ValueError, match=match):
            SpikeSlabRegressor("exact", **bad).fit(x, y)


def test_sampling_of_a_selection(monkeypatch, diabetes):
    x, y = diabetes
    assert (SpikeSlabRegressor("exact").fit(x, y).inclusion_se_ == 0).all()
    assert np.isnan(SpikeSlabRegressor("ep").fit(x, y).inclusion_se_).all()
    monkeypatch.setattr("pybayesridge.selection.fit.can_enumerate", lambda grid: False)
    x = x[["age", "sex", "bmi", "bp"]]
    arguments = {"mcse": 0.04, "chains": 3, "rng": 7, "maxiter": 1_500_000}
    found = SpikeSlabRegressor("exact", **arguments).fit(x, y)
    wanted = SpikeSlab(y, x).fit("exact", **arguments)
    np.testing.assert_allclose(found.inclusion_prob_, wanted.inclusion_prob.iloc[1:], rtol=SAME)
    np.testing.assert_allclose(found.inclusion_se_, wanted.inclusion_se.iloc[1:], rtol=SAME)
    assert 0 < found.inclusion_se_.max() <= 0.04
    again = clone(found).fit(x, y)
    np.testing.assert_array_equal(again.inclusion_prob_, found.inclusion_prob_)
    other = clone(found).set_params(rng=8).fit(x, y)
    assert (other.inclusion_prob_ != found.inclusion_prob_).any()


@pytest.mark.parametrize("kind", ["array", "frame", "sparse"])
def test_a_constant_column_has_coefficient_zero_whatever_new_rows_hold(kind, diabetes):
    x, y = diabetes
    wider = x.assign(one=1.0, five=5.0)
    given = {"array": wider.to_numpy(), "frame": wider, "sparse": sparse.csr_array(wider.to_numpy())}[kind]
    found = BayesRidgeRegressor("exact").fit(given, y)
    wanted = BayesRidgeRegressor("exact").fit(x, y)
    np.testing.assert_array_equal(found.coef_[-2:], 0)
    np.testing.assert_allclose(found.coef_[:-2], wanted.coef_, rtol=1e-9)
    assert found.intercept_ == pytest.approx(wanted.intercept_, rel=SAME)
    other = wider.assign(one=7.0, five=-3.0)
    rows = {"array": other.to_numpy(), "frame": other, "sparse": sparse.csr_array(other.to_numpy())}[kind]
    for new, old in zip(found.predict(rows, return_std=True), wanted.predict(x, return_std=True), strict=True):
        np.testing.assert_allclose(new, old, rtol=1e-9)


def test_constant_columns_of_a_selection(diabetes):
    x, y = diabetes
    wanted = SpikeSlabRegressor().fit(x, y)
    found = SpikeSlabRegressor().fit(x.assign(one=1.0), y)
    assert found.coef_[-1] == found.inclusion_prob_[-1] == 0
    np.testing.assert_allclose(found.inclusion_prob_[:-1], wanted.inclusion_prob_, rtol=1e-9)
    np.testing.assert_allclose(found.predict(x.assign(one=9.0)), wanted.predict(x), rtol=1e-9)


def test_without_intercept(diabetes):
    x, y = diabetes
    found = BayesRidgeRegressor("fixed", lam=2.0, fit_intercept=False, standardize=False).fit(x.assign(one=1.0), y)
    ridge = Ridge(alpha=2.0, fit_intercept=False).fit(x.assign(one=1.0), y)
    assert found.intercept_ == 0.0
    np.testing.assert_allclose(found.coef_, ridge.coef_, rtol=SOLVER)
    with pytest.raises(ValueError, match=r"column\(s\) 'one' are constant and the model has no intercept"):
        BayesRidgeRegressor(fit_intercept=False).fit(x.assign(one=1.0), y)


def test_weights_are_precisions_and_zero_leaves_a_row_out(diabetes):
    x, y = diabetes
    weight = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    wanted = BayesRidge(y, x, weights=weight).fit()
    for scale in (1.0, 1e3):
        found = BayesRidgeRegressor().fit(x, y, sample_weight=scale * weight)
        np.testing.assert_allclose(found.coef_, wanted.params.iloc[1:], rtol=1e-9)
    some = np.where(np.arange(len(y)) % 3 == 0, 0.0, weight)
    for estimator in (BayesRidgeRegressor(), SpikeSlabRegressor()):
        left_out = clone(estimator).fit(x[some > 0], y[some > 0], sample_weight=weight[some > 0])
        np.testing.assert_allclose(estimator.fit(x, y, sample_weight=some).coef_, left_out.coef_, rtol=SAME)
    sparse_x = sparse.csr_array(x.to_numpy())
    np.testing.assert_allclose(
        BayesRidgeRegressor().fit(sparse_x, y, sample_weight=some).coef_,
        BayesRidgeRegressor().fit(x, y, sample_weight=some).coef_,
        rtol=SOLVER,
    )
    with pytest.raises(ValueError, match="zero"):
        BayesRidgeRegressor().fit(x, y, sample_weight=np.zeros(len(y)))
    with pytest.raises(ValueError, match="Negative values"):
        BayesRidgeRegressor().fit(x, y, sample_weight=-weight)


@pytest.mark.parametrize("container", [sparse.csr_array, sparse.csc_matrix, sparse.coo_array])
def test_sparse_columns(container):
    rng = np.random.default_rng(0)
    dense = rng.normal(size=(60, 8)) * (rng.random((60, 8)) < 0.4)
    y = dense @ np.arange(8.0) + rng.normal(size=60)
    found = BayesRidgeRegressor("exact").fit(container(dense), y)
    wanted = BayesRidgeRegressor("exact").fit(dense, y)
    for new, old in zip(
        found.predict(container(dense), return_std=True), wanted.predict(dense, return_std=True), strict=True
    ):
        np.testing.assert_allclose(new, old, rtol=SOLVER)


def test_several_targets(diabetes):
    x, y = diabetes
    both = pd.DataFrame({"first": y, "second": -2 * y + x["bmi"]})
    found = BayesRidgeRegressor().fit(x, both)
    assert found.coef_.shape == (2, x.shape[1])
    assert found.result_.params.columns.tolist() == ["first", "second"]
    mean, std = found.predict(x, return_std=True)
    for i, name in enumerate(both):
        one = BayesRidgeRegressor().fit(x, both[name])
        np.testing.assert_allclose(found.coef_[i], one.coef_, rtol=1e-8)
        assert found.lambda_[i] == pytest.approx(one.lambda_, rel=1e-7)
        for new, old in zip((mean, std), one.predict(x, return_std=True), strict=True):
            np.testing.assert_allclose(new[:, i], old, rtol=1e-8)
    column = BayesRidgeRegressor().fit(x, both[["first"]])
    assert column.coef_.shape == (1, x.shape[1])
    assert [part.shape for part in column.predict(x, return_std=True)] == [(len(y), 1)] * 2
    penalties = BayesRidgeRegressor("fixed", lam=[1.0, 10.0], standardize=False).fit(x, both)
    ridge = Ridge(alpha=np.array([1.0, 10.0])).fit(x, both)
    np.testing.assert_allclose(penalties.coef_, ridge.coef_, rtol=SOLVER)


@pytest.mark.parametrize("load", [load_iris, load_digits])
@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_classifier_is_ridge_classifier_at_equal_penalty(load, class_weight):
    x, y = load(return_X_y=True)
    plain = {"family": "gaussian", "lam": 1.0, "standardize": False}
    found = BayesRidgeClassifier("fixed", class_weight=class_weight, **plain).fit(x, y)
    # Balanced weights have mean 1, as the model's have, so that the penalties are the same.
    wanted = RidgeClassifier(alpha=1.0, class_weight=class_weight).fit(x, y)
    scores = wanted.decision_function(x)
    np.testing.assert_allclose(found.decision_function(x), scores, atol=SOLVER * np.abs(scores).max())
    assert (found.predict(x) == wanted.predict(x)).all()
    assert found.score(x, y) == pytest.approx(wanted.score(x, y), rel=SAME)
    assert found.decision_function(x).shape == (len(y), len(found.classes_))


def test_two_classes():
    x, y = load_iris(return_X_y=True)
    x, labels = x[y > 0], np.array(["a", "b"])[y[y > 0] - 1]
    found = BayesRidgeClassifier("fixed", family="gaussian", lam=1.0, standardize=False).fit(x, labels)
    wanted = RidgeClassifier(alpha=1.0).fit(x, labels)
    assert found.coef_.shape == (1, 4)
    np.testing.assert_allclose(found.decision_function(x), wanted.decision_function(x), atol=SOLVER)
    assert found.predict(x).tolist() == wanted.predict(x).tolist()
    assert found.result_.model.endog_names == "b"
    with pytest.raises(ValueError, match="y has one class only, 'a'"):
        BayesRidgeClassifier().fit(x[labels == "a"], labels[labels == "a"])


def test_classes_are_fitted_at_once_each_with_its_penalty():
    x, y = load_iris(return_X_y=True)
    found = BayesRidgeClassifier(family="gaussian").fit(x, y)
    assert found.lambda_.shape == (3,)
    assert not hasattr(found, "predict_proba")
    for i, label in enumerate(found.classes_):
        one = BayesRidge(np.where(y == label, 1.0, -1.0), x).fit()
        assert found.lambda_[i] == pytest.approx(one.lambda_, rel=1e-7)
        np.testing.assert_allclose(found.coef_[i], one.params.iloc[1:], rtol=1e-8)
    assert found.score(x, y) > 0.8


def test_several_labels_a_row():
    x, y = make_multilabel_classification(200, 10, n_classes=3, random_state=0)
    found = BayesRidgeClassifier("fixed", family="gaussian", lam=1.0, standardize=False).fit(x, y)
    np.testing.assert_array_equal(found.predict(x), RidgeClassifier(alpha=1.0).fit(x, y).predict(x))
    binary = BayesRidgeClassifier("laplace").fit(x, y)
    one = BayesRidge(y[:, 1], x, family="binomial").fit("laplace")
    np.testing.assert_allclose(binary.predict_proba(x[:9])[:, 1], one.predict(x[:9]), rtol=SAME)
    np.testing.assert_array_equal(binary.predict(x), binary.predict_proba(x) > 0.5)


@pytest.mark.parametrize("link", ["logit", "probit"])
def test_probabilities_of_two_classes_are_the_models(link):
    x, y = load_breast_cancer(return_X_y=True, as_frame=True)
    x, labels = x.iloc[:, :6], np.array(["benign", "malignant"])[1 - y]
    found = BayesRidgeClassifier(link=link).fit(x[::2], labels[::2])
    model = BayesRidge((labels == "malignant")[::2], x[::2], family="binomial", link=link)
    wanted = model.fit()
    new = x[1::2]
    proba = found.predict_proba(new)
    np.testing.assert_allclose(proba[:, 1], wanted.predict(new), rtol=SAME)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, rtol=SAME)
    np.testing.assert_allclose(np.exp(found.predict_log_proba(new)), proba, rtol=SAME, atol=1e-300)
    np.testing.assert_allclose(found.coef_[0], wanted.params.iloc[1:], rtol=SAME)
    assert found.intercept_ == pytest.approx(wanted.params.iloc[0], rel=SAME)
    assert found.lambda_ == pytest.approx(wanted.lambda_, rel=SAME)
    assert found.classes_.tolist() == ["benign", "malignant"]
    curve = expit if link == "logit" else ndtr
    np.testing.assert_allclose(curve(found.decision_function(new)), proba[:, 1], atol=SAME)
    np.testing.assert_array_equal(found.predict(new), found.classes_[proba.argmax(axis=1)])
    assert found.score(new, labels[1::2]) > 0.9
    assert found.result_.model.endog_names == "malignant"


def test_several_classes_are_one_versus_the_rest():
    x, y = load_iris(return_X_y=True)
    found = BayesRidgeClassifier("laplace").fit(x, y)
    fits = [BayesRidge(y == label, x, family="binomial").fit("laplace") for label in range(3)]
    share = np.column_stack([fit.predict(x) for fit in fits])
    proba = found.predict_proba(x)
    np.testing.assert_allclose(proba, share / share.sum(axis=1, keepdims=True), rtol=SAME)
    np.testing.assert_array_equal(found.predict(x), proba.argmax(axis=1))
    assert [each.model.endog_names for each in found.result_] == ["0", "1", "2"]
    assert found.coef_.shape == (3, 4)
    assert found.lambda_.shape == found.intercept_.shape == (3,)
    columns = sparse.csr_array(x)
    of_sparse = BayesRidgeClassifier("laplace").fit(columns, y).predict_proba(columns)
    np.testing.assert_allclose(of_sparse, proba, rtol=1e-6)


def test_weights_of_rows_of_classes_count_them():
    x, y = load_iris(return_X_y=True)
    twice = np.concatenate([np.arange(150), np.arange(50)])
    weight = np.where(np.arange(150) < 50, 2.0, 1.0)
    by_weight = BayesRidgeClassifier("laplace").fit(x, y, sample_weight=weight).predict_proba(x)
    by_class = BayesRidgeClassifier("laplace", class_weight={0: 2, 1: 1, 2: 1}).fit(x, y).predict_proba(x)
    repeated = BayesRidgeClassifier("laplace").fit(x[twice], y[twice]).predict_proba(x)
    np.testing.assert_allclose(by_weight, by_class, rtol=SAME)
    np.testing.assert_allclose(by_weight, repeated, atol=SETTLED)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"family": "poisson"}, "family must be 'gaussian' or 'binomial', not 'poisson'"),
        ({"sigma2": 1.0}, "sigma2 goes with family='gaussian'"),
        ({"family": "gaussian", "link": "probit"}, "link goes with family='binomial'"),
        ({"method": "exact"}, "exact"),
        ({"link": "cauchit"}, "link must be 'logit' or 'probit'"),
    ],
)
def test_arguments_of_the_classifier(arguments, message):
    x, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match=message):
        BayesRidgeClassifier(**arguments).fit(x, y)


def test_with_scikit_learns_tools(diabetes):
    x, y = diabetes
    folds = KFold(3, shuffle=True, random_state=0)
    pipeline = make_pipeline(StandardScaler(), BayesRidgeRegressor()).fit(x, y)
    alone = BayesRidgeRegressor().fit(x, y)
    np.testing.assert_allclose(pipeline.predict(x), alone.predict(x), rtol=SOLVER)
    assert cross_val_score(BayesRidgeRegressor(), x, y, cv=folds).min() > 0.3
    search = GridSearchCV(BayesRidgeRegressor("fixed", lam=1.0), {"lam": [1e-2, 10.0, 1e5]}, cv=folds).fit(x, y)
    assert search.best_params_["lam"] < 1e5
    again = pickle.loads(pickle.dumps(clone(alone).fit(x, y)))
    for new, old in zip(again.predict(x, return_std=True), alone.predict(x, return_std=True), strict=True):
        np.testing.assert_allclose(new, old, rtol=SAME)
    small = pickle.loads(pickle.dumps(alone))
    small.result_.remove_data()
    np.testing.assert_allclose(small.predict(x, return_std=True)[1], again.predict(x, return_std=True)[1], rtol=SAME)
    assert len(pickle.dumps(small)) < len(pickle.dumps(again)) / 4


def test_metadata_routing(diabetes):
    x, y = diabetes
    weight = np.random.default_rng(0).uniform(0.0, 3.0, len(y))
    with config_context(enable_metadata_routing=True):
        estimator = BayesRidgeRegressor().set_fit_request(sample_weight=True)
        pipeline = make_pipeline(estimator).fit(x, y, sample_weight=weight)
        np.testing.assert_allclose(pipeline[0].coef_, BayesRidgeRegressor().fit(x, y, weight).coef_, rtol=SAME)
        std = make_pipeline(estimator.set_predict_request(return_std=True)).fit(x, y, sample_weight=weight)
        assert len(std.predict(x, return_std=True)) == 2
        bagged = BaggingRegressor(estimator, n_estimators=2, random_state=0).fit(x, y, sample_weight=weight)
    assert len(bagged.estimators_) == 2


def test_polars_rows(diabetes):
    pl = pytest.importorskip("polars")
    x, y = diabetes
    frame = pl.DataFrame({name: x[name].to_numpy() for name in x.columns})
    found = BayesRidgeRegressor().fit(frame, pl.Series("progression", y.to_numpy()))
    assert list(found.feature_names_in_) == list(x.columns)
    assert found.result_.model.endog_names == "progression"
    np.testing.assert_allclose(found.predict(frame), BayesRidgeRegressor().fit(x, y).predict(x), rtol=SAME)
    selector = SpikeSlabRegressor().set_output(transform="polars").fit(frame, y)
    assert selector.transform(frame).columns == selector.result_.median_model()


def test_degenerate_fits_warn():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 4))
    with pytest.warns(DegenerateFitWarning, match="No signal"):
        BayesRidgeRegressor("em").fit(x, np.random.default_rng(3).normal(size=40))
    with pytest.warns(DegenerateFitWarning, match="fit the response exactly"):
        assert BayesRidgeRegressor().fit(x, np.ones(40)).predict(x) == pytest.approx(1.0)
    with pytest.warns(DegenerateFitWarning, match="No penalised column varies"):
        found = BayesRidgeRegressor().fit(np.ones((40, 2)), x[:, 0])
    np.testing.assert_array_equal(found.coef_, 0)
    assert found.intercept_ == pytest.approx(x[:, 0].mean())
    with pytest.warns(GridEdgeWarning, match="edge of the grid"):
        BayesRidgeRegressor("gcv", grid=[1e5, 1e6]).fit(x, x.sum(axis=1) + rng.normal(size=40))
    with pytest.warns(ConvergenceWarning, match="NOT CONVERGED"):
        SpikeSlabRegressor("damped", maxiter=1).fit(x, x[:, 0] + rng.normal(size=40))
    with pytest.warns(DegenerateFitWarning, match="fit the response exactly"):
        assert SpikeSlabRegressor().fit(x, np.ones(40)).predict(x) == pytest.approx(1.0)


def test_arguments_are_checked(diabetes):
    x, y = diabetes
    with pytest.raises(ValueError, match="method must be one of"):
        BayesRidgeRegressor("ols").fit(x, y)
    with pytest.raises(ValueError, match="lam is an option of method='fixed'"):
        BayesRidgeRegressor(lam=1.0).fit(x, y)
    with pytest.raises(ValueError, match="y is sparse"):
        BayesRidgeRegressor().fit(x, sparse.csr_array(np.asarray(y)[:, None]))
    with pytest.raises(ValueError, match="hyper must be"):
        SpikeSlabRegressor(hyper="fixed").fit(x, y)


def test_without_scikit_learn_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    monkeypatch.delitem(sys.modules, "pybayesridge.sklearn")
    with pytest.raises(ImportError, match=r"pip install 'pybayesridge\[sklearn\]'"):
        importlib.import_module("pybayesridge.sklearn")
