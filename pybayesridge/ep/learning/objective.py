"""The objective of learning: EP's evidence times the prior of the hyperparameters, in coordinates without units."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.data.units import units_of
from pybayesridge.ep.algorithms.solve import fit_sites
from pybayesridge.ep.learning.coordinates import LearnedCoordinates, coordinates
from pybayesridge.ep.learning.evidence_gradient import evidence_gradient
from pybayesridge.ep.model.eta_bound import Regression, reach_of
from pybayesridge.ep.model.hyper_prior import hyper_prior
from pybayesridge.ep.model.hyperparameters import Hyperparameters, KnownHyperparameters
from pybayesridge.ep.model.least_squares import Data
from pybayesridge.ep.model.result import ColumnSites, EPResult

_EP_MAXITER = 100
_EP_TOL = 1e-6
#: A rise of the objective below this is not progress.
_RISE = 1e-7


@dataclass(frozen=True, slots=True)
class Warm:
    """Sites to start from, and the noise variance that they belong to."""

    sites: ColumnSites
    noise_var: float

    def at(self, noise_var: float) -> ColumnSites:
        """The sites at another noise variance and the same v / s2, where all precisions change alike."""
        ratio = self.noise_var / noise_var
        return ColumnSites(self.sites.site1 * ratio, self.sites.site2 * ratio)


@dataclass(slots=True)
class Objective:
    """Log evidence plus log prior.

    Attributes
    ----------
    data : Data
    place : LearnedCoordinates
    noise_unit : float
        Mean square of the response.
    groups : (d,) int array or None
        Columns with equal numbers are in or out together.
    n_steps, n_fac : int
        Values of the hyperparameters tried and covariance evaluations so far.
    strong : (float, float, float) or None
        Where there is hardly any noise, p, v and s2 of a likely set of columns.
    """

    data: Data
    place: LearnedCoordinates
    noise_unit: float
    groups: IntArray | None = None
    n_steps: int = 0
    n_fac: int = 0
    strong: tuple[float, float, float] | None = None

    @property
    def n_groups(self) -> int:
        """Number of groups, a column on its own being one."""
        return self.data.n_columns if self.groups is None else int(np.unique(self.groups).size)

    def evaluate(
        self, x: FloatArray, start: Warm | Trial | None, *, tol: float = _EP_TOL, maxiter: int = _EP_MAXITER
    ) -> Trial:
        """Fit at x and evaluate."""
        h = self.place.hyper(x)
        likelihood = h.likelihood(self.data)
        warm = start.warm if isinstance(start, Trial) else start
        result = fit_sites(
            likelihood,
            h.prior_inclusion,
            h.slab_var,
            groups=self.groups,
            tol=tol,
            maxiter=maxiter,
            start=None if warm is None else warm.at(h.noise_var),
        )
        self.n_steps += 1
        self.n_fac += result.n_fac
        prior, prior_grad = self.place.log_prior(x)
        g = evidence_gradient(likelihood, h.prior_inclusion, h.slab_var, result)
        slopes = np.array([np.sum(g.logit_inclusion), g.log_slab_var, g.log_noise_var])
        value = result.log_evidence + prior
        if not np.isfinite(value):
            value = -np.inf
        return Trial(x, h, result, value, slopes @ self.place.slopes(x) + prior_grad)


@dataclass(frozen=True, slots=True)
class Trial:
    """One evaluation of the objective."""

    x: FloatArray
    hyper: Hyperparameters
    result: EPResult
    value: float
    grad: FloatArray

    @property
    def warm(self) -> Warm:
        """Where a fit nearby can start."""
        return Warm(self.result, self.hyper.noise_var)

    def beats(self, other: Trial) -> bool:
        """Whether this is a better answer: converged before not converged, then the value."""
        if self.result.converged != other.result.converged:
            return self.result.converged
        return self.value > other.value + _RISE


def build_objective(
    data: Data,
    given: KnownHyperparameters,
    groups: IntArray | None = None,
    *,
    n: float | None = None,
    expected_size: float = 1.0,
) -> Objective:
    """Set up the prior, and the coordinates with their bounds.

    Parameters
    ----------
    data : Data
    given : KnownHyperparameters
    groups : (d,) int array, optional
    n : float, optional
        Rows, by default the degrees of freedom of the noise.
    expected_size : float
        Columns or groups expected to be in, in the middle of the prior of a shared p.
    """
    n_units = data.n_columns if groups is None else int(np.unique(groups).size)
    p = given.prior_inclusion
    prior = hyper_prior(
        n_units,
        data.gram_diag,
        data.nu if n is None else n,
        expected_size=expected_size,
        given=p,
        slab_given=given.slab_var is not None,
        noise_given=given.noise_var is not None,
    )
    strong = None
    if given.slab_var is None:
        products, noise_var = data.products, given.noise_var
        of = Regression(
            data.cross, data.gram_diag, data.yy, data.nu, products, units_of(data.n_columns, groups), p, noise_var
        )
        reach = reach_of(prior, of)
        prior, strong = replace(prior, eta_high=reach.eta_high), reach.strong
    # Of a y of zeros the noise variance, where it is given, is the only unit there is.
    noise_unit = data.yy / data.nu if data.yy > 0 else given.noise_var or 1.0
    place = coordinates(prior, given, data.n_columns, noise_unit)
    return Objective(data, place, noise_unit, groups, strong=strong)
