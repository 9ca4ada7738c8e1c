"""Separation: directions along which the likelihood does not fall, by linear programming.

A direction d separates if ``z_i'd >= 0`` for rows whose likelihood does not fall upwards (successes only), ``<= 0``
for those whose does not fall downwards (failures only), ``= 0`` for the others, and not all are 0. Along it the
likelihood stays as it is or rises, so that with a flat prior the posterior has no finite integral.

Rows that weights above 0 keep in balance, ``sum_i w_i sign_i z_i = 0``, are moved by no such direction: it would move
all of them with the pull, or none (Gordan's theorem). The residuals of a logistic regression are such weights.
Newton's method finds them in a few steps for nearly all data, and where rows are separated, for the others: those
leave few directions. Only where it does not, the linear program finds a direction that moves every row which any
direction moves (Konis 2007, "Linear programming algorithms for detecting separated data in binary logistic regression
models").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from scipy import sparse
from scipy.special import expit

from pybayesridge._types import BoolArray, FloatArray, IntArray
from pybayesridge.posterior.left_out import UNDETERMINED
from pybayesridge.sites.approximation import Approximation
from pybayesridge.sites.likelihood import RowSites

MOVED = 1e-6
"""A row whose part in the program is larger counts as moved: each is 0 or 1 at the optimum."""

NOTHING = 1e-9
"""Coefficients of the direction, and moves of rows, that are smaller, relative to the largest, are 0."""

DIGITS, LEAST = 12, 1e-9
"""Rows of orthonormal columns that agree to so many digits are one, and they span a dimension if they reach so far
into it."""

STEPS, HALVINGS = 30, 6
"""Newton steps of the logistic regression, and halvings of one, the most."""

FAINT, STIFF = 1e-6, 100.0
"""What is added to the weights of rows in the balance, and the springs of rows that have to stay where they are."""

LEAVES = 0.5
"""A row that a Newton step moves by so much, in logits, may be separated: then it is 1 or more in the end."""

EVEN = 1e-12
"""Forces that pull less, relative to their norm, along each of some columns of norm 1 are in balance."""

FLAT = 1e-13
"""Reciprocal of the condition of the balance from which rows leave no direction."""

OF_PART, GROWTH = 15, 5
"""Rows for each column by which many are first looked at, and growth of their number while these are separated."""

MOST_LOOKED_AT, MOST_PROGRAMMED = 10_000_000, 1_000_000
"""Most numbers of columns that are looked at where separation only makes numbers inaccurate, and with which the
linear program is tried then."""

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


def separation(columns: FloatArray, likelihood: RowSites, most: float = np.inf) -> Separation:
    """Look for separation by all columns together.

    Parameters
    ----------
    columns : (n, k) array
        Of full rank.
    likelihood : RowSites
    most : float
        Most numbers with which the linear program is tried, where it is needed; with more, nothing is found.
    """
    return _by_directions(columns, likelihood.rises(), most)


def is_looked_at(n: int, k: int, likelihood: RowSites) -> bool:
    """Whether it is of use, and does not take too long, to ask if k columns with n rows separate the responses.

    It is not where there are more than half as many columns as rows, since these separate most responses.
    """
    return 2 * k <= n and n * k <= MOST_LOOKED_AT and bool(likelihood.rises().any())


def separates(columns: FloatArray, likelihood: RowSites, eta: FloatArray) -> bool:
    """Whether columns separate the responses, where that is looked at.

    Parameters
    ----------
    columns : (n, k) array
        Of full rank.
    likelihood : RowSites
    eta : (n,) array
        Linear predictors of a fit, from which the balance is soon found.
    """
    (n, k), sign = columns.shape, likelihood.rises()
    if not is_looked_at(n, k, likelihood):
        return False
    # What moves none of some rows that leave no direction moves no others.
    stride = n // (OF_PART * k)
    while stride:
        some = columns[::stride]
        if _balanced(some / _norms(some), sign[::stride], eta[::stride])[0].all():
            return False
        stride //= GROWTH
    return _by_directions(_unit(columns), sign, MOST_PROGRAMMED).found


def _norms(columns: FloatArray) -> FloatArray:
    """Norms of columns, 1 of those that are 0."""
    size = np.linalg.norm(columns, axis=0)
    return np.where(size > 0, size, 1.0)


def _unit(columns: FloatArray) -> FloatArray:
    """Columns of norm 1, in which equal rows are equal in spite of rounding errors."""
    return np.round(columns / _norms(columns), DIGITS)


def _by_directions(columns: FloatArray, sign: FloatArray, most: float = np.inf) -> Separation:
    """Separation of rows whose likelihoods do not fall in the directions `sign` (n,); 0 where they fall in both."""
    n, k = columns.shape
    if k == 0 or not sign.any():
        return Separation(np.zeros(k), np.zeros(n, dtype=bool))
    if k == 1:
        return _by_one(columns[:, 0], sign)
    size = _norms(columns)
    unit = columns / size
    held, direction = _balanced(unit, sign, np.zeros(n))
    if held.all():
        return Separation(np.zeros(k), ~held)
    if direction is not None:
        return Separation(direction / size, ~held)
    if held.any():
        free = _directions_left(unit[held])
        along = unit[~held] @ free
        along[np.abs(along) <= NOTHING * np.abs(unit).max()] = 0.0
        own = _by_directions(along, sign[~held], most)
        rows = np.zeros(n, dtype=bool)
        rows[~held] = own.rows
        return Separation(free @ own.direction / size, rows)
    if n * k > most:
        return Separation(np.zeros(k), np.zeros(n, dtype=bool))
    # Rows that look alike are one row.
    different, back = np.unique(sign[:, None] * unit, axis=0, return_inverse=True)
    answer = _program(different)
    moved = (answer[k:] > MOVED)[np.ravel(back)]
    return Separation(answer[:k] / size if moved.any() else np.zeros(k), moved)


def _balanced(columns: FloatArray, sign: FloatArray, eta: FloatArray) -> tuple[BoolArray, FloatArray | None]:
    """Rows that no direction moves, those that have to stay among them; and a direction if it moves all rows.

    By Newton steps of a logistic regression, from some linear predictors, in which rows that have to stay are held by
    springs. There may be more such rows than are found. All are where they leave no direction too.
    """
    pure = sign != 0
    eta, coefficients, before = np.where(pure, eta, 0.0), np.zeros(columns.shape[1]), ~pure
    for _ in range(STEPS):
        pull, weight = _pull(eta, sign)
        found = _in_balance(columns, pull, weight)
        if found is None:
            break
        force, step = found
        change = columns @ step
        against = pure & (sign * force <= CLEAR * np.abs(pull))
        if not against.any():
            return np.ones(sign.size, dtype=bool), None
        leaves = against | (sign * change > LEAVES)
        if (leaves == before).all() and _keep_in_place(columns[~leaves], sign[~leaves], eta[~leaves]):
            return ~leaves, None
        before = leaves
        share = _share_of_step(eta, change, sign)
        eta, coefficients = eta + share * change, coefficients + share * step
        moved = sign * (columns @ coefficients)
        if moved.min() > MOVED * moved.max():
            return np.zeros(sign.size, dtype=bool), coefficients
    return ~pure, None


def _pull(eta: FloatArray, sign: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Derivatives of the logs of logistic functions, which are never 0, or of springs; minus second derivatives."""
    pure, missed = sign != 0, expit(-sign * eta)
    bend = np.maximum(missed * (1.0 - missed), FAINT)
    return np.where(pure, sign * (missed + FAINT), -STIFF * eta), np.where(pure, bend, STIFF)


def _share_of_step(eta: FloatArray, change: FloatArray, sign: FloatArray) -> float:
    """The part of a Newton step, halved as often as the logistic regression gets worse."""

    def loss(at: FloatArray) -> float:
        own = np.logaddexp(0.0, -sign * at) - FAINT * sign * at
        return float(np.where(sign != 0, own, 0.5 * STIFF * at**2).sum())

    now, share = loss(eta), 1.0
    for _ in range(HALVINGS):
        if loss(eta + share * change) <= now:
            break
        share *= 0.5
    return share


def _in_balance(columns: FloatArray, pull: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray] | None:
    """Forces in balance that differ from `pull` by `weight` times rows times a step, and this.

    None where they are not found, or the rows leave a direction.
    """
    bend = (columns.T * weight) @ columns
    try:
        root = scipy.linalg.cho_factor(bend, check_finite=False)
    except np.linalg.LinAlgError:
        return None
    rcond, _ = scipy.linalg.lapack.dpocon(root[0], np.abs(bend).sum(axis=0).max(), uplo="U")
    if not rcond > FLAT:
        return None
    step = scipy.linalg.cho_solve(root, columns.T @ pull, check_finite=False)
    step += scipy.linalg.cho_solve(root, columns.T @ (pull - weight * (columns @ step)), check_finite=False)
    force = pull - weight * (columns @ step)
    if not np.abs(columns.T @ force).max() <= EVEN * np.linalg.norm(force):
        return None
    return force, step


def _keep_in_place(columns: FloatArray, sign: FloatArray, eta: FloatArray) -> bool:
    """Whether rows keep each other in balance, in the dimensions that they span."""
    if not columns.any():
        return bool(sign.size)
    values, right = _singular(columns)
    spanned = columns @ right[values > LEAST * values[0]].T
    pull, weight = _pull(eta, sign)
    found = _in_balance(spanned, pull, weight)
    return found is not None and bool((sign * found[0] > CLEAR * np.abs(pull))[sign != 0].all())


def _directions_left(columns: FloatArray) -> FloatArray:
    """Orthonormal directions (k, q) along which rows stay where they are."""
    values, right = _singular(columns)
    rank = int((values > LEAST * values[0]).sum())
    return np.ascontiguousarray(right[rank:].T)


def _singular(columns: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Singular values (k,) and right vectors (k, k) of rows."""
    k = columns.shape[1]
    _, values, right = np.linalg.svd(np.linalg.qr(columns, mode="r"))
    return np.r_[values, np.zeros(k - values.size)], right


def _program(upwards: FloatArray) -> FloatArray:
    """The direction that moves as many rows upwards as any, and by how much, up to 1.

    Raises
    ------
    FloatingPointError
    """
    m, k = upwards.shape
    message = ""
    # Presolving loses some programs, whose variables are all free.
    for presolve in (True, False):
        answer = scipy.optimize.linprog(
            np.r_[np.zeros(k), -np.ones(m)],
            A_ub=sparse.hstack([sparse.csr_matrix(-upwards), sparse.identity(m)], format="csr"),
            b_ub=np.zeros(m),
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
    unit = _unit(columns)
    # Independent rows can be moved each by itself.
    moved = pure if n == k else separation(unit, likelihood).rows
    if not moved.any():
        return 0
    return k - int(np.linalg.matrix_rank(unit[~moved], tol=LEAST))


@dataclass(frozen=True, slots=True)
class Balance:
    """Unpenalised columns in the balance of a fit: what its sites pull at their coefficients with is 0 in sum.

    Sites whose likelihood does not fall in one direction pull in it. Where weights above 0 for what they pull keep
    the balance without some of them, no direction separates the others. Only where such weights are not found at once
    separation is looked for.

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
        return _by_directions(_unit(self.columns[keep]), self.sign[keep]).found

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
