"""What the R package `pybayesridge` calls: numbers, strings and float arrays in, the same out.

R fits a model through one function here and gets everything it needs to work on without Python. Errors and warnings
are handed over as text, since R shows a Python traceback otherwise.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from pybayesridge._types import FloatArray
from pybayesridge.data.prepare import NamedColumns
from pybayesridge.ep.algorithms.solve import posterior_factor
from pybayesridge.ep.model.gaussian import DualFactor
from pybayesridge.ep.model.group_covariance import JointFactor
from pybayesridge.ep.model.rotation import Rotation
from pybayesridge.ep.posterior import StartingPoint
from pybayesridge.models.ridge import BayesRidge
from pybayesridge.models.spike_slab import SpikeSlab
from pybayesridge.report import write_report
from pybayesridge.report.parts import Origin
from pybayesridge.ridge import hyperparameters as hyper

PROTOCOL = 2
"""Raised whenever what goes over the bridge changes; the R package compares it with its own."""


def guarded(function: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Run a fit; its value or its error, and its warnings, as values that R can read.

    Returns
    -------
    dict
        ``value`` (None after an error), ``error`` and ``error_class`` (None without one), and the lists ``warnings``
        and ``warning_classes``.
    """
    out: dict[str, Any] = {"value": None, "error": None, "error_class": None}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            out["value"] = function()
        except Exception as error:
            known = isinstance(error, ValueError)
            out["error"] = str(error) if known else f"{type(error).__name__}: {error}"
            out["error_class"] = type(error).__name__
    # Warnings that are not for users (of NumPy's arithmetic, of things deprecated) are not for R's either.
    shown = [w for w in caught if issubclass(w.category, UserWarning)]
    out["warnings"] = [str(w.message) for w in shown]
    out["warning_classes"] = [w.category.__name__ for w in shown]
    return out


def bayes_ridge(
    y: FloatArray,
    x: FloatArray | dict[str, Any],
    *,
    x_names: Sequence[str] | None,
    y_names: Sequence[str],
    from_formula: bool,
    model: dict[str, Any],
    fit: dict[str, Any],
) -> dict[str, Any]:
    """Fit a :class:`BayesRidge` for R.

    Parameters
    ----------
    y : (n, q) array
    x : (n, p) array, or dict
        With a formula R's model matrix, its column of ones among the others. A sparse matrix is a dict of ``nrow``,
        ``ncol`` and the slots ``i``, ``p`` and ``x`` of R's ``dgCMatrix``.
    x_names, y_names : lists of str
        None for columns without names.
    from_formula : bool
        Whether the column of ones is the intercept of R's formula, which needs no mention in the notes.
    model, fit : dict
        Arguments of :class:`BayesRidge` and of its ``fit``.

    Returns
    -------
    dict
        See :func:`guarded`; the value has all that :func:`ridge_values` lists.
    """

    def run() -> dict[str, Any]:
        endog, exog = labelled(y, x, y_names, x_names)
        results = BayesRidge(endog, exog, **arguments(model)).fit(**arguments(fit))
        return ridge_values(results._results, from_formula)

    return guarded(run)


def spike_slab(
    y: FloatArray,
    x: FloatArray,
    *,
    x_names: Sequence[str] | None,
    y_names: Sequence[str],
    from_formula: bool,
    model: dict[str, Any],
    fit: dict[str, Any],
    start: dict[str, Any] | None = None,
    group: Sequence[float | str] | None = None,
) -> dict[str, Any]:
    """Fit a :class:`SpikeSlab` for R; see :func:`bayes_ridge`. The value is that of :func:`spike_slab_values`.

    `start` is the ``start`` of an earlier value. `group` has a label for each column of `x`, R's
    ``attr(x, "assign")`` or names of terms: columns with equal ones are in or out together.
    """

    def run() -> dict[str, Any]:
        endog, exog = labelled(y, x, y_names, x_names)
        built = SpikeSlab(endog, exog, group=group_labels(group), **arguments(model))
        results = built.fit(**arguments(fit), start=starting_point(start))
        return spike_slab_values(results._results, from_formula)

    return guarded(run)


def report(
    y: FloatArray,
    x: FloatArray | dict[str, Any],
    *,
    x_names: Sequence[str] | None,
    y_names: Sequence[str],
    from_formula: bool,
    model: dict[str, Any],
    fit: dict[str, Any],
    family: str,
    row_names: Sequence[str] | None,
    page: dict[str, Any],
    group: Sequence[float | str] | None = None,
) -> dict[str, Any]:
    """Fit again what R has fitted, and write the report of it.

    Parameters
    ----------
    y, x, x_names, y_names, from_formula, model, fit, group
        See :func:`bayes_ridge` and :func:`spike_slab`.
    family : {"bayes_ridge", "spike_slab"}
    row_names : list of str
    page : dict
        ``path``, ``title``, ``question``, ``target`` (a name) and ``alpha`` of the report, ``call`` (R's code), the
        dict ``versions`` and the list ``notes``.

    Returns
    -------
    dict
        See :func:`guarded`; the value has ``path`` and ``params``.
    """

    def run() -> dict[str, Any]:
        endog, exog = labelled(y, x, y_names, x_names)
        if row_names is not None:
            endog.index = pd.Index([row_names] if isinstance(row_names, str) else list(row_names))
            exog = exog.set_axis(endog.index) if isinstance(exog, pd.DataFrame) else exog
        ridge = family == "bayes_ridge"
        given = {} if ridge else {"group": group_labels(group)}
        maker: Any = BayesRidge if ridge else SpikeSlab
        results = maker(endog, exog, **given, **arguments(model)).fit(**arguments(fit))._results
        wanted = page.get("target")
        path = write_report(
            results,
            page["path"],
            title=page.get("title"),
            question=page.get("question"),
            target=None if wanted is None else results.model.data.targets.index(wanted),
            alpha=page["alpha"],
            origin=Origin(page["call"], list(page["versions"].items()), list(page["notes"])),
        )
        return {"path": str(path), "params": two_dimensional(results.params)}

    return guarded(run)


def starting_point(start: dict[str, Any] | None) -> StartingPoint | None:
    """What :func:`spike_slab_values` gave as ``start``, to start from."""
    if start is None:
        return None
    vectors = {name: np.atleast_1d(start[name]).astype(np.float64) for name in ("site1", "site2", "prior_inclusion")}
    columns = tuple(str(name) for name in start["columns"])
    return StartingPoint(columns, **vectors, slab_var=start["slab_var"], noise_var=start["noise_var"])


def labelled(
    y: FloatArray, x: FloatArray | dict[str, Any], y_names: Sequence[str], x_names: Sequence[str] | None
) -> tuple[pd.DataFrame, Any]:
    """R's matrices with their names; the columns of a dense `x` are not copied."""
    endog = pd.DataFrame(np.asarray(y, dtype=np.float64), columns=list(y_names), copy=False)
    if isinstance(x, dict):
        rows, ends = (np.atleast_1d(x[name]).astype(np.intp) for name in ("i", "p"))
        shape = (int(x["nrow"]), int(x["ncol"]))
        columns = sparse.csc_matrix((np.atleast_1d(x["x"]).astype(np.float64), rows, ends), shape=shape)
        return endog, columns if x_names is None else NamedColumns(columns, list(x_names))
    values = np.asarray(x, dtype=np.float64)
    if x_names is None:
        return endog, values
    return endog, pd.DataFrame(values, columns=list(x_names), copy=False)


def arguments(given: dict[str, Any]) -> dict[str, Any]:
    """Arguments as Python wants them: R's NULL means that the default holds, whole numbers are integers."""
    out = {name: value for name, value in given.items() if value is not None}
    maxiter = out.get("maxiter")
    if isinstance(maxiter, float) and maxiter.is_integer():
        out["maxiter"] = int(maxiter)
    if isinstance(out.get("unpenalized"), list):
        out["unpenalized"] = [int(u) if isinstance(u, float) else u for u in out["unpenalized"]]
    return out


def group_labels(group: Any) -> list[Any] | None:
    """R's labels of groups as Python wants them: whole numbers are integers, one label is a vector of length 1."""
    if group is None:
        return None
    given = [group] if isinstance(group, str) or np.ndim(group) == 0 else list(group)
    return [int(g) if isinstance(g, float | np.floating) and float(g).is_integer() else g for g in given]


def two_dimensional(a: Any) -> FloatArray:
    """A vector or matrix over coefficients or rows, always (k, q)."""
    out = np.asarray(a, dtype=np.float64)
    return out[:, None] if out.ndim == 1 else out


def per_target(a: Any) -> FloatArray:
    """A number of each target, always (q,)."""
    return np.atleast_1d(np.asarray(a, dtype=np.float64))


def ridge_values(results: Any, from_formula: bool) -> dict[str, Any]:
    """Everything R keeps of a ridge: estimates, facts, and the posterior in its rotated form.

    Parameters
    ----------
    results : BayesRidgeResults
    from_formula : bool
    """
    grids = results.method in ("loocv", "gcv")
    scores = results.grid_scores
    return {
        **shared_values(results, from_formula),
        "dof": results.dof,
        "parameterization": results.parameterization,
        "lambda_": per_target(results.lambda_),
        "tau2": per_target(results.tau2),
        "sigma2": per_target(results.sigma2),
        "log_marginal": per_target(results.log_marginal),
        "n_modes": per_target(results.n_modes),
        "solver": str(results.solver),
        "loo_mse": per_target(results.loo_mse) if grids else None,
        "grid": two_dimensional(results.grid) if grids else None,
        "grid_scores": None if scores is None else two_dimensional(scores),
        "quadrature_error": None if results.quadrature_error is None else per_target(results.quadrature_error),
        "diagnostics": ridge_diagnostics(results),
        "hyper_means": hyper_means(results),
        "posterior": ridge_posterior(results),
    }


def shared_values(results: Any, from_formula: bool) -> dict[str, Any]:
    """What both families report: estimates, fit, facts."""
    model = results.model
    notes = results.notes
    if from_formula:
        notes = [note for note in notes if not note.endswith("serves as the intercept.")]
    return {
        "names": list(model.exog_names),
        "targets": list(model.data.targets),
        "intercept_added": model.data.intercept_name is not None,
        "method": str(results.method),
        "params": two_dimensional(results.params),
        "bse": two_dimensional(results.bse),
        "fittedvalues": two_dimensional(results.fittedvalues),
        "resid": two_dimensional(results.resid),
        "rsquared": per_target(results.rsquared),
        "nobs": float(results.nobs),
        "df_model": per_target(results.df_model),
        "df_resid": per_target(results.df_resid),
        "converged": bool(results.converged),
        "n_iter": float(results.n_iter),
        "standardize": bool(model.standardize),
        "weight_mean": float(model.weight_mean),
        "notes": [str(note) for note in notes],
    }


def hyper_means(results: Any) -> FloatArray:
    """Posterior means of lambda, tau2, sigma2 and the effective degrees of freedom, (4, q)."""
    table = results.hyperparameters()["mean"].to_numpy(dtype=np.float64)
    return np.ascontiguousarray(table.reshape(-1, 4).T)


def ridge_diagnostics(results: Any) -> dict[str, Any]:
    """The numbers and flags of ``diagnostics()``, (q,) each."""
    table = results.diagnostics()
    frame = table.to_frame() if isinstance(table, pd.Series) else table
    return {name: np.asarray(frame.loc[name], dtype=np.float64) for name in frame.index if name != "solver"}


def design_values(results: Any, design: Any) -> dict[str, Any]:
    """Between rows on the user's scale and the standardised problem; positions count from 1."""
    z_at, at = results.model.positions(design)
    block = design.block
    return {
        "z_at": (z_at + 1).astype(np.float64),
        "at": (at + 1).astype(np.float64),
        "center": design.center,
        "scale": design.scale,
        "sd": design.sd,
        "projection": design.projection,
        "ones": block.ones,
        "r": block.r,
        "y_on_z": design.y_on_z,
        "y_norm": design.y_norm,
        "constant": np.asarray(design.constant + 1 + int(results.model._intercept_added), dtype=np.float64),
    }


def ridge_posterior(results: Any) -> dict[str, Any]:
    """The joint posterior: a mixture over log t2 of normals or t's in the rotated basis.

    ``s``, ``z``, ``rss0``, ``top`` and ``right`` (V) are those of a `Spectrum`; ``log_t2``, ``weight``, ``scale2``
    and ``df`` those of a `Mixture`; ``prior`` holds those of a `Prior` that the density of log t2 is made of. R reads
    them as :mod:`pybayesridge.ridge.mixture` and :mod:`pybayesridge.ridge.hyperparameters` do.
    """
    posterior, fit = results._posterior, results._fit
    spectrum, mixture, prior = posterior.spectrum, posterior.mixture, results._prior()
    return {
        **design_values(results, posterior.design),
        "s": spectrum.s,
        "z": spectrum.z,
        "rss0": spectrum.rss0,
        "top": float(spectrum.top),
        "rounding": float(spectrum.rounding),
        "right": spectrum.with_right(posterior.design).right,
        "log_t2": mixture.log_t2,
        "weight": mixture.weight,
        "scale2": mixture.scale2,
        "df": float(mixture.df),
        "open_variance": bool(mixture.open_variance),
        "log_unit": float(fit.log_unit),
        "prior": {
            "a": float(prior.a),
            "b": float(prior.b),
            "count": float(prior.count),
            "log_scale": float(prior.log_scale),
            "noise": prior.noise,
        },
        "fine": float(hyper.FINE),
        "most_points": float(hyper.MOST_POINTS),
    }


def spike_slab_values(results: Any, from_formula: bool) -> dict[str, Any]:
    """Everything R keeps of a spike-and-slab regression.

    Parameters
    ----------
    results : SpikeSlabResults
    from_formula : bool
    """
    of_group = results.group_inclusion_prob
    return {
        **shared_values(results, from_formula),
        "inclusion_prob": np.asarray(results.inclusion_prob, dtype=np.float64),
        "group_inclusion_prob": of_group.to_numpy(dtype=np.float64),
        "group_labels": [str(label) for label in of_group.index],
        "several": bool(results.group_members()),
        "prior_inclusion": results.prior_by_column(),
        "cond_mean": np.asarray(results.cond_mean, dtype=np.float64),
        "cond_var": np.asarray(results.cond_var, dtype=np.float64),
        "log_evidence": float(results.log_evidence),
        "slab_var": float(results.slab_var),
        "noise_var": float(results.noise_var),
        "learned": [str(name) for name in results.learned],
        "expected_size": float(results.expected_size),
        "residual": float(results.residual),
        "n_fac": float(results.n_fac),
        "evidence_biased": bool(results.evidence_biased),
        "energy_trace": np.asarray(results.energy_trace, dtype=np.float64),
        "posterior": spike_slab_posterior(results),
        "start": start_values(results),
    }


def start_values(results: Any) -> dict[str, Any]:
    """Where another fit of the same columns can start, on the user's scale."""
    point = results.starting_point()
    return {field.name: getattr(point, field.name) for field in fields(point)} | {"columns": list(point.columns)}


def spike_slab_posterior(results: Any) -> dict[str, Any]:
    """EP's Gaussian for each value of the hyperparameters, in the units of the design.

    The covariance of ``components[g]`` is ``diag(own) + plus' plus - minus' minus``: with many columns ``minus`` has
    a row for each row of the data and nothing is (p, p). Their order is that of ``weight``. ``groups`` numbers the
    columns that are in or out together; None where each is on its own.
    """
    posterior = results._posterior
    groups = results.model.groups_of(posterior.design)
    data, selection = posterior.data, posterior.selection
    return {
        **design_values(results, posterior.design),
        "weight": np.asarray(selection.weights, dtype=np.float64),
        "groups": None if groups is None else groups.astype(np.float64),
        "components": {
            f"g{i + 1}": component(data, each, hypers.noise_var, selection.rotation)
            for i, (each, hypers) in enumerate(zip(selection.results, selection.hypers, strict=True))
        },
    }


def component(data: Any, result: Any, noise_var: float, rotation: Rotation) -> dict[str, Any]:
    """One Gaussian of :func:`spike_slab_posterior`; of rotated columns ``own`` moves to ``plus``."""
    factor, used = posterior_factor(data, noise_var, result)
    extra = np.zeros((0, used.size))
    if isinstance(factor, JointFactor):
        extra = np.zeros((factor.extra.shape[0], used.size))
        extra[:, used] = factor.extra
        factor = factor.inner
    own, plus, minus = np.zeros(used.size), np.zeros((0, used.size)), np.zeros((0, used.size))
    if isinstance(factor, DualFactor):
        rows, signs = factor.signed_root()
        own[used] = factor.scale**2
        minus, plus = np.zeros((int((signs > 0).sum()), used.size)), np.zeros((int((signs < 0).sum()), used.size))
        minus[:, used], plus[:, used] = rows[signs > 0], rows[signs < 0]
    elif factor is not None:
        plus = np.zeros((factor.inv_chol.shape[0], used.size))
        plus[:, used] = factor.inv_chol
    else:
        own = result.var.copy()
    turned = rotation.turned
    moved = np.zeros((turned.size, used.size))
    moved[np.arange(turned.size), turned] = np.sqrt(own[turned])
    own[turned] = 0.0
    return {
        "mean": rotation.back(result.mean),
        "own": own,
        "plus": rotation.back(np.concatenate([plus, extra, moved])),
        "minus": rotation.back(minus),
        "noise_var": float(noise_var),
        "inclusion_prob": result.inclusion_prob,
        "cond_mean": rotation.back(result.cond_mean),
        "cond_var": rotation.variances(result.cond_var),
    }
