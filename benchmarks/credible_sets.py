"""Coverage and size of 95 % credible sets on simulated genotypes, SpikeSlab compared with susieR.

    python -m benchmarks.credible_sets [--quick] [--out FOLDER] [--render] [--seconds 3600]

Each data set has blocks of linkage (``finemapping_data.linkage``) and a few true columns, of which two are in one
block in half of the data sets. A set covers if it holds a true column. Both packages fit with their defaults.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks import common, peers_r
from benchmarks.finemapping import Answer, ours, susie
from benchmarks.finemapping_data import BLOCK, Data, linkage

NAME = "credible_sets"
PACKAGES = ["pybayesridge", "numpy", "scipy"]
ROWS, COLUMNS, SETS = 200, 250, 200
SHARES = (0.1, 0.2, 0.4)
"""Shares of variance that the true columns explain, taken in turn."""
MOST_TRUE = 4
BINS = (0.0, 0.01, 0.05, 0.2, 0.5, 0.8, 0.95, 1.0)


def data_set(seed: int, n: int, d: int) -> Data:
    """One to four true columns with normal effects; with an odd seed the first two in one block."""
    rng = np.random.default_rng([seed, n, d])
    x = linkage(n, d, rng)
    active = 1 + seed % MOST_TRUE
    blocks = rng.choice(d // BLOCK, active, replace=False)
    if seed % 2 and active > 1:
        blocks[1] = blocks[0]
    true = np.unique(blocks * BLOCK + rng.integers(0, BLOCK, active))
    signal = x[:, true] @ (rng.standard_normal(true.size) / x[:, true].std(axis=0))
    share = SHARES[seed % len(SHARES)]
    y = signal + signal.std() * np.sqrt(1 / share - 1) * rng.standard_normal(n)
    return Data(x, y, tuple(int(j) for j in true))


def judged(data: Data, answer: Answer) -> dict[str, Any]:
    """Sets, how many hold a true column, their sizes, and squared errors of the probabilities."""
    if answer.sets is None or answer.prob is None:
        raise AssertionError("a method without credible sets")
    inside = np.isin(np.arange(answer.prob.size), data.true)
    clipped = np.clip(answer.prob, 1e-6, 1 - 1e-6)
    return {
        "sets": len(answer.sets),
        "hold": sum(bool(inside[s].any()) for s in answer.sets),
        "sizes": [int(s.size) for s in answer.sets],
        "found": int(inside[np.unique(np.concatenate([np.zeros(0), *answer.sets])).astype(int)].sum()),
        "true": len(data.true),
        "brier": float(((answer.prob - inside) ** 2).sum()),
        "log": float(-np.log(np.where(inside, clipped, 1 - clipped)).sum()),
        "said": np.histogram(answer.prob, BINS, weights=answer.prob)[0].tolist(),
        "count": np.histogram(answer.prob, BINS)[0].tolist(),
        "in": np.histogram(answer.prob[inside], BINS)[0].tolist(),
        "seconds": answer.seconds,
        "converged": answer.converged,
    }


def measure(quick: bool, seconds: float = np.inf) -> Iterator[dict[str, Any]]:
    """Both packages on all data sets, or on as many as there is processor time for; the state of every tenth."""
    start = time.process_time()
    n, d, count = (80, 100, 3) if quick else (ROWS, COLUMNS, SETS)
    fits = {"SpikeSlab": ours("exact")}
    if peers_r.has_susie():
        fits["susieR (L = 10)"] = susie
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in fits}
    for seed in range(count):
        data = data_set(seed, n, d)
        for name, fit in fits.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                runs[name].append(judged(data, fit(data)))
        late = time.process_time() - start > seconds
        if (seed + 1) % 10 == 0 or seed + 1 == count or late:
            yield {"n": n, "d": d, "count": seed + 1, "runs": runs}
        if late:
            break


def total(found: list[dict[str, Any]], key: str) -> int:
    """Sum over data sets."""
    return sum(one[key] for one in found)


def page(found: dict[str, Any]) -> str:
    """The whole page."""
    rows, calibration = [], []
    for name, one in found["runs"].items():
        sets, hold = total(one, "sets"), total(one, "hold")
        sizes = np.array([size for run in one for size in run["sizes"]], dtype=float)
        share = hold / sets if sets else float("nan")
        error = np.sqrt(share * (1 - share) / sets) if sets else float("nan")
        rows.append(
            [
                name,
                sets,
                f"{100 * share:.1f} ± {100 * error:.1f} %",
                f"{np.median(sizes):g}, {sizes.mean():.1f}" if sizes.size else "-",
                f"{total(one, 'found')} of {total(one, 'true')}",
                f"{np.mean([run['brier'] for run in one]):.3f}",
                f"{np.mean([run['log'] for run in one]):.2f}",
                f"{sum(run['converged'] for run in one)}",
                common.show_seconds(float(np.median([run["seconds"] for run in one]))),
            ]
        )
        counts, said, inside = (np.sum([run[key] for run in one], axis=0) for key in ("count", "said", "in"))
        cells = [
            f"{s / c:.3f} → {i / c:.3f} ({c})" if c else "-"
            for c, s, i in zip(counts.tolist(), said.tolist(), inside.tolist(), strict=True)
        ]
        calibration.append([name, *cells])
    head = ["method", "sets", "hold a true column", "columns of a set: median, mean", "true columns in sets"]
    edges = [f"{low:g} to {high:g}" for low, high in pairwise(BINS)]
    return "\n\n".join(
        [
            peers_r.susie_versions(),
            f"{found['count']} data sets of {found['n']} rows and {found['d']} columns in blocks of {BLOCK}, with "
            f"one to {MOST_TRUE} true columns that explain {', '.join(f'{share:g}' for share in SHARES)} of the "
            "variance in turn. Coverage: the share of 95 % credible sets that hold a true column, over all sets; "
            "both packages drop sets with a correlation below 0.5. Brier and log score: sums over columns, means "
            "over data sets, less is better.",
            common.table([*head, "Brier", "log score", "converged", "time"], rows),
            "Calibration of the inclusion probabilities: mean said → share true (columns).",
            common.table(["method", *edges], calibration),
        ]
    )


def main() -> None:
    common.run_in_steps(NAME, __doc__, PACKAGES, measure, page)


if __name__ == "__main__":
    main()
