"""Questions that every fit with several penalties answers, whether effects are correlated or not."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from pybayesridge._types import BoolArray, FloatArray
from pybayesridge.bands.grouped import GroupedPosterior
from pybayesridge.bands.mixed_posterior import MixedPosterior
from pybayesridge.bands.posterior import BandDraws, BandPosterior
from pybayesridge.bands.tables import TabledLaw
from pybayesridge.ridge.likelihood import GaussianNoise

BandsPosterior = BandPosterior | GroupedPosterior | MixedPosterior
"""The posterior of the coefficients: without correlated effects, all targets alike or in groups, and with them."""


class Variances(Protocol):
    """The joint posterior of the variances of the bands and of any noise, for one target."""

    @property
    def log_t(self) -> FloatArray:
        """Logs of the variances of the coefficients at each point, (F, K)."""

    @property
    def heavy(self) -> bool:
        """Whether the bands' standard deviations have no posterior variance."""

    def noise(self, probabilities: FloatArray) -> tuple[float, FloatArray]:
        """Posterior mean and quantiles of the noise variance."""

    def sd(self, band: int, probabilities: FloatArray) -> tuple[float, FloatArray, float]:
        """Posterior mean, quantiles and standard deviation of the standard deviation of a band's coefficients."""

    def shares(self, band: int, probabilities: FloatArray) -> tuple[float, FloatArray, float]:
        """Posterior mean and quantiles of a share, and the probability that it is below 1 %."""

    @property
    def correlations(self) -> FloatArray:
        """Correlations of effects of the same level at each point, (F, number of pairs)."""

    def correlations_at(self, probabilities: FloatArray) -> list[tuple[float, FloatArray, float]]:
        """Posterior mean, quantiles and standard deviation of each correlation of effects of the same level."""

    def laws(self) -> list[TabledLaw]:
        """The laws of standard deviations, shares, correlations and the noise variance, to be tabulated."""


class PenaltiesFit(Protocol):
    """The outcome of one method with normal noise, for q targets; the classes that have these say what they are."""

    @property
    def posterior(self) -> BandsPosterior:
        """Of the coefficients."""

    @property
    def sigma2(self) -> FloatArray:
        """Noise variances in units of each target's squared norm, (q,)."""

    @property
    def df(self) -> FloatArray:
        """Traces of the hat matrices of the penalised columns, (q,)."""

    @property
    def error(self) -> FloatArray:
        """Estimated errors of the integral over the penalties, (q,)."""

    @property
    def converged(self) -> BoolArray:
        """Of each target, (q,)."""

    @property
    def n_iter(self) -> int:
        """Times that the equations were solved."""

    @property
    def n_nodes(self) -> int:
        """Number of nodes that matter."""

    @property
    def loss(self) -> float:
        """Relative error, about, that rounding errors leave."""

    @property
    def solver(self) -> str:
        """How the equations are solved."""

    @property
    def zero_variances(self) -> BoolArray:
        """Bands whose variance is estimated to be zero, (q, K)."""

    @property
    def certain_correlations(self) -> FloatArray:
        """Correlations that are estimated to be 1 or -1, and 0 for all others, (q, number of pairs)."""

    def log_marginal(self, noise: GaussianNoise, log_weights: float, *, given: bool) -> FloatArray:
        """Log p(y), (q,), the penalties integrated out or, with `given`, as they are."""

    def without_rows(self) -> PenaltiesFit:
        """The same without any array over rows of the data."""

    def grid(self, noise: GaussianNoise, target: int) -> Variances:
        """The joint posterior of variances, correlations and noise of a target."""

    def draw(self, noise: GaussianNoise, target: int, size: int, rng: np.random.Generator) -> BandDraws:
        """Draw from the joint posterior of one target."""

    def explained(self, noise: GaussianNoise, target: int, rng: np.random.Generator) -> FloatArray:
        """Draws of the share of variance that all penalised columns explain together, for one target."""
