"""Several penalties for yes/no responses and counts: against one penalty, quadrature, and a sampler of their own."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.special import betaln, expit, gammaln, logsumexp

from pybayesridge import BayesRidge, load
from pybayesridge.bands.mixed_sampled import SampledPoints
from pybayesridge.exceptions import DegenerateFitWarning
from pybayesridge.sites import band_integral, band_place
from pybayesridge.sites.band_fit import BandSitesFit
from pybayesridge.sites.seen import Seen
from tests.effort import only_thorough

ABOUT = 2.5
"""Errors of integrals are estimates: 1.4 of them is the most seen."""

SAME = 2e-3
"""A band of all columns and a single penalty, integrated by other rules; in standard deviations."""

NEAR_MEAN, NEAR_SD = 0.03, 0.05
"""Expectation propagation and integration over the coefficients, in standard deviations, and relative."""

EVIDENCE = 0.06
"""Likewise of the log evidence."""

WEIGHTED = 0.03
"""Weighted points and a lattice, in standard deviations: a few of the errors that are aimed at."""

ENDS = 0.25
"""Likewise of ends of intervals: with a thousand points a quantile of 97.5 % has a standard error of a tenth."""

TAILS = 0.03
"""Likewise of standard deviations of standard deviations, one of which has a long tail: what is aimed at. Where the
tail was bent in the coordinates of the lattice one was 8 % off."""

SPACING, FALL = 0.6, 13.0
"""Of a grid that stands for the integral, in posterior standard deviations of logs, about; and where it ends."""

STEPS = np.vstack([np.eye(3, dtype=int), -np.eye(3, dtype=int)])
"""Neighbours of a point of that grid."""

LEAST_SQUARES = 5e-3
"""Of millions of trials, in standard deviations, and relative: the largest seen is 3.5e-4."""

BETWEEN = 5e-3
"""Ends of intervals of two lattices, between whose points densities are interpolated: 4e-3 is the most seen."""

VANISHING = 7e-4
"""Log evidence by two lattices, where 7e-5 is seen; in coordinates in which the density has a pole they were 2.3e-3
apart, with a stated error of 6e-5."""

N, LEVELS = 120, 8


def data(seed: int = 4) -> pd.DataFrame:
    """Rows in groups, with a curve."""
    rng = np.random.default_rng(seed)
    out = pd.DataFrame({"x": rng.standard_normal(N), "z": rng.uniform(0, 6, N), "t": rng.uniform(0.5, 2, N)})
    out["g"] = rng.choice(list("abcdefgh"), N)
    out["h"] = rng.choice(list("ABCD"), N)
    eta = 0.2 + 0.7 * out["x"] + out["g"].map(dict(zip("abcdefgh", rng.standard_normal(LEVELS), strict=True)))
    out["y"] = (rng.random(N) < expit(eta)).astype(int)
    out["k"], out["m"] = rng.binomial(4, expit(eta)), 4
    out["c"] = rng.poisson(np.exp(0.5 * eta) * out["t"])
    return out


DATA = data()
GROUPED = "y ~ x + (1 | g)"


@pytest.fixture(scope="module")
def grouped():
    return BayesRidge.from_formula(GROUPED, DATA, family="binomial", unpenalized="fixed").fit()


@pytest.fixture(scope="module")
def curved():
    return BayesRidge.from_formula("c ~ x + (1 | g) + s(z, k=5)", DATA, family="poisson", exposure="t").fit("laplace")


@pytest.mark.parametrize("method", ["ep", "laplace"])
@pytest.mark.parametrize(
    "more", [{"family": "binomial"}, {"family": "binomial", "link": "probit"}, {"family": "poisson"}]
)
def test_a_band_of_all_columns_is_a_single_penalty(method, more):
    columns, y = DATA[["x", "z", "t"]], DATA["c" if more["family"] == "poisson" else "y"]
    one = BayesRidge(y, columns, **more).fit(method)
    band = BayesRidge(y, columns, bands={"all": list(columns)}, **more).fit(method, tol=1e-4)
    assert np.abs((band.params - one.params) / one.bse).max() < SAME
    np.testing.assert_allclose(band.bse, one.bse, rtol=SAME)
    assert band.log_marginal == pytest.approx(one.log_marginal, abs=SAME)
    np.testing.assert_allclose(band.conf_int(), one.conf_int(), atol=SAME * one.bse.max())
    assert band.loo_log_score == pytest.approx(one.loo_log_score, abs=SAME)
    np.testing.assert_allclose(band.fittedvalues, one.fittedvalues, rtol=SAME)
    np.testing.assert_allclose(band.predict(columns[:5]), one.predict(columns[:5]), rtol=SAME)
    of_tau = np.sqrt(one.hyperparameters().loc["tau2", ["median", "lower", "upper"]].astype(float))
    found = band.hyperparameters().loc["sd[all]", ["median", "lower", "upper"]].astype(float)
    np.testing.assert_allclose(found, of_tau, rtol=0.05)


def test_penalties_that_are_given_are_those_of_one_penalty():
    columns = DATA[["x", "z"]]
    one = BayesRidge(DATA["y"], columns, family="binomial").fit("fixed", lam=2.0)
    two = BayesRidge(DATA["y"], columns, family="binomial", bands={"a": ["x"], "b": ["z"]}).fit("fixed", lam=[2, 2])
    np.testing.assert_allclose(two.params, one.params, rtol=1e-4)
    np.testing.assert_allclose(two.bse, one.bse, rtol=1e-4)
    assert two.log_marginal == pytest.approx(one.log_marginal, abs=1e-6)


def three_groups(seed: int, levels: tuple[int, int, int], sds: tuple[float, float, float]) -> pd.DataFrame:
    """Counts in three crossed groups."""
    rng, n = np.random.default_rng(seed), 220
    out, eta = pd.DataFrame({"x": rng.standard_normal(n)}), 0.2
    for name, count, sd in zip("abc", levels, sds, strict=True):
        out[name] = rng.permutation(np.resize(np.arange(count), n))
        effects = rng.standard_normal(count)
        eta = eta + sd * ((effects - effects.mean()) / effects.std())[out[name]]
    out["y"] = rng.poisson(np.exp(eta + 0.5 * out["x"]))
    return out.astype(dict.fromkeys("abc", str))


def by_grid(fit: BandSitesFit, center: np.ndarray, spread: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Posterior means and standard deviations of the sds of groups, from points in inverse hyperbolic sines of these.

    By Laplace's approximation; the unpenalised coefficients are flat on the scale of the link.
    """
    seen, terms = Seen(fit.space, fit.likelihood, "laplace", 200), fit.space.terms
    count, c = terms.count, fit.likelihood.latent_variance
    unit = center**2 / np.hypot(center, spread)
    step = SPACING * np.minimum(spread / center, 1.0)
    found: dict[tuple[int, ...], np.ndarray] = {}
    front = {tuple(np.rint(np.arcsinh(1.0) / step).astype(int).tolist())}
    while front:
        for place in front:
            x = np.array(place) * step
            sd = unit * np.sinh(x)
            w = sd**2 * terms.size / c
            node = seen.at(x, tuple(np.array([[each]]) for each in sd))
            prior = -(count - 1) / 2 * np.log(w.sum()) - np.log1p(w.sum()) + np.log(np.cosh(x)).sum()
            found[place] = np.r_[node.log_evidence + prior, sd]
        values = np.array(list(found.values()))
        with np.errstate(divide="ignore"):
            heights = values[:, :1] + np.c_[np.zeros(len(values)), 2 * np.log(values[:, 1:])]
        inside = (heights > heights.max(axis=0) - FALL).any(axis=1)
        near = [np.array(place) + step for place, ok in zip(found, inside, strict=True) if ok for step in STEPS]
        front = {tuple(at.tolist()) for at in near if at.min() >= 0} - found.keys()
    # Functions that are even: the points at 0 count half.
    weight = np.exp(values[:, 0] - values[:, 0].max()) * 0.5 ** (np.array(list(found)) == 0).sum(axis=1)
    weight /= weight.sum()
    mean = weight @ values[:, 1:]
    return mean, np.sqrt(weight @ values[:, 1:] ** 2 - mean**2)


@only_thorough
@pytest.mark.parametrize(
    ("seed", "levels", "sds"), [(0, (15, 7, 3), (1.5, 1.5, 0.03)), (3, (20, 6, 3), (0.6, 0.4, 0.5))]
)
def test_a_group_of_few_levels_beside_two_others(seed, levels, sds):
    data = three_groups(seed, levels, sds)
    model = BayesRidge.from_formula(
        "y ~ x + (1 | a) + (1 | b) + (1 | c)", data, family="poisson", unpenalized="fixed", flat_in="link"
    )
    res = model.fit("laplace")
    found = res.variance_components()
    mean, sd = by_grid(res.sites_fit, found["mean"].to_numpy(), found["sd"].to_numpy())
    assert (np.abs(found["mean"] - mean) < TAILS * sd).all()
    np.testing.assert_allclose(found["sd"], sd, rtol=TAILS)


def by_quadrature(y: np.ndarray, g: np.ndarray, x: np.ndarray) -> dict[str, np.ndarray | float]:
    """Two bands, an intercept of groups and a slope of x, and no other columns: every integral on a grid.

    Given the slope groups are independent, and each of their effects is integrated by itself.
    """
    slopes = np.linspace(-6, 6, 241)
    sds = np.exp(np.linspace(np.log(2e-3), np.log(30), 71))
    nodes, weights = np.polynomial.hermite_e.hermegauss(61)
    levels = np.unique(g)
    log_l = np.empty((sds.size, slopes.size))
    first = np.empty((levels.size, sds.size, slopes.size))
    for i, sd in enumerate(sds):
        total = np.zeros(slopes.size)
        for at, level in enumerate(levels):
            rows = g == level
            eta = slopes[None, :, None] * x[rows][None, None, :] + (sd * nodes)[:, None, None]
            likely = (y[rows] * eta - np.logaddexp(0, eta)).sum(axis=2)
            log = likely + np.log(weights / weights.sum())[:, None]
            one = logsumexp(log, axis=0)
            first[at, i] = sd * (nodes[:, None] * np.exp(log - one)).sum(axis=0)
            total += one
        log_l[i] = total
    # The prior: W / c is beta-prime, the shares Dirichlet(1/2, 1/2); of a share of two it is the arc sine law.
    c, n = np.pi**2 / 3, y.size
    size_g, size_x = 1.0, float((x**2).sum() / n)
    w_g, w_x = (sds**2 * size_g)[:, None], (sds**2 * size_x)[None, :]
    w = w_g + w_x
    log_prior = 0.5 * np.log(w / c) - np.log1p(w / c) - betaln(0.5, 0.5)
    log_prior = log_prior + 0.5 * np.log(w_g / w) + 0.5 * np.log(w_x / w) - 2 * gammaln(0.5) + gammaln(1.0)
    step, wide = np.log(sds[1] / sds[0]) * 2, slopes[1] - slopes[0]
    normal = -0.5 * (slopes / sds[:, None]) ** 2 - np.log(sds[:, None]) - 0.5 * np.log(2 * np.pi)
    joint = log_l[:, None, :] + normal[None] + log_prior[:, :, None]
    evidence = logsumexp(joint) + np.log(wide) + 2 * np.log(step)
    weight = np.exp(joint - logsumexp(joint))
    of_slope, of_sd = weight.sum(axis=(0, 1)), weight.sum(axis=(1, 2))
    mean = of_slope @ slopes
    effects = np.einsum("iks,ais->a", weight, first)
    return {
        "evidence": evidence,
        "slope": mean,
        "slope_sd": np.sqrt(of_slope @ (slopes - mean) ** 2),
        "effects": effects,
        "sd": of_sd @ sds,
    }


def test_against_quadrature():
    g = DATA["g"].to_numpy()
    x, y = DATA["x"].to_numpy(), DATA["y"].to_numpy()
    dummies = pd.get_dummies(DATA["g"]).astype(float)
    columns = dummies.assign(x=x)
    model = BayesRidge(
        y, columns, intercept=False, standardize=False, family="binomial", bands={"g": list(dummies), "x": ["x"]}
    )
    res, exact = model.fit(tol=1e-3), by_quadrature(y, g, x)
    assert res.log_marginal == pytest.approx(exact["evidence"], abs=EVIDENCE)
    assert abs(res.params["x"] - exact["slope"]) < NEAR_MEAN * exact["slope_sd"]
    assert res.bse["x"] == pytest.approx(exact["slope_sd"], rel=NEAR_SD)
    effects = res.params[list(dummies)].to_numpy()
    assert np.abs((effects - exact["effects"]) / res.bse[list(dummies)]).max() < NEAR_MEAN
    assert res.variance_components().loc["g", "mean"] == pytest.approx(exact["sd"], rel=NEAR_SD)


def test_predictions_for_levels_that_are_new(grouped):
    new = DATA.head(2).assign(g=["a", "new"], x=1.0)
    sampled, zero = (grouped.get_prediction(new, new_levels=how).summary_frame() for how in ("sample", "zero"))
    np.testing.assert_allclose(sampled.iloc[0], zero.iloc[0], rtol=1e-12)
    assert sampled["mean_se"].iloc[1] > 1.5 * zero["mean_se"].iloc[1]
    np.testing.assert_allclose(grouped.predict(new), sampled["mean"], rtol=1e-12)
    without = grouped.get_prediction(new, groups=False).summary_frame()
    np.testing.assert_allclose(without.iloc[0], zero.iloc[1], rtol=1e-9)
    drawn = grouped.sample(40_000, rng=1, hyper_columns=True)
    effect = np.random.default_rng(2).standard_normal(len(drawn)) * np.sqrt(drawn["tau2[g]"])
    mean = expit(drawn["Intercept"] + drawn["x"] + effect).mean()
    assert sampled["mean"].iloc[1] == pytest.approx(mean, abs=0.006)


def test_draws_agree_with_moments(grouped):
    drawn = grouped.sample(40_000, rng=3)
    assert np.abs((drawn.mean() - grouped.params) / grouped.bse).max() < 0.03
    np.testing.assert_allclose(drawn.std(), grouped.bse, rtol=0.03)
    np.testing.assert_allclose(drawn.cov(), grouped.cov_params(), atol=0.03 * (grouped.bse.max() ** 2))


def test_trials_are_rows():
    rows = DATA.loc[DATA.index.repeat(DATA["m"])].assign(
        y=np.concatenate([np.arange(m) < k for k, m in zip(DATA["k"], DATA["m"], strict=True)]).astype(int)
    )
    of_trials = BayesRidge.from_formula("k ~ x + (1 | g)", DATA, family="binomial", trials="m").fit("laplace")
    of_rows = BayesRidge.from_formula("y ~ x + (1 | g)", rows, family="binomial").fit("laplace")
    np.testing.assert_allclose(of_trials.params, of_rows.params, atol=1e-3)
    np.testing.assert_allclose(
        of_trials.variance_components(), of_rows.variance_components(), rtol=1e-2, atol=BETWEEN
    )


def test_rows_of_millions_of_trials():
    """Coefficients hardly depend on the variances there: those of least squares of the logits, with their weights."""
    rng, g, trials = np.random.default_rng(1), np.arange(40) % 8, 5_000_000
    x = rng.standard_normal(40)
    y = rng.binomial(trials, expit(-0.5 + 0.4 * x + 0.6 * rng.standard_normal(8)[g]))
    frame = pd.DataFrame({"y": y, "x": x, "g": g.astype(str), "trials": trials})
    res = BayesRidge.from_formula("y ~ x + (1 | g)", frame, family="binomial", trials="trials").fit()
    assert res.converged
    share, columns = y / trials, np.column_stack([x, np.eye(8)[g]])
    weight = trials * share * (1 - share)
    moment = columns.T @ (weight[:, None] * columns)
    slope = np.linalg.solve(moment, columns.T @ (weight * np.log(share / (1 - share))))[0]
    sd = np.sqrt(np.linalg.inv(moment)[0, 0])
    assert res.params["x"] == pytest.approx(slope, abs=LEAST_SQUARES * sd)
    assert res.bse["x"] == pytest.approx(sd, rel=LEAST_SQUARES)


def test_the_error_of_the_integral_is_stated_where_all_variances_may_vanish():
    rng = np.random.default_rng(17)
    frame = pd.DataFrame({"x": rng.normal(size=48), "z": rng.uniform(0, 3, 48), "m": rng.integers(2, 7, 48)})
    noise = 0.7 * rng.normal(size=6)[rng.integers(0, 6, 48)]
    frame["k"] = rng.binomial(frame["m"], expit(0.4 * frame["x"] + 0.6 * np.sin(2 * frame["z"]) + noise))
    rows = frame.loc[frame.index.repeat(frame["m"])].assign(
        y=np.concatenate([np.arange(m) < k for k, m in zip(frame["k"], frame["m"], strict=True)]).astype(int)
    )
    of_rows = BayesRidge.from_formula("y ~ x + s(z, k=5)", rows, family="binomial").fit("laplace", tol=1e-3)
    model = BayesRidge.from_formula("k ~ x + s(z, k=5)", frame, family="binomial", trials="m")
    of_trials = model.fit("laplace", tol=1e-3)
    ways = float((gammaln(frame["m"] + 1) - gammaln(frame["k"] + 1) - gammaln(frame["m"] - frame["k"] + 1)).sum())
    assert of_rows.quadrature_error < VANISHING
    assert of_rows.log_marginal + ways == pytest.approx(of_trials.log_marginal, abs=VANISHING)


def test_files_without_rows(grouped, curved, tmp_path):
    for res, new in ((grouped, DATA.head(3).assign(g=["a", "new", None])), (curved, DATA.head(3))):
        res.save(tmp_path / "fit", remove_data=True)
        again = load(tmp_path / "fit")
        np.testing.assert_allclose(again.params, res.params, rtol=1e-6)
        np.testing.assert_allclose(again.variance_components(), res.variance_components(), rtol=1e-12)
        np.testing.assert_allclose(
            again.get_prediction(new).summary_frame(), res.get_prediction(new).summary_frame(), rtol=1e-5
        )
        np.testing.assert_allclose(again.explained_variance(), res.explained_variance(), rtol=1e-2)


def test_nodes_of_negligible_weight_are_left_out_with_the_rows(grouped, tmp_path):
    weight = grouped.sites_fit.weight.copy()
    weight[1::3] = 1e-12
    res, new = copy.copy(grouped), DATA.head(3)
    res.sites_fit = replace(grouped.sites_fit, weight=weight / weight.sum())
    res.posterior = res.sites_fit.posterior()
    res.save(tmp_path / "fit", remove_data=True)
    again = load(tmp_path / "fit")
    assert len(again.posterior.nodes) < len(res.posterior.nodes)
    np.testing.assert_allclose(
        again.get_prediction(new).summary_frame(), res.get_prediction(new).summary_frame(), rtol=1e-5
    )


def test_curves_of_counts(curved):
    assert curved.smooth(at=[1.0, 2.0]).shape == (2, 4)
    assert list(curved.variance_components().index) == ["g", "s(z)", "other"]
    assert (curved.rate_ratios()["rate_ratio"] > 0).all()
    frame = curved.get_prediction(DATA.head(2), exposure=2.0).summary_frame()
    half = curved.get_prediction(DATA.head(2), exposure=1.0).summary_frame()
    of_means = [name for name in frame if name.startswith("mean")]
    np.testing.assert_allclose(frame[of_means], 2 * half[of_means], rtol=1e-12)


def test_a_variance_at_zero_is_said():
    with pytest.warns(DegenerateFitWarning, match="'h' is estimated to be zero"):
        res = BayesRidge.from_formula("y ~ x + (1 | h)", DATA, family="binomial", unpenalized="fixed").fit("reml")
    assert res.variance_components().loc["h", "mean"] < 1e-12


@only_thorough
def test_the_error_of_the_integral_is_stated_where_a_variance_is_near_zero():
    rng = np.random.default_rng(0)
    n = 120
    frame = pd.DataFrame({"x": rng.normal(size=n), "z": rng.normal(size=n)})
    frame["g"], frame["h"] = rng.integers(0, 7, n).astype(str), rng.integers(0, 3, n).astype(str)
    frame["trials"] = rng.integers(1, 30, n)
    rate = 0.5 * frame["x"] - 0.8 * frame["z"] + rng.normal(size=7)[frame["g"].astype(int)]
    frame["k"] = rng.binomial(frame["trials"], 1 / (1 + np.exp(-rate)))
    model = BayesRidge.from_formula("k ~ x + z + (1 | g) + (1 | h)", frame, family="binomial", trials="trials")
    coarse, fine = model.fit("laplace"), model.fit("laplace", tol=1e-3)
    stated = coarse.diagnostics()["quadrature_error"]
    assert fine.converged
    assert coarse.log_marginal == pytest.approx(fine.log_marginal, abs=ABOUT * stated)
    np.testing.assert_allclose((coarse.params - fine.params) / fine.bse, 0, atol=ABOUT * stated)
    np.testing.assert_allclose(coarse.bse / fine.bse, 1, atol=ABOUT * stated)


def test_separated_by_a_group_alone():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"g": np.repeat(list("abcdef"), 5), "x": rng.standard_normal(30)})
    frame["y"] = np.isin(frame["g"], list("abc")).astype(int)
    res = BayesRidge.from_formula("y ~ x + (1 | g)", frame, family="binomial", unpenalized="fixed").fit()
    assert np.isfinite(res.conf_int()).all().all()
    with pytest.raises(ValueError, match="improper"):
        BayesRidge.from_formula("y ~ x + (1 | g)", frame, family="binomial", flat_in="link").fit()


def test_nodes_at_which_expectation_propagation_does_not_settle(grouped):
    node = replace(grouped.sites_fit.nodes[0], converged=True)
    for weight, change, enough in ((1e-6, 0.2, True), (1e-6, 0.7, False), (0.1, 0.001, False)):
        nodes = (node, replace(node, converged=False, change=change))
        assert band_integral._settled(nodes, np.array([1 - weight, weight])) == enough


HERD = """
1 1 1 1 2 2 2 3 3 3 3 4 4 4 4 5 5 5 5 6 6 6 6 7 7 7 7 8 9 9 9 9 10 10 10 10 11 11 11 11 12 12 12 12 13 13 13
13 14 14 14 14 15 15 15 15
"""
INCIDENCE = """
2 3 4 0 3 1 1 8 2 0 2 2 0 2 0 5 0 0 1 3 0 0 1 8 1 3 0 12 2 0 0 0 1 1 0 2 0 5 3 1 2 1 0 0 1 2 0 0 11 0 0 0 1 1
1 0
"""
SIZE = """
14 12 9 5 22 18 21 22 16 16 20 10 10 9 6 18 25 24 4 17 17 18 20 16 10 9 5 34 9 6 8 6 22 22 18 22 25 27 22 22
10 8 6 5 21 24 19 23 19 2 3 2 19 15 15 15
"""
PERIOD = """
1 2 3 4 1 2 3 1 2 3 4 1 2 3 4 1 2 3 4 1 2 3 4 1 2 3 4 1 1 2 3 4 1 2 3 4 1 2 3 4 1 2 3 4 1 2 3 4 1 2 3 4 1 2 3
4
"""
"""lme4's cbpp: herds, and cows of them in four periods that got contagious bovine pleuropneumonia."""


def test_modes_of_glmer():
    """Coefficients at the mode given the variance: ``glmer(..., nAGQ = 0)`` of lme4 1.1-31, and its estimate."""
    rows = {"herd": HERD.split(), "y": INCIDENCE.split(), "m": SIZE.split(), "period": PERIOD.split()}
    herds = pd.DataFrame(rows).astype({"y": int, "m": int})
    model = BayesRidge.from_formula(
        "y ~ period + (1 | herd)", herds, family="binomial", trials="m", unpenalized="fixed"
    )
    res = model.fit("fixed", lam=[0.641838555349**-2], solver="laplace")
    theirs = [-1.360475727626, -0.976173236094, -1.111072783643, -1.559675683773]
    np.testing.assert_allclose(res.params.iloc[:4], theirs, atol=1e-8)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: BayesRidge.from_formula(GROUPED, DATA, family="binomial").fit("exact"), "use 'ep'"),
        (lambda: BayesRidge.from_formula(GROUPED, DATA, family="binomial").fit("em"), "'reml'"),
        (lambda: BayesRidge.from_formula(GROUPED, DATA, family="binomial").fit("loocv"), "one penalty for all"),
        (lambda: BayesRidge.from_formula(GROUPED, DATA, family="binomial").fit("fixed"), "lam"),
        (lambda: BayesRidge.from_formula(GROUPED, DATA, family="binomial").fit(grid=[1.0]), "grid"),
        (
            lambda: BayesRidge(
                DATA["y"], np.random.default_rng(0).normal(size=(N, 9)), family="binomial", bands=list("abcdefghi")
            ).fit(),
            "at most 8 variances",
        ),
        (
            lambda: BayesRidge.from_formula("z ~ x + (t | g)", DATA, family="student-t").fit(),
            "at most 3 variances.*df=4",
        ),
        (
            lambda: BayesRidge.from_formula(
                "y ~ (1 | g) + (1 | h)",
                pd.DataFrame({"y": np.arange(1800) % 2, "g": np.arange(1800) // 3, "h": np.arange(1800) % 501}),
                family="binomial",
            ).fit(),
            "beside the 600 levels",
        ),
    ],
)
def test_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    ("formula", "more"),
    [
        ("y ~ x + (x | g)", {"family": "binomial"}),
        ("c ~ x + (1 | g) + (1 | h)", {"family": "poisson", "exposure": "t"}),
        ("c ~ x + (1 | g)", {"family": "negative-binomial"}),
    ],
)
def test_weighted_points_equal_a_lattice(formula, more, monkeypatch):
    model = BayesRidge.from_formula(formula, DATA, unpenalized="fixed", **more)
    wanted = model.fit("laplace")
    monkeypatch.setattr(band_place, "MOST_DIMENSIONS", 0)
    found = model.fit("laplace", tol=1e-2)
    assert all(isinstance(part.lattice, SampledPoints) for part in found.sites_fit.parts)
    assert abs(found.log_evidence - wanted.log_evidence) < WEIGHTED
    assert (np.abs(found.params - wanted.params) < WEIGHTED * wanted.bse).all()
    np.testing.assert_allclose(found.bse, wanted.bse, rtol=WEIGHTED)
    first, second = found.variance_components(), wanted.variance_components()
    for name, most in (("mean", WEIGHTED), ("lower", ENDS), ("upper", ENDS)):
        assert (np.abs(first[name] - second[name]) < most * second["sd"]).all()
    if "negative" in more["family"]:
        hyper, theirs = found.hyperparameters().loc["alpha"], wanted.hyperparameters().loc["alpha"]
        assert abs(hyper["mean"] - theirs["mean"]) < ENDS * (theirs["upper"] - theirs["lower"]) / 4


def test_five_variances_and_correlations():
    """Two random effects, their correlation, another group and a band, for counts."""
    model = BayesRidge.from_formula("c ~ x + (z | g) + (1 | h)", DATA, family="poisson", exposure="t")
    res = model.fit("laplace")
    assert res.converged
    assert res.quadrature_error <= 0.04
    components = res.variance_components()
    assert components.index.tolist() == ["g", "z|g", "h", "other", "cor(g, z|g)"]
    assert (components["lower"] < components["mean"]).all()
    assert (components["mean"] < components["upper"]).all()


def test_integrals_that_would_take_hours_are_refused():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=900), "g": np.arange(900) % 300})
    frame["y"] = (frame["x"] + rng.logistic(size=900) > 0).astype(int)
    model = BayesRidge.from_formula("y ~ x + (x | g)", frame, family="binomial", unpenalized="fixed")
    with pytest.raises(ValueError, match="at most 400 penalised columns where it integrates over 3 variances"):
        model.fit("laplace")
