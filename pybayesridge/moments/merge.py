"""Moments of two sets of rows as those of both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pybayesridge.text import listed

if TYPE_CHECKING:
    from pybayesridge.moments.moments import Moments


def sums(first: Moments, second: Moments) -> dict[str, Any]:
    """The statistics of both sets of rows, by name of attribute.

    Raises
    ------
    ValueError
        If the names of columns or targets differ.
    """
    for what in ("columns", "targets"):
        mine, theirs = getattr(first, what), getattr(second, what)
        if mine != theirs:
            odd = sorted(set(mine) ^ set(theirs))
            told = f"{listed(odd)} are in only one of them" if odd else "their order is not the same"
            raise ValueError(f"the {what} of the moments to merge differ: {told}")
    total = first.weight_sum + second.weight_sum
    share = second.weight_sum / total
    dx = (second.x_origin - first.x_origin) + (second.x_offset - first.x_offset)
    dy = (second.y_origin - first.y_origin) + (second.y_offset - first.y_offset)
    between = first.weight_sum * share
    xx = first.xx + second.xx
    xx += np.outer(between * dx, dx)
    return {
        "n": first.n + second.n,
        "weight_sum": total,
        "log_weight_sum": first.log_weight_sum + second.log_weight_sum,
        "x_offset": first.x_offset + share * dx,
        "y_offset": first.y_offset + share * dy,
        "xx": xx,
        "xy": first.xy + second.xy + np.outer(between * dx, dy),
        "yy": first.yy + second.yy + between * dy**2,
        "n_dropped": first.n_dropped + second.n_dropped,
    }
