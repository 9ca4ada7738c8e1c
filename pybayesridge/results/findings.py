"""The findings of a fit: every sentence about its validity, and how its numbers are to be read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pybayesridge._types import BoolArray, FloatArray
from pybayesridge.exceptions import (
    ApproximationWarning,
    ConvergenceWarning,
    DegenerateFitWarning,
    GridEdgeWarning,
    PrecisionWarning,
)
from pybayesridge.findings import Finding, note, warning
from pybayesridge.text import listed, number

if TYPE_CHECKING:
    from pybayesridge.results.band_estimates import BandEstimates
    from pybayesridge.results.estimates import LinearEstimates
    from pybayesridge.results.generalized_estimates import GeneralizedEstimates
    from pybayesridge.results.ridge_estimates import RidgeEstimates
    from pybayesridge.results.selection_estimates import SelectionEstimates
    from pybayesridge.results.variance_components import VarianceComponents
    from pybayesridge.selection.result import Check

FEW_DIGITS = 1e-8
"""Relative error of a fit from which on it has lost too many digits."""

SETS = 5
"""Credible sets that are named."""

PAIRS = 3
"""Pairs of columns that are named."""

TOLERABLE, CLEAR = 0.1, 3.0
"""An error of an inclusion probability above this, and above so many Monte Carlo standard errors, is a warning."""

LITTLE = 0.2
"""Nats between posterior and prior of log lambda up to which the data are said to contain little information.

A normal posterior would have about .6 of the prior's standard deviation."""


COLLINEAR = 30.0
"""Condition number above which columns are called collinear."""

FEW_EVENTS = 10
"""Fewer events, or non-events, are called few."""

LAPLACE = 0.1
"""Effective coefficients for each event, or for each row with Student-t noise, up to which Laplace's approximation
passes without a remark, or for the latter with a mild one."""

NARROW = "Laplace's method makes standard deviations a few per cent too small with few rows: see fit('ep')."
TAILS = (
    "Laplace's method is inaccurate with few rows for each coefficient and heavy tails: means may be off by some "
    "tenths of a standard deviation, and standard deviations a tenth or more too small: see fit('ep')."
)

FEW_COUNTS = (
    "With one or two counts that are not 0 the dispersion may be so large that expected counts of any size are "
    "likely: the posterior of the intercept has no standard deviation, and no coefficient is given one."
)
MEDIANS = "With one it has no mean either: params are posterior medians."
SEPARATED = "The columns separate the responses: the prior limits the coefficients."
BY_EP = (
    "For those that separate, standard deviations and the farther ends of intervals are approximate: expectation "
    "propagation made them up to a quarter too small in comparisons with importance sampling. Where columns predict "
    "all responses without error, ends of intervals are nearer still than they should be."
)
IN_PARTS = (
    "For those that separate, the posterior is approximated in parts: in comparisons with long importance sampling "
    "standard deviations were within 3 %, and up to 6 % too small with very many rows or levels."
)
IN_TAILS = (
    " Ends of intervals are by importance sampling: in comparisons with longer runs 95 % intervals were 0.9 to 1.1 "
    "times as wide as they should be."
)
BY_LAPLACE = (
    "For those that separate, Laplace's method makes standard deviations and the farther ends of intervals much too "
    "small: in comparisons with importance sampling standard deviations were 0.5 to 0.9 of what they should be, and "
    "means were off by up to 0.8 of them. Expectation propagation, where it is available, is more accurate."
)

IN_MEMORY = "Fit with the columns in memory, BayesRidge(endog, X)."

NOTHING_TO_EXPLAIN = "The unpenalised columns fit the response exactly: there is nothing to explain."
ZERO = (
    "The variance of the band {name!r} is estimated to be zero: all its coefficients are 0, without uncertainty. "
    "method={method!r} integrates over the variance."
)
ONE = (
    "The correlation {name} is estimated to be {value}: the effects of a level are multiples of each other. "
    "method={method!r} integrates over the correlation."
)
CERTAIN = 1e-3
"""A correlation this close to 1 or -1 is that, by Laplace's method or expectation propagation."""

NOTHING_TO_SHRINK = "No penalised column varies: there is nothing to shrink."
ONLY_EP = (
    "Expectation propagation is the only method for family='{family}': inclusion probabilities of strongly "
    "correlated columns are approximate."
)

OTHER_SCORES = " Other leave-one-out numbers count a prediction of this row that does not exist."

HEAVY = (
    "The columns of all bands together have rank 1, as one column has, or a group of two levels: the posterior of "
    "the standard deviation of a band has a mean and quantiles, but its tail is too heavy for a variance. "
    "variance_components() has inf for its sd."
)

UNCERTAIN_NATS = 0.1
"""Error of a log likelihood by rounding from which a selection with hardly any noise is uncertain."""

LITTLE_NOISE = (
    "The noise is so small relative to the response that rounding errors of sums of squares matter: inclusion "
    "probabilities, the noise variance, standard deviations and the log evidence are uncertain."
)

ZERO_ONE = "The response is 0 or 1, and modelled as a number: family='binomial' models the probability of 1."


def of_ridge(res: RidgeEstimates) -> list[Finding]:
    """Findings on the validity of a ridge, which cost nothing to find."""
    fit, design = res.ridge_fit, res.posterior.design
    vanishes = res.model.noise(res.dof).vanishes(design)
    out: list[Finding] = []

    def add(code: str, mask: BoolArray, text: str, category: type[Warning] | None) -> None:
        if mask.any():
            out.append(warning(code, text, category, _targets(res, mask)))

    add("nothing-to-explain", vanishes, NOTHING_TO_EXPLAIN, DegenerateFitWarning)
    nothing = np.full(vanishes.shape, design.p == 0)
    add("nothing-to-shrink", nothing & fit.null & ~vanishes, NOTHING_TO_SHRINK, DegenerateFitWarning)
    add(
        "no-signal",
        fit.null & ~nothing & ~vanishes,
        "No signal: all coefficients are shrunk to zero, the posterior has no interior mode.",
        DegenerateFitWarning,
    )
    unseen = (
        " (moments cannot detect residuals below 3e-7 of the response, nor the digits of coefficients that "
        "depend on such residuals)"
        if res.model.source.from_moments
        else ""
    )
    add(
        "exact-fit",
        fit.perfect,
        f"The columns fit the response exactly: least squares without noise{unseen}.",
        DegenerateFitWarning,
    )
    add(
        "unbounded",
        fit.unbounded,
        "The posterior has no interior mode: it does not decrease as the penalty tends to zero. lambda is a bound.",
        DegenerateFitWarning,
    )
    if not (fit.certain and res.model.precision_loss <= FEW_DIGITS and fit.loses_less(FEW_DIGITS)):
        out += lost_digits(res, certain=fit.certain)
    unfinished = ~fit.converged & ~fit.unbounded
    if unfinished.any():
        add("not-converged", unfinished, res.method_entry.unconverged(res.tol, res.maxiter), ConvergenceWarning)
    if fit.n_modes is not None:
        add(
            "several-modes",
            fit.n_modes > 1,
            "The posterior of tau2 has several modes; this is the highest. method='exact' averages over all modes.",
            None,
        )
    if fit.search is not None:
        add(
            "grid-edge",
            fit.search.edge,
            "The smallest cross-validation score lies on the edge of the grid: widen it, or use method='exact'.",
            GridEdgeWarning,
        )
    return out


def of_bands(res: BandEstimates) -> list[Finding]:
    """Findings on the validity of a ridge with bands."""
    fit, entry = res.band_fit, res.method_entry
    out: list[Finding] = []
    if not fit.converged.all():
        text = entry.unconverged(res.tol, res.maxiter)
        out.append(warning("not-converged", text, ConvergenceWarning, _targets(res, ~fit.converged)))
    if not entry.given:
        zero = fit.zero_variances
        for k, name in enumerate(res.bands.names):
            if zero[:, k].any():
                text = ZERO.format(name=name, method="exact")
                out.append(warning("singular", text, DegenerateFitWarning, _targets(res, zero[:, k])))
        certain = fit.certain_correlations
        for k, name in enumerate(res.correlation_names):
            for value in (1, -1):
                some = certain[:, k] == value
                if some.any():
                    text = ONE.format(name=name, value=value, method="exact")
                    out.append(warning("singular", text, DegenerateFitWarning, _targets(res, some)))
    return out + lost_digits(res)


def singular(res: VarianceComponents, zero: BoolArray, correlations: FloatArray) -> list[Finding]:
    """Findings on variances (K,) estimated to be zero, and correlations 1 or -1, of other responses."""
    texts = [ZERO.format(name=name, method="ep") for name, found in zip(res.bands.names, zero, strict=True) if found]
    for name, value in zip(res.correlation_names, correlations.tolist(), strict=True):
        if abs(value) > 1 - CERTAIN:
            texts.append(ONE.format(name=name, value=1 if value > 0 else -1, method="ep"))
    return [warning("singular", text, DegenerateFitWarning) for text in texts]


def intervals_of_bands(res: BandEstimates) -> Finding:
    """Finding on the uncertainty that the intervals of a ridge with bands account for."""
    return _intervals_of_bands(res, res.method_entry.intervals, "variance")


def heavy_variances(res: VarianceComponents) -> list[Finding]:
    """A note on standard deviations of bands whose posterior has no variance."""
    heavy = any(res.variance_grid(i).heavy for i in range(len(res.model.data.targets)))
    return [note("no-variance", HEAVY)] if heavy else []


def intervals_of_generalized_bands(res: Any) -> Finding:
    """The same of a ridge with bands of responses that are not Gaussian."""
    found = _intervals_of_bands(res, res.method_entry.intervals_by(res.solver), "the latent variance")
    return note(found.code, " ".join([found.text, *res.model.distribution.on_shape()]))


def _intervals_of_bands(res: Any, intervals: str, variance: str) -> Finding:
    prior = ""
    if res.method_entry.uses_prior:
        share = f"the share of {variance} that all bands explain"
        prior = f" {_prior_in_words(res, share)}"
        prior += " The bands' shares of it are Dirichlet(1/2, ..., 1/2)."
        if res.bands.sets:
            prior += " Correlations of effects have the LKJ prior with eta = 1."
    if res.bands.sets:
        prior += " Bands with correlated effects have the share of their term as a whole."
    scale, own = _scale(res), res.bands.own_scale[res.bands.of_column >= 0]
    if own.all():
        scale = "The prior is on the columns of groups and smooth curves as they are."
    elif own.any() and res.model.standardize:
        scale += " Columns of groups and smooth curves keep their scale."
    return note("intervals", f"{intervals} {scale}{prior}")


def on_reading_ridge(res: RidgeEstimates) -> list[Finding]:
    """Findings on how the numbers of a ridge are to be read."""
    fit, design = res.ridge_fit, res.posterior.design
    out = []
    if design.p == 0 and not fit.null.any():
        out.append(note("nothing-to-shrink", NOTHING_TO_SHRINK))
    information = res.arrays.penalty_information if design.p else None
    if information is not None:
        vanishes = res.model.noise(res.dof).vanishes(design)
        weak = (np.atleast_1d(information) <= LITTLE) & ~vanishes & ~fit.perfect
        if weak.any():
            text = "The data contain little information about lambda: its posterior is close to its prior."
            out.append(note("little-information", text, _targets(res, weak)))
    return [*out, *collinearity(res), *on_data(res)]


def collinearity(res: RidgeEstimates) -> list[Finding]:
    """A note on columns that are collinear, where they are; of columns in their own units only if it is exact."""
    p, condition = res.posterior.design.p, res.condition_number
    if p < 2 or condition <= COLLINEAR or (np.isfinite(condition) and not res.model.standardize):
        return []
    why = "linearly dependent"
    if p > res.model.nobs:
        why = f"{p:,} columns for {res.model.nobs:,} rows"
    elif np.isfinite(condition):
        why = f"condition number of the standardised columns: {number(condition)}"
    text = f"The columns are collinear ({why}): the data determine single coefficients poorly, predictions less so."
    return [note("collinear", text)]


def intervals_of_ridge(res: RidgeEstimates) -> Finding:
    """Finding on the uncertainty that the intervals of a ridge account for."""
    entry = res.method_entry
    what = entry.intervals_known_noise if res.model.noise().known else entry.intervals
    prior = f" {_prior_in_words(res)}" if entry.uses_prior else ""
    return note("intervals", f"{what} {_scale(res)}{prior}")


def _scale(res: LinearEstimates) -> str:
    scale = "standard deviations of the columns" if res.model.standardize else "the original columns"
    return f"The prior is on the scale of {scale}."


def _prior_in_words(
    res: RidgeEstimates | BandEstimates | GeneralizedEstimates, share: str = "the share of variance explained"
) -> str:
    prior = res.model.prior_of_tau2
    if prior.name == "r2":
        return f"A priori {share} is Beta(1/2, 1/2)."
    if prior.name == "half-cauchy":
        return "A priori tau is half-Cauchy."
    scaled = "tau2" if prior.scale == 1 else f"tau2 / {number(prior.scale or 1.0)}"
    return f"A priori {scaled} is beta-prime({number(prior.a)}, {number(prior.b)})."


def of_generalized(res: GeneralizedEstimates) -> list[Finding]:
    """Findings on the validity of a ridge of responses that are not Gaussian."""
    fit, out = res.sites_fit, []
    if fit.space.rank == 0:
        out.append(warning("nothing-to-shrink", NOTHING_TO_SHRINK, DegenerateFitWarning))
    elif fit.null:
        text = "No signal: all coefficients are shrunk to zero, the posterior has no interior mode."
        out.append(warning("no-signal", text, DegenerateFitWarning))
    if not res.converged:
        text = res.method_entry.unconverged(res.tol, res.maxiter)
        out.append(warning("not-converged", text, ConvergenceWarning))
    if fit.at_edge:
        text = "The best leave-one-out log score lies on the edge of the grid: widen it, or use method='ep'."
        out.append(warning("grid-edge", text, GridEdgeWarning))
    return out + lost_digits(res)


def intervals_of_generalized(res: GeneralizedEstimates) -> Finding:
    """Finding on the uncertainty that the intervals of a ridge of responses that are not Gaussian account for."""
    entry = res.method_entry
    prior = ""
    if entry.uses_prior:
        share = "the share of the latent variance explained"
        prior = f" {_prior_in_words(res, share)}"
    sentences = [entry.intervals_by(res.solver), f"{_scale(res)}{prior}"]
    return note("intervals", " ".join([*sentences, *res.model.distribution.on_shape()]))


def on_reading_generalized(res: GeneralizedEstimates) -> list[Finding]:
    """Findings on how the numbers of a ridge of responses that are not Gaussian are to be read."""
    out = [*on_separation(res), *without_loo_score(res), *rare_events(res)]
    if res.solver == "laplace" and not res.model.distribution.has_events:
        few = res.df_model + res.model.k_constant > LAPLACE * res.nobs
        return [*out, note("laplace", TAILS if few else NARROW), *on_data(res)]
    if res.solver == "laplace" and res.df_model + res.model.k_constant > LAPLACE * _rarest(res):
        text = (
            "Laplace's approximation is inaccurate with few events for each coefficient: compare with method='ep' "
            "(solver='ep')."
        )
        out.append(note("laplace", text))
    return out + on_data(res)


def on_reading_ordinal(res: Any) -> list[Finding]:
    """Findings on how the numbers of a ridge of ordered categories are to be read."""
    out, counts = [*on_separation(res), *without_loo_score(res)], res.category_counts
    few = [str(name) for name, rows in counts.items() if rows < FEW_EVENTS]
    if few:
        text = f"There are fewer than {FEW_EVENTS} rows in the categories {listed(few)}: the prior has much weight."
        out.append(note("rare-events", text))
    if res.solver == "laplace" and res.df_model + res.constants > LAPLACE * float(counts.min()):
        text = "Laplace's approximation is inaccurate with few rows in a category for each coefficient"
        more = ": compare with method='ep' (solver='ep')." if res.sites_fit.likelihood.factorises else "."
        out.append(note("laplace", text + more))
    return out + on_data(res)


def on_separation(res: Any) -> list[Finding]:
    """Notes on columns that separate the responses, and on too few counts: moments that do not exist."""
    out = []
    order = res.sites_fit.order
    if order <= 2:
        out.append(note("few-counts", FEW_COUNTS if order > 1 else f"{FEW_COUNTS} {MEDIANS}"))
    if not res.posterior.has_mean and order > 1:
        text = (
            "The columns separate the responses: the tail of the penalty's posterior is so heavy that coefficients "
            "have no posterior mean. params, and means on the scale of the link, are posterior medians"
            f"{'; probabilities have a mean' if res.model.distribution.has_mean else ''}."
            f"{IN_TAILS if res.sites_fit.split else ''}"
        )
        out.append(note("separation", text))
    elif res.sites_fit.separated:
        by_ep = IN_PARTS if res.sites_fit.split else BY_EP
        out.append(note("separation", f"{SEPARATED} {BY_LAPLACE if res.solver == 'laplace' else by_ep}"))
    return out


def without_loo_score(res: GeneralizedEstimates) -> list[Finding]:
    """A note on a row that has no prediction without itself."""
    if not res.no_loo_score:
        return []
    others = any(score.name != "log_score" for score in res.model.distribution.scores)
    return [note("no-loo-score", f"{res.no_loo_score}{OTHER_SCORES if others else ''}")]


def rare_events(res: Any) -> list[Finding]:
    """A note on few events or non-events, where they are few."""
    if not res.model.distribution.has_events:
        return []
    rare, trials = _rarest(res), getattr(res, "n_trials", None)
    if rare >= FEW_EVENTS:
        return []
    which = "event" if trials is None or res.n_events <= trials - res.n_events else "non-event"
    number = f"{rare:g}"
    counted = f"is only 1 {which}" if number == "1" else f"are only {number} {which}s"
    among = f"in {res.nobs:,.10g} rows" if trials is None else f"among {trials:.10g} trials"
    return [note("rare-events", f"There {counted} {among}: the prior has much weight.")]


def only_by_ep(res: Any) -> list[Finding]:
    """A note on selections of a family that has no exact method."""
    lane = res.model.lane
    return [] if "exact" in lane.methods else [note("only-ep", ONLY_EP.format(family=lane.family))]


def _rarest(res: Any) -> float:
    """The number of events, or of non-events if these are fewer."""
    trials = getattr(res, "n_trials", None)
    return float(res.n_events if trials is None else min(res.n_events, trials - res.n_events))


def of_spike_slab(res: SelectionEstimates) -> list[Finding]:
    """Findings on the validity of a spike-and-slab regression."""
    selection = res.posterior.selection
    out = []
    if selection.noiseless:
        out.append(warning("nothing-to-explain", NOTHING_TO_EXPLAIN, DegenerateFitWarning))
    if not res.converged:
        text = res.method_entry.unconverged(selection, res.tol)
        out.append(warning("not-converged", text, ConvergenceWarning))
    if res.evidence_biased:
        active = int(sum(r.active.sum() for r in selection.results))
        text = (
            f"Constraints are active on {active} site(s): the log evidence is biased and cannot be compared with "
            "that of other fits, and the standard errors of columns whose inclusion probability is between 0.05 and "
            "0.95 can be biased too; use method='ep'."
        )
        out.append(warning("biased-evidence", text))
    return [*out, *_of_little_noise(res), *of_approximation(res), *lost_digits(res)]


def _of_little_noise(res: Any) -> list[Finding]:
    """Finding on columns that explain all of the response but what rounding errors may be."""
    found = res.uncertain_nats > UNCERTAIN_NATS
    return [warning("little-noise", LITTLE_NOISE, PrecisionWarning)] if found else []


def of_approximation(res: SelectionEstimates) -> list[Finding]:
    """Findings on the error of expectation propagation: measured, or suspected from correlations."""
    if res.check is not None:
        return [_of_check(res, res.check)]
    if not res.doubts:
        return []
    names = res.unit_names
    contradicted = [doubt for doubt in res.doubts if doubt.contradicted]
    shown = contradicted or list(res.doubts)
    pairs = [
        f"{listed([names[d.unit]])} and {listed([names[d.partner]])} (absolute correlation {d.correlation:.2f})"
        for d in shown[:PAIRS]
    ]
    which, more = ", ".join(pairs), len(shown) - PAIRS
    if more > 0:
        which += f" and {more} more pair{'s' if more > 1 else ''}"
    if contradicted:
        text = (
            "The inclusion probabilities by expectation propagation are unreliable for correlated columns that can "
            f"replace each other: {which}. Conditional on the other columns they are wrong by up to "
            f"{shown[0].error:.2f}. Use method='exact'."
        )
        return [warning("approximation-contradicted", text, ApproximationWarning)]
    measured = "; check=True measures the error" if "check" in res.method_entry.options else ""
    text = (
        "The inclusion probabilities by expectation propagation can be inaccurate for correlated columns that can "
        f"replace each other: {which}. method='exact' gives the exact ones{measured}."
    )
    return [note("approximation-doubtful", text)]


def _of_check(res: SelectionEstimates, check: Check) -> Finding:
    """Finding on the largest difference of an inclusion probability from the exact one."""
    size = np.abs(check.difference)
    worst = int(size.argmax())
    clear = np.flatnonzero((size > TOLERABLE) & (size > CLEAR * check.se))
    if clear.size:
        worst = int(clear[size[clear].argmax()])
    sampled = f" with Monte Carlo standard error {check.se[worst]:.3f}" if check.se[worst] > 0 else ""
    text = (
        f"The largest error of an inclusion probability by expectation propagation is {size[worst]:.3f}: that of "
        f"{listed([res.penalized_names[worst]])} is {check.by_ep[worst]:.3f}, the exact one at the same "
        f"hyperparameters {check.exact[worst]:.3f}{sampled}."
    )
    if clear.size:
        text = f"{text.removesuffix('.')}; use method='exact'."
        return warning("approximation-error", text, ApproximationWarning)
    return note("approximation-error", text)


def intervals_of_spike_slab(res: SelectionEstimates) -> Finding:
    """Finding on the uncertainty that the intervals of a spike-and-slab regression account for."""
    entry = res.method_entry
    what = entry.intervals_integrated if res.posterior.selection.integrated else entry.intervals
    return note("intervals", " ".join([f"{what} {_scale(res)}", *res.model.distribution.on_shape()]))


def on_reading_spike_slab(res: SelectionEstimates) -> list[Finding]:
    """Findings on how the numbers of a spike-and-slab regression are to be read."""
    out = on_data(res)
    large = res.group_members()
    if large:
        text = (
            f"The columns of a group ({listed(large)}) are included or excluded together; their PIP is the group's, "
            "and prior_inclusion applies to groups."
        )
        out.append(note("groups", text))
    out += credible_sets_in_words(res)
    chosen = res.median_model()
    names = ", ".join(chosen[:20]) + (f" and {len(chosen) - 20} more" if len(chosen) > 20 else "")
    return [*out, note("median-model", f"Median probability model: {names or 'no column'}.")]


def credible_sets_in_words(res: SelectionEstimates) -> list[Finding]:
    """A note on each credible set of several columns or groups."""
    sets = res.exchangeable_sets
    names = res.unit_names if sets else []
    out = [
        note(
            "credible-set",
            f"Credible set {which}: {listed(names[j] for j in one.units)}. At least one of them is included with "
            f"probability {one.probability:.2f}; their least absolute correlation is {one.purity:.2f}.",
        )
        for which, one in list(sets.items())[:SETS]
    ]
    more = len(sets) - SETS
    if more > 0:
        what = "There is 1 more credible set" if more == 1 else f"There are {more} more credible sets"
        out.append(note("more-credible-sets", f"{what} of several columns: see credible_sets()."))
    return out


def lost_digits(res: LinearEstimates, *, certain: bool = True) -> list[Finding]:
    """A finding on digits that are lost or uncertain, where there are such."""
    loss, moments = res.precision_loss, res.model.source.from_moments
    in_blocks = res.posterior.design.in_blocks
    if loss <= FEW_DIGITS:
        if certain:
            return []
        what, remedy = "Moments cannot show whether nearly collinear columns", "Fit from rows, or remove columns."
        if not moments:
            what, remedy = "Cross-products cannot show whether nearly linearly dependent rows", IN_MEMORY
        text = f"{what} explain more of the response at a smaller penalty, so that the fit is not certain. {remedy}"
        return [warning("uncertain-digits", text, PrecisionWarning)]
    digits = max(0, int(-np.log10(loss)))
    if not moments and loss <= res.model.precision_loss:
        text = (
            f"Rounding errors limit this fit to about {digits} digits: unpenalised columns are nearly collinear. "
            "Penalise or remove some of them."
        )
        return [warning("lost-digits", text, PrecisionWarning)]
    text = (
        f"This fit from moments is accurate to about {digits} digits: columns are nearly collinear, or nearly all of "
        "the response or of a column is explained. Fit from rows, or remove columns."
        if moments
        else f"Rounding errors limit this fit to about {digits} digits: {'rows or ' if in_blocks else ''}columns are "
        "nearly collinear, or explain nearly all of the response, and the penalty is small. "
        f"{IN_MEMORY if in_blocks else 'Remove columns.'}"
    )
    return [warning("lost-digits", text, PrecisionWarning)]


def on_data(res: LinearEstimates) -> list[Finding]:
    """Findings on columns and rows; the same for both families."""
    data, out = res.model.data, []
    flat = res.model.flat_columns(res.posterior.design)
    if flat:
        out.append(note("constant-columns", f"Constant column(s), coefficient 0: {listed(flat)}."))
    if data.const_idx is not None:
        name = data.exog_columns[data.const_idx]
        out.append(note("constant-serves", f"The column {name!r} serves as the intercept."))
    if data.n_dropped:
        out.append(note("rows-left-out", f"{data.n_dropped} row(s) with missing values were left out."))
    if res.model.weighted:
        out.append(note("weights", res.model.distribution.on_weights))
    zero_one = res.model.zero_one
    if zero_one is not None and zero_one.any():
        out.append(note("yes-no-response", ZERO_ONE, _targets(res, zero_one)))
    return out


def _targets(res: LinearEstimates, mask: BoolArray) -> tuple[str, ...]:
    return () if res.model.one_target else tuple(np.array(res.model.data.targets, dtype=object)[mask].tolist())
