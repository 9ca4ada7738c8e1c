"""Rows of a selection of responses that are not Gaussian, predicted from the others by draws.

A row is predicted by the kept states of the posterior of all rows, weighted anew. Where few of these say what there
is without the row, or sets of columns matter that are not among them, its prediction is the ratio of the evidences
with and without it, if the expansion of the likelihood gives these (:mod:`pybayesridge.binomial.evidence`); else sets
are sampled again without the row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.random import Generator
from scipy.optimize import brentq
from scipy.special import logsumexp, ndtri

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.binomial.augmentation import BinomialRows
from pybayesridge.binomial.evidence import Evidence, log_evidence
from pybayesridge.binomial.left_out_unseen import unseen_shares
from pybayesridge.binomial.likelihood import Binomial
from pybayesridge.binomial.link import log_likelihood
from pybayesridge.binomial.selection import sample_binary
from pybayesridge.binomial.states import log_mean, log_mean_inverse
from pybayesridge.posterior.left_out import UNDETERMINED, LeftOut, NoDensityError, joined, mixed
from pybayesridge.selection.result import Exact
from pybayesridge.selection.states import States
from pybayesridge.sites.separation import needed_row, separation

ELEMENTS = 200_000
"""States times rows that are integrated at once."""

FEW = 400.0
"""Effective draws of a row's prediction, below which sets are sampled again without it."""

UNSEEN = 0.01
"""Share of sets that are not kept, above which they are, too."""

BY_EVIDENCE, AGAIN = 64, 16
"""Rows that are predicted by evidences, at most, and rows without which sets are sampled again."""

WHOLE, WITHOUT = 4, 2
"""Chains of the evidence with all rows, whose error is the same in all such predictions, and without a row."""

ROUNDS = 3
"""Expansions of the likelihood that are tried without a row; of that of all rows the mean is known."""

STARTS, SEEN = 8, 500
"""The likeliest sets of the fit that these start from, and draws of the linear predictors that they are judged by."""

MCSE = 0.02
"""Of inclusion probabilities then."""

SHARE, STEPS = 0.25, (150_000, 1_000_000)
"""Steps then, of those of the fit to all rows, but so many at least and at most."""

EACH = 8
"""Draws of the row's linear predictor in each state, one of each of so many equal parts of its law."""

SETTLED = 1e-6
"""Precision of the solution of the equation that bridges two posteriors."""

ENOUGH = 200.0
"""Effective draws that two posteriors have in common, below which another one is put between them."""

BETWEEN = 16
"""So many in all, at most."""

FIRST = 16.0
"""By this the part of a copy of the row is divided next to the posterior without it."""


Moments = Callable[[IntArray | slice], Iterator[tuple[slice, FloatArray, FloatArray]]]
"""Of some rows: consecutive ones among them, and mean and variance of their linear predictors in each kept state."""


@dataclass(frozen=True, slots=True)
class SampledSets:
    """The posterior of all rows by sampling, whose kept states predict rows.

    Attributes
    ----------
    exact : Exact
    joint : States
        The kept states with the coordinates of the unpenalised columns.
    rows : BinomialRows
        As the sampler had them.
    moments : callable
    """

    exact: Exact
    joint: States
    rows: BinomialRows
    moments: Moments


def rows_left_out(sets: SampledSets) -> LeftOut:
    """Predictions of a selection by the kept states, given which the coefficients are normal.

    Raises
    ------
    NoDensityError
        For a row without which the unpenalised columns separate the responses.
    """
    exact, rows, likelihood, pieces = sets.exact, sets.rows, sets.rows.likelihood, []
    needed = needed_row(rows.c[:, 0], likelihood) if rows.c.shape[1] == 1 else None
    if needed is not None:
        raise NoDensityError(needed, UNDETERMINED)
    draws = exact.draws
    for at, center, spread in sets.moments(slice(None)):
        step = max(ELEMENTS // max(center.shape[0], 1), 1)
        for begin in range(0, center.shape[1], step):
            part = slice(begin, begin + step)
            some = likelihood.rows(np.arange(at.start, at.stop)[part])
            pieces.append(_by_states(sets, center[:, part], spread[:, part], some))
    out, count = joined(pieces), likelihood.log_constants()
    unseen = unseen_shares(rows, exact)
    doubt = np.flatnonzero((draws * out.efficiency < FEW) | (unseen > UNSEEN))
    # The least sure ones first.
    doubt = doubt[np.argsort((out.efficiency * np.maximum(1.0 - unseen, 0.0))[doubt], kind="stable")]
    left = doubt
    if doubt.size:
        out, left = _put_in(sets, out, doubt)
    efficiency = out.efficiency.copy()
    efficiency[left[unseen[left] > UNSEEN]] = 0.0
    return replace(out, efficiency=efficiency, log_density=out.log_density + count, within=out.within + count)


def _by_states(sets: SampledSets, center: FloatArray, spread: FloatArray, rows: Binomial) -> LeftOut:
    """Predictions of some rows by the kept states, their linear predictors having these moments, (S, m) each."""
    weight = sets.joint.weight
    left_out = -log_mean_inverse(center, spread, rows)
    found = mixed(weight, left_out, log_mean(center, spread, rows), copies=rows.copies)
    share = weight[:, None] * np.exp(found.log_density - left_out)
    return replace(found, mcse=sets.exact.error_of_influence(share - weight[:, None]))


@dataclass(frozen=True, slots=True)
class Again:
    """A row predicted with sets that were sampled without it: log density, its error, and effective draws.

    `common` is the part of the error that all rows which have one share.
    """

    log_density: float
    mcse: float
    draws: float
    common: float = 0.0


def _put_in(sets: SampledSets, out: LeftOut, doubt: IntArray) -> tuple[LeftOut, IntArray]:
    """Put in place of the predictions of some rows those with sets that are sampled without them; the rows left."""
    assert out.mcse is not None
    assert out.influence is not None
    rows = sets.rows
    center, spread = np.empty((2, sets.joint.n, doubt.size))
    for at, *moments in sets.moments(doubt):
        center[:, at], spread[:, at] = moments
    found = Sampler.of(sets).each(doubt, center, spread)
    done = np.array(sorted(found), dtype=np.intp)
    if not done.size:
        return out, doubt
    again, each = doubt[done], [found[j] for j in done.tolist()]
    log_density, efficiency, mcse = out.log_density.copy(), out.efficiency.copy(), out.mcse.copy()
    log_density[again] = [one.log_density for one in each]
    mcse[again] = [one.mcse for one in each]
    efficiency[again] = np.minimum(np.array([one.draws for one in each]) / sets.exact.draws, 1.0)
    # What the kept states say of these rows alone no longer counts.
    alone = _by_states(sets, center[:, done], spread[:, done], rows.likelihood.rows(again))
    assert alone.influence is not None
    copies, common = rows.likelihood.copies[again], np.array([one.common for one in each])
    own = np.sqrt(np.maximum(mcse[again] ** 2 - common**2, 0.0))
    found_out = replace(
        out,
        log_density=log_density,
        efficiency=efficiency,
        mcse=mcse,
        influence=out.influence - alone.influence,
        beyond=float(np.hypot(np.linalg.norm(copies * own), copies @ common)),
    )
    return found_out, np.setdiff1d(doubt, again)


@dataclass(slots=True)
class Sampler:
    """Samples sets with less than all copies of a row, under the prior of the fit to all rows; changed in place.

    Attributes
    ----------
    sets : SampledSets
    whole : Evidence or None
        That of all rows, if the expansion of the likelihood gives it.
    between : int
        How often sets may still be sampled with a part of a copy.
    """

    sets: SampledSets
    whole: Evidence | None
    between: int = BETWEEN

    @classmethod
    def of(cls, sets: SampledSets) -> Sampler:
        """Of a fit."""
        out, rows = cls(sets, None), sets.rows
        rng = np.random.default_rng(rows.likelihood.n)
        every = np.arange(rows.likelihood.n)
        out.whole = out._evidence(rows, every, sets.joint.weight, rng, n_chains=WHOLE, rounds=1)
        return out

    def each(self, which: IntArray, center: FloatArray, spread: FloatArray) -> dict[int, Again]:
        """Predictions of rows `which` (m,), moments (S, m), by their places among these; of as many as may be."""
        out: dict[int, Again] = {}
        sampled = 0
        for j, i in enumerate(which[:BY_EVIDENCE].tolist()):
            found = self.by_evidence(i, center[:, j], spread[:, j])
            if found is None and sampled < AGAIN:
                sampled += 1
                found = self.predicted(i, center[:, j], spread[:, j])
            if found is not None:
                out[j] = found
        return out

    def by_evidence(self, i: int, center: FloatArray, spread: FloatArray) -> Again | None:
        """Row i given the others by evidences, likewise; None where the expansion does not give them."""
        if self.whole is None:
            return None
        others, rest = self._others(i, 0.0)
        weight = np.log(self.sets.joint.weight)
        weight += log_mean_inverse(center[:, None], spread[:, None], self._one(i))[:, 0]
        weight, rng = np.exp(weight - logsumexp(weight)), np.random.default_rng(i)
        without = self._evidence(others, rest, weight, rng, n_chains=WITHOUT, rounds=ROUNDS)
        if without is None:
            return None
        log_density = self.whole.log_evidence - without.log_evidence
        mcse = float(np.hypot(self.whole.se, without.se))
        return Again(log_density, mcse, min(self.whole.draws, without.draws), self.whole.se)

    def _evidence(
        self, rows: BinomialRows, which: IntArray, weight: FloatArray, rng: Generator, *, n_chains: int, rounds: int
    ) -> Evidence | None:
        """The evidence of some rows, `which` of the fit; the kept states have the weights (S,) given these."""
        joint, all_rows, exact = self.sets.joint, self.sets.rows, self.sets.exact
        k = all_rows.c.shape[1]
        coef = np.zeros((SEEN, k + all_rows.x.shape[1]))
        for own, i in zip(coef, rng.choice(joint.n, SEEN, p=weight).tolist(), strict=True):
            root = joint.root[i]
            normal = rng.standard_normal(root.shape[1])
            own[joint.set_of(i)] = joint.coef[joint.start[i] : joint.start[i + 1]] + root @ normal
        seen = coef[:, :k] @ all_rows.c[which].T + coef[:, k:] @ all_rows.x[which].T
        sets = [model.units for model in exact.models[:STARTS]]
        return log_evidence(rows, exact.grid, seen, rng, n_chains=n_chains, rounds=rounds, sets=sets)

    def _one(self, i: int) -> Binomial:
        """One copy of row i."""
        likelihood = self.sets.rows.likelihood
        return likelihood.copied(np.ones(likelihood.n)).rows(np.array([i]))

    def predicted(self, i: int, center: FloatArray, spread: FloatArray) -> Again:
        """Row i given the others; `center` and `spread` (S,) are moments of its predictor in the kept states.

        Posteriors with parts of a copy are put between those with and without one, as long as these have too little
        in common.
        """
        one, rng = self._one(i), np.random.default_rng(i)
        ladder = {
            1.0: RowLikelihoods.of(self.sets.exact, center, spread, one, rng),
            0.0: self._sampled(i, 0.0, one, rng),
        }
        steps: dict[tuple[float, float], Again] = {}
        while True:
            pairs = list(pairwise(sorted(ladder, reverse=True)))
            for high, low in pairs:
                if (high, low) not in steps:
                    steps[high, low] = bridge(ladder[high], ladder[low], high - low)
            high, low = min(pairs, key=lambda pair: steps[pair].draws)
            if steps[high, low].draws >= ENOUGH or self.between == 0 or not self.sets.rows.divisible:
                break
            self.between -= 1
            middle = float(np.sqrt(high * low)) if low > 0 else high / FIRST
            ladder[middle] = self._sampled(i, middle, one, rng)
        found = [steps[pair] for pair in pairs]
        return Again(
            sum(step.log_density for step in found),
            # Neighbouring steps have a posterior in common, whose errors can add up.
            sum(step.mcse for step in found),
            steps[high, low].draws,
        )

    def _others(self, i: int, part: float) -> tuple[BinomialRows, IntArray]:
        """All rows with so much of one copy of row i in place of it, and which these are."""
        rows = self.sets.rows
        copies = rows.likelihood.copies.copy()
        copies[i] -= 1.0 - part
        rest = np.flatnonzero(copies > 0)
        other, c = rows.likelihood.copied(copies).rows(rest), rows.c[rest]
        if np.linalg.matrix_rank(c) < c.shape[1] or separation(c, other).found:
            raise NoDensityError(i, UNDETERMINED)
        return BinomialRows.of(rows.x[rest], c, other, rows.units), rest

    def _sampled(self, i: int, part: float, one: Binomial, rng: Generator) -> RowLikelihoods:
        """Draws of the posterior with so much of one copy of row i, and with all others."""
        rows, exact = self.sets.rows, self.sets.exact
        steps = int(np.clip(SHARE * exact.n_iter, *STEPS))
        found = sample_binary(self._others(i, part)[0], exact.grid, mcse=MCSE, maxiter=steps, rng=rng)
        return RowLikelihoods.of(found.exact, *_at_row(found.joint, np.concatenate([rows.c[i], rows.x[i]])), one, rng)


def _at_row(joint: States, row: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and variance of the linear predictor of a row (k + d,) in each state, (S,) each."""
    center, spread = np.empty((2, joint.n))
    for s in range(joint.n):
        inside = row[joint.set_of(s)]
        center[s] = inside @ joint.coef[joint.start[s] : joint.start[s + 1]]
        spread[s] = ((inside @ joint.root[s]) ** 2).sum()
    return center, spread


@dataclass(frozen=True, slots=True)
class RowLikelihoods:
    """Log likelihoods of a row, (S, m): at m linear predictors for each of the S kept states of a posterior."""

    exact: Exact
    log_likelihood: FloatArray

    @classmethod
    def of(
        cls, exact: Exact, center: FloatArray, spread: FloatArray, row: Binomial, rng: Generator
    ) -> RowLikelihoods:
        """At draws from the predictors' normal laws, with moments (S,)."""
        part = (np.arange(EACH) + rng.random((center.size, EACH))) / EACH
        psi = center[:, None] + np.sqrt(spread)[:, None] * ndtri(part)
        return cls(exact, log_likelihood(row.successes, row.failures, psi, row.link))

    def log_average(self, values: FloatArray) -> FloatArray:
        """Logarithms of averages in each state, (S,), given logarithms of values (S, m)."""
        out: FloatArray = logsumexp(values, axis=1) - np.log(values.shape[1])
        return out

    def log_mean(self, values: FloatArray) -> float:
        """Logarithm of the mean of values (S, m), given their logarithms."""
        return float(logsumexp(self.log_average(values), b=self.exact.states.weight))

    def precision(self, values: FloatArray) -> tuple[float, float]:
        """The relative error of the same, and the effective draws."""
        relative = np.exp(self.log_average(values) - self.log_mean(values))
        share = 1.0 / float(self.exact.states.weight @ relative**2)
        return float(self.exact.error_of_mean(relative)), share * self.exact.draws


def bridge(before: RowLikelihoods, after: RowLikelihoods, part: float = 1.0) -> Again:
    """The density of a row given the others from draws with it, `before`, and without it, `after`.

    Bridge sampling (Meng & Wong 1996, "Simulating ratios of normalizing constants via a simple identity"): with L the
    likelihood of the row, ``r = E'[L / (s L + s' r)] / E[1 / (s L + s' r)]`` for averages E with the row and E'
    without, s and s' being their shares of the draws. If the posteriors differ by a part of a copy of the row, this
    power of L takes its place.
    """
    n_before, n_after = before.exact.draws, after.exact.draws
    log_s, log_t = -np.log1p(n_after / n_before), -np.log1p(n_before / n_after)
    above, below = part * after.log_likelihood, part * before.log_likelihood

    def terms(log_r: float) -> tuple[FloatArray, FloatArray]:
        """Logarithms of what is averaged, relative to 1 / r."""
        return above - log_r - np.logaddexp(log_s + above - log_r, log_t), -np.logaddexp(log_s + below - log_r, log_t)

    def excess(log_r: float) -> float:
        upper, lower = terms(log_r)
        return after.log_mean(upper) - before.log_mean(lower)

    ends = min(above.min(), below.min()) - 1.0, max(above.max(), below.max()) + 1.0
    log_r = float(brentq(excess, *ends, xtol=SETTLED))
    upper, lower = terms(log_r)
    (first, draws), (second, others) = after.precision(upper), before.precision(lower)
    # What the averages' errors do to the solution.
    slope = 2.0 - np.exp(log_s + after.log_mean(2.0 * upper) - after.log_mean(upper))
    slope -= np.exp(log_t + before.log_mean(2.0 * lower) - before.log_mean(lower))
    return Again(log_r, float(np.hypot(first, second) / slope), min(draws, others))
