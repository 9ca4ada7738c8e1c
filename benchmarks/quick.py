"""All benchmarks that have a quick form, one after the other, into a directory that is not the committed results.

    python benchmarks/quick.py [--out build/benchmarks/quick] [--data-dir DIR] [--only NAME ...]

`SCRIPTS` is the list: a name, and the arguments of Python. `{out}` and `{data}` stand for the directories. A script
that fails does not stop the others; the exit status says that one did.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

SCRIPTS: dict[str, list[str]] = {
    "table2": ["-m", "benchmarks.paper_ridge.quick", "--out", "{out}", "--data-dir", "{data}"],
    "figure1": ["-m", "benchmarks.paper_ridge.figure1", "--quick", "--out", "{out}"],
    "figure2": ["-m", "benchmarks.paper_ridge.figure2", "--quick", "--out", "{out}"],
    "table1": ["-m", "benchmarks.paper_ridge.table1", "--quick", "--out", "{out}"],
    "appendix_a": ["-m", "benchmarks.paper_ridge.appendix_a", "--quick", "--out", "{out}"],
    "paper_ep": ["-m", "benchmarks.paper_ep.tables", "--quick", "--out", "{out}"],
    "peers_ridge": ["-m", "benchmarks.peers_ridge", "--quick", "--out", "{out}"],
    "peers_binary": ["-m", "benchmarks.peers_binary", "--quick", "--out", "{out}"],
    "binary_calibration": ["-m", "benchmarks.binary_calibration", "--quick", "--out", "{out}"],
    "peers_selection": ["-m", "benchmarks.peers_selection", "--quick", "--out", "{out}"],
    "finemapping": ["-m", "benchmarks.finemapping", "--quick", "--out", "{out}"],
    "small_fits": ["-m", "benchmarks.small_fits", "--quick", "--out", "{out}"],
    "nist": ["-m", "benchmarks.nist", "--quick", "--out", "{out}"],
    "scaling": ["-m", "benchmarks.scaling", "--quick", "--out", "{out}"],
}
"""Each is to take no more than its share of ten minutes on two cores."""


def command(name: str, out: Path, data: Path) -> list[str]:
    """The command line of a script."""
    return [sys.executable, *(a.format(out=out / name, data=data) for a in SCRIPTS[name])]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "benchmarks" / "quick")
    parser.add_argument("--data-dir", type=Path, default=Path(os.environ.get("DATA_DIR", ROOT / "build" / "data")))
    parser.add_argument("--only", nargs="+", choices=list(SCRIPTS), default=list(SCRIPTS))
    args = parser.parse_args(arguments)
    failed = []
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    for name in args.only:
        (args.out / name).mkdir(parents=True, exist_ok=True)
        start = time.perf_counter()
        done = subprocess.run(
            command(name, args.out.resolve(), args.data_dir.resolve()), cwd=ROOT, env=environment, check=False
        )
        print(
            f"{name}: {'done' if done.returncode == 0 else 'FAILED'}, {time.perf_counter() - start:.0f} s", flush=True
        )
        if done.returncode:
            failed.append(name)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
