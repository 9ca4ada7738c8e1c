"""The families of responses: objects of statsmodels, and arguments that a family does not take."""

import re

import numpy as np
import pandas as pd
import pytest

from pybayesridge import BayesRidge, SpikeSlab
from pybayesridge.families.registry import FAMILIES

ONE_OF = (
    "family must be 'gaussian', 'binomial', 'poisson', 'negative-binomial', 'ordinal', 'beta-binomial' or 'student-t'"
)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(3)
    x = pd.DataFrame(rng.normal(size=(40, 2)), columns=["a", "b"])
    return x.assign(yes=(x["a"] + rng.logistic(size=40) > 0).astype(int), y=x["a"] + rng.normal(size=40))


@pytest.fixture(scope="module")
def families():
    return pytest.importorskip("statsmodels.genmod.families")


@pytest.mark.parametrize("link", ["Logit", "Probit"])
def test_families_of_statsmodels_stand_for_names(data, families, link):
    of_statsmodels = families.Binomial(link=getattr(families.links, link)())
    for model in (
        BayesRidge.from_formula("yes ~ a + b", data, family=of_statsmodels),
        BayesRidge(data["yes"], data[["a", "b"]], family=of_statsmodels),
        SpikeSlab(data["yes"], data[["a", "b"]], family=of_statsmodels),
    ):
        assert (model.family, model.link) == ("binomial", link.lower())
    by_name = BayesRidge(data["yes"], data[["a", "b"]], family="binomial", link=link.lower()).fit("laplace")
    by_object = BayesRidge(data["yes"], data[["a", "b"]], family=of_statsmodels).fit("laplace")
    np.testing.assert_array_equal(by_object.params, by_name.params)
    assert by_object.recipe.code == by_name.recipe.code
    assert BayesRidge(data["y"], data[["a", "b"]], family=families.Gaussian()).family == "gaussian"


def test_what_statsmodels_has_beyond_these_is_refused(data, families):
    def message(family, **kwargs):
        with pytest.raises(ValueError, match=r"family|link") as error:
            BayesRidge(data["yes"], data[["a", "b"]], family=family, **kwargs)
        return str(error.value)

    assert message(families.Tweedie()) == (f"statsmodels' family Tweedie is not available: {ONE_OF}")
    assert message(families.Binomial(link=families.links.CLogLog())) == (
        "statsmodels' family Binomial has the link CLogLog, which is not available: family='binomial' has 'logit' or "
        "'probit'"
    )
    assert "pass an object, Binomial(), or 'binomial'" in message(families.Binomial)
    assert "link='probit' contradicts the link of the family, Logit" in message(families.Binomial(), link="probit")
    with pytest.raises(
        ValueError, match="sufficient statistics do not determine the likelihood of family='binomial'"
    ):
        BayesRidge.from_moments(None, family=families.Binomial())


@pytest.mark.parametrize("family", ["gamma", 3, ["binomial"], None])
def test_other_names_are_refused(data, family):
    with pytest.raises(ValueError, match=re.escape(f"{ONE_OF}, not {family!r}")):
        BayesRidge(data["y"], data[["a", "b"]], family=family)


ARGUMENTS = {
    "link": "logit",
    "event": 1,
    "categories": [0, 1],
    "trials": np.ones(40),
    "exposure": np.ones(40),
    "dispersion": 0.5,
    "df": 4.0,
    "flat_in": "link",
    "sigma2": 1.0,
}
"""Arguments of the ridge that only some families take."""


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("argument", ARGUMENTS)
def test_arguments_of_another_family_are_refused(data, name, argument):
    if argument in FAMILIES[name].takes:
        assert any(argument not in other.takes for other in FAMILIES.values())
        return
    taker = next(other.name for other in FAMILIES.values() if argument in other.takes)
    with pytest.raises(ValueError, match=f"^{argument} requires family='{taker}'"):
        BayesRidge(data["yes"], data[["a", "b"]], family=name, **{argument: ARGUMENTS[argument]})


@pytest.mark.parametrize(("family", "given"), [("student-t", {"df": 4.0}), ("ordinal", {"categories": [0, 1]})])
def test_selections_say_which_families_they_have(data, family, given):
    with pytest.raises(
        ValueError, match=f"SpikeSlab does not have family='{family}', but 'gaussian', .*; use BayesRidge"
    ):
        SpikeSlab(data["yes"], data[["a", "b"]], family=family, **given)
    with pytest.raises(ValueError, match=f"requires family='{family}'"):
        SpikeSlab.from_formula("yes ~ a", data, **given)


@pytest.mark.parametrize("name", [name for name, family in FAMILIES.items() if not family.has_cuts])
def test_every_family_answers_what_outputs_ask(name):
    family = FAMILIES[name]()
    linear = np.linspace(-2.0, 2.0, 9)
    step = 1e-6
    assert family.link in family.links
    assert (family.mean(linear + step) > family.mean(linear)).all()
    drawn = family.draws(np.tile(linear, (4000, 1)), np.ones(9), None, np.random.default_rng(0))
    spread = np.sqrt(drawn.var(axis=0) / 4000)
    assert (np.abs(drawn.mean(axis=0) - family.mean(linear)) < 5 * spread).all()
    for words in ("weights_are", "scale_of", "predicted", "mass", "variance", "linear_predictor"):
        assert getattr(family, words)
