"""From the rotated problem back to the user's scale: coefficients, covariances, predictions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from pybayesridge._types import AnyArray, FloatArray, IntArray
from pybayesridge.design.design import Design
from pybayesridge.linalg import blas
from pybayesridge.linalg.blocks import even_parts
from pybayesridge.posterior.coefficients import Coefficients
from pybayesridge.posterior.laws import Answer, Ask, CoefficientLaws, Joint
from pybayesridge.posterior.left_out import LeftOut
from pybayesridge.ridge import mixture as posterior
from pybayesridge.ridge.groups_left_out import groups_left_out
from pybayesridge.ridge.left_out import OneTarget, rows_left_out
from pybayesridge.ridge.likelihood import GaussianNoise
from pybayesridge.ridge.marginals import RidgeMarginals
from pybayesridge.ridge.mixture import Functionals, Mixture
from pybayesridge.ridge.outside import outside_of_columns
from pybayesridge.ridge.profile import shared, shrinkage
from pybayesridge.ridge.spectrum import Spectrum
from pybayesridge.text import TABLE_ROWS

LEFT = (64 * np.finfo(float).eps) ** 2
"""A share of a squared norm that is smaller is what rounding leaves of a row in the row space."""

ROWS = 1 << 19
"""Most elements in a temporary array over rows x columns: a few rows at a time."""

TARGETS = 1 << 22
"""Most elements in a temporary array over nodes x targets x singular values: more targets are taken in parts."""

MOST_USED = 0.9
"""Where a larger share of the targets has some weight, products are of all of them, without copies of parts."""

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

    def some(self, which: IntArray) -> RowFunctions:
        """Some of the rows."""
        f = self.functionals
        taken = Functionals(f.coords[which], f.outside[which], f.leverage[which])
        return RowFunctions(self.z_rows[which], taken, self.mean[which], self.shift[which])

    def with_noise(self, noise: FloatArray) -> RowFunctions:
        """With the noise of new observations, whose variances relative to that of the noise are `noise` (m,)."""
        return replace(self, functionals=replace(self.functionals, leverage=self.functionals.leverage + noise))


@dataclass(frozen=True, slots=True)
class RidgePosterior:
    """The joint posterior of all coefficients, unpenalised ones first, on the user's scale.

    Attributes
    ----------
    design : Design
    spectrum : Spectrum
    mixture : Mixture
    """

    joint_law: ClassVar[Joint] = "exact"
    has_point_masses: ClassVar[bool] = False

    design: Design
    spectrum: Spectrum
    mixture: Mixture

    def of_targets(self, which: IntArray | slice) -> RidgePosterior:
        """The posterior of some of the targets."""
        return type(self)(
            self.design.of_targets(which), self.spectrum.of_targets(which), self.mixture.of_targets(which)
        )

    @property
    def coefficients(self) -> CoefficientLaws:
        """The posterior of each coefficient."""
        return RidgeCoefficients(self, TABLE_ROWS)

    def coefficient_means(self) -> tuple[FloatArray, FloatArray]:
        """Posterior means of the unpenalised (k, q) and the penalised (p, q) coefficients."""

        def of_part(some: RidgePosterior, _: slice) -> tuple[FloatArray, FloatArray]:
            b = some._standardized() * (some.design.y_norm / some.design.scale[:, None])
            return some.design.coefficients_of_z(b), b

        # Nodes that the targets share are averaged over by a matrix product.
        nodes = self.mixture.log_t2.shape[0] if shared(self.mixture.log_t2) is None else 1
        of_z, b = self._by_targets(of_part, nodes)
        return of_z, b

    def add_means(self, total: FloatArray, weight: FloatArray) -> None:
        """Add the posterior means of the penalised coefficients, each target's times `weight` (q,), to `total`.

        In place: `total` is a (p, q) array in Fortran order.
        """
        right, nodes = self.spectrum.right, shared(self.mixture.log_t2)
        if right is None or nodes is None:
            total += weight * self.coefficient_means()[1]
            return
        kept = shrinkage(self.spectrum.s, nodes)
        means = right / self.design.scale[:, None] / (self.spectrum.s * self.spectrum.top)
        factor = self.mixture.weight * (weight * self.design.y_norm)
        for part in even_parts(self.design.q, TARGETS // max(self.spectrum.rank, 1)):
            some, of_part = np.flatnonzero(weight[part]), total[:, part]
            every = some.size > MOST_USED * of_part.shape[1]
            which = part if every else part.start + some
            a = blas.product(kept, factor[:, which], transpose_a=True)
            a *= self.spectrum.z[:, which]
            if every:
                blas.add_product(of_part, means, a)
            else:
                of_part[:, some] += blas.product(means, a)

    def _by_targets(
        self, function: Callable[[RidgePosterior, slice], tuple[FloatArray, ...]], nodes: int | None = None
    ) -> tuple[FloatArray, ...]:
        """Apply `function` to posteriors of consecutive targets and their slice; its arrays have targets in axis 1.

        What is computed on the way, for so many nodes at once (all if None), is then of the size of a part.
        """
        at_once = self.mixture.log_t2.shape[0] if nodes is None else nodes
        parts = list(even_parts(self.design.q, TARGETS // max(at_once * self.spectrum.rank, 1)))
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

    def coefficient_sds(self) -> tuple[FloatArray, FloatArray]:
        """Posterior standard deviations, as :meth:`coefficient_means`."""

        def of_part(some: RidgePosterior, _: slice) -> tuple[FloatArray, FloatArray]:
            factors = posterior.moment_factors(some.spectrum, some.mixture, some.design.p)

            def sd(f: Functionals) -> FloatArray:
                return np.sqrt(posterior.moments(f, factors)[1])

            of_z = some._chunked(some._functionals_of_z(), sd) * some.design.y_norm
            return of_z, some._over_penalized(sd)

        of_z, b = self._by_targets(of_part)
        return of_z, b

    def coefficient_quantiles(self, probabilities: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Quantiles at probabilities (c,), (k, q, c) and (p, q, c)."""

        def of_part(some: RidgePosterior, _: slice) -> tuple[FloatArray, FloatArray]:
            total, at = some.design.p, probabilities
            nodes = posterior.quantile_nodes(some.spectrum, some.mixture, at, total)
            return some._over_all(lambda f: posterior.quantiles(f, some.spectrum, some.mixture, at, total, nodes))

        of_z, b = self._by_targets(of_part)
        return of_z, b

    def quantile_curves(self, probabilities: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Quantiles of single coefficients at many increasing probabilities, (k, q, c) and (p, q, c); for tables."""
        return self._quantiles(posterior.quantile_curves, probabilities)

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

    def coefficient_signs(self) -> tuple[FloatArray, FloatArray]:
        """Probabilities that coefficients are positive, as :meth:`coefficient_means`."""
        k = self.design.block.k
        of_z = self.row_exceedance(self.row_functions(np.zeros((k, self.design.p)), np.eye(k)), np.zeros((k, 1)))

        def of_part(some: RidgePosterior, _: slice) -> tuple[FloatArray]:
            def each(f: Functionals) -> FloatArray:
                zero = np.zeros((f.outside.size, some.design.q))
                return posterior.exceedance(f, some.spectrum, some.mixture, zero)

            return (some._over_penalized(each, in_units=False),)

        return of_z, self._by_targets(of_part)[0]

    def covariance(self, target: int = 0) -> FloatArray:
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

    def row_means(self, rows: RowFunctions) -> FloatArray:
        """Posterior mean of the linear predictor of new rows, (m, q)."""
        return rows.z_rows @ self.design.y_on_z + rows.mean * self.design.y_norm

    def row_moments(self, rows: RowFunctions) -> tuple[FloatArray, FloatArray]:
        """Posterior mean and standard deviation of the linear predictor of new rows, each (m, q)."""

        def of_part(some: RidgePosterior, part: slice) -> tuple[FloatArray, FloatArray]:
            factors = posterior.moment_factors(some.spectrum, some.mixture, len(rows.z_rows))
            variance = some._chunked(rows.functionals, lambda f: posterior.moments(f, factors)[1])
            mean = rows.z_rows @ some.design.y_on_z + rows.mean[:, part] * some.design.y_norm
            return mean, np.sqrt(variance) * some.design.y_norm

        mean, sd = self._by_targets(of_part)
        return mean, sd

    def row_quantiles(self, rows: RowFunctions, probabilities: FloatArray) -> FloatArray:
        """Quantiles (c,) of the linear predictor, (m, q, c)."""
        f = rows.functionals
        solve = partial(posterior.quantiles, total=f.outside.size)

        def of_part(some: RidgePosterior, part: slice) -> tuple[FloatArray]:
            out = some._chunked(f, lambda piece: solve(piece, some.spectrum, some.mixture, probabilities))
            out = (out + rows.shift[:, part, None]) * some.design.y_norm[:, None]
            return ((rows.z_rows @ some.design.y_on_z)[..., None] + out,)

        return self._by_targets(of_part)[0]

    def rows(self, x_rows: AnyArray, z_rows: FloatArray, offset: FloatArray | float = 0.0) -> RidgeRows:
        """The law of the linear predictor of rows plus `offset` (m,)."""
        return RidgeRows(self, self.row_functions(x_rows, z_rows), np.zeros(z_rows.shape[0]) + offset)

    def of_one(self, noise: GaussianNoise, target: int) -> OneTarget:
        """The posterior of one target with its noise, to predict rows from the others."""
        part = self.of_targets(slice(target, target + 1))
        return OneTarget(part.design.holding_targets(), part.spectrum, part.mixture, noise.of(part.design))

    def rows_left_out(self, noise: GaussianNoise, target: int = 0) -> LeftOut:
        """Predictions of the rows of a target from the others."""
        return rows_left_out(self.of_one(noise, target))

    def groups_left_out(self, noise: GaussianNoise, target: int, codes: IntArray) -> LeftOut:
        """Predictions of groups of rows of a target, each from the other rows."""
        return groups_left_out([(1.0, self.of_one(noise, target))], codes)

    def row_exceedance(self, rows: RowFunctions, at: FloatArray) -> FloatArray:
        """Probability that the linear predictor of each row exceeds its entry of `at` (m, q) or (m, 1), (m, q)."""

        def of_part(some: RidgePosterior, part: slice) -> tuple[FloatArray]:
            own = at if at.shape[1] == 1 else at[:, part]
            bound = (own - rows.z_rows @ some.design.y_on_z) / some.design.y_norm - rows.shift[:, part]
            return (posterior.exceedance(rows.functionals, some.spectrum, some.mixture, bound),)

        return self._by_targets(of_part)[0]

    def as_arrays(self, *, rows_known: bool) -> dict[str, Any]:
        """Arrays from which the posterior is made again, in units of the standardised columns.

        With `rows_known` the reader has the rows of the design: ``half`` times these is then in place of ``right``,
        where that is larger.
        """
        spectrum, mixture = self.spectrum, self.mixture
        return {
            "weight": mixture.weight,
            "noise": mixture.scale2,
            "df": float(mixture.df),
            "log_t2": mixture.log_t2 - 2 * float(np.log(spectrum.top)),
            "s": spectrum.s * spectrum.top,
            **self._right_vectors(rows_known=rows_known),
            "z": spectrum.z,
            "rss0": spectrum.rss0,
            "open_variance": bool(mixture.open_variance),
        }

    def _right_vectors(self, *, rows_known: bool) -> dict[str, FloatArray]:
        """``right`` and ``outside``, or ``half`` where the singular vectors are its products with the rows."""
        spectrum = self.spectrum
        if rows_known and spectrum.right is None and spectrum.left is not None:
            return {"half": spectrum.left / (spectrum.s * spectrum.top)}
        held = replace(self, spectrum=spectrum.with_right(self.design))
        assert held.spectrum.right is not None
        return {"right": held.spectrum.right, "outside": held.outside_of_coefficients()}

    def without_row_space(self) -> RidgeMarginals:
        """What each coefficient has alone."""
        return RidgeMarginals.of(self)

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


@dataclass(frozen=True, slots=True)
class RidgeCoefficients(Coefficients):
    """The coefficients of a ridge, whose signs need no rows."""

    posterior: RidgePosterior

    def signs(self, which: IntArray | None) -> tuple[FloatArray, None]:
        """Probabilities of values above 0, of all at once."""
        found = self.joined(self.posterior.coefficient_signs())
        return (found if which is None else found[which]), None


@dataclass(frozen=True, slots=True)
class RidgeRows:
    """The law of the linear predictor of rows, or of new observations, for all targets.

    Attributes
    ----------
    posterior : RidgePosterior
    functions : RowFunctions
    offset : (m,) array
    """

    posterior: RidgePosterior
    functions: RowFunctions
    offset: FloatArray

    def ask(self, ask: Ask) -> Answer:
        """Answer everything."""
        offset, at = self.offset[:, None], np.array(ask.probabilities)
        shape = (self.offset.size, self.posterior.design.q)
        solved, above, sd = np.zeros((*shape, 0)), np.full(shape, np.nan), np.full(shape, np.nan)
        if ask.sd:
            mean, sd = self.posterior.row_moments(self.functions)
        else:
            mean = self.posterior.row_means(self.functions)
        if at.size:
            solved = self.posterior.row_quantiles(self.functions, at) + offset[..., None]
        if ask.above:
            above = self.posterior.row_exceedance(self.functions, -offset)
        return Answer(mean + offset, sd, mean + offset, solved, above)

    def above(self, which: IntArray, at: FloatArray) -> FloatArray:
        """Probabilities of more than `at`, both (len(which), q)."""
        return self.posterior.row_exceedance(self.functions.some(which), at - self.offset[which, None])

    def all_zero(self) -> tuple[float, float | None]:
        """Nothing."""
        return 0.0, None

    def with_noise(self, noise: FloatArray) -> RidgeRows:
        """The law of new observations."""
        return replace(self, functions=self.functions.with_noise(noise))
