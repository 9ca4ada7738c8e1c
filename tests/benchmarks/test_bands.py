"""The pages on several penalties: their data, what they read from R, and their tables."""

import numpy as np
import pytest

from benchmarks import bands, bands_calibration


def test_factors_within_others():
    data = bands_calibration.drawn(3, True, np.random.default_rng(0))
    first, second, _ = data["codes"]
    assert len(np.unique(np.column_stack([first, second]), axis=0)) == len(np.unique(second))
    assert data["x"].shape == (bands_calibration.ROWS, data["band"].size)
    assert (data["x"].sum(axis=1) == 3).all()
    assert data["x"].sum(axis=0).min() > 0


def test_intervals_that_hold_a_number():
    held = bands_calibration.inside([0.0, 1.0, np.nan], [2.0, 3.0, np.nan], [1.0, 0.0, 1.0])
    np.testing.assert_array_equal(held, [1.0, 0.0, np.nan])


def test_what_r_tells():
    found = bands.told("lmer, Wald\t0.5\tDays\t10.5\t7.4\t13.5\nlmer, Wald\t0.5\tsigma\t25\tNA\tNA\n")
    assert found["lmer, Wald"]["seconds"] == pytest.approx(0.5)
    assert found["lmer, Wald"]["values"]["Days"] == pytest.approx([10.5, 7.4, 13.5])
    assert np.isnan(found["lmer, Wald"]["values"]["sigma"][1:]).all()


@pytest.mark.parametrize(
    ("numbers", "text"),
    [([24.7, 14.4, 37.7], "24.7 (14.4, 37.7)"), ([0.0656, None, None], "0.0656"), ([-1.58, -1.58, -1.58], "-1.58")],
)
def test_cells(numbers, text):
    assert bands.cell(numbers) == text


def test_pages_of_made_up_numbers():
    each = dict.fromkeys((*bands_calibration.WHAT, "MixedLM"), 1.0) | {"seconds": 2.0, "MixedLM, s": 1.0}
    each["converged"] = True
    lmer = dict.fromkeys(bands_calibration.OF_LMER, 0.0) | {"profile, s": 4.0, "bootstrap, s": 8.0}
    page = bands_calibration.page({"one factor": [each | {"lmer": lmer}, each], "two crossed factors": []}, "R")
    assert "| one factor | 2 | 100.0 ± 0.0 |" in page
    assert "| 2.0 | 4.0 |" in page
    of_curves = {bands.OURS: {"seconds": [1.0], "error": [0.5], "width": [2.0], "coverage": [0.9]}}
    assert "| ours | 0.500 | 90.0 | 2.000 | 1.00 | 1 |" in bands.page({"smooth curves": {"four curves": of_curves}})
