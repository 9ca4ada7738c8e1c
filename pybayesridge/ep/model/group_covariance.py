"""The Gaussian of a posterior with groups: what each group's own joint distribution adds to the sites.

Sites are diagonal, so EP's Gaussian has the right variance of each column but not what being in or out together
does between the columns of a group. Under the diagonal cavities the tilted covariance of a group is
``r diag(tau) + r (1 - r) mu mu'``. A site that matches all of it has the precision

    diag(1 / (r tau) - h2) - (beta / r) (mu / tau) (mu / tau)',  beta = (1 - r) / (1 + (1 - r) sum(mu^2 / tau)),

diagonal but for one direction a group, so that Woodbury's formula adds one row a group to the covariance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack

from pybayesridge._types import BoolArray, FloatArray, IntArray
from pybayesridge.ep.model.gaussian import Factor, GaussianSide
from pybayesridge.ep.model.groups import group_sizes, group_sum
from pybayesridge.ep.model.result import EPResult

#: A smaller probability of being out is rounding, and is negligible relative to that of being in.
_OUT = 1e-13


@dataclass(frozen=True, slots=True)
class JointFactor:
    """The covariance ``inner.cov() + extra' extra``; the methods are those of a Factor.

    Attributes
    ----------
    inner : Factor
        The Gaussian with the diagonal parts of the sites.
    extra : ndarray (g, d)
        A row for each group whose columns are coupled.
    """

    inner: Factor
    extra: FloatArray

    @property
    def var(self) -> FloatArray:
        """Marginal variances, (d,)."""
        return self.inner.var + np.sum(self.extra**2, axis=0)

    def cov(self) -> FloatArray:
        """Return the covariance, shape (d, d)."""
        return self.inner.cov() + self.extra.T @ self.extra

    def cov_block(self, index: IntArray) -> FloatArray:
        """Return the covariance of the columns ``index`` (c,); shape (c, c)."""
        part = self.extra[:, index]
        return self.inner.cov_block(index) + part.T @ part

    def cov_columns(self, index: IntArray) -> FloatArray:
        """Return the columns ``index`` (c,) of the covariance; shape (d, c)."""
        return self.inner.cov_columns(index) + self.extra.T @ self.extra[:, index]

    def row_var(self, rows: FloatArray) -> FloatArray:
        """Return the variances of ``rows @ w``; rows (k, d), result (k,)."""
        return self.inner.row_var(rows) + np.sum((self.extra @ rows.T) ** 2, axis=0)

    def draw(self, n_draws: int, rng: np.random.Generator) -> FloatArray:
        """Draw from the Gaussian with mean zero, shape (n_draws, d)."""
        together = rng.standard_normal((n_draws, self.extra.shape[0])) @ self.extra
        return self.inner.draw(n_draws, rng) + together


def joint_factor(gaussian: GaussianSide, result: EPResult, used: BoolArray, groups: IntArray) -> JointFactor | None:
    """Factorise the Gaussian in which each group's site matches its whole tilted covariance.

    Exact where the columns are orthogonal. Of groups of one column nothing changes.

    Parameters
    ----------
    gaussian : GaussianSide
        The likelihood of the used columns, d of them.
    result : EPResult
        The fit, for all columns.
    used : ndarray of bool
        Which of the columns of `result` are used.
    groups : ndarray (d,) of int
        Groups of the used columns, from 0 on.

    Returns
    -------
    JointFactor or None
        None where the precision is not positive definite: EP's own Gaussian has to do.
    """
    r, mu, tau = result.inclusion_prob[used], result.cond_mean[used], result.cond_var[used]
    site2, cavity2 = result.site2[used], result.cavity2[used]
    kappa = mu**2 / tau
    several = (group_sizes(groups) > 1) & (r > np.finfo(float).tiny) & (1.0 - r > _OUT)
    out = np.where(several, 1.0 - r, 0.0)
    # 1 / (r tau) is the tilted precision, which is site2 + cavity2, times 1 + (1 - r) kappa.
    inner = gaussian.factor(site2 + out * kappa * (site2 + cavity2))
    if inner is None:
        return None
    weight = np.sqrt(out / np.where(several, r, 1.0) / (1.0 + out * group_sum(kappa, groups))) * mu / tau
    coupled = np.unique(groups[weight != 0])
    directions = np.where(groups == coupled[:, None], weight, 0.0)
    solved = np.stack([inner.solve(v) for v in directions]) if coupled.size else directions
    middle = np.eye(coupled.size) - directions @ solved.T
    if not np.all(np.isfinite(middle)):
        return None
    lower, info = lapack.dpotrf(0.5 * (middle + middle.T), lower=1) if coupled.size else (middle, 0)
    if info:
        return None
    extra = np.linalg.solve(np.tril(lower), solved) if coupled.size else solved
    return JointFactor(inner, extra)
