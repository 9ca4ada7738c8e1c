"""Second- and third-order expansions of many columns, capped in size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import issparse
from scipy.special import comb

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.data.frames import unmasked
from pybayesridge.text import repeated

MAX_ENTRIES = 35_000_000
"""Most entries of an expanded matrix in the paper's experiments."""

BLOCK = 1 << 22
"""Most entries of a temporary array."""


def polynomial_features(
    exog: Any, degree: int, max_entries: int = MAX_ENTRIES, rng: Any = None, n_train: int | None = None
) -> pd.DataFrame:
    """Expand columns into their products of up to two or three factors, or a random selection of these.

    The columns themselves are always kept. Powers and interactions are kept as well, all of them where they fit
    into ``max_entries / n_train`` columns; where they do not, a part drawn uniformly without replacement fills
    what room there is. Neither memory nor time depends on the number of products there could have been.

    For a few columns a formula says the same, and codes new data by itself:
    ``BayesRidge.from_formula("y ~ (x1 + x2 + x3)**2 + I(x1**2)", data)`` or ``poly(x1, 3)``.

    Parameters
    ----------
    exog : (n, p) frame or array
        Numeric columns; names of a frame are kept, an array's columns are called x1, x2, …
    degree : {1, 2, 3}
        Most factors of a product; 1 gives the columns alone.
    max_entries : int
        Cap on rows times columns, 35 million as in the paper. Too small a cap leaves the columns alone.
    rng : numpy.random.Generator, int or None
        Source of randomness for the draw, or a seed; not used where everything fits.
    n_train : int, optional
        Rows to which the cap applies, n by default. The paper expands before it sets aside a test set, and counts
        the training rows, ``0.7 * n``.

    Returns
    -------
    (n, p*) DataFrame
        The columns first, then powers and interactions by degree, named such as ``x1^2``, ``x1:x2``, ``x1^2:x3``,
        ``x1:x2:x3``; index as in `exog`. Products of dummies may be constant or equal to other columns;
        :class:`BayesRidge` takes both. NaN stays NaN.

    Raises
    ------
    ValueError
        For columns that are not numbers, duplicate names, or arguments out of range.

    References
    ----------
    Tew, Boley & Schmidt (2023). Bayes beats Cross Validation. NeurIPS, section 5.2.

    Examples
    --------
    >>> from pybayesridge.data.polynomial import polynomial_features
    >>> list(polynomial_features([[1.0, 2.0], [3.0, 4.0]], 2).columns)
    ['x1', 'x2', 'x1^2', 'x1:x2', 'x2^2']
    """
    if isinstance(degree, bool) or degree not in (1, 2, 3):
        raise ValueError(f"degree must be 1, 2 or 3, not {degree!r}")
    x, names, index = _columns(exog)
    n, p = x.shape
    rows = n if n_train is None else _positive_integer("n_train", n_train)
    room = _positive_integer("max_entries", max_entries) // max(rows, 1) - p
    by_degree = [int(comb(p + d - 1, d, exact=True)) for d in range(2, int(degree) + 1)]
    total = sum(by_degree)
    if total <= max(room, 0):
        chosen = np.arange(total)
    else:
        chosen = np.sort(_distinct(total, max(room, 0), np.random.default_rng(rng)))
    factors = []
    for d, count in enumerate(by_degree, start=2):
        mine = chosen[chosen < count]
        chosen = chosen[chosen >= count] - count
        factors.append(_multisets(mine, d, p))
    size = p + sum(f.shape[1] for f in factors)
    out = np.empty((n, size), order="F")
    out[:, :p] = x
    at = p
    for f in factors:
        _fill(out[:, at : at + f.shape[1]], x, f)
        at += f.shape[1]
    labels = names + [_name([names[j] for j in product]) for f in factors for product in f.T.tolist()]
    return pd.DataFrame(out, index=index, columns=labels, copy=False)


def _columns(exog: Any) -> tuple[FloatArray, list[str], Any]:
    if issparse(exog):
        raise ValueError("exog is sparse, but its products are returned dense: pass exog.toarray()")
    frame = exog if isinstance(exog, pd.DataFrame) else pd.DataFrame(np.asarray(unmasked(exog)))
    if not isinstance(exog, pd.DataFrame):
        frame.columns = [f"x{j + 1}" for j in range(frame.shape[1])]
    names = [str(name) for name in frame.columns]
    if len(set(names)) < len(names):
        raise ValueError(f"duplicate column name {repeated(names)[0]!r} in exog")
    for name, dtype in zip(names, frame.dtypes, strict=True):
        if not pd.api.types.is_numeric_dtype(dtype) or pd.api.types.is_complex_dtype(dtype):
            raise ValueError(f"column {name!r} of exog is not numeric (dtype {dtype}): code it as dummies first")
    return np.asfortranarray(frame.to_numpy(dtype=np.float64, na_value=np.nan)), names, frame.index


def _positive_integer(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating) or not value >= 1:
        raise ValueError(f"{name} must be a positive number, not {value!r}")
    return int(value)


def _distinct(total: int, size: int, rng: np.random.Generator) -> IntArray:
    """`size` of range(total), uniformly without replacement, in memory of the order of `size`."""
    if size == 0:
        return np.empty(0, dtype=np.int64)
    if total <= 4 * size:
        return rng.permutation(total)[:size]
    drawn = np.empty(0, dtype=np.int64)
    while True:
        drawn = np.concatenate([drawn, rng.integers(total, size=size)])
        _, first = np.unique(drawn, return_index=True)
        if first.size >= size:
            # In the order of their first appearance they are draws without replacement.
            return drawn[np.sort(first)[:size]]
        drawn = drawn[np.sort(first)]


def _multisets(rank: IntArray, degree: int, p: int) -> IntArray:
    """The multisets of `degree` of p columns that have these ranks, (degree, m), in lexicographic order.

    i <= j <= k correspond to i < j + 1 < k + 2, whose rank is C(i, 1) + C(j + 1, 2) + C(k + 2, 3).
    """
    out = np.empty((degree, rank.size), dtype=np.int64)
    left = rank.astype(np.int64)
    counts = np.arange(p + degree, dtype=np.int64)
    for d in range(degree, 0, -1):
        table = np.ones_like(counts)
        for i in range(d):
            table = table * (counts - i) // (i + 1)
        element = np.searchsorted(table, left, side="right") - 1
        left = left - table[element]
        out[d - 1] = element - (d - 1)
    return out[:, np.lexsort(out[::-1])]


def _fill(out: FloatArray, x: FloatArray, factors: IntArray) -> None:
    step = max(1, BLOCK // max(x.shape[0], 1))
    for start in range(0, factors.shape[1], step):
        part = slice(start, start + step)
        piece = x[:, factors[0, part]]
        for other in factors[1:]:
            piece *= x[:, other[part]]
        out[:, part] = piece


def _name(factors: list[str]) -> str:
    """Names of the factors, equal ones as a power."""
    parts = []
    for name in dict.fromkeys(factors):
        power = factors.count(name)
        parts.append(name if power == 1 else f"{name}^{power}")
    return ":".join(parts)
