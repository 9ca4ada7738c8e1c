"""The likelihood of ordered categories: two cut points and the linear predictor a row.

With cut points ``c_1 < ... < c_(K-1)`` and ``u_k = c_k - eta`` the probability of category k is
``F(u_k) - F(u_(k-1))``, F being the logistic or the normal distribution function. It is log-concave in the linear
predictor and the cut points together, and so are its factors. For the logistic function

    F(u_k) - F(u_(k-1)) = F(u_k) F(-u_(k-1)) (1 - exp(-(c_k - c_(k-1)))),

which is what a row of failures and one of successes say of one linear function each, and a factor that depends on
the distance of two cut points alone. So sites of single linear functions do, as they do for yes/no responses. For the
normal distribution function the second derivatives are those of three such factors; that is enough for
Laplace's approximation.

The sites are in this order: those of upper cut points, of all rows that have one, those of lower cut points, and the
distances of neighbouring cut points, of which each stands for all rows of the category between.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit, log_expit, log_ndtr, logit, ndtr, ndtri

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.binomial.likelihood import Binomial, from_counts
from pybayesridge.binomial.link import LATENT_VARIANCE, Link
from pybayesridge.binomial.logistic_normal import expected_derivatives
from pybayesridge.ordinal import spacings
from pybayesridge.posterior.left_out import LeaveOneOut
from pybayesridge.sites.approximation import Approximation, cavity
from pybayesridge.sites.gaussian import Sites
from pybayesridge.sites.likelihood import Group, RowSites
from pybayesridge.sites.tilted import Cavity, Tilted, merged

LOG_ROOT_2PI = 0.5 * float(np.log(2.0 * np.pi))


@dataclass(frozen=True, slots=True)
class Cumulative(RowSites):
    """Ordered categories.

    Attributes
    ----------
    codes : (n,) int array
        Category of each row, from 0.
    copies : (n,) array
        Frequency weights: how many times the row counts; positive.
    counts : (K,) array
        Copies of all rows of the fit in each category; positive.
    link : {"logit", "probit"}
    """

    codes: IntArray
    copies: FloatArray
    counts: FloatArray
    link: Link

    only_laplace: ClassVar[str] = (
        "with link='probit' ordered categories are fitted by Laplace's approximation: use fit('laplace'), or "
        "solver='laplace'"
    )

    @property
    def n(self) -> int:
        """Number of sites."""
        return int(self.upper.size + self.lower.size + self.inner)

    @property
    def categories(self) -> int:
        """K."""
        return int(self.counts.size)

    @property
    def inner(self) -> int:
        """Number of categories that lie between others."""
        return max(self.categories - 2, 0)

    @property
    def upper(self) -> IntArray:
        """Rows that have an upper cut point."""
        return np.flatnonzero(self.codes < self.categories - 1)

    @property
    def lower(self) -> IntArray:
        """Rows that have a lower cut point."""
        return np.flatnonzero(self.codes > 0)

    @property
    def size(self) -> FloatArray:
        """Copies of the rows of the data, (n,)."""
        return self.copies

    @property
    def observed(self) -> FloatArray:
        """The categories as numbers from 0."""
        return self.codes.astype(np.float64)

    @property
    def total(self) -> float:
        """Number of rows of the data, copies included."""
        return float(self.copies.sum())

    @property
    def latent_variance(self) -> float:
        """pi^2/3 for the logit and 1 for the probit link."""
        return LATENT_VARIANCE[self.link]

    @property
    def factorises(self) -> bool:
        """Whether the likelihood is a product of functions of one linear function each."""
        return self.link == "logit"

    def without_rows(self) -> Cumulative:
        """The likelihood of none of the rows."""
        return replace(self, codes=self.codes[:0], copies=self.copies[:0])

    def first_cuts(self) -> FloatArray:
        """Cut points (K - 1,) by the shares of the categories alone."""
        share = np.cumsum(self.counts)[:-1] / self.counts.sum()
        out: FloatArray = logit(share) if self.link == "logit" else ndtri(share)
        return out

    def parts(self, each: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """What runs over the sites, taken apart: of upper and lower cut points, and of distances."""
        a = self.upper.size
        b = a + self.lower.size
        return each[..., :a], each[..., a:b], each[..., b:]

    def ends(self, each: FloatArray) -> tuple[FloatArray, FloatArray]:
        """U at both cut points of every row, (n,): inf and -inf where there is none.

        The sites' linear functions are those of a yes/no response, the linear predictor less the cut point.
        """
        up, down, _ = self.parts(each)
        above, below = np.full(self.codes.size, np.inf), np.full(self.codes.size, -np.inf)
        above[self.upper], below[self.lower] = -up, -down
        return above, below

    def of_sites(self, rows: FloatArray) -> FloatArray:
        """The sites' linear functions (N, e + m), distances first, from those of the rows, (n, m)."""
        e, code = self.inner, self.codes
        of_cuts = np.r_[self.upper, self.lower]
        cut = np.r_[code[self.upper], code[self.lower] - 1]
        out = np.zeros((self.n, e + rows.shape[1]), order="F")
        out[: of_cuts.size, e:] = rows[of_cuts]
        out[: of_cuts.size, :e] = -np.where(cut[:, None] > np.arange(e), 1.0, 0.0)
        out[of_cuts.size :, :e] = np.eye(e)
        return out

    def in_coordinates(self, space: Any) -> Any:
        """The sites' linear functions in the coordinates of rows, the distances before these."""
        e = self.inner
        if space.joint:
            return replace(space, rows=self.of_sites(space.rows), k=space.k + e)
        at = np.r_[self.upper, self.lower]
        level, value = np.r_[space.level[at], np.zeros(e, dtype=np.intp)], np.r_[space.value[at], np.zeros(e)]
        return replace(space, level=level, value=value, beside=self.of_sites(space.beside), k=space.k + e)

    def of_cut_points(self) -> Binomial:
        """The two factors of each row of the logistic model: failures at upper cut points, successes at lower."""
        copies = np.r_[self.copies[self.upper], self.copies[self.lower]]
        success = np.r_[np.zeros(self.upper.size), np.ones(self.lower.size)]
        return from_counts(success, None, copies, "logit")

    def values(self, eta: FloatArray) -> FloatArray:
        """Log likelihood, whose sum over the sites is that of all rows, (N,), or (m, N) of the logistic model."""
        up, down, distance = self.parts(eta)
        own = self.counts[1:-1]
        if self.factorises:
            of_cuts = self.of_cut_points().values(np.concatenate([up, down], axis=-1))
            return np.concatenate([of_cuts, own * spacings.log_factor(distance)], axis=-1)
        out = np.zeros(eta.size)
        above, below, code = *self.ends(eta), self.codes
        inside = (code > 0) & (code < self.categories - 1)
        with np.errstate(invalid="ignore", divide="ignore"):
            value = np.where(
                inside, _log_interval(above, below), np.where(code == 0, log_ndtr(above), log_ndtr(-below))
            )
        value[inside & ~(above > below)] = -np.inf
        out[: self.upper.size] = (self.copies * value)[self.upper]
        last = self.codes == self.categories - 1
        out[self.upper.size : self.upper.size + self.lower.size][last[self.lower]] = (self.copies * value)[last]
        return out

    def derivatives(self, eta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """First derivatives along the sites' linear functions, and the precisions of sites, (N,) each.

        The quadratic form of these precisions is minus the second derivative.
        """
        up, down, distance = self.parts(eta)
        if self.factorises:
            first, second = self.of_cut_points().derivatives(np.r_[up, down])
            slope, bend = spacings.factor_derivatives(distance)
            own = self.counts[1:-1]
            return np.concatenate([first, own * slope]), np.concatenate([second, own * bend])
        g1, g2, p1, p2, q = _interval_derivatives(*self.ends(eta))
        c, of = self.copies, np.zeros(self.inner)
        np.add.at(of, self.codes[self._between()] - 1, (c * q)[self._between()])
        first = np.r_[-(c * g1)[self.upper], -(c * g2)[self.lower], np.zeros(self.inner)]
        return first, np.r_[(c * p1)[self.upper], (c * p2)[self.lower], of]

    def _between(self) -> IntArray:
        return np.flatnonzero((self.codes > 0) & (self.codes < self.categories - 1))

    def first_guess(self) -> FloatArray:
        """The sites' linear functions where nothing depends on the columns."""
        cuts = self.first_cuts()
        return np.r_[-cuts[self.codes[self.upper]], -cuts[self.codes[self.lower] - 1], np.diff(cuts)]

    def largest_curvature(self) -> FloatArray:
        """Bounds of the precisions of sites: none for distances."""
        bound = self.of_cut_points().largest_curvature()
        return np.r_[bound, np.full(self.inner, np.inf)]

    def rises(self) -> FloatArray:
        """-1 for upper cut points, 1 for lower ones and for distances."""
        return np.r_[-np.ones(self.upper.size), np.ones(self.lower.size), np.ones(self.inner)]

    def of_single_rows(self, pull: FloatArray) -> tuple[IntArray, FloatArray]:
        """Those of cut points: a distance pulls at both cut points of each row of the category, by its copies.

        The lower site's function less the upper one's is the distance, so that no direction that lets these as they
        are, or moves them on, moves it back.
        """
        up, down, distance = (each.copy() for each in self.parts(pull))
        between = self._between()
        share = self.copies[between] / self.counts[self.codes[between]] * distance[self.codes[between] - 1]
        up[np.searchsorted(self.upper, between)] -= share
        down[np.searchsorted(self.lower, between)] += share
        return np.r_[self.upper, self.lower], np.r_[up, down]

    def log_constants(self) -> FloatArray:
        """Nothing is left out, (n,)."""
        return np.zeros(self.codes.size)

    def score_constants(self) -> FloatArray:
        """Likewise."""
        return self.log_constants()

    def of_group(self, rows: IntArray, mean: FloatArray) -> Group:
        """Some of the rows, which have sites of their own at cut points, and a part in those of distances."""
        code, copies = self.codes[rows], self.copies[rows]
        has_upper, has_lower = code < self.categories - 1, code > 0
        a, b = self.upper.size, self.upper.size + self.lower.size
        of_upper = np.searchsorted(self.upper, rows[has_upper])
        of_lower = a + np.searchsorted(self.lower, rows[has_lower])
        part = self._share_of_distances(rows, mean)
        middle = np.flatnonzero(part > 0)
        sites = np.r_[of_upper, of_lower, b + middle]
        share = np.r_[np.ones(of_upper.size + of_lower.size), part[middle]]

        def values(eta: FloatArray) -> FloatArray:
            above, below = np.full((len(eta), rows.size), np.inf), np.full((len(eta), rows.size), -np.inf)
            above[:, has_upper] = -eta[:, : of_upper.size]
            below[:, has_lower] = -eta[:, of_upper.size : of_upper.size + of_lower.size]
            out: FloatArray = log_between(above, below, self.link) @ copies
            return out

        return Group(sites, share, values)

    def _share_of_distances(self, rows: IntArray, mean: FloatArray) -> FloatArray:
        """The part of the sites of distances that is that of some rows, (e,)."""
        size = self.copies
        if not self.factorises:
            size = size * _interval_derivatives(*self.ends(mean))[4]
        whole, own, others = (
            np.bincount(self.codes[of], size[of], self.categories)[1:-1]
            for of in (slice(None), rows, np.delete(np.arange(self.codes.size), rows))
        )
        return np.where(others > 0, own / whole, 1.0)

    def without(self, rows: IntArray) -> Cumulative:
        """The likelihood of the other rows."""
        codes, copies = np.delete(self.codes, rows), np.delete(self.copies, rows)
        return replace(
            self, codes=codes, copies=copies, counts=np.bincount(codes, copies, self.categories).astype(np.float64)
        )

    def log_quotients(self, which: IntArray, mean: FloatArray, variance: FloatArray, sites: Sites) -> FloatArray:
        """Log means of functions over sites scaled to 1 at `mean`, of some sites (m,)."""
        if not self.factorises:
            raise ValueError(self.only_laplace)
        of_cuts = self.upper.size + self.lower.size
        around = cavity(mean[which], variance[which], Sites(sites.precision[which], sites.shift[which]))
        out, cut = np.empty(which.size), which < of_cuts
        first, rest = np.flatnonzero(cut), np.flatnonzero(~cut)
        out[first] = self.of_cut_points().rows(which[first]).tilted(around.rows(first)).log_integral
        if rest.size:
            counts = self.counts[1:-1][which[rest] - of_cuts]
            out[rest] = spacings.tilted(counts, around.rows(rest)).log_integral
        return out - 0.5 * np.log(2.0 * np.pi * variance[which])

    def tilted(self, cavity: Cavity) -> Tilted:
        """Moments of the tilted densities."""
        if not self.factorises:
            raise ValueError(self.only_laplace)
        of_cuts = np.arange(self.upper.size + self.lower.size)
        rest = np.arange(of_cuts.size, self.n)
        parts = [(of_cuts, self.of_cut_points().tilted(cavity.rows(of_cuts)))]
        if rest.size:
            parts.append((rest, spacings.tilted(self.counts[1:-1], cavity.rows(rest))))
        return merged(self.n, *parts)

    def check_unseparated(self) -> None:
        """Every category has to occur, so that the cut points alone are determined."""
        if not (self.counts > 0).all():
            raise ValueError("a category does not occur")

    def separated_by(self, names: str, count: int) -> str:
        """Say that unpenalised columns order the responses without error."""
        return f"the unpenalised column(s) {names} separate the ordered categories"

    def left_out_at(self, node: Approximation) -> LeaveOneOut:
        """Predictions of one copy of each row from the others; the mean is the probability of what was observed."""
        share = np.exp(self._without_own(node.mean, node.variance, node.sites))
        with np.errstate(divide="ignore"):
            return LeaveOneOut(np.log(share), share)

    def log_density_over(self, mean: FloatArray, variance: FloatArray) -> FloatArray:
        """Log probability of one more copy of each row where the sites' linear functions are normal, (n,)."""
        above, below = self.ends(mean)
        v_above, v_below, _ = self._variances(variance)
        with np.errstate(divide="ignore"):
            out: FloatArray = np.log(
                np.maximum(expected(above, v_above, self.link) - expected(below, v_below, self.link), 0.0)
            )
        return out

    def _variances(self, variance: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Variances at the upper and the lower cut point of each row and of their distance, (n,); 1 for none."""
        up, down, distance = self.parts(variance)
        above, below, between = np.ones((3, self.codes.size))
        above[self.upper], below[self.lower] = up, down
        rows = self._between()
        between[rows] = distance[self.codes[rows] - 1]
        return above, below, between

    def _without_own(self, mean: FloatArray, variance: FloatArray, sites: Sites) -> FloatArray:
        """Log probability of a copy of each row given the others, (n,); nan where these do not determine it."""
        out = np.full(self.codes.size, np.nan)
        share = 1.0 / self.copies
        above, below = self.ends(mean)
        v = self._variances(variance)
        t1, s1 = self._own(sites, self.upper, 0)
        t2, s2 = self._own(sites, self.lower, 1)
        for rows, at, var, t, s, sign in (
            (np.flatnonzero(self.codes == 0), -above, v[0], t1, s1, -1.0),
            (np.flatnonzero(self.codes == self.categories - 1), -below, v[1], t2, s2, 1.0),
        ):
            precision = 1.0 / var[rows] - share[rows] * t[rows]
            shift = at[rows] / var[rows] - share[rows] * s[rows]
            with np.errstate(divide="ignore", invalid="ignore"):
                found = np.log(expected(sign * shift / precision, 1.0 / precision, self.link))
            out[rows] = np.where(precision > 0, found, -np.inf)
        rows = self._between()
        if rows.size:
            out[rows] = self._between_without_own(rows, mean, variance, sites, (t1, s1, t2, s2))
        return np.where(np.isnan(out), -np.inf, out)

    def _own(self, sites: Sites, rows: IntArray, part: int) -> tuple[FloatArray, FloatArray]:
        """Precision and shift of the rows' own sites at one of their cut points, (n,); 0 where there is none."""
        precision, shift = np.zeros((2, self.codes.size))
        precision[rows], shift[rows] = self.parts(sites.precision)[part], self.parts(sites.shift)[part]
        return precision, shift

    def _between_without_own(
        self,
        rows: IntArray,
        mean: FloatArray,
        variance: FloatArray,
        sites: Sites,
        own: tuple[FloatArray, FloatArray, FloatArray, FloatArray],
    ) -> FloatArray:
        """The same of rows between two cut points: given their distance d, a difference of two means of F.

        In ``(u, d)``, u at the lower cut point, the row's own sites are taken off the posterior's precision; for the
        logistic model that of the distance too, in whose place stands the exact factor of the other rows of the
        category.
        """
        t1, s1, t2, s2 = (each[rows] / self.copies[rows] for each in own)
        below = self.ends(mean)[1][rows]
        v_above, v_below, v_d = (each[rows] for each in self._variances(variance))
        level = self.codes[rows] - 1
        d = self.parts(mean)[2][level]
        cov = 0.5 * (v_above - v_below - v_d)
        det = v_below * v_d - cov**2
        with np.errstate(divide="ignore", invalid="ignore"):
            p11, p12, p22 = v_d / det, -cov / det, v_below / det
        h1, h2 = p11 * below + p12 * d, p12 * below + p22 * d
        # The sites are functions of -u and of -(u + d).
        p11, h1 = p11 - t2 - t1, h1 + s2 + s1
        p12, p22, h2 = p12 - t1, p22 - t1, h2 + s1
        td, sd = self.parts(sites.precision)[2][level], self.parts(sites.shift)[2][level]
        others = self.counts[level + 1] - 1.0
        part = 1.0 if self.factorises else 1.0 / self.counts[level + 1]
        p22, h2 = p22 - part * td, h2 - part * sd
        with np.errstate(divide="ignore", invalid="ignore"):
            precision = p22 - p12**2 / p11
            slope = h2 - p12 * h1 / p11
        good = (p11 > 0) & (precision > 0) & (others > 0)
        out = np.full(rows.size, -np.inf)
        which = np.flatnonzero(good)
        if which.size == 0:
            return out
        zero = np.zeros(which.size)
        copies = others[which] if self.factorises else zero
        found = spacings.rule(copies, Cavity(zero, precision[which], slope[which]), spacings.FEW)
        share, _ = found.shares()
        u = (h1[which] - p12[which] * found.d) / p11[which]
        v = np.broadcast_to(1.0 / p11[which], u.shape)
        between = expected(u + found.d, v, self.link) - expected(u, v, self.link)
        with np.errstate(divide="ignore"):
            out[which] = np.log(np.maximum((share * between).sum(axis=0), 0.0))
        return out


def from_codes(codes: FloatArray, weights: FloatArray | None, categories: int, link: Link) -> Cumulative:
    """The likelihood of categories, coded from 0, each row counted `weights` times; None stands for 1."""
    code = np.asarray(codes).astype(np.intp)
    copies = np.ones(code.size) if weights is None else np.asarray(weights, dtype=float)
    return Cumulative(code, copies, np.bincount(code, copies, categories).astype(np.float64), link)


def expected(mean: FloatArray, variance: FloatArray, link: Link) -> FloatArray:
    """Mean of F where its argument is normal; 1 and 0 at infinite means."""
    inside = np.isfinite(mean)
    out = np.where(mean > 0, 1.0, 0.0)
    at, v = mean[inside], np.broadcast_to(variance, mean.shape)[inside]
    if link == "probit":
        out[inside] = ndtr(at / np.sqrt(1.0 + v))
    else:
        out[inside] = expected_derivatives(at, v, link, (0,))[0]
    return out


def distribution(u: Any, link: Link) -> FloatArray:
    """The distribution function of the latent noise."""
    out: FloatArray = expit(u) if link == "logit" else ndtr(u)
    return out


def log_between(above: FloatArray, below: FloatArray, link: Link) -> FloatArray:
    """``log(F(above) - F(below))``; -inf where that is not positive."""
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        if link == "logit":
            out = log_expit(above) + log_expit(-below) + spacings.log_factor(above - below)
        else:
            one_sided = np.where(np.isinf(below), log_ndtr(above), log_ndtr(-below))
            out = np.where(np.isinf(above) | np.isinf(below), one_sided, _log_interval(above, below))
    return np.where(above > below, out, -np.inf)


def _log_interval(above: FloatArray, below: FloatArray) -> FloatArray:
    """``log(ndtr(above) - ndtr(below))`` for above > below, in the tail where it has digits."""
    flip = above + below > 0
    high, low = np.where(flip, -below, above), np.where(flip, -above, below)
    log_high, log_low = log_ndtr(high), log_ndtr(low)
    out: FloatArray = log_high + np.log(-np.expm1(log_low - log_high))
    return out


def _interval_derivatives(
    above: FloatArray, below: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
    """Derivatives of the log of the normal probability of an interval at both ends, and three precisions, (n,) each.

    With D the probability and f the density the second derivatives are those of sites at the upper end, the lower
    end and for the distance of precisions ``f(a) int_b^a (a - t) f(t) dt / D^2``, ``f(b) int_b^a (t - b) f(t) dt /
    D^2`` and ``f(a) f(b) / D^2``.
    """
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        one_sided_low, one_sided_high = np.isinf(below), np.isinf(above)
        both = ~(one_sided_low | one_sided_high)
        log_d = np.where(
            both, _log_interval(above, below), np.where(one_sided_low, log_ndtr(above), log_ndtr(-below))
        )
        r1 = np.where(one_sided_high, 0.0, np.exp(-0.5 * above**2 - LOG_ROOT_2PI - log_d))
        r2 = np.where(one_sided_low, 0.0, np.exp(-0.5 * below**2 - LOG_ROOT_2PI - log_d))
        a, b = np.where(one_sided_high, 0.0, above), np.where(one_sided_low, 0.0, below)
        # Mean of t over the interval is (f(b) - f(a)) / D.
        p1 = np.maximum(r1 * (a - (r2 - r1)), 0.0)
        p2 = np.maximum(r2 * ((r2 - r1) - b), 0.0)
    return r1, -r2, p1, p2, r1 * r2
