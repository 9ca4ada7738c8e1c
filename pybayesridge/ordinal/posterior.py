"""Coefficients, cut points and probabilities of categories on the user's scale: a mixture of Gaussians.

The distances of cut points are coordinates before those of the rows, and the design has an intercept, minus the first
cut point, which is none of the coefficients. With eta the linear predictor of a row, the intercept among it, and
``g_j = d_1 + ... + d_j`` the distance of cut point j from the first (j from 0), the sites' linear functions are
``eta - g_j`` and ``d_j``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from pybayesridge._types import AnyArray, FloatArray, IntArray
from pybayesridge.ordinal.likelihood import distribution, expected
from pybayesridge.posterior.quantiles import Common
from pybayesridge.sites.posterior import MIDDLE, NEGLIGIBLE, SitesCoefficients, SitesPosterior
from pybayesridge.sites.result import SitesFit
from pybayesridge.text import TABLE_ROWS

INCREASING = 1e-9
"""Draws of cut points are at least so far apart: their joint law is normal, in which a distance may be negative."""


@dataclass(frozen=True, slots=True)
class CutLaw:
    """The posterior of the cut points, the means (medians where there are none) among it.

    Attributes
    ----------
    center, sd : (K - 1,) arrays
    components : Common
    """

    center: FloatArray
    sd: FloatArray
    components: Common


class OrdinalPosterior(SitesPosterior):
    """The joint posterior of coefficients and cut points, with one penalty or several."""

    __slots__ = ()

    @property
    def coefficients(self) -> OrdinalCoefficients:
        """The posterior of each coefficient."""
        return OrdinalCoefficients(self, TABLE_ROWS)

    def covariance_of_coefficients(self) -> FloatArray:
        """Posterior covariance of the coefficients."""
        return super().covariance_of_coefficients()[1:, 1:]

    def draws_with_nodes(self, count: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray, IntArray]:
        """Draws of the unpenalised and penalised coefficients, and the nodes that they come from."""
        of_z, b, _, which = self.draws_with_cuts(count, rng)
        return of_z, b, which

    def draws_with_cuts(
        self, count: int, rng: np.random.Generator
    ) -> tuple[FloatArray, FloatArray, FloatArray, IntArray]:
        """Draws of unpenalised and penalised coefficients and of cut points (count, K - 1), and their nodes."""
        drawn, which = self._drawn(count, rng)
        of_z, b = self.space.on_user_scale(drawn, self._log_t2()[which], rng)
        return of_z[:, 1:], b, cuts_from(of_z[:, 0], drawn[: self.space.distances].T), which

    def cut_points(self) -> CutLaw:
        """The posterior of each cut point."""
        mean, sd, weight = self._cuts_at_nodes()
        components = Common(mean, sd, weight, np.inf)
        average = weight @ mean
        center = average if self.has_mean else components.quantiles(MIDDLE)[:, 0]
        spread = np.sqrt(weight @ (sd**2 + (mean - average) ** 2))
        return CutLaw(center, spread if self.has_variance else np.full(center.size, np.inf), components)

    def probabilities(self, x_rows: AnyArray, z_rows: FloatArray) -> FloatArray:
        """Posterior means of the probabilities of the categories at rows, (m, K)."""
        f = self._of_rows_and_intercept(x_rows, z_rows)
        keep = np.flatnonzero(self.weight > NEGLIGIBLE)
        below = np.zeros((f.count, self.space.distances + 1))
        for i in keep:
            mean, variance = self._at_cuts(int(i), f)
            below += self.weight[i] * expected(mean, variance, self.link)  # type: ignore[arg-type]
        below /= self.weight[keep].sum()
        ends = np.hstack([np.zeros((f.count, 1)), below, np.ones((f.count, 1))])
        return np.maximum(np.diff(ends, axis=1), 0.0)

    def drawn_probabilities(
        self, x_rows: AnyArray, z_rows: FloatArray, count: int, rng: np.random.Generator
    ) -> FloatArray:
        """Draws of the probabilities of the categories at rows, (count, m, K)."""
        of_z, b, cuts, which = self.draws_with_cuts(count, rng)
        p = b.shape[1]
        linear = (x_rows[:, :p] @ b.T).T + of_z @ z_rows.T + self._unseen(x_rows[:, p:], which, rng)
        return probabilities_at(linear, cuts, self.link)

    def _unseen(self, rows: Any, which: IntArray, rng: np.random.Generator) -> FloatArray | float:
        """Draws of what groups without a row add to linear predictors, (count, m); 0 where there are no groups."""
        outside = np.asarray(rows.toarray() if sparse.issparse(rows) else rows, dtype=np.float64)
        if not outside.any():
            return 0.0
        nodes, at = np.unique(which, return_inverse=True)
        space: Any = self.space
        sd = np.sqrt([space.variance_of_new(outside, self._factors_at(node)) for node in nodes.tolist()])
        out: FloatArray = sd[at] * rng.standard_normal((which.size, len(outside)))
        return out

    def _of_rows(self, x_rows: AnyArray, z_rows: FloatArray) -> Any:
        """Linear functions without the intercept, for rows that have none."""
        if z_rows.shape[1] < self.design.block.k:
            z_rows = np.hstack([np.zeros((z_rows.shape[0], 1)), z_rows])
        return super()._of_rows(x_rows, z_rows)

    def _coefficients(self, function: Any) -> tuple[FloatArray, FloatArray]:
        of_z, b = super()._coefficients(function)
        return of_z[1:], b

    def _of_rows_and_intercept(self, x_rows: AnyArray, z_rows: FloatArray) -> Any:
        return self._of_rows(x_rows, np.hstack([np.ones((z_rows.shape[0], 1)), z_rows]))

    def _at_cuts(self, i: int, f: Any) -> tuple[FloatArray, FloatArray]:
        """Means and variances (m, K - 1) of cut points less the linear predictor at a node."""
        law = self._law(i)
        of_eta, of_rows, own = law.halves(f)
        distances, half, _ = law.halves(self.space.of_distances())
        mean = np.r_[0.0, np.cumsum(distances)] - of_eta[:, None]
        of_cuts = np.vstack([np.zeros((1, half.shape[1])), np.cumsum(half, axis=0)])
        own = own + np.einsum("ij,ij->i", of_rows, of_rows)
        variance = own[:, None] + np.einsum("ij,ij->i", of_cuts, of_cuts) - 2.0 * of_rows @ of_cuts.T
        return mean, np.maximum(variance, 0.0)

    def _cuts_at_nodes(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Means and standard deviations (K, cut points) at each node that matters, and the weights."""
        keep = np.flatnonzero(self.weight > NEGLIGIBLE)
        f = self._of_rows_and_intercept(np.zeros((1, self.design.p)), np.zeros((1, self.design.block.k - 1)))
        found = [self._at_cuts(int(i), f) for i in keep]
        mean, variance = np.stack([m[0] for m, _ in found]), np.stack([v[0] for _, v in found])
        return mean, np.sqrt(variance), self.weight[keep] / self.weight[keep].sum()


@dataclass(frozen=True, slots=True)
class OrdinalCoefficients(SitesCoefficients):
    """The coefficients, without the intercept of the design."""

    def _size(self) -> int:
        return SitesCoefficients._size(self) - 1  # noqa: SLF001

    def _unit_rows(self, which: IntArray) -> tuple[FloatArray, FloatArray]:
        x_rows, z_rows = SitesCoefficients._unit_rows(self, which + 1)  # noqa: SLF001
        return x_rows, z_rows[:, 1:]


def cuts_from(intercept: FloatArray, distances: FloatArray) -> FloatArray:
    """Draws of cut points (m, K - 1) from those of the intercept (m,) and of distances (m, K - 2)."""
    return np.cumsum(np.hstack([-intercept[:, None], np.maximum(distances, INCREASING)]), axis=1)


def probabilities_at(linear: FloatArray, cuts: FloatArray, link: Any) -> FloatArray:
    """Probabilities of the categories (..., m, K) at linear predictors (..., m) and cut points (..., K - 1)."""
    below = distribution(cuts[..., None, :] - linear[..., :, None], link)
    ends = [np.zeros((*linear.shape, 1)), below, np.ones((*linear.shape, 1))]
    return np.diff(np.concatenate(ends, axis=-1), axis=-1)


class OrdinalFit(SitesFit):
    """The outcome of one method: nodes are those of cut points and coefficients together."""

    __slots__ = ()
    kind: ClassVar[type[SitesPosterior]] = OrdinalPosterior
