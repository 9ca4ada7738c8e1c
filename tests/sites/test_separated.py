"""Ridges whose penalised columns separate the responses, completely or in part."""

import numpy as np
import pytest
from scipy.special import expit

from pybayesridge import BayesRidge
from pybayesridge.binomial.likelihood import from_counts
from pybayesridge.sites.separation import dimensions

PARTLY = (
    [10, 1, 0],
    [11, 5, 10],
    [[1.0848958556810813, -0.9398651931847889], [-1.3639584946563186, -2.017263121871943],
     [-1.1129982414406125, 0.4598776571958615]],
    1.5,
)  # fmt: skip
MOSTLY = (
    [3, 10, 0, 0, 0, 0],
    [4, 10, 2, 11, 3, 2],
    [[0.13469396068016204, -1.6363709534235298], [0.49080973891268287, -1.0033205984711078],
     [-0.21468097281158052, 0.8512766946432606], [-0.7063052980696701, -0.12511917354415544],
     [-0.4401475385361945, 0.5403207333589821], [-1.1522202183142367, -1.5511868223239949]],
    1.0,
)  # fmt: skip
"""Successes, trials, columns, and the rate at which the density of log t2 falls."""

THREE = (
    np.array([[0.87461947, -0.03703349], [-1.93076857, -0.00530979], [-0.93343694, -0.17405323]]),
    np.array([2.0, 6.0, 0.0]),
    np.array([8.0, 7.0, 3.0]),
    np.array([2.0, 3.0, 1.0]),
)

SLOPE_TOL = 1e-3
"""Of the slope of the log posterior at its mode, relative to that of the likelihood, and of standard deviations."""

SAME = 2.5e-5
"""Of posterior means and standard deviations with rows in another order, in standard deviations: sites settle on
another way. Worst seen 2.4e-6, without AVX."""


@pytest.mark.parametrize("link", ["logit", "probit"])
@pytest.mark.parametrize("how", ["trials", "weights", "copies"])
@pytest.mark.parametrize("data", [PARTLY, MOSTLY], ids=["partly", "mostly"])
@pytest.mark.filterwarnings("ignore::pybayesridge.ConvergenceWarning")
def test_rows_of_few_kinds_have_an_answer(link, how, data):
    k, m, x = (np.array(a) for a in data[:3])
    if how == "trials":
        model = BayesRidge(k, x, trials=m, family="binomial", link=link)
    else:
        of, counts = np.tile(np.arange(len(k)), 2), np.concatenate([k, m - k])
        y = np.repeat([1.0, 0.0], len(k))
        kept = counts > 0
        if how == "weights":
            model = BayesRidge(y[kept], x[of[kept]], weights=counts[kept].astype(float), family="binomial", link=link)
        else:
            model = BayesRidge(np.repeat(y, counts), x[np.repeat(of, counts)], family="binomial", link=link)
    res = model.fit()
    # There EP does not settle far in the tail, at a weight of 3e-9, and the fit says so.
    assert res.converged or (link, how, data) == ("probit", "copies", MOSTLY)
    assert res.sites_fit.fall == pytest.approx(data[3], abs=1e-12)
    assert np.isfinite(res.conf_int().to_numpy()).all()
    # The variance of the coefficients exists where the density falls faster than t2 grows.
    assert np.isfinite(res.bse.to_numpy()).all() == (data[3] > 1)


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0], [1, 2, 0]])
def test_the_order_of_separated_rows_does_not_matter(order):
    x, k, m, w = THREE

    def moments(which):
        model = BayesRidge(k[which], x[which], trials=m[which], weights=w[which], family="binomial")
        res = model.fit(tol=1e-8)
        return res.params.to_numpy(), res.bse.to_numpy()

    (a, s), (b, t) = moments(np.arange(3)), moments(np.array(order))
    assert np.abs((a - b) / s).max() <= SAME
    assert np.abs(t / s - 1).max() <= SAME


@pytest.mark.parametrize("unit", [1.0, 10.0])
@pytest.mark.parametrize("backwards", [False, True])
def test_whether_moments_exist_depends_on_neither_order_nor_units(unit, backwards):
    """The tail falls exactly as fast as variances grow: they do not exist."""
    x = np.array(
        [[134.5, -0.00609], [-207.7, -0.0078], [-136.4, -0.1275], [55.4, 0.0867], [31.45, -0.1064], [5.595, 0.1445],
         [188.3, -0.0324], [-29.45, 0.0140]]
    )  # fmt: skip
    k, m = np.array([0.0, 1, 0, 1, 0, 1, 0, 2]), np.array([1.0, 1, 2, 1, 2, 1, 1, 3])
    rows = np.arange(8)[::-1] if backwards else np.arange(8)
    res = BayesRidge(k[rows], x[rows] * [unit, unit**2] + unit - 1, trials=m[rows], family="binomial").fit()
    assert res.sites_fit.fall == pytest.approx(1.0, abs=1e-12)
    assert np.isfinite(res.params.to_numpy()).all()
    assert np.isinf(res.bse.to_numpy()).all()


LINE = np.array([-2.0, -1.0, -1.0, 1.0, 1.0, 2.0])


@pytest.mark.parametrize(
    ("columns", "y", "wanted"),
    [
        ([np.ones(6), LINE], [0.0, 0, 0, 1, 1, 1], 2),
        ([np.ones(6), LINE], [0.0, 0, 0, 0, 1, 1], 1),
        ([np.ones(6), LINE], [0.0, 1, 0, 0, 1, 0], 0),
        ([np.ones(6), LINE, [0.0, 0, 0, 0, 0, 1]], [0.0, 1, 0, 0, 1, 0], 1),
        (list(np.eye(6)), [0.0, 1, 0, 0, 1, 0], 6),
    ],
    ids=["complete", "up to ties", "overlap", "one row by itself", "as many columns as rows"],
)
def test_dimensions_of_the_directions_that_separate(columns, y, wanted):
    assert dimensions(np.column_stack(columns), from_counts(np.array(y), None, None, "logit")) == wanted


def test_a_penalty_that_rounding_outweighs_is_refused():
    x, k, m, w = THREE
    with pytest.raises(ValueError, match="a penalty of 1e-20 is too small"):
        BayesRidge(k, x, trials=m, weights=w, family="binomial").fit("fixed", lam=1e-20)


@pytest.mark.parametrize("lam", [1e-2, 1e-8, 1e-14, 1e-18, 1e-25, 1e-50, 1e-100])
def test_laplace_at_a_given_penalty_has_the_mode_and_its_curvature(lam):
    """Within a standard deviation of the mode the curvature changes by orders of magnitude."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=40)
    x = (x - x.mean()) / x.std()
    y = (x > 0.1).astype(float)
    res = BayesRidge(y, x[:, None], family="binomial").fit("fixed", lam=lam, solver="laplace")
    columns = np.column_stack([np.ones(40), x])
    sign = 2 * y - 1
    eta = columns @ res.params.to_numpy()
    missed = expit(-sign * eta)
    slope = columns.T @ (sign * missed) - np.array([0.0, lam * res.params.iloc[1]])
    assert np.abs(slope).max() <= SLOPE_TOL * np.abs(columns.T * missed).sum()
    curvature = (columns.T * (missed * (1 - missed))) @ columns + np.diag([0.0, lam])
    np.testing.assert_allclose(res.bse, np.sqrt(np.diag(np.linalg.inv(curvature))), rtol=SLOPE_TOL)
    assert res.converged
