"""Columns that separate the responses: expectation propagation in one part and in several, and Laplace's method.

    python -m benchmarks.separation [--quick] [--out FOLDER] [--render] [--only PART ...]

80 yes/no responses in ten blocks, or 400 beside 20 columns, at four levels of a treatment or ten, at some of which
all responses are 1. Means and standard deviations of the effects of the treatment beside importance sampling at each
penalty of the fit, from t distributions about the parts of the posterior.
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
        drawn = at.coefficients(u.T, log_t2)
        draws.append(np.column_stack(space.on_user_scale(drawn, np.full(len(u), log_t2), rng))[:, :count])
        logs.append(log_posterior - log_mixture - log_evidence + np.log(weight[penalty]))
    log_weight = np.concatenate(logs)
    weight, b = np.exp(log_weight - logsumexp(log_weight)), np.vstack(draws)
    mean = weight @ b
    return mean, np.sqrt(weight @ (b - mean) ** 2)


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
    head = ["data", "sd, in one part", "sd, in parts", "others' sd, in parts", "sd, Laplace"]
    head += ["mean off, in one part", "mean off, in parts", "time, in parts / in one", "in parts"]
    text = (
        "Columns that separate the responses, made by `python -m benchmarks.separation`. 80 yes/no responses, or as "
        "many as is said; at one level of a treatment, or at more, all are 1. Standard deviations of the effect of "
        "the first such level by expectation propagation and by Laplace's method, relative to importance sampling, "
        "those of the intercept and the other levels, and errors of means in standard deviations."
    )
    return f"{text}\n\n{common.table(head, rows)}"


PARTS = {"treatments": all_compared}


def main() -> None:
    """Command line."""
    common.run_parts(__doc__, NAME, PACKAGES, page, PARTS)


if __name__ == "__main__":
    main()
