"""Comparison of fits by their leave-one-out predictive scores."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pybayesridge.exceptions import ConvergenceWarning
from pybayesridge.posterior.left_out import NoDensityError
from pybayesridge.posterior.stacking import stacking_weights
from pybayesridge.results.arguments import named_fits
from pybayesridge.results.base import LinearResults
from pybayesridge.results.leave_one_out import LeaveOneOutScore, standard_error, trials_of
from pybayesridge.results.matching import SAME_RESPONSE, check_order
from pybayesridge.text import listed

if TYPE_CHECKING:
    from pybayesridge.results.returned import AnyResults


def compare_loo(
    fits: Mapping[str, LinearResults | AnyResults | LeaveOneOutScore]
    | Sequence[LinearResults | AnyResults | LeaveOneOutScore],
    *,
    target: str | int | None = None,
    by: Any = None,
) -> pd.DataFrame:
    """Compare fits by their leave-one-out predictive scores, with stacking weights.

    The columns are those of ``arviz.compare``; standard errors are as in ``loo()``. Stacking weights (Yao, Vehtari,
    Simpson and Gelman, 2018) define the mixture of the fits' predictions that predicts the left-out rows best. They
    are not probabilities of the models: of two fits with the same predictions one may have the weight 0.

    Parameters
    ----------
    fits : dict of str to results, or list of results
        Of BayesRidge and SpikeSlab, for the same response and rows. Of a list the names are "(1)", "(2)" and so on.
        Fits of the same counts may have different exposures, which are part of a model, but not different trials.
        Or scores that their ``loo(by=)`` made, all of the same groups.
    target : str or int, optional
        Which target, by name or position; needed where there are several.
    by : str or array-like, optional
        Groups of rows that are left out together, as for ``loo()``. A name is that of a variable of all formulas.

    Returns
    -------
    DataFrame
        A row for each fit, the highest score first: ``rank``, ``elpd`` and ``p_loo`` as in
        :class:`~pybayesridge.results.leave_one_out.LeaveOneOutScore`, ``elpd_diff`` (the highest `elpd` minus that
        of the fit), ``weight``, ``se`` of `elpd`, ``dse`` of `elpd_diff`, and ``warning`` (whether the score of a row
        is in doubt).

    Raises
    ------
    ValueError
        If the fits are of different rows or responses, or a row cannot be predicted from the others.

    Warns
    -----
    ConvergenceWarning
        If the stacking weights have not converged.

    Examples
    --------
    >>> import statsmodels.api as sm
    >>> from pybayesridge import BayesRidge, SpikeSlab, compare_loo
    >>> longley = sm.datasets.longley.load_pandas().data
    >>> formula = "TOTEMP ~ GNP + UNEMP + ARMED + POP + YEAR"
    >>> fits = {"ridge": BayesRidge.from_formula(formula, longley).fit()}
    >>> fits["selection"] = SpikeSlab.from_formula(formula, longley).fit()
    >>> print(compare_loo(fits)[["elpd", "elpd_diff", "dse", "weight"]].round(1))
                elpd  elpd_diff  dse  weight
    ridge     -121.1        0.0  0.0     1.0
    selection -124.8        3.6  1.0     0.0
    """
    inner: dict[str, Any] = named_fits(fits)
    scores: dict[str, LeaveOneOutScore]
    if any(isinstance(fit, LeaveOneOutScore) for fit in inner.values()):
        if by is not None or target is not None:
            raise ValueError("scores have their groups and their target: leave out by and target")
        scores = _given(inner)
    else:
        odd = [name for name, fit in inner.items() if not isinstance(fit, LinearResults)]
        if odd:
            raise ValueError(f"{listed(odd)} are not results of BayesRidge or SpikeSlab")
        scores = {name: _score(name, fit, target, by) for name, fit in inner.items()}
        _check_alike(inner, scores)
    order = sorted(scores, key=lambda name: -scores[name].elpd)
    copies = scores[order[0]].copies
    each = np.column_stack([scores[name].pointwise.to_numpy() for name in order]) / copies[:, None]
    stacking = stacking_weights(each, copies)
    if not stacking.converged:
        warnings.warn("the stacking weights have not converged", ConvergenceWarning, stacklevel=2)
    best = scores[order[0]].elpd
    columns: dict[str, Any] = {
        "rank": np.arange(len(order)),
        "elpd": [scores[name].elpd for name in order],
        "p_loo": [scores[name].p_loo for name in order],
        "elpd_diff": [best - scores[name].elpd for name in order],
        "weight": stacking.weights,
        "se": [scores[name].se for name in order],
        "dse": [standard_error(each[:, 0] - one, copies) for one in each.T],
        "warning": [bool(scores[name].in_doubt) for name in order],
    }
    return pd.DataFrame(columns, index=order)


def _score(name: str, fit: Any, target: str | int | None, by: Any) -> LeaveOneOutScore:
    """The score of one of the fits, which is named where there is none."""
    try:
        score: LeaveOneOutScore = fit.loo(target=target, by=by)
    except NoDensityError as error:
        raise ValueError(f"model {name!r} has no leave-one-out predictive score: {error}") from None
    return score


def _given(inner: Mapping[str, Any]) -> dict[str, LeaveOneOutScore]:
    """Scores that were made before, of the same groups of the same rows."""
    odd = [name for name, each in inner.items() if not isinstance(each, LeaveOneOutScore) or each.groups is None]
    if odd:
        raise ValueError(
            f"{listed(odd)} are not scores of groups, as loo(by=) makes them: pass results, with by= for groups"
        )
    first_name, first = next(iter(inner.items()))
    for name, score in inner.items():
        if not np.array_equal(pd.factorize(score.groups)[0], pd.factorize(first.groups)[0]):
            raise ValueError(
                f"the scores {first_name!r} and {name!r} are of different groups of rows: use the same by"
            )
        if score.kind != first.kind:
            raise ValueError(f"the scores {first_name!r} and {name!r} are of different families")
        if not np.array_equal(score.trials, first.trials) or not np.allclose(
            score.observed, first.observed, rtol=0, atol=SAME_RESPONSE * np.abs(first.observed).max(initial=0)
        ):
            raise ValueError(f"the scores {first_name!r} and {name!r} are of different responses")
    return dict(inner)


def _check_alike(fits: dict[str, Any], scores: dict[str, LeaveOneOutScore]) -> None:
    """Refuse fits of different rows or responses."""
    first_name, first = next(iter(fits.items()))
    name_of_target = scores[first_name].pointwise.name
    y = _response(first, name_of_target)
    for name, fit in fits.items():
        other = _response(fit, scores[name].pointwise.name)
        if fit.model.distribution.kind_of_response != first.model.distribution.kind_of_response:
            raise ValueError(f"the fits {first_name!r} and {name!r} are of different families")
        alike = other.shape == y.shape and np.allclose(
            other, y, rtol=0, atol=SAME_RESPONSE * np.abs(y).max(initial=0)
        )
        if alike:
            alike = np.array_equal(fit.model.copies, first.model.copies) and np.array_equal(
                trials_of(fit), trials_of(first)
            )
        if not alike:
            raise ValueError(
                f"the fits {first_name!r} and {name!r} have different rows or responses: "
                "fit all models to the same rows of the same response"
            )
        check_order(f"the fits {first_name!r}", first.model, repr(name), fit.model)


def _response(fit: Any, target: object) -> Any:
    y = fit.model.endog
    return y if y.ndim == 1 else y[:, fit.model.data.targets.index(target)]
