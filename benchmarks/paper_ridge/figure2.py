"""Figure 2 of the ridge paper: correlated normal columns, growing n and p.

    python -m benchmarks.paper_ridge.figure2 [--quick] [--render] [--out FOLDER]

x ~ N_p(0, S), S ~ Wishart_p(I, p), y ~ N(x'b, 0.25), b ~ N(0, I). All are drawn anew for every data set, with the
same S and b for every n. EM as printed in the paper is compared with the exact posterior and leave-one-out of
the package over the fixed grid and the grid of glmnet, on the same data.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.paper_ridge.algorithms import MAXITER
from benchmarks.paper_ridge.figures_common import (
    PACKAGES,
    arguments,
    claims,
    measured,
    save,
    save_figure,
    slope,
    table,
    use_one_thread,
    verdict,
)
from benchmarks.paper_ridge.simulation import STYLES, panels, run, wishart

COLUMNS = (20, 80, 240)
SIZES = (100, 200, 400, 800, 1600, 3200, 6400)
QUICK_COLUMNS = (10, 40)
QUICK_SIZES = (50, 100, 200, 400)
METHODS = ("em", "exact", "loocv", "glmnet", "glmnet_no_n")
REPETITIONS, QUICK_REPETITIONS = 16, 6

Cells = dict[str, dict[str, dict[str, Any]]]


def errors(results: Cells, columns: Sequence[int], sizes: Sequence[int]) -> str:
    """Mean squared errors, penalties and times of every setting."""
    rows = []
    for p in columns:
        for n in sizes:
            cell = results[f"{p},{n}"]
            d = cell["em"]["log_ratio"]
            rows.append(
                [
                    f"{p}, {n}",
                    *(f"{cell[m]['mse']['median']:.3g}" for m in METHODS),
                    f"{np.exp(d['mean']):.3f} ± {np.exp(d['mean']) * d['se']:.1g}",
                    *(f"{cell[m]['lambda']['median']:.3g}" for m in METHODS),
                    f"{100 * cell['loocv']['edge']['mean']:.0f} / {100 * cell['glmnet']['edge']['mean']:.0f}",
                    f"{cell['em']['iterations'].get('median', float('nan')):.0f}",
                    f"{cell['loocv']['seconds']['median'] / cell['exact']['seconds']['median']:.2g}",
                ]
            )
    head = [
        "p, n",
        *(f"MSE {STYLES[m].label}" for m in METHODS),
        "EM / LOOCV fixed ± s.e.",
        *(f"λ {m}" for m in METHODS),
        "edge of the grid, fixed / glmnet, %",
        "EM iterations",
        "time loocv / exact",
    ]
    return table(head, rows)


def decay(results: Cells, p: int, sizes: Sequence[int], method: str) -> float:
    """Exponent of the median error in n over the sizes with n >= 4 p: -1 for a consistent estimator."""
    large = [n for n in sizes if n >= 4 * p]
    return (
        slope(large, [results[f"{p},{n}"][method]["mse"]["median"] for n in large])[0] if len(large) > 2 else np.nan
    )


def expectations(results: Cells, columns: Sequence[int], sizes: Sequence[int]) -> list[list[str]]:
    """Rows: what the paper says, what was measured, whether it agrees."""
    last, most = sizes[-1], columns[-1]
    end = results[f"{most},{last}"]
    ratio = {m: float(np.exp(end[m]["log_ratio"]["mean"])) for m in METHODS}
    rates = {m: [decay(results, p, sizes, m) for p in columns] for m in METHODS}
    logs = [(c["em"]["log_ratio"]["mean"], c["em"]["log_ratio"]["se"]) for c in results.values()]
    worse = sum(m > 2 * e for m, e in logs)
    better = sum(m < -2 * e for m, e in logs)
    peaks = [max(results[f"{p},{n}"]["em"]["iterations"].get("median", np.nan) for n in sizes) for p in columns]
    ends = [results[f"{p},{last}"]["em"]["iterations"]["median"] for p in columns]
    times = {p: [results[f"{p},{n}"]["em"]["seconds"]["median"] for n in sizes] for p in columns}
    stuck = sum(c["em"]["mse"]["count"] - c["em"]["iterations"]["count"] for c in results.values())
    falls = [p for p in columns if min(np.diff(times[p])) < 0]
    show = {m: ", ".join("-" if np.isnan(v) else f"{v:.2f}" for v in rates[m]) for m in METHODS}
    return [
        [
            "glmnet's grid over-shrinks for large p",
            f"error {ratio['glmnet']:.3g} times that of the fixed grid at p = {most}, n = {last}; the smallest "
            f"penalty of the grid is chosen in {100 * end['glmnet']['edge']['mean']:.0f} % of the data sets there",
            verdict(ratio["glmnet"] > 2 and end["glmnet"]["edge"]["mean"] > 0.5),
        ],
        [
            "and is not consistent: its error does not fall with n",
            f"exponent of the error in n (where n ≥ 4p) for p = {', '.join(map(str, columns))}: {show['glmnet']}; "
            f"EM {show['em']}; fixed grid {show['loocv']}",
            verdict(bool(np.nanmin(rates["glmnet"]) > -0.5 and np.nanmax(rates["em"]) < -0.8)),
        ],
        [
            "EM is as good as LOOCV over the fixed grid, or better",
            f"its error is {np.exp(min(logs)[0]):.3f} to {np.exp(max(logs)[0]):.3f} times that of LOOCV (geometric "
            f"means over data sets); of {len(logs)} settings it is better by two standard errors in {better}, "
            f"worse in {worse}",
            verdict(worse == 0),
        ],
        [
            "iterations have a peak for small n, growing with p",
            f"highest median for each p: {', '.join(f'{v:.0f}' for v in peaks)}; {stuck} fits did not stop",
            verdict(all(a > 2 * b for a, b in zip(peaks, ends, strict=True)) and bool(np.all(np.diff(peaks) > 0))),
        ],
        [
            "and fall to about 10",
            f"median at n = {last}: {', '.join(f'{v:.0f}' for v in ends)}",
            verdict(all(3 <= v <= 30 for v in ends)),
        ],
        [
            "EM's time falls with n before it rises",
            f"it falls somewhere for p = {', '.join(map(str, falls)) or 'none'}",
            verdict(most in falls),
        ],
    ]


NOTES = f"""\
Columns are standardised, as the paper says. The error is the mean of (estimate - b)² over the coefficients on the
scale of x. Over data sets it has heavy tails, since the smallest eigenvalue of S has: hence medians, and geometric
means of paired ratios.

* Why glmnet's grid fails: its smallest penalty is 1e-4 of `max_j |x_j'y| / 0.001`, that is 0.1 n times the largest
  correlation of a column with y (times 100 for n < p). It grows in proportion to n, so that it stays above the small
  eigenvalues of X'X, which also grow as n: the estimate converges to a shrunken limit.
* For n < p EM as printed converges slowly: it uses n although the intercept takes one degree of freedom, and the
  posterior is then flat as tau2 → ∞. Where it had not stopped after {MAXITER} iterations (its rule needs the
  residual to stand still) it has no place in the row of iterations.
* The grey line takes glmnet's λ as the ridge penalty without its factor n (glmnet's objective divides the sum of
  squares by n, so that this is *not* what glmnet does). That penalty does not grow with n, and the error falls
  with n as the others' do, at some distance.
"""


def measure(quick: bool) -> dict[str, Any]:
    """All settings."""
    columns, sizes = (QUICK_COLUMNS, QUICK_SIZES) if quick else (COLUMNS, SIZES)
    repetitions = QUICK_REPETITIONS if quick else REPETITIONS

    def draw(p: float, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return wishart(n, int(p), rng)

    cells = [(p, n) for p in columns for n in sizes]
    results = run(cells, draw, METHODS, lambda n: repetitions, "figure 2")
    return {"columns": columns, "sizes": sizes, "repetitions": repetitions, "standardized": results}


def main() -> None:
    use_one_thread()
    args = arguments(__doc__)
    name = "paper_ridge_figure2"
    env, data = measured(name, args, PACKAGES, measure)
    columns, sizes, results = data["columns"], data["sizes"], data["standardized"]
    picture = save_figure(panels(results, columns, sizes, METHODS, lambda p: f"p = {p:g}", "median"), args.out, name)
    text = "\n\n".join(
        [
            f"Figure 2 of the ridge paper: normal columns with a Wishart covariance; {data['repetitions']} data sets "
            "a setting. The prior is half-Cauchy.",
            claims(expectations(results, columns, sizes)),
            picture,
            "Medians over data sets and quartiles. Grey may leave the panel of errors.",
            NOTES,
            errors(results, columns, sizes),
        ]
    )
    save(name, env, data, text, args.out)


if __name__ == "__main__":
    main()
