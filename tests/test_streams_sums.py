"""Cross-products over codes of factors, compared with products of dense matrices."""

import numpy as np
import pytest

from pybayesridge.streams.sums import Rows, RowSums

DIRECT = 1e-12
"""Relative to the largest entry."""


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
def test_sums_are_those_of_dense_dummies(dtype):
    rng = np.random.default_rng(3)
    n, sizes = 300, {"g": 4, "h": 30}
    x = rng.normal(3.0, 1.0, (n, 2))
    x[:, 1] = x[:, 1].astype(dtype)
    w = rng.uniform(0.5, 2.0, n)
    codes = {name: rng.integers(0, size, n) for name, size in sizes.items()}
    cells = [((), ("g",)), ((), ("g", "h")), (("a",), ("g",)), (("a", "b"), ("g", "h"))]
    sums = RowSums([("a",), ("b",), ("a", "b")], cells)
    for at in (slice(0, 40), slice(40, 41), slice(41, n)):
        known = {name: int(code[: at.stop].max()) + 1 for name, code in codes.items()}
        some = {name: code[at] for name, code in codes.items()}
        sums.add(Rows(at.stop - at.start, {"a": x[at, 0], "b": x[at, 1].astype(dtype)}, some, known, w[at]))
    values = {(): np.ones(n), ("a",): x[:, 0], ("a", "b"): x[:, 0] * x[:, 1]}
    dense = np.column_stack([values[("a",)], x[:, 1], values[("a", "b")]]) - sums.origin
    dummies = []
    for numbers, factors in cells:
        code = codes["g"] if len(factors) == 1 else codes["g"] * 30 + codes["h"]
        made = np.zeros((n, 4 if len(factors) == 1 else 120))
        origin = sums.cells[len(dummies)].origin
        made[np.arange(n), code] = values[numbers] - (origin[code] if numbers else 0.0)
        dummies.append(made)
    with_ones = np.column_stack([np.ones(n), dense])
    square = (with_ones * w[:, None]).T @ with_ones
    np.testing.assert_allclose(np.tril(sums.gram), np.tril(square), rtol=0, atol=DIRECT * np.abs(square).max())
    for i, block in enumerate(sums.cells):
        expected = (with_ones * w[:, None]).T @ dummies[i]
        np.testing.assert_allclose(block.sums, expected, rtol=0, atol=DIRECT * np.abs(square).max())
        for j in range(i + 1):
            pair = (dummies[i] * w[:, None]).T @ dummies[j]
            expected = np.diag(pair) if sums.pairs[i, j].ndim == 1 else pair
            np.testing.assert_allclose(sums.pairs[i, j], expected, rtol=0, atol=DIRECT * np.abs(square).max())
