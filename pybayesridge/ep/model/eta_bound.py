"""How far up the share that columns explain is looked for: as far as it has posterior probability.

The prior of eta, the log odds of that share, is logistic: it falls as ``exp(-eta)`` and needs no upper bound. Nor
does the posterior. Let g = v / s2 grow with p held, and a set of rank r leave a residual sum of squares rho. With s2
integrated out the density of y given the set is ``|I + g X_A'X_A|^(-1/2) R^(-nu/2)``, where the determinant grows as
``g^r`` and R falls to rho, or as ``1 / g`` if rho is 0. The density thus falls as ``g^(-r/2)`` where something is
left over, and has a positive limit where r = nu, so that the columns fit any response: the prior, which falls as ``1
/ g``, makes the integral over log g finite. It diverges only where rho is exactly 0 although r is less than nu - 1;
there, the last digits of the response decide. With s2 given the density is bounded.

Quadrature has to end somewhere. Of sets that a forward selection passes, and of all columns together, nearly all data
have little posterior probability beyond the bound of :data:`~pybayesridge.ep.model.hyper_prior.ETA_BOUNDS`, which
then is the bound. Where there is more beyond it, because there is hardly any noise or because large coefficients
cancel each other, the bound is where next to nothing is left. The prior is normalised between its bounds; what it has
beyond the least one changes the log evidence by .0025 at most, whatever the bound is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import log_expit

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.data.units import Units
from pybayesridge.ep.model.hyper_prior import HyperPrior, bell

MOST = 100.0
"""The largest bound: no share that double precision tells from 1 is beyond it."""

BEYOND = 0.01
"""Posterior probability beyond the least bound from which it is raised."""

NEGLIGIBLE = 1e-8
"""Posterior probability beyond a bound that is raised."""

PLAUSIBLE = 3.0
"""The log odds of the share that a set explains from which the posterior is looked at."""

RESOLVED = 1e-15
"""Share of the response's square below which a residual sum of squares is rounding."""

DEPENDENT = 1e-12
"""A column adds nothing to others if they leave less than this share of its square."""

STEPS = 200
"""Columns of a set of the forward selection at most."""

ALL_STEPS = 100
"""Up to so many columns the forward selection goes on to the end."""

PATIENCE = 3
"""Else it ends after so many columns that are no gain."""

MOST_SOLVED = 2500
"""Up to this many columns all of them are a set, too."""

WIDTH = 0.5
"""Distance of the nodes of log g."""

NODES_T = 60
"""Nodes of t."""


@dataclass(frozen=True, slots=True)
class Regression:
    """What the bound is found from.

    Attributes
    ----------
    cross, diag : (d,) arrays
        X'y, and the diagonal of X'X.
    yy, nu : float
    products : callable
        Columns of X'X, as rows, (m, d), by their numbers.
    units : Units
    given : (d,) array or None
        Prior inclusion probabilities.
    noise_var : float or None
        s2, if it is given.
    """

    cross: FloatArray
    diag: FloatArray
    yy: float
    nu: float
    products: Callable[[IntArray], FloatArray]
    units: Units
    given: FloatArray | None = None
    noise_var: float | None = None

    def log_likelihood(self, left: FloatArray) -> FloatArray:
        """The part that depends on R."""
        if self.noise_var is not None:
            return -0.5 * left / self.noise_var
        return -0.5 * self.nu * np.log(left)


@dataclass(frozen=True, slots=True)
class _Set:
    """A set of columns, its number of units, residual sum of squares, and sum of squared coefficients."""

    columns: IntArray
    size: int
    left: float
    square: float


@dataclass(frozen=True, slots=True)
class Reach:
    """How far up eta is looked for.

    Attributes
    ----------
    eta_high : float
        The upper bound: that of the prior, or a larger whole number.
    strong : (float, float, float) or None
        Where it is larger, p (1 where the p_j are given), v and s2 of the likeliest of the sets.
    """

    eta_high: float
    strong: tuple[float, float, float] | None = None


def reach_of(prior: HyperPrior, problem: Regression) -> Reach:
    """The upper bound of eta, v being learned."""
    nowhere = Reach(prior.eta_high)
    if not problem.yy > 0 or not np.any(problem.diag > 0):
        return nowhere
    always = np.zeros(0, dtype=np.intp) if problem.given is None else np.flatnonzero(problem.given >= 1.0)
    if always.size > MOST_SOLVED:
        return Reach(MOST)
    sets = [*_passed(problem, always), *_all_together(problem)]
    if not any(_log_odds(prior, problem, one) > PLAUSIBLE for one in sets):
        return nowhere
    eta, mass, share = _posterior(prior, problem, sets)
    places = np.clip(eta, 0.0, MOST).astype(np.intp)
    beyond = np.cumsum(np.bincount(places.ravel(), mass.ravel(), minlength=int(MOST) + 1)[::-1])[::-1] / mass.sum()
    if beyond[int(prior.eta_high)] <= BEYOND:
        return nowhere
    best = sets[int(np.argmax(share))]
    strong = None
    if best.square > 0:
        p = 1.0 if problem.given is not None else best.size / problem.units.n
        strong = (p, best.square / best.columns.size, _noise(problem, best))
    return Reach(min(float(np.argmax(np.append(beyond, 0.0) <= NEGLIGIBLE)), MOST), strong)


def least_left(problem: Regression) -> float:
    """The least residual sum of squares of a set of at most half as many columns as there are degrees of freedom."""
    sets = _passed(problem, np.zeros(0, dtype=np.intp))
    return min((one.left for one in sets if one.columns.size <= 0.5 * problem.nu), default=problem.yy)


def _passed(problem: Regression, always: IntArray) -> list[_Set]:
    """The sets of a forward selection, and the one that it begins with."""
    d, units = problem.diag.size, problem.units
    possible = np.ones(d, dtype=bool) if problem.given is None else (problem.given > 0) & (problem.given < 1)
    most = int(min(max(STEPS, 2 * always.size), problem.nu, d))
    cross, length = problem.cross.copy(), problem.diag.copy()
    rows, fits, order = np.empty((most, d)), np.zeros(most), np.zeros(most, dtype=np.intp)
    columns, out, n = list(always.tolist()), [], 0
    left, best, since = problem.yy, np.inf, 0
    new, size = always, int(np.unique(units.of_column[always]).size)
    while True:
        for j in new.tolist():
            if n == most or length[j] <= DEPENDENT * problem.diag[j]:
                continue
            rows[n] = (problem.products(np.array([j]))[0] - rows[:n, j] @ rows[:n]) / np.sqrt(length[j])
            fits[n], order[n] = cross[j] / np.sqrt(length[j]), j
            cross, length = cross - fits[n] * rows[n], np.maximum(length - rows[n] ** 2, 0.0)
            left, n = max(left - fits[n] ** 2, RESOLVED * problem.yy), n + 1
        coef = solve_triangular(rows[:n, order[:n]], fits[:n]) if n else fits[:0]
        out.append(_Set(np.array(columns, dtype=np.intp), size, left, float(coef @ coef)))
        value = -float(problem.log_likelihood(np.array(left))) + size * np.log(units.n + 1.0)
        since = since + 1 if value >= best else 0
        best = min(best, value)
        possible[new] = False
        free = possible & (length > DEPENDENT * problem.diag)
        if n == most or left <= RESOLVED * problem.yy or not free.any() or (since >= PATIENCE and d > ALL_STEPS):
            return out
        gain = np.divide(cross**2, length, out=np.zeros(d), where=free)
        unit = int(np.argmax(np.bincount(units.of_column, gain, minlength=units.n)))
        new, size = units.columns(np.array([unit])), size + 1
        columns += new.tolist()


def _all_together(problem: Regression) -> list[_Set]:
    """The set of all columns, where they may leave something over; the forward selection need not come so far."""
    columns = np.arange(problem.diag.size) if problem.given is None else np.flatnonzero(problem.given > 0)
    if columns.size <= ALL_STEPS or columns.size > MOST_SOLVED or columns.size >= problem.nu:
        return []
    gram = problem.products(columns)[:, columns]
    gram.flat[:: columns.size + 1] += DEPENDENT * problem.diag.max()
    coef = np.linalg.solve(gram, problem.cross[columns])
    left = max(problem.yy - float(problem.cross[columns] @ coef), RESOLVED * problem.yy)
    size = int(np.unique(problem.units.of_column[columns]).size)
    return [_Set(columns, size, left, float(coef @ coef))]


def _log_odds(prior: HyperPrior, problem: Regression, one: _Set) -> float:
    """The log odds of the share that a set explains, by its coefficients' mean square and its number of units."""
    m = one.columns.size
    if m == 0 or one.square == 0.0:
        return -np.inf
    log_p = 0.0 if problem.given is not None else np.log(one.size / problem.units.n)
    return float(prior.eta(np.asarray(log_p), np.asarray(np.log(one.square / m / _noise(problem, one)))))


def _noise(problem: Regression, one: _Set) -> float:
    """The noise variance that a set leaves."""
    return problem.noise_var or one.left / max(problem.nu - one.columns.size, 1.0)


def _posterior(prior: HyperPrior, problem: Regression, sets: list[_Set]) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Places of eta and posterior masses there, up to a constant, at nodes of t and log g; masses of the sets."""
    t = np.zeros(1) if problem.given is not None else np.linspace(prior.t_low, prior.t_high, NODES_T)
    log_p = np.zeros(1) if problem.given is not None else log_expit(t)
    log_g = np.arange(prior.eta_low - log_p[-1], MOST - log_p[0], WIDTH) - prior.log_spread
    eta = prior.eta(log_p[:, None], log_g)
    of_eta = np.where((eta >= prior.eta_low) & (eta <= MOST), np.exp(bell(eta)), 0.0)
    if problem.given is not None:
        log_size = np.array([[_log_prior_odds(problem, one) for one in sets]])
    else:
        size = np.array([one.size for one in sets])
        of_units = size * log_p[:, None] + (problem.units.n - size) * log_expit(-t)[:, None]
        log_size = of_units + bell(t - prior.center)[:, None]
    most = log_size.max(axis=0)
    of_set = np.stack([_at_nodes(problem, one, log_g) for one in sets]) + most[:, None]
    of_set, of_size = np.exp(of_set - of_set.max()), np.exp(log_size - most)
    return eta, (of_size @ of_set) * of_eta, (of_size * (of_eta @ of_set.T)).sum(axis=0)


def _log_prior_odds(problem: Regression, one: _Set) -> float:
    """Log prior probability of a set, up to a constant, where those of units are given."""
    assert problem.given is not None
    units = np.unique(problem.units.of_column[one.columns])
    p = problem.given[problem.units.order[problem.units.start[:-1]]][units]
    p = p[p < 1.0]
    return float((np.log(p) - np.log1p(-p)).sum())


def _at_nodes(problem: Regression, one: _Set, log_g: FloatArray) -> FloatArray:
    """Log p(y | A, g) at nodes of log g, up to a constant."""
    if one.columns.size == 0:
        return np.full(log_g.size, float(problem.log_likelihood(np.array(problem.yy))))
    values, vectors = np.linalg.eigh(problem.products(one.columns)[:, one.columns])
    square = (problem.cross[one.columns] @ vectors) ** 2
    keep = values > DEPENDENT * values[-1]
    values, square = values[keep], square[keep]
    k = np.exp(-log_g)[:, None]
    # What no coefficients leave over, and what the penalty does: without a difference of large numbers.
    left = max(one.left, RESOLVED * problem.yy) + (square * k / (values * (values + k))).sum(axis=1)
    return np.asarray(problem.log_likelihood(left) - 0.5 * np.log1p(values / k).sum(axis=1))
