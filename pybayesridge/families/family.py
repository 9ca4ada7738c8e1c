"""What models and outputs ask of the family of a response."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from pybayesridge._types import AnyArray, BoolArray, FloatArray
from pybayesridge.checks import positive
from pybayesridge.text import either

FLAT_IN = ("latent", "link")
"""Units in which unpenalised coefficients of a ridge can have a flat prior."""

LEAST_DISPERSION, MOST_DISPERSION = 1e-8, 1e3
"""Dispersions that can be given."""

if TYPE_CHECKING:
    import pandas as pd

    from pybayesridge.sites.likelihood import Likelihood
    from pybayesridge.sites.prior import FlatIn


@dataclass(frozen=True, slots=True)
class Score:
    """How good predicted means of responses are.

    Attributes
    ----------
    name : str
        Results that predict rows from the others have it as ``loo_<name>``.
    label : str
    better : {"larger", "smaller"}
    of : callable
        Of the likelihood of rows and their means, (n,).
    """

    name: str
    label: str
    better: Literal["larger", "smaller"]
    of: Callable[[Any, FloatArray], float]


class Family:
    """A distribution of responses given the linear predictor, with its link.

    A family is one class in one file of this folder, and an entry in ``registry.py``. Instances are frozen; what is
    learned from a response when it is coded (the names of its levels) is part of the instance that :meth:`coded`
    returns.

    Attributes
    ----------
    name : str
        As the argument `family` of the models takes it.
    links : tuple of str
        Those that it has, the default first.
    link : str
    takes : tuple of str
        Arguments of the models that only some families take, and this one does.
    per_row : str
        The one of these that says how large each row is: a number of trials, or an exposure. Empty if there is none.
    extent_bounds : bool
        Whether responses are at most this number, so that fits with other ones are of other responses.
    shape : str
        The name of its further parameter, which is integrated out unless it is given; empty if there is none.
    kind_of_response : str
        What its responses are: of those of one kind other families can be models too.
    lanes : tuple of str
        Ways to fit models of its responses, of ``KINDS`` in ``models/methods.py``.
    in_r : tuple of str
        Values that exports of its fits have besides those of all families, by their names in
        ``results/export_generalized.py``; empty if fits are for Python alone.
    statsmodels : str
        The class of statsmodels' families that stands for it; empty if there is none.
    reason : str
        Why it does not take a noise variance.
    instead : str
        What to use where a model does not have it; empty for families that all have.
    max_targets : int or None
        Most responses that are fitted together.
    needs_rows : bool
        Whether its likelihood needs the rows, so that sufficient statistics do not do.
    has_noise : bool
        Whether it has a noise variance, so that new observations have predictive intervals.
    has_density : bool
        Whether responses are continuous.
    in_whole_numbers : bool
        Whether responses are whole numbers, so that the rows with each value can be counted.
    has_events : bool
        Whether the sum of its responses is a number of events.
    new_intervals : bool
        Whether a new response has a prediction interval: where there is no noise variance, by its likelihood.
    has_classes : bool
        Whether classifiers can be made of it: its responses may be two classes, as text or as 0 and 1.
    has_cuts : bool
        Whether responses are ordered categories, with cut points in place of an intercept.
    has_mean : bool
        Whether the mean of a response has a posterior mean; where the tail of the linear predictor's posterior rules
        that out medians are reported.
    is_linear : bool
        Whether the mean of a response is the linear predictor.
    codes_itself : bool
        Whether its response may be text, a factor or numbers of successes, which :meth:`coded` makes numbers.
    counts_rows : bool
        Whether a weight of 3 stands for three rows; otherwise weights are relative precisions.
    weights_are : str
        How weights are called.
    scale_of : str
        Whose scale coefficients have.
    predicted : str
        What predictions are predictions of.
    predicts_shares : bool
        Whether they are probabilities.
    mass : str
        What the predictive distribution has at an observed response.
    variance : str
        What the explained share is a share of.
    linear_predictor : str
        What the linear predictor is a transform of the mean to.
    ratio : str
        What the exponential of a coefficient is; empty where it has no meaning.
    model_in_words : str
        A sentence on the responses given the columns.
    augmentation : str
        The paper on the auxiliary variables given which responses are normal; empty where there are none.
    scores : tuple of Score
        Of predictions, where squared errors say little; empty where residuals are looked at.
    null : str
        What a model without columns predicts.
    own : tuple of str
        Attributes of results that only some families have, and this one does.
    instead_of_residuals : str
        The pictures to draw in place of residuals.
    responses : str
        What it is for, in a word or two: for the command line's help.
    statistics : tuple of str
        Of a response, which predictive checks compare unless others are asked for.
    """

    name: ClassVar[str]
    links: ClassVar[tuple[str, ...]]
    takes: ClassVar[tuple[str, ...]] = ()
    per_row: ClassVar[str] = ""
    extent_bounds: ClassVar[bool] = False
    shape: ClassVar[str] = ""
    lanes: ClassVar[tuple[str, ...]] = ("sites", "banded_sites")
    in_r: ClassVar[tuple[str, ...]] = ()
    statsmodels: ClassVar[str]
    reason: ClassVar[str] = ""
    instead: ClassVar[str] = ""
    max_targets: ClassVar[int | None] = 1
    needs_rows: ClassVar[bool] = True
    has_noise: ClassVar[bool] = False
    has_density: ClassVar[bool] = False
    in_whole_numbers: ClassVar[bool] = False
    has_events: ClassVar[bool] = True
    new_intervals: ClassVar[bool] = False
    has_classes: ClassVar[bool] = False
    has_cuts: ClassVar[bool] = False
    has_mean: ClassVar[bool] = True
    is_linear: ClassVar[bool] = False
    codes_itself: ClassVar[bool] = False
    counts_rows: ClassVar[bool] = True
    weights_are: ClassVar[str] = "frequency"
    on_weights: ClassVar[str] = "Rows have frequency weights: a row of weight 3 counts as three rows."
    scale_of: ClassVar[str] = "link"
    predicted: ClassVar[str] = "prediction"
    predicts_shares: ClassVar[bool] = False
    mass: ClassVar[str] = "probability"
    variance: ClassVar[str] = "the latent variance"
    scores: ClassVar[tuple[Score, ...]] = ()
    null: ClassVar[str] = "mean"
    own: ClassVar[tuple[str, ...]] = ()
    instead_of_residuals: ClassVar[str] = "plot_ppc()"
    responses: ClassVar[str] = "numbers"
    statistics: ClassVar[tuple[str, ...]] = ("mean", "sd", "min", "max")

    link: Any

    @classmethod
    def of(cls, **given: Any) -> Family:
        """The family with those arguments of a model that it takes, None where they are not given."""
        return cls()

    @classmethod
    def argument_of(cls, family: Any) -> Mapping[str, Any]:
        """Arguments of a model that an object of statsmodels has besides the link, by name."""
        return {}

    @property
    def kind_of_response(self) -> str:
        """What its responses are; by default those of no other family."""
        return self.name

    @property
    def linear_predictor(self) -> str:
        """What the link makes of the mean, in words."""
        raise NotImplementedError

    @property
    def ratio(self) -> str:
        """What the exponential of a coefficient is; empty where it has no meaning."""
        return ""

    @property
    def model_in_words(self) -> str:
        """A sentence on the responses given the columns."""
        raise NotImplementedError

    @property
    def augmentation(self) -> str:
        """The paper on the auxiliary variables given which responses are normal; empty where there are none."""
        return ""

    @property
    def attributes(self) -> Mapping[str, str]:
        """Attributes of models that only this family gives them."""
        return {}

    @property
    def levels(self) -> tuple[str, str] | None:
        """The two levels of the response as text, the event last; None where it is a number."""
        return None

    @property
    def summaries(self) -> tuple[str, ...]:
        """The statistics of a response that say something of a model's fit."""
        return self.statistics

    @property
    def in_json(self) -> Mapping[str, Any]:
        """What the fit as JSON says of the family, by name; empty for the one that is meant where none is named."""
        return {}

    def coded(self, endog: Any) -> tuple[Any, Family]:
        """The response as numbers, and the family with what this coding has shown."""
        raise NotImplementedError

    def checked(self, endog: FloatArray, extent: FloatArray | None, labels: pd.Index) -> FloatArray:
        """The response of the rows that are kept as the numerics take it, or a ValueError that names rows."""
        raise NotImplementedError

    @classmethod
    def checked_link(cls, value: Any) -> Any:
        """The argument `link` of a model, by default the first of :attr:`links`."""
        if value not in (None, *cls.links):
            raise ValueError(f"link must be {either(cls.links)}, not {value!r}")
        return value or cls.links[0]

    @staticmethod
    def checked_flat_in(value: object) -> FlatIn:
        """The argument `flat_in` of a model, by default "latent"."""
        if value not in (None, *FLAT_IN):
            raise ValueError(f"flat_in must be 'latent' or 'link', not {value!r}")
        return value or "latent"  # type: ignore[return-value]

    def shape_of(self, others: Mapping[str, FloatArray]) -> FloatArray | None:
        """Draws of its further parameter, as :meth:`draws` takes them, among those of a chain; None without."""
        return others.get(self.shape)

    def on_shape(self) -> list[str]:
        """Sentences on its further parameter and that parameter's prior."""
        return []

    def about_response(self, res: Any) -> tuple[str, str] | None:
        """Name and value of the fact that a report says of the response of some results; None where it says none."""
        return None

    def findings(self, res: Any) -> list[str]:
        """Sentences on the response of some results with which their report begins."""
        return []

    def without_columns(self, res: Any) -> tuple[Any, FloatArray]:
        """A row that stands for all of some results, and its mean: for the scores of a model without columns."""
        raise NotImplementedError

    def rows(self, endog: FloatArray, extent: FloatArray | None, weights: FloatArray | None) -> Likelihood:
        """The likelihood of the rows."""
        raise NotImplementedError

    def row_weights(self, weights: FloatArray | None, extent: FloatArray | None) -> FloatArray | None:
        """Weights of rows in means and variances of columns, (n,); None where all are alike."""
        return weights

    def copies(self, n: int, weights: FloatArray | None) -> FloatArray:
        """How many rows each row stands for, (n,)."""
        return np.ones(n) if weights is None or not self.counts_rows else np.asarray(weights, dtype=np.float64)

    def mean(self, linear: FloatArray) -> FloatArray:
        """Mean of a response at linear predictors."""
        raise NotImplementedError

    def predicted_on(self, which: str) -> str:
        """The scale, "mean" or "linear", of the computations that predict one of them: where both are one, linear."""
        return which

    def mean_slope(self, linear: FloatArray) -> FloatArray:
        """Derivative of the mean of a response with respect to the linear predictor."""
        raise NotImplementedError

    def expected_derivatives(
        self, mean: FloatArray, variance: FloatArray, orders: tuple[int, ...]
    ) -> list[FloatArray]:
        """Means of derivatives of the mean of a response where linear predictors are normal; order 0 is itself."""
        raise NotImplementedError

    def of_rows(self, mean: FloatArray, extent: FloatArray | None) -> FloatArray:
        """Means of responses of rows of some extent, from those at the same linear predictors."""
        return mean

    def offset(self, extent: FloatArray | None) -> FloatArray | float:
        """What is added to linear predictors of rows of some extent."""
        return 0.0

    def linear(self, mean: FloatArray) -> FloatArray:
        """The linear predictor whose mean is given: the link function."""
        raise NotImplementedError

    def draws(
        self,
        linear: AnyArray,
        variance: FloatArray | None,
        extent: FloatArray | None,
        generator: np.random.Generator,
        shape: FloatArray | None = None,
    ) -> FloatArray:
        """Responses at linear predictors (m, n), with noise of variances that broadcast, for rows of `extent`.

        A family with a further parameter has a value of it for each draw, `shape` (m, 1).
        """
        raise NotImplementedError

    def like_yes_no(self, endog: FloatArray) -> BoolArray:
        """Which responses, (q,), are better fitted by a family for yes/no responses."""
        return np.zeros(endog.reshape(len(endog), -1).shape[1], dtype=bool)


def given_dispersion(value: Any, without: str) -> float | None:
    """The argument `dispersion` of a model, or a ValueError; `without` is the family for next to none."""
    if value is None:
        return None
    found = positive("dispersion", value)
    if not LEAST_DISPERSION <= found <= MOST_DISPERSION:
        raise ValueError(
            f"dispersion must be between {LEAST_DISPERSION:g} and {MOST_DISPERSION:g}, not {found:g}: for next to no "
            f"dispersion use family={without!r}"
        )
    return found


class LatentFamily(Family):
    """A family whose probabilities are a distribution function of the linear predictor: that of a latent response."""

    links: ClassVar[tuple[str, ...]] = ("logit", "probit")
    link: Any

    @property
    def linear_predictor(self) -> str:
        """What the link makes of a probability, in words."""
        return "log odds" if self.link == "logit" else "normal quantile"

    @property
    def ratio(self) -> str:
        """What the exponential of a coefficient is: a ratio of odds, if the link has them."""
        return "odds ratio" if self.link == "logit" else ""
