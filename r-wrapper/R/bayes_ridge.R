#' Bayesian ridge regression
#'
#' Ridge regression with the penalty found from its posterior instead of by cross-validation.
#'
#' @details
#' With \eqn{Z} the unpenalised columns (the intercept at least), which have a flat prior, and \eqn{X} the others,
#'
#' \deqn{y \sim N(Z g + X b, \sigma^2 W^{-1}), \quad b \sim N(0, \tau^2 \sigma^2 I), \quad
#'   p(\sigma^2) \propto 1/\sigma^2, \quad \tau^2 \sum_j |x_j|^2 / n \sim \mathrm{beta'}(1/2, 1/2).}
#'
#' A priori the share of variance that the columns explain is Beta(1/2, 1/2), whatever their number; see `prior`. The
#' ridge penalty is \eqn{\lambda = 1/\tau^2}. The prior of `b` is on the scale of each column's (weighted, 1/n)
#' standard deviation unless `standardize = FALSE`; everything that is reported is on the scale of the data. The
#' penalty is that of \eqn{\|y - Xb\|^2 + \lambda \|b\|^2}; glmnet's `lambda` is `sd(y) / n` times it, with `sd` the
#' one that divides by n.
#'
#' | `method` | the penalty | uncertainty |
#' | --- | --- | --- |
#' | `"exact"` | integrated out | the exact marginal posterior: a mixture of t distributions |
#' | `"em"` | at its posterior mode, by expectation maximisation | conditional on the mode: normal, too narrow |
#' | `"loocv"`, `"gcv"` | minimises cross-validation over `grid` | conditional on the penalty: t |
#' | `"fixed"` | `lam` | conditional on the penalty: t |
#'
#' Fitting calls Python, see [install_pybayesridge()]. The fit is a list of R's own numbers and strings, and the methods
#' (see [pybayesridge-methods]) work without Python. It keeps its model frame, or `x` and `y`, where that is small; see
#' `model`. The fitted values and residuals, which every fit has, add up to the response.
#'
#' @param formula A formula such as `y ~ x1 + poly(x2, 3) + g`, or `cbind(y1, y2) ~ .` for several targets. R's own
#'   [stats::model.frame()] and [stats::model.matrix()] read it. An offset is refused.
#' @param data A data frame, list or environment with the variables of the formula.
#' @param subset,weights,na.action As in [stats::lm()], evaluated in `data`; `subset` and `na.action` go with a formula
#'   only. Weights are precision weights; only their ratios matter.
#' @param method `"exact"`, `"em"`, `"loocv"`, `"gcv"` or `"fixed"`; see the details.
#' @param x,y Instead of a formula: a numeric matrix (or data frame of numbers) of columns, and a vector or matrix of
#'   targets. A constant column of `x` serves as the intercept. Sparse matrices of the package 'Matrix' stay sparse in
#'   `bayes_ridge()` while it fits; `spike_slab()` makes them dense.
#' @param intercept With `x` and `y`: whether there is an intercept. With a formula the formula says so, and anything
#'   else here is an error.
#' @param unpenalized Columns with a flat prior, never shrunk: names of terms or of columns of the model matrix; with
#'   `x` names or positions.
#' @param standardize Whether the prior is on the scale of the columns' standard deviations.
#' @param prior Prior of \eqn{\tau^2}: `"r2"`, `"half-cauchy"`, or two or three positive numbers `(a, b)` or
#'   `(a, b, scale)`. \eqn{\tau^2}/scale is beta-prime, with density proportional to \eqn{t^{a-1} (1+t)^{-a-b}}; a scale
#'   that is not given is 1. `"r2"` is (1/2, 1/2) with the scale \eqn{1 / (\sum_j |x_j|^2 / n)}, \eqn{x_j} the penalised
#'   columns on the scale of the prior, weighted and with the unpenalised ones projected out. `"half-cauchy"` is the
#'   paper's, (1/2, 1/2, 1): \eqn{\tau} is half-Cauchy with scale 1; with it the prior share of explained variance tends to
#'   1 as columns are added.
#' @param sigma2 The noise variance where it is known.
#' @param tol Accuracy of log lambda at which iterations stop.
#' @param maxiter Most iterations.
#' @param grid For `"loocv"` and `"gcv"`: `"fixed"` (1e10 to 1e-10, the default), `"glmnet"` (the penalties glmnet would
#'   try), or a vector of penalties.
#' @param lam For `"fixed"`: the penalty, or one for each target; 0 is least squares.
#' @param dof `"nu"` counts n less the rank of the unpenalised columns, which is right, `"paper"` counts n.
#' @param parameterization For `"em"`: whether the mode is that of a density in \eqn{\tau^2} or in \eqn{\tau}.
#' @param accelerate For `"em"`: find the fixed point of EM by root finding; `FALSE` runs the iteration itself. The
#'   answers agree.
#' @param contrasts A list as in [stats::lm()].
#' @param model Whether to keep the model frame (or `x` and `y`) with the fit, for what is asked at its own rows:
#'   `predict(interval = )`, `augment()`, `model.matrix()`, `simulate()`, `report()`. `NULL` keeps up to a million cells.
#'   With `FALSE` these methods look the data up by the call.
#' @param disp Print how the iteration went.
#'
#' @return A list of class `"bayes_ridge"`. Where there are several targets vectors over coefficients and rows become
#'   matrices with a column for each, and numbers vectors. Among the elements:
#'   \describe{
#'     \item{coefficients, bse}{posterior means and standard deviations}
#'     \item{fitted.values, residuals}{at the rows of the data}
#'     \item{lambda_, tau2, sigma2}{the penalty, `1 / lambda_`, and the noise variance. For `"exact"` the penalty is the
#'       posterior mean on the log scale; see [hyperparameters()].}
#'     \item{log_marginal}{log marginal likelihood, also by `logLik()`}
#'     \item{df_model, df_resid, rsquared, nobs}{effective degrees of freedom (less one for a constant) and so on}
#'     \item{converged, n_iter, n_modes, solver, diagnostics, notes}{what to know of the computation}
#'     \item{loo_mse, grid, grid_scores}{for `"loocv"` and `"gcv"`}
#'     \item{posterior}{what intervals and predictions are made of}
#'   }
#' @references Tew, Boley and Schmidt (2023). Bayes beats Cross Validation: Fast and Accurate Ridge Regression via
#'   Expectation Maximization. NeurIPS.
#' @seealso [spike_slab()], [pybayesridge-methods]
#' @examplesIf pybayesridge::pybayesridge_available()
#' fit <- bayes_ridge(mpg ~ ., data = mtcars)
#' summary(fit)
#' predict(fit, mtcars[1:3, ], interval = "prediction")
#'
#' confint(bayes_ridge(mpg ~ poly(hp, 2) + wt + factor(cyl), data = mtcars))
#' @export
bayes_ridge <- function(formula, data, subset, weights, na.action,
                        method = c("exact", "em", "loocv", "gcv", "fixed"),
                        x = NULL, y = NULL, intercept = TRUE, unpenalized = NULL, standardize = TRUE,
                        prior = "r2", sigma2 = NULL, tol = 1e-8, maxiter = 10000, grid = NULL, lam = NULL,
                        dof = c("nu", "paper"), parameterization = c("tau2", "tau"), accelerate = TRUE,
                        contrasts = NULL, model = NULL, disp = FALSE) {
  call <- match.call()
  method <- match.arg(method)
  dof <- match.arg(dof)
  parameterization <- match.arg(parameterization)
  keeps_data(model, 0)
  input <- if (missing(formula)) {
    refuse_formula_arguments(call)
    matrix_input(x, y, if (missing(weights)) NULL else weights, check_flag(intercept, "intercept"), sparse = TRUE)
  } else {
    refuse_both(x, y)
    check_formula(formula, "bayes_ridge", data)
    formula_input(call, parent.frame(), contrasts, if (!missing(intercept)) intercept)
  }
  settings <- list(
    family = "bayes_ridge",
    model = list(
      intercept = input$intercept,
      unpenalized = resolve_unpenalized(unpenalized, input),
      standardize = check_flag(standardize, "standardize"),
      prior = prior_for_python(prior),
      sigma2 = check_number(sigma2, "sigma2")
    ),
    fit = list(
      method = method,
      tol = check_number(tol, "tol"),
      maxiter = check_number(maxiter, "maxiter"),
      grid = check_grid(grid),
      lam = if (is.null(lam)) NULL else check_numbers(lam, "lam"),
      dof = dof,
      parameterization = parameterization,
      accelerate = check_flag(accelerate, "accelerate")
    )
  )
  value <- call_fit(settings, input)
  fit <- shared_fit(value, input, call, settings, model)
  one <- function(numbers) by_target(numbers, fit$targets)
  fit <- c(fit, list(
    dof = dof,
    parameterization = parameterization,
    prior = prior,
    known_sigma2 = sigma2,
    lambda_ = one(value$lambda_),
    tau2 = one(value$tau2),
    sigma2 = one(value$sigma2),
    log_marginal = one(value$log_marginal),
    n_modes = one(value$n_modes),
    solver = value$solver,
    loo_mse = one(value$loo_mse),
    grid = plain_columns(value$grid),
    grid_scores = plain_columns(value$grid_scores),
    quadrature_error = one(value$quadrature_error),
    diagnostics = lapply(value$diagnostics, one),
    hyper_means = plain(value$hyper_means),
    posterior = plain_tree(value$posterior)
  ))
  if (isTRUE(disp)) {
    cat(sprintf("%s: %d iterations, converged: %s\n", method, as.integer(fit$n_iter), fit$converged))
  }
  structure(fit[!vapply(fit, is.null, NA)], class = c("bayes_ridge", "pybayesridge_fit"))
}

# Fits in Python what formula_input() or matrix_input() made, or does something else with the fit: `what`.
call_fit <- function(settings, input, ..., what = settings$family) {
  settings$model$weights <- input$weights
  labels <- colnames(input$x)
  do.call(call_python, c(
    list(
      what, input$y, columns_for_python(input$x),
      x_names = if (is.null(labels)) NULL else as.list(labels),
      y_names = as.list(colnames(input$y)),
      from_formula = !is.null(input$terms)
    ),
    settings[setdiff(names(settings), "family")],
    list(...)
  ))
}

# What both families keep.
shared_fit <- function(value, input, call, settings, model) {
  keep <- keeps_data(model, cells(input))
  names <- value$names
  if (isTRUE(value$intercept_added)) {
    names[1L] <- "(Intercept)"
  }
  targets <- as.character(unlist(value$targets))
  rows <- input$row_names
  over <- function(m, labels) labelled(m, labels, targets)
  list(
    call = strip_call(call),
    method = value$method,
    targets = targets,
    coefficients = over(value$params, names),
    bse = over(value$bse, names),
    fitted.values = over(value$fittedvalues, rows),
    residuals = over(value$resid, rows),
    weights = input$weights,
    weight_mean = value$weight_mean,
    rsquared = by_target(value$rsquared, targets),
    nobs = as.integer(value$nobs),
    df_model = by_target(value$df_model, targets),
    df_resid = by_target(value$df_resid, targets),
    converged = value$converged,
    n_iter = as.integer(value$n_iter),
    standardize = value$standardize,
    notes = as.character(unlist(value$notes)),
    intercept_added = value$intercept_added,
    named = if (is.null(input$terms)) !is.null(colnames(input$x)),
    columns = if (is.null(input$terms)) setdiff(names, if (value$intercept_added) "(Intercept)"),
    settings = settings,
    terms = input$terms,
    variables = input$variables,
    xlevels = input$xlevels,
    contrasts = input$contrasts,
    na.action = input$na.action,
    model = if (keep && !is.null(input$terms)) kept_frame(input),
    x = if (keep && is.null(input$terms)) input$x,
    y = if (keep && is.null(input$terms)) input$y
  )
}

# A name as it is, numbers as a list; Python refuses what is neither or has another length.
prior_for_python <- function(prior) {
  if (is.character(prior) && length(prior) == 1L && !is.na(prior)) {
    return(prior)
  }
  if (!is.numeric(prior) || anyNA(prior)) {
    stop("'prior' must be \"r2\", \"half-cauchy\", c(a, b) or c(a, b, scale) with positive numbers", call. = FALSE)
  }
  as.list(as.double(prior))
}

# Cells that a fit keeps where `model` does not say.
most_cells <- 1e6

keeps_data <- function(model, cells) {
  if (is.null(model)) {
    return(cells <= most_cells)
  }
  if (!is.logical(model) || length(model) != 1L || is.na(model)) {
    stop("'model' must be TRUE, FALSE or NULL", call. = FALSE)
  }
  model
}

# Numbers in the model frame, or in x (of a sparse one those that are not zero).
cells <- function(input) {
  if (is.null(input$terms)) {
    return(if (inherits(input$x, "sparseMatrix")) length(input$x@x) else length(input$x))
  }
  sum(vapply(input$frame, length, 0L))
}

kept_frame <- function(input) {
  attr(input$frame, "terms") <- input$terms
  input$frame
}

# R's own vectors and matrices: arrays of one dimension lose it.
plain <- function(a) {
  if (is.array(a) && length(dim(a)) == 1L) as.vector(a) else a
}

plain_tree <- function(value) {
  if (is.list(value)) lapply(value, plain_tree) else plain(value)
}

plain_columns <- function(m) {
  if (is.null(m)) {
    return(NULL)
  }
  if (ncol(m) == 1L) as.vector(m) else m
}

# A k x q matrix as a named vector, or a matrix with names where there are several targets.
labelled <- function(m, labels, targets) {
  if (length(targets) == 1L) {
    return(stats::setNames(as.vector(m), labels))
  }
  dimnames(m) <- list(labels, targets)
  m
}

by_target <- function(numbers, targets) {
  if (is.null(numbers)) {
    return(NULL)
  }
  numbers <- as.vector(numbers)
  if (length(targets) == 1L) numbers else stats::setNames(numbers, targets)
}
