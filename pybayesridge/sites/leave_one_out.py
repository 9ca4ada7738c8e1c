"""Leave-one-out predictions from the cavities, mixed over t2.

With w_j the posterior weight of node j and p_ij the probability of row i's outcome given the others and t2_j, the
weights without row i are proportional to ``w_j / p_ij``: the log score of the row is ``-log sum_j w_j / p_ij``.

A row that stands for several copies has one copy left out.
"""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from pybayesridge._types import FloatArray
from pybayesridge.posterior.left_out import UNDETERMINED, LeaveOneOut, LeftOut, NoDensityError
from pybayesridge.sites.approximation import Approximation
from pybayesridge.sites.likelihood import Likelihood

NEGLIGIBLE = 1e-9
"""Nodes of smaller weight are left out."""


def leave_one_out(likelihood: Likelihood, nodes: tuple[Approximation, ...], weight: FloatArray) -> LeaveOneOut:
    """Leave-one-out predictions with t2 integrated out; O(n) a node.

    Parameters
    ----------
    likelihood : Likelihood
    nodes : tuple of K approximations
    weight : (K,) array
        Posterior weights of the nodes.
    """
    keep = np.flatnonzero(weight > NEGLIGIBLE)
    weight = weight[keep] / weight[keep].sum()
    each = [likelihood.of_node(nodes[i]).left_out_at(nodes[i]) for i in keep]
    if len(each) == 1:
        return each[0]
    scores = np.stack([one.log_score for one in each])
    shares = np.stack([one.mean for one in each])
    with np.errstate(divide="ignore", invalid="ignore"):
        without = np.log(weight)[:, None] - scores
        total = logsumexp(without, axis=0)
        share = (np.exp(without - total) * shares).sum(axis=0)
    unknown = ~np.isfinite(total)
    return LeaveOneOut(np.where(unknown, -np.inf, -total), np.where(unknown, weight @ shares, share))


def rows_left_out(likelihood: Likelihood, nodes: tuple[Approximation, ...], weight: FloatArray) -> LeftOut:
    """Log probabilities of rows given the others, and given all rows; arguments as for :func:`leave_one_out`.

    Raises
    ------
    NoDensityError
        For a row that has none.
    """
    found = leave_one_out(likelihood, nodes, weight)
    lost = np.flatnonzero(~np.isfinite(found.log_score))
    if lost.size:
        raise NoDensityError(int(lost[0]), UNDETERMINED)
    within, count = log_density_within(likelihood, nodes, weight), likelihood.log_constants()
    return LeftOut(found.log_score + count, within + count, None, None, np.ones_like(count))


def log_density_within(likelihood: Likelihood, nodes: tuple[Approximation, ...], weight: FloatArray) -> FloatArray:
    """Log probability of one more copy of each row, given all rows, without its constant factor; (n,)."""
    keep = np.flatnonzero(weight > NEGLIGIBLE)
    each = [likelihood.of_node(nodes[i]).log_density_over(nodes[i].mean, nodes[i].variance) for i in keep]
    out: FloatArray = logsumexp(np.stack(each), axis=0, b=(weight[keep] / weight[keep].sum())[:, None])
    return out


def total_log_score(likelihood: Likelihood, predictions: LeaveOneOut) -> float:
    """Sum of the log scores over all copies."""
    return float(likelihood.copies @ (predictions.log_score + likelihood.score_constants()))
