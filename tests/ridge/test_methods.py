"""The registry of methods: whatever the package says of a method is in its entry."""

from dataclasses import replace

import numpy as np
import pytest
import statsmodels.api as sm

from pybayesridge import BayesRidge, Moments
from pybayesridge.cli.arguments import make_parser
from pybayesridge.cli.as_json import as_json
from pybayesridge.ridge.methods import METHODS

OPTIONS = {"fixed": {"lam": 2.0}}
FORMULA = "TOTEMP ~ GNP + UNEMP + ARMED"


def model():
    return BayesRidge.from_formula(FORMULA, sm.datasets.longley.load_pandas().data)


def renamed(text):
    """A text without the name of the method and what depends on the clock and on widths."""
    lines = [line for line in text.splitlines() if not line.startswith(("Date", "Time"))]
    return "\n".join(lines).replace("dummy", "").replace(" ", "")


@pytest.mark.parametrize("name", METHODS)
def test_a_new_method_is_one_entry(name, monkeypatch, tmp_path):
    monkeypatch.setitem(METHODS, "dummy", replace(METHODS[name], name="dummy"))
    options = OPTIONS.get(name, {})
    known, dummy = model().fit(name, **options), model().fit("dummy", **options)
    assert renamed(str(known.summary())).replace(name, "") == renamed(str(dummy.summary())).replace(name, "")
    assert known.notes == dummy.notes
    assert np.array_equal(known.log_marginal, dummy.log_marginal)
    content = as_json(dummy, "ridge", alpha=0.05, warnings=[])
    assert content == as_json(known, "ridge", alpha=0.05, warnings=[]) | {"method": "dummy"}
    assert make_parser().parse_args(["ridge", FORMULA, "data.csv", "--method", "dummy"]).method == "dummy"


@pytest.mark.parametrize("name", METHODS)
def test_pictures_and_reports_ask_the_entry(name, monkeypatch, tmp_path, request):
    pytest.importorskip("jinja2")
    figure = pytest.importorskip("matplotlib.figure")
    request.getfixturevalue("sketched")
    monkeypatch.setitem(METHODS, "dummy", replace(METHODS[name], name="dummy", treatment="A dummy's treatment."))
    res = model().fit("dummy", **OPTIONS.get(name, {}))
    page = res.report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert "A dummy's treatment." in page or "A dummy&#39;s treatment." in page
    ax = res.plot_lambda(ax=figure.Figure().subplots())
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert any(label.startswith(METHODS[name].in_use.format(of="tau2")) for label in labels)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize(
    ("option", "value"),
    [("lam", 1.0), ("grid", np.logspace(3, -6, 30)), ("parameterization", "tau"), ("accelerate", False)],
)
def test_options_of_other_methods_are_refused_by_name(name, option, value):
    entry = METHODS[name]
    given = OPTIONS.get(name, {}) | {option: value}
    if option in entry.options:
        assert model().fit(name, **given).converged
        return
    with pytest.raises(ValueError, match=f"{option} is an option of method=.*, not of '{name}'"):
        model().fit(name, **given)


def test_a_penalty_has_to_be_given_where_the_user_gives_it():
    with pytest.raises(ValueError, match="method='fixed' requires lam"):
        model().fit("fixed")


@pytest.mark.parametrize("name", ["em2", "", 1])
def test_unknown_methods(name):
    with pytest.raises(ValueError, match=f"method must be one of {', '.join(map(repr, METHODS))}, not"):
        model().fit(name)


def test_methods_that_need_rows_say_why(monkeypatch):
    monkeypatch.setitem(METHODS, "em", replace(METHODS["em"], needs_rows="reads rows and moments hold none"))
    rng = np.random.default_rng(0)
    moments = Moments.from_arrays(rng.normal(size=20), rng.normal(size=(20, 2)))
    with pytest.raises(ValueError, match="method='em' reads rows and moments hold none"):
        BayesRidge.from_moments(moments).fit("em")
