"""Simulated data for the comparisons with peers: five kinds of columns, dense or sparse coefficients, test rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

N_TEST = 500
BLOCK = 10
"""Columns of a block of correlated genotypes."""
FACTORS = 8
"""Common factors of the expression-like columns."""


@dataclass(frozen=True, eq=False)
class Problem:
    """One data set.

    Attributes
    ----------
    x, y : (n, d), (n,) arrays
    x_test, y_test : arrays
        Rows of the same distribution.
    coef : (d,) array
        The truth, per unit of the column.
    noise : float
        Standard deviation of the noise.
    """

    x: np.ndarray
    y: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray
    coef: np.ndarray
    noise: float

    @property
    def true(self) -> np.ndarray:
        """Which coefficients are not zero, (d,) of bool."""
        return self.coef != 0


def independent(m: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Independent normal columns."""
    return rng.standard_normal((m, d))


def autoregressive(m: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """AR(1) columns with correlation 0.9."""
    x = rng.standard_normal((m, d))
    for j in range(1, d):
        x[:, j] = 0.9 * x[:, j - 1] + np.sqrt(1 - 0.81) * x[:, j]
    return x


def genotypes(m: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Counts 0, 1, 2 of two independent chromosomes, correlated in blocks of ten, allele frequency 0.05 to 0.5."""
    threshold = np.quantile(rng.standard_normal(10_000), rng.uniform(0.5, 0.95, d))
    counts = np.zeros((m, d))
    for _ in range(2):
        shared = np.repeat(rng.standard_normal((m, -(-d // BLOCK))), BLOCK, axis=1)[:, :d]
        counts += np.sqrt(0.8) * shared + np.sqrt(0.2) * rng.standard_normal((m, d)) > threshold
    return counts


def expression(m: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Like log expression of genes: a few factors common to all columns, modules of fifty, own noise, own scale."""
    common = rng.standard_normal((m, FACTORS)) @ rng.standard_normal((FACTORS, d)) / np.sqrt(FACTORS)
    modules = np.repeat(rng.standard_normal((m, -(-d // 50))), 50, axis=1)[:, :d]
    own = rng.standard_normal((m, d))
    return 8.0 + (0.6 * common + 0.6 * modules + 0.5 * own) * rng.gamma(4.0, 0.1, d)


def bernoulli(m: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Indicators that are 1 in one row of twenty."""
    return (rng.random((m, d)) < 0.05).astype(float)


DESIGNS: dict[str, Callable[[int, int, np.random.Generator], np.ndarray]] = {
    "independent": independent,
    "AR(0.9)": autoregressive,
    "genotypes": genotypes,
    "expression": expression,
    "Bernoulli": bernoulli,
}


def make(design: str, n: int, d: int, seed: int, *, active: int | None, share: float) -> Problem:
    """A data set.

    Parameters
    ----------
    design : str
        Key of DESIGNS.
    n, d : int
    seed : int
        The same seed gives the same data.
    active : int or None
        How many coefficients are not zero; None: all.
    share : float
        Share of the response's variance that the coefficients explain, in the rows drawn.

    Returns
    -------
    Problem
        Coefficients are normal for columns of variance 1. Columns that do not vary in the n rows are drawn again,
        as one would leave them out.
    """
    rng = np.random.default_rng([seed, n, d, sorted(DESIGNS).index(design)])
    x = DESIGNS[design](n + N_TEST, d, rng)
    while (flat := np.ptp(x[:n], axis=0) == 0).any():
        x[:, flat] = rng.permuted(x[:, flat], axis=0)
    coef = np.zeros(d)
    at = np.arange(d) if active is None else rng.choice(d, active, replace=False)
    coef[at] = rng.standard_normal(at.size) / x[:, at].std(axis=0)
    signal = x @ coef
    noise = float(signal.std() * np.sqrt(1 / share - 1))
    y = 2.0 + signal + noise * rng.standard_normal(n + N_TEST)
    return Problem(x[:n], y[:n], x[n:], y[n:], coef, noise)
