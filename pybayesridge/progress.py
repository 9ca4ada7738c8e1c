"""Progress of long computations: one line on a terminal, or whatever shows progress already."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TextIO

DELAY = 2.0
"""Seconds before the first line: what is quicker needs none."""

INTERVAL = 0.5
"""Seconds between two states of the line."""

CLEAR = "\r\x1b[K"
"""Return to the beginning of the line, and clear it."""

Show = Callable[[str], None]

_shown_elsewhere: ContextVar[Show | None] = ContextVar("progress", default=None)


@contextmanager
def shown_by(show: Show) -> Iterator[None]:
    """Hand the progress of computations in the block to `show`, in place of a line of their own."""
    token = _shown_elsewhere.set(show)
    try:
        yield
    finally:
        _shown_elsewhere.reset(token)


@contextmanager
def line(*, at_once: bool = False, stream: TextIO | None = None) -> Iterator[Show | None]:
    """A function that shows a text on one line of a terminal, which is cleared at the end of the block.

    Parameters
    ----------
    at_once : bool
        Show the first text without waiting whether the computation is a long one.
    stream : TextIO, optional
        stderr by default.

    Yields
    ------
    callable or None
        None if the stream is not a terminal.
    """
    elsewhere = _shown_elsewhere.get()
    if elsewhere is not None:
        yield elsewhere
        return
    out = sys.stderr if stream is None else stream
    if out is None or not out.isatty():
        yield None
        return
    due = time.monotonic() + (0.0 if at_once else DELAY)
    shown = False

    def show(text: str) -> None:
        nonlocal due, shown
        now = time.monotonic()
        if now < due:
            return
        out.write(CLEAR + text)
        out.flush()
        due, shown = now + INTERVAL, True

    try:
        yield show
    finally:
        if shown:
            out.write(CLEAR)
            out.flush()
