"""Whole groups left out: ``loo(by=)`` beside closed forms of the evidence of all rows and of the other ones."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import gammaln, logsumexp
from scipy.stats import multivariate_normal, multivariate_t

import pybayesridge.formula.bands as of_formula
from pybayesridge import BayesRidge, PrecisionWarning, SpikeSlab, compare_loo, load
from pybayesridge.ridge.groups_left_out import block_of, block_of_columns, block_of_ridges

EQUAL = 1e-8
"""Difference of log densities at given penalties."""

INTEGRATED = 2e-4
"""Difference of log densities whose penalties are integrated over, 10 times the largest that was seen."""

NODES = 0.05
"""Difference of log densities by two lattices."""

N = 60


def rows(seed=0, levels=5, n=N):
    rng = np.random.default_rng(seed)
    g = np.r_[np.arange(levels), rng.integers(levels, size=n - levels)]
    h = np.r_[np.arange(6), rng.integers(6, size=n - 6)]
    x, w = rng.normal(size=n), rng.gamma(3.0, size=n)
    y = 1 + 0.5 * x + rng.normal(size=levels)[g] + 0.5 * rng.normal(size=6)[h] + rng.normal(size=n)
    names = np.array(list("abcdefghij"))
    return pd.DataFrame({"x": x, "y": y, "g": names[g], "h": h, "w": w / w.mean()})


def dummies(frame, name):
    return (frame[name].to_numpy()[:, None] == np.unique(frame[name])).astype(float)


def log_evidence(frame, columns, sizes, step=0.5):
    """Log of the integral over all variances of the penalised columns, from a grid of their logs."""
    n, count = len(frame), len(columns)
    root = np.sqrt(frame["w"].to_numpy())[:, None]
    z = root * np.column_stack([np.ones(n), frame["x"]])
    out = np.linalg.qr(z, mode="complete")[0][:, 2:].T
    y = out @ (root[:, 0] * frame["y"].to_numpy())
    grams = [out @ (root * x) for x in columns]
    grams = [x @ x.T for x in grams]
    points = np.stack(np.meshgrid(*[np.arange(-30.0, 22.0, step)] * count, indexing="ij"), axis=-1).reshape(-1, count)
    v = np.eye(n - 2) + np.einsum("pk,kij->pij", np.exp(points), np.array(grams))
    nu = n - 2
    rss = (y * np.linalg.solve(v, np.broadcast_to(y, (len(v), nu))[..., None])[..., 0]).sum(axis=1)
    width = np.exp(points) * sizes
    total = width.sum(axis=1)
    logs = -0.5 * np.linalg.slogdet(v)[1] - 0.5 * np.linalg.slogdet(z.T @ z)[1] + gammaln(nu / 2)
    logs += -nu / 2 * np.log(np.pi * rss) + 0.5 * np.log(frame["w"]).sum()
    logs += 0.5 * np.log(total) - np.log1p(total) + 0.5 * np.log(width / total[:, None]).sum(axis=1)
    return logsumexp(logs)


def sizes_of(frame, columns):
    root = np.sqrt(frame["w"].to_numpy())[:, None]
    q = np.linalg.qr(root * np.column_stack([np.ones(len(frame)), frame["x"]]))[0]
    return np.array([((root * x - q @ (q.T @ (root * x))) ** 2).sum() / len(frame) for x in columns])


@pytest.mark.parametrize("names", ["g", "gh"])
def test_groups_with_their_variances_integrated_out(names):
    """The effect of a group that is left out is one of a new group."""
    frame = rows()
    formula = "y ~ x + " + " + ".join(f"(1 | {name})" for name in names)
    score = BayesRidge.from_formula(formula, frame, weights="w", unpenalized="fixed").fit().loo(by="g")
    columns = [dummies(frame, name) for name in names]
    sizes = sizes_of(frame, columns)
    whole = log_evidence(frame, columns, sizes)
    assert score.pointwise.index.tolist() == list("abcde")
    for level in "ce":
        keep = (frame["g"] != level).to_numpy()
        wanted = whole - log_evidence(frame[keep], [x[keep] for x in columns], sizes)
        assert abs(score.pointwise[level] - wanted) < INTEGRATED
    assert score.overlap.between(1e-4, 1).all()


@pytest.mark.parametrize("formula", ["y ~ x", "y ~ x + (1 | g)", "y ~ x + (1 | g) + (1 | h)", "y ~ x + (x | g)"])
@pytest.mark.parametrize("method", ["exact", "reml", "em"])
def test_groups_of_one_row_are_rows(formula, method):
    if (method == "reml" and "|" not in formula) or (method == "em" and "(x" in formula):
        pytest.skip("there is no such method")
    frame = rows()
    res = BayesRidge.from_formula(formula, frame, weights="w").fit(method, **tolerance(method, formula))
    one, groups = res.loo(), res.loo(by=np.arange(N))
    np.testing.assert_allclose(groups.pointwise, one.pointwise, atol=EQUAL)
    np.testing.assert_allclose(groups.within, one.within, atol=EQUAL)
    np.testing.assert_allclose(groups.predicted, one.predicted, atol=EQUAL)
    np.testing.assert_allclose(groups.summary(), one.summary(), atol=N * EQUAL)


def tolerance(method, formula):
    return {"tol": 0.1} if method == "exact" and "|" in formula else {}


@pytest.mark.parametrize("known", [None, 1.3])
@pytest.mark.parametrize("p", [2, 30, 90])
def test_given_penalties_against_normal_equations(known, p):
    """Also where groups have more rows than there are columns, and columns than there are rows."""
    rng = np.random.default_rng(p)
    x, by = rng.normal(size=(N, p)), rng.integers(3, size=N)
    y, w = pd.DataFrame(rng.normal(size=(N, 2)), columns=["u", "v"]), rng.gamma(3.0, size=N)
    w /= w.mean()
    res = BayesRidge(y, x, weights=w, standardize=False, sigma2=known).fit("fixed", lam=0.4)
    score = res.loo(target="v", by=by)
    for level in range(3):
        here, others = by == level, by != level
        z = np.ones((others.sum(), 1))
        precision = np.diag(np.r_[0.0, np.full(p, 0.4)]) + np.c_[z, x[others]].T @ (
            w[others, None] * np.c_[z, x[others]]
        )
        b = np.linalg.solve(precision, np.c_[z, x[others]].T @ (w[others] * y["v"][others]))
        new = np.c_[np.ones(here.sum()), x[here]]
        shape = np.diag(1 / w[here]) + new @ np.linalg.solve(precision, new.T)
        rest = y["v"][others] - np.c_[z, x[others]] @ b
        df = others.sum() - 1
        rss = w[others] @ rest**2 + 0.4 * b[1:] @ b[1:]
        law = multivariate_normal(new @ b, known * shape) if known else multivariate_t(new @ b, rss / df * shape, df)
        assert score.pointwise[level] == pytest.approx(law.logpdf(y["v"][here]), abs=EQUAL)
        np.testing.assert_allclose(score.predicted[here], new @ b, atol=EQUAL)
    assert score.pointwise.name == "v"


@pytest.mark.parametrize("formula", ["y ~ x + (x | g)", "y ~ x + (1 | h) + (1 | g)"])
@pytest.mark.parametrize("many", [4, 500])
@pytest.mark.filterwarnings("ignore:.*estimated to be:pybayesridge.DegenerateFitWarning")
def test_groups_at_estimated_variances(formula, many, monkeypatch):
    """By restricted maximum likelihood, variances and noise stay as they are: densities of a normal distribution."""
    monkeypatch.setattr(of_formula, "MANY_LEVELS", many)
    frame = rows(seed=3)
    res = BayesRidge.from_formula(formula, frame, weights="w", unpenalized="fixed").fit("reml")
    score = res.loo(by="g")
    variance = np.zeros((N, N))
    posterior, design = res.posterior, res.posterior.design
    if hasattr(posterior, "system"):
        terms, nodes = posterior.system.terms, posterior.nodes[0]
        x = design.x if isinstance(design.x, np.ndarray) else design.x.toarray()
        x = x[:, design.columns] / design.scale
        a = terms.times_factors(x, nodes.factors_at(0))
        variance = a @ a.T
    else:
        table = res.variance_components()
        for name in ("h", "g"):
            x = dummies(frame, name)
            variance += table.loc[name, "mean"] ** 2 / res.sigma2 * x @ x.T
    variance = float(res.sigma2) * (variance + np.diag(1 / frame["w"]))
    z, y = np.column_stack([np.ones(N), frame["x"]]), frame["y"].to_numpy()
    for level in "be":
        here, others = np.flatnonzero(frame["g"] == level), np.flatnonzero(frame["g"] != level)
        inverse = np.linalg.inv(variance[np.ix_(others, others)])
        cross = variance[np.ix_(here, others)] @ inverse
        free = np.linalg.inv(z[others].T @ inverse @ z[others])
        b = free @ z[others].T @ inverse @ y[others]
        left = z[here] - cross @ z[others]
        shape = variance[np.ix_(here, here)] - cross @ variance[np.ix_(others, here)] + left @ free @ left.T
        mean = z[here] @ b + cross @ (y[others] - z[others] @ b)
        assert score.pointwise[level] == pytest.approx(multivariate_normal(mean, shape).logpdf(y[here]), abs=1e-6)


def test_very_many_levels_as_dense_ones(monkeypatch):
    frame = rows(seed=4)
    found = []
    for many in (500, 4):
        monkeypatch.setattr(of_formula, "MANY_LEVELS", many)
        model = BayesRidge.from_formula("y ~ x + (1 | g) + (1 | h)", frame, weights="w", unpenalized="fixed")
        found.append(model.fit().loo(by="h"))
    np.testing.assert_allclose(found[0].pointwise, found[1].pointwise, atol=NODES)
    np.testing.assert_allclose(found[0].predicted, found[1].predicted, atol=NODES)


def test_blocks_of_rows_in_other_coordinates():
    rng = np.random.default_rng(5)
    q = np.linalg.qr(rng.normal(size=(40, 6)))[0]
    y, f = rng.normal(size=40), np.array([[1e-14, 1e-9, 0.2, 0.9]])
    own, rest = q[:, 2:], y - q @ (q.T @ y)
    hat = q[:, :2] @ q[:, :2].T + (1 - f) * own @ own.T
    at = np.arange(15)
    wide = block_of_ridges(q[None, at, :2], own[None, at], rest[None, at], f, own.T @ y, saturated=False)
    residual = (y - hat @ y)[None, at]
    plain = block_of(np.eye(15)[None] - hat[None, :15, :15], residual)
    columns = block_of_columns(np.c_[q[at, :2], own[at] * np.sqrt(1 - f)][None], residual)
    for other in (plain, columns):
        for name in ("log_det", "quadratic", "error", "log_det_within", "quadratic_within"):
            np.testing.assert_allclose(getattr(wide, name), getattr(other, name), rtol=EQUAL)


def test_a_group_that_no_other_is_like():
    frame = rows(seed=2, levels=4)
    frame.loc[frame["g"] == "b", "y"] += 60
    res = BayesRidge.from_formula("y ~ x + (1 | g)", frame, unpenalized="fixed").fit()
    with pytest.warns(PrecisionWarning, match="without each of 1 group"):
        score = res.loo(by="g")
    assert score.in_doubt == ["b"]


def test_labels_and_files(tmp_path):
    frame = rows()
    frame.loc[3, "x"] = np.nan
    res = BayesRidge.from_formula("y ~ x + (1 | g)", frame).fit()
    score = res.loo(by="g")
    assert len(score.groups) == N - 1
    np.testing.assert_array_equal(score.pointwise, res.loo(by=frame["g"]).pointwise)
    np.testing.assert_array_equal(score.pointwise, res.loo(by=frame["g"].drop(index=3).tolist()).pointwise)
    res.save(tmp_path / "fit")
    np.testing.assert_allclose(load(tmp_path / "fit").loo(by="g").pointwise, score.pointwise, atol=EQUAL)
    both = BayesRidge.from_formula("y ~ x + (1 | g) + (1 | g:h)", frame).fit(tol=0.1).loo(by="g:h")
    assert ("a", 0) in both.pointwise.index.tolist()
    assert "left out in turn" in str(score)


def test_comparison_by_groups():
    frame = rows(seed=7)
    fits = {"groups": BayesRidge.from_formula("y ~ x + (1 | g)", frame).fit()}
    fits["none"] = BayesRidge.from_formula("y ~ x", frame).fit()
    table = compare_loo(fits, by=frame["g"])
    scores = {name: fit.loo(by=frame["g"]) for name, fit in fits.items()}
    pd.testing.assert_frame_equal(table, compare_loo(scores))
    assert table.loc["none", "elpd"] == pytest.approx(scores["none"].elpd)
    with pytest.raises(ValueError, match="different groups"):
        compare_loo([scores["none"], fits["none"].loo(by=frame["h"])])
    with pytest.raises(ValueError, match="not scores of groups"):
        compare_loo([scores["none"], fits["none"].loo()])
    with pytest.raises(ValueError, match="leave out by"):
        compare_loo(scores, by="g")
    other = BayesRidge.from_formula("y ~ x", frame.assign(y=frame["y"] + 1.0)).fit()
    with pytest.raises(ValueError, match="different responses"):
        compare_loo([scores["none"], other.loo(by=frame["g"])])


def test_what_cannot_be_left_out(monkeypatch):
    frame = rows()
    res = BayesRidge.from_formula("y ~ x + (1 | g)", frame).fit()
    for by, message in [
        ("h", "does not read"),
        (np.zeros(N), "single group"),
        (np.arange(N - 1), "59 labels for the 60 rows"),
        (pd.Series(range(N), index=range(1, N + 1)), "row labels"),
        ([None, *range(N - 1)], "no label for row"),
        (frame[["g"]], "label for each row"),
        (3, "label for each row"),
    ]:
        with pytest.raises(ValueError, match=message):
            res.loo(by=by)
    with pytest.raises(ValueError, match="keeps none"):
        BayesRidge(frame["y"], frame[["x"]]).fit().loo(by="x")
    fixed = BayesRidge.from_formula("y ~ x + C(g)", frame, unpenalized=["C(g)"]).fit()
    with pytest.raises(ValueError, match=r"group 'a' has no leave-one-out density.*unpenalised"):
        fixed.loo(by="g")
    small = BayesRidge(frame["y"][:8], frame[["x"]][:8]).fit()
    with pytest.raises(ValueError, match="degrees of freedom"):
        small.loo(by=[0] * 7 + [1])
    with pytest.raises(ValueError, match="is for BayesRidge"):
        SpikeSlab.from_formula("y ~ x", frame).fit("exact").loo(by=frame["g"])
    monkeypatch.setattr(of_formula, "MANY_LEVELS", 4)
    monkeypatch.setattr("pybayesridge.bands.mixed_posterior.SPLIT_ROWS", 5)
    large = BayesRidge.from_formula("y ~ x + (1 | g)", frame).fit("reml")
    with pytest.raises(ValueError, match="predicted together"):
        large.loo(by="g")
