"""Which of many correlated genotypes matter: SpikeSlab, susieR and LassoCV on real and simulated genotypes.

    python -m benchmarks.finemapping [--quick] [--out FOLDER] [--data-dir DIR] [--only PART ...] [--render]

The real ones are susieR's N3finemapping (574 people, 1001 columns, a simulated response with three true columns); its
file N3finemapping.RData is looked for in --data-dir (or the environment variable FINEMAPPING_DATA), and that part is
left out where it is absent. The truth is that of two long chains of another sampler (``long_chain.py``). Simulated
genotypes are counts of two chromosomes with linkage in blocks.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import common, peers_r
from benchmarks.finemapping_data import BLOCK, CORRELATED, FILE, Data, read_genotypes, simulated
from benchmarks.long_chain import Target, long_chain
from benchmarks.peers_run import OverBudgetError, budget
from pybayesridge import SpikeSlab

NAME = "finemapping"
PACKAGES = ["pybayesridge", "numpy", "scipy", "scikit-learn"]
GIVEN = {"prior_inclusion": 3 / 1001, "slab_var": 1.0, "noise_var": 6.29}
SHOWN = (402, 652, 772, 776)
LASSO_ZERO = 1e-12
LIMIT = 240.0
"""Seconds of processor time that a fit may take."""

SUSIE = (
    peers_r.LOAD_SUSIE
    + """
write("seconds", seconds(fit <- susie(x, y, L = 10)))
write("prob", fit$pip)
write("converged", fit$converged)
sets <- fit$sets$cs
write("set", rep(seq_along(sets), lengths(sets)))
write("column", as.numeric(unlist(sets)) - 1)
"""
)


@dataclass(frozen=True, slots=True)
class Answer:
    """Inclusion probabilities, credible sets and times of a fit.

    Attributes
    ----------
    prob : (d,) array or None
    sets : list of int arrays, or None
    seconds : float
    max_se : float or None
        Largest Monte Carlo standard error of a probability.
    converged : bool
    chosen : int array or None
        Columns with a coefficient, of a method without probabilities.
    """

    prob: np.ndarray | None
    sets: list[np.ndarray] | None
    seconds: float
    max_se: float | None = None
    converged: bool = True
    chosen: np.ndarray | None = None


def ours(method: str, **given: Any) -> Callable[[Data], Answer]:
    """SpikeSlab by a method; given hyperparameters are those of columns as they are."""

    def fit(data: Data) -> Answer:
        model = SpikeSlab(data.y, data.x, standardize=not given, **given)
        start = common.clock()
        res = model.fit(method)
        seconds = common.clock() - start
        prob = np.asarray(res.inclusion_prob)[1:]
        if method != "exact":
            return Answer(prob, None, seconds, None, bool(res.converged))
        names = {name: j for j, name in enumerate(res.penalized_names)}
        found = res.credible_sets()
        sets = [np.array([names[c] for c in part["column"]]) for _, part in found.groupby("set")]
        return Answer(prob, sets, seconds, float(np.nanmax(res.inclusion_se)), bool(res.converged))

    return fit


def susie(data: Data) -> Answer:
    """R's susieR with its defaults and ten effects."""
    found = peers_r.run(SUSIE, data.x, data.y, data.x[:1], LIMIT)
    label = found["set"].astype(int)
    sets = [found["column"][label == s].astype(int) for s in np.unique(label)]
    return Answer(found["prob"], sets, float(found["seconds"][0]), None, bool(found["converged"][0]))


def lasso(data: Data) -> Answer:
    """scikit-learn's lasso with a cross-validated penalty, columns standardised."""
    from sklearn.linear_model import LassoCV

    z = (data.x - data.x.mean(axis=0)) / data.x.std(axis=0)
    start = common.clock()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = LassoCV(cv=5).fit(z, data.y)
    chosen = np.flatnonzero(np.abs(fit.coef_) > LASSO_ZERO)
    return Answer(None, None, common.clock() - start, chosen=chosen)


def contenders() -> dict[str, Callable[[Data], Answer]]:
    """Every method that is there."""
    out: dict[str, Callable[[Data], Answer]] = {"exact": ours("exact")}
    if peers_r.has_susie():
        out["susieR (L = 10)"] = susie
    out["LassoCV (5 folds)"] = lasso
    return out | {"EP": ours("ep")}


def measured(data: Data, fit: Callable[[Data], Answer], limit: float) -> dict[str, Any]:
    """All that the tables say of a fit."""
    try:
        with budget(limit), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = fit(data)
    except (OverBudgetError, subprocess.TimeoutExpired):
        return {"given_up": limit}
    out: dict[str, Any] = {
        "seconds": found.seconds,
        "max_se": found.max_se,
        "converged": found.converged,
    }
    if found.prob is not None:
        out["prob_true"] = [float(found.prob[j]) for j in data.true]
        out["prob_block"] = [float(found.prob[block].sum()) for block in data.blocks]
        out["expected"] = float(found.prob.sum())
        indicator = np.zeros(found.prob.size)
        indicator[list(data.true)] = 1.0
        out["brier"] = float(((found.prob - indicator) ** 2).sum())
    if found.sets is not None:
        out["sets"] = len(found.sets)
        out["sets_true"] = sum(bool(np.isin(s, data.true).any()) for s in found.sets)
        out["true_in_sets"] = int(np.isin(data.true, np.concatenate([np.zeros(0), *found.sets])).sum())
        out["set_sizes"] = [int(s.size) for s in found.sets]
    if found.chosen is not None:
        out["chosen"] = int(found.chosen.size)
        out["chosen_true"] = int(np.isin(data.true, found.chosen).sum())
    return out


def real(data: Data, quick: bool, limit: float) -> Iterator[dict[str, Any]]:
    """N3finemapping: probabilities of some columns and of blocks, and two long chains; after each method."""
    x, y = data.x - data.x.mean(axis=0), data.y - data.y.mean()
    z, steps = x / x.std(axis=0), 20_000 if quick else 100_000
    out: dict[str, Any] = {"n": x.shape[0], "d": x.shape[1], "steps": steps}
    given = (GIVEN["prior_inclusion"], GIVEN["slab_var"] / GIVEN["noise_var"], GIVEN["noise_var"])
    settings = {
        "given": (Target(x.T @ x, x.T @ y, float(y @ y), x.shape[0] - 1.0, x.shape[0], given), GIVEN),
        "learned": (Target(z.T @ z, z.T @ y, float(y @ y), x.shape[0] - 1.0, x.shape[0]), {}),
    }
    for name, (target, known) in settings.items():
        chains = [long_chain(target, steps, seed) for seed in (1, 2)]
        truth = (chains[0] + chains[1]) / 2
        rows: dict[str, Any] = {
            f"long chain {i + 1}": said(data, chain, truth, None) for i, chain in enumerate(chains)
        }
        fits = {"exact": ours("exact", **known), "EP": ours("ep", **known)}
        if peers_r.has_susie():
            fits["susieR (L = 10)"] = susie
        for method, fit in fits.items():
            try:
                with budget(limit), warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    answer = fit(data)
            except (OverBudgetError, subprocess.TimeoutExpired):
                rows[method] = {"given_up": limit}
            else:
                rows[method] = said(data, answer.prob, truth, answer)
            print(name, method, rows[method], file=sys.stderr, flush=True)
            out[name] = rows
            yield out


def said(data: Data, prob: np.ndarray | None, truth: np.ndarray, answer: Answer | None) -> dict[str, Any]:
    """Probabilities of the columns shown and of blocks, and the largest differences from the truth."""
    if prob is None:
        raise AssertionError("a method of this part has probabilities")
    sums = np.array([prob[b].sum() for b in data.blocks])
    true_sums = np.array([truth[b].sum() for b in data.blocks])
    out: dict[str, Any] = {
        "columns": [float(prob[j]) for j in SHOWN],
        "blocks": sums.tolist(),
        "largest": float(np.abs(prob - truth).max()),
        "largest_block": float(np.abs(sums - true_sums).max()),
    }
    if answer is not None:
        out |= {"seconds": answer.seconds, "converged": answer.converged, "max_se": answer.max_se}
        if answer.sets is not None:
            out["sets"] = [[int(j) for j in s] for s in answer.sets]
    return out


AIM_DIFFERENCE, AIM_SECONDS = 0.05, 2.0
"""Of N3finemapping, all learned, with the exact method."""
AIM_LARGE = (20_000, 0.01)
"""Columns, and the largest standard error that is to be reached in susieR's time."""

SIZES = ((200, 20_000, 8, 0.8), (1000, 5000, 8, 0.5), (200, 20_000, 8, 0.5))
QUICK_SIZES = ((80, 300, 3, 0.7),)


def made_up(quick: bool, limit: float, left_out: list[str]) -> Iterator[list[dict[str, Any]]]:
    """Simulated genotypes of each size, every method; after each method."""
    out: list[dict[str, Any]] = []
    for n, d, active, share in QUICK_SIZES if quick else SIZES:
        data = simulated(n, d, active, share, 1)
        runs: dict[str, Any] = {}
        out.append({"n": n, "d": d, "active": active, "share": share, "true": list(data.true), "runs": runs})
        for name, fit in contenders().items():
            if name in left_out:
                continue
            runs[name] = measured(data, fit, limit)
            print(n, d, share, name, runs[name], file=sys.stderr, flush=True)
            yield out


def numbers(values: list[float]) -> str:
    """Probabilities with two digits."""
    return " ".join(f"{v:.2f}" for v in values)


def page_of_real(found: dict[str, Any]) -> list[str]:
    """The part on N3finemapping."""
    parts = [
        "## N3finemapping",
        f"{found['n']} people, {found['d']} columns, true columns 403, 653, 773; 777 has correlation 0.98 with 773. "
        f"Blocks: columns with an absolute correlation above {CORRELATED} with a true one. Long chains: "
        f"{found['steps']:,} steps each of another sampler; differences are from their mean, over all columns and "
        "over the three blocks. susieR has its own prior, so that its answer differs for that reason as well. Its "
        "columns are standardised in both tables; hyperparameters are given for columns as they are.",
    ]
    titles = {"given": "Given hyperparameters (p = 3/1001, v = 1, s2 = 6.29)", "learned": "All learned"}
    for name, title in titles.items():
        if name not in found:
            continue
        rows = [
            [method, *["-"] * 7, f"given up after {one['given_up']:g} s", "-", "-"]
            if "given_up" in one
            else [
                method,
                *(f"{p:.3f}" for p in one["columns"]),
                numbers(one["blocks"]),
                f"{one['largest']:.3f}",
                f"{one['largest_block']:.3f}",
                common.show_seconds(one.get("seconds")),
                "-" if one.get("max_se") is None else f"{one['max_se']:.3f}",
                "-" if "converged" not in one else "yes" if one["converged"] else "no",
            ]
            for method, one in found[name].items()
        ]
        head = ["method", "403", "653", "773", "777", "blocks", "largest difference", "of a block", "time"]
        parts += [f"### {title}", common.table([*head, "largest s.e.", "converged"], rows)]
        for method in ("exact", "susieR (L = 10)"):
            sets = found[name].get(method, {}).get("sets")
            if sets is not None:
                text = "; ".join("{" + ", ".join(str(j + 1) for j in sorted(s)) + "}" for s in sets)
                parts.append(f"Credible sets of {method}: {text}.")
    own = found.get("learned", {}).get("exact")
    return parts if own is None or "given_up" in own else [*parts, *aims(own)]


def aims(own: dict[str, Any]) -> list[str]:
    """The answer of the exact method, all learned, relative to what it should be."""
    rows = [
        ["largest difference of a column", f"{AIM_DIFFERENCE}", f"{own['largest']:.3f}"],
        ["largest difference of a block", f"{AIM_DIFFERENCE}", f"{own['largest_block']:.3f}"],
        ["processor time", common.show_seconds(AIM_SECONDS), common.show_seconds(own["seconds"])],
    ]
    parts = ["### Aims", common.table(["exact, all learned", "aim, at most", "measured"], rows)]
    missed = [
        name
        for name, aim, value in (
            ("a column", AIM_DIFFERENCE, own["largest"]),
            ("a block", AIM_DIFFERENCE, own["largest_block"]),
            ("the time", AIM_SECONDS, own["seconds"]),
        )
        if value > aim
    ]
    parts.append(f"Missed: {', '.join(missed)}." if missed else "All are reached.")
    return parts


def page_of_simulated(found: list[dict[str, Any]]) -> list[str]:
    """The part on simulated genotypes."""
    parts = [
        "## Simulated genotypes",
        f"Blocks of {BLOCK} columns with linkage, true columns in different blocks. Of each method the inclusion "
        "probabilities of the true columns and their blocks (columns with an absolute correlation above "
        f"{CORRELATED}), the expected number of columns, the sum of squared errors of the probabilities (Brier), "
        "the 95 % credible sets (how many, how many hold a true column), the columns that LassoCV chooses, the "
        "largest Monte Carlo standard error and seconds of processor time.",
    ]
    for case in found:
        rows = []
        for name, one in case["runs"].items():
            if "given_up" in one:
                rows.append([name, *["-"] * 6, f"given up after {one['given_up']:g} s"])
                continue
            sets = "-"
            if "sets" in one:
                sets = f"{one['sets']}, {one['sets_true']} true; sizes {' '.join(map(str, one['set_sizes']))}"
            elif "chosen" in one:
                sets = f"{one['chosen']} columns, {one['chosen_true']} true"
            has = "prob_true" in one
            rows.append(
                [
                    name,
                    numbers(one["prob_true"]) if has else "-",
                    numbers(one["prob_block"]) if has else "-",
                    f"{one['expected']:.1f}" if has else "-",
                    f"{one['brier']:.2f}" if has else "-",
                    sets,
                    "-" if one.get("max_se") is None else f"{one['max_se']:.3f}",
                    common.show_seconds(one["seconds"]) + ("" if one["converged"] else ", not converged"),
                ]
            )
        head = ["method", "true columns", "their blocks", "expected size", "Brier", "sets", "largest s.e.", "time"]
        title = f"{case['n']} × {case['d']:,}, {case['active']} true columns, share explained {case['share']:g}"
        parts += [f"### {title}", common.table(head, rows)]
        own, theirs = case["runs"].get("exact", {}), case["runs"].get("susieR (L = 10)", {})
        if case["d"] == AIM_LARGE[0] and "seconds" in own and "seconds" in theirs:
            reached = own["max_se"] <= AIM_LARGE[1] and own["seconds"] <= theirs["seconds"]
            parts.append(
                f"Aim of the exact method: a largest standard error of {AIM_LARGE[1]} in susieR's time. It is "
                + ("reached." if reached else "missed.")
            )
    return parts


def page(found: dict[str, Any]) -> str:
    """The whole page."""
    parts = [peers_r.susie_versions()]
    parts += page_of_real(found["real"]) if found.get("real") else [f"{FILE} was absent."]
    if found.get("simulated"):
        parts += page_of_simulated(found["simulated"])
    return "\n\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="short chains, small data")
    parser.add_argument("--out", type=Path, help="folder for the page and the numbers")
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("FINEMAPPING_DATA"), help=f"folder of {FILE}")
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds of processor time that a fit may take")
    parser.add_argument("--without", nargs="+", default=[], help="methods to leave out with simulated genotypes")
    parser.add_argument("--only", nargs="+", choices=["real", "simulated"], default=["real", "simulated"])
    parser.add_argument("--render", action="store_true", help="write the page again from stored numbers")
    args = parser.parse_args()
    common.use_one_thread()
    folder = args.out or (common.QUICK_RESULTS if args.quick else common.RESULTS)
    stored = folder / f"{NAME}.json"
    kept = json.loads(stored.read_text(encoding="utf-8")) if stored.exists() else {"environment": {}, "results": {}}
    env, found = kept["environment"], dict(kept["results"])
    if not args.render:
        env = common.environment(PACKAGES)
        data = read_genotypes(None if args.data_dir is None else Path(args.data_dir))
        if "real" in args.only:
            found["real"] = None
            for part in real(data, args.quick, args.limit) if data is not None else ():
                found["real"] = part
                common.save(NAME, env, found, page(found), folder)
        if "simulated" in args.only:
            for part in made_up(args.quick, args.limit, args.without):
                found["simulated"] = part
                common.save(NAME, env, found, page(found), folder)
    if args.render or not found.get("real"):
        common.save(NAME, env, found, page(found), folder)


if __name__ == "__main__":
    main()
