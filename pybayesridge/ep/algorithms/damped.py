"""EP as everyone runs it: parallel sweeps with damping, all precisions held above a floor."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import repeat

import numpy as np

from pybayesridge._types import FloatArray
from pybayesridge.ep.algorithms.state import EPModel, State

#: Floor of site and cavity precisions in units of 1 / slab_var: the paper's epsilon.
FLOOR = 1e-2


@dataclass(frozen=True, slots=True)
class DampedRun:
    """Where a run of EP ended.

    Attributes
    ----------
    state : State or None
        The last state; None when not even the first one exists.
    residual : float
        Its scale-free residual.
    converged : bool
        Whether the residual is within the tolerance.
    n_iter, n_fac : int
        Iterations and covariance evaluations.
    energies : tuple of float
        Minus the log evidence (damped EP) or the energy (other methods) at each accepted iterate.
    """

    state: State | None
    residual: float
    converged: bool
    n_iter: int
    n_fac: int
    energies: tuple[float, ...]


def sweeps(
    model: EPModel,
    t1: FloatArray,
    t2: FloatArray,
    damping: Iterator[float],
    floor: float | None = FLOOR,
    cavity_floor: float | None = FLOOR,
) -> Iterator[State]:
    """Iterate damped EP from the given sites, whose state comes first; ends when a state does not exist."""
    state = model.state(t1, t2, cavity_floor=cavity_floor)
    while state is not None:
        yield state
        step = next(damping)
        new1, new2 = model.target_sites(state, floor)
        t1 = state.t1 + step * (new1 - state.t1)
        t2 = state.t2 + step * (new2 - state.t2)
        state = model.state(t1, t2, cavity_floor=cavity_floor)


def run_damped(
    model: EPModel, t1: FloatArray, t2: FloatArray, *, damping: float = 0.5, tol: float = 1e-4, maxiter: int = 1000
) -> DampedRun:
    """Damped parallel EP under the paper's constraints.

    All site and cavity precisions are kept above ``FLOOR / slab_var``; at such a site the mean is matched
    and the variance is not. Stops when the next sweep would change no mean by more than ``tol`` posterior
    standard deviations and no variance by more than the fraction ``tol``.

    Parameters
    ----------
    model : EPModel
        Likelihood and prior.
    t1, t2 : ndarray (d,)
        Sites to start from.
    damping : float
        Share of the new site in the next one, in (0, 1].
    tol : float
        Tolerance of the residual.
    maxiter : int
        Sweeps at most.

    Returns
    -------
    DampedRun
        ``converged`` refers to the constrained iteration.
    """
    state, residual, energies = None, np.inf, []
    t2 = np.maximum(t2, FLOOR / model.prior.slab_var)
    n_iter = 0
    for n_iter, current in enumerate(sweeps(model, t1, t2, repeat(damping)), start=1):
        state = current
        residual = model.residual(state, FLOOR)
        energies.append(-model.log_evidence(state))
        if residual <= tol or n_iter >= maxiter:
            break
    return DampedRun(state, residual, residual <= tol, n_iter, n_iter, tuple(energies))
