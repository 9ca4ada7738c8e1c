"""Coefficients and cut points with several penalties: a mixture over their variances of Gaussians."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from pybayesridge._types import AnyArray, FloatArray, IntArray
from pybayesridge.ordinal.band_space import CutArrowSpace, CutBandSpace
from pybayesridge.ordinal.posterior import CutPointPosterior, cuts_from
from pybayesridge.sites.arrow_posterior import ArrowPosterior, make_arrow_posterior
from pybayesridge.sites.band_fit import BandSitesFit
from pybayesridge.sites.band_posterior import BandSitesPosterior, make_band_posterior
from pybayesridge.sites.posterior import SitesFunctionals


class WithCutsAndBands(CutPointPosterior):
    """What both posteriors with several penalties have: coordinates are distances, h, and coefficients."""

    __slots__ = ()

    if TYPE_CHECKING:
        factors: tuple[FloatArray, ...]
        _drawn: Callable[[int, np.random.Generator], tuple[FloatArray, IntArray]]
        _on_user_scale: Callable[[FloatArray], tuple[FloatArray, FloatArray]]

    def draws_with_cuts(
        self, count: int, rng: np.random.Generator
    ) -> tuple[FloatArray, FloatArray, FloatArray, IntArray]:
        """Draws of unpenalised and penalised coefficients and of cut points (count, K - 1), and their nodes."""
        drawn, which = self._drawn(count, rng)
        of_z, b = self._on_user_scale(drawn)
        return of_z[:, 1:], b, cuts_from(of_z[:, 0], drawn[: self.distances].T), which

    def unseen(self, rows: AnyArray, which: IntArray, rng: np.random.Generator) -> FloatArray | float:
        """Draws of what groups without a row add to linear predictors, (count, m)."""
        added = np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows, dtype=np.float64)
        if not added.any():
            return 0.0
        out = np.zeros((which.size, len(added)))
        for bands, factors in zip(self._space.terms.bands, self.factors, strict=True):
            sd = np.sqrt(((added[:, list(bands)] @ factors) ** 2).sum(axis=-1))
            out += sd[which] * rng.standard_normal(out.shape)
        return out

    @property
    def _space(self) -> CutBandSpace | CutArrowSpace:
        space: Any = self.space
        return space

    @property
    def distances(self) -> int:
        """How many distances of cut points there are."""
        return self._space.distances

    def _root_units(self) -> FloatArray:
        k = self.design.block.k
        of_rows = np.r_[np.full(k, np.sqrt(self.design.n)), np.ones(self._space.rank)]
        return np.r_[np.ones(self.distances), of_rows]

    def _own_variances(self, i: int, outside: FloatArray) -> FloatArray:
        out = np.zeros(len(outside))
        for bands, factors in zip(self._space.terms.bands, self.factors, strict=True):
            out += ((outside[:, list(bands)] @ factors[i]) ** 2).sum(axis=-1)
        return out


@dataclass(frozen=True, slots=True)
class OrdinalBandPosterior(WithCutsAndBands, BandSitesPosterior):
    """The joint posterior of coefficients and cut points with several penalties."""

    def _of_rows(self, x_rows: Any, z_rows: FloatArray) -> SitesFunctionals:
        """Linear functions without the intercept, for rows that have none."""
        f = BandSitesPosterior._of_rows(self, x_rows, self._of_rows_without_intercept(z_rows))  # noqa: SLF001
        return SitesFunctionals(np.hstack([np.zeros((f.count, self.distances)), f.coords]), f.outside)

    def _halves_of(self, i: int, f: SitesFunctionals) -> tuple[FloatArray, FloatArray, FloatArray]:
        gaussian, rows = self._node(i, f.coords)
        return rows @ gaussian.mean, rows @ gaussian.root(), self._own_variances(i, f.outside)

    def _halves_of_distances(self, i: int) -> tuple[FloatArray, FloatArray]:
        gaussian = self.nodes[i].gaussian(self.space.at(self._factors_at(i)))
        return gaussian.mean[: self.distances], gaussian.root()[: self.distances]


@dataclass(frozen=True, slots=True)
class OrdinalArrowPosterior(WithCutsAndBands, ArrowPosterior):
    """The same with a factor of very many levels."""

    def _of_rows(self, x_rows: Any, z_rows: FloatArray) -> Any:
        """Linear functions without the intercept, for rows that have none."""
        return ArrowPosterior._of_rows(self, x_rows, self._of_rows_without_intercept(z_rows))  # noqa: SLF001

    def _halves_of(self, i: int, f: Any) -> tuple[FloatArray, FloatArray, FloatArray]:
        mean, of_levels, of_others = self._halves(i, f)
        own = np.asarray(of_levels.power(2).sum(axis=1)).ravel()
        return mean, of_others, own + self._own_variances(i, f.outside)

    def _halves_of_distances(self, i: int) -> tuple[FloatArray, FloatArray]:
        gaussian, e = self._gaussian(i), self.distances
        none, rows = sparse.csr_matrix((e, gaussian.d.size)), np.eye(e, gaussian.m)
        return gaussian.mean[:e], gaussian.halves(none, rows)[1]


@dataclass(frozen=True, slots=True)
class OrdinalBandFit(BandSitesFit):
    """The outcome of one method: nodes are those of cut points and coefficients together."""

    @classmethod
    def of(cls, found: BandSitesFit) -> OrdinalBandFit:
        """The same fit."""
        return cls(**{field.name: getattr(found, field.name) for field in fields(BandSitesFit)})

    def posterior(self) -> OrdinalBandPosterior | OrdinalArrowPosterior:
        """The joint posterior of coefficients and cut points."""
        make: Any = partial(make_band_posterior, of=OrdinalBandPosterior)
        if isinstance(self.space, CutArrowSpace):
            make = partial(make_arrow_posterior, of=OrdinalArrowPosterior)
        return self._posterior_by(make)
