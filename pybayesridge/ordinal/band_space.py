"""Coordinates of cut points and linear predictor with several penalties; see :mod:`pybayesridge.ordinal.space`.

Rows are those of the sites, and the distances of cut points come first among the k flat coordinates.
"""

from __future__ import annotations

from dataclasses import dataclass

from pybayesridge.sites.arrow_bands import ArrowSpace
from pybayesridge.sites.bands import BandSpace


@dataclass(frozen=True, slots=True)
class CutBandSpace(BandSpace):
    """The sites' linear functions in distances of cut points and the columns of all bands.

    Attributes
    ----------
    distances : int
        e, of K categories K - 2.
    """

    distances: int = 0


@dataclass(frozen=True, slots=True)
class CutArrowSpace(ArrowSpace):
    """The same, where one of the bands is a factor with very many levels.

    Attributes
    ----------
    distances : int
        e, of K categories K - 2.
    """

    distances: int = 0
