"""Components of functionals at the nodes of a single target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pybayesridge._types import FloatArray
from pybayesridge.linalg.low_rank import Product

if TYPE_CHECKING:
    from pybayesridge.ridge.mixture import Functionals


@dataclass(frozen=True, slots=True)
class TargetNodes:
    """The nodes of one target that quantiles are solved for with, and what gives components of functionals.

    Attributes
    ----------
    weight, scale2, outside : (K,) arrays
        Of :class:`Mixture`, and ``scale2 t2``.
    centers, inside : Product
        ``a = V'b`` and ``scale2 / (s_j^2 + 1/t2)`` at each node, (K, r).
    """

    weight: FloatArray
    scale2: FloatArray
    outside: FloatArray
    centers: Product
    inside: Product

    def components(self, f: Functionals) -> tuple[FloatArray, FloatArray]:
        """Centre and scale of every functional at every node, each (K, m)."""
        where = self.centers.times(f.coords.T)
        squared = self.inside.times((f.coords**2).T)
        squared += np.outer(self.scale2, f.leverage)
        beyond = f.outside > 0
        if beyond.any():
            squared[:, beyond] += np.outer(self.outside, f.outside[beyond])
        return where, np.sqrt(squared)
