"""Draws from the exact spike-and-slab posterior given the hyperparameters, by a Gibbs run started at EP's answer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.special import expit, logit

from pybayesridge._types import BoolArray, FloatArray, IntArray
from pybayesridge.ep.model.groups import compress
from pybayesridge.ep.model.likelihood import GaussianLikelihood


def gibbs(
    likelihood: GaussianLikelihood,
    prior_inclusion: FloatArray,
    slab_var: float,
    inclusion_prob: FloatArray,
    n_draws: int,
    n_burn: int,
    rng: np.random.Generator,
    groups: IntArray | None = None,
) -> FloatArray:
    """Draw coefficients: a sweep updates each column's indicator and coefficient, then all included ones together.

    With groups it updates each group's indicator, its coefficients integrated out, and then these.

    Parameters
    ----------
    likelihood : GaussianLikelihood
        Of d columns.
    prior_inclusion : (d,) array
    slab_var : float
    inclusion_prob : (d,) array
        Where to start: each column is in with this probability.
    n_draws, n_burn : int
        Sweeps that are kept, and left out before.
    rng : numpy.random.Generator
    groups : (d,) int array, optional
        Columns with equal numbers are in or out together.

    Returns
    -------
    (n_draws, d) array
        Successive, hence dependent, draws; exact zeros where a column is out.
    """
    together = compress(groups, np.ones(inclusion_prob.size, dtype=bool))
    if together is not None:
        blocks = _blocks(likelihood, prior_inclusion, slab_var, together)
        return _gibbs_groups(likelihood, blocks, slab_var, inclusion_prob, n_draws, n_burn, rng)
    data = likelihood.data
    columns = np.ascontiguousarray(data.root.T)
    with np.errstate(divide="ignore"):
        prior_odds = logit(prior_inclusion)
    precision = likelihood.precision + 1.0 / slab_var
    gain = -0.5 * np.log(precision * slab_var)
    live = np.flatnonzero(prior_inclusion > 0)
    w, residual = _together(likelihood, rng.random(inclusion_prob.size) < inclusion_prob, slab_var, rng)
    out = np.empty((n_draws, w.size))
    for sweep in range(n_burn + n_draws):
        uniform, normal = rng.random(live.size), rng.standard_normal(live.size)
        for u, z, j in zip(uniform, normal, live, strict=True):
            rho = columns[j] @ residual + data.gram_diag[j] * w[j]
            mean = rho / likelihood.noise_var / precision[j]
            odds = prior_odds[j] + gain[j] + 0.5 * mean * mean * precision[j]
            new = mean + z / np.sqrt(precision[j]) if u < expit(odds) else 0.0
            if new != w[j]:
                residual += columns[j] * (w[j] - new)
                w[j] = new
        w, residual = _together(likelihood, w != 0, slab_var, rng)
        if sweep >= n_burn:
            out[sweep - n_burn] = w
    return out


@dataclass(frozen=True, slots=True)
class _Block:
    """A group: its columns as rows (k, m), the inverse of its precision's lower Cholesky factor, its odds.

    ``odds`` are the prior log odds and the part of the log Bayes factor that does not depend on the response.
    """

    index: IntArray
    columns: FloatArray
    half_inverse: FloatArray
    odds: float


def _blocks(
    likelihood: GaussianLikelihood, prior_inclusion: FloatArray, slab_var: float, groups: IntArray
) -> list[_Block]:
    """Set up the groups that can be in."""
    out = []
    for group in np.unique(groups):
        index = np.flatnonzero(groups == group)
        p = float(prior_inclusion[index[0]])
        if p == 0:
            continue
        columns = np.ascontiguousarray(likelihood.data.root[:, index].T)
        lower = cholesky(columns @ columns.T / likelihood.noise_var + np.eye(index.size) / slab_var, lower=True)
        inverse = solve_triangular(lower, np.eye(index.size), lower=True)
        gain = -float(np.sum(np.log(lower.diagonal()))) - 0.5 * index.size * float(np.log(slab_var))
        out.append(_Block(index, columns, inverse, (np.inf if p == 1 else float(logit(p))) + gain))
    return out


def _gibbs_groups(
    likelihood: GaussianLikelihood,
    blocks: list[_Block],
    slab_var: float,
    inclusion_prob: FloatArray,
    n_draws: int,
    n_burn: int,
    rng: np.random.Generator,
) -> FloatArray:
    """:func:`gibbs` with groups."""
    included = np.zeros(inclusion_prob.size, dtype=bool)
    for block in blocks:
        included[block.index] = rng.random() < inclusion_prob[block.index[0]]
    w, residual = _together(likelihood, included, slab_var, rng)
    out = np.empty((n_draws, w.size))
    for sweep in range(n_burn + n_draws):
        uniform, normal = rng.random(len(blocks)), rng.standard_normal(w.size)
        for u, block in zip(uniform, blocks, strict=True):
            index = block.index
            if included[index[0]]:
                residual += w[index] @ block.columns
            half = block.half_inverse @ (block.columns @ residual) / likelihood.noise_var
            included[index] = u < expit(block.odds + 0.5 * half @ half)
            w[index] = 0.0
            if included[index[0]]:
                w[index] = block.half_inverse.T @ (half + normal[index])
                residual -= w[index] @ block.columns
        w, residual = _together(likelihood, included, slab_var, rng)
        if sweep >= n_burn:
            out[sweep - n_burn] = w
    return out


def _together(
    likelihood: GaussianLikelihood, included: BoolArray, slab_var: float, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Draw all included coefficients from their joint normal, and the residual they leave."""
    data, noise_var = likelihood.data, likelihood.noise_var
    w = np.zeros(included.size)
    inside = np.flatnonzero(included)
    if inside.size == 0:
        return w, data.target.copy()
    part = data.root[:, inside]
    a = part.T @ part / noise_var + np.eye(inside.size) / slab_var
    lower = cholesky(a, lower=True, check_finite=False)
    half = solve_triangular(lower, data.cross[inside] / noise_var, lower=True, check_finite=False)
    half += rng.standard_normal(inside.size)
    w[inside] = solve_triangular(lower, half, lower=True, trans="T", check_finite=False)
    return w, data.target - part @ w[inside]
