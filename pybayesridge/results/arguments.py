"""Arguments of results: targets, probabilities, which coefficients are shown and in what unit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pybayesridge._types import BoolArray, FloatArray, IntArray, Names
from pybayesridge.design.design import Design
from pybayesridge.text import listed

if TYPE_CHECKING:
    from pybayesridge.models.base import LinearModel


FITS = "fits must be a dict from names to results, or a list of results"


def check_alpha(alpha: float) -> float:
    """One minus the probability of an interval."""
    if not isinstance(alpha, float | int | np.floating | np.integer) or not 0 < alpha < 1:
        raise ValueError(f"alpha must lie between 0 and 1, not {alpha!r}: 0.05 gives 95 % intervals")
    return float(alpha)


def named_fits(fits: object) -> dict[str, Any]:
    """Fits by name: of a dict by its keys as text, of a list "(1)", "(2)", ....

    Raises
    ------
    ValueError
        For something else, none at all, or names that are the same as text.
    """
    if isinstance(fits, list | tuple):
        return {f"({i})": fit for i, fit in _several(enumerate(fits, 1))}
    if not isinstance(fits, Mapping):
        raise ValueError(f"{FITS}, not {type(fits).__name__}")
    if len({str(name) for name in fits}) < len(fits):
        raise ValueError(f"the names of fits must differ as text, not {listed(fits)}")
    return {str(name): fit for name, fit in _several(fits.items())}


def _several(pairs: Iterable[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    out = list(pairs)
    if not out:
        raise ValueError(f"there are no fits to compare: {FITS}, with at least one fit")
    return out


def target_position(names: list[str], target: str | int | None, what: str) -> int:
    """Position of a target given by name or position; it has to be given where there are several.

    Raises
    ------
    ValueError
        If it is missing where there are several, or is none of them.
    """
    if target is None:
        if len(names) > 1:
            raise ValueError(f"{what} needs target= for a model with {len(names)} targets, one of {listed(names)}")
        return 0
    if target in names:
        return names.index(str(target))
    if isinstance(target, bool) or not isinstance(target, int | np.integer) or not 0 <= target < len(names):
        raise ValueError(f"target {target!r} is not one of {listed(names)}, nor a position among them")
    return int(target)


def check_responses(res: Any, what: str) -> None:
    """Refuse results without the rows of their data, and pooled fits whose responses differ."""
    if res.model.endog is None:
        raise ValueError(res.model.why_no_rows)
    first = res.model.endog
    if any(part.model.endog is None or not np.array_equal(part.model.endog, first) for part in res.parts[1:]):
        raise ValueError(
            f"{what}() compares predictions with responses, and the responses of these pooled fits differ, as where "
            "they were imputed: fit the rows whose responses were observed, or ask the single fits"
        )


def term_positions(model: LinearModel, terms: Names) -> IntArray:
    """Positions in ``exog_names`` of coefficients named by column or by term of the formula, in the order given.

    Raises
    ------
    ValueError
        For a name that is neither, or none at all.
    """
    names = list(model.exog_names)
    where = {name: [i] for i, name in enumerate(names)}
    spec = model.formula_spec
    if spec is not None:
        for term, columns in spec.columns_of_terms().items():
            where.setdefault(term, [where[name][0] for name in columns if name in where])
    wanted = list(terms) if isinstance(terms, Iterable) and not isinstance(terms, str) else [terms]
    unknown = [term for term in wanted if str(term) not in where]
    if unknown:
        raise ValueError(
            f"terms names {listed(unknown)}, which are not coefficients of the fit; there are {listed(where)}"
        )
    out = list(dict.fromkeys(i for term in wanted for i in where[str(term)]))
    if not out:
        raise ValueError("terms is empty: name the coefficients to show, or leave it out")
    return np.array(out, dtype=np.intp)


def check_top(top: int | None) -> int | None:
    """How many to show: a positive integer, or None for all."""
    if top is None:
        return None
    if isinstance(top, bool) or not isinstance(top, int | np.integer) or top < 1:
        raise ValueError(f"top must be a positive integer, or None for all, not {top!r}")
    return int(top)


def shown_positions(
    model: LinearModel,
    design: Design,
    importance: FloatArray,
    *,
    terms: Names | None,
    top: int | None,
    intercept: bool,
    most: str,
) -> tuple[IntArray, str]:
    """Positions in ``exog_names`` of the coefficients to show, and how many of how many these are.

    Parameters
    ----------
    model : LinearModel
    design : Design
    importance : (k,) array
        What the first of many are chosen by.
    terms : names or None
        These, whatever their number.
    top : int or None
        At most so many; None for all.
    intercept : bool
        Whether the intercept is among them.
    most : str
        What the first are: "largest", "likeliest".

    Returns
    -------
    positions : int array
        In the order of the columns where all are shown, else by importance.
    note : str
        Empty where all are shown.
    """
    limit = check_top(top)
    if terms is not None:
        at = term_positions(model, terms)
        return at, f"{at.size:,} of {len(model.exog_names):,} coefficients"
    at = np.arange(len(model.exog_names))
    if not intercept:
        at = np.setdiff1d(at, intercept_position(model))
    if limit is None or at.size <= limit:
        return at, ""
    order = at[np.argsort(-importance[at], kind="stable")][:limit]
    return order, f"the {limit:,} {most} of {at.size:,} coefficients"


def intercept_position(model: LinearModel) -> list[int]:
    """Position of the intercept in ``exog_names``, as a list of one or none."""
    data = model.data
    if data.intercept_name is not None:
        return [0]
    return [] if data.const_idx is None else [int(data.const_idx)]


def units(model: LinearModel, design: Design, standardized: bool) -> FloatArray:
    """Factors that put coefficients per standard deviation of their column; 1 for unpenalised ones."""
    out = np.ones(len(model.exog_names))
    if standardized:
        out[model.positions(design)[1]] = design.sd
    return out


def unit_names(model: LinearModel, design: Design, positions: IntArray, standardized: bool) -> list[str]:
    """Names of coefficients; where others are standardised, those that are not say so."""
    own = set(model.positions(design)[0].tolist()) if standardized else set()
    return [model.exog_names[i] + (" (per unit)" if i in own else "") for i in positions]


def standardized_size(model: LinearModel, design: Design, b: FloatArray) -> FloatArray:
    """Size of coefficients (k,) per standard deviation of their column; unpenalised ones always come first."""
    size = np.zeros(len(model.exog_names))
    z_at, at = model.positions(design)
    size[at] = np.abs(b[at]) * design.sd
    size[z_at] = np.inf
    return size


def shown_last(model: LinearModel) -> BoolArray:
    """Which coefficients (k,) are effects of groups or parts of curves, which long tables show after all others."""
    bands = () if model.formula_spec is None else model.formula_spec.bands
    own = {name for band in bands if band.kind != "columns" for name in band.columns}
    return np.array([name in own for name in model.exog_names])


def unit_rows(model: LinearModel, design: Design, positions: Sequence[int]) -> tuple[FloatArray, FloatArray]:
    """Rows over the penalised (m, p) and the unpenalised columns (m, k) that give single coefficients."""
    z_at, at_penalized = model.positions(design)
    x_rows = np.zeros((len(positions), design.p))
    z_rows = np.zeros((len(positions), design.block.k))
    for rows, where in ((z_rows, z_at), (x_rows, at_penalized)):
        column = {int(position): j for j, position in enumerate(where)}
        for row, position in enumerate(positions):
            if position in column:
                rows[row, column[position]] = 1.0
    return x_rows, z_rows
