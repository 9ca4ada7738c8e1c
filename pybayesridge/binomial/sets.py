"""The registry of methods of variable selection for yes/no responses: sampling beside expectation propagation."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
from scipy.special import expit

from pybayesridge._types import FloatArray
from pybayesridge.binomial.augmentation import BinomialRows
from pybayesridge.binomial.likelihood import Binomial
from pybayesridge.binomial.selection import BinarySelection, fit_binary_selection
from pybayesridge.binomial.selection_posterior import BinarySelectionPosterior
from pybayesridge.data.units import units_of
from pybayesridge.ep.learning.maximize import NAMES
from pybayesridge.ep.methods import SelectionMethod, SelectionOptions, unsettled
from pybayesridge.ep.model.hyperparameters import Hyperparameters
from pybayesridge.registry import look_up
from pybayesridge.selection.grid import Given
from pybayesridge.selection.methods import AUTO, ExactSelection, imprecise
from pybayesridge.selection.methods import METHODS as GAUSSIAN
from pybayesridge.sites.sets import METHODS as EP
from pybayesridge.sites.sets import SetsTask


def fit_by_sampling(task: SetsTask, options: SelectionOptions) -> BinarySelectionPosterior:
    """The posterior of the sets by Monte Carlo."""
    known, likelihood = task.known, task.likelihood
    assert isinstance(likelihood, Binomial)
    found = fit_binary_selection(
        BinomialRows.of(task.x, task.c, likelihood, units_of(task.design.p, task.groups)),
        Given(known.prior_inclusion, known.slab_var, None, options.expected_size),
        mcse=options.mcse,
        n_chains=options.chains,
        maxiter=options.maxiter,
        rng=options.rng,
        progress=options.progress,
    )
    learned = tuple(name for name in NAMES if name != "noise_var" and getattr(known, name) is None)
    hyper = _means(found, known.prior_inclusion)
    selection = ExactSelection(found.exact, learned, hyper, task.groups, float(task.design.n), task.rotation)
    return BinarySelectionPosterior(task.design, task.data, selection, joint=found.joint, link=likelihood.link)


METHODS: dict[str, SelectionMethod] = {
    "exact": replace(
        GAUSSIAN["exact"],
        fit=fit_by_sampling,
        unconverged=partial(imprecise, instead="use BayesRidge"),
        gives_evidence=False,
    ),
    "ep": replace(EP["ep"], unconverged=partial(unsettled, instead="use method='exact'")),
}
"""The methods of ``SpikeSlab.fit`` with ``family="binomial"``, by name; the first is the default."""

NOT_HERE = {
    name: f"method={name!r} requires family='gaussian': use method='exact' or 'ep'"
    for name in GAUSSIAN
    if name not in METHODS
}
"""Methods of the Gaussian family that have no counterpart, and what to use."""


def method_for_binary(name: str, n: int, p: int) -> SelectionMethod:
    """The method with a name; the one that samples for the default, whatever the numbers of rows and columns."""
    return METHODS["exact"] if name == AUTO.name else look_up(METHODS, name)


def _means(found: BinarySelection, prior_inclusion: FloatArray | None) -> Hyperparameters:
    """Posterior means of the hyperparameters; the noise variance is 1, given the auxiliary variables."""
    states = found.exact.states
    p = prior_inclusion
    if p is None:
        p = np.full(found.exact.inclusion_prob.size, float(states.weight @ expit(states.t)))
    return Hyperparameters(p, float(states.weight @ states.mean_slab()), 1.0)
