"""The outcome of one method with several bands: what follows from the nodes over their shares."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import betaln

from pybayesridge._types import BoolArray, FloatArray, IntArray
from pybayesridge.bands.components import ShareNodes, VarianceGrid, log_variances
from pybayesridge.bands.posterior import BandDraws, BandPosterior, scaled
from pybayesridge.bands.problem import factors_of
from pybayesridge.bands.shares import ShareRule, posterior_weight
from pybayesridge.bands.simplex import PolynomialRule
from pybayesridge.design.design import Design
from pybayesridge.ridge import hyperparameters as hyper
from pybayesridge.ridge.density import log_likelihood, log_marginal
from pybayesridge.ridge.explained import LEAST, explained_share, number_of_draws
from pybayesridge.ridge.fit import penalty_model
from pybayesridge.ridge.likelihood import GaussianNoise
from pybayesridge.ridge.posterior import RidgePosterior
from pybayesridge.ridge.prior import BetaPrime
from pybayesridge.ridge.profile import PenaltyModel
from pybayesridge.ridge.spectrum import Spectrum

TINY = 1e-300
"""Smaller posterior weights of nodes are not told apart."""


@dataclass(frozen=True, slots=True)
class BandFit:
    """The outcome of one method for q targets.

    Attributes
    ----------
    posterior : BandPosterior
        Of the coefficients, from the nodes that matter to it.
    size : (K,) array
        See :class:`BandProblem`.
    rule : ShareRule, PolynomialRule or None
        The quadrature over the shares; None for a method that fixes them.
    shares : (M, K) array
        All nodes, also those that do not matter to the posterior of the coefficients.
    weight : (M, q) array
        Posterior weights of the nodes.
    spectra : tuple of M Spectrum
        Without the singular vectors.
    prior : BetaPrime
        Of the ridges given the shares.
    log_integral : (q,) array
        Log of the integral over all penalties of likelihood times prior, but for constants of the ridge.
    sigma2, df : (q,) arrays
        Posterior means of the noise variance, in units of each target's squared norm, and of the trace of the hat
        matrix of the penalised columns.
    error : (q,) array
        Estimated error of the quadrature over the shares; see :func:`fit_exact`.
    converged : (q,) bool array
    n_iter : int
        Ridges that were fitted.
    loss : float
        Relative error, about, that rounding errors leave.
    log_w : (M,) array or None
        Where the penalties are fixed, the log of the total of the bands at each node: there is one for each target,
        or one for all of them.
    in_logs : bool
        How densities are interpolated between the nodes; see :meth:`ShareRule.interpolated`.
    log_evidence : (M, q) array or None
        Logs of the integrals over the total at each node, which is what is interpolated; None where `weight` says it.
    """

    posterior: BandPosterior
    size: FloatArray
    rule: ShareRule | PolynomialRule | None
    shares: FloatArray
    weight: FloatArray
    spectra: tuple[Spectrum, ...]
    prior: BetaPrime
    log_integral: FloatArray
    sigma2: FloatArray
    df: FloatArray
    error: FloatArray
    converged: BoolArray
    n_iter: int
    loss: float
    log_w: FloatArray | None = None
    in_logs: bool = False
    log_evidence: FloatArray | None = None

    @property
    def count(self) -> int:
        """Number of bands."""
        return int(self.size.size)

    def without_rows(self) -> BandFit:
        """The same without any array over rows of the data."""
        return replace(self, posterior=self.posterior.without_rows())

    def factors(self, node: int) -> FloatArray:
        """What the columns of each band are multiplied by at a node, (K,)."""
        return factors_of(self.size, self.shares[node])

    def design(self, node: int) -> Design:
        """The design of the ridge at a node."""
        return scaled(self.posterior.design, self.posterior.band, self.factors(node))

    def model(self, node: int, noise: GaussianNoise) -> PenaltyModel:
        """The prior of the penalty at a node and the likelihood that it meets."""
        return penalty_model(self.design(node), self.spectra[node], self.prior, noise)

    @property
    def solver(self) -> str:
        """How the equations are solved."""
        return self.posterior.spectra[0].solver

    @property
    def n_nodes(self) -> int:
        """Number of nodes that matter."""
        return len(self.posterior.spectra)

    @property
    def zero_variances(self) -> BoolArray:
        """Bands whose variance is estimated to be zero, (q, K)."""
        own = self.weight.argmax(axis=0)
        if self.log_w is None:
            return np.zeros((own.size, self.count), dtype=bool)
        return np.isneginf(self.log_variances(self.shares[own], self.log_w[own]))

    @property
    def certain_correlations(self) -> FloatArray:
        """Correlations that are estimated to be 1 or -1: there are none, (q, 0)."""
        return np.zeros((self.weight.shape[1], 0))

    def log_marginal(self, noise: GaussianNoise, log_weights: float, *, given: bool) -> FloatArray:
        """Log p(y), (q,), the penalties integrated out or, with `given`, as they are."""
        design, model = self.posterior.design, self.model(0, noise)
        if given:
            value = log_likelihood(self.spectra[0], model, self.posterior.mixtures[0].log_t2[0])
            return log_marginal(value, noise.of(design), design, log_weights)
        found = log_marginal(self.log_integral, noise.of(design), design, log_weights)
        return found - float(betaln(model.a, model.b))

    def grid(self, noise: GaussianNoise, target: int) -> VarianceGrid:
        """The joint posterior of the variances and the noise of a target."""
        unit2 = self.posterior.design.y_norm[target] ** 2
        if self.rule is None:
            return self._grid_at_point(target, unit2)
        only = np.array([target])
        nodes = ShareNodes(
            rule=self.rule,
            target=target,
            shares=self.shares,
            weight=self.weight[:, target]
            if self.log_evidence is None
            else posterior_weight(self.log_evidence[:, target]),
            log_evidence=self._log_evidence(target),
            spectra=[spectrum.of_targets(only) for spectrum in self.spectra],
            models=[self.model(m, noise).only(only) for m in range(len(self.spectra))],
            total=float(np.log(self.size.sum())),
            log_unit=self._log_unit,
            unit2=float(unit2),
            in_logs=self.in_logs,
        )
        return VarianceGrid.of(nodes)

    def _log_evidence(self, target: int) -> FloatArray:
        """Log of the integral over the total at each node, for a target, but for a constant, (M,)."""
        if self.log_evidence is not None:
            return self.log_evidence[:, target]
        assert isinstance(self.rule, ShareRule)
        log_weight = self.rule.log_weight
        own = log_weight if log_weight.ndim == 1 else log_weight[:, target]
        out: FloatArray = np.log(np.maximum(self.weight[:, target], TINY)) - own
        return out

    def _grid_at_point(self, target: int, unit2: float) -> VarianceGrid:
        assert self.log_w is not None
        m = int(self.weight[:, target].argmax())
        log_w, shares = self.log_w[m : m + 1], self.shares[m : m + 1]
        scale2 = self.posterior.mixtures[m].scale2[:, target] * unit2
        share = shares * (1 / (1 + np.exp(-log_w)))[:, None]
        return VarianceGrid(np.ones(1), self.log_variances(shares, log_w), share, scale2, self.posterior.df)

    def draw(self, noise: GaussianNoise, target: int, size: int, rng: np.random.Generator) -> BandDraws:
        """Draw from the joint posterior of one target."""
        design = self.posterior.design
        out = BandDraws(
            np.empty((size, design.block.k)),
            np.empty((size, design.p)),
            np.empty((size, self.count)),
            np.empty(size),
            np.empty((size, 0)),
        )
        total = np.log(self.size.sum())
        for at, node, part in self._drawn_nodes(target, size, rng):
            model = penalty_model(part.design, part.spectrum, self.prior, noise)
            drawn = hyper.draw(part.design, part.spectrum, model, part.mixture, target, at.size, rng)
            out.of_z[at], out.b[at], log_t2, out.sigma2[at] = drawn
            shares = self.posterior.factors[node] ** 2 * self.size / self.size.sum()
            log_w = np.full(at.size, -np.inf)
            if part.spectrum.rank:
                log_w = log_t2 - 2 * np.log(part.spectrum.top) + total
            out.log_variance[at] = self.log_variances(shares, log_w)
        return out

    def explained(self, noise: GaussianNoise, target: int, rng: np.random.Generator) -> FloatArray:
        """Draws of the share of variance that all bands explain together, for one target."""
        size = max(LEAST, number_of_draws(self.posterior.spectra[0].rank) // 2)
        out = np.empty(size)
        for at, _, part in self._drawn_nodes(target, size, rng):
            model = penalty_model(part.design, part.spectrum, self.prior, noise)
            found = explained_share(part.spectrum, model, part.mixture, target, part.design.n, rng, at.size)
            out[at] = rng.permutation(found)
        return out

    def _drawn_nodes(
        self, target: int, size: int, rng: np.random.Generator
    ) -> Iterator[tuple[IntArray, int, RidgePosterior]]:
        """The draws of each node that has some, its position, and its ridge."""
        parts = self.posterior.parts
        which = rng.choice(len(parts), size=size, p=self.posterior.weight[:, target])
        for node in np.unique(which).tolist():
            yield np.flatnonzero(which == node), node, parts[node]

    @property
    def _log_unit(self) -> FloatArray:
        out: FloatArray = np.log(self.size) + 2 * np.log(self.posterior.design.common_scale)
        return out

    def log_variances(self, shares: FloatArray, log_w: FloatArray) -> FloatArray:
        """Log of ``t_k``, on the user's scale of the prior, at shares (…, K) and log totals w (…), (…, K)."""
        return log_variances(shares, log_w, self._log_unit)
