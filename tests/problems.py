"""Random regressions for the tests, and the oracle beside the model for each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from pybayesridge import BayesRidge
from tests.oracle import Oracle


def regression(n, p, *, seed=0, noise=1.0, correlation=0.5):
    """A response and correlated columns, each with a mean and a scale of its own."""
    rng = np.random.default_rng(seed)
    x = np.sqrt(1 - correlation) * rng.standard_normal((n, p)) + np.sqrt(correlation) * rng.standard_normal((n, 1))
    y = 3.0 + x @ rng.normal(1.0, 0.5, p) + noise * np.sqrt(p) * rng.standard_normal(n)
    return y, x * 10.0 ** rng.uniform(-1, 1, p) + rng.standard_normal(p)


def rows_of_two_kinds():
    """A frame with numbers, a factor and labels of rows, for formulas."""
    rng = np.random.default_rng(0)
    n = 90
    frame = pd.DataFrame(
        {
            "x1": rng.normal(2, 1, n),
            "x2": rng.uniform(0, 10, n),
            "x3": rng.lognormal(0, 0.5, n),
            "g": rng.choice(["low", "mid", "high"], n),
            "k": rng.integers(0, 4, n),
            "w": rng.uniform(0.5, 3, n),
        },
        index=[f"row{i}" for i in range(n)],
    )
    effect = frame["g"].map({"low": -1.0, "mid": 0.0, "high": 2.0})
    signal = frame["x1"] + np.sin(frame["x2"]) + 0.3 * frame["x2"] + frame["x3"] + effect
    frame["y"] = np.exp(0.1 * (signal + rng.normal(0, 0.5, n)))
    return frame


@dataclass(frozen=True)
class Case:
    """A regression, how it is modelled and fitted, and its oracle.

    The prior is the paper's half-Cauchy and the method the paper's EM unless `model` and `fit` say otherwise.
    """

    n: int
    p: int
    seed: int = 0
    noise: float = 1.0
    weighted: bool = False
    unpenalized: tuple[int, ...] = ()
    model: dict[str, Any] = field(default_factory=dict)
    fit: dict[str, Any] = field(default_factory=dict)

    def arrays(self):
        return regression(self.n, self.p, seed=self.seed, noise=self.noise)

    def weights(self):
        return np.random.default_rng(self.seed + 1).uniform(0.2, 5.0, self.n) if self.weighted else None

    @property
    def options(self):
        return {"prior": "half-cauchy"} | self.model

    @property
    def intercept(self):
        return self.model.get("intercept", True)

    def results(self, **fit):
        y, x = self.arrays()
        model = BayesRidge(y, x, weights=self.weights(), unpenalized=list(self.unpenalized) or None, **self.options)
        return model.fit(**({"method": "em"} | self.fit | fit))

    def split(self, rows):
        """Rows as (unpenalised columns, penalised columns)."""
        free = list(self.unpenalized)
        z = np.column_stack([np.ones((len(rows), int(self.intercept))), rows[:, free]])
        return z, np.delete(rows, free, axis=1)

    def oracle(self):
        y, x = self.arrays()
        z, rest = self.split(x)
        keys = ("standardize", "prior", "sigma2")
        options = {key: value for key, value in self.options.items() if key in keys}
        options |= {key: self.fit[key] for key in ("dof", "parameterization") if key in self.fit}
        return Oracle(y, z, rest, weights=self.weights(), **options)

    @property
    def order(self):
        """Positions in the oracle's [Z, X] of the coefficients in the order of the model."""
        shift = int(self.intercept)
        free = list(self.unpenalized)
        rest = [j for j in range(self.p) if j not in free]
        position = {j: shift + i for i, j in enumerate([*free, *rest])}
        return [*range(shift), *(position[j] for j in range(self.p))]


CASES = {
    "tall": Case(80, 6),
    "tall-noisy": Case(60, 8, noise=2.0),
    "wide": Case(20, 50),
    "square": Case(25, 25),
    "square-nu": Case(26, 25),
    "one-column": Case(12, 1),
    "weights": Case(60, 7, weighted=True),
    "weights-wide": Case(25, 40, weighted=True),
    "unpenalized": Case(50, 8, unpenalized=(2, 5)),
    "unpenalized-wide": Case(25, 40, unpenalized=(0, 39)),
    "unpenalized-weights": Case(50, 8, seed=1, weighted=True, unpenalized=(1, 7)),
    "unpenalized-weights-wide": Case(24, 30, weighted=True, unpenalized=(3,)),
    "no-intercept": Case(40, 6, model={"intercept": False}),
    "no-intercept-wide": Case(20, 30, model={"intercept": False}),
    "no-intercept-unpenalized": Case(40, 6, unpenalized=(1,), weighted=True, model={"intercept": False}),
    "own-scale": Case(50, 6, model={"standardize": False}),
    "own-scale-wide": Case(20, 35, model={"standardize": False}),
    "own-scale-weights": Case(50, 6, weighted=True, unpenalized=(4,), model={"standardize": False}),
    "own-scale-no-intercept": Case(50, 6, model={"standardize": False, "intercept": False}),
    "paper": Case(50, 6, fit={"dof": "paper"}),
    "tau": Case(50, 6, fit={"parameterization": "tau"}),
    "tau-wide": Case(20, 50, seed=19, fit={"parameterization": "tau"}),
    "prior-1-1": Case(50, 6, model={"prior": (1.0, 1.0)}),
    "prior-2-3": Case(50, 6, model={"prior": (2.0, 3.0)}),
    "prior-small": Case(50, 6, model={"prior": (0.2, 0.1)}, fit={"parameterization": "tau"}),
    "prior-own-scale": Case(50, 6, model={"prior": (1.5, 0.5), "standardize": False}),
    "r2": Case(50, 6, model={"prior": "r2"}),
    "r2-wide": Case(20, 50, model={"prior": "r2"}),
    "r2-weights": Case(50, 8, seed=1, weighted=True, unpenalized=(1, 7), model={"prior": "r2"}),
    "r2-weights-wide": Case(24, 40, weighted=True, unpenalized=(3,), model={"prior": "r2"}),
    "r2-no-intercept": Case(40, 6, model={"prior": "r2", "intercept": False}),
    "r2-own-scale": Case(50, 6, weighted=True, unpenalized=(4,), model={"prior": "r2", "standardize": False}),
    "r2-own-scale-wide": Case(20, 35, weighted=True, model={"prior": "r2", "standardize": False, "intercept": False}),
    "r2-tau": Case(50, 6, model={"prior": "r2"}, fit={"parameterization": "tau"}),
    "r2-paper": Case(50, 6, model={"prior": "r2"}, fit={"dof": "paper"}),
    "r2-sigma2": Case(50, 6, weighted=True, model={"prior": "r2", "sigma2": 4.0}),
    "scale": Case(50, 6, weighted=True, model={"prior": (0.5, 0.5, 0.03)}),
    "scale-wide": Case(20, 50, unpenalized=(2,), model={"prior": (1.0, 0.5, 0.05)}),
    "scale-own-scale": Case(50, 6, model={"prior": (2.0, 1.5, 1e-3), "standardize": False}),
    "scale-own-scale-tau": Case(
        20, 35, model={"prior": (0.5, 1.0, 0.02), "standardize": False}, fit={"parameterization": "tau"}
    ),
    "sigma2": Case(50, 6, model={"sigma2": 4.0}),
    "sigma2-wide": Case(20, 40, model={"sigma2": 30.0}),
    "sigma2-weights-tau": Case(
        50, 6, weighted=True, model={"sigma2": 5.0}, fit={"parameterization": "tau"}, unpenalized=(0,)
    ),
}
