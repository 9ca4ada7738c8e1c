"""Rows without which cut points or unpenalised columns of ordered categories are not determined."""

import itertools

import numpy as np
import pytest
from scipy.optimize import linprog

from pybayesridge import BayesRidge
from pybayesridge.sites.groups_left_out import flat_columns
from pybayesridge.sites.separation import Balance

N, CATEGORIES = 8, 3
MOVED = 1e-6
SOLVERS = [("logit", "ep"), ("logit", "laplace"), ("probit", "laplace")]


def improper(codes, z):
    """Whether a direction of cut points and coefficients lets no category become less probable; by a program."""
    rows = []
    for code, of_z in zip(codes, z, strict=True):
        # Upper cut points may not fall below the linear predictor, lower ones may not rise above it.
        for cut, sign in ((code, 1.0), (code - 1, -1.0)):
            if 0 <= cut < CATEGORIES - 1:
                rows.append(sign * np.r_[np.arange(CATEGORIES - 1) == cut, -of_z])
    rows = np.array(rows)
    steps = np.hstack([np.diff(np.eye(CATEGORIES - 1), axis=0), np.zeros((CATEGORIES - 2, z.shape[1]))])
    within = np.vstack([rows, steps])
    found = linprog(-rows.sum(axis=0), A_ub=-within, b_ub=np.zeros(len(within)), bounds=[(-1.0, 1.0)] * rows.shape[1])
    collinear = np.linalg.matrix_rank(within) < rows.shape[1]
    return bool(collinear or -found.fun > MOVED)


def fits(link, solver, unpenalised):
    """A few small fits, with their codes and unpenalised columns."""
    for seed in range(40):
        rng = np.random.default_rng([seed, unpenalised])
        z, x = rng.integers(-1, 2, size=(N, unpenalised)).astype(float), rng.normal(size=(N, 1))
        codes = rng.choice(CATEGORIES, size=N, p=[0.2, 0.3, 0.5])
        if np.bincount(codes, minlength=CATEGORIES).min() == 0 or improper(codes, z):
            continue
        model = BayesRidge(
            codes, np.hstack([x, z]), family="ordinal", link=link, unpenalized=list(range(1, 1 + unpenalised))
        )
        yield model.fit("fixed", lam=1.0, solver=solver), codes, z


@pytest.mark.parametrize("unpenalised", [0, 1, 2])
@pytest.mark.parametrize(("link", "solver"), SOLVERS)
def test_every_subset_beside_a_linear_program(link, solver, unpenalised):
    """A subset is needed if without it a category does not occur, or the posterior of the others is improper."""
    subsets = [np.array(some) for size in range(1, N) for some in itertools.combinations(range(N), size)]
    seen = set()
    for res, codes, z in itertools.islice(fits(link, solver, unpenalised), 3):
        wanted = []
        for at, some in enumerate(subsets):
            left, of_z = np.delete(codes, some), np.delete(z, some, axis=0)
            if np.bincount(left, minlength=CATEGORIES).min() == 0 or improper(left, of_z):
                wanted.append(at)
        fit = res.sites_fit
        i = int(np.argmax(fit.weight))
        node = fit.nodes[i]
        balance = Balance.of(node, fit.likelihood, flat_columns(fit.space_at(i).scaled(node.log_t2)))
        assert balance.needed_parts(subsets) == wanted
        assert fit.needed_rows() == [at for at in wanted if at < N]
        seen |= {at < N for at in wanted}
    assert seen == {True, False}


def test_the_only_row_of_a_category_is_needed():
    """Of the lowest, a middle and the highest one: the row has no prediction, and its group has none."""
    x = np.random.default_rng(0).normal(size=(16, 2))
    for only in range(3):
        codes = np.r_[only, np.tile([c for c in range(3) if c != only], 8)[:15]]
        res = BayesRidge(codes, x, family="ordinal").fit("laplace")
        assert res.sites_fit.needed_rows() == [0]
        assert np.isneginf(res.loo_log_score)
        for by, what in ((None, "row 0"), (np.arange(16) // 4, "group 0")):
            with pytest.raises(ValueError, match=f"{what} has no .* density: without it a category does not occur"):
                res.loo(by=by)


def test_copies_of_a_row_stay_without_one_of_them():
    x = np.random.default_rng(0).normal(size=(16, 2))
    codes = np.r_[0, np.tile([1, 2], 8)[:15]]
    res = BayesRidge(codes, x, family="ordinal", weights=np.r_[2.0, np.ones(15)]).fit("laplace")
    assert np.isfinite(res.loo_log_score)
    assert np.isfinite(res.loo().elpd)
