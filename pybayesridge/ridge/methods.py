"""The registry of methods: all that the package knows about each way to find or integrate out the penalty.

A method is a fit function and the answers to what the models, summaries, reports, pictures and the command line ask.
Nothing else compares the names of methods: a new one is a module with its fit function and an entry here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from pybayesridge.design.design import Design
from pybayesridge.registry import PenaltyMethod
from pybayesridge.ridge.fit import FitOptions, RidgeFit
from pybayesridge.ridge.given import GENERALISED, LEAVE_ONE_OUT, fit_fixed, fit_grid
from pybayesridge.ridge.integrated import DOUBLINGS, fit_integrated
from pybayesridge.ridge.likelihood import GaussianNoise
from pybayesridge.ridge.mode import fit_mode
from pybayesridge.ridge.prior import BetaPrime
from pybayesridge.ridge.spectrum import Spectrum


def _too_few_iterations(tol: float, maxiter: int) -> str:
    return f"NOT CONVERGED within maxiter={maxiter} iterations: do not report these numbers; raise maxiter."


def _too_few_nodes(tol: float, maxiter: int) -> str:
    if maxiter < DOUBLINGS:
        return _too_few_iterations(tol, maxiter)
    return (
        f"NOT CONVERGED: the quadrature has not reached tol={tol:g} with {DOUBLINGS} doublings of its nodes, the "
        "maximum. Do not report these numbers; raise tol, or use method='em'."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RidgeMethod(PenaltyMethod):
    """One way to find the penalty or to integrate it out.

    Attributes
    ----------
    fit : callable
        Design, rotation, prior, noise and options in, a `RidgeFit` out.
    intervals, intervals_known_noise : str
        What intervals are conditional on, for the summary; the second where the noise variance is known.
    in_use : str
        What the penalty reported is, for pictures; ``{of}`` stands for tau2 or tau.
    score : str
        The cross-validation score drawn with the posterior of the penalty.
    iterates : bool
        Whether the number of iterations means something to a reader.
    unconverged : callable
        Of ``tol`` and ``maxiter``: what is said of a fit that has not converged.
    """

    fit: Callable[[Design, Spectrum, BetaPrime, GaussianNoise, FitOptions], RidgeFit]
    intervals: str = "Intervals are conditional on lambda; sigma is integrated out."
    intervals_known_noise: str = "Intervals are conditional on lambda; sigma is known."
    caption: str = " (conditional on the penalty)"
    in_use: str
    score: str = "leave-one-out MSE"
    iterates: bool = False
    unconverged: Callable[[float, int], str] = _too_few_iterations


METHODS: dict[str, RidgeMethod] = {
    method.name: method
    for method in (
        RidgeMethod(
            name="exact",
            fit=fit_integrated,
            help="the penalty is integrated out",
            intervals="Intervals are of the exact marginal posterior: lambda and sigma are integrated out.",
            intervals_known_noise=(
                "Intervals are of the exact marginal posterior: lambda is integrated out, sigma is known."
            ),
            treatment="Lambda is integrated out: every number is averaged over the posterior of the penalty. "
            "Intervals account for uncertainty in the penalty.",
            caption="",
            in_use="exp of the mean of log lambda",
            uses_prior=True,
            integrates=True,
            unconverged=_too_few_nodes,
        ),
        RidgeMethod(
            name="em",
            fit=fit_mode,
            options=("parameterization", "accelerate"),
            help="the penalty at its posterior mode",
            intervals="Intervals are conditional on lambda and sigma at the posterior mode.",
            treatment="Lambda is set to the mode of its posterior, found by expectation maximisation. Intervals are "
            "conditional on this penalty and on the noise variance at the mode.",
            caption=" (at the mode)",
            in_use="mode as a density of {of}",
            uses_prior=True,
            iterates=True,
        ),
        RidgeMethod(
            name="loocv",
            fit=partial(fit_grid, criterion=LEAVE_ONE_OUT),
            options=("grid",),
            help="by leave-one-out cross-validation",
            treatment="Lambda minimises the leave-one-out error over a grid. Intervals are conditional on it.",
            in_use="smallest leave-one-out error",
            grid=True,
            needs_rows="leaves out one row at a time and moments hold none: use 'exact' or 'gcv'",
        ),
        RidgeMethod(
            name="gcv",
            fit=partial(fit_grid, criterion=GENERALISED),
            options=("grid",),
            help="by generalised cross-validation",
            treatment="Lambda minimises the generalised cross-validation score over a grid. Intervals are "
            "conditional on it.",
            in_use="smallest GCV score",
            score="GCV score",
            grid=True,
        ),
        RidgeMethod(
            name="fixed",
            fit=fit_fixed,
            options=("lam",),
            required=("lam",),
            help="given by --lam",
            treatment="Lambda was given by the user. Intervals are conditional on it.",
            in_use="given",
            given=True,
        ),
    )
}
"""The methods of ``BayesRidge.fit``, by name; the first is the default."""

DEFAULT = next(iter(METHODS))
