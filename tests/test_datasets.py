"""The data of the examples."""

import pytest

from pybayesridge.datasets import load_cars


def test_cars():
    cars = load_cars()
    assert cars.shape == (32, 11)
    assert cars.index.is_unique
    assert cars.index.name is None
    assert cars.notna().all(axis=None)
    assert cars.loc["Mazda RX4"].to_list() == pytest.approx([21.0, 6, 160.0, 110, 3.9, 2.62, 16.46, 0, 1, 4, 4])
    assert cars["mpg"].mean() == pytest.approx(20.090625)
