"""The warnings of the package, one class for each kind of thing a reader must be told."""

from __future__ import annotations

from statsmodels.tools.sm_exceptions import ConvergenceWarning as _StatsmodelsConvergenceWarning


class PybayesridgeWarning(UserWarning):
    """Base class of every warning this package raises itself."""


class ConvergenceWarning(PybayesridgeWarning, _StatsmodelsConvergenceWarning):
    """An iteration stopped at ``maxiter`` before its stopping rule was met."""


class DegenerateFitWarning(PybayesridgeWarning):
    """The posterior has no interior mode, or the data are fitted exactly; the result is a defined limit."""


class GridEdgeWarning(PybayesridgeWarning):
    """The best penalty of a grid lies on the edge of the grid."""


class PrecisionWarning(PybayesridgeWarning):
    """Rounding errors leave fewer than eight digits. Moments square the condition number: rows might keep more."""


class InconsistentSummaryWarning(PybayesridgeWarning):
    """A summary statistic contradicts the others."""


class DataWarning(PybayesridgeWarning):
    """The data are probably not what was meant: a factor with a level for nearly every row, a logarithm of -1."""
