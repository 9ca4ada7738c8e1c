"""Attributes of results with labels: arrays where they are computed, Series and DataFrames where they are read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, NoReturn, TypeVar, overload

import pandas as pd

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.families.registry import those_with
from pybayesridge.text import either

T = TypeVar("T")


class Labelled(property, Generic[T]):
    """An attribute of results that is an array within, and has the names of columns, rows or targets outside.

    The array is computed when it is first needed, or set; it is kept in the ``__dict__`` of the results.

    Parameters
    ----------
    how : {"columns", "rows", "targets"}
        What the array runs over.
    compute : callable, optional
        The array of results; None for an attribute that is set.
    """

    def __init__(self, how: str, compute: Callable[[Any], Any] | None = None) -> None:
        super().__init__(compute)
        self.how = how

    def __set_name__(self, owner: type, name: str) -> None:
        """Take the name under which the array is kept."""
        self.name = name

    def array(self, results: Any) -> Any:
        """The array, without labels; a number where there is one target."""
        kept = vars(results)
        if self.name not in kept:
            if self.fget is None:
                raise AttributeError(f"{type(results).__name__} object has no attribute {self.name!r}")
            kept[self.name] = self.fget(results)
        return kept[self.name]

    @overload
    def __get__(self, results: None, owner: type, /) -> Labelled[T]: ...

    @overload
    def __get__(self, results: Any, owner: type | None = None, /) -> T: ...

    def __get__(self, results: Any, owner: type | None = None, /) -> Any:
        """The labelled array, which the reader may change; of the class, the attribute itself."""
        if results is None:
            return self
        return results.model.data.wrap_output(self.array(results), self.how)

    def __set__(self, results: Any, value: Any) -> None:
        """Keep an array."""
        vars(results)[self.name] = value


@overload
def per_coefficient(  # type: ignore[overload-overlap]
    compute: Callable[[Any], FloatArray],
) -> Labelled[pd.Series | pd.DataFrame]: ...


@overload
def per_coefficient(compute: Callable[[Any], float | FloatArray]) -> Labelled[float | pd.Series]: ...


def per_coefficient(compute: Any) -> Any:
    """Label an array over the coefficients, (k,) or (k, q); a number for all of them stays as it is."""
    return Labelled("columns", compute)


def per_row(compute: Callable[[Any], FloatArray]) -> Labelled[pd.Series | pd.DataFrame]:
    """Label an array over the rows of the data, (n,) or (n, q)."""
    return Labelled("rows", compute)


@overload
def per_target(compute: Callable[[Any], float | FloatArray | IntArray]) -> Labelled[float | pd.Series]: ...


@overload
def per_target(compute: Callable[[Any], float | FloatArray | None]) -> Labelled[float | pd.Series | None]: ...


def per_target(compute: Any) -> Any:
    """Label an array over the targets, (q,); of a model with one target a number stays as it is."""
    return Labelled("targets", compute)


class Lacking(property):
    """An attribute that only results of other families have: asked for, it says why, and ``dir`` does not name it.

    Parameters
    ----------
    why : str
        ``{reason}`` is that of the family.
    """

    def __init__(self, why: str) -> None:
        super().__init__(self._refuse, doc=f"Not available: {why.removeprefix('{reason}: ')}.")
        self.why = why

    def _refuse(self, results: Any) -> NoReturn:
        raise AttributeError(self.why.format(reason=results.model.distribution.reason))


class OfFamily:
    """An attribute that only results of some families have: ``dir`` does not name it for the others.

    Parameters
    ----------
    attribute : function or descriptor
    """

    def __init__(self, attribute: Any) -> None:
        self.attribute, self.__doc__ = attribute, attribute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        """Hand the name on."""
        self.name = name
        if hasattr(self.attribute, "__set_name__"):
            self.attribute.__set_name__(owner, name)

    def of(self, results: Any) -> bool:
        """Whether some results have it."""
        return self.name in results.model.distribution.own

    def __get__(self, results: Any, owner: type | None = None) -> Any:
        """The attribute, or an AttributeError that says which families have it."""
        if results is None:
            return self.attribute.__get__(None, owner)
        if not self.of(results):
            raise AttributeError(f"{self.name} is an attribute of fits with family={either(those_with(self.name))}")
        return self.attribute.__get__(results, owner)

    def __set__(self, results: Any, value: Any) -> None:
        """Keep a value."""
        vars(results)[self.name] = value


def of_family(attribute: T) -> T:
    """Let only results of those families have an attribute that name it as their own."""
    return OfFamily(attribute)  # type: ignore[return-value]


class Arrays:
    """Results whose labelled attributes are arrays; all others are as they are.

    Parameters
    ----------
    results : LinearResults
    """

    def __init__(self, results: Any) -> None:
        self._labelled = results

    def conf_int(self, alpha: float = 0.05) -> FloatArray:
        """Credible intervals of the coefficients, (k, 2) or (k, q, 2)."""
        found: FloatArray = self._labelled.intervals(alpha)
        return found[:, 0] if self._labelled.model.one_target else found

    def __getattr__(self, name: str) -> Any:
        """The array of a labelled attribute, or the attribute."""
        found = getattr(type(self._labelled), name, None)
        return found.array(self._labelled) if isinstance(found, Labelled) else getattr(self._labelled, name)
