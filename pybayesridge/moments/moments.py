"""Sufficient statistics of a linear model, in place of the rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, TypeAlias

import numpy as np
from scipy.linalg import LinAlgError, cholesky, eigh, solve_triangular

from pybayesridge._types import ArrayLike, FloatArray, IntArray, Names, PathOrFile, TableLike
from pybayesridge.data.arrays import NamedColumns
from pybayesridge.data.prepare import prepare, resolve_columns
from pybayesridge.moments.files import ARRAYS, named, read_moments, write_moments
from pybayesridge.moments.rows import sums_of_rows
from pybayesridge.moments.summary import moments_of_summary
from pybayesridge.recipes import Call, call_of
from pybayesridge.text import listed, number, repeated

Columns: TypeAlias = "TableLike | NamedColumns"

ROUNDED = 1e-6
"""Moments that were printed with six decimals are off by so much, relative to the columns' sums of squares."""

NEGATIVE = 1e-9
"""A sum of squares below zero by this share of what a mean contributes is a rounding error."""


@dataclass(frozen=True, eq=False, repr=False)
class Moments:
    """Weighted means, and cross-products of the deviations from them, of columns and responses.

    They are additive over rows: the moments of two sets of rows merge into those of both, in any order, by the
    formula of Chan, Golub & LeVeque (1983), which subtracts no large numbers. A mean is stored as a point near it and
    the (accurate) remainder, so that columns lose no digits by a mean that is large relative to their standard
    deviation.

    Moments lose digits, since they are squares: directions in which the columns vary less than 3e-4 times as much as
    in the most variable direction (after standardisation) are known to fewer than 8 digits. A fit that depends on
    such directions warns (:class:`~pybayesridge.PrecisionWarning`); a fit from rows keeps the digits.

    They are made by :meth:`from_arrays`, :meth:`from_batches` or :meth:`from_summary`.

    Parameters
    ----------
    n : int
        Number of rows.
    weight_sum : float
        Sum of their weights; n without weights.
    log_weight_sum : float
        Sum of the logarithms of the weights, which the evidence needs; 0 without weights.
    x_origin, x_offset : (m,) arrays
        Weighted means of the columns are ``x_origin + x_offset``.
    y_origin, y_offset : (q,) arrays
        Likewise of the responses.
    xx : (m, m) array
        Weighted sums of products of the deviations of the columns from their means.
    xy : (m, q) array
        Of columns and responses.
    yy : (q,) array
        Of each response with itself.
    columns : tuple of str
        Names of the m columns.
    targets : tuple of str
        Names of the q responses.
    n_dropped : int
        Rows left out because something in them was missing.
    call : Call, optional
        The call that made them, where one did.

    Raises
    ------
    ValueError
        If shapes do not fit together, or something is not finite, not symmetric, or a negative sum of squares.
    """

    n: int
    weight_sum: float
    log_weight_sum: float
    x_origin: FloatArray
    x_offset: FloatArray
    y_origin: FloatArray
    y_offset: FloatArray
    xx: FloatArray
    xy: FloatArray
    yy: FloatArray
    columns: tuple[str, ...]
    targets: tuple[str, ...]
    n_dropped: int = 0
    call: Call | None = None

    def __post_init__(self) -> None:
        """Check shapes and values, and let nobody write into the arrays."""
        m, q = len(self.columns), len(self.targets)
        shapes = ((m,), (m,), (q,), (q,), (m, m), (m, q), (q,))
        for name, shape in zip(ARRAYS, shapes, strict=True):
            array = np.asarray(getattr(self, name), dtype=np.float64)
            if array.shape != shape:
                raise ValueError(f"{name} must have shape {shape} for {m} columns and {q} targets, got {array.shape}")
            if not np.isfinite(array).all():
                raise ValueError(f"{name} is not finite: the columns or weights are too large, rescale them")
            array = array.view()
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        if not (self.n >= 1 and np.isfinite(self.weight_sum) and self.weight_sum > 0):
            raise ValueError(f"n and weight_sum must be positive, not {self.n!r} and {self.weight_sum!r}")
        for what, names in (("column", self.columns), ("target", self.targets)):
            twice = repeated(names)
            if twice:
                raise ValueError(f"duplicate {what} name(s) {listed(twice)}")
        _check_entries(self)

    def __repr__(self) -> str:
        """Sizes, not arrays."""
        return f"Moments({self.n} rows, {len(self.columns)} columns, target(s) {listed(self.targets)})"

    @property
    def x_mean(self) -> FloatArray:
        """Weighted means of the columns, (m,)."""
        return self.x_origin + self.x_offset

    @property
    def variation(self) -> FloatArray:
        """Weighted sums of squares of the columns about their means, (m,)."""
        return np.diag(self.xx)

    @property
    def y_mean(self) -> FloatArray:
        """Weighted means of the responses, (q,)."""
        return self.y_origin + self.y_offset

    @classmethod
    def from_arrays(
        cls, endog: TableLike, exog: Columns, *, weights: ArrayLike | None = None, missing: str = "raise"
    ) -> Self:
        """Compute moments of rows in memory.

        Parameters
        ----------
        endog : (n,) or (n, q) array-like
            The response, or several.
        exog : (n, m) array-like
            The columns, unpenalised ones among them, without an intercept: NumPy, pandas, polars or scipy.sparse.
        weights : (n,) array-like, optional
            Precision weights; a set of rows without weights counts 1 each when it is merged with others.
        missing : {"raise", "drop"}
            Treatment of rows with missing values.

        Raises
        ------
        ValueError
            For bad data, naming the column or row.
        """
        call = call_of("Moments.from_arrays", Moments.from_arrays, locals())
        data = prepare(
            endog, exog, intercept=False, weights=weights, unpenalized=None, missing=missing, max_targets=None
        )
        return cls(**sums_of_rows(data), n_dropped=data.n_dropped, call=call)

    @classmethod
    def from_batches(cls, batches: Iterable[Sequence[Any]], *, missing: str = "raise") -> Self:
        """Compute moments of rows in batches, of which one at a time is in memory.

        Parameters
        ----------
        batches : iterable of (endog, exog) or (endog, exog, weights)
            As for :meth:`from_arrays`; names of columns must agree from batch to batch.
        missing : {"raise", "drop"}
            Treatment of rows with missing values.

        Raises
        ------
        ValueError
            For bad data, no batches, or batches whose columns differ.
        """
        call = call_of("Moments.from_batches", Moments.from_batches, locals())
        total: Self | None = None
        for i, batch in enumerate(batches):
            if not isinstance(batch, tuple | list) or len(batch) not in (2, 3):
                raise ValueError(
                    f"batch {i} must be (endog, exog) or (endog, exog, weights), not {type(batch).__name__}"
                )
            try:
                part = cls.from_arrays(
                    batch[0], batch[1], weights=batch[2] if len(batch) == 3 else None, missing=missing
                )
                total = part if total is None else total.merge(part)
            except ValueError as error:
                raise ValueError(f"batch {i}: {error}") from error
        if total is None:
            raise ValueError("there are no batches: nothing can be fitted")
        return replace(total, call=call)

    @classmethod
    def from_summary(
        cls,
        correlation: TableLike,
        z: ArrayLike | None = None,
        *,
        n: int,
        estimates: ArrayLike | None = None,
        se: ArrayLike | None = None,
        var_y: float | None = None,
        names: Sequence[str] | None = None,
        target: str = "y",
        shrink: float = 0.0,
    ) -> Self:
        """Compute moments from summary statistics: correlations of the columns and marginal regressions.

        The marginal regressions are ordinary least squares with an intercept. Then these are exactly the moments
        of the rows, up to the units of columns and response and to their means, which count as 0.

        Parameters
        ----------
        correlation : (p, p) array or frame
            Correlation matrix R of the columns, of the same rows as the estimates (with R of other rows, a
            reference panel, the answer is that of a model in which the two disagree).
        z : (p,) array, optional
            Estimates over standard errors. Either these, or `estimates` and `se`.
        n : int
            Number of rows. Covariates that were projected out of the response and the columns cost one row each.
        estimates, se : (p,) arrays, optional
            Slope of each marginal regression and its standard error.
        var_y : float, optional
            Variance (1/(n-1)) of the response. With `estimates` and `se` it puts everything on the user's scale;
            without it columns and response have variance 1.
        names : sequence of str, optional
            Names of the columns; those of `correlation` where it is a frame.
        target : str
            Name of the response.
        shrink : float in [0, 1]
            Use ``(1 - shrink) R + shrink I``: a remedy for an R of other rows, not for errors in the data.

        Raises
        ------
        ValueError
            If R is no correlation matrix (symmetric, unit diagonal, no negative eigenvalue), or the z scores cannot
            belong to it: together the columns would explain more than the variance of y.

        Warns
        -----
        InconsistentSummaryWarning
            Where a z score is far from what the others say and its opposite is not: swapped alleles, as a rule.

        References
        ----------
        Zou, Carbonetto, Wang & Stephens (2022). Fine-mapping from summary data with the "Sum of Single Effects"
        model. PLOS Genetics 18(7): for the sufficient statistics.
        """
        call = call_of("Moments.from_summary", Moments.from_summary, locals())
        parts = moments_of_summary(
            correlation, z, n=n, estimates=estimates, se=se, var_y=var_y, names=names, shrink=shrink
        )
        m = len(parts.names)
        return cls(
            n=int(n),
            weight_sum=float(n),
            log_weight_sum=0.0,
            x_origin=np.zeros(m),
            x_offset=np.zeros(m),
            y_origin=np.zeros(1),
            y_offset=np.zeros(1),
            xx=parts.xx,
            xy=parts.xy[:, None],
            yy=np.array([parts.yy]),
            columns=tuple(parts.names),
            targets=(str(target),),
            call=call,
        )

    def update(
        self, endog: TableLike, exog: Columns, *, weights: ArrayLike | None = None, missing: str = "raise"
    ) -> Self:
        """Add rows.

        Parameters
        ----------
        endog, exog, weights, missing
            As for :meth:`from_arrays`.

        Returns
        -------
        Moments
        """
        return self.merge(type(self).from_arrays(endog, exog, weights=weights, missing=missing))

    def merge(self, other: Moments) -> Self:
        """Merge with the moments of other rows.

        Parameters
        ----------
        other : Moments
            Of other rows of the same columns and targets.

        Returns
        -------
        Moments

        Raises
        ------
        ValueError
            If the names of columns or targets differ.
        """
        return replace(self, call=None, **_sums_of_both(self, other))

    def subset(self, columns: Names | None = None, targets: Names | None = None) -> Self:
        """Select columns or targets, in the order of these moments.

        Parameters
        ----------
        columns, targets : names or positions, optional
            Those to keep; all by default.

        Returns
        -------
        Moments

        Raises
        ------
        ValueError
            For a name that is not there.
        """
        x, y = _positions(columns, self.columns, "columns"), _positions(targets, self.targets, "targets")
        return replace(
            self,
            x_origin=self.x_origin[x],
            x_offset=self.x_offset[x],
            y_origin=self.y_origin[y],
            y_offset=self.y_offset[y],
            xx=self.xx[np.ix_(x, x)],
            xy=self.xy[np.ix_(x, y)],
            yy=self.yy[y],
            columns=tuple(self.columns[j] for j in x),
            targets=tuple(self.targets[j] for j in y),
            call=None,
        )

    def with_dropped(self, n_dropped: int) -> Self:
        """These moments with another count of rows that were left out.

        Parameters
        ----------
        n_dropped : int

        Returns
        -------
        Moments
        """
        return replace(self, n_dropped=int(n_dropped), call=None)

    def save(self, file: PathOrFile) -> None:
        """Write the moments to a file in NumPy's format ``.npz``, with exactly the given name.

        An old file is replaced only once the new one is complete.

        Parameters
        ----------
        file : str, os.PathLike or binary file

        Raises
        ------
        OSError
            If the file cannot be written; what was there before is still there.
        """
        write_moments(vars(self), file)

    @classmethod
    def load(cls, file: PathOrFile) -> Self:
        """Read moments written by :meth:`save`, without executing code from the file.

        Parameters
        ----------
        file : str, os.PathLike or binary file

        Returns
        -------
        Moments

        Raises
        ------
        ValueError
            If the file holds something else, is damaged, or was written by a later version.
        OSError
            If it cannot be read.
        """
        call = call_of("Moments.load", Moments.load, locals())
        fields = read_moments(file)
        try:
            return cls(**fields, call=call)
        except ValueError as error:
            raise ValueError(f"{named(file)} contains invalid moments: {error}") from error


def _check_entries(moments: Moments) -> None:
    """Refuse counts and sums that no rows have, at the cost of looking at each entry.

    Raises
    ------
    ValueError
        Naming the field and the column.
    """
    if isinstance(moments.n, bool) or int(moments.n) != moments.n:
        raise ValueError(f"n must be a whole number of rows, not {moments.n!r}")
    if not np.isfinite(moments.log_weight_sum):
        raise ValueError(f"log_weight_sum must be finite, not {moments.log_weight_sum!r}")
    sums: list[tuple[str, str, FloatArray, FloatArray, tuple[str, ...]]] = [
        ("xx", "column", np.diag(moments.xx), moments.x_mean, moments.columns),
        ("yy", "target", moments.yy, moments.y_mean, moments.targets),
    ]
    for field, what, squares, mean, names in sums:
        with np.errstate(over="ignore"):
            bad = squares < -NEGATIVE * moments.weight_sum * mean**2
        if bad.any():
            raise ValueError(
                f"{field} has a negative sum of squares for {what}(s) {listed(np.array(names)[bad].tolist())}: a "
                "variance cannot be negative"
            )
    size = _sizes(np.diag(moments.xx))
    gap = np.abs(moments.xx - moments.xx.T) / size / size[:, None]
    if gap.max(initial=0.0) > ROUNDED:
        i, j = np.unravel_index(int(gap.argmax()), gap.shape)
        raise ValueError(
            f"xx is not symmetric: of {moments.columns[i]!r} and {moments.columns[j]!r} it has "
            f"{moments.xx[i, j]:.6g} and {moments.xx[j, i]:.6g}"
        )


def check_definite(moments: Moments) -> None:
    """Refuse cross-products by which a combination of columns has a negative variance, or explains more than all.

    Raises
    ------
    ValueError
        Naming columns or the target.
    """
    names = np.array(moments.columns, dtype=object)
    size, unit = _sizes(np.diag(moments.xx)), _sizes(moments.yy)
    r = moments.xx / size / size[:, None]
    marginal = moments.xy / size[:, None] / unit
    try:
        root = cholesky(r + ROUNDED * np.eye(len(r)), lower=True, check_finite=False)
    except LinAlgError:
        values, vectors = eigh(r, check_finite=False)
        worst = np.argsort(-np.abs(vectors[:, 0]))[:3]
        raise ValueError(
            f"xx is not that of any rows: a combination of columns has a negative variance (eigenvalue "
            f"{number(values[0], 3)} of their correlations), most of all of {listed(names[worst].tolist())}; compute "
            "all entries from the same rows"
        ) from None
    half = solve_triangular(root, marginal, lower=True, check_finite=False)
    share = (half**2).sum(axis=0)
    if share.max(initial=0.0) > 1 + ROUNDED:
        at = int(share.argmax())
        percent = number(100 * share[at])
        raise ValueError(
            f"xx, xy and yy are not those of any rows: together the columns would explain {percent} % of "
            f"the variation of {moments.targets[at]!r}; compute all of them from the same rows"
        )


def _sizes(squares: FloatArray) -> FloatArray:
    """Roots of sums of squares, 1 for those that are not positive."""
    out: FloatArray = np.sqrt(np.where(squares > 0, squares, 1.0))
    return out


def _positions(wanted: Names | None, names: Sequence[str], what: str) -> IntArray:
    if wanted is None:
        return np.arange(len(names))
    return resolve_columns(wanted, names, what=what, of="the moments")


def as_moments(moments: Moments) -> Moments:
    """The moments, or a ValueError that says what was given instead."""
    if not isinstance(moments, Moments):
        raise ValueError(f"moments must be pybayesridge.Moments, not {type(moments).__name__}")
    return moments


def _sums_of_both(first: Moments, second: Moments) -> dict[str, Any]:
    """The statistics of two sets of rows together, by name of attribute.

    Raises
    ------
    ValueError
        If the names of columns or targets differ.
    """
    for what in ("columns", "targets"):
        mine, theirs = getattr(first, what), getattr(second, what)
        if mine != theirs:
            odd = sorted(set(mine) ^ set(theirs))
            told = f"{listed(odd)} are in only one of them" if odd else "their order is not the same"
            raise ValueError(f"the {what} of the moments to merge differ: {told}")
    total = first.weight_sum + second.weight_sum
    share = second.weight_sum / total
    dx = (second.x_origin - first.x_origin) + (second.x_offset - first.x_offset)
    dy = (second.y_origin - first.y_origin) + (second.y_offset - first.y_offset)
    between = first.weight_sum * share
    xx = first.xx + second.xx
    xx += np.outer(between * dx, dx)
    return {
        "n": first.n + second.n,
        "weight_sum": total,
        "log_weight_sum": first.log_weight_sum + second.log_weight_sum,
        "x_offset": first.x_offset + share * dx,
        "y_offset": first.y_offset + share * dy,
        "xx": xx,
        "xy": first.xy + second.xy + np.outer(between * dx, dy),
        "yy": first.yy + second.yy + between * dy**2,
        "n_dropped": first.n_dropped + second.n_dropped,
    }
