"""Posterior draws in ArviZ's container: the only file that knows ArviZ."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pybayesridge._types import FloatArray, RandomLike
from pybayesridge._version import __version__
from pybayesridge.checks import positive_int
from pybayesridge.data.prepare import ModelData
from pybayesridge.text import listed

if TYPE_CHECKING:
    from arviz import InferenceData
    from xarray import DataTree

    from pybayesridge.models.base import LinearModel

GROUPS = ("posterior", "posterior_predictive", "log_likelihood", "observed_data", "log_prior")

WITHOUT_ROWS = {"posterior", "log_prior"}
"""Those that need no rows."""

OBS = "__obs__"
"""Name of the dimension over rows, which no column of data is likely to have."""


@dataclass(frozen=True, slots=True)
class ChainDraws:
    """Draws of one chain.

    Attributes
    ----------
    beta : (draws, k, q) array
        Coefficients, user's scale.
    sigma2 : (draws, q) array or None
        Noise variance of an observation of average weight; None where there is none.
    others : dict of str to (draws, q) array
        Other parameters.
    log_prior : dict of str to (draws, q) array
        Log prior densities of parameters that vary, up to a constant.
    """

    beta: FloatArray
    sigma2: FloatArray | None
    others: dict[str, FloatArray]
    log_prior: dict[str, FloatArray] = field(default_factory=dict)

    def frame(self, model: LinearModel, *, hyper_columns: bool = False) -> pd.DataFrame:
        """A row for each draw and a column for each coefficient, under each target where there are several.

        With `hyper_columns` the other parameters and the noise variance follow.
        """
        more = {**self.others, **({} if self.sigma2 is None else {"sigma2": self.sigma2})} if hyper_columns else {}
        frames = {}
        for i, name in enumerate(model.data.targets):
            own = pd.DataFrame(self.beta[..., i], columns=model.exog_names)
            frames[name] = own.assign(**{other: values[:, i] for other, values in more.items()})
        return frames[model.data.targets[0]] if model.one_target else pd.concat(frames, axis=1)


def to_arviz(
    model: LinearModel,
    draw: Callable[[int, np.random.Generator], ChainDraws],
    *,
    draws: int,
    chains: int,
    rng: RandomLike,
    groups: Sequence[str],
) -> DataTree | InferenceData:
    """Draw chains and put what is asked for into ArviZ's container.

    Parameters
    ----------
    model : LinearModel
    draw : callable
        ``draw(n, generator)`` gives the draws of a chain.
    draws, chains : int
    rng : numpy.random.Generator, int or None
    groups : sequence of str
        Some of ``GROUPS``.
    """
    arviz, xarray = _import("arviz"), _import("xarray")
    draws, chains = positive_int("draws", draws), positive_int("chains", chains)
    wanted = [groups] if isinstance(groups, str) else list(groups)
    unknown = [name for name in wanted if name not in GROUPS]
    if unknown or not wanted:
        raise ValueError(f"groups must be some of {listed(GROUPS)}, not {listed(unknown) or 'none'}")
    if model.endog is None and not WITHOUT_ROWS.issuperset(wanted):
        raise ValueError(f"only groups='posterior' and 'log_prior' can be made: {model.why_no_rows}")
    generator = np.random.default_rng(rng)
    sampled = [draw(draws, generator) for _ in range(chains)]
    if "log_likelihood" in wanted and any(c.sigma2 is not None and (c.sigma2 == 0).any() for c in sampled):
        raise ValueError(
            "the response is fitted without noise, so that it has no density: leave out 'log_likelihood'"
        )
    over_rows = _rows_without_noise if sampled[0].sigma2 is None else _gaussian_rows
    make: dict[str, Callable[[], dict[str, Any]]] = {
        "posterior": lambda: _posterior(model, sampled, fixed=False),
        "log_prior": lambda: _log_prior(model, sampled),
    } | over_rows(model, sampled, generator)
    made = {name: make[name]() for name in wanted}
    if "posterior" in wanted:
        made["constant_data"] = _posterior(model, sampled, fixed=True)
    coords = _coordinates(model.data) | {"chain": np.arange(chains), "draw": np.arange(draws)}
    attrs = {"inference_library": "pybayesridge", "inference_library_version": __version__}
    datasets = {}
    for name, variables in made.items():
        used = {dim for dims, _ in variables.values() for dim in dims}
        here = {dim: values for dim, values in coords.items() if dim in used}
        if variables:
            datasets[name] = xarray.Dataset(variables, coords=here, attrs=attrs)
    if version("arviz").startswith("0."):
        return arviz.InferenceData(**datasets)
    return xarray.DataTree.from_dict(datasets)


def _import(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError("to_arviz() needs ArviZ: pip install 'pybayesridge[arviz]'") from error


def _coordinates(data: ModelData) -> dict[str, Any]:
    labels = data.row_labels
    rows = np.arange(len(labels)) if isinstance(labels, pd.MultiIndex) else labels.to_numpy()
    return {"term": np.array(data.xnames, dtype=object), "target": np.array(data.targets, dtype=object), OBS: rows}


def _posterior(model: LinearModel, sampled: list[ChainDraws], *, fixed: bool) -> dict[str, Any]:
    """The parameters with their dimensions: those that vary, or those that the method holds fixed."""
    whole = {"beta": np.stack([chain.beta for chain in sampled])}
    for name in sampled[0].others:
        whole[name] = np.stack([chain.others[name] for chain in sampled])
    variances = [chain.sigma2 for chain in sampled if chain.sigma2 is not None]
    if variances:
        whole["sigma2"] = np.stack(variances)
    out: dict[str, Any] = {}
    for name, values in whole.items():
        if fixed != (name != "beta" and bool((values == values[:1, :1]).all())):
            continue
        dims: tuple[str, ...] = ("chain", "draw", "term", "target") if name == "beta" else ("chain", "draw", "target")
        if fixed:
            dims, values = dims[2:], values[0, 0]
        out[name] = (dims[:-1], values[..., 0]) if model.one_target else (dims, values)
    return out


def _log_prior(model: LinearModel, sampled: list[ChainDraws]) -> dict[str, Any]:
    """Log prior densities at the draws."""
    out: dict[str, Any] = {}
    for name in sampled[0].log_prior:
        values = np.stack([chain.log_prior[name] for chain in sampled])
        out[name] = (("chain", "draw"), values[..., 0]) if model.one_target else (("chain", "draw", "target"), values)
    return out


def _responses(model: LinearModel) -> list[tuple[str, FloatArray]]:
    y = model.endog.reshape(len(model.endog), -1)
    return [(name, y[:, i]) for i, name in enumerate(model.data.targets)]


def _gaussian_rows(
    model: LinearModel, sampled: list[ChainDraws], generator: np.random.Generator
) -> dict[str, Callable[[], dict[str, Any]]]:
    """The groups over rows for Gaussian noise."""
    return {
        "posterior_predictive": lambda: _over_rows(
            model, sampled, lambda _, mean, variance: generator.normal(mean, np.sqrt(variance))
        ),
        "log_likelihood": lambda: _over_rows(model, sampled, _log_density),
        "observed_data": lambda: {name: ((OBS,), y) for name, y in _responses(model)},
    }


def _rows_without_noise(
    model: Any, sampled: list[ChainDraws], generator: np.random.Generator
) -> dict[str, Callable[[], dict[str, Any]]]:
    """The groups over rows for responses that are not Gaussian; copies of a row count in the log likelihood."""
    if model.endog is None:
        return {}
    rows, name, shape = model.likelihood(), model.data.targets[0], model.distribution.shape
    constants = (rows.copies * rows.log_constants())[:, None]

    def each(function: Callable[[Any, FloatArray], Any]) -> dict[str, Any]:
        """A function of the likelihood and the linear predictors (n, draws), over chains."""
        found = []
        for chain in sampled:
            eta = model.predict(chain.beta[..., 0].T, which="linear")
            if shape not in chain.others:
                found.append(function(rows, eta).T)
                continue
            log_shape, out = np.log(chain.others[shape][:, 0]), np.empty(eta.shape)
            form = 0.0 if np.isnan(rows.form) else rows.form
            forms = chain.others["df"][:, 0] if "df" in chain.others else np.full(log_shape.size, form)
            for value, form in np.unique(np.column_stack([log_shape, forms]), axis=0).tolist():
                some = (log_shape == value) & (forms == form)
                out[:, some] = function(rows.of_form(form).of_shape(value), eta[:, some])
            found.append(out.T)
        return {name: (("chain", "draw", OBS), np.stack(found))}

    return {
        "posterior_predictive": lambda: each(lambda rows, eta: rows.draws(eta, generator)),
        "log_likelihood": lambda: each(lambda rows, eta: constants + rows.values(eta.T).T),
        "observed_data": lambda: {name: ((OBS,), rows.observed)},
    }


def _over_rows(
    model: LinearModel,
    sampled: list[ChainDraws],
    function: Callable[[FloatArray, FloatArray, FloatArray], FloatArray],
) -> dict[str, Any]:
    """``function(y, mean, variance)`` for each target: (chains, draws, n) from y (n,) and two (draws, n) arrays."""
    factors = model.noise_factors(model.data.row_labels)
    return {
        name: (
            ("chain", "draw", OBS),
            np.stack(
                [
                    function(y, model.predict(chain.beta[:, :, i].T).T, _variances(chain)[:, [i]] * factors)
                    for chain in sampled
                ]
            ),
        )
        for i, (name, y) in enumerate(_responses(model))
    }


def _variances(chain: ChainDraws) -> FloatArray:
    assert chain.sigma2 is not None
    return chain.sigma2


def _log_density(y: FloatArray, mean: FloatArray, variance: FloatArray) -> FloatArray:
    out: FloatArray = -0.5 * (np.log(2 * np.pi * variance) + (y - mean) ** 2 / variance)
    return out
