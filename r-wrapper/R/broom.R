# Methods of generics that broom re-exports; they are registered when 'generics' is loaded.

#' Tidy fits
#'
#' Methods for `tidy()`, `glance()` and `augment()` of the packages 'generics' and 'broom'. They do not require Python.
#'
#' @param x A fit.
#' @param conf.int Whether to include credible intervals.
#' @param conf.level Probability of the credible intervals.
#' @param data The data of the fit; by default those kept by the fit or named in its call.
#' @param newdata New data.
#' @param exponentiate For a binomial or ordinal fit with the logit link or a Poisson fit: whether estimates and intervals are odds or rate ratios (the
#'   standard deviation stays that of the coefficient); of fits with terms such as `(1 | g)` those of `effects = "fixed"`. Otherwise `FALSE`: coefficients are on the scale of the response.
#' @param effects Of fits with terms such as `(1 | g)`, as in 'broom.mixed': one or several of `"fixed"` (all coefficients but the
#'   effects of groups), `"ran_vals"` (these) and `"ran_pars"` (the standard deviations). Of other fits not used.
#' @param parametric Given by `mice::pool()`, which applies Rubin's rules to the estimates and standard deviations;
#'   [pool_fits()] pools the posteriors.
#' @param interval Interval of the predictions, as in [predict.pybayesridge_fit()].
#' @param ... Not used: further arguments raise an error.
#' @return A tibble if the package 'tibble' is installed, otherwise a data frame. With several targets the column
#'   `response` contains the name of the target.
#'   * `tidy()`: a row for each coefficient, with `term`, `estimate` (posterior mean), `std.error` (standard deviation),
#'     for [spike_slab()] `inclusion_prob`, by `method = "exact"` also `inclusion_se` (Monte Carlo standard error), and
#'     with `conf.int = TRUE` `conf.low` and `conf.high`.
#'     Of fits with terms such as `(1 | g)` also `effect` and `group`, and `level` of `"ran_vals"`; the `std.error` of the standard
#'     deviation of observations (`sd__Observation`) is `NA`.
#'   * `glance()`: a row for each target; for [spike_slab()] by `method = "exact"` with `log_evidence_se`, the largest
#'     `inclusion_se`, and `agreement` (the potential scale reduction factor of the chains).
#'   * `augment()`: the data with `.fitted`, `.resid` if the response is known, and `.lower` and `.upper` if an interval
#'     is requested. Of ordered categories a column for each, such as `.fitted_low`, and no `.resid`.
#' @examplesIf pybayesridge::pybayesridge_available() && requireNamespace("generics", quietly = TRUE)
#' fit <- bayes_ridge(mpg ~ wt + hp, data = mtcars)
#' generics::tidy(fit, conf.int = TRUE)
#' generics::glance(fit)
#' generics::augment(fit, newdata = mtcars[1:3, ], interval = "prediction")
#' @name tidy.pybayesridge_fit
NULL

as_tibble <- function(table) {
  if (requireNamespace("tibble", quietly = TRUE)) tibble::as_tibble(table) else table
}

#' @rdname tidy.pybayesridge_fit
#' @exportS3Method generics::tidy
tidy.pybayesridge_fit <- function(x, conf.int = FALSE, conf.level = 0.95, exponentiate = FALSE, effects = "fixed",
                                  parametric = TRUE, ...) {
  refuse_dots("tidy", ...)
  if (!missing(effects) && length(x$targets) > 1L) {
    stop("mice::pool() would mix the coefficients of several targets: use pool_fits()", call. = FALSE)
  }
  check_exponentiate(x, exponentiate)
  if (length(group_bands_of(x))) {
    return(tidy_effects(x, effects, conf.int, check_level(conf.level), exponentiate))
  }
  b <- as.matrix(x$coefficients)
  sd <- as.matrix(x$bse)
  limits <- if (conf.int) as_array(coefficient_intervals(x, seq_along(x$targets), tails(check_level(conf.level))))
  rows <- lapply(seq_along(x$targets), function(i) {
    out <- data.frame(term = rownames(b), estimate = unname(b[, i]), std.error = unname(sd[, i]))
    if (length(x$targets) > 1L) {
      out <- cbind(response = x$targets[i], out)
    }
    if (inherits(x, "spike_slab")) {
      out$inclusion_prob <- unname(x$inclusion_prob)
      if (!is.null(x$inclusion_se)) out$inclusion_se <- unname(x$inclusion_se)
    }
    if (conf.int) {
      out$conf.low <- limits[, 1L, i]
      out$conf.high <- limits[, 2L, i]
    }
    if (exponentiate) as_ratios(out) else out
  })
  as_tibble(do.call(rbind, rows))
}

# Estimates and intervals of logs of ratios as those of the ratios.
as_ratios <- function(table) {
  scaled <- intersect(c("estimate", "conf.low", "conf.high"), names(table))
  table[scaled] <- lapply(table[scaled], exp)
  table
}

# The parts of a fit with effects of groups, as those of 'broom.mixed'.
tidy_effects <- function(x, effects, conf.int, level, exponentiate) {
  valid <- c("fixed", "ran_vals", "ran_pars")
  if (!is.character(effects) || !length(effects) || !all(effects %in% valid)) {
    stop("'effects' must be among ", paste0("\"", valid, "\"", collapse = ", "), call. = FALSE)
  }
  at <- if (conf.int) tails(level)
  rows <- lapply(seq_along(x$targets), function(i) {
    parts <- lapply(effects, function(effect) {
      found <- switch(effect, fixed = fixed_rows(x, i, at), ran_vals = effects_of_groups(x, i, at), ran_pars = variance_rows(x, i, at))
      part <- data.frame(
        effect = effect, group = found$group, level = found$level, term = found$term, estimate = found$mean, std.error = found$sd
      )
      if (conf.int) part <- cbind(part, conf.low = found$lower, conf.high = found$upper)
      if (exponentiate && effect == "fixed") as_ratios(part) else part
    })
    out <- do.call(rbind, parts)
    if (length(x$targets) > 1L) cbind(response = x$targets[i], out) else out
  })
  out <- do.call(rbind, rows)
  if (!"ran_vals" %in% effects) out$level <- NULL
  rownames(out) <- NULL
  as_tibble(out)
}

fixed_rows <- function(x, target, at) {
  place <- which(!are_effects_of_groups(x))
  out <- data.frame(
    group = NA_character_, level = NA_character_, term = coefficient_names(x)[place],
    mean = unname(as.matrix(x$coefficients)[place, target]), sd = deviations_at(x, place, target)
  )
  if (is.null(at)) {
    return(out)
  }
  ends <- coefficient_intervals(x, target, at, place)
  cbind(out, lower = ends[, 1L], upper = ends[, 2L])
}

# Standard deviations and correlations of the effects of groups, and the standard deviation of observations.
variance_rows <- function(x, target, at) {
  bands <- group_bands_of(x)
  pairs <- correlated_pairs(x)
  rows <- c(
    rows_of_quantity(x, "sd")[match(vapply(bands, `[[`, "", "name"), x$bands)], rows_of_quantity(x, "correlation"),
    rows_of_quantity(x, "sigma2")
  )
  group <- vapply(bands, function(band) group_label(band$groups), "")
  effect <- vapply(bands, effect_name, "")
  correlations <- if (nrow(pairs)) paste0("cor__", effect[pairs[, 1L]], ".", effect[pairs[, 2L]])
  noise <- rows %in% rows_of_quantity(x, "sigma2")
  mean <- as.matrix(x$components$mean)[rows, target]
  mean[noise] <- sqrt(mean[noise])
  out <- data.frame(
    group = c(group, group[pairs[, 1L]], if (any(noise)) "Residual"), level = NA_character_,
    term = c(paste0("sd__", effect), correlations, if (any(noise)) "sd__Observation"), mean = mean,
    sd = ifelse(noise, NA_real_, as.matrix(x$components$sd)[rows, target])
  )
  if (is.null(at)) {
    return(out)
  }
  ends <- vapply(rows, function(row) quantiles_of_component(x, row, target, at), numeric(2L))
  ends[, noise] <- sqrt(ends[, noise])
  cbind(out, lower = ends[1L, ], upper = ends[2L, ])
}

# Only coefficients of some links are logs of ratios.
check_exponentiate <- function(object, exponentiate) {
  noise <- family_of(object)$noise
  if (check_flag(exponentiate, "exponentiate") && (noise || !family_of(object)$has_ratio(object))) {
    stop(
      "'exponentiate' must be FALSE: ",
      if (identical(object$link, "probit")) {
        "coefficients of the probit link are not log odds ratios"
      } else {
        "the coefficients are on the scale of the response"
      },
      call. = FALSE
    )
  }
}

#' @rdname tidy.pybayesridge_fit
#' @exportS3Method generics::glance
glance.pybayesridge_fit <- function(x, ...) {
  refuse_dots("glance", ...)
  numbers <- x$facts
  several <- length(x$targets) > 1L
  out <- data.frame(
    logLik = unname(log_evidence(x) %||% NA_real_),
    df = numbers$df_model,
    df.residual = numbers$df_resid,
    nobs = x$nobs
  )
  if (family_of(x)$noise) out <- cbind(r.squared = numbers$r.squared, sigma = numbers$sigma, out)
  own <- setdiff(names(numbers), c("r.squared", "sigma", "df_model", "df_resid", "nobs", "log_marginal", "log_evidence"))
  out <- cbind(out, numbers[own], method = x$method, converged = x$converged, n_iter = x$n_iter)
  if (has_sets(x$posterior)) {
    if (!is.null(x$log_evidence_se)) out <- cbind(out, log_evidence_se = x$log_evidence_se)
    out <- cbind(out, inclusion_se = x$residual, agreement = x$agreement)
  }
  if (several) {
    out <- cbind(response = x$targets, out)
  }
  rownames(out) <- NULL
  as_tibble(out)
}

#' @rdname tidy.pybayesridge_fit
#' @exportS3Method generics::augment
augment.pybayesridge_fit <- function(x, data = NULL, newdata = NULL, interval = c("none", "credible", "prediction"),
                                     conf.level = 0.95, ...) {
  refuse_dots("augment", ...)
  interval <- family_of(x)$interval(interval)
  if (length(x$targets) > 1L) {
    stop("augment() is for fits of one target", call. = FALSE)
  }
  env <- parent.frame()
  own <- is.null(newdata)
  if (own) check_rows(x)
  if (!own) {
    table <- as.data.frame(newdata)
  } else if (!is.null(data)) {
    table <- as.data.frame(data)
  } else if (!is.null(x$terms)) {
    table <- own_frame(x, env)
    attr(table, "terms") <- NULL
  } else {
    labels <- case.names(x) %||% seq_len(x$nobs)
    table <- data.frame(row.names = labels)
    if (!is.null(x$x)) {
      table <- data.frame(as.matrix(x$x), row.names = labels, check.names = FALSE)
    }
  }
  out <- data.frame(.rownames = rownames(table), table, check.names = FALSE, stringsAsFactors = FALSE)
  if (is.numeric(attr(table, "row.names"))) {
    out$.rownames <- NULL
  }
  if (has_cuts(x)) {
    predicted <- with_environment(x, if (own && is.null(data)) NULL else table, interval, conf.level, env)
    out <- cbind(out, category_columns(predicted, x$categories))
    rownames(out) <- NULL
    return(as_tibble(out))
  }
  rows <- if (own && is.null(data)) {
    own_prediction(x, interval, conf.level, env)
  } else {
    augmented_rows(x, table, interval, conf.level, env)
  }
  out$.fitted <- unname(rows$fit)
  if (interval != "none") {
    out$.lower <- unname(rows$lwr)
    out$.upper <- unname(rows$upr)
  }
  residual <- if (own && is.null(data)) x$residuals else response_in(x, table, env)
  if (own && is.null(data)) {
    out$.resid <- unname(residual)
  } else if (!is.null(residual)) {
    out$.resid <- unname(residual) - out$.fitted
  }
  rownames(out) <- NULL
  as_tibble(out)
}

`%||%` <- function(a, b) if (is.null(a)) b else a

own_prediction <- function(x, interval, level, env) {
  if (interval == "none") {
    return(list(fit = x$fitted.values))
  }
  rows <- own_rows(x, env)
  trials <- trials_of_rows(x, rows, TRUE, prediction = interval == "prediction")
  rows <- rows$x
  noise <- if (interval == "prediction") noise_factors(x, nrow(rows), NULL, TRUE)
  limits <- if (interval == "prediction" && !family_of(x)$noise) {
    new_quantiles(list(x), list(rows), tails(check_level(level)), trials %||% x$exposure)
  } else {
    row_intervals(x, rows, 1L, tails(check_level(level)), noise)
  }
  if (interval == "credible" && !family_of(x)$noise) limits <- on_scale(x, limits, "response", x$exposure)
  list(fit = x$fitted.values, lwr = limits[, 1L], upr = limits[, 2L])
}

augmented_rows <- function(x, table, interval, level, env) {
  response <- if (interval == "prediction") new_response(x, table, env)
  trials <- if ("trials" %in% family_of(x)$keeps && length(dim(response)) == 2L) list(trials = rowSums(response))
  predicted <- with_environment(x, table, interval, level, env, trials)
  if (interval == "none") list(fit = predicted) else as.list(as.data.frame(predicted))
}

# predict() looks functions of the formula up where it was called from: here, where augment() was.
with_environment <- function(x, table, interval, level, env, more = NULL) {
  eval(
    as.call(c(quote(stats::predict), list(quote(fit), quote(table), interval = quote(interval), level = quote(level)), more)),
    list(fit = x, table = table, interval = interval, level = level),
    env
  )
}

# The response in new data as numbers, or NULL where it is not there.
response_in <- function(x, table, env) {
  values <- new_response(x, table, env)
  if (!is.null(values)) family_of(x)$observed(values, x)
}

# The same as it is there.
new_response <- function(x, table, env) {
  if (is.null(x$terms)) {
    return(NULL)
  }
  response <- attr(x$terms, "variables")[[2L]]
  if (!all(all.vars(response) %in% names(table))) {
    return(NULL)
  }
  eval(response, table, env)
}
