"""SpikeSlabClassifier: scikit-learn's own checks, and numbers equal to the model's."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, logit

from pybayesridge import SpikeSlab

pytest.importorskip("sklearn")

from sklearn.base import clone
from sklearn.feature_selection import SelectFromModel
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from pybayesridge.sklearn import SpikeSlabClassifier

SAME = 1e-11
"""Equal arithmetic in another order."""

QUICK = {"mcse": 0.5, "chains": 1}

SAMPLED = {
    "check_sample_weight_equivalence_on_dense_data": "a row of weight 2 has one auxiliary variable, two rows have two"
}


# Most checks only fit: the shortest runs have not converged.
@pytest.mark.filterwarnings("ignore::pybayesridge.PybayesridgeWarning")
@pytest.mark.filterwarnings("ignore:No features were selected:UserWarning")
@parametrize_with_checks(
    [SpikeSlabClassifier(mcse=1.0, maxiter=6000, chains=1)], expected_failed_checks=lambda _: SAMPLED
)
def test_scikit_learns_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(2)
    x = pd.DataFrame(rng.standard_normal((60, 3)), columns=["a", "b", "c"])
    y = np.where(rng.random(60) < expit(2 * x["a"] - 1), "yes", "no")
    return x, y


def test_numbers_are_the_models(data):
    x, y = data
    arguments = {"unpenalized": ["c"], "slab_var": 2.0, "expected_size": 0.5}
    weight = np.where(y == "yes", 2.0, 1.0)
    found = SpikeSlabClassifier(class_weight={"yes": 2.0, "no": 1.0}, **arguments, **QUICK).fit(x, y)
    wanted = SpikeSlab(y, x, family="binomial", weights=weight, **arguments).fit(**QUICK)
    assert found.classes_.tolist() == ["no", "yes"]
    assert found.result_.model.endog_names == "yes"
    np.testing.assert_allclose(found.coef_, [wanted.params.iloc[1:]], rtol=SAME)
    np.testing.assert_allclose(found.intercept_, wanted.params.iloc[:1], rtol=SAME)
    np.testing.assert_allclose(found.inclusion_prob_, wanted.inclusion_prob.iloc[1:], rtol=SAME)
    np.testing.assert_allclose(found.inclusion_se_, wanted.inclusion_se.iloc[1:], rtol=SAME)
    assert found.prior_inclusion_ == pytest.approx(wanted.prior_inclusion, rel=SAME)
    assert found.slab_var_ == pytest.approx(2.0, rel=SAME)
    assert found.n_iter_ == wanted.n_iter
    new = x.iloc[:7] + 0.1
    share = wanted.predict(new).to_numpy()
    np.testing.assert_allclose(found.predict_proba(new), np.column_stack([1 - share, share]), rtol=SAME)
    np.testing.assert_allclose(found.predict_log_proba(new), np.log(found.predict_proba(new)), rtol=SAME)
    np.testing.assert_allclose(found.decision_function(new), logit(share), rtol=SAME)
    assert found.predict(new).tolist() == np.where(share > 0.5, "yes", "no").tolist()
    assert found.get_feature_names_out().tolist() == ["a", "c"]
    found.fdr = 0.2
    assert set(found.get_feature_names_out()) == set(wanted.select(0.2).index) | {"c"}


def test_selection_in_pipelines_and_several_classes(data):
    x, y = data
    selected = make_pipeline(SpikeSlabClassifier(threshold=0.9, **QUICK), LogisticRegression()).fit(x, y)
    assert selected[0].get_feature_names_out().tolist() == ["a"]
    assert selected.predict_proba(x).shape == (60, 2)
    three = np.where(x["b"] > 1, "other", y)
    with pytest.raises(ValueError, match=r"Only binary classification is supported.*use OneVsRestClassifier"):
        SpikeSlabClassifier().fit(x, three)
    each = OneVsRestClassifier(SpikeSlabClassifier(maxiter=6000, **QUICK))
    with pytest.warns(Warning, match="NOT CONVERGED"):
        each.fit(x, three)
    np.testing.assert_allclose(each.predict_proba(x).sum(axis=1), 1.0, rtol=SAME)
    ranked = SelectFromModel(selected[0], importance_getter="inclusion_prob_", threshold=0.9, prefit=True)
    assert ranked.get_support().tolist() == [True, False, False]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"method": "damped"}, "requires family='gaussian'"),
        ({"threshold": 1.0}, "threshold must lie in"),
        ({"fdr": 0.0}, "fdr must lie between 0 and 1"),
        ({"fdr": 0.1, "threshold": 0.2}, "by threshold or by fdr"),
        ({"link": "cloglog"}, "link must be"),
        ({"link": "probit", "class_weight": {"yes": 1.5, "no": 1.0}}, "weights must be whole numbers"),
    ],
)
def test_what_it_cannot_do_is_refused(arguments, words, data):
    with pytest.raises(ValueError, match=words):
        clone(SpikeSlabClassifier(**arguments)).fit(*data)


def test_one_class_is_refused(data):
    with pytest.raises(ValueError, match="y has one class only, 'yes'"):
        SpikeSlabClassifier().fit(data[0], ["yes"] * 60)


def test_expectation_propagation_is_the_models_too(data):
    x, y = data
    found = SpikeSlabClassifier("ep", prior_inclusion=0.3).fit(x, y)
    wanted = SpikeSlab(y, x, family="binomial", prior_inclusion=0.3).fit("ep")
    np.testing.assert_allclose(found.inclusion_prob_, wanted.inclusion_prob.iloc[1:], rtol=SAME)
    np.testing.assert_allclose(found.predict_proba(x)[:, 1], wanted.fittedvalues, rtol=SAME)
    assert np.isnan(found.inclusion_se_).all()
    assert found.get_support().tolist() == [True, False, False]
