"""Ridges with correlated effects: variances and correlations integrated out, or at their maximum."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import scipy

from pybayesridge._types import BoolArray, FloatArray, IntArray
from pybayesridge.bands.covariance import CovarianceCoordinates, Factors, Terms, factors_of_entries, lower_entries
from pybayesridge.bands.eliminated import Eliminated, EliminatedSolved
from pybayesridge.bands.fit import log_prior_of_total, power_of_total
from pybayesridge.bands.lattice import (
    FINER,
    Lattice,
    Refinement,
    Value,
    covariance_at,
    foretold_step,
    refined,
    root_of,
)
from pybayesridge.bands.mixed_components import MixedGrid, of_lattice
from pybayesridge.bands.mixed_posterior import MixedNodes, MixedPosterior
from pybayesridge.bands.mixed_problem import MixedProblem
from pybayesridge.bands.mixed_sampled import ACCEPTED, FIRST_POINTS, SampledPoints, Scores, first_proposal, sampled
from pybayesridge.bands.posterior import BandDraws
from pybayesridge.bands.shared import Heads, SharedSolved, Split
from pybayesridge.bands.system import Solved, System, answer
from pybayesridge.ridge.density import log_marginal
from pybayesridge.ridge.explained import LEAST, number_of_draws
from pybayesridge.ridge.fit import Parameterization
from pybayesridge.ridge.likelihood import GaussianNoise, PenaltyLikelihood
from pybayesridge.ridge.prior import BetaPrime

MOST_DIMENSIONS = 3
"""Lattices are over at most so many variances and correlations; over more there are weighted points."""

MOST_SAMPLED = 8
"""More variances and correlations are not integrated over."""

MOST_COLUMNS = 4_000
"""More penalised columns are not factorised: their cross-products take 128 MB."""

STEPS = (1.1, 0.8, 0.57, 0.4)
"""Distances of the points of the lattices that are tried, in posterior standard deviations."""

FAR_STEPS = (1.3, 1.14, 1.0, 0.84, 0.7, 0.5, 0.35)
"""Likewise where each point takes long."""

FEW = 2
"""For up to so many variances also the finest distances are along all axes alike."""

WINDOW = 0.8
"""Standard deviations of windows, in those of the posterior."""

STARTS = (-2.0, 1.0)
"""Logs of the total at which a mode is looked for."""

STEP = 1e-5
"""Of differences of functions that cost nothing."""

BEND = 1e-3
"""Of differences of gradients."""

ALONG_AXES = 0.3
"""Errors of means are at most about this times what halves along the axes tell: a band near 0 is one rough axis."""

FLAT, SLOPE = 1e-7, 1e-5
"""Derivatives at a maximum, and where Newton's steps begin."""

MAXITER = 200
"""Most iterations from a start, and most Newton steps after them."""

NOTHING = -23.0
"""A log total of a band that is smaller is a variance of 0."""

MOST = 23.0
"""Variances whose log total is larger are not looked at: a maximum there is where there is no noise."""

CERTAIN = 1e-6
"""A correlation this close to 1 or -1 is that."""

COEFFICIENTS = 20
"""Coefficients whose means tell the error of the integral."""


@dataclass(frozen=True, slots=True)
class MixedFit:
    """The outcome of one method for q targets.

    Attributes
    ----------
    posterior : MixedPosterior
        Of the coefficients.
    coordinates : tuple of CovarianceCoordinates or Scores
        Of each target; none where variances and correlations are at their maximum.
    lattices : tuple of Lattice or SampledPoints
        Likewise.
    log_unit : float
        What logs of variances are larger by than on the user's scale of the prior.
    log_integral : (q,) array
        Log of the integral over all variances and correlations of likelihood times prior, but for constants.
    sigma2, df : (q,) arrays
        Posterior means of the noise variance, in units of each target's squared norm, and of the trace of the hat
        matrix of the penalised columns.
    error : (q,) array
        Estimated error of the integral, in standard deviations.
    converged : (q,) bool array
    n_iter : int
        Times that the equations were solved.
    loss : float
        Relative error, about, that rounding errors leave.
    """

    posterior: MixedPosterior
    coordinates: tuple[CovarianceCoordinates | Scores, ...]
    lattices: tuple[Lattice | SampledPoints, ...]
    log_unit: float
    log_integral: FloatArray
    sigma2: FloatArray
    df: FloatArray
    error: FloatArray
    converged: BoolArray
    n_iter: int
    loss: float

    @property
    def solver(self) -> str:
        """How the equations are solved."""
        return "cholesky"

    @property
    def n_nodes(self) -> int:
        """Largest number of nodes of a target."""
        return max(nodes.weight.size for nodes in self.posterior.nodes)

    def without_rows(self) -> MixedFit:
        """The same without any array over rows of the data."""
        return replace(self, posterior=self.posterior.without_rows())

    @property
    def zero_variances(self) -> BoolArray:
        """Bands whose variance is estimated to be zero, (q, K)."""
        terms = self.posterior.system.terms
        if self.lattices:
            return np.zeros((len(self.lattices), terms.count), dtype=bool)
        each = [terms.variances(nodes.factors_at(0)) == 0 for nodes in self.posterior.nodes]
        return np.stack(each)

    @property
    def certain_correlations(self) -> FloatArray:
        """Correlations that are estimated to be 1 or -1, and 0 for all others, (q, number of pairs)."""
        terms = self.posterior.system.terms
        if self.lattices:
            return np.zeros((len(self.lattices), len(terms.pairs)))
        each = np.stack([terms.correlations(nodes.factors_at(0)) for nodes in self.posterior.nodes])
        return np.where(np.abs(each) > 1 - CERTAIN, np.sign(each), 0.0)

    def log_marginal(self, noise: GaussianNoise, log_weights: float, *, given: bool) -> FloatArray:
        """Log p(y), (q,), variances and correlations integrated out; the constant of the prior is in the integral."""
        return log_marginal(self.log_integral, noise.of(self.posterior.design), self.posterior.design, log_weights)

    def grid(self, noise: GaussianNoise, target: int) -> MixedGrid:
        """The joint posterior of variances, correlations and noise of a target."""
        posterior = self.posterior
        unit2 = float(posterior.design.y_norm[target]) ** 2
        if not self.lattices:
            nodes = posterior.nodes[target]
            return MixedGrid.of(
                posterior.system.terms,
                nodes.factors,
                nodes.weight,
                nodes.scale2 * unit2,
                posterior.df,
                self.log_unit,
            )
        likelihood = noise.of(posterior.design).only(slice(target, target + 1))
        return of_lattice(self.coordinates[target], self.lattices[target], likelihood, unit2, self.log_unit)

    def draw(self, noise: GaussianNoise, target: int, size: int, rng: np.random.Generator) -> BandDraws:
        """Draw from the joint posterior of one target; variances and correlations are nodes of the integral."""
        posterior, terms = self.posterior, self.posterior.system.terms
        design, unit = posterior.design, float(posterior.design.y_norm[target])
        out = BandDraws(
            np.empty((size, design.block.k)),
            np.empty((size, design.p)),
            np.empty((size, terms.count)),
            np.empty(size),
            np.empty((size, len(terms.pairs))),
        )
        nodes = posterior.nodes[target]
        for at, m, solved in self._drawn_nodes(target, size, rng):
            factors = nodes.factors_at(m)
            sigma2 = np.full(at.size, nodes.scale2[m])
            if np.isfinite(posterior.df):
                sigma2 *= posterior.df / rng.chisquare(posterior.df, at.size)
            b = nodes.mean[m][:, None] + np.sqrt(sigma2) * solved.draws(rng, at.size)
            b *= (unit / design.scale)[:, None]
            of_z = design.y_on_z[:, [target]] + design.taken_from_z(b)
            if design.block.k:
                normal = rng.standard_normal((design.block.k, at.size))
                of_z = of_z + design.block.regress(normal * np.sqrt(sigma2) * unit)
            out.of_z[at], out.b[at], out.sigma2[at] = of_z.T, b.T, sigma2
            with np.errstate(divide="ignore"):
                out.log_variance[at] = np.log(terms.variances(factors)) - self.log_unit
            out.correlations[at] = terms.correlations(factors)
        return out

    def explained(self, noise: GaussianNoise, target: int, rng: np.random.Generator) -> FloatArray:
        """Draws of the share of variance that all penalised columns explain together, for one target."""
        posterior = self.posterior
        system, n = posterior.system, posterior.design.n
        size = max(LEAST, number_of_draws(posterior.design.p) // 2)
        out, nodes = np.empty(size), posterior.nodes[target]
        for at, m, solved in self._drawn_nodes(target, size, rng):
            sigma2 = np.full(at.size, nodes.scale2[m])
            if np.isfinite(posterior.df):
                sigma2 *= posterior.df / rng.chisquare(posterior.df, at.size)
            b = nodes.mean[m][:, None] + np.sqrt(sigma2) * solved.draws(rng, at.size)
            square = system.squares(b)
            out[at] = square / (square + n * sigma2)
        return out

    def _drawn_nodes(
        self, target: int, size: int, rng: np.random.Generator
    ) -> Iterator[tuple[IntArray, int, Solved | EliminatedSolved]]:
        """The draws of each node that has some, its position, and its equations."""
        nodes = self.posterior.nodes[target]
        which = rng.choice(nodes.weight.size, size=size, p=nodes.weight)
        for m in np.unique(which).tolist():
            yield np.flatnonzero(which == m), m, self.posterior.system.at(nodes.factors_at(m), target)


def fit_exact(problem: MixedProblem, prior: BetaPrime, noise: GaussianNoise, tol: float) -> MixedFit:
    """All variances and correlations integrated out.

    Parameters
    ----------
    problem : MixedProblem
    prior : BetaPrime
        Of the total of all terms, covariances included; see :mod:`pybayesridge.bands.covariance`.
    noise : GaussianNoise
    tol : float
        Accuracy: of the log of the integral, and of means of roots of variances, of correlations and of coefficients
        in posterior standard deviations. The lattice is refined until its halves say so. With more than
        :data:`MOST_DIMENSIONS` variances and correlations there are weighted points, whose scrambles tell the error:
        they are added to until it is ten times as much (40 times where the equations of a point take long), and 40
        times as much is accepted.

    Raises
    ------
    ExactFitError
        For targets that some columns fit exactly.
    """
    problem.refuse_exact(noise)
    found = [
        _one_exact(problem.of_target(i), prior, noise.of(problem.design).only(slice(i, i + 1)), tol)
        for i in range(problem.design.q)
    ]
    nodes = tuple(each.nodes for each in found)
    posterior = MixedPosterior(problem.design, problem.system, nodes, noise.of(problem.design).df)
    effective = [_effective(posterior, i) for i in range(problem.design.q)]
    likelihood = noise.of(problem.design)
    mean_of_inverse = likelihood.df / (likelihood.df - 2) if np.isfinite(likelihood.df) else 1.0
    return MixedFit(
        posterior=posterior,
        coordinates=tuple(each.coordinates for each in found),
        lattices=tuple(each.lattice for each in found),
        log_unit=problem.log_unit,
        log_integral=np.array([each.lattice.log_integral for each in found]),
        sigma2=np.array([each.nodes.weight @ each.nodes.scale2 for each in found]) * mean_of_inverse,
        df=np.array([df for df, _ in effective]),
        error=np.array([each.error for each in found]),
        converged=np.array([each.error <= each.tol and each.lattice.complete for each in found]),
        n_iter=sum(each.count for each in found),
        loss=max(loss for _, loss in effective),
    )


@dataclass(frozen=True, slots=True)
class _Found:
    """The integral of one target."""

    coordinates: CovarianceCoordinates | Scores
    lattice: Lattice | SampledPoints
    nodes: MixedNodes
    error: float
    tol: float
    count: int


def _one_exact(problem: MixedProblem, prior: BetaPrime, likelihood: PenaltyLikelihood, tol: float) -> _Found:
    split = Split.of(problem.system, 0)
    coordinates, origin, root, count = _place(problem, prior, likelihood)
    at: Callable[[Factors], Solved | EliminatedSolved | SharedSolved] = partial(problem.system.at, target=0)
    if split is not None and coordinates.apart:
        at = Heads(split).at

    places: CovarianceCoordinates | Scores = coordinates
    aim = tol
    if origin.size > MOST_DIMENSIONS:
        places = Scores.like(coordinates)
        origin, aim, tol = places.near(coordinates.factors(origin)), problem.system.aim * tol, ACCEPTED * tol

    def density(x: FloatArray) -> Value:
        factors = places.factors(x)
        moments = places.terms.log_w(factors)
        if float(places.terms.totals(factors).sum()) > np.exp(MOST):
            return Value(-np.inf, moments, 0.0, np.zeros(problem.design.p))
        solved = at(factors)
        if isinstance(solved, SharedSolved):
            rss, mean = solved.left, solved.mean
        else:
            rss, mean = answer(solved, problem.design)
        value = _log_likelihood(solved, rss, likelihood) + float(places.log_density(x, factors))
        return Value(value, moments, float(np.log(rss)), mean)

    lattice: Lattice | SampledPoints
    if origin.size > MOST_DIMENSIONS:
        drawn, lattice, mean = sampled(
            density,
            first_proposal(density, origin),
            lambda points, mean: points.error(_functions(problem, places, points, mean)) <= aim,
        )
        count += FIRST_POINTS + len(drawn.points)
        error = lattice.error(_functions(problem, places, lattice, mean))
    else:
        how = _refinement(problem.system, origin.size)
        lattice, mean, error, looked_at = refined(
            density, origin, root, lambda points, mean: _functions(problem, places, points, mean), tol, how
        )
        count += looked_at
    rss = np.exp(lattice.other)
    scale2 = likelihood.scale2(rss[:, None])[:, 0]
    nodes = MixedNodes(places.factors(lattice.points), lattice.weight, rss, scale2, mean)
    return _Found(places, lattice, nodes, error, tol, count)


def _refinement(system: System | Eliminated, dimension: int) -> Refinement:
    """How the lattice over so many variances and correlations is refined.

    Where each point takes long, axes are refined one by one from the start, by steps that are likely to do at once.
    """
    if np.isfinite(system.spare):
        return Refinement(
            FAR_STEPS + FINER, system.drop, step=foretold_step, spare=system.spare, along_axes=ALONG_AXES
        )
    ladder = STEPS + FINER
    # Near zero densities are less like Gaussians; in more dimensions short distances along all axes cost much.
    alike = len(ladder if dimension <= FEW else STEPS) - 1
    return Refinement(ladder, system.drop, early=False, alike=alike, along_axes=ALONG_AXES)


def _place(
    problem: MixedProblem, prior: BetaPrime, likelihood: PenaltyLikelihood
) -> tuple[CovarianceCoordinates, FloatArray, FloatArray, int]:
    """Coordinates that suit the posterior, its mode in these, a root of its covariance, and solutions needed.

    The root is such that variances on which most depends change least often from point to point.
    """
    first, terms = problem.coordinates(prior), problem.terms
    starts = [first.of_factors(independent(terms, total)) for total in STARTS]
    slope = problem.system.slope
    found, count = _mode(lambda x: _objective(problem, first, likelihood, x), starts, first.bounds(MOST), slope=slope)
    factors = first.factors(found)
    for each in first.to_try() if terms.dimension <= MOST_DIMENSIONS else [first]:
        coordinates = each.around(terms.variances(factors) * terms.size)
        mode, curvature, more = _mode_around(problem, coordinates, likelihood, factors)
        count += more
        root = root_of(covariance_at(curvature), terms.order)
        spread = np.sqrt((root**2).sum(axis=1))[: terms.count]
        if coordinates.suits(partial(_height, problem, coordinates, likelihood), mode):
            break
    return replace(coordinates, window=WINDOW * spread), mode, root, count


def _mode_around(
    problem: MixedProblem, coordinates: CovarianceCoordinates, likelihood: PenaltyLikelihood, factors: Factors
) -> tuple[FloatArray, FloatArray, int]:
    """The mode (d,) near given covariances, the Hessian of the log density there, and solutions needed."""

    def objective(x: FloatArray) -> tuple[float, FloatArray]:
        return _objective(problem, coordinates, likelihood, x)

    start, most = coordinates.of_factors(factors), coordinates.bounds(MOST)
    mode, count = _mode(objective, [start], most, slope=problem.system.slope)
    mode = coordinates.of_factors(coordinates.factors(mode))
    return mode, -_jacobian(lambda x: objective(x)[1], mode, BEND), count + 2 * mode.size


def independent(terms: Terms, log_total: float) -> Factors:
    """Covariances without correlations, every band having the same part of a total."""
    root = np.sqrt(np.exp(log_total) / (terms.count * terms.size))
    return tuple(np.diag(root[list(each)]) for each in terms.bands)


def _log_likelihood(
    solved: Solved | EliminatedSolved | SharedSolved, rss: float, likelihood: PenaltyLikelihood
) -> float:
    return -0.5 * solved.log_determinant - float(likelihood.marginal(np.array([rss]))[0])


def _objective(
    problem: MixedProblem, coordinates: CovarianceCoordinates, likelihood: PenaltyLikelihood, x: FloatArray
) -> tuple[float, FloatArray]:
    """Minus the log density of coordinates x (d,), and its gradient."""
    value, slope = _likelihood_at(problem, likelihood, coordinates.factors, x)
    ahead, behind = x + STEP * np.eye(x.size), x - STEP * np.eye(x.size)
    of_prior = (coordinates.log_prior(ahead) - coordinates.log_prior(behind)) / (2 * STEP)
    return -(value + float(coordinates.log_prior(x))), -(slope + of_prior)


def _height(
    problem: MixedProblem, coordinates: CovarianceCoordinates, likelihood: PenaltyLikelihood, x: FloatArray
) -> float:
    """The log density of coordinates x (d,)."""
    return -_objective(problem, coordinates, likelihood, x)[0]


def _likelihood_at(
    problem: MixedProblem,
    likelihood: PenaltyLikelihood,
    factors_of: Callable[[FloatArray], Factors],
    x: FloatArray,
) -> tuple[float, FloatArray]:
    """The log likelihood where covariances are functions of x (d,), and its gradient.

    Derivatives of the covariances in x, which cost nothing, are differences.
    """
    solved = problem.system.at(factors_of(x), 0)
    rss, _ = answer(solved, problem.design)
    weight = likelihood.count / (2 * rss)
    if likelihood.variance is not None:
        weight = float(0.5 / likelihood.variance[0])
    slope = np.zeros(x.size)
    sensitivities = solved.sensitivities(weight)
    ahead, behind = (factors_of(x + way * STEP * np.eye(x.size)) for way in (1.0, -1.0))
    for own, after, before in zip(sensitivities, ahead, behind, strict=True):
        change = after @ after.swapaxes(-1, -2) - before @ before.swapaxes(-1, -2)
        slope += np.einsum("ij,dij->d", own, change) / (2 * STEP)
    return _log_likelihood(solved, rss, likelihood), slope


def _mode(
    objective: Callable[[FloatArray], tuple[float, FloatArray]],
    starts: list[FloatArray],
    most: FloatArray,
    *,
    may_vanish: bool = True,
    slope: float = SLOPE,
) -> tuple[FloatArray, int]:
    """The lowest minimum between -`most` and `most` (d,) that is found, and how often the function was evaluated.

    Unless it may, one where everything vanishes counts only if there is no other: the density has a pole there.
    """
    best, at, count = np.inf, np.zeros(most.size), 0
    for start in starts:
        found = scipy.optimize.minimize(
            objective,
            np.clip(start, -most, most),
            jac=True,
            method="L-BFGS-B",
            bounds=np.column_stack([-most, most]),
            options={"gtol": slope, "ftol": 1e-14, "maxiter": MAXITER},
        )
        count += int(found.nfev)
        vanished = np.abs(found.x).max() ** 2 <= np.exp(NOTHING)
        if found.fun < best and (may_vanish or not vanished):
            best, at = float(found.fun), found.x
    return at, count


def _jacobian(function: Callable[[FloatArray], FloatArray], x: FloatArray, step: float) -> FloatArray:
    """Derivatives of a gradient at x (d,), symmetric, (d, d)."""
    rows = [(function(x + step * one) - function(x - step * one)) / (2 * step) for one in np.eye(x.size)]
    out = np.array(rows)
    return (out + out.T) / 2


def _functions(
    problem: MixedProblem,
    coordinates: CovarianceCoordinates | Scores,
    lattice: Lattice | SampledPoints,
    mean: FloatArray,
) -> FloatArray:
    """Functions whose means are to be accurate: those of :func:`watched`, and log R."""
    factors = coordinates.factors(lattice.points)
    own = watched(coordinates.terms, factors, lattice.weight, mean, problem.system.diagonal)
    return np.column_stack([own, lattice.other])


def watched(
    terms: Terms,
    factors: Factors,
    weight: FloatArray,
    mean: FloatArray,
    unit: FloatArray,
    noise: float = 1.0,
    least: FloatArray | float = 0.0,
) -> FloatArray:
    """Functions (M, J) whose means tell the error: roots of shares, correlations, largest coefficients.

    Parameters
    ----------
    terms : Terms
    factors : tuple of (M, q, q) arrays
        At its nodes.
    weight : (M,) array
    mean : (M, p) array
        Of the coefficients.
    unit : (p,) array
        Mean squares of fitted values for coefficients of 1, about: those that depend most on the variances, in these
        units, are taken.
    noise : float
        Its variance.
    least : (p,) array or float
        Coefficients whose means differ by no more than this, in root mean square, depend on the variances so little
        that no error of their means matters.
    """
    own = terms.variances(factors) * terms.size
    shares = np.sqrt(own / (noise + terms.totals(factors).sum(axis=1, keepdims=True)))
    spread = mean - weight @ mean
    square = weight @ spread**2
    largest = np.argsort(-square * unit)[:COEFFICIENTS]
    largest = largest[square[largest] > np.broadcast_to(least, square.shape)[largest] ** 2]
    return np.hstack([shares, terms.correlations(factors), mean[:, largest]])


def _effective(posterior: MixedPosterior, target: int) -> tuple[float, float]:
    """Posterior mean of the trace of the hat matrix, and the relative error of the solutions, about."""
    nodes = posterior.nodes[target]
    if posterior.interpolated(target):
        return posterior.effective(target)
    df, loss, total = 0.0, 0.0, 0.0
    for m in np.flatnonzero(nodes.weight > posterior.system.seen).tolist():
        solved = posterior.system.at(nodes.factors_at(m), target)
        df += nodes.weight[m] * solved.trace
        total += nodes.weight[m]
        loss = max(loss, solved.loss)
    return df / total, loss


def fit_given(problem: MixedProblem, noise: GaussianNoise, log_variance: FloatArray) -> MixedFit:
    """Given logs of the variances ``t_k`` (K,) on the user's scale of the prior, the noise integrated out."""
    terms, likelihood = problem.terms, noise.of(problem.design)
    root = np.exp(0.5 * (log_variance + problem.log_unit))
    factors = tuple(np.diag(root[list(each)]) for each in terms.bands)
    nodes, values = [], []
    for i in range(problem.design.q):
        one, own = problem.of_target(i), likelihood.only(slice(i, i + 1))
        solved = one.system.at(factors, 0)
        rss, mean = answer(solved, one.design)
        scale2 = float(own.scale2(np.array([[rss]]))[0, 0])
        nodes.append(_one_node(factors, rss, scale2, mean))
        values.append(_log_likelihood(solved, rss, own))
    mean_of_inverse = likelihood.df / (likelihood.df - 2) if np.isfinite(likelihood.df) else 1.0
    return _at_points(problem, tuple(nodes), likelihood.df, np.array(values), mean_of_inverse)


def _one_node(factors: Factors, rss: float, scale2: float, mean: FloatArray) -> MixedNodes:
    return MixedNodes(
        tuple(each[None] for each in factors), np.ones(1), np.array([rss]), np.array([scale2]), mean[None]
    )


def _at_points(
    problem: MixedProblem, nodes: tuple[MixedNodes, ...], df: float, values: FloatArray, mean_of_inverse: float = 1.0
) -> MixedFit:
    """The fit of a single node for each target."""
    posterior = MixedPosterior(problem.design, problem.system, nodes, df)
    effective = [_effective(posterior, i) for i in range(len(nodes))]
    q = problem.design.q
    return MixedFit(
        posterior=posterior,
        coordinates=(),
        lattices=(),
        log_unit=problem.log_unit,
        log_integral=values,
        sigma2=np.array([float(each.scale2[0]) for each in nodes]) * mean_of_inverse,
        df=np.array([each for each, _ in effective]),
        error=np.zeros(q),
        converged=np.ones(q, dtype=bool),
        n_iter=0,
        loss=max(loss for _, loss in effective),
    )


def fit_reml(problem: MixedProblem, noise: GaussianNoise) -> MixedFit:
    """Variances and correlations by restricted maximum likelihood; uncertainty is conditional on them.

    Raises
    ------
    ExactFitError
        For targets that some columns fit exactly.
    """
    return _fit_mode(problem, noise, None)


def fit_mode(
    problem: MixedProblem, prior: BetaPrime, noise: GaussianNoise, parameterization: Parameterization
) -> MixedFit:
    """The variances at the mode of their posterior; uncertainty is conditional on them. No effects are correlated.

    The density is that of :func:`pybayesridge.bands.fit.fit_mode`.

    Raises
    ------
    ExactFitError
        For targets that some columns fit exactly.
    """
    log_total = float(np.log(problem.terms.size.sum()))
    return _fit_mode(problem, noise, power_of_total(prior, problem.design, log_total, parameterization))


def _fit_mode(problem: MixedProblem, noise: GaussianNoise, power: tuple[float, float, float] | None) -> MixedFit:
    """At the maximum of the likelihood or, with powers of the total, of the posterior.

    The free entries of the A of all terms, in which the likelihood is smooth also where variances are zero or
    correlations 1, are found by a quasi-Newton method from several starts, and Newton's steps.
    """
    problem.refuse_exact(noise)
    likelihood = noise.of(problem.design)
    if power is not None and not likelihood.known:
        likelihood = replace(likelihood, count=likelihood.count + 2)
    found = [
        _one_mode(problem.of_target(i), likelihood.only(slice(i, i + 1)), power) for i in range(problem.design.q)
    ]
    fit = _at_points(problem, tuple(each[0] for each in found), np.inf, np.zeros(problem.design.q))
    return replace(fit, converged=np.array([each[1] for each in found]), n_iter=sum(each[2] for each in found))


def _one_mode(
    problem: MixedProblem, likelihood: PenaltyLikelihood, power: tuple[float, float, float] | None
) -> tuple[MixedNodes, bool, int]:
    """The node of one target, whether it was found, and how often the equations were solved."""
    terms = problem.terms
    entries = lower_entries(terms)
    unit = np.array([np.sqrt(terms.size[terms.bands[t][i]]) for t, i, _ in entries])

    def factors_of(x: FloatArray) -> Factors:
        return factors_of_entries(terms, x / unit)

    def objective(x: FloatArray) -> tuple[float, FloatArray]:
        value, slope = _likelihood_at(problem, likelihood, factors_of, x)
        if power is not None:
            more, of_logs = log_prior_of_total(power, np.log(x**2 + np.exp(2 * NOTHING)))
            value, slope = value + more, slope + of_logs * 2 * x / (x**2 + np.exp(2 * NOTHING))
        return -value, -slope

    starts = []
    for total in STARTS:
        begin = independent(terms, total)
        starts.append(unit * [begin[t][i, j] for t, i, j in entries])
    x, count = _mode(objective, starts, np.full(unit.size, np.exp(MOST / 2)), may_vanish=power is None)
    converged = False
    for _ in range(MAXITER):
        slope = objective(x)[1]
        count += 1 + 2 * x.size
        if np.abs(slope).max() <= FLAT:
            converged = True
            break
        values, vectors = np.linalg.eigh(_jacobian(lambda at: objective(at)[1], x, BEND))
        values = np.maximum(np.abs(values), 1e-8 * np.abs(values).max())
        step = vectors @ ((vectors.T @ slope) / values)
        x = x - step * min(1.0, 0.5 * max(float(np.abs(x).max()), 0.1) / float(np.abs(step).max()))
        x = np.clip(x, -np.exp(MOST / 2), np.exp(MOST / 2))
    factors = without_nothing(terms, factors_of(x))
    with np.errstate(divide="ignore"):
        log_w = np.log(terms.variances(factors) * terms.size)
    solved = problem.system.at(factors, 0)
    rss, mean = answer(solved, problem.design)
    scale2 = rss / likelihood.count if likelihood.variance is None else float(likelihood.variance[0])
    node = _one_node(factors, rss, scale2, mean)
    return node, converged and bool((log_w < MOST).all()), count


def without_nothing(terms: Terms, factors: Factors, noise: float = 1.0) -> Factors:
    """The factors with the variances that are as good as 0 at 0, compared with that of the noise."""
    out = []
    for factor, cross in zip(factors, terms.cross, strict=True):
        w = (factor**2).sum(axis=1) * np.diag(cross)
        out.append(np.where((w > noise * np.exp(NOTHING))[:, None], factor, 0.0))
    return tuple(out)
