"""Random ridge problems: one for each seed and number, the same on every machine."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import sparse

from pybayesridge import BayesRidge, Moments
from tests.fuzz.oracle import Oracle

PRIORS = (
    *("r2", "r2", "r2", "half-cauchy", "half-cauchy", (1.0, 1.0), (2.0, 3.0), (0.2, 0.1), (1.5, 0.5), (0.5, 2.0)),
    *((0.5, 0.5, 1e-4), (1.0, 0.5, 0.03), (0.3, 1.0, 500.0)),
)

KINDS = (
    "plain",
    "plain",
    "condition",
    "condition",
    "factor",
    "duplicate",
    "near-duplicate",
    "near-duplicate",
    "sum",
    "means",
    "integers",
    "outlier",
    "constant",
)


@dataclass(frozen=True)
class Problem:
    """Data, model and method of one fit.

    Attributes
    ----------
    y : (n, q) array
    x : (n, m) array
        Every column that the user gives, unpenalised and constant ones among them.
    new : (3, m) array
        Rows to predict.
    source : {"rows", "sparse", "moments", "batches"}
        How the model gets the data.
    """

    name: str
    y: np.ndarray
    x: np.ndarray
    new: np.ndarray
    weights: np.ndarray | None
    free: tuple[int, ...]
    intercept: Any
    source: str
    model: dict[str, Any]
    method: str
    fit: dict[str, Any] = field(default_factory=dict)

    @property
    def options(self):
        """What the oracle has to know of prior and method."""
        n, k = len(self.y), self.oracle_columns()[0].shape[1]
        return {
            "prior": self.model["prior"],
            "sigma2": self.model.get("sigma2"),
            "count": n if self.fit.get("dof") == "paper" else n - k,
            "parameterization": self.fit.get("parameterization", "tau2"),
        }

    def results(self):
        """Fit by the package."""
        y = self.y[:, 0] if self.y.shape[1] == 1 else self.y
        shared = {"intercept": self.intercept, "unpenalized": list(self.free) or None, **self.model}
        if self.source in ("moments", "batches"):
            half = len(y) // 3 if self.source == "batches" else 0
            moments = Moments.from_arrays(y[half:], self.x[half:], weights=_part(self.weights, slice(half, None)))
            if half:
                first = Moments.from_arrays(y[:half], self.x[:half], weights=_part(self.weights, slice(0, half)))
                moments = first.merge(moments)
            model = BayesRidge.from_moments(moments, **shared)
        else:
            x = sparse.csr_array(self.x) if self.source == "sparse" else self.x
            model = BayesRidge(y, x, weights=self.weights, **shared)
        return model.fit(self.method, **self.fit)

    def layout(self):
        """Constant columns, penalised ones that vary, and what serves as the intercept: "added", a column or None."""
        flat = [j for j in range(self.x.shape[1]) if np.ptp(self.x[:, j]) == 0]
        serves: Any = "added" if self.intercept else None
        if self.intercept is True and flat:
            ones = [j for j in flat if self.x[0, j] == 1]
            serves = next(iter(ones or [j for j in flat if self.x[0, j] != 0]), serves)
            flat = [j for j in flat if j != serves]
        rest = [j for j in range(self.x.shape[1]) if j not in (*flat, *self.free, serves)]
        return flat, rest, serves

    def oracle_columns(self):
        """Z, X, and the position in Z of the intercept."""
        _, rest, serves = self.layout()
        z = [self.x[:, j] for j in self.free]
        if serves is not None:
            z = [np.ones(len(self.x)) if serves == "added" else self.x[:, serves], *z]
        z = np.column_stack(z) if z else np.empty((len(self.x), 0))
        return z, self.x[:, rest], None if serves is None else 0

    def oracle(self):
        """The data in long double."""
        z, x, constant = self.oracle_columns()
        return Oracle(self.y, z, x, weights=self.weights, constant=constant, standardize=self.model["standardize"])

    def functionals(self, rows):
        """Rows of the user's columns as the oracle's (z, x)."""
        _, rest, serves = self.layout()
        z = [rows[:, j] for j in self.free]
        if serves is not None:
            z = [np.ones(len(rows)) if serves == "added" else rows[:, serves], *z]
        return np.column_stack(z) if z else np.empty((len(rows), 0)), rows[:, rest]

    def coefficients(self):
        """Unit functionals in the order of the package's coefficients: ``(z_rows, x_rows, varies)``."""
        flat, rest, serves = self.layout()
        m = self.x.shape[1]
        shift = int(serves == "added")
        of_z = ([0] if shift else []) if serves in ("added", None) else [serves]
        of_z = [*of_z, *(j + shift for j in self.free)]
        z = np.zeros((m + shift, len(of_z)))
        z[of_z, np.arange(len(of_z))] = 1
        x = np.zeros((m + shift, len(rest)))
        x[[j + shift for j in rest], np.arange(len(rest))] = 1
        varies = np.ones(m + shift, dtype=bool)
        varies[[j + shift for j in flat]] = False
        return z, x, varies

    def perturbed(self, rng):
        """The same problem with every number moved by at most one unit in its last place.

        Columns that are equal stay equal, and constant ones constant: what is true of the data to the last bit is
        no accident. Ones are left alone, and so are zeros.
        """
        return replace(self, y=_moved(self.y, rng), x=_moved_columns(self.x, rng), weights=_moved(self.weights, rng))


def _part(a, rows):
    return None if a is None else a[rows]


def _moved(a, rng):
    if a is None:
        return None
    eps = np.finfo(float).eps
    return a.astype(float) * (1 + eps * rng.uniform(-1, 1, a.shape))


def _moved_columns(x, rng):
    if not x.size:
        return x
    _, first, inverse = np.unique(x, axis=1, return_index=True, return_inverse=True)
    moved = _moved(x, rng)[:, first][:, np.ravel(inverse)]
    moved = np.where((x == 1) | (x == 0), x, moved)
    return np.where(np.ptp(x, axis=0) == 0, x, moved)


def make_problem(seed, number):
    """Problem `number` of the sequence that belongs to `seed`."""
    rng = np.random.default_rng([seed, number])
    method = str(rng.choice(["em", "em", "exact", "exact", "loocv", "gcv", "fixed"]))
    n, p = _shape(rng)
    kind = str(rng.choice(KINDS))
    x = _columns(rng, n, p, kind)
    k_free = 0 if rng.random() < 0.7 else int(min(rng.integers(1, 3), p, max(n - 3, 0)))
    free = tuple(sorted(rng.choice(p, k_free, replace=False).tolist())) if kind not in ("duplicate", "sum") else ()
    intercept: Any = [True, True, True, False, "add"][rng.integers(5)]
    if kind == "near-duplicate" or (kind == "condition" and n <= p + 2):
        free = ()
    y = _response(rng, x, intercept)
    if kind == "constant":
        intercept = True if intercept is False else intercept
        x = np.insert(x, rng.integers(p + 1), rng.choice([1.0, 2.5, -3.0]), axis=1)
        free = ()
    standardize = bool(rng.random() < 0.7)
    source = str(rng.choice(["rows", "rows", "rows", "rows", "sparse", "moments", "batches"]))
    if source in ("moments", "batches") and (method == "loocv" or n < 6):
        source = "rows"
    # Moments refuse what has no squares among the doubles.
    x, y, new = _scaled(rng, x, y, standardize, 50 if source in ("moments", "batches") else 100)
    weights = rng.uniform(0.2, 5.0, n) if rng.random() < 0.3 else None
    moderate = all(1e-25 < np.abs(a).max() < 1e25 for a in (x, y))
    if rng.random() < 0.1 and moderate:
        x, y, new = x.astype(np.float32), y.astype(np.float32), new.astype(np.float32)
    problem = Problem(
        name=f"{seed}/{number} {kind} {n}x{x.shape[1]} {source} {method}",
        y=y,
        x=x,
        new=new,
        weights=weights,
        free=free,
        intercept=intercept,
        source=source,
        model={"standardize": standardize, "prior": PRIORS[rng.integers(len(PRIORS))]},
        method=method,
    )
    return _with_options(rng, problem)


def _shape(rng):
    form = rng.choice(["tall", "tall", "square", "wide", "wide", "edge", "long"])
    if form == "tall":
        p = int(rng.integers(1, 11))
        return p + int(rng.integers(3, 25)), p
    if form == "square":
        n = int(rng.integers(3, 15))
        return n, n
    if form == "wide":
        n = int(rng.integers(3, 16))
        return n, n + int(rng.integers(1, 30))
    if form == "edge":
        n = int(rng.integers(4, 15))
        return n, max(1, n + int(rng.integers(-3, 3)))
    return int(rng.integers(50, 200)), int(rng.integers(1, 7))


def _columns(rng, n, p, kind):
    common = np.sqrt(rng.uniform(0, 0.95))
    x = np.sqrt(1 - common**2) * rng.standard_normal((n, p)) + common * rng.standard_normal((n, 1))
    if kind == "condition":
        r = min(n, p)
        u, v = (np.linalg.qr(rng.standard_normal((m, r)))[0] for m in (n, p))
        return (u * 10.0 ** -np.linspace(0, rng.uniform(2, 14), r)) @ v.T * np.sqrt(n)
    if kind == "factor":
        rest = 10.0 ** rng.uniform(-7, -1)
        return rng.standard_normal((n, 1)) * rng.uniform(0.5, 2, p) + rest * rng.standard_normal((n, p))
    if kind in ("duplicate", "near-duplicate") and p > 1:
        x[:, -1] = x[:, 0]
        if kind == "near-duplicate":
            x[:, -1] += 10.0 ** rng.uniform(-10, -1) * rng.standard_normal(n)
    if kind == "sum" and p > 2:
        x[:, -1] = x[:, 0] + x[:, 1]
    if kind == "means":
        x += 10.0 ** rng.uniform(0, 7.5, p)
    if kind == "integers":
        x = np.floor(2 * np.abs(x))
        x = np.where(np.ptp(x, axis=0) == 0, rng.integers(0, 9, (n, p)), x)
        x[0] += np.where(np.ptp(x, axis=0) == 0, 1, 0)
    if kind == "outlier":
        x[rng.integers(n)] *= 10.0 ** rng.uniform(1, 6)
    return x


def _response(rng, x, intercept):
    n, p = x.shape
    q = 1 if rng.random() < 0.8 else 3
    b = rng.standard_normal((p, q)) * (rng.random((p, 1)) < rng.uniform(0.2, 1))
    signal = (x - x.mean(axis=0)) @ b
    size = max(float(np.sqrt((signal**2).mean())), 1e-300)
    noise = rng.choice([0.0, 10.0 ** rng.uniform(-7, -2), 0.1, 1.0, 1.0, 3.0], p=[0.03, 0.22, 0.2, 0.25, 0.2, 0.1])
    y = signal / size + noise * rng.standard_normal((n, q))
    if rng.random() < 0.1 or size == 1e-300:
        y = rng.standard_normal((n, q))
    if intercept is not False or rng.random() < 0.3:
        y += 10.0 ** rng.uniform(-1, 4) if rng.random() < 0.3 else 1.0
    return y


def _scaled(rng, x, y, standardize, extreme):
    new = x[rng.integers(len(x), size=3)] + 0.5 * x.std(axis=0) * rng.standard_normal((3, x.shape[1]))
    draw = rng.random()
    unit = np.ones(x.shape[1])
    if draw < 0.15:
        unit[:] = 10.0 ** (extreme * rng.choice([-1.0, 1.0]))
    elif draw < 0.5:
        unit = (
            10.0 ** rng.uniform(-3, 3, x.shape[1]) if standardize else np.full(x.shape[1], 10.0 ** rng.uniform(-3, 3))
        )
    y_unit = 10.0 ** (extreme * rng.choice([-1.0, 1.0]) if rng.random() < 0.15 else rng.uniform(-2, 2))
    return x * unit, y * y_unit, new * unit


def _with_options(rng, problem):
    z, x, _ = problem.oracle_columns()
    n, nu = len(x), len(x) - z.shape[1]
    model, fit = dict(problem.model), {}
    size = float(np.mean(np.var(problem.y.astype(float), axis=0)))
    if rng.random() < 0.15 and size > 0:
        model["sigma2"] = size * 10.0 ** rng.uniform(-3, 1)
    if rng.random() < 0.15 and (problem.method != "exact" or x.shape[1] < nu - 2):
        fit["dof"] = "paper"
    if problem.method == "em" and rng.random() < 0.3:
        fit["parameterization"] = "tau"
    unit = 1.0 if model["standardize"] else float(np.std(x.astype(float), axis=0).max(initial=0)) ** 2 or 1.0
    if problem.method == "fixed":
        fit["lam"] = n * unit * 10.0 ** rng.uniform(-9, 3)
    if problem.method in ("loocv", "gcv"):
        form = rng.random()
        grid = n * unit * np.logspace(rng.uniform(0, 4), rng.uniform(-9, -1), 12)
        fit["grid"] = grid if form < 0.6 else "fixed" if form < 0.8 else "glmnet"
    return replace(problem, model=model, fit=fit)
