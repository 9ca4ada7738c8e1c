"""Small problems with yes/no responses, and integrals over their coefficients by brute force."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from pybayesridge.binomial.likelihood import Binomial, from_counts
from pybayesridge.design.build import build_design
from pybayesridge.ridge.prior import BetaPrime
from pybayesridge.ridge.spectrum import rotate
from pybayesridge.sites.coordinates import Coordinates, from_design
from pybayesridge.sites.fit import SitesOptions
from pybayesridge.sites.methods import METHODS
from pybayesridge.sites.nodes import Nodes
from pybayesridge.sites.prior import log_prior
from pybayesridge.sites.result import SitesFit

R2 = BetaPrime(scale=None)


def columns(n, p, seed):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, p)) * rng.uniform(0.5, 2.0, p) + rng.standard_normal(p)


def responses(x, seed, *, signal=1.5, intercept=0.3, trials=None):
    """Successes of logistic responses."""
    rng = np.random.default_rng(seed + 1000)
    b = rng.standard_normal(x.shape[1])
    eta = (x - x.mean(0)) @ b
    eta *= signal / eta.std()
    count = np.ones(len(x), dtype=int) if trials is None else trials
    return rng.binomial(count, 1 / (1 + np.exp(-intercept - eta))).astype(float)


def fit(space, likelihood, *, method="ep", prior=R2, flat_in, **options) -> SitesFit:
    """The answer of a method."""
    return METHODS[method].fit(space, likelihood, prior, flat_in, SitesOptions(**options))


def problem(x, successes, *, link="logit", trials=None, weights=None, z=None) -> tuple[Coordinates, Binomial]:
    """Coordinates and likelihood with an intercept, or the unpenalised columns `z`."""
    likelihood = from_counts(successes, trials, weights, link)
    block = np.ones((len(x), 1)) if z is None else z
    space = coordinates(
        likelihood,
        x,
        penalized=np.arange(x.shape[1]),
        z=block,
        z_names=[f"z{i}" for i in range(block.shape[1])],
        z_constant=0 if block.shape[1] else None,
        standardize=True,
    )
    return space, likelihood


def coordinates(likelihood, x, *, penalized, z, z_names, z_constant, standardize, constant_serves=False):
    """Project, standardise and rotate the columns; the arguments are those of `build_design`."""
    trials = likelihood.trials
    weights = None if np.ptp(trials) == 0 else trials / trials.mean()
    design, products = build_design(
        likelihood.proportion[:, None],
        x,
        penalized=penalized,
        z=z,
        z_names=z_names,
        z_constant=z_constant,
        weights=weights,
        standardize=standardize,
        constant_serves=constant_serves,
    )
    return from_design(design, rotate(design, products))


def nodes(space, likelihood, *, solver="ep", prior=R2, flat_in="link", tol=1e-7):
    return Nodes(space, likelihood, log_prior(prior, space, likelihood, flat_in), solver, tol, 200)


def standardized(x, weights=None):
    mean = np.average(x, axis=0, weights=weights)
    return (x - mean) / np.sqrt(np.average((x - mean) ** 2, axis=0, weights=weights))


def with_responses(x, trials, rng):
    """Columns standardised by trials (drawn from 1 to `trials`; one each if None), successes, and trials."""
    count = np.ones(len(x)) if trials is None else rng.integers(1, trials + 1, len(x)).astype(float)
    x = x - np.average(x, axis=0, weights=count)
    x /= np.sqrt(np.average(x**2, axis=0, weights=count))
    return x, rng.binomial(count.astype(int), expit(0.3 + x[:, 0])).astype(float), count
