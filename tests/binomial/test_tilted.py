"""Tilted moments of a row beside Gauss-Legendre quadrature with many panels."""

import numpy as np
import pytest
from scipy.special import log_ndtr

from pybayesridge.binomial import hermite, one_trial
from pybayesridge.binomial.link import derivatives, log_likelihood
from pybayesridge.binomial.tilted import tilted_moments
from pybayesridge.sites.tilted import Cavity, normal_cavity
from tests.binomial import brute_force

INTEGRAL_TOL = 1e-6
SITE_TOL = 1e-5
DERIVATIVE_TOL = 1e-5
NARROW_TOL = 1e-8
FIXED_TOL = 1e-8

COUNTS = [(1, 0), (0, 1), (2, 0), (0.3, 0), (0, 0.01), (1, 1), (0, 10), (3, 7), (1, 99), (0, 1000), (5, 995)]
COUNTS += [(5000, 5000), (2.5, 1.5)]
MEANS = np.array([0.0, 0.5, -3.0, 10.0, -40.0, 200.0])


@pytest.mark.parametrize("link", ["logit", "probit"])
@pytest.mark.parametrize("counts", COUNTS)
@pytest.mark.parametrize("sd", [1e-2, 0.5, 3.0, 10.0, 50.0])
def test_moments_are_those_of_a_dense_rule(link, counts, sd):
    many = [np.full(MEANS.size, float(c)) for c in counts]
    found = tilted_moments(*many, link, normal_cavity(MEANS, np.full(MEANS.size, sd**2)))
    for i, mean in enumerate(MEANS):
        log_integral, center, variance = brute_force.tilted(*counts, link, mean, sd**2)
        own = found.log_integral[i] - 0.5 * np.log(2 * np.pi * sd**2)
        assert own == pytest.approx(log_integral, rel=1e-10, abs=INTEGRAL_TOL)
        assert abs(found.mean[i] - center) <= INTEGRAL_TOL * np.sqrt(variance)
        assert found.variance[i] == pytest.approx(variance, rel=INTEGRAL_TOL)
        if variance < 0.9 * sd**2:
            assert found.site_precision[i] == pytest.approx(1 / variance - 1 / sd**2, rel=SITE_TOL)


@pytest.mark.parametrize("link", ["logit", "probit"])
def test_point_of_reference_does_not_matter(link):
    y = np.array([1.0, 0.0, 1.0, 2.0])
    f = np.array([0.0, 1.0, 3.0, 0.0])
    plain = tilted_moments(y, f, link, normal_cavity(np.full(4, 1.5), np.full(4, 4.0)))
    center = np.array([-1.0, 0.0, 3.0, 2.0])
    moved = tilted_moments(y, f, link, Cavity(center, np.full(4, 0.25), 0.25 * (1.5 - center)))
    np.testing.assert_allclose(moved.mean, plain.mean, rtol=1e-8)
    np.testing.assert_allclose(moved.variance, plain.variance, rtol=1e-8)
    np.testing.assert_allclose(moved.log_integral, plain.log_integral + 0.125 * (1.5 - center) ** 2, rtol=1e-8)


@pytest.mark.parametrize("link", ["logit", "probit"])
def test_flat_cavity_leaves_the_likelihood(link):
    """Of 3 successes and 5 failures; for the logit link the integral over eta is Beta(3, 5)."""
    found = tilted_moments(np.array([3.0]), np.array([5.0]), link, Cavity(*np.zeros((3, 1))))
    eta, weight = brute_force.legendre(-60, 60, 2000)
    density = weight * np.exp(brute_force.log_likelihood(3, 5, eta, link))
    assert found.log_integral[0] == pytest.approx(np.log(density.sum()), abs=INTEGRAL_TOL)
    assert found.mean[0] == pytest.approx(density @ eta / density.sum(), abs=INTEGRAL_TOL)
    if link == "logit":
        assert np.exp(found.log_integral[0]) == pytest.approx(1 / 105, rel=INTEGRAL_TOL)


@pytest.mark.parametrize("link", ["logit", "probit"])
def test_wide_cavities_have_the_moments_of_the_half_line(link):
    """A likelihood of one success cuts N(0, sd^2) in half where sd is large."""
    sd = np.array([1e4, 1e6, 1e8])
    found = tilted_moments(np.ones(3), np.zeros(3), link, normal_cavity(np.zeros(3), sd**2))
    np.testing.assert_allclose(found.mean / sd, np.sqrt(2 / np.pi), rtol=1e-3)
    np.testing.assert_allclose(found.variance / sd**2, 1 - 2 / np.pi, rtol=1e-3)


NEAR_THE_BEND = [(41702.96983079107, -0.0134029330005985), (555574.6691798172, -0.23030790925295186)]
NEAR_THE_BEND += [(957749.9674798175, -0.17768993124988086), (60189.004416988726, -0.007048283612404949)]


def on_half_lines(sd, z):
    """Tilted moments for wide cavities N(sd z, sd^2), and those of their positive half, which one success leaves."""
    hazard = np.exp(-0.5 * z**2 - log_ndtr(z)) / np.sqrt(2 * np.pi)
    mean, variance = sd * (z + hazard), sd**2 * (1 - hazard * (hazard + z))
    # The point of reference is far from the top of the density.
    cavity = Cavity(mean, sd**-2.0, -hazard / sd)
    return tilted_moments(np.ones(z.size), np.zeros(z.size), "logit", cavity), mean, variance


@pytest.mark.parametrize(("sd", "z"), NEAR_THE_BEND)
def test_the_top_of_a_wide_density_is_found_at_the_bend(sd, z):
    """On the way there steps are long, but short beside the width of the cavity."""
    found, mean, variance = on_half_lines(np.array([sd]), np.array([z]))
    np.testing.assert_allclose(found.mean, mean, rtol=10 / sd)
    np.testing.assert_allclose(found.variance, variance, rtol=10 / sd)


def test_rows_together_are_rows_alone():
    rng = np.random.default_rng(0)
    sd, z = 10.0 ** rng.uniform(4, 7, 500), rng.uniform(-0.4, 0.0, 500)
    found, mean, variance = on_half_lines(sd, z)
    np.testing.assert_allclose(found.mean / mean, 1.0, atol=10 / sd.min())
    np.testing.assert_allclose(found.variance / variance, 1.0, atol=10 / sd.min())
    one = on_half_lines(sd[:1], z[:1])[0]
    np.testing.assert_allclose(found.mean[0], one.mean[0], rtol=1e-10)


@pytest.mark.parametrize("link", ["logit", "probit"])
def test_derivatives_are_those_of_the_log_likelihood(link):
    eta = np.array([-30.0, -5.0, -0.7, 0.0, 0.7, 5.0, 30.0])
    s, f, step = np.full(7, 3.0), np.full(7, 2.0), 1e-4
    up, here, down = (brute_force.log_likelihood(s, f, eta + d, link) for d in (step, 0, -step))
    slope, bend = derivatives(s, f, eta, link)
    np.testing.assert_allclose(log_likelihood(s, f, eta, link), here, rtol=1e-12)
    np.testing.assert_allclose(slope, (up - down) / (2 * step), atol=DERIVATIVE_TOL)
    np.testing.assert_allclose(bend, -(up - 2 * here + down) / step**2, atol=1e-3)


def test_derivatives_in_the_far_tail_of_the_probit():
    """Minus the second derivative of log Phi tends to 1 as 1 - 1/x^2."""
    eta = np.array([-1e2, -1e3, -1e4, -1e6])
    slope, bend = derivatives(np.ones(4), np.zeros(4), eta, "probit")
    np.testing.assert_allclose(slope, -eta + 1 / -eta, rtol=1e-7)
    np.testing.assert_allclose(1 - bend, 1 / eta**2, rtol=1e-2, atol=1e-12)


@pytest.mark.parametrize("size", range(len(hermite.SIZES)))
@pytest.mark.parametrize("trials", [0.5, 1.0, 3.0, 50.0, 5000.0])
def test_narrow_densities_have_rules_of_a_few_nodes(size, trials):
    """At the largest width of each rule, with the cavity's centre up to a standard deviation from the top."""
    rng = np.random.default_rng(size)
    n, unit = 40, hermite.WIDEST[size] * 0.999 / np.cbrt(max(trials, 1.0))
    center = rng.uniform(-5, 5, n)
    share = np.where(rng.random(n) < 1 / (1 + np.exp(-center)), 1.0, 0.0) if trials <= 1 else rng.random(n)
    successes, failures = trials * share, trials * (1 - share)
    slope, bend = derivatives(successes, failures, center, "logit")
    precision = np.maximum(unit**-2 - bend, 1e-3 * unit**-2)
    cavity = Cavity(center, precision, rng.uniform(-1, 1, n) / unit - slope)
    rule = hermite.narrow(successes, failures, cavity)[0]
    assert (rule >= 0).mean() > 0.7
    check_rules(successes, failures, cavity, rule)


@pytest.mark.parametrize("size", range(len(hermite.SIZES)))
@pytest.mark.parametrize("trials", [1e3, 1e5, 1e7])
def test_rare_successes_among_many_trials_have_rules_of_a_few_nodes(size, trials):
    """As counts have: the third derivative of the log likelihood is that of the expected number of successes."""
    rng = np.random.default_rng(size)
    n = 40
    center = np.log(np.exp(rng.uniform(-8.0, 4.0, n)) / trials)
    unit = hermite.WIDEST[size] * 0.999 / np.cbrt(np.maximum(hermite.RARE * trials * np.exp(center), hermite.FEW))
    successes = rng.poisson(trials * np.exp(center + unit * rng.standard_normal(n))).astype(float)
    failures = trials - successes
    slope, bend = derivatives(successes, failures, center, "logit")
    precision = np.maximum(unit**-2 - bend, 1e-3 * unit**-2)
    cavity = Cavity(center, precision, rng.uniform(-1, 1, n) / unit - slope)
    rule = hermite.narrow(successes, failures, cavity)[0]
    assert (rule >= 0).mean() > 0.7
    check_rules(successes, failures, cavity, rule)


def check_rules(successes, failures, cavity, rule):
    """Compare the moments of rows that have a rule with quadrature."""
    found = tilted_moments(successes, failures, "logit", cavity)
    for i in np.flatnonzero(rule >= 0):
        variance = 1 / cavity.precision[i]
        mean = cavity.center[i] + variance * cavity.slope[i]
        total, first, second = brute_force.tilted(successes[i], failures[i], "logit", mean, variance)
        total += 0.5 * np.log(2 * np.pi * variance) + 0.5 * variance * cavity.slope[i] ** 2
        assert found.log_integral[i] == pytest.approx(total, abs=NARROW_TOL * max(1.0, abs(total)))
        assert abs(found.mean[i] - first) <= NARROW_TOL * np.sqrt(second)
        assert found.variance[i] == pytest.approx(second, rel=NARROW_TOL)


@pytest.mark.parametrize("sd", [1.001, 1.5, 3.0, 10.0, 30.0])
@pytest.mark.parametrize("success", [0.0, 1.0])
def test_wide_cavities_of_single_trials_have_nodes_at_fixed_places(sd, success):
    """Means from far on the side that the likelihood rules out to far on the other, about any point of reference."""
    mean = (2 * success - 1) * np.r_[np.linspace(-4.4, 5.0, 12) * sd, 30.0, 200.0]
    center = mean + np.linspace(-2.0, 2.0, mean.size) * sd
    precision = np.full(mean.size, sd**-2.0)
    suited = one_trial.suits(np.full(mean.size, 2 * success - 1), precision, mean)
    assert suited.mean() > 0.6
    cavity = Cavity(center, precision, precision * (mean - center))
    many = np.full(mean.size, success), np.full(mean.size, 1 - success)
    found = tilted_moments(*many, "logit", cavity)
    for i in np.flatnonzero(suited):
        total, first, second = brute_force.tilted(many[0][i], many[1][i], "logit", mean[i], sd**2)
        total += 0.5 * np.log(2 * np.pi * sd**2) + 0.5 * sd**2 * cavity.slope[i] ** 2
        assert found.log_integral[i] == pytest.approx(total, abs=FIXED_TOL * max(1.0, abs(total)))
        assert abs(found.mean[i] - first) <= FIXED_TOL * np.sqrt(second)
        assert found.variance[i] == pytest.approx(second, rel=FIXED_TOL)
        if second < 0.9 * sd**2:
            assert found.site_precision[i] == pytest.approx(1 / second - sd**-2.0, rel=10 * FIXED_TOL)
        assert found.gradient[i] == pytest.approx((first - mean[i]) / sd**2, abs=FIXED_TOL)
