"""From a design and partly known hyperparameters to an approximate posterior: one fit, or an average over several."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit

from pybayesridge._types import BoolArray, FloatArray, IntArray
from pybayesridge.design.crossproducts import CrossProducts
from pybayesridge.design.design import Design
from pybayesridge.ep.algorithms.solve import ALGORITHMS, Method, fit_sites, nothing_left
from pybayesridge.ep.learning.average import HyperAverage, average
from pybayesridge.ep.learning.maximize import NAMES, learn
from pybayesridge.ep.model.hyper_prior import HyperPrior, hyper_prior
from pybayesridge.ep.model.hyperparameters import Hyperparameters, KnownHyperparameters
from pybayesridge.ep.model.least_squares import Data
from pybayesridge.ep.model.result import ColumnSites, EPResult
from pybayesridge.ep.model.rotation import Rotation
from pybayesridge.ep.model_size import size_distribution
from pybayesridge.linalg.qr import triangle

DEPENDENT = 1e-7
"""Columns of length 1 count as linearly dependent up to here: moments keep the square root of a double's digits."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Approximate posteriors at one or several values of the hyperparameters; all in the units of the design.

    Attributes
    ----------
    results : tuple of EPResult
        With groups, of the rotated columns.
    hypers : tuple of Hyperparameters
    weights : (g,) array
        Sums to 1.
    learned : tuple of str
        Names of the hyperparameters that were not given.
    log_evidence : float
        Of the response with norm 1.
    converged : bool
    n_fac : int
        Evaluations of the Gaussian's covariance in all, those of learning included.
    rotation : Rotation
        From the columns of the results back to those of the design.
    integrated : bool
        Whether hyperparameters that were not given are integrated out, and not at their estimates.
    unsettled : float
        Share of the posterior of the hyperparameters, roughly, where expectation propagation does not settle.
    """

    results: tuple[EPResult, ...]
    hypers: tuple[Hyperparameters, ...]
    weights: FloatArray
    learned: tuple[str, ...]
    log_evidence: float
    converged: bool
    n_fac: int
    rotation: Rotation
    integrated: bool = False
    unsettled: float = 0.0

    @property
    def best(self) -> EPResult:
        """The result of the largest weight."""
        return self.results[int(self.weights.argmax())]

    @property
    def best_hyper(self) -> Hyperparameters:
        """The hyperparameters of the largest weight."""
        return self.hypers[int(self.weights.argmax())]

    @property
    def noiseless(self) -> bool:
        """Whether this is the limit of :func:`select_nothing`, without noise."""
        return not self.best_hyper.noise_var > 0

    @property
    def residual(self) -> float:
        """Largest residual of EP where the weight is not negligible."""
        return max(r.residual for r, w in zip(self.results, self.weights, strict=True) if w > 1e-3)

    @property
    def n_iter(self) -> int:
        """Iterations of the best result."""
        return self.best.n_iter

    def averaged(self, name: str) -> FloatArray:
        """Average over the hyperparameters of an array of the results, (p,)."""
        return np.einsum("g,gj->j", self.weights, np.stack([getattr(r, name) for r in self.results]))

    @property
    def inclusion_prob(self) -> FloatArray:
        """Posterior inclusion probabilities, (p,)."""
        return np.clip(self.averaged("inclusion_prob"), 0.0, 1.0)

    def size_distribution(self, first: IntArray, sizes: IntArray) -> FloatArray:
        """Probabilities of the number of columns in, units being independent.

        Parameters
        ----------
        first : (G,) int array
            A column of each unit.
        sizes : (G,) int array
            Columns of each unit.
        """
        inclusion = np.clip(np.stack([r.inclusion_prob for r in self.results]), 0.0, 1.0)
        return size_distribution(inclusion[:, first], self.weights, sizes)

    @property
    def mean(self) -> FloatArray:
        """Posterior means of the design's columns, (p,)."""
        return self.rotation.back(self.averaged("mean"))

    def given_inclusion(self) -> tuple[FloatArray, FloatArray]:
        """Means and variances of the design's coefficients given that they are in, each (p,)."""
        share = self.component_shares()
        means, variances = self.slabs()
        mean = np.einsum("gj,gj->j", share, means)
        spread = variances + (means - mean) ** 2
        return mean, np.einsum("gj,gj->j", share, spread)

    def slabs(self) -> tuple[FloatArray, FloatArray]:
        """Means and variances given inclusion of the design's coefficients for each result, each (g, p)."""
        means = np.stack([r.cond_mean for r in self.results])
        variances = np.stack([r.cond_var for r in self.results])
        return self.rotation.back(means), self.rotation.variances(variances)

    def component_shares(self) -> FloatArray:
        """Weights of the results for a coefficient that is in, (g, p); the plain weights where none has it in."""
        share = self.weights[:, None] * np.stack([r.inclusion_prob for r in self.results])
        total = share.sum(axis=0)
        return np.where(total > 0, share / np.where(total > 0, total, 1.0), self.weights[:, None])


def data_of(design: Design) -> Data:
    """EP's data: the standardised rows where there are few, a square root of X'X where there are many.

    The rows are the one array of the size of X that EP needs; the square root comes from a QR factorisation by
    blocks, which squares no condition number.
    """
    y = design.y[:, 0]
    if design.n > design.p:
        r = triangle(np.hstack([piece, design.y[rows]]) for rows, piece in design.row_pieces())
        p = design.p
        root = np.ascontiguousarray(r[:p, :p])
        target = np.ascontiguousarray(r[:p, p])
        rss0 = float((r[p:, p] ** 2).sum())
        gram_diag = np.einsum("ij,ij->j", root, root)
        return Data(root, target, rss0, gram_diag, root.T @ target, float(design.nu))
    rows = np.empty((design.n, design.p))
    for part, piece in design.column_pieces():
        rows[:, part] = piece
    return Data(rows, y, 0.0, np.einsum("ij,ij->j", rows, rows), rows.T @ y, float(design.nu))


def data_of_products(design: Design, products: CrossProducts) -> Data:
    """EP's data where there are no rows: a square root of X'X by its eigenvalues."""
    if products.xty is None:
        raise AssertionError("moments yield X'y")
    gram = np.tril(products.product) + np.tril(products.product, -1).T
    data = Data.from_moments(gram, products.xty[:, 0], 0.0 if design.y_vanishes[0] else 1.0, float(design.nu))
    # Where the columns span all that Z leaves, what is left is rounding.
    return replace(data, rss0=0.0) if data.root.shape[0] >= design.nu else data


def select(
    data: Data,
    known: KnownHyperparameters,
    *,
    method: Method,
    tol: float,
    maxiter: int,
    damping: float,
    start: tuple[Hyperparameters, ColumnSites] | None,
    groups: IntArray | None = None,
    rotation: Rotation | None = None,
    n: float | None = None,
    expected_size: float = 1.0,
) -> Selection:
    """Learn what is not known, then run EP with the method asked for.

    `groups` (p,) says which columns are in or out together, `rotation` how `data` were rotated; `n` are the rows and
    `expected_size` the columns or groups expected to be in.
    """
    learned: tuple[str, ...] = ()
    certain, n_fac = True, 0
    first: ColumnSites | None = None if start is None else start[1]
    hyper = known.complete
    if hyper is None:
        found = learn(data, known, groups=groups, n=n, expected_size=expected_size, start=start)
        hyper, first, learned, certain = found.hyper, found.result, found.learned, found.converged
        n_fac = found.n_fac
    begin_at = first if ALGORITHMS[method].takes_learned_sites or start is not None else None
    result = fit_sites(
        hyper.likelihood(data),
        hyper.prior_inclusion,
        hyper.slab_var,
        groups=groups,
        method=method,
        tol=tol,
        maxiter=maxiter,
        damping=damping,
        start=begin_at,
    )
    converged = bool(result.converged and certain)
    n_fac += result.n_fac
    evidence = result.log_evidence
    return Selection((result,), (hyper,), np.ones(1), learned, evidence, converged, n_fac, rotation or Rotation())


def select_nothing(
    data: Data,
    known: KnownHyperparameters,
    method: Method,
    groups: IntArray | None = None,
    rotation: Rotation | None = None,
    expected_size: float = 1.0,
) -> Selection:
    """The limit for a response of zeros whose noise variance is learned; arguments as in :func:`select`.

    The density of y = 0 grows without bound as the noise variance s2 goes to 0. A set of columns A that is in
    multiplies it by ``|I + (v / s2) X_A'X_A|^(-1/2)``, which goes to 0 when the slab variance v is given: every
    column with p < 1 is out. A slab variance that is learned is in units of the response and 0, so that every
    coefficient is 0. A p that is learned is at the maximum of ``(1 - p)^G`` for G columns or groups, none of which is
    in, times its prior.

    Raises
    ------
    ValueError
        If the slab variance alone decides about coefficients: those of columns with p = 1 that depend linearly on
        each other, or of others that are combinations of these.
    """
    d = data.n_columns
    p = known.prior_inclusion
    if p is None:
        n_groups = d if groups is None else int(np.unique(groups).size)
        p = np.full(d, inclusion_of_nothing(hyper_prior(n_groups, data.gram_diag, 1.0, expected_size=expected_size)))
    always = p >= 1.0
    if known.slab_var is not None and _undetermined(data.root, always, (p > 0) & ~always):
        raise ValueError(
            "the unpenalised columns fit the response exactly, and columns that prior_inclusion = 1 keeps in are "
            "linearly dependent or span others, so that slab_var alone decides about their coefficients: give "
            "noise_var, or leave out slab_var"
        )
    learned = tuple(name for name in NAMES if getattr(known, name) is None)
    hyper = Hyperparameters(np.asarray(p, dtype=np.float64), known.slab_var or 0.0, 0.0)
    result = nothing_left(always.astype(np.float64), method, groups)
    return Selection((result,), (hyper,), np.ones(1), learned, np.nan, True, 0, rotation or Rotation())


def inclusion_of_nothing(prior: HyperPrior) -> float:
    """The maximum over p of ``(1 - p)^G`` times the prior of logit p, which is ``q c / (q + c)^2`` of the odds q."""
    g, c = float(prior.n_units), float(np.exp(prior.center))
    # The derivative is zero where (G + 1) q^2 + (1 + (G - 1) c) q - c = 0.
    b = 1.0 + (g - 1.0) * c
    q = 2.0 * c / (b + np.sqrt(b**2 + 4.0 * (g + 1.0) * c))
    return float(np.clip(q / (1.0 + q), expit(prior.t_low), expit(prior.t_high)))


def _undetermined(root: FloatArray, always: BoolArray, others: BoolArray) -> bool:
    """Whether the columns `always` of `root` are linearly dependent, or one of `others` is a combination of them."""
    if not always.any():
        return False
    length = np.sqrt(np.einsum("ij,ij->j", root, root))
    unit = root / np.where(length > 0, length, 1.0)
    u, s, _ = np.linalg.svd(unit[:, always], full_matrices=False)
    rank = int((s > DEPENDENT * s[0]).sum())
    rest = unit[:, others] - u[:, :rank] @ (u[:, :rank].T @ unit[:, others])
    return rank < always.sum() or bool((np.linalg.norm(rest, axis=0) <= DEPENDENT).any())


def average_over(
    data: Data,
    known: KnownHyperparameters,
    *,
    tol: float,
    maxiter: int,
    start: tuple[Hyperparameters, ColumnSites] | None,
    groups: IntArray | None = None,
    rotation: Rotation | None = None,
    n: float | None = None,
    expected_size: float = 1.0,
) -> Selection:
    """Average over a lattice of the hyperparameters that are not known; arguments as in :func:`select`."""
    found = average(
        data, known, groups=groups, n=n, expected_size=expected_size, tol=tol, maxiter=maxiter, start=start
    )
    return averaged_selection(found, rotation or Rotation())


def averaged_selection(found: HyperAverage, rotation: Rotation) -> Selection:
    """A selection from fits over a lattice of the hyperparameters."""
    return Selection(
        found.results,
        found.hypers,
        found.weights,
        found.learned,
        found.log_evidence,
        found.converged,
        found.n_fac,
        rotation,
        integrated=True,
        unsettled=found.unsettled,
    )
