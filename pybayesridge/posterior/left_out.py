"""Predictive densities of rows left out, from components of the posterior of all rows.

Let w_k be the posterior weight of component k (a penalty, a set of columns, hyperparameters) and p_ik the predictive
density of row i given the other rows and k. Without row i the weights are proportional to ``w_k / p_ik``, so that the
predictive density of the row is ``1 / sum_k (w_k / p_ik)``: the harmonic mean, with all coefficients (and the noise
variance) integrated out analytically.

Given a component, coefficients are normal. With h_i the leverage of a row, e_i its residual and R the penalised
residual sum of squares, the row without itself has the residual ``d_i = e_i / (1 - h_i)``, the variance
``s2 / (1 - h_i)``, and the other rows have ``R - d_i^2 (1 - h_i)``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from scipy.special import gammaln, logsumexp, ndtr, stdtr

from pybayesridge._types import BoolArray, FloatArray

FULL_LEVERAGE = 1e-12
"""Below this, what the unpenalised columns leave of a row's leverage is zero: they pass through its response."""

EXACT = 1e-13
"""The other rows are fitted exactly if without a row at most this share of the residual sum of squares is left."""

NO_NOISE = "the response is fitted without noise"
UNDETERMINED = "the other rows do not determine an unpenalised coefficient"
LEVERAGE_ONE = "it is fitted exactly whatever its response is (leverage 1)"
ALONE = "without a row no degrees of freedom are left to estimate the noise variance"
FITTED = "the other rows are fitted without error"


class NoDensityError(ValueError):
    """A row or group, by its position or its label, has no leave-one-out density; None stands for all rows."""

    def __init__(self, row: Any, reason: str, what: str = "row") -> None:
        self.row, self.reason = row, reason
        which = (
            "the fit has no leave-one-out densities"
            if row is None
            else f"{what} {row!r} has no leave-one-out density"
        )
        super().__init__(f"{which}: {reason}")


class LargeGroupError(ValueError):
    """A group, by its position, has more rows than are predicted together."""

    def __init__(self, group: int, rows: int, most: int) -> None:
        self.group, self.rows, self.most = group, rows, most
        super().__init__(f"a group has {rows:,} rows, more than {most:,}")


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Every row predicted from the others.

    Attributes
    ----------
    log_density : (n,) array
        Log predictive density (or probability) of each row given the others.
    within : (n,) array
        Log predictive density of each row given all rows, itself included.
    pit : (n,) array or None
        Probability integral transform: the distribution function of the prediction at the response. None where the
        response is discrete.
    error : (n,) array or None
        The response minus the mean of the prediction; None where it is discrete.
    efficiency : (n,) array
        The effective share of the posterior draws when they are reweighted to leave out the row; of interest where
        the components are draws. 0 where sets of columns matter that are not known, infinite where no draws are used.
    doubtful : (n,) bool array or None
        Rows without which the approximation could be a very different one; None where nothing is approximated.
    influence : (K,) array or None
        Of each component: the sum over rows of its weight in the prediction of the row less its posterior weight.
        Minus this is what the component adds to the error of the sum of `log_density`, where components are draws.
    mcse : (n,) array or None
        Monte Carlo standard error of each log density, where components are draws.
    beyond : float
        Error of the sum of `log_density` that does not come from the weights of the components.
    draws : (n,) array or None
        Effective points of the integral over the linear predictors of a group; 0 where it is not known how good that
        is, None where it is in closed form.
    correction : (n,) array or None
        The part of `log_density` that comes from what the other rows' own approximation is without a group; None
        where nothing is approximated.
    """

    log_density: FloatArray
    within: FloatArray
    pit: FloatArray | None
    error: FloatArray | None
    efficiency: FloatArray
    doubtful: BoolArray | None = None
    influence: FloatArray | None = None
    mcse: FloatArray | None = None
    beyond: float = 0.0
    draws: FloatArray | None = None
    correction: FloatArray | None = None

    def in_units(self, unit: FloatArray) -> LeftOut:
        """The same for a response of which one unit is `unit` (n,)."""
        error = None if self.error is None else self.error * unit
        return replace(
            self, log_density=self.log_density - np.log(unit), within=self.within - np.log(unit), error=error
        )


class RowsLeftOut(Protocol):
    """A posterior that predicts rows of the data from each other, as long as they are here.

    Of ridges of responses that are not Gaussian the fit does, whose sites are those of the rows.
    """

    def rows_left_out(self, given: Any, /, target: int = 0) -> LeftOut:
        """Predictions of the rows of a target from the others, on the user's scale.

        Parameters
        ----------
        given : GaussianNoise, Likelihood or None
            What has to be known of the responses besides the posterior: the noise of ridges, the likelihood of rows
            that are not Gaussian.
        target : int

        Raises
        ------
        NoDensityError
            For a row that has none.
        """


@dataclass(frozen=True, slots=True)
class LeaveOneOut:
    """Every row predicted from the others by an approximation of its cavity: one copy of the row is left out.

    Attributes
    ----------
    log_score : (n,) array
        Log probability or density of one copy of the row, without its constant factor; -inf for a row without which
        an unpenalised coefficient is not determined.
    mean : (n,) array
        Mean of a response, of yes/no responses the probability of success; of a likelihood without posterior means
        the median of the mean.
    """

    log_score: FloatArray
    mean: FloatArray

    @staticmethod
    def of_earlier(state: dict[str, Any]) -> dict[str, Any]:
        """The attributes in files of earlier versions, in which the mean was a probability."""
        return {"mean": state["probability"], **state} if "probability" in state else state


def pooled(found: Sequence[LeftOut]) -> LeftOut:
    """Predictions by the equal-weight mixture of several posteriors; of a single one its own."""
    if len(found) == 1:
        return found[0]
    log_count = np.log(len(found))
    pits = [one.pit for one in found if one.pit is not None]
    errors = [one.error for one in found if one.error is not None]
    doubts = [one.doubtful for one in found if one.doubtful is not None]
    each = np.stack([one.log_density for one in found])
    total, efficiency = logsumexp(each, axis=0), np.stack([one.efficiency for one in found])
    own = np.stack([np.zeros(total.size) if one.mcse is None else one.mcse for one in found])
    draws = [one.draws for one in found if one.draws is not None]
    corrections = [one.correction for one in found if one.correction is not None]
    return LeftOut(
        total - log_count,
        logsumexp([one.within for one in found], axis=0) - log_count,
        np.mean(pits, axis=0) if pits else None,
        np.mean(errors, axis=0) if errors else None,
        # A row that is in doubt in one of them is in doubt.
        np.where((efficiency > 0).all(axis=0), efficiency.mean(axis=0), 0.0),
        np.any(doubts, axis=0) if doubts else None,
        mcse=None
        if all(one.mcse is None for one in found)
        else np.sqrt(((np.exp(each - total) * own) ** 2).sum(axis=0)),
        draws=np.min(draws, axis=0) if draws else None,
        # The largest says most of how far off the others may be.
        correction=np.max(np.abs(corrections), axis=0) if corrections else None,
    )


def mixed(
    weight: FloatArray,
    left_out: FloatArray,
    within: FloatArray,
    below: FloatArray | None = None,
    error: FloatArray | None = None,
    copies: FloatArray | None = None,
) -> LeftOut:
    """Mix K components with posterior weights (K,).

    Parameters
    ----------
    weight : (K,) array
        Sums to 1.
    left_out, within : (K, n) arrays
        Log densities of the rows given each component, without and with the row.
    below : (K, n) array or None
        Distribution functions of the first at the response.
    error : (K, n) array or None
        Differences of the response and their means.
    copies : (n,) array or None
        How often each row counts in `influence`; once by default.
    """
    keep = weight > 0
    log_w = np.log(weight[keep])[:, None]
    left_out, within = left_out[keep], within[keep]
    ratio = log_w - left_out
    total = logsumexp(ratio, axis=0)
    second = logsumexp(ratio - left_out, axis=0)
    share = np.exp(ratio - total)
    pit = None if below is None else np.clip((share * below[keep]).sum(axis=0), 0.0, 1.0)
    mean = None if error is None else (share * error[keep]).sum(axis=0)
    counts = np.ones(share.shape[1]) if copies is None else copies
    influence = np.zeros(weight.shape)
    influence[keep] = share @ counts - weight[keep] * counts.sum()
    density = logsumexp(log_w + within, axis=0)
    return LeftOut(-total, density, pit, mean, np.exp(2 * total - second), influence=influence)


def joined(parts: list[LeftOut]) -> LeftOut:
    """Consecutive rows put together."""
    pits = [part.pit for part in parts if part.pit is not None]
    errors = [part.error for part in parts if part.error is not None]
    doubts = [part.doubtful for part in parts if part.doubtful is not None]
    influences = [part.influence for part in parts if part.influence is not None]
    mcses = [part.mcse for part in parts if part.mcse is not None]
    return LeftOut(
        np.concatenate([part.log_density for part in parts]),
        np.concatenate([part.within for part in parts]),
        np.concatenate(pits) if pits else None,
        np.concatenate(errors) if errors else None,
        np.concatenate([part.efficiency for part in parts]),
        np.concatenate(doubts) if doubts else None,
        np.sum(influences, axis=0) if influences else None,
        np.concatenate(mcses) if mcses else None,
    )


@dataclass(frozen=True, slots=True)
class Noise:
    """The noise variance given a component.

    Attributes
    ----------
    count : float
        Degrees of freedom N of the data, of which a row takes away one.
    variance : (K, 1) array or None
        Where it is known.
    at_mode : bool
        Whether it is at its mode ``R / (N + 2)``, and not integrated out under ``1 / s2``.
    """

    count: float
    variance: FloatArray | None = None
    at_mode: bool = False


def check_noise(size: FloatArray) -> None:
    """Refuse components without noise, the sizes of which are given."""
    if not (size > 0).all():
        raise NoDensityError(None, NO_NOISE)


def undetermined(own: FloatArray) -> BoolArray:
    """Rows that the unpenalised columns, from which they have the leverages `own` (m,), fit whatever the response is.

    What is left of such a leverage is rounding.
    """
    out: BoolArray = own >= 1.0 - FULL_LEVERAGE
    return out


def given_components(
    weight: FloatArray, error: FloatArray, slack: FloatArray, rss: FloatArray, noise: Noise, start: int = 0
) -> LeftOut:
    """Predictions of rows with normal noise; arguments and exceptions as for :func:`checked_densities`."""
    found = checked_densities(weight, error, slack, rss, noise, start)
    return mixed(weight, found.left_out, found.within, found.below, found.error)


def checked_densities(
    weight: FloatArray, error: FloatArray, slack: FloatArray, rss: FloatArray, noise: Noise, start: int = 0
) -> Densities:
    """What components say of rows with normal noise.

    Parameters
    ----------
    weight : (K,) array
    error : (K, m) array
        Residuals d of the rows without themselves.
    slack : (K, m) array
        1 less the leverage of each row.
    rss : (K, 1) array
        R of each component.
    noise : Noise
    start : int
        Position of the first row, for messages.

    Raises
    ------
    NoDensityError
        If the other rows do not determine the prediction of a row, or are fitted exactly.
    """
    if noise.variance is None and not noise.at_mode and noise.count <= 1:
        raise NoDensityError(None, ALONE)
    used = weight > 0
    stuck = np.flatnonzero(~(slack[used] > 0).all(axis=0))
    if stuck.size:
        raise NoDensityError(start + int(stuck[0]), LEVERAGE_ONE)
    found = densities(error, slack, rss, noise)
    exact = np.flatnonzero(~found.proper[used].all(axis=0))
    if exact.size:
        raise NoDensityError(start + int(exact[0]), FITTED)
    return found


@dataclass(frozen=True, slots=True)
class Densities:
    """What K components say of m rows, (K, m) each.

    Attributes
    ----------
    left_out, within : arrays
        Log densities of the rows, without and with the row.
    below : array
        Distribution functions of the first at the response.
    error : array
        Differences of the response and the means of the first.
    proper : bool array
        Whether the other rows are not fitted exactly.
    """

    left_out: FloatArray
    within: FloatArray
    below: FloatArray
    error: FloatArray
    proper: BoolArray


def densities(error: FloatArray, slack: FloatArray, rss: FloatArray, noise: Noise) -> Densities:
    """What components say of rows with normal noise; arguments as for :func:`checked_densities`, slack positive."""
    proper = np.ones(np.broadcast_shapes(error.shape, rss.shape), dtype=bool)
    if noise.variance is not None:
        scale2, df = noise.variance, np.inf
    else:
        rest = 1.0 - error**2 * slack / rss
        proper = rest > EXACT
        rest = np.where(proper, rest, 1.0)
        n = noise.count
        if noise.at_mode:
            scale2, df = rss * rest / (n + 1), np.inf
        else:
            scale2, df = rss * rest / (n - 1), n - 1
    scale = np.sqrt(scale2 / slack)
    standard = error / scale
    return Densities(
        _log_density(error, scale, df),
        log_within(error, slack, rss, noise),
        ndtr(standard) if np.isinf(df) else stdtr(df, standard),
        error,
        proper,
    )


def log_within(error: FloatArray, slack: FloatArray, rss: FloatArray, noise: Noise) -> FloatArray:
    """Log densities of rows given components and all rows; arguments as for :func:`densities`."""
    df = np.inf
    if noise.variance is not None:
        scale2 = noise.variance
    elif noise.at_mode:
        scale2 = rss / (noise.count + 2)
    else:
        scale2, df = rss / noise.count, noise.count
    return _log_density(error * slack, np.sqrt(scale2 * (2.0 - slack)), df)


def _log_density(x: FloatArray, scale: FloatArray, df: float) -> FloatArray:
    """Log density of a t distribution, or with infinite `df` of a normal one."""
    if np.isinf(df):
        normal: FloatArray = -0.5 * (x / scale) ** 2 - np.log(scale) - 0.5 * np.log(2 * np.pi)
        return normal
    constant = gammaln((df + 1) / 2) - gammaln(df / 2) - 0.5 * np.log(df * np.pi)
    out: FloatArray = constant - np.log(scale) - (df + 1) / 2 * np.log1p((x / scale) ** 2 / df)
    return out
