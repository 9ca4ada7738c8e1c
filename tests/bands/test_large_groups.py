"""Groups with very many levels, whose columns are sparse and the largest of which is eliminated: as by dense ones."""

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.special import gammaln, logsumexp

import pybayesridge.formula.bands as of_formula
from pybayesridge import BayesRidge, DegenerateFitWarning, load
from pybayesridge.bands import eliminated, mixed, shared
from pybayesridge.bands.eliminated import Eliminated
from pybayesridge.bands.mixed_sampled import SampledPoints
from pybayesridge.bands.shared import Head, Heads, Split
from pybayesridge.bands.system import System
from pybayesridge.models.banded import mixed_problem

SAME = 1e-8
"""Relative difference of the same numbers by both ways of solving the equations."""

NODES = 2e-2
"""Difference, in posterior standard deviations, of two integrals over variances with tolerance 1e-3."""

POINTS = 0.15
"""Likewise where one of them is over weighted points."""

TAILS = 0.02
"""Relative difference of standard deviations with a group of three levels, of which .007 was seen: a long tail."""

N, S, D = 300, 40, 15


@pytest.fixture
def few(monkeypatch):
    """Few levels count as many."""
    monkeypatch.setattr(of_formula, "MANY_LEVELS", 10)


def ratings(seed=0, n=N, s=S, d=D):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "x": rng.normal(1e3, 1.0, size=n),
            "s": np.where(np.arange(n) < s, np.arange(n), (s * rng.beta(1, 3, size=n)).astype(int)),
            "d": rng.integers(d, size=n),
            "w": rng.gamma(3.0, size=n),
        }
    )
    frame["dept"] = frame["d"] % 3
    effects = [scale * rng.normal(size=m) for scale, m in ((0.7, s), (0.5, d), (0.3, 3))]
    frame["y"] = 0.3 * frame["x"] + rng.normal(size=n)
    for name, effect in zip(("s", "d", "dept"), effects, strict=True):
        frame["y"] += effect[frame[name]]
    return frame


def both(formula, frame, monkeypatch, method="reml", options=None, **given):
    """The fits by dense and by sparse columns."""
    out = []
    for many in (10_000, 10):
        monkeypatch.setattr(of_formula, "MANY_LEVELS", many)
        model = BayesRidge.from_formula(formula, frame, **{"unpenalized": "fixed", **given})
        assert sparse.issparse(model.data.exog) == (many == 10)
        out.append(model.fit(method, **(options or {})))
    assert isinstance(out[1].posterior.system, Eliminated)
    return out


def close(first, second, rtol=SAME):
    np.testing.assert_allclose(second, first, rtol=rtol, atol=rtol * np.abs(np.asarray(first)).max())


def same_fit(first, second):
    assert first.converged
    assert second.converged
    for name in ("params", "bse", "sigma2", "df_model", "fittedvalues", "loo_residuals", "rsquared"):
        close(getattr(first, name), getattr(second, name))
    close(first.conf_int(), second.conf_int())
    close(first.random_effects().iloc[:, 3:].astype(float), second.random_effects().iloc[:, 3:].astype(float))
    close(first.loo().elpd, second.loo().elpd)
    columns = ["mean", "share"]
    close(first.variance_components()[columns].dropna(), second.variance_components()[columns].dropna())


CASES = {
    "crossed": ("y ~ x + (1 | s) + (1 | d)", {}),
    "weights": ("y ~ x + (1 | s) + (1 | d)", {"weights": "w"}),
    "penalised": ("y ~ x + (1 | s) + (1 | d)", {"unpenalized": None}),
    "nested": ("y ~ x + (1 | dept/d) + (1 | s)", {}),
    "slopes": ("y ~ x + (1 | s) + (0 + w | d) + (1 | dept)", {}),
    "curve": ("y ~ s(w, k=5) + (1 | s) + (1 | d)", {}),
    "one": ("y ~ x + (1 | s)", {}),
    "no intercept": ("y ~ 0 + x + (1 | s) + (1 | d)", {}),
    "known noise": ("y ~ x + (1 | s) + (1 | d)", {"sigma2": 1.0}),
}


@pytest.mark.parametrize("case", CASES)
def test_given_variances(case, monkeypatch):
    formula, given = CASES[case]
    frame = ratings()
    model = BayesRidge.from_formula(formula, frame, **{"unpenalized": "fixed", **given})
    lam = dict(zip(model.bands.names, [2.0, 5.0, 9.0, 4.0], strict=False))
    first, second = both(formula, frame, monkeypatch, "fixed", {"lam": lam}, **given)
    same_fit(first, second)
    close(first.log_marginal, second.log_marginal)
    close(first.cov_params(), second.cov_params())
    new = frame.head(4).assign(s=[0, 1, 999, 2])
    for rows in (None, new):
        close(first.get_prediction(rows).summary_frame(), second.get_prediction(rows).summary_frame())
        close(first.predict(rows, groups=False), second.predict(rows, groups=False))


@pytest.mark.parametrize("case", ["crossed", "weights", "nested", "penalised"])
def test_restricted_maximum_likelihood(case, monkeypatch):
    formula, given = CASES[case]
    first, second = both(formula, ratings(1), monkeypatch, **given)
    same_fit(first, second)


def test_correlated_slopes_beside(monkeypatch):
    frame = ratings(2).assign(w=lambda each: each["w"] - each["w"].mean())
    frame["y"] += frame["w"] * np.random.default_rng(2).normal(size=D)[frame["d"]]
    first, second = both("y ~ x + (1 | s) + (w | d)", frame, monkeypatch)
    same_fit(first, second)


def test_integrated_variances(monkeypatch):
    frame = ratings(3)
    first, second = both("y ~ x + (1 | s) + (1 | d)", frame, monkeypatch, "exact")
    sd = first.bse.to_numpy()
    assert (np.abs(first.params - second.params) < NODES * sd).all()
    assert (np.abs(first.bse - second.bse) < NODES * sd).all()
    assert (np.abs(first.conf_int() - second.conf_int()).max(axis=1) < NODES * sd).all()
    assert abs(first.log_marginal - second.log_marginal) < NODES
    assert abs(first.loo().elpd - second.loo().elpd) < NODES
    wanted, found = first.variance_components(), second.variance_components()
    for name in ("mean", "lower", "upper"):
        assert (np.abs(wanted[name] - found[name]) < NODES * wanted["sd"]).all()
    drawn = second.sample(4000, rng=0)
    assert (np.abs(drawn.std() / second.bse - 1) < 0.15).all()


THREE = "y ~ x + (1 | s) + (1 | d) + (1 | dept)"


@pytest.mark.parametrize("given", [{}, {"weights": "w"}, {"unpenalized": None}])
def test_what_nodes_have_in_common(given, few, monkeypatch):
    model = BayesRidge.from_formula(THREE, ratings(12), **{"unpenalized": "fixed", **given})
    design, products = model._build()
    system = mixed_problem(design, products, model.bands).system
    if len(system.terms.bands) != 3:
        assert Split.of(system, 0) is None
        return
    split = Split.of(system, 0)
    heads, rows = Heads(split), system.rows(design, np.zeros((design.block.k, design.p)), np.eye(design.block.k))
    rng = np.random.default_rng(12)
    for root in np.exp(rng.normal(size=(4, 3))) * [
        [1.0, 1.0, 0.0],
        [1.0, 1.0, 1.0],
        [1e-3, 30.0, 1.0],
        [9.0, 0.1, 5.0],
    ]:
        factors = tuple(np.full((1, 1), each) for each in root)
        plain, found = system.at(factors, 0), heads.at(factors)
        assert found.log_determinant == pytest.approx(plain.log_determinant, rel=SAME)
        assert found.left == pytest.approx(plain.left, rel=SAME)
        close(plain.mean, found.mean)
        head = Head.of(split, *split.of_head(factors), keep=True)
        variances = head.variances(tuple(each[None] for each in factors), np.array([0]), rows)[0]
        close(np.concatenate([plain.coefficient_variances(), plain.row_variances(rows)]), variances)
    assert len(heads.known) == 4
    monkeypatch.setattr(shared, "MOST_HELD", 1)
    again = tuple(np.full((1, 1), each) for each in (0.5, 0.7, 1.0))
    close(system.at(again, 0).mean, heads.at(again).mean)
    assert len(heads.known) == 1


def by_grid(frame):
    """Posterior means and standard deviations of the sds of s, d and dept, on a grid of logs of their variances."""
    z = np.column_stack([np.ones(len(frame)), frame["x"] - frame["x"].mean()])
    q = np.linalg.qr(z)[0]
    columns = [np.eye(int(frame[name].max()) + 1)[frame[name]] for name in ("s", "d", "dept")]
    x = np.hstack(columns)
    x, y = x - q @ (q.T @ x), frame["y"] - q @ (q.T @ frame["y"])
    last = np.cumsum([each.shape[1] for each in columns])[:-1]
    size, nu = [(part**2).sum() / len(x) for part in np.split(x, last, axis=1)], len(x) - 2
    e, b = x[:, : columns[0].shape[1]], x[:, columns[0].shape[1] :]
    values, vectors = np.linalg.eigh(e.T @ e)
    cross, on_e = vectors.T @ (e.T @ b), vectors.T @ (e.T @ y)
    d, dept = columns[1].shape[1], columns[2].shape[1]
    out = []
    for first in np.linspace(-2.2, 0.4, 27):
        shrunk = np.exp(first) / (1 + np.exp(first) * values)
        f = b.T @ b - (cross.T * shrunk) @ cross
        right, yy = b.T @ y - cross.T @ (shrunk * on_e), y @ y - shrunk @ on_e**2
        for second in np.linspace(-3.2, 1.2, 30):
            third = np.linspace(-14.0, 9.0, 93)
            root = np.hstack(
                [np.full((third.size, d), np.exp(second / 2)), np.tile(np.exp(third / 2)[:, None], dept)]
            )
            s = root[:, :, None] * f * root[:, None, :] + np.eye(len(f))
            u = np.linalg.solve(s, (root * right)[..., None])[..., 0]
            left = yy - (u * root) @ right
            w = np.exp([np.full(third.size, first), np.full(third.size, second), third]).T * size
            log_p = -0.5 * (np.linalg.slogdet(s)[1] + np.log1p(np.exp(first) * values).sum() + nu * np.log(left))
            log_p += 0.5 * np.log(w).sum(axis=1) - np.log(w.sum(axis=1)) - np.log1p(w.sum(axis=1))
            out.append(np.column_stack([log_p, left, w / size]))
    log_p, left, *t = np.vstack(out).T
    weight = np.exp(log_p - logsumexp(log_p))
    root = np.exp(gammaln((nu - 1) / 2) - gammaln(nu / 2)) * np.sqrt(left / 2)
    mean = np.array([weight @ (np.sqrt(each) * root) for each in t])
    return mean, np.sqrt(np.array([weight @ (each * left / (nu - 2)) for each in t]) - mean**2)


def test_three_variances_one_of_them_of_few_levels(few):
    frame = ratings(0, 1000, 100, 24)
    res = BayesRidge.from_formula(THREE, frame, unpenalized="fixed").fit()
    assert res.converged
    assert res.band_fit.coordinates[0].apart
    mean, sd = by_grid(frame)
    found = res.variance_components()
    assert (np.abs(found["mean"] - mean) < NODES * sd).all()
    assert (np.abs(found["sd"] - sd) < TAILS * sd).all()


@pytest.mark.parametrize("parameterization", ["tau2", "tau"])
def test_posterior_mode(parameterization, monkeypatch):
    options = {"parameterization": parameterization}
    same_fit(*both("y ~ x + (1 | s) + (1 | d)", ratings(1), monkeypatch, "em", options))


def test_a_mode_without_variances(monkeypatch):
    frame = ratings(1).assign(y=np.random.default_rng(3).normal(size=N))
    with pytest.warns(DegenerateFitWarning):
        first, second = both("y ~ x + (1 | s) + (1 | d)", frame, monkeypatch, "em")
    assert (second.variance_components()["mean"] == 0).all()
    close(first.sigma2, second.sigma2)


def test_weighted_points_equal_a_lattice(monkeypatch):
    frame = ratings(3)
    monkeypatch.setattr(of_formula, "MANY_LEVELS", 10)
    model = BayesRidge.from_formula("y ~ x + (1 | s) + (1 | d)", frame, unpenalized="fixed")
    first = model.fit()
    monkeypatch.setattr(mixed, "MOST_DIMENSIONS", 1)
    second = model.fit(tol=2e-4)
    assert second.converged
    assert isinstance(second.band_fit.lattices[0], SampledPoints)
    assert abs(first.log_marginal - second.log_marginal) < POINTS
    assert (np.abs(first.params - second.params) < POINTS * first.bse).all()
    wanted, found = first.variance_components(), second.variance_components()
    for name in ("mean", "lower", "upper"):
        assert (np.abs(wanted[name] - found[name]) < POINTS * wanted["sd"]).all()


def test_weighted_points_of_correlated_effects_equal_a_lattice(monkeypatch):
    frame = ratings(2).assign(w=lambda each: each["w"] - each["w"].mean())
    model = BayesRidge.from_formula("y ~ x + (w | d)", frame, unpenalized="fixed")
    first = model.fit()
    monkeypatch.setattr(mixed, "MOST_DIMENSIONS", 1)
    second = model.fit()
    assert abs(first.log_marginal - second.log_marginal) < POINTS
    wanted, found = first.variance_components(), second.variance_components()
    assert (np.abs(wanted["mean"] - found["mean"]) < POINTS * wanted["sd"]).all()


def test_the_fit_gives_all_intervals(few, monkeypatch):
    res = BayesRidge.from_formula("y ~ x + (1 | s) + (1 | d)", ratings(3), unpenalized="fixed").fit()
    wanted = res.posterior.covariance()
    solved, known = [], Eliminated.at
    monkeypatch.setattr(Eliminated, "at", lambda *args: solved.append(1) or known(*args))
    close(res.bse.to_numpy() ** 2, np.diag(wanted))
    res.conf_int()
    res.random_effects()
    assert not solved  # fit() has found all conditional variances


def test_more_columns_than_rows(monkeypatch):
    frame = ratings(4, n=60, s=50, d=30)
    same_fit(*both("y ~ x + (1 | s) + (1 | d)", frame, monkeypatch, "fixed", {"lam": [1.0, 2.0]}))


def test_perfectly_confounded_factors(monkeypatch):
    frame = ratings(5).assign(d=lambda each: each["s"] + 100)
    same_fit(*both("y ~ x + (1 | s) + (1 | d)", frame, monkeypatch, "fixed", {"lam": [1.0, 2.0]}))


def test_variance_zero(monkeypatch):
    frame = ratings(6)
    rng = np.random.default_rng(6)
    frame["y"] = rng.normal(size=N)
    # Each level has the same mean, so that the variance of its effects is zero.
    frame["y"] -= frame.groupby("s")["y"].transform("mean")
    with pytest.warns(DegenerateFitWarning):
        first, second = both("y ~ (1 | s)", frame, monkeypatch)
    assert second.variance_components().loc["s", "mean"] == 0
    close(first.params, second.params)
    assert any("zero" in note for note in second.notes)


def test_missing_levels_and_rows(monkeypatch):
    frame = ratings(7)
    frame["s"] = frame["s"].astype("object")
    frame.loc[[5, 6], "s"] = None
    first, second = both("y ~ x + (1 | s) + (1 | d)", frame, monkeypatch, "fixed", {"lam": [1.0, 2.0]})
    same_fit(first, second)
    rows = frame.iloc[4:7]
    close(first.get_prediction(rows).summary_frame(), second.get_prediction(rows).summary_frame())
    gone = frame.head(3).assign(x=[np.nan, 1e3, 1e3])
    assert np.isnan(second.predict(gone)).tolist() == [True, False, False]


def test_several_responses(monkeypatch):
    frame = ratings(8)
    frame["z"] = np.random.default_rng(8).normal(size=N)
    first, second = both("y + z ~ x + (1 | s) + (1 | d)", frame, monkeypatch, "fixed", {"lam": [1.0, 2.0]})
    close(first.params, second.params)
    close(first.bse, second.bse)


def test_files(few):
    frame = ratings(9)
    res = BayesRidge.from_formula("y ~ x + (1 | s) + (1 | d)", frame, unpenalized="fixed").fit("reml")
    with tempfile.TemporaryDirectory() as folder:
        for remove in (False, True):
            path = Path(folder) / "fit"
            res.save(path, remove_data=remove)
            again = load(path)
            close(
                res.get_prediction(frame.head(3)).summary_frame(), again.get_prediction(frame.head(3)).summary_frame()
            )
            close(res.bse, again.bse)


@pytest.mark.parametrize("formula", ["y ~ x + (1 | s)", "y ~ x + (1 | s) + (1 | d)"])
def test_files_of_integrated_variances(formula, few, tmp_path):
    """Whose variances are solved for again after loading; with as many levels in both factors, too."""
    frame = ratings(9, s=D)
    res = BayesRidge.from_formula(formula, frame, weights="w").fit(tol=0.1)
    res.save(tmp_path / "fit")
    again = load(tmp_path / "fit")
    close(res.conf_int(), again.conf_int())
    close(res.loo().elpd, again.loo().elpd)
    close(res.random_effects()["upper"], again.random_effects()["upper"])


def test_constant_column_beside(few):
    """It has no coefficient, and the others are what they are without it."""
    frame = ratings(9).assign(one=3.0)
    with_it = BayesRidge.from_formula("y ~ x + one + (1 | s)", frame).fit("reml")
    without = BayesRidge.from_formula("y ~ x + (1 | s)", frame).fit("reml")
    assert abs(with_it.params["one"]) <= 0.0
    close(without.params, with_it.params[without.params.index])
    close(without.bse, with_it.bse[without.params.index])


@pytest.mark.parametrize("unit", [1e-200, 1e200])
def test_units_of_a_column_beside(unit, few):
    """Its square is not computed, nor that of its standard deviation."""
    frame = ratings(9)
    wanted, found = (
        BayesRidge.from_formula("y ~ x + (1 | s)", frame.assign(x=factor * frame["x"])).fit("reml")
        for factor in (1.0, unit)
    )
    close(wanted.params["x"], found.params["x"] * unit)
    close(wanted.variance_components()["mean"], found.variance_components()["mean"])


def test_derivatives_of_the_likelihood(few):
    frame = ratings(10).assign(w=lambda each: each["w"] - each["w"].mean())
    model = BayesRidge.from_formula("y ~ x + (1 | s) + (w | d) + (1 | dept)", frame, unpenalized="fixed")
    design, products = model._build()
    problem = mixed_problem(design, products, model.bands)
    sparse_system = problem.system
    terms = sparse_system.terms
    dense = System.of(replace(problem.design, x=design.x), list(terms.bands), list(terms.columns))
    rng = np.random.default_rng(10)
    for scale in (1e-6, 1e-2, 1.0, 30.0):
        factors = tuple(scale * np.tril(rng.normal(size=(len(each), len(each)))) for each in terms.bands)
        first, second = dense.at(factors, 0), sparse_system.at(factors, 0)
        assert second.log_determinant == pytest.approx(first.log_determinant, rel=SAME, abs=1e-12)
        close(first.trace, second.trace)
        close(first.coefficient_variances(), second.coefficient_variances())
        for one, other in zip(first.sensitivities(100.0), second.sensitivities(100.0), strict=True):
            close(one, other)


def test_refusals(few):
    frame = ratings(11)
    nine = frame.assign(**{f"g{j}": np.arange(N) % (j + 2) for j in range(8)})
    formula = "y ~ (1 | s) + " + " + ".join(f"(1 | g{j})" for j in range(8))
    with pytest.raises(ValueError, match="integrates over the penalties of at most 8 bands"):
        BayesRidge.from_formula(formula, nine).fit()
    exact = frame.assign(y=frame["d"].astype(float))
    with pytest.raises(ValueError, match="exactly"):
        BayesRidge.from_formula("y ~ (1 | s) + (1 | d)", exact).fit("reml")


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("share", [0.0, 0.03, 1.0])
def test_products_of_a_sparse_table(compiled, share, monkeypatch):
    if not compiled:
        monkeypatch.setattr(eliminated, "built", lambda: None)
    table = sparse.random(50, 70, density=share, format="csr", random_state=1)
    table.sort_indices()
    rng = np.random.default_rng(0)
    weight, u = rng.random(50), rng.normal(size=(70, 70))
    u += u.T
    for given in (table, table[:, ::-1]):
        rows = given.toarray()
        close(rows.T @ (weight[:, None] * rows), eliminated.sparse_square(given, weight))
        close(np.einsum("si,ij,sj->s", rows, u, rows), eliminated.sparse_forms(given, u))


def test_products_of_a_table_with_columns_in_disorder():
    table = sparse.csr_matrix((np.array([1.0, 2.0, 3.0]), np.array([2, 0, 0]), np.array([0, 2, 3])), shape=(2, 3))
    assert not table.has_sorted_indices
    rows = table.toarray()
    np.testing.assert_array_equal(rows.T @ rows, eliminated.sparse_square(table, np.ones(2)))


@pytest.mark.parametrize("many", [10, 10_000])
def test_penalties_that_are_too_far_apart(many, monkeypatch):
    monkeypatch.setattr(of_formula, "MANY_LEVELS", many)
    frame = ratings(4).assign(x=lambda each: 1e8 * (each["x"] - 1e3))
    model = BayesRidge.from_formula("y ~ x + (1 | s) + (0 + x | d)", frame, unpenalized="fixed")
    with pytest.raises(ValueError, match=r"band 's' has less than 1e-12 times the prior variance of band 'x\|d'"):
        model.fit("fixed", lam={"s": 2.0, "x|d": 3.0})
    assert model.fit("fixed", lam={"s": 2.0, "x|d": 3e16}).bse.gt(0).all()


def test_plain_factors_beside_that_take_too_much_memory_are_refused(few, monkeypatch):
    monkeypatch.setattr(of_formula, "MOST_ELEMENTS", 3_000)
    with pytest.raises(ValueError, match=r"the 14 columns of 300 rows that are of no group .* \(1 \| g\)"):
        BayesRidge.from_formula("y ~ C(d) + (1 | s)", ratings())
    assert BayesRidge.from_formula("y ~ x + (1 | s)", ratings()).fit("reml").converged
