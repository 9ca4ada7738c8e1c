"""Hyperparameters of the spike-and-slab model: all of them, or those that are given."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pybayesridge._types import FloatArray
from pybayesridge.ep.model.least_squares import Data
from pybayesridge.ep.model.likelihood import GaussianLikelihood


@dataclass(frozen=True, slots=True)
class Hyperparameters:
    """All hyperparameters, given or learned.

    Attributes
    ----------
    prior_inclusion : (d,) array
        Prior inclusion probabilities.
    slab_var, noise_var : float
        Variances.
    """

    prior_inclusion: FloatArray
    slab_var: float
    noise_var: float

    def likelihood(self, data: Data) -> GaussianLikelihood:
        """The likelihood of data with this noise."""
        return GaussianLikelihood(data, self.noise_var)


@dataclass(frozen=True, slots=True)
class KnownHyperparameters:
    """The hyperparameters that are given, None standing for those that have to be learned.

    Attributes
    ----------
    prior_inclusion : (d,) array or None
    slab_var, noise_var : float or None
    """

    prior_inclusion: FloatArray | None = None
    slab_var: float | None = None
    noise_var: float | None = None

    @property
    def complete(self) -> Hyperparameters | None:
        """All hyperparameters, where nothing has to be learned."""
        if self.prior_inclusion is None or self.slab_var is None or self.noise_var is None:
            return None
        p = np.asarray(self.prior_inclusion, dtype=np.float64)
        return Hyperparameters(p, float(self.slab_var), float(self.noise_var))
