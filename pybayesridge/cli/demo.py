"""``pybayesridge demo``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pybayesridge.text import columns, number

if TYPE_CHECKING:
    from pybayesridge.results.returned import SelectionResults
    from pybayesridge.results.ridge import BayesRidgeResults

FORMULA = "TOTEMP ~ GNPDEFL + GNP + UNEMP + ARMED + POP + YEAR"


def _beside(report: str, name: str) -> Path:
    """The file of one model's report."""
    file = Path(report)
    return file.with_name(f"{file.stem}-{name}{file.suffix}")


def _with_intervals(fit: Any, names: list[str]) -> list[tuple[str, str]]:
    """Estimates and 95 % intervals as tables write them."""
    ends = fit.conf_int().loc[names]
    cells = columns([fit.params[names], ends.iloc[:, 0], ends.iloc[:, 1]], interval=True)
    return [(estimate, f"[{low}, {high}]") for estimate, low, high in zip(*cells, strict=True)]


def _of_ridge(ridge: BayesRidgeResults, least_squares: Any) -> str:
    """A comparison of the ridge with least squares."""
    interval, ols_interval = ridge.conf_int(), least_squares.conf_int()
    width = (ols_interval[1] - ols_interval[0]) / (interval[1] - interval[0])
    return (
        "Longley's economic series move together (condition number of the standardised columns: "
        f"{number(ridge.condition_number)}),\n"
        "so least squares cannot tell them apart. The ridge penalty was found from the posterior,\n"
        "without cross-validation, and the intervals account for its uncertainty: "
        f"{ridge.df_model:.1f} effective\n"
        "degrees of "
        f"freedom of {least_squares.df_model:.0f}, R-squared {ridge.rsquared:.3f} against "
        f"{least_squares.rsquared:.3f}. Notice GNP and POP: least squares gives them\n"
        f"{number(least_squares.params['GNP'], 2)} and {number(least_squares.params['POP'], 2)}, with intervals "
        f"{width['GNP']:.1f} and {width['POP']:.1f} times as wide."
    )


def _of_selection(selection: SelectionResults[Any]) -> str:
    """A sentence on the inclusion probabilities."""
    pip = selection.inclusion_prob.drop("Intercept").sort_values(ascending=False)
    return (
        "PIP is the probability that a coefficient is not zero: "
        + ", ".join(f"{name} {value:.2f}" for name, value in pip.items())
        + ".\nWith 16 rows of collinear series the data leave some of that open; the table says so."
    )


def demo(report: str | None = None) -> str:
    """Longley's data: least squares, the Bayesian ridge and spike and slab, with what to notice.

    Parameters
    ----------
    report : str, optional
        File for the reports: ``report.html`` makes ``report-ridge.html`` and ``report-spikeslab.html``.
    """
    import statsmodels.api as sm
    from statsmodels.formula.api import ols

    from pybayesridge import BayesRidge, SpikeSlab

    data = sm.datasets.longley.load_pandas().data
    least_squares = ols(FORMULA, data).fit()
    ridge = BayesRidge.from_formula(FORMULA, data).fit()
    selection = SpikeSlab.from_formula(FORMULA, data).fit()
    header = f"{'':<12}{'OLS':>12}{'95 % interval':>26}{'BayesRidge':>14}{'95 % interval':>26}"
    names = list(ridge.params.index)
    cells = zip(*(_with_intervals(fit, names) for fit in (least_squares, ridge)), strict=True)
    rows = [
        f"{name:<12}{other[0]:>12}{other[1]:>26}{ours[0]:>14}{ours[1]:>26}"
        for name, (other, ours) in zip(names, cells, strict=True)
    ]
    title = "Longley's data: employment in the USA, 1947-1962"
    written = []
    if report is not None:
        question = "Which series moved with total employment, and how sure is that with 16 years?"
        made = [
            (name, results.report(_beside(report, name), title=title, question=question))
            for name, results in (("ridge", ridge), ("spikeslab", selection))
        ]
        written = ["", *(f"Report of {name}: {path}" for name, path in made)]
    return "\n".join(
        [
            title,
            "=" * len(title),
            "",
            header,
            *rows,
            "",
            str(ridge.summary()),
            "",
            _of_ridge(ridge, least_squares),
            "",
            str(selection.summary()),
            "",
            _of_selection(selection),
            *written,
        ]
    )
