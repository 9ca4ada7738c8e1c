"""Student-t noise with several penalties: against Gibbs' sampler, degrees of freedom averaged over, and results."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy.special import gammaln, logsumexp
from scipy.stats import t as student_t

from pybayesridge import BayesRidge, load
from pybayesridge.cli import main
from pybayesridge.sites import student
from tests.effort import only_thorough

MEANS, SDS = 0.05, 0.05
"""Against 80,000 draws of a hundred chains; of 400,000 the largest seen are .01 standard deviations and .7 %."""
SAME = 2e-3
"""Of a mixture against its parts, whose lattices are others: the largest seen is 1.5e-4."""
TWICE = 1e-2
"""Of weights of 2 against rows that are there twice: another lattice; the largest seen is 3e-5."""
LEFT_OUT = 0.1
"""Of log densities of rows without themselves: 20,000 draws, and sites of expectation propagation that stay."""
CHAINS, LENGTH, BEGINNING = 100, 800, 300


def drawn(y, free, bands, df, seed):
    """Draws of (free, penalised coefficients), sigma and the bands' standard deviations, by chains side by side.

    Noise is a mixture of normals with gamma distributed precisions. Given these, the coefficients are integrated out
    while sigma and the variances of the bands are moved (Metropolis); degrees of freedom, of several, are drawn given
    the coefficients alone.
    """
    rng, n, k, count = np.random.default_rng(seed), y.size, free.shape[1], len(bands)
    q, _ = np.linalg.qr(free)
    unit = np.array([((band - q @ (q.T @ band)) ** 2).sum() / n for band in bands])
    x, of = np.column_stack([free, *bands]), np.repeat(np.arange(count), [band.shape[1] for band in bands])
    p, products, grid = x.shape[1], (x[:, :, None] * x[:, None, :]).reshape(n, -1), np.atleast_1d(df)
    diagonal = np.arange(k, p)

    def density(at, weight):
        log_s2, log_w = at[:, 0], at[:, 1:]
        variance = (np.exp(log_w) / unit)[:, of]
        precision = (weight @ products).reshape(-1, p, p)
        precision[:, diagonal, diagonal] += 1 / variance
        root = np.linalg.cholesky(precision)
        u = np.linalg.solve(root, (weight @ (x * y[:, None]))[:, :, None])[:, :, 0]
        left = weight @ y**2 - (u**2).sum(axis=1)
        determinant = np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1) + 0.5 * np.log(variance).sum(axis=1)
        total = np.exp(log_w).sum(axis=1)
        prior = 0.5 * (1 - count) * np.log(total) - np.log1p(total) + 0.5 * log_w.sum(axis=1)
        return prior - 0.5 * (n - k) * log_s2 - determinant - 0.5 * left / np.exp(log_s2), root, u

    at = np.column_stack([np.full(CHAINS, np.log(0.3 * np.var(y))), rng.normal(-1, 1, (CHAINS, count))])
    weight, step, out = np.ones((CHAINS, n)), np.r_[0.25, np.full(count, 1.2)], []
    for turn in range(-BEGINNING, LENGTH):
        log_density, root, u = density(at, weight)
        for _ in range(2):
            width = step * rng.choice([0.3, 1.0, 2.0], size=(CHAINS, 1)) * (rng.random(at.shape) < 0.7)
            other = at + width * rng.standard_normal(at.shape)
            found = density(other, weight)
            better = np.log(rng.random(CHAINS)) < found[0] - log_density
            at, log_density = np.where(better[:, None], other, at), np.where(better, found[0], log_density)
            root, u = np.where(better[:, None, None], found[1], root), np.where(better[:, None], found[2], u)
        sigma = np.exp(0.5 * at[:, :1])
        normal = rng.standard_normal((CHAINS, p))
        b = np.linalg.solve(np.swapaxes(root, 1, 2), (u + sigma * normal)[:, :, None])[:, :, 0]
        z2 = ((y - b @ x.T) / sigma) ** 2
        likelihood = [
            n * (gammaln((d + 1) / 2) - gammaln(d / 2) - 0.5 * np.log(d)) - (d + 1) / 2 * np.log1p(z2 / d).sum(axis=1)
            for d in grid
        ]
        own = grid[(np.array(likelihood) + rng.gumbel(size=(grid.size, CHAINS))).argmax(axis=0)][:, None]
        weight = rng.gamma(0.5 * (own + 1), size=(CHAINS, n)) / (0.5 * (own + z2))
        if turn >= 0:
            out.append(np.hstack([b, sigma, sigma * np.exp(0.5 * at[:, 1:]) / np.sqrt(unit)]))
    return np.concatenate(out)


def matrix(n=60, seed=1):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, 9))
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    b = np.r_[1.0, -0.8, 0.6, 0.5, 0.15 * rng.normal(size=5)]
    return x, 1 + x @ b + 0.7 * rng.standard_t(3, n)


BANDS = {"a": [0, 1, 2, 3], "b": [4, 5, 6, 7, 8]}


def check(res, draws, names):
    found = res.hyperparameters()
    mean = np.r_[res.params[names], found.loc[["sigma", *found.index[:2]], "mean"]]
    sd = draws.std(axis=0)
    assert res.converged
    np.testing.assert_allclose((mean - draws.mean(axis=0)) / sd, 0, atol=MEANS)
    np.testing.assert_allclose(res.bse[names], sd[: len(names)], rtol=SDS)


def test_bands_are_those_of_a_sampler():
    x, y = matrix()
    res = BayesRidge(y, x, family="student-t", df=4, bands=BANDS).fit()
    draws = drawn(y, np.ones((60, 1)), [x[:, :4], x[:, 4:]], 4.0, 1)
    check(res, draws, list(res.params.index))


@only_thorough
@pytest.mark.parametrize("df", [3.0, None])
def test_groups_are_those_of_a_sampler(monkeypatch, df):
    """Also where two numbers of degrees of freedom are averaged over."""
    monkeypatch.setattr(student, "GRID", (2.0, 10.0))
    x, y = matrix(64, seed=5)
    rng, g = np.random.default_rng(5), np.arange(64) % 8
    y += rng.normal(size=8)[g]
    frame = pd.DataFrame(x[:, :4], columns=["a", "b", "c", "d"]).assign(y=y, g=np.array(list("pqrstuvw"))[g])
    formula = "y ~ a + b + c + d + (1 | g)"
    res = BayesRidge.from_formula(formula, frame, family="student-t", df=df, unpenalized=["a", "b"]).fit()
    free = np.column_stack([np.ones(64), x[:, :2]])
    draws = drawn(y, free, [np.eye(8)[g], x[:, 2:4]], student.GRID if df is None else df, 2)
    check(res, draws, ["Intercept", "a", "b", *(f"g[{level}]" for level in "pqrstuvw"), "c", "d"])
    if df is None:
        assert 2 < res.hyperparameters().loc["df", "mean"] < 10


@only_thorough
def test_few_rows_and_heavy_tails():
    """Where sigma is far below its most probable values there are several tops."""
    rng = np.random.default_rng(301)
    x = rng.standard_normal((30, 12))
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    y = x @ rng.standard_normal(12) + rng.standard_t(3.0, 30)
    bands = {"a": list(range(6)), "b": list(range(6, 12))}
    res = BayesRidge(y, x, family="student-t", df=4, bands=bands).fit()
    check(res, drawn(y, np.ones((30, 1)), [x[:, :6], x[:, 6:]], 4.0, 3), list(res.params.index))


def groups_of_three(seed):
    rng, g = np.random.default_rng(seed), np.repeat(np.arange(20), 3)
    x = rng.standard_normal(60)
    y = 1 + 0.8 * x + 0.7 * rng.standard_normal(20)[g] + 0.6 * rng.standard_t(3, 60)
    return pd.DataFrame({"x": x, "y": y, "g": [f"l{k:02d}" for k in g]})


@pytest.mark.filterwarnings("ignore::pybayesridge.exceptions.ConvergenceWarning")
def test_an_error_larger_than_asked_for_is_not_converged():
    """Where expectation propagation's evidence is rougher than Laplace's, whose lattices had converged."""
    rng = np.random.default_rng(0)
    g, x = rng.integers(0, 10, 30), rng.normal(size=30)
    y = 1 + 0.8 * x + 0.7 * rng.normal(size=10)[g] + 0.6 * rng.standard_t(3, 30)
    data = pd.DataFrame({"x": x, "y": y, "g": g.astype(str)})
    res = BayesRidge.from_formula("y ~ x + (1 | g)", data, family="student-t", df=3, unpenalized="fixed").fit()
    assert not res.converged or res.quadrature_error <= res.tol


@pytest.mark.parametrize("outliers", [0, 3])
def test_groups_of_three_converge(outliers):
    """Where Laplace's evidence has steps, since modes change places, and expectation propagation settles nowhere."""
    data = groups_of_three(4)
    data.loc[[7, 22, 46][:outliers], "y"] += 8.0
    res = BayesRidge.from_formula("y ~ x + (1 | g)", data, family="student-t", df=2, unpenalized="fixed").fit()
    assert res.converged
    assert (res.hyperparameters().loc["sd[g]", ["lower", "upper"]].diff().iloc[1:] > 0).all()


@only_thorough
@pytest.mark.parametrize("outliers", [0, 3])
def test_groups_of_three_are_those_of_a_sampler(outliers):
    """Where rows of a group contradict each other and posteriors of effects have two tops."""
    data = groups_of_three(4)
    data.loc[[7, 22, 46][:outliers], "y"] += 8.0
    res = BayesRidge.from_formula("y ~ x + (1 | g)", data, family="student-t", df=2, unpenalized="fixed").fit()
    codes = data["g"].astype("category").cat.codes.to_numpy()
    draws = drawn(data["y"].to_numpy(), np.column_stack([np.ones(60), data["x"]]), [np.eye(20)[codes]], 2.0, 4)
    mean, sd = draws.mean(axis=0), draws.std(axis=0)
    found = np.r_[res.params, res.hyperparameters().loc[["sigma", "sd[g]"], "mean"]]
    np.testing.assert_allclose((found - mean) / sd, 0, atol=MEANS)
    np.testing.assert_allclose(res.bse, sd[:22], rtol=SDS)


def test_degrees_of_freedom_are_averaged_over(monkeypatch, tmp_path):
    monkeypatch.setattr(student, "GRID", (3.0, np.inf))
    x, y = matrix(40)
    res = BayesRidge(y, x, family="student-t", bands=BANDS).fit("laplace")
    parts = [BayesRidge(y, x, family="student-t", df=df, bands=BANDS).fit("laplace") for df in student.GRID]
    evidence = np.array([part.log_marginal for part in parts])
    share = np.exp(evidence - logsumexp(evidence))
    assert res.log_marginal == pytest.approx(logsumexp(evidence) - np.log(2), abs=SAME)
    away = res.params - share @ np.stack([part.params for part in parts])
    np.testing.assert_allclose(away / res.bse, 0, atol=SAME)
    assert res.hyperparameter_names == ["sd[a]", "sd[b]", "sigma", "df"]
    assert set(res.sample(200, rng=0, hyper_columns=True)["df"]) <= set(student.GRID)
    res.save(tmp_path / "fit", remove_data=True)
    pd.testing.assert_frame_equal(load(tmp_path / "fit").hyperparameters(), res.hyperparameters())


@pytest.mark.parametrize("df", [None, 4])
def test_groups_of_many_rows_are_not_eliminated(frame, df, monkeypatch):
    """Precisions of sites may be negative, also where the degrees of freedom are not known yet."""
    monkeypatch.setattr(student, "GRID", (4.0, np.inf))
    fits = []
    for work in (np.inf, 0):
        monkeypatch.setattr("pybayesridge.sites.arrow_bands.LEAST_WORK", work)
        more = {} if df is None else {"df": df}
        fits.append(BayesRidge.from_formula("y ~ a + (1 | g)", frame, family="student-t", **more).fit("laplace"))
    assert fits[1].log_marginal == pytest.approx(fits[0].log_marginal, abs=1e-12)


def test_infinite_degrees_of_freedom_are_normal_noise():
    x, y = matrix()
    res = BayesRidge(y, x, family="student-t", df=np.inf, bands=BANDS).fit("laplace")
    normal = BayesRidge(y, x, bands=BANDS).fit()
    np.testing.assert_allclose((res.params - normal.params) / normal.bse, 0, atol=TWICE)
    np.testing.assert_allclose(res.bse, normal.bse, rtol=TWICE)


def test_weights_are_frequencies():
    x, y = matrix(40)
    weighted = BayesRidge(y, x, family="student-t", df=4, bands=BANDS, weights=np.full(40, 2.0)).fit("laplace")
    twice = BayesRidge(np.tile(y, 2), np.tile(x, (2, 1)), family="student-t", df=4, bands=BANDS).fit("laplace")
    np.testing.assert_allclose((weighted.params - twice.params) / twice.bse, 0, atol=TWICE)
    np.testing.assert_allclose(weighted.bse, twice.bse, rtol=TWICE)


def test_an_outlier_far_away_counts_for_nothing():
    x, y = matrix(40)
    fits = []
    for distance in (1e4, 1e8):
        y[3] = distance
        fits.append(BayesRidge(y, x, family="student-t", df=4, bands=BANDS).fit("laplace"))
    near, far = fits
    assert near.converged
    assert far.converged
    np.testing.assert_allclose((near.params - far.params) / far.bse, 0, atol=TWICE)


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(3)
    out = pd.DataFrame({"a": rng.normal(size=60), "x": rng.uniform(-2, 2, 60)})
    out["g"] = np.array(list("pqrstuvw"))[np.arange(60) % 8]
    effect = dict(zip("pqrstuvw", 0.7 * rng.normal(size=8), strict=True))
    out["y"] = 1 + 0.8 * out["a"] + np.sin(1.5 * out["x"]) + out["g"].map(effect) + 0.4 * rng.standard_t(3, 60)
    return out


@pytest.fixture(scope="module")
def results(frame):
    formula = "y ~ a + s(x, k=6) + (1 | g)"
    return BayesRidge.from_formula(formula, frame, family="student-t", df=4, unpenalized="fixed").fit("laplace")


def test_predictions_of_new_levels(results, frame):
    new = frame.head(2).assign(g=["p", "another"])
    wide, narrow = results.get_prediction(new).summary_frame(), results.get_prediction(new, new_levels="zero")
    narrow = narrow.summary_frame()
    np.testing.assert_allclose(wide["mean"], narrow["mean"], rtol=1e-10)
    assert wide["mean_se"][0] == pytest.approx(narrow["mean_se"][0], rel=1e-10)
    square = float(
        (results.hyperparameters().loc["sd[g]", ["mean"]] ** 2).iloc[0]
        + results.variance_components()["sd"]["g"] ** 2
    )
    assert wide["mean_se"][1] ** 2 - narrow["mean_se"][1] ** 2 == pytest.approx(square, rel=0.02)
    np.testing.assert_allclose(results.predict(new), results.predict(new, which="linear"), rtol=1e-6)


def test_leave_one_out_is_that_of_fits_without_the_row(results, frame):
    found = results.loo().pointwise
    for i in (0, 17):
        rest = BayesRidge.from_formula(
            "y ~ a + s(x, k=6) + (1 | g)", frame.drop(index=i), family="student-t", df=4, unpenalized="fixed"
        ).fit()
        draws = rest.sample(20_000, rng=0, hyper_columns=True)
        rows, _, _ = rest.model.rows_with_groups(frame.loc[[i]], True, groups=True)
        eta = draws["Intercept"] + draws[rest.model.exog_names[1:]].to_numpy() @ np.asarray(rows).ravel()
        log_density = np.log(np.mean(student_t.pdf((frame["y"][i] - eta) / draws["sigma"], 4) / draws["sigma"]))
        assert found.iloc[i] == pytest.approx(log_density, abs=LEFT_OUT)


def test_results_answer(results, frame, tmp_path):
    pytest.importorskip("jinja2")
    pytest.importorskip("arviz")
    kept = load(results.save(tmp_path / "fit.zip") or tmp_path / "fit.zip")
    new = frame.head(3)
    pd.testing.assert_frame_equal(
        kept.get_prediction(new).summary_frame(), results.get_prediction(new).summary_frame()
    )
    pd.testing.assert_frame_equal(kept.variance_components(), results.variance_components())
    assert "The degrees of freedom of the noise are given: 4." in " ".join(str(results.summary()).split())
    assert 0.02 < results.ppc(rng=0).loc["mean", "p"] < 0.98
    results.report(tmp_path / "report.html")
    assert "Student-t noise" in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert list(results.sample(5, rng=0, hyper_columns=True).columns[-3:]) == ["tau2[s(x)]", "tau2[g]", "sigma"]
    made = results.to_arviz(draws=20, rng=0)
    assert all(np.isfinite(made[group]["y"].to_numpy()).all() for group in ("log_likelihood", "posterior_predictive"))


def test_command_line_and_scikit_learn(frame, tmp_path, capsys):
    estimators = pytest.importorskip("pybayesridge.sklearn", exc_type=ImportError)
    frame.to_csv(tmp_path / "data.csv", index=False)
    command = ["ridge", "y ~ a + (1 | g)", str(tmp_path / "data.csv"), "--family", "student-t", "--df", "4", "--json"]
    assert main([*command, "--method", "laplace"]) == 0
    (target,) = json.loads(capsys.readouterr().out)["targets"]
    columns = frame[["a", "g"]]
    direct = BayesRidge.from_formula("y ~ a + (1 | g)", frame, family="student-t", df=4).fit("laplace")
    assert target["log_marginal"] == pytest.approx(direct.log_marginal)
    wrapped = estimators.BayesRidgeRegressor("laplace", groups=["g"], family="student-t", df=4).fit(
        columns, frame["y"]
    )
    np.testing.assert_allclose(wrapped.predict(columns), direct.predict(frame), rtol=1e-8)


def test_what_cannot_be_done_is_refused(frame):
    model = BayesRidge.from_formula("y ~ a + (1 | g)", frame, family="student-t", df=4)
    for method in ("reml", "fixed", "em", "loocv"):
        with pytest.raises(ValueError, match="relative to the unknown scale of the noise: use 'ep' or 'laplace'"):
            model.fit(method)
    x, y = matrix(40)
    for noise in (0.0, 1e-9, 1e-3):
        with pytest.raises(ValueError, match="explain the responses but for next to no noise"):
            BayesRidge(x[:, 0] + x[:, 5] + noise * y, x, family="student-t", df=4, bands=BANDS).fit("laplace")
    many = pd.DataFrame({"y": np.random.default_rng(0).normal(size=1200), "g": (np.arange(1200) % 600).astype(str)})
    with pytest.raises(ValueError, match=r"groups with 500 or more are not for family='student-t'"):
        BayesRidge.from_formula("y ~ (1 | g)", many, family="student-t", df=4).fit()
    with pytest.raises(ValueError, match=r"groups with 500 or more are not for family='student-t'"):
        BayesRidge.from_formula("y ~ (1 | g)", many, family="student-t").fit()
