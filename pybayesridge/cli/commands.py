"""The commands that fit and predict."""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pybayesridge import BayesRidge, SpikeSlab, load
from pybayesridge.cli.as_json import as_json
from pybayesridge.cli.tables import numbers_among_text, read_table, write_table
from pybayesridge.cli.terminal import progress, warnings_as_lines
from pybayesridge.data import did_you_mean
from pybayesridge.exceptions import PybayesridgeWarning
from pybayesridge.formula import names_read

MODEL_OPTIONS = {"ridge": ("sigma2",), "spikeslab": ("prior_inclusion", "slab_var", "noise_var")}
MODELS: dict[str, Any] = {"ridge": BayesRidge, "spikeslab": SpikeSlab}
FIT_OPTIONS = {"ridge": ("lam", "grid", "tol", "maxiter"), "spikeslab": ("hyper", "tol", "maxiter")}


def fit(arguments: argparse.Namespace) -> None:
    """Fit a model, print it, and write what was asked for."""
    for path in (arguments.save, arguments.report):
        _check_folder(path)
    with warnings_as_lines() as told:
        with progress(f"reading {arguments.data}", quiet=arguments.quiet):
            frame = read_table(arguments.data, arguments.na)
        _check_columns(arguments, frame)
        with progress(f"fitting {arguments.formula}", quiet=arguments.quiet):
            results = _results(arguments, frame)
    if arguments.json:
        content = as_json(results, arguments.command, alpha=arguments.alpha, warnings=told)
        json.dump(content, sys.stdout, indent=2, allow_nan=False, ensure_ascii=False)
        print()
    elif not arguments.quiet:
        print(results.summary(alpha=arguments.alpha))
    if arguments.report is not None:
        with progress("writing the report", quiet=arguments.quiet):
            results.report(arguments.report, alpha=arguments.alpha)
    if arguments.save is not None:
        results.save(arguments.save, remove_data=True)


def predict(arguments: argparse.Namespace) -> None:
    """Write the predictions of a saved fit for new data."""
    _check_folder(arguments.output)
    with warnings_as_lines():
        results = load(arguments.model)
        with progress(f"reading {arguments.data}", quiet=arguments.quiet):
            spec = results.model.formula_spec
            frame = read_table(arguments.data, arguments.na, text=[] if spec is None else spec.text_variables)
        weights = None
        if arguments.weights is not None:
            _check_column("--weights", arguments.weights, frame)
            weights = frame[arguments.weights]
        with progress("predicting", quiet=arguments.quiet):
            out = results.get_prediction(frame, weights=weights).summary_frame(alpha=arguments.alpha)
    if isinstance(out.columns, pd.MultiIndex):
        out.columns = pd.Index([f"{target}:{name}" for target, name in out.columns])
    write_table(out, arguments.output)


def _results(arguments: argparse.Namespace, frame: pd.DataFrame) -> Any:
    def given(names: tuple[str, ...]) -> dict[str, Any]:
        return {name: getattr(arguments, name) for name in names if getattr(arguments, name) is not None}

    model = MODELS[arguments.command].from_formula(
        arguments.formula,
        frame,
        subset=None if arguments.subset is None else _rows(arguments.subset, frame),
        missing=arguments.missing,
        weights=arguments.weights,
        unpenalized=arguments.unpenalized or None,
        standardize=not arguments.own_scale,
        **({"group": None} if getattr(arguments, "by_column", False) else {}),
        **given(MODEL_OPTIONS[arguments.command]),
    )
    if arguments.weights is not None and arguments.weights in model.data.exog_columns:
        warnings.warn(
            f"the weights {arguments.weights!r} are a column of the model too: write '. - {arguments.weights}' "
            "if they should not be",
            PybayesridgeWarning,
            stacklevel=2,
        )
    return model.fit(arguments.method, **given(FIT_OPTIONS[arguments.command]))


def _check_folder(path: str | None) -> None:
    """Refuse a file in a folder that is not there before anything long is done."""
    if path is not None and not Path(path).parent.is_dir():
        raise ValueError(f"{path}: there is no folder {str(Path(path).parent)!r}")


def _check_columns(arguments: argparse.Namespace, frame: pd.DataFrame) -> None:
    read, unknown = names_read(arguments.formula, frame)
    for name in unknown:
        _check_column("the formula", name, frame)
    if arguments.weights is not None:
        _check_column("--weights", arguments.weights, frame)
    for sentence in numbers_among_text(frame, read):
        warnings.warn(sentence, PybayesridgeWarning, stacklevel=2)


def _check_column(where: str, name: str, frame: pd.DataFrame) -> None:
    columns = [str(c) for c in frame.columns]
    if name not in columns:
        raise ValueError(f"{where} names {name!r}, which is not a column of the data{did_you_mean(name, columns)}")


def _rows(condition: str, frame: pd.DataFrame) -> Any:
    """Which rows satisfy a condition in pandas' language of queries."""
    try:
        mask = frame.eval(condition, engine="python")
    except Exception as error:  # whatever an expression may raise
        raise ValueError(f"--subset {condition!r}: {error}") from None
    values = np.asarray(mask)
    if values.dtype != bool or values.shape != (len(frame),):
        raise ValueError(f"--subset {condition!r} is not a condition on rows, such as 'age > 30'")
    if not values.any():
        raise ValueError(f"--subset {condition!r} leaves no row")
    return values
