"""Separation: directions along which the likelihood does not fall, by linear programming.

A direction d separates if ``z_i'd >= 0`` for rows whose likelihood does not fall upwards (successes only), ``<= 0``
for those whose does not fall downwards (failures only), ``= 0`` for the others, and not all are 0. Along it the
likelihood stays as it is or rises, so that with a flat prior the posterior has no finite integral. The linear program
finds a direction that moves every row which any direction moves (Konis 2007, "Linear programming algorithms for
detecting separated data in binary logistic regression models").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from scipy import sparse

from pybayesridge._types import BoolArray, FloatArray, IntArray
from pybayesridge.posterior.left_out import UNDETERMINED
from pybayesridge.sites.approximation import Approximation
from pybayesridge.sites.likelihood import RowSites

MOVED = 1e-6
"""A row whose part in the program is larger counts as moved: each is 0 or 1 at the optimum."""

NOTHING = 1e-9
"""Coefficients of the direction that are smaller, relative to the largest, are 0."""

DIGITS, LEAST = 12, 1e-9
"""Rows of orthonormal columns that agree to so many digits are one, and they span a dimension if they reach so far
into it."""

FIRM = 1e-3
"""Rows that have to stay where they are leave no direction if their least singular value, relative to the largest, is
above this: the program, which allows them to move by its tolerance, would find none either."""


SEPARATED = "without it the unpenalised columns separate the responses"

CLEAR = 1e-3
"""Weights of sites that are larger, relative to those of the fit, are positive."""

SINGULAR = 1e-9
"""With a smaller eigenvalue, relative to the largest, sites may not determine all coefficients."""

BALANCED = 1e-9
"""Forces whose sum is smaller, relative to the sum of their sizes, are in balance."""


@dataclass(frozen=True, slots=True)
class Separation:
    """A direction in which the columns separate the responses.

    Attributes
    ----------
    direction : (k,) array
        0 where nothing is separated.
    rows : (n,) bool array
        The rows whose responses are predicted without error by going far enough along it.
    """

    direction: FloatArray
    rows: BoolArray

    @property
    def found(self) -> bool:
        """Whether there is any."""
        return bool(self.rows.any())

    @property
    def complete(self) -> bool:
        """Whether every row is predicted without error."""
        return bool(self.rows.all())


def separation(columns: FloatArray, likelihood: RowSites) -> Separation:
    """Look for separation by all columns together.

    Parameters
    ----------
    columns : (n, k) array
        Of full rank.
    likelihood : RowSites
    """
    return _by_directions(columns, likelihood.rises())


def _by_directions(columns: FloatArray, sign: FloatArray) -> Separation:
    """Separation of rows whose likelihoods do not fall in the directions `sign` (n,); 0 where they fall in both."""
    n, k = columns.shape
    nothing = Separation(np.zeros(k), np.zeros(n, dtype=bool))
    if k == 0:
        return nothing
    if k == 1:
        return _by_one(columns[:, 0], sign)
    size = np.abs(columns).max(axis=0)
    unit = columns / np.where(size > 0, size, 1.0)
    # Rows that look alike are one row.
    different, back = np.unique(np.column_stack([sign, unit]), axis=0, return_inverse=True)
    sign, unit = different[:, 0], different[:, 1:]
    pure = sign != 0
    m = int(pure.sum())
    if m == 0:
        return nothing
    if _fixes_all(unit[~pure]):
        return nothing
    answer = _program(unit[~pure], sign[pure, None] * unit[pure])
    moved = np.zeros(len(sign), dtype=bool)
    moved[pure] = answer[k:] > MOVED
    if not moved.any():
        return nothing
    direction = answer[:k] / np.where(size > 0, size, 1.0)
    return Separation(direction, moved[np.ravel(back)])


def _fixes_all(fixed: FloatArray) -> bool:
    """Whether rows that have to stay where they are leave no direction."""
    if len(fixed) < fixed.shape[1]:
        return False
    values = np.linalg.svd(fixed, compute_uv=False)
    return bool(values[-1] > FIRM * values[0])


def _program(fixed: FloatArray, upwards: FloatArray) -> FloatArray:
    """The direction that leaves some rows in place and moves as many others upwards as any, and by how much, up to 1.

    Raises
    ------
    FloatingPointError
    """
    k, m = fixed.shape[1], len(upwards)
    message = ""
    # Presolving loses some programs with many equations, whose variables are all free.
    for presolve in (True, False):
        answer = scipy.optimize.linprog(
            np.r_[np.zeros(k), -np.ones(m)],
            A_ub=sparse.hstack([sparse.csr_matrix(-upwards), sparse.identity(m)], format="csr"),
            b_ub=np.zeros(m),
            A_eq=np.hstack([fixed, np.zeros((len(fixed), m))]) if len(fixed) else None,
            b_eq=np.zeros(len(fixed)) if len(fixed) else None,
            bounds=[(None, None)] * k + [(0.0, 1.0)] * m,
            method="highs",
            options={"presolve": presolve},
        )
        if answer.status == 0:
            return np.asarray(answer.x)
        message = answer.message
    raise FloatingPointError(f"the linear program that looks for separation has no answer: {message}")


def _by_one(column: FloatArray, sign: FloatArray) -> Separation:
    """Separation by one column: up or down, if no row stands in the way."""
    for direction in (1.0, -1.0):
        along = direction * column
        if np.all(along * sign >= 0) and not np.any(along[sign == 0]) and np.any(along):
            return Separation(np.array([direction]), along != 0)
    return Separation(np.zeros(1), np.zeros(column.size, dtype=bool))


def needed_row(column: FloatArray, likelihood: RowSites) -> int | None:
    """The row without which a column alone separates the responses, such as that of the only event, if there is one.

    Parameters
    ----------
    column : (n,) array
    likelihood : RowSites
    """
    sign = likelihood.rises()
    for direction in (1.0, -1.0):
        along = direction * column
        in_the_way = np.flatnonzero((along * sign < 0) | ((sign == 0) & (along != 0)))
        if in_the_way.size == 1 and likelihood.copies[in_the_way[0]] <= 1.0:
            return int(in_the_way[0])
    return None


def dimensions(columns: FloatArray, likelihood: RowSites) -> int:
    """Dimension of the cone of directions that separate; those of a cone are all that leave the other rows in place.

    Parameters
    ----------
    columns : (n, k) array
        Of full rank.
    likelihood : RowSites
    """
    n, k = columns.shape
    pure = likelihood.rises() != 0
    unit = columns / np.linalg.norm(columns, axis=0)
    # Independent rows can be moved each by itself.
    moved = pure if n == k else separation(np.round(unit, DIGITS), likelihood).rows
    if not moved.any():
        return 0
    return k - int(np.linalg.matrix_rank(unit[~moved], tol=LEAST))


@dataclass(frozen=True, slots=True)
class Balance:
    """Unpenalised columns in the balance of a fit: what its sites pull at their coefficients with is 0 in sum.

    Sites whose likelihood does not fall in one direction pull in it. Where weights above 0 for what they pull keep
    the balance without some of them, no direction separates the others: it would move all of them with the pull, or
    none (Gordan's theorem). Only where such weights are not found at once the linear program is asked.

    Attributes
    ----------
    columns : (N, k) array
        The flat coordinates at the sites, each of which is that of one row.
    pull : (N,) array
        Derivatives of the logs of the sites at the posterior mean.
    sign : (N,) array
        Where the likelihood at the site does not fall: see :meth:`RowSites.rises`.
    row : (N,) int array
        The row of each site.
    copies : (n,) array
        Of the rows.
    """

    columns: FloatArray
    pull: FloatArray
    sign: FloatArray
    row: IntArray
    copies: FloatArray

    @classmethod
    def of(cls, node: Approximation, likelihood: RowSites, columns: Any) -> Balance:
        """From the approximation of a fit to all rows."""
        row, pull = likelihood.of_single_rows(node.sites.shift - node.sites.precision * node.mean)
        some = slice(row.size)
        return cls(np.asarray(columns)[some], pull, likelihood.rises()[some], row, likelihood.copies)

    def separates(self) -> bool:
        """Whether the columns, which are independent, separate the responses."""
        return self._separates_without(np.empty(0, dtype=np.intp))

    def needed_parts(self, parts: Sequence[IntArray]) -> list[int]:
        """The parts of the rows without each of which the columns separate the responses, by their positions."""
        doubtful = [g for g, rows in enumerate(parts) if not self._is_balanced(self._others(rows))]
        return self._needed_of(parts, doubtful)

    def needed(self) -> list[int]:
        """The rows without which the columns separate the responses."""
        size, n = np.abs(self.pull), self.copies.size
        some = self.copies <= 1.0
        try:
            root = np.linalg.cholesky((self.columns.T * size) @ self.columns)
            own = (scipy.linalg.solve_triangular(root, self.columns.T, lower=True) ** 2).sum(axis=0)
            # By Schwarz' inequality no weight changes by more without a row.
            bound = np.bincount(self.row, size * np.sqrt(own), n) * np.sqrt(own.max(initial=0.0))
            left = 1.0 - np.bincount(self.row, size * own, n)
            some &= ~(bound < (1.0 - CLEAR) * left) | (self.sign * self.pull <= 0)[self.sign != 0].any()
        except np.linalg.LinAlgError:
            pass
        rows = np.flatnonzero(some)
        found = self._needed_of(list(rows[:, None]), list(range(rows.size)))
        return [int(rows[at]) for at in found]

    def _needed_of(self, parts: Sequence[IntArray], some: list[int]) -> list[int]:
        """Those of some parts that are needed: none is where the columns do not separate without all of them."""
        if not some or not self._separates_without(np.concatenate([parts[g] for g in some])):
            return []
        if len(some) == 1:
            return some
        return sorted(self._needed_of(parts, some[::2]) + self._needed_of(parts, some[1::2]))

    def _separates_without(self, rows: IntArray) -> bool:
        """Whether the columns, without some rows, separate the responses or are collinear."""
        keep = self._others(rows)
        if self._is_balanced(keep):
            return False
        if self._is_collinear(keep):
            return True
        unit = self.columns[keep] / np.linalg.norm(self.columns[keep], axis=0)
        return _by_directions(np.round(unit, DIGITS), self.sign[keep]).found

    def _others(self, rows: IntArray) -> BoolArray:
        """The sites of the other rows."""
        keep = np.ones(self.copies.size, dtype=bool)
        keep[rows] = False
        return keep[self.row]

    def _is_balanced(self, keep: BoolArray) -> bool:
        """Whether weights above 0 are found that keep some of the sites in balance."""
        columns, pull, sign = self.columns[keep], self.pull[keep], self.sign[keep]
        size = np.abs(pull)
        values, vectors = np.linalg.eigh((columns.T * size) @ columns)
        if not values[0] > SINGULAR * values[-1]:
            return False
        change = columns @ (vectors @ ((vectors.T @ (columns.T @ pull)) / values))
        force = pull - size * change
        rest = np.abs(columns.T @ force).max(initial=0.0)
        if rest > BALANCED * (np.abs(columns.T) @ size).max(initial=0.0):
            return False
        return bool((sign * force > CLEAR * size)[sign != 0].all())

    def _is_collinear(self, keep: BoolArray) -> bool:
        """Whether some of the sites do not determine all coefficients."""
        columns = self.columns[keep]
        return not len(columns) or int(np.linalg.matrix_rank(columns)) < columns.shape[1]

    def reason(self, rows: IntArray, others: RowSites) -> str:
        """Why needed rows have no density, given the likelihood of the others."""
        if self._is_collinear(self._others(rows)):
            return UNDETERMINED
        try:
            others.check_unseparated()
        except ValueError as separated:
            return f"without it {str(separated).partition(':')[0]}"
        return SEPARATED


def check_unpenalized(z: FloatArray, names: Sequence[str], likelihood: RowSites) -> None:
    """Raise ValueError, naming columns, if the unpenalised columns separate the responses.

    Parameters
    ----------
    z : (n, k) array
    names : sequence of str
    likelihood : RowSites
    """
    separated = separation(z, likelihood)
    if not separated.found:
        return
    likelihood.check_unseparated()
    size = np.abs(separated.direction) * np.abs(z).max(axis=0)
    guilty = [repr(names[j]) for j in np.flatnonzero(size > NOTHING * size.max()).tolist()]
    found = likelihood.separated_by(", ".join(guilty), int(separated.rows.sum()))
    raise ValueError(
        f"{found}, so the posterior of their coefficients is improper; let them be penalised, or leave them out"
    )
