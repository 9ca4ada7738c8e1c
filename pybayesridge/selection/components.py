"""The exact posterior of sets as arrays from which its answers are computed again.

Let B be ``square_root`` and c be ``cross``, of the columns ``visited``. State i has the columns A of set
``state_set`` i and the ridge k = exp(-``log_g``): given its noise variance s2 its coefficients are N(M^-1 c_A, s2
M^-1) with M = B_A'B_A + k. Positions count from 1.

Of yes/no responses each state has, in place of c, the normal law of the coordinates ``[z z_root, v_A]`` of rows:
``state_mean``, and a root of the covariance, ``state_root``. These are linear predictors.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.selection.result import Exact
from pybayesridge.selection.states import States


def components(
    exact: Exact, root: FloatArray, models: list[IntArray], slab_unit: float, laws: Mapping[str, Any]
) -> dict[str, Any]:
    """The kept states, and the most probable sets.

    Parameters
    ----------
    exact : Exact
    root : (m, p) array
        Rows with the cross-products of the design's columns.
    models : list of int arrays
        The columns of ``exact.models``.
    slab_unit : float
        From the slab variance to that on the user's scale.
    laws : mapping
        ``cross``, or ``state_mean`` and ``state_root``.
    """
    states = exact.states
    visited, within = np.unique(states.columns, return_inverse=True)
    sizes, columns, of_state = _distinct_sets(states, within.reshape(-1))
    return {
        "weight": states.weight[:, None],
        "noise": _noise(states)[:, None],
        "df": float(states.nu) if states.noise_var is None else float("inf"),
        "log_g": states.log_g,
        "state_slab": states.mean_slab(),
        "t": states.t,
        "state_set": of_state + 1.0,
        "set_size": sizes.astype(np.float64),
        "set_columns": columns + 1.0,
        "visited": visited + 1.0,
        **laws,
        "square_root": _square_root(root[:, visited]),
        "slab_unit": slab_unit,
        "log_spread": float(exact.grid.prior.log_spread),
        "size_prob": exact.size_prob,
        "model_size": np.array([columns.size for columns in models], dtype=np.float64),
        "model_columns": np.concatenate([np.zeros(0), *models]) + 1.0,
        "model_prob": np.array([model.probability for model in exact.models]),
    }


def _noise(states: States) -> FloatArray:
    """Squared scale of the noise of each state's normal or t distribution, (S,)."""
    return states.left / states.nu if states.noise_var is None else states.noise_var


def _distinct_sets(states: States, columns: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Sizes (D,) and columns of the distinct sets, one after another, and the set of each state (S,)."""
    number: dict[bytes, int] = {}
    sets: list[IntArray] = []
    of_state = np.empty(states.n, dtype=np.intp)
    for i in range(states.n):
        inside = columns[states.start[i] : states.start[i + 1]]
        of_state[i] = number.setdefault(inside.tobytes(), len(sets))
        if of_state[i] == len(sets):
            sets.append(inside)
    sizes = np.array([inside.size for inside in sets], dtype=np.intp)
    return sizes, np.concatenate([*sets, np.zeros(0, dtype=np.intp)]).astype(np.intp), of_state


def _square_root(rows: FloatArray) -> FloatArray:
    """B with B'B the products of the columns of `rows`, with no more rows than columns."""
    tall = rows.shape[0] > rows.shape[1]
    return np.asarray(np.linalg.qr(rows, mode="r")) if tall else np.ascontiguousarray(rows)
