#' Bayesian variable selection with a spike-and-slab prior
#'
#' Posterior inclusion probabilities and coefficients under a spike-and-slab prior, by expectation propagation: no
#' sampling, the same answer every time.
#'
#' @details
#' With \eqn{Z} the unpenalised columns (the intercept at least), which have a flat prior and are always in,
#'
#' \deqn{y \sim N(Z g + X w, \sigma^2 W^{-1}), \quad w_i \sim p_i N(0, v) + (1 - p_i) \delta_0.}
#'
#' The prior is on the scale of each column's standard deviation unless `standardize = FALSE`; everything that is reported
#' is on the scale of the data.
#'
#' Fitting calls Python, see [install_pybayesridge()]. The fit is a list of R's own numbers and strings, and the methods
#' (see [pybayesridge-methods]) work without Python. `confint()` gives quantiles of the mixture of a point mass at zero and
#' a normal distribution.
#'
#' @inheritParams bayes_ridge
#' @param method `"ep"` is damped expectation propagation, `"pcep"` the provably convergent double loop, `"auto"` the first
#'   and then a convergent algorithm where the first does not settle.
#' @param prior_inclusion Prior probability of inclusion, one number or one for each penalised column; `NULL` learns it.
#' @param slab_var Variance of the slab; `NULL` learns it.
#' @param noise_var Noise variance; `NULL` learns it. Learning maximises the evidence.
#' @param tol,maxiter,damping Stopping rule, most iterations and damping; `NULL` leaves them to Python's defaults.
#'
#' @return A list of class `"spike_slab"` with, among others, the elements of [bayes_ridge()] that do not belong to a
#'   penalty, and
#'   \describe{
#'     \item{inclusion_prob}{posterior inclusion probabilities (1 for unpenalised columns); see [inclusion_prob()]}
#'     \item{cond_mean, cond_var}{mean and variance of each coefficient given that it is included}
#'     \item{log_evidence}{log marginal likelihood as expectation propagation has it, also by `logLik()`}
#'     \item{prior_inclusion, slab_var, noise_var, learned}{the hyperparameters, and which of them were learned}
#'     \item{energy_trace}{course of the algorithm}
#'   }
#' @references Hernandez-Lobato and Hernandez-Lobato (2011). Convergent Expectation Propagation in Linear Models with
#'   Spike-and-slab Priors. arXiv:1112.2289.
#' @seealso [bayes_ridge()], [inclusion_prob()], [median_model()], [pybayesridge-methods]
#' @examplesIf pybayesridge::pybayesridge_available()
#' fit <- spike_slab(mpg ~ ., data = mtcars)
#' summary(fit)
#' inclusion_prob(fit)
#' median_model(fit)
#' @export
spike_slab <- function(formula, data, subset, weights, na.action, method = c("auto", "ep", "pcep"),
                       x = NULL, y = NULL, intercept = TRUE, unpenalized = NULL, standardize = TRUE,
                       prior_inclusion = NULL, slab_var = NULL, noise_var = NULL, tol = NULL, maxiter = NULL,
                       damping = NULL, contrasts = NULL, model = FALSE, disp = FALSE) {
  call <- match.call()
  method <- match.arg(method)
  input <- if (missing(formula)) {
    matrix_input(x, y, if (missing(weights)) NULL else weights, check_flag(intercept, "intercept"))
  } else {
    refuse_both(x, y)
    formula_input(call, parent.frame(), contrasts)
  }
  value <- call_python(
    "spike_slab", input$y, input$x,
    x_names = if (is.null(colnames(input$x))) NULL else as.list(colnames(input$x)),
    y_names = as.list(colnames(input$y)),
    from_formula = !is.null(input$terms),
    model = list(
      intercept = input$intercept,
      weights = input$weights,
      unpenalized = resolve_unpenalized(unpenalized, input),
      standardize = check_flag(standardize, "standardize"),
      prior_inclusion = if (is.null(prior_inclusion)) NULL else check_numbers(prior_inclusion, "prior_inclusion"),
      slab_var = check_number(slab_var, "slab_var"),
      noise_var = check_number(noise_var, "noise_var")
    ),
    fit = list(
      method = method,
      tol = check_number(tol, "tol"),
      maxiter = check_number(maxiter, "maxiter"),
      damping = check_number(damping, "damping")
    )
  )
  fit <- shared_fit(value, input, call, keep = check_flag(model, "model"))
  over <- function(numbers) stats::setNames(as.vector(numbers), names(fit$coefficients))
  learned <- c(
    if (is.null(prior_inclusion)) "prior_inclusion", if (is.null(slab_var)) "slab_var",
    if (is.null(noise_var)) "noise_var"
  )
  fit <- c(fit, list(
    inclusion_prob = over(value$inclusion_prob),
    cond_mean = over(value$cond_mean),
    cond_var = over(value$cond_var),
    log_evidence = as.vector(value$log_evidence),
    prior_inclusion = as.vector(value$prior_inclusion),
    slab_var = as.vector(value$slab_var),
    noise_var = as.vector(value$noise_var),
    learned = learned,
    energy_trace = as.vector(value$energy_trace),
    posterior = lapply(value$posterior, plain)
  ))
  if (isTRUE(disp)) {
    cat(sprintf("%s: %d iterations, converged: %s\n", method, as.integer(fit$n_iter), fit$converged))
  }
  structure(fit[!vapply(fit, is.null, NA)], class = c("spike_slab", "pybayesridge_fit"))
}

#' Inclusion probabilities and the median model
#'
#' @param object A fit of [spike_slab()].
#' @param ... Not used.
#' @return `inclusion_prob()`: posterior inclusion probabilities of all coefficients, a named vector. `median_model()`: the
#'   names of those above one half.
#' @examplesIf pybayesridge::pybayesridge_available()
#' fit <- spike_slab(mpg ~ ., data = mtcars)
#' sort(inclusion_prob(fit), decreasing = TRUE)
#' median_model(fit)
#' @export
inclusion_prob <- function(object, ...) UseMethod("inclusion_prob")

#' @rdname inclusion_prob
#' @export
inclusion_prob.spike_slab <- function(object, ...) object$inclusion_prob

#' @rdname inclusion_prob
#' @export
median_model <- function(object) {
  p <- inclusion_prob(object)
  names(p)[p > 0.5]
}

#' @exportS3Method
headline.spike_slab <- function(object, digits) {
  c(
    paste0(
      "prior inclusion ", paste(signif(range(object$prior_inclusion), digits)[c(TRUE, length(object$prior_inclusion) > 1L)],
        collapse = " to "
      ),
      ", slab variance ", signif(object$slab_var, digits), ", sigma ", signif(sqrt(object$noise_var), digits),
      ", log evidence ", signif(object$log_evidence, digits)
    ),
    paste0("median model: ", paste(setdiff(median_model(object), "(Intercept)"), collapse = ", "))
  )
}

#' @exportS3Method
facts.spike_slab <- function(object) {
  data.frame(
    row.names = object$targets,
    nobs = object$nobs,
    prior_inclusion = mean(object$prior_inclusion),
    slab_var = object$slab_var,
    sigma = sqrt(object$noise_var),
    df_model = unname(object$df_model),
    df_resid = unname(object$df_resid),
    r.squared = unname(object$rsquared),
    log_evidence = object$log_evidence
  )
}

# Quantiles of r N(mean, sd^2) + (1 - r) delta_0, each argument a vector: an m x length(probabilities) matrix.
spike_quantiles <- function(r, mean, sd, probabilities) {
  below <- ifelse(r > 0, r * stats::pnorm(0, mean, sd), 0)
  vapply(probabilities, function(p) {
    out <- numeric(length(r))
    low <- p < below
    high <- p > below + (1 - r)
    out[low] <- stats::qnorm(p / r[low], mean[low], sd[low])
    out[high] <- stats::qnorm((1 - p) / r[high], mean[high], sd[high], lower.tail = FALSE)
    out
  }, numeric(length(r)))
}

#' @rdname plot.pybayesridge_fit
#' @export
plot.spike_slab <- function(x, which = c("inclusion", "coefficients"), level = 0.95, max_shown = 40, intercept = FALSE,
                            standardized = TRUE, xlab = NULL, main = NULL, ...) {
  which <- match.arg(which)
  if (which == "coefficients") {
    return(plot_coefficients(x, level, 1, max_shown, intercept, standardized, xlab, main, ...))
  }
  p <- x$inclusion_prob
  keep <- which(intercept | names(p) != "(Intercept)")
  keep <- keep[order(-p[keep])][seq_len(min(max_shown, length(keep)))]
  keep <- rev(sort(keep))
  at <- seq_along(keep)
  old <- wide_margin(names(p)[keep])
  on.exit(graphics::par(old))
  dot_frame(
    names(p)[keep], c(0, 1), if (is.null(xlab)) "posterior inclusion probability" else xlab,
    if (is.null(main)) x$targets else main, ...
  )
  graphics::abline(v = 0.5, lty = 2L, col = "grey50")
  graphics::segments(0, at, p[keep], at, lwd = 3, lend = 1L)
  graphics::points(p[keep], at, pch = 19L)
  invisible(x)
}
