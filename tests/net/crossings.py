"""The same data in another form have the same answers: every kind of fit crossed with every form.

``python -m tests.net cross [--only WORDS]``. The rows in another order, levels under other names, numbers of other
types, other frames, rows with gaps that are dropped, fits through files: features that are tested alone meet here.
A form says which answers it leaves as they are; answers that are drawn or sampled are left out.
"""

from __future__ import annotations

import io
import pickle
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from pybayesridge import BayesRidge, SpikeSlab, load
from tests.net.ask import answers
from tests.net.kinds import Kind

ROWS = 60

SAME = 2e-4
"""Relative to the largest number of an answer: expectation propagation stops within a tenth of it."""

PRINTED = 1.1e-3
"""Likewise of a line of text, in which numbers have four digits: the last may be rounded up or down."""


def table(seed: int = 3) -> pd.DataFrame:
    """Numbers, factors, weights and responses of every family."""
    rng = np.random.default_rng(seed)
    out = pd.DataFrame(rng.normal(size=(ROWS, 3)), columns=["a", "b", "c"])
    out["b"] += 0.6 * out["a"]
    out["g"] = rng.choice(["u", "v", "w"], ROWS)
    out["h"] = rng.permutation(np.resize([f"s{i}" for i in range(8)], ROWS))
    out["w"] = rng.uniform(0.5, 2.0, ROWS)
    out["t"] = rng.uniform(0.5, 3.0, ROWS)
    group = dict(zip([f"s{i}" for i in range(8)], 0.7 * rng.normal(size=8), strict=True))
    eta = 0.8 * out["a"] - 0.5 * out["b"] + out["h"].map(group) + 0.4 * (out["g"] == "v")
    out["y"] = eta + 0.7 * rng.normal(size=ROWS)
    out["z"] = out["c"] - eta + rng.normal(size=ROWS)
    out["event"] = (eta + rng.logistic(size=ROWS) > 0).astype(int)
    out["m"] = 4 + rng.integers(5, size=ROWS)
    out["k"] = rng.binomial(out["m"], 1 / (1 + np.exp(-eta)))
    out["count"] = rng.poisson(out["t"] * np.exp(0.5 * eta))
    out["grade"] = np.digitize(eta + rng.logistic(size=ROWS), [-1.0, 1.0])
    return out


Fit = Callable[[Any], Any]


def fits() -> dict[str, Fit]:
    """Fits to a table by name."""

    def ridge(formula: str, method: str = "exact", fit: dict[str, Any] | None = None, **options: Any) -> Fit:
        return lambda data: BayesRidge.from_formula(formula, data, **options).fit(method, **(fit or {}))

    def chosen(formula: str, method: str, **options: Any) -> Fit:
        return lambda data: SpikeSlab.from_formula(formula, data, **options).fit(method)

    yes_no: dict[str, Any] = {"family": "binomial"}
    trials = yes_no | {"trials": "m"}
    counts = {"family": "poisson", "exposure": "t"}
    return {
        "ridge": ridge("y ~ a + b + C(g)", weights="w"),
        "ridge em": ridge("y ~ a * g + bs(b, df=4)", "em"),
        "ridge loocv": ridge("y ~ a + b + c", "loocv"),
        "ridge targets": ridge("y + z ~ a + b + g"),
        "groups": ridge("y ~ a + b + (1 | h)", weights="w"),
        "groups reml": ridge("y ~ a + b + (1 | h) + (1 | g)", "reml"),
        "groups targets": ridge("y + z ~ a + (1 | h)"),
        "slopes": ridge("y ~ a + (a | h)"),
        "curve": ridge("y ~ a + s(c, k=6) + (1 | h)"),
        "band": ridge("y ~ g + band(a, b, name='ab')"),
        "yes-no": ridge("event ~ a + b + C(g)", "ep", **yes_no),
        "yes-no laplace": ridge("event ~ a + b", "laplace", **yes_no),
        "yes-no probit": ridge("event ~ a + b", "fixed", {"lam": 1.0}, link="probit", **yes_no),
        "trials": ridge("k ~ a + b + g", "ep", **trials),
        "trials groups": ridge("k ~ a + (1 | h)", "laplace", **trials),
        "yes-no groups": ridge("event ~ a + (1 | h)", "ep", **yes_no),
        "counts": ridge("count ~ a + b + g", "ep", **counts),
        "counts laplace": ridge("count ~ a + b", "laplace", **counts),
        "counts groups": ridge("count ~ a + (1 | h)", "laplace", **counts),
        "overdispersed": ridge("count ~ a + b", "laplace", **(counts | {"family": "negative-binomial"})),
        "outliers": ridge("y ~ a + C(g)", "laplace", family="student-t", df=4.0),
        "ordered": ridge("grade ~ a + g", "ep", family="ordinal"),
        "ordered groups": ridge("grade ~ a + (1 | h)", "ep", family="ordinal"),
        "selection": chosen("y ~ a + b + c + C(g)", "exact", weights="w"),
        "selection groups": chosen("y ~ a + b + c + C(g)", "exact", group="term"),
        "selection ep": chosen("y ~ a + b + c + C(g)", "ep"),
        "yes-no selection": chosen("event ~ a + b + c", "ep", **yes_no),
        "trials selection": chosen("k ~ a + b + c", "ep", **trials),
        "counts selection": chosen("count ~ a + b + c", "ep", **counts),
        "overdispersed selection": chosen("count ~ a + b + c", "ep", **(counts | {"family": "negative-binomial"})),
    }


@dataclass(frozen=True)
class Form:
    """Another form of the same data or of the same fit.

    Attributes
    ----------
    data : callable
        Makes the table of the other fit of that of the first.
    fit : callable
        Makes the fit that is asked of the one that was made.
    new : callable
        Makes the rows to predict of those that the first is asked to predict.
    frames : bool
        Whether the table is another kind of frame, which has no row labels, and whose users get tables of that kind.
    differs : tuple of str
        Answers that are about other things: those whose names begin with one of these.
    only : tuple of str
        If any, the answers that are compared.
    """

    data: Callable[[pd.DataFrame], Any] = lambda data: data
    fit: Callable[[Any], Any] = lambda res: res
    new: Callable[[pd.DataFrame], Any] = lambda new: new
    frames: bool = False
    differs: tuple[str, ...] = ()
    only: tuple[str, ...] = ()


BY_ROW = ("fittedvalues", "resid", "loo.", "loo_", "pit")
"""Answers with an entry for each row of the fit."""

OF_COEFFICIENTS = (
    "params", "bse", "conf_int", "inclusion_prob", "hyperparameters", "variance_components", "explained_variance",
    "predict", "prediction", "effects", "tau2", "sigma2", "lambda_", "log_marginal", "log_evidence", "df_model",
)  # fmt: skip

WITHOUT_UNITS = (
    "predict", "log_marginal", "log_evidence", "loo.", "loo_", "df_model", "inclusion_prob", "rsquared",
    "group_inclusion_prob", "fittedvalues", "expected_size",
)  # fmt: skip
"""Answers in which the units of a column do not occur."""

NOT_ASKED = (
    "sample", "explained_variance", "joint_contrast", "ppc", "plot_", "report", "summary html", "summary latex",
    "write_coefficients", "prior_sensitivity", "n_iter", "solver", "energy_trace", "residual", "diagnostics",
    "condition_number", "findings",
)  # fmt: skip
"""What is drawn with a seed, tells how numbers were found, or shows numbers that are asked for anyway."""


ITERATIONS = re.compile(r"Iterations: +[\d,]+ *")
NUMBERS = re.compile(r"-?\d[\d,]*\.?\d*(?:e[-+]\d+)?")


def _saved(res: Any, **options: bool) -> Any:
    with io.BytesIO() as file:
        res.save(file, **options)
        file.seek(0)
        return load(file)


def _with_gaps(data: pd.DataFrame) -> pd.DataFrame:
    """Rows more, each with a gap in a column."""
    more = data.iloc[[1, 4, 9, 16]].copy()
    for i, name in enumerate(["a", "y", "count", "event"]):
        more[name] = more[name].astype(float)
        more.iloc[i, more.columns.get_loc(name)] = np.nan
    more.loc[:, "a"] = np.nan
    return pd.concat([data.iloc[:20], more, data.iloc[20:]], ignore_index=True)


def _renamed(data: pd.DataFrame) -> pd.DataFrame:
    """Levels under other names, in the same order."""
    levels = {"u": "10", "v": "a b", "w": "é|x:y"}
    return data.assign(g=data["g"].map(levels), h=[f"k {name}:1" for name in data["h"]])


def _other_units(data: pd.DataFrame) -> pd.DataFrame:
    """A column in thousandths, and one from another zero."""
    return data.assign(a=1000 * data["a"], b=data["b"] - 3)


def _polars(data: pd.DataFrame) -> Any:
    import polars

    return polars.from_pandas(data)


def _arrow(data: pd.DataFrame) -> Any:
    import pyarrow

    return pyarrow.Table.from_pandas(data, preserve_index=False)


def _types(data: pd.DataFrame) -> pd.DataFrame:
    """Whole numbers in small types, factors as categories."""
    out = data.assign(
        **{name: data[name].astype("int8") for name in ("event", "m", "k")},
        count=data["count"].astype("uint16"),
        **{name: data[name].astype("Float64") for name in ("a", "y", "t")},
    )
    for name in ("g", "h"):
        out[name] = pd.Categorical(data[name], sorted(data[name].unique()))
    return out


FORMS = {
    "rows in another order": Form(lambda d: d.sample(frac=1.0, random_state=1), differs=BY_ROW),
    "another index": Form(lambda d: d.set_axis([f"r{i}" for i in range(len(d))]), differs=BY_ROW),
    "rows with gaps": Form(_with_gaps, differs=(*BY_ROW, "summary", "notes")),
    "levels under other names": Form(_renamed, new=_renamed, only=OF_COEFFICIENTS),
    "other types": Form(_types),
    "polars": Form(_polars, new=_polars, frames=True, differs=("tidy",)),
    "arrow": Form(_arrow, new=_arrow, frames=True, differs=("tidy",)),
    "other units": Form(_other_units, new=_other_units, only=WITHOUT_UNITS),
    "a file": Form(fit=_saved),
    "a file without rows": Form(
        fit=lambda res: _saved(res, remove_data=True),
        differs=("effects", "predictions"),
        only=OF_COEFFICIENTS,
    ),
    "a pickle": Form(fit=lambda res: pickle.loads(pickle.dumps(res))),
}


def answers_of(make: Fit, form: Form) -> dict[str, Any]:
    """Everything that a fit is asked."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        res = form.fit(make(form.data(table())))
        new = form.new(table().iloc[[2, 7, 11]])
        return answers(Kind(lambda: res, new, ("a",)), res, NOT_ASKED)


def differences(before: dict[str, Any], after: dict[str, Any], form: Form) -> list[str]:
    """What differs and should not, a line each."""
    out = []
    for name, old in before.items():
        if name.startswith(form.differs) or (form.only and not name.startswith(form.only)):
            continue
        if form.only and (name.endswith(", labels") or isinstance(old, str)):
            continue
        if form.frames and name.endswith(", labels"):
            continue
        new = after.get(name)
        if name.startswith("summary") and isinstance(new, str):
            old, new = (ITERATIONS.sub("", text) for text in (old, new))
        if isinstance(old, str) or isinstance(new, str) or new is None:
            if not (isinstance(old, str) and isinstance(new, str) and _read_alike(old, new)):
                out.append(f"{name}: {str(old)[:300]!r} -> {str(new)[:300]!r}")
        elif (found := _apart(old, new)) > SAME:
            out.append(f"{name}: {found:.1e}")
    return out


def _read_alike(old: str, new: str) -> bool:
    """Whether words are the same, and numbers as good as the same relative to the largest of their line."""
    words, numbers = (
        [[part(line) for line in text.splitlines()] for text in (old, new)]
        for part in (lambda line: NUMBERS.sub("#", line).split(), _numbers_in)
    )
    return words[0] == words[1] and all(_apart(*pair) <= PRINTED for pair in zip(*numbers, strict=True))


def _numbers_in(line: str) -> np.ndarray:
    return np.array([float(number.replace(",", "")) for number in NUMBERS.findall(line)])


def _apart(old: np.ndarray, new: np.ndarray) -> float:
    if old.shape != new.shape or not np.array_equal(np.isnan(old), np.isnan(new)):
        return np.inf
    known = np.isfinite(old) & np.isfinite(new)
    if not np.array_equal(old[~known], new[~known], equal_nan=True):
        return np.inf
    return float(np.abs(old[known] - new[known]).max(initial=0.0) / (np.abs(old[known]).max(initial=0.0) or 1.0))


def cross(only: str = "") -> int:
    """Compare every fit in every form; how many answers differ."""
    failed = 0
    for name, make in fits().items():
        if only not in name:
            continue
        before = answers_of(make, Form())
        for words, form in FORMS.items():
            try:
                found = differences(before, answers_of(make, form), form)
            except Exception as error:
                found = [f"{type(error).__name__}: {error}"]
            failed += len(found)
            for line in found:
                print(f"{name}, {words}: {line}")
        print(f"{name}: {len(before)} answers", flush=True)
    return failed
