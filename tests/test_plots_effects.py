"""``plot_effect()``: what is drawn are the numbers of ``predictions()``."""

import numpy as np
import pytest

matplotlib = pytest.importorskip("matplotlib")

from matplotlib.figure import Figure  # noqa: E402

from pybayesridge import BayesRidge  # noqa: E402
from tests.test_effects import CURVED, SAME, data  # noqa: E402


@pytest.fixture(scope="module")
def curved():
    return BayesRidge.from_formula(CURVED, data()).fit()


def test_picture_of_a_number(curved):
    x = data()["x"]
    ax = Figure().subplots()
    assert curved.plot_effect("x", alpha=0.1, ax=ax) is ax
    line = ax.lines[0].get_xydata()
    assert (line[0, 0], line[-1, 0]) == (x.min(), x.max())
    wanted = curved.predictions({"x": line[[0, 20, -1], 0]}, alpha=0.1)
    np.testing.assert_allclose(line[[0, 20, -1], 1], wanted["mean"], rtol=SAME)
    band = ax.collections[0].get_paths()[0].vertices[:, 1]
    for end in wanted["lower"].iloc[1], wanted["upper"].iloc[1]:
        assert np.abs(band - end).min() < SAME
    rug = np.array([segment[0, 0] for segment in ax.collections[1].get_segments()])
    np.testing.assert_array_equal(rug, np.sort(x))
    assert ax.get_xlabel() == "x"
    assert ax.get_title().startswith("y: prediction over x\nother variables at mean")
    ax.figure.canvas.draw()


def test_pictures_of_factors_and_probabilities(curved):
    binary = BayesRidge.from_formula("event ~ x + g", data(), family="binomial").fit()
    for res, ylabel in ((curved, "expected y"), (binary, "probability of the event")):
        ax = res.plot_effect("g", values=["c", "a"], at="observed", ax=Figure().subplots())
        wanted = res.predictions({"g": ["c", "a"]}, at="observed")
        np.testing.assert_allclose(ax.lines[0].get_ydata(), wanted["mean"], rtol=SAME)
        assert [tick.get_text() for tick in ax.get_xticklabels()] == ["c", "a"]
        assert ax.get_ylabel() == ylabel
        assert "averaged over the rows" in ax.get_title()
    ax = binary.plot_effect("x", values=[4, 2, 3], which="linear", ax=Figure().subplots())
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), [2.0, 3.0, 4.0])
    with pytest.raises(ValueError, match="'xx' is not a variable"):
        curved.plot_effect("xx")
    with pytest.raises(ValueError, match="at must be"):
        curved.plot_effect("x", at="median")
