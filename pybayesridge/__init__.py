"""Bayesian linear models for people who read regression tables."""

from pybayesridge.bayes_ridge import BayesRidge
from pybayesridge.exceptions import (
    ConvergenceWarning,
    DegenerateFitWarning,
    GridEdgeWarning,
    PybayesridgeWarning,
)

__version__ = "0.1.0.dev0"

__all__ = [
    "BayesRidge",
    "ConvergenceWarning",
    "DegenerateFitWarning",
    "GridEdgeWarning",
    "PybayesridgeWarning",
]
