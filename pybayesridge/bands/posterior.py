"""The posterior of all coefficients with several bands: a mixture of ridges over the bands' shares."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from pybayesridge._types import AnyArray, FloatArray, IntArray
from pybayesridge.design.design import Design
from pybayesridge.linalg.blocks import even_parts
from pybayesridge.posterior.coefficients import Coefficients
from pybayesridge.posterior.laws import Answer, Ask, CoefficientLaws, Joint
from pybayesridge.posterior.left_out import LeftOut, mixed
from pybayesridge.posterior.quantiles import Common
from pybayesridge.ridge.groups_left_out import groups_left_out
from pybayesridge.ridge.likelihood import GaussianNoise
from pybayesridge.ridge.mixture import Functionals, Mixture, locations, squared_scales
from pybayesridge.ridge.outside import outside_of_columns
from pybayesridge.ridge.posterior import RidgePosterior, RidgeRows
from pybayesridge.ridge.spectrum import Spectrum
from pybayesridge.text import TABLE_ROWS

NEGLIGIBLE = 1e-10
"""Components of smaller weight, of some thousands, are no part of quantiles."""

LEFT_OUT = 1e-15
"""Nodes of smaller weight are no part of arrays."""

ELEMENTS = 1 << 22
"""Most components times functionals at once."""


@dataclass(frozen=True, slots=True)
class BandPosterior:
    """The joint posterior of all coefficients, unpenalised ones first, on the user's scale.

    Attributes
    ----------
    design : Design
        Its columns on the scale of the prior.
    band : (p,) int array
        The band of each penalised column that varies.
    factors : (M, K) array
        At each node over the shares, what the columns of each band are multiplied by.
    spectra : tuple of Spectrum
        The rotations of these columns.
    mixtures : tuple of Mixture
        Given the shares, the posterior of the common penalty.
    weight : (M, q) array
        Of the nodes; sums to 1 over them.
    """

    joint_law: ClassVar[Joint] = "exact"
    has_point_masses: ClassVar[bool] = False

    design: Design
    band: IntArray
    factors: FloatArray
    spectra: tuple[Spectrum, ...]
    mixtures: tuple[Mixture, ...]
    weight: FloatArray

    @property
    def parts(self) -> list[RidgePosterior]:
        """The ridges that are mixed."""
        return [
            RidgePosterior(scaled(self.design, self.band, factor), spectrum, mixture)
            for factor, spectrum, mixture in zip(self.factors, self.spectra, self.mixtures, strict=True)
        ]

    @property
    def df(self) -> float:
        """Degrees of freedom of the components."""
        return self.mixtures[0].df

    def of_target(self, target: int) -> BandPosterior:
        """The posterior of one target."""
        return self.of_targets(np.array([target]))

    def of_targets(self, which: IntArray | slice) -> BandPosterior:
        """The posterior of some of the targets."""
        return replace(
            self,
            design=self.design.of_targets(which),
            spectra=tuple(each.of_targets(which) for each in self.spectra),
            mixtures=tuple(each.of_targets(which) for each in self.mixtures),
            weight=self.weight[:, which],
        )

    @property
    def coefficients(self) -> CoefficientLaws:
        """The posterior of each coefficient."""
        return BandCoefficients(self, TABLE_ROWS)

    def coefficient_means(self) -> tuple[FloatArray, FloatArray]:
        """Posterior means of the unpenalised (k, q) and the penalised (p, q) coefficients."""
        if len(self.spectra) == 1:
            # One band is an ordinary ridge, to the last bit.
            return self.parts[0].coefficient_means()
        b = np.zeros((self.design.p, self.design.q), order="F")
        for part, weight in zip(self.parts, self.weight, strict=True):
            part.add_means(b, weight)
        return self.design.coefficients_of_z(b), b

    def coefficient_signs(self) -> tuple[FloatArray, FloatArray]:
        """Probabilities that coefficients are positive, as :meth:`coefficient_means`."""
        of_z, b = (np.zeros((count, self.design.q)) for count in (self.design.block.k, self.design.p))
        for part, weight in zip(self.parts, self.weight, strict=True):
            first, second = part.coefficient_signs()
            of_z += weight * first
            b += weight * second
        return of_z, b

    def coefficient_sds(self) -> tuple[FloatArray, FloatArray]:
        """Posterior standard deviations, as :meth:`coefficient_means`."""
        found = [(part.coefficient_means(), part.coefficient_sds()) for part in self.parts]
        of_z, b = (
            sd_of_mixture(np.stack([m[i] for m, _ in found]), np.stack([s[i] for _, s in found]), self.weight)
            for i in range(2)
        )
        return of_z, b

    def rows_left_out(self, noise: GaussianNoise, target: int = 0) -> LeftOut:
        """Predictions of the rows of a target from the others, by the mixture of the ridges."""
        parts, weight = self.parts, self.weight[:, target]
        used = np.flatnonzero(weight > 0)
        found = [parts[m].rows_left_out(noise, target) for m in used.tolist()]
        return mixed(
            weight[used],
            np.stack([each.log_density for each in found]),
            np.stack([each.within for each in found]),
            np.stack([each.pit for each in found if each.pit is not None]),
            np.stack([each.error for each in found if each.error is not None]),
        )

    def groups_left_out(self, noise: GaussianNoise, target: int, codes: IntArray) -> LeftOut:
        """Predictions of groups of rows of a target, each from the other rows, likewise."""
        pairs = zip(self.weight[:, target].tolist(), self.parts, strict=True)
        return groups_left_out(((w, part.of_one(noise, target)) for w, part in pairs if w > 0), codes)

    def coefficient_quantiles(self, probabilities: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Quantiles at probabilities (c,), (k, q, c) and (p, q, c)."""
        k, p, q = self.design.block.k, self.design.p, self.design.q
        rows = self.rows(np.zeros((k, p)), np.eye(k))
        of_z, b = rows.quantiles(probabilities), np.empty((p, q, probabilities.size))
        parts = self.parts
        for at, functionals in self._functionals_of_columns(parts):
            units = [1.0 / (part.design.scale[at] * part.spectrum.top) for part in parts]
            for target in range(q):
                found = self.components(target, functionals, units)
                b[at, target] = found.quantiles(probabilities, p) * self.design.y_norm[target]
        return of_z, b

    def _functionals_of_columns(self, parts: list[RidgePosterior]) -> Iterator[tuple[slice, list[Functionals]]]:
        """The functionals of consecutive penalised coefficients in each of the ridges."""
        streams = [part.spectrum.right_pieces(part.design) for part in parts if part.spectrum.right is None]
        step = max(1, ELEMENTS // max(sum(each.weight.shape[0] for each in self.mixtures), 1))
        for at, given in _in_step(streams, self.design.p, step):
            ready = iter(given)
            found = []
            for part in parts:
                right = next(ready) if part.spectrum.right is None else part.spectrum.right[at]
                outside = outside_of_columns(part.design, part.spectrum, at.start, right)
                found.append(Functionals(right, outside, np.zeros(right.shape[0])))
            yield at, found

    def components(
        self,
        target: int,
        functionals: list[Functionals],
        units: list[FloatArray] | None = None,
        shifts: list[FloatArray] | None = None,
    ) -> Common:
        """The components of m functionals of a target, times `units` (m,), in units of its norm."""
        centers, scales, weights = [], [], []
        only = slice(target, target + 1)
        for m, f in enumerate(functionals):
            own = self.weight[m, target]
            if own <= NEGLIGIBLE:
                continue
            spectrum, mixture = self.spectra[m].of_targets(only), self.mixtures[m].of_targets(only)
            keep = own * mixture.weight[:, 0] > NEGLIGIBLE
            mixture = replace(
                mixture,
                log_t2=mixture.log_t2[keep],
                weight=mixture.weight[keep],
                scale2=mixture.scale2[keep],
            )
            center, scale = locations(f, spectrum, mixture)[:, 0], np.sqrt(squared_scales(f, spectrum, mixture)[:, 0])
            if units is not None:
                center, scale = center * units[m], scale * units[m]
            if shifts is not None:
                center = center + shifts[m]
            centers.append(center)
            scales.append(scale)
            weights.append(own * mixture.weight[:, 0])
        weight = np.concatenate(weights)
        return Common(np.concatenate(centers), np.concatenate(scales), weight / weight.sum(), self.df)

    def covariance(self, target: int = 0) -> FloatArray:
        """Posterior covariance of (unpenalised, penalised) coefficients of one target: (k + p, k + p)."""
        size = self.design.block.k + self.design.p
        out, means = np.zeros((size, size)), np.zeros((len(self.spectra), size))
        one, weight = slice(target, target + 1), self.weight[:, target]
        for m, part in enumerate(self.parts):
            out += weight[m] * part.covariance(target)
            means[m] = np.concatenate(part.of_targets(one).coefficient_means())[:, 0]
        means -= weight @ means
        return out + (means * weight[:, None]).T @ means

    def rows(self, x_rows: AnyArray, z_rows: FloatArray, offset: FloatArray | float = 0.0) -> BandRows:
        """The law of the linear predictor of rows plus `offset` (m,)."""
        return BandRows(self, tuple(part.rows(x_rows, z_rows, offset) for part in self.parts))

    def as_arrays(self) -> dict[str, Any]:
        """Arrays from which the posterior is made again: the nodes of all ridges together.

        Columns of band k are multiplied by ``factors`` of a node over the shares; in the singular vectors of the
        products the posterior is that of a ridge. The singular vectors themselves are not there, which would be as
        many matrices as there are nodes, but ``base``, whose products are those of the standardised columns: a
        singular value decomposition of it gives those of a node. Positions count from 1.
        """
        weight = np.concatenate([own * part.weight for own, part in zip(self.weight, self.mixtures, strict=True)])
        keep = (weight > LEFT_OUT).any(axis=1)
        of = np.repeat(np.arange(1.0, len(self.mixtures) + 1), [len(part.weight) for part in self.mixtures])
        units = [2 * np.log(spectrum.top) for spectrum in self.spectra]
        log_t2 = [part.log_t2 - unit for part, unit in zip(self.mixtures, units, strict=True)]
        return {
            "weight": weight[keep] / weight[keep].sum(axis=0),
            "noise": np.concatenate([part.scale2 for part in self.mixtures])[keep],
            "log_t2": np.concatenate(log_t2)[keep],
            "node_of": of[keep],
            "log_unit": 2 * float(np.log(self.design.common_scale)),
            "df": float(self.df),
            "band": self.band + 1.0,
            "factors": self.factors,
            **self._base(),
        }

    def _base(self) -> dict[str, FloatArray]:
        """``base`` and what the responses have on its rows, by the node that treats the bands most alike."""
        spread = np.ptp(np.log(self.factors), axis=1)
        part = self.parts[int(spread.argmin())]
        spectrum, factor = part.spectrum.with_right(part.design), self.factors[int(spread.argmin())]
        assert spectrum.right is not None
        return {
            "base": (spectrum.s * spectrum.top)[:, None] * (spectrum.right / factor[self.band, None]).T,
            "z": spectrum.z,
        }

    def without_rows(self) -> BandPosterior:
        """The same posterior without any array over rows of the data."""
        spectra = tuple(part.spectrum.with_right(part.design) for part in self.parts)
        return replace(self, spectra=spectra, design=self.design.without_rows())


@dataclass(frozen=True, slots=True)
class BandCoefficients(Coefficients):
    """The coefficients of several bands, whose signs need no rows: their posterior has ``coefficient_signs()``."""

    def signs(self, which: IntArray | None) -> tuple[FloatArray, None]:
        """Probabilities of values above 0, of all at once."""
        found = self.joined(self.posterior.coefficient_signs())
        return (found if which is None else found[which]), None


@dataclass(frozen=True, slots=True)
class BandRows:
    """The law of the linear predictor of rows, or of new observations, for all targets.

    Attributes
    ----------
    posterior : BandPosterior
    parts : tuple of RidgeRows
        Given the shares of the bands.
    """

    posterior: BandPosterior
    parts: tuple[RidgeRows, ...]

    def ask(self, ask: Ask) -> Answer:
        """Answer everything."""
        weight = self.posterior.weight
        found = [part.ask(replace(ask, probabilities=())) for part in self.parts]
        mean = np.einsum("mt,mit->it", weight, np.stack([each.mean for each in found]))
        sd = above = np.full(mean.shape, np.nan)
        if ask.sd:
            sd = sd_of_mixture(np.stack([a.mean for a in found]), np.stack([a.sd for a in found]), weight)
        if ask.above:
            above = np.einsum("mt,mit->it", weight, np.stack([each.above for each in found]))
        solved = self.quantiles(np.array(ask.probabilities)) if ask.probabilities else np.zeros((*mean.shape, 0))
        return Answer(mean, sd, mean, solved, above)

    def quantiles(self, probabilities: FloatArray) -> FloatArray:
        """Quantiles at probabilities (c,), (m, q, c)."""
        design, first = self.posterior.design, self.parts[0]
        count = first.offset.size
        out = np.empty((count, design.q, probabilities.size))
        nodes = sum(each.weight.shape[0] for each in self.posterior.mixtures)
        for some in even_parts(count, max(1, ELEMENTS // max(nodes, 1))):
            each = np.arange(count)[some]
            functions = [part.functions.some(each) for part in self.parts]
            level = first.offset[some, None] + functions[0].z_rows @ design.y_on_z
            for target in range(design.q):
                shifts = [f.shift[:, target] for f in functions]
                found = self.posterior.components(target, [f.functionals for f in functions], None, shifts)
                own = found.quantiles(probabilities, count) * design.y_norm[target]
                out[some, target] = level[:, target, None] + own
        return out

    def above(self, which: IntArray, at: FloatArray) -> FloatArray:
        """Probabilities of more than `at`, both (len(which), q)."""
        weight = self.posterior.weight
        return np.einsum("mt,mit->it", weight, np.stack([part.above(which, at) for part in self.parts]))

    def all_zero(self) -> tuple[float, None]:
        """Nothing."""
        return 0.0, None

    def with_new_levels(self, values: FloatArray) -> BandRows:
        """The law with the effects of levels that no row of the data has.

        Parameters
        ----------
        values : (m, K) array
            What multiplies the effect in each band, on the scale of the prior: it has the variance of the band's
            coefficients and is independent of them.
        """
        factors, parts = self.posterior.factors, []
        for part, factor in zip(self.parts, factors, strict=True):
            f = part.functions.functionals
            beyond = f.outside + ((values * factor) ** 2).sum(axis=1) / part.posterior.spectrum.top**2
            parts.append(replace(part, functions=replace(part.functions, functionals=replace(f, outside=beyond))))
        return replace(self, parts=tuple(parts))

    def with_noise(self, noise: FloatArray) -> BandRows:
        """The law of new observations."""
        return replace(self, parts=tuple(part.with_noise(noise) for part in self.parts))


@dataclass(frozen=True, slots=True)
class BandDraws:
    """Draws from the joint posterior of one target.

    Attributes
    ----------
    of_z : (size, k) array
        Unpenalised coefficients, user's scale.
    b : (size, p) array
        Penalised coefficients, user's scale.
    log_variance : (size, K) array
        Logs of the variances of the bands, on the user's scale of the prior.
    sigma2 : (size,) array
        In units of the target's squared norm.
    correlations : (size, number of pairs) array
        Of effects of the same level.
    """

    of_z: FloatArray
    b: FloatArray
    log_variance: FloatArray
    sigma2: FloatArray
    correlations: FloatArray


def scaled(design: Design, band: IntArray, factor: FloatArray) -> Design:
    """The design with the columns of each band times its entry of `factor` (K,)."""
    return replace(design, scale=design.scale / factor[band], standardized_columns=True)


def sd_of_mixture(mean: FloatArray, sd: FloatArray, weight: FloatArray) -> FloatArray:
    """Standard deviations (m, q) of mixtures with weights (M, q), from those of the components (M, m, q)."""
    middle = np.einsum("mt,mit->it", weight, mean)
    variance = np.where(weight[:, None] > 0, sd**2 + (mean - middle) ** 2, 0.0)
    out: FloatArray = np.sqrt(np.einsum("mt,mit->it", weight, variance))
    return out


def _in_step(
    streams: list[Iterator[tuple[slice, FloatArray]]], count: int, step: int
) -> Iterator[tuple[slice, list[FloatArray]]]:
    """Consecutive slices of `count` columns with the pieces of streams of them, which are all cut alike."""
    if streams:
        for pieces in zip(*streams, strict=True):
            yield pieces[0][0], [piece for _, piece in pieces]
        return
    for start in range(0, count, step):
        yield slice(start, min(start + step, count)), []
