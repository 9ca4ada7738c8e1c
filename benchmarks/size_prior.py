"""The tail of the prior of the number of columns: how selection would change if large sets were less probable.

    python -m benchmarks.size_prior [--quick] [--out FOLDER] [--seconds S] [--render | --resume]

The prior of t = logit p is ``σ(t - t0) σ(t0 - t)``, so that the expected number of columns has a tail as 1 / number.
With ``σ(t0 - t)^a`` in place of the second factor the tail is as number^-a. One fit serves all tails: its kept
states, which have a draw of t, are weighted by the ratio of the priors.
"""

from __future__ import annotations

import json
import sys
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import log_expit

from benchmarks import common, measures
from benchmarks.peers_data import make

NAME = "size_prior"
PACKAGES = ["pybayesridge", "numpy", "scipy"]
TAILS = (1.0, 1.5, 2.0)
"""Powers; the first is the package's."""
FEW = 20
"""Columns that are in fewer kept states have the ratio of all of these together."""
KEYS = (("brier", "Brier score", 4), ("log_score", "log score", 4), ("bias", "expected less true size", 2))


@dataclass(frozen=True)
class Case:
    """A kind of data; `active` None: all coefficients are not zero."""

    design: str
    n: int
    d: int
    active: int | None

    @property
    def name(self) -> str:
        """What the page calls it."""
        return f"{self.design}, n = {self.n}, d = {self.d}, {'all' if self.active is None else self.active} active"


KINDS = (
    ("independent", 60, 20, 5),
    ("independent", 100, 300, 8),
    ("AR(0.9)", 100, 300, 8),
    ("genotypes", 200, 300, 8),
    ("Bernoulli", 150, 300, 8),
    ("expression", 71, 4000, 8),
)
FULL = tuple(Case(*kind) for kind in KINDS), tuple(Case(*kind[:3], None) for kind in KINDS)
QUICK = (Case("independent", 60, 20, 5), Case("AR(0.9)", 60, 60, 8)), (Case("AR(0.9)", 60, 60, None),)
SETS, FEW_SETS = (20, 3), (2, 2)
"""Data sets of each kind, with few active coefficients and with all of them: these take a hundred times as long."""


def under_tail(exact: Any, tail: float) -> tuple[np.ndarray, float]:
    """Inclusion probabilities (d,), which use every step under the fit's own prior, and the expected size."""
    states = exact.states
    weight = states.weight * np.exp((tail - 1.0) * log_expit(exact.grid.prior.center - states.t))
    weight /= weight.sum()
    d = exact.inclusion_prob.size
    often = np.bincount(states.columns, minlength=d)
    own, other = (np.bincount(states.columns, each[states.of_state], minlength=d) for each in (states.weight, weight))
    few = often < FEW
    together = other[few].sum() / max(own[few].sum(), np.finfo(float).tiny)
    change = np.where(few, together, other / np.where(few, 1.0, own))
    prob = np.clip(exact.inclusion_prob * change, 0.0, 1.0)
    return prob, float(prob.sum())


def one(case: Case, seed: int) -> dict[str, Any]:
    """Scores of one data set under each tail."""
    from pybayesridge import SpikeSlab

    problem = make(case.design, case.n, case.d, seed, active=case.active, share=0.5)
    start = common.clock()
    res: Any = SpikeSlab(problem.y, problem.x).fit("exact")
    seconds = common.clock() - start
    exact = res.exact_sets
    out: dict[str, Any] = {"seconds": seconds, "converged": bool(res.converged), "tails": []}
    for tail in TAILS:
        prob, size = under_tail(exact, tail)
        out["tails"].append(
            {
                "brier": measures.brier(problem.true, prob),
                "log_score": measures.log_score(problem.true, prob),
                "bias": size - float(problem.true.sum()),
            }
        )
    return out


def page(found: dict[str, list[dict[str, Any]]]) -> str:
    """The whole page."""
    rows, gains = [], []
    for name, runs in sorted(found.items(), key=lambda item: "all active" in item[0]):
        each = {
            key: np.array([[tail[key] for tail in run["tails"]] for run in runs], dtype=float) for key, _, _ in KEYS
        }
        converged = f"{sum(run['converged'] for run in runs)} of {len(runs)}"
        seconds = common.show_seconds(float(np.median([run["seconds"] for run in runs])))
        for i, tail in enumerate(TAILS):
            first = [name, converged, seconds] if i == 0 else ["", "", ""]
            rows.append([*first, f"{tail:g}", *(measures.show(each[key][:, i], digits) for key, _, digits in KEYS)])
        for i, tail in enumerate(TAILS[1:], 1):
            differences = [each[key][:, i] - each[key][:, 0] for key in ("brier", "log_score")]
            gains.append([name, f"{tail:g}", *(measures.show(gap, 4, sign=True) for gap in differences)])
    head = ["data", "converged", "median time", "tail", *(title for _, title, _ in KEYS)]
    return "\n\n".join(
        [
            "Half of the variance is explained, coefficients are normal per standard deviation of the column, all "
            "hyperparameters are learned. The tail is the power a of the prior of the expected number of columns, "
            "number^-a; the package's is 1. Means ± standard errors over data sets, the same for all tails. The "
            "log score is minus the log probability of what is true, a mean over columns; less is better, as for the "
            "Brier score.",
            common.table(head, rows),
            "## Differences from the package's prior",
            "Paired over data sets; negative ones are in favour of the other tail.",
            common.table(["data", "tail", "Brier score", "log score"], gains),
        ]
    )


def main() -> None:
    args = common.arguments(__doc__, limited=True, resumable=True)
    path = args.out / f"{NAME}.json"
    if args.render:
        stored = json.loads(path.read_text(encoding="utf-8"))
        common.save(NAME, stored["environment"], stored["results"], page(stored["results"]), args.out)
        return
    common.use_one_thread()
    env = common.environment(PACKAGES)
    found: dict[str, list[dict[str, Any]]] = {}
    if args.resume and path.exists():
        found = json.loads(path.read_text(encoding="utf-8"))["results"]
    start = common.clock()
    kinds, counts = (QUICK, FEW_SETS) if args.quick else (FULL, SETS)
    # All kinds of data in turn, so that a run that is stopped has as many sets of each.
    wanted = [
        (case, seed) for some, count in zip(kinds, counts, strict=True) for seed in range(count) for case in some
    ]
    for case, seed in wanted:
        runs = found.setdefault(case.name, [])
        if len(runs) > seed:
            continue
        if common.clock() - start > args.seconds:
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            runs.append(one(case, seed))
        print(case.name, runs[-1], file=sys.stderr, flush=True)
        common.save(NAME, env, found, page(found), args.out)


if __name__ == "__main__":
    main()
