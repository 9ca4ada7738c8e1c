"""Ridges some of whose effects are correlated: the data, in bands and sets of these."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pybayesridge._types import BoolArray, FloatArray, IntArray
from pybayesridge.bands.covariance import CovarianceCoordinates, Terms
from pybayesridge.bands.eliminated import Eliminated
from pybayesridge.bands.fit import ExactFitError
from pybayesridge.bands.problem import EmptyBandError
from pybayesridge.bands.system import System, answer
from pybayesridge.design.design import Design
from pybayesridge.ridge.likelihood import GaussianNoise
from pybayesridge.ridge.prior import BetaPrime
from pybayesridge.ridge.spectrum import EPS

LARGE = 1e9
"""A total of a band at which its columns are as good as unpenalised."""

FAR = 0.99
"""Squared cosine of the columns of two effects above which the prior of their correlation says nothing sensible."""

EXACT = 1e-12
"""Columns that leave a smaller share of the sum of squares of y fit it exactly."""


@dataclass(frozen=True, slots=True)
class MixedProblem:
    """The data of a ridge some of whose effects are correlated.

    Attributes
    ----------
    design : Design
        Its columns on the scale of the prior.
    system : System
    """

    design: Design
    system: System | Eliminated

    @classmethod
    def of(
        cls,
        design: Design,
        band: IntArray,
        own_scale: BoolArray,
        sets: tuple[tuple[int, ...], ...],
        eliminated: int | None = None,
    ) -> MixedProblem:
        """The problem of a design.

        Parameters
        ----------
        design : Design
        band : (p,) int array
            The band of each column.
        own_scale : (p,) bool array
            Columns whose prior is on their own scale, whatever the design's is.
        sets : tuple of tuples of int
            Bands whose coefficients of the same level are correlated; they have equally many columns, in one order.
        eliminated : int or None
            The band that is eliminated, of a design with sparse columns; see :class:`Eliminated`.

        Raises
        ------
        EmptyBandError
            For a band without a column that varies.
        """
        own = own_scale & design.standardized_columns
        design = replace(design, scale=np.where(own, 1.0, design.scale))
        count = int(band.max(initial=-1)) + 1
        alone = sorted(set(range(count)) - {k for each in sets for k in each})
        bands = [*sets, *((k,) for k in alone)]
        columns = [np.stack([np.flatnonzero(band == k) for k in each]) for each in bands]
        system: System | Eliminated
        if eliminated is None:
            system = System.of(design, bands, columns)
        else:
            system = Eliminated.of(design, bands, columns, eliminated)
        empty = np.flatnonzero(~(system.terms.size > 0))
        if empty.size:
            raise EmptyBandError(int(empty[0]))
        return cls(design, system)

    @property
    def terms(self) -> Terms:
        """Which columns belong together."""
        return self.system.terms

    @property
    def log_unit(self) -> float:
        """What logs of variances are larger by than on the user's scale of the prior."""
        return 2 * float(np.log(self.design.common_scale))

    def of_target(self, target: int) -> MixedProblem:
        """The same of one target, which is held."""
        only = slice(target, target + 1)
        design = self.design.of_targets(only).holding_targets()
        return MixedProblem(design, replace(self.system, xty=self.system.xty[:, only]))

    def coordinates(self, prior: BetaPrime, noise: float = 1.0) -> CovarianceCoordinates:
        """Coordinates of the variances under a prior of the total relative to a variance of the noise."""
        terms = self.terms
        log_unit = float(np.log(noise))
        if prior.scale is not None:
            log_unit = float(np.log(terms.size.sum() * prior.scale)) + self.log_unit
        scale = np.empty(terms.count)
        for bands, columns, cross in zip(terms.bands, terms.columns, terms.cross, strict=True):
            for i, band in enumerate(bands):
                scale[band] = noise * np.sqrt(2) * cross[i, i] / self.system.strength(columns[i])
        return CovarianceCoordinates.of(terms, prior.a, prior.b, log_unit, scale)

    @property
    def far_from_zero(self) -> list[tuple[int, int]]:
        """Pairs of bands whose columns are so nearly multiples of each other that correlations mean little."""
        out = []
        for bands, cross in zip(self.terms.bands, self.terms.cross, strict=True):
            for i in range(1, len(bands)):
                for j in range(i):
                    if cross[i, j] ** 2 > FAR * cross[i, i] * cross[j, j]:
                        out.append((bands[j], bands[i]))
        return out

    def refuse_exact(self, noise: GaussianNoise) -> None:
        """Refuse targets that Z or some columns fit exactly."""
        exact = noise.vanishes(self.design)
        if isinstance(self.system, Eliminated):
            if self.design.p < self.design.nu and not noise.known:
                exact |= [self._left_at_most(target) <= EXACT for target in range(self.design.q)]
            if exact.any():
                raise ExactFitError(exact)
            return
        values, vectors = np.linalg.eigh(self.system.gram)
        keep = values > values[-1] * EPS * 64 * max(self.design.n, values.size)
        if keep.sum() < self.design.nu and not noise.known:
            z = vectors[:, keep].T @ self.system.xty
            left = 1.0 - (z**2 / values[keep, None]).sum(axis=0)
            near = np.flatnonzero(left < 1e-6)
            for target in near.tolist():
                b = vectors[:, keep] @ (z[:, [target]] / values[keep, None])
                one = self.design.of_targets(slice(target, target + 1)).holding_targets()
                rest = one.y - self.design.times(b)
                exact[target] |= float((rest**2).sum()) <= EXACT
        if exact.any():
            raise ExactFitError(exact)

    def _left_at_most(self, target: int) -> float:
        """Share of the sum of squares of a target that columns with very large variances leave."""
        one = self.of_target(target)
        root = np.sqrt(LARGE / one.terms.size)
        factors = tuple(np.diag(root[list(each)]) for each in one.terms.bands)
        _, b = answer(one.system.at(factors, 0), one.design)
        rest = one.design.y - one.design.times(b[:, None])
        return float((rest**2).sum())


def with_columns(design: Design, also: IntArray) -> Design:
    """The design with some of its constant columns, which are zero in every row, among those that vary."""
    columns = np.sort(np.concatenate([design.columns, also]))
    at = np.searchsorted(columns, design.columns)

    def spread(values: FloatArray, rest: float) -> FloatArray:
        out = np.full((*values.shape[:-1], columns.size), rest)
        out[..., at] = values
        return out

    projection = None if design.projection is None else spread(design.projection, 0.0)
    return replace(
        design,
        columns=columns,
        constant=np.setdiff1d(design.constant, also),
        center=spread(design.center, 0.0),
        scale=spread(design.scale, design.common_scale),
        sd=spread(design.sd, 0.0),
        projection=projection,
    )
