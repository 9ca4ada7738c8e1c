"""The registry of methods of ``SpikeSlab.fit``: those of expectation propagation, and the exact posterior of sets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.data.units import units_of
from pybayesridge.ep.learning.maximize import NAMES
from pybayesridge.ep.methods import EP_METHODS, SelectionMethod, SelectionOptions, Task, fit_by_ep
from pybayesridge.ep.model.hyperparameters import Hyperparameters
from pybayesridge.ep.model.least_squares import Data
from pybayesridge.ep.model.rotation import Rotation
from pybayesridge.ep.selection import Selection
from pybayesridge.registry import look_up
from pybayesridge.selection.estimates import FEWEST_DRAWS
from pybayesridge.selection.fit import MAXITER, fit_exact
from pybayesridge.selection.grid import Given
from pybayesridge.selection.problem import Problem, held
from pybayesridge.selection.result import Exact
from pybayesridge.selection.sampler import AGREEMENT, allowed_mean_error
from pybayesridge.text import number


@dataclass(frozen=True, slots=True)
class ExactSelection:
    """The exact posterior with the answers that results ask of any method.

    Attributes
    ----------
    exact : Exact
    learned : tuple of str
        Names of the hyperparameters that were not given.
    hyper : Hyperparameters
        Their posterior means.
    groups : (p,) int array or None
        Which columns are in or out together.
    n : float
        Rows.
    rotation : Rotation
        How the data were rotated within groups.
    """

    exact: Exact
    learned: tuple[str, ...]
    hyper: Hyperparameters
    groups: IntArray | None
    n: float
    rotation: Rotation

    @property
    def inclusion_prob(self) -> FloatArray:
        """Posterior inclusion probabilities, (p,)."""
        return self.exact.inclusion_prob

    @property
    def hypers(self) -> tuple[Hyperparameters, ...]:
        """The posterior means of the hyperparameters."""
        return (self.hyper,)

    @property
    def weights(self) -> FloatArray:
        """Of `hypers`."""
        return np.ones(1)

    @property
    def best_hyper(self) -> Hyperparameters:
        """The posterior means of the hyperparameters."""
        return self.hyper

    @property
    def results(self) -> tuple[()]:
        """There are no results of expectation propagation."""
        return ()

    @property
    def integrated(self) -> bool:
        """Whether hyperparameters that were not given are integrated out."""
        return bool(self.learned)

    @property
    def noiseless(self) -> bool:
        """Whether this is the limit without noise: it never is."""
        return False

    @property
    def converged(self) -> bool:
        """Whether the precision asked for was reached, and the chains agree."""
        return self.exact.converged

    @property
    def n_iter(self) -> int:
        """Sets summed over, or steps of all chains."""
        return self.exact.n_iter

    @property
    def n_fac(self) -> int:
        """Evaluations of EP's covariance."""
        return 0

    @property
    def residual(self) -> float:
        """The largest Monte Carlo standard error of an inclusion probability."""
        return self.exact.max_se

    @property
    def log_evidence(self) -> float:
        """Of the response with norm 1."""
        return self.exact.log_evidence


def problem_of_data(data: Data, n: float, groups: IntArray | None) -> Problem:
    """The cross-products that the exact posterior needs, of data that are not rotated."""
    gram, rows = held(data.root)
    return Problem(
        cross=data.cross,
        diag=data.gram_diag,
        yy=data.yy,
        nu=data.nu,
        n=n,
        units=units_of(data.n_columns, groups),
        gram=gram,
        rows=rows,
        target=data.target,
    )


def fit_by_sets(task: Task, options: SelectionOptions) -> Selection | ExactSelection:
    """The exact posterior, by a sum over all sets or by Monte Carlo."""
    given = task.given
    if task.data.n_columns == 0 or (task.vanishes and given.noise_var is None):
        return fit_by_ep(task, options, algorithm="ep")
    problem = problem_of_data(task.rotation.unrotated(task.data), task.n, task.groups)
    exact = fit_exact(
        problem,
        Given(given.prior_inclusion, given.slab_var, given.noise_var, options.expected_size),
        mcse=options.mcse,
        n_chains=options.chains,
        maxiter=options.maxiter,
        rng=options.rng,
        progress=options.progress,
    )
    learned = tuple(name for name in NAMES if getattr(given, name) is None)
    states = exact.states
    noise = float(states.weight @ states.mean_noise())
    slab = float(states.weight @ states.mean_slab())
    p = given.prior_inclusion
    if p is None:
        p = np.full(problem.d, float(states.weight @ expit(states.t)))
    hyper = Hyperparameters(np.asarray(p, dtype=np.float64), slab, noise)
    return ExactSelection(exact, learned, hyper, task.groups, task.n, task.rotation)


def imprecise(
    selection: Selection | ExactSelection, tol: float, *, instead: str = "use method='ep', or BayesRidge"
) -> str:
    """Why sampling is not finished; `instead` of it where most columns matter."""
    if not isinstance(selection, ExactSelection):
        return "NOT CONVERGED: do not report these numbers."
    exact = selection.exact
    if not exact.computation.sampled:
        return (
            "NOT CONVERGED: an inclusion probability changed by "
            f"{number(exact.quadrature_error, 2)} when the quadrature over the hyperparameters was refined."
        )
    reasons = []
    if exact.max_se > tol:
        reasons.append(
            f"the largest Monte Carlo standard error of an inclusion probability is {number(exact.max_se, 2)} "
            f"for mcse={tol:g}"
        )
    if exact.agreement > AGREEMENT:
        reasons.append(f"the chains disagree (potential scale reduction {exact.agreement:.2f})")
    elif exact.effective < FEWEST_DRAWS:
        reasons.append(f"the chains are worth {exact.effective:.0f} independent draws, fewer than {FEWEST_DRAWS}")
    if exact.mean_error > allowed_mean_error(tol):
        reasons.append(
            f"the mean of a coefficient has a Monte Carlo standard error of {number(exact.mean_error, 2)} of its "
            "standard deviation"
        )
    if exact.size_limit is not None:
        reasons.append(f"a chain reached the largest set that is considered, {exact.size_limit} columns")
    stopped = "interrupted: " if exact.interrupted else ""
    remedy = "raise maxiter, or allow a larger mcse."
    if exact.size_limit is not None:
        remedy = f"larger sets are left out; {instead} if most columns matter."
    return f"NOT CONVERGED ({stopped}{'; '.join(reasons) or 'too few steps'}): {remedy}"


METHODS: dict[str, SelectionMethod] = {
    "exact": SelectionMethod(
        name="exact",
        fit=fit_by_sets,
        options=("mcse", "chains", "rng", "expected_size"),
        help="the posterior of all sets of columns, hyperparameters integrated out",
        treatment="The posterior of the sets of columns is exact.",
        learning_integrated="Hyperparameters that were not given ({names}) are integrated out.",
        approximation="The computation of the posterior",
        measure="Largest s.e.",
        maxiter=MAXITER,
        takes_start=False,
        unconverged=imprecise,
    ),
    **EP_METHODS,
}
"""The methods of ``SpikeSlab.fit``, by name."""

EXACT_UP_TO = 100_000_000
"""Largest min(n, p) p for which the exact posterior is the default: about a minute where columns explain half of the
variance (benchmarks/results/selection_border.md)."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A name for one method or another, depending on the size of the data.

    Attributes
    ----------
    name : str
        As ``fit`` takes it.
    help : str
        A clause for the command line's help.
    method : callable
        Of the numbers of rows and columns: the name of the method.
    """

    name: str
    help: str
    method: Callable[[int, int], str]


def exact_or_ep(n: int, p: int) -> str:
    """The default method for n rows and p columns."""
    return "exact" if min(n, p) * p <= EXACT_UP_TO else "ep"


AUTO = Choice("auto", f"exact; ep if min(n, p) x p > {EXACT_UP_TO:.0e}", exact_or_ep)

CHOICES: dict[str, SelectionMethod | Choice] = {AUTO.name: AUTO, **METHODS}
"""All that ``fit`` takes as a method, by name."""

DEFAULT = AUTO.name


def method_for(name: str, n: int, p: int) -> SelectionMethod:
    """The method with a name, or the one that the name stands for with n rows and p columns."""
    entry = look_up(CHOICES, name)
    return METHODS[entry.method(n, p)] if isinstance(entry, Choice) else entry
