"""Whether moments can be those of any rows, by all cross-products together."""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, cholesky, eigh, solve_triangular

from pybayesridge.moments.moments import ROUNDED, Moments, sizes
from pybayesridge.text import listed, number


def check_definite(moments: Moments) -> None:
    """Refuse cross-products by which a combination of columns has a negative variance, or explains more than all.

    Raises
    ------
    ValueError
        Naming columns or the target.
    """
    names = np.array(moments.columns, dtype=object)
    size, unit = sizes(np.diag(moments.xx)), sizes(moments.yy)
    r = moments.xx / size / size[:, None]
    marginal = moments.xy / size[:, None] / unit
    try:
        root = cholesky(r + ROUNDED * np.eye(len(r)), lower=True, check_finite=False)
    except LinAlgError:
        values, vectors = eigh(r, check_finite=False)
        worst = np.argsort(-np.abs(vectors[:, 0]))[:3]
        raise ValueError(
            f"xx is not that of any rows: a combination of columns has a negative variance (eigenvalue "
            f"{number(values[0], 3)} of their correlations), most of all of {listed(names[worst].tolist())}; compute "
            "all entries from the same rows"
        ) from None
    half = solve_triangular(root, marginal, lower=True, check_finite=False)
    share = (half**2).sum(axis=0)
    if share.max(initial=0.0) > 1 + ROUNDED:
        at = int(share.argmax())
        percent = number(100 * share[at])
        raise ValueError(
            f"xx, xy and yy are not those of any rows: together the columns would explain {percent} % of "
            f"the variation of {moments.targets[at]!r}; compute all of them from the same rows"
        )
