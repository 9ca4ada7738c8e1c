"""The result of every method."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pybayesridge._types import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class ColumnSites:
    """Sites ``exp(site1 w - site2 w^2 / 2)``, all that an iteration needs to start from.

    Attributes
    ----------
    site1, site2 : ndarray (d,)
        ``site2`` may be negative, and is infinite where nothing is known.
    """

    site1: FloatArray
    site2: FloatArray


@dataclass(frozen=True, slots=True)
class EPResult(ColumnSites):
    """An EP approximation for d coefficients, on the scale of the data that went in.

    Columns with prior probability zero have inclusion probability, moments and cavity zero, ``site2``
    infinite.

    Attributes
    ----------
    site1, site2 : ndarray (d,)
        Sites ``exp(site1 w - site2 w^2 / 2)``; ``site2`` may be negative.
    mean, var : ndarray (d,)
        Mean and marginal variances of the Gaussian approximation.
    cavity1, cavity2 : ndarray (d,)
        Its cavities: the Gaussian without the column's own site.
    inclusion_prob : ndarray (d,)
        Posterior inclusion probabilities, from the cavities.
    cond_mean, cond_var : ndarray (d,)
        Moments of each coefficient given that it is included.
    log_evidence : float
        EP's log marginal likelihood, from the cavities; nan when there is no approximation at all. With
        active constraints minus the energy of "pcep" is another number, further from the truth.
    residual : float
        Largest change of a moment that the next iteration asks for, in posterior standard deviations
        (means) or as a fraction (variances).
    converged : bool
        Whether the residual is within the tolerance.
    n_iter : int
        Iterations: sweeps, outer iterations, descent steps.
    n_fac : int
        Covariance evaluations.
    energy_trace : ndarray (m,)
        Minus the log evidence after each ordinary sweep, the energy after every other iteration.
    monotone_from : int
        From this index on, ``energy_trace`` never rises by more than rounding.
    active : ndarray (d,) of bool
        Sites held by a constraint on their own or the cavity's precision.
    method : str
        "ep", "damped" or "pcep".
    evidence_biased : bool
        Whether any constraint is active: the evidence is then not that of a fixed point of EP, and its
        derivatives do not hold.
    groups : ndarray (d,) of int or None
        Columns with equal numbers are in or out together; None where each is on its own.
    """

    mean: FloatArray
    var: FloatArray
    cavity1: FloatArray
    cavity2: FloatArray
    inclusion_prob: FloatArray
    cond_mean: FloatArray
    cond_var: FloatArray
    log_evidence: float
    residual: float
    converged: bool
    n_iter: int
    n_fac: int
    energy_trace: FloatArray
    monotone_from: int
    active: BoolArray
    method: str
    evidence_biased: bool
    groups: IntArray | None = None

    @property
    def expected_size(self) -> float:
        """Expected number of included columns."""
        return float(np.sum(self.inclusion_prob))
