"""Why our numbers differ from the paper's, data set by data set."""

from __future__ import annotations

import pandas as pd

from benchmarks.paper_ridge.summary import Difference

SCORES = ""
TIMES = ""


def reason(summary: pd.DataFrame, difference: Difference) -> str:
    """Why, in a sentence or two; where nobody knows, that."""
    return "Not explained."
