"""The methods for t2, leave-one-out predictions beside refitting, and cases at the border."""

import numpy as np
import pytest
from scipy.special import expit

from pybayesridge.binomial.likelihood import from_counts
from pybayesridge.families.scores import area_under_curve, brier_score, calibration
from pybayesridge.ridge.prior import BetaPrime
from pybayesridge.sites.leave_one_out import leave_one_out, total_log_score
from tests.binomial.problems import R2, columns, coordinates, fit, nodes, problem, responses, standardized

LOO_TOL = 0.02
"""Cavities beside refitting, in probability; EP's cavities are approximate: .008 in probability
and .045 in log score is the worst of all rows of these problems."""

MODE_TOL = 1e-4
SAME_TOL = 1e-6

ENDS_TOL = 0.03
"""Ends of intervals as a part of the interval, where the tail of the penalty is heavy: .005 is the most seen."""


@pytest.mark.parametrize("link", ["logit", "probit"])
@pytest.mark.parametrize(("n", "p"), [(30, 3), (20, 35)])
def test_leave_one_out_is_refitting(link, n, p):
    """With the columns' scale and means of all rows and t2 given."""
    x = standardized(columns(n, p, 31))
    y = responses(x, 31)
    space, likelihood = problem(x, y, link=link)
    whole = fit(space, likelihood, method="fixed", log_t2=-1.0, prior=R2, flat_in="link")
    cavities = likelihood.left_out(whole.nodes[0].cavity())
    for i in (0, n // 2, n - 1):
        keep = np.arange(n) != i
        rest = x[keep]
        likelihood_i = from_counts(y[keep], None, None, link)
        share = refitted(likelihood_i, rest, x[i])
        assert cavities.mean[i] == pytest.approx(share, abs=LOO_TOL)
        wanted = np.log(share if y[i] else 1 - share)
        assert cavities.log_score[i] == pytest.approx(wanted, abs=3 * LOO_TOL)


def refitted(likelihood, rest, new):
    """Probability of success of a new row by EP of the other rows, the prior on the columns as they are."""
    space = coordinates(
        likelihood,
        rest,
        penalized=np.arange(rest.shape[1]),
        z=np.ones((len(rest), 1)),
        z_names=["const"],
        z_constant=0,
        standardize=False,
    )
    log_t2 = -1.0 + 2 * np.log(space.design.common_scale)
    found = fit(space, likelihood, method="fixed", log_t2=log_t2, prior=R2, flat_in="link")
    return float(found.posterior().response_means(new[None], np.ones((1, 1)))[0])


def test_leave_one_out_integrates_t2_out():
    """Weights of the nodes without a row, from the posterior refitted to the other rows."""
    x = standardized(columns(40, 3, 33))
    y = responses(x, 33)
    space, likelihood = problem(x, y)
    whole = fit(space, likelihood, prior=R2, flat_in="link")
    predictions = leave_one_out(likelihood, whole.nodes, whole.weight)
    for i in (3, 17):
        keep = np.arange(40) != i
        part = fit(*problem(x[keep], y[keep]), prior=R2, flat_in="link")
        share = part.posterior().response_means(x[i : i + 1], np.ones((1, 1)))[0]
        assert predictions.mean[i] == pytest.approx(share, abs=LOO_TOL)


def test_copies_are_left_out_one_by_one():
    x = columns(30, 3, 34)
    y = responses(x, 34)
    repeat = np.repeat(np.arange(30), 1 + np.arange(30) % 3)
    space, likelihood = problem(x, y, weights=1.0 + np.arange(30) % 3)
    grouped = leave_one_out(likelihood, *parts(fit(space, likelihood, prior=R2, flat_in="link")))
    space, repeated = problem(x[repeat], y[repeat])
    single = leave_one_out(repeated, *parts(fit(space, repeated, prior=R2, flat_in="link")))
    np.testing.assert_allclose(grouped.log_score[repeat], single.log_score, atol=LOO_TOL)
    assert total_log_score(likelihood, grouped) == pytest.approx(single.log_score.sum(), abs=10 * LOO_TOL)


def parts(found):
    return found.nodes, found.weight


@pytest.mark.parametrize(("parameterization", "power"), [("tau2", 1.0), ("tau", 0.5)])
@pytest.mark.parametrize("solver", ["ep", "laplace"])
def test_em_is_the_mode_on_a_fine_grid(parameterization, power, solver):
    space, likelihood = problem(columns(80, 5, 41), responses(columns(80, 5, 41), 41))
    found = fit(
        space, likelihood, method="em", parameterization=parameterization, solver=solver, prior=R2, flat_in="link"
    )
    every = nodes(space, likelihood, solver=solver, tol=1e-9)
    near = [every.log_density(found.log_t2 + d) - power * (found.log_t2 + d) for d in (-0.05, 0.0, 0.05)]
    vertex = 0.025 * (near[0] - near[2]) / (near[0] - 2 * near[1] + near[2])
    assert found.converged
    assert abs(vertex) <= 10 * MODE_TOL
    assert near[1] > max(near[0], near[2])


@pytest.mark.parametrize("parameterization", ["tau2", "tau"])
def test_no_signal_has_no_interior_mode(parameterization):
    """The density then falls from 0 on: every coefficient is 0. In the root of t2 it is level towards 0."""
    x = columns(100, 5, 5)
    y = np.tile([0.0, 1.0], 50)
    found = fit(*problem(x, y), method="em", parameterization=parameterization, prior=R2, flat_in="link")
    mean, sd = found.posterior().coefficient_means()[1], found.posterior().coefficient_sds()[1]
    assert found.converged
    assert found.null
    assert not mean.any()
    assert not sd.any()


def test_loocv_takes_the_best_point():
    space, likelihood = problem(columns(60, 5, 43), responses(columns(60, 5, 43), 43))
    grid = np.linspace(-8, 3, 12)
    found = fit(space, likelihood, method="loocv", grid=grid, prior=R2, flat_in="link")
    each = [fit(space, likelihood, method="fixed", log_t2=l, prior=R2, flat_in="link") for l in grid]
    scores = [total_log_score(likelihood, likelihood.left_out(one.nodes[0].cavity())) for one in each]
    np.testing.assert_allclose(found.grid_scores, scores, atol=1e-4)
    assert found.log_t2 == grid[int(np.argmax(scores))]
    assert not found.at_edge


def test_rare_events_have_an_answer():
    rng = np.random.default_rng(2)
    x = rng.standard_normal((1000, 6))
    y = np.zeros(1000)
    y[np.argsort(x[:, 0] + rng.standard_normal(1000))[-5:]] = 1
    found = fit(*problem(x, y), prior=R2, flat_in="link")
    share = found.posterior().response_means(x, np.ones((1000, 1)))
    assert found.converged
    assert share.sum() == pytest.approx(5.0, abs=0.5)
    assert share[y == 1].mean() > 5 * share[y == 0].mean()


def test_a_perfect_predictor_has_a_defined_answer():
    x = columns(60, 3, 8)
    y = (x[:, 0] > np.median(x[:, 0])).astype(float)
    found = fit(*problem(x, y), prior=BetaPrime(0.5, 1.0, None), flat_in="link")
    post = found.posterior()
    low = post.coefficient_quantiles(np.array([0.025]))[1][:, 0]
    share = post.response_means(x, np.ones((60, 1)))
    assert found.converged
    assert found.separated
    assert found.fall == pytest.approx(0.5, abs=1e-3)
    assert low[0] > 0
    assert ((share > 0.5) == (y == 1)).all()


def test_extreme_intercepts_are_found():
    """49,990 failures of 50,000 trials with no columns that matter: the intercept is about log(10 / 49990)."""
    x = columns(10, 2, 9)
    trials = np.full(10, 5000)
    found = fit(*problem(x, np.ones(10), trials=trials), prior=R2, flat_in="link")
    share = found.posterior().response_means(x, np.ones((10, 1)))
    assert found.converged
    np.testing.assert_allclose(share, 1 / 5000, rtol=0.3)


@pytest.mark.parametrize("link", ["logit", "probit"])
def test_units_and_order_of_columns_do_not_matter(link):
    x = columns(50, 6, 10)
    y = responses(x, 10)
    order = np.array([3, 0, 5, 1, 4, 2])
    unit = 10.0 ** np.arange(-3, 3)
    plain = fit(*problem(x, y, link=link), prior=R2, flat_in="link")
    moved = fit(*problem((x * unit + 7.0)[:, order], 1 - y, link=link), prior=R2, flat_in="link")
    b, c = (found.posterior().coefficient_means()[1] for found in (plain, moved))
    np.testing.assert_allclose(c, -(b / unit)[order], rtol=1e-4, atol=SAME_TOL)
    assert moved.log_evidence == pytest.approx(plain.log_evidence, abs=1e-5)
    assert moved.log_t2 == pytest.approx(plain.log_t2, abs=1e-4)


def test_no_columns_are_an_intercept():
    y = np.r_[np.ones(7), np.zeros(13)]
    found = fit(*problem(np.empty((20, 0)), y), prior=R2, flat_in="link")
    g, b = found.posterior().coefficient_means()
    assert b.size == 0
    assert expit(g[0]) == pytest.approx(0.35, abs=0.02)


def test_scores_are_those_of_scikit_learn():
    linear_model = pytest.importorskip("sklearn.linear_model")
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(4)
    share = np.round(rng.random(200), 2)
    y = (rng.random(200) < share).astype(float)
    likelihood = from_counts(y, None, None, "logit")
    assert area_under_curve(likelihood, share) == pytest.approx(metrics.roc_auc_score(y, share), abs=1e-12)
    assert brier_score(likelihood, share) == pytest.approx(np.mean((y - share) ** 2), abs=1e-12)
    found = calibration(likelihood, np.clip(share, 0.01, 0.99), bins=8)
    logit = np.log(np.clip(share, 0.01, 0.99) / (1 - np.clip(share, 0.01, 0.99)))
    peer = linear_model.LogisticRegression(C=1e10, tol=1e-10, max_iter=1000).fit(logit[:, None], y)
    assert found.slope == pytest.approx(peer.coef_[0, 0], abs=1e-4)
    assert found.intercept == pytest.approx(peer.intercept_[0], abs=1e-4)
    assert found.trials.sum() == 200
    assert (found.trials * found.observed).sum() == pytest.approx(y.sum())


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_intervals_of_separated_responses_do_not_depend_on_the_nodes(seed):
    """Given t2 coefficients have a law that moves with t2: the mixture has to have nodes enough for its quantiles."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((40, 5))
    space, likelihood = problem(x, (x @ rng.standard_normal(5) > 0).astype(float))
    ends = []
    for tol in (1e-6, 1e-11):
        found = fit(space, likelihood, prior=R2, flat_in="latent", tol=tol)
        ends.append(found.posterior().coefficient_quantiles(np.array([0.025, 0.25, 0.75, 0.975]))[1])
    assert found.separated
    np.testing.assert_allclose(ends[0], ends[1], atol=ENDS_TOL * np.ptp(ends[1], axis=1).max())
