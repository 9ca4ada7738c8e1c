"""Ridge regression of responses that are not Gaussian with a penalty for each band of columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pybayesridge.bands.mixed import MOST_DIMENSIONS, MOST_SAMPLED
from pybayesridge.bands.mixed_problem import MixedProblem
from pybayesridge.models.banded import (
    check_correlated,
    check_dimensions,
    check_far,
    check_units,
    mixed_problem,
    penalties_of,
)
from pybayesridge.models.sites import told
from pybayesridge.recipes import Recipe
from pybayesridge.results.generalized_bands import GeneralizedBandRidgeResults
from pybayesridge.sites.band_fit import BandSitesFit
from pybayesridge.sites.band_methods import BandSitesMethod, BandSitesOptions
from pybayesridge.sites.separation import check_unpenalized

if TYPE_CHECKING:
    from pybayesridge.models.ridge import BayesRidge

MOST_COLUMNS = 1_500
"""More penalised columns are not factorised: there are hundreds of nodes with several factorisations each."""

MOST_INTEGRATED = 400
"""Likewise where the integral is over three variances and correlations or more: there are thousands of nodes."""

MOST_BESIDE = 500
"""More penalised columns beside a group with very many levels are not factorised, likewise."""


def fit(
    model: BayesRidge, entry: BandSitesMethod, options: dict[str, Any], recipe: Recipe
) -> GeneralizedBandRidgeResults:
    """Fit a model with bands by one of its methods with checked options."""

    def check() -> None:
        check_unpenalized(*model.unpenalized_rows(), model.likelihood())

    found = solved(model, entry, options, check)
    return GeneralizedBandRidgeResults(model, found, **told(entry, options), recipe=recipe)


def solved(
    model: BayesRidge, entry: BandSitesMethod, options: dict[str, Any], check: Callable[[], None]
) -> BandSitesFit:
    """The answer of a method; `check` refuses unpenalised columns."""
    bands = model.bands
    assert bands is not None
    _check(model, entry)

    def make(design: Any, products: Any) -> MixedProblem:
        check()
        check_units(model, design)
        return mixed_problem(design, products, bands)

    _, problem = model.prepare(make)
    model.prepared = None
    if bands.sets and entry.uses_prior:
        check_far(problem, bands)
    lam = options["lam"]
    chosen = BandSitesOptions(
        solver=entry.solver or options["solver"],
        log_variance=None if lam is None else -np.log(penalties_of(lam, bands)),
        tol=options["tol"],
        maxiter=options["maxiter"],
    )
    try:
        found = entry.find(problem, model.likelihood(), model.prior_of_tau2, model.flat_in, chosen)
    except FloatingPointError as error:
        instead = ", or use fit('laplace')" if chosen.solver == "ep" else ""
        raise ValueError(
            "what some rows say outweighs the others by more than double precision resolves: look for rows with "
            f"a very large count, weight or exposure{instead}"
        ) from error
    of_columns = _of_columns(model)
    separated = found.separates(of_columns)
    if separated and chosen.solver == "ep":
        found = found.in_parts(of_columns)
    return replace(found, separated=found.separated or separated)


def _of_columns(model: BayesRidge) -> list[int]:
    """The bands of plain columns: those of groups and curves have their own scale, also where R made them."""
    bands = model.bands
    assert bands is not None
    return [k for k in range(len(bands.names)) if not bands.own_scale[bands.members(k)].any()]


def _check(model: BayesRidge, entry: BandSitesMethod) -> None:
    """Refuse what is too large."""
    bands = model.bands
    assert bands is not None
    if model.likelihood().unknown_shape is not None and not (entry.integrates or entry.given):
        raise ValueError(
            f"method={entry.name!r} with bands takes a known {model.distribution.shape}: use 'ep' or 'laplace', "
            "which integrate it out, or give it, as in dispersion=0.5"
        )
    penalized = int((bands.of_column >= 0).sum())
    if bands.eliminated is not None:
        name = bands.names[bands.eliminated]
        levels = bands.members(bands.eliminated).size
        if model.likelihood().signed_unit is not None:
            raise ValueError(
                f"{name!r} has {levels:,} levels: groups with 500 or more are not for family={model.family!r}; use "
                "groups with fewer levels"
            )
        if penalized - levels > MOST_BESIDE:
            raise ValueError(
                f"beside the {levels:,} levels of {name!r} there may be {MOST_BESIDE:,} other penalised columns with "
                f"family={model.family!r}, and there are {penalized - levels:,}: use groups with fewer levels"
            )
    elif penalized > MOST_COLUMNS:
        raise ValueError(
            f"bands with family={model.family!r} take at most {MOST_COLUMNS:,} penalised columns, and there are "
            f"{penalized:,}: leave out columns, or fit without bands"
        )
    elif entry.integrates and bands.dimension > 2 and penalized > MOST_INTEGRATED:
        raise ValueError(
            f"method={entry.name!r} with family={model.family!r} takes at most {MOST_INTEGRATED} penalised columns "
            f"where it integrates over {bands.dimension} variances and correlations, and there are {penalized:,}: "
            "use method='reml', fewer terms, or groups with fewer levels"
        )
    if bands.sets:
        check_correlated(model, entry)
    if len(model.likelihood().forms()) > 1:
        shape = model.distribution.takes[0]
        where = f"with family={model.family!r} where {shape} is not given"
        check_dimensions(model, entry, MOST_DIMENSIONS, where, "fewer terms", f", or give {shape}, as in {shape}=4")
    check_dimensions(model, entry, MOST_SAMPLED, f"with family={model.family!r}", "fewer terms or join bands")
