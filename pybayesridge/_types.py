"""Type aliases shared by the package."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from narwhals.typing import IntoDataFrame

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.intp]
BoolArray: TypeAlias = NDArray[np.bool_]
AnyArray: TypeAlias = NDArray[Any]


class SparseLike(Protocol):
    """A sparse matrix or array of scipy."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Numbers of rows and columns."""

    def tocsc(self) -> Any:
        """By columns."""


class HasLink(Protocol):
    """A family of statsmodels."""

    @property
    def link(self) -> Any:
        """Its link."""


FamilyLike: TypeAlias = str | HasLink
"""The family of a response, by name or as statsmodels has it."""

TableLike: TypeAlias = "ArrayLike | IntoDataFrame | SparseLike"
"""Columns or responses: anything like an array, a frame of a library that narwhals knows, a sparse matrix."""

RowsLike: TypeAlias = "TableLike | Mapping[str, ArrayLike]"
"""Data for a formula or for predictions: also a dict from names to values."""

Names: TypeAlias = str | int | Sequence[str | int] | ArrayLike
"""Columns by name or position."""

RandomLike: TypeAlias = np.random.Generator | int | None
"""A source of randomness or a seed."""

PathLike: TypeAlias = str | os.PathLike[str]

PathOrFile: TypeAlias = PathLike | BinaryIO

Levels: TypeAlias = Mapping[str, Iterable[Hashable]]
"""Levels of factors by column."""

BandsLike: TypeAlias = "Mapping[str, Names] | Sequence[Hashable] | ArrayLike"
"""Bands of columns with a penalty each: columns by name, or a label for each column."""

GroupsLike: TypeAlias = "str | Sequence[Hashable] | Sequence[Sequence[str]] | ArrayLike | Mapping[str, Names]"
"""Columns that are in or out together: a label for each, lists of names, or names by label."""


class DatasetLike(Protocol):
    """A ``pyarrow.dataset.Dataset``."""

    def get_fragments(self) -> Iterable[Any]:
        """Its files."""

    def count_rows(self) -> int:
        """Number of rows."""


class DaskArrayLike(Protocol):
    """A Dask array."""

    def compute_chunk_sizes(self) -> Any:
        """The array with known sizes of its chunks."""


class DaskFrameLike(Protocol):
    """A Dask DataFrame."""

    @property
    def columns(self) -> Any:
        """Names of the columns."""

    @property
    def divisions(self) -> Any:
        """Bounds of the partitions."""

    def map_partitions(self, func: Any) -> Any:
        """Apply a function to each partition."""


ParquetLike: TypeAlias = PathLike | Sequence[PathLike] | DatasetLike
"""Parquet files: a file, a folder, several files, a dataset."""


class ArrowStreamLike(Protocol):
    """Any object that Arrow's C stream protocol can read."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """The stream."""


class LazyFrameLike(Protocol):
    """A lazy frame of polars."""

    def collect_batches(self) -> Any:
        """Its rows, as frames."""


ArrowLike: TypeAlias = "ArrowStreamLike | LazyFrameLike | Callable[[], ArrowStreamLike | LazyFrameLike]"
"""Rows as an Arrow stream, or a function that returns them."""


class SlicedArray(Protocol):
    """An array that is read by slices: of NumPy, zarr, h5py."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Numbers of rows and columns."""

    @property
    def dtype(self) -> Any:
        """Type of the values."""

    def __getitem__(self, key: Any, /) -> Any:
        """Some of the values."""


ColumnsLike: TypeAlias = (
    "SlicedArray | Sequence[TableLike] | Callable[[], Iterable[TableLike]] | PathLike | Sequence[PathLike] "
    "| DaskArrayLike | IntoDataFrame"
)
"""Columns that are read in blocks."""
