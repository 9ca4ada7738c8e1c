"""The posterior in parts, where columns separate the responses.

Along a direction that separates, the likelihood falls on one side and is level on the other: with a large variance
the posterior is like one half of the prior, and a normal distribution is a poor approximation of it. With u a linear
function of the coefficients that changes along the direction, and normal densities with means ``m_j = j h`` and a
standard deviation s,

    sum_j h N(u; m_j, s^2) = 1,

but for a ripple of ``2 exp(-2 pi^2 s^2 / h^2)``. The evidence is the sum of the integrals of likelihood times prior
times each of these windows, and the posterior the mixture of what each of them makes of it. Within a window u varies
little, and expectation propagation is accurate.

Where several directions separate, windows along all of them would be too many. The posterior is split along each of
the functions by itself, and it is the mixture of equally likely normal distributions, in each of which each function
has the mean and the variance of one stratum of its own distribution: that by expectation propagation, times a normal
function of each of the functions. Strata go together at random, but for the correlations of the functions.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import scipy
from scipy.special import logsumexp, ndtri, softmax

from pybayesridge._types import FloatArray
from pybayesridge.sites.approximation import Approximation
from pybayesridge.sites.ep import expectation_propagation
from pybayesridge.sites.fit import MOST_LOST
from pybayesridge.sites.gaussian import Gaussian, Windows
from pybayesridge.sites.likelihood import RowSites
from pybayesridge.sites.result import SitesFit
from pybayesridge.sites.separation import DIGITS, LEAST, separation

Fit = TypeVar("Fit", bound=SitesFit)

SPACING, WIDER, RATIO = 0.7, 1.4, 1.5
"""Distance of windows in standard deviations of the function by one normal distribution, also where there would be
too many, several directions separate, or coefficients have no posterior variance: that makes standard deviations
hardly smaller. And in standard deviations of a window: the ripple is 3e-4."""

SHARED, SEVERAL = 2, 12
"""Rows that a direction moves, about, the least, and directions, the most: with more, as where many columns separate
all responses, each is a small part of the linear predictors."""

DROP = 6.0
"""Windows whose part of the evidence is smaller by this in logarithm than the largest are left out."""

NARROW = 0.5
"""The posterior is split where linear predictors that are moved vary by so much, in root mean square."""

PARTS = 8.5
"""Parts along a direction, about, times the distance of windows."""

FARTHEST = 100
"""Windows on one side of the first, the most."""

SWEEPS, HALVINGS = 40, 3
"""Sweeps for a window, the most; where they are not enough windows are half as wide, so often at the most."""

OF_PARTS = 1 << 26
"""Most numbers in the roots of the covariances of all parts with one penalty, about, 512 MB."""

LITTLE = 1e-5
"""Weight of the least likely nodes together that are not split."""

TOL = 1e-2
"""Accuracy of the approximation in a window, in posterior standard deviations."""

TURNS, SAME = 100, 1e-8
"""Turns of directions, the most, or steps to a root, and their gain that counts as none, relative."""

ROUNDS, FITTED = 500, 1e-6
"""Rounds of the functions whose means and variances a normal distribution gets, the most (iterative proportional
fitting), and the relative changes that count as none."""

COMPONENTS = 32
"""Normal distributions in place of parts along several directions."""

MOST_TAKEN = 0.99
"""Part of a row's precision that its own site may be, the most: without it the others have to say something."""


def moved_by(basis: FloatArray, columns: FloatArray, likelihood: RowSites) -> FloatArray:
    """Linear functions of coefficients, (q, m), that say how far these have moved the rows along all that separates.

    They are in units of linear predictors, in root mean square of the rows that each moves, and each moves as few as
    can be, such as those of a level. None of those that move one row, for which expectation propagation is accurate,
    and none, (0, m), where there are many.

    Parameters
    ----------
    basis : (N, r) array
        Orthonormal columns that span those that are looked at, the unpenalised ones among them.
    columns : (N, m) array
        The penalised columns among them.
    likelihood : RowSites
    """
    basis = np.round(basis / np.linalg.norm(basis, axis=0), DIGITS)
    moved = separation(basis, likelihood).rows
    if not moved.any():
        return np.empty((0, columns.shape[1]))
    _, values, right = np.linalg.svd(basis[~moved])
    lost = basis.shape[1] - int((values > LEAST).sum())
    along = basis[moved] @ right[basis.shape[1] - lost :].T
    left, values, _ = np.linalg.svd(along, full_matrices=False)
    left = _few_rows_each(left[:, values > LEAST])
    shared = 1.0 / (left**4).sum(axis=0)
    some = shared > SHARED - 0.5
    if some.sum() > SEVERAL:
        return np.empty((0, columns.shape[1]))
    out: FloatArray = (left[:, some] / np.sqrt(shared[some])).T @ columns[moved]
    return out


def _few_rows_each(left: FloatArray) -> FloatArray:
    """Orthonormal columns turned so that their fourth powers have a large sum: few numbers are large (quartimax).

    From columns that are each the only ones to move one of some rows that differ much.
    """
    turned, before = left @ scipy.linalg.qr(left.T, pivoting=True, mode="economic")[0], 0.0
    for _ in range(TURNS):
        a, values, b = np.linalg.svd(left.T @ turned**3)
        turned, total = left @ (a @ b), float(values.sum())
        if total <= before * (1.0 + SAME):
            break
        before = total
    return turned


def split(
    node: Approximation, space: Any, likelihood: RowSites, moved: FloatArray, spacing: float = SPACING
) -> list[Approximation] | None:
    """The parts of the posterior at a node by windows, with their parts of the evidence; the node where it is narrow.

    Along the function that varies most. None where expectation propagation does not settle in a window.

    Parameters
    ----------
    node : Approximation
    space : Space
        At the node.
    likelihood : RowSites
    moved : (q, k + r) array
        Of coordinates of unit prior variance.
    spacing : float
        Of windows, in standard deviations.
    """
    gaussian = node.gaussian(space)
    sds = _deviations(gaussian, moved)
    row, sd = moved[int(np.argmax(sds))], float(sds.max())
    if sd < NARROW:
        return [node]
    for halving in range(HALVINGS + 1):
        try:
            parts = _along(node, space, likelihood, row, float(row @ gaussian.mean), 0.5**halving * spacing * sd)
        except FloatingPointError:
            parts = None
        if parts is not None:
            return parts
    return None


def _deviations(gaussian: Any, moved: FloatArray) -> FloatArray:
    """Standard deviations of functions, (m,)."""
    return np.array([np.linalg.norm(gaussian.half(row)) for row in moved])


def components(
    node: Approximation, space: Any, likelihood: RowSites, moved: FloatArray, spacing: float
) -> list[Approximation] | None:
    """The posterior at a node as equally likely normal distributions, in which functions are as by their parts.

    Their sites are those of the node. None where expectation propagation does not settle in a window, or the
    variances are too large for the sites.

    Parameters
    ----------
    node : Approximation
    space : Space
        At the node.
    likelihood : RowSites
    moved : (m, k + r) array
        Of coordinates of unit prior variance.
    spacing : float
        Of windows, in standard deviations.
    """
    gaussian = node.gaussian(space)
    rows = moved[_deviations(gaussian, moved) >= NARROW]
    if not len(rows):
        return [node]
    half = np.stack([gaussian.half(row) for row in rows])
    covariance, center = half @ half.T, rows @ gaussian.mean
    sd = np.sqrt(np.diag(covariance))
    mean, variance, more, sweeps = np.empty((COMPONENTS, len(rows))), np.empty((COMPONENTS, len(rows))), 0.0, 0
    strata = _strata(covariance / np.outer(sd, sd))
    for i, row in enumerate(rows):
        try:
            parts = _along(node, space, likelihood, row, float(center[i]), spacing * float(sd[i]))
        except FloatingPointError:
            return None
        if parts is None:
            return None
        log_evidence = np.array([part.log_evidence for part in parts])
        share = softmax(log_evidence)
        laws = [part.gaussian(space) for part in parts]
        at, own = (np.array(each) for each in zip(*(_moments(row, law) for law in laws), strict=True))
        by_stratum = _of_strata(share, at, own)
        mean[:, i], variance[:, i] = (each[strata[:, i]] for each in by_stratum)
        more += float(logsumexp(log_evidence)) - node.log_evidence
        sweeps += sum(part.n_iter for part in parts)
    more -= float(np.log(COMPONENTS))
    scaled, out = space.scaled(node.log_t2), []
    for at, own in zip(mean, variance, strict=True):
        factor = _factor_for(covariance, center, at, own)
        if factor is None:
            return None
        try:
            law = gaussian.times(rows, *factor)
        except np.linalg.LinAlgError:
            return None
        at_rows = law.variances(scaled)
        if (node.sites.precision * at_rows).max(initial=0.0) > MOST_TAKEN:
            return None
        out.append(
            replace(
                node,
                mean=scaled.times(law.mean),
                variance=at_rows,
                log_evidence=node.log_evidence + more,
                n_iter=sweeps,
                center=scaled.units * law.mean,
                joint=law,
                df=node.effective_df(),
            )
        )
        sweeps = 0
    return out


def _moments(row: FloatArray, law: Any) -> tuple[float, float]:
    """Mean and variance of a function."""
    half = law.half(row)
    return float(row @ law.mean), float(half @ half)


def _strata(correlation: FloatArray) -> Any:
    """Strata, (COMPONENTS, m), of each function once each, with about these correlations (Iman and Conover 1982).

    Points that fill the cube evenly, multiples of powers of the root of ``x^(m+1) = x + 1``, are made normal and
    correlated, and replaced by their ranks.
    """
    m = len(correlation)
    root = 2.0
    for _ in range(TURNS):
        root = (1.0 + root) ** (1.0 / (m + 1))
    cube = (0.5 + np.outer(np.arange(1, COMPONENTS + 1), root ** -np.arange(1.0, m + 1))) % 1.0
    normal = ndtri((cube.argsort(axis=0).argsort(axis=0) + 0.5) / COMPONENTS)
    normal = normal @ np.linalg.inv(np.linalg.cholesky(np.cov(normal.T, ddof=0).reshape(m, m))).T
    return (normal @ np.linalg.cholesky(correlation + 1e-9 * np.eye(m)).T).argsort(axis=0).argsort(axis=0)


def _of_strata(share: FloatArray, at: FloatArray, own: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Means and variances of equally likely strata of a mixture, in the order of its parts."""
    ends = np.r_[0.0, np.cumsum(share)]
    low = np.arange(COMPONENTS)[:, None] / COMPONENTS
    part = np.clip(np.minimum(ends[1:], low + 1 / COMPONENTS) - np.maximum(ends[:-1], low), 0.0, None)
    part /= part.sum(axis=1, keepdims=True)
    mean = part @ at
    return mean, part @ (own + at**2) - mean**2


def _factor_for(
    covariance: FloatArray, center: FloatArray, mean: FloatArray, variance: FloatArray
) -> tuple[FloatArray, FloatArray] | None:
    """Precisions and shifts, (m,) each, of normal functions that give a normal distribution some moments.

    None where there are none.

    Parameters
    ----------
    covariance, center : (m, m) array, (m,) array
        Of the distribution.
    mean, variance : (m,) arrays
        That it gets.
    """
    precision, shift = np.zeros(mean.size), np.zeros(mean.size)
    for _ in range(ROUNDS):
        change = 0.0
        for i in range(mean.size):
            own, at, column = covariance[i, i], center[i], covariance[:, i].copy()
            step, pull = 1.0 / variance[i] - 1.0 / own, mean[i] / variance[i] - at / own
            precision[i], shift[i] = precision[i] + step, shift[i] + pull
            center = center + column * (pull - step * at) / (1.0 + step * own)
            covariance = covariance - np.outer(column, column) * step / (1.0 + step * own)
            change = max(change, abs(step) * variance[i], abs(mean[i] - at) / np.sqrt(variance[i]))
        if change <= FITTED:
            return precision, shift
    return None


def _along(
    node: Approximation, space: Any, likelihood: RowSites, row: FloatArray, middle: float, spacing: float
) -> list[Approximation] | None:
    """The parts by windows along a linear function, from the middle on to both sides; None where one does not settle.

    The evidence is a log-concave function of where the window is, so that two parts bound the next.
    """
    found: dict[int, Approximation] = {}

    def solved(i: int, start: Approximation) -> bool:
        windows = _window(row, middle + i * spacing, spacing)
        with np.errstate(over="ignore"):
            found[i] = expectation_propagation(
                space, likelihood, node.log_t2, start.sites, tol=TOL, maxiter=SWEEPS, windows=windows
            )
        return found[i].converged

    if not solved(0, node):
        return None
    for side in (1, -1):
        for i in range(1, FARTHEST + 1):
            last, top = found[side * (i - 1)], max(part.log_evidence for part in found.values())
            before = found.get(side * (i - 2))
            if before is not None and 2 * last.log_evidence - before.log_evidence < top - DROP:
                break
            if not solved(side * i, last) and found[side * i].log_evidence > top - DROP:
                return None
        else:
            return None
    top = max(part.log_evidence for part in found.values())
    kept = [found[i] for i in sorted(found) if found[i].log_evidence > top - DROP]
    df = node.effective_df()
    return [replace(part, start=None, center=None, log_shape=node.log_shape, form=node.form, df=df) for part in kept]


def _window(row: FloatArray, center: float, spacing: float) -> Windows:
    """One of some windows."""
    return Windows(row[None], np.array([center]), np.array([spacing / RATIO]), float(np.log(spacing)))


def in_parts(fit: Fit, moved: FloatArray, most: float = np.inf) -> tuple[Fit, FloatArray]:
    """A fit whose nodes are split, and by how much the logs of the evidence at them change, (K,).

    Where there would be too many parts its nodes are mixtures by the parts of each function, or where that fails they
    are split along the widest alone. At the least likely nodes the log evidence is taken to change as at the nearest
    penalty, or as it does on average elsewhere. The fit itself where nothing is moved, or too many others cannot be
    split.

    Parameters
    ----------
    fit : SitesFit
        With one value of a further parameter.
    moved : (q, k + r) array
        As coefficients of the coordinates of the rows; see :func:`moved_by`.
    most : float
        Most parts, about.
    """
    nothing = fit, np.zeros(fit.weight.size)
    if not len(moved):
        return nothing
    best = int(np.argmax(fit.weight))
    node, at_best = fit.nodes[best], fit.space_at(best)
    assert isinstance(node, Approximation)
    several = int((_deviations(node.gaussian(at_best), at_best.in_units(moved, node.log_t2)) >= NARROW).sum()) > 1
    mixes = several and isinstance(node.gaussian(at_best), Gaussian)
    spacings = (SPACING, WIDER) if fit.moments_that_exist()["has_variance"] else (WIDER,)
    few = [each for each in spacings if len(fit.nodes) * PARTS / each <= most]
    if len(fit.nodes) * COMPONENTS > most if mixes else not few:
        return nothing

    def found_at(node: Approximation, space: Any) -> tuple[list[Approximation] | None, bool]:
        rows = space.in_units(moved, node.log_t2)
        found = components(node, space, fit.likelihood, rows, WIDER) if mixes else None
        if found is not None or not few:
            return found, True
        return split(node, space, fit.likelihood, rows, few[0]), not several

    order = np.argsort(fit.weight)
    some = order[np.cumsum(fit.weight[order]) > LITTLE]
    change, lost, sweeps, along_one = np.full(fit.weight.size, np.nan), 0.0, 0, 0.0
    parts: list[list[Approximation]] = [[node] for node in fit.nodes if isinstance(node, Approximation)]
    for i in some[::-1].tolist():
        (node,) = parts[i]
        found, along_all = found_at(node, fit.space_at(i))
        if found is None:
            lost += float(fit.weight[i])
            if lost > MOST_LOST:
                return nothing
            continue
        along_one += 0.0 if along_all else float(fit.weight[i])
        parts[i], sweeps = found, sweeps + sum(part.n_iter for part in found)
        change[i] = float(logsumexp([part.log_evidence for part in found])) - node.log_evidence
    known = np.isfinite(change)
    if fit.factors:
        mean = float(logsumexp(change[known], b=fit.weight[known] / fit.weight[known].sum()))
        change = np.where(known, change, mean)
    else:
        log_t2 = np.array([node.log_t2 for node in fit.nodes])
        change = np.interp(log_t2, log_t2[known], change[known])
    for i in np.flatnonzero(~known).tolist():
        parts[i] = [replace(parts[i][0], log_evidence=parts[i][0].log_evidence + change[i])]
    total = float(logsumexp(change, b=fit.weight))
    counts = [len(each) for each in parts]
    log_evidence = [np.array([part.log_evidence for part in each]) for each in parts]
    share = np.concatenate([softmax(each) for each in log_evidence])
    whole = replace(
        fit,
        nodes=tuple(part for each in parts for part in each),
        weight=np.repeat(fit.weight * np.exp(change - total), counts) * share,
        log_evidence=fit.log_evidence + total,
        n_iter=fit.n_iter + sweeps,
        factors=tuple(np.repeat(each, counts, axis=0) for each in fit.factors),
        split=along_one <= MOST_LOST,
        whole=fit if mixes else None,
    )
    return whole, change


def of_one_penalty(fit: SitesFit) -> SitesFit:
    """A fit whose penalised columns separate the responses in parts.

    Itself where a further parameter of the likelihood is integrated out, or nothing is, where few rows share a
    direction, or where there would be too many parts.
    """
    space = fit.space
    if fit.shape is not None or len(fit.nodes) == 1:
        return fit
    own = moved_by(space.rows, space.rows[:, space.k :], fit.likelihood)
    moved = np.hstack([np.zeros((len(own), space.k)), own])
    found, _ = in_parts(fit, moved, OF_PARTS / max(moved.shape[1], 1) ** 2)
    before, after = (float(each.weight @ [node.log_t2 for node in each.nodes]) for each in (fit, found))
    return replace(found, log_t2=fit.log_t2 + after - before)
