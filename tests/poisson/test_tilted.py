"""Moments of the likelihood of counts under normal densities, beside adaptive quadrature."""

import itertools

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize_scalar

from pybayesridge.poisson.likelihood import from_counts
from pybayesridge.sites.tilted import Cavity

TOL = 1e-8
"""Relative for the integral and the variance, in standard deviations for the mean."""

COUNTS = (0.0, 1.0, 3.0, 30.0, 1e3, 1e5)

WIDTHS = (0.003, 0.1, 1.0, 5.0, 8.5, 100.0, 1e4)
"""Standard deviations of the cavity."""

SHIFTS = (-3.0, 0.0, 3.0)
"""Its mean beside the log of the count, in standard deviations of the product of both."""


def expected(count, exposure, copies, mean, sd):
    """Log integral, mean and variance of ``L(eta) exp(-(eta - mean)^2 / (2 sd^2))``."""
    rate = max(count, 0.2) / exposure

    def log_density(d):
        eta = np.log(rate) + d
        likely = copies * (count * d - exposure * rate * np.exp(d)) if d < 500 else -np.inf
        return likely - 0.5 * ((eta - mean) / sd) ** 2

    ends = sorted([0.0, float(np.clip(mean - np.log(rate), -60 * sd - 60, 8.0))])
    top = minimize_scalar(
        lambda d: -log_density(d), bounds=(ends[0] - 1, ends[1] + 1), method="bounded", options={"xatol": 1e-10}
    ).x
    bend = sd**-2 + copies * exposure * rate * np.exp(top)
    height, unit = log_density(top), bend**-0.5

    def outside(sign):
        far = unit
        while log_density(top + sign * far) > height - 40:
            far *= 1.5
        return top + sign * far

    low, high = outside(-1), outside(1)
    pieces = np.linspace(low, high, 25)

    def moment(power, center):
        return sum(
            quad(
                lambda d: ((d - center) / unit) ** power * np.exp(log_density(d) - height),
                a,
                b,
                epsabs=1e-12 * unit,
                epsrel=1e-10,
                limit=400,
            )[0]
            for a, b in itertools.pairwise(pieces)
        )

    total = moment(0, top)
    shift = unit * moment(1, top) / total
    variance = unit**2 * moment(2, top + shift) / total
    constant = copies * (count * np.log(rate)) if count else 0.0
    return height + constant + np.log(total), np.log(rate) + top + shift, variance


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize(("exposure", "copies"), [(1.0, 1.0), (250.0, 3.0)])
def test_moments_beside_adaptive_quadrature(count, exposure, copies):
    cases = [(sd, shift) for sd in WIDTHS for shift in SHIFTS]
    unit = np.array([(sd**-2 + copies * max(count, 0.2)) ** -0.5 for sd, _ in cases])
    shift = np.array([shift for _, shift in cases])
    sd = np.array([sd for sd, _ in cases])
    # Narrow cavities far from the count are at most three of their own standard deviations away.
    mean = np.log(max(count, 0.2) / exposure) + shift * np.maximum(unit, sd)
    one = np.ones(sd.size)
    rows = from_counts(count * one, exposure * one, copies * one)
    found = rows.tilted(Cavity(mean, sd**-2, 0 * one))
    # The likelihood is relative to its top.
    own = copies * (count * np.log(count / exposure) - count) if count else 0.0
    for i in range(sd.size):
        log_integral, center, variance = expected(count, exposure, copies, mean[i], sd[i])
        assert found.log_integral[i] == pytest.approx(log_integral - own, abs=TOL + 1e-14 * abs(own))
        assert abs(found.mean[i] - center) < TOL * np.sqrt(variance)
        assert found.variance[i] == pytest.approx(variance, rel=TOL)
        assert found.site_precision[i] == pytest.approx(1 / variance - sd[i] ** -2, abs=TOL / variance)
