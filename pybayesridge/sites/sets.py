"""Selection for responses that are not Gaussian, by expectation propagation: what a fit takes, and the registry."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.design.design import Design
from pybayesridge.ep.learning.average import UNSETTLED
from pybayesridge.ep.methods import SelectionMethod, SelectionOptions, unsettled
from pybayesridge.ep.model.hyperparameters import KnownHyperparameters
from pybayesridge.ep.model.least_squares import Data
from pybayesridge.ep.model.rotation import Rotation
from pybayesridge.ep.selection import Selection
from pybayesridge.registry import look_up
from pybayesridge.selection.methods import AUTO
from pybayesridge.selection.methods import METHODS as GAUSSIAN
from pybayesridge.sites.likelihood import Likelihood
from pybayesridge.sites.selection_posterior import SitesSelectionPosterior
from pybayesridge.sites.spike_slab_learning import LearningProblem, select_by_sites, select_over_shapes

INSTEAD = "use BayesRidge"
"""What to do where expectation propagation does not settle."""


@dataclass(frozen=True, slots=True)
class SetsTask:
    """Input of a fit.

    Attributes
    ----------
    design : Design
    data : Data
        Of the Gaussian family; rotated within groups.
    rotation : Rotation
    x, c : (n, p), (n, k) arrays
        Penalised columns on the scale of the prior, and coordinates of the unpenalised ones.
    likelihood : Likelihood
    known : KnownHyperparameters
        On the scale of the link.
    groups : (p,) int array or None
        Which columns are in or out together.
    """

    design: Design
    data: Data
    rotation: Rotation
    x: FloatArray
    c: FloatArray
    likelihood: Likelihood
    known: KnownHyperparameters
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


def fit_by_ep(task: SetsTask, options: SelectionOptions) -> SitesSelectionPosterior:
    """Expectation propagation, averaged over the hyperparameters that are not given."""
    x, likelihood = task.rotation.rows(task.x), task.likelihood
    problem, shape = LearningProblem(x, task.c, likelihood, task.groups), None
    given: dict[str, Any] = {
        "tol": options.tol,
        "maxiter": options.maxiter,
        "expected_size": options.expected_size,
        "rotation": task.rotation,
    }
    if likelihood.unknown_shape is None:
        selection = select_by_sites(problem, task.known, **given)
    else:
        selection, shape = select_over_shapes(problem, task.known, **given)
        likelihood = likelihood.of_shape(shape.mean)
    posterior = SitesSelectionPosterior(
        task.design, task.data, selection, x=x, c=task.c, row_likelihood=likelihood.without_rows(), shape=shape
    )
    best = int(selection.weights.argmax())
    return replace(posterior, data=posterior.working(best).likelihood.data)


def unfinished(selection: Selection, tol: float) -> str:
    """Why expectation propagation, or the integral over hyperparameters, is not finished, and what to do."""
    if selection.residual <= tol and selection.unsettled <= UNSETTLED:
        return (
            "NOT CONVERGED (expectation propagation jumps between fixed points as the dispersion varies, so that the "
            "integral over it is inaccurate): give dispersion, or use BayesRidge."
        )
    return unsettled(selection, tol, instead=INSTEAD, exact=INSTEAD)


METHODS: dict[str, SelectionMethod] = {
    "ep": replace(
        GAUSSIAN["ep"],
        fit=fit_by_ep,
        options=("tol", "expected_size"),
        hypers=("average",),
        help="expectation propagation with sites for rows and columns, hyperparameters integrated out",
        takes_start=False,
        unconverged=unfinished,
    )
}
"""The methods of ``SpikeSlab.fit`` for families that have no sampler, by name; the first is the default."""

NOT_HERE = {
    name: f"method={name!r} is not available for counts: use method='ep'" for name in GAUSSIAN if name not in METHODS
}
"""Methods of other families that have no counterpart, and what to use."""


def method_for(name: str, n: int, p: int) -> SelectionMethod:
    """The method with a name; expectation propagation for the default, whatever the numbers of rows and columns."""
    return METHODS["ep"] if name == AUTO.name else look_up(METHODS, name)
