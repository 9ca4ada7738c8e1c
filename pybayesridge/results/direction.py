"""Directions of coefficients, and statements on several contrasts together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from pybayesridge._types import ArrayLike, FloatArray, IntArray, RandomLike
from pybayesridge.ep.posterior import SelectionPosterior
from pybayesridge.quantile_tables import NO_ROW_SPACE
from pybayesridge.results.arguments import target_position
from pybayesridge.results.contrast import combined, read_contrasts
from pybayesridge.ridge.posterior import RidgePosterior
from pybayesridge.selection.posterior import ExactPosterior

if TYPE_CHECKING:
    from narwhals.typing import IntoDataFrame

    from pybayesridge.results.base import LinearResults

HEAD = "P(>0)"
"""Head of the column of a summary."""

DIRECTION = f"{HEAD} is the posterior probability that the coefficient is positive."
"""The note to it."""

ELEMENTS = 1 << 22
"""Most numbers in a block of weights of coefficients."""

DRAWS, FEWER, MANY = 20_000, 4_000, 1_000
"""Draws for the probability of an ellipsoid, and those of fits with so many coefficients."""

BLOCK = 1_000
"""Draws of all coefficients that are held at once."""

DEPENDENT = 1e-9
"""Smaller eigenvalues of the correlations of contrasts, relative to the largest, are zero but for rounding."""


def probabilities_positive(res: LinearResults, positions: Sequence[int] | IntArray, target: int) -> FloatArray:
    """Posterior probability that each of some coefficients is positive, (m,)."""
    if not res.has_joint_posterior:
        raise ValueError(NO_ROW_SPACE.format(what="the probability that a coefficient is positive"))
    at = np.asarray(positions, dtype=np.intp)
    k = len(res.model.exog_names)
    step = max(1, ELEMENTS // k)
    parts = [np.zeros(0)]
    for start in range(0, at.size, step):
        some = at[start : start + step]
        weights = np.zeros((some.size, k))
        weights[np.arange(some.size), some] = 1.0
        parts.append(combined(res, weights, np.zeros(some.size), 0.05, target).positive)
    return np.concatenate(parts)


def every_probability_positive(res: LinearResults) -> FloatArray:
    """Posterior probability that each coefficient is positive, for each target, (k, q)."""
    posterior, k = res.posterior, len(res.model.exog_names)
    if isinstance(posterior, RidgePosterior):
        return res.model.scatter(*posterior.positive(), posterior.design)
    return np.stack([probabilities_positive(res, range(k), i) for i in range(len(res.model.data.targets))], axis=1)


def joint_contrast(
    res: LinearResults,
    contrasts: str | Sequence[str] | Mapping[str, str] | ArrayLike | pd.Series | IntoDataFrame,
    *,
    target: str | int | None = None,
    rng: RandomLike = 0,
) -> pd.Series:
    """Posterior statement on several contrasts together, such as whether all can be zero.

    Parameters
    ----------
    contrasts : str, sequence of str, dict, array-like, Series or frame
        As for :meth:`contrast`.
    target : str or int, optional
        Which target, by name or position; needed where there are several.
    rng : numpy.random.Generator, int or None
        `content` is a share of 20,000 draws from the posterior (of 4,000 if there are 1,000 coefficients or more), by
        default the same at each call.

    Returns
    -------
    Series
        For a ridge ``content``: the posterior probability of the smallest ellipsoid around the posterior mean, with
        axes by the posterior covariance, that contains zero. Near 1 zero is far out; a credible ellipsoid of
        probability 0.95 contains zero if the content is at most 0.95. ``mcse`` is its Monte Carlo standard error.
        For ``SpikeSlab.fit("exact")`` ``prob_zero``: the posterior probability that all contrasts are exactly zero,
        by the sets of columns that were kept.

    Raises
    ------
    ValueError
        For a contrast as in :meth:`contrast`; for SpikeSlab by expectation propagation, which has no joint
        probabilities of sets; if the posterior has no covariance.

    Examples
    --------
    >>> import statsmodels.api as sm
    >>> from pybayesridge import BayesRidge
    >>> longley = sm.datasets.longley.load_pandas().data
    >>> res = BayesRidge.from_formula("TOTEMP ~ GNP + UNEMP + ARMED", longley).fit()
    >>> res.joint_contrast("UNEMP, ARMED").round(2).to_dict()
    {'content': 0.98, 'mcse': 0.0}
    """
    i = target_position(res.model.data.targets, target, "joint_contrast")
    if not res.has_joint_posterior:
        raise ValueError(NO_ROW_SPACE.format(what="a contrast"))
    weights, value, _ = read_contrasts(contrasts, list(res.model.exog_names))
    posterior = res.posterior
    if isinstance(posterior, SelectionPosterior):
        raise ValueError("joint_contrast() of a SpikeSlab needs the joint posterior of the columns: use fit('exact')")
    if isinstance(posterior, ExactPosterior):
        of_z, penalized = res.model.positions(posterior.design)
        return pd.Series({"prob_zero": posterior.rows_all_at(weights[:, penalized], weights[:, of_z], value)})
    mean, covariance = _moments(res, weights, value, i)
    whitened = _whitening(covariance)
    zero = whitened @ mean
    if not np.allclose(
        covariance @ (whitened.T @ zero), mean, rtol=0, atol=1e-6 * np.sqrt(np.diag(covariance)).max()
    ):
        return pd.Series({"content": 1.0, "mcse": 0.0})
    generator, inside = np.random.default_rng(rng), 0
    draws = DRAWS if len(res.model.exog_names) < MANY else FEWER
    for _ in range(draws // BLOCK):
        drawn = res.sample(BLOCK, generator)
        b = drawn if res.model.one_target else drawn[res.model.data.targets[i]]
        distance = (b.to_numpy() @ weights.T - value - mean) @ whitened.T
        inside += int(((distance**2).sum(axis=1) <= (zero**2).sum()).sum())
    share = (inside + 1) / (draws + 2)  # which is neither 0 nor 1
    return pd.Series({"content": inside / draws, "mcse": float(np.sqrt(share * (1 - share) / draws))})


def _moments(
    res: LinearResults, weights: FloatArray, value: FloatArray, target: int
) -> tuple[FloatArray, FloatArray]:
    """Posterior mean (m,) and covariance (m, m) of contrasts: variances of their sums and differences."""
    m = len(weights)
    first, second = np.triu_indices(m)
    both = np.vstack([weights, weights[first] + weights[second], weights[first] - weights[second]])
    answer = combined(res, both, np.zeros(len(both)), 0.05, target)
    if not (np.isfinite(answer.mean).all() and np.isfinite(answer.sd).all()):
        raise ValueError(
            "the posterior has no covariance: its tail is too heavy. Use contrast(), which has quantiles"
        )
    variance = answer.sd[m:] ** 2
    plus, minus = np.split(variance, 2)
    covariance = np.zeros((m, m))
    covariance[first, second] = covariance[second, first] = (plus - minus) / 4
    return answer.mean[:m] - value, covariance


def _whitening(covariance: FloatArray) -> FloatArray:
    """Rows that make independent unit variables of contrasts, (rank, m)."""
    sd = np.sqrt(np.diag(covariance))
    unit = np.where(sd > 0, sd, 1.0)
    size, vectors = np.linalg.eigh(covariance / unit[:, None] / unit)
    keep = size > DEPENDENT * size.max()
    out: FloatArray = (vectors[:, keep] / np.sqrt(size[keep])).T / unit
    return out
