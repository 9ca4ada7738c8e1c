"""Messages on stderr: errors and warnings as one line each, and progress where a person watches."""

from __future__ import annotations

import re
import sys
import threading
import time
import warnings
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from pybayesridge.progress import shown_by

DELAY = 1.0
"""Seconds before the first progress line: what is quicker needs none."""

INTERVAL = 0.5
"""Seconds between two states of the progress line."""

COLOURS = re.compile(r"\x1b\[[0-9;]*m|[⧛⧚]")
"""Marks by which formulaic shows where in a formula an error is."""

LONGEST = 500
"""An error's line is cut after this many characters."""


def one_line(error: BaseException) -> str:
    """The message of an error on one line."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, MemoryError):
        return " ".join(f"out of memory {error}".split())
    text = " ".join(COLOURS.sub("", str(error)).split()) or type(error).__name__
    return text if len(text) <= LONGEST else text[: LONGEST - 2] + " …"


@contextmanager
def warnings_as_lines() -> Iterator[list[str]]:
    """Print warnings as one line each on stderr at the end of the block; the list holds their texts."""
    texts: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for kind in (DeprecationWarning, PendingDeprecationWarning, FutureWarning, ResourceWarning):
            warnings.simplefilter("ignore", kind)
        try:
            yield texts
        finally:
            texts.extend(dict.fromkeys(" ".join(str(w.message).split()) for w in caught))
            for text in texts:
                print(f"pybayesridge: warning: {text}", file=sys.stderr)


@contextmanager
def progress(what: str, *, quiet: bool, stream: TextIO | None = None) -> Iterator[None]:
    """Keep a line with the time that has passed on stderr while the block runs, if stderr is a terminal."""
    out = sys.stderr if stream is None else stream
    if quiet or not out.isatty():
        with shown_by(lambda detail: None):
            yield
        return
    done, details = threading.Event(), deque([""], maxlen=1)
    thread = threading.Thread(target=_tick, args=(what, details, out, done), daemon=True)
    thread.start()
    try:
        with shown_by(details.append):
            yield
    finally:
        done.set()
        thread.join()


def _tick(what: str, details: deque[str], out: TextIO, done: threading.Event) -> None:
    start = time.monotonic()
    shown = False
    wait = DELAY
    while not done.wait(wait):
        detail = f", {details[0]}" if details[0] else ""
        out.write(f"\r\x1b[K{what} … {time.monotonic() - start:.0f} s{detail}")
        out.flush()
        shown, wait = True, INTERVAL
    if shown:
        out.write("\r\x1b[K")
        out.flush()
