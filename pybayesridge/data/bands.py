"""Which columns share a penalty: what the user says about it → one band for each penalised column."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from pybayesridge._types import BandsLike, BoolArray, IntArray
from pybayesridge.data.frames import to_pandas
from pybayesridge.data.prepare import resolve_columns
from pybayesridge.text import listed

OTHER = "other"
"""The band of penalised columns that are in none of those that were named; "other columns" if one of these has it."""

NO_BAND = -1
"""Of columns that are in no band: the unpenalised ones."""


@dataclass(frozen=True)
class Bands:
    """The bands of the columns of exog.

    Attributes
    ----------
    names : tuple of K str
    of_column : (m,) int array
        The band of each column, -1 for unpenalised ones.
    own_scale : (m,) bool array
        Columns whose prior is on their own scale even where the others are standardised.
    sets : tuple of tuples of int
        Bands whose coefficients of the same level are correlated: they have equally many columns, in one order.
    eliminated : int or None
        The band of a group with so many levels that columns are sparse.
    """

    names: tuple[str, ...]
    of_column: IntArray
    own_scale: BoolArray
    sets: tuple[tuple[int, ...], ...] = ()
    eliminated: int | None = None

    @property
    def dimension(self) -> int:
        """Number of variances and correlations."""
        return len(self.names) + sum(len(each) * (len(each) - 1) // 2 for each in self.sets)

    def members(self, band: int) -> IntArray:
        """Positions of a band's columns."""
        return np.flatnonzero(self.of_column == band)


def resolve_bands(
    bands: BandsLike,
    columns: Sequence[str],
    unpenalized: IntArray,
    terms: dict[str, list[int]] | None = None,
) -> Bands:
    """Bands from the argument `bands` of :class:`BayesRidge`.

    Parameters
    ----------
    bands : dict of names to names or positions, or sequence of labels
    columns : sequence of str
        Names of the columns of exog.
    unpenalized : int array
        Their positions.
    terms : dict or None
        Positions of the columns of each term of the formula; None without a formula.

    Raises
    ------
    ValueError
        For a band without columns, a column in two bands, an unpenalised column in a band, names that are no columns,
        labels that are missing or of another number than the columns, and two bands whose names read the same.
    """
    if isinstance(bands, Mapping):
        names, of_column = _named(bands, columns, unpenalized, terms)
    else:
        names, of_column = _labelled(bands, columns, unpenalized)
    return Bands(tuple(names), of_column, np.zeros(len(columns), dtype=bool))


def _named(
    bands: Mapping[str, Any], columns: Sequence[str], unpenalized: IntArray, terms: dict[str, list[int]] | None
) -> tuple[list[str], IntArray]:
    names = [str(name) for name in bands]
    if not names:
        raise ValueError("bands names no band: leave it out for a single penalty")
    if len(set(names)) < len(names):
        raise ValueError(f"two bands have names that read the same: {listed(names)}")
    of_column = np.full(len(columns), NO_BAND, dtype=np.intp)
    for k, (name, members) in enumerate(bands.items()):
        at = resolve_columns(members, columns, terms, what=f"band {name!r}")
        if not at.size:
            raise ValueError(f"band {name!r} has no columns: leave it out")
        free = np.intersect1d(at, unpenalized)
        if free.size:
            raise ValueError(
                f"column(s) {listed(columns[j] for j in free)} of band {name!r} are unpenalised: take them out of "
                "the band, or out of `unpenalized`"
            )
        taken = at[of_column[at] != NO_BAND]
        if taken.size:
            first = names[of_column[taken[0]]]
            raise ValueError(
                f"column(s) {listed(columns[j] for j in taken)} of band {name!r} are already in band {first!r}: a "
                "column can be in one band only"
            )
        of_column[at] = k
    rest = np.setdiff1d(np.flatnonzero(of_column == NO_BAND), unpenalized)
    if rest.size:
        name = OTHER
        while name in names:
            name = f"{name} columns"
        names.append(name)
        of_column[rest] = len(names) - 1
    return names, of_column


def _labelled(bands: Any, columns: Sequence[str], unpenalized: IntArray) -> tuple[list[str], IntArray]:
    """One label for each column; those of unpenalised columns do not matter."""
    if isinstance(bands, str):
        raise ValueError(f"bands must be a dict of columns by band, or a label for each column, not {bands!r}")
    if isinstance(bands, pd.Series) and not isinstance(bands.index, pd.RangeIndex):
        by_name = {str(name): label for name, label in bands.items()}
        if len(by_name) < len(bands) or set(by_name) != set(columns):
            raise ValueError("the index of bands must be the names of the columns of exog, each once")
        labels: list[Any] = [by_name[name] for name in columns]
    else:
        try:
            labels = list(to_pandas(bands, "bands"))
        except TypeError:
            raise ValueError(
                f"bands must be a dict of columns by band, or a label for each column, not {bands!r}"
            ) from None
    if len(labels) != len(columns):
        raise ValueError(f"bands must have one label for each of the {len(columns)} columns, got {len(labels)}")
    free = set(unpenalized.tolist())
    odd = [columns[j] for j, label in enumerate(labels) if j not in free and not _is_label(label)]
    if odd:
        raise ValueError(f"bands has no label for column(s) {listed(odd)}: add a label for each")
    of_column = np.full(len(columns), NO_BAND, dtype=np.intp)
    position: dict[str, int] = {}
    seen: dict[str, Hashable] = {}
    for j, label in enumerate(labels):
        if j in free:
            continue
        if seen.setdefault(str(label), label) != label:
            raise ValueError(f"bands has labels of different types that read {str(label)!r}: use one type")
        of_column[j] = position.setdefault(str(label), len(position))
    return list(position), of_column


def _is_label(label: Any) -> bool:
    return label is not None and bool(np.ndim(label) == 0) and not bool(pd.isna(label))
