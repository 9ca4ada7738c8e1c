"""The export of the variances of bands: standard deviations, shares and correlations with distribution functions.

The posterior of the coefficients beside them is that of :mod:`pybayesridge.bands.arrays`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.interpolate import PchipInterpolator
from scipy.special import gammaincc, ndtr, ndtri

from pybayesridge._types import FloatArray
from pybayesridge.bands.components import VarianceGrid, binned
from pybayesridge.bands.mixed_components import MixedGrid

if TYPE_CHECKING:
    from pybayesridge.results.bands import BandRidgeResults
    from pybayesridge.results.generalized_bands import GeneralizedBandRidgeResults

REACH = 5.2
"""The outermost points of a tabulated distribution function, in standard deviations of a normal one."""

STEP = 0.1
"""Most that two neighbouring points lie apart on that scale: a cubic errs by some 1e-7 of a deviation."""

NEAR, SHORT = 0.01, 0.1
"""Points nearer than this on that scale may lie farther apart than `SHORT`, in logs: little lies between."""

APART, MOST = 2e-4, 1200
"""Points are added between two where a cubic errs by more than this on that scale, up to so many in all: the law of a
share is a sum over points, with bends between them."""

SCORES = np.linspace(-REACH, REACH, 521)
"""Normal quantiles of the probabilities at which laws are tabulated that are known by weighted points."""

CERTAIN = 1 - 1e-12
"""Largest share, and largest correlation, whose logit or inverse hyperbolic tangent is tabulated."""

START = 65
"""Points with which a table begins."""

LEAST = 1e-300
"""Smaller values have this one's logarithm."""

MOST_HALVINGS = 40
"""Most times that the steps of a table are halved."""

Below = Callable[[FloatArray], FloatArray]
"""A distribution function, of many values at once."""


@dataclass(frozen=True, slots=True)
class _Law:
    """The posterior of a quantity of one target, on a scale on which it is smooth.

    Its distribution function is `below`, or that between points with `scores`.
    """

    quantity: str
    band: str
    mean: float
    sd: float
    little: float
    below: Below | None
    start: float
    width: float
    points: FloatArray | None = None

    def table(self) -> tuple[FloatArray, FloatArray]:
        """Points, and the normal quantiles of the probabilities up to them; one point without either."""
        if self.points is not None:
            return self.points, SCORES
        if self.below is None:
            return np.array([self.start]), np.zeros(1)
        return tabulated(self.below, self.start, self.width)


def components(results: BandRidgeResults | GeneralizedBandRidgeResults) -> dict[str, Any]:
    """Standard deviation and share of each band, correlations and the noise variance, with distribution functions."""
    targets = [_laws(results, i) for i in range(len(results.model.data.targets))]
    tables = [[law.table() for law in laws] for laws in targets]
    first = targets[0]
    return {
        "quantity": [law.quantity for law in first],
        "band": [law.band for law in first],
        **{
            name: np.array([[getattr(law, name) for law in laws] for laws in targets]).T
            for name in ("mean", "sd", "little")
        },
        "points": np.concatenate([points for each in tables for points, _ in each]),
        "scores": np.concatenate([scores for each in tables for _, scores in each]),
        "sizes": np.array([[float(points.size) for points, _ in each] for each in tables]).T,
    }


def _laws(results: BandRidgeResults | GeneralizedBandRidgeResults, target: int) -> list[_Law]:
    """Of one target: logs of variances, logits of shares."""
    grid, none = results.variance_grid(target), np.zeros(0)
    if isinstance(grid, MixedGrid):
        return _mixed_laws(results, grid)
    assert isinstance(grid, VarianceGrid)
    out = []
    for k, name in enumerate(results.bands.names):
        mean, _, sd = grid.sd(k, none)
        share, _, little = grid.shares(k, none)
        below, start, width = _of_band(grid, k)
        out.append(_Law("sd", name, mean, sd, np.nan, below, start, width))
        with np.errstate(divide="ignore"):
            at = np.log(share) - np.log1p(-share)
        of_share = None if grid.totals is None else _below_share(grid, k)
        out.append(_Law("share", name, share, np.nan, little, of_share, float(at), 1.0))
    mean, _ = grid.noise(none)
    log_scale2 = np.log(grid.scale2)
    below, start, width = _of_variance(log_scale2, grid.weight, grid.df)
    return [*out, _Law("sigma2", "", mean, np.nan, np.nan, below, start, width)]


def _mixed_laws(results: BandRidgeResults | GeneralizedBandRidgeResults, grid: MixedGrid) -> list[_Law]:
    """The same of weighted points, with the inverse hyperbolic tangents of correlations."""
    at, none, variances = ndtr(SCORES), np.zeros(0), grid.variances
    out = []
    for k, name in enumerate(results.bands.names):
        mean, quantiles, sd = grid.sd(k, none if _is_smooth(grid, k) else at)
        if _is_smooth(grid, k):
            out.append(_Law("sd", name, mean, sd, np.nan, *_of_band(variances, k)))
        else:
            out.append(_of_points("sd", name, (mean, sd, np.nan), 2 * np.log(np.maximum(quantiles, LEAST))))
        share, quantiles, little = grid.shares(k, at)
        out.append(_of_points("share", name, (share, np.nan, little), _logit(quantiles)))
    for name, (mean, quantiles, sd) in zip(results.correlation_names, grid.correlations_at(at), strict=True):
        limits = np.clip(quantiles, -CERTAIN, CERTAIN)
        out.append(_of_points("correlation", name, (mean, sd, np.nan), np.arctanh(limits)))
    if results.model.distribution.has_noise:
        law = _of_variance(np.log(variances.scale2), variances.weight, variances.df)
        out.append(_Law("sigma2", "", grid.noise(none)[0], np.nan, np.nan, *law))
    return out


def _is_smooth(grid: MixedGrid, band: int) -> bool:
    """Whether the noise makes the law of the variance of a band smooth."""
    return bool(np.isfinite(grid.variances.df) and np.isfinite(grid.log_t[:, band]).all())


def _of_points(quantity: str, band: str, numbers: tuple[float, float, float], points: FloatArray) -> _Law:
    """A law by its quantiles at :data:`SCORES`; `numbers` are mean, standard deviation and what is little."""
    mean, sd, little = numbers
    if points[0] == points[-1]:
        return _Law(quantity, band, mean, sd, little, None, float(points[0]), 0.0)
    return _Law(quantity, band, mean, sd, little, None, 0.0, 0.0, points)


def _logit(share: FloatArray) -> FloatArray:
    inside = np.clip(share, LEAST, CERTAIN)
    return np.asarray(np.log(inside) - np.log1p(-inside))


def _of_band(grid: VarianceGrid, band: int) -> tuple[Below | None, float, float]:
    """The distribution function of the log of a band's variance, a point of it and its width."""
    log_scale2 = grid.log_t[:, band] + np.log(grid.scale2)
    if grid.totals is None or np.isfinite(grid.df):
        return _of_variance(log_scale2, grid.weight, grid.df)
    totals, share = grid.totals, grid.share[0]
    # What is left of the log of the variance without those of the band's share and the total.
    all_bands = share.sum()
    unit = float(log_scale2[0] - np.log(all_bands) + np.log1p(-all_bands) - np.log(share[band] / all_bands))
    log_phi = np.log(totals.shares[:, band])
    return (
        lambda x: np.array([totals.below(one - unit - log_phi) for one in x.tolist()]),
        float(grid.weight @ log_scale2),
        1.0,
    )


def _below_share(grid: VarianceGrid, band: int) -> Below:
    """The distribution function of the logit of a band's share ``phi w / (1 + w)``."""
    totals = grid.totals
    assert totals is not None
    phi = totals.shares[:, band]

    def below(x: FloatArray) -> FloatArray:
        out = []
        for share in (1 / (1 + np.exp(-x))).tolist():
            rest = phi - share
            with np.errstate(divide="ignore"):
                at = np.where(rest > 0, np.log(share) - np.log(np.where(rest > 0, rest, 1.0)), np.inf)
            out.append(totals.below(at))
        return np.array(out)

    return below


def _of_variance(log_scale2: FloatArray, weight: FloatArray, df: float) -> tuple[Below | None, float, float]:
    """The same of a variance that is ``df scale2`` over a chi-squared variate."""
    start = float(weight @ log_scale2) if weight.size > 1 else float(log_scale2[0])
    if np.isinf(df):
        return None, start, 0.0
    points, mass = binned(log_scale2, weight)
    points, mass = points[mass > 0], mass[mass > 0]
    half = df / 2
    return lambda x: gammaincc(half, half * np.exp(points - x[:, None])) @ mass, start, float(1 + 2 / np.sqrt(half))


def tabulated(below: Below, start: float, width: float) -> tuple[FloatArray, FloatArray]:
    """A distribution function as points and normal quantiles of its values, close enough to interpolate.

    Parameters
    ----------
    below : callable
        Increasing and smooth.
    start, width : float
        Where it begins to look, and how far.

    Returns
    -------
    points, scores : arrays
        Both increase; the scores from about -:data:`REACH` to :data:`REACH`.
    """
    low, high, ends = start - width, start + width, ndtr(np.array([-REACH, REACH]))
    for _ in range(MOST_HALVINGS):
        inside = below(np.array([low, high]))
        if inside[0] <= ends[0] and inside[1] >= ends[1]:
            break
        low, high = low - (inside[0] > ends[0]) * width, high + (inside[1] < ends[1]) * width
        width *= 2
    points = np.linspace(low, high, START)
    scores = _scores(below(points))
    for _ in range(MOST_HALVINGS):
        apart = np.diff(scores)
        wide = np.flatnonzero((apart > STEP) | ((apart > NEAR) & (np.diff(points) > SHORT)))
        if not wide.size:
            break
        between = (points[wide] + points[wide + 1]) / 2
        points, scores = np.insert(points, wide + 1, between), np.insert(scores, wide + 1, _scores(below(between)))
    wide = np.arange(points.size - 1)[np.diff(scores) > APART]
    while wide.size and points.size + wide.size <= MOST:
        between = (points[wide] + points[wide + 1]) / 2
        found = _scores(below(between))
        bent = np.abs(PchipInterpolator(points, scores)(between) - found) > APART
        points, scores = np.insert(points, wide + 1, between), np.insert(scores, wide + 1, found)
        first = (wide + np.arange(wide.size))[bent]
        wide = np.sort(np.concatenate([first, first + 1]))
    # Of those in a tail only the last counts; where rounding errors show, the function does not increase.
    keep = np.concatenate([np.diff(scores) > 0, [True]]) & (np.maximum.accumulate(scores) == scores)
    keep &= (scores < REACH) | (np.arange(scores.size) == np.argmax(scores >= REACH))
    return points[keep], scores[keep]


def _scores(probabilities: FloatArray) -> FloatArray:
    out: FloatArray = np.clip(ndtri(np.clip(probabilities, 0.0, 1.0)), -REACH, REACH)
    return out
