"""Scores of expected counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pybayesridge._types import FloatArray

if TYPE_CHECKING:
    from pybayesridge.poisson.likelihood import Poisson


def log_score(likelihood: Poisson, mean: FloatArray) -> float:
    """Mean log probability of a count over all copies of the rows."""
    total = likelihood.copies @ (likelihood.tops() - 0.5 * likelihood.deviances(mean))
    return float(total / likelihood.copies.sum())


def deviance(likelihood: Poisson, mean: FloatArray) -> float:
    """Deviance of expected counts (n,), over all copies."""
    return float(likelihood.copies @ likelihood.deviances(mean))


def deviance_explained(likelihood: Poisson, mean: FloatArray) -> float:
    """One minus the deviance relative to that of the overall rate; nan if that fits exactly."""
    rate = likelihood.total / float(likelihood.copies @ likelihood.exposure)
    null = deviance(likelihood, likelihood.of_rows(np.full(likelihood.n, rate)))
    return 1.0 - deviance(likelihood, mean) / null if null > 0 else float("nan")
