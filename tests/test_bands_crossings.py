"""Groups with very many levels, with everything else that fits have: the answers are those of dense columns."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t as student_t

import pybayesridge.formula.bands as of_formula
from pybayesridge import BayesRidge, compare_evidence, compare_models, fit_imputed, pool, stack
from pybayesridge.bands.eliminated import Eliminated
from pybayesridge.bands.posterior import BandPosterior

SAME = 1e-7
"""Relative difference of the same numbers by both ways of solving the equations."""

QUANTILE = 1e-5
"""Relative error of the probability below a quantile of a mixture."""

MIXED = 1e-5
"""Relative difference of a quantile of a mixture of a posterior with itself from its own."""

DF = 120 - 2
"""Degrees of freedom of a posterior at given penalties: rows without unpenalised columns."""

FORMULA = "y ~ x + (1 | s) + (1 | d)"

LAM = (2.0, 5.0)


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    s, d = np.r_[np.arange(25), rng.integers(25, size=95)], rng.integers(8, size=120)
    out = pd.DataFrame({"x": rng.normal(size=120), "z": rng.normal(size=120), "s": s, "d": d})
    out["w"] = rng.gamma(3.0, size=120)
    return out.assign(y=out["x"] + rng.normal(size=25)[s] + rng.normal(size=8)[d] + rng.normal(size=120))


def both_ways(make):
    """What `make` gives where groups have few levels, and where they have very many."""
    out = []
    for many in (10_000, 10):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(of_formula, "MANY_LEVELS", many)
            out.append(make())
    return out


@pytest.fixture(scope="module")
def fits(frame):
    model = {"unpenalized": "fixed", "weights": "w"}
    first, second = both_ways(lambda: BayesRidge.from_formula(FORMULA, frame, **model).fit("fixed", lam=LAM))
    assert isinstance(first.posterior, BandPosterior)
    assert isinstance(second.posterior.system, Eliminated)
    return first, second


def numbers(table):
    values = table.to_frame() if isinstance(table, pd.Series) else table
    return values.select_dtypes("number").to_numpy(dtype=float)


QUESTIONS = {
    "contrast": lambda fit, frame: fit.contrast("s[3] - s[4] = 0"),
    "effects": lambda fit, frame: fit.effects("x"),
    "predictions": lambda fit, frame: fit.predictions({"x": [0.0, 1.0]}),
    "variance components": lambda fit, frame: fit.variance_components()[["mean", "lower", "upper", "share"]],
    "hyperparameters": lambda fit, frame: fit.hyperparameters(),
    "tidy": lambda fit, frame: fit.tidy().head(3),
    "fitted": lambda fit, frame: fit.get_prediction().summary_frame(),
    "new levels": lambda fit, frame: fit.get_prediction(frame.head(3).assign(s=[0, 77, 3])).summary_frame(),
    "weights of new rows": lambda fit, frame: fit.get_prediction(
        frame.head(3), weights=[1.0, 2.0, 3.0]
    ).summary_frame(),
    "scores": lambda fit, frame: pd.Series(fit.loo().pointwise),
    "residuals": lambda fit, frame: pd.Series(fit.resid),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_questions(question, fits, frame):
    first, second = (numbers(QUESTIONS[question](fit, frame)) for fit in fits)
    np.testing.assert_allclose(second, first, rtol=SAME, atol=SAME * np.nanmax(np.abs(first)))


def test_what_is_drawn(fits):
    first, second = fits
    for fit in fits:
        drawn = fit.sample(4000, rng=0)
        assert (np.abs(drawn.std() / first.bse - 1) < 0.15).all()
        checks = fit.ppc(draws=200, rng=0)
        assert np.isfinite(numbers(checks.table if hasattr(checks, "table") else checks)).all()
    assert abs(first.explained_variance()["mean"] - second.explained_variance()["mean"]) < 0.02


def test_comparison_of_models(fits, frame):
    table = compare_models([fits[1], BayesRidge.from_formula("y ~ x", frame).fit()])
    assert "x" in str(table)
    smaller = both_ways(
        lambda: BayesRidge.from_formula("y ~ x + (1 | s)", frame, unpenalized="fixed", weights="w").fit(
            "fixed", lam=[2.0]
        )
    )
    ours = [compare_evidence({"a": fit, "b": other})["difference"] for fit, other in zip(fits, smaller, strict=True)]
    np.testing.assert_allclose(ours[1], ours[0], rtol=SAME, atol=SAME)


def test_report_and_summary(fits, tmp_path):
    pytest.importorskip("jinja2")
    pytest.importorskip("matplotlib")
    for fit in fits:
        page = fit.report(tmp_path / "page.html")
        assert page is not None or (tmp_path / "page.html").exists()
        assert "s" in fit.summary().as_text()


def test_arviz(fits):
    pytest.importorskip("arviz")
    for fit in fits:
        data = fit.to_arviz(draws=100, rng=0)
        assert "posterior" in str(data)


def test_imputed_data(frame):
    gaps = frame.assign(x=frame["x"].where(np.arange(120) % 10 > 0))
    filled = [gaps.fillna({"x": value}) for value in (-0.5, 0.0, 0.5)]

    def make():
        return fit_imputed(
            filled, lambda data: BayesRidge.from_formula(FORMULA, data, unpenalized="fixed").fit("fixed", lam=LAM)
        )

    first, second = both_ways(make)
    np.testing.assert_allclose(second.params, first.params, rtol=SAME, atol=SAME)
    np.testing.assert_allclose(second.bse, first.bse, rtol=SAME)


@pytest.mark.parametrize("many", [10_000, 10])
def test_predictions_of_pooled_and_stacked_fits_for_new_groups(many, frame, monkeypatch):
    """The mixture of the predictions of the fits: its moments, and the probability below its quantiles."""
    monkeypatch.setattr(of_formula, "MANY_LEVELS", many)
    model = BayesRidge.from_formula(FORMULA, frame, unpenalized="fixed")
    fits = [model.fit("fixed", lam=lam) for lam in (LAM, (20.0, 0.5))]
    new = frame.head(4).assign(s=[0, 77, None, 3], d=[0, 1, 2, 88], x=[0.0, 1.0, 2.0, np.nan])
    each = [fit.get_prediction(new).summary_frame() for fit in fits]
    for mixed, share in ((pool(fits), (0.5, 0.5)), (stack(fits, weights=[0.2, 0.8]), (0.2, 0.8))):
        found = mixed.get_prediction(new).summary_frame()
        mean = sum(w * one["mean"] for w, one in zip(share, each, strict=True))
        square = sum(w * (one["mean_se"] ** 2 + one["mean"] ** 2) for w, one in zip(share, each, strict=True))
        np.testing.assert_allclose(found["mean"], mean, rtol=SAME)
        np.testing.assert_allclose(found["mean_se"], np.sqrt(square - mean**2), rtol=SAME)
        for end, p in (("mean_ci_lower", 0.025), ("mean_ci_upper", 0.975)):
            of_t = [
                student_t.cdf((found[end] - one["mean"]) / one["mean_se"] * np.sqrt(DF / (DF - 2)), DF)
                for one in each
            ]
            np.testing.assert_allclose(np.tensordot(share, of_t, 1)[:3], p, rtol=QUANTILE)
        np.testing.assert_allclose(mixed.predict(new), found["mean"], rtol=SAME)


def test_predictions_of_pooled_counts_for_new_groups(frame):
    counts = frame.assign(y=np.random.default_rng(1).poisson(np.exp(0.3 * frame["y"])))
    model = BayesRidge.from_formula("y ~ x + (1 | d)", counts, unpenalized="fixed", family="poisson")
    fit, new = model.fit("fixed", lam=[2.0]), frame.head(3).assign(d=[0, 77, None])
    for which in ("mean", "linear"):
        alone = fit.get_prediction(new, which=which).summary_frame()
        pooled = pool([fit, fit]).get_prediction(new, which=which).summary_frame()
        np.testing.assert_allclose(pooled, alone, rtol=MIXED)


def test_prior_sensitivity(frame):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first, second = both_ways(
            lambda: BayesRidge.from_formula(FORMULA, frame, unpenalized="fixed").fit().prior_sensitivity()
        )
    np.testing.assert_allclose(numbers(second), numbers(first), rtol=0.05, atol=0.02)


@pytest.mark.parametrize("family", ["poisson", "binomial", "ordinal", "gaussian"])
def test_given_penalties_are_halved_and_doubled(frame, family):
    """Whatever the variance of the latent noise: the penalties are those of the coefficients."""
    y = frame["y"] if family == "gaussian" else np.random.default_rng(1).poisson(np.exp(0.3 * frame["y"])).clip(0, 2)
    events = frame.assign(y=(y > 0).astype(int) if family == "binomial" else y)
    model = BayesRidge.from_formula("y ~ z + (1 | d)", events, family=family)
    lam = {"d": 2.0, "other": 5.0}
    found = model.fit("fixed", lam=lam).prior_sensitivity()
    for name, factor in (("half", 0.5), ("double", 2.0)):
        again = model.fit("fixed", lam={band: factor * value for band, value in lam.items()})
        np.testing.assert_allclose(found[f"mean_{name}"], again.params, rtol=SAME, atol=SAME)
        np.testing.assert_allclose(found[f"sd_{name}"], again.bse, rtol=SAME)


def test_the_command_line(frame, tmp_path, capsys, monkeypatch):
    from pybayesridge.cli import main

    frame.to_csv(tmp_path / "data.csv", index=False)
    found = []
    for many in (10_000, 10):
        monkeypatch.setattr(of_formula, "MANY_LEVELS", many)
        command = [
            "ridge",
            FORMULA,
            str(tmp_path / "data.csv"),
            "--method",
            "reml",
            "--weights",
            "w",
            "--json",
            "--quiet",
        ]
        assert main(command) in (0, None)
        found.append(json.loads(capsys.readouterr().out))
    first, second = (np.array([each["mean"] for each in one["targets"][0]["coefficients"]]) for one in found)
    np.testing.assert_allclose(second, first, rtol=1e-6, atol=1e-6)
