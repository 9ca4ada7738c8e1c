"""A page for each file that a benchmark wrote to benchmarks/results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parents[1]
MEASURED = DOCS.parent / "benchmarks" / "results"
PAGES = DOCS / "results" / "pages"


def script_of(stem: str) -> str | None:
    """The benchmark that a page is named after: ``name.py``, or ``folder/name.py`` for ``folder_name``."""
    for script in sorted(MEASURED.parent.rglob("*.py")):
        name = script.relative_to(MEASURED.parent).with_suffix("")
        if "_".join(name.parts) == stem:
            return f"{name.as_posix()}.py"
    return None


def write_pages(app: Any) -> None:
    """Write what includes each file, and take away pages whose file is gone."""
    PAGES.mkdir(exist_ok=True)
    wanted = {}
    for path in sorted(MEASURED.glob("*.md")):
        told = f"Made by `benchmarks/{script}`." if (script := script_of(path.stem)) else ""
        wanted[path.name] = (
            f"```{{include}} ../../../benchmarks/results/{path.name}\n:relative-images:\n```\n\n{told}\n"
        )
    for path in PAGES.glob("*.md"):
        if path.name not in wanted:
            path.unlink()
    for name, text in wanted.items():
        page = PAGES / name
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            page.write_text(text, encoding="utf-8")


def setup(app: Any) -> dict[str, Any]:
    """Write the pages before Sphinx looks for them."""
    app.connect("builder-inited", write_pages)
    return {"parallel_read_safe": True}
