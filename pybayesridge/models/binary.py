"""The Bayesian ridge for yes/no responses: takes data in, calls the numerics, hands results out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from pybayesridge._types import ArrayLike, FloatArray
from pybayesridge.binomial.coordinates import Coordinates, from_design
from pybayesridge.binomial.methods import DEFAULT, METHODS, NOT_HERE, BinaryOptions
from pybayesridge.binomial.prior import FlatIn, log_prior
from pybayesridge.binomial.separation import check_unpenalized
from pybayesridge.checks import positive, positive_int
from pybayesridge.findings import issue
from pybayesridge.models.binary_responses import BinaryResponses
from pybayesridge.models.ridge import BayesRidge
from pybayesridge.models.sources import RowData
from pybayesridge.recipes import Recipe, call_of
from pybayesridge.registry import Method, check_options, look_up
from pybayesridge.results.binary import BinaryRidgeResults
from pybayesridge.results.labelled import BinaryRidgeResultsWrapper
from pybayesridge.ridge.spectrum import rotate

FLAT_IN = ("latent", "link")
SOLVERS = ("ep", "laplace")

GRID = np.exp(np.linspace(-8.0, 8.0, 33))
"""Penalties that "loocv" tries by default, relative to that at which the prior share explained is 1/2."""


class BinaryRidge(BinaryResponses, BayesRidge, family="binomial"):
    r"""Bayesian ridge regression for yes/no responses, and for successes among trials.

    Made by :class:`~pybayesridge.BayesRidge` with ``family="binomial"``. The model, with Z the unpenalised columns
    (the intercept at least), X the others and F the logistic or the normal distribution function:

    .. math::

        y_i \sim \text{Binomial}(m_i, F(z_i' g + x_i' b)), \quad b \mid \tau^2 \sim N(0, \tau^2 I),

        \tau^2 \sum_j \lVert x_j \rVert^2 / n \sim c \cdot \text{beta-prime}(1/2, 1/2),

    the prior of b being on the standardised scale of X, and c the variance of the latent noise: :math:`\pi^2/3` for
    the logit and 1 for the probit link. The share of the latent variance that the columns explain is Beta(1/2, 1/2)
    a priori, whatever their number. The ridge penalty is :math:`\lambda = 1/\tau^2`.

    Parameters
    ----------
    endog : (n,) array-like
        0 and 1, booleans, or a factor with two levels: strings or a categorical. With `trials` the number of
        successes.
    exog, intercept, unpenalized, standardize, missing
        As for :class:`~pybayesridge.BayesRidge`.
    weights : (n,) array-like, optional
        Frequency weights: a row of weight 3 counts as three rows. Unlike precision weights of a Gaussian response
        their size matters, not only their ratios.
    prior : {"r2", "half-cauchy"}, (a, b) or (a, b, scale), default "r2"
        Prior of tau2, as for :class:`~pybayesridge.BayesRidge`; the scale of ``"r2"`` is c times as large.
    sigma2 : None
        Not used: binomial responses have no noise variance.
    family : "binomial"
    link : {"logit", "probit"}, default "logit"
        F is the logistic or the normal distribution function. Coefficients of the logit link are log odds ratios.
    event : level, optional
        The level whose probability is modelled. By default 1, True, or the second of two levels in their order.
    trials : str or (n,) array-like, optional
        Number of trials of each row; with a formula also the name of a column.
    flat_in : {"latent", "link"}, default "latent"
        Units in which the unpenalised coefficients have a flat prior; see the notes.

    Raises
    ------
    ValueError
        For data that cannot be a regression: the message names the column, row or argument. When fitted, also if the
        unpenalised columns separate the responses.

    Notes
    -----
    The unpenalised coefficients have a flat prior. If tau2 is unknown, the posterior depends on the units in which
    it is flat. With ``"latent"`` they are flat in units of the standard deviation of the latent response, to which
    both its noise and its explained part contribute: with t the ratio of tau2 to the scale of its prior, the joint
    prior has the factor :math:`(1 + t)^{-k/2}` for k unpenalised coefficients. Then the posterior is proper wherever
    that of the unpenalised coefficients alone is, also if the other columns predict every response, as they do in
    general position if there are as many columns as rows less one. With ``"link"`` they are flat on the scale of the
    link itself: there the posterior is improper under the default prior, and ``fit`` raises a ValueError that says
    so.

    Examples
    --------
    >>> import statsmodels.api as sm
    >>> from pybayesridge import BayesRidge
    >>> fair = sm.datasets.fair.load_pandas().data[::10]
    >>> fair = fair.assign(affair=fair["affairs"] > 0)
    >>> res = BayesRidge.from_formula("affair ~ age + yrs_married + rate_marriage", fair, family="binomial").fit()
    >>> res.odds_ratios().loc["rate_marriage"].round(2).to_dict()
    {'odds_ratio': 0.58, 'lower': 0.48, 'upper': 0.69, 'prob_above_1': 0.0}
    """

    methods: ClassVar[Mapping[str, Method]] = METHODS
    _max_targets: ClassVar[int | None] = 1

    def _take_family(self, family: Any, **given: Any) -> None:
        self._take_response(link=given["link"], event=given["event"], trials=given["trials"])
        flat_in: Any = given["flat_in"] or "latent"
        if flat_in not in FLAT_IN:
            raise ValueError(f"flat_in must be 'latent' or 'link', not {flat_in!r}")
        if given["sigma2"] is not None:
            raise ValueError("sigma2 requires family='gaussian': binomial responses have no noise variance")
        self.flat_in: FlatIn = flat_in
        self._space: Coordinates | None = None

    def fit(  # type: ignore[override]
        self,
        method: str = DEFAULT,
        *,
        tol: float = 1e-6,
        maxiter: int = 200,
        grid: ArrayLike | None = None,
        lam: float | None = None,
        solver: str = "ep",
        parameterization: str = "tau2",
        disp: bool = False,
    ) -> BinaryRidgeResultsWrapper:
        """Fit the model.

        Parameters
        ----------
        method : {"ep", "laplace", "em", "loocv", "fixed"}
            ``"ep"``: for each penalty the posterior of the coefficients by expectation propagation, the penalty
            integrated out over its evidence; intervals account for uncertainty in the penalty. ``"laplace"``: the
            same by Laplace's approximation, which is faster with many rows and less accurate with few. ``"em"``: the
            penalty at its posterior mode. ``"loocv"``: the penalty of `grid` with the best leave-one-out log score.
            ``"fixed"``: the penalty `lam`. With these three uncertainty is conditional on the penalty.
        tol : float
            Largest estimated error of the integral over the penalty; for ``"em"`` the accuracy of log lambda.
        maxiter : int
            Most sweeps over the rows (Newton steps) at one penalty.
        grid : (L,) array, for ``"loocv"``
            Penalties to try, on the scale of `lam`; 33 around that of the prior by default.
        lam : float, for ``"fixed"``
            The penalty 1/tau2 on the standardised scale: positive.
        solver : {"ep", "laplace"}, for ``"em"``, ``"loocv"`` and ``"fixed"``
            The approximation of the posterior of the coefficients.
        parameterization : {"tau2", "tau"}, for ``"em"``
            The mode is that of a density in tau2 or in tau.
        disp : bool
            Print what happened.

        Returns
        -------
        BinaryRidgeResultsWrapper

        Raises
        ------
        ValueError
            If the unpenalised columns separate the responses (the message names them), or the posterior is improper.

        Warns
        -----
        ConvergenceWarning
            If `maxiter` was reached.
        GridEdgeWarning
            If the best penalty lies on the edge of the grid.
        DegenerateFitWarning
            If there is nothing to shrink; for ``"em"`` also if there is no signal.
        """
        call = call_of("fit", BinaryRidge.fit, locals(), defaults={"method": None})
        if isinstance(method, str) and method in NOT_HERE:
            raise ValueError(NOT_HERE[method])
        entry = look_up(METHODS, method)
        if solver not in SOLVERS:
            raise ValueError(f"solver must be 'ep' or 'laplace', not {solver!r}")
        if parameterization not in ("tau2", "tau"):
            raise ValueError(f"parameterization must be 'tau2' or 'tau', not {parameterization!r}")
        given = {
            "lam": lam is not None,
            "grid": grid is not None,
            "solver": solver != "ep",
            "parameterization": parameterization != "tau2",
        }
        check_options(METHODS, entry, given)
        space = self._coordinates()
        unit = 2 * float(np.log(space.design.common_scale))
        options = BinaryOptions(
            solver=solver,  # type: ignore[arg-type]
            parameterization=parameterization,  # type: ignore[arg-type]
            log_t2=None if lam is None else unit - float(np.log(positive("lam", lam))),
            grid=unit - np.log(self._penalties(grid, space)) if entry.grid else None,
            tol=positive("tol", tol),
            maxiter=positive_int("maxiter", maxiter),
        )
        found = entry.fit(space, self.likelihood(), self.prior_of_tau2, self.flat_in, options)
        results = BinaryRidgeResults(
            self,
            found,
            method=method,
            solver=solver if method not in SOLVERS else method,
            parameterization=parameterization,
            tol=options.tol,
            maxiter=options.maxiter,
            recipe=Recipe(self.call, call),
        )
        issue(results.findings_on_validity, stacklevel=2)
        if disp:
            print(f"{method}: {found.n_iter} sweeps, converged: {found.converged}")
        return BinaryRidgeResultsWrapper(results)

    def _coordinates(self) -> Coordinates:
        """The rows in coordinates, made once for all fits of the model."""
        if self._space is None:
            design, products = self._build()
            assert isinstance(self.source, RowData)
            z = self.source.unpenalized(self._layout)
            check_unpenalized(z, self._layout.z_names, self.likelihood())
            self._space = from_design(design, rotate(design, products))
        return self._space

    def _penalties(self, grid: Any, space: Coordinates) -> FloatArray:
        """Penalties to try, on the scale of `lam`."""
        if grid is None:
            prior = log_prior(self.prior_of_tau2, space, self.link, self.flat_in)
            return GRID * space.design.common_scale**2 * np.exp(-prior.log_scale)
        try:
            out = np.asarray(grid, dtype=np.float64)
        except (TypeError, ValueError):
            raise ValueError(f"with family='binomial' grid must be an array of penalties, not {grid!r}") from None
        if out.ndim != 1 or out.size == 0 or not (np.isfinite(out) & (out > 0)).all():
            raise ValueError("grid must be a one-dimensional array of positive, finite penalties")
        return out

    def forget_rows(self, row_space: bool = True) -> None:
        """Drop every array over rows; see :meth:`LinearModel.forget_rows`."""
        super().forget_rows(row_space)
        self._space = None
