"""What posteriors of selection share whose linear predictors are normal in each of several components."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from pybayesridge._types import AnyArray, FloatArray
from pybayesridge.binomial.link import Link
from pybayesridge.binomial.logistic_normal import probability_moments

if TYPE_CHECKING:
    from pybayesridge.design.design import Design


class NormalComponents:
    """Probabilities of success of rows; goes before the posterior in the list of bases."""

    __slots__ = ()

    if TYPE_CHECKING:
        design: Design
        link: Link

    @property
    def component_weights(self) -> FloatArray:
        """Weights of the components, (S,)."""
        raise NotImplementedError

    def linear_components(
        self, x_rows: AnyArray, z_rows: FloatArray
    ) -> Iterator[tuple[slice, FloatArray, FloatArray]]:
        """Blocks of rows, and mean and variance of their linear predictors in each component, (S, rows)."""
        raise NotImplementedError

    def components(self, x_rows: AnyArray, z_rows: FloatArray) -> None:
        """No joint law of few components: averages of probabilities are drawn."""

    def draws(self, count: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Draws of the unpenalised (count, k) and penalised (count, p) coefficients, user's scale."""
        raise NotImplementedError

    def to_user(self) -> FloatArray:
        """From coordinates to coefficients of the unpenalised columns, (k, k)."""
        return self.design.block.regress(np.eye(self.design.block.k)) * np.sqrt(self.design.n)

    def probability_moments(self, x_rows: AnyArray, z_rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Posterior mean and standard deviation of the probability of success of rows, each (m,)."""
        first, second = np.empty((2, z_rows.shape[0]))
        for at, center, spread in self.linear_components(x_rows, z_rows):
            found = probability_moments(center, spread, self.link)
            first[at], second[at] = (self.component_weights @ part for part in found)
        return first, np.sqrt(np.maximum(second - first**2, 0.0))

    def response_means(self, x_rows: AnyArray, z_rows: FloatArray) -> FloatArray:
        """Posterior mean of the probability of success of rows, (m,)."""
        return self.probability_moments(x_rows, z_rows)[0]

    def response_sds(self, x_rows: AnyArray, z_rows: FloatArray) -> FloatArray:
        """Posterior standard deviation of the same."""
        return self.probability_moments(x_rows, z_rows)[1]
