"""Results of a ridge regression of ordered categories with a penalty for each band of columns."""

from __future__ import annotations

from typing import ClassVar

from pybayesridge.findings import Finding
from pybayesridge.results import findings
from pybayesridge.results.generalized_bands import GeneralizedBandRidgeResults
from pybayesridge.results.ordinal_ridge import OrdinalRidgeResults


class OrdinalBandRidgeResults(OrdinalRidgeResults, GeneralizedBandRidgeResults):  # type: ignore[misc]
    """Posterior of a ridge regression of ordered categories with a penalty for each band of columns.

    Made by :meth:`pybayesridge.BayesRidge.fit` with ``family="ordinal"`` of a model with ``bands``, or of a formula
    with terms such as ``(1 | g)`` and ``s(x)``: a cumulative model with random effects and smooth curves. All is as
    for one penalty, but the penalty itself, in whose place there are the variances of the bands:
    :meth:`variance_components`.

    Parameters
    ----------
    model : BayesRidge
    fit : OrdinalBandFit
    method, solver, parameterization, tol, maxiter
        As given to ``fit``.
    recipe : Recipe

    Attributes
    ----------
    categories : tuple of str
        In their order.
    """

    model_name: ClassVar[str] = "BayesRidge"

    def _findings_on_reading(self) -> list[Finding]:
        out = [findings.intervals_of_generalized_bands(self), *findings.heavy_variances(self)]
        return [*out, *findings.on_reading_ordinal(self)]
