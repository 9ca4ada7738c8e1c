"""Integrals over a few coordinates of a smooth density that falls on all sides: sums over the points of a lattice.

The trapezoidal rule on the whole space converges geometrically as the lattice becomes finer. Points are those near
the mode and their neighbours, as far as the density matters. Half of the points, like the black fields of a
chessboard, are a coarser lattice of the same kind: the difference of the halves tells the error, and lattices are
refined until it is small.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy
from scipy.special import logsumexp

from pybayesridge._types import BoolArray, FloatArray, IntArray

DROP = 13.0
"""Points are left out at which the log density, and likewise that times each number whose mean is to be right too, is
smaller than its maximum by more than this."""

MOST_POINTS = 40_000
"""Most points that are looked at."""

FINE = 1 << 18
"""About how many points are interpolated between those of the lattice."""

SMOOTH, PLAIN, FEW = 5, 3, 3
"""Orders of the splines that interpolate: in few coordinates, and in more than so many, where they take longer."""

NEGLIGIBLE = 1e-9
"""Cells of points with less weight are not."""

SEED = 20
"""Of shifts of points: the same data have the same answer."""

STEEP, FLAT = 1e6, 0.3
"""Bounds of the curvature of the log density that lattices are made for."""

FINER = (0.28, 0.2)
"""The last distances of the points that are tried, in posterior standard deviations."""

EARLY = 5.0
"""Fall of the log density within which the middle of a lattice is."""

FALL = 1.5
"""Logs of errors grow as about this power of 1 / distance: 1 for exponential tails, 2 for Gaussian ones."""


@dataclass(frozen=True, slots=True)
class Value:
    """A log density at a point.

    Attributes
    ----------
    log_density : float
    moments : array
        Logs of numbers whose means are to be right too.
    other : float
        A function that is interpolated with it.
    more : array
        What is kept of the point.
    """

    log_density: float
    moments: FloatArray
    other: float
    more: FloatArray


@dataclass(frozen=True, slots=True)
class Lattice:
    """Points ``origin + root @ index`` with the values there.

    Attributes
    ----------
    origin : (d,) array
    root : (d, d) array
    index : (M, d) int array
    log_density, other : (M,) arrays
    complete : bool
        Whether all points were looked at.
    looked_at : int
        Number of these.
    """

    origin: FloatArray
    root: FloatArray
    index: IntArray
    log_density: FloatArray
    other: FloatArray
    complete: bool
    looked_at: int

    @property
    def points(self) -> FloatArray:
        """(M, d)."""
        out: FloatArray = self.origin + self.index @ self.root.T
        return out

    @property
    def weight(self) -> FloatArray:
        """Sums to 1, (M,)."""
        out: FloatArray = np.exp(self.log_density - logsumexp(self.log_density))
        return out

    @property
    def log_integral(self) -> float:
        """Log of the integral of the density."""
        return float(logsumexp(self.log_density) + np.linalg.slogdet(self.root)[1])

    @property
    def black(self) -> BoolArray:
        """Which points belong to one of the halves, (M,)."""
        out: BoolArray = self.index.sum(axis=1) % 2 == 0
        return out

    def error(self, functions: FloatArray) -> float:
        """Largest error of the log integral, and of means of functions (M, J) in their standard deviations."""
        change = self._change(functions, self.black)
        # Errors of Gaussians fall as exp(-c / step^2), and the halves have min(d, 4) / 4 times the c of the whole.
        return min(change, change ** (3.5 / min(self.index.shape[1], 4)))

    def _change(self, functions: FloatArray, black: BoolArray) -> float:
        """Largest difference between a half and the other, of the log integral and of means of functions."""
        weight = self.weight
        if black.all() or not black.any():
            return np.inf
        halves = [float(weight[black].sum()), float(weight[~black].sum())]
        means = [weight[part] @ functions[part] / half for part, half in zip((black, ~black), halves, strict=True)]
        mean = weight @ functions
        spread = np.sqrt(np.maximum(weight @ functions**2 - mean**2, 1e-20 * weight @ functions**2) + 1e-300)
        return max(abs(float(np.log(halves[0] / halves[1]))), float((np.abs(means[0] - means[1]) / spread).max()))

    def errors_along_axes(self, functions: FloatArray) -> FloatArray:
        """The same from halves with every second layer along each axis, (d,), also where one axis is much rougher.

        Characteristic functions at twice the frequency, the errors of the whole, are squares of those of the halves
        for exponential tails and fourth powers for Gaussian ones: a third power is between these.
        """
        changes = np.array([self._change(functions, axis % 2 == 0) for axis in self.index.T])
        out: FloatArray = np.minimum(changes, changes**3)
        return out

    def largest_error(self, functions: FloatArray) -> float:
        """The largest of these."""
        return max(self.error(functions), float(self.errors_along_axes(functions).max()))

    def changed(self, change: FloatArray) -> Lattice:
        """The lattice of a density whose logs at the points differ by so much, (M,)."""
        return replace(self, log_density=self.log_density + change)

    def fine(self, count: int = FINE) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Points (F, d) around those of the lattice that matter, their weights (F,), and the other function (F,).

        Interpolated by splines in the log density; F is about `count`.
        """
        keep = np.flatnonzero(self.weight > NEGLIGIBLE)
        low = self.index.min(axis=0) - 3
        shape = tuple(self.index.max(axis=0) - low + 4)
        log_density = _filled(self.index - low, self.log_density, shape, bend=True)
        other = _filled(self.index - low, self.other, shape, bend=False)
        d = len(shape)
        within = 1 << int(np.ceil(np.log2(max(1, count // keep.size))))
        inside = scipy.stats.qmc.Sobol(d, scramble=False).random(within) + 0.5 / within
        # Each cell has them shifted by other numbers, so that no coordinate has steps.
        shift = scipy.stats.qmc.Sobol(d, seed=np.random.default_rng(SEED)).random(1 << int(keep.size).bit_length())
        offset = (inside + shift[: keep.size, None, :]) % 1.0 - 0.5
        place = (self.index[keep][:, None, :] + offset).reshape(-1, d)
        values = [
            scipy.ndimage.map_coordinates(table, (place - low).T, order=SMOOTH if d <= FEW else PLAIN, mode="nearest")
            for table in (log_density, other)
        ]
        weight = np.exp(values[0] - logsumexp(values[0]))
        return self.origin + place @ self.root.T, weight, values[1]


def _filled(index: IntArray, values: FloatArray, shape: tuple[int, ...], *, bend: bool) -> FloatArray:
    """A table with the values at some points, and elsewhere what goes on from them, as of a Gaussian or straight."""
    table = np.full(shape, np.nan)
    table[tuple(index.T)] = values
    curvature = float(np.median(_second_differences(table))) if bend else 0.0
    for _ in range(sum(shape)):
        gone = np.isnan(table)
        if not gone.any():
            break
        total, count = np.zeros(shape), np.zeros(shape)
        for axis in range(len(shape)):
            for way in (1, -1):
                near, far = _shifted(table, axis, way), _shifted(table, axis, 2 * way)
                known = gone & ~np.isnan(near)
                slope = np.where(np.isnan(far), 0.0, near - far)
                # Tails are steep on one side and straight on the other: each bends as it has bent before.
                own = near - 2 * far + _shifted(table, axis, 3 * way)
                bent = np.where(np.isnan(own), curvature, np.minimum(own, 0.0)) if bend else 0.0
                total[known] += (near + slope + bent)[known]
                count += known
        table = np.where(gone & (count > 0), total / np.maximum(count, 1), table)
    return table


def _second_differences(table: FloatArray) -> FloatArray:
    """All second differences along the axes of a table with gaps; 0 if there are none."""
    found = [_shifted(table, axis, 1) + _shifted(table, axis, -1) - 2 * table for axis in range(table.ndim)]
    each = np.concatenate([part[~np.isnan(part)] for part in found])
    return each if each.size else np.zeros(1)


def _shifted(table: FloatArray, axis: int, by: int) -> FloatArray:
    """The values `by` places further along an axis, NaN beyond its end."""
    out = np.full(table.shape, np.nan)
    here: list[Any] = [slice(None)] * table.ndim
    there = list(here)
    here[axis] = slice(max(-by, 0), table.shape[axis] - max(by, 0))
    there[axis] = slice(max(by, 0), table.shape[axis] - max(-by, 0))
    out[tuple(here)] = table[tuple(there)]
    return out


def covariance_at(hessian: FloatArray) -> FloatArray:
    """The covariance of the Gaussian with minus this inverse covariance, bounded, (d, d)."""
    values, vectors = np.linalg.eigh(-hessian)
    spread = 1 / np.sqrt(np.clip(values, FLAT, STEEP))
    out: FloatArray = (vectors * spread**2) @ vectors.T
    return out


def root_of(covariance: FloatArray, order: Sequence[int]) -> FloatArray:
    """A root of a covariance, (d, d): the last coordinates of an order change without those before them."""
    out = np.empty_like(covariance)
    out[order] = np.linalg.cholesky(covariance[np.ix_(order, order)])
    return out


Found = dict[tuple[int, ...], Value]
"""The density at places of a lattice."""


def grown(
    density: Callable[[FloatArray], Value],
    origin: FloatArray,
    root: FloatArray,
    drop: float = DROP,
    spare: float = np.inf,
    found: Found | None = None,
) -> tuple[Lattice, FloatArray]:
    """The lattice of a density with a mode near `origin`, its points `root` (d, d) apart; what is kept of them.

    Points are not looked at where the two before them on a line foretell, for a log density that is straight there,
    one that is smaller than what matters by more than `spare`. The tails of such densities are concave or straight.
    Places that were `found` with a smaller drop are taken from there, and all are added.
    """
    d = origin.size
    steps = np.vstack([np.eye(d, dtype=np.int64), -np.eye(d, dtype=np.int64)])
    found = {} if found is None else found
    top, tail = -np.inf, np.array(-np.inf)
    for value in found.values():
        top, tail = max(top, value.log_density), np.maximum(tail, value.log_density + value.moments)
    places = list(found)
    front = _front(places, found, steps, top, tail, drop, spare) if found else [(0,) * d]
    while front and len(found) < MOST_POINTS:
        points = np.array([origin + root @ np.array(place) for place in front])
        # Some densities are computed at many points in less time.
        many = getattr(density, "at_all", None)
        values = [density(point) for point in points] if many is None else many(points)
        for place, value in zip(front, values, strict=True):
            found[place] = value
            top, tail = max(top, value.log_density), np.maximum(tail, value.log_density + value.moments)
        front = _front(front, found, steps, top, tail, drop, spare)
    kept = {place: value for place, value in found.items() if _matters(value, top, tail, drop)}
    lattice = Lattice(
        origin,
        root,
        np.array(list(kept), dtype=np.int64),
        np.array([value.log_density for value in kept.values()]),
        np.array([value.other for value in kept.values()]),
        not front,
        len(found),
    )
    return lattice, np.stack([value.more for value in kept.values()])


def _front(
    places: list[tuple[int, ...]],
    found: Found,
    steps: IntArray,
    top: float,
    tail: FloatArray,
    drop: float,
    spare: float,
) -> list[tuple[int, ...]]:
    """The neighbours of the places that matter at which the density is not known."""
    some = [place for place in places if _matters(found[place], top, tail, drop)]
    near = {tuple(int(i) for i in np.array(place) + step) for place in some for step in steps}
    new = sorted(near - found.keys())
    if np.isinf(spare):
        return new
    return [place for place in new if _promising(place, found, steps, top, tail, drop + spare)]


def _matters(value: Value, top: float, tail: FloatArray, drop: float) -> bool:
    in_tail = value.log_density + value.moments > tail - drop
    return value.log_density > top - drop or bool(in_tail.any())


def _promising(
    place: tuple[int, ...],
    found: Found,
    steps: IntArray,
    top: float,
    tail: FloatArray,
    drop: float,
) -> bool:
    """Whether the density may matter at a place, as straight lines through the two places before it foretell."""
    at = np.array(place)
    for step in steps:
        near, far = found.get(tuple((at + step).tolist())), found.get(tuple((at + 2 * step).tolist()))
        if near is None or far is None:
            continue
        foretold = replace(
            near, log_density=2 * near.log_density - far.log_density, moments=2 * near.moments - far.moments
        )
        if not _matters(foretold, top, tail, drop):
            return False
    return True


def next_step(ladder: FloatArray, at: int, error: float, tol: float) -> int:
    """The position on a ladder of the next distance."""
    return at + 1


def foretold_step(ladder: FloatArray, at: int, error: float, tol: float) -> int:
    """The position of the next distance at which an error is foretold to be small enough, from that at another.

    Where that has been wrong before it is at least two further.
    """
    foretold = min(error, 0.5) ** ((ladder[at] / ladder[at + 1 :]) ** FALL)
    return min(at + max(1 + int((foretold > tol).sum()), 1 + (at > 0)), ladder.size - 1)


@dataclass(frozen=True, slots=True)
class Refinement:
    """How a lattice is refined until it is fine enough.

    Attributes
    ----------
    ladder : tuple of float
        Distances of the points that are tried, the largest first, in posterior standard deviations.
    drop : float
        Fall of the log density within which the points are.
    early : bool
        Whether the middle of the lattice, within a fall of :data:`EARLY`, tells at first how far apart the points may
        be along each axis.
    alike : int
        Position on the ladder up to which all axes are refined alike; from there on those whose halves differ.
    step : callable
        The next position of an axis, from the ladder, its position, its error and the tolerance: :func:`next_step` or
        another function with its arguments. Beyond the end of the ladder is its end.
    spare : float
        See :func:`grown`.
    along_axes : float
        Errors of means relative to what halves along the axes tell.
    begin : tuple of int
        Positions on the ladder that are known to do, or nearly, for each axis.
    """

    ladder: tuple[float, ...]
    drop: float = DROP
    early: bool = True
    alike: int = 0
    step: Callable[[FloatArray, int, float, float], int] = next_step
    spare: float = np.inf
    along_axes: float = 1.0
    begin: tuple[int, ...] = ()


def refined(
    density: Callable[[FloatArray], Value],
    origin: FloatArray,
    root: FloatArray,
    functions: Callable[[Lattice, FloatArray], FloatArray],
    tol: float,
    how: Refinement,
) -> tuple[Lattice, FloatArray, float, int]:
    """A lattice that is fine enough, what is kept at its points, its error, and how often the density was computed.

    Parameters
    ----------
    density, origin, root
        See :func:`grown`; here the root is that of the posterior covariance, about.
    functions : callable
        From a lattice and what is kept at its points (M, …) to functions (M, J) whose means are to be accurate.
    tol : float
        Of :meth:`Lattice.error` and, for each axis, of :meth:`Lattice.errors_along_axes`.
    how : Refinement
    """
    ladder = np.array(how.ladder)
    last, early, count, found = ladder.size - 1, how.early and not how.begin, 0, Found()
    at = np.array(how.begin or (0,) * origin.size, dtype=np.intp)
    while True:  # at each turn some axes take a finer step of the ladder, or it is the whole lattice after its middle
        drop = EARLY if early else how.drop
        lattice, kept = grown(density, origin, root * ladder[at], drop, how.spare, found)
        values = functions(lattice, kept)
        along = how.along_axes * lattice.errors_along_axes(values)
        # The edge of the middle is no error of its axes.
        error = float(along.max()) if early else max(lattice.error(values), float(along.max()))
        rough = along > tol
        if at.max() < how.alike or not rough.any():
            rough[:] = True
        rough &= at < last
        if error > tol and rough.any() and lattice.complete:
            for axis in np.flatnonzero(rough).tolist():
                at[axis] = min(how.step(ladder, int(at[axis]), float(along[axis]), tol), last)
            count, found = count + len(found), Found()
        elif early:
            early = False
        else:
            return lattice, kept, error, count + len(found)
