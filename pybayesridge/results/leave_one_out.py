"""Leave-one-out predictive scores of fits: ``loo`` and ``pit``."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from pybayesridge._types import FloatArray
from pybayesridge.exceptions import PrecisionWarning
from pybayesridge.posterior.left_out import LargeGroupError, LeftOut, NoDensityError, pooled
from pybayesridge.results.arguments import check_responses, target_position
from pybayesridge.results.grouping import groups_of_rows
from pybayesridge.results.shown import Shown, counted
from pybayesridge.text import listed, number

FEWEST_DRAWS = 100.0
"""The score of a row with fewer effective draws is in doubt."""

LEAST_OVERLAP = 1e-4
"""The score of a group of smaller overlap is in doubt: errors of 1e-5 were seen at 5e-4, of 0.02 at 1e-11."""

TINY = 1e-300


@dataclass(frozen=True, slots=True, repr=False)
class LeaveOneOutScore(Shown):
    """Leave-one-out predictive score of a fit, made by ``results.loo()``.

    Attributes
    ----------
    elpd : float
        Expected log predictive density: the sum of the log densities (for yes/no responses: probabilities) of the
        rows, each predicted from the others. The larger the better.
    se : float
        Its standard error: ``sqrt(n)`` times the standard deviation of `pointwise` with the denominator n - 1, as in
        the R package loo (ArviZ divides by n).
    p_loo : float
        Effective number of parameters: the log density of all rows predicted from all rows, minus `elpd`.
    nobs : float
        Number of rows; with frequency weights, of copies of them.
    pointwise : Series
        The log density of each row; of a row that stands for copies the sum over these.
    n_eff : Series or None
        Effective number of posterior draws that each row's prediction is made of, 0 for a row without which sets of
        columns matter that could not all be found. Of groups, where responses are not Gaussian, effective points of
        the integral over their linear predictors. None where it has no Monte Carlo error.
    pit : Series or None
        Probability integral transform of each row, see ``results.pit()``. None for responses that are not Gaussian.
    predicted : Series or None
        Mean of the predictive distribution of each row. None for responses that are not Gaussian.
    copies : (n,) array
        How many times each row counts.
    within : (n,) array
        Log density of one copy of each row predicted from all rows.
    mcse : float
        Monte Carlo standard error of `elpd`: that of a sampler, or of the points by which groups are integrated over,
        0 where nothing is sampled. It says how far another run of the sampler would be off; `se` says how much other
        rows would be. NaN for pooled fits by a sampler.
    pointwise_mcse : Series or None
        That of `pointwise`. None where nothing is sampled.
    groups : Series or None
        The group of each row, where whole groups were left out: `pointwise`, `copies`, `within` and `overlap` then
        have an entry for each group, which is the joint density of its rows, `nobs` is the number of groups, and
        `predicted` has one for each row.
    overlap : Series or None
        Of each group: how alike the posteriors of the penalties with and without it are, from 0 to 1: the effective
        share of the nodes of the integral over the penalties, when these are weighted anew. None for single rows.
    observed : (n,) array or None
        The response of each row, where whole groups were left out.
    trials : (n,) array or None
        The number of trials of each row likewise; 1 where there are none.
    kind : str
        What the responses are: scores of counts and of measurements, say, cannot be compared.
    correction : Series or None
        Of each group, where responses are not Gaussian: the part of `pointwise` that comes from approximating the
        posterior of the other rows anew. None for single rows and Gaussian responses.
    """

    elpd: float
    se: float
    p_loo: float
    nobs: float
    pointwise: pd.Series
    n_eff: pd.Series | None
    pit: pd.Series | None
    predicted: pd.Series | None
    copies: FloatArray
    within: FloatArray
    mcse: float = 0.0
    pointwise_mcse: pd.Series | None = None
    groups: pd.Series | None = None
    overlap: pd.Series | None = None
    observed: FloatArray | None = None
    trials: FloatArray | None = None
    kind: str = ""
    correction: pd.Series | None = None

    def summary(self) -> pd.DataFrame:
        """Estimates and standard errors, in the form of the R package loo.

        Returns
        -------
        DataFrame
            Rows ``elpd_loo``, ``p_loo`` and ``looic`` (``-2 elpd_loo``); columns ``estimate`` and ``se``.
        """
        se_p = standard_error(self.within - self.pointwise.to_numpy() / self.copies, self.copies)
        values = [[self.elpd, self.se], [self.p_loo, se_p], [-2 * self.elpd, 2 * self.se]]
        return pd.DataFrame(values, index=["elpd_loo", "p_loo", "looic"], columns=["estimate", "se"])

    @property
    def in_doubt(self) -> list[Any]:
        """Labels of the rows whose predictions rest on fewer than 100 effective draws, or groups of small overlap."""
        if self.overlap is not None:
            few = False if self.n_eff is None else self.n_eff < FEWEST_DRAWS
            return self.overlap.index[(self.overlap < LEAST_OVERLAP) | few].tolist()
        return [] if self.n_eff is None else self.n_eff.index[self.n_eff < FEWEST_DRAWS].tolist()

    @property
    def rows_in_words(self) -> str:
        """How many rows there are, and how many with their copies by frequency weights."""
        rows = counted(self.copies.size if self.groups is None else len(self.groups), "row")
        return rows if self.nobs == self.copies.size else f"{rows} ({self.nobs:,.10g} with copies by weights)"

    def _shown(self) -> tuple[str, pd.DataFrame | None, str]:
        title = f"Leave-one-out predictive score of {self.rows_in_words}"
        if self.groups is not None:
            title = (
                f"Predictive score of {counted(self.nobs, 'group')} by {self.groups.name} ({self.rows_in_words}), "
                "left out in turn"
            )
        error = f"Monte Carlo standard error of elpd: {number(self.mcse, 2)}." if self.mcse > 0 else ""
        return title, self.summary().round(1), error


def standard_error(values: FloatArray, copies: FloatArray) -> float:
    """Standard error of the sum of `values` (n,), each counted `copies` (n,) times; NaN for a single one."""
    total = copies.sum()
    mean = copies @ values / total
    return float(np.sqrt(total / (total - 1) * (copies @ (values - mean) ** 2))) if total > 1 else float("nan")


def loo(self: Any, *, target: str | int | None = None, by: Any = None) -> LeaveOneOutScore:
    """Leave-one-out predictive score with its standard error, without refitting.

    Each row is predicted from all other rows: equal to refitting without the row, with the standardisation and the
    prior of the fit to all rows. Coefficients and a noise variance that is estimated are integrated out analytically
    for each penalty of the posterior or each kept set of columns, and these are weighted anew for each row. Where a
    selection was computed by a sum over all sets of columns, all sets are weighted anew if rows and sets are not too
    many. Else, for a row without which other sets of columns matter, these are added with their exact weights. Of
    yes/no selections, rows (64 at most) of which the kept states say too little are predicted by the ratio of the
    evidences with and without them: sets are sampled under the second-order expansion of the likelihood, which
    importance weights correct. Where these vary too much, sets are sampled again without the row (16 at most), and
    the two posteriors are joined by bridge sampling (Meng and Wong 1996): each such row takes a quarter of the time
    of the fit or more.

    If the method holds the penalty at an estimate (``"em"``, ``"loocv"``, ``"gcv"``), it stays at the estimate from
    all rows, and the score is slightly optimistic. The same holds for the hyperparameters of ``SpikeSlab.fit("ep",
    hyper="maximize")``, ``"damped"`` and ``"pcep"``. With expectation propagation and the Laplace approximation the
    score is as approximate as the fit.

    With `by`, whole groups of rows are left out in turn, and the joint density of their rows is computed: how well
    the fit predicts a group of which it has seen nothing, such as a new school, whose effect is then drawn from the
    population of groups. This is for ``BayesRidge``, with one penalty or several. A group can change the posterior of
    the penalties far more than a row does: they are weighted anew, and ``overlap`` says how much of it is left. For
    Gaussian responses given the penalties it is exact. For other families the posterior of the other rows is
    approximated as in the fit: the group's part is taken out of it, the likelihood of the group is integrated over
    what is left by weighted points (``n_eff`` says how many of these count, ``mcse`` how far off they may be), and
    where the group changes the approximation for the other rows, that is made anew at the penalties from which its
    prediction comes above all (``correction`` is what this changes), and at all of them where these few do not agree,
    as for a group with most of the rows. Its density is then the quotient of the evidence with and without it
    (``n_eff`` is inf and ``mcse`` 0). All copies of a row that stands for several are left out. Scores that are not
    in doubt are within some hundredths of fits without the group; others can be off by more.

    Parameters
    ----------
    target : str or int, optional
        Which target, by name or position; needed where there are several.
    by : str or array-like, optional
        Groups of rows: a variable of the formula, such as the ``"g"`` of ``(1 | g)``, two together as ``"a:b"``, or a
        label for each row.

    Returns
    -------
    LeaveOneOutScore
        ``elpd``, ``se``, ``p_loo``, ``pointwise``; ``summary()`` is a table.

    Raises
    ------
    ValueError
        For an unknown target, if the rows were removed, or if a row or group cannot be predicted from the others;
        also if without it the approximation by expectation propagation is no distribution.

    Warns
    -----
    PrecisionWarning
        If predictions rest on few effective draws of a sampler, or on an approximation by expectation propagation
        that rows of high leverage can change; or where the penalties are others without a group.

    Examples
    --------
    >>> import statsmodels.api as sm
    >>> from pybayesridge import BayesRidge
    >>> longley = sm.datasets.longley.load_pandas().data
    >>> score = BayesRidge.from_formula("TOTEMP ~ GNP + UNEMP", longley).fit().loo()
    >>> print(f"{score.elpd:.0f} (standard error {score.se:.0f})")
    -126 (standard error 3)

    Whole firms left out, each predicted from the others:

    >>> grunfeld = sm.datasets.grunfeld.load_pandas().data
    >>> score = BayesRidge.from_formula("invest ~ value + capital + (1 | firm)", grunfeld).fit().loo(by="firm")
    >>> score.pointwise.size
    11
    """
    if by is not None:
        return _groups_left_out(self, target, by)
    found, i = left_out_of(self, target, "loo")
    labels, name = self.model.data.row_labels, self.model.data.targets[i]
    copies = self.model.copies
    n_eff = _effective_draws(self, found)
    out = LeaveOneOutScore(
        elpd=float(copies @ found.log_density),
        se=standard_error(found.log_density, copies),
        p_loo=float(copies @ (found.within - found.log_density)),
        nobs=float(copies.sum()),
        pointwise=pd.Series(copies * found.log_density, index=labels, name=name),
        n_eff=None if n_eff is None else pd.Series(n_eff, index=labels, name=name),
        pit=None if found.pit is None else pd.Series(found.pit, index=labels, name=name),
        predicted=None if found.error is None else pd.Series(_column(self, i) - found.error, index=labels, name=name),
        copies=copies,
        within=found.within,
        mcse=_monte_carlo_error(self, found),
        pointwise_mcse=None
        if n_eff is None or found.mcse is None
        else pd.Series(copies * found.mcse, labels, name=name),
    )
    few = out.in_doubt
    if few:
        warnings.warn(
            f"the leave-one-out predictions of {len(few):,} row(s) rest on fewer than {FEWEST_DRAWS:g} effective "
            f"draws: {listed(few)}. Their scores may be inaccurate: refit without these rows to predict them",
            PrecisionWarning,
            stacklevel=2,
        )
    if found.doubtful is not None and found.doubtful.any():
        rows = labels[found.doubtful].tolist()
        warnings.warn(
            f"the leave-one-out predictions of {len(rows):,} row(s) may be inaccurate: {listed(rows)}. Their "
            "leverage is high, and without them the approximation by expectation propagation, which is made for all "
            "rows, can be very different: use method='exact', or refit without these rows to predict them",
            PrecisionWarning,
            stacklevel=2,
        )
    return out


def trials_of(fit: Any) -> FloatArray:
    """Trials of each row, (n,), or ones: exposures of counts are of the model, not of the response."""
    data, bounded = fit.model.data, fit.model.distribution.extent_bounds
    return data.extent if bounded and data.extent is not None else np.ones(fit.model.nobs)


def _groups_left_out(res: Any, target: str | int | None, by: Any) -> LeaveOneOutScore:
    """The score of groups of rows."""
    i = target_position(res.model.data.targets, target, "loo")
    check_responses(res, "loo")
    labels, codes, names = groups_of_rows(res.model, by)
    try:
        found = pooled([part.groups_left_out(i, codes) for part in res.parts])
    except NoDensityError as error:
        label = None if error.row is None else names.tolist()[error.row]
        raise NoDensityError(label, error.reason, "group") from None
    except LargeGroupError as error:
        raise ValueError(
            f"group {names[error.group]!r} of by has {error.rows:,} rows: where the columns of a group with very "
            f"many levels are sparse, at most {error.most:,} rows are predicted together. Refit without these rows"
        ) from None
    target_name, observed = res.model.data.targets[i], _column(res, i)
    copies = np.ones(len(names))

    def of_groups(values: FloatArray | None) -> pd.Series | None:
        return None if values is None else pd.Series(values, index=names, name=target_name)

    out = LeaveOneOutScore(
        elpd=float(found.log_density.sum()),
        se=standard_error(found.log_density, copies),
        p_loo=float((found.within - found.log_density).sum()),
        nobs=float(len(names)),
        pointwise=pd.Series(found.log_density, index=names, name=target_name),
        n_eff=of_groups(found.draws),
        pit=None,
        predicted=None
        if found.error is None
        else pd.Series(observed - found.error, index=labels.index, name=target_name),
        copies=copies,
        within=found.within,
        mcse=0.0 if found.mcse is None else float(np.sqrt((found.mcse**2).sum())),
        pointwise_mcse=of_groups(found.mcse),
        correction=of_groups(found.correction),
        groups=labels,
        overlap=of_groups(found.efficiency),
        observed=observed,
        trials=trials_of(res),
        kind=res.model.distribution.kind_of_response,
    )
    assert out.overlap is not None
    apart = out.overlap.index[out.overlap < LEAST_OVERLAP].tolist()
    if apart:
        warnings.warn(
            f"without each of {len(apart):,} group(s) ({listed(apart)}) the posterior of the penalties "
            f"is a very different one (overlap below {LEAST_OVERLAP:g}). Their scores may be inaccurate: refit "
            "without these groups to predict them",
            PrecisionWarning,
            stacklevel=3,
        )
    few = [] if out.n_eff is None else out.n_eff.index[out.n_eff < FEWEST_DRAWS].tolist()
    if few:
        warnings.warn(
            f"the predictions of {len(few):,} group(s) ({listed(few)}) rest on fewer than {FEWEST_DRAWS:g} effective "
            "points, or the approximation without them did not settle. Their scores may be inaccurate: refit without "
            "these groups to predict them",
            PrecisionWarning,
            stacklevel=3,
        )
    return out


def _column(res: Any, i: int) -> FloatArray:
    """The response of one target, (n,)."""
    y: FloatArray = res.model.endog.reshape(len(res.model.endog), -1)[:, i]
    return y


def pit(self: Any, *, target: str | int | None = None) -> pd.Series:
    """Leave-one-out probability integral transform of each row.

    The distribution function of the prediction of a row from all other rows, at the response of the row. If the model
    describes the data, the values are uniform between 0 and 1: too many near both ends mean that predictive intervals
    are too narrow, too many in the middle that they are too wide. The predictions are those of :meth:`loo`.

    Parameters
    ----------
    target : str or int, optional
        Which target, by name or position; needed where there are several.

    Returns
    -------
    Series
        A value for each row.

    Raises
    ------
    ValueError
        As for :meth:`loo`, and for responses that are not Gaussian.
    """
    if not self.model.distribution.has_noise:
        instead = self.model.distribution.instead_of_residuals
        raise ValueError(f"pit() is for Gaussian responses: check others by {instead}")
    target_position(self.model.data.targets, target, "pit")
    score: LeaveOneOutScore = loo(self, target=target)
    assert score.pit is not None
    return score.pit


def left_out_of(res: Any, target: str | int | None, what: str) -> tuple[LeftOut, int]:
    """Predictions of the rows of a target from the others, and the position of the target.

    The prediction by several fits pooled is the equal-weight mixture of theirs.
    """
    i = target_position(res.model.data.targets, target, what)
    check_responses(res, what)
    try:
        return pooled([part.rows_left_out(i) for part in res.parts]), i
    except NoDensityError as error:
        label = None if error.row is None else res.model.data.row_labels[[error.row]].tolist()[0]
        raise NoDensityError(label, error.reason) from None


def without_score(res: Any) -> str:
    """Why a fit has no leave-one-out score, in a sentence; empty where it has one."""
    try:
        left_out_of(res, None, "loo")
    except NoDensityError as error:
        return f"There is no leave-one-out predictive score: {error}."
    return ""


def _effective_draws(res: Any, found: LeftOut) -> FloatArray | None:
    """Effective draws of each row's prediction; None where there is no Monte Carlo error."""
    draws = _draws(res)
    sums = np.isinf(draws).any() or np.isinf(found.efficiency).any()
    if not draws or (sums and (found.efficiency > 0).all()):
        return None
    # Rows in doubt have none, also where nothing is sampled.
    return np.where(found.efficiency > 0, float(np.sum(draws)) * np.maximum(found.efficiency, TINY), 0.0)


def _draws(res: Any) -> list[float]:
    """Effective draws of each of the parts that are sums over sets of columns: infinite if over all."""
    sets = [part.exact_sets for part in res.parts]
    return [exact.draws for exact in sets if exact is not None]


def _monte_carlo_error(res: Any, found: LeftOut) -> float:
    """Monte Carlo standard error of the sum of the rows' log densities; NaN for pooled fits of samplers."""
    draws = _draws(res)
    if not draws or np.isinf(draws).all():
        return 0.0
    if found.influence is None:
        return float("nan")
    return float(np.hypot(res.posterior.exact.error_of_influence(found.influence), found.beyond))
