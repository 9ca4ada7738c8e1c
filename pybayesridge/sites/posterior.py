"""Coefficients and linear predictors on the user's scale: a mixture over t2 of Gaussians, never p x p.

As arrays (:meth:`SitesPosterior.as_arrays`): with v the standardised row, the coordinates of a row are ``c = [z
z_root, v right]``, and node i has

    location     sum_j c_j node_mean_ij,
    scale^2      |root_i c|^2 + exp(log_t2_i) |v - v right right'|^2,

root_i being the m rows of ``node_root`` from (i - 1) m + 1 on. These are linear predictors: probabilities are their
logistic or normal distribution function, rates their exponentials. Their posterior means and covariance over all
nodes, among them those whose weight is too small for quantiles, are ``center`` and ``covariance``. Of counts with
a dispersion each node has its log as ``log_shape``; with Student-t noise that of its scale, and ``form``, its degrees
of freedom, where they are averaged over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import ndtri

from pybayesridge._types import AnyArray, FloatArray, IntArray
from pybayesridge.design.design import Design
from pybayesridge.linalg import blas
from pybayesridge.posterior.coefficients import Coefficients
from pybayesridge.posterior.laws import AROUND_MEDIAN, Joint, MixtureLaw
from pybayesridge.posterior.quantiles import Common
from pybayesridge.posterior.responses import Normals, Part, ResponseLaw
from pybayesridge.ridge.explained import number_of_draws
from pybayesridge.ridge.outside import outside_of_columns
from pybayesridge.ridge.posterior import LEFT
from pybayesridge.sites.approximation import Node
from pybayesridge.sites.coordinates import Coordinates, Scaled
from pybayesridge.sites.likelihood import Likelihood
from pybayesridge.text import TABLE_ROWS

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

COLUMNS = 4096
"""Columns whose coefficients are looked at together."""

ELEMENTS = 1 << 18
"""Most elements of a temporary array over nodes and functionals."""


@dataclass(frozen=True, slots=True)
class SitesFunctionals:
    """m linear functions of the coordinates and of what lies outside the row space.

    Attributes
    ----------
    coords : (m, k + r) array
    outside : (m,) array
        Squared norm of the part outside the row space, which has the prior's variance t2.
    """

    coords: FloatArray
    outside: FloatArray

    @property
    def count(self) -> int:
        """M."""
        return int(self.outside.shape[0])


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
    space : Coordinates
    nodes : tuple of K approximations
    weight : (K,) array
        Sums to 1.
    mean : (k + r,) array
        Posterior mean of the coordinates.
    covariance : (k + r, k + r) array
        Their posterior covariance, over the nodes.
    mean_t2 : float
        Posterior mean of t2: the variance outside the row space; inf where it does not exist.
    has_mean, has_variance : bool
        Whether coefficients have a posterior mean and variance: where the columns separate the responses the tail
        of t2 can be too heavy. Medians and quantiles, and everything about probabilities, always exist.
    likelihood : Likelihood
        Of none of the rows: the mean of a response, and the variance of the latent noise.
    """

    joint_law: ClassVar[Joint] = "exact"
    has_point_masses: ClassVar[bool] = False

    space: Coordinates
    nodes: tuple[Node, ...]
    weight: FloatArray
    mean: FloatArray
    covariance: FloatArray
    mean_t2: float
    has_mean: bool
    has_variance: bool
    likelihood: Likelihood

    @property
    def link(self) -> str:
        """The link of the family."""
        return str(self.likelihood.link)

    @property
    def design(self) -> Design:
        """The columns, and the way back to the user's scale."""
        return self.space.design

    def without_rows(self, nodes: tuple[Node, ...]) -> SitesPosterior:
        """The same without what runs over rows, of `nodes` without it; those of negligible weight are left out."""
        keep = np.flatnonzero(self.weight > NEGLIGIBLE)
        weight = self.weight[keep] / self.weight[keep].sum()
        kept = tuple(nodes[i] for i in keep)
        return replace(self, space=self.space.without_rows(), nodes=kept, weight=weight)

    def as_arrays(self) -> dict[str, Any]:
        """Arrays from which the posterior is made again; they are defined at the head of this file.

        Raises
        ------
        ValueError
            If they are too large.
        """
        space, design, keep = self.space, self.design, np.flatnonzero(self.weight > NEGLIGIBLE)
        unit = self._root_units()
        if len({self.nodes[i].form for i in keep}) > 1 and keep.size * unit.size**2 > MOST_OF_NODES:
            raise ValueError(
                f"the joint posterior of {unit.size:,} coefficients at {keep.size:,} penalties, scales and degrees "
                "of freedom of the noise is too large for R: give 'df', or use fewer columns"
            )
        parts = [self._mean_and_root(i) for i in keep.tolist()]
        right = space.spectrum.with_right(design).right
        right = np.zeros((design.p, 0)) if right is None else right
        return {
            **self._shared_arrays(keep),
            "log_t2": np.array([[self.nodes[i].log_t2] for i in keep]),
            "s": space.spectrum.s * space.spectrum.top,
            "right": right,
            "outside": outside_of_columns(design, space.spectrum, 0, right),
            "node_mean": np.stack([mean for mean, _ in parts]) * unit,
            "node_root": np.concatenate([root for _, root in parts]) * unit,
            "mean_t2": float(self.mean_t2),
        }

    def _shared_arrays(self, keep: IntArray) -> dict[str, Any]:
        """What several bands have too: the weights of some of the nodes, and the moments over all."""
        unit, (mean, covariance) = self._root_units(), self._moments()
        return {
            "y_on_z": np.zeros((self.space.k, 1)),
            "y_norm": np.ones(1),
            "weight": (self.weight[keep] / self.weight[keep].sum())[:, None],
            "df": float("inf"),
            "center": mean * unit,
            "covariance": covariance * np.outer(unit, unit),
            "has_mean": bool(self.has_mean),
            "has_variance": bool(self.has_variance),
        }

    def _moments(self) -> tuple[FloatArray, FloatArray]:
        """Posterior mean and covariance of the coordinates that are handed over as arrays."""
        return self.mean, self.covariance

    def _root_units(self) -> FloatArray:
        """From coordinates to those of ``z z_root`` and the rest, (k + r,)."""
        return np.r_[np.full(self.space.k, np.sqrt(self.design.n)), np.ones(self.space.rank)]

    def _mean_and_root(self, node: int) -> tuple[FloatArray, FloatArray]:
        """Mean and root of the covariance of a node, in the coordinates of the rows."""
        gaussian, units = self.nodes[node].gaussian(self.space), _units(self.space, self.nodes[node].log_t2)
        root = solve_triangular(gaussian.factor, np.eye(units.size), lower=True, check_finite=False)
        return gaussian.mean * units, root * units

    @property
    def coefficients(self) -> SitesCoefficients:
        """The posterior of each coefficient."""
        return SitesCoefficients(self, TABLE_ROWS)

    def of_targets(self, which: slice) -> SitesPosterior:
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
        design, k, p = self.design, self.space.k, self.design.p
        x_rows = np.vstack([np.zeros((k, p)), np.eye(p) * design.scale])
        z_rows = np.vstack([np.eye(k), np.zeros((p, k))])
        f = self._of_rows(x_rows, z_rows)
        out = blas.product(blas.product(f.coords, self.covariance), f.coords.T)
        if self.space.rank < p:
            rows = design.rows_outside_z(x_rows, z_rows)
            inside = np.ascontiguousarray(f.coords[:, k:].T)
            rest = rows - self.space.spectrum.standardized_coefficients(design, inside).T
            out += self.mean_t2 * blas.product(rest, rest.T)
        unit = np.concatenate([np.ones(k), 1.0 / design.scale])
        return out * unit[:, None] * unit

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
        """The joint law of the linear predictors of a few rows; None where these are not in the row space."""
        f = self._of_rows(x_rows, z_rows)
        if f.outside.any():
            return None
        order = np.argsort(self.weight)
        keep = np.sort(order[np.cumsum(self.weight[order]) > LEFT_OUT])
        mean, root = np.empty((keep.size, f.count)), np.empty((keep.size, *f.coords.shape))
        with blas.one_pool(self.space.flops):
            for i, node in enumerate(keep):
                gaussian = self.nodes[node].gaussian(self.space)
                coords = f.coords * _units(self.space, self.nodes[node].log_t2)
                mean[i] = blas.product(coords, gaussian.mean[:, None])[:, 0]
                root[i] = blas.product(coords, gaussian.root())
        return Components(self.weight[keep] / self.weight[keep].sum(), mean, root)

    def draws(self, count: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Draws of the unpenalised (count, k) and penalised (count, p) coefficients, user's scale."""
        of_z, b, _ = self.draws_with_nodes(count, rng)
        return of_z, b

    def draws_with_nodes(self, count: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray, IntArray]:
        """The same and the nodes that they come from, (count,)."""
        of_coordinates, which = self.coordinate_draws(count, rng)
        return *self.on_user_scale(of_coordinates, which, rng), which

    def on_user_scale(
        self, of_coordinates: FloatArray, which: IntArray, rng: np.random.Generator
    ) -> tuple[FloatArray, FloatArray]:
        """Draws of coefficients, unpenalised and penalised, from draws of coordinates and their nodes."""
        space, design, k, count = self.space, self.space.design, self.space.k, which.size
        t = np.exp(0.5 * np.array([node.log_t2 for node in self.nodes]))[which]
        inside = np.ascontiguousarray(of_coordinates[:, k:].T)
        if space.rank < design.p:
            prior = rng.standard_normal((count, design.p))
            inside_of_prior = space.spectrum.project_rows(design, prior)
            b = space.spectrum.standardized_coefficients(design, inside - (t[:, None] * inside_of_prior).T).T
            b = b + t[:, None] * prior
        else:
            b = space.spectrum.standardized_coefficients(design, inside).T
        b = b / design.scale
        h = of_coordinates[:, :k] @ to_user(design).T
        return h + design.taken_from_z(np.ascontiguousarray(b.T)).T, b

    def coordinate_draws(self, count: int, rng: np.random.Generator) -> tuple[FloatArray, IntArray]:
        """Draws of the coordinates of the rows (count, k + r), and the nodes that they come from (count,)."""
        space, k = self.space, self.space.k
        which = rng.choice(self.weight.size, size=count, p=self.weight)
        of_coordinates = np.empty((count, k + space.rank))
        for node in np.unique(which):
            rows = np.flatnonzero(which == node)
            gaussian = self.nodes[node].gaussian(space)
            noise = rng.standard_normal((k + space.rank, rows.size))
            noise = solve_triangular(gaussian.factor, noise, lower=True, trans="T", check_finite=False)
            of_coordinates[rows] = (gaussian.mean[:, None] + noise).T * _units(space, self.nodes[node].log_t2)
        return of_coordinates, which

    def latent_share(self, rng: np.random.Generator) -> FloatArray:
        """Draws, ascending, of the share of latent variance that the penalised columns explain at the rows.

        With g their part of the linear predictor (the unpenalised columns projected out, rows weighted by their
        trials to a mean weight of 1) and c the variance of the latent noise it is ``|g|^2 / (|g|^2 + n c)``. In
        coordinates a of the row space ``|g|^2`` is ``sum_j s_j^2 a_j^2``.
        """
        space, spectrum = self.space, self.space.spectrum
        coordinates, which = self.coordinate_draws(number_of_draws(space.rank), rng)
        explained = (coordinates[:, space.k :] ** 2) @ (spectrum.s * spectrum.top) ** 2
        noise = np.array([self.likelihood.of_node(node).latent_variance for node in self.nodes])[which]
        out: FloatArray = np.sort(explained / (explained + space.design.n * noise))
        return out

    def _means(self, f: SitesFunctionals) -> FloatArray:
        if not self.has_mean:
            return np.full(f.count, np.nan)
        return f.coords @ self.mean

    def _variances(self, f: SitesFunctionals) -> FloatArray:
        if not self.has_variance:
            return np.full(f.count, np.inf)
        out: FloatArray = np.einsum("ij,ij->i", blas.product(f.coords, self.covariance), f.coords)
        beyond = f.outside > 0
        out[beyond] += f.outside[beyond] * self.mean_t2
        return np.maximum(out, 0.0)

    def _at_nodes(self, f: SitesFunctionals) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Mean and standard deviation at each node that matters, (K, m), and the nodes' weights."""
        keep = np.flatnonzero(self.weight > NEGLIGIBLE)
        mean, sd = np.empty((2, keep.size, f.count))
        coords = np.asfortranarray(f.coords)
        with blas.one_pool(self.space.flops):
            for i, node in enumerate(keep):
                log_t2 = self.nodes[node].log_t2
                gaussian = self.nodes[node].gaussian(self.space)
                rows = Scaled(coords, self.space.k, _units(self.space, log_t2))
                mean[i] = rows.times(gaussian.mean)
                sd[i] = np.sqrt(gaussian.variances(rows) + f.outside * np.exp(log_t2))
        return mean, sd, self.weight[keep] / self.weight[keep].sum()

    def _quantiles(self, f: SitesFunctionals, probabilities: FloatArray) -> FloatArray:
        mean, sd, weight = self._at_nodes(f)
        return Common(mean, sd, weight, np.inf).quantiles(probabilities)

    def _response_means(self, f: SitesFunctionals) -> FloatArray:
        if not self.likelihood.has_mean:
            return self.likelihood.mean(self._quantiles(f, MIDDLE)[:, 0])
        mean, sd, weight = self._at_nodes(f)
        out: FloatArray = weight @ self.likelihood.mean_over(mean, sd**2)
        return out

    def _response_sds(self, f: SitesFunctionals) -> FloatArray:
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

    def _of_rows(self, x_rows: AnyArray, z_rows: FloatArray) -> SitesFunctionals:
        space, design = self.space, self.space.design
        rows = design.rows_outside_z(x_rows, z_rows)
        inside = space.spectrum.project_rows(design, rows)
        outside = np.zeros(rows.shape[0])
        if space.rank < design.p:
            left = rows - space.spectrum.standardized_coefficients(design, np.ascontiguousarray(inside.T)).T
            rest, whole = (np.einsum("ij,ij->i", a, a) for a in (left, rows))
            outside = np.where(rest > LEFT * whole, rest, 0.0)
        return SitesFunctionals(np.hstack([z_rows @ to_user(design), inside]), outside)

    def _coefficients(self, function: Callable[[SitesFunctionals], FloatArray]) -> tuple[FloatArray, FloatArray]:
        space, design, k = self.space, self.space.design, self.space.k
        of_z = function(self._of_rows(np.zeros((k, design.p)), np.eye(k)))
        pieces = []
        for part, right in _gathered(space.spectrum.right_pieces(design)):
            m = right.shape[0]
            outside = outside_of_columns(design, space.spectrum, part.start, right)
            values = self._chunked(SitesFunctionals(np.hstack([np.zeros((m, k)), right]), outside), function)
            unit = 1.0 / design.scale[part]
            pieces.append(values * (unit[:, None] if values.ndim == 2 else unit))
        if not pieces:
            return of_z, function(SitesFunctionals(np.empty((0, k + space.rank)), np.empty(0)))
        return of_z, np.concatenate(pieces)

    def _chunked(self, f: SitesFunctionals, function: Callable[[SitesFunctionals], FloatArray]) -> FloatArray:
        step = max(1, ELEMENTS // max(self.weight.size, 1))
        parts = range(0, max(f.count, 1), step)
        return np.concatenate(
            [function(SitesFunctionals(f.coords[i : i + step], f.outside[i : i + step])) for i in parts]
        )


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


def _gathered(pieces: Iterator[tuple[slice, FloatArray]]) -> Iterator[tuple[slice, FloatArray]]:
    """The same rows of V in parts that are large enough for what every part costs at every node."""
    held: list[FloatArray] = []
    start = 0
    for part, right in pieces:
        start = part.start if not held else start
        held.append(right)
        if part.stop - start >= COLUMNS:
            yield slice(start, part.stop), np.concatenate(held)
            held = []
    if held:
        yield slice(start, part.stop), np.concatenate(held)


def make_posterior(
    space: Coordinates,
    likelihood: Likelihood,
    nodes: tuple[Node, ...],
    weight: FloatArray,
    *,
    has_mean: bool,
    has_variance: bool,
    t2_has_mean: bool,
    of: type[SitesPosterior] = SitesPosterior,
) -> Any:
    """Average the nodes' means and covariances; a posterior of the class `of`."""
    size = space.k + space.rank
    covariance = np.zeros((size, size))
    means = np.empty((weight.size, size))
    with blas.one_pool(space.flops):
        for i, node in enumerate(nodes):
            gaussian, units = node.gaussian(space), _units(space, node.log_t2)
            means[i] = gaussian.mean * units
            covariance += weight[i] * gaussian.covariance() * np.outer(units, units)
        mean = weight @ means
        centred = (means - mean) * np.sqrt(weight)[:, None]
        covariance += blas.product(centred, centred, transpose_a=True)
    mean_t2 = float(weight @ np.exp([node.log_t2 for node in nodes])) if t2_has_mean else np.inf
    return of(space, nodes, weight, mean, covariance, mean_t2, has_mean, has_variance, likelihood.without_rows())


def _units(space: Coordinates, log_t2: float) -> FloatArray:
    """From coordinates of unit prior variance to those of the rows, (k + r,)."""
    return np.r_[np.ones(space.k), np.full(space.rank, np.exp(0.5 * log_t2))]


def to_user(design: Design) -> FloatArray:
    """From flat coordinates to coefficients of the unpenalised columns, (k, k)."""
    out: FloatArray = design.block.regress(np.eye(design.block.k)) * np.sqrt(design.n)
    return out
