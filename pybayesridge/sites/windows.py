"""The posterior in parts, where columns separate the responses.

Along a direction that separates, the likelihood falls on one side and is level on the other: with a large variance
the posterior is like one half of the prior, and a normal distribution is a poor approximation of it. With u a linear
function of the coefficients that changes along the direction, and normal densities with means ``m_j = j h`` and a
standard deviation s,

    sum_j h N(u; m_j, s^2) = 1,

but for a ripple of ``2 exp(-2 pi^2 s^2 / h^2)``. The evidence is the sum of the integrals of likelihood times prior
times each of these windows, and the posterior the mixture of what each of them makes of it. Within a window u varies
little, and expectation propagation is accurate.

Windows are along the one function that varies most. What is left, where several directions separate or expectation
propagation is inaccurate along others, importance sampling about the parts corrects; see
:mod:`pybayesridge.sites.importance`. The parts stay where there are too many rows or coordinates for that.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import scipy
from scipy.special import logsumexp, softmax

from pybayesridge._types import BoolArray, FloatArray, IntArray
from pybayesridge.sites.approximation import Approximation
from pybayesridge.sites.ep import expectation_propagation
from pybayesridge.sites.fit import MOST_LOST
from pybayesridge.sites.gaussian import Gaussian, Windows
from pybayesridge.sites.importance import Mixture, sampled
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

COMPONENTS, OF_NODE = 32, (8, 64)
"""Normal distributions at a node by importance sampling, on average, and at one of them."""

DRAWS, AT_NODE, NUMBERS = 1 << 16, (1024, 4096), 1 << 28
"""Draws at all nodes together, about, at one of them, and linear predictors of them, the most."""

MANY, TIMES = 6, 4
"""So many coordinates, and so many times as many draws where several directions separate: of fewer draws few count
where coefficients are large, which decide about ends of intervals."""

SEVERAL_ONLY = 30
"""With more coordinates draws vary more than the parts along one direction are off."""


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

    Its nodes are mixtures by importance sampling about the parts where these are dense and few enough. At the least
    likely nodes the log evidence is taken to change as at the nearest penalty, or as it does on average elsewhere.
    The fit itself where nothing is moved, or too many others cannot be split.

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
    gaussian = node.gaussian(at_best)
    several = int((_deviations(gaussian, at_best.in_units(moved, node.log_t2)) >= NARROW).sum()) > 1
    sizes = _divided(fit, COMPONENTS * len(fit.nodes), OF_NODE)
    counts = _counts(fit, TIMES if several and gaussian.mean.size >= MANY else 1)
    samples = isinstance(gaussian, Gaussian) and counts.sum() * fit.likelihood.n <= NUMBERS and sizes.sum() <= most
    samples = samples and (several or gaussian.mean.size <= SEVERAL_ONLY)
    spacings = (SPACING, WIDER) if fit.moments_that_exist()["has_variance"] else (WIDER,)
    few = [each for each in spacings if len(fit.nodes) * PARTS / each <= most]
    if not few and not samples:
        return nothing

    order = np.argsort(fit.weight)
    some = order[np.cumsum(fit.weight[order]) > LITTLE]
    lost = along_one = 0.0
    parts: list[list[Approximation]] = [[node] for node in fit.nodes if isinstance(node, Approximation)]
    mixed = list(parts)
    known = np.zeros(fit.weight.size, dtype=bool)
    for i in some[::-1].tolist():
        (node,), space = parts[i], fit.space_at(i)
        spacing = WIDER if several or not few else few[0]
        found = split(node, space, fit.likelihood, space.in_units(moved, node.log_t2), spacing)
        if found is None:
            lost += float(fit.weight[i])
            if lost > MOST_LOST:
                return nothing
            continue
        samples = samples and (i != best or len(found) > 1)
        known[i], parts[i], mixed[i] = True, found, found
        mixture = (
            _by_sampling(node, found, space, fit.likelihood, int(counts[i]), int(sizes[i]), i) if samples else None
        )
        if mixture is not None:
            mixed[i] = mixture
        elif several and len(found) > 1:
            along_one += float(fit.weight[i])
    answer, change = _of_parts(fit, mixed, known)
    if not samples:
        return replace(answer, split=along_one <= MOST_LOST), change
    whole = fit if several else _of_parts(fit, parts, known)[0]
    return replace(answer, split=along_one <= MOST_LOST, whole=whole), change


def _divided(fit: SitesFit, total: int, limits: tuple[int, int]) -> IntArray:
    """A number for each node, (K,), about a total.

    In proportion to roots of weights: unlikely nodes decide about ends of intervals.
    """
    share = np.sqrt(fit.weight)
    return np.clip(total * share / share.sum(), *limits).astype(int)


def _counts(fit: SitesFit, times: int) -> IntArray:
    """Draws at each node, (K,), powers of two: so many times as many as usual, unless those are too many."""
    logs = np.round(np.log2(_divided(fit, DRAWS, AT_NODE))).astype(int)
    more: IntArray = times * 2**logs
    return more if more.sum() * fit.likelihood.n <= NUMBERS else 2**logs


def _by_sampling(
    node: Approximation,
    parts: list[Approximation],
    space: Any,
    likelihood: RowSites,
    count: int,
    most: int,
    seed: int,
) -> list[Approximation] | None:
    """The posterior at a node as a mixture by importance sampling about its parts; None where that fails.

    The sites of its parts are those of the node.
    """
    rows = space.scaled(node.log_t2)
    start = Mixture(softmax([part.log_evidence for part in parts]), [part.gaussian(space) for part in parts])
    try:
        found = sampled(rows, likelihood, start, count, most, seed)
    except np.linalg.LinAlgError:
        found = None
    if found is None:
        return None
    out, df, sweeps = [], node.effective_df(), sum(part.n_iter for part in parts)
    for share, law in zip(found.mixture.share.tolist(), found.mixture.laws, strict=True):
        part = replace(
            node,
            mean=rows.times(law.mean),
            variance=law.variances(rows),
            log_evidence=found.log_evidence + float(np.log(share)),
            n_iter=sweeps,
            start=None,
            center=rows.units * law.mean,
            joint=law,
            df=df,
        )
        out.append(part)
        sweeps = 0
    return out


def _of_parts(fit: Fit, parts: list[list[Approximation]], known: BoolArray) -> tuple[Fit, FloatArray]:
    """A fit of the parts of its nodes, and by how much the logs of the evidence change, which is `known` of some."""
    change = np.full(fit.weight.size, np.nan)
    for i in np.flatnonzero(known).tolist():
        change[i] = float(logsumexp([part.log_evidence for part in parts[i]])) - fit.nodes[i].log_evidence
    if fit.factors:
        mean = float(logsumexp(change[known], b=fit.weight[known] / fit.weight[known].sum()))
        change = np.where(known, change, mean)
    else:
        log_t2 = np.array([node.log_t2 for node in fit.nodes])
        change = np.interp(log_t2, log_t2[known], change[known])
    parts = list(parts)
    for i in np.flatnonzero(~known).tolist():
        parts[i] = [replace(parts[i][0], log_evidence=parts[i][0].log_evidence + change[i])]
    total = float(logsumexp(change, b=fit.weight))
    counts = [len(each) for each in parts]
    share = np.concatenate([softmax([part.log_evidence for part in each]) for each in parts])
    out = replace(
        fit,
        nodes=tuple(part for each in parts for part in each),
        weight=np.repeat(fit.weight * np.exp(change - total), counts) * share,
        log_evidence=fit.log_evidence + total,
        n_iter=fit.n_iter + sum(part.n_iter for i in np.flatnonzero(known).tolist() for part in parts[i]),
        factors=tuple(np.repeat(each, counts, axis=0) for each in fit.factors),
        split=True,
    )
    return out, change


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
