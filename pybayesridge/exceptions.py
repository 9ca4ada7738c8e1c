"""The warnings of the package."""

from __future__ import annotations


class PybayesridgeWarning(UserWarning):
    """Base class of all warnings of this package."""


class ConvergenceWarning(PybayesridgeWarning):
    """An iteration reached ``maxiter`` before it converged."""


class DegenerateFitWarning(PybayesridgeWarning):
    """The posterior has no interior mode, or the data are fitted exactly; the result is the limit of fits."""


class ApproximationWarning(PybayesridgeWarning):
    """Expectation propagation contradicts the exact posterior."""


class GridEdgeWarning(PybayesridgeWarning):
    """The best penalty of a grid is at its edge."""


class PrecisionWarning(PybayesridgeWarning):
    """Fewer than eight digits are accurate. A fit from rows may be more accurate than one from moments."""


class InconsistentSummaryWarning(PybayesridgeWarning):
    """A summary statistic contradicts the others."""


class DataWarning(PybayesridgeWarning):
    """The data are probably wrong: a factor with a level for nearly every row, the logarithm of a negative number."""


class ExtrapolationWarning(PybayesridgeWarning):
    """Values for which a prediction or an effect was asked lie outside the range of the data."""
