"""Bad input ends in a ValueError that says what is wrong and where."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from pybayesridge import BayesRidge, cli

N = 12

SAME = 1e-10
"""The same fit of the same numbers."""


@pytest.fixture
def y():
    return np.random.default_rng(0).normal(size=N) + np.arange(N)


@pytest.fixture
def x():
    return np.random.default_rng(1).normal(size=(N, 3)) + np.arange(N)[:, None]


@pytest.fixture
def frame(x):
    return pd.DataFrame(x, columns=["age", "bmi", "bp"])


def spoiled(a, value, *where):
    out = np.array(a, dtype=np.result_type(a, type(value)))
    for at in where:
        out[at] = value
    return out


@pytest.mark.parametrize(
    ("value", "kind"), [(np.nan, "NaN"), (np.inf, "infinite"), (-np.inf, "infinite")], ids=["nan", "inf", "-inf"]
)
def test_not_finite(value, kind, x, y, frame):
    bad = spoiled(x, value, (2, 1), (3, 1), (5, 2))
    with pytest.raises(ValueError, match=rf"exog .*column\(s\) 'x2' \(2 {kind}\), 'x3' \(1 {kind}\)"):
        BayesRidge(y, bad)
    with pytest.raises(ValueError, match=rf"exog .*column\(s\) 'bmi' \(2 {kind}\), 'bp' \(1 {kind}\)"):
        BayesRidge(y, pd.DataFrame(bad, columns=frame.columns))
    with pytest.raises(ValueError, match=rf"exog .*column\(s\) 'x2' \(2 {kind}\)"):
        BayesRidge(y, bad.astype(np.float32))
    with pytest.raises(ValueError, match=rf"endog .*column\(s\) 'y' \(1 {kind}\)"):
        BayesRidge(spoiled(y, value, 3), x)
    with pytest.raises(ValueError, match=rf"endog .*column\(s\) 'y2' \(1 {kind}\)"):
        BayesRidge(np.column_stack([y, spoiled(y, value, 3)]), x)
    with pytest.raises(ValueError, match=rf"endog .*column\(s\) 'weight' \(1 {kind}\)"):
        BayesRidge(pd.Series(spoiled(y, value, 3), name="weight"), x)


def test_nan_and_infinity_are_counted_apart(x, y):
    bad = spoiled(spoiled(x, np.nan, (0, 0)), np.inf, (1, 0), (2, 0))
    with pytest.raises(ValueError, match=r"'x1' \(1 NaN and 2 infinite\)"):
        BayesRidge(y, bad)


def test_many_bad_columns_are_cut_short(y):
    with pytest.raises(ValueError, match=r"'x1' \(12 NaN\).*'x5' \(12 NaN\) and 15 more"):
        BayesRidge(y, np.full((N, 20), np.nan))


def test_infinities_are_not_dropped_as_missing(x, y):
    with pytest.raises(ValueError, match="infinite"):
        BayesRidge(y, spoiled(x, np.inf, (0, 0)), missing="drop")


def test_large_finite_values_are_not_taken_for_infinities(x, y):
    plain = BayesRidge(y, x).fit()
    for unit in (1e-200, 1e200, 1e306):
        res = BayesRidge(y, x * unit).fit()
        np.testing.assert_allclose(res.fittedvalues, plain.fittedvalues, rtol=1e-9)


def test_missing_rows_are_dropped_when_asked(x, y):
    w = np.linspace(1, 2, N)
    labels = pd.Index([f"r{i}" for i in range(N)])
    bad_x = pd.DataFrame(spoiled(x, np.nan, (2, 1), (3, 0)), index=labels)
    bad_y = pd.Series(spoiled(y, np.nan, 5), index=labels)
    res = BayesRidge(bad_y, bad_x, weights=spoiled(w, np.nan, 7), missing="drop").fit()
    keep = np.delete(np.arange(N), [2, 3, 5, 7])
    plain = BayesRidge(y[keep], x[keep], weights=w[keep]).fit()
    np.testing.assert_allclose(res.params, plain.params, rtol=1e-12)
    assert list(res.fittedvalues.index) == list(labels[keep])
    assert res.nobs == N - 4
    assert "4 row(s) with missing values were left out" in str(res.summary())
    with pytest.raises(ValueError, match="every row has a missing value"):
        BayesRidge(np.full(N, np.nan), x, missing="drop")


@pytest.mark.parametrize("value", [None, pd.NA])
def test_missing_in_objects_and_nullable_columns(value, x, y):
    column = pd.array([1, 2, value, *range(3, N)], dtype="Int64")
    frame = pd.DataFrame({"a": x[:, 0], "b": column})
    with pytest.raises(ValueError, match=r"'b' \(1 NaN\)"):
        BayesRidge(y, frame)
    assert BayesRidge(y, frame, missing="drop").nobs == N - 1


@pytest.mark.parametrize("dtype", [object, "string", "category", "str", "datetime64[ns]", "timedelta64[ns]"])
def test_columns_that_are_not_numeric(dtype, y, frame):
    values = ["1", "2"] * (N // 2) if dtype in (object, "string", "category", "str") else np.arange(N)
    frame["group"] = pd.Series(values).astype(dtype)
    with pytest.raises(ValueError, match=r"exog column\(s\) 'group' are not numeric: .*from_formula"):
        BayesRidge(y, frame)


def test_objects_in_arrays(x, y):
    numbers = x.astype(object)
    np.testing.assert_allclose(BayesRidge(y, numbers).fit().params, BayesRidge(y, x).fit().params, rtol=SAME)
    strings = numbers.copy()
    strings[4, 1] = "four"
    with pytest.raises(ValueError, match="exog column 1 holds strings: use from_formula"):
        BayesRidge(y, strings)
    other = numbers.copy()
    other[4, 2] = {}
    with pytest.raises(ValueError, match="exog column 2 has values that are not numbers"):
        BayesRidge(y, other)
    with pytest.raises(ValueError, match="endog"):
        BayesRidge(np.array(["a"] * N), x)
    with pytest.raises(ValueError, match="endog"):
        BayesRidge(["a"] * N, x)
    with pytest.raises(ValueError, match="exog has dtype <U"):
        BayesRidge(y, x.astype(str))


def test_complex_numbers(x, y, frame):
    with pytest.raises(ValueError, match="exog has dtype complex128, which is not real"):
        BayesRidge(y, x + 1j)
    with pytest.raises(ValueError, match="endog has dtype complex128, which is not real"):
        BayesRidge(y + 0j, x)
    with pytest.raises(ValueError, match=r"exog column\(s\) 'z' are not numeric"):
        BayesRidge(y, frame.assign(z=1j))


@pytest.mark.parametrize("shape", [(N, 3, 1), (2, N, 3)])
def test_too_many_dimensions(shape, y):
    with pytest.raises(ValueError, match="exog must have one or two dimensions, got 3"):
        BayesRidge(y, np.zeros(shape))
    with pytest.raises(ValueError, match="endog must have one or two dimensions, got 3"):
        BayesRidge(np.zeros((N, 1, 1)), np.zeros((N, 2)))


@pytest.mark.parametrize("scalar", [1.0, None])
def test_scalars_are_no_data(scalar, x, y):
    with pytest.raises(ValueError, match=r"exog .*"):
        BayesRidge(y, scalar)
    with pytest.raises(ValueError, match=r"endog .*"):
        BayesRidge(scalar, x)


def test_ragged_lists(y):
    with pytest.raises(ValueError, match="exog"):
        BayesRidge(y, [[1.0, 2.0]] * (N - 1) + [[1.0]])


def test_lengths_that_differ(x, y):
    with pytest.raises(ValueError, match="endog has 11 rows and exog has 12"):
        BayesRidge(y[:-1], x)
    with pytest.raises(ValueError, match="weights has 11 entries for 12 rows"):
        BayesRidge(y, x, weights=np.ones(N - 1))
    with pytest.raises(ValueError, match="weights must have one column, got 2"):
        BayesRidge(y, x, weights=np.ones((N, 2)))


def test_row_labels_that_differ(x, y):
    with pytest.raises(ValueError, match="row labels of endog and exog differ"):
        BayesRidge(pd.Series(y), pd.DataFrame(x, index=range(1, N + 1)))
    with pytest.raises(ValueError, match="row labels"):
        BayesRidge(pd.Series(y), pd.DataFrame(x), weights=pd.Series(np.ones(N), index=range(N)[::-1]))


def test_duplicate_names(x, y):
    with pytest.raises(ValueError, match=r"duplicate column name\(s\) 'a' in exog"):
        BayesRidge(y, pd.DataFrame(x, columns=["a", "b", "a"]))
    with pytest.raises(ValueError, match=r"duplicate column name\(s\) '1' in exog"):
        BayesRidge(y, pd.DataFrame(x, columns=[1, "1", "a"]))
    with pytest.raises(ValueError, match=r"duplicate column name\(s\).*endog"):
        BayesRidge(pd.DataFrame({0: y, 1: y}).set_axis(["u", "u"], axis=1), x)


def test_no_rows(x, y):
    with pytest.raises(ValueError, match="there are no rows"):
        BayesRidge(y[:0], x[:0])
    with pytest.raises(ValueError, match="there are no rows"):
        BayesRidge.from_formula("y ~ a", pd.DataFrame({"y": y, "a": y}).iloc[:0])
    with pytest.raises(ValueError, match=r"no rows|nothing"):
        BayesRidge.from_formula("y ~ a", pd.DataFrame({"y": y, "a": y}), subset=np.zeros(N, dtype=bool))
    with pytest.raises(ValueError, match="endog must have at least one column"):
        BayesRidge(np.empty((N, 0)), x)


@pytest.mark.parametrize("bad", [0.0, -1.0, np.inf, -np.inf])
def test_weights_that_are_no_weights(bad, x, y):
    weights = spoiled(np.ones(N), bad, 4, 7)
    with pytest.raises(ValueError, match=r"weights must be positive and finite, but those of row\(s\) 4, 7 are not"):
        BayesRidge(y, x, weights=weights)
    labels = [f"r{i}" for i in range(N)]
    with pytest.raises(ValueError, match=r"row\(s\) 'r4', 'r7' are not"):
        BayesRidge(pd.Series(y, index=labels), x, weights=weights)
    data = pd.DataFrame({"y": y, "a": x[:, 0], "w": weights}, index=labels)
    with pytest.raises(ValueError, match=r"row\(s\) 'r4', 'r7' are not"):
        BayesRidge.from_formula("y ~ a", data, weights="w")


def test_missing_weights(x, y):
    weights = spoiled(np.ones(N), np.nan, 4)
    with pytest.raises(ValueError, match=r"weights must be positive and finite, but those of row\(s\) 4 are not"):
        BayesRidge(y, x, weights=weights)
    data = pd.DataFrame({"y": y, "a": x[:, 0], "w": weights})
    with pytest.raises(ValueError, match=r"missing values in 'weights' \(1\)"):
        BayesRidge.from_formula("y ~ a", data, weights="w", missing="raise")


@pytest.mark.parametrize("weights", ["w", ["a"] * N, np.full(N, 1j)])
def test_weights_that_are_no_numbers(weights, x, y):
    with pytest.raises(ValueError, match="weights"):
        BayesRidge(y, x, weights=weights)


def test_weights_of_a_formula(x, y):
    data = pd.DataFrame({"y": y, "a": x[:, 0], "g": ["u", "v"] * (N // 2)})
    with pytest.raises(ValueError, match="weights names 'w', which is not a column"):
        BayesRidge.from_formula("y ~ a", data, weights="w")
    with pytest.raises(ValueError, match="weights has 3 entries for 12 rows"):
        BayesRidge.from_formula("y ~ a", data, weights=[1, 2, 3])
    with pytest.raises(ValueError, match=r"weights.*'g'|'g'.*weights|weights.*numeric|weights.*number"):
        BayesRidge.from_formula("y ~ a", data, weights="g")


@pytest.mark.parametrize(
    ("unpenalized", "message"),
    [
        ("ages", r"unpenalized names 'ages', which is not a column of exog: did you mean 'age'\?"),
        (["age", "x"], "unpenalized names 'x', which is not a column of exog; there are 'age', 'bmi', 'bp'"),
        (3, "unpenalized position 3 is out of range: exog has 3 columns"),
        ([-4], "unpenalized position -4 is out of range"),
        ([True, False, False], "not a mask"),
        (np.array([True, False, False]), "not a mask"),
        (1.5, "unpenalized"),
        ([1.5], "unpenalized names 1.5"),
        ([None], "unpenalized names None"),
    ],
)
def test_unknown_columns_in_unpenalized(unpenalized, message, y, frame):
    with pytest.raises(ValueError, match=message):
        BayesRidge(y, frame, unpenalized=unpenalized)


def test_unknown_terms_in_unpenalized(y, frame):
    with pytest.raises(ValueError, match=r"unpenalized names 'bmi'.*'age'"):
        BayesRidge.from_formula("y ~ age", frame.assign(y=y), unpenalized="bmi")


@pytest.mark.parametrize(
    "options",
    [
        {"method": "bayes"},
        {"tol": 0},
        {"tol": -1e-8},
        {"tol": np.nan},
        {"tol": "small"},
        {"maxiter": 0},
        {"maxiter": -1},
        {"maxiter": 2.5},
        {"maxiter": True},
        {"lam": 1.0},
        {"dof": "n"},
        {"parameterization": "lambda"},
        {"method": "fixed"},
        {"method": "fixed", "lam": -1.0},
        {"method": "fixed", "lam": np.nan},
        {"method": "fixed", "lam": np.inf},
        {"method": "fixed", "lam": "one"},
        {"method": "fixed", "lam": [1.0, 2.0]},
        {"method": "fixed", "lam": 1.0, "dof": 3},
    ],
    ids=str,
)
def test_arguments_of_fit(options, x, y):
    name = "lam" if options == {"method": "fixed"} else list(options)[-1]
    with pytest.raises(ValueError, match=rf"\b{name}\b"):
        BayesRidge(y, x).fit(**options)


@pytest.mark.parametrize(
    "options",
    [
        {"prior": 0.5},
        {"prior": (0.5,)},
        {"prior": (0.5, 0.5, 0.5, 0.5)},
        {"prior": (0.0, 0.5)},
        {"prior": (0.5, -1)},
        {"prior": (0.5, np.nan)},
        {"prior": ("a", "b")},
        {"prior": None},
        {"sigma2": 0.0},
        {"sigma2": -1.0},
        {"sigma2": np.nan},
        {"sigma2": np.inf},
        {"sigma2": "one"},
        {"sigma2": [1.0, 2.0]},
        {"missing": "ignore"},
        {"missing": None},
        {"intercept": "yes"},
        {"intercept": 1},
        {"standardize": None},
    ],
    ids=str,
)
def test_arguments_of_the_model(options, x, y):
    name = next(iter(options))
    with pytest.raises(ValueError, match=rf"\b{name}\b"):
        BayesRidge(y, x, **options)


@pytest.mark.parametrize("alpha", [0, 1, -0.1, 2, np.nan])
def test_alpha(alpha, x, y):
    res = BayesRidge(y, x).fit()
    for call in (res.conf_int, res.summary, res.get_prediction(x).summary_frame):
        with pytest.raises(ValueError, match="alpha must lie between 0 and 1"):
            call(alpha=alpha)


def test_alpha_that_is_no_number(x, y):
    with pytest.raises(ValueError, match="alpha"):
        BayesRidge(y, x).fit().conf_int("0.05")


@pytest.mark.parametrize("call", ["predict", "get_prediction"])
def test_new_rows_of_the_wrong_shape(call, x, y, frame):
    res = getattr(BayesRidge(y, x).fit(), call)
    for wrong in (x[:, :2], np.ones((4, 5)), np.ones(5), [[1.0]], np.ones((0, 2)), frame[["age", "bmi"]], 3.0):
        with pytest.raises(ValueError, match=r"exog|column"):
            res(wrong)
    with pytest.raises(ValueError, match="dimensions, got 3"):
        res(np.ones((2, 3, 1)))
    with pytest.raises(ValueError, match="complex"):
        res(x + 1j)
    named = getattr(BayesRidge(y, frame).fit(), call)
    with pytest.raises(ValueError, match=r"exog lacks the column\(s\) 'bp' of the fit"):
        named(frame[["age", "bmi"]])
    with pytest.raises(ValueError, match=r"exog lacks the column\(s\) 'bp'"):
        named(frame.rename(columns={"bp": "pressure"}))
    with pytest.raises(ValueError, match="not numeric"):
        named(frame.assign(bp="high"))


@pytest.mark.parametrize("call", ["predict", "get_prediction"])
def test_new_rows_may_begin_with_the_added_constant_only(call, x, y):
    res = BayesRidge(y, x).fit()
    found, expected = (getattr(res, call)(rows) for rows in (np.column_stack([np.ones(N), x]), x))
    if call == "get_prediction":
        found, expected = found.predicted_mean, expected.predicted_mean
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    for wrong in (np.column_stack([x, np.ones(N)]), np.column_stack([np.full(N, 2.0), x])):
        with pytest.raises(ValueError, match=r"exog has 4 columns for 3 of the fit .*intercept"):
            getattr(res, call)(wrong)


def test_new_rows_with_duplicate_names(y, frame):
    res = BayesRidge(y, frame).fit()
    twice = pd.concat([frame, frame[["age"]] + 1], axis=1)
    with pytest.raises(ValueError, match="duplicate"):
        res.predict(twice)


def test_new_rows_with_missing_values_give_nan(x, y):
    res = BayesRidge(y, x).fit()
    new = spoiled(x[:3], np.nan, (1, 2))
    assert res.predict(new).isna().tolist() == [False, True, False]
    assert res.get_prediction(new).summary_frame().isna().all(axis=1).tolist() == [False, True, False]


def test_formula_arguments(x, y, frame):
    data = frame.assign(y=y)
    for wrong in (None, 3, ["y", "age"]):
        with pytest.raises(ValueError, match="formula must be a string"):
            BayesRidge.from_formula(wrong, data)
    with pytest.raises(ValueError, match="intercept is not an argument of from_formula"):
        BayesRidge.from_formula("y ~ age", data, intercept=False)
    with pytest.raises(ValueError, match="missing must be 'drop' or 'raise'"):
        BayesRidge.from_formula("y ~ age", data, missing="none")
    with pytest.raises(ValueError, match="drop_cols names 'bmi', which the design lacks"):
        BayesRidge.from_formula("y ~ age", data, drop_cols=["bmi"])
    with pytest.raises(ValueError, match="subset has 3 entries for 12 rows"):
        BayesRidge.from_formula("y ~ age", data, subset=np.array([True, False, True]))
    with pytest.raises(ValueError, match="subset has row labels that the data lack"):
        BayesRidge.from_formula("y ~ age", data, subset=[0, 1, 99])
    with pytest.raises(ValueError, match="data cannot be made a data frame"):
        BayesRidge.from_formula("y ~ age", {"y": [1, 2], "age": [1, 2, 3]})
    with pytest.raises(ValueError, match="data"):
        BayesRidge.from_formula("y ~ age", 3.0)
    with pytest.raises(ValueError, match=r"write single values in lists, age=\[...\]"):
        BayesRidge.from_formula("y ~ age", data).fit().predict({"age": 40})


def test_infinite_values_in_a_formula(y, frame):
    data = frame.assign(y=y)
    data.loc[2, "age"] = np.inf
    with pytest.raises(ValueError, match=r"exog .*'age' \(1 infinite\)"):
        BayesRidge.from_formula("y ~ age + bmi", data)
    data = frame.assign(y=np.where(np.arange(N) == 3, 0.0, np.abs(y)))
    with pytest.raises(ValueError, match=r"endog .*'np.log\(y\)' \(1 infinite\)"), np.errstate(divide="ignore"):
        BayesRidge.from_formula("np.log(y) ~ age", data)


def test_duplicate_columns_of_the_data_of_a_formula(y, frame):
    data = pd.concat([frame.assign(y=y), frame[["age"]] * 2], axis=1)
    with pytest.raises(ValueError, match=r"duplicate|age"):
        BayesRidge.from_formula("y ~ age + bmi", data)


def test_sparse_of_the_wrong_kind(x, y):
    with pytest.raises(ValueError, match="exog has dtype complex128"):
        BayesRidge(y, sparse.csr_matrix(x + 1j))
    with pytest.raises(ValueError, match=r"column\(s\) 'x2' \(1 NaN\)"):
        BayesRidge(y, sparse.csr_matrix(spoiled(x, np.nan, (3, 1))))


def test_names_that_leave_none_for_the_intercept(x, y):
    frame = pd.DataFrame(x, columns=["const", "Intercept", "a"])
    with pytest.raises(ValueError, match="'const' and 'Intercept'"):
        BayesRidge(y, frame)
    assert BayesRidge(y, frame, intercept=False).exog_names == ["const", "Intercept", "a"]
    one = pd.DataFrame(x, columns=["const", "b", "a"])
    assert BayesRidge(y, one).exog_names == ["Intercept", "const", "b", "a"]


def test_command_line_says_what_is_wrong(capsys, monkeypatch):
    def broken(report):
        raise ValueError("the data are bad")

    monkeypatch.setattr("pybayesridge.cli.demo.demo", broken)
    assert cli.main(["demo"]) == 2
    captured = capsys.readouterr()
    assert captured.err == "pybayesridge: the data are bad\n"
    assert captured.out == ""


@pytest.mark.parametrize("arguments", [[], ["nonsense"]])
def test_command_line_without_a_known_command(arguments, capsys):
    with pytest.raises(SystemExit) as stopped:
        cli.main(arguments)
    assert stopped.value.code == 2
    assert "demo" in capsys.readouterr().err


def test_demo_runs():
    done = subprocess.run([sys.executable, "-m", "pybayesridge", "demo"], capture_output=True, text=True, check=True)
    assert "Longley" in done.stdout
    assert "Bayesian Ridge Regression" in done.stdout
    assert done.stderr == ""
