"""Dask arrays chunked by columns: cross-products and coefficients are computed where the chunks are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from pybayesridge._types import AnyArray, IntArray
from pybayesridge.data.blocks import as_block, wrong_rows
from pybayesridge.design.columns import Answer, ColumnStream, Own, Shared, cut
from pybayesridge.design.unpenalized import Unpenalized
from pybayesridge.design.wide import WideProducts, merge, wide_products
from pybayesridge.streams.columns import check_block, check_width, names_for

BRANCHES = 8
"""How many parts one task merges."""

WINDOW = 32
"""Chunks whose answers are waited for at once."""


class DaskColumns(ColumnStream):
    """The columns of a Dask array.

    Parameters
    ----------
    array : dask.array.Array
        Of two dimensions.
    n : int
        Rows.
    first : int
        Unpenalised columns that precede them.
    names : list of str or None
    transposed : bool
        Whether the rows of the array are columns of X.

    Attributes
    ----------
    names : list of str
    """

    def __init__(self, array: Any, n: int, first: int, names: list[str] | None, *, transposed: bool) -> None:
        if hasattr(array, "columns"):
            raise ValueError("a Dask DataFrame consists of rows: pass a Dask array that is chunked by columns")
        if array.ndim != 2:
            raise ValueError(f"the source must have two dimensions, got {array.ndim}")
        if np.isnan(array.shape).any():
            raise ValueError("the source has chunks of unknown sizes: call compute_chunk_sizes() first")
        x = array.T if transposed else array
        if x.shape[0] != n:
            raise ValueError(wrong_rows(x.shape, n, transposed=transposed))
        if not x.shape[1]:
            raise ValueError("the source has no columns: use BayesRidge(endog, exog) for a model of covariates alone")
        if x.numblocks[0] > 1:
            x = x.rechunk({0: -1})
        self.first, self.shape = first, (n, first + int(x.shape[1]))
        self.given = names
        self.names = names_for(names, None, int(x.shape[1]))
        bounds = np.cumsum([first, *x.chunks[1]]).tolist()
        self._parts = list(zip(bounds[:-1], bounds[1:], x.to_delayed().ravel(), strict=True))

    def products(self, block: Unpenalized, *, standardize: bool) -> WideProducts:
        """What the model needs of the columns: computed chunk by chunk and summed in a tree, where Dask runs it."""
        import dask

        shared = dask.delayed(block, traverse=False)
        level = [
            dask.delayed(_products)(shared, chunk, a - self.first, b - a, self._given_to(a, b), standardize)
            for a, b, chunk in self._parts
        ]
        while len(level) > 1:
            level = [dask.delayed(merge)(level[i : i + BRANCHES]) for i in range(0, len(level), BRANCHES)]
        out: WideProducts = dask.compute(level[0])[0]
        return out

    def _given_to(self, start: int, stop: int) -> list[str] | None:
        """The names that were given to some columns, for messages."""
        return None if self.given is None else self.given[start - self.first : stop - self.first]

    def map(
        self,
        function: Callable[[Shared, Own, AnyArray], Answer],
        shared: Shared,
        own: Callable[[int, int], Own],
    ) -> Iterator[Answer]:
        """Yield the answers of all chunks, some at a time, computed where Dask runs them."""
        import dask

        common = dask.delayed(shared, traverse=False)
        for i in range(0, len(self._parts), WINDOW):
            tasks = [
                dask.delayed(_answer)(
                    function, common, dask.delayed(own(a, b), traverse=False), chunk, (self.shape[0], b - a)
                )
                for a, b, chunk in self._parts[i : i + WINDOW]
            ]
            yield from dask.compute(*tasks)

    def blocks(self, wanted: IntArray | None = None) -> Iterator[tuple[int, AnyArray]]:
        """Yield the chunks, one after the other."""
        import dask

        for a, b, chunk in self._parts:
            if wanted is None or np.searchsorted(wanted, a) < np.searchsorted(wanted, b):
                yield a, _as_array(dask.compute(chunk)[0], (self.shape[0], b - a))


def _as_array(chunk: Any, shape: tuple[int, int]) -> AnyArray:
    block = as_block(chunk, shape[0])[0]
    check_width(block, shape[1], f"has a chunk of shape {shape}, and what Dask computes for it")
    return block


def _products(
    block: Unpenalized, chunk: Any, start: int, width: int, names: Sequence[str] | None, standardize: bool
) -> WideProducts:
    raw = _as_array(chunk, (block.z.shape[0], width))
    check_block(raw, start, names)
    return wide_products(cut(raw), block, standardize=standardize, with_taken=True)


def _answer(
    function: Callable[[Any, Any, AnyArray], Any], shared: Any, own: Any, chunk: Any, shape: tuple[int, int]
) -> Any:
    return function(shared, own, _as_array(chunk, shape))
