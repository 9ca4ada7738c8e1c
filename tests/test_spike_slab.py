"""SpikeSlab on the user's scale: against enumeration of all models, the ridge, and its own invariances."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

from pybayesridge import BayesRidge, ConvergenceWarning, SpikeSlab, compare_evidence

EP_PIP = {60: 0.02, 6: 0.08}
"""Error of EP's inclusion probabilities beside enumeration: 60 rows, or fewer rows than columns."""

EP_MOMENTS = {60: 0.05, 6: 0.25}
"""Error of its means and standard deviations there, the coefficients being of order 1."""

EP_EVIDENCE = 0.05
"""Error of its log evidence with 60 rows; three times that with fewer rows than columns."""

EXACT = 1e-9
"""Where EP is exact, or two computations are the same but for rounding."""

CLIPPED = 1e-3
"""Ordinary EP keeps its sites positive, "ep" does not: what that does to coefficients far from any constraint."""


def regression(n=60, p=8, seed=0, noise=1.0):
    rng = np.random.default_rng(seed)
    x = pd.DataFrame(
        rng.standard_normal((n, p)) * rng.uniform(0.5, 5, p) + 3 * rng.normal(size=p),
        columns=[f"v{i}" for i in range(p)],
        index=[f"row{i}" for i in range(n)],
    )
    signal = 2 * x["v0"] / x["v0"].std() + 0.5 * x["v3"] / x["v3"].std()
    y = (3 + signal + noise * rng.normal(size=n)).rename("out")
    return y, x


def enumerate_models(y, z, x, weights, p, slab_var, noise_var):
    """Exact posterior on the standardised scale: inclusion probabilities, means, variances, log evidence."""
    n, d = x.shape
    w = np.ones(n) if weights is None else weights / weights.mean()
    mean = w @ x / n
    x = (x - mean) / np.sqrt(w @ (x - mean) ** 2 / n)
    root = np.sqrt(w)[:, None]
    q = np.linalg.qr(root * z)[0]
    x, y = root * x, root[:, 0] * y
    x, y = x - q @ (q.T @ x), y - q @ (q.T @ y)
    nu = n - z.shape[1]
    p = np.broadcast_to(p, d)
    logs, means, seconds, models = [], [], [], []
    for choice in itertools.product([False, True], repeat=d):
        inside = np.array(choice)
        prior = np.where(inside, p, 1 - p)
        if (prior == 0).any():
            continue
        a = x[:, inside].T @ x[:, inside] / noise_var + np.eye(inside.sum()) / slab_var
        b = x[:, inside].T @ y / noise_var
        m = np.linalg.solve(a, b)
        log = -nu / 2 * np.log(2 * np.pi * noise_var) - y @ y / noise_var / 2 + b @ m / 2
        log += -np.linalg.slogdet(a)[1] / 2 - inside.sum() * np.log(slab_var) / 2
        logs.append(log + np.log(prior).sum())
        both = np.zeros((2, d))
        both[0, inside] = m
        both[1, inside] = m**2 + np.diag(np.linalg.inv(a))
        means.append(both[0])
        seconds.append(both[1])
        models.append(inside)
    logs = np.array(logs)
    evidence = np.logaddexp.reduce(logs)
    weight = np.exp(logs - evidence)
    mean = weight @ np.array(means)
    return weight @ np.array(models), mean, weight @ np.array(seconds) - mean**2, evidence


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("unpenalized", [[], ["v5"]])
@pytest.mark.parametrize("n", [60, 6])
def test_against_enumeration(n, unpenalized, weighted):
    y, x = regression(n)
    weights = np.random.default_rng(1).uniform(0.3, 3, n) if weighted else None
    fixed = {"prior_inclusion": 0.2, "slab_var": 2.0, "noise_var": 1.0}
    res = SpikeSlab(y, x, weights=weights, unpenalized=unpenalized, **fixed).fit("ep", tol=1e-8)
    free = [name for name in x.columns if name not in unpenalized]
    z = np.column_stack([np.ones(n), x[unpenalized]])
    pip, mean, variance, evidence = enumerate_models(y.to_numpy(), z, x[free].to_numpy(), weights, 0.2, 2.0, 1.0)
    w = np.ones(n) if weights is None else weights
    sd = np.sqrt(np.average((x[free] - np.average(x[free], axis=0, weights=w)) ** 2, axis=0, weights=w))
    assert np.abs(res.inclusion_prob[free] - pip).max() < EP_PIP[n]
    np.testing.assert_allclose(res.params[free] * sd, mean, atol=EP_MOMENTS[n])
    np.testing.assert_allclose(res.bse[free] * sd, np.sqrt(variance), atol=EP_MOMENTS[n])
    assert res.log_evidence == pytest.approx(evidence, abs=EP_EVIDENCE * (1 if n == 60 else 3))
    assert (res.inclusion_prob[["const", *unpenalized]] == 1).all()


def test_orthogonal_columns_are_exact():
    n = 16
    rng = np.random.default_rng(2)
    x = np.linalg.qr(np.column_stack([np.ones(n), rng.normal(size=(n, 5))]))[0][:, 1:]
    y = x @ [3.0, -1.0, 0.5, 0, 0] + 0.3 * rng.normal(size=n) + 7
    res = SpikeSlab(y, x, prior_inclusion=0.3, slab_var=0.2, noise_var=0.1).fit("ep", tol=1e-12)
    pip, mean, variance, evidence = enumerate_models(y, np.ones((n, 1)), x, None, 0.3, 0.2, 0.1)
    np.testing.assert_allclose(res.inclusion_prob[1:], pip, atol=EXACT)
    np.testing.assert_allclose(res.params[1:] * x.std(axis=0), mean, atol=EXACT)
    np.testing.assert_allclose(res.posterior_var[1:] * x.var(axis=0), variance, atol=EXACT)
    assert res.log_evidence == pytest.approx(evidence, abs=EXACT)


@pytest.mark.parametrize("n", [60, 6])
@pytest.mark.parametrize("method", ["ep", "damped", "pcep"])
def test_always_in_is_the_ridge_with_known_noise(n, method):
    y, x = regression(n)
    ridge = BayesRidge(y, x, sigma2=1.3).fit("fixed", lam=1.3 / 2)
    res = SpikeSlab(y, x, prior_inclusion=1.0, slab_var=2.0, noise_var=1.3).fit(method, tol=1e-10)
    np.testing.assert_allclose(res.params, ridge.params, rtol=EXACT, atol=EXACT)
    np.testing.assert_allclose(res.bse, ridge.bse, rtol=EXACT)
    np.testing.assert_allclose(res.cov_params(), ridge.cov_params(), rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(res.conf_int(), ridge.conf_int(), rtol=1e-8, atol=1e-9)
    new = x.iloc[:4] + 1
    np.testing.assert_allclose(
        res.get_prediction(new).summary_frame(), ridge.get_prediction(new).summary_frame(), rtol=1e-8, atol=1e-9
    )
    assert (res.inclusion_prob == 1).all()


def test_never_in():
    y, x = regression()
    res = SpikeSlab(y, x, prior_inclusion=0.0, slab_var=2.0, noise_var=1.3).fit("ep")
    assert (res.params.iloc[1:] == 0).all()
    assert (res.inclusion_prob.iloc[1:] == 0).all()
    assert res.params["const"] == pytest.approx(y.mean())
    assert res.bse["const"] == pytest.approx(np.sqrt(1.3 / len(y)))
    assert res.median_model() == []


def test_probabilities_by_column():
    y, x = regression()
    by_name = dict.fromkeys(x.columns, 0.3) | {"v1": 0.0, "v2": 1.0}
    model = SpikeSlab(y, x, prior_inclusion=by_name, slab_var=2.0, noise_var=1.0)
    res = model.fit("ep", tol=1e-8)
    assert res.inclusion_prob["v1"] == 0
    assert res.inclusion_prob["v2"] == 1
    same = SpikeSlab(y, x, prior_inclusion=list(by_name.values()), slab_var=2.0, noise_var=1.0).fit("ep", tol=1e-8)
    pd.testing.assert_series_equal(res.params, same.params)
    assert res.prior_inclusion["v2"] == 1
    assert res.prior_inclusion["v3"] == 0.3
    pip = enumerate_models(
        y.to_numpy(), np.ones((60, 1)), x.to_numpy(), None, np.array(list(by_name.values())), 2.0, 1.0
    )[0]
    assert np.abs(res.inclusion_prob.iloc[1:] - pip).max() < EP_PIP[60]


def test_duplicated_columns_share_their_probability():
    y, x = regression()
    x["twin"] = x["v0"]
    res = SpikeSlab(y, x, prior_inclusion=0.2, slab_var=2.0, noise_var=1.0).fit("ep")
    assert res.inclusion_prob["twin"] == pytest.approx(res.inclusion_prob["v0"], abs=1e-6)
    assert res.params["twin"] == pytest.approx(res.params["v0"], rel=1e-6)


def test_learned_hyperparameters_beat_their_neighbours():
    y, x = regression(80, 10, seed=3)
    res = SpikeSlab(y, x).fit("ep", tol=1e-6, hyper="maximize")
    assert res.converged
    assert set(res.learned) == {"prior_inclusion", "slab_var", "noise_var"}
    assert res.median_model()[0] == "v0"
    p = res.prior_inclusion
    at = {"prior_inclusion": p, "slab_var": res.slab_var, "noise_var": res.noise_var}

    def evidence(**change):
        return SpikeSlab(y, x, **(at | change)).fit("ep", tol=1e-8).log_evidence

    # The prior of the noise is flat.
    best = evidence()
    assert best == pytest.approx(res.log_evidence, abs=1e-4)
    assert evidence(noise_var=res.noise_var * 1.4) < best
    assert evidence(noise_var=res.noise_var / 1.4) < best


def test_scale_of_the_response_and_of_columns():
    y, x = regression(40, 6)
    base = SpikeSlab(y, x).fit("ep")
    scaled = SpikeSlab(y * 1000, x * 1e-4 + 5).fit("ep")
    np.testing.assert_allclose(scaled.inclusion_prob, base.inclusion_prob, atol=1e-4)
    np.testing.assert_allclose(scaled.params.iloc[1:], base.params.iloc[1:] * 1e7, rtol=1e-3, atol=10)
    assert scaled.noise_var == pytest.approx(base.noise_var * 1e6, rel=1e-3)
    assert scaled.log_evidence == pytest.approx(base.log_evidence - 39 * np.log(1000), abs=1e-3)


def test_methods_agree_where_they_converge():
    y, x = regression(100, 6)
    fixed = {"prior_inclusion": 0.3, "slab_var": 1.0, "noise_var": 1.0}
    free = SpikeSlab(y, x, **fixed).fit("ep", tol=1e-8)
    ep = SpikeSlab(y, x, **fixed).fit("damped", tol=1e-8)
    assert free.converged
    assert ep.converged
    np.testing.assert_allclose(free.inclusion_prob, ep.inclusion_prob, atol=CLIPPED)
    np.testing.assert_allclose(free.params, ep.params, atol=CLIPPED)


def test_no_convergence_is_told():
    y, x = regression()
    with pytest.warns(ConvergenceWarning, match="residual"):
        res = SpikeSlab(y, x, prior_inclusion=0.2, slab_var=2.0, noise_var=1.0).fit("damped", maxiter=1)
    assert not res.converged
    assert "NOT CONVERGED" in str(res.summary())


def test_average_over_hyperparameters():
    y, x = regression(25, 5)
    best, average = SpikeSlab(y, x).fit("ep", hyper="maximize"), SpikeSlab(y, x).fit("ep")
    assert ((average.inclusion_prob >= 0) & (average.inclusion_prob <= 1)).all()
    assert np.diag(average.cov_params()) == pytest.approx(average.posterior_var, rel=1e-8)
    # The uncertainty about the hyperparameters is added.
    assert average.get_prediction(x.iloc[:3]).summary_frame()["mean_se"].mean() > 0.9 * (
        best.get_prediction(x.iloc[:3]).summary_frame()["mean_se"].mean()
    )
    low, high = average.conf_int().to_numpy().T
    assert (low <= high).all()
    draws = average.sample(4000, rng=0)
    np.testing.assert_allclose(draws.mean(), average.params, atol=5 * average.bse.max() / np.sqrt(4000))


def test_intervals_are_quantiles_of_the_mixture():
    y, x = regression(60, 8)
    res = SpikeSlab(y, x, prior_inclusion=0.2, slab_var=2.0, noise_var=1.0).fit("ep", tol=1e-8)
    rng = np.random.default_rng(0)
    size = 200_000
    names = x.columns
    draws = np.where(
        rng.random((size, 8)) < res.inclusion_prob[names].to_numpy(),
        res.cond_mean[names].to_numpy() + np.sqrt(res.cond_var[names].to_numpy()) * rng.normal(size=(size, 8)),
        0.0,
    )
    interval = res.conf_int(alpha=0.2).loc[names].to_numpy()
    for j in range(8):
        # The distribution function brackets each level at its quantile, spike included.
        for level, bound in zip((0.1, 0.9), interval[j], strict=True):
            assert (draws[:, j] < bound).mean() - 0.005 <= level <= (draws[:, j] <= bound).mean() + 0.005
    assert ((interval[:, 0] == 0) | (interval[:, 1] == 0) | (res.inclusion_prob[names] > 0.9)).all()


def test_gibbs_draws_are_those_of_the_exact_posterior():
    y, x = regression(30, 5)
    res = SpikeSlab(y, x, prior_inclusion=0.3, slab_var=1.0, noise_var=1.0).fit("ep")
    draws = res.sample(4000, rng=0, kind="gibbs")
    pip, mean, variance, _ = enumerate_models(y.to_numpy(), np.ones((30, 1)), x.to_numpy(), None, 0.3, 1.0, 1.0)
    sd = x.std(ddof=0).to_numpy()
    # Monte Carlo: 4000 dependent draws, worth at least 1000.
    assert np.abs((draws[x.columns] != 0).mean() - pip).max() < 4 * 0.5 / np.sqrt(1000)
    assert np.abs(draws[x.columns].mean() * sd - mean).max() < 4 * np.sqrt(variance.max() / 1000)
    assert np.allclose(res.sample(10, rng=3), res.sample(10, rng=3))


def test_gaussian_draws_have_its_moments():
    y, x = regression(12, 20)
    res = SpikeSlab(y, x, prior_inclusion=0.2, slab_var=1.0, noise_var=1.0).fit("ep")
    draws = res.sample(40_000, rng=0)
    np.testing.assert_allclose(draws.mean(), res.params, atol=5 * res.bse.max() / np.sqrt(40_000))
    np.testing.assert_allclose(draws.std(), res.bse, rtol=0.03)


def test_predictions_for_more_columns_than_rows():
    y, x = regression(20, 60)
    res = SpikeSlab(y, x, unpenalized=["v1"], prior_inclusion=0.1, slab_var=1.0, noise_var=1.0).fit("ep")
    frame = res.get_prediction(x.iloc[:5]).summary_frame()
    rows = np.column_stack([np.ones(5), x.iloc[:5]])
    cov = res.cov_params().to_numpy()
    np.testing.assert_allclose(frame["mean"], rows @ res.params, rtol=1e-9)
    np.testing.assert_allclose(frame["mean_se"] ** 2, np.einsum("ij,jk,ik->i", rows, cov, rows), rtol=1e-8)
    spread = np.sqrt(frame["mean_se"] ** 2 + res.noise_var)
    np.testing.assert_allclose(frame["obs_ci_upper"] - frame["mean"], 1.959964 * spread, rtol=1e-6)
    np.testing.assert_allclose(np.diag(cov), res.posterior_var, rtol=1e-8, atol=1e-14)


def test_warm_start_and_its_refusal():
    y, x = regression(60, 10)
    first = SpikeSlab(y, x).fit("ep", hyper="maximize")
    again = SpikeSlab(y * 2, x * 3).fit("ep", hyper="maximize", start=first)
    assert again.n_fac < first.n_fac + 200
    np.testing.assert_allclose(again.inclusion_prob, first.inclusion_prob, atol=1e-3)
    point = first.starting_point()
    np.testing.assert_allclose([point.slab_var, point.noise_var], [first.slab_var, first.noise_var], rtol=1e-12)
    at_once = SpikeSlab(y, x).fit("ep", hyper="maximize", start=point)
    np.testing.assert_allclose(at_once.params, first.params, rtol=1e-4, atol=1e-6)
    # The lattice of an average lies elsewhere, which its weights all but make up for.
    average = SpikeSlab(y, x).fit("ep", start=first)
    np.testing.assert_allclose(average.inclusion_prob, SpikeSlab(y, x).fit("ep").inclusion_prob, atol=0.02)
    given = {"prior_inclusion": 0.2, "slab_var": 1.0, "noise_var": 1.0}
    settled = SpikeSlab(y, x, **given).fit("ep", tol=1e-9)
    assert SpikeSlab(y, x, **given).fit("ep", tol=1e-6, start=settled).n_iter <= 1
    with pytest.raises(ValueError, match="other columns"):
        SpikeSlab(y, x.drop(columns="v2")).fit("ep", start=first)
    with pytest.raises(ValueError, match="start must be results"):
        SpikeSlab(y, x).fit("ep", start="first")


def test_comparison_by_evidence():
    y, x = regression()
    fixed = {"slab_var": 1.0, "noise_var": 1.0}
    fits = {str(p): SpikeSlab(y, x, prior_inclusion=p, **fixed).fit("ep") for p in (0.01, 0.3)}
    out = compare_evidence(fits)
    assert out["difference"].iloc[0] == 0
    assert out["probability"].sum() == pytest.approx(1)
    assert out.loc["0.3", "log_evidence"] == fits["0.3"].log_evidence
    with pytest.raises(ValueError, match="another response"):
        compare_evidence(fits | {"other": SpikeSlab(y + x["v0"], x, prior_inclusion=0.1, **fixed).fit("ep")})
    tiny = {"slab_var": 1e-24, "noise_var": 1e-24, "prior_inclusion": 0.1}
    small = {name: SpikeSlab(each * 1e-12, x, **tiny).fit("ep") for name, each in (("a", y), ("b", y + x["v0"]))}
    with pytest.raises(ValueError, match="another response"):
        compare_evidence(small)


def test_the_note_says_what_has_not_converged():
    y, x = regression(20, 30)
    with pytest.warns(ConvergenceWarning, match="residual"):
        res = SpikeSlab(y, x, prior_inclusion=0.3, slab_var=1.0, noise_var=0.1).fit("damped", tol=1e-12, maxiter=30)
    assert res.residual < 1e-3
    assert any(note.startswith("NOT CONVERGED (residual") for note in res.notes)


def test_pickle_and_removed_data():
    y, x = regression(20, 30)
    res = SpikeSlab(y, x, prior_inclusion=0.1, slab_var=1.0, noise_var=1.0).fit("ep")
    new = x.iloc[:3] + 0.1
    wanted, table = res.get_prediction(new).summary_frame(), str(res.summary())
    again = pickle.loads(pickle.dumps(res))
    pd.testing.assert_frame_equal(again.get_prediction(new).summary_frame(), wanted)
    again.remove_data()
    pd.testing.assert_frame_equal(again.get_prediction(new).summary_frame(), wanted)
    assert str(again.summary()) == table
    difference = compare_evidence({"whole": res, "without rows": again})["difference"]
    assert difference.tolist() == pytest.approx([0.0, 0.0], abs=EXACT)
    with pytest.raises(ValueError, match="removed"):
        _ = again.resid


def test_without_penalised_columns_there_is_no_prior_inclusion():
    y, x = regression(30, 4)
    text = SpikeSlab(y, x, unpenalized=list(x)).fit("ep").summary().as_text()
    assert "nan" not in text
    assert next(line for line in text.splitlines() if "prior_inclusion" in line).endswith("–")


def test_active_constraints_are_noted():
    y, x = regression(30, 4)
    model = SpikeSlab(y, x, prior_inclusion=0.3, slab_var=1.0, noise_var=1.0)
    said = "the standard errors of columns whose inclusion probability is between 0.05 and 0.95 can be biased too"
    for method in ("damped", "ep"):
        res = model.fit(method)
        assert (said in " ".join(res.summary().as_text().split())) == res.evidence_biased == (method == "damped")


def test_formula_and_summary():
    data = sm.datasets.longley.load_pandas().data
    res = SpikeSlab.from_formula("TOTEMP ~ GNP + UNEMP + ARMED + POP + YEAR", data, unpenalized=["YEAR"]).fit("ep")
    text = str(res.summary())
    for word in ("PIP", "learned", "Median probability model", "Expected size", "YEAR"):
        assert word in text
    assert "<table" in res.summary().as_html()
    assert "tabular" in res.summary().as_latex()
    assert res.inclusion_prob["YEAR"] == 1


def test_long_table_is_cut():
    y, x = regression(20, 80)
    res = SpikeSlab(y, x, prior_inclusion=0.1, slab_var=1.0, noise_var=1.0).fit("ep")
    text = str(res.summary())
    assert "50 columns with smaller inclusion probabilities are omitted" in text
    best = res.inclusion_prob.iloc[1:].idxmax()
    assert text.index(best) < text.index("Notes")


def test_constant_columns():
    y, x = regression(30, 4)
    x["flat"] = 2.0
    x["one"] = 1.0
    res = SpikeSlab(y, x, prior_inclusion=0.3, slab_var=1.0, noise_var=1.0).fit("ep")
    assert res.params["flat"] == 0
    assert res.inclusion_prob["flat"] == 0
    assert "flat" in str(res.summary())
    assert "const" not in res.params.index


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"prior_inclusion": 1.5}, "prior_inclusion is 1.5"),
        ({"prior_inclusion": [0.1, 0.2]}, r"shape \(2,\) for 8 columns"),
        ({"prior_inclusion": [0.1] * 7 + [-0.1]}, "column 'v7' is -0.1"),
        ({"prior_inclusion": [np.nan] * 8}, "prior_inclusion of column 'v0' is nan"),
        ({"prior_inclusion": {"v0": 0.1}}, "lacks column"),
        ({"prior_inclusion": {"w": 0.1}}, "'w'"),
        ({"prior_inclusion": "many"}, "prior_inclusion must be"),
        ({"slab_var": 0}, "slab_var must be positive"),
        ({"noise_var": -1}, "noise_var must be positive"),
        ({"noise_var": "small"}, "noise_var must be a positive number"),
    ],
)
def test_bad_hyperparameters(arguments, message):
    y, x = regression()
    with pytest.raises(ValueError, match=message):
        SpikeSlab(y, x, **arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"method": "vb"}, "method must be one of"),
        ({"hyper": "sample"}, "hyper must be"),
        ({"hyper": "average", "method": "damped"}, "is an option of method='ep'"),
        ({"tol": 0}, "tol must be positive"),
        ({"maxiter": 0}, "maxiter must be a positive integer"),
        ({"damping": 1.5}, "damping must lie"),
    ],
)
def test_bad_fit_arguments(arguments, message):
    y, x = regression()
    with pytest.raises(ValueError, match=message):
        SpikeSlab(y, x).fit(**arguments)


def test_bad_data():
    y, x = regression()
    with pytest.raises(ValueError, match="takes 1"):
        SpikeSlab(np.column_stack([y, y]), x)
    res = SpikeSlab(y, x, prior_inclusion=0.1, slab_var=1.0, noise_var=1.0).fit("ep")
    with pytest.raises(ValueError, match="kind must be"):
        res.sample(3, kind="exact")
    with pytest.raises(ValueError, match="n must be"):
        res.sample(0)
