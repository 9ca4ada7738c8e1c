"""Draws from the posterior of a spike-and-slab regression."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy.special import logit

from pybayesridge._types import FloatArray, RandomLike
from pybayesridge.checks import positive_int
from pybayesridge.ep.model.hyper_prior import log_density
from pybayesridge.results.arviz import GROUPS, ChainDraws, to_arviz
from pybayesridge.results.base import LinearResults
from pybayesridge.results.selection_estimates import SelectionEstimates

if TYPE_CHECKING:
    from arviz import InferenceData
    from xarray import DataTree

CHAINS = 4
"""Chains of independent draws, unless the user says."""


class DrawResults(SelectionEstimates, LinearResults):
    """Methods of the results of variable selection that draw from the posterior."""

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
        drawn = self._draw_chain(positive_int("n", n), np.random.default_rng(rng), kind)
        return pd.DataFrame(drawn.beta[..., 0], columns=self.model.exog_names)

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
            of_z, b, noise = self.posterior.draw(n, generator, by_gibbs=kind == "gibbs")
        beta = self.model.scatter(of_z.T, b.T, design).T[..., None]
        return ChainDraws(beta, noise[:, None], others, self._log_prior(others, noise))

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
        return {"hyperparameters": log_density(prior, t, log_v, np.log(noise)[:, None])}

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
            chains = len(sampled) or CHAINS
        elif sampled and positive_int("chains", chains) != len(sampled):
            raise ValueError(f"chains is {chains}, but the sampler ran {len(sampled)}: leave out chains")
        labels = iter(sampled)

        def draw(n: int, generator: np.random.Generator) -> ChainDraws:
            return self._draw_chain(n, generator, kind, next(labels, None))

        return to_arviz(self.model, draw, draws=draws, chains=chains, rng=rng, groups=groups)
