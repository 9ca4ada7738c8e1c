"""Real and simulated genotypes, with blocks of correlated columns, and responses with few true columns."""

from __future__ import annotations

import functools
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.special import ndtri

from benchmarks import peers_r

FILE = "N3finemapping.RData"
TRUE = (402, 652, 772)
"""Columns (from 0) of N3finemapping that its response was made of."""
BLOCK, RHO = 50, 0.95
"""Columns of a block of linkage, and the correlation of neighbours before they are cut into alleles."""
CORRELATED = 0.5
"""Columns of the block of a true one are at least so correlated with it."""

READ = """
arguments <- commandArgs(TRUE)
load(arguments[1])
writeBin(as.double(N3finemapping$X), file.path(arguments[2], "x"))
writeBin(as.double(N3finemapping$Y[, 1]), file.path(arguments[2], "y"))
"""


@dataclass(frozen=True, eq=False)
class Data:
    """Genotypes x (n, d), a response y (n,), and its true columns."""

    x: np.ndarray
    y: np.ndarray
    true: tuple[int, ...]

    @functools.cached_property
    def blocks(self) -> list[np.ndarray]:
        """For each true column those that are correlated with it, itself among them."""
        z = (self.x - self.x.mean(axis=0)) / self.x.std(axis=0)
        return [np.flatnonzero(np.abs(z[:, j] @ z) / len(z) > CORRELATED) for j in self.true]


def read_genotypes(folder: Path | None) -> Data | None:
    """N3finemapping, read by R; None where it or R is not there."""
    path = None if folder is None else folder / FILE
    if path is None or not path.is_file() or not peers_r.has("base"):
        return None
    with tempfile.TemporaryDirectory() as name:
        script = Path(name) / "read.R"
        script.write_text(READ, encoding="utf-8")
        subprocess.run(["Rscript", "--vanilla", str(script), str(path), name], check=True, capture_output=True)
        y = np.fromfile(Path(name) / "y")
        x = np.fromfile(Path(name) / "x").reshape(-1, y.size).T
    return Data(np.ascontiguousarray(x), y, TRUE)


def linkage(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Counts 0, 1, 2 of alleles on two chromosomes, each a latent autoregression in blocks that is cut; (n, d)."""
    threshold = ndtri(rng.uniform(0.05, 0.5, d))
    counts = np.zeros((n, d))
    for _ in range(2):
        latent = rng.standard_normal((n, d))
        for j in range(1, d):
            if j % BLOCK:
                latent[:, j] = RHO * latent[:, j - 1] + np.sqrt(1 - RHO**2) * latent[:, j]
        counts += latent < threshold
    flat = np.ptp(counts, axis=0) == 0
    counts[0, flat] += 1.0
    return counts


def simulated(n: int, d: int, active: int, share: float, seed: int) -> Data:
    """Genotypes and a response with `active` true columns of different blocks, which explain a share of variance."""
    rng = np.random.default_rng([seed, n, d, active])
    x = linkage(n, d, rng)
    blocks = rng.choice(d // BLOCK, active, replace=False)
    true = blocks * BLOCK + rng.integers(0, BLOCK, active)
    effects = rng.choice([-1.0, 1.0], active) * rng.uniform(0.7, 1.3, active) / x[:, true].std(axis=0)
    signal = x[:, true] @ effects
    y = signal + signal.std() * np.sqrt(1 / share - 1) * rng.standard_normal(n)
    return Data(x, y, tuple(int(j) for j in np.sort(true)))
