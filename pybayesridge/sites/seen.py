"""Approximations at several places, each started from those nearby."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from pybayesridge._types import FloatArray
from pybayesridge.bands.covariance import Factors
from pybayesridge.sites.approximation import Approximation
from pybayesridge.sites.arrow_bands import ArrowSpace
from pybayesridge.sites.bands import BandsAt, BandSpace
from pybayesridge.sites.coordinates import Space
from pybayesridge.sites.ep import expanded, expectation_propagation
from pybayesridge.sites.fit import node_by_ep
from pybayesridge.sites.gaussian import Sites
from pybayesridge.sites.laplace import laplace
from pybayesridge.sites.laplace_together import MOST_PRODUCTS, laplace_together
from pybayesridge.sites.levels import Levels, by_levels
from pybayesridge.sites.likelihood import Likelihood
from pybayesridge.sites.nodes import LAPLACE

SITE_TOL = 1e-4
"""Accuracy of the approximation at a node, in posterior standard deviations."""

NEIGHBOURS = 12
"""Sites are interpolated between at most this many nodes."""

SMOOTH, FINEST = 3.0, 1e-3
"""Distance over which sites change, relative to that of the nearest nodes, and the error these are taken to have."""

MOST_NUMBERS = 1 << 25
"""Most numbers of joint posteriors that are kept of each value of a further parameter, of all forms together."""


@dataclass(slots=True)
class Seen:
    """Approximations at several places, each started from those nearby.

    Attributes
    ----------
    space : BandSpace
    likelihood : Likelihood
    solver : {"ep", "laplace"}
    maxiter : int
        Of the solver.
    most : int
        Most numbers of joint posteriors that are kept.
    products : (n, D^2) array or None
        Products of all pairs of columns, once they are made.
    levels : Levels or None
        What is refined by quadrature over the effects of levels.
    places : (m, d) array
        The first of its rows are the places of what was found.
    found : list of Approximation
    """

    space: BandSpace | ArrowSpace
    likelihood: Likelihood
    solver: str
    maxiter: int
    most: int = MOST_NUMBERS
    products: FloatArray | None = None
    levels: Levels | None = None
    places: FloatArray = field(default_factory=lambda: np.empty((0, 0)))
    found: list[Approximation] = field(default_factory=list)
    sweeps: int = 0

    def at(self, place: FloatArray, factors: Factors) -> Approximation:
        """The approximation at a place (d,) in coordinates in which sites change smoothly."""
        own, most = self.space.at(factors), self.maxiter
        if self.solver == "laplace":
            new = laplace(own, self.likelihood, 0.0, self._mode(place), tol=LAPLACE * SITE_TOL, maxiter=most)
        else:
            new = expectation_propagation(own, self.likelihood, 0.0, self._sites(place), tol=SITE_TOL, maxiter=most)
        new = replace(new, log_shape=self.likelihood.log_shape, form=self.likelihood.form)
        self._remember(place, new)
        return new

    def at_all(self, places: FloatArray, factors: Factors) -> list[Approximation]:
        """The same at several places (B, d), each from the nearest one before."""
        found: list[Approximation | None] = [None] * len(places)
        together = self.solver == "laplace" and self.likelihood.modes_first and isinstance(self.space, BandSpace)
        if together and self.found and len(places) > 1 and max(len(each[0]) for each in factors) == 1:
            space = self.space
            assert isinstance(space, BandSpace)
            if space.n * space.numbers <= MOST_PRODUCTS:
                away = ((places[:, None] - self.places[None, : len(self.found)]) ** 2).sum(axis=2)
                start = np.array([self.found[i].center for i in away.argmin(axis=1).tolist()])
                units = np.ones(start.shape)
                for (columns,), factor in zip(space.terms.columns, factors, strict=True):
                    units[:, space.k + columns] = factor[:, 0]
                found = laplace_together(
                    space.rows, self._products(space), space.k, units, self.likelihood, start, LAPLACE * SITE_TOL
                )
        out = []
        for i, one in enumerate(found):
            if one is None:
                out.append(self.at(places[i], tuple(each[i] for each in factors)))
                continue
            out.append(replace(one, log_shape=self.likelihood.log_shape, form=self.likelihood.form))
            self._remember(places[i], out[-1])
        return out

    def _products(self, space: BandSpace) -> FloatArray:
        """Products of all pairs of columns at all rows, (n, D^2)."""
        if self.products is None:
            self.products = (space.rows[:, :, None] * space.rows[:, None, :]).reshape(space.n, -1)
        return self.products

    def refined(self, node: Approximation, place: FloatArray, factors: Factors) -> Approximation | None:
        """A node at a place by quadrature over the effects of levels, if there are such.

        Else by EP, from the sites nearby or else from its mode; None where neither settles.
        """
        own, new = self.space.at(factors), None
        if self.levels is not None:
            assert isinstance(own, BandsAt)
            new = by_levels(self.levels, node, own, self.likelihood)
        if new is None:
            new = self._by_ep(node, place, own)
        if new is not None:
            self._remember(place, new)
        return new

    def _by_ep(self, node: Approximation, place: FloatArray, own: Space) -> Approximation | None:
        start = self._sites(place)
        new = node_by_ep(node, own, self.likelihood, self.maxiter, start)
        if new is None and start is not None:
            new = node_by_ep(node, own, self.likelihood, self.maxiter)
        return new

    def renew(self, place: FloatArray) -> None:
        """Forget all but the last approximation, which is near a place in other coordinates."""
        self.found, self.places = self.found[-1:], place[None]

    def copied(self) -> Seen:
        """The same places, to which others may be added for something else."""
        return replace(self, places=self.places.copy(), found=list(self.found), sweeps=0)

    def of_shape(self, log_shape: float) -> Seen:
        """The same places for another value of the likelihood's further parameter, which sites then start from."""
        return replace(self.copied(), likelihood=self.likelihood.of_shape(log_shape))

    def _remember(self, place: FloatArray, new: Approximation) -> None:
        self.sweeps += new.n_iter
        count = len(self.found)
        if count >= len(self.places):
            longer = np.empty((2 * count + 1, place.size))
            if count:
                longer[:count] = self.places[:count]
            self.places = longer
        self.places[count] = place
        self.found.append(new)

    def _mode(self, place: FloatArray) -> FloatArray | None:
        if not self.found:
            return None
        nearest, weights = self._neighbours(place)
        out: FloatArray = weights @ np.array([self.found[i].center for i in nearest])
        return out

    def _sites(self, place: FloatArray) -> Sites | None:
        if not self.found:
            return None
        nearest, weights = self._neighbours(place)
        starts = np.array([self.found[i].start for i in nearest], dtype=np.float64)
        log, shift = np.tensordot(weights, starts, axes=1)
        lowest, highest = starts[:, 0].min(axis=0), starts[:, 0].max(axis=0)
        start = np.stack([np.clip(log, lowest - 1.0, highest + 1.0), shift])
        return expanded(start, self.likelihood.signed_unit)

    def _neighbours(self, place: FloatArray) -> tuple[list[int], FloatArray]:
        """The nearest places, and their weights in the value at another: a Gaussian process around a plane."""
        away = self.places[: len(self.found)] - place
        distance = np.sqrt((away**2).sum(axis=1))
        nearest = np.arange(distance.size)
        if distance.size > NEIGHBOURS:
            nearest = np.sort(np.argpartition(distance, NEIGHBOURS)[:NEIGHBOURS])
        d = place.size
        if nearest.size < d + 2:
            return [int(distance.argmin())], np.ones(1)
        unit = SMOOTH * max(float(np.median(distance[nearest])), 1e-12)
        away = away[nearest] / unit
        m = nearest.size
        system = np.zeros((m + d + 1, m + d + 1))
        square = ((away[:, None] - away[None]) ** 2).sum(axis=2)
        system[:m, :m] = np.exp(-0.5 * square) + FINEST**2 * np.eye(m)
        system[:m, m] = system[m, :m] = 1.0
        system[:m, m + 1 :], system[m + 1 :, :m] = away, away.T
        right = np.r_[np.exp(-0.5 * (away**2).sum(axis=1)), 1.0, np.zeros(d)]
        weights = np.asarray(np.linalg.lstsq(system, right, rcond=1e-10)[0][:m], dtype=np.float64)
        if not np.isfinite(weights).all() or np.abs(weights).sum() > NEIGHBOURS:
            return [int(distance.argmin())], np.ones(1)
        return nearest.tolist(), weights

    def coefficients(self, factors: Factors, nodes: tuple[Approximation, ...]) -> FloatArray:
        """Means of all coefficients at nodes, (M, k + p)."""
        at = [self.space.at(tuple(each[i] for each in factors)) for i in range(len(nodes))]
        means = (node.gaussian(own).mean for node, own in zip(nodes, at, strict=True))
        return np.stack([own.coefficients(mean[:, None])[:, 0] for own, mean in zip(at, means, strict=True)])

    def kept(self, factors: Factors, found: list[Approximation]) -> tuple[Approximation, ...]:
        """Nodes without what others start from, with their joint posteriors where these take little memory."""
        nodes = [replace(node, start=None, center=None) for node in found]
        if len(nodes) * self.space.numbers > self.most:
            return tuple(nodes)
        at = [self.space.at(tuple(each[i] for each in factors)) for i in range(len(nodes))]
        return tuple(replace(node, joint=node.gaussian(own)) for node, own in zip(nodes, at, strict=True))
