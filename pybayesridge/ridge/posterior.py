"""From the rotated problem back to the user's scale: coefficients, covariances, predictions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from pybayesridge._types import AnyArray, FloatArray
from pybayesridge.design.design import Design
from pybayesridge.ridge import mixture as posterior
from pybayesridge.ridge.mixture import Functionals, Mixture
from pybayesridge.ridge.quantile_curves import quantile_curves
from pybayesridge.ridge.spectrum import Spectrum

LEFT = (64 * np.finfo(float).eps) ** 2
"""A share of a squared norm that is smaller is what rounding leaves of a row in the row space."""

ROWS = 1 << 19
"""Most elements in a temporary array over rows x columns: a few rows at a time."""

ELEMENTS = 1 << 18
"""Most elements in a temporary array over nodes x targets x functionals."""


@dataclass(frozen=True, slots=True)
class RowFunctions:
    """The linear predictor of m rows.

    Attributes
    ----------
    z_rows : (m, k) array
        The rows' unpenalised columns.
    functionals : Functionals
        In the rotated basis.
    """

    z_rows: FloatArray
    functionals: Functionals


@dataclass(frozen=True, slots=True)
class RidgePosterior:
    """The joint posterior of all coefficients, unpenalised ones first, on the user's scale.

    Attributes
    ----------
    design : Design
    spectrum : Spectrum
    mixture : Mixture
    """

    design: Design
    spectrum: Spectrum
    mixture: Mixture

    def coefficients(self) -> tuple[FloatArray, FloatArray]:
        """Posterior means of the unpenalised (k, q) and the penalised (p, q) coefficients."""
        a = posterior.mean_coefficients(self.spectrum, self.mixture)
        b = self.spectrum.standardized_coefficients(self.design, a / self.spectrum.top)
        b *= self.design.y_norm / self.design.scale[:, None]
        return self.design.coefficients_of_z(b), b

    def standard_deviations(self) -> tuple[FloatArray, FloatArray]:
        """Posterior standard deviations, as :meth:`coefficients`."""
        factors = posterior.moment_factors(self.spectrum, self.mixture, self.design.p)

        def sd(f: Functionals) -> FloatArray:
            return np.sqrt(posterior.moments(f, factors)[1])

        of_z = self._chunked(self._functionals_of_z(), sd) * self.design.y_norm
        return of_z, self._over_penalized(sd)

    def intervals(self, alpha: float) -> tuple[FloatArray, FloatArray]:
        """Equal-tailed credible intervals, (k, q, 2) and (p, q, 2)."""
        return self._quantiles(posterior.quantiles, np.array([alpha / 2, 1 - alpha / 2]))

    def quantile_curves(self, probabilities: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Quantiles of single coefficients at many increasing probabilities, (k, q, c) and (p, q, c); for tables."""
        return self._quantiles(quantile_curves, probabilities)

    def _quantiles(
        self, solve: Callable[..., FloatArray], probabilities: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        def each(f: Functionals) -> FloatArray:
            return solve(f, self.spectrum, self.mixture, probabilities)

        of_z = self._chunked(self._functionals_of_z(), each) * self.design.y_norm[:, None]
        return of_z + self.design.y_on_z[..., None], self._over_penalized(each)

    def covariance(self, target: int) -> FloatArray:
        """Posterior covariance of (unpenalised, penalised) coefficients of one target: (k + p, k + p)."""
        design, k, p = self.design, self.design.block.k, self.design.p
        of_z = design.rows_outside_z(np.zeros((k, p)), np.eye(k))
        rows = np.vstack([of_z, np.eye(p)])
        functionals = self._functionals(rows, np.vstack([np.eye(k), np.zeros((p, k))]))
        half = design.block.regress(np.eye(k))
        leverage = np.zeros((k + p, k + p))
        leverage[:k, :k] = half @ half.T
        outer = None
        if self.spectrum.rank < p:
            inside = functionals.coords @ functionals.coords.T
            outer = (rows @ rows.T) / self.spectrum.top**2 - inside
        out = posterior.covariance(functionals, outer, leverage, self.spectrum, self.mixture, target)
        unit = np.concatenate([np.ones(k), 1.0 / design.scale]) * design.y_norm[target]
        out *= unit[:, None]
        return out * unit

    def row_functions(self, x_rows: AnyArray, z_rows: FloatArray) -> RowFunctions:
        """What moments and intervals of the linear predictor of new rows need, made once for all of them."""
        return RowFunctions(z_rows, self._row_functionals(x_rows, z_rows))

    def row_moments(self, rows: RowFunctions) -> tuple[FloatArray, FloatArray]:
        """Posterior mean and standard deviation of the linear predictor of new rows, each (m, q)."""
        factors = posterior.moment_factors(self.spectrum, self.mixture, len(rows.z_rows))

        def both(f: Functionals) -> FloatArray:
            return np.stack(posterior.moments(f, factors), axis=-1)

        out = self._chunked(rows.functionals, both)
        mean = rows.z_rows @ self.design.y_on_z + out[..., 0] * self.design.y_norm
        return mean, np.sqrt(out[..., 1]) * self.design.y_norm

    def row_intervals(self, rows: RowFunctions, alpha: float, noise: FloatArray | None) -> FloatArray:
        """Equal-tailed intervals of the linear predictor, or with `noise` (m,) of new observations: (m, q, 2)."""
        tails = np.array([alpha / 2, 1 - alpha / 2])
        functionals = rows.functionals
        if noise is not None:
            functionals = replace(functionals, leverage=functionals.leverage + noise)
        out = self._chunked(functionals, lambda f: posterior.quantiles(f, self.spectrum, self.mixture, tails))
        return (rows.z_rows @ self.design.y_on_z)[..., None] + out * self.design.y_norm[:, None]

    def without_rows(self) -> RidgePosterior:
        """The same posterior without any array over rows of the data."""
        return replace(self, spectrum=self.spectrum.with_right(self.design), design=self.design.without_rows())

    def _functionals(self, rows: FloatArray, z_rows: FloatArray) -> Functionals:
        coords = self.spectrum.project_rows(self.design, rows)
        outside = np.zeros(rows.shape[0])
        if self.spectrum.rank < self.design.p:
            outside = self._outside(rows, coords) / self.spectrum.top**2
        coords = coords / self.spectrum.top
        return Functionals(coords=coords, outside=outside, leverage=self.design.block.leverage(z_rows))

    def _outside(self, rows: FloatArray, coords: FloatArray) -> FloatArray:
        """Squared norms of what standardised rows (m, p) have outside the row space, given ``rows @ V``; (m,).

        Of what is left, not as a difference of squares: where tau2 is large a share of 1e-20 matters.
        """
        out = np.empty(rows.shape[0])
        step = max(1, ROWS // max(rows.shape[1], 1))
        for start in range(0, out.size, step):
            part = slice(start, start + step)
            inside = self.spectrum.standardized_coefficients(self.design, np.ascontiguousarray(coords[part].T))
            left = rows[part] - inside.T
            rest, whole = (np.einsum("ij,ij->i", a, a) for a in (left, rows[part]))
            out[part] = np.where(rest > LEFT * whole, rest, 0.0)
        return out

    def _functionals_of_z(self) -> Functionals:
        k = self.design.block.k
        return self._row_functionals(np.zeros((k, self.design.p)), np.eye(k))

    def _row_functionals(self, x_rows: AnyArray, z_rows: FloatArray) -> Functionals:
        return self._functionals(self.design.rows_outside_z(x_rows, z_rows), z_rows)

    def _chunked(self, f: Functionals, function: Callable[[Functionals], FloatArray]) -> FloatArray:
        m = f.coords.shape[0]
        step = max(1, ELEMENTS // max(self.mixture.log_t2.size, 1))
        pieces = [
            function(Functionals(f.coords[i : i + step], f.outside[i : i + step], f.leverage[i : i + step]))
            for i in range(0, max(m, 1), step)
        ]
        return np.concatenate(pieces)

    def outside_of_coefficients(self) -> FloatArray:
        """Share of the squared norm of each penalised coefficient outside the row space, (p,)."""
        if self.spectrum.rank == self.design.p:
            return np.zeros(self.design.p)
        inside = [np.einsum("ij,ij->i", right, right) for _, right in self.spectrum.right_pieces(self.design)]
        return _beyond(np.ones(self.design.p), np.concatenate(inside), self.spectrum.rounding)

    def _over_penalized(self, function: Callable[[Functionals], FloatArray]) -> FloatArray:
        """Apply `function` to the penalised coefficients piece by piece; V is never held whole by the dual route."""
        pieces = []
        for part, right in self.spectrum.right_pieces(self.design):
            m = right.shape[0]
            outside = np.zeros(m)
            if self.spectrum.rank < self.design.p:
                outside = _beyond(np.ones(m), np.einsum("ij,ij->i", right, right), self.spectrum.rounding)
            values = self._chunked(Functionals(right, outside, np.zeros(m)), function)
            unit = self.design.y_norm / (self.design.scale[part, None] * self.spectrum.top)
            pieces.append(values * (unit[..., None] if values.ndim == 3 else unit))
        if not pieces:
            return function(Functionals(np.empty((0, self.spectrum.rank)), np.empty(0), np.empty(0)))
        return np.concatenate(pieces)


def _beyond(whole: FloatArray, inside: FloatArray, rounding: float) -> FloatArray:
    """Part of a squared norm outside the row space; a share that may be rounding errors is nothing."""
    rest = whole - inside
    return np.where(rest > rounding * whole, rest, 0.0)
