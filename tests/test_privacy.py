"""What results without data hold: no row, no label of a row, and on request nothing that tells who was there."""

import io
import pickle
import zipfile
from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest

from pybayesridge import BayesRidge, Moments, SpikeSlab, compare_evidence, load
from tests.effort import share

SPREAD = 6e-3
"""Ten times the worst seen: quantiles from a table less those of the whole posterior, in standard deviations."""

SAME = 1e-9

N, P = 30, 100

ALPHAS = (1e-6, 0.001, 0.05, 0.1, 0.5, 0.9)


def data(n=N, p=P, seed=0):
    """Responses and columns whose rows have labels that no other text has."""
    rng = np.random.default_rng(seed)
    labels = pd.Index([f"patient-{i:04d}-of-the-study" for i in range(n)], name="label-of-rows")
    x = pd.DataFrame(rng.normal(size=(n, p)), index=labels, columns=[f"c{j}" for j in range(p)])
    y = pd.Series(x.iloc[:, :3].sum(axis=1) + rng.normal(size=n), name="y")
    return y, x


FITS = {
    "em": lambda y, x: BayesRidge(y, x).fit("em"),
    "exact": lambda y, x: BayesRidge(y, x).fit("exact"),
    "exact, known noise": lambda y, x: BayesRidge(y, x, sigma2=1.0).fit("exact"),
    "loocv": lambda y, x: BayesRidge(y, x).fit("loocv"),
    "weights, unpenalised": lambda y, x: BayesRidge(
        y, x, unpenalized=["c0", "c1"], weights=np.linspace(1, 2, len(y))
    ).fit("exact"),
    "two targets": lambda y, x: BayesRidge(pd.DataFrame({"y": y, "z": -2 * y + x["c5"]}), x).fit("exact"),
    "moments": lambda y, x: BayesRidge.from_moments(Moments.from_arrays(y, x)).fit("exact"),
    "spike and slab": lambda y, x: SpikeSlab(y, x, noise_var=1.0).fit("ep", hyper="maximize"),
    "groups": lambda y, x: SpikeSlab(
        y, x, noise_var=1.0, group=[j // 40 for j in range(x.shape[1])], unpenalized=["c1"]
    ).fit("ep"),
    "averaged": lambda y, x: SpikeSlab(y, x, prior_inclusion=0.02).fit("ep", hyper="average"),
    "sets": lambda y, x: SpikeSlab(y, x).fit("exact", mcse=0.1),
    "sets of groups": lambda y, x: SpikeSlab(
        y, x, slab_var=0.5, noise_var=1.0, group=[j // 4 for j in range(x.shape[1])], unpenalized=["c1"]
    ).fit("exact", mcse=0.1),
    "all sets of groups": lambda y, x: SpikeSlab(
        y, x, group=[j // 40 for j in range(x.shape[1])], unpenalized=["c1"], weights=np.linspace(1, 2, len(y))
    ).fit("exact"),
    "all sets, others always in or out": lambda y, x: SpikeSlab(
        y, x, prior_inclusion=[0.3] * 9 + [1.0] + [0.0] * (x.shape[1] - 10)
    ).fit("exact"),
}


def content_of(data):
    """All that is in the members of a file, which are compressed in part."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return b"".join(archive.read(name) for name in archive.namelist())


EXACT = [name for name in FITS if "sets" in name]


@pytest.fixture(scope="module", params=share(FITS, 5))
def pair(request, short_runs):
    """A fit, and the same from a file without the space of the rows."""
    res = FITS[request.param](*data())
    file = io.BytesIO()
    res.save(file, remove_data=True, row_space=False)
    file.seek(0)
    return res, load(file), content_of(file.getvalue())


def arrays(obj, seen=None):
    """Every array that can be reached from an object."""
    seen = {} if seen is None else seen
    if id(obj) in seen or obj is None or isinstance(obj, str | bytes | int | float | type):
        return
    seen[id(obj)] = obj
    if isinstance(obj, np.ndarray) and obj.dtype != object:
        yield obj
        return
    if isinstance(obj, pd.Series | pd.Index):
        yield np.asarray(obj)
    if isinstance(obj, pd.DataFrame):
        yield obj.to_numpy()
    children = []
    if isinstance(obj, dict):
        children += [*obj.keys(), *obj.values()]
    elif isinstance(obj, list | tuple | set | frozenset) or (isinstance(obj, np.ndarray) and obj.dtype == object):
        children += list(np.ravel(obj)) if isinstance(obj, np.ndarray) else list(obj)
    children += list(getattr(obj, "__dict__", {}).values())
    for kind in type(obj).__mro__:
        children += [getattr(obj, name, None) for name in getattr(kind, "__slots__", ()) if isinstance(name, str)]
    for child in children:
        yield from arrays(child, seen)


def span(vectors):
    """Orthonormal vectors that span some; single precision has noise in every direction."""
    _, size, right = np.linalg.svd(vectors.astype(float), full_matrices=False)
    return right[size > (1e-5 if vectors.dtype == np.float32 else 1e-10) * size[0]]


def inside(rows, basis):
    """Share of the squared norm of each row in the span of orthonormal vectors (few, p)."""
    return ((rows @ basis.T) ** 2).sum(axis=1) / (rows**2).sum(axis=1)


def candidates(res, p):
    """All vectors over the columns that a file holds, array by array."""
    for a in arrays(res):
        if not np.issubdtype(a.dtype, np.number) or a.size < p:
            continue
        a = np.nan_to_num(a if a.dtype == np.float32 else a.astype(float), posinf=0.0, neginf=0.0)
        for axis, length in enumerate(a.shape):
            # With or without unpenalised columns.
            for width in range(p - 2, p + 2):
                if length == width:
                    vectors = np.moveaxis(a, axis, -1).reshape(-1, width)
                    yield vectors if width <= p else vectors[:, 1:]


def standardized(x):
    return ((x - x.mean()) / x.std(ddof=0)).to_numpy()


def test_the_row_space_is_found_where_it_is():
    y, x = data()
    for fit in ("em", "spike and slab"):
        file = io.BytesIO()
        FITS[fit](y, x).save(file, remove_data=True)
        file.seek(0)
        rows = standardized(x)
        shares = [inside(rows[:, -v.shape[1] :], span(v)).max() for v in candidates(load(file), P)]
        assert max(shares) > 1 - 1e-9


def test_a_member_cannot_be_told_from_a_stranger(pair):
    _, back, _ = pair
    _, x = data()
    members = standardized(x)
    rng = np.random.default_rng(9)
    strangers = rng.normal(size=(2000, P))
    found = 0
    for vectors in candidates(back, P):
        basis, width = span(vectors), vectors.shape[1]
        assert len(basis) < width, "it may hold cross-products"
        found += 1
        share, others = inside(members[:, -width:], basis), inside(strangers[:, -width:], basis)
        # One combination of the rows is in the file for each response: the coefficients. Nobody's row is near it.
        assert share.max() < max(0.5, others.max() + 0.1)
        assert share.max() < 0.95
    assert found > 0


def test_no_array_runs_over_rows(pair):
    _, back, _ = pair
    for a in arrays(back):
        assert N not in a.shape
    assert back.model.moments is None


def test_no_label_and_no_value_of_a_row_is_in_the_file(pair):
    _, _, content = pair
    y, x = data()
    assert b"patient" not in content
    for value in [*y, *x.to_numpy().ravel()[:: P // 3]]:
        assert np.float64(value).tobytes() not in content
        assert repr(float(value)).encode() not in content


def test_what_is_in_a_file_is_found_in_it():
    y, x = data(40, 3)
    file = io.BytesIO()
    BayesRidge(y, x).fit().save(file)
    content = content_of(file.getvalue())
    assert b"patient" in content
    assert np.float64(y.iloc[7]).tobytes() in content


@pytest.mark.parametrize("row_space", [True, False])
@pytest.mark.parametrize("kind", ["MultiIndex", "CategoricalIndex", "Index"])
def test_labels_of_rows_do_not_stay_in_types(kind, row_space):
    y, x = data(40, 3)
    names = x.index
    x.index = {
        "MultiIndex": pd.MultiIndex.from_arrays([names, range(40)], names=["who", "visit"]),
        "CategoricalIndex": pd.CategoricalIndex(names),
        "Index": names,
    }[kind]
    y.index = x.index
    table = x.assign(y=y, note=pd.Categorical(names))
    for res in (
        BayesRidge(y, x).fit(),
        SpikeSlab(y, x).fit("ep"),
        BayesRidge.from_formula("y ~ c0 + c1", table).fit(),
    ):
        _ = res.fittedvalues, res.resid, res.rsquared, res.predict()
        file = io.BytesIO()
        res.save(file, remove_data=True, row_space=row_space)
        assert b"patient" not in content_of(file.getvalue())
        assert res.fittedvalues.index.equals(x.index)


def test_arrays_of_the_caller_are_not_in_the_file():
    y, x = data(40, 3)
    mine = np.linspace(7.0, 8.0, 40)
    bounds = [0.5]  # noqa: F841 - the formula names it
    res = BayesRidge.from_formula("y ~ c0 + mine + bs(c1, knots=bounds)", x.assign(y=y)).fit()
    file = io.BytesIO()
    res.save(file, remove_data=True)
    assert mine.tobytes() not in content_of(file.getvalue())
    assert repr(float(mine[5])).encode() not in content_of(file.getvalue())
    assert mine.tobytes() in pickle.dumps(res)
    file.seek(0)
    back = load(file)
    assert list(back.model.formula_spec.context) == ["bounds"]


def test_single_coefficients_stay(pair):
    res, back, _ = pair
    np.testing.assert_allclose(back.params, res.params, rtol=SAME)
    np.testing.assert_allclose(back.bse, res.bse, rtol=SAME)
    sd = np.asarray(res.bse)
    for alpha in share(ALPHAS, 2):
        a, b = (np.asarray(r.conf_int(alpha)).reshape(*sd.shape, 2) for r in (back, res))
        unit = np.where(np.isfinite(sd) & (sd > 0), sd, np.abs(b).max())
        assert (np.abs(a - b) / unit[..., None]).max() < SPREAD
    with pytest.raises(ValueError, match="alpha is 1e-12"):
        back.conf_int(1e-12)
    for name in ("rsquared", "df_model", "sigma2", "nobs"):
        np.testing.assert_allclose(getattr(back, name), getattr(res, name), rtol=SAME)
    new = data(5, seed=4)[1]
    np.testing.assert_allclose(back.predict(new), res.predict(new), rtol=SAME)
    assert len(back.tidy()) == len(res.tidy())
    assert str(back.summary()).count("\n") == str(res.summary()).count("\n")
    if hasattr(res, "inclusion_prob"):
        for name in ("inclusion_prob", "cond_mean", "cond_var", "group_inclusion_prob"):
            np.testing.assert_allclose(getattr(back, name), getattr(res, name), rtol=1e-8)
        assert back.median_model() == res.median_model()
        assert back.expected_size == pytest.approx(res.expected_size)
    else:
        np.testing.assert_allclose(back.lambda_, res.lambda_, rtol=SAME)
        np.testing.assert_allclose(back.log_marginal, res.log_marginal, rtol=SAME)
        np.testing.assert_allclose(back.hyperparameters(), res.hyperparameters(), rtol=1e-8)


def test_what_needs_the_joint_posterior_says_so(pair):
    res, back, _ = pair
    new = data(5, seed=4)[1]
    target = {} if res.model.one_target else {"target": "y"}
    calls = [
        lambda: back.cov_params(**target),
        lambda: back.get_prediction(new),
        lambda: back.sample(3),
    ]
    if find_spec("arviz") is not None:
        calls.append(lambda: back.to_arviz(groups=["posterior"]))
    calls.append(lambda: back.contrast({"one": "c1 - c2"}, **target))
    if hasattr(res, "inclusion_prob") and res.method != "exact":
        calls.append(lambda: back.starting_point())
    if getattr(back, "exact_sets", None) is not None:
        calls.append(lambda: back.credible_sets(coverage=0.9))
        calls.append(lambda: back.credible_sets(min_abs_corr=0.6))
    for call in calls:
        with pytest.raises(ValueError, match="saved without the space of the rows"):
            call()
    for call in (lambda: back.fittedvalues, lambda: back.resid, lambda: back.model.fit(), back.predict):
        with pytest.raises(ValueError, match="removed"):
            call()


@pytest.mark.parametrize("pair", EXACT, indirect=True)
def test_sets_of_columns_stay(pair):
    res, back, _ = pair
    pd.testing.assert_frame_equal(back.credible_sets(), res.credible_sets())
    pd.testing.assert_frame_equal(back.models(20), res.models(20))
    pd.testing.assert_frame_equal(back.select(0.3), res.select(0.3))
    pd.testing.assert_series_equal(back.size_distribution(), res.size_distribution(), rtol=SAME)
    names = ["c0", "c2", "c5", "c99"]
    pd.testing.assert_frame_equal(back.pair_inclusion(names), res.pair_inclusion(names), rtol=SAME, atol=1e-15)
    for name in ("inclusion_se", "group_inclusion_se", "log_evidence", "log_evidence_se", "slab_var", "residual"):
        np.testing.assert_allclose(getattr(back, name), getattr(res, name), rtol=SAME)
    assert back.size_interval() == res.size_interval()
    there, here = back.hyperparameters(0.1), res.hyperparameters(0.1)
    np.testing.assert_allclose(there["mean"], here["mean"], rtol=SAME)
    np.testing.assert_allclose(there.loc["size"], here.loc["size"], rtol=SAME)
    point, other = back.starting_point(), res.starting_point()
    assert point.slab_var == pytest.approx(other.slab_var)
    assert point.noise_var == pytest.approx(other.noise_var)
    assert compare_evidence({"here": res, "there": back})["probability"].tolist() == pytest.approx([0.5, 0.5])


@pytest.mark.parametrize("pair", EXACT, indirect=True)
def test_the_states_of_a_selection_do_not_stay(pair):
    """Their coefficients and residual sums of squares would give products of columns."""
    res, back, _ = pair
    before, after = res.exact_sets.states, back.exact_sets.states
    for name in ("coef", "left", "log_g", "t", "chain"):
        assert getattr(before, name).size > 0
        assert getattr(after, name).size == 0
    assert after.root == ()
    assert after.noise_var is None
    assert len({after.set_of(i).tobytes() for i in range(after.n)}) == after.n
    assert back.posterior.selection.rotation.blocks == ()


def test_pictures_and_reports(pair, tmp_path, request):
    pytest.importorskip("matplotlib")
    pytest.importorskip("jinja2")
    request.getfixturevalue("sketched")
    import matplotlib.pyplot as plt

    res, back, _ = pair
    target = {} if res.model.one_target else {"target": "y"}
    back.plot_coefficients(**target)
    if hasattr(res, "inclusion_prob"):
        back.plot_inclusion()
        back.plot_n_included()
    else:
        back.plot_lambda(**target)
        with pytest.raises(ValueError, match="saved without the space of the rows"):
            back.plot_path(**target)
    plt.close("all")
    assert back.report(tmp_path / "report.html").stat().st_size > 10_000


@pytest.mark.parametrize(("cls", "method"), [(BayesRidge, "exact"), (SpikeSlab, "ep")])
def test_cross_products_are_not_kept_with_many_rows(cls, method):
    y, x = data(200, 5)
    res = cls(y, x).fit(method)
    with_space, without = res.as_saved(True, True), res.as_saved(True, False)
    width = 5
    assert any(a.shape in ((width, width),) and np.linalg.matrix_rank(a) == width for a in arrays(with_space))
    assert not any(a.ndim == 2 and min(a.shape) >= width - 1 and a.dtype == float for a in arrays(without))


def test_twice_is_once(pair):
    _, back, _ = pair
    before = back.conf_int()
    back.remove_data(row_space=False)
    back.remove_data()
    pd.testing.assert_frame_equal(back.conf_int(), before)


def test_intervals_of_a_column_that_cannot_be_in_need_no_space():
    y, x = data(40, 4)
    res = SpikeSlab(y, x, prior_inclusion=[0.5, 0.0, 1.0, 0.5]).fit("ep")
    before = res.conf_int()
    res.remove_data(row_space=False)
    pd.testing.assert_frame_equal(res.conf_int(), before)
    assert (res.conf_int().iloc[2] == 0).all()


def test_as_many_responses_as_rows_are_refused():
    _, x = data(12, 60)
    y = pd.DataFrame(np.random.default_rng(3).normal(size=(12, 11)), index=x.index)
    res = BayesRidge(y, x).fit()
    with pytest.raises(ValueError, match="11 responses for 12 rows: their coefficients span the space of the rows"):
        res.remove_data(row_space=False)
    assert res.fittedvalues.shape == (12, 11)


def test_the_space_goes_with_the_data(tmp_path):
    res = BayesRidge(*data(40, 3)).fit()
    with pytest.raises(ValueError, match="row_space=False requires remove_data=True"):
        res.save(tmp_path / "fit", row_space=False)
    assert not list(tmp_path.iterdir())


def test_rows_are_not_kept_by_spike_and_slab():
    y, x = data()
    res = SpikeSlab(y, x, noise_var=1.0).fit("ep", hyper="maximize")
    rows = standardized(x) / np.sqrt(N)
    out = res.as_saved(True, True)
    for a in arrays(out):
        if a.ndim == 2 and a.shape[1] == P and len(a) and a.dtype == float:
            unit = a / np.linalg.norm(a, axis=1, keepdims=True).clip(1e-300)
            assert np.abs(unit @ (rows / np.linalg.norm(rows, axis=1, keepdims=True)).T).max() < 1 - 1e-6
    np.testing.assert_allclose(out.conf_int(), res.conf_int(), rtol=1e-7, atol=1e-10)
    new = data(5, seed=4)[1]
    np.testing.assert_allclose(out.get_prediction(new).se, res.get_prediction(new).se, rtol=1e-7)


@pytest.mark.parametrize(("method", "shape"), [("em", (100, 2000)), ("exact", (50, 200))])
def test_a_file_is_smaller_than_the_table(method, shape):
    y, x = data(*shape)
    text = len(x.to_csv())
    res = BayesRidge(y, x, prior="half-cauchy").fit(method)
    sizes = {}
    for row_space in (True, False):
        file = io.BytesIO()
        res.save(file, remove_data=True, row_space=row_space)
        sizes[row_space] = len(file.getvalue())
    assert sizes[True] < text
    assert sizes[False] < text / 2
