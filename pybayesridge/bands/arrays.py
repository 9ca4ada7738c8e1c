"""Posteriors with several bands as arrays from which their answers are computed again.

Columns of band k are multiplied by ``factors`` of a node over the shares; in the singular vectors of the products the
posterior is that of a ridge. The singular vectors themselves are not there, which would be as many matrices as there
are nodes, but ``base``, whose products are those of the standardised columns: a singular value decomposition of it
gives those of a node. Where effects are correlated there are the equations that all nodes share, and the roots of the
covariances of the effects at each node. Positions count from 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch
from typing import Any

import numpy as np

from pybayesridge._types import FloatArray
from pybayesridge.bands.covariance import Factors, Terms, lower_entries
from pybayesridge.bands.mixed_posterior import MixedPosterior
from pybayesridge.bands.posterior import BandPosterior

NEGLIGIBLE = 1e-15
"""Nodes of smaller weight are left out."""


@singledispatch
def as_arrays(posterior: BandPosterior | MixedPosterior) -> dict[str, Any]:
    """The arrays of a posterior."""
    raise TypeError(f"{type(posterior).__name__} has no arrays")


@as_arrays.register
def _(posterior: BandPosterior) -> dict[str, Any]:
    """The nodes of all ridges together, in units in which the columns are those of the design."""
    weight = np.concatenate(
        [own * part.weight for own, part in zip(posterior.weight, posterior.mixtures, strict=True)]
    )
    keep = (weight > NEGLIGIBLE).any(axis=1)
    of = np.repeat(np.arange(1.0, len(posterior.mixtures) + 1), [len(part.weight) for part in posterior.mixtures])
    units = [2 * np.log(spectrum.top) for spectrum in posterior.spectra]
    log_t2 = [part.log_t2 - unit for part, unit in zip(posterior.mixtures, units, strict=True)]
    return {
        "weight": weight[keep] / weight[keep].sum(axis=0),
        "noise": np.concatenate([part.scale2 for part in posterior.mixtures])[keep],
        "log_t2": np.concatenate(log_t2)[keep],
        "node_of": of[keep],
        "log_unit": 2 * float(np.log(posterior.design.common_scale)),
        "df": float(posterior.df),
        "band": posterior.band + 1.0,
        "factors": posterior.factors,
        **_base(posterior),
    }


def _base(posterior: BandPosterior) -> dict[str, FloatArray]:
    """``base`` and what the responses have on its rows, by the node that treats the bands most alike."""
    spread = np.ptp(np.log(posterior.factors), axis=1)
    part = posterior.parts[int(spread.argmin())]
    spectrum, factor = part.spectrum.with_right(part.design), posterior.factors[int(spread.argmin())]
    assert spectrum.right is not None
    return {
        "base": (spectrum.s * spectrum.top)[:, None] * (spectrum.right / factor[posterior.band, None]).T,
        "z": spectrum.z,
    }


@as_arrays.register
def _(posterior: MixedPosterior) -> dict[str, Any]:
    """The nodes of all targets, each with weights of its own, and the equations that they share."""
    system, terms = posterior.system, posterior.system.terms
    kept = [np.flatnonzero(nodes.weight > NEGLIGIBLE) for nodes in posterior.nodes]
    first = np.cumsum([0, *(at.size for at in kept)])
    weight = np.zeros((first[-1], len(kept)))
    noise = np.zeros_like(weight)
    for i, (nodes, at) in enumerate(zip(posterior.nodes, kept, strict=True)):
        own = slice(first[i], first[i + 1])
        weight[own, i], noise[own, i] = nodes.weight[at] / nodes.weight[at].sum(), nodes.scale2[at]
    factors = [tuple(each[at] for each in nodes.factors) for nodes, at in zip(posterior.nodes, kept, strict=True)]
    return {
        "weight": weight,
        "noise": noise,
        "log_unit": 2 * float(np.log(posterior.design.common_scale)),
        "df": float(posterior.df),
        "gram": system.gram,
        "gram_y": system.xty,
        **entries_of(terms, factors),
    }


def entries_of(terms: Terms, factors: Sequence[Factors]) -> dict[str, FloatArray]:
    """The bands of the columns, and the roots of the covariances of effects at the nodes of each target in turn."""
    entries = lower_entries(terms)
    band = np.empty(sum(columns.size for columns in terms.columns))
    for bands, columns in zip(terms.bands, terms.columns, strict=True):
        for k, at in zip(bands, columns, strict=True):
            band[at] = k + 1.0
    return {
        "band": band,
        "entries": np.concatenate([np.stack([own[t][:, i, j] for t, i, j in entries], axis=1) for own in factors]),
        "entry_row": np.array([terms.bands[t][i] + 1.0 for t, i, _ in entries]),
        "entry_column": np.array([terms.bands[t][j] + 1.0 for t, _, j in entries]),
    }
