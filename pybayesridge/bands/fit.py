"""Several penalties integrated out, or at a point: the nodes over the shares of the bands and their weights."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy.special import expit, logsumexp

from pybayesridge._types import BoolArray, FloatArray, IntArray
from pybayesridge.bands.evidence import Evidence, maximise
from pybayesridge.bands.grouped import GroupedFit
from pybayesridge.bands.posterior import BandPosterior
from pybayesridge.bands.problem import BandProblem
from pybayesridge.bands.result import BandFit
from pybayesridge.bands.sampled import (
    POINTS,
    ROUNDS,
    SCRAMBLES,
    SampledShares,
    fitted_proposal,
    scramble_of,
    together,
)
from pybayesridge.bands.share_sums import Known, Summed, by_degrees, parts_of, unseen
from pybayesridge.bands.shares import Box, ShareRule, posterior_weight, share_moments
from pybayesridge.bands.simplex import EDGES, LARGEST, PolynomialRule, edges, terms_of
from pybayesridge.design.design import Design
from pybayesridge.ridge.fit import FitOptions, Parameterization, RidgeFit
from pybayesridge.ridge.given import fit_fixed
from pybayesridge.ridge.integrated import fit_integrated
from pybayesridge.ridge.likelihood import GaussianNoise
from pybayesridge.ridge.mixture import effective_directions
from pybayesridge.ridge.prior import BetaPrime
from pybayesridge.ridge.spectrum import CANCELLED, Spectrum

MOST_BANDS = 8
"""More bands are not integrated over."""

SIZES = (64, 64, 128, 256)
"""With more bands than product rules take: points that are added to each scramble until the error is small enough."""

LOOSE = 0.02
"""Several targets are integrated by polynomials where at least such an error is accepted."""

FIRST_DEGREE = 5
"""Of the polynomials; with two lower ones it is compared."""

TURN, LARGEST_OF_PARTS = {2: 16, 3: 10}, {2: 20, 3: 12}
"""Degree of polynomials in all shares from which on narrow densities have parts of their own, and the largest there,
by the number of bands."""

DIRECTIONS = 64
"""Of fitted values, at random, in which changes of theirs are seen."""

MOST_TARGETS = 20
"""With such points each target has its own: of more targets it would take too long."""

SAMPLED = 20.0
"""With such points an error so many times `tol` is accepted."""

MOST_NUMBERS = 1 << 27
"""Most numbers in singular vectors of all nodes together: 1 GB."""

LADDER_NUMBERS = 1 << 28
"""Likewise of the largest product rule, of several targets."""

ORDERS = {1: (1,), 2: (8, 12, 16, 24, 32, 48, 64, 96, 128, 192), 3: (8, 12, 16, 24, 32)}
"""Nodes in each angle of the rules that are tried one after the other, by the number of bands."""

DROP = 16.0
"""Shares at which the density is smaller than its maximum by more than this in logarithm are left out."""

NARROW = 0.7
"""A rule is set up anew where the density needs a smaller share than this of the box it was set up in."""

NARROWINGS = 40
"""Most times that this is done."""

NEGLIGIBLE = 1e-10
"""Nodes of smaller weight are no part of the posterior of the coefficients."""

SEED = 20
"""Of the points: the same data have the same answer."""

INNER, LOOSE_INNER, LIMITED_INNER = 1e-8, 1e-5, 1e-3
"""Accuracy of the integral over the total given the shares: one integrand of many; by polynomials; and by so many of
them as are allowed. The error is at most about the square of that."""

HOPELESS = 1000.0
"""A larger error is stated as infinite: decompositions say nothing of the response, and of the error only that."""

UNFELT, UNLIKELY = 0.02, 1e-3
"""See :func:`_felt`: a share of the variance of the noise, and a weight of a total."""

LOOSE_CANCELLED = 1e-12
"""By polynomials, see :func:`~pybayesridge.ridge.spectrum.rotate`: four digits of residuals are left."""


class ExactFitError(ValueError):
    """Targets (a mask) that the columns fit exactly: there is nothing that penalties could be estimated from."""

    def __init__(self, targets: BoolArray) -> None:
        self.targets = targets
        super().__init__("the columns fit a response exactly")


@dataclass(frozen=True, slots=True)
class _Nodes:
    """The ridges at the nodes of a rule."""

    rule: ShareRule
    fits: list[RidgeFit]

    @property
    def log_integrals(self) -> FloatArray:
        """Log of the integral over the total at each node, (M, q)."""
        return np.stack([fit.quadrature.log_integral for fit in self.fits if fit.quadrature is not None])

    @property
    def log_terms(self) -> FloatArray:
        """The terms of the integral over the shares, (M, q)."""
        log_weight = self.rule.log_weight
        return self.log_integrals + (log_weight if log_weight.ndim == 2 else log_weight[:, None])

    @property
    def log_variances(self) -> FloatArray:
        """Logs of the mean variances of the bands' standardised coefficients at each node, (M, K, q).

        -inf where the mean does not exist.
        """
        out = []
        for shares, fit in zip(self.rule.shares, self.fits, strict=True):
            mixture = fit.mixture
            with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
                mean = (mixture.weight * mixture.scale2 * np.exp(mixture.log_t2)).sum(axis=0) / fit.spectrum.top**2
                each = np.log(np.outer(shares, np.where(mixture.open_variance, 0.0, mean)))
            out.append(np.where(np.isfinite(each), each, -np.inf))
        return np.stack(out)

    @property
    def needed(self) -> Box:
        """See :func:`_needed`."""
        return _needed(self.rule, self.log_integrals, self.log_variances)

    @property
    def weight(self) -> FloatArray:
        """Posterior weights, (M, q)."""
        return posterior_weight(self.log_terms)

    def of_targets(self, which: IntArray) -> _Nodes:
        """The same of some of the targets."""
        return _Nodes(self.rule, [fit.of_targets(which) for fit in self.fits])

    def collected(self, problem: BandProblem, prior: BetaPrime, error: FloatArray, converged: BoolArray) -> BandFit:
        """The fit by the nodes with their weights."""
        log_integral = logsumexp(self.log_terms, axis=0)
        return _collected(problem, prior, self.rule, self.fits, self.weight, log_integral, error, converged)


@dataclass(frozen=True, slots=True)
class _Summary:
    """What is compared between two rules, without the ridges at the nodes.

    Attributes
    ----------
    rule : ShareRule
    log_integrals, log_terms : (M, q) arrays
    log_variances : (M, K, q) array
        All as of :class:`_Nodes`.
    weight : (M, q) array
        Posterior weights.
    coefficients : (p, q) array
        Posterior means of the standardised coefficients in units of the targets' norms.
    noise, rank : (q,) arrays
        Posterior means of the noise variance and of the effective number of directions.
    """

    rule: ShareRule
    log_integrals: FloatArray
    log_terms: FloatArray
    log_variances: FloatArray
    weight: FloatArray
    coefficients: FloatArray
    noise: FloatArray
    rank: FloatArray

    @classmethod
    def of(cls, problem: BandProblem, nodes: _Nodes) -> _Summary:
        """The summary of the ridges at the nodes of a rule."""
        integrals, weight = nodes.log_integrals, nodes.weight
        each = list(zip(weight, nodes.fits, strict=True))
        return cls(
            rule=nodes.rule,
            log_integrals=integrals,
            log_terms=nodes.log_terms,
            log_variances=nodes.log_variances,
            weight=weight,
            coefficients=_mean_coefficients(problem, nodes.rule.shares, weight, nodes.fits),
            noise=np.asarray(sum(w * fit.sigma2 for w, fit in each)),
            rank=np.asarray(sum(w * effective_directions(fit.spectrum, fit.mixture) for w, fit in each)),
        )

    @property
    def needed(self) -> Box:
        """See :func:`_needed`."""
        return _needed(self.rule, self.log_integrals, self.log_variances)

    def of_targets(self, which: IntArray) -> _Summary:
        """The same of some of the targets."""
        return _Summary(self.rule, *(getattr(self, name)[..., which] for name in self.__slots__[1:]))


def _needed(rule: ShareRule, log_integrals: FloatArray, log_variances: FloatArray) -> Box:
    """The part of the box outside which no target's density, nor the mean variance of a band, matters."""
    terms = log_integrals[:, None]
    terms = np.concatenate([terms, terms + log_variances], axis=1)
    with np.errstate(invalid="ignore"):
        inside = terms > terms.max(axis=0) - DROP
    return rule.narrowed(inside.any(axis=(1, 2)))


def fit_exact(
    problem: BandProblem, prior: BetaPrime, noise: GaussianNoise, tol: float, maxiter: int | None = None
) -> BandFit | GroupedFit:
    """All penalties integrated out.

    Parameters
    ----------
    problem : BandProblem
    prior : BetaPrime
        Of the total of the bands, as that of a ridge with one penalty; shares are Dirichlet(1/2, …, 1/2).
    noise : GaussianNoise
    tol : float
        Largest error that is accepted: of the log of the integral over the shares; of their density interpolated
        between the nodes, in total variation; of means of shares in standard deviations; of the root mean square of
        the standard deviation of each band, relative to it; and of fitted values in root mean squares of theirs. It
        follows from the change that the last rule made. Of several targets, and with at least 0.02, it is that of
        polynomials in the shares, and also counts what it changes that the weights of nodes must not be negative.
        Targets for which these are not accurate enough have product rules, or are not converged if there is no
        memory for these. With more than three bands the shares are weighted points, whose scrambles tell the error,
        and 20 times as much is accepted.
    maxiter : int or None
        Most decompositions, of several targets with two or three bands and at least 0.02; at least
        :func:`least_of`. Those come first that serve most targets: polynomials in all shares, then the parts of the
        shares that have the densities of most targets. What is left has the polynomials with the least error, which
        is estimated more cautiously then.

    Raises
    ------
    ExactFitError
        For targets that some columns fit exactly.
    """
    if problem.count > max(ORDERS):
        return _fit_sampled(problem, prior, noise, tol)
    found: list[_Part] = []
    rest, allowance, tried = np.arange(problem.design.q), _Allowance(maxiter), _Tried([])
    if problem.count > 1 and problem.design.q > 1 and tol >= LOOSE:
        found, tried = _by_polynomials(problem, prior, noise, tol, allowance)
        rest = tried.members
    if rest.size:
        others = _by_products(problem if not found else problem.of_targets(rest), prior, noise, tol, allowance)
        found += [replace(part, members=rest[part.members]) for part in others]
        found += tried.nearest(np.setdiff1d(rest, np.concatenate([rest[:0], *(part.members for part in found)])))
    count = sum(part.count for part in found)
    fits = tuple(part.fit for part in found)
    if len(found) == 1:
        return replace(fits[0], n_iter=count)
    return GroupedFit(problem.design, fits, tuple(part.members for part in found), count)


@dataclass(frozen=True, slots=True)
class _Part:
    """Some of the targets, by their positions, their fit, and how many ridges were fitted for it first."""

    members: IntArray
    fit: BandFit
    count: int


def _by_products(
    problem: BandProblem, prior: BetaPrime, noise: GaussianNoise, tol: float, allowance: _Allowance
) -> list[_Part]:
    """By product rules that become finer, each for the targets for which those before were not accurate enough.

    Without those for which none was when the allowance was used up.
    """
    orders = ORDERS[problem.count]
    own, count, angles = problem.prior(prior), 0, problem.count - 1
    box = Box.whole(problem.count)
    if not allowance.takes(orders[0] ** angles):
        return []
    nodes = _at_rule(problem, own, noise, ShareRule.of(box, orders[0]))
    count += len(nodes.fits)
    for _ in range(NARROWINGS if problem.count > 1 else 0):
        narrowed = nodes.needed
        if narrowed.volume > NARROW * box.volume or not allowance.takes(orders[0] ** angles):
            break
        box = narrowed
        nodes = _at_rule(problem, own, noise, ShareRule.of(box, orders[0]))
        count += len(nodes.fits)
    out: list[_Part] = []
    members, error = np.arange(problem.design.q), np.zeros(problem.design.q)
    coarse = _Summary.of(problem, nodes)
    for order in orders[1:]:
        if not allowance.takes(order**angles):
            return out
        # The rotations of a rule take memory: those of one at a time are kept.
        del nodes
        nodes = _at_rule(problem, own, noise, ShareRule.of(coarse.needed, order))
        count += len(nodes.fits)
        fine = _Summary.of(problem, nodes)
        change = _difference(problem, coarse, fine)
        # An error that falls geometrically: that of the coarser rule is about the change.
        error = np.minimum(change, change ** (order / coarse.rule.order))
        in_logs = _off(coarse, fine, True) < _off(coarse, fine, False)
        done = (error <= tol) | (order == orders[-1])
        for some in (done & in_logs, done & ~in_logs):
            at = np.flatnonzero(some)
            if at.size:
                which = (problem, nodes) if some.all() else (problem.of_targets(at), nodes.of_targets(at))
                part = which[1].collected(which[0], own, error[at], error[at] <= tol)
                out.append(_Part(members[at], replace(part, in_logs=bool(in_logs[at[0]])), count))
                count = 0
        if done.all():
            return out
        rest = np.flatnonzero(~done)
        problem, members, coarse = problem.of_targets(rest), members[rest], fine.of_targets(rest)
    return [_Part(members, nodes.collected(problem, own, error, error <= tol), count)]


def _by_polynomials(
    problem: BandProblem, prior: BetaPrime, noise: GaussianNoise, tol: float, allowance: _Allowance
) -> tuple[list[_Part], _Tried]:
    """By polynomials of rising degree in all shares, then in parts of them, where densities are narrow.

    Also returns those of the targets for which none was accurate enough, if there is memory for product rules;
    otherwise these have the polynomials of the largest degree, with their error.
    """
    side, bands = len(problem.products[0]), problem.count
    most = max(
        d
        for d in range(FIRST_DEGREE, LARGEST[bands] + 1)
        if d == FIRST_DEGREE or has_room(terms_of(bands, d), side, MOST_NUMBERS)
    )
    own = problem.prior(prior)
    sketch = problem.design.transposed_times(
        np.random.default_rng(SEED).normal(size=(len(problem.design.y), DIRECTIONS)) / np.sqrt(DIRECTIONS)
    )

    def rising(some: IntArray, low: FloatArray) -> _Rising:
        return _Rising(problem.of_targets(some), own, noise, tol, sketch, some, low, most, allowance)

    whole = rising(np.arange(problem.design.q), np.zeros(bands))
    out, kept = whole.rise(TURN[bands]), 0
    tried, parts = [whole], parts_of(whole.known, whole.rule) if whole.members.size else []
    for low, which in sorted(parts, key=lambda part: -part[1].size) if allowance.limited else parts:
        if has_room(kept, side, LADDER_NUMBERS) and allowance.left >= least_of(bands):
            part = rising(whole.members[which], low)
            found = part.rise(LARGEST_OF_PARTS[bands])
            out, kept = out + found, kept + max((each.fit.n_nodes for each in found), default=0)
            held = sum(len(each.rule.shares) for each in [*tried, part])
            if allowance.limited and part.members.size and has_room(kept + held, side, LADDER_NUMBERS):
                tried.append(part)
    done = np.concatenate([np.zeros(0, dtype=np.intp), *(part.members for part in out)])
    whole.keep(np.flatnonzero(~np.isin(whole.members, done)))
    out += whole.rise(LARGEST[bands])
    ladder = has_room(ORDERS[bands][-1] ** (bands - 1), side, LADDER_NUMBERS)
    if whole.members.size and not ladder:
        if allowance.limited:
            out += _Tried(tried).nearest(whole.members)
        else:
            out.append(whole.collected(np.arange(whole.members.size)))
        whole.keep(np.zeros(0, dtype=np.intp))
    return out, _Tried(tried)


@dataclass(frozen=True, slots=True)
class _Tried:
    """Polynomials that were not accurate enough for some of the targets: in all shares, then in parts of them."""

    rising: list[_Rising]

    @property
    def members(self) -> IntArray:
        """Positions of the targets."""
        return self.rising[0].members

    def nearest(self, members: IntArray) -> list[_Part]:
        """The fits of some of the targets, each by the polynomials whose error is the least, cautiously estimated."""
        tried = [each for each in self.rising if np.isin(each.members, members).any()]
        if not tried:
            return []
        error = np.full((len(tried), members.size), np.inf)
        for own, each in zip(error, tried, strict=True):
            each.keep(np.flatnonzero(np.isin(each.members, members)))
            each.be_cautious()
            own[np.searchsorted(members, each.members)] = each.found.error
        best = error.argmin(axis=0)
        chosen = [np.flatnonzero(np.isin(each.members, members[best == i])) for i, each in enumerate(tried)]
        return [each.collected(which) for each, which in zip(tried, chosen, strict=True) if which.size]


@dataclass(slots=True)
class _Allowance:
    """The decompositions that may be made."""

    most: int | None
    made: int = 0

    @property
    def limited(self) -> bool:
        """Whether there is a limit."""
        return self.most is not None

    @property
    def left(self) -> float:
        """How many more."""
        return np.inf if self.most is None else self.most - self.made

    def takes(self, count: int) -> bool:
        """Whether there are so many more, which are then made."""
        if count > self.left:
            return False
        self.made += count
        return True


def least_of(bands: int) -> int:
    """Decompositions, at most, before anything is known of a part of the shares: at its edges and for one degree."""
    return len(EDGES) * len(edges(np.zeros(bands), EDGES[0])) + terms_of(bands, FIRST_DEGREE)


def has_room(nodes: int, side: int, numbers: int) -> bool:
    """Whether the singular vectors of so many nodes are no more than so many numbers."""
    return nodes * side**2 <= numbers


class _Rising:
    """Polynomials of rising degree in a part of the shares, for the targets for which none was accurate so far.

    Parameters
    ----------
    problem : BandProblem
        Of these targets.
    prior : BetaPrime
        Of the ridges.
    noise : GaussianNoise
    tol : float
    sketch : (p, c) array
        See :meth:`Known.of`.
    members : int array
        Positions of the targets among all.
    low : (K,) array
        Least shares of the part.
    most : int
        Degree up to which singular vectors of nodes are kept.
    """

    def __init__(
        self,
        problem: BandProblem,
        prior: BetaPrime,
        noise: GaussianNoise,
        tol: float,
        sketch: FloatArray,
        members: IntArray,
        low: FloatArray,
        most: int,
        allowance: _Allowance,
    ) -> None:
        self.allowance = allowance
        self.problem, self.prior, self.noise, self.tol = problem, prior, noise, tol
        self.sketch, self.members, self.most = sketch, members, most
        self.inner = LIMITED_INNER if allowance.limited else LOOSE_INNER
        self.uncounted, self.closed = 0, False
        self.at_edges = self._at_edges(low)
        self.rule = PolynomialRule.of(FIRST_DEGREE, low, closed=self.closed)
        self.known, batch = self._at(self.rule)
        self.batches = [batch]
        allowance.takes(self.uncounted)
        self.found = self._summed()

    def _at_edges(self, low: FloatArray) -> FloatArray:
        """Log integrals at the points of :func:`edges` for each of `EDGES` in turn, (E, q).

        Where decompositions are limited, only targets that feel them have those at the smallest shares. If none does,
        nodes may be at shares that stand for none: X'X of the other bands is decomposed in less time.
        """
        least, more = (edges(low, edge) for edge in EDGES)
        nodes = self._nodes(self.problem, more)
        out = np.vstack([nodes.log_integrals] * len(EDGES))
        some = _felt(nodes, EDGES[1]) if self.allowance.limited else np.ones(self.members.size, dtype=bool)
        if some.any():
            problem = self.problem if some.all() else self.problem.of_targets(np.flatnonzero(some))
            out[: len(least), some] = self._nodes(problem, least).log_integrals
        self.closed = self.problem.xty is not None and not some.any()
        return out

    def _nodes(self, problem: BandProblem, shares: FloatArray) -> _Nodes:
        """The ridges at shares (M, K)."""
        self.uncounted += len(shares)
        none = EDGES[0] if self.closed else 0.0
        return _at_rule(problem, self.prior, self.noise, ShareRule.at(shares), self.inner, none)

    def rise(self, last: int) -> list[_Part]:
        """Degrees up to one of them, until all targets are done; those that are, and are left out from then on."""
        out = []
        while True:
            done = self.found.error <= self.tol
            if done.any():
                out.append(self.collected(np.flatnonzero(done)))
                self.keep(np.flatnonzero(~done))
            first = len(self.rule.shares)
            count = terms_of(self.problem.count, self.rule.degree + 1) - first
            if not self.members.size or self.rule.degree >= last or not self.allowance.takes(count):
                return out
            self.rule = PolynomialRule.of(self.rule.degree + 1, self.rule.low, closed=self.closed)
            new, batch = self._at(replace(self.rule, shares=self.rule.shares[first:]))
            self.known, self.batches = self.known.with_more(new), [*self.batches, batch]
            self.found = self._summed()

    def be_cautious(self) -> None:
        """Let errors also tell what more decompositions might change."""
        more = unseen(self.known, self.rule, self.at_edges)
        self.found = replace(self.found, error=np.maximum(self.found.error, more))

    def collected(self, which: IntArray) -> _Part:
        """The fit of some of the targets, by their positions among those that are left."""
        of_nodes = [fit for each in self.batches for fit in each.of(self.members[which]).fits]
        found = self.found.of_targets(which)
        fit = _collected(
            self.problem.of_targets(which),
            self.prior,
            self.rule,
            of_nodes,
            found.weight,
            found.log_integral,
            found.error,
            found.error <= self.tol,
        )
        count, self.uncounted = self.uncounted, 0
        return _Part(self.members[which], replace(fit, log_evidence=self.known.log_integral[:, which]), count)

    def keep(self, which: IntArray) -> None:
        """Leave out all other targets."""
        self.problem, self.known = self.problem.of_targets(which), self.known.of_targets(which)
        self.members, self.at_edges = self.members[which], self.at_edges[:, which]
        self.found = self.found.of_targets(which)
        # What is held is at most twice what is needed, and copied no more often.
        self.batches = [
            each.of(self.members) if 2 * which.size < each.members.size else each for each in self.batches
        ]

    def _summed(self) -> Summed:
        return by_degrees(self.known, self.rule, self.at_edges, self.tol, self.most)

    def _at(self, rule: PolynomialRule) -> tuple[Known, _Batch]:
        shares, kept = rule.shares, rule.degree <= self.most
        nodes = self._nodes(self.problem, shares)
        known = Known.of(self.problem, shares, nodes.fits, nodes.log_integrals, self.sketch)
        of_nodes = [replace(fit, quadrature=None, spectrum=fit.spectrum if kept else lean(fit)) for fit in nodes.fits]
        return known, _Batch(self.members, of_nodes)


def _felt(nodes: _Nodes, share: float) -> BoolArray:
    """Targets for which bands with so small a share may differ from none at all, (q,).

    They do not where, at all totals that are not unlikely, such bands add next to nothing to the variance of the
    noise in any direction. What a band adds is at most what all bands together add, over its share of them.
    """
    shares, tops = nodes.rule.shares, np.array([fit.spectrum.top**2 for fit in nodes.fits])
    most = (tops[:, None] / shares).min(axis=0)
    added = np.where(shares < 2 * share, shares * most, 0.0).sum(axis=1) / tops
    out = np.zeros(nodes.log_integrals.shape[1], dtype=bool)
    for ratio, fit in zip(added, nodes.fits, strict=True):
        mixture = fit.mixture
        largest = np.where(mixture.weight > UNLIKELY, mixture.log_t2, -np.inf).max(axis=0)
        out |= largest + np.log(ratio) > np.log(UNFELT)
    return out


def lean(fit: RidgeFit) -> Spectrum:
    """The rotation without the singular vectors."""
    return replace(fit.spectrum, right=None, left=None)


@dataclass(frozen=True, slots=True)
class _Batch:
    """Ridges at some nodes, of some of the targets, by their positions in ascending order."""

    members: IntArray
    fits: list[RidgeFit]

    def of(self, members: IntArray) -> _Batch:
        """The same of fewer targets."""
        which = np.searchsorted(self.members, members)
        return _Batch(members, [fit.of_targets(which) for fit in self.fits])


def _fit_sampled(problem: BandProblem, prior: BetaPrime, noise: GaussianNoise, tol: float) -> BandFit:
    """All penalties of many bands integrated out, target by target."""
    q = problem.design.q
    found = [_one_sampled(problem.of_targets(slice(i, i + 1)), prior, noise, tol) for i in range(q)]
    if q == 1:
        return found[0]
    # Nodes are fitted to all targets, and count for their own.
    rules = [fit.rule for fit in found if isinstance(fit.rule, ShareRule)]
    shares = np.vstack([rule.shares for rule in rules])
    log_weight = np.full((len(shares), q), -np.inf)
    start = 0
    for i, rule in enumerate(rules):
        log_weight[start : start + len(rule.shares), i] = rule.log_weight
        start += len(rule.shares)
    angles = np.vstack([rule.angles for rule in rules])
    rule = ShareRule(rules[0].box, 0, angles, shares, log_weight)
    nodes = _at_rule(problem, problem.prior(prior), noise, rule)
    error, count = np.concatenate([fit.error for fit in found]), sum(fit.n_iter for fit in found) + len(shares)
    out = nodes.collected(problem, problem.prior(prior), error, error <= SAMPLED * tol)
    return replace(out, n_iter=count)


def _one_sampled(problem: BandProblem, prior: BetaPrime, noise: GaussianNoise, tol: float) -> BandFit:
    own, likelihood = problem.prior(prior), noise.of(problem.design)
    if noise.vanishes(problem.design).any():
        raise ExactFitError(np.ones(1, dtype=bool))

    def log_density(shares: FloatArray) -> FloatArray:
        return _at_rule(problem, own, noise, ShareRule.at(shares)).log_integrals[:, 0]

    start = maximise(
        Evidence.of(problem, likelihood, 0),
        problem.size,
        partial(log_prior_of_total, _power(problem, prior, "tau")),
    )
    log_w = np.maximum(start.theta + np.log(problem.size), -6.0)
    sampled = SampledShares(fitted_proposal(log_density, np.exp(log_w - logsumexp(log_w)), SEED), SEED)
    rules: list[ShareRule] = []
    fits: list[RidgeFit] = []
    error, most = np.ones(1), MOST_NUMBERS // max(problem.design.p * len(problem.products[0]), 1)
    for i, size in enumerate(SIZES):
        if i and (len(fits) + SCRAMBLES * size > most or (error <= SAMPLED * tol).all()):
            break
        rules.append(sampled.more(size))
        fits += _at_rule(problem, own, noise, rules[-1]).fits
        nodes = _Nodes(together(rules), fits)
        error = _error_of_scrambles(problem, nodes, scramble_of(list(SIZES[: i + 1])))
    count = len(fits) + ROUNDS * POINTS
    return replace(nodes.collected(problem, own, error, error <= SAMPLED * tol), n_iter=count)


def _error_of_scrambles(problem: BandProblem, nodes: _Nodes, scramble: FloatArray) -> FloatArray:
    """Largest standard error of the mean over the scrambles, as of :func:`_difference`, (1,)."""
    terms, each = nodes.log_terms[:, 0], range(SCRAMBLES)
    integrals = np.array([logsumexp(terms[scramble == s]) for s in each]) + np.log(SCRAMBLES)
    root = np.sqrt(nodes.rule.shares)
    means, fitted = [], []
    for s in each:
        own = np.flatnonzero(scramble == s)
        part = _Nodes(
            replace(
                nodes.rule,
                angles=nodes.rule.angles[own],
                shares=nodes.rule.shares[own],
                log_weight=nodes.rule.log_weight[own],
            ),
            [nodes.fits[m] for m in own],
        )
        means.append(root[own].T @ part.weight[:, 0])
        fitted.append(
            problem.design.times(_mean_coefficients(problem, part.rule.shares, part.weight, part.fits))[:, 0]
        )
    _, spread = share_moments(nodes.rule, nodes.weight)
    weight = nodes.weight[:, 0]
    noise = sum(w * float(fit.sigma2[0]) for w, fit in zip(weight, nodes.fits, strict=True))
    rank = sum(
        w * float(effective_directions(fit.spectrum, fit.mixture)[0])
        for w, fit in zip(weight, nodes.fits, strict=True)
    )
    apart = np.sqrt((np.stack(fitted).std(axis=0, ddof=1) ** 2).sum() / (noise * max(rank, 1.0)))
    of_shares = (np.stack(means).std(axis=0, ddof=1) / spread[:, 0]).max()
    return np.array([max(integrals.std(ddof=1), of_shares, apart) / np.sqrt(SCRAMBLES)])


def _at_rule(
    problem: BandProblem,
    prior: BetaPrime,
    noise: GaussianNoise,
    rule: ShareRule,
    inner: float = INNER,
    none: float = 0.0,
) -> _Nodes:
    """The ridges at the nodes of a rule; shares of at most `none` stand for none."""
    # One band is an ordinary ridge, to the last bit.
    options = FitOptions(tol=inner, shared_nodes=problem.count > 1, fewest_nodes=inner == LIMITED_INNER)
    fits = []
    for shares in rule.shares:
        design, spectrum = problem.without_least(shares, none, CANCELLED if inner == INNER else LOOSE_CANCELLED)
        fits.append(fit_integrated(design, spectrum, prior, noise, options))
        exact = fits[-1].perfect | noise.vanishes(design)
        if exact.any():
            raise ExactFitError(exact)
    return _Nodes(rule, fits)


def _difference(problem: BandProblem, coarse: _Summary, fine: _Summary) -> FloatArray:
    """The largest change between two rules, for each target (q,)."""
    integral = np.abs(logsumexp(coarse.log_terms, axis=0) - logsumexp(fine.log_terms, axis=0))
    (first, _), (second, spread) = (share_moments(each.rule, each.weight) for each in (coarse, fine))
    shares = (np.abs(first - second) / spread).max(axis=0)
    change = problem.design.times(coarse.coefficients - fine.coefficients)
    with np.errstate(invalid="ignore", divide="ignore"):
        fitted = np.sqrt((change**2).sum(axis=0) / (fine.noise * np.maximum(fine.rank, 1.0)))
    density = np.min([_off(coarse, fine, in_logs) for in_logs in (False, True)], axis=0)
    spreads = np.abs(_log_spreads(coarse) - _log_spreads(fine)).max(axis=0)
    out: FloatArray = np.maximum.reduce([integral, shares, density, spreads, np.where(fine.noise > 0, fitted, 0.0)])
    return out


def _off(coarse: _Summary, fine: _Summary, in_logs: bool) -> FloatArray:
    """Error in total variation of the density of the shares interpolated between the nodes of a coarse rule, (q,).

    It is half the mean absolute error of the log density.
    """
    if coarse.rule.order == 1:
        return np.zeros(coarse.log_integrals.shape[1])
    between = coarse.rule.interpolated(fine.rule, coarse.log_integrals, in_logs=in_logs)
    out: FloatArray = 0.5 * (fine.weight * np.abs(between - fine.log_integrals)).sum(axis=0)
    return out


def _log_spreads(nodes: _Summary) -> FloatArray:
    """Logs of the root mean square of the standard deviation of each band's coefficients, (K, q).

    It is that of coefficients of which the data say nothing; 0 where it does not exist.
    """
    terms = nodes.log_terms
    logs: FloatArray = 0.5 * logsumexp((terms - logsumexp(terms, axis=0))[:, None] + nodes.log_variances, axis=0)
    return np.where(np.isfinite(logs), logs, 0.0)


def _mean_coefficients(
    problem: BandProblem, shares: FloatArray, weights: FloatArray, fits: list[RidgeFit]
) -> FloatArray:
    """Posterior means of the standardised coefficients in units of the targets' norms, (p, q), at nodes (M, …)."""
    out = np.zeros((problem.design.p, problem.design.q))
    for point, weight, fit in zip(shares, weights, fits, strict=True):
        factor = problem.factors(point)
        part = BandPosterior(
            problem.design, problem.band, factor[None], (fit.spectrum,), (fit.mixture,), weight[None]
        )
        own = part.parts[0]
        out += weight * factor[problem.band][:, None] * own._standardized()  # noqa: SLF001
    return out


def _collected(
    problem: BandProblem,
    prior: BetaPrime,
    rule: ShareRule | PolynomialRule,
    fits: list[RidgeFit],
    weight: FloatArray,
    log_integral: FloatArray,
    error: FloatArray,
    converged: BoolArray,
) -> BandFit:
    """The fit by the ridges at the nodes of a rule and their weights (M, q)."""
    keep = _kept([fit.spectrum for fit in fits], weight, problem.design.p)
    kept = weight[keep] / weight[keep].sum(axis=0)
    factors = np.stack([problem.factors(rule.shares[m]) for m in keep])
    posterior = BandPosterior(
        problem.design,
        problem.band,
        factors,
        tuple(fits[m].spectrum for m in keep),
        tuple(fits[m].mixture for m in keep),
        kept,
    )
    inner = np.stack([fit.converged for fit in fits])
    return BandFit(
        posterior=posterior,
        size=problem.size,
        rule=rule,
        shares=rule.shares,
        weight=weight,
        spectra=tuple(lean(fit) for fit in fits),
        prior=prior,
        log_integral=log_integral,
        sigma2=np.einsum("mt,mt->t", kept, np.stack([fits[m].sigma2 for m in keep])),
        df=np.einsum(
            "mt,mt->t", kept, np.stack([effective_directions(fits[m].spectrum, fits[m].mixture) for m in keep])
        ),
        error=np.where(error <= HOPELESS, error, np.inf),
        converged=converged & (inner | (weight <= NEGLIGIBLE)).all(axis=0),
        n_iter=len(fits),
        loss=_largest_loss([fits[m] for m in keep]),
    )


def _kept(spectra: list[Spectrum], weight: FloatArray, p: int) -> IntArray:
    """The nodes that matter by their weights (M, q), and one of all p columns at least, which exports need."""
    keep = np.asarray((weight > NEGLIGIBLE).any(axis=1))
    every = [m for m, spectrum in enumerate(spectra) if spectrum.p == p]
    if not keep[every].any():
        keep[every[0]] = True
    return np.flatnonzero(keep)


def _largest_loss(fits: list[RidgeFit]) -> float:
    """The largest loss of several ridges: only of those for which bounds do not tell that another's is larger."""
    out = 0.0
    for fit in sorted(fits, key=lambda each: each.spectrum.smallest):
        if not fit.loses_less(out):
            out = max(out, fit.loss)
    return out


def fit_given(problem: BandProblem, noise: GaussianNoise, log_variance: FloatArray) -> BandFit:
    """Given logs of the variances ``t_k`` (K,) on the user's scale of the prior, the noise integrated out."""
    log_w = log_variance + np.log(problem.size) + 2 * np.log(problem.design.common_scale)
    return _at_points(problem, noise, log_w[None], np.ones((1, problem.design.q)))


def fit_mode(
    problem: BandProblem, prior: BetaPrime | None, noise: GaussianNoise, parameterization: Parameterization
) -> BandFit:
    """The variances at the mode of their posterior, or of their likelihood; uncertainty is conditional on them.

    Parameters
    ----------
    problem : BandProblem
    prior : BetaPrime or None
        None for the likelihood alone, the noise variance integrated out: restricted maximum likelihood.
    noise : GaussianNoise
    parameterization : {"tau2", "tau"}
        The mode is that of a density in the total of the bands or its root, and in the angles of their shares.
    """
    likelihood, q = noise.of(problem.design), problem.design.q
    vanishes = noise.vanishes(problem.design)
    if vanishes.any():
        raise ExactFitError(vanishes)
    if prior is not None and not likelihood.known:
        likelihood = replace(likelihood, count=likelihood.count + 2)
    modes = []
    for target in range(q):
        evidence = Evidence.of(problem, likelihood, target)
        modes.append(
            maximise(evidence, problem.size, partial(log_prior_of_total, _power(problem, prior, parameterization)))
        )
    log_w = np.stack([mode.theta + np.log(problem.size) for mode in modes])
    fit = _at_points(problem, noise, log_w, np.eye(q))
    scale2 = np.array([mode.rss for mode in modes]) / likelihood.count
    if likelihood.variance is not None:
        scale2 = likelihood.variance
    mixtures = tuple(
        replace(mixture, scale2=np.broadcast_to(scale2, mixture.scale2.shape).copy(), df=np.inf)
        for mixture in fit.posterior.mixtures
    )
    return replace(
        fit,
        posterior=replace(fit.posterior, mixtures=mixtures),
        sigma2=scale2,
        converged=np.array([mode.converged for mode in modes]),
        n_iter=sum(mode.n_iter for mode in modes),
    )


def _power(
    problem: BandProblem, prior: BetaPrime | None, parameterization: Parameterization
) -> tuple[float, float, float]:
    if prior is None:
        return 0.0, 0.0, 0.0
    return power_of_total(prior, problem.design, float(np.log(problem.total)), parameterization)


def power_of_total(
    prior: BetaPrime, design: Design, log_total: float, parameterization: Parameterization
) -> tuple[float, float, float]:
    """Powers of w and of 1 + w in the density of the mode, and the log of the unit of w.

    `log_total` is the log of the mean square of the fit of all columns with coefficients of variance 1.
    """
    unit = 0.0
    if prior.scale is not None:
        unit = log_total + float(np.log(prior.scale)) + 2 * float(np.log(design.common_scale))
    return prior.a - (1.0 if parameterization == "tau2" else 0.5), prior.a + prior.b, unit


def log_prior_of_total(power: tuple[float, float, float], log_w: FloatArray) -> tuple[float, FloatArray]:
    """Log density of the total in terms of the logs of the bands' own (K,), and its gradient."""
    first, second, unit = power
    total = float(logsumexp(log_w)) - unit
    value = first * total - second * float(np.logaddexp(0.0, total))
    return value, (first - second * float(expit(total))) * np.exp(log_w - unit - total)


def _at_points(problem: BandProblem, noise: GaussianNoise, log_w: FloatArray, weight: FloatArray) -> BandFit:
    """At logs of the bands' totals (M, K), given the weights (M, q) of these points."""
    fits, shares, totals = [], [], []
    for point in log_w:
        total = float(logsumexp(point))
        share = np.exp(point - total) if np.isfinite(total) else np.full(point.size, 1.0 / point.size)
        design, spectrum = problem.at(share)
        with np.errstate(over="ignore"):
            lam = np.full(problem.design.q, problem.total * np.exp(-total))
        fits.append(fit_fixed(design, spectrum, BetaPrime(), noise, FitOptions(lam=lam)))
        shares.append(share)
        totals.append(total)
    q = problem.design.q
    posterior = BandPosterior(
        problem.design,
        problem.band,
        np.stack([problem.factors(share) for share in shares]),
        tuple(fit.spectrum for fit in fits),
        tuple(fit.mixture for fit in fits),
        weight,
    )
    return BandFit(
        posterior=posterior,
        size=problem.size,
        rule=None,
        shares=np.stack(shares),
        weight=weight,
        spectra=tuple(lean(fit) for fit in fits),
        prior=BetaPrime(),
        log_integral=np.zeros(q),
        sigma2=np.einsum("mt,mt->t", weight, np.stack([fit.sigma2 for fit in fits])),
        df=np.einsum("mt,mt->t", weight, np.stack([effective_directions(f.spectrum, f.mixture) for f in fits])),
        error=np.zeros(q),
        converged=np.ones(q, dtype=bool),
        n_iter=0,
        loss=max(fit.loss for fit in fits),
        log_w=np.array(totals),
    )
