"""Fits with a row without which there is no prediction: every output says so in the same words."""

import json
import re

import numpy as np
import pandas as pd
import pytest

from pybayesridge import BayesRidge, compare_loo, compare_models, load
from pybayesridge.cli import main

N = 24
REASONS = {
    "binomial": "without it all responses are non-events",
    "poisson": "without it all counts are 0",
    "ordinal": "without it a category does not occur",
}


def rows(family):
    """The row named r5 is needed."""
    only = np.arange(N) == 5
    y = np.where(only, 0, 1 + np.arange(N) % 2) if family == "ordinal" else only.astype(int)
    x = np.random.default_rng(0).normal(size=(N, 2))
    return pd.DataFrame({"y": y, "a": x[:, 0], "b": x[:, 1]}, index=[f"r{i}" for i in range(N)])


def fitted(family):
    return BayesRidge.from_formula("y ~ a + b", rows(family), family=family).fit("laplace")


def words(text):
    return " ".join(str(text).split())


@pytest.mark.parametrize("family", sorted(REASONS))
def test_outputs_say_why(family, tmp_path):
    res, reason = fitted(family), f"row 'r5' has no leave-one-out density: {REASONS[family]}"
    sentence = f"There is no leave-one-out predictive score: {reason}."
    found = [each.text for each in res.findings if each.code == "no-loo-score"]
    assert len(found) == 1
    assert found[0].startswith(sentence)
    assert (found[0] == sentence) == (family == "ordinal")
    assert sentence in words(res.summary()).replace("leave- one", "leave-one")
    assert f"Model '(1)': t{sentence[1:]}" in compare_models([res]).notes
    with pytest.raises(ValueError, match=r"model '\(1\)' has no leave-one-out predictive score: row 'r5' has"):
        compare_loo([res, res])
    with pytest.raises(ValueError, match=reason):
        res.loo()
    res.save(tmp_path / "fit", remove_data=True)
    assert load(tmp_path / "fit").notes == res.notes


@pytest.mark.parametrize("family", sorted(REASONS))
def test_the_command_line_says_why(family, tmp_path, capsys):
    rows(family).to_csv(tmp_path / "rows.csv", index=False)
    given = ["ridge", "y ~ a + b", str(tmp_path / "rows.csv"), "--family", family, "--method", "laplace"]
    assert main([*given, "--json"]) == 0
    out = json.loads(capsys.readouterr().out)
    assert out["targets"][0]["loo_log_score"] is None
    assert REASONS[family] in " ".join(out["notes"])


def test_the_report_says_why(tmp_path):
    pytest.importorskip("jinja2")
    pytest.importorskip("matplotlib")
    text = fitted("binomial").report(tmp_path / "out.html").read_text(encoding="utf-8")
    assert f"row &#39;r5&#39; has no leave-one-out density: {REASONS['binomial']}" in text
    assert "log score -inf" not in text


def test_a_fit_with_a_score_says_nothing():
    frame = rows("binomial").assign(y=np.arange(N) % 2)
    res = BayesRidge.from_formula("y ~ a + b", frame, family="binomial").fit("laplace")
    assert "no-loo-score" not in [found.code for found in res.findings]
    assert res.no_loo_score == ""


def test_the_report_of_ordered_categories_counts_no_cut_point_among_the_coefficients(tmp_path):
    pytest.importorskip("jinja2")
    pytest.importorskip("matplotlib")
    res = fitted("ordinal")
    text = " ".join(res.report(tmp_path / "out.html").read_text(encoding="utf-8").split())
    found = re.search(r"the 2 penalised coefficients have ([0-9.−-]+) effective degrees of freedom", text)
    assert found is not None
    assert float(found[1].replace("−", "-")) == pytest.approx(res.df_model, rel=1e-3)


def test_numbers_of_rows_are_shown_as_numbers():
    frame = rows("binomial").set_index(pd.Index(np.arange(N) + 7))
    with pytest.raises(ValueError, match="row 12 has no leave-one-out density"):
        BayesRidge.from_formula("y ~ a + b", frame, family="binomial").fit("laplace").loo()
