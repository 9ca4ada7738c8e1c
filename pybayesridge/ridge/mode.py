"""The penalty at its posterior mode: the method "em", by a search of one dimension or as in the paper's Table 3."""

from __future__ import annotations

import numpy as np

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.design.design import Design
from pybayesridge.ridge.accurate import rotate_accurately
from pybayesridge.ridge.density import is_proper
from pybayesridge.ridge.fit import FitOptions, RidgeFit, fits_exactly, penalty_model
from pybayesridge.ridge.likelihood import GaussianNoise
from pybayesridge.ridge.mixture import Mixture
from pybayesridge.ridge.prior import BetaPrime, log_unit
from pybayesridge.ridge.profile import (
    Modes,
    PenaltyModel,
    complement,
    find_modes,
    penalized_rss,
    search_grid,
    shrinkage,
    value,
)
from pybayesridge.ridge.quadrature import integrate
from pybayesridge.ridge.spectrum import Spectrum
from pybayesridge.ridge.trust import (
    blurs_variances,
    hides_no_mass,
    hides_no_mode,
    sees_everything,
    sees_nothing_small,
)


def fit_mode(
    design: Design,
    spectrum: Spectrum,
    prior: BetaPrime,
    noise: GaussianNoise,
    options: FitOptions,
) -> RidgeFit:
    """Penalty at the posterior mode; uncertainty conditional on the mode (paper, equation 6).

    Parameters
    ----------
    design : Design
    spectrum : Spectrum
    prior : BetaPrime
    noise : GaussianNoise
    options : FitOptions
    """
    if design.in_memory and sees_nothing_small(design, spectrum):
        spectrum = rotate_accurately(design)
    model = penalty_model(design, spectrum, prior, noise, options.parameterization)
    modes = find_modes(spectrum, model, tol=options.tol, maxiter=options.maxiter if options.accelerate else 100)
    if not options.accelerate:
        modes = _em_modes(spectrum, model, modes, options.tol, options.maxiter)
    interior = np.isfinite(modes.log_t2) & ~design.y_vanishes
    smallest_penalty = float(np.exp(-modes.log_t2[interior].max())) if interior.any() else np.inf
    certain = not sees_nothing_small(design, spectrum) and _hides_nothing(spectrum, model, modes.log_t2)
    blurred = blurs_variances(spectrum, modes.log_t2)
    if design.in_memory and (blurred or not (certain and spectrum.trusts(smallest_penalty))):
        return fit_mode(design, rotate_accurately(design), prior, noise, options)
    perfect = fits_exactly(design, spectrum) & (not noise.known)
    log_t2 = np.where(perfect, np.inf, modes.log_t2)
    scale2 = model.likelihood.mode(penalized_rss(spectrum, log_t2[None])[0])
    scale2 = np.where(perfect | noise.vanishes(design), 0.0, scale2)
    unbounded = modes.unbounded & (modes.n_modes == 0) & ~perfect
    return RidgeFit(
        spectrum=spectrum,
        mixture=Mixture(log_t2[None], np.ones((1, design.q)), scale2[None], np.inf),
        log_t2=log_t2,
        log_unit=log_unit(design, spectrum),
        sigma2=scale2,
        n_modes=modes.n_modes,
        null=np.isneginf(log_t2),
        perfect=perfect,
        unbounded=unbounded,
        converged=modes.converged | perfect,
        n_iter=modes.n_iter,
        certain=certain,
    )


def _hides_nothing(spectrum: Spectrum, model: PenaltyModel, log_t2: FloatArray) -> bool:
    """Whether no mode, and little that the marginal likelihood integrates, lies where the rotation is inaccurate."""
    if sees_everything(spectrum):
        return True
    if not hides_no_mode(spectrum, model, log_t2):
        return False
    return is_proper(spectrum, model) and hides_no_mass(
        spectrum, model, integrate(spectrum, model, tol=1e-8, maxiter=14)
    )


def _em_modes(spectrum: Spectrum, model: PenaltyModel, certificate: Modes, tol: float, maxiter: int) -> Modes:
    """Plain EM; where it has found a lower one of several modes it starts again from the highest."""
    found = _run_em(spectrum, model, tol=tol, maxiter=maxiter)
    several = certificate.n_modes > 1
    if several.any():
        start = np.where(several, certificate.log_t2, found.log_t2)
        again = _run_em(spectrum, model, tol=tol, maxiter=maxiter, start=np.where(np.isfinite(start), start, 0.0))
        higher = several & (
            value(spectrum, model, again.log_t2[None])[0] < value(spectrum, model, found.log_t2[None])[0]
        )
        found = Modes(
            np.where(higher, again.log_t2, found.log_t2),
            certificate.n_modes,
            np.where(higher, again.converged, found.converged),
            certificate.unbounded,
            found.n_iter + again.n_iter,
        )
    return Modes(found.log_t2, certificate.n_modes, found.converged, certificate.unbounded, found.n_iter)


def _run_em(
    spectrum: Spectrum, model: PenaltyModel, *, tol: float, maxiter: int, start: FloatArray | None = None
) -> Modes:
    """Iterate E- and M-steps from t2 = 1 until log t2 and log s2 stand still; finished targets leave.

    An iteration is O(r) for each target.

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
