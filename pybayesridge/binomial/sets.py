"""The registry of methods of variable selection for yes/no responses, and their fit functions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy.special import expit

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.binomial.augmentation import Rows
from pybayesridge.binomial.ep_selection_posterior import BinaryEPPosterior
from pybayesridge.binomial.likelihood import Binomial
from pybayesridge.binomial.selection import BinarySelection, fit_binary_selection
from pybayesridge.binomial.selection_posterior import BinarySelectionPosterior
from pybayesridge.design.design import Design
from pybayesridge.ep.learning.maximize import NAMES
from pybayesridge.ep.methods import FitOptions, SelectionMethod, unsettled
from pybayesridge.ep.model.hyperparameters import Given as EPGiven
from pybayesridge.ep.model.hyperparameters import Hyperparameters
from pybayesridge.ep.model.least_squares import Data
from pybayesridge.ep.model.rotation import Rotation
from pybayesridge.registry import look_up
from pybayesridge.selection.grid import Given
from pybayesridge.selection.methods import AUTO, ExactSelection, imprecise
from pybayesridge.selection.methods import METHODS as GAUSSIAN
from pybayesridge.selection.problem import units_of
from pybayesridge.sites.spike_slab_learning import Problem, select_binary


@dataclass(frozen=True, slots=True)
class BinaryTask:
    """Input of a fit.

    Attributes
    ----------
    design : Design
    data : Data
        Of the Gaussian family; rotated within groups.
    rotation : Rotation
    x, c : (n, p), (n, k) arrays
        Penalised columns on the scale of the prior, and coordinates of the unpenalised ones.
    likelihood : Binomial
    known : Given
        On the scale of the link.
    groups : (p,) int array or None
        Which columns are in or out together.
    """

    design: Design
    data: Data
    rotation: Rotation
    x: FloatArray
    c: FloatArray
    likelihood: Binomial
    known: EPGiven
    groups: IntArray | None


def rows_of_design(design: Design) -> tuple[FloatArray, FloatArray]:
    """Penalised columns on the scale of the prior, (n, p), and coordinates of the unpenalised ones, (n, k)."""
    x = np.empty((design.n, design.p))
    for part, piece in design.column_pieces():
        x[:, part] = piece
    c = design.block.q * np.sqrt(design.n)
    if design.block.sqrt_w is not None:
        x /= design.block.sqrt_w[:, None]
        c = c / design.block.sqrt_w[:, None]
    return x, c


def fit_by_sampling(task: BinaryTask, options: FitOptions) -> BinarySelectionPosterior:
    """The posterior of the sets by Monte Carlo."""
    known = task.known
    found = fit_binary_selection(
        Rows.of(task.x, task.c, task.likelihood, units_of(task.design.p, task.groups)),
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
    return BinarySelectionPosterior(task.design, task.data, selection, joint=found.joint, link=task.likelihood.link)


def fit_by_ep(task: BinaryTask, options: FitOptions) -> BinaryEPPosterior:
    """Expectation propagation, averaged over the hyperparameters that are not given."""
    x = task.rotation.rows(task.x)
    selection = select_binary(
        Problem(x, task.c, task.likelihood, task.groups),
        task.known,
        tol=options.tol,
        maxiter=options.maxiter,
        expected_size=options.expected_size,
        rotation=task.rotation,
    )
    posterior = BinaryEPPosterior(task.design, task.data, selection, x=x, c=task.c, link=task.likelihood.link)
    best = int(selection.weights.argmax())
    return replace(posterior, data=posterior.working(best).likelihood.data)


METHODS: dict[str, SelectionMethod] = {
    "exact": replace(
        GAUSSIAN["exact"],
        fit=fit_by_sampling,
        unconverged=partial(imprecise, instead="use BayesRidge"),
        gives_evidence=False,
    ),
    "ep": replace(
        GAUSSIAN["ep"],
        fit=fit_by_ep,
        options=("tol", "expected_size"),
        hypers=("average",),
        help="expectation propagation with sites for rows and columns, hyperparameters integrated out",
        takes_start=False,
        unconverged=partial(unsettled, instead="use method='exact'"),
    ),
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
