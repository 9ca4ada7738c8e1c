"""Runs the Python code of a page in the page's own session and keeps what it shows for `glue`."""

from pathlib import Path
from typing import Any

from IPython import get_ipython
from IPython.utils.capture import capture_output
from myst_nb import glue


class Printed:
    """Text as it was printed."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        """The text itself, which is what notebooks show."""
        return self.text


def show(*names: str, folder: str = "start") -> None:
    """Run ``folder/name.py`` for each name and glue what it prints, or else the value of its last line."""
    for name in names:
        source = Path(folder, f"{name}.py").read_text(encoding="utf-8")
        with capture_output() as seen:
            get_ipython().run_cell(source).raise_error()
        shown: Any = Printed(seen.stdout.rstrip()) if seen.stdout else seen.outputs[-1]
        glue(name, shown, display=False)
