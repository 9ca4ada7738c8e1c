"""Evidences by importance from the expansion of the likelihood, beside importance sampling of every set by itself."""

import numpy as np
import pytest
from scipy.special import expit, ndtr

from pybayesridge.binomial.augmentation import BinomialRows
from pybayesridge.binomial.evidence import log_evidence
from pybayesridge.binomial.likelihood import from_counts
from pybayesridge.binomial.selection import binary_grid
from pybayesridge.data.units import units_of
from pybayesridge.selection.grid import Given
from tests.binomial.importance import Data, mode, reference

SEEDS, DRAWS = 8, 200
FAILS = 2  # of these, at which draws of one trial a row vary so much that there is no evidence; seen none
WITHIN = 5.0  # stated errors; worst seen 2.3
SPREAD = (0.02, 2.5)  # standard deviation of SEEDS differences, in their own stated errors; seen from .22 to 1.32

KINDS = {
    "one trial": ("logit", 30, 1, 1.5, {"p": 0.3, "v": 1.0}),
    "many trials": ("logit", 24, 1000, 0.5, {"p": 0.3, "v": 1.0}),
    "probit": ("probit", 30, 1, 1.0, {"p": 0.3, "v": 1.0}),
    "learned": ("logit", 40, 5, 1.0, {}),
}


@pytest.mark.every_case
@pytest.mark.parametrize("kind", KINDS)
def test_the_ratio_with_and_without_a_row(kind):
    link, n, trials, b, given = KINDS[kind]
    rng = np.random.default_rng(2)
    x, trials = rng.standard_normal((n, 3)), np.full(n, float(trials))
    x[:, 1] = 0.8 * x[:, 0] + 0.6 * x[:, 1]
    x -= x.mean(axis=0)
    x /= np.sqrt((x**2).mean(axis=0))
    mean = expit if link == "logit" else ndtr
    yes = rng.binomial(trials.astype(int), mean(b * x[:, 0])).astype(float)
    data = Data.of(x, yes, trials, link=link, **given)
    options = {"draws": 2000, "nodes": 1, "runs": 4} if given else {"draws": 500, "nodes": 10, "runs": 2}
    wanted = reference(data, **options).log_evidence - reference(data.without(0), **options).log_evidence
    rows = BinomialRows.of(x, np.ones((n, 1)), from_counts(yes, trials, None, link), units_of(3))
    others = BinomialRows.of(x[1:], np.ones((n - 1, 1)), rows.likelihood.rows(np.arange(1, n)), units_of(3))
    grid = binary_grid(rows, Given(np.full(3, given["p"]), given["v"]) if given else Given())
    whole = np.column_stack([np.ones(n), x])
    center, cov = mode(data, whole, np.r_[0.0, np.ones(3)])
    differences = []
    for seed in range(SEEDS):
        generator = np.random.default_rng(seed)
        seen = generator.multivariate_normal(center, cov, DRAWS) @ whole.T
        found = [
            log_evidence(part, grid, draws, generator, n_chains=2, rounds=3)
            for part, draws in ((rows, seen), (others, seen[:, 1:]))
        ]
        if None not in found:
            gap = found[0].log_evidence - found[1].log_evidence - wanted.mean()
            differences.append((gap, np.hypot(found[0].se, found[1].se)))
    assert len(differences) >= SEEDS - FAILS
    gap, own = np.transpose(differences)
    error = np.hypot(own, wanted.std(ddof=1) / np.sqrt(wanted.size))
    assert np.abs(gap / error).max() < WITHIN
    # The error of the reference is the same in all.
    assert SPREAD[0] < np.std(gap / own) < SPREAD[1]


def test_no_evidence_where_the_expansion_is_far_from_the_likelihood():
    """Columns that separate the responses, and a wide slab: the posterior has a long tail."""
    x = np.random.default_rng(0).standard_normal((12, 2))
    yes = (x[:, 0] > 0).astype(float)
    rows = BinomialRows.of(x, np.ones((12, 1)), from_counts(yes, None, None, "logit"), units_of(2))
    grid = binary_grid(rows, Given(np.full(2, 0.5), 1000.0))
    assert log_evidence(rows, grid, np.zeros((1, 12)), np.random.default_rng(0), n_chains=2, rounds=3) is None
