"""Continuous responses with normal noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from pybayesridge._types import AnyArray, BoolArray, FloatArray
from pybayesridge.families.family import Family
from pybayesridge.text import number

if TYPE_CHECKING:
    import pandas as pd

FIRST_ROWS = 8
"""Looked at before the others: where there are very many responses few are left."""


@dataclass(frozen=True)
class GaussianFamily(Family):
    """Normal responses, whose mean is the linear predictor."""

    name: ClassVar[str] = "gaussian"
    links: ClassVar[tuple[str, ...]] = ("identity",)
    has_classes: ClassVar[bool] = True
    lanes: ClassVar[tuple[str, ...]] = ("conjugate", "banded", "sets")
    statsmodels: ClassVar[str] = "Gaussian"
    takes: ClassVar[tuple[str, ...]] = ("sigma2", "noise_var")
    max_targets: ClassVar[int | None] = None
    needs_rows: ClassVar[bool] = False
    has_noise: ClassVar[bool] = True
    has_density: ClassVar[bool] = True
    is_linear: ClassVar[bool] = True
    counts_rows: ClassVar[bool] = False
    weights_are: ClassVar[str] = "precision"
    on_weights: ClassVar[str] = (
        "Rows have precision weights, of which only the ratios matter: the noise variance is that of a row of "
        "average weight."
    )
    scale_of: ClassVar[str] = "data"
    mass: ClassVar[str] = "density"
    variance: ClassVar[str] = "variance"

    link: str = "identity"

    @property
    def linear_predictor(self) -> str:
        """What the linear predictor is."""
        return "mean"

    @property
    def model_in_words(self) -> str:
        """A sentence on the responses given the columns."""
        return "The response is modelled as a linear function of the columns plus normal noise."

    def coded(self, endog: Any) -> tuple[Any, GaussianFamily]:
        """The response as it is: numbers are checked with the columns."""
        return endog, self

    def checked(self, endog: FloatArray, extent: FloatArray | None, labels: pd.Index) -> FloatArray:
        """The response as it is."""
        return endog

    def about_response(self, res: Any) -> tuple[str, str] | None:
        """Mean, spread and range of a single response."""
        y = res.model.endog
        if y is None or len(res.model.data.targets) > 1:
            return None
        spread = f"mean {number(y.mean())}, standard deviation {number(y.std())}"
        return "Values of the response", f"{spread}, from {number(y.min())} to {number(y.max())}"

    def mean(self, linear: FloatArray) -> FloatArray:
        """The linear predictor."""
        return linear

    def linear(self, mean: FloatArray) -> FloatArray:
        """The mean."""
        return mean

    def draws(
        self,
        linear: AnyArray,
        variance: FloatArray | None,
        extent: FloatArray | None,
        generator: np.random.Generator,
        shape: FloatArray | None = None,
    ) -> FloatArray:
        """Responses with normal noise."""
        assert variance is not None
        return generator.normal(linear, np.sqrt(variance))

    def like_yes_no(self, endog: FloatArray) -> BoolArray:
        """Which columns of a response (n,) or (n, q) have the values 0 and 1 and no other, (q,)."""
        y = endog.reshape(len(endog), -1)
        first = y[:FIRST_ROWS]
        out: BoolArray = ((first == 0) | (first == 1)).all(axis=0)
        for i in np.flatnonzero(out):
            out[i] = bool(np.isin(y[:, i], (0.0, 1.0)).all()) and np.ptp(y[:, i]) > 0
        return out
