"""The functions that the R package `pybayesridge` calls: numbers, strings and float arrays in, the same out.

R fits a model through one function here and gets everything it needs to work on without Python. Errors and warnings
are handed over as text, since R shows a Python traceback otherwise.
"""

from __future__ import annotations

import base64
import hashlib
import io
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from pybayesridge import r_questions
from pybayesridge._types import FloatArray
from pybayesridge._version import __version__
from pybayesridge.data.arrays import NamedColumns
from pybayesridge.data.bands import Bands
from pybayesridge.ep.posterior import StartingPoint
from pybayesridge.findings import Finding
from pybayesridge.formula import build as formulas
from pybayesridge.formula.spec import FormulaSpec
from pybayesridge.linalg.blocks import dense
from pybayesridge.models.ridge import BayesRidge
from pybayesridge.models.spike_slab import SpikeSlab
from pybayesridge.progress import lines
from pybayesridge.r_files import as_known, known_to_r, saved
from pybayesridge.report import write_report
from pybayesridge.report.parts import Origin
from pybayesridge.results import portable
from pybayesridge.results.export import export, flat_findings, over

PROTOCOL = 16
"""Raised whenever what goes over the bridge changes; the R package compares it with its own."""


MODELS: dict[str, Any] = {"bayes_ridge": BayesRidge, "spike_slab": SpikeSlab}
"""By the names of R's functions."""


def guarded(function: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Run a fit; its value or its error, and its warnings, as values that R can read.

    Returns
    -------
    dict
        ``value`` (None after an error), ``error`` and ``error_class`` (None without one), and the lists ``warnings``
        and ``warning_classes``.
    """
    out: dict[str, Any] = {"value": None, "error": None, "error_class": None}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            out["value"] = function()
        except Exception as error:
            known = isinstance(error, ValueError)
            out["error"] = str(error) if known else f"{type(error).__name__}: {error}"
            out["error_class"] = type(error).__name__
    # Warnings that are not for users (of NumPy's arithmetic, of things deprecated) are not for R's either.
    shown = [w for w in caught if issubclass(w.category, UserWarning)]
    out["warnings"] = [str(w.message) for w in shown]
    out["warning_classes"] = [w.category.__name__ for w in shown]
    return out


def fit_model(
    y: FloatArray,
    x: FloatArray | dict[str, Any],
    *,
    family: str,
    x_names: Sequence[str] | None,
    y_names: Sequence[str],
    from_formula: bool,
    model: dict[str, Any],
    fit: dict[str, Any],
    start: dict[str, Any] | None = None,
    group: Sequence[float | str] | None = None,
    without: Sequence[str] = (),
    progress: bool = False,
) -> dict[str, Any]:
    """Fit a :class:`BayesRidge` or :class:`SpikeSlab` for R.

    Parameters
    ----------
    y : (n, q) array
    x : (n, p) array, or dict
        With a formula R's model matrix, its column of ones among the others. A sparse matrix is a dict of ``nrow``,
        ``ncol`` and the slots ``i``, ``p`` and ``x`` of R's ``dgCMatrix``.
    family : {"bayes_ridge", "spike_slab"}
    x_names, y_names : lists of str
        None for columns without names.
    from_formula : bool
        Whether the column of ones is the intercept of R's formula, which needs no mention in the notes.
    model, fit : dict
        Arguments of the model and of its ``fit``; of a model with ``family="binomial"`` also ``levels``, the two
        levels of R's factor whose codes 0 and 1 are `y`, and with ``family="ordinal"`` all its levels in order; of
        one with ``bands`` also ``own_scale``, names of columns that are not standardised, and ``sets``, names of the
        bands of each term whose effects are correlated.
    start : dict, optional
        The ``start`` of an earlier value of a SpikeSlab.
    group : list, optional
        Of a SpikeSlab: a label for each column of `x`, R's ``attr(x, "assign")`` or names of terms. Columns with
        equal ones are in or out together.
    without : list of str, optional
        Values that R computes itself.
    progress : bool
        Whether a long computation writes lines on stderr, where this is not a terminal.

    Returns
    -------
    dict
        See :func:`guarded`; the value is the fit's :func:`~pybayesridge.results.export.export`.
    """

    def run() -> dict[str, Any]:
        with lines() if progress and not sys.stderr.isatty() else nullcontext():
            results = fitted(family, *labelled(y, x, y_names, x_names), model, fit, start, group)
        return values(results, from_formula, without)

    return guarded(run)


bayes_ridge = partial(fit_model, family="bayes_ridge")
spike_slab = partial(fit_model, family="spike_slab")


def fitted(
    family: str, endog: Any, exog: Any, model: dict[str, Any], fit: dict[str, Any], start: Any, group: Any
) -> Any:
    """The results of what :func:`fit_model` describes."""
    given, options = arguments(model), arguments(fit)
    endog = factor(endog, given.pop("levels", None), ordered=given.get("family") == "ordinal")
    if group is not None:
        given["group"] = group_labels(group)
    if start is not None:
        options["start"] = starting_point(start)
    own_scale, sets = given.pop("own_scale", None), given.pop("sets", None)
    made = MODELS[family](endog, exog, **given)
    if own_scale is not None:
        made.bands = as_made_by_r(made.bands, own_scale, sets or (), made.data.exog_columns)
    return made.fit(**options)


def as_made_by_r(
    bands: Bands, own_scale: Sequence[str], sets: Sequence[Sequence[str]], columns: Sequence[str]
) -> Bands:
    """Bands of which some columns keep their scale: those of groups and smooth curves, which R makes.

    `sets` are the names of the bands of each term whose effects are correlated.
    """
    return replace(
        bands,
        own_scale=np.isin(list(columns), list(own_scale)),
        sets=tuple(tuple(bands.names.index(name) for name in each) for each in sets),
    )


def report(
    y: FloatArray,
    x: FloatArray | dict[str, Any],
    *,
    x_names: Sequence[str] | None,
    y_names: Sequence[str],
    from_formula: bool,
    model: dict[str, Any],
    fit: dict[str, Any],
    family: str,
    row_names: Sequence[str] | None,
    page: dict[str, Any],
    group: Sequence[float | str] | None = None,
) -> dict[str, Any]:
    """Fit again what R has fitted, and write the report of it.

    Parameters
    ----------
    y, x, x_names, y_names, from_formula, model, fit, family, group
        See :func:`fit_model`.
    row_names : list of str
    page : dict
        ``path``, ``title``, ``question``, ``target`` (a name) and ``alpha`` of the report, ``call`` (R's code), the
        dict ``versions`` and the ``findings`` (a list of dicts with ``code``, ``severity`` and
        ``text``).

    Returns
    -------
    dict
        See :func:`guarded`; the value has ``path`` and ``params``.
    """

    def run() -> dict[str, Any]:
        endog, exog = labelled(y, x, y_names, x_names)
        if row_names is not None:
            endog.index = pd.Index([row_names] if isinstance(row_names, str) else list(row_names))
            exog = exog.set_axis(endog.index) if isinstance(exog, pd.DataFrame) else exog
        results = fitted(family, endog, exog, model, fit, None, group)
        wanted = page.get("target")
        path = write_report(
            results,
            page["path"],
            title=page.get("title"),
            question=page.get("question"),
            target=None if wanted is None else results.model.data.targets.index(wanted),
            alpha=page["alpha"],
            origin=Origin(page["call"], list(page["versions"].items()), findings_of_r(page["findings"])),
        )
        return {"path": str(path), "params": over(results.params)}

    return guarded(run)


def save_fit(
    y: FloatArray,
    x: FloatArray | dict[str, Any],
    *,
    x_names: Sequence[str] | None,
    y_names: Sequence[str],
    from_formula: bool,
    model: dict[str, Any],
    fit: dict[str, Any],
    family: str,
    path: str,
    params: FloatArray,
    bse: FloatArray,
    group: Sequence[float | str] | None = None,
) -> dict[str, Any]:
    """Fit again what R has fitted, and save it for Python.

    Parameters
    ----------
    y, x, x_names, y_names, from_formula, model, fit, family, group
        See :func:`fit_model`.
    path : str
    params, bse : (k, q) arrays
        The posterior that R has, to which the new fit is compared.

    Returns
    -------
    dict
        See :func:`guarded`; the value has ``path``.
    """

    def run() -> dict[str, Any]:
        results = fitted(family, *labelled(y, x, y_names, x_names), model, fit, None, group)
        apart = np.abs(over(results.params) - over(params))
        if not (apart <= SAME * over(bse)).all():
            raise ValueError(
                "the fit cannot be saved: fitted again in Python its coefficients differ (the versions differ, or "
                "the fit had a 'start'). Fit again in R, without 'start'"
            )
        results.save(path)
        return {"path": path}

    return guarded(run)


SAME = 1e-3
"""Most that coefficients of the same fit made again differ, relative to their standard deviations."""


def ask(fits: Sequence[dict[str, Any]], question: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Fit again what R has fitted, and answer a question on it.

    Parameters
    ----------
    fits : list of dict
        Each with the arguments ``y``, ``x``, ``x_names``, ``y_names``, ``from_formula``, ``model``, ``fit``,
        ``family`` and ``group`` of :func:`fit_model`, ``row_names``, ``names`` (R's, of the coefficients), and
        ``params`` and ``bse``, the (k, q) posterior that R has; a fit that was read from a file has ``path`` and
        ``allow_code`` in place of the first ones.
    question : str
        A function of :mod:`pybayesridge.r_questions`.
    arguments : dict
        Its arguments.

    Returns
    -------
    dict
        See :func:`guarded`; the value is the answer.
    """

    def run() -> dict[str, Any]:
        # R's list of nothing has no names.
        given = {name: value for name, value in dict(arguments or {}).items() if value is not None}
        return r_questions.ANSWERS[question](
            [fit_again(each) for each in fits], [each["names"] for each in fits], given
        )

    return guarded(run)


MOST_HELD, CELLS_HELD = 4, 2e7
"""Fits of earlier questions that are kept for the next one, and the numbers in their data."""

_held: dict[bytes, tuple[float, Any]] = {}


def fit_again(given: dict[str, Any]) -> Any:
    """The results of a fit of R; those of the last few are kept."""
    if given.get("path") is not None:
        results = saved(given["path"], bool(given.get("allow_code")))
    else:
        key = _key(given)
        cells = float(np.size(given["y"])) + float(
            np.size(given["x"]["x"] if isinstance(given["x"], dict) else given["x"])
        )
        found = _held.pop(key, None)
        if found is None:
            endog, exog = labelled(given["y"], given["x"], given["y_names"], given["x_names"])
            if (rows := given.get("row_names")) is not None:
                endog.index = pd.Index([rows] if isinstance(rows, str) else list(rows))
                exog = exog.set_axis(endog.index) if isinstance(exog, pd.DataFrame) else exog
            with warnings.catch_warnings():
                # They have been told of the fit in R.
                warnings.simplefilter("ignore")
                results = fitted(given["family"], endog, exog, given["model"], given["fit"], None, given.get("group"))
            found = cells, results
        results = found[1]
        if cells <= CELLS_HELD:
            _held[key] = found
        while len(_held) > MOST_HELD or sum(size for size, _ in _held.values()) > CELLS_HELD:
            del _held[next(iter(_held))]
    apart = np.abs(over(results.params) - over(given["params"]))
    if not (apart <= SAME * over(given["bse"])).all():
        raise ValueError(
            "fitted again in Python the coefficients differ from those of this fit (the versions differ, the fit had "
            "a 'start', or its file has changed). Fit again in R, without 'start'"
        )
    return results


def _key(given: dict[str, Any]) -> bytes:
    """A digest of all that determines a fit."""
    digest = hashlib.blake2b()
    for name, value in sorted(given.items()):
        if name in ("params", "bse", "names"):
            continue
        digest.update(name.encode())
        _digest(digest, value)
    return digest.digest()


def _digest(digest: Any, value: Any) -> None:
    if isinstance(value, dict):
        for name, inner in sorted(value.items()):
            digest.update(str(name).encode())
            _digest(digest, inner)
    elif isinstance(value, np.ndarray):
        digest.update(repr((value.shape, value.dtype.str)).encode())
        digest.update(np.ascontiguousarray(value).tobytes())
    else:
        digest.update(repr(value).encode())


def read_fit(path: str, allow_code: bool = False) -> dict[str, Any]:
    """Read a fit that ``save()`` wrote.

    Parameters
    ----------
    path : str
    allow_code : bool
        Whether the formula may do more than compute with columns; see :func:`pybayesridge.load`.

    Returns
    -------
    dict
        See :func:`guarded`; the value is the fit's :func:`~pybayesridge.results.export.export` with what R has of
        its own fits: ``columns`` (names of the columns without an added intercept), ``named`` (whether the user gave
        them), ``x`` (the columns at the rows; as :func:`fit_model` takes them), ``row_names``, ``weights``,
        ``levels``, ``group``, ``flat_in``, ``known_sigma2``; of a fit with groups in its formula ``group_bands``,
        the effects of their levels; of a fit by formula ``formula``, ``reads`` (names of its
        variables) and ``coding`` (for :func:`code_rows`). What the fit lacks is absent.
    """

    def run() -> dict[str, Any]:
        results = saved(path, allow_code)
        found = export(results) | known_to_r(results)
        return {name: value for name, value in found.items() if value is not None}

    return guarded(run)


def code_rows(coding: str, table: dict[str, Any], allow_code: bool = False) -> dict[str, Any]:
    """Code new data as the data of a fit by formula were coded.

    Parameters
    ----------
    coding : str
        The ``coding`` of :func:`read_fit`.
    table : dict
        Columns by name: numbers, truth values or text, each a list or an array; None or NaN where a value is missing.
    allow_code : bool
        As of :func:`read_fit`.

    Returns
    -------
    dict
        See :func:`guarded`; the value has ``x``, (m, p), with rows of NaN where a variable is missing. With terms
        that make bands also ``bands``, their names, and ``unseen``, (m, number of these): what multiplies the effects
        of groups that the fit has not seen, zero at other rows.
    """

    def run() -> dict[str, Any]:
        file = io.BytesIO(base64.b64decode(coding))
        spec: FormulaSpec = portable.read(file, "the formula", __version__, allow_code=allow_code)
        rows = {name: as_known(spec, name, column) for name, column in table.items()}
        plain, coded, _ = formulas.transform_with_bands(spec, pd.DataFrame(rows))
        found: dict[str, Any] = {"x": dense(formulas.matrix_of(formulas.joined(plain, coded)))}
        if coded:
            unseen = np.column_stack([each.unseen for each in coded])
            found |= {"unseen": unseen, "bands": [each.band.name for each in coded]}
        return found

    return guarded(run)


def report_saved(path: str, page: dict[str, Any], allow_code: bool = False) -> dict[str, Any]:
    """Write the report of a fit that ``save()`` wrote.

    Parameters
    ----------
    path : str
    page : dict
        ``path``, ``title``, ``question``, ``target`` (a name) and ``alpha`` of the report.
    allow_code : bool
        As of :func:`read_fit`.

    Returns
    -------
    dict
        See :func:`guarded`; the value has ``path`` and ``params``.
    """

    def run() -> dict[str, Any]:
        if not os.path.exists(path):
            raise ValueError(f"the file that this fit was read from is no longer there: {path}")
        results = saved(path, allow_code)
        given = {name: page.get(name) for name in ("title", "question", "target")}
        written = results.report(page["path"], alpha=page["alpha"], **given)
        return {"path": str(written), "params": over(results.params)}

    return guarded(run)


def values(results: Any, from_formula: bool, without: Sequence[str] = ()) -> dict[str, Any]:
    """The export of a fit; that R's own column of ones serves as the intercept needs no mention."""
    out = export(results, without)
    if from_formula:
        shown = [found for found in results.findings if found.code != "constant-serves"]
        out["findings"] = flat_findings(shown)
    return out


def findings_of_r(given: Sequence[dict[str, str]]) -> list[Finding]:
    """The findings that R shows: those of an export, with those that R has added."""
    return [Finding(each["code"], each["severity"], None, each["text"]) for each in given]  # type: ignore[arg-type]


def starting_point(start: dict[str, Any] | None) -> StartingPoint | None:
    """The ``start`` of an export, to start from."""
    if start is None:
        return None
    vectors = {name: np.atleast_1d(start[name]).astype(np.float64) for name in ("site1", "site2", "prior_inclusion")}
    columns = tuple(str(name) for name in start["columns"])
    return StartingPoint(columns, **vectors, slab_var=start["slab_var"], noise_var=start["noise_var"])


def labelled(
    y: FloatArray, x: FloatArray | dict[str, Any], y_names: Sequence[str], x_names: Sequence[str] | None
) -> tuple[pd.DataFrame, Any]:
    """R's matrices with their names; the columns of a dense `x` are not copied."""
    endog = pd.DataFrame(np.asarray(y, dtype=np.float64), columns=list(y_names), copy=False)
    if isinstance(x, dict):
        rows, ends = (np.atleast_1d(x[name]).astype(np.intp) for name in ("i", "p"))
        shape = (int(x["nrow"]), int(x["ncol"]))
        columns = sparse.csc_matrix((np.atleast_1d(x["x"]).astype(np.float64), rows, ends), shape=shape)
        return endog, columns if x_names is None else NamedColumns(columns, list(x_names))
    values = np.asarray(x, dtype=np.float64)
    if x_names is None:
        return endog, values
    return endog, pd.DataFrame(values, columns=list(x_names), copy=False)


def factor(endog: pd.DataFrame, levels: Sequence[str] | None, *, ordered: bool = False) -> pd.DataFrame:
    """Codes from 0 as the factor that they are in R."""
    if levels is None:
        return endog
    codes = endog.iloc[:, 0].to_numpy(dtype=np.intp)
    column = pd.Categorical.from_codes(codes, pd.Index(list(levels), dtype=object), ordered=ordered)
    return pd.DataFrame({endog.columns[0]: column}, index=endog.index)


def arguments(given: dict[str, Any]) -> dict[str, Any]:
    """Arguments as Python expects them: R's NULL means that the default holds, whole numbers are integers."""
    out = {name: value for name, value in given.items() if value is not None}
    for name in ("maxiter", "chains", "rng"):
        value = out.get(name)
        if isinstance(value, float) and value.is_integer():
            out[name] = int(value)
    for name in ("trials", "exposure"):
        if name in out:
            out[name] = np.atleast_1d(out[name])
    if isinstance(out.get("unpenalized"), list):
        out["unpenalized"] = _names_or_positions(out["unpenalized"])
    if "bands" in out:
        out["bands"] = {name: _names_or_positions(members) for name, members in out["bands"].items()}
    return out


def _names_or_positions(given: list[Any]) -> list[Any]:
    return [int(one) if isinstance(one, float) else one for one in given]


def group_labels(group: Any) -> list[Any] | None:
    """R's labels of groups as Python expects them: whole numbers are integers, one label is a vector of length 1."""
    if group is None:
        return None
    given = [group] if isinstance(group, str) or np.ndim(group) == 0 else list(group)
    return [int(g) if isinstance(g, float | np.floating) and float(g).is_integer() else g for g in given]
