"""Yes/no responses, and successes among trials."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.special import logit, ndtri

from pybayesridge._types import AnyArray, FloatArray
from pybayesridge.binomial import link as of_link
from pybayesridge.binomial.link import Link
from pybayesridge.families.family import LatentFamily, Score
from pybayesridge.families.scores import area_under_curve, brier_score, log_score
from pybayesridge.late import Late
from pybayesridge.text import listed, number

if TYPE_CHECKING:
    import pandas as pd

    from pybayesridge.binomial import likelihood, logistic_normal
    from pybayesridge.data import arrays, frames
    from pybayesridge.sites.prior import FlatIn
else:
    arrays = Late("pybayesridge.data.arrays")
    frames = Late("pybayesridge.data.frames")
    likelihood = Late("pybayesridge.binomial.likelihood")
    logistic_normal = Late("pybayesridge.binomial.logistic_normal")
    pd = Late("pandas")

AUGMENTATION = {
    "logit": "Polson, N. G., Scott, J. G., Windle, J. (2013). Bayesian Inference for Logistic Models Using "
    "Pólya-Gamma Latent Variables. Journal of the American Statistical Association, 108(504), 1339–1349.",
    "probit": "Albert, J. H., Chib, S. (1993). Bayesian Analysis of Binary and Polychotomous Response Data. Journal "
    "of the American Statistical Association, 88(422), 669–679.",
}

BOTH = "a binomial model needs both outcomes"

CODING = "code it as 0 and 1, or pass event="

NOT_A_RESPONSE = "pass one column with two values, or the numbers of successes with trials="


@dataclass(frozen=True)
class BinomialFamily(LatentFamily):
    """Events among trials, whose probability is the logistic or the normal distribution function.

    Attributes
    ----------
    link : {"logit", "probit"}
    flat_in : {"latent", "link"}
        Units in which unpenalised coefficients of a ridge have a flat prior.
    counts : bool
        Whether the response is the number of successes among trials.
    event : level or None
        The level whose probability is modelled: as it was given, and once a response is coded as text; "success"
        where there are trials.
    other : str or None
        The other level.
    """

    name: ClassVar[str] = "binomial"
    takes: ClassVar[tuple[str, ...]] = ("link", "event", "trials", "flat_in")
    per_row: ClassVar[str] = "trials"
    extent_bounds: ClassVar[bool] = True
    has_classes: ClassVar[bool] = True
    lanes: ClassVar[tuple[str, ...]] = ("sites", "banded_sites", "latent_sets")
    in_r: ClassVar[tuple[str, ...]] = ("trials", "n_trials", "n_events", "loo_probabilities")
    statsmodels: ClassVar[str] = "Binomial"
    reason: ClassVar[str] = "binomial responses have no noise variance"
    codes_itself: ClassVar[bool] = True
    predicted: ClassVar[str] = "probability of the event"
    predicts_shares: ClassVar[bool] = True
    new_intervals: ClassVar[bool] = True
    scores: ClassVar[tuple[Score, ...]] = (
        Score("log_score", "log score", "larger", log_score),
        Score("brier", "Brier score", "smaller", brier_score),
        Score("auc", "AUC", "larger", area_under_curve),
    )
    null: ClassVar[str] = "share of events"
    own: ClassVar[tuple[str, ...]] = (
        "n_trials",
        "loo_probabilities",
        "loo_brier",
        "loo_auc",
        "loo_calibration",
        "plot_calibration",
        "plot_roc",
        "odds_ratios",
    )
    instead_of_residuals: ClassVar[str] = "plot_calibration() or plot_roc()"
    responses: ClassVar[str] = "two values, or for successes among --trials"

    link: Link = "logit"
    flat_in: FlatIn = "latent"
    counts: bool = False
    event: Any = None
    other: str | None = None

    @classmethod
    def of(cls, **given: Any) -> BinomialFamily:
        """The family with the arguments of a model."""
        link = cls.checked_link(given.get("link"))
        counts = given.get("trials") is not None
        return cls(link, cls.checked_flat_in(given.get("flat_in")), counts, given.get("event"))

    @property
    def model_in_words(self) -> str:
        """A sentence on the probability of the event."""
        return (
            f"The model for the {self.linear_predictor} of the probability of the event ({self.event}) is a linear "
            "function of the columns."
        )

    @property
    def augmentation(self) -> str:
        """The paper on the auxiliary variables given which responses are normal."""
        return AUGMENTATION[self.link]

    @property
    def attributes(self) -> Mapping[str, str]:
        """Attributes of models that only this family gives them."""
        return {"link": self.link, "flat_in": self.flat_in, "event": self.event}

    @property
    def in_json(self) -> Mapping[str, Any]:
        """The names of the family and the link, and the event."""
        return {"family": self.name, "link": self.link, "event": self.event}

    @property
    def levels(self) -> tuple[str, str] | None:
        """The two levels of the response as text, the event last; None for numbers of successes."""
        return None if self.counts else (str(self.other), str(self.event))

    @property
    def summaries(self) -> tuple[str, ...]:
        """The mean, which says all of responses of 0 and 1; shares of trials have several statistics."""
        return self.statistics if self.counts else ("mean",)

    def coded(self, endog: Any) -> tuple[Any, BinomialFamily]:
        """The response as 0 and 1, or as numbers of successes, and the family with the names of the levels."""
        if endog is None:
            raise ValueError("family='binomial' needs rows: moments do not determine its likelihood")
        found = code_response(endog, self.event, counts=self.counts)
        return found.values, replace(self, event=found.event, other=found.other)  # noqa: PD011

    def checked(self, endog: FloatArray, extent: FloatArray | None, labels: pd.Index) -> FloatArray:
        """Shares of successes, (n,)."""
        share = endog if extent is None else proportions(endog, extent, labels)
        check_both(share, self.event, self.other)
        return share

    def about_response(self, res: Any) -> tuple[str, str]:
        """The event, and how often it happened."""
        return "Event", f"{self.event}: {number(res.n_events, 15)} of {number(res.n_trials, 15)}"

    def findings(self, res: Any) -> list[str]:
        """How many responses are events."""
        return [f"{number(res.n_events, 15)} of {number(res.n_trials, 15)} responses are events ({self.event})."]

    def without_columns(self, res: Any) -> tuple[likelihood.Binomial, FloatArray]:
        """All events among all trials, and their share."""
        events, trials = np.array([res.n_events]), np.array([res.n_trials])
        return likelihood.from_counts(events, trials, None, self.link), events / trials

    def rows(self, endog: FloatArray, extent: FloatArray | None, weights: FloatArray | None) -> likelihood.Binomial:
        """Successes and failures of the rows, of shares of successes."""
        count = np.ones(endog.size) if extent is None else extent
        return likelihood.from_counts(np.rint(endog * count), count, weights, self.link)

    def row_weights(self, weights: FloatArray | None, extent: FloatArray | None) -> FloatArray | None:
        """The weights times the trials: a row of several trials is several rows."""
        return extent if weights is None else weights if extent is None else weights * extent

    def mean(self, linear: FloatArray) -> FloatArray:
        """Probability of the event."""
        return of_link.probability(linear, self.link)

    def mean_slope(self, linear: FloatArray) -> FloatArray:
        """Derivative of the probability of the event."""
        return of_link.probability_slope(linear, self.link)

    def expected_derivatives(
        self, mean: FloatArray, variance: FloatArray, orders: tuple[int, ...]
    ) -> list[FloatArray]:
        """Means of derivatives of the probability of the event where linear predictors are normal."""
        return logistic_normal.expected_derivatives(mean, variance, self.link, orders)

    def linear(self, mean: FloatArray) -> FloatArray:
        """Log odds or normal quantiles of probabilities."""
        out: FloatArray = logit(mean) if self.link == "logit" else ndtri(mean)
        return out

    def draws(
        self,
        linear: AnyArray,
        variance: FloatArray | None,
        extent: FloatArray | None,
        generator: np.random.Generator,
        shape: FloatArray | None = None,
    ) -> FloatArray:
        """Shares of successes among the trials."""
        count = np.ones(linear.shape[-1]) if extent is None else extent
        return np.asarray(generator.binomial(count.astype(np.int64), self.mean(linear)) / count, dtype=np.float64)


@dataclass(frozen=True, slots=True)
class BinaryResponse:
    """A response as numbers.

    Attributes
    ----------
    values : Series or (n,) array
        1 for the event, 0 for the other level, or numbers of successes; NaN where it is missing.
    event, other : str
        The two levels, as text; "success" and "failure" where there are trials.
    """

    values: Any
    event: str
    other: str


def code_response(endog: Any, event: Any, *, counts: bool) -> BinaryResponse:
    """Code a response.

    Parameters
    ----------
    endog : array-like
        Numbers of successes with `counts`; else 0 and 1, booleans, or a factor with two levels.
    event : level or None
        Whose probability is modelled; by default 1, True, or the second level.
    counts : bool
        Whether there are trials.

    Raises
    ------
    ValueError
        For anything else; the message says what was found and what to do.
    """
    column = one_column(endog, BinomialFamily.name, NOT_A_RESPONSE)
    if counts:
        if event is not None:
            raise ValueError("event chooses between the levels of a yes/no response; with trials= endog has counts")
        return BinaryResponse(like(endog, column, _as_numbers(column)), "success", "failure")
    levels, codes = _levels(column, event)
    if len(levels) > 2:
        raise ValueError(f"endog has {len(levels)} levels ({listed(levels)}): {NOT_A_RESPONSE}")
    if len(levels) < 2:
        found = f"all responses are {text_of(levels[0])!r}" if levels else "endog has no value"
        raise ValueError(f"{found}: {BOTH}")
    at = 1 if event is None else _position(levels, event)
    values = np.where(codes < 0, np.nan, codes == at)
    return BinaryResponse(like(endog, column, values), text_of(levels[at]), text_of(levels[1 - at]))


def proportions(successes: FloatArray, trials: FloatArray, labels: pd.Index) -> FloatArray:
    """Shares of successes, or a ValueError that names the rows whose counts are none."""
    whole = (successes == np.rint(successes)) & (trials == np.rint(trials))
    bad = np.flatnonzero(~(whole & (successes >= 0) & (trials >= 1) & (successes <= trials)))
    if bad.size:
        raise ValueError(
            "with trials= endog has numbers of successes: whole numbers from 0 to the number of trials, which is 1 "
            f"at least; this is not so in row(s) {listed(labels[bad].tolist())}"
        )
    return successes / trials


def check_both(proportion: FloatArray, event: object, other: object) -> None:
    """Refuse rows of one outcome only."""
    if not (proportion < 1).any() or not (proportion > 0).any():
        outcome = event if (proportion > 0).any() else other
        raise ValueError(f"all responses are {outcome!r}: {BOTH}")


def one_column(endog: Any, family: str, remedy: str) -> pd.Series:
    """The response of a family as a Series, or a ValueError with the remedy where it is not one column."""
    given = frames.to_pandas(endog, "endog")
    if isinstance(given, pd.DataFrame):
        if given.shape[1] != 1:
            raise ValueError(f"family={family!r} takes one response, got {given.shape[1]} columns: {remedy}")
        return given.iloc[:, 0]
    if isinstance(given, pd.Series):
        return given
    if isinstance(given, pd.Categorical):
        return pd.Series(given)
    array = np.asarray(frames.unmasked(given))
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise ValueError(f"family={family!r} takes one response, got an array of shape {array.shape}: {remedy}")
    return pd.Series(array)


def like(endog: Any, column: pd.Series, values: FloatArray) -> Any:
    """The values with the labels of what was given."""
    given = frames.to_pandas(endog, "endog")
    return pd.Series(values, index=column.index, name=column.name) if arrays.is_pandas(given) else values


def _as_numbers(column: pd.Series) -> FloatArray:
    try:
        return pd.to_numeric(column).to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError):
        raise ValueError("with trials= endog must be numeric: the number of successes of each row") from None


def _levels(column: pd.Series, event: Any) -> tuple[list[Any], Any]:
    """The levels in their order, and the position of each row's among them, -1 where it is missing."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        used = column.cat.remove_unused_categories()
        return list(used.cat.categories), used.cat.codes.to_numpy()
    plain = column.infer_objects()
    if pd.api.types.is_numeric_dtype(plain.dtype) and not pd.api.types.is_complex_dtype(plain.dtype):
        return _numeric_levels(plain.to_numpy(dtype=np.float64, na_value=np.nan), event)
    try:
        codes, found = pd.factorize(plain, sort=True)
    except TypeError:
        raise ValueError("endog mixes values that have no order: pass a column of one type") from None
    return list(found), codes


def _numeric_levels(values: FloatArray, event: Any) -> tuple[list[Any], Any]:
    found = np.unique(values[~np.isnan(values)])
    if found.size and np.isin(found, [0.0, 1.0]).all():
        codes = np.where(np.isnan(values), -1, np.nan_to_num(values)).astype(int)
        return ([0.0, 1.0] if found.size == 2 else found.tolist()), codes
    if found.size and ((found >= 0) & (found <= 1)).all():
        raise ValueError("endog has fractions: pass the numbers of successes, and the numbers of trials as trials=")
    if found.size > 2 or (found.size == 2 and event is None):
        count = f"{found.size} different values" if found.size > 2 else "values"
        remedy = NOT_A_RESPONSE if found.size > 2 else CODING
        raise ValueError(f"endog has {count} ({listed(map(text_of, found))}), not 0 and 1: {remedy}")
    return found.tolist(), np.where(np.isnan(values), -1, np.searchsorted(found, np.nan_to_num(values)))


def _position(levels: list[Any], event: Any) -> int:
    for i, level in enumerate(levels):
        alike = {text_of(level), str(level)} | ({str(bool(level))} if level in (0, 1) else set())
        if level is event or str(event) in alike or text_of(event) in alike:
            return i
    raise ValueError(f"event must be one of {listed(map(text_of, levels))}, not {event!r}")


def text_of(level: Any) -> str:
    """A level as text: whole numbers without a point."""
    whole = isinstance(level, float) and level.is_integer()
    return str(int(level)) if whole else str(level)
