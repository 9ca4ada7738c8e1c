"""The share of variance that the penalised columns explain in the sample: its posterior.

With g = X b the fit of the penalised columns (weighted, the unpenalised ones projected out) the share is

    |g|^2 / (|g|^2 + n s2),

the Bayesian R-squared of Gelman, Goodrich, Gabry & Vehtari (2019, The American Statistician) with the model's own
noise variance. In the rotated problem the r coordinates of g given t2 and s2 are independent normals with means
e_j z_j and variances s2 e_j, e_j = s_j^2 / (s_j^2 + 1/t2), so that a draw of the share costs O(r) and forms no
coefficient.
"""

from __future__ import annotations

import numpy as np

from pybayesridge._types import FloatArray
from pybayesridge.ridge.hyperparameters import draw_hyperparameters
from pybayesridge.ridge.mixture import Mixture
from pybayesridge.ridge.profile import CHUNK, PenaltyModel, shrinkage
from pybayesridge.ridge.spectrum import Spectrum

MOST, LEAST = 20_000, 4_000
"""Draws: the standard error of the probability at a 2.5 % quantile is then 0.0011 to 0.0025."""

NORMALS = 1 << 23
"""Beyond this many normal variates fewer draws are made: the more directions, the less each draw varies."""


def number_of_draws(rank: int) -> int:
    """How many draws of the share are made."""
    return max(LEAST, min(MOST, NORMALS // max(rank, 1)))


def explained_share(
    spectrum: Spectrum,
    model: PenaltyModel,
    mixture: Mixture,
    target: int,
    n: int,
    rng: np.random.Generator,
    size: int = 0,
) -> FloatArray:
    """Draws of the share for one target, ascending.

    Parameters
    ----------
    spectrum, model, mixture
        Of the fit.
    target : int
    n : int
        Number of rows.
    rng : numpy.random.Generator
    size : int
        How many draws; by default as many as the accuracy of quantiles requires.
    """
    size = size or number_of_draws(spectrum.rank)
    log_t2, sigma2 = draw_hyperparameters(spectrum, model, mixture, target, size, rng)
    fit = np.empty(size)
    z = spectrum.z[:, target]
    step = max(1, CHUNK // max(spectrum.rank, 1))
    for start in range(0, size, step):
        rows = slice(start, start + step)
        e = shrinkage(spectrum.s, log_t2[rows])
        g = e * z + np.sqrt(sigma2[rows, None] * e) * rng.standard_normal(e.shape)
        fit[rows] = (g**2).sum(axis=1)
    with np.errstate(invalid="ignore"):
        out: FloatArray = np.sort(fit / (fit + n * sigma2))
    return out
