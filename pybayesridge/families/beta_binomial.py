"""Successes among trials that vary more than binomial counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.special import logit

from pybayesridge._types import AnyArray, FloatArray
from pybayesridge.families.binomial import BinomialFamily
from pybayesridge.families.family import Score, given_dispersion
from pybayesridge.families.scores import area_under_curve, brier_score
from pybayesridge.late import Late

if TYPE_CHECKING:
    import pandas as pd

    from pybayesridge.binomial import beta_binomial
else:
    beta_binomial = Late("pybayesridge.binomial.beta_binomial")


def log_score(rows: Any, share: FloatArray) -> float:
    """Mean over all trials of the log likelihood of expected shares, binomial coefficients left out."""
    with np.errstate(divide="ignore"):
        return float(rows.values(logit(share)).sum() / rows.size.sum())


@dataclass(frozen=True)
class BetaBinomialFamily(BinomialFamily):
    """Beta-binomial counts: the probability of a row is a beta variable, whose mean the columns give.

    Attributes
    ----------
    dispersion : float or None
        ``alpha = rho / (1 - rho)``, rho the correlation of the trials of a row, where it is given; otherwise it is
        integrated out.
    """

    name: ClassVar[str] = "beta-binomial"
    instead: ClassVar[str] = (
        "use BayesRidge without selection, or family='binomial', whose inclusion probabilities are too close to 1 "
        "where shares vary more than binomial counts"
    )
    links: ClassVar[tuple[str, ...]] = ("logit",)
    takes: ClassVar[tuple[str, ...]] = ("link", "trials", "flat_in", "dispersion")
    statsmodels: ClassVar[str] = ""
    shape: ClassVar[str] = "alpha"
    lanes: ClassVar[tuple[str, ...]] = ("sites", "banded_sites")
    in_r: ClassVar[tuple[str, ...]] = (*BinomialFamily.in_r, "dispersion", "dispersion_mean")
    has_classes: ClassVar[bool] = False
    scores: ClassVar[tuple[Score, ...]] = (
        Score("log_score", "log score", "larger", log_score),
        Score("brier", "Brier score", "smaller", brier_score),
        Score("auc", "AUC", "larger", area_under_curve),
    )
    responses: ClassVar[str] = "successes among --trials that vary more than binomial counts"

    dispersion: float | None = None

    @classmethod
    def of(cls, **given: Any) -> BetaBinomialFamily:
        """The family with the arguments of a model."""
        link, flat_in = cls.checked_link(given.get("link")), cls.checked_flat_in(given.get("flat_in"))
        value = given_dispersion(given.get("dispersion"), "binomial")
        return cls(link, flat_in, counts=given.get("trials") is not None, dispersion=value)

    @property
    def kind_of_response(self) -> str:
        """Those of the binomial family."""
        return BinomialFamily.name

    @property
    def model_in_words(self) -> str:
        """A sentence on the probability of the event."""
        return (
            f"{super().model_in_words} The probabilities of rows with the same columns vary as a beta variable; "
            "rho = alpha / (1 + alpha) is the correlation of the trials of a row."
        )

    @property
    def in_json(self) -> Mapping[str, Any]:
        """What the binomial family has, and the dispersion where it was given."""
        own = {} if self.dispersion is None else {"dispersion": self.dispersion}
        return {**super().in_json, **own}

    def coded(self, endog: Any) -> tuple[Any, BetaBinomialFamily]:
        """The numbers of successes."""
        if not self.counts:
            raise ValueError(
                "family='beta-binomial' needs trials=, the number of trials of each row, with the numbers of "
                "successes as endog: single yes/no responses say nothing of its dispersion"
            )
        found: tuple[Any, Any] = super().coded(endog)
        return found

    def checked(self, endog: FloatArray, extent: FloatArray | None, labels: pd.Index) -> FloatArray:
        """Shares of successes, (n,)."""
        share = super().checked(endog, extent, labels)
        if self.dispersion is None and extent is not None and not (extent > 1).any():
            raise ValueError(
                "all rows have one trial, which says nothing of the dispersion: use family='binomial', or give "
                "dispersion="
            )
        return share

    def on_shape(self) -> list[str]:
        """How alpha is treated."""
        if self.dispersion is not None:
            return [f"The dispersion alpha is given: {self.dispersion:g}."]
        return ["The dispersion alpha is integrated out; a priori rho = alpha / (1 + alpha) is Beta(1/2, 1/2)."]

    def without_columns(self, res: Any) -> tuple[Any, FloatArray]:
        """All rows, and the share of all trials, with the dispersion of the fit."""
        rows = res.likelihood()
        return rows, np.full(rows.n, res.n_events / res.n_trials)

    def rows(
        self, endog: FloatArray, extent: FloatArray | None, weights: FloatArray | None
    ) -> beta_binomial.BetaBinomial:
        """Successes and failures of the rows, of shares of successes."""
        count = np.ones(endog.size) if extent is None else extent
        return beta_binomial.of_successes(np.rint(endog * count), count, weights, self.dispersion)

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
        alpha = np.array(self.dispersion or 1.0) if shape is None else shape
        return beta_binomial.successes_of(count, self.mean(linear), alpha, generator) / count
