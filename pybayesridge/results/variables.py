"""The variables of a fit: their values in the data, and the rows of the design at other values."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import sparse

from pybayesridge._types import FloatArray, RowsLike
from pybayesridge.data.frames import to_pandas, with_columns
from pybayesridge.exceptions import ExtrapolationWarning
from pybayesridge.formula.late import build as formulas
from pybayesridge.formula.late import names as formula_names
from pybayesridge.formula.late import spec as formula_specs
from pybayesridge.linalg.blocks import dense
from pybayesridge.text import did_you_mean, listed, number

if TYPE_CHECKING:
    from pybayesridge.models.base import LinearModel

NO_DATA = (
    "{what} needs values of the variables, and the data of this fit are not in memory: pass data=, a frame with "
    "the variables of the fit"
)

STEP = 1e-4
"""First step of a numerical derivative relative to the range of the variable."""

SHORTER = 10.0
"""Steps become shorter by this factor until two derivatives agree."""

STEPS = 8
"""Most steps that are tried."""

AGREE = 1e-6
"""Largest difference of the derivatives of two steps relative to the largest in the column."""

DIGITS = 64 * np.finfo(float).eps
"""Relative error of the values of a variable, and of what is computed of them."""

SWEEP, ROWS = 50, 20
"""Values of a variable, and rows, at which it is looked whether columns change in jumps."""

BISECTIONS = 30
"""Halvings of an interval in which a column changes."""

JUMP = 1e-6
"""A change that is left after these is that of a jump if it is a larger share of the largest one seen: there may be
many jumps in the first interval, and what is continuous has changed by some 2**-30 of it."""

BETWEEN = 0.381966
"""Where between two values: not in the middle, where jumps are likely."""

NOT_SMOOTH = (
    "the formula has no derivative with respect to {name!r} everywhere, since the prediction changes in jumps: give "
    "two values to compare, values=(a, b)"
)


@dataclass(frozen=True, slots=True)
class Variables:
    """The variables of a fit.

    Attributes
    ----------
    model : LinearModel
    names : list of str
        Of the variables: columns of the data that a formula reads, or columns of the design.
    frame : pandas.DataFrame or None
        Their values at the rows that averages and ranges are over; None where there are none in memory.
    fitted : pandas.DataFrame or None
        Their values at the rows of the fit, where these are in memory: the range of the data.
    weights : (n,) array or None
        Weights of the rows of `frame` in averages, summing to 1; None where all count alike.
    """

    model: LinearModel
    names: list[str]
    frame: pd.DataFrame | None
    fitted: pd.DataFrame | None
    weights: FloatArray | None

    @classmethod
    def of(cls, model: LinearModel, data: RowsLike | None, *, warn: bool = True) -> Variables:
        """The variables at the rows of `data`, or of the fit."""
        spec = model.formula_spec
        columns: list[str] = model.data.exog_columns
        if spec is not None and spec.spec is not None:
            if formula_names.sees_other_rows(spec.spec.formula):
                raise ValueError(
                    "the formula looks at neighbouring rows (lag), so that a variable has no effect in a row alone: "
                    "compare predictions of changed data by predict()"
                )
            names = list(spec.variables)
        else:
            names = [name for j, name in enumerate(columns) if j != model.data.const_idx]
        if spec is not None and spec.spec is not None:
            fitted = model.variables
        else:
            fitted = None if model.data.exog is None else _as_frame(model.data.exog, columns)
        if data is not None:
            out = cls(model, names, _given(model, data, names), fitted, None)
            if warn:
                out.warn_outside({name: out.numbers(name) for name in names if out.levels(name) is None})
            return out
        weights = None
        if model.distribution.counts_rows and fitted is not None:
            weights = model.distribution.row_weights(model.data.weights, model.data.extent)
        return cls(model, names, fitted, fitted, None if weights is None else weights / weights.sum())

    def _is_plain(self, name: str) -> bool:
        """Whether the columns of the design are linear in a number, the others given."""
        spec = self.model.formula_spec
        return spec is None or spec.is_linear_in(name)

    @property
    def is_linear(self) -> bool:
        """Whether the variables are the columns of the design."""
        spec = self.model.formula_spec
        return spec is None or spec.spec is None

    def checked(self, name: object) -> str:
        """The name of a variable, or an error with the nearest one."""
        if name not in self.names:
            raise ValueError(
                f"{name!r} is not a variable of the fit{did_you_mean(str(name), self.names)}"
                if isinstance(name, str)
                else f"variables are given by name, not {name!r}; there are {listed(self.names)}"
            )
        return str(name)

    def rows(self, what: str) -> pd.DataFrame:
        """The rows at hand, or an error that says what to pass."""
        if self.frame is None:
            raise ValueError(NO_DATA.format(what=what))
        return self.frame

    def levels(self, name: str) -> list[Any] | None:
        """Levels of a factor, the reference first; None for a number."""
        spec = self.model.formula_spec
        levels = None if spec is None else formula_specs.levels_of(spec, name)
        if levels == []:
            levels = sorted(pd.unique(self.rows(f"the levels of {name!r}")[name]).tolist())
        return levels

    def numbers(self, name: str) -> FloatArray:
        """Values of a numeric variable at the rows at hand, (n,)."""
        return self.rows(f"the mean of {name!r}")[name].to_numpy(dtype=np.float64)

    def center(self, name: str) -> Any:
        """The reference level of a factor, the mean of a number; of groups None, the middle of their population."""
        spec = self.model.formula_spec
        if spec is not None and name in spec.groups:
            return None
        levels = self.levels(name)
        if levels is not None:
            return levels[0]
        return float(np.average(self.numbers(name), weights=self.weights))

    def check_value(self, name: str, value: Any) -> Any:
        """A value of a variable, or an error."""
        levels = self.levels(name)
        if levels is not None:
            if np.ndim(value) == 0 and value in levels:
                return levels[levels.index(value)]
            near = did_you_mean(value, levels) if isinstance(value, str) else f"; there are {listed(levels)}"
            raise ValueError(f"{value!r} is not a level of {name!r}{near}")
        real = isinstance(value, int | float | np.integer | np.floating | np.bool_)
        if not real or not np.isfinite(value):
            raise ValueError(f"values of {name!r} must be finite numbers, not {value!r}")
        return float(value)

    def limits(self, name: str) -> tuple[float, float]:
        """Range of a number in the data of the fit, or in `frame` where these are not in memory."""
        frame = self.rows(f"the range of {name!r}") if self.fitted is None else self.fitted
        values = frame[name].to_numpy(dtype=np.float64)
        return float(values.min()), float(values.max())

    def warn_outside(self, values: Mapping[str, Any]) -> None:
        """Warn of values of numeric variables that lie outside the range of the data of the fit."""
        outside = []
        for name, asked in values.items():
            if self.fitted is None or self.levels(name) is not None:
                continue
            (low, high), least, most = self.limits(name), float(np.min(asked)), float(np.max(asked))
            if least < low or most > high:
                far = number(least if least < low else most)
                outside.append(f"{name!r} ({far}; the data range from {number(low)} to {number(high)})")
        if outside:
            warnings.warn(
                f"values outside the range of the data: {', '.join(outside)}. The answer extrapolates",
                ExtrapolationWarning,
                stacklevel=5,
            )

    def column(self, name: str, values: Sequence[Any]) -> Any:
        """Values of a variable as a column of the type that the formula had."""
        levels = self.levels(name)
        spec = self.model.formula_spec
        if levels is None or self.is_linear:
            return np.asarray(values, dtype=np.float64)
        kind = "other" if spec is None else spec.kinds[name]
        if kind == "category":
            return pd.Categorical(values, categories=levels)
        return np.array(values, dtype=object if kind == "text" else None)

    def changed(self, frame: pd.DataFrame, point: Mapping[str, Any]) -> pd.DataFrame:
        """Rows in which some variables have one value each."""
        return with_columns(frame, {name: self.column(name, [value] * len(frame)) for name, value in point.items()})

    def centered(self, grid: pd.DataFrame) -> FloatArray:
        """Rows of the design for the points of a grid, the other variables at their centers, (m, k)."""
        columns = {}
        for name in self.names:
            values = grid[name].tolist() if name in grid else [self.center(name)] * len(grid)
            columns[name] = self.column(name, values)
        constant = self.model.data.const_idx
        if self.is_linear and constant is not None:
            name = self.model.data.exog_columns[constant]
            columns[name] = np.full(len(grid), self.numbers(name)[0])
        return self.design(pd.DataFrame(columns, index=range(len(grid))))

    def design(self, frame: pd.DataFrame) -> FloatArray:
        """Rows of the design over all coefficients, (m, k)."""
        spec = self.model.formula_spec
        if self.is_linear:
            rows = frame[self.model.data.exog_columns].to_numpy(dtype=np.float64)
        else:
            assert spec is not None
            try:
                rows = dense(formulas.transform(spec, frame, population=True)[0])
            except formulas.FormulaicError as error:
                raise ValueError(f"the formula cannot be evaluated at the values asked for: {error}") from error
        if not np.isfinite(rows).all():
            finite = np.isfinite(rows).all(axis=0)
            bad = [name for name, good in zip(self.model.data.exog_columns, finite, strict=True) if not good]
            raise ValueError(f"at the values asked for, {listed(bad)} is not a finite number")
        if self.model.data.intercept_name is None:
            return rows
        return np.column_stack([np.ones(len(rows)), rows])

    def blocks(self, size: int) -> Iterator[tuple[pd.DataFrame, FloatArray]]:
        """The rows at hand, `size` at a time, and the weight of each in averages."""
        frame = self.rows("an average over rows")
        weights = np.full(len(frame), 1.0 / len(frame)) if self.weights is None else self.weights
        for start in range(0, len(frame), size):
            part = slice(start, start + size)
            yield frame.iloc[part], weights[part]

    def slopes(self, frame: pd.DataFrame, name: str) -> FloatArray:
        """Derivatives of the rows of the design with respect to a number, (m, k)."""
        if self.is_linear:
            at = [*self.model.exog_names].index(name)
            return np.eye(1, len(self.model.exog_names), at).repeat(len(frame), axis=0)
        low, high = self.limits(name)
        x = frame[name].to_numpy(dtype=np.float64)
        low, high = min(low, float(x.min())), max(high, float(x.max()))
        if high <= low:
            raise ValueError(f"{name!r} has one value, {number(low)}, in the data: give two values, values=(a, b)")
        if self._is_plain(name):
            return self._quotient(frame, name, high - low, low, high)
        out = np.empty((len(frame), len(self.model.exog_names)))
        left, step = np.arange(len(frame)), STEP * (high - low)
        before = self._quotient(frame, name, step, low, high)
        size = np.abs(before).max(axis=0, initial=0.0)
        for _ in range(STEPS):
            step /= SHORTER
            now = self._quotient(frame.iloc[left], name, step, low, high)
            tolerance = max(AGREE, DIGITS * max(abs(low), abs(high)) / step)
            agree = (np.abs(now - before) <= tolerance * np.maximum(np.abs(now), size)).all(axis=1)
            out[left[agree]] = ((SHORTER * now - before) / (SHORTER - 1.0))[agree]
            left, before = left[~agree], now[~agree]
            if not left.size:
                return out
        raise ValueError(NOT_SMOOTH.format(name=name))

    def refuse_jumps(self, name: str) -> None:
        """Refuse a derivative with respect to a number of which a column of the design is a step function."""
        if self._is_plain(name):
            return
        frame, values = self.rows(f"the effect of {name!r}"), np.unique(self.numbers(name))
        values = np.unique(values[np.linspace(0, values.size - 1, SWEEP).astype(int)])
        if values.size < 2:
            return
        some = frame.iloc[np.unique(np.linspace(0, len(frame) - 1, ROWS).astype(int))]
        between = values[:-1] + BETWEEN * np.diff(values)
        quotients = self._quotient(_swept(some, name, between), name, STEP**2 * np.ptp(values), values[0], values[-1])
        rows = self.design(_swept(some, name, values)).reshape(len(some), values.size, -1)
        rises = np.abs(np.diff(rows, axis=1))
        for column in np.flatnonzero((quotients == 0).all(axis=0) & (rises > 0).any(axis=(0, 1))):
            row, at = divmod(int(rises[:, :, column].argmax()), rises.shape[1])
            if self._jumps(some.iloc[[row]], name, values[at], values[at + 1], int(column)):
                raise ValueError(NOT_SMOOTH.format(name=name))

    def _jumps(self, row: pd.DataFrame, name: str, low: float, high: float, column: int) -> bool:
        """Whether the change of a column of the design between two values is that of a jump: by bisection."""
        whole = 0.0
        for _ in range(BISECTIONS):
            middle = low + 0.5 * (high - low)
            at = self.design(_swept(row, name, np.array([low, middle, high])))[:, column]
            rises = np.abs(np.diff(at))
            whole = max(whole, float(rises.sum()))
            low, high = (low, middle) if rises[0] >= rises[1] else (middle, high)
        return float(rises.max()) > JUMP * whole

    def _quotient(self, frame: pd.DataFrame, name: str, step: float, low: float, high: float) -> FloatArray:
        """Difference quotients of the rows of the design, not beyond the range of the variable."""
        x = frame[name].to_numpy(dtype=np.float64)
        above, below = np.minimum(x + step, high), np.maximum(x - step, low)
        both = with_columns(pd.concat([frame, frame]), {name: np.concatenate([above, below])})
        of_above, of_below = np.split(self.design(both), 2)
        out: FloatArray = (of_above - of_below) / (above - below)[:, None]
        return out


def _as_frame(columns: Any, names: list[str]) -> pd.DataFrame:
    if sparse.issparse(columns):
        accessor: Any = pd.DataFrame.sparse
        out: pd.DataFrame = accessor.from_spmatrix(columns, columns=names)
        return out
    return pd.DataFrame(columns, columns=names, copy=False)


def _swept(rows: pd.DataFrame, name: str, values: FloatArray) -> pd.DataFrame:
    """Each row with each value of a variable."""
    return with_columns(rows.loc[rows.index.repeat(values.size)], {name: np.tile(values, len(rows))})


def _given(model: LinearModel, data: RowsLike, names: list[str]) -> pd.DataFrame:
    """Rows of the user's, complete."""
    spec = model.formula_spec
    if spec is None or spec.spec is None:
        frame = _as_frame(model.new_rows(data, True)[0], model.data.exog_columns)
    else:
        frame = formulas.to_frame(data).reset_index(drop=True)
        absent = [name for name in names if name not in frame.columns]
        if absent:
            near = did_you_mean(absent[0], frame.columns) if len(absent) == 1 else ""
            raise ValueError(f"data lacks the variable(s) {listed(absent)} of the fit{near}")
        frame = frame[names]
    if frame.empty:
        raise ValueError("data has no rows")
    gaps = frame.isna()
    incomplete = gaps.any(axis=1).to_numpy()
    if not incomplete.any():
        return frame
    if model.missing == "raise" or incomplete.all():
        given = to_pandas(data)
        if isinstance(given, pd.DataFrame) and set(names) <= set(given.columns):
            gaps = given[names].isna()  # the rows of the design are missing as a whole
        none_left = " (no row is complete)" if incomplete.all() else ""
        raise ValueError(
            f"data has missing values in {listed(gaps.columns[gaps.any()])}: leave those rows out{none_left}"
        )
    return frame.loc[~incomplete].reset_index(drop=True)
