"""Models from correlations and marginal regressions, beside the fits from the rows behind them."""

import warnings

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

from pybayesridge import BayesRidge, InconsistentSummaryWarning, Moments, SpikeSlab

SAME = 1e-9
"""A fit from summary statistics beside the fit from rows."""

NAMES = ["rs1", "rs2", "rs3", "rs4", "rs5", "rs6"]


@pytest.fixture(scope="module")
def study():
    """Rows, their correlation matrix, and statsmodels' marginal regressions."""
    rng = np.random.default_rng(8)
    n, p = 400, len(NAMES)
    factor = rng.standard_normal((n, 1))
    x = (0.7 * factor + rng.standard_normal((n, p))) * np.array([1.0, 0.3, 2.0, 5.0, 0.1, 1.0]) + 4.0
    y = 0.4 * x[:, 1] - 0.5 * x[:, 2] + 2.0 * rng.standard_normal(n)
    fits = [sm.OLS(y, sm.add_constant(x[:, j])).fit() for j in range(p)]
    table = pd.DataFrame(
        {"beta": [f.params[1] for f in fits], "se": [f.bse[1] for f in fits], "z": [f.tvalues[1] for f in fits]},
        index=NAMES,
    )
    r = pd.DataFrame(np.corrcoef(x.T), index=NAMES, columns=NAMES)
    return y, pd.DataFrame(x, columns=NAMES), r, table


def test_estimates_and_errors_give_the_moments_of_the_rows(study):
    y, x, r, table = study
    m = Moments.from_summary(r, estimates=table["beta"], se=table["se"], n=len(y), var_y=y.var(ddof=1))
    rows = Moments.from_arrays(y, x)
    for name in ("xx", "xy", "yy"):
        np.testing.assert_allclose(getattr(m, name), getattr(rows, name), rtol=1e-11)
    for cls in (BayesRidge, SpikeSlab):
        wanted, res = cls(y, x).fit(), cls.from_moments(m).fit()
        np.testing.assert_allclose(res.params.iloc[1:], wanted.params.iloc[1:], rtol=SAME, atol=1e-12)
        np.testing.assert_allclose(res.bse.iloc[1:], wanted.bse.iloc[1:], rtol=SAME)
        assert list(res.params.index) == ["const", *NAMES]
        assert res.params["const"] == 0.0
    np.testing.assert_allclose(res.inclusion_prob, wanted.inclusion_prob, rtol=SAME)


def test_z_scores_give_the_standardised_model(study):
    y, x, r, table = study
    res = SpikeSlab.from_moments(Moments.from_summary(r, table["z"], n=len(y))).fit()
    standard = (x - x.mean()) / x.std()
    wanted = SpikeSlab((y - y.mean()) / y.std(ddof=1), standard).fit()
    np.testing.assert_allclose(res.inclusion_prob, wanted.inclusion_prob, rtol=SAME)
    np.testing.assert_allclose(res.params.iloc[1:], wanted.params.iloc[1:], rtol=SAME, atol=1e-12)
    np.testing.assert_allclose(res.log_evidence, wanted.log_evidence, rtol=SAME)


def test_covariates_cost_a_row_each(study):
    y, x, _, _ = study
    rng = np.random.default_rng(0)
    c = rng.standard_normal((len(y), 2))
    z = np.column_stack([np.ones(len(y)), c])

    def outside(a):
        return a - z @ np.linalg.lstsq(z, a, rcond=None)[0]

    y = y + c @ [1.0, 2.0]
    res_y, res_x = outside(y), outside(x.to_numpy())
    fits = [sm.OLS(y, np.column_stack([z, x.iloc[:, j]])).fit() for j in range(x.shape[1])]
    m = Moments.from_summary(
        np.corrcoef(res_x.T),
        estimates=[f.params[-1] for f in fits],
        se=[f.bse[-1] for f in fits],
        n=len(y) - 2,
        var_y=res_y @ res_y / (len(y) - 3),
    )
    res = BayesRidge.from_moments(m).fit()
    frame = x.assign(c1=c[:, 0], c2=c[:, 1])
    # The scale of "r2" divides by n, which is less by the covariates in what only the moments know.
    prior = (0.5, 0.5, len(y) / (res_x**2).sum())
    # Standard deviations of columns are those outside the covariates here, so compare on the columns' own scale.
    wanted = BayesRidge(y, frame, unpenalized=["c1", "c2"], standardize=False, prior=prior).fit()
    own = BayesRidge.from_moments(m, standardize=False, prior=prior).fit()
    np.testing.assert_allclose(own.bse.iloc[1:], wanted.bse[NAMES], rtol=SAME)
    np.testing.assert_allclose(own.params.iloc[1:], wanted.params[NAMES], rtol=SAME, atol=1e-12)
    assert res.nobs == len(y) - 2


def bad(r, i, j, value, *, symmetric=True):
    out = r.copy()
    out.iloc[i, j] = value
    if symmetric:
        out.iloc[j, i] = value
    return out


def test_what_is_no_correlation_matrix_is_refused(study):
    _, _, r, table = study
    z, n = table["z"], 400
    cases = [
        (bad(r, 1, 3, 0.9, symmetric=False), r"not symmetric: between 'rs2' and 'rs4'"),
        (bad(r, 2, 2, 1.3), r"diagonal of correlation is not 1 for 'rs3' \(the first is 1.3\)"),
        (bad(r, 0, 5, np.nan), r"not finite, of 'rs1', 'rs6'"),
        (bad(r, 0, 5, 1.2), r"entries beyond 1, of 'rs1', 'rs6'"),
        (bad(bad(r, 0, 1, 0.99), 0, 2, -0.99), r"negative eigenvalue .* shrink="),
        (r.to_numpy()[:, :3], "must be a square matrix"),
        (r.iloc[::-1], "different names, or another order"),
    ]
    for matrix, told in cases:
        with pytest.raises(ValueError, match=told):
            Moments.from_summary(matrix, z, n=n)
    with pytest.raises(ValueError, match="the labels of z and correlation differ"):
        Moments.from_summary(r, z.iloc[::-1], n=n)
    with pytest.raises(ValueError, match="z is not finite for 'rs2'"):
        Moments.from_summary(r, z.where(z.index != "rs2"), n=n)
    with pytest.raises(ValueError, match="se must be positive; that of 'rs1'"):
        Moments.from_summary(r, estimates=table["beta"], se=table["se"] * np.r_[0, np.ones(5)], n=n)
    with pytest.raises(ValueError, match="give either z, or estimates and se"):
        Moments.from_summary(r, n=n)
    with pytest.raises(ValueError, match="estimates and se must be given together"):
        Moments.from_summary(r, estimates=table["beta"], n=n)
    with pytest.raises(ValueError, match="var_y requires estimates and se"):
        Moments.from_summary(r, z, n=n, var_y=2.0)
    with pytest.raises(ValueError, match="n must be an integer of at least 3"):
        Moments.from_summary(r, z, n=2)
    with pytest.raises(ValueError, match="shrink must lie between 0 and 1"):
        Moments.from_summary(r, z, n=n, shrink=2.0)
    with pytest.raises(ValueError, match="5 names for 6 columns"):
        Moments.from_summary(r, z, n=n, names=NAMES[:5])


def test_scores_that_contradict_the_correlations_are_refused_or_told(study):
    y, x, _, _ = study
    x = x.copy()
    x["rs7"] = x["rs3"] + 0.05 * np.random.default_rng(1).standard_normal(len(y))
    r = x.corr()
    z = np.array([sm.OLS(y, sm.add_constant(x[c])).fit().tvalues.iloc[1] for c in x])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Moments.from_summary(r, z, n=len(y))
    swapped = z * np.where(x.columns == "rs7", -1, 1)
    with pytest.raises(
        ValueError, match=r"together the columns would explain .* % .*'rs[37]', 'rs[37]'.*shrink.*z of .*'rs7'"
    ):
        Moments.from_summary(r, swapped, n=len(y))
    x["rs7"] = x["rs3"] + 4.0 * np.random.default_rng(1).standard_normal(len(y))
    r = x.corr()
    z = np.array([sm.OLS(y, sm.add_constant(x[c])).fit().tvalues.iloc[1] for c in x])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Moments.from_summary(r, z, n=len(y))
    with pytest.warns(InconsistentSummaryWarning, match=r"^z of 'rs7' is far .* check which allele"):
        Moments.from_summary(r, z * np.where(x.columns == "rs7", -1, 1), n=len(y))


def test_a_copy_must_have_the_score_of_its_original(study):
    y, x, _, table = study
    r = pd.concat([x, x[["rs1"]].set_axis(["copy"], axis=1)], axis=1).corr()
    z = np.r_[table["z"], table["z"]["rs1"]]
    res = SpikeSlab.from_moments(Moments.from_summary(r, z, n=len(y))).fit()
    assert res.inclusion_prob["copy"] == pytest.approx(res.inclusion_prob["rs1"], rel=1e-6)
    with pytest.raises(
        ValueError, match=r"contradict the correlations: columns that are combinations .*'(rs1|copy)'"
    ):
        Moments.from_summary(r, z + np.r_[np.zeros(6), 1.0], n=len(y))
    with_shrink = Moments.from_summary(r, z + np.r_[np.zeros(6), 1.0], n=len(y), shrink=0.1)
    assert np.isfinite(SpikeSlab.from_moments(with_shrink).fit().params).all()
