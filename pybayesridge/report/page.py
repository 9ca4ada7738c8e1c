"""The contents of a report: what both families have in common."""

from __future__ import annotations

import platform
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import numpy as np

from pybayesridge._types import FloatArray
from pybayesridge.formula import build as formula
from pybayesridge.plots.frame import height_for
from pybayesridge.report.figures import svg
from pybayesridge.report.parts import Origin, Page, Picture, Remark
from pybayesridge.results.summary.tables import TARGETS
from pybayesridge.text import listed, number

PACKAGES = ("numpy", "scipy", "pandas", "statsmodels", "formulaic")

LARGE = 4.0
"""Of standardised residuals; one normal one in 16,000 is as large."""

PICTURED = 3
"""With several targets so many get pictures."""

CITE_PACKAGE = (
    "The pybayesridge developers. pybayesridge: Bayesian linear models for people who read regression tables."
)


class Album:
    """Draws pictures and counts them, so that their ids stay apart."""

    def __init__(self) -> None:
        self.count = 0

    def picture(self, draw: Callable[..., Any], caption: str, width: float = 7.0, height: float = 4.2) -> Picture:
        """The picture that ``draw(ax=...)`` makes, with a caption."""
        self.count += 1
        return Picture(svg(draw, self.count, width, height), caption)

    def rows(self, draw: Callable[..., Any], caption: str, count: int) -> Picture:
        """Likewise of a picture with a row for each of `count` names."""
        return self.picture(draw, caption, height=height_for(count))


def contents(
    res: Any, *, title: str | None, question: str | None, target: int | None, alpha: float, origin: Origin | None
) -> Page:
    """Everything the report says about results (without their wrapper)."""
    from pybayesridge.report import ridge, spike_slab
    from pybayesridge.results.ridge import BayesRidgeResults

    family: Any = ridge if isinstance(res, BayesRidgeResults) else spike_slab
    names = res.model.data.targets
    wanted = list(range(len(names))) if target is None else [target]
    album = Album()
    targets = [
        family.target(res, i, album if k < PICTURED or len(wanted) == 1 else None, alpha)
        for k, i in enumerate(wanted[:TARGETS])
    ]
    for part in targets:
        part.name = part.name if len(names) > 1 else ""
    of = names[wanted[0]] if len(wanted) == 1 else f"{len(wanted)} responses"
    return Page(
        title=title or f"{family.NAME} of {of}",
        question=question,
        family=type(res.model).__name__,
        method=res.method,
        facts=facts(res),
        factors=[] if res.model.formula_spec is None else formula.factor_levels(res.model.formula_spec),
        model=family.model(res),
        words=family.words(res),
        remarks=[Remark(_kind(note), note) for note in (res.notes if origin is None else origin.notes)],
        overview=family.overview(res, wanted) if len(wanted) > 1 else None,
        targets=targets,
        left_out=[names[i] for i in wanted[TARGETS:]],
        call=call(res, family.arguments(res), family.fit_arguments(res)) if origin is None else origin.call,
        explained=family.explained(res) if origin is None else "",
        versions=[*([] if origin is None else origin.versions), *versions()],
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        citations=[f"{CITE_PACKAGE} Version {version('pybayesridge')}.", *family.CITE],
        missing=missing(res),
    )


def _kind(note: str) -> str:
    alarming = ("NOT CONVERGED", "No signal", "No interior mode", "several modes", "edge of the grid", "biased")
    return "warning" if any(word in note for word in alarming) else "note"


def rows_there(res: Any) -> bool:
    """Whether the rows of the data are still with the results."""
    return res.model.endog is not None


def missing(res: Any) -> list[str]:
    """Sentences about what is not in the report because the rows were removed."""
    if rows_there(res):
        return []
    path = "" if res._joint else ", the path of the coefficients"
    return [
        "These results do not contain the rows of the data (they were fitted from moments, saved without rows, or "
        f"the rows were removed). Residuals, fitted and leave-one-out values, leverages{path} and the summary of the "
        "response are therefore not shown; everything else is unaffected."
    ]


def facts(res: Any) -> list[tuple[str, str]]:
    """Facts about the data, as pairs of a name and a value."""
    model, data, design = res.model, res.model.data, res._posterior.design
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
    if rows_there(res) and len(names) == 1:
        y = model.endog
        spread = f"mean {number(y.mean())}, standard deviation {number(y.std())}"
        out.append(("Values of the response", f"{spread}, from {number(y.min())} to {number(y.max())}"))
    return out


def _some(names: list[str]) -> str:
    return ", ".join(names[:12]) + (f" and {len(names) - 12:,} more" if len(names) > 12 else "")


def _weights(model: Any) -> str:
    if not model.weighted:
        return "none"
    if model.weights is None:
        return "precision weights (no longer with the results)"
    low, high = number(model.weights.min()), number(model.weights.max())
    return f"precision weights, {low} to {high} times their mean"


def call(res: Any, arguments: list[str], fit_arguments: list[str]) -> str:
    """The Python code that makes such a fit again."""
    model = res.model
    name = type(model).__name__
    spec = model.formula_spec
    given = [repr(spec.formula), "data"] if spec is not None else ["endog", "exog"]
    data = model.data
    if spec is None and data.intercept_name is None and data.const_idx is None:
        given.append("intercept=False")
    free = [data.exog_columns[j] for j in data.unpenalized if j != data.const_idx]
    if free:
        given.append(f"unpenalized={free!r}")
    if model.weighted:
        given.append("weights=weights")
    if spec is None and data.n_dropped:
        given.append("missing='drop'")
    if not model.standardize:
        given.append("standardize=False")
    maker = f"{name}.from_formula" if spec is not None else name
    inner = ",\n    ".join([*given, *arguments])
    fit = f"res = model.fit({', '.join(fit_arguments)})"
    return f"from pybayesridge import {name}\n\nmodel = {maker}(\n    {inner},\n)\n{fit}"


def versions() -> list[tuple[str, str]]:
    """Python's and the packages' versions."""
    out = [("pybayesridge", version("pybayesridge")), ("Python", platform.python_version())]
    return out + [(name, version(name)) for name in PACKAGES]


def order_by(size: FloatArray, first: Any) -> Any:
    """Positions, those of `first` before the others, which follow by `size`."""
    rest = np.setdiff1d(np.arange(size.size), first)
    return np.concatenate([first, rest[np.argsort(-size[rest], kind="stable")]]).astype(np.intp)


def residual_remarks(residual: FloatArray, labels: Any, sigma: float) -> list[Remark]:
    """Rows whose standardised residual is large.

    Parameters
    ----------
    residual : (n,) array
        Standardised.
    labels : pandas.Index
    sigma : float
        0 where there is no noise to compare with.
    """
    if not sigma > 0 or not np.isfinite(residual).any():
        return []
    large = np.flatnonzero(np.abs(residual) > LARGE)
    if large.size == 0:
        return [Remark("good", f"No residual is larger than {LARGE:g} standard deviations.")]
    worst = large[np.argsort(-np.abs(residual[large]), kind="stable")]
    return [
        Remark(
            "note",
            f"{large.size:,} residual(s) are larger than {LARGE:g} standard deviations: row(s) "
            f"{listed(labels[worst].tolist())}. Check these rows.",
        )
    ]


def row_pictures(res: Any, i: int, album: Album) -> list[Picture]:
    """Residuals over fitted values and the normal QQ plot."""

    def draw(kind: str) -> Callable[..., Any]:
        return lambda ax: res.plot_residuals(kind, target=i, ax=ax)

    return [
        album.picture(
            draw("fitted"),
            "Residuals should scatter about zero without a pattern, and the smooth line should stay near zero.",
        ),
        album.picture(draw("qq"), "Normally distributed residuals lie along the line.", width=5.5, height=4.6),
    ]
