"""The linear predictor in as few coordinates as the rank allows: ``eta = Q h + A a``.

Q is an orthonormal basis of the unpenalised columns, scaled to unit mean square, h flat. ``A = X V`` with X the
penalised columns on the scale of the prior, the unpenalised ones projected out, and V an orthonormal basis of its row
space: ``a = V'b ~ N(0, t2 I)``. Rows are weighted by their trials in means, variances and projections.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.binomial.likelihood import Binomial
from pybayesridge.design.build import build_design
from pybayesridge.design.design import Design
from pybayesridge.ridge.spectrum import Spectrum, rotate


@dataclass(frozen=True, slots=True)
class Coordinates:
    """Rows in coordinates, and the way back.

    Attributes
    ----------
    rows : (n, k + r) array, Fortran order
        ``[Q, A]``.
    k : int
        Number of unpenalised columns.
    design : Design
    spectrum : Spectrum
    """

    rows: FloatArray
    k: int
    design: Design
    spectrum: Spectrum

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.rows.shape[0])

    @property
    def rank(self) -> int:
        """Number of penalised coordinates."""
        return int(self.rows.shape[1]) - self.k

    @property
    def total_variance(self) -> float:
        """Sum of the variances of the penalised columns on the scale of the prior."""
        return float((self.spectrum.s**2).sum()) * self.spectrum.top**2 / self.design.n

    def without_rows(self) -> Coordinates:
        """The same with every array over rows emptied."""
        return Coordinates(self.rows[:0], self.k, self.design.without_rows(), self.spectrum.with_right(self.design))

    def scaled(self, log_t2: float) -> FloatArray:
        """The rows for coordinates of unit prior variance: ``[Q, t A]``."""
        out = self.rows.copy(order="F")
        out[:, self.k :] *= np.exp(0.5 * log_t2)
        return out


def coordinates(
    likelihood: Binomial,
    x: Any,
    *,
    penalized: IntArray,
    z: FloatArray,
    z_names: Sequence[str],
    z_constant: int | None,
    standardize: bool,
    constant_serves: bool = False,
) -> Coordinates:
    """Project, standardise and rotate the columns; the arguments are those of :func:`design.build_design`."""
    trials = likelihood.trials
    weights = None if np.ptp(trials) == 0 else trials / trials.mean()
    design, products = build_design(
        likelihood.proportion[:, None],
        x,
        penalized=penalized,
        z=z,
        z_names=z_names,
        z_constant=z_constant,
        weights=weights,
        standardize=standardize,
        constant_serves=constant_serves,
    )
    return from_design(design, rotate(design, products))


def from_design(design: Design, spectrum: Spectrum) -> Coordinates:
    """Rows in coordinates from a design of the columns, weighted by trials, and its rotation."""
    k, n = design.block.k, design.n
    rows = np.empty((n, k + spectrum.rank), order="F")
    rows[:, :k] = design.block.q * np.sqrt(n)
    if spectrum.left is not None:
        rows[:, k:] = spectrum.left * (spectrum.s * spectrum.top)
    elif spectrum.right is not None:
        rows[:, k:] = design.times(spectrum.right)
    if design.block.sqrt_w is not None:
        rows /= design.block.sqrt_w[:, None]
    return Coordinates(rows, k, design, spectrum)
