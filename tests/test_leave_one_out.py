"""Leave-one-out predictive scores against refitting without each row."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.special import gammaln, logsumexp
from scipy.stats import norm, t

from pybayesridge import BayesRidge, ConvergenceWarning, PrecisionWarning, SpikeSlab, compare_loo
from pybayesridge.binomial.likelihood import Binomial
from pybayesridge.binomial.link import log_likelihood
from pybayesridge.binomial.states import _sum_of_exponentials, log_mean_inverse
from pybayesridge.posterior.left_out import LeftOut
from pybayesridge.selection.grid import further
from pybayesridge.selection.left_out import _pieces, _with_walks
from pybayesridge.selection.left_out_summed import AllSets
from pybayesridge.selection.left_out_unseen import Added
from pybayesridge.selection.left_out_walked import walked
from tests.fuzz.sets import left_out_by_sum, make_sets

EQUAL = 1e-11
"""Of closed forms: 2e-14 at the worst seen."""

QUADRATURE = 1e-5
"""With the penalty integrated out: 5e-7 at the worst seen, of a row six standard deviations away."""

SUM = 1e-6
"""Over all sets and the nodes of their hyperparameters, of which some of negligible weight are not kept."""

ALL = 1e-5
"""Over all sets, but for those that are found negligible at some of the nodes: 1e-6 at the worst seen."""

INTEGRAL = 1e-6
"""By Gauss-Hermite quadrature."""

STATED, UNSEEN = 6.0, 0.02
"""Differences in stated errors, and below which they do not matter: .0073 at the worst seen."""

FAR = 0.15
"""Where sets that differ in many columns are searched for: .055 at the worst seen, .36 without a search."""

UNSEEN_ORDINARY = 0.2

KEPT = 5e-6
"""By the kept states, which have all but 1e-9 of the posterior probability: 4e-7 at the worst seen."""

WALKED, BY_WALK = 0.5, 0.01
"""What a walk without a row may say of its own error, .08 at the worst seen; and other numbers: .0007 there."""

MONTE_CARLO = 0.2
"""By the states of a sampler."""

N, P = 11, 3


@pytest.fixture(scope="module")
def rows():
    """Correlated columns, an unpenalised one, weights, and a row far away."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(N, P))
    x[:, 1] += x[:, 0]
    z = rng.normal(size=N)
    y = x @ [1, 0, -0.5] + z + rng.normal(size=N)
    y[3] += 6
    weight = rng.uniform(0.5, 2, N)
    return y, x, np.column_stack([np.ones(N), z]), weight / weight.mean()


def log_marginal(y, x, z, weight, t2):
    """Log p(y) of y = z a + x b + noise: a flat, b ~ N(0, t2 s2), s2 under 1 / s2 and integrated out."""
    root = np.linalg.cholesky(np.diag(1 / weight) + t2 * x @ x.T)
    half, r = np.linalg.solve(root, z), np.linalg.solve(root, y)
    rest = r - half @ np.linalg.lstsq(half, r, rcond=None)[0]
    nu = len(y) - z.shape[1]
    determinant = np.log(np.diag(root)).sum() + 0.5 * np.linalg.slogdet(half.T @ half)[1]
    return gammaln(nu / 2) - nu / 2 * np.log(np.pi * (rest @ rest)) - determinant


def log_marginal_known(y, x, z, weight, t2, s2):
    """The same with s2 known."""
    root = np.linalg.cholesky(s2 * (np.diag(1 / weight) + t2 * x @ x.T))
    half, r = np.linalg.solve(root, z), np.linalg.solve(root, y)
    rest = r - half @ np.linalg.lstsq(half, r, rcond=None)[0]
    nu = len(y) - z.shape[1]
    determinant = np.log(np.diag(root)).sum() + 0.5 * np.linalg.slogdet(half.T @ half)[1]
    return -nu / 2 * np.log(2 * np.pi) - rest @ rest / 2 - determinant


def without(log_p, data):
    """Log p(y) - log p(y without row i) of every row."""
    n = len(data[0])
    return log_p(*data) - np.array([log_p(*(np.delete(a, i, axis=0) for a in data)) for i in range(n)])


def prediction_without(i, y, x, z, weight, t2):
    """Centre, squared scale and degrees of freedom of the t prediction of row i, by least squares on the others."""
    rest = np.arange(len(y)) != i
    root = np.sqrt(weight[rest])[:, None]
    design = np.vstack([np.hstack([z[rest], x[rest]]) * root, np.eye(z.shape[1] + P)[z.shape[1] :] / np.sqrt(t2)])
    response = np.concatenate([y[rest] * root[:, 0], np.zeros(P)])
    found = np.linalg.lstsq(design, response, rcond=None)[0]
    row, nu = np.concatenate([z[i], x[i]]), rest.sum() - z.shape[1]
    s2 = ((response - design @ found) ** 2).sum()
    factor = 1 / weight[i] + row @ np.linalg.solve(design.T @ design, row)
    return row @ found, s2 / nu * factor, s2 * factor, nu


def ridge(rows, **kwargs):
    y, x, z, weight = rows
    options = {"standardize": False, "prior": "half-cauchy"} | kwargs
    return BayesRidge(y, np.column_stack([x, z[:, 1]]), unpenalized=[P], weights=weight, **options)


@pytest.mark.filterwarnings("ignore::pybayesridge.GridEdgeWarning", "ignore::pybayesridge.DegenerateFitWarning")
@pytest.mark.every_case
@pytest.mark.parametrize(("method", "options"), [("fixed", {"lam": 0.7}), ("loocv", {}), ("gcv", {})])
def test_a_penalty_that_is_held(rows, method, options):
    fit = ridge(rows).fit(method, **options)
    score = fit.loo()
    expected = without(lambda *data: log_marginal(*data, fit.tau2), rows)
    assert score.pointwise.to_numpy() == pytest.approx(expected, abs=EQUAL)
    assert score.elpd == pytest.approx(expected.sum(), abs=EQUAL * N)
    assert score.se == pytest.approx(np.sqrt(N) * expected.std(ddof=1), abs=EQUAL * N)
    assert score.n_eff is None
    for i in (0, 3):
        center, scale2, _, df = prediction_without(i, *rows, fit.tau2)
        assert score.predicted[i] == pytest.approx(center, abs=EQUAL)
        assert fit.pit()[i] == pytest.approx(t(df, center, np.sqrt(scale2)).cdf(rows[0][i]), abs=EQUAL)


def test_the_mode_of_the_noise_is_that_of_the_other_rows(rows):
    y = rows[0].copy()
    y[3] -= 6
    fit = ridge((y, *rows[1:])).fit("em")
    score = fit.loo()
    for i in range(N):
        center, _, size, df = prediction_without(i, y, *rows[1:], fit.tau2)
        law = norm(center, np.sqrt(size / (df + 2)))
        assert score.pointwise[i] == pytest.approx(law.logpdf(y[i]), abs=EQUAL)
        assert score.pit[i] == pytest.approx(law.cdf(y[i]), abs=EQUAL)


def test_a_penalty_integrated_out(rows):
    """Against a sum over a wide grid of log tau2; a priori tau is half-Cauchy."""
    at = np.linspace(-25, 25, 401)
    prior = 0.5 * at - np.log1p(np.exp(at))

    def log_p(*data):
        return logsumexp([log_marginal(*data, np.exp(each)) + log_w for each, log_w in zip(at, prior, strict=True)])

    fit = ridge(rows).fit()
    assert fit.loo().pointwise.to_numpy() == pytest.approx(without(log_p, rows), abs=QUADRATURE)
    others = [np.delete(a, 3, axis=0) for a in rows]
    log_w = np.array([log_marginal(*others, np.exp(each)) for each in at]) + prior
    share = np.exp(log_w - logsumexp(log_w))
    laws = [prediction_without(3, *rows, np.exp(each)) for each in at]
    below = sum(w * t(df, c, np.sqrt(s2)).cdf(rows[0][3]) for w, (c, s2, _, df) in zip(share, laws, strict=True))
    assert fit.pit()[3] == pytest.approx(below, abs=QUADRATURE)


def test_known_noise_and_predictions_within(rows):
    fit = ridge(rows, sigma2=2.0).fit("fixed", lam=0.5)
    score = fit.loo()
    expected = without(lambda *data: log_marginal_known(*data, 2.0, 2.0), rows)
    assert score.pointwise.to_numpy() == pytest.approx(expected, abs=EQUAL)
    frame = fit.get_prediction().summary_frame()
    law = norm(frame["mean"], np.sqrt(frame["mean_se"] ** 2 + 2.0 / rows[3]))
    assert score.p_loo == pytest.approx((law.logpdf(rows[0]) - expected).sum(), abs=EQUAL * N)
    table = score.summary()
    assert table.loc["elpd_loo"].tolist() == pytest.approx([score.elpd, score.se])
    assert "Leave-one-out predictive score of 11 rows" in str(score)


def test_more_columns_than_rows_and_several_targets():
    rng = np.random.default_rng(0)
    y, x = pd.DataFrame(rng.normal(size=(8, 2)), columns=["u", "v"]), rng.normal(size=(8, 20))
    fit = BayesRidge(y, x, standardize=False).fit("fixed", lam=0.3)
    data = y["v"].to_numpy(), x, np.ones((8, 1)), np.ones(8)
    expected = without(lambda *rows: log_marginal(*rows, 1 / 0.3), data)
    assert fit.loo(target="v").pointwise.to_numpy() == pytest.approx(expected, abs=EQUAL)
    with pytest.raises(ValueError, match="pit needs target="):
        fit.pit()
    with pytest.raises(ValueError, match="loo needs target="):
        fit.loo()


def selection(rows, method="exact", **given):
    y, x, z, weight = rows
    model = SpikeSlab(y, np.column_stack([x, z[:, 1]]), unpenalized=[P], weights=weight, standardize=False, **given)
    return model.fit(method)


SETS = [[j for j in range(P) if code >> j & 1] for code in range(2**P)]


def test_selection_with_given_hyperparameters_is_refitted(rows):
    given = {"prior_inclusion": 0.3, "slab_var": 1.5, "noise_var": 2.0}

    def log_p(y, x, z, weight):
        logs = [len(a) * np.log(0.3) + (P - len(a)) * np.log(0.7) for a in SETS]
        return logsumexp(
            [p + log_marginal_known(y, x[:, a], z, weight, 0.75, 2.0) for p, a in zip(logs, SETS, strict=True)]
        )

    found = selection(rows, **given).loo()
    assert found.n_eff is None
    assert found.pointwise.to_numpy() == pytest.approx(without(log_p, rows), abs=SUM)
    y, x, z, _ = rows
    columns = np.column_stack([x, z[:, 1]])
    whole = SpikeSlab(y, columns, unpenalized=[P], standardize=False, **given).fit("exact")
    for i in (0, 3):
        part = SpikeSlab(np.delete(y, i), np.delete(columns, i, 0), unpenalized=[P], standardize=False, **given)
        refit = part.fit("exact")
        assert whole.loo().predicted[i] == pytest.approx(refit.predict(columns[[i]]).item(), abs=SUM)
        assert whole.loo().pointwise[i] == pytest.approx(
            whole.log_evidence - refit.log_evidence + shift(z, i), abs=SUM
        )


def shift(z, i):
    """What the log evidence leaves out: the density of the unpenalised part of the row."""
    logs = [0.5 * np.linalg.slogdet(part.T @ part)[1] for part in (z, np.delete(z, i, axis=0))]
    return logs[1] - logs[0]


def test_selection_with_hyperparameters_integrated_out(rows):
    """Over the sets and nodes of the fit, whose prior is that of all rows."""
    fit = selection(rows)
    grid, scale = fit.posterior.exact.grid, fit.posterior.design.common_scale
    sizes = np.stack([grid.log_size(m) for m in range(P + 1)])
    near = sizes.max(axis=0) > sizes.max() - 40

    def log_p(y, x, z, weight):
        return logsumexp(
            [
                log_w + log_marginal(y, x[:, a] / scale, z, weight, np.exp(log_g))
                for a in SETS
                for log_w, log_g in zip(sizes[len(a)][near], grid.log_g[near], strict=True)
            ]
        )

    assert fit.loo().pointwise.to_numpy() == pytest.approx(without(log_p, rows), abs=SUM)


@pytest.mark.parametrize("number", [895, 911])
@pytest.mark.parametrize("by_sampler", [False, True])
def test_sets_that_matter_only_without_a_row(number, by_sampler):
    """Posterior probabilities below 1e-9, up to 1e-50: without the row they are nearly 1, and it is 500 nats off."""
    fit = make_sets(20240607, number).fit(by_sampler=by_sampler)
    score = fit.loo()
    error = 0.0 if score.pointwise_mcse is None else score.pointwise_mcse.to_numpy()
    gap = np.abs(score.pointwise.to_numpy() - left_out_by_sum(fit))
    assert (gap <= np.maximum(STATED * error, UNSEEN)).all()
    assert score.in_doubt == []


@pytest.mark.every_case
@pytest.mark.parametrize("number", [169, 566, 331, 20, 25, 963])
def test_many_sets_that_matter_together_only_without_a_row(number):
    """Where all sets were summed over: of the first two a third of a prediction, of sets that are improbable each.

    Of the last one, noise of next to nothing is 18 million nats less probable with a row than without it.
    """
    fit = make_sets(20240607, number).fit(by_sampler=False)
    score = fit.loo()
    assert score.pointwise.to_numpy() == pytest.approx(left_out_by_sum(fit), abs=ALL)
    assert score.mcse == 0
    assert score.n_eff is None


def test_sets_far_from_those_that_a_sampler_kept():
    """Eight rows: sets of seven columns or more fit the others exactly, many a little, five columns away."""
    fit = make_sets(20240607, 169).fit(by_sampler=True)
    score, expected = fit.loo(), left_out_by_sum(fit)
    assert (np.abs(score.pointwise - expected) <= np.maximum(STATED * score.pointwise_mcse, UNSEEN)).all()
    assert np.abs(score.pointwise - expected).max() < FAR


def test_paths_without_a_row_end_where_rounding_begins():
    """With next to no noise at some nodes, and no warning."""
    fit = make_sets(20240607, 331).fit(by_sampler=True)
    score = fit.loo()
    gap = np.abs(score.pointwise - left_out_by_sum(fit))
    assert (gap <= np.maximum(STATED * score.pointwise_mcse, UNSEEN)).all()


@pytest.mark.parametrize("given", [{}, {"noise_var": 1.0, "slab_var": 2.0}])
def test_all_sets_agree_with_the_kept_states(given, monkeypatch):
    """Densities with the row, distribution functions and means, where few sets are possible: groups, weights."""
    rng = np.random.default_rng(4)
    x, weight = rng.normal(size=(30, 5)), rng.uniform(0.5, 2, 30)
    y = 2 * x[:, 0] - x[:, 3] + rng.normal(size=30)
    own = {"group": [*"aabcd"], "prior_inclusion": [1.0, 1.0, 0.3, 0.4, 0.0], "weights": weight} | given
    found = SpikeSlab(y, x, **own).fit("exact").loo()
    monkeypatch.setattr("pybayesridge.selection.left_out_summed.MOST_SUMMED", 0)
    kept = SpikeSlab(y, x, **own).fit("exact").loo()
    for name in ("pointwise", "pit", "predicted"):
        assert getattr(found, name).to_numpy() == pytest.approx(getattr(kept, name).to_numpy(), abs=KEPT)
    assert found.within == pytest.approx(kept.within, abs=KEPT)


@pytest.mark.parametrize("outlier", [15.0, 100.0])
@pytest.mark.parametrize("by_sampler", [False, True])
def test_noise_that_is_far_smaller_without_a_row(by_sampler, outlier, monkeypatch):
    """The slab's variance given: noise of one hundredth has no density given all rows."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(60, 4))
    y = x[:, 0] + x[:, 1] / 2 + rng.normal(size=60)
    y[3] += outlier
    if by_sampler:
        monkeypatch.setattr("pybayesridge.selection.fit.can_enumerate", lambda grid: False)
    fit = SpikeSlab(y, x, slab_var=1.0, prior_inclusion=0.3).fit("exact")
    score, expected = fit.loo(), left_out_by_sum(fit, further(fit.exact_sets.grid, 10.0))
    assert score.pointwise[3] == pytest.approx(expected[3], abs=UNSEEN if by_sampler else SUM)
    assert score.in_doubt == []


def test_rows_without_which_fits_are_not_resolved_are_in_doubt(rows, monkeypatch):
    monkeypatch.setattr("pybayesridge.selection.left_out_summed.EXACT", 0.9)
    fit = selection(rows)
    with pytest.raises(ValueError, match="the other rows are fitted without error"):
        fit.loo()
    monkeypatch.setattr("pybayesridge.selection.left_out_summed.POSSIBLE", 2.0)
    with pytest.warns(PrecisionWarning, match="rest on fewer than 100 effective draws"):
        assert 3 in fit.loo().in_doubt


def test_rows_for_which_the_search_of_sets_does_not_end_are_named(monkeypatch, tmp_path):
    monkeypatch.setattr("pybayesridge.selection.left_out_unseen.EXPANDED", 0)
    fit = make_sets(20240607, 911).fit(by_sampler=True)
    with pytest.warns(PrecisionWarning, match="rest on fewer than 100 effective draws"):
        assert 5 in fit.loo().in_doubt
    with pytest.warns(PrecisionWarning, match="rest on fewer than"):
        assert compare_loo([fit, fit])["warning"].all()
    pytest.importorskip("jinja2")
    page = fit.report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert "rest on few draws of the sampler, and the score may be inaccurate" in page


def test_ordinary_rows_are_in_no_doubt(rows):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, 30))
    score = SpikeSlab(x[:, :3].sum(axis=1) + rng.normal(size=80), x).fit("exact", mcse=0.05).loo()
    assert score.in_doubt == []
    assert score.pointwise_mcse is not None
    assert 0 < score.pointwise_mcse.max() < UNSEEN_ORDINARY


def test_expectation_propagation_is_exact_where_its_prior_is_normal(rows):
    given = {"prior_inclusion": 1.0, "slab_var": 1.5, "noise_var": 2.0}
    expected = without(lambda *data: log_marginal_known(*data, 0.75, 2.0), rows)
    found = selection(rows, "ep", **given).loo()
    assert found.pointwise.to_numpy() == pytest.approx(expected, abs=EQUAL)


@pytest.mark.filterwarnings("ignore:the leave-one-out predictions:pybayesridge.PrecisionWarning")
@pytest.mark.parametrize("method", ["ep", "exact"])
def test_selections_agree_with_each_other(rows, method):
    """The sum over sets and EP differ by EP's error alone."""
    given = {"prior_inclusion": 0.5, "slab_var": 1.0, "noise_var": 2.0}
    first, second = selection(rows, **given).loo(), selection(rows, method, **given).loo()
    assert second.elpd == pytest.approx(first.elpd, abs=1.0)
    assert second.pit.between(0, 1).all()


REFIT = 2.0
"""Of log densities and means by expectation propagation with the sites of all rows: 0.19 at the worst seen."""


def test_expectation_propagation_is_close_to_refits_without_the_row(rows):
    """Hyperparameters fixed."""
    given = {"prior_inclusion": 0.9, "slab_var": 1.0, "noise_var": 2.0}
    y, x, z, _ = rows
    columns = np.column_stack([x, z[:, 1]])

    def fit(kept):
        return SpikeSlab(y[kept], columns[kept], unpenalized=[P], standardize=False, **given).fit("ep")

    found = fit(np.arange(N)).loo()
    for i in range(N):
        frame = fit(np.delete(np.arange(N), i)).get_prediction(columns[[i]]).summary_frame()
        law = norm(frame["mean"], np.sqrt(frame["mean_se"] ** 2 + 2.0))
        assert found.pointwise[i] == pytest.approx(law.logpdf(y[i]).item(), abs=REFIT)
        assert found.predicted[i] == pytest.approx(frame["mean"].item(), abs=REFIT)


@pytest.mark.filterwarnings("ignore::pybayesridge.ApproximationWarning")
def test_without_a_row_expectation_propagation_can_be_no_distribution(rows):
    """Where precisions of its sites are negative: a row without leverage 1 is not said to have it."""
    y, x, z, _ = rows
    columns, other = np.column_stack([x, z[:, 1]]), {"unpenalized": [P], "standardize": False}
    fit = SpikeSlab(y, columns, prior_inclusion=0.1, slab_var=10.0, noise_var=2.0, **other).fit("ep")
    assert (fit.posterior.selection.best.site2 < 0).any()
    with pytest.raises(ValueError, match=r"row \d+ has no leave-one-out density: without it .* use method='exact'"):
        fit.loo()
    # Without the row there is a distribution, far from the one that the sites of all rows leave.
    fit = SpikeSlab(y, columns, prior_inclusion=0.02, slab_var=100.0, noise_var=0.5, **other).fit("ep")
    with pytest.warns(PrecisionWarning, match=r"row\(s\) may be inaccurate: 8\. Their leverage is high"):
        held = fit.loo().pointwise[8]
    kept = np.delete(np.arange(N), 8)
    refit = SpikeSlab(y[kept], columns[kept], prior_inclusion=0.02, slab_var=100.0, noise_var=0.5, **other).fit("ep")
    frame = refit.get_prediction(columns[[8]]).summary_frame()
    law = norm(frame["mean"], np.sqrt(frame["mean_se"] ** 2 + 0.5))
    assert abs(held - law.logpdf(y[8]).item()) > REFIT


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("method", ["exact", "ep"])
def test_a_row_of_leverage_one_is_refused_whatever_the_rounding(method, seed):
    rng = np.random.default_rng(seed)
    x, only = rng.normal(size=(8, 3)), np.eye(8)[2] * rng.uniform(0.1, 9)
    y, weight = rng.normal(size=8), rng.uniform(0.3, 3, 8)
    given = {"prior_inclusion": 0.9, "slab_var": 0.1, "noise_var": 1.0}
    fit = SpikeSlab(y, np.column_stack([x, only]), unpenalized=[3], weights=weight, **given).fit(method)
    with pytest.raises(ValueError, match=r"row 2 has no leave-one-out density: .*leverage 1"):
        fit.loo()


@pytest.mark.filterwarnings("ignore:the leave-one-out predictions:pybayesridge.PrecisionWarning")
@pytest.mark.every_case
@pytest.mark.parametrize("link", ["logit", "probit"])
def test_yes_no_selection_against_a_sum_over_a_grid(link):
    """One column: in or out; the intercept is flat."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=12)
    y = (x + rng.logistic(size=12) > 0).astype(int)
    a, b = np.meshgrid(np.linspace(-8, 8, 81), np.linspace(-8, 8, 81), indexing="ij")
    law = {"logit": lambda eta: -np.logaddexp(0, -eta), "probit": norm.logcdf}[link]

    def log_p(y, x):
        eta = a[..., None] + b[..., None] * x
        inside = law(np.where(y, eta, -eta)).sum(axis=-1) + norm(0, 1.5).logpdf(b)
        out = law(np.where(y, a[:, :1], -a[:, :1])).sum(axis=-1)
        return logsumexp([logsumexp(inside) + np.log(0.2), logsumexp(out)])

    given = {"prior_inclusion": 0.5, "slab_var": 2.25, "standardize": False, "link": link}
    fit = SpikeSlab(y, x, family="binomial", **given).fit("exact", mcse=0.03)
    score = fit.loo()
    assert score.pointwise.to_numpy() == pytest.approx(without(log_p, (y, x)), abs=MONTE_CARLO)
    assert (score.n_eff > 0).all()
    with pytest.raises(ValueError, match=r"pit\(\) is for Gaussian responses"):
        fit.pit()


@pytest.mark.every_case
@pytest.mark.parametrize("link", ["logit", "probit"])
def test_means_of_inverse_likelihoods(link):
    """Against sums over a fine grid of the linear predictor."""
    rng = np.random.default_rng(4)
    trials = np.array([1.0, 1.0, 4.0, 7.0])
    rows = Binomial(np.array([0.0, 1.0, 1.0, 7.0]), trials - [0, 1, 1, 7], np.ones(4), link)
    center, spread = rng.normal(size=(3, 4)), rng.uniform(0.01, 0.9, (3, 4)) / trials
    eta = center + np.sqrt(spread) * np.linspace(-30, 30, 20001)[:, None, None]
    density = -((eta - center) ** 2) / (2 * spread) - 0.5 * np.log(2 * np.pi * spread)
    logs = density - log_likelihood(rows.successes, rows.failures, eta, link)
    expected = logsumexp(logs, axis=0) + np.log(eta[1] - eta[0])
    assert log_mean_inverse(center, spread, rows) == pytest.approx(expected, abs=INTEGRAL)


def test_two_ways_to_the_mean_of_inverse_likelihoods():
    """Of many trials: the trapezoidal rule, and the sum of exponentials."""
    rng = np.random.default_rng(4)
    successes = np.array([0.0, 150.0, 300.0])
    rows = Binomial(successes, 400.0 - successes, np.ones(3), "logit")
    center, spread = rng.normal(size=(2, 3)), rng.uniform(0.001, 0.01, (2, 3))
    expected = _sum_of_exponentials(center, spread, successes, np.full(3, 400.0))
    assert log_mean_inverse(center, spread, rows) == pytest.approx(expected, abs=INTEGRAL)


def test_yes_no_ridge_with_trials_and_copies():
    """The log score of the fit, with the binomial coefficients, over copies of rows."""
    rng = np.random.default_rng(1)
    x, trials = rng.normal(size=(20, 2)), np.full(20, 3)
    successes, weights = rng.integers(0, 4, 20), rng.integers(1, 3, 20)
    fit = BayesRidge(successes, x, family="binomial", trials=trials, weights=weights).fit("ep")
    score = fit.loo()
    ways = gammaln(4) - gammaln(successes + 1) - gammaln(4 - successes)
    assert score.nobs == pytest.approx(weights.sum())
    assert score.elpd - weights @ ways == pytest.approx(fit.loo_log_score * fit.n_trials, rel=EQUAL)
    assert 0 < score.p_loo < 6


def test_what_cannot_be_predicted():
    rng = np.random.default_rng(5)
    x = rng.normal(size=(8, 2))
    labels = pd.Index(list("abcdefgh"), name="who")
    alone = pd.DataFrame({"u": x[:, 0], "only_c": np.eye(8)[2]}, index=labels)
    y = pd.Series(rng.normal(size=8), index=labels)
    with pytest.raises(ValueError, match=r"row 'c' has no leave-one-out density: .*leverage 1"):
        BayesRidge(y, alone, unpenalized=["only_c"]).fit().loo()
    one = pd.Series(np.eye(8)[4], index=labels)
    with pytest.raises(ValueError, match=r"row 'e' .*the other rows are fitted without error"):
        BayesRidge(one, alone).fit("fixed", lam=1.0).loo()
    fit = BayesRidge(y, alone).fit()
    fit.remove_data()
    with pytest.raises(ValueError, match="removed"):
        fit.loo()


@pytest.mark.filterwarnings("ignore::pybayesridge.DegenerateFitWarning")
@pytest.mark.every_case
@pytest.mark.parametrize("method", ["exact", "em"])
def test_without_noise_there_is_no_density(method):
    x = np.random.default_rng(5).normal(size=(12, 3))
    for y in (x[:, 0], np.ones(12)):
        with pytest.raises(ValueError, match=r"the fit has no leave-one-out densities: .* without noise"):
            BayesRidge(y, x).fit(method).loo()
    with pytest.raises(ValueError, match="without noise"):
        SpikeSlab(np.ones(12), x).fit("exact").loo()


def test_few_effective_draws_are_reported(monkeypatch):
    rng = np.random.default_rng(2)
    x = rng.normal(size=(12, 1))
    with pytest.warns(ConvergenceWarning):
        fit = SpikeSlab(x[:, 0] > 0, x, family="binomial").fit("exact", mcse=0.1, chains=1, maxiter=300_000)
    monkeypatch.setattr("pybayesridge.results.leave_one_out.FEWEST_DRAWS", np.inf)
    with pytest.warns(PrecisionWarning, match=r"leave-one-out predictions of 12 row\(s\) rest on fewer than"):
        fit.loo()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        monkeypatch.setattr("pybayesridge.results.leave_one_out.FEWEST_DRAWS", 0.0)
        fit.loo()


@pytest.mark.parametrize("noise_var", [None, 1.0])
def test_rows_that_are_predicted_by_walks_without_them(noise_var):
    """Compared with the sum over all sets."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal((25, 6))
    y = x[:, 0] + rng.standard_normal(25)
    y[0] += 6.0
    posterior = SpikeSlab(y, x, noise_var=noise_var).fit("exact").posterior
    problem, grid = posterior.problem(), posterior.exact.grid
    ((_, rows),) = _pieces(posterior.design, 25)
    exact = AllSets.of(problem, grid).left_out(rows, 0)
    for i in (0, 1):
        found = walked(problem, grid, rows, i, [], 1)
        assert 0.0 < found.se < WALKED
        assert abs(found.log_density - exact.log_density[i]) < STATED * found.se
        assert found.pit == pytest.approx(exact.pit[i], abs=BY_WALK)
        assert found.error == pytest.approx(exact.error[i], abs=BY_WALK * np.sqrt(problem.yy))


def test_walks_without_a_row_that_have_not_converged_leave_it_in_doubt(monkeypatch):
    """A row in doubt is named, with the doubt as its stated error, unless its walk has converged."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal((25, 6))
    y = x[:, 0] + rng.standard_normal(25)
    y[0] += 6.0
    res = SpikeSlab(y, x).fit("exact")
    posterior = res.posterior
    problem, grid, states = posterior.problem(), posterior.exact.grid, posterior.exact.states
    ((_, rows),) = _pieces(posterior.design, 25)
    nothing = np.zeros(25)
    doubted = LeftOut(nothing, nothing, nothing, nothing, nothing, mcse=nothing)
    missing = np.where(np.arange(25) == 0, 1.5, 0.0)
    before = Added(doubted, np.zeros((states.n, 25)), nothing, missing)
    found = {}
    for steps in (3_000_000, 4_000):
        monkeypatch.setattr("pybayesridge.selection.left_out_walked.MOST_STEPS", steps)
        found[steps] = _with_walks(problem, grid, states, rows, before, 0)
    sure, short = found.values()
    assert sure.found.efficiency[0] > 0
    assert sure.missing[0] < WALKED
    assert not short.found.efficiency[0]
    assert short.missing[0] == pytest.approx(missing[0])
    # It is the better prediction all the same.
    assert abs(short.found.log_density[0] - sure.found.log_density[0]) < abs(sure.found.log_density[0]) / 2
