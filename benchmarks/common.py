"""Shared functions of the benchmarks: the machine, repeated timings, tables, files."""

from __future__ import annotations

import argparse
import ctypes
import datetime
import gc
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import pybayesridge

RESULTS = Path(__file__).parent / "results"
QUICK_RESULTS = Path(__file__).parent.parent / "build" / "benchmarks"
"""Where quick runs put theirs: they are for a look, not for the record."""
PAUSE = 0.2
"""Seconds between timed calls: threads of another BLAS stop spinning."""
THREADS = "BENCHMARK_THREADS"
"""Environment variable: ``all`` lets the BLAS libraries use every core, and times are those of the wall."""


def one_thread() -> bool:
    """Whether the BLAS libraries were told to use one thread."""
    return os.environ.get("OPENBLAS_NUM_THREADS") == "1"


def use_one_thread() -> None:
    """Start this script again with one thread, unless it has one already or is to use all."""
    if not one_thread() and os.environ.get(THREADS) != "all":
        os.environ |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def clock() -> float:
    """Seconds: of the wall, or with one thread of the processor, which the load of others hardly touches."""
    return time.process_time() if one_thread() else time.perf_counter()


def commit() -> str | None:
    """The commit of the repository, with a + if the package was changed since; None outside of one."""
    try:
        where = Path(__file__).parent
        head, changed = (
            subprocess.run(["git", *command], cwd=where, capture_output=True, text=True, check=True).stdout.strip()
            for command in (["rev-parse", "--short", "HEAD"], ["status", "--porcelain", "--", "../pybayesridge"])
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return head + ("+" if changed else "")


def environment(packages: Sequence[str]) -> dict[str, Any]:
    """Date, commit, processor, load and versions."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        text = cpuinfo.read_text(encoding="utf-8")
        names = [line.split(":", 1)[1].strip() for line in text.splitlines() if "model name" in line]
        model = names[0] if names else model
    return {
        "date": datetime.date.today().isoformat(),
        "commit": commit(),
        "processor": model,
        "cores": os.cpu_count(),
        "threads": 1 if one_thread() else os.cpu_count(),
        "load_at_start": [round(v, 2) for v in os.getloadavg()],
        "python": platform.python_version(),
        "packages": {name: version(name) for name in packages},
    }


def version(package: str) -> str:
    """Installed version, or that there is none; of this package that of the files that are imported."""
    if package == "pybayesridge":
        return pybayesridge.__version__
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def describe(env: dict[str, Any]) -> str:
    """The environment as a line of text."""
    packages = ", ".join(f"{k} {v}" for k, v in env["packages"].items())
    load = "/".join(str(v) for v in env["load_at_start"])
    ended = "" if "load_at_end" not in env else ", at the end " + "/".join(str(v) for v in env["load_at_end"])
    how = "one thread, seconds of processor time" if env["threads"] == 1 else "all threads, seconds of wall time"
    made = f"{env['date']}, commit {env['commit']}" if env.get("commit") else env["date"]
    return (
        f"{made}; {env['processor']}, {env['cores']} cores; {how}; load average at the start {load}{ended}; "
        f"Python {env['python']}, {packages}."
    )


def interleaved(functions: dict[str, Callable[[], Any]], repetitions: int, pause: float = PAUSE) -> dict[str, dict]:
    """Run every function in turn, `repetitions` times after one call to warm up: median and least seconds."""
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    for repetition in range(repetitions + 1):
        for name, function in functions.items():
            time.sleep(pause)
            start = clock()
            function()
            if repetition:
                seconds[name].append(clock() - start)
    return {
        name: {"median": statistics.median(s), "least": min(s), "repetitions": len(s)} for name, s in seconds.items()
    }


def table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A Markdown table; numbers are right-aligned."""
    lines = [
        "| " + " | ".join(head) + " |",
        "|" + "|".join(" --- " if i == 0 else " ---: " for i in range(len(head))) + "|",
    ]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def show_seconds(value: float | None) -> str:
    """Seconds or milliseconds, three digits."""
    if value is None:
        return "-"
    return f"{value:.3g} s" if value >= 1 else f"{1e3 * value:.3g} ms"


def plain(data: Any) -> Any:
    """The same with None for numbers that are not finite, which JSON has no word for."""
    if isinstance(data, dict):
        return {key: plain(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [plain(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data


def arguments(doc: str | None, *, limited: bool = False, resumable: bool = False) -> argparse.Namespace:
    """Read the command line of a script with a quick form: ``quick``, ``render``, and ``out``, where results go.

    Of a script that is `limited` also ``seconds``, after which it begins no data set; of one that is `resumable`
    ``resume``.
    """
    parser = _parser(doc)
    if limited:
        parser.add_argument(
            "--seconds", type=float, default=math.inf, help="processor time; no data set begins later"
        )
    if resumable:
        parser.add_argument("--resume", action="store_true", help="keep the data sets that are stored")
    return _with_folder(parser.parse_args())


def _parser(doc: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes, for a look; not kept in the repository")
    parser.add_argument("--out", type=Path, help="folder of results (benchmarks/results; quick: build/benchmarks)")
    parser.add_argument("--render", action="store_true", help="write page and pictures again from stored numbers")
    return parser


def _with_folder(args: argparse.Namespace) -> argparse.Namespace:
    if args.out is None:
        args.out = QUICK_RESULTS if args.quick else RESULTS
    return args


def run_parts(
    doc: str | None,
    name: str,
    packages: Sequence[str],
    page: Callable[[dict[str, Any]], str],
    parts: Mapping[str, Callable[[bool], Iterable[tuple[str, Any]]]],
) -> None:
    """The main program of a page of several parts, any of which can be made again alone (``--only``).

    Each part yields settings with their numbers, in its quick form if it is told so; the page is saved after each.
    """
    parser = _parser(doc)
    parser.add_argument("--only", nargs="+", choices=list(parts), help="these parts; the others stay as stored")
    args = _with_folder(parser.parse_args())
    use_one_thread()
    stored = args.out / f"{name}.json"
    kept = json.loads(stored.read_text(encoding="utf-8")) if stored.exists() and not args.quick else {"results": {}}
    if args.render:
        save(name, kept["environment"], kept["results"], page(kept["results"]), args.out)
        return
    env, found = environment(packages), dict(kept["results"])
    for part in args.only or parts:
        found[part] = {}
        for setting, numbers in parts[part](args.quick):
            found[part][setting] = numbers
            save(name, env, found, page(found), args.out)


def measured(
    name: str, args: argparse.Namespace, packages: Sequence[str], measure: Callable[[bool], Any]
) -> tuple[dict[str, Any], Any]:
    """Environment and numbers: measured now, by a function that is told whether to be quick, or read from a file."""
    if args.render:
        stored = json.loads((args.out / f"{name}.json").read_text(encoding="utf-8"))
        return stored["environment"], stored["results"]
    env = environment(packages)
    data = measure(args.quick)
    env["load_at_end"] = [round(v, 2) for v in os.getloadavg()]
    return env, data


def run_in_steps(
    name: str,
    doc: str | None,
    packages: Sequence[str],
    measure: Callable[[bool, float], Iterator[Any]],
    page: Callable[[Any], str],
) -> None:
    """Measure with one thread and save numbers and page after each step, or write the page from stored numbers.

    ``measure(quick, seconds)`` yields the results so far.
    """
    args = arguments(doc, limited=True)
    if args.render:
        stored = json.loads((args.out / f"{name}.json").read_text(encoding="utf-8"))
        save(name, stored["environment"], stored["results"], page(stored["results"]), args.out)
        return
    use_one_thread()
    env = environment(packages)
    for found in measure(args.quick, args.seconds):
        save(name, env, found, page(found), args.out)


def peak_bytes(function: Callable[[], Any]) -> int:
    """Most bytes that Python and NumPy had allocated during a call, beyond what there was before it."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        function()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


def resident(reset: bool = False) -> int:
    """Most KiB resident since the last reset; Linux. What getrusage says may be the parent's.

    A reset gives back first what was freed: else it would count as there before, and be used without being seen.
    """
    if reset:
        gc.collect()
        if hasattr(library := ctypes.CDLL(None), "malloc_trim"):
            library.malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def save(name: str, env: dict[str, Any], data: Any, text: str, folder: Path = RESULTS) -> None:
    """Print the tables, and write them and the numbers into `folder`."""
    env.setdefault("load_at_end", [round(v, 2) for v in os.getloadavg()])
    folder.mkdir(parents=True, exist_ok=True)
    whole = f"# {name}\n\n{describe(env)}\n\n{text}\n"
    print(whole)
    (folder / f"{name}.md").write_text(whole, encoding="utf-8")
    (folder / f"{name}.json").write_text(
        json.dumps(plain({"environment": env, "results": data}), indent=1) + "\n", encoding="utf-8"
    )
