"""Warns, which is an error here, of public names that the reference lacks."""

from __future__ import annotations

from typing import Any

from sphinx.util import logging

import pybayesridge
import pybayesridge.sklearn
from pybayesridge.results.generalized_ridge import GeneralizedRidgeResults
from pybayesridge.results.generalized_spike_slab import GeneralizedSpikeSlabResults
from pybayesridge.results.ridge import BayesRidgeResults
from pybayesridge.results.spike_slab import SpikeSlabResults

logger = logging.getLogger(__name__)

RESULTS = (BayesRidgeResults, GeneralizedRidgeResults, SpikeSlabResults, GeneralizedSpikeSlabResults)

OF_MODELS = ("from_formula", "fit", "predict")
"""What users call of a model; its other methods serve the results."""

INTERNAL = ("rescaled_selection",)
"""Methods of results that serve the models."""


def public_names() -> list[str]:
    """Every public name of the package, and every public method and property of its results and models."""
    names = [f"pybayesridge.{name}" for name in pybayesridge.__all__]
    names += [f"pybayesridge.sklearn.{name}" for name in pybayesridge.sklearn.__all__]
    names += [f"pybayesridge.{model}.{name}" for model in ("BayesRidge", "SpikeSlab") for name in OF_MODELS]
    names += [f"{cls.__module__}.{cls.__name__}.{name}" for cls in RESULTS for name in own_members(cls)]
    return names


def own_members(cls: type) -> list[str]:
    """Public members that this package defines with a docstring, statsmodels' own left aside."""
    out = []
    for name in dir(cls):
        holder = next((base for base in cls.__mro__ if name in vars(base)), None)
        ours = holder is not None and holder.__module__.startswith("pybayesridge")
        if ours and not name.startswith("_") and name not in INTERNAL and _has_own_docstring(vars(holder)[name]):
            out.append(name)
    return out


def _has_own_docstring(member: Any) -> bool:
    """Whether a member has a docstring; that of a constant is its type's."""
    found = getattr(member, "__doc__", None)
    return bool(found) and found != type(member).__doc__


def check(app: Any, env: Any) -> None:
    """Look every public name up in what the pages document."""
    documented = set(env.get_domain("py").objects)
    for name in public_names():
        if name not in documented:
            logger.warning("the reference lacks %s", name)


def setup(app: Any) -> dict[str, Any]:
    """Hook into the build."""
    app.connect("env-check-consistency", check)
    return {"parallel_read_safe": True}
