"""Table 2's methods, splits that a stopped run goes on with, and the page."""

import json

import numpy as np
import pandas as pd
import pytest

from benchmarks.paper_ridge import hydra, methods, page, paper, reasons, splits, summary, table2
from benchmarks.paper_ridge.datasets import Dataset
from pybayesridge import BayesRidge
from pybayesridge.ridge.spectrum import rotate
from tests.benchmarks.made_up import write, yacht
from tests.effort import only_thorough

SCORE_TOL = 1e-9
"""Relative error of the leave-one-out score beside that of inverted matrices."""

PENALTY_TOL = 1e-6
"""Relative error of penalties beside another implementation's; both stop where a rule fires."""

SHARED_TOL = 1e-7
"""Relative error where a mode is found to 1e-8 from eigenvectors or from singular vectors."""

LINE_TOL = 1e-5
"""The lines keep six digits."""


def problem(n=24, p=5, q=None, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, p)) + 3
    y = x @ rng.standard_normal((p, q or 1)) + rng.standard_normal((n, q or 1))
    return y[:, 0] if q is None else y, x


def standardized(y, x):
    return y - y.mean(axis=0), (x - x.mean(axis=0)) / x.std(axis=0)


@pytest.mark.parametrize(("n", "p"), [(24, 5), (12, 30)])
@pytest.mark.parametrize("q", [1, 2])
def test_published_score_is_that_without_the_intercepts_leverage(n, p, q):
    y, x = problem(n, p, q)
    design, spectrum = BayesRidge(y, x, prior="half-cauchy").prepare(rotate)
    grid = np.outer([100.0, 1.0, 0.01], np.arange(1, q + 1))
    found = methods.scores_without_intercept(design, spectrum, grid) * design.y_norm**2
    y, x = standardized(y, x)
    for i, target in np.ndindex(3, q):
        hat = x @ np.linalg.solve(x.T @ x + grid[i, target] * np.eye(p), x.T)
        residual = (y[:, target] - hat @ y[:, target]) / (1 - np.diag(hat))
        np.testing.assert_allclose(found[i, target], (residual**2).mean(), rtol=SCORE_TOL)


@pytest.mark.parametrize(("n", "p"), [(24, 5), (12, 30)])
def test_published_methods_are_those_of_the_authors_package(n, p):
    fastridge = pytest.importorskip("fastridge")
    y, x = problem(n, p)
    design, spectrum = BayesRidge(y, x, prior="half-cauchy").prepare(rotate)
    em = fastridge.RidgeEM(t2=False).fit(x, y)
    np.testing.assert_allclose(methods.published_em(design, spectrum), em.alpha_, rtol=PENALTY_TOL)
    grids = methods.published_grids(design, spectrum)
    for name, alphas in (("fixed_published", methods.FIXED_GRID), ("glmnet_published", 100)):
        theirs = fastridge.RidgeLOOCV(alphas=alphas).fit(x, y)
        best = methods.scores_without_intercept(design, spectrum, grids[name])[:, 0].argmin()
        np.testing.assert_allclose(grids[name][best, 0], theirs.alpha_, rtol=PENALTY_TOL)


def test_em_is_the_fixed_point_of_the_published_iteration(monkeypatch):
    y, x = problem(60, 4)
    monkeypatch.setattr(methods, "EPS", 1e-15)
    model = BayesRidge(y, x, prior="half-cauchy")
    expected = model.fit(**methods.FITS["em"]).lambda_
    np.testing.assert_allclose(methods.published_em(*model.prepare(rotate)), expected, rtol=PENALTY_TOL)


@pytest.mark.parametrize("q", [None, 3])
def test_a_shared_rotation_changes_no_score(q):
    y, x = problem(40, 6, q)
    if q:
        y = (y.argmax(axis=1)[:, None] == np.arange(q)).astype(float)
    runs = [methods.run_split(y[:30], x[:30], y[30:], x[30:], timed=timed) for timed in (True, False)]
    assert set(runs[0]) == set(runs[1]) == set(methods.METHODS) - set(methods.PAPERS if q else ())
    for name in runs[0]:
        np.testing.assert_allclose(runs[0][name].score, runs[1][name].score, rtol=SHARED_TOL)
        np.testing.assert_allclose(runs[0][name].penalty, runs[1][name].penalty, rtol=SHARED_TOL)
        assert np.isfinite(runs[0][name].seconds) == (name in methods.TIMED and (q is None or name != "exact"))
        assert np.isnan(runs[1][name].seconds)


def test_the_default_is_that_of_the_package():
    y, x = problem(40, 6)
    shared = methods.with_default_prior(BayesRidge(y, x, prior="half-cauchy")).fit()
    own = BayesRidge(y, x).fit()
    np.testing.assert_allclose(shared.params, own.params, rtol=SHARED_TOL)
    assert shared.method == own.method == "exact"


def test_scores():
    y = np.array([1.0, 2.0, 4.0])
    assert methods.r_squared(y, y) == 1
    assert methods.r_squared(y, np.full(3, y.mean())) == 0
    classes = np.eye(3)
    assert methods.accuracy(classes, classes[[0, 1, 1]]) == pytest.approx(2 / 3)


def made_up_data(n=40):
    rng = np.random.default_rng(1)
    x = pd.DataFrame(rng.standard_normal((n, 4)), columns=list("abcd"))
    return Dataset("yacht", x, x.to_numpy() @ [1.0, 2.0, 0.0, 0.0] + rng.standard_normal(n), ["a note"])


def run(directory, effort):
    return list(splits.run(made_up_data(), 2, directory, effort))


def scores(directory):
    table = pd.read_csv(splits.path_of(directory, "yacht", 2))
    return table.set_index("split")[[f"{m}.score" for m in methods.METHODS]]


def test_a_stopped_run_goes_on_where_it_stood(tmp_path):
    effort = splits.Effort(4, 1, 0)
    assert run(tmp_path / "whole", effort) == [0, 1, 2, 3]
    assert run(tmp_path / "parts", splits.Effort(2, 1, 0)) == [0, 1]
    path = splits.path_of(tmp_path / "parts", "yacht", 2)
    path.write_text(path.read_text(encoding="utf-8") + "2,28,0.5,", encoding="utf-8")
    assert run(tmp_path / "parts", effort) == [2, 3]
    assert run(tmp_path / "parts", effort) == []
    pd.testing.assert_frame_equal(scores(tmp_path / "parts"), scores(tmp_path / "whole"))


def test_a_run_stopped_within_the_first_line_starts_again(tmp_path):
    effort = splits.Effort(1, 0, 0)
    path = splits.path_of(tmp_path, "yacht", 2)
    path.write_text("split,n,p,em.sc", encoding="utf-8")
    assert run(tmp_path, effort) == [0]
    assert list(pd.read_csv(path).columns) == splits.COLUMNS


def test_lines_of_another_version_are_refused(tmp_path):
    splits.path_of(tmp_path, "yacht", 2).write_text("split,n\n0,3\n", encoding="utf-8")
    with pytest.raises(ValueError, match="other columns"):
        run(tmp_path, splits.Effort(1, 0, 0))


def test_a_line_holds_the_score_of_a_fit(tmp_path):
    run(tmp_path, splits.Effort(1, 0, 0))
    data = made_up_data()
    x = splits.expand(data, 2)
    train, test = splits.divide(data, 0)
    assert sorted([*train, *test]) == list(range(40))
    assert train.size == 28
    res = BayesRidge(data.y[train], x[train], prior="half-cauchy").fit("exact")
    expected = methods.r_squared(data.y[test], np.asarray(res.predict(x[test])))
    np.testing.assert_allclose(scores(tmp_path)["exact.score"][0], expected, rtol=LINE_TOL)


def test_products_are_drawn_once_and_main_effects_stay():
    data = made_up_data()
    capped = splits.expand(data, 3, max_entries=28 * 10)
    assert capped.shape == (40, 10)
    np.testing.assert_array_equal(capped[:, :4], data.x.to_numpy())
    np.testing.assert_array_equal(capped, splits.expand(data, 3, max_entries=28 * 10))


def test_columns_constant_in_the_training_set_are_dropped():
    y, x = problem(20, 3)
    x[:12, 1] = 1
    row = splits.row_of(0, y[:12], x[:12], y[12:], x[12:], splits.Effort(1, 0, 0))
    assert (row["n"], row["p"]) == (12, 2)


@pytest.fixture(scope="module")
def small_run(tmp_path_factory):
    pytest.importorskip("matplotlib")
    tmp_path = tmp_path_factory.mktemp("table2")
    write(tmp_path / "data", "yacht", "yacht.csv", yacht(30))
    common = ["--out", str(tmp_path / "out"), "--results", str(tmp_path / "results"), "--orders", "1", "2"]
    arguments = ["--data-dir", str(tmp_path / "data"), "--splits", "4", "--timed", "1", "--data", "yacht", "eye"]
    assert table2.main([*arguments, *common]) == 0
    return tmp_path


@only_thorough
def test_page(small_run, capsys):
    text = (small_run / "results" / "table2.md").read_text(encoding="utf-8")
    rows = [line for line in text.split("## Where")[0].splitlines() if line.startswith("| ")]
    titles = [row.split(" | ")[0].removeprefix("| ") for row in rows]
    for published in paper.TABLE2.values():
        assert sum(t.startswith(published.title) for t in titles) == len(published.orders)
    linear = next(row for row in rows if row.startswith("| Yacht"))
    assert "| 21 (215) | 6 (7) | 4 |" in linear
    assert "(0.97)†" in linear
    assert "| Eye | (84) | (200) | not run |" in text
    assert "| Twitter | (408275) | (77) | no data |" in text
    assert "* Yacht, linear, EM: " in text
    assert "21 training rows where the paper has 215" in text
    assert (small_run / "results" / "table2.png").read_bytes().startswith(b"\x89PNG")
    numbers = pd.read_csv(small_run / "results" / "table2.csv")
    assert set(numbers["method"]) == set(methods.METHODS)
    assert (numbers["splits"] == 4).all()


@only_thorough
def test_page_without_the_data(small_run):
    results = small_run / "again"
    assert table2.main(["--page-only", "--out", str(small_run / "out"), "--results", str(results)]) == 0
    assert "a note" not in (results / "table2.md").read_text(encoding="utf-8")
    assert "21 training rows where the paper has 215" in (results / "table2.md").read_text(encoding="utf-8")


def test_no_data_at_all(tmp_path, capsys):
    assert table2.main(["--data-dir", str(tmp_path), "--data", "yacht"]) == 2
    said = capsys.readouterr()
    assert "yacht is not there" in said.out
    assert "no data set" in said.err
    assert table2.main([]) == 2
    with pytest.raises(FileNotFoundError, match="no finished split"):
        page.write_page(tmp_path, tmp_path)


def summary_of(mean, sd=0.01, count=100):
    row = {
        "data": "abalone",
        "order": 1,
        "method": "em",
        "n": 2923,
        "p": 9.0,
        "splits": count,
        "mean": mean,
        "sd": sd,
    }
    return pd.DataFrame([row | {"median": mean, "penalty": 1.0, "seconds": np.nan, "timed": 0}])


@pytest.mark.parametrize(("mean", "differs"), [(0.53, False), (0.534, False), (0.55, True), (0.51, True)])
def test_differences_are_beyond_rounding_and_noise(mean, differs):
    assert bool(summary.differences(summary_of(mean))) == differs


def test_a_mean_of_few_splits_has_more_noise():
    assert not summary.differences(summary_of(0.55, sd=0.03, count=4))


@pytest.mark.parametrize(("count", "earlier"), [(3, True), (60, False), (70, False)])
def test_of_an_earlier_page_and_new_lines_those_of_more_splits_are_kept(tmp_path, count, earlier):
    summary_of(0.5, count=60).to_csv(tmp_path / "table2.csv", index=False)
    new = pd.concat([summary_of(0.55, count=count), summary_of(0.6).assign(order=2)]).assign(commits="abc")
    found = summary.with_earlier(new, tmp_path / "table2.csv")
    assert found[["order", "mean", "splits", "earlier", "commits"]].to_numpy().tolist() == [
        [1, 0.5, 60, True, ""] if earlier else [1, 0.55, count, False, "abc"],
        [2, 0.6, 100, False, "abc"],
    ]
    assert not summary.with_earlier(new, tmp_path / "none.csv")["earlier"].any()


def test_stored_splits_are_listed(tmp_path, capsys):
    run(tmp_path, splits.Effort(2, 0, 0))
    assert table2.main(["--stored", "--out", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "yacht, order 2: 2, the last is 1\n"
    stored = pd.read_csv(splits.path_of(tmp_path, "yacht", 2), dtype=str, keep_default_na=False)
    assert set(stored["commit"]) == {splits.made_by() or ""}


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.534, "0.53"), (-0.001, "0.00"), (-50.61, "-50.6"), (-4123.0, "-4e3"), (float("nan"), "-"), (-1.09, "-1.09")],
)
def test_numbers_are_printed_as_in_the_paper(value, text):
    assert summary.number(value) == text


def test_the_papers_training_rows():
    assert [paper.training_rows(n) for n in (4177, 1044, 583250)] == [2923, 730, 408275]


def test_classification_runs_from_features(tmp_path):
    rng = np.random.default_rng(0)
    labels = np.repeat([3, 5, 9], 12)
    features = rng.uniform(0, 1, (36, 8)) + 9 * (labels[:, None] == [3, 5, 9, 3, 5, 9, 3, 5])
    np.save(tmp_path / "crop-x.npy", features.astype(np.float32))
    np.save(tmp_path / "crop-y.npy", labels)
    arguments = ["--features", str(tmp_path), "--out", str(tmp_path), "--splits", "2", "--data", "crop"]
    assert hydra.main(arguments) == 0
    table = pd.read_csv(splits.path_of(tmp_path, "crop", 1))
    assert (table["n"] == 25).all()
    assert (table["exact.score"] == 1).all()
    (first, second) = json.loads((tmp_path / page.NOTES).read_text(encoding="utf-8"))["crop"]
    assert first == "25 training rows where the paper has 11760 (36 series to be had)"
    assert "versions unknown" in second
    assert hydra.main([*arguments[:-1], "electric_devices"]) == 0


def rows_of(name, order, **means):
    """A summary in which methods have these means, and penalties of 2."""
    numbers = {"n": 111, "p": 53.0, "splits": 100, "sd": 0.01, "penalty": 2.0, "seconds": np.nan, "timed": 0}
    return pd.DataFrame(
        [{"data": name, "order": order, "method": m, "mean": v, "median": v} | numbers for m, v in means.items()]
    )


def test_a_difference_that_the_published_score_explains():
    found = rows_of("eye", 1, fixed=0.49, fixed_published=0.26, em=0.5)
    (difference,) = summary.differences(found)
    assert difference.method == "fixed"
    assert "omits the leverage of the intercept" in reasons.reason(found, difference)
    assert reasons.collapses(found) == [["Eye", "1", "0.26", "0.26", "0.49", "2", "2"]]


def test_a_difference_that_other_units_explain():
    found = pd.concat(
        [rows_of("diabetes", 3, em=0.40, em_published=0.40), rows_of("diabetes_raw", 3, em_published=0.48)]
    )
    (difference,) = summary.differences(found)
    assert reasons.reason(found, difference).endswith("instead of the centred columns of R 0.48.")


def test_a_difference_that_nothing_explains():
    found = rows_of("yacht", 1, em=0.5, em_published=0.5)
    (difference,) = summary.differences(found)
    assert reasons.reason(found, difference) == "Not explained."
    found["splits"] = 5
    assert reasons.reason(found, difference).startswith("Not explained; a mean of so few splits (5)")
    assert reasons.collapses(found) == []
    assert reasons.collapses(rows_of("crop", 1, fixed=0.7)) == []


def test_a_difference_that_was_not_measured():
    found = rows_of("crop", 1, glmnet=0.7)
    (difference,) = summary.differences(found)
    assert reasons.reason(found, difference).startswith("Not measured: The kernels of HYDRA")
