"""The error of expectation propagation at its hyperparameters, by enumeration or a short run of the sampler."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pybayesridge._types import FloatArray
from pybayesridge.ep.methods import Task
from pybayesridge.ep.selection import Selection
from pybayesridge.selection.estimates import Estimate
from pybayesridge.selection.fit import fit_exact
from pybayesridge.selection.grid import Given
from pybayesridge.selection.methods import problem_of_data

MCSE = 0.02
"""Monte Carlo standard error at which the run stops."""

STEPS = 4_000_000
"""Most steps of all chains."""


@dataclass(frozen=True, slots=True)
class Check:
    """Inclusion probabilities at the same hyperparameters, each (p,).

    Attributes
    ----------
    by_ep, exact, se : (p,) arrays
        Those of expectation propagation, the exact ones, and the Monte Carlo standard errors of these.
    """

    by_ep: FloatArray
    exact: FloatArray
    se: FloatArray

    @property
    def difference(self) -> FloatArray:
        """EP's less the exact ones."""
        return self.by_ep - self.exact


def check_selection(
    task: Task, selection: Selection, progress: Callable[[int, Estimate | None], None] | None = None
) -> Check | None:
    """Compare EP with the exact posterior at the hyperparameters of the largest weight; None where nothing is open.

    One chain starts from EP's median probability model. `progress`: as for :func:`fit_exact`.
    """
    hyper, by_ep = selection.best_hyper, np.clip(selection.best.inclusion_prob, 0.0, 1.0)
    if task.data.n_columns == 0 or selection.noiseless:
        return None
    problem = problem_of_data(task.rotation.unrotated(task.data), task.n, task.groups)
    exact = fit_exact(
        problem,
        Given(hyper.prior_inclusion, hyper.slab_var, hyper.noise_var),
        mcse=MCSE,
        maxiter=STEPS,
        rng=0,
        progress=progress,
        starts=[np.unique(problem.units.of_column[by_ep > 0.5])],
    )
    return Check(by_ep, exact.inclusion_prob, exact.inclusion_se)
