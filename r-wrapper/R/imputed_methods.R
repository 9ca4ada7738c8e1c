# Methods of pooled fits (imputed.R).

#' @rdname fit_imputed
#' @export
coef.pybayesridge_pooled <- function(object, ...) {
  refuse_dots("coef", ...)
  object$coefficients
}

#' @rdname fit_imputed
#' @export
vcov.pybayesridge_pooled <- function(object, target = NULL, ...) {
  refuse_dots("vcov", ...)
  target <- if (!is.null(target)) target_position(object, target)
  means <- vapply(object$fits, function(fit) {
    as.vector(as.matrix(fit$coefficients)[, target %||% seq_along(object$targets)])
  }, numeric(length(object$coefficients) / if (is.null(target)) 1 else length(object$targets)))
  within <- Reduce(`+`, lapply(object$fits, stats::vcov, target = target)) / length(object$fits)
  centred <- matrix(means, ncol = length(object$fits))
  centred <- centred - rowMeans(centred)
  within + tcrossprod(centred) / length(object$fits)
}

#' @rdname fit_imputed
#' @export
confint.pybayesridge_pooled <- function(object, parm, level = 0.95, ...) {
  refuse_dots("confint", ...)
  confint.pybayesridge_fit(object, parm, level)
}

#' @rdname fit_imputed
#' @export
nobs.pybayesridge_pooled <- function(object, ...) {
  refuse_dots("nobs", ...)
  object$nobs
}

#' @rdname fit_imputed
#' @export
family.pybayesridge_pooled <- function(object, ...) {
  refuse_dots("family", ...)
  stats::family(object$fits[[1L]])
}

#' @rdname inclusion_prob
#' @export
inclusion_prob.pybayesridge_pooled <- function(object, ...) {
  refuse_dots("inclusion_prob", ...)
  if (is.null(object$inclusion_prob)) check_selection(object$fits[[1L]], "inclusion_prob")
  object$inclusion_prob
}

#' @rdname fit_imputed
#' @export
predict.pybayesridge_pooled <- function(object, newdata, interval = c("none", "credible", "prediction"), level = 0.95,
                                        se.fit = FALSE, type = c("response", "link"), na.action = stats::na.pass, exposure = NULL, ...,
                                        trials = NULL) {
  refuse_dots("predict", ...)
  if (missing(newdata) || is.null(newdata)) {
    stop("'newdata' is required: the rows of the imputed data sets differ", call. = FALSE)
  }
  type <- match.arg(type)
  first <- object$fits[[1L]]
  interval <- family_of(first)$interval(interval)
  refuse_new_link(interval, type)
  check_level(level)
  env <- parent.frame()
  rows <- lapply(object$fits, new_rows, newdata, na.action, env)
  if (interval != "none" || se.fit) refuse_new_groups(first, rows[[1L]], "predict() of a pooled fit")
  complete <- !is.na(rowSums(rows[[1L]]$x))
  xs <- lapply(rows, function(each) each$x[complete, , drop = FALSE])
  extent <- exposure_of_rows(first, rows[[1L]], FALSE, exposure, newdata)[complete]
  trials <- trials_of_rows(first, rows[[1L]], FALSE, trials, newdata, interval == "prediction")[complete]
  pad <- function(v) padded(v, rows[[1L]], complete)
  parts <- lapply(seq_along(object$targets), function(target) {
    found <- if (type == "response" && isTRUE(family_of(first)$medians)) {
      rates_of(row_limits(object, xs, target, if (se.fit) around_median else 0.5, 0), se.fit)
    } else {
      total_moments(Map(function(fit, x) moments_of_rows(fit, x, target, type, se.fit), object$fits, xs))
    }
    by_family <- interval == "prediction" && !family_of(first)$noise
    if (interval != "none" && !by_family) {
      noise <- if (interval == "prediction") rep(1, sum(complete)) else 0
      limits <- row_limits(object, xs, target, tails(level), noise)
      found[c("lwr", "upr")] <- ends_of(if (type == "response") family_of(first)$mean(limits, first) else limits)
    }
    found <- with_exposure(found, type, extent)
    if (by_family) found[c("lwr", "upr")] <- ends_of(new_quantiles(object$fits, xs, tails(level), trials %||% extent))
    lapply(found, pad)
  })
  out <- prediction_shape(parts, interval, object$targets)
  if (!se.fit) {
    return(out)
  }
  se <- lapply(parts, `[[`, "se.fit")
  list(
    fit = out,
    se.fit = if (length(se) == 1L) se[[1L]] else matrix(unlist(se), ncol = length(se), dimnames = list(names(se[[1L]]), object$targets))
  )
}

moments_of_rows <- function(fit, x, target, type, se.fit) {
  if (!family_of(fit)$noise) {
    return(generalized_rows(fit, x, type, NULL, se.fit))
  }
  c(list(fit = linear_predictor(fit, x, target)), if (se.fit) list(se.fit = row_standard_deviations(fit, x, target)))
}

# Means and standard deviations of an equal-weight mixture.
total_moments <- function(parts) {
  of <- function(name) matrix(unlist(lapply(parts, `[[`, name)), ncol = length(parts))
  means <- of("fit")
  mean <- rowMeans(means)
  if (is.null(parts[[1L]]$se.fit)) {
    return(list(fit = mean))
  }
  list(fit = mean, se.fit = sqrt(rowMeans(of("se.fit")^2) + rowMeans((means - mean)^2)))
}

row_limits <- function(object, xs, target, probabilities, noise) {
  pooled_quantiles(object, seq_len(nrow(xs[[1L]])), probabilities, function(i, at) {
    law_of_rows(object$fits[[i]], xs[[i]][at, , drop = FALSE], target, rep(noise, length.out = length(at)))
  })
}

# Draws of posterior_sample(), each of a fit chosen at random.
pooled_draws <- function(object, n, ...) {
  which <- sample.int(length(object$fits), n, replace = TRUE)
  parts <- lapply(sort(unique(which)), function(i) posterior_sample(object$fits[[i]], sum(which == i), ...))
  out <- do.call(rbind, parts)
  out[order(order(which)), , drop = FALSE]
}

#' @rdname fit_imputed
#' @export
print.pybayesridge_pooled <- function(x, digits = max(3L, getOption("digits") - 3L), ...) {
  refuse_dots("print", ...)
  cat("\n", pooled_title(x), "\n\nCall:\n", sep = "")
  cat(paste(deparse(x$call), collapse = "\n"), "\n\nCoefficients (posterior means):\n", sep = "")
  b <- as.matrix(x$coefficients)
  if (nrow(b) > longest) {
    keep <- first_of_many(x$fits[[1L]], apply(pooled_importance(x), 1L, max))
    show_coefficients(b[keep, , drop = FALSE], digits)
    cat(left_out(nrow(b) - shown, !is.null(x$inclusion_prob), any(shown_last(x$fits[[1L]]))))
  } else {
    show_coefficients(b, digits)
  }
  cat("\n", pooled_note(x), "\n", sep = "")
  if (!x$converged) {
    cat("NOT CONVERGED: do not report these numbers\n")
  }
  invisible(x)
}

pooled_title <- function(x) paste0(title_of(x$fits[[1L]]), " (method \"", x$method, "\"), ", length(x$fits), " imputed data sets")

pooled_note <- function(x) {
  sprintf(
    "Pooled posterior of %d fits with equal weights; at most %.0f %% of the variance of a coefficient lies between them.",
    length(x$fits), 100 * max(x$between_share)
  )
}

# The mean of what coefficients of single fits are sorted by, k x q.
pooled_importance <- function(object) Reduce(`+`, lapply(object$fits, importance)) / length(object$fits)

#' @rdname fit_imputed
#' @export
summary.pybayesridge_pooled <- function(object, level = 0.95, ...) {
  refuse_dots("summary", ...)
  check_level(level)
  size <- pooled_importance(object)
  tables <- lapply(seq_along(object$targets), function(i) {
    at <- seq_len(nrow(size))
    if (length(at) > longest) at <- first_of_many(object$fits[[1L]], size[, i])
    out <- cbind(
      as.matrix(object$coefficients)[at, i], as.matrix(object$bse)[at, i], coefficient_intervals(object, i, tails(level), at),
      as.matrix(object$between_share)[at, i], if (!is.null(object$inclusion_prob)) object$inclusion_prob[at]
    )
    heads <- c("Mean", "SD", percent(tails(level)), "Between", if (!is.null(object$inclusion_prob)) inclusion)
    dimnames(out) <- list(rownames(size)[at], heads)
    out
  })
  names(tables) <- object$targets
  structure(
    list(
      call = object$call, title = pooled_title(object), targets = object$targets,
      coefficients = if (length(tables) == 1L) tables[[1L]] else tables, nobs = object$nobs, note = pooled_note(object),
      omitted = if (nrow(size) > longest) nrow(size) - shown else 0L, selection = !is.null(object$inclusion_prob),
      effects_last = any(shown_last(object$fits[[1L]])), level = level, converged = object$converged
    ),
    class = "summary.pybayesridge_pooled"
  )
}

#' @rdname fit_imputed
#' @export
print.summary.pybayesridge_pooled <- function(x, digits = max(3L, getOption("digits") - 3L), ...) {
  refuse_dots("print", ...)
  cat("\n", x$title, "\n\nCall:\n", sep = "")
  cat(paste(deparse(x$call), collapse = "\n"), "\n", sep = "")
  tables <- if (is.list(x$coefficients)) x$coefficients else list(x$coefficients)
  for (i in seq_along(tables)) {
    if (length(tables) > 1L) cat("\nTarget: ", x$targets[i], "\n", sep = "")
    cat("\nCoefficients:\n")
    print.default(columns_alike(tables[[i]], digits, ends = 3:4), print.gap = 2L, quote = FALSE, right = TRUE)
    if (x$omitted > 0L) cat(left_out(x$omitted, x$selection, x$effects_last))
  }
  cat("\nnobs ", x$nobs, " in each data set\n\nNotes:\n", sep = "")
  notes <- c(
    x$note, "Between: share of the variance that lies between the imputations.",
    if (!x$converged) "Warning: not all fits have converged."
  )
  cat(strwrap(paste("-", notes), exdent = 2L), sep = "\n")
  invisible(x)
}

#' @rdname fit_imputed
#' @exportS3Method generics::tidy
tidy.pybayesridge_pooled <- function(x, conf.int = FALSE, conf.level = 0.95, ...) {
  refuse_dots("tidy", ...)
  b <- as.matrix(x$coefficients)
  rows <- lapply(seq_along(x$targets), function(i) {
    out <- data.frame(term = rownames(b), estimate = unname(b[, i]), std.error = unname(as.matrix(x$bse)[, i]))
    if (length(x$targets) > 1L) out <- cbind(response = x$targets[i], out)
    if (!is.null(x$inclusion_prob)) out$inclusion_prob <- unname(x$inclusion_prob)
    out$between_share <- unname(as.matrix(x$between_share)[, i])
    if (conf.int) {
      check_level(conf.level)
      limits <- coefficient_intervals(x, i, tails(conf.level))
      out$conf.low <- limits[, 1L]
      out$conf.high <- limits[, 2L]
    }
    out
  })
  as_tibble(do.call(rbind, rows))
}

#' @rdname fit_imputed
#' @exportS3Method generics::glance
glance.pybayesridge_pooled <- function(x, ...) {
  refuse_dots("glance", ...)
  out <- data.frame(
    imputations = length(x$fits), nobs = x$nobs, method = x$method, converged = x$converged,
    between_share = apply(as.matrix(x$between_share), 2L, max)
  )
  if (length(x$targets) > 1L) out <- cbind(response = x$targets, out)
  rownames(out) <- NULL
  as_tibble(out)
}

#' @rdname fit_imputed
#' @exportS3Method posterior::as_draws_matrix
as_draws_matrix.pybayesridge_pooled <- function(x, n = 4000, kind = c("spike_slab", "gaussian"), seed = 0, ...) {
  refuse_dots("as_draws_matrix", ...)
  posterior::as_draws_matrix(joint_draws(x, n, if (!missing(kind)) match.arg(kind), seed))
}

#' @rdname fit_imputed
#' @exportS3Method posterior::as_draws_df
as_draws_df.pybayesridge_pooled <- function(x, ...) posterior::as_draws_df(posterior::as_draws_matrix(x, ...))

#' @rdname fit_imputed
#' @exportS3Method posterior::as_draws
as_draws.pybayesridge_pooled <- function(x, ...) posterior::as_draws_df(x, ...)

# Refuses pooled fits where a question is for one fit.
refuse_pooled <- function(object, name) if (inherits(object, "pybayesridge_pooled")) none_of_pooled(name)

# What a mixture of fits to different data does not have; the default methods would answer with NULL.
none_of_pooled <- function(name) {
  stop(name, "() is not defined for a pooled fit, whose data sets differ: the element 'fits' contains the single fits", call. = FALSE)
}

#' @export
fitted.pybayesridge_pooled <- function(object, ...) none_of_pooled("fitted")

#' @export
residuals.pybayesridge_pooled <- function(object, ...) none_of_pooled("residuals")

#' @export
logLik.pybayesridge_pooled <- function(object, ...) none_of_pooled("logLik")

#' @export
deviance.pybayesridge_pooled <- function(object, ...) none_of_pooled("deviance")

#' @export
sigma.pybayesridge_pooled <- function(object, use.fallback = TRUE, ...) none_of_pooled("sigma")

#' @export
df.residual.pybayesridge_pooled <- function(object, ...) none_of_pooled("df.residual")

#' @export
plot.pybayesridge_pooled <- function(x, ...) none_of_pooled("plot")
