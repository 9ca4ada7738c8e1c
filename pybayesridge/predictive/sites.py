"""Rows with successes among trials predicted from the others.

Of a row that stands for several copies one copy is left out.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pybayesridge._types import AnyArray, FloatArray
from pybayesridge.binomial.likelihood import Binomial
from pybayesridge.binomial.selection_posterior import BinarySelectionPosterior
from pybayesridge.binomial.states import log_mean, log_mean_inverse
from pybayesridge.predictive.left_out import LeftOut, NoDensityError, joined, mixed
from pybayesridge.sites.approximation import Approximation
from pybayesridge.sites.leave_one_out import leave_one_out, log_density_within
from pybayesridge.sites.likelihood import Likelihood

ELEMENTS = 200_000
"""States times rows that are integrated at once."""


def sites_left_out(likelihood: Likelihood, nodes: tuple[Approximation, ...], weight: FloatArray) -> LeftOut:
    """Predictions by the cavities of expectation propagation, or Laplace's, at nodes of the hyperparameters."""
    found = leave_one_out(likelihood, nodes, weight)
    lost = np.flatnonzero(~np.isfinite(found.log_score))
    if lost.size:
        raise NoDensityError(int(lost[0]), "the other rows do not determine an unpenalised coefficient")
    within, count = log_density_within(likelihood, nodes, weight), likelihood.log_constants()
    return LeftOut(found.log_score + count, within + count, None, None, np.ones_like(count))


def latent_sets_left_out(
    posterior: BinarySelectionPosterior, likelihood: Binomial, x_rows: AnyArray, z_rows: FloatArray
) -> LeftOut:
    """Predictions of a selection by the kept states, given which the coefficients are normal.

    Parameters
    ----------
    posterior : BinarySelectionPosterior
    likelihood : Binomial
    x_rows, z_rows : (n, p) and (n, k) arrays
        The rows of the fit.
    """
    pieces = []
    for at, center, spread in posterior.linear_components(x_rows, z_rows):
        rows = likelihood.rows(np.arange(at.start, at.stop))
        step = max(ELEMENTS // max(center.shape[0], 1), 1)
        for begin in range(0, center.shape[1], step):
            part = slice(begin, begin + step)
            some = rows.rows(np.arange(rows.n)[part])
            weights = center[:, part], spread[:, part], some
            densities = -log_mean_inverse(*weights), log_mean(*weights)
            pieces.append(mixed(posterior.joint.weight, *densities, copies=some.copies))
    out, count = joined(pieces), likelihood.log_constants()
    return replace(out, log_density=out.log_density + count, within=out.within + count)
