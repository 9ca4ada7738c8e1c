"""Moments: against exact arithmetic, and both models fitted from them against the fit from rows."""

import math
import pickle
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from pybayesridge import BayesRidge, DegenerateFitWarning, Moments, PrecisionWarning, SpikeSlab
from tests.effort import share
from tests.problems import regression

EXACT = 4e-15
"""Sums of some hundred products beside exact ones."""

SAME = 1e-10
"""A fit from moments beside the fit from rows, columns well conditioned; relative to the largest entry."""

SAME_SELECTION = 1e-9
"""The same of EP, whose iterations multiply rounding errors."""


def close(actual, wanted, tolerance=SAME):
    actual, wanted = np.asarray(actual, dtype=float), np.asarray(wanted, dtype=float)
    finite = np.isfinite(wanted)
    assert (np.isfinite(actual) == finite).all()
    size = np.abs(wanted[finite]).max(initial=1e-300)
    np.testing.assert_allclose(actual[finite], wanted[finite], rtol=0, atol=tolerance * size)


def batches(y, x, w=None, size=17):
    for i in range(0, len(y), size):
        rows = slice(i, i + size)
        yield (y[rows], x[rows]) if w is None else (y[rows], x[rows], w[rows])


def exact_cross(a, b, w):
    """Weighted sum of products of deviations from the weighted means, in rational arithmetic."""
    a, b, w = ([Fraction(float(v)) for v in column] for column in (a, b, w))
    total = sum(w)
    mean_a = sum(u * v for u, v in zip(w, a, strict=True)) / total
    mean_b = sum(u * v for u, v in zip(w, b, strict=True)) / total
    return float(sum(u * (s - mean_a) * (t - mean_b) for u, s, t in zip(w, a, b, strict=True)))


@pytest.mark.parametrize("shift", [0.0, 1e8])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("drift", [0.0, 1e3])
def test_cross_products_are_exact_even_with_large_means(shift, weighted, drift):
    rng = np.random.default_rng(3)
    n = 200
    x = rng.standard_normal((n, 3)) + shift * np.array([1.0, -1.0, 0.5]) + drift * np.arange(n)[:, None] / n
    y = rng.standard_normal(n) + shift
    w = rng.uniform(0.1, 9.0, n) if weighted else np.ones(n)
    m = Moments.from_batches(batches(y, x, w if weighted else None))
    assert m.n == n
    assert m.weight_sum == pytest.approx(math.fsum(w), rel=EXACT)
    assert m.log_weight_sum == pytest.approx(math.fsum(np.log(w)), rel=EXACT, abs=EXACT)
    size = [math.sqrt(exact_cross(x[:, i], x[:, i], w)) for i in range(3)]
    for i in range(3):
        for j in range(3):
            assert abs(m.xx[i, j] - exact_cross(x[:, i], x[:, j], w)) <= EXACT * size[i] * size[j]
        y_size = math.sqrt(exact_cross(y, y, w))
        assert abs(m.xy[i, 0] - exact_cross(x[:, i], y, w)) <= EXACT * size[i] * y_size
        mean = math.fsum(w * x[:, i]) / math.fsum(w)
        assert m.x_mean[i] == pytest.approx(mean, rel=EXACT)
    assert m.yy[0] == pytest.approx(exact_cross(y, y, w), rel=EXACT)


def test_merging_in_any_order_is_the_same():
    y, x = regression(120, 4)
    whole = Moments.from_arrays(y, x)
    parts = [Moments.from_arrays(*part) for part in batches(y, x)]
    left = parts[0]
    for part in parts[1:]:
        left = left.merge(part)
    tree = list(reversed(parts))
    while len(tree) > 1:
        tree = [tree[i].merge(tree[i + 1]) if i + 1 < len(tree) else tree[i] for i in range(0, len(tree), 2)]
    grown = parts[0].update(y[17:], x[17:])
    for other in (left, tree[0], grown):
        assert other.n == whole.n
        for name in ("x_mean", "y_mean", "xx", "xy", "yy"):
            close(getattr(other, name), getattr(whole, name), 1e-13)


MODELS = {
    "plain": {},
    "unpenalized": {"unpenalized": [2, 5]},
    "no-intercept": {"intercept": False},
    "no-intercept-unpenalized": {"intercept": False, "unpenalized": [1]},
    "own-scale": {"standardize": False},
    "own-scale-unpenalized": {"standardize": False, "unpenalized": [0]},
    "known-noise": {"sigma2": 2.0},
    "prior": {"prior": (1.0, 2.0)},
}


def numbers(res, rows):
    return {
        "params": res.params,
        "bse": res.bse,
        "covariance": res.cov_params(),
        "intervals": res.conf_int(0.1),
        "rsquared": res.rsquared,
        "df": [res.df_model, res.df_resid, res.nobs],
        "prediction": res.predict(rows),
        "frame": res.get_prediction(rows, weights=np.full(len(rows), 2.0)).summary_frame(),
    }


@pytest.mark.parametrize(("method", "weighted"), [("em", True), ("exact", False)])
@pytest.mark.parametrize("model", MODELS)
def test_ridge_from_moments_is_ridge_from_rows(model, weighted, method):
    y, x = regression(150, 8, noise=0.7)
    w = np.random.default_rng(1).uniform(0.2, 5.0, len(y)) if weighted else None
    rows = BayesRidge(y, x, weights=w, **MODELS[model]).fit(method)
    res = BayesRidge.from_moments(Moments.from_batches(batches(y, x, w)), **MODELS[model]).fit(method)
    assert res.solver == "moments"
    found, wanted = numbers(res, x[:3]), numbers(rows, x[:3])
    for name in wanted:
        close(found[name], wanted[name])
    close(res.lambda_, rows.lambda_)
    close(res.sigma2, rows.sigma2)
    close(res.log_marginal, rows.log_marginal)
    close(res.hyperparameters(), rows.hyperparameters())
    assert res.n_modes == rows.n_modes
    assert list(res.params.index) == list(rows.params.index)
    assert str(res.summary()).replace("moments", "   gram") == str(rows.summary())


@pytest.mark.parametrize("model", share([name for name in MODELS if name not in ("known-noise", "prior")], 2))
def test_selection_from_moments_is_selection_from_rows(model):
    y, x = regression(120, 5, noise=2.0)
    x = np.column_stack([x, np.sin(np.arange(120))])
    w = np.random.default_rng(1).uniform(0.2, 5.0, len(y))
    rows = SpikeSlab(y, x, weights=w, **MODELS[model]).fit()
    res = SpikeSlab.from_moments(Moments.from_batches(batches(y, x, w)), **MODELS[model]).fit()
    found, wanted = numbers(res, x[:3]), numbers(rows, x[:3])
    for name in wanted:
        close(found[name], wanted[name], SAME_SELECTION)
    close(res.inclusion_prob, rows.inclusion_prob, SAME_SELECTION)
    close(res.log_evidence, rows.log_evidence, SAME_SELECTION)
    assert res.median_model() == rows.median_model()


@pytest.mark.parametrize("lam", [10.0])
def test_gcv_needs_no_rows(lam):
    y, x = regression(60, 5)
    grid = np.array([1e-6, 1.0, 1e6]) * lam
    rows, res = (
        m.fit("gcv", grid=grid) for m in (BayesRidge(y, x), BayesRidge.from_moments(Moments.from_arrays(y, x)))
    )
    close(res.grid_scores, rows.grid_scores)
    close(res.params, rows.params)


@pytest.mark.parametrize(("cls", "method"), [(BayesRidge, "exact"), (SpikeSlab, "ep")])
def test_more_columns_than_rows(cls, method):
    y, x = regression(20, 26, noise=0.5)
    rows, res = cls(y, x).fit(method), cls.from_moments(Moments.from_arrays(y, x)).fit(method)
    close(res.params, rows.params, SAME_SELECTION)
    close(res.bse, rows.bse, SAME_SELECTION)
    close(res.cov_params(), rows.cov_params(), SAME_SELECTION)


def test_several_targets_are_fitted_at_once():
    y, x = regression(80, 5)
    y = pd.DataFrame({"a": y, "b": y[::-1] * 2, "c": np.sin(y)})
    moments = Moments.from_arrays(y, x)
    rows, res = BayesRidge(y, x).fit("exact"), BayesRidge.from_moments(moments).fit("exact")
    close(res.params, rows.params)
    close(res.bse, rows.bse)
    close(res.rsquared, rows.rsquared)
    close(res.log_marginal, rows.log_marginal)
    close(res.cov_params("b"), rows.cov_params("b"))
    assert list(res.params.columns) == ["a", "b", "c"]
    one = BayesRidge.from_moments(moments.subset(targets="b")).fit("exact")
    close(one.params, rows.params["b"])
    with pytest.raises(ValueError, match=r"3 targets: this model takes 1; use subset"):
        SpikeSlab.from_moments(moments)


def test_large_means_cost_no_digits():
    y, x = regression(200, 4)
    shift = np.array([1e8, -3e7, 1e6, 0.0]) * x.std(axis=0)
    far = x + shift
    near = far - shift  # what is left of x after it was rounded
    res = BayesRidge.from_moments(Moments.from_batches(batches(y + 1e7, far))).fit()
    wanted = BayesRidge((y + 1e7) - 1e7, near).fit()
    close(res.params.iloc[1:], wanted.params.iloc[1:])
    close(res.bse.iloc[1:], wanted.bse.iloc[1:])


def test_weights_count_by_their_ratios():
    y, x = regression(60, 3)
    w = np.random.default_rng(0).uniform(0.5, 2.0, 60)
    one, other = (BayesRidge.from_moments(Moments.from_arrays(y, x, weights=c * w)).fit("exact") for c in (1.0, 37.0))
    for name in ("params", "bse", "sigma2", "log_marginal", "nobs"):
        close(getattr(other, name), getattr(one, name), 1e-12)


def test_draws_have_the_moments_of_the_posterior():
    y, x = regression(60, 3)
    res = BayesRidge.from_moments(Moments.from_arrays(y, x), unpenalized=[1]).fit("exact")
    draws = res.sample(20_000, rng=0)
    z = (draws.mean() - res.params) / (res.bse / np.sqrt(20_000))
    assert np.abs(z).max() < 4.5
    np.testing.assert_allclose(
        draws.cov(), res.cov_params(), rtol=0.1, atol=0.05 * res.cov_params().abs().max().max()
    )


def test_constants_serve_as_the_intercept_or_get_zero():
    y, x = regression(50, 3)
    x = np.column_stack([x[:, 0], np.ones(50), x[:, 1:], np.full(50, 0.1)])
    moments = Moments.from_batches(batches(y, x))
    assert moments.xx[1, 1] == moments.xx[4, 4] == 0.0
    rows, res = BayesRidge(y, x).fit(), BayesRidge.from_moments(moments).fit()
    close(res.params, rows.params)
    close(res.bse, rows.bse)
    assert len(res.params) == 5
    scaled = BayesRidge.from_moments(Moments.from_arrays(y, np.delete(x, 1, axis=1))).fit()
    wanted = BayesRidge(y, np.delete(x, 1, axis=1)).fit()
    close(scaled.params, wanted.params)
    close(scaled.bse, wanted.bse)


def test_dummies_that_span_the_constant_are_an_intercept():
    y, x = regression(60, 3)
    g = np.eye(3)[np.arange(60) % 3]
    x = np.column_stack([g, x])
    options = {"intercept": False, "unpenalized": [0, 1, 2]}
    rows = BayesRidge(y, x, **options).fit()
    res = BayesRidge.from_moments(Moments.from_arrays(y, x), **options).fit()
    close(res.params, rows.params)
    close(res.bse, rows.bse)
    close([res.df_model, res.rsquared], [rows.df_model, rows.rsquared])


def test_subset_is_the_model_of_fewer_columns():
    y, x = regression(80, 5)
    frame = pd.DataFrame(x, columns=list("abcde"))
    moments = Moments.from_arrays(pd.Series(y, name="out"), frame)
    for wanted in (["d", "b"], [1, 3]):
        res = BayesRidge.from_moments(moments.subset(wanted)).fit()
        rows = BayesRidge(y, frame[["b", "d"]]).fit()
        close(res.params, rows.params)
        assert list(res.params.index) == ["const", "b", "d"]
    assert res.model.endog_names == "out"
    with pytest.raises(ValueError, match=r"columns names 'z', which is not a column of the moments"):
        moments.subset(["z"])


def test_files_hold_everything(tmp_path):
    y, x = regression(40, 3)
    moments = Moments.from_arrays(y, pd.DataFrame(x, columns=["a", "b", "ö"]), weights=np.linspace(1, 2, 40))
    moments.save(tmp_path / "m.npz")
    back = Moments.load(tmp_path / "m.npz")
    for name in ("x_origin", "x_offset", "y_origin", "y_offset", "xx", "xy", "yy"):
        np.testing.assert_array_equal(getattr(back, name), getattr(moments, name))
    for name in ("n", "weight_sum", "log_weight_sum", "columns", "targets", "n_dropped"):
        assert getattr(back, name) == getattr(moments, name)
    with np.load(tmp_path / "m.npz") as stored:
        later = dict(stored) | {"format": np.array(99)}
    np.savez(tmp_path / "later.npz", **later)
    with pytest.raises(ValueError, match=r"format 99, this version reads up to 2: upgrade"):
        Moments.load(tmp_path / "later.npz")
    np.savez(tmp_path / "other.npz", a=np.zeros(2))
    with pytest.raises(ValueError, match="does not hold moments"):
        Moments.load(tmp_path / "other.npz")
    assert pickle.loads(pickle.dumps(moments)).columns == moments.columns
    assert repr(moments) == "Moments(40 rows, 3 columns, target(s) 'y')"


@pytest.mark.parametrize("cls", [BayesRidge, SpikeSlab])
def test_what_needs_rows_says_so(cls, tmp_path):
    y, x = regression(60, 3)
    moments = Moments.from_arrays(y, pd.DataFrame(x, columns=["a", "b", "c"]))
    res = cls.from_moments(moments).fit()
    for name in ("fittedvalues", "resid", *(("loo_residuals", "loo_mse") if cls is BayesRidge else ())):
        with pytest.raises(ValueError, match=r"made from moments, which hold no rows"):
            getattr(res, name)
    with pytest.raises(ValueError, match=r"made from moments.*pass exog"):
        res.get_prediction()
    with pytest.raises(ValueError, match="made from moments"):
        res.predict()
    with pytest.raises(ValueError, match=r"lacks the column\(s\) 'c'"):
        res.predict(pd.DataFrame(x[:2], columns=["a", "b", "d"]))
    if cls is BayesRidge:
        with pytest.raises(ValueError, match=r"'loocv' leaves out one row at a time and moments hold none"):
            cls.from_moments(moments).fit("loocv")
    frame = res.get_prediction(pd.DataFrame(x[:2, ::-1], columns=["c", "b", "a"])).summary_frame()
    res.save(tmp_path / "fit.pickle", remove_data=True)
    back = type(res).load(tmp_path / "fit.pickle")
    pd.testing.assert_frame_equal(
        back.get_prediction(pd.DataFrame(x[:2], columns=["a", "b", "c"])).summary_frame(), frame
    )
    close(back.model.fit().params, res.params)


def test_collinear_unpenalized_columns_are_refused():
    y, x = regression(60, 3)
    x = np.column_stack([x, x[:, 0] + 2 * x[:, 1]])
    moments = Moments.from_arrays(y, x)
    with pytest.raises(ValueError, match=r"unpenalised column\(s\) .* to the accuracy of moments, linear"):
        BayesRidge.from_moments(moments, unpenalized=[0, 1, 3]).fit()
    with pytest.raises(ValueError, match=r"3 unpenalised columns .* for 2 rows"):
        BayesRidge.from_moments(Moments.from_arrays(y[:2], x[:2]), unpenalized=[0, 1]).fit()
    # Penalised, a column in the span of the unpenalised ones has nothing to say.
    rows = BayesRidge(y, x, unpenalized=[0, 1]).fit()
    with pytest.warns(PrecisionWarning, match="not certain|digits"):
        res = BayesRidge.from_moments(moments, unpenalized=[0, 1]).fit()
    close(res.predict(x[:4]), rows.predict(x[:4]), 1e-8)


def test_exactly_collinear_columns_are_penalised_but_have_no_least_squares():
    y, x = regression(200, 4)
    x = np.column_stack([x, x[:, 0] - x[:, 1], x[:, 2]])
    moments = Moments.from_batches(batches(y, x))
    rows = BayesRidge(y, x).fit("exact")
    with pytest.warns(PrecisionWarning, match="not certain"):
        res = BayesRidge.from_moments(moments).fit("exact")
    assert any("not certain" in note for note in res.notes)
    for name in ("params", "bse", "lambda_", "sigma2", "log_marginal"):
        close(getattr(res, name), getattr(rows, name))
    close(res.cov_params(), rows.cov_params())
    with pytest.raises(ValueError, match=r"lam=0 needs columns that are linearly independent"):
        BayesRidge.from_moments(moments).fit("fixed", lam=0)


def test_copies_do_not_make_columns_span_everything():
    y, x = regression(13, 11, noise=0.5)
    x = np.column_stack([x, x[:, 0]])  # 12 columns in as many dimensions, of rank 11
    rows = BayesRidge(y, x).fit("exact")
    with pytest.warns(PrecisionWarning, match="not certain"):
        res = BayesRidge.from_moments(Moments.from_arrays(y, x)).fit("exact")
    for name in ("params", "bse", "sigma2", "log_marginal"):
        close(getattr(res, name), getattr(rows, name))
    y, x = regression(13, 20, noise=0.5)
    y, x = np.r_[y, y[0] + 1.0], x[np.r_[np.arange(13), 0]]  # fewer rows than columns, one of them twice
    rows = BayesRidge(y, x).fit("exact")
    with pytest.warns(PrecisionWarning, match="not certain"):
        res = BayesRidge.from_moments(Moments.from_arrays(y, x)).fit("exact")
    for name in ("params", "bse", "sigma2", "log_marginal"):
        close(getattr(res, name), getattr(rows, name))


def test_degenerate_responses_are_those_of_rows():
    _, x = regression(60, 3)
    with pytest.warns(DegenerateFitWarning, match="fit the response exactly"):
        BayesRidge.from_moments(Moments.from_arrays(np.full(60, 0.3), x)).fit()
    with pytest.warns(DegenerateFitWarning, match=r"least squares without noise \(moments cannot detect"):
        res = BayesRidge.from_moments(Moments.from_arrays(x @ [1.0, 2.0, 3.0], x)).fit()
    close(res.params.iloc[1:], [1.0, 2.0, 3.0], 1e-9)
    noise = np.random.default_rng(4).standard_normal(60)
    noise -= x @ np.linalg.lstsq(np.column_stack([np.ones(60), x]), noise, rcond=None)[0][1:]
    with pytest.warns(DegenerateFitWarning, match="No signal"):
        BayesRidge.from_moments(Moments.from_arrays(noise, x)).fit("em")


def test_missing_rows_are_counted_and_sparse_columns_are_taken():
    y, x = regression(60, 3)
    x[3, 1] = y[7] = np.nan
    keep = np.isfinite(x).all(axis=1) & np.isfinite(y)
    moments = Moments.from_batches(batches(y, x), missing="drop")
    assert (moments.n, moments.n_dropped) == (58, 2)
    res = BayesRidge.from_moments(moments).fit()
    close(res.params, BayesRidge(y[keep], x[keep]).fit().params)
    assert any("2 row(s)" in note for note in res.notes)
    close(Moments.from_arrays(y[keep], sparse.csr_array(x[keep])).xx, moments.xx, 1e-12)
    with pytest.raises(ValueError, match=r"batch 0: .* missing or not finite"):
        Moments.from_batches(batches(y, x))


@pytest.mark.parametrize("intercept", [True, "add"])
def test_an_intercept_beside_a_constant_column(intercept):
    y, x = regression(50, 3)
    x = pd.DataFrame(np.c_[np.full(50, 2.0), x], columns=["one", "a", "b", "c"])
    wanted = BayesRidge(y, x, intercept=intercept).fit()
    found = BayesRidge.from_moments(Moments.from_arrays(y, x), intercept=intercept).fit()
    assert list(found.params.index) == list(wanted.params.index)
    assert ("const" in found.params.index) == (intercept == "add")
    close(found.params, wanted.params)
    close(found.bse, wanted.bse)
