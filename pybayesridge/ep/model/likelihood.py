"""The likelihood of the coefficients: least-squares data and normal noise."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pybayesridge._types import BoolArray, FloatArray
from pybayesridge.ep.model.least_squares import Data


@dataclass(frozen=True, slots=True)
class GaussianLikelihood:
    """Normal noise of a given variance.

    What EP, learning and draws need of the response goes through here; another likelihood has the same methods. A
    likelihood that is not normal gives, by its own sites, data and noise of this form to the linear algebra.

    Attributes
    ----------
    data : Data
        Least-squares data with d columns.
    noise_var : float
        s2 > 0.
    """

    data: Data
    noise_var: float

    @property
    def n_columns(self) -> int:
        """Number of coefficients d."""
        return self.data.n_columns

    def columns(self, keep: BoolArray) -> GaussianLikelihood:
        """Keep only some of the columns."""
        return self if np.all(keep) else replace(self, data=self.data.columns(keep))

    @property
    def precision(self) -> FloatArray:
        """Precision of the data for each coefficient alone: the diagonal of ``X'X / s2``, (d,)."""
        return self.data.gram_diag / self.noise_var

    @property
    def cross(self) -> FloatArray:
        """``X'y / s2``, (d,)."""
        return self.data.cross / self.noise_var

    def gram(self) -> FloatArray:
        """``X'X / s2``, (d, d)."""
        return self.data.root.T @ self.data.root / self.noise_var

    def gram_times(self, v: FloatArray) -> FloatArray:
        """``X'X v / s2``, (d,)."""
        return self.data.root.T @ (self.data.root @ v) / self.noise_var

    def gradient(self, mean: FloatArray) -> FloatArray:
        """``X'(y - X mean) / s2``, (d,)."""
        return self.data.root.T @ (self.data.target - self.data.root @ mean) / self.noise_var

    def misfit(self, mean: FloatArray) -> float:
        """``||y - X mean||^2 / s2``."""
        return self.data.rss(mean) / self.noise_var

    @property
    def log_norm(self) -> float:
        """``-(nu / 2) log 2 pi s2``."""
        return -0.5 * self.data.nu * float(np.log(2.0 * np.pi * self.noise_var))

    @property
    def log_null(self) -> float:
        """Log likelihood where every coefficient is zero."""
        return -0.5 * (self.data.nu * float(np.log(2.0 * np.pi * self.noise_var)) + self.data.yy / self.noise_var)

    def slope(self, mean: FloatArray, fitted: float) -> float:
        """Derivative of EP's log evidence in log s2; `fitted` is the trace of ``X'X A^-1 / s2``."""
        return 0.5 * (self.misfit(mean) + fitted - self.data.nu)
