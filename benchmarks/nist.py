"""Digits of least squares on the Statistical Reference Datasets of NIST, compared with statsmodels, NumPy and R.

    python -m benchmarks.nist [--quick] [--render] [--out FOLDER]

`BayesRidge` has no penalty (`fit("fixed", lam=0)`). A number is the log relative error,
-log10(|estimate - certified| / |certified|), the smallest over the parameters; where the certified value is zero it
is -log10(|estimate|). It is between 0 and 15, the digits that NIST certifies. The quick form is the same.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks import peers_r
from benchmarks.common import arguments, measured, save, table, use_one_thread
from benchmarks.nist_data import DATASETS, Dataset
from pybayesridge import BayesRidge

PACKAGES = ["pybayesridge", "numpy", "scipy", "statsmodels"]
MOST = 15.0
"""Digits that are certified."""

QUANTITIES = {
    "coefficients": "params",
    "standard errors": "bse",
    "residual standard deviation": "residual_sd",
    "R²": "rsquared",
}
"""Heading of each table, and the field of `Certified`."""

SECONDS = 60.0
"""Most that R may take for one data set."""

R_CODE = """
fit <- lm({formula})
out <- suppressWarnings(summary(fit))
if (!anyNA(coef(fit))) {{
  write("params", out$coefficients[, 1])
  write("bse", out$coefficients[, 2])
  write("residual_sd", out$sigma)
  write("rsquared", out$r.squared)
}}
"""
"""lm drops columns that it takes for combinations of others: then there is nothing to compare."""


def log_relative_error(estimate: Any, certified: str | Sequence[str]) -> float:
    """Digits in which all estimates agree with the certified values; not a number where there is no estimate."""
    values = np.array([float(v) for v in ([certified] if isinstance(certified, str) else certified)])
    found = np.atleast_1d(np.asarray(estimate, dtype=float))
    size = np.where(values == 0, 1.0, np.abs(values))
    with np.errstate(divide="ignore"):
        digits = -np.log10(np.abs(found - values) / size)
    return float(np.clip(digits, 0.0, MOST).min())


def of_ridge(data: Dataset) -> dict[str, Any]:
    """BayesRidge without a penalty, and what it says of the fit.

    The prior of the coefficients is on the scale of sigma, so that sigma has n less the number of unpenalised columns
    as degrees of freedom; its posterior mean, and the standard errors, are brought to those of least squares.
    """
    y, x = data.arrays()
    n, intercept = len(y), int(data.intercept)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        res = BayesRidge(y, x, intercept=data.intercept).fit("fixed", lam=0)
    ratio = np.sqrt((n - intercept - 2) / (n - data.k)) if n > intercept + 2 else np.nan
    return {
        "params": np.asarray(res.params),
        "bse": np.asarray(res.bse) * ratio,
        "residual_sd": np.sqrt(res.sigma2) * ratio,
        "rsquared": res.rsquared,
        "findings": [finding.code for finding in res.findings if finding.code != "intervals"],
        "condition": float(res.condition_number),
        "loss": float(res.precision_loss),
    }


def of_statsmodels(data: Dataset, method: str) -> dict[str, Any]:
    """OLS of statsmodels, by a pseudoinverse or a QR factorisation."""
    import statsmodels.api as sm

    y, x = data.arrays()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        res = sm.OLS(y, with_constant(data, x)).fit(method=method)
        return {
            "params": res.params,
            "bse": res.bse,
            "residual_sd": np.sqrt(res.scale),
            "rsquared": res.rsquared,
        }


def of_numpy(data: Dataset) -> dict[str, Any]:
    """Coefficients by `numpy.linalg.lstsq`, and what follows from the residuals."""
    y, x = data.arrays()
    x = with_constant(data, x)
    params = np.linalg.lstsq(x, y, rcond=None)[0]
    rss = float(np.sum((y - x @ params) ** 2))
    total = float(np.sum((y - (y.mean() if data.intercept else 0.0)) ** 2))
    return {"params": params, "residual_sd": np.sqrt(rss / (len(y) - data.k)), "rsquared": 1 - rss / total}


def of_r(data: Dataset) -> dict[str, Any]:
    """Lm of R."""
    y, x = data.arrays()
    return dict(peers_r.run(R_CODE.format(formula="y ~ x" if data.intercept else "y ~ x - 1"), x, y, x, SECONDS))


def with_constant(data: Dataset, x: np.ndarray) -> np.ndarray:
    """The columns, after a column of ones where the data set has an intercept."""
    return np.column_stack([np.ones(len(x)), x]) if data.intercept else x


def programs() -> dict[str, Callable[[Dataset], dict[str, Any]]]:
    """The programs that are installed, by the heading of their column."""
    out: dict[str, Callable[[Dataset], dict[str, Any]]] = {
        "BayesRidge": of_ridge,
        "OLS (pinv)": lambda data: of_statsmodels(data, "pinv"),
        "OLS (qr)": lambda data: of_statsmodels(data, "qr"),
        "lstsq": of_numpy,
    }
    if peers_r.has("stats"):
        out["R lm"] = of_r
    return out


def digits_of(found: dict[str, Any], data: Dataset) -> dict[str, float | None]:
    """Digits of each quantity; None where the program does not have it."""
    fields = QUANTITIES.values()
    return {
        field: log_relative_error(found[field], getattr(data.certified, field)) if field in found else None
        for field in fields
    }


def measure(quick: bool) -> dict[str, Any]:
    """Digits by data set and program, and what BayesRidge says of its fits."""
    out: dict[str, Any] = {"r": peers_r.versions(("stats",)), "data_sets": {}}
    for name, data in DATASETS.items():
        found = {program: fit(data) for program, fit in programs().items()}
        ours = found["BayesRidge"]
        out["data_sets"][name] = {
            "difficulty": data.difficulty,
            "n": len(data.y),
            "k": data.k,
            "said": {key: ours[key] for key in ("findings", "condition", "loss")},
            "digits": {program: digits_of(values, data) for program, values in found.items()},
        }
    return out


def page(found: dict[str, Any]) -> str:
    """The tables."""
    sets = found["data_sets"]
    columns = list(next(iter(sets.values()))["digits"])
    parts = [
        "Digits that least squares keeps on the [linear regressions of "
        "NIST](https://www.itl.nist.gov/div898/strd/lls/lls.shtml), which are certified to 15 digits: the log "
        "relative error `-log10(|estimate - certified| / |certified|)`, the smallest over the parameters; where the "
        "certified value is zero, `-log10(|estimate|)`. Zero means that no digit is right. BayesRidge has no penalty "
        '(`fit("fixed", lam=0)`). Its noise variance has nu = n - 1 degrees of freedom (n without an intercept), so '
        "that its sigma and standard errors are multiplied by `sqrt((nu - 2) / (n - k))` to be compared. OLS is that "
        f"of statsmodels, by both of its methods, lstsq that of NumPy. A dash: lm drops a column. {found['r']}.",
    ]
    for title, field in QUANTITIES.items():
        with_it = [c for c in columns if any(each["digits"][c][field] is not None for each in sets.values())]
        rows = [
            [name, each["n"], each["k"], *(shown(each["digits"][c][field]) for c in with_it)]
            for name, each in sets.items()
        ]
        parts += [f"## {title[0].upper()}{title[1:]}", table(["data", "n", "k", *with_it], rows)]
    rows = [
        [
            name,
            each["difficulty"],
            f"{each['said']['condition']:.2g}",
            f"{each['said']['loss']:.1g}",
            ", ".join(each["said"]["findings"]) or "–",
        ]
        for name, each in sets.items()
    ]
    parts += [
        "## What BayesRidge reports",
        "Condition number of the standardised columns, `precision_loss` and the findings of each fit. "
        "`precision_loss` is relative to the largest coefficient of the standardised columns. The coefficients of "
        "Wampler4 and Wampler5 have few digits because their standard errors exceed them by up to seven orders of "
        "magnitude; relative to the standard errors they have at least ten digits.",
        table(["data", "difficulty", "condition", "loss", "findings"], rows),
    ]
    return "\n\n".join(parts)


def shown(digits: float | None) -> str:
    """One decimal, or a dash."""
    return "–" if digits is None or not np.isfinite(digits) else f"{digits:.1f}"


def main() -> None:
    args = arguments(__doc__)
    if not args.render:
        use_one_thread()
    env, found = measured("nist", args, PACKAGES, measure)
    save("nist", env, found, page(found), args.out)


if __name__ == "__main__":
    main()
