"""The outcome of one method, its posterior and that of the penalty: what results ask."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.posterior.left_out import LeaveOneOut, LeftOut, NoDensityError
from pybayesridge.posterior.quantiles import Common
from pybayesridge.ridge.prior import BetaPrime, log_density_of_log
from pybayesridge.sites.approximation import Approximation, Node
from pybayesridge.sites.coordinates import Coordinates
from pybayesridge.sites.groups_left_out import flat_columns, groups_left_out
from pybayesridge.sites.leave_one_out import leave_one_out, rows_left_out, total_log_score
from pybayesridge.sites.likelihood import Likelihood
from pybayesridge.sites.posterior import MIDDLE, NEGLIGIBLE, SitesPosterior, make_posterior
from pybayesridge.sites.prior import FlatIn, LogPrior, log_prior
from pybayesridge.sites.separation import Balance
from pybayesridge.sites.shape import LEAST, FormGrid, ShapeGrid, shape_arrays
from pybayesridge.sites.tailed import TailedDensity

if TYPE_CHECKING:
    from pybayesridge.bands.covariance import Factors

EXISTS = 1e-3
"""A moment exists where the density of t2 falls faster than the moment grows by more than this."""


@dataclass(frozen=True, slots=True)
class SitesFit:
    """The outcome of one method.

    Attributes
    ----------
    space : Coordinates
    likelihood : Likelihood
    nodes : tuple of K approximations
        One where t2 was chosen or given.
    weight : (K,) array
        Posterior weights of the nodes.
    log_t2 : float
        In the units of the coordinates: the posterior mean where t2 was integrated out, else the value chosen or
        given; -inf for a null model.
    log_evidence : float
        Log of the integral of likelihood times prior, over t2 too where that was integrated out. Constant
        factors of the likelihood are left out, and flat coefficients have Lebesgue measure where each orthonormalised
        unpenalised column has mean square 1.
    error : float
        Estimated error of the integral over t2; 0 for one node.
    fall : float
        The posterior density of log t2 falls as ``exp(-fall log_t2)``; inf for one node.
    separated : bool
        The columns separate the responses, completely or in part, and the posterior of t2 has a slow tail.
    null : bool
        Method "em": the density of t2 has no interior mode; every penalised coefficient is 0.
    at_edge : bool
        Method "loocv": the best score is at an end of the grid.
    grid, grid_scores : (L,) arrays or None
        Method "loocv": log t2 and the leave-one-out log score.
    converged : bool
    n_iter : int
        Sweeps or Newton steps in all.
    shape : ShapeGrid, FormGrid or None
        Of the likelihood's further parameter, where that was integrated out; the likelihood then has its posterior
        mean on the log scale. Of several forms the likelihood has the most probable.
    factors : tuple of (K, q, q) arrays
        With several penalties: roots of the covariances of each term at the nodes.
    split : bool
        Nodes with the same penalties are parts of one posterior, which columns that separate the responses make far
        from normal along all directions that matter; see :mod:`pybayesridge.sites.windows`.
    whole : SitesFit or None
        While there are rows, the fit by expectation propagation where parts are by importance sampling, which gives
        them no sites of their own: in parts where one direction matters, else in one.
    order : float
        Moments of the unpenalised coefficients exist below this order, as far as the likelihood's further parameter
        is concerned.
    """

    kind: ClassVar[type[SitesPosterior]] = SitesPosterior

    space: Coordinates
    likelihood: Likelihood
    nodes: tuple[Node, ...]
    weight: FloatArray
    log_t2: float
    log_evidence: float
    error: float
    fall: float
    separated: bool
    null: bool
    at_edge: bool
    grid: FloatArray | None
    grid_scores: FloatArray | None
    converged: bool
    n_iter: int
    shape: ShapeGrid | FormGrid | None = None
    factors: Factors = ()
    split: bool = False
    whole: SitesFit | None = None
    order: float = np.inf

    @classmethod
    def of(cls, found: SitesFit) -> Self:
        """The same fit, as one of this class."""
        return cls(**{field.name: getattr(found, field.name) for field in fields(found)})

    def likely_predictors(self) -> FloatArray:
        """Posterior means of the linear predictors at the most probable node, (n,); needs the rows."""
        node = self.nodes[int(np.argmax(self.weight))]
        assert isinstance(node, Approximation)
        return node.mean

    def fitted(self) -> FloatArray:
        """Posterior mean, or median where there is none, of the mean of each row's response, (n,); needs the rows."""
        if not self.likelihood.has_mean:
            return self._fitted_medians()
        out, total = np.zeros(self.likelihood.n), 0.0
        # All nodes where that costs nothing, as for the coefficients.
        least = 0.0 if self.likelihood.link == "identity" else NEGLIGIBLE
        for node, weight in zip(self.nodes, self.weight.tolist(), strict=True):
            if weight > least:
                assert isinstance(node, Approximation)
                out += weight * self.likelihood.mean_over(node.mean, node.variance)
                total += weight
        return out / total

    def _fitted_medians(self) -> FloatArray:
        keep = np.flatnonzero(self.weight > NEGLIGIBLE)
        nodes = [node for node in (self.nodes[i] for i in keep) if isinstance(node, Approximation)]
        center, scale = np.stack([n.mean for n in nodes]), np.sqrt(np.stack([n.variance for n in nodes]))
        law = Common(center, scale, self.weight[keep] / self.weight[keep].sum(), np.inf)
        return self.likelihood.of_rows(self.likelihood.mean(law.quantiles(MIDDLE)[:, 0]))

    @staticmethod
    def of_earlier(state: dict[str, Any]) -> dict[str, Any]:
        """The attributes in files of earlier versions, which named the method here too."""
        return {name: value for name, value in state.items() if name != "method"}

    def left_out(self) -> LeaveOneOut:
        """Predictions of the rows from each other; needs the rows."""
        fit = self.whole or self
        return leave_one_out(fit.likelihood, fit.nodes, fit.weight)  # type: ignore[arg-type]

    def rows_left_out(self) -> LeftOut:
        """Log probabilities of the rows given the others; needs the rows."""
        refused = self.refused_row()
        if refused is not None:
            raise refused
        fit = self.whole or self
        return rows_left_out(fit.likelihood, fit.nodes, fit.weight)  # type: ignore[arg-type]

    def needed_rows(self) -> list[int]:
        """Rows without which the unpenalised columns, and cut points, separate the responses or are collinear."""
        balance = self._balance()
        return [] if balance is None else balance.needed()

    def refused_row(self) -> NoDensityError | None:
        """The first of these, and why it has no prediction; None if there is none."""
        balance = self._balance()
        needed = [] if balance is None else balance.needed()
        if balance is None or not needed:
            return None
        first = np.array(needed[:1])
        return NoDensityError(needed[0], balance.reason(first, self.likelihood.without(first)))

    def _balance(self) -> Balance | None:
        """The unpenalised columns in the balance of the most probable node; None where there are none."""
        fit = self.whole or self
        i = int(np.argmax(fit.weight))
        node = fit.nodes[i]
        assert isinstance(node, Approximation)
        flat = flat_columns(fit.space_at(i).scaled(node.log_t2))
        return Balance.of(node, fit.likelihood.of_node(node), flat) if flat.shape[1] else None

    def groups_left_out(self, codes: IntArray, solver: str) -> LeftOut:
        """Predictions of groups of rows from the others, given the group of each row (n,); needs the rows."""
        fit = self.whole or self
        nodes: Any = fit.nodes
        expanded = solver == "laplace"
        return groups_left_out(fit.likelihood, nodes, fit.weight, fit.space_at, codes, expanded=expanded)

    def space_at(self, node: int) -> Any:
        """The space of the rows at a node."""
        return self.space

    def loo_log_score(self, predictions: LeaveOneOut) -> float:
        """Sum of the log scores of these over all copies of the rows; minus infinity if a row is needed."""
        return -np.inf if self.needed_rows() else total_log_score(self.likelihood, predictions)

    def without_rows(self) -> SitesFit:
        """The same with every array over rows emptied."""
        nodes = tuple(
            n.without_rows(self.space, w > NEGLIGIBLE) for n, w in zip(self.nodes, self.weight, strict=True)
        )
        none = self.likelihood.without_rows()
        return replace(self, space=self.space.without_rows(), likelihood=none, nodes=nodes, whole=None)

    def shape_arrays(self) -> dict[str, Any]:
        """The log of a further parameter of the likelihood at each node, and its distribution function."""
        nodes, grid = [self.nodes[i] for i in np.flatnonzero(self.weight > NEGLIGIBLE)], self.shape
        if grid is None:
            return {}
        forms: dict[str, Any] = {}
        if isinstance(grid, FormGrid):
            forms = {"form": np.array([node.form for node in nodes]), "forms": grid.forms, "form_share": grid.share}
        return forms | shape_arrays(grid, np.array([node.log_shape for node in nodes]))

    def posterior(self) -> SitesPosterior:
        """The joint posterior of the coefficients."""
        found: SitesPosterior = make_posterior(
            self.space,
            self.likelihood,
            self.nodes,
            self.weight,
            self.factors,
            of=self.kind,
            **self.moments_that_exist(),
        )
        return found

    def posterior_nodes(self) -> tuple[Any, ...]:
        """The nodes that have no negligible weight."""
        return tuple(self.nodes[i] for i in np.flatnonzero(self.weight > NEGLIGIBLE))

    def moments_that_exist(self) -> dict[str, Any]:
        """Whether coefficients have means and variances, and t2 a mean."""
        return {
            "has_mean": self.order > 1 and (not self.separated or self.fall > 0.5 + EXISTS),
            "has_variance": self.order > 2 and (not self.separated or self.fall > 1 + EXISTS),
            "t2_has_mean": self.fall > 1 + EXISTS,
        }


@dataclass(frozen=True, slots=True)
class SitesPenalty:
    """The penalty of a fit under a prior: what results ask.

    Attributes
    ----------
    fit : SitesFit
    prior : BetaPrime
        Of tau2.
    flat_in : {"link", "latent"}
    """

    fit: SitesFit
    prior: BetaPrime
    flat_in: FlatIn

    @property
    def log_unit(self) -> float:
        """Log of the factor from tau2 to t2 in the units of the coordinates."""
        return 2 * float(np.log(self.fit.space.design.common_scale))

    def _given(self, likelihood: Likelihood) -> LogPrior:
        """The prior in the units of the coordinates, given a likelihood."""
        return log_prior(self.prior, self.fit.space, likelihood, self.flat_in)

    def posterior(self) -> TailedDensity:
        """The posterior of log t2 of a fit that integrates it out."""
        fit, grid = self.fit, self.fit.shape
        if grid is None:
            return _of_nodes(fit.nodes, self._given(fit.likelihood), fit.fall)
        parts, weights = [], []
        for i in np.flatnonzero(grid.weight > LEAST).tolist():
            nodes = tuple(fit.nodes[j] for j in np.flatnonzero(grid.which == i))
            parts.append(_of_nodes(nodes, self._given(fit.likelihood.of_node(nodes[0])), fit.fall))
            weights.append(float(grid.weight[i]))
        return TailedDensity.mixed(parts, weights, parts[0].rise, fit.fall)

    def means(self) -> list[float]:
        """Posterior means of lambda, whose tail is the prior's, and of tau2; inf where there is none."""
        fit, mean_of_penalty, mean_of_t2 = self.fit, np.inf, np.inf
        log_t2 = np.array([node.log_t2 for node in fit.nodes])
        with np.errstate(over="ignore"):
            if len(fit.nodes) == 1 or self.prior.a > 1 + EXISTS:
                mean_of_penalty = float(fit.weight @ np.exp(-log_t2))
            if fit.fall > 1 + EXISTS:
                mean_of_t2 = float(fit.weight @ np.exp(log_t2))
            return [mean_of_penalty * np.exp(self.log_unit), mean_of_t2 * np.exp(-self.log_unit)]

    def effective_df(self) -> float:
        """Posterior mean of the effective degrees of freedom, the flat coordinates among them."""
        return float(self.fit.weight @ [node.effective_df() for node in self.fit.nodes])

    def effective_df_at(self, log_t2: FloatArray) -> FloatArray:
        """The same at some values of log t2, averaged over a further parameter."""
        fit = self.fit
        which = np.zeros(len(fit.nodes), dtype=np.intp) if fit.shape is None else fit.shape.which
        weight = np.ones(1) if fit.shape is None else fit.shape.weight
        out = np.zeros(log_t2.size)
        for i, share in enumerate(weight.tolist()):
            nodes = tuple(fit.nodes[j] for j in np.flatnonzero(which == i))
            where, _, df = _of_penalties(nodes)
            out += share * np.interp(log_t2, where, df)
        return out

    def hyperparameters(self, at: FloatArray, *, integrates: bool) -> FloatArray:
        """Posterior means, and quantiles at three levels `at`, the second below the third, (3 to 5, 4).

        Of lambda, tau2, the effective degrees of freedom, the flat coordinates among them, and further parameters of
        the likelihood that are integrated out.
        """
        fit, mean_df = self.fit, self.effective_df()
        with np.errstate(over="ignore"):
            if integrates:
                points = self.posterior().quantiles(at)
                df, means = self.effective_df_at(points), self.means()
            else:
                points, df = np.full(3, fit.log_t2), np.full(3, mean_df)
                means = [float(np.exp(self.log_unit - fit.log_t2)), float(np.exp(fit.log_t2 - self.log_unit))]
            values = np.array([np.exp(self.log_unit - points)[[0, 2, 1]], np.exp(points - self.log_unit), df])
            out = np.column_stack([[*means, mean_df], values])
            return out if fit.shape is None else np.vstack([out, fit.shape.summary(at)])

    def log_prior_at_nodes(self, tau2: FloatArray, which: IntArray) -> FloatArray:
        """Log prior density of the log of tau2 (m, 1), given the further parameter at the nodes `which` (m,)."""
        priors = [self._given(self.fit.likelihood.of_node(node)) for node in self.fit.nodes]
        scale = np.array([prior.log_scale for prior in priors])[which][:, None] - self.log_unit
        return log_density_of_log(tau2, self.prior.a, self.prior.b, scale)

    def as_arrays(self, *, integrates: bool) -> dict[str, Any]:
        """Arrays from which the posterior of the penalty, and of a further parameter, are made again."""
        fit = self.fit
        path = np.unique([node.log_t2 for node in fit.nodes])
        return {
            "log_unit": self.log_unit,
            "path_log_t2": path,
            "path_df": self.effective_df_at(path),
            **fit.shape_arrays(),
            **_arrays_of_penalty(self.posterior() if integrates else None, fit.log_t2),
        }


def _arrays_of_penalty(found: TailedDensity | None, log_t2: float) -> dict[str, Any]:
    """The distribution function of log t2 on equally spaced points, with its exponential tails."""
    points, cumulative, rise, fall = np.array([log_t2]), np.ones(1), np.inf, np.inf
    if found is not None:
        points, cumulative, rise, fall = found.points, found.cumulative, found.rise, found.fall
    return {
        "log_t2_from": points[:1],
        "log_t2_to": points[-1:],
        "log_t2_points": np.array([float(points.size)]),
        "cumulative": cumulative,
        "rise": float(rise),
        "fall": float(fall),
    }


def _of_nodes(nodes: tuple[Node, ...], prior: LogPrior, fall: float) -> TailedDensity:
    """The posterior of log t2 by the evidence at nodes in ascending order."""
    where, log_evidence, _ = _of_penalties(nodes)
    height = log_evidence + np.array([prior(l) for l in where.tolist()])
    return TailedDensity.through(where, height, prior.a, fall)


def _of_penalties(nodes: tuple[Node, ...]) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Log t2, log evidence and effective degrees of freedom of nodes in ascending order, parts of one as one."""
    where, first, which = np.unique([node.log_t2 for node in nodes], return_index=True, return_inverse=True)
    df = np.array([node.effective_df() for node in nodes])
    log_evidence = np.array([node.log_evidence for node in nodes])
    if where.size == which.size:
        return where, log_evidence, df
    top = np.maximum.reduceat(log_evidence, first)
    share = np.exp(log_evidence - top[which])
    total = np.bincount(which, share)
    return where, top + np.log(total), np.bincount(which, share * df) / total
