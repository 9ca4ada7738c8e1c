"""Separation by unpenalised columns."""

import numpy as np
import pytest
import scipy

from pybayesridge.binomial.likelihood import from_counts
from pybayesridge.sites import separation as module
from pybayesridge.sites.separation import check_unpenalized, separation

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
        # The same column twice, which the linear program looks at.
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


def test_rows_that_fix_all_directions_need_no_program(monkeypatch):
    rng = np.random.default_rng(1)
    found = []
    for firm in (2.0, module.FIRM):
        monkeypatch.setattr(module, "FIRM", firm)
        rng = np.random.default_rng(1)
        found.append([])
        for trial in range(60):
            n, k = int(rng.integers(20, 120)), int(rng.integers(2, 12))
            columns = np.round(rng.standard_normal((n, k)), 1 + trial % 3)
            sign = rng.choice([-1.0, 0.0, 1.0], n, p=[0.1, 0.8, 0.1] if trial % 3 else [0.02, 0.96, 0.02])
            if trial % 2:
                columns[sign == 0, 0] = 0.0
                columns[:, 0] = np.abs(columns[:, 0]) * sign
            rows = np.linalg.svd(columns, full_matrices=False)[0]
            found[-1].append(separation(np.round(rows, module.DIGITS), Rows(sign)).rows)
    assert 10 < sum(rows.any() for rows in found[0]) < 50
    for by_program, directly in zip(*found, strict=True):
        np.testing.assert_array_equal(by_program, directly)


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
    likelihood = from_counts((X > 0).astype(float), None, None, "logit")
    assert separation(block(X), likelihood).complete
    assert tried == [True, False]
