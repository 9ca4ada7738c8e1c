"""Zip archives of texts and NumPy's arrays with checksums, read within limits that the size of the file sets.

What an archive says of itself is believed as far as its bytes bear it out, and before anything is unpacked: all
members together are no longer than the file, an array is as long as its member, and a text that is compressed is at
most :data:`FOLD` times as long as its compressed form. No array holds objects, so that reading runs no code.
"""

from __future__ import annotations

import errno
import hashlib
import math
import os
import sys
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO, NoReturn, Self

import numpy as np

from pybayesridge._types import AnyArray

CHECKSUMS = "sha256"
"""The member with the SHA-256 of each other one, in lines as ``sha256sum`` writes them."""

OLDEST = (1980, 1, 1, 0, 0, 0)
"""Date of the members: two archives of the same content are the same."""

FOLD = 20
"""A text that would be compressed more than so many times is written as it is, and a member that is, is refused."""

SMALL = 1 << 20
"""Members of at most so many bytes may be compressed as well as they can be."""

KINDS = "biufU"
"""Kinds of arrays: truth values, whole numbers with and without a sign, numbers, text."""

PIECE = 1 << 20
"""Bytes that are read at a time."""

FLAGS = 0x80E
"""Bits of a member that change nothing here: how it was compressed, sizes after the data, names in UTF-8."""

OF_DAMAGE = (errno.EINVAL, errno.EOVERFLOW, errno.ERANGE)
"""What the system answers to a position that no file has."""


class DamagedError(ValueError):
    """An archive that is not as it was written."""


class ArchiveWriter:
    """Writes members to a zip archive, and at its end the checksums of all; a context manager.

    Parameters
    ----------
    file : binary file
    """

    def __init__(self, file: BinaryIO) -> None:
        self._archive = zipfile.ZipFile(file, "w")
        self._sums: list[tuple[str, str]] = []

    def text(self, name: str, content: bytes) -> None:
        """Write a text, compressed unless it could be compressed further than readers believe."""
        folded = len(content) <= SMALL or len(content) <= FOLD * _compressed_size(content)
        self._archive.writestr(_member(name, zipfile.ZIP_DEFLATED if folded else zipfile.ZIP_STORED), content)
        self._sums.append((hashlib.sha256(content).hexdigest(), name))

    def array(self, name: str, parts: Sequence[AnyArray], dtype: str) -> None:
        """Write one array of any shape, or several of one dimension as one, as NumPy does."""
        first = parts[0]
        shape = first.shape if len(parts) == 1 else (sum(part.size for part in parts),)
        fortran = len(parts) == 1 and first.flags.f_contiguous and not first.flags.c_contiguous
        header = {"descr": np.dtype(dtype).str, "fortran_order": fortran, "shape": shape}
        with self._archive.open(_member(name, zipfile.ZIP_STORED), "w", force_zip64=True) as member:
            summed: Any = _Summed(member)
            np.lib.format.write_array_header_1_0(summed, header)
            for part in parts:
                values = np.ascontiguousarray(part.T if fortran else part, dtype=dtype)
                summed.write(values.reshape(-1).view(np.uint8).data)
        self._sums.append((summed.sum.hexdigest(), name))

    def __enter__(self) -> Self:
        """The writer."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Write the checksums, unless there was an error, and end the archive."""
        with self._archive:
            if kind is None:
                lines = "".join(f"{digest}  {name}\n" for digest, name in self._sums)
                self._archive.writestr(_member(CHECKSUMS, zipfile.ZIP_STORED), lines)


class Archive:
    """The members of an archive, each read once.

    Parameters
    ----------
    file : binary file
        With positions.

    Attributes
    ----------
    names : list of str
        Of all members but the checksums.

    Raises
    ------
    DamagedError
        Also of every method: if anything is missing or changed, or claims to be longer than it can be.
    OSError
        If the file cannot be read.
    """

    def __init__(self, file: BinaryIO) -> None:
        with _sound():
            length = file.seek(0, os.SEEK_END)
            self._archive = zipfile.ZipFile(file)
            self._members = {member.filename: member for member in self._archive.infolist()}
            _check_sizes(self._archive.infolist(), length)
        self._sums: dict[str, str] = {}
        self.names = [name for name in self._members if name != CHECKSUMS]

    def text(self, name: str) -> bytes:
        """A member as it is."""
        with _sound(), self._open(name) as member:
            return b"".join(member.pieces(self._members[name].file_size))

    def array(self, name: str) -> AnyArray:
        """An array in NumPy's format; its header is compared with the length of the member before memory is taken."""
        with _sound(), self._open(name) as member:
            shape, fortran, dtype = _header(member)
            count = math.prod(shape)
            if dtype.kind not in KINDS or dtype.itemsize == 0 or min(shape, default=0) < 0:
                raise DamagedError(f"{name} is an array of {dtype}")
            if count * dtype.itemsize != self._members[name].file_size - member.count:
                raise DamagedError(f"{name} has another length than its shape {shape}")
            flat = np.empty(count, dtype=dtype)
            raw, at = flat.view(np.uint8), 0
            for piece in member.pieces(raw.size):
                raw[at : at + len(piece)] = np.frombuffer(piece, dtype=np.uint8)
                at += len(piece)
            if dtype.kind == "U" and (raw.view(np.dtype("u4").newbyteorder(dtype.byteorder)) > sys.maxunicode).any():
                raise DamagedError(f"{name} has text that is none")
            return flat.reshape(shape, order="F" if fortran else "C")

    def verify(self, required: bool) -> None:
        """Compare all members, which were read, with the checksums.

        Parameters
        ----------
        required : bool
            Whether there must be checksums: the first formats had none.
        """
        if CHECKSUMS not in self._members:
            if required:
                raise DamagedError("it has no checksums")
            return
        found = self.text(CHECKSUMS).decode("ascii", errors="replace").splitlines()
        if sorted(found) != sorted(f"{self._sums.get(name)}  {name}" for name in self.names):
            raise DamagedError("its checksums do not hold")

    @contextmanager
    def _open(self, name: str) -> Iterator[_Read]:
        if name not in self._members:
            raise DamagedError(f"{name} is not in it")
        with self._archive.open(self._members[name]) as opened:
            member = _Read(opened)
            yield member
        self._sums[name] = member.sum.hexdigest()


class _Summed:
    """Digests what is written through it."""

    def __init__(self, file: Any) -> None:
        self.file, self.sum = file, hashlib.sha256()

    def write(self, data: bytes | memoryview) -> int:
        """Write bytes."""
        self.sum.update(data)
        return int(self.file.write(data))


class _Read:
    """Digests and counts what is read through it."""

    def __init__(self, file: Any) -> None:
        self.file, self.sum, self.count = file, hashlib.sha256(), 0

    def read(self, size: int) -> bytes:
        """At most `size` bytes."""
        out: bytes = self.file.read(size)
        self.sum.update(out)
        self.count += len(out)
        return out

    def pieces(self, size: int) -> Iterator[bytes]:
        """Exactly `size` bytes."""
        while size:
            piece = self.read(min(PIECE, size))
            if not piece:
                raise DamagedError("it ends too early")
            size -= len(piece)
            yield piece


@contextmanager
def _sound() -> Iterator[None]:
    """Whatever reading a damaged archive raises is a DamagedError; what the system says of the file stays."""
    try:
        yield
    except (DamagedError, MemoryError):
        raise
    except OSError as error:
        if error.errno is not None and error.errno not in OF_DAMAGE:
            raise
        _damaged(error)
    except Exception as error:  # zipfile, zlib and struct have errors of many kinds
        _damaged(error)


def _damaged(error: Exception) -> NoReturn:
    raise DamagedError(f"{type(error).__name__}: {error}") from error


def _check_sizes(members: list[zipfile.ZipInfo], length: int) -> None:
    """Refuse members that cannot be as long as the directory says."""
    for member in members:
        stored = member.compress_type == zipfile.ZIP_STORED
        known = (stored or member.compress_type == zipfile.ZIP_DEFLATED) and not member.flag_bits & ~FLAGS
        most = member.compress_size if stored else max(SMALL, FOLD * member.compress_size)
        if not known or member.file_size > most or not 0 <= member.header_offset < length:
            raise DamagedError(f"{member.filename} is not as long as it says")
    if sum(member.compress_size for member in members) > length:
        raise DamagedError("its members are longer than it is")
    if len({member.filename for member in members}) < len(members):
        raise DamagedError("it has two members of one name")


def _header(member: _Read) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, order and type of an array; reading a header that is none may raise anything."""
    try:
        file: Any = member
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = read(file)
    except OSError:
        raise
    except Exception as error:
        _damaged(error)
    return shape, fortran, dtype


def _compressed_size(content: bytes) -> int:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return len(packer.compress(content)) + len(packer.flush())


def _member(name: str, compression: int) -> zipfile.ZipInfo:
    out = zipfile.ZipInfo(name, OLDEST)
    out.compress_type = compression
    return out
