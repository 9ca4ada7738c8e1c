#' Posterior of the hyperparameters
#'
#' Posterior mean, median and credible interval of the hyperparameters. For [bayes_ridge()]: the penalty `lambda`,
#' `tau2 = 1/lambda`, the noise variance `sigma2` (with `family = gaussian()`) and the effective degrees of freedom, of negative binomial counts and beta-binomial shares also the dispersion
#' `alpha`, of Student-t noise its scale `sigma` and, unless they were given, its degrees of freedom `df`; with several
#' bands `sd[band]` and correlations, see [variance_components()], in place of `lambda`, `tau2` and the effective degrees of freedom. For
#' [spike_slab()] with `method = "exact"`: `noise_var`, `slab_var`, `prior_inclusion` (`NaN` if it was given), `prior_share` (the share of
#' variance that the hyperparameters expect the columns to explain) and `size` (the number of included columns, whose mean
#' is `expected_size` of the fit); with groups of several columns also `groups_included` (the number of included groups,
#' each column outside them counted as one). For [spike_slab()] with `family = "negative-binomial"` it has the dispersion `alpha` alone.
#'
#' @param object A fit of [bayes_ridge()], or of [spike_slab()] with `method = "exact"` or `family = "negative-binomial"`.
#' @param level Probability of the credible interval.
#' @param ... Not used: further arguments raise an error.
#' @return A data frame with a row for each quantity (and each target, if there are several) and the columns `mean`,
#'   `median`, `lower` and `upper`. A mean is infinite if it does not exist, as for `lambda` if `a` is at most 1 in the
#'   prior. For methods that fix the penalty all columns contain its value.
#' @examplesIf pybayesridge::pybayesridge_available()
#' hyperparameters(bayes_ridge(mpg ~ ., data = mtcars))
#' hyperparameters(spike_slab(mpg ~ ., data = mtcars, method = "exact"))
#' @export
hyperparameters <- function(object, level = 0.95, ...) {
  refuse_dots("hyperparameters", ...)
  check_level(level)
  refuse_pooled(object, "hyperparameters")
  if (has_sets(object$posterior)) {
    return(sets_hyperparameters(object, level))
  }
  shape <- shape_table(object, level)
  if (inherits(object, "spike_slab") && !is.null(shape)) {
    return(shape)
  }
  if (!inherits(object, "bayes_ridge")) {
    stop("hyperparameters() is for fits of bayes_ridge(), and of spike_slab() with method = \"exact\"", call. = FALSE)
  }
  if (inherits(object, "bayes_ridge_bands")) {
    return(hyperparameters_of_bands(object, level))
  }
  if (layout_of(object$posterior) != "spectrum") {
    return(generalized_hyperparameters(object, level))
  }
  post <- object$posterior
  others <- length(post$z_at) - object$constant
  tables <- lapply(seq_along(object$targets), function(i) {
    at <- c(0.5, tails(level))
    d <- log_t2_distribution(post, i)
    points <- log_t2_quantiles(d, at)
    df <- rowSums(shrinkage(post$s, points)) + others
    sigma2 <- sigma2_quantiles(post, i, d, at) * post$y_norm[i]^2
    quantiles <- rbind(exp(post$log_unit - points)[c(1L, 3L, 2L)], exp(points - post$log_unit), sigma2, df)
    table <- data.frame(object$hyper_means[, i], quantiles)
    names(table) <- c("mean", "median", "lower", "upper")
    what <- c("lambda", "tau2", "sigma2", "df_model")
    if (length(object$targets) == 1L) {
      rownames(table) <- what
      return(table)
    }
    rownames(table) <- paste(object$targets[i], what, sep = ":")
    cbind(response = object$targets[i], parameter = what, table)
  })
  do.call(rbind, tables)
}

# Quantiles of values with weights: the smallest value that the probability does not exceed.
discrete_quantiles <- function(weight, values, probabilities) {
  if (anyNA(values)) {
    return(rep(NaN, length(probabilities)))
  }
  sorted <- order(values)
  below <- cumsum(weight[sorted])
  at <- vapply(probabilities, function(probability) sum(below < probability - sum_error) + 1, 0)
  values[sorted[pmin(at, length(values))]]
}

# Quantiles of a mixture of the inverse gammas with shape df / 2 and scale df / 2 times `scale2`.
variance_quantiles <- function(weight, scale2, df, probabilities) {
  shape <- df / 2
  vapply(probabilities, function(probability) {
    excess <- function(log_s2) {
      sum(weight * stats::pgamma(scale2 * shape * exp(-log_s2), shape, lower.tail = FALSE)) - probability
    }
    ends <- log(sum(weight * scale2)) + c(-1, 1) * (1 + 100 / df)
    exp(stats::uniroot(excess, ends, extendInt = "upX", tol = 1e-13, maxiter = 1000L)$root)
  }, 0)
}

# Mean, median and interval of the hyperparameters of the states, and of the numbers of columns and groups in.
sets_hyperparameters <- function(object, level) {
  post <- object$posterior
  at <- c(0.5, tails(level))
  weight <- post$weight[, 1L]
  g <- exp(post$log_g)
  log_p <- if (anyNA(post$t)) 0 else stats::plogis(post$t, log.p = TRUE)
  of_variance <- function(factor) {
    scale2 <- factor * post$noise[, 1L]
    limits <- if (is.finite(post$df)) {
      variance_quantiles(weight, scale2, post$df, at)
    } else {
      discrete_quantiles(weight, scale2, at)
    }
    c(variance_factor(post$df) * sum(weight * scale2), limits)
  }
  of_values <- function(values) c(sum(weight * values), discrete_quantiles(weight, values, at))
  table <- rbind(
    noise_var = of_variance(rep(post$y_norm[1L]^2, length(weight))),
    slab_var = of_variance(g * post$slab_unit),
    prior_inclusion = of_values(stats::plogis(post$t)),
    prior_share = of_values(stats::plogis(post$log_spread + log_p + post$log_g)),
    size_rows(object, level)
  )
  # Its tail is long, and a kept state has one slab variance: the mean is over all of them given the set.
  table["slab_var", 1L] <- post$slab_unit * sum(weight * post$state_slab)
  if (!family_of(object)$noise) table <- table[-1L, ]
  as.data.frame(table)
}

# Mean, median and interval of the number of columns in, and of groups where some have several columns. The probabilities
# are those of the number of units; of columns in groups the kept states tell.
size_rows <- function(object, level) {
  post <- object$posterior
  row <- function(mean, prob, number) {
    ends <- discrete_quantiles(prob, number, c(0.5, tails(level)))
    c(mean = mean, median = ends[1L], lower = ends[2L], upper = ends[3L])
  }
  of_units <- row(sum(unit_probabilities(object)), post$size_prob, seq_along(post$size_prob) - 1)
  if (!anyDuplicated(units_of(post))) {
    return(rbind(size = of_units))
  }
  rbind(size = row(object$expected_size, weight_of_sets(post), post$set_size), groups_included = of_units)
}
