"""The equations at many nodes with three groups, the largest of which is eliminated: what nodes have in common.

Of the other columns those of the next largest group, the head, take nearly all of the time. With t and a^2 the
variances of the eliminated group and of the head, and with F of :mod:`pybayesridge.bands.eliminated`, which depends
on t alone, in blocks of the head and of the rest,

    S_11 = a^2 F_11 + 1 = L_11 L_11',   G = L_11^-1 a F_12,   S_22 = A_2 (F_22 - G'G) A_2 + 1

so that nodes that differ in other variances share all but the last, which is small. With the coefficients a u_1 of
the head, and with ``r_1, r_2`` what is on the right for coefficients 1,

    u_1 = S_11^-1 a r_1 - H b_2,   H = L_11^-T G,   b_2 = K (r_2 - G' L_11^-1 a r_1),   K = A_2 S_22^-1 A_2

and the covariance of the coefficients of the head is ``a^2 (S_11^-1 + H K H')``, that with the rest ``-a H K``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from scipy.linalg import cho_factor, cho_solve, cholesky, solve_triangular
from scipy.linalg.lapack import dpotri

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.bands.covariance import Factors
from pybayesridge.bands.eliminated import Eliminated, EliminatedSolved, SplitRows
from pybayesridge.bands.system import CANCELS, System

DIGITS = 11
"""Roots of variances that agree to so many digits are the same."""

SMALLER = 0.5
"""Equations are shared where the rest has at most this many columns for each of the head."""

MOST_REST = 128
"""And at most so many columns: what nodes share has as many for each column of the head and each eliminated level."""

MOST_HELD = 1 << 26
"""Numbers of the heads that are held at once, at most, 512 MB; the oldest go."""


@dataclass(frozen=True, slots=True)
class Split:
    """Which of the other columns are in the head, for one target.

    Attributes
    ----------
    system : Eliminated
        Of the target alone.
    head : int
        Position of its term among all.
    at, rest : int arrays
        Positions of its columns, and of all others, among the other columns and Q.
    ones : (r,) array
        1 for penalised columns of the rest, 0 for Q.
    terms : tuple of int
        Positions of the terms in the rest.
    """

    system: Eliminated
    head: int
    at: IntArray
    rest: IntArray
    ones: FloatArray
    terms: tuple[int, ...]

    @classmethod
    def of(cls, system: System | Eliminated, target: int) -> Split | None:
        """The split of equations with three variances; None where nodes have little in common."""
        if not isinstance(system, Eliminated) or [len(each) for each in system.terms.bands] != [1, 1, 1]:
            return None
        others = [t for t in range(3) if t != system.term]
        place = dict(zip(others, system.others.columns, strict=True))
        head = max(others, key=lambda t: place[t].size)
        at = place[head][0]
        rest = np.setdiff1d(np.arange(len(system.whole)), at)
        if rest.size > min(SMALLER * at.size, MOST_REST) or at.max() >= system.grouped.shape[1]:
            return None
        ones = (rest < system.rest.size).astype(np.float64)
        own = replace(system, xty=system.xty[:, [target]])
        return cls(own, head, at, rest, ones, tuple(t for t in others if t != head))

    def of_head(self, factors: Factors) -> tuple[float, float]:
        """Roots of the variances on which a head depends."""
        root, own = (float(factors[t][0, 0]) for t in (self.system.term, self.head))
        return root, own

    def nodes_by_head(self, factors: Factors) -> list[IntArray]:
        """The nodes that have a head in common, of A (M, 1, 1) of each term."""
        pairs = np.column_stack([factors[t][:, 0, 0] for t in (self.system.term, self.head)])
        known: dict[tuple[str, str], list[int]] = {}
        for m, (root, own) in enumerate(pairs.tolist()):
            known.setdefault(key(root, own), []).append(m)
        return [np.array(each) for each in known.values()]

    def roots_of_rest(self, factors: Factors) -> FloatArray:
        """The diagonal of A_2, (r,)."""
        out = np.ones(len(self.system.whole))
        for t, (columns,) in zip(self._others, self.system.others.columns, strict=True):
            out[columns] = factors[t][0, 0]
        return out[self.rest]

    @property
    def _others(self) -> list[int]:
        return [t for t in range(3) if t != self.system.term]


@dataclass(frozen=True, slots=True)
class Head:
    """What nodes with the same variances of the eliminated group and of the head share.

    Attributes
    ----------
    split : Split
    root, own : float
        Roots of t and of a^2.
    h : (p1,) array
    lower : (m, m) array or None
        L_11, where it was to be kept.
    log_determinant : float
        ``sum log h + log|S_11|``.
    across : (m, r) array
        H.
    solution : (m,) array
        ``S_11^-1 a r_1``.
    rest : (r, r) array
        ``F_22 - G'G``.
    right : (r,) array
        ``r_2 - G' L_11^-1 a r_1``.
    """

    split: Split
    root: float
    own: float
    h: FloatArray
    lower: FloatArray | None
    log_determinant: float
    across: FloatArray
    solution: FloatArray
    rest: FloatArray
    right: FloatArray

    @classmethod
    def of(cls, split: Split, root: float, own: float, *, keep: bool = False) -> Head:
        """The head at roots of the variances."""
        system, at, rest = split.system, split.at, split.rest
        h = 1 + root**2 * system.size
        roots = np.ones(len(system.whole))
        roots[at] = own
        s = system.upper(roots, 1.0 / (system.size * h))
        beside = np.empty((len(s), rest.size))
        for c, j in enumerate(rest.tolist()):
            beside[:j, c], beside[j:, c] = s[:j, j], s[j, j:]
        first = s[at[0] : at[-1] + 1, at[0] : at[-1] + 1] if at[-1] - at[0] + 1 == at.size else s[np.ix_(at, at)]
        first[np.diag_indices(at.size)] += 1.0
        lower = cholesky(first.T, lower=True, overwrite_a=True, check_finite=False)
        xty = system.xty[:, 0]
        right = np.zeros(len(system.whole))
        right[: system.rest.size] = xty[system.rest]
        right -= system.times_eliminated((root**2 * xty[system.levels] / h)[:, None])[:, 0]
        both = np.column_stack([beside[at], own * right[at]])
        half = solve_triangular(lower, both, lower=True, check_finite=False)
        g, z = half[:, :-1], half[:, -1]
        whole = solve_triangular(lower, half, lower=True, trans="T", check_finite=False)
        across, solution = whole[:, :-1], whole[:, -1]
        return cls(
            split=split,
            root=root,
            own=own,
            h=h,
            lower=lower if keep else None,
            log_determinant=float(np.log(h).sum()) + 2.0 * float(np.log(np.diag(lower)).sum()),
            across=across,
            solution=solution,
            rest=beside[rest] - g.T @ g,
            right=right[rest] - g.T @ z,
        )

    def _factor(self, roots: FloatArray) -> tuple[FloatArray, bool]:
        """S_22 factorised, at the diagonal of A_2."""
        s = roots[:, None] * self.rest * roots
        s[np.diag_indices_from(s)] += self.split.ones
        found: tuple[FloatArray, bool] = cho_factor(s, lower=True, check_finite=False)
        return found

    def at(self, factors: Factors) -> SharedSolved:
        """The equations at given variances."""
        system, roots = self.split.system, self.split.roots_of_rest(factors)
        lower, _ = factor = self._factor(roots)
        b2 = roots * cho_solve(factor, roots * self.right, check_finite=False)
        beside = np.empty(len(system.whole))
        beside[self.split.rest] = b2
        beside[self.split.at] = self.own * (self.solution - self.across @ b2)
        mean, xty = np.empty(system.p), system.xty[:, 0]
        mean[system.rest] = beside[: system.rest.size]
        of_levels = system.times_rest(beside[:, None])[:, 0]
        mean[system.levels] = self.root**2 * (xty[system.levels] - of_levels) / self.h
        log_determinant = self.log_determinant + 2.0 * float(np.log(np.diag(lower)).sum())
        return SharedSolved(log_determinant, mean, 1.0 - float(xty @ mean))

    def variances(self, factors: Factors, nodes: IntArray, rows: SplitRows) -> FloatArray:
        """Variances of all coefficients, and of rows without columns of groups, relative to s2, (nodes, p + m)."""
        assert self.lower is not None
        split, system = self.split, self.split.system
        k = np.stack([self._covariance(split.roots_of_rest(tuple(f[m] for f in factors))) for m in nodes.tolist()])
        inverse, info = dpotri(self.lower, lower=1)
        if info:
            raise np.linalg.LinAlgError("the equations of the columns are singular")
        u = np.zeros((len(system.whole), len(system.whole)))
        at, rest = np.ix_(split.at, split.at), split.rest[split.ones > 0]
        u[at] = self.own**2 * inverse
        u[at] += self.own**2 * inverse.T
        u[np.diag_indices_from(u)] /= 2
        across, ratio = self.own * self.across, self.root**2 / self.h
        spread = np.zeros((len(u), split.rest.size))
        spread[split.at], spread[split.rest, np.arange(split.rest.size)] = -across, 1.0
        out = np.empty((nodes.size, system.p + rows.dense.shape[0]))
        out[:, system.rest[split.at]] = np.diag(u)[split.at] + _forms(across, k)
        out[:, system.rest[rest]] = np.einsum("mii->mi", k)[:, split.ones > 0]
        out[:, system.levels] = ratio + ratio**2 * (system.forms(u) + _forms(system.times_rest(spread), k))
        beside = np.zeros((rows.dense.shape[0], len(u)))
        beside[:, system.grouped.shape[1] :] = rows.dense
        out[:, system.p :] = _forms(beside[:, split.rest], k)
        return out

    def _covariance(self, roots: FloatArray) -> FloatArray:
        """K."""
        factor = self._factor(roots)
        out: FloatArray = roots[:, None] * cho_solve(factor, np.diag(roots), check_finite=False)
        return out


def key(root: float, own: float) -> tuple[str, str]:
    """Roots of the variances of the eliminated group and of the head, by which heads are told apart."""
    return f"{root:.{DIGITS}e}", f"{own:.{DIGITS}e}"


def _forms(rows: FloatArray, k: FloatArray) -> FloatArray:
    """``c'K c`` for rows c (l, r) and each K (m, r, r), (m, l)."""
    return np.stack([((rows @ one) * rows).sum(axis=1) for one in k])


@dataclass(frozen=True, slots=True)
class SharedSolved:
    """The equations at given variances, as far as densities need them: see :class:`EliminatedSolved`."""

    log_determinant: float
    mean: FloatArray
    left: float


@dataclass(frozen=True, slots=True)
class Heads:
    """Equations at given variances, which keep the heads that they have made last."""

    split: Split
    known: dict[tuple[str, str], Head] = field(default_factory=dict)

    def at(self, factors: Factors) -> SharedSolved | EliminatedSolved:
        """The equations; those of all columns where hardly anything is left of y."""
        roots = self.split.of_head(factors)
        name = key(*roots)
        if name not in self.known:
            self.known[name] = Head.of(self.split, *roots)
            while len(self.known) > max(MOST_HELD // (self.split.rest.size * len(self.split.system.whole)), 1):
                del self.known[next(iter(self.known))]
        found = self.known[name].at(factors)
        return found if found.left > CANCELS else self.split.system.at(factors, 0)
