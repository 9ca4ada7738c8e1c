"""The command line with spikeslab --family binomial."""

import io
import json
from importlib.resources import files

import numpy as np
import pandas as pd
import pytest

from pybayesridge import SpikeSlab, cli, load

EQUAL = 1e-12
"""Numbers through CSV and JSON, written with all their digits."""

QUICK = {"mcse": 0.5, "chains": 1}
FLAGS = ["--family", "binomial", "--mcse", "0.5", "--chains", "1"]


@pytest.fixture
def frame():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(40, 2))
    m = rng.integers(2, 6, 40)
    data = pd.DataFrame({"x1": x[:, 0], "x2": x[:, 1], "g": rng.choice(["a", "b", "c"], 40), "m": m})
    data["s"] = rng.binomial(m, 1 / (1 + np.exp(-1.5 * x[:, 0])))
    data["y"] = np.where(x[:, 0] + rng.logistic(size=40) > 0, "yes", "no")
    return data


@pytest.fixture
def path(frame, tmp_path):
    frame.to_csv(tmp_path / "data.csv", index=False)
    return str(tmp_path / "data.csv")


def run(capsys, *arguments):
    try:
        status = cli.main([str(a) for a in arguments])
    except SystemExit as stopped:
        status = stopped.code
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_summary_and_predictions_are_those_of_the_results(frame, path, tmp_path, capsys):
    saved = tmp_path / "yes.fit"
    options = [*FLAGS, "--event", "no", "--save", saved, "--alpha", 0.1]
    status, out, err = run(capsys, "spikeslab", "y ~ x1 + x2 + g", path, *options)
    same = pd.read_csv(path)  # laid out as there, so that rounding errors are the same
    results = SpikeSlab.from_formula("y ~ x1 + x2 + g", same, family="binomial", event="no").fit(**QUICK)
    assert (status, err) == (0, "")
    assert out == f"{results.summary(0.1)}\n"
    new = frame.drop(columns="y").iloc[:6]
    new.loc[2, "x1"] = np.nan
    new.to_csv(tmp_path / "new.csv", index=False)
    status, out, err = run(capsys, "predict", saved, tmp_path / "new.csv", "--alpha", 0.1)
    assert (status, err) == (0, "")
    found, wanted = pd.read_csv(io.StringIO(out)), results.get_prediction(new).summary_frame(0.1)
    assert list(found) == ["mean", "mean_se", "mean_ci_lower", "mean_ci_upper", "mcse"] == list(wanted)
    assert found.iloc[2].isna().all()
    np.testing.assert_allclose(found, wanted, rtol=EQUAL)
    status, _, err = run(capsys, "predict", saved, tmp_path / "new.csv", "--weights", "m")
    assert status == 2
    assert "--weights is for the noise variance of new observations, which a binomial fit does not have" in err


@pytest.mark.parametrize(
    ("formula", "options"),
    [
        ("y ~ x1 + x2 + g", ["--slab-var", 2]),
        ("s ~ x1 + x2", ["--trials", "m", "--link", "probit"]),
        ("y ~ x1 + x2", ["--method", "ep", "--prior-inclusion", 0.3]),
    ],
)
def test_json_has_the_numbers_of_the_results(formula, options, path, tmp_path, capsys):
    saved = tmp_path / "a.fit"
    sampled = "ep" not in options
    flags = FLAGS if sampled else FLAGS[:2]
    status, out, err = run(capsys, "spikeslab", formula, path, *flags, *options, "--json", "--save", saved)
    assert (status, err) == (0, "")
    found = json.loads(out, parse_constant=lambda text: pytest.fail(f"{text} is not JSON"))
    results = load(saved)
    target = found["targets"][0]
    logit = results.link == "logit"
    assert (target["link"], target["event"]) == (("logit", "yes") if logit else ("probit", "success"))
    assert target["learned"] == list(results.learned)
    assert (target["n_trials"], target["n_events"]) == (results.n_trials, results.n_events)
    assert target["slab_var"] == pytest.approx(results.slab_var, rel=EQUAL)
    assert target.get("log_evidence") == (None if sampled else pytest.approx(results.log_evidence, rel=EQUAL))
    table = pd.DataFrame(target["coefficients"]).set_index("name")
    np.testing.assert_allclose(table[["mean", "sd"]], np.column_stack([results.params, results.bse]), rtol=EQUAL)
    np.testing.assert_allclose(table["inclusion_prob"], results.inclusion_prob, rtol=EQUAL)
    assert ("odds_ratio" in table) == logit
    if logit:
        ratios = results.odds_ratios()[["odds_ratio", "lower", "upper"]]
        np.testing.assert_allclose(table[["odds_ratio", "or_lower", "or_upper"]], ratios, rtol=EQUAL)
    schema = json.loads((files("pybayesridge.cli") / "result.schema.json").read_text(encoding="utf-8"))
    pytest.importorskip("jsonschema").validate(found, schema)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--hyper", "average"], "--hyper of spikeslab requires --family gaussian: leave it out"),
        (["--tol", 1e-3, "--hyper", "maximize"], "--hyper of spikeslab requires --family gaussian"),
        (["--tol", 1e-3], "tol"),
        (["--method", "damped"], "method='damped' requires family='gaussian': use method='exact' or 'ep'"),
        (["--noise-var", 1], "binomial responses have no noise variance"),
        (["--trials", "k"], "--trials names 'k', which is not a column"),
        (["--link", "cloglog"], "--link"),
    ],
)
def test_options_that_do_not_apply_are_refused(options, words, path, capsys):
    status, out, err = run(capsys, "spikeslab", "y ~ x1", path, "--family", "binomial", *options)
    assert (status, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1
