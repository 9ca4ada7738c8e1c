"""Prediction intervals of new counts, of new numbers of successes, and of new numbers with Student-t noise."""

import numpy as np
import pandas as pd
import pytest

from pybayesridge import BayesRidge, SpikeSlab, load, pool, stack

BY_DRAWS = 0.004
"""Five standard errors of a share of 5 % or 95 % of 100,000 draws."""

RNG = np.random.default_rng(20261127)
N = 80
DATA = pd.DataFrame({"a": RNG.normal(size=N), "t": RNG.uniform(0.5, 3, N), "g": np.arange(N) % 8})
DATA["k"] = RNG.poisson(DATA.t * np.exp(0.5 + 0.6 * DATA.a) * RNG.gamma(2, 0.5, N))
DATA["m"] = RNG.integers(1, 30, N)
DATA["s"] = RNG.binomial(DATA.m, RNG.beta(*(5 / (1 + np.exp(sign * (0.3 + 0.8 * DATA.a))) for sign in (-1, 1))))
DATA["y"] = DATA.a + 0.3 * RNG.standard_t(3, N)
NEW = pd.DataFrame({"a": [-1.0, 0.0, 2.0], "t": [1.0, 10.0, 300.0], "m": [3, 40, 2500]})
BINOMIAL = ["binomial", "beta-binomial"]


def fitted(family, formula="k ~ a", method=None, model=BayesRidge, **options):
    own = {} if family == "student-t" else {"trials": "m"} if family in BINOMIAL else {"exposure": "t"}
    return model.from_formula(formula, DATA, family=family, **own, **options).fit(method)


def drawn(res, family):
    draws = res.sample(100_000, rng=0, hyper_columns=True)
    rng, eta = np.random.default_rng(1), draws[["Intercept", "a"]].to_numpy() @ np.column_stack([np.ones(3), NEW.a]).T
    if family == "student-t":
        noise = np.stack([rng.standard_t(df, 3) for df in np.minimum(draws["df"], 1e6)])
        return eta + draws[["sigma"]].to_numpy() * noise
    if family in BINOMIAL:
        share = 1 / (1 + np.exp(-eta))
        if family == "beta-binomial":
            share = rng.beta(share / draws[["alpha"]].to_numpy(), (1 - share) / draws[["alpha"]].to_numpy())
        return rng.binomial(NEW.m.to_numpy(), share)
    mean = np.exp(eta) * NEW.t.to_numpy()
    if family == "negative-binomial":
        alpha = draws[["alpha"]].to_numpy()
        mean = mean * alpha * rng.gamma(1 / alpha, size=mean.shape)
    return rng.poisson(mean)


@pytest.mark.parametrize("family", ["poisson", "negative-binomial", "student-t", *BINOMIAL])
def test_intervals_are_those_of_draws(family):
    formula, sizes = ("s ~ a", {"trials": "m"}) if family in BINOMIAL else ("k ~ a", {"exposure": "t"})
    formula, sizes = ("y ~ a", {}) if family == "student-t" else (formula, sizes)
    res = fitted(family, formula)
    prediction = res.get_prediction(NEW, **sizes)
    lower, upper = prediction.conf_int(alpha=0.1, obs=True).T
    frame, draws = prediction.summary_frame(0.1), drawn(res, family)
    np.testing.assert_array_equal(frame[["obs_ci_lower", "obs_ci_upper"]].to_numpy().T, [lower, upper])
    for ends, p in ((lower, 0.05), (upper, 0.95)):
        assert ((draws <= ends).mean(axis=0) >= p - BY_DRAWS).all()
        assert ((draws < ends).mean(axis=0) <= p + BY_DRAWS).all()


def test_a_given_dispersion_and_one_that_is_next_to_none():
    wide = fitted("negative-binomial", dispersion=0.5).get_prediction(NEW, exposure="t").conf_int(obs=True)
    narrow = fitted("negative-binomial", dispersion=1e-8).get_prediction(NEW, exposure="t").conf_int(obs=True)
    poisson = fitted("poisson").get_prediction(NEW, exposure="t").conf_int(obs=True)
    np.testing.assert_array_equal(narrow, poisson)
    assert (wide[:, 1] > narrow[:, 1]).all()


def test_normal_noise_is_that_of_the_gaussian_family():
    one = BayesRidge.from_formula("y ~ a", DATA, family="student-t", df=np.inf).fit().get_prediction(NEW)
    other = BayesRidge.from_formula("y ~ a", DATA).fit().get_prediction(NEW)
    np.testing.assert_allclose(one.conf_int(obs=True), other.conf_int(obs=True), atol=2e-3 * DATA.y.std())


@pytest.mark.parametrize("family", ["poisson", "negative-binomial"])
def test_groups_new_ones_and_missing_values(family, tmp_path):
    res = fitted(family, "k ~ a + (1 | g)", "laplace")
    new = pd.DataFrame({"a": [0.0, 0.0, np.nan], "g": [0, 99, 0]})
    lower, upper = res.get_prediction(new, exposure=5.0).conf_int(obs=True).T
    assert np.isnan([lower[2], upper[2]]).all()
    assert upper[1] - lower[1] >= upper[0] - lower[0] > 0
    res.save(tmp_path / "fit", remove_data=True)
    again = load(tmp_path / "fit").get_prediction(new, exposure=5.0).conf_int(obs=True)
    np.testing.assert_allclose(again, np.column_stack([lower, upper]), atol=1)


def test_selections_of_counts():
    chosen = fitted("poisson", model=SpikeSlab, prior_inclusion=0.999).get_prediction(NEW, exposure="t")
    ridge = fitted("poisson").get_prediction(NEW, exposure="t")
    assert np.abs(chosen.conf_int(obs=True) - ridge.conf_int(obs=True)).max() <= 0.05 * ridge.conf_int(obs=True).max()


def test_pooled_fits():
    res = fitted("negative-binomial")
    shifted = BayesRidge.from_formula("k ~ a", DATA.assign(a=DATA.a + 0.3), family="negative-binomial", exposure="t")
    both = pool([res, res]).get_prediction(NEW, exposure="t").conf_int(obs=True)
    np.testing.assert_array_equal(both, res.get_prediction(NEW, exposure="t").conf_int(obs=True))
    wider = pool([res, shifted.fit()]).get_prediction(NEW, exposure="t").summary_frame()
    assert (wider["obs_ci_upper"] > wider["mean"]).all()


def test_stacked_fits_of_two_families():
    fits = [fitted("poisson"), fitted("negative-binomial")]
    each = [fit.get_prediction(NEW, exposure="t").conf_int(obs=True) for fit in fits]
    one, other = (stack(some).get_prediction(NEW, exposure="t").conf_int(obs=True) for some in (fits, fits[::-1]))
    np.testing.assert_array_equal(one, other)
    assert (np.minimum(*each) <= one).all()
    assert (one <= np.maximum(*each)).all()


def test_where_there_are_none():
    data = DATA.assign(event=(DATA.y > 0).astype(int))
    prediction = BayesRidge.from_formula("event ~ a", data, family="binomial").fit().get_prediction(NEW)
    assert list(prediction.summary_frame()) == ["mean", "mean_se", "mean_ci_lower", "mean_ci_upper"]
    linear = fitted("poisson").get_prediction(NEW, which="linear")
    assert "obs_ci_lower" not in linear.summary_frame()
    with pytest.raises(ValueError, match="is one of two values; for a number of successes pass trials="):
        prediction.conf_int(obs=True)
    successes = BayesRidge.from_formula("event ~ a", data.assign(two=2), family="binomial", trials="two").fit(
        "laplace"
    )
    of_successes = successes.get_prediction(NEW)
    with pytest.raises(ValueError, match="number of successes depends on its number of trials: pass trials="):
        of_successes.conf_int(obs=True)
    with pytest.raises(ValueError, match="a linear predictor"):
        linear.conf_int(obs=True)


@pytest.mark.parametrize("dispersion", [None, 0.5])
def test_selections_of_overdispersed_counts(dispersion):
    chosen = fitted("negative-binomial", model=SpikeSlab, prior_inclusion=0.999, dispersion=dispersion)
    ends = chosen.get_prediction(NEW, exposure="t").conf_int(obs=True)
    ridge = fitted("negative-binomial", dispersion=dispersion).get_prediction(NEW, exposure="t").conf_int(obs=True)
    assert np.abs(ends - ridge).max() <= 0.1 * ridge.max()
    poisson = fitted("poisson").get_prediction(NEW, exposure="t").conf_int(obs=True)
    assert (ends[1:, 1] > poisson[1:, 1]).all()


def test_successes_of_own_rows_have_the_trials_of_the_fit():
    res = fitted("binomial", "s ~ a")
    own = res.get_prediction().conf_int(obs=True)
    np.testing.assert_array_equal(own, res.get_prediction(DATA, trials="m").conf_int(obs=True))
    assert list(res.get_prediction().summary_frame())[-2:] == ["obs_ci_lower", "obs_ci_upper"]
    assert "obs_ci_lower" not in res.get_prediction(DATA).summary_frame()
    one = res.get_prediction(NEW.assign(a=[0.0, np.nan, 1.0]), trials=[5, 5, np.nan]).conf_int(obs=True)
    assert np.isfinite(one).all(axis=1).tolist() == [True, False, False]


@pytest.mark.parametrize("trials", [0, 2.5, [1, 2], "n"])
def test_trials_that_are_none(trials):
    with pytest.raises(ValueError, match="trials"):
        fitted("binomial", "s ~ a").get_prediction(NEW, trials=trials)
    with pytest.raises(ValueError, match="trials requires a fit with family='binomial' or 'beta-binomial'"):
        fitted("poisson").get_prediction(NEW, trials=3)


@pytest.mark.parametrize("link", ["logit", "probit"])
def test_successes_of_known_probability(link):
    """With much data on one rate the interval is that of the binomial distribution."""
    stats = pytest.importorskip("scipy.stats")
    data = pd.DataFrame({"s": [30_000_000, 30_000_000], "m": [10**8, 10**8], "a": [0.0, 1.0]})
    res = BayesRidge.from_formula("s ~ a", data, family="binomial", trials="m", link=link).fit("laplace")
    trials = np.array([1, 7, 100, 5000])
    ends = res.get_prediction(pd.DataFrame({"a": np.zeros(4)}), trials=trials).conf_int(obs=True)
    np.testing.assert_array_equal(ends.T, stats.binom.ppf([[0.025], [0.975]], trials, 0.3))


@pytest.mark.parametrize("family", BINOMIAL)
def test_successes_of_groups_selections_pooled_and_stacked_fits(family):
    ridge = fitted(family, "s ~ a")
    ends = ridge.get_prediction(NEW, trials="m").conf_int(obs=True)
    grouped = fitted(family, "s ~ a + (1 | g)", "laplace")
    lower, upper = grouped.get_prediction(NEW.assign(g=[0, 99, 99]), trials=200).conf_int(obs=True).T
    assert (lower >= 0).all()
    assert (lower < upper).all()
    assert (upper <= 200).all()
    np.testing.assert_array_equal(pool([ridge, ridge]).get_prediction(NEW, trials="m").conf_int(obs=True), ends)
    others = [fitted(name, "s ~ a").get_prediction(NEW, trials="m").conf_int(obs=True) for name in BINOMIAL]
    mixed = stack([fitted(name, "s ~ a") for name in BINOMIAL], weights=[0.5, 0.5])
    mixed = mixed.get_prediction(NEW, trials="m").conf_int(obs=True)
    assert (np.minimum(*others) <= mixed).all()
    assert (mixed <= np.maximum(*others)).all()
    with pytest.raises(ValueError, match="pass trials="):
        pool([ridge, ridge]).get_prediction(NEW).conf_int(obs=True)


@pytest.mark.parametrize("method", [None, "ep"])
def test_successes_of_selections(method):
    chosen = fitted("binomial", "s ~ a", method, SpikeSlab, prior_inclusion=0.999)
    ends = chosen.get_prediction(NEW, trials="m").conf_int(obs=True)
    ridge = fitted("binomial", "s ~ a").get_prediction(NEW, trials="m").conf_int(obs=True)
    assert (np.abs(ends - ridge) <= 1 + 0.02 * NEW.m.to_numpy()[:, None]).all()


@pytest.mark.parametrize("family", BINOMIAL)
def test_intervals_hold_new_successes(family):
    rng, inside = np.random.default_rng(5), []
    for _ in range(12):
        a, trials = rng.normal(size=(2, 120)), rng.integers(20, 60, size=(2, 120))
        share = 1 / (1 + np.exp(-0.5 - 0.8 * a))
        share = share if family == "binomial" else rng.beta(6 * share, 6 - 6 * share)
        successes = rng.binomial(trials, share)
        data = pd.DataFrame({"a": a[0], "s": successes[0], "m": trials[0]})
        res = BayesRidge.from_formula("s ~ a", data, family=family, trials="m").fit("laplace")
        lower, upper = res.get_prediction({"a": a[1]}, trials=trials[1]).conf_int(0.1, obs=True).T
        inside.append(((lower <= successes[1]) & (successes[1] <= upper)).mean())
    # Ends are whole numbers: at least 90 %, and by a few trials more.
    assert 0.89 < np.mean(inside) < 0.95
