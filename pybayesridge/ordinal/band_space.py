"""Coordinates of cut points and linear predictor with several penalties."""

from __future__ import annotations

from dataclasses import dataclass

from pybayesridge.sites.bands import BandSpace


@dataclass(frozen=True, slots=True)
class CutBandSpace(BandSpace):
    """The sites' linear functions in distances of cut points and the columns of all bands.

    Attributes
    ----------
    rows : (N, e + k + p) array, Fortran order
        Of the sites; see :mod:`pybayesridge.ordinal.space`.
    k : int
        Number of flat coordinates, the distances among them.
    distances : int
        e, of K categories K - 2; they come first.
    """

    distances: int = 0
