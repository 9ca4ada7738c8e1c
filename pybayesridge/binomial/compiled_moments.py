"""The compiled sums of :mod:`pybayesridge.binomial.one_trial` and :mod:`pybayesridge.binomial.hermite`."""

from __future__ import annotations

import ctypes
from functools import lru_cache

import numpy as np

from pybayesridge._types import AnyArray, FloatArray, IntArray
from pybayesridge.binomial import hermite, one_trial
from pybayesridge.compiled.library import built
from pybayesridge.sites.tilted import Cavity, Tilted, empty

MOST = 32
"""Most nodes of a Gauss-Hermite rule."""


class Rules(ctypes.Structure):
    """Nodes, weights and limits; in the order of the struct in C."""

    _fields_ = (
        ("n_rules", ctypes.c_int64),
        ("size", ctypes.c_void_p),
        ("widest", ctypes.c_void_p),
        ("at", ctypes.c_void_p),
        ("weight", ctypes.c_void_p),
        ("rare", ctypes.c_double),
        ("few", ctypes.c_double),
        ("farthest_step", ctypes.c_double),
        ("reach", ctypes.c_int64),
        ("spacing", ctypes.c_double),
        ("averaged", ctypes.c_void_p),
        ("bend", ctypes.c_double),
        ("narrowest", ctypes.c_double),
        ("flattest", ctypes.c_double),
        ("lowest", ctypes.c_double),
        ("farthest", ctypes.c_double),
    )


class CMoments(ctypes.Structure):
    """Where the moments go."""

    _fields_ = tuple((name, ctypes.c_void_p) for name in Tilted.__dataclass_fields__)


@lru_cache(maxsize=1)
def _rules() -> tuple[Rules, tuple[AnyArray, ...]]:
    """The rules, and the arrays that they point to."""
    sizes = hermite.SIZES.astype(np.int64)
    at, weight = np.zeros((2, sizes.size, MOST))
    for i, size in enumerate(sizes.tolist()):
        at[i, :size], weight[i, :size] = hermite.hermite(size)
    averaged = np.ascontiguousarray(one_trial.FUNCTIONS.T)
    held = (sizes, hermite.WIDEST, at, weight, averaged)
    rules = Rules(
        sizes.size,
        *(array.ctypes.data for array in held[:4]),
        hermite.RARE,
        hermite.FEW,
        hermite.FARTHEST,
        one_trial.AT.size // 2,
        one_trial.SPACING,
        averaged.ctypes.data,
        one_trial.BEND,
        one_trial.NARROWEST,
        one_trial.FLATTEST,
        one_trial.LOWEST,
        one_trial.FARTHEST,
    )
    return rules, held


def moments(successes: FloatArray, failures: FloatArray, cavity: Cavity) -> tuple[Tilted, IntArray] | None:
    """Moments of the rows for the logit link, and the rows to which neither rule applies; None without a library.

    Parameters
    ----------
    successes, failures : (n,) arrays
    cavity : Cavity
    """
    code = built()
    if code is None:
        return None
    rules, _ = _rules()
    given = [np.ascontiguousarray(a) for a in (successes, failures, cavity.center, cavity.precision, cavity.slope)]
    out, left = empty(successes.size), np.empty(successes.size, dtype=np.int64)
    of_rows = CMoments(*(getattr(out, name).ctypes.data for name in Tilted.__dataclass_fields__))
    n_left = code.tilted_logit(
        ctypes.byref(rules),
        successes.size,
        *(a.ctypes.data for a in given),
        ctypes.byref(of_rows),
        left.ctypes.data,
    )
    return out, left[:n_left]
