"""Fits of very many targets: some hundreds at a time, so that arrays over targets and penalties stay small.

The rotation, which all targets share, is made once. Where a part of the targets needs the accurate one, all get it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.design.design import Design
from pybayesridge.linalg.blocks import even_parts
from pybayesridge.ridge.accurate import rotate_accurately
from pybayesridge.ridge.fit import FitOptions, RidgeFit
from pybayesridge.ridge.likelihood import GaussianNoise
from pybayesridge.ridge.loocv import GridSearch
from pybayesridge.ridge.mixture import Mixture
from pybayesridge.ridge.prior import BetaPrime
from pybayesridge.ridge.profile import PenaltyModel, find_modes
from pybayesridge.ridge.quadrature import Quadrature, integrate
from pybayesridge.ridge.spectrum import Spectrum

TARGETS = 512
"""Most targets at once: a quadrature has about 20 kB of nodes for each."""

OF_TARGETS = ("log_t2", "sigma2", "n_modes", "null", "perfect", "unbounded", "converged", "grid", "lam")
"""Fields of a fit whose last axis is that of the targets, or which are None."""

SEARCH = ("scores", "best", "edge")
"""Likewise of the search of a grid."""

FitFunction = Callable[[Design, Spectrum, BetaPrime, GaussianNoise, FitOptions], RidgeFit]


def fit_targets(
    fit: FitFunction,
    design: Design,
    spectrum: Spectrum,
    prior: BetaPrime,
    noise: GaussianNoise,
    options: FitOptions,
) -> RidgeFit:
    """The fit of all targets by the function of a method, in parts where there are many."""
    parts = list(even_parts(design.q, TARGETS))
    if len(parts) == 1:
        return fit(design, spectrum, prior, noise, options)
    found: list[RidgeFit] = []
    for part in parts:
        some = options if options.lam is None else replace(options, lam=options.lam[part])
        found.append(fit(design.of_targets(part), spectrum.of_targets(part), prior, noise, some))
        if found[-1].spectrum.solver != spectrum.solver:
            return fit_targets(fit, design, rotate_accurately(design), prior, noise, options)
    return _joined(found, spectrum)


def _joined(found: list[RidgeFit], spectrum: Spectrum) -> RidgeFit:
    """The fits of consecutive targets as one."""
    quadrature = search = None
    if found[0].quadrature is not None:
        quadrature = _joined_quadratures([each.quadrature for each in found if each.quadrature is not None])
    if found[0].search is not None:
        search = GridSearch(*(_of_all([getattr(each.search, name) for each in found]) for name in SEARCH))
    return replace(
        found[0],
        spectrum=spectrum,
        mixture=_joined_mixtures(found, quadrature),
        n_iter=max(each.n_iter for each in found),
        quadrature=quadrature,
        search=search,
        certain=all(each.certain for each in found),
        **{name: _of_all([getattr(each, name) for each in found]) for name in OF_TARGETS},
    )


def _of_all(parts: list[Any]) -> Any:
    return None if parts[0] is None else np.concatenate(parts, axis=-1)


def _joined_quadratures(found: list[Quadrature]) -> Quadrature:
    return Quadrature(
        _longest([each.log_t2 for each in found]),
        _longest([each.weight for each in found], 0.0),
        *(_of_all([getattr(each, name) for each in found]) for name in ("log_integral", "error", "converged")),
    )


def _joined_mixtures(found: list[RidgeFit], quadrature: Quadrature | None) -> Mixture:
    """One mixture, which shares its nodes with the quadrature where it has the same."""
    mixtures = [each.mixture for each in found]
    scale2 = _longest([each.scale2 for each in mixtures])
    shared = all(each.quadrature is not None and each.mixture.weight is each.quadrature.weight for each in found)
    if quadrature is not None and shared:
        return replace(mixtures[0], log_t2=quadrature.log_t2, weight=quadrature.weight, scale2=scale2)
    log_t2, weight = _longest([each.log_t2 for each in mixtures]), _longest([each.weight for each in mixtures], 0.0)
    # A limit is at all nodes, with the same weight: an infinite node must not be one without weight.
    weight[:, np.isinf(log_t2[-1])] = 1.0 / len(weight)
    return replace(mixtures[0], log_t2=log_t2, weight=weight, scale2=scale2)


def _longest(parts: list[FloatArray], value: float | None = None) -> FloatArray:
    """Arrays (K, some targets) as one; nodes that a part lacks have `value`, or that of its last node."""
    out = np.empty((max(len(each) for each in parts), sum(each.shape[1] for each in parts)))
    start = 0
    for each in parts:
        some = slice(start, start + each.shape[1])
        out[: len(each), some] = each
        out[len(each) :, some] = each[-1] if value is None else value
        start = some.stop
    return out


def count_modes(spectrum: Spectrum, model: PenaltyModel) -> IntArray:
    """Number of interior modes of the posterior of each target, (q,)."""
    parts = even_parts(spectrum.rss0.size, TARGETS)
    found = [find_modes(spectrum.of_targets(part), model.only(part), tol=1e-8, maxiter=100) for part in parts]
    return np.concatenate([each.n_modes for each in found])


def log_integral_of(spectrum: Spectrum, model: PenaltyModel) -> FloatArray:
    """Log of the integral of the posterior of log t2 of each target, (q,)."""
    parts = even_parts(spectrum.rss0.size, TARGETS)
    found = [integrate(spectrum.of_targets(part), model.only(part), tol=1e-8, maxiter=14) for part in parts]
    return np.concatenate([each.log_integral for each in found])
