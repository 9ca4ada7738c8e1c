"""Figure 1 of the ridge paper: sparse columns, growing noise and growing n.

    python -m benchmarks.paper_ridge.figure1 [--quick] [--render] [--out FOLDER]

p = 100 columns, each Bernoulli(1/100), b ~ N(0, I), y = x'b + N(0, sigma^2). All are
drawn anew for every data set, with the same b for every n. EM as printed in the paper is compared with the
exact posterior and leave-one-out over the fixed grid of 100 of the package, on the same data.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.paper_ridge.figures_common import (
    PACKAGES,
    arguments,
    claims,
    measured,
    save,
    save_figure,
    table,
    use_one_thread,
    verdict,
)
from benchmarks.paper_ridge.simulation import STYLES, panels, run, sparse

SIGMAS = (1.0, 2.0, 4.0, 6.0)
SIZES = (100, 200, 400, 800, 1600, 3200, 6400, 12_800)
QUICK_SIGMAS = (1.0, 4.0)
QUICK_SIZES = (100, 200, 400, 800)
METHODS = ("em", "exact", "loocv", "loocv_paper")
REPETITIONS, FEWER, QUICK_REPETITIONS = 60, 16, 8
LARGE = 800
"""Above this many rows data sets differ little from one another: fewer of them will do."""

Cells = dict[str, dict[str, dict[str, Any]]]


def z_score(cell: dict[str, Any], method: str) -> float:
    """Difference of the mean squared error from LOOCV's, in its standard errors; negative is better."""
    d = cell[method]["difference"]
    return d["mean"] / d["se"] if d.get("se") else 0.0


def errors(results: Cells, sigmas: Sequence[float], sizes: Sequence[int]) -> str:
    """Mean squared errors and the paired difference of EM from LOOCV."""
    rows = []
    for sigma in sigmas:
        for n in sizes:
            cell = results[f"{sigma:g},{n}"]
            d = cell["em"]["difference"]
            rows.append(
                [
                    f"{sigma:g}, {n}",
                    *(f"{cell[m]['mse']['mean']:.3g}" for m in METHODS),
                    f"{d['mean']:+.2g} ± {d['se']:.1g}",
                    *(f"{cell[m]['lambda']['median']:.3g}" for m in METHODS[:3]),
                    f"{100 * cell['em']['null']:.0f} / {100 * cell['loocv']['null']:.0f}",
                    f"{cell['em']['iterations'].get('median', float('nan')):.0f}",
                    f"{cell['loocv_paper']['seconds']['median'] / cell['em']['seconds']['median']:.2g}",
                ]
            )
    head = [
        "sigma, n",
        *(f"MSE {STYLES[m].label}" for m in METHODS),
        "EM - LOOCV ± s.e.",
        *(f"λ {m}" for m in METHODS[:3]),
        "null fits EM / LOOCV, %",
        "EM iterations",
        "time Table 4 / Table 3",
    ]
    return table(head, rows)


def expectations(results: Cells, sigmas: Sequence[float], sizes: Sequence[int]) -> list[list[str]]:
    """Rows: what the paper says, what was measured, whether it agrees."""
    small = [results[f"{s:g},{n}"] for s in sigmas for n in sizes if n <= 200]
    scores = [z_score(c, "em") for c in small]
    worse = [z_score(results[f"{s:g},{n}"], "em") for s in sigmas for n in sizes if n > 200]
    last = [results[f"{s:g},{sizes[-1]}"] for s in sigmas]
    iterations = [c["em"]["iterations"]["median"] for c in last]
    first = [results[f"{s:g},{sizes[0]}"] for s in sigmas]
    peak = [c["em"]["iterations"].get("median", float("nan")) for c in first]
    medians = [c["em"]["lambda"]["median"] / c["loocv"]["lambda"]["median"] for c in small]
    means = [c["em"]["lambda"]["mean"] / c["loocv"]["lambda"]["mean"] for c in small]
    apart = [abs(c["em"]["mse"]["mean"] / c["loocv"]["mse"]["mean"] - 1) for c in last]
    early = [c["loocv_paper"]["seconds"]["median"] / c["em"]["seconds"]["median"] for c in first]
    late = [c["loocv_paper"]["seconds"]["median"] / c["em"]["seconds"]["median"] for c in last]
    below = sum(m < 1 for m in medians)
    return [
        [
            "EM has the smaller error for small n (here n ≤ 200)",
            f"smaller in {sum(s < 0 for s in scores)} of {len(scores)} settings, by more than two standard errors in "
            f"{sum(s < -2 for s in scores)}; larger by as much in {sum(s > 2 for s in scores)}",
            verdict(sum(s < -2 for s in scores) > len(scores) / 2 and not any(s > 2 for s in scores)),
        ],
        [
            "that comes with less shrinkage (a smaller λ)",
            f"the median of EM's λ is below that of LOOCV in {below} of {len(small)} settings; its mean in "
            f"{sum(m < 1 for m in means)} of {len(small)}",
            verdict(below > len(small) / 2),
        ],
        [
            "iterations fall from a large number",
            f"median at n = {sizes[0]}: {', '.join(f'{v:.0f}' for v in peak)}",
            verdict(all(p > 2 * i for p, i in zip(peak, iterations, strict=True))),
        ],
        [
            "to about 10",
            f"median at n = {sizes[-1]}: {', '.join(f'{v:.0f}' for v in iterations)}",
            verdict(all(3 <= i <= 30 for i in iterations)),
        ],
        [
            "EM is slightly slower for small n",
            f"Table 4 takes {min(early):.2g} to {max(early):.2g} times Table 3 at n = {sizes[0]}",
            verdict(min(early) < 1),
        ],
        [
            "and faster by a wide margin for large n",
            f"{min(late):.2g} to {max(late):.2g} times at n = {sizes[-1]}",
            verdict(min(late) > 5),
        ],
        [
            "where both have the same estimates",
            f"mean errors within {100 * max(apart):.1f} % at n = {sizes[-1]}; of all settings with n > 200 EM is "
            f"better by two standard errors in {sum(s < -2 for s in worse)} and worse in {sum(s > 2 for s in worse)}",
            verdict(max(apart) < 0.05),
        ],
    ]


NOTES = """\
Columns are standardised, as the paper says; a column that is constant in a data set has coefficient 0 in every
method. The error is the mean of (estimate - b)² over all 100 coefficients. Differences are paired: all methods use
the same data. "Null fits" have λ > 1e6, so that all coefficients are practically zero.

* For small n the median λ of EM is *larger* than that of LOOCV, and the mean smaller. The mean for LOOCV is
  dominated by data sets in which it selects the edge of its grid, 1e10. "Less shrinkage" describes the mean, not
  the typical data set, in which LOOCV has the larger error because its λ is too small.
* With large noise and few rows EM converges to the pole of its density at tau2 = 0 (hundreds of iterations, λ above
  1e7). The error is then that of b = 0, which is smaller than that of LOOCV if there is so little signal. The exact
  posterior has no pole, and its fits are never null. Its error is smaller if there is some signal and slightly
  larger if there is hardly any.
* Table 4 as printed omits the leverage 1/n of the intercept. If n is hardly larger than the number of columns, the
  score then favours λ near 0. The score of the package is correct; it is used for LOOCV in the comparisons above.
* Times: Tables 3 and 4 are plain NumPy in this benchmark. The fits of the package include input checks and the
  preparation of a results object, some milliseconds. The LOOCV of the package computes all penalties in one matrix
  product and is therefore faster.
"""


def measure(quick: bool) -> dict[str, Any]:
    """Both runs: standardised columns, and for small n columns that are only centred."""
    sigmas, sizes = (QUICK_SIGMAS, QUICK_SIZES) if quick else (SIGMAS, SIZES)

    def repetitions(n: int) -> int:
        return QUICK_REPETITIONS if quick else REPETITIONS if n <= LARGE else FEWER

    def draw(sigma: float, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return sparse(n, sigma, rng)

    cells = [(s, n) for s in sigmas for n in sizes]
    few = [(s, n) for s in sigmas for n in sizes[:2]]
    return {
        "sigmas": sigmas,
        "sizes": sizes,
        "repetitions": [repetitions(n) for n in sizes],
        "standardized": run(cells, draw, METHODS, repetitions, "figure 1"),
        "centred": run(few, draw, METHODS, repetitions, "figure 1, columns only centred", scale=False),
    }


def main() -> None:
    use_one_thread()
    args = arguments(__doc__)
    name = "paper_ridge_figure1"
    env, data = measured(name, args, PACKAGES, measure)
    sigmas, sizes, results = data["sigmas"], data["sizes"], data["standardized"]
    picture = save_figure(panels(results, sigmas, sizes, METHODS, lambda s: f"σ = {s:g}"), args.out, name)
    text = "\n\n".join(
        [
            f"Figure 1 of the ridge paper, p = 100; for n = {', '.join(map(str, sizes))} "
            f"{', '.join(map(str, data['repetitions']))} data sets a setting. The prior is half-Cauchy.",
            claims(expectations(results, sigmas, sizes)),
            picture,
            "Bands: two standard errors of the mean error, quartiles of the rest. Grey may leave the top panels.",
            NOTES,
            errors(results, sigmas, sizes),
            "Columns centred and not scaled (λ is then on another scale):",
            errors(data["centred"], sigmas, sizes[:2]),
        ]
    )
    save(name, env, data, text, args.out)


if __name__ == "__main__":
    main()
