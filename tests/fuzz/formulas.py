"""Formulas with odd names in odd scopes: the same numbers as with plain names in an empty one.

The oracle is formulaic itself, on the same data under plain names, in a scope without any: its matrix of the rows of
the fit and of new rows. The columns then get names that Python, formulas or other columns could take for something
else; columns that nothing names (with missing values, so that reading them shows) and values of the caller's get the
names of functions and of parts of names, others where the model is fitted than where it predicts.
"""

from __future__ import annotations

import io
import pickle
import warnings
from dataclasses import dataclass
from types import FunctionType

import numpy as np
import pandas as pd
from formulaic import Formula
from formulaic.transforms import TRANSFORMS

from pybayesridge import BayesRidge, load
from pybayesridge.data.frames import with_columns
from pybayesridge.exceptions import PrecisionWarning, PybayesridgeWarning
from tests.fuzz.compare import LIMIT, Difference, Verdict

ROWS, NEW = 60, 7

STREAM = 1e-5
"""Largest difference of coefficients of a fit from moments, where it does not say that digits are lost."""

NUMBERS, FACTORS, WHOLE = ("va", "vb", "vc", "vd"), ("fa", "fb"), ("ka",)

TERMS = (
    "{n}", "{n}:{m}", "{f}", "{f}:{n}", "{n}*{f}", "I({n} ** 2 + {m})", "scale({n})", "center({n}):{f}",
    "bs({n}, df=4)", "np.exp({n} / 4)", "poly({n}, 2)", "C({k})", "C({f}, contr.sum)",
    "scale({n}):scale({m})", "log(np.abs({n}) + 1)", "cr({n}, df=4)", "np.where({n} > 0, {m}, {k})",
    "C({k}):{n}", "{k}:{n}", "I({n} * {m} - {k})", "exp(scale({n}) / 3)", "standardize({n})",
    "I({n} > {m})", "C({f}, Treatment('w'))", "np.sin(center({n} + {m}))", "{n}:{m}:{f}",
)  # fmt: skip

NAMES = (
    "lambda", "None", "True", "class", "a b", "a_b", "a.b", "a-b", "a+b", "a:b", "b[0]", "b[1]", "log(a)",
    "np.exp(va)", "scale(va)", "C(fa)", "I(va)", "va", "vb", "fa", "ka", "y", "scale", "C", "I", "np", "bs",
    "log", "Q", "contr", "x1", "~t", "p(1)", "1st", "it's", '"q"', "µ", "μ", "ª", "a", "{a}", "%a%", "a, b",
    "a=1", "is", "in", "..", "e", "T", "0x", "b\\a", "fa[T.v]", "va:vb", "lag(va)", "x.shift(1)",
    "_as_numbers", "_QUOTED_a", "_QUOTED_a_20_b", "día", "变量", "a  b", " a", "a ", "(", ")", "[", "]", "#",
    "@", "-", "+", "*", "**", "|", "__builtins__", "self", "print", "max", "abs", "id",
)  # fmt: skip
"""Names of columns, whether they are read or not."""

SCOPES = (
    *TRANSFORMS, "max", "abs", "va", "fa", "y", "a", "b", "a_b", "e", "x1", "self", "id", "_as_numbers",
    "T", "_QUOTED_a",
)  # fmt: skip
"""Names that the caller gives to values and functions."""


@dataclass(frozen=True)
class OddFormula:
    """A formula under plain and under odd names, and the data."""

    name: str
    plain: str
    odd: str
    renamed: dict[str, str]
    data: pd.DataFrame
    odd_data: pd.DataFrame
    scopes: tuple[dict[str, object], dict[str, object]]


def make_formula(seed, number):
    """Problem `number` of the sequence that belongs to `seed`."""
    rng = np.random.default_rng([seed, number, 3])
    data = _data(rng)
    odd = rng.permutation(NAMES)[: data.shape[1] + 6].tolist()
    renamed = dict(zip(data.columns, odd, strict=False))
    for name in data.columns:
        if rng.random() < 0.3 and name not in odd:
            renamed[name] = name
    terms = rng.choice(TERMS, rng.integers(1, 5), replace=False)
    left = rng.choice(["{y}", "{y}", "np.exp({y} / 9)", "I({y} + 1)"])
    slots = {"y": "y", "f": rng.choice(FACTORS), "k": "ka"}
    sides = []
    for text in (left, *terms):
        n, m = rng.choice(NUMBERS, 2, replace=False)
        sides.append((text, {**slots, "n": n, "m": m, "f": rng.choice(FACTORS)}))
    plain = [text.format(**names) for text, names in sides]
    with_odd = [
        text.format(**{key: _written(rng, renamed[name]) for key, name in names.items()}) for text, names in sides
    ]
    decoys = [name for name in odd[data.shape[1] :] if name not in renamed.values()]
    holes = {name: np.where(rng.random(len(data)) < 0.3, np.nan, rng.normal(size=len(data))) for name in decoys}
    odd_data = with_columns(data.rename(columns=renamed), holes)
    odd_data = odd_data[rng.permutation(odd_data.columns).tolist()]
    joined = [f"{side[0]} ~ {' + '.join(side[1:])}" for side in (plain, with_odd)]
    return OddFormula(f"{seed}/{number}", *joined, renamed, data, odd_data, (_scope(rng), _scope(rng)))


def _data(rng):
    n = ROWS + NEW
    frame = pd.DataFrame(rng.normal(size=(n, 5)), columns=["y", *NUMBERS])
    levels = np.array(["u", "v", "w"])
    for name in FACTORS:
        values = np.concatenate([levels, levels[rng.integers(3, size=n - 3)]])
        frame[name] = pd.Categorical(values, ["w", "u", "v"]) if rng.random() < 0.4 else values.astype(object)
    frame["ka"] = np.concatenate([np.arange(4), rng.integers(4, size=n - 4)])
    for name in ("va", "fa"):
        if rng.random() < 0.3:
            frame.loc[rng.choice(np.arange(5, ROWS), 3, replace=False), name] = None
    # New rows lie within the range of the others: splines end there.
    new = frame.index >= ROWS
    frame.loc[new, list(NUMBERS)] = frame.loc[~new, list(NUMBERS)].mean().to_numpy() + 0.1 * rng.normal(size=(NEW, 4))
    return frame


def _written(rng, name):
    """A name as a formula has it: in backticks, if it must be, or at random."""
    bare = name in ("va", "vb", "fa", "ka", "y", "a_b", "x1", "T", "e", "a", *NUMBERS, *FACTORS)
    return name if bare and rng.random() < 0.7 else f"`{name}`"


def _scope(rng):
    """Names of the caller's."""

    def fails(*_, **__):
        raise AssertionError("a function of the caller's was called")

    things = (fails, 3.0, "text", None, [1, 2], np.arange(ROWS), pd.Series(np.ones(ROWS)), np, len)
    return {name: things[rng.integers(len(things))] for name in rng.permutation(SCOPES)[: rng.integers(0, 25)]}


def compare_formula(problem):
    """What a fit and its predictions say, beside formulaic's matrices."""
    found, says = [], []
    rows, new = problem.data[:ROWS], problem.data[ROWS:]
    x, x_new, y = _oracle(problem.plain, rows, new)
    odd, odd_new = problem.odd_data[:ROWS], problem.odd_data[ROWS:]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PybayesridgeWarning)
        warnings.simplefilter("ignore", RuntimeWarning)
        res, told = _within(
            problem.scopes[0], lambda: BayesRidge.from_formula(problem.odd, odd).fit("fixed", lam=1.0)
        )
        if res is None and _is_a_clash(problem, told):
            return _verdict(problem, found, [told], None)
        if res is None:
            return _verdict(problem, found, says, f"refused: {told}")
        model = res.model
        if res.nobs != len(x):
            return _verdict(problem, found, says, f"{res.nobs} rows, and the plain formula has {len(x)}")
        _put(found, "design", model.exog[:, 1:] if model.exog_names[0] == "Intercept" else model.exog, x)
        _put(found, "response", model.endog, y)
        read = set(model.formula_spec.variables) - set(problem.renamed.values())
        if read:
            return _verdict(problem, found, says, f"reads {sorted(read)}")
        expected = float(res.params.iloc[0]) + x_new @ res.params.to_numpy()[1:]
        file = io.BytesIO()
        res.save(file)
        for what, copy in (("predict", res), ("pickled", pickle.loads(pickle.dumps(res))), ("saved", _loaded(file))):
            used = odd_new[list(model.formula_spec.variables)] if what == "pickled" else odd_new
            predicted, told = _within(problem.scopes[1], lambda copy=copy, used=used: copy.predict(used))
            if predicted is None:
                return _verdict(problem, found, says, f"{what}: {told}")
            _put(found, what, predicted, expected)
        _effects(problem, res, found)
        _stream(problem, odd, res, found, says)
    return _verdict(problem, found, says, None)


def _is_a_clash(problem, told):
    """Whether a refusal is of a column that is called as a column of the design is."""
    twice = "makes two columns called" in told and any(repr(name) in told for name in problem.renamed.values())
    return twice or "would have one name" in told


def _effects(problem, res, found):
    """The change between two values of a number, from predictions."""
    names = {v: k for k, v in problem.renamed.items()}
    for name in res.model.formula_spec.variables:
        if names[name] not in NUMBERS:
            continue
        data = problem.odd_data[:ROWS][res.model.formula_spec.variables].dropna()
        low, high = -0.1, 0.2
        effect = res.effects(name, values=(low, high), data=data)["mean"].iloc[0]
        apart = [res.predict(with_columns(data, {name: value})).mean() for value in (low, high)]
        _put(found, "effects", effect, apart[1] - apart[0])


def _stream(problem, odd, res, found, says):
    """The same formula on a stream: the same coefficients, or a refusal of what a stream cannot compute."""
    import pyarrow as pa

    table = pa.Table.from_pandas(odd, preserve_index=False)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        streamed, told = _within(problem.scopes[0], lambda: BayesRidge.from_arrow(table, problem.odd, batch_size=23))
        if streamed is None:
            says.append(told)
            return
        params = streamed.fit("fixed", lam=1.0).params
    lost = any(issubclass(one.category, PrecisionWarning) for one in caught)
    if list(params.index) != list(res.params.index):
        raise AssertionError(f"the stream has the columns {list(params.index)}, not {list(res.params.index)}")
    yardstick = np.maximum(np.abs(res.params), res.bse)
    error = float((np.abs(params - res.params) / yardstick).max())
    found.append(Difference("streamed", 0, error, STREAM, announced=lost))


def _loaded(file):
    file.seek(0)
    return load(file)


def _within(scope, work):
    """What a call gives where the caller has these names, or None and what it says."""
    try:
        return _bound(scope, work)(), ""
    except ValueError as error:
        return None, str(error)


def _bound(scope, work):
    """The call as if it were written where these names are: the package looks at the frame that calls it."""
    return FunctionType(
        work.__code__, {**work.__globals__, **_harmless(scope)}, "work", work.__defaults__, work.__closure__
    )


def _harmless(scope):
    """Names of a scope without those that the call itself uses."""
    return {name: value for name, value in scope.items() if name not in ("BayesRidge", "load")}


def _oracle(formula, rows, new):
    """formulaic's own matrices: of the rows, of new rows; and the response."""
    frame = rows.astype({"ka": float}).dropna(subset=_named(formula)).reset_index(drop=True)
    made = Formula(formula).get_model_matrix(frame, na_action="raise", context={})
    x_new = made.rhs.model_spec.get_model_matrix(new.astype({"ka": float}).reset_index(drop=True), context={})
    keep = [name for name in made.rhs.columns if name != "Intercept"]
    return (
        made.rhs[keep].to_numpy(dtype=float),
        x_new[keep].to_numpy(dtype=float),
        made.lhs.to_numpy(dtype=float).ravel(),
    )


def _named(formula):
    return [name for name in ("y", *NUMBERS, *FACTORS, *WHOLE) if name in formula]


def _put(found, what, value, expected):
    value, expected = np.asarray(value, dtype=float), np.asarray(expected, dtype=float)
    if value.shape != expected.shape:
        raise AssertionError(f"{what} has the shape {value.shape}, not {expected.shape}")
    size = max(float(np.abs(expected).max(initial=0.0)), 1e-3)
    error = float(np.abs(value - expected).max(initial=0.0)) / size
    error = np.inf if np.isnan(error) else error
    found.append(Difference(what, 0, error, LIMIT, announced=False))


def _verdict(problem, found, says, failure):
    told = None if failure is None else f"{failure}\n    {problem.odd}\n    for {problem.plain}"
    return Verdict(f"formula {problem.name}", "formula", tuple(found), tuple(says), told)
