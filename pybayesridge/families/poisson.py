"""Counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from pybayesridge._types import AnyArray, FloatArray
from pybayesridge.families.family import Family, Score
from pybayesridge.late import Late
from pybayesridge.text import listed, number

if TYPE_CHECKING:
    import pandas as pd

    from pybayesridge.poisson import likelihood
    from pybayesridge.sites.prior import FlatIn
else:
    likelihood = Late("pybayesridge.poisson.likelihood")

LARGEST = 1e11
"""Relative to the noise of larger counts columns explain so much that the rounding errors of doubles decide."""


def log_score(rows: likelihood.Poisson, mean: FloatArray) -> float:
    """Mean log probability of a count over all copies of the rows."""
    total = rows.copies @ (rows.tops() - 0.5 * rows.deviances(mean))
    return float(total / rows.copies.sum())


def deviance(rows: likelihood.Poisson, mean: FloatArray) -> float:
    """Deviance of expected counts (n,), over all copies."""
    return float(rows.copies @ rows.deviances(mean))


def deviance_explained(rows: likelihood.Poisson, mean: FloatArray) -> float:
    """One minus the deviance relative to that of the overall rate; nan if that fits exactly."""
    rate = rows.total / float(rows.copies @ rows.exposure)
    null = deviance(rows, rows.of_rows(np.full(rows.n, rate)))
    return 1.0 - deviance(rows, mean) / null if null > 0 else float("nan")


@dataclass(frozen=True)
class PoissonFamily(Family):
    """Poisson counts, the log of whose rate is the linear predictor.

    Attributes
    ----------
    link : {"log"}
    flat_in : {"latent", "link"}
        Units in which unpenalised coefficients of a ridge have a flat prior.
    """

    name: ClassVar[str] = "poisson"
    links: ClassVar[tuple[str, ...]] = ("log",)
    takes: ClassVar[tuple[str, ...]] = ("link", "exposure", "flat_in")
    per_row: ClassVar[str] = "exposure"
    lanes: ClassVar[tuple[str, ...]] = ("sites", "banded_sites", "latent_sets_by_ep")
    in_r: ClassVar[tuple[str, ...]] = ("exposure", "n_events", "latent_variance", "loo_means")
    statsmodels: ClassVar[str] = "Poisson"
    reason: ClassVar[str] = "the noise of counts follows from their mean"
    predicted: ClassVar[str] = "expected count"
    in_whole_numbers: ClassVar[bool] = True
    has_mean: ClassVar[bool] = False
    new_intervals: ClassVar[bool] = True
    scores: ClassVar[tuple[Score, ...]] = (
        Score("log_score", "log score", "larger", log_score),
        Score("deviance", "share of deviance explained", "larger", deviance_explained),
    )
    null: ClassVar[str] = "overall rate"
    own: ClassVar[tuple[str, ...]] = ("loo_deviance", "rate_ratios")
    responses: ClassVar[str] = "counts"
    statistics: ClassVar[tuple[str, ...]] = ("mean", "sd", "max", "zeros", "dispersion")

    link: str = "log"
    flat_in: FlatIn = "latent"

    @classmethod
    def of(cls, **given: Any) -> PoissonFamily:
        """The family with the arguments of a model."""
        return cls(cls.checked_link(given.get("link")), cls.checked_flat_in(given.get("flat_in")))

    @property
    def kind_of_response(self) -> str:
        """Counts."""
        return "counts"

    @property
    def linear_predictor(self) -> str:
        """What the linear predictor is a transform of the rate to."""
        return "log rate"

    @property
    def ratio(self) -> str:
        """What the exponential of a coefficient is."""
        return "rate ratio"

    @property
    def model_in_words(self) -> str:
        """A sentence on the responses given the columns."""
        return "The log of the expected count per unit of exposure is a linear function of the columns."

    @property
    def attributes(self) -> Mapping[str, str]:
        """Attributes of models that only some families give them."""
        return {"link": self.link, "flat_in": self.flat_in}

    @property
    def in_json(self) -> Mapping[str, Any]:
        """The names of the family and the link."""
        return {"family": self.name, "link": self.link}

    def coded(self, endog: Any) -> tuple[Any, PoissonFamily]:
        """The response as it is: numbers are checked with the columns."""
        if endog is None:
            raise ValueError(f"family={self.name!r} needs rows: moments do not determine its likelihood")
        return endog, self

    def checked(self, endog: FloatArray, extent: FloatArray | None, labels: pd.Index) -> FloatArray:
        """The counts, or a ValueError that names the rows that have none."""

        def refuse(bad: AnyArray, text: str) -> None:
            rows = np.flatnonzero(bad)
            if rows.size:
                raise ValueError(f"family={self.name!r} takes counts, {text}: row(s) {listed(labels[rows].tolist())}")

        refuse(endog < 0, "but endog is negative")
        refuse(
            endog != np.rint(endog),
            "whole numbers, but endog has fractions (if these are rates, pass the counts, and their denominators as "
            "exposure=)",
        )
        refuse(
            endog > LARGEST,
            f"but endog is above {LARGEST:g}, where a Poisson distribution has hardly any noise (model the "
            "logarithms with family='gaussian')",
        )
        if not endog.any():
            raise ValueError(
                "all counts are 0, which says that the rate is small and not how small: a Poisson model needs at "
                "least one event"
            )
        return endog

    def about_response(self, res: Any) -> tuple[str, str] | None:
        """How many events there are, and in how many rows none."""
        y = res.model.endog
        if y is None:
            return None
        return "Counts", f"{number(y.sum(), 15)} in all, mean {number(y.mean())}, {int((y == 0).sum()):,} rows with 0"

    def without_columns(self, res: Any) -> tuple[likelihood.Poisson, FloatArray]:
        """All rows, and what the overall rate predicts for them."""
        rows = res.likelihood()
        rate = rows.total / float(rows.copies @ rows.exposure)
        return rows, rows.of_rows(np.full(rows.n, rate))

    def rows(self, endog: FloatArray, extent: FloatArray | None, weights: FloatArray | None) -> likelihood.Poisson:
        """The likelihood of the rows."""
        return likelihood.from_counts(endog, extent, weights)

    def mean(self, linear: FloatArray) -> FloatArray:
        """Expected count for an exposure of 1."""
        with np.errstate(over="ignore"):
            out: FloatArray = np.exp(linear)
        return out

    def mean_slope(self, linear: FloatArray) -> FloatArray:
        """The exponential function is its own derivative."""
        return self.mean(linear)

    def expected_derivatives(
        self, mean: FloatArray, variance: FloatArray, orders: tuple[int, ...]
    ) -> list[FloatArray]:
        """The mean of a log-normal variable, for every order."""
        found = self.mean(mean + 0.5 * variance)
        return [found for _ in orders]

    def of_rows(self, mean: FloatArray, extent: FloatArray | None) -> FloatArray:
        """Expected counts of rows, from those for an exposure of 1."""
        return mean if extent is None else extent * mean

    def offset(self, extent: FloatArray | None) -> FloatArray | float:
        """Logs of exposures."""
        return 0.0 if extent is None else np.log(extent)

    def linear(self, mean: FloatArray) -> FloatArray:
        """Logs of rates."""
        with np.errstate(divide="ignore"):
            out: FloatArray = np.log(mean)
        return out

    def draws(
        self,
        linear: AnyArray,
        variance: FloatArray | None,
        extent: FloatArray | None,
        generator: np.random.Generator,
        shape: FloatArray | None = None,
    ) -> FloatArray:
        """Counts."""
        mean = np.minimum(self.of_rows(self.mean(linear), extent), likelihood.MOST_DRAWN)
        return np.asarray(generator.poisson(mean), dtype=np.float64)
