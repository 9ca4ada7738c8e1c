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

from pybayesridge._types import FloatArray
from pybayesridge.compiled.library import library

TERMS = ((30.0, 6.0, 6), (2.0, 12.0, 16), (0.0, np.inf, 64))
"""From so large a b, and up to so large a |c|, so many terms of the sum are drawn one by one: the first that fits."""

LARGEST = 1e100
"""From this |c| on there are no draws: powers of it overflow."""

SMALL = 0.05
"""Below this |c| the moments are by their series, where the closed form of the variance cancels."""


def polya_gamma(b: FloatArray, c: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Draw PG(b, c) for positive b (n,) and any c (n,)."""
    out = np.empty(b.size)
    single = b == 1.0
    if single.any():
        out[single] = _by_rejection(c[single], rng)
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


def _by_rejection(c: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Draw PG(1, c), in compiled code, whose loops do not end where c is no number, or its square infinite."""
    if not (np.abs(c) < LARGEST).all():
        raise ValueError("a linear predictor leaves the range of floats: rescale the columns, or look for outliers")
    c, out = np.ascontiguousarray(c), np.empty(c.size)
    random = rng.integers(0, 2**64, 4, dtype=np.uint64)
    library().polya_gamma(c.ctypes.data, c.size, random.ctypes.data, out.ctypes.data)
    return out
