"""Expectation propagation with sites for rows and for columns: any likelihood, spike-and-slab priors.

A row's site is a Gaussian factor of its linear predictor, a column's one of its coefficient. All are updated at once,
O(n d min(n, d)) a sweep, under a floor of the columns' precisions at first and then without. Where that does not
settle, rows and columns take turns: given the sites of the rows the model is Gaussian, and the descent on EP's energy
finds the columns' sites.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pybayesridge._types import BoolArray, FloatArray, IntArray
from pybayesridge.ep.algorithms.damped import FLOOR
from pybayesridge.ep.algorithms.monotone import run_auto
from pybayesridge.ep.algorithms.solve import spread_state
from pybayesridge.ep.algorithms.state import EPModel, State, find_copies
from pybayesridge.ep.model.gaussian import GaussianSide
from pybayesridge.ep.model.groups import compress
from pybayesridge.ep.model.prior import Prior
from pybayesridge.ep.model.result import EPResult
from pybayesridge.sites.acceleration import History
from pybayesridge.sites.approximation import cavity
from pybayesridge.sites.ep import RECOVERY, difference, swept_sites
from pybayesridge.sites.gaussian import Sites
from pybayesridge.sites.laplace import sites_at
from pybayesridge.sites.likelihood import Likelihood
from pybayesridge.sites.tilted import Tilted
from pybayesridge.sites.working import Working

DAMPING, MOST, LEAST = 0.5, 0.9, 0.05
"""Share of the new sites in an update: under the floor, and without it at the most and the least."""

MORE, LESS = 1.2, 0.5
"""The share is multiplied by these where the residual has fallen or risen."""

FLOOR_SWEEPS, FLOOR_TOL = 40, 1e-2
"""Most sweeps under the floor, and the residual there that ends them."""

PATIENCE = 6
"""So many sweeps or turns that do not lower the residual are taken back."""

RETREATS = 2
"""Joint sweeps end when they were taken back so often in a row."""

TURN, ROUGH = 200, 0.1
"""Most steps of the columns in a turn, and their residual relative to that before it."""

HALVINGS = (1.0, 0.5, 0.25, 0.125, 0.0625)
"""Shares of a turn of the rows that are tried until the Gaussian exists."""

WORSE = 3.0
"""A turn after which the residual is so many times the least one is taken back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSitesResult(EPResult):
    """An EP approximation for rows that are not Gaussian: as for Gaussian ones, and the sites of the rows.

    Attributes
    ----------
    row_sites : Sites
    """

    row_sites: Sites


@dataclass(frozen=True, slots=True)
class Columns:
    """What a run of EP knows.

    Attributes
    ----------
    x, c : (n, d), (n, k) arrays
        Columns that can be in, on the scale of the prior, and unpenalised ones, of full rank.
    likelihood : Likelihood
    prior : Prior
    copies : (d,) int array or None
    signs : (d,) array
        Of copies of a column, see :class:`~pybayesridge.ep.algorithms.state.EPModel`.
    """

    x: FloatArray
    c: FloatArray
    likelihood: Likelihood
    prior: Prior
    copies: IntArray | None
    signs: FloatArray


@dataclass(frozen=True, slots=True)
class Point:
    """Sites of rows and columns, and all that follows from them.

    Attributes
    ----------
    sites : Sites
        Of the rows.
    working : Working
    model : EPModel
    state : State
        Of the columns.
    mean, variance : (n,) arrays
        Of the rows' linear predictors.
    tilted : Tilted
        Of the rows.
    """

    sites: Sites
    working: Working
    model: EPModel
    state: State
    mean: FloatArray
    variance: FloatArray
    tilted: Tilted

    def residual(self, floor: float | None = None) -> float:
        """Largest change that the next full sweep asks for, of a row or a column, in standard deviations."""
        of_columns = self.model.residual(self.state, floor)
        return float(np.maximum(of_columns, difference(self.tilted, self.mean, self.variance)))

    def log_evidence(self) -> float:
        """EP's log evidence, stationary in all sites at a fixed point."""
        gaussian = self.working.log_normalizer(self.state.factor, self.state.t1, self.state.mean)
        of_columns = self.model.log_evidence_of_columns(self.state)
        return gaussian + of_columns + _log_evidence_of_rows(self.sites, self.tilted, self.mean, self.variance)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Where sweeps ended: the best point, its residual, and minus the log evidence after each sweep."""

    point: Point | None
    residual: float
    n_iter: int
    n_fac: int
    energies: tuple[float, ...]


def start_sites(likelihood: Likelihood) -> Sites:
    """Sites of rows about what their own responses say."""
    return sites_at(likelihood, likelihood.first_guess())


def fit_row_sites(
    x: FloatArray,
    c: FloatArray,
    likelihood: Likelihood,
    prior_inclusion: FloatArray,
    slab_var: float,
    *,
    groups: IntArray | None = None,
    tol: float = 1e-4,
    maxiter: int = 1000,
    start: RowSitesResult | None = None,
) -> RowSitesResult:
    """Approximate the posterior of d coefficients under a spike-and-slab prior.

    Parameters
    ----------
    x : (n, d) array
        The penalised columns, on the scale of the prior.
    c : (n, k) array
        The unpenalised ones, of full rank; their coefficients are flat. They must not separate the responses.
    likelihood : Likelihood
    prior_inclusion : (d,) array
        Prior probabilities in [0, 1].
    slab_var : float
        Variance, > 0.
    groups : (d,) int array, optional
        Columns with equal numbers are in or out together; their prior probabilities are equal.
    tol : float
        Tolerance of the scale-free residual.
    maxiter : int
        Sweeps and steps at most.
    start : RowSitesResult, optional
        To start from.

    Returns
    -------
    RowSitesResult
        The log evidence leaves out the constants of the likelihood; c's coefficients have Lebesgue measure.
    """
    used = prior_inclusion > 0
    prior = Prior.from_probability(prior_inclusion[used], slab_var, compress(groups, used))
    part = x if used.all() else np.ascontiguousarray(x[:, used])
    columns = Columns(part, c, likelihood, prior, *find_copies(part, prior.log_p, prior.groups))
    with np.errstate(all="ignore"):
        outcome = _run(columns, used, start, tol, maxiter)
    result = _result(columns, used, outcome, tol)
    return result if prior.groups is None else replace(result, groups=groups)


def _run(columns: Columns, used: BoolArray, start: RowSitesResult | None, tol: float, maxiter: int) -> Outcome:
    """From an earlier result without a floor, else from the prior with one at first; then turns."""
    prior, first = columns.prior, None
    if start is not None:
        first = point_of(columns, start.row_sites, start.site1[used], start.site2[used])
    n_iter, n_fac = 0, 0
    energies: tuple[float, ...] = ()
    if first is None:
        t2 = np.exp(-prior.log_p) / prior.slab_var
        first = point_of(columns, start_sites(columns.likelihood), np.zeros_like(t2), t2, 0.0)
        opening = _opening(columns, first, tol, min(FLOOR_SWEEPS, maxiter))
        first, n_iter, n_fac, energies = opening.point, opening.n_iter, opening.n_fac, opening.energies
    if first is None:
        return Outcome(None, np.inf, n_iter, n_fac, energies)
    out = _sweeps(columns, first, tol, max(maxiter - n_iter, 1))
    out = replace(out, n_iter=n_iter + out.n_iter, n_fac=n_fac + out.n_fac, energies=(*energies, *out.energies))
    if out.residual <= tol or out.n_iter >= maxiter:
        return out
    return _turns(columns, out, tol, maxiter)


def point_of(
    columns: Columns, sites: Sites, t1: FloatArray, t2: FloatArray, cavity_floor: float | None = None
) -> Point | None:
    """What follows from sites; None where the Gaussian or a cavity does not exist."""
    try:
        working = Working.of(columns.x, columns.c, sites)
    except FloatingPointError:
        return None
    model = _model(columns, working)
    t1, t2 = model.symmetric(t1, np.minimum(t2, model.site_cap))
    state = model.state(t1, t2, cavity_floor=cavity_floor)
    return None if state is None else _point(columns, sites, working, model, state)


def _model(columns: Columns, working: Working) -> EPModel:
    return EPModel.build(GaussianSide.build(working.likelihood), columns.prior, (columns.copies, columns.signs))


def _point(columns: Columns, sites: Sites, working: Working, model: EPModel, state: State) -> Point | None:
    mean, variance = working.row_marginals(state.factor, state.mean)
    if not (np.isfinite(mean).all() and np.isfinite(variance).all() and (variance > 0).all()):
        return None
    tilted = columns.likelihood.tilted(cavity(mean, variance, sites))
    return Point(sites, working, model, state, mean, variance, tilted)


def _moved(point: Point, share: float, floor: float | None) -> tuple[Sites, FloatArray, FloatArray]:
    """The sites after a damped sweep."""
    new, state = swept_sites(point.tilted), point.state
    new1, new2 = point.model.target_sites(state, floor)
    return (
        _mixed(point.sites, new, share),
        state.t1 + share * (new1 - state.t1),
        state.t2 + share * (new2 - state.t2),
    )


def _opening(columns: Columns, point: Point | None, tol: float, maxiter: int) -> Outcome:
    """Damped sweeps under a floor, until nearly settled."""
    energies: list[float] = []
    while point is not None:
        energies.append(-point.log_evidence())
        if len(energies) >= maxiter or point.residual(FLOOR) <= max(tol, FLOOR_TOL):
            break
        following = point_of(columns, *_moved(point, DAMPING, FLOOR), 0.0)
        if following is None:
            break
        point = following
    n_iter = max(len(energies), 1)
    residual = np.inf if point is None else point.residual()
    return Outcome(point, residual, n_iter, n_iter, tuple(energies))


def _sweeps(columns: Columns, point: Point, tol: float, maxiter: int) -> Outcome:
    """Sweeps without a floor, shorter where they do not come closer; back to the best point if they do not at all."""
    best, least, share, waiting, retreats, n_fac = point, point.residual(), DAMPING, 0, 0, 0
    before, energies = least, [-point.log_evidence()]
    n_iter = 1
    while least > tol and n_iter < maxiter and retreats < RETREATS:
        following = None
        while following is None and share > LEAST / 4:
            following = point_of(columns, *_moved(point, share, None))
            n_fac += 1
            share = share if following is not None else 0.5 * share
        n_iter += 1
        if following is None:
            point, share, waiting, retreats = best, LEAST, 0, retreats + 1
            continue
        point = following
        residual = point.residual()
        energies.append(-point.log_evidence())
        share = float(np.clip(share * (MORE if residual < before else LESS), LEAST, MOST))
        before, waiting = residual, waiting + 1
        if residual < least:
            retreats = 0 if residual < 0.9 * least else retreats
            best, least, waiting = point, residual, 0
        elif waiting >= PATIENCE:
            point, share, waiting, retreats, before = best, LEAST, 0, retreats + 1, least
    return Outcome(best, least, n_iter, n_fac + 1, tuple(energies))


def _turns(columns: Columns, outcome: Outcome, tol: float, maxiter: int) -> Outcome:
    """Rows and columns in turn, the columns' sites by the descent on the energy given those of the rows.

    Turns of the rows are accelerated as for the ridge.
    """
    point, out = outcome.point, outcome
    n_iter, n_fac, energies = outcome.n_iter, outcome.n_fac, list(outcome.energies)
    share, least, waiting, history, best = 1.0, np.inf, 0, History(), outcome.point
    while n_iter < maxiter and point is not None:
        goal = max(ROUGH * min(point.residual(), least, 1.0), 0.3 * tol)
        most = min(TURN, maxiter - n_iter)
        run = run_auto(point.model, point.state.t1, point.state.t2, tol=goal, maxiter=most, warm=True).run
        n_iter, n_fac = n_iter + run.n_iter + 1, n_fac + run.n_fac + 1
        settled = None if run.state is None else _point(columns, point.sites, point.working, point.model, run.state)
        if settled is None:
            break
        residual = settled.residual()
        energies.append(-settled.log_evidence())
        if residual < out.residual:
            out = replace(out, point=settled, residual=residual)
        if residual <= tol:
            break
        waiting += 1
        if residual < least:
            least, best, share, waiting = residual, settled, min(RECOVERY * share, 1.0), 0
        elif residual > WORSE * least or waiting > PATIENCE:
            share, settled, waiting = max(0.5 * share, LEAST), best, 0
            history.clear()
        assert settled is not None
        sites = history.next(settled.sites, swept_sites(settled.tilted), settled.variance, share)
        point = _towards(columns, settled, sites)
    return replace(out, n_iter=n_iter, n_fac=n_fac, energies=tuple(energies))


def _towards(columns: Columns, point: Point, sites: Sites) -> Point | None:
    """The point with other sites of the rows, or with sites on the way there if the Gaussian does not exist."""
    for share in HALVINGS:
        following = point_of(columns, _mixed(point.sites, sites, share), point.state.t1, point.state.t2)
        if following is not None:
            return following
    return None


def _mixed(old: Sites, new: Sites, share: float) -> Sites:
    return Sites(old.precision + share * (new.precision - old.precision), old.shift + share * (new.shift - old.shift))


def _result(columns: Columns, used: BoolArray, outcome: Outcome, tol: float) -> RowSitesResult:
    """Spread what was found for the columns that can be in over all columns."""
    point = outcome.point
    if point is None:
        sites = start_sites(columns.likelihood)
        state, evidence = _model(columns, Working.of(columns.x, columns.c, sites)).fallback(), np.nan
    else:
        sites, state, evidence = point.sites, point.state, point.log_evidence()
    return RowSitesResult(
        **spread_state(state, used),
        log_evidence=evidence,
        residual=outcome.residual,
        converged=bool(outcome.residual <= tol),
        n_iter=outcome.n_iter,
        n_fac=outcome.n_fac,
        energy_trace=np.array(outcome.energies),
        monotone_from=len(outcome.energies),
        active=np.zeros(used.size, dtype=bool),
        method="ep",
        evidence_biased=False,
        row_sites=sites,
    )


def _log_evidence_of_rows(sites: Sites, tilted: Tilted, mean: FloatArray, variance: FloatArray) -> float:
    """Sum over rows of the log mean of likelihood / site under the marginal."""
    of_row = (
        tilted.log_integral - 0.5 * np.log(2 * np.pi * variance) - mean * (sites.shift - 0.5 * sites.precision * mean)
    )
    return float(of_row.sum())
