"""Sets of columns whose posterior probability is known, and their weights and predictions without a row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.special import logsumexp

from pybayesridge._types import AnyArray, BoolArray, FloatArray, IntArray
from pybayesridge.posterior.left_out import Densities, Noise, densities
from pybayesridge.selection.collapsed import (
    AT_ONCE,
    SetSpectrum,
    log_joint,
    log_joints_by_size,
    of_left_over,
    spectra_by_size,
    spectrum,
)
from pybayesridge.selection.grid import MOST_SOLVED, RESOLVED, Grid, further
from pybayesridge.selection.problem import Problem
from pybayesridge.selection.result import Exact
from pybayesridge.selection.traces import EVIDENCE_SETS, log_joints

NODES = 6
"""Nodes of log g at which neighbours are looked at."""

SAME_NODE = 1e-9
"""Differences of log g that are rounding."""

NO_DIRECTION = 1e-10
"""Of squared lengths of directions of the columns relative to the largest, and of what is left of a row: rounding."""


ROUNDING, MOST_ROUNDED = 1e-15, 0.1
"""Relative error of what is left of a row, times that, and the error of a log weight that is not resolved."""


@dataclass(frozen=True, slots=True)
class CoordinateRows:
    """Some rows in the coordinates of the columns: X (r, d), the response (r,), leverages from Z (r,)."""

    x: FloatArray
    y: FloatArray
    own: FloatArray

    def only(self, which: AnyArray) -> CoordinateRows:
        """Some of them."""
        return CoordinateRows(self.x[which], self.y[which], self.own[which])


@dataclass(slots=True)
class KnownSets:
    """The sets that are known, with what their weights rest on; changed in place.

    Attributes
    ----------
    problem : Problem
    grid : Grid
    log_evidence : float
    nu : float
        Degrees of freedom of the noise.
    """

    problem: Problem
    grid: Grid
    log_evidence: float
    nu: float
    marks: AnyArray = field(init=False)
    node_marks: AnyArray = field(init=False)
    _known: dict[int, tuple[IntArray, SetSpectrum, FloatArray]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        """Give each unit and each node a mark, of which sets have their keys."""
        rng = np.random.default_rng(12345)
        self.marks = rng.integers(0, 2**63, self.problem.units.n, dtype=np.uint64)
        self.node_marks = rng.integers(0, 2**63, self.grid.log_g.size, dtype=np.uint64)

    def key(self, units: IntArray) -> int:
        """Equal for equal sets."""
        return int(np.bitwise_xor.reduce(self.marks[units], initial=np.uint64(0)))

    def of(self, units: IntArray) -> tuple[IntArray, SetSpectrum, FloatArray]:
        """The set in its eigenvectors, and the logarithm of its posterior probability at each node, (K,)."""
        key = self.key(units)
        if key not in self._known:
            part = spectrum(self.problem, self.problem.units.columns(units))
            joint = log_joint(self.problem, self.grid, part, units) - self.log_evidence
            self._known[key] = units, part, joint
        return self._known[key]

    def learn(self, some: Sequence[IntArray]) -> None:
        """Take note of several sets at once."""
        new = {key: units for units in some if (key := self.key(units)) not in self._known}
        keys, units = list(new), list(new.values())
        by_size = spectra_by_size(self.problem, [self.problem.units.columns(each) for each in units])
        parts = {
            i: part for of_size in by_size for i, part in zip(of_size.which.tolist(), of_size.each(), strict=True)
        }
        for which, joint, _ in log_joints_by_size(self.problem, self.grid, by_size, units):
            for i, own in zip(which.tolist(), joint, strict=True):
                self._known[keys[i]] = units[i], parts[i], own - self.log_evidence

    @property
    def free(self) -> IntArray:
        """Units that may be in or out."""
        odds = self.grid.unit_odds
        return np.arange(self.problem.units.n) if odds is None else np.flatnonzero(np.isfinite(odds))

    def nodes(self, units: IntArray, most: int = NODES) -> IntArray:
        """Nodes at equal distances, and the most probable one given the set."""
        joint = self.of(units)[2]
        even = np.linspace(0, joint.size - 1, min(most, joint.size)).round().astype(np.intp)
        even[np.argmin(np.abs(even - int(np.argmax(joint))))] = int(np.argmax(joint))
        return np.unique(even)

    def noise(self, nodes: AnyArray) -> Noise:
        """The noise at some nodes."""
        known = self.grid.noise_var
        return Noise(self.nu, None if known is None else known[nodes][:, None])

    def densities(
        self, units: IntArray, nodes: AnyArray, rows: CoordinateRows
    ) -> tuple[FloatArray, Densities, FloatArray]:
        """Log weights of the set at each node without each row, (K', r), and what it predicts there.

        Third, such weights where rounding errors outweigh them: these are left out of the first.
        """
        return self._densities([self.of(units)], nodes, rows)

    def densities_of_each(
        self, some: Sequence[IntArray], rows: CoordinateRows
    ) -> Iterator[tuple[IntArray, FloatArray, Densities, FloatArray]]:
        """:meth:`densities` of several sets at all nodes, piece by piece: which sets, and set after set (S K, r)."""
        self.learn(some)
        known, every = [self.of(units) for units in some], np.arange(self.grid.log_g.size)
        sizes = np.array([part.values.size for _, part, _ in known], dtype=np.intp)
        at_once = max(AT_ONCE // (every.size * max(rows.y.size, 1)), 1)
        for size in np.unique(sizes).tolist():
            members = np.flatnonzero(sizes == size)
            for which in np.split(members, range(at_once, members.size, at_once)):
                yield which, *self._densities([known[i] for i in which.tolist()], every, rows)

    def _densities(
        self, known: Sequence[tuple[IntArray, SetSpectrum, FloatArray]], nodes: AnyArray, rows: CoordinateRows
    ) -> tuple[FloatArray, Densities, FloatArray]:
        """As :meth:`densities`, of sets with equally many coordinates, set after set, (S K', r)."""
        parts = [part for _, part, _ in known]
        values, cross = (np.stack([getattr(part, name) for part in parts])[:, None] for name in ("values", "cross"))
        own = np.stack([rows.x[:, part.columns] @ part.vectors for part in parts])
        inverse = 1.0 / (values + self.grid.k[nodes][:, None])  # (S, K', m)
        left = (self.problem.yy - (cross**2 * inverse).sum(axis=2)).ravel()
        across = own.transpose(0, 2, 1)
        fitted, leverage = (each.reshape(left.size, -1) for each in ((inverse * cross) @ across, inverse @ across**2))
        noise = self.noise(nodes)
        if noise.variance is not None:
            noise = replace(noise, variance=np.tile(noise.variance, (len(parts), 1)))
        found, unsure = _without(rows.y - fitted, leverage + rows.own, left, noise)
        log_new = np.concatenate([joint[nodes] for _, _, joint in known])[:, None] - found.left_out
        sure = replace(found, left_out=np.where(unsure, np.inf, found.left_out))
        return np.where(unsure, -np.inf, log_new), sure, np.where(unsure, log_new, -np.inf)

    def births(self, units: IntArray, node: int, rows: CoordinateRows) -> tuple[IntArray, FloatArray, FloatArray]:
        """Units that may come in, (u,), and log weights of the sets with them at a node.

        The weights are those without each row, (r, u), and with all rows, (u,).
        """
        problem, grid = self.problem, self.grid
        _, part, joint = self.of(units)
        k, columns = float(grid.k[node]), part.columns
        inverse = 1.0 / (part.values + k)
        coef = part.vectors @ (part.cross * inverse)
        half = rows.x[:, columns] @ (part.vectors * np.sqrt(inverse))
        residual, leverage = rows.y - rows.x[:, columns] @ coef, (half**2).sum(axis=1) + rows.own
        gram = problem.stacked(columns)
        onto = (part.vectors * inverse) @ (part.vectors.T @ gram)
        cross, x = problem.cross - gram.T @ coef, rows.x - rows.x[:, columns] @ onto
        left = problem.yy - float(part.cross**2 @ inverse)
        out = np.setdiff1d(self.free, units)
        log_new, log_all = np.empty((rows.y.size, out.size)), np.empty(out.size)
        prior = _prior_of_births(grid, units, out, node)
        sizes = problem.units.sizes[out]
        noise = None if grid.noise_var is None else grid.noise_var[node]
        for size in np.unique(sizes):
            which = np.flatnonzero(sizes == size)
            at = problem.units.order[problem.units.start[out[which]][:, None] + np.arange(size)]
            if size == 1:
                values = np.maximum(problem.diag[at[:, 0]] - (gram[:, at[:, 0]] * onto[:, at[:, 0]]).sum(axis=0), 0.0)
                values, target, own = (values + k)[:, None], cross[at], x[:, at]
            else:
                rest = problem.blocks(at) - np.einsum("mua,mub->uab", gram[:, at], onto[:, at])
                values, axes = np.linalg.eigh(rest)
                values = np.maximum(values, 0.0) + k
                target = np.einsum("ua,uab->ub", cross[at], axes)
                own = np.einsum("rua,uab->rub", x[:, at], axes)
            less = left - (target**2 / values).sum(axis=1)
            gain = of_left_over(problem, noise, np.maximum(less, 1e-15 * problem.yy))
            gain = gain - of_left_over(problem, noise, np.array(max(left, 1e-15 * problem.yy)))
            log_all[which] = joint[node] + prior[which] + gain + 0.5 * np.log(k / values).sum(axis=1)
            new_residual = residual[:, None] - (own * (target / values)).sum(axis=2)
            new_leverage = leverage[:, None] + (own**2 / values).sum(axis=2)
            known = Noise(self.nu, None if noise is None else np.array([[noise]]))
            found, unsure = _without(new_residual.T, new_leverage.T, less, known)
            log_new[:, which] = np.where(unsure, -np.inf, log_all[which][:, None] - found.left_out).T
        return out, log_new, log_all


def _prior_of_births(grid: Grid, units: IntArray, out: IntArray, node: int) -> FloatArray:
    """Changes of the log prior of a set at a node, (u,)."""
    if grid.unit_odds is not None:
        return grid.unit_odds[out]
    change = grid.log_size(units.size + 1)[node] - grid.log_size(units.size)[node]
    return np.full(out.size, float(change))


def _without(
    residual: FloatArray, leverage: FloatArray, left: FloatArray, noise: Noise
) -> tuple[Densities, BoolArray]:
    """Predictions of rows from the others given components, (K, r), with infinite density where there is none.

    Second, where their logs are not resolved: what the other rows leave is a difference, relative to the noise.
    """
    slack = 1.0 - leverage
    fine = slack > 0
    error = np.divide(residual, slack, out=np.zeros_like(slack), where=fine)
    found = densities(error, np.where(fine, slack, 1.0), left[:, None], noise)
    lost = ~fine | ~found.proper
    own = residual * error
    scale = (
        2.0 * noise.variance if noise.variance is not None else (left[:, None] - own) / (0.5 * (noise.count - 1.0))
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        unsure = ~lost & outweighed(own, slack, left[:, None], np.maximum(scale, 0.0))
    return replace(found, left_out=np.where(lost, np.inf, found.left_out)), unsure


def outweighed(own: FloatArray, slack: FloatArray, left: FloatArray, scale: AnyArray) -> BoolArray:
    """Whether rounding errors outweigh the difference to a log weight that a row makes, ``own / scale``.

    `own` is the square of a residual over `slack`, what is left of the row's leverage, which is a difference itself.
    Without rounding it is at most `left`, what all rows leave of the sum of squares; of columns that are nearly
    dependent rounding errors of both are much larger than those of a difference.
    """
    out: BoolArray = np.maximum(own * (ROUNDING / slack), own - left) > MOST_ROUNDED * scale
    return out


@dataclass(frozen=True, slots=True)
class KeptStates:
    """The kept states of a posterior.

    Attributes
    ----------
    units : list of S int arrays
        The units of each.
    key : (S,) uint64 array
        Of its set.
    pairs : (S',) uint64 array
        Keys of the sets and nodes, ascending.
    weight : (S,) array
    """

    units: list[IntArray]
    key: AnyArray
    pairs: AnyArray
    weight: FloatArray


def grid_without_rows(problem: Problem, grid: Grid, rows: Iterable[CoordinateRows]) -> Grid:
    """The grid of a posterior, so far that it reaches the noise without any of the rows.

    Nodes of s2 reach beyond what all columns leave of the response, which is less without an outlying row.
    """
    if not grid.follows_noise or problem.d > min(MOST_SOLVED, problem.nu):
        return grid
    every = spectrum(problem, np.arange(problem.d))
    seen = every.values > NO_DIRECTION * every.values.max(initial=0.0)
    axes, values, cross = every.vectors[:, seen], every.values[seen], every.cross[seen]
    # Below this nodes reach whatever the columns leave.
    left, least = problem.yy - float((cross**2 / values).sum()), RESOLVED * problem.yy
    most = 0.0
    for some in rows:
        own = some.x @ axes
        slack = 1.0 - some.own - (own**2 / values).sum(axis=1)
        fine = slack > NO_DIRECTION
        residual = some.y - own @ (cross / values)
        most = max(most, float((residual[fine] ** 2 / slack[fine]).max(initial=0.0)))
    reach = np.log(max(left, least) / max(left - most, least))
    return further(grid, float(reach)) if reach > SAME_NODE else grid


def known_sets(problem: Problem, exact: Exact, grid: Grid) -> tuple[KnownSets, KeptStates, float]:
    """The sets of a posterior on a grid that begins with its own; its kept states; the error of the log evidence."""
    states = exact.states
    of_column = problem.units.of_column
    units = [np.unique(of_column[states.set_of(i)]).astype(np.intp) for i in range(states.n)]
    sets = KnownSets(problem, grid, exact.log_evidence, states.nu)
    key = np.array([sets.key(each) for each in units], dtype=np.uint64)
    node = np.abs(np.searchsorted(exact.grid.log_g, states.log_g - SAME_NODE))
    pairs = np.unique(key ^ sets.node_marks[np.minimum(node, exact.grid.log_g.size - 1)])
    kept = KeptStates(units, key, pairs, states.weight)
    if np.isfinite(exact.log_evidence):
        return sets, kept, exact.log_evidence_se
    # No set came back: by those there are.
    different = {int(key): units[i] for i, key in enumerate(kept.key)}
    some = [units for _, units in zip(range(EVIDENCE_SETS), different.values(), strict=False)]
    share = float(states.weight[np.isin(kept.key, [sets.key(each) for each in some])].sum())
    sets.log_evidence = float(logsumexp(log_joints(problem, exact.grid, some))) - np.log(share)
    return sets, kept, 1.0 / np.sqrt(len(some))
