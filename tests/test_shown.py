"""What consoles and notebooks show of models, results, predictions and scores: short, and never an error."""

import html
import re

import numpy as np
import pandas as pd
import pytest

from pybayesridge import BayesRidge, Moments, SpikeSlab, fit_imputed, load

LINES = 18
"""A title, eleven rows with their heads, advice and blank lines between."""

WIDTH = 120


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    d = pd.DataFrame(rng.normal(size=(150, 30))).add_prefix("x")
    d["y"] = d.x0 + rng.normal(size=150)
    return d.assign(event=(d.y > 0).astype(int))


@pytest.fixture(scope="module")
def fits(frame):
    d, x = frame, frame.filter(like="x")
    moments = Moments.from_arrays(d.y, x)
    return {
        "exact": BayesRidge(d.y, x).fit(),
        "no iterations left": BayesRidge(d.y, x).fit("fixed", lam=3.0),
        "formula": BayesRidge.from_formula("y ~ x0 + x1", d).fit("em"),
        "many targets": BayesRidge(x.iloc[:, 10:], d[["x1", "x2", "y"]]).fit("fixed", lam=1.0),
        "moments": BayesRidge.from_moments(moments).fit(),
        "selection": SpikeSlab(d.y, x.iloc[:, :6]).fit(),
        "yes or no": BayesRidge(d.event, x.iloc[:, :3], family="binomial").fit("laplace"),
        "selection, yes or no": SpikeSlab(d.event, x.iloc[:, :3], family="binomial").fit("ep"),
    }


def is_short(shown):
    text, page = repr(shown), shown._repr_html_()
    assert text == str(shown)
    assert len(text.splitlines()) <= LINES
    assert max(map(len, text.splitlines())) <= WIDTH
    assert " object at " not in text
    # The same words in both.
    title = text.splitlines()[0]
    assert title in html.unescape(re.sub("<[^>]*>", "", page))
    assert page.count("<tr") <= LINES
    return text


NAMES = [
    "exact",
    "no iterations left",
    "formula",
    "many targets",
    "moments",
    "selection",
    "yes or no",
    "selection, yes or no",
]


@pytest.mark.parametrize("name", NAMES)
def test_results_and_models_are_short(name, fits):
    fit = fits[name]
    text = is_short(fit)
    assert str(f"{fit.nobs:g} rows") in text
    assert repr(fit.method) in text
    assert "summary()" in text
    assert "fit()" in is_short(fit.model)


@pytest.mark.parametrize("name", ["exact", "many targets", "moments", "selection", "yes or no"])
def test_predictions_are_short(name, fits, frame):
    fit = fits[name]
    text = is_short(fit.get_prediction(frame[fit.model.data.exog_columns]))
    assert "150 rows" in text
    assert "summary_frame()" in text


@pytest.mark.parametrize("name", ["exact", "selection", "yes or no"])
def test_scores_are_short(name, fits):
    text = is_short(fits[name].loo())
    assert "elpd_loo" in text


def test_pooled_fits_are_short(frame):
    fit = fit_imputed([frame, frame], lambda d: BayesRidge.from_formula("y ~ x0 + x1", d).fit())
    assert "2 fits of 150 rows" in is_short(fit)


def test_what_is_shown_of_numbers_is_what_they_are(fits):
    fit = fits["formula"]
    shown = repr(fit).splitlines()
    for name, value in fit.params.items():
        line = next(line for line in shown if line.split()[:1] == [name])
        assert line.split()[1] == f"{value:.4g}"


def test_fits_are_shown_without_their_data_and_after_a_file(frame, tmp_path):
    fit = BayesRidge.from_formula("y ~ x0 + x1", frame).fit()
    text = repr(fit)
    fit.save(tmp_path / "fit")
    assert repr(load(tmp_path / "fit")) == text
    fit.remove_data()


def test_names_are_not_read_as_html(frame):
    d = frame.rename(columns={"x0": "<b>bold</b>"})
    page = BayesRidge(d.y.rename("<i>y</i>"), d[["<b>bold</b>", "x1"]]).fit()._repr_html_()
    assert "<b>" not in page
    assert "<i>" not in page


def test_a_fit_that_did_not_converge_says_so(frame):
    with pytest.warns(UserWarning, match="CONVERGED"):
        fit = SpikeSlab(frame.y, frame.filter(like="x")).fit("ep", maxiter=1)
    assert "not converged" in repr(fit)


def test_tiny_probabilities_are_not_in_scientific_notation(frame):
    res = BayesRidge.from_formula("event ~ x0", frame, family="binomial").fit("fixed", lam=0.01)
    new = {"x0": [-80.0, 0.0, 80.0]}
    assert res.predict(new).iloc[0] < 1e-8
    shown = res.get_prediction(new)
    for text in (repr(shown), html.unescape(shown._repr_html_())):
        assert "< 0.0001" in text
        assert "e-" not in text
    assert shown.summary_frame()["mean"].iloc[0] == res.predict(new).iloc[0]
    far = repr(res.get_prediction(new, which="linear"))
    assert "<" not in far
