"""Separation by unpenalised columns."""

import numpy as np
import pytest
import scipy
from scipy.special import expit

from pybayesridge.binomial.likelihood import from_counts
from pybayesridge.sites import separation as module
from pybayesridge.sites.separation import check_unpenalized, separates, separation

STAYS = 1e-8
"""Rows that move less, relative to those that move most, stay where they are."""

X = np.array([-2.0, -1.0, -0.5, 0.3, 1.0, 2.0])


def block(*columns):
    return np.column_stack([np.ones(len(columns[0])), *columns])


def test_overlap_is_not_separation():
    likelihood = from_counts(np.array([0.0, 1, 0, 1, 0, 1]), None, None, "logit")
    assert not separation(block(X), likelihood).found
    check_unpenalized(block(X), ["const", "x"], likelihood)


def test_complete_separation_is_named():
    likelihood = from_counts((X > 0).astype(float), None, None, "logit")
    found = separation(block(X), likelihood)
    assert found.complete
    assert ((block(X) @ found.direction > 0) == (X > 0)).all()
    with pytest.raises(ValueError, match=r"'x'.* separate the responses: they predict 6 of 6 rows"):
        check_unpenalized(block(X), ["const", "x"], likelihood)


def test_a_group_without_events_is_named_alone():
    group = np.array([0.0, 0, 0, 0, 1, 1])
    likelihood = from_counts(np.array([0.0, 1, 0, 1, 0, 0]), None, None, "logit")
    found = separation(block(group, X**2), likelihood)
    assert not found.complete
    np.testing.assert_array_equal(found.rows, group == 1)
    with pytest.raises(ValueError, match=r"column\(s\) 'group' separate the responses: they predict 2 of 6 rows"):
        check_unpenalized(block(group), ["const", "group"], likelihood)


def test_ties_leave_rows_that_are_not_moved():
    x = np.array([-1.0, -1, 0, 0, 1, 1])
    likelihood = from_counts(np.array([0.0, 0, 0, 1, 1, 1]), None, None, "probit")
    np.testing.assert_array_equal(separation(block(x), likelihood).rows, x != 0)


def test_rows_with_both_outcomes_have_to_stay_where_they_are():
    likelihood = from_counts(np.array([0.0, 0, 1, 1, 2, 2]), np.full(6, 2.0), None, "logit")
    assert not separation(block(X), likelihood).found


@pytest.mark.parametrize(("value", "word"), [(0.0, "non-events"), (1.0, "events")])
def test_one_value_only(value, word):
    likelihood = from_counts(np.full(6, value), None, None, "logit")
    with pytest.raises(ValueError, match=f"all responses are {word}: a binomial model needs both outcomes"):
        check_unpenalized(block(X), ["const", "x"], likelihood)


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_the_scale_of_columns_does_not_matter(scale):
    overlap = from_counts(np.array([0.0, 1, 0, 1, 0, 1]), None, None, "logit")
    apart = from_counts((X > 0).astype(float), None, None, "logit")
    assert not separation(block(scale * X), overlap).found
    assert separation(block(scale * X), apart).complete


def test_one_column_is_looked_at_without_a_program():
    """Up or down: a row stands in the way, or both outcomes where the column is not 0."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        column = rng.choice([-2.0, -1.0, 0.0, 0.0, 1.0], 5)
        successes, trials = rng.integers(0, 3, 5).astype(float), np.full(5, 2.0)
        likelihood = from_counts(successes, trials, None, "logit")
        found = separation(column[:, None], likelihood)
        # The same column twice, so that one does not look at each row by itself.
        wanted = separation(np.column_stack([column, column]), likelihood)
        np.testing.assert_array_equal(found.rows, wanted.rows)
        if found.found:
            assert np.sign(found.direction[0]) == np.sign(wanted.direction.sum())


class Rows:
    """Rows of which only is known in which direction their likelihood does not fall."""

    def __init__(self, sign):
        self.sign = sign

    def rises(self):
        return self.sign


def rows_of_the_program(columns, sign):
    """The rows that some direction moves, by a linear program over all of them."""
    (n, k), pure = columns.shape, sign != 0
    free = scipy.linalg.null_space(columns[~pure]) if (~pure).any() else np.eye(k)
    out, upwards = np.zeros(n, dtype=bool), sign[pure, None] * (columns[pure] @ free)
    m, q = upwards.shape
    if m and q:
        bounds = [(None, None)] * q + [(0, 1)] * m
        cost, rows = np.r_[np.zeros(q), -np.ones(m)], np.hstack([-upwards, np.eye(m)])
        out[pure] = scipy.optimize.linprog(cost, rows, np.zeros(m), bounds=bounds).x[q:] > 0.5
    return out


def some_rows(trial, rng):
    """Columns and signs: metric, rounded or yes/no columns, levels that separate, rows that have to stay."""
    n, k = int(rng.integers(8, 90)), int(rng.integers(2, 9))
    columns = rng.standard_normal((n, k))
    if trial % 3 == 1:
        columns = np.round(columns)
    if trial % 3 == 2:
        columns[:, 1:] = rng.random((n, k - 1)) < 0.2
    columns[:, 0] = 1.0
    eta = columns @ rng.normal(size=k) * rng.choice([0.3, 1.0, 3.0, 30.0])
    sign = np.where(rng.random(n) < expit(eta), 1.0, -1.0)
    if trial % 4 == 1:
        sign[rng.random(n) < rng.choice([0.1, 0.8])] = 0.0
    if trial % 4 == 3:
        sign[columns[:, 1] > 0.5] = -1.0
    return columns, sign


def test_newton_steps_find_the_rows_that_the_program_finds():
    rng, counts = np.random.default_rng(1), []
    for trial in range(200):
        columns, sign = some_rows(trial, rng)
        if np.linalg.matrix_rank(columns) < columns.shape[1]:
            continue
        rows = np.linalg.svd(columns, full_matrices=False)[0] if trial % 2 else columns
        found = separation(rows, Rows(sign))
        np.testing.assert_array_equal(found.rows, rows_of_the_program(columns, sign))
        moved = rows @ found.direction
        moved /= max(np.abs(moved).max(), 1e-300)
        assert (moved * sign >= -STAYS).all()
        assert (np.abs(moved[sign == 0]) <= STAYS).all()
        assert (np.abs(moved[found.rows]) > STAYS).all()
        counts.append(found.rows.mean())
    counts = np.array(counts)
    assert min((counts == 0).sum(), (counts == 1).sum(), ((counts > 0) & (counts < 1)).sum()) > 20


@pytest.mark.parametrize("level", [False, True])
@pytest.mark.parametrize("size", [1.0, 30.0])
def test_many_rows_need_no_program(level, size, monkeypatch):
    monkeypatch.setattr(module, "_program", None)
    rng = np.random.default_rng(2)
    columns = np.column_stack([np.ones(6000), rng.standard_normal((6000, 8)), np.arange(6000) % 300 == 7])
    sign = np.where(rng.random(6000) < expit(size * (columns @ rng.normal(size=10))), 1.0, -1.0)
    sign[columns[:, -1] > 0] = [1.0 if level else -1.0] + [1.0] * 19
    assert separates(columns, Rows(sign), np.zeros(6000)) is level


def test_more_columns_than_half_the_rows_are_not_looked_at():
    columns, sign = np.eye(6)[:, :4], np.array([1.0, 1.0, -1.0, -1.0, 1.0, -1.0])
    assert separation(columns, Rows(sign)).found
    assert not separates(columns, Rows(sign), np.zeros(6))
    assert separates(columns[:, :3], Rows(sign), np.zeros(6))


def test_a_program_that_presolving_loses_is_solved_without(monkeypatch):
    tried = []
    solve = scipy.optimize.linprog

    def loses(*args, options, **kwargs):
        tried.append(options["presolve"])
        answer = solve(*args, options=options, **kwargs)
        if options["presolve"]:
            answer.status, answer.x = 4, None
        return answer

    monkeypatch.setattr(module.scipy.optimize, "linprog", loses)
    monkeypatch.setattr(module, "_balanced", lambda columns, sign, eta: (sign == 0, None))
    likelihood = from_counts((X > 0).astype(float), None, None, "logit")
    assert separation(block(X), likelihood).complete
    assert tried == [True, False]
