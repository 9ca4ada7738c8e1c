"""``python -m tests.net write FILE [--only WORDS]``, ``… compare BEFORE AFTER``, ``… cross [--only WORDS]``."""

from __future__ import annotations

import argparse
import difflib
import os
import pickle
import time
from pathlib import Path
from typing import Any

import numpy as np

from tests.net import crossings
from tests.net.ask import answers, signatures
from tests.net.kinds import kinds, made

MOVED, QUANTILES = 1e-12, 1e-7
"""Largest differences, relative to the largest number of an array, of what is only moved, and of quantiles."""

LINES = 12
"""Lines of a text's difference that are shown."""


def write(path: Path, only: str) -> None:
    """Write everything down."""
    os.environ.setdefault("MPLBACKEND", "agg")
    out: dict[str, dict[str, Any]] = {"signatures": signatures()}
    for name, kind in kinds().items():
        if only not in name:
            continue
        start = time.process_time()
        try:
            res, warned = made(kind)
        except Exception as error:
            out[name] = {"fit": f"{type(error).__name__}: {error}"}
            print(f"{name}: {out[name]['fit']}")
            continue
        fitted = time.process_time()
        out[name] = answers(kind, res) | {"warnings of the fit": "\n".join(warned)}
        print(f"{name}: {len(out[name])} answers, {fitted - start:.2f} s and {time.process_time() - fitted:.2f} s")
    path.write_bytes(pickle.dumps(out))


def difference(before: np.ndarray, after: np.ndarray) -> float:
    """Relative to the largest finite number; infinite where shapes or what is not finite differ."""
    if before.shape != after.shape or not np.array_equal(np.isfinite(before), np.isfinite(after)):
        return np.inf
    finite = np.isfinite(before)
    size = np.abs(before[finite]).max(initial=0.0)
    return float(np.abs(before[finite] - after[finite]).max(initial=0.0) / (size or 1.0))


def grade(found: float) -> str:
    """The class of agreement."""
    for name, limit in {"equal": 0.0, "moved": MOVED, "quantiles": QUANTILES, "1e-4": 1e-4}.items():
        if found <= limit:
            return name
    return "DIFFERENT"


def compare(before: dict[str, dict[str, Any]], after: dict[str, dict[str, Any]]) -> int:
    """Say what differs; how many answers do by more than quantiles may."""
    failed = 0
    for kind in dict.fromkeys([*before, *after]):
        old, new = before.get(kind, {}), after.get(kind, {})
        counts: dict[str, int] = {}
        for name in dict.fromkeys([*old, *new]):
            found = _compared(old.get(name), new.get(name))
            counts[found[0]] = counts.get(found[0], 0) + 1
            if found[0] not in ("equal", "moved", "quantiles"):
                failed += 1
                print(f"{kind}: {name}: {found[0]} {found[1]}")
        print(f"{kind}: {counts}")
    return failed


def _compared(old: Any, new: Any) -> tuple[str, str]:
    if old is None or new is None:
        return ("GONE", str(old)[:200]) if new is None else ("NEW", str(new)[:200])
    if isinstance(old, str) or isinstance(new, str):
        if isinstance(old, str) and isinstance(new, str):
            lines = list(difflib.unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=0))[2:]
            return ("TEXT", "\n    ".join(["", *lines[:LINES]])) if lines else ("equal", "")
        return "DIFFERENT", f"{str(old)[:200]} -> {str(new)[:200]}"
    found = difference(old, new)
    return grade(found), f"{found:.1e}"


def main() -> int:
    """Run a command."""
    parser = argparse.ArgumentParser(prog="python -m tests.net", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    writing = commands.add_parser("write")
    writing.add_argument("file", type=Path)
    writing.add_argument("--only", default="", help="kinds whose names contain this")
    comparing = commands.add_parser("compare")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    crossing = commands.add_parser("cross")
    crossing.add_argument("--only", default="", help="fits whose names contain this")
    given = parser.parse_args()
    if given.command == "cross":
        return crossings.cross(given.only) > 0
    if given.command == "write":
        write(given.file, given.only)
        return 0
    return compare(*(pickle.loads(path.read_bytes()) for path in (given.before, given.after))) > 0


if __name__ == "__main__":
    raise SystemExit(main())
