"""Results in the regression tables of the package maketables, by its plug-in attributes."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

from pybayesridge import BayesRidge, SpikeSlab

SAME = 1e-12
"""Numbers that are copied."""

LAYOUT = "b:.4f \n (se:.4f) \n [ci95l:.4f, ci95u:.4f]"


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    out = pd.DataFrame(rng.normal(size=(60, 2)), columns=["x1", "x2"])
    out["g"] = rng.choice(["a", "b"], 60)
    out["y"] = 3 * out["x1"] + rng.normal(size=60)
    out["y2"] = rng.normal(size=60)
    out["event"] = (out["y"] + rng.normal(size=60) > 0).astype(int)
    return out


@pytest.fixture(scope="module")
def fits(frame):
    models = {"ridge": BayesRidge, "selection": SpikeSlab}
    out = {name: model.from_formula("y ~ x1 + x2 + g", frame).fit() for name, model in models.items()}
    for name, model in models.items():
        out[f"binary {name}"] = model.from_formula("event ~ x1 + x2 + g", frame, family="binomial").fit()
    return out


NAMES = ["ridge", "selection", "binary ridge", "binary selection"]


@pytest.mark.every_case
@pytest.mark.parametrize("name", NAMES)
def test_table_of_coefficients_is_that_of_the_fit(fits, name):
    res = fits[name]
    table = res.__maketables_coef_table__
    assert list(table.index) == list(res.params.index)
    wanted = {
        "b": res.params,
        "se": res.bse,
        "prob_positive": res.prob_positive,
        "prob_zero": getattr(res, "prob_zero", np.nan),
    }
    for level, alpha in ((95, 0.05), (90, 0.1)):
        interval = res.conf_int(alpha).to_numpy()
        wanted |= {f"ci{level}l": interval[:, 0], f"ci{level}u": interval[:, 1]}
    for column, values in wanted.items():
        np.testing.assert_allclose(table[column], values, rtol=SAME, err_msg=column)
    if "selection" in name:
        np.testing.assert_allclose(table["inclusion_prob"], res.inclusion_prob, rtol=SAME)
    else:
        assert table["inclusion_prob"].isna().all()


@pytest.mark.every_case
@pytest.mark.parametrize("name", NAMES)
def test_nothing_of_tests_is_invented(fits, name):
    table = fits[name].__maketables_coef_table__
    assert table[["t", "p"]].isna().all(axis=None)
    for key in ("aic", "bic", "ll", "adj_r2", "pseudo_r2", "fvalue", "f_pvalue", "unheard of"):
        assert fits[name].__maketables_stat__(key) is None


def test_statistics(fits):
    ridge, selection, binary = fits["ridge"], fits["selection"], fits["binary ridge"]
    assert ridge.__maketables_stat__("N") == 60
    for res, key, wanted in (
        (ridge, "r2", ridge.rsquared),
        (ridge, "sigma", np.sqrt(ridge.sigma2)),
        (ridge, "loo_r2", ridge.loo_rsquared),
        (ridge, "log_marginal", ridge.log_marginal),
        (ridge, "df_model", ridge.df_model),
        (selection, "log_evidence", selection.log_evidence),
        (selection, "expected_size", selection.expected_size),
        (binary, "loo_log_score", binary.loo_log_score),
    ):
        np.testing.assert_allclose(res.__maketables_stat__(key), wanted, rtol=SAME, err_msg=key)
    assert ridge.__maketables_stat__("se_type") == "posterior SD"
    assert ridge.__maketables_stat__("log_evidence") is None
    assert selection.__maketables_stat__("log_marginal") is None
    assert binary.__maketables_stat__("sigma") is None


def test_results_without_data_keep_their_table(frame):
    res = BayesRidge.from_formula("y ~ x1 + g", frame).fit()
    wanted = res.__maketables_coef_table__
    res.remove_data()
    pd.testing.assert_frame_equal(res.__maketables_coef_table__, wanted)
    assert res.__maketables_stat__("loo_r2") is None
    assert res.__maketables_stat__("N") == 60


def test_several_responses_are_refused(frame):
    res = BayesRidge.from_formula("y + y2 ~ x1 + x2", frame).fit()
    with pytest.raises(ValueError, match="fit the responses one by one"):
        _ = res.__maketables_coef_table__


def cells(table, row):
    return table.df.loc[("coef", row)].tolist()


@pytest.mark.every_case
@pytest.mark.parametrize("name", NAMES)
def test_regression_table(fits, name):
    maketables = pytest.importorskip("maketables")
    res = fits[name]
    table = maketables.ETable(res, coef_fmt=LAYOUT)
    low, high = res.conf_int().loc["x1"]
    (shown,) = cells(table, "x1")
    assert f"{res.params['x1']:.4f}" in shown
    assert f"({res.bse['x1']:.4f})" in shown
    assert f"[{low:.4f}, {high:.4f}]" in shown
    assert table.df.loc[("stats", "Observations")].tolist() == ["60"]
    assert table.df.columns.get_level_values(0)[0] == ("event" if "binary" in name else "y")


def test_no_stars_beside_a_model_with_stars(fits, frame):
    maketables = pytest.importorskip("maketables")
    table = maketables.ETable([fits["ridge"], smf.ols("y ~ x1 + x2 + g", frame).fit(), fits["selection"]])
    stars = ["*" in cell for cell in cells(table, "x1")]
    assert stars == [False, True, False]
    shown = table.df.loc[("stats", "Effective df")].tolist()
    assert [shown[0], shown[2]] == [f"{fits[name].df_model:.3f}" for name in ("ridge", "selection")]


def test_inclusion_probabilities_in_a_table(fits):
    maketables = pytest.importorskip("maketables")
    table = maketables.ETable([fits["ridge"], fits["selection"]], coef_fmt="b:.3f \n inclusion_prob:.3f")
    ridge, selection = cells(table, "x2")
    assert ridge.endswith("-")
    assert selection.endswith(f"{fits['selection'].inclusion_prob['x2']:.3f}")


def test_other_formats(fits):
    maketables = pytest.importorskip("maketables")
    table = maketables.ETable([fits["ridge"]], notes="Posterior standard deviations in parentheses.")
    assert "Posterior standard deviations" in table.make(type="tex")
