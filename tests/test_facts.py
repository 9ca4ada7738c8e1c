"""Each number of a fit as a whole has one place, from which every output takes it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from pybayesridge import BayesRidge, SpikeSlab, compare_models
from pybayesridge.cli.as_json import as_json
from pybayesridge.results.export import export
from pybayesridge.results.facts import FACTS, fact_named, facts_for, label_of, value_of, values_of

OUTPUTS = ("summary", "json", "row", "table", "r")
PENALTY = {"lambda", "tau", "df_model", "df_resid", "log_marginal"}
LEFT_OUT = {"loo_log_score", "loo_brier", "loo_auc"}
BINOMIAL = {"family", "link", "event", "n_trials", "n_events"}
EVERY = {"response", "model", "method", "nobs", "n_iter", "converged"}
SELECTION = {"residual", "prior_inclusion", "slab_var", "size"}

IN_SUMMARY = {
    "ridge": EVERY | PENALTY | {"solver", "sigma", "rsquared", "n_modes"},
    "wide": EVERY | PENALTY | {"solver", "sigma", "explained_variance", "n_modes"},
    "yes/no ridge": EVERY | PENALTY | LEFT_OUT | BINOMIAL | {"solver"},
    "counts": EVERY | PENALTY | {"family", "link", "n_events", "loo_log_score", "loo_deviance", "solver"},
    "outliers": EVERY | PENALTY | {"family", "link", "loo_log_score", "loo_absolute_error", "solver"},
    "selection": EVERY | SELECTION | {"noise_var", "rsquared", "log_evidence"},
    "groups": EVERY | SELECTION | {"noise_var", "rsquared", "log_evidence", "groups_included"},
    "yes/no selection": EVERY | SELECTION | BINOMIAL,
    "yes/no selection, ep": EVERY | SELECTION | BINOMIAL | {"log_evidence"},
}


@pytest.fixture(scope="module")
def fits():
    rng = np.random.default_rng(4)
    f = pd.DataFrame(rng.normal(size=(30, 3)), columns=["a", "b", "c"])
    f["g"] = np.resize(["u", "v", "w"], 30)
    f["y"] = f["a"] + rng.normal(size=30)
    f["yes"] = (f["y"] > 0).astype(int)
    f["n"] = np.round(np.exp(f["y"]))
    wide = pd.DataFrame(rng.normal(size=(12, 20))).add_prefix("x")
    plain, grouped, yes = "y ~ a + b + c", "y ~ a + C(g)", "yes ~ a + b"
    return {
        "ridge": BayesRidge.from_formula(plain, f).fit(),
        "wide": BayesRidge.from_formula(f"y ~ {' + '.join(wide)}", wide.assign(y=f["y"][:12])).fit(),
        "yes/no ridge": BayesRidge.from_formula(yes, f, family="binomial").fit(),
        "counts": BayesRidge.from_formula("n ~ a + b", f, family="poisson").fit(),
        "outliers": BayesRidge.from_formula("y ~ a + b", f, family="student-t", df=4).fit("laplace"),
        "selection": SpikeSlab.from_formula(plain, f).fit(),
        "groups": SpikeSlab.from_formula(grouped, f).fit(),
        "yes/no selection": SpikeSlab.from_formula(yes, f, family="binomial").fit("exact", mcse=0.05),
        "yes/no selection, ep": SpikeSlab.from_formula(yes, f, family="binomial").fit("ep"),
    }


@pytest.mark.parametrize("kind", IN_SUMMARY)
def test_a_fit_has_the_facts_of_its_kind(kind, fits):
    """An attribute that is misspelt or gone would make a fact vanish without a word."""
    res = fits[kind]
    found = dict(facts_for(res, "summary"))
    assert {fact.name for fact in found} == IN_SUMMARY[kind]
    text = str(res.summary())
    for fact, value in found.items():
        assert f"{label_of(fact, res)}:" in text
        assert fact.text(value) in text


@pytest.mark.parametrize("kind", IN_SUMMARY)
def test_outputs_show_the_same_numbers(kind, fits):
    fit = fits[kind]
    res = fit
    command = "ridge" if kind in ("ridge", "wide", "yes/no ridge", "counts", "outliers") else "spikeslab"
    target = as_json(fit, command, alpha=0.05, warnings=())["targets"][0]
    for name, value in values_of(res, "json").items():
        assert target[name] == (value if np.isfinite(value) else None)
    if kind not in ("counts", "outliers"):  # which R does not have
        exported = {name: float(values[0]) for name, values in export(res)["facts"].items()}
        assert exported == pytest.approx(values_of(res, "r"), nan_ok=True, abs=0)
    frame = compare_models({"fit": fit}).frame.loc[""]["fit"]
    for name, value in values_of(res, "row").items():
        assert frame.get(name, np.nan) == pytest.approx(value, nan_ok=True, abs=0)
    for name, value in values_of(res, "table").items():
        assert fit.__maketables_stat__(name) == pytest.approx(value, nan_ok=True, abs=0)
        assert value_of(res, "table", name) == pytest.approx(value, nan_ok=True, abs=0)


def test_every_fact_is_shown_somewhere_and_says_what_it_means(fits):
    shown = {fact.name for fit in fits.values() for output in OUTPUTS for fact, _ in facts_for(fit, output)}
    assert shown == {fact.name for fact in FACTS}
    for fact in FACTS:
        assert fact.meaning.endswith(".")
        assert fact.meaning[0].isupper()
    for output in OUTPUTS[1:]:
        names = [fact.in_output(output) for fact in FACTS if fact.in_output(output)]
        assert len(names) == len(set(names))
        assert [fact_named(output, name).in_output(output) for name in names] == names


def test_what_a_fit_does_not_have_is_none(fits):
    assert value_of(fits["ridge"], "table", "log_evidence") is None
    assert value_of(fits["yes/no ridge"], "table", "sigma") is None
    assert value_of(fits["ridge"], "table", "nonsense") is None
