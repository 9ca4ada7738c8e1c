"""Anderson acceleration of EP's sweeps: the combination of past sweeps with the least remaining change.

Updating all sites at once overshoots where rows share a direction (a factor below -1 from sweep to sweep) and creeps
where the prior leaves one (a factor close to 1). Both are a few directions, which a few past sweeps span.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from pybayesridge._types import FloatArray
from pybayesridge.sites.gaussian import Sites

DEPTH = 6
"""Past sweeps that are combined."""

FLOOR = 1e-300
"""Precisions below this are this."""

NEAR = 0.3
"""Sweeps are accelerated once all rows together move by no more than this, in posterior standard deviations."""

FARTHEST = 20.0
"""Longest step beside that of a plain sweep: what is longer is not trusted."""


@dataclass(slots=True)
class History:
    """Past sites, as log precisions and shifts side by side, and what a sweep changed in them.

    Attributes
    ----------
    unit : (n,) array or None
        Of precisions that may be negative.
    points, moves : lists of (2 n,) arrays
    """

    unit: FloatArray | None = None
    points: list[FloatArray] = field(default_factory=list)
    moves: list[FloatArray] = field(default_factory=list)

    def next(self, sites: Sites, swept: Sites, variance: FloatArray, share: float, least: int = 1) -> Sites:
        """The sites to try after a sweep.

        Parameters
        ----------
        sites, swept : Sites
            Before and after the sweep.
        variance : (n,) array
            Of the rows' linear predictors: changes count in their posterior standard deviations.
        share : float
            Part of the move that is made.
        least : int
            Past sweeps without which there is no acceleration.
        """
        point, move = self._vector(sites), self._vector(swept)
        move = move - point
        size = np.r_[np.sqrt(np.minimum(np.abs(sites.precision) * variance, 1.0)), np.sqrt(variance)]
        if np.linalg.norm(move * size) > NEAR:
            self.clear()
        self.points.append(point)
        self.moves.append(move)
        del self.points[: -DEPTH - 1], self.moves[: -DEPTH - 1]
        plain = new = point + move if share == 1.0 else self._vector(_mixed(sites, swept, share))
        if len(self.points) > least:
            steps, changes = (np.diff(np.array(a), axis=0).T for a in (self.points, self.moves))
            part = np.linalg.lstsq(changes * size[:, None], move * size, rcond=1e-10)[0]
            new = new - (steps + share * changes) @ part
            if np.linalg.norm((new - point) * size) > FARTHEST * np.linalg.norm(move * size):
                new = plain
        n = sites.precision.size
        return Sites(of_free(new[:n], self.unit), new[n:])

    def _vector(self, sites: Sites) -> FloatArray:
        return np.concatenate([free(sites.precision, self.unit), sites.shift])

    def clear(self) -> None:
        """Forget all."""
        self.points.clear()
        self.moves.clear()


def _mixed(sites: Sites, swept: Sites, share: float) -> Sites:
    """A part of the move, in natural parameters: a precision between the logs of two would not fit the shift."""
    return Sites(
        sites.precision + share * (swept.precision - sites.precision),
        sites.shift + share * (swept.shift - sites.shift),
    )


def free(precision: FloatArray, unit: FloatArray | None) -> FloatArray:
    """Logs of precisions; of those that may be negative a function that is their log where they are above a unit."""
    out: FloatArray = np.log(np.maximum(precision, FLOOR)) if unit is None else np.arcsinh(precision / unit)
    return out


def of_free(values: FloatArray, unit: FloatArray | None) -> FloatArray:
    """The precisions again."""
    out: FloatArray = np.exp(values) if unit is None else unit * np.sinh(values)
    return out
