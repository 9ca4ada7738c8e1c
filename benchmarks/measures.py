"""How good a fit is, in small functions: means with standard errors, densities, coverage, calibration."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special, stats

BINS = (0.0, 0.05, 0.2, 0.5, 0.8, 1.0)
"""Edges of the bins in which inclusion probabilities are compared with the share of true variables."""
LEVEL = 0.95
"""Probability of the intervals."""
LEAST_PROBABILITY = 1e-6
"""Of the log score, which one sure error would make infinite."""
SMALLEST = 1e-12
"""Probabilities are moved this far from 0 and 1 before a divergence is taken."""


def mean_error(values: Any) -> tuple[float, float]:
    """Mean and its standard error over data sets, nan left out; the error is nan for fewer than two values."""
    found = np.asarray(values, dtype=float)
    found = found[~np.isnan(found)]
    if found.size == 0:
        return float("nan"), float("nan")
    error = found.std(ddof=1) / np.sqrt(found.size) if found.size > 1 else float("nan")
    return float(found.mean()), float(error)


def show(values: Any, digits: int = 3, sign: bool = False) -> str:
    """Mean ± standard error as text."""
    mean, error = mean_error(values)
    if np.isnan(mean):
        return "-"
    number = f"{mean:+.{digits}f}" if sign else f"{mean:.{digits}f}"
    return number if np.isnan(error) else f"{number} ± {error:.{digits}f}"


def r_squared(y: np.ndarray, mean: np.ndarray) -> float:
    """Share of the test responses' variance that is predicted."""
    return float(1.0 - np.mean((y - mean) ** 2) / np.var(y))


def log_density(y: np.ndarray, mean: np.ndarray, sd: np.ndarray) -> float:
    """Mean log density of normals with these means and standard deviations: the same score for every method."""
    return float(np.mean(stats.norm.logpdf(y, mean, sd)))


def coverage(truth: np.ndarray, intervals: np.ndarray) -> float:
    """Share of (m, 2) intervals, ends included, that hold the truth; nan for none."""
    if len(truth) == 0:
        return float("nan")
    return float(np.mean((intervals[:, 0] <= truth) & (truth <= intervals[:, 1])))


def normal_intervals(mean: np.ndarray, sd: np.ndarray) -> np.ndarray:
    """Equal-tailed intervals of normals, (m, 2)."""
    half = stats.norm.ppf(0.5 + LEVEL / 2) * np.asarray(sd)
    return np.column_stack([mean - half, mean + half])


def average_precision(true: np.ndarray, score: np.ndarray) -> float:
    """Area under precision and recall: the precision at each true variable's rank, ties shared, on average."""
    order = np.argsort(-score, kind="stable")
    sorted_score, hits = score[order], np.cumsum(true[order])
    last = np.r_[np.flatnonzero(np.diff(sorted_score)), score.size - 1]
    precision, recall = hits[last] / (last + 1), hits[last] / hits[-1]
    return float(np.sum(np.diff(np.r_[0.0, recall]) * precision))


def brier(true: np.ndarray, prob: np.ndarray) -> float:
    """Mean squared difference of probability and truth."""
    return float(np.mean((prob - true) ** 2))


def log_score(true: np.ndarray, prob: np.ndarray) -> float:
    """Mean of minus the log probability of what is true; probabilities are bounded away from 0 and 1."""
    clipped = np.clip(prob, LEAST_PROBABILITY, 1 - LEAST_PROBABILITY)
    return float(-np.mean(np.log(np.where(true, clipped, 1 - clipped))))


def reliability(true: np.ndarray, prob: np.ndarray) -> list[dict[str, float]]:
    """For each bin: how many columns, their mean probability, and the share of true variables among them."""
    at = np.clip(np.searchsorted(BINS, prob, side="right") - 1, 0, len(BINS) - 2)
    out = []
    for b in range(len(BINS) - 1):
        inside = at == b
        count = int(inside.sum())
        out.append(
            {
                "columns": count,
                "mean_prob": float(prob[inside].mean()) if count else float("nan"),
                "share_true": float(true[inside].mean()) if count else float("nan"),
            }
        )
    return out


def bernoulli_divergence(exact: np.ndarray, found: np.ndarray) -> float:
    """Kullback-Leibler divergence of independent inclusion indicators from the exact ones, summed over columns."""
    p, q = (np.clip(a, SMALLEST, 1 - SMALLEST) for a in (exact, found))
    return float(np.sum(special.rel_entr(p, q) + special.rel_entr(1 - p, 1 - q)))


def normal_divergence(mean: np.ndarray, var: np.ndarray, mean_found: np.ndarray, var_found: np.ndarray) -> float:
    """Divergence of normals from those with the exact marginals' moments, summed over columns."""
    ratio = var / var_found
    return float(0.5 * np.sum(ratio - 1.0 - np.log(ratio) + (mean - mean_found) ** 2 / var_found))
