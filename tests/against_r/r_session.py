"""R inside this process, by rpy2: R code in, NumPy arrays out. Never fork once R has been started."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np


def start() -> Any:
    """Start R; raises ImportError or RuntimeError where rpy2 or R is missing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            import rpy2.robjects as robjects
        except (ImportError, ValueError, OSError) as error:
            raise RuntimeError(f"rpy2 or R is missing ({error})") from error
    return robjects


class RSession:
    """Runs R functions on arrays.

    A fit is made and taken apart inside one R function that returns a list of numbers: what R classes become in
    Python is not to be relied on.
    """

    def __init__(self, robjects: Any) -> None:
        self._ro = robjects

    def has(self, package: str) -> bool:
        """Whether an R package is installed."""
        return bool(self._ro.r(f"isTRUE(requireNamespace('{package}', quietly = TRUE))")[0])

    def r_version(self) -> str:
        """Version of R."""
        return str(self._ro.r("as.character(getRversion())")[0])

    def version(self, package: str) -> str:
        """Version of an R package."""
        return str(self._ro.r(f"as.character(packageVersion('{package}'))")[0])

    def __call__(self, code: str, **arguments: Any) -> dict[str, Any]:
        """Evaluate `code`, an R function that returns a named list of numbers, on `arguments`."""
        function = self._ro.r(code)
        given = {name: self._to_r(value) for name, value in arguments.items() if value is not None}
        out = function(**given)
        return {str(name): self._from_r(value) for name, value in zip(out.names, out, strict=True)}

    def _to_r(self, value: Any) -> Any:
        if isinstance(value, dict):
            return self._ro.ListVector({name: self._to_r(column) for name, column in value.items()})
        if isinstance(value, str):
            return self._ro.StrVector([value])
        array = np.asarray(value)
        if array.dtype.kind in "OUST":
            return self._ro.StrVector([str(item) for item in array])
        flat = self._ro.FloatVector(array.astype(float).ravel(order="F"))
        if array.ndim == 2:
            return self._ro.r["matrix"](flat, nrow=array.shape[0])
        return flat

    def _from_r(self, value: Any) -> Any:
        if isinstance(value, self._ro.StrVector):
            return [str(item) for item in value]
        array = np.array(list(value), dtype=float)
        shape = value.dim if hasattr(value, "dim") else None
        if shape is not None and shape is not self._ro.NULL and len(shape) == 2:
            return array.reshape(tuple(int(k) for k in shape), order="F")
        return array
