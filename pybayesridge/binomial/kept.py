"""States of the walkers for yes/no responses that are kept: sets, and the normal law of the coefficients."""

from __future__ import annotations

from dataclasses import dataclass

from pybayesridge._types import FloatArray, IntArray

MOST_STATES = 8000
"""States that are held at once; then every second pass is dropped."""

MOST_NUMBERS = 8_000_000
"""Numbers in their covariance factors at most: fewer states are held of large sets."""

FEWEST_STATES = 100


@dataclass(frozen=True, slots=True)
class WalkState:
    """A set of units at a pass of a walker, and the normal law of the coefficients given the auxiliary variables.

    Attributes
    ----------
    step, walker : int
    units : int array
        Units in.
    columns : (m,) int array
        Their columns, in the order of the coefficients.
    node : int
        Of log g.
    mean : (k + m,) array
        Of the unpenalised coefficients and of those of `columns`, in the coordinates of the rows.
    root : (k + m, k + m) array
        A factor of their covariance, ``root @ root.T``, upper triangular.
    """

    step: int
    walker: int
    units: IntArray
    columns: IntArray
    node: int
    mean: FloatArray
    root: FloatArray


class KeptWalks:
    """States of all walkers, thinned as they become too many; changed in place.

    Attributes
    ----------
    step : int
        The present pass.
    every : int
        Passes between two whose states are kept.
    states : list of WalkState
    """

    __slots__ = ("_numbers", "every", "states", "step")

    def __init__(self) -> None:
        self.every = 1
        self.forget()

    def forget(self) -> None:
        """Drop all states, and count passes from 0."""
        self.step, self.states, self._numbers = 0, list[WalkState](), 0

    @property
    def due(self) -> bool:
        """Whether the states of the present pass are kept."""
        return self.step % self.every == 0

    def add(self, state: WalkState) -> None:
        """Keep a state."""
        self.states.append(state)
        self._numbers += state.root.size

    def next(self) -> None:
        """Count a pass; drop every second one, as long as there are too many states."""
        self.step += 1
        while len(self.states) > MOST_STATES or (self._numbers > MOST_NUMBERS and len(self.states) > FEWEST_STATES):
            self.every *= 2
            self.states = [state for state in self.states if state.step % self.every == 0]
            self._numbers = sum(state.root.size for state in self.states)

    def after(self, lead: int) -> list[WalkState]:
        """The states from pass `lead` on; all, if there is none."""
        return [state for state in self.states if state.step >= lead] or self.states
