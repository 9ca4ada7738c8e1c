"""The simulations behind Figures 1 and 2: data, methods, and what is recorded of each fit."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.paper_ridge.algorithms import FIXED_GRID, fit_em, fit_loocv, glmnet_grid
from benchmarks.paper_ridge.figures_common import BLUE, GREEN, GREY, ORANGE, PINK, Style, clock, progress, summary
from pybayesridge import BayesRidge
from pybayesridge.exceptions import GridEdgeWarning

STYLES = {
    "em": Style("EM (paper, Table 3)", BLUE, "o"),
    "exact": Style("exact posterior", ORANGE, "s"),
    "loocv": Style("LOOCV, fixed grid", GREEN, "^"),
    "loocv_paper": Style("LOOCV, Table 4 as printed", GREY, "v", ":"),
    "glmnet": Style("LOOCV, glmnet's grid", PINK, "D"),
    "glmnet_no_n": Style("LOOCV, that grid without its factor n", GREY, "x", "--"),
}
MEASURES = ("mse", "lambda", "iterations", "seconds", "edge")
NULL = 1e6
"""Penalties above it leave nothing of any coefficient here."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """Coefficients on the scale of the columns (p,), the penalty, and iterations (NaN where there are none)."""

    b: np.ndarray
    lam: float
    iterations: float


def _package(y: np.ndarray, x: np.ndarray, method: str, scale: bool, **options: Any) -> Estimate:
    found = BayesRidge(y, x, standardize=scale, prior="half-cauchy").fit(method, **options)
    # The first is the intercept: no column of these simulations is constant and not zero.
    return Estimate(np.asarray(found.params)[1:], float(found.lambda_), np.nan)


def estimate(method: str, y: np.ndarray, x: np.ndarray, scale: bool = True) -> Estimate:
    """Fit one of `STYLES`' methods; `scale` says whether columns are standardised."""
    if method == "em":
        b, found = fit_em(x, y, scale)
        return Estimate(b, 1.0 / found.tau2, found.n_iter if found.converged else np.nan)
    if method == "exact":
        return _package(y, x, "exact", scale)
    if method == "loocv":
        return _package(y, x, "loocv", scale, grid="fixed")
    if method == "glmnet":
        return _package(y, x, "loocv", scale, grid="glmnet")
    if method == "glmnet_no_n":
        return _package(y, x, "loocv", scale, grid=glmnet_grid(x, y, times_n=False))
    if method == "loocv_paper":
        return Estimate(*fit_loocv(x, y, FIXED_GRID, intercept=False, scale=scale), np.nan)
    raise ValueError(f"unknown method {method!r}")


def sparse(n: int, sigma: float, rng: np.random.Generator, p: int = 100) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Figure 1's data: columns Bernoulli(1/100), b ~ N(0, I); returns y, x, b."""
    b = rng.standard_normal(p)
    x = (rng.random((n, p)) < 0.01).astype(float)
    return x @ b + sigma * rng.standard_normal(n), x, b


def wishart(n: int, p: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Figure 2's data: rows N(0, S), S ~ Wishart_p(I, p), y ~ N(x'b, 0.25), b ~ N(0, I); returns y, x, b.

    S = A A' with A a p x p matrix of standard normals, so that a row is A times a standard normal vector.
    """
    root = rng.standard_normal((p, p))
    b = rng.standard_normal(p)
    x = rng.standard_normal((n, p)) @ root.T
    return x @ b + 0.5 * rng.standard_normal(n), x, b


def simulate(
    draw: Callable[[np.random.Generator], tuple[np.ndarray, np.ndarray, np.ndarray]],
    methods: Sequence[str],
    repetitions: int,
    seed: Sequence[int],
    scale: bool = True,
) -> dict[str, dict[str, list[float]]]:
    """Every measure of every method, one value a data set; all methods see the same data."""
    found: dict[str, dict[str, list[float]]] = {m: {k: [] for k in MEASURES} for m in methods}
    for repetition in range(repetitions):
        y, x, b = draw(np.random.default_rng([*seed, repetition]))
        for method in methods:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                start = clock()
                fit = estimate(method, y, x, scale)
                seconds = clock() - start
            edge = any(issubclass(w.category, GridEdgeWarning) for w in caught)
            error = float(np.mean((fit.b - b) ** 2))
            values = (error, fit.lam, fit.iterations, seconds, float(edge))
            for key, value in zip(MEASURES, values, strict=True):
                found[method][key].append(value)
    return found


def summarize(found: dict[str, dict[str, list[float]]], against: str = "loocv") -> dict[str, dict[str, Any]]:
    """Summaries, the share of null fits, and paired differences (and log ratios) of errors from one method's."""
    out: dict[str, dict[str, Any]] = {}
    base = np.array(found[against]["mse"])
    for method, measures in found.items():
        out[method] = {k: summary(v) for k, v in measures.items()}
        out[method]["null"] = float(np.mean(np.array(measures["lambda"]) > NULL))
        out[method]["difference"] = summary(np.array(measures["mse"]) - base)
        out[method]["log_ratio"] = summary(np.log(np.array(measures["mse"]) / base))
    return out


def run(
    cells: Sequence[tuple[float, int]],
    draw: Callable[[float, int, np.random.Generator], tuple[np.ndarray, np.ndarray, np.ndarray]],
    methods: Sequence[str],
    repetitions: Callable[[int], int],
    label: str,
    scale: bool = True,
) -> dict[str, dict[str, dict[str, Any]]]:
    """Summaries of every cell (level, n), keyed ``"level,n"``.

    `repetitions` is a function of n. The seeds depend on the level and the repetition alone: coefficients (and
    covariances) are the same for every n.
    """
    warm = np.random.default_rng(0)
    x = warm.standard_normal((30, 4))
    for method in methods:
        estimate(method, x.sum(axis=1) + warm.standard_normal(30), x)
    out = {}
    for level, n in progress(cells, label):
        seed = [round(1000 * level)]
        found = simulate(lambda rng, level=level, n=n: draw(level, n, rng), methods, repetitions(n), seed, scale)
        out[f"{level:g},{n}"] = summarize(found)
    return out


def panels(
    results: dict[str, dict[str, dict[str, Any]]],
    levels: Sequence[float],
    sizes: Sequence[int],
    methods: Sequence[str],
    title: Callable[[float], str],
    errors: str = "mean",
) -> Any:
    """Rows: mean squared error of b, penalty, seconds, iterations; columns: levels.

    `errors` says what is drawn of the mean squared errors, their mean or their median over data sets.
    """
    from matplotlib.ticker import FuncFormatter, NullFormatter, NullLocator

    from benchmarks.paper_ridge.figures_common import new_figure

    rows = (
        ("mse", errors, "mean squared error of b"),
        ("lambda", "median", "penalty λ"),
        ("seconds", "median", "seconds"),
        ("iterations", "median", "iterations"),
    )
    figure, axes = new_figure(len(rows), len(levels), 2.75, 2.15, sharex="col")
    ticks = sizes[::2]
    for row, (measure, statistic, label) in enumerate(rows):
        for column, level in enumerate(levels):
            axis = axes[row, column]
            for method in methods:
                cells = [results[f"{level:g},{n}"][method][measure] for n in sizes]
                if not any(c["count"] for c in cells):
                    continue
                axis.plot(sizes, [c.get(statistic, np.nan) for c in cells], **STYLES[method].options())
                low, high = _band(cells, statistic)
                axis.fill_between(sizes, low, high, color=STYLES[method].colour, alpha=0.15, linewidth=0)
            axis.set_xscale("log")
            axis.set_yscale("log")
            axis.set_xticks(ticks)
            axis.xaxis.set_minor_locator(NullLocator())
            axis.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:,.0f}".replace(",", " ")))
            axis.yaxis.set_minor_formatter(NullFormatter())
            if row == 0:
                axis.set_title(title(level), fontsize=10)
            if column == 0:
                axis.set_ylabel(label)
            if row == len(rows) - 1:
                axis.set_xlabel("n")
        _share_y(axes[row])
        if measure == "mse":
            _frame(axes[row], results, methods, errors)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(levels))
    return figure


def _band(cells: Sequence[dict[str, float]], statistic: str) -> tuple[list[float], list[float]]:
    if statistic == "mean":
        return (
            [c.get("mean", np.nan) - 2 * c.get("se", np.nan) for c in cells],
            [c.get("mean", np.nan) + 2 * c.get("se", np.nan) for c in cells],
        )
    return [c.get("q25", np.nan) for c in cells], [c.get("q75", np.nan) for c in cells]


def _frame(
    axes: Sequence[Any], results: dict[str, dict[str, dict[str, Any]]], methods: Sequence[str], errors: str
) -> None:
    """Limits of the errors from the methods compared; what is drawn in grey may leave the panel."""
    compared = [m for m in methods if STYLES[m].colour != GREY]
    values = [cell[m]["mse"][errors] for cell in results.values() for m in compared]
    for axis in axes:
        axis.set_ylim(min(values) / 1.3, max(values) * 1.3)


def _share_y(axes: Sequence[Any]) -> None:
    low = min(a.get_ylim()[0] for a in axes)
    high = max(a.get_ylim()[1] for a in axes)
    for axis in axes:
        axis.set_ylim(low, high)
    for axis in axes[1:]:
        axis.tick_params(labelleft=False)
