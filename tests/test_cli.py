"""The command line: its numbers are those of the models, its errors one line."""

import io
import json
import subprocess
import sys
import threading
from importlib.resources import files

import numpy as np
import pandas as pd
import pytest

from pybayesridge import BayesRidge, GridEdgeWarning, SpikeSlab, cli
from pybayesridge.cli import terminal
from pybayesridge.results.ridge import BayesRidgeResults

EQUAL = 1e-12
"""Numbers through CSV and JSON, written with all their digits; a model of a read frame is the model of the frame."""

N = 40
FORMULAS = ["y ~ .", "y ~ x1 + bs(x2, df=4) + g", "log(y + 100) ~ x1 * g"]


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N, 2))
    g = rng.choice(["a", "b", "c"], N)
    y = x @ [2.0, -1.0] + (g == "b") + rng.normal(size=N)
    return pd.DataFrame({"y": y, "x1": x[:, 0], "x2": x[:, 1], "g": g, "w": rng.uniform(0.5, 2, N)})


@pytest.fixture
def data(frame, tmp_path):
    path = tmp_path / "data.csv"
    frame.to_csv(path, index=False)
    return str(path)


@pytest.fixture
def new(frame, tmp_path):
    path = tmp_path / "new.csv"
    frame.drop(columns="y").iloc[:7].to_csv(path, index=False)
    return str(path)


def run(capsys, *arguments):
    status = cli.main([str(a) for a in arguments])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def refused(capsys, *arguments):
    """The line of stderr of a command that refuses its input."""
    try:
        status, out, err = run(capsys, *arguments)
    except SystemExit as stopped:
        status, (out, err) = stopped.code, capsys.readouterr()
    assert status == 2
    assert out == ""
    assert err.count("\n") == 1
    assert err.endswith("\n")
    assert "\x1b" not in err
    return err


def fitted(command, formula, frame, **fit):
    return {"ridge": BayesRidge, "spikeslab": SpikeSlab}[command].from_formula(formula, frame).fit(**fit)


@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("command", ["ridge", "spikeslab"])
def test_summary_is_that_of_the_results(command, formula, data, frame, capsys):
    status, out, err = run(capsys, command, formula, data, "--alpha", 0.1)
    assert status == 0
    assert err == ""
    assert out == f"{fitted(command, formula, frame).summary(alpha=0.1)}\n"


@pytest.mark.parametrize("method", ["em", "exact", "loocv", "gcv"])
def test_method_of_the_ridge(method, data, frame, capsys):
    _, out, _ = run(capsys, "ridge", "y ~ .", data, "--method", method)
    assert out == f"{fitted('ridge', 'y ~ .', frame, method=method).summary()}\n"


def test_every_option_reaches_the_model(data, frame, capsys):
    options = ["--weights", "w", "--unpenalized", "x1", "--unpenalized", "bs(x2, df=4)", "--subset", "x1 > -1"]
    formula = "y ~ x1 + bs(x2, df=4) + g"
    subset = (frame["x1"] > -1).to_numpy()
    both = {"weights": "w", "unpenalized": ["x1", "bs(x2, df=4)"], "subset": subset}
    _, out, _ = run(
        capsys, "ridge", formula, data, *options, "--own-scale", "--sigma2", 1.5, "--method", "fixed", "--lam", 2
    )
    model = BayesRidge.from_formula(formula, frame, **both, standardize=False, sigma2=1.5)
    assert out == f"{model.fit('fixed', lam=2.0).summary()}\n"
    hyper = ["--prior-inclusion", 0.3, "--slab-var", 2, "--noise-var", 1.1]
    _, out, _ = run(capsys, "spikeslab", formula, data, *options, *hyper, "--method", "damped", "--tol", 1e-6)
    model = SpikeSlab.from_formula(formula, frame, **both, prior_inclusion=0.3, slab_var=2.0, noise_var=1.1)
    assert out == f"{model.fit('damped', tol=1e-6).summary()}\n"
    _, out, _ = run(capsys, "spikeslab", formula, data, "--method", "ep", "--hyper", "average")
    assert out == f"{SpikeSlab.from_formula(formula, frame).fit('ep', hyper='average').summary()}\n"
    _, out, err = run(capsys, "ridge", formula, data, "--method", "gcv", "--grid", "glmnet")
    with pytest.warns(GridEdgeWarning, match="lies on the edge of the grid"):
        results = BayesRidge.from_formula(formula, frame).fit("gcv", grid="glmnet")
    assert out == f"{results.summary()}\n"
    assert err.startswith("pybayesridge: warning: The smallest cross-validation score lies on the edge of the grid")


def test_options_of_an_exact_selection(data, capsys, monkeypatch):
    monkeypatch.setattr("pybayesridge.selection.fit.can_enumerate", lambda grid: False)
    options = ["--mcse", 0.04, "--chains", 3, "--rng", 5, "--expected-size", 2, "--maxiter", 3_000_000]
    _, out, _ = run(capsys, "spikeslab", "y ~ .", data, "--method", "exact", *options)
    model = SpikeSlab.from_formula("y ~ .", pd.read_csv(data), expected_size=2)  # laid out as there
    results = model.fit("exact", mcse=0.04, chains=3, rng=5, maxiter=3_000_000)
    assert out == f"{results.summary()}\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--method", "exact", "--mcse", "0"], "mcse"),
        (["--method", "exact", "--mcse", "small"], "'small' is not a number"),
        (["--method", "exact", "--chains", "0"], "chains must be a positive integer"),
        (["--method", "exact", "--chains", "2.5"], "invalid int value: '2.5'"),
        (["--method", "exact", "--rng", "-1"], "rng must be a seed"),
        (["--method", "exact", "--expected-size", "-2"], "expected_size"),
        (["--method", "exact", "--expected-size", "2", "--prior-inclusion", "0.1"], "expected_size"),
        (["--method", "damped", "--mcse", "0.1"], "mcse is an option of"),
    ],
)
def test_bad_options_of_a_selection(options, message, data, capsys):
    assert message in refused(capsys, "spikeslab", "y ~ x1 + x2", data, *options)


def test_json_of_an_exact_selection(data, frame, tmp_path, capsys):
    twin = frame.assign(twin=frame["x1"] + 1e-3 * frame["x2"])
    path = tmp_path / "twins.csv"
    twin.to_csv(path, index=False)
    formula = "y ~ x1 + twin + x2 + g"
    _, out, _ = run(capsys, "spikeslab", formula, path, "--method", "exact", "--json", "--alpha", 0.1)
    target, results = json.loads(out)["targets"][0], fitted("spikeslab", formula, twin, method="exact")
    table = pd.DataFrame(target["coefficients"]).set_index("name")
    np.testing.assert_allclose(table["inclusion_se"].astype(float), results.inclusion_se, rtol=EQUAL)
    assert target["log_evidence_se"] == pytest.approx(results.log_evidence_se, rel=EQUAL)
    assert target["size"] == pytest.approx(results.hyperparameters(alpha=0.1).loc["size"].to_dict(), rel=EQUAL)
    # Of a factor with three levels two columns, and one group.
    both = results.hyperparameters(alpha=0.1).loc[["size", "groups_included"]]
    assert both["mean"].iloc[0] == pytest.approx(target["expected_size"], rel=EQUAL) != both["mean"].iloc[1]
    assert target["groups_included"] == pytest.approx(both.iloc[1].to_dict(), rel=EQUAL)
    sets = results.credible_sets()
    assert {"x1", "twin"} in [set(one["columns"]) for one in target["credible_sets"]]
    assert [one["columns"] for one in target["credible_sets"]] == [
        rows["column"].tolist() for _, rows in sets.groupby("set")
    ]
    for one, (_, rows) in zip(target["credible_sets"], sets.groupby("set"), strict=True):
        assert one["probability"] == pytest.approx(rows["probability"].iloc[0], rel=EQUAL)
        assert one["purity"] == pytest.approx(rows["purity"].iloc[0], rel=EQUAL)
    _, out, _ = run(capsys, "spikeslab", formula, path, "--method", "ep", "--json")
    target = json.loads(out)["targets"][0]
    assert target["size"] is target["groups_included"] is target["credible_sets"] is target["log_evidence_se"] is None
    assert {c["inclusion_se"] for c in target["coefficients"] if c["name"] != "Intercept"} == {None}


def test_maxiter_and_its_warning_in_one_line(data, capsys):
    status, out, err = run(capsys, "ridge", "y ~ .", data, "--maxiter", 1, "--tol", 1e-14)
    assert status == 0
    assert "NOT CONVERGED" in out
    said = "NOT CONVERGED within maxiter=1 iterations: do not report these numbers; raise maxiter."
    assert err == f"pybayesridge: warning: {said}\n"


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".csv.gz", ".parquet"])
def test_kinds_of_files(suffix, frame, tmp_path, capsys):
    path = tmp_path / f"data{suffix}"
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False, sep="\t" if suffix == ".tsv" else ",")
    status, out, _ = run(capsys, "ridge", "y ~ .", path)
    assert status == 0
    assert out == f"{fitted('ridge', 'y ~ .', frame).summary()}\n"


def test_standard_input(frame, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO(frame.to_csv(index=False)))
    _, out, _ = run(capsys, "ridge", "y ~ .", "-")
    assert out == f"{fitted('ridge', 'y ~ .', frame).summary()}\n"


def test_row_labels_are_not_a_column(frame, tmp_path, capsys):
    path = tmp_path / "labelled.csv"
    frame.set_axis([f"s{i}" for i in range(N)], axis=0).to_csv(path)
    saved = tmp_path / "fit.pickle"
    _, out, _ = run(capsys, "ridge", "y ~ .", path, "--save", saved)
    assert out == f"{fitted('ridge', 'y ~ .', frame).summary()}\n"
    _, out, _ = run(capsys, "predict", saved, path)
    assert pd.read_csv(io.StringIO(out), index_col=0).index.tolist() == [f"s{i}" for i in range(N)]


@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("command", ["ridge", "spikeslab"])
def test_predictions_are_those_of_the_results(command, formula, data, new, frame, tmp_path, capsys):
    saved = tmp_path / "fit.pickle"
    status, out, _ = run(capsys, command, formula, data, "--save", saved, "--quiet")
    assert (status, out) == (0, "")
    status, out, err = run(capsys, "predict", saved, new, "--alpha", 0.2)
    assert (status, err) == (0, "")
    expected = fitted(command, formula, frame).get_prediction(pd.read_csv(new)).summary_frame(alpha=0.2)
    pd.testing.assert_frame_equal(pd.read_csv(io.StringIO(out)), expected, rtol=EQUAL)


def test_saved_fit_holds_no_rows(data, tmp_path, capsys):
    saved = tmp_path / "fit.pickle"
    run(capsys, "ridge", "y ~ x1", data, "--save", saved, "--quiet")
    results = BayesRidgeResults.load(saved)
    assert results.model.endog is None
    assert results.model.exog is None


def test_predictions_of_new_successes(tmp_path, capsys):
    rows = pd.DataFrame({"x": np.linspace(-1, 1, 12), "m": np.arange(5, 17)})
    rows["s"] = (rows.m * (0.5 + 0.3 * rows.x)).round()
    path, saved = tmp_path / "d.csv", tmp_path / "fit"
    rows.to_csv(path, index=False)
    run(capsys, "ridge", "s ~ x", path, "--family", "binomial", "--trials", "m", "--save", saved)
    _, out, _ = run(capsys, "predict", saved, path, "--trials", "m")
    expected = BayesRidge.from_formula("s ~ x", rows, family="binomial", trials="m").fit().get_prediction()
    found = pd.read_csv(io.StringIO(out))[["obs_ci_lower", "obs_ci_upper"]].to_numpy()
    np.testing.assert_array_equal(found, expected.conf_int(obs=True))
    assert "--exposure is for fits with" in refused(capsys, "predict", saved, path, "--exposure", "m")


def test_predictions_of_new_groups(tmp_path, capsys):
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"x": rng.normal(size=40), "g": np.resize(list("abcde"), 40)})
    rows["y"] = rows.x + rows.g.map(dict(zip("abcde", rng.normal(size=5), strict=True))) + rng.normal(size=40)
    path, plain, saved = tmp_path / "d.csv", tmp_path / "plain", tmp_path / "fit"
    rows.assign(g=["new"] * 2 + rows.g.tolist()[2:]).to_csv(tmp_path / "new.csv", index=False)
    rows.to_csv(path, index=False)
    run(capsys, "ridge", "y ~ x + (1 | g)", path, "--save", saved)
    found = [
        pd.read_csv(io.StringIO(run(capsys, "predict", saved, tmp_path / "new.csv", *option)[1]))["mean_se"][0]
        for option in ([], ["--new-levels", "sample"], ["--new-levels", "zero"])
    ]
    assert found[0] == found[1] > 1.2 * found[2]
    run(capsys, "ridge", "y ~ x", path, "--save", plain)
    assert "--new-levels is for fits with groups" in refused(capsys, "predict", plain, path, "--new-levels", "zero")


def test_predictions_with_weights_targets_and_gaps(data, frame, tmp_path, capsys):
    saved, path, out = tmp_path / "fit.pickle", tmp_path / "new.csv", tmp_path / "predicted.tsv"
    run(capsys, "ridge", "y + x2 ~ x1 + g", data, "--weights", "w", "--save", saved, "--quiet")
    rows = frame.iloc[:5].copy()
    rows.loc[2, "x1"] = np.nan
    rows.to_csv(path, index=False)
    status, told, _ = run(capsys, "predict", saved, path, "--weights", "w", "--output", out)
    assert (status, told) == (0, "")
    results = BayesRidge.from_formula("y + x2 ~ x1 + g", frame, weights="w").fit()
    expected = results.get_prediction(rows, weights=rows["w"]).summary_frame()
    found = pd.read_csv(out, sep="\t")
    assert found.columns.tolist() == [f"{target}:{name}" for target, name in expected.columns]
    assert found.iloc[2].isna().all()
    np.testing.assert_allclose(found, expected, rtol=EQUAL)


@pytest.mark.parametrize("command", ["ridge", "spikeslab"])
def test_report_is_written(command, data, frame, tmp_path, capsys):
    pytest.importorskip("jinja2")
    pytest.importorskip("matplotlib")
    path, saved = tmp_path / "report.html", tmp_path / "fit.pickle"
    status, _, err = run(capsys, command, "y ~ x1 + g", data, "--report", path, "--save", saved, "--alpha", 0.1)
    assert (status, err) == (0, "")
    assert "y ~ x1 + g" in path.read_text(encoding="utf-8")
    assert "90 %" in path.read_text(encoding="utf-8")
    assert saved.exists()


def test_report_without_what_it_needs(data, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    assert "pybayesridge[report]" in refused(
        capsys, "ridge", "y ~ x1", data, "--quiet", "--report", tmp_path / "a.html"
    )


def test_columns_of_terms_one_by_one(data, frame, capsys):
    _, out, _ = run(capsys, "spikeslab", "y ~ x1 + g", data, "--by-column")
    assert out == f"{SpikeSlab.from_formula('y ~ x1 + g', frame, group=None).fit().summary()}\n"


def schema():
    return json.loads((files("pybayesridge.cli") / "result.schema.json").read_text(encoding="utf-8"))


def no_constant(text):
    raise AssertionError(f"{text} is not JSON")


@pytest.mark.parametrize(
    ("command", "formula", "options"),
    [
        ("ridge", "y ~ .", []),
        ("ridge", "y + x2 ~ x1 + g", ["--method", "exact", "--alpha", 0.2]),
        ("ridge", "y ~ 1", []),
        ("ridge", "y ~ x1", ["--method", "fixed", "--lam", 0]),
        ("spikeslab", "y ~ .", []),
        ("spikeslab", "y ~ x1 + g", ["--method", "pcep", "--noise-var", 1]),
        ("spikeslab", "y ~ .", ["--method", "ep"]),
        ("spikeslab", "y ~ x1 + g", ["--method", "exact", "--alpha", 0.2]),
    ],
)
def test_json_keeps_to_its_schema(command, formula, options, data, capsys):
    jsonschema = pytest.importorskip("jsonschema")
    status, out, _ = run(capsys, command, formula, data, "--json", *options)
    assert status == 0
    jsonschema.validate(json.loads(out, parse_constant=no_constant), schema())


@pytest.mark.parametrize("command", ["ridge", "spikeslab"])
def test_json_has_the_numbers_of_the_results(command, data, frame, capsys):
    _, out, _ = run(capsys, command, "y ~ .", data, "--json", "--quiet", "--alpha", 0.1)
    found, results = json.loads(out), fitted(command, "y ~ .", frame)
    assert found["nobs"] == N
    assert found["method"] == results.method
    target = found["targets"][0]
    table = pd.DataFrame(target["coefficients"]).set_index("name")
    pd.testing.assert_series_equal(table["mean"], results.params, check_names=False, rtol=EQUAL)
    pd.testing.assert_series_equal(table["sd"], results.bse, check_names=False, rtol=EQUAL)
    np.testing.assert_allclose(table[["lower", "upper"]], results.conf_int(alpha=0.1), rtol=EQUAL)
    assert target["rsquared"] == pytest.approx(results.rsquared, rel=EQUAL)
    if command == "ridge":
        assert target["lambda"] == pytest.approx(results.lambda_, rel=EQUAL)
        median = results.hyperparameters(alpha=0.1).loc["sigma2", "median"]
        assert target["hyperparameters"]["sigma2"]["median"] == pytest.approx(median, rel=EQUAL)
    else:
        np.testing.assert_allclose(table["inclusion_prob"], results.inclusion_prob, rtol=EQUAL)
        np.testing.assert_allclose(table["cond_sd"], np.sqrt(results.cond_var), rtol=EQUAL)
        assert target["median_model"] == results.median_model()
        groups = {group["name"]: group["inclusion_prob"] for group in target["groups"]}
        assert groups == pytest.approx(results.group_inclusion_prob.to_dict(), rel=EQUAL)
        errors = [group["inclusion_se"] for group in target["groups"]]
        np.testing.assert_allclose(errors, results.group_inclusion_se, rtol=EQUAL)


def test_json_of_groups(data, capsys):
    _, out, _ = run(
        capsys, "spikeslab", "y ~ x1 + C(x2 > 0) + g + bs(x2, df=3)", data, "--unpenalized", "g", "--json"
    )
    target = json.loads(out)["targets"][0]
    columns = {group["name"]: group["columns"] for group in target["groups"]}
    spline = [f"bs(x2, df=3)[{i}]" for i in (1, 2, 3)]
    assert columns == {"x1": ["x1"], "C(x2 > 0)": ["C(x2 > 0)[T.True]"], "bs(x2, df=3)": spline}
    probability = {c["name"]: c["inclusion_prob"] for c in target["coefficients"]}
    assert all(probability[c] == group["inclusion_prob"] for group in target["groups"] for c in group["columns"])


def test_json_of_two_targets(data, frame, capsys):
    _, out, _ = run(capsys, "ridge", "y + x2 ~ x1 + g", data, "--json")
    results = BayesRidge.from_formula("y + x2 ~ x1 + g", frame).fit()
    for target in json.loads(out)["targets"]:
        mean = [c["mean"] for c in target["coefficients"]]
        lower = [c["lower"] for c in target["coefficients"]]
        np.testing.assert_allclose(mean, results.params[target["name"]], rtol=EQUAL)
        np.testing.assert_allclose(lower, results.conf_int()[target["name"]][0], rtol=EQUAL)
        assert target["tau2"] == pytest.approx(results.tau2[target["name"]], rel=EQUAL)


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        ("y ~ X1", "the formula names 'X1', which is not a column of the data: did you mean 'x1'?"),
        ("y ~ log(x11)", "'x11', which is not a column of the data: did you mean 'x1'?"),
        ("yy ~ x1", "'yy', which is not a column"),
        ("y ~ x1 + `a b`", "'a b', which is not a column of the data; there are 'y', 'x1', 'x2', 'g', 'w'"),
        ("y ~ frame", "'frame', which is not a column"),
        ("y ~ x1 +", "Operator `+`"),
        ("~ x1", "no left-hand side"),
        ("g ~ x1", "is a factor"),
        ("y ~ log(g)", "log(g)"),
    ],
)
def test_bad_formula(formula, message, data, capsys):
    assert message in refused(capsys, "ridge", formula, data)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--method", "magic"], "invalid choice: 'magic'"),
        (["--alpha", "1.5"], "does not lie between 0 and 1"),
        (["--alpha", "much"], "'much' is not a number"),
        (["--weights", "W"], "--weights names 'W', which is not a column of the data: did you mean 'w'?"),
        (["--unpenalized", "x3"], "unpenalized names 'x3', which is not a column of exog; there are 'x1'"),
        (["--subset", "x3 > 1"], "--subset 'x3 > 1'"),
        (["--subset", "x1 + 1"], "is not a condition"),
        (["--subset", "x1 > 1e9"], "leaves no row"),
        (["--lam", "1"], "lam is an option of method='fixed'"),
        (["--maxiter", "0"], "maxiter must be a positive integer"),
        (["--save", "no/such/folder/fit"], "there is no folder"),
        (["--report", "no/such/folder/report.html"], "there is no folder"),
        (["--sigma2", "-1"], "sigma2"),
    ],
)
def test_bad_options(options, message, data, capsys):
    assert message in refused(capsys, "ridge", "y ~ x1", data, *options)


def test_bad_files(tmp_path, data, frame, capsys):
    def about(name, content, *, command="ridge"):
        path = tmp_path / name
        path.write_bytes(content)
        return refused(capsys, command, "y ~ x", path)

    assert "No such file" in refused(capsys, "ridge", "y ~ x", tmp_path / "none.csv")
    assert "is a directory" in refused(capsys, "ridge", "y ~ x", tmp_path)
    assert "is empty" in about("empty.csv", b"")
    assert "there are no rows" in about("header.csv", b"y,x\n")
    assert "not UTF-8" in about("latin.csv", "y,x\n1,\xe9\n".encode("latin1"))
    assert "duplicate column name(s) 'x'" in about("twice.csv", b"y,x,x\n1,2,3\n")
    assert "cannot be read as a table" in about("ragged.csv", b"y,x\n1,2\n1,2,3\n")
    assert "cannot be read as a table" in about("long.csv", b"y,x\n1,2,3\n1,2,3\n")
    assert "every row has a missing value (in 'x' (3))" in about("na.csv", b"y,x\n1,\n2,NA\n3,\n")
    assert "'x'" in about("words.csv", b"y,x\n1,\n2,inf\n3,1\n")


def test_parquet_without_pyarrow_and_broken(tmp_path, monkeypatch, capsys):
    path = tmp_path / "data.parquet"
    path.write_bytes(b"nothing of the sort")
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "pyarrow", None)
        assert "pip install 'pybayesridge[parquet]'" in refused(capsys, "ridge", "y ~ x", path)
    pytest.importorskip("pyarrow")
    assert "cannot be read as Parquet" in refused(capsys, "ridge", "y ~ x", path)


def test_bad_models_and_new_data(data, frame, tmp_path, capsys):
    saved = tmp_path / "fit.pickle"
    run(capsys, "ridge", "y ~ x1 + g", data, "--save", saved, "--quiet")
    assert "is not a fit saved by pybayesridge" in refused(capsys, "predict", data, data)
    pd.to_pickle({"a": 1}, tmp_path / "dict.pickle")
    pickled = tmp_path / "dict.pickle"
    assert "is a pickle, which can run code" in refused(capsys, "predict", pickled, data)
    assert "is not a fit saved by pybayesridge" in refused(capsys, "predict", pickled, data, "--allow-code")
    assert "No such file" in refused(capsys, "predict", tmp_path / "none", data)
    path = tmp_path / "new.csv"
    frame.rename(columns={"x1": "X1"}).to_csv(path, index=False)
    assert "lack the variable(s) 'x1'" in refused(capsys, "predict", saved, path)
    frame.assign(g="new").to_csv(path, index=False)
    assert "a level that the fit has not seen" in refused(capsys, "predict", saved, path)
    frame.assign(x1="text").to_csv(path, index=False)
    assert "x1" in refused(capsys, "predict", saved, path)


def test_text_among_numbers_is_told(tmp_path, capsys):
    path = tmp_path / "data.csv"
    path.write_text("y,x\n1,2\n2,3\n3,unknown\n4,4\n5,7\n", encoding="utf-8")
    _, out, err = run(capsys, "ridge", "y ~ x", path)
    assert err.startswith("pybayesridge: warning: column 'x' has text among its numbers ('unknown')")
    assert "x[T.unknown]" in out
    _, out, err = run(capsys, "ridge", "y ~ x", path, "--na", "unknown")
    assert err == ""
    assert "1 row(s) with missing values were left out" in out


def test_weights_that_the_dot_takes_in_are_told(data, capsys):
    _, _, err = run(capsys, "ridge", "y ~ .", data, "--weights", "w")
    assert err.count("\n") == 1
    assert "the weights 'w' are also a column of the model" in err
    _, _, err = run(capsys, "ridge", "y ~ . - w", data, "--weights", "w")
    assert err == ""


class Terminal(io.StringIO):
    """A stream that says it is a terminal, and waits for what is written."""

    def __init__(self):
        super().__init__()
        self.written = threading.Event()

    def isatty(self):
        return True

    def write(self, text):
        self.written.set()
        return super().write(text)


def test_progress_only_on_a_terminal(monkeypatch):
    monkeypatch.setattr(terminal, "DELAY", 0.0)
    shown, quiet, plain = Terminal(), Terminal(), io.StringIO()
    with terminal.progress("fitting", quiet=False, stream=shown):
        assert shown.written.wait(10)
    assert "fitting … 0 s" in shown.getvalue()
    assert shown.getvalue().endswith("\r\x1b[K")
    for stream, is_quiet in ((quiet, True), (plain, False)):
        with terminal.progress("fitting", quiet=is_quiet, stream=stream):
            pass
        assert stream.getvalue() == ""


def test_interrupt_and_lack_of_memory(data, monkeypatch, capsys):
    def stop(error):
        def fit(*args, **kwargs):
            raise error

        monkeypatch.setattr(BayesRidge, "fit", fit)

    stop(KeyboardInterrupt())
    assert run(capsys, "ridge", "y ~ x1", data) == (130, "", "")
    stop(MemoryError())
    assert "out of memory" in refused(capsys, "ridge", "y ~ x1", data)


def test_as_a_process(data, new, tmp_path):
    command = [sys.executable, "-m", "pybayesridge"]
    saved = str(tmp_path / "fit.pickle")
    fit = subprocess.run([*command, "ridge", "y ~ .", data, "--save", saved], capture_output=True, text=True)
    assert (fit.returncode, fit.stderr) == (0, "")
    assert "Bayesian Ridge Regression" in fit.stdout
    with subprocess.Popen(
        [*command, "predict", saved, data], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as piped:
        piped.stdout.close()
        assert piped.stderr.read() == b""
        assert piped.wait() == cli.BROKEN_PIPE


def test_factors_of_the_fit_that_look_like_numbers(tmp_path, capsys):
    rng = np.random.default_rng(5)
    g = rng.choice(["1", "02", "A"], 60)
    y = np.where(g == "1", 1.0, np.where(g == "A", 5.0, 2.0)) + 0.01 * rng.normal(size=60)
    pd.DataFrame({"g": g, "y": y}).to_csv(tmp_path / "fit.csv", index=False)
    model, new, out = (str(tmp_path / name) for name in ("fit.pickle", "new.csv", "out.csv"))
    assert cli.main(["ridge", "y ~ g", str(tmp_path / "fit.csv"), "--save", model, "--quiet"]) == 0
    pd.DataFrame({"g": ["1", "02", "1"]}).to_csv(new, index=False)
    assert cli.main(["predict", model, new, "--output", out]) == 0
    np.testing.assert_allclose(pd.read_csv(out)["mean"], [1.0, 2.0, 1.0], atol=0.05)
    pd.DataFrame({"g": ["1", "9"]}).to_csv(new, index=False)
    assert cli.main(["predict", model, new, "--output", out]) == 2
    assert "level that the fit has not seen ('9' of 'g')" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "prior"),
    [("r2", "r2"), ("half-cauchy", "half-cauchy"), ("1,2", (1.0, 2.0)), ("0.5,0.5,0.01", (0.5, 0.5, 0.01))],
)
def test_prior_of_the_ridge(text, prior, frame, data, capsys):
    status, out, _ = run(capsys, "ridge", "y ~ x1 + x2", data, "--prior", text, "--json")
    assert status == 0
    wanted = BayesRidge.from_formula("y ~ x1 + x2", frame, prior=prior).fit("exact")
    found = {row["name"]: row["mean"] for row in json.loads(out)["targets"][0]["coefficients"]}
    np.testing.assert_allclose([found[name] for name in wanted.params.index], wanted.params, rtol=EQUAL)


@pytest.mark.parametrize("text", ["R2", "", "1", "1,2,3,4", "0,1", "a,b", "1,", "nan,1", "1,-1", "1;2"])
def test_bad_priors_of_the_ridge(text, data, capsys):
    assert "prior" in refused(capsys, "ridge", "y ~ x1 + x2", data, "--prior", text)


def test_binomial(frame, tmp_path, capsys):
    """The summary, JSON by its schema, the report, and predictions of a saved fit."""
    yes = frame.assign(y=np.where(frame["y"] > 0, "yes", "no"))
    path, saved, report = tmp_path / "yes.csv", tmp_path / "yes.fit", tmp_path / "yes.html"
    yes.to_csv(path, index=False)
    results = BayesRidge.from_formula("y ~ x1 + x2", yes, family="binomial", event="no").fit()
    options = ["--family", "binomial", "--event", "no"]
    _, out, _ = run(capsys, "ridge", "y ~ x1 + x2", path, *options, "--save", saved)
    assert out == f"{results.summary()}\n"
    _, out, _ = run(capsys, "ridge", "y ~ x1 + x2", path, *options, "--json")
    found = json.loads(out, parse_constant=no_constant)
    pytest.importorskip("jsonschema").validate(found, schema())
    target = found["targets"][0]
    assert (target["event"], target["link"], found["method"]) == ("no", "logit", "ep")
    assert target["loo_auc"] == pytest.approx(results.loo_auc, rel=EQUAL)
    ratios = results.odds_ratios()
    assert target["coefficients"][1]["odds_ratio"] == pytest.approx(ratios["odds_ratio"].iloc[1], rel=EQUAL)
    _, out, _ = run(capsys, "predict", saved, path)
    table = pd.read_csv(io.StringIO(out))
    wanted = results.get_prediction(yes).summary_frame()
    np.testing.assert_allclose(table[list(wanted)], wanted, rtol=1e-9)
    pytest.importorskip("jinja2")
    run(capsys, "ridge", "y ~ x1", path, *options, "--method", "laplace", "--link", "probit", "--report", report)
    assert "binomial" in report.read_text(encoding="utf-8")


def test_binomial_counts_and_bad_arguments(frame, tmp_path, capsys):
    rng = np.random.default_rng(3)
    counts = frame.assign(m=rng.integers(2, 6, N))
    counts["s"] = rng.binomial(counts["m"], 0.4)
    path = tmp_path / "counts.csv"
    counts.to_csv(path, index=False)
    status, out, _ = run(capsys, "ridge", "s ~ x1", path, "--family", "binomial", "--trials", "m", "--method", "em")
    assert status == 0
    assert "success" in out
    assert "trials requires family='binomial'" in refused(capsys, "ridge", "s ~ x1", path, "--trials", "m")
    assert "names 'k', which is not a column" in refused(
        capsys, "ridge", "s ~ x1", path, "--family", "binomial", "--trials", "k"
    )
    line = refused(capsys, "ridge", "g ~ x1", path, "--family", "binomial")
    assert "endog has 3 levels" in line
    line = refused(capsys, "ridge", "s ~ x1", path, "--family", "binomial", "--trials", "m", "--method", "exact")
    assert "use 'ep'" in line


def test_model_checks(data, frame, capsys):
    res = BayesRidge.from_formula("y ~ x1 + g", frame).fit()
    score, statistics = res.loo(), res.ppc(alpha=0.1)
    _, out, _ = run(capsys, "ridge", "y ~ x1 + g", data, "--checks", "--alpha", 0.1)
    assert f"elpd {score.elpd:.1f} (standard error {score.se:.1f}), p_loo {score.p_loo:.1f}" in out
    assert [line.split()[0] for line in out.splitlines()[-4:]] == ["mean", "sd", "min", "max"]
    _, out, _ = run(capsys, "ridge", "y ~ x1 + g", data, "--checks", "--json", "--alpha", 0.1)
    found = json.loads(out, parse_constant=no_constant)
    pytest.importorskip("jsonschema").validate(found, schema())
    checks = found["targets"][0]["checks"]
    assert checks["elpd"] == pytest.approx(score.elpd, rel=EQUAL)
    assert checks["unavailable"] is None
    assert [row["p"] for row in checks["statistics"]] == pytest.approx(statistics["p"].tolist(), rel=EQUAL)
    alone = frame.assign(x2=np.eye(N)[3])
    alone.to_csv(data, index=False)
    options = ["--unpenalized", "x2", "--checks"]
    _, out, _ = run(capsys, "ridge", "y ~ x1 + x2", data, *options)
    assert "Leave-one-out predictive score: not available (row 3 has no leave-one-out density" in out
