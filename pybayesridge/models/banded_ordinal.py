"""Ridge regression of ordered categories with a penalty for each band of columns."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from pybayesridge.models import banded_sites
from pybayesridge.models.ordinal import check_solver, check_unpenalized
from pybayesridge.models.sites import told
from pybayesridge.ordinal.bands import OrdinalBandFit
from pybayesridge.recipes import Recipe
from pybayesridge.results.ordinal_bands import OrdinalBandRidgeResults
from pybayesridge.sites.band_methods import BandSitesMethod

if TYPE_CHECKING:
    from pybayesridge.models.ridge import BayesRidge


def fit(
    model: BayesRidge, entry: BandSitesMethod, options: dict[str, Any], recipe: Recipe
) -> OrdinalBandRidgeResults:
    """Fit a model with bands by one of its methods with checked options."""
    check_solver(model.likelihood(), entry.solver or options["solver"])
    found = OrdinalBandFit.of(banded_sites.solved(model, entry, options, partial(check_unpenalized, model)))
    return OrdinalBandRidgeResults(model, found, **told(entry, options), recipe=recipe)
