"""glmnet: its grid of penalties, its ridge coefficients, its leave-one-out cross-validation."""

import numpy as np
import pytest

from pybayesridge import BayesRidge
from tests.against_r.problems import PROBLEMS

pytestmark = [
    pytest.mark.r_packages("glmnet"),
    pytest.mark.filterwarnings("ignore::pybayesridge.GridEdgeWarning"),
]

# glmnet refuses a matrix of one column; a constant one, which it leaves out, changes nothing.
FIT = """
function(x, y, weights = rep(1, length(y)), alpha = 0, lambda = NULL) {
  x <- as.matrix(x)
  if (ncol(x) == 1) x <- cbind(x, 0)
  fit <- glmnet::glmnet(x, y, weights = weights, alpha = alpha, lambda = lambda, thresh = 1e-22, maxit = 1e8)
  list(lambda = fit$lambda, intercept = as.numeric(fit$a0), coef = as.matrix(fit$beta))
}
"""

CV = """
function(x, y, lambda) {
  x <- as.matrix(x)
  if (ncol(x) == 1) x <- cbind(x, 0)
  n <- length(y)
  cv <- glmnet::cv.glmnet(
    x, y, alpha = 0, lambda = lambda, nfolds = n, foldid = seq_len(n), grouped = FALSE, thresh = 1e-20, maxit = 1e8
  )
  list(lambda = cv$lambda, errors = cv$cvm, best = cv$lambda.min)
}
"""


@pytest.fixture(params=list(PROBLEMS))
def problem(request):
    return PROBLEMS[request.param]


def loocv(problem):
    """Our choice from glmnet's grid."""
    return BayesRidge(problem.y, problem.x, weights=problem.weights).fit("loocv", grid="glmnet")


def test_grid_is_glmnets(r, close, problem):
    ours = problem.glmnet_units(loocv(problem).grid)
    path = r(FIT, x=problem.x, y=problem.y, weights=problem.weights)
    theirs = path["lambda"]
    assert theirs.size == ours.size == 100
    close(ours[1:], theirs[1:], "GLMNET_GRID")
    # glmnet's first penalty shrinks everything to nothing; it reports the geometric continuation of the rest, ours.
    assert np.abs(path["coef"][:, 0] * path["lambda"][0]).max() < 1e-25
    close(theirs[0], theirs[1] ** 2 / theirs[2], "GLMNET_GRID")
    close(ours[0], theirs[0], "GLMNET_GRID")


def test_largest_penalty_is_that_of_alpha_0_001(r, close, problem):
    ours = problem.glmnet_units(loocv(problem).grid)
    theirs = r(FIT, x=problem.x, y=problem.y, weights=problem.weights, alpha=0.001)["lambda"]
    close(ours[0], theirs[0], "GLMNET_GRID")


def test_coefficients_at_every_penalty(r, close, problem):
    grid = loocv(problem).grid
    theirs = r(FIT, x=problem.x, y=problem.y, weights=problem.weights, **{"lambda": problem.glmnet_units(grid)})
    model = BayesRidge(problem.y, problem.x, weights=problem.weights)
    ours = np.column_stack([model.fit("fixed", lam=lam).params for lam in grid])
    p = problem.x.shape[1]
    unit = problem.sd_x[:, None]
    close(ours[1:] * unit, theirs["coef"][:p] * unit, "GLMNET_COEFFICIENTS")
    mean = problem.w @ problem.x
    # Intercepts at the means of the columns: elsewhere they are differences of large numbers.
    close(ours[0] + mean @ ours[1:], theirs["intercept"] + mean @ theirs["coef"][:p], "GLMNET_COEFFICIENTS")


def fold_errors(problem, lambdas):
    """Leave-one-out errors with glmnet's rules: in each fold columns and response are standardised anew."""
    out = np.zeros((len(problem.y), lambdas.size))
    for i in range(len(problem.y)):
        keep = np.arange(len(problem.y)) != i
        y, x = problem.y[keep], problem.x[keep]
        model = BayesRidge(y, x)
        for k, lam in enumerate(lambdas * len(y) / y.std()):
            b = np.asarray(model.fit("fixed", lam=lam).params)
            out[i, k] = (problem.y[i] - b[0] - problem.x[i] @ b[1:]) ** 2
    return out.mean(axis=0)


UNWEIGHTED = [name for name, problem in PROBLEMS.items() if problem.weights is None]


@pytest.mark.parametrize("name", UNWEIGHTED)
def test_leave_one_out_is_cv_glmnets(r, close, note, name):
    problem = PROBLEMS[name]
    res = loocv(problem)
    lambdas = problem.glmnet_units(res.grid)
    theirs = r(CV, x=problem.x, y=problem.y, **{"lambda": lambdas})
    at = np.arange(0, 100, 11)
    close(fold_errors(problem, lambdas[at]), theirs["errors"][at], "CV_GLMNET_EXACT")
    best = int(np.argmin(res.grid_scores))
    note("CV_GLMNET_CHOICE", abs(best - int(np.argmin(theirs["errors"]))))
    near = np.abs(np.log10(lambdas / lambdas[best])) <= 1
    close(res.grid_scores[near], theirs["errors"][near], "CV_GLMNET_ERRORS")
