"""The posterior of the penalty of one target by compiled code: the steps of `profile` and `quadrature`.

Of many targets NumPy takes these together, which costs less. A single one is some hundred calls of NumPy, which take
longer than the arithmetic of a small problem.
"""

from __future__ import annotations

import ctypes

import numpy as np

from pybayesridge._types import FloatArray
from pybayesridge.compiled.library import built
from pybayesridge.ridge.likelihood import PenaltyLikelihood
from pybayesridge.ridge.spectrum import Spectrum

MOST_NODES = 513
"""Nodes beyond which a quadrature is left to NumPy: a power of two plus 1."""

WEIGHED, NODE = 7, 5
"""Numbers of a point: ``WEIGHED`` in ``penalty.c``, and those of the struct ``Node``."""


class Penalty(ctypes.Structure):
    """``Penalty`` in ``penalty.c``."""

    _fields_ = (
        ("rank", ctypes.c_int64),
        ("s2", ctypes.c_void_p),
        ("z2", ctypes.c_void_p),
        *((name, ctypes.c_double) for name in ("rss0", "half", "variance", "a", "b", "log_scale", "half_k")),
        *((name, ctypes.c_double) for name in ("cancelled", "largest")),
    )
    held: tuple[FloatArray, FloatArray]


class Rule(ctypes.Structure):
    """``Rule`` in ``penalty.c``."""

    _fields_ = (
        ("outside", ctypes.c_int64),
        *((name, ctypes.c_double) for name in ("fall", "log_first", "log_last")),
        *((name, ctypes.c_double) for name in ("drop", "coarse", "negligible", "epsilon", "tol")),
        *((name, ctypes.c_int64) for name in ("first", "most", "doublings", "n_grid")),
        *((name, ctypes.c_void_p) for name in ("grid", "room", "nodes", "log_t2", "weight")),
        *((name, ctypes.c_double) for name in ("log_integral", "error")),
    )


def describe(
    spectrum: Spectrum,
    likelihood: PenaltyLikelihood,
    *,
    a: float,
    b: float,
    k: float,
    log_scale: float,
    cancelled: float,
    largest: float,
) -> Penalty | None:
    """The problem as compiled code takes it; None if there is no such code, or other than one target.

    Parameters
    ----------
    spectrum : Spectrum
    likelihood : PenaltyLikelihood
    a, b, k, log_scale : float
        See :class:`pybayesridge.ridge.profile.PenaltyModel`.
    cancelled : float
        A slope below this share of its terms is 0.
    largest : float
        Largest logarithm of a penalty.
    """
    if spectrum.rss0.size != 1 or spectrum.rank == 0 or built() is None:
        return None
    variance = 0.0 if likelihood.variance is None else float(likelihood.variance[0])
    if likelihood.known and not 0.0 < variance < np.inf:
        return None
    s2, z2 = spectrum.s**2, np.ascontiguousarray(spectrum.z[:, 0]) ** 2
    rss0, half = float(spectrum.rss0[0]), (likelihood.count + 2) / 2
    addresses = (s2.ctypes.data, z2.ctypes.data)
    out = Penalty(spectrum.rank, *addresses, rss0, half, variance, a, b, log_scale, k / 2, cancelled, largest)
    out.held = (s2, z2)
    return out


def modes(
    penalty: Penalty, grid: FloatArray, *, tol: float, maxiter: int
) -> tuple[float, int, bool, bool, int] | None:
    """The mode, the number of modes, whether it converged, whether f falls for ever, and the steps taken.

    None where two zeros of the slope may lie between two points of the grid.
    """
    code = built()
    assert code is not None
    log_t2, counts = ctypes.c_double(), (ctypes.c_int64 * 3)()
    out = (ctypes.byref(log_t2), ctypes.byref(counts))
    steps = code.penalty_modes(ctypes.byref(penalty), grid.ctypes.data, grid.size, tol, maxiter, *out)
    n_modes, converged, unbounded = counts
    return None if steps < 0 else (log_t2.value, n_modes, bool(converged), bool(unbounded), steps)


def quadrature(
    penalty: Penalty,
    grid: FloatArray,
    mode: float,
    *,
    fall: float,
    outside: bool,
    drop: float,
    coarse: float,
    negligible: float,
    tol: float,
    first: int,
    doublings: int,
) -> tuple[FloatArray, FloatArray, float, float] | None:
    """Nodes (K,), their weights (K,), the log integral and its error; None for what is left to NumPy.

    That is a quadrature that has not converged with :data:`MOST_NODES` nodes, or whose density is not finite.

    Parameters
    ----------
    penalty : Penalty
        With half of nu as degrees of freedom.
    grid : (L,) array
        Points, `coarse` apart, among which the ends are found.
    mode : float
        Of the density; not finite where there is none.
    fall : float
        Rate at which the density falls for large t2.
    outside : bool
        Whether the variance outside the row space counts.
    drop, coarse, negligible : float
        The constants of :mod:`pybayesridge.ridge.quadrature`.
    tol : float
    first : int
        Nodes of the first rule.
    doublings : int
    """
    code = built()
    assert code is not None
    room, nodes = np.empty(WEIGHED * max(grid.size, MOST_NODES)), np.empty(NODE * MOST_NODES)
    log_t2, weight = np.empty(MOST_NODES), np.empty(MOST_NODES)
    s2 = penalty.held[0]
    rule = Rule(
        outside,
        fall,
        np.log(s2[0]),
        np.log(s2[-1]),
        drop,
        coarse,
        negligible,
        np.finfo(float).eps,
        tol,
        first,
        MOST_NODES,
        doublings,
        grid.size,
        *(array.ctypes.data for array in (grid, room, nodes, log_t2, weight)),
    )
    kept = code.penalty_quadrature(ctypes.byref(penalty), ctypes.byref(rule), mode)
    if kept < 0:
        return None
    return log_t2[:kept].copy(), weight[:kept].copy(), rule.log_integral, rule.error
