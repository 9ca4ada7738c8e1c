"""Moments → the same `Design` and cross-products that rows give: unpenalised columns partialled out by Cholesky."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.linalg import LinAlgError, cholesky, qr, solve_triangular

from pybayesridge._types import BoolArray, FloatArray, IntArray
from pybayesridge.data.prepare import ModelData, added_intercept, resolve_columns, serving_constant
from pybayesridge.design.crossproducts import CrossProducts
from pybayesridge.design.design import NOTHING_LEFT, Design
from pybayesridge.design.unpenalized import Unpenalized
from pybayesridge.linalg.scale import common_scale, constant_columns
from pybayesridge.moments.blocks import BlockMoments
from pybayesridge.moments.moments import Moments, check_definite
from pybayesridge.text import listed

NOISE = 1e-13
"""A share of a sum of squares this small is what rounding leaves when everything is taken away."""

SPAN = 1e-12
"""The constant lies in the span of Z where Z leaves no larger share of it."""

ROUNDING = 16 * float(np.finfo(float).eps)
"""Error of a sum of products, relative to the product of the norms."""


@dataclass(frozen=True, slots=True)
class Reduced:
    """Cross-products after the unpenalised columns U were partialled out.

    Attributes
    ----------
    root : (u, u) array
        Upper triangular, ``root'root = U'WU`` (of deviations from the mean where there is an intercept).
    on_u : (u, p + q) array
        Coefficients of the other columns and the targets on U.
    xx : (p, p) array
    xy : (p, q) array
    yy : (q,) array
    loss : float
        Relative error that cancellation has left in them, about.
    """

    root: FloatArray
    on_u: FloatArray
    xx: FloatArray
    xy: FloatArray
    yy: FloatArray
    loss: float


def prepare_moments(
    moments: Moments,
    *,
    intercept: bool | str,
    unpenalized: object,
    max_targets: int | None,
    terms: dict[str, list[int]] | None,
    find_constant: bool,
) -> ModelData:
    """The result of :func:`pybayesridge.data.prepare.prepare`, for moments; the arguments are the same."""
    check_definite(moments)
    return data_of_names(
        moments,
        intercept=intercept,
        unpenalized=unpenalized,
        max_targets=max_targets,
        terms=terms,
        find_constant=find_constant,
    )


def data_of_names(
    moments: Moments | BlockMoments,
    *,
    intercept: bool | str,
    unpenalized: object,
    max_targets: int | None,
    terms: dict[str, list[int]] | None,
    find_constant: bool,
) -> ModelData:
    """The same of moments whose cross-products are those of rows that were read."""
    names = list(moments.columns)
    if max_targets is not None and len(moments.targets) > max_targets:
        raise ValueError(
            f"the moments have {len(moments.targets)} targets: this model takes {max_targets}; "
            "use subset(targets=...)"
        )
    may_serve = bool(intercept) and intercept != "add" and find_constant
    const_idx = serving_constant(moments.n, constants_of(moments)) if may_serve else None
    fixed = resolve_columns(unpenalized, names, terms)
    if const_idx is not None:
        fixed = np.union1d(fixed, [const_idx]).astype(np.intp)
    targets = list(moments.targets)
    return ModelData(
        endog=None,
        exog=None,
        weights=None,
        row_labels=pd.RangeIndex(0),
        ynames=targets[0] if len(targets) == 1 else targets,
        exog_columns=names,
        intercept_name=added_intercept(names, find_constant) if intercept and const_idx is None else None,
        const_idx=const_idx,
        unpenalized=fixed,
        n_dropped=moments.n_dropped,
        # Names that are not those of an array's columns must be found in new frames.
        orig_exog=None if names == [f"x{i}" for i in range(1, len(names) + 1)] else pd.DataFrame(columns=names),
    )


def constants_of(moments: Moments | BlockMoments) -> dict[int, float]:
    """Columns whose values are all equal, and the value."""
    mean = moments.x_mean
    return {int(j): float(mean[j]) for j in np.flatnonzero(moments.variation == 0.0)}


def design_of_moments(
    moments: Moments,
    *,
    penalized: IntArray,
    unpenalized: IntArray,
    z_names: Sequence[str],
    z_constant: int | None,
    standardize: bool,
    constant_serves: bool,
) -> tuple[Design, CrossProducts, float]:
    """Do what :func:`pybayesridge.design.build.build_design` does, from moments.

    Parameters
    ----------
    moments : Moments
    penalized, unpenalized : int arrays
        Positions of columns, ascending. An intercept that was added is not among them.
    z_names : sequence of str
        Names of the unpenalised columns, the intercept among them.
    z_constant : int or None
        Which of `z_names` is the intercept.
    standardize, constant_serves : bool
        As for rows.

    Returns
    -------
    design : Design
        Without rows.
    products : CrossProducts
    loss : float
        Relative error that cancellation has left in the products, about.

    Raises
    ------
    ValueError
        If the unpenalised columns are (to the accuracy of moments) linearly dependent.
    """
    k = len(z_names)
    _check_count(k, moments.n)
    # The column that serves as the intercept is not one of U.
    u = np.delete(unpenalized, z_constant) if z_constant is not None and constant_serves else unpenalized
    u_names = [name for i, name in enumerate(z_names) if i != z_constant]
    centred, unit = z_constant is not None, moments.n / moments.weight_sum
    mean = moments.x_mean
    value = 1.0 if z_constant is None or not constant_serves else float(mean[unpenalized[z_constant]])
    reduced = _partial_out(moments, u, penalized, u_names, centred=centred, unit=unit)
    block = _block(moments, u, reduced, k=k, constant=z_constant, value=value)
    sd = np.sqrt(np.diag(moments.xx)[penalized] / moments.weight_sum)
    flat = constant_columns(sd, np.abs(mean[penalized]))
    absorbed = flat & (block.ones is not None)
    scale = np.where(flat, 1.0, sd) if standardize else np.full(penalized.size, common_scale(sd))
    inverse = np.where(absorbed, 0.0, 1.0 / scale)
    keep = ~flat if block.ones is not None or standardize else np.ones(penalized.size, dtype=bool)
    center = mean[penalized] if centred else np.zeros(penalized.size)
    on_z = _on_z(moments, u, penalized, reduced, k=k, constant=z_constant, value=value)
    projection = on_z[:, : penalized.size] if u.size else None
    y_norm, vanishes, size = _norms(moments, reduced.yy, unit, centred)
    gram = reduced.xx * inverse * inverse[:, None]
    products = CrossProducts(
        side="gram",
        product=np.asfortranarray(gram[np.ix_(keep, keep)]),
        xty=np.where(vanishes, 0.0, reduced.xy * inverse[:, None] / y_norm)[keep],
        center=center,
        projection=projection,
        scale=scale,
        sd=sd,
        constant=flat,
    )
    design = Design(
        x=np.empty((0, len(moments.columns))),
        columns=penalized[keep],
        constant=penalized[~keep],
        block=block,
        center=center[keep],
        scale=scale[keep],
        sd=sd[keep],
        projection=None if projection is None else projection[:, keep],
        y=np.empty((0, len(moments.targets))),
        y_norm=y_norm,
        y_on_z=on_z[:, penalized.size :],
        y_vanishes=vanishes,
        y_size=size,
        standardized_columns=standardize,
        constant_serves=constant_serves,
        n=moments.n,
    )
    return design, products, reduced.loss


def _check_count(k: int, n: int) -> None:
    if k > n:
        raise ValueError(
            f"{k} unpenalised columns (the intercept among them) for {n} rows: leave some out of `unpenalized`"
        )


def _cross(moments: Moments, rows: IntArray, columns: IntArray, *, centred: bool, unit: float) -> FloatArray:
    """Cross-products of two sets of columns, of weights with mean 1; about zero where there is no intercept."""
    out = moments.xx[np.ix_(rows, columns)]
    if not centred:
        mean = moments.x_mean
        out = out + moments.weight_sum * np.outer(mean[rows], mean[columns])
    return out * unit


def _partial_out(
    moments: Moments, u: IntArray, x: IntArray, names: Sequence[str], *, centred: bool, unit: float
) -> Reduced:
    xx = _cross(moments, x, x, centred=centred, unit=unit)
    xy, yy, uy = moments.xy[x], moments.yy, moments.xy[u]
    if not centred:
        mean, y_mean, total = moments.x_mean, moments.y_mean, moments.weight_sum
        xy = xy + total * np.outer(mean[x], y_mean)
        uy = uy + total * np.outer(mean[u], y_mean)
        yy = yy + total * y_mean**2
    xy, yy, uy = xy * unit, yy * unit, uy * unit
    # Without an intercept a large mean costs digits too.
    varies = np.diag(moments.xx)[x] * unit
    before = [np.diag(xx), yy]
    if not u.size:
        after = [varies if not centred else np.diag(xx), yy]
        return Reduced(np.empty((0, 0)), np.empty((0, x.size + yy.size)), xx, xy, yy, _loss(before, after))
    root, pivot = _root(_cross(moments, u, u, centred=centred, unit=unit), names)
    ux = _cross(moments, u, x, centred=centred, unit=unit)
    half = solve_triangular(root, np.hstack([ux, uy]), trans="T", check_finite=False)
    half_x, half_y = half[:, : x.size], half[:, x.size :]
    left = xx - half_x.T @ half_x
    # What rounding leaves of a column in the span of U is no column.
    spanned = np.diag(left) <= NOISE * np.diag(xx)
    left[spanned] = 0.0
    left[:, spanned] = 0.0
    xy = np.where(spanned[:, None], 0.0, xy - half_x.T @ half_y)
    rest = yy - (half_y**2).sum(axis=0)
    loss = max(_loss(before, [np.diag(left), rest]), ROUNDING / pivot)
    if (spanned & (varies > 0)).any():
        # What is left may be as much as that, and rows would show it.
        loss = 1.0
    on_u = solve_triangular(root, half, check_finite=False)
    return Reduced(root, on_u, left, xy, np.maximum(rest, 0.0), loss)


def _loss(before: Sequence[FloatArray], after: Sequence[FloatArray]) -> float:
    """Relative error of differences: rounding errors of the minuend relative to the difference."""
    worst = 0.0
    for whole, rest in zip(before, after, strict=True):
        real = rest > NOISE * whole
        worst = max(worst, float((ROUNDING * whole[real] / rest[real]).max(initial=0.0)))
    return worst


def _root(gram: FloatArray, names: Sequence[str]) -> tuple[FloatArray, float]:
    """Cholesky's triangle of U'WU, and the smallest share of a column's squares that the others before it leave."""
    size = np.sqrt(np.maximum(np.diag(gram), 0.0))
    size[size == 0] = 1.0
    scaled = gram / size / size[:, None]
    try:
        root = cholesky(scaled, check_finite=False)
        shares = np.diag(root) ** 2
    except LinAlgError:
        # The pivots of QR find the columns to name.
        root = qr(scaled, mode="r", check_finite=False)[0]
        shares = np.abs(np.diag(root))
        shares = np.where(np.arange(shares.size) == shares.argmin(), 0.0, shares)
    bad = np.flatnonzero(shares <= NOISE)
    if bad.size:
        raise ValueError(
            f"unpenalised column(s) {listed(names[int(i)] for i in bad)} are, to the accuracy of moments, linear "
            "combinations of the other unpenalised columns: leave them out, let them be penalised, or fit from rows"
        )
    return root * size, float(shares.min())


def _block(
    moments: Moments, u: IntArray, reduced: Reduced, *, k: int, constant: int | None, value: float
) -> Unpenalized:
    """The unpenalised block without its rows."""
    if constant is None:
        r, ones = reduced.root, _span_of_constant(moments, u, reduced)
    else:
        # With the intercept first the triangle is this one; it is then rotated to the order of the columns.
        n = float(moments.n)
        first = np.concatenate([[value], moments.x_mean[u]]) * np.sqrt(n)
        ordered = np.zeros((k, k))
        ordered[0], ordered[1:, 1:] = first, reduced.root
        r = ordered
        if constant > 0:
            r = np.empty((k, k))
            r[:, np.r_[constant, np.delete(np.arange(k), constant)]] = ordered
            r = qr(r, mode="r", check_finite=False)[0]
        ones = np.zeros(k)
        ones[constant] = 1.0 / value
    return Unpenalized(z=np.empty((0, k)), q=np.empty((0, k)), r=r, ones=ones, sqrt_w=None)


def _span_of_constant(moments: Moments, u: IntArray, reduced: Reduced) -> FloatArray | None:
    """The combination of U that is 1 in every row, or None where there is none."""
    if not u.size:
        return None
    half = solve_triangular(reduced.root, moments.n * moments.x_mean[u], trans="T", check_finite=False)
    if moments.n - half @ half > SPAN * moments.n:
        return None
    ones: FloatArray = solve_triangular(reduced.root, half, check_finite=False)
    return ones


def _on_z(
    moments: Moments, u: IntArray, x: IntArray, reduced: Reduced, *, k: int, constant: int | None, value: float
) -> FloatArray:
    """Coefficients on Z of the centred columns and of the targets, (k, p + q)."""
    out = np.zeros((k, reduced.on_u.shape[1]))
    if constant is None:
        out[:] = reduced.on_u
        return out
    out[np.delete(np.arange(k), constant)] = reduced.on_u
    means = np.concatenate([np.zeros(x.size), moments.y_mean])
    out[constant] = (means - moments.x_mean[u] @ reduced.on_u) / value
    return out


def _norms(
    moments: Moments, left: FloatArray, unit: float, centred: bool
) -> tuple[FloatArray, BoolArray, FloatArray]:
    """Norms of the targets outside Z, whether these vanish, and the norms of the targets themselves."""
    whole = unit * moments.yy + moments.n * moments.y_mean**2
    before = unit * moments.yy if centred else whole
    vanishes = (left <= NOTHING_LEFT**2 * whole) | (left <= NOISE * before)
    norm: FloatArray = np.where(vanishes, 1.0, np.sqrt(left))
    size: FloatArray = np.where(vanishes, 1.0, np.sqrt(whole) / norm)
    return norm, vanishes, size


def rsquared_of_moments(moments: Moments, intercept: FloatArray, slopes: FloatArray, *, constant: bool) -> FloatArray:
    """Share of the weighted variation explained, (q,): about the mean with a constant.

    Parameters
    ----------
    moments : Moments
    intercept : (q,) array
        Of an intercept that is not a column; 0 otherwise.
    slopes : (m, q) array
    constant : bool
    """
    gap = moments.y_mean - intercept - moments.x_mean @ slopes
    residual = moments.yy - 2 * (slopes * moments.xy).sum(axis=0) + (slopes * (moments.xx @ slopes)).sum(axis=0)
    residual = residual + moments.weight_sum * gap**2
    total = moments.yy if constant else moments.yy + moments.weight_sum * moments.y_mean**2
    floor = (NOTHING_LEFT * np.abs(moments.y_mean)) ** 2 * moments.weight_sum
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(total > floor, 1.0 - np.maximum(residual, 0.0) / total, np.nan)
