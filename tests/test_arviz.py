"""Draws in ArviZ's container: dimensions, and leave-one-out beside exact predictive densities."""

import sys
import warnings
from itertools import product

import numpy as np
import pandas as pd
import pytest

from pybayesridge import BayesRidge, DegenerateFitWarning, SpikeSlab
from pybayesridge.selection.moments import draw_chain

with warnings.catch_warnings():
    # ArviZ 0.23 announces ArviZ 1 when it is imported, here while tests are collected.
    warnings.simplefilter("ignore", FutureWarning)
    az = pytest.importorskip("arviz")

N, P = 60, 4

LOO = 0.1
"""Monte Carlo error of the sum of N log densities, from 20,000 draws; twice the largest of six seeds."""

GOOD = 0.7
"""ArviZ's bound on the Pareto shape."""

SAME = 1e-10
"""The same draws twice."""

NO_NOISE = 1e-14
"""Rounding of coefficients of size 1."""

GIBBS_LOO = 0.15
"""The same from 6,000 Gibbs draws, which are dependent."""

SHARES = 0.06
"""Shares of draws with a coefficient that is not zero, beside inclusion probabilities; twice the largest seen."""

AGREE = 1.1
"""Of the potential scale reduction."""

REFIT = 1e-6
"""Quadrature's error of a difference of two log marginal likelihoods."""


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    # No row of much leverage: importance sampling is then as good as the draws.
    x = pd.DataFrame(rng.uniform(-1.7, 1.7, size=(N, P)), columns=list("abcd"), index=[f"row {i}" for i in range(N)])
    y = pd.Series(1.0 + x @ [1.0, -0.6, 0.3, 0.0] + rng.normal(size=N), name="response")
    return y, x


def elpd(found):
    return found.elpd_loo if hasattr(found, "elpd_loo") else found.elpd


def test_dimensions_and_coordinates(data):
    y, x = data
    res = BayesRidge(y, x).fit("exact")
    container = res.to_arviz(draws=50, chains=3, rng=0)
    posterior = container["posterior"]
    assert posterior["beta"].dims == ("chain", "draw", "term")
    assert posterior["beta"].shape == (3, 50, P + 1)
    assert posterior["term"].to_numpy().tolist() == ["const", *"abcd"]
    assert posterior["tau2"].dims == posterior["sigma2"].dims == ("chain", "draw")
    for group in ("posterior_predictive", "log_likelihood"):
        assert container[group]["response"].dims == ("chain", "draw", "__obs__")
        assert container[group]["__obs__"].to_numpy().tolist() == x.index.tolist()
    np.testing.assert_array_equal(container["observed_data"]["response"], y)
    assert posterior.attrs["inference_library"] == "pybayesridge"
    again = res.to_arviz(draws=50, chains=3, rng=0)
    np.testing.assert_allclose(again["posterior"]["beta"], posterior["beta"], rtol=SAME)


def test_draws_are_those_of_sample(data):
    y, x = data
    res = BayesRidge(y, x).fit("exact")
    posterior = res.to_arviz(draws=100, chains=1, rng=5, groups="posterior")["posterior"]
    wanted = res.sample(100, rng=5, hyper_columns=True)
    np.testing.assert_allclose(posterior["beta"][0], wanted[["const", *"abcd"]], rtol=SAME)
    np.testing.assert_allclose(posterior["tau2"][0], wanted["tau2"], rtol=SAME)
    np.testing.assert_allclose(posterior["sigma2"][0], wanted["sigma2"], rtol=SAME)


def test_pointwise_densities_are_the_models(data):
    y, x = data
    weights = np.random.default_rng(1).uniform(0.2, 5.0, N)
    container = BayesRidge(y, x, weights=weights).fit("exact").to_arviz(draws=20, chains=2, rng=0)
    posterior = container["posterior"]
    design = np.column_stack([np.ones(N), x])
    for chain, draw in ((0, 0), (1, 7)):
        mean = design @ posterior["beta"].to_numpy()[chain, draw]
        variance = posterior["sigma2"].to_numpy()[chain, draw] * weights.mean() / weights
        wanted = -0.5 * (np.log(2 * np.pi * variance) + (y - mean) ** 2 / variance)
        np.testing.assert_allclose(container["log_likelihood"]["response"][chain, draw], wanted, rtol=1e-10)


def test_new_observations_have_the_predictions_moments(data):
    y, x = data
    weights = np.random.default_rng(1).uniform(0.2, 5.0, N)
    res = BayesRidge(y, x, weights=weights).fit("exact")
    new = res.to_arviz(draws=10_000, rng=0, groups=["posterior_predictive"])["posterior_predictive"]["response"]
    prediction = res.get_prediction()
    draws = new.to_numpy().reshape(-1, N)
    np.testing.assert_allclose(
        draws.mean(axis=0), prediction.predicted_mean, atol=4 * prediction.se_obs.max() / np.sqrt(len(draws))
    )
    np.testing.assert_allclose(draws.std(axis=0), prediction.se_obs, rtol=0.03)


@pytest.mark.parametrize("method", ["em", "fixed"])
def test_what_the_method_fixes_is_constant_data(method, data):
    y, x = data
    res = BayesRidge(y, x).fit(method, **({"lam": 2.0} if method == "fixed" else {}))
    container = res.to_arviz(draws=30, rng=0, groups=["posterior"])
    assert container["constant_data"]["tau2"].item() == pytest.approx(res.tau2, rel=1e-14)
    holder = container["constant_data"] if method == "em" else container["posterior"]
    assert "sigma2" in holder
    assert set(container["posterior"].data_vars) == {"beta"} | ({"sigma2"} if method == "fixed" else set())
    if method == "em":
        assert container["constant_data"]["sigma2"].item() == pytest.approx(res.sigma2, rel=1e-14)


def test_several_targets(data):
    y, x = data
    second = x["b"] + np.random.default_rng(1).normal(size=N)
    both = pd.DataFrame({"first": y, "second": second}, index=x.index)
    res = BayesRidge(both, x).fit("exact")
    container = res.to_arviz(draws=1000, rng=0)
    assert container["posterior"]["beta"].dims == ("chain", "draw", "term", "target")
    assert container["posterior"]["target"].to_numpy().tolist() == ["first", "second"]
    means = container["posterior"]["beta"].mean(["chain", "draw"]).to_numpy()
    np.testing.assert_allclose(means, res.params, atol=5 * res.bse.to_numpy().max() / np.sqrt(4000))
    for name in both:
        np.testing.assert_array_equal(container["observed_data"][name], both[name])
        assert np.isfinite(elpd(az.loo(container, var_name=name)))


def test_loo_is_that_of_refitting(data):
    """log p(y_i | the others) = log p(y) - log p(the others), with the penalty and the noise integrated out."""
    y, x = data
    model = {"standardize": False}
    res = BayesRidge(y, x, **model).fit("exact")
    exact = [
        res.log_marginal - BayesRidge(y.drop(label), x.drop(label), **model).fit("exact").log_marginal
        for label in x.index
    ]
    found = az.loo(res.to_arviz(draws=5000, rng=1), pointwise=True)
    assert elpd(found) == pytest.approx(sum(exact), abs=LOO)
    assert float(np.max(found.pareto_k)) < GOOD
    # The exact density of one row by simulation from the fit without it: the oracle itself is right.
    draws = BayesRidge(y.iloc[1:], x.iloc[1:], **model).fit("exact").sample(100_000, rng=2, hyper_columns=True)
    mean = draws.to_numpy()[:, : P + 1] @ [1.0, *x.iloc[0]]
    density = np.exp(-0.5 * (y.iloc[0] - mean) ** 2 / draws["sigma2"]) / np.sqrt(2 * np.pi * draws["sigma2"])
    error = density.std() / np.sqrt(len(draws)) / density.mean()
    assert np.log(density.mean()) == pytest.approx(exact[0], abs=4 * error + REFIT)


def log_marginal_by_enumeration(y, x, prior, slab, noise):
    """Log marginal likelihood over all models, the intercept flat."""
    terms = []
    for included in product([False, True], repeat=x.shape[1]):
        at = np.array(included)
        v = noise * np.eye(len(y)) + slab * x[:, at] @ x[:, at].T
        ones = np.linalg.solve(v, np.ones(len(y)))
        quadratic = y @ np.linalg.solve(v, y) - (ones @ y) ** 2 / ones.sum()
        log_det = np.linalg.slogdet(2 * np.pi * v)[1] + np.log(ones.sum() / (2 * np.pi))
        size = at.sum()
        terms.append(-0.5 * (quadratic + log_det) + size * np.log(prior) + (len(at) - size) * np.log1p(-prior))
    return np.logaddexp.reduce(terms)


def test_loo_of_a_selection_is_that_of_all_models(data):
    y, x = data
    known = {"prior_inclusion": 0.4, "slab_var": 1.5, "noise_var": 1.2}
    rows = x.to_numpy()
    whole = log_marginal_by_enumeration(y.to_numpy(), rows, *known.values())
    exact = [
        whole - log_marginal_by_enumeration(np.delete(y.to_numpy(), i), np.delete(rows, i, axis=0), *known.values())
        for i in range(N)
    ]
    res = SpikeSlab(y, x, standardize=False, **known).fit("ep")
    found = az.loo(res.to_arviz(draws=1500, rng=1, kind="gibbs"))
    assert elpd(found) == pytest.approx(sum(exact), abs=GIBBS_LOO)


@pytest.mark.parametrize("hyper", ["maximize", "average"])
@pytest.mark.parametrize("kind", ["gaussian", "gibbs"])
def test_selection(hyper, kind, data):
    y, x = data
    res = SpikeSlab(y, x).fit("ep", hyper=hyper)
    container = res.to_arviz(draws=1000, rng=0, kind=kind)
    beta = container["posterior"]["beta"].to_numpy()
    assert (beta[..., -1] == 0).any() == (kind == "gibbs")
    assert ("sigma2" in container["posterior"]) == (hyper == "average")
    if hyper == "maximize":
        assert container["constant_data"]["sigma2"].item() == pytest.approx(res.noise_var, rel=1e-14)
    else:
        # Chains differ by chance alone, and neighbouring draws are not of the same member of the average.
        noise = container["posterior"]["sigma2"].to_numpy()
        np.testing.assert_allclose(noise.mean(axis=1), res.noise_var, rtol=0.1)
        if kind == "gaussian":
            assert abs(np.corrcoef(noise[0, 1:], noise[0, :-1])[0, 1]) < 4 / np.sqrt(1000)
    if kind == "gaussian":
        np.testing.assert_allclose(beta.mean(axis=(0, 1)), res.params, atol=0.03)
    assert np.isfinite(elpd(az.loo(container)))


@pytest.fixture(scope="module")
def sampled():
    rng = np.random.default_rng(3)
    x = pd.DataFrame(rng.normal(size=(80, 20))).add_prefix("x")
    x["twin"] = x["x0"] + 0.1 * rng.normal(size=80)
    y = pd.Series(x["x0"] + 0.35 * x["x1"] + rng.normal(size=80), name="response")
    return SpikeSlab(y, x).fit("exact")


@pytest.mark.filterwarnings("ignore:Estimated shape parameter")
def test_chains_of_the_sampler(sampled):
    container = sampled.to_arviz(draws=1000, rng=0)
    posterior = container["posterior"]
    assert posterior["beta"].dims == ("chain", "draw", "term")
    assert posterior["beta"].shape == (4, 1000, 22)
    share = (posterior["beta"] != 0).mean(["chain", "draw"]).to_numpy()
    np.testing.assert_allclose(share, sampled.inclusion_prob, atol=SHARES)
    for name in ("prior_inclusion", "slab_var", "sigma2"):
        assert posterior[name].dims == ("chain", "draw")
        wanted = sampled.hyperparameters().loc["noise_var" if name == "sigma2" else name]
        assert wanted["lower"] < float(posterior[name].mean()) < wanted["upper"]
    open_ = ((sampled.inclusion_prob > 0.05) & (sampled.inclusion_prob < 1)).to_numpy()
    assert open_.sum() >= 3
    table = az.summary(container, var_names=["beta", "sigma2", "prior_inclusion", "slab_var"], round_to="none")
    table = table.loc[[f"beta[{name}]" for name in sampled.inclusion_prob.index[open_]] + ["sigma2", "slab_var"]]
    assert np.isfinite(table[["ess_bulk", "r_hat"]].astype(float).to_numpy()).all()
    assert (table["r_hat"].astype(float) < AGREE).all()
    assert (table["ess_bulk"].astype(float) < 4 * 1000 * 1.5).all()
    assert np.isfinite(elpd(az.loo(container)))
    again = sampled.to_arviz(draws=1000, rng=0)
    np.testing.assert_allclose(again["posterior"]["beta"], posterior["beta"], rtol=SAME)
    with pytest.raises(ValueError, match="chains is 2, but the sampler ran 4"):
        sampled.to_arviz(chains=2)


def test_states_of_a_chain_are_resampled_by_weight_in_their_order(sampled):
    states = sampled.exact_posterior.exact.states
    for chain in range(4):
        drawn = draw_chain(states, 21, chain, 5000, np.random.default_rng(chain)).state
        own = states.chain == chain
        assert (np.diff(drawn) >= 0).all()
        wanted = np.where(own, states.weight, 0) / states.weight[own].sum()
        assert (np.abs(np.bincount(drawn, minlength=states.n) - 5000 * wanted) < 1 + SAME).all()


def test_a_sum_over_all_sets_gives_independent_draws(data):
    y, x = data
    res = SpikeSlab(y, x, noise_var=1.1).fit("exact")
    container = res.to_arviz(draws=500, chains=3, rng=0)
    beta = container["posterior"]["beta"]
    assert beta.shape == (3, 500, P + 1)
    np.testing.assert_allclose((beta != 0).mean(["chain", "draw"]), res.inclusion_prob, atol=SHARES)
    assert container["constant_data"]["sigma2"].item() == pytest.approx(1.1, rel=1e-12)
    assert res.to_arviz(draws=10, rng=0, groups="posterior")["posterior"]["beta"].shape == (4, 10, P + 1)
    table = az.summary(container, var_names=["beta"])
    assert table.index.tolist() == [f"beta[{name}]" for name in ["const", *"abcd"]]


def test_plots(data):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    y, x = data
    res = BayesRidge(y, x).fit("exact")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        az.plot_forest(res.to_arviz(draws=100, rng=0), var_names=["beta"])
    matplotlib.pyplot.close("all")
    table = az.summary(res.to_arviz(draws=500, rng=0), var_names=["beta"])
    assert table.index.tolist() == [f"beta[{name}]" for name in ["const", *"abcd"]]


def test_bad_arguments(data):
    y, x = data
    res = SpikeSlab(y, x).fit("ep")
    for arguments, message in (
        ({"draws": 0}, "draws must be a positive integer"),
        ({"chains": 2.0}, "chains must be a positive integer"),
        ({"groups": ["prior"]}, "groups must be some of .* not 'prior'"),
        ({"groups": []}, "groups must be some of"),
        ({"kind": "nuts"}, "kind must be"),
    ):
        with pytest.raises(ValueError, match=message):
            res.to_arviz(**arguments)


def test_without_rows_there_are_only_parameters(data):
    y, x = data
    res = BayesRidge(y, x).fit("exact")
    wanted = res.to_arviz(draws=10, rng=0, groups=["posterior"])["posterior"]["beta"]
    res.remove_data()
    np.testing.assert_allclose(res.to_arviz(draws=10, rng=0, groups=["posterior"])["posterior"]["beta"], wanted)
    with pytest.raises(ValueError, match="only groups='posterior' and 'log_prior' can be made"):
        res.to_arviz()


def test_without_noise_there_is_no_density(data):
    _, x = data
    with pytest.warns(DegenerateFitWarning, match="exactly"):
        res = BayesRidge(x.sum(axis=1), x).fit()
    with pytest.raises(ValueError, match="leave out 'log_likelihood'"):
        res.to_arviz()
    posterior = res.to_arviz(draws=10, groups=["posterior", "observed_data"])["posterior"]
    np.testing.assert_allclose(
        posterior["beta"].to_numpy(), np.broadcast_to(res.params, (4, 10, P + 1)), atol=NO_NOISE
    )


def test_without_arviz_the_error_names_the_extra(data, monkeypatch):
    y, x = data
    res = BayesRidge(y, x).fit()
    monkeypatch.setitem(sys.modules, "arviz", None)
    with pytest.raises(ImportError, match=r"pip install 'pybayesridge\[arviz\]'"):
        res.to_arviz()
