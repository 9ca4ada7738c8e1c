"""Groups, smooth curves and bands in formulas on rows that come in batches: the fits are those of rows in memory."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import pybayesridge.formula.bands as of_formula
from pybayesridge import BayesRidge, Moments, SpikeSlab, load
from pybayesridge.models.sources import BlockData, MomentData
from pybayesridge.streams.blocks import BlockSums

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

SAME = 1e-9
"""Differences, in standard deviations or relative, of fits from rows and from sums of products of these."""

N = 240


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    s = np.where(np.arange(N) < 30, np.arange(N), rng.integers(30, size=N))
    d = rng.integers(12, size=N)
    out = pd.DataFrame(
        {"x": rng.normal(1e3, 1.0, size=N), "s": s, "d": [f"d{i:02}" for i in d], "w": rng.normal(size=N)}
    )
    out["f"] = np.array(["a", "b", "c"])[d % 3]
    out["dept"] = pd.Categorical(np.array(["z", "y", "x"])[d % 3], categories=["z", "y", "x", "none"])
    out["v"] = rng.normal(size=N).round(1)
    out["wt"] = rng.gamma(3.0, size=N)
    out["y"] = 0.3 * out["x"] + np.sin(2 * out["v"]) + rng.normal(size=30)[s] + 0.5 * rng.normal(size=12)[d]
    out["y"] += rng.normal(size=N) + out["w"] * rng.normal(size=12)[d]
    out.loc[[3, 8], "v"] = np.nan
    return out


@pytest.fixture(params=[10_000, 10], ids=["few", "many"])
def many(request, monkeypatch):
    """Whether groups have so many levels that columns stay sparse."""
    monkeypatch.setattr(of_formula, "MANY_LEVELS", request.param)
    return request.param == 10


def table(frame):
    return pa.Table.from_pandas(frame, preserve_index=False)


def from_table(formula, frame, **given):
    options = {"unpenalized": "fixed", "batch_size": 70, "progress": False}
    return BayesRidge.from_arrow(table(frame), formula, **{**options, **given})


def same(first, second, frame):
    assert list(first.params.index) == list(second.params.index)
    assert (np.abs(first.params - second.params) < SAME * first.bse).all()
    np.testing.assert_allclose(second.bse, first.bse, rtol=SAME)
    for name in ("sigma2", "rsquared", "df_model", "nobs"):
        assert getattr(second, name) == pytest.approx(getattr(first, name), rel=SAME)
    columns = ["mean", "share"]
    wanted, found = first.variance_components()[columns], second.variance_components()[columns]
    np.testing.assert_allclose(found, wanted, rtol=1e2 * SAME)
    for new in (frame.head(5), frame.head(3).assign(s=[1, 999, 2])):
        wanted, found = (fit.get_prediction(new).summary_frame() for fit in (first, second))
        np.testing.assert_allclose(found, wanted, rtol=SAME)


FORMULAS = [
    "y ~ x + (1 | s) + (1 | d)",
    "y ~ x + f + (w || d) + (1 | s)",
    "y ~ x + s(v, k=5) + (1 | s)",
    "y ~ f + s(v, k=4, by=f) + (1 | s)",
    "y ~ s(v, k=4, by=w) + (1 | s)",
    'y ~ x + band(w, scale(v), name="two") + (1 | dept/d) + (1 | s)',
    "y ~ 0 + x + (0 + scale(w) | s) + (1 | d)",
]


@pytest.mark.parametrize("weights", [None, "wt"])
@pytest.mark.parametrize("formula", FORMULAS)
def test_given_variances(formula, weights, frame, many):
    model = from_table(formula, frame, weights=weights)
    assert isinstance(model.source, BlockData if many and "| s)" in formula else MomentData)
    rows = BayesRidge.from_formula(formula, frame, unpenalized="fixed", weights=weights)
    lam = np.arange(2.0, 2.0 + len(model.bands.names))
    same(rows.fit("fixed", lam=lam), model.fit("fixed", lam=lam), frame)


def test_correlated_slopes(frame, many):
    formula = "y ~ x + (w | d) + (1 | s)"
    rows = BayesRidge.from_formula(formula, frame, unpenalized="fixed").fit("reml")
    same(rows, from_table(formula, frame).fit("reml"), frame)


@pytest.mark.parametrize("method", ["exact", "em", "fixed"])
def test_other_methods(method, frame, many):
    formula = "y ~ x + (1 | s) + (1 | d)"
    options = {"lam": [2.0, 3.0]} if method == "fixed" else {}
    rows = BayesRidge.from_formula(formula, frame, unpenalized="fixed").fit(method, **options)
    res = from_table(formula, frame).fit(method, **options)
    same(rows, res, frame)
    if method != "em":
        assert res.log_marginal == pytest.approx(rows.log_marginal, rel=SAME)
    assert "| s)" in res.model.formula
    assert "s" in res.summary().as_text()


def test_parquet_files_and_saved_fits(frame, many, tmp_path):
    path = tmp_path / "rows.parquet"
    parquet.write_table(table(frame), path, row_group_size=50)
    formula = "y ~ x + s(v, k=4) + (1 | s) + (1 | d)"
    res = BayesRidge.from_parquet(path, formula, unpenalized="fixed", progress=False).fit("reml")
    same(BayesRidge.from_formula(formula, frame, unpenalized="fixed").fit("reml"), res, frame)
    res.save(tmp_path / "fit")
    same(res, load(tmp_path / "fit"), frame)
    assert res.random_effects("s")["level"].tolist() == list(range(30))
    wanted = BayesRidge.from_formula(formula, frame, unpenalized="fixed").fit("reml").smooth(at=[0.0, 1.0])
    np.testing.assert_allclose(res.smooth(at=[0.0, 1.0]), wanted, rtol=1e2 * SAME)
    contrast = res.contrast("x = 0")
    assert np.isfinite(contrast.to_numpy(dtype=float)).all()
    with pytest.raises(ValueError, match="hold no rows"):
        res.loo()


def test_moments_with_bands(frame):
    columns = frame[["x", "w", "wt"]]
    bands = {"first": ["x"], "second": ["w", "wt"]}
    rows = BayesRidge(frame["y"], columns, bands=bands, weights=frame["wt"]).fit()
    res = BayesRidge.from_moments(Moments.from_arrays(frame["y"], columns, weights=frame["wt"]), bands=bands).fit()
    assert (np.abs(rows.params - res.params) < SAME * rows.bse).all()
    np.testing.assert_allclose(res.bse, rows.bse, rtol=SAME)
    np.testing.assert_allclose(res.variance_components(), rows.variance_components(), rtol=1e4 * SAME)


def test_several_responses(frame):
    both = frame.assign(z=frame["w"] + np.arange(N) % 7)
    formula = "y + z ~ x + (1 | s)"
    rows = BayesRidge.from_formula(formula, both, unpenalized="fixed").fit()
    res = from_table(formula, both).fit()
    np.testing.assert_allclose(res.params, rows.params, rtol=1e2 * SAME, atol=SAME)
    np.testing.assert_allclose(res.bse, rows.bse, rtol=SAME)


def test_sums_are_those_of_dense_columns():
    rng = np.random.default_rng(1)
    dense, columns, weights = (
        rng.normal(1e6, 1.0, size=(90, 3)),
        rng.integers(2, size=(90, 4)),
        rng.gamma(2.0, size=90),
    )
    sums = BlockSums()
    for at in (slice(0, 1), slice(1, 40), slice(40, 90)):
        sums.add(dense[at], sparse.csc_matrix(columns[at].astype(float)), weights[at])
    found = sums.moments(["a", "b"], list("cdef"), ["y"], ["c", "a", "b", "d", "e", "f"]).as_moments()
    order = np.column_stack([columns[:, 0], dense[:, :2], columns[:, 1:]]).astype(float)
    wanted = Moments.from_arrays(dense[:, 2], order, weights=weights)
    for name in ("x_mean", "y_mean", "xx", "xy", "yy", "weight_sum", "log_weight_sum", "n"):
        np.testing.assert_allclose(getattr(found, name), getattr(wanted, name), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("formula", "told"),
    [
        ("y ~ s(log(x), k=4)", r"s\(log\(x\), k=4\) is a curve of an expression.*add log\(x\) to the data"),
        ("y ~ (1 | nobody)", "'nobody', which is not a column of the data"),
        ("y ~ (1 | one)", "has one level"),
        ("y ~ (1 | row)", "as many levels as there are rows"),
        ("y ~ s(dept_number, k=9)", "3 distinct values"),
        ("y ~ s + (1 | s)", "s is part of"),
        ("y ~ x + (log(w) | s)", "not a number|infinite"),
    ],
)
def test_refusals(formula, told, frame):
    more = frame.assign(one="a", row=np.arange(N), dept_number=np.arange(N) % 3)
    with np.errstate(invalid="ignore"), pytest.raises(ValueError, match=told):
        from_table(formula.replace("y ~ s + (1 | s)", "y ~ C(s) + (1 | s)"), more)


@pytest.mark.parametrize(
    "formula",
    [
        "y ~ I(x - x.mean()) + (1 | d)",
        "y ~ (I(w - w.mean()) | d)",
        "y ~ band(I(x - x[0]), w)",
        "y ~ s(v) + I(w.rank())",
        "I(y - y.mean()) ~ w + (1 | d)",
    ],
)
@pytest.mark.parametrize("batch_size", [70, 1])
def test_terms_that_depend_on_more_than_their_own_row_are_refused(formula, batch_size, frame):
    with pytest.raises(ValueError, match="depend on more than their own row"):
        from_table(formula, frame, batch_size=batch_size)


def test_a_first_batch_of_one_row(frame, tmp_path):
    formula = "y ~ s(v, by=w, k=4) + (1 | f)"
    for i, part in enumerate((frame[:1], frame[1:])):
        parquet.write_table(table(part), tmp_path / f"{i}.parquet")
    in_memory = BayesRidge.from_formula(formula, frame).fit()
    same(in_memory, BayesRidge.from_parquet(tmp_path, formula, progress=False).fit(), frame)


def test_what_streams_with_bands_do_not_do(frame):
    with pytest.raises(ValueError, match=r"\(1 \| s\), whose variance .* which SpikeSlab does not have"):
        SpikeSlab.from_arrow(table(frame), "y ~ x + (1 | s)", progress=False)
    reader = table(frame).to_reader()
    with pytest.raises(ValueError, match=r"the values of '\(1 \| s\)'.*can be read only once"):
        BayesRidge.from_arrow(reader, "y ~ x + (1 | s)", progress=False)


def test_dask_frames_are_refused(frame):
    dask = pytest.importorskip("dask.dataframe")
    with pytest.raises(ValueError, match=r"\(1 \| s\) is not for Dask"):
        BayesRidge.from_dask(dask.from_pandas(frame, npartitions=2), "y ~ x + (1 | s)")


def test_an_ordered_factor_is_ordered_wherever_it_comes_from(frame, tmp_path):
    """Its first level has no curve of its own, also in Arrow, Parquet and frames of polars."""
    ordered = frame.assign(f=pd.Categorical(frame["f"], ordered=True))[["y", "v", "f"]].dropna()
    table, formula = pa.Table.from_pandas(ordered, preserve_index=False), "y ~ f + s(v, by=f, k=5)"
    parquet.write_table(table, tmp_path / "rows.parquet")
    wanted = BayesRidge.from_formula(formula, ordered).fit("fixed", lam=[1.0, 2.0, 3.0])
    assert list(wanted.model.bands.names) == ["s(v):f[b]", "s(v):f[c]", "other"]
    models = [
        BayesRidge.from_formula(formula, table),
        BayesRidge.from_arrow(table, formula),
        BayesRidge.from_parquet(tmp_path / "rows.parquet", formula),
    ]
    for model in models:
        found = model.fit("fixed", lam=[1.0, 2.0, 3.0])
        np.testing.assert_allclose(found.params[wanted.params.index], wanted.params, rtol=1e-7)
