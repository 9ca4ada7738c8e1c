"""Fetch the data sets that the UCI repository has, into one folder each.

What arrives is checked by the loaders, which know how many rows and columns each file must have: an archive that has
changed is refused, not used. Boston, diabetes, eye and riboflavin are not UCI's: R's packages MASS, lars, flare and
hdi have them.
"""

from __future__ import annotations

import io
import sys
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.paper_ridge.datasets import LOADERS
from benchmarks.paper_ridge.paper import training_rows

BASE_URL = "https://archive.ics.uci.edu/static/public"
TIMEOUT = 60


@dataclass(frozen=True, slots=True)
class Source:
    """Where a folder's files come from.

    Attributes
    ----------
    path : str
        Below the base URL.
    members : dict
        Names of files in the archive (or in an archive in it), and what to call them; for a plain file one entry.
    rows : dict
        Rows of each data set read from the folder, after cleaning.
    """

    path: str
    members: dict[str, str]
    rows: dict[str, int]


SOURCES: dict[str, Source] = {
    "abalone": Source("1/abalone.zip", {"abalone.data": "abalone.data"}, {"abalone": 4177}),
    "airfoil": Source(
        "291/airfoil+self+noise.zip", {"airfoil_self_noise.dat": "airfoil_self_noise.dat"}, {"airfoil": 1503}
    ),
    "automobile": Source("10/automobile.zip", {"imports-85.data": "imports-85.data"}, {"automobile": 159}),
    "autompg": Source("9/auto+mpg.zip", {"auto-mpg.data": "auto-mpg.data"}, {"autompg": 392}),
    "blog": Source("304/blogfeedback.zip", {"*": "BlogFeedback.zip"}, {"blog": 56222}),
    "concrete": Source("165/data.csv", {"data.csv": "concrete.csv"}, {"concrete": 1030}),
    "crime": Source("183/communities+and+crime.zip", {"communities.data": "communities.data"}, {"crime": 1994}),
    "facebook": Source(
        "368/facebook+metrics.zip", {"dataset_Facebook.csv": "dataset_Facebook.csv"}, {"facebook": 495}
    ),
    "forest": Source("162/forest+fires.zip", {"forestfires.csv": "forestfires.csv"}, {"forest": 517}),
    "naval": Source(
        "316/condition+based+maintenance+of+naval+propulsion+plants.zip",
        {"data.txt": "data.txt"},
        {"naval_compressor": 11934, "naval_turbine": 11934},
    ),
    "parkinsons": Source(
        "189/parkinsons+telemonitoring.zip",
        {"parkinsons_updrs.data": "parkinsons_updrs.data"},
        {"parkinsons_motor": 5875, "parkinsons_total": 5875},
    ),
    "real_estate": Source("477/data.csv", {"data.csv": "real_estate.csv"}, {"real_estate": 414}),
    "student": Source(
        "320/student+performance.zip",
        {"student-mat.csv": "student-mat.csv", "student-por.csv": "student-por.csv"},
        {"student": 1044},
    ),
    "yacht": Source(
        "243/yacht+hydrodynamics.zip", {"yacht_hydrodynamics.data": "yacht_hydrodynamics.data"}, {"yacht": 308}
    ),
}
"""By folder of the data directory."""


def fetch(url: str) -> bytes:
    """The content of an address."""
    with urllib.request.urlopen(url, timeout=TIMEOUT) as answer:
        content: bytes = answer.read()
    return content


def files(content: bytes, name: str) -> Iterator[tuple[str, bytes]]:
    """The files of an archive and of archives in it, by their last name; or the content itself."""
    if not zipfile.is_zipfile(io.BytesIO(content)):
        yield name, content
        return
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for member in archive.namelist():
            last = member.rsplit("/", 1)[-1]
            if last:
                yield from files(archive.read(member), last)


def chosen(source: Source, content: bytes) -> dict[str, bytes]:
    """The files of a source by the names they are to have.

    Raises
    ------
    ValueError
        If one is not in the archive.
    """
    found = dict(files(content, source.path.rsplit("/", 1)[-1]))
    if "*" in source.members:
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for name in sorted(found):
                archive.writestr(name, found[name])
        return {source.members["*"]: packed.getvalue()}
    missing = sorted(set(source.members) - set(found))
    if missing:
        raise ValueError(f"{source.path} has no {', '.join(missing)}, only {', '.join(sorted(found))}")
    return {new: found[old] for old, new in source.members.items()}


def check(directory: Path, source: Source) -> None:
    """Load what was written, and compare its counts.

    Raises
    ------
    ValueError
        If the loader refuses a file or it has another number of rows.
    """
    for name, rows in source.rows.items():
        got = len(LOADERS[name](directory).x)
        if got != rows:
            raise ValueError(
                f"{name} has {got} rows after cleaning ({training_rows(got)} to train on), not {rows}: "
                f"{source.path} has changed"
            )


def download(
    directory: Path, names: Iterable[str], base_url: str = BASE_URL, sources: dict[str, Source] | None = None
) -> int:
    """Fetch the folders of these data sets; 1 if one failed, and that one is left out."""
    sources = SOURCES if sources is None else sources
    wanted = set(names)
    status = 0
    for folder, source in sources.items():
        if wanted.isdisjoint(source.rows):
            continue
        target = directory / folder
        before = set(target.iterdir()) if target.is_dir() else set()
        written: list[Path] = []
        try:
            content = chosen(source, fetch(f"{base_url.rstrip('/')}/{source.path}"))
            target.mkdir(parents=True, exist_ok=True)
            for name, value in content.items():
                if target / name not in before:
                    (target / name).write_bytes(value)
                    written.append(target / name)
            check(directory, source)
        except (urllib.error.URLError, OSError, ValueError, zipfile.BadZipFile) as error:
            for path in written:
                path.unlink()
            print(f"{folder}: {error}", file=sys.stderr)
            status = 1
        else:
            print(f"{folder}: {', '.join(source.rows)}")
    status |= _elsewhere(wanted - {name for source in sources.values() for name in source.rows})
    return status


def _elsewhere(names: Sequence[str] | set[str]) -> int:
    if names:
        print(f"not UCI's: {', '.join(sorted(names))} (R packages MASS, lars, flare and hdi)")
    return 0
