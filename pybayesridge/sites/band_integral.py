"""The integral over the variances of several bands, given the likelihood, as a fit."""

from __future__ import annotations

import numpy as np

from pybayesridge._types import FloatArray
from pybayesridge.bands.covariance import Factors
from pybayesridge.bands.mixed_problem import MixedProblem
from pybayesridge.ridge.prior import BetaPrime
from pybayesridge.sites.approximation import Approximation
from pybayesridge.sites.arrow_bands import ArrowSpace
from pybayesridge.sites.band_fit import BandSitesFit, Part, basis_with
from pybayesridge.sites.band_place import Place, SampledPlace, asked
from pybayesridge.sites.bands import BandSpace
from pybayesridge.sites.integrate import SETTLED
from pybayesridge.sites.likelihood import Likelihood
from pybayesridge.sites.prior import LogPrior
from pybayesridge.sites.seen import Seen
from pybayesridge.sites.separation import dimensions

SLOW = 1.5
"""A density of the log of the total that falls at a smaller rate may have no moments."""

FAR = 4.0
"""Logs of totals relative to the latent variance that the lattice goes beyond if the density falls so slowly."""

ROUGH, NEGLIGIBLE = 0.5, 1e-6
"""Nodes whose moments are off by at most `ROUGH` standard deviations are right if these, times the weights, are
together negligible: in the tails, with coefficients up to thousands of times as large as elsewhere, EP may not settle
further."""

IMPROPER = (
    "the posterior of the variances is improper: the columns of the bands separate the responses, and the prior does "
    "not rule out coefficients of any size; pass a `prior` with a larger second number"
)


def summed(
    problem: MixedProblem, seen: Seen, place: Place | SampledPlace, prior: BetaPrime, power: float, tol: float
) -> BandSitesFit:
    """The integral over the variances."""
    space, likelihood, terms = seen.space, seen.likelihood, seen.space.terms
    coordinates = place.coordinates
    density, functions = asked(seen, place, power)
    integral = place.integral(density, functions, tol)
    lattice, kept, error = integral.points, integral.kept, integral.error
    factors = coordinates.factors(lattice.points)
    nodes = seen.kept(factors, [seen.found[int(i)] for i in kept[:, 0]])
    of_total = LogPrior(prior.a, prior.b, coordinates.log_unit, power)
    separated, fall = _fall(space, likelihood, factors, nodes, of_total)
    weight = lattice.weight
    totals = terms.totals(factors).sum(axis=-1)
    return BandSitesFit(
        space=space,
        likelihood=likelihood,
        nodes=nodes,
        weight=weight,
        log_t2=float(weight @ np.log(np.maximum(totals, 1e-300))),
        log_evidence=lattice.log_integral,
        error=error,
        fall=fall,
        separated=separated,
        null=False,
        at_edge=False,
        grid=None,
        grid_scores=None,
        converged=integral.enough and _settled(nodes, weight),
        n_iter=seen.sweeps,
        factors=factors,
        parts=(Part(coordinates, lattice, likelihood.latent_variance, 1.0),),
        log_unit=problem.log_unit,
        prior_fall=of_total.fall,
    )


def _settled(nodes: tuple[Approximation, ...], weight: FloatArray) -> bool:
    """Whether the approximations at all nodes are as good as their weights ask."""
    left = [
        (node.change, w * node.change) for node, w in zip(nodes, weight.tolist(), strict=True) if not node.converged
    ]
    return not left or (max(left)[0] <= ROUGH and sum(part for _, part in left) <= NEGLIGIBLE)


def _fall(
    space: BandSpace | ArrowSpace,
    likelihood: Likelihood,
    factors: Factors,
    nodes: tuple[Approximation, ...],
    prior: LogPrior,
) -> tuple[bool, float]:
    """Whether the columns of bands separate the responses, and the rate at which the density falls if so.

    As in :mod:`pybayesridge.sites.integrate`: along the variances of some bands the evidence falls as
    ``W^(-r/2)``, times ``W^(1/2)`` for each dimension of the cone of directions along which the likelihood does not
    fall. The linear program is needed only where, at the node with the largest variance of a band, it falls slowly.

    Raises
    ------
    ValueError
        If it does not fall.
    """
    terms = space.terms
    variances = terms.variances(factors) * terms.size
    totals = np.log(np.maximum(terms.totals(factors).sum(axis=-1), 1e-300))
    slow = []
    for band in range(terms.count):
        node = int(np.argmax(variances[:, band]))
        far = totals[node] - np.log(likelihood.latent_variance) > FAR
        if far and -(nodes[node].slope + prior.slope(float(totals[node]))) < SLOW:
            slow.append(band)
    if not slow:
        return False, np.inf
    falls, separated = [], False
    for some in {(band,) for band in slow} | {tuple(range(terms.count))}:
        basis = basis_with(space, some)
        lost = dimensions(basis, likelihood)
        separated |= lost > 0
        falls.append(prior.fall + 0.5 * (basis.shape[1] - space.k - lost) if lost else np.inf)
    if min(falls) < SETTLED:
        raise ValueError(IMPROPER)
    return separated, min(falls)
