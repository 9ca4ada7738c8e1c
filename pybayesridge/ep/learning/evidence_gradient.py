"""Derivatives of EP's log evidence in the hyperparameters."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pybayesridge._types import FloatArray
from pybayesridge.ep.model.groups import one_of_each
from pybayesridge.ep.model.likelihood import GaussianLikelihood
from pybayesridge.ep.model.result import EPResult


@dataclass(frozen=True, slots=True)
class EvidenceGradient:
    """Derivatives of the log evidence.

    Attributes
    ----------
    log_noise_var, log_slab_var : float
        With respect to the logarithms of the variances.
    logit_inclusion : ndarray (d,) or (G,)
        With respect to the prior log odds of each column, or of each group (in the order of their numbers); their
        sum where one probability is shared.
    """

    log_noise_var: float
    log_slab_var: float
    logit_inclusion: FloatArray


def evidence_gradient(
    likelihood: GaussianLikelihood, prior_inclusion: FloatArray, slab_var: float, result: EPResult
) -> EvidenceGradient:
    """Gradient of the log evidence at a fixed point of EP.

    The evidence is stationary in the sites there, so that the partial derivatives with the sites held are the
    total ones. Where constraints are active (``result.evidence_biased``) or EP has not converged they are
    wrong.

    Parameters
    ----------
    likelihood : GaussianLikelihood
        That of the fit.
    prior_inclusion : ndarray (d,)
        Prior probabilities.
    slab_var : float
        Variance.
    result : EPResult
        The fit at these hyperparameters.

    Returns
    -------
    EvidenceGradient
        The derivatives.
    """
    used = np.isfinite(result.site2)
    # tr(X'X A^-1) / s2 = sum(1 - t2 z), from A A^-1 = I.
    fitted = float(np.sum(1.0 - result.site2[used] * result.var[used]))
    noise = likelihood.slope(result.mean, fitted)
    second = result.cond_mean**2 + result.cond_var
    slab = 0.5 * np.sum(result.inclusion_prob[used] * (second[used] / slab_var - 1.0))
    odds = one_of_each(result.inclusion_prob - prior_inclusion, result.groups)
    return EvidenceGradient(noise, float(slab), odds)
