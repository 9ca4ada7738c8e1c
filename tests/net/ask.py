"""Everything that a fit can be asked, as numbers and texts by name."""

from __future__ import annotations

import inspect
import re
import tempfile
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tests.net.kinds import Kind

VALUES = (
    "params",
    "bse",
    "posterior_var",
    "fittedvalues",
    "resid",
    "rsquared",
    "nobs",
    "df_model",
    "df_resid",
    "k_constant",
    "converged",
    "n_iter",
    "method",
    "notes",
    "condition_number",
    "lambda_",
    "tau2",
    "sigma2",
    "log_marginal",
    "n_modes",
    "solver",
    "loo_mse",
    "loo_rsquared",
    "loo_residuals",
    "grid",
    "grid_scores",
    "quadrature_error",
    "penalty_information",
    "prob_positive",
    "prob_zero",
    "findings",
    "event",
    "link",
    "n_events",
    "n_trials",
    "loo_probabilities",
    "loo_auc",
    "loo_brier",
    "loo_log_score",
    "log_evidence",
    "log_evidence_se",
    "inclusion_prob",
    "inclusion_se",
    "cond_mean",
    "cond_var",
    "group_inclusion_prob",
    "group_inclusion_se",
    "prior_inclusion",
    "slab_var",
    "noise_var",
    "learned",
    "expected_size",
    "energy_trace",
    "residual",
    "resid_response",
    "resid_pearson",
    "resid_deviance",
)

SEEDED = 5
"""The seed of what is drawn."""

TIMES = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC|tmp\w+")


def questions(kind: Kind, res: Any) -> dict[str, Callable[[], Any]]:
    """Calls by name; each is made by itself, and an error is an answer."""
    names = [str(name) for name in res.model.exog_names] if hasattr(res, "model") else []
    pair = [name for name in names if name not in ("const", "Intercept")][:2]
    contrast = " - ".join(name if name.isidentifier() else f"`{name}`" for name in pair)
    target = 0 if np.ndim(getattr(res, "params", 0)) == 2 else None
    out: dict[str, Callable[[], Any]] = {name: lambda name=name: getattr(res, name) for name in VALUES}
    out |= {
        "conf_int": lambda: res.conf_int(0.1),
        "cov_params": lambda: res.cov_params(target),
        "predict": lambda: res.predict(kind.new),
        "predict linear": lambda: res.predict(kind.new, which="linear"),
        "prediction": lambda: res.get_prediction(kind.new).summary_frame(0.1),
        "prediction linear": lambda: res.get_prediction(kind.new, which="linear").summary_frame(0.1),
        "hyperparameters": lambda: res.hyperparameters(0.1),
        "explained_variance": lambda: res.explained_variance(0.1),
        "odds_ratios": lambda: res.odds_ratios(0.1),
        "rate_ratios": lambda: res.rate_ratios(0.1),
        "variance_components": lambda: res.variance_components(0.1),
        "random_effects": lambda: res.random_effects(alpha=0.1),
        "loo_calibration": lambda: res.loo_calibration(5),
        "contrast": lambda: res.contrast(contrast, alpha=0.1, target=target),
        "joint_contrast": lambda: res.joint_contrast(pair, target=target),
        "effects": lambda: res.effects(alpha=0.1, target=target),
        "effects linear": lambda: res.effects(alpha=0.1, which="linear", target=target),
        "predictions": lambda: res.predictions(alpha=0.1, target=target),
        "loo": lambda: vars_of(res.loo(target=target)),
        "pit": lambda: res.pit(target=target),
        "ppc": lambda: res.ppc(draws=50, target=target),
        "prior_sensitivity": lambda: res.prior_sensitivity(),
        "diagnostics": lambda: res.diagnostics(),
        "tidy": lambda: res.tidy(0.1),
        "sample": lambda: res.sample(4, rng=SEEDED),
        "select": lambda: res.select(),
        "models": lambda: res.models(5),
        "credible_sets": lambda: res.credible_sets(),
        "pair_inclusion": lambda: res.pair_inclusion(pair),
        "median_model": lambda: res.median_model(),
        "size_distribution": lambda: res.size_distribution(),
        "size_interval": lambda: res.size_interval(),
        "by group": lambda: res.inclusion_prob(by="group"),
        "summary": lambda: res.summary().as_text(),
        "summary direction": lambda: res.summary(direction=True).as_text(),
        "summary html": lambda: res.summary().as_html(),
        "summary latex": lambda: res.summary().as_latex(),
        "report": lambda: _report(res),
        "write_coefficients": lambda: _coefficients(res),
    }
    for name in kind.variables:
        out[f"effects {name}"] = lambda name=name: res.effects(name, target=target)
        out[f"plot_effect {name}"] = lambda name=name: drawn(res.plot_effect(name, target=target))
    for name in (
        "coefficients",
        "lambda",
        "path",
        "fit",
        "residuals",
        "pit",
        "ppc",
        "inclusion",
        "n_included",
        "random_effects",
        "variance_components",
    ):
        one = {} if target is None else {"target": target}
        out[f"plot_{name}"] = lambda name=name, one=one: drawn(getattr(res, f"plot_{name}")(**one))
    for name in ("calibration", "roc", "trace"):
        out[f"plot_{name}"] = lambda name=name: drawn(getattr(res, f"plot_{name}")())
    return out


def answers(kind: Kind, res: Any, without: tuple[str, ...] = ()) -> dict[str, Any]:
    """Arrays and texts by name, `without` those whose names begin with one of these."""
    out: dict[str, Any] = {}
    for name, call in questions(kind, res).items():
        if name.startswith(without):
            continue
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                value = call()
            except Exception as error:
                value = f"{type(error).__name__}: {error}"
        out |= flat(name, value)
        said = sorted({f"{each.category.__name__}: {each.message}" for each in caught})
        if said:
            out[f"{name}, warnings"] = "\n".join(said)
    return out


def flat(name: str, value: Any) -> dict[str, Any]:
    """A value as arrays and texts, labels included."""
    if isinstance(value, pd.DataFrame):
        out = {f"{name}, labels": f"{list(value.columns)} {list(value.index)}"}
        for column in value.columns:
            out |= flat(f"{name}.{column}", value[column].to_numpy())
        return out
    if isinstance(value, pd.Series):
        return {f"{name}, labels": f"{value.name} {list(value.index)}"} | flat(name, value.to_numpy())
    if isinstance(value, Mapping):
        return {key: each for part, inner in value.items() for key, each in flat(f"{name}.{part}", inner).items()}
    if isinstance(value, bool | np.bool_ | str) or value is None:
        return {name: TIMES.sub("", str(value))}
    array = np.asarray(value) if not isinstance(value, set) else np.asarray(sorted(value))
    if array.dtype.kind in "iufb":
        return {name: np.atleast_1d(array.astype(float))}
    return {name: "\n".join(map(str, np.ravel(array).tolist()))}


def vars_of(value: Any) -> dict[str, Any]:
    """The public attributes of an object that are no methods."""
    names = [name for name in dir(value) if not name.startswith("_")]
    return {name: each for name in names if not callable(each := getattr(value, name))}


def drawn(ax: Any) -> dict[str, Any]:
    """Numbers and texts of a picture."""
    from matplotlib import pyplot

    out: dict[str, Any] = {"title": ax.get_title(), "x": ax.get_xlabel(), "y": ax.get_ylabel()}
    for i, line in enumerate(ax.lines):
        out[f"line {i}"] = np.asarray(line.get_xydata(), dtype=float)
    for i, part in enumerate(ax.collections):
        out[f"points {i}"] = np.ma.filled(np.asarray(part.get_offsets(), dtype=float), np.nan)
        out[f"paths {i}"] = np.concatenate([np.zeros((0, 2)), *(path.vertices for path in part.get_paths())])
    pyplot.close("all")
    return out


def _report(res: Any) -> str:
    with tempfile.TemporaryDirectory() as folder:
        text = res.report(Path(folder) / "report.html").read_text(encoding="utf-8")
    text = re.sub(r"<svg.*?</svg>|<style>.*?</style>|<script>.*?</script>", "", text, flags=re.DOTALL)
    return re.sub(r"\s*\n\s*", "\n", re.sub(r"<[^>]*>", "\n", text))


def _coefficients(res: Any) -> pd.DataFrame:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "coefficients.csv"
        res.write_coefficients(path)
        return pd.read_csv(path)


def signatures() -> dict[str, str]:
    """Of every public function, class and method; the command line's help too."""
    import contextlib
    import io

    import pybayesridge
    import pybayesridge.sklearn
    from pybayesridge import cli

    out = {}
    for where in (pybayesridge, pybayesridge.sklearn):
        for name in sorted(where.__all__):
            each = getattr(where, name)
            out[name] = _signature(each)
            if inspect.isclass(each):
                methods = [part for part in dir(each) if not part.startswith("_") and callable(getattr(each, part))]
                out |= {f"{name}.{part}": _signature(getattr(each, part)) for part in methods}
    for command in ((), ("ridge",), ("spikeslab",), ("predict",)):
        with contextlib.redirect_stdout(io.StringIO()) as text, contextlib.suppress(SystemExit):
            cli.main([*command, "--help"])
        out[f"help {' '.join(command)}"] = text.getvalue()
    return out


def _signature(each: Any) -> str:
    try:
        return str(inspect.signature(each))
    except (TypeError, ValueError):
        return ""
