"""The outcome of a method with several bands: the variances of the bands, and what follows from them.

Given the variances the problem is that of a single penalty (:mod:`pybayesridge.sites.bands`).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.bands.components import is_heavy
from pybayesridge.bands.covariance import CovarianceCoordinates
from pybayesridge.bands.lattice import FINE, Lattice
from pybayesridge.bands.mixed_components import MixedGrid
from pybayesridge.bands.mixed_sampled import SampledPoints, Scores
from pybayesridge.sites.arrow_bands import ArrowSpace
from pybayesridge.sites.bands import BandSpace
from pybayesridge.sites.posterior import MOST_OF_NODES, NEGLIGIBLE
from pybayesridge.sites.result import EXISTS, SitesFit
from pybayesridge.sites.separation import is_looked_at, separates
from pybayesridge.sites.windows import in_parts, moved_by

ONE_RANK = 1e-9
"""Columns are of rank 1 if what other eigenvalues of their cross-products add is smaller, relative to the total."""

INDEPENDENT = 1e-9
"""Singular values that are smaller, relative to the largest, are 0."""

OF_PARTS, OF_EACH = 2 * FINE, 1 << 10
"""Points between those of the lattices of all parts of the posterior of the variances, in proportion to the parts'
weights, and of each at the least."""


def columns_of(space: BandSpace | ArrowSpace, some: Collection[int]) -> IntArray:
    """The columns of some bands, in order."""
    columns: list[int] = []
    for bands, at in zip(space.terms.bands, space.terms.columns, strict=True):
        columns += [j for i, band in enumerate(bands) if band in some for j in at[i].tolist()]
    return np.sort(columns).astype(int)


def basis_with(space: BandSpace | ArrowSpace, some: Collection[int]) -> FloatArray:
    """Orthonormal columns (N, r) that span the unpenalised columns and those of some bands."""
    left, values, _ = np.linalg.svd(space.rows_in(columns_of(space, some)), full_matrices=False)
    return left[:, values > INDEPENDENT * values[0]]


@dataclass(frozen=True, slots=True)
class Part:
    """The posterior of the variances, given a further parameter of the likelihood if it has one.

    Attributes
    ----------
    coordinates : CovarianceCoordinates or Scores
    lattice : Lattice or SampledPoints
    latent_variance : float
        Of the noise.
    weight : float
        Posterior probability of the value of the parameter.
    """

    coordinates: CovarianceCoordinates | Scores
    lattice: Lattice | SampledPoints
    latent_variance: float
    weight: float


@dataclass(frozen=True, slots=True)
class BandSitesFit(SitesFit):
    """The outcome of one method with several bands.

    Attributes
    ----------
    parts : tuple of Part
        Where variances are integrated out, for each value of a further parameter of the likelihood.
    log_unit : float
        What logs of variances are larger by than on the user's scale of the prior.
    prior_fall : float
        Rate at which the prior density of the log of the total falls where variances are integrated out.
    """

    space: BandSpace | ArrowSpace  # type: ignore[assignment]
    parts: tuple[Part, ...] = ()
    log_unit: float = 0.0
    prior_fall: float = np.inf

    @staticmethod
    def of_earlier(state: dict[str, Any]) -> dict[str, Any]:
        """The attributes in files of earlier versions, in which there was one lattice."""
        state = SitesFit.of_earlier(state)
        if "lattice" not in state:
            return state
        rest = {name: value for name, value in state.items() if name not in ("coordinates", "lattice")}
        if state["lattice"] is None:
            return {"parts": (), **rest}
        c = state["likelihood"].latent_variance
        return {"parts": (Part(state["coordinates"], state["lattice"], c, 1.0),), **rest}

    def without_rows(self) -> BandSitesFit:
        """The same with every array over rows emptied; nodes of negligible weight are left out."""
        keep = np.flatnonzero(self.weight > NEGLIGIBLE)
        factors = tuple(each[keep] for each in self.factors)
        nodes = tuple(
            self.nodes[i].without_rows(self.space.at(tuple(each[j] for each in factors)), joint=True)
            for j, i in enumerate(keep.tolist())
        )
        weight = self.weight[keep] / self.weight[keep].sum()
        space, likelihood = self.space.without_rows(), self.likelihood.without_rows()
        shape = None if self.shape is None else self.shape.of_nodes(keep)
        return replace(
            self,
            shape=shape,
            space=space,
            likelihood=likelihood,
            nodes=nodes,
            weight=weight,
            factors=factors,
            whole=None,
        )

    def separates(self, some: Collection[int]) -> bool:
        """Whether the columns of some bands, with the unpenalised ones, separate the responses; needs the rows."""
        space = self.space
        bands = [k for each in space.terms.bands for k in each]
        sizes = [columns.shape[1] for columns in space.terms.columns for _ in range(len(columns))]
        added = sum(size for k, size in zip(bands, sizes, strict=True) if k in some)
        if not added or not is_looked_at(space.n, space.k + added, self.likelihood):
            return False
        return separates(basis_with(space, some), self.likelihood, self.likely_predictors())

    def in_parts(self, some: Collection[int]) -> BandSitesFit:
        """The same where the columns of some bands separate the responses, the posterior at each node in parts.

        Itself where a further parameter of the likelihood is integrated out, or nothing is, where few rows share a
        direction, or where there would be too many parts.
        """
        if self.shape is not None or not self.parts:
            return self
        space, columns, (part,) = self.space, columns_of(self.space, some), self.parts
        own = moved_by(basis_with(space, some), space.rows_in(columns)[:, space.k :], self.likelihood)
        moved = np.zeros((len(own), space.k + space.rank))
        moved[:, space.k + columns] = own
        found, change = in_parts(self, moved, MOST_OF_NODES / space.numbers)
        totals = space.terms.totals(found.factors).sum(axis=-1)
        nodes = found.nodes
        if len(nodes) * space.numbers <= MOST_OF_NODES:
            at = [found.space_at(i) for i in range(len(nodes))]
            nodes = tuple(replace(node, joint=node.gaussian(own)) for node, own in zip(nodes, at, strict=True))
        return replace(
            found,
            nodes=nodes,
            log_t2=float(found.weight @ np.log(np.maximum(totals, 1e-300))),
            parts=(replace(part, lattice=part.lattice.changed(change)),),
        )

    def space_at(self, node: int) -> Any:
        """The space of the rows at the variances of a node."""
        return self.space.at(tuple(each[node] for each in self.factors))

    def moments_that_exist(self) -> dict[str, Any]:
        """Whether coefficients have means and variances."""
        return {
            "has_mean": self.order > 1 and self.fall > 0.5 + EXISTS,
            "has_variance": self.order > 2 and self.fall > 1 + EXISTS,
        }

    def at_nodes(self) -> tuple[FloatArray, FloatArray]:
        """Variances of the bands at the nodes, user's scale of the prior, (M, K); and correlations, (M, pairs)."""
        terms = self.space.terms
        return terms.variances(self.factors) * np.exp(-self.log_unit), terms.correlations(self.factors)

    def variances(self) -> MixedGrid:
        """The joint posterior of variances and correlations; the noise is the latent one."""
        terms, unit = self.space.terms, self.log_unit
        if not self.parts:
            c = np.array([self.likelihood.of_shape(node.log_shape).latent_variance for node in self.nodes])
            scaled = tuple(each / np.sqrt(c)[:, None, None] for each in self.factors)
            return MixedGrid.of(terms, scaled, self.weight, c, np.inf, unit)
        found, weights, variances = [], [], []
        parts = [part for part in self.parts if part.weight > NEGLIGIBLE]
        for part in parts:
            points, weight, _ = part.lattice.fine(max(min(int(OF_PARTS * part.weight), FINE), OF_EACH))
            c = np.full(weight.size, part.latent_variance)
            found.append(tuple(each / np.sqrt(part.latent_variance) for each in part.coordinates.factors(points)))
            weights.append(part.weight * weight)
            variances.append(c)
        factors = tuple(np.concatenate(each) for each in zip(*found, strict=True))
        return MixedGrid.of(
            terms, factors, np.concatenate(weights), np.concatenate(variances), np.inf, unit, self._heavy()
        )

    def _heavy(self) -> bool:
        """Whether the bands' standard deviations have no posterior variance; see :func:`is_heavy`."""
        if isinstance(self.space, ArrowSpace):
            return False
        if self.separated and self.space.terms.count == 1:
            return self.fall <= 1 + EXISTS
        gram = self.space.gram
        total = float(np.trace(gram)) ** 2
        return is_heavy(self.prior_fall, 1 if total - float((gram**2).sum()) <= ONE_RANK * total else 2)
