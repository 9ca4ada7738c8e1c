"""Expectation maximisation as in the paper's Table 3, O(r) an iteration and a target."""

from __future__ import annotations

import numpy as np

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.ridge.profile import Modes, PenaltyModel, complement, search_grid, shrinkage
from pybayesridge.ridge.spectrum import Spectrum


def run_em(
    spectrum: Spectrum, model: PenaltyModel, *, tol: float, maxiter: int, start: FloatArray | None = None
) -> Modes:
    """Iterate E- and M-steps from t2 = 1 until log t2 and log s2 stand still; finished targets leave.

    The stopping rule estimates the distance still to go, ``step * rate / (1 - rate)``, since EM may creep: a small
    step alone says nothing. Below the search grid f' > 0 all the way down to t2 = 0: there is no mode to come, and
    the target is a null model.

    Parameters
    ----------
    spectrum : Spectrum
    model : PenaltyModel
    tol : float
        Largest distance to the fixed point accepted, in log t2 and log s2.
    maxiter : int
        Most iterations.
    start : (q,) array, optional
        log t2 (in rotated units) to start from; t2 = 1 by default.

    Returns
    -------
    Modes
        With ``n_modes`` 1 where EM has found one: it cannot know of others.

    References
    ----------
    Tew, Boley & Schmidt (2023), Table 3 and equation (11).
    """
    q = spectrum.z.shape[1]
    log_t2 = np.full(q, model.log_scale) if start is None else start.copy()
    null = np.zeros(q, dtype=bool)
    done = np.zeros(q, dtype=bool)
    if spectrum.rank == 0:
        return Modes(np.full(q, -np.inf), np.zeros(q, dtype=np.intp), ~null, null, 0)
    known = model.likelihood.variance
    variance = np.full(q, 1.0 / spectrum.nu) if known is None else known.copy()
    lowest = search_grid(spectrum, model)[0]
    previous = np.full(q, np.inf)
    iteration = 0
    for iteration in range(1, maxiter + 1):
        i = np.flatnonzero(~done)
        if i.size == 0:
            iteration -= 1
            break
        # A target fitted exactly has no fixed point: its t2 runs away, which the caller has seen from its residual.
        with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
            new_l, new_v = _iterate(spectrum, model, log_t2[i], variance[i], i)
            step = np.maximum(np.abs(new_l - log_t2[i]), np.abs(np.log(new_v / variance[i])))
        rate = np.clip(step / previous[i], 0.0, 1.0 - 1e-12)
        left = np.maximum(step, step * rate / (1.0 - rate))
        log_t2[i], variance[i], previous[i] = new_l, new_v, step
        null[i] = new_l < lowest
        done[i] = (left <= tol) | null[i]
    log_t2[null] = -np.inf
    found = (done & ~null).astype(np.intp)
    return Modes(log_t2, found, done, np.zeros(q, dtype=bool), iteration)


def _iterate(
    spectrum: Spectrum, model: PenaltyModel, log_t2: FloatArray, s2: FloatArray, target: IntArray
) -> tuple[FloatArray, FloatArray]:
    """One E-step and M-step for some targets, each argument (m,)."""
    s = spectrum.s
    f = complement(s, log_t2)
    z = spectrum.z[:, target].T
    t2 = np.exp(log_t2)
    # The E-step (paper, equation 9), with 1/d_j = t2 f_j. Norms of b in units of the rotated problem.
    trace = t2 * (f.sum(axis=1) + (spectrum.p - spectrum.rank))
    esn = ((t2[:, None] * s * f * z) ** 2).sum(axis=1) + s2 * trace
    rss = spectrum.rss0[target] + ((f * z) ** 2).sum(axis=1)
    ess = rss + s2 * shrinkage(s, log_t2).sum(axis=1)
    esn_true = esn * np.exp(-model.log_scale)
    p, k, ab, count = spectrum.p, model.k, 2 * (model.a + model.b), model.likelihood.count
    if not model.likelihood.known:
        # The positive root of A t2^2 + B t2 - C = 0; k = 1 and a + b = 1 make it the paper's equation (11).
        new = _positive_root(
            (k + p + ab) * ess,
            (k + p) * ess + (k + ab - count - 2) * esn_true,
            (count + 2 - k) * esn_true,
        )
        log_new = np.log(new) + model.log_scale
        return log_new, (ess + esn * np.exp(-log_new)) / (count + p + 2)
    w = esn_true / s2
    new = _positive_root(np.full_like(w, p + k + ab), p + k - w, w)
    return np.log(new) + model.log_scale, s2


def _positive_root(a: FloatArray, b: FloatArray, c: FloatArray) -> FloatArray:
    """Positive root of ``a t^2 + b t - c`` for positive a and c, in the form that does not cancel."""
    root = np.hypot(b, 2 * np.sqrt(a) * np.sqrt(c))
    return np.where(b > 0, 2 * c / (b + root), (root - b) / (2 * a))
