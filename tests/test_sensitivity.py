"""Sensitivity to the prior: fits under priors that were changed independently, sums over a grid, reweighted draws."""

import warnings
from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest

from pybayesridge import BayesRidge, SpikeSlab, load, pool
from tests.effort import THOROUGH, only_thorough, share

N, P = 40, 4

FACTORS = {"half": 0.5, "double": 2.0}

SAME = 1e-9
"""The same computation by another way to the same prior; 1e-15 and less were seen."""

GRID = 1e-6
"""Quadrature with a tolerance of 1e-8 and a sum over a fine grid."""

EP = 1e-5
"""Two integrals of expectation propagation with a tolerance of 1e-6."""

DRAWS = 0.05
"""Monte Carlo error of a mean of 40,000 reweighted draws in standard deviations; ten times the largest seen."""


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(3)
    x = pd.DataFrame(rng.normal(size=(N, P)) * [1, 3, 0.2, 1], columns=list("abcd"))
    y = pd.Series(0.5 * x["a"] - 0.2 * x["b"] + rng.normal(size=N), name="y")
    return y, x


def columns_agree(table, name, res, rtol):
    np.testing.assert_allclose(table[f"mean_{name}"], res.params, rtol=rtol, atol=rtol * res.bse.max())
    np.testing.assert_allclose(table[f"sd_{name}"], res.bse, rtol=rtol)


@pytest.mark.parametrize("method", ["exact", "em"])
@pytest.mark.parametrize("weighted", [False, True])
def test_ridge_under_another_prior(data, method, weighted):
    y, x = data
    weights = np.random.default_rng(1).uniform(0.5, 2.0, N) if weighted else None
    res = BayesRidge(y, x, weights=weights).fit(method)
    table = res.prior_sensitivity()
    np.testing.assert_allclose(table["mean"], res.params)
    np.testing.assert_allclose(table["sd"], res.bse)
    for name, c in FACTORS.items():
        other = BayesRidge(y, x, weights=weights, prior=(0.5 * c, 0.5 * c, 1 / P)).fit(method)
        columns_agree(table, name, other, SAME)
    change = (table[["mean_half", "mean_double"]].sub(table["mean"], axis=0).abs()).max(axis=1)
    np.testing.assert_allclose(table["shift"], change / table["sd"])
    assert (table["shift"] > 0).all()


def test_powers_of_the_prior_on_a_grid(data):
    """The prior density of log tau2 to a power, times the likelihood, summed over a grid."""
    y, x = data
    a, b, scale = 0.7, 1.2, 0.3
    table = BayesRidge(y, x, prior=(a, b, scale)).fit("exact").prior_sensitivity()
    z = ((x - x.mean()) / x.std(ddof=0)).to_numpy()
    centred = (y - y.mean()).to_numpy()
    gram, cross, total = z.T @ z, z.T @ centred, centred @ centred
    l = np.linspace(-25, 25, 2001)
    log_post, coef = [], []
    for t in np.exp(l):
        b_z = np.linalg.solve(gram + np.eye(P) / t, cross)
        log_det = np.linalg.slogdet(np.eye(P) + t * gram)[1]
        log_post.append(-0.5 * log_det - 0.5 * (N - 1) * np.log(total - cross @ b_z))
        coef.append(b_z / x.std(ddof=0).to_numpy())
    u = l - np.log(scale)
    log_prior = a * u - (a + b) * np.logaddexp(0, u)
    for name, c in (("half", 0.5), ("double", 2.0)):
        w = np.exp(c * log_prior + log_post - max(log_post))
        np.testing.assert_allclose(table[f"mean_{name}"].iloc[1:], w @ np.array(coef) / w.sum(), rtol=GRID)


@pytest.mark.parametrize(("method", "options"), [("fixed", {"lam": 3.0}), ("loocv", {})])
def test_penalties_are_halved_and_doubled(data, method, options):
    y, x = data
    model = BayesRidge(y, x)
    res = model.fit(method, **options)
    table = res.prior_sensitivity()
    for name, c in FACTORS.items():
        columns_agree(table, name, model.fit("fixed", lam=c * res.lambda_), SAME)


def test_several_targets_each_as_alone(data):
    y, x = data
    both = pd.DataFrame({"y": y, "z": y**2})
    table = BayesRidge(both, x).fit().prior_sensitivity()
    for name in both:
        alone = BayesRidge(both[name], x).fit().prior_sensitivity()
        np.testing.assert_allclose(table.loc[name], alone, rtol=1e-6)


def test_without_the_rows(data):
    y, x = data
    res = BayesRidge(y, x).fit()
    table = res.prior_sensitivity()
    res.remove_data()
    pd.testing.assert_frame_equal(res.prior_sensitivity(), table)
    res.remove_data(row_space=False)
    with pytest.raises(ValueError, match="saved without the space of the rows"):
        res.prior_sensitivity()


@pytest.mark.parametrize(
    ("method", "options"),
    share([("laplace", {}), ("ep", {}), ("fixed", {"lam": 2.0, "solver": "laplace"}), ("em", {})], 2),
)
def test_binary_ridge_under_another_prior(data, method, options):
    y, x = data[0][:30], data[1][:30]
    yes = (y + x["a"] > 0).astype(int)
    res = BayesRidge(yes, x, family="binomial").fit(method, **options)
    table = res.prior_sensitivity()
    for name, c in share(FACTORS.items(), 2):
        if method == "fixed":
            other = BayesRidge(yes, x, family="binomial").fit(method, lam=2.0 * c, solver="laplace")
        else:
            prior = (0.5 * c, 0.5 * c, np.pi**2 / 3 / P)
            other = BayesRidge(yes, x, family="binomial", prior=prior).fit(method)
        columns_agree(table, name, other, EP)
    res.remove_data()
    with pytest.raises(ValueError, match="removed"):
        res.prior_sensitivity()


@pytest.mark.parametrize(("method", "options"), [("exact", {}), ("ep", {"hyper": "maximize"})])
def test_selection_with_other_odds(data, method, options):
    y, x = data
    given = np.array([0.2, 0.5, 1.0, 0.0])
    for prior in (given, None):
        res = SpikeSlab(y, x, prior_inclusion=prior).fit(method, **options)
        table = res.prior_sensitivity()
        np.testing.assert_allclose(table["inclusion"], res.inclusion_prob)
        for name, c in FACTORS.items():
            if prior is None:
                odds = c * 1.0 / (P - 1.0)
                other = SpikeSlab(y, x, expected_size=P * odds / (1 + odds))
            else:
                with np.errstate(divide="ignore"):
                    odds = c * given / (1 - given)
                    other = SpikeSlab(y, x, prior_inclusion=1 / (1 + 1 / odds))
            other = other.fit(method, **options)
            columns_agree(table, name, other, SAME)
            np.testing.assert_allclose(table[f"inclusion_{name}"], other.inclusion_prob, rtol=SAME)
        free = table.loc[["a", "b"]]
        assert (free["inclusion_half"] < free["inclusion"]).all()
        assert (free["inclusion"] < free["inclusion_double"]).all()


@only_thorough
def test_binary_selection(data):
    y, x = data
    yes = (y > 0).astype(int)
    options = {"mcse": 0.05, "chains": 2, "rng": 5}
    res = SpikeSlab(yes, x, family="binomial", prior_inclusion=0.5).fit(**options)
    table = res.prior_sensitivity()
    other = SpikeSlab(yes, x, family="binomial", prior_inclusion=2 / 3).fit(**options)
    columns_agree(table, "double", other, SAME)


def test_options_of_a_selection_are_kept_in_its_file(data, tmp_path):
    y, x = data
    res = SpikeSlab(y, x, prior_inclusion=0.5).fit("ep", tol=np.float64(1e-3), damping=0.5, maxiter=np.int64(300))
    res.save(tmp_path / "a.fit")
    back = load(tmp_path / "a.fit")
    assert back.fit_options == res.fit_options
    assert {back.fit_options[name] for name in ("tol", "damping", "maxiter")} == {1e-3, 0.5, 300}
    pd.testing.assert_frame_equal(back.prior_sensitivity(), res.prior_sensitivity())
    other = SpikeSlab(y, x, prior_inclusion=2 / 3).fit("ep", tol=1e-3, damping=0.5, maxiter=300)
    columns_agree(back.prior_sensitivity(), "double", other, SAME)


def test_a_generator_is_not_an_option_that_is_kept(data):
    y, x = data
    assert "rng" not in SpikeSlab(y, x).fit("exact", rng=np.random.default_rng(1)).fit_options


def test_even_odds_of_a_single_column_are_halved_and_doubled(data):
    y, x = data
    table = SpikeSlab(y, x[["a"]]).fit("exact").prior_sensitivity()
    for size, name in ((1 / 3, "half"), (1 / 2, ""), (2 / 3, "double")):
        again = SpikeSlab(y, x[["a"]], expected_size=size).fit("exact")
        found = table.loc["a", f"inclusion_{name}".strip("_")]
        assert found == pytest.approx(again.inclusion_prob["a"], abs=SAME)


def models(y, x):
    yield "ridge", BayesRidge(y, x).fit("exact"), ("tau2",)
    if THOROUGH:
        yield "binary ridge", BayesRidge((y > 0).astype(int), x, family="binomial").fit("ep"), ("tau2",)


@pytest.mark.skipif(find_spec("arviz") is None, reason="needs ArviZ")
def test_reweighted_draws_agree(data):
    """Draws weighted by powers of the prior densities that ArviZ's container holds."""
    y, x = data
    for what, res, (variable,) in models(y, x):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            container = res.to_arviz(draws=10_000, rng=2, groups=["posterior", "log_prior"])
        log_prior = container["log_prior"][variable].to_numpy()
        assert container["log_prior"][variable].dims == ("chain", "draw")
        table, draws = res.prior_sensitivity(), container["posterior"]["beta"].to_numpy()
        for name, c in FACTORS.items():
            w = np.exp((c - 1) * (log_prior - log_prior.max()))
            mean = np.einsum("cd,cdt->t", w, draws) / w.sum()
            assert (np.abs(mean - table[f"mean_{name}"]) / table["sd"]).max() < DRAWS, what


@pytest.mark.skipif(find_spec("arviz") is None, reason="needs ArviZ")
@pytest.mark.parametrize(
    "given",
    [
        {"noise_var": 1.0},
        {"slab_var": 0.3},
        {"slab_var": 0.3, "noise_var": 1.0},
        {"prior_inclusion": 0.2, "slab_var": 0.3},
        {"prior_inclusion": 0.2, "noise_var": 1.0},
    ],
)
def test_prior_of_selection_is_the_documented_density(data, given):
    y, x = data
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        res = SpikeSlab(y, x, **given).fit("exact")
        found = res.to_arviz(draws=50, chains=1, rng=0, groups=["posterior", "log_prior"])
        fixed = BayesRidge(y, x).fit("em").to_arviz(draws=5, rng=0)
    assert "log_prior" not in fixed
    draws = {"prior_inclusion": "prior_inclusion", "slab_var": "slab_var", "noise_var": "sigma2"}
    p, v, s2 = (given[name] if name in given else found["posterior"][draw].to_numpy() for name, draw in draws.items())
    wanted = 0.0
    if "prior_inclusion" not in given:
        centred = p * (P - 1) / (p * (P - 1) + 1 - p)
        wanted = wanted + np.log(centred * (1 - centred))
    if not {"slab_var", "noise_var"} <= set(given):
        # Where the slab is given, the share explained is that at the median of p.
        at = 1 / P if "slab_var" in given and "prior_inclusion" not in given else p
        h = P * at * v / (P * at * v + s2)
        wanted = wanted + np.log(h * (1 - h))
    np.testing.assert_allclose(found["log_prior"]["hyperparameters"], wanted, rtol=1e-8)


def test_pooled_fits_are_those_of_each_prior(data):
    """The pooled posterior under another prior is the pool of the fits under it."""
    y, x = data
    sets = [x, x.assign(b=x["b"] + 0.3 * np.cos(np.arange(N)))]
    for model in (BayesRidge, SpikeSlab):
        fits = [model(y, each).fit() for each in sets]
        pooled, table = pool(fits), pool(fits).prior_sensitivity()
        each = [fit.prior_sensitivity() for fit in fits]
        np.testing.assert_allclose(table["mean"], pooled.params, rtol=SAME)
        np.testing.assert_allclose(table["sd"], pooled.bse, rtol=SAME)
        for name in FACTORS:
            mean = sum(one[f"mean_{name}"] for one in each) / 2
            second = sum(one[f"mean_{name}"] ** 2 + one[f"sd_{name}"] ** 2 for one in each) / 2
            np.testing.assert_allclose(table[f"mean_{name}"], mean, rtol=SAME)
            np.testing.assert_allclose(table[f"sd_{name}"], np.sqrt(second - mean**2), rtol=SAME)
    assert table["inclusion_half"].to_numpy() == pytest.approx(sum(one["inclusion_half"] for one in each) / 2)
