"""Yes/no responses → 0 and 1, and successes among trials → their proportion."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from pybayesridge._types import FloatArray
from pybayesridge.data.arrays import is_pandas
from pybayesridge.data.frames import to_pandas, unmasked
from pybayesridge.text import listed

BOTH = "a binomial model needs both outcomes"

CODING = "code it as 0 and 1, or pass event="

NOT_A_RESPONSE = "pass one column with two values, or the numbers of successes with trials="


@dataclass(frozen=True, slots=True)
class BinaryResponse:
    """A response as numbers.

    Attributes
    ----------
    values : Series or (n,) array
        1 for the event, 0 for the other level, or numbers of successes; NaN where it is missing.
    event, other : str
        The two levels, as text; "success" and "failure" where there are trials.
    """

    values: Any
    event: str
    other: str


def code_response(endog: Any, event: Any, *, counts: bool) -> BinaryResponse:
    """Code a response.

    Parameters
    ----------
    endog : array-like
        Numbers of successes with `counts`; else 0 and 1, booleans, or a factor with two levels.
    event : level or None
        Whose probability is modelled; by default 1, True, or the second level.
    counts : bool
        Whether there are trials.

    Raises
    ------
    ValueError
        For anything else; the message says what was found and what to do.
    """
    column = _one_column(endog)
    if counts:
        if event is not None:
            raise ValueError("event chooses between the levels of a yes/no response; with trials= endog has counts")
        return BinaryResponse(_like(endog, column, _as_numbers(column)), "success", "failure")
    levels, codes = _levels(column, event)
    if len(levels) > 2:
        raise ValueError(f"endog has {len(levels)} levels ({listed(levels)}): {NOT_A_RESPONSE}")
    if len(levels) < 2:
        found = f"all responses are {_text(levels[0])!r}" if levels else "endog has no value"
        raise ValueError(f"{found}: {BOTH}")
    at = 1 if event is None else _position(levels, event)
    values = np.where(codes < 0, np.nan, codes == at)
    return BinaryResponse(_like(endog, column, values), _text(levels[at]), _text(levels[1 - at]))


def proportions(successes: FloatArray, trials: FloatArray, labels: pd.Index) -> FloatArray:
    """Shares of successes, or a ValueError that names the rows whose counts are none."""
    whole = (successes == np.rint(successes)) & (trials == np.rint(trials))
    bad = np.flatnonzero(~(whole & (successes >= 0) & (trials >= 1) & (successes <= trials)))
    if bad.size:
        raise ValueError(
            "with trials= endog has numbers of successes: whole numbers from 0 to the number of trials, which is 1 "
            f"at least; this is not so in row(s) {listed(labels[bad].tolist())}"
        )
    return successes / trials


def check_both(proportion: FloatArray, response: BinaryResponse) -> None:
    """Refuse rows of one outcome only."""
    if not (proportion < 1).any() or not (proportion > 0).any():
        outcome = response.event if (proportion > 0).any() else response.other
        raise ValueError(f"all responses are {outcome!r}: {BOTH}")


def _one_column(endog: Any) -> pd.Series:
    given = to_pandas(endog, "endog")
    if isinstance(given, pd.DataFrame):
        if given.shape[1] != 1:
            raise ValueError(f"family='binomial' takes one response, got {given.shape[1]} columns: {NOT_A_RESPONSE}")
        return given.iloc[:, 0]
    if isinstance(given, pd.Series):
        return given
    if isinstance(given, pd.Categorical):
        return pd.Series(given)
    array = np.asarray(unmasked(given))
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise ValueError(
            f"family='binomial' takes one response, got an array of shape {array.shape}: {NOT_A_RESPONSE}"
        )
    return pd.Series(array)


def _like(endog: Any, column: pd.Series, values: FloatArray) -> Any:
    """The values with the labels of what was given."""
    given = to_pandas(endog, "endog")
    return pd.Series(values, index=column.index, name=column.name) if is_pandas(given) else values


def _as_numbers(column: pd.Series) -> FloatArray:
    try:
        return pd.to_numeric(column).to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError):
        raise ValueError("with trials= endog must be numeric: the number of successes of each row") from None


def _levels(column: pd.Series, event: Any) -> tuple[list[Any], Any]:
    """The levels in their order, and the position of each row's among them, -1 where it is missing."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        used = column.cat.remove_unused_categories()
        return list(used.cat.categories), used.cat.codes.to_numpy()
    plain = column.infer_objects()
    if pd.api.types.is_numeric_dtype(plain.dtype) and not pd.api.types.is_complex_dtype(plain.dtype):
        return _numeric_levels(plain.to_numpy(dtype=np.float64, na_value=np.nan), event)
    try:
        codes, found = pd.factorize(plain, sort=True)
    except TypeError:
        raise ValueError("endog mixes values that have no order: pass a column of one type") from None
    return list(found), codes


def _numeric_levels(values: FloatArray, event: Any) -> tuple[list[Any], Any]:
    found = np.unique(values[~np.isnan(values)])
    if found.size and np.isin(found, [0.0, 1.0]).all():
        codes = np.where(np.isnan(values), -1, np.nan_to_num(values)).astype(int)
        return ([0.0, 1.0] if found.size == 2 else found.tolist()), codes
    if found.size and ((found >= 0) & (found <= 1)).all():
        raise ValueError("endog has fractions: pass the numbers of successes, and the numbers of trials as trials=")
    if found.size > 2 or (found.size == 2 and event is None):
        count = f"{found.size} different values" if found.size > 2 else "values"
        remedy = NOT_A_RESPONSE if found.size > 2 else CODING
        raise ValueError(f"endog has {count} ({listed(map(_text, found))}), not 0 and 1: {remedy}")
    return found.tolist(), np.where(np.isnan(values), -1, np.searchsorted(found, np.nan_to_num(values)))


def _position(levels: list[Any], event: Any) -> int:
    for i, level in enumerate(levels):
        alike = {_text(level), str(level)} | ({str(bool(level))} if level in (0, 1) else set())
        if level is event or str(event) in alike or _text(event) in alike:
            return i
    raise ValueError(f"event must be one of {listed(map(_text, levels))}, not {event!r}")


def _text(level: Any) -> str:
    whole = isinstance(level, float) and level.is_integer()
    return str(int(level)) if whole else str(level)
