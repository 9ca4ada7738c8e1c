"""MASS::lm.ridge: coefficients and generalised cross-validation."""

import numpy as np
import pytest

from pybayesridge import BayesRidge
from tests.against_r.problems import PROBLEMS

pytestmark = [
    pytest.mark.r_packages("MASS"),
    pytest.mark.filterwarnings("ignore::pybayesridge.GridEdgeWarning"),
]

GRID = np.array([0.01, 0.1, 1.0, 10.0, 100.0])

FIT = """
function(x, y, lambda) {
  fit <- MASS::lm.ridge(y ~ x, lambda = lambda)
  list(coef = t(as.matrix(coef(fit))), gcv = as.numeric(fit$GCV))
}
"""


@pytest.mark.parametrize("name", [name for name, p in PROBLEMS.items() if p.weights is None and p.x.shape[1] > 1])
def test_lm_ridge(r, close, name):
    problem = PROBLEMS[name]
    n = len(problem.y)
    theirs = r(FIT, x=problem.x, y=problem.y, **{"lambda": GRID})
    model = BayesRidge(problem.y, problem.x)
    fits = [model.fit("fixed", lam=lam) for lam in GRID]
    ours = np.column_stack([fit.params for fit in fits])
    unit = np.r_[1.0, problem.sd_x][:, None]
    close(ours[1:] * unit[1:], theirs["coef"][1:] * unit[1:], "LM_RIDGE")
    close(ours[0], theirs["coef"][0], "LM_RIDGE")
    # lm.ridge's score is RSS / (n - df)^2, without the intercept in df; ours is n RSS / (n - 1 - df)^2.
    df = np.array([fit.df_model for fit in fits])
    scores = model.fit("gcv", grid=GRID).grid_scores
    close(scores * (n - 1 - df) ** 2 / n, theirs["gcv"] * (n - df) ** 2, "LM_RIDGE")
