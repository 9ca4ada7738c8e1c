"""Make slice_separated.json: yes/no responses that columns predict without error, by slice sampling.

    python tests/reference/slice_separated.py

The model is written down as the documentation states it; nothing of pybayesridge is imported. Standardised
coefficients are ``exp(l / 2) u`` with u standard normal. The u are moved around an ellipse (Murray, Adams & MacKay
2010), all chains at once; the intercept, in the same unit, and l by Metropolis' steps of several lengths. Along the
directions that separate the likelihood hardly depends on l, so that chains reach its tail.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

PROBLEMS = {"seven columns": (60, 7), "ten columns": (60, 10)}
LATENT = np.pi**2 / 3
ENDS = [0.025, 0.25, 0.75, 0.975]
CHAINS, BEGINNING, LENGTH, EVERY, PARTS = 1600, 600, 2400, 4, 8


def data(n: int, p: int) -> tuple[np.ndarray, np.ndarray]:
    """Responses, and columns of which they are a linear function's sign."""
    rng = np.random.default_rng([n, p])
    x = rng.normal(size=(n, p))
    return (x @ rng.normal(size=p) + 0.3 > 0).astype(float), x


def drawn(y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Draws of the intercept and the coefficients of standardised columns, (draws, CHAINS, 1 + p)."""
    rng, p = np.random.default_rng(1), x.shape[1]
    sign = np.where(y > 0, 1.0, -1.0)
    rows, center = (sign[:, None] * x).T.copy(), np.log(LATENT / p)

    def likelihood(u: np.ndarray, h: np.ndarray, l: np.ndarray) -> np.ndarray:
        eta = np.exp(0.5 * l)[:, None] * (u @ rows + h[:, None] * sign)
        return -np.logaddexp(0, -eta).sum(axis=1)

    def prior(l: np.ndarray) -> np.ndarray:
        # Beta-prime(1/2, 1/2) of the ratio of variances; the intercept flat in units of the latent deviation.
        return 0.5 * (l - center) - 1.5 * np.logaddexp(0, l - center) + 0.5 * l

    u, h, l = 0.1 * rng.normal(size=(CHAINS, p)), np.zeros(CHAINS), np.zeros(CHAINS)
    value, out = likelihood(u, h, l), []
    for turn in range(-BEGINNING, LENGTH):
        other, level = rng.normal(size=u.shape), value + np.log(rng.random(CHAINS))
        angle = rng.uniform(0, 2 * np.pi, CHAINS)
        low, high, left = angle - 2 * np.pi, angle.copy(), np.arange(CHAINS)
        while left.size:
            new = u[left] * np.cos(angle[left])[:, None] + other[left] * np.sin(angle[left])[:, None]
            found = likelihood(new, h[left], l[left])
            good = found > level[left]
            u[left[good]], value[left[good]] = new[good], found[good]
            left = left[~good]
            below = angle[left] < 0
            low[left[below]], high[left[~below]] = angle[left[below]], angle[left[~below]]
            angle[left] = rng.uniform(low[left], high[left])
        for _ in range(2):
            new = h + rng.normal(size=CHAINS) * rng.choice([0.03, 0.15, 0.6], size=CHAINS)
            found = likelihood(u, new, l)
            good = np.log(rng.random(CHAINS)) < found - value
            h, value = np.where(good, new, h), np.where(good, found, value)
            new = l + rng.normal(size=CHAINS) * rng.choice([0.5, 2.0, 5.0], size=CHAINS)
            found = likelihood(u, h, new)
            good = np.log(rng.random(CHAINS)) < found - value + prior(new) - prior(l)
            l, value = np.where(good, new, l), np.where(good, found, value)
        if turn >= 0 and turn % EVERY == 0:
            out.append(np.column_stack([h, u]) * np.exp(0.5 * l)[:, None])
    return np.array(out)


def summary(n: int, p: int) -> dict[str, object]:
    """Quantiles of the intercept and the coefficients, and the largest relative error of widths of 95 % intervals."""
    y, x = data(n, p)
    mean, sd = x.mean(axis=0), x.std(axis=0)
    draws = drawn(y, (x - mean) / sd)
    b = draws[:, :, 1:] / sd
    every = np.concatenate([(draws[:, :, 0] - b @ mean)[:, :, None], b], axis=2)
    parts = [np.quantile(every[:, i::PARTS].reshape(-1, p + 1), ENDS, axis=0) for i in range(PARTS)]
    widths = np.array([part[-1] - part[0] for part in parts])
    error = float((widths.std(axis=0) / widths.mean(axis=0)).max() / np.sqrt(PARTS))
    quantiles = np.quantile(every.reshape(-1, p + 1), ENDS, axis=0).T
    return {"n": n, "p": p, "quantiles": np.round(quantiles, 6).tolist(), "error": round(error, 4)}


if __name__ == "__main__":
    found = {name: summary(n, p) for name, (n, p) in PROBLEMS.items()}
    (Path(__file__).parent / "slice_separated.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
