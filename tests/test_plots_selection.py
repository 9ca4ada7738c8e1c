"""Pictures of variable selection: what is drawn are the results' numbers."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from pybayesridge import BayesRidge, SpikeSlab
from pybayesridge.ep.model_size import poisson_binomial, size_distribution
from pybayesridge.plots import coefficients
from tests.effort import share
from tests.problems import regression

matplotlib = pytest.importorskip("matplotlib")

from matplotlib import pyplot  # noqa: E402

from tests.test_plots import CUT, RIDGE, ROUNDING, SELECTION, close, columns, intervals, selection, ticks  # noqa: E402


@pytest.fixture(autouse=True)
def _no_figures_left():
    yield
    pyplot.close("all")


def test_inclusion():
    res = selection(model={"unpenalized": ["name 2"]})
    ax = res.plot_inclusion()
    wanted = res.inclusion_prob.drop(["const", "name 2"]).sort_values(ascending=False, kind="stable")
    assert set(ticks(ax)) == set(wanted.index)
    close(np.asarray(ax.collections[1].get_offsets())[:, 0], wanted)
    some = res.plot_inclusion(terms=["name 4", "name 1"])
    assert ticks(some) == ["name 4", "name 1"]
    close(np.asarray(some.collections[1].get_offsets())[:, 0], res.inclusion_prob[["name 4", "name 1"]])
    assert "the 2 most probable of 5 columns" in res.plot_inclusion(top=2).get_title()
    with pytest.raises(ValueError, match="threshold"):
        res.plot_inclusion(threshold=1.5)


def test_improbable_columns_are_left_out_and_counted():
    y, x = regression(80, 40, noise=0.3)
    res = SpikeSlab(y, x, prior_inclusion=0.02, slab_var=1.0, noise_var=1.0).fit("ep")
    inclusion = res.inclusion_prob.drop("const")
    wanted = max(int((inclusion >= 0.01).sum()), 10)
    assert wanted < 40
    ax = res.plot_inclusion()
    assert set(ticks(ax)) == set(inclusion.nlargest(wanted).index)
    assert f"not shown: {40 - wanted} columns with probabilities below 0.01" in ax.get_title()
    assert len(ticks(res.plot_inclusion(top=40))) == 40
    assert len(ticks(res.plot_inclusion(top=30))) == 30


def test_inclusion_of_many():
    res = selection(80, 150, model={"prior_inclusion": 0.1, "slab_var": 1.0, "noise_var": 1.0})
    ax = res.plot_inclusion(threshold=0.2)
    out, inside = (np.asarray(part.get_offsets()) for part in ax.collections[:2])
    points = np.vstack([out, inside])
    points = points[np.argsort(points[:, 0])]
    close(points[:, 0], np.arange(1, 151))
    close(points[:, 1], res.inclusion_prob.drop("const"))
    assert inside[:, 1].min() > 0.2 >= out[:, 1].max()
    (top,) = ax.child_axes
    ax.figure.canvas.draw()
    named = [tick.get_text() for tick in top.get_xticklabels()]
    likely = res.inclusion_prob.drop("const").sort_values(ascending=False, kind="stable")
    assert set(named) == set(likely.index[: min(20, int((likely > 0.2).sum()))])
    assert named


def test_coefficients_given_inclusion():
    res = selection(model={"unpenalized": ["name 2"]}, hyper="maximize")
    ax = res.plot_coefficients(0.1, standardized=False)
    names = columns(6)
    assert ticks(ax) == names
    drawn = np.asarray(ax.collections[1].get_offsets())[:, 0]
    close(drawn, res.cond_mean[names])
    half = stats.norm.ppf(0.95) * np.sqrt(res.cond_var)
    ends = np.column_stack([res.cond_mean - half, res.cond_mean + half])[1:]
    close(np.delete(intervals(ax), 2, axis=0), np.delete(ends, 2, axis=0))
    close(intervals(ax)[2], res.conf_int(0.1).loc["name 2"])
    ax.figure.canvas.draw()
    (right,) = ax.child_axes
    assert [tick.get_text() for tick in right.get_yticklabels()] == [f"{p:.2f}" for p in res.inclusion_prob[names]]
    sizes = ax.collections[1].get_sizes()
    assert np.argmax(sizes) == np.argmax(res.inclusion_prob[names])


def test_a_probability_is_rounded_above_one():
    """Files of release 0.1.0 have such probabilities of sums over all sets."""
    above = np.array([np.nextafter(1.0, 2.0), 0.5])
    ends = np.array([[0.5, 1.5], [-0.5, 0.5]])
    ax = coefficients.given_inclusion(["a", "b"], np.array([1.0, 0.0]), ends, above, xlabel="x", title="t")
    assert np.all(ax.collections[1].get_facecolors()[:, 3] <= 1.0)


def test_many_coefficients_given_inclusion():
    res = selection(80, 150, model={"prior_inclusion": 0.1, "slab_var": 1.0, "noise_var": 1.0})
    ax = res.plot_coefficients()
    likely = res.inclusion_prob.drop("const").sort_values(ascending=False, kind="stable").index[:40]
    assert ticks(ax) == list(likely)
    assert "the 40 likeliest of 150 coefficients" in ax.get_title()
    everything = res.plot_coefficients(top=None, standardized=False)
    drawn = np.asarray(everything.collections[1].get_offsets())
    close(drawn[:, 1], res.cond_mean.drop("const"))


def test_nothing_included():
    res = selection(model={"prior_inclusion": 0.0})
    ax = res.plot_n_included()
    assert [bar.get_height() for bar in ax.patches] == [1.0]
    close(np.asarray(res.plot_inclusion().collections[1].get_offsets())[:, 0], np.zeros(6))
    assert ticks(res.plot_coefficients()) == columns(6)
    assert not np.asarray(res.conf_int())[1:].any()


def test_nothing_to_choose():
    y, x = regression(30, 2)
    res = SpikeSlab(y, x, unpenalized=[0, 1], noise_var=1.0, slab_var=1.0, prior_inclusion=0.5).fit("ep")
    with pytest.raises(ValueError, match="no column can be in or out"):
        res.plot_inclusion()


def test_number_of_included_columns():
    res = selection(30, 8, model={"prior_inclusion": 0.3}, hyper="maximize")
    ax = res.plot_n_included()
    inclusion = res.inclusion_prob.drop("const").to_numpy()
    wanted = np.zeros(9)
    for inside in itertools.product([0, 1], repeat=8):
        wanted[sum(inside)] += np.prod(np.where(inside, inclusion, 1 - inclusion))
    for bar in ax.patches:
        k = round(bar.get_x() + bar.get_width() / 2)
        np.testing.assert_allclose(bar.get_height(), wanted[k], rtol=0, atol=ROUNDING)
    assert "columns are in independently" in ax.get_title()
    close(ax.lines[0].get_xdata(), [res.expected_size] * 2)


def test_number_of_included_columns_averages():
    res = selection(30, 5, hyper="average")
    heights = [bar.get_height() for bar in res.plot_n_included().patches]
    assert 1 - CUT < sum(heights) <= 1 + ROUNDING


@pytest.mark.parametrize(("p", "each"), [(1, 0.3), (500, 0.02), (500, 1.0), (4000, 0.5)])
def test_poisson_binomial_of_equal_probabilities(p, each):
    got = poisson_binomial(np.full(p, each))
    np.testing.assert_allclose(got, stats.binom.pmf(np.arange(got.size), p, each), rtol=0, atol=ROUNDING)
    assert stats.binom.sf(got.size - 1, p, each) < ROUNDING


def test_mixture_of_sizes():
    parts = np.array([[0.0, 0.0], [1.0, 1.0]])
    np.testing.assert_allclose(size_distribution(parts, np.array([0.25, 0.75])), [0.25, 0, 0.75], atol=ROUNDING)


@pytest.mark.parametrize("method", ["ep", "damped", "pcep"])
def test_trace(method):
    res = selection(model={"prior_inclusion": 0.3, "slab_var": 1.0, "noise_var": 1.0}, method=method)
    ax = res.plot_trace()
    close(ax.lines[0].get_ydata(), res.energy_trace)
    close(ax.lines[0].get_xdata(), 1 + np.arange(len(res.energy_trace)))
    assert "converged" in ax.get_title()


def test_sizes_of_groups_are_those_of_all_models():
    probability, sizes = np.array([0.2, 0.7, 0.5]), np.array([1, 3, 4])
    want = np.zeros(9)
    for inside in itertools.product([0, 1], repeat=3):
        chance = np.prod(np.where(inside, probability, 1 - probability))
        want[int(sizes @ inside)] += chance
    np.testing.assert_allclose(poisson_binomial(probability, sizes), want, atol=ROUNDING)


def test_pictures_of_groups_are_those_of_the_approximation():
    rng = np.random.default_rng(3)
    x = rng.standard_normal((40, 5))
    x[:, 1] += x[:, 0]
    y = x[:, 0] + x[:, 1] + rng.standard_normal(40)
    res = SpikeSlab(y, x, group=[0, 0, 1, 1, 2], prior_inclusion=0.5, slab_var=1.0, noise_var=1.0).fit("ep")
    ax = res.plot_n_included()
    shown = {round(bar.get_x() + bar.get_width() / 2): bar.get_height() for bar in ax.patches}
    assert res.inclusion_prob["x1"] == res.inclusion_prob["x2"] > 0.99
    assert sum(k * height for k, height in shown.items()) == pytest.approx(res.expected_size, abs=0.01)
    assert shown.get(1, 0.0) < 0.01
    # Given inclusion each coefficient is normal: the interval is that of cond_mean and cond_var.
    ends = res.posterior.quantiles_given_inclusion(np.array([0.025, 0.975]))
    sd = np.sqrt(res.cond_var.iloc[1:])
    want = np.column_stack([res.cond_mean.iloc[1:] - 1.959964 * sd, res.cond_mean.iloc[1:] + 1.959964 * sd])
    np.testing.assert_allclose(ends, want, rtol=1e-5, atol=1e-7)
    matplotlib.pyplot.close("all")


def test_a_trace_of_one_iteration_says_why():
    ax = selection(hyper="maximize").plot_trace()
    assert len(ax.lines[0].get_ydata()) == 1
    assert "the search" in ax.texts[0].get_text()
    given = selection(model={"prior_inclusion": 0.3, "slab_var": 1.0, "noise_var": 1.0})
    assert not given.plot_trace().texts


@pytest.mark.parametrize("p", share([60, 1, 300, 7], 4))
def test_nothing_leaves_the_figure(p):
    """Long names of the response and of columns: titles and labels lie within the picture."""
    y, x = regression(40, p)
    names = [f"a_long_name_of_a_column_that_is_number_{i}_of_many" for i in range(p)]
    response = pd.Series(y, name="a response whose name is rather long, in millimetres per hour")
    data = pd.DataFrame(x, columns=names)
    ridge_ = BayesRidge(response, data).fit()
    selection_ = SpikeSlab(response, data, prior_inclusion=0.1, slab_var=1.0, noise_var=1.0).fit("ep")
    for res, methods in ((ridge_, RIDGE), (selection_, SELECTION)):
        for method in methods:
            ax = getattr(res, method)()
            ax.figure.draw_without_rendering()
            for text in (ax.title, ax.xaxis.label, ax.yaxis.label, *ax.get_yticklabels()):
                box = text.get_window_extent()
                assert box.width == 0 or box.x0 >= -1, (method, text.get_text())
                assert box.x1 <= ax.figure.bbox.width + 1, (method, text.get_text())
            assert ax.title.get_window_extent().y1 <= ax.figure.bbox.height + 1, method
            pyplot.close(ax.figure)
