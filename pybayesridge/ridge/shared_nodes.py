"""The posterior of l = log t2 of many targets by one quadrature: all have the same nodes, by matrix products.

Nodes are evenly spaced in u, with ``l = middle + width sinh(u / width)``: about evenly where the densities have their
modes, and ever farther apart in their tails, which are exponential. Where the fewest are asked for, l is the function
of u for which they are as close as the expected information on l says that densities are narrow. Their number is
doubled until the estimated error is small for every target, as in :mod:`pybayesridge.ridge.quadrature`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy

from pybayesridge._types import BoolArray, FloatArray
from pybayesridge.ridge.density import fall, on_common_grid
from pybayesridge.ridge.profile import PenaltyModel, complement, search_grid, shrinkage
from pybayesridge.ridge.quadrature import DROP, Quadrature, coarse_grid, within
from pybayesridge.ridge.spectrum import Spectrum

if TYPE_CHECKING:
    from scipy.interpolate import BSpline

CORE = 8.0
"""Nodes are about evenly spaced where a density is above its maximum less this, in logarithm."""

NARROWEST = 2.0
"""Least half width of that part."""

FIRST_SPACING = 0.5
"""Of the first rule, in log t2, where the densities have their modes."""

NEGLIGIBLE = 30.0
"""Nodes whose log weight is smaller by more than this for every target, and likewise in means of variances, are left
out."""

BEYOND = 12.0
"""With the fewest nodes, these end where a density has fallen by this from `tol`, in logarithm."""

FIRST_STEP = 1.0
"""With the fewest nodes: spacing of the first rule, in standard deviations of what is known of l."""

WIDEST, WIDENING = 0.8, 0.2
"""Where the data say nothing of l, the standard deviation that densities count with where the least mode is, and by
how much it grows with the distance from there: densities fall exponentially."""

THINNED = 4
"""With the fewest nodes: of the grid on which ends are looked for, one in so many points where densities are
exponential."""

KNOTS, DEGREE = 0.5, 5
"""Spacing in l, at most, of the points at which the expected information is computed, and degree of the spline."""


@dataclass(frozen=True, slots=True)
class _Map:
    """Where nodes are: ``l = middle + width sinh(u / width)``, u from `low` to `high`."""

    middle: float
    width: float
    low: float
    high: float

    @classmethod
    def of(cls, core: tuple[float, float], ends: tuple[float, float]) -> _Map:
        """The map of a part in which nodes are close, and of the ends."""
        middle, width = (core[0] + core[1]) / 2, max((core[1] - core[0]) / 2, NARROWEST)
        low, high = (width * float(np.arcsinh((end - middle) / width)) for end in ends)
        return cls(middle, width, low, high)

    def log_t2(self, u: FloatArray) -> FloatArray:
        """The nodes."""
        out: FloatArray = self.middle + self.width * np.sinh(u / self.width)
        return out

    def log_slope(self, u: FloatArray) -> FloatArray:
        """Log of the derivative of l in u."""
        out: FloatArray = np.log(np.cosh(u / self.width))
        return out


@dataclass(frozen=True, slots=True)
class _Paced:
    """Where the fewest nodes are: l as a spline in u, which grows by 1 for each standard deviation of l."""

    spline: BSpline
    high: float
    low: float = 0.0

    @classmethod
    def of(cls, spectrum: Spectrum, model: PenaltyModel, least: float, ends: tuple[float, float]) -> _Paced:
        """The map between the ends, of densities whose least mode is given."""
        at = np.linspace(*ends, max(int(np.ceil((ends[1] - ends[0]) / KNOTS)), DEGREE) + 1)
        kept = shrinkage(spectrum.s, at)
        information = 0.5 * (kept**2).sum(axis=1)
        if not model.likelihood.known:
            # That of l and of the log noise variance together, the latter eliminated.
            information -= 0.5 * kept.sum(axis=1) ** 2 / max(model.likelihood.count, spectrum.rank, 1)
        pace = np.sqrt(np.maximum(information, 0.0) + 1 / (WIDEST**2 + (WIDENING * (at - least)) ** 2))
        u = np.concatenate([np.zeros(1), np.cumsum((pace[1:] + pace[:-1]) / 2 * np.diff(at))])
        return cls(scipy.interpolate.make_interp_spline(u, at, k=DEGREE), float(u[-1]))

    def log_t2(self, u: FloatArray) -> FloatArray:
        """The nodes."""
        return np.asarray(self.spline(u), dtype=np.float64)

    def log_slope(self, u: FloatArray) -> FloatArray:
        """Log of the derivative of l in u."""
        out: FloatArray = np.log(self.spline(u, nu=1))
        return out


@dataclass(frozen=True, slots=True)
class _Values:
    """At the nodes u (L,): log densities in u, log variances and log R, each (L, q), and what is shrunk (L,)."""

    u: FloatArray
    density: FloatArray
    variance: FloatArray
    log_rss: FloatArray
    left: FloatArray

    @classmethod
    def at(
        cls, spectrum: Spectrum, model: PenaltyModel, where: _Map | _Paced, u: FloatArray, squares: FloatArray
    ) -> _Values:
        """The values at some points; `squares` are those of z, (r, q)."""
        log_t2 = where.log_t2(u)
        density, variance, log_rss = on_common_grid(spectrum, model, log_t2, squares)
        left = complement(spectrum.s, log_t2).sum(axis=1) / max(spectrum.rank, 1)
        return cls(u, density + where.log_slope(u)[:, None], variance, log_rss, left)

    def among(self, between: _Values) -> _Values:
        """These and the values at the points between them."""
        names = ("u", "density", "variance", "log_rss", "left")
        return _Values(*(_interleaved(getattr(self, name), getattr(between, name)) for name in names))

    def every_second(self) -> _Values:
        """Those of the rule before."""
        return _Values(self.u[::2], self.density[::2], self.variance[::2], self.log_rss[::2], self.left[::2])

    def weight(self) -> tuple[FloatArray, FloatArray]:
        """Weights (L, q), and logs of the integrals (q,)."""
        top = self.density.max(axis=0)
        weight = np.exp(self.density - top)
        total = weight.sum(axis=0)
        return weight / total, top + np.log(total * (self.u[1] - self.u[0]))


def integrate_together(
    spectrum: Spectrum, model: PenaltyModel, *, tol: float, maxiter: int, fewest: bool = False
) -> Quadrature | None:
    """As :func:`pybayesridge.ridge.quadrature.integrate`, at nodes that all targets share.

    With `fewest` nodes end sooner, and the last rule, once it converged, gives way to the first from which it differs
    by no more than `tol`, for every target; the error is that difference then.

    None where a density has so long a tail that nodes do not reach its end.
    """
    drop = BEYOND - float(np.log(tol)) if fewest else DROP
    squares = spectrum.z**2
    where = _map(spectrum, model, drop, squares, fewest=fewest)
    if where is None:
        return None
    count = int(np.ceil((where.high - where.low) / (FIRST_STEP if fewest else FIRST_SPACING))) + 1
    values = _Values.at(spectrum, model, where, np.linspace(where.low, where.high, count), squares)
    summary, error = _summary(values, where), np.full(spectrum.rss0.size, np.inf)
    before = [summary]
    for _ in range(maxiter):
        between = (values.u[1:] + values.u[:-1]) / 2
        values = values.among(_Values.at(spectrum, model, where, between, squares))
        new = _summary(values, where)
        change = np.abs(new - summary).max(axis=0)
        error, summary = np.minimum(change, 100 * change**2) + np.finfo(float).eps, new
        if (error <= tol).all():
            break
        before.append(summary)
    off = [np.abs(summary - each).max(axis=0) for each in before]
    enough = [i for i, each in enumerate(off) if (each + error <= tol).all()]
    if fewest and enough:
        error = off[enough[0]] + error
        for _ in range(len(before) - enough[0]):
            values = values.every_second()
    return _collected(spectrum, model, where, values, error, error <= tol, min(drop, NEGLIGIBLE))


def _map(
    spectrum: Spectrum, model: PenaltyModel, drop: float, squares: FloatArray, *, fewest: bool
) -> _Map | _Paced | None:
    """Where nodes have to be; None where a density is not negligible at the end of the grid on which it is tried."""
    # Twice as coarse as for a single target: no density is so narrow that it is missed, only its top is.
    features = search_grid(spectrum, model.as_density)
    grid = coarse_grid(model, features, fall(spectrum, model))[::2]
    if fewest:
        grid = _thinned(grid, features)
    found = on_common_grid(spectrum, model, grid, squares)
    density, top = found[0], found[0].max(axis=0)
    inside = np.asarray(within(spectrum, model, grid, found, top, drop).any(axis=1))
    if inside[0] or inside[-1] or not inside.any():
        return None
    core, ends = (np.flatnonzero(some) for some in ((density > top - CORE).any(axis=1), inside))
    around = [(grid[some[0] - 1], grid[some[-1] + 1]) for some in (core, ends)]
    if fewest:
        return _Paced.of(spectrum, model, float(grid[density.argmax(axis=0).min()]), around[1])
    return _Map.of(*around)


def _thinned(grid: FloatArray, features: FloatArray) -> FloatArray:
    """Points of a grid of which fewer are beyond those between which densities have their features."""
    beyond = (grid < features[0]) | (grid > features[-1])
    return grid[~beyond | (np.arange(grid.size) % THINNED == 0)]


def _interleaved(old: FloatArray, between: FloatArray) -> FloatArray:
    out = np.empty((len(old) + len(between), *old.shape[1:]))
    out[::2], out[1::2] = old, between
    return out


def _summary(values: _Values, where: _Map | _Paced) -> FloatArray:
    """Quantities to converge, (4, q): log integral; means of log t2 and of what is shrunk; the log mean variance."""
    weight, log_integral = values.weight()
    largest = values.variance.max(axis=0)
    mean_variance = largest + np.log((weight * np.exp(values.variance - largest)).sum(axis=0))
    return np.stack([log_integral, where.log_t2(values.u) @ weight, values.left @ weight, mean_variance])


def _collected(
    spectrum: Spectrum,
    model: PenaltyModel,
    where: _Map | _Paced,
    values: _Values,
    error: FloatArray,
    converged: BoolArray,
    drop: float,
) -> Quadrature:
    """The quadrature without nodes that matter to no target."""
    weight, log_integral = values.weight()
    log_t2 = where.log_t2(values.u)
    found, top = (values.density, values.variance, values.log_rss), values.density.max(axis=0)
    kept = within(spectrum, model, log_t2, found, top, drop).any(axis=1)
    nodes = np.broadcast_to(log_t2[kept, None], (int(kept.sum()), log_integral.size))
    share = weight[kept] / weight[kept].sum(axis=0)
    return Quadrature(nodes, share, log_integral, error, converged, np.exp(values.log_rss[kept]))
