"""Nearly collinear columns and steep spectra against dense algebra in extended precision."""

import re
import warnings

import numpy as np
import pytest

from pybayesridge import BayesRidge, DegenerateFitWarning, GridEdgeWarning, Moments, PrecisionWarning, SpikeSlab
from pybayesridge.ridge import trust
from pybayesridge.ridge.spectrum import rotate
from tests.long_double import LongDouble

pytestmark = pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="needs extended precision")

FIT = 1e-7
"""Fitted values relative to the response, log lambda, sigma2 and log p(y), where condition numbers reach 1e7."""

SHARE_OF_X = 1.9
"""Peak of what the accurate route allocates for n < p, relative to X: one array of its size, and blocks."""


def oracle(y, x, intercept=True, **options):
    return LongDouble(y, x, np.ones((len(y), int(intercept))), **options)


def centred(a):
    return np.asarray(a, dtype=float) - np.mean(np.asarray(a, dtype=float))


def errors(res, exact, x, y):
    """Largest errors of a fit at the mode, or with the penalty integrated out."""
    if res.method == "em":
        at, weight = np.array([exact.mode()]), np.ones(1)
        sigma2 = float(exact.noise_at_mode(at[0]))
    else:
        at, weight = exact.nodes()
        sigma2 = float(weight @ exact.rss(at)) / (exact.nu - 2)
    share = exact.s**2 / (exact.s**2 + np.exp(-at)[:, None])
    fitted = (exact.u @ ((weight @ share) * exact.z)).astype(float)
    found = np.asarray(res.predict(x))
    return {
        "lambda": abs(float(np.log(np.longdouble(res.lambda_)) + weight @ at)),
        "sigma2": abs(res.sigma2 / sigma2 - 1),
        "fitted": np.abs((centred(found) if res.model.k_constant else found) - fitted).max() / np.linalg.norm(fitted),
        "log p(y)": abs(res.log_marginal - float(exact.log_marginal())),
    }


def spectra(noise, n=20, p=60, seed=0):
    """Columns like a spectrum's: one factor and little else."""
    rng = np.random.default_rng(seed)
    rest = rng.normal(size=(n, p))
    x = rng.normal(size=(n, 1)) * rng.uniform(0.5, 1.5, p) + noise * rest
    return rest @ rng.normal(size=p) / 10 + 0.3 * rng.normal(size=n), x


def spectra_of_the_model(noise):
    """The same columns, and a response that the model could have made: there is an interior mode."""
    _, x = spectra(noise)
    rng = np.random.default_rng(5)
    return x @ rng.normal(size=60) + noise * rng.normal(size=20), x


def twins(n=28, p=7, gap=2.6e-6, size=4e5, seed=0):
    """The last column is nearly the first, and the response is in the difference."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, p))
    x[:, -1] = x[:, 0] + gap * rng.normal(size=n)
    return x @ rng.normal(size=p) + size * (x[:, -1] - x[:, 0]) + 1e-3 * rng.normal(size=n), x


@pytest.mark.filterwarnings("ignore::pybayesridge.PrecisionWarning")
@pytest.mark.parametrize("method", ["em", "exact"])
def test_large_means_do_not_hide_columns_that_are_more_than_the_rows(method):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(15, 25)) + 1e7
    y = x @ rng.normal(size=25) + 0.5 * rng.normal(size=15)
    res = BayesRidge(y, x, intercept=False, standardize=False, prior="half-cauchy").fit(method)
    assert res.diagnostics()["rank"] == 15
    found = errors(res, oracle(y, x, intercept=False, standardize=False), x, y)
    assert max(found.values()) < FIT, found


@pytest.mark.parametrize("method", ["em", "exact"])
@pytest.mark.parametrize("noise", [1e-4, 1e-5, 1e-6])
def test_steep_spectra_of_more_columns_than_rows(noise, method):
    y, x = (spectra_of_the_model if method == "em" else spectra)(noise)
    res = BayesRidge(y, x, prior="half-cauchy").fit(method)
    found = errors(res, oracle(y, x), x, y)
    assert max(found.values()) < FIT, found


@pytest.mark.filterwarnings("ignore::pybayesridge.PrecisionWarning")
@pytest.mark.parametrize("noise", [1e-5, 1e-6])
def test_steep_spectra_at_given_penalties_and_on_grids(noise):
    y, x = spectra(noise)
    exact = oracle(y, x)
    with pytest.warns(GridEdgeWarning):
        chosen = BayesRidge(y, x).fit("gcv", grid=np.logspace(-14, -13, 5)).lambda_
    for res in (
        BayesRidge(y, x).fit("fixed", lam=1e-12),
        BayesRidge(y, x).fit("fixed", lam=chosen),
    ):
        fitted = exact.fitted(-np.log(res.lambda_)).astype(float)
        assert np.abs(centred(res.fittedvalues) - fitted).max() < FIT * np.linalg.norm(fitted)


@pytest.mark.filterwarnings("ignore::pybayesridge.PrecisionWarning")
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("method", ["em", "exact"])
def test_a_mode_at_a_tiny_penalty_is_found(method, seed):
    y, x = twins(seed=seed)
    res = BayesRidge(y, x, prior="half-cauchy").fit(method)
    assert res.lambda_ < 1e-14
    found = errors(res, oracle(y, x), x, y)
    assert max(found.values()) < 10 * FIT, found


@pytest.mark.filterwarnings("ignore::pybayesridge.PrecisionWarning")
def test_a_mode_at_a_tiny_penalty_is_found_in_large_data(monkeypatch):
    # The bounds, not the size of the data, send this one to the accurate route.
    monkeypatch.setattr(trust, "CHEAP", 0.0)
    y, x = twins(n=60, gap=3e-5, size=3e4)
    model = BayesRidge(y, x, prior="half-cauchy")
    design, products = model._build()
    assert rotate(design, products).smallest > 0
    res = model.fit("em")
    assert res.solver == "svd"
    assert max(errors(res, oracle(y, x), x, y).values()) < FIT


@pytest.mark.parametrize("method", ["em", "exact"])
def test_ill_conditioned_data_with_nothing_hidden_keep_the_fast_route(monkeypatch, method):
    monkeypatch.setattr(trust, "CHEAP", 0.0)
    y, x = twins(n=60, gap=3e-5, size=0.0)
    y = y + np.random.default_rng(5).normal(size=60)
    res = BayesRidge(y, x, prior="half-cauchy").fit(method)
    assert res.solver == "gram"
    assert max(errors(res, oracle(y, x), x, y).values()) < 10 * FIT


@pytest.mark.parametrize("shape", [(60, 6), (12, 30)])
def test_directions_that_are_zero_in_the_data_keep_the_fast_route(shape):
    rng = np.random.default_rng(2)
    x = rng.normal(size=shape)
    x = np.hstack([x, x[:, :2]]) if shape[0] > shape[1] else np.vstack([x, x[:2]])
    y = x[:, 0] + rng.normal(size=len(x))
    res = BayesRidge(y, x, prior="half-cauchy").fit("em")
    assert res.solver == ("gram" if shape[0] > shape[1] else "dual")
    assert res.diagnostics()["rank"] == (6 if shape[0] > shape[1] else 11)
    assert max(errors(res, oracle(y, x, zero=1e-14), x, y).values()) < FIT


def test_moments_say_where_a_mode_may_be_hidden():
    y, x = twins()
    with pytest.warns(PrecisionWarning, match="not certain|digits"):
        res = BayesRidge.from_moments(Moments.from_arrays(y, x), prior="half-cauchy").fit("em")
    assert any("not certain" in note or "digits" in note for note in res.notes)
    for method, options in (("exact", {}), ("gcv", {"grid": np.logspace(-20, 3, 20)})):
        with pytest.warns(PrecisionWarning, match="not certain|digits"):
            BayesRidge.from_moments(Moments.from_arrays(y, x), prior="half-cauchy").fit(method, **options)


def test_rows_say_where_digits_are_lost_in_spite_of_all():
    y, x = twins(gap=1e-9, size=1e11)
    with pytest.warns(PrecisionWarning, match=r"Rounding errors limit this fit to about [0-7] digits"):
        res = BayesRidge(y, x, prior="half-cauchy").fit("em")
    assert any("Rounding errors" in note for note in res.notes)
    assert errors(res, oracle(y, x), x, y)["sigma2"] < res.precision_loss


@pytest.mark.parametrize("order", "CF")
def test_the_accurate_route_holds_one_array_of_the_size_of_x(order):
    from pybayesridge.ridge.accurate import rotate_accurately
    from tests.ridge.test_spectrum import peak

    rng = np.random.default_rng(0)
    x = np.asarray(rng.standard_normal((100, 20_000)), order=order)
    design, _ = BayesRidge(rng.standard_normal(100), x, prior="half-cauchy")._build()
    assert peak(lambda: rotate_accurately(design)) < SHARE_OF_X * 8 * x.size


@pytest.mark.parametrize("method", ["em", "exact"])
def test_moments_tell_of_digits_lost_at_any_penalty(method):
    # The penalty is large, but U'y divides by singular values of which their squares keep four digits.
    rng = np.random.default_rng(6)
    u, v = (np.linalg.qr(rng.standard_normal((m, 6)))[0] for m in (7, 6))
    x, y = (u * np.logspace(0, -6, 6)) @ v.T, u[:, 0] + 0.2 * rng.standard_normal(7)
    with pytest.warns(PrecisionWarning, match="digits|certain"):
        BayesRidge.from_moments(Moments.from_arrays(y, x)).fit(method)


@pytest.mark.parametrize("gap", [1e-9, 1e-11])
@pytest.mark.parametrize("noise", [1.0, 0.0])
def test_rows_say_where_digits_are_lost_without_a_penalty(gap, noise):
    y, x = twins(gap=gap, size=0.0)
    y = x @ np.arange(1.0, 8.0) + noise * y
    said = [PrecisionWarning] if noise else [PrecisionWarning, DegenerateFitWarning]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        res = BayesRidge(y, x).fit("fixed", lam=0)
    assert {w.category for w in caught} == set(said)
    assert re.search(r"Rounding errors limit this fit to about [0-7] digits", " ".join(res.notes))
    exact = oracle(y, x)
    params = (exact.v @ (exact.z / exact.s) / exact.scale).astype(float)
    error = np.abs(np.asarray(res.params)[1:] - params).max() / np.abs(params).max()
    assert error < res.precision_loss


def test_all_digits_are_there_without_a_penalty_where_columns_are_not_collinear():
    y, x = twins(gap=1.0, size=0.0)
    assert BayesRidge(y, x).fit("fixed", lam=0).precision_loss < FIT


def least_squares(x, y):
    """Coefficients by Gram-Schmidt in extended precision, each projection twice."""
    x, y = x.astype(np.longdouble), y.astype(np.longdouble)
    q, r = np.empty_like(x), np.zeros((x.shape[1], x.shape[1]), dtype=np.longdouble)
    for j in range(x.shape[1]):
        rest = x[:, j].copy()
        for _ in range(2):
            part = q[:, :j].T @ rest
            rest -= q[:, :j] @ part
            r[:j, j] += part
        r[j, j] = np.sqrt(rest @ rest)
        q[:, j] = rest / r[j, j]
    left, out = q.T @ y, np.empty(x.shape[1], dtype=np.longdouble)
    for j in range(x.shape[1])[::-1]:
        out[j] = (left[j] - r[j, j + 1 :] @ out[j + 1 :]) / r[j, j]
    return out.astype(float)


@pytest.mark.parametrize("model", [BayesRidge, SpikeSlab])
@pytest.mark.parametrize("gap", [1e-2, 1e-9, 1e-10])
def test_unpenalised_columns_that_are_nearly_collinear_say_so(model, gap):
    """Their coefficients, with a penalised column that explains nothing, beside least squares."""
    rng = np.random.default_rng(5)
    z = rng.standard_normal((40, 2))
    z[:, 1] = z[:, 0] + gap * z[:, 1]
    y = z[:, 0] + rng.standard_normal(40)
    whole = np.column_stack([np.ones(40), z])
    x = rng.standard_normal(40)
    x -= whole @ least_squares(whole, x)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        res = model(y, np.column_stack([z, x]), unpenalized=["x1", "x2"]).fit("exact")
    truth = least_squares(whole, y - x * float(np.asarray(res.params)[3]))
    error = np.abs(np.asarray(res.params)[:3] / truth - 1).max()
    said = [w for w in caught if issubclass(w.category, PrecisionWarning)]
    assert error <= res.precision_loss
    assert bool(said) == (gap < 1e-8)
    assert all("unpenalised columns are nearly collinear" in str(w.message) for w in said)
