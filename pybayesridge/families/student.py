"""Continuous responses with Student-t noise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from pybayesridge._types import AnyArray, FloatArray
from pybayesridge.checks import positive
from pybayesridge.families.family import Family, Score
from pybayesridge.late import Late
from pybayesridge.text import number

if TYPE_CHECKING:
    import pandas as pd

    from pybayesridge.sites import student
else:
    student = Late("pybayesridge.sites.student")

LEAST, MOST = 1.0, 1000.0
"""Degrees of freedom that can be given, besides inf: with 1 or fewer the noise has no mean."""


def log_score(rows: Any, mean: FloatArray) -> float:
    """Mean log density of the responses at expected responses."""
    return float(rows.values(mean).sum() / rows.copies.sum())


def absolute_error(rows: Any, mean: FloatArray) -> float:
    """Mean absolute error of expected responses."""
    return float(rows.copies @ np.abs(rows.y - mean) / rows.copies.sum())


@dataclass(frozen=True)
class StudentFamily(Family):
    """Responses with Student-t noise about the linear predictor.

    Attributes
    ----------
    link : {"identity"}
    df : float or None
        Degrees of freedom, inf for normal noise; None where they are averaged over.
    flat_in : {"link"}
        Unpenalised coefficients are flat on the scale of the response, as with normal noise.
    """

    name: ClassVar[str] = "student-t"
    links: ClassVar[tuple[str, ...]] = ("identity",)
    takes: ClassVar[tuple[str, ...]] = ("df",)
    lanes: ClassVar[tuple[str, ...]] = ("sites_with_scale", "banded_sites_with_scale")
    shape: ClassVar[str] = "sigma"
    in_r: ClassVar[tuple[str, ...]] = ("noise_scale", "noise_scale_mean", "noise_df", "loo_means")
    statsmodels: ClassVar[str] = ""
    reason: ClassVar[str] = "the scale of Student-t noise is averaged over"
    scale_of: ClassVar[str] = "response"
    predicted: ClassVar[str] = "expected response"
    has_density: ClassVar[bool] = True
    has_events: ClassVar[bool] = False
    new_intervals: ClassVar[bool] = True
    mass: ClassVar[str] = "density"
    variance: ClassVar[str] = "the variance of the expected response and the squared scale of the noise"
    scores: ClassVar[tuple[Score, ...]] = (
        Score("log_score", "log score", "larger", log_score),
        Score("absolute_error", "mean absolute error", "smaller", absolute_error),
    )
    null: ClassVar[str] = "median"
    own: ClassVar[tuple[str, ...]] = ("loo_absolute_error",)
    instead: ClassVar[str] = (
        "use BayesRidge without selection, which also takes df, or family='gaussian', on which outliers have "
        "influence"
    )
    responses: ClassVar[str] = "numbers with outliers"

    link: str = "identity"
    df: float | None = None
    flat_in: Any = "link"

    @classmethod
    def of(cls, **given: Any) -> StudentFamily:
        """The family with the arguments of a model."""
        value = given.get("df")
        if value is None:
            return cls()
        df = np.inf if isinstance(value, float) and value == np.inf else positive("df", value)
        if not (LEAST < df <= MOST or np.isinf(df)):
            raise ValueError(
                f"df must be above {LEAST:g} and at most {MOST:g}, or inf for normal noise, not {df:g}: with 1 "
                "degree of freedom or fewer the noise has no mean"
            )
        return cls(df=df)

    @property
    def kind_of_response(self) -> str:
        """Numbers, of which normal noise can be a model too."""
        return "gaussian"

    @property
    def linear_predictor(self) -> str:
        """What the linear predictor is."""
        return "expected response"

    @property
    def model_in_words(self) -> str:
        """A sentence on the responses given the columns."""
        return (
            "The response is modelled as a linear function of the columns plus Student-t noise of scale sigma, so "
            "that single responses far from the others have little influence."
        )

    @property
    def attributes(self) -> Mapping[str, Any]:
        """Attributes of models that only some families give them."""
        return {"link": self.link, "flat_in": self.flat_in}

    @property
    def in_json(self) -> Mapping[str, Any]:
        """The names of the family and the link, and the degrees of freedom where they were given."""
        own = {} if self.df is None else {"df": self.df if np.isfinite(self.df) else "inf"}
        return {"family": self.name, "link": self.link, **own}

    def coded(self, endog: Any) -> tuple[Any, StudentFamily]:
        """The response as it is: numbers are checked with the columns."""
        if endog is None:
            raise ValueError(f"family={self.name!r} needs rows: moments do not determine its likelihood")
        return endog, self

    def checked(self, endog: FloatArray, extent: FloatArray | None, labels: pd.Index) -> FloatArray:
        """The responses, or a ValueError if half of them are one value."""
        values, counts = np.unique(endog, return_counts=True)
        if 2 * int(counts.max()) >= endog.size:
            raise ValueError(
                f"{int(counts.max())} of {endog.size} responses are {values[counts.argmax()]:g}: Student-t noise of "
                "scale 0 about one value explains them, so that the scale of the noise is not determined; use "
                "family='gaussian'"
            )
        return endog

    def on_shape(self) -> list[str]:
        """How scale and degrees of freedom are treated."""
        scale = "The scale sigma of the noise is integrated out, with the prior 1 / sigma^2 of its square."
        if self.df is not None:
            return [scale, f"The degrees of freedom of the noise are given: {self.df:g}."]
        grid = ", ".join(f"{df:g}" for df in student.GRID)
        return [
            scale,
            f"The degrees of freedom of the noise are averaged over; a priori {grid} are equally probable.",
        ]

    def about_response(self, res: Any) -> tuple[str, str] | None:
        """Median, spread and range."""
        y = res.model.endog
        if y is None:
            return None
        spread = f"median {number(np.median(y))}, standard deviation {number(y.std())}"
        return "Values of the response", f"{spread}, from {number(y.min())} to {number(y.max())}"

    def without_columns(self, res: Any) -> tuple[Any, FloatArray]:
        """All rows, and their median, with the noise of the fit."""
        rows = res.likelihood()
        return rows, np.full(rows.n, np.median(np.repeat(rows.y, np.maximum(np.rint(rows.copies), 1).astype(int))))

    def rows(self, endog: FloatArray, extent: FloatArray | None, weights: FloatArray | None) -> student.StudentT:
        """The likelihood of the rows."""
        return student.from_responses(endog, weights, self.df)

    def mean(self, linear: FloatArray) -> FloatArray:
        """The linear predictor."""
        return linear

    def predicted_on(self, which: str) -> str:
        """That of the linear predictor, which is the mean."""
        return "linear"

    def mean_slope(self, linear: FloatArray) -> FloatArray:
        """One."""
        return np.ones_like(linear)

    def expected_derivatives(
        self, mean: FloatArray, variance: FloatArray, orders: tuple[int, ...]
    ) -> list[FloatArray]:
        """The linear predictor itself, 1, and 0."""
        return [mean if order == 0 else np.full(np.shape(mean), float(order == 1)) for order in orders]

    def linear(self, mean: FloatArray) -> FloatArray:
        """The mean."""
        return mean

    def shape_of(self, others: Mapping[str, FloatArray]) -> FloatArray | None:
        """Draws of the scale and of the degrees of freedom, (m, 2), among those of a chain."""
        sigma = others[self.shape]
        return np.hstack([sigma, others.get("df", np.full(sigma.shape, self.df or np.inf))])

    def draws(
        self,
        linear: AnyArray,
        variance: FloatArray | None,
        extent: FloatArray | None,
        generator: np.random.Generator,
        shape: FloatArray | None = None,
    ) -> FloatArray:
        """Responses with t noise."""
        own = np.array([[1.0, self.df or np.inf]]) if shape is None else shape
        noise = student.noise_of(own[:, 1:], linear.shape, generator)
        out: FloatArray = linear + own[:, :1] * noise
        return out
