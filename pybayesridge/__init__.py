"""Bayesian linear models for people who read regression tables."""

from pybayesridge.data.polynomial import polynomial_features
from pybayesridge.exceptions import (
    ApproximationWarning,
    ConvergenceWarning,
    DataWarning,
    DegenerateFitWarning,
    GridEdgeWarning,
    InconsistentSummaryWarning,
    PrecisionWarning,
    PybayesridgeWarning,
)
from pybayesridge.findings import Finding
from pybayesridge.models.binary import BinaryRidge as _BinaryRidge  # noqa: F401
from pybayesridge.models.ridge import BayesRidge
from pybayesridge.models.spike_slab import SpikeSlab
from pybayesridge.moments.moments import Moments
from pybayesridge.results.base import load
from pybayesridge.results.evidence import compare_evidence

__version__ = "0.1.0.dev0"

__all__ = [
    "ApproximationWarning",
    "BayesRidge",
    "ConvergenceWarning",
    "DataWarning",
    "DegenerateFitWarning",
    "Finding",
    "GridEdgeWarning",
    "InconsistentSummaryWarning",
    "Moments",
    "PrecisionWarning",
    "PybayesridgeWarning",
    "SpikeSlab",
    "compare_evidence",
    "load",
    "polynomial_features",
]
