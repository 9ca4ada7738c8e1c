"""Bayesian linear models for people who read regression tables."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from pybayesridge._version import __version__ as __version__

__all__ = [
    "ApproximationWarning",
    "BayesRidge",
    "ConvergenceWarning",
    "DataWarning",
    "DegenerateFitWarning",
    "ExtrapolationWarning",
    "Finding",
    "GridEdgeWarning",
    "InconsistentSummaryWarning",
    "Moments",
    "PrecisionWarning",
    "PybayesridgeWarning",
    "SpikeSlab",
    "compare_evidence",
    "compare_loo",
    "compare_models",
    "fit_imputed",
    "load",
    "polynomial_features",
    "pool",
    "stack",
]

if TYPE_CHECKING:
    from pybayesridge.data.polynomial import polynomial_features
    from pybayesridge.exceptions import (
        ApproximationWarning,
        ConvergenceWarning,
        DataWarning,
        DegenerateFitWarning,
        ExtrapolationWarning,
        GridEdgeWarning,
        InconsistentSummaryWarning,
        PrecisionWarning,
        PybayesridgeWarning,
    )
    from pybayesridge.findings import Finding
    from pybayesridge.models.ridge import BayesRidge
    from pybayesridge.models.saved import load
    from pybayesridge.models.spike_slab import SpikeSlab
    from pybayesridge.moments.moments import Moments
    from pybayesridge.results.comparison import compare_models
    from pybayesridge.results.evidence import compare_evidence
    from pybayesridge.results.imputed import fit_imputed, pool
    from pybayesridge.results.loo_comparison import compare_loo
    from pybayesridge.results.stacked import stack
else:
    # Names are imported when they are first used: SciPy, formulaic and pandas take most of a second.
    _MODULES = {
        "ApproximationWarning": "exceptions",
        "BayesRidge": "models.ridge",
        "ConvergenceWarning": "exceptions",
        "DataWarning": "exceptions",
        "DegenerateFitWarning": "exceptions",
        "ExtrapolationWarning": "exceptions",
        "Finding": "findings",
        "GridEdgeWarning": "exceptions",
        "InconsistentSummaryWarning": "exceptions",
        "Moments": "moments.moments",
        "PrecisionWarning": "exceptions",
        "PybayesridgeWarning": "exceptions",
        "SpikeSlab": "models.spike_slab",
        "compare_evidence": "results.evidence",
        "compare_loo": "results.loo_comparison",
        "compare_models": "results.comparison",
        "fit_imputed": "results.imputed",
        "load": "models.saved",
        "polynomial_features": "data.polynomial",
        "pool": "results.imputed",
        "stack": "results.stacked",
    }

    def __getattr__(name: str) -> object:
        """Import a public name, or a module of the package, when it is first used."""
        if name in _MODULES:
            value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
            globals()[name] = value
            return value
        if not name.startswith("_") and find_spec(f"{__name__}.{name}") is not None:
            return import_module(f"{__name__}.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
