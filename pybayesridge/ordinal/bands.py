"""Coefficients and cut points with several penalties: a mixture over their variances of Gaussians.

Coordinates are the distances of cut points, h, and the coefficients on the scale of the prior.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.ordinal.posterior import CutPointPosterior, cuts_from
from pybayesridge.sites.arrow_posterior import ArrowPosterior, make_arrow_posterior
from pybayesridge.sites.band_fit import BandSitesFit
from pybayesridge.sites.band_posterior import BandSitesPosterior, make_band_posterior
from pybayesridge.sites.bands import BandSpace
from pybayesridge.sites.posterior import SitesFunctionals


@dataclass(frozen=True, slots=True)
class OrdinalBandPosterior(CutPointPosterior, BandSitesPosterior):
    """The joint posterior of coefficients and cut points with several penalties."""

    def draws_with_cuts(
        self, count: int, rng: np.random.Generator
    ) -> tuple[FloatArray, FloatArray, FloatArray, IntArray]:
        """Draws of unpenalised and penalised coefficients and of cut points (count, K - 1), and their nodes."""
        drawn, which = self._drawn(count, rng)
        of_z, b = self._on_user_scale(drawn)
        return of_z[:, 1:], b, cuts_from(of_z[:, 0], drawn[: self.distances].T), which

    def unseen(self, rows: Any, which: IntArray, rng: np.random.Generator) -> FloatArray | float:
        """Draws of what groups without a row add to linear predictors, (count, m)."""
        outside = np.asarray(rows.toarray() if sparse.issparse(rows) else rows, dtype=np.float64)
        if not outside.any():
            return 0.0
        nodes, at = np.unique(which, return_inverse=True)
        sd = np.sqrt([self._variance_outside(int(node), outside) for node in nodes])
        out: FloatArray = sd[at] * rng.standard_normal((which.size, len(outside)))
        return out

    @property
    def distances(self) -> int:
        """How many distances of cut points there are: flat coordinates that are of no column."""
        return self.space.k - self.design.block.k

    def _root_units(self) -> FloatArray:
        return np.r_[np.ones(self.distances), BandSitesPosterior._root_units(self)[self.distances :]]  # noqa: SLF001

    def _of_rows(self, x_rows: Any, z_rows: FloatArray) -> Any:
        """Linear functions without the intercept, for rows that have none."""
        f = BandSitesPosterior._of_rows(self, x_rows, self._of_rows_without_intercept(z_rows))  # noqa: SLF001
        return SitesFunctionals(np.hstack([np.zeros((f.count, self.distances)), f.coords]), f.outside)

    def _halves_of(self, i: int, f: Any) -> tuple[FloatArray, FloatArray, FloatArray]:
        gaussian, rows = self._node(i, f.coords)
        return rows @ gaussian.mean, rows @ gaussian.root(), self._variance_outside(i, f.outside)

    def _halves_of_distances(self, i: int) -> tuple[FloatArray, FloatArray]:
        gaussian = self.nodes[i].gaussian(self.space.at(self._factors_at(i)))
        return gaussian.mean[: self.distances], gaussian.root()[: self.distances]


@dataclass(frozen=True, slots=True)
class OrdinalArrowPosterior(OrdinalBandPosterior, ArrowPosterior):
    """The same with a factor of very many levels."""

    def _of_rows(self, x_rows: Any, z_rows: FloatArray) -> Any:
        """Linear functions without the intercept, for rows that have none."""
        return ArrowPosterior._of_rows(self, x_rows, self._of_rows_without_intercept(z_rows))  # noqa: SLF001

    def _halves_of(self, i: int, f: Any) -> tuple[FloatArray, FloatArray, FloatArray]:
        mean, of_levels, of_others = self._halves(i, f)
        own = np.asarray(of_levels.power(2).sum(axis=1)).ravel()
        return mean, of_others, own + self._variance_outside(i, f.outside)

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

    def posterior(self) -> OrdinalBandPosterior:
        """The joint posterior of coefficients and cut points."""
        make: Any = partial(make_arrow_posterior, of=OrdinalArrowPosterior)
        if isinstance(self.space, BandSpace):
            make = partial(make_band_posterior, of=OrdinalBandPosterior)
        found: OrdinalBandPosterior = self._posterior_by(make)
        return found
