"""The outcome of an approximation of the posterior at one t2."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pybayesridge._types import AnyArray, FloatArray
from pybayesridge.sites.coordinates import Space
from pybayesridge.sites.gaussian import Gaussian, Sites, Windows, combine
from pybayesridge.sites.tilted import Cavity


@dataclass(frozen=True, slots=True)
class Approximation:
    """A Gaussian approximation of the posterior given t2.

    Attributes
    ----------
    log_t2 : float
    sites : Sites
    mean, variance : (n,) arrays
        Of the linear predictor of each row.
    log_evidence : float
        Approximates the log integral of likelihood times prior given t2; flat coordinates have Lebesgue measure in
        units where each orthonormalised unpenalised column has mean square 1.
    converged : bool
    n_iter : int
    change : float
        Last change of the linear predictors' means and standard deviations, in standard deviations.
    start : (2, n) float32 array or None
        EP: what sites nearby start from; see :func:`pybayesridge.sites.ep.compact`.
    slope : float
        Derivative of the log evidence in log t2.
    center : (k + r,) array or None
        Mean of the coordinates of the rows.
    joint : Gaussian or None
        The joint posterior, where it is small beside the columns; otherwise it is made when asked for, since many t2
        may be looked at.
    log_shape : float
        Log of the further parameter of the likelihood; nan where it has none.
    form : float
        Form of the likelihood; nan where it has one.
    windows : Windows or None
        Of the part of the posterior that is approximated, where it is split.
    df : float
        Effective degrees of freedom of the whole, where it is part of a posterior; nan of a whole.
    """

    log_t2: float
    sites: Sites
    mean: FloatArray
    variance: FloatArray
    log_evidence: float
    converged: bool
    n_iter: int
    change: float
    start: AnyArray | None = None
    slope: float = np.nan
    center: FloatArray | None = None
    joint: Gaussian | None = None
    log_shape: float = np.nan
    form: float = np.nan
    windows: Windows | None = None
    df: float = np.nan

    def gaussian(self, space: Space) -> Gaussian:
        """The joint posterior in coordinates of unit prior variance."""
        return combine(space.scaled(self.log_t2), self.sites, self.windows) if self.joint is None else self.joint

    def effective_df(self) -> float:
        """Trace of the matrix that takes the rows' working responses to their fits: flat coordinates count whole."""
        return float(self.sites.precision @ self.variance) if np.isnan(self.df) else self.df

    @property
    def has_rows(self) -> bool:
        """Whether it has not been stripped."""
        return self.joint is None or self.mean.size > 0

    def stripped(self) -> Approximation:
        """The same without what runs over rows, but for `start`, where its joint posterior is at hand."""
        if self.joint is None:
            return self
        none = np.empty(0)
        return replace(self, sites=Sites(none, none), mean=none, variance=none)

    def without_rows(self, space: Space, joint: bool) -> Kept:
        """The same without what runs over rows; the joint posterior only with `joint`."""
        kept = self.gaussian(space) if joint else None
        return Kept(self.log_t2, self.log_evidence, self.effective_df(), kept, self.log_shape, self.form)

    def cavity(self) -> Cavity:
        """Distributions of the linear predictors without the row's site."""
        return cavity(self.mean, self.variance, self.sites)


@dataclass(frozen=True, slots=True)
class Kept:
    """The part of an approximation that is kept when the rows are removed.

    Attributes
    ----------
    log_t2, log_evidence, df : float
        As of the approximation; `df` is its effective degrees of freedom.
    joint : Gaussian or None
        None where the weight of the node is negligible.
    log_shape, form : float
        As of the approximation.
    """

    log_t2: float
    log_evidence: float
    df: float
    joint: Gaussian | None
    log_shape: float = np.nan
    form: float = np.nan

    def gaussian(self, space: Space) -> Gaussian:
        """The joint posterior in coordinates of unit prior variance."""
        assert self.joint is not None
        return self.joint

    def effective_df(self) -> float:
        """See :meth:`Approximation.effective_df`."""
        return self.df

    def without_rows(self, space: Space, joint: bool) -> Kept:
        """The same."""
        return self


Node = Approximation | Kept
"""The posterior given one t2, with or without the rows."""


def cavity(mean: FloatArray, variance: FloatArray, sites: Sites) -> Cavity:
    """Remove each row's site from its marginal; a precision that rounding makes negative is 0."""
    precision = np.maximum((1.0 - sites.precision * variance) / variance, 0.0)
    return Cavity(mean, precision, sites.precision * mean - sites.shift)
