"""The experiment of Hernández-Lobato and Hernández-Lobato (2011): their sets, every method on them, exact answers."""

from __future__ import annotations

from itertools import repeat
from typing import Any

import numpy as np

from benchmarks import measures
from benchmarks.common import clock
from benchmarks.paper_ep.enumeration import Exact, enumerate_patterns
from pybayesridge.ep import Data, EPResult, GaussianSide, Prior, fit_sites
from pybayesridge.ep.algorithms.damped import FLOOR, sweeps
from pybayesridge.ep.algorithms.state import EPModel
from pybayesridge.ep.model.likelihood import GaussianLikelihood

D, N, N_TEST, P, SLAB, SIGMA = 25, 10, 1000, 0.2, 1.0, 0.005
DAMPINGS = (0.1, 0.3, 0.5, 0.7, 0.9)
MAXITER = 1000
TOL = 1e-3
"""Of the scale-free residual: posterior standard deviations for means, a fraction for variances."""
ABSOLUTE = (1e-3, 3e-4, 1e-4)
"""Other rules by which one might stop: the largest change of a mean or a variance from one sweep to the next."""
METHODS: dict[str, dict[str, Any]] = {f"R-EP {tau}": {"method": "damped", "damping": tau} for tau in DAMPINGS}
METHODS |= {"PC-EP": {"method": "pcep"}, "ep": {"method": "ep"}, "ep, 1e-6": {"method": "ep", "tol": 1e-6}}


def paper_set(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """X, y, X_test, y_test: rows uniform on the unit sphere."""
    rng = np.random.default_rng([2011, seed])
    w = rng.standard_normal(D) * (rng.random(D) < P)
    X = rng.standard_normal((N + N_TEST, D))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = X @ w + SIGMA * rng.standard_normal(N + N_TEST)
    return X[:N], y[:N], X[N:], y[N:]


def exact_posterior(X: np.ndarray, y: np.ndarray) -> Exact:
    """The sum over all 2^25 patterns, at the true hyperparameters."""
    return enumerate_patterns(X, y, np.full(D, P), SLAB, SIGMA**2)


def rises(result: EPResult) -> int:
    """How often the energy rises by more than rounding where it must not."""
    energy = result.energy_trace[result.monotone_from :]
    return int(np.sum(np.diff(energy) > 1e-9 * (1.0 + np.abs(energy[1:]))))


def distances(result: EPResult, exact: Exact) -> dict[str, float]:
    """How far a result is from the exact posterior."""
    gap = np.abs(result.inclusion_prob - exact.inclusion_prob)
    return {
        "pip_mean": float(gap.mean()),
        "pip_max": float(gap.max()),
        "pip_divergence": measures.bernoulli_divergence(exact.inclusion_prob, result.inclusion_prob),
        "marginal_divergence": measures.normal_divergence(exact.mean, exact.var, result.mean, result.var),
        "evidence": abs(result.log_evidence - exact.log_evidence),
    }


def run_set(seed: int, with_exact: bool) -> dict[str, Any]:
    """Every method on one set."""
    X, y, X_test, y_test = paper_set(seed)
    data, p = Data.from_rows(X, y), np.full(D, P)
    out: dict[str, Any] = {}
    exact = None
    if with_exact:
        start = clock()
        exact = exact_posterior(X, y)
        seconds = clock() - start
        out["exact"] = {"mse": float(np.mean((X_test @ exact.mean - y_test) ** 2)), "seconds": seconds}
    for name, options in METHODS.items():
        start = clock()
        result = fit_sites(
            GaussianLikelihood(data, SIGMA**2), p, SLAB, **({"tol": TOL, "maxiter": MAXITER} | options)
        )
        out[name] = {
            "seconds": clock() - start,
            "converged": bool(result.converged),
            "constrained": bool(result.evidence_biased),
            "n_fac": int(result.n_fac),
            "rises": rises(result) if name[0] != "R" else 0,
            "mse": float(np.mean((X_test @ result.mean - y_test) ** 2)),
        }
        if exact is not None:
            out[name] |= distances(result, exact)
    out["stops"] = {str(tau): sweeps_until(data, p, tau) for tau in DAMPINGS}
    return out


def sweeps_until(data: Data, p: np.ndarray, damping: float) -> dict[str, int]:
    """Sweeps that R-EP runs under each rule for stopping, MAXITER + 1 where the rule is never met."""
    model = EPModel.build(GaussianSide.build(GaussianLikelihood(data, SIGMA**2)), Prior.from_probability(p, SLAB))
    found: dict[str, int] = {}
    before = None
    with np.errstate(all="ignore"):
        for sweep, state in enumerate(sweeps(model, *model.start(), repeat(damping)), start=1):
            moments = np.concatenate([state.mean, state.var])
            if before is not None:
                change = float(np.max(np.abs(moments - before)))
                for limit in ABSOLUTE:
                    if change <= limit:
                        found.setdefault(f"absolute {limit:g}", sweep)
            if model.residual(state, FLOOR) <= TOL:
                found.setdefault(f"scale-free {TOL:g}", sweep)
            before = moments
            if sweep >= MAXITER or len(found) == len(ABSOLUTE) + 1:
                break
    rules = [f"scale-free {TOL:g}", *(f"absolute {limit:g}" for limit in ABSOLUTE)]
    return {rule: found.get(rule, MAXITER + 1) for rule in rules}
