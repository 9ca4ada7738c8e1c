"""Results of a spike-and-slab regression."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd
from scipy.special import logit

from pybayesridge._types import FloatArray, RandomLike
from pybayesridge.checks import positive_int
from pybayesridge.ep.posterior import StartingPoint
from pybayesridge.findings import Finding
from pybayesridge.posterior.left_out import LeftOut
from pybayesridge.recipes import Recipe
from pybayesridge.results import findings, monte_carlo
from pybayesridge.results.arviz import GROUPS, ChainDraws, to_arviz
from pybayesridge.results.base import LinearResults
from pybayesridge.results.facts import SHOWN, ShownCoefficients, Written
from pybayesridge.results.plots import spike_slab as spike_slab_plots
from pybayesridge.results.selection_estimates import SelectionEstimates
from pybayesridge.selection.result import Check, Doubt
from pybayesridge.text import count, rounded

if TYPE_CHECKING:
    from arviz import InferenceData
    from xarray import DataTree

    from pybayesridge.models.priors import SelectionModel

PARTS = 4
"""Independent draws are exported as so many chains, unless the user says."""


class SpikeSlabResults(SelectionEstimates, LinearResults):
    """Approximate posterior of a spike-and-slab regression.

    Made by :meth:`pybayesridge.SpikeSlab.fit`. Vectors run over ``model.exog_names`` (the intercept first, if it
    was added) or over rows. Of unpenalised columns the inclusion
    probability is 1; of constant ones every number is 0.

    Parameters
    ----------
    model : SpikeSlab
    design : Design
    data : Data
    selection : Selection
    method, tol, maxiter
        As given to ``fit``.
    fit_options : mapping
        Options with which ``fit`` can be repeated, by name.
    recipe : Recipe
    check : Check, optional
        Of expectation propagation, by the exact posterior.
    doubts : tuple of Doubt
        Pairs of columns or groups for which expectation propagation is in doubt.

    Attributes
    ----------
    params : (k,) array
        Posterior means of the coefficients, user's scale: over spike and slab together.
    method : {"exact", "ep", "damped", "pcep"}
        The method that was used, also where ``fit`` was to choose.
    converged : bool
        Whether EP, and where there was one the search for hyperparameters, has converged.
    residual : float
        Scale-free residual at which EP stopped.
    n_iter : int
    n_fac : int
        Evaluations of the Gaussian's covariance, those of learning included.
    slab_var, noise_var : float
        Hyperparameters, given or learned, in the units of the model's arguments; means where they are averaged over.
    learned : tuple of str
        Names of those that were learned.
    log_evidence : float
        EP's log marginal likelihood of the response, the unpenalised columns projected out; hyperparameters that are
        not given are integrated out, or with ``hyper="maximize"`` at their estimates. NaN where these fit the
        response exactly and the noise is learned.
    evidence_biased : bool
        Whether constraints are active, so that the evidence is not that of a fixed point of EP.
    energy_trace : (m,) array
        Minus the log evidence after each sweep, then the energy of the descent, which does not rise.
    """

    model_name: ClassVar[str] = "SpikeSlab"

    diagnostics = monte_carlo.diagnostics
    plot_coefficients = spike_slab_plots.plot_coefficients
    plot_inclusion = spike_slab_plots.plot_inclusion
    plot_n_included = spike_slab_plots.plot_n_included
    plot_trace = spike_slab_plots.plot_trace

    def __init__(
        self,
        model: SelectionModel,
        posterior: Any,
        *,
        method: str,
        tol: float,
        maxiter: int,
        fit_options: Mapping[str, Any],
        recipe: Recipe,
        check: Check | None = None,
        doubts: tuple[Doubt, ...] = (),
    ) -> None:
        self.check, self.doubts = check, doubts
        design, selection = posterior.design, posterior.selection
        unit = design.y_norm[0]
        super().__init__(
            model,
            posterior,
            method=method,
            tol=tol,
            maxiter=maxiter,
            fit_options=fit_options,
            recipe=recipe,
            converged=selection.converged,
            n_iter=selection.n_iter,
            n_fac=selection.n_fac,
            residual=selection.residual,
            learned=selection.learned,
            evidence_biased=any(r.evidence_biased for r in selection.results),
        )
        self._take_hyperparameters()
        trace = np.zeros(0) if posterior.exact is not None else selection.best.energy_trace
        self.energy_trace = trace + design.nu * float(np.log(unit))

    @staticmethod
    def of_earlier(state: dict[str, Any]) -> dict[str, Any]:
        """The attributes in files of earlier versions, which lack the options."""
        return {"fit_options": None} | state

    def _take_hyperparameters(self) -> None:
        """Keep the hyperparameters and the evidence on the user's scale."""
        design, selection = self.posterior.design, self.posterior.selection
        weights, unit = selection.weights, design.y_norm[0]
        self.noise_var = float(weights @ [h.noise_var for h in selection.hypers]) * unit**2
        self.slab_var = float(weights @ [h.slab_var for h in selection.hypers]) * (unit / design.common_scale) ** 2
        self.sigma2 = self.noise_var
        self.log_evidence = selection.log_evidence - design.nu * float(np.log(unit))

    def _settle(self) -> None:
        super()._settle()
        _ = self.monte_carlo_errors, self.uncertain_nats

    def starting_point(self) -> StartingPoint:
        """Starting point of another fit of the same columns, for ``fit(start=)``."""
        point: StartingPoint = self.posterior.starting_point(self.penalized_names)
        return point

    @cached_property
    def precision_loss(self) -> float:
        """Approximate relative error of the fit: nearly collinear unpenalised columns, or the forming of moments."""
        loss, posterior = float(self.model.precision_loss), self.posterior
        if not (self.model.source.from_moments and self.has_joint_posterior):
            return loss
        if posterior.selection.noiseless:
            return loss
        best = posterior.selection.best_hyper
        return max(loss, posterior.data.loss_of_moments(best.noise_var / best.slab_var))

    @cached_property
    def uncertain_nats(self) -> float:
        """Approximate error of log likelihoods by rounding, which is large where there is hardly any noise.

        Sums of squares that nearly cancel have errors in the last digit of the largest of them: of the response, and
        for the exact method also of the parts of single columns. The sampler measures the error of what it carries
        along.
        """
        posterior, selection = self.posterior, self.posterior.selection
        if selection.noiseless:
            return 0.0
        square = 1.0
        if posterior.exact is not None and self.has_joint_posterior:
            square += float(posterior.data.gram_diag @ np.square(posterior.exact.mean))
        known = 0.5 * float(np.finfo(float).eps) * square * float(posterior.design.y_norm[0]) ** 2 / self.noise_var
        return known if posterior.exact is None else max(known, posterior.exact.drift)

    @cached_property
    def findings_on_validity(self) -> tuple[Finding, ...]:
        """The findings on which ``fit`` warns, and others of their kind."""
        return tuple(findings.of_spike_slab(self))

    def _findings_on_reading(self) -> list[Finding]:
        return [
            findings.intervals_of_spike_slab(self),
            *monte_carlo.in_words(self),
            *findings.on_reading_spike_slab(self),
        ]

    def rows_left_out(self, target: int) -> LeftOut:
        """Predictions of the rows from the others."""
        return self._left_out

    @cached_property
    def _left_out(self) -> LeftOut:
        return super().rows_left_out(0)

    def sample(self, n: int, rng: RandomLike = None, kind: str | None = None) -> pd.DataFrame:
        """Draw from the posterior of the coefficients.

        Parameters
        ----------
        n : int
            How many draws.
        rng : numpy.random.Generator, int or None
            Source of randomness, or a seed.
        kind : {"gaussian", "gibbs"}, optional
            For fits by expectation propagation; draws of an exact fit are independent draws from its posterior, with
            exact zeros. ``"gaussian"``, the default: independent draws from EP's Gaussian, without zeros.
            ``"gibbs"``: draws from the exact posterior given the hyperparameters, with exact zeros (of a group all or
            none), by a Gibbs run started at EP's answer; successive draws are dependent, and a sweep costs a pass
            over the columns in Python (10 ms for 1,000).

        Returns
        -------
        DataFrame
            A row for each draw, a column for each coefficient.

        Examples
        --------
        >>> import statsmodels.api as sm
        >>> from pybayesridge import SpikeSlab
        >>> longley = sm.datasets.longley.load_pandas().data
        >>> res = SpikeSlab.from_formula("TOTEMP ~ GNP + UNEMP + POP", longley).fit()
        >>> draws = res.sample(5000, rng=0)
        >>> both = (draws["UNEMP"] != 0) & (draws["POP"] != 0)
        >>> print(f"P(UNEMP and POP are in) = {both.mean():.1f}")
        P(UNEMP and POP are in) = 0.3
        """
        return self._draw_chain(positive_int("n", n), np.random.default_rng(rng), kind).frame(self.model)

    def _draw_chain(
        self, n: int, generator: np.random.Generator, kind: str | None = None, chain: int | None = None
    ) -> ChainDraws:
        if kind is not None and self.exact_sets is not None:
            raise ValueError("kind is for fits by expectation propagation: draws of an exact fit are exact")
        if kind not in (None, "gaussian", "gibbs"):
            raise ValueError(f"kind must be 'gaussian' or 'gibbs', not {kind!r}")
        design = self.posterior.design
        others: dict[str, FloatArray] = {}
        if self.exact_posterior is not None:
            of_z, b, noise, hyper = self.exact_posterior.draw_with_hyperparameters(n, generator, chain)
            others = {name: hyper[name][:, None] for name in ("prior_inclusion", "slab_var") if name in self.learned}
        else:
            of_z, b, noise, others = self._draw_by_ep(n, generator, kind)
        beta = self.model.scatter(of_z.T, b.T, design).T[..., None]
        return ChainDraws(beta, noise[:, None], others, self._log_prior(others, noise))

    def _draw_by_ep(
        self, n: int, generator: np.random.Generator, kind: str | None
    ) -> tuple[FloatArray, FloatArray, FloatArray, dict[str, FloatArray]]:
        """Draws of coefficients, unpenalised (n, k) and penalised (n, p), noise variances, and other parameters."""
        return *self.posterior.draw(n, generator, by_gibbs=kind == "gibbs"), {}

    def _log_prior(self, others: dict[str, FloatArray], noise: FloatArray) -> dict[str, FloatArray]:
        """Log prior density of the hyperparameters that vary over draws, up to a constant."""
        if self.exact_sets is None or not noise.all():
            return {}
        prior = self.exact_sets.grid.prior
        if not others and not (prior.slab_given and prior.scaled):
            return {}
        unit = 2 * float(np.log(self.posterior.design.common_scale))
        given = np.full((noise.size, 1), self.slab_var)
        log_v = np.log(others.get("slab_var", given)) + unit
        t = logit(others["prior_inclusion"]) if "prior_inclusion" in others else None
        return {"hyperparameters": prior.log_density(t, log_v, np.log(noise)[:, None])}

    def to_arviz(
        self,
        draws: int = 1000,
        chains: int | None = None,
        rng: RandomLike = None,
        groups: Sequence[str] = GROUPS,
        kind: str | None = None,
    ) -> DataTree | InferenceData:
        """Posterior draws in the container of ArviZ, for ``az.loo``, ``az.plot_forest`` and similar functions.

        A fit by sampling gives the chains of the sampler: its states are resampled within each chain by their
        weights, in their order, so that draws count equally and ArviZ's ``ess`` and ``rhat`` are those of these
        chains. Other draws are independent; those of expectation propagation are given the hyperparameters (with
        ``hyper="average"`` those of the grid, by their weights).

        Parameters
        ----------
        draws : int
            Draws of each chain.
        chains : int, optional
            How many chains: those of the sampler, otherwise 4 by default.
        rng : numpy.random.Generator, int or None
            Source of randomness, or a seed.
        groups : sequence of str
            Some of ``"posterior"``, ``"posterior_predictive"``, ``"log_likelihood"``, ``"observed_data"``,
            ``"log_prior"``; all by default. The second and third hold ``chains * draws * n`` numbers.
        kind : {"gaussian", "gibbs"}
            As for :meth:`sample`. With ``"gibbs"`` each chain is a run of its own.

        Returns
        -------
        xarray.DataTree (ArviZ 1) or arviz.InferenceData (ArviZ 0.x)
            ``posterior`` has ``beta`` over ``term``; for an exact fit, whose ``beta`` has exact zeros, also
            ``sigma2`` and the hyperparameters that were not given. Of other fits ``sigma2`` is in ``constant_data``,
            or with ``hyper="average"`` in ``posterior``. ``log_prior`` of an exact fit has ``hyperparameters``: the
            log prior density, up to a constant, of the logit of the inclusion probability and the log of the slab
            variance, those of them that are learned; if `slab_var` is given, also of the log of `sigma2`. The other
            groups have a variable named as the response over ``__obs__``, whose coordinates are the row labels.

        Raises
        ------
        ImportError
            Without ArviZ: ``pip install 'pybayesridge[arviz]'``.
        ValueError
            For an unknown group or kind, data that were removed, or another number of chains than the sampler's.
        """
        sampled = () if self.exact_posterior is None else self.exact_posterior.chains
        if chains is None:
            chains = len(sampled) or PARTS
        elif sampled and positive_int("chains", chains) != len(sampled):
            raise ValueError(f"chains is {chains}, but the sampler ran {len(sampled)}: leave out chains")
        labels = iter(sampled)

        def draw(n: int, generator: np.random.Generator) -> ChainDraws:
            return self._draw_chain(n, generator, kind, next(labels, None))

        return to_arviz(self.model, draw, draws=draws, chains=chains, rng=rng, groups=groups)

    def _release_rows(self, row_space: bool) -> None:
        if not row_space and self.has_joint_posterior:
            self.posterior = self.posterior.without_row_space()
        self.posterior = self.posterior.without_rows()

    def shown_coefficients(self, i: int, alpha: float) -> ShownCoefficients:
        """Unpenalised coefficients, and the others by inclusion probability."""
        z_at, at = self.model.positions(self.posterior.design)
        flat = np.setdiff1d(np.arange(len(self.model.exog_names)), np.concatenate([z_at, at]))
        pip = np.asarray(self.arrays.inclusion_prob)
        by_pip = at[np.argsort(-pip[at], kind="stable")]
        order = np.concatenate([z_at, by_pip[:SHOWN], flat[: max(SHOWN - by_pip.size, 0)]]).astype(np.intp)
        of_slab = self.arrays.cond_mean, np.sqrt(self.arrays.cond_var)
        values = np.column_stack([self.arrays.params, self.arrays.bse, *of_slab, self.arrays.conf_int(alpha)])[order]
        left_out = "{count} columns with smaller inclusion probabilities are omitted; see inclusion_prob."
        return ShownCoefficients(order, ["mean", "sd", "mean|in", "sd|in"], values, left_out, pip[order])

    def shown_tables(self, i: int, alpha: float) -> list[Written]:
        """The groups of several columns and the columns on their own, the most probable first."""
        members = self.group_members()
        if not members:
            return []
        prob = self.group_inclusion_prob
        order = np.argsort(-prob.to_numpy(), kind="stable")[:SHOWN]
        cells = [[rounded(prob.iloc[j]), count(len(members.get(prob.index[j], [""])))] for j in order]
        return [Written([str(prob.index[j]) for j in order], ["PIP", "columns"], cells)]
