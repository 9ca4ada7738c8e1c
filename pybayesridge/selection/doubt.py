"""Where expectation propagation is in doubt: correlated units that can stand in for each other.

EP's Gaussian has no "one of these two, not both". A look that costs a few products with X finds the pairs where this
may matter: strongly correlated units that share their inclusion probability, and probable units that another one can
replace. For the latter the probabilities of the four states of the pair are exact, given the other units. The error
itself is seen by enumeration or a short run of the sampler at the same hyperparameters (:func:`check_selection`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import logit, softmax

from pybayesridge._types import BoolArray, FloatArray, IntArray
from pybayesridge.data.units import Units, units_of
from pybayesridge.ep.methods import Task
from pybayesridge.ep.model.hyperparameters import Hyperparameters
from pybayesridge.ep.model.least_squares import Data
from pybayesridge.ep.posterior import SelectionPosterior
from pybayesridge.ep.selection import Selection
from pybayesridge.linalg import blas
from pybayesridge.selection.estimates import Estimate
from pybayesridge.selection.fit import fit_exact
from pybayesridge.selection.grid import Given
from pybayesridge.selection.methods import problem_of_data
from pybayesridge.selection.posterior import ExactPosterior
from pybayesridge.selection.result import Check, Doubt

CORRELATED = 0.7
"""Absolute correlation of two units from which EP can be in doubt."""

SHARED, SHARED_SUM = 0.01, 0.1
"""Least probability of each of two units that share it, and least sum of theirs and of others correlated with one."""

DEPENDENT, OPEN = 0.3, 0.1
"""Others with such an absolute correlation with a pair and a probability that far from 0 and 1 leave it undecided."""

LIKELY = 0.05
"""Probability of a unit from which others that could take its place are looked for."""

DOUBTFUL = 0.05
"""Error of an inclusion probability given the other units from which it is a doubt."""

MOST_UNITS, MOST_PARTNERS, MOST_INSIDE = 100, 20, 100
"""Units that are looked at, others that could take the place of one, units in the set around them: at most."""

MOST_INSIDE_RIVALS = 3
"""Correlated units in the set that are looked at for each."""

BLOCK = 2**22
"""Numbers in a block of correlations."""

MCSE = 0.02
"""Monte Carlo standard error at which the run of a check stops."""

STEPS = 4_000_000
"""Most steps of all chains."""


def check_selection(
    task: Task, selection: Selection, progress: Callable[[int, Estimate | None], None] | None = None
) -> Check | None:
    """Compare EP with the exact posterior at the hyperparameters of the largest weight; None where nothing is open.

    One chain starts from EP's median probability model. `progress`: as for :func:`fit_exact`.
    """
    hyper, by_ep = selection.best_hyper, np.clip(selection.best.inclusion_prob, 0.0, 1.0)
    if task.data.n_columns == 0 or selection.noiseless:
        return None
    problem = problem_of_data(task.rotation.unrotated(task.data), task.n, task.groups)
    exact = fit_exact(
        problem,
        Given(hyper.prior_inclusion, hyper.slab_var, hyper.noise_var),
        mcse=MCSE,
        maxiter=STEPS,
        rng=0,
        progress=progress,
        starts=[np.unique(problem.units.of_column[by_ep > 0.5])],
    )
    return Check(by_ep, exact.inclusion_prob, exact.inclusion_se)


def doubts_of(posterior: SelectionPosterior | ExactPosterior, groups: IntArray | None) -> tuple[Doubt, ...]:
    """Pairs of columns or groups for which expectation propagation is in doubt; of an exact posterior none."""
    if posterior.exact is not None:
        return ()
    selection: Any = posterior.selection
    units = units_of(posterior.design.p, groups)
    prob = selection.inclusion_prob[units.order[units.start[:-1]]]
    return doubts(selection.rotation.unrotated(posterior.data), units, selection.best_hyper, prob)


def doubts(data: Data, units: Units, hyper: Hyperparameters, prob: FloatArray) -> tuple[Doubt, ...]:
    """Pairs in doubt, the clearest first; each unit is in one pair at most.

    Parameters
    ----------
    data : Data
        Not rotated.
    units : Units
    hyper : Hyperparameters
    prob : (G,) array
        EP's inclusion probabilities.
    """
    prior = hyper.prior_inclusion[units.order[units.start[:-1]]]
    open_ = (prior > 0) & (prior < 1)
    if not (hyper.noise_var > 0 and hyper.slab_var > 0) or open_.sum() < 2:
        return ()
    found = [*_exchanges(data, units, hyper, prob, prior, open_), *_shared(data, units, prob, open_)]
    found.sort(key=lambda doubt: -doubt.error)
    out: list[Doubt] = []
    taken: set[int] = set()
    for doubt in found:
        if not {doubt.unit, doubt.partner} & taken:
            taken |= {doubt.unit, doubt.partner}
            first, second = sorted((doubt.unit, doubt.partner))
            out.append(Doubt(first, second, doubt.correlation, doubt.error))
    return tuple(out)


def _most_probable(prob: FloatArray, keep: BoolArray, most: int) -> IntArray:
    at = np.flatnonzero(keep)
    return at[np.argsort(-prob[at], kind="stable")][:most].astype(np.intp)


def _correlations(
    data: Data, units: Units, some: IntArray, others: IntArray | None = None
) -> Iterator[tuple[int, FloatArray]]:
    """Each unit of `some` with its absolute correlations with `others` (all units), the largest of their columns."""
    length = np.sqrt(data.gram_diag)
    safe = np.where(length > 0, length, np.inf)
    in_place = others is None and units.single
    others = np.arange(units.n, dtype=np.intp) if others is None else others
    columns = units.columns(others)
    right = data.root if in_place else data.root[:, columns]
    first = np.concatenate([[0], np.cumsum(units.sizes[others])[:-1]])
    step = max(BLOCK // max(columns.size, 1), 1)
    for begin in range(0, some.size, step):
        part = some[begin : begin + step]
        own = units.columns(part)
        products = blas.product(data.root[:, own], right, transpose_a=True)
        corr = np.abs(products) / safe[own][:, None] / safe[columns]
        at = np.concatenate([[0], np.cumsum(units.sizes[part])])
        for i, unit in enumerate(part.tolist()):
            of_columns = corr[at[i] : at[i + 1]].max(axis=0)
            yield unit, of_columns if units.single else np.maximum.reduceat(of_columns, first)


def _shared(data: Data, units: Units, prob: FloatArray, open_: BoolArray) -> Iterator[Doubt]:
    """Correlated units that share a probability which is small for each of them."""
    play = _most_probable(prob, open_ & (prob > SHARED) & (prob <= LIKELY), 3 * MOST_UNITS)
    for unit, corr in _correlations(data, units, play, play):
        near = (corr >= CORRELATED) & (play != unit)
        if not near.any() or prob[play[near]].sum() + prob[unit] < SHARED_SUM:
            continue
        partner = int(play[near][prob[play[near]].argmax()])
        yield Doubt(unit, partner, float(corr[play == partner][0]))


def _exchanges(
    data: Data, units: Units, hyper: Hyperparameters, prob: FloatArray, prior: FloatArray, open_: BoolArray
) -> Iterator[Doubt]:
    """Probable units that another one can replace, by the four states of such a pair given the other units."""
    inside = _most_probable(prob, prob > 0.5, MOST_INSIDE)
    for unit, corr in _correlations(data, units, _most_probable(prob, open_ & (prob > LIKELY), MOST_UNITS)):
        corr[unit] = 0.0
        near = np.flatnonzero(open_ & (corr >= CORRELATED)).astype(np.intp)
        near = near[np.argsort(-corr[near], kind="stable")][:MOST_PARTNERS]
        for partner in _rivals(data, units, hyper, near, unit, inside, prior):
            pair = np.array([unit, partner], dtype=np.intp)
            rest = units.columns(np.setdiff1d(inside, pair))
            error = float(np.abs(_of_pair(data, units, hyper, rest, pair, prior) - prob[pair]).max())
            if error >= DOUBTFUL:
                certain = _decided(data, units, prob, corr, pair)
                yield Doubt(unit, partner, float(corr[partner]), error if certain else 0.0)


def _decided(data: Data, units: Units, prob: FloatArray, corr: FloatArray, pair: IntArray) -> bool:
    """Whether EP leaves no other unit open that is correlated with one of a pair, `corr` being those of the first."""
    of_partner = next(_correlations(data, units, pair[1:]))[1]
    near = np.maximum(corr, of_partner) >= DEPENDENT
    near[pair] = False
    return not bool((near & (prob > OPEN) & (prob < 1.0 - OPEN)).any())


def _rivals(
    data: Data, units: Units, hyper: Hyperparameters, near: IntArray, unit: int, inside: IntArray, prior: FloatArray
) -> list[int]:
    """The unit out of the set that would replace `unit` best, and those in the set that are correlated with it."""
    out = near[~np.isin(near, inside)]
    found: list[int] = near[np.isin(near, inside)][:MOST_INSIDE_RIVALS].tolist()
    if out.size:
        odds = _log_odds(
            data, units, hyper, units.columns(inside[inside != unit]), [out[[i]] for i in range(out.size)]
        )
        found.append(int(out[int(np.argmax(odds + logit(prior[out])))]))
    return found


def _of_pair(
    data: Data, units: Units, hyper: Hyperparameters, rest: IntArray, pair: IntArray, prior: FloatArray
) -> FloatArray:
    """Inclusion probabilities of two units given that the columns `rest` are in, (2,)."""
    first, second, both = _log_odds(data, units, hyper, rest, [pair[:1], pair[1:], pair])
    own = logit(prior[pair])
    weight = softmax([0.0, first + own[0], second + own[1], both + own.sum()])
    return np.array([weight[1] + weight[3], weight[2] + weight[3]])


def _log_odds(
    data: Data, units: Units, hyper: Hyperparameters, rest: IntArray, candidates: Sequence[IntArray]
) -> FloatArray:
    """Log Bayes factors of sets of units being in against none, given that the columns `rest` are in, (c,)."""
    k = hyper.noise_var / hyper.slab_var
    every = np.unique(np.concatenate(candidates))
    columns = units.columns(every)
    own = data.root[:, columns]
    reach, free = data.cross[columns], own.T @ own + k * np.eye(columns.size)
    if rest.size:
        part = data.root[:, rest]
        cross = part.T @ own
        solved = cho_solve(cho_factor(part.T @ part + k * np.eye(rest.size)), cross)
        free = free - solved.T @ cross
        reach = reach - solved.T @ data.cross[rest]
    of_column = units.of_column[columns]
    out = np.empty(len(candidates))
    for i, some in enumerate(candidates):
        at = np.flatnonzero(np.isin(of_column, some))
        block, target = free[np.ix_(at, at)], reach[at]
        explained = float(target @ np.linalg.solve(block, target)) / hyper.noise_var
        out[i] = 0.5 * (at.size * np.log(k) - float(np.linalg.slogdet(block)[1]) + explained)
    return out
