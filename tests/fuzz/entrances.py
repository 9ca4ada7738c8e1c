"""One table through every entrance: the same levels, in the same order, and the same numbers.

The first entrance is a frame of pandas; its matrix is compared with formulaic's. The others are tables of pyarrow
(whole and in chunks), polars, pandas with Arrow's types, dicts of columns, Arrow streams in batches of any size,
Parquet files (one and several, row groups of any size, written by pandas, pyarrow and polars) and blocks of columns.
"""

from __future__ import annotations

import re
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from formulaic import Formula

from pybayesridge import BayesRidge
from pybayesridge.exceptions import PrecisionWarning, PybayesridgeWarning
from tests.fuzz.compare import LIMIT, Difference, Verdict

MOMENTS = 1e-5
"""Largest difference of coefficients of a fit from moments, where it does not say that digits are lost."""

LEVELS = ("low", "mid", "high", "é", "10", "9", "B", "a", "", "nan", "True", "x y")

TERMS = (
    "a", "b", "k", "flag", "text", "cat", "order", "whole", "a:cat", "k:text", "order:b", "C(k)", "scale(a)",
    "I(a * k)",
)  # fmt: skip


@dataclass(frozen=True)
class Table:
    """A table as pandas has it, and a formula."""

    name: str
    formula: str
    frame: pd.DataFrame
    seed: tuple[int, int]


def make_table(seed, number):
    """Problem `number` of the sequence that belongs to `seed`."""
    rng = np.random.default_rng([seed, number, 4])
    n = int(rng.integers(30, 80))
    frame = pd.DataFrame(
        {"y": rng.normal(size=n), "a": rng.normal(size=n), "b": rng.normal(size=n).astype(np.float32)}
    )
    frame["k"] = rng.integers(0, 4, n).astype(rng.choice(["int64", "int8", "uint16", "float64"]))
    frame["flag"] = rng.random(n) < 0.5
    for name, kind in (("text", None), ("cat", False), ("order", True)):
        levels = rng.permutation(LEVELS)[: rng.integers(2, 5)]
        values = levels[np.concatenate([np.arange(len(levels)), rng.integers(len(levels), size=n - len(levels))])]
        values = rng.permutation(values)
        unused = [*levels, "unused"] if rng.random() < 0.2 else levels
        frame[name] = values.astype(object) if kind is None else pd.Categorical(values, unused, ordered=kind)
    whole = rng.permutation([30, 2, 1, -4])
    frame["whole"] = pd.Categorical(whole[np.concatenate([np.arange(4), rng.integers(4, size=n - 4)])], whole)
    for name in ("y", "a", "text", "cat", "order"):
        if rng.random() < 0.25:
            frame.loc[rng.choice(n, 3, replace=False), name] = None
    terms = rng.choice(TERMS, rng.integers(1, 5), replace=False)
    return Table(
        f"{seed}/{number}", f"y ~ {' + '.join(terms)}", frame[rng.permutation(frame.columns)], (seed, number)
    )


def compare_table(problem):
    """What each entrance says, beside the frame of pandas."""
    rng = np.random.default_rng([*problem.seed, 5])
    found, says = [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PybayesridgeWarning)
        first = BayesRidge.from_formula(problem.formula, problem.frame)
        _put(found, "design", first.exog[:, 1:], _oracle(problem), LIMIT)
        expected = first.fit("fixed", lam=1.0)
    with tempfile.TemporaryDirectory() as folder:
        for name, model, allowed in _entrances(problem, first, Path(folder), rng):
            failure = _compare(name, model, allowed, expected, found, says)
            if failure:
                told = f"{failure}\n    {problem.formula}"
                return Verdict(f"table {problem.name}", "table", tuple(found), tuple(says), told)
    return Verdict(f"table {problem.name}", "table", tuple(found), tuple(says))


def _compare(name, make, allowed, expected, found, says):
    """Compare one entrance; what is wrong with it, if anything can be said at once."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        res = make().fit("fixed", lam=1.0)
    lost = [str(one.message) for one in caught if issubclass(one.category, PrecisionWarning)]
    says += lost
    if name != "columns" and list(res.model.exog_names) != list(expected.model.exog_names):
        return f"{name}: {list(res.model.exog_names)}, and pandas has {list(expected.model.exog_names)}"
    if res.nobs != expected.nobs:
        return f"{name}: {res.nobs} rows, and pandas has {expected.nobs}"
    yardstick = np.maximum(np.abs(expected.params.to_numpy()), expected.bse.to_numpy())
    yardstick = np.where(yardstick > 0, yardstick, 1.0)
    params, others = (one.params.to_numpy() / yardstick for one in (res, expected))
    _put(found, name, params, others, allowed, announced=bool(lost))
    return None


def _entrances(problem, first, folder, rng):
    """Every entrance: its name, a function that makes the model, and how far coefficients may be off."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    formula, frame = problem.formula, problem.frame
    arrow = pa.Table.from_pandas(frame, preserve_index=False)
    cut = int(rng.integers(1, len(frame)))
    chunks = pa.concat_tables([arrow.slice(0, cut), arrow.slice(cut)])
    polars, with_enum = polars_of(frame), polars_of(frame)
    in_memory = {
        "pyarrow": arrow,
        "chunks": chunks,
        "polars": polars,
        "polars as pyarrow": with_enum.to_arrow(),
        "Arrow in pandas": arrow.to_pandas(types_mapper=pd.ArrowDtype),
        "dict of pandas": {name: frame[name] for name in frame},
        "dict of pyarrow": {name: chunks[name] for name in frame},
        "dict of polars": {name: polars[name] for name in frame},
        "shuffled columns": frame[rng.permutation(frame.columns)],
        "labelled rows": frame.set_axis(rng.integers(0, 5, len(frame)), axis=0),
    }
    for name, data in in_memory.items():
        yield name, (lambda data=data: BayesRidge.from_formula(formula, data)), LIMIT
    size = int(rng.integers(1, 40))
    for name, data in {"stream of pyarrow": chunks, "stream of polars": polars}.items():
        yield name, (lambda data=data: BayesRidge.from_arrow(data, formula, batch_size=size)), MOMENTS
    frame.to_parquet(folder / "pandas.parquet", index=False)
    pq.write_table(chunks, folder / "pyarrow.parquet", row_group_size=size)
    polars.write_parquet(folder / "polars.parquet")
    pq.write_table(arrow.slice(0, cut), folder / "one.parquet")
    pq.write_table(arrow.slice(cut), folder / "two.parquet")
    several = [folder / "one.parquet", folder / "two.parquet"]
    files = {name: folder / f"{name}.parquet" for name in ("pandas", "pyarrow", "polars")} | {"several": several}
    y, x = first.endog, np.asarray(first.exog)[:, 1:]
    yield "columns", (lambda: BayesRidge.from_columns(y, np.ascontiguousarray(x))), MOMENTS
    for name, path in ({} if "whole" in formula else files).items():  # Parquet has no dictionaries of numbers
        yield f"Parquet, {name}", (lambda path=path: BayesRidge.from_parquet(path, formula)), MOMENTS


def polars_of(frame):
    """As polars has it: a declared order of text is that of an Enum."""
    import polars as pl

    out = {}
    for name in frame:
        column = frame[name]
        if not isinstance(column.dtype, pd.CategoricalDtype) and getattr(column.dtype, "kind", "O") in "iufb":
            out[name] = pl.Series(column.to_numpy())
            continue
        values = [None if pd.isna(one) else str(one) for one in column]
        declared = [str(one) for one in column.cat.categories] if hasattr(column, "cat") else None
        out[name] = pl.Series(values, dtype=pl.String if declared is None else pl.Enum(declared))
    return pl.DataFrame(out)


def _oracle(problem):
    """formulaic's matrix of the complete rows."""
    read = ["y", *re.findall(r"\w+", problem.formula.partition("~")[2])]
    read = [name for name in problem.frame.columns if name in read]
    frame = problem.frame.dropna(subset=read).reset_index(drop=True)
    frame = frame.astype({name: float for name in ("k",) if "C(k)" not in problem.formula})
    made = Formula(problem.formula).get_model_matrix(frame, na_action="raise", context={}).rhs
    return made[[name for name in made.columns if name != "Intercept"]].to_numpy(dtype=float)


def _put(found, what, value, expected, allowed, *, announced=False):
    value, expected = np.asarray(value, dtype=float), np.asarray(expected, dtype=float)
    if value.shape != expected.shape:
        raise AssertionError(f"{what} has the shape {value.shape}, not {expected.shape}")
    error = float(np.abs(value - expected).max(initial=0.0))
    error = np.inf if np.isnan(error) else error
    found.append(Difference(what, 0, error, allowed, announced=announced))
