"""A parameter of the likelihood that is integrated out with the penalty: its prior, and the rule for it.

With u the log of the shape, such as a dispersion, the posterior is a mixture over values of u of the posteriors given
u, each integrated over the penalty or at one penalty, with weights proportional to the prior density of u times the
evidence given u. The trapezoidal rule converges geometrically, in u and in smooth functions of it: nodes are further
apart where there is nothing but a tail. Its error is seen where the log of the evidence, which is smooth, is
interpolated between the nodes; what that leaves out is seen where every second node is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.integrate import trapezoid
from scipy.interpolate import CubicSpline
from scipy.special import betaln, expit, logsumexp

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.sites.tailed import TailedDensity

LEAST = 1e-7
"""Values of smaller weight are no part of densities."""

DROP, DROP_BELOW = 6.5, 8.0
"""Values of u above the top, and below it, whose log density is lower than the largest by this are left out: in the
tail beyond, the log of the evidence goes on as a parabola. Small values matter more without a row that alone speaks
for a large dispersion, as in leave-one-out scores."""

LEAST_DROP = 3.0
"""The least such fall, of forms that are less probable than others."""

FLAT = 1e-3
"""Where the evidence changes by less from one value to the next, the tail of the posterior is that of the prior."""

TWICE = 2
"""So often in a row."""

SPREAD = 1.4
"""First spacing, in standard deviations of u by the curvature at the top: the rule's error for a normal density is
``2 exp(-2 pi^2 / 1.4^2)``, which is 1e-4."""

NARROWEST = 1e-4
"""Smallest first spacing."""

WIDEST = 1.0
"""Largest spacing: the prior's tails are exponentials."""

TAIL_FROM, TAIL_BEND, TAIL_SPACING, GROWTH = 3.0, 0.7, 3.0, 4.0
"""Nodes are further apart from so many first spacings away from the top on, which peaks hardly reach. The change
takes about so many; beyond it they are so far apart, or so many times as far as at the top if that is less."""

HALVINGS = 3
"""Most halvings of the spacing."""

ACCURACY = 1e-3
"""Estimated error of the integral over u, relative, that counts as none unless told otherwise."""

CLOSE = 0.25
"""Steps of the search for the top are not made shorter than this: on such a scale the evidence is a parabola."""

FAR, NEXT, LOOKS = 2.0, 0.3, 4
"""Where the last step is so much longer than the width, parabolas through the highest place and its neighbours
follow, until they move it by so little, in widths, and so often at the most."""

LONGEST, STEPS = 2.0, 80
"""Longest step of the search for the top, and how many there are at the most."""

TAIL, MOST = 40.0, 1e6
"""Tails are summed up to where they have fallen by this in logarithm, and over so many nodes at the most."""

HIGHEST = 50.0
"""Logs of interpolated densities relative to the highest node end here: such an interpolation is useless."""

FINE, HALF = 32, 16.0
"""Points between two nodes at which the interpolated density is summed up, and by how much the error of the
interpolation falls where the spacing is halved, as it is around a node that was left out."""


@dataclass(frozen=True, slots=True)
class ShapePrior:
    """``exp(u) ~ beta-prime(a, b)``, between two values of u beyond which nothing changes.

    Attributes
    ----------
    a, b : float
        The density of u rises as ``exp(a u)`` and falls as ``exp(-b u)``.
    low, high : float
    """

    a: float = 0.5
    b: float = 0.5
    low: float = -18.0
    high: float = 12.0

    def __call__(self, u: float) -> float:
        """Log density of u."""
        return float(self.values(np.array(u)))

    def values(self, u: FloatArray) -> FloatArray:
        """Log densities of values of u."""
        out: FloatArray = self.a * u - (self.a + self.b) * np.logaddexp(0.0, u) - betaln(self.a, self.b)
        return out


@dataclass(frozen=True, slots=True)
class FlatPrior(ShapePrior):
    """A flat prior of u, of the density 2: with u the log of a scale that is ``ds / s`` for its square s."""

    a: float = 0.0
    b: float = 0.0

    def values(self, u: FloatArray) -> FloatArray:
        """Log densities of values of u."""
        return np.full(np.shape(u), np.log(2.0))


@dataclass(frozen=True, slots=True)
class ShapeGrid:
    """Nodes and weights of the posterior of u.

    Attributes
    ----------
    u : (S,) array
        Ascending.
    log_density : (S,) array
        Log of prior density times evidence.
    weight : (S,) array
        Sums to 1; the end nodes stand for the tails beyond them too.
    log_integral : float
        Log of the integral of prior density times evidence.
    error : float
        Estimated error of the integral, relative.
    converged : bool
    prior : ShapePrior
    which : (K,) int array
        Node of u that each node of a fit belongs to.
    """

    u: FloatArray
    log_density: FloatArray
    weight: FloatArray
    log_integral: float
    error: float
    converged: bool
    prior: ShapePrior
    which: IntArray

    def names(self, own: str) -> tuple[str, ...]:
        """Names of the further parameters that vary, of which `own` is that of u."""
        return (own,)

    @property
    def evidence(self) -> FloatArray:
        """Log evidence at the nodes, (S,)."""
        return self.log_density - self.prior.values(self.u)

    @property
    def mean(self) -> float:
        """Posterior mean of u."""
        return float(self.weight @ self.u)

    def of_nodes(self, keep: IntArray) -> ShapeGrid:
        """The same where some nodes of a fit are left, by their positions."""
        return replace(self, which=self.which[keep])

    def changed(self, change: FloatArray, accuracy: float) -> ShapeGrid:
        """The grid where logs of the evidence differ by so much, (S,), and whether it is then as accurate."""
        log_density, total = self.log_density + change, float(logsumexp(change, b=self.weight))
        integral = float(np.exp(self.log_integral + total - log_density.max()))
        error = _error_of_rule(self.u, self.evidence + change, self.prior, log_density, integral)
        return replace(
            self,
            log_density=log_density,
            weight=self.weight * np.exp(change - total),
            log_integral=self.log_integral + total,
            error=error,
            converged=error <= accuracy,
        )

    def posterior(self) -> TailedDensity:
        """The posterior of u, with tails that have the mass beyond the first and the last node."""
        below, above = (1.0 / _mass_of_tail(self.u, self.evidence, self.prior, way) for way in (-1, 1))
        return TailedDensity.through(self.u, self.log_density, below, above)

    def drawn(self, u: FloatArray, form: FloatArray, share: FloatArray) -> FloatArray:
        """Values of u in those parts of its posterior that nodes (m,) stand for, at shares (m,) of each part."""
        node = np.abs(self.u - u[:, None]).argmin(axis=1)
        below = np.cumsum(self.weight) - self.weight
        return self.posterior().quantiles((below[node] + share * self.weight[node]) / self.weight.sum())

    def summary(self, probabilities: FloatArray) -> FloatArray:
        """Posterior mean of the parameter itself, and quantiles (m,), (1, 1 + m)."""
        return _of_log(self, probabilities)[None]


@dataclass(frozen=True, slots=True)
class FormGrid:
    """The posterior of the further parameter for several forms of the likelihood, and the posterior of these.

    Attributes
    ----------
    forms : (G,) array
    share : (G,) array
        Posterior probabilities of the forms.
    grids : tuple of G ShapeGrid
    """

    forms: FloatArray
    share: FloatArray
    grids: tuple[ShapeGrid, ...]

    def names(self, own: str) -> tuple[str, ...]:
        """Names of the further parameters that vary, of which `own` is that of u."""
        return (own, "df")

    @property
    def u(self) -> FloatArray:
        """Nodes of all forms, (S,)."""
        return np.concatenate([grid.u for grid in self.grids])

    @property
    def weight(self) -> FloatArray:
        """Their weights, (S,)."""
        return np.concatenate([w * grid.weight for w, grid in zip(self.share, self.grids, strict=True)])

    @property
    def which(self) -> IntArray:
        """Node of u that each node of a fit belongs to, (K,)."""
        before = np.cumsum([0, *(grid.u.size for grid in self.grids[:-1])])
        return np.concatenate([start + grid.which for start, grid in zip(before, self.grids, strict=True)])

    @property
    def mean(self) -> float:
        """Posterior mean of u."""
        return float(self.weight @ self.u)

    def of_nodes(self, keep: IntArray) -> FormGrid:
        """The same where some nodes of a fit are left, by their positions in ascending order."""
        ends = np.cumsum([grid.which.size for grid in self.grids])
        parts = np.split(keep, np.searchsorted(keep, ends[:-1]))
        starts = ends - [grid.which.size for grid in self.grids]
        own = zip(self.grids, parts, starts, strict=True)
        return replace(self, grids=tuple(grid.of_nodes(part - start) for grid, part, start in own))

    def posterior(self) -> TailedDensity:
        """The posterior of u."""
        likely = np.flatnonzero(self.share > LEAST).tolist()
        parts = [self.grids[i].posterior() for i in likely]
        rise, fall = min(part.rise for part in parts), min(part.fall for part in parts)
        return TailedDensity.mixed(parts, [float(self.share[i]) for i in likely], rise, fall)

    def drawn(self, u: FloatArray, form: FloatArray, share: FloatArray) -> FloatArray:
        """Values of u in those parts of its posterior for a form (m,) that nodes stand for, at shares of each."""
        order = np.argsort(self.forms)
        out, own = u.copy(), order[np.searchsorted(self.forms, form, sorter=order)]
        for g in np.unique(own).tolist():
            out[own == g] = self.grids[g].drawn(u[own == g], form[own == g], share[own == g])
        return out

    def summary(self, probabilities: FloatArray) -> FloatArray:
        """Posterior means of the parameter itself and of the form, and quantiles (m,), (2, 1 + m)."""
        order = np.argsort(self.forms)
        likely = self.share > 0
        mean = float(self.share[likely] @ self.forms[likely])
        at = np.searchsorted(np.cumsum(self.share[order])[:-1], probabilities)
        return np.vstack([_of_log(self, probabilities), np.r_[mean, self.forms[order][at]]])


def _of_log(grid: ShapeGrid | FormGrid, probabilities: FloatArray) -> FloatArray:
    """Posterior mean of exp(u), and quantiles (m,), (1 + m,)."""
    return np.r_[float(grid.weight @ np.exp(grid.u)), np.exp(grid.posterior().quantiles(probabilities))]


def top_of(
    height: Callable[[float], float], start: float, prior: ShapePrior, step: float = CLOSE
) -> tuple[float, float]:
    """The place of the largest value of a smooth function of u near `start`, and the spacing that it asks for.

    Steps double while the function rises, and are halved where it falls on both sides, until they are about as long
    as its width; then a parabola.
    """
    known: dict[float, float] = {}

    def at(u: float) -> float:
        if u not in known:
            known[u] = height(u)
        return known[u]

    middle = float(np.clip(start, prior.low, prior.high))
    for _ in range(STEPS):
        below, above = max(middle - step, prior.low), min(middle + step, prior.high)
        best = max((middle, below, above), key=at)
        if best != middle:
            middle, step = best, min(2.0 * step, LONGEST)
            continue
        bend = _bend(below, middle, above, at)
        sd = 1.0 / np.sqrt(bend) if bend > 0 else np.inf
        if step <= max(sd, CLOSE):
            break
        step *= 0.5
    if bend > 0:
        middle += float(np.clip((at(above) - at(below)) / (2.0 * step * bend), -0.5 * step, 0.5 * step))
    for _ in range(LOOKS if step > FAR * sd else 0):
        at(middle)
        places = sorted(known)
        best = places.index(max(places, key=at))
        if not 0 < best < len(places) - 1:
            break
        below, top, above = places[best - 1 : best + 2]
        bend = _bend(below, top, above, at)
        if bend <= 0:
            break
        slope = (at(above) - at(below)) / (above - below) - 0.5 * bend * (2.0 * top - below - above)
        middle, sd = float(np.clip(top + slope / bend, 0.5 * (below + top), 0.5 * (top + above))), 1.0 / np.sqrt(bend)
        if abs(middle - top) <= NEXT * sd:
            break
    return middle, float(np.clip(SPREAD * sd, NARROWEST, WIDEST))


def _bend(below: float, middle: float, above: float, at: Callable[[float], float]) -> float:
    """Minus the second derivative by divided differences."""
    if not below < middle < above:
        return 0.0
    rise, fall = (at(middle) - at(below)) / (middle - below), (at(above) - at(middle)) / (above - middle)
    return 2.0 * (rise - fall) / (above - below)


def integrate_shape(
    evidence: Callable[[float], float],
    prior: ShapePrior,
    top: float,
    spacing: float,
    accuracy: float = ACCURACY,
    flat: float = FLAT,
    halvings: int = HALVINGS,
    lower: float = 0.0,
) -> ShapeGrid:
    """Integrate over u.

    Parameters
    ----------
    evidence : callable
        Log evidence given u; asked for from the top outwards, each next to the one before.
    prior : ShapePrior
    top, spacing : float
        Where the density is largest, about, and the first spacing.
    accuracy : float
        Estimated error of the integral, relative, that counts as none.
    flat : float
        A change of the evidence from one value to the next that counts as none.
    halvings : int
        Most halvings of the spacing.
    lower : float
        How much lower the log density is, where it is highest, than that of another form: values of u end earlier.
    """
    found: dict[int, float] = {}
    places, stride = _Places.of(top, spacing, 2**halvings), 2**halvings
    _extend(found, evidence, prior, places, stride, flat, max(lower, 0.0))
    lowest, highest = min(found), max(found)
    while True:
        at = np.arange(lowest, highest + 1, stride)
        for i in at.tolist():
            if i not in found:
                found[i] = evidence(float(places.at(i)))
        grid = _rule(places, at, stride, np.array([found[i] for i in at.tolist()]), prior, accuracy)
        if grid.converged or stride == 1:
            return grid
        stride //= 2


@dataclass(frozen=True, slots=True)
class _Places:
    """Where the nodes may be: at smooth odd functions of whole numbers, times a spacing, about the top.

    Attributes
    ----------
    top, spacing : float
    parts : int
        Of the spacing, which whole numbers count.
    growth : float
        How many times further apart they are in the tails.
    """

    top: float
    spacing_at_top: float
    parts: int
    growth: float

    @classmethod
    def of(cls, top: float, spacing: float, parts: int) -> _Places:
        """With tails whose spacing is that of all tails, within limits."""
        return cls(top, spacing, parts, float(np.clip(TAIL_SPACING / spacing, 1.0, GROWTH)))

    def at(self, i: IntArray | int) -> FloatArray:
        """The places of whole numbers."""
        v = i / self.parts
        beyond = np.logaddexp(0.0, (v - TAIL_FROM) / TAIL_BEND) - np.logaddexp(0.0, (-v - TAIL_FROM) / TAIL_BEND)
        out: FloatArray = self.top + self.spacing_at_top * (v + (self.growth - 1.0) * TAIL_BEND * beyond)
        return out

    def spacing(self, i: IntArray) -> FloatArray:
        """The derivatives of the places."""
        v = i / self.parts
        share = expit((v - TAIL_FROM) / TAIL_BEND) + expit((-v - TAIL_FROM) / TAIL_BEND)
        out: FloatArray = self.spacing_at_top / self.parts * (1.0 + (self.growth - 1.0) * share)
        return out


def _extend(
    found: dict[int, float],
    evidence: Callable[[float], float],
    prior: ShapePrior,
    places: _Places,
    stride: int,
    level: float,
    lower: float,
) -> None:
    """Ask for the evidence at multiples of a stride until the density is negligible or the evidence is constant."""

    def density(i: int) -> float:
        u = float(places.at(i))
        if i not in found:
            found[i] = evidence(u)
        return found[i] + prior(u)

    highest = density(0)
    for sign, most in ((1, DROP), (-1, DROP_BELOW)):
        drop = max(most - lower, LEAST_DROP)
        i, flat, last = 0, 0, density(0)
        while prior.low < places.at(i + sign * stride) < prior.high and flat < TWICE:
            before, i = found[i], i + sign * stride
            value = density(i)
            highest = max(highest, value)
            # Once may be an accident, on either side of the top.
            flat = flat + 1 if abs(found[i] - before) < level else 0
            # A concave function is lower than the straight line beyond, and steps do not become shorter.
            if min(value, 2.0 * value - last) < highest - drop:
                break
            last = value


def _rule(
    places: _Places, at: IntArray, stride: int, evidence: FloatArray, prior: ShapePrior, accuracy: float
) -> ShapeGrid:
    """The trapezoidal rule for some places, beyond whose ends the density goes on as exponentials."""
    u = np.asarray(places.at(at), dtype=np.float64)
    log_density = evidence + prior.values(u)
    own = stride * places.spacing(at)
    for end, way in ((0, -1), (-1, 1)):
        tail, reach = _tail(u, evidence, prior, way)
        further = at[end] + way * stride * np.arange(1, 2 + int(min(reach / own[end], MOST)))
        own[end] += float(tail(np.abs(places.at(further) - u[end])) @ (stride * places.spacing(further)))
    top = log_density.max()
    mass = np.exp(log_density - top) * own
    total = float(mass.sum())
    error = _error_of_rule(u, evidence, prior, log_density, total)
    return ShapeGrid(
        u=u,
        log_density=log_density,
        weight=mass / total,
        log_integral=float(top + np.log(total)),
        error=error,
        converged=error <= accuracy,
        prior=prior,
        which=np.empty(0, dtype=np.intp),
    )


def _tail(
    u: FloatArray, evidence: FloatArray, prior: ShapePrior, way: int
) -> tuple[Callable[[FloatArray], FloatArray], float]:
    """The density at distances beyond the last node upwards, or the first downwards, relative to it; how far it goes.

    The log evidence goes on as a parabola where it falls, and else as it is at the end.
    """
    end = -1 if way > 0 else 0
    rate = bend = 0.0
    if u.size > 2:
        curve = CubicSpline(u, evidence)
        rate = -way * float(curve(u[end], 1))
        if rate <= 0.0:
            # Through rough values a curve may end upwards though the values fall.
            rate = max(float(evidence[end - way] - evidence[end]) / _last_step(u, way), 0.0)
        bend = max(-float(curve(u[end], 2)), 0.0)
        if rate * _last_step(u, way) < FLAT:
            rate = bend = 0.0
    fall = rate + (prior.b if way > 0 else prior.a)
    if fall <= 0.0:
        raise ValueError(
            "the scale of the noise is not determined: the columns explain too many of the responses without error; "
            "use family='gaussian'"
        )

    def density(away: FloatArray) -> FloatArray:
        change = prior.values(u[end] + way * away) - prior(float(u[end]))
        out: FloatArray = np.exp(change - rate * away - 0.5 * bend * away**2)
        return out

    return density, TAIL / fall


def _mass_of_tail(u: FloatArray, evidence: FloatArray, prior: ShapePrior, way: int) -> float:
    """The integral of the density beyond an end relative to the density there."""
    tail, reach = _tail(u, evidence, prior, way)
    step = _last_step(u, way) / FINE
    away = step * np.arange(1.0, 2 + int(min(reach / step, MOST)))
    return step * (0.5 + float(tail(away).sum()))


def _last_step(u: FloatArray, way: int) -> float:
    """The distance of the last two nodes upwards, or of the first two downwards."""
    if u.size < 2:
        return 1.0
    return float(u[-1] - u[-2] if way > 0 else u[1] - u[0])


def _error_of_rule(
    u: FloatArray, evidence: FloatArray, prior: ShapePrior, log_density: FloatArray, integral: float
) -> float:
    """Estimated relative error of the rule's `integral` of the density relative to its highest node."""
    if u.size < 3:
        return np.inf
    top, fine = float(log_density.max()), np.linspace(u[0], u[-1], FINE * (u.size - 1) + 1)
    tails = np.exp(log_density[0] - top) * _mass_of_tail(u, evidence, prior, -1)
    tails += np.exp(log_density[-1] - top) * _mass_of_tail(u, evidence, prior, 1)

    def between(keep: IntArray) -> FloatArray:
        out: FloatArray = np.exp(
            np.minimum(CubicSpline(u[keep], evidence[keep])(fine) + prior.values(fine) - top, HIGHEST)
        )
        return out

    whole = between(np.arange(u.size))
    step = fine[1] - fine[0]
    inside = float(trapezoid(whole, dx=step))
    without = (between(np.delete(np.arange(u.size), i)) for i in range(1, u.size - 1))
    # Between two nodes it is seen twice: without either of them.
    missed = 0.5 * sum(float(trapezoid(np.abs(whole - each), dx=step)) for each in without) / HALF
    return (abs(inside + tails - integral) + missed) / integral


def shape_arrays(grid: ShapeGrid | FormGrid, log_shape: FloatArray) -> dict[str, Any]:
    """The log of a further parameter at each component of a posterior (K,), and its distribution function."""
    found = grid.posterior()
    return {
        "log_shape": log_shape,
        "shape_from": found.points[:1],
        "shape_to": found.points[-1:],
        "shape_cumulative": found.cumulative,
        "shape_rise": float(found.rise),
        "shape_fall": float(found.fall),
    }
