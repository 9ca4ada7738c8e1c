"""Matrix products by the BLAS that SciPy's LAPACK uses, and the threads of both.

NumPy's and SciPy's wheels each bring an OpenBLAS with a pool of threads of its own. Calls that alternate between
the two make the pools compete for the same cores, and can take several times as long. So the passes over X call one
library only.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.linalg.blas import dgemm, dgemv, dger, dsyrk
from threadpoolctl import ThreadpoolController

from pybayesridge._types import FloatArray

WORTH_THREADS = 1e9
"""Floating-point operations of a call below which threads gain less than they may cost."""


def _operand(a: FloatArray, transposed: bool) -> tuple[FloatArray, int]:
    """`a` or its transpose, whichever lies in Fortran order, and whether BLAS has to transpose it back."""
    if a.flags.f_contiguous:
        return a, int(transposed)
    if not a.flags.c_contiguous:
        a = np.ascontiguousarray(a)
    return a.T, int(not transposed)


def product(a: FloatArray, b: FloatArray, *, transpose_a: bool = False) -> FloatArray:
    """``a @ b`` or ``a.T @ b`` of two matrices; no copy of contiguous operands."""
    rows, inner = a.shape[::-1] if transpose_a else a.shape
    if min(rows, inner, b.shape[1]) == 0:
        return np.zeros((rows, b.shape[1]))
    left, trans_a = _operand(a, transpose_a)
    if b.shape[1] == 1:
        column: FloatArray = dgemv(1.0, left, np.ascontiguousarray(b[:, 0]), trans=trans_a)
        return column[:, None]
    right, trans_b = _operand(b, False)
    out: FloatArray = dgemm(1.0, left, right, trans_a=trans_a, trans_b=trans_b)
    return out


def add_product(total: FloatArray, a: FloatArray, b: FloatArray) -> None:
    """Add ``a @ b`` to `total`, which lies in Fortran order, in place."""
    if total.size and a.shape[1]:
        (left, trans_a), (right, trans_b) = (_operand(each, False) for each in (a, b))
        dgemm(1.0, left, right, beta=1.0, c=total, trans_a=trans_a, trans_b=trans_b, overwrite_c=1)


def add_square(total: FloatArray | None, a: FloatArray, *, transposed: bool) -> FloatArray:
    """Add ``a.T @ a`` (`transposed`) or ``a @ a.T`` to the lower triangle of `total`, in place; None stands for 0."""
    if a.size == 0:
        size = a.shape[1] if transposed else a.shape[0]
        return np.zeros((size, size), order="F") if total is None else total
    fortran, trans = _operand(a, transposed)
    options: dict[str, Any] = {"trans": trans, "lower": 1}
    if total is not None:
        options |= {"beta": 1.0, "c": total, "overwrite_c": 1}
    out: FloatArray = dsyrk(1.0, fortran, **options)
    return out


def subtract_row(a: FloatArray, row: FloatArray) -> None:
    """Subtract `row` (b,) from each row of `a` (n, b), in place: half the time of NumPy's broadcasting."""
    if not a.size or not (a.flags.c_contiguous or a.flags.f_contiguous):
        a -= row
    elif a.flags.f_contiguous:
        dger(-1.0, np.ones(a.shape[0]), row, a=a, overwrite_a=1)
    else:
        dger(-1.0, row, np.ones(a.shape[0]), a=a.T, overwrite_a=1)


BUNDLED = (".libs", ".dylibs")
"""Folders in which wheels for Windows and macOS have the libraries of a package."""


def _is_numpys(path: str) -> bool:
    """Whether a library came with NumPy's wheel: in numpy.libs, numpy/.libs or numpy/.dylibs."""
    folders = path.replace("\\", "/").split("/")[:-1]
    if folders and folders[-1] in BUNDLED:
        folders.pop()
    return bool(folders) and folders[-1] in ("numpy", "numpy.libs")


@lru_cache(maxsize=1)
def _pools() -> tuple[ThreadpoolController | None, ThreadpoolController | None]:
    """All BLAS libraries of the process, and NumPy's own where SciPy has another; None where threads are left alone.

    One library for both (conda, Linux distributions), one whose threads cannot be set (Accelerate) and none that is
    found all leave the results as they are: only threads depend on this.
    """
    try:
        every = ThreadpoolController().select(user_api="blas")
        paths = [str(pool["filepath"]) for pool in every.info()]
    except (AttributeError, OSError, RuntimeError):
        return None, None
    own = [path for path in paths if _is_numpys(path)]
    return every, every.select(filepath=own) if own and len(own) < len(paths) else None


@contextmanager
def one_pool(flops: float) -> Iterator[None]:
    """Let only one BLAS have threads, and none where a call has too little work for them.

    For iterations that call both libraries in turn: with two pools competing, small problems can take many times
    as long.

    Parameters
    ----------
    flops : float
        Of the largest call.
    """
    every, numpy_alone = _pools()
    pools = every if flops < WORTH_THREADS else numpy_alone
    if pools is None:
        yield
        return
    with pools.limit(limits=1):
        yield
