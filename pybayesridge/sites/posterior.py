"""Coefficients and linear predictors on the user's scale: a mixture over t2, or several variances, of Gaussians.

As arrays (:meth:`SitesPosterior.as_arrays`): with v the standardised row, the coordinates of a row are ``c = [z
z_root, v right]``, and node i has

    location     sum_j c_j node_mean_ij,
    scale^2      |root_i c|^2 + exp(log_t2_i) |v - v right right'|^2,

root_i being the m rows of ``node_root`` from (i - 1) m + 1 on. These are linear predictors: probabilities are their
logistic or normal distribution function, rates their exponentials. Their posterior means and covariance over all
nodes, among them those whose weight is too small for quantiles, are ``center`` and ``covariance``. Of counts with
a dispersion each node has its log as ``log_shape``; with Student-t noise that of its scale, and ``form``, its degrees
of freedom, where they are averaged over.

With several penalties the coordinates are ``c = [z z_root, v]``, and nodes are over the variances and correlations of
the effects, as in :mod:`pybayesridge.bands.mixed_posterior`. An effect of a level that the fit has not seen adds
``|A' unseen|^2``, in the mean over all nodes ``unseen' band_covariance unseen``. Of ordered categories the distances
of cut points are coordinates before those.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from scipy.special import ndtri

from pybayesridge._types import AnyArray, FloatArray, IntArray
from pybayesridge.design.design import Design
from pybayesridge.linalg import blas
from pybayesridge.posterior.coefficients import Coefficients
from pybayesridge.posterior.laws import AROUND_MEDIAN, Joint, MixtureLaw
from pybayesridge.posterior.quantiles import Common
from pybayesridge.posterior.responses import Normals, Part, ResponseLaw
from pybayesridge.ridge.explained import LEAST, number_of_draws
from pybayesridge.sites.approximation import Node
from pybayesridge.sites.coordinates import Coordinates
from pybayesridge.sites.likelihood import Likelihood
from pybayesridge.sites.node_laws import law_at
from pybayesridge.text import TABLE_ROWS

if TYPE_CHECKING:
    from pybayesridge.bands.covariance import Factors
    from pybayesridge.sites.arrow_bands import ArrowSpace
    from pybayesridge.sites.bands import BandSpace

    Space = Coordinates | BandSpace | ArrowSpace

NEGLIGIBLE = 1e-7
"""Nodes of smaller weight move no quantile visibly; means and variances take all nodes."""

LEFT_OUT = 1e-5
"""Total weight of nodes that are left out where the others' joint law is handed over."""

MOST_OF_NODES = 1 << 24
"""Most numbers in the roots of the covariances of all nodes that are handed over as arrays, 128 MB."""

NO_COVARIANCE = (
    "the coefficients have no posterior covariance: the columns separate the responses, and the tail of the "
    "posterior of the penalty is too heavy; use conf_int() or sample()"
)
"""The message of what needs one."""

MIDDLE = np.array([0.5])

LEVELS = 256
"""Equally likely values of a normal variable in place of its distribution."""

MOST_COEFFICIENTS = 3_000
"""Covariances of more coefficients are not made as one matrix where a factor has very many levels."""


@dataclass(frozen=True, slots=True)
class Components:
    """A mixture of normal laws of q coefficients.

    Attributes
    ----------
    weight : (K,) array
        Sums to 1.
    mean : (K, q) array
    root : (K, q, d) array
        Times its transpose the covariance.
    """

    weight: FloatArray
    mean: FloatArray
    root: FloatArray


@dataclass(frozen=True, slots=True)
class SitesPosterior:
    """The joint posterior of all coefficients.

    Attributes
    ----------
    space : Coordinates, BandSpace or ArrowSpace
        The rows' coordinates, and the way back.
    nodes : tuple of K approximations
    weight : (K,) array
        Sums to 1.
    mean : (k + r,) array
        Posterior mean of the coordinates; (0,) where a factor has very many levels.
    covariance : (k + r, k + r) array
        Their posterior covariance, over the nodes; likewise.
    mean_t2 : float
        Posterior mean of t2: the variance outside the row space; inf where it does not exist.
    has_mean, has_variance : bool
        Whether coefficients have a posterior mean and variance: where the columns separate the responses the tail
        of t2 can be too heavy. Medians and quantiles, and everything about probabilities, always exist.
    likelihood : Likelihood
        Of none of the rows: the mean of a response, and the variance of the latent noise.
    factors : tuple of (K, q, q) arrays
        Of several penalties: roots of the covariances of each term at the nodes.
    covariances : tuple of (q, q) arrays
        Posterior means of the covariances of effects.
    """

    joint_law: ClassVar[Joint] = "exact"
    has_point_masses: ClassVar[bool] = False

    space: Space
    nodes: tuple[Node, ...]
    weight: FloatArray
    mean: FloatArray
    covariance: FloatArray
    mean_t2: float
    has_mean: bool
    has_variance: bool
    likelihood: Likelihood
    factors: Factors = ()
    covariances: tuple[FloatArray, ...] = ()

    @property
    def link(self) -> str:
        """The link of the family."""
        return str(self.likelihood.link)

    @property
    def design(self) -> Design:
        """The columns, and the way back to the user's scale."""
        return self.space.design

    def without_rows(self, nodes: tuple[Node, ...]) -> Self:
        """The same without what runs over rows, of those `nodes` without it that have no negligible weight."""
        keep = np.flatnonzero(self.weight > NEGLIGIBLE)
        weight = self.weight[keep] / self.weight[keep].sum()
        factors = tuple(each[keep] for each in self.factors)
        return replace(self, space=self.space.without_rows(), nodes=nodes, weight=weight, factors=factors)

    def as_arrays(self) -> dict[str, Any]:
        """Arrays from which the posterior is made again; they are defined at the head of this file.

        Raises
        ------
        ValueError
            If they are too large.
        """
        space: Any = self.space
        keep = np.flatnonzero(self.weight > NEGLIGIBLE)
        unit = np.r_[
            np.ones(space.distances), np.full(self.design.block.k, np.sqrt(self.design.n)), np.ones(space.rank)
        ]
        self._check_size(keep, unit.size)
        parts = [self._law(i).of_coordinates() for i in keep.tolist()]
        log_t2, factors = self._log_t2()[keep], tuple(each[keep] for each in self.factors)
        return {
            "y_on_z": np.zeros((space.k, 1)),
            "y_norm": np.ones(1),
            "weight": (self.weight[keep] / self.weight[keep].sum())[:, None],
            "df": float("inf"),
            "center": self.mean * unit,
            "covariance": self.covariance * np.outer(unit, unit),
            "has_mean": bool(self.has_mean),
            "has_variance": bool(self.has_variance),
            "node_mean": np.stack([mean for mean, _ in parts]) * unit,
            "node_root": np.concatenate([root.T for _, root in parts]) * unit,
            **space.as_arrays(log_t2, self.mean_t2, factors, self.covariances),
        }

    def _check_size(self, keep: IntArray, size: int) -> None:
        several = len({self.nodes[i].form for i in keep}) > 1
        if keep.size * size**2 <= MOST_OF_NODES or not (self.factors or several):
            return
        if self.factors:
            where, fewer = "sets of variances", "groups with fewer levels or fewer terms"
            instead = ", or give 'df'" if several else ", or method='reml'" if np.isnan(self.likelihood.form) else ""
            remedy = f"use {fewer}{instead}"
        else:
            where = "penalties, scales and degrees of freedom of the noise"
            remedy = "give 'df', or use fewer columns"
        raise ValueError(
            f"the joint posterior of {size:,} coefficients at {keep.size:,} {where} is too large for R: {remedy}"
        )

    @property
    def coefficients(self) -> SitesCoefficients:
        """The posterior of each coefficient."""
        return SitesCoefficients(self, TABLE_ROWS)

    def of_targets(self, which: slice) -> Self:
        """The same, of the only target."""
        return self

    def coefficient_means(self) -> tuple[FloatArray, FloatArray]:
        """Posterior means of the unpenalised (k,) and penalised (p,) coefficients; nan where there is none."""
        return self._coefficients(self._means)

    def coefficient_sds(self) -> tuple[FloatArray, FloatArray]:
        """Posterior standard deviations of the same."""
        return self._coefficients(lambda f: np.sqrt(self._variances(f)))

    def coefficient_quantiles(self, probabilities: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Posterior quantiles, (k, m) and (p, m)."""
        return self._coefficients(lambda f: self._quantiles(f, probabilities))

    def covariance_of_coefficients(self) -> FloatArray:
        """Posterior covariance of (unpenalised, penalised) coefficients, (k + p, k + p), where there is one."""
        design, k, p = self.design, self.design.block.k, self.design.p
        if not self.space.joint and k + p > MOST_COEFFICIENTS:
            raise ValueError(
                f"the covariance matrix of {k + p:,} coefficients is not made: use contrast(), predictions or "
                "sample(), which take any of them together"
            )
        x_rows, z_rows = np.vstack([np.zeros((k, p)), np.diag(design.scale)]), np.eye(k + p, k)
        f, unit = self.space.functionals(x_rows, z_rows), np.concatenate([np.ones(k), 1.0 / design.scale])
        return self._covariance(f, x_rows, z_rows) * unit[:, None] * unit

    def _covariance(self, f: Any, x_rows: FloatArray, z_rows: FloatArray) -> FloatArray:
        """Posterior covariance of linear predictors, over all nodes, or over those that matter."""
        space: Any = self.space
        if space.joint:
            own = blas.product(blas.product(f.coords, self.covariance), f.coords.T)
            return own + space.covariance_outside(x_rows, z_rows, f.coords, self.mean_t2)
        keep = np.flatnonzero(self.weight > NEGLIGIBLE)
        out, means, weight = np.zeros((f.count, f.count)), np.empty((keep.size, f.count)), self.weight[keep]
        for i, node in enumerate(keep.tolist()):
            means[i], own = self._law(node).covariance(f)
            out += weight[i] * own
        centred = (means - weight @ means) * np.sqrt(weight)[:, None]
        return out + centred.T @ centred

    def rows(self, x_rows: AnyArray, z_rows: FloatArray, offset: FloatArray | float = 0.0) -> MixtureLaw:
        """The law of the linear predictor of rows plus `offset` (m,).

        Parameters
        ----------
        x_rows : (m, p) array
            The penalised columns that vary, on the user's scale.
        z_rows : (m, k) array
            The unpenalised columns.
        offset : (m,) array
        """
        f = self._of_rows(x_rows, z_rows)
        center, scale, weight = self._at_nodes(f)
        shift = np.zeros(f.count) + offset
        components, mean = Common(center, scale, weight, np.inf), self._means(f)
        middle = mean if self.has_mean else components.quantiles(MIDDLE)[:, 0]
        sd, silent = np.sqrt(self._variances(f)), np.zeros(weight.size)
        return MixtureLaw(components, mean + shift, middle + shift, sd, shift, 1.0, silent)

    def new_responses(
        self,
        x_rows: AnyArray,
        z_rows: FloatArray,
        offset: FloatArray | float = 0.0,
        extent: FloatArray | None = None,
    ) -> ResponseLaw:
        """The law of a new response at rows of some extent, whose linear predictors have an `offset`; both (m,)."""
        center, scale, weight = self._at_nodes(self._of_rows(x_rows, z_rows))
        center = center + offset
        nodes = [self.nodes[i] for i in np.flatnonzero(self.weight > NEGLIGIBLE)]
        further = np.nan_to_num(np.array([[node.log_shape, node.form] for node in nodes]))
        _, first, which = np.unique(further, axis=0, return_index=True, return_inverse=True)
        parts = []
        for i, node in enumerate(first.tolist()):
            own = np.flatnonzero(which.reshape(-1) == i)
            share = float(weight[own].sum())
            linear = Normals(Common(center[own], scale[own], weight[own] / share, np.inf))
            likelihood = self.likelihood.of_node(nodes[node])
            parts.append(Part(share, linear, likelihood.up_to, likelihood.around, extent))
        return ResponseLaw(parts, self.likelihood.whole)

    def coefficient_centers(self) -> tuple[FloatArray, FloatArray]:
        """Likewise of the unpenalised (k,) and penalised (p,) coefficients."""
        if self.has_mean:
            return self.coefficient_means()
        of_z, b = self.coefficient_quantiles(MIDDLE)
        return of_z[:, 0], b[:, 0]

    def response_means(self, x_rows: AnyArray, z_rows: FloatArray) -> FloatArray:
        """Posterior mean of the mean of a response at rows, (m,); the median where the likelihood has no means."""
        return self._chunked(self._of_rows(x_rows, z_rows), self._response_means)

    def response_sds(self, x_rows: AnyArray, z_rows: FloatArray) -> FloatArray:
        """Posterior standard deviation of the mean of a response at rows, (m,), to about four digits.

        Where the likelihood has no means it is half the distance of the quantiles at one standard deviation of a
        normal distribution.
        """
        return self._chunked(self._of_rows(x_rows, z_rows), self._response_sds)

    def components(self, x_rows: AnyArray, z_rows: FloatArray) -> Components | None:
        """The joint law of the linear predictors of a few rows; None where these are not of the coordinates alone."""
        f = self._of_rows(x_rows, z_rows)
        if f.outside.any():
            return None
        order = np.argsort(self.weight)
        keep = np.sort(order[np.cumsum(self.weight[order]) > LEFT_OUT])
        with blas.one_pool(self.space.flops):
            found = [self._law(node).roots(f) for node in keep.tolist()]
        mean, root = np.stack([mean for mean, _ in found]), np.stack([root for _, root in found])
        return Components(self.weight[keep] / self.weight[keep].sum(), mean, root)

    def draws(self, count: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Draws of the unpenalised (count, k) and penalised (count, p) coefficients, user's scale."""
        of_z, b, _ = self.draws_with_nodes(count, rng)
        return of_z, b

    def draws_with_nodes(self, count: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray, IntArray]:
        """The same and the nodes that they come from, (count,)."""
        drawn, which = self._drawn(count, rng)
        return *self.space.on_user_scale(drawn, self._log_t2()[which], rng), which

    def _drawn(self, count: int, rng: np.random.Generator) -> tuple[FloatArray, IntArray]:
        """Draws of the coordinates of the rows (k + r, count), and the nodes that they come from (count,)."""
        which = rng.choice(self.weight.size, size=count, p=self.weight)
        out = np.empty((self.space.k + self.space.rank, count))
        for node in np.unique(which).tolist():
            at = np.flatnonzero(which == node)
            out[:, at] = self._law(node).drawn(rng.standard_normal((out.shape[0], at.size)))
        return out, which

    def latent_share(self, rng: np.random.Generator) -> FloatArray:
        """Draws, ascending, of the share of latent variance that the penalised columns explain at the rows.

        With g their part of the linear predictor (the unpenalised columns projected out, rows weighted by their
        trials to a mean weight of 1) and c the variance of the latent noise it is ``|g|^2 / (|g|^2 + n c)``.
        """
        space = self.space
        count = number_of_draws(space.rank)
        drawn, which = self._drawn(count if space.joint else max(LEAST, count // 2), rng)
        explained = space.squares(drawn[space.k :])
        noise = np.array([self.likelihood.of_node(node).latent_variance for node in self.nodes])[which]
        out: FloatArray = np.sort(explained / (explained + space.design.n * noise))
        return out

    def _law(self, node: int) -> Any:
        """The joint law at a node."""
        return law_at(self.space, self.nodes[node], self._factors_at(node))

    def _factors_at(self, node: int) -> Factors:
        return tuple(each[node] for each in self.factors)

    def _log_t2(self) -> FloatArray:
        return np.array([node.log_t2 for node in self.nodes])

    def _means(self, f: Any) -> FloatArray:
        if not self.has_mean:
            return np.full(f.count, np.nan)
        if self.space.joint:
            return f.coords @ self.mean
        mean, _, weight = self._at_nodes(f)
        return weight @ mean

    def _variances(self, f: Any) -> FloatArray:
        if not self.has_variance:
            return np.full(f.count, np.inf)
        if self.space.joint:
            out: FloatArray = np.einsum("ij,ij->i", blas.product(f.coords, self.covariance), f.coords)
            out += self.space.mean_variance_outside(f.outside, self.mean_t2, self.covariances)
            return np.maximum(out, 0.0)
        mean, sd, weight = self._at_nodes(f)
        return weight @ (sd**2 + (mean - weight @ mean) ** 2)

    def _at_nodes(self, f: Any) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Mean and standard deviation at each node that matters, (K, m), and the nodes' weights."""
        keep, f = np.flatnonzero(self.weight > NEGLIGIBLE), f.by_columns()
        mean, sd = np.empty((2, keep.size, f.count))
        with blas.one_pool(self.space.flops):
            for i, node in enumerate(keep.tolist()):
                mean[i], sd[i] = self._law(node).moments(f)
        return mean, sd, self.weight[keep] / self.weight[keep].sum()

    def _quantiles(self, f: Any, probabilities: FloatArray) -> FloatArray:
        mean, sd, weight = self._at_nodes(f)
        return Common(mean, sd, weight, np.inf).quantiles(probabilities)

    def _response_means(self, f: Any) -> FloatArray:
        if not self.likelihood.has_mean:
            return self.likelihood.mean(self._quantiles(f, MIDDLE)[:, 0])
        mean, sd, weight = self._at_nodes(f)
        out: FloatArray = weight @ self.likelihood.mean_over(mean, sd**2)
        return out

    def _response_sds(self, f: Any) -> FloatArray:
        if not self.likelihood.has_mean:
            ends = self.likelihood.mean(self._quantiles(f, np.array(AROUND_MEDIAN)))
            half: FloatArray = 0.5 * (ends[:, 2] - ends[:, 0])
            return half
        mean, sd, weight = self._at_nodes(f)
        normal = ndtri((np.arange(LEVELS) + 0.5) / LEVELS)
        first, second = np.zeros((2, f.count))
        for share, m, s in zip(weight, mean, sd, strict=True):
            at = self.likelihood.mean(m[:, None] + s[:, None] * normal)
            first += share * at.mean(axis=1)
            second += share * (at**2).mean(axis=1)
        return np.sqrt(np.maximum(second - first**2, 0.0))

    def _of_rows(self, x_rows: AnyArray, z_rows: FloatArray) -> Any:
        return self.space.functionals(x_rows, z_rows)

    def _coefficients(self, function: Callable[[Any], FloatArray]) -> tuple[FloatArray, FloatArray]:
        k, p, scale = self.design.block.k, self.design.p, self.design.scale
        of_z = function(self.space.functionals(np.zeros((k, p)), np.eye(k)))
        b = np.empty((p, *of_z.shape[1:]))
        for at, f in self.space.of_coefficients():
            b[at] = self._chunked(f, function)
        return of_z, b / (scale[:, None] if b.ndim == 2 else scale)

    def _chunked(self, f: Any, function: Callable[[Any], FloatArray]) -> FloatArray:
        step = self.space.chunk(self.weight.size)
        return np.concatenate([function(f.part(slice(i, i + step))) for i in range(0, max(f.count, 1), step)])


@dataclass(frozen=True, slots=True)
class SitesCoefficients(Coefficients):
    """The coefficients of a ridge that may have no posterior means."""

    posterior: SitesPosterior

    def means(self) -> tuple[FloatArray, FloatArray]:
        """Means, and medians where there are none."""
        mean = self.joined(self.posterior.coefficient_means())
        return mean, mean if self.posterior.has_mean else self.joined(self.posterior.coefficient_centers())

    def covariance(self, target: int = 0) -> FloatArray:
        """Posterior covariance of all coefficients, (k + p, k + p)."""
        if not self.posterior.has_variance:
            raise ValueError(NO_COVARIANCE)
        return self.posterior.covariance_of_coefficients()


def make_posterior(
    space: Space,
    likelihood: Likelihood,
    nodes: tuple[Node, ...],
    weight: FloatArray,
    factors: Factors = (),
    *,
    has_mean: bool,
    has_variance: bool,
    t2_has_mean: bool = True,
    of: type[SitesPosterior] = SitesPosterior,
) -> Any:
    """Average the nodes' means and covariances; a posterior of the class `of`."""
    mean, covariance = _moments(space, nodes, weight, factors) if space.joint else (np.empty(0), np.empty((0, 0)))
    return of(
        space=space,
        nodes=nodes,
        weight=weight,
        mean=mean,
        covariance=covariance,
        mean_t2=float(weight @ np.exp([node.log_t2 for node in nodes])) if t2_has_mean else np.inf,
        has_mean=has_mean,
        has_variance=has_variance,
        likelihood=likelihood.without_rows(),
        factors=factors,
        covariances=tuple(np.einsum("m,mij,mkj->ik", weight, each, each, optimize=True) for each in factors),
    )


def _moments(
    space: Space, nodes: tuple[Node, ...], weight: FloatArray, factors: Factors
) -> tuple[FloatArray, FloatArray]:
    """Mean and covariance of the coordinates over all nodes."""
    size = space.k + space.rank
    covariance, means = np.zeros((size, size)), np.empty((weight.size, size))
    with blas.one_pool(space.flops):
        for i, node in enumerate(nodes):
            means[i], root = law_at(space, node, tuple(each[i] for each in factors)).of_coordinates()
            covariance += weight[i] * blas.product(root, root.T)
        mean = weight @ means
        centred = (means - mean) * np.sqrt(weight)[:, None]
        covariance += blas.product(centred, centred, transpose_a=True)
    return mean, covariance
