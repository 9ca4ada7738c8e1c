"""The comparison of yes/no responses with peers: splits, scores, one small run, the page."""

import numpy as np
import pytest

from benchmarks import peers_binary as peers
from tests.effort import only_thorough

TOL = 1e-12


def test_splits_are_the_same_for_all_and_have_both_outcomes():
    pytest.importorskip("sklearn")
    for name, data in peers.FULL.items():
        if data in peers.FROM_R and not peers.peers_r.has("stats"):
            continue
        small = data if "5000" not in name else lambda rng: peers.simulated(40, 6, rng)
        one, again = (next(peers.splits_of(small, 1)) for _ in range(2))
        for part in ("x", "y", "x_test", "y_test"):
            np.testing.assert_array_equal(getattr(one, part), getattr(again, part))
        assert set(one.y) == {0.0, 1.0}
        assert one.x.shape[1] == one.x_test.shape[1]
        assert len(one.x) == len(one.y)
        assert len(one.x_test) == len(one.y_test)
        assert f"n = {len(one.x)}, p = {one.x.shape[1]}" in name or "5000" in name


def test_scores():
    true = np.array([0.5, 0.4, 0.9])
    split = peers.Split(np.zeros((0, 1)), np.zeros(0), np.zeros((3, 1)), np.array([1.0, 0.0, 1.0]), true)
    interval = np.array([[0.4, 0.6], [0.1, 0.3], [0.9, 1.0]])
    found = peers.scores(split, peers.Fit(1.0, np.array([0.5, 0.2, 1.0]), True, interval))
    assert found["coverage"] == pytest.approx(2 / 3, abs=TOL)
    assert found["log_score"] == pytest.approx((np.log(0.5) + np.log(0.8)) / 3, abs=TOL)
    assert found["brier"] == pytest.approx((0.25 + 0.04) / 3, abs=TOL)


@only_thorough
def test_a_run_and_its_page(monkeypatch):
    pytest.importorskip("sklearn")
    every = {
        name: method
        for name, method in peers.methods().items()
        if "LogisticRegressionCV" in name or "BayesRidge" in name
    }

    def failing(split):
        raise RuntimeError("no such package")

    monkeypatch.setattr(peers, "methods", lambda: {**every, "failing": failing})
    found = peers.measure("simulated", lambda rng: peers.simulated(40, 3, rng), 2)
    assert all(one["log_score"] > np.log(0.4) for one in found["found"][peers.OURS])
    text = peers.page({"data": [found], "scaling": peers.scaling(((30, 2),))})
    assert f"| {peers.OURS} | 1.00 (" in text
    assert "| 30 | 2 |" in text
    assert "| failing | - | - | - | - | - | 0 of 2 |" in text
