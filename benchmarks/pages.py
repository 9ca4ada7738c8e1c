"""Every page of results, one after the other, unattended.

    python -m benchmarks.pages [--threads all] [--resume] [--only NAME ...] [--data-dir DIR]
    python -m benchmarks.pages --quick [--out build/benchmarks/quick] [--only NAME ...] [--data-dir DIR]

Writes pages and numbers into `benchmarks/results`; with ``--quick`` only the small forms of those that have one, into
another directory. With ``--resume`` a page is left as it is if it was made at this commit with as many threads. A
script that fails does not stop the others; the exit status says that one did.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.common import RESULTS, THREADS, commit

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, slots=True)
class Page:
    """How a page is made.

    Attributes
    ----------
    script : tuple of str
        Arguments of Python. ``{data}`` stands for the directory of data.
    stored : str
        Name of the numbers in `benchmarks/results`, without ``.json``.
    small : tuple of str or None
        Arguments that make it small and write it to ``{out}``; None where there is no small form in the list. Each is
        to take no more than its share of ten minutes on two cores.
    whole : tuple of str
        Arguments that make the stored page.
    """

    script: tuple[str, ...]
    stored: str
    small: tuple[str, ...] | None = None
    whole: tuple[str, ...] = ()


SMALL = ("--quick", "--out", "{out}")


def module(name: str, stored: str | None = None, *whole: str, small: tuple[str, ...] | None = None) -> Page:
    """A module of this package whose page has its name, unless told otherwise."""
    return Page(("-m", f"benchmarks.{name}"), stored or name, small, whole)


def script(name: str) -> Page:
    """A file of this folder whose page has its name."""
    return Page((f"benchmarks/{name}.py",), name)


PAGES = {
    "small_fits": module("small_fits", small=SMALL),
    "ridge_floor": script("ridge_floor"),
    "many_targets": script("many_targets"),
    "scaling": module("scaling", small=SMALL),
    "data_kinds": script("data_kinds"),
    "streaming": Page(("benchmarks/streaming.py",), "streaming", None, ("--rows", "2000000", "--reread", "5")),
    "wide_streams": Page(("benchmarks/wide_streams.py",), "wide_streams", SMALL),
    "r_bridge": module("r_bridge"),
    "nist": module("nist", small=SMALL),
    "ep_floor": module("ep_floor"),
    "eigen": module("eigen", small=SMALL),
    "figure1": module("paper_ridge.figure1", "paper_ridge_figure1", small=SMALL),
    "figure2": module("paper_ridge.figure2", "paper_ridge_figure2", small=SMALL),
    "table1": module("paper_ridge.table1", "paper_ridge_table1", small=SMALL),
    "appendix_a": module("paper_ridge.appendix_a", "paper_ridge_appendix_a", small=SMALL),
    "stand_ins": module("paper_ridge.stand_ins", "table2_stand_ins"),
    "table2": module("paper_ridge.table2", "table2", "--data-dir", "{data}", "--reference", "1"),
    "table2_small": Page(("-m", "benchmarks.paper_ridge.quick"), "", ("--out", "{out}", "--data-dir", "{data}")),
    "peers_ridge": module("peers_ridge", small=SMALL),
    "peers_binary": module("peers_binary", small=SMALL),
    "binary_threads": module("binary_threads", small=SMALL),
    "peers_selection": module("peers_selection", small=SMALL),
    "finemapping": module("finemapping", None, "--data-dir", "{data}/finemapping", small=SMALL),
    "selection_border": module("selection_border"),
    "credible_sets": module("credible_sets"),
    "correlated_columns": module("correlated_columns"),
    "size_prior": module("size_prior", small=SMALL),
    "paper_ep": module("paper_ep.tables", "paper_ep", small=SMALL),
    "paper_ep_sequential": module("paper_ep.sequential", "paper_ep_sequential"),
    "ep_groups": module("ep_groups", small=SMALL),
    "ep_convergence_accuracy": module("ep_convergence", "ep_convergence_accuracy", "accuracy"),
    "ep_convergence_directions": module("ep_convergence", "ep_convergence_directions", "directions"),
    "ep_convergence_large": module("ep_convergence", "ep_convergence_large", "large"),
    "binary_selection_ep": script("binary_selection_ep"),
    "interval_coverage": script("interval_coverage"),
    "bands": module("bands", small=SMALL),
    "bands_calibration": module("bands_calibration", small=SMALL),
    "large_groups": module("large_groups", small=SMALL),
    "mixed_calibration": module("mixed_calibration", small=SMALL),
    "prior_r2": script("prior_r2"),
    "selection_calibration": module("selection_calibration"),
    "binary_calibration": module("binary_calibration", small=SMALL),
    "separation": module("separation", small=SMALL),
    "counts": module("counts", small=SMALL),
    "ordinal": module("ordinal", small=SMALL),
    "beta_binomial": module("beta_binomial", small=SMALL),
    "student": module("student", small=SMALL),
}
"""The order is that of the time they take, about: times of fits first, long runs of samplers last."""


def command(page: Page, data: Path, out: Path | None) -> list[str]:
    """The command line of a page: its small form with a directory `out`, else that of the stored one."""
    arguments = page.whole if out is None else page.small or ()
    return [sys.executable, *(a.format(out=out, data=data) for a in (*page.script, *arguments))]


def is_current(page: Page, threads: str, results: Path = RESULTS) -> bool:
    """Whether the stored numbers are of this commit and of as many threads."""
    path = results / f"{page.stored}.json"
    if not path.is_file():
        return False
    environment = json.loads(path.read_text(encoding="utf-8"))["environment"]
    same = environment.get("threads") == 1 if threads == "one" else environment.get("threads") != 1
    return same and environment.get("commit") == commit()


def surroundings(threads: str) -> Mapping[str, str]:
    """Environment variables of a script."""
    limits = {"OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", THREADS}
    rest = {name: value for name, value in os.environ.items() if name not in limits}
    if threads == "all":
        return rest | {THREADS: "all"}
    return rest | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small forms, for a look")
    parser.add_argument("--threads", choices=["one", "all"], default="one", help="of the BLAS libraries")
    parser.add_argument("--resume", action="store_true", help="leave pages of this commit and number of threads")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "benchmarks" / "quick", help="of small forms")
    parser.add_argument("--data-dir", type=Path, default=Path(os.environ.get("DATA_DIR", ROOT / "build" / "data")))
    parser.add_argument("--only", nargs="+", choices=list(PAGES), metavar="NAME", help=", ".join(PAGES))
    args = parser.parse_args(arguments)
    failed = []
    for name, page in PAGES.items():
        if (args.only and name not in args.only) or (page.small is None if args.quick else not page.stored):
            continue
        if args.resume and not args.quick and is_current(page, args.threads):
            print(f"{name}: is of this commit")
            continue
        out = (args.out / name).resolve() if args.quick else None
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)
        start = time.perf_counter()
        done = subprocess.run(
            command(page, args.data_dir.resolve(), out), cwd=ROOT, env=surroundings(args.threads), check=False
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
