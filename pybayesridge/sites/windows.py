"""The posterior in parts, where columns separate the responses.

Along a direction that separates, the likelihood falls on one side and is level on the other: with a large variance
the posterior is like one half of the prior, and a normal distribution is a poor approximation of it. With u a linear
function of the coefficients that changes along the direction, and normal densities with means ``m_j = j h`` and a
standard deviation s,

    sum_j h N(u; m_j, s^2) = 1,

but for a ripple of ``2 exp(-2 pi^2 s^2 / h^2)``. The evidence is the sum of the integrals of likelihood times prior
times each of these windows, and the posterior the mixture of what each of them makes of it. Within a window u varies
little, and expectation propagation is accurate. Where several directions separate, the parts are split again, along
the function of the largest standard deviation that they leave.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from scipy.special import logsumexp

from pybayesridge._types import FloatArray
from pybayesridge.sites.approximation import Approximation
from pybayesridge.sites.ep import expectation_propagation
from pybayesridge.sites.fit import MOST_LOST
from pybayesridge.sites.gaussian import Windows
from pybayesridge.sites.likelihood import RowSites
from pybayesridge.sites.result import SitesFit
from pybayesridge.sites.separation import DIGITS, LEAST, separation

Fit = TypeVar("Fit", bound=SitesFit)

SPACING, WIDER, RATIO = 0.7, 1.4, 1.5
"""Distance of windows in standard deviations of the function by one normal distribution, also where there would be
too many, or coefficients have no posterior variance: that leaves standard deviations up to 6 % too small where two
levels separate, and hardly more than otherwise where one does. And in standard deviations of a window: the ripple is
3e-4."""

SHARED, SEVERAL = 4, 3
"""Rows that are moved for each direction, the least, and directions, the most: with more, as where many columns
separate all responses, each is a small part of the linear predictors."""

DROP = 6.0
"""Windows whose part of the evidence is smaller by this in logarithm than the largest are left out."""

NARROW = 0.5
"""The posterior is split where linear predictors that are moved vary by so much, in root mean square."""

SMALL, PARTS = 1e5, 8.5
"""Rows times squared coordinates, which a sweep costs, up to which a second direction is looked at, and parts along
one, about, times the distance."""

WIDE = 0.35
"""A second direction is looked at where standard deviations along it are such a part of the first's or larger: they
are 0.42 where two levels separate, and 0.1 to 0.3 along the others where columns separate all responses."""

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


def moved_by(basis: FloatArray, columns: FloatArray, likelihood: RowSites) -> FloatArray:
    """Linear functions of coefficients, (q, m), that say how far these have moved the rows along all that separates.

    They are in units of linear predictors, in root mean square of the rows that are moved. None where these are few
    for each direction, (0, m), or there are many: expectation propagation is more accurate then.

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
    left = left[:, values > LEAST]
    if moved.sum() < SHARED * left.shape[1] or left.shape[1] > SEVERAL:
        return np.empty((0, columns.shape[1]))
    out: FloatArray = left.T @ columns[moved] / np.sqrt(moved.sum())
    return out


def split(
    node: Approximation, space: Any, likelihood: RowSites, moved: FloatArray, depth: int, spacing: float = SPACING
) -> list[Approximation] | None:
    """The parts of the posterior at a node by windows, with their parts of the evidence; the node where it is narrow.

    None where expectation propagation does not settle in a window.

    Parameters
    ----------
    node : Approximation
    space : Space
        At the node.
    likelihood : RowSites
    moved : (q, k + r) array
        Of coordinates of unit prior variance.
    depth : int
        Directions along which it is split, the most.
    spacing : float
        Of windows, in standard deviations.
    """
    gaussian = node.gaussian(space)
    half = np.stack([gaussian.half(row) for row in moved])
    values, vectors = np.linalg.eigh(half @ half.T)
    sd = float(np.sqrt(max(values[-1], 0.0)))
    if sd < NARROW:
        return [node]
    row = vectors[:, -1] @ moved
    others = float(np.sqrt(max(values[-2], 0.0))) if depth > 1 else 0.0
    for halving in range(HALVINGS + 1):
        try:
            parts = _along(node, space, likelihood, row, float(row @ gaussian.mean), 0.5**halving * spacing * sd)
        except FloatingPointError:
            parts = None
        if parts is not None:
            break
    if parts is None or others < WIDE * sd:
        return parts
    out: list[Approximation] = []
    for part in parts:
        again = split(part, space, likelihood, moved, depth - 1, spacing)
        if again is None:
            return None
        out += again
    top = max(part.log_evidence for part in out)
    return [part for part in out if part.log_evidence > top - DROP]


def _along(
    node: Approximation, space: Any, likelihood: RowSites, row: FloatArray, middle: float, spacing: float
) -> list[Approximation] | None:
    """The parts by windows along a linear function, from the middle on to both sides; None where one does not settle.

    The evidence is a log-concave function of where the window is, so that two parts bound the next.
    """
    found: dict[int, Approximation] = {}

    def solved(i: int, start: Approximation) -> bool:
        windows = _with_another(node.windows, row, middle + i * spacing, spacing)
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
    return [replace(part, start=None, center=None, log_shape=node.log_shape, form=node.form) for part in kept]


def _with_another(windows: Windows | None, row: FloatArray, center: float, spacing: float) -> Windows:
    """Some windows and another."""
    rows, at, sd, log_factor = row[None], np.array([center]), np.array([spacing / RATIO]), float(np.log(spacing))
    if windows is None:
        return Windows(rows, at, sd, log_factor)
    return Windows(
        np.vstack([windows.rows, rows]),
        np.r_[windows.center, at],
        np.r_[windows.sd, sd],
        windows.log_factor + log_factor,
    )


def in_parts(fit: Fit, moved: FloatArray, most: float = np.inf) -> tuple[Fit, FloatArray]:
    """A fit whose nodes are split, and by how much the logs of the evidence at them change, (K,).

    At the least likely nodes it is taken to change as at the nearest penalty, or as it does on average elsewhere. The
    fit itself where nothing is moved, too many others cannot be split, or there would be too many parts.

    Parameters
    ----------
    fit : SitesFit
        With one value of a further parameter.
    moved : (q, k + r) array
        As coefficients of the coordinates of the rows; see :func:`moved_by`.
    most : float
        Most parts, about.
    """
    depth = min(len(moved), 2 if fit.likelihood.n * moved.shape[1] ** 2 <= SMALL else 1)
    spacings = (SPACING, WIDER) if fit.moments_that_exist()["has_variance"] else (WIDER,)
    ways = [(each, spacing) for each in range(depth, 0, -1) for spacing in spacings]
    few = [way for way in ways if len(fit.nodes) * (PARTS / way[1]) ** way[0] <= most]
    if not few:
        return fit, np.zeros(fit.weight.size)
    depth, spacing = few[0]
    order = np.argsort(fit.weight)
    some = order[np.cumsum(fit.weight[order]) > LITTLE]
    change, lost, sweeps = np.full(fit.weight.size, np.nan), 0.0, 0
    parts: list[list[Approximation]] = [[node] for node in fit.nodes if isinstance(node, Approximation)]
    for i in some[::-1].tolist():
        (node,), space = parts[i], fit.space_at(i)
        found = split(node, space, fit.likelihood, space.in_units(moved, node.log_t2), depth, spacing)
        if found is None:
            lost += float(fit.weight[i])
            if lost > MOST_LOST:
                return fit, np.zeros(change.size)
            continue
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
    share = np.concatenate([np.exp(each - logsumexp(each)) for each in log_evidence])
    whole = replace(
        fit,
        nodes=tuple(part for each in parts for part in each),
        weight=np.repeat(fit.weight * np.exp(change - total), counts) * share,
        log_evidence=fit.log_evidence + total,
        n_iter=fit.n_iter + sweeps,
        factors=tuple(np.repeat(each, counts, axis=0) for each in fit.factors),
        split=True,
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
