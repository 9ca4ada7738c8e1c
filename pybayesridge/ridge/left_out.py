"""Rows of a ridge predicted from the others, the penalty integrated out or held fixed."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pybayesridge._types import FloatArray
from pybayesridge.design.design import Design
from pybayesridge.linalg import blas
from pybayesridge.posterior.left_out import (
    NO_NOISE,
    LeftOut,
    NoDensityError,
    Noise,
    given_components,
    joined,
    undetermined,
)
from pybayesridge.ridge.likelihood import PenaltyLikelihood
from pybayesridge.ridge.mixture import Mixture
from pybayesridge.ridge.profile import complement, penalized_rss
from pybayesridge.ridge.rows import NEAR, orthonormal, row_pieces
from pybayesridge.ridge.spectrum import Spectrum

ELEMENTS = 1 << 20
"""Numbers held at once of rows at all nodes of the penalty."""


@dataclass(frozen=True, slots=True)
class OneTarget:
    """A ridge of a single target, whose rows are predicted from each other.

    Attributes
    ----------
    design : Design
        With the target in `y`.
    spectrum : Spectrum
    mixture : Mixture
    likelihood : PenaltyLikelihood
    """

    design: Design
    spectrum: Spectrum
    mixture: Mixture
    likelihood: PenaltyLikelihood

    @property
    def noise(self) -> Noise:
        """The noise as the fit treats it."""
        return noise_with(self.mixture.df, self.likelihood)

    def orthonormal(self) -> OneTarget:
        """The same with left singular vectors that are orthonormal to working precision."""
        return replace(self, spectrum=orthonormal(self.design, self.spectrum))


def noise_with(df: float, likelihood: PenaltyLikelihood) -> Noise:
    """The noise where components have so many degrees of freedom."""
    if likelihood.variance is not None:
        known: FloatArray = likelihood.variance[:, None]
        return Noise(likelihood.count, known)
    return Noise(likelihood.count, at_mode=bool(np.isinf(df)))


def rows_left_out(ridge: OneTarget) -> LeftOut:
    """Predictions of every row from the others; O(n r) a node of the penalty.

    Equal to refitting without the row, with the standardisation, the prior and, where the method fixes it, the
    penalty of the fit to all rows. Densities are those of the response on the user's scale.

    Raises
    ------
    NoDensityError
        For a row that has none.
    """
    out, least = _left_out(ridge)
    if least < NEAR:
        out, _ = _left_out(ridge.orthonormal())
    return out.in_units(ridge.design.row_units)


def _left_out(ridge: OneTarget) -> tuple[LeftOut, float]:
    """The predictions in units of the norm of the target, and the least slack of a row."""
    design, spectrum, mixture, noise = ridge.design, ridge.spectrum, ridge.mixture, ridge.noise
    keep = mixture.weight[:, 0] > 0
    weight, log_t2 = mixture.weight[keep, 0], mixture.log_t2[keep, 0]
    f = complement(spectrum.s, log_t2)
    rss = penalized_rss(spectrum, mixture.log_t2)[keep]
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
