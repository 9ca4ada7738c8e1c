"""Ridge regression of ordered categories: sites of cut points and linear predictors at each penalty."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pybayesridge.design.crossproducts import CrossProducts
from pybayesridge.design.design import Design
from pybayesridge.models import sites
from pybayesridge.ordinal.likelihood import Cumulative
from pybayesridge.ordinal.posterior import OrdinalFit
from pybayesridge.recipes import Recipe
from pybayesridge.results.ordinal_ridge import OrdinalRidgeResults
from pybayesridge.ridge.spectrum import rotate
from pybayesridge.sites.coordinates import Coordinates, from_design
from pybayesridge.sites.methods import SitesMethod
from pybayesridge.sites.separation import separation
from pybayesridge.text import listed

if TYPE_CHECKING:
    from pybayesridge.models.ridge import BayesRidge


def fit(model: BayesRidge, entry: SitesMethod, options: dict[str, Any], recipe: Recipe) -> OrdinalRidgeResults:
    """Fit a model by one of its methods with checked options."""
    check_solver(model.likelihood(), entry.solver or options["solver"])
    found = OrdinalFit.of(sites.solved(model, entry, options, _coordinates))
    return OrdinalRidgeResults(model, found, **sites.told(entry, options), recipe=recipe)


def check_solver(likelihood: Cumulative, solver: str) -> None:
    """Refuse expectation propagation where the likelihood has no factors of one linear function each."""
    if not likelihood.factorises and solver != "laplace":
        raise ValueError(likelihood.only_laplace)


def _coordinates(model: BayesRidge, design: Design, products: CrossProducts) -> Coordinates:
    """The sites' linear functions in coordinates."""
    check_unpenalized(model)
    found: Coordinates = model.likelihood().in_coordinates(from_design(design, rotate(design, products)))
    return found


def check_unpenalized(model: BayesRidge) -> None:
    """Refuse unpenalised columns that order the responses without error: their posterior is improper."""
    likelihood: Cumulative = model.likelihood()
    z, names = model.unpenalized_rows()
    if not names:
        return
    rows = np.r_[likelihood.upper, likelihood.lower]
    cut = np.r_[likelihood.codes[likelihood.upper], likelihood.codes[likelihood.lower] - 1]
    columns = np.hstack([-1.0 * (cut[:, None] == np.arange(likelihood.categories - 1)), z[rows]])
    steps = np.zeros((likelihood.inner, columns.shape[1]))
    at = np.arange(likelihood.inner)
    steps[at, at], steps[at, at + 1] = -1.0, 1.0
    found = separation(np.vstack([columns, steps]), likelihood)
    if found.found:
        size = np.abs(found.direction[-len(names) :])
        guilty = [name for name, each in zip(names, size, strict=True) if each > 0]
        raise ValueError(
            f"the unpenalised column(s) {listed(guilty)} separate the ordered categories, so the posterior of their "
            "coefficients is improper; let them be penalised, or leave them out"
        )
