"""Monte Carlo errors of averages over the kept states: by the differences between walkers that started apart."""

from __future__ import annotations

import numpy as np

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.selection.result import Exact

WHOLE = 1e-6
"""Weights that are this close to multiples of the smallest are counts of draws."""

FEWEST = 10
"""Fewer states than this are never a choice of many."""


def draws_of(exact: Exact) -> float:
    """The effective number of independent draws that the kept states stand for; inf where they are a whole sum."""
    weight = exact.states.weight
    if exact.computation.sampled:
        return min(exact.effective, float(1.0 / (weight**2).sum()))
    # Of a sum with too many terms states are resampled, with weights that are counts.
    share = weight / weight.min()
    counts = weight.size > FEWEST and np.allclose(share, np.round(share), rtol=0, atol=WHOLE)
    return float(share.sum()) if counts else np.inf


def walkers(exact: Exact) -> IntArray:
    """The walker of each kept state, or in fits of earlier versions its chain, numbered from 0."""
    states = exact.states
    found: IntArray = np.unique(states.chain if states.walker is None else states.walker, return_inverse=True)[1]
    return found.reshape(-1)


def n_walkers(exact: Exact) -> int:
    """How many walkers the kept states come from."""
    return int(walkers(exact).max(initial=0)) + 1


def error_of_influence(exact: Exact, influence: FloatArray) -> FloatArray:
    """Standard error of a function of the states' weights, from its derivative times these weights, (S, ...).

    The derivatives sum to zero over the states. Infinite where all states come from one walker, 0 where the states
    are a whole sum.
    """
    if exact.computation.sampled:
        return _between(exact, walkers(exact), influence)
    draws = draws_of(exact)
    if np.isinf(draws):
        return np.zeros(influence.shape[1:])
    each = influence.reshape(influence.shape[0], -1)
    square = ((each**2) / exact.states.weight[:, None]).sum(axis=0) / draws
    return np.sqrt(square).reshape(influence.shape[1:])


def _between(exact: Exact, walker: IntArray, influence: FloatArray) -> FloatArray:
    """Standard error from what each walker adds, by the `walker` of each state or draw; infinite for one."""
    n = n_walkers(exact)
    if n < 2:
        return np.full(influence.shape[1:], np.inf)
    of_walker = (np.arange(n)[:, None] == walker).astype(np.float64) @ influence.reshape(influence.shape[0], -1)
    square = n / (n - 1) * (of_walker**2).sum(axis=0)
    return exact.inflation * np.sqrt(square).reshape(influence.shape[1:])


def error_of_draws(exact: Exact, values: FloatArray, state: IntArray) -> FloatArray:
    """Standard error of the average of `values` (N, ...), independent draws given the kept states `state` (N,).

    That of the drawing is a part of it.
    """
    return _between(exact, walkers(exact)[state], (values - values.mean(axis=0)) / values.shape[0])


def error_of_mean(exact: Exact, values: FloatArray) -> FloatArray:
    """Standard error of the average of `values` (S, ...) over the states."""
    weight = exact.states.weight.reshape(-1, *(1,) * (values.ndim - 1))
    return error_of_influence(exact, weight * (values - (weight * values).sum(axis=0)))
