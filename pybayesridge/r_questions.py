"""Questions on fits that R has Python answer, for `r_bridge`: numbers, strings and float arrays in, the same out.

Each function takes results, R's names of their coefficients, and arguments. Tables are dicts of ``columns``, ``rows``
(their labels) and ``values``, an array with a row for each row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from pybayesridge._types import FloatArray
from pybayesridge.results.arguments import check_alpha, target_position
from pybayesridge.results.averages import of_averages
from pybayesridge.results.comparison import compare_models as compare
from pybayesridge.results.contrast import as_table, combined, read_contrasts
from pybayesridge.results.direction import terms_written_out
from pybayesridge.sites.average import AveragedRows

Answer = Callable[[Sequence[Any], Sequence[Sequence[str]], dict[str, Any]], dict[str, Any]]


def as_columns(frame: pd.DataFrame) -> dict[str, Any]:
    """A table of numbers as R reads it."""
    rows = [list(map(str, label)) if isinstance(label, tuple) else [str(label)] for label in frame.index]
    return {
        "columns": [str(name) for name in frame.columns],
        "rows": [" ".join(label) for label in rows],
        "values": np.ascontiguousarray(frame.to_numpy(dtype=np.float64)),
    }


def contrast(fits: Sequence[Any], names: Sequence[Sequence[str]], given: dict[str, Any]) -> dict[str, Any]:
    """Linear combinations of coefficients: ``contrasts`` are texts, by label, or weights; ``alpha``, ``target``."""
    res = fits[0]
    alpha, i = check_alpha(given["alpha"]), target_position(res.model.data.targets, given.get("target"), "contrast")
    weights, value, labels = _combinations(given, names[0])
    return as_columns(as_table(combined(res, weights, value, alpha, i), labels))


def joint_contrast(fits: Sequence[Any], names: Sequence[Sequence[str]], given: dict[str, Any]) -> dict[str, Any]:
    """Several contrasts together: ``contrasts`` as in :func:`contrast`; ``target``, ``rng``."""
    res = fits[0]
    # Terms of R's formulas R has written out; a fit that was read has a formula of its own.
    given = {**given, "contrasts": terms_written_out(res, given["contrasts"])}
    weights, value, _ = _combinations(given, names[0])
    own = [str(name) for name in res.model.exog_names]
    texts = [
        " + ".join(f"{float(w)!r}*`{own[j]}`" for j, w in enumerate(row) if w != 0) + f" = {float(v)!r}"
        for row, v in zip(weights, value, strict=True)
    ]
    asked: Any = texts if value.any() else weights
    found = res.joint_contrast(asked, target=given.get("target"), rng=_rng(given))
    return {"names": [str(name) for name in found.index], "values": found.to_numpy(dtype=np.float64)}


def average_effects(fits: Sequence[Any], names: Sequence[Sequence[str]], given: dict[str, Any]) -> dict[str, Any]:
    """Average changes of probabilities.

    ``changes`` is a list of dicts with the rows of the model matrix ``from`` and ``to`` (n, k), or ``at`` and their
    derivatives ``slopes``; ``weights`` (n,) are those of the rows.
    """
    weights = np.atleast_1d(np.asarray(given["weights"], dtype=np.float64))
    averages = [[_parts(change, weights / weights.sum())] for change in given["changes"]]
    table = of_averages(fits[0], averages, check_alpha(given["alpha"]), _rng(given))
    return as_columns(table.set_axis(range(len(table)), axis=0))


def _parts(change: Mapping[str, FloatArray], weights: FloatArray) -> Callable[[], Iterator[AveragedRows]]:
    rows = {name: np.asarray(values, dtype=np.float64) for name, values in change.items()}

    def parts() -> Iterator[AveragedRows]:
        if "slopes" in rows:
            yield AveragedRows(rows["at"], weights, rows["slopes"])
            return
        yield AveragedRows(rows["from"], -weights)
        yield AveragedRows(rows["to"], weights)

    return parts


def prior_sensitivity(fits: Sequence[Any], names: Sequence[Sequence[str]], given: dict[str, Any]) -> dict[str, Any]:
    """Coefficients under other priors; of several targets one table after another."""
    return as_columns(fits[0].prior_sensitivity())


def ppc(fits: Sequence[Any], names: Sequence[Sequence[str]], given: dict[str, Any]) -> dict[str, Any]:
    """Posterior predictive check: ``stat`` names statistics, or is a dict of functions."""
    stat = given.pop("stat", None)
    stat = [stat] if isinstance(stat, str) else stat
    table = fits[0].ppc(stat, **{**given, "rng": _rng(given), "draws": int(given["draws"])})
    return as_columns(table)


def pit(fits: Sequence[Any], names: Sequence[Sequence[str]], given: dict[str, Any]) -> dict[str, Any]:
    """Leave-one-out probability integral transforms."""
    return {"values": fits[0].pit(target=given.get("target")).to_numpy(dtype=np.float64)}


def loo(fits: Sequence[Any], names: Sequence[Sequence[str]], given: dict[str, Any]) -> dict[str, Any]:
    """Rows predicted from the others: log densities without and with the row, effective draws, standard errors.

    With ``by``, a label for each row, groups of rows, with their ``labels`` and ``overlap``.
    """
    by = given.get("by")
    score = fits[0].loo(target=given.get("target"), by=by)
    found = {"n_eff": score.n_eff, "mcse": score.pointwise_mcse, "overlap": score.overlap}
    labels = {} if by is None else {"labels": [str(label) for label in score.pointwise.index]}
    return {
        **labels,
        "elpd": score.pointwise.to_numpy(dtype=np.float64),
        "within": score.within,
        **{name: values.to_numpy(dtype=np.float64) for name, values in found.items() if values is not None},
    }


def compare_models(fits: Sequence[Any], names: Sequence[Sequence[str]], given: dict[str, Any]) -> dict[str, Any]:
    """Models side by side: ``labels``, ``alpha``, ``show`` and ``terms``; the table as numbers and as text."""
    terms = given.get("terms")
    labels = [given["labels"]] if isinstance(given["labels"], str) else given["labels"]
    table = compare(
        dict(zip(labels, fits, strict=True)), alpha=given["alpha"], show=given["show"],
        terms=[terms] if isinstance(terms, str) else terms,
    )  # fmt: skip
    frame = table.frame
    rows = [[str(part) for part in (label if isinstance(label, tuple) else (label, ""))] for label in frame.index]
    return {
        "text": str(table),
        "columns": [str(name) for name in frame.columns],
        "terms": [row[0] for row in rows],
        "numbers": [row[1] for row in rows],
        "values": np.ascontiguousarray(frame.to_numpy(dtype=np.float64)),
    }


def _combinations(given: Mapping[str, Any], names: Sequence[str]) -> tuple[FloatArray, FloatArray, list[str]]:
    """Weights, values and labels of R's contrasts, which name coefficients as R does."""
    contrasts, labels = given["contrasts"], given.get("labels")
    names = [names] if isinstance(names, str) else list(names)
    if isinstance(contrasts, str):
        contrasts = [contrasts]
    if not isinstance(contrasts, list):
        contrasts = np.atleast_2d(np.asarray(contrasts, dtype=np.float64))
    weights, value, found = read_contrasts(contrasts, names)
    return weights, value, found if labels is None else [labels] if isinstance(labels, str) else list(labels)


def _rng(given: Mapping[str, Any]) -> int | None:
    rng = given.get("rng")
    return None if rng is None else int(rng)


ANSWERS: dict[str, Answer] = {
    each.__name__: each
    for each in (contrast, joint_contrast, average_effects, prior_sensitivity, ppc, pit, loo, compare_models)
}
