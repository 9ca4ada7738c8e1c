"""The measures of the comparisons beside other implementations, closed forms and small cases by hand."""

import json

import numpy as np
import pytest
from scipy import integrate, stats

from benchmarks import measures

TOL = 1e-12
TOL_QUADRATURE = 1e-8


def test_mean_error_leaves_out_what_is_missing():
    mean, error = measures.mean_error([1.0, np.nan, 2.0, 6.0])
    assert mean == pytest.approx(3.0, abs=TOL)
    assert error == pytest.approx(stats.sem([1.0, 2.0, 6.0]), abs=TOL)
    assert np.isnan(measures.mean_error([2.0])[1])
    assert np.isnan(measures.mean_error([np.nan])[0])


def test_show():
    assert measures.show([1.0, 3.0], 2) == "2.00 ± 1.00"
    assert measures.show([0.5], 1, sign=True) == "+0.5"
    assert measures.show([]) == "-"


def test_average_precision_is_scikit_learns():
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(0)
    for _ in range(20):
        true = rng.random(50) < 0.2
        true[0] = True
        score = np.round(rng.standard_normal(50), 1)
        expected = metrics.average_precision_score(true, score)
        assert measures.average_precision(true, score) == pytest.approx(expected, abs=TOL)


def test_log_score():
    true, prob = np.array([True, False, False]), np.array([0.5, 0.5, 0.0])
    assert measures.log_score(true, prob) == pytest.approx(2 * np.log(2) / 3, abs=1e-6)
    assert measures.log_score(np.array([True]), np.array([0.0])) == pytest.approx(-np.log(1e-6), abs=TOL)


def test_density_and_coverage():
    y = np.array([0.0, 1.0, 5.0])
    mean, sd = np.array([0.0, 0.0, 0.0]), np.array([1.0, 2.0, 1.0])
    by_hand = np.mean(-0.5 * np.log(2 * np.pi * sd**2) - 0.5 * (y / sd) ** 2)
    assert measures.log_density(y, mean, sd) == pytest.approx(by_hand, abs=TOL)
    assert measures.coverage(y, measures.normal_intervals(mean, sd)) == pytest.approx(2 / 3)
    assert np.isnan(measures.coverage(y[:0], np.zeros((0, 2))))
    assert measures.coverage(np.zeros(1), np.zeros((1, 2))) == 1.0
    assert measures.r_squared(y, np.full(3, y.mean())) == pytest.approx(0.0, abs=TOL)


def test_reliability_counts_every_column_once():
    prob = np.array([0.0, 0.05, 0.3, 0.79, 0.8, 1.0])
    true = np.array([False, False, True, True, True, False])
    bins = measures.reliability(true, prob)
    assert [b["columns"] for b in bins] == [1, 1, 1, 1, 2]
    assert bins[-1]["mean_prob"] == pytest.approx(0.9)
    assert bins[-1]["share_true"] == pytest.approx(0.5)
    assert measures.brier(true, prob) == pytest.approx(np.mean([0, 0.0025, 0.49, 0.0441, 0.04, 1.0]), abs=TOL)


def test_divergences():
    p, q = np.array([0.3, 1.0]), np.array([0.6, 1.0])
    by_hand = 0.3 * np.log(0.3 / 0.6) + 0.7 * np.log(0.7 / 0.4)
    assert measures.bernoulli_divergence(p, q) == pytest.approx(by_hand, abs=1e-10)
    first, second = stats.norm(0.4, 1.3), stats.norm(-0.2, 0.8)
    quadrature = integrate.quad(lambda t: first.pdf(t) * (first.logpdf(t) - second.logpdf(t)), -12, 12)[0]
    found = measures.normal_divergence(np.array([0.4]), np.array([1.69]), np.array([-0.2]), np.array([0.64]))
    assert found == pytest.approx(quadrature, abs=TOL_QUADRATURE)
    assert json.dumps(measures.mean_error([1.0, 2.0]))
