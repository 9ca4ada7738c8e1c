"""Tables and notes of summaries: escaped names, long tables, notes."""

import numpy as np
import pandas as pd
import pytest

from pybayesridge import BayesRidge
from tests.problems import regression


def test_summary_of_names_that_html_and_latex_must_escape():
    y, x = regression(30, 2)
    names = ["a_b & c", "x<1>%"]
    summary = BayesRidge(y, pd.DataFrame(x, columns=names)).fit().summary()
    for name in names:
        assert name in str(summary)
    assert "x&lt;1&gt;%" in summary.as_html()
    assert "<1>" not in summary.as_html()
    assert r"a\_b \& c" in summary.as_latex()


def test_long_tables_show_the_largest_coefficients():
    y, x = regression(80, 70, noise=0.3)
    res = BayesRidge(y, x, unpenalized=["x7"]).fit()
    text = str(res.summary())
    size = (res.params.iloc[1:] * x.std(axis=0)).abs().drop("x7").sort_values(ascending=False)
    rows = [line.split()[0] for line in text.splitlines() if line.split()[:1] and line.split()[0] in res.params.index]
    assert rows[:2] == ["const", "x7"]
    assert rows[2:] == list(size.index[:28])
    assert "The 41 smallest standardised coefficients are omitted" in " ".join(text.split())


def test_effects_of_groups_and_curves_come_after_all_others():
    generator = np.random.default_rng(0)
    data = pd.DataFrame(generator.normal(size=(280, 3)), columns=["x", "z", "t"])
    data["g"] = np.arange(280) % 70
    data["y"] = (
        0.5 * data.x
        - 0.5 * data.z
        + np.sin(3 * data["t"])
        + 3 * generator.normal(size=70)[data.g]
        + generator.normal(size=280)
    )
    res = BayesRidge.from_formula("y ~ x + z + s(t, k=5) + (1 | g)", data).fit("reml")
    text = str(res.summary())
    rows = [line.split()[0] for line in text.splitlines() if line.split()[:1] and line.split()[0] in res.params.index]
    assert set(rows[:4]) == {"Intercept", "s(t).line", "x", "z"}
    assert len(rows) == 30
    assert all(name.startswith(("g[", "s(t).")) for name in rows[4:])
    assert "coefficients are omitted, effects of groups and curves first" in " ".join(text.split())


@pytest.mark.parametrize(("p", "long"), [(59, False), (60, True)])
def test_tables_are_cut_from_more_than_sixty_coefficients_on(p, long):
    y, x = regression(100, p)
    text = str(BayesRidge(y, x).fit().summary())
    assert ("omitted" in text) == long
    rows = [line for line in text.splitlines() if line.startswith("x") and line.split()[0][1:].isdigit()]
    assert len(rows) == (29 if long else p)


def test_long_table_without_standardisation_counts_in_standard_deviations():
    y, x = regression(90, 70, noise=0.3)
    res = BayesRidge(y, x, standardize=False).fit()
    size = (res.params.iloc[1:] * x.std(axis=0)).abs().sort_values(ascending=False)
    text = str(res.summary())
    rows = [line.split()[0] for line in text.splitlines() if line.split()[:1] and line.split()[0] in res.params.index]
    assert rows[1:] == list(size.index[:29])


def test_notes():
    y, x = regression(40, 3)
    frame = pd.DataFrame(x, columns=["a", "b", "c"]).assign(flat=2.0, one=1.0)
    frame.iloc[4, 0] = np.nan
    res = BayesRidge(y, frame, missing="drop", standardize=False).fit(method="fixed", lam=2.0)
    notes = res.notes
    assert len(notes) == 4
    assert "sigma is integrated out" in notes[0]
    assert "the original columns" in notes[0]
    assert notes[1] == "Constant column(s), coefficient 0: 'flat'."
    assert notes[2] == "The column 'one' serves as the intercept."
    assert notes[3] == "1 row(s) with missing values were left out."
    text = " ".join(str(res.summary()).split())
    for i, note in enumerate(notes, 1):
        assert f"[{i}] {note}" in text
    known = BayesRidge(y, x, sigma2=2.0).fit()
    assert "sigma is known" in known.notes[0]


def test_unpenalised_constant_column_is_noted():
    y, x = regression(40, 3, noise=0.2)
    frame = pd.DataFrame(x, columns=["a", "b", "c"]).assign(flat=2.0, one=1.0)
    res = BayesRidge(y, frame, unpenalized=["flat", "a"]).fit()
    assert res.params["flat"] == 0
    assert "Constant column(s), coefficient 0: 'flat'." in res.notes
