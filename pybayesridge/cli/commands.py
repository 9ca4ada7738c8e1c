"""The commands that fit and predict."""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd

from pybayesridge import BayesRidge, SpikeSlab, load
from pybayesridge.cli.as_json import as_json
from pybayesridge.cli.checks import model_checks
from pybayesridge.cli.conditions import rows_where
from pybayesridge.cli.tables import (
    DECIMAL_COMMA,
    THOUSANDS,
    TextFormat,
    numbers_among_text,
    output_kind,
    read_table,
    with_commas,
    write_table,
)
from pybayesridge.cli.terminal import progress, warnings_as_lines
from pybayesridge.exceptions import PybayesridgeWarning
from pybayesridge.families.registry import those_with
from pybayesridge.formula.build import names_read
from pybayesridge.formula.check import CodeError, refuse_code
from pybayesridge.models.methods import OPTIONS
from pybayesridge.text import did_you_mean, listed, repeated

RESPONSE_OPTIONS = ("family", "link", "event", "trials", "exposure")
PER_ROW = ("weights", "trials", "exposure")
MODEL_OPTIONS = {
    "ridge": ("prior", "sigma2", "dispersion", "df", "categories", *RESPONSE_OPTIONS),
    "spikeslab": ("prior_inclusion", "slab_var", "noise_var", "expected_size", "dispersion", *RESPONSE_OPTIONS),
}
MODELS: dict[str, Any] = {"ridge": BayesRidge, "spikeslab": SpikeSlab}


def fit(arguments: argparse.Namespace) -> None:
    """Fit a model, print it, and write what was asked for."""
    for path in (arguments.save, arguments.report):
        _check_folder(path)
    with warnings_as_lines() as texts:
        with progress(f"reading {arguments.data}", quiet=arguments.quiet):
            frame = read_table(arguments.data, _text_format(arguments))
        with _formula_of(arguments):
            _check_columns(arguments, frame)
        with progress(f"fitting {arguments.formula}", quiet=arguments.quiet):
            results = _results(arguments, frame)
        checks = model_checks(results, arguments.alpha) if arguments.checks else []
    if arguments.json:
        content = as_json(results, arguments.command, alpha=arguments.alpha, warnings=texts)
        for target, found in zip(content["targets"], checks, strict=False):
            target["checks"] = found.as_json()
        json.dump(content, sys.stdout, indent=2, allow_nan=False, ensure_ascii=False)
        print()
    elif not arguments.quiet:
        print(results.summary(alpha=arguments.alpha))
        for found in checks:
            print(f"\n{found.as_text()}")
    if arguments.report is not None:
        with progress("writing the report", quiet=arguments.quiet):
            results.report(arguments.report, alpha=arguments.alpha)
    if arguments.save is not None:
        results.save(arguments.save, remove_data=True)


def predict(arguments: argparse.Namespace) -> None:
    """Write the predictions of a saved fit for new data."""
    _check_folder(arguments.output)
    output_kind(arguments.output)
    with warnings_as_lines():
        results = load(arguments.model, allow_code=arguments.allow_code)
        with progress(f"reading {arguments.data}", quiet=arguments.quiet):
            spec = results.model.formula_spec
            text = [] if spec is None else spec.text_variables
            frame = read_table(arguments.data, _text_format(arguments), text)
        weights = None
        if arguments.weights is not None:
            if not results.model.distribution.has_noise:
                raise ValueError(
                    f"--weights is for the noise variance of new observations, which a {results.model.family} fit "
                    "does not have"
                )
            _check_column("--weights", arguments.weights, frame)
            weights = frame[arguments.weights]
        sizes = {name: getattr(arguments, name) for name in ("exposure", "trials")}
        sizes = {name: column for name, column in sizes.items() if column is not None}
        for name, column in sizes.items():
            if results.model.distribution.per_row != name:
                raise ValueError(
                    f"--{name} is for fits with --family {' or '.join(those_with(name))}, and this "
                    f"is a {results.model.family} fit"
                )
            _check_column(f"--{name}", column, frame)
        given: dict[str, Any] = {} if weights is None else {"weights": weights}
        if arguments.new_levels is not None:
            if not hasattr(results, "variance_components"):
                raise ValueError("--new-levels is for fits with groups, such as (1 | g)")
            given["new_levels"] = arguments.new_levels
        numbers = [] if spec is None else set(spec.variables) - set(text)
        read = [name for name in numbers if name in frame.columns]
        _refuse_commas(arguments, frame, read)
        with progress("predicting", quiet=arguments.quiet):
            out = results.get_prediction(frame, **given, **sizes).summary_frame(alpha=arguments.alpha)
    if isinstance(out.columns, pd.MultiIndex):
        out.columns = pd.Index([f"{target}:{name}" for target, name in out.columns])
    write_table(out, arguments.output)


def _results(arguments: argparse.Namespace, frame: pd.DataFrame) -> Any:
    def given(names: tuple[str, ...]) -> dict[str, Any]:
        return {name: getattr(arguments, name) for name in names if getattr(arguments, name) is not None}

    with _formula_of(arguments):
        model = MODELS[arguments.command].from_formula(
            arguments.formula,
            frame,
            subset=None if arguments.subset is None else rows_where(arguments.subset, frame),
            missing=arguments.missing,
            weights=arguments.weights,
            unpenalized=arguments.unpenalized or None,
            standardize=not arguments.own_scale,
            **_bands(arguments),
            **({"group": None} if getattr(arguments, "by_column", False) else {}),
            **given(MODEL_OPTIONS[arguments.command]),
        )
    for what in PER_ROW:
        name = getattr(arguments, what, None)
        if name is not None and name in model.data.exog_columns:
            warnings.warn(
                f"the {what} {name!r} are also a column of the model: write '. - {name}' if they should not be",
                PybayesridgeWarning,
                stacklevel=2,
            )
    lane = model.lane
    known = OPTIONS[lane.model]
    options = given(tuple(name for name in known if known[name].help))
    for name in options:
        if name not in lane.takes:
            families = lane.families_with(name)
            if not families:
                raise ValueError(f"--{name} cannot be used with --bands: leave it out")
            raise ValueError(
                f"--{name} of {arguments.command} requires --family {' or '.join(families)}: leave it out"
            )
    return model.fit(arguments.method, **options) if arguments.method is not None else model.fit(**options)


def _bands(arguments: argparse.Namespace) -> dict[str, Any]:
    """The bands that were given, as an argument of the model."""
    given = getattr(arguments, "bands", None)
    if not given:
        return {}
    names = [name for name, _ in given]
    if len(set(names)) < len(names):
        raise ValueError(f"--bands names {listed(repeated(names))} twice: write its terms after one name")
    return {"bands": dict(given)}


@contextmanager
def _formula_of(arguments: argparse.Namespace) -> Iterator[None]:
    """Whatever the evaluation of a formula raises is an error of the formula."""
    try:
        yield
    except (TypeError, AttributeError, LookupError, ArithmeticError, SyntaxError, RecursionError, Warning) as error:
        cause = error.__context__ if isinstance(error.__context__, Warning) else error
        raise ValueError(f"the formula {arguments.formula!r} cannot be evaluated: {cause}") from None


def _text_format(arguments: argparse.Namespace) -> TextFormat:
    return TextFormat(arguments.sep, arguments.decimal, arguments.encoding, tuple(arguments.na))


def _check_folder(path: str | None) -> None:
    """Refuse a file in a folder that is not there before anything long is done."""
    if path is not None and not Path(path).parent.is_dir():
        raise ValueError(f"{path}: there is no folder {str(Path(path).parent)!r}")


def _check_columns(arguments: argparse.Namespace, frame: pd.DataFrame) -> None:
    if not arguments.allow_code:
        try:
            refuse_code(arguments.formula, [str(name) for name in frame.columns])
        except CodeError as error:
            raise ValueError(
                f"{error}; --allow-code evaluates any Python code in it: use that only for formulas you trust"
            ) from error
    read, unknown = names_read(arguments.formula, frame)
    for name in unknown:
        _check_column("the formula", name, frame)
    for what in PER_ROW:
        if getattr(arguments, what, None) is not None:
            _check_column(f"--{what}", getattr(arguments, what), frame)
    _refuse_commas(arguments, frame, read)
    for sentence in numbers_among_text(frame, read):
        warnings.warn(sentence, PybayesridgeWarning, stacklevel=2)


def _refuse_commas(arguments: argparse.Namespace, frame: pd.DataFrame, names: list[str]) -> None:
    if arguments.decimal is not None:
        return
    thousands = with_commas(frame, names, THOUSANDS)
    if thousands:
        raise ValueError(
            f"column(s) {listed(thousands)} hold numbers with commas, which may separate thousands: take them out of "
            "the file, or use --decimal , for decimal commas (or --decimal . if these are levels of a factor)"
        )
    found = with_commas(frame, names, DECIMAL_COMMA)
    if found:
        raise ValueError(
            f"column(s) {listed(found)} hold numbers with decimal commas: use --decimal , (or --decimal . if these "
            "are levels of a factor)"
        )


def _check_column(where: str, name: str, frame: pd.DataFrame) -> None:
    columns = [str(c) for c in frame.columns]
    if name not in columns:
        raise ValueError(f"{where} names {name!r}, which is not a column of the data{did_you_mean(name, columns)}")
