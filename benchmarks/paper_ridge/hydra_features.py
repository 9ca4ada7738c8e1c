"""HYDRA features of time series (Dempster, Schmidt & Webb, 2023), by aeon's public transform.

    tools/make-venv .venv-hydra aeon torch
    .venv-hydra/bin/python benchmarks/paper_ridge/hydra_features.py --data-dir DIR [--out build/benchmarks/hydra]

aeon needs PyTorch, which is large: so this script runs in an environment of its own and imports nothing else. It
writes features (float32) and labels as .npy files for `hydra.py`.
"""

from __future__ import annotations

import argparse
import json
from importlib import metadata
from pathlib import Path

import numpy as np

PARTS = {
    "crop": ("crop", ["Crop_TEST.npy"]),
    "electric_devices": (
        "electric_devices",
        ["ElectricDevices_TRAIN.npy", "ElectricDevices_VALIDATION.npy", "ElectricDevices_TEST.npy"],
    ),
}
"""Files of a problem, each with the class in the first column. The paper's 11,760 training rows are 0.7 of Crop's
16,800 test series, its 11,645 are 0.7 of all 16,637 of ElectricDevices."""

BATCH = 1000


def series(directory: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Series as the archive has them, (n, 1, length) in float32, and their classes."""
    folder, files = PARTS[name]
    table = np.vstack([np.load(directory / folder / file, allow_pickle=False) for file in files])
    labels = table[:, 0].round().astype(int)
    values = table[:, 1:]
    if not np.isfinite(values).all():
        raise ValueError(f"{name}: a value is not finite")
    return values[:, None, :].astype(np.float32), labels


def features(x: np.ndarray, seed: int) -> np.ndarray:
    """HYDRA with its default 8 kernels in 64 groups, (n, number of features)."""
    import torch
    from aeon.transformations.collection.convolution_based import HydraTransformer

    torch.set_num_threads(1)
    transform = HydraTransformer(random_state=seed, n_jobs=1)
    transform.fit(x[:BATCH])
    parts = [np.asarray(transform.transform(x[i : i + BATCH]), dtype=np.float32) for i in range(0, len(x), BATCH)]
    return np.vstack(parts)


def versions() -> dict[str, str]:
    """Of what makes the features."""
    return {name: metadata.version(name) for name in ("aeon", "torch", "numpy")}


def main() -> None:
    """Write the features of what is there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("build/benchmarks/hydra"))
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "versions.json").write_text(json.dumps(versions()) + "\n", encoding="utf-8")
    for name, (folder, files) in PARTS.items():
        if not all((args.data_dir / folder / file).is_file() for file in files):
            print(f"{name} is not in {args.data_dir}")
            continue
        x, labels = series(args.data_dir, name)
        made = features(x, args.seed)
        np.save(args.out / f"{name}-x.npy", made)
        np.save(args.out / f"{name}-y.npy", labels)
        print(
            f"{name}: {made.shape[0]} series of length {x.shape[2]}, {made.shape[1]} features, "
            f"{np.unique(labels).size} classes"
        )


if __name__ == "__main__":
    main()
