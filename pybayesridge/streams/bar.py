"""Progress bars of passes over what is read in batches or blocks."""

from __future__ import annotations

from typing import Any


def progress_bar(total: int | None, unit: str, progress: bool | None, label: str) -> Any:
    """A progress bar on a terminal (None), always (True) or never (False)."""
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


class _NoBar:
    """A progress bar that shows nothing."""

    def __enter__(self) -> _NoBar:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to close."""

    def update(self, _: int) -> None:
        """Nothing to show."""
