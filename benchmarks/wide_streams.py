"""A ridge of few rows and millions of columns, read in blocks: seconds of each pass, its floor, and peak memory.

    python benchmarks/wide_streams.py [--columns 2000000] [--quick] [--render] [--out FOLDER]

Counts of 500 rows (int8: 0, 1, 2) are the source, each case in a process of its own: generated block by block by a
function, or 200,000 columns in a temporary Parquet file with a row for each column, or in a Dask array. The floor of
the first pass is reading the source and one call of BLAS (dsyrk) for XX'; that of writing the coefficients is reading
and the product of X' with the n x n matrix of singular vectors (dgemm).
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import common

ROWS = 500
WIDTH = 8192
"""Columns of a block."""

SIGNAL = 1000
"""Columns of the first block on which the response depends."""

CASES = {
    "function": "a function that makes blocks",
    "function, a quarter": "the same, a quarter of the columns",
    "parquet": "Parquet, a row for each column of X",
    "dask": "Dask array, chunks of columns",
}
FEWER = 10
"""Files and Dask arrays have so many times fewer columns."""


def block(start: int, stop: int) -> Any:
    """Counts of some columns: rows are similar in pairs, as relatives are."""
    import numpy as np

    rng = np.random.default_rng(start)
    out = rng.integers(0, 3, size=(ROWS, stop - start), dtype=np.int8)
    out[1::2, ::3] = out[::2, ::3]
    return out


def bounds(columns: int) -> Iterator[tuple[int, int]]:
    for start in range(0, columns, WIDTH):
        yield start, min(start + WIDTH, columns)


def write(path: Path, columns: int) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    writer = None
    for start, stop in bounds(columns):
        x = block(start, stop)
        table = pa.table({f"s{i}": row for i, row in enumerate(x)} | {"name": [f"v{j}" for j in range(start, stop)]})
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


def source_of(case: str, columns: int, folder: Path) -> tuple[Any, dict[str, Any]]:
    """The source, and arguments that go with it."""
    if case == "parquet":
        return folder / "x.parquet", {"transposed": True, "names": "name"}
    if case == "dask":
        import dask
        from dask import array

        made = dask.delayed(block)
        parts = [array.from_delayed(made(a, b), (ROWS, b - a), dtype="i1") for a, b in bounds(columns)]
        return array.concatenate(parts, axis=1), {}
    return lambda: (block(*part) for part in bounds(columns)), {}


def read(case: str, columns: int, folder: Path) -> float:
    """Seconds of reading the source, nothing else."""
    start = common.clock()
    if case == "parquet":
        import pyarrow.parquet as pq

        for batch in pq.ParquetFile(folder / "x.parquet").iter_batches(batch_size=WIDTH, use_threads=False):
            assert batch.num_rows
    else:
        for part in bounds(columns):
            block(*part)
    return common.clock() - start


def floors(columns: int) -> tuple[float, float]:
    """Seconds of dsyrk and of dgemm alone, for as many columns."""
    import numpy as np
    from scipy.linalg.blas import dgemm, dsyrk

    a = np.asfortranarray(np.random.default_rng(0).normal(size=(ROWS, 2048)))
    square = np.zeros((ROWS, ROWS), order="F")
    repeat = 20
    for call in (False, True):
        start = common.clock()
        for _ in range(repeat if call else 1):
            square = dsyrk(1.0, a, beta=1.0, c=square, overwrite_c=1, lower=1)
    products = common.clock() - start
    start = common.clock()
    for _ in range(repeat):
        dgemm(1.0, a, square, trans_a=1)
    share = columns / (2048 * repeat)
    return products * share, (common.clock() - start) * share


def run(case: str, columns: int, folder: Path) -> dict[str, float]:
    import pandas  # noqa: F401
    import pyarrow.parquet  # noqa: F401

    from pybayesridge import BayesRidge

    if case == "dask":
        import dask

        dask.config.set(scheduler="synchronous" if common.one_thread() else "threads")
    y = block(0, WIDTH)[:, :SIGNAL].sum(axis=1).astype(float)
    source, options = source_of(case, columns, folder)
    found = {"columns": columns, "read": read(case, columns, folder)}
    found["dsyrk"], found["dgemm"] = floors(columns)

    def seconds(name: str, function: Any) -> Any:
        start = common.clock()
        out = function()
        found[name] = common.clock() - start
        return out

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    model = seconds("build", lambda: BayesRidge.from_columns(y, source, progress=False, **options))
    res = seconds("fit", model.fit)
    found["memory_fit"] = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    seconds("write", lambda: res.write_coefficients(folder / "out.parquet"))
    found["memory"] = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    (folder / "out.parquet").unlink()
    seconds("summary", res.summary)
    found["nodes"] = len(res.ridge_fit.mixture.log_t2)
    return found


def measure(quick: bool, columns: int) -> dict[str, dict[str, float]]:
    out = {}
    with tempfile.TemporaryDirectory() as name:
        for case in CASES:
            p = {"function": columns, "function, a quarter": columns // 4}.get(case, columns // FEWER)
            if case == "parquet":
                write(Path(name) / "x.parquet", p)
            command = [sys.executable, __file__, "--case", case, "--columns", str(p), "--folder", name]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            out[case] = json.loads(done.stdout.splitlines()[-1])
    return out


def page(found: dict[str, dict[str, float]]) -> str:
    show = common.show_seconds
    rows = []
    for case, r in found.items():
        first, second = r["read"] + r["dsyrk"], r["read"] + r["dgemm"]
        rows.append(
            [
                CASES[case],
                f"{r['columns']:,.0f}",
                show(r["build"]),
                f"{r['build'] / first:.2f}",
                show(r["fit"]),
                show(r["write"]),
                f"{r['write'] / second:.2f}",
                show(r["summary"]),
                f"{r['memory']:.0f}",
                f"{ROWS * r['columns'] * 8 / 1e9:.1f}",
            ]
        )
    head = [
        "source",
        "columns",
        "first pass",
        "/ floor",
        "fit",
        "coefficients to Parquet",
        "/ floor",
        "summary",
        "peak memory, MiB",
        "X in memory, GB",
    ]
    nodes = found["function"]["nodes"]
    return (
        f"{ROWS} rows of counts (int8), blocks of {WIDTH:,} columns. The first pass checks the columns and makes "
        "cross-products, means and scales; its floor is reading the source and one dsyrk. The second writes means, "
        "standard deviations and 95 % intervals of all coefficients; its floor is reading and one dgemm. Intervals "
        f"are quantiles of a mixture over {nodes} nodes of the penalty. Peak memory is that beyond the imports.\n\n"
        f"{common.table(head, rows)}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--columns", type=int)
    parser.add_argument("--quick", action="store_true", help="a hundredth of the columns")
    parser.add_argument("--render", action="store_true", help="write the page again from stored numbers")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--case", choices=CASES)
    parser.add_argument("--folder", type=Path)
    args = parser.parse_args()
    if args.case:
        print(json.dumps(run(args.case, args.columns, args.folder)))
        return
    args.out = args.out or (common.QUICK_RESULTS if args.quick else common.RESULTS)
    columns = args.columns or (20_000 if args.quick else 2_000_000)
    packages = ["pybayesridge", "numpy", "scipy", "pandas", "pyarrow", "dask"]
    env, found = common.measured("wide_streams", args, packages, lambda quick: measure(quick, columns))
    common.save("wide_streams", env, found, page(found), args.out)


if __name__ == "__main__":
    common.use_one_thread()
    main()
