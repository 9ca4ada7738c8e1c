"""Draws of Pólya-Gamma variables PG(b, c).

PG(b, c) (Polson, Scott & Windle 2013, JASA 108, "Bayesian inference for logistic models using Pólya-Gamma latent
variables") is the law of ``sum_k g_k / (2 pi² ((k - 1/2)² + c²/(4 pi²)))`` over k = 1, 2, ..., with independent g_k
from Gamma(b, 1). PG(1, c) is drawn exactly, by the rejection method of the paper (Devroye's). Of other b the first
terms of the sum are drawn, and the rest is replaced by a gamma variable with its mean and variance. Nothing else is
approximate.

How many terms are needed depends on how far a linear predictor can move in one step, given the variable w that was
drawn: about 1 / sqrt(w), which is small where there are many trials. From c to d the logarithm of the ratio of the
densities that the step rests on is off by the error of the log Laplace transform at ``(d² - c²) / 2``. With the
numbers of `TERMS` this is below 1e-4 where d is within three standard deviations of c, and below 2e-3 within seven.
"""

from __future__ import annotations

import numpy as np
from scipy.special import log_ndtr

from pybayesridge._types import FloatArray

TERMS = ((30.0, 6.0, 6), (2.0, 12.0, 16), (0.0, np.inf, 64))
"""From so large a b, and up to so large a |c|, so many terms of the sum are drawn one by one: the first that fits."""

CUT = 0.64
"""Where the two series of the density of ``4 PG(1, c)`` meet: the paper's t."""

SMALL = 0.05
"""Below this |c| the moments are by their series, where the closed form of the variance cancels."""


def polya_gamma(b: FloatArray, c: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Draw PG(b, c) for positive b (n,) and any c (n,)."""
    out = np.empty(b.size)
    single = b == 1.0
    if single.any():
        out[single] = _devroye(0.5 * np.abs(c[single]), rng)
    if not single.all():
        out[~single] = _by_terms(b[~single], c[~single], rng)
    return out


def moments(b: FloatArray, c: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and variance of PG(b, c)."""
    size = np.abs(c)
    small, square = size < SMALL, size**2
    safe = np.where(small, 1.0, size)
    half = np.tanh(0.5 * safe)
    mean = np.where(
        small, 1 / 4 - square * (1 / 48 - square * (1 / 480 - square * (17 / 80640))), half / (2.0 * safe)
    )
    # sinh(c) - c over 4 c³ cosh²(c/2), with sinh(c) / cosh²(c/2) = 2 tanh(c/2).
    variance = np.where(
        small,
        1 / 24 - square * (1 / 120 - square * (17 / 13440 - square * (31 / 181440))),
        (2.0 * half - safe * (1.0 - half**2)) / (4.0 * safe**3),
    )
    return b * mean, b * variance


def tail(b: FloatArray, c: FloatArray, terms: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Scales of the first terms, (terms, n), and shape and scale of the gamma variable for the others."""
    k = np.arange(1, terms + 1)[:, None] - 0.5
    scale = 1.0 / (2.0 * np.pi**2 * (k**2 + (c / (2.0 * np.pi)) ** 2))
    mean, variance = moments(b, c)
    # What rounding leaves of the differences is bounded by the first term that is not drawn.
    floor = b * scale[-1]
    mean = np.maximum(mean - b * scale.sum(axis=0), floor)
    variance = np.maximum(variance - b * (scale**2).sum(axis=0), floor * scale[-1])
    return scale, mean**2 / variance, variance / mean


def _by_terms(b: FloatArray, c: FloatArray, rng: np.random.Generator) -> FloatArray:
    out, todo = np.empty(b.size), np.ones(b.size, dtype=bool)
    for least, most, terms in TERMS:
        own = todo & (b >= least) & (np.abs(c) <= most)
        todo &= ~own
        if own.any():
            out[own] = _by_so_many(b[own], c[own], terms, rng)
    return out


def _by_so_many(b: FloatArray, c: FloatArray, terms: int, rng: np.random.Generator) -> FloatArray:
    scale, shape, unit = tail(b, c, terms)
    drawn: FloatArray = rng.standard_gamma(np.broadcast_to(b, scale.shape))
    out: FloatArray = np.einsum("kn,kn->n", scale, drawn) + unit * rng.standard_gamma(shape)
    return out


def _devroye(z: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Draw PG(1, 2 z), z >= 0, by rejection from an exponential tail and a truncated inverse Gaussian law."""
    rate = np.pi**2 / 8.0 + 0.5 * z**2
    log_tail = np.log(0.5 * np.pi / rate) - rate * CUT
    root = 1.0 / np.sqrt(CUT)
    log_body = np.log(2.0) + np.logaddexp(
        -z + log_ndtr(root * (CUT * z - 1.0)), z + log_ndtr(-root * (CUT * z + 1.0))
    )
    in_tail = 1.0 / (1.0 + np.exp(np.clip(log_body - log_tail, -700.0, 700.0)))
    out, todo = np.empty(z.size), np.arange(z.size)
    while todo.size:
        right = rng.random(todo.size) < in_tail[todo]
        x = np.empty(todo.size)
        x[right] = CUT + rng.standard_exponential(int(right.sum())) / rate[todo[right]]
        x[~right] = _truncated_inverse_gaussian(z[todo[~right]], rng)
        good = _below_density(x, rng)
        out[todo[good]] = x[good]
        todo = todo[~good]
    return 0.25 * out


def _truncated_inverse_gaussian(z: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Draw the inverse Gaussian law of mean 1 / z and shape 1, given that it is below `CUT`."""
    out = np.empty(z.size)
    todo = np.flatnonzero(z * CUT < 1.0)
    while todo.size:
        first, second = rng.standard_exponential((2, todo.size))
        x = CUT / (1.0 + CUT * first) ** 2
        good = (first**2 <= 2.0 * second / CUT) & (rng.random(todo.size) <= np.exp(-0.5 * z[todo] ** 2 * x))
        out[todo[good]] = x[good]
        todo = todo[~good]
    todo = np.flatnonzero(z * CUT >= 1.0)
    while todo.size:
        mean = 1.0 / z[todo]
        y = mean * rng.standard_normal(todo.size) ** 2
        # The smaller root, without cancellation.
        x = mean / (1.0 + 0.5 * y + np.sqrt(y + 0.25 * y**2))
        other = rng.random(todo.size) > mean / (mean + x)
        x = np.where(other, mean**2 / x, x)
        good = x < CUT
        out[todo[good]] = x[good]
        todo = todo[~good]
    return out


def _below_density(x: FloatArray, rng: np.random.Generator) -> np.ndarray:
    """Accept x where a uniform share of the first term lies below the alternating series of the density."""
    total = _term(0, x)
    level = rng.random(x.size) * total
    accepted, open_ = np.zeros(x.size, dtype=bool), np.arange(x.size)
    n = 0
    while open_.size:
        n += 1
        step = _term(n, x[open_])
        if n % 2:
            total[open_] -= step
            done = level[open_] <= total[open_]
            accepted[open_[done]] = True
        else:
            total[open_] += step
            done = level[open_] > total[open_]
        open_ = open_[~done]
    return accepted


def _term(n: int, x: FloatArray) -> FloatArray:
    half = n + 0.5
    with np.errstate(under="ignore"):
        left = (2.0 / (np.pi * x)) ** 1.5 * np.exp(-2.0 * half**2 / x)
        right = np.exp(-0.5 * half**2 * np.pi**2 * x)
    out: FloatArray = np.pi * half * np.where(x <= CUT, left, right)
    return out
