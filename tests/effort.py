"""How many cases are tried: all if PYBAYESRIDGE_THOROUGH is set, as in continuous integration, otherwise a share."""

import os
from itertools import product
from zlib import crc32

import pytest

THOROUGH = bool(os.environ.get("PYBAYESRIDGE_THOROUGH"))


only_thorough = pytest.mark.skipif(not THOROUGH, reason="long; runs with PYBAYESRIDGE_THOROUGH")
"""A test that continuous integration alone runs."""


def number(thorough, ordinary):
    """One of two numbers: of problems, of iterations, of examples."""
    return thorough if THOROUGH else ordinary


def pairs(rows, columns, each):
    """All pairs of two lists; ordinarily `each` columns for every row, in turn, so that every column has its rows."""
    rows, columns = list(rows), list(columns)
    if THOROUGH:
        return list(product(rows, columns))
    return [(row, columns[(i * each + j) % len(columns)]) for i, row in enumerate(rows) for j in range(each)]


def share(cases, of):
    """All cases; ordinarily every `of`-th."""
    return list(cases)[:: 1 if THOROUGH else of]


def chosen(names, most):
    """A fixed choice of at most `most` of the names of cases, without regard to their order or what they are."""
    return set(sorted(names, key=lambda name: crc32(name.encode()))[:most])
