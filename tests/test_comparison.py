"""``compare_models()``: the numbers of each fit, in one table and all its formats."""

import csv
import io

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf

from pybayesridge import BayesRidge, SpikeSlab, compare_evidence, compare_loo, compare_models, fit_imputed
from tests.test_summary_formats import latex_lines

SAME = 1e-12
"""Numbers that are copied."""

FORMULA = "y ~ x1 + x2 + g"


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    out = pd.DataFrame(rng.normal(size=(50, 3)), columns=["x1", "x2", "w"])
    out["g"] = rng.choice(["a", "b"], 50)
    out["w"] = out["w"] ** 2 + 0.5
    out["y"] = out["x1"] + rng.normal(size=50)
    out["event"] = (out["y"] > 0).astype(int)
    return out


@pytest.fixture(scope="module")
def fits(frame):
    return {
        "ridge": BayesRidge.from_formula(FORMULA, frame).fit(),
        "selection": SpikeSlab.from_formula(FORMULA, frame).fit(),
        "OLS": smf.ols("y ~ x2 + x1 + w", frame).fit(),
    }


@pytest.fixture(scope="module")
def table(fits):
    return compare_models(fits, alpha=0.1)


def cells(table):
    return {row[0].data: [cell.data for cell in row[1:]] for row in table.tables[0]}


def test_numbers_are_those_of_the_fits(fits, table):
    found = table.frame
    assert list(found.columns) == list(fits)
    assert list(found.index.unique("term")) == ["Intercept", "x1", "x2", "g[T.b]", "w", ""]
    for name, fit in fits.items():
        interval = fit.conf_int(alpha=0.1).to_numpy()
        for value, wanted in zip(
            ("estimate", "sd", "lower", "upper"), (fit.params, fit.bse, *interval.T), strict=True
        ):
            own = found[name].xs(value, level="value")[fit.params.index]
            np.testing.assert_allclose(own, wanted, rtol=SAME)
    assert found["OLS"].loc["g[T.b]"].isna().all()
    selection = fits["selection"]
    pip = found["selection"].xs("inclusion_prob", level="value")
    np.testing.assert_allclose(pip[selection.params.index], selection.inclusion_prob, rtol=SAME)
    facts = found.loc[""]
    assert facts.loc["N"].tolist() == [50, 50, 50]
    ridge, ols = fits["ridge"], fits["OLS"]
    wanted = [ridge.rsquared, selection.rsquared, ols.rsquared]
    np.testing.assert_allclose(facts.loc["R-squared"], wanted, rtol=SAME)
    sigma = np.sqrt([ridge.sigma2, selection.sigma2, ols.mse_resid])
    np.testing.assert_allclose(facts.loc["sigma"].to_numpy(dtype=float), sigma, rtol=SAME)
    assert facts.loc["log marginal", "ridge"] == pytest.approx(ridge.log_marginal, rel=SAME)
    assert facts.loc["log evidence", "selection"] == pytest.approx(selection.log_evidence, rel=SAME)
    assert facts.loc["LOO R-squared", "ridge"] == pytest.approx(ridge.loo_rsquared, rel=SAME)
    assert "LOO log score" not in facts.index


def test_text(fits, table):
    rows = cells(table)
    assert rows["N"] == ["50", "50", "50"]
    assert rows["w"][:2] == ["", ""]
    text = " ".join(str(table).split())
    assert f"({float(fits['ridge'].bse['x1']):.3f}" in text
    assert f"PIP {fits['selection'].inclusion_prob['x2']:.3f}" in text
    assert "OLS: standard errors and confidence intervals of statsmodels" in text
    assert "different constants" in text
    intervals = str(compare_models(fits, alpha=0.2, show="interval"))
    assert "80 % intervals" in intervals
    assert intervals.count("[") > 8


def test_formats_hold_the_same(table):
    texts = [[str(cell.data) for cell in row] for row in table.tables[0]]
    lines = [line for line in table.to_markdown().split("\n") if line.startswith("|")]
    assert len(lines) == len(texts) + 1
    assert lines[1] == "| --- | ---: | ---: | ---: |"
    assert lines[3].split(" | ")[1] == texts[2][1].strip()
    assert "g[T.b]" in table.to_markdown()
    latex = [row for row in latex_lines(table.as_latex().split("Notes")[0]) if row]
    assert [row[1:] for row in latex if len(row) == 4][1:] == [[c.strip() for c in row[1:]] for row in texts[1:]]
    assert table.as_html().count("<tr>") >= len(texts)
    read = pd.read_csv(io.StringIO(table.as_csv()), index_col=[0, 1], keep_default_na=True)
    np.testing.assert_allclose(read.to_numpy(), table.frame.to_numpy(dtype=float), rtol=SAME)
    assert table.notes[0] in " ".join(str(table).split())


def test_names_with_any_character(frame):
    odd = frame.rename(columns={"x1": "=a|b_*<i>"})[["=a|b_*<i>", "x2"]]
    table = compare_models({"$1 & |2": BayesRidge(frame["y"], odd).fit()})
    assert r"=a\|b\_\*&lt;i>" in table.to_markdown()
    assert r"\$1 \& \textbar{}2" in table.as_latex()
    assert "=a|b_*&lt;i&gt;" in table.as_html()
    first = [row[0] for row in csv.reader(io.StringIO(table.as_csv()))]
    assert "'=a|b_*<i>" in first


def test_yes_no_responses_and_weights(frame):
    logit = smf.logit("event ~ x1 + x2", frame).fit(disp=0)
    ridge = BayesRidge.from_formula("event ~ x1 + x2", frame, family="binomial").fit()
    table = compare_models({"ridge": ridge, "Logit": logit})
    facts = table.frame.loc[""]
    assert facts.loc["LOO log score", "ridge"] == pytest.approx(ridge.loo_log_score, rel=SAME)
    assert "sigma" not in facts.index
    assert not any("cannot be compared" in note for note in table.notes)
    weighted = sm.WLS(frame["y"], sm.add_constant(frame[["x1"]]), weights=frame["w"]).fit()
    same = compare_models(
        {
            "WLS": weighted,
            "tenfold": sm.WLS(frame["y"], sm.add_constant(frame[["x1"]]), weights=10 * frame["w"]).fit(),
        }
    )
    np.testing.assert_allclose(*same.frame.loc[("", "sigma")].to_numpy(dtype=float), rtol=1e-9)


def test_other_rows_and_responses_have_a_note(frame, fits):
    fewer = BayesRidge.from_formula(FORMULA, frame[:40]).fit()
    notes = compare_models({"all": fits["ridge"], "fewer": fewer}).notes
    assert "The models are of different rows (all: 50, fewer: 40): their numbers cannot be compared." in notes
    other = smf.ols("np.exp(y) ~ x1", frame).fit()
    assert any("different responses" in note for note in compare_models({"a": fits["ridge"], "b": other}).notes)
    shuffled = BayesRidge.from_formula(FORMULA, frame.assign(y=frame["y"].to_numpy()[::-1])).fit()
    notes = compare_models({"a": fits["ridge"], "b": shuffled}).notes
    assert any("values of the response differ" in note for note in notes)
    assert not any("cannot be compared" in note for note in compare_models(fits).notes)


def test_other_families_and_frequency_weights_have_a_note(frame):
    counts = frame.assign(count=np.arange(len(frame)) % 5, twice=2.0)
    options = {"poisson": {"family": "poisson"}, "weighted": {"family": "poisson", "weights": "twice"},
               "dispersed": {"family": "negative-binomial", "dispersion": 0.1}, "gaussian": {},
               "precise": {"weights": "twice"}}  # fmt: skip
    fits = {name: BayesRidge.from_formula("count ~ x1", counts, **given) for name, given in options.items()}
    fits = {name: model.fit("fixed", lam=1.0) for name, model in fits.items()}
    told = {"weighted": "frequency weights differ", "dispersed": "", "gaussian": "different families"}
    for name, words in told.items():
        table = compare_models({"poisson": fits["poisson"], name: fits[name]})
        found = [note for note in table.notes if "cannot be compared" in note]
        assert len(found) == bool(words)
        assert words in "".join(found)
    same = compare_models({"gaussian": fits["gaussian"], "precise": fits["precise"]})
    assert not any("cannot be compared" in note for note in same.notes)


def test_fits_without_rows(frame):
    res = BayesRidge.from_formula(FORMULA, frame).fit()
    before = compare_models({"ridge": res}).frame
    res.remove_data()
    after = compare_models({"ridge": res}).frame
    assert ("", "LOO R-squared") in before.index
    assert ("", "LOO R-squared") not in after.index
    np.testing.assert_allclose(after, before.drop(("", "LOO R-squared")), rtol=1e-9)


def test_many_columns_are_cut_unless_named():
    rng = np.random.default_rng(0)
    x = pd.DataFrame(rng.normal(size=(100, 80)), columns=[f"c{j}" for j in range(80)])
    res = BayesRidge(3 * x["c7"] + rng.normal(size=100), x).fit()
    table = compare_models({"ridge": res})
    assert "c7" in cells(table)
    assert any(note.startswith("51 coefficients are omitted") for note in table.notes)
    assert len(table.frame.index.unique("term")) == 82
    some = compare_models({"ridge": res}, terms=["c3", "c1"])
    names = [row[0].data for row in some.tables[0]]
    assert [name for name in names if name.startswith("c")] == ["c3", "c1"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"fits": {}}, "at least one fit"),
        ({"fits": [1]}, r"the fit .\(1\). is int, neither results"),
        ({"fits": {"a": 3}}, "the fit 'a' is int, neither results"),
        ({"show": "se"}, "show must be 'sd' or 'interval'"),
        ({"alpha": 5}, "alpha must lie"),
        ({"terms": ["G[T.b]"]}, r"'G\[T.b\]' is not a coefficient of any of the fits: did you mean 'g\[T.b\]'"),
        ({"terms": []}, "terms is empty"),
    ],
)
def test_bad_input_is_refused(fits, change, message):
    arguments = {"fits": fits, **change}
    with pytest.raises(ValueError, match=message):
        compare_models(**arguments)


def test_pooled_fits_are_refused_as_such(frame):
    pooled = fit_imputed(
        [frame, frame], lambda one: BayesRidge.from_formula("y ~ x1 + x2", one).fit("fixed", lam=1.0)
    )
    with pytest.raises(ValueError, match="the fit 'pooled' is pooled over imputed data sets"):
        compare_models({"pooled": pooled})


def test_several_responses_are_refused(frame):
    res = BayesRidge(frame[["y", "w"]], frame[["x1"]]).fit()
    with pytest.raises(ValueError, match="the fit 'both' has several responses"):
        compare_models({"both": res})
    twice = sm.OLS(frame["y"], pd.DataFrame(frame[["x1", "x2"]].to_numpy(), columns=["x", "x"], index=frame.index))
    with pytest.raises(ValueError, match="several coefficients named 'x'"):
        compare_models({"OLS": twice.fit()})


@pytest.fixture(scope="module")
def splines(frame):
    formula = "y ~ bs(x1, df=4) + x2"
    return {
        "ridge": BayesRidge.from_formula(formula, frame).fit(),
        "patsy": smf.ols(formula, frame).fit(),
    }


def estimates(table):
    return table.frame.xs("estimate", level="value")


def test_splines_that_are_numbered_from_0_and_from_1_are_matched_by_their_columns(splines):
    """formulaic numbers the columns of bs() from 1, patsy from 0."""
    ridge, ols = splines["ridge"], splines["patsy"]
    assert ols.params.index[1] == "bs(x1, df=4)[0]"
    assert ridge.params.index[1] == "bs(x1, df=4)[1]"
    np.testing.assert_allclose(ridge.model.exog, ols.model.exog, atol=SAME)
    found = estimates(compare_models(splines))
    assert list(found.index) == list(ridge.params.index)
    np.testing.assert_allclose(found["ridge"], ridge.params, rtol=SAME)
    np.testing.assert_allclose(found["patsy"], ols.params, rtol=SAME)
    backwards = estimates(compare_models({name: splines[name] for name in ("patsy", "ridge")}))
    assert list(backwards.index) == list(ols.params.index)
    np.testing.assert_allclose(backwards["ridge"], ridge.params, rtol=SAME)


def test_numbered_columns_that_cannot_be_compared_are_not_matched(frame, splines):
    """Without the columns, or with other rows, nothing says which number of one library is which of the other."""
    removed = BayesRidge.from_formula("y ~ bs(x1, df=4) + x2", frame).fit()
    removed.remove_data()
    fewer = BayesRidge.from_formula("y ~ bs(x1, df=4) + x2", frame[:40]).fit()
    for other in (removed, fewer):
        found = estimates(compare_models({"ridge": other, "patsy": splines["patsy"]}))
        numbered = found[found.index.str.contains("bs")]
        assert numbered.isna().sum().sum() == len(numbered)
        assert len(numbered) == 8
        assert not found.loc[["Intercept", "x2"]].isna().to_numpy().any()
    own = estimates(compare_models({"all": splines["ridge"], "removed": removed}))
    assert not own.isna().to_numpy().any()


def test_columns_of_one_name_and_other_values_have_rows_of_their_own(frame):
    """Another reference level, another unit: the name says less than the column."""
    turned = frame.assign(g=pd.Categorical(frame["g"], ["b", "a"]), x2=frame["x2"] * 1000)
    third = frame.assign(g=np.where(np.arange(50) < 9, "c", frame["g"]))
    fits = {
        "a": BayesRidge.from_formula("y ~ x1 + x2 + g", frame).fit(),
        "b": BayesRidge.from_formula("y ~ x1 + x2 + g", turned).fit(),
        "c": BayesRidge.from_formula("y ~ g", third.assign(g=pd.Categorical(third["g"], ["c", "a", "b"]))).fit(),
    }
    table = compare_models(fits)
    found = estimates(table)
    assert not found.loc["x1", ["a", "b"]].isna().any()
    for name in ("a", "b"):
        own = found[name].dropna()
        np.testing.assert_allclose(own, fits[name].params, rtol=SAME)
    assert found.loc["x2"].notna().tolist() == [True, False, False]
    assert found.loc["x2 (b)"].notna().tolist() == [False, True, False]
    assert found.loc["g[T.b]"].notna().tolist() == [True, False, False]
    assert found.loc["g[T.b] (c)"].notna().tolist() == [False, False, True]
    told = next(note for note in table.notes if note.startswith("Columns of one name"))
    assert told.startswith("Columns of one name that differ between the models have rows of their own: 'x2',")


def test_sparse_columns_and_constants_are_compared(frame):
    sparse = pytest.importorskip("scipy.sparse")
    x = frame[["x1", "x2"]]
    fits = [
        BayesRidge(frame["y"], x).fit(),
        BayesRidge(frame["y"], sm.add_constant(x)).fit(),
        BayesRidge(frame["y"].to_numpy(), sparse.csr_matrix(x.to_numpy())).fit(),
        sm.OLS(frame["y"], sm.add_constant(x)).fit(),
    ]
    found = estimates(compare_models(fits))
    assert list(found.columns) == ["(1)", "(2)", "(3)", "(4)"]
    assert found.notna().sum().sum() == 12
    assert not found.loc["const"].isna().any()


def test_lists_of_fits_are_numbered(fits):
    given = [fits["ridge"], fits["selection"]]
    by_name = {"(1)": fits["ridge"], "(2)": fits["selection"]}
    pd.testing.assert_frame_equal(compare_models(given).frame, compare_models(by_name).frame)
    pd.testing.assert_frame_equal(compare_loo(tuple(given)), compare_loo(by_name))
    ridges = [fits["ridge"], fits["ridge"]]
    assert compare_evidence(ridges)["probability"].round(6).to_dict() == {"(1)": 0.5, "(2)": 0.5}
    for compare in (compare_models, compare_loo, compare_evidence):
        for nothing in ([], {}, None, fits["ridge"]):
            with pytest.raises(ValueError, match="fits must be a dict from names to results, or a list of results"):
                compare(nothing)
