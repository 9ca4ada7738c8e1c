"""Results with labels: an object that passes on every attribute of others, with the names of what it has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

if TYPE_CHECKING:
    from pybayesridge.results.base import LinearResults

ResultsT = TypeVar("ResultsT", bound="LinearResults")


class Labelled(Generic[ResultsT]):
    """Results whose arrays are Series and DataFrames, with the parts that statsmodels' wrappers have.

    Those are ``_results`` and ``_wrap_attrs``, which other packages look at. statsmodels' own class is not the base,
    because to import it takes longer than all else that a fit requires.

    Parameters
    ----------
    results : LinearResults
    """

    _wrap_attrs: ClassVar[dict[str, str]] = {}
    _results: ResultsT

    def __init__(self, results: ResultsT) -> None:
        self._results = results
        self.__doc__ = results.__doc__

    def __repr__(self) -> str:
        """That of the results, as ``_repr_html_`` is."""
        return repr(self._results)

    def __dir__(self) -> list[str]:
        """Names of the results' attributes."""
        return dir(self._results)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """An attribute of the results, labelled if it is an array."""
            if name == "_results":  # an object that is read from a file asks before it has any
                raise AttributeError(name)
            value = getattr(self._results, name)
            how = self._wrap_attrs.get(name)
            return value if how is None else self._results.model.data.wrap_output(value, how)
