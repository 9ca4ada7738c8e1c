"""What the R package reads of fits in files, for `r_bridge`."""

from __future__ import annotations

import base64
import io
from typing import Any, cast

import numpy as np
import pandas as pd
from scipy import sparse

from pybayesridge._types import FloatArray
from pybayesridge._version import __version__
from pybayesridge.data.arrays import NamedColumns
from pybayesridge.formula.bands import Band
from pybayesridge.formula.groups import told_levels
from pybayesridge.formula.spec import FormulaSpec, levels_of
from pybayesridge.results import files, portable
from pybayesridge.results.base import LinearResults
from pybayesridge.results.pooled import PooledResults


def saved(path: str, allow_code: bool) -> Any:
    """The results in a file of text and numbers; a pickle, which can run code, is refused unread.

    So is a formula that does more than compute with columns, unless `allow_code`.
    """
    with open(path, "rb") as file:
        start = file.read(len(portable.OPENING))
        if start != portable.OPENING:
            foreign = f"{path} is not a fit saved by pybayesridge"
            if not start:
                raise ValueError(f"{foreign}: it is empty")
            if start[:1] == files.OPENING[:1]:
                raise ValueError(
                    f"{path} is a pickle, which can run code and which R does not read: load it in Python by "
                    "pybayesridge.load(..., allow_code=True), and save it with format='portable'"
                )
            raise ValueError(f"{foreign}: it is no archive")
        file.seek(0)
        found = portable.read(cast("Any", file), path, __version__, allow_code=allow_code)
    if isinstance(found, PooledResults):
        raise ValueError(
            f"{path} holds pooled fits, which R does not read: save the single fits, and pool them by pool_fits()"
        )
    if not isinstance(found, LinearResults):
        raise ValueError(f"{path} is not a fit saved by pybayesridge: it holds a {type(found).__name__}")
    return found


CODES = ("0", "1")
"""Levels of responses that are numbers in R, as are numbers of successes."""


def known_to_r(results: Any) -> dict[str, Any]:
    """What R has of its own fits beside the export; None where there is nothing."""
    model = results.model
    data, spec = model.data, model.formula_spec
    groups: Any = getattr(model, "groups", None)
    grouped = groups is not None and model.grouped_by != "column"
    of_formula = () if spec is None else spec.bands
    levels = model.distribution.levels
    return {
        "columns": [str(name) for name in data.exog_columns],
        "named": spec is not None or isinstance(data.orig_exog, pd.DataFrame | NamedColumns),
        "x": None if data.exog is None else _columns_for_r(data.exog),
        "row_names": None if isinstance(data.row_labels, pd.RangeIndex) else [str(row) for row in data.row_labels],
        "weights": None if data.weights is None else np.asarray(data.weights, dtype=np.float64),
        "levels": None if levels in (None, CODES) else list(levels),
        "group": [groups.labels[i] for i in groups.of_column] if grouped else None,
        "flat_in": getattr(model, "flat_in", None),
        "known_sigma2": getattr(model, "known_sigma2", None),
        "group_bands": [_group_for_r(band) for band in of_formula if band.kind == "group"] or None,
        "formula": None if spec is None else spec.formula,
        "reads": None if spec is None else list(spec.variables),
        "coding": None if spec is None else _as_text(spec),
    }


def _group_for_r(band: Band) -> dict[str, Any]:
    """A band of a group as R has those of its own formulas (band_columns.R), with the levels as text."""
    groups = band.groups
    assert groups is not None
    return {
        "name": band.name,
        "columns": list(band.columns),
        "term": band.term,
        "correlated": band.correlated,
        "variables": list(groups.variables),
        "levels": [told_levels(known) for known in groups.levels],
        "pairs": groups.pairs + 1.0,
    }


def _columns_for_r(x: Any) -> FloatArray | dict[str, Any]:
    """Columns as :func:`fit_model` takes them."""
    if not sparse.issparse(x):
        return np.asarray(x, dtype=np.float64)
    columns = sparse.csc_matrix(x, dtype=np.float64)
    slots = {"i": columns.indices, "p": columns.indptr, "x": columns.data}
    shape = {"nrow": float(x.shape[0]), "ncol": float(x.shape[1])}
    return shape | {name: np.asarray(slot, dtype=np.float64) for name, slot in slots.items()}


def _as_text(spec: FormulaSpec) -> str:
    """How a formula was coded, as text that R can keep."""
    file = io.BytesIO()
    portable.write(spec, file, __version__)
    return base64.b64encode(file.getvalue()).decode("ascii")


def as_known(spec: FormulaSpec, name: str, column: Any) -> Any:
    """A column of R; text becomes the levels that it writes, which may be numbers in Python."""
    values = np.atleast_1d(np.asarray(column, dtype=object))
    if not any(isinstance(value, str) for value in values):
        return pd.Series(column if np.ndim(column) else values).infer_objects()
    known = {str(level): level for level in levels_of(spec, name) or []} if name in spec.kinds else {}
    return pd.Series([known.get(value, value) for value in values], dtype=object)
