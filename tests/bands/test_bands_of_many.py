"""Several responses with bands: each has the nodes over the shares that it needs and the answers of its own fit."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import numpy as np
import pytest

from pybayesridge import BayesRidge, load
from pybayesridge.bands.fit import HOPELESS, _kept
from pybayesridge.bands.grouped import GroupedFit
from pybayesridge.bands.shares import Box, ShareRule, angles_of
from pybayesridge.bands.simplex import EDGES, LARGEST, PolynomialRule, corners, edges
from pybayesridge.exceptions import ConvergenceWarning
from pybayesridge.posterior.laws import Ask
from pybayesridge.results.export import export
from tests.test_export_bands import moments

LOOSE = 0.1
"""Asked of several responses."""

SHARES = 0.02
"""Error of shares of the variance then; the worst seen is 4e-3."""

LINEAR = 1e-9
"""Between the answers of a response by different ways, relative to the largest."""


def data(n, sizes, seed=0):
    """Eight responses, of signals from none to strong in some of the bands, one of them twice."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, sum(sizes)))
    effects = np.array([(1, 1, 1), (1, 0, 0), (0, 0, 0), (3, 0.3, 0), (0.3, 0.3, 0.3), (0, 0, 2), (8, 8, 0)])
    b = rng.normal(size=(x.shape[1], len(effects)))
    b *= np.repeat(effects[:, : len(sizes)].T / np.sqrt(sizes)[:, None], sizes, axis=0)
    y = x @ b + rng.normal(size=(n, len(effects))) * np.geomspace(1e-2, 1e2, len(effects))
    return np.column_stack([y, y[:, 3]]), x, np.repeat(["a", "b", "c"][: len(sizes)], sizes)


@pytest.fixture(scope="module", params=["two", "three"])
def many(request):
    """Responses and their fit."""
    y, x, labels = data(40, (4, 8) if request.param == "two" else (3, 3, 2))
    return y, x, labels, BayesRidge(y, x, bands=labels).fit(tol=LOOSE)


def test_each_response_has_the_answers_of_its_own_fit(many):
    y, x, labels, res = many
    assert isinstance(res.band_fit, GroupedFit)
    assert res.converged
    assert (res.quadrature_error <= LOOSE).all()
    for i in range(7) if labels[-1] == "b" else (4, 5):
        alone = BayesRidge(y[:, i], x, bands=labels).fit(tol=1e-2)
        stated = LOOSE + 1e-2
        off = (np.asarray(res.params)[:, i] - alone.params) / alone.bse
        assert np.sqrt(np.mean(off**2)) < stated
        assert np.abs(np.asarray(res.bse)[:, i] / alone.bse - 1).max() < 2 * stated
        assert abs(np.asarray(res.log_marginal)[i] - alone.log_marginal) < stated
        share, other = (fit.components_of(j, 0.05)[:, 4] for fit, j in ((res, i), (alone, 0)))
        assert np.abs(share - other).max() < SHARES


def test_copies_of_a_response_have_the_same_answers(many):
    params, bse = np.asarray(many[3].params), np.asarray(many[3].bse)
    np.testing.assert_allclose(params[:, 7], params[:, 3], rtol=0, atol=LINEAR * np.abs(params[:, 3]).max())
    np.testing.assert_allclose(bse[:, 7], bse[:, 3], rtol=1e-6)


def test_some_responses_have_the_answers_that_they_have_among_all(many):
    _, x, _, res = many
    posterior, some = res.posterior, np.array([6, 0, 3])
    part = posterior.of_targets(some)
    for found, whole in zip(part.coefficient_sds(), posterior.coefficient_sds(), strict=True):
        np.testing.assert_allclose(found, whole[:, some], rtol=LINEAR)
    law, own = (each.rows(x[:5], np.ones((5, 1))).ask(Ask((0.1,))) for each in (posterior, part))
    np.testing.assert_allclose(
        own.quantiles, law.quantiles[:, some], rtol=0, atol=LINEAR * np.abs(law.quantiles).max()
    )
    assert "x1" in str(res.summary())
    own, whole = res.ask(Ask((0.1,)), target=3), res.ask(Ask((0.1,)))
    np.testing.assert_allclose(
        own.quantiles[:, 0], whole.quantiles[:, 3], rtol=0, atol=LINEAR * np.abs(whole.mean).max()
    )


def test_answers_of_groups_stand_where_their_responses_do(many):
    _, x, _, res = many
    posterior = res.posterior
    prediction = res.get_prediction(x[:5])
    mean, frame = np.asarray(res.predict(x[:5])), prediction.summary_frame()
    for i, name in enumerate(res.model.data.targets):
        own = posterior.of_target(i)
        law = own.rows(x[:5], np.ones((5, 1)))
        scale = np.abs(mean[:, i]).max()
        np.testing.assert_allclose(mean[:, i], frame[name]["mean"], rtol=0, atol=LINEAR * scale)
        quantiles = law.quantiles(np.array([0.025, 0.975]))[:, 0]
        np.testing.assert_allclose(quantiles, frame[name][["mean_ci_lower", "mean_ci_upper"]], rtol=1e-6)
        drawn = res.band_fit.draw(res.model.noise(), i, 4000, np.random.default_rng(0))
        bse = np.asarray(res.bse)[1:, i]
        assert np.abs((drawn.b.mean(axis=0) - np.asarray(res.params)[1:, i]) / bse).max() < 5 / np.sqrt(4000)


def test_groups_are_saved_and_exported(many, tmp_path):
    _, x, labels, res = many
    if labels[-1] == "c":
        pytest.skip("tables of the variances of three bands take long")
    res.save(tmp_path / "fit.zip")
    again = load(tmp_path / "fit.zip")
    np.testing.assert_array_equal(np.asarray(again.params), np.asarray(res.params))
    np.testing.assert_array_equal(np.asarray(again.predict(x)), np.asarray(res.predict(x)))
    exported = export(res)
    post = exported["posterior"]
    at = post["at"].astype(int) - 1
    for i in range(len(res.model.data.targets)):
        unit = post["y_norm"][i] / post["scale"]
        mean, sd = moments(post, i)
        params = exported["params"][at, i]
        np.testing.assert_allclose(mean * unit, params, rtol=0, atol=1e-7 * np.abs(params).max())
        np.testing.assert_allclose(sd * unit, exported["bse"][at, i], rtol=1e-6)


def test_leave_one_out_of_a_response_is_that_of_its_nodes(many):
    found = many[3].loo(target=many[3].model.data.targets[2])
    alone = BayesRidge(many[0][:, 2], many[1], bands=many[2]).fit(tol=1e-2).loo()
    assert abs(found.elpd - alone.elpd) < LOOSE


@pytest.mark.parametrize("closed", [False, True])
@pytest.mark.parametrize("count", LARGEST)
def test_polynomials_of_the_degree_are_interpolated_exactly(count, closed):
    points = ShareRule.of(Box.whole(count), 7)
    for degree in (1, 4, LARGEST[count]):
        rule = PolynomialRule.of(degree, np.zeros(count), closed=closed)
        assert (rule.shares >= 0).all()
        np.testing.assert_allclose(rule.shares.sum(axis=1), 1.0, rtol=1e-14)
        values, expected = ((each @ np.arange(1.0, count + 1)) ** degree for each in (rule.shares, points.shares))
        found = rule.between(points.shares) @ values
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10 * np.abs(expected).max())
        np.testing.assert_array_equal(
            rule.lower(1).shares, PolynomialRule.of(1, np.zeros(count), closed=closed).shares
        )


def test_nodes_of_a_closed_rule_are_on_the_border_where_they_can_be():
    found = PolynomialRule.of(5, np.zeros(3), closed=True).shares
    none = (found <= EDGES[0]).sum(axis=1)
    # Six on each edge, of which the corners are on two, determine a polynomial there; the others are inside.
    np.testing.assert_array_equal(np.bincount(none), [6, 12, 3])


def test_a_peak_beside_an_edge_is_not_passed_over():
    rng = np.random.default_rng(5)
    x = rng.normal(size=(40, 12))
    # Next to no noise: the share of the band of noise is below 1e-4, or of its order.
    y = x[:, :4] @ rng.normal(size=(4, 3)) + 1e-3 * rng.normal(size=(40, 3))
    labels = np.repeat(["a", "b"], [4, 8])
    found = BayesRidge(y, x, bands=labels).fit(tol=LOOSE)
    for i in range(3):
        alone = BayesRidge(y[:, i], x, bands=labels).fit()
        assert abs(np.asarray(found.log_marginal)[i] - alone.log_marginal) < LOOSE


def test_noise_whose_variance_has_no_mean(recwarn):
    y, x, labels = data(3, (4, 4))
    res = BayesRidge(y[:, :4], x, bands=labels).fit(tol=LOOSE)
    assert res.converged
    assert np.isfinite(np.asarray(res.params)).all()
    assert not [each for each in recwarn if issubclass(each.category, RuntimeWarning)]


def test_weights_that_are_not_negative_keep_means_of_shares():
    rule, rng = PolynomialRule.of(6, np.zeros(3)), np.random.default_rng(0)
    points = ShareRule.of(Box.whole(3), 30)
    middle = rng.dirichlet(np.ones(3), size=5).T
    density = np.exp(-0.5 * ((points.shares[:, :, None] - middle) ** 2).sum(axis=1) / 0.15**2)
    density *= np.exp(points.log_weight)[:, None]
    density /= density.sum(axis=0)
    found = rule.nonnegative(rule.between(points.shares).T @ density, rule.shares)
    assert (found >= 0).all()
    np.testing.assert_allclose(found.sum(axis=0), 1.0, rtol=1e-12)
    assert np.abs(rule.shares.T @ found - points.shares.T @ density).max() < 0.05


@pytest.mark.parametrize("kind", ["one column", "strong", "copies"])
def test_stated_errors_are_not_exceeded(kind):
    rng = np.random.default_rng(2)
    sizes = {"one column": (1, 1), "strong": (20, 20), "copies": (20, 30)}[kind]
    x = rng.normal(size=(60, sum(sizes)))
    if kind == "copies":
        x[:, 20:30] = x[:, :10]
    # Of noise, of one band alone, and from weak to strong in both.
    effects = np.exp(rng.uniform(*np.log((3, 20) if kind == "strong" else (0.1, 5)), size=(2, 12)))
    effects[:, 0], effects[0, 1], effects[1, 2] = 0, 0, 0
    b = rng.normal(size=(sum(sizes), 12)) * np.repeat(effects / np.sqrt(sizes)[:, None], sizes, axis=0)
    y = x @ b + rng.normal(size=(60, 12))
    labels = np.repeat(["a", "b"], sizes)
    res = BayesRidge(y, x, bands=labels).fit(tol=LOOSE)
    assert res.converged
    for i, error in enumerate(np.asarray(res.quadrature_error)):
        alone = BayesRidge(y[:, i], x, bands=labels).fit(tol=1e-2)
        stated = error + 1e-2
        assert abs(np.asarray(res.log_marginal)[i] - alone.log_marginal) < stated
        off = (np.asarray(res.params)[:, i] - alone.params) / alone.bse
        assert np.sqrt(np.mean(off**2)) < stated


@pytest.fixture(scope="module")
def narrow():
    """Six responses, in most of which one band dominates, and their columns."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(120, 60))
    effects = np.array([[2, 0.3, 0.3], [0.3, 2, 0.6], [0.6, 0.3, 2], [2, 0.6, 0.3], [0.3, 2, 0.3], [0, 0, 0]])
    y = x @ (rng.normal(size=(60, 6)) * np.repeat(effects, 20, axis=1).T) + 5 * rng.normal(size=(120, 6))
    return y, x, np.repeat(["a", "b", "c"], 20)


def test_narrow_densities_have_parts_of_their_own(narrow):
    y, x, labels = narrow
    res = BayesRidge(y, x, bands=labels).fit(tol=LOOSE)
    assert res.converged
    in_parts = [
        i
        for fit, own in zip(res.band_fit.fits, res.band_fit.members, strict=True)
        if isinstance(fit.rule, PolynomialRule) and fit.rule.low.any()
        for i in own
    ]
    assert len(in_parts) >= 2
    for i in in_parts[:1]:
        alone = BayesRidge(y[:, i], x, bands=labels).fit(tol=1e-2)
        stated = np.asarray(res.quadrature_error)[i] + 1e-2
        assert abs(np.asarray(res.log_marginal)[i] - alone.log_marginal) < stated
        off = (np.asarray(res.params)[:, i] - alone.params) / alone.bse
        assert np.sqrt(np.mean(off**2)) < stated
        assert np.abs(np.asarray(res.bse)[:, i] / alone.bse - 1).max() < stated
        share, other = (fit.components_of(j, 0.05)[:, 4] for fit, j in ((res, i), (alone, 0)))
        assert np.abs(share - other).max() < SHARES


def test_without_memory_for_nodes_the_responses_that_need_them_are_named(narrow, monkeypatch):
    y, x, labels = narrow
    for name in ("MOST_NUMBERS", "LADDER_NUMBERS"):
        monkeypatch.setattr(f"pybayesridge.bands.fit.{name}", 0)
    with pytest.warns(ConvergenceWarning, match=r"raise tol, or join bands \(targets .*'y2'"):
        res = BayesRidge(y, x, bands=labels).fit(tol=LOOSE)
    error = np.asarray(res.quadrature_error)
    assert not res.converged
    assert (error[:5] > LOOSE).any()
    assert error[5] <= LOOSE
    np.testing.assert_array_equal(res.band_fit.converged, error <= LOOSE)
    # Singular vectors are those of the nodes of the lowest degree, 21 of them, in all shares or in a part of them.
    assert res.band_fit.n_nodes <= 21


@pytest.mark.filterwarnings("ignore::pybayesridge.exceptions.PrecisionWarning")
def test_errors_that_say_nothing_are_infinite_without_a_limit_too(monkeypatch):
    y, x, labels = hostile("strong")
    for name in ("MOST_NUMBERS", "LADDER_NUMBERS"):
        monkeypatch.setattr(f"pybayesridge.bands.fit.{name}", 0)
    with pytest.warns(ConvergenceWarning, match=r"raise tol, or join bands \(targets "):
        res = BayesRidge(y, x, bands=labels).fit(tol=LOOSE)
    error = np.asarray(res.quadrature_error)
    assert np.isinf(error).any()
    assert error[np.isfinite(error)].max() <= HOPELESS
    np.testing.assert_array_equal(res.band_fit.converged, error <= LOOSE)


@pytest.mark.filterwarnings("ignore::pybayesridge.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("limit", [None, 17])
def test_quantiles_are_off_by_no_more_than_is_documented(limit):
    probabilities = np.array([0.025, 0.25, 0.5, 0.75, 0.975])
    rng = np.random.default_rng(2004)
    x, labels = rng.normal(size=(70, 15)), np.repeat(["a", "b"], (6, 9))
    effects = np.repeat(np.exp(rng.uniform(-3, 0.5, size=(2, 6))) / np.sqrt([[6], [9]]), (6, 9), axis=0)
    y = x @ (rng.normal(size=(15, 6)) * effects) + rng.normal(size=(70, 6))
    res = BayesRidge(y, x, bands=labels).fit(tol=LOOSE, maxiter=limit)
    found = res.posterior.coefficient_quantiles(probabilities)[1]
    reached = np.flatnonzero(res.band_fit.converged)
    assert reached.size >= 3
    for i in reached.tolist():
        alone = BayesRidge(y[:, i], x, bands=labels).fit()
        exact = alone.posterior.coefficient_quantiles(probabilities)[1][:, 0]
        off = np.abs(found[:, i] - exact).max(axis=0) / np.asarray(alone.bse)[1:].min()
        assert (off < [1 / 6, 1 / 3, 1 / 3, 1 / 3, 1 / 6]).all()


@pytest.mark.parametrize("count", LARGEST)
def test_parts_cover_all_shares_and_are_integrated_over(count):
    rng = np.random.default_rng(0)
    every = rng.dirichlet(np.ones(count), size=500)
    for size in (1 / 4, 1 / 2):
        lows = corners(count, size)
        np.testing.assert_allclose(lows.sum(axis=1), 1 - size)
        inside = [(every >= low).all(axis=1) for low in lows]
        assert np.any(inside, axis=0).all()
        for low in lows:
            rule = PolynomialRule.of(6, low)
            assert (rule.local(rule.shares) >= 0).all()
            within = every[(every >= low).all(axis=1)]
            angles = angles_of(within)
            assert ((angles >= rule.box.low) & (angles <= rule.box.high)).all()
            points = rule.points(12)
            values, expected = ((each @ np.arange(1.0, count + 1)) ** 6 for each in (rule.shares, points.shares))
            np.testing.assert_allclose(rule.between(points.shares) @ values, expected, rtol=1e-9)
            for edge in (1e-6, 1e-4):
                ends = edges(low, edge)
                np.testing.assert_allclose(ends.sum(axis=1), 1.0, rtol=1e-14)
                assert (rule.local(ends) >= 0).all()


HONEST = 3.0
"""Stated errors of a limited number of decompositions are at least the actual ones divided by this."""


UNFELT = 3e-4
"""Relative difference of stated errors, with decompositions at shares that are not felt and without; the largest seen
is 3e-5."""


def test_a_node_of_all_columns_is_kept():
    spectra = [SimpleNamespace(p=p) for p in (3, 5, 8, 8, 3)]
    weight = np.array([0.5, 0.5, 0.0, 0.0, 0.0])[:, None]
    assert _kept(spectra, weight, 8).tolist() == [0, 1, 2]
    assert _kept(spectra, weight[::-1], 8).tolist() == [3, 4]
    assert _kept(spectra[2:4], weight[:2], 8).tolist() == [0, 1]


OF_NONE = 5e-5
"""Of answers for bands whose share stands for none, in standard deviations; the largest seen is 4e-6."""


def fits_of(res):
    """The fits of all groups of responses."""
    return res.band_fit.fits if isinstance(res.band_fit, GroupedFit) else (res.band_fit,)


def hostile(kind):
    """Thirty responses, of strong signals, of noise, or of two columns that are a band each."""
    rng = np.random.default_rng(4)
    sizes = {"one column": (1, 1), "three": (5, 8, 7)}.get(kind, (20, 30))
    x = rng.normal(size=(150 if kind != "three" else 60, sum(sizes)))
    low, high = {"strong": (20, 300), "mixed": (0.03, 30), "noise": (1e-9, 1e-8)}.get(kind, (0.1, 5))
    q = 8 if kind == "three" else 30
    effects = np.exp(rng.uniform(np.log(low), np.log(high), size=(len(sizes), q)))
    if kind == "strong":
        effects *= np.where(rng.random(effects.shape) < 0.3, 0.01, 1)
    y = x @ (rng.normal(size=(sum(sizes), q)) * np.repeat(effects / np.sqrt(sizes)[:, None], sizes, axis=0))
    return y + rng.normal(size=y.shape), x, np.repeat(["a", "b", "c"][: len(sizes)], sizes)


def difference(res, whole):
    """How far the answers for each response are from those of another fit, as stated errors measure it."""
    params, sd = (np.asarray(getattr(whole, name))[1:] for name in ("params", "bse"))
    fitted = np.sqrt((((np.asarray(res.params)[1:] - params) / sd) ** 2).mean(axis=0))
    spread = 0.5 * np.abs(np.log((np.asarray(res.bse)[1:] ** 2).mean(axis=0) / (sd**2).mean(axis=0)))
    evidence = np.abs(np.asarray(res.log_marginal) - np.asarray(whole.log_marginal))
    return np.maximum.reduce([fitted, spread, evidence])


@pytest.mark.filterwarnings("ignore::pybayesridge.exceptions.PrecisionWarning")
@pytest.mark.parametrize("kind", ["strong", "mixed", "noise", "one column", "three"])
def test_errors_with_few_decompositions_are_honest(kind):
    y, x, labels = hostile(kind)
    whole = BayesRidge(y, x, bands=labels).fit(tol=LOOSE)
    limits = (33, 60, 150) if kind == "three" else (10, 17, 25, 41)
    seen, exceeded, found = 0, 0, []
    for limit in limits:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            found.append(BayesRidge(y, x, bands=labels).fit(tol=LOOSE, maxiter=limit))
        assert found[-1].n_iter <= limit
        error = np.asarray(found[-1].quadrature_error)
        np.testing.assert_array_equal(found[-1].band_fit.converged, error <= LOOSE)
        exceeded += np.count_nonzero(difference(found[-1], whole) > np.maximum(HONEST * error, LOOSE))
        seen += error.size
    # One in a hundred may be further off.
    assert exceeded <= 0.01 * seen
    # More decompositions leave fewer responses that are not accurate enough.
    left = [np.count_nonzero(np.asarray(each.quadrature_error) > LOOSE) for each in (found[0], found[-1])]
    assert left[1] <= left[0]


@pytest.mark.filterwarnings("ignore::pybayesridge.exceptions.ConvergenceWarning")
def test_with_a_limit_the_smallest_shares_are_looked_at_for_responses_that_feel_them_alone(monkeypatch):
    rng = np.random.default_rng(6)
    x = rng.normal(size=(60, 24))
    labels = np.repeat(["a", "b", "c"], 8)
    y = x @ (rng.normal(size=(24, 6)) * 0.1) + rng.normal(size=(60, 6))
    strong = x[:, :8] @ rng.normal(size=8) * 100 + rng.normal(size=60)

    def found(responses):
        return BayesRidge(responses, x, bands=labels).fit(tol=LOOSE, maxiter=33)

    weak, both = found(y), found(np.column_stack([y, strong]))
    # Corners and the middles of edges, three each.
    assert [each.n_iter for each in (weak, both)] == [27, 33]
    monkeypatch.setattr("pybayesridge.bands.fit.UNFELT", np.finfo(float).tiny)
    every = found(y)
    assert every.n_iter == 33
    np.testing.assert_allclose(np.asarray(both.quadrature_error)[:6], every.quadrature_error, rtol=UNFELT)
    # Without the strong response nodes are at other shares, some of which stand for none.
    nodes = [each.shares for each in fits_of(weak)]
    assert all((each <= EDGES[0]).any() for each in nodes)
    assert (difference(weak, every) < np.minimum(weak.quadrature_error, every.quadrature_error)).all()
    assert np.abs(np.log(np.asarray(weak.quadrature_error) / every.quadrature_error)).max() < np.log(2)


@pytest.mark.filterwarnings("ignore::pybayesridge.exceptions.ConvergenceWarning")
def test_answers_with_nodes_at_shares_that_stand_for_none(tmp_path):
    rng = np.random.default_rng(6)
    x, labels = rng.normal(size=(60, 24)), np.repeat(["a", "b"], 12)
    y = x @ (rng.normal(size=(24, 6)) * 0.1) + rng.normal(size=(60, 6))
    res = BayesRidge(y, x, bands=labels).fit(tol=LOOSE, maxiter=10)
    assert any((fit.posterior.factors**2 * fit.size / fit.size.sum() < 2 * EDGES[0]).any() for fit in fits_of(res))
    res.save(tmp_path / "fit.zip")
    again = load(tmp_path / "fit.zip")
    np.testing.assert_array_equal(np.asarray(again.predict(x)), np.asarray(res.predict(x)))
    # From the exported arrays, which have products of all columns, whatever nodes a response has.
    exported = export(res)
    post, names = exported["posterior"], res.model.data.targets
    at = post["at"].astype(int) - 1
    for i in range(6):
        unit = post["y_norm"][i] / post["scale"]
        mean, sd = moments(post, i)
        bse = exported["bse"][at, i]
        assert np.abs(mean * unit - exported["params"][at, i]).max() < OF_NONE * bse.max()
        np.testing.assert_allclose(sd * unit, bse, rtol=OF_NONE)
        law = res.get_prediction(x[:5]).summary_frame()[names[i]]
        assert ((law["mean_ci_lower"] < law["mean"]) & (law["mean"] < law["mean_ci_upper"])).all()
        drawn = res.band_fit.draw(res.model.noise(), i, 4000, np.random.default_rng(0))
        off = (drawn.b.mean(axis=0) - np.asarray(res.params)[1:, i]) / np.asarray(res.bse)[1:, i]
        assert np.abs(off).max() < 5 / np.sqrt(4000)
        assert np.isfinite(drawn.log_variance).all()
    # Of the response with the least error.
    alone = BayesRidge(y[:, 1], x, bands=labels).fit(tol=1e-2)
    share, other = (fit.components_of(j, 0.05)[:, 4] for fit, j in ((res, 1), (alone, 0)))
    assert np.abs(share - other).max() < SHARES
    assert abs(res.loo(target=names[1]).elpd - alone.loo().elpd) < np.asarray(res.quadrature_error)[1] + 1e-2


@pytest.mark.filterwarnings("ignore::pybayesridge.exceptions.PrecisionWarning")
@pytest.mark.parametrize("kind", ["strong", "three"])
def test_with_decompositions_enough_a_limit_changes_nothing(kind):
    y, x, labels = hostile(kind)
    whole, limited = (BayesRidge(y[:, :6], x, bands=labels).fit(tol=LOOSE, maxiter=limit) for limit in (None, 10_000))
    assert limited.converged
    assert limited.n_iter == whole.n_iter
    # The integral over the total is less accurate, see LIMITED_INNER.
    assert difference(limited, whole).max() < 1e-4


@pytest.mark.filterwarnings("ignore::pybayesridge.exceptions.PrecisionWarning")
def test_errors_of_responses_for_which_decompositions_are_far_too_few_are_infinite(tmp_path):
    y, x, labels = hostile("strong")
    with pytest.warns(ConvergenceWarning, match=r"within maxiter=10 decompositions.*\(targets "):
        res = BayesRidge(y, x, bands=labels).fit(tol=LOOSE, maxiter=10)
    error = np.asarray(res.quadrature_error)
    assert np.isinf(error).any()
    assert error[np.isfinite(error)].max() <= HOPELESS
    assert np.isfinite(np.asarray(res.params)).all()
    res.save(tmp_path / "fit.pbr")
    np.testing.assert_array_equal(load(tmp_path / "fit.pbr").quadrature_error, error)
    assert np.isinf(export(res)["quadrature_error"]).any()
    first = int(np.flatnonzero(np.isinf(error))[0])
    assert f"y{first}" in str(res.summary())


@pytest.mark.filterwarnings("ignore::pybayesridge.exceptions.PrecisionWarning")
def test_responses_that_a_limit_leaves_are_named():
    y, x, labels = hostile("strong")
    with pytest.warns(ConvergenceWarning, match=r"within maxiter=20 decompositions.*quadrature_error.*\(targets "):
        res = BayesRidge(y, x, bands=labels).fit(tol=LOOSE, maxiter=20)
    assert not res.converged
    assert np.isfinite(np.asarray(res.params)).all()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        again = res.prior_sensitivity()
    assert np.isfinite(again.to_numpy(dtype=float)).all()


def test_a_limit_is_refused_where_errors_would_not_be_known():
    y, x, labels = hostile("three")
    for response, tol, bands in ((y[:, 0], 0.1, labels), (y, 1e-3, labels), (y, 0.1, np.arange(20) // 4)):
        with pytest.raises(
            ValueError, match="maxiter limits the decompositions of several responses with two or three"
        ):
            BayesRidge(response, x, bands=bands).fit(tol=tol, maxiter=50)
    with pytest.raises(ValueError, match="maxiter must be at least 33 with 3 bands, got 32"):
        BayesRidge(y, x, bands=labels).fit(tol=0.1, maxiter=32)
