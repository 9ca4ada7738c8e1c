"""The share of variance that selected columns explain: longhand sums over sets, draws, invariances, refusals."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp

from pybayesridge import Moments, SpikeSlab, load

MONTE_CARLO = 5.0
"""Standard errors of a quantile's probability."""

SAME_DRAWS = 1e-6
"""Relative difference of quantiles of the same draws in other units, or after saving."""

DRAWS = 20_000
"""Made by `explained_variance` where there are few columns."""

LONGHAND = 40_000
"""Made here."""

KEPT = 0.02
"""Of probabilities by the kept states of a sampler, which both sides resample."""

N, P = 24, 3
SETS = [[j for j in range(P) if code >> j & 1] for code in range(2**P)]


@pytest.fixture(scope="module")
def rows():
    """Correlated columns of different size, an unpenalised one, weights."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(N, P))
    x[:, 1] += x[:, 0]
    x[:, 2] *= 3.0
    z = rng.normal(size=N)
    y = x @ [0.8, 0, -0.1] + z + 1.5 * rng.normal(size=N)
    weight = rng.uniform(0.5, 2, N)
    return y, x, z, weight / weight.mean()


def model(rows, scale=1.0, **given):
    y, x, z, weight = rows
    columns = np.column_stack([x * scale, z])
    return SpikeSlab(y, columns, unpenalized=[P], weights=weight, standardize=False, **given)


def projected(rows):
    """Response and columns times the roots of the weights, intercept and unpenalised column projected out."""
    y, x, z, weight = rows
    root = np.sqrt(weight)[:, None]
    flat = root * np.column_stack([np.ones(N), z])
    both = root * np.column_stack([y, x])
    both -= flat @ np.linalg.lstsq(flat, both, rcond=None)[0]
    return both[:, 0], both[:, 1:], N - 2


def agree(found, share, size=LONGHAND):
    """Whether the quantiles are those of `share`, and so is the mean."""
    for column, p in (("median", 0.5), ("lower", 0.025), ("upper", 0.975)):
        error = MONTE_CARLO * np.sqrt(p * (1 - p) * (1 / DRAWS + 1 / size))
        # Where no column is in the share is 0 with a positive probability.
        assert (share < found[column]).mean() <= p + error
        assert (share <= found[column]).mean() >= p - error
    error = MONTE_CARLO * share.std() * np.sqrt(1 / DRAWS + 1 / size)
    assert abs(found["mean"] - share.mean()) < error


def test_given_hyperparameters_against_draws_set_by_set(rows):
    y, x, _ = projected(rows)
    p, v, s2 = 0.3, 1.5, 2.0
    rng, logs, laws = np.random.default_rng(0), [], []
    for inside in SETS:
        a = x[:, inside]
        precision = a.T @ a / s2 + np.eye(len(inside)) / v
        mean = np.linalg.solve(precision, a.T @ y / s2)
        evidence = 0.5 * y @ a @ mean / s2 - 0.5 * np.linalg.slogdet(v * precision)[1]
        logs.append(evidence + len(inside) * np.log(p) + (P - len(inside)) * np.log1p(-p))
        laws.append((a, mean, np.linalg.cholesky(np.linalg.inv(precision)) if inside else np.zeros((0, 0))))
    weight = np.exp(np.array(logs) - logsumexp(logs))
    share = []
    for (a, mean, root), count in zip(laws, rng.multinomial(LONGHAND, weight), strict=True):
        g = a @ (mean[:, None] + root @ rng.standard_normal((mean.size, count)))
        size = (g**2).sum(axis=0)
        share.append(size / (size + N * s2))
    found = model(rows, prior_inclusion=p, slab_var=v, noise_var=s2).fit("exact").explained_variance()
    assert found.name == "explained_variance"
    assert list(found.index) == ["mean", "median", "lower", "upper"]
    agree(found, np.concatenate(share))


def test_hyperparameters_integrated_out_against_draws_set_by_set(rows):
    """Over the sets and nodes of the prior of the fit; given both, s2 is inverse-gamma and w is normal."""
    y, x, nu = projected(rows)
    fit = model(rows).fit("exact")
    grid, scale = fit.posterior.exact.grid, fit.posterior.design.common_scale
    rng, cells, logs = np.random.default_rng(1), [], []
    for inside in SETS:
        a = x[:, inside] / scale
        for log_w, log_g in zip(grid.log_size(len(inside)), grid.log_g, strict=True):
            precision = a.T @ a + np.exp(-log_g) * np.eye(len(inside))
            mean = np.linalg.solve(precision, a.T @ y)
            left = y @ y - y @ a @ mean
            determinant = np.linalg.slogdet(np.exp(log_g) * precision)[1]
            logs.append(log_w - 0.5 * determinant - 0.5 * nu * np.log(left))
            cells.append((a, precision, mean, left))
    weight = np.exp(np.array(logs) - logsumexp(logs))
    share = []
    for i, count in enumerate(rng.multinomial(LONGHAND, weight)):
        if count:
            a, precision, mean, left = cells[i]
            s2 = left / rng.chisquare(nu, count)
            root = np.linalg.cholesky(np.linalg.inv(precision)) if mean.size else np.zeros((0, 0))
            g = a @ (mean[:, None] + np.sqrt(s2) * (root @ rng.standard_normal((mean.size, count))))
            size = (g**2).sum(axis=0)
            share.append(size / (size + N * s2))
    agree(fit.explained_variance(), np.concatenate(share))


def test_without_signal_the_share_is_zero():
    rng = np.random.default_rng(5)
    fit = SpikeSlab(rng.normal(size=60), rng.normal(size=(60, 4))).fit("exact")
    found = fit.explained_variance()
    assert found["lower"] == 0.0
    assert found["median"] == 0.0
    assert 0.0 < found["mean"] < found["upper"] < 0.3


@pytest.mark.filterwarnings("ignore::pybayesridge.ConvergenceWarning")
@pytest.mark.parametrize("shape", [(40, 34), (25, 34)])
def test_of_a_sampler_it_is_that_of_the_draws(shape):
    """Groups, and as many columns as the sampler takes, also more of them than rows."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=shape) * rng.uniform(0.1, 5.0, shape[1])
    y = x[:, 0] + rng.normal(size=shape[0])
    fit = SpikeSlab(y, x, group=[f"g{j // 2}" for j in range(shape[1])]).fit("exact", mcse=0.05)
    _, b, s2, _ = fit.posterior.draw_with_hyperparameters(LONGHAND, np.random.default_rng(2))
    size = (((x - x.mean(axis=0)) @ b.T) ** 2).sum(axis=0)
    agree(fit.explained_variance(), size / (size + shape[0] * s2))


@pytest.mark.filterwarnings("ignore::pybayesridge.ConvergenceWarning")
@pytest.mark.parametrize(("link", "noise"), [("logit", np.pi**2 / 3), ("probit", 1.0)])
def test_yes_no_responses_explain_latent_variance(link, noise):
    """Of rows that count as often as they have trials, times their weight."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(30, 3)) * [1.0, 2.0, 0.5] + 4.0
    trials, weight = rng.integers(1, 4, 30), rng.integers(1, 3, 30)
    yes = rng.binomial(trials, 1 / (1 + np.exp(4.0 - x[:, 0])))
    other = {"family": "binomial", "link": link, "trials": trials, "weights": weight}
    fit = SpikeSlab(yes, x, unpenalized=[2], **other).fit("exact", mcse=0.05, maxiter=2000)
    draws = fit.sample(LONGHAND, rng=3).to_numpy()[:, 1:3]
    share = trials * weight / (trials @ weight)
    root = np.sqrt(share)[:, None]
    flat = root * np.column_stack([np.ones(30), x[:, 2]])
    inside = root * x[:, :2]
    inside -= flat @ np.linalg.lstsq(flat, inside, rcond=None)[0]
    size = ((inside @ draws.T) ** 2).sum(axis=0)
    agree(fit.explained_variance(), size / (size + noise))


def test_units_and_repetition_and_moments(rows):
    y, x, z, weight = rows
    first = model(rows).fit("exact").explained_variance()
    again = model((1e6 * y - 3.0, x, z, 5 * weight), 1e-3).fit("exact").explained_variance()
    np.testing.assert_allclose(again, first, rtol=SAME_DRAWS)
    narrow = model(rows).fit("exact").explained_variance(alpha=0.5)
    assert first["lower"] <= narrow["lower"] < first["median"] < narrow["upper"] < first["upper"]
    moments = Moments.from_arrays(y, x)
    np.testing.assert_allclose(
        SpikeSlab.from_moments(moments).fit("exact").explained_variance(),
        SpikeSlab(y, x).fit("exact").explained_variance(),
        rtol=SAME_DRAWS,
    )
    other = model(rows).fit("exact").explained_variance(rng=1)
    assert 0 < abs(other["mean"] - first["mean"]) < KEPT


def test_saved_fits_and_fits_without_rows(rows, tmp_path):
    fit = model(rows).fit("exact")
    first = fit.explained_variance()
    fit.save(tmp_path / "whole.fit")
    fit.save(tmp_path / "private.fit", remove_data=True)
    fit.save(tmp_path / "marginal.fit", remove_data=True, row_space=False)
    for name in ("whole", "private"):
        found = load(tmp_path / f"{name}.fit").explained_variance()
        np.testing.assert_allclose(found, first, rtol=SAME_DRAWS)
    with pytest.raises(ValueError, match=r"without the space of the rows.*the share of variance explained needs"):
        load(tmp_path / "marginal.fit").explained_variance()


@pytest.mark.parametrize("family", ["gaussian", "binomial"])
def test_expectation_propagation_does_not_have_it(rows, family):
    y, x, _, _ = rows
    fit = SpikeSlab((y > y.mean()) * 1.0 if family == "binomial" else y, x, family=family).fit("ep")
    with pytest.raises(
        ValueError, match=r"the share of variance explained needs the joint posterior .* use fit\('exact'\)"
    ):
        fit.explained_variance()
    with pytest.raises(ValueError, match="alpha"):
        fit.explained_variance(alpha=2.0)


def test_the_report_says_it(rows, tmp_path):
    pytest.importorskip("jinja2")
    pytest.importorskip("matplotlib")
    fit = model(rows).fit("exact")
    mean = 100 * fit.explained_variance()["mean"]
    text = fit.report(tmp_path / "exact.html").read_text(encoding="utf-8")
    assert f"The columns subject to selection explain {mean:.0f} % of the variance in the sample" in text
    text = model(rows).fit("ep").report(tmp_path / "ep.html").read_text(encoding="utf-8")
    assert "of the variance in the sample" not in text
