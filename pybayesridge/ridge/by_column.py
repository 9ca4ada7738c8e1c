"""The posterior of coefficients whose columns are read in blocks: one pass for whatever is asked of each of them.

What concerns the rows and the unpenalised coefficients follows from cross-products of the first pass, and takes none.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from pybayesridge._types import AnyArray, BoolArray, FloatArray, IntArray
from pybayesridge.design.columns import Standardizer
from pybayesridge.design.unpenalized import Unpenalized
from pybayesridge.exceptions import PrecisionWarning
from pybayesridge.linalg import blas
from pybayesridge.linalg.blocks import even_parts
from pybayesridge.posterior.coefficients import joined, some_of
from pybayesridge.posterior.laws import Answer, Ask, unknown
from pybayesridge.ridge import mixture as posterior
from pybayesridge.ridge.mixture import Functionals, Mixture, MomentFactors
from pybayesridge.ridge.posterior import ELEMENTS, RidgePosterior, RidgeRows, RowFunctions
from pybayesridge.ridge.spectrum import EPS, Spectrum

DIGITS = 1e-8
"""Relative error of a variance above which its column is named."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of every penalised coefficient, and what answers it with a block of the columns.

    Attributes
    ----------
    block : Unpenalized
    half : (n, r) array
        ``U / s``: X' times it is V.
    loadings : (n, q) array
        X' times it is the posterior mean.
    spectrum : Spectrum
        Without singular vectors.
    mixture : Mixture
    likely : Mixture
        The nodes that quantiles depend on.
    factors : MomentFactors
    unit : (q,) array
        Norms of the targets.
    p : int
        Number of all penalised coefficients.
    sd, positive : bool
        Whether standard deviations and probabilities of a positive sign are asked for.
    probabilities : (c,) array or None
        Of the quantiles that are asked for.
    """

    block: Unpenalized
    half: FloatArray
    loadings: FloatArray
    spectrum: Spectrum
    mixture: Mixture
    likely: Mixture
    factors: MomentFactors
    unit: FloatArray
    p: int
    sd: bool
    positive: bool
    probabilities: FloatArray | None


@dataclass(frozen=True, slots=True)
class Found:
    """The answer about b coefficients, on the user's scale.

    Attributes
    ----------
    part : (b,) int array
        Their positions among the penalised columns that vary.
    mean : (b, q) array
    sd, positive : (b, q) arrays or None
    quantiles : (b, q, c) array or None
    unsure : (b,) bool array
        Where rounding errors may leave fewer than eight digits of a variance.
    """

    part: IntArray
    mean: FloatArray
    sd: FloatArray | None
    quantiles: FloatArray | None
    positive: FloatArray | None
    unsure: BoolArray

    def answer(self) -> Answer:
        """The same with NaN for what was not asked for."""
        nothing = unknown(*self.mean.shape)
        sd, above = (nothing if each is None else each for each in (self.sd, self.positive))
        solved = np.zeros((*self.mean.shape, 0)) if self.quantiles is None else self.quantiles
        return Answer(self.mean, sd, self.mean, solved, above)


def answer(question: Question, own: Standardizer, raw: AnyArray) -> Found:
    """Answer a question for the columns of one block."""
    found = [_of_piece(question, own.scale[some], piece) for some, piece in own.pieces(raw, question.block)]
    q = question.unit.size
    width = 0 if question.probabilities is None else question.probabilities.size

    def whole(i: int, shape: tuple[int, ...]) -> FloatArray:
        return np.concatenate([np.empty((0, *shape)), *(parts[i] for parts in found)])

    spread = question.sd or width or question.positive
    return Found(
        own.part,
        whole(0, (q,)),
        whole(1, (q,)) if question.sd else None,
        whole(2, (q, width)) if width else None,
        whole(3, (q,)) if question.positive else None,
        whole(4, ()).astype(bool) if spread else np.zeros(own.part.size, dtype=bool),
    )


def _of_piece(question: Question, scale: FloatArray, piece: FloatArray) -> tuple[FloatArray, ...]:
    """Mean, and where asked for sd, quantiles, sign and doubt, of the columns of a piece of X."""
    unit = question.unit / scale[:, None]
    mean = blas.product(piece, question.loadings, transpose_a=True) * unit
    nothing = np.empty(0)
    if not (question.sd or question.positive or question.probabilities is not None):
        return mean, nothing, nothing, nothing, nothing
    spectrum, mixture, factors = question.spectrum, question.mixture, question.factors
    right = blas.product(piece, question.half, transpose_a=True)
    b = right.shape[0]
    outside = outside_of(np.ones(b), right, spectrum)
    f = Functionals(right, outside, np.zeros(b))
    variance = in_parts(f, mixture, lambda part: posterior.moments(part, factors)[1])
    unsure = lost_outside(np.ones(b), variance, factors, spectrum).any(axis=1)
    sd, quantiles, positive = nothing, nothing, nothing
    unit = unit / spectrum.top
    if question.sd:
        sd = np.sqrt(variance) * unit
    if question.probabilities is not None:
        at, total = question.probabilities, question.p
        kept = question.likely
        solved = in_parts(f, kept, lambda part: posterior.quantiles(part, spectrum, kept, at, total=total))
        quantiles = solved * unit[..., None]
    if question.positive:
        zero = np.zeros((b, question.unit.size))
        positive = posterior.exceedance(f, spectrum, mixture, zero)
    return mean, sd, quantiles, positive, np.asarray(unsure, dtype=np.float64)


def likely_nodes(mixture: Mixture) -> Mixture:
    """The mixture without nodes that no quantile of any target depends on."""
    keep = (mixture.weight > posterior.NEGLIGIBLE).any(axis=1)
    return replace(mixture, log_t2=mixture.log_t2[keep], weight=mixture.weight[keep], scale2=mixture.scale2[keep])


def in_parts(f: Functionals, mixture: Mixture, function: Callable[[Functionals], FloatArray]) -> FloatArray:
    """Apply a function to as many functionals at a time as memory should hold at all nodes."""
    pieces = [
        function(Functionals(f.coords[part], f.outside[part], f.leverage[part]))
        for part in even_parts(f.coords.shape[0], ELEMENTS // max(mixture.log_t2.size, 1))
    ]
    return np.concatenate(pieces)


def outside_of(whole: FloatArray, coords: FloatArray, spectrum: Spectrum) -> FloatArray:
    """Squared norms outside the row space of rows of squared norms `whole` with coordinates in it, (m,)."""
    if spectrum.rank == spectrum.p:
        return np.zeros(whole.size)
    out: FloatArray = np.maximum(whole - np.einsum("ij,ij->i", coords, coords), 0.0)
    return out


def lost_outside(whole: FloatArray, variance: FloatArray, factors: MomentFactors, spectrum: Spectrum) -> BoolArray:
    """Whether rounding errors of differences of squared norms cost digits of variances (m, q)."""
    if spectrum.rank in (0, spectrum.p):
        return np.zeros(variance.shape, dtype=bool)
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.outer(whole, factors.outside * factors.variance_factor) * (EPS / float(spectrum.s[-1]))
        return ~(error <= DIGITS * variance) & (error > 0)


@dataclass(frozen=True, slots=True)
class ColumnsPosterior(RidgePosterior):
    """The joint posterior of all coefficients where the columns are read in blocks."""

    def question(
        self, *, sd: bool = False, positive: bool = False, probabilities: FloatArray | None = None
    ) -> Question:
        """What is to be found for every penalised coefficient."""
        spectrum, design = self.spectrum, self.design
        left = np.zeros((design.n, spectrum.rank)) if spectrum.left is None else spectrum.left
        half = left / (spectrum.s * spectrum.top)
        mean = posterior.mean_coefficients(spectrum, self.mixture)
        empty = np.empty((0, design.block.k))
        return Question(
            replace(design.block, q=empty),
            half,
            blas.product(half, mean / spectrum.top),
            replace(spectrum, left=None, right=None),
            self.mixture,
            likely_nodes(self.mixture),
            posterior.moment_factors(spectrum, self.mixture, design.p),
            design.y_norm,
            design.p,
            sd,
            positive,
            probabilities,
        )

    def answers(self, question: Question) -> Iterator[Found]:
        """Answers for consecutive columns, by one pass."""
        unsure = 0
        for found in self.design.x.map(answer, question, self.design.standardizer):
            unsure += int(found.unsure.sum())
            yield found
        warn_of_digits(unsure)

    def answer_for(self, question: Question, wanted: IntArray) -> Found:
        """The answer for some columns (ascending positions among those that vary), reading only their blocks."""
        found = []
        for start, raw in self.design.x.blocks(self.design.columns[wanted]):
            own = self.design.standardizer(start, start + raw.shape[1], wanted)
            if own.part.size:
                found.append(answer(question, own, raw))
        out = joined_answers(found, question)
        warn_of_digits(int(out.unsure.sum()))
        return out

    @property
    def coefficients(self) -> ColumnCoefficients:
        """The posterior of each coefficient."""
        return ColumnCoefficients(self)

    def mean_of_z(self) -> FloatArray:
        """Posterior means of the unpenalised coefficients, (k, q)."""
        a = posterior.mean_coefficients(self.spectrum, self.mixture)
        return self.design.y_on_z + blas.product(self._functionals_of_z().coords, a) * self.design.y_norm

    def sd_of_z(self) -> FloatArray:
        """Posterior standard deviations of the unpenalised coefficients, (k, q)."""
        f = self._functionals_of_z()
        factors = posterior.moment_factors(self.spectrum, self.mixture, max(f.outside.size, 1))
        return np.sqrt(posterior.moments(f, factors)[1]) * self.design.y_norm

    def quantiles_of_z(self, probabilities: FloatArray) -> FloatArray:
        """Quantiles of the unpenalised coefficients, (k, q, c)."""
        f = self._functionals_of_z()
        found = posterior.quantiles(f, self.spectrum, self.mixture, probabilities, total=self.design.p)
        return found * self.design.y_norm[:, None] + self.design.y_on_z[..., None]

    def positive_of_z(self) -> FloatArray:
        """Probabilities that unpenalised coefficients are positive, (k, q)."""
        bound = -self.design.y_on_z / self.design.y_norm
        return posterior.exceedance(self._functionals_of_z(), self.spectrum, self.mixture, bound)

    def row_functions(self, x_rows: AnyArray, z_rows: FloatArray) -> RowFunctions:
        """Quantities for the moments and intervals of the linear predictor of new rows, by two passes."""
        f = self._functionals(self.design.rows_outside_z(x_rows, z_rows), z_rows)
        mean = blas.product(f.coords, posterior.mean_coefficients(self.spectrum, self.mixture))
        return RowFunctions(z_rows, f, mean, np.zeros_like(mean))

    def own_rows(self) -> RidgeRows:
        """The law of the linear predictor of the rows of the data."""
        design, spectrum = self.design, self.spectrum
        left = np.zeros((design.n, spectrum.rank)) if spectrum.left is None else spectrum.left
        coords = left * spectrum.s
        if design.block.sqrt_w is not None:
            coords /= design.block.sqrt_w[:, None]
        f = Functionals(coords, np.zeros(design.n), design.block.leverage(design.block.z))
        mean = blas.product(coords, posterior.mean_coefficients(spectrum, self.mixture))
        rows = RowFunctions(design.block.z, f, mean, np.zeros((design.n, design.q)))
        return RidgeRows(self, rows, np.zeros(design.n))

    def _functionals_of_z(self) -> Functionals:
        """The unpenalised coefficients, less their values at b = 0, from what the first pass has found."""
        design, spectrum, k = self.design, self.spectrum, self.design.block.k
        assert design.on_taken is not None
        assert design.taken is not None
        of_taken = np.zeros((k, 0)) if design.block.ones is None else design.block.ones[:, None]
        if design.projection is not None:
            of_taken = np.hstack([of_taken, np.eye(k)])
        coords = np.zeros((k, spectrum.rank))
        if spectrum.left is not None:
            on_rows = blas.product(spectrum.left, design.on_taken, transpose_a=True)
            coords = -(of_taken @ on_rows.T) / (spectrum.s * spectrum.top)
        whole = np.einsum("ij,jl,il->i", of_taken, design.taken, of_taken)
        outside = outside_of(whole, coords, spectrum) / spectrum.top**2
        return Functionals(coords / spectrum.top, outside, design.block.leverage(np.eye(k)))


@dataclass(frozen=True, slots=True)
class ColumnCoefficients:
    """The coefficients where the columns are read in blocks: one pass for whatever is asked."""

    posterior: ColumnsPosterior

    def ask(self, ask: Ask, which: IntArray | None = None) -> Answer:
        """Answer everything about all coefficients, or about some: these read only the blocks of their columns."""
        posterior, k = self.posterior, self.posterior.design.block.k
        question, of_z = self._question(ask), self._of_z(ask)
        if which is None:
            return joined([of_z, joined_answers(posterior.answers(question), question).answer()], ask)
        wanted = np.unique(which[which >= k]) - k
        parts = [of_z] if which.min(initial=k) < k else [some_of(of_z, np.zeros(0, dtype=np.intp))]
        if wanted.size:
            parts.append(posterior.answer_for(question, wanted).answer())
        at = np.where(which < k, which, len(parts[0].mean) + np.searchsorted(wanted, which - k))
        return some_of(joined(parts, ask), at)

    def blocks(self, ask: Ask) -> Iterator[tuple[IntArray, Answer]]:
        """The unpenalised coefficients, and those of block after block, by one pass."""
        k = self.posterior.design.block.k
        yield np.arange(k, dtype=np.intp), self._of_z(ask)
        for found in self.posterior.answers(self._question(ask)):
            yield k + found.part, found.answer()

    def covariance(self, target: int = 0) -> FloatArray:
        """Posterior covariance of all coefficients of one target, (k + p, k + p)."""
        return self.posterior.covariance(target)

    def _question(self, ask: Ask) -> Question:
        at = np.array(ask.probabilities) if ask.probabilities else None
        return self.posterior.question(sd=ask.sd, positive=ask.above, probabilities=at)

    def _of_z(self, ask: Ask) -> Answer:
        posterior = self.posterior
        mean = posterior.mean_of_z()
        nothing = unknown(*mean.shape)
        sd = posterior.sd_of_z() if ask.sd else nothing
        solved = np.zeros((*mean.shape, 0))
        if ask.probabilities:
            solved = posterior.quantiles_of_z(np.array(ask.probabilities))
        return Answer(mean, sd, mean, solved, posterior.positive_of_z() if ask.above else nothing)


def warn_of_digits(count: int) -> None:
    """Warn of standard deviations that have lost digits."""
    if count:
        text = (
            f"Rounding errors leave fewer than eight digits of the standard deviations and intervals of {count:,} "
            "coefficient(s), whose columns other columns cannot replace while the penalty is small: fit with the "
            "columns in memory, BayesRidge(endog, X)."
        )
        warnings.warn(text, PrecisionWarning, stacklevel=4)


def joined_answers(found: Iterator[Found] | list[Found], question: Question) -> Found:
    """The answers of consecutive blocks as one."""
    every = list(found)
    q = question.unit.size
    if not every:
        nothing = np.empty((0, q))
        width = 0 if question.probabilities is None else question.probabilities.size
        none = np.empty(0, dtype=np.intp)
        return Found(none, nothing, nothing, np.empty((0, q, width)), nothing, none.astype(bool))

    def whole(name: str) -> FloatArray:
        return np.concatenate([getattr(one, name) for one in every])

    return Found(
        np.concatenate([one.part for one in every]),
        whole("mean"),
        whole("sd") if question.sd else None,
        whole("quantiles") if question.probabilities is not None else None,
        whole("positive") if question.positive else None,
        np.concatenate([one.unsure for one in every]),
    )
