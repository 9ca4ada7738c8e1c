"""Marginal posteriors of the hyperparameters, and draws from the joint posterior."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy
from scipy.special import gammaincc

from pybayesridge._types import FloatArray
from pybayesridge.design.design import Design
from pybayesridge.linalg import blas
from pybayesridge.ridge.density import fall, is_proper, log_density
from pybayesridge.ridge.mixture import Mixture
from pybayesridge.ridge.profile import PenaltyModel, penalized_rss, shrinkage
from pybayesridge.ridge.quadrature import NEGLIGIBLE, integrate
from pybayesridge.ridge.quadrature import mixture as mixture_of
from pybayesridge.ridge.spectrum import Spectrum

FINE = 20
"""Points of the distribution function of log t2 for each node."""

MOST_POINTS = 50_000
"""Most points of the distribution function."""

NEWTON_STEPS = 3
"""From an interpolated quantile, which is good to four digits."""

SEEN = 2e-3
"""A picture of the density ends where it has fallen to this share of its maximum."""

POINTS = 401
"""Points of such a picture."""


def points_of_log_t2(mixture: Mixture, target: int) -> FloatArray:
    """Points of log t2 at which its distribution function is made, ascending and equally spaced.

    One point for a fitted penalty.
    """
    first, last, count = ends_of_log_t2(mixture, slice(target, target + 1))[0]
    return np.linspace(first, last, int(count)) if count > 1 else np.array([last])


def ends_of_log_t2(mixture: Mixture, targets: slice = slice(None)) -> FloatArray:
    """The first and the last of the points of each target, and how many there are, (q, 3)."""
    weight, log_t2 = mixture.weight[:, targets], mixture.log_t2[:, targets]
    # Nodes that only the means of t2 and 1/t2 need are no part of the distribution function.
    used = weight > NEGLIGIBLE * weight.max(axis=0)
    count, each = used.sum(axis=0), np.arange(weight.shape[1])
    first, last = log_t2[used.argmax(axis=0), each], log_t2[len(used) - 1 - used[::-1].argmax(axis=0), each]
    several = (count > 1) & (np.isfinite(log_t2) | ~used).all(axis=0)
    first = np.where(several, first, last)
    steps = np.where(several, FINE * (count - 1.0), 0.0)
    if np.isfinite(mixture.df) and several.any():
        # Given t2 the log of the noise variance has standard deviation sqrt(2/nu), and its centre can move as log t2.
        length = np.where(several, last, 0.0) - np.where(several, first, 0.0)
        steps = np.maximum(steps, np.floor(length / (0.25 * np.sqrt(2 / mixture.df))))
    return np.column_stack([first, last, np.minimum(steps, MOST_POINTS) + 1])


def distribution(
    spectrum: Spectrum, model: PenaltyModel, mixture: Mixture, target: int
) -> tuple[FloatArray, scipy.interpolate.PPoly | None]:
    """Points of log t2 and the (unnormalised) posterior distribution function as a spline through them.

    One point and no function for a fitted penalty.
    """
    points = points_of_log_t2(mixture, target)
    if points.size == 1:
        return points, None
    one = model.only(np.array([target]))
    log_p = log_density(_one_target(spectrum, target), one, points[:, None])[:, 0]
    return points, scipy.interpolate.CubicSpline(points, np.exp(log_p - log_p.max())).antiderivative()


def quantiles_of_log_t2(
    spectrum: Spectrum, model: PenaltyModel, mixture: Mixture, target: int, probabilities: FloatArray
) -> FloatArray:
    """Posterior quantiles of log t2, in rotated units: interpolated, then refined by Newton's iteration."""
    points, cdf = distribution(spectrum, model, mixture, target)
    if cdf is None:
        return np.full(probabilities.size, points[0])
    values = cdf(points)
    wanted = probabilities * values[-1]
    out = np.interp(wanted, values, points)
    density = cdf.derivative()
    for _ in range(NEWTON_STEPS):
        out = np.clip(out - (cdf(out) - wanted) / density(out), points[0], points[-1])
    return out


def quantiles_of_sigma2(
    spectrum: Spectrum, model: PenaltyModel, mixture: Mixture, target: int, probabilities: FloatArray
) -> FloatArray:
    """Posterior quantiles of the noise variance, in units of the target's squared norm.

    A mixture of inverse-gamma(nu/2, R/2), or a known number.
    """
    scale2, weight = mixture.scale2[:, target], mixture.weight[:, target]
    if np.isinf(mixture.df) or (scale2 == 0).all():
        return np.full(probabilities.size, scale2[0])
    points, cdf = distribution(spectrum, model, mixture, target)
    if cdf is not None:
        weight = np.asarray(cdf.derivative()(points))
        weight = weight / weight.sum()
        scale2 = penalized_rss(_one_target(spectrum, target), points[:, None])[:, 0] / mixture.df
    shape, rate = mixture.df / 2, scale2 * mixture.df / 2

    def excess(log_s2: float, probability: float) -> float:
        return float(weight @ gammaincc(shape, rate * np.exp(-log_s2)) - probability)

    middle = float(np.log(weight @ scale2))
    out = []
    for probability in probabilities:
        low = high = middle
        while excess(low, probability) > 0 and low > middle - 700:
            low -= 1.0 + 100.0 / mixture.df
        while excess(high, probability) < 0 and high < middle + 700:
            high += 1.0 + 100.0 / mixture.df
        out.append(float(np.exp(scipy.optimize.brentq(excess, low, high, args=(probability,), xtol=1e-12))))
    return np.array(out)


@dataclass(frozen=True, slots=True)
class PenaltyDensity:
    """The posterior of log t2 of one target, for drawing.

    Attributes
    ----------
    log_t2 : (m,) array
        Ascending, in rotated units; all that a picture shows of the density lies between.
    density : (m,) array
        Normalised, with respect to log t2.
    interval : (2,) array
        Equal-tailed, in log t2.
    """

    log_t2: FloatArray
    density: FloatArray
    interval: FloatArray


def penalty_posterior(spectrum: Spectrum, model: PenaltyModel, target: int, alpha: float) -> PenaltyDensity:
    """Posterior of log t2 of one target, integrated anew whatever method the fit used.

    Parameters
    ----------
    spectrum : Spectrum
    model : PenaltyModel
    target : int
    alpha : float
        One minus the probability of the interval.
    """
    one = _one_target(spectrum, target)
    model = model.only(np.array([target]))
    if not is_proper(one, model):
        raise ValueError("the posterior of the penalty is improper with dof='paper': fit with dof='nu'")
    found = integrate(one, model, tol=1e-8, maxiter=14)
    nodes = found.log_t2[:, 0]
    height = log_density(one, model, nodes[:, None])[:, 0] - found.log_integral[0]
    seen = nodes[height > height.max() + np.log(SEEN)]
    points = np.linspace(seen[0], seen[-1], POINTS)
    density = np.exp(log_density(one, model, points[:, None])[:, 0] - found.log_integral[0])
    tails = np.array([alpha / 2, 1 - alpha / 2])
    return PenaltyDensity(points, density, quantiles_of_log_t2(one, model, mixture_of(one, model, found), 0, tails))


def means_of_penalty(model: PenaltyModel, mixture: Mixture) -> FloatArray:
    """Posterior means of ``1 / t2`` in rotated units, (q,): infinite where a <= 1, as then the prior's tail rules."""
    if len(mixture.weight) > 1 and model.a <= 1:
        return np.full(mixture.weight.shape[1], np.inf)
    with np.errstate(over="ignore"):
        return _means(mixture, np.exp(-mixture.log_t2))


def means_of_t2(spectrum: Spectrum, model: PenaltyModel, mixture: Mixture) -> FloatArray:
    """Posterior means of t2 in rotated units, (q,): infinite where the likelihood does not fall fast enough."""
    with np.errstate(over="ignore"):
        out = _means(mixture, np.exp(mixture.log_t2))
    return np.where(fall(spectrum, model) <= 1, np.inf, out) if len(mixture.weight) > 1 else out


def _means(mixture: Mixture, values: FloatArray) -> FloatArray:
    out: FloatArray = np.einsum("kt,kt->t", mixture.weight, values)
    return out


def draw_hyperparameters(
    spectrum: Spectrum, model: PenaltyModel, mixture: Mixture, target: int, size: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Draw log t2 (rotated units) and the noise variance (units of the target's squared norm), each (size,)."""
    points, cdf = distribution(spectrum, model, mixture, target)
    if cdf is None:
        log_t2 = np.full(size, points[0])
    else:
        values = cdf(points)
        log_t2 = np.interp(rng.random(size) * values[-1], values, points)
    if np.isinf(mixture.df) or (mixture.scale2[:, target] == 0).all():
        sigma2 = np.full(size, mixture.scale2[0, target])
    else:
        one = _one_target(spectrum, target)
        rate = 0.5 * penalized_rss(one, log_t2[:, None])[:, 0]
        sigma2 = rate / rng.standard_gamma(mixture.df / 2, size)
    return log_t2, sigma2


def draw(
    design: Design,
    spectrum: Spectrum,
    model: PenaltyModel,
    mixture: Mixture,
    target: int,
    size: int,
    rng: np.random.Generator,
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Draw from the joint posterior of one target: penalty, then noise, then coefficients.

    Returns
    -------
    of_z : (size, k) array
        Unpenalised coefficients, user's scale.
    b : (size, p) array
        Penalised coefficients, user's scale.
    log_t2 : (size,) array
        Rotated units.
    sigma2 : (size,) array
        In units of the target's squared norm.
    """
    log_t2, sigma2 = draw_hyperparameters(spectrum, model, mixture, target, size, rng)
    e = shrinkage(spectrum.s, log_t2)
    a = e * (spectrum.z[:, target] / spectrum.s)
    a += np.sqrt(sigma2[:, None] * e) / spectrum.s * rng.standard_normal((size, spectrum.rank))
    b = spectrum.standardized_coefficients(design, np.ascontiguousarray(a.T))
    if spectrum.rank < design.p:
        with np.errstate(over="ignore", invalid="ignore"):
            spread = np.where(sigma2 == 0, 0.0, np.sqrt(sigma2) * np.exp(log_t2 / 2))
        noise = rng.standard_normal((design.p, size)) * spread
        inside = spectrum.project_rows(design, np.ascontiguousarray(noise.T))
        b += noise - spectrum.standardized_coefficients(design, np.ascontiguousarray(inside.T))
    b *= design.y_norm[target] / (design.scale[:, None] * spectrum.top)
    k = design.block.k
    shift = design.y_on_z[:, [target]] + design.taken_from_z(b)
    if k:
        shift = shift + design.block.regress(rng.standard_normal((k, size)) * np.sqrt(sigma2) * design.y_norm[target])
    return shift.T, b.T, log_t2, sigma2


def draw_rows(
    design: Design,
    spectrum: Spectrum,
    model: PenaltyModel,
    mixture: Mixture,
    target: int,
    size: int,
    rng: np.random.Generator,
) -> tuple[FloatArray, FloatArray]:
    """Draw linear predictors of the rows of the data, (size, n), and noise variances (size,) of one target.

    On the user's scale. From U, which has to be there, and without X.
    """
    log_t2, sigma2 = draw_hyperparameters(spectrum, model, mixture, target, size, rng)
    e = shrinkage(spectrum.s, log_t2)
    fitted = e * spectrum.z[:, target] + np.sqrt(sigma2[:, None] * e) * rng.standard_normal((size, spectrum.rank))
    left = np.zeros((design.n, spectrum.rank)) if spectrum.left is None else spectrum.left
    noise = np.sqrt(sigma2)[:, None] * rng.standard_normal((size, design.block.k))
    weighted = blas.product(fitted, left.T) + blas.product(noise, design.block.q.T)
    if design.block.sqrt_w is not None:
        weighted /= design.block.sqrt_w
    mean = design.block.z @ design.y_on_z[:, target] + weighted * design.y_norm[target]
    return mean, sigma2 * design.y_norm[target] ** 2


def _one_target(spectrum: Spectrum, target: int) -> Spectrum:
    return spectrum.of_targets(np.array([target]))
