"""Legends cover nothing that is drawn."""

import pandas as pd
import pytest

from pybayesridge import BayesRidge, SpikeSlab
from tests.problems import regression

pytest.importorskip("matplotlib")

from matplotlib import pyplot


@pytest.fixture(autouse=True)
def _no_figures_left():
    yield
    pyplot.close("all")


def outside(ax):
    """Whether the legend of a picture lies outside its axes and inside its figure."""
    ax.figure.canvas.draw()
    legend, frame = ax.get_legend().get_window_extent(), ax.get_window_extent()
    whole = ax.figure.bbox
    inside = whole.x0 <= legend.x0 and legend.x1 <= whole.x1 and whole.y0 <= legend.y0
    return inside and (legend.y1 <= frame.y0 or legend.x0 >= frame.x1)


def test_legends_cover_nothing():
    y, x = regression(40, 3, noise=0.5)
    data = pd.DataFrame(x, columns=["a", "b", "c"]).assign(y=y, g=["u", "v", "w", "z"] * 10)
    res = BayesRidge.from_formula("y ~ a + b + c + g", data).fit()
    pictures = (
        res.plot_effect("g"),
        res.plot_effect("a"),
        res.plot_residuals(),
        res.plot_lambda(),
        res.plot_path(),
        res.plot_ppc(),
        res.plot_ppc("mean"),
        res.plot_pit(),
        SpikeSlab(y, x).fit().plot_n_included(),
    )
    assert [outside(ax) for ax in pictures] == [True] * len(pictures)
