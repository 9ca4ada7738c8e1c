"""The comparison of yes/no responses with peers: splits, scores, one small run, the page."""

import numpy as np
import pytest

from tests.effort import only_thorough

peers = pytest.importorskip("benchmarks.peers_binary")

TOL = 1e-12


def test_splits_are_the_same_for_all_and_have_both_outcomes():
    pytest.importorskip("sklearn")
    for name, data in peers.FULL.items():
        small = data if "5000" not in name else lambda rng: peers.simulated(40, 6, rng)
        one, again = (next(peers.splits_of(small, 1)) for _ in range(2))
        for a, b in zip(one, again, strict=True):
            np.testing.assert_array_equal(a, b)
        assert set(one[1]) == {0.0, 1.0}
        assert one[0].shape[1] == one[2].shape[1]
        assert len(one[0]) == len(one[1])
        assert len(one[2]) == len(one[3])


def test_scores():
    split = (np.zeros((0, 1)), np.zeros(0), np.zeros((3, 1)), np.array([1.0, 0.0, 1.0]))
    found = peers.scores(split, np.array([0.5, 0.2, 1.0]))
    assert found["log_score"] == pytest.approx((np.log(0.5) + np.log(0.8)) / 3, abs=TOL)
    assert found["brier"] == pytest.approx((0.25 + 0.04) / 3, abs=TOL)


@only_thorough
def test_a_run_and_its_page(monkeypatch):
    pytest.importorskip("sklearn")
    every = {name: method for name, method in peers.methods().items() if "glmnet" not in name}

    def failing(split):
        raise RuntimeError("no such package")

    monkeypatch.setattr(peers, "methods", lambda: {**every, "failing": failing})
    found = peers.measure("simulated", lambda rng: peers.simulated(40, 3, rng), 2)
    assert all(one["log_score"] > np.log(0.4) for one in found["found"][peers.OURS])
    text = peers.page([found])
    assert f"| {peers.OURS} | 1.00 (" in text
    assert "| failing | - | - | - | - | 0 of 2 |" in text
