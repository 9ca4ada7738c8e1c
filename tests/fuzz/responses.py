"""Responses that are not Gaussian, with and without groups: what must not change.

Small and larger tables, a level with one row, groups of three, effects from nothing to far beyond the noise, nearly
equal columns, counts of 0 and 1 and by the thousand, trials from 1 to 1,000, an outlier.

**What must not change.** The order of rows, the names and the order of levels and a level without rows, units of the
columns, the group being eliminated or not, rows with a weight of w or written w times, a file of the fit and back.
Categories from the other end; two categories as a yes/no response; successes as rows of yes/no responses; counts of
ten times the exposure; a beta-binomial response of one trial as a yes/no response; noise in another unit.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from pybayesridge import BayesRidge, load
from pybayesridge.exceptions import PybayesridgeWarning
from pybayesridge.sites import arrow_bands
from tests.fuzz.compare import LIMIT, Difference, Verdict

SAME = 1e-3
"""Of means, in posterior standard deviations, of logs of standard deviations, and of log evidence, at given
penalties: iterations end when they change by less."""

INTEGRATED = 0.05
"""The same where penalties are integrated out by other nodes: their error is 0.02 when they are enough."""

SITES = 0.15
"""The same where expectation propagation has one site for a row of weight w, or for w trials, and w sites for w rows:
of the slope of a level with two rows of one response the standard deviations differ by 0.11."""

EVIDENCE = 5.0
"""Of the log evidence, and of leave-one-out scores, times as much."""

FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "yes-no": ("e", {"family": "binomial"}),
    "probit": ("e", {"family": "binomial", "link": "probit"}),
    "trials": ("k", {"family": "binomial", "trials": "m"}),
    "beta-binomial": ("k", {"family": "beta-binomial", "trials": "m"}),
    "poisson": ("c", {"family": "poisson", "exposure": "t"}),
    "negative-binomial": ("c", {"family": "negative-binomial", "exposure": "t"}),
    "ordinal": ("o", {"family": "ordinal"}),
    "ordinal probit": ("o", {"family": "ordinal", "link": "probit"}),
    "student-t": ("y", {"family": "student-t"}),
    "student-t, 4 df": ("y", {"family": "student-t", "df": 4}),
}

ELIMINATED = ("yes-no", "probit", "trials", "poisson", "negative-binomial", "ordinal", "ordinal probit")
"""Families whose fits eliminate a group."""

TERMS = {
    "columns": "x + z",
    "group": "x + (1 | g)",
    "two groups": "x + (1 | g) + (1 | h)",
    "slopes": "z + (1 | g) + (0 + x | g)",
    "curve": "x + s(z, k=5) + (1 | g)",
}


@dataclass(frozen=True)
class Responses:
    """A table and how it is fitted."""

    name: str
    family: str
    terms: str
    method: str
    given: float | None
    data: pd.DataFrame

    def fit(self, data: pd.DataFrame | None = None, response: str | None = None, **changes: Any) -> Any:
        """The package's fit, with some of it changed."""
        own, options = FAMILIES[self.family]
        options = {**options, **changes}
        flat = {} if self.terms == "columns" else {"unpenalized": "fixed"}
        formula = f"{response or own} ~ {TERMS[self.terms]}"
        model = BayesRidge.from_formula(formula, self.data if data is None else data, **flat, **options)
        if self.given is None:
            return model.fit(self.method)
        lam = self.given if self.terms == "columns" else dict.fromkeys(model.bands.names, self.given)
        return model.fit("fixed", lam=lam, solver=self.method)


def make_responses(seed, number):
    """A random table."""
    rng = np.random.default_rng([seed, number, 11])
    n = int(rng.choice([12, 25, 60, 150]))
    x = rng.normal(size=n)
    z = 0.999 * x + 0.04 * rng.normal(size=n) if rng.random() < 0.2 else rng.normal(size=n)
    levels = max(3, n // int(rng.choice([3, 6, 15])))
    g = rng.integers(0, levels - 1, n)
    g[0] = levels - 1
    h = rng.integers(0, 4, n)
    size = float(rng.choice([0.0, 0.4, 0.4, 1.5, 5.0]))
    eta = 0.4 + size * (0.6 * x + rng.normal(size=levels)[g] + 0.5 * rng.normal(size=4)[h])
    share = 1.0 / (1.0 + np.exp(-eta))
    m = rng.integers(1, 1 + int(rng.choice([1, 6, 1000])), n)
    t = rng.uniform(0.3, 3.0, n)
    mean = t * np.exp(np.clip(eta, -6.0, 6.0)) * float(rng.choice([0.3, 3.0, 300.0]))
    wild = rng.gamma(2.0, 0.5, n) if rng.random() < 0.5 else np.ones(n)
    y = eta + 0.5 * rng.standard_t(3, n) + 20.0 * (np.arange(n) == n - 1) * (rng.random() < 0.3)
    data = pd.DataFrame({"x": x, "z": z, "m": m, "t": t, "y": y, "w": rng.integers(1, 4, n)})
    data["g"], data["h"] = [f"g{i:02d}" for i in g], [f"h{i}" for i in h]
    data["e"] = (rng.random(n) < share).astype(int)
    data["k"] = rng.binomial(m, np.clip(share * np.sqrt(wild), 0.0, 1.0))
    data["c"] = rng.poisson(mean * wild)
    data["o"] = np.digitize(eta + rng.logistic(size=n), [-0.8, 0.5, 1.8])
    family, terms = str(rng.choice(list(FAMILIES))), str(rng.choice(list(TERMS)))
    method = "laplace" if "probit" in family and "ordinal" in family else str(rng.choice(["ep", "laplace"]))
    given = float(np.exp(rng.normal())) if rng.random() < 0.6 else None
    how = method + (", fixed" if given else "")
    name = f"{seed}/{number} {family}, {terms}, {how}, n = {n}, size {size:g}"
    return Responses(name, family, terms, method, given, data)


def compare_responses(problem):
    """Fit, compare, and judge."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            res = problem.fit()
        except ValueError as error:
            return Verdict(problem.name, "responses", (), (str(error),))
        found = list(_invariances(problem, res))
    announced = any(issubclass(w.category, PybayesridgeWarning) for w in caught)
    foreign = [str(w.message) for w in caught if not issubclass(w.category, PybayesridgeWarning)]
    differences = tuple(
        Difference(f"{form}, {name}", 0, LIMIT * error / (_allowed(problem, form) * more), 0.0, announced)
        for form, name, error, more in found
    )
    failure = f"warns of {foreign[0]}" if foreign else None
    return Verdict(problem.name, "responses", differences, tuple({str(w.message) for w in caught}), failure)


def _allowed(problem, form):
    """How much answers may differ."""
    if problem.method == "ep" and (form == "weights" or (form == "twin" and problem.family == "trials")):
        return SITES
    return SAME if problem.given else INTEGRATED


def _answers(res):
    """Means, standard deviations, log evidence, leave-one-out scores and standard deviations of bands."""
    out = {"mean": res.params, "sd": res.bse, "evidence": res.log_marginal}
    try:
        out["loo"] = np.sort(res.loo().pointwise.to_numpy())
    except ValueError:
        out["loo"] = np.empty(0)
    if hasattr(res, "variance_components"):
        out["bands"] = res.variance_components()["mean"]
    return out


def _invariances(problem, res):
    own = _answers(res)
    forms: dict[str, Callable[[], tuple[dict[str, Any], dict[str, Any]] | None]] = {
        "file": lambda: (_answers(_through_a_file(res)), own),
        "order": lambda: (_answers(problem.fit(_in_other_order(problem.data))), own),
        "levels": lambda: _renamed(problem, own),
        "units": lambda: _in_units(problem, own),
        "eliminated": lambda: _eliminated(problem, own),
        "weights": lambda: _weighted(problem),
        "twin": lambda: _twin(problem, own),
    }
    for form, make in forms.items():
        pair = make()
        if pair is None:
            continue
        new, old = pair
        yield from _differences(form, new, old)


def _differences(form, new, old):
    names = [name for name in old["mean"].index if name in new["mean"].index]
    mean, sd = old["mean"][names], old["sd"][names]
    finite = np.isfinite(sd) & np.isfinite(new["sd"][names])
    yield form, "which sds are finite", float((np.isfinite(sd) != np.isfinite(new["sd"][names])).any()), 1.0
    if finite.any():
        yield form, "mean", float(np.abs((new["mean"][names] - mean) / sd)[finite].max()), 1.0
        yield form, "sd", float(np.abs(np.log(new["sd"][names] / sd))[finite].max()), 1.0
    if new["evidence"] is not None and old["evidence"] is not None:
        yield form, "evidence", float(abs(new["evidence"] - old["evidence"])), EVIDENCE
    if new["loo"].size == old["loo"].size > 0:
        # A row that its neighbours say nothing of may have a score of minus thousands.
        off = np.abs(new["loo"] - old["loo"]) / np.maximum(np.abs(old["loo"]), 1.0)
        yield form, "loo", float(off.max()), EVIDENCE
    if "bands" in old and "bands" in new:
        with np.errstate(all="ignore"):
            off = np.abs(np.log(new["bands"].to_numpy() / old["bands"].to_numpy()))
        yield form, "bands", float(np.nanmax(np.where(np.isfinite(off), off, 0.0), initial=0.0)), 2.0


def _through_a_file(res):
    file = io.BytesIO()
    res.save(file)
    file.seek(0)
    return load(file)


def _in_other_order(data):
    return data.iloc[np.random.default_rng(len(data)).permutation(len(data))].reset_index(drop=True)


def _renamed(problem, own):
    """The levels of a group from the last to the first, by other names, as a factor with a level without rows."""
    if "g)" not in TERMS[problem.terms]:
        return None
    levels = sorted(problem.data["g"].unique())
    names = {old: f"level {len(levels) - i:03d}" for i, old in enumerate(levels)}
    factor = pd.Categorical(problem.data["g"].map(names), [*sorted(names.values()), "none"])
    new = _answers(problem.fit(problem.data.assign(g=factor)))
    of = {f"{term}[{level}]": f"{term}[{names[level]}]" for term in ("g", "x|g") for level in levels}
    keep = [name for name in own["mean"].index if "[" not in name or of.get(name) in new["mean"].index]
    back = {new_name: old for old, new_name in of.items()}
    new["mean"], new["sd"] = new["mean"].rename(back), new["sd"].rename(back)
    return new, {**own, "mean": own["mean"][keep], "sd": own["sd"][keep]}


def _in_units(problem, own):
    """A column in thousandths."""
    if problem.terms in ("slopes", "curve"):
        return None
    new = _answers(problem.fit(problem.data.assign(x=1e3 * problem.data["x"])))
    unit = pd.Series(1.0, index=own["mean"].index)
    unit["x"] = 1e3
    flat = problem.terms != "columns"
    # The density of a flat prior has the unit of its coefficient.
    evidence = None if flat else new["evidence"]
    return {**new, "mean": new["mean"] * unit, "sd": new["sd"] * unit, "evidence": evidence}, own


def _eliminated(problem, own):
    """The largest group eliminated from the equations."""
    if problem.family not in ELIMINATED or "g)" not in TERMS[problem.terms]:
        return None
    kept, arrow_bands.LEAST_WORK = arrow_bands.LEAST_WORK, 0
    try:
        return _answers(problem.fit()), own
    finally:
        arrow_bands.LEAST_WORK = kept


def _weighted(problem):
    """Rows with a weight of w, or written w times."""
    if problem.family.startswith("student") or problem.terms == "curve":
        return None
    data = problem.data
    weighted, repeated = problem.fit(weights="w"), problem.fit(data.loc[data.index.repeat(data["w"])])
    # Leave-one-out scores of a row with a weight are those without all of its copies.
    return _answers(weighted) | {"loo": np.empty(0)}, _answers(repeated)


def _twin(problem, own):
    """The same likelihood by another family, or in another form."""
    data, family = problem.data, problem.family
    if family in ("yes-no", "probit") and problem.method == "laplace":
        link = "probit" if family == "probit" else "logit"
        new = _answers(problem.fit(family="ordinal", link=link))
        return {**new, "evidence": own["evidence"]}, own
    if family == "yes-no":
        new = _answers(problem.fit(data.assign(e=1 - data["e"])))
        return {**new, "mean": -new["mean"]}, own
    if family == "trials" and problem.terms != "curve" and data["m"].max() < 10:
        within = np.concatenate([np.arange(m) for m in data["m"]])
        rows = data.loc[data.index.repeat(data["m"])].reset_index(drop=True)
        rows = rows.assign(yes=(within < rows["k"]).astype(int))
        return _answers(problem.fit(rows, "yes", trials=None)) | {"evidence": None, "loo": np.empty(0)}, own
    if family in ("poisson", "negative-binomial"):
        new = _answers(problem.fit(data.assign(t=10.0 * data["t"])))
        mean = new["mean"].copy()
        mean["Intercept"] += np.log(10.0)
        return {**new, "mean": mean}, own
    if family.startswith("ordinal"):
        new = _answers(problem.fit(data.assign(o=3 - data["o"])))
        return {**new, "mean": -new["mean"]}, own
    if family.startswith("student"):
        new = _answers(problem.fit(data.assign(y=100.0 * data["y"])))
        flat = {"evidence": None, "loo": new["loo"] + np.log(100.0), "bands": new.get("bands")}
        if "bands" in new:
            flat["bands"] = new["bands"] / 100.0
        else:
            del flat["bands"]
        return {**new, **flat, "mean": new["mean"] / 100.0, "sd": new["sd"] / 100.0}, own
    return None
