"""Each number that is shown of a fit as a whole, once: its names, its value, how it is written, what it means.

The summary, JSON, :func:`pybayesridge.compare_models`, maketables and R's ``summary()`` and ``glance()`` show these.
A fit has the facts whose attribute it has: one that raises AttributeError is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from pybayesridge._types import BoolArray, FloatArray, IntArray
from pybayesridge.text import TABLE_ROWS, Number, columns, count, number, rounded

Format = Literal["text", "count", "number", "digits", "share", "evidence", "error", "size"]
"""How a value is written: a name, a whole number, four digits, all digits, three decimals, two decimals, two digits,
a mean of counts with its interval."""

SHOWN = 30
"""How many coefficients a cut table shows."""

Value = str | float
Output = Literal["summary", "pooled", "json", "row", "table", "r"]


RIDGE, SELECTION = "BayesRidge", "SpikeSlab"


def always(_: Any) -> bool:
    """Of every fit."""
    return True


def never(_: Any) -> bool:
    """Of none."""
    return False


def of_ridge(res: Any) -> bool:
    """Of a ridge."""
    return bool(res.model_name == RIDGE)


def not_saturated(res: Any) -> bool:
    """Of fits whose columns cannot fit any response."""
    return not getattr(res, "can_fit_anything", False)


@dataclass(frozen=True, slots=True)
class Fact:
    """A number that is shown, and where.

    Attributes
    ----------
    name : str
    label : str
        In the summary; ``{how}`` stands for where the value of a hyperparameter comes from, ``{measure}`` for what
        the method calls its residual.
    form : str
        See :data:`Format`.
    meaning : str
        A sentence, as in the glossary.
    value : callable
        Of results and the position of a target.
    of : str
        The model that alone has it; empty for both.
    needs_rows : bool
        Whether comparisons leave it out of results whose rows were removed.
    summary : callable
        Of results: whether their summary shows it.
    shared : bool
        Whether the fits of completed data sets have it in common, so that the summary of the pooled ones shows it.
    json, row, r : str
        Its names in JSON, in the frame of ``compare_models`` and in R; empty where it is not there.
    table : (str, str)
        Its key and label for maketables; an empty label is maketables' own.
    """

    name: str
    label: str
    form: Format
    meaning: str
    value: Callable[[Any, int], Any]
    of: str = ""
    needs_rows: bool = False
    summary: Callable[[Any], bool] = always
    shared: bool = False
    json: str = ""
    row: str = ""
    r: str = ""
    table: tuple[str, str] = ("", "")

    def in_output(self, output: Output) -> str:
        """Its name in an output; empty where it is not there."""
        if output == "summary":
            return self.label
        if output == "pooled":
            return self.label if self.shared else ""
        return self.table[0] if output == "table" else str(getattr(self, output))

    def text(self, value: Any) -> str:
        """A value as it is written."""
        return value if isinstance(value, str) else WRITTEN[self.form](value)


@dataclass(frozen=True, slots=True)
class ShownCoefficients:
    """The coefficients that a summary shows.

    Attributes
    ----------
    at : sequence of int
        Their positions in ``exog_names``.
    heads : list of str
        Of the columns of `values` but the last two, which are the ends of an interval.
    values : (m, c) array
        Estimates, standard deviations, whatever else there is, and intervals.
    left_out : str
        What is said of the ``{count}`` others.
    probability : (m,) array or None
        Of inclusion.
    """

    at: Sequence[int] | IntArray
    heads: list[str]
    values: FloatArray
    left_out: str
    probability: FloatArray | None = None


@dataclass(frozen=True, slots=True)
class Written:
    """A further table of a summary; `undefined`: whether it holds means that do not exist."""

    names: list[str]
    heads: list[str]
    cells: Sequence[Sequence[str]]
    undefined: bool = False

    @classmethod
    def of_hyperparameters(cls, names: Sequence[str], values: FloatArray, alpha: float) -> Written:
        """Means, medians and intervals (m, 4) of hyperparameters."""
        undefined = not bool(np.isfinite(values[:, 0]).all())
        return cls(list(names), ["mean", "median", *interval_heads(alpha)], rows_of(values), undefined)


def rows_to_show(size: FloatArray, last: BoolArray) -> list[int]:
    """Positions of the coefficients a table shows: all, or where there are too many the largest of `size` first.

    Those that are `last` (k,) follow the others.
    """
    if size.size <= TABLE_ROWS:
        return list(range(size.size))
    return np.lexsort((-size, last))[:SHOWN].tolist()


def interval_heads(alpha: float) -> list[str]:
    """Heads of the two ends of an interval."""
    return [f"[{alpha / 2:.3g}", f"{1 - alpha / 2:.4g}]"]


def rows_of(values: FloatArray) -> list[tuple[Number, ...]]:
    """The rows of a table of numbers whose columns are each written alike, the last two as one interval."""
    return list(zip(*columns(values.T, interval=True), strict=True))


def _size(value: tuple[float, float, float] | float) -> str:
    if not isinstance(value, tuple):
        return rounded(value, 2)
    mean, low, high = value
    return f"{rounded(mean, 2)} [{low:,.0f}, {high:,.0f}]"


WRITTEN: dict[str, Callable[[Any], str]] = {
    "text": str,
    "count": lambda value: count(round(value)) if np.isfinite(value) else rounded(value),
    "number": number,
    "digits": lambda value: number(value, 15),
    "share": rounded,
    "evidence": lambda value: rounded(value, 2),
    "error": lambda value: number(value, 2),
    "size": _size,
}


def _attribute(name: str) -> Callable[[Any, int], float]:
    """An attribute of results, of one target."""
    return lambda res, i: float(np.atleast_1d(getattr(res.arrays, name))[i])


def _text(name: str) -> Callable[[Any, int], str]:
    return lambda res, _: str(getattr(res, name))


def _absent(what: str) -> AttributeError:
    return AttributeError(f"these results have no {what}")


def _family(res: Any, _: int) -> str:
    if res.model.distribution.is_linear:
        raise _absent("family other than the normal one")
    return str(res.model.family)


def _explained(res: Any, i: int) -> float:
    """The share explained where the columns can fit any response, so that R-squared says nothing."""
    if not res.can_fit_anything:
        raise _absent("columns that can fit any response")
    return float(res.explained_variance_of(i, 0.05)[0])


def _rsquared(res: Any, i: int) -> float:
    if not res.model.distribution.is_linear:
        raise _absent("residuals whose squares say something")
    return _attribute("rsquared")(res, i)


def _iterations(res: Any, _: int) -> Value:
    return float(res.n_iter) if getattr(res.method_entry, "iterates", True) else "-"


def _prior_inclusion(res: Any, _: int) -> Value:
    prior = res.arrays.prior_inclusion
    return float(prior) if np.ndim(prior) == 0 else "by column"


def _mean_prior(res: Any, _: int) -> float:
    at = res.model.positions(res.posterior.design)[1]
    return float(np.mean(res.prior_by_column()[at])) if at.size else float("nan")


def _noise_sd(res: Any, i: int) -> float:
    sd = getattr(res, "noise_sd", None)
    return float(np.sqrt(res.arrays.sigma2)) if sd is None else float(sd[i])


def _size_of(res: Any, _: int) -> Any:
    """The posterior mean, of an exact fit with its 95 % interval."""
    return res.expected_size if res.exact_sets is None else (res.expected_size, *res.size_interval())


def _groups(res: Any, _: int) -> Any:
    if res.units.single:
        raise _absent("groups of columns")
    return float(res.group_inclusion_prob.sum()) if res.exact_sets is None else res.groups_included(0.05)


def _tau(res: Any, i: int) -> float:
    return float(np.sqrt(_attribute("tau2")(res, i)))


def _evidence_error(res: Any, i: int) -> float:
    if not res.model.distribution.has_noise:
        raise _absent("Monte Carlo error of the evidence")
    return _attribute("log_evidence_se")(res, i)


FACTS = (
    Fact("response", "Dep. Variable", "text", "The response.", lambda res, i: res.model.data.targets[i], shared=True),
    Fact("model", "Model", "text", "The model's class.", _text("model_name"), shared=True),
    Fact("family", "Family", "text", "The distribution of the response.", _family, shared=True),
    Fact("link", "Link", "text", "Of the mean of a response and the linear predictor.", _text("link"), shared=True),
    Fact(
        "event",
        "Event",
        "text",
        "The level of the response whose probability is modelled.",
        _text("event"),
        shared=True,
    ),
    Fact("method", "Method", "text", "How the posterior was computed.", _text("method"), shared=True),
    Fact("solver", "Solver", "text", "The route of the computation.", _text("solver"), of=RIDGE),
    Fact(
        "nobs",
        "No. Observations",
        "count",
        "Number of rows used.",
        lambda res, _: float(res.nobs),
        shared=True,
        row="N",
        r="nobs",
        table=("N", ""),
    ),
    Fact("n_iter", "Iterations", "count", "Iterations, sets summed over, or steps of a sampler.", _iterations),
    Fact(
        "residual",
        "{measure}",
        "error",
        "Where the computation stopped: the residual of expectation propagation, or the largest Monte Carlo standard "
        "error of an inclusion probability.",
        _attribute("residual"),
        of=SELECTION,
        json="residual",
    ),
    Fact(
        "converged",
        "Converged",
        "text",
        "Whether every iteration met its stopping rule.",
        lambda res, i: "yes" if res.converged_by_target[i] else "NO",
    ),
    Fact(
        "n_trials",
        "No. Trials",
        "digits",
        "Number of trials, copies of rows included.",
        _attribute("n_trials"),
        json="n_trials",
        r="trials",
    ),
    Fact(
        "n_events",
        "No. Events",
        "digits",
        "Events among the trials; the sum of counts.",
        _attribute("n_events"),
        json="n_events",
        r="events",
    ),
    Fact(
        "lambda",
        "lambda",
        "number",
        "The ridge penalty on the standardised scale.",
        _attribute("lambda_"),
        of=RIDGE,
        json="lambda",
        r="lambda",
    ),
    Fact("tau", "tau", "number", "Prior standard deviation of the coefficients.", _tau, of=RIDGE, r="tau"),
    Fact("tau2", "tau2", "number", "Prior variance.", _attribute("tau2"), of=RIDGE, summary=never, json="tau2"),
    Fact(
        "sigma2", "sigma2", "number", "Noise variance.", _attribute("sigma2"), of=RIDGE, summary=never, json="sigma2"
    ),
    Fact(
        "prior_inclusion",
        "prior_inclusion ({how})",
        "number",
        "Prior probability that a column is in.",
        _prior_inclusion,
        of=SELECTION,
    ),
    Fact(
        "mean_prior_inclusion",
        "Mean prior_inclusion",
        "number",
        "Mean prior probability that a column is in.",
        _mean_prior,
        of=SELECTION,
        summary=never,
        r="prior_inclusion",
    ),
    Fact(
        "slab_var",
        "slab_var ({how})",
        "number",
        "Prior variance of a coefficient whose column is in.",
        _attribute("slab_var"),
        of=SELECTION,
        json="slab_var",
        r="slab_var",
    ),
    Fact(
        "noise_var",
        "noise_var ({how})",
        "number",
        "Noise variance.",
        _attribute("noise_var"),
        of=SELECTION,
        json="noise_var",
    ),
    Fact(
        "r2",
        "R-squared",
        "share",
        "The same, of every fit.",
        _attribute("rsquared"),
        summary=never,
        row="R-squared",
        table=("r2", ""),
    ),
    Fact(
        "sigma",
        "sigma",
        "number",
        "Standard deviation of the noise of a row of average weight.",
        _noise_sd,
        summary=of_ridge,
        row="sigma",
        r="sigma",
        table=("sigma", "Residual SD"),
    ),
    Fact("size", "Expected size", "size", "Expected number of included columns.", _size_of, of=SELECTION),
    Fact(
        "expected_size",
        "Expected size",
        "number",
        "Expected number of included columns.",
        _attribute("expected_size"),
        of=SELECTION,
        summary=never,
        json="expected_size",
        r="expected_size",
        table=("expected_size", "Expected number of columns"),
    ),
    Fact(
        "groups_included",
        "Groups included",
        "size",
        "Expected number of included groups, each column outside them counted as one.",
        _groups,
        of=SELECTION,
    ),
    Fact(
        "df_model",
        "Df Model (effective)",
        "number",
        "Effective degrees of freedom, without the constant.",
        _attribute("df_model"),
        summary=of_ridge,
        json="df_model",
        r="df_model",
        table=("df_model", "Effective df"),
    ),
    Fact(
        "df_resid",
        "Df Residuals",
        "number",
        "Rows minus effective degrees of freedom.",
        _attribute("df_resid"),
        summary=of_ridge,
        json="df_resid",
        r="df_resid",
        table=("df_resid", "Residual df"),
    ),
    Fact(
        "rsquared",
        "R-squared",
        "share",
        "Share of the variation in the sample that the fitted values explain.",
        _rsquared,
        summary=not_saturated,
        json="rsquared",
        r="r.squared",
    ),
    Fact(
        "explained_variance",
        "Explained variance",
        "share",
        "Posterior mean of the share of variance that the penalised columns explain.",
        _explained,
        of=RIDGE,
    ),
    Fact(
        "loo_rsquared",
        "LOO R-squared",
        "share",
        "R-squared of rows predicted from the others.",
        _attribute("loo_rsquared"),
        needs_rows=True,
        summary=never,
        row="LOO R-squared",
        table=("loo_r2", "LOO R²"),
    ),
    Fact(
        "loo_log_score",
        "LOO log score",
        "share",
        "Mean log probability of the outcomes, each row predicted from the others.",
        _attribute("loo_log_score"),
        needs_rows=True,
        json="loo_log_score",
        row="LOO log score",
        r="loo_log_score",
        table=("loo_log_score", "LOO log score"),
    ),
    Fact(
        "loo_brier",
        "LOO Brier score",
        "share",
        "Mean squared difference of outcome and probability, each row predicted from the others.",
        _attribute("loo_brier"),
        json="loo_brier",
        r="loo_brier",
    ),
    Fact(
        "loo_auc",
        "LOO AUC",
        "share",
        "Probability that an event was given a larger probability than a non-event, rows predicted from others.",
        _attribute("loo_auc"),
        json="loo_auc",
        r="loo_auc",
    ),
    Fact(
        "loo_deviance",
        "LOO deviance expl.",
        "share",
        "Share of the deviance that predictions of each row from the others explain.",
        _attribute("loo_deviance"),
        json="loo_deviance",
        r="loo_deviance",
    ),
    Fact(
        "loo_absolute_error",
        "LOO absolute error",
        "number",
        "Mean absolute error of predictions of each row from the others.",
        _attribute("loo_absolute_error"),
        json="loo_absolute_error",
        r="loo_absolute_error",
    ),
    Fact(
        "log_marginal",
        "Log marginal",
        "evidence",
        "Log marginal likelihood of the response.",
        _attribute("log_marginal"),
        of=RIDGE,
        json="log_marginal",
        row="log marginal",
        r="log_marginal",
        table=("log_marginal", "Log marginal likelihood"),
    ),
    Fact(
        "n_modes",
        "Modes",
        "count",
        "Number of interior modes of the penalty's posterior.",
        _attribute("n_modes"),
        of=RIDGE,
        json="n_modes",
        r="n_modes",
    ),
    Fact(
        "log_evidence",
        "Log evidence",
        "evidence",
        "Log marginal likelihood of the response.",
        _attribute("log_evidence"),
        of=SELECTION,
        json="log_evidence",
        row="log evidence",
        r="log_evidence",
        table=("log_evidence", "Log evidence"),
    ),
    Fact(
        "log_evidence_se",
        "Error of the log evidence",
        "error",
        "Monte Carlo standard error of the log evidence.",
        _evidence_error,
        of=SELECTION,
        summary=never,
        json="log_evidence_se",
    ),
)
"""In the order in which they are shown."""


def facts_for(res: Any, output: Output, i: int = 0) -> Iterator[tuple[Fact, Any]]:
    """The facts of results that an output shows, with their values for the target at position `i`."""
    for fact in FACTS:
        if _is_in(fact, res, output):
            try:
                yield fact, fact.value(res, i)
            except AttributeError:
                continue


def _is_in(fact: Fact, res: Any, output: Output) -> bool:
    if not fact.in_output(output) or fact.of not in ("", res.model_name):
        return False
    if output == "summary":
        return fact.summary(res)
    return not (fact.needs_rows and output in ("row", "table") and res.model.endog is None)


def value_of(res: Any, output: Output, name: str, i: int = 0) -> Any:
    """The value with a name in an output, of the target at position `i`; None where the fit does not have it."""
    for fact in FACTS:
        if fact.in_output(output) == name and _is_in(fact, res, output):
            try:
                return fact.value(res, i)
            except AttributeError:
                return None
    return None


def values_of(res: Any, output: Output, i: int = 0) -> dict[str, Any]:
    """The values by their names in an output."""
    return {fact.in_output(output): value for fact, value in facts_for(res, output, i)}


def fact_named(output: Output, name: str) -> Fact:
    """The fact with a name in an output."""
    return next(fact for fact in FACTS if fact.in_output(output) == name)


def label_of(fact: Fact, res: Any) -> str:
    """The label of a fact in the summary of some results."""
    if "{how}" in fact.label:
        known = "learned" if res.exact_sets is None else "mean"
        return fact.label.format(how=known if fact.name in res.learned else "fixed")
    return fact.label.format(measure=res.method_entry.measure) if "{" in fact.label else fact.label
