"""Which columns are in, for yes/no responses: the exact posterior of the sets by Monte Carlo."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pybayesridge._types import FloatArray
from pybayesridge.binomial.augmentation import BinomialRows, problem_given
from pybayesridge.binomial.kept import WalkState
from pybayesridge.binomial.link import LATENT_VARIANCE
from pybayesridge.binomial.walk import BinaryWalk
from pybayesridge.linalg.blas import one_pool
from pybayesridge.selection.collapsed import log_prior
from pybayesridge.selection.fit import MAXITER, assembled, largest_set, n_walkers
from pybayesridge.selection.grid import Given, Grid, grid_of, least_prior
from pybayesridge.selection.result import Exact
from pybayesridge.selection.sampler import Progress, run_walk
from pybayesridge.selection.search import ForwardSearch
from pybayesridge.selection.starts import starting_states
from pybayesridge.selection.states import States, draw_t, resampled


@dataclass(frozen=True, slots=True)
class BinarySelection:
    """The posterior of the sets, and the kept states with the unpenalised coefficients.

    Attributes
    ----------
    exact : Exact
        With the log evidence NaN, which the sampler does not give; noise variances are 1, those given the auxiliary
        variables.
    joint : States
        The same states with the unpenalised coefficients as the first k columns of every set.
    k : int
    """

    exact: Exact
    joint: States
    k: int


def binary_grid(rows: BinomialRows, given: Given) -> Grid:
    """Nodes of log v and the prior of p: that of a Gaussian response whose noise is that of the latent one.

    The share explained a priori is ``h = d p v / (d p v + c)``, with c the variance of the latent noise and the
    columns' mean squares weighted by trials. Unpenalised coefficients are flat in units of the latent response's
    standard deviation, as for the ridge.
    """
    trials = rows.likelihood.trials
    base = problem_given(rows, rows.start())
    weighted = replace(
        base,
        diag=(trials / trials.mean()) @ rows.square,
        n=rows.x.shape[0] * LATENT_VARIANCE[rows.likelihood.link],
    )
    given = replace(given, noise_var=1.0, flat=rows.c.shape[1])
    return grid_of(weighted, given, prior=least_prior(weighted, given))


def fit_binary_selection(
    rows: BinomialRows,
    given: Given,
    *,
    mcse: float = 0.01,
    n_chains: int = 4,
    maxiter: int = MAXITER,
    rng: int | np.random.Generator = 0,
    progress: Progress | None = None,
) -> BinarySelection:
    """Sample sets, the slab's variance and auxiliary variables.

    Parameters
    ----------
    rows : BinomialRows
        The unpenalised columns must not separate the responses.
    given : Given
        On the scale of the link; a noise variance is not looked at.
    mcse, n_chains, maxiter, rng, progress
        As for :func:`pybayesridge.selection.fit.fit_exact`. Sampling also goes on until the means of the coefficients
        are known to a tenth of their standard deviations, or five times `mcse`: the auxiliary variables move them
        slowly if the columns separate the responses.
    """
    return sample_binary(
        rows,
        binary_grid(rows, given),
        mcse=mcse,
        n_chains=n_chains,
        maxiter=maxiter,
        rng=rng,
        progress=progress,
    )


def sample_binary(
    rows: BinomialRows,
    grid: Grid,
    *,
    mcse: float,
    n_chains: int = 4,
    maxiter: int = MAXITER,
    rng: int | np.random.Generator = 0,
    progress: Progress | None = None,
) -> BinarySelection:
    """:func:`fit_binary_selection` with the nodes of log g and the prior of another fit, or of its own."""
    generator = np.random.default_rng(rng)
    walkers = n_walkers(n_chains, grid.n_units)
    with one_pool(0.0):
        problem = problem_given(rows, rows.start())
        most = largest_set(problem, walkers)
        searched = ForwardSearch.beside(problem, grid, most, generator).sets()
        starts = starting_states(problem, grid, walkers, generator, (), most, searched)
        walk = BinaryWalk(problem, grid, starts, generator, most, progress)
        run = run_walk(walk, mcse, maxiter)
        alone, joint = _states(walk.kept.after(walk.lead), rows, grid, generator, walkers // n_chains)
        exact = assembled(problem, grid, run, alone, (np.nan, np.nan), most)
    return BinarySelection(exact, joint, rows.c.shape[1])


def _states(
    found: list[WalkState], rows: BinomialRows, grid: Grid, rng: np.random.Generator, walkers: int
) -> tuple[States, States]:
    """The kept states without and with the unpenalised coefficients, walker by walker; `walkers` are a chain."""
    k = rows.c.shape[1]
    found = sorted(found, key=lambda state: (state.walker, state.step))
    weight = np.ones(len(found))
    sizes = np.array([state.mean.size for state in found], dtype=np.float64)
    index, weight = resampled(weight / weight.sum(), sizes, rng)
    chosen = [found[i] for i in index.tolist()]
    nodes = np.array([state.node for state in chosen], dtype=np.intp)
    t = draw_t(grid, np.array([state.units.size for state in chosen], dtype=np.intp), nodes, rng)
    always = np.arange(k, dtype=np.intp)
    walker = np.array([state.walker for state in chosen], dtype=np.intp)
    slab = np.array([mean_slab(grid, state, k) for state in chosen])

    def states(columns: list[np.ndarray], means: list[FloatArray], roots: list[FloatArray]) -> States:
        return States(
            columns=np.concatenate([np.zeros(0, dtype=np.intp), *columns]).astype(np.intp),
            start=np.concatenate([[0], np.cumsum([c.size for c in columns])]).astype(np.intp),
            weight=weight / weight.sum(),
            chain=walker // max(walkers, 1),
            log_g=grid.log_g[nodes],
            t=t,
            left=np.zeros(nodes.size),
            noise_var=np.ones(nodes.size),
            nu=float(rows.x.shape[0] - k),
            coef=np.concatenate([np.zeros(0), *means]),
            root=tuple(roots),
            walker=walker,
            slab_mean=slab,
        )

    alone = states([s.columns for s in chosen], [s.mean[k:] for s in chosen], [s.root[k:, k:] for s in chosen])
    joint = states(
        [np.concatenate([always, k + s.columns]) for s in chosen],
        [s.mean for s in chosen],
        [s.root for s in chosen],
    )
    return alone, joint


def mean_slab(grid: Grid, state: WalkState, k: int) -> float:
    """Mean of the slab's variance given the set and the auxiliary variables of a state, over the nodes of log g.

    The covariance ``(X'WX + 1 / g)^-1`` of the state's penalised coefficients at its own g, and their mean, say what
    the density of the set is at the others.
    """
    root = state.root[k:, k:]
    own, axes = np.linalg.eigh(root @ root.T)
    values = np.maximum(1.0 / own - grid.k[state.node], 0.0)
    cross = (state.mean[k:] @ axes) / own
    ridge = values + grid.k[:, None]
    log_mass = log_prior(grid, state.units) - 0.5 * np.log(np.exp(grid.log_g)[:, None] * ridge).sum(axis=1)
    log_mass += 0.5 * (cross**2 / ridge).sum(axis=1)
    weight = np.exp(log_mass - log_mass.max())
    return float(weight @ np.exp(grid.log_g) / weight.sum())
