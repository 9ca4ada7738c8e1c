"""Makes the files beside it: exports of small fits and their answers, which Python and R both have to give.

``python r-wrapper/tests/testthat/golden/make_golden.py`` writes them again, or those whose
names follow. An array is stored as its shape and its values, the last index running fastest; numbers that are not
finite as strings.
"""

import json
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

from pybayesridge import BayesRidge, SpikeSlab
from pybayesridge.datasets import load_cars
from pybayesridge.results.export import export

HERE = Path(__file__).parent
LEVEL = 0.9
TRIALS = 40
ROWS = 3
RNG_SEED = 20
LARGEST_COVARIANCE = 20
SETS = {"coverage": 0.8, "min_abs_corr": 0.3}
FDR = 0.4
MODELS = 8


def cases():
    """Models and arguments of fit, by the name of the file."""
    rng = np.random.default_rng(RNG_SEED)
    x = np.round(rng.normal([0.0, 50.0, -2.0], 1.0, (12, 3)), 3)
    y = np.round(x @ [1.0, -0.5, 0.0] + rng.standard_normal(12), 3)
    wide = np.round(rng.standard_normal((8, 10)), 3)
    many = np.round(rng.standard_normal((4, 66)), 1)
    weights = np.linspace(0.5, 2.0, 12)
    given = {"prior_inclusion": 0.4, "slab_var": 1.0, "noise_var": 0.8}
    cars = load_cars()
    levels = np.stack([cars["cyl"] == 6, cars["cyl"] == 8], axis=1).astype(np.float64)
    grouped = np.column_stack([levels, cars[["wt", "hp", "qsec"]]])
    crowd = np.round(rng.standard_normal((16, 17)), 1)
    crowd[:, 1] = crowd[:, 0] + 0.3 * crowd[:, 1]
    crowded = np.round(2.0 * crowd[:, 0] + 1.5 * crowd[:, 2] + rng.standard_normal(16), 2)
    ep, exact = {"method": "ep"}, {"method": "exact"}
    yes = np.array([0.0, 1, 0, 1, 1, 0, 1, 0, 0, 1, 0, 0])
    dependent = np.column_stack([x, x[:, 0] + wide[0, 0] * x[:, 2]])
    groups = pd.DataFrame({"y": y, "x": np.tile([-1.0, 0.0, 1.0], 4), "g": np.repeat(list("abcd"), 3)})
    trials, successes = np.tile([3.0, 1.0, 5.0], 4), np.array([1.0, 0, 5, 2, 1, 2, 0, 1, 4, 3, 0, 1])
    return {
        "binomial": (BayesRidge(successes, x, family="binomial", trials=trials, weights=np.tile([1.0, 2.0], 6)), {}),
        "binomial_fixed": (
            BayesRidge(yes, x, family="binomial", link="probit", unpenalized=[2]),
            {"method": "fixed", "lam": 2.0},
        ),
        "binomial_wide": (BayesRidge(yes[:8], wide, family="binomial", standardize=False), {}),
        "poisson": (
            BayesRidge(
                successes, x, family="poisson", exposure=np.tile([3.0, 1.0, 5.0], 4), weights=np.tile([1.0, 2.0], 6)
            ),
            {},
        ),
        "negative_binomial": (
            BayesRidge(
                np.array([0.0, 7, 2, 0, 1, 12, 0, 3, 30, 1, 0, 5]),
                x,
                family="negative-binomial",
                exposure=np.tile([3.0, 1.0, 5.0], 4),
            ),
            {},
        ),
        "beta_binomial": (
            BayesRidge(
                successes,
                x,
                family="beta-binomial",
                trials=trials + 3.0,
                dispersion=0.2,
                weights=np.tile([1.0, 2.0], 6),
            ),
            {"method": "laplace"},
        ),
        "student": (
            BayesRidge(y + 8.0 * (np.arange(12) == 5), x, family="student-t", df=3.0, weights=np.tile([1.0, 2.0], 6)),
            {"method": "laplace"},
        ),
        "ordinal": (
            BayesRidge(
                np.array([0, 2, 1, 1, 2, 0, 1, 0, 2, 1, 0, 2]),
                x,
                family="ordinal",
                unpenalized=[1],
                weights=np.tile([1.0, 2.0], 6),
            ),
            {},
        ),
        "ordinal_wide": (
            BayesRidge(np.array([1, 3, 2, 0, 1, 2, 3, 0]), wide, family="ordinal", link="probit", standardize=False),
            {"method": "laplace"},
        ),
        "poisson_wide": (BayesRidge(successes[:8], wide, family="poisson", standardize=False), {"method": "laplace"}),
        "ridge_exact": (BayesRidge(y, x), {}),
        "ridge_em": (BayesRidge(y, x, weights=weights, unpenalized=[2]), {"method": "em"}),
        "ridge_fixed": (BayesRidge(np.column_stack([y, y[::-1]]), x), {"method": "fixed", "lam": 2.0}),
        "ridge_wide": (BayesRidge(wide[:, 0] - y[:8], wide), {}),
        "ridge_known_noise": (BayesRidge(y, x, intercept=False, sigma2=1.5), {}),
        "bands": (BayesRidge(y, x, weights=weights, unpenalized=[2], bands={"a": [0], "b": [1]}), {"tol": 0.02}),
        "bands_wide": (
            BayesRidge(
                np.column_stack([y[:8], wide[:, 0] - y[:8]]), wide, bands=list("aabbbabbaa"), standardize=False
            ),
            {"method": "fixed", "lam": [2.0, 0.5]},
        ),
        "bands_reml": (BayesRidge(y, x, bands={"a": [0, 2]}), {"method": "reml"}),
        "bands_binomial": (
            BayesRidge(successes, x, family="binomial", trials=trials, bands={"a": [0], "b": [1, 2]}),
            {"tol": 0.2},
        ),
        "bands_negative_binomial": (
            BayesRidge(
                np.array([0.0, 7, 2, 0, 1, 12, 0, 3, 30, 1, 0, 5]),
                x,
                family="negative-binomial",
                exposure=np.tile([3.0, 1.0, 5.0], 4),
                bands={"a": [0], "b": [1, 2]},
            ),
            {"method": "laplace", "tol": 0.5},
        ),
        "bands_beta_binomial": (
            BayesRidge(
                successes, x, family="beta-binomial", trials=trials + 3.0, unpenalized=[1], bands={"a": [0, 2]}
            ),
            {"method": "laplace", "tol": 0.5},
        ),
        "bands_ordinal": (
            BayesRidge(
                np.array([0, 2, 1, 1, 2, 0, 1, 0, 2, 1, 0, 2]), x, family="ordinal", bands={"a": [0], "b": [1, 2]}
            ),
            {"tol": 0.2},
        ),
        "bands_student": (
            BayesRidge(y + 8.0 * (np.arange(12) == 5), x, family="student-t", unpenalized=[1], bands={"a": [0, 2]}),
            {"method": "laplace", "tol": 0.2},
        ),
        "bands_correlated": (BayesRidge.from_formula("y ~ x + (x | g)", groups, unpenalized="fixed"), {"tol": 0.1}),
        "selection": (SpikeSlab(y, x, weights=weights, **given), ep),
        "selection_average": (SpikeSlab(y, x, unpenalized=[0]), {**ep, "hyper": "average"}),
        "selection_groups": (SpikeSlab(y, x, group=["a", "b", "a"], **given), ep),
        "selection_wide": (SpikeSlab(many[:, 0] * 3, many, **given), ep),
        "sets": (SpikeSlab(cars["mpg"].to_numpy(), cars[["wt", "hp", "qsec", "am"]].to_numpy()), exact),
        "sets_groups": (
            SpikeSlab(
                cars["mpg"].to_numpy(),
                grouped,
                group=["cyl", "cyl", "wt", "hp", "qsec"],
                unpenalized=[3],
                weights=cars["wt"].to_numpy(),
                noise_var=7.0,
                expected_size=2.0,
            ),
            exact,
        ),
        "selection_binomial": (
            SpikeSlab(
                successes,
                dependent,
                family="binomial",
                trials=trials,
                group=["a", "b", "c", "b"],
                unpenalized=[2],
                weights=np.tile([1.0, 2.0], 6),
            ),
            {**ep, "tol": 1e-9},
        ),
        "selection_probit": (
            SpikeSlab(yes, x, family="binomial", link="probit", intercept=False, prior_inclusion=0.4, slab_var=0.7),
            {**ep, "tol": 1e-9},
        ),
        "selection_poisson": (
            SpikeSlab(
                successes,
                x,
                family="poisson",
                exposure=np.tile([3.0, 1.0, 5.0], 4),
                prior_inclusion=0.4,
                slab_var=0.7,
            ),
            {"tol": 1e-9},
        ),
        "selection_negative_binomial": (
            SpikeSlab(
                np.array([0.0, 7, 2, 0, 1, 12, 0, 3, 30, 1, 0, 5]),
                x,
                family="negative-binomial",
                dispersion=0.5,
                prior_inclusion=0.4,
                slab_var=0.7,
            ),
            {"tol": 1e-9},
        ),
        "sets_binomial": (
            SpikeSlab(
                successes,
                dependent,
                family="binomial",
                trials=trials,
                group=["a", "b", "c", "b"],
                weights=np.tile([1.0, 2.0], 6),
            ),
            {**exact, "maxiter": 200, "chains": 1},
        ),
        "sets_probit": (
            SpikeSlab(yes, x, family="binomial", link="probit", unpenalized=[2], slab_var=0.7),
            {**exact, "maxiter": 200, "chains": 1},
        ),
        "sets_sampled": (
            SpikeSlab(crowded, crowd, intercept=False),
            {**exact, "maxiter": 800, "chains": 2, "rng": 1},
        ),
    }


def answers(results, rows):
    """What the results say of coefficients, of new rows and of hyperparameters."""
    q = len(results.model.data.targets)
    if not results.model.distribution.is_linear:
        of_sets = isinstance(results.model, SpikeSlab) and results.method == "exact"
        return answers_on_link(results, rows) | (answers_on_sets(results) if of_sets else {})
    predicted = (
        results.get_prediction(rows, transform=False)
        .summary_frame(1 - LEVEL)
        .drop(columns="mcse", errors="ignore")
        .to_numpy()
        .reshape(-1, q, 6)
    )
    out = {
        "conf_int": np.asarray(results.conf_int(1 - LEVEL)).reshape(-1, q, 2),
        "prediction": predicted,
    }
    if len(results.params) <= LARGEST_COVARIANCE:
        out["cov_params"] = np.stack([np.asarray(results.cov_params(i)) for i in range(q)])
    if isinstance(results.model, BayesRidge):
        out["hyperparameters"] = results.hyperparameters(1 - LEVEL).to_numpy().reshape(q, -1, 4)
        if results.model.bands is not None:
            out["variance_components"] = results.variance_components(1 - LEVEL).to_numpy().reshape(q, -1, 10)
    if isinstance(results.model, SpikeSlab) and results.method == "exact":
        out |= answers_on_sets(results)
    return {"params": results.params.to_numpy().reshape(-1, q), "bse": results.bse.to_numpy().reshape(-1, q), **out}


def answers_on_link(results, rows):
    """The same of responses that are not Gaussian, whose means and linear predictors are predicted."""
    out = {
        "params": results.params.to_numpy()[:, None],
        "bse": results.bse.to_numpy()[:, None],
        "conf_int": results.conf_int(1 - LEVEL).to_numpy()[:, None, :],
    }
    if results.method != "ep" or isinstance(results.model, BayesRidge):
        out["hyperparameters"] = results.hyperparameters(1 - LEVEL).to_numpy()
    if isinstance(results.model, BayesRidge) and results.model.bands is not None:
        out["variance_components"] = results.variance_components(1 - LEVEL).to_numpy()[None]
    cut = results.model.distribution.has_cuts
    if cut:
        out["cut_points"] = results.cut_points(1 - LEVEL).to_numpy()
        out["probabilities"] = results.predict(rows, transform=False).to_numpy()
    for which in ("linear",) if cut else ("mean", "linear"):
        trials = {"trials": TRIALS} if results.model.distribution.per_row == "trials" else {}
        predicted = results.get_prediction(rows, which=which, transform=False, **trials)
        table = predicted.summary_frame(1 - LEVEL)
        out[f"prediction_{which}"] = table.filter(regex="^(mean|mcse)").to_numpy(dtype=np.float64)
        if "obs_ci_lower" in table:
            out["prediction_new"] = predicted.conf_int(1 - LEVEL, obs=True)
    if np.isfinite(out["bse"]).all():
        out["cov_params"] = results.cov_params().to_numpy()[None]
    if ratio := results.model.distribution.ratio:
        out[ratio.replace(" ", "_") + "s"] = results.ratios(1 - LEVEL).to_numpy()
    return out


def answers_on_sets(results):
    """The same of sets of columns; columns by their positions among the coefficients, from 1."""
    names = list(results.params.index)
    place = {name: i + 1.0 for i, name in enumerate(names)}
    credible, selected = results.credible_sets(**SETS), results.select(FDR)
    best, columns = results.models(MODELS), results.penalized_names
    return {
        "hyperparameters": results.hyperparameters(1 - LEVEL).to_numpy(),
        "inclusion_se": results.inclusion_se.to_numpy(),
        "group_inclusion_se": results.group_inclusion_se.to_numpy(),
        "credible_sets": credible.assign(column=credible["column"].map(place)).to_numpy(dtype=np.float64),
        "select": np.column_stack([[place[name] for name in selected.index], selected.to_numpy()]),
        "pair_inclusion": results.pair_inclusion(columns).to_numpy(),
        "models": best[["size", "probability"]].to_numpy(dtype=np.float64),
        "models_hold": np.array([[float(name in inside) for name in names] for inside in best["columns"]]),
    }


def made(model, arguments):
    """The export of a fit, rows to predict at, and the answers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = model.fit(**arguments)
    rows = np.round(np.asarray(model.data.orig_exog)[:ROWS] + 0.25, 3)
    return {"export": export(results), "level": LEVEL, "rows": rows, "answers": answers(results, rows)}


def encoded(value):
    """`value` in what JSON has."""
    if isinstance(value, dict):
        return {name: encoded(inner) for name, inner in value.items()}
    if isinstance(value, np.ndarray):
        return {"shape": list(value.shape), "values": [encoded(v) for v in value.ravel().tolist()]}
    if isinstance(value, float) and not np.isfinite(value):
        return {"inf": "Inf", "-inf": "-Inf", "nan": "NaN"}[str(value)]
    return value


def decoded(value):
    """The inverse of :func:`encoded`."""
    if isinstance(value, dict):
        if set(value) == {"shape", "values"}:
            return np.array([float(v) for v in value["values"]]).reshape(value["shape"])
        return {name: decoded(inner) for name, inner in value.items()}
    return float(value) if value in ("Inf", "-Inf", "NaN") else value


if __name__ == "__main__":
    for name, (model, arguments) in cases().items():
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        text = json.dumps(encoded(made(model, arguments)), separators=(",", ":"))
        (HERE / f"{name}.json").write_text(text + "\n", encoding="utf-8")
