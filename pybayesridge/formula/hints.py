"""What to write instead of what these formulas do not have."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection

import numpy as np
from formulaic.errors import FormulaicError
from formulaic.transforms import TRANSFORMS

from pybayesridge.text import did_you_mean

CROSSING = "; a power of sums crosses their terms, and the square of a variable is I(x ** 2)"

INSTEAD = {
    "s": "a smooth curve, s(x), stands alone in a sum; in an expression it is a spline, bs(x, df=5) or cr(x, df=5)",
    "band": "band(a, b) stands alone in a sum",
    "te": "a surface is a product of splines, bs(x, df=4):bs(z, df=4)",
    "ns": "a natural spline is cr(x, df=5)",
    "cbind": "several responses are a sum, a + b ~ x; of counts of successes the trials are the argument trials=",
    "factor": "a factor is C(x)",
    "as.factor": "a factor is C(x)",
    "relevel": 'a reference level is C(x, contr.treatment("a"))',
    "ifelse": "a condition is np.where(condition, a, b)",
    "offset": "subtract it from a response of numbers, I(y - x) ~ ..., pass exposures of counts as exposure=; yes/no "
    "responses have no offsets",
    "as.numeric": "convert the column in the data",
    "pow": "a power is I(x ** 2)",
}
"""What functions of other packages' formulas are in these."""

SMOOTHS = ("t2", "ti", "lo", "pb", "gp")


class FormulaError(ValueError, FormulaicError):
    """A formula that cannot be parsed, or that names a variable that is not there."""


def function_hint(name: str, functions: Collection[str] = ()) -> str:
    """What to write for a function that is not there."""
    if name in INSTEAD or name in SMOOTHS:
        return f": {INSTEAD.get(name, INSTEAD['te'])}"
    if callable(getattr(np, name, None)):
        return f": a function of NumPy is np.{name}(...)"
    return did_you_mean(name, [*(key for key, one in TRANSFORMS.items() if callable(one)), *functions])


def name_hint(name: str, columns: Collection[str]) -> str:
    """What to write for a name that is no column."""
    owner = name.partition(".")[0]
    if owner != name and owner in columns:
        return f": an attribute of the column {owner!r} is written in I(), I({name})"
    read = unicodedata.normalize("NFKC", name)
    alike = [c for c in columns if c != read and unicodedata.normalize("NFKC", c) == read]
    if alike:
        return f": within a call Python reads another sign for one in `{alike[0]}`, so that it goes in backticks"
    return in_backticks_hint(name, columns) or did_you_mean(name, columns)


def in_backticks_hint(text: str, columns: Collection[str]) -> str:
    """A hint where `text` has a column, or is a word of one, that formulas take in backticks only."""
    quoted = [c for c in columns if not c.isidentifier() and (c in text or text in re.split(r"\W+", c))]
    return f": a name with spaces or signs goes in backticks, `{quoted[0]}`" if quoted else ""
