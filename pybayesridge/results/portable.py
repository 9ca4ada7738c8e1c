"""Fits in files of text and numbers: a zip archive of one JSON text and arrays in NumPy's format.

Reading one runs no code that is in it.
"""

from __future__ import annotations

import json
import warnings
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn

from pybayesridge._types import PathOrFile
from pybayesridge.archives import Archive, ArchiveWriter, DamagedError
from pybayesridge.exceptions import DataWarning
from pybayesridge.files import written_whole
from pybayesridge.formula.late import check
from pybayesridge.results.encoding import Decoder, Encoder
from pybayesridge.results.stored_classes import NotStoredError
from pybayesridge.text import listed

if TYPE_CHECKING:
    from pybayesridge.formula.spec import FormulaSpec

FORMAT = 2
"""Version of the files that :func:`write` makes; those of format 1 have no checksums."""

OPENING = b"PK"
"""First bytes of an archive."""

FIRST_WITH_CHECKSUMS = 2
"""The first format whose files have checksums."""

CONTENT = "fit.json"
"""The member with the text; the others are arrays."""


def write(results: object, target: PathOrFile, writer: str) -> None:
    """Write results to a file.

    Warns
    -----
    DataWarning
        Where results that are read from it cannot predict, or need `allow_code` for it.

    Raises
    ------
    ValueError
        If they hold something that is neither text nor numbers.
    """
    encoder = Encoder()
    try:
        root = encoder.value(results, "fit")
    except NotStoredError as error:
        raise ValueError(
            f"{error}, which a file of text and numbers cannot hold: use save(..., format='pickle'), or "
            "remove_data=True if it is in the data"
        ) from error
    content = {
        "file": "pybayesridge fit",
        "format": FORMAT,
        "writer": writer,
        "root": root,
        "entries": encoder.entries,
    }
    with written_whole(target) as file, ArchiveWriter(file) as archive:
        archive.text(CONTENT, json.dumps(content, allow_nan=False, separators=(",", ":")).encode())
        for kind, parts in encoder.arrays.items():
            archive.array(f"{kind}.npy", parts, f"<{kind}")
    for spec, stored in encoder.formulas:
        _warn_of_code(spec, stored)


def _warn_of_code(spec: FormulaSpec, stored: dict[str, Any]) -> None:
    """Say what the formula of a saved fit cannot do, while it can be written otherwise."""
    lost = [name for name in spec.context if name not in stored]
    if lost:
        told = (
            f"uses {listed(lost)}, which the file does not hold, so that the saved fit cannot predict from new rows: "
            "make a column of the expression before the fit, or use save(..., format='pickle')"
        )
    else:
        try:
            check.refuse_code_of(spec)
        except ValueError as error:
            told = f"runs code, so that load() reads the file with allow_code=True alone: {error}"
        else:
            return
    warnings.warn(f"the formula {spec.formula!r} {told}", DataWarning, stacklevel=5)


def read(file: BinaryIO, name: str, reader: str, *, allow_code: bool = False) -> Any:
    """The results in a file.

    Parameters
    ----------
    file : binary file
        With positions.
    name : str
        For messages.
    reader : str
        Version of the package that reads.
    allow_code : bool
        Whether formulas may do more than compute with columns when they are evaluated.

    Raises
    ------
    ValueError
        If the file holds something else, is damaged, was changed, or was written by a later version.
    """
    try:
        archive = Archive(file)
        content = _content(archive)
        if content is None:
            raise ValueError(f"{name} is not a fit saved by pybayesridge: it is another archive")
        if content["format"] > FORMAT:
            raise ValueError(
                f"{name} was written by pybayesridge {content.get('writer')}, in format {content['format']}; version "
                f"{reader} reads up to format {FORMAT}: upgrade pybayesridge"
            )
        arrays = {member.removesuffix(".npy"): archive.array(member) for member in archive.names if member != CONTENT}
        archive.verify(required=content["format"] >= FIRST_WITH_CHECKSUMS)
    except DamagedError as error:
        raise ValueError(
            f"{name} is damaged: it is not what pybayesridge wrote ({error}); copy or save it again"
        ) from error
    try:
        decoder = Decoder(content["entries"], arrays)
        found = decoder.root(content["root"])
    except Exception as error:  # what an earlier or another version has written may raise anything
        raise ValueError(
            f"{name} was written by pybayesridge {content.get('writer')} and cannot be read by version {reader} "
            f"({type(error).__name__}: {error}): use the version that wrote it"
        ) from error
    if not allow_code:
        for spec in decoder.formulas:
            _refuse_code(spec, name)
    return found


def _refuse_code(spec: FormulaSpec, name: str) -> None:
    try:
        check.refuse_code_of(spec)
    except ValueError as error:
        raise ValueError(
            f"{name} holds a fit whose predictions would run other code than that of known functions: {error}. If "
            "you trust the file, read it with allow_code=True (command line: --allow-code)"
        ) from error


def _content(archive: Archive) -> dict[str, Any] | None:
    """The text of a fit; None where the archive is another one."""
    if CONTENT not in archive.names:
        return None
    try:
        content = json.loads(archive.text(CONTENT), parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise DamagedError(f"{CONTENT}: {error}") from error
    if not isinstance(content, dict) or content.get("file") != "pybayesridge fit":
        return None
    if type(content.get("format")) is not int or content["format"] < 1:
        raise DamagedError(f"its format is {content.get('format')!r}")
    return content


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not in JSON")
