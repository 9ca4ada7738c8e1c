"""Prior inclusion probabilities as they are given: a number, one for each column, or by name of column or group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from pybayesridge._types import FloatArray
from pybayesridge.data.frames import unmasked
from pybayesridge.data.groups import Groups
from pybayesridge.text import listed


def inclusion_by_column(
    prior_inclusion: Any, columns: list[str], groups: Groups, unpenalized: Sequence[int]
) -> float | FloatArray | None:
    """Prior inclusion probabilities: one number, or one for each column; None if they are to be learned.

    Those of unpenalised columns (positions) do not count and need no name.
    """
    if prior_inclusion is None:
        return None
    if isinstance(prior_inclusion, pd.Series | Mapping):
        given = _by_column({str(name): value for name, value in dict(prior_inclusion).items()}, columns, groups)
        known = set(columns)
        unknown = [name for name in given if name not in known]
        always = dict.fromkeys((columns[j] for j in unpenalized), 1.0)
        absent = [name for name in columns if name not in given and name not in always]
        if unknown:
            raise ValueError(f"prior_inclusion names {listed(unknown)}, which are not columns (or groups) of exog")
        values = np.array([given.get(name, always.get(name, np.nan)) for name in columns], dtype=np.float64)
        if absent and not given:
            raise ValueError("prior_inclusion is empty: give a probability for each column, or one for all")
        if absent:
            raise ValueError(f"prior_inclusion lacks column(s) {listed(absent)}")
    else:
        try:
            if np.asarray(prior_inclusion).dtype.kind not in "fiuO":
                raise TypeError
            values = np.asarray(unmasked(prior_inclusion), dtype=np.float64)
        except (TypeError, ValueError):
            raise ValueError(
                f"prior_inclusion must be a probability or one for each column, not {prior_inclusion!r}"
            ) from None
        if values.ndim > 1 or (values.ndim == 1 and values.size != len(columns)):
            raise ValueError(f"prior_inclusion has shape {values.shape} for {len(columns)} columns of exog")
    bad = np.flatnonzero(~((values >= 0) & (values <= 1)).ravel())
    if bad.size:
        where = "" if values.ndim == 0 else f" of column {columns[bad[0]]!r}"
        value = float(values.ravel()[bad[0]])
        raise ValueError(f"prior_inclusion{where} is {value!r}: a probability lies between 0 and 1")
    return float(values) if values.ndim == 0 else values


def _by_column(given: dict[str, Any], columns: list[str], groups: Groups) -> dict[str, Any]:
    """Values by name of column or group as values by name of column."""
    out: dict[str, Any] = {}
    own, labels = set(columns), set(groups.labels)
    for name, value in given.items():
        whole = name in labels and name not in own
        names = [columns[j] for j in groups.members(name)] if whole else [name]
        twice = [column for column in names if column in out]
        if twice:
            raise ValueError(f"prior_inclusion gives {listed(twice)} a probability twice, as column and in a group")
        out |= dict.fromkeys(names, value)
    return out
