# R's numbers against Python's: relative to the largest of each vector.
same_as_python <- 1e-10

# Skips where Python is absent; on continuous integration that is a failure.
skip_without_python <- function() {
  found <- pybayesridge_available()
  if (!found && nzchar(Sys.getenv("CI"))) {
    stop("no Python side: ", attr(found, "reason"))
  }
  testthat::skip_if_not(found, "no Python side")
}

# Whether all cases are to run, which continuous integration asks for (tests/effort.py).
is_thorough <- function() nzchar(Sys.getenv("PYBAYESRIDGE_THOROUGH"))

# Compares vectors of any shape, entry by entry.
expect_close <- function(object, expected, tolerance = same_as_python) {
  object <- as.vector(object)
  expected <- as.vector(expected)
  testthat::expect_length(object, length(expected))
  testthat::expect_identical(is.finite(object), is.finite(expected))
  finite <- is.finite(expected)
  size <- max(abs(expected[finite]), 0)
  testthat::expect_lte(max(abs(object[finite] - expected[finite]), 0), tolerance * size)
}

# Everything Python says of a ridge whose columns R made; `x` and `rows` without R's column of ones.
python_ridge <- function(y, x, rows, ..., weights = NULL, intercept = TRUE, unpenalized = NULL, level = 0.9,
                         prior = "r2") {
  reference <- reticulate::py_run_string("
def reference(y, x, rows, weights, intercept, unpenalized, fit, alpha, prior):
    import warnings
    import numpy as np
    from pybayesridge import BayesRidge
    if unpenalized is not None:
        unpenalized = [int(u) for u in np.atleast_1d(unpenalized)]
    y = y[:, 0] if y.shape[1] == 1 else y
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        res = BayesRidge(y, x, intercept=intercept, weights=weights, unpenalized=unpenalized, prior=prior).fit(**fit)
    n, q = len(y), 1 if y.ndim == 1 else y.shape[1]
    def frame(p):
        return p.summary_frame(alpha).to_numpy().reshape(-1, q, 6)
    return dict(
        coef=np.asarray(res.params), bse=np.asarray(res.bse),
        cov=np.stack([np.asarray(res.cov_params(i)) for i in range(q)]),
        ci=np.asarray(res.conf_int(alpha)),
        fitted=np.asarray(res.fittedvalues), resid=np.asarray(res.resid),
        new=frame(res.get_prediction(rows)), own=frame(res.get_prediction()),
        lam=np.atleast_1d(np.asarray(res.lambda_)), sigma2=np.atleast_1d(np.asarray(res.sigma2)),
        log_marginal=np.atleast_1d(np.asarray(res.log_marginal)),
        hyper=res.hyperparameters(alpha).to_numpy().reshape(q, 4, 4),
    )
", local = TRUE)$reference
  reference(
    as.matrix(y), x, rows, weights, intercept, if (!is.null(unpenalized)) as.list(unpenalized - 1),
    list(...), 1 - level, if (is.character(prior)) prior else as.list(prior)
  )
}

without_ones <- function(x) x[, colnames(x) != "(Intercept)", drop = FALSE]

has_report <- function() {
  reticulate::py_module_available("jinja2") && reticulate::py_module_available("matplotlib")
}
