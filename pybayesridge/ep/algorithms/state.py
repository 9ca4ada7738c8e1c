"""Where an EP iteration stands: sites, Gaussian moments, cavities, tilted moments, residual, evidence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pybayesridge._types import BoolArray, FloatArray, IntArray
from pybayesridge.ep.model.gaussian import Factor, GaussianSide, PrimalFactor
from pybayesridge.ep.model.likelihood import GaussianLikelihood
from pybayesridge.ep.model.prior import Prior, TiltedCoefficients, matching_sites, tilted

#: Posterior variances below this fraction of the variance given inclusion count as that fraction in
#: residuals.
_VAR_FLOOR = 1e-8
#: Cavities stay above this multiple of -1 / slab_var, where the tilted distribution ceases to exist.
CAVITY_FLOOR = -0.95
#: Largest site precision, relative to what data and slab know about the column: the coefficient is then zero.
_SITE_CAP = 1e13


@dataclass(frozen=True, slots=True)
class State:
    """Sites and all that follows from them; d coefficients.

    Attributes
    ----------
    t1, t2 : ndarray (d,)
        Sites ``exp(t1 w - t2 w^2 / 2)``.
    factor : Factor
        The factorised precision.
    mean : ndarray (d,)
        Mean of the Gaussian approximation.
    tilt : TiltedCoefficients
        Tilted distributions of the cavities.
    """

    t1: FloatArray
    t2: FloatArray
    factor: Factor
    mean: FloatArray
    tilt: TiltedCoefficients

    @property
    def var(self) -> FloatArray:
        """Marginal variances of the Gaussian approximation, shape (d,)."""
        return self.factor.var


@dataclass(frozen=True, slots=True)
class EPModel:
    """Likelihood and prior of d coefficients, with the bounds that keep arithmetic finite.

    Attributes
    ----------
    gaussian : GaussianSide
        The likelihood, ready to be factorised with sites.
    prior : Prior
        The prior, every p > 0.
    site_cap : ndarray (d,)
        Upper limits of the site precisions.
    copies : ndarray (d,) of int or None
        Equal for columns that are copies of each other up to sign; None when there are none.
    signs : ndarray (d,)
        Signs among the copies.
    """

    gaussian: GaussianSide
    prior: Prior
    site_cap: FloatArray
    copies: IntArray | None
    signs: FloatArray

    @classmethod
    def build(
        cls, gaussian: GaussianSide, prior: Prior, found: tuple[IntArray | None, FloatArray] | None = None
    ) -> EPModel:
        """Model of a likelihood and a prior with as many columns; `found` are the copies where they are known."""
        cap = _SITE_CAP * (gaussian.likelihood.precision + 1.0 / prior.slab_var)
        copies, signs = found or find_copies(gaussian.likelihood.data.root, prior.log_p, prior.groups)
        return cls(gaussian, prior, cap, copies, signs)

    def at(self, p: FloatArray, slab_var: float, noise_var: float) -> EPModel:
        """The same data with other hyperparameters; probabilities (d,) that are equal where they were."""
        gaussian = self.gaussian
        if noise_var != gaussian.likelihood.noise_var:
            gaussian = gaussian.with_noise(noise_var)
        cap = _SITE_CAP * (gaussian.likelihood.precision + 1.0 / slab_var)
        prior = Prior.from_probability(p, slab_var, self.prior.groups)
        return EPModel(gaussian, prior, cap, self.copies, self.signs)

    @property
    def likelihood(self) -> GaussianLikelihood:
        """The likelihood of the coefficients."""
        return self.gaussian.likelihood

    def start(self) -> tuple[FloatArray, FloatArray]:
        """Return the sites of the prior's mean and variance: ``t1 = 0``, ``t2 = 1 / (p vs)``."""
        with np.errstate(over="ignore"):
            t2 = np.exp(-self.prior.log_p) / self.prior.slab_var
        return np.zeros_like(t2), np.minimum(t2, self.site_cap)

    def state(self, t1: FloatArray, t2: FloatArray, cavity_floor: float | None = None) -> State | None:
        """State of these sites; None when the Gaussian or a cavity does not exist.

        With ``cavity_floor`` cavity precisions are raised to it (in units of 1 / slab_var) instead.
        """
        factor = self.gaussian.factor(t2)
        if factor is None:
            return None
        mean = factor.mean(t1)
        vs = self.prior.slab_var
        h2 = factor.cavity2
        if cavity_floor is not None:
            h2 = np.where(self.prior.always_in, h2, np.maximum(h2, cavity_floor / vs))
        elif np.any(h2 * vs <= CAVITY_FLOOR):
            return None
        h1 = mean / factor.var - t1
        if not (np.all(np.isfinite(h1)) and np.all(np.isfinite(h2))):
            return None
        return State(t1, t2, factor, mean, tilted(h1, h2, self.prior))

    def fallback(self) -> State:
        """Dress the prior alone as a state: what remains when rounding defeats all factorisations."""
        t1, t2 = self.start()
        zero = np.zeros_like(t1)
        factor = PrimalFactor(t2, 1.0 / t2, zero, float(np.sum(np.log(t2))), *(np.zeros((0, 0)),) * 2, zero)
        return State(t1, t2, factor, zero, tilted(zero, zero, self.prior))

    def target_sites(self, state: State, floor: float | None = None) -> tuple[FloatArray, FloatArray]:
        """Sites that match the tilted moments; with a floor (in units of 1 / slab_var) on their precision.

        Where the floor or the cap binds, the mean is still matched.
        """
        t1, t2 = matching_sites(state.tilt, self.prior)
        low = -np.inf if floor is None else floor / self.prior.slab_var
        bounded = np.clip(t2, low, self.site_cap)
        moved = bounded != t2
        if np.any(moved):
            t1 = np.where(moved, state.tilt.mean * (bounded + state.tilt.h2) - state.tilt.h1, t1)
        return self.symmetric(t1, bounded)

    def symmetric(self, t1: FloatArray, t2: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Give copies of a column the same sites."""
        if self.copies is None:
            return t1, t2
        count = np.bincount(self.copies)
        t1 = self.signs * (np.bincount(self.copies, self.signs * t1) / count)[self.copies]
        return t1, (np.bincount(self.copies, t2) / count)[self.copies]

    def residual(self, state: State, floor: float | None = None) -> float:
        """Largest change of a moment that the next full sweep wants, relative to the posterior deviation.

        ``max(|mean' - mean| / sd, |var' - var| / var)``, primes for the tilted moments (with a floor: those
        of the floored sites).
        """
        want_mean, want_var = state.tilt.mean, state.tilt.var
        if floor is not None:
            # The cavities may have been raised; what the sites would do to Q goes by Q's own.
            t1, t2 = self.target_sites(state, floor)
            want_var = 1.0 / np.maximum(t2 + state.factor.cavity2, np.finfo(float).tiny)
            want_mean = (t1 + state.mean / state.var - state.t1) * want_var
        scale = np.maximum(state.var, _VAR_FLOOR * state.tilt.slab_var)
        if scale.size == 0:
            return 0.0
        change = np.abs(want_mean - state.mean) / np.sqrt(scale)
        return float(np.max(np.maximum(change, np.abs(want_var - state.var) / scale)))

    def log_evidence(self, state: State) -> float:
        """``log Z(t) + sum(log Zhat(h) - log Ztilde(t + h))``, the EP evidence."""
        return self.gaussian.log_z(state.factor, state.t1, state.mean) + self.log_evidence_of_columns(state)

    def log_evidence_of_columns(self, state: State) -> float:
        """``sum(log Zhat(h) - log Ztilde(t + h))``: the part that is not the Gaussian's integral."""
        prec = state.t2 + state.tilt.h2
        v1 = state.t1 + state.tilt.h1
        log_marginal = 0.5 * (np.log(2.0 * np.pi / prec) + v1**2 / prec)
        return float(np.sum(state.tilt.log_norm - log_marginal))


def find_copies(
    root: FloatArray, log_p: FloatArray, groups: IntArray | None = None, tol: float = 1e-9
) -> tuple[IntArray | None, FloatArray]:
    """Find columns that are equal up to sign and have the same prior.

    With groups the other columns of their groups must be copies of each other too.

    Parameters
    ----------
    root : ndarray (k, d)
        Columns.
    log_p : ndarray (d,)
        Their log prior probabilities.
    groups : ndarray (d,) of int, optional
        Which columns are in or out together.
    tol : float
        Largest relative difference of equal columns.

    Returns
    -------
    labels : ndarray (d,) of int or None
        Equal for copies; None when all columns differ.
    signs : ndarray (d,)
        1, or -1 for a column that is minus the first of its copies.
    """
    d = root.shape[1]
    norm = np.sqrt(np.einsum("ij,ij->j", root, root))
    probe = np.abs(np.cos(1.7 * np.arange(root.shape[0]) + 0.3) @ root)
    order = np.argsort(probe, kind="stable")
    labels, signs = np.arange(d), np.ones(d)
    close = np.diff(probe[order]) <= 10.0 * tol * norm[order[1:]]
    first = order[0] if d else 0
    for i, near in zip(order[1:], close, strict=True):
        if near and norm[i] > 0 and log_p[i] == log_p[first]:
            sign = 1.0 if root[:, i] @ root[:, first] >= 0 else -1.0
            if np.linalg.norm(root[:, i] - sign * root[:, first]) <= tol * norm[i]:
                labels[i], signs[i] = labels[first], sign
                continue
        first = i
    if groups is not None and np.unique(labels).size < d:
        labels = _exchangeable(labels, groups)
    if np.unique(labels).size == d:
        return None, signs
    return np.unique(labels, return_inverse=True)[1].astype(np.intp), signs


def _exchangeable(labels: IntArray, groups: IntArray) -> IntArray:
    """Split labels of copies by the labels that the whole group of a column has."""
    members: dict[int, list[int]] = {}
    for group, label in zip(groups.tolist(), labels.tolist(), strict=True):
        members.setdefault(group, []).append(label)
    kinds = {group: tuple(sorted(them)) for group, them in members.items()}
    number: dict[tuple[int, tuple[int, ...]], int] = {}
    pairs = ((label, kinds[group]) for label, group in zip(labels.tolist(), groups.tolist(), strict=True))
    return np.array([number.setdefault(pair, len(number)) for pair in pairs], dtype=np.intp)


def active_sites(state: State, prior: Prior, floor: float) -> BoolArray:
    """Sites held by a floor (in units of 1 / slab_var) on their own or the cavity's precision; shape (d,).

    A damped site only approaches its floor, so what counts is whether the next one would lie below.
    """
    limit = floor / prior.slab_var
    wanted = np.minimum(state.t2, matching_sites(state.tilt, prior)[1])
    return ((wanted <= limit * (1.0 + 1e-6)) | (state.factor.cavity2 < limit)) & ~prior.always_in
