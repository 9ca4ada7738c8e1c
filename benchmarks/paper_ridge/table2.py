"""Table 2 and Figure 3 of the paper, ours beside its numbers.

    python -m benchmarks.paper_ridge.table2 --data-dir DIR [--splits 100] [--data NAME ...] [--orders 1 2 3]

A run that was stopped goes on where it stood: every split is a line in `--out`. All configurations get a few splits
before any gets many, so that a page can be made at any time (`--page-only`). One thread; times are of the processor.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.common import RESULTS, use_one_thread
from benchmarks.paper_ridge.datasets import LOADERS, Dataset, MissingData
from benchmarks.paper_ridge.paper import TABLE2
from benchmarks.paper_ridge.splits import Effort, pending, run

ROUNDS = (3, 10, 30)
"""All configurations reach these numbers of splits before any goes on."""

BUILD = Path("build/benchmarks/table2")


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, help="directory of the data sets, one folder each")
    parser.add_argument("--download", action="store_true", help="fetch what UCI has into --data-dir, and stop")
    parser.add_argument("--base-url", default=None, help="another home of the UCI files")
    parser.add_argument("--splits", type=int, default=100)
    parser.add_argument("--timed", type=int, default=10, help="splits in which every method is timed on its own")
    parser.add_argument("--reference", type=int, default=0, help="splits on which fastridge runs as well")
    parser.add_argument("--data", nargs="+", choices=sorted(LOADERS), default=list(LOADERS), metavar="NAME")
    parser.add_argument("--orders", nargs="+", type=int, choices=(1, 2, 3), default=[1, 2, 3])
    parser.add_argument("--minutes", type=float, default=float("inf"), help="start no split after that time")
    parser.add_argument("--out", type=Path, default=BUILD, help="directory of the lines")
    parser.add_argument("--results", type=Path, default=RESULTS, help="directory of the page, numbers and plot")
    parser.add_argument("--page-only", action="store_true", help="run nothing, make the page of what there is")
    parser.add_argument("--no-page", action="store_true", help="only run")
    return parser.parse_args(arguments)


def load(directory: Path, names: Sequence[str]) -> dict[str, Dataset]:
    """The data sets that are there; the others are named."""
    found = {}
    for name in names:
        try:
            found[name] = LOADERS[name](directory)
        except MissingData as error:
            print(f"{name} is not there: {error}")
    return found


def configurations(data: dict[str, Dataset], orders: Sequence[int]) -> list[tuple[str, int]]:
    """Data sets and orders that the paper has, the largest first."""
    pairs = [(name, order) for name in data for order in orders if order in TABLE2[name].orders]
    return sorted(pairs, key=lambda pair: -TABLE2[pair[0]].n * TABLE2[pair[0]].orders[pair[1]].p)


def run_all(data: dict[str, Dataset], args: argparse.Namespace) -> None:
    """Run every configuration in rounds, until all is done or the time is over."""
    deadline = time.monotonic() + 60 * args.minutes
    for splits in [*(r for r in ROUNDS if r < args.splits), args.splits]:
        effort = Effort(splits, args.timed, args.reference)
        for name, order in configurations(data, args.orders):
            total = len(pending(args.out, name, order, effort))
            for _ in progress(run(data[name], order, args.out, effort), f"{name}, order {order}", total):
                if time.monotonic() > deadline:
                    print("time is over")
                    return


def progress(splits: Iterator[int], title: str, total: int) -> Iterator[int]:
    """A progress bar where tqdm is installed and there is something to do."""
    try:
        from tqdm import tqdm
    except ImportError:
        tqdm = None
    yield from splits if tqdm is None or not total else tqdm(splits, desc=title, total=total, mininterval=2)


def main(arguments: Sequence[str] | None = None) -> int:
    """Download, run, or make the page."""
    args = parse(arguments)
    if args.data_dir is None and not args.page_only:
        print("--data-dir is needed (or --page-only)", file=sys.stderr)
        return 2
    if args.download:
        from benchmarks.paper_ridge.download import BASE_URL, download

        return download(args.data_dir, args.data, args.base_url or os.environ.get("UCI_BASE_URL", BASE_URL))
    data = load(args.data_dir, args.data) if args.data_dir else {}
    if not args.page_only:
        if not data:
            print(f"no data set in {args.data_dir}", file=sys.stderr)
            return 2
        run_all(data, args)
    if not args.no_page:
        from benchmarks.paper_ridge.page import write_page

        write_page(args.out, args.results)
    return 0


if __name__ == "__main__":
    use_one_thread()
    sys.exit(main())
