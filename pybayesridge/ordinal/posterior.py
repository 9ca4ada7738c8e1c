"""Coefficients, cut points and probabilities of categories on the user's scale: a mixture over t2 of Gaussians."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from pybayesridge._types import AnyArray, FloatArray, IntArray
from pybayesridge.ordinal.likelihood import distribution, expected
from pybayesridge.ordinal.space import WithoutCuts
from pybayesridge.posterior.quantiles import Common
from pybayesridge.sites.posterior import (
    MIDDLE,
    NEGLIGIBLE,
    SitesCoefficients,
    SitesFunctionals,
    SitesPosterior,
    make_posterior,
)
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


class CutPointPosterior(SitesPosterior):
    """What the joint posterior of coefficients and cut points answers, with one penalty or several.

    The design has an intercept, minus the first cut point, which is none of the coefficients here.
    """

    __slots__ = ()

    @property
    def coefficients(self) -> OrdinalCoefficients:
        """The posterior of each coefficient."""
        return OrdinalCoefficients(self, TABLE_ROWS)

    def coefficient_means(self) -> tuple[FloatArray, FloatArray]:
        """Posterior means of the unpenalised and penalised coefficients; nan where there is none."""
        return _without_intercept(super().coefficient_means())

    def coefficient_sds(self) -> tuple[FloatArray, FloatArray]:
        """Posterior standard deviations of the same."""
        return _without_intercept(super().coefficient_sds())

    def coefficient_quantiles(self, probabilities: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Posterior quantiles."""
        return _without_intercept(super().coefficient_quantiles(probabilities))

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
        raise NotImplementedError

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
        below = np.zeros((f.count, self.distances + 1))
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
        linear = (x_rows[:, :p] @ b.T).T + of_z @ z_rows.T + self.unseen(x_rows[:, p:], which, rng)
        return probabilities_at(linear, cuts, self.link)

    def unseen(self, rows: AnyArray, which: IntArray, rng: np.random.Generator) -> FloatArray | float:
        """Draws of what groups without a row add to linear predictors, (count, m); 0 where there are no groups."""
        return 0.0

    @property
    def distances(self) -> int:
        """How many distances of cut points there are."""
        raise NotImplementedError

    def _halves_of(self, i: int, f: Any) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Means (m,) of linear functions at a node, rows (m, d) whose products are covariances, and own variances.

        The latter, (m,), are to be added to those of each function.
        """
        raise NotImplementedError

    def _halves_of_distances(self, i: int) -> tuple[FloatArray, FloatArray]:
        """Likewise of the distances of cut points, (e,) and (e, d)."""
        raise NotImplementedError

    def _of_rows_without_intercept(self, z_rows: FloatArray) -> FloatArray:
        """Rows of the unpenalised columns with a zero for the intercept, where they have none."""
        if z_rows.shape[1] < self.design.block.k:
            return np.hstack([np.zeros((z_rows.shape[0], 1)), z_rows])
        return z_rows

    def _of_rows_and_intercept(self, x_rows: AnyArray, z_rows: FloatArray) -> Any:
        return self._of_rows(x_rows, np.hstack([np.ones((z_rows.shape[0], 1)), z_rows]))

    def _at_cuts(self, i: int, f: Any) -> tuple[FloatArray, FloatArray]:
        """Means and variances (m, K - 1) of cut points less the linear predictor at a node."""
        of_eta, of_rows, own = self._halves_of(i, f)
        distances, half = self._halves_of_distances(i)
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
class OrdinalPosterior(CutPointPosterior):
    """The joint posterior of coefficients and cut points with one penalty."""

    def without_rows(self, nodes: tuple[Any, ...]) -> OrdinalPosterior:
        """The same without what runs over rows."""
        found: Any = SitesPosterior.without_rows(self, nodes)
        return found

    def draws_with_cuts(
        self, count: int, rng: np.random.Generator
    ) -> tuple[FloatArray, FloatArray, FloatArray, IntArray]:
        """Draws of unpenalised and penalised coefficients and of cut points (count, K - 1), and their nodes."""
        which = rng.choice(self.weight.size, size=count, p=self.weight)
        e, size = self.distances, self.space.k + self.space.rank
        of_coordinates, distances = np.empty((count, size)), np.empty((count, e))
        for node in np.unique(which):
            rows = np.flatnonzero(which == node)
            whole = self._whole(node)
            noise = rng.standard_normal((e + size, rows.size))
            noise = solve_triangular(whole.factor, noise, lower=True, trans="T", check_finite=False)
            drawn = (whole.mean[:, None] + noise).T
            distances[rows] = drawn[:, :e]
            of_coordinates[rows] = drawn[:, e:] * self._units(node)
        of_z, b = self.on_user_scale(of_coordinates, which, rng)
        return of_z[:, 1:], b, cuts_from(of_z[:, 0], distances), which

    @property
    def distances(self) -> int:
        """How many distances of cut points there are."""
        node: Any = self.nodes[0]
        return int(node.space.distances)

    def _whole(self, i: int) -> Any:
        node: Any = self.nodes[i]
        return node.whole()

    def _units(self, i: int) -> FloatArray:
        t = np.exp(0.5 * self.nodes[i].log_t2)
        return np.r_[np.ones(self.space.k), np.full(self.space.rank, t)]

    def _root_units(self) -> FloatArray:
        return np.r_[np.ones(self.distances), SitesPosterior._root_units(self)]  # noqa: SLF001

    def _mean_and_root(self, node: int) -> tuple[FloatArray, FloatArray]:
        """Mean and root of the covariance of a node, in the distances and the coordinates of the rows."""
        whole, units = self._whole(node), np.r_[np.ones(self.distances), self._units(node)]
        return whole.mean * units, whole.root().T * units

    def _moments(self) -> tuple[FloatArray, FloatArray]:
        """Those of distances and coordinates; of coordinates alone over all nodes, also those left out since."""
        e, found = self.distances, [self._mean_and_root(i) for i in range(self.weight.size)]
        means = np.stack([mean for mean, _ in found])
        mean = self.weight @ means
        covariance = sum(w * root.T @ root for w, (_, root) in zip(self.weight, found, strict=True))
        centred = (means - mean) * np.sqrt(self.weight)[:, None]
        covariance = covariance + centred.T @ centred
        mean[e:], covariance[e:, e:] = self.mean, self.covariance
        return mean, covariance

    def _of_rows(self, x_rows: AnyArray, z_rows: FloatArray) -> SitesFunctionals:
        """Linear functions without the intercept, for rows that have none."""
        return SitesPosterior._of_rows(self, x_rows, self._of_rows_without_intercept(z_rows))  # noqa: SLF001

    def _halves_of(self, i: int, f: SitesFunctionals) -> tuple[FloatArray, FloatArray, FloatArray]:
        whole, e, rows = self._whole(i), self.distances, f.coords * self._units(i)
        return rows @ whole.mean[e:], rows @ whole.root()[e:], f.outside * np.exp(self.nodes[i].log_t2)

    def _halves_of_distances(self, i: int) -> tuple[FloatArray, FloatArray]:
        whole, e = self._whole(i), self.distances
        return whole.mean[:e], whole.root()[:e]


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


def _without_intercept(pair: tuple[FloatArray, FloatArray]) -> tuple[FloatArray, FloatArray]:
    return pair[0][1:], pair[1]


def probabilities_at(linear: FloatArray, cuts: FloatArray, link: Any) -> FloatArray:
    """Probabilities of the categories (..., m, K) at linear predictors (..., m) and cut points (..., K - 1)."""
    below = distribution(cuts[..., None, :] - linear[..., :, None], link)
    ends = [np.zeros((*linear.shape, 1)), below, np.ones((*linear.shape, 1))]
    return np.diff(np.concatenate(ends, axis=-1), axis=-1)


@dataclass(frozen=True, slots=True)
class OrdinalFit(SitesFit):
    """The outcome of one method: nodes are those of cut points and coefficients together."""

    @classmethod
    def of(cls, found: SitesFit) -> OrdinalFit:
        """The same fit."""
        return cls(**{field.name: getattr(found, field.name) for field in fields(SitesFit)})

    def posterior(self) -> OrdinalPosterior:
        """The joint posterior of coefficients and cut points."""
        space: Any = self.space
        found: OrdinalPosterior = make_posterior(
            space.of_rows,
            self.likelihood,
            self.posterior_nodes(),  # type: ignore[arg-type]
            self.weight,
            of=OrdinalPosterior,
            **self.moments_that_exist(),
        )
        return found

    def posterior_nodes(self) -> tuple[WithoutCuts, ...]:
        """The nodes with the distances of cut points integrated out."""
        space: Any = self.space
        return tuple(WithoutCuts(node, space) for node in self.nodes)
