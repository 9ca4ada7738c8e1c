"""Numbers as tables and sentences write them."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybayesridge.text import DASH, column, columns, count, did_you_mean, in_words, number, rounded

THREE_DIGITS = 5.01e-3
"""Half a unit in the third significant digit, and the rounding of the comparison."""

FOUR_DIGITS = 5.01e-4
"""Likewise, in the fourth."""

WIDEST = 12
"""Characters of a cell: eight digits, two separators, sign and point; or as many of 1.234e-307."""

FIXED = re.compile(r"-?\d{1,3}(,\d{3})*(\.\d+)?")
SCIENTIFIC = re.compile(r"-?[1-9](\.\d+)?e(0|-?[1-9]\d*)")

ANY = st.floats(allow_subnormal=False).filter(lambda value: not 1e308 < abs(value) < np.inf)
USUAL = st.floats(-1e6, 1e6).map(lambda value: value if abs(value) > 1e-6 else 0.0)
COLUMNS = st.one_of(st.lists(ANY, max_size=12), st.lists(USUAL, max_size=12))


def proper(values):
    return [value for value in values if np.isfinite(value) and value != 0]


@given(COLUMNS)
def test_digits_of_a_column(values):
    """Every number has three significant digits at least, the largest has four."""
    cells = column(values)
    assert len(cells) == len(values)
    largest = max(map(abs, proper(values)), default=0.0)
    for value, cell in zip(values, cells, strict=True):
        if not np.isfinite(value):
            assert cell == DASH
        elif value == 0:
            assert cell == "0"
        else:
            digits = FOUR_DIGITS if abs(value) == largest else THREE_DIGITS
            assert float(cell.plain) == pytest.approx(value, rel=digits, abs=0)


@given(COLUMNS)
def test_cells_of_a_column_are_alike_where_they_fit_and_narrow(values):
    """In one notation with the same decimals, or each in that which it would have alone."""
    numbers = proper(values)
    cells = [cell for cell in column(values) if cell not in ("0", DASH)]
    assert all(len(cell) <= WIDEST for cell in cells)
    alone = [bool(FIXED.fullmatch(number(value))) for value in numbers]
    if len({len(cell.partition("e")[0].partition(".")[2]) for cell in cells}) > 1:
        assert [bool(FIXED.fullmatch(cell)) for cell in cells] == alone
        assert all(SCIENTIFIC.fullmatch(cell) for cell, fixed in zip(cells, alone, strict=True) if not fixed)
    else:
        assert all(map(FIXED.fullmatch, cells)) or not all(alone)


@given(COLUMNS)
def test_columns_keep_the_order(values):
    finite = sorted(value for value in values if np.isfinite(value))
    shown = [float(cell.plain) for cell in column(finite)]
    assert shown == sorted(shown)


@given(COLUMNS)
def test_signs_of_a_column(values):
    opposite = column([-value for value in values])
    for cell, other in zip(column(values), opposite, strict=True):
        assert {cell, other} in ({DASH}, {"0"}) or {cell, other} == {cell.lstrip("-"), f"-{cell.lstrip('-')}"}


@given(st.lists(st.floats(1.0, 9999.0), min_size=1, max_size=8), st.integers(-1, 2))
def test_columns_of_one_order_of_magnitude_are_in_fixed_notation(values, power):
    cells = column([value * 10.0**power for value in values])
    assert all(map(FIXED.fullmatch, cells))


@pytest.mark.parametrize(
    ("values", "cells"),
    [
        ([45.67, -0.0412], ["45.6700", "-0.0412"]),
        ([-123900.0, 491.5, 0.0], ["-123,900", "492", "0"]),
        ([-1239000.0, 49.15, 0.0], ["-1,239,000", "49.15", "0"]),
        ([20.503158, -0.0035581], ["20.50", "-0.003558"]),
        ([-1239000.0, 49.15, 0.008875], ["-1,239,000", "49.15", "0.008875"]),
        ([1.234e9, 2.5, 0.0, 1e-7], ["1.234e9", "2.500", "0", "1.000e-7"]),
        ([3.1e-5, 1.2341e-9], ["3.100e-5", "1.234e-9"]),
        ([1.0, 2.0, 12.0], ["1", "2", "12"]),
        ([0.5, 0.25], ["0.50", "0.25"]),
        ([np.inf, np.nan, -0.0, 3.25], [DASH, DASH, "0", "3.25"]),
        ([999.96, 1.0], ["999.96", "1.00"]),
        ([], []),
    ],
)
def test_columns(values, cells):
    assert column(values) == cells


def test_ends_of_intervals_are_written_like_one_column():
    cells = columns([[1239000.0, 1.0], [-3010000.0, 0.5], [49.15, 2.0]], interval=True)
    assert cells == [["1,239,000", "1.000"], ["-3,010,000", "0.5000"], ["49.15", "2.000"]]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1239000.0, "1,239,000"),
        (1239412.3, "1,239,412"),
        (4.9e9, "4.9e9"),
        (-1.239e-6, "-1.239e-6"),
        (45.674, "45.67"),
        (0.0412, "0.0412"),
        (0.0001234, "0.0001234"),
        (9.99996e-5, "0.0001"),
        (999.96, "1,000"),
        (0.0, "0"),
        (np.inf, DASH),
    ],
)
def test_single_numbers(value, text):
    assert number(value) == text


def test_fewer_digits():
    assert [number(3.21e-8, 2), number(3.21e-8, 1), number(-0.0358, 2)] == ["3.2e-8", "3e-8", "-0.036"]


def test_numbers_of_sentences():
    assert [in_words(1239000.0), in_words(np.inf), in_words(np.nan)] == ["1,239,000", "infinite", "not defined"]


def test_counts_and_shares():
    assert [count(50000), count(50000).plain, count(123456789)] == ["50,000", "50000", "123,456,789"]
    assert [rounded(0.99951), rounded(-0.0001), rounded(-1234.5678), rounded(np.nan)] == [
        "1.000",
        "0.000",
        "-1,234.568",
        DASH,
    ]


def test_a_value_of_another_type_is_suggested_as_it_is():
    assert did_you_mean("0", [0, 1]) == ": did you mean 0?"
    assert did_you_mean("G", ["g", "h"]) == ": did you mean 'g'?"
    assert did_you_mean("xyz", [0, 1]) == "; there are 0, 1"
