"""Spike and slab: takes data in, calls the numerics, hands results out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.sparse import issparse

from pybayesridge._types import ArrayLike, FamilyLike, GroupsLike, Names, TableLike
from pybayesridge.checks import positive
from pybayesridge.data.arrays import is_sparse_frame
from pybayesridge.data.groups import TERM, resolve_groups, shared
from pybayesridge.data.inclusion import inclusion_by_column
from pybayesridge.ep.posterior import StartingPoint
from pybayesridge.families.registry import arguments_of, named
from pybayesridge.models.before_fit import BeforeFit
from pybayesridge.models.options import ModelOptions
from pybayesridge.models.priors import SelectionModel
from pybayesridge.moments.moments import Moments
from pybayesridge.recipes import call_of
from pybayesridge.selection.defaults import CHAINS, DAMPING, MCSE, TOL
from pybayesridge.selection.methods import DEFAULT

if TYPE_CHECKING:
    from pybayesridge.formula.spec import FormulaData
    from pybayesridge.results.returned import SelectionResults
    from pybayesridge.results.spike_slab import SpikeSlabResults


class SpikeSlab(BeforeFit, SelectionModel):
    r"""Bayesian variable selection with spike-and-slab priors.

    The model, with Z the unpenalised columns (the intercept at least) under a flat prior and X the others:

    .. math::

        y \mid g, w \sim N(Z g + X w, \sigma^2 W^{-1}), \quad
        w_i \sim p_i N(0, v) + (1 - p_i) \delta_0,

    on the standardised scale of X. The columns of a group share one indicator: with probability p all of them are in,
    each with its own coefficient from N(0, v), else all are zero. A hyperparameter left at None is learned from the
    data, under the prior of the notes.

    Parameters
    ----------
    endog : (n,) array-like
        The response.
    exog : (n, p) array-like
        The columns; NumPy, pandas, polars, pyarrow or anything like an array, of any real dtype.
    intercept : bool or "add", default True
        Whether there is an unpenalised intercept. A constant column of `exog` serves as it; with ``"add"`` one is
        added whatever there is, and constant columns get coefficient 0.
    weights : (n,) array-like, optional
        Precision weights, as in statsmodels' WLS. Only their ratios matter.
    unpenalized : names or positions, optional
        Columns (with a formula also terms) with a flat prior: never shrunk, never selected away.
    standardize : bool, default True
        The prior is on the scale of each column's (weighted, 1/n) standard deviation; the user's own scale
        otherwise. Results are always on the user's scale.
    prior_inclusion : float, array, Series or dict, optional
        Prior probability that a column (or group) is in: one for all, or one for each column of `exog` (a Series or
        dict by name of column or group), the same for all columns of a group. 0 keeps a column out, 1 keeps it in
        under the slab alone. The intercept and unpenalised columns do not count, and need not be named.
    slab_var : float, optional
        Prior variance v of an included coefficient, in squared units of the response per standard deviation of
        the column (per its own unit with ``standardize=False``).
    noise_var : float, optional
        Noise variance in squared units of the response, for an observation of average weight.
    expected_size : float, default 1
        Columns (or groups) that are expected to be in at the prior median of p, if `prior_inclusion` is learned, for
        every method: less than the number of columns. Of a single column the default expects one half.
    group : None, "term", sequence, Series, dict or list of lists, optional
        Columns that are in or out together: a label for each column of `exog` (a Series by name), a dict from label
        to names of columns, or a list of lists of names; columns not named are on their own. ``"term"``, the default
        of :meth:`from_formula` and only for formulas: the columns of each term, so that a factor or a spline is in or
        out whole. None, the default for arrays: each column on its own. Of a group with unpenalised or constant
        columns the others are the group.
    family : {"gaussian", "binomial", "poisson", "negative-binomial"} or family object of statsmodels
        ``"binomial"``: a yes/no response, or successes among trials; ``"poisson"``: counts; ``"negative-binomial"``:
        counts that vary more than Poisson counts; see the notes. ``sm.families.NegativeBinomial(alpha=0.5)`` also
        gives the dispersion.
    link : {"logit", "probit"}, for ``family="binomial"``
        F of the notes is the logistic (default) or the normal distribution function. Coefficients of the logit link
        are log odds ratios.
    event : level, for ``family="binomial"``
        The level whose probability is modelled. By default 1, True, or the second of two levels in their order.
    trials : str or (n,) array-like, for ``family="binomial"``
        Number of trials of each row, `endog` being the number of successes; with a formula also the name of a column.
    exposure : str or (n,) array-like, for ``family="poisson"`` and ``"negative-binomial"``
        Exposure of each row, 1 by default: how long, or on how much, events were counted; with a formula also the
        name of a column. The rate is per unit of it.
    dispersion : float, for ``family="negative-binomial"``
        alpha of the notes, between 1e-8 and 1000; by default it is integrated out.
    categories, df
        Of families that only :class:`BayesRidge` has: an error says so.
    missing : {"raise", "drop"}
        Treatment of rows with missing values.

    Raises
    ------
    ValueError
        For data that cannot be a regression; the message names the column, row or argument. For a `prior_inclusion`
        that differs within a group. By :meth:`fit`, if the unpenalised columns fit the response exactly, the noise is
        learned, and columns with `prior_inclusion` 1 are linearly dependent or span others: a given `slab_var` alone
        would then decide about their coefficients.

    Notes
    -----
    All methods learn hyperparameters under one prior. With G columns (or groups) and t = logit p, t + log(G - 1) is
    standard logistic, whatever is given: at the median of p one column is expected to be in, and the probability of
    more than m falls as 1 / m, so that the prior mean is larger (1.9 of 10 columns, 3.7 of 100). `expected_size`
    replaces the one column. log s2 is flat. Given p and s2, v is such that the share of variance that the columns
    explain a priori, h = d p v / (d p v + s2), is uniform. A given `slab_var` has no prior and says nothing about p;
    s2, if learned, is then such that h at the median of p is uniform. If `slab_var` and `noise_var` are both given, p
    has the prior above, and h none. Bounds are p from 0.01 / G (or less, if less than one column is expected) to
    0.995 (or more, if more than half of the columns are), and, if v is learned, log(h / (1 - h)) from -5 to 6: up to
    a share of .9975. Where more than .01 of the posterior probability may be above, as with noise below a tenth of
    the signal, the upper bound is where less than 1e-8 is left. In h, d stands for the sum over columns of their
    (weighted, 1/n) mean squares on the prior's scale, without their parts in the unpenalised columns; where the p_j
    are given, d p is the sum weighted by p_j. ``"exact"`` integrates over this prior. ``"ep"`` averages fits over a
    lattice in logit p and log(h / (1 - h)), weighted by EP's evidence and the prior, with the noise at its maximum;
    with ``hyper="maximize"`` it takes the maximum of the evidence times the density of (t, log(h / (1 - h)), log s2),
    as ``"damped"`` and ``"pcep"`` do.

    If the unpenalised columns fit the response exactly, as an intercept does a constant one, a noise variance that is
    learned goes to 0 and the results are the limit: the coefficients of all other columns are 0 with standard
    deviation 0, `noise_var` is 0, a `slab_var` that is learned is 0, a `prior_inclusion` that is learned maximises
    (1 - p)^G times its prior for G columns or groups, and `log_evidence`, which has no limit, is NaN. Inclusion
    probabilities are 0 where the prior is below 1: with a given `slab_var` s2 / (s2 + v x'x), whose square root each
    column that is in contributes to the evidence, goes to 0; with a learned one the slab itself is a point at 0.
    Columns whose prior is 1 stay in. A fit with a given `noise_var` is an ordinary one.

    With ``standardize=True`` each column of a group is divided by its own standard deviation, so that v is the prior
    variance of its coefficient per standard deviation. The prior of a factor or spline as a function therefore
    depends on its coding (reference level, knots, basis): a change of basis within a term that is not a rotation of
    the standardised columns is another prior. The prior probability of a group does not grow with its columns, but
    the variance it is expected to explain does.

    EP works in the rotation of each group's coefficients in which its columns are orthogonal, which leaves the prior
    as it is: it is exact for a group that is orthogonal to all other columns, however correlated its own are.

    With ``family="binomial"`` `endog` is 0 and 1, booleans, or a factor with two levels (strings or a categorical);
    with `trials` the number of successes. F being the logistic or the normal distribution function, the model is

    .. math::

        y_i \sim \text{Binomial}(m_i, F(z_i' g + x_i' w)), \quad
        w_j \sim p_j N(0, v) + (1 - p_j) \delta_0.

    `weights` are then frequency weights: a row of weight 3 counts as three rows; with ``link="probit"`` they are
    whole numbers. `slab_var` is on the scale of the link, and there is no noise variance.

    The prior of what is not given is that above with the noise variance replaced by c, the variance of the latent
    noise: :math:`\pi^2/3` for the logit and 1 for the probit link. The share of the latent
    variance that the columns explain a priori, h = d p v / (d p v + c), is uniform, with log(h / (1 - h)) from -5 to
    6, unless `slab_var` is given: h then has no prior. The unpenalised coefficients are flat in units of the standard
    deviation of the latent response, as for :class:`~pybayesridge.BayesRidge`: the joint prior has the factor
    :math:`(1 - h)^{k/2}` for k of them.

    The sampler adds auxiliary variables, given which the model is Gaussian: Pólya-Gamma variables for the logit link
    (Polson, Scott & Windle 2013), a latent normal response of each trial for the probit link (Albert & Chib 1993),
    whose time therefore grows with the number of trials. Sets and the slab variance change by
    Metropolis-Hastings moves given these variables, which are redrawn every 32 moves. If columns separate the
    responses, the slab limits their coefficients.

    With ``family="poisson"`` `endog` are counts, and with e the exposures the model is

    .. math::

        y_i \sim \text{Poisson}(e_i \exp(z_i' g + x_i' w)), \quad
        w_j \sim p_j N(0, v) + (1 - p_j) \delta_0,

    with the prior above and c = log(1 + 1 / m), m being the mean count, as for :class:`~pybayesridge.BayesRidge`.
    There is no sampler: the method is ``"ep"``, an approximation, which is good for columns that are not strongly
    correlated, and can be far off for those that can replace each other.

    With ``family="negative-binomial"`` the rate of each count is multiplied by a gamma variable of mean 1 and
    variance :math:`\alpha`, so that its variance is :math:`\mu + \alpha \mu^2` for a mean of :math:`\mu`, and c
    is :math:`\log(1 + 1/m + \alpha)`. Unless `dispersion` gives it, alpha is integrated out, by lattices of the other
    hyperparameters at several values of its log: a priori :math:`1 / (1 + \alpha)` is Beta(1/2, 1/2), as for
    :class:`~pybayesridge.BayesRidge`. ``hyperparameters()`` of the results has its posterior.

    With ``fit("ep")`` the likelihood of each row and the prior of each column are replaced by normal factors, by
    expectation propagation. Its evidence is averaged over a lattice of the hyperparameters that are not given.

    References
    ----------
    Hernández-Lobato & Hernández-Lobato (2011). Convergent Expectation Propagation in Linear Models with
    Spike-and-slab Priors.

    Examples
    --------
    >>> import statsmodels.api as sm
    >>> from pybayesridge import SpikeSlab
    >>> longley = sm.datasets.longley.load_pandas().data
    >>> res = SpikeSlab.from_formula("TOTEMP ~ GNP + UNEMP + ARMED + POP", longley, unpenalized=["GNP"]).fit()
    >>> res.inclusion_prob.round(2).to_dict()
    {'Intercept': 1.0, 'GNP': 1.0, 'UNEMP': 0.75, 'ARMED': 0.45, 'POP': 0.55}
    >>> res.median_model()
    ['UNEMP', 'POP']

    A yes/no response:

    >>> spector = sm.datasets.spector.load_pandas().data
    >>> res = SpikeSlab.from_formula("GRADE ~ GPA + TUCE + PSI", spector, family="binomial").fit(mcse=0.05)
    >>> bool(res.inclusion_prob["GPA"] > 0.85)
    True
    """

    _model: ClassVar[str] = "SpikeSlab"
    _formula_defaults: ClassVar[ModelOptions] = {"group": TERM}

    def __init__(
        self,
        endog: TableLike | None,
        exog: TableLike | Moments,
        *,
        intercept: bool | str = True,
        weights: ArrayLike | None = None,
        unpenalized: Names | None = None,
        standardize: bool = True,
        prior_inclusion: ArrayLike | Mapping[str, float] | None = None,
        slab_var: float | None = None,
        noise_var: float | None = None,
        expected_size: float = 1.0,
        group: GroupsLike | None = None,
        family: FamilyLike = "gaussian",
        link: str | None = None,
        event: object = None,
        categories: Sequence[Any] | None = None,
        trials: ArrayLike | None = None,
        exposure: ArrayLike | None = None,
        dispersion: float | None = None,
        df: float | None = None,
        missing: str = "raise",
        formula_data: FormulaData | None = None,
    ) -> None:
        dispersion = arguments_of(family, {"dispersion": dispersion}).get("dispersion", dispersion)
        family, link = named(family, link)
        self.call = call_of("SpikeSlab", SpikeSlab.__init__, locals())
        if issparse(exog) or is_sparse_frame(exog):
            raise ValueError("SpikeSlab takes dense columns: make exog dense, or use BayesRidge for sparse ones")
        self._take_family(
            family,
            link=link,
            event=event,
            categories=categories,
            trials=trials,
            exposure=exposure,
            dispersion=dispersion,
            df=df,
            noise_var=noise_var,
        )
        self.slab_var = None if slab_var is None else positive("slab_var", slab_var)
        self.noise_var = None if noise_var is None else positive("noise_var", noise_var)
        self.expected_size = positive("expected_size", expected_size)
        if prior_inclusion is not None and self.expected_size != 1.0:
            raise ValueError("expected_size is for a prior_inclusion that is learned: give one of the two")
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
        terms = None if formula_data is None else formula_data.terms
        self.groups = resolve_groups(group, self.data.exog_columns, terms)
        self.grouped_by = "column" if group is None else "term" if isinstance(group, str) else "labels"
        self.prior_inclusion = inclusion_by_column(
            prior_inclusion, self.data.exog_columns, self.groups, self.data.unpenalized
        )
        if isinstance(self.prior_inclusion, np.ndarray):
            rest = np.setdiff1d(np.arange(len(self.data.exog_columns)), self.data.unpenalized)
            shared(self.prior_inclusion, self.groups, rest, "prior_inclusion")

    def fit(
        self,
        method: str = DEFAULT,
        *,
        mcse: float = MCSE,
        chains: int = CHAINS,
        rng: np.random.Generator | int = 0,
        tol: float = TOL,
        maxiter: int | None = None,
        damping: float = DAMPING,
        hyper: str | None = None,
        check: bool = False,
        start: SpikeSlabResults | StartingPoint | None = None,
        disp: bool = False,
    ) -> SelectionResults[SpikeSlab]:
        """Fit the model.

        Parameters
        ----------
        method : {"auto", "exact", "ep", "damped", "pcep"}
            ``"exact"``: the posterior of the sets of columns, hyperparameters left at None integrated out: the sum
            over all sets for at most 15 columns or groups, otherwise Monte Carlo, with its standard errors.
            ``"ep"``: ordinary EP, and where it does not settle a descent on its energy from where it stands.
            ``"damped"``: damped parallel EP. ``"pcep"``: the provably convergent double loop; where its constraints
            are active its evidence and some standard errors are biased, which the results say.
            ``"auto"``: ``"exact"``, or ``"ep"`` if min(n, p) p exceeds 100,000,000; `method` of the results says
            which. Options are those of the method that is chosen. Of counts it is ``"ep"``, the only method.

            With ``family="binomial"`` ``"exact"``, which ``"auto"`` stands for, samples also for few columns;
            ``"ep"`` has a factor for each row and each column, which gives the evidence and has no Monte Carlo
            error, but can be wrong for correlated columns that can replace each other. Both integrate out
            hyperparameters that are left at None; there are no other methods, and `damping`, `hyper`, `check` and
            `start` are for Gaussian responses.
        mcse : float, for ``"exact"``
            Largest Monte Carlo standard error of an inclusion probability at which sampling stops, if chains agree.
            With ``family="binomial"`` no mean of a coefficient has one of more than a tenth of its standard deviation
            either (five times `mcse` if that is more).
        chains : int, for ``"exact"``
            Number of chains, from different starts.
        rng : int or numpy.random.Generator, for ``"exact"``
            Seed, or source of randomness; equal seeds give equal numbers.
        tol : float, for ``"ep"``, ``"damped"`` and ``"pcep"``
            Tolerance of the residual: the largest change that the next iteration asks for, of means relative to
            posterior standard deviations, and of variances in proportion.
        maxiter : int, optional
            Most iterations, 1,000 by default; for ``"exact"`` most steps of all chains, 100,000,000 by default.
        damping : float in (0, 1], for ``"damped"``
            The share of the new sites in an update.
        hyper : {"average", "maximize"}, optional, for expectation propagation
            Average over hyperparameters left at None (the default of ``"ep"``), or take those of the largest
            posterior density as known (what ``"damped"`` and ``"pcep"`` do), which needs fewer computations and is
            less well calibrated for few rows. See the notes of the class.
        check : bool, for ``"ep"``, ``"damped"`` and ``"pcep"``
            Compare the inclusion probabilities with the exact ones, by the sum over all sets or a short run of the
            sampler that starts from EP's answer: `ep_check` of the results. Both are conditional on EP's
            hyperparameters (with ``hyper="average"`` those of the largest weight), so that the difference is EP's
            error alone; that of learning hyperparameters instead of integrating them out is not part of it.
        start : SpikeSlab results, optional
            A fit of the same columns to start from; of groups of several columns its hyperparameters alone.
        disp : bool
            Print what happened, and show the progress of sampling at once. Otherwise it is shown, on one line of
            stderr, from two seconds on. There is no such line if stderr is not a terminal. Ctrl-C ends sampling; the
            results are those of the steps until then.

        Returns
        -------
        SpikeSlabResults or GeneralizedSpikeSlabResults
            With labels.

        Raises
        ------
        ValueError
            For an option that the method does not take. With ``family="binomial"`` if the unpenalised columns
            separate the responses (the message names them), or there is nothing to select.

        Warns
        -----
        ConvergenceWarning
            If EP (or the learning of hyperparameters) has not converged; the message says which. If sampling
            has not reached `mcse`; the message says by how much.
        ApproximationWarning
            If EP's inclusion probabilities contradict the data for correlated columns that can replace each other,
            or if `check` finds an error above 0.1 that exceeds three Monte Carlo standard errors.
        DegenerateFitWarning
            If the unpenalised columns fit the response exactly (a constant response and an intercept) and the noise
            is learned: see the notes of the class.

        Examples
        --------
        >>> import statsmodels.api as sm
        >>> from pybayesridge import SpikeSlab
        >>> longley = sm.datasets.longley.load_pandas().data
        >>> model = SpikeSlab.from_formula("TOTEMP ~ GNP + UNEMP + ARMED", longley, prior_inclusion=0.5)
        >>> res = model.fit()
        >>> res.converged, res.learned
        (True, ('slab_var', 'noise_var'))
        """
        return self._fitted(SpikeSlab.fit, locals())
