"""Which columns are in, for yes/no responses: the exact posterior of the sets by Monte Carlo."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from pybayesridge._types import FloatArray
from pybayesridge.binomial.augmentation import Rows, problem_given
from pybayesridge.binomial.kept import Kept, State, mean_error
from pybayesridge.binomial.likelihood import LATENT_VARIANCE
from pybayesridge.binomial.walk import Walks
from pybayesridge.linalg.blas import one_pool
from pybayesridge.selection.fit import MAXITER, assembled
from pybayesridge.selection.grid import Given, Grid, grid_of
from pybayesridge.selection.result import Exact
from pybayesridge.selection.sampler import AGREEMENT, Run, allowed_mean_error
from pybayesridge.selection.starts import starting_sets
from pybayesridge.selection.states import States, draw_t, resampled
from pybayesridge.selection.tallies import Estimate, by_size, estimate

KEEP_EVERY = 5
"""Steps between states that are kept, to begin with: odd, see :meth:`Kept.thin`."""

FIRST_CHECK = ((50, 1024), (np.inf, 2048))
"""Steps of a chain before its precision is looked at, up to so many units."""


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
    acceptance : float
        Share of the proposals of auxiliary variables that were accepted.
    """

    exact: Exact
    joint: States
    k: int
    acceptance: float


def binary_grid(rows: Rows, given: Given) -> Grid:
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
    return grid_of(weighted, replace(given, noise_var=1.0, flat=rows.c.shape[1]))


def fit_binary_selection(
    rows: Rows,
    given: Given,
    *,
    mcse: float = 0.01,
    n_chains: int = 4,
    maxiter: int = MAXITER,
    rng: int | np.random.Generator = 0,
    progress: Callable[[int, Estimate | None], None] | None = None,
) -> BinarySelection:
    """Sample sets, the slab's variance and auxiliary variables.

    Parameters
    ----------
    rows : Rows
        The unpenalised columns must not separate the responses.
    given : Given
        On the scale of the link; a noise variance is not looked at.
    mcse, n_chains, maxiter, rng, progress
        As for :func:`pybayesridge.selection.fit.fit_exact`. Sampling also goes on until the means of the coefficients
        are known to a tenth of their standard deviations, or five times `mcse`: the auxiliary variables move them
        slowly if the columns separate the responses.
    """
    generator = np.random.default_rng(rng)
    grid = binary_grid(rows, given)
    with one_pool(0.0):
        problem = problem_given(rows, rows.start())
        starts = starting_sets(problem, grid, n_chains, generator)
        walks = Walks(problem, grid, starts, generator, Kept(KEEP_EVERY))
        converged, interrupted = _walk(walks, mcse, max(maxiter // n_chains, 1), progress)
        sums = walks.node_sum
        run = Run(
            estimate=estimate(walks.tallies),
            trace=walks.trace(),
            coef=walks.coef,
            node_prob=sums / sums.sum() if sums.sum() > 0 else sums,
            converged=converged,
            interrupted=interrupted,
            limited=walks.limited,
            drift=0.0,
        )
        states, joint = _states(walks.kept.after(walks.tallies.lead), rows, grid, generator)
        exact = replace(assembled(problem, grid, run, states, (np.nan, np.nan)), mean_error=_mean_error(walks))
    return BinarySelection(exact, joint, rows.c.shape[1], walks.accepted / walks.proposed)


def _walk(
    walks: Walks, mcse: float, most: int, progress: Callable[[int, Estimate | None], None] | None
) -> tuple[bool, bool]:
    """Take steps until the largest standard error is at most `mcse` and the chains agree; whether, or interrupted."""
    n_chains, n_units = walks.tallies.denom.shape[1], walks.chains.problem.units.n
    check, now = by_size(FIRST_CHECK, n_units), None

    def told(steps: int) -> None:
        if progress is not None:
            progress(steps * n_chains, now)

    try:
        while walks.tallies.steps < most:
            walks.advance(min(check, most) - walks.tallies.steps, told)
            now = estimate(walks.tallies)
            precise = now.se.max(initial=0.0) <= mcse and now.agreement <= AGREEMENT
            if walks.tallies.steps >= check and precise and _mean_error(walks) <= allowed_mean_error(mcse):
                return True, False
            check = int(1.25 * check)
    except KeyboardInterrupt:
        if walks.tallies.steps == 0:
            raise
        return False, True
    return False, False


def _mean_error(walks: Walks) -> float:
    return mean_error(walks.kept.after(walks.tallies.lead), sum(walks.problems[0].on_c.shape))


def _states(found: list[State], rows: Rows, grid: Grid, rng: np.random.Generator) -> tuple[States, States]:
    """The kept states without and with the unpenalised coefficients."""
    k = rows.c.shape[1]
    weight = np.array([state.weight for state in found])
    sizes = np.array([state.mean.size for state in found], dtype=np.float64)
    index, weight = resampled(weight / weight.sum(), sizes, rng)
    chosen = [found[i] for i in index.tolist()]
    nodes = np.array([state.node for state in chosen], dtype=np.intp)
    t = draw_t(grid, np.array([state.units.size for state in chosen], dtype=np.intp), nodes, rng)
    always = np.arange(k, dtype=np.intp)

    def states(columns: list[np.ndarray], means: list[FloatArray], roots: list[FloatArray]) -> States:
        return States(
            columns=np.concatenate([np.zeros(0, dtype=np.intp), *columns]).astype(np.intp),
            start=np.concatenate([[0], np.cumsum([c.size for c in columns])]).astype(np.intp),
            weight=weight / weight.sum(),
            chain=np.array([state.chain for state in chosen], dtype=np.intp),
            log_g=grid.log_g[nodes],
            t=t,
            left=np.zeros(nodes.size),
            noise_var=np.ones(nodes.size),
            nu=float(rows.x.shape[0] - k),
            coef=np.concatenate([np.zeros(0), *means]),
            root=tuple(roots),
        )

    alone = states([s.columns for s in chosen], [s.mean[k:] for s in chosen], [s.root[k:, k:] for s in chosen])
    joint = states(
        [np.concatenate([always, k + s.columns]) for s in chosen],
        [s.mean for s in chosen],
        [s.root for s in chosen],
    )
    return alone, joint
