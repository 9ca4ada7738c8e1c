"""Draws from the joint posterior with several bands: a node over the shares, then from its ridge."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.ridge import hyperparameters as hyper
from pybayesridge.ridge.explained import LEAST, explained_share, number_of_draws
from pybayesridge.ridge.fit import penalty_model
from pybayesridge.ridge.likelihood import GaussianNoise
from pybayesridge.ridge.posterior import RidgePosterior

if TYPE_CHECKING:
    from pybayesridge.bands.fit import BandFit


@dataclass(frozen=True, slots=True)
class BandDraws:
    """Draws of one target.

    Attributes
    ----------
    of_z : (size, k) array
        Unpenalised coefficients, user's scale.
    b : (size, p) array
        Penalised coefficients, user's scale.
    log_variance : (size, K) array
        Logs of the variances of the bands, on the user's scale of the prior.
    sigma2 : (size,) array
        In units of the target's squared norm.
    correlations : (size, number of pairs) array
        Of effects of the same level.
    """

    of_z: FloatArray
    b: FloatArray
    log_variance: FloatArray
    sigma2: FloatArray
    correlations: FloatArray


def draw(fit: BandFit, noise: GaussianNoise, target: int, size: int, rng: np.random.Generator) -> BandDraws:
    """Draw from the joint posterior of one target."""
    design = fit.posterior.design
    out = BandDraws(
        np.empty((size, design.block.k)),
        np.empty((size, design.p)),
        np.empty((size, fit.count)),
        np.empty(size),
        np.empty((size, 0)),
    )
    total = np.log(fit.size.sum())
    for at, node, part in _nodes(fit, target, size, rng):
        model = penalty_model(part.design, part.spectrum, fit.prior, noise)
        drawn = hyper.draw(part.design, part.spectrum, model, part.mixture, target, at.size, rng)
        out.of_z[at], out.b[at], log_t2, out.sigma2[at] = drawn
        shares = fit.posterior.factors[node] ** 2 * fit.size / fit.size.sum()
        log_w = log_t2 - 2 * np.log(part.spectrum.top) + total if part.spectrum.rank else np.full(at.size, -np.inf)
        out.log_variance[at] = fit.log_variances(shares, log_w)
    return out


def draw_explained(fit: BandFit, noise: GaussianNoise, target: int, rng: np.random.Generator) -> FloatArray:
    """Draws of the share of variance that all bands explain together, for one target."""
    size = max(LEAST, number_of_draws(fit.posterior.spectra[0].rank) // 2)
    out = np.empty(size)
    for at, _, part in _nodes(fit, target, size, rng):
        model = penalty_model(part.design, part.spectrum, fit.prior, noise)
        found = explained_share(part.spectrum, model, part.mixture, target, part.design.n, rng, at.size)
        out[at] = rng.permutation(found)
    return out


def _nodes(
    fit: BandFit, target: int, size: int, rng: np.random.Generator
) -> Iterator[tuple[IntArray, int, RidgePosterior]]:
    """The draws of each node that has some, its position, and its ridge."""
    parts = fit.posterior.parts
    which = rng.choice(len(parts), size=size, p=fit.posterior.weight[:, target])
    for node in np.unique(which).tolist():
        yield np.flatnonzero(which == node), node, parts[node]
