"""The Bayesian ridge: takes data in, calls the numerics, hands results out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy import sparse

from pybayesridge._types import ArrayLike, BandsLike, FamilyLike, Names, TableLike
from pybayesridge.checks import positive
from pybayesridge.data.bands import resolve_bands
from pybayesridge.families.registry import arguments_of, named
from pybayesridge.formula.late import build as formulas
from pybayesridge.models.before_fit import BeforeFit
from pybayesridge.models.columns import ColumnModel
from pybayesridge.models.methods import Lane, lanes_of
from pybayesridge.models.priors import RidgeModel
from pybayesridge.models.sources import BlockData, MomentData, RowData
from pybayesridge.moments.moments import Moments
from pybayesridge.recipes import call_of
from pybayesridge.ridge.prior import NAMED, BetaPrime
from pybayesridge.text import either, listed

if TYPE_CHECKING:
    from pybayesridge.formula.bands import Band
    from pybayesridge.formula.spec import FormulaData
    from pybayesridge.results.returned import RidgeResults


FIXED = "fixed"
"""In `unpenalized`, all terms of a formula without a variance of their own."""


class BayesRidge(BeforeFit, ColumnModel, RidgeModel):
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
        Columns (with a formula also terms) with a flat prior: never shrunk. Beside terms of a formula that have a
        variance of their own, such as ``(1 | g)`` and ``s(x)``, ``"fixed"`` stands for all others.
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
    bands : dict of columns by name, or sequence of labels, optional
        Columns that have a penalty of their own: ``{"genes": [...], "clinic": [...]}`` with
        names or positions (with a formula also terms), or a label for each column of `exog`. Penalised columns that
        are in no band of a dict are one more, with the name "other" ("other columns" beside a band "other"). See the
        notes.
    sigma2 : float, optional
        The noise variance where it is known.
    family : str or family object of statsmodels
        "gaussian" (default), "binomial", "poisson", "negative-binomial", "ordinal", "beta-binomial" or "student-t".
        The distribution of the responses. ``"binomial"``: yes/no responses, and successes among trials;
        ``"poisson"``: counts; ``"negative-binomial"``: counts that vary more than Poisson counts; ``"ordinal"``:
        ordered categories; ``"beta-binomial"``: successes among trials that vary more than binomial counts;
        ``"student-t"``: numbers with outliers; see the notes. An object such as
        ``sm.families.Binomial(link=sm.families.links.Probit())``
        also gives the link, and ``sm.families.NegativeBinomial(alpha=0.5)`` the dispersion.
    link : {"logit", "probit"}, for ``family="binomial"`` and ``"ordinal"``
        F of the notes is the logistic (default) or the normal distribution function. Coefficients of the logit link
        are log odds ratios. Counts have the link "log" alone.
    event : level, for ``family="binomial"``
        The level whose probability is modelled. By default 1, True, or the second of two levels in their order.
    categories : sequence, for ``family="ordinal"``
        The categories from the lowest to the highest: needed where `endog` is text or a factor without order.
    trials : str or (n,) array-like, for ``family="binomial"`` and ``"beta-binomial"``
        Number of trials of each row, `endog` being the number of successes; with a formula also the name of a column.
    exposure : str or (n,) array-like, for counts
        Exposure of each row, such as person-years, in proportion to which events are expected: positive. With a
        formula also the name of a column. Its log is an offset of the linear predictor.
    dispersion : float, for ``family="negative-binomial"`` and ``"beta-binomial"``
        alpha of the notes, from 1e-8 to 1000, where it is known; by default it is integrated out.
    df : float, for ``family="student-t"``
        Degrees of freedom of the noise, above 1; inf for normal noise. By default they are averaged over.
    flat_in : {"latent", "link"}, for yes/no responses and counts
        Units in which the unpenalised coefficients have a flat prior, ``"latent"`` by default; see the notes.
    missing : {"raise", "drop"}
        Treatment of rows with missing values.

    Raises
    ------
    ValueError
        For data that cannot be a regression; the message names the column, row or argument.

    Notes
    -----
    With `bands` the coefficients of band k are :math:`N(0, \tau_k^2 \sigma^2)`. With :math:`w_k = \tau_k^2 \sum_j
    \lVert x_j \rVert^2 / n` over its columns, the total :math:`w = \sum_k w_k` has the prior that `prior` gives to a
    single penalty, and the shares :math:`w_k / w` are Dirichlet(1/2, …, 1/2), so that a priori the explained share of
    all bands together is Beta(1/2, 1/2). ``fit("exact")`` integrates over the penalties of up to eight bands
    (of more than three by weighted points, with errors of some 0.01 posterior standard deviations); ``"em"`` takes
    their mode, ``"reml"`` the estimates of restricted maximum likelihood, as mixed models do.

    With ``family="binomial"`` `endog` is 0 and 1, booleans, or a factor with two levels (strings or a categorical);
    with `trials` the number of successes. F being the logistic or the normal distribution function, the model is

    .. math::

        y_i \sim \text{Binomial}(m_i, F(z_i' g + x_i' b)), \quad b \mid \tau^2 \sim N(0, \tau^2 I),

        \tau^2 \sum_j \lVert x_j \rVert^2 / n \sim c \cdot \text{beta-prime}(1/2, 1/2),

    with c the variance of the latent noise: :math:`\pi^2/3` for the logit and 1 for the probit link. The share of the
    latent variance that the columns explain is Beta(1/2, 1/2) a priori, whatever their number; the scale of the prior
    ``"r2"`` is c times as large as for Gaussian responses. `weights` are then frequency weights: a row of weight 3
    counts as three rows, so that their size matters, not only their ratios. There is no noise variance, and one
    response only.

    With ``family="poisson"`` `endog` are counts, and with e the exposures the model is

    .. math::

        y_i \sim \text{Poisson}(e_i \exp(z_i' g + x_i' b)), \quad b \mid \tau^2 \sim N(0, \tau^2 I),

    with the same prior of tau2, in which :math:`c = \log(1 + 1/m)` with m the (weighted) mean count: a log-normal
    variable whose log has this variance varies as much, relative to its mean, as a Poisson count of mean m does. So c
    is near 1/m for large counts. It depends on the response by its mean alone. Exposures shift the linear predictor;
    they do not weight the rows by which columns are standardised. `weights` are frequency weights. A mean of the
    expected count does not exist in general, since the posterior of tau2 has a polynomial tail: predictions are
    posterior medians, with quantiles.

    With ``family="negative-binomial"`` the rate of each Poisson count is multiplied by a gamma variable of mean 1 and
    variance alpha, which stands for what the columns leave open, so that the variance of a count of mean :math:`\mu`
    is :math:`\mu + \alpha \mu^2` (NB2). alpha is integrated out together with tau2, whatever the method: the
    posterior is a mixture over values of alpha, weighted by prior and evidence. Its prior is beta-prime(1/2, 1/2):
    its root, the coefficient of variation of the rates, is half-Cauchy with scale 1. In the prior of tau2 :math:`c =
    \log(1 + 1/m + \alpha)`, by the same argument as for Poisson counts, since the coefficient of variation is now
    :math:`(1/m + \alpha)^{1/2}`. Methods that take one penalty find it at the most probable alpha.

    With ``family="beta-binomial"`` `endog` are numbers of successes among `trials`, and the probability of success
    of a row is itself a beta variable, with mean :math:`\mu = F(z_i' g + x_i' b)` (F logistic) and variance
    :math:`\mu (1 - \mu) \rho`: rho is the correlation of two trials of a row. With :math:`\alpha = \rho / (1 -
    \rho)` the prior of alpha is beta-prime(1/2, 1/2), so that rho is Beta(1/2, 1/2), and alpha is integrated out as
    for negative binomial counts. Each trial by itself is a yes/no response, whatever rho is: c is :math:`\pi^2/3`.

    With ``family="ordinal"`` `endog` are ordered categories: an ordered categorical, whole numbers, or text with
    `categories`. With cut points :math:`c_1 < \dots < c_{K-1}` the model is

    .. math::

        P(y_i \le k) = F(c_k - z_i' g - x_i' b), \quad b \mid \tau^2 \sim N(0, \tau^2 I),

    that of cumulative, or proportional-odds, regression. The cut points take the place of an intercept and have a
    flat prior; a latent response :math:`z_i' g + x_i' b` plus noise lies between two of them. So c, the variance of
    this noise, is :math:`\pi^2/3` or 1 as for yes/no responses, which are the case K = 2. Intervals of the probit
    link are by Laplace's approximation alone.

    With ``family="student-t"`` the noise has heavy tails, so that single responses far from the others have little
    influence:

    .. math::

        y_i = z_i' g + x_i' b + \sigma e_i, \quad e_i \sim t_\nu, \quad b \sim N(0, \tau^2 I), \quad
        \tau^2 \sum_j \lVert x_j \rVert^2 / n \sim \sigma^2 \cdot \text{beta-prime}(1/2, 1/2),

    with the prior :math:`1/\sigma^2` of the squared scale. The degrees of freedom :math:`\nu` are `df`, or averaged
    over 2, 3, 4, 6, 10, 20 and infinity (normal noise), which are equally probable a priori. ``fit("laplace")`` uses
    Laplace's approximation for each df, sigma and tau2; ``fit()`` corrects each by expectation propagation. Here tau2
    is the prior variance of the coefficients itself, not relative to that of the noise, and `weights` are
    frequencies.

    The unpenalised coefficients of models of yes/no responses, categories and counts have a flat prior too. If tau2
    is unknown, the posterior depends on the units in which it is flat. With ``"latent"`` they are flat in units of
    the standard deviation of the latent response, to which both its noise and its explained part contribute: with t
    the ratio of tau2 to the scale of its prior, the joint prior has the factor :math:`(1 + t)^{-k/2}` for k
    unpenalised coefficients. Then the posterior is proper wherever that of the unpenalised coefficients alone is,
    also if the other columns predict every response, as they do in general position if there are as many columns as
    rows less one. With ``"link"`` they are flat on the scale of the link itself: there the posterior of yes/no
    responses is improper under the default prior, and ``fit`` raises a ValueError that says so.

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

    Yes/no responses:

    >>> fair = sm.datasets.fair.load_pandas().data[::10]
    >>> fair = fair.assign(affair=fair["affairs"] > 0)
    >>> res = BayesRidge.from_formula("affair ~ age + yrs_married + rate_marriage", fair, family="binomial").fit()
    >>> res.odds_ratios().loc["rate_marriage"].round(2).to_dict()
    {'odds_ratio': 0.58, 'lower': 0.48, 'upper': 0.69, 'prob_above_1': 0.0}
    """

    _model: ClassVar[str] = "BayesRidge"
    _max_targets: ClassVar[int | None] = None

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
        bands: BandsLike | None = None,
        sigma2: float | None = None,
        family: FamilyLike = "gaussian",
        link: str | None = None,
        event: object = None,
        categories: Sequence[Any] | None = None,
        trials: ArrayLike | None = None,
        exposure: ArrayLike | None = None,
        dispersion: float | None = None,
        df: float | None = None,
        flat_in: str | None = None,
        missing: str = "raise",
        formula_data: FormulaData | None = None,
    ) -> None:
        dispersion = arguments_of(family, {"dispersion": dispersion}).get("dispersion", dispersion)
        family, link = named(family, link)
        self.call = call_of("BayesRidge", BayesRidge.__init__, locals())
        self._take_family(
            family,
            link=link,
            event=event,
            categories=categories,
            trials=trials,
            exposure=exposure,
            dispersion=dispersion,
            df=df,
            flat_in=flat_in,
            sigma2=sigma2,
        )
        self.prior_of_tau2 = _as_prior(prior)
        self.prior = prior if isinstance(prior, str) else tuple(float(value) for value in prior)
        self.known_sigma2 = None if sigma2 is None else positive("sigma2", sigma2)
        super().__init__(
            endog,
            exog,
            intercept=intercept,
            weights=weights,
            unpenalized=unpenalized,
            standardize=standardize,
            missing=missing,
            formula_data=formula_data,
            extent=trials if exposure is None else exposure,
        )
        if bands is not None:
            terms = None if formula_data is None else formula_data.terms
            of_formula = () if formula_data is None else formula_data.spec.bands
            large = formulas.largest_group(of_formula) if of_formula else None
            self._check_bands(of_formula[0].of_term if of_formula else "bands", may_be_sparse=large is not None)
            found = resolve_bands(bands, self.data.exog_columns, self.data.unpenalized, terms)
            own = {name for band in of_formula if not band.standardized for name in band.columns}
            self.bands = replace(
                found,
                own_scale=np.array([name in own for name in self.data.exog_columns]),
                sets=_sets(found.names, of_formula),
                eliminated=None if large is None else found.names.index(large.name),
            )
            if isinstance(self.source, MomentData):
                self.source = replace(self.source, in_rows=True)
            if large is not None and isinstance(self.source, RowData):
                self.source = replace(self.source, columns_only=True)
            if isinstance(self.source, BlockData):
                assert self.bands.eliminated is not None
                self.source = replace(self.source, eliminated=self.bands.members(self.bands.eliminated))

    def _check_bands(self, what: str, *, may_be_sparse: bool) -> None:
        """Refuse bands, of which `what` makes the first, for what several penalties cannot be fitted to."""
        lanes = lanes_of(self._model, bands=True)
        if self.family not in lanes:
            raise ValueError(f"{what} requires family={either(lanes)}, not {self.family!r}")
        if self.source.from_moments:
            return
        if self.data.exog is None:
            raise ValueError("bands requires columns in memory: use BayesRidge(endog, exog)")
        if sparse.issparse(self.data.exog) and not may_be_sparse:
            raise ValueError("bands requires dense columns: pass exog.toarray()")

    @classmethod
    def _options_of_bands(cls, built: FormulaData, given: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments `bands` and `unpenalized`: what the user gives, and what the terms of a formula make."""
        of_formula = built.spec.bands
        named_bands = given.get("bands") or {}
        if not isinstance(named_bands, Mapping):
            raise ValueError(
                f"beside {of_formula[0].of_term} in the formula bands must be a dict of columns by band, or write "
                'band(a, b, name="c")'
            )
        twice = [band.name for band in of_formula if band.name in named_bands]
        if twice:
            raise ValueError(f"bands names {listed(twice)}, which the formula makes itself: choose another name")
        free = given.get("unpenalized")
        wanted = [] if free is None else [free] if isinstance(free, str) or np.ndim(free) == 0 else list(free)
        if FIXED in wanted and FIXED not in {*built.terms, *built.exog.columns}:
            wanted = [*(item for item in wanted if item != FIXED), *built.exog.columns]
        return {
            "bands": {**named_bands, **{band.name: list(band.columns) for band in of_formula}},
            "unpenalized": [*wanted, *(name for band in of_formula for name in band.unpenalized)],
        }

    @property
    def lanes(self) -> dict[str, Lane]:
        """How such models are fitted, with one penalty or with several, by family."""
        return lanes_of(self._model, bands=self.bands is not None)

    def fit(
        self,
        method: str | None = None,
        *,
        tol: float | None = None,
        maxiter: int | None = None,
        grid: str | ArrayLike | None = None,
        lam: ArrayLike | Mapping[str, float] | None = None,
        solver: str = "ep",
        dof: str = "nu",
        parameterization: str = "tau2",
        accelerate: bool = True,
        disp: bool = False,
    ) -> RidgeResults[BayesRidge]:
        """Fit the model.

        Parameters
        ----------
        method : str, optional
            For Gaussian responses ``"exact"`` (default), ``"em"``, ``"loocv"``, ``"gcv"`` or ``"fixed"``; with other
            families ``"ep"`` (default), ``"laplace"``, ``"em"``, ``"loocv"`` or ``"fixed"``.

            ``"exact"``: the penalty integrated out, the exact marginal posterior; its intervals account for
            uncertainty in the penalty. ``"ep"``: likewise, for each penalty the posterior of the coefficients by
            expectation propagation. ``"laplace"``: the same by Laplace's approximation, which is faster with many
            rows and less accurate with few. ``"em"``: the penalty at the posterior mode, uncertainty conditional on
            it, which makes intervals too narrow. ``"loocv"``, ``"gcv"``: the penalty of `grid` that minimises
            leave-one-out or generalised cross-validation (with other families the one with the best
            leave-one-out log score); ``"fixed"``: the penalty `lam`. With these three uncertainty is conditional on
            the penalty, the noise variance integrated out.

            With `bands` ``"exact"``, ``"em"``, ``"fixed"``, or ``"reml"``: restricted maximum likelihood.
            With bands and other families ``"ep"``, ``"laplace"``, ``"fixed"``, or ``"reml"``: the variances that
            maximise the approximate marginal likelihood, the unpenalised coefficients integrated out too.
        tol : float, optional
            Accuracy of log lambda (for ``"exact"`` of the quadrature) at which iterations stop, 1e-8 by default; it
            depends on no scale. With other families 1e-6 by default: the largest estimated error of the
            integral over the penalty, for ``"em"`` the accuracy of log lambda. With `bands` the accuracy of the
            integral over the shares of the bands, in posterior standard deviations: 1e-3 by default; with more than
            three bands or with other families 20 times as much.
        maxiter : int, optional
            Most iterations, 10,000 by default. With other families most sweeps over the rows (Newton steps) at
            one penalty, 200 by default. With `bands`, for several responses with two or three bands and a `tol` of
            at least 0.02: most decompositions that ``"exact"`` makes, without limit by default. The fewest are 10
            with two bands and 33 with three. Responses that have not reached `tol` then are named in a warning, and
            ``quadrature_error`` has their errors, which are infinite where so few decompositions say nothing (an
            estimate above 1,000 standard deviations).
        grid : {"fixed", "glmnet"} or array, for ``"loocv"`` and ``"gcv"``
            Penalties to try: ``"fixed"`` (the default) is 1e10 … 1e-10, ``"glmnet"`` the ones glmnet would, 100
            each; an array's are on the scale of `lam`. With other families an array; by default 33 penalties
            around that of the prior.
        lam : float, (q,) array, dict or Series, for ``"fixed"``
            The penalty of ``||y - Xb||^2 + lam ||b||^2`` on the standardised scale. The coefficients for 0 are
            those of least squares; the intervals are the limit of those for small penalties, with n - rank(Z)
            degrees of freedom and not n - rank(Z) - p. With other families the penalty 1/tau2: positive. With
            `bands` a positive penalty for each. Penalties of targets and of bands are in their order or by name, in
            a dict or a Series with labels.
        solver : {"ep", "laplace"}, with other families than the Gaussian for all methods but these two
            The approximation of the posterior of the coefficients.
        dof : {"nu", "paper"}, for Gaussian responses
            Count the data as ``n - rank(Z)``, which is right, or as n, as the paper does.
        parameterization : {"tau2", "tau"}, for ``"em"``
            The mode is that of a density in tau2 (the paper's equation 11) or in tau.
        accelerate : bool, for ``"em"`` and Gaussian responses
            Find EM's fixed point by one-dimensional root finding; False runs the paper's iteration itself. The
            answers are the same.
        disp : bool
            Print what happened.

        Returns
        -------
        BayesRidgeResults, GeneralizedRidgeResults or, with bands, BandRidgeResults or GeneralizedBandRidgeResults
            With labels.

        Raises
        ------
        ValueError
            For an option that the method does not take. With other families if the unpenalised columns
            separate the responses (the message names them), the posterior is improper, or the columns separate the
            responses and a penalty is so small that rounding errors outweigh it.

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
        return self._fitted(BayesRidge.fit, locals())


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


def _sets(names: Sequence[str], bands: Sequence[Band]) -> tuple[tuple[int, ...], ...]:
    """The bands of each term of a formula whose effects are correlated, by their positions among `names`."""
    terms: dict[tuple[str, str], list[int]] = {}
    for band in bands:
        if band.correlated:
            group = "" if band.groups is None else band.groups.name
            terms.setdefault((group, band.correlated), []).append(list(names).index(band.name))
    return tuple(tuple(each) for each in terms.values())
