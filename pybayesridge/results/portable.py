"""Fits in files of text and numbers: a zip archive of one JSON text and arrays in NumPy's format.

Reading one runs no code that is in it.
"""

from __future__ import annotations

import json
import zipfile
import zlib
from typing import Any, BinaryIO

import numpy as np

from pybayesridge._types import PathOrFile
from pybayesridge.files import written_whole
from pybayesridge.results.encoding import Decoder, Encoder
from pybayesridge.results.stored_classes import NotStoredError

FORMAT = 1
"""Version of the files that :func:`write` makes."""

OPENING = b"PK"
"""First bytes of an archive."""

CONTENT = "fit.json"
"""The member with the text; the others are arrays."""

OLDEST = (1980, 1, 1, 0, 0, 0)
"""Date of the members: two files of the same fit are the same."""

BROKEN = (
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    AttributeError,
    EOFError,
    OverflowError,
    RecursionError,
    NotImplementedError,
    zipfile.BadZipFile,
    zlib.error,
)
"""Errors of reading a file of which a part is missing or changed."""


def write(results: object, target: PathOrFile, writer: str) -> None:
    """Write results to a file.

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
    with written_whole(target) as file, zipfile.ZipFile(file, "w") as archive:
        text = json.dumps(content, allow_nan=False, separators=(",", ":"))
        archive.writestr(_member(CONTENT, zipfile.ZIP_DEFLATED), text)
        for kind, parts in encoder.arrays.items():
            with archive.open(_member(f"{kind}.npy", zipfile.ZIP_STORED), "w", force_zip64=True) as member:
                size = sum(part.size for part in parts)
                header = {"descr": np.dtype(f"<{kind}").str, "fortran_order": False, "shape": (size,)}
                np.lib.format.write_array_header_1_0(member, header)
                for part in parts:
                    member.write(np.ascontiguousarray(part, dtype=f"<{kind}").data)


def _member(name: str, compression: int) -> zipfile.ZipInfo:
    out = zipfile.ZipInfo(name, OLDEST)
    out.compress_type = compression
    return out


def read(file: BinaryIO, name: str, reader: str) -> Any:
    """The results in a file.

    Raises
    ------
    ValueError
        If the file holds something else, is damaged, or was written by a later version.
    """
    damaged = f"{name} is damaged: it is not what pybayesridge wrote; copy or save it again"
    try:
        with zipfile.ZipFile(file) as archive:
            members = archive.namelist()
            content = json.loads(archive.read(CONTENT)) if CONTENT in members else None
            if not isinstance(content, dict) or content.get("file") != "pybayesridge fit":
                content = None
            elif content["format"] <= FORMAT:
                arrays = {}
                for member in members:
                    if member != CONTENT:
                        with archive.open(member) as opened:
                            arrays[member.removesuffix(".npy")] = np.lib.format.read_array(opened, allow_pickle=False)
    except BROKEN as error:
        raise ValueError(damaged) from error
    if content is None:
        raise ValueError(f"{name} is not a fit saved by pybayesridge: it is another archive")
    if content["format"] > FORMAT:
        raise ValueError(
            f"{name} was written by pybayesridge {content.get('writer')}, in format {content['format']}; version "
            f"{reader} reads up to format {FORMAT}: upgrade pybayesridge"
        )
    try:
        return Decoder(content["entries"], arrays).value(content["root"])
    except BROKEN as error:
        raise ValueError(
            f"{name} was written by pybayesridge {content.get('writer')} and cannot be read by version {reader} "
            f"({type(error).__name__}: {error}): use the version that wrote it"
        ) from error
