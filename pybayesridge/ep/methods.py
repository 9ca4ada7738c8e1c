"""The registry of methods of variable selection: all that the package knows about each of them.

Nothing else compares the names of methods: a new one is a module with its fit function and an entry here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from pybayesridge._types import IntArray
from pybayesridge.ep.algorithms.solve import Method
from pybayesridge.ep.model.hyperparameters import Given, Hyperparameters
from pybayesridge.ep.model.least_squares import Data
from pybayesridge.ep.model.result import Sites
from pybayesridge.ep.model.rotation import Rotation
from pybayesridge.ep.selection import Selection, average_over, select, select_nothing


@dataclass(frozen=True, slots=True)
class FitOptions:
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
    """

    tol: float = 1e-4
    maxiter: int = 1000
    damping: float = 0.5
    average: bool = False


@dataclass(frozen=True, slots=True)
class Task:
    """What is to be fitted, in the units of the design.

    Attributes
    ----------
    data : Data
        Rotated within groups.
    given : Given
    groups : (p,) int array or None
        Which columns are in or out together.
    rotation : Rotation
        How the data were rotated.
    vanishes : bool
        Whether the unpenalised columns fit the response exactly.
    start : (Hyperparameters, Sites) or None
        Where to start.
    """

    data: Data
    given: Given
    groups: IntArray | None
    rotation: Rotation
    vanishes: bool = False
    start: tuple[Hyperparameters, Sites] | None = None


def fit_by_ep(task: Task, options: FitOptions, *, algorithm: Method) -> Selection:
    """Expectation propagation by one of its algorithms, hyperparameters learned or averaged."""
    data, given, groups, rotation = task.data, task.given, task.groups, task.rotation
    if task.vanishes and given.noise_var is None:
        return select_nothing(data, given, algorithm, groups, rotation)
    if options.average and given.complete is None:
        return average_over(data, given, groups, rotation)
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
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionMethod:
    """One way to select variables.

    Attributes
    ----------
    name : str
        As ``fit`` takes it.
    fit : callable
        A task and options in, a `Selection` out.
    options : tuple of str
        Options of ``fit`` that only some methods take, and this one does.
    required : tuple of str
        Those of them that have to be given.
    help : str
        A clause for the command line's help.
    intervals : str
        What means and intervals are conditional on, for the summary.
    treatment : str
        How the posterior is found, for the report.
    learning : str
        How hyperparameters that are not given are treated, for the report; ``{names}`` stands for theirs.
    approximation : str
        Name of the approximation whose convergence the report states.
    needs_rows : str
        Why it cannot do with moments; empty where it can.
    """

    name: str
    fit: Callable[[Task, FitOptions], Selection]
    options: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    help: str
    intervals: str = "Conditional on the hyperparameters; mean, sd and interval are marginal over inclusion."
    treatment: str = "The posterior was approximated by expectation propagation."
    learning: str = (
        "Hyperparameters that were not given ({names}) were estimated by maximising the evidence; all other results "
        "are conditional on them."
    )
    approximation: str = "Expectation propagation"
    needs_rows: str = ""


METHODS: dict[str, SelectionMethod] = {
    method.name: method
    for method in (
        SelectionMethod(
            name="auto",
            fit=partial(fit_by_ep, algorithm="auto"),
            options=("hyper",),
            help="EP, followed by a descent on its energy if it does not converge",
        ),
        SelectionMethod(
            name="ep", fit=partial(fit_by_ep, algorithm="ep"), options=("damping",), help="damped parallel EP"
        ),
        SelectionMethod(
            name="pcep", fit=partial(fit_by_ep, algorithm="pcep"), help="the provably convergent double loop"
        ),
    )
}
"""The methods of ``SpikeSlab.fit``, by name; the first is the default."""

DEFAULT = next(iter(METHODS))
