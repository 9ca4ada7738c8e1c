"""The export of a ridge of responses that are not Gaussian: a Gaussian for each t2, in coordinates of the rows.

With v the standardised row, the coordinates of a row are ``c = [z z_root, v right]``, and node i has

    location     sum_j c_j node_mean_ij,
    scale^2      |root_i c|^2 + exp(log_t2_i) |v - v right right'|^2,

root_i being the m rows of ``node_root`` from (i - 1) m + 1 on. These are linear predictors: probabilities are their
logistic or normal distribution function, rates their exponentials. Their posterior means and covariance over all
nodes, among them those whose weight is too small for quantiles, are ``center`` and ``covariance``. Of counts with a
dispersion each node has its log as ``log_shape``.

With several bands ``c = [z z_root, v]``, and nodes are over the variances and correlations of the effects, as those
of `export_bands`. An effect of a level that the fit has not seen adds ``|A' unseen|^2``, in the mean over all nodes
``unseen' band_covariance unseen``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import solve_triangular

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.families.registry import FAMILIES
from pybayesridge.results.export_bands import entries_of
from pybayesridge.ridge.outside import outside_of_columns
from pybayesridge.sites.leave_one_out import leave_one_out
from pybayesridge.sites.penalty import effective_df_at, shape_posterior
from pybayesridge.sites.posterior import NEGLIGIBLE
from pybayesridge.text import either

if TYPE_CHECKING:
    from pybayesridge.families.family import Family
    from pybayesridge.results.generalized_bands import GeneralizedBandRidgeResults
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


def _dispersion_mean(results: GeneralizedRidgeResults) -> float | None:
    """Posterior mean of a dispersion that is integrated out."""
    shape = results.sites_fit.shape
    return None if shape is None else float(shape.weight @ np.exp(shape.u))


def _while_rows_are_here(name: str) -> Callable[[GeneralizedRidgeResults], FloatArray | None]:
    """An array of the results with a value for each row."""
    return lambda results: None if results.model.endog is None else getattr(results.arrays, name)


OF_RIDGES: Mapping[str, Callable[[GeneralizedRidgeResults], Any]] = {
    "trials": _trials,
    "n_trials": lambda results: float(results.n_trials),
    "exposure": _extent,
    "n_events": lambda results: float(results.n_events),
    "latent_variance": lambda results: float(results.sites_fit.likelihood.latent_variance),
    "loo_probabilities": _while_rows_are_here("loo_probabilities"),
    "loo_means": _while_rows_are_here("loo_means"),
    "dispersion": lambda results: float(np.exp(results.sites_fit.likelihood.log_shape)),
    "dispersion_mean": _dispersion_mean,
}
"""Values that ridges of some families have; a family says which (`Family.in_r`). A dispersion is as given, or the
exponential of the posterior mean of its log."""

OF_SELECTIONS: Mapping[str, Callable[[GeneralizedSpikeSlabResults], Any]] = {
    "trials": _trials,
    "n_trials": lambda results: float(results.n_trials),
    "exposure": _extent,
}
"""Those of selections."""


def in_r(families: Iterable[str], *, bands: bool = False) -> list[str]:
    """Those of some families whose fits R has, besides Gaussian ones; with several bands none with a dispersion."""
    known = [FAMILIES[name] for name in families]
    return [family.name for family in known if family.in_r and not (bands and family.shape)]


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
        "linear_predictors": results.predict(which="linear").to_numpy(dtype=np.float64) if has_rows else None,
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
    found = leave_one_out(likelihood, posterior.nodes(), posterior.selection.weights)
    return found.log_score + likelihood.log_constants()


def sites_posterior(results: GeneralizedRidgeResults) -> dict[str, Any]:
    """The nodes of the mixture, and the posterior of log t2 alone."""
    post, fit = results.posterior, results.sites_fit
    space, design = post.space, post.design
    keep = np.flatnonzero(post.weight > NEGLIGIBLE)
    unit = np.r_[np.full(space.k, np.sqrt(design.n)), np.ones(space.rank)]
    parts = [_of_node(post.nodes[i].gaussian(space), space.k, post.nodes[i].log_t2) for i in keep]
    right = space.spectrum.with_right(design).right
    right = np.zeros((design.p, 0)) if right is None else right
    weight = post.weight[keep] / post.weight[keep].sum()
    path = np.unique([node.log_t2 for node in fit.nodes])
    return {
        "y_on_z": np.zeros((space.k, 1)),
        "y_norm": np.ones(1),
        "weight": weight[:, None],
        "df": float("inf"),
        "log_t2": np.array([[post.nodes[i].log_t2] for i in keep]),
        "log_unit": float(results.log_unit),
        "s": space.spectrum.s * space.spectrum.top,
        "right": right,
        "outside": outside_of_columns(design, space.spectrum, 0, right),
        "node_mean": np.stack([mean for mean, _ in parts]) * unit,
        "node_root": np.concatenate([root for _, root in parts]) * unit,
        "center": post.mean * unit,
        "covariance": post.covariance * np.outer(unit, unit),
        "mean_t2": float(post.mean_t2),
        "has_mean": bool(post.has_mean),
        "has_variance": bool(post.has_variance),
        "path_log_t2": path,
        "path_df": effective_df_at(fit, path),
        **_of_shape(results, keep),
        **_of_penalty(results),
    }


def banded_sites_posterior(results: GeneralizedBandRidgeResults) -> dict[str, Any]:
    """The nodes of the mixture over variances and correlations."""
    known = in_r(results.model.lanes, bands=True)
    if results.model.family not in known:
        raise ValueError(
            f"fits with several penalties and family={results.model.family!r} are for Python alone: R has "
            f"{either(known)}"
        )
    post, space = results.posterior, results.posterior.space
    keep, terms = np.flatnonzero(post.weight > NEGLIGIBLE), post.space.terms
    size = space.k + space.rank
    if keep.size * size**2 > MOST_OF_NODES:
        raise ValueError(
            f"the joint posterior of {size:,} coefficients at {keep.size:,} sets of variances is too large for R: "
            "use groups with fewer levels, fewer terms, or method='reml'"
        )
    unit = np.r_[np.full(space.k, np.sqrt(space.design.n)), np.ones(space.rank)]
    factors = [tuple(each[i] for each in post.factors) for i in keep]
    joint = [post.nodes[i].gaussian(space.at(own)) for i, own in zip(keep, factors, strict=True)]
    means = [space.coefficients(one.mean[:, None], own)[:, 0] for one, own in zip(joint, factors, strict=True)]
    roots = [space.coefficients(one.root(), own).T for one, own in zip(joint, factors, strict=True)]
    between = np.zeros((terms.count, terms.count))
    for bands, covariance in zip(terms.bands, post.covariances, strict=True):
        between[np.ix_(bands, bands)] = covariance
    return {
        "y_on_z": np.zeros((space.k, 1)),
        "y_norm": np.ones(1),
        "weight": (post.weight[keep] / post.weight[keep].sum())[:, None],
        "df": float("inf"),
        "log_unit": float(results.sites_fit.log_unit),
        "node_mean": np.stack(means) * unit,
        "node_root": np.concatenate(roots) * unit,
        "center": post.mean * unit,
        "covariance": post.covariance * np.outer(unit, unit),
        "has_mean": bool(post.has_mean),
        "has_variance": bool(post.has_variance),
        "gram": space.gram,
        "band_covariance": between,
        **entries_of(terms, [tuple(each[keep] for each in post.factors)]),
    }


MOST_OF_NODES = 1 << 24
"""Most numbers in the roots of the covariances of all nodes, 128 MB."""


def _of_node(gaussian: Any, k: int, log_t2: float) -> tuple[FloatArray, FloatArray]:
    """Mean and root of the covariance in the coordinates of the rows."""
    size = gaussian.mean.size
    units = np.r_[np.ones(k), np.full(size - k, np.exp(0.5 * log_t2))]
    root = solve_triangular(gaussian.factor, np.eye(size), lower=True, check_finite=False)
    return gaussian.mean * units, root * units


def _of_shape(results: GeneralizedRidgeResults, keep: IntArray) -> dict[str, Any]:
    """The log of a further parameter of the likelihood at each node, and its distribution function."""
    fit = results.sites_fit
    if fit.shape is None:
        return {}
    found = shape_posterior(fit.shape)
    return {
        "log_shape": np.array([fit.nodes[i].log_shape for i in keep]),
        "shape_from": found.log_t2[:1],
        "shape_to": found.log_t2[-1:],
        "shape_cumulative": found.cumulative,
        "shape_rise": float(found.rise),
        "shape_fall": float(found.fall),
    }


def _of_penalty(results: GeneralizedRidgeResults) -> dict[str, Any]:
    """The distribution function of log t2 on equally spaced points, with its exponential tails."""
    found = results.penalty_distribution()
    if found is None:
        at = np.array([results.sites_fit.log_t2])
        points, cumulative, rise, fall = at, np.ones(1), np.inf, np.inf
    else:
        points, cumulative, rise, fall = found.log_t2, found.cumulative, found.rise, found.fall
    return {
        "log_t2_from": points[:1],
        "log_t2_to": points[-1:],
        "log_t2_points": np.array([float(points.size)]),
        "cumulative": cumulative,
        "rise": float(rise),
        "fall": float(fall),
    }
