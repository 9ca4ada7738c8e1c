"""The registry of methods for several bands: their fit functions and all that outputs say of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pybayesridge._types import FloatArray
from pybayesridge.bands import mixed
from pybayesridge.bands.fit import fit_exact, fit_given, fit_mode
from pybayesridge.bands.grouped import GroupedFit
from pybayesridge.bands.mixed import MixedFit
from pybayesridge.bands.mixed_problem import MixedProblem
from pybayesridge.bands.problem import BandProblem
from pybayesridge.bands.result import BandFit
from pybayesridge.registry import PenaltyMethod
from pybayesridge.ridge.fit import Parameterization
from pybayesridge.ridge.likelihood import GaussianNoise
from pybayesridge.ridge.prior import BetaPrime


@dataclass(frozen=True, slots=True)
class BandOptions:
    """The options of ``BayesRidge.fit`` with several bands; each method takes some of them.

    Attributes
    ----------
    tol : float
        Accuracy of the quadrature over the shares of the bands.
    maxiter : int or None
        Most decompositions, see :func:`~pybayesridge.bands.fit.fit_exact`.
    parameterization : {"tau2", "tau"}
        The mode is that of a density in the total variance or its root.
    log_variance : (K,) array or None
        Logs of the variances of the bands, where they are given.
    """

    tol: float
    maxiter: int | None = None
    parameterization: Parameterization = "tau2"
    log_variance: FloatArray | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BandMethod(PenaltyMethod):
    """One way to find the penalties of several bands or to integrate them out.

    Attributes
    ----------
    fit : callable
        Problem, prior, noise and options in, a `BandFit` out, or a `GroupedFit`.
    fit_mixed : callable
        The same where effects are correlated or a group has very many levels.
    correlations : bool
        Whether it takes correlated effects.
    iterates : bool
        Whether the number of iterations means something to a reader.
    """

    fit: Callable[[BandProblem, BetaPrime, GaussianNoise, BandOptions], BandFit | GroupedFit]
    fit_mixed: Callable[[MixedProblem, BetaPrime, GaussianNoise, BandOptions], MixedFit]
    correlations: bool = False
    iterates: bool = False

    def unconverged(self, tol: float, maxiter: int) -> str:
        """What is said of a fit that has not converged."""
        if self.integrates and maxiter:
            return (
                f"NOT CONVERGED within maxiter={maxiter} decompositions: the integral over the penalties of the "
                f"bands has not reached tol={tol:g}. quadrature_error is the estimated error of each response. Raise "
                "maxiter, or do not report numbers whose error is too large."
            )
        if self.integrates:
            return (
                f"NOT CONVERGED: the integral over the penalties of the bands has not reached tol={tol:g}. Do not "
                "report these numbers; raise tol, or join bands."
            )
        return (
            "NOT CONVERGED: no maximum was found for the variances of the bands; it may lie where there is no noise. "
            "Do not report these numbers; use method='exact', or join bands."
        )


def _exact(
    problem: BandProblem, prior: BetaPrime, noise: GaussianNoise, options: BandOptions
) -> BandFit | GroupedFit:
    return fit_exact(problem, prior, noise, options.tol, options.maxiter)


def _exact_mixed(problem: MixedProblem, prior: BetaPrime, noise: GaussianNoise, options: BandOptions) -> MixedFit:
    return mixed.fit_exact(problem, prior, noise, options.tol)


def _mode_mixed(problem: MixedProblem, prior: BetaPrime, noise: GaussianNoise, options: BandOptions) -> MixedFit:
    return mixed.fit_mode(problem, prior, noise, options.parameterization)


def _reml_mixed(problem: MixedProblem, _: BetaPrime, noise: GaussianNoise, __: BandOptions) -> MixedFit:
    return mixed.fit_reml(problem, noise)


def _mode(problem: BandProblem, prior: BetaPrime, noise: GaussianNoise, options: BandOptions) -> BandFit:
    return fit_mode(problem, prior, noise, options.parameterization)


def _reml(problem: BandProblem, _: BetaPrime, noise: GaussianNoise, __: BandOptions) -> BandFit:
    return fit_mode(problem, None, noise, "tau2")


def _given(problem: BandProblem, _: BetaPrime, noise: GaussianNoise, options: BandOptions) -> BandFit:
    if options.log_variance is None:
        raise AssertionError("the penalties are given")
    return fit_given(problem, noise, options.log_variance)


def _given_mixed(problem: MixedProblem, _: BetaPrime, noise: GaussianNoise, options: BandOptions) -> MixedFit:
    if options.log_variance is None:
        raise AssertionError("the penalties are given")
    return mixed.fit_given(problem, noise, options.log_variance)


METHODS: dict[str, BandMethod] = {
    method.name: method
    for method in (
        BandMethod(
            name="exact",
            fit=_exact,
            fit_mixed=_exact_mixed,
            correlations=True,
            options=("tol", "maxiter"),
            help="the penalties are integrated out",
            intervals="Intervals are of the exact marginal posterior: the penalties of all bands and sigma are "
            "integrated out.",
            treatment="The penalties of all bands are integrated out: every number is averaged over their posterior. "
            "Intervals account for uncertainty in the penalties.",
            uses_prior=True,
            integrates=True,
        ),
        BandMethod(
            name="em",
            fit=_mode,
            fit_mixed=_mode_mixed,
            options=("parameterization",),
            help="the penalties at their posterior mode",
            intervals="Intervals are conditional on the penalties of the bands and sigma at the posterior mode.",
            treatment="The penalties of the bands are set to the mode of their posterior. Intervals are conditional "
            "on these penalties and on the noise variance at the mode.",
            uses_prior=True,
            iterates=True,
        ),
        BandMethod(
            name="reml",
            fit=_reml,
            fit_mixed=_reml_mixed,
            correlations=True,
            help="the penalties by restricted maximum likelihood",
            intervals="Intervals are conditional on the variances estimated by restricted maximum likelihood.",
            treatment="The variances of the bands and of the noise are estimated by restricted maximum likelihood. "
            "Intervals are conditional on them.",
            iterates=True,
        ),
        BandMethod(
            name="fixed",
            fit=_given,
            fit_mixed=_given_mixed,
            options=("lam",),
            required=("lam",),
            help="given by --lam",
            intervals="Intervals are conditional on the penalties of the bands; sigma is integrated out.",
            treatment="The penalties of the bands were given by the user. Intervals are conditional on them.",
            given=True,
        ),
    )
}
"""The methods of ``BayesRidge.fit`` with bands, by name; the first is the default."""

DEFAULT = next(iter(METHODS))
"""All penalties integrated out: the method "exact"."""

NOT_HERE = {
    name: f"method={name!r} chooses one penalty for all columns: with bands use 'exact', 'em' or 'reml'"
    for name in ("loocv", "gcv")
}
"""Methods that only a single penalty has."""
