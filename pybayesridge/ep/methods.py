"""The entries of expectation propagation in the registry of methods of variable selection.

The registry itself is in selection/methods.py. Nothing else compares the names of methods: a new one is a module with
its fit function and an entry.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from pybayesridge._types import IntArray
from pybayesridge.ep.algorithms.solve import Method
from pybayesridge.ep.model.hyperparameters import Hyperparameters, KnownHyperparameters
from pybayesridge.ep.model.least_squares import Data
from pybayesridge.ep.model.result import ColumnSites
from pybayesridge.ep.model.rotation import Rotation
from pybayesridge.ep.selection import Selection, average_over, select, select_nothing
from pybayesridge.registry import MethodEntry
from pybayesridge.text import number


@dataclass(frozen=True, slots=True)
class SelectionOptions:
    """The options of ``SpikeSlab.fit``; each method takes some of them.

    Attributes
    ----------
    tol : float
        Tolerance of the scale-free residual.
    maxiter : int
        Most iterations.
    damping : float
        The share of the new sites in an update.
    average : bool
        Average over the hyperparameters that are not given, where learning would maximise.
    mcse : float
        The largest Monte Carlo standard error of an inclusion probability.
    chains : int
        How many chains.
    rng : int or numpy.random.Generator
    expected_size : float
        Columns or groups expected a priori to be in.
    progress : callable or None
        Called now and then with the number of steps and the last estimate, None before the first one.
    """

    tol: float = 1e-4
    maxiter: int = 1000
    damping: float = 0.5
    average: bool = False
    mcse: float = 0.01
    chains: int = 4
    rng: np.random.Generator | int = 0
    expected_size: float = 1.0
    progress: Callable[[int, Any], None] | None = None


@dataclass(frozen=True, slots=True)
class Task:
    """Input of a fit, in the units of the design.

    Attributes
    ----------
    data : Data
        Rotated within groups.
    n : float
        Rows.
    given : KnownHyperparameters
    groups : (p,) int array or None
        Which columns are in or out together.
    rotation : Rotation
        How the data were rotated.
    vanishes : bool
        Whether the unpenalised columns fit the response exactly.
    start : (Hyperparameters, ColumnSites) or None
        Where to start.
    """

    data: Data
    n: float
    given: KnownHyperparameters
    groups: IntArray | None
    rotation: Rotation
    vanishes: bool = False
    start: tuple[Hyperparameters, ColumnSites] | None = None


def fit_by_ep(task: Task, options: SelectionOptions, *, algorithm: Method) -> Selection:
    """Expectation propagation by one of its algorithms, hyperparameters learned or averaged."""
    data, given, groups, rotation = task.data, task.given, task.groups, task.rotation
    if task.vanishes and given.noise_var is None:
        return select_nothing(data, given, algorithm, groups, rotation, options.expected_size)
    if options.average and given.complete is None:
        return average_over(
            data,
            given,
            tol=options.tol,
            maxiter=options.maxiter,
            start=task.start,
            groups=groups,
            rotation=rotation,
            n=task.n,
            expected_size=options.expected_size,
        )
    return select(
        data,
        given,
        method=algorithm,
        tol=options.tol,
        maxiter=options.maxiter,
        damping=options.damping,
        start=task.start,
        groups=groups,
        rotation=rotation,
        n=task.n,
        expected_size=options.expected_size,
    )


def unsettled(
    selection: Selection, tol: float, *, instead: str = "use method='ep'", exact: str = "use method='exact'"
) -> str:
    """Why expectation propagation, or the learning of hyperparameters, is not finished; what to do `instead`.

    What to do where it does not settle at some hyperparameters is `exact`.
    """
    if selection.unsettled > 0 and selection.residual <= tol:
        return (
            "NOT CONVERGED (expectation propagation does not converge at hyperparameters that have about "
            f"{100 * selection.unsettled:.0f}% of the posterior probability, which are left out): "
            f"{exact}, or specify hyperparameters."
        )
    if selection.residual > tol:
        return (
            f"NOT CONVERGED (residual {number(selection.residual, 2)} for tol={tol:g}): do not report these numbers; "
            f"raise maxiter, or {instead}."
        )
    return "NOT CONVERGED (hyperparameters not at a maximum of the evidence): do not report these numbers."


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionMethod(MethodEntry):
    """One way to select variables.

    Attributes
    ----------
    fit : callable
        A task and options in; a `Selection`, or what answers the same questions, out. For yes/no responses another
        task in, and a posterior out.
    hypers : tuple of str
        Values of the option ``hyper`` that it takes, the default first.
    intervals, intervals_integrated : str
        What means and intervals are conditional on, for the summary: with hyperparameters at their estimates, and
        where those that are not given are integrated out.
    learning, learning_integrated : str
        How hyperparameters that are not given are treated, for the report; ``{names}`` stands for theirs.
    approximation : str
        Name of the approximation whose convergence the report states.
    measure : str
        What `residual` is, for the summary.
    maxiter : int
        Most iterations, unless the user says.
    takes_start : bool
        Whether it can start from another fit.
    unconverged : callable
        Of the fit and its tolerance: what is said of one that has not converged.
    gives_evidence : bool
        Whether it gives the marginal likelihood.
    """

    fit: Callable[[Any, SelectionOptions], Any]
    hypers: tuple[str, ...] = ()
    intervals: str = "Conditional on the hyperparameters; mean, sd and interval are marginal over inclusion."
    intervals_integrated: str = (
        "Hyperparameters that are not given are integrated out; mean, sd and interval are marginal over inclusion."
    )
    treatment: str = "The posterior was approximated by expectation propagation."
    learning: str = (
        "Hyperparameters that were not given ({names}) were estimated by maximising their approximate posterior "
        "density; all other results are conditional on them."
    )
    learning_integrated: str = (
        "Hyperparameters that were not given ({names}) are integrated out: the results are averaged over their "
        "values, weighted by the evidence and the prior of the hyperparameters."
    )
    approximation: str = "Expectation propagation"
    measure: str = "Residual"
    maxiter: int = 1000
    takes_start: bool = True
    unconverged: Callable[[Any, float], str] = unsettled
    gives_evidence: bool = True


EP_METHODS: dict[str, SelectionMethod] = {
    method.name: method
    for method in (
        SelectionMethod(
            name="ep",
            fit=partial(fit_by_ep, algorithm="ep"),
            options=("tol", "hyper", "check", "expected_size"),
            hypers=("average", "maximize"),
            help="EP, followed by a descent on its energy if it does not converge",
            unconverged=partial(unsettled, instead="use method='exact'"),
        ),
        SelectionMethod(
            name="damped",
            fit=partial(fit_by_ep, algorithm="damped"),
            options=("tol", "damping", "check", "expected_size"),
            hypers=("maximize",),
            help="damped parallel EP",
        ),
        SelectionMethod(
            name="pcep",
            fit=partial(fit_by_ep, algorithm="pcep"),
            options=("tol", "check", "expected_size"),
            hypers=("maximize",),
            help="the provably convergent double loop",
        ),
    )
}
"""By name."""
