"""The penalty and what follows from it: one `RidgeFit` for every method."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from pybayesridge._types import BoolArray, FloatArray, IntArray
from pybayesridge.design.design import Design
from pybayesridge.ridge import exact, loocv
from pybayesridge.ridge.accurate import rotate_accurately
from pybayesridge.ridge.em import run_em
from pybayesridge.ridge.exact import Quadrature
from pybayesridge.ridge.grids import make_grid
from pybayesridge.ridge.loocv import GridSearch
from pybayesridge.ridge.mixture import Mixture
from pybayesridge.ridge.prior import BetaPrime, log_scale, log_unit
from pybayesridge.ridge.profile import Modes, Prior, find_modes, penalized_rss, value
from pybayesridge.ridge.spectrum import EPS, Spectrum
from pybayesridge.ridge.trust import (
    expected_loss,
    hides_no_mass,
    hides_no_mode,
    hides_no_score,
    sees_everything,
    sees_nothing_small,
)

Dof = Literal["nu", "paper"]
Parameterization = Literal["tau2", "tau"]

EXACT = 64 * EPS
"""Residuals at most this share of the target are rounding errors: the data are fitted exactly."""

SHARP = 1e-6
"""Singular vectors of squared singular values above this, relative to the largest, are known to ten digits."""

NO_DIGITS = 1e-2
"""Moments with this relative error in the least direction cannot tell it from none."""

DOUBLINGS = 14
"""Most doublings of the nodes of the quadrature."""


@dataclass(frozen=True, slots=True)
class RidgeFit:
    """The outcome of one method for q targets.

    Attributes
    ----------
    spectrum : Spectrum
        The rotation used; another one than went in where its accuracy did not suffice.
    mixture : Mixture
        Posterior of log t2, in rotated units.
    log_t2 : (q,) array
        The t2 reported, in rotated units.
    log_unit : float
        Log of rotated t2 beside the user's.
    sigma2 : (q,) array
        Noise variance reported, in units of each target's squared norm.
    n_modes : (q,) int array or None
        Interior modes of the posterior of t2, where they were counted.
    null : (q,) bool array
        No interior mode: every coefficient is shrunk to zero.
    exact : (q,) bool array
        The target is fitted without error; the penalty is zero.
    unbounded : (q,) bool array
        The density of t2 has no interior mode and does not fall as the penalty vanishes.
    converged : (q,) bool array
    n_iter : int
    quadrature : Quadrature or None
        Where the penalty was integrated out.
    search : GridSearch or None
        Where it was chosen from a grid.
    grid : (L, q) array or None
        That grid, on the user's (standardised) scale.
    lam : (q,) array or None
        The penalty that was given or chosen, to the last digit.
    certain : bool
        Whether no smaller penalty, where the rotation is not accurate, could be better: False only from moments.
    """

    spectrum: Spectrum
    mixture: Mixture
    log_t2: FloatArray
    log_unit: float
    sigma2: FloatArray
    n_modes: IntArray | None
    null: BoolArray
    exact: BoolArray
    unbounded: BoolArray
    converged: BoolArray
    n_iter: int
    quadrature: Quadrature | None = None
    search: GridSearch | None = None
    grid: FloatArray | None = None
    lam: FloatArray | None = None
    certain: bool = True

    @property
    def loss(self) -> float:
        """Relative error, about, that rounding errors of the rotation leave in the fit."""
        return expected_loss(self.spectrum, self.spectrum.nu, self.mixture)


def make_prior(
    design: Design,
    spectrum: Spectrum,
    prior: BetaPrime,
    sigma2: float | None,
    dof: Dof,
    parameterization: Parameterization,
) -> Prior:
    """Everything about the profile that is not in the rotation."""
    return Prior(
        a=prior.a,
        b=prior.b,
        k=(2.0 if parameterization == "tau2" else 1.0) - 2 * prior.a,
        count=float(design.nu if dof == "nu" else design.n),
        log_scale=log_scale(prior, design, spectrum),
        noise=None if sigma2 is None else (np.sqrt(sigma2) / design.y_norm) ** 2,
    )


def fits_exactly(design: Design, spectrum: Spectrum) -> BoolArray:
    """Targets without residual though X does not span everything that Z leaves."""
    tolerance = EXACT * design.y_size
    out: BoolArray = ~design.y_vanishes & (spectrum.rank < design.nu) & (spectrum.rss0 <= tolerance**2)
    return out


def fit_mode(
    design: Design,
    spectrum: Spectrum,
    *,
    prior: BetaPrime,
    sigma2: float | None,
    dof: Dof,
    parameterization: Parameterization,
    tol: float,
    maxiter: int,
    accelerate: bool,
) -> RidgeFit:
    """Penalty at the posterior mode; uncertainty conditional on the mode (paper, equation 6).

    Parameters
    ----------
    design : Design
    spectrum : Spectrum
    prior : BetaPrime
    sigma2 : float or None
        The noise variance where it is known.
    dof, parameterization : str
        See :class:`Prior`.
    tol, maxiter : float, int
        Of the iteration, in log t2.
    accelerate : bool
        One-dimensional root finding instead of plain EM.
    """
    if design.has_rows and sees_nothing_small(design, spectrum):
        spectrum = rotate_accurately(design)
    pr = make_prior(design, spectrum, prior, sigma2, dof, parameterization)
    modes = find_modes(spectrum, pr, tol=tol, maxiter=maxiter if accelerate else 100)
    if not accelerate:
        modes = _em_modes(spectrum, pr, modes, tol, maxiter)
    interior = np.isfinite(modes.log_t2) & ~design.y_vanishes
    smallest_penalty = float(np.exp(-modes.log_t2[interior].max())) if interior.any() else np.inf
    certain = not sees_nothing_small(design, spectrum) and _hides_nothing(spectrum, pr, modes.log_t2)
    if design.has_rows and not (certain and spectrum.trusts(smallest_penalty)):
        return fit_mode(
            design,
            rotate_accurately(design),
            prior=prior,
            sigma2=sigma2,
            dof=dof,
            parameterization=parameterization,
            tol=tol,
            maxiter=maxiter,
            accelerate=accelerate,
        )
    exact = fits_exactly(design, spectrum) & (sigma2 is None)
    log_t2 = np.where(exact, np.inf, modes.log_t2)
    null = np.isneginf(log_t2)
    if pr.noise is None:
        scale2 = penalized_rss(spectrum, log_t2[None])[0] / (pr.count + 2)
        scale2 = np.where(exact | design.y_vanishes, 0.0, scale2)
    else:
        scale2 = pr.noise
    unbounded = modes.unbounded & (modes.n_modes == 0) & ~exact
    return RidgeFit(
        spectrum=spectrum,
        mixture=Mixture(log_t2[None], np.ones((1, design.q)), scale2[None], np.inf),
        log_t2=log_t2,
        log_unit=log_unit(design, spectrum),
        sigma2=scale2,
        n_modes=modes.n_modes,
        null=null,
        exact=exact,
        unbounded=unbounded,
        converged=modes.converged | exact,
        n_iter=modes.n_iter,
        certain=certain,
    )


def _hides_nothing(spectrum: Spectrum, prior: Prior, log_t2: FloatArray) -> bool:
    """Whether no mode, and little that the marginal likelihood integrates, lies where the rotation is inaccurate."""
    if sees_everything(spectrum):
        return True
    if not hides_no_mode(spectrum, prior, log_t2):
        return False
    return exact.is_proper(spectrum, prior) and hides_no_mass(
        spectrum, prior, exact.integrate(spectrum, prior, tol=1e-8, maxiter=14)
    )


def _em_modes(spectrum: Spectrum, prior: Prior, certificate: Modes, tol: float, maxiter: int) -> Modes:
    """Plain EM; where it has found a lower one of several modes it starts again from the highest."""
    found = run_em(spectrum, prior, tol=tol, maxiter=maxiter)
    several = certificate.n_modes > 1
    if several.any():
        start = np.where(several, certificate.log_t2, found.log_t2)
        again = run_em(spectrum, prior, tol=tol, maxiter=maxiter, start=np.where(np.isfinite(start), start, 0.0))
        higher = several & (
            value(spectrum, prior, again.log_t2[None])[0] < value(spectrum, prior, found.log_t2[None])[0]
        )
        found = Modes(
            np.where(higher, again.log_t2, found.log_t2),
            certificate.n_modes,
            np.where(higher, again.converged, found.converged),
            certificate.unbounded,
            found.n_iter + again.n_iter,
        )
    return Modes(found.log_t2, certificate.n_modes, found.converged, certificate.unbounded, found.n_iter)


def fit_fixed(
    design: Design,
    spectrum: Spectrum,
    lam: FloatArray,
    *,
    sigma2: float | None,
    dof: Dof,
) -> RidgeFit:
    """A given penalty; uncertainty conditional on it, the noise variance integrated out.

    Parameters
    ----------
    design : Design
    spectrum : Spectrum
    lam : (q,) array
        Penalties on the user's (standardised) scale.
    sigma2 : float or None
    dof : {"nu", "paper"}

    Raises
    ------
    ValueError
        If a penalty is zero and X has not full column rank.
    """
    unit = log_unit(design, spectrum)
    with np.errstate(divide="ignore"):
        log_t2 = unit - np.log(lam)
    penalty = float(np.exp(-log_t2.max())) if log_t2.size else np.inf
    if design.has_rows and (sees_nothing_small(design, spectrum) or not spectrum.trusts(penalty)):
        return fit_fixed(design, rotate_accurately(design), lam, sigma2=sigma2, dof=dof)
    unknown = spectrum.solver == "moments" and spectrum.loss(0.0) > NO_DIGITS
    if (lam == 0).any() and (spectrum.rank < design.p or unknown):
        raise ValueError(
            "lam=0 needs columns that are linearly independent: the rank is "
            f"{'lower, as far as moments tell,' if unknown else spectrum.rank} for {design.p} "
            "penalised columns; give a positive penalty"
        )
    count = design.nu if dof == "nu" else design.n
    exact = fits_exactly(design, spectrum) & (lam == 0)
    df = np.inf
    if sigma2 is not None:
        scale2 = (np.sqrt(sigma2) / design.y_norm) ** 2
    else:
        df = float(count) if design.nu > 0 else np.inf
        scale2 = penalized_rss(spectrum, log_t2[None])[0] / max(count, 1)
        scale2 = np.where(design.y_vanishes | exact, 0.0, scale2)
    mixture = Mixture(log_t2[None], np.ones((1, design.q)), scale2[None], df)
    nothing = np.zeros(design.q, dtype=bool)
    with np.errstate(invalid="ignore"):
        reported = np.where(scale2 == 0, 0.0, scale2 * mixture.variance_factor)
    return RidgeFit(
        spectrum=spectrum,
        mixture=mixture,
        log_t2=log_t2,
        log_unit=unit,
        sigma2=reported,
        n_modes=None,
        null=nothing,
        exact=exact,
        unbounded=nothing,
        converged=~nothing,
        n_iter=0,
        lam=lam,
    )


def fit_exact(
    design: Design,
    spectrum: Spectrum,
    *,
    prior: BetaPrime,
    sigma2: float | None,
    dof: Dof,
    tol: float,
    maxiter: int,
) -> RidgeFit:
    """The penalty integrated out; see :mod:`pybayesridge.ridge.exact`.

    Targets that Z or X fit exactly have no proper posterior: they get the limits that :func:`fit_mode` gives them.
    Without a penalised column the penalty is infinite.
    """
    if design.has_rows and sees_nothing_small(design, spectrum):
        spectrum = rotate_accurately(design)
    pr = make_prior(design, spectrum, prior, sigma2, dof, "tau2")
    exactly = fits_exactly(design, spectrum) & (sigma2 is None)
    vanishes = design.y_vanishes & (sigma2 is None)
    degenerate = exactly | vanishes
    # Their limits need no quadrature, and the posterior of an exact fit has none.
    proper = replace(spectrum, rss0=np.where(degenerate, 1.0, spectrum.rss0))
    if not exact.is_proper(proper, pr):
        raise ValueError(_improper(design, pr))
    quadrature = exact.integrate(proper, pr, tol=tol, maxiter=maxiter)
    certain = not sees_nothing_small(design, spectrum) and hides_no_mass(proper, pr, quadrature)
    if design.has_rows and not certain:
        return fit_exact(
            design, rotate_accurately(design), prior=prior, sigma2=sigma2, dof=dof, tol=tol, maxiter=maxiter
        )
    mixture = exact.mixture(spectrum, pr, quadrature)
    at_limit = degenerate | (spectrum.p == 0)
    if at_limit.any():
        # One node is enough where no target needs more.
        nodes = slice(0, 1 if at_limit.all() else None)
        weight = mixture.weight[nodes]
        mixture = Mixture(
            np.where(at_limit, np.where(exactly, np.inf, -np.inf), mixture.log_t2[nodes]),
            np.where(at_limit, 1.0 / weight.shape[0], weight),
            np.where(degenerate, 0.0, mixture.scale2[nodes]),
            mixture.df,
            mixture.open_variance,
        )
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
        exact=exactly,
        unbounded=np.zeros(design.q, dtype=bool),
        converged=quadrature.converged | degenerate,
        n_iter=int(quadrature.log_t2.shape[0]),
        quadrature=quadrature,
        certain=certain,
    )


def _improper(design: Design, prior: Prior) -> str:
    extra = design.n - design.nu
    return (
        "the posterior is improper: the penalised columns can fit the response exactly, dof='paper' counts "
        f"{design.n} residual degrees of freedom where the {extra} unpenalised column(s) leave {design.nu}, and "
        f"prior=(a, b) with b={prior.b:g} does not make up for it. Use dof='nu', a prior with b > {extra / 2:g}, or "
        "give sigma2"
    )


def fit_grid(
    design: Design,
    spectrum: Spectrum,
    grid: Any,
    *,
    criterion: Literal["loocv", "gcv"],
    sigma2: float | None,
    dof: Dof,
) -> RidgeFit:
    """The penalty of a grid with the smallest cross-validation score; uncertainty conditional on it.

    Raises
    ------
    ValueError
        For a grid that is none, or rows that leave-one-out cannot predict.
    """
    penalties = make_grid(grid, design, spectrum)
    with np.errstate(divide="ignore"):
        log_t2 = log_unit(design, spectrum) - np.log(penalties)
    smallest = float(np.exp(-log_t2.max()))
    # Without a residual every row's leverage is that of the left singular vectors alone, which the products blur.
    blurred = criterion == "loocv" and spectrum.rank == design.nu and spectrum.smallest < SHARP
    blurred = blurred and spectrum.solver != "svd"
    if design.has_rows and (blurred or sees_nothing_small(design, spectrum) or not spectrum.trusts(smallest)):
        accurate = rotate_accurately(design)
        return fit_grid(design, accurate, grid, criterion=criterion, sigma2=sigma2, dof=dof)
    score = loocv.loo_scores if criterion == "loocv" else loocv.gcv_scores
    found = loocv.search(score(design, spectrum, log_t2), penalties)
    certain = not sees_nothing_small(design, spectrum) and hides_no_score(spectrum, log_t2, found.scores, design.n)
    chosen = np.take_along_axis(penalties, found.best[None], axis=0)[0]
    fit = fit_fixed(design, spectrum, chosen, sigma2=sigma2, dof=dof)
    return replace(fit, search=found, grid=penalties, certain=certain)
