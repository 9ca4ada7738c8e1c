"""Fits of several completed versions of one data set, pooled into one posterior."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from pybayesridge.formula.shared import first_difference, learned_together, learning
from pybayesridge.formula.spec import levels_of
from pybayesridge.quantile_tables import NO_ROW_SPACE
from pybayesridge.results.base import LinearResults
from pybayesridge.results.matching import check_order
from pybayesridge.results.pooled import PooledResults
from pybayesridge.text import listed

if TYPE_CHECKING:
    from pybayesridge.results.returned import AnyResults

Data = TypeVar("Data")


def pool(fits: Sequence[AnyResults]) -> PooledResults:
    """Pool fits of completed (multiply imputed) data sets into one posterior.

    The posterior given the observed values is the average of the posteriors given completed data over the
    imputations: with M of them, a mixture in which each has weight 1/M.

    Parameters
    ----------
    fits : sequence of results
        At least two, of the same model, method, columns and responses, and of as many rows. Transforms in formulas
        must use the same numbers, such as knots: see :func:`pybayesridge.fit_imputed`.

    Returns
    -------
    PooledResults

    Raises
    ------
    ValueError
        For fits that differ, that were saved without the space of the rows, or whose posterior has no means because
        the columns separate the responses.

    See Also
    --------
    fit_imputed : fits and pools.

    Examples
    --------
    >>> import numpy as np
    >>> import statsmodels.api as sm
    >>> from pybayesridge import BayesRidge, pool
    >>> longley = sm.datasets.longley.load_pandas().data
    >>> rng = np.random.default_rng(0)
    >>> completed = [longley.assign(UNEMP=longley["UNEMP"] + rng.normal(0, 100, 16)) for _ in range(5)]
    >>> pooled = pool([BayesRidge.from_formula("TOTEMP ~ GNP + UNEMP", data).fit() for data in completed])
    >>> bool(pooled.bse["UNEMP"] > min(fit.bse["UNEMP"] for fit in pooled.fits))
    True
    """
    given: list[Any] = list(fits) if isinstance(fits, Sequence) else []
    if len(given) < 2 or not all(isinstance(fit, LinearResults) for fit in given):
        raise ValueError("fits must be a list of at least two results of BayesRidge or SpikeSlab")
    _check_alike(given)
    different = first_difference([_states(fit) for fit in given])
    if different is not None:
        i, name = different
        raise ValueError(
            f"fits[{i}] and fits[0] use different numbers in {name!r}, such as knots or means, so that their "
            "coefficients mean different things: fit_imputed(), with models by from_formula, finds such numbers once "
            "for all data sets; or write them into the formula, as in bs(x, knots=[1, 2])"
        )
    return PooledResults(given)


def _check_alike(fits: Sequence[Any]) -> None:
    """Refuse fits that have no common posterior."""
    if any(fit.model.distribution.has_cuts for fit in fits):
        raise ValueError("fits with family='ordinal' cannot be pooled: pool draws of sample(n, hyper_columns=True)")
    first = _identity(fits[0])
    for i, fit in enumerate(fits):
        for what, value in _identity(fit).items():
            if value != first[what]:
                shown, other = (listed(v) or "none" if isinstance(v, list) else v for v in (value, first[what]))
                raise ValueError(f"fits[{i}] and fits[0] differ in {what}: {shown} and {other}")
        check_order(f"fits[{i}]", fit.model, "fits[0]", fits[0].model)
        if not fit.has_joint_posterior:
            raise ValueError(NO_ROW_SPACE.format(what="pooling"))
        if not getattr(fit.posterior, "has_mean", True):
            raise ValueError(
                f"fits[{i}] has no posterior means, which cannot be pooled: the columns separate the responses"
            )


def fit_imputed(data_sets: Iterable[Data], fit: Callable[[Data], AnyResults]) -> PooledResults:
    """Fit a model to each of several completed (multiply imputed) data sets and pool the posteriors.

    Parameters
    ----------
    data_sets : sequence
        At least two: the data with missing values filled in, by mice, IterativeImputer or any other tool.
    fit : callable
        ``fit(data)`` returns the results for one of them. If its formula has transforms that learn from the data,
        such as ``bs``, ``scale``, ``center`` and ``poly``, and what they learn differs between the data sets, they
        learn it from the rows of all data sets together, and ``fit`` is called a second time for each data set: the
        knots of a spline are the same in all fits.

    Returns
    -------
    PooledResults

    Raises
    ------
    ValueError
        For bad data or values that are still missing; the message begins with the data set. For fits that differ, as
        their columns do if a level of a factor occurs in some data sets only; see :func:`pybayesridge.pool`.

    Examples
    --------
    >>> import numpy as np
    >>> import statsmodels.api as sm
    >>> from pybayesridge import BayesRidge, fit_imputed
    >>> longley = sm.datasets.longley.load_pandas().data
    >>> rng = np.random.default_rng(0)
    >>> completed = [longley.assign(UNEMP=longley["UNEMP"] + rng.normal(0, 100, 16)) for _ in range(5)]
    >>> pooled = fit_imputed(completed, lambda data: BayesRidge.from_formula("TOTEMP ~ GNP + UNEMP", data).fit())
    >>> bool(pooled.between_share["UNEMP"] > pooled.between_share["GNP"])
    True
    """
    if not callable(fit):
        raise ValueError(f"fit must be a function from a data set to results, not {type(fit).__name__}")
    if isinstance(data_sets, str | Mapping) or hasattr(data_sets, "columns"):
        raise ValueError(f"data_sets must be a list of data sets, not one {type(data_sets).__name__}")
    sets = list(data_sets)
    learned = []
    fits = []
    for i, data in enumerate(sets):
        with learning() as here:
            fits.append(_one_fit(fit, data, i))
        learned.append(here)
    if len(fits) > 1:
        _check_alike(fits)
    together = learned_together(learned)
    if together is not None:
        for i, data in enumerate(sets):
            with learning(together):
                fits[i] = _one_fit(fit, data, i)
    return pool(fits)


def _one_fit(fit: Callable[[Data], AnyResults], data: Data, i: int) -> AnyResults:
    """The fit of one data set, or an error that names it."""
    try:
        found = fit(data)
    except ValueError as error:
        raise ValueError(f"data_sets[{i}]: {error}") from error
    if not isinstance(found, LinearResults):
        raise ValueError(f"fit(data_sets[{i}]) returns {type(found).__name__}, not results: end with .fit()")
    if found.model.data.n_dropped:
        raise ValueError(
            f"data_sets[{i}] still has missing values in {found.model.data.n_dropped} row(s) of the variables of "
            "the model: impute them too"
        )
    return found


def _states(fit: LinearResults) -> dict[str, Any]:
    """What the transforms of a formula have learned of the data."""
    spec: Any = fit.model.formula_spec
    if spec is None or spec.spec is None:
        return {}
    specs = [spec.spec, *(band.spec for band in spec.bands)]
    return {name: state for one in specs for name, state in one.transform_state.items()}


def _identity(fit: LinearResults) -> dict[str, Any]:
    """What pooled fits must have in common."""
    model: Any = fit.model
    spec: Any = model.formula_spec
    factors = {} if spec is None else {name: levels_of(spec, name) for name in spec.variables}
    return {
        "their model": type(model).__name__,
        "method": fit.method,
        "family": model.family,
        "link": getattr(model, "link", None),
        "event": getattr(model, "event", None),
        "responses": list(model.data.targets),
        "columns": list(model.exog_names),
        "unpenalised columns": [model.data.exog_columns[j] for j in model.data.unpenalized],
        "bands": [] if getattr(model, "bands", None) is None else list(model.bands.names),
        "standardize": model.standardize,
        "number of rows": int(fit.nobs),
        "levels of factors": [f"{name}: {', '.join(map(str, levels))}" for name, levels in factors.items() if levels],
    }
