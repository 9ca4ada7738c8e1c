"""Yes/no ridges beside integrals on a grid, and what must not change.

**Beside a grid.** With one or two columns and a given penalty the posterior of intercept and coefficients is
integrated on a grid. Expectation propagation is an approximation: its means may be off by `MEAN` posterior standard
deviations and its standard deviations by `SPREAD` (more than what was seen), so that what is found is faults and not
the approximation.

**What must not change.** To `SAME`: the other level as the event, other units and origins of columns, another order
of rows, weights and trials of one. To `MEAN` and `BOTH`: rows of several trials as rows of one trial, and rows with
frequency weights as copies, which are other approximations of the same posterior. If the columns separate the
responses these differ by more (see the documentation), and are fitted but not compared.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from pybayesridge import BayesRidge
from pybayesridge.exceptions import PybayesridgeWarning
from tests.binomial import brute_force
from tests.fuzz.compare import LIMIT, Difference, Verdict

MEAN = 0.2
"""Of means, in posterior standard deviations: 0.12 was the worst in 9,500 problems, of three rows."""

SPREAD = 0.25
"""Of standard deviations, relative: 0.22 was the worst in 9,500 problems, of a dozen rows and a small penalty, where
the posterior is skew and has long tails; other grids agree to 1e-5."""

BOTH = 0.5
"""Of standard deviations by two approximations of one posterior, relative: 0.33 was the worst in 9,500 problems."""

SAME = 1e-4
"""The same approximation by another way, in standard deviations: the sites stop within the tolerance of the fit."""

TOL = 1e-9
INTEGRATED_TOL = 1e-6
"""Where the penalty is integrated out: less than a hundredth of what is asked for."""

INTEGRATED = 0.1
"""Share of the problems with an unknown penalty, of which each takes the time of ten others."""


@dataclass(frozen=True)
class YesNo:
    """Successes among trials, rows counted `weights` times; `lam` given, or None where it is integrated out."""

    name: str
    x: np.ndarray
    successes: np.ndarray
    trials: np.ndarray
    weights: np.ndarray
    link: str
    lam: float | None

    def fit(self, **changes):
        """The package's fit, with some of its arguments changed."""
        given = {
            "endog": self.successes, "exog": self.x, "trials": self.trials, "weights": self.weights, **changes
        }  # fmt: skip
        model = BayesRidge(given.pop("endog"), given.pop("exog"), family="binomial", link=self.link, **given)
        if self.lam is None:
            return model.fit("ep", tol=INTEGRATED_TOL)
        return model.fit("fixed", lam=self.lam, tol=TOL)


def make_yes_no(seed, number):
    """A random problem with both outcomes."""
    rng = np.random.default_rng([seed, number, 3])
    for _ in range(1000):
        n, p = int(rng.integers(3, 15)), int(rng.integers(1, 3))
        x = rng.normal(size=(n, p)) * 10.0 ** rng.integers(-2, 3, p) + rng.choice([0.0, 3.0]) * rng.normal(size=p)
        unit = (x - x.mean(axis=0)) / x.std(axis=0)
        trials = rng.integers(1, int(rng.choice([2, 4, 20])), n).astype(float)
        weights = rng.integers(1, int(rng.choice([2, 4])), n).astype(float)
        eta = unit @ rng.normal(size=p) * rng.choice([0.3, 1.0, 2.0]) + rng.choice([0.0, 1.0]) * rng.normal()
        successes = rng.binomial(trials.astype(int), 1 / (1 + np.exp(-eta))).astype(float)
        if 0 < successes.sum() < trials.sum():
            lam = None if rng.random() < INTEGRATED else float(10.0 ** rng.uniform(-1.5, 1.5))
            link = str(rng.choice(["logit", "probit"]))
            return YesNo(f"{seed}/{number} yes/no {n} x {p} {link}", x, successes, trials, weights, link, lam)
    raise AssertionError("no problem has both outcomes")


def compare_yes_no(problem):
    """Fit, compare, and judge."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        res = problem.fit()
        separated = res.sites_fit.separated
        errors = [*_invariances(problem, res)]
        if problem.lam is not None:
            errors += _beside_grid(problem, res)
        copies = list(_copies(problem, res))
        if not separated:
            errors += copies
    announced = any(issubclass(w.category, PybayesridgeWarning) for w in caught)
    foreign = [str(w.message) for w in caught if not issubclass(w.category, PybayesridgeWarning)]
    # An error relative to what is allowed, so that the common limit is that.
    differences = tuple(
        Difference(name, 0, LIMIT * float(e) / allowed, 0.0, announced) for name, e, allowed in errors
    )
    failure = f"warns of {foreign[0]}" if foreign else None
    return Verdict(problem.name, "ep", differences, tuple(str(w.message) for w in caught), failure)


def _moments(res):
    return res.params.to_numpy(), res.bse.to_numpy()


def _difference(name, found, wanted, mean, spread):
    """Errors of means and standard deviations; where these do not exist neither may."""
    (a, s), (b, t) = found, wanted
    if not (np.isfinite(s).all() and np.isfinite(t).all()):
        return [(f"{name}, existence", float((np.isfinite(s) != np.isfinite(t)).any()), 0.5)]
    return [(f"{name}, mean", np.abs((a - b) / t).max(), mean), (f"{name}, sd", np.abs(s / t - 1).max(), spread)]


def _beside_grid(problem, res):
    total = problem.trials * problem.weights
    at = np.average(problem.x, axis=0, weights=total)
    scale = np.sqrt(np.average((problem.x - at) ** 2, axis=0, weights=total))
    unit = (problem.x - at) / scale
    events = problem.successes * problem.weights
    points = 161 if unit.shape[1] == 1 else 61
    _, mean, covariance = brute_force.posterior(
        events, total - events, problem.link, unit, 1 / problem.lam, reach=9.0, points=points
    )
    back = np.eye(len(mean))
    back[0, 1:] = -at / scale
    back[1:, 1:] = np.diag(1 / scale)
    wanted = back @ mean, np.sqrt(np.diag(back @ covariance @ back.T))
    return _difference("grid", _moments(res), wanted, MEAN, SPREAD)


def _invariances(problem, res):
    _, sd = own = _moments(res)
    order = np.arange(len(problem.x))[::-1]
    turned = {"endog": problem.successes[order], "exog": problem.x[order]}
    turned |= {"trials": problem.trials[order], "weights": problem.weights[order]}
    yield from _difference("order", _moments(problem.fit(**turned)), own, SAME, SAME)
    a, s = _moments(problem.fit(endog=problem.trials - problem.successes))
    yield from _difference("other event", (-a, s), own, SAME, SAME)
    unit, origin = 10.0 ** np.arange(1, problem.x.shape[1] + 1), 2.0
    a, s = _moments(problem.fit(exog=(problem.x + origin) * unit))
    moved = np.concatenate([[a[0] + origin * (a[1:] * unit).sum()], a[1:] * unit])
    yield from _difference("units", (moved, np.concatenate([sd[:1], s[1:] * unit])), own, SAME, SAME)
    if (problem.weights == 1).all():
        yield from _difference("no weights", _moments(problem.fit(weights=None)), own, SAME, SAME)
    if (problem.trials == 1).all():
        yield from _difference("no trials", _moments(problem.fit(trials=None)), own, SAME, SAME)


def _copies(problem, res):
    own = _moments(res)
    copies = np.repeat(np.arange(len(problem.x)), problem.weights.astype(int))
    repeated = {"endog": problem.successes[copies], "exog": problem.x[copies], "trials": problem.trials[copies]}
    yield from _difference("copies", _moments(problem.fit(**repeated, weights=None)), own, MEAN, BOTH)
    each = np.repeat(np.arange(len(problem.x)), problem.trials.astype(int))
    events = np.concatenate([np.arange(m) < k for k, m in zip(problem.successes, problem.trials, strict=True)])
    single = {
        "endog": events.astype(float),
        "exog": problem.x[each],
        "trials": None,
        "weights": problem.weights[each],
    }
    yield from _difference("single trials", _moments(problem.fit(**single)), own, MEAN, BOTH)
