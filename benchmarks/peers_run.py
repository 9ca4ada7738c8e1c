"""Shared functions of the comparisons with peers: fits, time budgets, the loop over data sets, tables."""

from __future__ import annotations

import contextlib
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks import common, measures, peers_data
from benchmarks.peers_data import Problem

LOOK = 0.5
"""Seconds between looks at the clock of a fit."""
FEWEST = 5
"""Fewer data sets say nothing of differences: their standard errors are themselves unknown."""
ENOUGH, REPETITIONS = 0.1, 7
"""A function is timed again until it has taken so many seconds, so many times at most."""


@dataclass(frozen=True, slots=True)
class Fit:
    """Results of a method for one data set; None if not available.

    Attributes
    ----------
    seconds : float
        Of processor time, for the fit alone.
    mean : (m,) array
        Predictions of the test rows.
    sd : (m,) array or None
        Standard deviations of new observations there.
    obs : (m, 2) array or None
        95 % intervals of new observations; normal ones from `mean` and `sd` where the method has no others.
    coef : (d, 2) array or None
        95 % intervals of the coefficients, per unit of the column.
    score : (d,) array or None
        The larger, the more a column is held to be relevant.
    prob : (d,) array or None
        Inclusion probabilities.
    converged : bool
    """

    seconds: float
    mean: np.ndarray
    sd: np.ndarray | None = None
    obs: np.ndarray | None = None
    coef: np.ndarray | None = None
    score: np.ndarray | None = None
    prob: np.ndarray | None = None
    converged: bool = True


@dataclass(frozen=True, slots=True)
class Case:
    """A kind of data: n, d, how many sets, how many active columns (None: all), explained share of variance."""

    design: str
    n: int
    d: int
    sets: int
    active: int | None
    share: float

    @property
    def name(self) -> str:
        """For headings."""
        return f"{self.design}, n = {self.n}, d = {self.d}"


Method = Callable[[Problem], Fit]


class OverBudgetError(Exception):
    """A fit took longer than it may."""


@contextlib.contextmanager
def budget(seconds: float) -> Iterator[None]:
    """Raise OverBudgetError after so much processor time; waits for a BLAS call to end. Unix.

    The clock is looked at from a timer of the wall: one of the processor makes the processor's clock coarse.
    """
    begin = time.process_time()

    def look(*_: Any) -> None:
        if time.process_time() - begin > seconds:
            raise OverBudgetError

    before = signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, LOOK, LOOK)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def timed(function: Callable[[], Any]) -> tuple[Any, float]:
    """Result and seconds of processor time; of a quick function the median of several calls."""
    seconds: list[float] = []
    while not seconds or (sum(seconds) < ENOUGH and len(seconds) < REPETITIONS):
        start = common.clock()
        result = function()
        seconds.append(common.clock() - start)
    return result, float(np.median(seconds))


def assess(fit: Fit, problem: Problem) -> dict[str, float]:
    """The measures of one fit; a measure that a method does not have is left out."""
    y, true = problem.y_test, problem.true
    out = {"seconds": fit.seconds, "r2": measures.r_squared(y, fit.mean), "converged": float(fit.converged)}
    if fit.sd is not None:
        out["log_density"] = measures.log_density(y, fit.mean, fit.sd)
        obs = fit.obs if fit.obs is not None else measures.normal_intervals(fit.mean, fit.sd)
        out["obs_coverage"] = measures.coverage(y, obs)
        out["obs_width"] = float(np.mean(obs[:, 1] - obs[:, 0])) / problem.noise
    if fit.coef is not None:
        out["coef_coverage"] = measures.coverage(problem.coef, fit.coef)
        out["active_coverage"] = measures.coverage(problem.coef[true], fit.coef[true])
    if fit.score is not None and not true.all():
        out["auprc"] = measures.average_precision(true, fit.score)
    if fit.prob is not None:
        out["brier"] = measures.brier(true, fit.prob)
        out["log_score"] = measures.log_score(true, fit.prob)
        out["bias"] = float(fit.prob.sum() - true.sum())
    return out


def run_case(case: Case, methods: dict[str, Method], limit: float, seconds: float = np.inf) -> dict[str, Any]:
    """Every method on the same data sets; one that goes over the limit is left out from then on.

    No set begins after so many `seconds` of processor time. All but "probs", the inclusion probabilities themselves,
    can be stored as JSON.
    """
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in methods}
    probs: dict[str, list[np.ndarray]] = {name: [] for name in methods}
    dropped: dict[str, str] = {}
    truths: list[np.ndarray] = []
    start = time.process_time()
    for seed in range(case.sets):
        if time.process_time() - start > seconds:
            break
        problem = peers_data.make(case.design, case.n, case.d, seed, active=case.active, share=case.share)
        truths.append(problem.true)
        for name, method in methods.items():
            if name in dropped:
                continue
            try:
                with warnings.catch_warnings(), budget(limit), np.errstate(all="ignore"):
                    warnings.simplefilter("ignore")
                    fit = method(problem)
            except OverBudgetError:
                dropped[name] = f"given up after {limit:g} s"
                continue
            runs[name].append(assess(fit, problem))
            if fit.prob is not None:
                probs[name].append(fit.prob)
        print(f"{case.name}: set {seed + 1} of {case.sets}", file=sys.stderr, flush=True)
    for name in [name for name, found in runs.items() if name in dropped and found]:
        dropped[name] += f" (on set {len(runs[name]) + 1}; the numbers are of the sets before)"
    bins = {
        name: measures.reliability(np.concatenate(truths[: len(p)]), np.concatenate(p))
        for name, p in probs.items()
        if p
    }
    out = {"case": case.name, "sets": len(truths), "runs": runs, "dropped": dropped, "reliability": bins}
    return out | {"probs": {name: found for name, found in probs.items() if found}}


def values(found: dict[str, Any], name: str, key: str) -> np.ndarray:
    """One measure of one method over the data sets, nan where it has none."""
    return np.array([run.get(key, np.nan) for run in found["runs"][name]])


def paired(found: dict[str, Any], name: str, ours: str, key: str) -> tuple[np.ndarray, np.ndarray]:
    """A measure of a method and of ours on the sets that both did."""
    both = min(len(found["runs"][name]), len(found["runs"][ours]))
    return values(found, name, key)[:both], values(found, ours, key)[:both]


def case_table(found: dict[str, Any], columns: Sequence[tuple[str, str, int]], ours: str) -> str:
    """Means ± standard errors; time as a ratio to ours, set by set, its median; R² also less ours, paired."""
    rows = []
    for name, runs in found["runs"].items():
        if not runs:
            rows.append([name, found["dropped"].get(name, "-"), *(["-"] * (len(columns) + 1))])
            continue
        cells = [measures.show(values(found, name, key), digits) for key, _, digits in columns]
        seconds = common.show_seconds(float(np.median(values(found, name, "seconds"))))
        label = name + (f" ({found['dropped'][name]})" if name in found["dropped"] else "")
        theirs, mine = paired(found, name, ours, "r2")
        gap = "0" if name == ours else measures.show(theirs - mine, 3, sign=True)
        rows.append([label, f"{time_ratio(found, name, ours):.2f} ({seconds})", *cells, gap])
    return common.table(["method", f"time / {ours}", *(head for _, head, _ in columns), "R² less ours"], rows)


def time_ratio(found: dict[str, Any], name: str, ours: str) -> float:
    """Median over sets of a method's time over ours; nan where there is none."""
    theirs, mine = paired(found, name, ours, "seconds")
    return float(np.median(theirs / mine)) if theirs.size else float("nan")


def where_we_lose(found: list[dict[str, Any]], ours: str, signs: dict[str, tuple[str, int]]) -> str:
    """Every method that is better than ours by more than two standard errors, paired; and those that are faster."""
    lines = []
    for case in found:
        for name in case["runs"]:
            for key, (label, sign) in signs.items():
                theirs, mine = paired(case, name, ours, key)
                gap = sign * (theirs - mine)
                mean, error = measures.mean_error(gap)
                if name != ours and gap.size >= FEWEST and mean > 2 * error:
                    lines.append(f"* {case['case']}: {name} is better in {label}, by {measures.show(gap)}.")
        ratios = {name: time_ratio(case, name, ours) for name in case["runs"] if name != ours}
        faster = ", ".join(f"{name} ({ratio:.2f})" for name, ratio in ratios.items() if ratio < 1)
        if faster:
            lines.append(f"* {case['case']}: faster, as a share of our time: {faster}.")
    return "\n".join(lines) or "* Nowhere."


def reliability_table(found: list[dict[str, Any]]) -> str:
    """Inclusion probabilities against the share of true variables, in bins, all cases together."""
    names = list(dict.fromkeys(name for case in found for name in case["reliability"]))
    rows = []
    for name in names:
        cells = []
        for b in range(len(measures.BINS) - 1):
            parts = [case["reliability"][name][b] for case in found if name in case["reliability"]]
            parts = [part for part in parts if part["columns"]]
            count = sum(part["columns"] for part in parts)
            if not count:
                cells.append("-")
                continue
            prob, share = (
                sum(part["columns"] * part[key] for part in parts) / count for key in ("mean_prob", "share_true")
            )
            cells.append(f"{prob:.3f} → {share:.3f} ({count})")
        rows.append([name, *cells])
    edges = [f"{low:g} to {high:g}" for low, high in zip(measures.BINS[:-1], measures.BINS[1:], strict=True)]
    return common.table(["method", *edges], rows)
