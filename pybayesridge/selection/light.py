"""Walkers through the sets of units, by light moves in compiled code (``compiled/c/sets``); here, its arrays.

A step proposes that one unit comes in, leaves, or takes the place of another one, that the node of log g changes,
that several units and log g do, or that a set which was visited before takes the place of the present one. It costs
O(m²) for m columns in, whatever the number of columns. Now and then a pass computes the probability of every unit
given the others, and its coefficients' moments, which are averaged.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import gammaln, log_expit

from pybayesridge._types import AnyArray, BoolArray, FloatArray, IntArray
from pybayesridge.compiled.library import library
from pybayesridge.selection.grid import Grid
from pybayesridge.selection.problem import CACHE_BYTES, Problem

MOVES = ("birth", "death", "swap", "near swap", "node", "together", "recall", "renew")
"""The moves, as they are counted."""

FIRST_SIZES = 32
"""Sizes of sets for which there is room in the table of the prior to begin with."""

WIDTHS = 8.0
"""Width of a panel of t, in standard deviations of t given the largest size, for the table of the prior."""

RULES = 3
"""Quadratures over t that are held: those of a fit are the same again and again."""

SWEEP_BYTES = 2**24
"""Bytes for entries of X'X that a full pass of all walkers takes at once."""

LEAST_SWEPT = 256
"""Columns that such a pass takes at once, at least."""

MEMORY = 2**28
"""Bytes for the walkers' matrices: they limit the size of a set."""

RENEW_EVERY = 40
"""Steps between moves to other sets altogether, at least."""

DONE, TABLE, RECORD, FAILED = range(4)
"""How a call of ``run_advance`` ends: done; the prior's table or the record is too short; no memory."""

_INTEGERS = (
    *("n", "d", "fixed", "n_units", "widest", "n_nodes", "most_columns", "table_sizes", "node_every"),
    *("together_every", "n_free", "dual_from", "n_watched", "n_lists", "largest_recalled"),
    *("recall_every", "n_loose", "renewed_sizes", "renew_every", "t_nodes", "t_points"),
)
_POINTERS = (
    *("order", "start", "unit_of", "diag", "cross", "gram", "held", "held_at", "xt", "target", "log_g", "k", "log_k"),
    *(
        "noise",
        "odds",
        "log_weight",
        "table",
        "t_in",
        "t_out",
        "t_weight",
        "keep",
        "alias",
        "log_birth",
        "birth",
        "death",
        "exchange",
        "listed",
    ),
    *(
        "watched",
        "is_watched",
        "is_core",
        "list_start",
        "mark",
        "recalled_key",
        "recalled_start",
        "recalled_unit",
        "recalled_sum",
    ),
    *("recalled_node_sum", "log_recalled", "loose", "is_loose", "renewed_sum", "log_renewed"),
)


class _Problem(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int64) for name in _INTEGERS),
        *((name, ctypes.c_double) for name in ("yy", "outside", "nu", "swap_share", "often_from")),
        *((name, ctypes.c_void_p) for name in _POINTERS),
    ]


class _Record(ctypes.Structure):
    _fields_ = [
        *(
            (name, ctypes.c_void_p)
            for name in ("prob", "absent", "mean", "square", "sums", "weight", "center", "units")
        ),
        *((name, ctypes.c_int64) for name in ("room", "used")),
        *((name, ctypes.c_void_p) for name in ("size", "node", "key", "marks")),
    ]


def _address(array: AnyArray | None) -> int | None:
    # The attribute `ctypes` would make an object each time.
    return None if array is None else array.__array_interface__["data"][0]


@dataclass(frozen=True, slots=True)
class Proposals:
    """Weights of the units in proposals.

    Attributes
    ----------
    birth, death : (G,) arrays
        Probabilities of births, which sum to 1, and weights of deaths; 0 for units that never move.
    exchange : (G,) array
        Weights with which units give way to others.
    listed : (G,) bool array
        Units that take the place of strongly correlated ones of these.
    """

    birth: FloatArray
    death: FloatArray
    exchange: FloatArray
    listed: BoolArray


@dataclass(frozen=True, slots=True)
class Recalled:
    """Sets of some units, the core, and the distribution from which proposals are drawn.

    Attributes
    ----------
    core : (G,) bool array
    key : (S,) uint64 array
        Ascending; of each set the marks of its units, combined by exclusive or.
    start : (S + 1,) int array
    units : (total,) int array
        Those of set i, ascending, are ``units[start[i] : start[i + 1]]``.
    log_prob : (S, K) or (S,) array
        Log probability of a set and a node, or of a set where the node stays.
    """

    core: BoolArray
    key: AnyArray
    start: IntArray
    units: IntArray
    log_prob: FloatArray


@dataclass(frozen=True, slots=True)
class Renewed:
    """The distribution from which moves to other sets altogether are drawn.

    Attributes
    ----------
    loose : (G,) bool array
        Units that are renewed, the others stay.
    log_prob : (S, K) array
        Log probability of one set of so many of them and a node.
    """

    loose: BoolArray
    log_prob: FloatArray

    @property
    def sizes(self) -> IntArray:
        """Units in, of sets with 0, 1, ... loose ones if all others are, (S,)."""
        return np.arange(self.log_prob.shape[0]) + int(np.count_nonzero(~self.loose))


@dataclass(slots=True)
class Sums:
    """What passes add to, of one walker.

    Attributes
    ----------
    prob, absent : (G,) arrays
        Probabilities that a unit is in, and that it is out, which one less the first does not resolve.
    mean, square : (d + k,) arrays
        Of the coefficients less `center`, 0 where they are out; at the end those of columns that are always in.
    center : (d + k,) array
        Near their means, where these may be far larger than the standard deviations, else 0.
    others : (5,) array
        Expected number of watched units in, log g, mean of s2, number of units in, expected number of others in.
    weight : (2,) array
        Sums of the weights of passes, and of full ones.
    passes, full : int
        Passes, and those that looked at all units; the others only at units that are watched.
    """

    prob: FloatArray
    absent: FloatArray
    mean: FloatArray
    square: FloatArray
    others: FloatArray
    center: FloatArray
    weight: FloatArray
    passes: int = 0
    full: int = 0

    @classmethod
    def empty(cls, n_units: int, d: int, center: FloatArray | None = None) -> Sums:
        """Nothing yet."""
        zeros = np.zeros(n_units), np.zeros(n_units), np.zeros(d), np.zeros(d), np.zeros(5)
        return cls(*zeros, np.zeros(d) if center is None else center, np.zeros(2))

    def addresses(self) -> tuple[int | None, ...]:
        """Of what the compiled code takes, in its order."""
        arrays = self.prob, self.absent, self.mean, self.square, self.others, self.weight, self.center
        return tuple(_address(a) for a in arrays)


@dataclass(frozen=True, slots=True)
class Visits:
    """The states at the passes of one walker.

    Attributes
    ----------
    units : (total,) int array
        The units in, pass by pass.
    size, node : (T,) int arrays
    key : (T,) uint64 array
        Equal for equal sets.
    """

    units: IntArray
    size: IntArray
    node: IntArray
    key: AnyArray


@dataclass(slots=True)
class Weighted:
    """Rows and, for each walker, their weights; the latter change in place.

    Attributes
    ----------
    xt : (d + k, n) array
        The columns that may be in, then k columns that are always in, with flat coefficients.
    fixed : int
        k.
    weight, linear : (W, n) arrays
    cross : (W, d + k) array
        X' times the linear terms.
    yy : (W,) array
    """

    xt: FloatArray
    fixed: int
    weight: FloatArray
    linear: FloatArray
    cross: FloatArray
    yy: FloatArray


@dataclass(slots=True)
class Walkers:
    """Several walkers in compiled code; changed in place.

    Attributes
    ----------
    problem : Problem
    grid : Grid
    n : int
        How many.
    most_columns : int
        Sets with more columns are not visited.
    weighted : Weighted or None
        Rows with weights that change, each walker with its own: then the cross-products of `problem` only say which
        columns are correlated.
    """

    problem: Problem
    grid: Grid
    n: int
    most_columns: int
    weighted: Weighted | None = None
    node_every: int = 5
    together_every: int = 10
    recall_every: int = 10
    swap_share: float = 0.3
    _handle: int = field(default=0, init=False)
    _struct: Any = field(default=None, init=False)
    _arrays: dict[str, AnyArray | None] = field(default_factory=dict, init=False)
    _marks: AnyArray = field(init=False)
    _watched: AnyArray | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        """Hand the arrays over."""
        problem, grid, units = self.problem, self.grid, self.problem.units
        own = self.weighted
        xt, target, outside = problem.in_rows() if own is None else (own.xt, None, 0.0)
        arrays = self._arrays
        arrays |= {
            "order": np.ascontiguousarray(units.order, dtype=np.int64),
            "start": np.ascontiguousarray(units.start, dtype=np.int64),
            "unit_of": np.ascontiguousarray(units.of_column, dtype=np.int64),
            "diag": _double(problem.diag if own is None or problem.gram is not None else (own.xt**2).sum(axis=1)),
            "cross": _double(problem.cross),
            "gram": None if problem.gram is None else _double(problem.gram),
            "xt": xt,
            "target": target,
            "log_g": _double(grid.log_g),
            "k": _double(grid.k),
            "log_k": _double(-grid.log_g),
            "noise": None if grid.noise_var is None else _double(grid.noise_var),
            "odds": None if grid.unit_odds is None else _double(grid.unit_odds),
            "log_weight": _double(grid.log_weight - grid.log_total),
        }
        numbers = {
            "n": 0 if xt is None else xt.shape[1],
            "d": problem.d,
            "fixed": 0 if own is None else own.fixed,
            "n_units": units.n,
            "widest": int(units.sizes.max(initial=1)),
            "n_nodes": grid.log_g.size,
            "most_columns": self.most_columns,
            "n_free": 0,
            "dual_from": 0 if xt is None else dual_from(xt.shape[1]),
        }
        self._struct = _Problem(**numbers, yy=problem.yy, outside=outside, nu=problem.nu, swap_share=self.swap_share)
        learned = grid.log_g.size > 1
        self._struct.node_every = self.node_every if learned else 0
        self._struct.often_from = np.inf
        for name, array in arrays.items():
            setattr(self._struct, name, _address(array))
        self._tabulate(FIRST_SIZES)
        self.propose(_evenly(problem, grid))
        self._marks = np.random.default_rng(12345).integers(0, 2**63, units.n, dtype=np.uint64)
        self._handle = library().run_new(ctypes.byref(self._struct), self.n)
        if not self._handle:
            raise MemoryError("not enough memory for the sampler")

    def __del__(self) -> None:
        """Free the walkers."""
        if self._handle:
            library().run_free(self._handle)
            self._handle = 0

    def _set(self, name: str, array: AnyArray) -> None:
        self._arrays[name] = array
        setattr(self._struct, name, _address(array))

    def _tabulate(self, sizes: int) -> None:
        """Make room for the prior of sets of fewer than so many units, of which what is asked for is computed."""
        if self.grid.unit_odds is not None:
            return
        sizes = min(sizes, self.problem.units.n + 1)
        table, t = np.full((sizes, self.grid.log_g.size), np.nan), prior_nodes(self.grid, sizes)
        for name, array in (("table", table), ("t_in", t[0]), ("t_out", t[1]), ("t_weight", t[2])):
            self._set(name, array)
        self._struct.table_sizes = sizes
        self._struct.t_nodes, self._struct.t_points = t[0].shape

    @property
    def marks(self) -> AnyArray:
        """Random numbers of the units, (G,): keys of sets are made of them."""
        return self._marks

    def visit_often(self, size: float) -> None:
        """Visit sets of n > `size` units (n + 1) / (size + 1) times as often as they are likely.

        That is how the mean of a positive number is best sampled. Passes are weighted by the inverse. What follows is
        of other chains.
        """
        self._struct.often_from = size

    def weight_of(self, size: IntArray) -> FloatArray:
        """Weights of states with so many units in."""
        least = self._struct.often_from
        return np.minimum((least + 1.0) / (size + 1.0), 1.0) if np.isfinite(least) else np.ones(size.size)

    def propose(self, proposals: Proposals) -> None:
        """Take other weights of proposals: what follows is of other chains."""
        keep, alias = _alias_table(proposals.birth)
        with np.errstate(divide="ignore"):
            log_birth = np.log(proposals.birth)
        for name, array in (
            ("keep", keep),
            ("alias", alias),
            ("birth", _double(proposals.birth)),
            ("log_birth", log_birth),
            ("death", _double(proposals.death)),
            ("exchange", _double(proposals.exchange)),
            ("listed", proposals.listed.astype(np.uint8)),
        ):
            self._set(name, array)
        self._struct.n_free = int(np.count_nonzero(proposals.birth))
        # Without births several units cannot be drawn.
        moves = self.grid.log_g.size > 1 and bool(proposals.birth.any())
        self._struct.together_every = self.together_every if moves else 0
        self._hold(proposals.listed)
        if self._handle:
            library().run_forget(self._handle)

    def recall(self, lists: Sequence[Recalled]) -> None:
        """Take the sets that walkers may go to at once: the first list with nodes, others without.

        What follows is of other chains.
        """
        self._struct.n_lists = 0
        if not lists:
            return
        prob = np.exp(lists[0].log_prob)
        of_set = prob.sum(axis=1)
        sums = [_sums(of_set), *(_sums(np.exp(one.log_prob)) for one in lists[1:])]
        ends = np.cumsum([one.key.size for one in lists])
        starts = np.cumsum([0, *(one.units.size for one in lists)])
        begin = [one.start[:-1] + first for one, first in zip(lists, starts[:-1], strict=True)]
        for name, array in (
            ("is_core", np.stack([one.core for one in lists]).astype(np.uint8)),
            ("list_start", np.append(0, ends).astype(np.int64)),
            ("mark", self._marks),
            ("recalled_key", np.concatenate([one.key for one in lists])),
            ("recalled_start", np.append(np.concatenate(begin), starts[-1]).astype(np.int64)),
            ("recalled_unit", np.append(np.concatenate([one.units for one in lists]), 0).astype(np.int32)),
            ("recalled_sum", np.concatenate(sums)),
            ("recalled_node_sum", _sums(prob / np.maximum(of_set, 1e-300)[:, None])),
            ("log_recalled", _double(np.concatenate([one.log_prob.ravel() for one in lists]))),
        ):
            self._set(name, array)
        self._struct.recall_every = self.recall_every
        self._struct.largest_recalled = max(int(np.diff(one.start).max()) for one in lists)
        self._struct.n_lists = len(lists)

    def renew(self, renewed: Renewed | None, every: int = RENEW_EVERY) -> None:
        """Take the distribution of moves to other sets altogether, and the steps between them; None: no such moves.

        What follows is of other chains.
        """
        self._struct.renew_every = self._struct.renewed_sizes = 0
        if renewed is None:
            return
        loose, sizes = np.flatnonzero(renewed.loose), np.arange(renewed.log_prob.shape[0])
        log_prob = renewed.log_prob + log_sets(loose.size, sizes)[:, None]
        for name, array in (
            ("loose", loose.astype(np.int32)),
            ("is_loose", renewed.loose.astype(np.uint8)),
            ("renewed_sum", _sums(np.exp(log_prob).ravel())),
            ("log_renewed", _double(renewed.log_prob)),
        ):
            self._set(name, array)
        self._struct.n_loose = loose.size
        self._struct.renewed_sizes = sizes.size
        self._struct.renew_every = every

    def _hold(self, listed: BoolArray) -> None:
        """Compute the rows of X'X of columns of these units, of as many as memory is for."""
        xt = self._arrays["xt"]
        if self.problem.gram is not None or xt is None:
            return
        d = self.problem.d
        columns = self.problem.units.columns(np.flatnonzero(listed))[: max(CACHE_BYTES // (8 * d), 1)]
        before, known = self._arrays.get("held"), self._arrays.get("held_at")
        held, new = np.empty((columns.size, d)), np.ones(columns.size, dtype=bool)
        if before is not None and known is not None:
            new = known[columns] < 0
            held[~new] = before[known[columns[~new]]]
        held[new] = xt[columns[new]] @ xt[:d].T
        at = np.full(d, -1, dtype=np.int32)
        at[columns] = np.arange(columns.size)
        self._set("held", held)
        self._set("held_at", at)

    def watch(self, units: IntArray | None) -> None:
        """Passes look at these units only, but for full ones (:meth:`sweep`); None: at all units."""
        self._watched = None if units is None else np.ascontiguousarray(units, dtype=np.int32)
        if self._watched is None:
            self._struct.watched = None
            return
        mask = np.zeros(self.problem.units.n, dtype=np.uint8)
        mask[units] = 1
        self._struct.n_watched = self._watched.size
        self._set("is_watched", mask)
        # An array without entries would have no address.
        self._set("watched", np.append(self._watched, np.int32(0)))

    def sweep(self, sums: Sequence[Sums]) -> None:
        """A pass of each walker over the units that are not watched; what they add to."""
        problem = self.problem
        d, xt = problem.d, self._arrays["xt"]
        at, own, width = None, None, d
        if problem.gram is None and xt is not None and self.weighted is None:
            held = self._arrays["held_at"]
            states = [self.state(i) for i in range(self.n)]
            # What is held by its rows needs no products of columns.
            short = [problem.units.columns(units) for units, _, (*_, by_rows) in states if not by_rows]
            inside = np.unique(np.concatenate([np.zeros(0, dtype=np.intp), *short]))
            lacking = inside if held is None else inside[held[inside] < 0]
            at = np.full(d, -1, dtype=np.int32)
            at[lacking] = np.arange(lacking.size)
            own, width = xt[lacking], int(np.clip(SWEEP_BYTES // (8 * max(lacking.size, 1)), min(LEAST_SWEPT, d), d))
        records = [_Record(*one.addresses(), None, 0, 0, *[None] * 4) for one in sums]
        for first in range(0, d, width):
            last = min(first + width, d)
            lent = None if own is None or xt is None else np.ascontiguousarray(own @ xt[first:last].T)
            addresses = _address(lent), _address(at)
            for i, record in enumerate(records):
                if not library().run_sweep(self._handle, i, first, last, *addresses, ctypes.byref(record)):
                    raise MemoryError("not enough memory for the sampler")
        for one in sums:
            one.full += 1

    def start(self, walker: int, units: IntArray, node: int, seed: AnyArray | None) -> None:
        """Put a walker into a state; `seed` (4,) of its random numbers, None to let them go on."""
        if self.grid.unit_odds is None:
            while self._struct.table_sizes < min(2 * (units.size + FIRST_SIZES), self.problem.units.n + 1):
                self._tabulate(2 * self._struct.table_sizes)
        own = np.ascontiguousarray(units, dtype=np.int32)
        weight, linear, cross, yy = None, None, self._arrays["cross"], self.problem.yy
        if (rows := self.weighted) is not None:
            weight, linear, cross, yy = (part[walker] for part in (rows.weight, rows.linear, rows.cross, rows.yy))
        addresses = (_address(part) for part in (seed, weight, linear, cross))
        if not library().run_start(self._handle, walker, _address(own), own.size, node, *addresses, yy):
            raise MemoryError("not enough memory for the sampler")

    def walk(self, steps: int) -> None:
        """`steps` light moves of every walker without a pass."""
        while (end := library().run_walk(self._handle, steps)) != DONE:
            if end == FAILED:
                raise MemoryError("not enough memory for the sampler")
            self._tabulate(2 * self._struct.table_sizes)

    def normals(self) -> int:
        """How many normal numbers a draw of the linear predictor takes, of the walker that takes most."""
        return int(library().run_normals(self._handle))

    def draw_predictors(self, normal: FloatArray) -> FloatArray:
        """Draw the linear predictors given sets and weights, (W, n), by so many normal numbers of each, or more."""
        psi = np.empty((self.n, self._struct.n))
        if not library().run_predictors(self._handle, _address(normal), normal.shape[1], _address(psi)):
            raise MemoryError("not enough memory for the sampler")
        return psi

    def coefficients(self, walker: int) -> tuple[IntArray, FloatArray, FloatArray]:
        """Columns in (the fixed ones from d on), ascending, and mean and covariance of the coefficients."""
        most = int(library().run_coefficients(self._handle, walker, None, None, None))
        column, mean, cov = np.empty(most, dtype=np.int32), np.empty(most), np.empty((most, most))
        addresses = (_address(a) for a in (column, mean, cov))
        if library().run_coefficients(self._handle, walker, *addresses) < 0:
            raise MemoryError("not enough memory for the sampler")
        order = np.argsort(column)
        return column[order].astype(np.intp), mean[order], cov[np.ix_(order, order)]

    def reweigh(self, node: IntArray) -> None:
        """Take over what has changed in `weighted`, and go to nodes (W,)."""
        own = self.weighted
        assert own is not None
        node = node.astype(np.int64)
        addresses = (_address(part) for part in (node, own.cross, own.yy))
        if not library().run_reweigh(self._handle, *addresses):
            raise MemoryError("not enough memory for the sampler")

    def sizes(self) -> tuple[IntArray, IntArray]:
        """Of every walker, how many units are in, and the node, (W,) both."""
        n_in, node = np.empty(self.n, dtype=np.int64), np.empty(self.n, dtype=np.int64)
        library().run_states(self._handle, None, _address(n_in), _address(node))
        return n_in.astype(np.intp), node.astype(np.intp)

    def states(self) -> tuple[IntArray, IntArray, IntArray]:
        """Of every walker, the units in, walker by walker, how many they are, and the node."""
        n_in, node = self.sizes()
        units = np.empty(n_in.sum() + 1, dtype=np.int32)  # an array without entries would have no address
        library().run_states(self._handle, *(_address(part) for part in (units, n_in, node)))
        return units, n_in, node

    def go_back(self, which: BoolArray, states: tuple[IntArray, IntArray, IntArray]) -> None:
        """Some walkers (W,) return to their :meth:`states`, with the weights that they have."""
        addresses = (_address(part) for part in (which.astype(np.uint8), *states))
        if not library().run_return(self._handle, *addresses):
            raise MemoryError("not enough memory for the sampler")

    def advance(self, walker: int, steps: int, passes: int, sums: Sums, *, visits: bool = True) -> Visits | None:
        """`steps` light moves and a pass, `passes` times; what the passes add to, and the states that they saw."""
        parts: list[tuple[AnyArray, ...]] = []
        left, room = passes, 64 * passes
        while left:
            units = np.empty(room, dtype=np.int32) if visits else None
            size, node = np.empty(left, dtype=np.int32), np.empty(left, dtype=np.int32)
            key, done = np.empty(left, dtype=np.uint64), ctypes.c_int64()
            record = _Record(
                *sums.addresses(),
                _address(units),
                *(room, 0),
                *(_address(a) for a in (size, node, key, self._marks)),
            )
            end = library().run_advance(self._handle, walker, steps, left, ctypes.byref(record), ctypes.byref(done))
            if end == FAILED:
                raise MemoryError("not enough memory for the sampler")
            made = done.value
            if units is not None:
                parts.append((units[: record.used].copy(), size[:made], node[:made], key[:made]))
            left -= made
            sums.passes += made
            sums.full += made if self._watched is None else 0
            if end == TABLE:
                self._tabulate(2 * self._struct.table_sizes)
            elif end == RECORD:
                room = max(2 * room, 2 * self.problem.units.n)
        return Visits(*(np.concatenate(part) for part in zip(*parts, strict=True))) if parts else None

    def state(self, walker: int) -> tuple[IntArray, int, FloatArray]:
        """Units in, ascending, node, and R, log |M|, drift and whether the rows' form is used."""
        units = np.empty(self.problem.units.n, dtype=np.int32)
        node, numbers = ctypes.c_int64(), np.empty(4)
        count = library().run_state(self._handle, walker, _address(units), ctypes.byref(node), _address(numbers))
        return np.sort(units[:count]).astype(np.intp), node.value, numbers

    def log_prior(self, n_in: int, node: int) -> float:
        """Log prior of a set of so many units at a node; without the odds of the units where these are given."""
        return float(library().run_log_prior(self._handle, n_in, node))

    def counts(self) -> tuple[dict[str, tuple[int, int]], bool]:
        """Of each move, how often it was proposed and accepted; and whether a set came near the largest one."""
        proposed, accepted = np.zeros(len(MOVES), dtype=np.int64), np.zeros(len(MOVES), dtype=np.int64)
        limited = library().run_counts(self._handle, _address(proposed), _address(accepted))
        pairs = zip(proposed.tolist(), accepted.tolist(), strict=True)
        return dict(zip(MOVES, pairs, strict=True)), bool(limited)


def tabulate(grid: Grid, sizes: IntArray) -> None:
    """Take ``grid.log_size`` of sizes that it has not been asked for from the rule of the walkers' table.

    That rule is one for many sizes. It is not as exact where a node has nothing of the prior of a size.
    """
    lacking = [] if grid.unit_odds is not None else sorted(set(sizes.tolist()) - grid.tables.keys())
    while lacking:
        # What a size gets does not depend on which others there are.
        end = max(2 ** int(lacking[0]).bit_length(), 2 * FIRST_SIZES)
        some = [size for size in lacking if size < end]
        table = priors_of_sizes(grid, np.array(some, dtype=np.intp), end)
        grid.tables.update(zip(some, table, strict=True))
        lacking = lacking[len(some) :]


def priors_of_sizes(grid: Grid, sizes: IntArray, end: int) -> FloatArray:
    """``grid.log_size`` of some sizes (S,), below `end`, where units have no odds of their own, (S, K)."""
    t = prior_nodes(grid, end)
    out = np.empty((sizes.size, t[0].shape[0]))
    addresses = [_address(part) for part in t]
    for row, size in zip(out, sizes.tolist(), strict=True):
        library().run_table(_address(row), size, size + 1, grid.n_units, *t[0].shape, *addresses)
    return out + (grid.log_weight - grid.log_total)


def prior_nodes(grid: Grid, sizes: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Log p, log(1 - p) and log weights of the quadrature over t for sets of fewer than so many units, each (K, T).

    Where p is m / n, a panel is at most as wide as `WIDTHS` standard deviations of t.
    """
    width = (grid.prior.t_high - grid.prior.t_low) / WIDTHS
    panels = max(int(np.ceil(np.sqrt(min(sizes, grid.n_units / 4.0) + 4.0) * width)), 12)
    return _nodes_on_panels(_SamePrior(grid), panels)


class _SamePrior:
    """A grid, equal to others that have the same nodes of log g and the same prior."""

    __slots__ = ("_of", "grid")

    def __init__(self, grid: Grid) -> None:
        self.grid = grid
        self._of = grid.log_g.tobytes(), grid.prior, grid.bounded, grid.flat

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _SamePrior) and self._of == other._of

    def __hash__(self) -> int:
        return hash(self._of)


@lru_cache(maxsize=RULES)
def _nodes_on_panels(same: _SamePrior, panels: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    t, log_w = same.grid.t_evenly(panels)
    found = _double(log_expit(t)), _double(log_expit(-t)), _double(np.broadcast_to(log_w, t.shape))
    for part in found:
        part.flags.writeable = False
    return found


def log_sets(n: int, size: IntArray) -> FloatArray:
    """Logarithm of the number of sets of so many of n units."""
    return np.asarray(gammaln(n + 1.0) - gammaln(size + 1.0) - gammaln(n - size + 1.0))


def _sums(prob: FloatArray) -> FloatArray:
    """Cumulative sums along the last axis, the last one 1 but for what is rounding."""
    out = np.cumsum(prob, axis=-1)
    return np.ascontiguousarray(out / np.maximum(out[..., -1:], 1e-300))


def _double(array: FloatArray) -> FloatArray:
    return np.ascontiguousarray(array, dtype=np.float64)


def dual_from(n: int) -> int:
    """Columns in, beyond which sets are held by their n rows: these are then the fewer numbers."""
    return n


def _evenly(problem: Problem, grid: Grid) -> Proposals:
    moves = np.ones(grid.n_units) if grid.unit_odds is None else np.isfinite(grid.unit_odds).astype(float)
    return Proposals(moves / max(moves.sum(), 1.0), moves, moves, (moves > 0) & (problem.gram is not None))


def _alias_table(prob: FloatArray) -> tuple[FloatArray, AnyArray]:
    """Walker's alias method: the share of each cell that is its own, and whose the rest is."""
    n = prob.size
    scaled = prob * n / max(prob.sum(), 1e-300)
    keep, alias, stack = np.empty(n), np.empty(n, dtype=np.int32), np.empty(n, dtype=np.int32)
    library().alias_table(_address(scaled), n, _address(keep), _address(alias), _address(stack))
    return keep, alias
