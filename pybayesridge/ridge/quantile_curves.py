"""Whole quantile functions of mixtures: many probabilities in order, each solved for from where the last one lies.

A table takes some sixty quantiles of every coefficient, each from a sum over hundreds of nodes. Neighbours are close
together, so that one or two Newton steps are enough, and the components' distribution function is read off a table.
Quantiles that do not settle in a few steps are left to the bracketed iteration of :mod:`pybayesridge.ridge.mixture`.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr, ndtri

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.ridge.mixture import (
    ELEMENTS,
    NEGLIGIBLE,
    Functionals,
    Mixture,
    locations,
    quantiles,
    squared_scales,
)
from pybayesridge.ridge.mixture_quantile import mixture_quantile
from pybayesridge.ridge.spectrum import Spectrum
from pybayesridge.ridge.student import Law, tabulated

CLOSE = 1e-3
"""Distance from the probability, in standard normal quantiles, from which one more Newton step is the last."""

LAST_STEP = 1e-2
"""Largest last step, in standard deviations of a normal distribution with the density at the median."""

MAXITER = 6
"""Newton steps for one quantile before it is left to the bracketed iteration."""


def quantile_curves(f: Functionals, spectrum: Spectrum, mixture: Mixture, probabilities: FloatArray) -> FloatArray:
    """Quantiles of every functional at increasing probabilities, (m, q, c); right to 1e-4 standard deviations.

    For tables: :func:`pybayesridge.ridge.mixture.quantiles` solves for single quantiles to all digits.
    """
    if mixture.log_t2.shape[0] == 1:
        return quantiles(f, spectrum, mixture, probabilities)
    q, law = mixture.log_t2.shape[1], tabulated(mixture.df)
    out = np.empty((f.coords.shape[0], q, probabilities.size))
    step = max(1, ELEMENTS // mixture.log_t2.size)
    for start in range(0, f.coords.shape[0], step):
        part = slice(start, start + step)
        piece = Functionals(f.coords[part], f.outside[part], f.leverage[part])
        where, scale = locations(piece, spectrum, mixture), np.sqrt(squared_scales(piece, spectrum, mixture))
        for target in range(q):
            keep = mixture.weight[:, target] > NEGLIGIBLE
            weight = mixture.weight[keep, target]
            mixtures = _Mixtures(where[keep, target], scale[keep, target], weight, mixture.df, law)
            out[part, target] = mixtures.curves(probabilities)
    return out


class _Mixtures:
    """m mixtures of K components with common weights: `where` and `scale` are (K, m)."""

    def __init__(self, where: FloatArray, scale: FloatArray, weight: FloatArray, df: float, law: Law) -> None:
        self.where, self.scale, self.weight, self.df, self.law = where, scale, weight, df, law
        with np.errstate(divide="ignore", over="ignore"):
            self.narrow = 1.0 / scale

    def curves(self, probabilities: FloatArray) -> FloatArray:
        """Quantiles at increasing probabilities, (m, c), from the middle one outwards."""
        normal = ndtri(probabilities)
        out = np.empty((self.where.shape[1], normal.size))
        middle = normal.size // 2
        out[:, middle] = mixture_quantile(self.where, self.scale, self.weight, self.df, float(probabilities[middle]))
        unit = self._slope(out[:, middle], slice(None))[1]
        for towards in (range(middle + 1, normal.size), range(middle - 1, -1, -1)):
            x, slope, before, last = out[:, middle], unit, unit, middle
            for i in towards:
                start = x + (normal[i] - normal[last]) * (1.5 * slope - 0.5 * before)
                before, last = slope, i
                x, slope = self._solve(start, normal[i], unit)
                out[:, i] = x
        return out

    def _solve(self, x: FloatArray, normal: float, unit: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Quantiles at ``ndtr(normal)`` by Newton steps from x, and their derivatives by `normal`."""
        slope = np.zeros(x.size)
        todo = np.arange(x.size)
        for _ in range(MAXITER):
            reached, steep = self._slope(x[todo], todo)
            step = (normal - reached) * steep
            x[todo] += np.where(np.isfinite(step), step, 0.0)
            slope[todo] = steep
            done = (np.abs(normal - reached) <= CLOSE) & (np.abs(step) <= LAST_STEP * unit[todo])
            todo = todo[~done]
            if todo.size == 0:
                return x, slope
        probability = float(ndtr(normal))
        x[todo] = mixture_quantile(self.where[:, todo], self.scale[:, todo], self.weight, self.df, probability)
        slope[todo] = 0.0
        return x, slope

    def _slope(self, x: FloatArray, some: IntArray | slice) -> tuple[FloatArray, FloatArray]:
        """The normal quantile of the probability below x, and the derivative of x by it; nan where there is none."""
        with np.errstate(all="ignore"):
            narrow = self.narrow[:, some]
            cdf, density = self.law((x - self.where[:, some]) * narrow)
            density *= narrow
            reached = ndtri(self.weight @ cdf)
            slope = np.exp(-0.5 * reached**2) / np.sqrt(2 * np.pi) / (self.weight @ density)
        return reached, np.where(np.isfinite(slope), slope, 0.0)
