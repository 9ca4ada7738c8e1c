"""The posterior of all coefficients with correlated effects: a mixture over variances and correlations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.bands.covariance import Factors, entries_of
from pybayesridge.bands.eliminated import Eliminated, EliminatedSolved, SplitRows
from pybayesridge.bands.interpolation import filled
from pybayesridge.bands.posterior import LEFT_OUT, BandCoefficients
from pybayesridge.bands.shared import Head, Split
from pybayesridge.bands.system import Solved, System
from pybayesridge.design.design import Design
from pybayesridge.linalg.blocks import even_parts, is_all
from pybayesridge.posterior.laws import Answer, Ask, CoefficientLaws, Joint
from pybayesridge.posterior.left_out import LargeGroupError, LeftOut, given_components, joined, undetermined
from pybayesridge.posterior.quantiles import Common, upper_tail
from pybayesridge.ridge.groups_left_out import ELEMENTS as OF_GROUPS
from pybayesridge.ridge.groups_left_out import (
    Block,
    GroupDensities,
    Mixing,
    Sorted,
    block_of,
    block_of_columns,
    check_groups,
    densities_of_groups,
)
from pybayesridge.ridge.left_out import noise_with
from pybayesridge.ridge.likelihood import GaussianNoise
from pybayesridge.text import TABLE_ROWS

ELEMENTS = 1 << 22
"""Most components times functionals at once."""

MOST_OF_SPLIT = 1 << 24
"""Likewise where the equations of each node take long, and are solved for every part."""

OF_ROWS = 1 << 23
"""Likewise of rows that are predicted from the others, where the equations are solved for every part."""

NODES_OF_HEAD = 4
"""Variances are found head by head, see :mod:`pybayesridge.bands.shared`, where these have at least so many nodes."""

SPLIT_ROWS = 2_000
"""Most rows of a group that is left out where another group has so many levels that their columns are sparse."""


@dataclass(frozen=True, slots=True)
class MixedNodes:
    """Variances and correlations with weights, for one target in units of its norm.

    Attributes
    ----------
    factors : tuple of (M, q, q) arrays
        Roots of the covariances of each term.
    weight : (M,) array
        Sums to 1.
    rss, scale2 : (M,) arrays
        R, and the squared scale of the noise.
    mean : (M, p) array
        Of the coefficients on the scale of the prior.
    """

    factors: Factors
    weight: FloatArray
    rss: FloatArray
    scale2: FloatArray
    mean: FloatArray

    def factors_at(self, node: int) -> Factors:
        """Of one node."""
        return tuple(each[node] for each in self.factors)


@dataclass(frozen=True, slots=True)
class MixedPosterior:
    """The joint posterior of all coefficients, unpenalised ones first, on the user's scale.

    Attributes
    ----------
    design : Design
        Its columns on the scale of the prior.
    system : System or Eliminated
    nodes : tuple of q Nodes
    df : float
        Degrees of freedom of the components.
    known : dict
        The components of all penalised coefficients of targets that were asked for.
    of_z : dict
        Variances of the unpenalised ones at each node relative to the noise, likewise.
    """

    joint_law: ClassVar[Joint] = "exact"
    has_point_masses: ClassVar[bool] = False

    design: Design
    system: System | Eliminated
    nodes: tuple[MixedNodes, ...]
    df: float
    known: dict[int, Common] = field(default_factory=dict, compare=False, repr=False)
    of_z: dict[int, FloatArray] = field(default_factory=dict, compare=False, repr=False)

    @property
    def variance_factor(self) -> float:
        """Ratio of variance to squared scale; infinite where the t distribution has no variance."""
        if np.isinf(self.df):
            return 1.0
        return self.df / (self.df - 2) if self.df > 2 else np.inf

    def of_targets(self, which: IntArray | slice) -> MixedPosterior:
        """The posterior of some of the targets."""
        if is_all(which, len(self.nodes)):
            return self
        chosen = np.arange(len(self.nodes))[which]
        system = replace(self.system, xty=self.system.xty[:, chosen])
        nodes = tuple(self.nodes[i] for i in chosen)
        design = self.design.of_targets(which)
        known = {i: self.known[old] for i, old in enumerate(chosen.tolist()) if old in self.known}
        of_z = {i: self.of_z[old] for i, old in enumerate(chosen.tolist()) if old in self.of_z}
        return replace(self, design=design, system=system, nodes=nodes, known=known, of_z=of_z)

    def solved(self, target: int) -> Iterator[Solved | EliminatedSolved]:
        """The equations at each node of a target."""
        nodes = self.nodes[target]
        for m in range(nodes.weight.size):
            yield self.system.at(nodes.factors_at(m), target)

    def rows_left_out(self, noise: GaussianNoise, target: int = 0) -> LeftOut:
        """Predictions of the rows of a target from the others, by the equations of each node."""
        nodes, design = self.nodes[target], self.design.of_targets(slice(target, target + 1)).holding_targets()
        own = noise_with(self.df, noise.of(design))
        most = max(1, (OF_ROWS if self.system.z_apart else MOST_OF_SPLIT) // max(nodes.weight.size, 1))
        pieces = []
        for first, rows, root in self._rows_of(design, most):
            of_z = (design.block.q[first : first + root.size] ** 2).sum(axis=1)
            leverage = np.stack([one.row_variances(rows) for one in self.solved(target)]) * root**2
            if self.system.z_apart:
                leverage += of_z
            slack = 1.0 - leverage
            slack[:, undetermined(of_z)] = 0.0
            error = design.y[first : first + root.size, 0] - root * self.system.centers(nodes.mean, rows)
            error = np.divide(error, slack, out=np.zeros_like(error), where=slack > 0)
            pieces.append(given_components(nodes.weight, error, slack, nodes.rss[:, None], own, first))
        return joined(pieces).in_units(design.row_units)

    def _rows_of(self, design: Design, most: int) -> Iterator[tuple[int, Any, FloatArray]]:
        """For parts of the rows: the first, what multiplies the coefficients, and a factor of that for each row."""
        if self.system.z_apart:
            step = max(1, min(most, OF_ROWS // max(design.p, 1)))
            for rows, piece in design.row_pieces():
                for begin in range(0, len(piece), step):
                    x = piece[begin : begin + step]
                    yield rows.start + begin, x, np.ones(len(x))
            return
        columns = design.x.tocsr()[:, design.columns]
        root = np.ones(design.n) if design.block.sqrt_w is None else design.block.sqrt_w
        for rows in even_parts(design.n, most):
            yield rows.start, self.system.rows(design, columns[rows], design.block.z[rows]), root[rows]

    def groups_left_out(self, noise: GaussianNoise, target: int, codes: IntArray) -> LeftOut:
        """Predictions of groups of rows of a target, each from the other rows, likewise.

        Raises
        ------
        LargeGroupError
            For a group of more than :data:`SPLIT_ROWS` rows where columns are sparse.
        """
        nodes, groups, system = self.nodes[target], Sorted.of(codes), self.system
        design = self.design.of_targets(slice(target, target + 1)).holding_targets()
        own = noise_with(self.df, noise.of(design))
        check_groups(design, groups, own)
        if isinstance(system, Eliminated) and groups.sizes.max() > SPLIT_ROWS:
            raise LargeGroupError(int(groups.sizes.argmax()), int(groups.sizes.max()), SPLIT_ROWS)
        rows, root = self._rows_in_order(design, groups)
        q, y, mixing = design.block.q[groups.order], design.y[groups.order, 0], Mixing(groups)
        matters = np.flatnonzero(nodes.weight > 0)
        for part in even_parts(matters.size, max(1, OF_GROUPS // design.n)):
            found = []
            for k in matters[part].tolist():
                solved = system.at(nodes.factors_at(k), target)
                residual = y - root * system.centers(nodes.mean[[k]], rows)[0]
                blocks = partial(_of_groups, solved, groups, rows, root, q, residual)
                found.append(densities_of_groups(groups, blocks, nodes.rss[[k]], own))
            mixing.add(np.log(nodes.weight[matters[part]]), GroupDensities.joined(found))
        return mixing.found(design)

    def _rows_in_order(self, design: Design, groups: Sorted) -> tuple[Any, FloatArray]:
        """What multiplies the coefficients in the order of the groups, and a factor of that for each row."""
        if self.system.z_apart:
            out = np.empty((design.n, design.p))
            for rows, piece in design.row_pieces():
                out[rows] = piece
            return out[groups.order], np.ones(design.n)
        columns = design.x.tocsr()[:, design.columns][groups.order]
        rows_of_all = self.system.rows(design, columns, design.block.z[groups.order])
        root = np.ones(design.n) if design.block.sqrt_w is None else design.block.sqrt_w[groups.order]
        return rows_of_all, root

    @property
    def coefficients(self) -> CoefficientLaws:
        """The posterior of each coefficient."""
        return BandCoefficients(self, 0 if len(self.known) == self.design.q else TABLE_ROWS)

    @property
    def _rows_of_z(self) -> MixedRows:
        k = self.design.block.k
        return replace(self.rows(np.zeros((k, self.design.p)), np.eye(k)), known=self.of_z)

    @property
    def _unit(self) -> FloatArray:
        """Of the penalised coefficients on the user's scale, (p, q)."""
        return self.design.y_norm / self.design.scale[:, None]

    def _components_of_columns(self, target: int) -> Common:
        """The components of all penalised coefficients on the scale of the prior, in units of the target's norm.

        The variances of the unpenalised ones are found on the way: the equations of a node are solved once for all.
        """
        if target not in self.known:
            nodes, rows = self.nodes[target], self._rows_of_z.rows

            def at(m: int) -> FloatArray:
                one = self.system.at(nodes.factors_at(m), target)
                return np.concatenate([one.coefficient_variances(), one.row_variances(rows)])

            every = np.arange(nodes.weight.size)
            split = Split.of(self.system, target)
            heads = [every] if split is None else split.nodes_by_head(nodes.factors)
            if split is not None and len(heads) * NODES_OF_HEAD <= every.size:
                found = np.empty((every.size, self.design.p + self.design.block.k))
                for some in heads:
                    head = Head.of(split, *split.of_head(nodes.factors_at(some[0])), keep=True)
                    found[some] = head.variances(nodes.factors, some, rows)
            elif self.interpolated(target):
                unit = self._prior_variances(target)
                found = unit * np.exp(filled(self._features(target), nodes.weight, lambda m: np.log(at(m) / unit[m])))
            else:
                found = np.stack([at(m) for m in every.tolist()])
            p = self.design.p
            self.of_z[target] = found[:, p:]
            scale = np.sqrt(found[:, :p] * nodes.scale2[:, None])
            self.known[target] = Common(nodes.mean, scale, nodes.weight, self.df)
        return self.known[target]

    def interpolated(self, target: int) -> bool:
        """Whether conditional variances are interpolated between the nodes of a target, since they take long.

        Not where effects are correlated.
        """
        nodes = self.nodes[target]
        single = all(len(each) == 1 for each in self.system.terms.bands)
        return bool(np.isfinite(self.system.spare)) and single and nodes.weight.size > 1

    def _variances_of_bands(self, target: int) -> FloatArray:
        """Those of the bands at each node, relative to that of the noise, (M, number of bands), by terms."""
        return np.stack([factor[:, 0, 0] ** 2 for factor in self.nodes[target].factors], axis=1)

    def _prior_variances(self, target: int) -> FloatArray:
        """Prior variances of the penalised coefficients at each node, and 1 for the unpenalised ones, (M, p + k)."""
        t, design = self._variances_of_bands(target), self.design
        out = np.ones((len(t), design.p + design.block.k))
        for own, columns in zip(t.T, self.system.terms.columns, strict=True):
            out[:, columns[0]] = own[:, None]
        return out

    def _features(self, target: int) -> FloatArray:
        """Functions of the variances in which those of coefficients relative to them are smooth, (M, K)."""
        t = self._variances_of_bands(target)
        return np.log(t + 0.1 * (self.nodes[target].weight @ t))

    def effective(self, target: int) -> tuple[float, float]:
        """Posterior mean of the trace of the hat matrix from the variances of the coefficients, and their error."""
        nodes, p = self.nodes[target], self.design.p
        found = self._components_of_columns(target).scale ** 2 / nodes.scale2[:, None]
        left = 1.0 - found / self._prior_variances(target)[:, :p]
        likeliest = self.system.at(nodes.factors_at(int(nodes.weight.argmax())), target)
        return float(nodes.weight @ left.sum(axis=1)), likeliest.loss

    def coefficient_means(self) -> tuple[FloatArray, FloatArray]:
        """Posterior means of the unpenalised (k, q) and the penalised (p, q) coefficients."""
        b = np.stack([nodes.weight @ nodes.mean for nodes in self.nodes], axis=1) * self._unit
        return self.design.coefficients_of_z(b), b

    def coefficient_sds(self) -> tuple[FloatArray, FloatArray]:
        """Posterior standard deviations, as :meth:`coefficient_means`."""
        each = [self.sd_of(self._components_of_columns(target)) for target in range(self.design.q)]
        return self._rows_of_z.ask(Ask()).sd, np.stack(each, axis=1) * self._unit

    def sd_of(self, found: Common) -> FloatArray:
        """Standard deviations of mixtures, (m,)."""
        mean = found.weight @ found.center
        within = found.weight @ found.scale**2
        between = found.weight @ (found.center - mean) ** 2
        return np.sqrt(np.where(within > 0, within * self.variance_factor, 0.0) + between)

    def coefficient_signs(self) -> tuple[FloatArray, FloatArray]:
        """Probabilities that coefficients are positive, as :meth:`coefficient_means`."""
        each = []
        for target in range(self.design.q):
            found = self._components_of_columns(target)
            zero = np.zeros(found.center.shape[1])
            each.append(found.weight @ upper_tail(found.center, found.scale, zero, self.df))
        return self._rows_of_z.ask(Ask(above=True)).above, np.stack(each, axis=1)

    def coefficient_quantiles(self, probabilities: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Quantiles at probabilities (c,), (k, q, c) and (p, q, c)."""
        each = [self._components_of_columns(target).quantiles(probabilities) for target in range(self.design.q)]
        return self._rows_of_z.quantiles(probabilities), np.stack(each, axis=1) * self._unit[..., None]

    def covariance(self, target: int = 0) -> FloatArray:
        """Posterior covariance of (unpenalised, penalised) coefficients of one target: (k + p, k + p)."""
        design, system, k, p = self.design, self.system, self.design.block.k, self.design.p
        x_rows = np.vstack([np.zeros((k, p)), np.diag(design.scale)])
        rows: Any = system.rows(design, x_rows, np.eye(k + p, k))
        nodes = self.nodes[target]
        own = np.zeros((k + p, k + p))
        for weight, solved in zip(nodes.weight * nodes.scale2, self.solved(target), strict=True):
            half = solved.halves(rows)
            own += weight * (half.T @ half)
        if system.z_apart:
            half = design.block.regress(np.eye(k))
            own[:k, :k] += float(nodes.weight @ nodes.scale2) * (half @ half.T)
        means = system.centers(nodes.mean - nodes.weight @ nodes.mean, rows)
        out = self.variance_factor * own + (means * nodes.weight[:, None]).T @ means
        unit = np.concatenate([np.ones(k), 1.0 / design.scale]) * design.y_norm[target]
        return out * unit[:, None] * unit

    def rows(self, x_rows: Any, z_rows: FloatArray, offset: FloatArray | float = 0.0) -> MixedRows:
        """The law of the linear predictor of rows plus `offset` (m,)."""
        rows = self.system.rows(self.design, x_rows, z_rows)
        leverage = self.design.block.leverage(z_rows) if self.system.z_apart else np.zeros(z_rows.shape[0])
        return MixedRows(self, rows, z_rows, leverage, np.zeros(z_rows.shape[0]) + offset)

    def as_arrays(self) -> dict[str, Any]:
        """Arrays from which the posterior is made again.

        The nodes of all targets, each with weights of its own, the equations that they share, and the roots of the
        covariances of the effects at each node. Positions count from 1.
        """
        kept = [np.flatnonzero(nodes.weight > LEFT_OUT) for nodes in self.nodes]
        first = np.cumsum([0, *(at.size for at in kept)])
        weight = np.zeros((first[-1], len(kept)))
        noise = np.zeros_like(weight)
        for i, (nodes, at) in enumerate(zip(self.nodes, kept, strict=True)):
            own = slice(first[i], first[i + 1])
            weight[own, i], noise[own, i] = nodes.weight[at] / nodes.weight[at].sum(), nodes.scale2[at]
        factors = [tuple(each[at] for each in nodes.factors) for nodes, at in zip(self.nodes, kept, strict=True)]
        return {
            "weight": weight,
            "noise": noise,
            "log_unit": 2 * float(np.log(self.design.common_scale)),
            "df": float(self.df),
            "gram": self.system.gram,
            "gram_y": self.system.xty,
            **entries_of(self.system.terms, factors),
        }

    def without_rows(self) -> MixedPosterior:
        """The same posterior without any array over rows of the data."""
        return replace(self, design=self.design.without_rows())


@dataclass(frozen=True, slots=True)
class MixedRows:
    """The law of the linear predictor of rows, or of new observations, for all targets.

    Attributes
    ----------
    posterior : MixedPosterior
    rows : (m, p) array or SplitRows
        What multiplies the coefficients on the scale of the prior.
    z_rows : (m, k) array
    leverage : (m,) array
        Variance of the rest relative to that of the noise.
    offset : (m,) array
    new : (m, K) array or None
        What multiplies the effects of a level that no row of the data has.
    known : dict
        Variances at each node relative to the noise, without what is added to them, of targets that were asked for.
    """

    posterior: MixedPosterior
    rows: Any
    z_rows: FloatArray
    leverage: FloatArray
    offset: FloatArray
    new: FloatArray | None = None
    known: dict[int, FloatArray] = field(default_factory=dict, compare=False, repr=False)

    def some(self, which: IntArray) -> MixedRows:
        """Some of the rows."""
        new = None if self.new is None else self.new[which]
        return replace(
            self,
            rows=self.rows[which],
            z_rows=self.z_rows[which],
            leverage=self.leverage[which],
            offset=self.offset[which],
            new=new,
            known={},
        )

    def parts(self) -> Iterator[tuple[slice, MixedRows]]:
        """Consecutive rows, so many that their components can be held."""
        most = max(nodes.weight.size for nodes in self.posterior.nodes)
        width = self.rows.width if isinstance(self.rows, SplitRows) else self.rows.shape[1]
        held = MOST_OF_SPLIT if isinstance(self.rows, SplitRows) else ELEMENTS
        parts = list(even_parts(self.offset.size, max(1, held // max(most, width, 1))))
        for part in parts:
            yield part, self if len(parts) == 1 else self.some(np.arange(self.offset.size)[part])

    def components(self, target: int) -> Common:
        """The components of all rows less the response of the unpenalised columns, in units of the target's norm."""
        posterior, nodes = self.posterior, self.posterior.nodes[target]
        if target not in self.known:
            self.known[target] = np.stack([solved.row_variances(self.rows) for solved in posterior.solved(target)])
        variance = self.known[target] + self.leverage
        if self.new is not None:
            for bands, factor in zip(posterior.system.terms.bands, nodes.factors, strict=True):
                variance += ((self.new[:, list(bands)] @ factor) ** 2).sum(axis=-1)
        center = posterior.system.centers(nodes.mean, self.rows)
        return Common(center, np.sqrt(variance * nodes.scale2[:, None]), nodes.weight, posterior.df)

    def level(self, target: int) -> FloatArray:
        """What the components are added to, on the user's scale, (m,)."""
        out: FloatArray = self.offset + self.z_rows @ self.posterior.design.y_on_z[:, target]
        return out

    def ask(self, ask: Ask) -> Answer:
        """Answer everything."""
        posterior, at = self.posterior, np.array(ask.probabilities)
        shape = (self.offset.size, posterior.design.q)
        mean, sd, above = (np.full(shape, np.nan) for _ in range(3))
        solved = np.zeros((*shape, at.size))
        for part, law in self.parts():
            for target, unit in enumerate(posterior.design.y_norm.tolist()):
                nodes, level = posterior.nodes[target], law.level(target)
                mean[part, target] = (
                    level + unit * posterior.system.centers((nodes.weight @ nodes.mean)[None], law.rows)[0]
                )
                if not (ask.sd or ask.above or at.size):
                    continue
                found = law.components(target)
                sd[part, target] = unit * posterior.sd_of(found)
                if ask.above:
                    above[part, target] = law.exceedance(found, target, np.zeros(level.size))
                if at.size:
                    solved[part, target] = level[:, None] + unit * found.quantiles(at, self.offset.size)
        return Answer(mean, sd if ask.sd else np.full(shape, np.nan), mean, solved, above)

    def quantiles(self, probabilities: FloatArray) -> FloatArray:
        """Quantiles at probabilities (c,), (m, q, c)."""
        return self.ask(Ask(tuple(probabilities.tolist()), sd=False)).quantiles

    def exceedance(self, found: Common, target: int, at: FloatArray) -> FloatArray:
        """Probabilities of more than `at` (m,), given the components."""
        bound = (at - self.level(target)) / self.posterior.design.y_norm[target]
        out: FloatArray = found.weight @ upper_tail(found.center, found.scale, bound, found.df)
        return np.clip(out, 0.0, 1.0)

    def above(self, which: IntArray, at: FloatArray) -> FloatArray:
        """Probabilities of more than `at`, both (len(which), q)."""
        out = np.empty(at.shape)
        for part, law in self.some(which).parts():
            for target in range(at.shape[1]):
                out[part, target] = law.exceedance(law.components(target), target, at[part, target])
        return out

    def all_zero(self) -> tuple[float, None]:
        """Nothing."""
        return 0.0, None

    def with_new_levels(self, values: FloatArray) -> MixedRows:
        """The law with the effects of levels that no row of the data has, as in :class:`BandRows`."""
        return replace(self, new=values)

    def with_noise(self, noise: FloatArray) -> MixedRows:
        """The law of new observations."""
        return replace(self, leverage=self.leverage + noise)


def _of_groups(
    solved: Solved | EliminatedSolved,
    groups: Sorted,
    rows: Any,
    root: FloatArray,
    q: FloatArray,
    residual: FloatArray,
    some: IntArray,
    at: IntArray,
) -> Block:
    """The block of some equally large groups with the rows `at` (G, m) at a node."""
    m = at.shape[1]
    if isinstance(solved, EliminatedSolved):
        hat = np.stack(list(solved.covariances(rows, [groups.slices[g] for g in some])))
        hat *= root[at][:, :, None] * root[at][:, None, :]
        return block_of(np.eye(m) - hat, residual[at])
    half = solved.halves(rows[at.ravel()]).T.reshape(*at.shape, -1)
    return block_of_columns(np.concatenate([q[at], half], axis=2), residual[at])
