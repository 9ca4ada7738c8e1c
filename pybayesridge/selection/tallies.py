"""Weighted averages over chains, and their Monte Carlo errors by batches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import fdtri

from pybayesridge._types import FloatArray

MOST_BATCHES = 16
"""Batches of a chain at most: then neighbours are merged. Few long ones, since short ones are dependent."""

SHORTEST = 32
"""Steps of a batch to begin with."""

FEW = 200
"""Units that are few: a step costs little then, so that many short runs are made, which need a longer lead."""

LEAD = ((FEW, 4), (np.inf, 8))
"""One of so many batches, the first ones, is left out, up to so many units: the chain's way from its start."""

FEWEST_PAIRS = 3
"""Pairs of batches of a chain that say how dependent neighbours are."""

DISAGREEMENT = 0.999
"""Quantile of the F distribution beyond which the ratio of the variance between chains to that between batches makes
the error that between chains."""


def by_size(table: tuple[tuple[float, int], ...], n_units: int) -> int:
    """The entry of a table for so many units."""
    return next(value for most, value in table if n_units <= most)


class Tallies:
    """Sums of weights and of weighted inclusion probabilities over the batches of each chain; changed in place.

    Attributes
    ----------
    length : int
        Steps of a batch.
    filled : int
        Steps in the batch that is being filled, the last one.
    numer : (B, C, G) array
    denom : (B, C) array
    """

    __slots__ = ("denom", "filled", "length", "numer", "one_in", "used")

    def __init__(self, n_chains: int, n_units: int) -> None:
        self.length, self.filled, self.used = SHORTEST, 0, 1
        self.one_in = by_size(LEAD, n_units)
        self.numer = np.zeros((MOST_BATCHES, n_chains, n_units))
        self.denom = np.zeros((MOST_BATCHES, n_chains))

    def add(self, weight: FloatArray, weighted: FloatArray) -> None:
        """Add a step: weights (C,) and weighted probabilities (C, G)."""
        if self.filled == self.length:
            self._next()
        self.numer[self.used - 1] += weighted
        self.denom[self.used - 1] += weight
        self.filled += 1

    def _next(self) -> None:
        if self.used == MOST_BATCHES:
            half = MOST_BATCHES // 2
            for sums in (self.numer, self.denom):
                sums[:half] = sums[0::2] + sums[1::2]
                sums[half:] = 0.0
            self.length *= 2
            self.used = half
        self.used += 1
        self.filled = 0

    @property
    def steps(self) -> int:
        """Steps of a chain."""
        return (self.used - 1) * self.length + self.filled

    @property
    def lead(self) -> int:
        """Steps at the beginning that are left out."""
        return self.first * self.length if self.used > 1 else 0

    @property
    def first(self) -> int:
        """The first batch that counts."""
        return self.used // self.one_in


@dataclass(frozen=True, slots=True)
class Estimate:
    """Estimated inclusion probabilities.

    Attributes
    ----------
    prob, se : (G,) arrays
    agreement : float
        The largest square root of (variance within + variance between chains) / variance within, over units with a
        probability that is not near 0 or 1.
    effective : float
        Smallest effective number of independent draws, over units with a probability that is not near 0 or 1.
    """

    prob: FloatArray
    se: FloatArray
    agreement: float
    effective: float


def _batch_variance(gap: FloatArray, denom: FloatArray) -> FloatArray:
    """Variances of ratios of sums, (G,), by deviations of batches from them (B, C, G) and weights of batches (B, C).

    Neighbouring batches are dependent if they are short. The variance by pairs of batches is then larger, and the
    difference is added to it (Vats & Flegal 2022, Biometrika, "Lugsail lag windows").
    """
    single = _by_batches(gap, denom, float(denom.sum()))
    pairs = gap.shape[0] // 2
    if pairs < FEWEST_PAIRS:
        return single
    shape = (pairs, 2, *denom.shape[1:])
    both_gap = gap[-2 * pairs :].reshape(*shape, gap.shape[-1]).sum(axis=1)
    both_denom = denom[-2 * pairs :].reshape(shape).sum(axis=1)
    double = _by_batches(both_gap, both_denom, float(denom.sum()))
    return np.maximum(2.0 * double - single, single)


def _by_batches(gap: FloatArray, denom: FloatArray, total: float) -> FloatArray:
    """The same by independent batches, for all batches of weight `total`."""
    count = denom.size
    square: FloatArray = (gap**2).sum(axis=(0, 1))
    return square * (count / max(count - 1, 1)) / (float(denom.sum()) * total)


def estimate(tallies: Tallies) -> Estimate:
    """Pool all chains, and compare batches and chains."""
    first = tallies.first
    last = tallies.used if tallies.filled == tallies.length or tallies.used - first < 3 else tallies.used - 1
    numer, denom = tallies.numer[first:last], tallies.denom[first:last]
    total = float(denom.sum())
    prob = numer.sum(axis=(0, 1)) / total
    gap = numer - prob * denom[..., None]
    batch_var = _batch_variance(gap, denom)
    chain_gap = gap.sum(axis=0)
    n_chains = chain_gap.shape[0]
    chain_var = (chain_gap**2).sum(axis=0) * (n_chains / max(n_chains - 1, 1)) / total**2
    freedom = max(n_chains - 1, 1), max(denom.size - n_chains, 1)
    use_chains = (chain_var > fdtri(*freedom, DISAGREEMENT) * batch_var) & (n_chains > 1)
    variance = np.where(use_chains, chain_var, batch_var)
    within = prob * (1.0 - prob)
    central = within > 0.01
    own = chain_gap / np.where(denom.sum(axis=0) > 0, denom.sum(axis=0), 1.0)[:, None]
    between = (own**2).sum(axis=0) / max(n_chains - 1, 1)
    agreement = float(np.sqrt(1.0 + np.max(between[central] / within[central], initial=0.0)))
    effective = float(np.min(within[central] / np.maximum(variance[central], 1e-300), initial=np.inf))
    return Estimate(np.clip(prob, 0.0, 1.0), np.sqrt(variance), agreement, effective)
