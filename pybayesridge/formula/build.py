"""Formulas: formula/ and streams/ alone know formulaic.

statsmodels' global engine is never consulted, neither when a model is built nor when it predicts or is unpickled.
"""

from __future__ import annotations

import builtins
import warnings
from collections.abc import Collection, Iterable, Mapping
from numbers import Number
from typing import Any

import numpy as np
import pandas as pd
from formulaic import ModelSpec
from formulaic.errors import DataMismatchWarning, FormulaicError
from formulaic.transforms import TRANSFORMS
from formulaic.utils.context import capture_context

from pybayesridge.data.frames import as_array, library_of, masked_column, to_pandas, without_arrow
from pybayesridge.exceptions import DataWarning
from pybayesridge.formula.all_rows import terms_of_all_rows, values_by_row
from pybayesridge.formula.band_terms import bands_at, bands_of, evaluated, left_out, names_of_terms, parsed_terms
from pybayesridge.formula.bands import BandColumns, joined, largest_group, matrix_of
from pybayesridge.formula.bars import take_out
from pybayesridge.formula.names import (
    Context,
    names_of,
    own_of_side,
    own_values,
    refuse_named_intercept,
    sees_other_rows,
)
from pybayesridge.formula.parse import parse
from pybayesridge.formula.per_row import PerRow, aligned, check_missing, labelled, missing_in, per_row, take
from pybayesridge.formula.plain import PlainFormula, kinds_of_numbers, numbers, plain_formula
from pybayesridge.formula.response import response
from pybayesridge.formula.shared import matrices_of
from pybayesridge.formula.spec import FormulaData, FormulaSpec, warn_of_levels
from pybayesridge.formula.values import (
    kinds_of,
    model_matrix,
    plain_dtypes,
    refuse_all_but_numbers,
    refuse_other_kinds,
    used_categories,
)
from pybayesridge.text import SHOWN, did_you_mean, listed, repeated


def capture(depth: int) -> Context | None:
    """Names visible `depth` frames above the caller."""
    return capture_context(depth + 1)


def to_frame(data: Any) -> pd.DataFrame:
    """Data as a pandas frame: from pandas, polars, pyarrow, a dict of arrays or a structured array."""
    data = to_pandas(data)
    if isinstance(data, pd.DataFrame):
        return without_arrow(data)
    if isinstance(data, np.ma.MaskedArray) and data.dtype.names is not None:
        data = {name: data[name] for name in data.dtype.names}
    if isinstance(data, Mapping):
        if data and all(isinstance(value, str | Number) for value in data.values()):
            raise ValueError(
                f"data cannot be made a data frame: write single values in lists, {next(iter(data))}=[...]"
            )
        data = {name: masked_column(as_array(column)) for name, column in data.items()}
    try:
        return pd.DataFrame(data)
    except (ValueError, TypeError) as error:
        raise ValueError(f"data cannot be made a data frame: {error}") from error


def build(
    formula: str,
    data: Any,
    *,
    subset: Any,
    drop_cols: Iterable[str] | None,
    missing: str,
    weights: Any,
    context: Context | None,
    extent: Any = None,
    extent_name: str = "",
    binary: bool = False,
) -> FormulaData:
    """Evaluate a two-sided formula on data.

    Parameters
    ----------
    formula : str
        ``"y ~ x1 + C(g)"``, ``"y1 + y2 ~ x"``; ``.`` stands for the columns not named otherwise, `extent`
        among them.
    data : pandas, polars or pyarrow frame, dict of arrays
    subset : array-like or None
        Boolean mask or row labels of the rows to use.
    drop_cols : iterable of str or None
        Columns of the design to leave out.
    missing : {"drop", "raise"}
        Treatment of rows in which a variable of the formula is missing.
    weights : str, array-like or None
        The name of a column, or one weight for each row of `data`.
    context : mapping or None
        Where names that are neither columns of the data nor functions of formulas are looked up.
    extent : str, array-like or None
        How large each row is, as `weights`.
    extent_name : str
        The argument that it is.
    binary : bool
        Whether the left-hand side may be a factor, which then stays one.

    Raises
    ------
    ValueError
        For a formula without a left-hand side, rows that are all missing, or missing values with
        ``missing="raise"``.
    formulaic.errors.FormulaicError
        For a formula that cannot be parsed, or names a variable that is not there.
    """
    _check_arguments(formula, missing)
    frame = to_frame(data)
    split = take_out(formula)
    terms_of_bands = parsed_terms(split.terms, frame, context)
    apart = left_out(terms_of_bands) | ({extent} if isinstance(extent, str) else set())
    plain = None if terms_of_bands else plain_formula(formula, frame, apart)
    parsed: Any = parse(split.fixed, frame, apart) if plain is None else None
    beside = per_row(frame, **{"weights": weights, extent_name: extent})
    if subset is not None:
        frame, beside = take(frame, beside, subset)
    if plain is not None:
        return _build_plain(plain, formula, frame, beside, extent_name, drop_cols, missing, library_of(data))
    names, of_bands = names_of(parsed), names_of_terms(terms_of_bands)
    names |= of_bands
    own = aligned(own_values(names, [str(c) for c in frame.columns], context), frame.index)
    used, gone = _columns_read(frame, names.read)
    frame, labels = frame.reset_index(drop=True), frame.index
    absent: Any = gone.any(axis=1) | missing_in(beside)
    if absent.any():
        check_missing(absent, dict(zip(used, gone.sum(axis=0).tolist(), strict=True)), beside, missing)
    rows = np.arange(len(frame)) if sees_other_rows(parsed) else np.flatnonzero(~absent)
    if len(rows) == 0:
        raise ValueError("there are no rows: nothing can be fitted")
    frame = _columns_of(frame, used)
    frame = plain_dtypes(frame if len(rows) == len(frame) else frame.iloc[rows].reset_index(drop=True), used)
    matrices, without_level = matrices_of(parsed, frame, own)
    spec, made = matrices.rhs.model_spec, matrices.rhs.__wrapped__
    keep, terms, has_intercept = layout(spec, list(spec.column_names), drop_cols)
    endog = response(matrices.lhs, formula, binary, frame, own)
    exog = _columns_named(made, list(spec.column_names), keep)
    bands = evaluated(terms_of_bands, frame, own)
    beside_exog = pd.concat([exog, *(band.gaps for band in bands)], axis=1) if bands else exog
    complete = _complete(endog, beside_exog, without_level, ~absent[rows], missing, sees_other_rows(parsed))
    right = names_of(parsed.rhs) | of_bands
    variables, own = sorted(right.read & set(used)), own_of_side(right, own)
    frame = _columns_of(frame, variables)
    odd, kinds = terms_of_all_rows(spec, frame, made, own), kinds_of(frame, variables)
    by_row = values_by_row(spec, frame, made, own)
    for band in bands:
        odd += band.terms_of_all_rows(frame, own)
        by_row += values_by_row(band.spec, frame, band.frame, own)
    coded = bands_of(bands, frame, complete, spec)
    kept = {name: value for name, value in own.items() if name not in by_row}
    in_file = tuple(each.band for each in coded)
    fspec = FormulaSpec(formula, spec, keep, variables, kinds, kept, has_intercept, tuple(own), odd, in_file)
    if not complete.all():
        endog, exog, rows = endog.loc[complete], exog.loc[complete], rows[complete]
        frame = frame.loc[complete].reset_index(drop=True)
    warn_of_levels(fspec, len(rows))
    labels = labels if len(rows) == len(absent) else labels[rows]
    at = len(keep)
    for each in in_file:
        terms[each.of_term] = list(range(at, at + len(each.all_columns)))
        at += len(each.all_columns)
    return FormulaData(
        endog.set_axis(labels, axis=0),
        exog.set_axis(labels, axis=0),
        labelled(beside, "weights", rows, labels),
        terms,
        fspec,
        len(absent) - len(rows),
        library_of(data),
        labelled(beside, extent_name, rows, labels),
        frame,
        coded,
    )


def _columns_named(made: pd.DataFrame, names: list[str], keep: list[str]) -> pd.DataFrame:
    """Some columns of a matrix, in its order."""
    kept = set(keep)
    at = [i for i, name in enumerate(names) if name in kept]
    values = made.to_numpy()
    if values.dtype != np.float64:
        return made.take(at, axis=1)
    neighbours = bool(at) and at[-1] - at[0] == len(at) - 1
    some = values[:, at[0] : at[-1] + 1] if neighbours else values[:, at]
    return pd.DataFrame(some, index=made.index, columns=[names[i] for i in at], copy=False)


def _all_numbers(frame: pd.DataFrame) -> bool:
    """Whether it is plain that no value is missing."""
    values = frame.to_numpy()
    return values.dtype == np.float64 and not np.isnan(values).any()


def _columns_of(frame: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    """Some columns, by position, which is faster than by name."""
    position = {str(name): i for i, name in enumerate(frame.columns)}
    return frame.take([position[name] for name in names], axis=1).set_axis(names, axis=1)


def _columns_read(frame: pd.DataFrame, names: Collection[str]) -> tuple[list[str], Any]:
    """Columns that a formula reads, and where their values are missing; by position, which is faster than by name."""
    columns = [str(column) for column in frame.columns]
    where = [i for i, column in enumerate(columns) if column in names]
    used = [columns[i] for i in where]
    _refuse_duplicates(used)
    gone = np.empty((len(frame), len(where)), dtype=bool, order="F")
    for j, i in enumerate(where):
        column = frame.iloc[:, i]
        floats = isinstance(column.dtype, np.dtype) and column.dtype.kind == "f"
        gone[:, j] = np.isnan(column.to_numpy()) if floats else column.isna().to_numpy()
    return used, gone


def _complete(
    endog: pd.DataFrame, exog: pd.DataFrame, without_level: Any, complete: Any, missing: str, neighbours: bool
) -> Any:
    """Rows, of those that are `complete`, without what is not a number although all that it is made of is there.

    Such as a first lag.
    """
    no_level = (without_level & complete).any()
    if not no_level and _all_numbers(endog) and _all_numbers(exog):
        return complete
    made = pd.concat([endog, exog], axis=1)
    if no_level:
        made["a factor"] = np.where(without_level, np.nan, 0.0)
    absent = made.isna().to_numpy()
    if not absent[complete].any():
        return complete
    counts = pd.Series(absent[complete].sum(axis=0), index=made.columns)
    counts = counts[counts > 0]
    told = ", ".join(f"{name!r} ({count})" for name, count in counts.head(SHOWN).items())
    if missing == "raise":
        raise ValueError(f"missing values in {told}: leave those rows out, or use missing='drop'")
    if (counts == complete.sum()).any():
        raise ValueError(
            f"{told}: no row has a value"
            + (
                ". In a formula with lag() a transform that uses all rows, such as scale or bs, needs data without "
                "missing values: remove those rows first" * neighbours
            )
        )
    if not neighbours:
        warnings.warn(f"rows in which {told} is not a number were left out", DataWarning, stacklevel=4)
    return complete & ~absent.any(axis=1)


def _build_plain(
    plain: PlainFormula,
    formula: str,
    frame: pd.DataFrame,
    beside: PerRow,
    extent_name: str,
    drop_cols: Iterable[str] | None,
    missing: str,
    library: str,
) -> FormulaData:
    """The result of :func:`build` for numeric columns."""
    names, labels = [*plain.responses, *plain.columns], frame.index
    values = numbers(frame, names)
    absent: Any = np.isnan(values).any(axis=1)
    absent = absent | missing_in(beside)
    rows = np.flatnonzero(~absent)
    if absent.any():
        counts = dict(zip(names, np.isnan(values).sum(axis=0).tolist(), strict=True))
        check_missing(absent, {c: counts[c] for c in frame.columns if c in counts}, beside, missing)
        values, labels = values[rows], labels[rows]
    if len(values) == 0:
        raise ValueError("there are no rows: nothing can be fitted")
    q, first = len(plain.responses), ["Intercept"] if plain.has_intercept else []
    dropped = _checked_drop(drop_cols, [*first, *plain.columns])
    at = [j for j, name in enumerate(plain.columns, start=q) if name not in dropped]
    keep = [names[j] for j in at]
    design = values[:, q:] if len(at) == len(plain.columns) else values[:, at]
    position = {name: [i] for i, name in enumerate(keep)}
    terms: dict[str, list[int]] = {"1": []} if first else {}
    terms |= {name: position.get(name, []) for name in plain.columns}
    variables = sorted(plain.columns)
    kinds = kinds_of_numbers(frame, variables)
    has_intercept = plain.has_intercept and "Intercept" not in dropped
    return FormulaData(
        pd.DataFrame(values[:, :q], columns=plain.responses, index=labels),
        pd.DataFrame(design, columns=keep, index=labels, copy=False),
        labelled(beside, "weights", rows, labels),
        terms,
        FormulaSpec(formula, None, keep, variables, kinds, {}, has_intercept),
        int(absent.sum()),
        library,
        labelled(beside, extent_name, rows, labels),
    )


def layout(
    spec: ModelSpec, names: list[str], drop_cols: Iterable[str] | None
) -> tuple[list[str], dict[str, list[int]], bool]:
    """Columns of the design to keep, positions among them of each term's, and whether there is an intercept."""
    if repeated(names):
        raise ValueError(
            f"the formula makes two columns called {listed(repeated(names))}: rename the column of the data that is "
            "called as an intercept, a level of a factor or an interaction is"
        )
    refuse_named_intercept(spec)
    dropped = _checked_drop(drop_cols, names)
    has_intercept = "Intercept" in names and "Intercept" not in dropped
    leave = {"Intercept", *dropped}
    keep = [name for name in names if name not in leave]
    position = {name: i for i, name in enumerate(keep)}
    terms = {
        str(term): [position[name] for name in names[where] if name in position]
        for term, where in spec.term_slices.items()
    }
    return keep, terms, has_intercept


def transform(spec: FormulaSpec, data: Any, *, population: bool = False) -> tuple[Any, pd.Index]:
    """Code new data as the data of the fit were coded, with the functions and values that the fit used.

    Parameters
    ----------
    spec : FormulaSpec
    data : frame, dict or Series
    population : bool
        Whether a group that is missing has the effect 0, as in the middle of the population; else it is an error,
        since only the variance of its effect is known.

    Returns
    -------
    rows : (m, number of columns) array or csc matrix
        The design, columns of bands last, with rows of NaN where a variable is missing.
    labels : pandas.Index
        The row labels of `data`.

    Raises
    ------
    ValueError
        If a variable is absent, a factor or group has a level that the fit has not seen, or the fit no longer holds a
        function or a value of the caller's that its formula uses.
    """
    frame = to_frame(data.to_frame().T if isinstance(data, pd.Series) else data)
    out, bands, labels = transform_with_bands(spec, data)
    for each in bands:
        if each.band.kind == "group" and each.band.groups is not None:
            gone = frame[list(each.band.groups.variables)].isna().any(axis=1).to_numpy()
            _refuse_new_groups(each, labels, gone if population else np.zeros(len(frame), dtype=bool))
    return matrix_of(joined(out, bands)), labels


def _refuse_new_groups(band: BandColumns, labels: pd.Index, known: Any) -> None:
    """Refuse rows of groups that the fit has not seen, but for those that are `known` to be meant."""
    # A derivative asks for each row twice.
    new = labels[(band.unseen_level >= 0) & ~known].unique()
    if new.size and band.band.groups is not None:
        more = f" and {new.size - 1:,} more" if new.size > 1 else ""
        raise ValueError(
            f"row {new[:1].tolist()[0]!r}{more}: {band.band.groups.name!r} is missing, or a group that the "
            "fit has not seen, so that only the variance of its effect is known: leave such rows out, or ask "
            "predict() or get_prediction(), which take them"
        )


def transform_with_bands(spec: FormulaSpec, data: Any) -> tuple[pd.DataFrame, tuple[BandColumns, ...], pd.Index]:
    """The result of :func:`transform` in parts, the design without bands and these; also with new groups.

    A group that is missing, or that the fit has not seen, has zeros: see :class:`BandColumns`.
    """
    frame = to_frame(data.to_frame().T if isinstance(data, pd.Series) else data)
    labels = frame.index
    given = frame.columns.tolist()
    known, used = set(given), set(spec.variables)
    absent = [name for name in spec.variables if name not in known]
    if absent:
        near = did_you_mean(absent[0], frame.columns) if len(absent) == 1 else ""
        raise ValueError(f"the new data lack the variable(s) {listed(absent)} of the formula {spec.formula!r}{near}")
    if len(known) < len(given):
        _refuse_duplicates([str(c) for c in given if str(c) in used])
    if spec.spec is None:
        return _transform_plain(spec, frame, isinstance(data, pd.Series)), (), labels
    spec.refuse_lost()
    spec.refuse_all_rows()
    frame = _columns_of(frame.reset_index(drop=True), spec.variables)
    groups = spec.groups
    needed = [name for name in spec.variables if name not in groups]
    gone = frame[needed].isna().any(axis=1).to_numpy() if needed else np.zeros(len(frame), bool)
    out = pd.DataFrame(np.nan, index=range(len(frame)), columns=spec.columns)
    neighbours = sees_other_rows(spec.spec.formula)
    read: Any = slice(None) if neighbours else ~gone
    rows = frame.loc[read].reset_index(drop=True)
    if isinstance(data, pd.Series):
        rows = rows.infer_objects()
    rows = plain_dtypes(rows, needed)
    refuse_other_kinds(rows, {name: spec.kinds[name] for name in needed})
    rows = used_categories(rows, needed)
    if not gone.all():
        try:
            made, without_level = model_matrix(spec.spec, rows, spec.context)
        except DataMismatchWarning as error:
            raise ValueError(
                f"new data have a level that the fit has not seen ({error}): leave those rows out"
            ) from error
        values = pd.DataFrame(made)[spec.columns].to_numpy(dtype=np.float64, copy=True)
        values[without_level] = np.nan
        out.loc[~gone, :] = values if len(values) < len(frame) else values[~gone]
    if not spec.bands:
        return out, (), labels
    at = np.flatnonzero(~gone)
    bands = bands_at(spec.bands, rows.iloc[at].reset_index(drop=True) if neighbours else rows, spec.context)
    return out, tuple(band.among(len(frame), at) for band in bands), labels


def _transform_plain(spec: FormulaSpec, frame: pd.DataFrame, one_row: bool) -> pd.DataFrame:
    """The result of :func:`transform` for numeric columns."""
    if set(spec.columns) == set(spec.variables) and "boolean" not in spec.kinds.values():
        some = frame[spec.columns]
        if all(isinstance(dtype, np.dtype) and dtype.kind in "iuf" for dtype in set(some.dtypes)):
            values = some.to_numpy(dtype=np.float64, copy=True)
            values[np.isnan(values).any(axis=1)] = np.nan
            return pd.DataFrame(values, columns=spec.columns, copy=False)
    some = frame[spec.variables]
    gone: Any = some.isna().to_numpy().any(axis=1)
    rows = some.loc[~gone] if gone.any() else some
    odd = [c for c, dtype in zip(rows.columns, rows.dtypes, strict=True) if getattr(dtype, "kind", "O") not in "iufb"]
    if odd and len(rows):
        rows = plain_dtypes(rows.infer_objects() if one_row else rows, odd)
    looked_at = {*odd, *(name for name, kind in spec.kinds.items() if kind == "boolean")}
    refuse_other_kinds(rows, {name: spec.kinds[name] for name in spec.variables if name in looked_at})
    if len(rows):
        refuse_all_but_numbers(rows, odd)
    out = np.full((len(some), len(spec.columns)), np.nan)
    if len(rows):
        out[~gone] = numbers(rows, spec.columns)
    return pd.DataFrame(out, columns=spec.columns, copy=False)


def names_read(formula: str, frame: pd.DataFrame) -> tuple[list[str], list[str]]:
    """Columns of the data that a formula reads, and names in it that are neither columns nor formulaic's own.

    Raises
    ------
    ValueError
        For a formula without a left-hand side.
    formulaic.errors.FormulaicError
        For a formula that cannot be parsed.
    """
    columns = [str(c) for c in frame.columns]
    split = take_out(formula)
    terms = parsed_terms(split.terms, frame, None)
    found = names_of(parse(split.fixed, frame, left_out(terms))) | names_of_terms(terms)
    own = {*columns, *TRANSFORMS, *dir(builtins)}
    unknown = (found.terms - set(columns)) | ((found.variables | found.functions) - own)
    return [c for c in columns if c in found.read], sorted(unknown)


def _refuse_duplicates(names: list[str]) -> None:
    twice = repeated(names)
    if twice:
        raise ValueError(f"duplicate column name(s) {listed(twice)} in the data: give each column a name of its own")


def _checked_drop(drop_cols: Iterable[str] | None, columns: list[str]) -> set[str]:
    if drop_cols is None:
        return set()
    wanted = {drop_cols} if isinstance(drop_cols, str) else set(drop_cols)
    unknown = sorted(wanted - set(columns))
    if unknown:
        raise ValueError(f"drop_cols names {listed(unknown)}, which the design lacks; it has {listed(columns)}")
    return wanted


def _check_arguments(formula: Any, missing: Any) -> None:
    if missing not in ("drop", "raise"):
        raise ValueError(f"missing must be 'drop' or 'raise', not {missing!r}")
    if not isinstance(formula, str):
        raise ValueError(f"formula must be a string such as 'y ~ x', not {type(formula).__name__}")


__all__ = [
    "Context",
    "FormulaData",
    "FormulaSpec",
    "FormulaicError",
    "bands_at",
    "build",
    "capture",
    "joined",
    "largest_group",
    "matrix_of",
    "names_read",
    "to_frame",
    "transform",
    "transform_with_bands",
]
