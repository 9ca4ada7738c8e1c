"""The sampler of sets beside the sum over all sets, on small problems that are hard for it.

Two to twelve columns, some nearly or exactly equal; signals from none to 30,000 times the noise; hyperparameters
given or learned in turn, prior inclusion probabilities down to 1e-9 and of 0 and 1; groups, weights and unpenalised
columns; more columns than rows. Fits that would sum over all sets are made to sample instead, and compared with the
sum: every difference in standard errors, as the fit states them.

Standard errors rest on the differences between 32 walkers, so that quotients have long tails. What must not be is a
difference that is many of its errors: `LIMITS`. A fit that says that it has not converged is announced, and so is a
row whose score rests on few draws.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from unittest import mock

import numpy as np
from scipy.special import logsumexp

from pybayesridge import SpikeSlab
from pybayesridge.exceptions import PybayesridgeWarning
from pybayesridge.selection.enumeration import joint_table
from tests.fuzz.compare import LIMIT, Difference, Verdict

MCSE = 0.02

FLOORS = {"probability": 1e-6, "mean": 3e-4, "sd": 1e-4, "size": 1e-6, "log g": 1e-4, "evidence": 1e-3, "loo": 2e-3}
"""Least standard errors that differences are divided by, for rounding and quadrature: of means, standard deviations
and log g relative to the posterior standard deviation."""

LIMITS = dict.fromkeys(FLOORS, 6.0) | {"mean": 10.0, "sd": 40.0, "loo": 12.0}
"""Of the quotients. Of 1,000 problems with twelve numbers of a kind one exceeds 6 with a probability of 1 % by a t
distribution with 31 degrees of freedom. Standard deviations can rest on sets that are hardly ever seen, as two
copies that are both in under a wide slab; that a column is out with a probability as large as the stated error of
its inclusion probability is allowed for. Means of columns that are rarely in, where there are no more rows than
columns, have been 7.0 errors off, with a root mean square of 1.0 over seeds. Scores of left-out rows rest on few
sets where a row alone speaks against the others."""

FEW_ROWS = 20
"""Up to so many rows all sets are summed over without each of them."""

MOST_STEPS = 20_000_000
"""Of the sampler: then it says that it has not converged."""

ALL = ("prior_inclusion", "slab_var", "noise_var")

LEARNED = ((), ALL, ALL[:1], ALL[1:2], ALL[2:], ALL[:2], ALL[1:], ALL[::2])
"""What is given, in turn."""


@dataclass(frozen=True)
class Sets:
    """A regression for the sampler."""

    name: str
    y: np.ndarray
    x: np.ndarray
    options: dict
    seed: int

    def fit(self, *, by_sampler):
        """The package's fit, by the sampler or by the sum over all sets."""
        model = SpikeSlab(self.y, self.x, **self.options)
        if not by_sampler:
            return model.fit("exact")
        with mock.patch("pybayesridge.selection.fit.can_enumerate", return_value=False):
            return model.fit("exact", mcse=MCSE, rng=self.seed, maxiter=MOST_STEPS)


def make_sets(seed, number):
    """Problem `number` of the sequence that belongs to `seed`."""
    rng = np.random.default_rng([seed, number, 6])
    d, n = int(rng.integers(2, 13)), int(rng.choice([rng.integers(8, 20), rng.integers(20, 61)]))
    x, kind = (
        rng.standard_normal((n, d)),
        str(rng.choice(["plain", "pairs", "copies", "chain"], p=[0.2, 0.5, 0.1, 0.2])),
    )
    if kind == "pairs":
        for j in range(1, d, int(rng.integers(2, 5))):
            x[:, j] = _correlated(x[:, j - 1], x[:, j], 1 - 10.0 ** rng.uniform(-4, -1.3))
    elif kind == "copies":
        x[:, d // 2] = x[:, 0]
    elif kind == "chain":
        rho = float(rng.choice([0.5, 0.9, 0.99]))
        for j in range(1, d):
            x[:, j] = _correlated(x[:, j - 1], x[:, j], rho)
    size, noise = int(rng.integers(0, min(d, 5) + 1)), float(10.0 ** rng.uniform(-3, 0))
    b = np.zeros(d)
    b[rng.choice(d, size, replace=False)] = rng.standard_normal(size) * rng.choice([1.0, 1.0, 30.0])
    if rng.random() < 0.2:
        b[:] = 0
        b[0] = 30.0
    y = x @ b + noise * rng.standard_normal(n)
    options = {"intercept": bool(rng.random() < 0.8), "standardize": bool(rng.random() < 0.7)}
    groups = np.arange(d)
    if rng.random() < 0.25:
        groups = np.arange(d) // 2
        options["group"] = [f"g{i}" for i in groups]
    if rng.random() < 0.3:
        options["weights"] = rng.uniform(0.2, 5.0, n)
    given = LEARNED[number % len(LEARNED)]
    if "prior_inclusion" in given:
        options["prior_inclusion"] = _probabilities(rng, groups)
    if "slab_var" in given:
        options["slab_var"] = float(10.0 ** rng.uniform(-1, 2))
    if "noise_var" in given:
        options["noise_var"] = noise**2
    return Sets(f"{seed}/{number} sets {kind} {n}x{d} given {'+'.join(given) or 'nothing'}", y, x, options, number)


def _correlated(first, other, rho):
    return rho * first + np.sqrt(1 - rho**2) * other


def _probabilities(rng, groups):
    kind = rng.choice(3)
    units = groups.max() + 1
    if kind == 0:
        p = np.full(units, rng.choice([0.02, 0.2, 0.5]))
    elif kind == 1:
        p = rng.uniform(0.02, 0.9, units)
    else:
        p = rng.choice([0.0, 1e-9, 1e-3, 0.3, 0.5, 1.0], units, p=[0.1, 0.25, 0.15, 0.25, 0.2, 0.05])
    return p[groups]


def left_out_by_sum(fit, grid=None):
    """Log predictive densities of all rows from the others by a sum over all sets for each, (n,).

    Over the nodes of the fit, or of another grid.
    """
    posterior = fit.exact_posterior
    problem, design, grid = posterior.problem(), posterior.design, grid or fit.exact_sets.grid
    x, y = np.concatenate([np.asarray(part) for _, part in design.row_pieces()]), design.y[:, 0]
    leverage = (design.block.q**2).sum(axis=1)
    whole, out = logsumexp(joint_table(problem, grid)), np.empty(y.size)
    for i, slack in enumerate(1.0 - leverage):
        own, response = x[i] / np.sqrt(slack), y[i] / np.sqrt(slack)
        others = replace(
            problem,
            cross=problem.cross - own * response,
            diag=problem.diag - own**2,
            yy=problem.yy - response**2,
            nu=problem.nu - 1,
            gram=problem.gram - np.outer(own, own),
        )
        out[i] = whole - logsumexp(joint_table(others, grid)) + 0.5 * np.log(slack)
    root = 1.0 if design.block.sqrt_w is None else design.block.sqrt_w
    return out + np.log(root / design.y_norm[0])


def _left_out(fit, wanted):
    """Differences of the scores of rows that are not said to be in doubt, in their errors."""
    score = fit.loo()
    sure = ~score.pointwise.index.isin(score.in_doubt)
    error = 0.0 if score.pointwise_mcse is None else score.pointwise_mcse.to_numpy()
    return ((score.pointwise.to_numpy() - wanted) / np.maximum(error, FLOORS["loo"]))[sure]


def quotients(found, wanted):
    """Differences in standard errors, by what they are of: arrays."""
    a, b = found.exact_sets, wanted.exact_sets
    sd = np.sqrt(b.var)
    some = sd > 0
    grid_a, grid_b = a.grid.log_g, b.grid.log_g
    log_g = float(b.node_prob @ grid_b)
    spread = np.sqrt(float(b.node_prob @ (grid_b - log_g) ** 2))
    sd_error = np.maximum(a.errors.sd[: sd.size], FLOORS["sd"] * sd)[some]
    sd_error = np.hypot(sd_error, (a.inclusion_se * b.mean**2)[some] / (2 * sd[some]))
    out = {
        "probability": (a.unit_prob - b.unit_prob) / np.maximum(a.unit_se, FLOORS["probability"]),
        "mean": ((a.mean - b.mean)[some] / np.maximum(a.errors.mean[: sd.size], FLOORS["mean"] * sd)[some]),
        "sd": (np.sqrt(a.var) - sd)[some] / sd_error,
        "size": [(a.expected_size - b.expected_size) / max(a.errors.size, FLOORS["size"])],
        "loo": _left_out(found, wanted.loo().pointwise.to_numpy()),
    }
    if found.model.nobs <= FEW_ROWS:
        by_sum = left_out_by_sum(wanted)
        out["loo"] = np.concatenate([_left_out(fit, by_sum) for fit in (found, wanted)])
    if grid_a.size > 1:
        error = max(a.errors.log_g, FLOORS["log g"] * spread)
        out["log g"] = [(float(a.node_prob @ grid_a) - log_g) / error]
    if np.isfinite(a.log_evidence_se):
        error = max(a.log_evidence_se, FLOORS["evidence"])
        out["evidence"] = [(a.log_evidence - b.log_evidence) / error]
    return {name: np.asarray(values) for name, values in out.items()}


def compare_sets(problem):
    """Fit both ways, compare, and judge."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        wanted, found = problem.fit(by_sampler=False), problem.fit(by_sampler=True)
        errors = quotients(found, wanted)
    announced = not found.converged or not wanted.converged
    foreign = [str(w.message) for w in caught if not issubclass(w.category, PybayesridgeWarning)]
    differences = tuple(
        Difference(name, 0, LIMIT * float(np.abs(values).max(initial=0.0)) / LIMITS[name], 0.0, announced)
        for name, values in errors.items()
    )
    says = () if found.converged else ("NOT CONVERGED",)
    return Verdict(problem.name, "sampler", differences, says, f"warns of {foreign[0]}" if foreign else None)
