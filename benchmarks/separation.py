"""Columns that separate the responses: importance sampling, expectation propagation alone, and Laplace's method.

    python -m benchmarks.separation [--quick] [--out FOLDER] [--render] [--only PART ...]

80 yes/no responses in ten blocks, or 400 beside 20 columns, at four levels of a treatment or ten, at some of which
all responses are 1. Means and standard deviations of the effects of the treatment beside long importance sampling at
each penalty of the fit, from t distributions about the parts of the posterior. And yes/no responses that columns
predict without error, for which widths of intervals are compared.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
from scipy.special import expit, gammaln, logsumexp

from benchmarks import common
from pybayesridge import BayesRidge
from pybayesridge.sites import windows

NAME = "separation"
PACKAGES = ["pybayesridge", "numpy", "scipy"]
DF, WIDER = 6.0, 1.15
"""Degrees of freedom and scale of the t distributions, relative to EP's normal distributions."""

EVEN = 0.15
"""Share of the draws that all parts of a posterior get alike."""

DRAWS = 20_000
"""At a penalty."""

COLUMNS = 20
NAMES = ["none", "crabs", "shrimp", "both", "goby", "none2", "none3", "none4", "none5", "wrasse"]
BESIDE = " + ".join(f"x{i}" for i in range(COLUMNS))
CASES = {
    "one": ("treatment", "y ~ t", 3, 1.5, -1.0),
    "both": ("treatment, two levels separate", "y ~ t", 5, 0.7, 99.0),
    "beside": (f"400 rows, treatment beside {COLUMNS} columns", f"y ~ t + {BESIDE}", 3, 0.7, -2.0, 400, 2.0),
    "many": ("200 rows, five of ten levels separate", "y ~ t", 1, 0.7, 0.0, 200, 0.0, 10),
    "blocks": ("treatment, effects of blocks", "y ~ t + (1 | block)", 5, 0.7, -1.0),
    "unlike": ("the same, blocks very different", "y ~ t + (1 | block)", 3, 1.5, -1.0),
}
"""What it is, formula, and the arguments of the responses."""

PREDICTED = {"one column": 1, "two columns": 2, "five columns": 5, "ten columns": 10}
ROWS = (60, 400)
"""Columns that predict responses together, and numbers of rows."""

ENDS = [0.025, 0.25, 0.75, 0.975]


def responses(
    seed: int = 3, spread: float = 1.5, last: float = -1.0, rows: int = 80, effect: float = 0.0, levels: int = 4
) -> pd.DataFrame:
    """Responses, levels of which the fourth has an effect, blocks with effects, and columns, four with effects."""
    rng = np.random.default_rng(seed)
    x = np.random.default_rng([seed, 1]).normal(size=(rows, COLUMNS))
    block, t = np.repeat(np.arange(10), rows // 10), np.tile(np.repeat(np.arange(levels), rows // levels // 10), 10)
    eta = np.array([99.0, 1.0, 0.5, last, 0.0, *[99.0] * 4, -0.5])[t] + rng.normal(size=10)[block] * spread
    eta += effect * (x[:, 0] - x[:, 1] + x[:, 2] - x[:, 3])
    y = (rng.random(rows) < expit(np.clip(eta, -30, 30))).astype(float)
    out = pd.DataFrame({"y": y, "t": np.array(NAMES)[t], "block": [f"b{i}" for i in block]})
    return out.join(pd.DataFrame(x, columns=[f"x{i}" for i in range(COLUMNS)]))


def log_t(away: np.ndarray, roots: np.ndarray) -> np.ndarray:
    """Log density of t distributions with triangular roots of precisions at distances from their centres."""
    dim = away.shape[1]
    square = ((away @ roots / WIDER) ** 2).sum(axis=1)
    constant = gammaln((DF + dim) / 2) - gammaln(DF / 2) - 0.5 * dim * np.log(DF * np.pi) - dim * np.log(WIDER)
    return constant + np.log(np.diag(roots)).sum() - 0.5 * (DF + dim) * np.log1p(square / DF)


def sampled(fit: Any, y: np.ndarray, count: int, draws_of_each: int = DRAWS) -> tuple[np.ndarray, np.ndarray]:
    """Means and standard deviations of the first coefficients by importance sampling at each penalty."""
    weight, b = drawn(fit, y, count, draws_of_each)
    mean = weight @ b
    return mean, np.sqrt(weight @ (b - mean) ** 2)


def quantiles(weight: np.ndarray, b: np.ndarray, at: list[float]) -> np.ndarray:
    """Quantiles of weighted draws, a row for each coefficient."""
    order = np.argsort(b, axis=0)
    below = np.cumsum(weight[order], axis=0)
    first = [np.minimum((below < each).sum(axis=0), len(b) - 1) for each in at]
    columns = np.arange(b.shape[1])
    return np.column_stack([b[order[rows, columns], columns] for rows in first])


def drawn(fit: Any, y: np.ndarray, count: int, draws_of_each: int) -> tuple[np.ndarray, np.ndarray]:
    """Weights of draws of the first coefficients, and these."""
    space, k, rng = fit.space, fit.space.k, np.random.default_rng(0)
    penalties = np.column_stack([[node.log_t2 for node in fit.nodes], *(f.reshape(len(f), -1) for f in fit.factors)])
    _, which = np.unique(penalties, axis=0, return_inverse=True)
    which, draws, logs = which.reshape(-1), [], []
    weight = np.bincount(which, fit.weight)
    for penalty in np.flatnonzero(weight > 1e-6):
        parts = np.flatnonzero(which == penalty)
        at, log_t2 = fit.space_at(parts[0]), fit.nodes[parts[0]].log_t2
        rows = at.scaled(log_t2)
        laws = [fit.nodes[i].gaussian(at) for i in parts]
        log_evidence = logsumexp([fit.nodes[i].log_evidence for i in parts])
        share = (1 - EVEN) * fit.weight[parts] / weight[penalty] + EVEN / parts.size
        own = rng.multinomial(draws_of_each, share / share.sum())
        u = []
        for law, size in zip(laws, own, strict=True):
            noise = rng.normal(size=(size, law.mean.size)) * np.sqrt(DF / rng.chisquare(DF, size=size))[:, None]
            u.append(law.mean + WIDER * noise @ law.root().T)
        u = np.vstack(u)
        seen = zip(laws, own / draws_of_each, strict=True)
        log_mixture = logsumexp([log_t(u - g.mean, g.factor) + np.log(s) for g, s in seen if s > 0], axis=0)
        eta = u @ (rows.rows * rows.units).T
        log_posterior = -np.logaddexp(0.0, np.where(y > 0, -eta, eta)).sum(axis=1)
        log_posterior -= 0.5 * (u[:, k:] ** 2).sum(axis=1) + 0.5 * (u.shape[1] - k) * np.log(2 * np.pi)
        of_rows = at.coefficients(u.T, log_t2)
        draws.append(np.column_stack(space.on_user_scale(of_rows, np.full(len(u), log_t2), rng))[:, :count])
        logs.append(log_posterior - log_mixture - log_evidence + np.log(weight[penalty]))
    log_weight = np.concatenate(logs)
    return np.exp(log_weight - logsumexp(log_weight)), np.vstack(draws)


def fitted(model: BayesRidge, method: str, *, in_parts: bool = True) -> tuple[Any, float]:
    """A fit, in one part if it is told so, and the processor time of the shortest of three."""
    seconds = []
    with mock.patch.object(windows, "SHARED", windows.SHARED if in_parts else np.inf):
        for _ in range(3):
            start = time.process_time()
            res = model.fit(method)
            seconds.append(time.process_time() - start)
    return res, min(seconds)


def compared(formula: str, *of_data: float, draws: int = DRAWS) -> dict[str, Any]:
    """Means and standard deviations of three fits beside sampling, and their times."""
    data = responses(*of_data)  # type: ignore[arg-type]
    model = BayesRidge.from_formula(formula, data, family="binomial")
    fits = {
        "in parts": fitted(model, "ep"),
        "in one part": fitted(model, "ep", in_parts=False),
        "laplace": fitted(model, "laplace"),
    }
    count = data["t"].nunique()
    mean, sd = sampled(fits["in parts"][0].sites_fit, data["y"].to_numpy(), count, draws)
    names = [str(name) for name in fits["laplace"][0].params.index[:count]]
    return {"names": names} | {
        name: {
            "off": ((res.params.to_numpy()[:count] - mean) / sd).tolist(),
            "sd": (res.bse.to_numpy()[:count] / sd).tolist(),
            "seconds": seconds,
        }
        for name, (res, seconds) in fits.items()
    }


def all_compared(quick: bool) -> Iterator[tuple[str, Any]]:
    """Of each set of data."""
    for what, formula, *of_data in list(CASES.values())[: 1 if quick else None]:
        yield what, compared(formula, *of_data, draws=500 if quick else DRAWS)


def predicted(rows: int, columns: int) -> tuple[str, pd.DataFrame]:
    """A formula, and responses that its columns predict without error."""
    rng = np.random.default_rng([rows, columns])
    x = rng.normal(size=(rows, columns))
    out = pd.DataFrame(x, columns=[f"x{i}" for i in range(columns)])
    return "y ~ " + " + ".join(out.columns), out.assign(y=(x @ rng.normal(size=columns) + 0.3 > 0).astype(float))


def sure(rows: int = 60) -> tuple[str, pd.DataFrame]:
    """A column that is the response, beside another."""
    formula, out = predicted(rows, 1)
    return f"{formula} + sure", out.assign(sure=2 * out["y"] - 1)


def all_predicted(quick: bool) -> Iterator[tuple[str, Any]]:
    """Of each set of data."""
    sets = {"60 rows, a column that is the response, and another": sure()}
    sets |= {f"{n} rows, {what}": predicted(n, p) for n in ROWS for what, p in PREDICTED.items()}
    for what, (formula, data) in list(sets.items())[: 1 if quick else None]:
        yield what, of_predicted(formula, data, 500 if quick else DRAWS)


def of_predicted(formula: str, data: pd.DataFrame, draws: int) -> dict[str, Any]:
    """Ends of intervals of two fits and by sampling, and times."""
    model = BayesRidge.from_formula(formula, data, family="binomial")
    fits = {"by sampling": fitted(model, "ep"), "in one part": fitted(model, "ep", in_parts=False)}
    res = fits["by sampling"][0]
    exact = quantiles(*drawn(res.sites_fit, data["y"].to_numpy(), len(res.params), draws), ENDS)
    out: dict[str, Any] = {"exact": exact.tolist()}
    for name, (fit, seconds) in fits.items():
        outer, inner = fit.conf_int().to_numpy(), fit.conf_int(alpha=0.5).to_numpy()
        out[name] = {"ends": np.column_stack([outer[:, 0], inner, outer[:, 1]]).tolist(), "seconds": seconds}
    return out


def widths(each: dict[str, Any], name: str) -> str:
    """Widths of 50 % and 95 % intervals relative to those by sampling, of all coefficients."""
    exact, own = np.array(each["exact"]), np.array(each[name]["ends"])
    out = []
    for low, high in ((1, 2), (0, 3)):
        ratio = (own[:, high] - own[:, low]) / (exact[:, high] - exact[:, low])
        out.append(f"{ratio.min():.2f} to {ratio.max():.2f}")
    return " and ".join(out)


def page_of_predicted(found: dict[str, Any]) -> str:
    """Its part on responses that columns predict without error."""
    rows = [
        [
            what,
            widths(each, "in one part"),
            widths(each, "by sampling"),
            f"{each['by sampling']['seconds'] / each['in one part']['seconds']:.1f}",
            f"{each['by sampling']['seconds']:.1f} s",
        ]
        for what, each in found.items()
    ]
    head = ["data", "EP in one part", "importance sampling", "time, relative to one part", "importance sampling"]
    text = (
        "Columns that predict all yes/no responses without error: widths of 50 % and of 95 % intervals of all "
        "coefficients, relative to long importance sampling. There are no posterior standard deviations."
    )
    return f"{text}\n\n{common.table(head, rows)}"


def page(found: dict[str, Any]) -> str:
    """The page."""
    rows = []
    for what, each in found["treatments"].items():
        at = each["names"].index("t[T.none]")
        others = [value for i, value in enumerate(each["in parts"]["sd"]) if i != at]
        own, laplace = each["in one part"], each["laplace"]
        rows.append(
            [
                what,
                f"{own['sd'][at]:.2f}",
                f"{each['in parts']['sd'][at]:.2f}",
                f"{min(others):.2f} to {max(others):.2f}",
                f"{laplace['sd'][at]:.2f}",
                f"{own['off'][at]:+.2f}",
                f"{each['in parts']['off'][at]:+.2f}",
                f"{each['in parts']['seconds'] / own['seconds']:.1f}",
                f"{each['in parts']['seconds']:.1f} s",
            ]
        )
    head = ["data", "sd, in one part", "sd, sampling", "others' sd, sampling", "sd, Laplace"]
    head += ["mean off, in one part", "mean off, sampling", "time, sampling / in one", "sampling"]
    text = (
        "Columns that separate the responses, made by `python -m benchmarks.separation`. 80 yes/no responses, or as "
        "many as is said; at one level of a treatment, or at more, all are 1. Standard deviations of the effect of "
        "the first such level by expectation propagation in one part, by importance sampling from its parts, and by "
        "Laplace's method, relative to long importance sampling, those of the intercept and the other levels, and "
        "errors of means in standard deviations."
    )
    first = f"{text}\n\n{common.table(head, rows)}"
    return f"{first}\n\n{page_of_predicted(found['predicted'])}" if "predicted" in found else first


PARTS = {"treatments": all_compared, "predicted": all_predicted}


def main() -> None:
    """Command line."""
    common.run_parts(__doc__, NAME, PACKAGES, page, PARTS)


if __name__ == "__main__":
    main()
