"""Progress bars of passes over what is read in batches or blocks."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from pybayesridge.progress import Show, in_notebook, line


def progress_bar(total: int | None, unit: str, progress: bool | None, label: str) -> Any:
    """A progress bar on a terminal or in a notebook (None), always (True) or never (False)."""
    if in_notebook() and progress is not False:
        return _Line(total, unit, label, at_once=bool(progress))
    try:
        from tqdm import tqdm
    except ImportError as error:
        if progress:
            raise ImportError("progress needs tqdm: pip install 'pybayesridge[stream]'") from error
        return _NoBar()
    if progress is False:
        return _NoBar()
    return tqdm(
        total=total, unit=f" {unit}", unit_scale=True, desc=label, disable=None if progress is None else False
    )


class _Line:
    """A line of text in a notebook, where bars need packages of their own."""

    def __init__(self, total: int | None, unit: str, label: str, *, at_once: bool) -> None:
        self._done, self._of = 0, f"{unit}" if total is None else f"of {total:,} {unit}"
        self._label, self._at_once, self._open = label, at_once, ExitStack()
        self._show: Show | None = None

    def __enter__(self) -> _Line:
        self._show = self._open.enter_context(line(at_once=self._at_once))
        return self

    def __exit__(self, *_: object) -> None:
        """Clear the line."""
        self._open.close()

    def update(self, more: int) -> None:
        """Show how many there are now."""
        self._done += more
        if self._show is not None:
            self._show(f"{self._label}: {self._done:,} {self._of}")


class _NoBar:
    """A progress bar that shows nothing."""

    def __enter__(self) -> _NoBar:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to close."""

    def update(self, _: int) -> None:
        """Nothing to show."""
