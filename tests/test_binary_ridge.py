"""The ridge for yes/no responses as users call it."""

import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.interpolate import CubicSpline
from scipy.optimize import minimize
from scipy.special import expit, ndtr

import pybayesridge
from pybayesridge import BayesRidge, ConvergenceWarning, DegenerateFitWarning, GridEdgeWarning
from tests.binomial.problems import columns, responses

SAME = 1e-8
"""The same fit by another way."""

NEAR = 1e-4
"""Fits of the same problem in other coordinates: EP stops at 1e-6 of a standard deviation."""

QUADRATURE_MEAN, QUADRATURE_SD = 0.05, 0.03
"""EP beside the integral over a grid, in posterior standard deviations and relative: as with stored NUTS."""

MODE_TOL = 1e-5


def frame(n=60, p=3, seed=5, **kwargs):
    x = columns(n, p, seed)
    out = pd.DataFrame(x, columns=[f"x{j}" for j in range(p)])
    out["y"] = responses(x, seed, **kwargs)
    return out


DATA = frame()
FORMULA = "y ~ x0 + x1 + x2"


@pytest.fixture(scope="module")
def fitted():
    return BayesRidge.from_formula(FORMULA, DATA, family="binomial").fit()


def test_one_class_has_both_families():
    model = BayesRidge(DATA["y"], DATA[["x0"]], family="binomial")
    assert (type(model), model.family, model.link) == (BayesRidge, "binomial", "logit")
    gaussian = BayesRidge(DATA["x1"], DATA[["x0"]])
    assert (type(gaussian), gaussian.family) == (BayesRidge, "gaussian")
    with pytest.raises(AttributeError, match="link is an attribute of models with family='binomial'"):
        _ = gaussian.link
    with pytest.raises(
        ValueError,
        match=r"family must be 'gaussian', .*'beta-binomial' or 'student-t', not 'gamma'",
    ):
        BayesRidge(DATA["y"], DATA[["x0"]], family="gamma")


@pytest.mark.parametrize("link", ["logit", "probit"])
def test_laplace_at_a_penalty_is_the_penalised_mode(link):
    """Beside a general optimiser on standardised columns."""
    x, y = DATA[["x0", "x1", "x2"]].to_numpy(), DATA["y"].to_numpy()
    res = BayesRidge(y, x, family="binomial", link=link).fit("fixed", lam=2.0, solver="laplace")
    unit = (x - x.mean(0)) / x.std(0)
    share = expit if link == "logit" else ndtr

    def loss(b):
        eta = b[0] + unit @ b[1:]
        return -np.log(np.where(y == 1, share(eta), share(-eta))).sum() + b[1:] @ b[1:]

    b = minimize(loss, np.zeros(4), method="BFGS", options={"gtol": 1e-9}).x
    assert res.params.to_numpy()[1:] == pytest.approx(b[1:] / x.std(0), abs=MODE_TOL)
    assert res.params.iloc[0] == pytest.approx(b[0] - b[1:] @ (x.mean(0) / x.std(0)), abs=MODE_TOL)
    assert res.lambda_ == pytest.approx(2.0)


@pytest.mark.parametrize("link", ["logit", "probit"])
def test_one_column_beside_the_integral_over_a_grid(link):
    """Penalty, slope and intercept, with the prior written down afresh."""
    x, y = DATA["x0"].to_numpy(), DATA["y"].to_numpy()
    res = BayesRidge(y, x, family="binomial", link=link).fit()
    unit = (x - x.mean()) / x.std()
    share, c = (expit, np.pi**2 / 3) if link == "logit" else (ndtr, 1.0)
    g, b = np.linspace(-4, 4, 201), np.linspace(-4, 4, 161)
    eta = g[:, None, None] + b[:, None] * unit
    likelihood = np.exp(np.log(np.where(y == 1, share(eta), share(-eta))).sum(-1)).sum(0) * (g[1] - g[0])
    log_of_slope = CubicSpline(b, np.log(likelihood))
    log_t, z = np.linspace(-30, 15, 301), np.linspace(-8, 8, 401)
    # beta-prime(1/2, 1/2) in log t, times the factor (1 + t)^(-1/2) of the intercept; the slope given t is normal
    weight = np.exp(0.5 * log_t - 1.5 * np.log1p(np.exp(log_t))) / np.pi * (log_t[1] - log_t[0])
    slope = np.sqrt(c * np.exp(log_t))[:, None] * z
    normal = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi) * (z[1] - z[0])
    mass = np.where(np.abs(slope) < 4, np.exp(log_of_slope(np.clip(slope, -4, 4))), 0.0) * normal * weight[:, None]
    evidence = mass.sum()
    mean = (mass * slope).sum() / evidence
    sd = np.sqrt((mass * slope**2).sum() / evidence - mean**2)
    assert res.params.iloc[1] * x.std() == pytest.approx(mean, abs=QUADRATURE_MEAN * sd)
    assert res.bse.iloc[1] * x.std() == pytest.approx(sd, rel=QUADRATURE_SD)
    assert res.log_marginal == pytest.approx(np.log(evidence), abs=0.02)


def test_strings_event_and_flipped_labels(fitted):
    text = DATA.assign(y=np.where(DATA["y"] == 1, "yes", "no"))
    res = BayesRidge.from_formula(FORMULA, text, family="binomial").fit()
    assert (res.event, res.model.data.ynames) == ("yes", "y")
    assert res.params.to_numpy() == pytest.approx(fitted.params.to_numpy(), abs=SAME)
    other = BayesRidge.from_formula(FORMULA, text, family="binomial", event="no").fit()
    assert other.event == "no"
    assert other.params.to_numpy() == pytest.approx(-fitted.params.to_numpy(), abs=NEAR)
    assert other.loo_log_score == pytest.approx(fitted.loo_log_score, abs=NEAR)
    assert other.log_marginal == pytest.approx(fitted.log_marginal, abs=NEAR)


def test_responses_that_are_expressions_or_factors_with_missing_values(fitted):
    text = DATA.assign(y=pd.Categorical(np.where(DATA["y"] == 1, "b", "a"), categories=["c", "a", "b"]))
    text.loc[7, "y"] = None
    model = BayesRidge.from_formula(FORMULA, text, family="binomial")
    assert (model.nobs, model.data.n_dropped, model.event) == (59, 1, "b")
    assert BayesRidge.from_formula("I(y > 0.5) ~ x0", DATA, family="binomial").endog.tolist() == DATA["y"].tolist()
    with pytest.raises(ValueError, match="3 levels"):
        BayesRidge.from_formula("g ~ x0", DATA.assign(g=["a", "b", "c"] * 20), family="binomial")
    with pytest.raises(ValueError, match="is a factor"):
        BayesRidge.from_formula(FORMULA, text)


def test_arrays_and_sparse_columns_are_the_formula(fitted):
    x, y = DATA[["x0", "x1", "x2"]], DATA["y"].to_numpy()
    for exog in (x.to_numpy(), sparse.csc_matrix(x.to_numpy())):
        res = BayesRidge(y, exog, family="binomial").fit()
        assert res.params.to_numpy() == pytest.approx(fitted.params.to_numpy(), abs=NEAR)
        assert res.predict(x).to_numpy() == pytest.approx(fitted.fittedvalues.to_numpy(), abs=NEAR)


def test_trials_are_rows_and_weights_are_copies():
    rng = np.random.default_rng(8)
    short = pd.DataFrame({"x": np.linspace(-1, 1, 12), "m": rng.integers(1, 5, 12)})
    short["s"] = rng.binomial(short["m"], expit(2 * short["x"]))
    long = pd.DataFrame(
        [(x, int(i < s)) for x, m, s in zip(short["x"], short["m"], short["s"], strict=True) for i in range(m)],
        columns=["x", "y"],
    )
    rows = BayesRidge.from_formula("y ~ x", long, family="binomial").fit()
    by_trials = BayesRidge.from_formula("s ~ x", short, family="binomial", trials="m").fit()
    counted = long.value_counts(["x", "y"]).rename("w").reset_index()
    by_weights = BayesRidge.from_formula("y ~ x", counted, family="binomial", weights="w").fit()
    for res in (by_trials, by_weights):
        assert res.params.to_numpy() == pytest.approx(rows.params.to_numpy(), abs=0.02)
        assert res.bse.to_numpy() == pytest.approx(rows.bse.to_numpy(), rel=0.01)
        assert (res.n_trials, res.n_events) == (len(long), long["y"].sum())
    assert by_weights.loo_brier == pytest.approx(rows.loo_brier, abs=0.005)
    assert by_trials.event == "success"
    with pytest.raises(ValueError, match="trials must be positive and finite"):
        BayesRidge.from_formula("s ~ x", short.assign(m=0), family="binomial", trials="m")
    with pytest.raises(ValueError, match="trials names 'q', which is not a column"):
        BayesRidge.from_formula("s ~ x", short, family="binomial", trials="q")


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"link": "cloglog"}, "link must be 'logit' or 'probit'"),
        ({"flat_in": "odds"}, "flat_in must be 'latent' or 'link'"),
        ({"sigma2": 1.0}, "binomial responses have no noise variance"),
        ({"family": "gaussian", "link": "logit"}, "link requires family='binomial'"),
        ({"family": "gaussian", "event": 1}, "event requires family='binomial'"),
        ({"family": "gaussian", "trials": np.ones(60)}, "trials requires family='binomial'"),
    ],
)
def test_arguments_of_a_family(kwargs, message):
    with pytest.raises(ValueError, match=message):
        BayesRidge(DATA["y"], DATA[["x0"]], **({"family": "binomial"} | kwargs))


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"method": "exact"}, "the posterior of other models has no closed form; use 'ep'"),
        ({"method": "gcv"}, "use 'loocv'"),
        ({"method": "nuts"}, "method must be one of 'ep', 'laplace', 'em', 'loocv', 'fixed'"),
        ({"method": "fixed"}, "method='fixed' requires lam"),
        ({"method": "fixed", "lam": 0.0}, "lam must be"),
        ({"solver": "laplace"}, "solver is an option of method="),
        ({"method": "em", "solver": "nuts"}, "solver must be 'ep' or 'laplace'"),
        ({"method": "loocv", "grid": "fixed"}, "grid must be an array of penalties"),
        ({"method": "loocv", "grid": [-1.0]}, "positive, finite penalties"),
    ],
)
def test_arguments_of_fit(kwargs, message):
    model = BayesRidge(DATA["y"], DATA[["x0"]], family="binomial")
    with pytest.raises(ValueError, match=message):
        model.fit(**kwargs)


def test_what_needs_gaussian_noise_says_so(tmp_path):
    moments = pybayesridge.Moments.from_arrays(DATA["y"], DATA[["x0"]])
    for call in (
        lambda: BayesRidge.from_moments(moments, family="binomial"),
        lambda: BayesRidge.from_parquet(tmp_path / "none.parquet", "y ~ x", family="binomial"),
        lambda: BayesRidge.from_dask(None, "y ~ x", family="binomial"),
    ):
        with pytest.raises(ValueError, match="do not determine the likelihood of family='binomial'"):
            call()
    with pytest.raises(ValueError, match="takes one response, got 2 columns"):
        BayesRidge(DATA[["y", "x0"]], DATA[["x1"]], family="binomial")


def test_methods_agree_on_easy_data():
    data = frame(200, 3, 11)
    model = BayesRidge.from_formula(FORMULA, data, family="binomial")
    found = {name: model.fit(name) for name in ("ep", "laplace", "em", "loocv")}
    given = model.fit("fixed", lam=found["ep"].lambda_)
    assert given.lambda_ == pytest.approx(found["ep"].lambda_)
    for name, res in (found | {"fixed": given}).items():
        assert res.converged, name
        assert (np.abs(res.params - found["ep"].params) < 0.4 * found["ep"].bse).all(), name
    scores = found["loocv"].grid_scores
    assert found["loocv"].lambda_ == pytest.approx(found["loocv"].grid[scores.argmax()])
    assert found["loocv"].loo_log_score == pytest.approx(scores.max(), abs=SAME)
    with pytest.warns(GridEdgeWarning, match="edge of the grid"):
        model.fit("loocv", grid=[1e4, 1e5])
    with pytest.warns(ConvergenceWarning, match="NOT CONVERGED within maxiter=1 sweeps"):
        model.fit("fixed", lam=1.0, maxiter=1)


@pytest.mark.parametrize("text", [False, True])
def test_the_trials_are_no_predictor_of_the_dot(text):
    """Neither in the short way for numbers nor in formulaic's; a formula that names them has them."""
    trials = np.tile([2.0, 3.0, 5.0], 20)
    data = DATA[["y", "x0"]].assign(m=trials, g=["a", "b"] * 30) if text else DATA[["y", "x0"]].assign(m=trials)
    model = BayesRidge.from_formula("y ~ .", data, family="binomial", trials="m")
    assert [name for name in model.exog_names if name.startswith("m")] == []
    res = model.fit("fixed", lam=1.0)
    assert res.predict(data.drop(columns=["m"])).to_numpy() == pytest.approx(res.fittedvalues.to_numpy(), abs=NEAR)
    named = BayesRidge.from_formula("y ~ . + m", data, family="binomial", trials="m")
    assert "m" in named.exog_names


def test_nothing_to_shrink():
    with pytest.warns(DegenerateFitWarning, match="nothing to shrink"):
        res = BayesRidge.from_formula("y ~ x0", DATA, family="binomial", unpenalized="x0").fit()
    assert res.params.notna().all()
    assert res.hyperparameters().shape == (3, 4)


def test_separation_by_unpenalised_columns_names_them():
    data = DATA.assign(sure=DATA["y"] * 2 - 1)
    model = BayesRidge.from_formula("y ~ x0 + sure", data, family="binomial", unpenalized="sure")
    with pytest.raises(ValueError, match=r"unpenalised column\(s\) .*'sure' separate the responses"):
        model.fit()


def test_a_perfect_predictor_has_a_defined_answer():
    data = DATA.assign(sure=DATA["y"] * 2 - 1)
    res = BayesRidge.from_formula("y ~ x0 + sure", data, family="binomial").fit()
    assert res.converged
    assert res.params["sure"] > 0
    assert np.isfinite(res.conf_int().to_numpy()).all()
    assert res.loo_auc == pytest.approx(1.0)
    assert "separation" in [found.code for found in res.findings]
    assert "separate the responses" in str(res.summary())
    with pytest.raises(ValueError, match="no posterior covariance"):
        res.cov_params()
    link = BayesRidge.from_formula("y ~ x0 + sure", data, family="binomial", flat_in="link")
    assert np.isfinite(link.fit("fixed", lam=1.0).params).all()


def test_more_columns_than_rows():
    data = frame(24, 60, 3)
    res = BayesRidge.from_formula("y ~ .", data, family="binomial").fit()
    assert res.converged
    assert np.isfinite(res.params).all()
    assert np.isinf(res.bse[1:]).all()
    assert res.predict(data).to_numpy() == pytest.approx(res.fittedvalues.to_numpy(), abs=NEAR)
    center = res.contrast({"x0": "x0"})["mean"].iloc[0]
    assert center == pytest.approx(res.params["x0"], abs=NEAR)
    assert np.isfinite(res.sample(10, rng=0).to_numpy()).all()
    assert "median" in str(res.summary())


def test_rare_events():
    rng = np.random.default_rng(4)
    data = pd.DataFrame({"x": rng.standard_normal(1000), "y": np.repeat([1, 0], [5, 995])})
    res = BayesRidge.from_formula("y ~ x", data, family="binomial").fit()
    assert res.converged
    assert res.fittedvalues.mean() == pytest.approx(0.005, rel=0.25)
    assert "There are only 5 events among 1000 trials" in str(res.notes)


def test_extreme_scales_without_standardising():
    data = DATA.assign(x0=DATA["x0"] * 1e6, x1=DATA["x1"] * 1e-6)
    res = BayesRidge.from_formula("y ~ x0 + x1", data, family="binomial", standardize=False).fit()
    assert res.converged
    assert np.isfinite(res.params).all()
    one = BayesRidge.from_formula("y ~ x0", DATA.assign(x0=DATA["x0"] * 1e6), family="binomial", standardize=False)
    plain = BayesRidge.from_formula("y ~ x0", DATA, family="binomial", standardize=False).fit()
    assert one.fit().params["x0"] * 1e6 == pytest.approx(plain.params["x0"], abs=NEAR)
    assert one.fit().tau2 * 1e12 == pytest.approx(plain.tau2, rel=NEAR)


@settings(max_examples=8, deadline=None)
@given(
    seed=st.integers(0, 5),
    order=st.permutations(range(3)),
    factor=st.lists(st.sampled_from([-3.0, 0.01, 1.0, 250.0]), min_size=3, max_size=3),
    flip=st.booleans(),
    shift=st.floats(-5, 5),
)
def test_invariances(seed, order, factor, flip, shift):
    """Of order, scale and origin of columns, order of rows, and which level is the event."""
    x = columns(25, 3, seed)
    y = responses(x, seed)
    y[0], y[1] = 0.0, 1.0
    plain = BayesRidge(y, x, family="binomial").fit("fixed", lam=1.5)
    turned = x[::-1, order] * np.array(factor)[order] + shift
    res = BayesRidge(1 - y[::-1] if flip else y[::-1], turned, family="binomial").fit("fixed", lam=1.5)
    sign = -1.0 if flip else 1.0
    scaled = sign * res.params.to_numpy()[1:] * np.array(factor)[order]
    assert scaled == pytest.approx(plain.params.to_numpy()[1:][order], abs=NEAR)
    share = res.fittedvalues.to_numpy()[::-1]
    assert (1 - share if flip else share) == pytest.approx(plain.fittedvalues.to_numpy(), abs=NEAR)
    assert res.log_marginal == pytest.approx(plain.log_marginal, abs=NEAR)


def test_results_have_names(fitted):
    names = ["Intercept", "x0", "x1", "x2"]
    for series in (fitted.params, fitted.bse, fitted.posterior_var):
        assert series.index.tolist() == names
    assert fitted.conf_int().index.tolist() == names
    assert np.sqrt(np.diag(fitted.cov_params())) == pytest.approx(fitted.bse.to_numpy(), rel=SAME)
    assert fitted.loo_probabilities.index.equals(DATA.index)
    assert fitted.resid.to_numpy() == pytest.approx((DATA["y"] - fitted.fittedvalues).to_numpy(), abs=SAME)
    assert fitted.tidy().shape == (4, 5)
    with pytest.raises(AttributeError, match="no sigma2"):
        _ = fitted.sigma2
    assert "sigma2" not in dir(fitted)


def test_odds_ratios(fitted):
    ratios = fitted.odds_ratios(alpha=0.1)
    assert ratios["odds_ratio"].to_numpy() == pytest.approx(np.exp(fitted.params.to_numpy()), rel=SAME)
    ends = np.exp(fitted.conf_int(alpha=0.1).to_numpy())
    assert ratios[["lower", "upper"]].to_numpy() == pytest.approx(ends, rel=NEAR)
    assert fitted.odds_ratios(terms=["x1"]).index.tolist() == ["x1"]
    assert ratios["prob_above_1"].to_numpy() == pytest.approx(
        fitted.contrast(np.eye(4))["prob_positive"].to_numpy(), abs=SAME
    )
    probit = BayesRidge.from_formula(FORMULA, DATA, family="binomial", link="probit").fit("fixed", lam=1.0)
    with pytest.raises(ValueError, match="odds_ratios\\(\\) is for link='logit'"):
        probit.odds_ratios()


def test_predictions_beside_draws(fitted):
    new = DATA.iloc[:4]
    table = fitted.get_prediction(new).summary_frame(alpha=0.2)
    draws = fitted.sample(40_000, rng=1).to_numpy()
    share = expit(draws @ np.column_stack([np.ones(4), new[["x0", "x1", "x2"]]]).T)
    error = 5 / np.sqrt(40_000)
    assert table["mean"].to_numpy() == pytest.approx(share.mean(axis=0), abs=error * share.std())
    assert table["mean_se"].to_numpy() == pytest.approx(share.std(axis=0), rel=4 * error)
    ends = np.quantile(share, [0.1, 0.9], axis=0).T
    assert table[["mean_ci_lower", "mean_ci_upper"]].to_numpy() == pytest.approx(ends, abs=0.02)
    assert table["mean"].to_numpy() == pytest.approx(fitted.predict(new).to_numpy(), abs=SAME)
    linear = fitted.get_prediction(new, which="linear").summary_frame(alpha=0.2)
    assert linear["mean"].to_numpy() == pytest.approx(fitted.predict(new, which="linear").to_numpy(), abs=SAME)
    assert expit(linear["mean_ci_upper"]).to_numpy() == pytest.approx(table["mean_ci_upper"].to_numpy(), abs=SAME)
    gap = fitted.predict(new.assign(x0=[np.nan, 0, 0, 0]))
    assert gap.isna().tolist() == [True, False, False, False]
    with pytest.raises(ValueError, match="which must be 'mean'"):
        fitted.predict(new, which="odds")


def test_hyperparameters_are_those_of_the_nodes(fitted):
    table, fit = fitted.hyperparameters(alpha=0.5), fitted.sites_fit
    log_t2 = np.array([node.log_t2 for node in fit.nodes])
    assert table.loc["tau2", "mean"] == pytest.approx(fit.weight @ np.exp(log_t2), rel=NEAR)
    below = fit.weight[np.exp(log_t2) < table.loc["tau2", "median"]].sum()
    assert below == pytest.approx(0.5, abs=0.1)
    assert table.loc["lambda", "lower"] == pytest.approx(1 / table.loc["tau2", "upper"])
    assert table.loc["lambda", "lower"] < table.loc["lambda", "median"] < table.loc["lambda", "upper"]
    assert np.isinf(table.loc["lambda", "mean"])
    assert 0 < table.loc["df_model", "mean"] < 3


@pytest.mark.parametrize("link", ["logit", "probit"])
@pytest.mark.parametrize(("n", "p"), [(60, 3), (15, 30)])
def test_explained_variance_is_that_of_the_draws(link, n, p):
    data = frame(n, p, 21)
    trials = np.tile([1.0, 4.0, 2.0], n // 3)
    data["y"] = np.random.default_rng(1).binomial(trials.astype(int), expit(data["x0"]))
    model = BayesRidge.from_formula(
        "y ~ " + " + ".join(f"x{j}" for j in range(p)),
        data,
        family="binomial",
        link=link,
        trials=trials,
        unpenalized=["x1"],
    )
    res = model.fit("fixed", lam=1.0) if p > n else model.fit()
    found = res.explained_variance(alpha=0.1)
    assert found.index.tolist() == ["mean", "median", "lower", "upper"]
    names = [f"x{j}" for j in range(p) if j != 1]
    weight = np.sqrt(trials / trials.mean())[:, None]
    g = weight * (data[names].to_numpy() @ res.sample(20_000, rng=5)[names].to_numpy().T)
    z = weight * np.column_stack([np.ones(n), data["x1"]])
    g -= z @ np.linalg.lstsq(z, g, rcond=None)[0]
    size = (g**2).sum(axis=0)
    share = size / (size + n * (np.pi**2 / 3 if link == "logit" else 1.0))
    assert found["mean"] == pytest.approx(share.mean(), abs=5 * share.std() / np.sqrt(10_000))
    for name, probability in (("median", 0.5), ("lower", 0.05), ("upper", 0.95)):
        error = np.sqrt(probability * (1 - probability) / 10_000)
        assert np.mean(share < found[name]) == pytest.approx(probability, abs=5 * error)
    with pytest.raises(ValueError, match="alpha"):
        res.explained_variance(alpha=2.0)


def test_scores_are_those_of_the_left_out_probabilities(fitted):
    share, y = fitted.loo_probabilities.to_numpy(), DATA["y"].to_numpy()
    assert fitted.loo_log_score == pytest.approx(np.log(np.where(y == 1, share, 1 - share)).mean(), abs=NEAR)
    assert fitted.loo_brier == pytest.approx(((y - share) ** 2).mean())
    pairs = share[y == 1][:, None] - share[y == 0]
    assert fitted.loo_auc == pytest.approx(((pairs > 0) + 0.5 * (pairs == 0)).mean())


def test_saved_and_pickled(fitted, tmp_path):
    new = DATA.iloc[:3]
    copies = [pickle.loads(pickle.dumps(fitted))]
    fitted.save(tmp_path / "whole.fit")
    copies.append(pybayesridge.load(tmp_path / "whole.fit"))
    fitted.save(tmp_path / "small.fit", remove_data=True)
    small = pybayesridge.load(tmp_path / "small.fit")
    for res in (*copies, small):
        assert type(res) is type(fitted)
        assert str(res.summary()) == str(fitted.summary())
        table = res.get_prediction(new).summary_frame()
        assert table.to_numpy() == pytest.approx(fitted.get_prediction(new).summary_frame().to_numpy(), abs=NEAR)
        assert res.hyperparameters().to_numpy() == pytest.approx(fitted.hyperparameters().to_numpy(), rel=NEAR)
        assert res.cov_params().to_numpy() == pytest.approx(fitted.cov_params().to_numpy(), rel=NEAR)
    assert fitted.loo_probabilities.size == 60
    for name in ("loo_probabilities", "fittedvalues", "resid"):
        with pytest.raises(ValueError, match="data of this fit were removed"):
            getattr(small, name)
    with pytest.raises(ValueError, match="row_space=False is not available"):
        fitted.save(tmp_path / "none.fit", remove_data=True, row_space=False)
    sizes = [len(getattr(value, "sites", ())) for value in small.sites_fit.nodes]
    assert sizes == [0] * len(sizes)
    assert small.sites_fit.space.rows.size == small.sites_fit.likelihood.n == 0


def test_the_recipe_makes_the_fit_again():
    data = DATA.assign(w=1.0, y=np.where(DATA["y"] == 1, "b", "a"))
    model = BayesRidge.from_formula(
        FORMULA, data, family="binomial", link="probit", event="a", weights="w", prior="half-cauchy"
    )
    res = model.fit("em", solver="laplace")
    names = {"data": data}
    exec(res.recipe.code, names)
    assert names["res"].params.to_numpy() == pytest.approx(res.params.to_numpy(), abs=SAME)
    counts = BayesRidge(DATA["y"], DATA[["x0"]], family="binomial", trials=np.ones(60)).fit("fixed", lam=1.0)
    names = {"endog": DATA["y"], "exog": DATA[["x0"]], "trials": np.ones(60)}
    exec(counts.recipe.code, names)
    assert names["res"].params.to_numpy() == pytest.approx(counts.params.to_numpy(), abs=SAME)


def test_laplace_with_few_events_says_so():
    res = BayesRidge.from_formula(FORMULA, DATA, family="binomial").fit("fixed", lam=1.0, solver="laplace")
    assert "laplace" in [found.code for found in res.findings]
    assert "conditional on lambda" in str(res.summary())


def test_pictures(fitted):
    pytest.importorskip("matplotlib")
    from matplotlib import pyplot

    ax = fitted.plot_calibration(bins=5)
    assert len(ax.lines[1].get_xdata()) == 5
    assert "calibration\nintercept" in ax.get_title()
    ax = fitted.plot_roc()
    x, y = ax.lines[1].get_data()
    area = ((y[1:] + y[:-1]) / 2 * np.diff(x)).sum()
    assert area == pytest.approx(fitted.loo_auc)
    assert fitted.plot_coefficients() is not None
    pyplot.close("all")
    with pytest.raises(ValueError, match="plot_calibration"):
        fitted.plot_fit()


def test_draws_in_arviz(fitted):
    pytest.importorskip("arviz")
    tree = fitted.to_arviz(draws=200, chains=2, rng=0)
    assert tree["posterior"]["beta"].shape == (2, 200, 4)
    assert "sigma2" not in tree["posterior"]
    replicates = tree["posterior_predictive"]["y"].to_numpy()
    assert set(np.unique(replicates)) == {0, 1}
    assert replicates.mean(axis=(0, 1)) == pytest.approx(fitted.fittedvalues.to_numpy(), abs=0.15)
    draws = tree["posterior"]["beta"].to_numpy()[0, 0]
    eta = np.column_stack([np.ones(60), DATA[["x0", "x1", "x2"]]]) @ draws
    wanted = np.log(expit(np.where(DATA["y"] == 1, eta, -eta)))
    assert tree["log_likelihood"]["y"].to_numpy()[0, 0] == pytest.approx(wanted)
    assert tree["observed_data"]["y"].to_numpy().tolist() == DATA["y"].tolist()


def test_report(fitted, tmp_path):
    pytest.importorskip("jinja2")
    pytest.importorskip("matplotlib")
    text = fitted.report(tmp_path / "r.html", question="Which columns?").read_text(encoding="utf-8")
    for part in (
        "Odds ratios",
        "Leave-one-out scores",
        "calibration",
        "ROC curve",
        "π²/3",
        "family=&#39;binomial&#39;",
    ):
        assert part in text, part
    assert f"AUC {fitted.loo_auc:.3f}" in text
    copy = pickle.loads(pickle.dumps(fitted))
    copy.remove_data()
    text = copy.report(tmp_path / "small.html").read_text(encoding="utf-8")
    assert f"AUC {fitted.loo_auc:.3f}" in text
    assert "Share of events over leave-one-out probabilities" not in text
    wide = BayesRidge.from_formula("y ~ .", frame(24, 60, 3), family="binomial", link="probit").fit("fixed", lam=9.0)
    text = wide.report(tmp_path / "wide.html").read_text(encoding="utf-8")
    assert "Odds ratios" not in text


def test_an_auc_below_one_half_is_explained():
    """Without a signal each event is predicted to be less probable than each non-event, by its own absence."""
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(60, 4)), np.arange(60) % 2
    with pytest.warns(DegenerateFitWarning):
        none = BayesRidge(y, x - np.outer(1 - 2 * y, (1 - 2 * y) @ x / 60), family="binomial").fit("em")
    assert none.loo_auc < 0.5
    assert "is below 1/2 where the columns say little" in " ".join(str(none.summary()).split())
    assert "below 1/2" not in str(BayesRidge(y, x + 2 * y[:, None], family="binomial").fit("em").summary())
