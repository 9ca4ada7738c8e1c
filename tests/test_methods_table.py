"""The table of methods, and the signatures that are written out for type checkers, scikit-learn and R."""

import importlib
import inspect
import re
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from pybayesridge import BayesRidge, SpikeSlab
from pybayesridge.families.registry import FAMILIES
from pybayesridge.models.methods import LANES, OPTIONS, lanes_of
from pybayesridge.results.export_generalized import in_r

MODELS = {"BayesRidge": BayesRidge, "SpikeSlab": SpikeSlab}
R = Path(__file__).parents[1] / "r-wrapper" / "R"
RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 2))
PLAIN = [lane for lane in LANES.values() if not lane.bands]
RESPONSES = {"gaussian": X[:, 0] + RNG.normal(size=30), "binomial": (X[:, 0] + RNG.logistic(size=30) > 0).astype(int)}
RESPONSES["ordinal"] = np.digitize(X[:, 0] + RNG.logistic(size=30), [-1.0, 1.0])
RESPONSES["student-t"] = RESPONSES["gaussian"]
RESPONSES["beta-binomial"] = RNG.binomial(5, 0.4, 30)
GIVEN = {"beta-binomial": {"trials": np.full(30, 5)}}
RESPONSES["poisson"] = RESPONSES["negative-binomial"] = RNG.poisson(np.exp(X[:, 0]))
OTHER = {
    "grid": [1.0],
    "lam": 1.0,
    "hyper": "average",
    "start": object(),
    "maxiter": 5,
    "tol": 0.5,
    "rng": 1,
    "check": True,
}
"""A value of each option that differs from its default, where no rule gives one."""


def differing(model, name):
    default = OPTIONS[model][name].default
    if name in OTHER:
        return OTHER[name]
    others = {"solver": "laplace", "dof": "paper", "parameterization": "tau"}
    return others.get(name, not default if isinstance(default, bool) else 2 * default if default else None)


@pytest.mark.parametrize("model", MODELS)
def test_signatures_are_those_of_the_table(model):
    written = inspect.signature(MODELS[model].fit).parameters
    named = {name: parameter.default for name, parameter in written.items() if name not in ("self", "method", "disp")}
    assert named == {name: option.default for name, option in OPTIONS[model].items()}


@pytest.mark.parametrize("model", MODELS)
def test_every_model_has_a_lane_for_every_family(model):
    lacking = {name for name, family in FAMILIES.items() if family.instead and model == "SpikeSlab"}
    assert set(lanes_of(model)) == set(FAMILIES) - lacking


@pytest.mark.parametrize("lane", PLAIN, ids=lambda lane: f"{lane.model}-{lane.family}")
def test_options_are_declared_and_documented(lane):
    known = set(OPTIONS[lane.model]) | {"expected_size"}
    assert set(lane.takes) <= known
    doc = MODELS[lane.model].fit.__doc__
    for name in (*OPTIONS[lane.model], *lane.methods):
        assert re.search(rf"\b{name}\b", doc), name
    assert set(lane.defaults) <= set(lane.options)
    for entry in lane.methods.values():
        assert set(entry.required) <= set(entry.options)


@pytest.mark.parametrize("lane", PLAIN, ids=lambda lane: f"{lane.model}-{lane.family}")
def test_options_of_other_families_are_refused(lane):
    model = MODELS[lane.model](RESPONSES[lane.family], X, family=lane.family, **GIVEN.get(lane.family, {}))
    for name in OPTIONS[lane.model]:
        if name not in lane.takes:
            with pytest.raises(ValueError, match=f"^{name} requires family='"):
                model.fit(**{name: differing(lane.model, name)})


@pytest.mark.parametrize("lane", PLAIN, ids=lambda lane: f"{lane.model}-{lane.family}")
def test_methods_of_other_families_are_refused(lane):
    model = MODELS[lane.model](RESPONSES[lane.family], X, family=lane.family, **GIVEN.get(lane.family, {}))
    others = {name for other in PLAIN if other.model == lane.model for name in other.methods}
    for name in others - set(lane.methods):
        with pytest.raises(ValueError, match="method"):
            model.fit(name)


@pytest.mark.parametrize("lane", PLAIN, ids=lambda lane: f"{lane.model}-{lane.family}")
def test_converged_is_true_or_false(lane):
    """A bool, and not NumPy's, which is not True; whatever comes of fits to so few rows."""
    model = MODELS[lane.model](RESPONSES[lane.family], X, family=lane.family, **GIVEN.get(lane.family, {}))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert isinstance(model.fit().converged, bool)


@pytest.mark.parametrize("method", ["damped", "pcep"])
def test_a_method_takes_what_it_does_anyway(method):
    model = SpikeSlab(RESPONSES["gaussian"], X)
    written, plain = (model.fit(method, **options) for options in ({"hyper": "maximize"}, {}))
    np.testing.assert_array_equal(written.params, plain.params)
    with pytest.raises(ValueError, match="hyper is an option of method='ep', not of"):
        model.fit(method, hyper="average")


BAD = {"tol": 0.0, "maxiter": 0, "mcse": -1.0, "chains": 0.5, "rng": -1, "damping": 2.0, "hyper": "x", "check": None}
"""Values that no method takes."""


@pytest.mark.parametrize("name", BAD)
def test_values_of_options_are_checked(name):
    model = SpikeSlab(RESPONSES["gaussian"], X)
    with pytest.raises(ValueError, match=f"^{name} must "):
        model.fit(**{name: BAD[name]})


@pytest.mark.parametrize(("function", "model"), [("bayes_ridge", "BayesRidge"), ("spike_slab", "SpikeSlab")])
def test_arguments_in_r_are_options(function, model):
    text = (R / f"{function}.R").read_text(encoding="utf-8")
    lists = re.findall(r"\bfit = list\((.*?)\)\n", text, flags=re.DOTALL)
    named = {name for found in lists for name in re.findall(r"(\w+) = ", found)}
    assert named <= {"method", *OPTIONS[model]}


OF_ESTIMATORS = {
    "BayesRidgeRegressor": ("BayesRidge", ["gaussian"]),
    "BayesRidgeClassifier": ("BayesRidge", ["binomial", "gaussian"]),
    "SpikeSlabRegressor": ("SpikeSlab", ["gaussian"]),
    "SpikeSlabClassifier": ("SpikeSlab", ["binomial"]),
}
"""Each with its model and the families that it fits, the default first."""

ELSEWHERE = {"start", "expected_size"}
"""A fit of other data, which estimators do not have, and an argument of the model."""


@pytest.mark.parametrize("name", OF_ESTIMATORS)
def test_parameters_of_estimators_are_options(name):
    pytest.importorskip("sklearn")
    estimators = importlib.import_module("pybayesridge.sklearn")
    assert set(OF_ESTIMATORS) == set(estimators.__all__)
    model, families = OF_ESTIMATORS[name]
    lanes = [lanes_of(model)[family] for family in families]
    given = getattr(estimators, name)().get_params()
    own = {option: given[option] for option in OPTIONS[model] if option in given}
    assert set(own) == frozenset().union(*(lane.takes for lane in lanes)) - ELSEWHERE
    for option, value in own.items():
        assert value in (OPTIONS[model][option].default, lanes[0].defaults.get(option)), option


def methods_in_r():
    """The methods of each family in the R package's table of them."""
    text = (R / "families.R").read_text(encoding="utf-8")
    blocks = re.split(r"^  ([\w-]+) = list\(|^families\[\[\"([\w-]+)\"\]\] <- ", text, flags=re.MULTILINE)[1:]
    named = {one or other: body for one, other, body in zip(blocks[::3], blocks[1::3], blocks[2::3], strict=True)}
    listed = {name: re.search(r"^ +methods = c\((.*?)\)", body, flags=re.MULTILINE) for name, body in named.items()}
    return {name: re.findall(r'"([^"]+)"', found[1]) for name, found in listed.items() if found}


def test_methods_in_r_are_those_of_the_table():
    found = methods_in_r()
    lanes = {
        family: lane
        for family, lane in lanes_of("BayesRidge").items()
        if family in ("gaussian", *in_r(lanes_of("BayesRidge")))
    }
    known = {family: [*lane.methods, *lane.elsewhere] for family, lane in lanes.items()}
    with_bands = lanes_of("BayesRidge", bands=True)
    for family in ("gaussian", *in_r(with_bands)):
        banded = with_bands[family]
        known[family] += [name for name in banded.methods if name not in known[family]]
    assert found == known


@pytest.mark.parametrize("family", FAMILIES)
def test_the_command_line_knows_links(family):
    shown = subprocess.run([sys.executable, "-m", "pybayesridge", "ridge", "--help"], capture_output=True, text=True)
    assert shown.returncode == 0
    assert all(link in shown.stdout for link in FAMILIES[family].links if "link" in FAMILIES[family].takes)
