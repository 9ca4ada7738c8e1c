"""A parameter of the likelihood that is integrated out with the penalty: its prior, and the rule for it.

With u the log of the shape, such as a dispersion, the posterior is a mixture over values of u of the posteriors given
u, each integrated over the penalty or at one penalty, with weights proportional to the prior density of u times the
evidence given u. The trapezoidal rule in u converges geometrically; its error with spacing h is about the square, or
a higher power, of that with 2h, which follows from the same nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import betaln

from pybayesridge._types import FloatArray, IntArray

DROP = 7.5
"""Values of u whose log density is lower than the largest by this are left out: the tail beyond is about e^-DROP."""

FLAT = 1e-3
"""Where the evidence changes by less from one value to the next, the tail of the posterior is that of the prior."""

TWICE = 2
"""So often in a row."""

SPREAD = 1.0
"""First spacing, in standard deviations of u by the curvature at the top."""

WIDEST = 1.0
"""Largest spacing: the prior's tails are exponentials."""

HALVINGS = 3
"""Most halvings of the spacing."""

ACCURACY = 1e-3
"""Estimated error of the integral over u, relative, that counts as none."""

CLOSE = 0.25
"""The top is located to this part of a standard deviation: it only places the nodes."""

TRIAL, STEPS = 1.0, 80
"""Steps of the search for the top, and how many there are at the most."""


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
        return float(self.a * u - (self.a + self.b) * np.logaddexp(0.0, u) - betaln(self.a, self.b))


@dataclass(frozen=True, slots=True)
class ShapeGrid:
    """Nodes and weights of the posterior of u.

    Attributes
    ----------
    u : (S,) array
        Ascending, equally spaced.
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

    @property
    def mean(self) -> float:
        """Posterior mean of u."""
        return float(self.weight @ self.u)


def top_of(height: Callable[[float], float], start: float, prior: ShapePrior) -> tuple[float, float]:
    """The place of the largest value of a smooth function of u near `start`, and the spacing that it asks for.

    Steps double while the function rises, and are halved where it falls; then a parabola.
    """
    known: dict[float, float] = {}

    def at(u: float) -> float:
        if u not in known:
            known[u] = height(u)
        return known[u]

    middle, step = float(np.clip(start, prior.low, prior.high)), TRIAL
    for _ in range(STEPS):
        below, above = max(middle - step, prior.low), min(middle + step, prior.high)
        best = max((below, middle, above), key=at)
        if best != middle:
            middle = best
            continue
        bend = _bend(below, middle, above, at)
        sd = 1.0 / np.sqrt(bend) if bend > 0 else np.inf
        if step <= max(sd, CLOSE) or step <= CLOSE * TRIAL / 4:
            break
        step *= 0.5
    return middle, float(np.clip(SPREAD * sd, CLOSE / 4, WIDEST))


def _bend(below: float, middle: float, above: float, at: Callable[[float], float]) -> float:
    """Minus the second derivative by divided differences."""
    if not below < middle < above:
        return 0.0
    rise, fall = (at(middle) - at(below)) / (middle - below), (at(above) - at(middle)) / (above - middle)
    return 2.0 * (rise - fall) / (above - below)


def integrate_shape(evidence: Callable[[float], float], prior: ShapePrior, top: float, spacing: float) -> ShapeGrid:
    """Integrate over u.

    Parameters
    ----------
    evidence : callable
        Log evidence given u; asked for from the top outwards, each next to the one before.
    prior : ShapePrior
    top, spacing : float
        Where the density is largest, about, and the first spacing.
    """
    found: dict[int, float] = {}
    unit, stride = spacing / 2**HALVINGS, 2**HALVINGS
    _extend(found, evidence, prior, top, unit, stride)
    lowest, highest = min(found), max(found)
    while True:
        at = range(lowest, highest + 1, stride)
        for i in sorted(set(at).difference(found)):
            found[i] = evidence(top + unit * i)
        grid = _rule(top + unit * np.array(at), np.array([found[i] for i in at]), prior)
        if grid.converged or stride == 1:
            return grid
        stride //= 2


def _extend(
    found: dict[int, float],
    evidence: Callable[[float], float],
    prior: ShapePrior,
    top: float,
    unit: float,
    stride: int,
) -> None:
    """Ask for the evidence at multiples of a stride until the density is negligible or the evidence is constant."""

    def density(i: int) -> float:
        if i not in found:
            found[i] = evidence(top + unit * i)
        return found[i] + prior(top + unit * i)

    highest = density(0)
    for sign in (1, -1):
        i, flat = 0, 0
        while prior.low < top + unit * (i + sign * stride) < prior.high and flat < TWICE:
            before, i = found[i], i + sign * stride
            value = density(i)
            highest = max(highest, value)
            # Once may be an accident, on either side of the top.
            flat = flat + 1 if abs(found[i] - before) < FLAT else 0
            if value < highest - DROP:
                break


def _rule(u: FloatArray, evidence: FloatArray, prior: ShapePrior) -> ShapeGrid:
    """The trapezoidal rule, whose tails beyond the end nodes are those of the prior."""
    spacing = float(u[1] - u[0]) if u.size > 1 else 1.0
    log_density = evidence + np.array([prior(each) for each in u.tolist()])
    # Beyond the ends nodes would have the evidence of the last: geometric series, every second term of them a node's
    # own parity.
    own, others = np.ones(u.size), np.zeros(u.size)
    for end, rate in ((0, prior.a), (-1, prior.b)):
        ratio = np.exp(-rate * spacing)
        own[end] += ratio**2 / (1.0 - ratio**2)
        others[end] += ratio / (1.0 - ratio**2)
    top = log_density.max()
    mass = np.exp(log_density - top)
    total = float(mass @ (own + others))
    weight = mass * (own + others) / total
    # The nodes of either parity alone are the rule with twice the spacing.
    sign = np.where(np.arange(u.size) % 2 == 0, 1.0, -1.0)
    coarse = abs(float(sign @ (mass * (own - others)))) / total
    return ShapeGrid(
        u=u,
        log_density=log_density,
        weight=weight,
        log_integral=float(top + np.log(spacing * total)),
        error=coarse**2,
        converged=coarse**2 <= ACCURACY,
        prior=prior,
        which=np.empty(0, dtype=np.intp),
    )
