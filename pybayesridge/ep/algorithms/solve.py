"""The way in: data and hyperparameters to an EP approximation, and what can be asked of it afterwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from pybayesridge._types import BoolArray, FloatArray, IntArray
from pybayesridge.ep.algorithms.convergent import run_convergent
from pybayesridge.ep.algorithms.damped import FLOOR, DampedRun, run_damped
from pybayesridge.ep.algorithms.monotone import run_auto
from pybayesridge.ep.algorithms.state import EPModel, State, active_sites
from pybayesridge.ep.model.gaussian import Factor, GaussianSide
from pybayesridge.ep.model.group_covariance import JointFactor, joint_factor
from pybayesridge.ep.model.groups import compress
from pybayesridge.ep.model.likelihood import GaussianLikelihood
from pybayesridge.ep.model.prior import Prior
from pybayesridge.ep.model.result import ColumnSites, EPResult
from pybayesridge.ep.model.rotation import Rotation

Method = Literal["ep", "damped", "pcep"]


@dataclass(frozen=True, slots=True)
class Algorithm:
    """One way to a fixed point of EP.

    Attributes
    ----------
    run : callable
        Of the model, the sites to start from, tolerance, most iterations, damping and whether the sites are those of
        a solution nearby: where it ended, and how many ordinary sweeps it began with.
    constrained : bool
        Whether sites are held by constraints also where it has converged.
    takes_learned_sites : bool
        Whether it starts from the sites that learning ended with; the paper's algorithms start from their own.
    """

    run: Callable[[EPModel, FloatArray, FloatArray, float, int, float, bool], tuple[DampedRun, int]]
    constrained: bool
    takes_learned_sites: bool


def _damped(
    model: EPModel, t1: FloatArray, t2: FloatArray, tol: float, maxiter: int, damping: float, warm: bool
) -> tuple[DampedRun, int]:
    run = run_damped(model, t1, t2, damping=damping, tol=tol, maxiter=maxiter)
    return run, run.n_iter


def _double_loop(
    model: EPModel, t1: FloatArray, t2: FloatArray, tol: float, maxiter: int, damping: float, warm: bool
) -> tuple[DampedRun, int]:
    return run_convergent(model, t1, t2, tol=tol, maxiter=maxiter), 0


def _descent(
    model: EPModel, t1: FloatArray, t2: FloatArray, tol: float, maxiter: int, damping: float, warm: bool
) -> tuple[DampedRun, int]:
    auto = run_auto(model, t1, t2, tol=tol, maxiter=maxiter, warm=warm)
    return auto.run, auto.n_sweeps


ALGORITHMS: dict[str, Algorithm] = {
    "ep": Algorithm(_descent, constrained=False, takes_learned_sites=True),
    "damped": Algorithm(_damped, constrained=True, takes_learned_sites=False),
    "pcep": Algorithm(_double_loop, constrained=True, takes_learned_sites=False),
}


def fit_sites(
    likelihood: GaussianLikelihood,
    prior_inclusion: FloatArray,
    slab_var: float,
    *,
    groups: IntArray | None = None,
    method: Method = "ep",
    tol: float = 1e-4,
    maxiter: int = 1000,
    damping: float = 0.5,
    start: ColumnSites | None = None,
) -> EPResult:
    """Approximate the posterior of d coefficients under a spike-and-slab prior by expectation propagation.

    Parameters
    ----------
    likelihood : GaussianLikelihood
        Of d columns.
    prior_inclusion : ndarray (d,)
        Prior probabilities in [0, 1]. Zero: the column is out. One: its prior is the slab.
    slab_var : float
        Variance, > 0.
    groups : ndarray (d,) of int, optional
        Columns with equal numbers are in or out together; their prior probabilities are equal.
    method : {"ep", "damped", "pcep"}
        "ep": ordinary EP, and where it does not settle a descent on its energy. "damped": damped parallel
        EP under the constraints of the paper. "pcep": the paper's provably convergent double loop.
    tol : float
        Tolerance of the scale-free residual.
    maxiter : int
        Iterations at most.
    damping : float
        For "damped": the share of the new site.
    start : ColumnSites, optional
        Those of the same columns, or a result, to start from.

    Returns
    -------
    EPResult
        The approximation; ``converged`` says whether it is one.

    Notes
    -----
    Hernández-Lobato and Hernández-Lobato (2011), "Convergent expectation propagation in linear models with
    spike-and-slab priors". Copies of a column (up to sign) get the same site.
    """
    used = prior_inclusion > 0
    if not np.any(used):
        return _nothing_in(likelihood, method)
    # Where numbers leave the range of floats a factorisation or a residual fails, and that is reported.
    with np.errstate(all="ignore"):
        model = model_of(likelihood, prior_inclusion, slab_var, used, groups)
        result = _dispatch(model, used, method, tol, maxiter, damping, start)
    return result if model.prior.groups is None else replace(result, groups=groups)


def _dispatch(
    model: EPModel,
    used: BoolArray,
    method: Method,
    tol: float,
    maxiter: int,
    damping: float,
    start: ColumnSites | None,
) -> EPResult:
    """Run the method and collect its result."""
    t1, t2, warm = first_sites(model, used, start)
    run, first = ALGORITHMS[method].run(model, t1, t2, tol, maxiter, damping, warm)
    return _result(model, run, used, method, first)


def posterior_factor(
    likelihood: GaussianLikelihood, result: EPResult
) -> tuple[Factor | JointFactor | None, BoolArray]:
    """Factorise the precision of the Gaussian approximation, and say which columns it covers.

    Its methods give predictive variances, draws, and products with the covariance, without a d x d array when
    d > n. With groups it is the Gaussian of :func:`pybayesridge.ep.model.group_covariance.joint_factor`.

    Parameters
    ----------
    likelihood : GaussianLikelihood
        That of the fit.
    result : EPResult
        The fit.

    Returns
    -------
    factor : Factor, JointFactor or None
        For the columns with prior probability > 0. None when there are none, and in the one case in which
        rounding defeated every factorisation: the coefficients are independent then.
    used : ndarray (d,) of bool
        Those columns.
    """
    used = np.isfinite(result.site2)
    if not np.any(used):
        return None, used
    gaussian = GaussianSide.build(likelihood.columns(used))
    groups = compress(result.groups, used)
    joint = None if groups is None else joint_factor(gaussian, result, used, groups)
    return joint or gaussian.factor(result.site2[used]), used


def row_variances(likelihood: GaussianLikelihood, result: EPResult, rows: FloatArray) -> FloatArray:
    """Posterior variances of the linear predictors ``rows @ w``; rows (k, d), result (k,)."""
    factor, used = posterior_factor(likelihood, result)
    return rows**2 @ result.var if factor is None else factor.row_var(rows[:, used])


def marginal_variances(likelihood: GaussianLikelihood, result: EPResult, rotation: Rotation) -> FloatArray:
    """Posterior variances of the coefficients before rotation, (d,): the diagonal of their covariance."""
    if result.groups is None:
        return result.var
    factor, used = posterior_factor(likelihood, result)
    out = result.var.copy()
    if isinstance(factor, JointFactor):
        out[used] = factor.var
    place = np.cumsum(used) - 1
    for index, u in rotation.blocks:
        known = used[index]
        block = np.diag(out[index])
        if factor is not None and np.any(known):
            block[np.ix_(known, known)] = factor.cov_block(place[index[known]])
        out[index] = np.einsum("ij,jk,ik->i", u, block, u)
    return out


def draw_coefficients(
    likelihood: GaussianLikelihood,
    result: EPResult,
    n_draws: int,
    rng: np.random.Generator,
    unit: IntArray | None = None,
) -> FloatArray:
    """Draws from the Gaussian approximation, shape (n_draws, d).

    With `unit` (c,), the columns of one unit, the prior of that unit stands in place of its sites: its columns are
    zero or in together, and the others are normal given these.
    """
    factor, used = posterior_factor(likelihood, result)
    if factor is None:
        out = result.mean + np.sqrt(result.var) * rng.standard_normal((n_draws, used.size))
    else:
        out = np.tile(result.mean, (n_draws, 1))
        out[:, used] += factor.draw(n_draws, rng)
    if unit is None:
        return out
    inside = rng.random(n_draws) < result.inclusion_prob[unit[0]]
    slab = result.cond_mean[unit] + np.sqrt(result.cond_var[unit]) * rng.standard_normal((n_draws, unit.size))
    drawn = np.where(inside[:, None], slab, 0.0)
    if factor is not None and used[unit].all():
        at = np.cumsum(used)[unit] - 1
        columns = factor.cov_columns(at)
        out[:, used] += (drawn - out[:, unit]) @ np.linalg.solve(columns[at], columns.T)
    out[:, unit] = drawn
    return out


def covariance(likelihood: GaussianLikelihood, result: EPResult) -> FloatArray:
    """Covariance matrix of the Gaussian approximation, shape (d, d)."""
    factor, used = posterior_factor(likelihood, result)
    out = np.diag(result.var)
    if factor is not None:
        out[np.ix_(used, used)] = factor.cov()
    return out


def model_of(
    likelihood: GaussianLikelihood,
    prior_inclusion: FloatArray,
    slab_var: float,
    used: BoolArray,
    groups: IntArray | None,
) -> EPModel:
    """Likelihood and prior of the columns that can be in."""
    prior = Prior.from_probability(prior_inclusion[used], slab_var, compress(groups, used))
    return EPModel.build(GaussianSide.build(likelihood.columns(used)), prior)


def first_sites(model: EPModel, used: BoolArray, start: ColumnSites | None) -> tuple[FloatArray, FloatArray, bool]:
    """Sites to start from, and whether they are those of an earlier result."""
    t1, t2 = model.start()
    if start is None:
        return t1, t2, False
    fixed = model.prior.always_in
    known = np.isfinite(start.site2[used]) & ~fixed
    w1, w2 = np.where(known, start.site1[used], t1), np.where(known, start.site2[used], t2)
    w1, w2 = model.symmetric(w1, np.minimum(w2, model.site_cap))
    if model.state(w1, w2) is None:
        return t1, t2, False
    return w1, w2, True


def _nothing_in(likelihood: GaussianLikelihood, method: str) -> EPResult:
    """Return the exact posterior when every coefficient is zero."""
    d = likelihood.n_columns
    energy = -likelihood.log_null
    zero = np.zeros(d)
    return EPResult(
        zero, np.full(d, np.inf), *(zero,) * 7, -energy, 0.0, True, 0, 0, np.array([energy]), 0,
        np.zeros(d, dtype=bool), method, False,
    )  # fmt: skip


def nothing_left(inclusion_prob: FloatArray, method: str, groups: IntArray | None) -> EPResult:
    """Return the limit in which every coefficient is zero, in or out, and no density is left to compare."""
    d = inclusion_prob.size
    zero = np.zeros(d)
    return EPResult(
        zero, np.full(d, np.inf), *(zero,) * 4, inclusion_prob, zero, zero, np.nan, 0.0, True, 0, 0, np.zeros(0), 0,
        np.zeros(d, dtype=bool), method, False, groups,
    )  # fmt: skip


def _result(model: EPModel, run: DampedRun, used: BoolArray, method: Method, first: int) -> EPResult:
    """Spread what was found for the used columns over all columns."""
    state = run.state or model.fallback()
    active = np.zeros(used.size, dtype=bool)
    if run.state is not None and (ALGORITHMS[method].constrained or not run.converged):
        active[used] = active_sites(state, model.prior, FLOOR)
    evidence = np.nan if run.state is None else model.log_evidence(state)
    return EPResult(
        **spread_state(state, used),
        log_evidence=evidence,
        residual=run.residual,
        converged=run.converged,
        n_iter=run.n_iter,
        n_fac=run.n_fac,
        energy_trace=np.array(run.energies),
        monotone_from=first,
        active=active,
        method=method,
        evidence_biased=bool(np.any(active)),
    )


def spread_state(state: State, used: BoolArray) -> dict[str, Any]:
    """Sites, moments and cavities of a state of the used columns, by name in :class:`EPResult`, for all d columns."""

    def spread(x: FloatArray, fill: float = 0.0) -> FloatArray:
        out = np.full(used.size, fill)
        out[used] = x
        return out

    return {
        "site1": spread(state.t1),
        "site2": spread(state.t2, np.inf),
        "mean": spread(state.mean),
        "var": spread(state.var),
        "cavity1": spread(state.tilt.h1),
        "cavity2": spread(state.tilt.h2),
        "inclusion_prob": spread(state.tilt.prob),
        "cond_mean": spread(state.tilt.slab_mean),
        "cond_var": spread(state.tilt.slab_var),
    }
