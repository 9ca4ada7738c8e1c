"""Parquet files and datasets as rows in batches."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from pybayesridge.data.frames import without_order
from pybayesridge.streams.schemas import check_files, common_schema
from pybayesridge.text import listed

READAHEAD = 2
"""Batches that are read while one is worked on."""


class ParquetSource:
    """The rows of Parquet files; attributes as in :class:`pybayesridge.streams.passes.BatchSource`."""

    once = ""

    def __init__(self, source: Any) -> None:
        self.dataset = _dataset(source)
        self.own = self.dataset is not source
        self.schema = self.dataset.schema
        self.unordered = without_order(self.schema)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.dataset.count_rows())

    def check(self, columns: Iterable[str]) -> None:
        """Refuse files without one of the columns, or with other types."""
        check_files(self.dataset, columns, own=self.own)

    def batches(self, columns: list[str], size: int) -> Iterator[Any]:
        """Record batches of at most `size` rows of these columns, read while earlier ones are worked on."""
        return _ahead(self._batches(columns, size))

    def _batches(self, columns: list[str], size: int) -> Iterator[Any]:
        import pyarrow.dataset as ds

        options: dict[str, Any] = {
            "columns": columns,
            "batch_size": size,
            "batch_readahead": READAHEAD,
            "fragment_readahead": 1,
        }
        if not self.own:
            yield from intact(self.dataset.to_batches(**options), "the source")
            return
        # A row group at a time, since a scan of the whole dataset runs ahead of slow work by up to a gigabyte; and
        # without a buffer that holds a file until its last row group has been read.
        options["fragment_scan_options"] = ds.ParquetFragmentScanOptions(
            pre_buffer=False, page_checksum_verification=True
        )
        for fragment in self.dataset.get_fragments():
            for group in fragment.split_by_row_group():
                yield from intact(group.to_batches(schema=self.schema, **options), fragment.path)


@contextmanager
def readable(name: Any) -> Iterator[None]:
    """Make pyarrow's errors of a damaged file ValueErrors that name it; the file system's errors stay."""
    import pyarrow as pa

    try:
        yield
    except (OSError, pa.ArrowException) as error:
        if getattr(error, "errno", None) is not None:
            raise
        raise ValueError(f"{name} cannot be read as Parquet: {error}") from None


def intact(batches: Iterator[Any], name: Any) -> Iterator[Any]:
    """The same batches; an error of a damaged file names it."""
    while True:
        with readable(name):
            batch = next(batches, None)
        if batch is None:
            return
        yield batch


def _ahead(batches: Iterator[Any]) -> Iterator[Any]:
    """The same batches, some of them read in a thread before they are asked for."""
    with ThreadPoolExecutor(1) as pool:
        waiting = deque(pool.submit(next, batches, None) for _ in range(READAHEAD))
        while (batch := waiting.popleft().result()) is not None:
            waiting.append(pool.submit(next, batches, None))
            yield batch


def _dataset(source: Any) -> Any:
    try:
        import pyarrow.dataset as ds
    except ImportError as error:
        raise ImportError("reading Parquet needs pyarrow: pip install 'pybayesridge[stream]'") from error
    if isinstance(source, ds.Dataset):
        return source
    several = isinstance(source, list | tuple)
    files = [str(path) for path in source] if several else str(source)
    options = {"format": "parquet", "partitioning": "hive"}
    with readable(listed(files) if several else files):
        return ds.dataset(files, schema=common_schema(ds.dataset(files, **options)), **options)
