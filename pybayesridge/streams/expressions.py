"""Numbers that expressions give each row of a batch, and the check that they depend on that row alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from formulaic.materializers.types import FactorValues
from formulaic.parser.types import Factor

from pybayesridge._types import AnyArray, FloatArray, IntArray
from pybayesridge.formula.names import names_in
from pybayesridge.formula.values import Coder, plain_dtypes
from pybayesridge.streams.plan import StreamPlan
from pybayesridge.text import listed

CHECKED_ROWS = 8
"""Rows of each batch that are coded again by themselves, to find expressions that look at other rows."""

ROUNDING = 1e-9
"""Largest difference that may make, relative to the column."""


class Expressions:
    """Expressions that compute with columns of numbers.

    Parameters
    ----------
    plan : StreamPlan
    factors : mapping
        Formulaic's factor of each expression.
    states : mapping
        States of transforms that learnt from all rows.

    Attributes
    ----------
    variables : list of str
        Columns that they read.
    fields : dict
        Of each expression that has given several columns their names; known once there was a batch.
    """

    def __init__(self, plan: StreamPlan, factors: Mapping[str, Any], states: Mapping[str, Any]) -> None:
        read = {name for factor in factors.values() for name in names_in(factor).read}
        self.variables = [name for name in plan.variables if name in read]
        self.fields: dict[str, list[str]] = {}
        self._factors, self._context, self._states = dict(factors), plan.context, dict(states)
        self._forms: dict[str, tuple[Any, list[Any]]] = {}
        self._names: list[str] | None = None
        self._sample: pd.DataFrame | None = None

    def numbers(self, frame: pd.DataFrame) -> dict[str, FloatArray]:
        """The numbers of complete rows, by name.

        Raises
        ------
        ValueError
            For what is no number, or depends on other rows.
        """
        frame = plain_dtypes(frame, self.variables)
        out = self._columns(frame)
        for name, values in out.items():
            absent = np.isnan(values).sum()
            if absent:
                raise not_a_number(name, int(absent))
        self._check_rows(frame, out)
        return out

    def _check_rows(self, frame: pd.DataFrame, found: dict[str, FloatArray]) -> None:
        """Refuse expressions that give a few rows by themselves something else."""
        whole = frame
        if len(frame) == 1 and self._sample is not None:
            whole = pd.concat([self._sample, frame], ignore_index=True)
            found = self._columns(whole)
        at = rows_alone(len(whole))
        alone = self._columns(whole.iloc[at].reset_index(drop=True))
        self._names = list(found) if self._names is None else self._names
        if not self._names == list(found) == list(alone):
            every = (*self._names, *found, *alone)
            raise _dependent(
                [n for n in dict.fromkeys(every) if not all(n in b for b in (self._names, found, alone))]
            )
        for name, values in found.items():
            refuse_dependent([name], values[at, None], alone[name][:, None])
        if self._sample is None or len(self._sample) < CHECKED_ROWS:
            self._sample = whole.head(CHECKED_ROWS).copy()

    def given(self, name: str, field: str, n: int) -> tuple[Any, FactorValues]:
        """The factor of an expression, and values of `n` rows: one in a column, zero in its others."""
        metadata, keys = self._forms[name]
        values: Any = np.ones(n)
        if name in self.fields:
            each = zip(keys, self.fields[name], strict=True)
            values = {key: np.full(n, 1.0 if found == field else 0.0) for key, found in each}
        return self._factors[name], FactorValues(values, metadata=metadata)

    def _columns(self, frame: pd.DataFrame) -> dict[str, FloatArray]:
        out: dict[str, FloatArray] = {}
        found: dict[str, Any] = dict(Coder(frame, context=self._context).values_of(self._factors, self._states))
        for name, values in found.items():
            metadata, several = values.__formulaic_metadata__, isinstance(values, dict)
            if metadata.kind is Factor.Kind.CATEGORICAL:
                raise no_levels(name)
            keys = _keys(values) if several else []
            self._forms.setdefault(name, (metadata, keys))
            if not several:
                out[name] = _as_floats(name, values, len(frame))
                continue
            fields = {key: metadata.get_format().format(name=name, field=key) for key in keys}
            self.fields.setdefault(name, list(fields.values()))
            out |= {field: _as_floats(field, values[key], len(frame)) for key, field in fields.items()}
        return out


def rows_alone(n: int) -> IntArray:
    """Positions of a few of `n` rows, the same for each n, without order or symmetry.

    In their order, numbers in the order of appearance would stay the same; at positions that mirror each other,
    columns that are reversed would.
    """
    return np.random.default_rng(n).choice(n, min(CHECKED_ROWS, max(n // 2, 1)), replace=False)


def refuse_dependent(names: Sequence[Any], whole: FloatArray, alone: FloatArray) -> None:
    """Refuse columns that have other values in rows by themselves than among all rows."""
    size = np.abs(np.where(np.isfinite(whole), whole, 0.0)).max(axis=0, initial=0.0)
    with np.errstate(invalid="ignore"):
        near = np.abs(whole - alone) <= ROUNDING * size
    odd = ~(near | (whole == alone) | (np.isnan(whole) & np.isnan(alone))).all(axis=0)
    if odd.any():
        raise _dependent([name for name, bad in zip(names, odd, strict=True) if bad])


def no_levels(name: str) -> ValueError:
    """The error of an expression that gives a factor."""
    return ValueError(
        f"{name} is a factor whose levels cannot be found in a stream: add it to the data as a column, or "
        f"write C({name}, levels=[...])"
    )


def not_a_number(name: str, count: int) -> ValueError:
    """The error of what is not a number although the columns that it is made of are there, such as the log of -1."""
    return ValueError(
        f"{name!r} is not a number in {count} row(s) whose columns have values: leave those rows out of the data, or "
        "change the formula"
    )


def _dependent(names: Sequence[Any]) -> ValueError:
    return ValueError(
        f"column(s) {listed(names)} depend on more than their own row, so that they cannot be computed batch by "
        "batch: add them to the data as columns"
    )


def _keys(values: Any) -> list[Any]:
    return [key for key in values if not (isinstance(key, str) and key.startswith("__"))]


def _as_floats(name: str, values: Any, n: int) -> FloatArray:
    """The values of a column, one for each row."""
    values = getattr(values, "__wrapped__", values)
    if isinstance(values, pd.Series) and not isinstance(values.dtype, np.dtype):
        values = values.to_numpy(dtype=np.float64, na_value=np.nan)
    array: AnyArray = np.asarray(values)
    if array.dtype.kind not in "iubf" or array.shape not in ((), (n,)):
        raise ValueError(f"{name!r} does not give each row a number: add it to the data as a column")
    return np.broadcast_to(array.astype(np.float64, copy=False), (n,))
