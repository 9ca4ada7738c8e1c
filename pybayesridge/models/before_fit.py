"""What a model says if it is asked for something of its results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pybayesridge.families.registry import FAMILIES
from pybayesridge.late import Late
from pybayesridge.results.shown import Shown, counted
from pybayesridge.text import listed

RESULTS = {
    "ridge": "BayesRidgeResults",
    "bands": "BandRidgeResults",
    "generalized_bands": "GeneralizedBandRidgeResults",
    "generalized_ridge": "GeneralizedRidgeResults",
    "ordinal_ridge": "OrdinalRidgeResults",
    "ordinal_bands": "OrdinalBandRidgeResults",
    "spike_slab": "SpikeSlabResults",
    "generalized_spike_slab": "GeneralizedSpikeSlabResults",
}
"""Modules of the results and their classes, which are imported when they are asked."""


class BeforeFit(Shown):
    """The part of a model that knows which attributes its results will have."""

    data: Any
    nobs: int

    def _shown(self) -> tuple[str, None, str]:
        sizes = f"{counted(self.nobs, 'row')}, {counted(len(self.data.xnames), 'coefficient')}"
        return f"{type(self).__name__} of {listed(self.data.targets)}: {sizes}. fit() fits it.", None, ""

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Refuse an attribute, with the advice to fit if results have it."""
            of_results = not name.startswith("_") and any(
                hasattr(each, name) or name in getattr(each, "__annotations__", {})
                for module, results in RESULTS.items()
                for each in getattr(Late(f"pybayesridge.results.{module}"), results).__mro__
            )
            families = [repr(each.name) for each in FAMILIES.values() if name in each().attributes]
            if families and "distribution" in vars(self):
                raise AttributeError(f"{name} is an attribute of models with family={' or '.join(families)}")
            if of_results:
                raise AttributeError(
                    f"{name} is of the results, not of the model: call fit() first, as in results = model.fit()"
                )
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
