"""Fits in files: text and numbers, or a pickle that begins with who wrote it and with its checksum."""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

from pybayesridge._types import PathOrFile
from pybayesridge._version import __version__
from pybayesridge.files import is_file_object, written_whole
from pybayesridge.results import portable

FORMATS = ("portable", "pickle")

FORMAT = 1
"""Version of the pickles that :func:`write` makes."""

OPENING, CLOSING = b"\x80\x05C", b"0"
"""A pickle may begin with bytes that it drops again: these, so that ``pickle.load`` reads our files too."""

MAGIC = b"pybayesridge fit"

FIXED = struct.Struct(f"<{len(MAGIC)}sHQ32s")
"""Magic, format, number of bytes of the pickle proper, their SHA-256; the writer's version follows."""

PIECE = 1 << 20
"""Bytes that are read at a time."""


class Saveable:
    """Results that files hold."""


@dataclass(frozen=True, slots=True)
class Header:
    """The first bytes of a saved fit.

    Attributes
    ----------
    format : int
    length : int
        Bytes of the pickle that follows.
    digest : bytes
        Their SHA-256.
    writer : str
        Version of the package that wrote them.
    """

    format: int
    length: int
    digest: bytes
    writer: str

    def packed(self) -> bytes:
        """As bytes."""
        whole = FIXED.pack(MAGIC, self.format, self.length, self.digest) + self.writer.encode()
        return OPENING + bytes([len(whole)]) + whole + CLOSING


class _Sum:
    """Counts and digests what is written through it."""

    def __init__(self, file: BinaryIO) -> None:
        self.file, self.sum, self.length = file, hashlib.sha256(), 0

    def write(self, data: bytes | memoryview) -> int:
        """Write bytes."""
        self.sum.update(data)
        self.length += memoryview(data).nbytes
        return self.file.write(data)

    def header(self) -> Header:
        """The header of what was written."""
        return Header(FORMAT, self.length, self.sum.digest(), __version__)


def write(results: object, target: PathOrFile, form: str) -> None:
    """Write results to a file in one of `FORMATS`."""
    if form not in FORMATS:
        raise ValueError(f"format must be 'portable' or 'pickle', not {form!r}")
    if form == "portable":
        portable.write(results, target, __version__)
    else:
        _write_pickle(results, target)


def _write_pickle(results: object, target: PathOrFile) -> None:
    """Write a pickle, which is never held in memory where `target` is the name of an ordinary file."""
    with written_whole(target) as file:
        if is_file_object(target) or not file.seekable():
            body = io.BytesIO()
            through = _Sum(body)
            pickle.dump(results, through, protocol=5)
            file.write(through.header().packed())
            file.write(body.getbuffer())
            return
        blank = Header(FORMAT, 0, bytes(32), __version__).packed()
        file.write(blank)
        through = _Sum(file)
        pickle.dump(results, through, protocol=5)
        file.seek(0)
        file.write(through.header().packed())


def read(source: PathOrFile, kind: type, *, allow_code: bool = False) -> Any:
    """Results of `kind` from a file that :func:`write` or, with `allow_code`, pickle made.

    Raises
    ------
    ValueError
        If the file is damaged, holds something else, or was written by a version that cannot be read.
    OSError
        If it cannot be read.
    """
    name = _name(source)
    if hasattr(source, "read"):
        found = _read(cast("BinaryIO", source), name, allow_code)
    else:
        with open(source, "rb") as file:
            found = _read(file, name, allow_code)
    if not isinstance(found, kind):
        article = "an" if type(found).__name__[:1].lower() in "aeiou" else "a"
        raise ValueError(f"{name} is not a fit saved by pybayesridge: it holds {article} {type(found).__name__}")
    return found


def _name(source: PathOrFile) -> str:
    if isinstance(source, str | os.PathLike):
        return str(os.fspath(source))
    given = getattr(source, "name", None)
    return given if isinstance(given, str) else "the file"


def _read(file: BinaryIO, name: str, allow_code: bool) -> Any:
    start = file.read(len(OPENING) + 1)
    if start.startswith(portable.OPENING):
        alone = file.seekable() and file.tell() == len(start)
        archive = file if alone else io.BytesIO(start + file.read())
        return portable.read(archive, name, __version__, allow_code=allow_code)
    if start[: len(OPENING)] != OPENING or len(start) <= len(OPENING):
        return _foreign(start + file.read(), name, allow_code)
    whole = file.read(start[-1] + 1)
    if whole[: len(MAGIC)] != MAGIC:
        return _foreign(start + whole + file.read(), name, allow_code)
    damaged = f"{name} is damaged: it is not what pybayesridge wrote; copy or save it again"
    if len(whole) <= FIXED.size or whole[-1:] != CLOSING:
        raise ValueError(damaged)
    _, form, length, digest = FIXED.unpack(whole[: FIXED.size])
    writer = whole[FIXED.size : -1].decode(errors="replace")
    if form > FORMAT:
        raise ValueError(
            f"{name} was written by pybayesridge {writer}, in format {form}; version {__version__} reads up to "
            f"format {FORMAT}: upgrade pybayesridge"
        )
    body = _checked(file, length, digest)
    if body is None:
        raise ValueError(damaged)
    if not allow_code:
        raise _pickle_refused(name)
    try:
        return pickle.load(body)
    except Exception as error:  # unpickling may raise anything
        raise ValueError(
            f"{name} was written by pybayesridge {writer} and cannot be read by version {__version__} with the "
            f"libraries that are installed ({type(error).__name__}: {error}): install what it was written with"
        ) from error


def _checked(file: BinaryIO, length: int, digest: bytes) -> BinaryIO | None:
    """The pickle that follows, where it is what was written; None else."""
    total = hashlib.sha256()
    if file.seekable():
        at = file.tell()
        for piece in _pieces(file, length):
            total.update(piece)
        file.seek(at)
        return file if total.digest() == digest else None
    body = io.BytesIO(b"".join(_pieces(file, length)))
    return body if hashlib.sha256(body.getbuffer()).digest() == digest else None


def _pieces(file: BinaryIO, length: int) -> Iterator[bytes]:
    while length > 0 and (piece := file.read(min(PIECE, length))):
        length -= len(piece)
        yield piece


def _pickle_refused(name: str) -> ValueError:
    return ValueError(
        f"{name} is a pickle, which can run code when it is read: if you trust the file, read it with "
        "allow_code=True (command line: --allow-code), and save it again in the default format"
    )


def _foreign(content: bytes, name: str, allow_code: bool) -> Any:
    """The content of another pickle."""
    foreign = f"{name} is not a fit saved by pybayesridge"
    if not content:
        raise ValueError(f"{foreign}: it is empty")
    if not allow_code:
        # Pickles of the first protocols, which are text, begin with anything.
        raise _pickle_refused(name) if content[:1] == OPENING[:1] else ValueError(f"{foreign}: it is no archive")
    try:
        return pickle.loads(content)
    except Exception as error:  # unpickling may raise anything
        raise ValueError(f"{foreign}: it is no complete pickle or archive") from error
