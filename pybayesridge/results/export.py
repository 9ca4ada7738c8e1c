"""A fit as named arrays, numbers and strings, from which any language computes its answers: :func:`export`.

:data:`~pybayesridge.results.export_fields.FIELDS` documents every name. R keeps exports as its fits. Positions
count from 1. The standardised row of a row (x, z) of the model matrix, z its unpenalised columns, is
``(x - z on_z) / scale``; a linear predictor is ``z y_on_z`` plus ``y_norm`` times a mixture over K nodes of normals
(of t's where ``df`` is finite) with the weights ``weight``. With v the standardised row and c = v right its
coordinates, node i has for a ridge

    location     sum_j c_j e_ij z_j / s_j,                     e_ij = s_j^2 / (s_j^2 + exp(-log_t2_i)),
    scale^2      noise_i (sum_j c_j^2 e_ij / s_j^2 + exp(log_t2_i) |v - c right'|^2 + |z z_root|^2),

for a selection by expectation propagation ``v mean_i`` and ``v^2 own_i + sum_j root_sign_j (root_j v)^2 + noise_i
|z z_root|^2``, j running over the rows of ``root`` with ``root_of`` i, and for an exact one ``v b_i`` and ``noise_i
(v M_i^-1 v' + |z z_root|^2)`` with the b_i and M_i of :mod:`pybayesridge.selection.components`. Where there are
``rows`` (of the standardised data, weighted), ``|L_i^-1 rows (own_i v)|^2`` is to be subtracted in addition, L_i
being the rows of ``lower`` of node i, one of ``lower_of``. A ridge with ``half`` in place of ``right`` has ``right =
rows' half``. A new observation adds noise_i, divided by its weight. Responses that are not Gaussian have the law of
:mod:`pybayesridge.sites.posterior`, where y_on_z is 0 and y_norm 1; a selection of these by expectation propagation
has that of :meth:`pybayesridge.sites.selection_posterior.SitesSelectionPosterior.as_arrays`. With several bands
Gaussian ones have the laws of ``as_arrays`` in :mod:`pybayesridge.bands.posterior` and
:mod:`pybayesridge.bands.mixed_posterior`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from pybayesridge._types import ArrayLike, FloatArray
from pybayesridge.design.design import Design
from pybayesridge.findings import Finding
from pybayesridge.quantile_tables import NO_ROW_SPACE
from pybayesridge.results.export_fields import VERSION
from pybayesridge.results.export_generalized import (
    generalized_selection_values,
    generalized_values,
    with_cut_points,
)
from pybayesridge.results.facts import values_of

if TYPE_CHECKING:
    from pybayesridge.results.bands import BandRidgeResults
    from pybayesridge.results.base import LinearResults
    from pybayesridge.results.generalized_bands import GeneralizedBandRidgeResults
    from pybayesridge.results.generalized_ridge import GeneralizedRidgeResults
    from pybayesridge.results.generalized_spike_slab import GeneralizedSpikeSlabResults
    from pybayesridge.results.ordinal_bands import OrdinalBandRidgeResults
    from pybayesridge.results.ordinal_ridge import OrdinalRidgeResults
    from pybayesridge.results.ridge import BayesRidgeResults
    from pybayesridge.results.spike_slab import SpikeSlabResults
    from pybayesridge.selection.result import Exact

KINDS = {"BayesRidge": "bayes_ridge", "SpikeSlab": "spike_slab"}
"""How R calls the models."""

MOST_COLUMNS = 2000
"""Most penalised columns of a fit with an eliminated group: R keeps their products, 32 MB, and factorises these at
each node."""


def export(
    results: BayesRidgeResults | GeneralizedRidgeResults | SpikeSlabResults, without: Collection[str] = ()
) -> dict[str, Any]:
    """Every value of a fit; "posterior", "start" and "diagnostics" are dicts of their own.

    Parameters
    ----------
    results : BayesRidgeResults, GeneralizedRidgeResults or SpikeSlabResults
    without : collection of {"bse", "fittedvalues", "resid", "right", "rows"}
        Values that the reader computes from the data and from the others. ``posterior.right`` is left out, with
        ``posterior.outside``, only where ``posterior.half`` and the data give it; ``posterior.rows`` where these are
        the rows of the data.
    """
    own = OF_LANE[results.model.lane.name](results, without)
    return {name: value for name, value in (_shared_values(results, without) | own).items() if value is not None}


def over(a: ArrayLike) -> FloatArray:
    """A vector or matrix over coefficients or rows, always with a column for each target."""
    out = np.asarray(a, dtype=np.float64)
    return out[:, None] if out.ndim == 1 else out


def each(a: ArrayLike) -> FloatArray:
    """A number of each target, always (q,)."""
    return np.atleast_1d(np.asarray(a, dtype=np.float64))


def _shared_values(results: LinearResults, without: Collection[str]) -> dict[str, Any]:
    model = results.model
    kind, family = KINDS[results.model_name], model.distribution.in_json.get("family")
    has_cuts = model.distribution.has_cuts
    at_rows = ("fittedvalues", "resid") if model.endog is not None and not has_cuts else ()
    large = {name: over(getattr(results.arrays, name)) for name in ("bse", *at_rows) if name not in without}
    return {
        "version": float(VERSION),
        "names": list(model.exog_names),
        "targets": list(model.data.targets),
        "intercept_added": model.data.intercept_name is not None,
        "constant": bool(model.k_constant),
        "method": str(results.method),
        "params": over(results.arrays.params),
        **large,
        "rsquared": None if has_cuts else each(results.arrays.rsquared),
        "nobs": float(results.nobs),
        "df_model": each(results.arrays.df_model),
        "df_resid": each(results.arrays.df_resid),
        "converged": bool(results.converged),
        "n_iter": float(results.n_iter),
        "standardize": bool(model.standardize),
        "weight_mean": float(model.weight_mean),
        "findings": flat_findings(results.findings),
        "facts": _facts(results),
        "family": f"{kind}_{family}" if family else kind,
    }


def _facts(results: LinearResults) -> dict[str, FloatArray]:
    """The numbers of the whole fit that R shows, of each target."""
    found = [values_of(results, "r", i) for i in range(len(results.model.data.targets))]
    return {name: np.array([float(values[name]) for values in found]) for name in found[0]}


def flat_findings(findings: Sequence[Finding]) -> dict[str, list[str]]:
    """Findings as lists of strings."""
    return {
        "code": [found.code for found in findings],
        "severity": [found.severity for found in findings],
        "text": [found.sentence for found in findings],
    }


def _ridge_values(results: BayesRidgeResults, without: Collection[str]) -> dict[str, Any]:
    grids = results.method_entry.grid
    scores, error = results.grid_scores, results.arrays.quadrature_error
    table = results.diagnostics_by_target()
    return {
        "dof": results.dof,
        "parameterization": results.parameterization,
        "lambda_": each(results.arrays.lambda_),
        "tau2": each(results.arrays.tau2),
        "sigma2": each(results.arrays.sigma2),
        "log_marginal": each(results.arrays.log_marginal),
        "n_modes": each(results.arrays.n_modes),
        "solver": str(results.solver),
        "loo_mse": each(results.arrays.loo_mse) if grids else None,
        "grid": None if results.grid is None else over(results.grid),
        "grid_scores": None if scores is None else over(scores),
        "quadrature_error": None if error is None else each(error),
        "diagnostics": {name: each([t[name] for t in table]) for name in table[0] if name != "solver"},
        "hyper_means": results.hyperparameter_means,
        "posterior": _ridge_posterior(results, without),
    }


def _design_values(results: LinearResults, design: Design) -> dict[str, Any]:
    """Between rows on the user's scale and the standardised problem."""
    z_at, at = results.model.positions(design)
    block = design.block
    ones = np.zeros(block.k) if block.ones is None else block.ones
    on_z = np.outer(ones, design.center)
    return {
        "z_at": (z_at + 1).astype(np.float64),
        "at": (at + 1).astype(np.float64),
        "scale": design.scale,
        "sd": design.sd,
        "on_z": on_z if design.projection is None else on_z + design.projection,
        "z_root": block.regress(np.eye(block.k)),
        "y_on_z": design.y_on_z,
        "y_norm": design.y_norm,
    }


def _ridge_posterior(results: BayesRidgeResults, without: Collection[str]) -> dict[str, Any]:
    """The mixture over log t2, in units in which the singular values are those of the standardised columns."""
    posterior = results.posterior
    if not results.has_joint_posterior:
        raise ValueError(NO_ROW_SPACE.format(what="an export"))
    arrays = posterior.as_arrays(rows_known="right" in without)
    return _design_values(results, posterior.design) | arrays | results.penalty.as_arrays()


def _generalized_ridge_values(results: GeneralizedRidgeResults, without: Collection[str]) -> dict[str, Any]:
    own = generalized_values(results)
    penalty = results.penalty_arrays()
    design = _design_values(results, results.posterior.design)
    return own | {"posterior": design | results.posterior.as_arrays() | penalty}


def _ordinal_values(results: OrdinalRidgeResults, without: Collection[str]) -> dict[str, Any]:
    return _with_cut_points(results, _generalized_ridge_values(results, without))


def _gaussian_selection_values(results: SpikeSlabResults, without: Collection[str]) -> dict[str, Any]:
    point = results.starting_point()
    start = {f.name: getattr(point, f.name) for f in fields(point)} | {"columns": list(point.columns)}
    posterior = _selection_posterior(results, without)
    return _selection_values(results) | {"posterior": posterior, "start": start}


def _generalized_selection_values(results: GeneralizedSpikeSlabResults, without: Collection[str]) -> dict[str, Any]:
    posterior = _selection_posterior(results, without)
    return generalized_selection_values(results) | _selection_values(results) | {"posterior": posterior}


def _selection_values(results: SpikeSlabResults) -> dict[str, Any]:
    """The values of every selection; a method that gives no evidence has none of its numbers."""
    of_group, exact = results.group_inclusion_prob, results.exact_sets
    sampled = not results.method_entry.gives_evidence
    return {
        "inclusion_prob": results.arrays.inclusion_prob,
        "group_inclusion_prob": of_group.to_numpy(dtype=np.float64),
        "group_labels": [str(label) for label in of_group.index],
        "several": bool(results.group_members()),
        "prior_inclusion": results.prior_by_column(),
        "cond_mean": results.arrays.cond_mean,
        "cond_var": results.arrays.cond_var,
        "log_evidence": None if sampled else float(results.log_evidence),
        "slab_var": float(results.slab_var),
        "noise_var": float(results.noise_var) if results.model.distribution.has_noise else None,
        "learned": [str(name) for name in results.learned],
        "integrated": bool(results.posterior.selection.integrated),
        "expected_size": float(results.expected_size),
        "residual": float(results.residual),
        "n_fac": None if sampled else float(results.n_fac),
        "evidence_biased": None if sampled else bool(results.evidence_biased),
        "energy_trace": None if sampled else np.asarray(results.energy_trace, dtype=np.float64),
        **({} if exact is None else _sets_values(results, exact)),
    }


def _sets_values(results: SpikeSlabResults, exact: Exact) -> dict[str, Any]:
    """Values that a fit by expectation propagation lacks."""
    return {
        "inclusion_se": results.arrays.inclusion_se,
        "group_inclusion_se": results.group_inclusion_se.to_numpy(dtype=np.float64),
        "log_evidence_se": float(exact.log_evidence_se) if results.method_entry.gives_evidence else None,
        "enumerated": not exact.computation.sampled,
        "agreement": float(exact.agreement),
        "effective": float(exact.effective),
        "monte_carlo": _monte_carlo(results),
    }


def _monte_carlo(results: SpikeSlabResults) -> dict[str, Any]:
    """The rows of the table of Monte Carlo errors."""
    table = results.monte_carlo_errors
    assert table is not None
    texts = {name: [str(text) for text in table[name]] for name in ("quantity", "name")}
    numbers = ("estimate", "mcse", "effective", "agreement")
    return texts | {name: table[name].to_numpy(dtype=np.float64) for name in numbers}


def _selection_posterior(results: SpikeSlabResults, without: Collection[str]) -> dict[str, Any]:
    """The posterior of sets of columns, or that by expectation propagation, in the same frame."""
    posterior, design = results.posterior, results.posterior.design
    if not results.has_joint_posterior:
        raise ValueError(NO_ROW_SPACE.format(what="an export"))
    groups = results.model.groups_of(design)
    out = _design_values(results, design) | posterior.as_arrays(rows_known="rows" in without)
    return out if groups is None else out | {"groups": groups.astype(np.float64)}


def _band_values(results: BandRidgeResults, without: Collection[str]) -> dict[str, Any]:
    entry, noise = results.method_entry, results.model.noise()
    posterior = results.posterior
    if results.bands.eliminated is not None and posterior.design.p > MOST_COLUMNS:
        raise ValueError(
            f"R takes fits of groups with 500 levels or more that have up to {MOST_COLUMNS:,} penalised columns, and "
            f"this one has {posterior.design.p:,}: ask it in Python"
        )
    nodes = posterior.as_arrays()
    known = noise.known or not (entry.uses_prior or entry.given)
    return {
        "family": "bayes_ridge_bands",
        "bands": list(results.bands.names),
        "bse": over(results.arrays.bse),
        "dof": results.dof,
        "parameterization": results.parameterization,
        "sigma2": each(results.arrays.sigma2),
        "log_marginal": each(results.arrays.log_marginal) if entry.integrates or entry.given else None,
        "solver": str(results.solver),
        "quadrature_error": each(results.arrays.quadrature_error),
        "components": _variances(results),
        "posterior": {
            **_design_values(results, results.posterior.design),
            **nodes,
            "prior_count": float(results.posterior.design.nu),
            **({"prior_noise": nodes["noise"].max(axis=0)} if known else {}),
        },
    }


def _variances(results: BandRidgeResults | GeneralizedBandRidgeResults) -> dict[str, Any]:
    """Standard deviation and share of each band, correlations and the noise variance, with distribution functions."""
    grids = [results.variance_grid(i) for i in range(len(results.model.data.targets))]
    noise = {"sigma2"} if results.model.distribution.has_noise else set()
    shown = {"sd", "share", "correlation", *noise}
    targets = [[law for law in grid.laws() if law.quantity in shown] for grid in grids]
    tables = [[law.table() for law in laws] for laws in targets]
    names = {"correlation": results.correlation_names, "sigma2": [""]}
    return {
        "quantity": [law.quantity for law in targets[0]],
        "band": [names.get(law.quantity, results.bands.names)[law.which] for law in targets[0]],
        **{
            name: np.array([[getattr(law, name) for law in laws] for laws in targets]).T
            for name in ("mean", "sd", "little")
        },
        "points": np.concatenate([points for each in tables for points, _ in each]),
        "scores": np.concatenate([scores for each in tables for _, scores in each]),
        "sizes": np.array([[float(points.size) for points, _ in each] for each in tables]).T,
    }


def _generalized_band_values(results: GeneralizedBandRidgeResults, without: Collection[str]) -> dict[str, Any]:
    if results.bands.eliminated is not None:
        raise ValueError(
            f"fits of groups with 500 levels or more and family={results.model.family!r} are for Python alone: in R "
            "use fewer levels"
        )
    return {
        "family": f"bayes_ridge_bands_{results.model.family}",
        "bands": list(results.bands.names),
        **_generalized_ridge_values(results, without),
        "components": _variances(results),
    }


def _ordinal_band_values(results: OrdinalBandRidgeResults, without: Collection[str]) -> dict[str, Any]:
    return _with_cut_points(results, _generalized_band_values(results, without))


def _with_cut_points(results: Any, values: dict[str, Any]) -> dict[str, Any]:
    return values | {
        "posterior": with_cut_points(values["posterior"], len(results.model.exog_names), results.constants)
    }


OF_LANE: Mapping[str, Callable[[Any, Collection[str]], dict[str, Any]]] = {
    "conjugate": _ridge_values,
    "banded": _band_values,
    "sites": _generalized_ridge_values,
    "ordinal": _ordinal_values,
    "banded_ordinal": _ordinal_band_values,
    "banded_sites": _generalized_band_values,
    "sets": _gaussian_selection_values,
    "latent_sets": _generalized_selection_values,
}
"""The values that only some fits have, by how the model was fitted."""
