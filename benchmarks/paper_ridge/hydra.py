"""The last rows of Table 2: one-versus-all ridge on HYDRA features, one target for each class.

    python -m benchmarks.paper_ridge.hydra [--features build/benchmarks/hydra] [--splits 30]

`hydra_features.py` makes the features. Lines and page are those of `table2.py`; a stopped run goes on.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.common import use_one_thread
from benchmarks.paper_ridge.page import keep_notes
from benchmarks.paper_ridge.paper import TABLE2, training_rows
from benchmarks.paper_ridge.splits import Effort, append, path_of, pending, row_of, seed_of
from benchmarks.paper_ridge.table2 import LINES, progress_bar

NAMES = ("crop", "electric_devices")


@dataclass(frozen=True, slots=True)
class Features:
    """A classification problem: features, and one column of 0 and 1 for each class."""

    name: str
    x: np.ndarray
    y: np.ndarray


def load(directory: Path, name: str) -> Features | None:
    """The output of `hydra_features.py`, or None."""
    x_path, y_path = directory / f"{name}-x.npy", directory / f"{name}-y.npy"
    if not (x_path.is_file() and y_path.is_file()):
        return None
    labels = np.load(y_path, allow_pickle=False)
    return Features(name, np.load(x_path, allow_pickle=False), (labels[:, None] == np.unique(labels)).astype(float))


def notes(data: Features, directory: Path) -> list[str]:
    """Note on the features and on differences from the counts of the paper."""
    path = directory / "versions.json"
    found = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    by = ", ".join(f"{package} {version}" for package, version in found.items()) or "versions unknown"
    out = [f"square roots of HYDRA's counts ({by})"]
    n, published = training_rows(len(data.x)), TABLE2[data.name]
    if n != published.n:
        rows = f"{len(data.x)} series to be had"
        out.insert(0, f"{n} training rows where the paper has {published.n} ({rows})")
    return out


def rooted(train: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Square roots of the counts, as HYDRA's own classifier takes them before its ridge."""
    return np.sqrt(np.maximum(train, 0)), np.sqrt(np.maximum(test, 0))


def run(data: Features, directory: Path, effort: Effort, deadline: float) -> None:
    """Run the splits that are not in the file yet."""
    todo = pending(directory, data.name, 1, effort)
    with progress_bar(len(todo)) as bar:
        bar.set_description(data.name)
        for split in todo:
            if time.monotonic() > deadline:
                return
            rows = np.random.default_rng(seed_of(data.name, 0, split)).permutation(len(data.x))
            train, test = np.split(rows, [training_rows(len(data.x))])
            x_train, x_test = rooted(data.x[train], data.x[test])
            row = row_of(split, data.y[train], x_train, data.y[test], x_test, effort)
            append(path_of(directory, data.name, 1), row)
            bar.update()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what has features."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--features", type=Path, default=Path("build/benchmarks/hydra"))
    parser.add_argument("--splits", type=int, default=30)
    parser.add_argument("--timed", type=int, default=2)
    parser.add_argument("--first", type=int, default=0, help="the first split to run, as in table2.py")
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--data", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--out", type=Path, default=LINES)
    args = parser.parse_args(arguments)
    deadline = time.monotonic() + 60 * args.minutes
    for name in args.data:
        data = load(args.features, name)
        if data is None:
            print(f"no features of {name} in {args.features}: see hydra_features.py")
            continue
        keep_notes(args.out, {name: notes(data, args.features)})
        run(data, args.out, Effort(args.splits, args.timed, 0, args.first), deadline)
    return 0


if __name__ == "__main__":
    use_one_thread()
    sys.exit(main())
