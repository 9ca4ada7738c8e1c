"""The export of fits of responses that are not Gaussian: the values that only these have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from pybayesridge._types import FloatArray
from pybayesridge.families.registry import FAMILIES
from pybayesridge.text import either

if TYPE_CHECKING:
    from pybayesridge.families.family import Family
    from pybayesridge.results.generalized_ridge import GeneralizedRidgeResults
    from pybayesridge.results.generalized_spike_slab import GeneralizedSpikeSlabResults


def generalized_values(results: GeneralizedRidgeResults) -> dict[str, Any]:
    """The values that only these fits have, but for the posterior."""
    error, grid, scores = results.quadrature_error, results.grid, results.grid_scores
    has_rows, family, known = results.model.endog is not None, results.model.distribution, in_r(results.model.lanes)
    if family.name not in known:
        raise ValueError(f"fits with family={family.name!r} are for Python alone: R has {either(known)}")
    several = results.model.bands is not None
    return {
        **_attributes(family),
        "parameterization": results.parameterization,
        **({} if several else {"lambda_": np.array([results.lambda_]), "tau2": np.array([results.tau2])}),
        "log_marginal": np.array([results.log_marginal]),
        "solver": str(results.solver),
        **{name: value(results) for name, value in OF_RIDGES.items() if name in family.in_r},
        "loo_log_density": results.loo_log_density() if has_rows else None,
        **{f"loo_{score.name}": float(getattr(results, f"loo_{score.name}")) for score in family.scores},
        "grid": None if grid is None else grid[:, None],
        "grid_scores": None if scores is None else scores[:, None],
        "quadrature_error": None if error is None else np.array([error]),
        "penalty_means": None if several else results.hyperparameters()["mean"].to_numpy(dtype=np.float64)[:3],
    }


def _extent(results: GeneralizedRidgeResults | GeneralizedSpikeSlabResults) -> FloatArray | None:
    """Exposures of the rows, where they have any."""
    extent = results.model.data.extent
    return None if extent is None else np.asarray(extent, dtype=np.float64)


def _trials(results: GeneralizedRidgeResults | GeneralizedSpikeSlabResults) -> FloatArray | None:
    """Trials of each row, while the rows are here."""
    if results.model.endog is None:
        return None
    likelihood = results.model.likelihood()
    return likelihood.successes + likelihood.failures


def _shape_mean(results: GeneralizedRidgeResults | GeneralizedSpikeSlabResults) -> float | None:
    """Posterior mean of a further parameter, such as a dispersion, that is integrated out."""
    shape = results.shape_grid
    return None if shape is None else float(shape.weight @ np.exp(shape.u))


def _while_rows_are_here(name: str) -> Callable[[GeneralizedRidgeResults], FloatArray | None]:
    """An array of the results with a value for each row."""
    return lambda results: None if results.model.endog is None else getattr(results.arrays, name)


def _of_categories(value: Callable[[Any], FloatArray]) -> Callable[[Any], FloatArray | None]:
    """A value at the rows of ordered categories, while they are here."""
    return lambda results: None if results.model.endog is None else value(results)


OF_RIDGES: Mapping[str, Callable[[Any], Any]] = {
    "trials": _trials,
    "n_trials": lambda results: float(results.n_trials),
    "exposure": _extent,
    "n_events": lambda results: float(results.n_events),
    "latent_variance": lambda results: float(results.sites_fit.likelihood.latent_variance),
    "loo_probabilities": _while_rows_are_here("loo_probabilities"),
    "loo_means": _while_rows_are_here("loo_means"),
    "dispersion": lambda results: float(np.exp(results.log_shape)),
    "dispersion_mean": _shape_mean,
    "noise_scale": lambda results: float(np.exp(results.log_shape)),
    "noise_scale_mean": _shape_mean,
    "noise_df": lambda results: float(results.sites_fit.likelihood.form),
    "categories": lambda results: list(results.categories),
    "category_counts": lambda results: results.category_counts.to_numpy(dtype=np.float64),
    "codes": _of_categories(lambda results: results.model.likelihood().observed),
    "probabilities": _of_categories(lambda results: results.fittedvalues.to_numpy(dtype=np.float64)),
    "linear_predictors": _of_categories(lambda results: results.predict(which="linear").to_numpy(dtype=np.float64)),
}
"""Values that ridges of some families have; a family says which (`Family.in_r`). A dispersion is as given, or the
exponential of the posterior mean of its log."""

OF_SELECTIONS: Mapping[str, Callable[[GeneralizedSpikeSlabResults], Any]] = {
    "trials": _trials,
    "n_trials": lambda results: float(results.n_trials),
    "exposure": _extent,
    "dispersion": lambda results: float(np.exp(results.log_shape)),
    "dispersion_mean": _shape_mean,
}
"""Those of selections."""


def in_r(families: Iterable[str]) -> list[str]:
    """Those of some families whose fits R has, besides Gaussian ones."""
    return [name for name in families if FAMILIES[name].in_r]


def generalized_selection_values(results: GeneralizedSpikeSlabResults) -> dict[str, Any]:
    """The values that only selections of responses that are not Gaussian have, but for the posterior."""
    family, known = results.model.distribution, in_r(results.model.lanes)
    if family.name not in known:
        raise ValueError(f"selections with family={family.name!r} are for Python alone: R has {either(known)}")
    has_rows = results.model.endog is not None
    return {
        **_attributes(family),
        **{name: value(results) for name, value in OF_SELECTIONS.items() if name in family.in_r},
        "n_events": float(results.n_events),
        "linear_predictors": results.model.predict(results.arrays.params, which="linear") if has_rows else None,
        "loo_log_density": _left_out(results) if has_rows else None,
    }


def _attributes(family: Family) -> dict[str, str]:
    """The link, and the event of responses that have one."""
    return {name: str(value) for name, value in family.attributes.items() if name in ("link", "event")}


def _left_out(results: GeneralizedSpikeSlabResults) -> FloatArray | None:
    """Log probability of each row given the others by expectation propagation; the sampler's are of its states."""
    posterior = results.posterior
    if results.exact_sets is not None:
        return None
    likelihood = results.model.likelihood()
    log_score: FloatArray = posterior.left_out(likelihood).log_score
    return log_score + likelihood.log_constants()


def with_cut_points(posterior: Mapping[str, Any], coefficients: int, count: int) -> dict[str, Any]:
    """Cut points as unpenalised columns, whose positions follow those of the coefficients.

    Cut point j is minus the intercept of the design plus the distances up to it, which are the first coordinates.

    Parameters
    ----------
    posterior : mapping
        The arrays of a posterior, with the intercept first among the unpenalised columns but for ``z_at``.
    coefficients, count : int
        Number of coefficients and of cut points.
    """
    on_z, z_root = posterior["on_z"], posterior["z_root"]
    others = np.hstack([np.zeros((len(z_root) - 1, count - 1)), z_root[1:]])
    cuts = np.hstack([np.tri(count, count - 1, -1), np.tile(-z_root[0], (count, 1))])
    return {
        **posterior,
        "z_at": np.r_[coefficients + 1.0 + np.arange(count), posterior["z_at"]],
        "on_z": np.vstack([np.tile(-on_z[0], (count, 1)), on_z[1:]]),
        "z_root": np.vstack([cuts, others]),
        "y_on_z": np.zeros((count + len(others), 1)),
    }
