"""``loo(by=)`` of responses that are not Gaussian, beside quadrature and beside fits without the group."""

import itertools
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.special import betaln, expit, gammaln, log_expit, logsumexp, ndtr
from scipy.stats import nbinom, poisson

import pybayesridge.formula.bands as of_formula
from pybayesridge import BayesRidge, PrecisionWarning, SpikeSlab, compare_loo
from pybayesridge.results import leave_one_out
from pybayesridge.sites import separation
from pybayesridge.sites.ep import expectation_propagation
from pybayesridge.sites.gaussian import Sites
from pybayesridge.sites.groups_left_out import _Others, _some
from pybayesridge.sites.separation import check_unpenalized

SAME = 1e-9
"""Differences that are rounding."""

INTEGRATED = 0.05
"""Differences to integrals, and to fits without the group, where 0.007 was the largest that was seen."""

BY_LAPLACE = 0.1
"""Likewise for Laplace's approximation: 0.03."""

HARD = 0.2
"""To integrals for groups without which the others are separated, or nearly: 0.09, the error of the approximation of
the others' evidence. By points for the group in the others' normal distribution it was 0.5."""

N, LEVELS = 48, 6
KINDS = ["binomial", "poisson", "negative-binomial", "beta-binomial", "student-t", "ordinal"]
GIVEN = {"negative-binomial": {"dispersion": 0.3}, "beta-binomial": {"dispersion": 0.2}}


def rows(seed=0, n=N, levels=LEVELS):
    rng = np.random.default_rng(seed)
    g = np.r_[np.arange(levels), rng.integers(levels, size=n - levels)]
    x, u = rng.normal(size=(2, n))
    eta = 0.4 + 0.7 * x + rng.normal(size=levels)[g]
    trials = rng.integers(2, 9, size=n)
    frame = pd.DataFrame({"x": x, "u": u, "g": np.array(list("abcdefghij"))[g], "trials": trials})
    frame["yes"] = (rng.uniform(size=n) < expit(eta)).astype(float)
    frame["count"] = rng.poisson(np.exp(eta)).astype(float)
    frame["part"] = rng.binomial(trials, expit(eta)).astype(float)
    frame["number"] = eta + rng.standard_t(3, size=n)
    frame["level"] = np.digitize(eta + rng.logistic(size=n), [-0.5, 1.5])
    return frame


def response(family):
    """The name of the response, and arguments of the model."""
    if family == "beta-binomial":
        return "part", {"trials": "trials"}
    if family == "ordinal":
        return "level", {"categories": [0, 1, 2]}
    return {"binomial": "yes", "student-t": "number"}.get(family, "count"), {}


def model(frame, family, right, **options):
    name, own = response(family)
    return BayesRidge.from_formula(f"{name} ~ {right}", frame, family=family, **own, **options)


def log_likelihood(frame, family, eta):
    """Of each row at linear predictors that broadcast with rows in the last place; of ordered ones a pair of cuts."""
    if family == "binomial":
        return log_expit(np.where(frame["yes"] > 0, eta, -eta))
    if family == "poisson":
        return poisson.logpmf(frame["count"], np.exp(eta))
    if family == "negative-binomial":
        size = 1 / GIVEN[family]["dispersion"]
        return nbinom.logpmf(frame["count"], size, size / (size + np.exp(eta)))
    s, n = frame["part"].to_numpy(), frame["trials"].to_numpy()
    total = 1 / GIVEN[family]["dispersion"]
    a, b = total * expit(eta), total * expit(-eta)
    return gammaln(n + 1) - gammaln(s + 1) - gammaln(n - s + 1) + betaln(s + a, n - s + b) - betaln(a, b)


def of_groups(frame, family, sd):
    """Log densities of each group at intercepts on a grid, its effect integrated out, (G, I), and the spacing."""
    grid, effect = np.linspace(-9, 9, 361), np.linspace(-8, 8, 121)
    log_w = -0.5 * effect**2 - logsumexp(-0.5 * effect**2)
    out = []
    for _, part in frame.groupby("g"):
        eta = grid[:, None] + sd * effect
        each = log_likelihood(part, family, eta[:, :, None]).sum(axis=-1)
        out.append(logsumexp(each + log_w, axis=1))
    return np.array(out)


@pytest.mark.parametrize("family", ["binomial", "poisson", "negative-binomial", "beta-binomial"])
@pytest.mark.parametrize("method", ["ep", "laplace"])
def test_given_variances_against_quadrature(family, method):
    frame = rows()
    res = model(frame, family, "1 + (1 | g)", **GIVEN.get(family, {})).fit("fixed", lam=[0.8], solver=method)
    sd = float(res.variance_components().loc["g", "mean"])
    each = of_groups(frame, family, sd)
    whole = logsumexp(each.sum(axis=0))
    wanted = [whole - logsumexp(each.sum(axis=0) - one) for one in each]
    score = res.loo(by="g")
    np.testing.assert_allclose(score.pointwise, wanted, atol=INTEGRATED if method == "ep" else BY_LAPLACE)
    assert score.mcse < INTEGRATED
    assert score.n_eff.between(100, 512).all()


@pytest.mark.parametrize(("link", "solver"), [("logit", "ep"), ("logit", "laplace"), ("probit", "laplace")])
def test_ordered_categories_against_quadrature(link, solver):
    """Over both cut points and the effects of groups."""
    frame = rows(seed=2)
    res = model(frame, "ordinal", "1 + (1 | g)", link=link).fit("fixed", lam=[1.0], solver=solver)
    sd = float(res.variance_components().loc["g", "mean"])
    effect = np.linspace(-6, 6, 61)
    log_w = -0.5 * effect**2 - logsumexp(-0.5 * effect**2)
    low = np.linspace(-7, 5, 97)[:, None, None] - sd * effect
    below, up_to = ((expit if link == "logit" else ndtr)(u) for u in (low, low + np.linspace(0.05, 6, 120)[:, None]))
    logs = [np.log(np.maximum(p, 1e-300)) for p in (below, up_to - below, 1 - up_to)]
    each = []
    for _, part in frame.groupby("g"):
        counts = np.bincount(part["level"], minlength=3)
        each.append(logsumexp(sum(n * one for n, one in zip(counts, logs, strict=True)) + log_w, axis=-1))
    total = np.sum(each, axis=0)
    wanted = [logsumexp(total) - logsumexp(total - one) for one in each]
    tolerance = INTEGRATED if solver == "ep" else BY_LAPLACE
    np.testing.assert_allclose(res.loo(by="g").pointwise, wanted, atol=tolerance)


def test_variance_integrated_out_against_quadrature():
    """With the prior of the fit to all rows."""
    frame = rows(seed=1)
    res = model(frame, "poisson", "1 + (1 | g)", flat_in="link").fit()
    dummies = (frame["g"].to_numpy()[:, None] == np.unique(frame["g"])).astype(float)
    size = ((dummies - dummies.mean(axis=0)) ** 2).sum() / N / res.sites_fit.likelihood.latent_variance
    log_t = np.arange(-8.0, 5.0, 0.25)
    width = np.exp(log_t) * size
    prior = 0.5 * np.log(width) - np.log1p(width)
    each = np.stack([of_groups(frame, "poisson", np.exp(0.5 * one)) for one in log_t])
    whole = logsumexp(each.sum(axis=1) + prior[:, None])
    wanted = [whole - logsumexp(each.sum(axis=1) - each[:, g] + prior[:, None]) for g in range(LEVELS)]
    score = res.loo(by="g")
    np.testing.assert_allclose(score.pointwise, wanted, atol=INTEGRATED)
    assert score.correction.abs().max() < 1


def without_the_group(fit, which):
    """The log density of some rows by expectation propagation for the others at each node of a fit.

    Of a group with most of the rows, nodes with a weight of 1e-7 count: they matter without it.
    """
    keep, found = np.flatnonzero(fit.weight > 1e-9), []
    for i in keep:
        node = fit.nodes[i]
        likelihood = fit.likelihood.of_node(node)
        group = likelihood.of_group(which, node.mean)
        left = np.ones(node.mean.size)
        left[group.sites] -= group.share
        at = np.flatnonzero(left > 0)
        start = Sites(left[at] * node.sites.precision[at], left[at] * node.sites.shift[at])
        space = _Others(_some(fit.space_at(int(i)).scaled(node.log_t2), at))
        others = expectation_propagation(space, likelihood.without(which), node.log_t2, start, tol=1e-4, maxiter=200)
        found.append(node.log_evidence - others.log_evidence)
    constant = (fit.likelihood.copies * fit.likelihood.log_constants())[which].sum()
    return constant - logsumexp(np.log(fit.weight[keep] / fit.weight[keep].sum()) - np.array(found))


@pytest.mark.parametrize("right", ["x + u", "x + (1 | g)"])
@pytest.mark.parametrize("family", KINDS)
def test_beside_fits_without_the_group(family, right):
    frame = rows(seed=3)
    res = model(frame, family, right, **GIVEN.get(family, {}), **({"df": 4} if family == "student-t" else {}))
    res = res.fit(tol=0.1 if "|" in right else None)
    score = res.loo(by=frame["g"])
    for level in "bdf":
        wanted = without_the_group(res.sites_fit, np.flatnonzero(frame["g"] == level))
        assert abs(score.pointwise[level] - wanted) < INTEGRATED
    assert score.predicted is None
    assert score.p_loo > 0
    assert not score.in_doubt


def hard(kind, seed):
    """Rows with one group of most of them, or that a column nearly separates."""
    rng = np.random.default_rng(seed)
    x, u = rng.normal(size=(2, 60))
    large = np.r_[np.zeros(40, dtype=int), rng.integers(1, 5, 20)]
    g, slope = (large, 1.5) if kind == "dominant" else (np.arange(60) % 5, 7.0)
    yes = rng.uniform(size=60) < expit(slope * (x - 0.6 * u))
    return pd.DataFrame({"x": x, "u": u, "g": np.array(list("abcde"))[g], "yes": yes.astype(float)})


@pytest.mark.parametrize("right", ["x + u", "x + (1 | g)"])
@pytest.mark.parametrize("kind", ["dominant", "separated"])
def test_hard_groups_beside_fits_without_them(kind, right):
    """Where the others' approximation is another one without the group, by amounts that differ between the nodes."""
    for seed in (0, 2):
        frame = hard(kind, seed)
        fit = model(frame, "binomial", right).fit(tol=0.1 if "|" in right else None)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrecisionWarning)
            score = fit.loo(by=frame["g"])
        wanted = [without_the_group(fit.sites_fit, np.flatnonzero(frame["g"] == g)) for g in "abcde"]
        np.testing.assert_allclose(score.pointwise, wanted, atol=INTEGRATED)


@pytest.mark.parametrize("solver", ["ep", "laplace"])
@pytest.mark.parametrize("kind", ["dominant", "separated"])
def test_hard_groups_against_quadrature(kind, solver):
    """Over the intercept, a slope, and its variance."""
    frame = hard(kind, {"dominant": 0, "separated": 1}[kind])
    x, yes = frame["x"].to_numpy() - frame["x"].mean(), frame["yes"].to_numpy() > 0
    intercept, slope = np.linspace(-25, 25, 501)[:, None], 40 * np.sinh(np.linspace(-4, 4, 801)) / np.sinh(4)
    size = np.log(x @ x / 60 / (np.pi**2 / 3))
    log_t = np.arange(-20.0, 20.0, 0.1) - size
    prior = 0.5 * (log_t + size) - np.log1p(np.exp(log_t + size))
    of_slope = logsumexp(prior - 0.5 * log_t - 0.5 * slope[:, None] ** 2 * np.exp(-log_t), axis=1)
    of_slope = of_slope + np.log(np.gradient(slope))
    each = {}
    for g in "abcde":
        rows_of = np.flatnonzero(frame["g"] == g)
        each[g] = sum(log_expit((1 if yes[i] else -1) * (intercept + slope * x[i])) for i in rows_of)
    whole = logsumexp(sum(each.values()) + of_slope)
    wanted = [whole - logsumexp(sum(each.values()) - each[g] + of_slope) for g in "abcde"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrecisionWarning)
        score = model(frame, "binomial", "x", flat_in="link").fit(solver).loo(by=frame["g"])
    np.testing.assert_allclose(score.pointwise, wanted, atol=HARD)


@pytest.mark.parametrize("family", KINDS)
@pytest.mark.parametrize("method", ["ep", "laplace"])
def test_groups_of_one_row_are_rows(family, method):
    res = model(rows(), family, "x + u").fit(method)
    one, groups = res.loo(), res.loo(by=np.arange(N))
    np.testing.assert_allclose(groups.pointwise, one.pointwise, atol=SAME)
    np.testing.assert_allclose(groups.summary(), one.summary(), atol=N * SAME)
    assert groups.mcse < SAME


@pytest.mark.parametrize("family", ["poisson", "ordinal"])
def test_eliminated_groups(family, monkeypatch):
    """The same numbers where the columns of the groups are sparse; the levels of another factor are in several."""
    frame = rows(seed=4)
    frame["h"] = np.arange(N) % 5
    found = []
    for many in (500, 4):
        monkeypatch.setattr(of_formula, "MANY_LEVELS", many)
        res = model(frame, family, "x + (1 | g) + (1 | h)").fit("fixed", lam=[1.0, 1.0, 2.0])
        found.append([res.loo(by=by).pointwise for by in ("g", "h")])
    for dense, sparse in zip(*found, strict=True):
        np.testing.assert_allclose(dense, sparse, atol=INTEGRATED)


def test_copies_of_rows_are_left_out_together():
    frame = rows()
    copies = 1 + np.arange(N) % 3
    long = frame.loc[np.repeat(np.arange(N), copies)].reset_index(drop=True)
    each = [
        model(data, "binomial", "1 + (1 | g)", **options).fit("fixed", lam=[0.8]).loo(by="g").pointwise
        for data, options in ((frame, {"weights": copies}), (long, {}))
    ]
    np.testing.assert_allclose(*each, atol=INTEGRATED)


def test_what_other_rows_do_not_determine():
    frame = rows()
    frame["one"] = (frame["g"] == "c").astype(float)
    frame["yes"] = frame["one"] * (frame["u"] > 0)
    with pytest.raises(ValueError, match="group 'c' has no leave-one-out density: without it all responses"):
        model(frame, "binomial", "x").fit().loo(by=frame["g"])
    frame["level"] = np.where(frame["one"] > 0, 2, frame["x"] > 0)
    with pytest.raises(ValueError, match="without it a category does not occur"):
        model(frame, "ordinal", "x").fit("laplace").loo(by=frame["g"])
    with pytest.raises(ValueError, match="the other rows do not determine an unpenalised coefficient"):
        model(frame, "poisson", "x + one", unpenalized=["one"]).fit().loo(by=frame["g"])
    with pytest.raises(ValueError, match=r"loo\(by=\) is for BayesRidge"):
        SpikeSlab.from_formula("count ~ x + u", frame, family="poisson").fit().loo(by=frame["g"])


def few(seed, family):
    """Rows of which some are needed: without them unpenalised columns would separate the others."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"x": rng.normal(size=20), "a": rng.integers(-1, 2, 20), "b": rng.integers(0, 2, 20)})
    frame = frame.assign(one=1.0, trials=2)
    rate = expit(1.5 * frame["a"] - 0.5)
    frame["y"] = {
        "binomial": rng.uniform(size=20) < rate,
        "beta-binomial": rng.binomial(2, rate),
        "poisson": rng.poisson(0.7 * rate),
        "ordinal": np.digitize(rate + rng.uniform(size=20), [0.7, 1.2]),
    }[family].astype(float)
    return frame


def of_few(family, frame):
    options = {"trials": "trials", "dispersion": 0.2} if family == "beta-binomial" else {}
    return BayesRidge.from_formula("y ~ x + a + b", frame, family=family, unpenalized=["a", "b"], **options)


def separated(family, frame):
    try:
        made = of_few(family, frame)
        if family == "ordinal":
            made.fit("fixed", lam=1.0)
        else:
            check_unpenalized(frame[["one", "a", "b"]].to_numpy(), ["1", "a", "b"], made.likelihood())
    except ValueError:
        return True
    return False


@pytest.mark.parametrize(
    ("family", "by"),
    list(itertools.product(["binomial", "beta-binomial", "poisson", "ordinal"], [None, "groups"])),
)
def test_what_the_unpenalised_columns_separate_without_it_has_no_density(family, by):
    found = {True: 0, False: 0}
    for seed in range(40):
        frame = few(seed, family)
        if separated(family, frame) or min(found.values()) > 1:
            continue
        res = of_few(family, frame).fit("laplace")
        codes = np.arange(20) if by is None else np.arange(20) % 7
        needed = [g for g in range(codes.max() + 1) if separated(family, frame[codes != g])]
        found[bool(needed)] += 1
        if by is None:
            assert np.flatnonzero(~np.isfinite(res.loo_log_density())).tolist() == needed
            assert np.isfinite(res.loo_log_score) == (not needed)
        if needed:
            with pytest.raises(ValueError, match=rf"(row|group) {needed[0]} has no leave-one-out density: w"):
                res.loo(by=None if by is None else codes)
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", PrecisionWarning)
                assert np.isfinite(res.loo(by=None if by is None else codes).elpd)
    assert min(found.values()) > 1


def test_few_points_are_in_doubt(monkeypatch):
    res = model(rows(), "poisson", "x + (1 | g)").fit("reml")
    monkeypatch.setattr(leave_one_out, "FEWEST_DRAWS", 1e6)
    with pytest.warns(PrecisionWarning, match="6 group"):
        score = res.loo(by="g")
    assert score.in_doubt == list("abcdef")


def test_fits_are_compared_by_groups():
    frame = rows()
    fits = {
        right: model(frame, "poisson", right).fit("reml" if "|" in right else "em") for right in ("x", "x + (1 | g)")
    }
    table = compare_loo(fits, by=frame["g"])
    assert table.index[0] == "x + (1 | g)"
    assert table["elpd"].iloc[0] == pytest.approx(fits["x + (1 | g)"].loo(by="g").elpd, abs=SAME)


def test_scores_of_different_kinds_of_responses_are_not_compared():
    frame = rows()
    of_counts = model(frame, "poisson", "x").fit("em").loo(by=frame["g"])
    of_numbers = BayesRidge.from_formula("count ~ x", frame).fit("em").loo(by=frame["g"])
    with pytest.raises(ValueError, match=r"'\(1\)' and '\(2\)' are of different families"):
        compare_loo([of_counts, of_numbers])
    scores = []
    for k in (1, 2):
        twice = frame.assign(part=k * frame["part"], trials=k * frame["trials"])
        fit = BayesRidge.from_formula("part ~ x", twice, family="binomial", trials="trials").fit("em")
        scores.append(fit.loo(by=frame["g"]))
    with pytest.raises(ValueError, match="are of different responses"):
        compare_loo(scores)


def test_rows_and_groups_in_doubt_are_asked_about_together(monkeypatch):
    """Where penalised columns separate the responses nearly all rows are in doubt: few linear programs clear them."""
    asked = []
    whether = separation.separation
    monkeypatch.setattr(separation, "separation", lambda *given: asked.append(0) or whether(*given))
    rng = np.random.default_rng(0)
    x, z = rng.standard_normal((400, 5)), rng.standard_normal((400, 2))
    y = (x.sum(axis=1) > 0).astype(float)
    res = BayesRidge(y, np.hstack([x, z]), family="binomial", unpenalized=[5, 6]).fit("laplace")
    asked.clear()
    assert res.sites_fit.needed_rows() == []
    assert np.isfinite(res.loo(by=np.arange(400) // 2).elpd)
    assert len(asked) < 20
