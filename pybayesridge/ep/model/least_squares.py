"""The data of the Gaussian side, brought to one form whether rows or moments came in."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import eigh, qr

from pybayesridge._types import BoolArray, FloatArray, IntArray

#: Eigenvalues of X'X below this fraction of the largest are rounding.
_RANK_TOL = 1e-13

EPS = float(np.finfo(float).eps)

EIGENVALUE_NOISE = 4 * EPS
"""Errors of the eigenvalues of X'X, relative to the largest."""


@dataclass(frozen=True, slots=True)
class Data:
    """Least-squares data in k = min(n, d) or fewer rows: ``||y - X w||^2 = rss0 + ||target - root w||^2``.

    Attributes
    ----------
    root : ndarray (k, d)
        X itself when n <= d, else a square root of X'X.
    target : ndarray (k,)
        y, or its projection.
    rss0 : float
        What no w can explain, >= 0.
    gram_diag : ndarray (d,)
        Diagonal of X'X.
    cross : ndarray (d,)
        X'y.
    nu : float
        Degrees of freedom of the noise: rows less the rank of what was projected out.
    """

    root: FloatArray
    target: FloatArray
    rss0: float
    gram_diag: FloatArray
    cross: FloatArray
    nu: float

    @classmethod
    def from_rows(cls, X: FloatArray, y: FloatArray, nu: float | None = None) -> Data:
        """Take X (n, d) and y (n,); ``nu`` defaults to n."""
        n, d = X.shape
        gram_diag = np.einsum("ij,ij->j", X, X)
        cross = X.T @ y
        nu = float(n if nu is None else nu)
        if n == 0:
            return cls(np.zeros((1, d)), np.zeros(1), 0.0, gram_diag, cross, nu)
        if n <= d:
            return cls(np.ascontiguousarray(X), np.ascontiguousarray(y), 0.0, gram_diag, cross, nu)
        q, r = qr(X, mode="economic")
        target = q.T @ y
        rss0 = float(np.sum((y - q @ target) ** 2))
        return cls(np.ascontiguousarray(r), target, rss0, gram_diag, cross, nu)

    @classmethod
    def from_moments(cls, gram: FloatArray, cross: FloatArray, yy: float, nu: float) -> Data:
        """Take X'X (d, d), X'y (d,) and y'y."""
        gram = 0.5 * (gram + gram.T)
        # SciPy before 1.12 refuses a matrix without columns.
        lam, vec = eigh(gram) if gram.size else (np.zeros(0), np.zeros((0, 0)))
        keep = lam > _RANK_TOL * max(lam[-1], 0.0) if lam.size else np.zeros(0, dtype=bool)
        if not np.any(keep):
            return cls(np.zeros((1, lam.size)), np.zeros(1), yy, np.zeros(lam.size), np.zeros(lam.size), float(nu))
        root = np.sqrt(lam[keep])[:, None] * vec[:, keep].T
        target = (vec[:, keep].T @ cross) / np.sqrt(lam[keep])
        rss0 = max(float(yy - target @ target), 0.0)
        return cls(np.ascontiguousarray(root), target, rss0, np.diag(gram).copy(), cross.copy(), float(nu))

    @property
    def n_columns(self) -> int:
        """Number of coefficients d."""
        return self.root.shape[1]

    @property
    def yy(self) -> float:
        """Sum of squares of the response."""
        return self.rss0 + float(self.target @ self.target)

    def products(self, columns: IntArray) -> FloatArray:
        """Columns of X'X as rows, (m, d)."""
        return np.asarray(self.root[:, columns].T @ self.root)

    def rss(self, w: FloatArray) -> float:
        """Residual sum of squares at w (d,)."""
        return self.rss0 + float(np.sum((self.target - self.root @ w) ** 2))

    def without_rows(self) -> Data:
        """The same problem with another root of X'X where the root is X itself."""
        q, r = qr(self.root, mode="economic")
        return replace(self, root=np.ascontiguousarray(r), target=q.T @ self.target)

    def columns(self, keep: BoolArray) -> Data:
        """Keep only some of the columns."""
        root = np.ascontiguousarray(self.root[:, keep])
        return Data(root, self.target, self.rss0, self.gram_diag[keep], self.cross[keep], self.nu)

    def loss_of_moments(self, penalty: float) -> float:
        """Relative error by moments of X'X + penalty in its least direction and of the residual sum of squares."""
        eigenvalues = np.einsum("ij,ij->i", self.root, self.root)
        top = float(eigenvalues.max(initial=0.0))
        if top == 0.0:
            return 0.0
        least = float(eigenvalues.min()) / top if self.root.shape[0] == min(self.n_columns, self.nu) else 0.0
        residual = 16 * EPS * self.yy / self.rss0 if self.rss0 > 0 else 0.0
        return max(EIGENVALUE_NOISE / max(least + penalty / top, EIGENVALUE_NOISE), residual)
