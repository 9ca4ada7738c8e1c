"""Several responses at once: the same numbers as one at a time, under the right labels."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest

from pybayesridge import BayesRidge, DegenerateFitWarning, PybayesridgeWarning
from pybayesridge.design import design
from pybayesridge.results.prediction import COLUMNS
from pybayesridge.ridge import profile, trust
from tests.effort import pairs
from tests.problems import regression

SAME = 1e-10
"""Against fits of one target: only the order of summation differs."""

SAME_MODE = 1e-9
"""The same for modes, which are roots: log lambda is solved for to about 1e-11."""

BLOCKS = 1e-11
"""Targets in blocks and all at once: only the order of summation differs."""

HYPER_QUANTILES = 1e-5
"""Quantiles come from an interpolating spline (good to 1e-7 in probability, less in its tails)."""

METHODS = {
    "em": {"method": "em"},
    "em-plain": {"method": "em", "accelerate": False, "tol": 1e-12},
    "em-paper": {"method": "em", "dof": "paper", "parameterization": "tau"},
    "exact": {"method": "exact", "tol": 1e-12},
    "loocv": {"method": "loocv"},
    "gcv": {"method": "gcv"},
    "glmnet": {"method": "loocv", "grid": "glmnet"},
    "fixed": {"method": "fixed", "lam": 3.0},
}

DATA = {
    "tall": (50, 6, {}),
    "wide": (20, 45, {}),
    "weights": (40, 6, {"weights": np.random.default_rng(8).uniform(0.2, 5, 40)}),
    "unpenalized": (30, 40, {"unpenalized": ["x2", "x40"]}),
    "no-intercept": (40, 6, {"intercept": False, "standardize": False}),
    "sigma2": (40, 6, {"sigma2": 20.0}),
    "half-cauchy": (20, 45, {"prior": "half-cauchy"}),
    "scale": (40, 6, {"prior": (1.0, 0.5, 0.02)}),
}


def frames(n, p, targets=4):
    """Targets from strong to no signal, one of them on another scale."""
    y, x = regression(n, p, seed=12)
    rng = np.random.default_rng(13)
    unit = y.std()
    many = {
        "strong": y,
        "noisy": y + unit * rng.standard_normal(n),
        "other": 1e6 + 1e4 * (x[:, 0] / x[:, 0].std() + rng.standard_normal(n)),
        "weak": 0.2 * y / unit + rng.standard_normal(n),
    }
    index = pd.Index([f"row{i}" for i in range(n)], name="who")
    endog = pd.DataFrame(dict(list(many.items())[:targets]), index=index)
    return endog, pd.DataFrame(x, index=index, columns=[f"x{j + 1}" for j in range(p)])


def quietly(function, *args, **kwargs):
    """Call it; that a weak target has no mode or an edge of the grid is not the matter here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PybayesridgeWarning)
        return function(*args, **kwargs)


@pytest.fixture(scope="module", params=pairs(DATA, METHODS, 3), ids="-".join)
def pair(request):
    data, method = request.param
    n, p, settings = DATA[data]
    endog, exog = frames(n, p)
    together = quietly(BayesRidge(endog, exog, **settings).fit, **METHODS[method])
    apart = {name: quietly(BayesRidge(endog[name], exog, **settings).fit, **METHODS[method]) for name in endog}
    return together, apart, exog, SAME_MODE if method.startswith(("em", "exact")) else SAME


def check(actual, wanted, tolerance, unit=None):
    wanted = np.asarray(wanted, dtype=float)
    if unit is None:
        unit = np.abs(wanted).max() or 1.0
    np.testing.assert_allclose(np.asarray(actual) / unit, wanted / unit, atol=tolerance, rtol=tolerance)


def test_numbers_are_those_of_single_fits(pair):
    together, apart, exog, tolerance = pair
    for i, (name, one) in enumerate(apart.items()):
        null = one.lambda_ == np.inf
        sd = np.where(np.asarray(one.bse) > 0, one.bse, 1.0)
        check(together.params[name], one.params, tolerance, sd)
        check(together.bse[name], one.bse, tolerance, sd)
        check(together.posterior_var[name], one.posterior_var, 2 * tolerance, sd**2)
        for attribute in ("lambda_", "tau2", "sigma2", "df_model", "df_resid", "rsquared", "n_modes"):
            actual, wanted = getattr(together, attribute)[name], getattr(one, attribute)
            if not (null and attribute == "lambda_"):
                assert actual == pytest.approx(wanted, rel=10 * tolerance, abs=10 * tolerance), attribute
        assert together.log_marginal[name] == pytest.approx(one.log_marginal, rel=1e-9, nan_ok=True)
        unit = np.abs(one.resid).max()
        check(together.fittedvalues[name], one.fittedvalues, tolerance)
        check(together.resid[name], one.resid, 10 * tolerance, np.abs(one.resid + one.fittedvalues).max())
        check(together.loo_residuals[name], one.loo_residuals, 100 * tolerance, unit)
        assert together.loo_mse[name] == pytest.approx(one.loo_mse, rel=100 * tolerance)
        interval, wanted = together.conf_int(0.1), one.conf_int(0.1)
        for side in wanted.columns:
            check(interval[name][side], wanted[side], 10 * tolerance, sd)
        check(together.cov_params(name), one.cov_params(), 10 * tolerance)
        check(together.cov_params(i), one.cov_params(), 10 * tolerance)
        if one.grid_scores is not None:
            check(together.grid_scores[:, i], one.grid_scores, tolerance)
        pd.testing.assert_frame_equal(
            together.hyperparameters().loc[name], one.hyperparameters(), rtol=HYPER_QUANTILES, check_names=False
        )
        prediction = together.get_prediction(exog.iloc[:3]).summary_frame(0.1)
        check(prediction[name], one.get_prediction(exog.iloc[:3]).summary_frame(0.1), 10 * tolerance)
        check(together.predict(exog.iloc[:3])[name], one.predict(exog.iloc[:3]), tolerance)


def test_labels(pair):
    together, apart, exog, _ = pair
    names, targets = list(next(iter(apart.values())).params.index), list(apart)
    for frame in (together.params, together.bse, together.posterior_var):
        assert list(frame.index) == names
        assert list(frame.columns) == targets
    for frame in (together.fittedvalues, together.resid, together.loo_residuals, together.predict(exog)):
        assert frame.index.equals(exog.index)
        assert list(frame.columns) == targets
    for series in (together.lambda_, together.tau2, together.sigma2, together.df_model, together.rsquared):
        assert isinstance(series, pd.Series)
        assert list(series.index) == targets
    prediction = together.get_prediction(exog.iloc[:2]).summary_frame()
    assert list(prediction.columns) == [(t, c) for t in targets for c in COLUMNS]
    assert prediction.index.equals(exog.index[:2])
    assert list(together.diagnostics().columns) == targets
    assert list(together.hyperparameters().index.unique(0)) == targets


def test_summary_has_a_table_for_each_target(pair):
    together, apart, _, _ = pair
    summary = together.summary()
    text = summary.as_text()
    for name in apart:
        assert f"Dep. Variable: {name:>21}" in text or name in text
    assert text.count("Dep. Variable:") == len(apart)
    assert summary.as_html().count("Dep. Variable:") == len(apart)


def test_pickle(pair):
    together, _, exog, _ = pair
    again = pickle.loads(pickle.dumps(together))
    pd.testing.assert_frame_equal(again.params, together.params)
    pd.testing.assert_frame_equal(
        again.get_prediction(exog.iloc[:2]).summary_frame(), together.get_prediction(exog.iloc[:2]).summary_frame()
    )


def test_covariance_needs_a_target():
    endog, exog = frames(50, 6, 2)
    res = BayesRidge(endog, exog).fit()
    with pytest.raises(ValueError, match="needs target="):
        res.cov_params()
    with pytest.raises(ValueError, match="'who'"):
        res.cov_params("who")
    with pytest.raises(ValueError, match="target 2"):
        res.cov_params(2)


def test_arrays_get_numbered_names():
    endog, exog = frames(50, 6, 3)
    res = BayesRidge(endog.to_numpy(), exog.to_numpy()).fit()
    assert list(res.params.columns) == ["y1", "y2", "y3"]
    assert list(res.params.index) == ["const", *(f"x{j + 1}" for j in range(6))]


def test_one_column_of_a_frame_is_one_column_of_results():
    endog, exog = frames(50, 6, 1)
    res, one = BayesRidge(endog, exog).fit(), BayesRidge(endog["strong"], exog).fit()
    np.testing.assert_allclose(np.asarray(res.params).ravel(), one.params, rtol=1e-12)


def test_formula_with_two_targets():
    endog, exog = frames(50, 6, 2)
    data = pd.concat([endog, exog], axis=1)
    res = BayesRidge.from_formula("strong + noisy ~ x1 + x2 + x3", data).fit("exact")
    wanted = BayesRidge(endog, exog[["x1", "x2", "x3"]]).fit("exact")
    assert list(res.params.columns) == ["strong", "noisy"]
    assert list(res.params.index) == ["Intercept", "x1", "x2", "x3"]
    np.testing.assert_allclose(res.params, wanted.params, rtol=SAME)
    frame = res.get_prediction(data.iloc[:2]).summary_frame()
    assert list(frame.columns.unique(0)) == ["strong", "noisy"]
    np.testing.assert_allclose(frame, wanted.get_prediction(exog.iloc[:2, :3]).summary_frame(), rtol=1e-9)


def test_formula_drops_rows_in_which_any_target_is_missing():
    endog, exog = frames(50, 6, 2)
    data = pd.concat([endog, exog], axis=1)
    data.iloc[3, 0] = np.nan
    data.iloc[5, 1] = np.nan
    res = BayesRidge.from_formula("strong + noisy ~ x1 + x2", data).fit()
    assert res.nobs == 48
    assert "2 row(s)" in res.summary().as_text()


def test_one_bad_target_does_not_touch_the_others():
    endog, exog = frames(50, 6, 2)
    endog["constant"] = 3.0
    endog["exact"] = exog["x1"] * 2 + 1
    for method in ("em", "exact"):
        with pytest.warns(DegenerateFitWarning) as told:
            res = BayesRidge(endog, exog).fit(method)
        messages = " ".join(str(w.message) for w in told)
        assert "constant" in messages
        assert "exact" in messages
        wanted = BayesRidge(endog[["strong", "noisy"]], exog).fit(method)
        check(res.params[["strong", "noisy"]], wanted.params, SAME_MODE, wanted.bse.to_numpy())
        check(res.bse[["strong", "noisy"]], wanted.bse, SAME_MODE, wanted.bse.to_numpy())
        assert (res.params["constant"].iloc[1:] == 0).all()
        assert (res.bse["constant"] == 0).all()
        assert res.params.loc["x1", "exact"] == pytest.approx(2, rel=1e-10)
        assert np.isnan(res.log_marginal[["constant", "exact"]]).all()
        assert np.isfinite(res.log_marginal[["strong", "noisy"]]).all()


def test_repeated_targets_agree_to_the_last_digits():
    endog, exog = frames(50, 6, 1)
    y = endog["strong"].to_numpy()
    res = BayesRidge(np.column_stack([y, -y, 1e100 * y, 1e-100 * y]), exog).fit("exact")
    for i, factor in enumerate((1.0, -1.0, 1e100, 1e-100)):
        np.testing.assert_allclose(res.params.iloc[:, i] / factor, res.params.iloc[:, 0], rtol=1e-11)
        assert res.tau2.iloc[i] == pytest.approx(res.tau2.iloc[0], rel=1e-11)


def test_penalties_of_the_users_for_each_target():
    endog, exog = frames(50, 6, 3)
    lam = np.array([0.1, 3.0, 200.0])
    res = BayesRidge(endog, exog).fit("fixed", lam=lam)
    np.testing.assert_allclose(res.lambda_, lam, rtol=1e-14)
    for i, name in enumerate(endog):
        one = BayesRidge(endog[name], exog).fit("fixed", lam=lam[i])
        check(res.params[name], one.params, SAME, one.bse.to_numpy())
    with pytest.raises(ValueError, match="one for each of 3 targets"):
        BayesRidge(endog, exog).fit("fixed", lam=[1.0, 2.0])


def test_no_target_is_refused():
    with pytest.raises(ValueError, match="endog"):
        BayesRidge(np.empty((20, 0)), np.ones((20, 2)))


def test_many_more_targets_than_rows():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((30, 4))
    y = x @ rng.standard_normal((4, 300)) + rng.standard_normal((30, 300))
    for method in ("em", "exact", "gcv"):
        res = quietly(BayesRidge(y, x).fit, method)
        for i in (0, 150, 299):
            one = quietly(BayesRidge(y[:, i], x).fit, method)
            check(res.params.iloc[:, i], one.params, SAME_MODE, one.bse.to_numpy())


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("method", ["exact", "em"])
def test_blocks_of_targets_change_nothing(method, weighted, monkeypatch):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((30, 4))
    y = x @ (rng.standard_normal((4, 700)) * np.linspace(0, 3, 700)) + rng.standard_normal((30, 700))
    y[:, 300] = 7.0
    weights = rng.uniform(0.5, 2.0, 30) if weighted else None

    def fit():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DegenerateFitWarning)
            return BayesRidge(y, x, weights=weights).fit(method).arrays

    whole = fit()
    for module in (design, profile, trust):
        name = "block_size" if module is design else "CHUNK"
        monkeypatch.setattr(module, name, (lambda other: 256) if module is design else 500)
    parts = fit()
    for name in ("params", "bse", "sigma2", "df_model", "precision_loss"):
        np.testing.assert_allclose(getattr(parts, name), getattr(whole, name), rtol=BLOCKS, atol=BLOCKS)


@pytest.mark.parametrize("shape", [(1, 1), (7, 3), (3, 40), (1, 100), (50, 1), (0, 2), (2, 0)])
@pytest.mark.parametrize("rank", [0, 1, 4, 1000])
def test_blocks_of_nodes_cover_all_points_once(shape, rank, monkeypatch):
    monkeypatch.setattr(profile, "CHUNK", 20)
    count = np.zeros(shape)
    for at in profile.node_blocks(count, rank):
        assert count[at].size * rank <= max(20, rank)
        count[at] += 1
    assert count.all()
    assert count.sum() == count.size
