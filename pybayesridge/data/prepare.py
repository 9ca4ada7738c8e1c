"""The user's arrays and frames → checked arrays with names: the border where everything is validated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from pybayesridge._types import AnyArray, FloatArray, IntArray
from pybayesridge.checks import positive
from pybayesridge.data.arrays import (
    NamedColumns,
    as_column_names,
    as_exog,
    as_matrix,
    as_weights,
    check_finite,
    check_weights,
    constant_values,
    is_finite,
    is_pandas,
    missing_rows,
)
from pybayesridge.data.frames import library_of, to_pandas
from pybayesridge.text import did_you_mean, listed


@dataclass
class ModelData:
    """The ``data`` of a statsmodels model: arrays, names, and the labelling of results.

    Not frozen, since statsmodels' ``remove_data`` sets attributes to None.

    Attributes
    ----------
    endog : (n,) or (n, q) float64 array
    exog : (n, m) array or sparse matrix
        The user's columns in their own dtype and memory order; an added intercept is not among them.
    weights : (n,) array or None
        As given.
    row_labels : pandas.Index
    ynames : str or list of str
        A list when there are several targets.
    exog_columns : list of str
        Names of the columns of `exog`.
    intercept_name : str or None
        Name of the intercept that was added; None when there is none or a column of `exog` serves.
    const_idx : int or None
        Column of `exog` that serves as the intercept.
    unpenalized : int array
        Columns of `exog` with a flat prior, the serving constant among them.
    n_dropped : int
        Rows left out because something in them was missing.
    library : str
        Of the frames that were given, which :meth:`LinearResults.tidy` makes its table with.
    extent : (n,) array or None
        How large rows are, where the family of the response asks for it: numbers of trials, or exposures.
    """

    endog: Any
    exog: Any
    weights: FloatArray | None
    row_labels: pd.Index
    ynames: str | list[str]
    exog_columns: list[str]
    intercept_name: str | None
    const_idx: int | None
    unpenalized: IntArray
    n_dropped: int = 0
    library: str = "pandas"
    extent: FloatArray | None = None
    orig_endog: Any = None
    orig_exog: Any = None

    @property
    def xnames(self) -> list[str]:
        """Names of the coefficients, the intercept first if it was added."""
        return self.exog_columns if self.intercept_name is None else [self.intercept_name, *self.exog_columns]

    param_names = xnames

    @staticmethod
    def of_earlier(state: dict[str, Any]) -> dict[str, Any]:
        """The attributes in files of earlier versions, in which rows had trials or none."""
        return {"extent" if name == "trials" else name: value for name, value in state.items()}

    @property
    def k_constant(self) -> int:
        """1 when the model has an intercept, added or the user's own."""
        return int(self.intercept_name is not None or self.const_idx is not None)

    @property
    def targets(self) -> list[str]:
        """Names of the targets, as a list however many there are."""
        return [self.ynames] if isinstance(self.ynames, str) else self.ynames

    def wrap_output(self, obj: Any, how: str | None = None, names: Any = None) -> Any:
        """Label an array of results: `how` is "columns" (coefficients), "rows", "targets", "cov" or "interval".

        What runs over columns, rows or targets is copied, since results keep the array.
        """
        if obj is None or how is None or (np.ndim(obj) == 0 and how != "targets"):
            return obj
        if how == "cov":
            return pd.DataFrame(obj, index=self.xnames, columns=self.xnames)
        if how == "targets":
            return obj if isinstance(self.ynames, str) else pd.Series(obj, index=self.targets, copy=True)
        if how == "rows" and len(obj) != len(self.row_labels):
            return obj
        index = self.row_labels if how == "rows" else pd.Index(self.xnames)
        if how == "interval":
            if obj.ndim == 2:
                return pd.DataFrame(obj, index=index)
            columns = pd.MultiIndex.from_product([self.targets, range(2)], names=["target", None])
            return pd.DataFrame(obj.reshape(len(obj), -1), index=index, columns=columns)
        if obj.ndim == 1:
            return pd.Series(obj, index=index, copy=True)
        return pd.DataFrame(obj, index=index, columns=self.targets, copy=True)


def serving_constant(n: int, constants: dict[int, float]) -> int | None:
    """The column of n rows that serves as the intercept: one of ones, or else the first other constant but 0."""
    for j, constant in constants.items():
        if constant == 1.0:
            return j
    if n > 1:
        for j, constant in constants.items():
            if constant != 0.0:
                return j
    return None


def added_intercept(names: Sequence[str], find_constant: bool) -> str:
    """Name of an intercept that is added: statsmodels' for arrays, formulas' own for formulas."""
    preferred = ("const", "Intercept") if find_constant else ("Intercept", "const")
    for name in preferred:
        if name not in names:
            return name
    raise ValueError("columns named both 'const' and 'Intercept' vary: rename one, the intercept needs it")


@lru_cache(maxsize=2)
def _numbered(m: int) -> tuple[str, ...]:
    return tuple(f"x{i}" for i in range(1, m + 1))


def array_names(m: int, const_idx: int | None) -> list[str]:
    """The names statsmodels gives to the columns of an array: x1, x2, …, and const for the constant."""
    if const_idx is None:
        return list(_numbered(m))
    names = list(_numbered(m - 1))
    names.insert(const_idx, "const")
    return names


def resolve_columns(
    wanted: Any,
    names: Sequence[str],
    terms: dict[str, list[int]] | None = None,
    what: str = "unpenalized",
    of: str = "exog",
) -> IntArray:
    """Positions of the columns (of `of`) that an argument (`what`) names: by name, position or (with a formula) term.

    Raises
    ------
    ValueError
        For a name that is neither a column nor a term, or a position out of range.
    """
    if wanted is None:
        return np.empty(0, dtype=np.intp)
    items = [wanted] if isinstance(wanted, str) or np.ndim(wanted) == 0 else list(wanted)
    where = {name: i for i, name in enumerate(names)}
    products = {frozenset(term.split(":")): term for term in terms or {} if ":" in term}
    out: set[int] = set()
    for item in items:
        if isinstance(item, bool | np.bool_):
            raise ValueError(f"{what} takes names or positions of columns, not a mask")
        if isinstance(item, int | np.integer):
            at = _position_of(what, int(item), names, where)
            if at is None:
                raise ValueError(f"{what} position {item} is out of range: {of} has {len(names)} columns")
            out.add(at)
        elif terms is not None and str(item) in terms:
            out.update(terms[str(item)])
        elif str(item) in where:
            out.add(where[str(item)])
        elif terms is not None and frozenset(str(item).split(":")) in products:
            out.update(terms[products[frozenset(str(item).split(":"))]])
        else:
            known = list(names) if terms is None else sorted({*names, *terms} - {"1"})
            raise ValueError(f"{what} names {item!r}, which is not a column of {of}{did_you_mean(str(item), known)}")
    return np.array(sorted(out), dtype=np.intp)


def _position_of(what: str, number: int, names: Sequence[str], where: Mapping[str, int]) -> int | None:
    """The position that a number stands for, as name or as position; None if it is neither.

    Parameters
    ----------
    what : str
        The argument that it is.
    number : int
        A negative position counts from the end.
    names : sequence of str
        Labels of a frame can be numbers.
    where : dict of str to int
        Their positions.

    Raises
    ------
    ValueError
        For a number that is the position of one name and reads as another.
    """
    named = where.get(str(number))
    if not -len(names) <= number < len(names):
        return named
    at = int(number) % len(names)
    if named not in (None, at):
        raise ValueError(
            f"{what} {number} is the position of {names[at]!r}, and another is called {str(number)!r}: "
            "write the name as text"
        )
    return at


def prepare(
    endog: Any,
    exog: Any,
    *,
    intercept: bool | str,
    weights: Any,
    unpenalized: Any,
    missing: str,
    max_targets: int | None,
    terms: dict[str, list[int]] | None = None,
    find_constant: bool = True,
    extent: Any = None,
    extent_name: str = "",
) -> ModelData:
    """Check everything the user handed over and label it.

    Parameters
    ----------
    endog, exog, weights : array-like
    intercept : bool or "add"
        Whether the model has an intercept; a constant column of `exog` serves as it where there is one, unless one
        is to be added in any case.
    unpenalized : names or positions, or None
    missing : {"raise", "drop"}
    max_targets : int or None
        Most columns of endog that the model can take.
    terms : dict, optional
        Columns of each term of a formula.
    find_constant : bool
        Whether a constant column of `exog` may serve as the intercept; not with a formula, which says by itself
        what the intercept is.
    extent : array-like, optional
        How large each row is.
    extent_name : str
        The argument that it is.

    Raises
    ------
    ValueError
        For anything that cannot be a regression; the message says which column or row, and what to do.
    """
    if missing not in ("raise", "drop"):
        raise ValueError(f"missing must be 'raise' or 'drop', not {missing!r}")
    library = library_of(exog, endog)
    endog, exog = to_pandas(endog, "endog"), to_pandas(exog, "exog")
    given = None
    if isinstance(exog, NamedColumns):
        exog, given = exog.matrix, as_column_names(exog.names)
    labels = _row_labels(endog, exog)
    y = _responses(endog)
    x, one_target = as_exog(exog), y.shape[1] == 1
    _check_shapes(y, x, max_targets)
    own = labels if is_pandas(exog) or is_pandas(endog) else None
    w, m = _per_row(weights, "weights", y, own), _per_row(extent, extent_name, y, own)
    rows = len(y)
    if missing == "drop":
        y, x, w, m, labels = _complete_rows(y, x, w, m, labels)
    ynames = _target_names(endog, one_target)
    targets = [ynames] if isinstance(ynames, str) else ynames
    given = _names_of(exog) or given
    check_finite(y, targets, "endog")
    if not is_finite(x):
        check_finite(x, given or array_names(x.shape[1], None), "exog")
    check_weights(w, labels)
    check_weights(m, labels, extent_name)
    may_serve = bool(intercept) and intercept != "add" and find_constant
    const_idx = serving_constant(x.shape[0], constant_values(x)) if may_serve else None
    names = given or array_names(x.shape[1], const_idx)
    added = added_intercept(given or (), find_constant) if intercept and const_idx is None else None
    fixed = resolve_columns(unpenalized, names, terms)
    if const_idx is not None:
        fixed = np.union1d(fixed, [const_idx]).astype(np.intp)
    return ModelData(
        endog=y[:, 0] if one_target else y,
        exog=x,
        weights=w,
        extent=m,
        row_labels=labels,
        ynames=ynames,
        exog_columns=names,
        intercept_name=added,
        const_idx=const_idx,
        unpenalized=fixed,
        n_dropped=rows - len(y),
        library=library,
        orig_endog=endog,
        orig_exog=exog,
    )


def _responses(endog: Any) -> FloatArray:
    """The responses, (n, q); several of them are referred to, as columns are, and not copied."""
    y = as_matrix(endog, "endog")
    return y.astype(np.float64, copy=y.shape[1] == 1)


def _names_of(exog: Any) -> list[str] | None:
    """The column names of a frame or Series of pandas."""
    if isinstance(exog, pd.DataFrame):
        return as_column_names(exog.columns)
    if isinstance(exog, pd.Series):
        return [str(exog.name) if exog.name is not None else "x1"]
    return None


def _per_row(values: Any, what: str, y: FloatArray, labels: pd.Index | None) -> FloatArray | None:
    """One number for each row; its labels must be those of the data, where these have some."""
    if values is None:
        return None
    out = as_weights(values, y.shape[0], what)
    if labels is not None and is_pandas(values):
        check_labels(values, labels, "the data", what)
    return out


def _complete_rows(
    y: FloatArray, x: AnyArray, w: FloatArray | None, m: FloatArray | None, labels: pd.Index
) -> tuple[FloatArray, AnyArray, FloatArray | None, FloatArray | None, pd.Index]:
    """The rows without a missing value."""
    gone = missing_rows(y, x, w, m)
    if not gone.any():
        return y, x, w, m, labels
    if gone.all():
        raise ValueError("every row has a missing value: nothing is left to fit")
    left_w, left_m = (None if values is None else values[~gone] for values in (w, m))
    return y[~gone], x[np.flatnonzero(~gone)], left_w, left_m, labels[~gone]


def in_order(what: str, given: Any, names: Sequence[str], of: str) -> Any:
    """Numbers in the order of names if they are given by name, in a dict or a labelled Series; others as they are.

    Parameters
    ----------
    what : str
        The argument that they are.
    given : Any
    names : sequence of str
    of : str
        What has the names, in the plural.
    """
    by_position = isinstance(given, pd.Series) and isinstance(given.index, pd.RangeIndex)
    if by_position or not isinstance(given, Mapping | pd.Series):
        return given
    values = {str(name): value for name, value in given.items()}
    if len(values) < len(given) or sorted(values) != sorted(names):
        raise ValueError(f"{what} must have a number for each of the {of} {listed(names)}")
    return [values[name] for name in names]


def of_new_rows(given: Any, what: str, exog: Any, labels: pd.Index) -> FloatArray:
    """Positive numbers for rows to predict, (m,), NaN where they are missing.

    Parameters
    ----------
    given : float, (m,) array-like or str
        One for all rows, one for each, or the column of `exog` with them.
    what : str
        The argument that they are.
    exog : table or None
        The rows to predict; None for those of the fit.
    labels : Index, (m,)
        Labels of the rows, which those of a Series must be where `exog` has some.
    """
    if isinstance(given, str):
        frame = to_pandas(exog, "exog")
        if isinstance(frame, Mapping):
            frame = pd.DataFrame(frame)
        if not isinstance(frame, pd.DataFrame) or given not in frame.columns:
            raise ValueError(f"{what} names {given!r}, which is not a column of exog")
        given = frame[given]
    if np.ndim(given) == 0:
        return np.full(len(labels), positive(what, given))
    out = as_weights(given, len(labels), what)
    if is_pandas(given) and (exog is None or is_pandas(exog)):
        check_labels(given, labels, "the rows to predict", what)
    check_weights(out[~np.isnan(out)], labels[~np.isnan(out)], what)
    return out


def check_labels(weights: Any, labels: pd.Index, of: str, what: str = "weights") -> None:
    """Refuse weights whose row labels are not those of the data: they would be taken by position."""
    if not weights.index.equals(labels):
        raise ValueError(f"the row labels of {what} and of {of} differ: align them, or pass an array")


def _row_labels(endog: Any, exog: Any) -> pd.Index:
    if is_pandas(endog) and is_pandas(exog) and len(endog) == len(exog) and not endog.index.equals(exog.index):
        raise ValueError("the row labels of endog and exog differ: align them, or pass arrays")
    for obj in (exog, endog):
        if is_pandas(obj):
            return obj.index
    return pd.RangeIndex(np.shape(endog)[0] if np.ndim(endog) else 0)


def _check_shapes(y: FloatArray, x: Any, max_targets: int | None) -> None:
    if y.shape[0] != x.shape[0]:
        raise ValueError(f"endog has {y.shape[0]} rows and exog has {x.shape[0]}: they must be equal")
    if y.shape[0] == 0:
        raise ValueError("there are no rows: nothing can be fitted")
    if y.shape[1] == 0:
        raise ValueError("endog must have at least one column, got 0")
    if max_targets is not None and y.shape[1] > max_targets:
        raise ValueError(f"endog has {y.shape[1]} columns: this model takes {max_targets}")


def _target_names(endog: Any, one_target: bool) -> str | list[str]:
    if isinstance(endog, pd.Series):
        return "y" if endog.name is None else str(endog.name)
    if isinstance(endog, pd.DataFrame):
        names = [str(name) for name in endog.columns]
        if len(set(names)) < len(names):
            raise ValueError(f"duplicate column name(s) in endog: {listed(names)}")
        return names[0] if one_target else names
    if one_target:
        return "y"
    return [f"y{i}" for i in range(1, np.shape(endog)[1] + 1)]
