"""Small fits of every kind, by name."""

from __future__ import annotations

import io
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from pybayesridge import BayesRidge, Moments, SpikeSlab, fit_imputed, load

ROWS = 48
FORMULA = "y ~ a + bs(b, df=4) + C(g) + a:c"
SOURCE = "y ~ a + b + c + C(g)"


@dataclass(frozen=True)
class Kind:
    """How a fit is made, and what it is asked about.

    Attributes
    ----------
    make : callable
    new : rows to predict
    variables : list of str
        Whose effects are asked for.
    """

    make: Callable[[], Any]
    new: Any
    variables: tuple[str, ...] = ()


def frame() -> pd.DataFrame:
    """Numbers, a factor, weights, a yes/no response, and successes among trials."""
    rng = np.random.default_rng(5)
    out = pd.DataFrame(rng.normal(size=(ROWS, 3)), columns=["a", "b", "c"])
    out["b"] += 0.7 * out["a"]
    out["g"] = np.resize(["u", "v", "w"], ROWS)
    signal = out["a"] - 0.5 * out["b"] + 0.6 * (out["g"] == "v")
    out["y"] = signal + 0.5 * rng.normal(size=ROWS)
    out["z"] = out["c"] + rng.normal(size=ROWS)
    out["w"] = np.linspace(0.5, 2.0, ROWS)
    out["event"] = (signal + rng.logistic(size=ROWS) > 0).astype(int)
    out["m"] = 3 + np.arange(ROWS) % 5
    out["k"] = rng.binomial(out["m"], 1 / (1 + np.exp(-signal)))
    out["count"] = rng.poisson(np.exp(0.5 * signal))
    out["grade"] = np.digitize(signal, [-0.7, 0.8])
    return out


def wide(n: int = 20, p: int = 60) -> tuple[pd.Series, pd.DataFrame]:
    """More columns than rows."""
    rng = np.random.default_rng(6)
    x = pd.DataFrame(rng.normal(size=(n, p)), columns=[f"x{j}" for j in range(p)])
    return pd.Series(2 * x["x0"] - x["x1"] + 0.5 * rng.normal(size=n), name="y"), x


class Kinds:
    """Kinds of fits by name, with the rows that each is asked to predict."""

    def __init__(self) -> None:
        self.kinds: dict[str, Kind] = {}

    def arrays(self, name: str, make: Callable[[], Any]) -> None:
        """A fit to three columns of numbers."""
        self.kinds[name] = Kind(make, frame()[["a", "b", "c"]].iloc[:3] + 0.1, ("a", "c"))

    def formula(self, name: str, make: Callable[[], Any], variables: tuple[str, ...] = ("a", "b", "g")) -> None:
        """A fit to a frame."""
        self.kinds[name] = Kind(make, frame().iloc[:4], variables)


def kinds() -> dict[str, Kind]:
    """Every kind of fit."""
    found = Kinds()
    for add in (_ridge, _bands, _saved_fits, _binomial, _counts, _ordinal, _selection, _binomial_selection):
        add(found)
    return found.kinds


def _ridge(made: Kinds) -> None:
    """Gaussian ridges."""
    d = frame()
    x = d[list("abc")]
    y_wide, x_wide = wide()
    for method in ("exact", "em", "loocv", "gcv"):
        made.arrays(f"ridge {method}", lambda method=method: BayesRidge(d["y"], x).fit(method))
    made.arrays("ridge fixed", lambda: BayesRidge(d["y"], x).fit("fixed", lam=2.0))
    made.arrays("ridge glmnet grid", lambda: BayesRidge(d["y"], x).fit("loocv", grid="glmnet"))
    made.arrays(
        "ridge options", lambda: BayesRidge(d["y"], x, prior="half-cauchy", standardize=False).fit("em", dof="paper")
    )
    made.arrays("ridge known noise", lambda: BayesRidge(d["y"], x, sigma2=0.25, intercept=False).fit())
    made.arrays("ridge targets", lambda: BayesRidge(d[["y", "z"]], x, weights=d["w"]).fit())
    made.arrays("ridge moments", lambda: BayesRidge.from_moments(_moments(d)).fit())
    made.arrays(
        "ridge sparse", lambda: BayesRidge(d["y"].to_numpy(), sparse.csr_array(x.round(0).to_numpy())).fit("em")
    )
    made.arrays("ridge columns", lambda: BayesRidge.from_columns(d["y"].to_numpy(), x.to_numpy()).fit())
    made.kinds["ridge wide"] = Kind(lambda: BayesRidge(y_wide, x_wide).fit(), x_wide.iloc[:3], ("x0",))
    made.kinds["ridge wide em"] = Kind(lambda: BayesRidge(y_wide, x_wide).fit("em"), x_wide.iloc[:3], ("x0",))
    made.formula("ridge formula", lambda: BayesRidge.from_formula(FORMULA, d, weights="w", unpenalized=["a"]).fit())
    made.formula("ridge formula targets", lambda: BayesRidge.from_formula("y + z ~ a * g", d).fit("em"), ("a", "g"))
    made.formula("ridge parquet", lambda: _parquet(BayesRidge, d), ("a", "g"))
    made.formula("ridge arrow", lambda: _arrow(BayesRidge, d), ("a", "g"))
    made.formula("ridge imputed", lambda: _pooled(BayesRidge, d, SOURCE))


def _bands(made: Kinds) -> None:
    """Ridges with several penalties."""
    d = frame()
    x = d[list("abc")]
    bands = {"one": ["a"], "two": ["b", "c"]}
    made.arrays("bands exact", lambda: BayesRidge(d["y"], x, bands=bands).fit())
    made.arrays("bands reml", lambda: BayesRidge(d["y"], x, bands=bands).fit("reml"))
    made.arrays("bands targets", lambda: BayesRidge(d[["y", "z"]], x, bands=bands).fit())
    made.arrays("bands binomial", lambda: BayesRidge(d["event"], x, bands=bands, family="binomial").fit())
    made.formula("bands formula", lambda: BayesRidge.from_formula("y ~ a + s(b) + (1 | g)", d).fit())
    made.formula("bands correlated", lambda: BayesRidge.from_formula("y ~ a + (a | g)", d).fit(), ("a",))
    made.formula(
        "bands counts",
        lambda: BayesRidge.from_formula("count ~ a + (1 | g)", d, family="poisson").fit("reml"),
        ("a",),
    )
    made.formula("bands saved", lambda: _saved(BayesRidge.from_formula("y ~ a + s(b) + (1 | g)", d).fit(), {}))


def _saved_fits(made: Kinds) -> None:
    """Fits that were saved and loaded."""
    d = frame()
    for name, options in {
        "saved": {},
        "saved without rows": {"remove_data": True},
        "saved without row space": {"remove_data": True, "row_space": False},
    }.items():
        made.formula(
            f"ridge {name}", lambda options=options: _saved(BayesRidge.from_formula(FORMULA, d).fit(), options)
        )
        made.formula(
            f"selection {name}", lambda options=options: _saved(SpikeSlab.from_formula(SOURCE, d).fit(), options)
        )


def _binomial(made: Kinds) -> None:
    """Ridges with yes/no responses."""
    d = frame()
    x = d[list("abc")]
    for method in ("ep", "laplace", "em", "loocv"):
        made.arrays(
            f"binomial {method}", lambda method=method: BayesRidge(d["event"], x, family="binomial").fit(method)
        )
    made.arrays(
        "binomial probit", lambda: BayesRidge(d["event"], x, family="binomial", link="probit").fit("fixed", lam=1.0)
    )
    made.formula(
        "binomial trials",
        lambda: BayesRidge.from_formula("k ~ a + b + C(g)", d, family="binomial", trials="m").fit(),
    )
    made.formula("binomial imputed", lambda: _pooled(BayesRidge, d, "event ~ a + b + C(g)", family="binomial"))


def _counts(made: Kinds) -> None:
    """Counts, and successes with a dispersion."""
    d = frame()
    x = d[list("abc")]
    made.arrays("poisson", lambda: BayesRidge(d["count"], x, family="poisson").fit())
    made.arrays("poisson exposure", lambda: BayesRidge(d["count"], x, family="poisson", exposure=d["m"]).fit("em"))
    made.arrays("poisson selection", lambda: SpikeSlab(d["count"], x, family="poisson").fit("ep"))
    made.arrays("negative binomial selection", lambda: SpikeSlab(d["count"], x, family="negative-binomial").fit("ep"))
    made.arrays("negative binomial", lambda: BayesRidge(d["count"], x, family="negative-binomial").fit())
    made.arrays("student-t", lambda: BayesRidge(d["y"], x, family="student-t").fit("laplace"))
    made.arrays("beta-binomial", lambda: BayesRidge(d["k"], x, family="beta-binomial", trials=d["m"]).fit())


def _ordinal(made: Kinds) -> None:
    """Ordered categories."""
    d = frame()
    for method in ("ep", "laplace"):
        made.arrays(
            f"ordinal {method}",
            lambda method=method: BayesRidge(d["grade"], d[list("abc")], family="ordinal").fit(method),
        )
    made.formula(
        "ordinal groups", lambda: BayesRidge.from_formula("grade ~ a + (1 | g)", d, family="ordinal").fit(), ("a",)
    )


def _selection(made: Kinds) -> None:
    """Selections."""
    d = frame()
    x = d[list("abc")]
    y_wide, x_wide = wide()
    given = {"prior_inclusion": 0.2, "slab_var": 0.5, "noise_var": 0.3}
    made.arrays("selection enumerated", lambda: SpikeSlab(d["y"], x).fit("exact"))
    made.arrays("selection given", lambda: SpikeSlab(d["y"], x, **given).fit("exact"))
    for method in ("ep", "damped", "pcep"):
        made.arrays(f"selection {method}", lambda method=method: SpikeSlab(d["y"], x).fit(method))
    made.arrays("selection moments", lambda: SpikeSlab.from_moments(_moments(d)).fit())
    made.kinds["selection sampled"] = Kind(
        lambda: SpikeSlab(y_wide, x_wide).fit("exact", mcse=0.02), x_wide.iloc[:3], ("x0",)
    )
    made.formula("selection groups", lambda: SpikeSlab.from_formula(FORMULA, d, group="term").fit("exact"))
    made.formula("selection parquet", lambda: _parquet(SpikeSlab, d), ("a", "g"))
    made.formula("selection imputed", lambda: _pooled(SpikeSlab, d, SOURCE))


def _binomial_selection(made: Kinds) -> None:
    """Selections with yes/no responses."""
    d = frame()
    x = d[list("abc")]
    made.arrays("binomial selection ep", lambda: SpikeSlab(d["event"], x, family="binomial").fit("ep"))
    made.arrays(
        "binomial selection exact", lambda: SpikeSlab(d["event"], x, family="binomial").fit("exact", mcse=0.05)
    )
    made.formula(
        "binomial selection trials",
        lambda: SpikeSlab.from_formula("k ~ a + b + C(g)", d, family="binomial", trials="m").fit("ep"),
    )


def _moments(d: pd.DataFrame) -> Moments:
    return Moments.from_batches([(d["y"], d[["a", "b", "c"]])])


def _pooled(model: Any, d: pd.DataFrame, formula: str, **options: Any) -> Any:
    rng = np.random.default_rng(8)
    filled = []
    for _ in range(3):
        each = d.copy()
        each.loc[::7, "b"] = rng.normal(size=len(each.loc[::7]))
        filled.append(each)
    return fit_imputed(filled, lambda each: model.from_formula(formula, each, **options).fit())


def _saved(res: Any, options: dict[str, bool]) -> Any:
    with io.BytesIO() as file:
        res.save(file, **options)
        file.seek(0)
        return load(file)


def _parquet(model: Any, d: pd.DataFrame) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.parquet"
        d.to_parquet(path)
        return model.from_parquet(path, SOURCE).fit()


def _arrow(model: Any, d: pd.DataFrame) -> Any:
    import pyarrow

    return model.from_arrow(pyarrow.Table.from_pandas(d), SOURCE).fit()


def made(kind: Kind) -> tuple[Any, list[str]]:
    """The fit, and the warnings it gave."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        res = kind.make()
    return res, [f"{each.category.__name__}: {each.message}" for each in caught]
