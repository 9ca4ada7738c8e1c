"""From the rotated problem back to the user's scale: coefficients, covariances, predictions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from pybayesridge._types import AnyArray, FloatArray, IntArray
from pybayesridge.design.design import Design
from pybayesridge.linalg import blas
from pybayesridge.linalg.blocks import even_parts
from pybayesridge.ridge import mixture as posterior
from pybayesridge.ridge.mixture import Functionals, Mixture
from pybayesridge.ridge.outside import outside_of_columns
from pybayesridge.ridge.quantile_curves import quantile_curves
from pybayesridge.ridge.spectrum import Spectrum

LEFT = (64 * np.finfo(float).eps) ** 2
"""A share of a squared norm that is smaller is what rounding leaves of a row in the row space."""

ROWS = 1 << 19
"""Most elements in a temporary array over rows x columns: a few rows at a time."""

TARGETS = 1 << 22
"""Most elements in a temporary array over nodes x targets x singular values: more targets are taken in parts."""

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
    mean : (m, q) array
        Posterior means less those of the unpenalised columns alone, in units of the targets' norms.
    shift : (m, q) array
        Correction of the functionals' locations, in the same units, where V is made by products with X'.
    """

    z_rows: FloatArray
    functionals: Functionals
    mean: FloatArray
    shift: FloatArray


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

    def of_targets(self, which: IntArray | slice) -> RidgePosterior:
        """The posterior of some of the targets."""
        return type(self)(
            self.design.of_targets(which), self.spectrum.of_targets(which), self.mixture.of_targets(which)
        )

    def coefficients(self) -> tuple[FloatArray, FloatArray]:
        """Posterior means of the unpenalised (k, q) and the penalised (p, q) coefficients."""

        def of_part(some: RidgePosterior, _: slice) -> tuple[FloatArray, FloatArray]:
            b = some._standardized() * (some.design.y_norm / some.design.scale[:, None])
            return some.design.coefficients_of_z(b), b

        of_z, b = self._by_targets(of_part)
        return of_z, b

    def _by_targets(
        self, function: Callable[[RidgePosterior, slice], tuple[FloatArray, ...]]
    ) -> tuple[FloatArray, ...]:
        """Apply `function` to posteriors of consecutive targets and their slice; its arrays have targets in axis 1.

        What is computed on the way is then of the size of a part.
        """
        nodes = self.mixture.log_t2.shape[0]
        parts = list(even_parts(self.design.q, TARGETS // max(nodes * self.spectrum.rank, 1)))
        if len(parts) == 1:
            return function(self, parts[0])
        out: tuple[FloatArray, ...] = ()
        for part in parts:
            found = function(self.of_targets(part), part)
            out = out or tuple(np.empty((len(a), self.design.q, *a.shape[2:])) for a in found)
            for whole, some in zip(out, found, strict=True):
                whole[:, part] = some
        return out

    def _standardized(self) -> FloatArray:
        """Posterior means of the standardised coefficients, in units of the targets' norms, (p, q)."""
        a = posterior.mean_coefficients(self.spectrum, self.mixture)
        return self.spectrum.standardized_coefficients(self.design, a / self.spectrum.top)

    def standard_deviations(self) -> tuple[FloatArray, FloatArray]:
        """Posterior standard deviations, as :meth:`coefficients`."""

        def of_part(some: RidgePosterior, _: slice) -> tuple[FloatArray, FloatArray]:
            factors = posterior.moment_factors(some.spectrum, some.mixture, some.design.p)

            def sd(f: Functionals) -> FloatArray:
                return np.sqrt(posterior.moments(f, factors)[1])

            of_z = some._chunked(some._functionals_of_z(), sd) * some.design.y_norm
            return of_z, some._over_penalized(sd)

        of_z, b = self._by_targets(of_part)
        return of_z, b

    def intervals(self, alpha: float) -> tuple[FloatArray, FloatArray]:
        """Equal-tailed credible intervals, (k, q, 2) and (p, q, 2)."""
        tails = np.array([alpha / 2, 1 - alpha / 2])

        def of_part(some: RidgePosterior, _: slice) -> tuple[FloatArray, FloatArray]:
            total = some.design.p
            nodes = posterior.quantile_nodes(some.spectrum, some.mixture, tails, total)
            return some._over_all(lambda f: posterior.quantiles(f, some.spectrum, some.mixture, tails, total, nodes))

        of_z, b = self._by_targets(of_part)
        return of_z, b

    def quantile_curves(self, probabilities: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Quantiles of single coefficients at many increasing probabilities, (k, q, c) and (p, q, c); for tables."""
        return self._quantiles(quantile_curves, probabilities)

    def _quantiles(
        self, solve: Callable[..., FloatArray], probabilities: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        def of_part(some: RidgePosterior, _: slice) -> tuple[FloatArray, FloatArray]:
            return some._over_all(lambda f: solve(f, some.spectrum, some.mixture, probabilities))

        of_z, b = self._by_targets(of_part)
        return of_z, b

    def _over_all(self, function: Callable[[Functionals], FloatArray]) -> tuple[FloatArray, FloatArray]:
        """Quantiles that `function` gives (…, c) of the unpenalised and of the penalised coefficients."""
        of_z = self._chunked(self._functionals_of_z(), function) * self.design.y_norm[:, None]
        return of_z + self.design.y_on_z[..., None], self._over_penalized(function)

    def positive(self) -> tuple[FloatArray, FloatArray]:
        """Probabilities that coefficients are positive, as :meth:`coefficients`."""
        k = self.design.block.k
        of_z = self.row_exceedance(self.row_functions(np.zeros((k, self.design.p)), np.eye(k)), np.zeros(k))

        def of_part(some: RidgePosterior, _: slice) -> tuple[FloatArray]:
            def each(f: Functionals) -> FloatArray:
                zero = np.zeros((f.outside.size, some.design.q))
                return posterior.exceedance(f, some.spectrum, some.mixture, zero)

            return (some._over_penalized(each, in_units=False),)

        return of_z, self._by_targets(of_part)[0]

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
            inside = self.spectrum.standardized_coefficients(design, functionals.coords.T * self.spectrum.top)
            rest = rows - inside.T
            outer = blas.product(rest, rest.T) / self.spectrum.top**2
        out = posterior.covariance(functionals, outer, leverage, self.spectrum, self.mixture, target)
        unit = np.concatenate([np.ones(k), 1.0 / design.scale]) * design.y_norm[target]
        out *= unit[:, None]
        return out * unit

    def row_functions(self, x_rows: AnyArray, z_rows: FloatArray) -> RowFunctions:
        """Quantities for the moments and intervals of the linear predictor of new rows, computed once."""
        rows = self.design.rows_outside_z(x_rows, z_rows)
        f = self._functionals(rows, z_rows)

        def of_part(some: RidgePosterior, _: slice) -> tuple[FloatArray, FloatArray]:
            # By the coefficients: rows times V lose digits where V is made by products with X'.
            return blas.product(rows, some._standardized()), some._shift(rows, f)

        mean, shift = self._by_targets(of_part)
        return RowFunctions(z_rows, f, mean, shift)

    def _shift(self, rows: FloatArray, f: Functionals) -> FloatArray:
        """Refined less plain locations at the likeliest point of each target, (m, q).

        Not those of the mean, which a heavy tail of t2 may carry far away.
        """
        if self.spectrum.right is not None:
            return np.zeros((rows.shape[0], self.design.q))
        likeliest = self.mixture.weight.argmax(axis=0)[None]
        at = np.take_along_axis(self.mixture.log_t2, likeliest, axis=0)
        a = posterior.rotated_coefficients(self.spectrum, at)[0].T
        refined = self.spectrum.standardized_coefficients(self.design, a / self.spectrum.top)
        return blas.product(rows, refined) - blas.product(f.coords, np.ascontiguousarray(a))

    def row_moments(self, rows: RowFunctions) -> tuple[FloatArray, FloatArray]:
        """Posterior mean and standard deviation of the linear predictor of new rows, each (m, q)."""

        def of_part(some: RidgePosterior, part: slice) -> tuple[FloatArray, FloatArray]:
            factors = posterior.moment_factors(some.spectrum, some.mixture, len(rows.z_rows))
            variance = some._chunked(rows.functionals, lambda f: posterior.moments(f, factors)[1])
            mean = rows.z_rows @ some.design.y_on_z + rows.mean[:, part] * some.design.y_norm
            return mean, np.sqrt(variance) * some.design.y_norm

        mean, sd = self._by_targets(of_part)
        return mean, sd

    def row_intervals(self, rows: RowFunctions, alpha: float, noise: FloatArray | None) -> FloatArray:
        """Equal-tailed intervals of the linear predictor, or with `noise` (m,) of new observations: (m, q, 2)."""
        tails = np.array([alpha / 2, 1 - alpha / 2])
        f = rows.functionals
        if noise is not None:
            f = replace(f, leverage=f.leverage + noise)
        solve = partial(posterior.quantiles, total=f.outside.size)

        def of_part(some: RidgePosterior, part: slice) -> tuple[FloatArray]:
            out = some._chunked(f, lambda piece: solve(piece, some.spectrum, some.mixture, tails))
            out = (out + rows.shift[:, part, None]) * some.design.y_norm[:, None]
            return ((rows.z_rows @ some.design.y_on_z)[..., None] + out,)

        return self._by_targets(of_part)[0]

    def row_exceedance(self, rows: RowFunctions, at: FloatArray) -> FloatArray:
        """Probability that the linear predictor of each row exceeds its entry of `at` (m,), (m, q)."""

        def of_part(some: RidgePosterior, part: slice) -> tuple[FloatArray]:
            bound = (at[:, None] - rows.z_rows @ some.design.y_on_z) / some.design.y_norm - rows.shift[:, part]
            return (posterior.exceedance(rows.functionals, some.spectrum, some.mixture, bound),)

        return self._by_targets(of_part)[0]

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
        pieces = [
            function(Functionals(f.coords[part], f.outside[part], f.leverage[part]))
            for part in even_parts(f.coords.shape[0], ELEMENTS // max(self.mixture.log_t2.size, 1))
        ]
        return np.concatenate(pieces)

    def outside_of_coefficients(self) -> FloatArray:
        """Share of the squared norm of each penalised coefficient outside the row space, (p,)."""
        pieces = self.spectrum.right_pieces(self.design)
        parts = [outside_of_columns(self.design, self.spectrum, part.start, right) for part, right in pieces]
        return np.concatenate([np.empty(0), *parts])

    def _over_penalized(self, function: Callable[[Functionals], FloatArray], *, in_units: bool = True) -> FloatArray:
        """Apply `function` to the penalised coefficients piece by piece; V is never held whole by the dual route.

        `in_units` says whether the values are in the units of the coefficients, and not probabilities.
        """
        pieces = []
        for part, right in self.spectrum.right_pieces(self.design):
            m = right.shape[0]
            outside = outside_of_columns(self.design, self.spectrum, part.start, right)
            values = self._chunked(Functionals(right, outside, np.zeros(m)), function)
            unit = self.design.y_norm / (self.design.scale[part, None] * self.spectrum.top)
            pieces.append(values * (unit[..., None] if values.ndim == 3 else unit) if in_units else values)
        if not pieces:
            return function(Functionals(np.empty((0, self.spectrum.rank)), np.empty(0), np.empty(0)))
        return np.concatenate(pieces)
