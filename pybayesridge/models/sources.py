"""Rows or moments behind one interface: checked data in, a design and R-squared out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.data.arrays import constant_values
from pybayesridge.data.prepare import ModelData
from pybayesridge.design import stand_ins
from pybayesridge.design.build import build_design
from pybayesridge.design.crossproducts import CrossProducts
from pybayesridge.design.design import Design
from pybayesridge.design.from_moments import constants_of, design_of_moments, rsquared_of_moments
from pybayesridge.design.stand_ins import design_of_stand_ins
from pybayesridge.linalg.blocks import even_parts
from pybayesridge.moments.blocks import BlockMoments
from pybayesridge.moments.moments import Moments

MOST = 1 << 22
"""Most elements of responses whose residuals are taken at once."""

CUT_POINTS = "cut points"
"""What stands for an intercept in messages on fits of ordered categories."""

NO_MORE_ROWS = "the data of this fit were removed: fit again, or keep the data, for what runs over its rows"


@dataclass(frozen=True, slots=True)
class Layout:
    """How the columns enter a design.

    Attributes
    ----------
    unpenalized, penalized : int arrays
        Positions of columns, ascending; an intercept that was added is not among them.
    z_names : tuple of str
        Names of the unpenalised columns, the intercept among them.
    z_constant : int or None
        Which of `z_names` is the intercept.
    added : bool
        Whether an intercept that is not a column precedes the unpenalised ones.
    """

    unpenalized: IntArray
    penalized: IntArray
    z_names: tuple[str, ...]
    z_constant: int | None
    added: bool

    @classmethod
    def of(cls, data: ModelData, constants: dict[int, float]) -> Layout:
        """The layout of data in which some columns are constant: one at most, the intercept, stays unpenalised."""
        kept = [j for j in data.unpenalized if j == data.const_idx or not (data.k_constant and j in constants)]
        unpenalized = np.array(kept, dtype=np.intp)
        rest = np.ones(len(data.exog_columns), dtype=bool)
        rest[data.unpenalized] = False
        added = data.intercept_name is not None
        names = [str(data.intercept_name)] if added else []
        names += [data.exog_columns[j] for j in unpenalized]
        constant = 0 if added else None
        if data.const_idx is not None:
            constant = int(np.flatnonzero(unpenalized == data.const_idx)[0])
        return cls(unpenalized, np.flatnonzero(rest), tuple(names), constant, added)

    def with_intercept(self) -> Layout:
        """The same with an intercept before the unpenalised columns, for which cut points stand."""
        return replace(self, z_names=(CUT_POINTS, *self.z_names), z_constant=0, added=True)


class Source(Protocol):
    """Common interface of the data a model is fitted to."""

    @property
    def from_moments(self) -> bool:
        """Whether products, which double the digits that are lost, stand for the rows."""

    @property
    def why_no_rows(self) -> str:
        """The message of what needs rows that are not there."""

    @property
    def n(self) -> int:
        """Number of rows."""

    @property
    def weight_mean(self) -> float:
        """Mean of the precision weights; 1 without."""

    @property
    def log_weights(self) -> float:
        """Sum of the logs of the weights over their mean."""

    @property
    def weights(self) -> FloatArray | None:
        """Weights over their mean, (n,), where there are such and rows."""

    def constants(self) -> dict[int, float]:
        """Columns whose values are all equal, and the value."""

    def design(self, layout: Layout, *, standardize: bool, serves: bool) -> tuple[Design, CrossProducts, float]:
        """The design, its cross-products and their relative error.

        `serves` says whether a column of the user's is the intercept.
        """

    def rsquared(self, params: FloatArray, residuals: Callable[[slice], FloatArray], *, constant: bool) -> FloatArray:
        """R-squared, (q,), of coefficients (k, q), about the mean with a constant.

        `residuals` gives those of some targets, in the shape of the response, where they are asked for.
        """

    def without(self, *, row_space: bool) -> Source:
        """The source without rows and, unless `row_space`, without their products."""


@dataclass(frozen=True)
class RowData:
    """Rows in memory.

    Attributes
    ----------
    data : ModelData
    weight_mean : float
        Mean of the rows' weights in means and variances; 1 without.
    weights : (n,) array or None
        Weights over their mean.
    columns_only : bool
        Whether the design, of sparse columns, is made without their products.
    """

    data: ModelData
    weight_mean: float
    weights: FloatArray | None
    columns_only: bool = field(default=False, kw_only=True)

    from_moments = False
    why_no_rows = NO_MORE_ROWS

    @classmethod
    def of(cls, data: ModelData, weights: FloatArray | None) -> RowData:
        """Bring the weights of the rows to mean 1."""
        if weights is None:
            return cls(data, 1.0, None)
        top = float(weights.max())
        mean = top * float((weights / top).mean())
        return cls(data, mean, weights / mean)

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.data.endog.shape[0])

    @property
    def log_weights(self) -> float:
        """Sum of the logs of the weights over their mean."""
        return 0.0 if self.weights is None else float(np.log(self.weights).sum())

    def constants(self) -> dict[int, float]:
        """Columns whose values are all equal, and the value."""
        return constant_values(self.data.exog)

    def unpenalized(self, layout: Layout) -> FloatArray:
        """The unpenalised columns, the intercept among them, (n, k)."""
        ones = np.ones((self.n, int(layout.added)))
        return np.column_stack([ones, *(_column(self.data.exog, j) for j in layout.unpenalized)])

    def design(self, layout: Layout, *, standardize: bool, serves: bool) -> tuple[Design, CrossProducts, float]:
        """The design and its cross-products, by one pass over the rows; nothing is lost."""
        exog, endog = self.data.exog, self.data.endog
        design, products = build_design(
            endog[:, None] if endog.ndim == 1 else endog,
            exog,
            penalized=layout.penalized,
            z=self.unpenalized(layout),
            z_names=layout.z_names,
            z_constant=layout.z_constant,
            weights=self.weights,
            standardize=standardize,
            constant_serves=serves,
            columns_only=self.columns_only,
        )
        return design, products, 0.0

    def rsquared(self, params: FloatArray, residuals: Callable[[slice], FloatArray], *, constant: bool) -> FloatArray:
        """R-squared of the rows."""
        y = self.data.endog
        parts = even_parts(params.shape[1], MOST // len(y))
        found = [self._rsquared(y if y.ndim == 1 else y[:, part], residuals(part), constant) for part in parts]
        return np.concatenate(found)

    def _rsquared(self, y: FloatArray, residuals: FloatArray, constant: bool) -> FloatArray:
        w = self.weights
        with np.errstate(invalid="ignore", divide="ignore"):
            size = np.abs(y).max(axis=0)
            unit = np.where(size > 0, size, 1.0)
            center = np.average(y / unit, axis=0, weights=w) if constant else 0.0
            weight = 1.0 if w is None else (w if y.ndim == 1 else w[:, None])
            residual = (weight * (residuals / unit) ** 2).sum(axis=0)
            total = (weight * (y / unit - center) ** 2).sum(axis=0)
            floor = (32 * np.finfo(float).eps) ** 2 * len(y)
            return np.atleast_1d(np.where(total > floor, 1.0 - residual / total, np.nan))

    def without(self, *, row_space: bool) -> Source:
        """Nothing is left."""
        return Removed(self.n, self.weight_mean, self.log_weights, from_moments=False)


class OfMoments:
    """What sources without rows have in common."""

    from_moments = True
    why_no_rows = "this fit was made from moments, which hold no rows: fit from rows for what runs over them"
    weights: FloatArray | None = None
    moments: Moments | BlockMoments

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.moments.n

    @property
    def weight_mean(self) -> float:
        """Mean of the precision weights."""
        return self.moments.weight_sum / self.moments.n

    @property
    def log_weights(self) -> float:
        """Sum of the logs of the weights over their mean."""
        return self.moments.log_weight_sum - self.moments.n * float(np.log(self.weight_mean))

    def constants(self) -> dict[int, float]:
        """Columns whose values are all equal, and the value."""
        return constants_of(self.moments)


@dataclass(frozen=True)
class MomentData(OfMoments):
    """Sufficient statistics in place of rows.

    Attributes
    ----------
    data : ModelData
        Names and the layout; without rows.
    moments : Moments
    in_rows : bool
        Whether the design has rows, which stand in for those of the data: what several penalties are fitted to.
    """

    data: ModelData
    moments: Moments
    in_rows: bool = field(default=False, kw_only=True)

    def design(self, layout: Layout, *, standardize: bool, serves: bool) -> tuple[Design, CrossProducts, float]:
        """The same design and cross-products, with the digits that cancellation costs."""
        how: dict[str, Any] = {
            "penalized": layout.penalized,
            "unpenalized": layout.unpenalized,
            "z_names": layout.z_names,
            "z_constant": layout.z_constant,
            "standardize": standardize,
            "constant_serves": serves,
        }
        if self.in_rows:
            return design_of_stand_ins(stand_ins.of_moments(self.moments), **how)
        return design_of_moments(self.moments, **how)

    def rsquared(self, params: FloatArray, residuals: Callable[[slice], FloatArray], *, constant: bool) -> FloatArray:
        """R-squared of the moments; residuals are not asked for."""
        added = int(self.data.intercept_name is not None)
        level = params[0] if added else np.zeros(params.shape[1])
        return rsquared_of_moments(self.moments, level, params[added:], constant=constant)

    def without(self, *, row_space: bool) -> Source:
        """The moments, as far as they may stay."""
        return self if row_space else Removed(self.n, self.weight_mean, self.log_weights, from_moments=True)


@dataclass(frozen=True)
class BlockData(OfMoments):
    """Sufficient statistics of columns some of which are sparse.

    Attributes
    ----------
    data : ModelData
        Names and the layout; without rows.
    moments : BlockMoments
    eliminated : (p,) int array
        Positions of columns of which each row has one at most.
    """

    data: ModelData
    moments: BlockMoments
    eliminated: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.intp))

    def design(self, layout: Layout, *, standardize: bool, serves: bool) -> tuple[Design, CrossProducts, float]:
        """The same design, with rows that stand in for those of the data."""
        return design_of_stand_ins(
            stand_ins.of_blocks(self.moments, self.eliminated),
            penalized=layout.penalized,
            unpenalized=layout.unpenalized,
            z_names=layout.z_names,
            z_constant=layout.z_constant,
            standardize=standardize,
            constant_serves=serves,
        )

    def rsquared(self, params: FloatArray, residuals: Callable[[slice], FloatArray], *, constant: bool) -> FloatArray:
        """R-squared of the moments; residuals are not asked for."""
        moments, added = self.moments, int(self.data.intercept_name is not None)
        level = params[0] if added else np.zeros(params.shape[1])
        square, product = moments.about_means(params[added:])
        gap = moments.y_mean - level - moments.x_mean @ params[added:]
        around = moments.yy - moments.xy[0] ** 2 / moments.weight_sum
        residual = around - 2 * product + square + moments.weight_sum * gap**2
        total = around if constant else around + moments.weight_sum * moments.y_mean**2
        return 1.0 - np.maximum(residual, 0.0) / total

    def without(self, *, row_space: bool) -> Source:
        """The moments, as far as they may stay."""
        return self if row_space else Removed(self.n, self.weight_mean, self.log_weights, from_moments=True)


@dataclass(frozen=True)
class Removed:
    """Data that were removed.

    Attributes
    ----------
    n : int
    weight_mean, log_weights : float
    from_moments : bool
    """

    n: int
    weight_mean: float
    log_weights: float
    from_moments: bool

    why_no_rows = NO_MORE_ROWS
    weights: FloatArray | None = None

    def constants(self) -> dict[int, float]:
        """Not here."""
        raise ValueError("the data of this model were removed: build it again to fit")

    def design(self, layout: Layout, *, standardize: bool, serves: bool) -> tuple[Design, CrossProducts, float]:
        """Not here."""
        raise ValueError("the data of this model were removed: build it again to fit")

    def rsquared(self, params: FloatArray, residuals: Callable[[slice], FloatArray], *, constant: bool) -> FloatArray:
        """Not here."""
        raise ValueError(self.why_no_rows)

    def without(self, *, row_space: bool) -> Source:
        """The same."""
        return self


def _column(exog: Any, j: int) -> FloatArray:
    column = exog[:, [j]].toarray()[:, 0] if sparse.issparse(exog) else exog[:, j]
    return np.asarray(column, dtype=np.float64)
