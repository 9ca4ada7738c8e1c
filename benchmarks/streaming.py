"""A ridge from Parquet files compared with reading the files only: rows per second and peak memory.

    python benchmarks/streaming.py [--rows 4000000] [--columns 50] [--rows-in-file 250000]

Files of random numbers are written into a temporary directory, then (each in a process of its own): the columns are
read; they are read and made frames of; a model is built from a formula; likewise with factors of 4 and 100 levels,
with expressions, and with a formula that takes a first pass. Seconds are processor time with one thread.
``--reread`` makes a dataset of the same files several times over, so that memory can be watched over more rows than
the disk holds.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import common

TASKS = {
    "read": "reading the columns, nothing else",
    "frames": "reading and conversion of each batch to pandas",
    "plain": "from_parquet, y ~ x1 + … : one pass",
    "scaled": "from_parquet, y ~ scale(x1) + x2 + … + g : one pass",
    "factors": "from_parquet, y ~ x1*g + x2 + … + C(k) : one pass",
    "other": "from_parquet, y ~ exp(x1) + x2 + … + g : one pass",
    "splines": "from_parquet, y ~ bs(x1, …)*g + log(k + 1) + x2 + … : one pass",
    "two passes": "from_parquet, y ~ exp(scale(x1)) + x2 + … + g : two passes",
}
FORMULAS = {
    "plain": ("x1", []),
    "scaled": ("scale(x1)", ["g"]),
    "factors": ("x1*g", ["C(k)"]),
    "other": ("exp(x1)", ["g"]),
    "splines": ("bs(x1, knots=[-1, 0, 1], lower_bound=-9, upper_bound=9)*g", ["log(k + 1)"]),
    "two passes": ("exp(scale(x1))", ["g"]),
}
"""First term, and what follows the other columns."""

BATCH = 65_536


def write(folder: Path, rows: int, columns: int, rows_in_file: int) -> None:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    b = rng.standard_normal(columns)
    for i, start in enumerate(range(0, rows, rows_in_file)):
        n = min(rows_in_file, rows - start)
        x = rng.standard_normal((columns, n))
        table = {f"x{j + 1}": x[j] for j in range(columns)}
        table["y"] = b @ x + rng.standard_normal(n)
        table["k"] = rng.integers(0, 100, n)
        table["g"] = pa.array(np.array(["a", "b", "c", "d"])[rng.integers(0, 4, n)])
        pq.write_table(pa.table(table), folder / f"{i:04}.parquet", row_group_size=BATCH)


def run(task: str, folder: Path, columns: int, reread: int) -> dict[str, float]:
    import pyarrow as pa
    import pyarrow.dataset as ds

    from pybayesridge import BayesRidge

    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    files = sorted(str(path) for path in folder.glob("*.parquet")) * reread
    dataset = ds.dataset(files, format="parquet")
    names = [f"x{j + 1}" for j in range(columns)]
    options = {"columns": [*names, "y"], "batch_size": BATCH, "batch_readahead": 2, "fragment_readahead": 1}
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = common.clock()
    rows = 0
    if task == "read":
        for batch in dataset.to_batches(**options):
            rows += batch.num_rows
    elif task == "frames":
        for batch in dataset.to_batches(**options):
            rows += len(batch.to_pandas())
    else:
        first, last = FORMULAS[task]
        formula = f"y ~ {' + '.join([first, *names[1:], *last])}"
        model = BayesRidge.from_parquet(files, formula, batch_size=BATCH, progress=False, prior="half-cauchy")
        rows = model.nobs
    seconds = common.clock() - start
    fit = 0.0
    if task in FORMULAS:
        start = common.clock()
        model.fit("exact")
        fit = common.clock() - start
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"rows": rows, "seconds": seconds, "fit": fit, "peak_mib": after / 1024, "imports_mib": before / 1024}


def measured(task: str, folder: Path, columns: int, reread: int) -> dict[str, float]:
    command = [sys.executable, __file__, "--task", task, "--folder", str(folder)]
    command += ["--columns", str(columns), "--reread", str(reread)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--columns", type=int, default=50)
    parser.add_argument("--rows-in-file", type=int, default=250_000)
    parser.add_argument("--reread", type=int, default=1)
    parser.add_argument("--task", choices=TASKS)
    parser.add_argument("--folder", type=Path)
    args = parser.parse_args()
    if args.task:
        print(json.dumps(run(args.task, args.folder, args.columns, args.reread)))
        return
    env = common.environment(["pybayesridge", "pyarrow", "formulaic", "numpy", "pandas"])
    found = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder, args.rows, args.columns, args.rows_in_file)
        size = sum(path.stat().st_size for path in folder.glob("*.parquet"))
        for task in TASKS:
            found[task] = measured(task, folder, args.columns, args.reread)
        half = sorted(folder.glob("*.parquet"))[: max(1, args.rows // args.rows_in_file // 4)]
        few = folder / "few"
        few.mkdir()
        for path in half:
            path.rename(few / path.name)
        found["a quarter"] = measured("plain", few, args.columns, args.reread)
    base = found["read"]["seconds"] / found["read"]["rows"]
    rows = [
        [
            TASKS.get(task, "from_parquet, y ~ x1 + … , a quarter of the rows"),
            f"{r['rows']:,}",
            common.show_seconds(r["seconds"]),
            f"{r['rows'] / r['seconds']:,.0f}",
            f"{r['seconds'] / r['rows'] / base:.2f}",
            f"{r['peak_mib']:.0f}",
        ]
        for task, r in found.items()
    ]
    head = ["", "rows", "seconds", "rows a second", "time / reading", "peak memory, MiB"]
    text = (
        f"{args.columns} columns of float64, a response and two factors (4 and 100 levels); "
        f"{size / 1e9:.2f} GB of Parquet"
        + (f", read {args.reread} times over" if args.reread > 1 else "")
        + f"; batches of {BATCH:,} rows.\n\n{common.table(head, rows)}\n\n"
        f"The imports alone take {found['plain']['imports_mib']:.0f} MiB. The fit from the moments (exact, "
        f"half-Cauchy prior) takes {common.show_seconds(found['plain']['fit'])} for any number of rows."
    )
    common.save("streaming", env, found, text)


if __name__ == "__main__":
    common.use_one_thread()
    main()
