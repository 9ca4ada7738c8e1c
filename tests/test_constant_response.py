"""SpikeSlab where the unpenalised columns fit the response exactly: a limit where the noise is learned."""

import json
import re
import warnings

import numpy as np
import pandas as pd
import pytest

from pybayesridge import (
    BayesRidge,
    DegenerateFitWarning,
    Moments,
    SpikeSlab,
    compare_evidence,
    r_bridge,
)
from pybayesridge.cli import main

MESSAGE = "unpenalised columns fit the response exactly"
LEVEL = 3.0
DIGITS = 1e-12
LIMIT = 1e-3
"""Inclusion probabilities with the noise variance at 1e-12 of the slab's are this close to their limit."""

P, V = {"prior_inclusion": 0.3}, {"slab_var": 2.0}
KNOWN = {"nothing": {}, "p": P, "v": V, "both": P | V, "by column": {"prior_inclusion": [0.2, 0.0, 1.0, 0.5]} | V}


def columns(n=20, p=4):
    return np.random.default_rng(0).normal(size=(n, p))


def degenerate(y, x, fit=(), hyper=None, **model):
    with pytest.warns(DegenerateFitWarning, match=MESSAGE):
        return SpikeSlab(y, x, **model).fit(*fit, hyper=hyper)


def check_limit(res, level=LEVEL):
    expected = np.zeros(len(res.params))
    expected[0] = level
    np.testing.assert_allclose(res.params, expected, rtol=DIGITS, atol=0)
    np.testing.assert_array_equal(res.bse, 0)
    np.testing.assert_array_equal(res.cov_params(), 0)
    np.testing.assert_allclose(res.conf_int(), np.column_stack([expected, expected]), rtol=DIGITS, atol=0)
    np.testing.assert_array_equal(res.cond_mean.iloc[1:], 0)
    np.testing.assert_array_equal(res.cond_var, 0)
    assert res.noise_var == 0
    assert np.isnan(res.log_evidence)
    assert (res.converged, res.n_iter) == (True, 0)
    assert MESSAGE in " ".join(str(res.summary()).split())
    assert "nan" not in str(res.summary())


@pytest.mark.parametrize("known", KNOWN)
@pytest.mark.parametrize(
    ("fit", "hyper"), [("ep", "maximize"), ("damped", "maximize"), ("pcep", "maximize"), ("ep", "average")]
)
def test_a_constant_response_has_a_defined_limit(known, fit, hyper):
    given = KNOWN[known]
    res = degenerate(np.full(20, LEVEL), columns(), (fit,), hyper, **given)
    check_limit(res)
    assert res.learned == tuple(n for n in ("prior_inclusion", "slab_var", "noise_var") if n not in given)
    certain = np.asarray(given.get("prior_inclusion", 0)) == 1
    np.testing.assert_array_equal(res.inclusion_prob.iloc[1:], np.broadcast_to(certain, 4).astype(float))
    assert res.slab_var == pytest.approx(given.get("slab_var", 0), rel=DIGITS)
    if "prior_inclusion" not in given:
        # The maximum of (1 - p)^4 times the prior, on a fine grid of the log odds.
        t = np.linspace(-6, 0, 1_000_001)
        p = 1 / (1 + np.exp(-t))
        shifted = t + np.log(3)
        best = p[np.argmax(4 * np.log1p(-p) - shifted - 2 * np.log1p(np.exp(-shifted)))]
        assert res.prior_inclusion == pytest.approx(best, rel=1e-5)
    assert res.median_model() == ["x3"] * int(certain.any())


@pytest.mark.parametrize("y", [np.full(10, 1e5), np.zeros(10), np.full(10, 1e-250)])
def test_more_columns_than_rows(y):
    check_limit(degenerate(y, columns(10, 30)), y[0])
    check_limit(degenerate(y, columns(10, 30), **P), y[0])


def test_more_columns_than_rows_with_a_given_slab():
    check_limit(degenerate(np.full(10, LEVEL), columns(10, 30), **P, **V))


def test_weights_groups_moments_and_unpenalised_columns():
    x, y = columns(), np.full(20, LEVEL)
    check_limit(degenerate(y, x, weights=np.linspace(0.1, 1, 20)))
    grouped = degenerate(y, x, group=["a", "a", "b", "b"], slab_var=1.0)
    check_limit(grouped)
    assert grouped.prior_inclusion == pytest.approx(1 / 4, rel=DIGITS)
    assert (grouped.group_inclusion_prob == 0).all()
    moments = SpikeSlab.from_moments(Moments.from_arrays(y, x))
    with pytest.warns(DegenerateFitWarning, match=MESSAGE):
        check_limit(moments.fit())
    line = degenerate(2 * x[:, 0] + 1, x, unpenalized=["x1"])
    np.testing.assert_allclose(line.params, [1, 2, 0, 0, 0], atol=1e-13)
    np.testing.assert_array_equal(line.inclusion_prob, [1, 1, 0, 0, 0])
    assert line.noise_var == 0


def test_it_is_the_limit_of_ordinary_fits():
    """With a given slab every probability falls to 0 with the noise, apart from the prior's ones."""
    x, y = columns(), np.full(20, LEVEL)
    for given in (P | V, KNOWN["by column"]):
        limit = degenerate(y, x, **given)
        near = SpikeSlab(y, x, noise_var=1e-12, **given).fit()
        np.testing.assert_allclose(near.inclusion_prob, limit.inclusion_prob, atol=LIMIT)
        np.testing.assert_allclose(near.params, limit.params, atol=LIMIT)
        np.testing.assert_allclose(near.bse, limit.bse, atol=LIMIT)


def test_where_the_slab_alone_decides_it_is_refused():
    x, y = columns(), np.full(20, LEVEL)
    twin = np.column_stack([x, x[:, 0]])
    for p in ([1, 0.2, 0.2, 0.2, 1], [1, 0.2, 0.2, 0.2, 0.5]):
        with pytest.raises(ValueError, match=r"slab_var alone decides.*give noise_var"):
            SpikeSlab(y, twin, prior_inclusion=p, **V).fit()
        check_limit(degenerate(y, twin, prior_inclusion=p))
    check_limit(degenerate(y, twin, prior_inclusion=[1, 0.2, 0.2, 0.2, 0], **V))
    with pytest.raises(ValueError, match="slab_var alone decides"):
        SpikeSlab(y[:3], x[:3], prior_inclusion=1.0, **V).fit()


def test_a_known_noise_is_an_ordinary_problem_whatever_the_level():
    x = columns()
    low = SpikeSlab(np.full(20, LEVEL), x, noise_var=1.0).fit()
    high = SpikeSlab(np.full(20, 1e4), x, noise_var=1.0).fit()
    scaled = SpikeSlab(np.zeros(20), x, noise_var=1e6).fit()
    assert low.noise_var == pytest.approx(1.0, rel=DIGITS)
    assert low.converged
    assert np.isfinite(low.log_evidence)
    for other in (high, scaled):
        np.testing.assert_allclose(other.inclusion_prob, low.inclusion_prob, rtol=1e-6)
    assert high.slab_var == pytest.approx(low.slab_var, rel=1e-6)
    assert scaled.slab_var == pytest.approx(1e6 * low.slab_var, rel=1e-6)
    assert (low.bse > 0).all()


def test_predictions_draws_and_files(tmp_path):
    x = columns()
    res = degenerate(np.full(20, LEVEL), x, prior_inclusion=[0.2, 0.0, 1.0, 0.5])
    np.testing.assert_allclose(res.predict(x[:3]), LEVEL, rtol=DIGITS)
    frame = res.get_prediction(x[:1] + 1).summary_frame()
    np.testing.assert_allclose(frame.iloc[0], [LEVEL, 0, LEVEL, LEVEL, LEVEL, LEVEL], rtol=DIGITS)
    for kind in ("gaussian", "gibbs"):
        np.testing.assert_allclose(res.sample(7, rng=0, kind=kind), np.tile(res.params, (7, 1)), rtol=DIGITS)
    assert not res.tidy().isna().any(axis=None)
    with pytest.raises(ValueError, match="start is a fit without noise"):
        SpikeSlab(x[:, 0] + columns(20, 1)[:, 0], x).fit("ep", start=res)
    with pytest.raises(ValueError, match="has no evidence"):
        compare_evidence({"one": res})
    path = tmp_path / "fit.pickle"
    res.save(path)
    again = type(res).load(path)
    check_limit(again)
    res.remove_data(row_space=False)
    np.testing.assert_allclose(res.conf_int().loc["const"], LEVEL, rtol=DIGITS)
    assert (res.bse == 0).all()


def test_pictures_and_report(tmp_path):
    pytest.importorskip("matplotlib").use("Agg")
    from matplotlib import pyplot

    pytest.importorskip("jinja2")
    x = columns()
    res = degenerate(np.full(20, LEVEL), x, prior_inclusion=[0.2, 0.0, 1.0, 0.5])
    for name in ("inclusion", "coefficients", "n_included", "trace", "fit", "residuals"):
        getattr(res, f"plot_{name}")().figure.canvas.draw()
    pyplot.close("all")
    page = res.report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert MESSAGE in page
    assert not re.search(r"[ >]nan[ <.;]", page)


def test_the_estimator():
    pytest.importorskip("sklearn")
    from pybayesridge.sklearn import SpikeSlabRegressor

    x = columns()
    with pytest.warns(DegenerateFitWarning, match=MESSAGE):
        model = SpikeSlabRegressor().fit(x, np.full(20, LEVEL))
    np.testing.assert_array_equal(model.coef_, 0)
    np.testing.assert_array_equal(model.inclusion_prob_, 0)
    np.testing.assert_allclose(model.predict(x), LEVEL, rtol=DIGITS)
    assert model.sigma2_ == 0


def test_the_command_line(tmp_path, capsys):
    file = tmp_path / "data.csv"
    pd.DataFrame(columns(), columns=list("abcd")).assign(y=LEVEL).to_csv(file, index=False)
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        assert main(["spikeslab", "y ~ a + b", str(file), "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert main(["spikeslab", "y ~ a + b", str(file)]) == 0
    assert MESSAGE in " ".join(capsys.readouterr().out.split())
    target = found["targets"][0]
    assert found["warnings"] == ["The unpenalised columns fit the response exactly: there is nothing to explain."]
    assert (target["noise_var"], target["log_evidence"], target["median_model"]) == (0, None, [])
    assert [row["inclusion_prob"] for row in target["coefficients"]] == [1, 0, 0]
    assert [row["sd"] for row in target["coefficients"]] == [0, 0, 0]


def test_values_for_r():
    frame = pd.DataFrame(columns(), columns=list("abcd")).assign(y=LEVEL)
    with pytest.warns(DegenerateFitWarning, match=MESSAGE):
        res = SpikeSlab.from_formula("y ~ a + b", frame).fit("ep")
    values = r_bridge.values(res, True)
    assert values["noise_var"] == 0
    assert np.isfinite(values["posterior"]["own"]).all()


def test_the_ridge_gives_the_same():
    x, y = columns(), np.full(20, LEVEL)
    with pytest.warns(DegenerateFitWarning, match=MESSAGE):
        ridge = BayesRidge(y, x).fit()
    res = degenerate(y, x)
    np.testing.assert_allclose(res.params, ridge.params, rtol=DIGITS, atol=0)
    np.testing.assert_array_equal(res.bse, ridge.bse)
