"""Selection of columns for negative binomial counts as users call it."""

import json
import pickle
from importlib.resources import files

import numpy as np
import pandas as pd
import pytest
from scipy.stats import nbinom

from pybayesridge import BayesRidge, SpikeSlab, cli, compare_evidence, compare_loo, compare_models, fit_imputed, load
from pybayesridge.cli.as_json import as_json
from pybayesridge.poisson.negative_binomial import from_counts
from pybayesridge.results.export import export
from pybayesridge.results.export_fields import check

SAME = 1e-4
"""The same fixed point by another way, in posterior standard deviations and nats; seen are 2e-6."""

ORDERED = 0.02
"""Inclusion probabilities where columns or rows have another order: lattices may end elsewhere; seen 1e-15."""

COPIED = 0.01
"""A row of weight 2 beside two rows: EP has one site for the first; seen 1e-6."""

REFITTED = 0.2
"""Leave-one-out densities by cavities, hyperparameters those of all rows, beside refits and draws; seen .02."""

DRAWN = 0.1
"""Quantiles of alpha among draws, whose nodes are a third of a standard deviation apart, relative."""


def frame(n=90, seed=3, alpha=0.5):
    rng = np.random.default_rng(seed)
    out = pd.DataFrame(rng.normal(size=(n, 2)), columns=["a", "b"])
    out["g"] = np.resize(["u", "v", "w"], n)
    out["t"] = rng.gamma(3, 1 / 3, n)
    mean = out["t"] * np.exp(1.0 + 0.6 * out["a"])
    return out.assign(y=rng.poisson(mean * rng.gamma(1 / alpha, alpha, n)))


DATA = frame()
FORMULA = "y ~ a + b + g"


def fit(data=DATA, formula=FORMULA, *, family="negative-binomial", exposure="t", options=None, **given):
    model = SpikeSlab.from_formula(formula, data, family=family, exposure=exposure, **given)
    return model.fit(**(options or {}))


@pytest.fixture(scope="module")
def fitted():
    return fit()


@pytest.fixture(scope="module")
def poisson():
    return fit(family="poisson")


def test_answers(fitted):
    """They are those of expectation propagation, which says so, and have the dispersion."""
    assert fitted.method == "ep"
    assert fitted.converged
    assert fitted.learned == ("prior_inclusion", "slab_var", "alpha")
    assert fitted.inclusion_prob["a"] > 0.9
    assert fitted.inclusion_prob["b"] < 0.5
    table = fitted.hyperparameters()
    assert list(table.index) == ["alpha"]
    mean, lower, upper = table.loc["alpha", ["mean", "lower", "upper"]]
    assert lower < 0.5 < upper
    assert lower < mean < upper
    narrow = fitted.hyperparameters(0.5).loc["alpha"]
    assert lower < narrow["lower"] < narrow["upper"] < upper
    assert any("only method for family='negative-binomial'" in text for text in fitted.notes)
    text = str(fitted.summary())
    assert "alpha" in text
    assert "1 / (1 + alpha) is Beta(1/2, 1/2)" in " ".join(text.split())
    per_unit = fitted.predict(DATA)
    np.testing.assert_allclose(fitted.fittedvalues, DATA["t"] * per_unit, rtol=1e-12)
    np.testing.assert_allclose(fitted.rate_ratios()["upper"], np.exp(fitted.conf_int()[1]), rtol=1e-12)
    for name in ("models", "credible_sets"):
        with pytest.raises(ValueError, match="which expectation propagation does not give"):
            getattr(fitted, name)()


def test_a_given_dispersion():
    sm = pytest.importorskip("statsmodels.api")
    res = fit(dispersion=0.5)
    assert res.learned == ("prior_inclusion", "slab_var")
    assert "alpha is given: 0.5" in str(res.summary())
    with pytest.raises(ValueError, match="which expectation propagation does not give"):
        res.hyperparameters()
    by_object = fit(family=sm.families.NegativeBinomial(alpha=0.5))
    np.testing.assert_array_equal(by_object.params, res.params)
    assert "dispersion=0.5" in by_object.recipe.code
    with pytest.raises(ValueError, match=r"dispersion=0\.3 contradicts that of the family, 0\.5"):
        fit(family=sm.families.NegativeBinomial(alpha=0.5), dispersion=0.3)


def test_comparisons_with_poisson_counts(fitted, poisson):
    """Counts that vary more than Poisson counts make too many columns certain."""
    fits = {"nb": fitted, "poisson": poisson}
    assert poisson.expected_size > fitted.expected_size
    assert compare_loo(fits).index[0] == "nb"
    assert compare_evidence(fits).index[0] == "nb"
    assert "negative" not in str(compare_models(fits))
    assert fitted.ppc("dispersion", draws=400)["p"].iloc[0] > 0.02
    assert poisson.ppc("dispersion", draws=400)["p"].iloc[0] < 0.02


def test_next_to_no_dispersion_is_the_poisson_fit(poisson):
    res = fit(dispersion=1e-8)
    np.testing.assert_allclose((res.params - poisson.params) / poisson.bse, 0, atol=1e-2)
    np.testing.assert_allclose(res.inclusion_prob, poisson.inclusion_prob, atol=1e-3)
    assert res.log_evidence == pytest.approx(poisson.log_evidence, abs=1e-2)


def test_all_columns_in_is_the_ridge():
    """With a prior probability of nearly 1 and a given slab it is the ridge with a given penalty."""
    slab, p = 0.09, {"a": 1.0, "b": 1 - 1e-12}
    found = fit(formula="y ~ a + b", dispersion=0.5, prior_inclusion=p, slab_var=slab, options={"tol": 1e-8})
    model = BayesRidge.from_formula("y ~ a + b", DATA, family="negative-binomial", exposure="t", dispersion=0.5)
    ridge = model.fit("fixed", lam=1 / slab)
    np.testing.assert_allclose((found.params - ridge.params) / ridge.bse, 0, atol=SAME)
    np.testing.assert_allclose(found.bse, ridge.bse, rtol=SAME)
    constants = from_counts(DATA["y"].to_numpy(dtype=float), DATA["t"].to_numpy(), None, 0.5).log_constants().sum()
    assert found.log_evidence + constants == pytest.approx(ridge.log_evidence, abs=SAME)
    assert found.loo().elpd == pytest.approx(ridge.loo().elpd, abs=1e-2)


def test_the_integral_over_the_dispersion_is_that_of_the_ridge():
    slab, p = 0.09, {"a": 1.0, "b": 1 - 1e-12}
    found = fit(formula="y ~ a + b", prior_inclusion=p, slab_var=slab)
    model = BayesRidge.from_formula("y ~ a + b", DATA, family="negative-binomial", exposure="t")
    ridge = model.fit("fixed", lam=1 / slab)
    np.testing.assert_allclose((found.params - ridge.params) / ridge.bse, 0, atol=0.01)
    np.testing.assert_allclose(found.bse, ridge.bse, rtol=0.01)
    expected = ridge.hyperparameters().loc["alpha", ["mean", "lower", "upper"]]
    np.testing.assert_allclose(found.hyperparameters().loc["alpha"], expected, rtol=0.02)


def test_leave_one_out_is_that_of_refits(fitted):
    found = fitted.loo().pointwise
    for row in (1, int(DATA["y"].argmax())):
        again = fit(data=DATA.drop(index=row))
        drawn = again._draw_chain(4000, np.random.default_rng(0))
        eta = again.model.predict(
            drawn.beta[..., 0].T, again.model.new_rows(DATA.loc[[row]], True)[0], which="linear"
        )
        mean, size = DATA["t"][row] * np.exp(eta.ravel()), 1.0 / drawn.others["alpha"].ravel()
        direct = np.log(nbinom.pmf(DATA["y"][row], size, size / (size + mean)).mean())
        assert found[row] == pytest.approx(direct, abs=REFITTED)


def test_draws_have_the_dispersion(fitted):
    drawn = fitted._draw_chain(4000, np.random.default_rng(0)).others["alpha"].ravel()
    assert drawn.mean() == pytest.approx(fitted.hyperparameters().loc["alpha", "mean"], rel=DRAWN)
    for part in (fitted, fit(dispersion=0.5)):
        replicated = part.ppc(["mean", "sd", "zeros"], draws=1000)
        assert replicated["p"].between(0.02, 0.98).all()
    assert list(fitted.sample(5, rng=0).columns) == fitted.model.exog_names


def test_orders_copies_groups_and_weights(fitted):
    shuffled = fit(data=DATA.sample(frac=1.0, random_state=0), formula="y ~ g + b + a")
    probabilities = fitted.inclusion_prob
    np.testing.assert_allclose(shuffled.inclusion_prob[probabilities.index], probabilities, atol=ORDERED)
    assert probabilities["g[T.v]"] == probabilities["g[T.w]"]
    known = {"dispersion": 0.5, "prior_inclusion": 0.3, "slab_var": 0.2}
    twin = fit(data=DATA.assign(twin=DATA["a"]), formula="y ~ a + b + twin", **known)
    assert twin.inclusion_prob["twin"] == pytest.approx(twin.inclusion_prob["a"], abs=1e-3)
    longer = fit(data=DATA.assign(t=2 * DATA["t"]), **known)
    once = fit(**known)
    np.testing.assert_allclose(longer.inclusion_prob, once.inclusion_prob, rtol=1e-3)
    assert longer.params["Intercept"] == pytest.approx(once.params["Intercept"] - np.log(2), abs=1e-3)
    doubled = fit(data=DATA.assign(two=2.0), weights="two", **known)
    copied = fit(data=pd.concat([DATA, DATA]), **known)
    assert doubled.n_events == copied.n_events
    assert np.abs(doubled.inclusion_prob - copied.inclusion_prob).max() < COPIED


def test_elsewhere(fitted, tmp_path):
    """Files, reports, JSON, exports, priors, imputed data."""
    schema = json.loads((files("pybayesridge.cli") / "result.schema.json").read_text(encoding="utf-8"))
    fitted.save(tmp_path / "fit", remove_data=True)
    again = load(tmp_path / "fit")
    np.testing.assert_array_equal(again.predict(DATA.head()), fitted.predict(DATA.head()))
    assert again.summary().as_text() == fitted.summary().as_text()
    pd.testing.assert_frame_equal(again.hyperparameters(), fitted.hyperparameters())
    pickled = pickle.loads(pickle.dumps(fitted))
    pd.testing.assert_frame_equal(pickled.hyperparameters(), fitted.hyperparameters())
    shown = as_json(fitted, "spikeslab", alpha=0.05, warnings=())
    target = shown["targets"][0]
    assert target["family"] == "negative-binomial"
    assert target["hyperparameters"]["alpha"]["mean"] == pytest.approx(fitted.hyperparameters().loc["alpha", "mean"])
    exported = export(fitted)
    check(exported)
    assert exported["posterior"]["log_shape"].size == len(exported["posterior"]["weight"])
    assert set(fitted.prior_sensitivity().columns) >= {"inclusion_half", "inclusion_double"}
    pooled = fit_imputed([DATA, DATA], lambda each: fit(data=each))
    np.testing.assert_allclose(pooled.params, fitted.params, rtol=1e-12)
    np.testing.assert_allclose(pooled.hyperparameters(), fitted.hyperparameters(), rtol=0.01)  # a finer table
    pytest.importorskip("jsonschema").validate(shown, schema)


@pytest.mark.parametrize("name", ["fitted", "poisson"])
def test_reports(name, request, tmp_path):
    pytest.importorskip("jinja2")
    pytest.importorskip("matplotlib")
    request.getfixturevalue(name).report(tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert ("Dispersion" in text) == (name == "fitted")
    assert "Fitted values (expected counts)" in text
    assert "probabilities of the event" not in text


def test_command_line(fitted, tmp_path, capsys):
    DATA.to_csv(tmp_path / "data.csv", index=False)
    options = ["spikeslab", FORMULA, str(tmp_path / "data.csv"), "--family", "negative-binomial", "--exposure", "t"]
    assert cli.main(options) == 0
    assert "alpha" in capsys.readouterr().out
    assert cli.main([*options, "--dispersion", "0.5", "--json"]) == 0
    target = json.loads(capsys.readouterr().out)["targets"][0]
    assert target["dispersion"] == 0.5
    assert target["learned"] == ["prior_inclusion", "slab_var"]


@pytest.mark.parametrize(
    ("change", "given", "message"),
    [
        ({"y": -1}, {}, "family='negative-binomial' takes counts, but endog is negative: row.* 0"),
        ({"y": 0.5}, {}, "family='negative-binomial' takes counts, whole numbers, but endog has fractions"),
        ({"t": 0.0}, {}, "exposure must be positive and finite, but those of row.* 0 are not"),
        ({}, {"dispersion": -1.0}, "dispersion must be positive and finite, not -1"),
        ({}, {"dispersion": 0.0}, "dispersion must be positive and finite, not 0"),
        ({}, {"dispersion": 1e9}, "dispersion must be between 1e-08 and 1000"),
        ({}, {"trials": "t", "exposure": None}, "trials requires family='binomial'"),
        ({}, {"noise_var": 1.0}, "noise_var requires family='gaussian'"),
        ({}, {"options": {"method": "exact"}}, "method='exact' is not available for counts: use method='ep'"),
    ],
)
def test_bad_input_is_refused(change, given, message):
    data = DATA.astype({"y": float})
    for name, value in change.items():
        data.loc[0, name] = value
    with pytest.raises(ValueError, match=message):
        fit(data=data, **given)


def test_what_there_is_not():
    with pytest.raises(ValueError, match="all counts are 0"):
        fit(data=DATA.assign(y=0))
    with pytest.raises(ValueError, match="dispersion requires family='negative-binomial'"):
        fit(family="poisson", dispersion=0.5)
    zeros = DATA.assign(y=np.where(DATA["g"] == "w", 0, DATA["y"]))
    with pytest.raises(ValueError, match="separate the counts"):
        fit(data=zeros, unpenalized=["g"])
    assert fit(data=zeros).converged


@pytest.mark.parametrize("kind", ["many columns", "correlated", "one event", "one huge", "constant", "far"])
def test_hard_data(kind):
    """Fits settle, and probabilities are some."""
    rng = np.random.default_rng(5)
    n, d = (30, 60) if kind == "many columns" else (60, 4)
    x = rng.standard_normal((n, d))
    y = rng.poisson(np.exp(1 + x[:, 0]) * rng.gamma(2.0, 0.5, n)).astype(float)
    given = {"prior_inclusion": 0.1, "slab_var": 0.5}
    if kind == "correlated":
        x = x[:, :1] + 0.05 * x
    elif kind == "one event":
        y = np.r_[1.0, np.zeros(n - 1)]
    elif kind == "one huge":
        y[3] = 1e6
    elif kind == "constant":
        y[:] = 3.0
    elif kind == "far":
        y = rng.poisson(1e5 * np.exp(x[:, 0])).astype(float)
    res = SpikeSlab(y, x, family="negative-binomial", **given).fit()
    assert res.converged
    assert res.inclusion_prob.between(0, 1).all()
    assert np.isfinite(res.params).all()
    alpha = res.hyperparameters().loc["alpha"]
    assert 0 < alpha["lower"] < alpha["upper"]
    if kind == "one huge":
        assert alpha["lower"] > 1
    elif kind == "far":
        assert alpha["upper"] < 1e-4
        assert res.inclusion_prob.iloc[1] > 0.99
