"""Files of moments → the fields of :class:`pybayesridge.Moments`, or a sentence about the file."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from typing import Any, BinaryIO

import numpy as np

from pybayesridge._types import PathOrFile
from pybayesridge.archives import Archive, ArchiveWriter, DamagedError
from pybayesridge.files import written_whole
from pybayesridge.text import listed

FORMAT = 2
"""Version of the files that ``Moments.save`` writes; those of format 1 have no checksums."""

FIRST_WITH_CHECKSUMS = 2
"""The first format whose files have checksums."""

ARRAYS = ("x_origin", "x_offset", "y_origin", "y_offset", "xx", "xy", "yy")

FIELDS = {"format", "counts", "weights", "columns", "targets", *ARRAYS}


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
            return _read(opened, named(file))
    return _read(file if file.seekable() else io.BytesIO(file.read()), named(file))


def named(file: PathOrFile) -> str:
    """How messages call a file."""
    return repr(os.fspath(file)) if isinstance(file, str | os.PathLike) else "the file"


def _read(file: BinaryIO, name: str) -> dict[str, Any]:
    start = file.tell()
    opening = file.read(2)
    file.seek(start)
    if opening != b"PK":
        what = "it is empty" if not opening else "it is no .npz file"
        raise ValueError(f"{name} does not hold moments: {what}")
    try:
        archive = Archive(file)
        absent = sorted(FIELDS - {member.removesuffix(".npy") for member in archive.names})
        if absent:
            raise ValueError(f"{name} does not hold moments: {listed(absent)} are not in it")
        form = archive.array("format.npy")
        if form.dtype.kind not in "iu" or form.size != 1 or int(form.item()) < 1:
            raise DamagedError("its format is not a number")
        if int(form.item()) > FORMAT:
            raise ValueError(
                f"{name} has format {int(form.item())}, this version reads up to {FORMAT}: upgrade pybayesridge"
            )
        content = {member.removesuffix(".npy"): archive.array(member) for member in archive.names}
        archive.verify(required=int(form.item()) >= FIRST_WITH_CHECKSUMS)
    except DamagedError as error:
        raise ValueError(f"{name} is damaged ({error}): copy or save it again") from error
    if any(content[key].dtype.kind not in "biuf" for key in ARRAYS):
        raise ValueError(f"{name} is damaged: its moments are not numbers; copy or save it again")
    try:
        n, n_dropped = (int(value) for value in content["counts"])
        weight_sum, log_weight_sum = (float(value) for value in content["weights"])
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{name} is damaged: its counts are not numbers; copy or save it again") from error
    return {
        "n": n,
        "n_dropped": n_dropped,
        "weight_sum": weight_sum,
        "log_weight_sum": log_weight_sum,
        "columns": tuple(str(column) for column in content["columns"].ravel()),
        "targets": tuple(str(target) for target in content["targets"].ravel()),
        **{key: content[key] for key in ARRAYS},
    }


def write_moments(fields: Mapping[str, Any], file: PathOrFile) -> None:
    """Write the fields of moments to a file, whole or not at all."""
    content = {
        "format": np.array(FORMAT, dtype=np.int64),
        "counts": np.array([fields["n"], fields["n_dropped"]], dtype=np.int64),
        "weights": np.array([fields["weight_sum"], fields["log_weight_sum"]]),
        "columns": np.array(fields["columns"], dtype=np.str_),
        "targets": np.array(fields["targets"], dtype=np.str_),
        **{name: np.asarray(fields[name], dtype=np.float64) for name in ARRAYS},
    }
    with written_whole(file) as opened, ArchiveWriter(opened) as archive:
        for name, values in content.items():
            archive.array(f"{name}.npy", [values], values.dtype.newbyteorder("<").str)
