"""Yes/no responses as numbers."""

import numpy as np
import pandas as pd
import pytest

from pybayesridge.families.binomial import check_both, code_response, proportions

CODED = [1.0, 0.0, 1.0, 0.0]
TEXT = ["yes", "no", "yes", "no"]


@pytest.mark.parametrize(
    ("endog", "event"),
    [
        ([1, 0, 1, 0], "1"),
        (np.array([True, False, True, False]), "1"),
        (pd.Series(TEXT), "yes"),
        (np.array(TEXT), "yes"),
        (np.array(TEXT, dtype=object), "yes"),
        (pd.DataFrame({"y": TEXT}), "yes"),
        (pd.Categorical(TEXT, categories=["no", "yes", "unused"]), "yes"),
        (pd.array([True, False, True, False], dtype="boolean"), "1"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_second_level_is_the_event(endog, event):
    coded = code_response(endog, None, counts=False)
    assert np.asarray(coded.values).tolist() == CODED
    assert coded.event == event


def test_series_of_polars():
    polars = pytest.importorskip("polars")
    coded = code_response(polars.Series("y", TEXT), None, counts=False)
    assert np.asarray(coded.values).tolist() == CODED


def test_the_order_of_a_categorical_counts():
    coded = code_response(pd.Categorical(TEXT, categories=["yes", "no"]), None, counts=False)
    assert (coded.event, coded.other) == ("no", "yes")
    assert np.asarray(coded.values).tolist() == [1 - value for value in CODED]


@pytest.mark.parametrize(
    ("endog", "event"),
    [(TEXT, "no"), ([1, 0, 1, 0], 0), ([1, 0, 1, 0], "0"), ([True, False, True, False], False), ([2, 1, 2, 1], 1)],
)
def test_event_chooses(endog, event):
    coded = code_response(np.array(endog), event, counts=False)
    assert np.asarray(coded.values).tolist() == [1 - value for value in CODED]


def test_missing_values_stay_missing():
    for endog in (pd.Series(["b", None, "a"]), pd.Series([1, None, 0], dtype="Int64"), np.array([1, np.nan, 0])):
        values = np.asarray(code_response(endog, None, counts=False).values)
        assert values[0] == 1
        assert np.isnan(values[1])


@pytest.mark.parametrize(
    ("endog", "event", "message"),
    [
        (["a", "b", "c"], None, r"endog has 3 levels \('a', 'b', 'c'\)"),
        (["a", "a"], None, "all responses are 'a': a binomial model needs both outcomes"),
        ([1, 1], None, "all responses are '1'"),
        ([0, 1, 2], None, "3 different values"),
        ([1, 2, 2], None, r"'1', '2'\), not 0 and 1: code it as 0 and 1, or pass event="),
        ([0.2, 0.5], None, "endog has fractions: pass the numbers of successes"),
        (["a", "b"], "c", "event must be one of 'a', 'b', not 'c'"),
        ([[1, 0], [0, 1]], None, "takes one response"),
        ([np.nan, np.nan], None, "endog has no value"),
    ],
)
def test_what_is_no_yes_no_response(endog, event, message):
    with pytest.raises(ValueError, match=message):
        code_response(np.array(endog), event, counts=False)


def test_counts():
    assert code_response([2, 0], None, counts=True).event == "success"
    with pytest.raises(ValueError, match="event chooses between the levels"):
        code_response([2, 0], 1, counts=True)
    with pytest.raises(ValueError, match="the number of successes of each row"):
        code_response(np.array(["a", "b"]), None, counts=True)
    labels = pd.Index(["r", "s", "t", "u"])
    assert proportions(np.array([1.0, 3.0]), np.array([2.0, 3.0]), labels[:2]).tolist() == [0.5, 1.0]
    for bad in ([0.5, 1, 1, 1], [-1, 1, 1, 1], [3, 1, 1, 1]):
        with pytest.raises(ValueError, match=r"not so in row\(s\) 'r'"):
            proportions(np.array(bad, dtype=float), np.full(4, 2.0), labels)


def test_one_outcome_only():
    response = code_response(["no", "yes"], None, counts=False)
    with pytest.raises(ValueError, match="all responses are 'yes'"):
        check_both(np.ones(3), response.event, response.other)
    with pytest.raises(ValueError, match="all responses are 'no'"):
        check_both(np.zeros(3), response.event, response.other)
