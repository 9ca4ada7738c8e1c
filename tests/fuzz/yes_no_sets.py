"""The sampler of sets for yes/no responses beside importance sampling of all coefficients, on small problems.

One to four columns, some nearly equal; responses that a column separates, rare events, signals that decide all;
one trial a row, or from 1 to 1,000; hyperparameters given or learned in turn, both links. Every difference is judged
in standard errors, as the fit states them together with those of the reference.

Standard errors rest on the differences between 32 walkers, so that quotients have long tails. What must not be is a
difference that is many of its errors: `LIMITS`. A fit that says that it has not converged is announced.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from pybayesridge import SpikeSlab
from pybayesridge.exceptions import PybayesridgeWarning
from tests.binomial.importance import Data, reference
from tests.fuzz.compare import LIMIT, Difference, Verdict

MCSE = 0.02

MOST_STEPS = 20_000_000
"""Of the sampler: then it says that it has not converged."""

DRAWS, NODES, RUNS = 225, 24, 8
"""Of the reference. Its errors are known from the runs: from three they can be too small by five."""

LIMITS = {"probability": 6.0, "mean": 6.0, "sd": 10.0, "slab": 8.0}
"""Of the quotients. Standard deviations of separated responses have tails that few draws see."""

FLOOR = 1e-3
"""Least standard errors, relative to the posterior standard deviation, or of a probability."""

GIVEN = ((), ("p",), ("v",), ("p", "v"))
"""What is given, in turn."""

KINDS = ("plain", "pairs", "separated", "rare", "decided", "trials", "many trials", "mixed trials")


@dataclass(frozen=True)
class YesNoSets:
    """Standardised columns, successes and trials, and what the fit is given."""

    name: str
    x: np.ndarray
    successes: np.ndarray
    trials: np.ndarray
    link: str
    given: dict
    seed: int


def make_yes_no_sets(seed, number):
    """Problem `number` of the sequence that belongs to `seed`."""
    rng = np.random.default_rng([seed, number, 8])
    d, n = int(rng.integers(1, 5)), int(rng.integers(12, 61))
    kind = str(rng.choice(KINDS))
    x = rng.standard_normal((n, d))
    if kind == "pairs" or rng.random() < 0.3:
        for j in range(1, d, 2):
            rho = 1 - 10.0 ** rng.uniform(-3, -1)
            x[:, j] = rho * x[:, j - 1] + np.sqrt(1 - rho**2) * x[:, j]
    psi = rng.uniform(-1, 1) + x @ (rng.standard_normal(d) * (rng.random(d) < 0.5))
    trials = np.ones(n)
    if kind == "trials":
        trials = rng.integers(1, 11, n).astype(float)
    elif kind == "many trials":
        trials = np.full(n, 1000.0)
    elif kind == "mixed trials":
        trials = np.exp(rng.uniform(0, 7, n)).round()
    elif kind == "rare":
        psi -= 3.5
    elif kind == "decided":
        psi = 8.0 * x[:, 0]
    y = rng.binomial(trials.astype(int), expit(psi)).astype(float)
    if kind == "separated":
        y = (x[:, 0] > rng.uniform(-1, 1)).astype(float)
    # Something of both outcomes.
    y[0], y[1] = 0.0, trials[1]
    x = x - np.average(x, axis=0, weights=trials)
    x /= np.sqrt(np.average(x**2, axis=0, weights=trials))
    link = "probit" if trials.max() == 1 and rng.random() < 0.3 else "logit"
    given = {}
    if "p" in GIVEN[number % len(GIVEN)]:
        given["p"] = float(rng.uniform(0.05, 0.9))
    if "v" in GIVEN[number % len(GIVEN)]:
        given["v"] = float(10.0 ** rng.uniform(-1.5, 1.5))
    name = f"{seed}/{number} yes-no sets {kind} {link} {n}x{d} given {'+'.join(given) or 'nothing'}"
    return YesNoSets(name, x, y, trials, link, given, number)


def quotients(problem, found):
    """Differences in standard errors, by what they are of: arrays."""
    wanted = reference(
        Data.of(problem.x, problem.successes, problem.trials, link=problem.link, **problem.given),
        draws=DRAWS,
        nodes=NODES,
        runs=RUNS,
        seed=problem.seed,
    )
    table = found.diagnostics().set_index("quantity")

    def quotient(quantity, value, error, floor):
        own = table.loc[[quantity]]
        se = np.sqrt(own["mcse"].to_numpy() ** 2 + np.square(error) + np.square(floor))
        return (own["estimate"].to_numpy() - value) / se

    out = {
        "probability": quotient("inclusion_prob", wanted.prob, wanted.error["prob"], FLOOR),
        "mean": quotient("mean", wanted.mean, wanted.error["mean"], FLOOR * wanted.sd),
        "sd": quotient("sd", wanted.sd, wanted.error["sd"], FLOOR * wanted.sd),
    }
    if "v" not in problem.given:
        out["slab"] = quotient("slab_var", wanted.slab, wanted.error["slab"], FLOOR * wanted.slab)
    return out


def compare_yes_no_sets(problem):
    """Fit, compare, and judge."""
    given = {"slab_var": problem.given.get("v"), "prior_inclusion": problem.given.get("p")}
    options = {name: value for name, value in given.items() if value is not None}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = SpikeSlab(
            problem.successes, problem.x, family="binomial", link=problem.link, trials=problem.trials, **options
        )
        found = model.fit("exact", mcse=MCSE, rng=problem.seed, maxiter=MOST_STEPS)
    errors = quotients(problem, found)
    foreign = [str(w.message) for w in caught if not issubclass(w.category, PybayesridgeWarning)]
    differences = tuple(
        Difference(name, 0, LIMIT * float(np.abs(values).max()) / LIMITS[name], 0.0, not found.converged)
        for name, values in errors.items()
    )
    says = () if found.converged else ("NOT CONVERGED",)
    return Verdict(problem.name, "sampler", differences, says, f"warns of {foreign[0]}" if foreign else None)
