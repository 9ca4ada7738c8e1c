"""The short form of models, results, predictions and scores: what a cell of a notebook or a console shows of them."""

from __future__ import annotations

from html import escape

import pandas as pd

ROWS = 10
"""Rows of a table; of more, as many from both ends."""

COLUMNS = 8
"""Columns of a table, likewise."""


class Shown:
    """An object that is shown as a title, a small table and what shows more, as text and as HTML."""

    __slots__ = ()

    def _written(self, value: float) -> str:
        """A number of the table."""
        return f"{value:.4g}"

    def _shown(self) -> tuple[str, pd.DataFrame | None, str]:
        """Title, table or None, and advice, which may be empty: all of it known without much computation."""
        raise NotImplementedError

    def __repr__(self) -> str:
        """The title, the table and the advice."""
        title, table, advice = self._shown()
        text = None if table is None else table.to_string(max_rows=ROWS, max_cols=COLUMNS, float_format=self._written)
        return "\n\n".join(part for part in (title, text, advice) if part)

    def _repr_html_(self) -> str:
        """The same for notebooks."""
        title, table, advice = self._shown()
        html = None if table is None else table.to_html(max_rows=ROWS, max_cols=COLUMNS, float_format=self._written)
        parts = (f"<p>{escape(title)}</p>", html, f"<p>{escape(advice)}</p>" if advice else None)
        return "<div>" + "\n".join(part for part in parts if part) + "</div>"


def counted(count: float, what: str) -> str:
    """A number and what is counted, in the plural where that is due: 1 row, 2,000 rows."""
    return f"{count:,.10g} {what}{'' if count == 1 else 's'}"
