"""Predictions of several models, mixed with weights: stacking."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pybayesridge._types import ArrayLike, FloatArray, RowsLike
from pybayesridge.data.prepare import in_order
from pybayesridge.quantile_tables import NO_ROW_SPACE
from pybayesridge.results.arguments import check_alpha, named_fits, target_position
from pybayesridge.results.base import LinearResults
from pybayesridge.results.contrast import as_table, combined, read_contrasts
from pybayesridge.results.loo_comparison import compare_loo
from pybayesridge.results.matching import check_order, same_values
from pybayesridge.results.pooled import mixed_means, mixed_prediction
from pybayesridge.results.prediction import BayesPrediction, GeneralizedPrediction
from pybayesridge.results.shown import Shown, counted
from pybayesridge.text import listed

if TYPE_CHECKING:
    from narwhals.typing import IntoDataFrame

    from pybayesridge.results.returned import AnyResults

SUM = 1e-6
"""Weights whose sum differs from 1 by more are refused."""


class StackedResults(Shown):
    """The posteriors of several models of one response, mixed with weights; made by :func:`pybayesridge.stack`.

    Attributes
    ----------
    fits : dict of str to results
    weights : Series
        By the names of the fits; they sum to 1.
    """

    def __init__(self, fits: Mapping[str, LinearResults], weights: pd.Series) -> None:
        self.fits, self.weights = dict(fits), weights
        # What has no weight need not be defined.
        self._inner: list[Any] = [fit for fit, weight in zip(fits.values(), weights, strict=True) if weight > 0]

    def _shown(self) -> tuple[str, pd.DataFrame | None, str]:
        title = (
            f"{counted(len(self.fits), 'fit')} of {listed(self._inner[0].model.data.targets)}, mixed with weights:"
        )
        return title, self.weights.to_frame(), "get_prediction() has predictions with intervals."

    @property
    def parts(self) -> Sequence[LinearResults]:
        """The fits whose posteriors are mixed: those with a weight."""
        return self._inner

    @property
    def shares(self) -> FloatArray:
        """Their weights, which sum to 1."""
        values = self.weights.to_numpy()
        return values[values > 0]

    def predict(
        self,
        exog: RowsLike | None = None,
        transform: bool = True,
        which: str = "mean",
        exposure: ArrayLike | str | None = None,
        new_levels: str = "sample",
        groups: bool = True,
    ) -> pd.Series | pd.DataFrame:
        """Posterior mean at rows, of the linear predictor or, for yes/no responses, of the probability.

        Parameters
        ----------
        exog : frame, optional
            New data with the variables of all models, as for a single fit. The rows of the fits by default.
        transform : bool
            Whether to pass new data through the formulas.
        which : {"mean", "linear"}
            For yes/no responses: probabilities, or linear predictors. For counts: expected counts (medians), or
            linear predictors.
        exposure : float, (m,) array-like or str, for counts
            Exposures of the rows, as for a single fit.
        new_levels, groups
            As for a single fit with several penalties.
        """
        return mixed_means(self._inner, self.shares, exog, transform, which, exposure, new_levels, groups)

    def get_prediction(
        self,
        exog: RowsLike | None = None,
        transform: bool = True,
        target: str | int | None = None,
        which: str = "mean",
        weights: ArrayLike | str | None = None,
        exposure: ArrayLike | str | None = None,
        trials: ArrayLike | str | None = None,
        new_levels: str = "sample",
        groups: bool = True,
    ) -> BayesPrediction | GeneralizedPrediction:
        """Predictions with credible and prediction intervals: ``.summary_frame(alpha)``.

        Intervals are quantiles of the mixture, whose standard deviations contain the differences of the fits.

        Parameters
        ----------
        exog : frame, optional
            New data with the variables of all models, as for a single fit. The rows of the fits by default.
        transform : bool
            Whether to pass new data through the formulas.
        target : str or int, optional
            One of several targets; all by default.
        which : {"mean", "linear"}
            For yes/no responses: probabilities, or linear predictors.
        weights : float, (m,) array-like or str, optional
            For Gaussian responses: precision weights of new observations, as for a single fit.
        exposure : float, (m,) array-like or str, for counts
            Exposures of the rows, as for a single fit.
        trials : int, (m,) array-like or str, for yes/no responses
            Numbers of trials of the rows, as for a single fit.
        new_levels, groups
            As for a single fit with several penalties.
        """
        return mixed_prediction(
            self._inner, self.shares, exog, transform, target, which, weights, exposure, trials, new_levels, groups
        )

    def contrast(
        self,
        contrasts: str | Sequence[str] | Mapping[str, str] | ArrayLike | pd.Series | IntoDataFrame,
        *,
        alpha: float = 0.05,
        target: str | int | None = None,
    ) -> pd.DataFrame:
        """Posterior of linear combinations of coefficients that all fits with a weight have.

        What a coefficient means depends on the other columns of its model: of models with different columns the
        mixture is rarely of interest.

        Parameters
        ----------
        contrasts : str, sequence of str, dict, array-like, Series or frame
            As for a single fit; the columns of an array are the coefficients that all fits have, in the order of the
            first fit.
        alpha : float
            One minus the probability of the intervals.
        target : str or int, optional
            Which target, by name or position; needed where there are several.

        Returns
        -------
        DataFrame
            As that of a single fit.
        """
        i, alpha = target_position(self._inner[0].model.data.targets, target, "contrast"), check_alpha(alpha)
        every = [list(fit.model.exog_names) for fit in self._inner]
        common = [name for name in every[0] if all(name in names for names in every)]
        read, value, labels = read_contrasts(contrasts, common)
        weights = []
        for names in every:
            own = np.zeros((len(read), len(names)))
            own[:, [names.index(name) for name in common]] = read
            weights.append(own)
        return as_table(combined(self, weights, value, alpha, i), labels)


def stack(
    fits: Mapping[str, AnyResults] | Sequence[AnyResults],
    weights: Mapping[str, float] | Sequence[float] | pd.Series | None = None,
) -> StackedResults:
    """Mix the posteriors of several models of one response with weights.

    Parameters
    ----------
    fits : dict of str to results, or list of results
        At least two, of BayesRidge and SpikeSlab, of the same response and rows; of a list the names are "(1)", "(2)"
        and so on. Their columns may differ.
    weights : dict, Series or sequence of numbers, optional
        A weight for each fit, not negative, with the sum 1. By default the stacking weights of
        :func:`pybayesridge.compare_loo`, with which predictions of rows from the others are best.

    Returns
    -------
    StackedResults
        ``predict``, ``get_prediction``, ``contrast``, ``weights``.

    Raises
    ------
    ValueError
        For weights that are not, fits of different responses, families or links, results that were saved without the
        space of the rows, or whose posterior has no means; without `weights` as for :func:`pybayesridge.compare_loo`,
        and for several responses.

    References
    ----------
    Yao, Vehtari, Simpson & Gelman (2018). Using stacking to average Bayesian predictive distributions. Bayesian
    Analysis.

    Examples
    --------
    >>> import statsmodels.api as sm
    >>> from pybayesridge import BayesRidge, SpikeSlab, stack
    >>> longley = sm.datasets.longley.load_pandas().data
    >>> fits = [model.from_formula("TOTEMP ~ GNP + UNEMP + POP", longley).fit() for model in (BayesRidge, SpikeSlab)]
    >>> mixed = stack(fits, weights=[0.5, 0.5])
    >>> ends = [fit.predict(longley.iloc[:1])[0] for fit in fits]
    >>> bool(min(ends) < mixed.predict(longley.iloc[:1])[0] < max(ends))
    True
    """
    named = named_fits(fits)
    if len(named) < 2 or not all(isinstance(fit, LinearResults) for fit in named.values()):
        raise ValueError("fits must be at least two results of BayesRidge or SpikeSlab")
    _check_alike(named)
    if weights is None:
        weights = compare_loo(named)["weight"]
    return StackedResults(named, _checked(weights, list(named)))


def _check_alike(fits: dict[str, Any]) -> None:
    """Refuse fits whose predictions are of different things, or that have no joint posterior."""
    first_name, first = next(iter(fits.items()))
    for name, fit in fits.items():
        if fit.model.distribution.has_cuts:
            raise ValueError(f"the fit {name!r} has family='ordinal', whose predictions cannot be mixed here")
        kinds = {(one.distribution.kind_of_response, one.distribution.is_linear) for one in (first.model, fit.model)}
        if len(kinds) > 1:
            raise ValueError(
                f"the fits {first_name!r} and {name!r} have family={first.model.family!r} and "
                f"family={fit.model.family!r}, whose predictions cannot be mixed"
            )
        for what in ("link", "event"):
            if getattr(fit.model, what, None) != getattr(first.model, what, None):
                raise ValueError(f"the fits {first_name!r} and {name!r} have different values of {what}")
        if list(fit.model.data.targets) != list(first.model.data.targets):
            raise ValueError(f"the fits {first_name!r} and {name!r} are of different responses")
        responses = [each.model.endog for each in (first, fit)]
        if all(y is not None for y in responses) and not same_values([np.ravel(y) for y in responses]):
            raise ValueError(f"the fits {first_name!r} and {name!r} have different rows or responses")
        check_order(f"the fits {first_name!r}", first.model, repr(name), fit.model)
        if not fit.has_joint_posterior:
            raise ValueError(NO_ROW_SPACE.format(what="a mixture of predictions"))
        if not getattr(fit.posterior, "has_mean", True):
            raise ValueError(f"the fit {name!r} has no posterior means: the columns separate the responses")


def _checked(weights: Any, names: list[str]) -> pd.Series:
    """Weights by the names of the fits, which sum to 1."""
    values = np.array(in_order("weights", weights, names, "fits"), dtype=np.float64)
    if values.shape != (len(names),):
        raise ValueError(f"weights must have a number for each of the {len(names)} fits")
    if not (np.isfinite(values).all() and (values >= 0).all() and abs(values.sum() - 1) <= SUM):
        raise ValueError(f"weights must not be negative and have the sum 1, not {values.tolist()}")
    return pd.Series(values / values.sum(), index=names, name="weight")
