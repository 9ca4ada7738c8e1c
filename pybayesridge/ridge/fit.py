"""Input and output of all methods: one `RidgeFit` for all."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from pybayesridge._types import ArrayLike, BoolArray, FloatArray, IntArray
from pybayesridge.design.design import Design
from pybayesridge.ridge.by_column import ColumnsPosterior
from pybayesridge.ridge.likelihood import GaussianNoise
from pybayesridge.ridge.loocv import GridSearch
from pybayesridge.ridge.mixture import Mixture
from pybayesridge.ridge.posterior import RidgePosterior
from pybayesridge.ridge.prior import BetaPrime, log_scale
from pybayesridge.ridge.profile import PenaltyModel
from pybayesridge.ridge.quadrature import Quadrature
from pybayesridge.ridge.spectrum import EPS, Spectrum
from pybayesridge.ridge.trust import expected_loss, loses_less

Parameterization = Literal["tau2", "tau"]

EXACT = 64 * EPS
"""Residuals at most this share of the target are rounding errors: the data are fitted exactly."""


@dataclass(frozen=True, slots=True)
class FitOptions:
    """The options of ``BayesRidge.fit``; each method takes some of them.

    Attributes
    ----------
    tol : float
        Accuracy of log t2 at which iterations stop.
    maxiter : int
        Most iterations.
    grid : {"fixed", "glmnet"} or array
        Penalties to try; None for "fixed".
    lam : (q,) array or None
        The penalty, on the user's (standardised) scale.
    parameterization : {"tau2", "tau"}
        The mode is that of a density in tau2 or in tau.
    accelerate : bool
        One-dimensional root finding instead of plain EM.
    shared_nodes : bool
        Whether several targets have the nodes of the integral over the penalty in common.
    fewest_nodes : bool
        Whether these are the fewest that are accurate enough, not the most that were tried.
    """

    tol: float = 1e-8
    maxiter: int = 10_000
    grid: str | ArrayLike | None = None
    lam: FloatArray | None = None
    parameterization: Parameterization = "tau2"
    accelerate: bool = True
    shared_nodes: bool = False
    fewest_nodes: bool = False


@dataclass(frozen=True, slots=True)
class RidgeFit:
    """The outcome of one method for q targets.

    Attributes
    ----------
    spectrum : Spectrum
        The rotation used; another one than went in where its accuracy did not suffice.
    mixture : Mixture
        Posterior of log t2, in rotated units.
    log_t2 : (q,) array
        The t2 reported, in rotated units.
    log_unit : float
        Log of the ratio of rotated t2 to the user's.
    sigma2 : (q,) array
        Noise variance reported, in units of each target's squared norm.
    n_modes : (q,) int array or None
        Interior modes of the posterior of t2, where they were counted.
    null : (q,) bool array
        No interior mode: every coefficient is shrunk to zero.
    perfect : (q,) bool array
        The target is fitted without error; the penalty is zero.
    unbounded : (q,) bool array
        The density of t2 has no interior mode and does not fall as the penalty vanishes.
    converged : (q,) bool array
    n_iter : int
    quadrature : Quadrature or None
        Where the penalty was integrated out.
    search : GridSearch or None
        Where it was chosen from a grid.
    grid : (L, q) array or None
        That grid, on the user's (standardised) scale.
    lam : (q,) array or None
        The penalty that was given or chosen, to the last digit.
    certain : bool
        Whether no smaller penalty, where the rotation is not accurate, could be better: False only from moments.
    """

    spectrum: Spectrum
    mixture: Mixture
    log_t2: FloatArray
    log_unit: float
    sigma2: FloatArray
    n_modes: IntArray | None
    null: BoolArray
    perfect: BoolArray
    unbounded: BoolArray
    converged: BoolArray
    n_iter: int
    quadrature: Quadrature | None = None
    search: GridSearch | None = None
    grid: FloatArray | None = None
    lam: FloatArray | None = None
    certain: bool = True

    def of_targets(self, which: IntArray) -> RidgeFit:
        """The outcome for some of the targets; they keep no search of a grid."""
        return replace(
            self,
            spectrum=self.spectrum.of_targets(which),
            mixture=self.mixture.of_targets(which),
            log_t2=self.log_t2[which],
            sigma2=self.sigma2[which],
            n_modes=None if self.n_modes is None else self.n_modes[which],
            null=self.null[which],
            perfect=self.perfect[which],
            unbounded=self.unbounded[which],
            converged=self.converged[which],
            quadrature=None if self.quadrature is None else self.quadrature.of_targets(which),
            search=None,
            grid=None if self.grid is None else self.grid[:, which],
            lam=None if self.lam is None else self.lam[which],
        )

    def posterior(self, design: Design) -> RidgePosterior:
        """The joint posterior of the coefficients."""
        kind = ColumnsPosterior if design.in_blocks else RidgePosterior
        return kind(design, self.spectrum, self.mixture)

    @property
    def loss(self) -> float:
        """Relative error, about, that rounding errors of the rotation leave in the fit."""
        return expected_loss(self.spectrum, self.spectrum.nu, self.mixture)

    def loses_less(self, level: float) -> bool:
        """Whether :attr:`loss` is surely below a level, which takes less time to say; False if that is not clear."""
        return loses_less(self.spectrum, self.spectrum.nu, self.mixture, level)


def penalty_model(
    design: Design,
    spectrum: Spectrum,
    prior: BetaPrime,
    noise: GaussianNoise,
    parameterization: Parameterization = "tau2",
) -> PenaltyModel:
    """The prior of the penalty and the likelihood that it meets, in rotated units."""
    return PenaltyModel(
        a=prior.a,
        b=prior.b,
        k=(2.0 if parameterization == "tau2" else 1.0) - 2 * prior.a,
        log_scale=log_scale(prior, design, spectrum),
        likelihood=noise.of(design),
    )


def fits_exactly(design: Design, spectrum: Spectrum) -> BoolArray:
    """Targets without residual though X does not span everything that Z leaves."""
    tolerance = EXACT * design.y_size
    out: BoolArray = ~design.y_vanishes & (spectrum.rank < design.nu) & (spectrum.rss0 <= tolerance**2)
    return out
