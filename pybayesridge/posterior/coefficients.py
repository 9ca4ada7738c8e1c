"""What posteriors answer about single coefficients: one question for all of them, or for some."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, Self

import numpy as np

from pybayesridge._types import AnyArray, FloatArray, IntArray
from pybayesridge.posterior.laws import Answer, Ask, RowLaw, unknown
from pybayesridge.quantile_tables import NO_ROW_SPACE

ELEMENTS = 1 << 22
"""Most numbers in a block of rows that give single coefficients."""


@dataclass(frozen=True, slots=True)
class Coefficients:
    """The coefficients of a posterior that says of all what is asked, and of a few by rows that give them.

    Attributes
    ----------
    posterior : Posterior
        With ``coefficient_means()``, ``coefficient_sds()``, ``coefficient_quantiles(probabilities)``: of the
        unpenalised and of the penalised coefficients.
    few : int
        The largest number of coefficients that are asked for by rows.
    """

    posterior: Any
    few: int = 0

    def ask(self, ask: Ask, which: IntArray | None = None) -> Answer:
        """Answer everything about all coefficients, or about some by their positions."""
        if which is not None and which.size <= min(self.few, self._size() - 1):
            return self._by_rows(which, ask)
        at: Any = slice(None) if which is None else which
        size = self._size() if which is None else which.size
        nothing = unknown(size, self.posterior.design.q)
        mean = center = sd = above = nothing
        if ask.mean:
            means, centers = self.means()
            mean = center = means[at]
            if centers is not means:
                center = centers[at]
        if ask.sd:
            sd = self.joined(self.posterior.coefficient_sds())[at]
        solved = np.zeros((*nothing.shape, 0))
        if ask.probabilities:
            probabilities = np.array(ask.probabilities)
            solved = self.joined(self.posterior.coefficient_quantiles(probabilities), probabilities.size)[at]
        zero = nothing if self.posterior.has_point_masses else None
        if ask.above:
            above, zero = self.signs(which)
        return Answer(mean, sd, center, solved, above, zero)

    def blocks(self, ask: Ask) -> Iterator[tuple[IntArray, Answer]]:
        """All at once."""
        yield np.arange(self._size(), dtype=np.intp), self.ask(ask)

    def covariance(self, target: int = 0) -> FloatArray:
        """Posterior covariance of all coefficients of one target, (k + p, k + p)."""
        out: FloatArray = self.posterior.covariance(target)
        return out

    def means(self) -> tuple[FloatArray, FloatArray]:
        """Means, and what stands for them where there are none."""
        mean = self.joined(self.posterior.coefficient_means())
        return mean, mean

    def joined(self, parts: tuple[FloatArray, FloatArray], *more: int) -> FloatArray:
        """Values of the unpenalised and the penalised coefficients as one array, with an axis over targets."""
        return np.concatenate(parts).reshape(self._size(), self.posterior.design.q, *more)

    def signs(self, which: IntArray | None) -> tuple[FloatArray, FloatArray | None]:
        """Probabilities of values above 0, and of exactly 0, by rows."""
        at = np.arange(self._size(), dtype=np.intp) if which is None else which
        step = max(1, ELEMENTS // max(self._size(), 1))
        ask = Ask(mean=False, sd=False, above=True)
        found = [self._by_rows(at[i : i + step], ask) for i in range(0, at.size, step)]
        above, zero = np.zeros((2, 0, self.posterior.design.q))
        above = np.concatenate([above, *(each.above for each in found)])
        if not self.posterior.has_point_masses:
            return above, None
        return above, np.concatenate([zero, *(each.mass_at_zero for each in found if each.mass_at_zero is not None)])

    def _size(self) -> int:
        return int(self.posterior.design.block.k + self.posterior.design.p)

    def _by_rows(self, which: IntArray, ask: Ask) -> Answer:
        law: RowLaw = self.posterior.rows(*self._unit_rows(which))
        return law.ask(ask)

    def _unit_rows(self, which: IntArray) -> tuple[FloatArray, FloatArray]:
        """Rows over the penalised (m, p) and the unpenalised columns (m, k) that give single coefficients."""
        k, p = self.posterior.design.block.k, self.posterior.design.p
        x_rows, z_rows = np.zeros((which.size, p)), np.zeros((which.size, k))
        of_z = which < k
        z_rows[np.flatnonzero(of_z), which[of_z]] = 1.0
        x_rows[np.flatnonzero(~of_z), which[~of_z] - k] = 1.0
        return x_rows, z_rows


class MarginalsAlone:
    """What posteriors without the space of the rows answer alike, and what they do not; a base of theirs.

    Attributes
    ----------
    mean, sd : tuples of two arrays
        Of the unpenalised and of the penalised coefficients, on the user's scale.
    """

    __slots__ = ()

    if TYPE_CHECKING:
        mean: tuple[FloatArray, FloatArray]
        sd: tuple[FloatArray, FloatArray]

    @property
    def coefficients(self) -> Alone:
        """The posterior of each coefficient."""
        return Alone(self)

    def coefficient_means(self) -> tuple[FloatArray, FloatArray]:
        """Posterior means of the unpenalised and the penalised coefficients."""
        return self.mean

    def coefficient_sds(self) -> tuple[FloatArray, FloatArray]:
        """Posterior standard deviations, as :meth:`coefficient_means`."""
        return self.sd

    def covariance(self, target: int = 0) -> NoReturn:
        """Not here."""
        raise ValueError(NO_ROW_SPACE.format(what="a covariance"))

    def rows(self, x_rows: AnyArray, z_rows: FloatArray, offset: FloatArray | float = 0.0) -> NoReturn:
        """Not here."""
        raise ValueError(NO_ROW_SPACE.format(what="the uncertainty of a prediction"))

    def draw(self, *given: Any, **options: Any) -> NoReturn:
        """Not here."""
        raise ValueError(NO_ROW_SPACE.format(what="a draw"))

    def without_rows(self) -> Self:
        """The same."""
        return self


@dataclass(frozen=True, slots=True)
class Alone(Coefficients):
    """The coefficients of a posterior without the space of the rows, each known alone."""

    def signs(self, which: IntArray | None) -> tuple[FloatArray, FloatArray | None]:
        """Not here."""
        raise ValueError(NO_ROW_SPACE.format(what="the probability that a coefficient is positive"))


def some_of(answer: Answer, at: IntArray) -> Answer:
    """The answer about some of its coefficients."""
    zero = answer.mass_at_zero
    values = answer.mean, answer.sd, answer.center, answer.quantiles, answer.above
    mean, sd, center, solved, above = (each[at] for each in values)
    return Answer(mean, sd, center, solved, above, None if zero is None else zero[at])


def joined(parts: Sequence[Answer], ask: Ask) -> Answer:
    """The answers about consecutive coefficients, none of them with point masses, as one."""

    def each(name: str, asked: bool) -> FloatArray:
        values = [getattr(part, name) for part in parts]
        if asked:
            return np.concatenate(values)
        return unknown(sum(map(len, values)), *values[0].shape[1:])

    mean = each("mean", ask.mean)
    return Answer(
        mean, each("sd", ask.sd), mean, each("quantiles", bool(ask.probabilities)), each("above", ask.above)
    )
