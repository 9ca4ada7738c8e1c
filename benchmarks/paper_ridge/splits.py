"""The splits of one data set and order: expanded once, each split run and kept as a line of a file."""

from __future__ import annotations

import csv
import functools
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.common import clock, commit
from benchmarks.paper_ridge.datasets import Dataset
from benchmarks.paper_ridge.methods import FIXED_GRID, METHODS, Outcome, r_squared, run_split
from benchmarks.paper_ridge.paper import MAX_ENTRIES, training_rows
from pybayesridge import polynomial_features

REFERENCE_ENTRIES = 3_000_000
"""Training rows times columns beyond which fastridge's SVD takes too long here."""

REFERENCE = ("fastridge_em", "fastridge_fixed")
COLUMNS = [
    *("split", "n", "p"),
    *(f"{m}.{what}" for m in (*METHODS, *REFERENCE) for what in Outcome.__slots__),
    "commit",
]
"""A line: split, training rows, training columns that vary, the outcomes (empty where not run), and the commit."""

made_by = functools.cache(commit)
"""The commit when the first line was written."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How many splits, how many of the first are also timed or run by fastridge, and which is the first to run."""

    splits: int
    timed: int
    reference: int
    first: int = 0


def seed_of(name: str, *more: int) -> list[int]:
    """Seeds that belong to a data set and stay the same from run to run."""
    return [zlib.crc32(name.encode()), *more]


def expand(data: Dataset, order: int, max_entries: int = MAX_ENTRIES) -> np.ndarray:
    """The columns with their products up to `order`; one draw of products for all splits, as in the paper."""
    if order == 1:
        return np.asfortranarray(data.x.to_numpy(dtype=np.float64))
    n_train = training_rows(len(data.x))
    seed = np.random.default_rng(seed_of(data.name, order))
    frame = polynomial_features(data.x, order, max_entries=max_entries, rng=seed, n_train=n_train)
    return np.asfortranarray(frame.to_numpy())


def divide(data: Dataset, split: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of the training and of the test set."""
    order = np.random.default_rng(seed_of(data.name, 0, split)).permutation(len(data.x))
    return np.split(order, [training_rows(len(data.x))])


def one_split(data: Dataset, x: np.ndarray, split: int, effort: Effort) -> dict[str, Any]:
    """Every method on one split, as a line."""
    train, test = divide(data, split)
    return row_of(split, data.y[train], x[train], data.y[test], x[test], effort)


def row_of(
    split: int, y: np.ndarray, x: np.ndarray, y_test: np.ndarray, x_test: np.ndarray, effort: Effort
) -> dict[str, Any]:
    """Every method on these rows; columns constant in the training set are dropped, as in the paper."""
    varies = x.max(axis=0) > x.min(axis=0)
    if not varies.all():
        x, x_test = x[:, varies], x_test[:, varies]
    found = run_split(y, x, y_test, x_test, timed=split < effort.timed)
    if split < effort.reference and x.size <= REFERENCE_ENTRIES:
        found |= reference(y, x, y_test, x_test)
    row: dict[str, Any] = {"split": split, "n": x.shape[0], "p": x.shape[1]}
    for name, outcome in found.items():
        row |= {f"{name}.{what}": f"{getattr(outcome, what):.6g}" for what in Outcome.__slots__}
    return row


def reference(y: np.ndarray, x: np.ndarray, y_test: np.ndarray, x_test: np.ndarray) -> dict[str, Outcome]:
    """The authors' package on the same split: its EM as in the paper, and its leave-one-out over the fixed grid.

    What its SVD does not converge for is left out.
    """
    import fastridge

    out = {}
    for name, model in (
        ("fastridge_em", fastridge.RidgeEM(t2=False)),
        ("fastridge_fixed", fastridge.RidgeLOOCV(alphas=FIXED_GRID)),
    ):
        start = clock()
        try:
            model.fit(x, y)
        except np.linalg.LinAlgError:
            continue
        seconds = clock() - start
        out[name] = Outcome(r_squared(y_test, model.predict(x_test)), float(np.squeeze(model.alpha_)), seconds)
    return out


def path_of(directory: Path, name: str, order: int) -> Path:
    """The file of a data set and order."""
    return directory / f"{name}-{order}.csv"


def finished(path: Path) -> set[int]:
    """Splits in the file; a last line that a killed run left unfinished is cut off."""
    if not path.is_file():
        return set()
    text = path.read_bytes()
    whole = text[: text.rfind(b"\n") + 1]
    if len(whole) < len(text):
        path.write_bytes(whole)
    if not whole:
        return set()
    table = pd.read_csv(path)
    if list(table.columns) != COLUMNS:
        raise ValueError(f"{path} has other columns than this version writes: remove it or choose another directory")
    return set(table["split"])


def append(path: Path, row: dict[str, Any]) -> None:
    """Write a line, and the names above the first one, in one go."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = not path.is_file() or path.stat().st_size == 0
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n", restval="")
        if new:
            writer.writeheader()
        writer.writerow(row | {"commit": made_by()})


def pending(directory: Path, name: str, order: int, effort: Effort) -> list[int]:
    """Splits that are still to be run."""
    done = finished(path_of(directory, name, order))
    return [split for split in range(effort.first, effort.splits) if split not in done]


def run(data: Dataset, order: int, directory: Path, effort: Effort) -> Iterator[int]:
    """Run the splits that are not in the file yet; yields each when it is written."""
    todo = pending(directory, data.key, order, effort)
    if not todo:
        return
    x = expand(data, order)
    for split in todo:
        append(path_of(directory, data.key, order), one_split(data, x, split, effort))
        yield split
