"""Write the gallery of saved fits of the current format: ``python -m tests.gallery.make``.

A new format gets a folder of its own; files that are there stay, since every later version has to read them.
"""

import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

from pybayesridge import BayesRidge, ConvergenceWarning, SpikeSlab
from pybayesridge.results.portable import FORMAT

FOLDER = Path(__file__).parent / f"format{FORMAT}"

FORMULA = "y ~ bs(a, df=4) + center(b) * g + C(site, contr.sum) + flag"


def data(n=24):
    """Columns of all kinds."""
    rng = np.random.default_rng(7)
    frame = pd.DataFrame(rng.normal(size=(n, 3)), columns=["a", "b", "c"])
    frame["g"] = np.tile(["u", "v"], n // 2)
    frame["site"] = pd.Categorical(np.tile(["x", "y", "z"], n // 3))
    frame["flag"] = frame["c"] > 0
    frame["y"] = frame["a"] - 0.5 * frame["b"] + 0.3 * rng.normal(size=n)
    frame["yes"] = (frame["y"] + rng.logistic(size=n) > 0).astype(int)
    frame["trials"] = 4
    frame["count"] = rng.binomial(4, 0.5, n)
    return frame


def fits():
    """Tiny fits by name; each is saved with its data and without."""
    with warnings.catch_warnings():
        # Few steps of the sampler keep the file small.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return _fits()


def _fits():
    frame = data()
    x = frame[["a", "b", "c"]]
    known = {"prior_inclusion": 0.5, "slab_var": 0.5}
    return {
        "ridge_em": BayesRidge(frame["y"], x).fit("em"),
        "ridge_exact": BayesRidge(frame["y"].to_numpy(), x.to_numpy(), sigma2=0.1).fit("exact"),
        "ridge_targets": BayesRidge(frame[["y", "c"]], frame[["a", "b"]], weights=1.0 + frame.index).fit("exact"),
        "ridge_formula": BayesRidge.from_formula(FORMULA, frame).fit("em"),
        "selection_exact": SpikeSlab(frame["y"], x, noise_var=0.1, **known).fit("exact"),
        "selection_ep": SpikeSlab.from_formula("y ~ a + b + site", frame).fit("ep", hyper="maximize"),
        "binomial_ridge": BayesRidge.from_formula("yes ~ a + b", frame, family="binomial").fit("laplace"),
        "binomial_trials": BayesRidge.from_formula("count ~ a", frame, family="binomial", trials="trials").fit(
            "fixed", lam=2.0, solver="laplace"
        ),
        "overdispersed": BayesRidge.from_formula("count ~ a", frame, family="negative-binomial").fit(
            "fixed", lam=2.0, solver="laplace"
        ),
        "binomial_selection": SpikeSlab(frame["yes"], frame[["a", "b"]], family="binomial", **known).fit(
            mcse=0.5, chains=2, maxiter=60
        ),
        "binomial_selection_ep": SpikeSlab.from_formula("yes ~ a + site", frame, family="binomial", **known).fit(
            "ep"
        ),
    }


def new_rows(res):
    """Rows to predict at."""
    frame = data().iloc[[1, 5, 8]]
    return (
        frame
        if res.model.formula_spec is not None
        else frame[["a", "b", "c"]].iloc[:, : len(res.model.data.exog_columns)]
    )


def numbers(res):
    """What a fit has to give again."""
    prediction = res.get_prediction(new_rows(res) if res.model.formula_spec is not None else new_rows(res).to_numpy())
    out = {
        "params": res.params,
        "bse": res.bse,
        "conf_int": res.conf_int(0.1),
        "predicted": prediction.predicted_mean,
        "predicted_ends": prediction.conf_int(alpha=0.1),
        "rsquared": res.rsquared,
    }
    if hasattr(res, "inclusion_prob"):
        out["inclusion_prob"] = res.inclusion_prob
    return {name: np.asarray(value).tolist() for name, value in out.items()}


def main():
    """Write all files of the current format."""
    FOLDER.mkdir(exist_ok=True)
    answers = {}
    for name, res in fits().items():
        for suffix, removed in (("", False), ("_removed", True)):
            res.save(FOLDER / f"{name}{suffix}.fit", remove_data=removed)
            answers[name + suffix] = numbers(res)
    (FOLDER / "numbers.json").write_text(json.dumps(answers, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
