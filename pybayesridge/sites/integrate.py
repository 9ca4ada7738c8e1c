"""The posterior of l = log t2 by the trapezoidal rule, as for Gaussian noise.

A search finds where the density is negligible; a sketch through the nodes of the search, which need little accuracy,
says where the nodes of the rule have to be, and how many there are (:mod:`pybayesridge.sites.sketch`).

The error of the rule with spacing h in u is twice the characteristic function at ``2 pi / h``. Up to ``pi / h`` that
function follows from the nodes themselves. Beyond, it is taken to fall as fast as from ``pi / 2h`` to ``pi / h``, as
it does for densities with exponential tails; for others it falls faster.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit

from pybayesridge._types import FloatArray
from pybayesridge.sites.approximation import Approximation
from pybayesridge.sites.nodes import Nodes
from pybayesridge.sites.separation import dimensions
from pybayesridge.sites.sketch import DROP, FALLS, ORDERS, Sketch, TrapezoidalRule, sketched
from pybayesridge.sites.sketch import ROUGH as SKETCHED

FIRST_STEP = 1.0
GROWTH = 1.5
"""Steps of the search for the ends in log t2, and their growth where little mass is left."""

LITTLE = 4.0
"""Fall of the log density from where steps grow."""

FARTHEST = 25.0
"""The search ends this far from the prior's scale in log t2: farther out the density is an exponential, to 4e-6, and
the precision of the prior is lost in the rounding errors of that of the rows."""

COUNTS = (7, 8, 9, 10, 11, 12, 13, 14, 15, 17, 19, 21, 25, 29, 33, 37, 41, 47, 53, 59)
"""Numbers of nodes from which the first is chosen."""

SHAPES = tuple((shift, wide) for shift in (-2.0, -1.0, 0.0, 1.0) for wide in (0.5, 1.0, 2.0, 4.0))
"""Shapes of rules that are tried: narrow ones suit heavy tails, and shifted ones a flank that is steep."""

PLACES = np.array([-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0])
"""Standard deviations from the mean of l, of coefficients whose distribution functions are looked at: where the prior
determines them, the probability that one is smaller than e^(c/2) depends on c - l about as a logistic function."""

STEEP = 2.0
"""Slope of that function: where responses are separated, coefficients given l have a narrow law that moves with l."""

SURE = 0.5
"""Share of the tolerance that the rule's error may be for the sketched density."""

WAVES = np.array([1.0, 15 / 16, 7 / 8, 3 / 4, 1 / 2])
"""Frequencies, in units of pi / h, at which the characteristic function is looked at. From the last to each of the
others it falls at some rate, at which it goes on: the largest error is taken, since it can be small by accident."""

WAVES_SEEN = np.array([0.5, 1.0, 1.0, 1.0, 1.0])
"""Share of what is seen of them: at pi / h it is seen twice."""

MOST_ROWS = 10_000
"""Rows whose probabilities are looked at."""

NEGLIGIBLE, ROUGH = 1e-12, 0.1
"""A node whose moments are off by at most `ROUGH` standard deviations is right if this, times its weight, is
negligible: that is what the posterior's moments are off by, and the log evidence by about its square."""

SAFETY = 10.0
"""Factor of the estimated error."""

SETTLED = 1e-3
"""A density that falls at a smaller rate has no integral."""

SLOW = 0.25
"""A density whose rate of fall is smaller than without separation by more than this is looked at for separation."""

ENOUGH = 2.0
"""So much of the rate of fall comes from the evidence where all that is asked for exists in any case."""


PLANNED, LEAST_PLANNED, ROOM = 7.5, 3.0, 4.0
"""Of the rule of a similar density, nodes at which this, or its products with moments, has fallen by this much in
logarithm are left out, if together they would have no more weight than that; where the whole integral counts less
they are left out earlier, to here. Errors may be so many times the tolerance, and where it counts less larger by the
root of that: many such integrals are summed up."""

LEAST_WEIGHT = 1e-300
"""Weights are looked at as logarithms down to here."""

STUCK = 2
"""Doublings in a row that do not halve the error, after which there are no more: that of a smooth density falls much
faster, and here it has jumps."""

PLANNING, PLANNED_DROP = 0.05, 12.0
"""Accuracy of the approximations that a plan is made by, and where they end below."""

MORE = 3
"""Numbers of nodes beyond the first that suffices, with which fewer of a plan's may matter."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The rule of a density, for densities that are much like it.

    Attributes
    ----------
    rule : TrapezoidalRule
    relative : (K,) array
        Log density at its nodes, or of its products with moments if larger, relative to the largest.
    sketch : Sketch
    fall : float
        Rate at which the density falls in the end; there is no separation.
    """

    rule: TrapezoidalRule
    relative: FloatArray
    sketch: Sketch
    fall: float


@dataclass(frozen=True, slots=True)
class PenaltyQuadrature:
    """Nodes and weights of the posterior of log t2.

    Attributes
    ----------
    log_t2 : (K,) array
        In the units of the coordinates.
    weight : (K,) array
        Sums to 1; the end nodes stand for the tails beyond them too.
    nodes : tuple of K approximations
    mean : float
        Of log t2, tails beyond the nodes included.
    log_integral : float
        Log of the integral over log t2.
    error : float
        Estimated error of the log integral, of the mean of log t2 and of the rows' probabilities: that of the rule,
        and that of the tail beyond its nodes, which more of them would not make smaller.
    fall : float
        The density falls as ``exp(-fall log_t2)`` at the upper end: moments of order m of the coefficients exist
        outside the row space, and wherever the responses are separated, for m < 2 fall.
    separated : bool
        The columns separate the responses, completely or in part, and `fall` is what follows from that.
    converged : bool
        Whether the rule's error is within the tolerance.
    plan : Plan or None
        For similar densities; None where the responses are separated, or the error is too large.
    """

    log_t2: FloatArray
    weight: FloatArray
    nodes: tuple[Approximation, ...]
    mean: float
    log_integral: float
    error: float
    fall: float
    separated: bool
    converged: bool
    plan: Plan | None = None


def integrate(
    nodes: Nodes, *, tol: float, maxiter: int, plan: Plan | None = None, loss: float = 0.0
) -> PenaltyQuadrature:
    """Integrate the posterior of log t2.

    Parameters
    ----------
    nodes : Nodes
    tol : float
        Largest estimated error accepted.
    maxiter : int
        Most doublings of the nodes.
    plan : Plan or None
        The rule of a similar density, which is tried first.
    loss : float
        Log of the factor by which the whole integral counts less than that one.

    Raises
    ------
    ValueError
        If the posterior is improper.
    """
    if plan is not None and (similar := _by_plan(nodes, plan, tol, loss)) is not None:
        return similar
    limit = find_ends(nodes, max(SKETCHED, nodes.tol))
    sketch = sketched(nodes)
    nodes.strip()
    rise, fall = nodes.prior.a, _rate(limit, -nodes.slope(nodes.log_t2[-1]))
    tol *= np.exp(0.5 * max(loss, 0.0))
    (count, shape), error, stuck = _first_rule(sketch, rise, fall, tol), np.inf, 0
    for _ in range(maxiter + 1):
        found = _solved(nodes, sketch, sketch.rule(count, shape, rise, fall).nodes)
        seen = -nodes.slope(found[-1].log_t2)
        fall = _rate(limit, seen)
        rule = sketch.rule(count, shape, rise, fall)
        density = np.array([node.log_evidence for node in found]) + nodes.prior.values(rule.nodes)
        log_integral, weight = _weights(rule, density)
        before = error
        error = _error(rule, weight, [_squashed(node) for node in found]) + float(np.finfo(float).eps)
        stuck = stuck + 1 if error > before / 2 else 0
        if error <= tol or stuck == STUCK:
            break
        count = 2 * count - 1
    tail = _error_of_tail(rule, weight, fall, seen if limit else -nodes.slope(found[-2].log_t2))
    of_nodes = np.bincount(rule.node, weights=weight).astype(float)
    return PenaltyQuadrature(
        log_t2=rule.nodes,
        weight=of_nodes,
        nodes=tuple(replace(node, start=None) for node in found),
        mean=float(weight @ rule.log_t2),
        log_integral=log_integral,
        error=float(error + tail),
        fall=fall,
        separated=limit is not None,
        converged=error <= tol and all(_settled(node, w) for node, w in zip(found, of_nodes.tolist(), strict=True)),
        plan=None
        if limit is not None or error > tol
        else Plan(rule, _relative(rule.nodes, density, fall), sketch, fall),
    )


def planned(nodes: Nodes, tol: float) -> tuple[Plan | None, float]:
    """A plan by nodes of little accuracy, None where the responses are separated; and its node in the middle."""
    limit = find_ends(nodes, max(PLANNING, nodes.tol), PLANNED_DROP)
    sketch = sketched(nodes, PLANNED_DROP)
    if limit is not None:
        return None, sketch.center
    rise, fall = nodes.prior.a, _rate(limit, -nodes.slope(nodes.log_t2[-1]))
    rule = _least_rule(sketch, rise, fall, tol)
    center = float(rule.nodes[np.abs(rule.nodes - sketch.center).argmin()])
    return Plan(rule, _relative(rule.nodes, sketch.density(rule.nodes), fall), sketch, fall), center


def _relative(l: FloatArray, density: FloatArray, fall: float) -> FloatArray:
    """The largest of a log density (K,) and its products with moments that exist, each relative to its top."""
    products = [density + order * l for order in ORDERS if order == 0.0 or fall - order > FALLS]
    out: FloatArray = np.max([each - each.max() for each in products], axis=0)
    return out


def _by_plan(nodes: Nodes, plan: Plan, tol: float, loss: float) -> PenaltyQuadrature | None:
    """The integral by the nodes of a plan that matter; None where the density asks for others."""
    rule, drop = plan.rule, max(PLANNED - loss, LEAST_PLANNED)
    high = np.flatnonzero(plan.relative > -drop)
    first, last, end = int(high[0]), int(high[-1]), rule.nodes.size - 1
    start, most = int((rule.node == 0).sum()) - 1, float(np.exp(-min(drop, DROP)))
    planned = plan.relative[rule.node] + rule.log_factor
    for _ in range(end + 1):  # each look but the last takes at least a node more
        own = slice(first, last + 1)
        l, log_factor = rule.nodes[own], rule.log_factor[start : start + end + 1][own]
        part = TrapezoidalRule(l, l, np.arange(l.size), log_factor)
        found = _solved(nodes, plan.sketch, l, loss)
        density = np.array([node.log_evidence for node in found]) + nodes.prior.values(l)
        log_integral, weight = _weights(part, density)
        error = _error(part, weight, [_squashed(node) for node in found]) + float(np.finfo(float).eps)
        good = error <= ROOM * tol * np.exp(0.5 * max(loss, 0.0))
        # Beyond the nodes the density is to the plan's as it is next to them.
        tilt = np.log(np.maximum(weight, LEAST_WEIGHT)) - planned[start : start + end + 1][own]
        inner = tilt[1:-1] if tilt.size > 2 else tilt
        tails = (
            float(np.exp(planned[rule.node < first] + 2.0 * tilt[0] - inner[0]).sum()),
            float(np.exp(planned[rule.node > last] + 2.0 * tilt[-1] - inner[-1]).sum()),
        )
        below, above = (not good or mass > most for mass in tails)
        before, (first, last) = (first, last), (max(first - int(below), 0), min(last + int(above), end))
        if (first, last) == before:
            break
    if not good or not all(map(_settled, found, weight.tolist())):
        return None
    weight[[0, -1]] += tails
    weight /= 1.0 + sum(tails)
    log_integral += float(np.log1p(sum(tails)))
    relative = plan.relative.copy()
    relative[own] = _relative(l, density, plan.fall)
    return PenaltyQuadrature(
        log_t2=l,
        weight=weight,
        nodes=tuple(replace(node, start=None) for node in found),
        mean=float(weight @ l),
        log_integral=log_integral,
        error=error,
        fall=plan.fall,
        separated=False,
        converged=True,
        plan=replace(plan, relative=relative),
    )


def _solved(nodes: Nodes, sketch: Sketch, l: FloatArray, loss: float = 0.0) -> tuple[Approximation, ...]:
    """The approximations at a rule's nodes: first the middle, then every second one, so that others start between."""
    found: dict[int, Approximation] = {}
    stride = 1 << (l.size - 1).bit_length()
    while stride:
        for i in range(l.size // 2 % stride, l.size, stride):
            if i not in found:
                found[i] = nodes.at(float(l[i]), sketch.tolerance(float(l[i]), nodes.tol, loss))
        stride //= 2
    return tuple(found[i] for i in range(l.size))


def _first_rule(sketch: Sketch, rise: float, fall: float, tol: float) -> tuple[int, tuple[float, float]]:
    """The least number of nodes by which the sketched density would be integrated, and the rule's shape."""
    found: dict[int, tuple[float, tuple[float, float]]] = {}

    def suffices(count: int) -> bool:
        errors = []
        for shape in SHAPES:
            rule = sketch.rule(count, shape, rise, fall)
            errors.append(_error(rule, _weights(rule, sketch.density(rule.nodes))[1], []))
            if errors[-1] <= SURE * tol:
                break
        best = int(np.argmin(errors))
        found[count] = errors[best], SHAPES[best]
        return errors[best] <= SURE * tol

    count = COUNTS[min(bisect_left(COUNTS, True, key=suffices), len(COUNTS) - 1)]
    if count not in found:
        suffices(count)
    return count, found[count][1]


def _least_rule(sketch: Sketch, rise: float, fall: float, tol: float) -> TrapezoidalRule:
    """The rule by which the sketched density would be integrated that has the least number of nodes that matter."""
    first = COUNTS.index(_first_rule(sketch, rise, fall, tol)[0])
    rules = [sketch.rule(count, shape, rise, fall) for count in COUNTS[first : first + 1 + MORE] for shape in SHAPES]

    def cost(rule: TrapezoidalRule) -> tuple[float, int, float]:
        error = _error(rule, _weights(rule, sketch.density(rule.nodes))[1], [])
        matter = int((np.interp(rule.nodes, sketch.log_t2, sketch.relative) > -PLANNED).sum())
        return max(error, SURE * tol), matter, error

    return min(rules, key=cost)


def _weights(rule: TrapezoidalRule, density: FloatArray) -> tuple[float, FloatArray]:
    """Log integral, and weights (M,) of the places of a rule, which sum to 1, for log densities (K,) at its nodes."""
    log_weight = density[rule.node] + rule.log_factor
    top = log_weight.max()
    weight = np.exp(log_weight - top)
    total = weight.sum()
    return float(top + np.log(total)), weight / total


def _settled(node: Approximation, weight: float) -> bool:
    """Whether the approximation at a node is as good as its weight asks."""
    return node.converged or (node.change <= ROUGH and weight * node.change <= NEGLIGIBLE)


def find_ends(nodes: Nodes, accuracy: float, drop: float = DROP) -> float | None:
    """Add nodes of some accuracy to both sides of the prior's scale until the density is negligible.

    Below it is where it has fallen by `drop`.

    Returns
    -------
    float or None
        The rate at which the density falls in the end, if the columns separate the responses.

    Raises
    ------
    ValueError
        If it does not fall.
    """
    nodes.at(nodes.prior.log_scale, accuracy)
    seen = -nodes.slope(_walk(nodes, 1.0, accuracy, DROP))
    limit = _limit_of_fall(nodes, seen)
    if limit is not None and limit < SETTLED:
        raise ValueError(
            "the posterior of the penalty is improper: the penalised columns separate the responses, and the prior "
            "does not rule out coefficients of any size; pass a `prior` with a larger second number"
        )
    _rate(limit, seen)
    _walk(nodes, -1.0, accuracy, drop)
    return limit


def _rate(limit: float | None, seen: float) -> float:
    """The rate at which the density falls in the end: the limit that separation sets, or what was seen of it."""
    if limit is None and seen < SETTLED:
        raise ValueError(
            f"the posterior of the penalty lies more than a factor of e^{FARTHEST:g} from the scale of its prior, "
            "beyond what double precision resolves: the columns explain the responses but for next to no noise. Give "
            "the penalty by method='fixed'"
        )
    return limit or seen


def _limit_of_fall(nodes: Nodes, seen: float) -> float | None:
    """What separation makes of the rate of fall, `seen` at the last node; None without separation.

    As t2 goes to infinity the evidence given t2 falls as ``t2^(-r/2)``, times ``t2^(1/2)`` for each dimension of the
    cone of directions along which the likelihood does not fall: a multiple of 1/2, which decides what moments exist,
    and at whose borders no number that has been computed could.
    """
    expected = nodes.prior.fall + 0.5 * nodes.space.rank
    if seen >= min(expected, ENOUGH + nodes.prior.fall) - SLOW:
        return None
    lost = dimensions(nodes.space.rows, nodes.likelihood)
    return expected - 0.5 * lost if lost else None


def _walk(nodes: Nodes, sign: float, accuracy: float, drop: float) -> float:
    """Go from the middle until the density is negligible, up for `sign` 1, down for -1; the place reached."""
    distance, step = 0.0, FIRST_STEP
    while distance < FARTHEST:
        distance = min(distance + step, FARTHEST)
        l = nodes.prior.log_scale + sign * distance
        value = nodes.log_density(l, accuracy)
        where, density = np.array(nodes.log_t2), nodes.log_densities()
        if _negligible(where, density, value, l, sign * nodes.slope(l), sign, drop):
            break
        if value < density.max() - LITTLE:
            step *= GROWTH
    return l


def _negligible(
    where: FloatArray, density: FloatArray, value: float, l: float, slope: float, sign: float, drop: float
) -> bool:
    if value > density.max() - drop or slope >= 0:
        return False
    if sign < 0:
        return True
    # The density times t2 (variances) and times its root (means), where these have an integral.
    for order in ORDERS[1:]:
        if slope + order < -FALLS and value + order * l > (density + order * where).max() - drop:
            return False
    return True


def _error(rule: TrapezoidalRule, weight: FloatArray, rows: list[FloatArray]) -> float:
    """Estimated error of the integral, of the mean of l, and of means of functions that are `rows` at the nodes."""
    waves = np.exp(1j * np.pi * np.outer(WAVES, np.arange(weight.size))) * weight
    of_one = waves.sum(axis=1)
    mean = float(weight @ rule.log_t2)
    sd = float(np.sqrt(weight @ (rule.log_t2 - mean) ** 2))
    small = expit(STEEP * np.subtract.outer(mean + sd * PLACES, rule.log_t2))
    size = [np.abs(of_one), np.abs(waves @ (rule.log_t2 - mean))]
    size += list(np.abs(waves @ small.T - np.outer(of_one, small @ weight)).T)
    if rows:
        count = rule.nodes.size
        of_nodes = np.array(
            [
                np.bincount(rule.node, wave.real, count) + 1j * np.bincount(rule.node, wave.imag, count)
                for wave in waves
            ]
        )
        share = np.bincount(rule.node, weight, count)
        of_rows = sum(np.outer(of_nodes[:, i] - of_one * share[i], row) for i, row in enumerate(rows))
        size.append(np.abs(of_rows).max(axis=1, initial=0.0))
    *high, before = np.max(size, axis=0) * WAVES_SEEN
    fall = np.minimum(np.array(high) / before, 1.0)
    return SAFETY * float(2.0 * (high * fall ** ((2.0 - WAVES[:-1]) / (WAVES[:-1] - WAVES[-1]))).max())


def _error_of_tail(rule: TrapezoidalRule, weight: FloatArray, fall: float, before: float) -> float:
    """What the mean of l is off by if beyond the nodes the density falls at another rate, by how it still changes.

    Beyond, the density is ``exp(-fall l)``: its mass is proportional to 1 / fall and lies 1 / fall away, on average.
    """
    beyond = rule.log_t2 > rule.nodes[-1]
    mass = float(weight[beyond].sum())
    distance = rule.nodes[-1] - float(weight @ rule.log_t2) + 2.0 / fall
    return mass * min(abs(fall - before) / fall, 1.0) * max(distance, 1.0)


def _squashed(node: Approximation) -> FloatArray:
    """The probabilities, about, of the rows, or of some of many."""
    some = slice(None, None, 1 + node.mean.size // MOST_ROWS)
    out: FloatArray = np.arctan(node.mean[some] / np.sqrt(1.0 + node.variance[some]))
    return out
