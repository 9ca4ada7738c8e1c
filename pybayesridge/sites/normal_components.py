"""What posteriors of selection share whose linear predictors are normal in each of several components."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from pybayesridge._types import AnyArray, FloatArray
from pybayesridge.sites.coordinates import to_user

if TYPE_CHECKING:
    from pybayesridge.design.design import Design


class NormalComponents:
    """Means of responses of rows; goes before the posterior in the list of bases."""

    __slots__ = ()

    if TYPE_CHECKING:
        design: Design

        @property
        def unit(self) -> FloatArray:
            """Factors that convert coefficients of the design to the user's scale, (p,)."""

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
        return to_user(self.design)

    def all_to_user(self) -> FloatArray:
        """From coordinates and penalised columns of the design to all coefficients, (k + p, k + p)."""
        design, k, p = self.design, self.design.block.k, self.design.p
        out = np.zeros((k + p, k + p))
        out[:k, :k] = self.to_user()
        out[:k, k:] = design.rows_outside_z(np.zeros((k, p)), np.eye(k))
        out[k:, k:] = np.diag(self.unit)
        return out

    def flat_coefficients(self, coordinates: FloatArray, b: FloatArray) -> FloatArray:
        """Unpenalised coefficients (m, k) from coordinates (m, k) and penalised coefficients (m, p), user's scale."""
        return coordinates @ self.to_user().T + self.design.taken_from_z(np.ascontiguousarray(b.T)).T

    def response_moments(self, mean: FloatArray, variance: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean and mean square of the mean of a response over normal linear predictors; shape of `mean`."""
        raise NotImplementedError

    def response_means(self, x_rows: AnyArray, z_rows: FloatArray) -> FloatArray:
        """Posterior mean of the mean of a response at rows, (m,); the median where there is no mean."""
        return self.of_responses(x_rows, z_rows)[0]

    def response_sds(self, x_rows: AnyArray, z_rows: FloatArray) -> FloatArray:
        """Posterior standard deviation of the same."""
        return self.of_responses(x_rows, z_rows)[1]

    def of_responses(self, x_rows: AnyArray, z_rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation of the mean of a response at rows, each (m,)."""
        first, second = np.empty((2, z_rows.shape[0]))
        for at, center, spread in self.linear_components(x_rows, z_rows):
            found = self.response_moments(center, spread)
            first[at], second[at] = (self.component_weights @ part for part in found)
        return first, np.sqrt(np.maximum(second - first**2, 0.0))
