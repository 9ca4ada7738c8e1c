"""Columns of a formula that share a variance: what the model and new rows know of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from formulaic import ModelSpec
from scipy import sparse

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.data.arrays import NamedColumns
from pybayesridge.formula.groups import GroupLevels

MOST_ELEMENTS = 1 << 28
"""Most numbers in the columns of a formula with bands, 2 GB: those of groups are mostly zeros."""


MANY_LEVELS = 500
"""The columns of a formula are sparse if a group whose effects have a variance of their own has so many levels."""


@dataclass(frozen=True, slots=True)
class Band:
    """Penalised columns that share a variance: what they are called, and how new rows are coded.

    Attributes
    ----------
    name : str
        Unique among the bands of a formula, and what tables show: ``"g"`` of ``(1 | g)``, ``"x|g"``, ``"a:b"``,
        ``"s(x)"``, ``"s(x):g[a]"``, or the name that ``band(..., name=)`` gives.
    kind : {"group", "smooth", "columns"}
    columns : tuple of str
        Names of the penalised columns: ``"g[a]"``, ``"x|g[a]"``, ``"a[1]:b[2]"``, ``"s(x).1"``.
    unpenalized : tuple of str
        Names of the columns under a flat prior that belong to it: ``"s(x).line"``.
    standardized : bool
        Whether the prior is on the columns divided by their standard deviations. Not of groups and smooth curves,
        whose columns keep their scale.
    spec : formulaic.ModelSpec
        How what multiplies the levels, the basis of the curve or the columns are made of the data.
    of_spec : tuple of int
        The columns of `spec` that are meant; of a group the one that multiplies its levels.
    term : str
        What varies by group, ``"1"`` or the name of a column; the variable of a smooth curve; else empty.
    groups : GroupLevels or None
        Of a group; of a smooth curve that holds in one level of a factor the levels of the factor.
    by : tuple or None
        Of a smooth curve with ``by=``: the column of the data, and the level in which it holds; None where the column
        is a number, which multiplies it.
    correlated : str
        Text of the term, such as ``"(x | g)"``, for bands whose coefficients of the same level are correlated: each
        of them has a column for every level, in one order. Empty for bands that are independent.
    """

    name: str
    kind: str
    columns: tuple[str, ...]
    unpenalized: tuple[str, ...]
    standardized: bool
    spec: ModelSpec
    of_spec: tuple[int, ...]
    term: str = ""
    groups: GroupLevels | None = None
    by: tuple[str, Any] | None = None
    correlated: str = ""

    @property
    def of_term(self) -> str:
        """The term of a formula that makes it alone: of a group ``(1 | g)`` or ``(0 + x | g)``, else its name."""
        if self.kind != "group" or self.groups is None:
            return self.name
        effect = self.term if self.term == "1" else f"0 + {self.term}"
        return f"({effect} | {self.groups.name})"

    @property
    def all_columns(self) -> tuple[str, ...]:
        """Its columns as :func:`joined` puts them: the unpenalised ones first."""
        return (*self.unpenalized, *self.columns)


@dataclass(frozen=True, slots=True)
class BandColumns:
    """A band at some rows.

    Attributes
    ----------
    band : Band
    penalized : (n, number of columns) array or scipy.sparse.csc_matrix
        Sparse for groups.
    unpenalized : (n, number of unpenalised columns) array
    unseen : (n,) array
        Of a group, at rows whose level the fit has not seen or is missing: the value that multiplies its effect (1 of
        an intercept), so that the effect adds variance ``t * unseen**2`` there; 0 at all other rows.
    unseen_level : (n,) int array
        Which of these levels it is, from 0, so that rows of one share its effect; -1 at all other rows.
    """

    band: Band
    penalized: FloatArray | sparse.csc_matrix
    unpenalized: FloatArray
    unseen: FloatArray
    unseen_level: IntArray

    def among(self, n: int, rows: IntArray) -> BandColumns:
        """The band at `n` rows, of which it has `rows`: NaN at the others (of a sparse band in the first column)."""
        if rows.size == n:
            return self
        rest = np.setdiff1d(np.arange(n), rows)
        if sparse.issparse(self.penalized):
            own = sparse.coo_matrix(self.penalized)
            value = np.concatenate([own.data, np.full(rest.size, np.nan)])
            row, column = np.concatenate([rows[own.row], rest]), np.concatenate([own.col, np.zeros(rest.size, int)])
            penalized = sparse.csc_matrix((value, (row, column)), shape=(n, own.shape[1]))
        else:
            penalized = _spread(self.penalized, n, rows, np.nan)
        return BandColumns(
            self.band,
            penalized,
            _spread(self.unpenalized, n, rows, np.nan),
            _spread(self.unseen, n, rows, 0.0),
            _spread(self.unseen_level, n, rows, -1),
        )


def largest_group(bands: Sequence[Band]) -> Band | None:
    """The group with the most levels, of those whose effects are not correlated; None if none has many."""
    alone = [band for band in bands if band.kind == "group" and not band.correlated]
    found = max(alone, key=lambda band: len(band.columns), default=None)
    return found if found is not None and len(found.columns) >= MANY_LEVELS else None


def joined(plain: pd.DataFrame, bands: Sequence[BandColumns]) -> pd.DataFrame | NamedColumns:
    """The columns of a formula and, after them, those of its bands: a frame, or sparse with many levels of a group.

    Raises
    ------
    ValueError
        If they would take more than :data:`MOST_ELEMENTS` numbers, or, beside sparse groups, those of no group would.
    """
    if not bands:
        return plain
    names = [*plain.columns, *(name for each in bands for name in each.band.all_columns)]
    parts: list[Any] = [plain.to_numpy(), *(part for each in bands for part in (each.unpenalized, each.penalized))]
    n = len(plain)
    if largest_group([each.band for each in bands]) is not None:
        if plain.size > MOST_ELEMENTS:
            raise ValueError(
                f"the {plain.shape[1]:,} columns of {n:,} rows that are of no group are dense and take "
                f"{plain.size * 8 / 1e9:,.0f} GB, of which the fit needs up to six times as much: write a factor of "
                "many levels as a group, (1 | g)"
            )
        matrix = sparse.hstack([sparse.csc_matrix(part, dtype=np.float64) for part in parts], format="csc")
        return NamedColumns(sparse.csc_matrix(matrix), [str(name) for name in names])
    if n * len(names) > MOST_ELEMENTS:
        most = max(bands, key=lambda each: len(each.band.columns)).band
        raise ValueError(
            f"the {len(names):,} columns of {n:,} rows would take {n * len(names) * 8 / 1e9:,.0f} GB, most of them "
            f"those of {most.of_term} ({len(most.columns):,}): use groups with fewer levels"
        )
    out = np.empty((n, len(names)), order="F")
    at = 0
    for part in parts:
        out[:, at : at + part.shape[1]] = part.toarray() if sparse.issparse(part) else part
        at += part.shape[1]
    return pd.DataFrame(out, index=plain.index, columns=names, copy=False)


def matrix_of(columns: pd.DataFrame | NamedColumns) -> Any:
    """The numbers of joined columns, an array or a csc matrix."""
    return columns.matrix if isinstance(columns, NamedColumns) else columns.to_numpy(dtype=np.float64)


def _spread(values: Any, n: int, rows: IntArray, rest: float) -> Any:
    """Values at some of `n` rows, and another one at the others."""
    out = np.full((n, *values.shape[1:]), rest, dtype=values.dtype)
    out[rows] = values
    return out
