"""Columns in bands: the data of a ridge with a penalty for each, and the ridges with one penalty that it consists of.

    b_k ~ N(0, s2 t_k I),   w_k = t_k |X_k|^2 / n,   w = sum_k w_k,   phi_k = w_k / w

X_k being the columns of band k, weighted, standardised, Z projected out. Given the shares phi, the columns of band k
times ``c_k = sqrt(S phi_k / s_k)``, with ``s_k = |X_k|^2 / n`` and ``S = sum_k s_k``, share one penalty, that of an
ordinary ridge whose columns have the same S: its t2 is w / S.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pybayesridge._types import BoolArray, FloatArray, IntArray
from pybayesridge.design.crossproducts import CrossProducts
from pybayesridge.design.design import Design
from pybayesridge.linalg import blas
from pybayesridge.ridge.prior import BetaPrime
from pybayesridge.ridge.spectrum import CANCELLED, Spectrum, rotate

LEAST_SHARE = 1e-12
"""A band with a smaller share of the total is given this one: no number that is reported feels the difference."""


class EmptyBandError(ValueError):
    """A band, by its position, in which nothing varies."""

    def __init__(self, band: int) -> None:
        self.band = band
        super().__init__(f"band {band} has no column that varies")


@dataclass(frozen=True, slots=True)
class BandProblem:
    """The data, with what ridges with one penalty are made from at any shares of the bands.

    Attributes
    ----------
    design : Design
        Its columns on the scale of the prior.
    band : (p,) int array
        The band of each penalised column that varies.
    products : tuple of arrays
        X'X (p, p) if there is `xty`; else for each band its XX' (n, n). Lower triangles.
    xty : (p, q) array or None
    first : CrossProducts
        Of the design; what depends on the shares is replaced.
    size : (K,) array
        ``s_k``: the mean square of the fit of a band whose coefficients are independent with variance 1.
    """

    design: Design
    band: IntArray
    products: tuple[FloatArray, ...]
    xty: FloatArray | None
    first: CrossProducts
    size: FloatArray

    @classmethod
    def of(cls, design: Design, products: CrossProducts, band: IntArray, own_scale: BoolArray) -> BandProblem:
        """The problem of a design.

        Parameters
        ----------
        design : Design
        products : CrossProducts
            Of its columns.
        band : (p,) int array
        own_scale : (p,) bool array
            Columns whose prior is on their own scale, whatever the design's is.

        Raises
        ------
        EmptyBandError
            For a band without a column that varies.
        """
        own = own_scale & design.standardized_columns
        scale = np.where(own, 1.0, design.scale)
        factor = design.scale / scale
        design = replace(design, scale=scale)
        count = int(band.max(initial=-1)) + 1
        empty = np.flatnonzero(np.bincount(band, minlength=count) == 0)
        if empty.size:
            raise EmptyBandError(int(empty[0]))
        if products.side == "gram":
            assert products.xty is not None
            square = np.asfortranarray(products.product * factor[:, None] * factor)
            xty = products.xty * factor[:, None]
            norms = np.bincount(band, weights=np.diag(square), minlength=count)
            return cls(design, band, (square,), xty, products, norms / design.n)
        if count == 1 and (factor == 1.0).all():
            size = np.array([np.trace(products.product)]) / design.n
            return cls(design, band, (products.product,), None, products, size)
        squares = [np.zeros((design.n, design.n), order="F") for _ in range(count)]
        for part, piece in design.column_pieces():
            of_piece = band[part]
            for k in np.unique(of_piece):
                some = np.ascontiguousarray(piece[:, of_piece == k])
                squares[k] = blas.add_square(squares[k], some, transposed=False)
        size = np.array([np.trace(square) for square in squares]) / design.n
        return cls(design, band, tuple(squares), None, products, size)

    @property
    def count(self) -> int:
        """Number of bands K."""
        return int(self.size.size)

    @property
    def total(self) -> float:
        """``S``: the mean square of the fit of all columns with coefficients of variance 1."""
        return float(self.size.sum())

    def of_targets(self, which: IntArray | slice) -> BandProblem:
        """The same of some of the targets."""
        xty = None if self.xty is None else self.xty[:, which]
        return replace(self, design=self.design.of_targets(which), xty=xty)

    def factors(self, shares: FloatArray) -> FloatArray:
        """``c_k`` at shares (K,)."""
        return factors_of(self.size, shares)

    def at(self, shares: FloatArray, cancelled: float = CANCELLED) -> tuple[Design, Spectrum]:
        """The design and the rotation of the ridge at shares (K,); `cancelled` as of :func:`rotate`."""
        factor = self.factors(shares)
        of_column, design = factor[self.band], self._design(factor)
        if self.xty is not None:
            product = self.products[0] * of_column
            product *= of_column[:, None]
            xty: FloatArray | None = self.xty * of_column[:, None]
        else:
            product, xty = np.zeros(self.products[0].shape, order="F"), None
            for square, own in zip(self.products, factor, strict=True):
                product += own**2 * square
        return design, rotate(design, replace(self.first, product=product, xty=xty, scale=design.scale), cancelled)

    def _design(self, factor: FloatArray) -> Design:
        """The design of a ridge whose columns are times the factor of their band, (K,)."""
        return replace(self.design, scale=self.design.scale / factor[self.band], standardized_columns=True)

    def without_least(self, shares: FloatArray, least: float, cancelled: float) -> tuple[Design, Spectrum]:
        """As :meth:`at`, but the rotation is that of the bands with a share above the `least`: as if others had none.

        Of fewer columns it takes less time. It needs X'X.
        """
        kept = np.flatnonzero(shares[self.band] > least)
        if self.xty is None or kept.size in (0, self.band.size):
            return self.at(shares, cancelled)
        part = replace(
            self,
            design=self.design.of_columns(kept),
            band=self.band[kept],
            products=(np.asfortranarray(self.products[0][np.ix_(kept, kept)]),),
            xty=self.xty[kept],
        )
        found = part.at(shares, cancelled)[1]
        assert found.right is not None
        right = np.zeros((self.band.size, found.rank), order="F")
        right[kept] = found.right
        return self._design(self.factors(shares)), replace(found, right=right)

    def prior(self, prior: BetaPrime) -> BetaPrime:
        """The prior of the ridges at any shares, whose columns have no common divisor."""
        if prior.scale is None:
            return prior
        return replace(prior, scale=prior.scale * self.design.common_scale**2)


def factors_of(size: FloatArray, shares: FloatArray) -> FloatArray:
    """``c_k`` at shares (K,) of bands whose ``s_k`` are `size` (K,)."""
    out: FloatArray = np.sqrt(size.sum() * np.maximum(shares, LEAST_SHARE) / size)
    return out
