"""The contents of a report."""

from __future__ import annotations

import platform
from datetime import UTC, datetime
from importlib.metadata import version
from types import ModuleType
from typing import TYPE_CHECKING, cast

from pybayesridge import __version__
from pybayesridge.formula.spec import factor_levels
from pybayesridge.report import binary, binary_selection, ridge, spike_slab
from pybayesridge.report.checks import add_model_checks
from pybayesridge.report.parts import Origin, Page, Remark
from pybayesridge.report.shared import Album, rows_there
from pybayesridge.text import TARGETS, number

if TYPE_CHECKING:
    from pybayesridge.models.base import LinearModel
    from pybayesridge.results.base import LinearResults
    from pybayesridge.results.binary import BinaryRidgeResults

PACKAGES = ("numpy", "scipy", "pandas", "statsmodels", "formulaic")

PICTURED = 3
"""With several targets so many get pictures."""

CITE_PACKAGE = (
    "The pybayesridge developers. pybayesridge: Bayesian linear models for people who read regression tables."
)

FAMILIES: dict[tuple[str, str], ModuleType] = {
    ("BayesRidge", "gaussian"): ridge,
    ("BayesRidge", "binomial"): binary,
    ("SpikeSlab", "gaussian"): spike_slab,
    ("SpikeSlab", "binomial"): binary_selection,
}
"""The module that writes the report of each model and family of the response."""


def contents(
    res: LinearResults,
    *,
    title: str | None,
    question: str | None,
    target: int | None,
    alpha: float,
    origin: Origin | None,
) -> Page:
    """Everything the report says about results (without their wrapper)."""
    family = FAMILIES[res.family, res.model.family]
    names = res.model.data.targets
    wanted = list(range(len(names))) if target is None else [target]
    album = Album()
    findings = res.findings if origin is None else origin.findings
    targets = []
    for k, i in enumerate(wanted[:TARGETS]):
        pictures = album if k < PICTURED or len(wanted) == 1 else None
        part = family.target(res, i, pictures, alpha)
        add_model_checks(part, res, i, pictures, alpha)
        part.name = part.name if len(names) > 1 else ""
        targets.append(part)
    of = names[wanted[0]] if len(wanted) == 1 else f"{len(wanted)} responses"
    return Page(
        title=title or f"{family.NAME} of {of}",
        question=question,
        family=res.family,
        method=res.method,
        facts=facts(res),
        factors=[] if res.model.formula_spec is None else factor_levels(res.model.formula_spec),
        model=family.model(res),
        words=family.words(res),
        remarks=[Remark(found.severity, found.sentence) for found in findings],
        overview=family.overview(res, wanted) if len(wanted) > 1 else None,
        targets=targets,
        left_out=[names[i] for i in wanted[TARGETS:]],
        call=res.recipe.code if origin is None else origin.call,
        named=res.recipe.named if origin is None else {},
        versions=[*([] if origin is None else origin.versions), *versions()],
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        citations=[f"{CITE_PACKAGE} Version {__version__}.", *family.citations(res)],
        missing=missing(res),
    )


def missing(res: LinearResults) -> list[str]:
    """Sentences about what is not in the report because the rows were removed."""
    if rows_there(res):
        return []
    path = "" if res.has_joint_posterior else ", the path of the coefficients"
    return [
        "These results do not contain the rows of the data (they were fitted from moments, saved without rows, or "
        f"the rows were removed). Residuals, fitted and leave-one-out values, leverages{path} and the summary of the "
        "response are therefore not shown; everything else is unaffected."
    ]


def facts(res: LinearResults) -> list[tuple[str, str]]:
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
    if model.family == "binomial":
        binary = cast("BinaryRidgeResults", res)
        out.append(("Event", f"{binary.event}: {number(binary.n_events, 15)} of {number(binary.n_trials, 15)}"))
    elif rows_there(res) and len(names) == 1:
        y = model.endog
        spread = f"mean {number(y.mean())}, standard deviation {number(y.std())}"
        out.append(("Values of the response", f"{spread}, from {number(y.min())} to {number(y.max())}"))
    return out


def _some(names: list[str]) -> str:
    return ", ".join(names[:12]) + (f" and {len(names) - 12:,} more" if len(names) > 12 else "")


def _weights(model: LinearModel) -> str:
    if not model.weighted:
        return "none"
    kind = "precision" if model.family == "gaussian" else "frequency"
    weights = model.weights
    if weights is None:
        return f"{kind} weights (no longer with the results)"
    if kind == "frequency" and model.data.weights is not None:
        return f"frequency weights, {number(model.data.weights.min())} to {number(model.data.weights.max())}"
    low, high = number(weights.min()), number(weights.max())
    return f"precision weights, {low} to {high} times their mean"


def versions() -> list[tuple[str, str]]:
    """Python's and the packages' versions."""
    out = [("pybayesridge", __version__), ("Python", platform.python_version())]
    return out + [(name, version(name)) for name in PACKAGES]
