"""The Gaussians of expectation propagation as arrays from which their answers are computed again.

For each value of the hyperparameters the standardised columns have a normal law: a row v of them has the mean ``v
mean_i`` and the variance ``v^2 own_i + sum_j root_sign_j (root_j v)^2``, j running over the rows of ``root`` with
``root_of`` i. Where there are ``rows``, ``|L_i^-1 rows (own_i v)|^2`` is to be subtracted, L_i being the rows of
``lower`` of node i, one of ``lower_of``. Positions count from 1.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pybayesridge._types import FloatArray
from pybayesridge.ep.algorithms.solve import posterior_factor
from pybayesridge.ep.model.gaussian import DualFactor
from pybayesridge.ep.model.group_covariance import JointFactor
from pybayesridge.ep.model.likelihood import GaussianLikelihood
from pybayesridge.ep.model.result import EPResult
from pybayesridge.ep.model.rotation import Rotation
from pybayesridge.ep.selection import Selection


def components(
    selection: Selection,
    likelihoods: Iterable[GaussianLikelihood],
    rows: FloatArray | None = None,
    noise: FloatArray | None = None,
    *,
    shared: bool,
) -> dict[str, Any]:
    """The arrays of one fit or of an average; with many columns nothing is (p, p).

    Parameters
    ----------
    selection : Selection
    likelihoods : iterable of GaussianLikelihood
        That of each value of the hyperparameters.
    rows : array or None
        The rows that ``lower`` refers to, None if the reader has them.
    noise : array or None
        Noise variances of these, if they have one.
    shared : bool
        Whether all values of the hyperparameters have the same rows, so that these can stand for ``root``.
    """
    rotation, results = selection.rotation, selection.results
    # Rotated rows are others.
    shared = shared and not rotation.blocks
    parts = [
        _covariance_parts(likelihood, result, rotation, shared=shared)
        for likelihood, result in zip(likelihoods, results, strict=True)
    ]
    return {
        "weight": selection.weights[:, None],
        **({} if noise is None else {"noise": noise[:, None]}),
        "df": float("inf"),
        "mean": rotation.back(np.stack([r.mean for r in results])),
        "own": np.stack([part.own for part in parts]),
        "root": np.concatenate([part.root for part in parts]),
        "root_sign": np.concatenate([part.sign for part in parts]),
        "root_of": np.repeat(np.arange(1.0, len(parts) + 1), [part.sign.size for part in parts]),
        **_shared_rows(parts, rows),
        "slab_weight": np.stack([r.inclusion_prob for r in results]),
        "slab_mean": rotation.back(np.stack([r.cond_mean for r in results])),
        "slab_var": np.stack([rotation.variances(r.cond_var) for r in results]),
    }


@dataclass(frozen=True, slots=True)
class _Parts:
    """``own``, ``root`` and ``root_sign`` of one node, and its ``lower`` if it has one."""

    own: FloatArray
    root: FloatArray
    sign: FloatArray
    lower: FloatArray | None


def _shared_rows(parts: list[_Parts], rows: FloatArray | None) -> dict[str, FloatArray]:
    """``lower``, ``lower_of`` and ``rows``; nothing where no node has the first."""
    lower = [part.lower for part in parts if part.lower is not None]
    if not lower:
        return {}
    out = {
        "lower": np.concatenate(lower),
        "lower_of": np.array([i + 1.0 for i, part in enumerate(parts) if part.lower is not None]),
    }
    return out if rows is None else out | {"rows": rows}


def _covariance_parts(
    likelihood: GaussianLikelihood, result: EPResult, rotation: Rotation, *, shared: bool
) -> _Parts:
    """The covariance of one Gaussian; of rotated columns what is their own moves to ``root``."""
    factor, used = posterior_factor(likelihood, result)
    own, roots, lower = np.zeros(used.size), [], None
    if isinstance(factor, JointFactor):
        roots.append((factor.extra, np.ones(factor.extra.shape[0])))
        factor = factor.inner
    if isinstance(factor, DualFactor):
        own[used] = factor.scale**2
        if shared:
            lower = factor.chol
            roots.append((factor.bridge, np.ones(factor.rest.size)))
        else:
            rows, signs = factor.signed_root()
            roots.append((rows, -signs))
    elif factor is not None:
        roots.append((factor.inv_chol, np.ones(factor.inv_chol.shape[0])))
    else:
        own = result.var.copy()
    sign = np.concatenate([np.zeros(0), *(signs for _, signs in roots)])
    root = np.zeros((sign.size, used.size))
    if roots:
        root[:, used] = np.concatenate([rows for rows, _ in roots])
    turned = rotation.turned
    moved = np.zeros((turned.size, used.size))
    moved[np.arange(turned.size), turned] = np.sqrt(own[turned])
    own[turned] = 0.0
    return _Parts(
        own, rotation.back(np.concatenate([root, moved])), np.concatenate([sign, np.ones(turned.size)]), lower
    )
