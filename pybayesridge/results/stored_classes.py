"""Classes whose objects files of fits hold, by the names that stand in the files."""

from __future__ import annotations

import dataclasses
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

STORED = (
    "bands.covariance.CovarianceCoordinates",
    "bands.covariance.Terms",
    "bands.eliminated.Eliminated",
    "bands.grouped.GroupedFit",
    "bands.grouped.GroupedPosterior",
    "bands.lattice.Lattice",
    "bands.mixed.MixedFit",
    "bands.mixed_posterior.MixedPosterior",
    "bands.mixed_posterior.MixedNodes",
    "bands.mixed_sampled.SampledPoints",
    "bands.mixed_sampled.Scores",
    "bands.posterior.BandPosterior",
    "bands.result.BandFit",
    "bands.shares.Box",
    "bands.shares.ShareRule",
    "bands.simplex.PolynomialRule",
    "bands.system.System",
    "binomial.beta_binomial.BetaBinomial",
    "binomial.likelihood.Binomial",
    "binomial.selection_posterior.BinarySelectionPosterior",
    "data.bands.Bands",
    "data.groups.Groups",
    "data.prepare.ModelData",
    "design.columns.Detached",
    "design.design.Design",
    "design.unpenalized.Unpenalized",
    "ep.gaussian_posterior.SelectionMarginals",
    "ep.model.hyper_prior.HyperPrior",
    "ep.model.hyperparameters.Hyperparameters",
    "ep.model.least_squares.Data",
    "ep.model.likelihood.GaussianLikelihood",
    "ep.model.result.EPResult",
    "ep.model.result.ColumnSites",
    "ep.model.rotation.Rotation",
    "ep.posterior.SelectionPosterior",
    "ep.posterior.StartingPoint",
    "ep.selection.Selection",
    "families.beta_binomial.BetaBinomialFamily",
    "families.binomial.BinaryResponse",
    "families.binomial.BinomialFamily",
    "families.gaussian.GaussianFamily",
    "families.negative_binomial.NegativeBinomialFamily",
    "families.ordinal.OrdinalFamily",
    "families.poisson.PoissonFamily",
    "families.student.StudentFamily",
    "findings.Finding",
    "formula.bands.Band",
    "formula.groups.GroupLevels",
    "formula.spec.FormulaSpec",
    "models.columns.ColumnData",
    "models.sources.BlockData",
    "models.ridge.BayesRidge",
    "models.sources.Layout",
    "models.sources.MomentData",
    "models.sources.Removed",
    "models.sources.RowData",
    "models.spike_slab.SpikeSlab",
    "moments.blocks.BlockMoments",
    "moments.moments.Moments",
    "quantile_tables.MonotoneTable",
    "quantile_tables.QuantileTable",
    "recipes.Assignment",
    "recipes.Call",
    "recipes.Recipe",
    "ordinal.likelihood.Cumulative",
    "ordinal.bands.OrdinalBandFit",
    "ordinal.posterior.OrdinalFit",
    "ordinal.posterior.OrdinalPosterior",
    "poisson.likelihood.Poisson",
    "poisson.negative_binomial.NegativeBinomial",
    "posterior.left_out.LeaveOneOut",
    "results.bands.BandRidgeResults",
    "results.generalized_bands.GeneralizedBandRidgeResults",
    "results.generalized_ridge.GeneralizedRidgeResults",
    "results.generalized_spike_slab.GeneralizedSpikeSlabResults",
    "results.leave_one_out.LeaveOneOutScore",
    "results.ordinal_bands.OrdinalBandRidgeResults",
    "results.ordinal_ridge.OrdinalRidgeResults",
    "results.pooled.PooledResults",
    "results.ridge.BayesRidgeResults",
    "results.spike_slab.SpikeSlabResults",
    "ridge.by_column.ColumnsPosterior",
    "ridge.fit.RidgeFit",
    "ridge.loocv.GridSearch",
    "ridge.marginals.RidgeMarginals",
    "ridge.mixture.Mixture",
    "ridge.posterior.RidgePosterior",
    "ridge.prior.BetaPrime",
    "ridge.quadrature.Quadrature",
    "ridge.spectrum.Spectrum",
    "selection.estimates.Errors",
    "selection.grid.Grid",
    "selection.marginals.ExactMarginals",
    "selection.marginals.HyperTable",
    "selection.methods.ExactSelection",
    "selection.posterior.ExactPosterior",
    "selection.result.Check",
    "selection.result.CredibleSet",
    "selection.result.Doubt",
    "selection.result.Exact",
    "selection.result.Model",
    "selection.states.States",
    "sites.approximation.Approximation",
    "sites.approximation.Kept",
    "sites.band_fit.BandSitesFit",
    "sites.band_fit.Part",
    "sites.arrow.ArrowGaussian",
    "sites.arrow_bands.ArrowSpace",
    "sites.bands.BandSpace",
    "sites.coordinates.Coordinates",
    "sites.result.SitesFit",
    "sites.gaussian.Gaussian",
    "sites.gaussian.Windows",
    "sites.gaussian.Sites",
    "sites.posterior.SitesPosterior",
    "sites.selection_posterior.SitesSelectionPosterior",
    "sites.shape.FlatPrior",
    "sites.shape.FormGrid",
    "sites.shape.ShapeGrid",
    "sites.shape.ShapePrior",
    "sites.spike_slab.RowSitesResult",
    "sites.student.StudentT",
    "sites.working.Working",
)
"""Their modules and names. A class that moves keeps its old name here, as a key of MOVED."""

MOVED: dict[str, str] = {
    "bands.covariance.Coordinates": "bands.covariance.CovarianceCoordinates",
    "bands.fit.BandFit": "bands.result.BandFit",
    "bands.mixed_posterior.Nodes": "bands.mixed_posterior.MixedNodes",
    "binomial.approximation.Approximation": "sites.approximation.Approximation",
    "binomial.approximation.Kept": "sites.approximation.Kept",
    "binomial.coordinates.Coordinates": "sites.coordinates.Coordinates",
    "binomial.ep_selection_posterior.BinaryEPPosterior": "sites.selection_posterior.SitesSelectionPosterior",
    "binomial.fit.BinaryFit": "sites.result.SitesFit",
    "binomial.gaussian.Gaussian": "sites.gaussian.Gaussian",
    "binomial.gaussian.Sites": "sites.gaussian.Sites",
    "binomial.leave_one_out.LeaveOneOut": "posterior.left_out.LeaveOneOut",
    "binomial.posterior.BinaryPosterior": "sites.posterior.SitesPosterior",
    "binomial.spike_slab.BinaryEPResult": "sites.spike_slab.RowSitesResult",
    "binomial.working.Working": "sites.working.Working",
    "data.responses.BinaryResponse": "families.binomial.BinaryResponse",
    "ep.model.result.Sites": "ep.model.result.ColumnSites",
    "families.gaussian.Gaussian": "families.gaussian.GaussianFamily",
    "families.negativebinomial.NegativeBinomialFamily": "families.negative_binomial.NegativeBinomialFamily",
    "formula.groups.Groups": "formula.groups.GroupLevels",
    "models.binary.BinaryRidge": "models.ridge.BayesRidge",
    "models.binary_selection.BinarySpikeSlab": "models.spike_slab.SpikeSlab",
    "ordinal.bands.OrdinalArrowPosterior": "ordinal.posterior.OrdinalPosterior",
    "ordinal.bands.OrdinalBandPosterior": "ordinal.posterior.OrdinalPosterior",
    "results.binary.BinaryRidgeResults": "results.generalized_ridge.GeneralizedRidgeResults",
    "results.binary_selection.BinarySpikeSlabResults": "results.generalized_spike_slab.GeneralizedSpikeSlabResults",
    "selection.check.Check": "selection.result.Check",
    "selection.credible.CredibleSet": "selection.result.CredibleSet",
    "selection.doubt.Check": "selection.result.Check",
    "selection.doubt.Doubt": "selection.result.Doubt",
    "sites.arrow_posterior.ArrowPosterior": "sites.posterior.SitesPosterior",
    "sites.band_posterior.BandSitesPosterior": "sites.posterior.SitesPosterior",
    "sites.fit.SitesFit": "sites.result.SitesFit",
    "sites.likelihood.LeaveOneOut": "posterior.left_out.LeaveOneOut",
}
"""Names in files of earlier versions, and where the classes are now."""

OF_LINK = {
    "sites.posterior.SitesPosterior": "likelihood",
    "sites.selection_posterior.SitesSelectionPosterior": "row_likelihood",
}
"""Classes that had a link of yes/no responses in earlier versions, and the attribute that stands in its place."""

PACKAGE = "pybayesridge"


class NotStoredError(ValueError):
    """What a file of text and numbers cannot hold."""


def name_of(cls: type) -> str | None:
    """The name of a class in files; None for one that files do not hold."""
    name = f"{cls.__module__}.{cls.__qualname__}".removeprefix(f"{PACKAGE}.")
    return name if name in STORED and cls.__module__.startswith(PACKAGE) else None


@cache
def class_of(name: str) -> type:
    """The class of a name, which is one of those above; KeyError else."""
    name = MOVED.get(name, name)
    if name not in STORED:
        raise KeyError(name)
    module, _, attribute = name.rpartition(".")
    found: type = getattr(import_module(f"{PACKAGE}.{module}"), attribute)
    return found


def state_of(value: object) -> dict[str, Any]:
    """The attributes of an object, but those that are caches."""
    out: dict[str, Any] = {}
    if dataclasses.is_dataclass(value):
        out = {field.name: getattr(value, field.name) for field in dataclasses.fields(value) if field.compare}
    if hasattr(value, "__dict__"):
        state = value.__getstate__()
        out |= state if isinstance(state, dict) else vars(value)
    return out


def fill(value: object, state: dict[str, Any]) -> None:
    """Set the attributes of an object that has none; those that are not in `state` have their defaults.

    A class whose attributes were others in earlier versions has ``of_earlier``, which makes these from those.
    """
    missing = {}
    state = getattr(value, "of_earlier", dict)(state)
    own = OF_LINK.get(name_of(type(value)) or "")
    if own is not None and own not in state:
        none = import_module(f"{PACKAGE}.binomial.likelihood").from_counts(np.empty(0), None, None, state["link"])
        state = {name: part for name, part in state.items() if name != "link"} | {own: none}
    if dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            if field.name not in state:
                missing[field.name] = _default(field)
    if hasattr(value, "__dict__"):
        vars(value).update(missing | state)
        return
    for name, content in (missing | state).items():
        object.__setattr__(value, name, content)


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    if field.default is dataclasses.MISSING:
        raise KeyError(field.name)
    return field.default
