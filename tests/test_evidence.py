"""Comparison of fits by their evidence: what is comparable, and the table."""

import numpy as np
import pandas as pd
import pytest

from pybayesridge import BayesRidge, SpikeSlab, compare_evidence

EQUAL = 1e-12


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(3)
    out = pd.DataFrame(rng.standard_normal((40, 3)), columns=["a", "b", "c"])
    out["y"] = out["a"] + 0.3 * rng.standard_normal(40)
    out["z"] = out["b"] + rng.standard_normal(40)
    out["event"] = (out["a"] + rng.standard_normal(40) > 0).astype(int)
    return out


def test_ridges_by_their_log_marginal_likelihood(frame):
    fits = {terms: BayesRidge.from_formula(f"y ~ {terms}", frame).fit("exact") for terms in ("b + c", "a", "a + b")}
    table = compare_evidence(fits)
    assert list(table.columns) == ["log_evidence", "difference", "probability", "df_model", "converged"]
    assert table.index[-1] == "b + c"
    assert table["log_evidence"].to_dict() == {name: fit.log_marginal for name, fit in fits.items()}
    assert table["probability"].sum() == pytest.approx(1.0, rel=EQUAL)
    odds = np.exp(fits["a"].log_marginal - fits["a + b"].log_marginal)
    assert table.loc["a", "probability"] / table.loc["a + b", "probability"] == pytest.approx(odds, rel=1e-9)


def test_methods_that_integrate_the_penalty_out_have_the_same_evidence(frame):
    model = BayesRidge.from_formula("y ~ a + b + c", frame)
    table = compare_evidence({method: model.fit(method) for method in ("exact", "em", "loocv")})
    assert np.ptp(table["log_evidence"]) < 1e-6


def test_ridges_of_yes_no_responses(frame):
    fits = {name: BayesRidge.from_formula(f"event ~ {name}", frame, family="binomial").fit() for name in ("a", "c")}
    table = compare_evidence(fits)
    assert table.index[0] == "a"
    assert table["log_evidence"].to_dict() == {name: fit.log_marginal for name, fit in fits.items()}


def ridge(frame, formula="y ~ a", fit=(), **given):
    return BayesRidge.from_formula(formula, frame, **given).fit(*fit)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda frame: SpikeSlab.from_formula("y ~ a", frame).fit(), "different constants"),
        (lambda frame: ridge(frame, "z ~ a"), "another response"),
        (lambda frame: ridge(frame.iloc[1:]), "another response"),
        (lambda frame: ridge(frame, "y ~ a + b", unpenalized=["b"]), "another response"),
        (lambda frame: BayesRidge.from_formula("y ~ a", frame).fit("fixed", lam=1.0), "whether the penalty is given"),
        (lambda frame: ridge(frame, sigma2=1.0), "whether the noise variance is known"),
        (lambda frame: ridge(frame, "event ~ a", family="binomial"), "family, link or flat_in"),
        (lambda frame: BayesRidge(frame[["y", "z"]], frame[["a"]]).fit(), "several"),
        (lambda frame: 1, "not results"),
    ],
)
def test_what_is_not_comparable_says_why(frame, make, message):
    with pytest.raises(ValueError, match=message):
        compare_evidence({"one": ridge(frame), "other": make(frame)})


def test_links_and_unpenalised_columns_of_yes_no_responses(frame):
    one = ridge(frame, "event ~ a", family="binomial")
    with pytest.raises(ValueError, match="family, link or flat_in"):
        compare_evidence({"one": one, "other": ridge(frame, "event ~ a", family="binomial", link="probit")})
    with pytest.raises(ValueError, match="other unpenalised columns"):
        compare_evidence({"one": one, "other": ridge(frame, "event ~ a + b", family="binomial", unpenalized=["b"])})


def test_the_name_of_a_response_is_no_list_of_letters(frame):
    """A name of several letters was taken for several targets."""
    named = frame.rename(columns={"y": "income"})
    fits = {name: BayesRidge.from_formula(f"income ~ {name}", named).fit() for name in ("a", "b")}
    single = {name: BayesRidge.from_formula(f"y ~ {name}", frame).fit() for name in ("a", "b")}
    pd.testing.assert_frame_equal(compare_evidence(fits), compare_evidence(single))
