"""Rows in the columns of several bands, of which one is a factor with very many levels.

``eta = Q h + X b + E a``: E, the dummies of the factor, and those of other groups keep their own entries; from the
other columns X that part is taken that the unpenalised ones explain. Only the flat h depend on that.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.bands.covariance import Factors, Terms
from pybayesridge.bands.eliminated import Eliminated
from pybayesridge.bands.mixed_problem import MixedProblem
from pybayesridge.bands.system import System
from pybayesridge.design.design import Design
from pybayesridge.sites.arrow import ArrowGaussian, ArrowRows
from pybayesridge.sites.bands import InBands, in_units_of
from pybayesridge.sites.coordinates import to_user
from pybayesridge.sites.gaussian import Gaussian

MOST_DENSE = 1 << 22
"""Numbers of rows and columns in which separation is looked for."""

LEAST_WORK = 1 << 22
"""Rows times the square of the levels of a group from which on eliminating it saves time."""

CHUNK = 1 << 22
"""Numbers of linear functions, and of their means and standard deviations at nodes, that are held at once."""


class SeparatedLevelsError(ValueError):
    """Rows in the columns of all levels are needed, and would take too much memory."""


@dataclass(frozen=True, slots=True)
class ArrowFunctionals:
    """Linear functions of h, coefficients, and effects of levels without a row.

    Attributes
    ----------
    of_levels : (M, L) csr matrix
    beside : (M, k + p2) array
    outside : (M, K) array
    """

    of_levels: Any
    beside: FloatArray
    outside: FloatArray

    @property
    def count(self) -> int:
        """M."""
        return int(self.beside.shape[0])

    def part(self, which: slice) -> ArrowFunctionals:
        """Some of them."""
        return ArrowFunctionals(self.of_levels[which], self.beside[which], self.outside[which])

    def by_columns(self) -> ArrowFunctionals:
        """The same."""
        return self


@dataclass(frozen=True, slots=True)
class ArrowSpace(InBands):
    """Rows in the columns of all bands, and the way back; see :class:`pybayesridge.sites.bands.BandSpace`.

    Attributes
    ----------
    level : (n,) int array
    value : (n,) array
        Entry of each row in the column of its level, 0 where it has none.
    beside : (n, k + p2) array, Fortran order
        ``[Q, X]``.
    k : int
        Number of unpenalised columns.
    design : Design
        Its columns on the scale of the prior.
    system : Eliminated
        The columns by their parts.
    """

    joint: ClassVar[bool] = False

    level: IntArray
    value: FloatArray
    beside: FloatArray
    k: int
    design: Design
    system: Eliminated

    @property
    def terms(self) -> Terms:  # type: ignore[override]
        """Which columns belong together."""
        return self.system.terms

    @property
    def distances(self) -> int:
        """How many flat coordinates are of no column; they come first."""
        return self.k - self.design.block.k

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.level.size)

    @property
    def rank(self) -> int:
        """Number of penalised coordinates."""
        return self.system.p

    @property
    def flops(self) -> float:
        """Floating-point operations of the largest call of BLAS in an approximation."""
        return float(self.system.levels.size * self.beside.shape[1] ** 2)

    @property
    def numbers(self) -> int:
        """Numbers of a joint posterior."""
        m = self.beside.shape[1]
        return (self.system.levels.size + m) * (m + 2)

    @property
    def diagonal(self) -> FloatArray:
        """Sums of squares of the columns, weighted by their trials, (p,)."""
        return self.system.diagonal

    def squares(self, b: FloatArray) -> FloatArray:
        """Sums of squares of what coefficients (p, m) explain, the unpenalised columns projected out, (m,)."""
        return self.system.squares(b)

    def rows_in(self, columns: IntArray) -> FloatArray:
        """Rows in Q and some of the penalised columns, (n, k + m).

        Raises
        ------
        SeparatedLevelsError
            If they take too much memory.
        """
        if self.n * (self.k + columns.size) > MOST_DENSE:
            raise SeparatedLevelsError(
                "the responses are separated within nearly all levels of a group, so that nothing but the prior "
                "limits its variance: use groups with fewer levels, fit('reml'), or fewer terms"
            )
        out = np.zeros((self.n, self.k + self.rank))
        out[:, : self.k] = self.beside[:, : self.k]
        out[:, self.k + self.system.rest] = self.beside[:, self.k :]
        out[np.arange(self.n), self.k + self.system.levels[self.level]] += self.value
        return out[:, np.r_[np.arange(self.k), self.k + columns]]

    def without_rows(self) -> ArrowSpace:
        """The same with every array over rows emptied."""
        none = slice(0, 0)
        design = self.design.without_rows()
        return replace(self, level=self.level[none], value=self.value[none], beside=self.beside[none], design=design)

    def at(self, factors: Factors) -> ArrowAt:
        """The same at given covariances."""
        return ArrowAt(self, factors)

    def chunk(self, nodes: int) -> int:
        """How many linear functions are looked at together, at each of some nodes."""
        return max(1, CHUNK // max(nodes, self.beside.shape[1]))

    def functionals(self, x_rows: Any, z_rows: FloatArray) -> ArrowFunctionals:
        """Linear predictors of rows (m, p), (m, k); then what multiplies effects of new levels, if given."""
        system, design = self.system, self.design
        x, new = self.split(sparse.csr_matrix(x_rows))
        x = sparse.csc_matrix(x @ sparse.diags(1.0 / design.scale))
        groups = system.grouped.shape[1]
        plain = x[:, system.rest[groups:]].toarray() - z_rows @ system.taken
        none = np.zeros((x.shape[0], self.distances))
        beside = np.hstack([none, z_rows @ to_user(design), x[:, system.rest[:groups]].toarray(), plain])
        return ArrowFunctionals(sparse.csr_matrix(x[:, system.levels]), beside, new)

    def of_coefficients(self) -> Iterator[tuple[IntArray, ArrowFunctionals]]:
        """The effects of the levels, and the other penalised coefficients, on the scale of the prior."""
        levels, rest = self.system.levels, self.system.rest
        none = np.zeros((levels.size, self.k + rest.size))
        own = sparse.identity(levels.size, format="csr")
        yield levels, ArrowFunctionals(own, none, self.nothing_outside(levels.size))
        beside = np.hstack([np.zeros((rest.size, self.k)), np.eye(rest.size)])
        none = sparse.csr_matrix((rest.size, levels.size))
        yield rest, ArrowFunctionals(none, beside, self.nothing_outside(rest.size))

    def of_distances(self) -> ArrowFunctionals:
        """The flat coordinates that are of no column."""
        e = self.distances
        none = sparse.csr_matrix((e, self.system.levels.size))
        return ArrowFunctionals(none, np.eye(e, self.beside.shape[1]), self.nothing_outside(e))

    def on_user_scale(self, drawn: FloatArray, *_: Any) -> tuple[FloatArray, FloatArray]:
        """Unpenalised (m, k) and penalised (m, p) coefficients from draws of coordinates (k + p, m)."""
        plain = self.system.rest[self.system.grouped.shape[1] :]
        h, b = drawn[self.distances : self.k], drawn[self.k :]
        of_z = to_user(self.design) @ h - self.system.taken @ b[plain]
        return of_z.T, (b / self.design.scale[:, None]).T

    def others_at(self, beside: FloatArray, factors: Factors) -> FloatArray:
        """What multiplies h and u of the other columns, from what multiplies h and coefficients, (m, k + p2)."""
        out = np.array(beside, order="F")
        out[:, self.k :] = self.system.others.times_factors(beside[:, self.k :], self.system.with_rest(factors))
        return out

    def root(self, factors: Factors) -> float:
        """The standard deviation of the effects of the eliminated levels."""
        return float(factors[self.system.term][0, 0])


@dataclass(frozen=True, slots=True)
class ArrowAt:
    """Rows in the columns of all bands at given covariances; see :class:`pybayesridge.sites.coordinates.Space`."""

    space: ArrowSpace
    factors: Factors

    def scaled(self, log_t2: float) -> Any:
        """The ArrowRows for coordinates of unit prior variance; variances are those of the factors times t2."""
        space = self.space
        beside = space.beside if self._independent else space.others_at(space.beside, self.factors)
        return ArrowRows(space.level, space.value, beside, space.k, self._units(log_t2))

    @property
    def _independent(self) -> bool:
        return all(len(factor) == 1 for factor in self.space.system.with_rest(self.factors))

    def _units(self, log_t2: float) -> FloatArray:
        """Units of the coordinates of the rows, (k + p,)."""
        space, system = self.space, self.space.system
        units = np.r_[np.ones(space.k), np.full(space.rank, np.exp(0.5 * log_t2))]
        units[space.beside.shape[1] :] *= space.root(self.factors)
        if self._independent:
            for (columns,), factor in zip(system.others.columns, system.with_rest(self.factors), strict=True):
                units[space.k + columns] *= factor[0, 0]
        return units

    def at_center(self, center: FloatArray) -> FloatArray:
        """H and the coefficients from coordinates of the rows with a log t2 of 0, (k + p,)."""
        return self.coefficients(in_units_of(center, self._units(0.0))[:, None])[:, 0]

    def coefficients(self, u: FloatArray) -> FloatArray:
        """H and the coefficients in the order of the columns, from coordinates of unit prior variance, (k + p, m)."""
        space, system, m = self.space, self.space.system, self.space.beside.shape[1]
        out, k = np.empty(u.shape), space.k
        out[:k] = u[:k]
        out[k + system.rest] = system.others.coefficients(u[k:m], system.with_rest(self.factors))
        out[k + system.levels] = space.root(self.factors) * u[m:]
        return out

    def coefficient_sds(self, found: ArrowGaussian) -> FloatArray:
        """Posterior standard deviations of h and the coefficients in the order of the columns, (k + p,)."""
        space, system, m, k = self.space, self.space.system, found.m, self.space.k
        levels, out = system.levels.size, np.empty(self.space.k + self.space.rank)
        apart, beside = found.halves(
            space.root(self.factors) * sparse.identity(levels, format="csr"), np.zeros((levels, m))
        )
        out[k + system.levels] = np.asarray(apart.power(2).sum(axis=1)).ravel() + (beside**2).sum(axis=1)
        _, others = found.halves(sparse.csr_matrix((m, levels)), space.others_at(np.eye(m), self.factors))
        out[np.r_[np.arange(k), k + system.rest]] = (others**2).sum(axis=1)
        return np.sqrt(out)

    def of_all_columns(self, found: ArrowGaussian, log_t2: float) -> Gaussian:
        """The same joint posterior in the coordinates of :class:`pybayesridge.sites.bands.BandsAt`.

        Z is projected out of all columns there. With T their part in Q, ``Q h + (X - Q T) b = Q (h - T b) + X b``.
        A root of the precision becomes triangular by rotation, so that nothing cancels.
        """
        space, system, m, k = self.space, self.space.system, found.m, self.space.k
        levels = system.levels.size
        root = np.zeros((levels + m, k + space.rank), order="F")
        at, of_levels = np.r_[np.arange(k), k + system.rest], k + system.levels
        half = np.sqrt(found.d)
        root[np.arange(levels), of_levels] = half
        root[:levels, at], root[levels:, at] = found.cross / half[:, None], found.lower.T
        taken = np.zeros((k, space.rank))
        taken[space.distances :] = system.on_q.T / np.sqrt(space.design.n)
        taken = np.exp(0.5 * log_t2) * space.terms.times_factors(taken, self.factors)
        root[:, k:] -= root[:, :k] @ taken
        factor = np.transpose(np.linalg.qr(root, mode="r"))
        mean = np.empty(k + space.rank)
        mean[at], mean[of_levels] = found.mean[:m], found.mean[m:]
        mean[:k] += taken @ mean[k:]
        return Gaussian(np.asfortranarray(factor * np.sign(np.diag(factor))), mean)

    def in_units(self, coords: FloatArray, log_t2: float) -> FloatArray:
        """Functions of h and the coefficients without levels as those of coordinates of unit prior variance."""
        space, k = self.space, self.space.k
        beside = np.hstack([coords[:, :k], coords[:, k + space.system.rest]])
        return np.hstack([space.others_at(beside, self.factors), np.zeros((len(coords), space.system.levels.size))])

    def functionals_at(self, f: ArrowFunctionals) -> tuple[Any, FloatArray]:
        """What linear functions have of the levels and of the others in coordinates of unit prior variance."""
        return f.of_levels * self.space.root(self.factors), self.space.others_at(f.beside, self.factors)

    def variance_outside(self, outside: FloatArray) -> FloatArray:
        """Variances (m,) of the effects of new levels, that `outside` (m, K) multiplies."""
        return self.space.variance_of_new(outside, self.factors)

    def keeps(self, size: int) -> bool:
        """No: most of the nodes are left out in the end."""
        return False


def arrow_from_problem(problem: MixedProblem) -> ArrowSpace:
    """Rows in the columns of a problem one of whose factors is eliminated, and whose design is weighted by trials."""
    design, system = problem.design, problem.system
    assert isinstance(system, Eliminated)
    k, groups = design.block.k, system.grouped.shape[1]
    x = sparse.csc_matrix(design.x[:, design.columns], dtype=np.float64) @ sparse.diags(1.0 / design.scale)
    x = sparse.csc_matrix(x)
    own = sparse.csr_matrix(x[:, system.levels])
    counts = np.diff(own.indptr)
    level, value = np.zeros(design.n, dtype=np.intp), np.zeros(design.n)
    level[counts > 0], value[counts > 0] = (
        own.indices[own.indptr[:-1][counts > 0]],
        own.data[own.indptr[:-1][counts > 0]],
    )
    beside = np.empty((design.n, k + system.rest.size), order="F")
    q = design.block.q * np.sqrt(design.n)
    beside[:, :k] = q if design.block.sqrt_w is None else q / design.block.sqrt_w[:, None]
    beside[:, k : k + groups] = x[:, system.rest[:groups]].toarray()
    plain = system.rest[groups:]
    z_rows = _z_rows(design)
    beside[:, k + groups :] = x[:, plain].toarray() - z_rows @ system.taken
    return ArrowSpace(level, value, beside, k, design, system)


def eliminating(problem: MixedProblem) -> MixedProblem | None:
    """The problem with its largest group eliminated, if equations at given variances are then solved faster.

    A group is a term of its own of whose columns each row has one at most. None where none is large enough beside the
    other columns, or one is eliminated already.
    """
    design, terms = problem.design, problem.terms
    if not (isinstance(problem.system, System) and design.in_memory):
        return None
    for t in sorted(range(len(terms.columns)), key=lambda t: -terms.columns[t].size):
        bands, levels = terms.bands[t], terms.columns[t].size
        if 2 * levels < design.p or design.n * levels**2 < LEAST_WORK:
            return None
        if len(bands) == 1 and _is_group(design, terms.columns[t][0]):
            thin = replace(design, x=sparse.csc_matrix(design.x))
            return MixedProblem(thin, Eliminated.of(thin, list(terms.bands), list(terms.columns), bands[0]))
    return None


def _is_group(design: Design, columns: IntArray) -> bool:
    """Whether each row has one of some columns at most."""
    count = np.zeros(design.n, dtype=np.intp)
    for j in design.columns[columns].tolist():
        count += design.x[:, j] != 0
    return bool(count.max() <= 1)


def _z_rows(design: Design) -> FloatArray:
    """The unpenalised columns on the user's scale, (n, k), from the orthonormal basis of the weighted ones."""
    z = design.block.q @ design.block.r
    return z if design.block.sqrt_w is None else z / design.block.sqrt_w[:, None]
