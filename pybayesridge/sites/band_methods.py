"""The registry of methods for several bands and responses that are not Gaussian."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pybayesridge._types import FloatArray
from pybayesridge.bands.mixed_problem import MixedProblem
from pybayesridge.registry import PenaltyMethod
from pybayesridge.ridge.prior import BetaPrime
from pybayesridge.sites.band_fit import BandSitesFit
from pybayesridge.sites.band_variances import fit_given, fit_integrated, fit_mode, solved_quickly
from pybayesridge.sites.fit import APPROXIMATION, Solver
from pybayesridge.sites.likelihood import Likelihood
from pybayesridge.sites.prior import FlatIn


@dataclass(frozen=True, slots=True)
class BandSitesOptions:
    """Options of ``fit``, checked.

    Attributes
    ----------
    solver : {"ep", "laplace"}
        The approximation, for methods that do not stand for one.
    log_variance : (K,) array or None
        Logs of the variances that are given.
    tol : float
        Largest estimated error of the integral over the variances that counts as none.
    maxiter : int
        Most sweeps or Newton steps at a node.
    """

    solver: Solver
    log_variance: FloatArray | None
    tol: float
    maxiter: int


Find = Callable[[MixedProblem, Likelihood, BetaPrime, FlatIn, BandSitesOptions], BandSitesFit]
"""Finds the variances, or integrates them out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BandSitesMethod(PenaltyMethod):
    """One way to find the variances of several bands or to integrate them out.

    Attributes
    ----------
    find : callable
        Finds the variances, or integrates them out.
    correlations : bool
        Whether it takes correlated effects.
    solver : {"ep", "laplace"} or None
        The approximation that it stands for; None where an option says which.
    """

    find: Find
    needs_rows: str = "bands need the rows"
    solver: Solver | None = None
    correlations: bool = True

    def intervals_by(self, solver: Solver) -> str:
        """The sentence on intervals, with the approximation of a solver."""
        return self.intervals.format(how=APPROXIMATION[solver])

    def unconverged(self, tol: float, maxiter: int) -> str:
        """The statement on a fit that has not converged."""
        if self.integrates:
            return (
                f"NOT CONVERGED: the integral over the variances of the bands has not reached tol={tol:g}, or some "
                f"of its nodes took more than maxiter={maxiter} sweeps. Do not report these numbers; raise tol or "
                "maxiter, or join bands."
            )
        return (
            f"NOT CONVERGED: no maximum was found for the variances of the bands, or it took more than "
            f"maxiter={maxiter} sweeps. Do not report these numbers; use method='ep'."
        )


def _integrated(
    problem: MixedProblem, likelihood: Likelihood, prior: BetaPrime, flat_in: FlatIn, options: BandSitesOptions
) -> BandSitesFit:
    def find(own: MixedProblem) -> BandSitesFit:
        return fit_integrated(own, likelihood, prior, flat_in, options.solver, options.tol, options.maxiter)

    return solved_quickly(problem, likelihood, find)


def _mode(
    problem: MixedProblem, likelihood: Likelihood, _: BetaPrime, __: FlatIn, options: BandSitesOptions
) -> BandSitesFit:
    return solved_quickly(problem, likelihood, lambda own: fit_mode(own, likelihood, options.solver, options.maxiter))


def _given(
    problem: MixedProblem, likelihood: Likelihood, _: BetaPrime, __: FlatIn, options: BandSitesOptions
) -> BandSitesFit:
    assert options.log_variance is not None
    return fit_given(problem, likelihood, options.solver, options.log_variance, options.maxiter)


AVERAGED = (
    "The variances of all bands are integrated out: every number is averaged over their posterior, and intervals "
    "account for uncertainty in the variances. Given these the posterior of the coefficients is approximated by "
)

METHODS: dict[str, BandSitesMethod] = {
    method.name: method
    for method in (
        BandSitesMethod(
            name="ep",
            find=_integrated,
            solver="ep",
            help="expectation propagation, the penalties integrated out",
            intervals="Intervals are by expectation propagation; the variances of all bands are integrated out.",
            treatment=f"{AVERAGED}expectation propagation.",
            uses_prior=True,
            integrates=True,
        ),
        BandSitesMethod(
            name="laplace",
            find=_integrated,
            solver="laplace",
            help="Laplace's approximation, the penalties integrated out",
            intervals="Intervals are by Laplace's approximation; the variances of all bands are integrated out.",
            treatment=f"{AVERAGED}Laplace's method.",
            uses_prior=True,
            integrates=True,
        ),
        BandSitesMethod(
            name="reml",
            find=_mode,
            options=("solver",),
            help="the penalties at the maximum of the approximate marginal likelihood",
            intervals="Intervals are {how}, conditional on the variances that maximise the marginal likelihood.",
            treatment="The variances of the bands maximise the marginal likelihood, the coefficients, also the "
            "unpenalised ones, integrated out. Intervals are conditional on them.",
        ),
        BandSitesMethod(
            name="fixed",
            find=_given,
            options=("lam", "solver"),
            required=("lam",),
            help="given by --lam",
            intervals="Intervals are {how}, conditional on the penalties of the bands.",
            treatment="The penalties of the bands were given by the user. Intervals are conditional on them.",
            given=True,
            correlations=False,
        ),
    )
}
"""The methods of ``BayesRidge.fit`` with bands and other families, by name; the first is the default."""

DEFAULT = next(iter(METHODS))

NOT_HERE = {
    "exact": "method='exact' is for family='gaussian': the posterior of other models has no closed form; use 'ep', "
    "which integrates over the penalties as well",
    "em": "method='em' takes one penalty for all columns, or family='gaussian': use 'ep' or 'reml'",
    **{
        name: f"method={name!r} chooses one penalty for all columns: with bands use 'ep', 'laplace' or 'reml'"
        for name in ("loocv", "gcv")
    },
}
"""Methods that only a single penalty or the Gaussian family has, and what to use."""

INTEGRATED = {name: method for name, method in METHODS.items() if method.integrates}
"""Those that integrate over the variances: the methods of responses with noise of an unknown scale."""

NOT_OF_SCALES = {
    "exact": NOT_HERE["exact"],
    **{
        name: f"method={name!r} is not available with family='student-t', whose penalties are relative to the "
        "unknown scale of the noise: use 'ep' or 'laplace', which integrate both out"
        for name in (*METHODS, *NOT_HERE)
        if name not in (*INTEGRATED, "exact")
    },
}
"""Methods that these do not have, and what to use."""
