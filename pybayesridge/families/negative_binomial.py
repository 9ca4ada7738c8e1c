"""Counts that vary more than Poisson counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from pybayesridge._types import AnyArray, FloatArray
from pybayesridge.families.family import given_dispersion
from pybayesridge.families.poisson import PoissonFamily
from pybayesridge.late import Late

if TYPE_CHECKING:
    from pybayesridge.poisson import likelihood, negative_binomial
else:
    likelihood = Late("pybayesridge.poisson.likelihood")
    negative_binomial = Late("pybayesridge.poisson.negative_binomial")


@dataclass(frozen=True)
class NegativeBinomialFamily(PoissonFamily):
    """Negative binomial counts (NB2): the variance is ``mean + alpha mean^2``.

    Attributes
    ----------
    dispersion : float or None
        alpha, where it is given; otherwise it is integrated out.
    """

    name: ClassVar[str] = "negative-binomial"
    takes: ClassVar[tuple[str, ...]] = ("link", "exposure", "flat_in", "dispersion")
    statsmodels: ClassVar[str] = "NegativeBinomial"
    shape: ClassVar[str] = "alpha"
    in_r: ClassVar[tuple[str, ...]] = (*PoissonFamily.in_r, "dispersion", "dispersion_mean")
    responses: ClassVar[str] = "counts that vary more than Poisson counts"

    dispersion: float | None = None

    @classmethod
    def of(cls, **given: Any) -> NegativeBinomialFamily:
        """The family with the arguments of a model."""
        value = given_dispersion(given.get("dispersion"), "poisson")
        return cls(cls.checked_link(given.get("link")), cls.checked_flat_in(given.get("flat_in")), value)

    @classmethod
    def argument_of(cls, family: Any) -> Mapping[str, Any]:
        """The dispersion of an object of statsmodels."""
        return {"dispersion": float(family.alpha)}

    @property
    def model_in_words(self) -> str:
        """A sentence on the responses given the columns."""
        return f"{super().model_in_words} The variance of a count is mean + alpha mean^2."

    @property
    def in_json(self) -> Mapping[str, Any]:
        """The names of the family and the link, and the dispersion where it was given."""
        own = {} if self.dispersion is None else {"dispersion": self.dispersion}
        return {**super().in_json, **own}

    def on_shape(self) -> list[str]:
        """How alpha is treated."""
        if self.dispersion is not None:
            return [f"The dispersion alpha is given: {self.dispersion:g}."]
        return ["The dispersion alpha is integrated out; a priori 1 / (1 + alpha) is Beta(1/2, 1/2)."]

    def rows(
        self, endog: FloatArray, extent: FloatArray | None, weights: FloatArray | None
    ) -> negative_binomial.NegativeBinomial:
        """The likelihood of the rows."""
        return negative_binomial.from_counts(endog, extent, weights, self.dispersion)

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
        alpha = np.array(self.dispersion or 1.0) if shape is None else shape
        return negative_binomial.counts_of(mean, alpha, generator)
