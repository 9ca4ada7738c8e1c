"""Spike and slab for yes/no responses: takes data in, calls the numerics, hands results out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit

from pybayesridge._types import FloatArray, IntArray
from pybayesridge.binomial.augmentation import Rows
from pybayesridge.binomial.ep_selection_posterior import BinaryEPPosterior
from pybayesridge.binomial.likelihood import Binomial
from pybayesridge.binomial.selection import BinarySelection, fit_binary_selection
from pybayesridge.binomial.selection_posterior import BinarySelectionPosterior
from pybayesridge.binomial.separation import check_unpenalized
from pybayesridge.binomial.spike_slab_learning import Problem, select_binary
from pybayesridge.design.design import Design
from pybayesridge.ep.learning.maximize import NAMES
from pybayesridge.ep.methods import FitOptions, SelectionMethod, unsettled
from pybayesridge.ep.model.hyperparameters import Given as EPGiven
from pybayesridge.ep.model.hyperparameters import Hyperparameters
from pybayesridge.ep.model.least_squares import Data
from pybayesridge.ep.model.rotation import Rotation
from pybayesridge.findings import issue
from pybayesridge.models.binary_responses import BinaryResponses
from pybayesridge.models.sources import RowData
from pybayesridge.models.spike_slab import SpikeSlab
from pybayesridge.progress import line
from pybayesridge.recipes import Recipe, call_of
from pybayesridge.registry import look_up
from pybayesridge.results.binary_selection import BinarySpikeSlabResults
from pybayesridge.results.labelled import BinarySpikeSlabResultsWrapper
from pybayesridge.selection.grid import Given
from pybayesridge.selection.methods import AUTO, METHODS, ExactSelection, imprecise
from pybayesridge.selection.options import CHAINS, DAMPING, MCSE, TOL, checked_options, with_progress
from pybayesridge.selection.problem import units_of
from pybayesridge.text import number


@dataclass(frozen=True, slots=True)
class BinaryTask:
    """Input of a fit.

    Attributes
    ----------
    design : Design
    data : Data
        Of the Gaussian family; rotated within groups.
    rotation : Rotation
    x, c : (n, p), (n, k) arrays
        Penalised columns on the scale of the prior, and coordinates of the unpenalised ones.
    likelihood : Binomial
    known : Given
        On the scale of the link.
    groups : (p,) int array or None
        Which columns are in or out together.
    """

    design: Design
    data: Data
    rotation: Rotation
    x: FloatArray
    c: FloatArray
    likelihood: Binomial
    known: EPGiven
    groups: IntArray | None


def fit_by_sampling(task: BinaryTask, options: FitOptions) -> BinarySelectionPosterior:
    """The posterior of the sets by Monte Carlo."""
    known = task.known
    found = fit_binary_selection(
        Rows.of(task.x, task.c, task.likelihood, units_of(task.design.p, task.groups)),
        Given(known.prior_inclusion, known.slab_var, None, options.expected_size),
        mcse=options.mcse,
        n_chains=options.chains,
        maxiter=options.maxiter,
        rng=options.rng,
        progress=options.progress,
    )
    learned = tuple(name for name in NAMES if name != "noise_var" and getattr(known, name) is None)
    hyper = _means(found, known.prior_inclusion)
    selection = ExactSelection(found.exact, learned, hyper, task.groups, float(task.design.n), task.rotation)
    return BinarySelectionPosterior(task.design, task.data, selection, joint=found.joint, link=task.likelihood.link)


def fit_by_ep(task: BinaryTask, options: FitOptions) -> BinaryEPPosterior:
    """Expectation propagation, averaged over the hyperparameters that are not given."""
    x = task.rotation.rows(task.x)
    selection = select_binary(
        Problem(x, task.c, task.likelihood, task.groups),
        task.known,
        tol=options.tol,
        maxiter=options.maxiter,
        expected_size=options.expected_size,
        rotation=task.rotation,
    )
    posterior = BinaryEPPosterior(task.design, task.data, selection, x=x, c=task.c, link=task.likelihood.link)
    best = int(selection.weights.argmax())
    return replace(posterior, data=posterior.working(best).likelihood.data)


BINARY_METHODS: dict[str, SelectionMethod] = {
    "exact": replace(METHODS["exact"], fit=fit_by_sampling, unconverged=partial(imprecise, instead="use BayesRidge")),
    "ep": replace(
        METHODS["ep"],
        fit=fit_by_ep,
        options=("tol", "expected_size"),
        hypers=("average",),
        help="expectation propagation with sites for rows and columns, hyperparameters integrated out",
        takes_start=False,
        unconverged=partial(unsettled, instead="use method='exact'"),
    ),
}
"""The methods of ``SpikeSlab.fit`` with ``family="binomial"``, by name."""


class BinarySpikeSlab(BinaryResponses, SpikeSlab, family="binomial"):
    r"""Bayesian variable selection for yes/no responses, and for successes among trials.

    Made by :class:`~pybayesridge.SpikeSlab` with ``family="binomial"``. The model, with Z the unpenalised columns
    (the intercept at least) under a flat prior, X the others and F the logistic or the normal distribution function:

    .. math::

        y_i \sim \text{Binomial}(m_i, F(z_i' g + x_i' w)), \quad
        w_j \sim p_j N(0, v) + (1 - p_j) \delta_0,

    on the standardised scale of X. A hyperparameter left at None is integrated out under the prior of the notes.

    Parameters
    ----------
    endog : (n,) array-like
        0 and 1, booleans, or a factor with two levels: strings or a categorical. With `trials` the number of
        successes.
    exog, intercept, unpenalized, standardize, prior_inclusion, expected_size, group, missing
        As for :class:`~pybayesridge.SpikeSlab`.
    weights : (n,) array-like, optional
        Frequency weights: a row of weight 3 counts as three rows. With ``link="probit"`` whole numbers.
    slab_var : float, optional
        Prior variance v of an included coefficient on the scale of the link, per squared standard deviation of the
        column (per its own unit with ``standardize=False``).
    noise_var : None
        Not used: binomial responses have no noise variance.
    family : "binomial"
    link : {"logit", "probit"}, default "logit"
        F is the logistic or the normal distribution function. Coefficients of the logit link are log odds ratios.
    event : level, optional
        The level whose probability is modelled. By default 1, True, or the second of two levels in their order.
    trials : str or (n,) array-like, optional
        Number of trials of each row; with a formula also the name of a column.

    Raises
    ------
    ValueError
        For data that cannot be a regression: the message names the column, row or argument. When fitted, also if the
        unpenalised columns separate the responses, or if no column can be both in and out.

    Notes
    -----
    The prior of what is not given is that of :class:`~pybayesridge.SpikeSlab` with the noise variance replaced by c,
    the variance of the latent noise: :math:`\pi^2/3` for the logit and 1 for the probit link. The share of the
    latent variance that the columns explain a priori, h = d p v / (d p v + c), is uniform, with log(h / (1 - h))
    from -5 to 6. The unpenalised coefficients are flat in units of the standard deviation of the latent response, as
    for :class:`~pybayesridge.BayesRidge`: the joint prior has the factor :math:`(1 - h)^{k/2}` for k of them.

    The sampler adds auxiliary variables, given which the model is Gaussian: Pólya-Gamma variables for the logit link
    (Polson, Scott & Windle 2013), a latent normal response of each trial for the probit link (Albert & Chib 1993),
    whose time therefore grows with the number of trials. Sets, the slab variance and these variables are the state
    of a tempered Gibbs sampler. If columns separate the responses, the slab limits their coefficients.

    With ``fit("ep")`` the likelihood of each row and the prior of each column are replaced by normal factors, by
    expectation propagation. Its evidence is averaged over a lattice of the hyperparameters that are not given.

    Examples
    --------
    >>> import statsmodels.api as sm
    >>> from pybayesridge import SpikeSlab
    >>> spector = sm.datasets.spector.load_pandas().data
    >>> res = SpikeSlab.from_formula("GRADE ~ GPA + TUCE + PSI", spector, family="binomial").fit(mcse=0.05)
    >>> bool(res.inclusion_prob["GPA"] > 0.85)
    True
    """

    methods: ClassVar[Mapping[str, SelectionMethod]] = BINARY_METHODS

    def _take_family(self, family: object, **given: Any) -> None:
        self._take_response(link=given["link"], event=given["event"], trials=given["trials"])
        if given["noise_var"] is not None:
            raise ValueError("noise_var requires family='gaussian': binomial responses have no noise variance")

    def fit(  # type: ignore[override]
        self,
        method: str = AUTO.name,
        *,
        mcse: float = MCSE,
        chains: int = CHAINS,
        rng: np.random.Generator | int = 0,
        tol: float = TOL,
        maxiter: int | None = None,
        disp: bool = False,
    ) -> BinarySpikeSlabResultsWrapper:
        """Fit the model.

        Parameters
        ----------
        method : {"auto", "exact", "ep"}
            ``"exact"``, which ``"auto"`` stands for: the posterior of the sets of columns by a tempered Gibbs
            sampler, also for few columns. ``"ep"``: expectation propagation with a factor for each row and each
            column, which gives the evidence and has no Monte Carlo error, but can be wrong for correlated columns
            that can replace each other. Both integrate out hyperparameters that are left at None.
        mcse : float, for ``"exact"``
            Sampling stops when no inclusion probability has a larger Monte Carlo standard error, and no mean of a
            coefficient one of more than a tenth of its standard deviation (five times `mcse` if that is more).
        chains : int, for ``"exact"``
            Number of chains, from different starts.
        rng : int or numpy.random.Generator, for ``"exact"``
            Seed, or source of randomness. Two fits with the same seed give the same numbers.
        tol : float, for ``"ep"``
            Tolerance of the residual: the largest change that the next iteration asks for, of means of rows and
            coefficients relative to posterior standard deviations, and of their variances in proportion.
        maxiter : int, optional
            For ``"exact"`` most steps of all chains, 200,000 by default. For ``"ep"`` most iterations for each value
            of the hyperparameters, 1,000 by default.
        disp : bool
            Print what happened, and show the progress of sampling at once. Ctrl-C ends sampling; the results are
            those of the steps until then.

        Returns
        -------
        BinarySpikeSlabResultsWrapper

        Raises
        ------
        ValueError
            If the unpenalised columns separate the responses (the message names them), or there is nothing to select.

        Warns
        -----
        ConvergenceWarning
            If sampling has not reached `mcse`, or expectation propagation has not converged; the message says by
            how much.
        ApproximationWarning
            If inclusion probabilities by expectation propagation contradict the data for correlated columns that can
            replace each other.
        """
        call = call_of("fit", BinarySpikeSlab.fit, locals(), defaults={"method": None})
        if isinstance(method, str) and method in METHODS and method not in BINARY_METHODS:
            raise ValueError(f"method={method!r} requires family='gaussian': use method='exact' or 'ep'")
        entry = BINARY_METHODS["exact"] if method == AUTO.name else look_up(BINARY_METHODS, method)
        options = checked_options(
            self.methods,
            entry,
            tol=tol,
            maxiter=maxiter,
            damping=DAMPING,
            hyper=None,
            mcse=mcse,
            chains=chains,
            rng=rng,
            expected_size=self.expected_size,
            check=False,
        )
        design, data, rotation = self._prepared()
        # The response is not scaled: it stands for itself in the likelihood.
        design = replace(design, y_norm=np.ones(1), y_on_z=np.zeros((design.block.k, 1)))
        with line(at_once=disp) as show:
            posterior = entry.fit(self._binary_task(design, data, rotation), with_progress(options, show))
        results = BinarySpikeSlabResults(
            self,
            posterior,
            method=entry.name,
            tol=options.tol if isinstance(posterior, BinaryEPPosterior) else options.mcse,
            maxiter=options.maxiter,
            recipe=Recipe(self.call, call),
        )
        issue(results.findings_on_validity, stacklevel=2)
        if disp:
            found = posterior.selection
            print(f"{entry.name}: {found.n_iter} iterations, {entry.measure.lower()} {number(found.residual, 2)}")
        return BinarySpikeSlabResultsWrapper(results)

    def _binary_task(self, design: Design, data: Data, rotation: Rotation) -> BinaryTask:
        """Check what the rows must be like, and bring them to the scale of the prior."""
        likelihood = self.likelihood()
        assert isinstance(self.source, RowData)
        check_unpenalized(self.source.unpenalized(self._layout), self._layout.z_names, likelihood)
        known = self._known(design)
        p = known.prior_inclusion
        if design.p == 0 or (p is not None and not ((p > 0) & (p < 1)).any()):
            raise ValueError(
                "no column can be both in and out: with family='binomial' SpikeSlab needs at least one column that "
                "varies and whose prior_inclusion lies between 0 and 1; use BayesRidge"
            )
        x = np.empty((design.n, design.p))
        for part, piece in design.column_pieces():
            x[:, part] = piece
        c = design.block.q * np.sqrt(design.n)
        if design.block.sqrt_w is not None:
            x /= design.block.sqrt_w[:, None]
            c = c / design.block.sqrt_w[:, None]
        return BinaryTask(design, data, rotation, x, c, likelihood, known, self.groups_of(design))


def _means(found: BinarySelection, prior_inclusion: FloatArray | None) -> Hyperparameters:
    """Posterior means of the hyperparameters; the noise variance is 1, given the auxiliary variables."""
    states = found.exact.states
    p = prior_inclusion
    if p is None:
        p = np.full(found.exact.inclusion_prob.size, float(states.weight @ expit(states.t)))
    return Hyperparameters(p, float(states.weight @ np.exp(states.log_g)), 1.0)
