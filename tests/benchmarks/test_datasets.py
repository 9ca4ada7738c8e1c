"""Loaders of the ridge paper's data sets, on small made-up files in the layouts of the archives."""

import numpy as np
import pandas as pd
import pytest

from benchmarks.paper_ridge import datasets
from tests.benchmarks.made_up import (
    AUTOMOBILE_TEXT,
    abalone,
    archive,
    frame,
    lines,
    numbers,
    write,
    yacht,
)


def test_factors_become_dummies_without_their_first_level():
    coded = datasets.dummies(pd.DataFrame({"a": [1, 2, 3], "t": ["v", "u", "w"]}))
    assert list(coded.columns) == ["a", "t_v", "t_w"]
    np.testing.assert_array_equal(coded.to_numpy(), [[1, 1, 0], [2, 0, 0], [3, 0, 1]])


@pytest.mark.parametrize(("name", "head"), [("abalone.csv", True), ("abalone.data", False)])
def test_with_or_without_a_line_of_names(tmp_path, name, head):
    write(tmp_path, "abalone", name, abalone(12, head))
    data = datasets.LOADERS["abalone"](tmp_path)
    assert data.x.shape == (12, 9)
    np.testing.assert_array_equal(data.y, numbers(12, 8)[:, -1])
    assert data.notes == ["8 training rows where the paper has 2923"]


@pytest.mark.parametrize(
    ("name", "sep", "head"), [("yacht.csv", ",", True), ("yacht_hydrodynamics.data", " ", False)]
)
def test_transformed_target(tmp_path, name, sep, head):
    write(tmp_path, "yacht", name, yacht(12, sep, head))
    data = datasets.LOADERS["yacht"](tmp_path)
    assert data.x.shape == (12, 6)
    np.testing.assert_array_equal(data.y, np.log(numbers(12, 7)[:, -1]))


def test_missing_data_set_says_what_is_missing(tmp_path):
    with pytest.raises(datasets.MissingDataError, match=r"abalone\.csv, abalone\.data"):
        datasets.LOADERS["abalone"](tmp_path)


def test_wrong_number_of_columns(tmp_path):
    write(tmp_path, "abalone", "abalone.data", "M,1,2\nF,2,3\n")
    with pytest.raises(ValueError, match="3 columns, not 9"):
        datasets.LOADERS["abalone"](tmp_path)


def test_value_that_is_not_finite(tmp_path):
    write(
        tmp_path, "yacht", "yacht.csv", lines([[*[1.5] * 6, 0.0], [*[2.5] * 6, 1.0]], head=["Prismatic", *"abcdef"])
    )
    with np.errstate(divide="ignore"), pytest.raises(ValueError, match="yacht: a value is not finite"):
        datasets.LOADERS["yacht"](tmp_path)


def test_automobile_drops_incomplete_cars_and_codes_cylinders(tmp_path):
    n = 6
    x = pd.DataFrame(numbers(n, len(datasets.AUTOMOBILE)), columns=datasets.AUTOMOBILE).astype(object)
    for name in AUTOMOBILE_TEXT:
        x[name] = ["a", "b"] * 3
    x["num-of-cylinders"] = ["four", "six", "four", "eight", "six", "four"]
    x.loc[5, "normalized-losses"] = "?"
    write(tmp_path, "automobile", "imports-85.data", lines(x.to_numpy()))
    data = datasets.LOADERS["automobile"](tmp_path)
    assert len(data.x) == 5
    assert [c for c in data.x.columns if "cylinders" in c] == ["num-of-cylinders_four", "num-of-cylinders_six"]
    np.testing.assert_allclose(data.y, np.log(x["price"][:5].astype(float)))


def test_auto_mpg_drops_cars_without_horsepower(tmp_path):
    rows = [[20 + i, 4, 100, 90 + i, 3000, 15, 70, 1, '"a car"'] for i in range(5)]
    rows[2][3] = "?"
    write(tmp_path, "autompg", "auto-mpg.data", lines(rows, sep="  "))
    data = datasets.LOADERS["autompg"](tmp_path)
    assert data.x.shape == (4, 7)
    np.testing.assert_array_equal(data.y, [20, 21, 23, 24])


def test_blog_drops_rows_repeated_in_its_training_or_in_its_test_files(tmp_path):
    table = np.hstack([numbers(6, 3), np.full((6, 1), 7.0), numbers(6, 1, 1)])
    train, first, second = table[[0, 1, 1, 2]], table[[2, 3]], table[[3, 4, 5]]
    files = {"blogData_train__csv": train, "blogData_test-1__csv": first, "blogData_test-2__csv": second}
    packed = archive(**{name: lines(rows) for name, rows in files.items()}, readme__txt="no data")
    write(tmp_path, "blog", "BlogFeedback.zip", packed)
    data = datasets.LOADERS["blog"](tmp_path)
    assert data.x.shape == (7, 3)
    np.testing.assert_array_equal(np.sort(data.y), np.sort(table[[0, 1, 2, 2, 3, 4, 5], -1]))
    assert "9 rows, 7 without repetitions" in data.notes[-1]


def test_crime_drops_identifiers_and_incomplete_columns(tmp_path):
    table = numbers(4, 128).astype(object)
    table[:, 3] = ["a", "b", "c", "d"]
    table[1, 10] = "?"
    write(tmp_path, "crime", "communities.data", lines(table))
    data = datasets.LOADERS["crime"](tmp_path)
    assert data.x.shape == (4, 121)
    np.testing.assert_array_equal(data.y, table[:, -1].astype(float))


def test_facebook_drops_the_parts_of_its_target(tmp_path):
    table = numbers(5, 19).astype(object)
    table[:, 1] = ["Photo", "Link", "Photo", "Video", "Link"]
    table[4, 16] = ""
    write(tmp_path, "facebook", "dataset_Facebook.csv", lines(table, ";", [f"c{i}" for i in range(18)] + ["Type"]))
    data = datasets.LOADERS["facebook"](tmp_path)
    assert data.x.shape == (4, 16)
    np.testing.assert_array_equal(data.y, table[:4, -1].astype(float))


def test_forest_codes_month_and_day(tmp_path):
    x = frame(6, 13).to_numpy().astype(object)
    x[:, 2] = ["aug", "sep", "aug", "jul", "jul", "sep"]
    x[:, 3] = ["mon", "fri"] * 3
    write(tmp_path, "forest", "forestfires.csv", lines(x, head=list(datasets.FOREST)))
    data = datasets.LOADERS["forest"](tmp_path)
    assert data.x.shape == (6, 13)
    np.testing.assert_allclose(data.y, np.log1p(x[:, -1].astype(float)))


@pytest.mark.parametrize(("name", "target"), [("naval_compressor", 16), ("naval_turbine", 17)])
def test_naval_drops_constant_and_repeated_columns(tmp_path, name, target):
    x = numbers(5, 18)
    x[:, 8] = 288
    x[:, 7] = x[:, 6]
    write(tmp_path, "naval", "data.txt", "\n".join("   " + "   ".join(map(str, row)) for row in x) + "\n")
    data = datasets.LOADERS[name](tmp_path)
    np.testing.assert_array_equal(data.x.to_numpy(), np.delete(x[:, :16], [7, 8], axis=1))
    np.testing.assert_array_equal(data.y, x[:, target])


@pytest.mark.parametrize("sep", [",", "\t"])
def test_parkinsons(tmp_path, sep):
    head = ["subject#", "age", "motor_UPDRS", "total_UPDRS", "Jitter(%)"]
    x = numbers(5, 5)
    write(tmp_path, "parkinsons", "parkinsons_updrs.data", lines(x, sep, head))
    data = datasets.LOADERS["parkinsons_total"](tmp_path)
    assert list(data.x.columns) == ["age", "Jitter(%)"]
    np.testing.assert_array_equal(data.y, x[:, 3])


@pytest.mark.parametrize(("second", "sep"), [("student-por.csv", ";"), ("student.csv", ",")])
def test_student_joins_two_courses(tmp_path, second, sep):
    head = ["school", *(f"c{i}" for i in range(1, 33))]
    first, other = numbers(4, 33).astype(object), numbers(3, 33, 1).astype(object)
    first[:, 0], other[:, 0] = "GP", "MS"
    write(tmp_path, "student", "student-mat.csv", lines(first, ";", head))
    write(tmp_path, "student", second, lines(other, sep, head))
    data = datasets.LOADERS["student"](tmp_path)
    assert data.x.shape == (7, 30)
    np.testing.assert_array_equal(data.y, np.r_[first[:, -1], other[:, -1]].astype(float))


@pytest.mark.parametrize(
    ("name", "file", "columns"),
    [("airfoil", "airfoil_self_noise.dat", 6), ("boston", "housing.data", 14), ("concrete", "concrete.csv", 9)],
)
def test_plain_tables(tmp_path, name, file, columns):
    x = numbers(7, columns)
    head = ["Cement", *(f"c{i}" for i in range(columns - 1))] if name == "concrete" else None
    write(tmp_path, name, file, lines(x, "," if file.endswith("csv") else "\t", head))
    data = datasets.LOADERS[name](tmp_path)
    np.testing.assert_array_equal(data.x.to_numpy(), x[:, :-1])
    np.testing.assert_array_equal(data.y, x[:, -1])


def test_real_estate_drops_the_row_number(tmp_path):
    x = numbers(5, 8)
    write(tmp_path, "real_estate", "real_estate.csv", lines(x, head=["No", *"abcdefg"]))
    data = datasets.LOADERS["real_estate"](tmp_path)
    np.testing.assert_array_equal(data.x.to_numpy(), x[:, 1:7])


def test_eye_from_text(tmp_path):
    x = numbers(5, 4)
    write(tmp_path, "eye", "eye.csv", lines(x, head=["y", "1377", "1748", "2487"]))
    data = datasets.LOADERS["eye"](tmp_path)
    np.testing.assert_array_equal(data.y, x[:, 0])
    assert data.notes[0] == "3 columns where the paper has 200"


@pytest.mark.parametrize("name", ["diabetes", "riboflavin"])
def test_r_data_frame_with_a_matrix(tmp_path, name, monkeypatch):
    x = numbers(4, 3)
    write(tmp_path, name, f"{name}.RData", "")
    monkeypatch.setattr("benchmarks.paper_ridge.r_files.r_objects", lambda path: {"it": {"x": x, "y": x[:, 0]}})
    data = datasets.LOADERS[name](tmp_path)
    np.testing.assert_array_equal(data.x.to_numpy(), x)
    np.testing.assert_array_equal(data.y, x[:, 0])


def test_diabetes_in_its_units():
    pytest.importorskip("sklearn")
    data = datasets.VARIANTS["diabetes_raw"](None)
    assert data.key == "diabetes_raw"
    assert data.x.shape == (442, 10)
    assert set(data.x["sex"]) == {1, 2}
    assert data.notes == []


def test_every_loader_belongs_to_a_row_of_the_table():
    assert set(datasets.LOADERS) < set(datasets.TABLE2)
