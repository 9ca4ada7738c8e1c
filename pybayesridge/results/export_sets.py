"""Values of an export that only fits by the exact posterior of sets have, and selections of yes/no responses.

Let B be ``square_root`` and c be ``cross``. State i has the columns A of set ``state_set`` i and the ridge
k = exp(-``log_g``): given its noise variance s2 its coefficients are N(M^-1 c_A, s2 M^-1) with M = B_A'B_A + k.

Of yes/no responses each state has the normal law of the coordinates ``[z z_root, v_A]`` of rows: ``state_mean``, and
a root of the covariance, ``state_root``. These are linear predictors, as in `export_generalized`.

By expectation propagation, of yes/no responses, the standardised columns have the normal law of node i that `export`
describes. Given them the coordinates f of ``z z_root`` are normal with mean ``flat_mean_i - flat_slope_i w`` and root
of the covariance ``flat_root_i``: u rows of these arrays for each node, one node after another. A linear predictor is
``z z_root f + v w``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.binomial.ep_selection_posterior import BinaryEPPosterior
from pybayesridge.binomial.selection_posterior import BinarySelectionPosterior
from pybayesridge.selection.posterior import ExactPosterior
from pybayesridge.selection.problem import units_of
from pybayesridge.selection.states import States

if TYPE_CHECKING:
    from pybayesridge.results.spike_slab import SpikeSlabResults


def sets_values(results: SpikeSlabResults, posterior: ExactPosterior) -> dict[str, Any]:
    """Values that a fit by expectation propagation lacks."""
    exact = posterior.exact
    return {
        "inclusion_se": results.arrays.inclusion_se,
        "group_inclusion_se": results.group_inclusion_se.to_numpy(dtype=np.float64),
        "log_evidence_se": float(exact.log_evidence_se) if results.method_entry.gives_evidence else None,
        "enumerated": not exact.computation.sampled,
        "agreement": float(exact.agreement),
        "effective": float(exact.effective),
        "monte_carlo": _monte_carlo(results),
    }


def _monte_carlo(results: SpikeSlabResults) -> dict[str, Any]:
    """The rows of the table of Monte Carlo errors."""
    table = results.monte_carlo_errors
    assert table is not None
    texts = {name: [str(text) for text in table[name]] for name in ("quantity", "name")}
    numbers = ("estimate", "mcse", "effective", "agreement")
    return texts | {name: table[name].to_numpy(dtype=np.float64) for name in numbers}


def sets_posterior(posterior: ExactPosterior) -> dict[str, Any]:
    """The kept states, and the most probable sets."""
    exact, states, design = posterior.exact, posterior.exact.states, posterior.design
    data = posterior.selection.rotation.unrotated(posterior.data)
    units = units_of(design.p, posterior.selection.groups)
    visited, within = np.unique(states.columns, return_inverse=True)
    sizes, columns, of_state = _distinct_sets(states, within.reshape(-1))
    models = [np.sort(units.columns(model.units)) for model in exact.models]
    unit = design.y_norm[0]
    binary = posterior if isinstance(posterior, BinarySelectionPosterior) else None
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
        **({"cross": data.cross[visited]} if binary is None else _of_states(binary)),
        "square_root": _square_root(data.root[:, visited]),
        "slab_unit": float((unit / design.common_scale) ** 2),
        "log_spread": float(exact.grid.prior.log_spread),
        "size_prob": exact.size_prob,
        "model_size": np.array([columns.size for columns in models], dtype=np.float64),
        "model_columns": np.concatenate([np.zeros(0), *models]) + 1.0,
        "model_prob": np.array([model.probability for model in exact.models]),
    }


def _of_states(posterior: BinarySelectionPosterior) -> dict[str, Any]:
    """The law of the coordinates of each state."""
    joint, k, root_n = posterior.joint, posterior.design.block.k, np.sqrt(posterior.design.n)
    means, roots = [np.zeros(0)], [np.zeros(0)]
    for i in range(joint.n):
        mean = joint.coef[joint.start[i] : joint.start[i + 1]]
        unit = np.where(np.arange(mean.size) < k, root_n, 1.0)
        means.append(mean * unit)
        roots.append((joint.root[i] * unit[:, None]).ravel(order="F"))
    return {"state_mean": np.concatenate(means), "state_root": np.concatenate(roots)}


def ep_given_columns(posterior: BinaryEPPosterior) -> dict[str, FloatArray]:
    """The law of the coordinates of the unpenalised columns, given the coefficients of the others."""
    root_n, rotation = np.sqrt(posterior.design.n), posterior.selection.rotation
    laws = [posterior.working(i).given_columns() for i in range(len(posterior.selection.results))]
    return {
        "flat_mean": np.stack([mean for mean, _, _ in laws]) * root_n,
        "flat_slope": np.concatenate([rotation.back(slope) for _, slope, _ in laws]) * root_n,
        "flat_root": np.concatenate([root for _, _, root in laws]) * root_n,
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
