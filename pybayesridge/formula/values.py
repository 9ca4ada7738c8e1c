"""The values of a formula's factors: numbers are float64, factors keep their labels, predictions the fit's kinds."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
from formulaic import ModelSpec, ModelSpecs
from formulaic.errors import DataMismatchWarning, FactorEvaluationError
from formulaic.materializers.pandas import PandasMaterializer
from formulaic.materializers.types import EvaluatedFactor, FactorValues
from formulaic.parser.types import Factor
from formulaic.utils.cast import as_columns
from formulaic.utils.layered_mapping import LayeredMapping
from formulaic.utils.stateful_transforms import stateful_eval
from interface_meta import override

from pybayesridge._types import BoolArray
from pybayesridge.data.frames import with_columns
from pybayesridge.formula.calls import AS_NUMBERS, as_code, makes_factor
from pybayesridge.formula.hints import FormulaError
from pybayesridge.formula.limits import FUNCTIONS, refuse_many_columns
from pybayesridge.formula.quoted import name_of
from pybayesridge.formula.smooths import CURVE, curve
from pybayesridge.text import listed

NUMBERS_IN_OBJECTS = ("integer", "floating", "mixed-integer-float", "decimal", "boolean")
"""Names in pandas of columns of Python objects that are numbers or truth values."""

TIMES = ("datetime64", "datetime", "date", "timedelta64", "timedelta", "time", "period", "interval")
"""Names in pandas of columns of dates, times, durations and periods."""


def model_matrix(
    spec: Any,
    frame: pd.DataFrame,
    context: Mapping[str, Any] | None,
    given: Mapping[str, tuple[Any, FactorValues]] | None = None,
) -> tuple[Any, BoolArray]:
    """The matrices of a formula, or of specifications made before, of plain columns; and rows without a level.

    A new level is an error. In rows in which a factor is missing (``lag(g)``) its dummies are zero, which says the
    baseline: they are not to be used. Factors that are `given` with their values, by their text, are not evaluated.
    """
    coder = Coder(frame, context=dict(context or {}))
    coder.expect(spec)
    for name, (factor, values) in (given or {}).items():
        coder.factor_cache[name] = EvaluatedFactor(factor=factor, values=values)
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataMismatchWarning)
        warnings.filterwarnings("ignore", r".*\{(nan|None|<NA>|NaT)\}", DataMismatchWarning)
        try:
            made = coder.get_model_matrix(spec, na_action="ignore")
        except FactorEvaluationError as error:
            if isinstance(error.__cause__, FormulaError):
                raise error.__cause__ from None
            raise
    return made, coder.without_level


class _Columns(Mapping[str, Any]):
    """Columns of the data by their identifiers, looked up only where they are read."""

    def __init__(self, data: pd.DataFrame, *, numbers: bool) -> None:
        self._data, self._names, self._numbers = data, dict.fromkeys(data.columns), numbers

    def __getitem__(self, name: str) -> Any:
        values = self._data[name_of(name)]
        return as_numbers(values) if self._numbers else values

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name_of(name) in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class _Layers(LayeredMapping):
    """Layers of names that say which they have without looking them up."""

    def __contains__(self, name: object) -> bool:
        return name in self._mutations or any(name in layer for layer in self._layers)


def as_numbers(values: Any) -> Any:
    """An array or column of real numbers or truth values in float64; anything else as it is."""
    if not isinstance(values, pd.Series | np.ndarray) or not isinstance(values.dtype, np.dtype):
        return values
    return values.astype(np.float64) if values.dtype.kind in "iubf" and values.dtype != np.float64 else values


class Coder(PandasMaterializer):
    """Formulaic's way from columns to a matrix, computing in float64.

    Integers would wrap around (``a:b``, ``I(a**2)``) and sums of truth values be truth values. A factor whose values
    are labels (``C(k)``), and what needs integers (``k & 1``), is evaluated on the columns as they are.
    """

    @override
    def _init(self) -> None:
        super()._init()
        self.expected: dict[str, tuple[Any, Any]] = {}
        self.without_level: BoolArray = np.zeros(len(self.data), dtype=bool)
        self.specs_of_arrays: dict[int, tuple[Any, Any]] = {}
        self.hidden = frozenset(map(str, self.data.columns)) & {*FUNCTIONS, AS_NUMBERS, CURVE, *self.context}
        self.as_given, self.as_floats = (self._layers(numbers=numbers) for numbers in (False, True))

    def expect(self, spec: Any) -> None:
        """Remember what kind of values each factor had where a specification was made."""
        parts = [spec.lhs, spec.rhs] if isinstance(spec, ModelSpecs) else [spec]
        for part in parts:
            if isinstance(part, ModelSpec):
                self.expected |= part.encoder_state

    def _layers(self, *, numbers: bool) -> _Layers:
        """Names of functions, of the caller's values that the fit keeps, and of columns.

        A column that is called as one of the others is has an identifier that no other has.
        """
        own = {name: as_numbers(value) if numbers else value for name, value in self.context.items()}
        columns = _Layers(_Columns(self.data, numbers=numbers), name="data")
        return _Layers({**FUNCTIONS, AS_NUMBERS: as_numbers, CURVE: curve}, own, columns)

    def values_of(self, factors: Mapping[str, Any], states: Mapping[str, Any]) -> dict[str, FactorValues]:
        """The values of factors by name, in columns if there are several.

        Transforms that have none of the `states` learn from these rows alone.
        """
        spec = ModelSpec.from_spec([], na_action="ignore", transform_state=copy.deepcopy(dict(states)))
        return {
            name: as_columns(self._evaluate_factor(factor, spec, set()).values) for name, factor in factors.items()
        }

    @override
    def _lookup(self, name: str) -> tuple[Any, set[Any]]:
        """A column, or an array of the caller's."""
        source: Any = self.data if name in self.data.columns else self.context
        return as_numbers(source[name]), set()

    @override
    def _evaluate(self, expr: str, metadata: Any, spec: Any) -> Any:
        if makes_factor(expr):
            return self._evaluate_as_given(expr, spec)
        known = set(spec.transform_state)
        try:
            value = self._value(as_code(expr, self.hidden, numbers=True), self.as_floats, spec)
        except FormulaError:
            raise
        except Exception:  # whatever float64 cannot do, such as k & 1 or table[k], integers may
            _forget(spec.transform_state, known)
            value = self._value(as_code(expr, self.hidden, numbers=True), self.as_given, spec)
        if self._is_label(value):
            _forget(spec.transform_state, known)
            return self._evaluate_as_given(expr, spec)
        return value, set()

    def _evaluate_as_given(self, expr: str, spec: Any) -> Any:
        value = self._value(as_code(expr, self.hidden), self.as_given, spec)
        wrapped = value.__wrapped__ if isinstance(value, FactorValues) else value
        # Formulaic takes an array of text for numbers, and one in C() for text without end.
        if type(wrapped) is np.ndarray and wrapped.dtype.kind in "US":
            wrapped = pd.Series(wrapped.astype(object), index=self.data.index)
            if not isinstance(value, FactorValues):
                return wrapped, set()
            value.__wrapped__ = wrapped
        return value, set()

    @staticmethod
    def _value(code: str, names: _Layers, spec: Any) -> Any:
        return stateful_eval(code, names, {}, spec.transform_state, spec)

    def _is_label(self, values: Any) -> bool:
        marked = getattr(values, "__formulaic_metadata__", None)  # C(k) wraps the column itself
        if self._is_categorical(values) or (marked is not None and marked.kind is Factor.Kind.CATEGORICAL):
            return True
        return isinstance(values, np.ndarray) and values.dtype.kind in "OUS"

    @override
    def _evaluate_factor(self, factor: Any, spec: Any, drop_rows: Any) -> Any:
        known = set(spec.transform_state)
        evaluated = super()._evaluate_factor(factor, spec, drop_rows)
        is_code = factor.eval_method is Factor.EvalMethod.PYTHON
        kind = evaluated.metadata.kind
        values = getattr(evaluated.values, "__wrapped__", evaluated.values)
        for key in set(spec.transform_state) - known:
            if factor.expr in self.expected and spec.transform_state[key]:
                raise FormulaError(f"the fit does not hold what {key} learned from its data: fit the model again")
            _refuse_high_degree(str(factor.expr), values, spec.transform_state[key])
        if kind is not Factor.Kind.CONSTANT and not (is_code and makes_factor(str(factor.expr))):
            _refuse_times(values, str(factor.expr))
        if kind is Factor.Kind.CATEGORICAL and np.shape(values) == self.without_level.shape:
            self.without_level |= np.asarray(pd.isna(values), dtype=bool)
        if factor.expr in self.expected:
            then, state = self.expected[factor.expr]
            _refuse_other_kind(str(factor.expr), then, kind, state)
            if kind is Factor.Kind.CATEGORICAL and "categories" in state:
                _refuse_new_levels(str(factor.expr), values, list(state["categories"]))
        return evaluated

    @override
    def _build_model_matrix(self, spec: Any, drop_rows: Any) -> Any:
        refuse_many_columns(spec.formula, self.factor_cache)
        return super()._build_model_matrix(spec, drop_rows)

    @override
    def _enforce_structure(self, cols: Any, spec: Any, drop_rows: Any) -> Any:
        """The columns in the order of the fit; formulaic would repeat a single column for all that are missing."""
        for (term, _, made), (_, _, names) in zip(cols, spec.structure, strict=True):
            if set(made) != set(names):
                raise FormulaError(
                    f"{str(term)!r} makes the columns {listed(made)} of these rows, and made {listed(names)} in the "
                    "fit: make a factor of it, such as C(x), or columns of the data before the fit"
                )
        return super()._enforce_structure(cols, spec, drop_rows)

    @override
    def _encode_numerical(self, values: Any, metadata: Any, encoder_state: Any, spec: Any, drop_rows: Any) -> Any:
        return as_numbers(super()._encode_numerical(values, metadata, encoder_state, spec, drop_rows))

    @override
    def _encode_evaled_factor(self, factor: Any, spec: Any, drop_rows: Any, reduced_rank: bool = False) -> Any:
        """The columns of a factor; dummies as one array, since a frame of them takes a fifth of the time of all."""
        if factor.metadata.kind is Factor.Kind.CATEGORICAL and spec.output == "pandas":
            if id(spec) not in self.specs_of_arrays:
                self.specs_of_arrays[id(spec)] = (spec, spec.update(output="numpy"))
            spec = self.specs_of_arrays[id(spec)][1]
        return super()._encode_evaled_factor(factor, spec, drop_rows, reduced_rank)

    @override
    def _combine_columns(self, cols: Any, spec: Any, drop_rows: Any) -> Any:
        """A frame whose columns are one array."""
        names = [name for name, _ in cols]
        plain = spec.output == "pandas" and not drop_rows and len(set(names)) == len(names) > 0
        arrays = [np.asarray(values) for _, values in cols] if plain else []
        if not arrays or not all(a.dtype.kind in "iubf" and a.shape == (self.nrows,) for a in arrays):
            return super()._combine_columns(cols, spec, drop_rows)
        out = np.empty((self.nrows, len(arrays)), order="F")
        for j, array in enumerate(arrays):
            out[:, j] = array
        return pd.DataFrame(out, index=self.data.index, columns=names, copy=False)


def _forget(states: dict[str, Any], known: set[str]) -> None:
    """Leave out the states of an evaluation that is done again."""
    for key in set(states) - known:
        del states[key]


def _refuse_high_degree(name: str, value: Any, state: Any) -> None:
    """Refuse orthogonal polynomials of a degree that the distinct values of a column cannot tell from lower ones."""
    degree = max(state["norms2"]) if isinstance(state, Mapping) and state.get("norms2") else 0
    columns = np.asarray(value)
    if degree and columns.ndim == 2 and columns.shape[1] == degree:
        distinct = max(pd.Series(columns[:, 0]).nunique(), 1)  # the first is the column itself, centred
        if degree >= distinct:
            raise ValueError(
                f"{name}: a polynomial of degree {degree} needs at least {degree + 1} distinct values, and there are "
                f"{distinct}: lower the degree"
            )


def _refuse_times(values: Any, name: str) -> None:
    """Refuse dates and the like, which are neither numbers nor factors."""
    if not isinstance(values, pd.Series | np.ndarray) or values.ndim != 1:
        return
    kind = ""
    if values.dtype.kind in "mM":
        kind = "datetime"
    elif values.dtype == object or not isinstance(values.dtype, np.dtype):
        kind = pd.api.types.infer_dtype(values, skipna=True)
        kind = kind if kind in TIMES else ""
    if kind:
        raise ValueError(
            f"{name!r} holds dates or times ({kind}), which are neither numbers nor factors: leave it out (- {name}) "
            f"or convert it to a number, such as days since a date: (data[{name!r}] - start).dt.days"
        )


def _refuse_other_kind(name: str, then: Any, now: Any, state: Any) -> None:
    """Refuse a factor that has become a number, and a number that has become a factor."""
    if then is Factor.Kind.CATEGORICAL and now is Factor.Kind.NUMERICAL:
        levels = f" with levels {listed(state['categories'])}" if "categories" in state else ""
        raise ValueError(
            f"{name!r} was a factor{levels} in the fit, and is numeric in the new data: give it the type "
            "that it had, text or categorical"
        )
    if then is Factor.Kind.NUMERICAL and now is Factor.Kind.CATEGORICAL:
        raise ValueError(f"{name!r} was numeric in the fit, and is text or categorical in the new data: convert it")


def refuse_all_but_numbers(frame: pd.DataFrame, names: Iterable[str]) -> None:
    """Refuse plain columns of dates, text or categories where the fit had numbers."""
    for name in names:
        _refuse_times(frame[name], name)
        if getattr(frame[name].dtype, "kind", "O") not in "iufb":
            _refuse_other_kind(name, Factor.Kind.NUMERICAL, Factor.Kind.CATEGORICAL, {})


def _refuse_new_levels(name: str, values: Any, levels: list[Any]) -> None:
    """Refuse values that are none of the levels, whatever their type: True is not 1, and 1 not "1"."""
    given = pd.Index(pd.unique(pd.Series(values).dropna()).tolist())
    new = given[pd.Index(levels).get_indexer(given) < 0]
    if len(new):
        raise DataMismatchWarning(f"{listed(new.tolist())} of {name!r}")


def plain_dtypes(frame: pd.DataFrame, names: Iterable[str]) -> pd.DataFrame:
    """Columns in NumPy's dtypes: of pandas' nullable ones, and of objects that are numbers, Decimal among them.

    Text becomes objects, since not every formulaic knows the dtype of strings. Integers become int64 (their labels as
    a factor stay what they are), or floats where some are missing.
    """
    dtypes = dict(zip(frame.columns, frame.dtypes, strict=True))
    plain: dict[str, Any] = {}
    for name in names:
        dtype = dtypes[name]
        if isinstance(dtype, pd.StringDtype):
            plain[name] = object
        elif pd.api.types.is_object_dtype(dtype):
            plain[name] = _dtype_of_objects(frame[name])
        elif isinstance(dtype, pd.api.extensions.ExtensionDtype) and _is_of_numbers(dtype):
            if frame[name].isna().any():
                plain[name] = np.float64
            else:
                plain[name] = bool if pd.api.types.is_bool_dtype(dtype) else dtype.type
        elif isinstance(dtype, np.dtype) and dtype.kind in "iu" and dtype.itemsize < np.dtype(np.int64).itemsize:
            plain[name] = np.int64
    plain = {name: dtype for name, dtype in plain.items() if dtype is not None}
    if 2 * len(plain) > len(dtypes):
        return frame.astype(plain)
    return with_columns(frame, {name: frame[name].astype(dtype) for name, dtype in plain.items()})


def _is_of_numbers(dtype: Any) -> bool:
    """Whether a dtype of pandas is of numbers or truth values; those of Arrow are no numbers to it."""
    return pd.api.types.is_numeric_dtype(dtype) or (
        pd.api.types.is_bool_dtype(dtype) and not isinstance(dtype, pd.CategoricalDtype)
    )


def _dtype_of_objects(column: pd.Series) -> Any:
    """The dtype of a column of objects that are all numbers; None where they are something else."""
    kind = pd.api.types.infer_dtype(column, skipna=True)
    if kind == "mixed" and all(isinstance(value, Decimal | float | int) for value in column.dropna()):
        kind = "decimal"
    if kind not in NUMBERS_IN_OBJECTS:
        return None
    if column.isna().any():
        return np.float64
    if kind == "integer" and column.abs().max() > np.iinfo(np.int64).max:
        return np.float64
    return {"boolean": bool, "integer": np.int64}.get(kind, np.float64)


def kinds_of(frame: pd.DataFrame, names: Iterable[str]) -> dict[str, str]:
    """The kind of each plain column: "number", "boolean", "text", "category" (of anything but text) or "other"."""
    dtypes = dict(zip(frame.columns, frame.dtypes, strict=True))
    return {name: _kind(frame, name, dtypes[name]) for name in names}


def _kind(frame: pd.DataFrame, name: str, dtype: Any) -> str:
    if isinstance(dtype, pd.CategoricalDtype):
        return "text" if pd.api.types.infer_dtype(dtype.categories) == "string" else "category"
    if isinstance(dtype, np.dtype) and dtype.kind in "iuf":
        return "number"
    if isinstance(dtype, np.dtype) and dtype.kind == "b":
        return "boolean"
    text = pd.api.types.is_object_dtype(dtype) and pd.api.types.infer_dtype(frame[name], skipna=True) == "string"
    return "text" if text else "other"


def refuse_other_kinds(frame: pd.DataFrame, kinds: Mapping[str, str]) -> None:
    """Refuse other values than true, false, 0 and 1 where the fit had truth values, and complex ones for numbers."""
    dtypes = dict(zip(frame.columns, frame.dtypes, strict=True))
    for name in [name for name, kind in kinds.items() if kind == "number"]:
        if pd.api.types.is_complex_dtype(dtypes[name]):
            raise ValueError(
                f"{name!r} has complex numbers in the new data, and had real ones in the fit: pass real "
                f"numbers, such as data[{name!r}].abs()"
            )
    for name in [name for name, kind in kinds.items() if kind == "boolean" and len(frame)]:
        numeric = pd.api.types.is_numeric_dtype(frame[name].dtype)
        if not (numeric and frame[name].isin([0, 1]).all()):
            told = "other values than 0 and 1" if numeric else "text or categories"
            raise ValueError(
                f"{name!r} was true or false in the fit, and has {told} in the new data: convert it, as with "
                f"data[{name!r}] == value"
            )


def used_categories(frame: pd.DataFrame, names: Iterable[str]) -> pd.DataFrame:
    """Categorical columns without categories that do not occur, which the fit need not know."""
    dtypes = dict(zip(frame.columns, frame.dtypes, strict=True))
    found = [name for name in names if isinstance(dtypes[name], pd.CategoricalDtype)]
    return with_columns(frame, {name: frame[name].cat.remove_unused_categories() for name in found})
