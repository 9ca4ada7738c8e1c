"""How many columns are in: the distribution of a sum of independent inclusions, of columns or of groups."""

from __future__ import annotations

import numpy as np

from pybayesridge._types import FloatArray, IntArray

TAIL_SD = 12.0
"""Beyond this many standard deviations (and a constant) above the mean there is no probability worth a number."""

TAIL_COUNT = 40


def poisson_binomial(probability: FloatArray, sizes: IntArray | None = None) -> FloatArray:
    """Distribution of a sum of independent trials, by the exact recursion over the trials.

    Parameters
    ----------
    probability : (p,) array
    sizes : (p,) int array, optional
        What each trial adds if it succeeds; 1 by default: the number of successes.

    Returns
    -------
    (m,) array
        Probabilities of 0, 1, … m - 1; of more there is less than 1e-15 (Bernstein's inequality).
    """
    size = np.ones(probability.size, dtype=np.intp) if sizes is None else sizes
    mean = float(probability @ size)
    sd = float(np.sqrt((probability * (1 - probability)) @ size**2))
    top = int(min(size.sum(), np.ceil(mean + TAIL_SD * sd) + TAIL_COUNT * size.max(initial=0)))
    out = np.zeros(top + 1)
    out[0] = 1.0
    for p, step in zip(probability, size, strict=True):
        if p > 0:
            moved = out[: max(top + 1 - step, 0)] * p
            out *= 1 - p
            out[step:] += moved
    return out


def size_distribution(probabilities: FloatArray, weights: FloatArray, sizes: IntArray | None = None) -> FloatArray:
    """Mixture of such distributions: of the rows of `probabilities` (g, p), with `weights` (g,)."""
    parts = [poisson_binomial(row, sizes) for row in probabilities]
    out = np.zeros(max(part.size for part in parts))
    for part, weight in zip(parts, weights, strict=True):
        out[: part.size] += weight * part
    return out
