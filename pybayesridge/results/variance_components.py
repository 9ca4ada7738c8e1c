"""The variances of bands of columns, and the coefficients in them: what all fits with several penalties have."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from numbers import Number
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from pybayesridge._types import FloatArray
from pybayesridge.bands.answers import Variances
from pybayesridge.data.bands import Bands
from pybayesridge.results.arguments import check_alpha, target_position
from pybayesridge.results.estimates import SUMMARY, LinearEstimates
from pybayesridge.results.facts import Written, interval_heads, rows_of
from pybayesridge.text import did_you_mean, rounded

if TYPE_CHECKING:
    from pybayesridge.models.priors import RidgeModel

COMPONENTS = [
    "mean",
    "sd",
    "lower",
    "upper",
    "share",
    "share_lower",
    "share_upper",
    "prob_below_1pct",
    "bound",
    "share_bound",
]
"""Columns of the table of variance components."""

MOST_GRIDS = 8
"""Posteriors of so many targets are held: with three bands each can take 60 MB."""


class VarianceComponents(LinearEstimates):
    """The part of results that is about the variances of bands; goes before others in the list of bases."""

    model: RidgeModel

    def _made_grid(self, i: int) -> Variances:
        """The posterior of :meth:`variance_grid`."""
        raise NotImplementedError

    @property
    def bands(self) -> Bands:
        """The bands and their columns."""
        assert self.model.bands is not None
        return self.model.bands

    def variance_grid(self, i: int) -> Variances:
        """The joint posterior of the variances of the bands and of any noise, for one target."""
        if i not in self._grids:
            if len(self._grids) >= MOST_GRIDS:
                self._grids.pop(next(iter(self._grids)))
            self._grids[i] = self._made_grid(i)
        return self._grids[i]

    @cached_property
    def _grids(self) -> dict[int, Variances]:
        """Those that were made last."""
        return {}

    def variance_components(self, alpha: float = 0.05) -> pd.DataFrame:
        """Standard deviation of the coefficients of each band, and its share of the variance of the response.

        Parameters
        ----------
        alpha : float
            One minus the probability of the (equal-tailed) intervals.

        Returns
        -------
        DataFrame
            A row for each band, and for each correlation (under each target, where there are several). ``mean``,
            ``sd``, ``lower``, ``upper``: posterior of the standard deviation ``tau_k sigma`` of the band's
            coefficients, on the scale of the prior; of responses that are not Gaussian ``tau_k``. ``sd`` is inf where
            the posterior has no variance: with the default prior where the columns of all bands together, the
            unpenalised ones projected out, have rank 1.
            ``share``, ``share_lower``, ``share_upper``: of its share ``w_k / (1 + w)`` in the variance of the
            response given the unpenalised columns, with ``w_k = tau_k^2 sum_j |x_j|^2 / n`` over its columns; for the
            levels of a factor it is the intraclass correlation. Of responses that are not Gaussian the share is that
            of the latent variance, ``w_k / (c + w)`` with c the variance of the latent noise, or the squared scale of
            Student-t noise. ``prob_below_1pct``: probability that this share is below 1 %. The interval of a standard
            deviation, which is positive, never contains 0: the probability tells whether a band matters. ``bound``
            and ``share_bound``: values that the standard deviation and the share do not exceed with probability
            ``1 - alpha``. Bands with correlated effects, ``(x | g)``, have the share of the term as a whole,
            covariances included; rows ``cor(g, x|g)`` are their correlations. With
            methods that fix the penalties the intervals are conditional on them.

        Examples
        --------
        >>> import statsmodels.api as sm
        >>> from pybayesridge import BayesRidge
        >>> longley = sm.datasets.longley.load_pandas().data
        >>> bands = {"economy": ["GNP", "GNPDEFL", "UNEMP"], "people": ["ARMED", "POP"]}
        >>> X = longley.drop(columns=["TOTEMP", "YEAR"])
        >>> res = BayesRidge(longley["TOTEMP"], X, bands=bands).fit()
        >>> bool(res.variance_components().loc["economy", "share"] > 0.5)
        True
        """
        check_alpha(alpha)
        names = self.model.data.targets
        tables = {
            name: pd.DataFrame(
                self._variance_table(i, alpha),
                index=[*self.bands.names, *self.correlation_names],
                columns=COMPONENTS,
            )
            for i, name in enumerate(names)
        }
        return tables[names[0]] if self.model.one_target else pd.concat(tables, names=["target", None])

    def random_effects(
        self, bands: str | Sequence[str] | None = None, alpha: float = 0.05, target: str | int | None = None
    ) -> pd.DataFrame:
        """Coefficients of the columns of each band, with intervals: for the levels of a factor, its random effects.

        Parameters
        ----------
        bands : str or sequence of str, optional
            Names of bands; all by default.
        alpha : float
            One minus the probability of the intervals.
        target : str or int, optional
            Which target, by name or position; needed where there are several.

        Returns
        -------
        DataFrame
            Rows by band and column. ``group``, ``level``, ``term``: of ``(x | g)`` the grouping factor, its level
            and ``"Intercept"`` or the name of x; of other bands the name of the band, nothing and that of the column.
            ``mean``, ``sd``, ``lower``, ``upper``.
        """
        check_alpha(alpha)
        i = target_position(self.model.data.targets, target, "random_effects")
        out, at = self.levels_of(bands)
        mean, sd, interval = self.some_coefficients(at, i, alpha)
        return out.assign(mean=mean, sd=sd, lower=interval[:, 0], upper=interval[:, 1])

    def levels_of(self, bands: str | Sequence[str] | None) -> tuple[pd.DataFrame, list[int]]:
        """The first columns of :meth:`random_effects`, and the positions of its rows among the coefficients."""
        shift = len(self.model.exog_names) - len(self.model.data.exog_columns)
        index, at, told = [], [], []
        for name in self.named_bands(bands):
            members = self.bands.members(self.bands.names.index(name))
            columns = [self.model.data.exog_columns[j] for j in members]
            index += [(name, column) for column in columns]
            told += self._levels(name, columns)
            at += (members + shift).tolist()
        rows = pd.MultiIndex.from_tuples(index, names=["band", "column"])
        return pd.DataFrame(told, index=rows, columns=["group", "level", "term"], dtype=object), at

    def _levels(self, name: str, columns: list[str]) -> list[tuple[str, object, str]]:
        """Group, level and term of each column of a band."""
        spec = self.model.formula_spec
        for band in () if spec is None else spec.bands:
            if band.name == name and band.kind == "group" and band.groups is not None:
                groups, term = band.groups, "Intercept" if band.term == "1" else band.term
                known = dict(zip(band.columns, groups.keys(), strict=True))
                return [(groups.name, known[column], term) for column in columns]
        return [(name, None, column) for column in columns]

    def named_bands(self, bands: str | Sequence[str] | None) -> list[str]:
        """Names of some bands, or of all; a ValueError for one that is not there."""
        known = list(self.bands.names)
        if isinstance(bands, Number):
            raise ValueError(f"bands must be names of bands, got {bands}: alpha={bands} asks for other intervals")
        wanted = known if bands is None else [bands] if isinstance(bands, str) else list(bands)
        for name in wanted:
            if name not in known:
                raise ValueError(f"there is no band {name!r}{did_you_mean(str(name), known)}")
        return wanted

    def components_of(self, i: int, alpha: float) -> FloatArray:
        """The values of :meth:`variance_components` of a target but for bounds, (K, 8)."""
        return self._components_with_bounds(i, alpha)[:, :-2]

    def _components_with_bounds(self, i: int, alpha: float) -> FloatArray:
        grid, at = self.variance_grid(i), np.array([alpha / 2, 1 - alpha / 2, 1 - alpha])
        rows = []
        for k in range(len(self.bands.names)):
            mean, (low, high, bound), sd = grid.sd(k, at)
            share, (share_low, share_high, share_bound), below = grid.shares(k, at)
            rows.append([mean, sd, low, high, share, share_low, share_high, below, bound, share_bound])
        return np.array(rows)

    def _variance_table(self, i: int, alpha: float) -> FloatArray:
        """The values of :meth:`variance_components` of a target, with correlations, (K + number of these, 10)."""
        out, correlations = self._components_with_bounds(i, alpha), self.correlations_of(i, alpha)
        rest = np.full((len(correlations), out.shape[1] - 4), np.nan)
        return np.vstack([out, np.column_stack([correlations, rest])])

    def component_quantiles(self, at: FloatArray) -> FloatArray:
        """Quantiles (c,) of standard deviations and shares, as rows of :meth:`variance_components`, (rows, 2, c).

        Correlations are where standard deviations are, and have no shares.
        """
        rows = []
        for grid in map(self.variance_grid, range(len(self.model.data.targets))):
            rows += [[grid.sd(k, at)[1], grid.shares(k, at)[1]] for k in range(len(self.bands.names))]
            rows += [[quantiles, np.full(at.size, np.nan)] for _, quantiles, _ in grid.correlations_at(at)]
        return np.array(rows)

    @property
    def correlation_names(self) -> list[str]:
        """Rows of correlations, ``"cor(g, x|g)"``."""
        names = self.bands.names
        pairs = [(each[j], each[i]) for each in self.bands.sets for i in range(1, len(each)) for j in range(i)]
        return [f"cor({names[first]}, {names[second]})" for first, second in pairs]

    def correlations_of(self, i: int, alpha: float) -> FloatArray:
        """Posterior mean, standard deviation and interval of each correlation of a target, (number of these, 4)."""
        grid, at = self.variance_grid(i), np.array([alpha / 2, 1 - alpha / 2])
        return np.array([[mean, sd, *ends] for mean, ends, sd in grid.correlations_at(at)]).reshape(-1, 4)

    @property
    def hyperparameter_names(self) -> list[str]:
        """Rows of the table of hyperparameters."""
        noise = ["sigma2"] if self.model.distribution.has_noise else []
        return [*(f"sd[{name}]" for name in self.bands.names), *self.correlation_names, *noise]

    def hyperparameters(self, alpha: float = 0.05) -> pd.DataFrame:
        """Posterior mean, median and interval of the standard deviations of the bands and of the noise variance.

        Parameters
        ----------
        alpha : float
            One minus the probability of the interval.

        Returns
        -------
        DataFrame
            Rows ``sd[band]``, as in :meth:`variance_components`, correlations, and ``sigma2`` (under each target,
            where there are several); columns mean, median, lower, upper.
        """
        check_alpha(alpha)
        at, names = np.array([0.5, alpha / 2, 1 - alpha / 2]), self.model.data.targets
        tables = {
            name: pd.DataFrame(
                self.hyperparameters_of(i, at),
                index=self.hyperparameter_names,
                columns=SUMMARY,
            )
            for i, name in enumerate(names)
        }
        return tables[names[0]] if self.model.one_target else pd.concat(tables, names=["target", None])

    def hyperparameter_quantiles(self, at: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Posterior means of the rows of :meth:`hyperparameters`, (r,), and quantiles at levels `at` (c,), (r, c)."""
        found = np.vstack([self.hyperparameters_of(i, at) for i in range(len(self.model.data.targets))])
        return found[:, 0], found[:, 1:]

    def hyperparameters_of(self, i: int, at: FloatArray) -> FloatArray:
        """Posterior means, and quantiles at levels `at` (c,), of one target's hyperparameters.

        (K + number of correlations + 1, 1 + c), the last row with Gaussian noise alone.
        """
        grid = self.variance_grid(i)
        rows = [np.r_[mean, ends] for mean, ends, _ in (grid.sd(k, at) for k in range(len(self.bands.names)))]
        rows += [np.r_[mean, ends] for mean, ends, _ in grid.correlations_at(at)]
        if self.model.distribution.has_noise:
            mean, ends = grid.noise(at)
            rows.append(np.r_[mean, ends])
        return np.vstack(rows)

    def written_bands(self, i: int, alpha: float) -> list[Written]:
        """The bands of a target as summaries show them, and correlations: columns, standard deviations, shares."""
        values, names = self.components_of(i, alpha), list(self.bands.names)
        sizes = [f"{self.bands.members(k).size:,}" for k in range(len(names))]
        sds, shares = rows_of(values[:, [0, 2, 3]]), [[rounded(x) for x in row] for row in values[:, 4:]]
        cells = [[size, *sd, *share] for size, sd, share in zip(sizes, sds, shares, strict=True)]
        ends = interval_heads(alpha)
        out = [Written(names, ["columns", "SD", *ends, "share", *ends, "P(share<1%)"], cells)]
        if self.correlation_names:
            found = self.correlations_of(i, alpha)[:, [0, 2, 3]]
            written = [[rounded(x) for x in row] for row in found]
            out.append(Written(self.correlation_names, ["correlation", *ends], written))
        return out
