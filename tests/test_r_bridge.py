"""What R is given: plain numbers, strings and float arrays, with errors and warnings as text."""

import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from pybayesridge import BayesRidge, ConvergenceWarning, SpikeSlab, load, pool, progress, r_bridge
from pybayesridge.results import export_fields, portable
from pybayesridge.results.export import export
from tests.gallery.make import data

RNG = np.random.default_rng(3)
X = RNG.standard_normal((30, 4)) + 2.0
Y = X @ [1.0, -1.0, 0.0, 0.5] + RNG.standard_normal(30)
NAMES = ["a", "b", "c", "d"]


def ridge(y=Y, x=X, names=NAMES, y_names=("y",), from_formula=False, model=None, **fit):
    return r_bridge.bayes_ridge(
        np.asfortranarray(np.reshape(y, (len(y), -1))),
        np.asfortranarray(x),
        x_names=names,
        y_names=list(y_names),
        from_formula=from_formula,
        model={"intercept": True, **(model or {})},
        fit={"method": "em", **fit},
    )


def spike(x=X, y=Y, model=None, **fit):
    return r_bridge.spike_slab(
        y[:, None], x, x_names=None, y_names=["y"], from_formula=False, model=model or {}, fit=fit
    )


def leaves(value, path=""):
    if isinstance(value, dict):
        for key, item in value.items():
            assert isinstance(key, str)
            yield from leaves(item, f"{path}.{key}")
    else:
        yield path, value


def assert_plain(answer):
    for path, value in leaves(answer):
        if isinstance(value, list):
            assert all(isinstance(item, str) for item in value), path
        elif isinstance(value, np.ndarray):
            assert value.dtype == np.float64, path
            assert value.ndim in (1, 2), path
        else:
            assert value is None or type(value) in (str, float, bool), path


@pytest.mark.parametrize(
    "fit", [{"method": m} for m in ("em", "exact", "loocv", "gcv")] + [{"method": "fixed", "lam": 2.0}]
)
@pytest.mark.parametrize("targets", [1, 2])
@pytest.mark.parametrize("shape", ["tall", "wide"])
@pytest.mark.filterwarnings("ignore::pybayesridge.PybayesridgeWarning")
def test_values_are_plain_and_two_dimensional(fit, targets, shape):
    x = X if shape == "tall" else RNG.standard_normal((30, 50))
    y = np.column_stack([Y, Y[::-1]])[:, :targets]
    answer = ridge(y, x, None, [f"y{i}" for i in range(targets)], **fit)
    assert answer["error"] is None
    assert_plain(answer["value"])
    value = answer["value"]
    k = x.shape[1] + 1
    assert value["params"].shape == value["bse"].shape == (k, targets)
    assert value["fittedvalues"].shape == value["resid"].shape == (30, targets)
    assert value["lambda_"].shape == value["sigma2"].shape == value["log_marginal"].shape == (targets,)
    assert value["posterior"]["right"].shape == (x.shape[1], value["posterior"]["s"].size)
    assert max(item.size for _, item in leaves(value) if isinstance(item, np.ndarray)) < x.shape[1] ** 2 + 2000


def test_values_are_those_of_the_results():
    value = ridge(method="loocv", model={"unpenalized": ["b"]})["value"]
    res = BayesRidge(Y, X, unpenalized=[1]).fit("loocv")
    np.testing.assert_allclose(value["params"][:, 0], res.params, rtol=1e-9)
    np.testing.assert_allclose(value["grid"][:, 0], res.grid, rtol=1e-9)
    np.testing.assert_allclose(value["loo_mse"], res.loo_mse, rtol=1e-9)
    assert value["names"] == ["const", *NAMES]
    assert value["intercept_added"] is True
    np.testing.assert_array_equal(value["posterior"]["z_at"], [1, 3])
    np.testing.assert_array_equal(value["posterior"]["at"], [2, 4, 5])


def test_errors_and_warnings_are_text():
    answer = ridge(method="fixed")
    assert answer["value"] is None
    assert answer["error"] == "method='fixed' requires lam"
    assert answer["error_class"] == "ValueError"
    answer = ridge(method="loocv", grid=[1.0, 2.0])
    assert answer["warning_classes"] == ["GridEdgeWarning"]
    assert answer["warnings"][0].startswith("The smallest cross-validation score")
    broken = r_bridge.guarded(lambda: {}["missing"])
    assert broken["error"] == "KeyError: 'missing'"


@pytest.mark.parametrize("learned", [True, False])
def test_an_exact_selection_is_plain(learned):
    model = {"expected_size": 2.0} if learned else {"prior_inclusion": 0.5, "noise_var": 1.0}
    answer = spike(model=model, method="exact", mcse=0.02, chains=2.0, rng=3.0)
    assert answer["error"] is None
    assert_plain(answer["value"])
    given = SpikeSlab(Y, X, **model).fit("exact")
    np.testing.assert_allclose(answer["value"]["inclusion_prob"], given.inclusion_prob, rtol=1e-9)
    assert answer["value"]["enumerated"] is True
    assert np.isinf(answer["value"]["posterior"]["df"]) == (not learned)


def test_ordered_categories_are_plain_and_have_the_levels_of_the_factor():
    codes = np.digitize(Y, np.quantile(Y, [0.4, 0.7])).astype(float)
    levels = ["low", "middle", "high"]
    answer = ridge(y=codes, model={"family": "ordinal", "levels": levels}, method="ep")
    assert answer["error"] is None
    value = answer["value"]
    assert_plain(value)
    assert (value["family"], value["categories"]) == ("bayes_ridge_ordinal", levels)
    column = pd.Series(pd.Categorical.from_codes(codes.astype(int), levels, ordered=True))
    given = BayesRidge(column, X, family="ordinal").fit()
    np.testing.assert_allclose(value["params"][:, 0], given.params, rtol=1e-9)
    np.testing.assert_array_equal(value["codes"], codes)


def test_a_selection_for_yes_no_responses_is_plain():
    codes = (Y.mean() < Y).astype(float)
    fit = {"method": "auto", "mcse": 0.5, "chains": 1.0, "rng": 0.0, "maxiter": 100.0}
    answer = spike(y=codes, model={"family": "binomial", "link": "logit", "levels": ["no", "yes"]}, **fit)
    assert answer["error"] is None
    value = answer["value"]
    assert_plain(value)
    assert (value["family"], value["event"]) == ("spike_slab_binomial", "yes")
    model = SpikeSlab(np.where(codes == 1, "yes", "no"), X, family="binomial")
    with pytest.warns(ConvergenceWarning):
        given = model.fit(mcse=0.5, chains=1, maxiter=100)
    np.testing.assert_allclose(value["inclusion_prob"], given.inclusion_prob, rtol=1e-9)
    np.testing.assert_allclose(value["linear_predictors"], given.predict(which="linear"), rtol=1e-9)
    by_ep = spike(y=codes, model={"family": "binomial"}, method="ep")["value"]
    assert_plain(by_ep)
    np.testing.assert_allclose(
        by_ep["inclusion_prob"], SpikeSlab(codes, X, family="binomial").fit("ep").inclusion_prob
    )
    refused = spike(y=codes, model={"family": "binomial"}, method="pcep")
    assert refused["error"] == "method='pcep' requires family='gaussian': use method='exact' or 'ep'"


def test_an_exact_selection_without_anything_to_select_is_exported():
    value = spike(model={"unpenalized": [0.0, 1.0, 2.0, 3.0], "noise_var": 1.0}, method="exact")["value"]
    assert_plain(value)
    assert value["method"] == "exact"
    assert "set_size" not in value["posterior"]


def test_the_export_of_a_sampled_selection_is_no_larger_than_its_data():
    x = RNG.standard_normal((80, 300))
    results = SpikeSlab(x[:, 0] + RNG.standard_normal(80), x).fit("exact", mcse=0.05)
    posterior = export(results)["posterior"]
    of_states = [posterior[name] for name in ("weight", "noise", "log_g", "t", "state_set", "set_columns")]
    assert max(part.size for part in of_states) <= 20_000
    rows, columns = posterior["square_root"].shape
    assert rows <= 80
    assert columns == posterior["visited"].size == posterior["cross"].size <= 300


def test_rs_types_are_understood():
    value = ridge(maxiter=500.0, grid=None, model={"weights": None, "unpenalized": [1.0, 3.0]})["value"]
    np.testing.assert_array_equal(value["posterior"]["z_at"], [1, 3, 5])
    assert ridge(maxiter=1.5)["error"] == "maxiter must be a positive integer, not 1.5"
    single = ridge(method="loocv", grid=10.0)
    assert single["value"]["grid"].shape == (1, 1)


def test_rs_column_of_ones_is_the_intercept_and_not_noted():
    x = np.column_stack([np.ones(30), X])
    names = ["(Intercept)", *NAMES]
    value = ridge(x=x, names=names, from_formula=True)["value"]
    assert value["names"] == names
    assert value["intercept_added"] is False
    assert not any("serves as the intercept" in note for note in value["findings"]["text"])
    assert any("serves as the intercept" in note for note in ridge(x=x, names=names)["value"]["findings"]["text"])


@pytest.mark.parametrize(
    "fit", [{"method": m} for m in ("ep", "damped", "pcep")] + [{"method": "ep", "hyper": "average"}]
)
@pytest.mark.filterwarnings("ignore::pybayesridge.PybayesridgeWarning")
def test_spike_and_slab_values_are_plain_and_make_the_covariance(fit):
    value = spike(**fit)["value"]
    assert_plain(value)
    res = SpikeSlab(Y, X).fit(**fit)
    np.testing.assert_allclose(value["inclusion_prob"], res.inclusion_prob, rtol=1e-9)
    post = value["posterior"]
    weight = post["weight"][:, 0]
    centred = post["mean"] - weight @ post["mean"]
    roots = post["root"] * (weight[post["root_of"].astype(int) - 1] * post["root_sign"])[:, None]
    cov = np.diag(weight @ post["own"]) + post["root"].T @ roots + (centred * weight[:, None]).T @ centred
    unit = post["y_norm"][0] / post["scale"]
    ours = np.asarray(res.cov_params())[1:, 1:]
    np.testing.assert_allclose(cov * np.outer(unit, unit), ours, rtol=1e-9, atol=1e-12 * np.abs(ours).max())


@pytest.mark.filterwarnings("ignore::pybayesridge.PybayesridgeWarning")
def test_many_columns_of_spike_and_slab_need_no_square_matrix():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((30, 200))
    value = spike(x, 3 * x[:, 0] + rng.standard_normal(30), {"prior_inclusion": 0.02, "slab_var": 4.0}, method="ep")[
        "value"
    ]
    assert max(item.size for _, item in leaves(value) if isinstance(item, np.ndarray)) < 200 * 60


def test_the_protocol_has_a_number():
    assert isinstance(r_bridge.PROTOCOL, int)


def test_sparse_columns_are_the_dense_ones():
    x = sparse.random(40, 15, density=0.2, random_state=1, format="csc")
    y = x[:, :2].sum(axis=1).A1 + RNG.standard_normal(40)
    slots = {"nrow": 40.0, "ncol": 15.0, "i": x.indices.astype(float), "p": x.indptr.astype(float), "x": x.data}
    names = [f"v{j}" for j in range(15)]
    for x_names in (None, names):
        given = {"x_names": x_names, "y_names": ["y"], "from_formula": False, "fit": {"method": "em"}}
        model = {"unpenalized": [2.0]}
        ours = r_bridge.bayes_ridge(y[:, None], slots, model=model, **given)["value"]
        dense = r_bridge.bayes_ridge(y[:, None], x.toarray(), model=model, **given)["value"]
        np.testing.assert_allclose(ours["params"], dense["params"], rtol=1e-8, atol=1e-12)
        assert ours["names"] == dense["names"]


def test_a_fit_starts_where_another_ended():
    first = spike(method="ep")["value"]
    given = {"x_names": None, "y_names": ["y"], "from_formula": False, "model": {}, "fit": {"method": "ep"}}
    again = r_bridge.spike_slab(Y[:, None], X, **given, start=first["start"])["value"]
    assert again["n_fac"] < first["n_fac"]
    np.testing.assert_allclose(again["params"], first["params"], rtol=1e-3, atol=1e-4)


GALLERY = Path(__file__).parent / "gallery/format1"

KNOWN_TO_R = {
    "columns", "named", "x", "row_names", "weights", "levels", "group", "flat_in", "known_sigma2", "formula",
    "reads", "coding",
}  # fmt: skip


FITS = sorted(GALLERY.glob("*.fit"))


@pytest.mark.parametrize("path", FITS, ids=lambda path: path.stem)
def test_saved_fits_are_exports_with_what_r_knows_of_its_own(path):
    answer = r_bridge.read_fit(str(path))
    assert answer["error"] is None
    value = answer["value"]
    export_fields.check({name: item for name, item in value.items() if name not in KNOWN_TO_R})
    results = load(path)
    np.testing.assert_array_equal(value["params"].ravel(), np.asarray(results.params).ravel())
    removed = path.stem.endswith("_removed")
    assert ("x" in value, "fittedvalues" in value, "resid" in value) == (not removed,) * 3
    assert value["columns"] == results.model.data.exog_columns
    if not removed:
        np.testing.assert_array_equal(value["x"], results.model.data.exog)
    rows = data().iloc[[1, 5, 8]]
    if "coding" in value:
        coded = r_bridge.code_rows(value["coding"], {name: rows[name].tolist() for name in rows})
        np.testing.assert_array_equal(coded["value"]["x"], results.model.new_rows(rows, True)[0])
    else:
        assert "formula" not in value


def test_text_of_r_becomes_levels_that_are_numbers_and_missing_values_stay(tmp_path):
    frame = data().assign(year=np.tile([2001, 2002, 2003], 8))
    BayesRidge.from_formula("y ~ a + C(year) + flag", frame).fit().save(tmp_path / "a.fit")
    value = r_bridge.read_fit(str(tmp_path / "a.fit"))["value"]
    table = {"a": np.array([0.5, 1.0]), "year": ["2002", None], "flag": [True, False], "other": ["x", "y"]}
    x = r_bridge.code_rows(value["coding"], table)["value"]["x"]
    np.testing.assert_array_equal(x, [[0.5, 1.0, 0.0, 1.0], [np.nan] * 4])
    one = r_bridge.code_rows(value["coding"], {"a": 0.5, "year": 2003.0, "flag": [None]})["value"]["x"]
    assert np.isnan(one).all()
    assert "lack the variable(s) 'a'" in r_bridge.code_rows(value["coding"], {"year": ["2002"]})["error"]


def test_an_event_that_is_not_the_second_level_stays_the_event(tmp_path):
    frame = data()
    BayesRidge.from_formula("yes ~ a", frame, family="binomial", event=0).fit().save(tmp_path / "a.fit")
    assert r_bridge.read_fit(str(tmp_path / "a.fit"))["value"]["levels"] == ["1", "0"]
    BayesRidge.from_formula("yes ~ a", frame, family="binomial").fit().save(tmp_path / "a.fit")
    assert "levels" not in r_bridge.read_fit(str(tmp_path / "a.fit"))["value"]


def test_levels_with_the_names_of_successes_and_failures_are_levels(tmp_path):
    frame = data().assign(k=np.arange(24) % 4, m=3.0)
    frame["passed"] = np.where(frame["yes"] == 1, "success", "failure")
    BayesRidge.from_formula("passed ~ a", frame, family="binomial").fit().save(tmp_path / "a.fit")
    assert r_bridge.read_fit(str(tmp_path / "a.fit"))["value"]["levels"] == ["failure", "success"]
    BayesRidge.from_formula("k ~ a", frame, family="binomial", trials="m").fit().save(
        tmp_path / "a.fit", remove_data=True
    )
    assert "levels" not in r_bridge.read_fit(str(tmp_path / "a.fit"))["value"]


def test_a_file_that_can_run_code_is_not_read(tmp_path):
    path = tmp_path / "a.fit"
    BayesRidge(Y, X).fit().save(path, format="pickle")
    assert "is a pickle, which can run code" in r_bridge.read_fit(str(path))["error"]
    path.write_bytes(pickle.dumps({"a": 1}))
    assert "is a pickle, which can run code" in r_bridge.read_fit(str(path))["error"]
    path.write_text("y,x", encoding="utf-8")
    assert r_bridge.read_fit(str(path))["error"].endswith(
        "a.fit is not a fit saved by pybayesridge: it is no archive"
    )
    portable.write([1, 2], path, "0.1")
    assert r_bridge.read_fit(str(path))["error"].endswith("it holds a list")
    pool([BayesRidge(Y, X).fit("em")] * 2).save(path)
    assert "holds pooled fits, which R does not read" in r_bridge.read_fit(str(path))["error"]


def test_a_fit_of_r_is_saved_if_it_is_the_same(tmp_path):
    path = tmp_path / "a.fit"
    own = BayesRidge(Y, X).fit("em")
    given = {"x_names": NAMES, "y_names": ["y"], "from_formula": False, "model": {}, "fit": {"method": "em"}}
    posterior = {"bse": np.asarray(own.bse)[:, None], "family": "bayes_ridge", "path": str(path)}
    params = np.asarray(own.params)[:, None]
    assert (
        "its coefficients differ"
        in r_bridge.save_fit(Y[:, None], X, **given, params=params + 1, **posterior)["error"]
    )
    assert not path.exists()
    assert r_bridge.save_fit(Y[:, None], X, **given, params=params, **posterior)["value"] == {"path": str(path)}
    again = load(path)
    np.testing.assert_array_equal(np.asarray(again.params), params[:, 0])
    assert again.model.exog_names == ["const", *NAMES]


@pytest.mark.parametrize("asked", [False, True])
def test_progress_is_lines_where_stderr_is_no_terminal(asked, monkeypatch, capsys):
    monkeypatch.setattr(progress, "DELAY", 0.0)
    monkeypatch.setattr(progress, "BETWEEN_LINES", np.inf)
    x = RNG.normal(size=(40, 18))
    answer = r_bridge.spike_slab(
        (x[:, 0] + RNG.normal(size=40))[:, None],
        x,
        x_names=None,
        y_names=["y"],
        from_formula=False,
        model={},
        fit={"method": "exact", "mcse": 0.05, "maxiter": 40_000, "rng": 1},
        progress=asked,
    )
    assert answer["error"] is None
    shown = capsys.readouterr().err
    assert ("sampling: " in shown) == asked
    assert shown.count("\n") == asked


def of_r(fit, names, **model):
    """What R sends of a fit to ask a question."""
    return {
        "y": Y[:, None], "x": X, "x_names": NAMES, "y_names": ["y"], "from_formula": False, "model": model,
        "fit": {"method": "em"}, "family": "bayes_ridge", "names": names, "params": np.asarray(fit.params)[:, None],
        "bse": np.asarray(fit.bse)[:, None],
    }  # fmt: skip


def test_questions_are_answered_by_the_fit_made_again():
    fit = BayesRidge(Y, X).fit("em")
    asked = of_r(fit, ["(Intercept)", *NAMES])
    answer = r_bridge.ask([asked], "contrast", {"contrasts": ["a - `b` = 1"], "alpha": 0.1, "target": None})
    assert_plain(answer)
    expected = fit.contrast("x1 - x2 = 1", alpha=0.1)
    assert answer["value"]["columns"] == list(expected.columns)
    assert np.array_equal(answer["value"]["values"], expected.to_numpy())
    assert r_bridge.fit_again(asked) is r_bridge.fit_again(dict(asked))
    assert r_bridge.fit_again(of_r(fit, NAMES, standardize=True)) is not r_bridge.fit_again(asked)


def test_a_fit_that_is_not_reproduced_gets_no_answer():
    fit = BayesRidge(Y, X).fit("em")
    asked = of_r(fit, NAMES)
    asked["params"] = asked["params"] * 1.1
    answer = r_bridge.ask([asked], "pit", {})
    assert answer["value"] is None
    assert "coefficients differ" in answer["error"]


def test_the_last_fits_are_kept_and_no_more():
    fit = BayesRidge(Y, X).fit("em")
    first = r_bridge.fit_again(of_r(fit, NAMES))
    for tol in np.linspace(1e-9, 2e-9, r_bridge.MOST_HELD):
        other = of_r(fit, NAMES)
        other["fit"] = {"method": "em", "tol": float(tol)}
        r_bridge.fit_again(other)
    assert r_bridge.fit_again(of_r(fit, NAMES)) is not first


def test_bands_of_r_are_those_of_a_formula():
    frame = data().assign(g=list("abcd") * 6)
    expected = BayesRidge.from_formula("y ~ a + b + (1 | g)", frame).fit()
    x = expected.model.data.exog
    names = expected.model.data.exog_columns
    model = {"bands": {"g": names[2:]}, "own_scale": names[2:]}
    answer = r_bridge.bayes_ridge(
        frame[["y"]].to_numpy(), x, x_names=names, y_names=["y"], from_formula=False, model=model, fit={}
    )
    assert answer["error"] is None
    assert answer["value"]["bands"] == ["g", "other"]
    np.testing.assert_allclose(answer["value"]["params"][:, 0], expected.params, rtol=1e-9)


def test_new_groups_of_a_saved_fit_are_told(tmp_path):
    frame = data().assign(g=list("abcd") * 6)
    BayesRidge.from_formula("y ~ a + (0 + b | g)", frame).fit().save(tmp_path / "a.fit")
    value = r_bridge.read_fit(str(tmp_path / "a.fit"))["value"]
    (band,) = value["group_bands"]
    assert (band["name"], band["term"], band["variables"], band["levels"]) == ("b|g", "b", ["g"], [list("abcd")])
    assert band["columns"] == [f"b|g[{level}]" for level in "abcd"]
    table = {"a": np.array([0.0, 1.0]), "b": np.array([2.0, 3.0]), "g": ["b", "new"]}
    coded = r_bridge.code_rows(value["coding"], table)["value"]
    assert coded["bands"] == ["b|g"]
    np.testing.assert_array_equal(coded["unseen"], [[0.0], [3.0]])
    np.testing.assert_array_equal(coded["x"], [[0, 0, 2, 0, 0], [1, 0, 0, 0, 0]])
