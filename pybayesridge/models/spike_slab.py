"""Spike and slab: takes data in, calls the numerics, hands results out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from scipy.sparse import issparse

from pybayesridge._types import ArrayLike, GroupsLike, IntArray, Names, TableLike
from pybayesridge.checks import positive
from pybayesridge.data.arrays import is_sparse_frame
from pybayesridge.data.groups import TERM, Groups, resolve_groups, shared
from pybayesridge.data.inclusion import inclusion_by_column
from pybayesridge.design.design import Design
from pybayesridge.ep.methods import SelectionMethod, Task
from pybayesridge.ep.model.groups import compress
from pybayesridge.ep.model.hyperparameters import Given, Hyperparameters
from pybayesridge.ep.model.least_squares import Data
from pybayesridge.ep.model.result import Sites
from pybayesridge.ep.model.rotation import Rotation, orthogonal_groups
from pybayesridge.ep.posterior import StartingPoint
from pybayesridge.ep.selection import data_of, data_of_products
from pybayesridge.findings import issue
from pybayesridge.formula.spec import FormulaData
from pybayesridge.linalg.blas import one_pool
from pybayesridge.models.base import LinearModel
from pybayesridge.models.options import ModelOptions
from pybayesridge.moments.moments import Moments
from pybayesridge.progress import line
from pybayesridge.recipes import Recipe, call_of
from pybayesridge.registry import check_rows
from pybayesridge.results.labelled import SpikeSlabResultsWrapper
from pybayesridge.results.spike_slab import SpikeSlabResults
from pybayesridge.selection.check import check_selection
from pybayesridge.selection.methods import DEFAULT, METHODS, ExactSelection, method_for
from pybayesridge.selection.options import CHAINS, DAMPING, MCSE, TOL, checked_options, with_progress
from pybayesridge.selection.posterior import posterior_of
from pybayesridge.text import listed, number


class SpikeSlab(LinearModel):
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
        under the slab alone. The intercept and unpenalised columns do not count.
    slab_var : float, optional
        Prior variance v of an included coefficient, in squared units of the response per standard deviation of
        the column (per its own unit with ``standardize=False``).
    noise_var : float, optional
        Noise variance in squared units of the response, for an observation of average weight.
    expected_size : float, default 1
        Columns (or groups) that are expected to be in, if `prior_inclusion` is learned: the middle of the prior of
        their number, for every method.
    group : None, "term", sequence, Series, dict or list of lists, optional
        Columns that are in or out together: a label for each column of `exog` (a Series by name), a dict from label
        to names of columns, or a list of lists of names; columns not named are on their own. ``"term"``, the default
        of :meth:`from_formula` and only for formulas: the columns of each term, so that a factor or a spline is in or
        out whole. None, the default for arrays: each column on its own. Of a group with unpenalised or constant
        columns the others are the group.
    family : {"gaussian", "binomial"}
        ``"binomial"``: a yes/no response, or successes among trials; see
        :class:`~pybayesridge.models.binary_selection.BinarySpikeSlab`.
    link, event, trials : for ``family="binomial"``
        See :class:`~pybayesridge.models.binary_selection.BinarySpikeSlab`.
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
    standard logistic: one column is expected to be in, and the probability of more than m falls as 1 / m;
    `expected_size` replaces the one column. The share of variance that the columns explain a priori,
    h = d p v / (d p v + s2), is uniform, and log s2 is flat. Bounds are p from 0.01 / G (or less, if less than one
    column is expected) to 0.995, and log(h / (1 - h)) from -5 to 6. In h, d stands for the sum over
    columns of their (weighted, 1/n) mean squares on the prior's scale, without their parts in the unpenalised
    columns; where the p_j are given, d p is the sum weighted by p_j. ``"exact"`` integrates over this prior. ``"ep"``
    averages fits over a lattice in logit p and log(h / (1 - h)), weighted by EP's evidence and the prior, with the
    noise at its maximum; with ``hyper="maximize"`` it takes the maximum of the evidence times the density of
    (t, log(h / (1 - h)), log s2), as ``"damped"`` and ``"pcep"`` do.

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
    """

    methods: ClassVar[Mapping[str, SelectionMethod]] = METHODS
    _max_targets: ClassVar[int | None] = 1
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
        family: str = "gaussian",
        link: str | None = None,
        event: object = None,
        trials: ArrayLike | None = None,
        missing: str = "raise",
        formula_data: FormulaData | None = None,
    ) -> None:
        self.call = call_of("SpikeSlab", SpikeSlab.__init__, locals())
        if issparse(exog) or is_sparse_frame(exog):
            raise ValueError("SpikeSlab takes dense columns: make exog dense, or use BayesRidge for sparse ones")
        self._take_family(family, link=link, event=event, trials=trials, noise_var=noise_var)
        self.slab_var = None if slab_var is None else positive("slab_var", slab_var)
        self.noise_var = None if noise_var is None else positive("noise_var", noise_var)
        self.expected_size = positive("expected_size", expected_size)
        if prior_inclusion is not None and self.expected_size != 1.0:
            raise ValueError("expected_size is for a prior_inclusion that is learned: give one of the two")
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
        terms = None if formula_data is None else formula_data.terms
        self.groups: Groups = resolve_groups(group, self.data.exog_columns, terms)
        self.grouped_by = "column" if group is None else "term" if isinstance(group, str) else "labels"
        self.prior_inclusion = inclusion_by_column(prior_inclusion, self.data.exog_columns, self.groups)
        if isinstance(self.prior_inclusion, np.ndarray):
            rest = np.setdiff1d(np.arange(len(self.data.exog_columns)), self.data.unpenalized)
            shared(self.prior_inclusion, self.groups, rest, "prior_inclusion")
        self._data: tuple[Data, Rotation] | None = None

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
        start: SpikeSlabResults | SpikeSlabResultsWrapper | StartingPoint | None = None,
        disp: bool = False,
    ) -> SpikeSlabResultsWrapper:
        """Fit the model.

        Parameters
        ----------
        method : {"auto", "exact", "ep", "damped", "pcep"}
            ``"exact"``: the posterior of the sets of columns, with the hyperparameters that are left at None
            integrated out under the prior of the notes: the sum over all sets for at most 15 columns or groups,
            otherwise a tempered Gibbs sampler whose inclusion probabilities have Monte Carlo standard errors.
            ``"ep"``: ordinary EP, and where it does not settle a descent on its energy from where it stands.
            ``"damped"``: damped parallel EP. ``"pcep"``: the provably convergent double loop; where its constraints
            are active its evidence and some standard errors are biased, which the results say.
            ``"auto"``: ``"exact"``, or ``"ep"`` if min(n, p) p exceeds 100,000,000; `method` of the results says
            which. Options are those of the method that is chosen.
        mcse : float, for ``"exact"``
            Sampling stops when no inclusion probability has a larger Monte Carlo standard error.
        chains : int, for ``"exact"``
            Number of chains, from different starts.
        rng : int or numpy.random.Generator, for ``"exact"``
            Seed, or source of randomness. Two fits with the same seed give the same numbers.
        tol : float, for ``"ep"``, ``"damped"`` and ``"pcep"``
            Tolerance of the residual: the largest change that the next iteration asks for, of means relative to
            posterior standard deviations, and of variances in proportion.
        maxiter : int, optional
            Most iterations, 1,000 by default; for ``"exact"`` most steps of all chains, 200,000 by default.
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
            A fit of the same columns to start from; of columns in groups of several only its hyperparameters are
            used.
        disp : bool
            Print what happened, and show the progress of sampling at once. Otherwise it is shown, on one line of
            stderr, from two seconds on. There is no such line if stderr is not a terminal. Ctrl-C ends sampling; the
            results are those of the steps until then.

        Returns
        -------
        SpikeSlabResultsWrapper

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
        call = call_of("fit", SpikeSlab.fit, locals(), defaults={"method": None})
        entry = method_for(method, self.nobs, len(self.data.exog_columns))
        options = checked_options(
            self.methods,
            entry,
            tol=tol,
            maxiter=maxiter,
            damping=damping,
            hyper=hyper,
            mcse=mcse,
            chains=chains,
            rng=rng,
            expected_size=self.expected_size,
            check=check,
        )
        if start is not None and not entry.takes_start:
            raise ValueError(f"start is for expectation propagation, not for method={entry.name!r}")
        check_rows(entry, has_rows=not self.source.from_moments)
        design, data, rotation = self._prepared()
        task = self._task(design, data, rotation, start)
        with one_pool(float(data.root.size) * min(data.root.shape)), line(at_once=disp) as show:
            options = with_progress(options, show)
            selection = entry.fit(task, options)
            checked = check_selection(task, selection, options.progress) if check else None
        results = SpikeSlabResults(
            self,
            posterior_of(design, data, selection),
            method=entry.name,
            tol=float(mcse) if isinstance(selection, ExactSelection) else float(tol),
            maxiter=options.maxiter,
            recipe=Recipe(self.call, call),
            check=checked,
        )
        issue(results.findings_on_validity, stacklevel=2)
        if disp:
            residual = number(selection.residual, 2)
            print(f"{entry.name}: {selection.n_iter} iterations, {entry.measure.lower()} {residual}")
        return SpikeSlabResultsWrapper(results)

    def _task(
        self,
        design: Design,
        data: Data,
        rotation: Rotation,
        start: SpikeSlabResults | SpikeSlabResultsWrapper | StartingPoint | None,
    ) -> Task:
        return Task(
            data,
            float(design.n),
            self._known(design),
            self.groups_of(design),
            rotation,
            vanishes=bool(design.y_vanishes[0]),
            start=None if start is None else self._start(start, design, rotation),
        )

    def _prepared(self) -> tuple[Design, Data, Rotation]:
        """The design, the data and how they were rotated within groups, made once for all fits of the model."""
        if self._built is None or self._data is None:
            design, products = self._build()
            data = data_of(design) if design.has_rows else data_of_products(design, products)
            self._data = orthogonal_groups(data, self.groups_of(design))
        if self._built is None:
            raise AssertionError("a design was built")
        return self._built, *self._data

    def groups_of(self, design: Design) -> IntArray | None:
        """The group of each penalised column that varies, (p,); None where each is on its own."""
        return compress(self.groups.of_column[design.columns], np.ones(design.p, dtype=bool))

    def forget_rows(self, row_space: bool = True) -> None:
        """Drop every array over rows; see :meth:`LinearModel.forget_rows`."""
        super().forget_rows(row_space)
        if self._built is None:
            self._data = None

    def _known(self, design: Design) -> Given:
        """Given hyperparameters in the units of the design: a response of norm 1 and columns divided by `scale`."""
        p = self.prior_inclusion
        if p is not None:
            p = np.full(design.p, p) if np.ndim(p) == 0 else np.asarray(p)[design.columns]
        unit = design.y_norm[0]
        return Given(
            prior_inclusion=p,
            slab_var=None if self.slab_var is None else (np.sqrt(self.slab_var) * design.common_scale / unit) ** 2,
            noise_var=None if self.noise_var is None else (np.sqrt(self.noise_var) / unit) ** 2,
        )

    def _start(
        self,
        start: SpikeSlabResults | SpikeSlabResultsWrapper | StartingPoint | None,
        design: Design,
        rotation: Rotation,
    ) -> tuple[Hyperparameters, Sites]:
        inner = getattr(start, "unlabelled", start)
        point = inner.starting_point() if isinstance(inner, SpikeSlabResults) else inner
        if not isinstance(point, StartingPoint):
            raise ValueError(f"start must be results of a SpikeSlab, not {type(start).__name__}")
        if not point.noise_var > 0:
            raise ValueError("start is a fit without noise, of a response that the unpenalised columns fit exactly")
        names = tuple(self.data.exog_columns[j] for j in design.columns)
        if names != point.columns:
            odd = sorted(set(names) ^ set(point.columns)) or list(names)
            raise ValueError(f"start is a fit of other columns: {listed(odd)} differ")
        hyper, sites = point.in_design(design)
        return hyper, rotation.unknown(sites)
