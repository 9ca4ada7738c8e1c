"""Models side by side: which coefficients of several fits are of the same column."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd

from pybayesridge._types import FloatArray

SAME_RESPONSE = 1e-9
"""Largest difference between responses that are the same, relative to the largest value."""

MARKS = 3
"""Numbers that tell columns apart: combinations of their values with random weights."""

SAME_COLUMN = 1e-6
"""Largest difference of these between columns that are the same, relative to their size: that of single precision."""

NUMBERED = re.compile(r"\[\d+\]")
"""In the names of columns that one term makes."""


@dataclass(frozen=True, slots=True)
class FitInTable:
    """A fit as the table shows it.

    Attributes
    ----------
    coefficients : DataFrame
        A row for each coefficient, the columns `VALUES`; NaN for what a fit does not have.
    facts : dict
        Numbers of the whole fit by name.
    response : str
    observed : (n,) array or None
        The response.
    own : bool
        Whether the fit is of this package.
    marks : (k, MARKS) array or None
        Of the columns of the coefficients, see :func:`marks_of`; NaN where these are not known.
    kind : str or None
        What the response is of, for fits of this package.
    copies : (n,) array or None
        How many rows each row stands for, likewise.
    no_score : str
        Why there is no leave-one-out score; empty where it is not known to be missing.
    """

    coefficients: pd.DataFrame
    facts: dict[str, float]
    response: str
    observed: FloatArray | None
    own: bool
    marks: FloatArray | None
    kind: str | None = None
    copies: FloatArray | None = None
    no_score: str = ""


@dataclass(frozen=True, slots=True)
class _Row:
    """A row of the table.

    Attributes
    ----------
    label : str
    name : str
        Of the coefficient in the first fit that has one.
    members : list of (FitInTable, int)
        Fits that have a coefficient in this row, and its position in each.
    """

    label: str
    name: str
    members: list[tuple[FitInTable, int]]

    def takes(self, fit: FitInTable, at: int) -> bool:
        """Whether a coefficient belongs here: by the values of its column, or where these are unknown by its name."""
        if any(member is fit for member, _ in self.members):
            return False
        for member, j in self.members:
            same = _same_column(member, j, fit, at)
            if same is not None:
                return same
        numbered = NUMBERED.search(self.name) is not None
        same_name = self.name == str(fit.coefficients.index[at])
        return same_name and not (numbered and any(member.own != fit.own for member, _ in self.members))


def marks_of(columns: Any) -> FloatArray | None:
    """Numbers that are equal where columns are: (k, MARKS) of (n, k) columns in memory, else None."""
    if columns is None or np.ndim(columns) not in (0, 2) or getattr(columns, "dtype", np.dtype(object)).kind == "O":
        return None
    n = columns.shape[0]
    weights = np.random.default_rng(0).normal(size=(n, MARKS)) / np.sqrt(n)
    out: FloatArray = np.asarray(columns.T @ weights, dtype=np.float64)
    return out


def matched(fits: Mapping[str, FitInTable]) -> tuple[dict[str, FitInTable], list[str]]:
    """The fits with coefficients named by rows of the table, and the names whose columns differ between the fits."""
    by_name: dict[str, list[_Row]] = {}
    labels: set[str] = set()
    differing: dict[str, None] = {}
    out = {}
    for of, fit in fits.items():
        by_stem: dict[str, list[_Row]] = {}
        for rows in by_name.values():
            by_stem.setdefault(NUMBERED.sub("[]", rows[0].name), []).extend(rows)
        own = []
        for at, name in enumerate(map(str, fit.coefficients.index)):
            others = by_stem.get(NUMBERED.sub("[]", name), []) if NUMBERED.search(name) else []
            row = next((row for row in chain(by_name.get(name, []), others) if row.takes(fit, at)), None)
            if row is None:
                row = _Row(_free_label(name, of, labels), name, [])
                labels.add(row.label)
                by_name.setdefault(name, []).append(row)
                differing |= {} if row.label == name else {name: None}
            row.members.append((fit, at))
            own.append(row.label)
        out[of] = replace(fit, coefficients=fit.coefficients.set_axis(own, axis=0))
    return out, list(differing)


def _free_label(name: str, fit: str, labels: set[str]) -> str:
    """The name of a coefficient, with that of its fit if another row has it."""
    out = name
    while out in labels:
        out = f"{out} ({fit})"
    return out


def _same_column(one: FitInTable, i: int, other: FitInTable, j: int) -> bool | None:
    """Whether two columns have the same values; None if that is not known, or the rows are not the same."""
    if one.marks is None or other.marks is None or one.observed is None or other.observed is None:
        return None
    a, b = one.marks[i], other.marks[j]
    if np.isnan(a).any() or np.isnan(b).any() or not same_values([one.observed, other.observed]):
        return None
    return bool(np.abs(a - b).max() <= SAME_COLUMN * np.abs(a).max())


def same_values(observed: Sequence[FloatArray]) -> bool:
    """Whether responses are the same."""
    first = observed[0] if observed else np.zeros(0)
    size = SAME_RESPONSE * float(np.abs(first).max(initial=0.0))
    return all(y.shape == first.shape and bool((np.abs(y - first) <= size).all()) for y in observed)


def check_order(first: str, one: Any, second: str, other: Any) -> None:
    """Refuse models of the same rows in another order, whose numbers for each row would be taken by position.

    Rows are the same where their labels are, and where responses agree by these at least as often as by position: a
    frame whose rows have got new labels keeps its order.
    """
    labels, others = one.data.row_labels, other.data.row_labels
    responses = one.endog, other.endog
    if any(y is None for y in responses) or len(labels) != len(others) or labels.equals(others):
        return
    if not (labels.is_unique and others.is_unique and labels.isin(others).all()):
        return
    y, z = (values.reshape(len(labels), -1) for values in responses)
    by_label = z[others.get_indexer(labels)]
    if y.shape == z.shape and (y == by_label).sum() >= (y == z).sum():
        raise ValueError(
            f"{first} and {second} are of the same rows in another order, by their labels: put the rows of all data "
            "sets in the same order"
        )
