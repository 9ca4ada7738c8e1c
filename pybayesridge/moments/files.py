"""Files of moments → the fields of :class:`pybayesridge.Moments`, or a sentence about the file."""

from __future__ import annotations

import io
import os
import zipfile
import zlib
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from pybayesridge._types import PathOrFile
from pybayesridge.files import written_whole
from pybayesridge.text import listed

if TYPE_CHECKING:
    from pybayesridge.moments.moments import Moments

FORMAT = 1
"""Version of the files that ``Moments.save`` writes."""

ARRAYS = ("x_origin", "x_offset", "y_origin", "y_offset", "xx", "xy", "yy")

FIELDS = {"format", "counts", "weights", "columns", "targets", *ARRAYS}

BROKEN = (ValueError, TypeError, KeyError, IndexError, EOFError, NotImplementedError, zipfile.BadZipFile, zlib.error)
"""Errors of reading a file that is no archive of arrays, or of which a part is missing or changed."""


def read_moments(file: PathOrFile) -> dict[str, Any]:
    """All fields of the moments in a file (a name or a binary file).

    Raises
    ------
    ValueError
        If the file holds something else, is damaged, or was written by a later version; the message names it.
    OSError
        If it cannot be read.
    """
    if isinstance(file, str | os.PathLike):
        with open(file, "rb") as opened:
            return _read(opened, repr(os.fspath(file)))
    return _read(file if file.seekable() else io.BytesIO(file.read()), "the file")


def _read(file: BinaryIO, name: str) -> dict[str, Any]:
    start = file.tell()
    opening = file.read(2)
    file.seek(start)
    if opening != b"PK":
        what = "it is empty" if not opening else "it is no .npz file"
        raise ValueError(f"{name} does not hold moments: {what}")
    try:
        with np.load(file, allow_pickle=False) as stored:
            absent = sorted(FIELDS - set(stored.files))
            if not absent:
                content = {key: stored[key] for key in FIELDS}
    except BROKEN as error:
        raise ValueError(f"{name} is damaged ({type(error).__name__}): copy or save it again") from error
    if absent:
        raise ValueError(f"{name} does not hold moments: {listed(absent)} are not in it")
    form = content["format"]
    if form.dtype.kind == "i" and form.size == 1 and int(form) > FORMAT:
        raise ValueError(f"{name} has format {int(form)}, this version reads up to {FORMAT}: upgrade pybayesridge")
    try:
        n, n_dropped = (int(value) for value in content["counts"])
        weight_sum, log_weight_sum = (float(value) for value in content["weights"])
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} is damaged: its counts are not numbers; copy or save it again") from error
    return {
        "n": n,
        "n_dropped": n_dropped,
        "weight_sum": weight_sum,
        "log_weight_sum": log_weight_sum,
        "columns": tuple(str(column) for column in content["columns"]),
        "targets": tuple(str(target) for target in content["targets"]),
        **{key: content[key] for key in ARRAYS},
    }


def write_moments(moments: Moments, file: PathOrFile) -> None:
    """Write moments to a file, whole or not at all."""
    with written_whole(file) as opened:
        np.savez(
            opened,
            format=np.array(FORMAT),
            counts=np.array([moments.n, moments.n_dropped], dtype=np.int64),
            weights=np.array([moments.weight_sum, moments.log_weight_sum]),
            columns=np.array(moments.columns, dtype=np.str_),
            targets=np.array(moments.targets, dtype=np.str_),
            **{name: getattr(moments, name) for name in ARRAYS},
        )
