"""How many columns are in: the Poisson-binomial distribution of independent inclusions."""

from __future__ import annotations

import numpy as np

from pybayesridge._types import FloatArray

TAIL_SD = 12.0
"""Beyond this many standard deviations (and a constant) above the mean there is no probability worth a number."""

TAIL_COUNT = 40


def poisson_binomial(probability: FloatArray) -> FloatArray:
    """Distribution of the number of successes of independent trials, by the exact recursion over the trials.

    Parameters
    ----------
    probability : (p,) array

    Returns
    -------
    (m,) array
        Probabilities of 0, 1, … m - 1; of more there is less than 1e-15 (Bernstein's inequality).
    """
    mean = float(probability.sum())
    sd = float(np.sqrt((probability * (1 - probability)).sum()))
    top = int(min(probability.size, np.ceil(mean + TAIL_SD * sd) + TAIL_COUNT))
    out = np.zeros(top + 1)
    out[0] = 1.0
    for p in probability[probability > 0]:
        out[1:] = out[1:] * (1 - p) + out[:-1] * p
        out[0] *= 1 - p
    return out


def size_distribution(probabilities: FloatArray, weights: FloatArray) -> FloatArray:
    """Mixture of Poisson-binomial distributions: of the rows of `probabilities` (g, p), with `weights` (g,)."""
    parts = [poisson_binomial(row) for row in probabilities]
    out = np.zeros(max(part.size for part in parts))
    for part, weight in zip(parts, weights, strict=True):
        out[: part.size] += weight * part
    return out
