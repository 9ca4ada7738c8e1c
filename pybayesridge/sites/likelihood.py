"""What the approximations ask of the likelihood of the rows, whatever the family of the responses.

A row may stand for several copies of itself. Its log likelihood is a concave function of its linear predictor alone;
factors that depend on neither the coefficients nor the prior may be left out and are those of :meth:`log_constants`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.posterior.left_out import LeaveOneOut
from pybayesridge.sites.approximation import cavity
from pybayesridge.sites.gaussian import Sites
from pybayesridge.sites.shape import ShapePrior
from pybayesridge.sites.tilted import Cavity, Tilted, by_equal_steps, normal_cavity

if TYPE_CHECKING:
    from pybayesridge.sites.approximation import Approximation, Node


@dataclass(frozen=True, slots=True)
class Group:
    """Some of the rows as parts of the sites.

    Attributes
    ----------
    sites : (k,) int array
        Positions of the sites that they have a part in.
    share : (k,) array
        The part of the site that is theirs.
    values : callable
        Log likelihood of all copies of the rows (S,), at linear functions of these sites (S, k).
    """

    sites: IntArray
    share: FloatArray
    values: Callable[[FloatArray], FloatArray]


class RowSites(ABC):
    """A likelihood as the approximations at one t2 see it: a product of functions of linear predictors, one a site.

    Attributes
    ----------
    copies : (n,) array
        How many times each row counts; positive.
    link : str
    shape_prior : ShapePrior or None
        Of the log of a parameter that the likelihood has besides the linear predictors; None where there is none.
    """

    __slots__ = ()

    shape_prior: ClassVar[ShapePrior | None] = None

    copies: FloatArray
    link: Any

    @property
    def log_shape(self) -> float:
        """The log of its further parameter; nan where it has none or is still without a value."""
        return np.nan

    @property
    def unknown_shape(self) -> ShapePrior | None:
        """The prior of this log where it is to be integrated out."""
        return self.shape_prior if np.isnan(self.log_shape) else None

    def of_shape(self, log_shape: float) -> Self:
        """The same likelihood with a value of its further parameter; itself where it has none."""
        return self

    def first_shape(self) -> float:
        """A guess of the log of the further parameter."""
        return 0.0

    def shape_near(self, eta: FloatArray) -> float:
        """A guess of it where the linear predictors are about `eta` (n,)."""
        return self.first_shape()

    def guessed(self) -> Self:
        """The likelihood, with a guess of the further parameter where that is unknown."""
        return self if self.unknown_shape is None else self.of_shape(self.first_shape())

    def forms(self) -> tuple[Self, ...]:
        """The likelihoods of all forms that are equally probable a priori; one where only one is looked at."""
        return (self,)

    @property
    def form(self) -> float:
        """The number by which likelihoods of several forms differ; nan where there is one form."""
        return np.nan

    def of_form(self, form: float) -> Self:
        """The likelihood of a form; itself where there is one."""
        return self

    def of_node(self, node: Node) -> Self:
        """The likelihood with the further parameter and the form that a node has."""
        return self.of_form(node.form).of_shape(node.log_shape)

    @property
    def modes_first(self) -> bool:
        """Whether EP starts from Laplace's approximation at each node: where the likelihood has several tops."""
        return False

    @property
    def unit(self) -> float:
        """The unit of linear predictors, in which changes of them are small or large."""
        return 1.0

    @property
    def signed_unit(self) -> FloatArray | None:
        """Units of precisions of sites that may be negative, (n,); None for log-concave likelihoods."""
        return None

    @property
    @abstractmethod
    def n(self) -> int:
        """Number of linear predictors: of rows, unless these have several."""

    @property
    @abstractmethod
    def size(self) -> FloatArray:
        """Weights of the rows in means, variances and projections of columns, (n,)."""

    @property
    @abstractmethod
    def observed(self) -> FloatArray:
        """The responses of the rows as whole numbers or as they were given, (n,)."""

    @property
    def total(self) -> float:
        """Sum of the responses of all copies of the rows."""
        return float((self.copies * self.observed).sum())

    @property
    @abstractmethod
    def latent_variance(self) -> float:
        """Variance of the latent noise: the unit in which the prior says how much the columns explain."""

    @abstractmethod
    def values(self, eta: FloatArray) -> FloatArray:
        """Log likelihood of all copies of the rows at linear predictors that broadcast with (n,)."""

    @abstractmethod
    def derivatives(self, eta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Its first derivative, and minus the second, which is not negative."""

    @abstractmethod
    def first_guess(self) -> FloatArray:
        """Linear predictors by the rows' own responses, drawn towards the middle, (n,)."""

    @abstractmethod
    def largest_curvature(self) -> FloatArray:
        """Bounds of minus the second derivative, (n,); inf where there is none.

        The variance of a normal variable times such a likelihood is at least ``1 / (precision + curvature)``.
        """

    @abstractmethod
    def rises(self) -> FloatArray:
        """Where the likelihood does not fall: 1 upwards, -1 downwards, 0 in neither direction; (n,)."""

    def of_single_rows(self, pull: FloatArray) -> tuple[IntArray, FloatArray]:
        """The row of each of the first sites, which single rows have, and the derivatives that these have of all."""
        return np.arange(self.n), pull

    @abstractmethod
    def log_constants(self) -> FloatArray:
        """Log of the factor of one copy of each row that the log likelihood leaves out, (n,)."""

    def score_constants(self) -> FloatArray:
        """The part of these that log scores have, (n,): none where they are averages over the trials of a row."""
        return np.zeros(self.n)

    @abstractmethod
    def without_rows(self) -> Self:
        """The likelihood of none of the rows: what does not run over them is all that is left of it."""

    def in_coordinates(self, space: Any) -> Any:
        """The linear functions of the sites in coordinates, from the space of the rows' linear predictors."""
        return space

    @abstractmethod
    def tilted(self, cavity: Cavity) -> Tilted:
        """Moments of each function times a normal density of its linear predictor."""

    @abstractmethod
    def left_out_at(self, node: Approximation) -> LeaveOneOut:
        """Predictions of one copy of each row by the approximation at one t2, without the row's own sites."""

    @abstractmethod
    def log_density_over(self, mean: FloatArray, variance: FloatArray) -> FloatArray:
        """Log mean of the likelihood of one copy of each row where the linear predictors are normal, (n,)."""

    @abstractmethod
    def of_group(self, rows: IntArray, mean: FloatArray) -> Group:
        """Some of the rows as parts of the sites, whose linear functions have the means (n,)."""

    @abstractmethod
    def without(self, rows: IntArray) -> Self:
        """The likelihood of the other rows."""

    @abstractmethod
    def log_quotients(self, which: IntArray, mean: FloatArray, variance: FloatArray, sites: Sites) -> FloatArray:
        """Log means of functions over sites scaled to 1 at `mean`, their linear functions being normal.

        Of the sites `which` (m,) from means (n,), variances (n,) and sites of all.
        """

    @abstractmethod
    def check_unseparated(self) -> None:
        """Raise ValueError if the responses alone leave an intercept undetermined, and say why."""

    def separated_by(self, names: str, count: int) -> str:
        """Say that unpenalised columns separate the responses of `count` rows."""
        return (
            f"the unpenalised column(s) {names} separate the responses: they predict {count} of {self.n} rows "
            "without error"
        )


class Likelihood(RowSites):
    """The likelihood of rows with one linear predictor each, of which the mean of a response is a function.

    A family derives its own as a frozen dataclass of arrays over rows.

    Attributes
    ----------
    has_mean : bool
        Whether the mean of a response has a posterior mean whatever the tails of the linear predictor's posterior
        are; otherwise medians are reported.
    unpredicted : float
        In place of the mean of a response that the other rows do not determine.
    whole : bool
        Whether responses are whole numbers.
    """

    __slots__ = ()

    has_mean: ClassVar[bool] = True
    unpredicted: ClassVar[float] = np.nan
    whole: ClassVar[bool] = True

    @abstractmethod
    def rows(self, which: IntArray) -> Self:
        """The likelihood of some of the rows."""

    def sums(self, eta: FloatArray, rows: IntArray, more: FloatArray, first: IntArray) -> FloatArray:
        """Sums of the log likelihoods of some rows (E,) in turn, those from each of `first` (T,) on together, (S, T).

        At linear predictors (S, n) to which `more` (E,) is added.
        """
        out: FloatArray = np.add.reduceat(self.rows(rows).values(eta[:, rows] + more), first, axis=1)
        return out

    def without_rows(self) -> Self:
        """The likelihood of none of the rows: the mean and the latent variance are all that is left of it."""
        return self.rows(np.empty(0, dtype=np.intp))

    @property
    def order(self) -> float:
        """Moments of unpenalised coefficients exist below this order if the further parameter is integrated out."""
        return np.inf

    def reach(self, top: FloatArray, drop: float) -> FloatArray:
        """Distance above a tilted density's `top` (n,) by which the likelihood alone makes its log fall by `drop`."""
        return np.full(top.shape, np.inf)

    @abstractmethod
    def mean(self, eta: FloatArray) -> FloatArray:
        """Mean of a response at linear predictors of any shape."""

    @abstractmethod
    def draws(self, eta: FloatArray, generator: np.random.Generator) -> FloatArray:
        """Responses, as :attr:`observed`, at linear predictors (n, m)."""

    def up_to(self, y: FloatArray, eta: FloatArray, extent: FloatArray | None = None) -> FloatArray:
        """Probability of a response of at most `y` at linear predictors that broadcast with it, of rows of an extent.

        Where responses are whole numbers `y` is. Only of families whose
        :attr:`~pybayesridge.families.family.Family.new_intervals` is true.
        """
        raise NotImplementedError

    def around(self, eta: FloatArray, extent: FloatArray | None = None) -> tuple[FloatArray, FloatArray]:
        """Two responses such that most are between them, at linear predictors of any shape; of the same families."""
        raise NotImplementedError

    @abstractmethod
    def mean_over(self, mean: FloatArray, variance: FloatArray) -> FloatArray:
        """Mean of a response where the linear predictor is normal; shape of `mean`."""

    def moments_over(self, mean: FloatArray, variance: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean and mean square of the mean of a response where the linear predictor is normal; if there is a mean."""
        raise NotImplementedError

    @abstractmethod
    def copied(self, copies: FloatArray) -> Self:
        """The same rows with other numbers of copies, (n,), which may be 0."""

    def of_rows(self, mean: FloatArray) -> FloatArray:
        """Means of the rows' responses, (n,), from those of responses at the same linear predictors."""
        return mean

    @abstractmethod
    def deviances(self, mean: FloatArray) -> FloatArray:
        """Deviance of means of the rows' responses, of one copy of each row, (n,)."""

    @abstractmethod
    def variances(self, mean: FloatArray) -> FloatArray:
        """Variances of :attr:`observed`, of one copy of each row, for such means, (n,)."""

    def pearson(self, mean: FloatArray) -> FloatArray:
        """Responses less means in standard deviations, (n,), for means of the rows' responses."""
        out: FloatArray = (self.observed - self.expected(mean)) / np.sqrt(self.variances(mean))
        return out

    def signed_deviances(self, mean: FloatArray) -> FloatArray:
        """Roots of the deviances with the signs of responses less means, (n,), likewise."""
        sign = np.sign(self.observed - self.expected(mean))
        out: FloatArray = sign * np.sqrt(np.maximum(self.deviances(mean), 0.0))
        return out

    def expected(self, mean: FloatArray) -> FloatArray:
        """Means of :attr:`observed` for such means, (n,)."""
        return mean

    def tilted(self, cavity: Cavity) -> Tilted:
        """Moments of the likelihood of all copies of each row times a normal density of its linear predictor."""
        return by_equal_steps(self, cavity)

    def of_group(self, rows: IntArray, mean: FloatArray) -> Group:
        """Some of the rows, whose sites are theirs alone."""
        part = self.rows(rows)
        return Group(rows, np.ones(rows.size), lambda eta: part.values(eta).sum(axis=-1))

    def without(self, rows: IntArray) -> Self:
        """The likelihood of the other rows."""
        return self.rows(np.delete(np.arange(self.n), rows))

    def log_quotients(self, which: IntArray, mean: FloatArray, variance: FloatArray, sites: Sites) -> FloatArray:
        """Log means of likelihoods over sites scaled to 1 at `mean`, of some rows (m,)."""
        own, spread = Sites(sites.precision[which], sites.shift[which]), variance[which]
        found = self.rows(which).tilted(cavity(mean[which], spread, own)).log_integral
        return found - 0.5 * np.log(2.0 * np.pi * spread)

    def log_integral(self, cavity: Cavity) -> FloatArray:
        """Log integral of the tilted densities, (n,); of the cavity itself where a row has no copies."""
        out = np.empty(self.n)
        none, some = np.flatnonzero(self.copies == 0), np.flatnonzero(self.copies > 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            spread = cavity.slope[none] ** 2 / (2 * cavity.precision[none])
            out[none] = np.where(
                cavity.precision[none] > 0, 0.5 * np.log(2 * np.pi / cavity.precision[none]) + spread, np.inf
            )
        if some.size:
            out[some] = self.rows(some).tilted(cavity.rows(some)).log_integral
        return out

    def left_out_at(self, node: Approximation) -> LeaveOneOut:
        """Predictions of one copy of each row by the approximation at one t2, without the row's own site."""
        return self.left_out(node.cavity())

    def left_out(self, cavity: Cavity) -> LeaveOneOut:
        """Predictions of one copy of each row, given the cavity of the linear predictor without any copy of it.

        The log score is -inf where the cavity is flat.
        """
        rest = np.maximum(self.copies - 1.0, 0.0)
        before = self.copied(rest).log_integral(cavity)
        log_score, mean = np.full(self.n, -np.inf), np.full(self.n, self.unpredicted)
        which = np.flatnonzero(np.isfinite(before))
        part, around, rest, before = self.rows(which), cavity.rows(which), rest[which], before[which]
        log_score[which] = part.copied(rest + 1).log_integral(around) - before
        mean[which] = part.copied(rest).predicted(around, before)
        return LeaveOneOut(log_score, mean)

    @abstractmethod
    def predicted(self, cavity: Cavity, log_integral: FloatArray) -> FloatArray:
        """Mean of another copy's response given the cavity and these copies, of which some rows may have none, (n,).

        `log_integral` is that of the cavity times the likelihood.
        """

    def log_density_over(self, mean: FloatArray, variance: FloatArray) -> FloatArray:
        """Log mean of the likelihood of one copy of each row where the linear predictors are normal, (n,)."""
        one = self.copied(np.ones(self.n))
        return one.log_integral(normal_cavity(mean, variance)) - 0.5 * np.log(2 * np.pi * variance)
