"""Pictures of results: what is drawn are the results' numbers, on the Axes asked for."""

import inspect
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.integrate import trapezoid

from pybayesridge import BayesRidge, SpikeSlab
from tests.problems import regression

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

from matplotlib import pyplot  # noqa: E402
from matplotlib.axes import Axes  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402

from pybayesridge.plots.frame import LONGEST_NAME, label, labels, spread_out  # noqa: E402

SAME = 1e-12
"""The same numbers by another way through the code, beside the largest."""

ROUNDING = 1e-13
"""Sums of some hundred products of probabilities."""

INTEGRAL = 1e-4
"""A picture's density has lost its tails, and the trapezoidal rule on 401 points is no better."""

CUT = 5e-3
"""What the tails that are not drawn hold at most."""

REFIT = 1e-9
"""A path or a curve beside a fit at each penalty."""

RIDGE = ("plot_coefficients", "plot_lambda", "plot_path", "plot_fit", "plot_residuals")

SELECTION = (
    "plot_coefficients", "plot_inclusion", "plot_n_included", "plot_trace", "plot_fit", "plot_residuals"
)  # fmt: skip


@pytest.fixture(autouse=True)
def _no_figures_left():
    yield
    pyplot.close("all")


def columns(p):
    return [f"name {i}" for i in range(p)]


def ridge(n=40, p=6, method="em", model=None, noise=1.0, **fit):
    y, x = regression(n, p, noise=noise)
    return BayesRidge(y, pd.DataFrame(x, columns=columns(p)), **(model or {})).fit(method, **fit)


def selection(n=60, p=6, model=None, method="ep", **fit):
    y, x = regression(n, p)
    return SpikeSlab(y, pd.DataFrame(x, columns=columns(p)), **(model or {})).fit(method, **fit)


def own_axes():
    return Figure().subplots()


def ticks(ax):
    return [tick.get_text() for tick in ax.get_yticklabels()]


def close(actual, wanted, rtol=SAME):
    wanted = np.asarray(wanted, dtype=float)
    np.testing.assert_allclose(actual, wanted, rtol=rtol, atol=rtol * np.abs(wanted).max())


def intervals(ax):
    """Ends of the horizontal intervals, (m, 2)."""
    return np.array([segment[:, 0] for segment in ax.collections[0].get_segments()])


def dots(ax):
    return ax.lines[-1].get_xdata()


@pytest.mark.parametrize(
    ("make", "name"), [(ridge, name) for name in RIDGE] + [(selection, name) for name in SELECTION]
)
def test_axes(make, name):
    res = make()
    ax = own_axes()
    assert getattr(res, name)(ax=ax) is ax
    assert pyplot.get_fignums() == []
    ax.figure.canvas.draw()
    assert ax.get_xlabel()
    assert ax.get_title().startswith("y")
    new = getattr(res, name)()
    assert isinstance(new, Axes)
    assert len(pyplot.get_fignums()) == 1
    with pytest.raises(ValueError, match="ax must be a matplotlib Axes, not str"):
        getattr(res, name)(ax="first")


@pytest.mark.parametrize("make", [ridge, selection])
def test_arguments_are_documented(make):
    res = make()
    methods = [name for name in dir(res) if name.startswith("plot_")]
    assert len(methods) >= 5
    for name in methods:
        method = getattr(res, name)
        text = inspect.getdoc(method)
        for argument in inspect.signature(method).parameters:
            assert f"\n{argument} : " in text, (name, argument)
        assert "Returns\n-------" in text
        assert "Raises\n------" in text


def test_coefficients_of_a_ridge():
    res = ridge(method="exact")
    ax = res.plot_coefficients(0.2, standardized=False)
    assert ticks(ax) == columns(6)
    close(dots(ax), res.params.drop("const"))
    close(intervals(ax), res.conf_int(0.2).drop("const"))
    assert "80 %" in ax.get_title()
    ax = res.plot_coefficients(0.2)
    sd = regression(40, 6)[1].std(axis=0)
    close(dots(ax), res.params.drop("const") * sd)
    close(intervals(ax), res.conf_int(0.2).drop("const").mul(sd, axis=0))
    assert "standard deviation" in ax.get_xlabel()


def test_many_coefficients():
    res = ridge(30, 200)
    ax = res.plot_coefficients(standardized=False)
    size = np.abs(res.params.drop("const")) * regression(30, 200)[1].std(axis=0)
    largest = size.sort_values(ascending=False).index[:40]
    assert ticks(ax) == list(largest)
    close(dots(ax), res.params[largest])
    close(intervals(ax), res.conf_int().loc[largest])
    assert "the 40 largest of 200 coefficients" in ax.get_title()
    everything = res.plot_coefficients(top=None, standardized=False)
    close(everything.lines[0].get_ydata(), res.params.drop("const"))
    assert "of 200" not in everything.get_title()


def test_terms_and_intercept():
    y, x = regression(60, 2, noise=0.3)
    frame = pd.DataFrame({"y": y, "a": x[:, 0], "b": x[:, 1], "g": list("uvw") * 20})
    res = BayesRidge.from_formula("y ~ a + b + C(g)", frame, unpenalized=["a"]).fit()
    ax = res.plot_coefficients(terms=["C(g)", "a"], standardized=False)
    names = ["C(g)[T.v]", "C(g)[T.w]", "a"]
    assert ticks(ax) == names
    close(dots(ax), res.params[names])
    assert ticks(res.plot_coefficients(terms="b")) == ["b"]
    assert ticks(res.plot_coefficients(intercept=True))[:2] == ["Intercept (per unit)", "a (per unit)"]
    with pytest.raises(ValueError, match="terms names 'z'"):
        res.plot_coefficients(terms=["a", "z"])
    with pytest.raises(ValueError, match="terms is empty"):
        res.plot_coefficients(terms=[])


@pytest.mark.parametrize("top", [0, 2.5, True, "few"])
def test_bad_top(top):
    with pytest.raises(ValueError, match="top must be a positive integer"):
        ridge().plot_coefficients(top=top)


def test_lambda_is_the_posterior():
    res = ridge(method="exact")
    ax = res.plot_lambda(0.1)
    x, density = ax.lines[0].get_data()
    log10 = np.log10(x)
    total = trapezoid(density, log10)
    assert 1 - CUT < total < 1 + INTEGRAL
    table = res.hyperparameters(0.1).loc["lambda"]
    shaded = ax.collections[0].get_paths()[0].vertices[:, 0]
    close([shaded.min(), shaded.max()], [table["lower"], table["upper"]], rtol=REFIT)
    middle = 10 ** np.interp(0.5 * total, np.cumsum(density) * (log10[1] - log10[0]), log10)
    close(middle, table["median"], rtol=0.02)
    close(ax.lines[1].get_xdata(), [res.lambda_] * 2)


@pytest.mark.parametrize("method", ["em", "exact", "fixed"])
@pytest.mark.parametrize("shape", [(40, 6), (15, 30)])
def test_leave_one_out_curve(method, shape):
    res = ridge(*shape, method=method, **({"lam": 2.0} if method == "fixed" else {}))
    ax = res.plot_lambda()
    (twin,) = [other for other in ax.figure.axes if other is not ax]
    x, score = twin.lines[0].get_data()
    for i in (5, 30, 55):
        close(score[i], res.model.fit("fixed", lam=x[i]).loo_mse, rtol=REFIT)
    assert twin.get_ylabel() == "leave-one-out MSE"
    close(ax.lines[1].get_xdata(), [res.lambda_] * 2)
    alone = res.plot_lambda(loo=False)
    assert alone.figure.axes == [alone]


@pytest.mark.parametrize("method", ["loocv", "gcv"])
def test_scores_of_a_grid(method):
    res = ridge(method=method, grid="glmnet")
    ax = res.plot_lambda()
    (twin,) = [other for other in ax.figure.axes if other is not ax]
    x, score = twin.lines[0].get_data()
    assert x.size > 1
    at = [int(np.argmin(np.abs(res.grid - value))) for value in x]
    close(x, res.grid[at])
    close(score, res.grid_scores[at])
    assert {"loocv": "leave-one-out", "gcv": "GCV"}[method] in twin.get_ylabel()


def test_lambda_without_a_posterior():
    x = regression(20, 2)[1]
    with pytest.warns(match="fit the response exactly"):
        res = BayesRidge(np.ones(20), x).fit()
    with pytest.raises(ValueError, match="lambda has no posterior"):
        res.plot_lambda()


def test_no_interior_mode():
    y, x = np.random.default_rng(3).standard_normal(30), regression(30, 4)[1]
    y -= x @ np.linalg.lstsq(x, y, rcond=None)[0]
    x -= x.mean(axis=0)
    y -= np.column_stack([np.ones(30), x]) @ np.linalg.lstsq(np.column_stack([np.ones(30), x]), y, rcond=None)[0]
    with pytest.warns(match="No signal"):
        res = BayesRidge(y, x, prior=(1.0, 0.5)).fit("em")
    assert np.isinf(res.lambda_)
    ax = res.plot_lambda()
    assert any("no interior mode" in text.get_text() for text in ax.get_legend().get_texts())
    assert "lambda in use" not in [text.get_text() for text in res.plot_path().get_legend().get_texts()]


@pytest.mark.parametrize("shape", [(40, 6), (15, 30)])
@pytest.mark.parametrize("standardized", [True, False])
def test_path(shape, standardized):
    res = ridge(*shape)
    penalties = [0.1, 1.0, 10.0]
    ax = res.plot_path(lambdas=penalties, standardized=standardized, top=shape[1])
    fits = [res.model.fit("fixed", lam=value).params.drop("const") for value in penalties]
    unit = regression(*shape)[1].std(axis=0) if standardized else 1.0
    drawn = {line.get_label(): line for line in ax.lines}
    assert set(columns(shape[1])) < set(drawn)
    for i, name in enumerate(columns(shape[1])):
        close(drawn[name].get_xdata(), penalties)
        close(drawn[name].get_ydata(), [(fit * unit).iloc[i] for fit in fits], rtol=1e-7)
    close(drawn["lambda in use"].get_xdata(), [res.lambda_] * 2)


def test_bad_path():
    for bad in ([1.0], [1.0, -1.0], [1.0, np.inf], "all"):
        with pytest.raises(ValueError, match="lambdas must be"):
            ridge().plot_path(lambdas=bad)


def test_path_of_many():
    ax = ridge(20, 1200).plot_path()
    assert "the 1,000 largest of 1,200 coefficients" in ax.get_title()
    assert len([line for line in ax.lines if line.get_xdata()[0] != line.get_xdata()[-1]]) == 1000 + 1
    assert len(ax.get_legend().get_texts()) == 9


@pytest.mark.parametrize("make", [ridge, selection])
def test_fit_and_residuals(make):
    weights = np.linspace(1, 3, 40)
    res = make(40, 6, model={"weights": weights})
    drawn = np.asarray(res.plot_fit().collections[0].get_offsets())
    close(drawn[:, 0], res.fittedvalues)
    close(drawn[:, 1], res.model.endog)
    weighted = res.resid * np.sqrt(weights / weights.mean())
    ax = res.plot_residuals()
    drawn = np.asarray(ax.collections[0].get_offsets())
    close(drawn[:, 0], res.fittedvalues)
    close(drawn[:, 1], weighted)
    assert "root of weight" in ax.get_ylabel()
    drawn = np.asarray(res.plot_residuals("qq").collections[0].get_offsets())
    close(drawn[:, 1], np.sort(weighted))
    close(drawn[:, 0], stats.norm.ppf((np.arange(40) + 0.5) / 40))
    with pytest.raises(ValueError, match="kind must be one of 'fitted', 'qq'"):
        res.plot_residuals("both")


def test_rows_left_out():
    res = ridge()
    drawn = np.asarray(res.plot_fit(left_out=True).collections[0].get_offsets())
    close(drawn[:, 1] - drawn[:, 0], res.loo_residuals)
    chosen = selection()
    drawn = np.asarray(chosen.plot_fit(left_out=True).collections[0].get_offsets())
    np.testing.assert_array_equal(drawn[:, 0], chosen.loo().predicted)


def test_two_distinct_fitted_values():
    y, x = regression(30, 1)
    ax = BayesRidge(y, np.sign(x - np.median(x))).fit().plot_residuals()
    assert ax.get_legend() is None


@pytest.mark.parametrize("name", RIDGE)
def test_many_targets(name):
    y, x = regression(40, 5, noise=0.3)
    other = y + x[:, 0]
    res = BayesRidge(pd.DataFrame({"first": y, "second": other}), x).fit()
    one = BayesRidge(pd.Series(other, name="second"), x).fit()
    with pytest.raises(ValueError, match=rf"{name} needs target= .* one of 'first', 'second'"):
        getattr(res, name)()
    with pytest.raises(ValueError, match="target 'third' is not one of"):
        getattr(res, name)(target="third")
    ax, same, alone = getattr(res, name)(target="second"), getattr(res, name)(target=1), getattr(one, name)()
    assert ax.get_title() == same.get_title() == alone.get_title()
    for mine, others in zip(ax.lines, alone.lines, strict=True):
        close(mine.get_ydata(), others.get_ydata(), rtol=1e-7)


def test_after_remove_data():
    res = ridge()
    before = {name: getattr(res, name)() for name in ("plot_coefficients", "plot_path")}
    res.remove_data()
    for name, ax in before.items():
        close(getattr(res, name)().lines[0].get_ydata(), ax.lines[0].get_ydata())
    assert len(res.plot_lambda().figure.axes) == 1
    for draw in (res.plot_fit, res.plot_residuals):
        with pytest.raises(ValueError, match="removed"):
            draw()
    chosen = selection()
    chosen.remove_data()
    for name in ("plot_coefficients", "plot_inclusion", "plot_n_included", "plot_trace"):
        assert isinstance(getattr(chosen, name)(), Axes)


def test_names_are_text():
    y, x = regression(30, 3)
    names = ["cost in $ or $", "two\nlines", "x" * 80]
    ax = BayesRidge(y, pd.DataFrame(x, columns=names)).fit().plot_coefficients()
    ax.figure.canvas.draw()
    assert ticks(ax)[:2] == [r"cost in \$ or \$", "two lines"]
    assert len(ticks(ax)[2]) == LONGEST_NAME


def test_long_names_stay_apart():
    names = [f"a long name whose number {i} stands in its middle, far from both ends" for i in range(12)]
    short = labels([*names, "b"])
    assert len(set(short)) == 13
    assert max(map(len, short)) <= LONGEST_NAME
    assert all(str(i) in text for i, text in enumerate(short[:12]))
    twice = ["c" * 20 + letter * 30 + "c" * 20 for letter in "xy"]
    assert labels(twice, 32) == ["c" * 6 + "…" + letter * 24 + "…" for letter in "xy"]
    far = ["a" + "b" * 40 + str(i) + "b" * 40 + "z" for i in range(3)] + ["a" + "c" * 82 + "z"]
    assert len(set(labels(far))) == 4
    assert max(map(len, labels(far, 24))) <= 24
    genes = labels(
        [f"expression of gene {i} in the {'left' if i % 2 else 'right'} part of it" for i in range(99)], 24
    )
    assert len(set(genes)) == 99
    assert all(f"…{i} in" in text for i, text in enumerate(genes))
    assert label("b") == "b"


def test_names_are_cut_between_words():
    name = "gene_0_with_a_rather_long_name_of_probe_1295_in_the_liver"
    assert label(name) == "gene_0_with_a_rather…_1295_in_the_liver"
    assert len(label("x" * 30 + "_" + "y" * 30)) == LONGEST_NAME


def test_places_are_apart():
    at = spread_out(np.array([0.0, 0.1, 0.2, 5.0, 9.9, 10.0]), 1.0, 0.0, 10.0)
    assert np.diff(at).min() >= 1.0 - ROUNDING
    assert at.min() >= 0
    assert at.max() <= 10
    assert at[3] == 5.0
    assert (np.diff(spread_out(np.zeros(20), 1.0, 0.0, 10.0)) > 0).all()


def test_one_coefficient():
    for res in (ridge(20, 1, noise=0.2), selection(20, 1)):
        assert ticks(res.plot_coefficients()) == ["name 0"]


def test_missing_matplotlib_is_named():
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from pybayesridge import BayesRidge; import numpy as np\n"
        "x = np.arange(12.0).reshape(6, 2) ** 1.5\n"
        "res = BayesRidge(x[:, 0] + np.array([1.0, -1, 2, 0, 1, 0]), x[:, [1]]).fit()\n"
        "try:\n    res.plot_fit()\nexcept ImportError as error:\n    print(error)\n"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'pybayesridge[plot]'" in out.stdout
