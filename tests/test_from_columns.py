"""Ridges of columns that are read in blocks: equal to the same columns in memory, in as few passes as promised."""

import warnings

import numpy as np
import pandas as pd
import pytest

from pybayesridge import BayesRidge
from pybayesridge.exceptions import PrecisionWarning
from pybayesridge.results.predictive_checks import replicated

EXACT = 1e-10
"""Relative to the largest value of each quantity."""

N, P = 40, 300

GRID = {"grid": np.geomspace(10, 1e5, 20)}
FITS = {"loocv": GRID, "gcv": GRID, "fixed": {"lam": 3.0}}
"""Options of methods."""


@pytest.fixture
def rng():
    return np.random.default_rng(5)


class Sliced:
    """An array that gives slices only, in chunks, and counts the columns that are read."""

    def __init__(self, x, chunks=None):
        self._x, self.shape, self.dtype, self.chunks = x, x.shape, x.dtype, chunks
        self.read = 0

    def __getitem__(self, key):
        rows, columns = key
        assert isinstance(rows, slice)
        assert isinstance(columns, slice)
        out = self._x[key]
        self.read += out.size
        return out


def data(rng, n=N, p=P):
    """A response and counts that depend on the same few factors."""
    factors = rng.normal(size=(n, 4))
    x = rng.binomial(2, 1 / (1 + np.exp(-factors @ rng.normal(size=(4, p)) / 2)), size=(n, p)).astype(np.int8)
    return factors @ rng.normal(size=4) + rng.normal(size=n), x


def split(x, *at):
    return np.split(x, at, axis=1)


def same(one, other, tolerance=EXACT):
    """Whether two fits agree in all that is reported."""
    for name in ("params", "bse", "prob_positive", "fittedvalues", "resid", "loo_residuals"):
        a, b = getattr(one, name), getattr(other, name)
        assert a.index.equals(b.index)
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * np.abs(a).to_numpy().max(), err_msg=name)
    for name in ("lambda_", "sigma2", "rsquared", "log_marginal", "df_model", "loo_mse", "loo_rsquared"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=tolerance, err_msg=name)
    a, b = one.conf_int(0.1), other.conf_int(0.1)
    np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * np.abs(a).to_numpy().max())


def sources(x):
    names = [f"v{j}" for j in range(x.shape[1])]
    frame = pd.DataFrame(x, columns=names)
    return {
        "array": x,
        "fortran": np.asfortranarray(x),
        "chunks": Sliced(x, (8, 7)),
        "one chunk": Sliced(x, x.shape),
        "blocks": split(x, 1, 2, 60, 61, 299),
        "function": lambda: iter(split(x, 150)),
        "transposed": (x.T, {"transposed": True}),
        "transposed blocks": ([part.T for part in split(x, 17)], {"transposed": True}),
        "float32": [x.astype(np.float32)],
        "mixed": [x[:, :100].astype(np.int64), x[:, 100:200] > 5, x[:, 200:] + 0.0],
        "frames": [frame.iloc[:, :100], frame.iloc[:, 100:]],
        "named": (x, {"names": names}),
    }


@pytest.mark.parametrize("kind", sources(np.zeros((3, 300), dtype=np.int8)))
def test_every_source_gives_the_fit_in_memory(kind, rng):
    y, x = data(rng)
    source = sources(x)[kind]
    source, options = source if isinstance(source, tuple) else (source, {})
    if kind == "mixed":
        x = np.hstack([x[:, :100], np.zeros((N, 100), dtype=np.int8), x[:, 200:]])
    streamed = BayesRidge.from_columns(y, source, **options).fit()
    names = [f"v{j}" for j in range(P)] if kind in ("frames", "named") else [f"x{j + 1}" for j in range(P)]
    same(BayesRidge(y, pd.DataFrame(x, columns=names), intercept="add").fit(), streamed)
    assert streamed.solver == "dual"


@pytest.mark.filterwarnings("ignore::pybayesridge.exceptions.GridEdgeWarning")
@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("method", ["exact", "em", "loocv", "gcv", "fixed"])
def test_weights_covariates_and_several_targets(method, standardize, rng):
    y, x = data(rng)
    targets = pd.DataFrame(
        {"a": y, "b": 0.1 * x[:, :50].sum(axis=1) + rng.normal(size=N)}, index=[f"i{i}" for i in range(N)]
    )
    x = x * np.exp(rng.normal(size=P) / 2) + 1e3
    x[:, 7] = 4.0
    z = pd.DataFrame(rng.normal(size=(N, 2)) + 5, columns=["age", "dose"], index=targets.index)
    w = rng.uniform(0.5, 2, N)
    options = {"weights": w, "standardize": standardize}
    fit = {"method": method} | FITS.get(method, {})
    whole = pd.concat([z, pd.DataFrame(x, index=z.index).add_prefix("v")], axis=1)
    memory = BayesRidge(targets, whole, unpenalized=["age", "dose"], intercept="add", **options).fit(**fit)
    names = [f"v{j}" for j in range(P)]
    streamed = BayesRidge.from_columns(targets, split(x, 5, 260), unpenalized=z, names=names, **options).fit(**fit)
    same(memory, streamed)
    assert [f.code for f in streamed.findings] == [f.code for f in memory.findings]


@pytest.mark.parametrize("intercept", [True, False])
def test_without_intercept_and_with_a_constant_covariate(intercept, rng):
    y, x = data(rng)
    z = np.ones((N, 1)) if intercept else rng.normal(size=(N, 1))
    whole = pd.DataFrame(np.hstack([z, x]), columns=["z1", *(f"x{j + 1}" for j in range(P))])
    memory = BayesRidge(y, whole, unpenalized=["z1"], intercept=intercept).fit()
    same(memory, BayesRidge.from_columns(y, x, unpenalized=z, intercept=intercept).fit())


def test_fewer_columns_than_rows(rng):
    y, x = data(rng)
    memory = BayesRidge(y, x[:, :12]).fit()
    streamed = BayesRidge.from_columns(y, split(x[:, :12], 5)).fit()
    same(memory, streamed, 1e-8)
    assert streamed.condition_number == pytest.approx(memory.condition_number, rel=1e-8)


def test_the_order_of_columns_does_not_matter(rng):
    y, x = data(rng)
    order = rng.permutation(P)
    one, other = (BayesRidge.from_columns(y, split(columns, 9, 80)).fit() for columns in (x, x[:, order]))
    np.testing.assert_allclose(one.params.to_numpy()[1:][order], other.params.to_numpy()[1:], rtol=0, atol=1e-12)
    assert one.log_marginal == pytest.approx(other.log_marginal, rel=1e-12)


def test_one_pass_for_the_fit_and_one_for_the_coefficients(rng, tmp_path):
    y, x = data(rng)
    source = Sliced(x)
    res = BayesRidge.from_columns(y, source).fit()
    _ = res.lambda_, res.rsquared, res.fittedvalues, res.resid, res.log_marginal, res.loo(), res.loo_rsquared
    _ = (
        res.hyperparameters(),
        res.explained_variance(),
        res.n_modes,
        res.findings,
        res.get_prediction().summary_frame(),
    )
    assert source.read == x.size
    res.write_coefficients(tmp_path / "all.csv")
    assert source.read == 2 * x.size
    table = pd.read_csv(tmp_path / "all.csv")
    pd.testing.assert_frame_equal(table, res.tidy(), rtol=1e-12, atol=1e-15)
    before = source.read
    for _ in range(2):
        _ = res.params, res.bse
    assert source.read == before  # tidy() has made both


def test_a_summary_reads_only_the_columns_it_shows(rng):
    y, x = data(rng, p=1000)
    x[:, :30] *= 3
    source = Sliced(x, (N, 10))
    res = BayesRidge.from_columns(y, source).fit()
    shown = str(res.summary())
    memory = str(BayesRidge(y, x).fit().summary())
    assert [line for line in shown.splitlines() if "Time" not in line] == [
        line for line in memory.splitlines() if "Time" not in line
    ]


def test_predictions(rng):
    y, x = data(rng, n=N + 5)
    z = rng.normal(size=N + 5)
    whole = np.column_stack([z, x])
    memory = BayesRidge(y[:N], whole[:N], unpenalized=[0]).fit()
    streamed = BayesRidge.from_columns(y[:N], x[:N], unpenalized=z[:N]).fit()
    for rows in (whole[N:], None):
        a, b = (res.get_prediction(rows).summary_frame() for res in (memory, streamed))
        pd.testing.assert_frame_equal(a, b, rtol=1e-9)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_values_that_are_not_finite_are_named(value, rng):
    y, x = data(rng)
    x = x.astype(float)
    x[3, 170] = value
    with pytest.raises(ValueError, match=r"'x171' \(1 (NaN|infinite)\): remove or impute them$"):
        BayesRidge.from_columns(y, split(x, 100))


def test_sources_that_do_not_do(rng):
    y, x = data(rng)
    blocks = split(x, 100)
    with pytest.raises(ValueError, match=r"can be read only once.*function without arguments"):
        BayesRidge.from_columns(y, iter(blocks))
    with pytest.raises(ValueError, match="generator that can be read only once"):
        BayesRidge.from_columns(y, (block for block in blocks))
    with pytest.raises(ValueError, match="must be an array, a list of blocks"):
        BayesRidge.from_columns(y, 3)
    with pytest.raises(ValueError, match=r"the source has 300 rows.*pass transposed=True"):
        BayesRidge.from_columns(y, x.T)
    with pytest.raises(ValueError, match="39 rows"):
        BayesRidge.from_columns(y, [x, x[1:]])
    with pytest.raises(ValueError, match=r"two dimensions, got 1"):
        BayesRidge.from_columns(y, list(x))
    with pytest.raises(ValueError, match="no columns"):
        BayesRidge.from_columns(y, [])
    with pytest.raises(ValueError, match="names has 3 entries for 300 columns"):
        BayesRidge.from_columns(y, x, names=["a", "b", "c"])
    with pytest.raises(ValueError, match="duplicate column name"):
        BayesRidge.from_columns(y, x, names=["a"] * P)
    with pytest.raises(ValueError, match="named 'const'"):
        BayesRidge.from_columns(y, x[:, :1], names=["const"])
    with pytest.raises(ValueError, match="must return an iterator of blocks"):
        BayesRidge.from_columns(y, lambda: x)
    with pytest.raises(ValueError, match="some blocks"):
        BayesRidge.from_columns(y, [pd.DataFrame(x[:, :5]), x[:, 5:]])
    frame = pd.DataFrame(x, index=[f"i{i}" for i in range(N)])
    with pytest.raises(ValueError, match="row labels"):
        BayesRidge.from_columns(pd.Series(y, index=frame.index[::-1]), [frame])


@pytest.mark.parametrize("change", ["permuted", "fewer", "more", "order", "values", "rows", "none", "names"])
def test_another_second_pass_is_refused(change, rng):
    y, x = data(rng)
    passes = []
    later = {
        "permuted": x[::-1],
        "fewer": x[:, :-1],
        "more": np.hstack([x, x[:, :3]]),
        "order": x[:, ::-1],
        "values": rng.permutation(x, axis=0) + x,
        "rows": x[1:],
        "none": x[:, :0],
        "names": x,
    }[change]

    def read():
        passes.append(1)
        again = len(passes) > 1
        part = later if again else x
        names = [f"{'w' if again else 'v'}{j}" for j in range(part.shape[1])]
        yield pd.DataFrame(part, columns=names) if change == "names" else part

    res = BayesRidge.from_columns(y, read).fit()
    with pytest.raises(ValueError, match=r"same columns|rows of observations"):
        _ = res.params


class Odd:
    """An array whose slices are what `cut` makes of them, from the read number `after` on."""

    def __init__(self, x, cut, after=0, shape=None):
        self._x, self._cut, self._left = x, cut, after
        self.shape, self.dtype, self.chunks = shape or x.shape, x.dtype, (N, 100)

    def __getitem__(self, key):
        self._left -= 1
        return self._x[key] if self._left >= 0 else self._cut(self._x[key])


SLICES = {
    "one column fewer": (lambda part: part[:, :-1], r"\[:, 0:\d+\] has .* columns of X instead of"),
    "one column more": (lambda part: np.hstack([part, part[:, :1]]), r"\[:, 0:\d+\] has .* columns of X instead of"),
    "no columns": (lambda part: part[:, :0], "has 0 columns of X instead of"),
    "fewer rows": (lambda part: part[1:], "39 rows of observations"),
    "more rows": (lambda part: np.vstack([part, part]), "80 rows of observations"),
    "other rows": (lambda part: part[::-1], "same columns"),
    "complex": (lambda part: part + 1j, "dtype complex128, which is not real"),
    "text": (lambda part: part.astype(str), "which is not real and numeric"),
    "NaN": (lambda part: part * np.nan, "not finite"),
    "vector": (lambda part: part[:, 0], "two dimensions, got 1"),
    "transposed": (lambda part: part.T, "rows of observations"),
}


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("kind", SLICES)
def test_slices_that_are_not_what_was_asked_for(kind, again, transposed, rng):
    y, x = data(rng)
    cut, message = SLICES[kind]
    if kind == "NaN" and again:
        message = "other values than when the source was first read"
    if kind == "other rows" and not again:
        pytest.skip("nobody can tell that rows are in another order when they are first read")
    if transposed:
        source = Odd(x.T, lambda part: cut(part.T).T, int(again))
        message = message.replace(":, 0:\\d+", "0:\\d+, :")
    else:
        source = Odd(x, cut, int(again))
    with pytest.raises(ValueError, match=message):
        _ = BayesRidge.from_columns(y, source, transposed=transposed).fit().params


def test_a_shape_that_promises_more_columns_than_there_are(rng):
    y, x = data(rng)
    with pytest.raises(ValueError, match=r"shape \(40, 350\), and its \[:, \d+:350\] has .* instead of"):
        BayesRidge.from_columns(y, Odd(x, None, 1000, shape=(N, P + 50)))


def test_slices_of_another_numeric_dtype_are_the_same_numbers(rng):
    y, x = data(rng)
    whole = BayesRidge.from_columns(y, x).fit()
    for dtype in (object, np.float32, np.int64):
        some = BayesRidge.from_columns(y, Odd(x, lambda part, dtype=dtype: part.astype(dtype))).fit()
        np.testing.assert_allclose(some.params, whole.params, rtol=1e-12)


def test_transposed_frames_are_matched_by_label(rng):
    y, x = data(rng)
    people = [f"i{i}" for i in range(N)]
    table = pd.DataFrame(x.T, columns=people).assign(snp=[f"rs{j}" for j in range(P)], chromosome="X")
    shuffled = table[["chromosome", *rng.permutation(people), "snp"]]
    whole = pd.DataFrame(x, index=people, columns=table["snp"])
    response = pd.Series(y, index=people)
    streamed = BayesRidge.from_columns(response, [shuffled], transposed=True, names="snp").fit()
    same(BayesRidge(response, whole).fit(), streamed)
    with pytest.raises(ValueError, match="'chromosome'"):
        BayesRidge.from_columns(y, [shuffled], transposed=True, names="snp")
    with pytest.raises(ValueError, match="no column for the observation"):
        BayesRidge.from_columns(response.rename({"i3": "j"}), [shuffled], transposed=True, names="snp")
    with pytest.raises(ValueError, match="names='id' is not a column"):
        BayesRidge.from_columns(response, [shuffled], transposed=True, names="id")


def test_equal_rows_lose_no_digits(rng):
    y, x = data(rng)
    x[1] = x[0]
    memory = BayesRidge(y, x).fit()
    same(memory, BayesRidge.from_columns(y, split(x, 5)).fit(), 1e-9)


@pytest.mark.parametrize("distance", [1e-9, 1e-6, 1e-5, 1e-4, 1e-3])
@pytest.mark.parametrize("lam", [1e-7, 1e-3])
def test_lost_digits_are_said(distance, lam, rng):
    y, x = data(rng)
    x = x.astype(float)
    x[1] = x[0] + distance * rng.normal(size=P)
    memory = BayesRidge(y, x).fit("fixed", lam=lam)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        streamed = BayesRidge.from_columns(y, x).fit("fixed", lam=lam)
    error = (memory.params - streamed.params).abs().max() / memory.params.abs().max()
    assert error <= 10 * streamed.precision_loss
    said = [str(one.message) for one in caught if one.category is PrecisionWarning]
    assert bool(said) is (streamed.precision_loss > 1e-8)
    assert all("BayesRidge(endog, X)" in text for text in said)


def test_columns_that_stand_alone_are_said(rng):
    y = rng.normal(size=N)
    x = np.hstack([np.eye(N), 1e-5 * rng.normal(size=(N, 10))])
    options = {"standardize": False, "intercept": False}
    model = BayesRidge.from_columns(y, x, **options)
    memory = BayesRidge(y, x, **options).fit("fixed", lam=1e-12)
    res = model.fit("fixed", lam=1e-12)
    with pytest.warns(PrecisionWarning, match="fewer than eight digits of the standard deviations"):
        sd = res.bse
    np.testing.assert_allclose(sd, memory.bse, rtol=1e-3)
    np.testing.assert_allclose(res.params, memory.params, rtol=0, atol=1e-9)


def test_replicated_responses_have_the_moments_of_the_predictive_distribution(rng):
    y, x = data(rng)
    w = rng.uniform(0.3, 3, N)
    res = BayesRidge.from_columns(y, x, weights=w, unpenalized=rng.normal(size=N)).fit()
    _, parts = replicated(res, 20_000, 1, None, "ppc")
    drawn = np.concatenate(list(parts))
    frame = res.get_prediction().summary_frame(alpha=0.1)
    error = frame["mean_se"] * 5 / np.sqrt(len(drawn)) + (frame["obs_ci_upper"] - frame["obs_ci_lower"]) * 0.02
    assert (np.abs(drawn.mean(axis=0) - frame["mean"]) < error).all()
    for name, probability in (("obs_ci_lower", 0.05), ("obs_ci_upper", 0.95)):
        assert (drawn < frame[name].to_numpy()).mean(axis=0) == pytest.approx(probability, abs=0.01)
    assert res.ppc().shape == (4, 5)
