"""A treatment at one level of which all responses are 1: what the fits say beside importance sampling."""

import numpy as np
import pandas as pd
import pytest

from benchmarks.separation import CASES, ENDS, drawn, quantiles, responses, sampled, sure
from pybayesridge import BayesRidge, load

DRAWS = 4000
"""At a penalty."""

TOLERANCES = {"one": (0.03, 0.04), "both": (0.03, 0.04), "beside": (0.06, 0.05), "many": (0.05, 0.08)}
ELSE = (0.03, 0.05)
"""Errors of means in standard deviations, and of standard deviations, at most: Monte Carlo errors of fits and of what
they are compared with. Seen: .01 and
1.3 %; .03 and 1.6 % beside 20 columns; .02 and 3.3 % where five of ten levels separate; .006 and 1 % with blocks.
In one part those that separate have .77 to .88 of the standard deviation, and .96 beside 20
columns."""

OUTER, INNER = 0.15, 0.03
"""Ends of 95 % intervals, in the far tails, and of 50 % intervals, relative to the width of the interval, likewise.
Seen: .03 and .013."""

LAPLACE = 0.9
"""Standard deviation of the coefficient that separates by Laplace's method, relative to that by sampling, at most:
.53 to .74, beside 20 columns .86."""


SAME_DF, SAME_SCORE, SAME_MEANS, SAME_ENDS = 0.05, 0.02, 2e-3, 1e-6
"""Degrees of freedom and the log score of a row of two approximations; means by the rows' laws, and without those of
negligible weight; ends of intervals without those."""


@pytest.mark.parametrize("case", CASES)
def test_an_effect_that_separates(case):
    (_, formula, *of_data), (mean_tol, sd_tol) = CASES[case], TOLERANCES.get(case, ELSE)
    data = responses(*of_data)
    fit = BayesRidge.from_formula(formula, data, family="binomial").fit()
    assert fit.sites_fit.split
    assert fit.sites_fit.whole.split == (case not in ("both", "many"))
    count = data["t"].nunique()
    mean, sd = sampled(fit.sites_fit, data["y"].to_numpy(), count, DRAWS)
    assert (np.abs(fit.params[:count] - mean) < mean_tol * sd).all()
    assert (np.abs(fit.bse[:count] / sd - 1.0) < sd_tol).all()
    assert ["in parts" in each.text for each in fit.findings if each.code == "separation"] == [True]
    by_laplace = BayesRidge.from_formula(formula, data, family="binomial").fit("laplace")
    assert by_laplace.bse["t[T.none]"] < LAPLACE * sd[list(fit.params.index).index("t[T.none]")]
    assert "0.5 to 0.9 of what they should be" in str(by_laplace.summary())


def test_a_column_that_is_the_response():
    formula, data = sure()
    fit = BayesRidge.from_formula(formula, data, family="binomial").fit()
    assert fit.sites_fit.split
    exact = quantiles(*drawn(fit.sites_fit, data["y"].to_numpy(), 3, DRAWS), ENDS)
    outer, inner = fit.conf_int().to_numpy(), fit.conf_int(alpha=0.5).to_numpy()
    for own, at, tol in ((outer, [0, 3], OUTER), (inner, [1, 2], INNER)):
        width = np.diff(exact[:, at]).ravel()
        assert (np.abs(own - exact[:, at]).max(axis=1) < tol * width).all()
    assert np.isfinite(fit.loo_log_score)
    assert "importance sampling" in str(fit.summary())


@pytest.mark.parametrize("changed", [[0], [0, 3]])
@pytest.mark.parametrize("case", ["blocks", "beside"])
def test_responses_that_no_column_separates(case, changed):
    _, formula, *of_data = CASES[case]
    data = responses(*of_data)
    data.loc[data.index[data["t"] == "none"][changed], "y"] = 0.0
    fit = BayesRidge.from_formula(formula, data, family="binomial").fit()
    assert not fit.sites_fit.separated
    assert "separate the responses" not in str(fit.summary())


BESIDE = [f"x{i}" for i in range(12)]
"""Columns with one penalty, with which the tail of the penalty's posterior shows nothing of one that separates."""


@pytest.mark.parametrize("method", ["em", "fixed", "loocv"])
def test_penalties_that_are_found_or_given_leave_one_part(method):
    _, formula, *of_data = CASES["beside"]
    model = BayesRidge.from_formula(formula, responses(*of_data), family="binomial")
    fit = model.fit(method, **({"lam": 10.0} if method == "fixed" else {}))
    assert not fit.sites_fit.split
    assert ["up to a quarter too small" in each.text for each in fit.findings if each.code == "separation"] == [True]


def arrays(data):
    columns = pd.get_dummies(data["t"]).iloc[:, 1:].assign(x=np.arange(80) % 7.0).astype(float)
    return columns, {"t": list(columns.columns[:3]), "x": ["x"]}


def of_some_responses(kind, beside):
    """A model of the same treatment, beside columns or blocks, and a response that it does not separate."""
    data, rng = responses(), np.random.default_rng(4)
    none = (data["t"] == "none").to_numpy()
    if kind == "poisson":
        data["y"] = np.where(none, 0, rng.poisson(2.0, size=80))
    if kind in ("ordinal", "eliminated"):
        data["block"] = np.arange(80) % 20 if kind == "ordinal" else np.arange(80) % 40
    if kind == "ordinal":
        data["y"] = np.where(none, "c", rng.choice(list("abc"), size=80))
    mixed = data.copy()
    mixed.loc[data.index[none][:3], "y"] = {"poisson": 2, "ordinal": "a"}.get(kind, 0)
    family = kind if kind in ("poisson", "ordinal") else "binomial"
    given = {"link": "probit"} if kind == "probit" else {"categories": list("abc")} if kind == "ordinal" else {}

    def made(frame):
        if kind == "arrays":
            columns, bands = arrays(frame)
            return BayesRidge(frame["y"], columns, bands=bands, family=family)
        terms = " + ".join(["y ~ t", *BESIDE]) if beside else "y ~ t + (1 | block)"
        return BayesRidge.from_formula(terms, frame, family=family, **given)

    return made(data), made(mixed)


@pytest.mark.parametrize(
    ("kind", "beside"),
    [(kind, False) for kind in ("arrays", "poisson", "ordinal", "probit", "eliminated")]
    + [(kind, True) for kind in ("poisson", "ordinal", "probit")],
)
def test_separation_is_said_of_all_kinds_of_responses(kind, beside, monkeypatch, tmp_path):
    if kind == "eliminated":
        monkeypatch.setattr("pybayesridge.formula.bands.MANY_LEVELS", 30)
    separated, mixed = (model.fit("laplace", tol=0.1) for model in of_some_responses(kind, beside))
    assert [each.name for each in mixed.findings if each.code == "separation"] == []
    (found,) = [each for each in separated.findings if each.code == "separation"]
    assert "Laplace" in found.text
    separated.save(tmp_path / "fit.pbr", remove_data=True)
    assert found.text in [each.text for each in load(tmp_path / "fit.pbr").findings]


def test_fits_by_importance_sampling_answer_what_others_do(monkeypatch, tmp_path):
    (_, formula, *of_data), codes = CASES["many"], np.arange(200) % 10
    model = BayesRidge.from_formula(formula, responses(*of_data), family="binomial")
    fit = model.fit()
    monkeypatch.setattr("pybayesridge.sites.windows.SEVERAL", 0)
    whole = model.fit()
    assert fit.sites_fit.split
    assert not whole.sites_fit.split
    assert fit.df_model == pytest.approx(whole.df_model, rel=SAME_DF)
    assert fit.loo_log_score == pytest.approx(whole.loo_log_score, abs=SAME_SCORE)
    np.testing.assert_allclose(fit.fittedvalues, fit.predict(responses(*of_data)), atol=SAME_MEANS)
    by_group = (each.sites_fit.groups_left_out(codes, "ep") for each in (fit, whole))
    np.testing.assert_allclose(*(each.log_density for each in by_group), atol=SAME_ENDS)
    fit.save(tmp_path / "fit.pbr", remove_data=True)
    kept = load(tmp_path / "fit.pbr")
    np.testing.assert_allclose(kept.conf_int(), fit.conf_int(), rtol=SAME_ENDS, atol=SAME_ENDS)
    assert ["in parts" in each.text for each in kept.findings if each.code == "separation"] == [True]
