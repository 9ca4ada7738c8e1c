"""Spike-and-slab regression by expectation propagation: pure functions on arrays.

The way in is :func:`fit_sites` (hyperparameters given), :func:`learn` (hyperparameters by maximising the
evidence times their prior) or :func:`average` (a mixture over a lattice of them). Design: problem (data) and prior
feed state, the two methods of the literature are in damped and convergent, the one that always settles in monotone.
"""

from pybayesridge.ep.algorithms.solve import covariance, draw_coefficients, fit_sites, posterior_factor, row_variances
from pybayesridge.ep.learning.average import HyperAverage, average
from pybayesridge.ep.learning.evidence_gradient import EvidenceGradient, evidence_gradient
from pybayesridge.ep.learning.maximize import HyperFit, learn
from pybayesridge.ep.model.gaussian import GaussianSide
from pybayesridge.ep.model.hyperparameters import Hyperparameters, KnownHyperparameters
from pybayesridge.ep.model.least_squares import Data
from pybayesridge.ep.model.likelihood import GaussianLikelihood
from pybayesridge.ep.model.prior import Prior
from pybayesridge.ep.model.result import EPResult

__all__ = [
    "Data",
    "EPResult",
    "EvidenceGradient",
    "GaussianLikelihood",
    "GaussianSide",
    "HyperAverage",
    "HyperFit",
    "Hyperparameters",
    "KnownHyperparameters",
    "Prior",
    "average",
    "covariance",
    "draw_coefficients",
    "evidence_gradient",
    "fit_sites",
    "learn",
    "posterior_factor",
    "row_variances",
]
