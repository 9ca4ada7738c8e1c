"""What states that no walker has visited can add: by the neighbours of those that were visited.

Errors by the differences between walkers leave out what all of them have missed: two copies of a column, both in
under a wide slab, may have a probability of 1e-6 and a variance that is a billion times that of one alone. A
neighbour of a visited set, with one unit more or less, or one in place of another, has a known probability relative
to it, and known moments. Neighbours are taken together by the rare event that they share: a unit that is hardly ever
in is in, or one that is hardly ever out is out. Sets that lie apart (:mod:`pybayesridge.selection.summits`) have
known probabilities by the evidence. Where a set hardly changes, its coefficients do with the node of log g, whose
probabilities given the set are known: nodes that the walkers hardly saw add what they would have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np
from scipy.special import expit, logsumexp

from pybayesridge._types import BoolArray, FloatArray, IntArray
from pybayesridge.selection.collapsed import FLOOR, log_joints_by_size, of_left_over, spectra_by_size
from pybayesridge.selection.grid import Grid
from pybayesridge.selection.problem import Problem
from pybayesridge.selection.states import mean_noise
from pybayesridge.selection.traces import Trace, heaviest, log_joints

MOST_SETS = 64
"""Visited sets whose neighbours are looked at, the most frequent ones."""

FEWEST_SETS = 4

MOST_NATS = 300.0
"""By which a neighbour is more probable than a set, at most: then that set was a start."""

WORK = 2e7
"""Multiplications for all neighbours together, about: fewer sets are looked at if each takes many."""

MOST_NUMBERS = 4_000_000
"""Numbers of units times columns whose moments neighbours change."""

EDGE = 0.05
"""Probability up to which a unit is hardly ever out: what takes its place is then looked at."""

RARE = 0.01
"""Probability up to which a unit is hardly ever in, or out, so that few sets can be most of it."""

PAIRS = 1_000_000
"""Pairs of units that come in together, of all sets: fewer sets are looked at if each has many."""

UNKNOWN = 3.0
"""What n draws do not show has at most the probability 3 / n, with 95 % confidence: sets with a unit in that are no
neighbours of what was visited may add so much of its coefficient's variance, or of the slab's."""

MOST_KNOWN = 100.0
"""Draws with a unit in from which this is left out, if the pairs of it with others were looked at."""

MOST_AROUND = 400
"""Sets, at most, that differ from those apart in one unit, or in two, and are looked at."""

ENOUGH = 10.0
"""An event that was to be seen so often in as many independent draws as the walks are worth is known by these."""


@dataclass(frozen=True, slots=True)
class Unseen:
    """Standard errors by what was not visited.

    Attributes
    ----------
    mean, square : (d,) arrays
        Of coefficients' means, and of their mean squares about these.
    prob : (G,) array
        Of inclusion probabilities.
    log_g, noise_var : float
        Of the means of log g and of s2.
    """

    mean: FloatArray
    square: FloatArray
    prob: FloatArray
    log_g: float = 0.0
    noise_var: float = 0.0


@dataclass(frozen=True, slots=True)
class SetAtNode:
    """A set of units at a node of log g.

    Attributes
    ----------
    columns : (m,) int array
        Unit by unit.
    inverse : (m, m) array
        ``(X_A'X_A + k)^-1``.
    coef : (m,) array
    left : float
        R.
    log_joint : float
        Log p(y, A, node) up to a constant.
    """

    units: IntArray
    node: int
    columns: IntArray
    inverse: FloatArray
    coef: FloatArray
    left: float
    log_joint: float


@dataclass(frozen=True, slots=True)
class _Births:
    """The sets with one unit more.

    Attributes
    ----------
    units : (g,) int array
        The units that come in, of q columns each.
    columns : (g, q) int array
        Theirs.
    log_joint : (g,) array
    coef, var : (m, g) arrays
        Moments of the coefficients that were in.
    own_coef, own_var : (g, q) arrays
        Of those that come in.
    moved : (m, g, q) array
        ``(X_A'X_A + k)^-1 X_A'X`` of the columns that come in.
    left : (g,) array
        R.
    """

    units: IntArray
    columns: IntArray
    log_joint: FloatArray
    coef: FloatArray
    var: FloatArray
    own_coef: FloatArray
    own_var: FloatArray
    moved: FloatArray
    left: FloatArray


class Neighbours:
    """Sets of a problem and those next to them."""

    def __init__(self, problem: Problem, grid: Grid) -> None:
        self.problem, self.grid = problem, grid
        odds = grid.unit_odds
        self.open = np.ones(problem.units.n, dtype=bool) if odds is None else np.isfinite(odds)
        self.odds = np.zeros(problem.units.n) if odds is None else np.where(self.open, odds, 0.0)

    def log_prior(self, size: int, node: int) -> float:
        """Log prior of a set of so many units at a node, without the odds of its units."""
        return float(self.grid.log_size(size)[node])

    def noise(self, left: FloatArray, node: int) -> FloatArray:
        """Mean of s2 where R is `left`."""
        given = self.grid.noise_var
        return mean_noise(left, self.problem.nu) if given is None else np.full(left.shape, given[node])

    def log_fit(self, left: FloatArray, node: int) -> FloatArray:
        """The part of the log likelihood that depends on R."""
        noise = None if self.grid.noise_var is None else self.grid.noise_var[node : node + 1]
        return of_left_over(self.problem, noise, left)

    def at(self, units: IntArray, node: int) -> SetAtNode:
        """A set, factorised."""
        return self.at_each([units], [node])[0]

    def at_each(self, sets: Sequence[IntArray], nodes: Sequence[int]) -> list[SetAtNode]:
        """Several sets, each at a node, factorised: those of equally many columns at once."""
        problem, grid = self.problem, self.grid
        columns = [problem.units.columns(units) for units in sets]
        by_size: dict[int, list[int]] = {}
        for i, own in enumerate(columns):
            by_size.setdefault(own.size, []).append(i)
        out: dict[int, SetAtNode] = {}
        for size, some in by_size.items():
            of_each, node = np.stack([columns[i] for i in some]), np.array([nodes[i] for i in some], dtype=np.intp)
            k, cross = grid.k[node], problem.cross[of_each]
            matrix = problem.blocks(of_each) + k[:, None, None] * np.eye(size)
            inverse = np.asarray(np.linalg.inv(matrix), dtype=np.float64)
            coef = (inverse @ cross[:, :, None])[:, :, 0]
            explained = (cross[:, None, :] @ coef[:, :, None])[:, 0, 0]
            left = np.maximum(problem.yy - explained, FLOOR * problem.yy)
            volume = 0.5 * (size * np.log(k) - np.linalg.slogdet(matrix)[1])
            for i, own, b, r, more in zip(some, inverse, coef, left.tolist(), volume.tolist(), strict=True):
                units, at = sets[i], int(nodes[i])
                value = more + float(self.log_fit(np.array([r]), at)[0])
                value += self.log_prior(units.size, at) + float(self.odds[units].sum())
                out[i] = SetAtNode(units, at, columns[i], own, b, r, value)
        return [out[i] for i in range(len(sets))]

    def births(self, of: SetAtNode, products: FloatArray) -> list[_Births]:
        """All units that may come in, those of as many columns together; `products` (m, d) are ``X_A'X``."""
        units, k = self.problem.units, float(self.grid.k[of.node])
        out = self.open.copy()
        out[of.units] = False
        prior = self.log_prior(of.units.size + 1, of.node) if out.any() else 0.0
        prior -= self.log_prior(of.units.size, of.node)
        found = []
        for width in np.unique(units.sizes[out]).tolist():
            own = np.flatnonzero(out & (units.sizes == width))
            columns = units.order[units.start[own][:, None] + np.arange(width)]
            cross = products[:, columns]
            moved = np.tensordot(of.inverse, cross, axes=1)
            if width == 1:
                free = np.maximum(self.problem.diag[columns] + k - (cross * moved).sum(axis=0), k)
                inverse, log_det = 1.0 / free[:, :, None], np.log(free[:, 0])
            else:
                matrix = self.problem.blocks(columns) + k * np.eye(width)
                matrix = matrix - np.einsum("agq,agr->gqr", cross, moved)
                inverse, log_det = np.linalg.inv(matrix), np.linalg.slogdet(matrix)[1]
            right = self.problem.cross[columns] - np.einsum("agq,a->gq", cross, of.coef)
            own_coef = (inverse @ right[:, :, None])[:, :, 0] if width > 1 else inverse[:, :, 0] * right
            left = np.maximum(of.left - (right * own_coef).sum(axis=1), FLOOR * self.problem.yy)
            noise = self.noise(left, of.node)
            value = of.log_joint + prior + self.odds[own] + 0.5 * (width * np.log(k) - log_det)
            value += self.log_fit(left, of.node) - self.log_fit(np.array([of.left]), of.node)
            if width == 1:
                spread = moved[:, :, 0] ** 2 * inverse[:, 0, 0]
            else:
                spread = np.einsum("agq,gqr,agr->ag", moved, inverse, moved)
            found.append(
                _Births(
                    own,
                    columns,
                    value,
                    of.coef[:, None] - np.einsum("agq,gq->ag", moved, own_coef),
                    (np.diagonal(of.inverse)[:, None] + spread) * noise,
                    own_coef,
                    np.einsum("gqq->gq", inverse) * noise[:, None],
                    moved,
                    left,
                )
            )
        return found

    def deaths(self, of: SetAtNode) -> FloatArray:
        """Log p(y, A, node) without each of the set's units; minus infinity without those that are always in."""
        sizes = self.problem.units.sizes[of.units]
        prior = self.log_prior(max(of.units.size - 1, 0), of.node) - self.log_prior(of.units.size, of.node)
        if self.problem.units.single:
            own = np.diagonal(of.inverse)
            log_det, more = np.log(own), of.coef**2 / own
        else:
            parts = [slice(end - size, end) for size, end in zip(sizes, np.cumsum(sizes), strict=True)]
            log_det = np.array([np.linalg.slogdet(of.inverse[own, own])[1] for own in parts])
            more = np.array([of.coef[own] @ np.linalg.solve(of.inverse[own, own], of.coef[own]) for own in parts])
        gain = self.log_fit(of.left + more, of.node) - self.log_fit(np.array([of.left]), of.node)
        value = of.log_joint + prior - self.odds[of.units] + gain
        value -= 0.5 * (log_det + sizes * np.log(self.grid.k[of.node]))
        return np.where(self.open[of.units], value, -np.inf)

    def pairs(
        self, of: SetAtNode, born: _Births, products: FloatArray, first: IntArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Probabilities of single columns (f, g) once another one is in, and their coefficients' moments then.

        Rows belong to the one that came in before, `first` (f,) of those that may; its own entry is as if it had not.
        """
        problem, node, k = self.problem, of.node, float(self.grid.k[of.node])
        at, own = born.columns[:, 0], (np.arange(first.size), first)
        cross, moved = products[:, at], born.moved[:, :, 0]
        shared = problem.stacked(at[first])[:, at]
        shared -= cross[:, first].T @ moved
        shared[own] = 0.0
        free = np.maximum(problem.diag[at] - (cross * moved).sum(axis=0) + k, k)
        right = problem.cross[at] - of.coef @ cross
        after = shared**2
        after /= free[first, None]
        np.maximum(np.subtract(free, after, out=after), k, out=after)
        coef = shared
        coef *= (right / free)[first, None]
        np.subtract(right, coef, out=coef)
        coef /= after
        left = coef**2
        left *= after
        np.maximum(np.subtract(born.left[first, None], left, out=left), FLOOR * problem.yy, out=left)
        left[own] = born.left[first]
        # Of each the change by the column that comes in last; of its own entry by the first one.
        log_odds = np.log(after)
        np.subtract(np.log(k), log_odds, out=log_odds)
        log_odds *= 0.5
        log_odds += self.log_fit(left, node)
        size = of.units.size
        one, two = (self.log_prior(min(size + n, problem.units.n), node) for n in (1, 2))
        log_odds -= self.log_fit(born.left[first], node)[:, None]
        log_odds += two - one + self.odds[born.units]
        log_odds[own] = born.log_joint[first] - of.log_joint
        return expit(log_odds), coef, self.noise(left, node) / after


def unseen(
    problem: Problem,
    grid: Grid,
    trace: Trace,
    prob: FloatArray,
    mean: FloatArray,
    var: FloatArray,
    draws: float,
    apart: Sequence[IntArray] = (),
) -> Unseen:
    """What rare events can add to the errors.

    Parameters
    ----------
    problem : Problem
    grid : Grid
    trace : Trace
        The states that were visited.
    prob : (G,) array
        Inclusion probabilities.
    mean, var : (d,) arrays
        Of the coefficients.
    draws : float
        Independent ones that the walks are worth.
    apart : sequence of int arrays
        Sets that may lie apart from what was visited.
    """
    d, units, draws = problem.d, problem.units, max(draws, 1.0)
    next_to = Neighbours(problem, grid)
    m = float(trace.sizes.mean()) * d / max(units.n, 1)
    most = int(np.clip(WORK / max((m + 1.0) ** 2 * d, 1.0), FEWEST_SETS, MOST_SETS))
    found = heaviest(trace, np.arange(trace.n), most)
    total = sum(share for _, _, share in found)
    where = np.array([at for _, at, _ in found], dtype=np.intp)
    visited = next_to.at_each(trace.sets_of(where), trace.node[where].tolist())
    sets = [(one, share / total) for one, (_, _, share) in zip(visited, found, strict=True)]
    events = _Events(next_to, mean, prob, _looked_at(problem, [one for one, _ in sets], prob))
    # Pairs of single columns that come in together, where X'X is held.
    in_pairs = problem.gram is not None and events.columns.size == d
    n_paired = int(np.clip(PAIRS / max(d**2, 1), 1, len(sets))) if in_pairs else 0
    # With two degrees of freedom or fewer variances are infinite.
    with np.errstate(invalid="ignore"):
        for one, share in sets:
            events.add(one, share)
        seldom = _scale(events.mass, draws) > 0.0
        for one, share in sets[:n_paired]:
            events.add_pairs(one, share, seldom)
        by_event = events.errors(draws)
        slab = float(sum(share * np.exp(grid.log_g[one.node]) * events.noise(one) for one, share in sets))
        inside = prob[units.of_column] * draws
        of_mean, of_square = _of_the_rest(inside, var, slab, draws)
    known = (inside >= MOST_KNOWN) & (units.sizes[units.of_column] == 1) & in_pairs
    of_mean, of_square = np.where(known, 0.0, of_mean), np.where(known, 0.0, of_square)
    of_prob = np.where(next_to.open, _of_other_sets(prob, draws), 0.0)
    log_evidence = float(log_joints(problem, grid, [sets[0][0].units])[0]) - np.log(found[0][2])
    rare = _hardly_seen(next_to, apart, log_evidence, draws)
    distant = _of_sets(next_to, rare, log_evidence, prob, mean, draws)
    nodes = _of_nodes(next_to, [(one.units, share) for one, share in sets], trace.node, mean, draws)
    return Unseen(
        np.sqrt(by_event.mean**2 + of_mean**2 + distant.mean**2 + nodes.mean**2),
        np.sqrt(by_event.square**2 + of_square**2 + distant.square**2 + nodes.square**2),
        np.sqrt(by_event.prob**2 + of_prob**2 + distant.prob**2),
        nodes.log_g,
        nodes.noise_var,
    )


def _of_nodes(
    next_to: Neighbours, sets: Sequence[tuple[IntArray, float]], visited: IntArray, mean: FloatArray, draws: float
) -> Unseen:
    """What nodes of log g add that so many draws hardly show, by some sets of units and their shares.

    As of sets apart, those that are not to be seen once are seen together or not at all, others each for itself.
    """
    problem, grid = next_to.problem, next_to.grid
    units, share = [own for own, _ in sets], np.array([own for _, own in sets])
    parts = spectra_by_size(problem, [problem.units.columns(own) for own in units])
    inside = np.unique(np.concatenate([part.columns.ravel() for part in parts]))
    d, log_g = inside.size, grid.log_g
    mass = np.zeros(log_g.size)
    # Of each node: gaps and squares of the coefficients, log g and s2, times its probability.
    moved: FloatArray = np.zeros((log_g.size, 2 * d + 2))
    usual = log_g[visited].mean()
    of_size = {int(i): (part, at) for part in parts for at, i in enumerate(part.which)}
    for some, joint, left in log_joints_by_size(problem, grid, parts, units):
        weights = share[some, None] * np.exp(joint - logsumexp(joint, axis=1, keepdims=True))
        noises = (
            mean_noise(left, problem.nu) if grid.noise_var is None else np.broadcast_to(grid.noise_var, left.shape)
        )
        for i, weight, noise in zip(some.tolist(), weights, noises, strict=True):
            part, at = of_size[i]
            own, vectors = part.columns[at], part.vectors[at]
            place = np.searchsorted(inside, own)
            inverse = 1.0 / (part.values[at] + grid.k[:, None])
            gap = (part.cross[at] * inverse) @ vectors.T - mean[own]
            square = gap**2 + inverse @ (vectors**2).T * noise[:, None]
            middle = weight @ np.column_stack([square, noise]) / share[i]
            mass += weight
            moved[:, place] += weight[:, None] * gap
            moved[:, d + place] += weight[:, None] * (square - middle[:-1])
            moved[:, -2] += weight * (log_g - usual)
            moved[:, -1] += weight * (noise - middle[-1])
    expected = draws * mass
    never, seldom = expected < 1.0, (expected >= 1.0) & (expected < ENOUGH)
    of_never = moved[never].sum(axis=0) / np.sqrt(max(expected[never].sum(), 1.0))
    out = np.sqrt(of_never**2 + (moved[seldom] ** 2 / expected[seldom, None]).sum(axis=0))
    of_mean, of_square = np.zeros((2, problem.d))
    of_mean[inside], of_square[inside] = out[:d], out[d : 2 * d]
    return Unseen(of_mean, of_square, np.zeros(next_to.open.size), float(out[-2]), float(out[-1]))


def _hardly_seen(next_to: Neighbours, sets: Sequence[IntArray], log_evidence: float, draws: float) -> list[IntArray]:
    """Those of some sets that so many draws hardly show, and what is around them."""
    if not sets:
        return []
    expected = draws * np.exp(np.minimum(log_joints(next_to.problem, next_to.grid, sets) - log_evidence, 0.0))
    return _around(next_to.grid, [units for units, count in zip(sets, expected, strict=True) if count < ENOUGH])


def _around(grid: Grid, sets: Sequence[IntArray]) -> list[IntArray]:
    """Sets and what differs from them in one unit or in two, if that is not too many to look at."""
    found = {units.tobytes(): units for units in sets}
    for n in (1, 2):
        if len(sets) * comb(grid.free.size, n) > MOST_AROUND:
            break
        for units in sets:
            for some in combinations(grid.free.tolist(), n):
                other = np.setxor1d(units, some).astype(np.intp)
                found[other.tobytes()] = other
    return list(found.values())


def _of_sets(
    next_to: Neighbours,
    sets: Sequence[IntArray],
    log_evidence: float,
    prob: FloatArray,
    mean: FloatArray,
    draws: float,
) -> Unseen:
    """What sets with known probabilities add that so many draws hardly show.

    Those that are not to be seen once are seen together or not at all, others each for itself.
    """
    together: FloatArray = np.zeros((2, mean.size))
    alone, of_prob, alone_prob, mass = np.zeros((2, mean.size)), np.zeros(prob.size), np.zeros(prob.size), 0.0
    shares, nodes = _shares_of(next_to, sets, log_evidence)
    seldom = np.flatnonzero(draws * shares < ENOUGH).tolist()
    factorised = next_to.at_each([sets[i] for i in seldom], nodes[seldom].tolist())
    for share, one in zip(shares[seldom].tolist(), factorised, strict=True):
        units, noise = one.units, float(next_to.noise(np.array([one.left]), one.node)[0])
        gap, square, inside = -mean, mean**2, -prob
        gap[one.columns] += one.coef
        square[one.columns] = gap[one.columns] ** 2 + np.diagonal(one.inverse) * noise
        inside[units] += 1.0
        if draws * share < 1.0:
            mass += share
            together += share * np.array([gap, square])
            of_prob += share * inside
        else:
            alone += share / draws * np.array([gap, square]) ** 2
            alone_prob += share / draws * inside**2
    scale = 1.0 / np.sqrt(max(draws * mass, 1.0))
    both = np.sqrt(alone + (scale * together) ** 2)
    return Unseen(both[0], both[1], np.where(next_to.open, np.sqrt(alone_prob + (scale * of_prob) ** 2), 0.0))


def _shares_of(next_to: Neighbours, sets: Sequence[IntArray], log_evidence: float) -> tuple[FloatArray, IntArray]:
    """Posterior probabilities of sets, and the likeliest node of each, (S,) both."""
    problem, grid = next_to.problem, next_to.grid
    shares, nodes = np.empty(len(sets)), np.empty(len(sets), dtype=np.intp)
    parts = spectra_by_size(problem, [problem.units.columns(units) for units in sets])
    for some, joint, _ in log_joints_by_size(problem, grid, parts, sets):
        shares[some] = np.exp(np.minimum(logsumexp(joint, axis=1) - log_evidence, 0.0))
        nodes[some] = joint.argmax(axis=1)
    return shares, nodes


def _of_other_sets(prob: FloatArray, draws: float) -> FloatArray:
    """What sets that are no neighbours of those that were visited can add to probabilities near 0 or 1.

    They have a probability of about 1 / `draws`. They may lack any unit that is in, and have any of those that are
    out, but of these only about as many as there are in.
    """
    least = np.minimum(prob, 1.0 - prob)
    other = np.where(prob > 0.5, 1.0, min((1.0 + float(prob.sum())) / max(prob.size, 1), 1.0))
    seen = np.minimum(np.sqrt(np.maximum(draws * least, 0.0)), 1.0)
    return np.where(least > RARE, 0.0, np.maximum(seen, other) / draws)


def _of_the_rest(
    inside: FloatArray, variance: FloatArray, slab_var: float, draws: float
) -> tuple[FloatArray, FloatArray]:
    """What sets that are no neighbours of those that were visited can add to means and mean squares.

    `inside`: the draws with each column in. Squares of those that were to be in less than once are known by the slab.
    """
    share = UNKNOWN / draws
    square = np.where(inside < 1.0, share * slab_var, UNKNOWN / np.maximum(inside, 1.0) * variance)
    return np.sqrt(share * np.where(inside < 1.0, UNKNOWN * variance, square)), square


def _looked_at(problem: Problem, sets: list[SetAtNode], prob: FloatArray) -> IntArray:
    """The columns whose moments are followed: all of few, else of those that are in some set, the most probable."""
    most = max(MOST_NUMBERS // max(problem.units.n, 1), 1)
    if problem.d <= most:
        return np.arange(problem.d, dtype=np.intp)
    inside = np.unique(np.concatenate([one.columns for one in sets]))
    order = np.argsort(-prob[problem.units.of_column[inside]], kind="stable")
    return np.sort(inside[order[:most]]).astype(np.intp)


class _Events:
    """Sums over neighbours by the event that they share; changed in place.

    Attributes
    ----------
    columns : (u,) int array
        Columns whose moments are followed where units come in.
    mass : (G,) array
        Probability that a unit comes in.
    come : (3, G, u) array
        What a unit that comes in adds to the means of columns that are in, and to their mean squares about the means;
        the probability that both are in.
    paired : (3, G, u) array
        What it adds to these means and squares, and to the probabilities, of single columns that were out.
    go : dict
        For a unit that goes, (3, d), as `come`; its probability; and what takes its place, (3, d), as `paired`.
    """

    def __init__(self, next_to: Neighbours, mean: FloatArray, prob: FloatArray, columns: IntArray) -> None:
        self.next_to, self.mean, self.prob, self.columns = next_to, mean, prob, columns
        self.place = np.full(mean.size, -1, dtype=np.intp)
        self.place[columns] = np.arange(columns.size)
        self.mass: FloatArray = np.zeros(prob.size)
        self.come: FloatArray = np.zeros((3, prob.size, columns.size))
        self.paired: FloatArray = np.zeros((3, prob.size, columns.size))
        self.go: dict[int, tuple[FloatArray, FloatArray, FloatArray]] = {}

    def noise(self, one: SetAtNode) -> float:
        """Mean of s2 given a set."""
        return float(self.next_to.noise(np.array([one.left]), one.node)[0])

    def add(self, one: SetAtNode, share: float) -> None:
        """Add what the neighbours of a set have beyond it."""
        next_to, units = self.next_to, self.next_to.problem.units
        products = next_to.problem.stacked(one.columns)
        base = (one.coef - self.mean[one.columns]) ** 2 + np.diagonal(one.inverse) * self.noise(one)
        for born in next_to.births(one, products):
            ratio = _ratio(share, born.log_joint, one.log_joint)
            self.mass[born.units] += ratio
            self._come(one, born, ratio, base)
        rare = one.units[next_to.open[one.units] & (self.prob[one.units] > 1.0 - EDGE)].tolist()
        without = next_to.at_each([one.units[one.units != unit] for unit in rare], [one.node] * len(rare))
        for unit, less in zip(rare, without, strict=True):
            stays = units.of_column[one.columns] != unit
            self._go(one, unit, less, share, base)
            self._give_way(one, unit, less, share, base, products[stays])

    def _come(self, one: SetAtNode, born: _Births, ratio: FloatArray, base: FloatArray) -> None:
        """Units that come in change the moments of those that are in."""
        followed = self.place[one.columns] >= 0
        to = np.ix_(born.units, self.place[one.columns][followed])
        here = self.mean[one.columns][:, None]
        self.come[0][to] += (ratio * (born.coef - one.coef[:, None]))[followed].T
        self.come[1][to] += (ratio * ((born.coef - here) ** 2 + born.var - base[:, None]))[followed].T
        self.come[2][to] += ratio[:, None]

    def add_pairs(self, one: SetAtNode, share: float, which: BoolArray) -> None:
        """Add what single columns of units `which` (G,) that come in change in others that are out.

        They change their probabilities, and with these the moments of their coefficients.
        """
        products = self.next_to.problem.stacked(one.columns)
        for born in self.next_to.births(one, products):
            first = np.flatnonzero(which[born.units])
            if born.columns.shape[1] > 1 or first.size == 0:
                continue
            mean = self.mean[born.columns[:, 0]]
            ratio = _ratio(share, born.log_joint[first], one.log_joint)
            to = np.ix_(born.units[first], self.place[born.columns[:, 0]])
            inside, coef, var = self.next_to.pairs(one, born, products, first)
            # Mean squares about the means: coef² + var - 2 mean coef.
            square = coef - 2.0 * mean
            square *= coef
            square += var
            alone = expit(born.log_joint - one.log_joint)
            own, own_var = born.own_coef[:, 0], born.own_var[:, 0]
            before = own, (own - 2.0 * mean) * own + own_var, np.ones_like(own)
            for i, (values, without) in enumerate(zip((coef, square, np.ones_like(coef)), before, strict=True)):
                values *= inside
                values -= alone * without
                values *= ratio[:, None]
                self.paired[i][to] += values

    def _of(self, unit: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The sums of a unit that goes."""
        d = self.mean.size
        return self.go.setdefault(unit, (np.zeros((3, d)), np.zeros(1), np.zeros((3, d))))

    def _go(self, one: SetAtNode, unit: int, less: SetAtNode, share: float, base: FloatArray) -> None:
        """A unit that goes changes the moments of those that stay."""
        to, mass, _ = self._of(unit)
        stays = self.next_to.problem.units.of_column[one.columns] != unit
        at, ratio = less.columns, float(_ratio(share, less.log_joint, one.log_joint))
        var = np.diagonal(less.inverse) * self.noise(less)
        to[0, at] += ratio * (less.coef - one.coef[stays])
        to[1, at] += ratio * ((less.coef - self.mean[at]) ** 2 + var - base[stays])
        to[2, at] += ratio
        mass += ratio

    def _give_way(
        self, one: SetAtNode, unit: int, less: SetAtNode, share: float, base: FloatArray, products: FloatArray
    ) -> None:
        """Another unit takes its place."""
        _, mass, to = self._of(unit)
        stays, mean = self.next_to.problem.units.of_column[one.columns] != unit, self.mean
        at, left = less.columns, one.columns[~stays]
        for born in self.next_to.births(less, products):
            ratio = _ratio(share, born.log_joint, one.log_joint) * (born.units != unit)
            total, own = ratio.sum(), born.columns
            to[0, at] += born.coef @ ratio - total * one.coef[stays]
            to[1, at] += ((born.coef - mean[at][:, None]) ** 2 + born.var) @ ratio - total * base[stays]
            to[0, own] += ratio[:, None] * born.own_coef
            to[1, own] += ratio[:, None] * (born.own_coef**2 - 2.0 * mean[own] * born.own_coef + born.own_var)
            to[2, own] += ratio[:, None]
            to[0, left] -= total * one.coef[~stays]
            to[1, left] += total * (mean[left] ** 2 - base[~stays])
            mass += total

    def errors(self, draws: float) -> Unseen:
        """What so many independent draws leave unknown of the events that they hardly see."""
        units = self.next_to.problem.units
        first = units.order[units.start[:-1]]
        square: FloatArray = np.zeros((3, self.mean.size))
        square[:2, self.columns] = ((_scale(self.come[2], draws) * self.come[:2]) ** 2).sum(axis=1)
        square[:, self.columns] += ((_scale(self.mass, draws)[:, None] * self.paired) ** 2).sum(axis=1)
        prob = square[2][first]
        for unit, (gone, mass, instead) in self.go.items():
            square[:2] += (_scale(gone[2], draws) * gone[:2]) ** 2
            scale = _scale(mass, draws)
            square[:2] += (scale * instead[:2]) ** 2
            others = scale * instead[2][first]
            prob += others**2
            prob[unit] += others.sum() ** 2
        return Unseen(np.sqrt(square[0]), np.sqrt(square[1]), np.sqrt(prob))


def _ratio(share: float, log_joint: FloatArray | float, of: float) -> FloatArray:
    """Probability of neighbours of a set that has the probability `share`."""
    return np.asarray(share * np.exp(np.minimum(np.asarray(log_joint) - of, MOST_NATS)))


def _scale(mass: FloatArray, draws: float) -> FloatArray:
    """Standard deviations of the share of an event in independent draws, relative to its probability; 1 at most.

    None where it was to be seen often enough.
    """
    expected = draws * mass
    return np.where(expected < ENOUGH, 1.0 / np.sqrt(np.maximum(expected, 1.0)), 0.0)
