"""A sampler of sets of columns by other moves than the package's, for long chains that serve as the truth.

Metropolis-Hastings: a column comes in, goes out or is swapped for a correlated one, and logit p and log g take steps
of a random walk. Coefficients and the noise are integrated out, each set by a Cholesky factorisation of its own. The
prior is that of ``SpikeSlab.fit("exact")``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack
from scipy.special import expit

LOW_ETA, HIGH_ETA = -5.0, 6.0
LARGEST_P, LEAST_SHARE = 0.995, 0.01
LEAST_CORRELATION = 0.3
"""Columns are swapped for others that are at least so correlated."""
STEP = 1.0
"""Of the random walk."""


@dataclass(frozen=True, slots=True)
class Target:
    """Cross-products of centred columns, and what is given: all hyperparameters (p, g, s2) or none.

    Attributes
    ----------
    gram : (d, d) array
    cross : (d,) array
    yy, nu, n : float
    given : tuple of float or None
    """

    gram: np.ndarray
    cross: np.ndarray
    yy: float
    nu: float
    n: float
    given: tuple[float, float, float] | None = None

    @property
    def d(self) -> int:
        """Number of columns."""
        return int(self.cross.size)

    def log_likelihood(self, inside: list[int], log_g: float) -> float:
        """Log p(y | set, g) up to a constant."""
        left, log_det, k = self.yy, 0.0, np.exp(-log_g)
        if inside:
            part = self.gram[np.ix_(inside, inside)]
            part.flat[:: len(inside) + 1] += k
            root, _ = lapack.dpotrf(part, lower=1, overwrite_a=1)
            half, _ = lapack.dtrtrs(root, self.cross[inside], lower=1)
            left -= float(half @ half)
            log_det = 2.0 * float(np.log(root.diagonal()).sum()) + len(inside) * log_g
        if self.given is None:
            return -0.5 * self.nu * np.log(left) - 0.5 * log_det
        return -0.5 * left / self.given[2] - 0.5 * log_det

    def log_prior(self, m: int, t: float, log_g: float) -> float:
        """Log prior of one set of m columns, t and log g, up to a constant."""
        size = m * t - self.d * np.logaddexp(0.0, t)
        if self.given is not None:
            return size
        eta = t - np.logaddexp(0.0, t) + log_g + np.log(self.gram.trace() / self.n)
        p = expit(t)
        if not (LOW_ETA <= eta <= HIGH_ETA and LEAST_SHARE / self.d <= p <= LARGEST_P):
            return -np.inf
        return size + bell(t + np.log(self.d - 1.0)) + bell(eta)


def bell(x: float) -> float:
    """Log of the logistic density."""
    return -abs(x) - 2.0 * np.log1p(np.exp(-abs(x)))


@dataclass(frozen=True, slots=True)
class Moves:
    """How columns are proposed.

    Attributes
    ----------
    add : (d,) array
        Probabilities of columns that come in.
    partners : list of int arrays
        Columns for which each may be swapped.
    """

    add: np.ndarray
    partners: list[np.ndarray]


def moves_of(target: Target) -> Moves:
    """Columns by their own fit to the response, mixed with all alike."""
    diag = target.gram.diagonal()
    share = target.cross**2 / diag / target.yy
    score = (1.0 - share) ** (-0.5 * min(target.nu, 100.0))
    add = 0.5 * score / score.sum() + 0.5 / target.d
    root = np.sqrt(diag)
    near = np.abs(target.gram / root[:, None] / root) >= LEAST_CORRELATION
    np.fill_diagonal(near, False)
    return Moves(add, [np.flatnonzero(row) for row in near])


def long_chain(target: Target, steps: int, seed: int) -> np.ndarray:
    """Inclusion probabilities by the share of steps, after a tenth of them, (d,)."""
    rng, moves = np.random.default_rng([seed, 7]), moves_of(target)
    inside: list[int] = []
    t, log_g = -np.log(target.d - 1.0), -1.0
    if target.given is not None:
        t, log_g = np.log(target.given[0] / (1 - target.given[0])), np.log(target.given[1])
    own = target.log_likelihood(inside, log_g)
    counts, since = np.zeros(target.d), np.zeros(target.d, dtype=int)
    lead = steps // 10
    cumulative = np.cumsum(moves.add)
    uniforms = rng.random((steps, 4))
    walks = STEP * rng.standard_normal((steps, 2)) if target.given is None else np.zeros((steps, 2))
    for step in range(steps):
        kind, which, point, accept = uniforms[step]
        new, log_ratio = proposal(target, moves, inside, kind, which, point, cumulative)
        if new is not None:
            value = target.log_likelihood(new, log_g)
            change = target.log_prior(len(new), t, log_g) - target.log_prior(len(inside), t, log_g)
            if np.log(accept) < value - own + change + log_ratio:
                for j in set(inside) ^ set(new):
                    if j in inside:
                        counts[j] += max(step - max(since[j], lead), 0)
                    since[j] = step
                inside, own = new, value
        if target.given is None:
            t, log_g, own = hyper_step(target, inside, (t, log_g, own), walks[step], rng)
    for j in inside:
        counts[j] += steps - max(since[j], lead)
    return counts / (steps - lead)


def proposal(
    target: Target,
    moves: Moves,
    inside: list[int],
    kind: float,
    which: float,
    point: float,
    cumulative: np.ndarray,
) -> tuple[list[int] | None, float]:
    """A new set, and the log ratio of the probabilities of the way back and the way there; None for no change."""
    m = len(inside)
    if kind < 0.4:
        j = min(int(cumulative.searchsorted(point * cumulative[-1])), target.d - 1)
        if j in inside:
            return None, 0.0
        return [*inside, j], -np.log(m + 1.0) - np.log(moves.add[j])
    if not m:
        return None, 0.0
    at = min(int(which * m), m - 1)
    out = inside[at]
    rest = inside[:at] + inside[at + 1 :]
    if kind < 0.8:
        return rest, np.log(m) + np.log(moves.add[out])
    partners = moves.partners[out]
    if not partners.size:
        return None, 0.0
    j = int(partners[min(int(point * partners.size), partners.size - 1)])
    if j in inside:
        return None, 0.0
    return [*rest, j], float(np.log(partners.size) - np.log(moves.partners[j].size))


def hyper_step(
    target: Target,
    inside: list[int],
    now: tuple[float, float, float],
    walk: np.ndarray,
    rng: np.random.Generator,
) -> tuple[float, float, float]:
    """A Metropolis step of t and log g; now and then of both, in opposite directions, so that p g stays."""
    t, log_g, own = now
    new_t = t + walk[0]
    new_g = log_g - walk[0] + 0.3 * walk[1] if rng.random() < 0.5 else log_g + walk[1]
    value = target.log_likelihood(inside, new_g)
    change = target.log_prior(len(inside), new_t, new_g) - target.log_prior(len(inside), t, log_g)
    if np.log(rng.random()) < value - own + change:
        return new_t, new_g, value
    return now
