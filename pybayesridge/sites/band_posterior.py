"""Coefficients and linear predictors with several bands: a mixture over their variances of Gaussians.

As arrays (:meth:`BandSitesPosterior.as_arrays`) it is that of one penalty with the coordinates ``c = [z z_root, v]``
and nodes over the variances and correlations of the effects, as in :mod:`pybayesridge.bands.mixed_posterior`. An
effect of a level that the fit has not seen adds ``|A' unseen|^2``, in the mean over all nodes ``unseen'
band_covariance unseen``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.bands.covariance import Factors, entries_of
from pybayesridge.linalg import blas
from pybayesridge.ridge.explained import number_of_draws
from pybayesridge.sites.approximation import Node
from pybayesridge.sites.bands import BandSpace
from pybayesridge.sites.coordinates import Scaled
from pybayesridge.sites.gaussian import Gaussian
from pybayesridge.sites.likelihood import Likelihood
from pybayesridge.sites.posterior import (
    LEFT_OUT,
    MOST_OF_NODES,
    NEGLIGIBLE,
    Components,
    SitesFunctionals,
    SitesPosterior,
    to_user,
)


@dataclass(frozen=True, slots=True)
class BandSitesPosterior(SitesPosterior):
    """The joint posterior of all coefficients.

    Coordinates are h and the coefficients on the scale of the prior; what is outside of functionals multiplies the
    effects of levels that no row of the data has, (m, K).

    Attributes
    ----------
    factors : tuple of (M, q, q) arrays
        Roots of the covariances of each term at the nodes.
    covariances : tuple of (q, q) arrays
        Posterior means of the covariances of effects.
    """

    space: BandSpace  # type: ignore[assignment]
    factors: Factors = ()
    covariances: tuple[FloatArray, ...] = ()

    def without_rows(self, nodes: tuple[Node, ...]) -> BandSitesPosterior:
        """The same without what runs over rows, of those `nodes` without it that have no negligible weight."""
        keep = np.flatnonzero(self.weight > NEGLIGIBLE)
        return replace(
            self,
            space=self.space.without_rows(),
            nodes=nodes,
            weight=self.weight[keep] / self.weight[keep].sum(),
            factors=tuple(each[keep] for each in self.factors),
        )

    def as_arrays(self) -> dict[str, Any]:
        """Arrays from which the posterior is made again; they are defined at the head of this file.

        Raises
        ------
        ValueError
            If they are too large.
        """
        space, keep, terms = self.space, np.flatnonzero(self.weight > NEGLIGIBLE), self.space.terms
        size, unit = space.k + space.rank, self._root_units()
        if keep.size * size**2 > MOST_OF_NODES:
            several = np.unique([self.nodes[i].form for i in keep]).size > 1
            other = ", or give 'df'" if several else ", or method='reml'" if np.isnan(self.likelihood.form) else ""
            raise ValueError(
                f"the joint posterior of {size:,} coefficients at {keep.size:,} sets of variances is too large for "
                f"R: use groups with fewer levels or fewer terms{other}"
            )
        each = [(self.nodes[i].gaussian(space.at(own)), own) for i in keep.tolist() for own in [self._factors_at(i)]]
        means = [space.coefficients(one.mean[:, None], own)[:, 0] for one, own in each]
        roots = [space.coefficients(one.root(), own).T for one, own in each]
        between = np.zeros((terms.count, terms.count))
        for bands, covariance in zip(terms.bands, self.covariances, strict=True):
            between[np.ix_(bands, bands)] = covariance
        return {
            **self._shared_arrays(keep),
            "node_mean": np.stack(means) * unit,
            "node_root": np.concatenate(roots) * unit,
            "gram": space.gram,
            "band_covariance": between,
            **entries_of(terms, [tuple(factor[keep] for factor in self.factors)]),
        }

    def covariance_of_coefficients(self) -> FloatArray:
        """Posterior covariance of (unpenalised, penalised) coefficients, (k + p, k + p), where there is one."""
        coords = self._of_rows(*self._unit_rows()).coords
        return blas.product(blas.product(coords, self.covariance), coords.T)

    def components(self, x_rows: Any, z_rows: FloatArray) -> Components | None:
        """The joint law of the linear predictors of a few rows; None where some are of levels without a row."""
        f = self._of_rows(x_rows, z_rows)
        if f.outside.any():
            return None
        order = np.argsort(self.weight)
        keep = np.sort(order[np.cumsum(self.weight[order]) > LEFT_OUT])
        mean, root = np.empty((keep.size, f.count)), np.empty((keep.size, *f.coords.shape))
        with blas.one_pool(self.space.flops):
            for i, node in enumerate(keep.tolist()):
                gaussian, coords = self._node(node, f.coords)
                mean[i] = blas.product(coords, gaussian.mean[:, None])[:, 0]
                root[i] = blas.product(coords, gaussian.root())
        return Components(self.weight[keep] / self.weight[keep].sum(), mean, root)

    def draws_with_nodes(self, count: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray, IntArray]:
        """Draws of unpenalised (count, k) and penalised (count, p) coefficients, user's scale, and their nodes."""
        drawn, which = self._drawn(count, rng)
        return *self._on_user_scale(drawn), which

    def _on_user_scale(self, drawn: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Unpenalised (m, k) and penalised (m, p) coefficients from h and those on the scale of the prior."""
        k = self.space.k
        h, b = drawn[k - self.design.block.k : k], drawn[k:] / self.design.scale[:, None]
        return (to_user(self.design) @ h + self.design.taken_from_z(b)).T, b.T

    def latent_share(self, rng: np.random.Generator) -> FloatArray:
        """Draws, ascending, of the share of latent variance that the penalised columns explain at the rows."""
        space = self.space
        drawn, which = self._drawn(number_of_draws(space.rank), rng)
        drawn = drawn[space.k :]
        explained = np.einsum("ij,ij->j", drawn, blas.product(space.gram, drawn))
        out: FloatArray = np.sort(explained / (explained + space.design.n * self.latent_variances()[which]))
        return out

    def latent_variances(self) -> FloatArray:
        """Variance of the latent noise at each node, (M,)."""
        return np.array([self.likelihood.of_shape(node.log_shape).latent_variance for node in self.nodes])

    def _drawn(self, count: int, rng: np.random.Generator) -> tuple[FloatArray, IntArray]:
        """Draws of h and the coefficients on the scale of the prior, (k + p, count), and the nodes they come from."""
        space = self.space
        which = rng.choice(self.weight.size, size=count, p=self.weight)
        out = np.empty((space.k + space.rank, count))
        for node in np.unique(which).tolist():
            at = np.flatnonzero(which == node)
            factors = self._factors_at(node)
            gaussian = self.nodes[node].gaussian(space.at(factors))
            noise = rng.standard_normal((space.k + space.rank, at.size))
            noise = solve_triangular(gaussian.factor, noise, lower=True, trans="T", check_finite=False)
            out[:, at] = space.coefficients(gaussian.mean[:, None] + noise, factors)
        return out, which

    def _variance_outside(self, node: int, outside: FloatArray) -> FloatArray:
        """Variances (m,) of the effects of levels without a row, that `outside` (m, K) multiplies, at a node."""
        out = np.zeros(len(outside))
        for bands, factor in zip(self.space.terms.bands, self._factors_at(node), strict=True):
            out += ((outside[:, list(bands)] @ factor) ** 2).sum(axis=-1)
        return out

    def _factors_at(self, node: int) -> Factors:
        return tuple(each[node] for each in self.factors)

    def _node(self, node: int, coords: FloatArray) -> tuple[Gaussian, FloatArray]:
        """The joint posterior at a node, and what multiplies its coordinates."""
        factors = self._factors_at(node)
        return self.nodes[node].gaussian(self.space.at(factors)), self.space.functionals_at(coords, factors)

    def _variances(self, f: SitesFunctionals) -> FloatArray:
        if not self.has_variance:
            return np.full(f.count, np.inf)
        out: FloatArray = np.einsum("ij,ij->i", blas.product(f.coords, self.covariance), f.coords)
        for bands, covariance in zip(self.space.terms.bands, self.covariances, strict=True):
            new = f.outside[:, list(bands)]
            out += np.einsum("mi,ij,mj->m", new, covariance, new)
        return np.maximum(out, 0.0)

    def _at_nodes(self, f: SitesFunctionals) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Mean and standard deviation at each node that matters, (M, m), and the nodes' weights."""
        keep = np.flatnonzero(self.weight > NEGLIGIBLE)
        mean, sd = np.empty((2, keep.size, f.count))
        with blas.one_pool(self.space.flops):
            for i, node in enumerate(keep.tolist()):
                gaussian, coords = self._node(node, f.coords)
                rows = Scaled(coords, self.space.k, np.ones(coords.shape[1]))
                mean[i] = rows.times(gaussian.mean)
                sd[i] = np.sqrt(gaussian.variances(rows) + self._variance_outside(node, f.outside))
        return mean, sd, self.weight[keep] / self.weight[keep].sum()

    def _of_rows(self, x_rows: Any, z_rows: FloatArray) -> SitesFunctionals:
        """Functionals of rows of the columns (m, p), after which may stand what multiplies new levels' effects."""
        p, count = self.design.p, self.space.terms.count
        inside = self.design.rows_outside_z(x_rows[:, :p], z_rows)
        outside = x_rows[:, p:] if x_rows.shape[1] > p else np.zeros((x_rows.shape[0], count))
        return SitesFunctionals(np.hstack([z_rows @ to_user(self.design), inside]), outside)

    def _unit_rows(self) -> tuple[FloatArray, FloatArray]:
        k, p = self.design.block.k, self.design.p
        return np.vstack([np.zeros((k, p)), np.eye(p)]), np.vstack([np.eye(k), np.zeros((p, k))])

    def _coefficients(self, function: Callable[[SitesFunctionals], FloatArray]) -> tuple[FloatArray, FloatArray]:
        k, p = self.design.block.k, self.design.p
        of_z = function(self._of_rows(np.zeros((k, p)), np.eye(k)))
        own = np.hstack([np.zeros((p, self.space.k)), np.diag(1.0 / self.design.scale)])
        return of_z, self._chunked(SitesFunctionals(own, np.zeros((p, self.space.terms.count))), function)


def make_band_posterior(
    space: BandSpace,
    likelihood: Likelihood,
    nodes: tuple[Node, ...],
    weight: FloatArray,
    factors: Factors,
    *,
    has_mean: bool,
    has_variance: bool,
    of: type[BandSitesPosterior] = BandSitesPosterior,
) -> Any:
    """Average the nodes' means and covariances; a posterior of the class `of`."""
    size = space.k + space.rank
    covariance, means = np.zeros((size, size)), np.empty((weight.size, size))
    with blas.one_pool(space.flops):
        for i, node in enumerate(nodes):
            own = tuple(each[i] for each in factors)
            gaussian = node.gaussian(space.at(own))
            means[i] = space.coefficients(gaussian.mean[:, None], own)[:, 0]
            root = space.coefficients(gaussian.root(), own)
            covariance += weight[i] * blas.product(root, root.T)
        mean = weight @ means
        centred = (means - mean) * np.sqrt(weight)[:, None]
        covariance += blas.product(centred, centred, transpose_a=True)
    return of(
        space=space,
        nodes=nodes,
        weight=weight,
        mean=mean,
        covariance=covariance,
        mean_t2=np.nan,
        has_mean=has_mean,
        has_variance=has_variance,
        likelihood=likelihood.without_rows(),
        factors=factors,
        covariances=tuple(np.einsum("m,mij,mkj->ik", weight, each, each, optimize=True) for each in factors),
    )
