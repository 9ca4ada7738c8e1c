"""The penalty integrated out: the method "exact"."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pybayesridge._types import BoolArray
from pybayesridge.design.design import Design
from pybayesridge.ridge.accurate import rotate_accurately
from pybayesridge.ridge.density import is_proper
from pybayesridge.ridge.fit import FitOptions, RidgeFit, fits_exactly, penalty_model
from pybayesridge.ridge.likelihood import GaussianNoise
from pybayesridge.ridge.mixture import Mixture
from pybayesridge.ridge.prior import BetaPrime, log_unit
from pybayesridge.ridge.profile import PenaltyModel
from pybayesridge.ridge.quadrature import Quadrature, integrate
from pybayesridge.ridge.quadrature import mixture as mixture_of
from pybayesridge.ridge.shared_nodes import integrate_together
from pybayesridge.ridge.spectrum import Spectrum
from pybayesridge.ridge.trust import blurs_variances, hides_no_mass, sees_nothing_small

DOUBLINGS = 14
"""Most doublings of the nodes of the quadrature."""


def fit_integrated(
    design: Design,
    spectrum: Spectrum,
    prior: BetaPrime,
    noise: GaussianNoise,
    options: FitOptions,
) -> RidgeFit:
    """The penalty integrated out; see :mod:`pybayesridge.ridge.quadrature`.

    Targets that Z or X fit exactly have no proper posterior: they get the limits that :func:`fit_mode` gives them.
    Without a penalised column the penalty is infinite.
    """
    if design.in_memory and sees_nothing_small(design, spectrum):
        spectrum = rotate_accurately(design)
    model = penalty_model(design, spectrum, prior, noise)
    perfect = fits_exactly(design, spectrum) & (not noise.known)
    degenerate = perfect | noise.vanishes(design)
    # Their limits need no quadrature, and the posterior of an exact fit has none.
    proper = replace(spectrum, rss0=np.where(degenerate, 1.0, spectrum.rss0)) if degenerate.any() else spectrum
    if not is_proper(proper, model):
        raise ValueError(_improper(design, model))
    quadrature = _quadrature(proper, model, options)
    certain = not sees_nothing_small(design, spectrum) and hides_no_mass(proper, model, quadrature)
    blurred = blurs_variances(spectrum, (quadrature.weight * quadrature.log_t2).sum(axis=0))
    if design.in_memory and (blurred or not certain):
        return fit_integrated(design, rotate_accurately(design), prior, noise, options)
    mixture = _at_limits(mixture_of(spectrum, model, quadrature), spectrum, perfect, degenerate)
    with np.errstate(invalid="ignore"):
        mean_scale2 = (mixture.weight * mixture.scale2).sum(axis=0)
        reported = np.where(mean_scale2 == 0, 0.0, mean_scale2 * mixture.variance_factor)
        log_t2 = (mixture.weight * np.where(mixture.weight > 0, mixture.log_t2, 0.0)).sum(axis=0)
    return RidgeFit(
        spectrum=spectrum,
        mixture=mixture,
        log_t2=log_t2,
        log_unit=log_unit(design, spectrum),
        sigma2=reported,
        n_modes=None,
        null=np.isneginf(log_t2),
        perfect=perfect,
        unbounded=np.zeros(design.q, dtype=bool),
        converged=quadrature.converged | degenerate,
        n_iter=int(quadrature.log_t2.shape[0]),
        quadrature=replace(quadrature, rss=None),
        certain=certain,
    )


def _quadrature(spectrum: Spectrum, model: PenaltyModel, options: FitOptions) -> Quadrature:
    maxiter, found = min(options.maxiter, DOUBLINGS), None
    if options.shared_nodes and spectrum.rss0.size > 1:
        found = integrate_together(spectrum, model, tol=options.tol, maxiter=maxiter, fewest=options.fewest_nodes)
    return integrate(spectrum, model, tol=options.tol, maxiter=maxiter) if found is None else found


def _improper(design: Design, model: PenaltyModel) -> str:
    extra = design.n - design.nu
    return (
        "the posterior is improper: the penalised columns can fit the response exactly, dof='paper' counts "
        f"{design.n} residual degrees of freedom where the {extra} unpenalised column(s) leave {design.nu}, and "
        f"prior=(a, b) with b={model.b:g} does not make up for it. Use dof='nu', a prior with b > {extra / 2:g}, or "
        "give sigma2"
    )


def _at_limits(mixture: Mixture, spectrum: Spectrum, perfect: BoolArray, degenerate: BoolArray) -> Mixture:
    """The mixture with one point for the targets that have a limit and no posterior of the penalty."""
    at_limit = degenerate | (spectrum.p == 0)
    if not at_limit.any():
        return mixture
    # One node is enough where no target needs more.
    nodes = slice(0, 1 if at_limit.all() else None)
    weight = mixture.weight[nodes]
    return Mixture(
        np.where(at_limit, np.where(perfect, np.inf, -np.inf), mixture.log_t2[nodes]),
        np.where(at_limit, 1.0 / weight.shape[0], weight),
        np.where(degenerate, 0.0, mixture.scale2[nodes]),
        mixture.df,
        mixture.open_variance,
    )
