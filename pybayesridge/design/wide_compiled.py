"""The pass over wide columns by compiled code, where they are standardised and centring is all that is taken out.

For float64 columns that are contiguous along rows or columns. A block is read twice and written once in the cache,
beside the product; NumPy and BLAS (:mod:`pybayesridge.design.wide`) take seven passes over X.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from functools import lru_cache

import numpy as np
from scipy.linalg import cython_blas

from pybayesridge._types import AnyArray, FloatArray, IntArray
from pybayesridge.compiled.library import built
from pybayesridge.design.unpenalized import Unpenalized
from pybayesridge.design.wide import WideProducts
from pybayesridge.linalg.blocks import column_selector
from pybayesridge.linalg.scale import CONSTANT, SAFE

ITEM = 8
"""Bytes of a float64."""

WIDTH = 320
"""Columns of a block: of some hundred rows it stays in a second-level cache. For multiples of 128 some versions of
OpenBLAS take half as long again."""

ELEMENTS = 1 << 24
"""Most elements of X that one call takes."""

_DSYRK = "void (char *, char *, int *, int *, D *, D *, int *, D *, D *, int *)"
"""The arguments of SciPy's ``dsyrk``, D being its name for a double."""


class _Wide(ctypes.Structure):
    """``Wide`` in ``columns.c``."""

    _fields_ = [
        *((name, ctypes.c_int64) for name in ("n", "step", "by_columns", "centred", "block")),
        *((name, ctypes.c_double) for name in ("least", "most", "constant")),
        *(
            (name, ctypes.c_void_p)
            for name in ("x", "w", "root", "buffer", "center", "sd", "inverse", "flat", "product", "dsyrk")
        ),
    ]


def compiled_products(x: AnyArray, columns: IntArray, block: Unpenalized) -> WideProducts | None:
    """The products of standardised columns, as :func:`pybayesridge.design.wide.wide_products` finds them.

    None where compiled code is not there or does not take the columns, as when squares of a column may have met
    underflow or overflow.

    Parameters
    ----------
    x : (n, m) array
        Finite.
    columns : (p,) int array
        Positions in `x` of the penalised columns.
    block : Unpenalized
        Without columns other than a constant one.
    """
    which = column_selector(columns)
    if not isinstance(which, slice):
        return None
    x = x[:, which]
    code, dsyrk, place = built(), _dsyrk(), _place(x)
    if code is None or dsyrk is None or place is None:
        return None
    (n, p), (step, by_columns) = x.shape, place
    width = min(p, WIDTH)
    product: FloatArray = np.zeros((n, n), order="F")
    center, sd, inverse, buffer = np.empty(p), np.empty(p), np.empty(p), np.empty(n * width)
    flat = np.empty(p, dtype=bool)
    root = None if block.sqrt_w is None else np.ascontiguousarray(block.sqrt_w)
    weights = None if root is None else root**2
    arrays = (x, weights, root, buffer, center, sd, inverse, flat, product)
    addresses = (None if a is None else a.ctypes.data for a in arrays)
    centred = block.ones is not None
    wide = _Wide(n, step, by_columns, centred, width, *SAFE, CONSTANT, *addresses, dsyrk)
    if not all(code.wide_product(ctypes.byref(wide), *columns) for columns in _calls(n, p, width)):
        return None
    return WideProducts(
        product=product,
        center=center,
        scale=np.where(flat, 1.0, sd),
        sd=sd,
        projection=None,
        constant=flat,
        on_taken=None,
        taken=None,
        marks=None,
        shared=1.0,
    )


def _calls(n: int, p: int, width: int) -> Iterator[tuple[int, int]]:
    """Columns of each call, from and to: none takes so long that it could not be interrupted."""
    step = max(1, ELEMENTS // (n * width)) * width
    for first in range(0, p, step):
        yield first, min(first + step, p)


def _place(x: AnyArray) -> tuple[int, bool] | None:
    """Elements from one row to the next and False, or those from one column to the next and True; None for others."""
    if x.dtype != np.float64 or not x.flags.aligned:
        return None
    by_columns = x.strides[1] != ITEM
    step, item = x.strides[::-1] if by_columns else x.strides
    return None if item != ITEM or step % ITEM else (step // ITEM, by_columns)


@lru_cache(maxsize=1)
def _dsyrk() -> int | None:
    """Address of the ``dsyrk`` of SciPy's BLAS; None if it is not what it has been."""
    capsule = getattr(cython_blas, "__pyx_capi__", {}).get("dsyrk")
    if capsule is None:
        return None
    name_of = ctypes.pythonapi.PyCapsule_GetName
    name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
    address_of = ctypes.pythonapi.PyCapsule_GetPointer
    address_of.restype, address_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    name = name_of(capsule)
    if name.decode().replace("__pyx_t_5scipy_6linalg_11cython_blas_d", "D") != _DSYRK:
        return None
    address: int | None = address_of(capsule, name)
    return address
