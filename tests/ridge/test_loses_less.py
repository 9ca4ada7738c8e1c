"""What is surely accurate is so by the whole account of rounding errors too."""

import numpy as np
import pytest

from pybayesridge import BayesRidge

LEVELS = np.geomspace(1e-16, 1.0, 33)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("shape", [(60, 5), (12, 40), (30, 26)])
@pytest.mark.parametrize("method", ["exact", "em", "loocv"])
def test_bounds_of_lost_digits_hold(shape, method):
    rng = np.random.default_rng(5)
    said = 0
    for steep in (1.0, 1e-3, 1e-6):
        for noise in (1.0, 1e-5, 0.0):
            x = rng.standard_normal(shape) * np.geomspace(1.0, steep, shape[1])
            y = x @ rng.standard_normal((shape[1], 2)) + noise * rng.standard_normal((shape[0], 2))
            fit = BayesRidge(y, x, standardize=False).fit(method).ridge_fit
            sure = [level for level in LEVELS if fit.loses_less(level)]
            said += len(sure) > 0
            assert all(fit.loss <= level for level in sure)
    assert said > 0
