"""Files that are written whole or not at all: the only place where the package opens a file for writing."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO, TypeGuard

from pybayesridge._types import PathOrFile

NEW_FILE = 0o666
"""Permissions of a file that did not exist, before the process's umask."""


def is_file_object(target: object) -> TypeGuard[BinaryIO]:
    """Whether `target` is an open file rather than the name of one."""
    return hasattr(target, "write") and not isinstance(target, str | bytes | os.PathLike)


@contextmanager
def written_whole(target: PathOrFile) -> Iterator[BinaryIO]:
    """Open a file to write, and put it in the place of an old one only once everything is on the disk.

    The bytes go to a temporary file in the same folder, which replaces the old file at the end. Whatever interrupts
    the writing (a full disk, Ctrl-C), the old file is left as it was and the temporary one is removed. An existing
    file keeps its permissions, a symbolic link keeps pointing at its target, and what is not an ordinary file (a
    pipe, ``/dev/stdout``) is written directly.

    Parameters
    ----------
    target : str, os.PathLike or binary file
        A file object is handed through and stays open.

    Yields
    ------
    binary file

    Raises
    ------
    OSError
        If the file cannot be written; the message names it.
    ValueError
        If `target` is neither a name nor a file object.
    """
    if is_file_object(target):
        yield target
        return
    if not isinstance(target, str | bytes | os.PathLike):
        raise ValueError(f"a file must be given by its name or as an open binary file, not as {target!r}")
    named = os.fsdecode(target)
    try:
        old = _status(named)
        if old is not None and stat.S_ISDIR(old.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), named)
        if old is not None and not stat.S_ISREG(old.st_mode):
            with open(named, "wb") as file:
                yield file
            return
        with _replacement(os.path.realpath(named), old) as file:
            yield file
    except OSError as error:
        raise _naming(error, named) from error


def write_text(target: PathOrFile, text: str) -> None:
    """Write a text as UTF-8, whole or not at all; line ends are left as they are."""
    with written_whole(target) as file:
        file.write(text.encode("utf-8"))


def _status(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


@contextmanager
def _replacement(path: str, old: os.stat_result | None) -> Iterator[BinaryIO]:
    if old is not None and not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
    mode = NEW_FILE if old is None else stat.S_IMODE(old.st_mode)
    beside = os.path.join(os.path.dirname(path), f".pybayesridge-{secrets.token_hex(8)}.tmp")
    try:
        with open(beside, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if old is not None:
            _keep(beside, old, mode)
        os.replace(beside, path)
    except BaseException:
        with suppress(OSError):
            os.remove(beside)
        raise


def _keep(path: str, old: os.stat_result, mode: int) -> None:
    """Give a new file the owner and the permissions of the old one, as far as the process may."""
    if hasattr(os, "chown"):
        with suppress(OSError):
            os.chown(path, old.st_uid, old.st_gid)
    os.chmod(path, mode)


def _naming(error: OSError, path: PathOrFile) -> OSError:
    """The error with the name of the file that was to be written, whichever file it was about."""
    if error.errno is None:
        text = str(error) or type(error).__name__
        return error if str(path) in text else OSError(f"{path}: {text}")
    return OSError(error.errno, error.strerror or os.strerror(error.errno), path)
