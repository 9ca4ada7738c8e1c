"""Coefficients and linear predictors with a factor of very many levels: a mixture over variances of Gaussians."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.bands.covariance import Factors
from pybayesridge.ridge.explained import LEAST, number_of_draws
from pybayesridge.sites.approximation import Node
from pybayesridge.sites.arrow import ArrowGaussian
from pybayesridge.sites.arrow_bands import ArrowFunctionals, ArrowSpace, functionals
from pybayesridge.sites.band_posterior import BandSitesPosterior
from pybayesridge.sites.posterior import LEFT_OUT, NEGLIGIBLE, Components, to_user

CHUNK = 1 << 22
"""Numbers of functionals, and of their means and standard deviations at nodes, that are held at once."""

MOST_COEFFICIENTS = 3_000
"""Covariances of more coefficients are not made as one matrix."""


@dataclass(frozen=True, slots=True)
class ArrowPosterior(BandSitesPosterior):
    """The joint posterior of all coefficients; there is no matrix of their covariances."""

    space: ArrowSpace  # type: ignore[assignment]

    def without_rows(self, nodes: tuple[Node, ...]) -> ArrowPosterior:
        """The same without what runs over rows, of those `nodes` without it that have no negligible weight."""
        keep = np.flatnonzero(self.weight > NEGLIGIBLE)
        return replace(
            self,
            space=self.space.without_rows(),
            nodes=nodes,
            weight=self.weight[keep] / self.weight[keep].sum(),
            factors=tuple(each[keep] for each in self.factors),
        )

    def covariance_of_coefficients(self) -> FloatArray:
        """Posterior covariance of (unpenalised, penalised) coefficients, (k + p, k + p), where there is one."""
        space, k, p = self.space, self.design.block.k, self.design.p
        if k + p > MOST_COEFFICIENTS:
            raise ValueError(
                f"the covariance matrix of {k + p:,} coefficients is not made: use contrast(), predictions or "
                "sample(), which take any of them together"
            )
        x = sparse.vstack([sparse.csr_matrix((k, p)), sparse.identity(p)])
        f = functionals(space, x, np.vstack([np.eye(k), np.zeros((p, k))]))
        out, mean, total = np.zeros((f.count, f.count)), [], []
        for node in np.flatnonzero(self.weight > NEGLIGIBLE).tolist():
            center, of_levels, of_others = self._halves(node, f)
            own = (of_levels @ of_levels.T).toarray() + of_others @ of_others.T
            out += self.weight[node] * own
            mean.append(center)
            total.append(self.weight[node])
        centred = (np.array(mean) - np.array(total) @ np.array(mean)) * np.sqrt(total)[:, None]
        return out + centred.T @ centred

    def components(self, x_rows: Any, z_rows: FloatArray) -> Components | None:
        """The joint law of the linear predictors of a few rows; None where some are of levels without a row."""
        f = functionals(self.space, x_rows, z_rows)
        if f.outside.any():
            return None
        order = np.argsort(self.weight)
        keep = np.sort(order[np.cumsum(self.weight[order]) > LEFT_OUT])
        mean, root = np.empty((keep.size, f.count)), np.empty((keep.size, f.count, f.count))
        for i, node in enumerate(keep.tolist()):
            mean[i], of_levels, of_others = self._halves(node, f)
            covariance = (of_levels @ of_levels.T).toarray() + of_others @ of_others.T
            values, vectors = np.linalg.eigh(covariance)
            root[i] = vectors * np.sqrt(np.maximum(values, 0.0))
        return Components(self.weight[keep] / self.weight[keep].sum(), mean, root)

    def draws_with_nodes(self, count: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray, IntArray]:
        """Draws of unpenalised (count, k) and penalised (count, p) coefficients, user's scale, and their nodes."""
        drawn, which = self._drawn(count, rng)
        return *self._on_user_scale(drawn), which

    def _on_user_scale(self, drawn: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Unpenalised (m, k) and penalised (m, p) coefficients from h and those on the scale of the prior."""
        space, system = self.space, self.space.system
        plain = system.rest[system.grouped.shape[1] :]
        h, b = drawn[space.k - self.design.block.k : space.k], drawn[space.k :]
        of_z = to_user(self.design) @ h - system.taken @ b[plain]
        return of_z.T, (b / self.design.scale[:, None]).T

    def latent_share(self, rng: np.random.Generator) -> FloatArray:
        """Draws, ascending, of the share of latent variance that the penalised columns explain at the rows."""
        space = self.space
        drawn, which = self._drawn(max(LEAST, number_of_draws(space.rank) // 2), rng)
        explained = space.squares(drawn[space.k :])
        out: FloatArray = np.sort(explained / (explained + space.design.n * self.latent_variances()[which]))
        return out

    def _drawn(self, count: int, rng: np.random.Generator) -> tuple[FloatArray, IntArray]:
        """Draws of h and the coefficients on the scale of the prior, (k + p, count), and the nodes they come from."""
        space = self.space
        which = rng.choice(self.weight.size, size=count, p=self.weight)
        out = np.empty((space.k + space.rank, count))
        for node in np.unique(which).tolist():
            at = np.flatnonzero(which == node)
            gaussian = self._gaussian(node)
            noise = gaussian.unhalf(rng.standard_normal((space.k + space.rank, at.size)))
            out[:, at] = space.coefficients(gaussian.mean[:, None] + noise, self._factors_at(node))
        return out, which

    def _gaussian(self, node: int) -> ArrowGaussian:
        found: Any = self.nodes[node].gaussian(self.space.at(self._factors_at(node)))
        assert isinstance(found, ArrowGaussian)
        return found

    def _halves(self, node: int, f: ArrowFunctionals) -> tuple[FloatArray, Any, FloatArray]:
        """Means of functionals at a node, and halves whose squares are their variances, in two parts."""
        factors, gaussian = self._factors_at(node), self._gaussian(node)
        beside, of_levels = self.space.others_at(f.beside, factors), f.of_levels * self.space.root(factors)
        mean = beside @ gaussian.mean[: gaussian.m] + np.asarray(of_levels @ gaussian.mean[gaussian.m :])
        return mean, *gaussian.halves(of_levels, beside)

    def _means(self, f: ArrowFunctionals) -> FloatArray:  # type: ignore[override]
        if not self.has_mean:
            return np.full(f.count, np.nan)
        mean, _, weight = self._at_nodes(f)
        return weight @ mean

    def _variances(self, f: ArrowFunctionals) -> FloatArray:  # type: ignore[override]
        if not self.has_variance:
            return np.full(f.count, np.inf)
        mean, sd, weight = self._at_nodes(f)
        out: FloatArray = weight @ (sd**2 + (mean - weight @ mean) ** 2)
        return out

    def _at_nodes(self, f: ArrowFunctionals) -> tuple[FloatArray, FloatArray, FloatArray]:  # type: ignore[override]
        """Mean and standard deviation at each node that matters, (M, m), and the nodes' weights."""
        keep = np.flatnonzero(self.weight > NEGLIGIBLE)
        mean, sd = np.empty((2, keep.size, f.count))
        for i, node in enumerate(keep.tolist()):
            mean[i], of_levels, of_others = self._halves(node, f)
            variance = np.asarray(of_levels.power(2).sum(axis=1)).ravel() + (of_others**2).sum(axis=1)
            sd[i] = np.sqrt(variance + self._variance_outside(node, f.outside))
        return mean, sd, self.weight[keep] / self.weight[keep].sum()

    def _of_rows(self, x_rows: Any, z_rows: FloatArray) -> ArrowFunctionals:  # type: ignore[override]
        return functionals(self.space, x_rows, z_rows)

    def _coefficients(self, function: Callable[[Any], FloatArray]) -> tuple[FloatArray, FloatArray]:
        space, system, k, p = self.space, self.space.system, self.space.k, self.design.p
        flat = self.design.block.k
        of_z = function(functionals(space, sparse.csr_matrix((flat, p)), np.eye(flat)))
        count, none = system.levels.size, np.zeros((p, space.terms.count))
        own = ArrowFunctionals(
            sparse.identity(count, format="csr"), np.zeros((count, k + system.rest.size)), none[:count]
        )
        beside = np.hstack([np.zeros((system.rest.size, k)), np.eye(system.rest.size)])
        rest = ArrowFunctionals(sparse.csr_matrix((system.rest.size, count)), beside, none[: system.rest.size])
        of_levels = self._chunked(own, function)
        out = np.empty((p, *of_levels.shape[1:]))
        out[system.levels] = of_levels
        if system.rest.size:
            out[system.rest] = self._chunked(rest, function)
        return of_z, out / (self.design.scale[:, None] if out.ndim == 2 else self.design.scale)

    def _chunked(self, f: ArrowFunctionals, function: Callable[[Any], FloatArray]) -> FloatArray:  # type: ignore[override]
        step = max(1, CHUNK // max(self.weight.size, f.beside.shape[1]))
        return np.concatenate([function(f.part(slice(i, i + step))) for i in range(0, max(f.count, 1), step)])


def make_arrow_posterior(
    space: ArrowSpace,
    likelihood: Any,
    nodes: tuple[Node, ...],
    weight: FloatArray,
    factors: Factors,
    *,
    has_mean: bool,
    has_variance: bool,
    of: type[ArrowPosterior] = ArrowPosterior,
) -> Any:
    """The mixture over nodes, a posterior of the class `of`."""
    return of(
        space=space,
        nodes=nodes,
        weight=weight,
        mean=np.empty(0),
        covariance=np.empty((0, 0)),
        mean_t2=np.nan,
        has_mean=has_mean,
        has_variance=has_variance,
        likelihood=likelihood.without_rows(),
        factors=factors,
        covariances=tuple(np.einsum("m,mij,mkj->ik", weight, each, each, optimize=True) for each in factors),
    )
