"""Table 2 and Figure 3 of the paper, with the published numbers and ours.

    python -m benchmarks.paper_ridge.table2 --data-dir DIR [--splits 100] [--data NAME ...] [--orders 1 2 3]

A run that was stopped goes on where it stood: every split is a line in `--out`, which is stored beside the page, and
a run that is killed loses the split that it was at. `--stored` says how many splits there are. Data sets and orders
take turns by the time spent on them, so that a page can be made at any time (`--page-only`). To begin again, remove
the folder of lines. One thread; times are of the processor.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.common import RESULTS, clock, use_one_thread
from benchmarks.paper_ridge.datasets import LOADERS, VARIANTS, Dataset, MissingDataError
from benchmarks.paper_ridge.page import keep_notes, write_page
from benchmarks.paper_ridge.paper import TABLE2
from benchmarks.paper_ridge.splits import Effort, finished, path_of, pending, run

SLICE = 15.0
"""Seconds (of the processor) for which a configuration runs before that with the least spent on it takes its turn."""

LINES = RESULTS / "table2"


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, help="directory of the data sets, one folder each")
    parser.add_argument("--download", action="store_true", help="fetch what UCI has into --data-dir, and stop")
    parser.add_argument("--base-url", default=None, help="another home of the UCI files")
    parser.add_argument("--splits", type=int, default=100)
    parser.add_argument("--timed", type=int, default=10, help="splits in which every method is timed on its own")
    parser.add_argument("--reference", type=int, default=0, help="splits on which fastridge runs as well")
    parser.add_argument(
        "--first", type=int, default=0, help="the first split to run: the timed ones can wait for a quiet machine"
    )
    parser.add_argument(
        "--data", nargs="+", choices=[*LOADERS, *VARIANTS], default=[*LOADERS, *VARIANTS], metavar="NAME"
    )
    parser.add_argument("--orders", nargs="+", type=int, choices=(1, 2, 3), default=[1, 2, 3])
    parser.add_argument("--minutes", type=float, default=float("inf"), help="start no split after that time")
    parser.add_argument("--out", type=Path, default=LINES, help="directory of the lines")
    parser.add_argument("--results", type=Path, default=RESULTS, help="directory of the page, numbers and plot")
    parser.add_argument("--page-only", action="store_true", help="run nothing, make the page of what there is")
    parser.add_argument("--stored", action="store_true", help="list the splits that are stored, and stop")
    parser.add_argument("--no-page", action="store_true", help="only run")
    return parser.parse_args(arguments)


def load(directory: Path, names: Sequence[str]) -> dict[str, Dataset]:
    """The data sets that are there; the others are named."""
    found = {}
    for name in names:
        try:
            found[name] = (LOADERS | VARIANTS)[name](directory)
        except MissingDataError as error:
            print(f"{name} is not there: {error}")
    return found


def configurations(data: dict[str, Dataset], orders: Sequence[int]) -> list[tuple[str, int]]:
    """Data sets and orders that the paper has, the smallest first."""
    size = {
        (name, order): TABLE2[one.name].n * TABLE2[one.name].orders[order].p
        for name, one in data.items()
        for order in orders
        if order in TABLE2[one.name].orders
    }
    return sorted(size, key=lambda pair: size[pair])


def run_all(data: dict[str, Dataset], args: argparse.Namespace) -> None:
    """Run every configuration, that with the least time spent on it next, until all is done or the time is over."""
    effort = Effort(args.splits, args.timed, args.reference, args.first)
    deadline = time.monotonic() + 60 * args.minutes
    todo = {pair: len(pending(args.out, *pair, effort)) for pair in configurations(data, args.orders)}
    spent = {pair: 0.0 for pair, splits in todo.items() if splits}
    with progress_bar(sum(todo.values())) as bar:
        while spent and time.monotonic() < deadline:
            name, order = pair = min(spent, key=lambda pair: spent[pair])
            bar.set_description(f"{name}, order {order}")
            start = clock()
            for _ in run(data[name], order, args.out, effort):
                bar.update()
                if clock() - start > SLICE or time.monotonic() > deadline:
                    break
            spent[pair] += clock() - start
            if not pending(args.out, name, order, effort):
                del spent[pair]
    if spent:
        print(f"time is over; unfinished: {', '.join(f'{name} {order}' for name, order in spent)}")


def list_stored(directory: Path) -> None:
    """Print how many splits of each data set and order are stored."""
    for name in (*TABLE2, *VARIANTS):
        for order in (1, 2, 3):
            splits = finished(path_of(directory, name, order))
            if splits:
                print(f"{name}, order {order}: {len(splits)}, the last is {max(splits)}")


class NoBar:
    """Stands for a progress bar where tqdm is not installed."""

    def __enter__(self) -> NoBar:
        """Nothing to open."""
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing to close."""

    def update(self) -> None:
        """One more."""

    def set_description(self, text: str) -> None:
        """Data set, order and method."""


def progress_bar(total: int) -> Any:
    """A progress bar on stderr, of tqdm's where that is installed and there is something to do."""
    try:
        from tqdm import tqdm
    except ImportError:
        return NoBar()
    return tqdm(total=total, unit="split", mininterval=2) if total else NoBar()


def main(arguments: Sequence[str] | None = None) -> int:
    """Download, run, or make the page."""
    args = parse(arguments)
    if args.stored:
        list_stored(args.out)
        return 0
    if args.data_dir is None and not args.page_only:
        print("--data-dir is needed (or --page-only)", file=sys.stderr)
        return 2
    if args.download:
        from benchmarks.paper_ridge.download import BASE_URL, download

        return download(args.data_dir, args.data, args.base_url or os.environ.get("UCI_BASE_URL", BASE_URL))
    data = load(args.data_dir, args.data) if args.data_dir else {}
    if data:
        keep_notes(args.out, {name: one.notes for name, one in data.items() if not one.variant})
    if not args.page_only:
        if not data:
            print(f"no data set in {args.data_dir}", file=sys.stderr)
            return 2
        run_all(data, args)
    if not args.no_page:
        write_page(args.out, args.results)
    return 0


if __name__ == "__main__":
    use_one_thread()
    sys.exit(main())
