"""The marginal posterior of l = log t2: s2 integrates out in closed form.

log p(l | y) = -1/2 sum log(1 + t2 s_j^2) - nu/2 log R(l) + a l - (a+b) log(1 + t2) + const
"""

from __future__ import annotations

import numpy as np
from scipy.special import betaln

from pybayesridge._types import BoolArray, FloatArray
from pybayesridge.design.design import Design
from pybayesridge.linalg import blas
from pybayesridge.ridge.likelihood import PenaltyLikelihood
from pybayesridge.ridge.profile import CHUNK, PenaltyModel, at_points, totals
from pybayesridge.ridge.spectrum import Spectrum


def log_density(spectrum: Spectrum, model: PenaltyModel, log_t2: FloatArray) -> FloatArray:
    """Unnormalised log density of l = log t2 at each target's own points, (K, q); the likelihood counts nu."""
    rss, determinant, _ = at_points(spectrum, log_t2)
    return _log_density(model, log_t2, determinant, rss)


def log_likelihood(spectrum: Spectrum, model: PenaltyModel, log_t2: FloatArray) -> FloatArray:
    """Log p(y | t2) up to what :func:`log_marginal` adds, (q,) for `log_t2` (q,)."""
    return log_density(spectrum, model.without_prior, log_t2[None])[0]


def _log_density(model: PenaltyModel, log_t2: FloatArray, determinant: FloatArray, rss: FloatArray) -> FloatArray:
    own_l = log_t2 - model.log_scale
    fit = model.likelihood.marginal(rss)
    out: FloatArray = -0.5 * determinant - fit + model.a * own_l - (model.a + model.b) * np.logaddexp(0.0, own_l)
    return out


def at_nodes(
    spectrum: Spectrum, model: PenaltyModel, log_t2: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Log density, log variance, log R and share that is shrunk away at each target's own points, each (K, q)."""
    rss, determinant, left = at_points(spectrum, log_t2)
    density = _log_density(model, log_t2, determinant, rss)
    with np.errstate(divide="ignore"):
        log_rss = np.log(rss)
    return density, _log_variance(spectrum, model, log_t2, log_rss), log_rss, left


def on_common_grid(
    spectrum: Spectrum, model: PenaltyModel, grid: FloatArray, squares: FloatArray | None = None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Log density, log variance and log R of every target on one grid, each (L, q): a matrix product.

    `squares` are those of z, (r, q), where they are known.
    """
    rss, determinant = np.empty((grid.size, spectrum.z.shape[1])), np.empty((grid.size, 1))
    step, squares = max(1, CHUNK // max(spectrum.rank, 1)), spectrum.z**2 if squares is None else squares
    for start in range(0, grid.size, step):
        rows = slice(start, start + step)
        total, share = totals(spectrum.s, grid[rows])
        determinant[rows, 0] = np.log(total).sum(axis=1)
        rss[rows] = spectrum.rss0 + blas.product(share, squares)
    column = grid[:, None]
    density, log_rss = _log_density(model, column, determinant, rss), np.log(rss)
    return density, _log_variance(spectrum, model, column, log_rss), log_rss


def fall(spectrum: Spectrum, model: PenaltyModel) -> FloatArray:
    """Rate at which the density of l falls as l goes to infinity: as ``exp(-fall l)``, (q,).

    The determinant grows as t2^(r/2). Where X leaves a residual R tends to it; where there is none R falls as 1/t2.
    """
    rate = np.full(spectrum.z.shape[1], model.b + spectrum.rank / 2)
    return rate - model.likelihood.gain(spectrum.rss0)


def is_proper(spectrum: Spectrum, model: PenaltyModel) -> bool:
    """Whether the posterior of every target has a finite integral. As l goes to -infinity it falls with the prior."""
    return bool((fall(spectrum, model) > 0).all())


def _log_variance(spectrum: Spectrum, model: PenaltyModel, log_t2: FloatArray, log_rss: FloatArray) -> FloatArray:
    """Log of the largest variance of a direction given l (K, q) or (K, 1), up to a constant; `log_rss` is (K, q).

    Outside the row space, where that has a mean; else that of the least singular value.
    """
    outside = outside_counts(spectrum, model)
    if not spectrum.rank:
        return np.where(outside, log_t2, np.zeros_like(log_rss))
    inside = log_t2 - np.logaddexp(0.0, log_t2 + 2 * np.log(spectrum.s[-1]))
    out: FloatArray = np.where(outside, log_t2, inside) + model.likelihood.log_noise(log_rss)
    return out


def outside_counts(spectrum: Spectrum, model: PenaltyModel) -> BoolArray:
    """Whether there is a space outside that of the rows, where variances have a mean, (q,)."""
    if spectrum.rank == spectrum.p:
        return np.zeros(spectrum.rss0.shape, dtype=bool)
    no_residual = (spectrum.rss0 == 0) & (not model.likelihood.known)
    out: BoolArray = no_residual | (fall(spectrum, model) > 1)
    return out


def log_marginal(
    log_integral: FloatArray,
    likelihood: PenaltyLikelihood,
    design: Design,
    log_weights: float,
) -> FloatArray:
    """Log p(y), with flat prior 1 on the unpenalised coefficients and 1/s2 on the noise variance.

    The constant of the prior of t2 is not in it. Where the likelihood counts n and not nu, as the paper has it, the
    unpenalised coefficients are maximised over, not integrated out: what is left of the response when they are
    projected out counts as n values.

    Parameters
    ----------
    log_integral : (q,) array
        Of the quadrature, or from :func:`log_likelihood`.
    likelihood : PenaltyLikelihood
    design : Design
    log_weights : float
        Sum of the logs of the weights.
    """
    nu, y_norm = design.nu, design.y_norm
    log_z = 2 * float(np.log(np.abs(np.diag(design.block.r))).sum())
    constant = 0.5 * log_weights if likelihood.maximises_over_z(nu) else -0.5 * log_z + 0.5 * log_weights
    out: FloatArray = log_integral + likelihood.log_constant(nu, y_norm) + constant
    return out


def information(
    spectrum: Spectrum, model: PenaltyModel, log_t2: FloatArray, weight: FloatArray, log_integral: FloatArray
) -> FloatArray:
    """Kullback-Leibler divergence of the posterior of log t2 from its prior, in nats, (q,).

    The nodes `log_t2`, their `weight`, each (K, q), and `log_integral` (q,) are those of the quadrature.
    """
    likelihood = log_density(spectrum, model.without_prior, log_t2)
    evidence = log_integral - float(betaln(model.a, model.b))
    out: FloatArray = (weight * likelihood).sum(axis=0) - evidence
    return np.maximum(out, 0.0)
