"""Table 2 in a few minutes: small data sets, few splits; where they are absent, what scikit-learn ships or makes.

python -m benchmarks.paper_ridge.quick --out DIR [--data-dir DIR] [--splits 5] [--minutes 3]
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from benchmarks.common import table, use_one_thread
from benchmarks.paper_ridge import table2
from benchmarks.paper_ridge.datasets import Dataset
from benchmarks.paper_ridge.methods import METHODS
from benchmarks.paper_ridge.splits import Effort, path_of, run
from benchmarks.paper_ridge.summary import number

SMALL = ("airfoil", "concrete", "boston", "diabetes", "real_estate", "autompg", "yacht", "eye")


def shipped() -> list[Dataset]:
    """Data sets that need no files: scikit-learn's diabetes, and Friedman's first problem."""
    from sklearn.datasets import load_diabetes, make_friedman1

    bunch = load_diabetes(as_frame=True)
    x, y = make_friedman1(300, 10, noise=1.0, random_state=0)
    friedman = pd.DataFrame(x, columns=[f"x{i + 1}" for i in range(x.shape[1])])
    return [
        Dataset("sklearn_diabetes", bunch.data, bunch.target.to_numpy(dtype=float)),
        Dataset("sklearn_friedman1", friedman, y),
    ]


def run_shipped(out: Path, splits: int, deadline: float) -> str:
    """Scores of every method on what is shipped, as a table."""
    rows = []
    for data in shipped():
        for order in (1, 2):
            for _ in run(data, order, out / "lines", Effort(splits, splits, 0)):
                if time.monotonic() > deadline:
                    break
            lines = pd.read_csv(path_of(out / "lines", data.name, order))
            ratio = lines["fixed.seconds"].mean() / lines["em.seconds"].mean()
            means = [number(lines[f"{m}.score"].mean()) for m in METHODS]
            rows.append([f"{data.name}, order {order}", len(lines), *means, f"{ratio:.2g}"])
    return table(["data", "splits", *METHODS, "T"], rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the paper's small data sets, or what is shipped."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--data-dir", type=Path, default=None)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--minutes", type=float, default=3.0)
    args = parser.parse_args(arguments)
    deadline = time.monotonic() + 60 * args.minutes
    # A quick run measures what is there now, and does not go on with what an older version wrote.
    shutil.rmtree(args.out / "lines", ignore_errors=True)
    data = table2.load(args.data_dir, SMALL) if args.data_dir is not None else {}
    if data:
        common = ["--data-dir", str(args.data_dir), "--data", *data, "--splits", str(args.splits), "--timed", "2"]
        where = ["--out", str(args.out / "lines"), "--results", str(args.out), "--minutes", str(args.minutes)]
        return table2.main([*common, *where])
    print(f"none of the paper's data sets in {args.data_dir}: what scikit-learn ships stands in")
    text = "# table2, without the paper's data\n\n" + run_shipped(args.out, args.splits, deadline) + "\n"
    (args.out / "table2.md").write_text(text, encoding="utf-8")
    print(text)
    return 0


if __name__ == "__main__":
    use_one_thread()
    sys.exit(main())
