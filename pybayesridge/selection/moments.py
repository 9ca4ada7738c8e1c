"""Results from the kept states for coefficients, noise and explained share: draws, quantiles, covariances."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, log_expit

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.posterior.quantiles import EPS, SMALLEST, Ragged
from pybayesridge.selection.grid import Grid
from pybayesridge.selection.states import States


@dataclass(frozen=True, slots=True)
class Draws:
    """Draws from the joint posterior, in the units of the problem.

    Attributes
    ----------
    coef : (N, d) array
        Exact zeros where a column is out.
    noise_var, slab_var : (N,) arrays
    prior_inclusion : (N,) array
        NaN where it is given.
    state : (N,) int array
        The kept state of each draw.
    """

    coef: FloatArray
    noise_var: FloatArray
    slab_var: FloatArray
    prior_inclusion: FloatArray
    state: IntArray


def draw(states: States, d: int, size: int, rng: np.random.Generator) -> Draws:
    """Draw states by weight, then s2, then the coefficients."""
    return draws_given(states, d, rng.choice(states.n, size, p=states.weight), rng)


def draw_chain(states: States, d: int, chain: int, size: int, rng: np.random.Generator) -> Draws:
    """Draws in the order of the states of a chain: these are resampled systematically by weight."""
    own = np.flatnonzero(states.chain == chain)
    reached = np.cumsum(states.weight[own])
    points = (rng.random() + np.arange(size)) / size * reached[-1]
    return draws_given(states, d, own[np.minimum(np.searchsorted(reached, points), own.size - 1)], rng)


def draws_given(states: States, d: int, index: IntArray, rng: np.random.Generator) -> Draws:
    """Draw s2 and the coefficients given the states `index`."""
    size = index.size
    noise = states.draw_noise(index, rng)
    coef = np.zeros((size, d))
    for i, (s, s2) in enumerate(zip(index.tolist(), noise.tolist(), strict=True)):
        begin, end = states.start[s], states.start[s + 1]
        z = rng.standard_normal(end - begin)
        coef[i, states.columns[begin:end]] = states.coef[begin:end] + np.sqrt(s2) * (states.root[s] @ z)
    return Draws(coef, noise, np.exp(states.log_g[index]) * noise, expit(states.t[index]), index.astype(np.intp))


def covariance(states: States, d: int) -> FloatArray:
    """Posterior covariance of the coefficients, (d, d); its diagonal is noisier than `Exact.var`."""
    noise = states.mean_noise()
    second, mean = np.zeros((d, d)), np.zeros(d)
    for s in range(states.n):
        columns = states.set_of(s)
        coef = states.coef[states.start[s] : states.start[s + 1]]
        block = noise[s] * (states.root[s] @ states.root[s].T) + np.outer(coef, coef)
        second[np.ix_(columns, columns)] += states.weight[s] * block
        mean[columns] += states.weight[s] * coef
    return second - np.outer(mean, mean)


def prior_share(states: States, grid: Grid) -> FloatArray:
    """The share of variance explained a priori, h = σ(eta), at each state, (S,)."""
    log_p = np.zeros(states.n) if grid.unit_odds is not None else log_expit(states.t)
    return expit(grid.prior.log_spread + log_p + states.log_g)


def quantiles(
    states: States, inclusion_prob: FloatArray, probabilities: FloatArray, *, given_inclusion: bool = False
) -> FloatArray:
    """Quantiles of each coefficient, spike and slab together or given that it is in.

    Parameters
    ----------
    states : States
    inclusion_prob : (d,) array
        The weight of the slab: more accurate than the states' own.
    probabilities : (q,) array
    given_inclusion : bool

    Returns
    -------
    (d, q) array
        0 for columns that no kept state has in; NaN for these given inclusion.
    """
    out = np.full((inclusion_prob.size, probabilities.size), np.nan if given_inclusion else 0.0)
    visited, slabs = slabs_of(states)
    if visited.size == 0:
        return out
    if given_inclusion:
        out[visited] = slabs.quantiles(np.clip(probabilities, SMALLEST, 1.0 - EPS))
        return out
    out[visited] = slabs.with_spike(inclusion_prob[visited], probabilities)
    return out


def slabs_of(states: States) -> tuple[IntArray, Ragged]:
    """The columns that are in some kept state, (V,), and their coefficients given inclusion."""
    state = states.of_state
    order = np.lexsort((-states.weight[state], states.columns))
    visited, start, count = np.unique(states.columns[order], return_index=True, return_counts=True)
    own_var = np.concatenate([np.zeros(0), *[np.einsum("ij,ij->i", root, root) for root in states.root]])
    noise, nu = (states.left / states.nu, states.nu) if states.noise_var is None else (states.noise_var, np.inf)
    state = state[order]
    weight = states.weight[state]
    if visited.size:
        weight = weight / np.repeat(np.add.reduceat(weight, start), count)
    return visited, Ragged(
        weight,
        states.coef[order],
        np.sqrt(own_var[order] * noise[state]),
        np.append(start, order.size).astype(np.intp),
        nu,
    )
