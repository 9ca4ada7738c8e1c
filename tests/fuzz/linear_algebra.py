"""Dense linear algebra in long double, written plainly: Householder's QR and the one-sided Jacobi SVD.

NumPy's and SciPy's factorisations stop at double precision; these share nothing with them.
"""

from __future__ import annotations

from functools import cache

import numpy as np

LONG = np.longdouble

EPS = np.finfo(LONG).eps

ENOUGH = float(EPS) < 2e-19
"""Whether this machine's long double is longer than a double, so that the oracle is worth asking."""

SWEEPS = 60
"""Jacobi's iteration takes about six sweeps; more than this would be an error of the program."""


def reflect(a, *, pivot=False):
    """Householder's QR: ``(reflectors, triangle, order)`` with ``a[:, order] = Q triangle``."""
    r = np.array(a, dtype=LONG)
    m, n = r.shape
    order = np.arange(n)
    reflectors = []
    for j in range(min(m, n)):
        if pivot:
            best = j + int((r[j:, j:] ** 2).sum(axis=0).argmax())
            r[:, [j, best]] = r[:, [best, j]]
            order[[j, best]] = order[[best, j]]
        v = r[j:, j].copy()
        norm = np.sqrt(v @ v)
        if norm > 0:
            v[0] += norm if v[0] >= 0 else -norm
            v /= np.sqrt(v @ v)
            r[j:, j:] -= np.outer(2 * v, v @ r[j:, j:])
            r[j + 1 :, j] = 0
        reflectors.append(v)
    return reflectors, r[: min(m, n)], order


def times_q(reflectors, b, *, transpose=False):
    """``Q b`` or ``Q'b`` of :func:`reflect`, b of m rows."""
    out = np.array(b, dtype=LONG)
    steps = list(enumerate(reflectors))
    for j, v in steps if transpose else reversed(steps):
        out[j:] -= np.outer(2 * v, v @ out[j:])
    return out


def solve_upper(r, b):
    """``r^-1 b`` for an upper triangle."""
    out = np.array(b, dtype=LONG)
    for i in range(len(r) - 1, -1, -1):
        out[i] = (out[i] - r[i, i + 1 :] @ out[i + 1 :]) / r[i, i]
    return out


def solve_lower(r, b):
    """``r'^-1 b`` for an upper triangle r."""
    out = np.array(b, dtype=LONG)
    for i in range(len(r)):
        out[i] = (out[i] - r[:i, i] @ out[:i]) / r[i, i]
    return out


@cache
def _rounds(k):
    """Every pair of k columns once, in rounds of disjoint pairs."""
    ring = list(range(k + k % 2))
    rounds = []
    for _ in range(len(ring) - 1):
        half = len(ring) // 2
        pairs = [(i, j) for i, j in zip(ring[:half], reversed(ring[half:]), strict=True) if max(i, j) < k]
        rounds.append((np.array([i for i, _ in pairs]), np.array([j for _, j in pairs])))
        ring = [ring[0], ring[-1], *ring[1:-1]]
    return rounds


def _orthogonalize(a):
    """Rotate the columns of a (m, k) until they are orthogonal: ``(a V, V)``."""
    m, k = a.shape
    both = np.hstack([a.T, np.eye(k, dtype=LONG)])
    for _ in range(SWEEPS if k > 1 else 0):
        turned = False
        for i, j in _rounds(k):
            x, y = both[i], both[j]
            xx, yy, xy = (np.einsum("ij,ij->i", u[:, :m], v[:, :m]) for u, v in ((x, x), (y, y), (x, y)))
            turn = np.abs(xy) > max(m, 4) * EPS * np.sqrt(xx * yy)
            if not turn.any():
                continue
            turned = True
            zeta = (yy - xx) / np.where(turn, 2 * xy, 1)
            tangent = np.where(turn, np.where(zeta >= 0, 1, -1) / (np.abs(zeta) + np.hypot(1, zeta)), 0)
            cosine = 1 / np.sqrt(1 + tangent**2)
            sine = (cosine * tangent)[:, None]
            cosine = cosine[:, None]
            both[i], both[j] = cosine * x - sine * y, sine * x + cosine * y
        if not turned:
            return both[:, :m].T, both[:, m:].T
    if k > 1:
        raise ArithmeticError("Jacobi's iteration has not converged")
    return both[:, :m].T, both[:, m:].T


def svd(a):
    """``(u, s, v)`` with ``a = u diag(s) v'``, s descending, of min(m, n) columns each.

    A pivoted QR first, then Jacobi's rotations of the transposed triangle: small singular values come out with
    nearly the accuracy that the columns have.
    """
    m, n = a.shape
    if m < n:
        u, s, v = svd(a.T)
        return v, s, u
    reflectors, r, order = reflect(a, pivot=True)
    rotated, v = _orthogonalize(r.T)
    s = np.sqrt((rotated**2).sum(axis=0))
    rank = np.argsort(-s, kind="stable")
    s, rotated, v = s[rank], rotated[:, rank], v[:, rank]
    right = np.zeros((n, n), dtype=LONG)
    right[order] = rotated / np.where(s > 0, s, 1)
    padded = np.zeros((m, n), dtype=LONG)
    padded[:n] = v
    return times_q(reflectors, padded), s, right
