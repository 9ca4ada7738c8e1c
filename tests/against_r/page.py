"""The page "pybayesridge beside glmnet" of the documentation, from a run of this folder's tests.

``AGAINST_R_PAGE=page.md pytest tests/against_r`` writes it. Numbers are those of the run.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import math
from collections import defaultdict
from pathlib import Path

from tests.against_r import tolerances

found: dict[str, dict[str, float]] = defaultdict(dict)
versions: dict[str, str] = {}

INTRODUCTION = """# pybayesridge beside glmnet, MASS, lm and susieR

Every number here is from a run of `tests/against_r`, which compares the package with R in one process{versions}.
"Largest difference" is the largest over all data sets and entries of what is described, relative to the largest value
compared unless the description says otherwise; the test fails where it exceeds the tolerance.

| Compared | Data sets | Largest difference | Digits | Tolerance |
| --- | --- | --- | --- | --- |
"""

BY_DEFINITION = """
## What differs by definition

* **Units of the penalty.** Ours is that of the sum of squares, `||y - Xb||^2 + lambda ||b||^2`, on standardised
  columns. glmnet's is ours times `sd(y) / n`, with the standard deviation that divides by n: glmnet scales the
  response to variance 1, finds its coefficients, and scales back. The scaling is why a ridge with glmnet's `lambda`
  put into the textbook formula does not give glmnet's coefficients.
* **The first penalty of `alpha = 0`.** glmnet's path starts from a penalty so large that every coefficient is zero,
  and reports in its place the geometric continuation of the rest, which is lambda_max of `alpha = 0.001`. The grid
  `"glmnet"` starts at what glmnet reports, and fits it.
* **Leave-one-out.** `cv.glmnet(nfolds = n, grouped = FALSE)` standardises columns and response anew in every fold, so
  that the same `lambda` is a slightly different penalty in each. We standardise once, with all rows, and get the
  errors in closed form. With glmnet's rule we get glmnet's errors; with ours they differ by a share of order 1/n,
  and the minimum by a grid point or two.
* **Generalised cross-validation.** `lm.ridge` does not count the intercept among the degrees of freedom; we do. Its
  score is `RSS / (n - df)^2`, ours `n RSS / (n - 1 - df)^2`.
* **Intervals at `lam = 0`.** The noise variance is integrated out under the ridge's prior, which at no penalty leaves
  n less the number of *unpenalised* columns as degrees of freedom; `lm` has n less all columns. With all columns
  `unpenalized` the intervals are `lm`'s.
* **`u:v + g:u`.** R takes the margin `u` of `g:u` for a term of the formula because of `u:v`, and drops a level of
  `g`; formulaic does not.
"""


def remember(name: str, test: str, discrepancy: float) -> None:
    """Keep the largest discrepancy of a tolerance in each test."""
    found[name][test] = max(discrepancy, found[name].get(test, 0.0))


def descriptions() -> dict[str, str]:
    """The sentence below each tolerance."""
    body = ast.parse(inspect.getsource(tolerances)).body
    pairs = itertools.pairwise(body)
    return {
        first.targets[0].id: " ".join(second.value.value.split())
        for first, second in pairs
        if isinstance(first, ast.Assign) and isinstance(second, ast.Expr) and isinstance(first.targets[0], ast.Name)
    }


def write(path: str) -> None:
    """Write the page."""
    names = ", ".join(f"{name} {version}" for name, version in versions.items())
    lines = [INTRODUCTION.format(versions=f" ({names})" if names else "")]
    for name, sentence in descriptions().items():
        if name not in found:
            continue
        worst = max(found[name].values())
        digits = "all" if worst == 0 else f"{max(-math.log10(worst), 0):.0f}"
        tolerance = getattr(tolerances, name)
        if "Not relative" in sentence:
            digits = ""
        lines.append(f"| {sentence} | {len(found[name])} | {worst:.2g} | {digits} | {tolerance:g} |\n")
    lines.append(BY_DEFINITION)
    Path(path).write_text("".join(lines), encoding="utf-8")
