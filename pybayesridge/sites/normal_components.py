"""What posteriors of selection share whose linear predictors are normal in each of several components."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from pybayesridge._types import AnyArray, FloatArray
from pybayesridge.posterior.laws import Ask
from pybayesridge.posterior.quantiles import AROUND_MEDIAN

if TYPE_CHECKING:
    from pybayesridge.design.design import Design


class NormalComponents:
    """Means of responses of rows; goes before the posterior in the list of bases."""

    __slots__ = ()

    if TYPE_CHECKING:
        design: Design
        rows: Any

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

    @property
    def has_response_means(self) -> bool:
        """Whether the mean of a response has a posterior mean; else medians are reported."""
        return True

    def response_moments(self, mean: FloatArray, variance: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean and mean square of the mean of a response over normal linear predictors; shape of `mean`."""
        raise NotImplementedError

    def response_at(self, linear: FloatArray) -> FloatArray:
        """Mean of a response at linear predictors; of posteriors without means."""
        raise NotImplementedError

    def response_means(self, x_rows: AnyArray, z_rows: FloatArray) -> FloatArray:
        """Posterior mean of the mean of a response at rows, (m,); the median where there is no mean."""
        return self._of_responses(x_rows, z_rows)[0]

    def response_sds(self, x_rows: AnyArray, z_rows: FloatArray) -> FloatArray:
        """Posterior standard deviation of the same.

        Where there is no mean it is half the distance of the quantiles at one standard deviation of a normal
        distribution.
        """
        return self._of_responses(x_rows, z_rows)[1]

    def _of_responses(self, x_rows: AnyArray, z_rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        if not self.has_response_means:
            linear = self.rows(x_rows, z_rows).ask(Ask(AROUND_MEDIAN)).quantiles[:, 0]
            low, middle, high = self.response_at(linear).T
            return middle, 0.5 * (high - low)
        first, second = np.empty((2, z_rows.shape[0]))
        for at, center, spread in self.linear_components(x_rows, z_rows):
            found = self.response_moments(center, spread)
            first[at], second[at] = (self.component_weights @ part for part in found)
        return first, np.sqrt(np.maximum(second - first**2, 0.0))
