"""Student-t noise: moments of rows, the posterior by quadrature, normal noise as its limit, and results."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad
from scipy.special import logsumexp
from scipy.stats import norm
from scipy.stats import t as student_t

from pybayesridge import BayesRidge, compare_loo, load
from pybayesridge.sites.student import GRID, StudentT, from_responses, noise_of
from pybayesridge.sites.tilted import Cavity

MOMENTS = 1e-7
"""Relative error of moments of rows; the largest seen is 8e-9."""
NORMAL = 4e-3
"""Of normal noise as the limit, in standard deviations and relative: the accuracy of the rules over sigma and the
penalty."""
MEANS, SDS, EVIDENCE = 0.02, 0.03, 0.02
"""Of expectation propagation against quadrature: in standard deviations, relative, and in logarithms."""
OF_MEANS_DRAWN, OF_SDS_DRAWN = 0.1, 0.06
"""Of 40,000 draws of a chain: the largest seen are .03 and .02."""
LEFT_OUT = 0.1
"""Of log densities of rows without themselves: 20,000 draws, and sites of expectation propagation that stay."""

FAR, FAR_EVIDENCE = 1e-3, 0.01
"""Of an outlier at different distances: in standard deviations and relative (worst seen 6e-5), and of the log
evidence, whose rule over sigma is accurate to 1e-3 (worst seen 1e-3)."""

ROUNDING = 1e-12
"""Of sums of log densities; the largest seen is 1e-15."""

SAME = 1e-8
"""Of a mixture against its parts, which are fitted in the same way."""


@pytest.mark.parametrize("df", [3.0, np.inf])
@pytest.mark.parametrize(("copies", "far"), [(1.0, 1.0), (2.0, 1.0), (1.0, 1e100)])
def test_sums_of_rows_are_those_of_their_log_densities(df, copies, far):
    """Also where the product of the densities is no number."""
    rng = np.random.default_rng(0)
    rows = StudentT(far * rng.normal(size=6), np.full(6, copies), df, np.log(0.7), 1.0)
    which, first = np.array([0, 1, 2, 0, 1, 2, 3, 4, 5]), np.array([0, 3, 6])
    eta, more = rng.normal(size=(4, 6)), rng.normal(size=9)
    each = rows.rows(which).values(eta[:, which] + more)
    want = np.stack([each[:, i : i + 3].sum(axis=1) for i in first], axis=1)
    np.testing.assert_allclose(rows.sums(eta, which, more, first), want, rtol=ROUNDING)


@pytest.mark.parametrize("df", [2.0, 4.0, 20.0, np.inf])
@pytest.mark.parametrize(
    ("center", "sd"), [(0.3, 0.2), (0.0, 3.0), (25.0, 0.5), (25.0, 0.1), (30.0, 8.0), (-2.0, 200.0)]
)
@pytest.mark.parametrize("copies", [1.0, 3.0])
def test_moments_of_rows_are_those_of_quadrature(df, center, sd, copies):
    rows = StudentT(np.array([0.5]), np.array([copies]), df, np.log(0.7), 1.0)
    found = rows.tilted(Cavity(np.array([center]), np.array([sd**-2]), np.array([0.0])))

    def log_density(eta):
        z = (0.5 - eta) / 0.7
        own = norm.logpdf(z) if np.isinf(df) else student_t.logpdf(z, df)
        return copies * (own - np.log(0.7)) - 0.5 * ((eta - center) / sd) ** 2

    fine = np.linspace(min(center - 9 * sd, -40.0), max(center + 9 * sd, 40.0), 4001)
    top = max(log_density(eta) for eta in fine)
    breaks = sorted({0.5, center, *np.linspace(-5.0, 6.0, 12), center - 3 * sd, center + 3 * sd})
    ends = [min(fine[0], breaks[0] - 1), *breaks, max(fine[-1], breaks[-1] + 1)]

    def integral(function):
        parts = pairwise(ends)
        return sum(
            quad(lambda eta: function(eta) * np.exp(log_density(eta) - top), a, b, epsabs=1e-14, limit=500)[0]
            for a, b in parts
        )

    total = integral(lambda eta: 1.0)
    mean = integral(lambda eta: eta) / total
    variance = integral(lambda eta: (eta - mean) ** 2) / total
    assert found.log_integral[0] == pytest.approx(top + np.log(total), abs=MOMENTS)
    assert found.mean[0] == pytest.approx(mean, abs=MOMENTS * max(np.sqrt(variance), 1.0))
    assert found.variance[0] == pytest.approx(variance, rel=100 * MOMENTS)
    assert found.site_precision[0] == pytest.approx(1 / variance - sd**-2, abs=1e-5 / variance)


@pytest.mark.parametrize("df", [2.0, 6.0, np.inf])
def test_derivatives_are_those_of_differences(df):
    rows = StudentT(np.array([0.5, -1.0, 30.0]), np.array([1.0, 2.0, 1.0]), df, 0.2, 1.0)
    eta, h = np.array([0.1, 3.0, 0.0]), 1e-4
    up, middle, down = rows.values(eta + h), rows.values(eta), rows.values(eta - h)
    first, second = rows.derivatives(eta)
    np.testing.assert_allclose(first, (up - down) / (2 * h), atol=1e-6)
    np.testing.assert_allclose(second, -(up - 2 * middle + down) / h**2, atol=1e-5)


def problem(n, p, seed=0, df=3.0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, p))
    return x, 3.0 + x @ rng.standard_normal(p) + rng.standard_t(df, n)


@pytest.mark.parametrize(("n", "p"), [(40, 3), (20, 40)])
def test_infinite_degrees_of_freedom_are_normal_noise(n, p):
    x, y = problem(n, p)
    normal, found = BayesRidge(y, x).fit(), BayesRidge(y, x, family="student-t", df=np.inf).fit()
    assert found.log_marginal == pytest.approx(normal.log_marginal, abs=NORMAL)
    np.testing.assert_allclose((found.params - normal.params) / normal.bse, 0, atol=2 * NORMAL)
    np.testing.assert_allclose(found.bse, normal.bse, rtol=2 * NORMAL)


def by_quadrature(y, x, df):
    """Mean, standard deviation and log evidence of one coefficient without an intercept, on a grid of three."""
    scale = np.sqrt((x**2).mean())
    b = np.linspace(-3.0, 5.0, 801)
    u, r = np.linspace(-3.5, 2.5, 121), np.linspace(-14.0, 14.0, 141)
    z = (y[:, None, None] - x[:, None, None] * b[None, :, None] / scale) / np.exp(u)
    rows = (student_t.logpdf(z, df) - u).sum(axis=0)
    # r is the log of the ratio of the prior variance of b to sigma^2: beta-prime(1/2, 1/2).
    of_r = 0.5 * r - np.logaddexp(0.0, r) - np.log(np.pi)
    sd = np.exp(u[:, None] + 0.5 * r)
    of_b = logsumexp(norm.logpdf(b[:, None, None], scale=sd) + of_r, axis=2) + np.log(r[1] - r[0])
    log = rows + of_b + np.log(2.0)
    weight = np.exp(log - log.max())
    share = weight.sum(axis=1) / weight.sum()
    mean = share @ b
    log_evidence = log.max() + np.log(weight.sum() * (b[1] - b[0]) * (u[1] - u[0]))
    return mean / scale, np.sqrt(share @ (b - mean) ** 2) / scale, log_evidence


@pytest.mark.parametrize("df", [3.0, 6.0])
@pytest.mark.parametrize("leverage", [None, 4.0])
def test_posterior_is_that_of_quadrature(df, leverage):
    """With an outlier, also one far from the others in its column, of which least squares makes most."""
    rng = np.random.default_rng(2)
    x = rng.standard_normal(20)
    y = 0.8 * x + rng.standard_t(3, 20)
    y[0] += 8.0
    if leverage:
        x[0], y[0] = leverage, -2 * leverage
    mean, sd, log_evidence = by_quadrature(y, x, df)
    res = BayesRidge(y, x[:, None], intercept=False, family="student-t", df=df).fit()
    assert res.converged
    assert (res.params.iloc[0] - mean) / sd == pytest.approx(0, abs=MEANS)
    assert res.bse.iloc[0] == pytest.approx(sd, rel=SDS)
    assert res.log_marginal == pytest.approx(log_evidence, abs=EVIDENCE)


def drawn(y, x, df, size, seed):
    """Draws of the coefficients, without an intercept among them, by Gibbs' sampler: t noise as a mixture of normals.

    The ratio of the variance that the columns explain and sigma^2 is beta-prime(1/2, 1/2): of such a variable given
    another, both are inverse gamma.
    """
    rng, (n, p) = np.random.default_rng(seed), x.shape
    rows = np.c_[np.ones(n), (x - x.mean(axis=0)) / x.std(axis=0)]
    variance, ratio, other, weight, out = float(np.var(y)), 1.0, 1.0, np.ones(n), np.empty((size, p))
    for i in range(-1000, size):
        precision = rows.T @ (weight[:, None] * rows) + np.diag(np.r_[0.0, np.full(p, p / ratio)])
        noise = np.linalg.solve(np.linalg.cholesky(precision).T, rng.standard_normal(p + 1))
        b = np.linalg.solve(precision, rows.T @ (weight * y)) + np.sqrt(variance) * noise
        square, away = p * b[1:] @ b[1:], y - rows @ b
        variance = 0.5 * (weight @ away**2 + square / ratio) / rng.gamma(0.5 * (n + p))
        ratio = (1.0 / other + 0.5 * square / variance) / rng.gamma(0.5 * (p + 1))
        other = (1.0 + 1.0 / ratio) / rng.gamma(1.0)
        weight = rng.gamma(0.5 * (df + 1.0), size=n) / (0.5 * (df + away**2 / variance))
        if i >= 0:
            out[i] = b[1:] / x.std(axis=0)
    return out


def test_few_rows_and_heavy_tails():
    """Where sigma is far below its most probable values there are several tops, and sweeps may not settle."""
    rng = np.random.default_rng(301)
    x = rng.standard_normal((30, 12))
    y = x @ rng.standard_normal(12) + rng.standard_t(3.0, 30)
    res = BayesRidge(y, x, family="student-t", df=2).fit()
    assert res.converged
    draws = drawn(y, x, 2.0, 40_000, 301)
    sd = draws.std(axis=0)
    np.testing.assert_allclose((res.params.to_numpy()[1:] - draws.mean(axis=0)) / sd, 0, atol=OF_MEANS_DRAWN)
    np.testing.assert_allclose(res.bse.to_numpy()[1:], sd, rtol=OF_SDS_DRAWN)


@pytest.mark.parametrize(
    ("rows", "note"), [(30, "means may be off by some tenths"), (400, "a few per cent too small")]
)
def test_laplace_says_how_far_off_it_may_be(rows, note):
    rng = np.random.default_rng(301)
    x = rng.standard_normal((rows, 12))
    y = x @ rng.standard_normal(12) + rng.standard_t(3.0, rows)
    fast, res = (BayesRidge(y, x, family="student-t", df=2).fit(method) for method in ("laplace", "ep"))
    off, ratio = float(np.abs((fast.params - res.params) / res.bse).max()), float((fast.bse / res.bse).min())
    assert (0.1 < off < 0.5 and 0.75 < ratio < 0.95) if rows == 30 else (off < 0.1 and ratio > 0.95)
    assert note in " ".join(str(fast.summary()).split())
    assert "Laplace" not in str(res.summary())


def test_degrees_of_freedom_are_averaged_over():
    x, y = problem(30, 2)
    res = BayesRidge(y, x, family="student-t").fit("laplace")
    parts = [BayesRidge(y, x, family="student-t", df=df).fit("laplace") for df in GRID]
    evidence = np.array([part.log_marginal for part in parts])
    share = np.exp(evidence - logsumexp(evidence))
    assert res.log_marginal == pytest.approx(logsumexp(evidence) - np.log(len(GRID)), abs=SAME)
    np.testing.assert_allclose(res.params, share @ np.stack([part.params for part in parts]), rtol=1e-6)
    table = res.hyperparameters()
    assert list(table.index) == ["lambda", "tau2", "df_model", "sigma", "df"]
    cumulative = np.cumsum(share)
    assert table.loc["df", "median"] == GRID[int(np.searchsorted(cumulative, 0.5))]
    assert table.loc["df", "upper"] == GRID[int(np.searchsorted(cumulative, 0.975))]


def test_units_of_the_response_do_not_matter():
    x, y = problem(40, 2)
    one = BayesRidge(y, x, family="student-t", df=3).fit()
    for factor in (1e-7, 1e7):
        other = BayesRidge(factor * y, x, family="student-t", df=3).fit()
        np.testing.assert_allclose((other.params / factor - one.params) / one.bse, 0, atol=1e-3)
        np.testing.assert_allclose(other.bse / factor, one.bse, rtol=1e-3)


@pytest.mark.parametrize("method", ["ep", "laplace"])
def test_an_outlier_counts_the_less_the_further_it_is_away(method):
    """Where it is far away the posterior is that without it, times the density of its tail, which is as flat."""
    x, y = problem(40, 2)
    fits = []
    for distance in (1e4, 1e8):
        y[3] = distance
        fits.append(BayesRidge(y, x, family="student-t", df=3).fit(method))
    near, far = fits
    assert near.converged
    assert far.converged
    np.testing.assert_allclose((near.params - far.params) / far.bse, 0, atol=FAR)
    np.testing.assert_allclose(near.bse, far.bse, rtol=FAR)
    # Of the tail, in log y, with 3 degrees of freedom.
    assert near.log_marginal - far.log_marginal == pytest.approx(4.0 * np.log(1e4), abs=FAR_EVIDENCE)


def test_weights_are_frequencies():
    x, y = problem(30, 2)
    weighted = BayesRidge(y, x, family="student-t", df=4, weights=np.full(30, 2.0)).fit()
    twice = BayesRidge(np.tile(y, 2), np.tile(x, (2, 1)), family="student-t", df=4).fit()
    np.testing.assert_allclose((weighted.params - twice.params) / twice.bse, 0, atol=1e-2)
    np.testing.assert_allclose(weighted.bse, twice.bse, rtol=1e-2)


def density_without(x, y, i, **options):
    """Log predictive density of a row by a fit without it, by draws."""
    keep = np.arange(y.size) != i
    rest = BayesRidge(y[keep], x[keep], family="student-t", standardize=False, **options).fit()
    draws = rest.sample(20_000, rng=0, hyper_columns=True)
    z = (y[i] - draws["const"] - draws[[c for c in draws if c.startswith("x")]] @ x[i]) / draws["sigma"]
    df = draws["df"].to_numpy() if "df" in draws else np.full(z.size, options["df"])
    finite = np.where(np.isfinite(df), df, 1.0)
    return np.log(np.mean(np.where(np.isfinite(df), student_t.pdf(z, finite), norm.pdf(z)) / draws["sigma"]))


def test_leave_one_out_is_that_of_fits_without_the_row():
    x, y = problem(25, 1)
    y[3] += 9.0
    res = BayesRidge(y, x, family="student-t", df=4, standardize=False).fit()
    found = res.loo().pointwise
    for i in (0, 3):
        assert found.iloc[i] == pytest.approx(density_without(x, y, i, df=4), abs=LEFT_OUT)


def test_leave_one_out_where_a_cavity_is_no_density():
    """Of row 34 at values of sigma and df with next to no weight, where sites of other rows are negative."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(40, 2))
    y = x @ [1.0, -1.0] + 0.3 * rng.normal(size=40)
    found = BayesRidge(y, x, family="student-t", standardize=False).fit().loo().pointwise
    for i in (0, 34):
        assert found.iloc[i] == pytest.approx(density_without(x, y, i), abs=LEFT_OUT)


def test_results_answer(tmp_path):
    x, y = problem(40, 2)
    frame = pd.DataFrame(x, columns=["a", "b"]).assign(y=y, g=np.repeat(["u", "v"], 20))
    model = BayesRidge.from_formula("y ~ a + b + C(g)", frame, family="student-t")
    res = model.fit()
    kept = load(res.save(tmp_path / "fit.zip") or tmp_path / "fit.zip")
    new = frame.head(3)
    pd.testing.assert_frame_equal(kept.get_prediction(new).summary_frame(), res.get_prediction(new).summary_frame())
    np.testing.assert_allclose(res.predict(new), res.predict(new, which="linear"), rtol=1e-6)
    assert not hasattr(res, "n_events")
    assert "student-t" in str(res.summary())
    assert "density of the responses." in str(res.summary())
    drawn = res.sample(50, rng=1, hyper_columns=True)
    assert {"tau2", "sigma", "df"} <= set(drawn.columns)
    assert set(drawn["df"]) <= set(GRID)
    assert 0.02 < res.ppc(rng=0).loc["mean", "p"] < 0.98
    normal = BayesRidge.from_formula("y ~ a + b + C(g)", frame).fit()
    assert set(compare_loo({"t": res, "normal": normal}).index) == {"t", "normal"}


def test_draws_of_noise_are_those_of_the_distribution():
    rng = np.random.default_rng(0)
    drawn = noise_of(np.array([[3.0], [np.inf]]), (2, 40_000), rng)
    at = np.array([0.1, 0.5, 0.9])
    np.testing.assert_allclose(np.quantile(drawn[0], at), student_t.ppf(at, 3), atol=0.04)
    np.testing.assert_allclose(np.quantile(drawn[1], at), norm.ppf(at), atol=0.04)


def test_what_cannot_be_done_is_refused():
    x, y = problem(20, 1)
    with pytest.raises(ValueError, match="df must be above 1 and at most 1000, or inf for normal noise"):
        BayesRidge(y, x, family="student-t", df=0.5)
    with pytest.raises(ValueError, match="df requires family='student-t'"):
        BayesRidge(y, x, df=4.0)
    with pytest.raises(ValueError, match=r"whose penalty is relative to the unknown scale .* use 'ep' or 'laplace'"):
        BayesRidge(y, x, family="student-t").fit("em")
    with pytest.raises(ValueError, match="12 of 20 responses are 1: Student-t noise of scale 0"):
        BayesRidge(np.r_[np.ones(12), y[:8]], x, family="student-t")
    with pytest.raises(ValueError, match="pit\\(\\) is for Gaussian responses"):
        BayesRidge(y, x, family="student-t", df=4).fit("laplace").pit()
    rows = from_responses(y, None, None)
    assert np.isnan(rows.df)
    assert len(rows.forms()) == len(GRID)


@pytest.mark.parametrize("rows", [10, 30])
def test_responses_that_the_columns_explain_exactly_are_refused(rows):
    x = np.random.default_rng(0).standard_normal((rows, 4))
    with pytest.raises(
        ValueError,
        match=r"the columns explain (the responses but for next to no noise|too many of the responses without error)",
    ):
        BayesRidge(x[:, 0], x, family="student-t", df=4).fit("laplace")
