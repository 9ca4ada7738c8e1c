"""The registry of methods of variable selection: whatever the package says of a method is in its entry."""

from dataclasses import replace

import numpy as np
import pytest
import statsmodels.api as sm

from pybayesridge import SpikeSlab
from pybayesridge.cli.arguments import make_parser
from pybayesridge.cli.as_json import as_json
from pybayesridge.selection.methods import CHOICES, METHODS

FORMULA = "TOTEMP ~ GNP + UNEMP + ARMED"


def model():
    return SpikeSlab.from_formula(FORMULA, sm.datasets.longley.load_pandas().data)


@pytest.mark.parametrize("name", METHODS)
def test_a_new_method_is_one_entry(name, monkeypatch, tmp_path, request):
    intervals = "Intervals of a dummy."
    said = {"intervals": intervals, "intervals_integrated": intervals, "treatment": "A dummy did this."}
    for registry in (METHODS, CHOICES):
        monkeypatch.setitem(registry, "dummy", replace(METHODS[name], name="dummy", **said))
    known, dummy = model().fit(name), model().fit("dummy")
    assert np.array_equal(known.params, dummy.params)
    assert known.converged == dummy.converged
    assert "Intervals of a dummy." in " ".join(dummy.notes)
    content = as_json(dummy, "spikeslab", alpha=0.05, warnings=[])
    assert content["method"] == "dummy"
    assert content["targets"] == as_json(known, "spikeslab", alpha=0.05, warnings=[])["targets"]
    assert make_parser().parse_args(["spikeslab", FORMULA, "data.csv", "--method", "dummy"]).method == "dummy"
    pytest.importorskip("jinja2")
    pytest.importorskip("matplotlib")
    request.getfixturevalue("sketched")
    assert "A dummy did this." in dummy.report(tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize(("option", "value"), [("damping", 0.3), ("hyper", "average")])
def test_options_of_other_methods_are_refused_by_name(name, option, value):
    if option in METHODS[name].options:
        assert model().fit(name, **{option: value}).converged
        return
    with pytest.raises(ValueError, match=f"{option} is an option of method='.*', not of '{name}'"):
        model().fit(name, **{option: value})
