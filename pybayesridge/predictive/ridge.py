"""Rows of a ridge predicted from the others, the penalty or several integrated out or held fixed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import singledispatch
from typing import Any

import numpy as np

from pybayesridge._types import FloatArray
from pybayesridge.bands.grouped import GroupedPosterior
from pybayesridge.bands.mixed_posterior import MOST_OF_SPLIT, MixedPosterior
from pybayesridge.bands.posterior import BandPosterior
from pybayesridge.design.design import Design
from pybayesridge.linalg import blas
from pybayesridge.linalg.blocks import even_parts
from pybayesridge.predictive.left_out import (
    NO_NOISE,
    LeftOut,
    NoDensityError,
    Noise,
    given_components,
    joined,
    mixed,
    undetermined,
)
from pybayesridge.ridge.likelihood import GaussianNoise, PenaltyLikelihood
from pybayesridge.ridge.mixture import Mixture
from pybayesridge.ridge.posterior import RidgePosterior
from pybayesridge.ridge.profile import complement, penalized_rss
from pybayesridge.ridge.rows import NEAR, orthonormal, row_pieces
from pybayesridge.ridge.spectrum import Spectrum

ELEMENTS = 1 << 20
"""Numbers held at once of rows at all nodes of the penalty."""

AT_ONCE = 1 << 23
"""Likewise where the equations of each node are solved for every part of the rows."""


@singledispatch
def rows_left_out(
    posterior: RidgePosterior | BandPosterior | GroupedPosterior | MixedPosterior, noise: GaussianNoise, target: int
) -> LeftOut:
    """Predictions of every row of one target from the others.

    Equal to refitting without the row, with the standardisation, the prior and, where the method fixes them, the
    penalties of the fit to all rows. Densities are those of the response on the user's scale.

    Parameters
    ----------
    posterior : RidgePosterior, BandPosterior, GroupedPosterior or MixedPosterior
        Normal where the noise variance is known or at its mode.
    noise : GaussianNoise
    target : int

    Raises
    ------
    NoDensityError
        For a row that has none.
    """
    raise TypeError(f"{type(posterior).__name__} predicts no rows from the others")


@rows_left_out.register
def _(posterior: RidgePosterior, noise: GaussianNoise, target: int) -> LeftOut:
    """O(n r) a node of the penalty."""
    only = slice(target, target + 1)
    part, likelihood = posterior.of_targets(only), noise.of(posterior.design).only(only)
    design, spectrum, mixture = part.design.holding_targets(), part.spectrum, part.mixture
    out, least = _left_out(design, spectrum, mixture, likelihood)
    if least < NEAR:
        out, _ = _left_out(design, orthonormal(design, spectrum), mixture, likelihood)
    return on_user_scale(out, design)


@rows_left_out.register
def _(posterior: BandPosterior, noise: GaussianNoise, target: int) -> LeftOut:
    """By a mixture of ridges."""
    parts, weight = posterior.parts, posterior.weight[:, target]
    used = np.flatnonzero(weight > 0)
    found = [rows_left_out(parts[m], noise, target) for m in used.tolist()]
    return mixed(
        weight[used],
        np.stack([each.log_density for each in found]),
        np.stack([each.within for each in found]),
        np.stack([each.pit for each in found if each.pit is not None]),
        np.stack([each.error for each in found if each.error is not None]),
    )


@rows_left_out.register
def _(posterior: GroupedPosterior, noise: GaussianNoise, target: int) -> LeftOut:
    """By the nodes of the target's group."""
    return rows_left_out(posterior.of_target(target), noise, 0)


@rows_left_out.register
def _(posterior: MixedPosterior, noise: GaussianNoise, target: int) -> LeftOut:
    """By the equations of each node."""
    nodes, only = posterior.nodes[target], slice(target, target + 1)
    design = posterior.design.of_targets(only).holding_targets()
    own = noise_with(posterior.df, noise.of(posterior.design).only(only))
    most = max(1, (AT_ONCE if posterior.system.z_apart else MOST_OF_SPLIT) // max(nodes.weight.size, 1))
    pieces = []
    for first, rows, root in _rows_of(posterior, design, most):
        of_z = (design.block.q[first : first + root.size] ** 2).sum(axis=1)
        leverage = np.stack([one.row_variances(rows) for one in posterior.solved(target)]) * root**2
        if posterior.system.z_apart:
            leverage += of_z
        slack = 1.0 - leverage
        slack[:, undetermined(of_z)] = 0.0
        error = design.y[first : first + root.size, 0] - root * posterior.system.centers(nodes.mean, rows)
        error = np.divide(error, slack, out=np.zeros_like(error), where=slack > 0)
        pieces.append(given_components(nodes.weight, error, slack, nodes.rss[:, None], own, first))
    return on_user_scale(joined(pieces), design)


def _rows_of(posterior: MixedPosterior, design: Design, most: int) -> Iterator[tuple[int, Any, FloatArray]]:
    """For parts of the rows: the first, what multiplies the coefficients, and a factor of that for each row (m,)."""
    if posterior.system.z_apart:
        step = max(1, min(most, AT_ONCE // max(design.p, 1)))
        for rows, piece in design.row_pieces():
            for begin in range(0, len(piece), step):
                x = piece[begin : begin + step]
                yield rows.start + begin, x, np.ones(len(x))
        return
    columns = design.x.tocsr()[:, design.columns]
    root = np.ones(design.n) if design.block.sqrt_w is None else design.block.sqrt_w
    for rows in even_parts(design.n, most):
        yield rows.start, posterior.system.rows(design, columns[rows], design.block.z[rows]), root[rows]


def on_user_scale(out: LeftOut, design: Design) -> LeftOut:
    """Densities and errors of the weighted response in units of its norm as those of the response."""
    root = np.ones(design.n) if design.block.sqrt_w is None else design.block.sqrt_w
    unit = design.y_norm[0] / root
    error = None if out.error is None else out.error * unit
    return replace(out, log_density=out.log_density - np.log(unit), within=out.within - np.log(unit), error=error)


def _left_out(
    design: Design, spectrum: Spectrum, mixture: Mixture, likelihood: PenaltyLikelihood
) -> tuple[LeftOut, float]:
    """The predictions of a single target in units of its norm, and the least slack of a row."""
    keep = mixture.weight[:, 0] > 0
    weight, log_t2 = mixture.weight[keep, 0], mixture.log_t2[keep, 0]
    f = complement(spectrum.s, log_t2)
    rss = penalized_rss(spectrum, mixture.log_t2)[keep]
    noise = noise_of(mixture, likelihood)
    if noise.variance is None and not (rss > 0).all():
        raise NoDensityError(None, NO_NOISE)
    fz, step = f * spectrum.z[:, 0], max(ELEMENTS // weight.size, 1)
    pieces, least = [], np.inf
    for piece in row_pieces(design, spectrum):
        for begin in range(0, piece.share.size, step):
            part = slice(begin, min(begin + step, piece.share.size))
            first, u = piece.rows.start + begin, piece.u[part]
            slack = piece.share[part] + blas.product(f, np.ascontiguousarray((u**2).T))
            slack[:, undetermined((design.block.q[first : first + u.shape[0]] ** 2).sum(axis=1))] = 0.0
            least = min(least, float(slack.min(initial=np.inf)))
            error = piece.residual[part, 0] + blas.product(fz, np.ascontiguousarray(u.T))
            error = np.divide(error, slack, out=np.zeros_like(error), where=slack > 0)
            pieces.append(given_components(weight, error, slack, rss, noise, first))
    return joined(pieces), least


def noise_of(mixture: Mixture, likelihood: PenaltyLikelihood) -> Noise:
    """The noise as a fit of a single target treats it."""
    return noise_with(mixture.df, likelihood)


def noise_with(df: float, likelihood: PenaltyLikelihood) -> Noise:
    """The noise where components have so many degrees of freedom."""
    if likelihood.variance is not None:
        known: FloatArray = likelihood.variance[:, None]
        return Noise(likelihood.count, known)
    return Noise(likelihood.count, at_mode=bool(np.isinf(df)))
