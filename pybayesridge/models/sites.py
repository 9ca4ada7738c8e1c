"""Ridge regression of responses that are not Gaussian: sites of the rows at each penalty."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from pybayesridge._types import FloatArray
from pybayesridge.checks import positive
from pybayesridge.design.crossproducts import CrossProducts
from pybayesridge.design.design import Design
from pybayesridge.recipes import Recipe
from pybayesridge.results.generalized_ridge import GeneralizedRidgeResults
from pybayesridge.ridge.spectrum import rotate
from pybayesridge.sites.coordinates import Coordinates, from_design
from pybayesridge.sites.methods import SitesMethod, SitesOptions
from pybayesridge.sites.prior import log_prior
from pybayesridge.sites.result import SitesFit
from pybayesridge.sites.separation import check_unpenalized, separates
from pybayesridge.sites.windows import of_one_penalty

if TYPE_CHECKING:
    from pybayesridge.models.ridge import BayesRidge
    from pybayesridge.sites.band_methods import BandSitesMethod

GRID = np.exp(np.linspace(-8.0, 8.0, 33))
"""Penalties that "loocv" tries by default, relative to that at which the prior share explained is 1/2."""


def fit(model: BayesRidge, entry: SitesMethod, options: dict[str, Any], recipe: Recipe) -> GeneralizedRidgeResults:
    """Fit a model by one of its methods with checked options."""
    found = solved(model, entry, options, coordinates)
    return GeneralizedRidgeResults(model, found, **told(entry, options), recipe=recipe)


def solved(
    model: BayesRidge,
    entry: SitesMethod,
    options: dict[str, Any],
    coordinates: Callable[[BayesRidge, Design, CrossProducts], Any],
) -> SitesFit:
    """The answer of a method; `coordinates` are made once for a model."""
    _, space = model.prepare(partial(coordinates, model))
    unit, lam = 2 * float(np.log(space.design.common_scale)), options["lam"]
    chosen = SitesOptions(
        solver=options["solver"],
        parameterization=options["parameterization"],
        log_t2=None if lam is None else unit - float(np.log(positive("lam", lam))),
        grid=unit - np.log(_penalties(model, options["grid"], space)) if entry.grid else None,
        tol=options["tol"],
        maxiter=options["maxiter"],
    )
    found = entry.fit(space, model.likelihood(), model.prior_of_tau2, model.flat_in, chosen)
    separated = found.separated or separates(space.rows, model.likelihood(), found.likely_predictors())
    if separated and (entry.solver or chosen.solver) == "ep":
        found = of_one_penalty(found)
    return replace(found, separated=separated)


def told(entry: SitesMethod | BandSitesMethod, options: Mapping[str, Any]) -> dict[str, Any]:
    """What results keep of the method and its options."""
    kept = {name: options[name] for name in ("parameterization", "tol", "maxiter")}
    return {"method": entry.name, "solver": entry.solver or options["solver"], **kept}


def coordinates(model: BayesRidge, design: Design, products: CrossProducts) -> Coordinates:
    """The rows in coordinates."""
    check_unpenalized(*model.unpenalized_rows(), model.likelihood())
    return from_design(design, rotate(design, products))


def _penalties(model: BayesRidge, grid: Any, space: Coordinates) -> FloatArray:
    """Penalties to try, on the scale of `lam`."""
    if grid is None:
        prior = log_prior(model.prior_of_tau2, space, model.likelihood().guessed(), model.flat_in)
        return GRID * space.design.common_scale**2 * np.exp(-prior.log_scale)
    try:
        out = np.asarray(grid, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"with family={model.family!r} grid must be an array of penalties, not {grid!r}") from None
    if out.ndim != 1 or out.size == 0 or not (np.isfinite(out) & (out > 0)).all():
        raise ValueError("grid must be a one-dimensional array of positive, finite penalties")
    return out
