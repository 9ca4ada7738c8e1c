"""Small made-up files in the layouts of the data sets of the ridge paper."""

import io
import zipfile

import numpy as np
import pandas as pd

AUTOMOBILE_TEXT = ["make", "fuel-type", "aspiration", "num-of-doors", "body-style", "drive-wheels", "engine-location"]
AUTOMOBILE_TEXT += ["engine-type", "num-of-cylinders", "fuel-system"]


def write(directory, folder, name, text):
    (directory / folder).mkdir(parents=True, exist_ok=True)
    (directory / folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())


def numbers(n, p, seed=0):
    return np.random.default_rng(seed).uniform(1, 2, (n, p)).round(6)


def lines(table, sep=",", head=None):
    rows = [sep.join(str(v) for v in row) for row in table]
    return "\n".join(([sep.join(head)] if head else []) + rows) + "\n"


def abalone(n=12, head=True):
    rows = [[sex, *map(float, row)] for sex, row in zip("MFI" * n, numbers(n, 8), strict=False)]
    return lines(rows, head=["Sex", *"abcdefg", "Rings"] if head else None)


def yacht(n=12, sep=",", head=True):
    return lines(numbers(n, 7), sep, ["Longitudinal", "Prismatic", *"abcd", "Resistance"] if head else None)


def archive(**files):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as packed:
        for name, content in files.items():
            packed.writestr(name.replace("__", "."), content)
    return out.getvalue()


def frame(n, numeric, text=0, seed=0):
    """Numeric columns and text columns of three levels."""
    rng = np.random.default_rng(seed)
    out = pd.DataFrame(rng.uniform(1, 2, (n, numeric)), columns=[f"x{i}" for i in range(numeric)])
    for i in range(text):
        out[f"t{i}"] = np.array(["a", "b", "c"])[np.arange(n) % 3]
    return out
