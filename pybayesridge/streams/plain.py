"""Batches of Arrow as arrays: numbers as they are, factors as codes of levels that are found on the way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from pybayesridge._types import AnyArray, FloatArray, IntArray
from pybayesridge.data.arrays import NamedColumns, is_finite
from pybayesridge.moments.moments import Moments
from pybayesridge.streams.expressions import Expressions
from pybayesridge.streams.plan import StreamPlan
from pybayesridge.streams.schemas import is_dictionary, is_numeric, is_text
from pybayesridge.streams.sums import Rows
from pybayesridge.streams.terms import PlainTerms
from pybayesridge.text import listed, repeated


class PlainBatches:
    """The batches of one pass, for a formula of plain terms.

    Parameters
    ----------
    plan : StreamPlan
        Also with levels that an earlier pass found.
    plain : PlainTerms
    states : mapping
        States of transforms from an earlier pass.

    Attributes
    ----------
    levels : dict
        Levels of each factor in the order of their codes: those that were declared, or that were found so far.
    """

    def __init__(self, plan: StreamPlan, plain: PlainTerms, states: Mapping[str, Any]) -> None:
        self.plan = plan
        factors = {name for term in plain.terms.values() for name in term.factors}
        self.levels: dict[str, list[Any]] = {name: list(plan.declared.get(name, [])) for name in sorted(factors)}
        self._known = {name: {value: i for i, value in enumerate(found)} for name, found in self.levels.items()}
        self._last: dict[str, tuple[Any, IntArray]] = {}
        self.expressions = Expressions(plan, plain.expressions, states) if plain.expressions else None
        numbers = {name for term in plain.terms.values() for name in term.numbers}.union(plain.responses)
        self.numbers = sorted(numbers.difference(plain.expressions))
        self.responses = plain.responses

    def with_fields(self, plain: PlainTerms) -> PlainTerms:
        """The terms, with the names of the columns of expressions that have several; once there was a batch."""
        fields = {} if self.expressions is None else self.expressions.fields
        several = [name for name in (*plain.responses, *plain.scaled.values()) if name in fields]
        if several:
            raise ValueError(f"{listed(several)} must be one column in a response, scale or center")
        names = [name for found in fields.values() for name in found]
        same = sorted(set(names) & {*self.plan.columns, *plain.expressions}) + repeated(names)
        if same:
            raise ValueError(f"the formula makes column(s) {listed(same)} twice: rename the column of the data")
        return replace(plain, fields=fields)

    def rows(self, batch: Any, *, clean: bool) -> Rows:
        """Complete rows, checked; those of a clean batch need no search for infinite values."""
        numbers = {name: _numbers(batch.column(name)) for name in self.numbers}
        made: dict[str, FloatArray] = {}
        if self.expressions is not None:
            made = self.expressions.numbers(frame_of(batch.select(self.expressions.variables)))
        weights = self.plan.weights
        w = None if weights is None else _numbers(batch.column(weights)).astype(np.float64)
        usable = w is None or ((w > 0).all() and (clean or is_finite(w)))
        finite = all(map(is_finite, made.values())) and (clean or all(map(is_finite, numbers.values())))
        numbers |= made
        if not (usable and finite):
            self._refuse(numbers, w)
        codes = {name: self._codes(name, batch.column(name)) for name in self.levels}
        sizes = {name: len(found) for name, found in self.levels.items()}
        return Rows(batch.num_rows, numbers, codes, sizes, w)

    def _refuse(self, numbers: dict[str, AnyArray], weights: AnyArray | None) -> None:
        """Raise the errors of rows in memory, where there are any."""
        others = [name for name in numbers if name not in self.responses]
        stacked = [
            np.column_stack([np.asarray(numbers[name], dtype=np.float64) for name in names] or [np.zeros((0, 0))])
            for names in (self.responses, others)
        ]
        Moments.from_arrays(stacked[0], NamedColumns(stacked[1], others), weights=weights)

    def _codes(self, name: str, column: Any) -> IntArray:
        """Positions of the values among the levels."""
        import pyarrow as pa

        if pa.types.is_decimal(column.type):
            column = column.cast(pa.float64())
        if not is_dictionary(column.type):
            column = column.dictionary_encode()
        last = self._last.get(name)
        if last is not None and column.dictionary.equals(last[0]):
            positions = last[1]
        else:
            positions = self._positions(name, column.dictionary.to_pylist())
            self._last[name] = (column.dictionary, positions)
        codes: IntArray = positions[column.indices.to_numpy(zero_copy_only=False)]
        if (codes < 0).any():
            new = [column.dictionary[int(i)].as_py() for i in np.flatnonzero(positions < 0)]
            raise ValueError(
                f"the data contain a level that is neither declared nor found ({listed(new)} of {name!r}): declare "
                "it in `levels`, or leave those rows out"
            )
        return codes

    def _positions(self, name: str, values: list[Any]) -> IntArray:
        """Positions of the values of a dictionary; -1 for those that were not declared."""
        known = self._known[name]
        if name not in self.plan.declared:
            for value in values:
                if value is not None and value not in known:
                    known[value] = len(known)
                    self.levels[name].append(value)
        return np.array([known.get(value, -1) for value in values], dtype=np.intp)


def is_clean(batch: Any) -> bool:
    """Whether it is plain, at little expense, that no value is missing or infinite."""
    import pyarrow as pa

    for name in batch.schema.names:
        column = batch.column(name)
        if column.null_count or (is_dictionary(column.type) and column.dictionary.null_count):
            return False
        if pa.types.is_floating(column.type) and not is_finite(column.to_numpy(zero_copy_only=False)):
            return False
    return True


def frame_of(batch: Any) -> pd.DataFrame:
    """Complete rows as a frame; text as categories, decimal numbers as floats."""
    import pyarrow as pa

    columns = {}
    for name in batch.schema.names:
        column = batch.column(name)
        if pa.types.is_decimal(column.type):
            column = column.cast(pa.float64())
        elif is_text(column.type):
            column = column.dictionary_encode()
        numbers = is_numeric(column.type)
        columns[name] = column.to_numpy(zero_copy_only=False) if numbers else column.to_pandas()
    return pd.DataFrame(columns, copy=False)


def _numbers(column: Any) -> AnyArray:
    import pyarrow as pa

    if pa.types.is_decimal(column.type):
        column = column.cast(pa.float64())
    out: AnyArray = column.to_numpy(zero_copy_only=False)
    return out
