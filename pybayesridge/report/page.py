"""The contents of a report."""

from __future__ import annotations

import platform
from datetime import UTC, datetime
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from pybayesridge._version import __version__
from pybayesridge.formula.spec import factor_levels
from pybayesridge.report import bands, inclusion, penalty, pooled, scores
from pybayesridge.report.checks import add_model_checks
from pybayesridge.report.coefficients import cut_points, ratios
from pybayesridge.report.effects import add_effects
from pybayesridge.report.figures import Album
from pybayesridge.report.parts import Origin, Page, Remark, Target, rows_there
from pybayesridge.text import TARGETS, number

if TYPE_CHECKING:
    from pybayesridge.models.base import LinearModel
    from pybayesridge.results.estimates import LinearEstimates

MODELS: dict[str, Any] = {"BayesRidge": penalty, "SpikeSlab": inclusion}
"""What the prior of each model makes of the coefficients."""

PACKAGES = ("numpy", "scipy", "pandas", "statsmodels", "formulaic")

PICTURED = 3
"""With several targets so many get pictures."""

CITE_PACKAGE = (
    "The pybayesridge developers. pybayesridge: Bayesian linear models for people who read regression tables."
)


def contents(
    res: Any,
    *,
    title: str | None,
    question: str | None,
    target: int | None,
    alpha: float,
    origin: Origin | None,
) -> Page:
    """Everything the report says about the results of a fit, or of several that are pooled."""
    first = res.parts[0]
    prior = bands if first.model.lane.bands else MODELS[first.model_name]
    shown = prior if len(res.parts) == 1 else pooled
    family = res.model.distribution
    names = res.model.data.targets
    wanted = list(range(len(names))) if target is None else [target]
    album = Album()
    findings = res.findings if origin is None else origin.findings
    targets = []
    for k, i in enumerate(wanted[:TARGETS]):
        targets.append(_target(res, shown, i, album if k < PICTURED or len(wanted) == 1 else None, alpha))
    of = names[wanted[0]] if len(wanted) == 1 else f"{len(wanted)} responses"
    return Page(
        title=title or f"{_name(res, prior)}{'' if family.is_linear else f' ({family.name})'} of {of}",
        question=question,
        model_name=first.model_name,
        method=first.method,
        facts=facts(first) if shown is prior else [("Completed data sets", f"{len(res.parts)}"), *facts(first)],
        factors=[] if res.model.formula_spec is None else factor_levels(res.model.formula_spec),
        model=_formulas(first) | prior.formulas(first),
        words=[*prior.words(first), *pooled.words(res)],
        remarks=[Remark(found.severity, found.sentence) for found in findings],
        overview=shown.overview(res, wanted) if len(wanted) > 1 else None,
        targets=targets,
        left_out=[names[i] for i in wanted[TARGETS:]],
        call=first.recipe.code if origin is None else origin.call,
        named=first.recipe.named if origin is None else {},
        versions=[*([] if origin is None else origin.versions), *versions()],
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        citations=[f"{CITE_PACKAGE} Version {__version__}.", *prior.citations(first)],
        missing=missing(first),
    )


def _name(res: Any, prior: Any) -> str:
    """What was fitted."""
    return str(prior.NAME) if len(res.parts) == 1 else f"Pooled {prior.NAME}"


def _target(res: Any, prior: Any, i: int, album: Album | None, alpha: float) -> Target:
    """Everything about one target: each part of the report says what the fit has of it."""
    names, family, single = res.model.data.targets, res.model.distribution, len(res.parts) == 1
    out = Target(names[i] if len(names) > 1 else "")
    shown = prior.coefficients(res, i, alpha)
    out.results.tables = [
        *ratios(res, shown, alpha),
        shown.table,
        *cut_points(res, alpha),
        *prior.tables(res, i, alpha),
        *(scores.tables(res, alpha) if single else []),
    ]
    of_family = [*family.findings(res), *scores.findings(res)] if single else []
    out.findings = [*of_family, *prior.findings(res, i, shown, alpha)]
    of_rows = scores if family.scores and single else prior
    out.prediction.texts = of_rows.check(res, i)
    out.remarks = prior.remarks(res, i)
    if album is not None:
        out.drawn.pictures = prior.pictures(res, i, album, alpha)
        if rows_there(res):
            out.prediction.pictures = of_rows.row_by_row(res, i, album)
        add_effects(out, res, i, album, alpha)
    add_model_checks(out, res, i, album, alpha)
    return out


def _formulas(res: LinearEstimates) -> dict[str, object]:
    """Values on which the formulas of the rows depend."""
    family = res.model.distribution
    return {
        "family": family.name,
        "link": family.link,
        "weights": res.model.weighted,
        "per_row": res.model.per_row,
    } | dict(family.attributes)


def missing(res: LinearEstimates) -> list[str]:
    """Sentences about what is not in the report because the rows were removed."""
    if rows_there(res):
        return []
    path = "" if res.has_joint_posterior else ", the path of the coefficients"
    return [
        "These results do not contain the rows of the data (they were fitted from moments, saved without rows, or "
        f"the rows were removed). Residuals, fitted and leave-one-out values, leverages{path} and the summary of the "
        "response are therefore not shown; everything else is unaffected."
    ]


def facts(res: LinearEstimates) -> list[tuple[str, str]]:
    """Facts about the data, as pairs of a name and a value."""
    model, data, design = res.model, res.model.data, res.posterior.design
    names = data.targets
    out = [("Response" if len(names) == 1 else f"Responses ({len(names)})", _some(names))]
    if model.formula_spec is not None:
        out.append(("Formula", model.formula_spec.formula))
    dropped = f"{data.n_dropped:,} omitted (missing values)" if data.n_dropped else "none omitted"
    out.append(("Rows", f"{model.nobs:,} used; {dropped}"))
    out.append(("Columns with a prior", f"{design.p:,}"))
    free = [model.exog_names[i] for i in model.positions(design)[0]]
    out.append(("Columns with a flat prior", _some(free) if free else "none"))
    flat = model.flat_columns(design)
    if flat:
        out.append(("Constant columns, coefficient 0", _some(flat)))
    scale = "standard deviations of the columns" if model.standardize else "the columns as given"
    out.append(("Scale of the prior", scale))
    out.append(("Weights", _weights(model)))
    of_response = model.distribution.about_response(res)
    return out if of_response is None else [*out, of_response]


def _some(names: list[str]) -> str:
    return ", ".join(names[:12]) + (f" and {len(names) - 12:,} more" if len(names) > 12 else "")


def _weights(model: LinearModel) -> str:
    if not model.weighted:
        return "none"
    kind, relative = f"{model.distribution.weights_are} weights", not model.distribution.counts_rows
    weights = model.weights if relative else model.data.weights
    if weights is None:
        return f"{kind} (not with the results)"
    return f"{kind}, {number(weights.min())} to {number(weights.max())}{' times their mean' if relative else ''}"


def versions() -> list[tuple[str, str]]:
    """Python's and the packages' versions."""
    out = [("pybayesridge", __version__), ("Python", platform.python_version())]
    return out + [(name, version(name)) for name in PACKAGES]
