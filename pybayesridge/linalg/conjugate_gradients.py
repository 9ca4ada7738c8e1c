"""Truncated preconditioned conjugate gradients for systems that may be indefinite."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pybayesridge._types import FloatArray

#: Curvatures below this fraction of what the preconditioner expects count as negative.
_NEGATIVE = 1e-3


def conjugate_gradients(
    times: Callable[[FloatArray], FloatArray],
    precondition: Callable[[FloatArray], FloatArray],
    rhs: FloatArray,
    maxiter: int,
    tol: float,
) -> FloatArray:
    """Solve ``H x = rhs`` roughly, so that x is an ascent direction of ``rhs' x``.

    Parameters
    ----------
    times : callable
        Products with the symmetric H.
    precondition : callable
        Products with a positive definite approximation of its inverse.
    rhs : ndarray (n,)
        Right-hand side.
    maxiter : int
        Iterations at most.
    tol : float
        Reduction of the residual (in the preconditioner's norm) at which to stop.

    Returns
    -------
    ndarray (n,)
        The iterate at convergence, at ``maxiter``, or where negative curvature showed.
    """
    x = np.zeros_like(rhs)
    r = rhs.copy()
    y = precondition(r)
    p, ry = y, float(r @ y)
    first = ry
    for k in range(maxiter):
        hp = times(p)
        curvature = float(p @ hp)
        if not curvature > _NEGATIVE * ry:
            return p if k == 0 else x
        x = x + (ry / curvature) * p
        r = r - (ry / curvature) * hp
        y = precondition(r)
        new = float(r @ y)
        if new <= tol**2 * first:
            break
        p, ry = y + (new / ry) * p, new
    return x
