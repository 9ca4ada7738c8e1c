"""The penalty at its posterior mode: the method "em"."""

from __future__ import annotations

import numpy as np

from pybayesridge._types import FloatArray
from pybayesridge.design.design import Design
from pybayesridge.ridge.accurate import rotate_accurately
from pybayesridge.ridge.density import is_proper
from pybayesridge.ridge.em import run_em
from pybayesridge.ridge.fit import FitOptions, RidgeFit, fits_exactly, penalty_model
from pybayesridge.ridge.likelihood import GaussianNoise
from pybayesridge.ridge.mixture import Mixture
from pybayesridge.ridge.prior import BetaPrime, log_unit
from pybayesridge.ridge.profile import Modes, PenaltyModel, find_modes, penalized_rss, value
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
    found = run_em(spectrum, model, tol=tol, maxiter=maxiter)
    several = certificate.n_modes > 1
    if several.any():
        start = np.where(several, certificate.log_t2, found.log_t2)
        again = run_em(spectrum, model, tol=tol, maxiter=maxiter, start=np.where(np.isfinite(start), start, 0.0))
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
