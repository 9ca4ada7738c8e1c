"""Damaged and forged files of fits and of moments: read as they were written, or refused with a ValueError.

A file is *damaged* where bytes were changed or lost, or where its parts were edited and its checksums were not: it
must give the same numbers as the whole one, or be refused. It is *forged* where the checksums were made again:
whatever it says then, reading it may raise a ValueError only. Either way within `MEMORY` and `SECONDS`.
"""

from __future__ import annotations

import copy
import hashlib
import io
import json
import os
import resource
import signal
import sys
import zipfile
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache

import numpy as np

from pybayesridge import Moments, load
from pybayesridge.archives import CHECKSUMS
from tests.fuzz.compare import Verdict
from tests.gallery import make

MEMORY = 512 << 20
"""Bytes of address space that reading a file of some kilobytes may take at most."""

SECONDS = 20
"""Processor time after which reading it counts as endless."""

FITS = ("ridge_em", "ridge_formula", "selection_exact", "binomial_trials_removed", "ridge_targets_removed")
KINDS = (*FITS, "moments", "pickle")

BYTES = ("flip", "flips", "cut", "insert", "delete", "zeros", "swap", "append", "directory", "field")
EDITS = ("json", "header", "member", "rezip")

ODD = (None, True, -1, 0, 1, 2**31, 2**63, 10**30, -(10**18), 1e308, 0.5, "", "a", "nan", [], {}, [[]], {"ref": 0})
ODD_DTYPES = ("<f4", ">f8", "<i8", "|O", "<U1", "|V8", "|b1", "<c16", "|S0", "<U0", [["a", "<f8"]])

SHARE_FORGED = 0.5
"""Of the edits, those after which the checksums are made again."""


@dataclass(frozen=True)
class Damage:
    """A file, and whether the numbers in it may be others."""

    name: str
    kind: str
    how: str
    content: bytes
    forged: bool


@cache
def whole(kind):
    """The bytes of a file that is as it was written."""
    out = io.BytesIO()
    if kind == "moments":
        frame = make.data()
        Moments.from_arrays(frame[["y", "flag"]].astype(float), frame[["a", "b"]]).save(out)
        return out.getvalue()
    if kind == "pickle":
        load(make.FOLDER / "ridge_em.fit").save(out, format="pickle")
        return out.getvalue()
    return (make.FOLDER / f"{kind}.fit").read_bytes()


def numbers(kind, content):
    """What reading a file gives, as one array of numbers."""
    if kind == "moments":
        found = Moments.load(io.BytesIO(content))
        parts = [found.xx, found.xy, found.yy, found.x_origin, found.x_offset, found.y_origin, found.y_offset]
        parts += [[found.n, found.n_dropped, found.weight_sum, found.log_weight_sum]]
        text = " ".join([*found.columns, *found.targets])
        return [np.concatenate([np.ravel(part) for part in parts]), text]
    res = load(io.BytesIO(content), allow_code=kind == "pickle")
    predicted = res.predict(new_rows(kind)) if res.model.formula_spec else res.predict(new_rows(kind).to_numpy())
    parts = [res.params, res.bse, res.conf_int(0.1), predicted]
    return [
        np.concatenate([np.ravel(np.asarray(part, dtype=float)) for part in parts]),
        str(list(res.model.exog_names)),
    ]


@cache
def new_rows(kind):
    """Rows to predict at."""
    frame = make.data().iloc[[1, 5, 8]]
    if kind == "ridge_formula" or kind.startswith("binomial_trials"):
        return frame
    return frame[["a", "b"]] if kind == "ridge_targets_removed" else frame[["a", "b", "c"]]


@cache
def answer(kind):
    """What the whole file gives."""
    return numbers(kind, whole(kind))


def make_damage(seed, number):
    """Problem `number` of the sequence that belongs to `seed`."""
    rng = np.random.default_rng([seed, number, 2])
    kind = KINDS[rng.integers(len(KINDS))]
    content = whole(kind)
    edits = EDITS if kind != "pickle" else ()
    if kind == "moments":
        edits = ("header", "member", "rezip")
    how = str(rng.choice([*(BYTES if kind != "pickle" else BYTES[:8]), *edits * 3]))
    forged = False
    if how in EDITS:
        forged = bool(rng.random() < SHARE_FORGED) and how != "rezip"
        content = rezipped(EDITORS[how](members_of(content), rng), sealed=forged, rng=rng)
    else:
        content = damaged_bytes(content, how, rng)
    name = f"{seed}/{number} {kind} {how}{' forged' if forged else ''}"
    return Damage(name, kind, how, content, forged)


def damaged_bytes(content, how, rng):
    """Bytes that were changed on the way."""
    raw = bytearray(content)
    n = len(raw)
    at, size = int(rng.integers(n)), int(rng.integers(1, 200))
    if how in ("flip", "flips"):
        for _ in range(1 if how == "flip" else int(rng.integers(2, 9))):
            raw[int(rng.integers(n))] ^= 1 << int(rng.integers(8))
    elif how == "cut":
        del raw[at:]
    elif how == "insert":
        raw[at:at] = rng.bytes(size)
    elif how == "delete":
        del raw[at : at + size]
    elif how == "zeros":
        raw[at : at + size] = bytes(len(raw[at : at + size]))
    elif how == "swap":
        to = int(rng.integers(n))
        one, other = raw[at : at + size], raw[to : to + size]
        raw[at : at + len(other)], raw[to : to + len(one)] = other, one
    elif how == "append":
        raw += rng.bytes(size)
    else:
        # Within the directory and the headers of members; a field is two or four bytes at the edges of their range.
        records = places(raw)
        start, length = records[int(rng.integers(len(records)))]
        where = start + int(rng.integers(length))
        if how == "directory":
            raw[where] ^= 1 << int(rng.integers(8))
        else:
            width = int(rng.choice([1, 2, 4, 8]))
            raw[where : where + width] = bytes([int(rng.choice([0, 1, 0x7F, 0x80, 0xFF]))] * width)
            del raw[n:]
    return bytes(raw)


def places(raw):
    """Where the headers of members, the directory and its end are: (start, length)."""
    out = []
    for mark, length in ((b"PK\x03\x04", 30), (b"PK\x01\x02", 46), (b"PK\x05\x06", 22), (b"PK\x06\x06", 56)):
        at = raw.find(mark)
        while at >= 0:
            out.append((at, min(length, len(raw) - at)))
            at = raw.find(mark, at + 1)
    return out


def members_of(content):
    """The parts of an archive, without its checksums."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def rezipped(members, *, sealed, rng=None):
    """An archive of parts, with new checksums if it is `sealed`."""
    if sealed:
        members = {name: part for name, part in members.items() if name != CHECKSUMS}
        lines = [f"{hashlib.sha256(part).hexdigest()}  {name}\n" for name, part in members.items()]
        members[CHECKSUMS] = "".join(lines).encode()
    deflate = rng is not None and rng.random() < 0.5
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED if deflate else zipfile.ZIP_STORED) as archive:
        for name, part in members.items():
            archive.writestr(name, part)
    return out.getvalue()


def changed(content, change, *, sealed=True):
    """A file of a fit whose text was changed by a function, with new checksums if it is `sealed`."""
    members = members_of(content)
    text = json.loads(members["fit.json"])
    change(text)
    return rezipped(members | {"fit.json": json.dumps(text).encode()}, sealed=sealed)


def edit_json(members, rng):
    """Some values of the text are others, or gone."""
    text = json.loads(members["fit.json"])
    for _ in range(int(rng.integers(1, 4))):
        node, key = text, None
        while isinstance(node, dict | list) and len(node) and (key is None or rng.random() < 0.9):
            parent, keys = node, list(node) if isinstance(node, dict) else list(range(len(node)))
            key = keys[int(rng.integers(len(keys)))]
            node = parent[key]
        if key is None or key not in (parent if isinstance(parent, dict) else range(len(parent))):
            continue
        what = rng.random()
        if what < 0.2:
            del parent[key]
        elif what < 0.4 and isinstance(node, int | float) and not isinstance(node, bool):
            parent[key] = node * [-1, 2, 1.0000001, 10**9][int(rng.integers(4))]
        elif what < 0.6 and isinstance(parent, dict):
            parent[str(rng.choice(["ref", "array", "class", "extra", "shape"]))] = parent.pop(key)
        elif what < 0.7:
            known = text.get("entries") or [0]
            parent[key] = copy.deepcopy(known[int(rng.integers(len(known)))])
        else:
            parent[key] = ODD[int(rng.integers(len(ODD)))]
        if not isinstance(text.get("entries", []), list):
            break
    written = json.dumps(text)
    if rng.random() < 0.05:
        written = written.replace("2", "NaN", 1)
    return members | {"fit.json": written.encode()}


def edit_header(members, rng):
    """An array says that it has another shape, type or order than it has."""
    name = _an_array(members, rng)
    part = members[name]
    size = int.from_bytes(part[8:10], "little")
    header, values = eval(part[10 : 10 + size].decode(), {"__builtins__": {}}), part[10 + size :]  # written by NumPy
    what = rng.integers(4)
    if what == 0:
        n = [10**12, 10**18, 0, -1, 1, 2**40][int(rng.integers(6))]
        header["shape"] = ((n,), (n, 2), (2, n), ())[int(rng.integers(4))]
    elif what == 1:
        header["descr"] = ODD_DTYPES[int(rng.integers(len(ODD_DTYPES)))]
    elif what == 2:
        header["fortran_order"] = True
        header["shape"] = tuple(header["shape"])[::-1] or (1, 1)
    else:
        header[str(rng.choice(["shape", "descr", "fortran_order", "other"]))] = ODD[int(rng.integers(len(ODD)))]
    written = (repr(header) + "\n").encode()
    if rng.random() < 0.1:
        written = rng.bytes(len(written))
    length = (int(rng.integers(2**16)) if rng.random() < 0.1 else len(written)).to_bytes(2, "little")
    return members | {name: part[:8] + length + written + values}


def edit_member(members, rng):
    """A part is gone, has another name, or the bytes of another."""
    names = list(members)
    one, other = (names[int(i)] for i in rng.integers(len(names), size=2))
    what = rng.integers(4)
    if what == 0:
        return {name: part for name, part in members.items() if name != one}
    if what == 1:
        return {(f"{name}x" if name == one else name): part for name, part in members.items()}
    if what == 2:
        return members | {one: members[other]}
    part = bytearray(members[one])
    at = int(rng.integers(len(part)))
    part[at] ^= 1 << int(rng.integers(8))
    return members | {one: bytes(part)}


def _an_array(members, rng):
    names = [name for name in members if name.endswith(".npy")]
    return names[int(rng.integers(len(names)))]


EDITORS = {
    "json": edit_json,
    "header": edit_header,
    "member": edit_member,
    "rezip": lambda members, rng: members,
}


@contextmanager
def bounded():
    """Let the process take at most so much more address space and processor time."""
    if not sys.platform.startswith("linux"):
        yield
        return
    with open("/proc/self/statm", encoding="ascii") as file:
        taken = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    old = resource.getrlimit(resource.RLIMIT_AS)

    def stop(*_):
        raise TimeoutError(f"more than {SECONDS} seconds of processor time")

    handler = signal.signal(signal.SIGVTALRM, stop)
    resource.setrlimit(resource.RLIMIT_AS, (taken + MEMORY, old[1]))
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        resource.setrlimit(resource.RLIMIT_AS, old)
        signal.signal(signal.SIGVTALRM, handler)


def judge(damage):
    """Read the file, and compare what it gives with what the whole one gives."""
    wanted = answer(damage.kind)
    try:
        with bounded():
            if damage.forged:
                reader = Moments.load if damage.kind == "moments" else load
                reader(io.BytesIO(damage.content))
                return Verdict(damage.name, "forged, read", (), ())
            found = numbers(damage.kind, damage.content)
    except ValueError as error:
        said = str(error)
        failure = None if said.startswith("the file") else f"the message does not name the file: {said}"
        return Verdict(damage.name, "refused", (), (said,), failure)
    same = np.array_equal(found[0], wanted[0], equal_nan=True) and found[1] == wanted[1]
    return Verdict(damage.name, "the same", (), (), None if same else "other numbers without a word")
