"""Names in backticks as identifiers and back: whatever a name looks like, Python reads it as that name.

Each name has one identifier, and each identifier one name, in every formula and on all data, so that what a transform
learned of a column is found again under it.
"""

from __future__ import annotations

import keyword
import re
import unicodedata

from formulaic.transforms import TRANSFORMS

START = "_QUOTED_"
"""Beginning of the identifiers of names that are none themselves."""

IDENTIFIER = re.compile(rf"(?<!\w){START}((?:[0-9A-Za-z]|_[0-9a-f]+_)+)(?!\w)")

TEXT = r""""(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'"""
"""A string of Python, in which backticks and identifiers are characters."""

TEXT_OR_QUOTED = re.compile(rf"{TEXT}|`([^`]+)`")
TEXT_OR_IDENTIFIER = re.compile(rf"{TEXT}|{IDENTIFIER.pattern}")


def is_plain(name: str) -> bool:
    """Whether a name means the same with and without backticks."""
    return (
        name.isidentifier()
        and not keyword.iskeyword(name)
        and unicodedata.normalize("NFKC", name) == name  # as Python reads it
        and name not in TRANSFORMS
        and not name.startswith(START)
    )


def identifier(name: str, *, always: bool = False) -> str:
    """The identifier that stands for a name: a name that is plain, unless another is `always` wanted, itself."""
    if is_plain(name) and not always:
        return name
    return START + "".join(c if c.isascii() and c.isalnum() else f"_{ord(c):x}_" for c in name)


def name_of(found: str) -> str:
    """The name that an identifier stands for."""
    match = IDENTIFIER.fullmatch(found)
    return found if match is None else re.sub(r"_([0-9a-f]+)_", lambda code: chr(int(code[1], 16)), match[1])


def without_backticks(code: str) -> str:
    """A formula or an expression with identifiers in the place of the names in backticks."""
    return TEXT_OR_QUOTED.sub(lambda found: f" {identifier(found[1])} " if found[1] else found[0], code)


def in_backticks(code: str) -> str:
    """The same as a user writes it."""
    return TEXT_OR_IDENTIFIER.sub(lambda found: f"`{name_of(found[0])}`" if found[1] else found[0], code)


def bare(formula: str) -> str:
    """A formula without the names in backticks and without text."""
    return TEXT_OR_QUOTED.sub(" ", formula)
