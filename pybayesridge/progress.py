"""Progress of long computations: one line on a terminal or in a notebook, or whatever shows progress already."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from typing import Any, TextIO

DELAY = 2.0
"""Seconds before the first line: what is quicker needs none."""

INTERVAL = 0.5
"""Seconds between two states of the line."""

BETWEEN_LINES = 5.0
"""Seconds between lines where each one stays."""

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
    """A function that shows a text on one line of a terminal or a notebook, which is cleared at the end of the block.

    Parameters
    ----------
    at_once : bool
        Show the first text without waiting whether the computation is a long one.
    stream : TextIO, optional
        stderr by default.

    Yields
    ------
    callable or None
        None if there is neither a terminal nor a notebook.
    """
    elsewhere = _shown_elsewhere.get()
    if elsewhere is not None:
        yield elsewhere
        return
    out = sys.stderr if stream is None else stream
    write = _on_terminal(out) if out is not None and out.isatty() else _in_notebook()
    if write is None:
        yield None
        return
    due = time.monotonic() + (0.0 if at_once else DELAY)
    shown = False

    def show(text: str) -> None:
        nonlocal due, shown
        now = time.monotonic()
        if now < due:
            return
        write(text)
        due, shown = now + INTERVAL, True

    try:
        yield show
    finally:
        if shown:
            write("")


@contextmanager
def lines() -> Iterator[None]:
    """Write the progress of computations in the block on lines of their own on stderr, one every few seconds.

    For consoles such as R's, where no line can be written again.
    """
    due = time.monotonic() + DELAY

    def show(text: str) -> None:
        nonlocal due
        if time.monotonic() >= due:
            print(text, file=sys.stderr, flush=True)
            due = time.monotonic() + BETWEEN_LINES

    with shown_by(show):
        yield


def _on_terminal(out: TextIO) -> Show:
    """Write a text over the line that is there."""

    def write(text: str) -> None:
        out.write(CLEAR + text)
        out.flush()

    return write


def in_notebook() -> bool:
    """Whether a kernel of IPython runs this, which shows its output in a notebook."""
    known: Any = sys.modules.get("IPython")
    shell = None if known is None else known.get_ipython()
    return getattr(shell, "kernel", None) is not None


def _in_notebook() -> Show | None:
    """Write a text in place of the last one in the output of a cell; None where there is no notebook."""
    if not in_notebook():
        return None
    display: Any = import_module("IPython.display").display
    handle: Any = None

    def write(text: str) -> None:
        nonlocal handle
        if handle is None:
            handle = display({"text/plain": text}, raw=True, display_id=True)
        else:
            handle.update({"text/plain": text}, raw=True)

    return write
