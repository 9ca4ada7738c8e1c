"""The registry of methods for responses that are not Gaussian: fit functions, options, and the words of outputs."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pybayesridge.registry import PenaltyMethod
from pybayesridge.ridge.prior import BetaPrime
from pybayesridge.sites.coordinates import Coordinates
from pybayesridge.sites.fit import (
    APPROXIMATION,
    Find,
    SitesOptions,
    Solver,
    as_given,
    at_mode,
    best_of_grid,
    fit,
    integrated,
)
from pybayesridge.sites.likelihood import Likelihood
from pybayesridge.sites.prior import FlatIn
from pybayesridge.sites.result import SitesFit

NOT_HERE = {
    "exact": "method='exact' is for family='gaussian': the posterior of other models has no closed form; use "
    "'ep', which integrates the penalty out as well",
    "gcv": "method='gcv' is for family='gaussian': generalised cross-validation scores squared errors; use 'loocv'",
}
"""Methods of the Gaussian family that have no counterpart, and what to use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SitesMethod(PenaltyMethod):
    """One way to find the penalty or to integrate it out.

    Attributes
    ----------
    find : callable
        Finds the penalty, or integrates it out.
    intervals : str
        What intervals are conditional on, for the summary; ``{how}`` is the approximation.
    in_use : str
        What the penalty reported is.
    solver : {"ep", "laplace"} or None
        The approximation that it stands for; None where an option says which.
    """

    find: Find
    intervals: str = "Intervals are {how}, conditional on lambda."
    in_use: str
    needs_rows: str = "needs rows: moments do not determine the likelihood of responses that are not Gaussian"
    solver: Solver | None = None

    def fit(
        self, space: Coordinates, likelihood: Likelihood, prior: BetaPrime, flat_in: FlatIn, options: SitesOptions
    ) -> SitesFit:
        """Rows in coordinates, likelihood, prior and options in, a `SitesFit` out."""
        own = replace(options, solver=self.solver or options.solver)
        return fit(space, likelihood, prior, flat_in, own, self.find)

    def intervals_by(self, solver: Solver) -> str:
        """The sentence on intervals, with the approximation of a solver."""
        return self.intervals.format(how=APPROXIMATION[solver])

    def unconverged(self, tol: float, maxiter: int) -> str:
        """The statement on a fit that has not converged."""
        other = "" if self.solver == "laplace" else ", or use method='laplace'"
        return (
            f"NOT CONVERGED within maxiter={maxiter} sweeps at a value of the penalty, or to tol={tol:g} over the "
            f"penalty: do not report these numbers; raise maxiter or tol{other}."
        )


METHODS: dict[str, SitesMethod] = {
    method.name: method
    for method in (
        SitesMethod(
            name="ep",
            find=integrated,
            solver="ep",
            help="expectation propagation, the penalty integrated out",
            intervals="Intervals are by expectation propagation; lambda is integrated out.",
            treatment="Lambda is integrated out: every number is averaged over the posterior of the penalty. For "
            "each penalty the posterior of the coefficients is approximated by expectation propagation.",
            in_use="exp of the mean of log lambda",
            uses_prior=True,
            integrates=True,
        ),
        SitesMethod(
            name="laplace",
            find=integrated,
            solver="laplace",
            help="Laplace's approximation, the penalty integrated out",
            intervals="Intervals are by Laplace's approximation; lambda is integrated out.",
            treatment="Lambda is integrated out: every number is averaged over the posterior of the penalty. For "
            "each penalty the posterior of the coefficients is approximated by Laplace's method.",
            in_use="exp of the mean of log lambda",
            uses_prior=True,
            integrates=True,
        ),
        SitesMethod(
            name="em",
            find=at_mode,
            options=("parameterization", "solver"),
            help="the penalty at its posterior mode",
            intervals="Intervals are {how}, conditional on lambda at its posterior mode.",
            treatment="Lambda is set to the mode of its posterior. Intervals are conditional on this penalty.",
            in_use="mode as a density of {of}",
            uses_prior=True,
        ),
        SitesMethod(
            name="loocv",
            find=best_of_grid,
            options=("grid", "solver"),
            help="by leave-one-out cross-validation",
            treatment="Lambda has the best leave-one-out log score of a grid. Intervals are conditional on it.",
            in_use="best leave-one-out log score",
            grid=True,
        ),
        SitesMethod(
            name="fixed",
            find=as_given,
            options=("lam", "solver"),
            required=("lam",),
            help="given by --lam",
            treatment="Lambda was given by the user. Intervals are conditional on it.",
            in_use="given",
            given=True,
        ),
    )
}
"""The methods of ``BayesRidge.fit`` with families that are not Gaussian, by name; the first is the default."""

DEFAULT = next(iter(METHODS))

INTEGRATED = {name: method for name, method in METHODS.items() if method.solver is not None}
"""Those that integrate over the penalty: the methods of responses with noise of an unknown scale."""

NOT_OF_SCALES = NOT_HERE | {
    name: f"method={name!r} is not available with family='student-t', whose penalty is relative to the unknown scale "
    "of the noise: use 'ep' or 'laplace', which integrate both out"
    for name in METHODS
    if name not in INTEGRATED
}
"""Methods that these do not have, and what to use."""
