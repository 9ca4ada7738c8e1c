"""A penalty that is given, or chosen from a grid by cross-validation: "fixed", "loocv" and "gcv"."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from pybayesridge._types import FloatArray
from pybayesridge.design.design import Design
from pybayesridge.ridge.accurate import rotate_accurately
from pybayesridge.ridge.fit import FitOptions, RidgeFit, fits_exactly
from pybayesridge.ridge.grids import make_grid
from pybayesridge.ridge.likelihood import GaussianNoise
from pybayesridge.ridge.loocv import gcv_scores, loo_scores, search
from pybayesridge.ridge.mixture import Mixture
from pybayesridge.ridge.prior import BetaPrime, log_unit
from pybayesridge.ridge.profile import penalized_rss
from pybayesridge.ridge.spectrum import Spectrum, sharpened
from pybayesridge.ridge.trust import blurs_variances, hides_no_score, sees_nothing_small

SHARP = 1e-6
"""Singular vectors of squared singular values above this, relative to the largest, are known to ten digits."""

NO_DIGITS = 1e-2
"""Moments with this relative error in the least direction cannot tell it from none."""


@dataclass(frozen=True, slots=True)
class Criterion:
    """Criterion by which the penalties of a grid are compared.

    Attributes
    ----------
    scores : callable
        Of a design, its rotation and penalties (L, q): scores (L, q), the smaller the better.
    leaves_rows_out : bool
        Whether it depends on the left singular vectors, row by row.
    """

    scores: Callable[[Design, Spectrum, FloatArray], FloatArray]
    leaves_rows_out: bool


LEAVE_ONE_OUT = Criterion(loo_scores, leaves_rows_out=True)
GENERALISED = Criterion(gcv_scores, leaves_rows_out=False)


def fit_fixed(
    design: Design,
    spectrum: Spectrum,
    prior: BetaPrime,
    noise: GaussianNoise,
    options: FitOptions,
) -> RidgeFit:
    """A given penalty; uncertainty conditional on it, the noise variance integrated out.

    Parameters
    ----------
    design : Design
    spectrum : Spectrum
    prior : BetaPrime
        Not used.
    noise : GaussianNoise
    options : FitOptions
        With `lam`.

    Raises
    ------
    ValueError
        If a penalty is zero and X has not full column rank.
    """
    if options.lam is None:
        raise AssertionError("a fixed penalty is given")
    lam, unit = options.lam, log_unit(design, spectrum)
    with np.errstate(divide="ignore"):
        log_t2 = unit - np.log(lam)
    penalty = float(np.exp(-log_t2.max())) if log_t2.size else np.inf
    hidden = sees_nothing_small(design, spectrum) or blurs_variances(spectrum, log_t2)
    if design.in_memory and (hidden or not spectrum.trusts(penalty)):
        return fit_fixed(design, rotate_accurately(design), prior, noise, options)
    unknown = spectrum.solver == "moments" and spectrum.loss(0.0) > NO_DIGITS
    if (lam == 0).any() and (spectrum.rank < design.p or unknown):
        raise ValueError(
            "lam=0 needs columns that are linearly independent: the rank is "
            f"{'lower, to the accuracy of moments,' if unknown else spectrum.rank} for {design.p} "
            "penalised columns; give a positive penalty"
        )
    likelihood = noise.of(design)
    perfect = fits_exactly(design, spectrum) & (lam == 0)
    scale2 = likelihood.scale2(penalized_rss(spectrum, log_t2[None])[0])
    if not noise.known:
        scale2 = np.where(design.y_vanishes | perfect, 0.0, scale2)
    df = likelihood.df if design.nu > 0 else np.inf
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
        perfect=perfect,
        unbounded=nothing,
        converged=~nothing,
        n_iter=0,
        lam=lam,
    )


def fit_grid(
    design: Design,
    spectrum: Spectrum,
    prior: BetaPrime,
    noise: GaussianNoise,
    options: FitOptions,
    *,
    criterion: Criterion,
) -> RidgeFit:
    """The penalty of a grid with the smallest cross-validation score; uncertainty conditional on it.

    Parameters
    ----------
    design : Design
    spectrum : Spectrum
    prior : BetaPrime
        Not used.
    noise : GaussianNoise
    options : FitOptions
        With `grid`.
    criterion : Criterion

    Raises
    ------
    ValueError
        For a grid that is none, or rows that leave-one-out cannot predict.
    """
    penalties = make_grid("fixed" if options.grid is None else options.grid, design, spectrum)
    with np.errstate(divide="ignore"):
        log_t2 = log_unit(design, spectrum) - np.log(penalties)
    smallest = float(np.exp(-log_t2.max()))
    # Without a residual every row's leverage is that of the left singular vectors alone, which the products blur.
    blurred = criterion.leaves_rows_out and spectrum.rank == design.nu and spectrum.smallest < SHARP
    blurred = blurred and spectrum.solver != "svd"
    if design.in_memory:
        accurate = not sees_nothing_small(design, spectrum) and spectrum.trusts(smallest)
        if blurred and accurate and spectrum.solver == "gram":
            spectrum, blurred = sharpened(design, spectrum), False
        if blurred or not accurate:
            return fit_grid(design, rotate_accurately(design), prior, noise, options, criterion=criterion)
    found = search(criterion.scores(design, spectrum, log_t2), penalties)
    certain = not (blurred or sees_nothing_small(design, spectrum))
    certain = certain and hides_no_score(spectrum, log_t2, found.scores, design.n)
    chosen = np.take_along_axis(penalties, found.best[None], axis=0)[0]
    fit = fit_fixed(design, spectrum, prior, noise, replace(options, lam=chosen))
    return replace(fit, search=found, grid=penalties, certain=certain)
