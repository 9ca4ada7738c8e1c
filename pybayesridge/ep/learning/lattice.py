"""Fits on a lattice of the hyperparameters, filled from its best nodes outwards."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from pybayesridge._types import FloatArray
from pybayesridge.ep.learning.joint import joint_sweeps
from pybayesridge.ep.learning.maximize import continues
from pybayesridge.ep.learning.objective import Objective, Trial

#: The lattice is filled from nodes so many nats below the best.
DEPTH = 4.0
#: The log posterior being nearly concave, a neighbour whose tangent is so much lower still is left out.
_MARGIN = 1.0
#: Spacing where s columns are expected to be in, ``c / sqrt(s + 1)``, and its limits.
_SPACING = 3.0
_SPACING_LIMITS = (0.7, 2.0)
_MAXNODES = 80
#: Residual of the sites at which a node's evidence is good enough, being stationary in them.
_TOL = 0.03
_SWEEPS = 20
#: EP's iterations at a node, and steps of the noise there.
_MAXITER = 50
_NOISE_STEPS = 3
#: Rise of the objective that the noise may leave to a parabola.
_RISE = 0.1
#: A step of the noise by the secant is at most so many times that for a fixed set of columns.
_SECANT = 3.0

Index = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Node:
    """A fit at a node.

    Attributes
    ----------
    trial : Trial
    value : float
        The objective with the noise at its maximum. Where EP has not settled, what the neighbour's tangent promises,
        if that is less.
    """

    trial: Trial
    value: float


@dataclass(slots=True)
class FitLattice:
    """Fits on a lattice in the coordinates other than that of the noise.

    Attributes
    ----------
    objective : Objective
    seeds : list of Trial
        Fits near the maxima, the highest first; the lattice is aligned with that.
    by_sweeps : bool
        Whether joint sweeps lead to the nodes at first.
    depth : float
        The lattice is filled from nodes so many nats below the best.
    width : float or None
        Spacing; None for that of the first seed.
    """

    objective: Objective
    seeds: list[Trial]
    nodes: dict[Index, Node] = field(default_factory=dict)
    by_sweeps: bool = True
    depth: float = DEPTH
    width: float | None = None

    @property
    def dimension(self) -> int:
        """Number of coordinates of the lattice."""
        return self.objective.place.lattice_dimension

    @property
    def spacing(self) -> float:
        """Distance of neighbours: the fewer columns are in, the less is known of the hyperparameters."""
        if self.width is not None:
            return self.width
        size = self.seeds[0].result.expected_size
        return float(np.clip(_SPACING / np.sqrt(size + 1.0), *_SPACING_LIMITS))

    def fill(self) -> list[Node]:
        """Fit at the nodes nearest to the seeds, then at the neighbours of what is within some nats of the best."""
        k, first = self.dimension, self.seeds[0]
        for seed in self.seeds:
            index = tuple(np.rint((seed.x[:k] - first.x[:k]) / self.spacing).astype(int).tolist())
            if seed.value >= first.value - self.depth and index not in self.nodes:
                self._fit(index, seed, np.inf)
        done: set[Index] = set()
        while len(self.nodes) < _MAXNODES:
            settled = {i: node for i, node in self.nodes.items() if node.trial.result.converged}
            best = max((node.value for node in settled.values()), default=-np.inf)
            left = [i for i, node in settled.items() if i not in done and node.value >= best - self.depth]
            if not left:
                break
            index = max(left, key=lambda i: settled[i].value)
            done.add(index)
            self._expand(index, best - self.depth - _MARGIN)
        return list(self.nodes.values())

    def peaks(self) -> list[Trial]:
        """The settled fits that no neighbour exceeds, the highest first."""
        settled = {i: node for i, node in self.nodes.items() if node.trial.result.converged}
        found = [
            node
            for i, node in settled.items()
            if all(settled[j].value <= node.value for j in self._beside(i) if j in settled)
        ]
        return [node.trial for node in sorted(found, key=lambda node: -node.value)]

    def _beside(self, index: Index) -> list[Index]:
        """The neighbours of a place."""
        return [
            tuple(j + sign * (a == axis) for a, j in enumerate(index))
            for axis in range(self.dimension)
            for sign in (1, -1)
        ]

    def _expand(self, index: Index, least: float) -> None:
        """Fit at the neighbours of a node whose tangent there is at least `least`."""
        node = self.nodes[index]
        for other in self._beside(index):
            move = self.spacing * (np.array(other) - np.array(index))
            tangent = node.value + float(move @ node.trial.grad[: self.dimension])
            if other not in self.nodes and tangent >= least:
                self._fit(other, node.trial, tangent)

    def _fit(self, index: Index, start: Trial, tangent: float) -> None:
        """Fit at a node, unless it is outside the bounds."""
        place, k = self.objective.place, self.dimension
        x = start.x.copy()
        x[:k] = self.seeds[0].x[:k] + self.spacing * np.array(index)
        if not np.array_equal(x, place.clip(x)):
            return
        trial, rise, self.by_sweeps = _at_best_noise(self.objective, x, start, self.by_sweeps)
        value = trial.value + rise
        self.nodes[index] = Node(trial, value if trial.result.converged else min(value, tangent))


def _at_best_noise(objective: Objective, x: FloatArray, parent: Trial, by_sweeps: bool) -> tuple[Trial, float, bool]:
    """Fit at x, the noise (where it is learned) near its maximum.

    Also how much higher that is by a parabola, and whether joint sweeps have settled.
    """
    moving = np.zeros(x.size, dtype=bool)
    moving[objective.place.lattice_dimension :] = True
    start, settled = parent.warm, False
    if by_sweeps:
        joint = joint_sweeps(objective, x, start, tol=_TOL, maxiter=_SWEEPS, moving=moving)
        settled = joint.settled
        if joint.warm is not None:
            x, start = joint.x, joint.warm
    trial = objective.evaluate(x, start, tol=_TOL, maxiter=_MAXITER)
    if not moving.any():
        return trial, 0.0, settled
    before, move = None, _noise_move(objective, trial, None)
    for _ in range(_NOISE_STEPS):
        if trial.grad[-1] * move <= _RISE:
            break
        x = trial.x.copy()
        x[-1] += move
        new = objective.evaluate(x, trial, tol=_TOL, maxiter=_MAXITER)
        if not (new.result.converged and continues(trial, new)):
            break
        trial, before = new, trial
        move = _noise_move(objective, trial, before)
    return trial, 0.5 * float(trial.grad[-1] * move), settled


def _noise_move(objective: Objective, trial: Trial, before: Trial | None) -> float:
    """The step of the noise to its maximum: for a fixed set of columns, or by the secant."""
    # Where v is given the element is eta, which falls as log s2 rises.
    sign = 1.0 if objective.place.axes[2] else -1.0
    slope = float(trial.grad[-1])
    move = sign * float(np.log(max(1.0 + 2.0 * sign * slope / objective.data.nu, 0.1)))
    if before is not None:
        change = float(before.grad[-1]) - slope
        secant = slope * float(trial.x[-1] - before.x[-1]) / change if change != 0 else 0.0
        if secant * move > 0:
            move = float(np.clip(secant, -_SECANT * abs(move), _SECANT * abs(move)))
    x = trial.x.copy()
    x[-1] += move
    return float(objective.place.clip(x)[-1] - trial.x[-1])
