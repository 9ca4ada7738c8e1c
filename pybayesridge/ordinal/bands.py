"""Coefficients and cut points with several penalties: a mixture over their variances of Gaussians."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import partial
from typing import Any

import numpy as np

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.ordinal.band_space import CutBandSpace
from pybayesridge.ordinal.posterior import WithCutPoints, cuts_from
from pybayesridge.sites.band_fit import BandSitesFit
from pybayesridge.sites.band_posterior import BandSitesPosterior, make_band_posterior
from pybayesridge.sites.gaussian import Gaussian
from pybayesridge.sites.posterior import SitesFunctionals, to_user


@dataclass(frozen=True, slots=True)
class OrdinalBandPosterior(WithCutPoints, BandSitesPosterior):
    """The joint posterior of coefficients and cut points with several penalties.

    Coordinates are the distances of cut points, h, and the coefficients on the scale of the prior.
    """

    space: CutBandSpace

    def draws_with_cuts(
        self, count: int, rng: np.random.Generator
    ) -> tuple[FloatArray, FloatArray, FloatArray, IntArray]:
        """Draws of unpenalised and penalised coefficients and of cut points (count, K - 1), and their nodes."""
        drawn, which = self._drawn(count, rng)
        e, k = self.distances, self.space.k
        b = drawn[k:] / self.design.scale[:, None]
        of_z = (to_user(self.design) @ drawn[e:k] + self.design.taken_from_z(b)).T
        return of_z[:, 1:], b.T, cuts_from(of_z[:, 0], drawn[:e].T), which

    def unseen(self, rows: FloatArray, which: IntArray, rng: np.random.Generator) -> FloatArray | float:
        """Draws of what groups without a row add to linear predictors, (count, m)."""
        if not rows.any():
            return 0.0
        out = np.zeros((which.size, len(rows)))
        for bands, factors in zip(self.space.terms.bands, self.factors, strict=True):
            sd = np.sqrt(((rows[:, list(bands)] @ factors) ** 2).sum(axis=-1))
            out += sd[which] * rng.standard_normal(out.shape)
        return out

    @property
    def distances(self) -> int:
        """How many distances of cut points there are."""
        return self.space.distances

    def _of_rows(self, x_rows: Any, z_rows: FloatArray) -> SitesFunctionals:
        """Linear functions without the intercept, for rows that have none."""
        f = BandSitesPosterior._of_rows(self, x_rows, self._of_rows_without_intercept(z_rows))  # noqa: SLF001
        return SitesFunctionals(np.hstack([np.zeros((f.count, self.distances)), f.coords]), f.outside)

    def _node_and_rows(self, i: int, f: SitesFunctionals) -> tuple[Gaussian, FloatArray, FloatArray]:
        gaussian, rows = self._node(i, f.coords)
        outside = np.zeros(f.count)
        for bands, factor in zip(self.space.terms.bands, self._factors_at(i), strict=True):
            outside += ((f.outside[:, list(bands)] @ factor) ** 2).sum(axis=-1)
        return gaussian, rows, outside


@dataclass(frozen=True, slots=True)
class OrdinalBandFit(BandSitesFit):
    """The outcome of one method: nodes are those of cut points and coefficients together."""

    @classmethod
    def of(cls, found: BandSitesFit) -> OrdinalBandFit:
        """The same fit."""
        return cls(**{field.name: getattr(found, field.name) for field in fields(BandSitesFit)})

    def posterior(self) -> OrdinalBandPosterior:
        """The joint posterior of coefficients and cut points."""
        found: OrdinalBandPosterior = self._posterior_by(partial(make_band_posterior, of=OrdinalBandPosterior))
        return found
