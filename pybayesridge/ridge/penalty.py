"""The posterior of the penalty and the noise of a fit, and all that follows from it: what results ask."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import betaln

from pybayesridge._types import AnyArray, FloatArray, IntArray
from pybayesridge.design.design import Design
from pybayesridge.linalg import blas
from pybayesridge.ridge import hyperparameters as hyper
from pybayesridge.ridge.density import information, is_proper, log_likelihood, log_marginal
from pybayesridge.ridge.explained import explained_share
from pybayesridge.ridge.fit import FitOptions, Parameterization, RidgeFit, penalty_model
from pybayesridge.ridge.likelihood import GaussianNoise
from pybayesridge.ridge.loocv import loo_curve, loo_residuals
from pybayesridge.ridge.many import count_modes, fit_targets, log_integral_of
from pybayesridge.ridge.methods import RidgeMethod
from pybayesridge.ridge.mixture import effective_directions
from pybayesridge.ridge.prior import BetaPrime, log_density_of_log
from pybayesridge.ridge.profile import PenaltyModel, shrinkage
from pybayesridge.ridge.spectrum import EPS, Spectrum, certain_rank

HYPERPARAMETERS = ["lambda", "tau2", "sigma2", "df_model"]
"""Rows of the table of hyperparameters."""

POINTS_OF_PATH = 120
"""Penalties of a path."""

DOWN, UP = np.log(1e4), np.log(1e3)
"""How far a path reaches below and above the penalty in use, in log lambda."""

SHRUNK = np.log(100.0)
"""A penalty this far above the largest squared singular value leaves nothing of the coefficients."""


@dataclass(frozen=True, slots=True)
class FittedPenalty:
    """The penalty of a fit under a prior, in the numerics' own units.

    Attributes
    ----------
    design : Design
    fit : RidgeFit
    prior : BetaPrime
        Of tau2.
    noise : GaussianNoise
    parameterization : {"tau2", "tau"}
    """

    design: Design
    fit: RidgeFit
    prior: BetaPrime
    noise: GaussianNoise
    parameterization: Parameterization

    @property
    def model(self) -> PenaltyModel:
        """The prior and the likelihood that it meets, in rotated units."""
        return penalty_model(self.design, self.fit.spectrum, self.prior, self.noise, self.parameterization)

    def ends(self) -> FloatArray:
        """Ends of the distribution functions of log t2, and numbers of points, (q, 3)."""
        return hyper.ends_of_log_t2(self.fit.mixture)

    def fitted_under(
        self, prior: BetaPrime, method: RidgeMethod, *, tol: float, maxiter: int, lam: FloatArray | None
    ) -> RidgeFit:
        """The fit of a method to the same data under another prior, or with another penalty."""
        options = FitOptions(tol=tol, maxiter=maxiter, lam=lam, parameterization=self.parameterization)
        return fit_targets(method.fit, self.design, self.fit.spectrum, prior, self.noise, options)

    def as_arrays(self) -> dict[str, Any]:
        """Arrays from which the posterior of the penalty is made again, in units of the standardised columns."""
        model, ends, unit = self.model, self.ends(), 2 * float(np.log(self.fit.spectrum.top))
        known = model.likelihood.variance
        return {
            "log_unit": float(self.fit.log_unit) - unit,
            "log_t2_from": ends[:, 0] - unit,
            "log_t2_to": ends[:, 1] - unit,
            "log_t2_points": ends[:, 2],
            "prior_a": float(model.a),
            "prior_b": float(model.b),
            "prior_count": float(model.likelihood.count),
            "prior_log_scale": float(model.log_scale) - unit,
            **({} if known is None else {"prior_noise": known}),
        }

    def has_posterior(self, target: int) -> bool:
        """Whether the penalty has a proper posterior that the data say something about."""
        vanishes = self.noise.vanishes(self.design)[target]
        return not (self.fit.spectrum.rank == 0 or self.fit.perfect[target] or vanishes)

    def information(self) -> FloatArray | None:
        """Kullback-Leibler divergence of the posterior from the prior, (q,); None where it is not integrated out."""
        found = self.fit.quadrature
        if found is None:
            return None
        return information(self.fit.spectrum, self.model, found.log_t2, found.weight, found.log_integral)

    def log_marginal(self, log_weights: float, *, given: bool) -> FloatArray:
        """Log p(y), (q,), given the penalty or with it integrated out.

        NaN where the response is fitted exactly, the penalty is 0, or the posterior is improper.

        Parameters
        ----------
        log_weights : float
            Sum of the logs of the weights.
        given : bool
        """
        design, spectrum, model = self.design, self.fit.spectrum, self.model
        undefined = self.fit.perfect | self.noise.vanishes(design)
        if given:
            undefined = undefined | np.isinf(self.fit.log_t2)
            integral = log_likelihood(spectrum, model, np.where(undefined, 0.0, self.fit.log_t2))
            prior_constant = 0.0
        elif not is_proper(replace(spectrum, rss0=np.where(undefined, 1.0, spectrum.rss0)), model):
            return np.full(design.q, np.nan)
        else:
            spectrum = replace(spectrum, rss0=np.where(undefined, 1.0, spectrum.rss0))
            found = self.fit.quadrature
            integral = log_integral_of(spectrum, model) if found is None else found.log_integral
            prior_constant = -float(betaln(model.a, model.b))
        out = log_marginal(integral, model.likelihood, design, log_weights) + prior_constant
        return np.where(undefined, np.nan, out)

    def quantiles(self, target: int, at: FloatArray) -> FloatArray:
        """Quantiles at three levels, the second below the third, (4, 3).

        Of lambda, tau2, the noise variance and the degrees of freedom of the penalised columns.
        """
        fit, model = self.fit, self.model
        points = hyper.quantiles_of_log_t2(fit.spectrum, model, fit.mixture, target, at)
        sigma2 = hyper.quantiles_of_sigma2(fit.spectrum, model, fit.mixture, target, at)
        with np.errstate(over="ignore"):
            penalty = np.exp(fit.log_unit - points)[[0, 2, 1]]
            t2 = np.exp(points - fit.log_unit)
        df = shrinkage(fit.spectrum.s, points).sum(axis=-1)
        return np.stack([penalty, t2, sigma2 * self.design.y_norm[target] ** 2, df])

    def means(self) -> FloatArray:
        """Posterior means of lambda, tau2 and the noise variance, (3, q)."""
        fit, model = self.fit, self.model
        with np.errstate(over="ignore"):
            return np.stack(
                [
                    hyper.means_of_penalty(model, fit.mixture) * np.exp(fit.log_unit),
                    hyper.means_of_t2(fit.spectrum, model, fit.mixture) * np.exp(-fit.log_unit),
                    fit.sigma2 * self.design.y_norm**2,
                ]
            )

    def effective_df(self) -> FloatArray:
        """Posterior means of the degrees of freedom that the penalised columns take, (q,)."""
        return effective_directions(self.fit.spectrum, self.fit.mixture)

    def n_modes(self) -> IntArray:
        """Interior modes of the posterior of tau2 or tau, (q,)."""
        counted = self.fit.n_modes
        return count_modes(self.fit.spectrum, self.model) if counted is None else counted

    def explained(self, target: int, rng: np.random.Generator) -> FloatArray:
        """Draws of the share of variance that the penalised columns explain."""
        fit = self.fit
        return explained_share(fit.spectrum, self.model, fit.mixture, target, self.design.n, rng)

    def loo_residuals(self, targets: slice | None = None) -> FloatArray:
        """Leave-one-out residuals of all or some targets at their penalties, (n, some)."""
        design, fit = self.design, self.fit
        if targets is None:
            return loo_residuals(design, fit.spectrum, fit.log_t2)
        return loo_residuals(design.of_targets(targets), fit.spectrum.of_targets(targets), fit.log_t2[targets])

    def draw(
        self, target: int, size: int, rng: np.random.Generator
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Draws from the joint posterior of one target: of_z (size, k), b (size, p), tau2 and the noise variance."""
        fit = self.fit
        of_z, b, log_t2, s2 = hyper.draw(self.design, fit.spectrum, self.model, fit.mixture, target, size, rng)
        return of_z, b, np.exp(log_t2 - fit.log_unit), s2 * self.design.y_norm[target] ** 2

    def draw_rows(self, target: int, size: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Draws of the linear predictors of the rows of the data, (size, n), and of the noise variance, (size,)."""
        fit = self.fit
        return hyper.draw_rows(self.design, fit.spectrum, self.model, fit.mixture, target, size, rng)

    def log_prior(self, tau2: FloatArray) -> FloatArray:
        """Log prior density of the log of tau2."""
        model = self.model
        return log_density_of_log(tau2, model.a, model.b, model.log_scale - self.fit.log_unit)

    def density(self, target: int, alpha: float) -> hyper.PenaltyDensity:
        """The posterior density of log t2."""
        return hyper.penalty_posterior(self.fit.spectrum, self.model, target, alpha)

    def loo_curve(self, target: int, log_t2: FloatArray) -> FloatArray:
        """Leave-one-out mean squared errors at several penalties."""
        return loo_curve(self.design, self.fit.spectrum, target, log_t2)

    def path_points(self, target: int) -> FloatArray:
        """Logs of t2 along which the path of the coefficients is shown."""
        return _path_points(self.fit.spectrum, float(self.fit.log_t2[target]))

    def path(self, target: int, log_t2: FloatArray, columns: AnyArray) -> FloatArray:
        """Coefficients of some columns at several penalties."""
        return _coefficient_path(self.design, self.fit.spectrum, target, log_t2, columns)

    def rank(self) -> int:
        """Number of directions of the columns that are no rounding errors."""
        return certain_rank(self.design, self.fit.spectrum)

    def loss_of_moments(self) -> float:
        """Relative error, about, that moments leave in the residual sum of squares."""
        residual = self.fit.spectrum.rss0[self.fit.spectrum.rss0 > 0]
        return float((16 * EPS / residual).max(initial=0.0))


def _path_points(spectrum: Spectrum, log_t2: float) -> FloatArray:
    """Points of log t2, ascending, in rotated units, around the penalty in use or, without one, all that matter."""
    smallest = 2 * float(np.log(spectrum.s[-1])) if spectrum.rank else 0.0
    if np.isfinite(log_t2):
        high = min(log_t2 + DOWN, max(-smallest + SHRUNK, log_t2 + SHRUNK))
        low = max(log_t2 - UP, min(-SHRUNK, log_t2 - SHRUNK))
    else:
        low, high = -SHRUNK, min(-smallest, 2 * DOWN) + SHRUNK
    return np.linspace(low, high, POINTS_OF_PATH)


def _coefficient_path(
    design: Design, spectrum: Spectrum, target: int, log_t2: FloatArray, rows: IntArray
) -> FloatArray:
    """Some penalised coefficients at each penalty, user's scale, (m, L).

    Parameters
    ----------
    design : Design
    spectrum : Spectrum
    target : int
    log_t2 : (L,) array
        In rotated units.
    rows : (m,) int array
        Which of the design's p columns.
    """
    a = shrinkage(spectrum.s, log_t2) * (spectrum.z[:, target] / spectrum.s)
    rotated = np.ascontiguousarray(a.T)
    out = np.empty((rows.size, log_t2.size))
    for part, right in spectrum.right_pieces(design):
        here = np.flatnonzero((rows >= part.start) & (rows < part.stop))
        if here.size:
            out[here] = blas.product(np.ascontiguousarray(right[rows[here] - part.start]), rotated)
    return out * (design.y_norm[target] / (design.scale[rows] * spectrum.top))[:, None]
