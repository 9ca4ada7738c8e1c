"""What a fit says beside what the oracle says, and the rules by which a difference counts.

**Yardsticks.** Errors are free of scale. Coefficients and predicted means: relative to the larger of the posterior
standard deviation and the value itself. Fitted values: relative to sigma, or to `SEEN` of their own spread where that
is more. Standard deviations, sigma2, scores of cross-validation: relative. Ends of intervals: relative to the
interval's width. lambda: difference of logarithms. Effective degrees of freedom and the log marginal likelihood:
difference.

**What the data allow.** Numbers in a double are known to half a unit of their last place. Where an error exceeds
``LIMIT``, the oracle is asked again for data moved by at most one such unit (`PERTURBATIONS` times, at random); what
its own answer moves by is no fault of anybody. An error counts if it exceeds `LIMIT` and `ALLOWED` times that. Fitted
values and predictions are sums of columns times coefficients, which are doubles too: what rounding each product does
to the sum is allowed in the same way. Coefficients are sums too, over singular vectors that are made of products with
columns: one that should be 0, with an infinite or no standard deviation to measure it by, is the rounding error of
such a sum. Where rounding of the data can make X lose rank (a singular value is below `SAME_SPACE` of the largest:
by Eckart and Young's theorem a matrix of lower rank is no further away), the oracle is asked for the answers of that
rank too: a multiple of a column in decimals has to count as one in doubles.

**What is announced.** An error does not count as silent where a warning or a note of the summary says that digits are
lost, that an iteration has not converged, or that the penalty is a bound. That there is no signal, or no residual, is
a claim, not an excuse: the oracle must find the same.

**Several modes.** ``"em"`` must report the highest mode. Another one is accepted if it is as high to `TIE`; the rest
is then compared at that mode. Among the penalties of a grid one is accepted if its score is the smallest to `TIE`.

**Degenerate data.** Where the oracle's residual is below what rounding the response leaves (`NO_RESIDUAL`), noise and
penalty are not determined: only coefficients are compared.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from pybayesridge.exceptions import ConvergenceWarning, PrecisionWarning, PybayesridgeWarning
from tests.fuzz.linear_algebra import LONG

LIMIT = 1e-6
"""The largest error that needs no reason."""

ALLOWED = 100.0
"""How many times the effect of moving the data by their last place an error may be."""

PERTURBATIONS = 4

TIE = 1e-8
"""Log densities of two modes, or relative scores of two penalties, that are this close count as equal."""

NO_RESIDUAL = 1e-13
"""A residual this small relative to the response may be its rounding errors."""

UNSEEN_BY_MOMENTS = 1e-6
"""What moments say that they cannot tell from no residual."""

SEEN = 1e-5
"""A sigma below this share of the spread of the fitted values cannot be resolved by sums of products of doubles."""

ALPHA = 0.1

INTERVALS = 4
"""At most so many coefficients have the ends of their intervals compared."""

SAME_SPACE = 1e-16
"""A singular value this small, relative to the largest, goes away with the last places of the data."""

SMALLEST = 1e-290
"""A noise variance below this is not among the doubles' safe numbers: what is made of it is not compared."""

SAID = ("digits", "NOT CONVERGED", "is a bound", "several modes of equal", "lost")
"""What a note that announces an error has in it."""


REFUSALS = ("leverage 1", "not linearly independent", "linear combinations", "leave the range of floats")
"""What the package may refuse, and says so."""


@dataclass(frozen=True)
class Difference:
    """One quantity of one target: its error, and what the data allow."""

    quantity: str
    target: int
    error: float
    allowed: float
    announced: bool

    @property
    def counts(self):
        """Whether it is more than the data allow."""
        return not self.error <= max(LIMIT, self.allowed)


@dataclass(frozen=True)
class Verdict:
    """All that was compared of one problem."""

    name: str
    solver: str
    differences: tuple[Difference, ...]
    says: tuple[str, ...]
    failure: str | None = None

    @property
    def faults(self):
        """Differences that count and that nothing announces."""
        return tuple(d for d in self.differences if d.counts and not d.announced)


class Answers:
    """The oracle's values of everything, for one target; what depends on the fit's own choice is taken from it."""

    def __init__(self, problem, oracle, target, said):
        self.problem, self.o, self.target, self.said = problem, oracle, target, said
        self.options = problem.options
        self.values = {}
        self.yardsticks = {}
        self.rounding = {}

    def put(self, name, value, yardstick=1.0):
        self.values[name] = np.atleast_1d(np.asarray(value, dtype=LONG))
        self.yardsticks[name] = np.broadcast_to(np.asarray(yardstick, dtype=LONG), self.values[name].shape)

    def compute(self):
        """Fill in everything."""
        o, t, problem = self.o, self.target, self.problem
        mixture = self._posterior()
        if mixture is None:
            return self
        sigma2 = mixture.weight @ mixture.scale2 * mixture.factor
        self.put("sigma2", sigma2, sigma2)
        df = (mixture.weight @ o.shrinkage(mixture.l)).sum() + o.k - int(o.constant is not None)
        self.put("df_model", df)
        self._coefficients(mixture, sigma2)
        if problem.method == "loocv" or (problem.source in ("rows", "sparse") and "loo_mse" in self.said):
            score, left = o.loo(np.exp(-(mixture.weight @ mixture.l)), t)
            if left > 1e-11:
                self.put("loo_mse", score, score)
        return self

    def _posterior(self):
        o, t, method, said = self.o, self.target, self.problem.method, self.said
        penalty = LONG(said["lambda"])
        if penalty == 0 and method in ("em", "exact"):
            # No noise, so the package says; if there is some, the coefficients will not be these.
            self.put("log_lambda", -np.inf)
            return o.without_penalty()
        if method == "em":
            return self._mode(penalty)
        if method == "exact":
            mixture, log_marginal = o.exact(t, self.options)
            self.put("log_lambda", -(mixture.weight @ mixture.l))
            if self.problem.fit.get("dof") != "paper":
                self.put("log_marginal", log_marginal)
            return mixture
        if method in ("loocv", "gcv"):
            self._search(penalty)
        else:
            self.put("log_lambda", np.log(LONG(self.problem.fit["lam"])))
            if self.problem.fit.get("dof") != "paper":
                l = np.array([-np.log(penalty)])
                sigma2 = self.options["sigma2"]
                value = o.log_likelihood(l, t, sigma2, o.nu)[0]
                self.put("log_marginal", value + o.constant_of_likelihood(sigma2))
        return o.given(penalty, t, self.options)

    def _mode(self, penalty):
        o, t = self.o, self.target
        modes, falls = o.modes(t, self.options)
        if np.isfinite(penalty) and penalty > 0:
            # A mode that the oracle's grid stepped over is one nevertheless.
            near = -np.log(penalty) + np.array([-1, 1], dtype=LONG) * LIMIT
            slope = o.slope(near, t, self.options)
            if slope[0] < 0 <= slope[1]:
                modes = np.append(modes, o.refine(near[:1], near[1:], t, self.options))
        if not modes.size:
            self.put("log_lambda", -np.inf if falls else np.inf)
            return None
        height = o.profile(modes, t, self.options)
        tied = modes[height <= height.min() + TIE]
        with np.errstate(divide="ignore"):
            best = tied[np.abs(tied + np.log(penalty)).argmin()] if penalty > 0 else tied[0]
        self.put("log_lambda", -best)
        return o.at_mode(best, t, self.options)

    def _search(self, penalty):
        o, t = self.o, self.target
        grid, scores = self.said["grid"], []
        for lam in grid:
            if self.problem.method == "gcv":
                scores.append(o.gcv(lam, t))
            else:
                score, left = o.loo(lam, t)
                scores.append(score if left > 1e-11 else np.nan)
        scores = np.array(scores)
        self.put("grid_scores", scores, scores)
        chosen = scores[np.flatnonzero(grid == penalty)[0]] if (grid == penalty).any() else np.inf
        self.put("excess_score", chosen / np.nanmin(scores) - 1)

    def _coefficients(self, mixture, sigma2):
        o, t, problem, said = self.o, self.target, self.problem, self.said
        z_rows, x_rows, varies = problem.coefficients()
        f = o.functionals(z_rows, x_rows, t)
        mean, sd = o.mean(f, mixture, t), o.sd(f, mixture, t)
        self.put("params", mean, _larger(sd, mean))
        a = mixture.weight @ o.shrinkage(mixture.l) * np.abs(o.z[:, t] / o.s)
        products = np.abs(x_rows / o.scale) @ o.x_size * (a / o.s).sum()
        self.rounding["params"] = _last_places(np.abs(f.coords) @ a + products, _larger(sd, mean))
        self.put("bse", sd, sd)
        if len(said["conf_int"]) == len(mean):
            some = np.flatnonzero(varies)
            self.some = some[:: max(1, some.size // INTERVALS)][:INTERVALS]
            self._interval("conf_int", f, self.some, mixture, said["conf_int"])
        if "fitted" in said:
            own = o.functionals(*problem.functionals(problem.x), t)
            fitted = o.mean(own, mixture, t)
            size = max(np.sqrt(sigma2), SEEN * np.sqrt(((fitted - fitted.mean()) ** 2).mean()))
            self.put("fitted", fitted, size)
            self.rounding["fitted"] = self._rounding(problem.x, mean, size)
        new = o.functionals(*problem.functionals(problem.new), t)
        at = o.mean(new, mixture, t)
        spread = o.sd(new, mixture, t)
        self.put("predicted", at, _larger(spread, at))
        self.rounding["predicted"] = self._rounding(problem.new, mean, _larger(spread, at))
        self.put("predicted_se", spread, spread)
        every = np.arange(len(at))
        self._interval("mean_ci", new, every, mixture, said["mean_ci"])
        self._interval("obs_ci", new, every, mixture, said["obs_ci"], noise=1.0)

    def _rounding(self, rows, params, unit):
        """What rounding the coefficients does to their products with rows, in the yardstick."""
        added = len(params) - rows.shape[1]
        sizes = np.abs(rows.astype(LONG)) @ np.abs(params[added:]) + (np.abs(params[0]) if added else 0)
        return float((np.finfo(float).eps * sizes / unit).max(initial=0))

    def _interval(self, name, f, rows, mixture, start, noise=0.0):
        part = type(f)(f.base[rows], f.coords[rows], f.outside2[rows], f.leverage[rows])
        ends = [
            self.o.quantiles(part, mixture, self.target, probability, start[rows, side], noise)
            for side, probability in enumerate((ALPHA / 2, 1 - ALPHA / 2))
        ]
        width = ends[1] - ends[0]
        self.put(name, part.base[:, None] + np.stack(ends, axis=1), width[:, None])


def _last_places(size, unit):
    """What half a unit of the last place of sums of this size is, at most, in units of the yardstick."""
    return float(np.where(unit > 0, np.finfo(float).eps * size / np.where(unit > 0, unit, 1), 0).max(initial=0))


def _larger(sd, value):
    return np.maximum(np.where(np.isfinite(sd), sd, 0), np.abs(value))


def said_by(problem, results, target):
    """The package's values under the oracle's names."""
    one = problem.y.shape[1] == 1

    def pick(value):
        value = np.asarray(value)
        return value if one else value[..., target]

    def pick_interval(frame):
        value = results.arrays.conf_int(ALPHA)
        return value if one else value[:, target]

    with np.errstate(divide="ignore"):
        out = {"lambda": float(np.atleast_1d(results.lambda_)[target])}
        out["log_lambda"] = np.log(LONG(out["lambda"]))
    out["sigma2"] = np.atleast_1d(results.sigma2)[target]
    out["df_model"] = np.atleast_1d(results.df_model)[target]
    out["params"], out["bse"] = pick(results.params), pick(results.bse)
    out["conf_int"] = pick_interval(results)
    if problem.method in ("exact", "fixed") and problem.fit.get("dof") != "paper":
        out["log_marginal"] = np.atleast_1d(results.log_marginal)[target]
    if problem.source in ("rows", "sparse"):
        out["fitted"] = pick(results.fittedvalues)
    if problem.method == "loocv":
        out["loo_mse"] = np.atleast_1d(results.loo_mse)[target]
    if problem.method in ("loocv", "gcv"):
        grid = results.grid
        out["grid"] = grid if np.ndim(grid) == 1 else grid[:, target]
        scores = results.grid_scores
        out["grid_scores"] = scores if np.ndim(scores) == 1 else scores[:, target]
        out["excess_score"] = 0.0
    prediction = results.get_prediction(problem.new)
    out["predicted"], out["predicted_se"] = pick(prediction.predicted_mean), pick(prediction.se)
    for name, obs in (("mean_ci", False), ("obs_ci", True)):
        ends = prediction.conf_int(obs=obs, alpha=ALPHA)
        out[name] = ends if one else ends[:, target]
    return out


def compare(problem):
    """Fit a problem, ask the oracle, and judge."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            results = problem.results()
            said = [said_by(problem, results, t) for t in range(problem.y.shape[1])]
            notes = results.notes
        except ValueError as error:
            return Verdict(problem.name, "-", (), (), _refusal(problem, error))
    foreign = [w for w in caught if not issubclass(w.category, PybayesridgeWarning)]
    if foreign:
        return Verdict(problem.name, results.solver, (), (), f"warns of {foreign[0].message}")
    announced = any(issubclass(w.category, PrecisionWarning | ConvergenceWarning) for w in caught)
    says = tuple(str(w.message) for w in caught)
    announced |= any(word in told for told in (*notes, *says) for word in SAID)
    oracle = problem.oracle()
    differences = []
    for target, values in enumerate(said):
        differences += judge(problem, oracle, target, values, announced)
    return Verdict(problem.name, results.solver, tuple(differences), says)


def _refusal(problem, error):
    """Whether the oracle sees why the package refuses."""
    text = str(error)
    if any(reason in text for reason in REFUSALS):
        return None
    if "are constant" in text and not problem.intercept and (np.ptp(problem.x, axis=0) == 0).any():
        return None
    return f"{type(error).__name__}: {error}"


def judge(problem, oracle, target, said, announced):
    """Differences of one target."""
    with np.errstate(all="ignore"):
        answers = Answers(problem, oracle, target, said).compute()
        names = _comparable(problem, oracle, target, said, answers)
        if names == ["exact fit"]:
            return [Difference("exact fit", target, np.inf, 0.0, announced)]
        errors = {name: error(said[name], answers, name) for name in names}
        moves = dict.fromkeys(errors, 0.0)
        if any(not e <= LIMIT for e in errors.values()):
            moves = sensitivity(problem, target, said, answers, errors)
    for name, rounding in answers.rounding.items():
        if name in moves:
            moves[name] = max(moves[name], rounding)
    return [Difference(name, target, errors[name], ALLOWED * moves[name], announced) for name in errors]


def _comparable(problem, oracle, target, said, answers):
    names = [name for name in answers.values if name in said]
    if not oracle.rank:
        return []
    size = oracle.y_size[target]
    limit = UNSEEN_BY_MOMENTS if problem.source in ("moments", "batches") else NO_RESIDUAL
    if oracle.y_norm[target] <= limit * size and problem.model.get("sigma2") is None:
        return []
    no_residual = 0 < oracle.rank < oracle.nu and np.sqrt(oracle.rss0[target]) <= limit * size
    if said["lambda"] == 0 and problem.method in ("em", "exact") and not no_residual:
        return ["exact fit"]
    if no_residual and problem.model.get("sigma2") is None:
        return [name for name in names if name in ("params", "predicted") and said["lambda"] == 0]
    if answers.values.get("sigma2", [1])[0] < SMALLEST:
        return [name for name in names if name in ("log_lambda", "params", "fitted", "predicted")]
    return names


def error(value, answers, name):
    """The largest error of a quantity in its yardstick."""
    truth, unit = answers.values[name], answers.yardsticks[name]
    value = np.atleast_1d(np.asarray(value)).astype(LONG)
    if name == "conf_int":
        value = value[answers.some]
    return _distance(value, truth, unit)


def _distance(value, truth, unit):
    if value.shape != truth.shape:
        return np.inf
    same = (value == truth) | np.isnan(truth) | (np.isnan(value) & ~np.isfinite(truth))
    gap = np.where(same, 0, np.abs(value - truth) / np.abs(unit))
    return float(np.where(np.isnan(gap), np.inf, gap).max(initial=0))


def sensitivity(problem, target, said, answers, errors):
    """How far each of the oracle's answers moves with the last places of the data."""
    moves = dict.fromkeys(errors, 0.0)
    rng = np.random.default_rng(0)
    others = [(other, other.oracle()) for other in (problem.perturbed(rng) for _ in range(PERTURBATIONS))]
    lower = problem.oracle().without(SAME_SPACE)
    for other, oracle in [*others, *([(problem, lower)] if lower.rank < answers.o.rank else [])]:
        moved = Answers(other, oracle, target, said).compute()
        for name in errors:
            if name in moved.values:
                gap = _distance(moved.values[name], answers.values[name], answers.yardsticks[name])
            else:
                gap = np.inf
            moves[name] = max(moves[name], gap)
    return moves
