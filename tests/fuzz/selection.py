"""Spike and slab where EP must be exact, beside a sum over all patterns in long double; and what must not change.

EP is exact for one column (or group), and for columns (or groups) that are orthogonal to each other once the
unpenalised columns are projected out. For correlated columns, where EP approximates, the answers must be the same in
other units of the response, and from moments instead of rows. Hyperparameters are fixed; errors are judged as in
:mod:`tests.fuzz.compare`, but relative to posterior standard deviations alone.
"""

from __future__ import annotations

import itertools
import warnings
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtr

from pybayesridge import Moments, SpikeSlab
from pybayesridge.exceptions import PybayesridgeWarning
from tests.fuzz.compare import ALPHA, Difference, Verdict
from tests.fuzz.linear_algebra import LONG, reflect, solve_lower, solve_upper, times_q
from tests.fuzz.oracle import Oracle

TOL = 1e-10
"""Residual at which EP stops."""


@dataclass(frozen=True)
class Choice:
    """A regression with spike and slab; the unpenalised columns are the first `free` ones of x."""

    name: str
    y: np.ndarray
    x: np.ndarray
    free: int
    weights: np.ndarray | None
    groups: np.ndarray
    prior: np.ndarray
    slab_var: float
    noise_var: float
    intercept: bool
    standardize: bool
    orthogonal: bool

    def results(self, *, moments=False):
        """Fit by the package."""
        options = {
            "intercept": self.intercept,
            "unpenalized": list(range(self.free)) or None,
            "standardize": self.standardize,
            "prior_inclusion": np.concatenate([np.full(self.free, 0.5), self.prior[self.groups]]),
            "slab_var": self.slab_var,
            "noise_var": self.noise_var,
            "group": [*(f"free{i}" for i in range(self.free)), *(f"g{i}" for i in self.groups)],
        }
        if moments:
            model = SpikeSlab.from_moments(Moments.from_arrays(self.y, self.x, weights=self.weights), **options)
        else:
            model = SpikeSlab(self.y, self.x, weights=self.weights, **options)
        return model.fit("ep", tol=TOL, maxiter=5000)

    def in_other_units(self, unit):
        """The same with the response in other units."""
        return replace(self, y=self.y * unit, slab_var=self.slab_var * unit**2, noise_var=self.noise_var * unit**2)

    def oracle(self):
        """The data in long double."""
        z = np.column_stack([np.ones((len(self.y), int(self.intercept))), self.x[:, : self.free]])
        return Oracle(
            self.y[:, None],
            z,
            self.x[:, self.free :],
            weights=self.weights,
            constant=0 if self.intercept else None,
            standardize=self.standardize,
        )


def make_choice(seed, number):
    """Problem `number` of the sequence that belongs to `seed`."""
    rng = np.random.default_rng([seed, number, 1])
    orthogonal = bool(rng.random() < 0.6)
    units = int(rng.integers(1, 6)) if orthogonal else int(rng.integers(2, 11))
    sizes = rng.integers(1, 4, units) if rng.random() < 0.4 else np.ones(units, dtype=int)
    groups = np.repeat(np.arange(units), sizes)
    free, intercept = int(rng.integers(0, 3)), bool(rng.random() < 0.8)
    n = int(sizes.sum() + free + rng.integers(4, 30))
    weights = rng.uniform(0.2, 5.0, n) if rng.random() < 0.4 else None
    z = np.column_stack([np.ones((n, int(intercept))), rng.standard_normal((n, free)) + 1])
    x = _blocks(rng, n, z, groups, weights) if orthogonal else rng.standard_normal((n, groups.size))
    if not orthogonal:
        x = x + rng.uniform(0, 1) * rng.standard_normal((n, 1))
    b = rng.standard_normal(groups.size) * (rng.random(units) < 0.5)[groups]
    signal = x @ (b / np.maximum(x.std(axis=0), 1e-300))
    y = signal + z.sum(axis=1) + rng.choice([0.3, 1.0, 3.0]) * rng.standard_normal(n)
    prior = rng.choice([0.0, 0.02, 0.3, 0.5, 0.9, 1.0], units, p=[0.05, 0.2, 0.3, 0.25, 0.15, 0.05])
    standardize = bool(rng.random() < 0.7)
    scale = 10.0 ** rng.uniform(-3, 3, groups.size) if standardize else 10.0 ** rng.uniform(-3, 3)
    slab = float(10.0 ** rng.uniform(-2, 2) / (1.0 if standardize else scale**2))
    choice = Choice(
        name=f"{seed}/{number} selection {'orthogonal' if orthogonal else 'correlated'} {n}x{x.shape[1]}",
        y=y,
        x=np.hstack([z[:, int(intercept) :], x * scale]),
        free=free,
        weights=weights,
        groups=groups,
        prior=prior,
        slab_var=slab,
        noise_var=float(10.0 ** rng.uniform(-2, 1)),
        intercept=intercept,
        standardize=standardize,
        orthogonal=orthogonal,
    )
    extreme = (
        10.0 ** ((100 if orthogonal else 40) * rng.choice([-1.0, 1.0]))
        if rng.random() < 0.15
        else 10.0 ** rng.uniform(-2, 2)
    )
    return choice.in_other_units(extreme)


def _blocks(rng, n, z, groups, weights):
    """Columns that are orthogonal between groups, and correlated within, outside the weighted Z."""
    root = np.ones((n, 1)) if weights is None else np.sqrt(weights / weights.mean())[:, None]
    basis = np.linalg.qr(np.hstack([root * z, rng.standard_normal((n, groups.size))]))[0][:, z.shape[1] :]
    mix = rng.standard_normal((groups.size, groups.size)) * (groups[:, None] == groups)
    return np.sqrt(n) * basis @ mix / root + z @ rng.standard_normal((z.shape[1], groups.size))


@dataclass(frozen=True)
class Patterns:
    """The exact posterior: a mixture over patterns of what is in."""

    weight: np.ndarray
    inside: np.ndarray
    mean: np.ndarray
    covariance: np.ndarray
    log_evidence: float


def enumerate_patterns(choice, oracle):
    """Every pattern's probability, and its normal posterior of the standardised coefficients."""
    x, y = oracle.xr, oracle.yr[:, 0]
    p, noise, slab = x.shape[1], LONG(choice.noise_var), LONG(choice.slab_var)
    logs, insides, means, covariances = [], [], [], []
    for pattern in itertools.product([False, True], repeat=choice.prior.size):
        share = np.where(pattern, choice.prior, 1 - choice.prior).astype(LONG)
        if (share == 0).any():
            continue
        inside = np.array(pattern)[choice.groups]
        k = int(inside.sum())
        rows = np.vstack([x[:, inside], np.sqrt(noise / slab) * np.eye(k, dtype=LONG)])
        reflectors, r, _ = reflect(rows)
        rotated = times_q(reflectors, np.append(y, np.zeros(k, dtype=LONG))[:, None], transpose=True)[:, 0]
        rest = rotated[k:] @ rotated[k:]
        determinant = 2 * np.log(np.abs(np.diag(r))).sum() - k * np.log(noise / slab)
        logs.append(np.log(share).sum() - determinant / 2 - rest / (2 * noise))
        mean, covariance = np.zeros(p, dtype=LONG), np.zeros((p, p), dtype=LONG)
        mean[inside] = solve_upper(r, rotated[:k])
        covariance[np.ix_(inside, inside)] = noise * solve_upper(r, solve_lower(r, np.eye(k, dtype=LONG)))
        insides.append(inside)
        means.append(mean)
        covariances.append(covariance)
    logs = np.array(logs)
    weight = np.exp(logs - logs.max())
    evidence = logs.max() + np.log(weight.sum()) - oracle.nu / LONG(2) * np.log(2 * np.pi * noise)
    return Patterns(weight / weight.sum(), np.array(insides), np.array(means), np.array(covariances), float(evidence))


def compare_with_patterns(choice, results):
    """Errors of everything, beside enumeration."""
    oracle = choice.oracle()
    exact = enumerate_patterns(choice, oracle)
    shift = int(choice.intercept)
    z_rows = np.eye(shift + choice.free + oracle.p)[:, : shift + choice.free]
    x_rows = np.eye(shift + choice.free + oracle.p)[:, shift + choice.free :]
    f_z = oracle.functionals(z_rows, x_rows, 0)
    rows = x_rows.astype(LONG)
    if choice.intercept:
        rows = rows - np.outer(z_rows[:, 0], oracle.center)
    rows = rows / oracle.scale - z_rows @ oracle.x_on_z
    means = exact.mean @ rows.T
    mean = exact.weight @ means
    inside = np.einsum("g,mi,gij,mj->m", exact.weight, rows, exact.covariance, rows)
    sd = np.sqrt(inside + exact.weight @ (means - mean) ** 2 + LONG(choice.noise_var) * f_z.leverage)
    here = np.arange(shift + choice.free, shift + choice.free + oracle.p)
    probability = exact.weight @ exact.inside
    size = np.where(sd > 0, sd, 1)
    params = np.asarray(results.params)
    yield "log_evidence", abs(results.log_evidence - exact.log_evidence)
    yield "inclusion_prob", np.abs(np.asarray(results.inclusion_prob)[here] - probability).max()
    yield "params", (np.abs(params - (mean + f_z.base)) / np.maximum(size, np.abs(mean + f_z.base))).max()
    yield "bse", (np.abs(np.asarray(results.bse) - sd) / size).max()
    yield "conf_int", _interval_error(choice, oracle, exact, np.asarray(results.conf_int(ALPHA))[here])


def _interval_error(choice, oracle, exact, ends):
    """How far the probabilities below the ends are from what they should be."""
    worst = 0.0
    for j, pair in enumerate(ends):
        sd = np.sqrt(exact.covariance[:, j, j])
        spike = float(exact.weight @ (sd == 0))
        for end, probability in zip(pair, (ALPHA / 2, 1 - ALPHA / 2), strict=True):
            point = LONG(end) * oracle.scale[j]
            each = ndtr(((point - exact.mean[:, j]) / np.where(sd > 0, sd, 1)).astype(float))
            below = float(exact.weight @ np.where(sd > 0, each, 0))
            low, high = (below, below + spike) if end == 0 else (below + spike * (end > 0),) * 2
            worst = max(worst, low - probability, probability - high)
    return worst


def compare_with_itself(choice, first, unit):
    """Errors beside other units of the response, and beside moments."""
    sd = np.asarray(first.bse)
    size = np.where(sd > 0, sd, 1)
    other = choice.in_other_units(unit).results()
    shifted = float(other.log_evidence) + _rows_left(choice) * np.log(unit)
    for name, second, factor, evidence in (
        ("units", other, unit, shifted),
        ("moments", choice.results(moments=True), 1.0, None),
    ):
        evidence = float(second.log_evidence) if evidence is None else evidence
        gap = np.asarray(second.params) / factor - np.asarray(first.params)
        yield f"{name} params", (np.abs(gap) / np.maximum(size, np.abs(np.asarray(first.params)))).max()
        yield f"{name} bse", (np.abs(np.asarray(second.bse) / factor - sd) / size).max()
        yield f"{name} log_evidence", abs(evidence - float(first.log_evidence))


def _rows_left(choice):
    return len(choice.y) - choice.free - int(choice.intercept)


def compare_choice(choice):
    """Fit, compare, and judge."""
    with warnings.catch_warnings(record=True) as caught, np.errstate(under="ignore"):
        warnings.simplefilter("always")
        results = choice.results()
        if choice.orthogonal:
            errors = list(compare_with_patterns(choice, results))
        else:
            unit = 1e60 if np.abs(choice.y).max() < 1 else 1e-60
            errors = list(compare_with_itself(choice, results, unit))
    announced = any(issubclass(w.category, PybayesridgeWarning) for w in caught)
    foreign = [str(w.message) for w in caught if not issubclass(w.category, PybayesridgeWarning)]
    differences = tuple(Difference(name, 0, float(error), 0.0, announced) for name, error in errors)
    failure = f"warns of {foreign[0]}" if foreign else None
    return Verdict(choice.name, "ep", differences, tuple(str(w.message) for w in caught), failure)
