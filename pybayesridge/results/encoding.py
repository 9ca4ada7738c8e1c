"""Objects of a fit as text and numbers, and back: a list of entries for JSON, and flat arrays.

A value is written as itself (text, true, false, null, whole numbers, finite numbers) or as an object with one key:
``{"list": [...]}``, ``{"tuple": [...]}``, ``{"dict": [[key, value], ...]}``, ``{"float": "nan"}`` (``"inf"``,
``"-inf"``), ``{"scalar": [dtype, value]}``, ``{"warning": name}``, ``{"numpy": name}``, or ``{"ref": i}`` for entry
i, which other values may share. Reading values calls nothing but what is written here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import sparse

from pybayesridge import exceptions
from pybayesridge.formula.late import spec as specs
from pybayesridge.formula.late import stored as formulas
from pybayesridge.results import stored_frames as frames
from pybayesridge.results.labelled import Labelled
from pybayesridge.results.stored_classes import NotStoredError, class_of, fill, name_of, state_of

if TYPE_CHECKING:
    from pybayesridge.formula.spec import FormulaSpec

KINDS = "biuf"
"""Kinds of arrays: truth values, whole numbers with and without a sign, numbers."""

SPARSE = {"csc": sparse.csc_matrix, "csr": sparse.csr_matrix}
"""Formats of sparse matrices: code that walks through one needs the one that it was given."""

WARNINGS = {name: value for name, value in vars(exceptions).items() if isinstance(value, type)}


class Encoder:
    """Collects entries and arrays.

    Attributes
    ----------
    entries : list of dict
    arrays : dict of str to list of arrays
        One-dimensional ones of each type, which follow each other in the file.
    formulas : list of (FormulaSpec, dict)
        The formulas, and what is stored of the user's values that they use.
    """

    def __init__(self) -> None:
        self.entries: list[Any] = []
        self.arrays: dict[str, list[np.ndarray]] = {}
        self._lengths: dict[str, int] = {}
        self._known: dict[Any, int] = {}
        self._kept: list[Any] = []
        self.formulas: list[tuple[FormulaSpec, dict[str, Any]]] = []

    def value(self, value: Any, where: str) -> Any:
        """A value as JSON has it; `where` it is, for messages."""
        if value is None or type(value) in (bool, str, int):
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if isinstance(value, np.generic):
            return {"scalar": [value.dtype.str, self.value(value.item(), where)]}
        if type(value) in (list, tuple):
            return {type(value).__name__: [self.value(one, f"{where}[{i}]") for i, one in enumerate(value)]}
        if isinstance(value, dict):
            return {
                "dict": [[self.value(key, where), self.value(one, f"{where}[{key!r}]")] for key, one in value.items()]
            }
        if isinstance(value, type) and value in WARNINGS.values():
            return {"warning": str(value.__name__)}
        numpys = _name_in_numpy(value)
        if numpys is not None:
            return {"numpy": numpys}
        return {"ref": self._entry(value, where)}

    def _entry(self, value: Any, where: str) -> int:
        key: Any = id(value)
        if isinstance(value, np.ndarray):
            place = value.__array_interface__
            key = (place["data"][0], value.dtype.str, value.shape, value.strides)
        if key not in self._known:
            self._known[key] = at = len(self.entries)
            self.entries.append(None)
            # Objects that are made on the way must not give their identity to others.
            self._kept.append(value)
            self.entries[at] = self._content(value, where)
        return self._known[key]

    def _content(self, value: Any, where: str) -> dict[str, Any]:
        if isinstance(value, np.ndarray):
            return self._array(value, where)
        if isinstance(value, specs.FormulaSpec):
            return self._formula(value, where)
        if formulas.is_description(value):
            return {"formula": self.value(formulas.as_data(value), where)}
        if sparse.issparse(value):
            parts = value if value.format in SPARSE else sparse.csc_matrix(value)
            content = {name: getattr(parts, name) for name in ("format", "shape", "data", "indices", "indptr")}
            return {"sparse": self.value(content, where)}
        if isinstance(value, pd.Index | pd.Series | pd.DataFrame):
            kind, content = frames.as_data(value, where)
            return {kind: self.value(content, where)}
        name = name_of(type(value))
        if name is None:
            raise NotStoredError(f"{where} is of type {type(value).__module__}.{type(value).__qualname__}")
        # What was computed from the rest and kept can be computed again.
        state = {key: one for key, one in state_of(value).items() if not is_cached(value, key) or is_storable(one)}
        return {"class": name, "fields": {key: self.value(one, f"{where}.{key}") for key, one in state.items()}}

    def _array(self, value: np.ndarray, where: str) -> dict[str, Any]:
        if value.dtype.kind not in KINDS or type(value) is not np.ndarray:
            raise NotStoredError(f"{where} is an array of type {value.dtype}")
        kind = value.dtype.newbyteorder("<").str.lstrip("<|")
        fortran = value.flags.f_contiguous and not value.flags.c_contiguous
        flat = value.ravel(order="F" if fortran else "C")
        at = self._lengths.get(kind, 0)
        self.arrays.setdefault(kind, []).append(flat)
        self._lengths[kind] = at + flat.size
        return {"array": kind, "at": at, "shape": list(value.shape), "fortran": fortran}

    def _formula(self, value: FormulaSpec, where: str) -> dict[str, Any]:
        """Without the user's names that are no data: a loaded fit refuses to predict by a function."""
        state = state_of(value)
        state["context"] = {name: one for name, one in value.context.items() if is_storable(one)}
        self.formulas.append((value, state["context"]))
        return {
            "class": name_of(specs.FormulaSpec),
            "fields": {key: self.value(one, f"{where}.{key}") for key, one in state.items()},
        }


def is_cached(owner: object, name: str) -> bool:
    """Whether an attribute is a property that keeps its value."""
    found = getattr(type(owner), name, None)
    return isinstance(found, cached_property) or (isinstance(found, Labelled) and found.fget is not None)


def is_storable(value: Any) -> bool:
    """Whether a file can hold a value."""
    try:
        Encoder().value(value, "")
    except NotStoredError:
        return False
    return True


class Decoder:
    """Makes the values again.

    Parameters
    ----------
    entries : list of dict
    arrays : dict of str to array

    Attributes
    ----------
    formulas : list of FormulaSpec
        All that were made.
    """

    def __init__(self, entries: list[Any], arrays: dict[str, np.ndarray]) -> None:
        self._entries, self._arrays = entries, arrays
        self.formulas: list[FormulaSpec] = []
        self._descriptions: list[Any] = []
        self._left = {kind: values.size for kind, values in arrays.items()}
        self._made: dict[int, Any] = {}
        self._making: set[int] = set()
        self._readers: dict[str, Callable[[Any], Any]] = {
            "list": lambda content: [self.value(one) for one in content],
            "tuple": lambda content: tuple(self.value(one) for one in content),
            "dict": lambda content: {self.value(key): self.value(one) for key, one in content},
            "float": float,
            "scalar": lambda content: _scalar(content[0], self.value(content[1])),
            "warning": WARNINGS.__getitem__,
            "numpy": _of_numpy,
            "ref": self._entry,
        }

    def value(self, node: Any) -> Any:
        """The value that :meth:`Encoder.value` wrote."""
        if not isinstance(node, dict):
            return node
        ((kind, content),) = node.items()
        return self._readers[kind](content)

    def root(self, node: Any) -> Any:
        """The value of the whole file, in which every description of a formula belongs to a :class:`FormulaSpec`."""
        out = self.value(node)
        owned = [one for spec in self.formulas for one in (spec.spec, *(band.spec for band in spec.bands))]
        if any(all(one is not other for other in owned) for one in self._descriptions):
            raise ValueError("a formula that belongs to no model")
        return out

    def _entry(self, i: int) -> Any:
        if i not in self._made:
            if i in self._making or i < 0:
                raise ValueError("entries that contain themselves")
            self._making.add(i)
            entry = self._entries[i]
            if "class" in entry:
                # Before its fields are there, since these may refer to it.
                made: Any = object.__new__(class_of(entry["class"]))
                self._made[i] = made
                fill(made, {name: self.value(one) for name, one in entry["fields"].items()})
                if isinstance(made, specs.FormulaSpec):
                    self.formulas.append(made)
            else:
                self._made[i] = self._content(entry)
        return self._made[i]

    def _content(self, entry: dict[str, Any]) -> Any:
        if "array" in entry:
            return self._array(entry)
        if "wrapper" in entry:  # of versions in which other objects labelled the results
            return self.value(entry["results"])
        ((kind, node),) = entry.items()
        content = self.value(node)
        if kind == "formula":
            self._descriptions.append(formulas.from_data(content))
            return self._descriptions[-1]
        if kind == "sparse":
            parts = content["data"], content["indices"], content["indptr"]
            return SPARSE[content["format"]](parts, shape=content["shape"])
        return frames.from_data(kind, content)

    def _array(self, entry: dict[str, Any]) -> np.ndarray:
        shape = tuple(entry["shape"])
        size = math.prod(shape)
        flat = self._arrays[entry["array"]][entry["at"] : entry["at"] + size]
        # No element belongs to two arrays: a short file does not make long ones.
        self._left[entry["array"]] -= size
        if flat.size != size or entry["at"] < 0 or self._left[entry["array"]] < 0:
            raise ValueError("an array is not complete")
        return flat.reshape(shape, order="F" if entry["fortran"] else "C").copy(order="K")


def _scalar(kind: str, value: Any) -> Any:
    dtype = np.dtype(kind)
    if dtype.kind not in f"{KINDS}U":
        raise ValueError(f"there are no single numbers of type {kind}")
    return dtype.type(value)


def _name_in_numpy(value: Any) -> str | None:
    """The name of one of NumPy's functions of numbers, empty for the module; None for anything else."""
    if value is np:
        return ""
    name = str(value.__name__) if isinstance(value, np.ufunc) else ""
    return name if name and getattr(np, name, None) is value else None


def _of_numpy(name: str) -> Any:
    found: Any = getattr(np, name) if name else np
    if name and not isinstance(found, np.ufunc):
        raise ValueError(f"numpy.{name} is no function of numbers")
    return found
