"""Rows of responses that are not Gaussian predicted from the others, by the sites of the fit.

Of a row that stands for several copies one copy is left out.
"""

from __future__ import annotations

import numpy as np

from pybayesridge._types import FloatArray
from pybayesridge.predictive.left_out import UNDETERMINED, LeftOut, NoDensityError
from pybayesridge.sites.approximation import Approximation
from pybayesridge.sites.leave_one_out import leave_one_out, log_density_within
from pybayesridge.sites.likelihood import Likelihood


def sites_left_out(likelihood: Likelihood, nodes: tuple[Approximation, ...], weight: FloatArray) -> LeftOut:
    """Predictions by the cavities of expectation propagation, or Laplace's, at nodes of the hyperparameters."""
    found = leave_one_out(likelihood, nodes, weight)
    lost = np.flatnonzero(~np.isfinite(found.log_score))
    if lost.size:
        raise NoDensityError(int(lost[0]), UNDETERMINED)
    within, count = log_density_within(likelihood, nodes, weight), likelihood.log_constants()
    return LeftOut(found.log_score + count, within + count, None, None, np.ones_like(count))
