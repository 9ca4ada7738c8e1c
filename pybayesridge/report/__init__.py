"""A report of a fit: one HTML file."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pybayesridge._types import PathLike
from pybayesridge.files import write_text
from pybayesridge.report.page import Page, contents
from pybayesridge.report.parts import Origin

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

PIECES = re.compile(r"[\W_]*[^\W_]{1,24}[\W_]*|[\W_]+")
"""What lines of a name are made of: a word, or a part of a very long one, with the punctuation around it."""


def write_report(
    res: Any,
    path: PathLike,
    *,
    title: str | None,
    question: str | None,
    target: int | None,
    alpha: float,
    origin: Origin | None = None,
) -> Path:
    """Write the report of results; see ``LinearResults.report``. `origin`: where they were made, if not here."""
    file = _checked_path(path)
    environment = _environment()
    page = contents(res, title=title, question=question, target=target, alpha=alpha, origin=origin)
    write_text(file, _rendered(environment, page))
    return file


def _checked_path(path: PathLike) -> Path:
    if not isinstance(path, str | os.PathLike) or not os.fspath(path):
        raise ValueError(f"path must be the name of a file, not {path!r}")
    file = Path(path)
    if file.is_dir():
        raise IsADirectoryError(f"cannot write the report: {str(file)!r} is a folder; name a file in it")
    if not file.parent.is_dir():
        raise FileNotFoundError(f"cannot write the report: there is no folder {str(file.parent)!r}; make it first")
    return file


def _environment() -> Environment:
    try:
        import jinja2
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ImportError("reports need jinja2 and matplotlib: pip install 'pybayesridge[report]'") from error
    out = jinja2.Environment(
        loader=jinja2.PackageLoader("pybayesridge"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    out.filters["breakable"] = breakable
    return out


def breakable(name: str) -> Markup:
    """A name that lines may break after its punctuation, and every so many characters where it has none."""
    from markupsafe import Markup

    return Markup("<wbr>").join(PIECES.findall(name))


def _rendered(environment: Environment, page: Page) -> str:
    return str(environment.get_template("report.html.j2").render(page=page)) + "\n"
