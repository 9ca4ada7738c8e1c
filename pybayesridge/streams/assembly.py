"""Cross-products of plain columns and cells → moments of the columns of a formula."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from formulaic.materializers.types import FactorValues
from formulaic.parser.types import Factor
from scipy import sparse

from pybayesridge._types import FloatArray
from pybayesridge.formula.calls import as_state
from pybayesridge.formula.values import model_matrix
from pybayesridge.linalg.scale import SAFE
from pybayesridge.moments.moments import Moments
from pybayesridge.streams.coding import Coding
from pybayesridge.streams.plain import PlainBatches
from pybayesridge.streams.sums import RowSums
from pybayesridge.streams.terms import PlainTerm, PlainTerms


def check_range(sums: RowSums) -> None:
    """Refuse columns whose squares leave the range of floats."""
    squares = np.diag(sums.gram)[1:]
    odd = ~(squares < SAFE[1]) | ((squares <= SAFE[0]) & ~sums.flat)
    for j in np.flatnonzero(odd):
        raise ValueError(f"the squares of {':'.join(sums.dense[j])!r} leave the range of floats: rescale it")


def dense_moments(sums: RowSums, columns: Sequence[str], names: Sequence[str]) -> Moments:
    """Moments of some of the dense columns, under other names; the response is a column of zeros."""
    at = np.array([sums.dense.index((column,)) for column in columns])
    total, first = sums.gram[0, 0], sums.gram[1 + at, 0]
    square = np.tril(sums.gram) + np.tril(sums.gram, -1).T
    zero = np.zeros(1)
    return Moments(
        n=sums.n,
        weight_sum=float(total),
        log_weight_sum=sums.log_weight_sum,
        x_origin=sums.origin[at],
        x_offset=first / total,
        y_origin=zero,
        y_offset=zero,
        xx=square[np.ix_(1 + at, 1 + at)] - np.outer(first, first) / total,
        xy=np.zeros((len(at), 1)),
        yy=zero,
        columns=tuple(names),
        targets=("y",),
    )


def moments_of_terms(sums: RowSums, plain: PlainTerms, coding: Coding, batches: PlainBatches) -> Moments:
    """Moments of the columns of the formula.

    Every column of the design is a constant plus a linear combination of dense columns and of cells; with the matrix
    of these combinations the cross-products follow.

    Parameters
    ----------
    sums : RowSums
        Of all rows.
    plain : PlainTerms
    coding : Coding
        With the levels and means of all rows.
    batches : PlainBatches
        With the levels of each factor in the order of their codes.
    """
    products, first = _joined(sums)
    total = sums.gram[0, 0]
    origin, combine = _combinations(sums, plain, coding, batches)
    responses = [str(name) for name in coding.specs.lhs.column_names]
    y = np.array([sums.dense.index((name,)) for name in responses])
    x_offset = combine.T @ first / total
    y_offset = first[y] / total
    xx = combine.T @ (combine.T @ products).T - total * np.outer(x_offset, x_offset)
    squares = np.diag(products)[y]
    return Moments(
        n=sums.n,
        weight_sum=float(total),
        log_weight_sum=sums.log_weight_sum,
        x_origin=origin,
        x_offset=x_offset,
        y_origin=sums.origin[y],
        y_offset=y_offset,
        xx=(xx + xx.T) / 2,
        xy=combine.T @ products[:, y] - total * np.outer(x_offset, y_offset),
        yy=squares - total * y_offset**2,
        columns=tuple(coding.spec.columns),
        targets=tuple(responses),
    )


def _joined(sums: RowSums) -> tuple[FloatArray, FloatArray]:
    """Cross-products and sums of all dense columns and cells, in this order."""
    m = len(sums.dense)
    starts = _starts(sums)
    size = m + sum(block.size for block in sums.cells)
    out, first = np.zeros((size, size)), np.zeros(size)
    out[:m, :m] = np.tril(sums.gram[1:, 1:]) + np.tril(sums.gram[1:, 1:], -1).T
    first[:m] = sums.gram[1:, 0]
    for block, start in zip(sums.cells, starts, strict=True):
        at = slice(start, start + block.size)
        first[at] = block.sums[0]
        out[:m, at] = block.sums[1:]
        out[at, :m] = block.sums[1:].T
    for (i, j), total in sums.pairs.items():
        rows = np.arange(starts[i], starts[i] + sums.cells[i].size)
        columns = np.arange(starts[j], starts[j] + sums.cells[j].size)
        if total.ndim == 1:
            out[rows, columns] = out[columns, rows] = total
        else:
            out[np.ix_(rows, columns)] = total
            out[np.ix_(columns, rows)] = total.T
    return out, first


def _starts(sums: RowSums) -> list[int]:
    sizes = [len(sums.dense), *(block.size for block in sums.cells)]
    return [int(start) for start in np.cumsum(sizes)[:-1]]


def _combinations(sums: RowSums, plain: PlainTerms, coding: Coding, batches: PlainBatches) -> tuple[FloatArray, Any]:
    """A constant for each column of the design, and the combination of dense columns and cells to add to it."""
    spec: Any = coding.spec.spec
    names = [str(name) for name in spec.column_names]
    position = {name: j for j, name in enumerate(coding.spec.columns)}
    origin = np.zeros(len(position))
    blocks: list[Any] = [sparse.csc_matrix((0, 0))]
    at: list[int] = []
    for term, where in spec.term_slices.items():
        kept = [(i, position[name]) for i, name in enumerate(names[where]) if name in position]
        if not kept or term not in plain.terms:
            continue
        known = plain.terms[term]
        shift, scale = _scaling(spec, known)
        if known.factors or any(name in plain.fields for name in known.numbers):
            coded = _coded(term, plain, coding, batches)
            constant, columns = _of_products(sums, plain, known, coded, shift, scale)
        else:
            j = sums.dense.index(known.numbers)
            constant = np.array([(sums.origin[j] - shift) / scale])
            columns = sparse.csc_matrix(([1 / scale], ([j], [0])), shape=(_total(sums), 1))
        chosen = [i for i, _ in kept]
        blocks.append(columns[:, chosen])
        at += [k for _, k in kept]
        origin[[k for _, k in kept]] = constant[chosen]
    if len(at) != len(position):
        raise AssertionError("a column of the design belongs to no term")
    if not at:
        return origin, sparse.csc_matrix((_total(sums), 0))
    return origin, sparse.hstack(blocks[1:], format="csc")[:, np.argsort(at)]


def _total(sums: RowSums) -> int:
    return len(sums.dense) + sum(block.size for block in sums.cells)


def _of_products(
    sums: RowSums, plain: PlainTerms, known: PlainTerm, coded: FloatArray, shift: float, scale: float
) -> tuple[FloatArray, Any]:
    """The columns of a term with factors, or of several numbers.

    Each is the sum over numbers ``x`` of ``c`` times ``(x - shift) / scale``, with ``c`` for the cell from `coded`.
    """
    starts = _starts(sums)
    where = {(block.numbers, block.factors): i for i, block in enumerate(sums.cells)}
    common = np.zeros(coded.shape[2])
    parts: list[tuple[int, FloatArray]] = []
    middle = np.zeros(coded.shape[1:])
    for key, each in zip(plain.products(known), coded, strict=True):
        if not known.factors:
            j = sums.dense.index(key)
            common += each[0] * ((sums.origin[j] - shift) / scale)
            parts.append((j, each / scale))
        elif known.numbers:
            block = where[key, known.factors]
            middle += each * ((sums.cells[block].origin - shift) / scale)[:, None]
            parts.append((starts[block], each / scale))
        else:
            middle += each
    if known.factors:
        dummies = where[(), known.factors]
        # About the most frequent cell, whose dummy may be nearly constant.
        common = middle[np.argmax(sums.cells[dummies].sums[0])]
        parts.append((starts[dummies], middle - common))
    rows, columns, values = [], [], []
    for start, part in parts:
        some = sparse.coo_matrix(part)
        rows.append(some.row + start)
        columns.append(some.col)
        values.append(some.data)
    entries = (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns)))
    return common, sparse.csc_matrix(entries, shape=(_total(sums), coded.shape[2]))


def _coded(term: Any, plain: PlainTerms, coding: Coding, batches: PlainBatches) -> FloatArray:
    """The columns of a term for each product of its numbers, where that is 1, in each cell of its factors."""
    known, levels = plain.terms[term], batches.levels
    at = np.meshgrid(*(np.arange(len(levels[name])) for name in known.factors), indexing="ij")
    n = at[0].size if at else 1
    data: dict[str, Any] = {name: np.ones(n) for name in known.numbers if name not in plain.expressions}
    for name, index in zip(known.factors, at, strict=True):
        values, dtype = [levels[name][i] for i in index.ravel()], coding.sample[name].dtype
        if pd.api.types.is_numeric_dtype(dtype):
            data[name] = pd.Series(values, dtype=dtype)
        else:
            data[name] = pd.Categorical(values, categories=levels[name])
    spec: Any = coding.spec.spec
    spec = spec.subset([term])
    frame = pd.DataFrame(data, index=range(n))
    out = []
    for choice in itertools.product(*(plain.fields.get(name, [name]) for name in known.numbers)):
        given = {}
        if known.scaled:
            factor = next(factor for factor in term.factors if str(factor.expr) == known.scaled)
            given[known.scaled] = (factor, FactorValues(np.ones(n), kind=Factor.Kind.NUMERICAL))
        elif batches.expressions is not None:
            for name, field in zip(known.numbers, choice, strict=True):
                if name in plain.expressions:
                    given[name] = batches.expressions.given(name, field, n)
        made, _ = model_matrix(spec, frame, coding.plan.context, given)
        out.append(pd.DataFrame(made).to_numpy(dtype=np.float64))
    return np.array(out)


def _scaling(spec: Any, known: PlainTerm) -> tuple[float, float]:
    """The mean and the standard deviation that a term's number is scaled by."""
    if not known.scaled:
        return 0.0, 1.0
    state = next(s for key, s in spec.transform_state.items() if as_state(key) == as_state(known.scaled))
    return float(state["center"]), 1.0 if state.get("scale") is None else float(state["scale"])
