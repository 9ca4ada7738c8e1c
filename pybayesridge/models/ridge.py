"""The Bayesian ridge: takes data in, calls the numerics, hands results out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, Unpack, overload

import numpy as np

from pybayesridge._types import ArrayLike, FloatArray, Names, RowsLike, TableLike
from pybayesridge.checks import positive
from pybayesridge.data.frames import unmasked
from pybayesridge.design.design import Design
from pybayesridge.findings import issue
from pybayesridge.formula.spec import FormulaData
from pybayesridge.models.base import LinearModel
from pybayesridge.models.columns import ColumnModel
from pybayesridge.models.options import ModelArguments, ModelOptions
from pybayesridge.moments.moments import Moments
from pybayesridge.recipes import Recipe, call_of
from pybayesridge.registry import Method, check_options, check_rows, look_up
from pybayesridge.results.labelled import BayesRidgeResultsWrapper
from pybayesridge.results.ridge import BayesRidgeResults
from pybayesridge.ridge.fit import FitOptions
from pybayesridge.ridge.likelihood import GaussianNoise
from pybayesridge.ridge.loocv import FullLeverageError
from pybayesridge.ridge.many import fit_targets
from pybayesridge.ridge.methods import DEFAULT, METHODS
from pybayesridge.ridge.prior import NAMED, BetaPrime
from pybayesridge.ridge.spectrum import Spectrum, rotate

if TYPE_CHECKING:
    from pybayesridge.models.binary import BinaryRidge


class BayesRidge(ColumnModel, LinearModel):
    r"""Bayesian ridge regression with the penalty estimated from its posterior.

    The model, with Z the unpenalised columns (the intercept at least) under a flat prior and X the others:

    .. math::

        y \mid g, b, \sigma^2 \sim N(Z g + X b, \sigma^2 W^{-1}), \quad
        b \mid \tau^2, \sigma^2 \sim N(0, \tau^2 \sigma^2 I),

        p(\sigma^2) \propto 1/\sigma^2, \quad
        \tau^2 \sum_j \lVert x_j \rVert^2 / n \sim \text{beta-prime}(1/2, 1/2),

    the prior of b being on the standardised scale of X: the share of variance that the columns explain is Beta(1/2,
    1/2) a priori, whatever their number. The ridge penalty is :math:`\lambda = 1/\tau^2`.

    Parameters
    ----------
    endog : (n,) or (n, q) array-like
        The response, or several.
    exog : (n, p) array-like
        The columns; NumPy, pandas, polars, pyarrow or anything like an array, of any real dtype.
    intercept : bool or "add", default True
        Whether there is an unpenalised intercept. A constant column of `exog` serves as it, so that there is
        never a second one; with ``"add"`` one is added whatever there is, and constant columns get coefficient 0.
    weights : (n,) array-like, optional
        Precision weights, as in statsmodels' WLS. Only their ratios matter.
    unpenalized : names or positions, optional
        Columns (with a formula also terms) with a flat prior: never shrunk.
    standardize : bool, default True
        The prior is on the scale of each column's (weighted, 1/n) standard deviation; the user's own scale
        otherwise. Results are always on the user's scale.
    prior : {"r2", "half-cauchy"}, (a, b) or (a, b, scale), default "r2"
        Prior of tau2: ``tau2 / scale`` is beta-prime(a, b), with density proportional to ``t^(a-1) (1+t)^(-a-b)``.
        ``"r2"`` is (1/2, 1/2) with the scale ``1 / (sum_j |x_j|^2 / n)``, x_j the penalised columns on the scale of
        the prior, weighted and with the unpenalised ones projected out; on standardised columns without unpenalised
        ones but the intercept the scale is 1/p. ``"half-cauchy"`` is the paper's, (1/2, 1/2, 1): tau is half-Cauchy
        with scale 1. With it the prior share of explained variance tends to 1 as columns are added. A scale that is
        not given is 1.
    sigma2 : float, optional
        The noise variance where it is known.
    family : {"gaussian", "binomial"}
        The distribution of the responses. With ``"binomial"`` the model and the arguments `link`, `event`, `trials`
        and `flat_in` are those of :class:`~pybayesridge.models.binary.BinaryRidge`.
    link, event, trials, flat_in
        With ``family="binomial"`` only.
    missing : {"raise", "drop"}
        Treatment of rows with missing values.

    Raises
    ------
    ValueError
        For data that cannot be a regression; the message names the column, row or argument.

    References
    ----------
    Tew, Boley & Schmidt (2023). Bayes beats Cross Validation: Fast and Accurate Ridge Regression via Expectation
    Maximization. NeurIPS.

    Examples
    --------
    >>> import statsmodels.api as sm
    >>> from pybayesridge import BayesRidge
    >>> longley = sm.datasets.longley.load_pandas().data
    >>> res = BayesRidge.from_formula("TOTEMP ~ GNP + UNEMP + ARMED", longley).fit()
    >>> res.params.round(2).to_dict()
    {'Intercept': 53240.65, 'GNP': 0.04, 'UNEMP': -0.74, 'ARMED': -0.42}
    """

    methods: ClassVar[Mapping[str, Method]] = METHODS
    _max_targets: ClassVar[int | None] = None

    if TYPE_CHECKING:

        @overload
        @classmethod
        def from_formula(
            cls,
            formula: str,
            data: RowsLike,
            *,
            family: Literal["binomial"],
            subset: ArrayLike | None = None,
            drop_cols: Sequence[str] | None = None,
            missing: str = "drop",
            weights: str | ArrayLike | None = None,
            **kwargs: Unpack[ModelArguments],
        ) -> BinaryRidge: ...

        @overload
        @classmethod
        def from_formula(
            cls,
            formula: str,
            data: RowsLike,
            *,
            subset: ArrayLike | None = None,
            drop_cols: Sequence[str] | None = None,
            missing: str = "drop",
            weights: str | ArrayLike | None = None,
            **kwargs: Unpack[ModelOptions],
        ) -> Self: ...

        @classmethod
        def from_formula(cls, formula: str, data: RowsLike, **kwargs: Any) -> Any:
            """See :meth:`LinearModel.from_formula`."""

    @overload
    def __init__(  # type: ignore[misc]  # __new__ makes the object of the subclass
        self: BinaryRidge,
        endog: TableLike,
        exog: TableLike,
        *,
        family: Literal["binomial"],
        intercept: bool | str = True,
        weights: ArrayLike | None = None,
        unpenalized: Names | None = None,
        standardize: bool = True,
        prior: str | tuple[float, ...] = "r2",
        link: str | None = None,
        event: Any = None,
        trials: ArrayLike | None = None,
        flat_in: str | None = None,
        missing: str = "raise",
        formula_data: FormulaData | None = None,
    ) -> None: ...

    @overload
    def __init__(
        self,
        endog: TableLike | None,
        exog: TableLike | Moments,
        *,
        family: str = "gaussian",
        intercept: bool | str = True,
        weights: ArrayLike | None = None,
        unpenalized: Names | None = None,
        standardize: bool = True,
        prior: str | tuple[float, ...] = "r2",
        sigma2: float | None = None,
        link: str | None = None,
        event: Any = None,
        trials: ArrayLike | None = None,
        flat_in: str | None = None,
        missing: str = "raise",
        formula_data: FormulaData | None = None,
    ) -> None: ...

    def __init__(
        self,
        endog: TableLike | None,
        exog: TableLike | Moments,
        *,
        intercept: bool | str = True,
        weights: ArrayLike | None = None,
        unpenalized: Names | None = None,
        standardize: bool = True,
        prior: str | tuple[float, ...] = "r2",
        sigma2: float | None = None,
        family: str = "gaussian",
        link: str | None = None,
        event: object = None,
        trials: ArrayLike | None = None,
        flat_in: str | None = None,
        missing: str = "raise",
        formula_data: FormulaData | None = None,
    ) -> None:
        self.call = call_of("BayesRidge", BayesRidge.__init__, locals())
        self._take_family(family, link=link, event=event, trials=trials, flat_in=flat_in, sigma2=sigma2)
        self.prior_of_tau2 = _as_prior(prior)
        self.prior = prior if isinstance(prior, str) else tuple(float(value) for value in prior)
        self.known_sigma2 = None if sigma2 is None else positive("sigma2", sigma2)
        super().__init__(
            self._coded(endog),
            exog,
            intercept=intercept,
            weights=weights,
            unpenalized=unpenalized,
            standardize=standardize,
            missing=missing,
            formula_data=formula_data,
            trials=trials,
        )
        self._spectrum: Spectrum | None = None

    def fit(
        self,
        method: str = DEFAULT,
        *,
        tol: float = 1e-8,
        maxiter: int = 10_000,
        grid: str | ArrayLike | None = None,
        lam: ArrayLike | None = None,
        dof: str = "nu",
        parameterization: str = "tau2",
        accelerate: bool = True,
        disp: bool = False,
    ) -> BayesRidgeResultsWrapper:
        """Fit the model.

        Parameters
        ----------
        method : {"exact", "em", "loocv", "gcv", "fixed"}
            ``"exact"``: the penalty integrated out, the exact marginal posterior; its intervals account for
            uncertainty in the penalty. ``"em"``: the penalty at the posterior mode, uncertainty conditional on it,
            which makes intervals too narrow. ``"loocv"``, ``"gcv"``: the penalty of `grid` that minimises
            leave-one-out or generalised cross-validation; ``"fixed"``: the penalty `lam`. With these three
            uncertainty is conditional on the penalty, the noise variance integrated out.
        tol : float
            Accuracy of log lambda (for ``"exact"`` of the quadrature) at which iterations stop; it depends on no
            scale.
        maxiter : int
            Most iterations.
        grid : {"fixed", "glmnet"} or array, for ``"loocv"`` and ``"gcv"``
            Penalties to try: ``"fixed"`` (the default) is 1e10 … 1e-10, ``"glmnet"`` the ones glmnet would, 100
            each; an array's are on the scale of `lam`.
        lam : float or (q,) array, for ``"fixed"``
            The penalty of ``||y - Xb||^2 + lam ||b||^2`` on the standardised scale. The coefficients for 0 are
            those of least squares; the intervals are the limit of those for small penalties, with n - rank(Z)
            degrees of freedom and not n - rank(Z) - p.
        dof : {"nu", "paper"}
            Count the data as ``n - rank(Z)``, which is right, or as n, as the paper does.
        parameterization : {"tau2", "tau"}, for ``"em"``
            The mode is that of a density in tau2 (the paper's equation 11) or in tau.
        accelerate : bool, for ``"em"``
            Find EM's fixed point by one-dimensional root finding; False runs the paper's iteration itself. The
            answers are the same.
        disp : bool
            Print what happened.

        Returns
        -------
        BayesRidgeResultsWrapper

        Warns
        -----
        ConvergenceWarning
            If `maxiter` was reached.
        GridEdgeWarning
            If the best penalty lies on the edge of the grid.
        DegenerateFitWarning
            If there is nothing to shrink or no noise; for ``"em"`` also if there is no signal (no interior mode:
            every coefficient is shrunk to zero).

        Examples
        --------
        >>> import statsmodels.api as sm
        >>> from pybayesridge import BayesRidge
        >>> longley = sm.datasets.longley.load_pandas().data
        >>> model = BayesRidge.from_formula("TOTEMP ~ GNP + UNEMP + ARMED", longley)
        >>> for method in ("exact", "em", "loocv"):
        ...     print(f"{method}: {model.fit(method).lambda_:.4f}")
        exact: 0.0541
        em: 0.0971
        loocv: 0.0774
        """
        call = call_of("fit", BayesRidge.fit, locals(), defaults={"method": None})
        entry = look_up(METHODS, method)
        if dof not in ("nu", "paper"):
            raise ValueError(f"dof must be 'nu' or 'paper', not {dof!r}")
        if parameterization not in ("tau2", "tau"):
            raise ValueError(f"parameterization must be 'tau2' or 'tau', not {parameterization!r}")
        positive("tol", tol)
        if isinstance(maxiter, bool) or not isinstance(maxiter, int | np.integer) or maxiter < 1:
            raise ValueError(f"maxiter must be a positive integer, not {maxiter!r}")
        given = {
            "lam": lam is not None,
            "parameterization": parameterization != "tau2",
            "accelerate": not accelerate,
            "grid": grid is not None,
        }
        check_options(METHODS, entry, given)
        check_rows(entry, has_rows=not self.source.from_moments)
        options = FitOptions(
            tol=float(tol),
            maxiter=int(maxiter),
            grid=grid,
            lam=None if lam is None else _penalties(lam, len(self.data.targets)),
            parameterization=parameterization,  # type: ignore[arg-type]
            accelerate=bool(accelerate),
        )
        noise = GaussianNoise(self.known_sigma2, dof)  # type: ignore[arg-type]
        design, spectrum = self._rotation()
        try:
            fit = fit_targets(entry.fit, design, spectrum, self.prior_of_tau2, noise, options)
        except FullLeverageError as error:
            raise FullLeverageError(self.data.row_labels.tolist()[error.row]) from None
        self._spectrum = fit.spectrum
        results = BayesRidgeResults(
            self,
            design,
            fit,
            method=method,
            dof=dof,
            parameterization=parameterization,
            tol=float(tol),
            maxiter=int(maxiter),
            recipe=Recipe(self.call, call),
        )
        issue(results.findings_on_validity, stacklevel=2)
        if disp:
            print(f"{method}: {fit.n_iter} iterations, converged: {bool(fit.converged.all())}")
        return BayesRidgeResultsWrapper(results)

    def _rotation(self) -> tuple[Design, Spectrum]:
        """The design and its rotation, made once for all fits of the model."""
        if self._built is None or self._spectrum is None:
            design, products = self._build()
            self._spectrum = rotate(design, products)
        assert self._built is not None
        return self._built, self._spectrum

    def forget_rows(self, row_space: bool = True) -> None:
        """Drop every array over rows; see :meth:`LinearModel.forget_rows`."""
        super().forget_rows(row_space)
        if self._built is None:
            self._spectrum = None


def _as_prior(prior: Any) -> BetaPrime:
    """The prior of tau2 that the argument `prior` names, or a ValueError."""
    if isinstance(prior, str) and prior in NAMED:
        return NAMED[prior]
    numbers = prior.tolist() if isinstance(prior, np.ndarray) else prior
    known = isinstance(numbers, list | tuple) and len(numbers) in (2, 3)
    if not known or not all(_is_number(value) for value in numbers):
        names = ", ".join(map(repr, NAMED))
        raise ValueError(f"prior must be {names}, (a, b) or (a, b, scale) with positive numbers, not {prior!r}")
    return BetaPrime(*(positive(f"prior[{i}]", value) for i, value in enumerate(numbers)))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def _penalties(lam: ArrayLike, q: int) -> FloatArray:
    try:
        if np.asarray(lam).dtype.kind not in "fiuO":
            raise TypeError
        out = np.broadcast_to(np.asarray(unmasked(lam), dtype=np.float64), (q,)).copy()
    except (TypeError, ValueError):
        raise ValueError(f"lam must be a number, or one for each of {q} targets, not {lam!r}") from None
    if not (np.isfinite(out) & (out >= 0)).all():
        raise ValueError(f"lam must be finite and not negative, not {lam!r}")
    return out
