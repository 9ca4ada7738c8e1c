"""Results as a model of the Python package marginaleffects: the only file that knows that package.

Its intervals and p values are those of a normal distribution with the covariance that a model hands over. This one
hands over none, so that there are estimates alone.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pybayesridge._types import FloatArray, RowsLike
from pybayesridge.results.variables import Variables

if TYPE_CHECKING:
    from pybayesridge.results.estimates import LinearEstimates

NEEDED = "to_marginaleffects() needs marginaleffects: pip install 'pybayesridge[marginaleffects]'"

WANTS_ARRAY = (
    "the posterior is not that of least squares, and marginaleffects would make normal intervals and p values of a "
    "covariance: use vcov=False, or pass vcov=np.asarray(results.cov_params()) if that is what you want"
)


def to_marginaleffects(self: LinearEstimates, data: RowsLike | None = None) -> Any:
    """The fit as a model for ``marginaleffects.predictions``, ``comparisons``, ``slopes`` and their averages.

    The estimates are posterior means, as those of :meth:`effects` and :meth:`predictions`. There are no standard
    errors, intervals and p values: marginaleffects makes them of a covariance matrix, as if posteriors were normal.
    :meth:`effects`, :meth:`predictions` and :meth:`contrast` give intervals of the posterior itself. Who wants normal
    ones nevertheless passes ``vcov=np.asarray(results.cov_params())``.

    Parameters
    ----------
    data : DataFrame, optional
        Rows over which averages are taken. By default the rows of the fit.

    Returns
    -------
    marginaleffects.classes.ModelAbstract

    Raises
    ------
    ImportError
        Without marginaleffects: ``pip install 'pybayesridge[marginaleffects]'``.
    ValueError
        For several responses, and where neither the data of the fit nor `data` are in memory.
    """
    try:
        classes: Any = importlib.import_module("marginaleffects.classes")
        polars = importlib.import_module("polars")
    except ImportError as error:
        raise ImportError(NEEDED) from error
    if not self.model.one_target:
        raise ValueError("marginaleffects takes models of one response: fit the responses one by one")
    found = Variables.of(self.model, data)
    frame, levels = _as_columns(found)
    results, rows = self, _Rows(self, found, levels)

    abstract: Any = classes.ModelAbstract

    class PybayesridgeModel(abstract):
        """A fit as marginaleffects wants it."""

        def __init__(self) -> None:
            response = str(np.atleast_1d(results.model.endog_names)[0])
            columns = {name: _series(polars, name, frame[name], levels.get(name)) for name in found.names}
            vault = classes.ModelVault(
                coef=np.asarray(results.params, dtype=np.float64),
                coefnames=np.array(results.model.exog_names, dtype=object),
                modeldata=polars.DataFrame(columns),
                formula=rows.design,
                variable_names=[response, *found.names],
                package="pybayesridge",
            )
            super().__init__(results, vault)

        def get_vcov(self, vcov: Any = True) -> None:
            """None; a request for a certain estimator of the covariance is refused."""
            if not isinstance(vcov, bool):
                raise ValueError(WANTS_ARRAY)

        def get_exog(self, newdata: Any) -> FloatArray:
            """Rows of the design over all coefficients."""
            return rows.design({name: newdata[name].to_list() for name in found.names})

        def get_predict(self, params: FloatArray, newdata: FloatArray) -> Any:
            """Predictions at rows of the design."""
            estimate = rows.predicted(np.asarray(params, dtype=np.float64), np.asarray(newdata, dtype=np.float64))
            index = polars.Series("rowid", range(estimate.size), dtype=polars.Int32)
            return polars.DataFrame([index, polars.Series("estimate", estimate)])

    return PybayesridgeModel()


class _Rows:
    """Rows of the design and what is predicted there."""

    def __init__(self, res: LinearEstimates, found: Variables, levels: dict[str, dict[str, Any]]) -> None:
        self.res, self.found, self.levels = res, found, levels
        self.mean = np.asarray(res.params, dtype=np.float64)

    def design(self, columns: dict[str, list[Any]]) -> FloatArray:
        """Rows of the design for values of the variables."""
        known = {
            name: [self.levels[name][str(v)] for v in values] if name in self.levels else values
            for name, values in columns.items()
        }
        frame = pd.DataFrame({name: self.found.column(name, values) for name, values in known.items()})
        constant = self.found.model.data.const_idx
        if self.found.is_linear and constant is not None:
            name = self.found.model.data.exog_columns[constant]
            frame[name] = self.found.numbers(name)[0]
        return self.found.design(frame)

    def predicted(self, params: FloatArray, rows: FloatArray) -> FloatArray:
        """Posterior means at the posterior mean of the coefficients; their change with these is that of one fit."""
        posterior: Any = self.res.posterior
        if self.res.model.distribution.is_linear:
            return rows @ params
        of_z, penalized = self.res.model.positions(posterior.design)
        means = posterior.response_means(rows[:, penalized], rows[:, of_z])
        at = self.res.model.distribution.mean
        out: FloatArray = means + at(rows @ params) - at(rows @ self.mean)
        return out


def _as_columns(found: Variables) -> tuple[pd.DataFrame, dict[str, dict[str, Any]]]:
    """The variables, and for each factor its levels by their text."""
    frame = found.rows("to_marginaleffects()")[found.names]
    levels = {name: found.levels(name) for name in found.names}
    return frame, {name: {str(level): level for level in here} for name, here in levels.items() if here is not None}


def _series(polars: Any, name: str, values: pd.Series, levels: dict[str, Any] | None) -> Any:
    """A column of polars: an enumeration of its levels for a factor."""
    if levels is not None:
        return polars.Series(name, [str(value) for value in values], dtype=polars.Enum(list(levels)))
    return polars.Series(name, values.to_numpy(dtype=np.float64))
