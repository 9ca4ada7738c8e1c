"""Ridge regression of Gaussian responses with a penalty for each band of columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pybayesridge._types import BoolArray, FloatArray
from pybayesridge.bands.fit import LOOSE, MOST_BANDS, MOST_TARGETS, ORDERS, ExactFitError, least_of
from pybayesridge.bands.methods import BandMethod, BandOptions
from pybayesridge.bands.mixed import MOST_COLUMNS, MOST_SAMPLED
from pybayesridge.bands.mixed_problem import MixedProblem, with_columns
from pybayesridge.bands.problem import LEAST_SHARE, BandProblem, EmptyBandError
from pybayesridge.bands.simplex import LARGEST
from pybayesridge.data.bands import Bands
from pybayesridge.data.prepare import in_order
from pybayesridge.design.design import Design
from pybayesridge.recipes import Recipe
from pybayesridge.results.bands import BandRidgeResults
from pybayesridge.sites.band_methods import BandSitesMethod
from pybayesridge.text import listed

if TYPE_CHECKING:
    from pybayesridge.models.ridge import BayesRidge

COLUMN_UNITS = 1e50
"""Largest standard deviation of a column, and the inverse of the least: fourth powers of columns are summed."""

RESPONSE_UNITS = 1e100
"""Likewise of a response, which is squared."""


def fit(model: BayesRidge, entry: BandMethod, options: dict[str, Any], recipe: Recipe) -> BandRidgeResults:
    """Fit a model with bands by one of its methods with checked options."""
    bands = model.bands
    assert bands is not None
    if entry.integrates and len(bands.names) > MOST_BANDS:
        raise ValueError(
            f"method={entry.name!r} integrates over the penalties of at most {MOST_BANDS} bands, and there are "
            f"{len(bands.names)}: join some of them, or use method='em' or 'reml'"
        )
    if entry.integrates and len(bands.names) > max(ORDERS) and len(model.data.targets) > MOST_TARGETS:
        raise ValueError(
            f"method={entry.name!r} with more than {max(ORDERS)} bands takes at most {MOST_TARGETS} responses, and "
            f"there are {len(model.data.targets)}: fit some at a time, join bands, or use method='em' or 'reml'"
        )
    if options["maxiter"] is not None:
        _check_maxiter(model, options["maxiter"], options["tol"])
    lam = options["lam"]
    chosen = BandOptions(
        tol=options["tol"],
        maxiter=options["maxiter"],
        parameterization=options["parameterization"],
        log_variance=None if lam is None else -np.log(penalties_of(lam, bands)),
    )
    noise = model.noise()
    mixed = bool(bands.sets) or bands.eliminated is not None
    made = mixed_problem if mixed else _problem
    if bands.sets:
        check_correlated(model, entry)
    if bands.eliminated is not None:
        _check_large(model, entry)

    def make(design: Any, products: Any) -> BandProblem | MixedProblem:
        check_units(model, design)
        return made(design, products, bands)

    _, problem = model.prepare(make)
    # What the bands are made of is as large as X'X for each of them, and takes one pass to make again.
    model.prepared = None
    if chosen.log_variance is not None:
        size = problem.terms.size if isinstance(problem, MixedProblem) else problem.size
        _check_given(chosen.log_variance + np.log(size), bands.names)
    if bands.sets and entry.uses_prior:
        check_far(problem, bands)
    try:
        fitting = entry.fit_mixed if mixed else entry.fit
        found = fitting(problem, model.prior_of_tau2, noise, chosen)
    except ExactFitError as error:
        names = [name for name, exact in zip(model.data.targets, error.targets, strict=True) if exact]
        raise ValueError(
            f"the columns fit {listed(names)} exactly, so that nothing tells the penalties of the bands: leave out "
            "columns, or fit without bands"
        ) from None
    return BandRidgeResults(
        model,
        found,
        method=entry.name,
        tol=chosen.tol,
        maxiter=chosen.maxiter,
        parameterization=chosen.parameterization,
        recipe=recipe,
    )


def _check_maxiter(model: BayesRidge, maxiter: int, tol: float) -> None:
    """Refuse a limit of decompositions where errors of so few would not be known, and one below the fewest."""
    bands = model.bands
    assert bands is not None
    count = len(bands.names)
    mixed = bool(bands.sets) or bands.eliminated is not None
    if mixed or len(model.data.targets) == 1 or count not in LARGEST or tol < LOOSE:
        raise ValueError(
            "with bands maxiter limits the decompositions of several responses with two or three bands and "
            f"tol={LOOSE:g} or more: leave it out, or raise tol"
        )
    least = least_of(count)
    if maxiter < least:
        raise ValueError(f"maxiter must be at least {least} with {count} bands, got {maxiter}")


def check_units(model: BayesRidge, design: Design) -> None:
    """Refuse columns in units of their own, and responses, of which fourth powers, or squares, cannot be computed."""
    bands = model.bands
    assert bands is not None
    own = bands.own_scale[design.columns] & design.standardized_columns
    far = np.flatnonzero(own & ~_within(design.sd, COLUMN_UNITS))
    if far.size:
        band = bands.names[bands.of_column[design.columns[far[0]]]]
        raise ValueError(
            f"a column of {band!r} has a standard deviation of {design.sd[far[0]]:.3g}, and it must be between "
            f"{1 / COLUMN_UNITS:g} and {COLUMN_UNITS:g}: measure the variable in other units"
        )
    size = design.y_norm / np.sqrt(design.n)
    far = np.flatnonzero(~_within(size, RESPONSE_UNITS) & ~design.y_vanishes)
    if far.size:
        raise ValueError(
            f"{model.data.targets[far[0]]!r} has a standard deviation of {size[far[0]]:.3g}, and with several "
            f"penalties it must be between {1 / RESPONSE_UNITS:g} and {RESPONSE_UNITS:g}: measure it in other units"
        )


def _within(size: FloatArray, most: float) -> BoolArray:
    out: BoolArray = (size >= 1 / most) & (size <= most)
    return out


def _problem(design: Any, products: Any, bands: Bands) -> BandProblem:
    of_column = bands.of_column[design.columns]
    missing = np.setdiff1d(np.arange(len(bands.names)), of_column)
    try:
        if missing.size:
            raise EmptyBandError(int(missing[0]))
        return BandProblem.of(design, products, of_column, bands.own_scale[design.columns])
    except EmptyBandError as error:
        raise ValueError(f"no column of band {bands.names[error.band]!r} varies: leave the band out") from None


def _check_given(log_total: FloatArray, names: Sequence[str]) -> None:
    """Refuse given variances, as logs of the totals of the bands (K,), that are too far apart to compute with."""
    least, most = int(log_total.argmin()), int(log_total.argmax())
    if log_total[most] - log_total[least] > -np.log(LEAST_SHARE):
        raise ValueError(
            f"with these penalties band {names[least]!r} has less than {LEAST_SHARE:g} times the prior variance of "
            f"band {names[most]!r}, in units of the fit, which is too little to compute with: leave "
            f"{names[least]!r} out, name the columns of {names[most]!r} in `unpenalized`, or give a penalty in the "
            "units of the columns"
        )


def check_correlated(model: BayesRidge, entry: BandMethod | BandSitesMethod) -> None:
    """Refuse what correlated effects cannot be fitted by, or to."""
    bands, spec = model.bands, model.formula_spec
    assert bands is not None
    # R has read the formula itself.
    first = listed(bands.names[k] for k in bands.sets[0])
    if spec is not None:
        first = next(band.correlated for band in spec.bands if band.correlated)
    if not entry.correlations:
        known = [name for name, other in model.methods.items() if other.correlations]
        raise ValueError(
            f"method={entry.name!r} does not estimate the correlation of the effects of {first}: use "
            f"{' or '.join(map(repr, known))}, or write (x || g) for independent effects"
        )
    penalized = int((bands.of_column >= 0).sum())
    if bands.eliminated is None and penalized > MOST_COLUMNS:
        raise ValueError(
            f"correlated effects, as those of {first}, take at most {MOST_COLUMNS:,} penalised columns, and there "
            f"are {penalized:,}: write (x || g) for independent effects, or use groups with fewer levels"
        )
    check_dimensions(model, entry, MOST_SAMPLED, f"where effects are correlated, as those of {first} are", "(x || g)")


def _check_large(model: BayesRidge, entry: BandMethod) -> None:
    """Refuse what groups with very many levels cannot be fitted by, or beside."""
    bands = model.bands
    assert bands is not None
    assert bands.eliminated is not None
    name = bands.names[bands.eliminated]
    levels = bands.members(bands.eliminated).size
    rest = int((bands.of_column >= 0).sum()) - levels
    if rest > MOST_COLUMNS:
        raise ValueError(
            f"beside the {levels:,} levels of {name!r} there may be {MOST_COLUMNS:,} other penalised columns, and "
            f"there are {rest:,}: use groups with fewer levels"
        )
    where = f"where a group has as many levels as {name!r} ({levels:,})"
    check_dimensions(model, entry, MOST_SAMPLED, where, "fewer terms")


def check_dimensions(
    model: BayesRidge,
    entry: BandMethod | BandSitesMethod,
    most: int,
    where: str,
    remedy: str,
    instead: str = ", or use method='reml'",
) -> None:
    """Refuse more variances and correlations, or targets, than a lattice is made for."""
    bands, targets = model.bands, len(model.data.targets)
    assert bands is not None
    count = len(bands.names)
    if entry.integrates and bands.dimension > most:
        raise ValueError(
            f"method={entry.name!r} integrates over at most {most} variances and correlations {where}, "
            f"and there are {count} and {bands.dimension - count}: write {remedy}{instead}"
        )
    if entry.integrates and targets > MOST_TARGETS:
        raise ValueError(
            f"method={entry.name!r} takes at most {MOST_TARGETS} responses {where}, and there are {targets}: fit "
            "some at a time, or use method='reml'"
        )


def mixed_problem(design: Any, products: Any, bands: Bands) -> MixedProblem:
    """The problem whose equations are solved for each set of variances.

    Columns of correlated effects stay also where they are zero in every row.
    """
    members = np.flatnonzero(np.isin(bands.of_column, [k for each in bands.sets for k in each]))
    design = with_columns(design, np.intersect1d(members, design.constant))
    try:
        out = MixedProblem.of(
            design,
            bands.of_column[design.columns],
            bands.own_scale[design.columns],
            bands.sets,
            bands.eliminated,
        )
    except EmptyBandError as error:
        raise ValueError(f"no column of band {bands.names[error.band]!r} varies: leave the band out") from None
    return out


def check_far(problem: MixedProblem, bands: Bands) -> None:
    """Refuse a prior of correlations that depends on where a variable is zero, far from all of its values."""
    for first, second in problem.far_from_zero:
        raise ValueError(
            f"the effects {bands.names[first]!r} and {bands.names[second]!r} are correlated, and the variable is so "
            "far from zero for its spread that they say nearly the same: subtract a typical value, as in "
            "(center(x) | g)"
        )


def penalties_of(lam: Any, bands: Bands) -> FloatArray:
    """The penalty of each band, (K,)."""
    names = list(bands.names)
    lam = in_order("lam", lam, names, "bands")
    try:
        out = np.array(lam, dtype=np.float64)
    except (TypeError, ValueError):
        out = np.empty(0)
    if out.shape != (len(names),):
        raise ValueError(f"lam must have a penalty for each of the {len(names)} bands {listed(names)}")
    if not (np.isfinite(out) & (out > 0)).all():
        raise ValueError(
            f"lam must be positive and finite, not {out.tolist()}: name columns that are not to be shrunk in "
            "`unpenalized`"
        )
    return out
