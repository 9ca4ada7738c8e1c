"""Leave-one-out predictions from the cavities, mixed over t2.

With w_j the posterior weight of node j and p_ij the probability of row i's outcome given the others and t2_j, the
weights without row i are proportional to ``w_j / p_ij``: the log score of the row is ``-log sum_j w_j / p_ij``.

A row that stands for several copies has one copy left out.
"""

from __future__ import annotations

import numpy as np

from pybayesridge._types import FloatArray
from pybayesridge.posterior.left_out import UNDETERMINED, LeaveOneOut, LeftOut, NoDensityError
from pybayesridge.sites.approximation import Approximation
from pybayesridge.sites.likelihood import Likelihood

NEGLIGIBLE = 1e-9
"""Nodes of smaller weight are left out."""


def leave_one_out(likelihood: Likelihood, nodes: tuple[Approximation, ...], weight: FloatArray) -> LeaveOneOut:
    """Leave-one-out predictions with t2 integrated out; O(n) a node, and O(n) memory in all.

    Parameters
    ----------
    likelihood : Likelihood
    nodes : tuple of K approximations
    weight : (K,) array
        Posterior weights of the nodes.
    """
    keep = np.flatnonzero(weight > NEGLIGIBLE)
    if keep.size == 1:
        return likelihood.of_node(nodes[keep[0]]).left_out_at(nodes[keep[0]])
    weight = weight[keep] / weight[keep].sum()
    total, mean, mean_of_unknown = np.array(-np.inf), np.array(0.0), np.array(0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        for i, share in zip(keep.tolist(), weight.tolist(), strict=True):
            one = likelihood.of_node(nodes[i]).left_out_at(nodes[i])
            without = np.log(share) - one.log_score
            more = np.logaddexp(total, without)
            mean = np.exp(total - more) * mean + np.exp(without - more) * one.mean
            mean_of_unknown = mean_of_unknown + share * one.mean
            total = more
    unknown = ~np.isfinite(total)
    return LeaveOneOut(np.where(unknown, -np.inf, -total), np.where(unknown, mean_of_unknown, mean))


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
    out = np.array(-np.inf)
    for i, share in zip(keep.tolist(), (weight[keep] / weight[keep].sum()).tolist(), strict=True):
        node = nodes[i]
        out = np.logaddexp(out, np.log(share) + likelihood.of_node(node).log_density_over(node.mean, node.variance))
    return out


def total_log_score(likelihood: Likelihood, predictions: LeaveOneOut) -> float:
    """Sum of the log scores over all copies."""
    return float(likelihood.copies @ (predictions.log_score + likelihood.score_constants()))
