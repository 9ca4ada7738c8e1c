"""Blocks of a matrix: each row and column once, views where that is possible; products of matrices."""

import numpy as np
import pytest

from pybayesridge.linalg import blas, blocks

ROUNDING = 1e-13


@pytest.mark.parametrize("columns", [[0], [0, 1], [1], [0, 2], [2]])
@pytest.mark.parametrize("size", [1, 2, 300, None])
@pytest.mark.parametrize("shape", [(0, 3), (7, 3), (600, 4)])
def test_blocks_cover_everything_once(shape, size, columns):
    x = np.arange(np.prod(shape)).reshape(shape)
    columns = np.array(columns)
    rows = list(blocks.row_blocks(x, columns, size))
    wanted = x[:, columns]
    if rows:
        np.testing.assert_array_equal(np.concatenate([piece for _, piece in rows]), wanted)
    else:
        assert wanted.shape[0] == 0
    assert sum(part.stop - part.start for part, _ in rows) == shape[0]
    out = np.full_like(wanted, -1)
    for part, piece in blocks.column_blocks(x, columns, size):
        out[:, part] = piece
    np.testing.assert_array_equal(out, wanted)


def test_no_columns_give_no_column_blocks():
    x = np.ones((4, 3))
    assert list(blocks.column_blocks(x, np.empty(0, dtype=np.intp))) == []
    assert all(piece.shape[1] == 0 for _, piece in blocks.row_blocks(x, np.empty(0, dtype=np.intp)))


@pytest.mark.parametrize(("columns", "view"), [([0, 1, 2], True), ([1, 2], True), ([2], True), ([0, 2], False)])
def test_consecutive_columns_are_views(columns, view):
    x = np.ones((10, 3))
    columns = np.array(columns)
    pieces = [piece for _, piece in blocks.row_blocks(x, columns)]
    pieces += [piece for _, piece in blocks.column_blocks(x, columns, 3)]
    assert all(np.shares_memory(piece, x) == view for piece in pieces)


@pytest.mark.parametrize("columns", [[2, 1, 0], [0, 2, 1], [0, 0, 2]])
def test_selector_of_columns_that_do_not_ascend_by_one(columns):
    x = np.arange(12).reshape(4, 3)
    columns = np.array(columns)
    np.testing.assert_array_equal(x[:, blocks.column_selector(columns)], x[:, columns])


def test_blocks_are_of_the_size_wanted():
    assert blocks.block_size(1) * 8 == blocks.BLOCK_BYTES
    assert blocks.block_size(10**9) == blocks.MIN_BLOCK
    assert blocks.block_size(0) > 0


@pytest.mark.parametrize("order", ["C", "F"])
def test_buffer_has_the_memory_order_of_x(order):
    buffer = blocks.work_buffer(np.ones((5, 4), order=order), 3, 2)
    assert buffer.shape == (3, 2)
    assert buffer.dtype == np.float64
    assert buffer.flags[f"{order}_CONTIGUOUS"]


@pytest.mark.parametrize("wide", [1, 3])
@pytest.mark.parametrize("order", ["C", "F", "strided"])
@pytest.mark.parametrize("transpose", [False, True])
def test_products_are_those_of_numpy(transpose, order, wide):
    rng = np.random.default_rng(0)
    whole = rng.standard_normal((14, 5))
    a = whole[::2] if order == "strided" else np.array(whole[:7], order=order)
    b = rng.standard_normal((7 if transpose else 5, 2 * wide))[:, ::2]
    found = blas.product(a, b, transpose_a=transpose)
    np.testing.assert_allclose(found, (a.T if transpose else a) @ b, rtol=0, atol=ROUNDING)


@pytest.mark.parametrize("shape", [(3, 4), (0, 4), (3, 0)])
@pytest.mark.parametrize("layout", ["C", "F", "neither"])
def test_a_row_is_subtracted_in_place_in_every_layout(shape, layout):
    rng = np.random.default_rng(0)
    a = rng.normal(size=(2 * shape[0], shape[1]))[::2] if layout == "neither" else rng.normal(size=shape)
    a = np.asfortranarray(a) if layout == "F" else a
    row = rng.normal(size=shape[1])
    wanted = a - row
    blas.subtract_row(a, row)
    np.testing.assert_array_equal(a, wanted)
