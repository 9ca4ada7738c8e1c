"""The page "Comparison with glmnet" of the documentation, from a run of the tests in this folder.

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

INTRODUCTION = """# Comparison with glmnet, MASS, lm and susieR

Every number here is from a run of `tests/against_r`, which compares the package with R in one process{versions}.
"Largest difference" is the maximum over all data sets and entries. It is relative to the largest value compared,
unless stated otherwise. A test fails if the difference exceeds the tolerance.

| Quantity compared | Data sets | Largest difference | Digits | Tolerance |
| --- | --- | --- | --- | --- |
"""

BY_DEFINITION = """
## Differences in definition

* **Units of the penalty.** The penalty of pybayesridge is the factor in `||y - Xb||^2 + lambda ||b||^2`, on
  standardised columns. The penalty of glmnet equals it times `sd(y) / n`, with the standard deviation that has
  divisor n: glmnet scales the response to variance 1, computes the coefficients, and scales them back. A textbook
  ridge regression with the `lambda` of glmnet therefore does not reproduce the coefficients of glmnet.
* **The first penalty of `alpha = 0`.** The path of glmnet starts at a penalty so large that all coefficients are
  zero. Instead of it glmnet reports the geometric continuation of the other penalties, which is lambda_max of
  `alpha = 0.001`. The grid `"glmnet"` starts at the reported value and fits it.
* **Leave-one-out cross-validation.** `cv.glmnet(nfolds = n, grouped = FALSE)` standardises the columns and the
  response in each fold, so that the same `lambda` is a slightly different penalty in each fold. pybayesridge
  standardises once, with all rows, and computes the errors in closed form. With the rule of glmnet it reproduces
  the errors of glmnet. With its own rule the errors differ by a relative amount of order 1/n, and the minimum by
  one or two grid points.
* **Generalised cross-validation.** The degrees of freedom of pybayesridge include the intercept, those of
  `lm.ridge` do not. The score of `lm.ridge` is `RSS / (n - df)^2`, that of pybayesridge `n RSS / (n - 1 - df)^2`.
* **Intervals at `lam = 0`.** The noise variance is integrated out under the prior of the ridge. Without a penalty
  the degrees of freedom are n minus the number of *unpenalised* columns; for `lm` they are n minus the number of
  all columns. If all columns are `unpenalized`, the intervals equal those of `lm`.
* **`u:v + g:u`.** R treats the margin `u` of `g:u` as a term of the formula because of `u:v`, and drops a level of
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
