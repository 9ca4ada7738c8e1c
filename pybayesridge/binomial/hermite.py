"""Gauss-Hermite rules for tilted densities of the logit link that are narrow, as they are where rows are many.

A row of m trials has the log likelihood ``s eta - m log(1 + exp(eta))``, whose poles are pi away from the real line,
and whose third derivative is at most ``m / 10`` and ``m exp(-|eta|)``. With sd the width of the tilted density, the
rule's error depends on ``sd max(1, m)^(1/3)``, and is largest for a single trial. Where successes or failures are
rare, m counts only as the trials at the bend that would have that derivative.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.binomial.link import derivatives
from pybayesridge.sites.tilted import Cavity

SIZES = np.array([4, 5, 6, 8, 10, 12, 16, 24, 32])
"""Nodes of the rules."""

WIDEST = np.array([0.06, 0.14, 0.22, 0.35, 0.5, 0.6, 0.8, 1.0, 1.2])
"""Largest ``sd max(1, m)^(1/3)`` at which each of them is right to 1e-9, in standard deviations and relatively."""

RARE, FEW = 20.0, 4.0
"""Trials count ``RARE exp(-|eta|)`` times where this is less than 1, with eta the cavity's centre: by twice the
ratio of the bounds of the derivative, as it grows towards the bend. They count as so few at the least, or as many as
there are: beyond the bend the log likelihood is that of a count, an exponential."""

FARTHEST = 1.0
"""The rule has its centre at one step of Newton's method from the cavity's, which must not be longer, in sd."""


def narrow(successes: FloatArray, failures: FloatArray, cavity: Cavity) -> tuple[IntArray, FloatArray, FloatArray]:
    """The rule of each row by its place in `SIZES`, -1 where none will do, and its centre and unit; each (n,)."""
    slope, bend = derivatives(successes, failures, cavity.center, "logit")
    trials = successes + failures
    counted = np.maximum(trials * np.minimum(RARE * np.exp(-np.abs(cavity.center)), 1.0), np.minimum(trials, FEW))
    return rules(slope, bend, counted, cavity)


def narrow_counts(
    slope: FloatArray, bend: FloatArray, cavity: Cavity, elements: int
) -> tuple[IntArray, FloatArray, FloatArray]:
    """The same for Poisson counts, from the first derivative at the cavity's centre and minus the second, (n,).

    Rows that take no more than so many `elements` have the longest of their rules together.
    """
    rule, center, unit = rules(slope, bend, np.maximum(RARE * bend, FEW), cavity)
    most = int(rule.max(initial=-1))
    if most >= 0 and SIZES[most] * rule.size <= elements:
        rule = np.where(rule >= 0, most, -1)
    return rule, center, unit


def rules(
    slope: FloatArray, bend: FloatArray, trials: FloatArray, cavity: Cavity
) -> tuple[IntArray, FloatArray, FloatArray]:
    """The same for log likelihoods as curved as those of so many trials, all (n,)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        unit = 1.0 / np.sqrt(cavity.precision + bend)
        step = (cavity.slope + slope) * unit
    width = unit * np.cbrt(np.maximum(trials, 1.0))
    rule = np.where(np.abs(step) <= FARTHEST, np.searchsorted(WIDEST, width), SIZES.size)
    return np.where(rule < SIZES.size, rule, -1), cavity.center + step * unit, unit


def nodes(
    rule: IntArray, center: FloatArray, unit: FloatArray, elements: int
) -> Iterator[tuple[IntArray, FloatArray, FloatArray]]:
    """Yield rows, their nodes (K, m) and the weights of these (K, m), in blocks of at most so many `elements`."""
    for i in np.unique(rule[rule >= 0]).tolist():
        at, weight = hermite(int(SIZES[i]))
        members = np.flatnonzero(rule == i)
        step = max(1, elements // at.size)
        for start in range(0, members.size, step):
            rows = members[start : start + step]
            yield rows, center[rows] + at[:, None] * unit[rows], weight[:, None] * unit[rows]


@lru_cache(maxsize=SIZES.size)
def hermite(size: int) -> tuple[FloatArray, FloatArray]:
    """Nodes of the rule for a standard normal weight, and the weights for the integral without it."""
    at, weight = np.polynomial.hermite_e.hermegauss(size)
    return at, weight * np.exp(0.5 * at**2)
