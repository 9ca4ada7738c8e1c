"""Model checks on the command line: leave-one-out scores, and statistics of replicated responses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from pybayesridge.cli.as_json import finite

if TYPE_CHECKING:
    from pybayesridge.results.leave_one_out import LeaveOneOutScore

DIGITS = 4
"""Significant digits of printed numbers."""


@dataclass(frozen=True, slots=True)
class ModelChecks:
    """The checks of one target.

    Attributes
    ----------
    name : str
        Of the target.
    score : LeaveOneOutScore or None
    unavailable : str or None
        Why there is no score.
    statistics : DataFrame
        As ``results.ppc()`` returns it.
    """

    name: str
    score: LeaveOneOutScore | None
    unavailable: str | None
    statistics: pd.DataFrame

    def as_text(self) -> str:
        """Lines to print."""
        if self.score is None:
            head = f"Leave-one-out predictive score: not available ({self.unavailable})"
        else:
            numbers = f"elpd {self.score.elpd:.1f} (standard error {self.score.se:.1f}), p_loo {self.score.p_loo:.1f}"
            head = f"Leave-one-out predictive score: {numbers}"
        table = self.statistics.to_string(float_format=lambda value: f"{value:.{DIGITS}g}")
        return f"Model checks: {self.name}\n{head}\nObserved and replicated responses:\n{table}"

    def as_json(self) -> dict[str, Any]:
        """The same as JSON's types."""
        score = self.score
        return {
            "elpd": None if score is None else finite(score.elpd),
            "elpd_se": None if score is None else finite(score.se),
            "p_loo": None if score is None else finite(score.p_loo),
            "unavailable": self.unavailable,
            "statistics": [
                {"name": str(name), **{str(column): finite(value) for column, value in row.items()}}
                for name, row in self.statistics.to_dict(orient="index").items()
            ],
        }


def model_checks(results: Any, alpha: float) -> list[ModelChecks]:
    """Checks of every target of a fit."""
    out = []
    for i, name in enumerate(results.model.data.targets):
        score = unavailable = None
        try:
            score = results.loo(target=i)
        except ValueError as error:
            unavailable = str(error)
        statistics = results.ppc(results.model.distribution.summaries, alpha=alpha, target=i)
        out.append(ModelChecks(name, score, unavailable, statistics))
    return out
